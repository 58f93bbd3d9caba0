// What of a kernel with roles does not wait for earlier launches.
//
// A launch of a graph may begin before the end of those that it follows, and then waits for them (griddepcontrol.wait).
// Weights need not wait: nothing beside the launch writes them (LaunchParam.fixed, a fact of the graph). So where one
// operand of a product is of such a tensor and another is not, each has a producer of its own, a thread of another
// warp:
//
//     roles { wait_launches;  for ... { wait empty; expect a; tma_load a } }
//     and   { bias;           for ... { wait full; wgmma };  wait_launches;  c[m, n] = acc + bias + residual[m, n] }
//     and   {                 for ... { wait empty; expect b; tma_load b } }
//
// A stage is full when both have brought what they said. The ring's weights are on their way, or there, when the last
// block of the launch before ends; the consumers wait where they first touch what is no weight, mostly after the loop.
// The emulator holds each warp to that (EmuOptions.early).
//
// An H200, bf16, one graph (2026-11-21): ResNet-50 at batch 1 183 to 166 us, BERT 423 to 410, ViT-B/16 341 to 331,
// GPT-2 843 to 837; 60 products of 512 x 768 x 768 in a row 206 to 194, 180 with weights that lie in L2 either way.
#include "lower/specialize/specialize.h"

static bool of_fixed(const Ws *h, const Op *load) {
    const LaunchParam *p = &h->f->launch->params[load->in[0]->def->imm];
    return p->mode == PM_IN && p->fixed;
}

static bool reads_scalars(const Region *r) {                     // with which the producers would compute addresses
    for (const Op *op = r->first; op; op = op->next) if (op->code == OP_T_load && op->out[0]->type.rank == 0) return true;
    return false;
}

uint32_t ws_fixed(Ws *h) {
    uint32_t bytes = 0, all = h->stage_bytes[0] + h->once_bytes;
    if (!h->opt->target->has_pdl || !h->f->early || h->rings > 1 || h->low_bytes || h->cluster > 1 || h->keep || ws_gathered_bytes(h, -1) || ws_any_boxes(h) || reads_scalars(&h->f->body))
        return 0;
    for (int i = 0; i < h->nloops; i++) if (reads_scalars(h->loops[i]->reg[0])) return 0;
    for (int i = 0; i < h->np; i++)
        for (int k = 0; k < 2; k++) {
            Operand *o = &h->p[i].op[k];
            if (o->where != RING || o->same || !of_fixed(h, o->load)) continue;
            o->fixed = true;
            bytes += o->bytes;
        }
    for (int i = 0; i < h->nsources; i++)
        if ((h->source[i].fixed = of_fixed(h, h->source[i].load))) bytes += h->source[i].bytes;
    for (int i = 0; i < h->nvectors; i++)
        if ((h->vector[i].fixed = of_fixed(h, h->vector[i].load))) bytes += h->vector[i].bytes;
    bool each = true;                                          // of several loops: both producers bring something of each
    for (int i = 0; i < h->nloops && h->nloops > 1; i++) {
        ws_at(h, i);
        each &= ws_brought(h, 0, true) > 0 && ws_brought(h, 0, false) > 0;
    }
    if (h->nloops > 1 ? each && bytes : bytes < all) return bytes;
    for (int i = 0; i < h->np; i++) for (int k = 0; k < 2; k++) h->p[i].op[k].fixed = false;
    for (int i = 0; i < h->nsources; i++) h->source[i].fixed = false;
    for (int i = 0; i < h->nvectors; i++) h->vector[i].fixed = false;
    return 0;
}

static bool touches_others(const Ws *h, const Op *op) {         // memory that earlier launches may write, or read
    static const bool global[OP_T_COUNT] = {[OP_T_load] = true,     [OP_T_store] = true,     [OP_T_ptrload] = true,
                                            [OP_T_ptrstore] = true, [OP_T_atomic] = true,    [OP_T_part_put] = true,
                                            [OP_T_part_get] = true, [OP_T_part_send] = true, [OP_T_part_join] = true};
    if (global[op->code])
        return op->code == OP_T_load ? !of_fixed(h, op) : op->code != OP_T_part_put || op->attr == PUT_memory || op->attr == PUT_all;
    for (int i = 0; i < op->nreg; i++)
        for (const Op *in = op->reg[i]->first; in; in = in->next) if (touches_others(h, in)) return true;
    return false;
}

void ws_wait_late(const Ws *h, Region *consumers) {
    Op *op = consumers->first;
    while (op->next && !touches_others(h, op)) op = op->next;
    Builder b = {h->f, consumers, op, op->span};
    ws_effect(&b, OP_T_wait_launches, 0, NULL);
}
