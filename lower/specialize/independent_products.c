// Loops of several products on Hopper that are neither sums alone nor a chain of two, as a flash-attention's backward:
//
//     s  = dot(k, q over d)         one q in shared memory, read by rows here ..
//     dp = dot(v, do over d)        wants nothing but what is loaded: begins with the first one
//     p  = exp(s * scale - l)       waits for s alone; dp is on its way
//     dv += dot(p, do over m)       .. and by columns there
//     ds = p * (dp - delta)         waits for dp; dv is on its way
//     dk += dot(ds, q over m)
//                                   the trip's end waits for all
#include "lower/specialize/specialize.h"

#include <string.h>

// ---- which begin first ---------------------------------------------------------------------------

static bool stands_behind(const Op *at, const Op *op) {
    for (const Op *x = at; x; x = x->next) if (x == op) return true;
    return false;
}

static bool may_begin(const Ws *h, const Op *at, const Op *op) {
    if (!stands_behind(at, op)) return true;
    if (!op_has(op, 'P') && !ws_is_ring_load(h, op)) return false;
    bool early = true;
    for (int i = 0; i < op->nin && early; i++)
        early = !op->in[i]->def || (op->in[i]->def->code != OP_T_dot && may_begin(h, at, op->in[i]->def));
    return early;
}

static void begin(Op **at, Op *op) {
    if (!op || !stands_behind(*at, op)) return;
    for (int i = 0; i < op->nin; i++) begin(at, op->in[i]->def);
    if (op == *at) {
        *at = op->next;
        return;
    }
    op_remove(op);
    op_before(*at, op);
}

void ws_products_first(Ws *h) {
    bool seen = ws_any_seen(h);                               // then even the first one, while others look at its operands
    Op *at = seen ? h->loop->reg[0]->first : h->p[h->from].dot->next;
    for (int i = h->from + !seen; i < h->to; i++) {
        Op *dot = h->p[i].dot;
        bool waits = (dot->flags & HAS_ACC) && (!seen || dot->in[2]->def);
        if (h->p[i].op[0].where != REGISTERS && !waits && may_begin(h, at, dot)) begin(&at, dot);
    }
    Product was[MAX_PRODUCTS];
    memcpy(was, h->p, sizeof was);
    int n = h->from;
    for (const Op *op = h->loop->reg[0]->first; op; op = op->next)
        for (int i = h->from; i < h->to; i++) if (was[i].dot == op) h->p[n++] = was[i];
}

// ---- tiles that several take ----------------------------------------------------------------------

// A tile that several products take is loaded once: wgmma reads it by rows or by columns, so they may contract either
// of its axes, if it lies the same way for both. Rows past the end of a contracted axis are cleared for all; to those
// that keep the axis they are dead.
void ws_share(Ws *h) {
    for (int i = 1; i < h->np; i++)
        for (int j = 0; j < 2; j++) {
            Operand *o = &h->p[i].op[j];
            for (int e = 0; e < 2 * i && (o->load || o->tile) && !o->same; e++) {
                Operand *was = &h->p[e / 2].op[e % 2];
                if (was->load != o->load || was->tile != o->tile || was->same || was->swizzle != o->swizzle ||
                    was->columns != o->columns)
                    continue;
                o->same = was;
                was->clear |= o->clear;
            }
        }
}

// ---- what is on its way ----------------------------------------------------------------------------

void ws_started(Flight *f, const Op *dot, Val *from) {
    f->dot[f->n] = dot;
    f->from[f->n++] = from;
}

int ws_wanted(const Flight *f, const Op *op) {
    for (int i = f->n; i > 0; i--) {
        const Val *v = f->dot[i - 1]->out[0];
        for (int k = 0; k < op->nin; k++) if (op->in[k] == v) return i;
        for (int k = 0; k < op->nreg; k++) if (region_uses(op->reg[k], v)) return i;
    }
    return 0;
}

void ws_settle(Flight *f, Builder *b, ValMap *map, int n) {
    if (n == 0) return;
    Val *from[2 * MAX_DOTS], *v[2 * MAX_DOTS];
    int values = 0;
    for (int i = 0; i < n; i++) from[values++] = f->dot[i]->out[0];
    for (int i = 0; i < n; i++) if (f->from[i]) from[values++] = f->from[i];
    for (int i = 0; i < values; i++) v[i] = map_get(map, from[i]);
    ws_wait_all(b, f->n - n, values, v);
    for (int i = 0; i < values; i++) map_set(map, from[i], v[i]);
    for (int i = n; i < f->n; i++) {
        f->dot[i - n] = f->dot[i];
        f->from[i - n] = f->from[i];
    }
    f->n -= n;
}
