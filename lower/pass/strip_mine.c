// Tiles too big for registers: an axis longer than a program can hold becomes a loop over chunks of it.
//
//     let e = exp(x[m, n] - max(x[m, n] over n));          n: 131072 lanes
//     y[m, n] = e / sum(e over n);
//
//     top = for n0 .. by 8192 { max(top, max(x[m, n'] over n')) }            each consumer re-reads what it
//     den = for n0 .. by 8192 { den + sum(exp(x[m, n'] - top) over n') }     needs; a row of this length
//     for n0 .. by 8192 { y[m, n'] = exp(x[m, n'] - top) / den }             comes from L2 the second time
//
// A scan along the axis goes on from chunk to chunk, its total carried; one from the end takes the chunks from the last:
//
//     for n0 .. by 8192, so_far = 0 { y[m, n'] = so_far + cumsum(x[m, n'] over n'); so_far + sum(x[m, n'] over n') }
//
// A sink is an op that ends the axis: a reduction over it, a store or atomic along it. Each sink gets a
// loop that computes, for one chunk, just what it depends on; neighbouring sinks that do not depend on one
// another share a loop. Everything between must be pure and every load from a tensor that the program does
// not write, so that reading again is the same. Where that fails the kernel stays as it is.
#include "lower/facts/access.h"
#include "lower/pass/passes.h"
#include "lower/pass/reduction.h"
#include "lower/simplify/simplify.h"
#include "ptx/ptx.h"

// bytes of a row that a cluster shares (cluster_rows.c), and its chunks
enum { CLUSTERED = 113 << 10, CLUSTERED_CHUNK = 4096 };
enum { LIMIT = 16384, CHUNK = 8192, MAX_SINKS = 16, MAX_SCANS = 16 };      // lanes: 16 warps of 32 registers; 8 warps

typedef struct Chunk {
    Fn     *f;
    Val    *axis;
    Region *r;
    int64_t extent;                 // of a chunk
    Op     *sink[MAX_SINKS];
    int     n;
    Op     *scan[MAX_SCANS];        // of the loop at work: along the axis
    Val    *so_far[MAX_SCANS], *then[MAX_SCANS];       // what came before the chunk, and with it
    int     nscan;
} Chunk;

static bool mentions(const Op *op, const Val *axis) {
    for (int i = 0; i < op->nin; i++)  if (type_axis(&op->in[i]->type, axis) >= 0 || op->in[i] == axis) return true;
    for (int i = 0; i < op->nout; i++) if (type_axis(&op->out[i]->type, axis) >= 0) return true;
    return false;
}

static bool inside(const Region *r, const Val *axis) {
    for (const Op *op = r->first; op; op = op->next) {
        if (mentions(op, axis)) return true;
        for (int i = 0; i < op->nreg; i++) if (inside(op->reg[i], axis)) return true;
    }
    return false;
}

static bool collect(Chunk *c) {
    for (Op *op = c->r->first; op; op = op->next) {
        for (int i = 0; i < op->nreg; i++) if (inside(op->reg[i], c->axis)) return false;
        if (!mentions(op, c->axis)) continue;
        bool sink = op->code == OP_T_store || op->code == OP_T_atomic ||
                    (op->code == OP_T_reduce && type_axis(&op->out[0]->type, c->axis) < 0);
        if (op->code == OP_T_atomic && val_used(&c->f->body, op->out[0])) return false;
        if (sink && c->n == MAX_SINKS) return false;
        if (sink) { c->sink[c->n++] = op; continue; }
        bool load = op->code == OP_T_load && c->f->launch->params[op->in[0]->def->imm].mode == PM_IN;
        if (!load && !op_has(op, 'P')) return false;
        if (op->code == OP_T_dot || op->code == OP_T_rename || op->code == OP_T_take) return false;
        if ((op->code == OP_T_sort || op->code == OP_T_order) && op->in[1] == c->axis) return false;
    }
    return c->n > 0;
}

// ---- what a sink needs ---------------------------------------------------------------------------

static bool before(const Op *a, const Op *b) {          // in one region
    for (const Op *x = a->next; x; x = x->next) if (x == b) return true;
    return false;
}

// Everything that v depends on and that lies in the region is defined before `at`, but for tiles over the axis.
static bool available(const Chunk *c, const Val *v, const Op *at) {
    const Op *d = v->def;
    if (!d || d->parent != c->r) return true;
    if (v->type.kind == TY_TILE && type_axis(&v->type, c->axis) >= 0) {
        for (int i = 0; i < d->nin; i++) if (!available(c, d->in[i], at)) return false;
        return true;
    }
    return before(d, at);
}

enum { UP = 1, DOWN = 2 };

// The scans along the axis that v is made of join the list; which ways they go, as bits. Too many go both ways.
static int list_scans(Chunk *c, Val *v) {
    int ways = 0;
    Op *d = v->def;
    if (v->type.kind != TY_TILE || type_axis(&v->type, c->axis) < 0) return 0;
    for (int i = 0; i < d->nin; i++) ways |= list_scans(c, d->in[i]);
    if (d->code != OP_T_scan || d->in[1] != c->axis) return ways;
    int at = 0;
    while (at < c->nscan && c->scan[at] != d) at++;
    if (at == MAX_SCANS) return UP | DOWN;
    c->scan[at] = d;
    if (at == c->nscan) c->nscan++;
    return ways | (d->flags & REVERSE ? DOWN : UP);
}

static int scans_of(Chunk *c, const Op *sink) {
    int ways = 0;
    for (int i = 0; i < sink->nin; i++) ways |= list_scans(c, sink->in[i]);
    return ways;
}

// The sink `op` can run in the loop of those from `first` on: it needs nothing that they make, and its scans go their way.
static bool joins(const Chunk *c, int first, int op) {
    Chunk scans = *c;
    int   ways = 0;
    scans.nscan = 0;
    for (int i = first; i <= op; i++) ways |= scans_of(&scans, c->sink[i]);
    for (int i = 0; i < c->sink[op]->nin; i++) if (!available(c, c->sink[op]->in[i], c->sink[first])) return false;
    return ways != (UP | DOWN);
}

static Val *slice(Chunk *c, Region *into, ValMap *m, Val *v) {
    Val *have = map_get(m, v);
    if (have != v || v->type.kind != TY_TILE || type_axis(&v->type, c->axis) < 0) return have;
    for (int i = 0; i < v->def->nin; i++) slice(c, into, m, v->def->in[i]);
    Op *part = op_clone(c->f, v->def, m);
    op_append(into, part);
    for (int i = 0; i < c->nscan; i++) {
        if (c->scan[i] != v->def) continue;
        Builder b = {c->f, into, NULL, v->def->span};
        TReduce kind = (TReduce)part->sub;
        Val *all = b_op(&b, OP_T_reduce, kind, c->so_far[i]->type, 2, part->in);
        c->then[i] = reduce_join(&b, kind, c->so_far[i], all);
        map_set(m, v, reduce_join(&b, kind, c->so_far[i], part->out[0]));
    }
    return map_get(m, v);
}

// Where the axis ends: a tile of a trip or of a program may end before its range does.
static Val *end_of(const Chunk *c, Builder *b) {
    Val *lo = c->axis->def->in[0], *hi = c->axis->def->in[1];
    if (lo->def && lo->def->code == OP_T_const) return hi;             // the range is one tile: a guard sees to it
    Val *last = b_binary(b, OP_add, lo, b_const(b, EL_index, axis_extent(c->axis)));
    return b_op(b, OP_T_fun, TF_min, type_scalar(EL_index), 2, (Val *[]){hi, last});
}

// ---- the loop of sinks first .. last-1 -----------------------------------------------------------

static bool is_arg(const Op *op) { return op->sub == TR_argmax || op->sub == TR_argmin; }

// What the loop carries before its first trip: of each reduction its neutral element (of argmax and argmin a place beside it), then of each scan.
static int first_values(const Chunk *c, Builder *b, int first, int last, Val **init) {
    int n = 0;
    for (int i = first; i < last; i++) {
        const Op *s = c->sink[i];
        if (s->code != OP_T_reduce) continue;
        Elem e = (Elem)(is_arg(s) ? s->in[0] : s->out[0])->type.elem;
        init[n++] = b_number(b, type_with(s->out[0]->type, e), reduce_neutral((TReduce)s->sub, e));
        if (is_arg(s)) init[n++] = b_number(b, s->out[0]->type, -1);
    }
    for (int i = 0; i < c->nscan; i++) {
        Type t = type_minus(c->scan[i]->out[0]->type, 1, &c->axis);
        init[n++] = b_number(b, t, reduce_neutral((TReduce)c->scan[i]->sub, (Elem)t.elem));
    }
    return n;
}

// The trip's own part of the axis.
static Val *part_of_axis(const Chunk *c, Builder *in, Val *from, Val *hi) {
    Val *axis = b_op(in, OP_T_axis, 0, (Type){.kind = TY_AXIS, .shape = {c->extent}}, 2, (Val *[]){from, hi});
    axis->def->imm = c->extent;
    axis->name = c->axis->name;
    if ((c->axis->def->flags & AXIS_FULL) && axis_extent(c->axis) % c->extent == 0) axis->def->flags |= AXIS_FULL;
    return axis;
}

// A reduction's part joined with what the loop carries from `k` on; how many values that is.
static int join_part(Chunk *c, Builder *in, const Op *loop, Op *s, const Op *part, int k, bool down, Val **next) {
    const Region *r = loop->reg[0];
    Val *acc = r->args.at[1 + k];
    if (!is_arg(s)) {
        next[k] = reduce_join(in, (TReduce)s->sub, acc, part->out[0]);
        replace_uses(&c->f->body, s->out[0], loop->out[k]);
        loop->out[k]->name = s->out[0]->name;
        return 1;
    }
    TReduce value = s->sub == TR_argmax ? TR_max : TR_min;
    Val *top = b_op(in, OP_T_reduce, (int)value, acc->type, part->nin, part->in);
    ArgBest old = {acc, r->args.at[2 + k]}, now = {top, part->out[0]};
    ArgBest best = argbest_join(in, (TReduce)s->sub, down ? now : old, down ? old : now);
    next[k] = best.value;
    next[k + 1] = best.at;
    replace_uses(&c->f->body, s->out[0], loop->out[k + 1]);
    return 2;
}

static void loop_of(Chunk *c, int first, int last) {
    Fn *f = c->f;
    Builder b = {f, NULL, c->sink[first], c->sink[first]->span};
    Val *init[3 + 2 * MAX_SINKS + MAX_SCANS], *next[2 * MAX_SINKS + MAX_SCANS];
    Val *lo = c->axis->def->in[0], *hi = end_of(c, &b), *step = b_const(&b, EL_index, c->extent), *last_chunk = NULL;
    int ways = 0;
    c->nscan = 0;
    for (int i = first; i < last; i++) ways |= scans_of(c, c->sink[i]);
    init[0] = lo; init[1] = hi; init[2] = step;
    if (ways == DOWN) {                                     // chunks by number, the last one first
        Val *one = b_const(&b, EL_index, 1), *zero = b_const(&b, EL_index, 0);
        Val *over = b_binary(&b, OP_add, b_binary(&b, OP_sub, hi, lo), b_const(&b, EL_index, c->extent - 1));
        init[0] = zero; init[1] = b_binary(&b, OP_div, over, step); init[2] = one;
        last_chunk = b_binary(&b, OP_sub, init[1], one);
    }
    int n = first_values(c, &b, first, last, init + 3), scans = n - c->nscan;
    Op *loop = op_new(f, OP_T_for, b.span, 3 + n, init, n);
    for (int i = 0; i < n; i++) loop->out[i]->type = init[3 + i]->type;
    op_before(c->sink[first], loop);
    Region *r = loop->reg[0];
    Builder in = {f, r, NULL, b.span};
    Val *counter = region_arg(f, r, type_scalar(EL_index));
    for (int i = 0; i < n; i++) region_arg(f, r, init[3 + i]->type);
    for (int i = 0; i < c->nscan; i++) c->so_far[i] = r->args.at[1 + scans + i];
    if (ways == DOWN) {
        Val *left = b_binary(&in, OP_sub, last_chunk, counter),
            *number = b_op(&in, OP_T_fun, TF_max, left->type, 2, (Val *[]){left, b_const(&in, EL_index, 0)});
        counter = b_binary(&in, OP_add, lo, b_binary(&in, OP_mul, number, step));
    }

    ValMap map = {.arena = f->arena};
    map_set(&map, c->axis, part_of_axis(c, &in, counter, hi));
    for (int i = first, k = 0; i < last; i++) {
        Op *s = c->sink[i];
        in.span = s->span;
        for (int q = 0; q < s->nin; q++) slice(c, r, &map, s->in[q]);
        Op *part = op_clone(f, s, &map);
        op_append(r, part);
        if (s->code == OP_T_reduce) k += join_part(c, &in, loop, s, part, k, ways == DOWN, next);
    }
    for (int i = 0; i < c->nscan; i++) next[scans + i] = c->then[i];
    Op *y = op_new(f, OP_T_yield, b.span, n, next, 0);
    op_append(r, y);
}

// Bytes of the tiles along the axis that each program loads for itself: weights that all of them have in common come
// from L2.
static int64_t row_bytes(const Chunk *c) {
    int64_t bytes = 0;
    for (const Op *op = c->r->first; op; op = op->next)
        if (op->code == OP_T_load && mentions(op, c->axis) && loads_own(op))
            bytes += type_lanes(&op->out[0]->type) * elem_bytes((Elem)op->out[0]->type.elem);
    return bytes;
}

static int64_t most_lanes(const Chunk *c) {
    const Target *t = c->f->target;
    if (!t || !t->has_cluster || row_bytes(c) <= CLUSTERED) return CHUNK;
    for (const Op *op = c->r->first; op; op = op->next)
        if (op->code == OP_T_load && mentions(op, c->axis) && !(loads_own(op) && access_by_16(c->f, op))) return CHUNK;
    return CLUSTERED_CHUNK;
}

static bool chunk_axis(Fn *f, Val *axis, int64_t lanes) {
    Chunk c = {.f = f, .axis = axis, .r = axis->def->parent, .extent = axis_extent(axis)};
    int64_t most = most_lanes(&c);
    while (c.extent > 32 && lanes / axis_extent(axis) * c.extent > most) c.extent = (c.extent + 1) / 2;
    int64_t p = 1;
    while (p < c.extent) p *= 2;
    c.extent = p;
    if (c.extent >= axis_extent(axis) || !collect(&c)) {
        fn_note(f, axis->def->span, "%lld elements in one tile: it could not be cut into chunks", (long long)lanes);
        return false;
    }
    for (int i = 0; i < c.n; i++) if (!joins(&c, i, i)) return false;
    fn_note(f, axis->def->span,
            "%lld elements are more than a block holds: loops over chunks of %lld along the longest axis",
            (long long)lanes, (long long)c.extent);
    int64_t bytes = row_bytes(&c);
    if (bytes > f->longest) f->longest = bytes;
    for (int i = 0; i < c.n;) {
        int last = i + 1;
        while (last < c.n && joins(&c, i, last)) last++;
        loop_of(&c, i, last);
        i = last;
    }
    for (int i = 0; i < c.n; i++) op_remove(c.sink[i]);
    return true;
}

// The axis to cut: the longest one of the biggest tile.
static Val *biggest(const Region *r, Val *best, int64_t *lanes, Val *const *refused, int n) {
    for (const Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nout; i++) {
            const Type *t = &op->out[i]->type;
            if (t->kind != TY_TILE || !t->rank || type_lanes(t) <= LIMIT || type_lanes(t) <= *lanes) continue;
            Val *longest = t->axis[0];
            for (int k = 1; k < t->rank; k++) if (axis_extent(t->axis[k]) > axis_extent(longest)) longest = t->axis[k];
            bool no = false;
            for (int k = 0; k < n; k++) no |= refused[k] == longest;
            if (no) continue;
            best = longest;
            *lanes = type_lanes(t);
        }
        for (int i = 0; i < op->nreg; i++) best = biggest(op->reg[i], best, lanes, refused, n);
    }
    return best;
}

static bool has_dot(const Region *r) {
    for (const Op *op = r->first; op; op = op->next) {
        if (op->code == OP_T_dot) return true;
        for (int i = 0; i < op->nreg; i++) if (has_dot(op->reg[i])) return true;
    }
    return false;
}

bool chunk(Fn *f) {
    Val *refused[16];
    int n = 0;
    bool changed = false;
    if (has_dot(&f->body)) return false;                    // accumulators live in many warps' registers
    for (int tries = 0; tries < 32 && n < 16; tries++) {
        int64_t lanes = 0;
        Val *axis = biggest(&f->body, NULL, &lanes, refused, n);
        if (!axis) break;
        if (!chunk_axis(f, axis, lanes)) { refused[n++] = axis; continue; }
        if (f->with && f->with->unoptimised) remove_dead(f);
        else simplify(f);
        changed = true;
    }
    return changed;
}
