// Several loops of products, one after the other, by one ring: recurrent cells, a convolution and the projection beside it, a product of rows that
// nobody has put side by side.
//
//     for k in K by BK { acc += dot(x[m, k], w[k, n]) }       producer                                 consumers
//     for j in J by BJ { acc += dot(h[m, j], u[j, n]) }  ->   for k { wait empty; tma_load x, w }      for k { wait full;  acc = wgmma x, w, acc;  release }
//     y[m, n] = acc                                           for j { wait empty; tma_load h, u }      for j { wait full;  acc = wgmma h, u, acc;  release }
//                                                                                                      y[m, n] = acc
//
// Each role has all of the loops, and the ring's position goes on from one to the next, so that it is filled for the second while the first one is
// multiplied. Where the second adds to the sums of the first, its first trip's products begin while those of the first one's last trip are on their way.
// From there on all is as with one loop: blocks walk, groups make tiles in turns, a tile behind the loops comes by TMA.
//
// A stage is as long as the longest loop's. It is in parts, and each loop has an operand in each: the largest ones first, so that parts fit.
//
//     x 128 x 64, w 64 x 256                 part 0: w or u, 32 KB      part 1: x or h, 16 KB, of which h takes 8
//     h 128 x 32, u 64 x 256
//
// Loops may differ in lengths, in what they multiply and how that lies (rows, columns, pixels), in what they add to. Nothing of a later one may be made
// of what an earlier one has come to, but its sums. For products that are all made as rows or all as columns, of operands that are loaded; not for
// those that other warps prepare or that data names the rows of, and not in clusters.
#include "lower/specialize/specialize.h"

#include <string.h>

static bool is_loop(const Ws *h, const Op *op) {
    for (int i = 0; i < h->nloops; i++) if (h->loops[i] == op) return true;
    return false;
}

// Between the loops, and made before them: not of what they have come to, nor of what somebody writes.
static bool movable(const Ws *h, const Op *op) {
    bool read = op->code == OP_T_load && h->f->launch->params[op->in[0]->def->imm].mode == PM_IN;
    for (int i = 0; i < op->nin; i++) if (op->in[i]->def && is_loop(h, op->in[i]->def)) return false;
    return op->nreg == 0 && (op_has(op, 'P') || read);
}

const char *ws_loops_apart(const Ws *h) {
    for (const Op *op = h->loops[0]; op != h->loops[h->nloops - 1]; op = op->next) {
        if (is_loop(h, op) || movable(h, op)) continue;
        return "the products are not in one loop";
    }
    return NULL;
}

void ws_loops_together(Ws *h) {
    for (Op *op = h->loops[0]->next, *next; h->nloops > 1 && op != h->loops[h->nloops - 1]; op = next) {
        next = op->next;
        if (is_loop(h, op)) continue;
        op_remove(op);
        op_before(h->loops[0], op);
    }
}

void ws_at(Ws *h, int i) {
    h->at = i;
    h->loop = h->loops[i];
    h->from = h->first[i];
    h->to = h->first[i + 1];
}

bool ws_last(const Ws *h) { return h->at == h->nloops - 1; }

// ---- what it is for --------------------------------------------------------------------------------

// The earlier loop's result that it adds to.
static const Val *begins_with(const Ws *h, const Product *p, const Op *loop) {
    const Val *acc = op_acc(p->dot), *from = NULL;
    for (int i = 0; acc && i < loop->nout; i++) if (loop->reg[0]->args.at[1 + i] == acc) from = loop->in[3 + i];
    return from && from->def && is_loop(h, from->def) ? from : NULL;
}

const char *ws_loops_refuse(Ws *h) {
    const Product *p = h->p;
    if (h->nloops == 1) return NULL;
    for (int l = 0; l < h->nloops; l++) {
        bool any = false;
        for (int i = h->first[l]; i < h->first[l + 1]; i++) {
            h->p[i].goes_on = begins_with(h, &p[i], h->loops[l]) != NULL;
            if (p[i].row != p->row || p[i].col != p->col) return "products of several loops differ in their tiles";
            if (p[i].swapped != p->swapped || p[i].promoted != p->promoted) return "products of several loops differ in kind";
            for (int k = 0; k < 2; k++) {
                const Operand *o = &p[i].op[k];
                if (o->where == REGISTERS || o->where == ACROSS) return "an operand of several loops is computed";
                if (o->seen) return "an operand of several loops is used elsewhere too";
                if (o->gathered) return "rows of an operand of several loops are gathered";
                if (o->turned) return "an operand of several loops is turned in shared memory";
                any |= o->where == RING && !o->same;
            }
        }
        if (!any) return "nothing is loaded in a loop";
    }
    return NULL;
}

// All sums of the loop before, and no others: a sum that begins while products are on their way has ptxas wait for each of them.
bool ws_goes_on(const Ws *h, int i) {
    if (i < 1 || i >= h->nloops || !h->pipelined) return false;
    const Op *was = h->loops[i - 1], *loop = h->loops[i], *yield = was->reg[0]->last;
    for (int q = h->first[i]; q < h->first[i + 1]; q++) {
        const Val *from = begins_with(h, &h->p[q], loop);
        if (!from || from->def != was) return false;
    }
    for (int p = h->first[i - 1]; p < h->first[i]; p++)
        for (int k = 0; k < was->nout; k++) {
            bool on = false;
            if (yield->in[k] != h->p[p].dot->out[0]) continue;
            for (int q = h->first[i]; q < h->first[i + 1]; q++) on |= begins_with(h, &h->p[q], loop) == was->out[k];
            if (!on || region_uses(&h->f->body, was->out[k]) != 1) return false;
        }
    return true;
}

int64_t ws_sums(const Ws *h, int64_t (*of)(const Product *p)) {
    int64_t sum = 0;
    for (int i = 0; i < h->np; i++) if (!h->p[i].goes_on) sum += of(&h->p[i]);
    return sum;
}

// ---- a stage ---------------------------------------------------------------------------------------

static uint32_t up(uint32_t bytes) { return (bytes + 8 * SPAN - 1) & ~(uint32_t)(8 * SPAN - 1); }

uint32_t ws_stage_parts(Ws *h) {
    uint32_t all = 0;
    memset(h->place_bytes, 0, sizeof h->place_bytes);
    for (int l = 0; l < h->nloops; l++) {
        Operand *in[MAX_PLACES];
        int n = 0;
        for (int i = 2 * h->first[l]; i < 2 * h->first[l + 1]; i++) {
            Operand *o = &h->p[i / 2].op[i % 2];
            if (o->where != RING || o->same) continue;
            int at = n++;
            for (; at > 0 && in[at - 1]->bytes < o->bytes; at--) in[at] = in[at - 1];
            in[at] = o;
        }
        for (int i = 0; i < n; i++) {
            in[i]->place = i;
            if (h->place_bytes[i] < in[i]->bytes) h->place_bytes[i] = up(in[i]->bytes);
        }
    }
    for (int i = 0; i < MAX_PLACES; i++) all += h->place_bytes[i];
    return all;
}

uint32_t ws_brought(const Ws *h, int ring, bool fixed) {
    if (h->nloops == 1) return fixed ? h->fixed_bytes : h->stage_bytes[ring] - h->fixed_bytes - ws_gathered_bytes(h, ring) - h->low_bytes;
    uint32_t bytes = 0;
    for (int i = 2 * h->from; i < 2 * h->to; i++) {
        const Operand *o = &h->p[i / 2].op[i % 2];
        if (o->where == RING && !o->same && o->fixed == fixed) bytes += o->bytes;
    }
    return bytes;
}
