// How long a loop of products inside another one takes (a linear layer with its cross-entropy, k-means; specialize/outer_loop.c).
//
//     an outer trip   = the inner one's products, and what stands between them and the next ones
//     blocks          that share a multiprocessor, by shorter rings, multiply while others are between two inner loops, so that each adds the
//                     time of its products alone
//     memory          rows that are read again and again come from it where all blocks' together are more than the second level's cache
//     parts           of the outer loop (split_k.c): of few rows, or of so many that half of them at a time are in that cache: parts of a tile read the same rows
//
//     k-means of 131072 x 128 points, 1024 centres, by 64 x 128      4 stages, two blocks: 93 us      3 stages, three blocks: 82 us
#include "lower/cost/work.h"

// Of one group and more: us from one's last product to the next one's first, and of an operation on an element of a thread; until a stage that is read is there
// again, beside trips; of the second level's cache, what rows that are read again may take, and how much more until all come from memory.
static const double BETWEEN[] = {0, 0.38, 0.5, 0.5}, ELEMENT_OP[] = {0, 1.3e-3, 2.0e-3, 2.0e-3}, REFILL = 0.42, REFILL_TRIPS = 1.25, KEPT = 0.7, LOST = 0.5;
static const double SUM_REGS = 1.75, OP_REGS = 12, FEW_OPS = 4, SPILLED = 0.03, FULL_CLOCK = 0.97;       // registers: of a sum, of an operation on an element beyond so many; us of one that there is no room for
static const double JOINED = 6, JOINS = 1e4;         // us for parts to meet; bytes a us of what they carry
enum { SCRATCH = 512, RESERVED = 1024, MOST_THREAD = 255, LEAST_STAGES = 3, PARTITIONS = 4 };            // of a multiprocessor's registers

static double carried(const Work *w) {                     // bytes, from one outer trip to the next
    double bytes = 0;
    for (int i = 0; i < w->nest->nout; i++) {
        const Type *t = &w->nest->out[i]->type;
        if (t->kind == TY_TILE) bytes += (double)type_lanes(t) * elem_bytes((Elem)t->elem);
    }
    return bytes;
}

double nest_us(const Work *w, const Target *t, int together, int parts, int given, int *stages) {
    const Rates *r = &by_wgmma;
    int groups = w->threads / 128;
    double stored = 0, elements = w->tile / w->threads, wgmma = w->clocks * (2 * 64 * 256 * 16 / 128) / (t->tflops_bf16 * 1e6 / t->sms);
    for (const Op *op = w->nest->reg[0]->first; op; op = op->next)
        if (op->code == OP_T_store && op_value(op)->type.rank > 1) stored = w->tile * elem_bytes((Elem)op_value(op)->type.elem);
    double room = fmin((double)t->smem_block, t->smem_sm / together - RESERVED) - SCRATCH - stored, regs = w->regs * SUM_REGS + OP_REGS * fmax(0, w->between - FEW_OPS);
    *stages = (int)fmin(given ? given : MAX_RING, room / w->bytes);
    if (*stages < (together > 1 ? LEAST_STAGES : 2)) return 0;
    int warps = 4 * groups + (w->gathered > 0 || groups > 1 ? 4 : 1), each = (int)ceil(fmin(regs, MOST_THREAD) / 8) * 8 * 32;
    if (together > 1 && (groups > 1 || warps * together > PARTITIONS * ((int)t->regs_sm / PARTITIONS / each))) return 0;
    double trip = fmax(wgmma / FULL_CLOCK, w->drawn / r->l2) + w->gathered / GATHERED + r->barriers, alone = fmax(trip, (REFILL + REFILL_TRIPS * trip) / (*stages - 1));
    double inner = (double)w->trips * trip, between = BETWEEN[groups] + elements * w->between * ELEMENT_OP[groups] + SPILLED * fmax(0, regs - MOST_THREAD) * groups;
    double programs = (double)w->programs * parts, full = floor(programs / (t->sms * together)), rest = ceil((programs - full * t->sms * together) / t->sms), outer = ceil((double)w->outer / parts), us = parts > 1 ? JOINED + parts * carried(w) / JOINS : 0;
    for (int last = 0; last < 2; last++) {
        double blocks = last ? rest : together, times = last ? rest > 0 : full, at_once = last && full <= 0 ? programs : t->sms * blocks;
        double live = at_once / parts * w->again * (double)w->trips, lost = fmin(1, fmax(0, live / (double)t->l2_bytes - KEPT) / LOST);
        double one = fmax((double)w->trips * alone + between, blocks * inner + between), memory = lost * live / (t->gbs * r->memory * 1e3);
        us += times * (outer * hypot(one, memory) + r->end);
    }
    double all = w->unique / (t->gbs * r->memory * 1e3), power = programs * outer * (double)w->trips * wgmma / POWER / t->sms;
    return START + r->fill + fmax(us, fmax(all, power)) + w->idle / t->sms * IDLE;
}
