// How a tile access reaches memory.
//
// An access x[i, j] is decomposed once: each index into its affine form, each dimension into "proved in
// range" or "to be checked", the tile into the axis along which elements are adjacent. The layout pass
// asks for the vector width that pays, the code generator for everything.
//
//     x[m, n]   m = axis(lo, M), n = axis(0, N)         proved both: an axis's live lanes end at the dimension
//     x[b, p * stride + r - pad, c]                     the middle index is checked, the others are proved
//
// A width of v elements needs: the index's axis to start at a multiple of v, the other dimensions'
// strides and the axis's own bound to be multiples of v. Where the index is not proved in range, so must the dimension be: then all
// of the v are in range or none (x[m, block[j] * 64 + k]). What is not known is assumed, as a launch fact,
// by the specialised variant of the kernel; the general one then moves single elements.
//
// Elements may be adjacent in runs only: y[m, n / 32, n % 32]. Then v of them lie in one run (runs.c), and what their other
// indices are is the same for all v.
//
// A dimension of one element has no stride to speak of. Elements are adjacent along the last dimension that is longer,
// so a column x[K, 1] is K numbers in a row, for vectors, asynchronous copies and TMA alike (which only the specialised
// variant may say: a column may have been cut out of a matrix).
#include "lower/facts/access.h"
#include "lower/facts/runs.h"

#include <string.h>

// v + more <= the dimension; more n 0: nothing
static bool within_by(Facts *s, const Val *v, LExpr more, LExpr dim) {
    LExpr e;
    const Op *d = v->def;
    if (host_expr(s, v, &e)) {
        if (more.n) e = launch_join(facts_fn(s)->arena, L_ADD, e, more);
        if (launch_same(e, dim) || fact_host_at_most(s, e, dim)) return true;
    }
    if (!d) return false;
    if (!more.n && fact_range(s, v).hi <= 0) return true;        // no dimension is negative
    if (d->code == OP_T_select) return within_by(s, d->in[1], more, dim) && within_by(s, d->in[2], more, dim);
    if (d->code == OP_T_fun && d->sub == TF_max)
        return within_by(s, d->in[0], more, dim) && within_by(s, d->in[1], more, dim);
    if (d->code == OP_T_fun && d->sub == TF_min)
        return within_by(s, d->in[0], more, dim) || within_by(s, d->in[1], more, dim);
    if (d->code == OP_T_binary && d->sub == OP_sub && fact_range(s, d->in[1]).lo >= 0)
        return within_by(s, d->in[0], more, dim);
    if (d->code == OP_T_binary && d->sub == OP_add && fact_range(s, d->in[1]).hi <= 0)
        return within_by(s, d->in[0], more, dim);
    return false;
}

static bool within(Facts *s, const Val *v, LExpr dim) { return within_by(s, v, (LExpr){0}, dim); }

// v < the dimension, for a scalar: a loop's counter, a remainder, min(x, n - 1)
static bool below(Facts *s, const Val *v, LExpr dim) {
    const Op *d = v->def;
    int64_t c, n;
    if (!d) {
        const Op *o = v->region->owner;
        return o && o->code == OP_T_for && v == v->region->args.at[0] && within(s, o->in[1], dim);
    }
    if (d->code == OP_T_const) { c = d->imm; return fact_constant(s, dim, &n) && c < n; }
    if (d->code == OP_T_fun && d->sub == TF_min) return below(s, d->in[0], dim) || below(s, d->in[1], dim);
    if (d->code == OP_T_binary && d->sub == OP_rem) return within(s, d->in[1], dim) && fact_range(s, d->in[1]).lo >= 0;
    if (d->code == OP_T_binary && d->sub == OP_sub && fact_range(s, d->in[1]).lo >= 1) return within(s, d->in[0], dim);
    if (d->code == OP_T_binary && d->sub == OP_add && fact_range(s, d->in[1]).hi <= -1) return within(s, d->in[0], dim);
    if (d->code == OP_T_binary && d->sub == OP_add)
        for (int i = 0; i < 2; i++)
            if (d->in[i]->def && d->in[i]->def->code == OP_T_const && d->in[i]->def->imm == 0)
                return below(s, d->in[1 - i], dim);
    return false;
}

// How far the index passes its axis's own: d + D2 by D2, as the launcher computes it; n 0: not at all. False: unknown.
static bool beyond(Facts *s, const Affine *f, const Val *lo, LExpr *by) {
    Arena *a = facts_fn(s)->arena;
    int64_t c = f->c;
    bool found = lo->def && lo->def->code == OP_T_const;
    if (found) c -= lo->def->imm;
    *by = c ? launch_const(a, c) : (LExpr){0};
    for (int i = 0; i < f->nterm; i++) {
        AffTerm t = f->term[i];
        LExpr e;
        if (t.v == lo && !found) { found = true; t.k--; }
        if (!t.k) continue;
        if (!host_expr(s, t.v, &e)) return false;
        if (t.k != 1) e = launch_join_const(a, L_MUL, e, t.k);
        *by = by->n ? launch_join(a, L_ADD, *by, e) : e;
    }
    return found;
}

// By ranges that are numbers, in a dimension that is one.
static bool in_numbers(Facts *s, const Affine *f, const Val *axis, LExpr dim) {
    const Val *lo = axis_lo(axis);
    int64_t n, from = 0, most = 0, k;
    bool found = lo->def && lo->def->code == OP_T_const;
    if (!fact_constant(s, dim, &n)) return false;
    Range first = fact_range(s, lo), end = fact_range(s, axis_hi(axis));
    most = f->c - (found ? lo->def->imm : 0);
    from = most;
    for (int i = 0; i < f->nterm; i++) {
        if (f->term[i].v == lo && !found && f->term[i].k == 1) { found = true; continue; }
        Range r = fact_range(s, f->term[i].v);
        bool up = f->term[i].k > 0;
        if (__builtin_mul_overflow(up ? r.hi : r.lo, f->term[i].k, &k) || __builtin_add_overflow(most, k, &most))
            return false;
        if (__builtin_mul_overflow(up ? r.lo : r.hi, f->term[i].k, &k) || __builtin_add_overflow(from, k, &from))
            return false;
    }
    return found && !__builtin_add_overflow(from, first.lo, &from) && !__builtin_add_overflow(most, end.hi, &most) &&
           from >= 0 && most <= n;
}

// u * w + an axis that ends at w, where u < n and n * w is the dimension: a group's channels.
static bool in_block(Facts *s, const Affine *f, const Val *axis, LExpr dim) {
    Arena *a = facts_fn(s)->arena;
    const Val *lo = axis_lo(axis), *block = NULL;
    bool found = lo->def && lo->def->code == OP_T_const && lo->def->imm == f->c;
    if (!found && f->c) return false;
    for (int i = 0; i < f->nterm; i++) {
        if (f->term[i].k != 1) return false;
        if (f->term[i].v == lo && !found) found = true;
        else if (!block) block = f->term[i].v;
        else return false;
    }
    const Op *d = block ? block->def : NULL;
    if (!found || !d || d->code != OP_T_binary || d->sub != OP_mul || fact_range(s, lo).lo < 0) return false;
    for (int i = 0; i < 2; i++) {
        const Op *u = d->in[i]->def;
        LExpr w, n;
        if (!u || u->code != OP_T_fun || u->sub != TF_min || !u->attr || !host_expr(s, d->in[1 - i], &w) ||
            !within(s, axis_hi(axis), w))
            continue;
        const Op *last = u->in[1]->def;                          // the program's number, at most n + -1
        if (!last || last->code != OP_T_binary || last->sub != OP_add || !last->in[1]->def ||
            last->in[1]->def->code != OP_T_const || last->in[1]->def->imm != -1)
            continue;
        if (!host_expr(s, last->in[0], &n)) continue;
        const Op *part = d->in[1 - i]->def;                      // w = dim / n
        LExpr whole;
        if (part && part->code == OP_T_binary && part->sub == OP_div && fact_same(part->in[1], last->in[0]) &&
            host_expr(s, part->in[0], &whole) && launch_same(whole, dim))
            return true;
        if (fact_host_at_most(s, launch_join(a, L_MUL, n, w), dim) ||
            fact_host_at_most(s, launch_join(a, L_MUL, w, n), dim))
            return true;
    }
    return false;
}

// k / c of an axis that ends at c times the dimension.
static bool below_quotient(Facts *s, const Op *d, LExpr dim) {
    const Op *k = d && d->code == OP_T_binary && d->sub == OP_div ? d->in[0]->def : NULL, *c = k ? d->in[1]->def : NULL;
    if (!k || k->code != OP_T_index || !c || c->code != OP_T_const || c->imm < 1) return false;
    return within(s, axis_hi(k->in[0]), launch_join_const(facts_fn(s)->arena, L_MUL, dim, c->imm));
}

// What is left of an index without `times` of where the axis begins. False: it does not begin there.
static bool less_start(Facts *s, Affine *rest, const Val *axis, int64_t times) {
    Affine lo;
    if (!affine_of(axis_lo(axis), &lo) || lo.ntile || lo.naxis || fact_range(s, axis_lo(axis)).lo < 0) return false;
    for (int i = 0; i < lo.nterm; i++) {
        int at = 0;
        while (at < rest->nterm && rest->term[at].v != lo.term[i].v) at++;
        if (at == rest->nterm) return false;
        rest->term[at].k -= times * lo.term[i].k;
    }
    rest->c -= times * lo.c;
    return true;
}

// The most that it can be, which is not less than 0.
static bool most_of(Facts *s, const Affine *rest, LExpr *sum) {
    Arena *a = facts_fn(s)->arena;
    LExpr most;
    if (rest->c < 0) return false;
    for (int i = 0; i < rest->nterm; i++)
        if (rest->term[i].k < 0 || (rest->term[i].k && fact_range(s, rest->term[i].v).lo < 0)) return false;
    *sum = launch_const(a, rest->c);
    for (int i = 0; i < rest->nterm; i++) {
        if (!rest->term[i].k) continue;
        if (!fact_bound(s, rest->term[i].v, &most)) return false;
        *sum = launch_join(a, L_ADD, *sum, rest->term[i].k == 1 ? most : launch_join_const(a, L_MUL, most, rest->term[i].k));
    }
    return true;
}

// The axes and what is added to them, each at its most: h * 64 + d in H * 64 elements, (2 * H + h) * D + d in 3 * H * D, g * 32 + j.
static bool at_most(Facts *s, const Affine *f, LExpr dim) {
    Arena *a = facts_fn(s)->arena;
    Affine rest = *f;
    LExpr sum, end;
    for (int i = 0; i < f->naxis; i++)
        if (f->axis[i].scale || f->axis[i].k <= 0 || !less_start(s, &rest, f->axis[i].axis, f->axis[i].k)) return false;
    if (!most_of(s, &rest, &sum)) return false;
    if (f->naxis == 1) return within_by(s, axis_hi(f->axis[0].axis), sum, dim);
    for (int i = 0; i < f->naxis; i++) {
        if (!fact_bound(s, axis_hi(f->axis[i].axis), &end)) return false;
        sum = launch_join(a, L_ADD, sum, launch_join_const(a, L_MUL, launch_join_const(a, L_SUB, end, 1), f->axis[i].k));
    }
    return fact_host_at_most(s, launch_join_const(a, L_ADD, sum, 1), dim);
}

// A quotient or remainder of axes, by what it can be on live lanes: n / 32 where n ends at 1536; n % D in a dimension of D.
static bool in_live_range(Facts *s, const Val *idx, LExpr dim) {
    const Op *d = idx->def;
    int64_t n;
    Range r = fact_live_range(s, idx);
    if (r.lo < 0) return false;
    if (below_quotient(s, d, dim)) return true;
    if (fact_constant(s, dim, &n) && r.hi < n) return true;
    return d && d->code == OP_T_binary && d->sub == OP_rem && d->in[1]->type.rank == 0 && within(s, d->in[1], dim);
}

static bool proved(Facts *s, const Access *a, int d) {
    const Affine *f = &a->aff[d];
    const Val *idx = a->idx[d];
    if (idx->type.rank == 0) return fact_range(s, idx).lo >= 0 && below(s, idx, a->p->dim[d]);
    if (!f->ntile && f->naxis > 1 && at_most(s, f, a->p->dim[d])) return true;
    if (f->ntile || f->naxis != 1 || f->axis[0].k != 1 || f->axis[0].scale) return in_live_range(s, idx, a->p->dim[d]);
    const Val *axis = f->axis[0].axis;                          // exactly lo + i?
    LExpr by;
    if (in_numbers(s, f, axis, a->p->dim[d])) return true;
    if (!beyond(s, f, axis_lo(axis), &by)) return in_block(s, f, axis, a->p->dim[d]) || at_most(s, f, a->p->dim[d]);
    bool positive = fact_range(s, axis_lo(axis)).lo >= 0 &&
                    (!by.n || fact_host_at_most(s, launch_const(facts_fn(s)->arena, 0), by));
    return positive && within_by(s, axis_hi(axis), by, a->p->dim[d]);
}

static bool divides_uniform(Facts *s, const Affine *f, int64_t v) {
    if (f->c % v) return false;
    for (int i = 0; i < f->nterm; i++)
        if (f->term[i].k % v && !fact_divides(s, f->term[i].v, v)) return false;
    return true;
}

// The other axes of an index move it by multiples of v: x[g * 32 + j] along j.
static bool divides_others(const Affine *f, const Val *axis, int64_t v) {
    for (int i = 0; i < f->naxis; i++)
        if (f->axis[i].axis != axis && (f->axis[i].scale || f->axis[i].k % v)) return false;
    return true;
}

// So do places that are computed for other axes: x[m % 7 * 64 + j] along j.
static bool divides_tiles(Facts *s, const Affine *f, int64_t v) {
    for (int i = 0; i < f->ntile; i++)
        if (f->tile[i].k % v && !fact_divides(s, f->tile[i].v, v)) return false;
    return true;
}

static bool axis_elsewhere(const Access *a, const Val *axis, int but) {
    for (int d = 0; d < a->nidx; d++)
        if (d != but && type_axis(&a->idx[d]->type, axis) >= 0) return true;
    return false;
}

// Does each dimension's index, along the axis, do what v adjacent elements want of it?
static bool in_runs(Facts *s, const Access *a, const Val *axis, int v) {
    for (int d = 0; d < a->nidx; d++)
        if (lane_step(s, a->idx[d], axis, v) != (d == a->inner ? RUN_UP : RUN_SAME)) return false;
    return true;
}

static int widest(Facts *s, const Access *a, bool affine, int most) {
    int last = a->inner;
    const Affine *f = &a->aff[last];
    const Val *axis = a->type.axis[a->contiguous];
    int v = most / elem_bytes(a->elem);
    // a register of a bool is a predicate: stored one by one
    if (!s || (a->elem == EL_bool && a->op->code != OP_T_load)) return 1;
    if (!a->proved[last] && !affine) return 1;
    if (axis->def->nin > 2) return a->op->flags & FROM_16 ? v : 1;
    for (; v > 1; v /= 2) {
        bool ok = affine ? divides_others(f, axis, v) && divides_uniform(s, f, v) && divides_tiles(s, f, v)
                         : in_runs(s, a, axis, v) && lanes_aligned(s, a->idx[last], axis, v);
        ok = ok && (a->proved[last] || fact_size_divides(s, a->p->dim[last], v));
        ok = ok && ((axis->def->flags & AXIS_FULL) ? axis_extent(axis) % v == 0 : fact_divides(s, axis_hi(axis), v));
        for (int d = 0; d < a->nidx && ok; d++) ok = d == last || a->unit[d] || fact_stride_divides(s, a->param, d, v);
        if (ok) return v;
    }
    return 1;
}

static bool union_axes(const Op *op, Type *t) {
    Type u = type_scalar(EL_index);
    for (int i = 0; i < op->nidx; i++) {
        int first = op->code == OP_T_copy_async ? 3 : 1;
        u = type_union(u, op->in[first + i]->type);
    }
    *t = u;
    return true;
}

static void adjacent(Facts *s, Access *a) {
    int64_t n;
    a->inner = a->nidx ? a->nidx - 1 : 0;
    if (a->p->strided || !facts_fn(s)->fast) return;
    for (int d = 0; d < a->nidx; d++) a->unit[d] = fact_constant(s, a->p->dim[d], &n) && n == 1;
    while (a->inner > 0 && a->unit[a->inner]) a->inner--;
    if (a->nidx && a->unit[a->inner]) a->inner = a->nidx - 1;
    if (a->inner + 1 < a->nidx && !fact_stride_one(s, a->param, a->inner)) a->inner = a->nidx - 1;
    if (a->nidx) a->unit[a->inner] = false;
}

bool access_shape(Facts *s, const Op *op, Access *a) {
    memset(a, 0, sizeof *a);
    int first = op->code == OP_T_copy_async ? 3 : 1;
    const Val *tensor = op->in[first - 1];
    a->op = op;
    a->param = (int)tensor->def->imm;
    a->p = &facts_fn(s)->launch->params[a->param];
    a->elem = a->p->elem;
    a->nidx = op->nidx;
    a->idx = op->in + first;
    if (op->code == OP_T_load) a->type = op->out[0]->type;
    else if (op->code == OP_T_store || op->code == OP_T_row_store)
        a->type = type_union(op->in[1 + op->nidx]->type, (union_axes(op, &a->type), a->type));
    else union_axes(op, &a->type);
    a->contiguous = -1;
    a->vec = 1;
    for (int d = 0; d < a->nidx; d++) {
        if (!affine_of(a->idx[d], &a->aff[d])) {                // too long: one opaque tile
            memset(&a->aff[d], 0, sizeof a->aff[d]);
            if (a->idx[d]->type.rank) { a->aff[d].tile[0] = (AffTerm){a->idx[d], 1}; a->aff[d].ntile = 1; }
            else { a->aff[d].term[0] = (AffTerm){a->idx[d], 1}; a->aff[d].nterm = 1; }
        }
    }
    for (int d = 0; d < a->nidx; d++) a->proved[d] = proved(s, a, d);
    adjacent(s, a);
    if (!a->nidx || a->p->strided) return true;
    const Affine *f = &a->aff[a->inner];
    for (int i = 0; i < f->naxis; i++)
        if (f->axis[i].k == 1 && !f->axis[i].scale && !axis_elsewhere(a, f->axis[i].axis, a->inner))
            a->contiguous = type_axis(&a->type, f->axis[i].axis);
    for (int i = 0; i < f->ntile; i++)
        if (a->contiguous >= 0 && type_axis(&f->tile[i].v->type, a->type.axis[a->contiguous]) >= 0) a->contiguous = -1;
    return true;
}

bool access_of(Facts *s, const Op *op, Access *a) {
    access_shape(s, op, a);
    const Affine *f = &a->aff[a->inner];
    if (a->contiguous >= 0) {
        a->vec = widest(s, a, true, 16);
        if (a->vec > 1 || (f->naxis == 1 && !f->ntile)) return true;
    }
    int otherwise = a->contiguous;
    for (int i = a->type.rank; i-- > 0 && a->nidx && f->ntile && !a->p->strided && a->vec == 1;) {      // adjacent in runs?
        a->contiguous = i;
        a->vec = widest(s, a, false, 16);
    }
    if (a->vec == 1) a->contiguous = otherwise;
    return true;
}

bool access_rows_scattered(const Access *a) {
    for (int d = 0; d < a->nidx; d++) if (a->aff[d].ntile) return true;
    return false;
}

bool access_rows_apart(const Access *a) {
    for (int d = 0; d < a->nidx; d++) if (d != a->inner && !a->proved[d]) return true;
    return access_rows_scattered(a);
}

// From the inner dimensions on, so that nothing is assumed of the outer ones where a row's length says no.
bool access_aligned(Facts *s, const Access *a, int64_t unit) {
    const Affine *inner = &a->aff[a->inner];
    if (inner->c % unit) return false;
    for (int t = 0; t < inner->nterm; t++)
        if (inner->term[t].k % unit && !fact_divides(s, inner->term[t].v, unit)) return false;
    for (int d = a->nidx; d-- > 0;)
        if (d != a->inner && !a->unit[d] && !fact_stride_divides(s, a->param, d, unit)) return false;
    return true;
}

int access_vec(const Access *a, const Layout *l) {
    if (a->contiguous < 0) return 1;
    int v = layout_vec(l, a->contiguous);
    return v < a->vec ? v : a->vec;
}

bool access_words(const Access *a, uint32_t *other) {
    const Op *op = a->op, *d = op->flags & HAS_ELSE ? op->in[1 + op->nidx]->def : NULL;
    int size = elem_bytes(a->elem);
    *other = 0;
    if (op->code != OP_T_load || a->elem == EL_bool || size > 2 || !op->out[0]->type.rank) return false;
    if (!(op->flags & HAS_ELSE)) return true;
    if (d && d->code == OP_T_splat) d = d->in[0]->def;
    if (!d || d->code != OP_T_const || elem_is_float(a->elem)) return false;
    *other = size == 1 ? ((uint32_t)d->imm & 0xff) * 0x01010101u : ((uint32_t)d->imm & 0xffff) * 0x00010001u;
    return true;
}

int access_shifted(Facts *s, const Access *a, const Layout *l) {
    enum { WORD = 4 };
    int size = elem_bytes(a->elem), each = WORD / size;
    uint32_t other;
    Access even = *a;
    Affine *f = &even.aff[a->inner];
    int shift = access_words(a, &other) && a->contiguous >= 0 ? (int)((f->c % each + each) % each) : 0;
    if (!shift || a->p->strided || f->ntile || f->naxis != 1 || a->vec * size >= WORD || layout_vec(l, a->contiguous) < each) return 0;
    f->c -= shift;
    even.proved[a->inner] = false;                     // a row is whole words, so that one is in it or not
    return widest(s, &even, true, WORD) == each ? shift : 0;
}

int64_t tma_row(int64_t bytes, bool contracted) {
    enum { SPAN = 128 };
    int64_t whole = (bytes + SPAN - 1) / SPAN * SPAN;
    return !contracted && bytes > SPAN && (whole * 4 <= bytes * 5 || (bytes % 64 && whole * 3 <= bytes * 4)) ? whole : bytes;
}

bool access_by_16(Fn *f, const Op *load) {
    Access a;
    if (!f->fast) return true;
    access_of(facts_new(f), load, &a);
    return a.contiguous >= 0 && a.vec * elem_bytes(a.elem) >= 16;
}

const Layout *access_copy_layout(Arena *arena, const Access *a, int warps) {
    Blocked wish = {.vec = a->vec, .warps = warps};
    int n = 0, size = elem_bytes(a->elem);
    while (wish.vec * size > 16) wish.vec /= 2;
    wish.order[n++] = a->contiguous;
    for (int i = a->type.rank - 1; i >= 0; i--) if (i != a->contiguous) wish.order[n++] = i;
    return layout_blocked(arena, &a->type, &wish);
}

int access_copy_bytes(Arena *arena, const Access *a, int warps) {
    return access_vec(a, access_copy_layout(arena, a, warps)) * elem_bytes(a->elem);
}
