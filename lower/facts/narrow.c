// Indices in 32 bits, by what a launch knows.
//
//     x[n, c, i * s + r - p, j * s + t - p]         i < P, j < Q axes; s, p numbers of the launch; r, t count taps
//
// An index means what it means in 64 bits, and of the ranges of its parts alone `i * s` does not fit in 32: s may be
// anything. Of a launch it is (P + 3) * s at most, which the launcher computes: the specialised variant assumes that
// this is small, and the range check is one comparison, the address one wide multiplication for a dimension.
//
// Assumed is only what accesses are made of, by sums, products, quotients and selections: what else is computed from
// indices (a hash, a random number's counter) may well be large, and would give up the variant with all its other facts.
// Each part of an expression is assumed to fit as well, so that the launcher's own arithmetic never overflows.
#include "lower/facts/facts.h"

typedef struct Bounds { LExpr lo, hi; bool live; int depth; } Bounds;          // n 0: not known; live: of lanes that are alive alone

// Of trees that name a part twice, which names a part twice, no more is looked at.
enum { LONGEST = 100, DEEPEST = 8, LARGE = 1 << 16 };

static bool number(LExpr e, int64_t *c) {
    *c = e.n == 1 && e.at[0].op == L_CONST ? e.at[0].arg : 0;
    return e.n == 1 && e.at[0].op == L_CONST;
}

static LExpr join(Facts *s, LOp op, LExpr x, LExpr y) {
    Arena *a = facts_fn(s)->arena;
    int64_t c, d;
    if (!x.n || !y.n) return (LExpr){0};
    if (number(y, &d) && d == 0 && (op == L_ADD || op == L_SUB)) return x;
    if (number(x, &c) && c == 0 && op == L_ADD) return y;
    LExpr e = launch_join(a, op, x, y);
    if (e.n > LONGEST || launch_depth(e) > LAUNCH_DEEPEST) return (LExpr){0};
    return number(x, &c) && number(y, &d) ? launch_const(a, launch_eval(e, NULL, NULL, NULL)) : e;
}

// What is known by its type alone may be anything: beside sizes of a launch it says nothing.
static LExpr plain(Arena *a, int64_t c) {
    return c > LARGE || c < -LARGE ? (LExpr){0} : launch_const(a, c);
}

static bool small(Range r) { return r.lo >= INT32_MIN && r.hi <= INT32_MAX; }

static bool bounds(Facts *s, const Val *v, Bounds *out);

// A factor that is the launch's, and not negative.
static bool times(Facts *s, const Val *v, const Val *factor, Bounds *out) {
    LExpr k, zero = launch_const(facts_fn(s)->arena, 0);
    int64_t c;
    if (!host_expr(s, factor, &k) || !bounds(s, v, out)) return false;
    if (number(k, &c) ? c < 0 : fact_range(s, factor).lo < 0 && !fact_assume(s, join(s, L_LE, zero, k))) return false;
    out->lo = join(s, L_MUL, out->lo, k);
    out->hi = join(s, L_MUL, out->hi, k);
    return true;
}

static bool of_binary(Facts *s, const Op *d, Bounds *out) {
    Range x = fact_range(s, d->in[0]), y = fact_range(s, d->in[1]);
    Bounds a = {.live = out->live, .depth = out->depth + 1}, b = a;
    if (!small(x) || !small(y)) return false;
    if (d->sub == OP_mul && !(x.lo >= 0 && y.lo >= 0)) return times(s, d->in[0], d->in[1], out) || times(s, d->in[1], d->in[0], out);
    if (!bounds(s, d->in[0], &a) || !bounds(s, d->in[1], &b)) return false;
    switch (d->sub) {
    case OP_add: *out = (Bounds){join(s, L_ADD, a.lo, b.lo), join(s, L_ADD, a.hi, b.hi), a.live, out->depth}; return true;
    case OP_sub: *out = (Bounds){join(s, L_SUB, a.lo, b.hi), join(s, L_SUB, a.hi, b.lo), a.live, out->depth}; return true;
    case OP_mul: *out = (Bounds){launch_const(facts_fn(s)->arena, 0), join(s, L_MUL, a.hi, b.hi), a.live, out->depth}; return true;
    default:     return false;
    }
}

// The least and the most that it is in a launch. By numbers where those are small: they cost nothing.
static bool bounds(Facts *s, const Val *v, Bounds *out) {
    Arena *a = facts_fn(s)->arena;
    const Op *d = v->def, *loop = d ? NULL : v->region->owner;
    Range r = out->live ? fact_live_range(s, v) : fact_range(s, v);
    LExpr e;
    Bounds other = {.live = out->live, .depth = out->depth + 1};
    int depth = ++out->depth;
    if (depth > DEEPEST) goto numbers;
    if (host_expr(s, v, &e)) { *out = (Bounds){e, e, out->live, depth}; return true; }
    if (r.lo >= 0 && r.hi < LARGE) goto numbers;
    if (!d && loop && loop->code == OP_T_for && v == loop->reg[0]->args.at[0]) {
        if (!bounds(s, loop->in[0], out) || !bounds(s, loop->in[1], &other)) return false;
        out->hi = join(s, L_SUB, other.hi, launch_const(a, 1));
        return true;
    }
    if (d && d->code == OP_T_index) {
        if (!bounds(s, axis_lo(d->in[0]), out) || !bounds(s, axis_hi(d->in[0]), &other)) return false;
        out->hi = join(s, L_ADD, other.hi, launch_const(a, out->live ? -1 : axis_extent(d->in[0])));
        return true;
    }
    if (d && (d->code == OP_T_splat || d->code == OP_T_convert || d->code == OP_T_rename)) return bounds(s, d->in[0], out);
    if (d && d->code == OP_T_binary && v->type.elem == EL_index && of_binary(s, d, out)) return true;
    if (r.lo >= 0 && v->type.rank == 0 && fact_bound(s, v, &e)) { *out = (Bounds){launch_const(a, 0), e, out->live, depth}; return true; }
numbers:
    *out = (Bounds){plain(a, r.lo), plain(a, r.hi), out->live, depth};
    return small(r);
}

bool fact_launch_bounds(Facts *s, const Val *v, LExpr *lo, LExpr *hi) {
    Bounds b = {0};
    if (!v->def || v->def->code != OP_T_binary || !of_binary(s, v->def, &b)) return false;
    *lo = b.lo;
    *hi = b.hi;
    return true;
}

// ---- what passes an end ----------------------------------------------------------------------------

// (j + W - 1) % W is what it is, or W less.
int fact_passes(Facts *s, const Val *v, const Val *end) {
    enum { MOST = 2 };
    Arena *a = facts_fn(s)->arena;
    Bounds b = {.live = true};
    LExpr n;
    if (!facts_fn(s)->fast || !host_expr(s, end, &n) || number(n, &(int64_t){0}) || !v->def || v->def->code != OP_T_binary || !of_binary(s, v->def, &b) || !b.lo.n || !b.hi.n)
        return 0;
    for (int k = 1; k <= MOST; k++) {
        bool at = fact_host_at_most(s, b.hi, launch_join_const(a, L_MUL, n, k)),
             before = at || fact_host_at_most(s, launch_join_const(a, L_ADD, b.hi, 1), launch_join_const(a, L_MUL, n, k + 1));
        if (!before) continue;
        bool from = fact_assume(s, launch_join(a, L_LE, launch_const(a, 0), b.lo));
        return from && (!at || fact_assume(s, launch_join(a, L_LE, launch_const(a, 1), n))) ? k : 0;
    }
    return 0;
}

// ---- what accesses are made of -------------------------------------------------------------------

// i * H / P is a place in a picture; i * 40503 % N is no place before its remainder is taken, and may be of any size.
static bool mixes(const Val *v, int depth) {
    enum { MOST = 64 };
    const Op *d = v->def;
    if (!d || d->code != OP_T_binary) return false;
    if (depth > DEEPEST) return true;
    for (int i = 0; i < 2; i++) {
        const Op *c = d->in[i]->def;
        if (d->sub == OP_mul && c && c->code == OP_T_const && (c->imm > MOST || c->imm < -MOST)) return true;
        if (mixes(d->in[i], depth + 1)) return true;
    }
    return false;
}

static void mark(const Val *v, bool *index) {
    const Op *d = v->def;
    if (v->type.elem != EL_index || v->type.ptr || !d || index[v->id]) return;
    index[v->id] = true;
    bool quotient = d->code == OP_T_binary && (d->sub == OP_div || d->sub == OP_rem);
    if (d->code != OP_T_binary && d->code != OP_T_fun && d->code != OP_T_select && d->code != OP_T_splat && d->code != OP_T_convert) return;
    for (int i = 0; i < d->nin; i++) if (!quotient || !mixes(d->in[i], 0)) mark(d->in[i], index);
}

// Kernels of products have addresses of their own for what is large, and nothing is to be given up beside them.
static bool products(const Fn *f) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (op->code == OP_T_dot || op->code == OP_T_wgmma || op->code == OP_T_roles) return true;
    return false;
}

const bool *facts_indices(Fn *f) {
    if (!f->fast || products(f)) return NULL;
    bool *index = NEW_N(f->arena, bool, f->nvals + 1);
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) {
        if (op->code != OP_T_load && op->code != OP_T_store && op->code != OP_T_atomic) continue;
        for (int i = 0; i < op->nidx; i++) mark(op->in[1 + i], index);
    }
    return index;
}
