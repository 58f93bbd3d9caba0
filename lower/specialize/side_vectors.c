// Vectors that a trip loads beside its tiles, brought by TMA into the ring's stages.
//
//     for m {                                                  producer                              consumers
//         p = exp2(dot(k, q[m, :]) - lse[m]);                  wait empty;  tma_load q, dout,        wait full;  s = wgmma K, Q;  dp = wgmma V, DO;
//         ds = p * (dot(v, dout[m, :]) - delta[m])        ->             lse, delta                  wait for s;  p = exp2(s - l), l = buffer_row lse;  ..
//         ..                                                                                        each warp: it is read
//     }
//
// Of a product whose columns they go with each thread wants a fourth: registers that loads a trip ahead do not find, so that a trip waits for
// memory in the middle of its chain. Attention's gradients, B4 H16 S4096 D128, spent a fifth of their time so (ncu, an H200, 2026-11-28).
//
// For loops of several products of which some wait for others (specialize/independent_products.c); of one axis that lies together in memory, of 128, 256 .. bytes, whose
// dead lanes are past the tensor's end, where TMA brings zeros. Threads read these stages themselves, so a stage is free when each warp has said so.
#include "lower/specialize/specialize.h"

enum { LINE = 128, MOST_LANES = 256, FEW = 16 };               // bytes that a box begins at a multiple of; lanes of a box; registers

static bool vector(Ws *h, Op *load, Operand *o) {
    const Type *t = &load->out[0]->type;
    *o = (Operand){.where = RING, .load = load, .outer_dim = -1};
    if ((load->flags & HAS_ELSE) || t->rank != 1 || t->elem == EL_bool) return false;
    access_shape(h->facts, load, &o->a);
    const Access *a = &o->a;
    int size = elem_bytes(a->elem), unit = 16 / size;
    const Affine *in = &a->aff[a->inner];
    if (a->p->mode != PM_IN || a->p->strided || a->nidx < 1 || a->nidx > 5) return false;
    for (int d = 0; d < a->nidx; d++) {
        if (!ws_place_computable(h, &a->aff[d]) || a->aff[d].ntile || a->aff[d].naxis != (d == a->inner)) return false;
        if (d != a->inner && !a->unit[d] && !fact_stride_divides(h->facts, a->param, d, unit)) return false;
    }
    if (in->axis[0].k != 1 || in->axis[0].scale || in->c % unit) return false;
    for (int i = 0; i < in->nterm; i++) if (in->term[i].k % unit && !fact_divides(h->facts, in->term[i].v, unit)) return false;
    o->inner = in->axis[0].axis;
    o->columns = axis_extent(o->inner);
    o->bytes = (uint32_t)(o->columns * size);
    return o->bytes % LINE == 0 && o->columns <= MOST_LANES && ws_ends_with(h, o->inner, a->p->dim[a->inner]);
}

// A vector, or what is made of nothing but vectors; of those that take more than a few registers.
static bool rides(const Ws *h, const Op *op) {
    bool any = false;
    if (ws_is_vector(h, op)) return ws_row_registers(h, op->out[0]) > FEW;
    if (!op_has(op, 'P') || op->nreg || op->nout != 1 || op->out[0]->type.kind != TY_TILE || op->out[0]->type.rank != 1) return false;
    for (int i = 0; i < op->nin; i++) any |= op->in[i]->def && op->in[i]->def->parent == op->parent && rides(h, op->in[i]->def);
    return any;
}

static Op *first_user(const Op *op) {
    for (Op *user = op->next; user; user = user->next) {
        for (int i = 0; i < user->nin; i++) if (user->in[i] == op->out[0]) return user;
        for (int i = 0; i < user->nreg; i++) if (region_uses(user->reg[i], op->out[0])) return user;
    }
    return NULL;
}

// Each to where it is wanted: it has registers from there on. The others are read while products are on their way, behind which a read waits its turn.
static void bring_late(Ws *h) {
    for (Op *op = h->loop->reg[0]->last, *before; op; op = before) {
        before = op->prev;
        Op *user = rides(h, op) ? first_user(op) : NULL;
        if (!user) continue;
        op_remove(op);
        op_before(user, op);
    }
}

const Op *ws_behind_vectors(const Ws *h, const Op *op) {
    while (h->nvectors && op->next && rides(h, op)) op = op->next;
    return op;
}

void ws_vectors(Ws *h) {
    h->nvectors = 0;
    bool waits = h->np > 1 && h->nloops == 1 && !h->chained && !h->pipelined && !h->nest && !h->nsources && !h->naheads && !h->by_threads;
    if (!waits || h->slices > 1 || h->tiles * h->bands > 1 || h->opt->schedule.cluster > 1 || ws_gathered_bytes(h, -1)) return;
    for (Op *op = h->loop->reg[0]->first; op && h->nvectors < MAX_SOURCES; op = op->next)
        if (op->code == OP_T_load && vector(h, op, &h->vector[h->nvectors])) h->stage_bytes[0] += h->vector[h->nvectors++].bytes;
    if (h->nvectors) bring_late(h);
}

bool ws_is_vector(const Ws *h, const Op *load) {
    for (int i = 0; i < h->nvectors; i++) if (h->vector[i].load == load) return true;
    return false;
}

bool ws_take_vector(Ws *h, Builder *b, const Op *load, Val *stage, ValMap *map) {
    for (int i = 0; i < h->nvectors; i++) {
        const Operand *o = &h->vector[i];
        if (o->load != load) continue;
        Val *axis = map_get(map, o->inner);
        b->span = load->span;
        Val *v = b_op(b, OP_T_buffer_row, 0, type_tile((Elem)load->out[0]->type.elem, 1, &axis), 3, (Val *[]){o->buffer, stage, axis});
        v->name = load->out[0]->name;
        map_set(map, load->out[0], v);
        return true;
    }
    return false;
}
