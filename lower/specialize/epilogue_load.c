// A tile that what follows the loop reads, as a residual: it comes by TMA while the products are made.
//
//     producer                                            consumers
//     for ... { wait empty; tma_load a, b }               for ... { wait full; acc = wgmma a, b, acc }
//     wait until the last tile's is read;  tma_load r     wait for r;  y = acc + buffer_load r;  store y;  it is read
//
// Loaded by the consumers themselves it would be on its way from memory while nobody multiplies, 1.5 us of a tile of
// 128 x 128, in as many registers as it has words. The producer asks for it when all of the tile's operands are on
// their way: a ring's length before the loop ends, and by then what was there has been read, a whole loop ago.
//
// One buffer does for both groups of a block that make tiles in turns, with a barrier for each: a wait tells phases
// apart by parity alone, and so they are told apart by those that see all of them.
//
// For a plain tensor that nobody writes, in rows (or a convolution's pixels) and columns of the tile, whose rows come
// in whole 128 bytes; stored behind the loop in all cases, which is where the groups' threads have met and the buffer
// may be filled again; and where the ring that is left is long enough.
#include "lower/specialize/specialize.h"

// clocks of multiplication that stages are ahead: see ws_whole_slots
enum { ENOUGH = 1000 };

static bool known(const Ws *h, const Affine *x) {
    for (int t = 0; t < x->nterm; t++) if (!ws_computable(h, x->term[t].v)) return false;
    return true;
}

static bool behind_loop(const Ws *h, const Op *d) {
    for (const Op *op = h->loop->next; op; op = op->next) if (op == d) return true;
    return false;
}

// Where a window begins is computed before the roles part.
static bool made_behind(const Ws *h, const Affine *x) {
    bool any = false;
    for (int t = 0; t < x->nterm; t++) any |= x->term[t].v->def && behind_loop(h, x->term[t].v->def);
    return any;
}

// Rows along one dimension, or pixels; columns along the innermost.
static bool placed(Ws *h, Operand *o) {
    const Access *a = &o->a;
    bool window = false, rows = false, cols = false;
    for (int d = 0; d + 1 < a->nidx; d++) window |= a->aff[d].ntile > 0;
    if (window) {
        o->window = NEW(h->f->arena, Window);
        if (a->inner + 1 < a->nidx || ws_window(h, a, a->nidx - 1, false, o->window) || o->window->rows != o->outer)
            return false;
        for (int i = 0; i < o->window->n; i++) if (!known(h, &o->window->at[i].base) || made_behind(h, &o->window->at[i].base)) return false;
        rows = true;
    }
    for (int d = window ? a->inner : 0; d < a->nidx; d++) {
        const Affine *x = &a->aff[d];
        if (x->ntile || x->naxis > 1 || !known(h, x)) return false;
        if (!x->naxis) continue;
        if (x->axis[0].k != 1 || x->axis[0].scale) return false;
        if (x->axis[0].axis == o->inner && d == a->inner) cols = true;
        else if (x->axis[0].axis == o->outer && d != a->inner && !rows) { rows = true; o->outer_dim = d; }
        else return false;
    }
    return rows && cols;
}

static bool fits(Ws *h, Op *op, Operand *o) {
    const Product *p = &h->p[h->np - 1];
    if (op->code != OP_T_load || op->out[0]->type.rank != 2 || (op->flags & HAS_ELSE)) return false;
    int size = elem_bytes((Elem)op->out[0]->type.elem);
    if ((size != 2 && size != 4) || op->out[0]->type.elem == EL_bool) return false;
    *o = (Operand){
        .where = ONCE, .load = op, .outer = p->row, .inner = p->col, .columns = axis_extent(p->col), .swizzle = SPAN};
    o->bytes = (uint32_t)(o->columns * axis_extent(p->row) * size);
    access_shape(h->facts, op, &o->a);
    if (o->a.p->mode != PM_IN || o->a.p->strided || o->a.nidx < 2 || o->a.nidx > 5 || o->columns * size % SPAN) return false;
    return access_aligned(h->facts, &o->a, 16 / size) && placed(h, o);
}

uint32_t ws_behind_bytes(Ws *h) {
    bool stored = false;
    h->behind.load = NULL;
    if (h->chained || h->keep || h->slices > 1 || h->bands > 1 || h->follows || h->f->dealt || h->loop->parent != &h->f->body ||
        h->p[0].swapped || h->p[0].row != h->p[h->np - 1].row)
        return 0;
    for (Op *op = h->loop->next; op; op = op->next) {
        Operand o;
        if (!h->behind.load && fits(h, op, &o)) h->behind = o;
        else stored |= h->behind.load && op->code == OP_T_store && op_value(op)->type.rank == 2;
    }
    return h->behind.load && stored ? h->behind.bytes : 0;
}

bool ws_behind_short(const Ws *h) {
    const Product *p = &h->p[0];
    int64_t n = axis_extent(p->col), each = n / 2 > 18 + n / 4 ? n / 2 : 18 + n / 4;
    int64_t clocks = (h->np + h->nloops - 1) / h->nloops * (axis_extent(p->row) / 64) * each *
                     (axis_extent(p->k) * elem_bytes((Elem)p->dot->in[0]->type.elem) / 32);
    return (h->stages - 2) * clocks < ENOUGH;
}

// In place of the load.
void ws_behind_take(Ws *h) {
    Operand *o = &h->behind;
    Builder b = {h->f, NULL, o->load, o->load->span};
    Val *zero = ws_i32(&b, 0), *group = zero;
    if (h->tiles > 1) {
        Val *slice = b_op(&b, OP_T_slice, 0, type_scalar(EL_index), 0, NULL);
        slice->def->imm = h->tiles;
        group = b_op(&b, OP_T_cast, 0, type_scalar(EL_i32), 1, &slice);
    }
    if (!h->turn[CONSUMERS]) h->turn[CONSUMERS] = ws_i32(&b, 0);
    ws_effect(&b, OP_T_mbar_wait, 3, (Val *[]){h->behind_full, group, h->turn[CONSUMERS]});
    Val *v = b_op(&b, OP_T_buffer_load, 0, o->load->out[0]->type, 4, (Val *[]){o->buffer, zero, o->outer, o->inner});
    v->name = o->load->out[0]->name;
    replace_uses(&h->f->body, o->load->out[0], v);
    op_remove(o->load);
}

// Scalars of its address that are made behind the loop, the producer makes, too.
static void make_scalar(Ws *h, Builder *b, Val *v, ValMap *map) {
    Op *d = v->def;
    if (!d || map_get(map, v) != v || !behind_loop(h, d)) return;
    for (int i = 0; i < d->nin; i++) make_scalar(h, b, d->in[i], map);
    b_insert(b, op_clone(h->f, d, map));
}

static void make_scalars(Ws *h, Builder *b, const Affine *x, ValMap *map) {
    for (int t = 0; t < x->nterm; t++) make_scalar(h, b, x->term[t].v, map);
}

void ws_behind_fill(Ws *h, Builder *b, ValMap *map) {
    const Operand *o = &h->behind;
    for (int d = 0; d < o->a.nidx; d++) make_scalars(h, b, &o->a.aff[d], map);
    for (int i = 0; o->window && i < o->window->n; i++) make_scalars(h, b, &o->window->at[i].tap, map);
    Val *zero = ws_i32(b, 0), *group = zero;
    if (h->walk_bytes) {
        if (!h->turn[OTHERS]) h->turn[OTHERS] = ws_i32(b, 0);
        if (h->tiles > 1) group = h->turn[OTHERS];
        ws_effect(b, OP_T_mbar_wait, 3,
                   (Val *[]){h->behind_free, zero, b_binary(b, OP_xor, h->turn[OTHERS], ws_i32(b, 1))})->attr = 1;
    }
    ws_effect(b, OP_T_mbar_expect, 2, (Val *[]){h->behind_full, group})->imm = h->behind_bytes;
    ws_fill(b, &h->behind, group, h->behind_full, map);
}

void ws_behind_release(Ws *h, Builder *b) {
    if (h->walk_bytes) ws_effect(b, OP_T_mbar_arrive, 2, (Val *[]){h->behind_free, ws_i32(b, 0)});
}
