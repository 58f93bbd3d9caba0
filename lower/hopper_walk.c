// As many blocks as multiprocessors, each walking from tile to tile of the grid.
//
//     roles {                                  roles {
//       for k { fill }                           for t in program .. programs by walkers { tile of t;  for k { fill } }
//     } and {                           ->     } and {
//       for k { multiply }                       for t in program .. programs by walkers { tile of t;  for k { multiply }
//       c[m, n] = acc                                                                      tma_store c, acc }
//     }                                        }
//
// The ring goes on from tile to tile, so the producer fills it for the next tile while the consumers are at the end of
// this one. Results leave by TMA: each warp group puts 64 rows of a span of columns into one of two slots of its own in
// shared memory, and goes on while the copy engine writes them out.
//
// Applies to kernels with one product whose operands all come through the ring and whose tiles are all stored where TMA
// can: a plain output tensor, its innermost index along the product's columns, 2- or 4-byte elements, the tile ending
// with the tensor; its rows along one dimension, or pixels (hopper_window.c). Where one round is all that a launch has, there is nothing to load ahead (Schedule.walk is 1 then).
// Others keep a block to a program (a converted tile would need shared memory beside the ring), and so do transposed
// products, whose tiles are small.
#include "lower/hopper.h"

enum { SLOTS = 2, SLOT_ROWS = 64 };

static int stores_to(const Region *r, const Val *tensor) {
    int n = 0;
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op))
        n += (op->code == OP_T_store || op->code == OP_T_atomic) && op->in[0]->def->imm == tensor->def->imm;
    return n;
}

// Lanes past the axis's end are past the tensor's, where TMA writes nothing.
static bool ends_with_tensor(Hop *h, const Val *axis, LExpr dim) {
    LExpr end;
    return (axis->def->flags & AXIS_FULL) || (host_expr(h->facts, axis_hi(axis), &end) && launch_same(end, dim));
}

static bool storable(Hop *h, Op *op) {
    Access a;
    const Product *p = &h->p[0];
    const Val *v = op_value(op);
    int size = elem_bytes((Elem)v->type.elem);
    access_of(h->facts, op, &a);
    if (a.p->mode != PM_OUT || a.p->strided || a.nidx < 2 || a.nidx > 5 || v->type.rank != 2 || v->type.elem == EL_bool) return false;
    if ((size != 2 && size != 4) || axis_extent(p->col) * size % SPAN || stores_to(&h->f->body, op->in[0]) != 1) return false;
    Window w;
    bool rows = false, cols = false, window = false;
    for (int d = 0; d + 1 < a.nidx; d++) window |= a.aff[d].ntile > 0;
    if (window) rows = !hop_window(h, &a, a.nidx - 1, false, &w) && w.rows == p->row && hop_window_ends(h, &a, &w);
    for (int i = 0; rows && i < w.n; i++) rows = !w.at[i].step && !w.at[i].base.c && !w.at[i].base.nterm;
    for (int d = 0; d < a.nidx; d++) {
        const Affine *x = &a.aff[d];
        if (d + 1 < a.nidx && !fact_stride_divides(h->facts, a.param, d, 16 / size)) return false;
        if (window && d + 1 < a.nidx) continue;
        if (x->ntile || x->naxis > 1) return false;
        if (!x->naxis) continue;
        const Val *axis = x->axis[0].axis;
        if (x->axis[0].k != 1 || x->axis[0].scale || !a.proved[d] || !ends_with_tensor(h, axis, a.p->dim[d])) return false;
        if (axis == p->col && d == a.nidx - 1) cols = true;
        else if (axis == p->row) rows = true;
        else return false;
    }
    const Affine *inner = &a.aff[a.nidx - 1];                  // TMA wants the innermost coordinate at 16 bytes
    bool aligned = inner->c * size % 16 == 0;
    for (int t = 0; t < inner->nterm; t++) aligned = aligned && (inner->term[t].k * size % 16 == 0 || fact_divides(h->facts, inner->term[t].v, 16 / size));
    return rows && cols && aligned;
}

// What follows the loop: stores of tiles are counted where each program makes them once. False: one of them cannot be.
static bool epilogue(Hop *h, Op *first, bool once, int *stores) {
    for (Op *op = first; op; op = op->next) {
        bool tile = op->code == OP_T_store && op_value(op)->type.rank >= 2;
        if (tile && (!once || !storable(h, op))) return false;
        *stores += tile;
        for (int i = 0; i < op->nreg; i++) if (!epilogue(h, op->reg[i]->first, once && op->code == OP_T_if, stores)) return false;
    }
    return true;
}

Op *hop_program(const Fn *f) {
    for (Op *op = f->body.first; op; op = op->next) if (op->code == OP_T_program) return op;
    return NULL;
}

Val *hop_existing(Builder *b, Val *program, Val *programs) {
    Val *last = b_binary(b, OP_sub, programs, b_const(b, EL_index, 1));
    Val *v = b_op(b, OP_T_fun, TF_min, type_scalar(EL_index), 2, (Val *[]){program, last});
    v->def->attr = 1;                                          // not negative: see fact_range
    return v;
}

uint32_t hop_walk_bytes(Hop *h) {
    int stores = 0;
    if (h->opt->schedule.walk == 1) return 0;
    if (h->np != 1 || h->once_bytes || h->p[0].swapped || !hop_program(h->f) || !epilogue(h, h->loop->next, true, &stores) || !stores) return 0;
    return (uint32_t)(SLOTS * h->groups * SLOT_ROWS * SPAN);
}

// ---- stores --------------------------------------------------------------------------------------

static int tensor_map(Hop *h, const Access *a, int size) {
    LaunchSlot s = {.kind = SLOT_TENSORMAP, .size = 128, .a = a->param, .b = h->maps, .rank = (uint8_t)a->nidx, .swizzle = SPAN};
    for (int i = 0; i < a->nidx; i++) {
        int d = a->nidx - 1 - i;                               // innermost first
        s.map_dim[i] = (int8_t)d;
        s.box[i] = i == 0 ? (uint32_t)(SPAN / size) : a->aff[d].naxis ? SLOT_ROWS : 1;
    }
    return hop_add_map(h, s);
}

static void store_by_tma(Hop *h, Builder *top, Op *op) {
    Access a;
    Window w;
    const Product *p = &h->p[0];
    Val *v = op_value(op), *in[6 + 2 * MAX_RANK];
    bool window = false;
    int size = elem_bytes((Elem)v->type.elem), n = 0;
    access_of(h->facts, op, &a);
    Type t = {.kind = TY_BUFFER, .elem = v->type.elem, .rank = 2, .swizzle = SPAN, .order = {1, 0}, .shape = {h->groups * SLOT_ROWS, SPAN / size}};
    Builder b = {h->f, op->parent, op, op->span};
    ValMap same = {.arena = h->f->arena};
    in[n++] = b_op(top, OP_T_buffer, 0, t, 0, NULL);
    in[0]->def->imm = SLOTS;
    in[0]->def->attr = h->walk_at;
    in[0]->name = a.p->name;
    in[n++] = op->in[0];
    for (int d = 0; d + 1 < a.nidx; d++) window |= a.aff[d].ntile > 0;
    if (window) {
        hop_window(h, &a, a.nidx - 1, false, &w);
        hop_window_start(&b, &w, axis_lo(p->row), in + n);
        n += w.n;
    }
    for (int d = window ? w.n : 0; d < a.nidx; d++) in[n++] = hop_coordinate(&b, &a.aff[d], &same);
    in[n++] = v;
    in[n++] = p->row;
    in[n++] = p->col;
    for (int i = 0; window && i + 1 < w.n; i++) in[n++] = w.at[i].radix ? w.at[i].radix : b_const(&b, EL_index, 1);
    Op *s = hop_effect(&b, OP_T_tma_store, n, in);
    s->nidx = op->nidx;
    s->imm = window ? hop_window_map(h, &a, &w, SPAN, SLOT_ROWS) : tensor_map(h, &a, size);
    op_remove(op);
}

static void store_all(Hop *h, Builder *top, Region *r) {
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (op->code == OP_T_store && op_value(op)->type.rank >= 2) store_by_tma(h, top, op);
        else if (op->code == OP_T_if) for (int i = 0; i < 2; i++) store_all(h, top, op->reg[i]);
    }
}

// ---- the walk ------------------------------------------------------------------------------------

typedef struct Walk {
    Hop *h;
    Op  *program;
    Val *programs, *walkers, *end;  // end: programs, rounded up to whole clusters
    VEC(Op *) tile;                 // what both roles compute of a program's number, in order
} Walk;

static bool depends(const Walk *w, const Op *op) {
    if (op == w->program) return true;
    for (int i = 0; i < op->nin; i++)
        for (uint32_t k = 0; k < w->tile.n; k++) if (op->in[i]->def == w->tile.at[k]) return true;
    return false;
}

static void loop_over_tiles(Walk *w, Region *r, Op *ring_loop) {
    Fn *f = w->h->f;
    Op *yield = r->last;
    Builder b = {f, r, yield, ring_loop->span};
    Val *zero = hop_i32(&b, 0);
    op_remove(zero->def);
    op_before(r->first, zero->def);
    Op *walk = op_new(f, OP_T_for, ring_loop->span, 5, (Val *[]){w->program->out[0], w->end, w->walkers, zero, zero}, 2);
    for (int i = 0; i < 2; i++) walk->out[i]->type = type_scalar(EL_i32);
    Region *body = walk->reg[0];
    Val *number = region_arg(f, body, type_scalar(EL_index)), *stage = region_arg(f, body, type_scalar(EL_i32)), *phase = region_arg(f, body, type_scalar(EL_i32));
    for (Op *op = zero->def->next, *next; op != yield; op = next) {
        next = op->next;
        op_remove(op);
        op_append(body, op);
    }
    op_before(yield, walk);
    ValMap map = {.arena = f->arena};
    Op *first = body->first;
    if (w->h->cluster > 1) {                                   // neighbours go round together
        Builder top = {f, body, first, ring_loop->span};
        number = hop_existing(&top, number, w->programs);
    }
    map_set(&map, w->program->out[0], number);
    for (uint32_t i = 1; i < w->tile.n; i++) op_before(first, op_clone(f, w->tile.at[i], &map));
    for (uint32_t i = 0; i < w->tile.n; i++)
        for (int k = 0; k < w->tile.at[i]->nout; k++) replace_uses(body, w->tile.at[i]->out[k], map_get(&map, w->tile.at[i]->out[k]));
    ring_loop->in[ring_loop->nin - 2] = stage;
    ring_loop->in[ring_loop->nin - 1] = phase;
    Builder end = {f, body, NULL, ring_loop->span};
    hop_effect(&end, OP_T_yield, 2, ring_loop->out + ring_loop->nout - 2);
}

void hop_walk(Hop *h, Op *roles) {
    Fn *f = h->f;
    Builder b = {f, NULL, roles, roles->span};
    Walk w = {.h = h, .program = hop_program(f)};
    store_all(h, &b, roles->reg[1]);
    w.programs = b_op(&b, OP_T_programs, 0, type_scalar(EL_index), 0, NULL);
    w.walkers = b_op(&b, OP_T_walkers, 0, type_scalar(EL_index), 0, NULL);
    w.end = w.programs;
    if (h->cluster > 1) {
        Val *c = b_const(&b, EL_index, h->cluster), *up = b_binary(&b, OP_add, w.programs, b_const(&b, EL_index, h->cluster - 1));
        w.end = b_binary(&b, OP_mul, b_binary(&b, OP_div, up, c), c);
    }
    for (Op *op = f->body.first; op != roles; op = op->next) if (depends(&w, op)) vec_push(f->arena, &w.tile, op);
    for (int i = 0; i < 2; i++) loop_over_tiles(&w, roles->reg[i], h->ring_loop[i]);
    for (uint32_t i = w.tile.n; i-- > 1;) op_remove(w.tile.at[i]);
    Builder end = {f, roles->reg[1], roles->reg[1]->last, roles->span};
    hop_effect(&end, OP_T_tma_store_wait, 0, NULL);
    f->walks = h->opt->schedule.blocks ? h->opt->schedule.blocks : (int)h->opt->target->sms;
    LExpr blocks = f->launch->programs;
    if (h->cluster > 1) {
        f->cluster = f->launch->cluster = h->cluster;
        f->walks = f->walks < h->cluster ? h->cluster : f->walks / h->cluster * h->cluster;
        blocks = launch_join_const(f->arena, L_MUL, launch_join_const(f->arena, L_CDIV, blocks, h->cluster), h->cluster);
    }
    f->launch->blocks = launch_join_const(f->arena, L_MIN, blocks, f->walks);
}
