// Scales of a trip's product, loaded a trip ahead.
//
//     for k by 128 {                                       s0, s1 = sa[m, 0], sb[n, 0]
//         d = dot(a[m, k], b[n, k])                        for k by 128 {
//         acc += d * (sa[m, k / 128] * sb[n, k / 128])  ->     s = s0 * s1;  d = wgmma A, B;  s0, s1 = sa[m, next], sb[n, next]
//     }                                                        wait for d;  acc += d * s
//                                                          }
//
// For a product that is added in f32 in each trip (f8), whose trip loads numbers, or one for each row: blocks' scales. (Of columns a thread has too many.) What they come to is computed
// before the product begins, so that the next trip's are loaded into the same registers: loaded into others they are copied at the trip's end, which waits for them.
// H200, 4096 x 14336 x 4096 and 8192^3 with scales of 1 x 128 and 128 x 128, by 128 x 128: 493 and 1198 us by loads in their trip, 473 and 1120 ahead into other registers,
// 427 and 1026 so (2026-11-24).
#include "lower/specialize/specialize.h"

enum { FEW = 8 };                                              // registers

static bool stands_before(const Op *dot, const Val *v) {
    const Region *body = dot->parent;
    if (!v->def || v->def->parent != body) return v->region != body || v == body->args.at[0];
    for (const Op *op = v->def; op; op = op->next) if (op == dot) return true;
    return false;
}

static bool is_ahead(const Ws *h, const Op *load) {
    for (int i = 0; i < h->naheads; i++) if (h->ahead[i].load == load) return true;
    return false;
}

static void bring_before(Ws *h) {
    Op *dot = h->p[0].dot;
    for (Op *op = dot->next, *next; op; op = next) {
        next = op->next;
        bool early = is_ahead(h, op) || (op_has(op, 'P') && !op->nreg && op->nout == 1 && op->out[0]->type.rank <= 1);
        for (int i = 0; i < op->nin; i++) early = early && stands_before(dot, op->in[i]);
        if (!early) continue;
        op_remove(op);
        op_before(dot, op);
    }
}

// Of a thread: rows of wgmma's result are two for each 64, columns a fourth.
int64_t ws_row_registers(const Ws *h, const Val *v) {
    if (v->type.kind != TY_TILE || v->type.rank != 1) return 1;
    int64_t extent = axis_extent(v->type.axis[0]);
    return v->type.axis[0] == h->p[0].row ? extent / 32 / h->groups : extent / 4;
}

bool ws_scales(Ws *h) {
    const Product *p = &h->p[0];
    if (h->np != 1 || h->nest || !p->promoted || p->op[0].where == REGISTERS) return false;
    for (Op *op = h->loop->reg[0]->first; op; op = op->next) {
        if (op->code != OP_T_load || op->out[0]->type.rank > 1 || ws_is_ring_load(h, op) || ws_row_registers(h, op->out[0]) > FEW || ws_runs_ahead(h, op) != 1) continue;
        if (h->naheads == MAX_SOURCES || h->nahead == MAX_AHEAD || h->loop->nout + 2 * h->nahead > MAX_CARRIED - 2) break;
        h->ahead[h->naheads].load = op;
        h->ahead[h->naheads++].runs = 1;
        h->nahead++;
    }
    if (h->nahead) bring_before(h);
    return h->nahead > 0;
}
