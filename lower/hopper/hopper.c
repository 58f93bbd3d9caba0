// Warp roles on Hopper: the loop of products becomes a producer that fills shared memory by TMA and
// consumers that run wgmma on it.
//
//     for k in K by BK {                             roles {                       // producer: one thread
//         acc += dot(a[m, k], b[k, n]);                for ... { wait empty; expect full; tma_load a, b }
//     }                                       ->     } and {                       // consumers: 1 or 2 warp groups
//     c[m, n] = acc as bf16;                           for ... { wait full; acc = wgmma a, b, acc; wait 1; release }
//                                                      c[m, n] = acc as bf16;
//                                                    }
//
// Applies to a kernel whose body has one loop with products at its top level, when every product is over one axis and
// of types that wgmma multiplies (f16, bf16, f8, 8-bit integers, f32 as tf32), its rows come in 64s (or its columns: then
// the transposed product is made, so that a few rows are wgmma's columns, which come in eights), and each operand is
//
//     a plain load in the loop (an axis or a scalar per dimension, innermost contiguous, of a read-only
//     tensor): a ring of stages;   such a load before the loop: one buffer, filled once a tile (attention's q), or any tile made
//     there, which the consumers put into a buffer (hopper/made.c);
//     a load whose rows are pixels of a convolution: a ring, by TMA's im2col mode (hopper/window.c);
//     on the left, any tile made in the loop: registers (attention's p).
//
// Along the contracted axis TMA fills with zeros only where the tensor ends. Where the axis may end
// earlier, the rows past its end are cleared in shared memory on the trip that has them.
//
// Products that are only added up stay in flight across a trip, and a stage is released one trip late; of two products in a chain the first runs a trip ahead
// (hopper/overlap.c); otherwise each product is waited for. What comes before the loop and
// is not plain arithmetic on scalars (of parameters, or read from tensors that nobody writes), and all that follows it,
// is the consumers'. Where the results can leave by TMA too, blocks walk from tile to tile (hopper/walk.c).
//
// Declines (returns false, function unchanged) when anything is not so; the reason goes to the report.
#include "lower/hopper/hopper.h"

#include <string.h>

static bool decline(Hop *h, const char *why) {
    h->f->roles_refused = why;
    return false;
}

// ---- does it apply? ------------------------------------------------------------------------------

static int operands(const Region *r, const Val *v) {             // how many products of this region take v
    int n = 0;
    for (const Op *op = r->first; op; op = op->next) n += op->code == OP_T_dot ? (op->in[0] == v) + (op->in[1] == v) : 0;
    return n;
}

// The same wherever it is done: arithmetic, and one element of a tensor that nobody writes.
static bool repeatable(const Hop *h, const Op *op) {
    bool read = op->code == OP_T_load && op->out[0]->type.rank == 0 && h->f->launch->params[op->in[0]->def->imm].mode == PM_IN;
    return op_has(op, 'P') || read;
}

// A scalar that the producer can compute too, from parameters, lengths or a page table in memory, and the loop's counter.
bool hop_computable(const Hop *h, const Val *v) {
    const Op *d = v->def;
    if (!d) return v == h->loop->reg[0]->args.at[0];
    if (v->type.rank || !repeatable(h, d) || d->code == OP_T_reduce || d->code == OP_T_dot) return false;
    if (d->parent != h->loop->parent && d->parent != h->loop->reg[0]) return false;
    for (int i = 0; i < d->nin; i++) if (d->in[i]->type.kind == TY_TILE && !hop_computable(h, d->in[i])) return false;
    return true;
}

// No trip has dead lanes: the axis's end is a number that its extent divides, or is known to be a multiple, and where a trip begins is one too.
static bool whole_trips(const Hop *h, const Val *k, LExpr end) {
    int64_t n, extent = axis_extent(k), from = fact_divisor(h->facts, axis_lo(k));
    bool whole = fact_constant(h->facts, end, &n) ? n % extent == 0 : fact_known_multiple(h->facts, axis_hi(k), extent);
    return whole && from % extent == 0;
}

// What TMA cannot fetch, but any load can: then a left operand comes through registers.
static const char small_span[] = "an operand's innermost extent is no multiple of 16",
                  odd_start[] = "an operand's innermost coordinate is not known to be 16-byte aligned", odd_rows[] = "rows are not known to be 16-byte aligned";
static const char computed_right[] = "an operand of a product is neither loaded nor on the left";
static bool alignment(const char *why) { return why == small_span || why == odd_start || why == odd_rows; }

static const char *operand_of(Hop *h, Operand *o, Val *v, const Val *k, int side) {
    Op *load = v->def;
    bool plain = load && load->code == OP_T_load && (load->parent == h->loop->reg[0] || load->parent == h->loop->parent);
    if (plain && load->parent == h->loop->parent) o->where = ONCE;
    int size = elem_bytes((Elem)v->type.elem), unit = 16 / size;
    if (!plain && side == 0 && v->type.rank == 2 && size == 2 && (!load || load->parent == h->loop->reg[0])) { o->where = REGISTERS; return NULL; }
    if (!plain) return computed_right;
    o->load = load;
    access_shape(h->facts, load, &o->a);
    const Access *a = &o->a;
    if (a->p->mode != PM_IN || a->p->strided || (load->flags & HAS_ELSE)) return "an operand's tensor is not a plain input";
    if (a->nidx < 2 || a->nidx > 5 || v->type.rank != 2) return "an operand's tile has not two axes";
    if (region_uses(&h->f->body, v) != operands(h->loop->reg[0], v)) return "an operand is used elsewhere too";
    for (int d = 0; d + 1 < a->nidx && !o->window; d++) {
        if (!a->aff[d].ntile) continue;
        if (a->inner + 1 < a->nidx) return "an operand is gathered";
        o->window = NEW(h->f->arena, Window);
        const char *why = hop_window(h, a, a->nidx - 1, true, o->window);
        if (why) return why;
        for (int i = 0; i < o->window->n; i++) {
            const Pixels *x = &o->window->at[i];
            for (int t = 0; t < x->base.nterm; t++) if (!hop_computable(h, x->base.term[t].v)) return "an operand's address depends on loaded values";
            for (int t = 0; t < x->tap.nterm; t++) if (!hop_computable(h, x->tap.term[t].v)) return "an operand's address depends on loaded values";
        }
        o->outer = o->window->rows;
        if (o->outer == k || o->where == ONCE) return "an operand is gathered";
    }
    for (int d = 0; d < a->nidx; d++) {
        const Affine *x = &a->aff[d];
        if (o->window && d + 1 < a->nidx) continue;
        if (x->ntile || x->naxis > 1) return "an operand is gathered";
        for (int t = 0; t < x->nterm; t++) if (!hop_computable(h, x->term[t].v)) return "an operand's address depends on loaded values";
        if (!x->naxis) continue;
        if (x->axis[0].k != 1 || x->axis[0].scale) return "an operand is strided";
        if (d == a->inner) o->inner = x->axis[0].axis;
        else { o->outer = x->axis[0].axis; o->outer_dim = d; }
        if (x->axis[0].axis != k) continue;
        LExpr end;
        bool known = host_expr(h->facts, axis_hi(k), &end), full = (k->def->flags & AXIS_FULL) || (known && whole_trips(h, k, end));
        if (!full && (!known || !launch_same(end, a->p->dim[d]))) o->clear = true;
    }
    if (!o->inner || !o->outer || o->inner == o->outer) return "an operand's innermost dimension has no axis";
    int64_t in = tma_row(axis_extent(o->inner) * size, o->inner == k), out = axis_extent(o->outer);
    if (size != 2 && o->inner != k) return "only 16-bit operands may have the contracted axis outside";
    if (out > 256) return "an operand's tile has more than 256 rows";
    for (o->swizzle = SPAN; in % o->swizzle; o->swizzle /= 2)      // heads of 80 or 96: spans of 32 or 64 bytes
        if (o->swizzle == 32) return small_span;
    const Affine *inner = &a->aff[a->inner];                   // TMA wants the innermost coordinate at 16 bytes
    bool aligned = inner->c % unit == 0;
    for (int t = 0; t < inner->nterm; t++) aligned = aligned && (inner->term[t].k % unit == 0 || fact_divides(h->facts, inner->term[t].v, unit));
    if (!aligned) return odd_start;
    for (int d = 0; d < a->nidx; d++) if (d != a->inner && !a->unit[d] && !fact_stride_divides(h->facts, a->param, d, unit)) return odd_rows;
    if (o->clear && (o->outer != k || o->where == ONCE)) return "the contracted axis does not end with the tensor";
    o->columns = in / size;
    o->bytes = (uint32_t)(in * out);
    return NULL;
}

static bool fits_rows(int64_t m) { return m == 64 || (m > 0 && m % 128 == 0); }
static bool fits(const Hop *h, int64_t m) { return fits_rows(m) || (m == 192 && !h->no_bands); }

// What wgmma multiplies: f16, bf16, f8 of either kind, 8-bit integers, and f32 where 10 bits of it are asked for.
static bool element_types(const Op *dot) {
    Elem a = (Elem)dot->in[0]->type.elem, b = (Elem)dot->in[1]->type.elem, o = (Elem)dot->out[0]->type.elem;
    bool f8 = (a == EL_f8e4m3 || a == EL_f8e5m2) && (b == EL_f8e4m3 || b == EL_f8e5m2);
    bool ints = (a == EL_i8 || a == EL_u8) && (b == EL_i8 || b == EL_u8);
    if (ints) return o == EL_i32;
    return o == EL_f32 && (f8 || (a == b && (a == EL_bf16 || a == EL_f16 || (a == EL_f32 && dot->sub == DP_tf32))));
}

// The transposed product: wgmma's columns come in eights.
static void swap_sides(Product *p) {
    Val *row = p->row;
    p->row = p->col;
    p->col = row;
    p->swapped = true;
    p->op[0] = p->op[1] = (Operand){0};
}

static const char *operands_of(Hop *h, Product *p, Op *dot) {
    for (int i = 0; i < 2; i++) {
        const char *why = operand_of(h, &p->op[i], dot->in[i ^ p->swapped], p->k, i);
        bool in_loop = p->op[i].where == RING && i == 0 && elem_bytes((Elem)dot->in[0]->type.elem) == 2;
        if (in_loop && alignment(why)) { p->op[i] = (Operand){.where = REGISTERS}; why = NULL; }
        if (why && !hop_made(h, &p->op[i], dot->in[i ^ p->swapped], p->k)) return why;
    }
    return NULL;
}

static const char *product_of(Hop *h, Product *p, Op *dot) {
    Elem e = (Elem)dot->in[0]->type.elem;
    const Type *t = &dot->out[0]->type;
    int first = 2 + ((dot->flags & HAS_ACC) != 0);
    p->dot = dot;
    if (!element_types(dot)) return "wgmma has no product of these element types";
    if (dot->nin != first + 1 || t->rank != 2) return "a product is not of two matrices over one axis";
    p->k = dot->in[first];
    for (int i = 0; i < 2; i++) {
        if (type_axis(&dot->in[0]->type, t->axis[i]) >= 0) p->row = t->axis[i];
        else p->col = t->axis[i];
    }
    if (!p->row || !p->col || type_axis(&dot->in[1]->type, p->col) < 0) return "a product has a batch axis";
    if (!fits(h, axis_extent(p->row)) && fits_rows(axis_extent(p->col))) swap_sides(p);
    int64_t m = axis_extent(p->row), n = axis_extent(p->col), k = axis_extent(p->k);
    if (!fits(h, m)) return "neither the rows nor the columns of a product are 64 or a multiple of 128";
    p->promoted = e == EL_f8e4m3 || e == EL_f8e5m2;
    if (n % (elem_is_int(e) && n > 32 ? 16 : 8) || n > 256 || k % (32 / elem_bytes(e))) return "the extents of a product do not fit wgmma";
    const char *why = operands_of(h, p, dot);
    bool computed = why == computed_right && !h->follows;
    if ((!alignment(why) && !computed) || p->swapped || !fits_rows(n) || m % 8 || m > 256) return why;
    swap_sides(p);                                             // the right one may come through registers on the left
    p->for_sources = computed;
    return operands_of(h, p, dot);
}

// Sums that nothing looks at before the loop's end: each product adds to a carried value, and is yielded as that.
static bool only_sums(const Hop *h) {
    const Region *r = h->loop->reg[0];
    for (int p = 0; p < h->np; p++) {
        const Op *dot = h->p[p].dot, *y = r->last;
        bool carried = false;
        if (!(dot->flags & HAS_ACC) || h->p[p].op[0].where == REGISTERS) return false;
        for (int i = 0; i < y->nin; i++) carried |= y->in[i] == dot->out[0] && dot->in[2] == r->args.at[1 + i];
        if (!carried || region_uses(&h->f->body, dot->out[0]) != 1 || region_uses(&h->f->body, dot->in[2]) != 1) return false;
    }
    return true;
}

int hop_stages_in(const Hop *h, int64_t room) {
    int64_t n = room / (h->stage_bytes[0] + h->stage_bytes[1]), most = h->opt->schedule.stages ? h->opt->schedule.stages : MAX_STAGES;
    return (int)(n < most && n < MAX_STAGES ? n : most < MAX_STAGES ? most : MAX_STAGES);
}

// Bytes of the largest tile that is stored after the loop, as its conversion to whole lines needs them: extents of a power of two,
// rows padded.
static int64_t stored_bytes(const Hop *h) {
    int64_t most = 0;
    for (const Op *op = op_walk(&h->f->body, NULL); op; op = op_walk(&h->f->body, op)) {
        if (op->code != OP_T_store || op_value(op)->type.rank < 2) continue;
        const Type *t = &op_value(op)->type;
        int64_t lanes = 1, shortest = INT64_MAX, bytes;
        for (int i = 0; i < t->rank; i++) {
            int64_t up = 1, extent = axis_extent(t->axis[i]) / (t->axis[i] == h->p[0].row ? h->bands : 1);
            while (up < extent) up *= 2;
            lanes *= up;
            if (up < shortest) shortest = up;
        }
        bytes = lanes * elem_bytes((Elem)t->elem) + lanes / shortest * 16;
        if (bytes > most) most = bytes;
    }
    return most;
}

// One group of a convolution whose weights are computed: what a trip waits for is not the ring, so several blocks should share a
// multiprocessor. 32 groups of 4 channels, 32 x 56 x 56 x 128 on an H200: 97 us with all the stages that fit, 54 with three, 48 with two.
enum { FEW_STAGES = 2 };

static bool one_by_one(const Hop *h) {
    const Operand *o = h->p[0].op;
    return h->groups == 1 && !h->chained && h->np == 1 && !h->walk_bytes && o[0].where == REGISTERS && o[1].window;
}

static int stages(Hop *h) {
    int64_t room = (int64_t)h->opt->target->smem_block - SYNC_BYTES - h->once_bytes - h->made_bytes - h->behind_bytes - h->walk_bytes - hop_slice_bytes(h);
    if (!h->chained && !h->nsources && h->p[0].op[0].where == REGISTERS) {     // a tile computed from loads comes in their layout: see llvm/room.c
        int64_t computed = (axis_extent(h->p[0].row) + 16) * (axis_extent(h->p[0].k) + 16) * 2, stored = stored_bytes(h);
        room -= computed > stored ? computed : stored;
    }
    if (h->bands > 1 && !h->walk_bytes) room -= h->bands * stored_bytes(h);      // one may be through while another multiplies
    if (!h->opt->schedule.stages) room = hop_shared_room(h, room);
    if (one_by_one(h) && !h->opt->schedule.stages) return hop_stages_in(h, room) < FEW_STAGES ? 0 : FEW_STAGES;
    return hop_stages_in(h, room - hop_whole_slots(h, room));
}

static bool applies(Hop *h) {
    h->loop = NULL;
    h->follows = false;
    h->np = h->nsources = 0;
    h->groups = h->tiles = h->bands = 1;
    memset(h->p, 0, sizeof h->p);
    for (Op *op = h->f->body.first; op; op = op->next) {
        if (op->code == OP_T_dot && !h->loop) return decline(h, "a product stands before the loop");
        h->follows |= op->code == OP_T_dot;
        bool inside = false;
        for (int i = 0; i < op->nreg; i++) inside |= has_products(op->reg[i]);
        if (!inside) continue;
        if (op->code != OP_T_for || h->loop) return decline(h, "the products are not in one loop");
        h->loop = op;
    }
    if (!h->loop) return false;
    if (h->f->cluster) return decline(h, "the parts of its loop are a cluster's blocks");
    for (int i = 0; i < 3; i++) if (!hop_computable(h, h->loop->in[i])) return decline(h, "the loop's bounds are not scalars that both roles can compute");
    if (h->loop->nout > MAX_CARRIED) return decline(h, "the loop carries too many values");
    Region *r = h->loop->reg[0];
    for (Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nreg; i++) if (has_products(op->reg[i])) return decline(h, "a product is in an inner loop or branch");
        if (op->code == OP_T_break || op->code == OP_T_continue) return decline(h, "the loop has a break");
        if (op->code != OP_T_dot) continue;
        if (h->np == MAX_DOTS) return decline(h, "the loop has too many products");
        const char *why = product_of(h, &h->p[h->np++], op);
        if (why) return decline(h, why);
    }
    hop_products_first(h);
    hop_share(h);
    int64_t rows = axis_extent(h->p[0].row);
    for (int i = 0; i < h->np; i++) if (axis_extent(h->p[i].row) != rows) return decline(h, "products differ in rows");
    h->pipelined = !h->p[0].promoted && only_sums(h);
    hop_divide_rows(h, h->follows ? 1 : hop_pingpong(h));
    if (h->follows && h->bands > 1) return decline(h, "a product follows the loop of three groups");
    if (rows == 192 && h->tiles * h->bands == 1 && h->f->groups_refused) { h->no_bands = true; return applies(h); }      // its transpose, then
    int64_t regs = 0;
    for (int i = 0; i < h->np; i++) regs += rows / 64 / h->groups * axis_extent(h->p[i].col) / 2 * (h->p[i].promoted ? 2 : 1);
    if (regs > (h->p[0].promoted || h->np > 2 ? 192 : 176) && h->tiles * h->bands == 1) return decline(h, "the accumulator does not fit the registers");
    h->chained = hop_chained(h);
    h->rings = h->chained ? 2 : 1;
    for (int i = 0; i < h->np; i++)
        for (int k = 0; k < 2; k++) {
            const Operand *o = &h->p[i].op[k];
            if (!o->same) *(o->where == ONCE ? &h->once_bytes : o->where == MADE ? &h->made_bytes : &h->stage_bytes[hop_ring(h, &h->p[i])]) += o->bytes;
        }
    hop_sources(h);
    for (int i = 0; i < h->np; i++) if (h->p[i].for_sources && !h->nsources) return decline(h, computed_right);
    if (!h->stage_bytes[0]) return decline(h, "nothing is loaded in the loop");
    h->slices = h->follows ? 1 : hop_slices(h);
    h->walk_bytes = h->slices > 1 || h->follows ? 0 : hop_walk_bytes(h);
    h->behind_bytes = hop_behind_bytes(h);
    h->stages = stages(h);
    if (h->behind_bytes && hop_behind_short(h)) {
        h->behind_bytes = 0;
        h->walk_bytes = hop_walk_bytes(h);
        h->stages = stages(h);
    }
    if (h->stages < 2 && h->tiles > 1) {
        hop_pingpong_no_room(h);
        hop_divide_rows(h, 1);
        h->walk_bytes = hop_walk_bytes(h);
        h->stages = stages(h);
    }
    if (h->stages < 2 && h->walk_bytes) {
        h->walk_bytes = 0;
        h->stages = stages(h);
    }
    if (h->slices > 1 && hop_slices_short(h)) {
        h->walk_bytes = hop_walk_bytes(h);
        h->stages = stages(h);
    }
    if (h->stages < 2) return decline(h, "two stages of the operands do not fit shared memory");
    if (h->np > 1 && !h->chained && !h->pipelined) h->walk_bytes = 0;
    h->cluster = hop_cluster(h);
    h->fixed_bytes = hop_fixed(h);
    return true;
}

// ---- buffers, barriers, tensor maps --------------------------------------------------------------

static int64_t rows_of(const Operand *o) { return axis_extent(o->outer) / (o->per[0] > 1 ? o->per[0] : 1); }

static Val *buffer(Hop *h, Builder *b, const Operand *o, uint32_t *at) {
    Type t = {.kind = TY_BUFFER, .elem = (uint8_t)o->a.elem, .rank = 2, .swizzle = (uint8_t)o->swizzle, .order = {1, 0}};
    t.shape[0] = rows_of(o);
    t.shape[1] = o->columns;
    Val *v = b_op(b, OP_T_buffer, 0, t, 0, NULL);
    v->def->imm = o->where == RING ? h->stages : 1;
    v->def->attr = *at;
    v->name = o->tile ? o->tile->name : o->a.p->name;
    *at += o->bytes * (uint32_t)v->def->imm;
    return v;
}

int hop_add_map(Hop *h, LaunchSlot s) {
    LaunchInfo *l = h->f->launch;
    LaunchSlot *grown = NEW_N(h->f->arena, LaunchSlot, l->nslots + 1);
    if (l->nslots) memcpy(grown, l->slots, sizeof *grown * (size_t)l->nslots);
    grown[l->nslots++] = s;
    l->slots = grown;
    return h->maps++;
}

void hop_map_dims(const Access *a, int8_t *dim) {
    int n = 0;
    dim[n++] = (int8_t)a->inner;
    for (int d = a->nidx - 1; d >= 0; d--) if (d != a->inner) dim[n++] = (int8_t)d;
}

static int tensor_map(Hop *h, const Operand *o) {
    if (o->window) return hop_window_map(h, &o->a, o->window, o->swizzle, axis_extent(o->outer));
    LaunchSlot s = {.kind = SLOT_TENSORMAP, .size = 128, .a = o->a.param, .b = h->maps, .rank = (uint8_t)o->a.nidx, .swizzle = (uint8_t)o->swizzle};
    hop_map_dims(&o->a, s.map_dim);
    for (int i = 0; i < o->a.nidx; i++) {
        int d = s.map_dim[i];
        s.box[i] = i == 0 ? (uint32_t)(o->swizzle / elem_bytes(o->a.elem)) : d == o->outer_dim ? (uint32_t)(rows_of(o) / hop_row_parts(h, o)) : 1;
    }
    return hop_add_map(h, s);
}

static Val *mbar(Builder *b, int stages, int arrivals, uint32_t *at) {
    Val *v = b_op(b, OP_T_mbar, 0, (Type){.kind = TY_MBAR, .shape = {arrivals}}, 0, NULL);
    v->def->imm = stages;
    v->def->attr = *at;
    *at += 8 * (uint32_t)stages;
    return v;
}

// ---- the ring's position -------------------------------------------------------------------------

Val *hop_i32(Builder *b, int64_t v) { return b_const(b, EL_i32, v); }

// As many stages further as the role goes from trip to trip.
Ring hop_advance(Hop *h, Builder *b, Ring r) {
    bool one = h->every == 1;
    Val *next = b_binary(b, OP_add, r.stage, hop_i32(b, h->every)), *wrap = b_binary(b, one ? OP_eq : OP_ge, next, hop_i32(b, h->stages));
    Val *flip = b_binary(b, OP_xor, r.phase, hop_i32(b, 1)), *first = one ? hop_i32(b, 0) : b_binary(b, OP_sub, next, hop_i32(b, h->stages));
    return (Ring){b_op(b, OP_T_select, 0, type_scalar(EL_i32), 3, (Val *[]){wrap, first, next}),
                  b_op(b, OP_T_select, 0, type_scalar(EL_i32), 3, (Val *[]){wrap, flip, r.phase})};
}

Op *hop_effect(Builder *b, OpCode code, int n, Val *const *in) {
    Op *op = op_new(b->f, code, b->span, n, in, 0);
    b_insert(b, op);
    return op;
}

// A `for` like the loop, carrying `n` values and the ring's position, of the producer (0) or the consumers (1).
static Op *ring_loop(Hop *h, Builder *b, int role, int n, Val *const *init, Builder *inner, Ring *ring) {
    Val *in[5 + MAX_CARRIED + MAX_AHEAD];
    for (int i = 0; i < 3; i++) in[i] = h->loop->in[i];
    for (int i = 0; i < n; i++) in[3 + i] = init[i];
    h->start[role] = role == CONSUMERS ? hop_first(h, b) : (Ring){hop_i32(b, 0), hop_i32(b, 0)};
    in[3 + n] = h->start[role].stage;
    in[4 + n] = h->start[role].phase;
    Op *loop = op_new(h->f, OP_T_for, h->loop->span, 5 + n, in, n + 2);
    for (int i = 0; i < n + 2; i++) loop->out[i]->type = in[3 + i]->type;
    h->end[role] = (Ring){loop->out[n], loop->out[n + 1]};
    loop->str = h->loop->str;
    b_insert(b, loop);
    *inner = (Builder){h->f, loop->reg[0], NULL, h->loop->span};
    region_arg(h->f, loop->reg[0], type_scalar(EL_index))->name = h->loop->reg[0]->args.at[0]->name;
    for (int i = 0; i < n; i++) region_arg(h->f, loop->reg[0], in[3 + i]->type)->name = init[i]->name;
    ring->stage = region_arg(h->f, loop->reg[0], type_scalar(EL_i32));
    ring->phase = region_arg(h->f, loop->reg[0], type_scalar(EL_i32));
    return loop;
}

// ---- the producer --------------------------------------------------------------------------------

Val *hop_coordinate(Builder *b, const Affine *x, ValMap *m) {
    Val *sum = b_const(b, EL_index, x->c);
    for (int i = 0; i < x->nterm; i++) {
        Val *v = map_get(m, x->term[i].v);
        if (x->term[i].k != 1) v = b_binary(b, OP_mul, v, b_const(b, EL_index, x->term[i].k));
        sum = b_binary(b, OP_add, sum, v);
    }
    return sum;
}

Op *hop_fill(Builder *b, const Operand *o, Val *stage, Val *bar, ValMap *map) {
    Val *args[5 + 2 * MAX_RANK] = {o->buffer, stage, bar, o->load->in[0]};
    int n = 4;
    for (int d = 0; d < o->a.nidx; d++) args[n++] = o->window && d + 1 < o->a.nidx ? o->start[d] : hop_packed_coordinate(b, o, d, map);
    for (int i = o->window ? o->window->n - 2 : -1; i >= 0; i--) args[n++] = hop_coordinate(b, &o->window->at[i].tap, map);
    if (o->live) args[n++] = o->live;
    Op *t = hop_effect(b, OP_T_tma_load, n, args);
    t->nidx = (uint8_t)o->a.nidx;
    t->imm = o->map;
    if (o->live) t->flags = HAS_WHERE;
    if (o->ends == BY_COLUMNS) t->attr = 1;
    t->span = o->load->span;
    return t;
}

// In a cluster: together where all blocks want the same box.
static void fill_cluster(Hop *h, Builder *b, const Operand *o, Val *stage, Val *bar, ValMap *map) {
    Op *branch = op_new(h->f, OP_T_if, b->span, 1, (Val *[]){o->common}, 0);
    b_insert(b, branch);
    for (int i = 0; i < 2; i++) {
        Builder side = {h->f, branch->reg[i], NULL, b->span};
        Op *t = hop_fill(&side, o, stage, bar, map);
        if (i == 0) t->attr = h->cluster;
        hop_effect(&side, OP_T_yield, 0, NULL);
    }
}

static void fill_all(Hop *h, Builder *b, Where where, bool fixed, int ring, Val *stage, Val *bar, ValMap *map) {
    for (int i = 0; i < h->np; i++)
        for (int k = 0; k < 2; k++) {
            const Operand *o = &h->p[i].op[k];
            if (o->where != where || o->same || o->fixed != fixed || (where == RING && hop_ring(h, &h->p[i]) != ring)) continue;
            if (o->common && o->common->def->code == OP_T_const) hop_fill(b, o, stage, bar, map)->attr = h->cluster;
            else if (o->common) fill_cluster(h, b, o, stage, bar, map);
            else hop_fill(b, o, stage, bar, map);
        }
    for (int i = 0; i < h->nsources && where == RING; i++) if (h->source[i].fixed == fixed) hop_fill(b, &h->source[i], stage, bar, map);
}

// The trip's number taken apart, t % n, t / n % m, t / n / m: the producer counts the digits up instead of dividing.
typedef struct Odometer {
    int  n;
    Val *digit[MAX_DIGITS];         // of the trip: all but the last one are remainders
    Val *radix[MAX_DIGITS];         // of those
} Odometer;

static bool made_outside(const Val *v, const Region *r) { return v->def ? !op_inside(v->def, r) : v->region != r; }

static Op *quotient_by(const Region *r, int sub, const Val *x, const Val *by) {
    for (Op *op = r->first; op; op = op->next)
        if (op->code == OP_T_binary && op->sub == sub && op->in[0] == x && (by ? op->in[1] == by : made_outside(op->in[1], r))) return op;
    return NULL;
}

static Odometer odometer_of(const Hop *h) {
    const Region *r = h->loop->reg[0];
    Odometer o = {0};
    Val *x = r->args.at[0];
    int64_t step = h->loop->in[2]->def && h->loop->in[2]->def->code == OP_T_const ? h->loop->in[2]->def->imm : 0;
    while (step == 1 && o.n + 2 < MAX_DIGITS) {
        const Op *rem = quotient_by(r, OP_rem, x, NULL), *div = rem ? quotient_by(r, OP_div, x, rem->in[1]) : NULL;
        if (!div || region_uses(r, x) != 2) break;
        o.digit[o.n] = rem->out[0];
        o.radix[o.n++] = rem->in[1];
        x = div->out[0];
    }
    if (o.n) o.digit[o.n++] = x;
    return o;
}

// Its digits for a trip: made from the number as in the loop.
static void odometer_set(const Odometer *o, Builder *b, Val *trip, Val **at) {
    for (int i = 0; i < o->n; i++) {
        bool last = i + 1 == o->n, zero = trip->def && trip->def->code == OP_T_const && trip->def->imm == 0;
        at[i] = last || zero ? trip : b_binary(b, OP_rem, trip, o->radix[i]);
        if (!last && !zero) trip = b_binary(b, OP_div, trip, o->radix[i]);
    }
}

static void odometer_next(const Odometer *o, Builder *b, Val *const *at, Val **next) {
    Val *one = b_const(b, EL_index, 1), *zero = b_const(b, EL_index, 0), *carry = NULL;
    for (int i = 0; i < o->n; i++) {
        Val *up = b_binary(b, OP_add, at[i], one), *wraps = i + 1 < o->n ? b_binary(b, OP_eq, up, o->radix[i]) : NULL;
        Val *moved = wraps ? b_op(b, OP_T_select, 0, type_scalar(EL_index), 3, (Val *[]){wraps, zero, up}) : up;
        next[i] = carry ? b_op(b, OP_T_select, 0, type_scalar(EL_index), 3, (Val *[]){carry, moved, at[i]}) : moved;
        if (wraps) carry = carry ? b_binary(b, OP_and, carry, wraps) : wraps;
    }
}

static void producer(Hop *h, Region *r, int role) {
    Builder b = {h->f, r, NULL, h->loop->span}, in;
    Ring ring;
    ValMap map = {.arena = h->f->arena};
    Odometer odo = odometer_of(h);
    Val *at[MAX_DIGITS + 2] = {0}, *next[MAX_DIGITS + 2];
    bool fixed = role == FIXED;
    if (h->fixed_bytes && !fixed) hop_effect(&b, OP_T_wait_launches, 0, NULL);
    if (h->once_bytes && !fixed) {
        Val *zero = hop_i32(&b, 0);
        h->turn[0] = hop_i32(&b, 0);
        if (h->walk_bytes) hop_effect(&b, OP_T_mbar_wait, 3, (Val *[]){h->once_free, zero, b_binary(&b, OP_xor, h->turn[0], hop_i32(&b, 1))});
        hop_effect(&b, OP_T_mbar_expect, 2, (Val *[]){h->once, zero})->imm = h->once_bytes;
        fill_all(h, &b, ONCE, false, 0, zero, h->once, &map);
    }
    odometer_set(&odo, &b, h->loop->in[0], at);
    Val *absent = hop_absent(h, &b, fixed);
    Op *loop = ring_loop(h, &b, role, odo.n, at, &in, &ring);
    Region *old = h->loop->reg[0];
    map_set(&map, old->args.at[0], loop->reg[0]->args.at[0]);
    for (int i = 0; i < odo.n; i++) {
        at[i] = loop->reg[0]->args.at[1 + i];
        at[i]->name = odo.digit[i]->name;
        map_set(&map, odo.digit[i], at[i]);
    }
    for (Op *op = old->first; op; op = op->next)               // the scalars that addresses are made of
        if (op->nout == 1 && op->out[0]->type.kind == TY_TILE && op->out[0]->type.rank == 0 && hop_computable(h, op->out[0]) && map_get(&map, op->out[0]) == op->out[0]) {
            Op *c = op_clone(h->f, op, &map);
            op_append(loop->reg[0], c);
        }
    Val *other = b_binary(&in, OP_xor, ring.phase, hop_i32(&in, 1));
    for (int i = 0; i < h->rings; i++) {
        hop_effect(&in, OP_T_mbar_wait, 3, (Val *[]){h->empty[i], ring.stage, other});
        hop_effect(&in, OP_T_mbar_expect, absent ? 3 : 2, (Val *[]){h->full[i], ring.stage, absent})->imm = fixed ? h->fixed_bytes : h->stage_bytes[i] - h->fixed_bytes;
        fill_all(h, &in, RING, fixed, i, ring.stage, h->full[i], &map);
    }
    odometer_next(&odo, &in, at, next);
    ring = hop_advance(h, &in, ring);
    next[odo.n] = ring.stage;
    next[odo.n + 1] = ring.phase;
    hop_effect(&in, OP_T_yield, odo.n + 2, next);
    if (h->behind_bytes && !fixed) hop_behind_fill(h, &b, &map);
    hop_effect(&b, OP_T_yield, 0, NULL);
}

// ---- the consumers -------------------------------------------------------------------------------

void hop_wait_all(Builder *b, int in_flight, int n, Val **v) {
    Op *w = op_new(b->f, OP_T_wgmma_wait, b->span, n, v, n);
    w->imm = in_flight;
    b_insert(b, w);
    for (int i = 0; i < n; i++) {
        w->out[i]->type = v[i]->type;
        v[i] = w->out[i];
    }
}

Val *hop_wait(Builder *b, int in_flight, Val *acc) {
    hop_wait_all(b, in_flight, 1, &acc);
    return acc;
}

Val *hop_multiply(Hop *h, Builder *b, const Product *p, Ring ring, ValMap *m) {
    Val *zero = hop_i32(b, 0), *in[8];
    for (int i = 0; i < 2; i++) {
        const Operand *o = &p->op[i];
        in[i] = o->where == REGISTERS ? map_get(m, p->dot->in[i ^ p->swapped]) : o->same ? o->same->buffer : o->buffer;
        in[2 + i] = o->where == RING ? ring.stage : zero;
        if (o->clear && !o->same) hop_effect(b, OP_T_buffer_clear, 3, (Val *[]){o->buffer, ring.stage, map_get(m, o->outer)});
    }
    int n = 4;
    bool acc = (p->dot->flags & HAS_ACC) && !p->promoted;
    if (acc) in[n++] = map_get(m, p->dot->in[2]);
    in[n++] = map_get(m, p->row);
    in[n++] = map_get(m, p->col);
    in[n++] = map_get(m, p->k);
    Type t = p->dot->out[0]->type;
    Val *axes[MAX_AXES];
    for (int i = 0; i < t.rank; i++) axes[i] = map_get(m, t.axis[i]);
    (void)h;
    b->span = p->dot->span;
    Val *v = b_op(b, OP_T_wgmma, 0, type_tile((Elem)t.elem, t.rank, axes), n, in);
    v->def->attr = (p->op[0].where != REGISTERS && p->op[0].outer == p->k) | (p->op[1].outer == p->k) << 1;
    if (acc) v->def->flags |= HAS_ACC;
    return v;
}

bool hop_is_ring_load(const Hop *h, const Op *op) {
    for (int i = 0; i < h->np; i++) if (h->p[i].op[0].load == op || h->p[i].op[1].load == op) return true;
    for (int i = 0; i < h->nsources; i++) if (h->source[i].load == op) return true;
    return false;
}

int hop_ring(const Hop *h, const Product *p) { return h->rings == 2 ? (int)(p - h->p) : 0; }

void hop_await(Hop *h, Builder *b, int ring, Ring at) { hop_effect(b, OP_T_mbar_wait, 3, (Val *[]){h->full[ring], at.stage, at.phase}); }

void hop_release(Hop *h, Builder *b, int ring, Val *stage) {
    Op *arrive = hop_effect(b, OP_T_mbar_arrive, 2, (Val *[]){h->empty[ring], stage});
    if (h->cluster > 1) arrive->attr = h->cluster;
    arrive->imm = h->nsources > 0;
}

void hop_release_once(Hop *h, Builder *b) {
    if (h->once_bytes && h->walk_bytes) hop_effect(b, OP_T_mbar_arrive, 2, (Val *[]){h->once_free, hop_i32(b, 0)});
}

// The stage before the ring's position, if there was a trip that read it.
static void release_previous(Hop *h, Builder *b, Val *any, Ring ring) {
    Op *branch = op_new(h->f, OP_T_if, b->span, 1, &any, 0);
    b_insert(b, branch);
    Builder t = {h->f, branch->reg[0], NULL, b->span}, e = {h->f, branch->reg[1], NULL, b->span};
    bool one = h->every == 1;
    Val *first = b_binary(&t, one ? OP_eq : OP_lt, ring.stage, hop_i32(&t, one ? 0 : h->every)), *before = b_binary(&t, OP_sub, ring.stage, hop_i32(&t, h->every));
    Val *wrapped = one ? hop_i32(&t, h->stages - 1) : b_binary(&t, OP_add, before, hop_i32(&t, h->stages));
    Val *stage = b_op(&t, OP_T_select, 0, type_scalar(EL_i32), 3, (Val *[]){first, wrapped, before});
    hop_release(h, &t, 0, stage);
    hop_effect(&t, OP_T_yield, 0, NULL);
    hop_effect(&e, OP_T_yield, 0, NULL);
}

static void wait_products(Hop *h, Builder *b, int in_flight, ValMap *map) {
    Val *v[MAX_DOTS];
    for (int i = 0; i < h->np; i++) v[i] = map_get(map, h->p[i].dot->out[0]);
    hop_wait_all(b, in_flight, h->np, v);
    for (int i = 0; i < h->np; i++) map_set(map, h->p[i].dot->out[0], v[i]);
}

static void consumers(Hop *h, Region *r) {
    Builder b = {h->f, r, NULL, h->loop->span}, in;
    Region *old = h->loop->reg[0];
    int n = h->loop->nout;
    Ring ring;
    if (h->slices > 1) hop_slice_trips(h, &b);
    hop_made_store(h, &b);
    if (h->once_bytes) {
        h->turn[1] = hop_i32(&b, 0);
        hop_effect(&b, OP_T_mbar_wait, 3, (Val *[]){h->once, hop_i32(&b, 0), h->turn[1]});
    }
    if (h->chained) { hop_overlap(h, r); return; }
    Val *init[MAX_CARRIED + MAX_AHEAD], *next[MAX_AHEAD];
    for (int i = 0; i < n; i++) init[i] = h->loop->in[3 + i];
    hop_load_ahead(h, &b, h->loop->in[0], init + n);
    Op *loop = ring_loop(h, &b, 1, n + h->nahead, init, &in, &ring);
    if (h->nahead) hop_load_ahead(h, &in, b_binary(&in, OP_add, loop->reg[0]->args.at[0], h->loop->in[2]), next);
    ValMap map = {.arena = h->f->arena};
    for (int i = 0; i <= n; i++) {
        loop->reg[0]->args.at[i]->name = old->args.at[i]->name;
        map_set(&map, old->args.at[i], loop->reg[0]->args.at[i]);
    }
    hop_await(h, &in, 0, ring);
    Flight f = {0};
    for (Op *op = old->first; op; op = op->next) {
        if (hop_take_source(h, &in, op, ring.stage, &map) || hop_take_ahead(h, &in, op, loop->reg[0]->args.at + 1 + n, &map) || hop_is_ring_load(h, op)) continue;
        int p = -1;
        for (int i = 0; i < h->np; i++) if (h->p[i].dot == op) p = i;
        hop_settle(&f, &in, &map, op->code == OP_T_yield ? f.n : hop_wanted(&f, op));
        if (p >= 0) {
            Val *v = hop_multiply(h, &in, &h->p[p], ring, &map);
            map_set(&map, op->out[0], v);
            if (!h->pipelined) hop_started(&f, op, h->p[p].op[0].where == REGISTERS ? op->in[h->p[p].swapped] : NULL);
            if (h->p[p].promoted) hop_settle(&f, &in, &map, f.n);
            if (h->p[p].promoted && op_acc(op)) map_set(&map, op->out[0], b_binary(&in, OP_add, map_get(&map, op_acc(op)), map_get(&map, op->out[0])));
        } else if (op->code == OP_T_yield) {
            Val *out[MAX_CARRIED + MAX_AHEAD + 2];
            if (h->pipelined) wait_products(h, &in, h->np, &map);                    // for those of the trip before
            for (int i = 0; i < n; i++) out[i] = map_get(&map, op->in[i]);
            // one trip late: what read the previous stage is done once only this trip's products are in flight
            if (h->pipelined) release_previous(h, &in, b_binary(&in, OP_gt, loop->reg[0]->args.at[0], h->loop->in[0]), ring);
            else hop_release(h, &in, 0, ring.stage);
            ring = hop_advance(h, &in, ring);
            for (int i = 0; i < h->nahead; i++) out[n + i] = next[i];
            out[n + h->nahead] = ring.stage;
            out[n + h->nahead + 1] = ring.phase;
            hop_effect(&in, OP_T_yield, n + h->nahead + 2, out);
        } else {
            Op *c = op_clone(h->f, op, &map);
            op_append(loop->reg[0], c);
        }
    }
    for (int i = 0; i < n; i++) loop->out[i]->name = h->loop->out[i]->name;
    ValMap after = {.arena = h->f->arena};                                           // by product: what the loop leaves of it
    for (int i = 0; i < n; i++)
        for (int k = 0; k < h->np; k++) if (old->last->in[i] == h->p[k].dot->out[0]) map_set(&after, old->last->in[i], loop->out[i]);
    if (h->pipelined) wait_products(h, &b, 0, &after);
    hop_release_once(h, &b);
    if (h->pipelined && h->walk_bytes) release_previous(h, &b, b_binary(&b, OP_lt, h->loop->in[0], h->loop->in[1]), (Ring){loop->out[n + h->nahead], loop->out[n + h->nahead + 1]});
    if (h->pipelined && hop_pingpong_busy(h)) {                // what follows takes its time, and is not to begin before that
        wait_products(h, &b, 0, &after);
        b.r->last->attr = h->empty[0]->def->attr;
    }
    for (int i = 0; i < n; i++) {
        bool product = false;
        for (int k = 0; k < h->np; k++) product |= h->pipelined && old->last->in[i] == h->p[k].dot->out[0];
        replace_uses(&h->f->body, h->loop->out[i], product ? map_get(&after, old->last->in[i]) : loop->out[i]);
    }
}

// ---- putting it together -------------------------------------------------------------------------

static bool common(const Hop *h, const Op *op) {
    for (int i = 0; i < op->nout; i++) if (op->out[i]->type.kind == TY_TILE && (op->out[i]->type.rank || !hop_computable(h, op->out[i]))) return false;
    for (int i = 0; i < op->nin; i++) if (op->in[i]->type.kind == TY_TILE && !hop_computable(h, op->in[i])) return false;
    return op->nout > 0 && repeatable(h, op);
}

// ---- a row of what follows the loop ---------------------------------------------------------------
//
// A bias is loaded before the loop, so that its way from memory is over when the products are.

static bool follows(const Hop *h, const Op *op) {
    while (op && op->parent != h->loop->parent) op = op->parent->owner;                    // in a branch
    for (const Op *x = h->loop; x; x = x->next) if (x == op) return true;
    return false;
}

static bool known_before(const Hop *h, const Val *v) {
    const Op *d = v->def;
    if (!d || !follows(h, d)) return true;
    if (d == h->loop || d->nreg || (!op_has(d, 'P') && d->code != OP_T_load)) return false;
    if (d->code == OP_T_load && (h->f->launch->params[d->in[0]->def->imm].mode != PM_IN || v->type.rank > 1)) return false;
    for (int i = 0; i < d->nin; i++) if (!known_before(h, d->in[i])) return false;
    for (int i = 0; v->type.kind == TY_TILE && i < v->type.rank; i++) if (!known_before(h, v->type.axis[i])) return false;
    return true;
}

static void bring_before(Hop *h, Op *d) {
    if (!d || !follows(h, d)) return;
    for (int i = 0; i < d->nin; i++) bring_before(h, d->in[i]->def);
    op_remove(d);
    op_before(h->loop, d);
}

// Also in the branch of whoever joins the parts of a tile.
static void rows_first(Hop *h, Op *first) {
    for (Op *op = first, *next; op; op = next) {
        next = op->next;
        if (op->code == OP_T_load && op->out[0]->type.rank == 1 && known_before(h, op->out[0])) bring_before(h, op);
        for (int i = 0; op->code == OP_T_if && (h->f->dealt || h->f->parts) && i < op->nreg; i++) rows_first(h, op->reg[i]->first);
    }
}

// The first group begins; it waits for the last turn that is passed to it, which leaves the barriers as they were.
static void take_turns(Hop *h, Region *r) {
    Builder begin = {h->f, r, r->first, h->loop->span}, end = {h->f, r, r->last, h->loop->span};
    Op *turn[] = {hop_effect(&begin, OP_T_turn_pass, 0, NULL), hop_effect(&end, OP_T_turn_wait, 0, NULL)};
    for (int i = 0; i < 2; i++) {
        turn[i]->imm = 1;
        if (h->bands > 1) turn[i]->attr = h->bands;
    }
}

bool hopper(Fn *f, const CompileOptions *opt) {
    Hop h = {.f = f, .opt = opt, .facts = facts_new(f), .slices = 1, .every = 1};
    if (!opt->target->has_wgmma || !f->fast) return false;
    Op *lone = hop_lone_product(f), *made = lone ? hop_into_loop(f, lone) : NULL;
    if (!applies(&h)) {
        if (made) hop_out_of_loop(f, made);
        return false;
    }

    rows_first(&h, h.loop->next);
    for (int i = 0; i < h.np; i++)
        for (int k = 0; k < 2; k++) f->phased |= h.p[i].op[k].window && h.p[i].op[k].window->phased;
    if (h.chained && !h.walk_bytes) hop_longest_first(&h);
    if (h.slices > 1) hop_slices_join(&h);
    hop_ends(&h);
    Builder b = {f, NULL, h.loop, h.loop->span};
    uint32_t at = 0;
    for (int swizzle = SPAN; swizzle >= 32; swizzle /= 2)       // wider ones first: a swizzle repeats after 8 rows, and must begin there
        for (int i = 0; i < 2 * h.np + h.nsources; i++) {
            Operand *o = i < 2 * h.np ? &h.p[i / 2].op[i % 2] : &h.source[i - 2 * h.np];
            if (o->where == REGISTERS || o->same || o->swizzle != swizzle) continue;
            o->buffer = buffer(&h, &b, o, &at);
            if (o->load) o->map = tensor_map(&h, o);
            if (o->ends == BY_ROWS) hop_last_map(&h, o, tensor_map(&h, o));
            if (o->window) hop_window_start(&b, o->window, axis_lo(o->outer), o->start);
        }
    if (h.behind_bytes) {
        at = (at + 8 * SPAN - 1) & ~(uint32_t)(8 * SPAN - 1);
        h.behind.buffer = buffer(&h, &b, &h.behind, &at);
        h.behind.map = tensor_map(&h, &h.behind);
        if (h.behind.window) hop_window_start(&b, h.behind.window, axis_lo(h.behind.outer), h.behind.start);
    }
    if (h.walk_bytes) at = (at + 8 * SPAN - 1) & ~(uint32_t)(8 * SPAN - 1);
    h.walk_at = at;
    at += h.walk_bytes;
    for (int i = 0; i < h.rings; i++) {
        h.full[i] = mbar(&b, h.stages, h.fixed_bytes ? 2 : 1, &at);
        h.empty[i] = mbar(&b, h.stages, h.groups * h.bands * h.cluster * (h.nsources ? 4 : 1), &at);
    }
    if (h.once_bytes) h.once = mbar(&b, 1, 1, &at);
    if (h.once_bytes && h.walk_bytes) h.once_free = mbar(&b, 1, h.groups * h.bands, &at);
    if (h.behind_bytes) h.behind_full = mbar(&b, h.tiles, 1, &at);
    if (h.behind_bytes && h.walk_bytes) h.behind_free = mbar(&b, 1, h.groups, &at);
    f->groups = h.groups;
    f->warps = 4 * h.groups;
    int groups = hop_storing(&h) * h.slices;
    f->launch->threads = groups == 1 ? 128 + 32 * (h.fixed_bytes ? 2 : 1) : 128 * (groups + 1);
    f->launch->blocks = f->launch->programs;
    f->buffer_bytes = at;

    Op *roles = op_new(f, OP_T_roles, h.loop->span, 0, NULL, 0);
    roles->imm = groups;
    if (groups > h.groups) roles->attr = groups / h.groups;
    f->tiles = h.tiles;
    f->bands = h.bands;
    op_before(h.loop, roles);
    if (h.cluster > 1) hop_common(&h, roles->reg[0]);
    producer(&h, roles->reg[0], OTHERS);
    if (h.fixed_bytes) producer(&h, op_add_region(f, roles), FIXED);
    for (Op *op = f->body.first, *next; op != roles; op = next) {      // the consumers' part of the prologue
        next = op->next;
        if (hop_is_ring_load(&h, op)) { op_remove(op); continue; }
        if (common(&h, op) || op->code == OP_T_buffer || op->code == OP_T_mbar) continue;
        op_remove(op);
        op_append(roles->reg[1], op);
    }
    consumers(&h, roles->reg[1]);
    if (h.behind_bytes) hop_behind_take(&h);
    op_remove(h.loop);
    for (Op *op = roles->next, *next; op; op = next) {
        next = op->next;
        op_remove(op);
        op_append(roles->reg[1], op);
    }
    Builder end = {f, roles->reg[1], NULL, roles->span};
    if (h.behind_bytes) hop_behind_release(&h, &end);
    hop_effect(&end, OP_T_yield, 0, NULL);
    if (h.bands > 1) hop_bands_apart(&h, roles->reg[1]);
    if (h.fixed_bytes) hop_wait_late(&h, roles->reg[1]);
    if (h.walk_bytes) hop_walk(&h, roles);
    if (h.turns && h.chained) take_turns(&h, roles->reg[1]);
    return true;
}
