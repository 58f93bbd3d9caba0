// Whether a kernel can have roles on Hopper, and what they share: the products of its loop, how each operand comes to them, and how
// shared memory is divided. What is found stands in the Ws; what is against it goes to the report.
//
// Applies to a kernel whose body has one loop with products at its top level, or such a loop in another one (specialize/outer_loop.c), when every product is over one axis and
// of types that wgmma multiplies (f16, bf16, f8, 8-bit integers, f32 as tf32), its rows come in 64s (or its columns: then
// the transposed product is made, so that a few rows are wgmma's columns, which come in eights), and each operand is
//
//     a plain load in the loop (an axis or a scalar per dimension, innermost contiguous, of a read-only
//     tensor): a ring of stages;   such a load before the loop: one buffer, filled once a tile (attention's q), or any tile made
//     there, which the consumers put into a buffer (specialize/register_operand.c);
//     a load whose rows are pixels of a convolution: a ring, by TMA's im2col mode (specialize/im2col.c);
//     a load whose rows lie together some at a time (a cache's pages): a ring, by as many boxes (specialize/paged_boxes.c);
//     a load whose rows data names: a ring, by cp.async (specialize/gathered_rows.c);
//     on the left, any tile made in the loop: registers (attention's p).
//
// Along the contracted axis TMA fills with zeros only where the tensor ends. Where the axis may end
// earlier, the rows past its end are cleared in shared memory on the trip that has them.
#include "lower/specialize/specialize.h"

#include <string.h>

static bool decline(Ws *h, const char *why) {
    h->f->roles_refused = why;
    return false;
}

// The same wherever it is done: arithmetic, and one element of a tensor that nobody writes.
bool ws_repeatable(const Ws *h, const Op *op) {
    bool read = op->code == OP_T_load && op->out[0]->type.rank == 0 && h->f->launch->params[op->in[0]->def->imm].mode == PM_IN;
    return op_has(op, 'P') || read;
}

// A scalar that the producer can compute too, from parameters, lengths or a page table in memory, and the loop's counter.
bool ws_computable(const Ws *h, const Val *v) {
    const Op *d = v->def;
    if (!d) return v == h->loop->reg[0]->args.at[0] || (h->nest && v == h->nest->reg[0]->args.at[0]);
    if (v->type.rank || !ws_repeatable(h, d) || d->code == OP_T_reduce || d->code == OP_T_dot) return false;
    if (d->parent != h->loop->parent && d->parent != h->loop->reg[0] && !(h->nest && d->parent == h->nest->parent)) return false;
    for (int i = 0; i < d->nin; i++) if (d->in[i]->type.kind == TY_TILE && !ws_computable(h, d->in[i])) return false;
    return true;
}

// No trip has dead lanes: the axis's end is a number that its extent divides, or is known to be a multiple, and where a trip begins is one too.
static bool whole_trips(const Ws *h, const Val *k, LExpr end) {
    int64_t n, extent = axis_extent(k), from = fact_divisor(h->facts, axis_lo(k));
    bool whole = fact_constant(h->facts, end, &n) ? n % extent == 0 : fact_known_multiple(h->facts, axis_hi(k), extent);
    return whole && from % extent == 0;
}

enum { SUM_REGS = 176, PROMOTED_REGS = 192, LEFT_WORDS = 32 };  // of a thread: sums; those of f8 or several, products beside them; a left operand that it turns

// What TMA cannot fetch, but any load can: then a left operand comes through registers.
static const char small_span[] = "an operand's innermost extent is no multiple of 16",
                  odd_start[] = "an operand's innermost coordinate is not known to be 16-byte aligned", odd_rows[] = "rows are not known to be 16-byte aligned";
static const char outside[] = "an operand of 32 bits has the contracted axis outside";
static const char loaded_address[] = "an operand's address depends on loaded values";
static const char computed_right[] = "an operand of a product is neither loaded nor on the left";
static bool alignment(const char *why) { return why == small_span || why == odd_start || why == odd_rows; }

static bool terms_computable(const Ws *h, const AffTerm *term, int n) {
    for (int t = 0; t < n; t++) if (!ws_computable(h, term[t].v)) return false;
    return true;
}

bool ws_place_computable(const Ws *h, const Affine *x) { return terms_computable(h, x->term, x->nterm); }

// Rows some apart, as those of a signal's windows: x[2 m + s, c].
static bool strided(const Affine *x) { return x->naxis == 1 && !x->ntile && (x->axis[0].k != 1 || x->axis[0].scale); }

// A load whose rows are pixels: its window, and whether rows past the contracted axis's end are to be cleared.
static const char *operand_window(Ws *h, Operand *o, const Val *k) {
    const Access *a = &o->a;
    for (int d = 0; d + 1 < a->nidx && !o->window; d++) {
        bool apart = strided(&a->aff[d]);
        if (!a->aff[d].ntile && !apart) continue;
        if (a->inner + 1 < a->nidx) return apart ? "an operand is strided" : "an operand is gathered";
        o->window = NEW(h->f->arena, Window);
        const char *why = ws_window(h, a, a->nidx - 1, true, o->window);
        if (why) return why;
        for (int i = 0; i < o->window->n; i++) {
            const Pixels *x = &o->window->at[i];
            if (!terms_computable(h, x->base.term, x->base.nterm) || !terms_computable(h, x->tap.term, x->tap.nterm)) return loaded_address;
        }
        o->outer = o->window->rows;
        if (o->where == ONCE) return "an operand is gathered";
        if (o->outer != k) continue;
        why = ws_pixels_refusal(h, o);
        if (why) return why;
        o->clear = !(k->def->flags & AXIS_FULL) && !ws_window_ends(h, a, o->window);
    }
    return NULL;
}

// Where the contracted axis ends, trips or the tensor do: nothing is to be cleared there.
static bool ends_with(const Ws *h, const Val *k, const LExpr *dim) {
    LExpr end;
    bool known = host_expr(h->facts, axis_hi(k), &end);
    return (k->def->flags & AXIS_FULL) || (known && (whole_trips(h, k, end) || (dim && launch_same(end, *dim))));
}

// Which axis its rows are, which its columns, and whether rows past the contracted axis's end are to be cleared.
static const char *operand_axes(Ws *h, Operand *o, const Val *k) {
    const Access *a = &o->a;
    for (int d = 0; d < a->nidx; d++) {
        const Affine *x = &a->aff[d];
        if ((o->window || o->boxes) && d + 1 < a->nidx) continue;
        if (x->ntile || x->naxis > 1) return "an operand is gathered";
        if (!terms_computable(h, x->term, x->nterm)) return loaded_address;
        if (!x->naxis) continue;
        if (x->axis[0].k != 1 || x->axis[0].scale) return "an operand is strided";
        if (d == a->inner) o->inner = x->axis[0].axis;
        else { o->outer = x->axis[0].axis; o->outer_dim = d; }
        if (x->axis[0].axis != k) continue;
        if (!ends_with(h, k, &a->p->dim[d])) o->clear = true;
    }
    if (o->boxes && o->outer == k && !ends_with(h, k, NULL)) o->clear = true;
    if (!o->inner || !o->outer || o->inner == o->outer) return "an operand's innermost dimension has no axis";
    return NULL;
}

static const char *operand_of(Ws *h, Operand *o, Val *v, const Val *k, int side) {
    Op *load = v->def;
    bool plain = load && load->code == OP_T_load && (load->parent == h->loop->reg[0] || load->parent == h->loop->parent);
    if (plain && load->parent == h->loop->parent) o->where = ONCE;
    int size = elem_bytes((Elem)v->type.elem), unit = 16 / size;
    if (!plain && ws_across(h, o, v, k)) return NULL;
    if (!plain && side == 0 && v->type.rank == 2 && size == 2 && (!load || load->parent == h->loop->reg[0])) { o->where = REGISTERS; return NULL; }
    if (!plain) return computed_right;
    o->load = load;
    access_shape(h->facts, load, &o->a);
    const Access *a = &o->a;
    if (a->p->mode != PM_IN || a->p->strided || (load->flags & HAS_ELSE)) return "an operand's tensor is not a plain input";
    if (a->nidx < 2 || a->nidx > 5 || v->type.rank != 2) return "an operand's tile has not two axes";
    o->seen = ws_seen(h, load);
    bool named = ws_gathered(o), boxes = named && ws_boxes(h, o);
    if (named && !boxes) return ws_gather(h, o, k);
    const char *why = boxes ? NULL : operand_window(h, o, k);
    if (why && ws_boxes(h, o)) o->window = NULL, why = NULL;
    if (why && !ws_gather(h, o, k)) return NULL;            // rows that no walk goes through: one by one
    if (!why) why = operand_axes(h, o, k);
    if (why) return why;
    int64_t in = tma_row(axis_extent(o->inner) * size, o->inner == k), out = axis_extent(o->outer);
    if (size > 2 && o->inner != k && !(side == 0 && v->type.elem == EL_f32)) return outside;
    o->turned = size == 1 && o->inner != k && side == 1;
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
    return o->seen && (o->window || o->clear) ? "an operand is used elsewhere too" : NULL;
}

static bool fits_rows(int64_t m) { return m == 64 || (m > 0 && m % 128 == 0); }
static bool fits(const Ws *h, int64_t m) { return fits_rows(m) || (m == 192 && !h->no_bands); }

// What wgmma multiplies: f16, bf16, f8 of either kind, 8-bit integers, and f32 as tf32, once or three times (specialize/tf32x3.c).
static bool element_types(const Op *dot) {
    Elem a = (Elem)dot->in[0]->type.elem, b = (Elem)dot->in[1]->type.elem, o = (Elem)dot->out[0]->type.elem;
    bool f8 = (a == EL_f8e4m3 || a == EL_f8e5m2) && (b == EL_f8e4m3 || b == EL_f8e5m2);
    bool ints = (a == EL_i8 || a == EL_u8) && (b == EL_i8 || b == EL_u8);
    if (ints) return o == EL_i32;
    return o == EL_f32 && (f8 || (a == b && (a == EL_bf16 || a == EL_f16 || (a == EL_f32 && dot->sub != DP_ieee))));
}

// The transposed product: wgmma's columns come in eights.
static void swap_sides(Product *p) {
    Val *row = p->row;
    p->row = p->col;
    p->col = row;
    p->swapped = true;
    p->op[0] = p->op[1] = (Operand){0};
}

static const char *operands_of(Ws *h, Product *p, Op *dot) {
    for (int i = 0; i < 2; i++) {
        const char *why = operand_of(h, &p->op[i], dot->in[i ^ p->swapped], p->k, i);
        bool in_loop = p->op[i].where == RING && i == 0 && elem_bytes((Elem)dot->in[0]->type.elem) == 2;
        if (in_loop && alignment(why)) { p->op[i] = (Operand){.where = REGISTERS}; why = NULL; }
        if (why && !ws_made(h, &p->op[i], dot->in[i ^ p->swapped], p->k)) return why;
    }
    return NULL;
}

// The innermost dimension of a plain load is the contracted one.
static bool operand_reads_rows(Ws *h, Val *v, const Val *k) {
    Access a;
    if (!v->def || v->def->code != OP_T_load) return false;
    access_shape(h->facts, v->def, &a);
    return a.aff[a.inner].naxis == 1 && a.aff[a.inner].axis[0].axis == k;
}

// Columns of wgmma come in so many.
static int64_t columns_unit(Elem e, int64_t n) { return elem_is_int(e) && n > 32 ? 16 : 8; }

// Sums of the transposed product have registers.
static bool transpose_fits(const Product *p) {
    int64_t rows = axis_extent(p->col), each = rows / (rows % 128 ? 64 : 128) * axis_extent(p->row) / 2;
    return p->promoted ? 2 * each <= PROMOTED_REGS : each <= SUM_REGS;
}

static const char *product_of(Ws *h, Product *p, Op *dot) {
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
    p->three = e == EL_f32 && dot->sub != DP_tf32;
    if (p->three && !(dot->flags & CHECKED)) return "an infinity among the operands of a product of f32 would not be found";
    int64_t height = axis_extent(p->row), width = axis_extent(p->col);
    bool aside = p->three && height == 64 && width > height && fits_rows(width) && operand_reads_rows(h, dot->in[0], p->k);      // for two groups
    Operand across;
    bool others = height != axis_extent(h->p[0].row) && width == axis_extent(h->p[0].row);      // that the products before it have
    bool as_others = others && (ws_across(h, &across, dot->in[0], p->k) || ws_across(h, &across, dot->in[1], p->k));
    if ((!fits(h, height) && fits_rows(width)) || aside || as_others) swap_sides(p);
    int64_t m = axis_extent(p->row), n = axis_extent(p->col), k = axis_extent(p->k);
    if (!fits(h, m)) return "neither the rows nor the columns of a product are 64 or a multiple of 128";
    p->promoted = e == EL_f8e4m3 || e == EL_f8e5m2;
    if (n % columns_unit(e, n) || n > 256 || k % (32 / elem_bytes(e))) return "the extents of a product do not fit wgmma";
    const char *why = operands_of(h, p, dot);
    bool computed = why == computed_right && !h->follows;
    bool columns = (why == outside && e == EL_f32) || (!why && p->op[1].turned && p->op[0].outer != p->k && transpose_fits(p));      // on the left threads read it
    if ((!alignment(why) && !computed && !columns) || p->swapped || !fits_rows(n) || m % columns_unit(e, m) || m > 256) return why;
    swap_sides(p);                                             // the right one may come through registers on the left
    p->for_sources = computed;
    return operands_of(h, p, dot);
}

// Sums that nothing looks at before the loop's end: each product adds to a carried value, and is yielded as that.
static bool only_sums(const Ws *h, const Op *loop, int from, int to) {
    const Region *r = loop->reg[0];
    for (int p = from; p < to; p++) {
        const Op *dot = h->p[p].dot, *y = r->last;
        bool carried = false;
        if (!(dot->flags & HAS_ACC) || h->p[p].op[0].where == REGISTERS || ws_any_across(h)) return false;
        for (int i = 0; i < y->nin; i++) carried |= y->in[i] == dot->out[0] && dot->in[2] == r->args.at[1 + i];
        if (!carried || region_uses(&h->f->body, dot->out[0]) != 1 || region_uses(&h->f->body, dot->in[2]) != 1) return false;
    }
    return true;
}

static bool all_only_sums(const Ws *h) {
    for (int i = 0; i < h->nloops; i++) if (!only_sums(h, h->loops[i], h->first[i], h->first[i + 1])) return false;
    return true;
}

int ws_stages_in(const Ws *h, int64_t room) {
    int64_t n = room / (h->stage_bytes[0] + h->stage_bytes[1]), most = h->opt->schedule.stages ? h->opt->schedule.stages : MAX_STAGES;
    return (int)(n < most && n < MAX_STAGES ? n : most < MAX_STAGES ? most : MAX_STAGES);
}

// Bytes of the largest tile that is stored after the loop, as its conversion to whole lines needs them: extents of a power of two,
// rows padded.
static int64_t stored_bytes(const Ws *h) {
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

static bool one_by_one(const Ws *h) {
    const Operand *o = h->p[0].op;
    return h->groups == 1 && !h->chained && h->np == 1 && !h->walk_bytes && o[0].where == REGISTERS && o[1].window;
}

// What the other blocks of a cluster send of their parts of a slice (pass/cluster_scatter.c).
static int64_t received_bytes(const Ws *h) {
    const Op *put = put_scattered(h->f);
    return put ? scatter_bytes(put->in + 2, put->nin - 2, put->imm) + SYNC_BYTES : 0;
}

// Barriers, and where something is reduced what crosses warps.
static int64_t sync_bytes(const Ws *h) {
    bool reduces = false;
    for (const Op *op = op_walk(&h->f->body, NULL); op; op = op_walk(&h->f->body, op)) reduces |= op->code == OP_T_reduce || op->code == OP_T_scan;
    return h->nvectors && !reduces ? SYNC_BYTES / 2 : SYNC_BYTES;
}

static int stages(Ws *h) {
    int64_t room = (int64_t)h->opt->target->smem_block - h->opt->less - sync_bytes(h) - h->once_bytes - h->made_bytes - h->across_bytes - h->added_bytes - h->behind_bytes - h->walk_bytes - ws_slice_bytes(h);
    if (h->nest) room -= stored_bytes(h);                      // beside the rings
    room -= ws_seen_bytes(h) + received_bytes(h);
    if (!h->chained && !h->nsources && h->p[0].op[0].where == REGISTERS) {     // a tile computed from loads comes in their layout: see llvm/smem_budget.c
        int64_t computed = (axis_extent(h->p[0].row) + 16) * (axis_extent(h->p[0].k) + 16) * 2, stored = stored_bytes(h);
        room -= computed > stored ? computed : stored;
    }
    if (h->bands > 1 && !h->walk_bytes) room -= h->bands * stored_bytes(h);      // one may be through while another multiplies
    if (!h->opt->schedule.stages) room = ws_shared_room(h, room);
    if (one_by_one(h) && !h->opt->schedule.stages) return ws_stages_in(h, room) < FEW_STAGES ? 0 : FEW_STAGES;
    return ws_stages_in(h, room - ws_whole_slots(h, room));
}

static void begin(Ws *h) {
    h->loop = h->nest = NULL;
    h->follows = false;
    h->np = h->nsources = h->nvectors = h->nloops = h->at = h->from = h->to = 0;
    h->stage_bytes[0] = h->stage_bytes[1] = h->once_bytes = h->made_bytes = h->across_bytes = h->added_bytes = h->low_bytes = 0;
    h->groups = h->tiles = h->bands = 1;
    memset(h->p, 0, sizeof h->p);
}

// A loop's bounds, and of those around it.
static const char *bounds(Ws *h) {
    const char *why = h->nloops == 1 ? ws_nest(h) : NULL;
    if (why) return why;
    h->loops[h->at] = h->loop;
    for (int i = 0; i < 6; i++) {
        const Op *loop = i < 3 ? h->loop : h->nest;
        if (loop && !ws_computable(h, loop->in[i % 3])) return "the loop's bounds are not scalars that both roles can compute";
    }
    return h->loop->nout > MAX_CARRIED ? "the loop carries too many values" : NULL;
}

// The loops with products, bounds and all; mostly it is one. NULL: they were found, or there is none.
static const char *find_loops(Ws *h) {
    for (Op *op = h->f->body.first; op; op = op->next) {
        if (op->code == OP_T_dot && !h->nloops) return "a product stands before the loop";
        h->follows |= op->code == OP_T_dot;
        bool inside = false;
        for (int i = 0; i < op->nreg; i++) inside |= has_products(op->reg[i]);
        if (!inside) continue;
        if (op->code != OP_T_for || h->follows || h->nloops == MAX_LOOPS) return "the products are not in one loop";
        h->loops[h->nloops++] = op;
    }
    if (!h->nloops) return NULL;
    const char *why = ws_loops_apart(h);
    if (why) return why;
    if (h->f->cluster && !put_scattered(h->f)) return "the parts of its loop are a cluster's blocks";
    for (int i = 0; i < h->nloops; i++) {
        ws_at(h, i);
        if ((why = bounds(h))) return why;
    }
    return NULL;
}

// By itself, or for a loop around it.
static bool left_early(const Op *loop) {
    const Region *r = loop->reg[0];
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op)) {
        const Op *target = op_target(op);
        if (target && !op_inside(target, r)) return true;
    }
    return false;
}

static const char *products_of_loop(Ws *h) {
    if (left_early(h->loop)) return "the loop has a break";
    for (Op *op = h->loop->reg[0]->first; op; op = op->next) {
        for (int i = 0; i < op->nreg; i++) if (has_products(op->reg[i])) return "a product is in an inner loop or branch";
        if (op->code != OP_T_dot) continue;
        if (h->np - h->from == MAX_DOTS) return "the loop has too many products";
        const char *why = product_of(h, &h->p[h->np++], op);
        if (why) return why;
    }
    return NULL;
}

static const char *find_products(Ws *h) {
    const char *why = NULL;
    for (int i = 0; i < h->nloops; i++) {
        h->first[i] = h->first[i + 1] = h->np;
        ws_at(h, i);
        h->from = h->np;
        if ((why = products_of_loop(h))) return why;
        h->first[i + 1] = h->to = h->np;
        ws_products_first(h);
    }
    ws_share(h);
    if ((why = ws_loops_refuse(h))) return why;
    for (int i = 1; i < h->np; i++) if (axis_extent(h->p[i].row) != axis_extent(h->p[0].row)) return "products differ in rows";
    return ws_low(h);
}

static bool sums_fit(const Ws *h) {
    int64_t registers = 0, most = (h->p[0].promoted || h->np > 1 + h->nloops ? PROMOTED_REGS : SUM_REGS) - (ws_gathered_bytes(h, -1) ? 32 : 0);
    if (ws_left_words(h) > LEFT_WORDS) return false;
    bool across = ws_any_across(h);                           // such a product's results are where those were that it is made of
    for (int i = 0; i < h->np; i++) {
        const Product *p = &h->p[i];
        bool after = p->goes_on || (across && !(p->dot->flags & HAS_ACC) && (p->op[0].where == ACROSS || p->op[1].where == ACROSS));
        if (!after) registers += axis_extent(h->p[0].row) / 64 / h->groups * axis_extent(p->col) / 2 * (p->promoted ? 2 : 1);
    }
    return registers <= most || h->tiles * h->bands > 1;
}

static void add_up_bytes(Ws *h) {
    for (int i = 0; i < h->np; i++)
        for (int k = 0; k < 2; k++) {
            const Operand *o = &h->p[i].op[k];
            if (h->nloops > 1 && o->where == RING) continue;
            if (o->where == ACROSS && !o->same) h->across_bytes += ACROSS_SLOTS * o->bytes;
            else if (!o->same) *(o->where == ONCE ? &h->once_bytes : o->where == MADE ? &h->made_bytes : &h->stage_bytes[ws_ring(h, &h->p[i])]) += o->bytes;
        }
    if (h->nloops > 1) h->stage_bytes[0] += ws_stage_parts(h);
}

// Whatever shared memory is for beside the ring is given up until two stages fit: a tile behind the loop, a tile for each group, slots, slices.
static void divide_room(Ws *h) {
    h->slices = h->follows ? 1 : ws_slices(h);
    h->walk_bytes = h->slices > 1 || h->follows ? 0 : ws_walk_bytes(h);
    h->behind_bytes = ws_behind_bytes(h);
    h->added_bytes = ws_added_bytes(h);
    h->stages = stages(h);
    if (h->stages < 2 && h->added_bytes) {
        h->added_bytes = 0;
        h->stages = stages(h);
    }
    if (h->behind_bytes && ws_behind_short(h)) {
        h->behind_bytes = 0;
        h->walk_bytes = ws_walk_bytes(h);
        h->stages = stages(h);
    }
    if (h->stages < 2 && h->tiles > 1) {
        ws_pingpong_no_room(h);
        ws_divide_rows(h, 1);
        h->walk_bytes = ws_walk_bytes(h);
        h->stages = stages(h);
    }
    if (h->stages < 2 && h->walk_bytes) {
        h->walk_bytes = 0;
        h->stages = stages(h);
    }
    if (h->slices > 1 && ws_slices_short(h)) {
        h->walk_bytes = ws_walk_bytes(h);
        h->stages = stages(h);
    }
}

bool ws_applies(Ws *h) {
    begin(h);
    const char *why = find_loops(h);
    if (why) return decline(h, why);
    if (!h->nloops) return false;
    if ((why = find_products(h))) return decline(h, why);
    h->pipelined = !h->p[0].promoted && !h->by_threads && all_only_sums(h);
    ws_divide_rows(h, h->follows ? 1 : ws_pingpong(h));
    if (h->follows && h->bands > 1) return decline(h, "a product follows the loop of three groups");
    if (axis_extent(h->p[0].row) == 192 && h->tiles * h->bands == 1 && h->f->groups_refused) { h->no_bands = true; return ws_applies(h); }      // its transpose, then
    if (!sums_fit(h)) return decline(h, "the accumulator does not fit the registers");
    h->chained = h->nloops == 1 && !ws_any_seen(h) && ws_chained(h);
    h->rings = h->chained ? 2 : 1;
    add_up_bytes(h);
    ws_sources(h);
    ws_vectors(h);
    for (int i = 0; i < h->np; i++) if (h->p[i].for_sources && !h->nsources) return decline(h, computed_right);
    if ((why = ws_nest_refuses(h))) return decline(h, why);
    if (!h->stage_bytes[0]) return decline(h, "nothing is loaded in the loop");
    divide_room(h);
    if (h->stages < 2) return decline(h, "two stages of the operands do not fit shared memory");
    if (h->np > h->nloops && !h->chained && !h->pipelined) h->walk_bytes = 0;
    h->cluster = ws_cluster(h);
    h->fixed_bytes = ws_fixed(h);
    h->f->by_twos = ws_by_twos(h);
    return true;
}
