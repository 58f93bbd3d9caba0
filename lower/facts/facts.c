// Facts about index arithmetic.
//
// Everything a proof about memory needs is asked here, on demand and without changing the IR: how large
// a value can be (so that 64-bit meaning runs as 32-bit code), what divides it (so that 16 bytes can be
// moved at once), how an index depends on lanes (so that addresses are one base plus constants).
//
// The specialised variant of a kernel (Fn.fast) may assume more than it can prove, as long as the
// launcher can check it: each assumption becomes a launch expression in LaunchInfo.facts, added here the
// first time a proof needs it. Dimensions are at most LIMIT there, which leaves room for the last tile.
#include "lower/facts/facts.h"
#include "lang/number.h"
#include "lower/facts/linear.h"

#include <string.h>

#define LIMIT ((int64_t)0x7fffffff - (1 << 20))
#define HUGE_DIM ((int64_t)1 << 40)

// What one question has found so far: an operand that is named twice is looked at once, so that chains of selects and
// sums end. Nothing is kept from one question to the next, since passes ask while they rewrite.
enum { SEEN = 128 };
typedef struct Seen { const Val *v; uint32_t question; bool ranged, asked, fits; Range range; } Seen;

struct Facts { Fn *f; const bool *index; Linear *linear; int64_t *sample; uint32_t question; int depth; bool live; Seen seen[SEEN]; };

Facts *facts_new(Fn *f) {
    Facts *s = NEW(f->arena, Facts);
    s->f = f;
    return s;
}

Fn  *facts_fn(const Facts *s) { return s->f; }
void facts_narrow(Facts *s, const bool *index) { s->index = index; }
bool facts_are_narrow(const Facts *s) { return s->index != NULL; }

static Seen *seen(Facts *s, const Val *v) {
    Seen *e = &s->seen[(uintptr_t)v / sizeof(Val) % SEEN];
    if (e->v != v || e->question != s->question) *e = (Seen){.v = v, .question = s->question};
    return e;
}

static void ask(Facts *s) { if (s->depth++ == 0) s->question++; }
Val *axis_lo(const Val *axis) { return axis->def->in[0]; }
Val *axis_hi(const Val *axis) { return axis->def->in[1]; }

static bool is_const(const Val *v, int64_t *c) {
    if (!v->def || v->def->code != OP_T_const || elem_is_float((Elem)v->type.elem)) return false;
    *c = v->def->imm;
    return true;
}

// ---- the launcher's expressions ------------------------------------------------------------------

static const int8_t host_op[OP_COUNT] = {
    [OP_add] = L_ADD, [OP_sub] = L_SUB, [OP_mul] = L_MUL, [OP_div] = L_DIV, [OP_rem] = L_MOD};

// Expressions of the launcher are trees: one that names a part twice, which names a part twice, is given up before it
// is too long or too deep.
enum { LONGEST = 512 };

static bool joined(Arena *a, LOp op, LExpr x, LExpr y, LExpr *out) {
    if (x.n + y.n >= LONGEST) return false;
    *out = launch_join(a, op, x, y);
    return y.n < LAUNCH_DEEPEST || launch_depth(*out) <= LAUNCH_DEEPEST;
}

bool host_expr(Facts *s, const Val *v, LExpr *out) {
    Op *d = v->def;
    Arena *a = s->f->arena;
    LExpr x, y;
    if (!d || v->type.rank || v->type.kind != TY_TILE || elem_is_float((Elem)v->type.elem)) return false;
    switch (d->code) {
    case OP_T_const: *out = launch_const(a, d->imm); return true;
    case OP_T_dim: case OP_T_scalar: {
        if (v->type.ptr) return false;
        LStep *st = NEW(a, LStep);
        *st = (LStep){d->code == OP_T_dim ? L_DIM : L_SCALAR, d->imm};
        *out = (LExpr){st, 1};
        return true;
    }
    case OP_T_cast: return host_expr(s, d->in[0], out);
    case OP_T_binary:
        if (!host_op[d->sub] || !host_expr(s, d->in[0], &x) || !host_expr(s, d->in[1], &y)) return false;
        return joined(a, (LOp)host_op[d->sub], x, y, out);
    case OP_T_fun:
        if ((d->sub != TF_min && d->sub != TF_max) || !host_expr(s, d->in[0], &x) || !host_expr(s, d->in[1], &y))
            return false;
        return joined(a, d->sub == TF_min ? L_MIN : L_MAX, x, y, out);
    default: return false;
    }
}

static void assume(Facts *s, LExpr cond) {
    LaunchInfo *l = s->f->launch;
    for (int i = 0; i < l->nfacts; i++) if (launch_same(l->facts[i].cond, cond)) return;
    LaunchGuard *g = NEW_N(s->f->arena, LaunchGuard, l->nfacts + 1);
    if (l->nfacts) memcpy(g, l->facts, sizeof *g * (size_t)l->nfacts);
    g[l->nfacts] = (LaunchGuard){cond, NULL};
    l->facts = g;
    l->nfacts++;
    g[l->nfacts - 1].text = launch_expr_text(s->f->arena, l, cond);
}

// Of numbers alone, or of dimensions that the instance fixes.
bool fact_constant(const Facts *s, LExpr e, int64_t *v) {
    const LaunchInfo *l = s->f->launch;
    int64_t dims[MAX_DIMS];
    for (int i = 0; i < l->ndims; i++) dims[i] = l->dims[i].fixed;
    for (uint32_t i = 0; i < e.n; i++) if (e.at[i].op == L_DIM && dims[e.at[i].arg] < 0) return false;
    return launch_by_dims(e, dims, v);
}

bool fact_assume(Facts *s, LExpr cond) {
    int64_t known;
    if (fact_constant(s, cond, &known)) return known != 0;
    if (s->f->fast) assume(s, cond);
    return s->f->fast;
}

static void assume_multiple(Facts *s, LExpr e, int64_t d) {
    Arena *a = s->f->arena;
    assume(s, launch_join(a, L_EQ, launch_join(a, L_MOD, e, launch_const(a, d)), launch_const(a, 0)));
}

// ---- what is not worth assuming ------------------------------------------------------------------
//
// An instance may know of a dimension that no more than so many divide it (LaunchDim.divisor). What does not hold for a
// number like that, in dense tensors, would give up all other assumptions with itself. Sampled are dimensions, then strides.

enum { ANY = 4096, LOW = (1 << 20) - 1 };                       // divided by all that is asked for; what is kept of products

static const int64_t *samples(Facts *s) {
    const LaunchInfo *l = s->f->launch;
    if (s->sample) return s->sample;
    int64_t *at = s->sample = NEW_N(s->f->arena, int64_t, MAX_DIMS + MAX_STRIDES + MAX_PARAMS),
            *strides = at + MAX_DIMS, *scalars = strides + MAX_STRIDES;
    for (int i = 0; i < l->ndims; i++) at[i] = l->dims[i].fixed >= 0 ? l->dims[i].fixed : ANY + l->dims[i].divisor;
    for (int p = 0; p < l->nparams; p++) {
        int64_t step = 1;
        for (int d = l->params[p].kind == PK_TENSOR ? l->params[p].rank - 1 : -1; d >= 0; d--) {
            strides[launch_stride(p, d)] = step;
            step = step * (launch_eval(l->params[p].dim[d], at, scalars, strides) & LOW) & LOW;
        }
    }
    return at;
}

static bool hopeless(Facts *s, LExpr e, int64_t d) {
    const int64_t *at = samples(s), *strides = at + MAX_DIMS;
    return launch_eval(e, at, strides + MAX_STRIDES, strides) % d != 0;
}

// It holds where dimensions are of thousands and other numbers small: else it is not worth losing the variant for.
static bool assume_likely(Facts *s, LExpr cond) {
    enum { A_FEW = 4 };
    int64_t known, few[MAX_PARAMS];
    const int64_t *at = samples(s);
    for (int i = 0; i < MAX_PARAMS; i++) few[i] = A_FEW;
    if (!fact_constant(s, cond, &known) && !launch_eval(cond, at, few, at + MAX_DIMS)) return false;
    return fact_assume(s, cond);
}

// What the launcher says of its least and its most.
static Range assume_bounds(Facts *s, const Val *v, Range r) {
    Arena *a = s->f->arena;
    LExpr lo, hi;
    if (!fact_launch_bounds(s, v, &lo, &hi)) return r;
    if (r.hi > INT32_MAX && hi.n && assume_likely(s, launch_join_const(a, L_LE, hi, LIMIT))) r.hi = LIMIT;
    if (r.lo < INT32_MIN && r.hi <= INT32_MAX && lo.n && assume_likely(s, launch_join(a, L_LE, launch_const(a, -LIMIT), lo))) r.lo = -LIMIT;
    return r;
}

static Range assume_small(Facts *s, LExpr e, Range r) {
    Arena *a = s->f->arena;
    if (r.hi > LIMIT) { assume(s, launch_join(a, L_LE, e, launch_const(a, LIMIT))); r.hi = LIMIT; }
    // else a difference, which may be negative
    if (r.lo < -LIMIT) { assume(s, launch_join(a, L_LE, launch_const(a, 0), e)); r.lo = 0; }
    return r;
}

static const Linear *equations(Facts *s) {
    if (!s->linear) s->linear = linear_new(s->f->arena, s->f->launch);
    return s->linear;
}

bool fact_host_at_most(Facts *s, LExpr x, LExpr y) { return linear_at_most(equations(s), x, y); }

// ---- ranges --------------------------------------------------------------------------------------

static int64_t sat_mul(int64_t a, int64_t b) {
    int64_t r;
    return __builtin_mul_overflow(a, b, &r) ? ((a < 0) == (b < 0) ? INT64_MAX : INT64_MIN) : r;
}
static int64_t sat_add(int64_t a, int64_t b) {
    int64_t r;
    return __builtin_add_overflow(a, b, &r) ? (a < 0 ? INT64_MIN : INT64_MAX) : r;
}
static int64_t neg(int64_t a) { return a == INT64_MIN ? INT64_MAX : -a; }
static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

static Range whole(const Val *v) {
    int bits = v->type.kind == TY_TILE ? elem_bits((Elem)v->type.elem) : 64;
    bool sign = elem_is_signed((Elem)v->type.elem);
    if (bits >= 64) return (Range){sign ? INT64_MIN : 0, INT64_MAX};
    return sign ? (Range){-((int64_t)1 << (bits - 1)), ((int64_t)1 << (bits - 1)) - 1}
                : (Range){0, ((int64_t)1 << bits) - 1};
}

// The program's number, or what its digits so far leave of it: there is no program where a radix of the grid is not
// positive.
static bool of_grid(const Val *v) {
    const Op *d = v->def;
    while (d && d->code == OP_T_binary && d->sub == OP_div) d = d->in[0]->def;
    return d && d->code == OP_T_program;
}

static int64_t bits_up_to(int64_t x) { return x ? (int64_t)(UINT64_MAX >> __builtin_clzll((uint64_t)x)) : 0; }

static Range binary_range(Facts *s, const Op *d) {
    Range a = fact_range(s, d->in[0]), b = fact_range(s, d->in[1]);
    if ((d->sub == OP_div || d->sub == OP_rem) && of_grid(d->in[0]) && b.hi > 0) b.lo = max64(b.lo, 1);
    switch (d->sub) {
    case OP_add: return (Range){sat_add(a.lo, b.lo), sat_add(a.hi, b.hi)};
    case OP_sub: return (Range){sat_add(a.lo, neg(b.hi)), sat_add(a.hi, neg(b.lo))};
    case OP_mul: {
        int64_t p[4] = {sat_mul(a.lo, b.lo), sat_mul(a.lo, b.hi), sat_mul(a.hi, b.lo), sat_mul(a.hi, b.hi)};
        return (Range){min64(min64(p[0], p[1]), min64(p[2], p[3])), max64(max64(p[0], p[1]), max64(p[2], p[3]))};
    }
    case OP_div:
        if (b.lo < 0) break;
        b.lo = max64(b.lo, 1); b.hi = max64(b.hi, 1);
        return (Range){a.lo >= 0 ? a.lo / b.hi : int_div_floor(a.lo, b.lo),
                       a.hi >= 0 ? a.hi / b.lo : int_div_floor(a.hi, b.hi)};
    case OP_rem:
        if (b.lo < 0) break;
        return (Range){0, a.lo >= 0 ? min64(a.hi, max64(b.hi - 1, 0)) : max64(b.hi - 1, 0)};
    case OP_and:
        if (a.lo >= 0 && b.lo >= 0) return (Range){0, min64(a.hi, b.hi)};
        break;
    case OP_or: case OP_xor:                           // no bit above the highest of both
        if (a.lo >= 0 && b.lo >= 0) return (Range){d->sub == OP_or ? max64(a.lo, b.lo) : 0, bits_up_to(max64(a.hi, b.hi))};
        break;
    case OP_shr:
        if (a.lo >= 0) return (Range){0, a.hi};
        break;
    default: break;
    }
    return (Range){INT64_MIN, INT64_MAX};
}

static Range clip(Range r, const Val *v) {            // a wrapped result can be anything of its type
    Range w = whole(v);
    return r.lo < w.lo || r.hi > w.hi ? w : r;
}

static bool since_start(const Op *sub) {               // a loop's counter less where it began
    const Val *counter = sub->in[0];
    const Op *loop = counter->def ? NULL : counter->region->owner;
    return loop && loop->code == OP_T_for && counter == loop->reg[0]->args.at[0] && loop->in[0] == sub->in[1];
}

static Range range_of(Facts *s, const Val *v) {
    const Op *d = v->def;
    if (v->type.kind != TY_TILE || elem_is_float((Elem)v->type.elem)) return whole(v);
    if (!d) {                                          // a loop's counter, or something carried
        const Op *o = v->region->owner;
        if (o && o->code == OP_T_for && v == v->region->args.at[0]) {
            Range lo = fact_range(s, o->in[0]), hi = fact_range(s, o->in[1]);
            return (Range){lo.lo, max64(lo.lo, sat_add(hi.hi, -1))};
        }
        return whole(v);
    }
    switch (d->code) {
    case OP_T_const:   return (Range){d->imm, d->imm};
    case OP_T_dim:
        if (s->f->launch->dims[d->imm].from)
            return (Range){s->f->launch->dims[d->imm].from, s->f->launch->dims[d->imm].upto};
        return (Range){0, s->f->fast ? LIMIT : HUGE_DIM};
    case OP_T_extent:  return (Range){0, s->f->fast ? LIMIT : HUGE_DIM};
    case OP_T_program: case OP_T_programs: case OP_T_draw: case OP_T_drawn: return (Range){0, 0x7ffffffe};
    case OP_T_walkers: return (Range){1, max64(s->f->walks, 1024)};
    case OP_T_slice:   return (Range){0, d->imm - 1};
    case OP_T_keep:    return (Range){0, 1 << 18};                // bytes of shared memory
    case OP_T_index: {
        Range lo = fact_range(s, axis_lo(d->in[0])), hi = fact_range(s, axis_hi(d->in[0]));
        if (s->live) return (Range){lo.lo, max64(lo.lo, min64(sat_add(lo.hi, axis_extent(d->in[0])), sat_add(hi.hi, -1)))};
        return (Range){
            lo.lo, min64(sat_add(lo.hi, axis_extent(d->in[0])), max64(lo.lo, sat_add(hi.hi, axis_extent(d->in[0]))))};
    }
    case OP_T_binary: {
        Range r = binary_range(s, d);
        if (d->sub == OP_sub && since_start(d)) r.lo = max64(r.lo, 0);
        return clip(r, v);
    }
    case OP_T_cast:
        if (elem_is_float((Elem)d->in[0]->type.elem)) return whole(v);
        return clip(fact_range(s, d->in[0]), v);
    case OP_T_splat: case OP_T_rename: case OP_T_convert: return fact_range(s, d->in[0]);
    case OP_T_select: {
        Range a = fact_range(s, d->in[1]), b = fact_range(s, d->in[2]);
        return (Range){min64(a.lo, b.lo), max64(a.hi, b.hi)};
    }
    case OP_T_fun:
        if (d->sub == TF_min || d->sub == TF_max) {
            Range a = fact_range(s, d->in[0]), b = fact_range(s, d->in[1]);
            // the number of a program that exists
            if (d->attr && d->sub == TF_min) return (Range){0, max64(0, min64(a.hi, b.hi))};
            return d->sub == TF_min ? (Range){min64(a.lo, b.lo), min64(a.hi, b.hi)}
                                    : (Range){max64(a.lo, b.lo), max64(a.hi, b.hi)};
        }
        return whole(v);
    case OP_T_order:  return (Range){0, axis_extent(d->in[1]) - 1};
    case OP_T_sort: case OP_T_take: return fact_range(s, d->in[0]);
    case OP_T_reduce:
        if (d->sub == TR_max || d->sub == TR_min) return whole(v);
        if (d->sub == TR_argmax || d->sub == TR_argmin) {
            Range lo = fact_range(s, axis_lo(d->in[1]));
            return (Range){-1, sat_add(lo.hi, axis_extent(d->in[1]))};
        }
        return whole(v);
    default: return whole(v);
    }
}

Range fact_range(Facts *s, const Val *v) {
    ask(s);
    Seen *known = seen(s, v);
    Range r = known->range;
    LExpr e;
    if (!known->ranged) {
        r = range_of(s, v);
        if (s->f->fast && (r.hi > LIMIT || r.lo < INT32_MIN) && v->type.kind == TY_TILE && v->type.elem == EL_index &&
            host_expr(s, v, &e))
            r = assume_small(s, e, r);
        else if (s->index && (r.hi > INT32_MAX || r.lo < INT32_MIN) && v->type.kind == TY_TILE && v->type.elem == EL_index && s->index[v->id])
            r = assume_bounds(s, v, r);
        known = seen(s, v);                            // what was asked meanwhile may have taken its place
        known->ranged = true;
        known->range = r;
    }
    s->depth--;
    return r;
}

Range fact_live_range(Facts *s, const Val *v) {
    s->live = true;
    Range r = fact_range(s, v);
    s->live = false;
    return r;
}

static bool fits32(Facts *s, const Val *v) {
    Range r = fact_range(s, v);
    if (r.lo < INT32_MIN || r.hi > INT32_MAX) return false;
    if (!v->def || (v->def->code != OP_T_binary && v->def->code != OP_T_fun && v->def->code != OP_T_select)) return true;
    for (int i = v->def->code == OP_T_select; i < v->def->nin; i++)
        if (!fact_fits32(s, v->def->in[i])) return false;
    return true;
}

bool fact_fits32(Facts *s, const Val *v) {
    ask(s);
    Seen *known = seen(s, v);
    bool fits = known->fits;
    if (!known->asked) {
        fits = fits32(s, v);
        known = seen(s, v);
        known->asked = true;
        known->fits = fits;
    }
    s->depth--;
    return fits;
}

// ---- bounds for the launcher ---------------------------------------------------------------------

static bool counts_up(const Op *loop, const Val *v) {
    return loop && loop->code == OP_T_for && v == loop->reg[0]->args.at[0];
}

// The same of what may be negative, as a number of trips may: x - y is at most x.
static bool bound_above(Facts *s, const Val *v, LExpr *most) {
    const Op *d = v->def;
    LExpr y;
    if (d && d->code == OP_T_binary && d->sub == OP_sub && !host_expr(s, v, &y) && fact_bound(s, d->in[1], &y))
        return bound_above(s, d->in[0], most);
    return fact_bound(s, v, most);
}

// counter / a / b of a loop of n * a * b trips, as flattened nests have it: below n.
static bool digit_bound(Facts *s, const Val *v, LExpr *most) {
    enum { DEEPEST = 8 };
    const Val *by[DEEPEST], *trips;
    int n = 0;
    for (; v->def && v->def->code == OP_T_binary && v->def->sub == OP_div && n < DEEPEST; v = v->def->in[0])
        by[n++] = v->def->in[1];
    if (v->def || !n || !counts_up(v->region->owner, v) || fact_range(s, v->region->owner->in[0]).lo < 0) return false;
    trips = v->region->owner->in[1];
    while (n > 0) {
        const Op *d = trips->def;
        int side = -1, k = 0;
        if (!d || d->code != OP_T_binary || d->sub != OP_mul) return false;
        for (int i = 0; i < n && side < 0; i++)
            for (int j = 0; j < 2 && side < 0; j++) if (fact_same(d->in[j], by[i])) side = j, k = i;
        if (side < 0) return false;
        trips = d->in[1 - side];
        by[k] = by[--n];
    }
    if (!bound_above(s, trips, most)) return false;
    *most = launch_join_const(s->f->arena, L_SUB, *most, 1);
    return true;
}

bool fact_bound(Facts *s, const Val *v, LExpr *most) {
    Arena *a = s->f->arena;
    const Op *d = v->def, *loop = d ? NULL : v->region->owner;
    LExpr x, y;
    if (v->type.rank) return false;
    if (host_expr(s, v, most))
        return d->code == OP_T_dim || (d->code == OP_T_binary && fact_range(s, v).lo >= 0) ||
               fact_assume(s, launch_join(a, L_LE, launch_const(a, 0), *most));
    if (counts_up(loop, v)) {
        if (fact_range(s, loop->in[0]).lo < 0 || !fact_bound(s, loop->in[1], &x)) return false;
        *most = launch_join_const(a, L_SUB, x, 1);
        return true;
    }
    if (!d) return false;
    if (d->code == OP_T_fun && d->sub == TF_min && fact_range(s, v).lo >= 0)
        return fact_bound(s, d->in[0], most) || fact_bound(s, d->in[1], most);
    int64_t least;
    if (d->code == OP_T_fun && d->sub == TF_max && is_const(d->in[1], &least) && least >= 0 &&
        bound_above(s, d->in[0], &x)) {
        *most = launch_join_const(a, L_MAX, x, least);
        return true;
    }
    if (d->code != OP_T_binary) return false;
    if (d->sub == OP_div && digit_bound(s, v, most)) return true;
    if (d->sub == OP_rem || d->sub == OP_div) {
        if (fact_range(s, d->in[1]).lo < 0 && !(d->sub == OP_rem && of_grid(d->in[0]))) return false;
        bool known = host_expr(s, d->in[1], &y) || (d->sub == OP_rem && fact_bound(s, d->in[1], &y));
        if (!known || (d->sub == OP_div && !fact_bound(s, d->in[0], &x))) return false;
        *most = d->sub == OP_rem ? launch_join_const(a, L_SUB, y, 1) : launch_join(a, L_DIV, x, y);
        return true;
    }
    if ((d->sub != OP_mul && d->sub != OP_add) || !fact_bound(s, d->in[0], &x) || !fact_bound(s, d->in[1], &y)) return false;
    *most = launch_join(a, d->sub == OP_mul ? L_MUL : L_ADD, x, y);
    return true;
}

// ---- divisors ------------------------------------------------------------------------------------

static int64_t low_bit(int64_t v) { return v ? min64(v & -v, 4096) : 4096; }

int64_t fact_divisor(Facts *s, const Val *v) {
    const Op *d = v->def;
    if (!d) {
        const Op *o = v->region->owner;
        if (o && o->code == OP_T_for && v == v->region->args.at[0])
            return min64(fact_divisor(s, o->in[0]), fact_divisor(s, o->in[2]));
        return 1;
    }
    switch (d->code) {
    case OP_T_const: return low_bit(d->imm);
    case OP_T_cast: case OP_T_splat: return fact_divisor(s, d->in[0]);
    case OP_T_binary: {
        if (d->sub != OP_add && d->sub != OP_sub && d->sub != OP_mul) return 1;
        int64_t a = fact_divisor(s, d->in[0]), b = fact_divisor(s, d->in[1]);
        return d->sub == OP_mul ? min64(a * b, 4096) : min64(a, b);
    }
    case OP_T_fun:
        if (d->sub == TF_min || d->sub == TF_max) return min64(fact_divisor(s, d->in[0]), fact_divisor(s, d->in[1]));
        return 1;
    default: return 1;
    }
}

bool fact_divides(Facts *s, const Val *v, int64_t d) {
    LExpr e;
    const Op *o = v->def;
    if (fact_divisor(s, v) % d == 0) return true;
    if (host_expr(s, v, &e) && linear_divides(equations(s), e, d)) return true;
    if (!s->f->fast) return false;
    if (o && o->code == OP_T_binary && (o->sub == OP_add || o->sub == OP_sub) && fact_divides(s, o->in[0], d) &&
        fact_divides(s, o->in[1], d))
        return true;
    if (o && o->code == OP_T_fun && o->sub == TF_min && fact_divides(s, o->in[0], d) && fact_divides(s, o->in[1], d))
        return true;
    if (!host_expr(s, v, &e))
        return o && o->code == OP_T_binary && o->sub == OP_mul &&
               (fact_divides(s, o->in[0], d) || fact_divides(s, o->in[1], d));
    return fact_size_divides(s, e, d);
}

bool fact_size_divides(Facts *s, LExpr e, int64_t d) {
    bool constant = true;
    for (uint32_t i = 0; i < e.n; i++) constant &= e.at[i].op != L_DIM && e.at[i].op != L_SCALAR;
    if (constant) return launch_eval(e, NULL, NULL, NULL) % d == 0;
    if (linear_divides(equations(s), e, d)) return true;
    if (!s->f->fast || hopeless(s, e, d)) return false;
    assume_multiple(s, e, d);
    return true;
}

static bool assumed(const Facts *s, LExpr e, int64_t d) {
    const LaunchInfo *l = s->f->launch;
    for (int64_t m = d; m <= 4096; m *= 2) {
        LExpr multiple = launch_join_const(s->f->arena, L_EQ, launch_join_const(s->f->arena, L_MOD, e, m), 0);
        for (int i = 0; i < l->nfacts; i++) if (launch_same(l->facts[i].cond, multiple)) return true;
    }
    return false;
}

bool fact_known_multiple(Facts *s, const Val *v, int64_t d) {
    LExpr e;
    const Op *o = v->def;
    if (d <= 1 || fact_divisor(s, v) % d == 0) return true;
    if (host_expr(s, v, &e) && (linear_divides(equations(s), e, d) || (s->f->fast && assumed(s, e, d)))) return true;
    bool both = o && (o->code == OP_T_binary ? o->sub == OP_add || o->sub == OP_sub
                                             : o->code == OP_T_fun && o->sub == TF_min);
    return both && fact_known_multiple(s, o->in[0], d) && fact_known_multiple(s, o->in[1], d);
}

bool fact_stride_divides(Facts *s, int param, int dim, int64_t d) {
    if (d <= 1) return true;
    if (!s->f->fast) return false;
    LStep *st = NEW(s->f->arena, LStep);
    *st = (LStep){L_STRIDE, launch_stride(param, dim)};
    if (hopeless(s, (LExpr){st, 1}, d)) return false;
    assume_multiple(s, (LExpr){st, 1}, d);
    return true;
}

bool fact_size_small(Facts *s, LExpr e) {
    bool passed = s->f->fast && e.n == 1 && e.at[0].op == L_DIM && s->f->launch->dims[e.at[0].arg].fixed < 0;     // in 32 bits, as it is
    return passed || fact_assume(s, launch_join_const(s->f->arena, L_LE, e, LIMIT));
}

bool fact_place_small(Facts *s, int param, const bool *dims) {
    const LaunchParam *p = &s->f->launch->params[param];
    Arena *a = s->f->arena;
    LExpr last = {0};
    for (int d = 0; d < p->rank; d++) {
        if (!dims[d]) continue;
        LStep *st = NEW(a, LStep);
        *st = (LStep){L_STRIDE, launch_stride(param, d)};
        LExpr at = launch_join_const(a, L_SUB, p->dim[d], 1);
        if (d < p->rank - 1 || p->strided) at = launch_join(a, L_MUL, at, (LExpr){st, 1});
        last = last.n ? launch_join(a, L_ADD, last, at) : at;
    }
    return fact_assume(s, launch_join_const(a, L_LE, last, LIMIT));
}

bool fact_stride_small(Facts *s, int param, int dim, int64_t times) {
    LStep *st = NEW(s->f->arena, LStep);
    *st = (LStep){L_STRIDE, launch_stride(param, dim)};
    return fact_assume(s, launch_join_const(s->f->arena, L_LE, (LExpr){st, 1}, LIMIT / times));
}

bool fact_stride_one(Facts *s, int param, int dim) {
    Arena *a = s->f->arena;
    LStep *st = NEW(a, LStep);
    *st = (LStep){L_STRIDE, launch_stride(param, dim)};
    return fact_assume(s, launch_join(a, L_EQ, (LExpr){st, 1}, launch_const(a, 1)));
}

// ---- equality and order --------------------------------------------------------------------------

bool fact_same(const Val *a, const Val *b) {
    if (a == b) return true;
    if (!a->def || !b->def) return false;
    const Op *x = a->def, *y = b->def;
    if (x->code != y->code || x->sub != y->sub || x->flags != y->flags || x->imm != y->imm || x->nin != y->nin ||
        a->type.elem != b->type.elem || !strchr(op_info[x->code].flags, 'P'))
        return false;
    for (int i = 0; i < x->nin; i++) if (!fact_same(x->in[i], y->in[i])) return false;
    return true;
}

bool fact_at_most(Facts *s, const Val *a, const Val *b) {
    int64_t ca, cb;
    if (fact_same(a, b)) return true;
    if (is_const(a, &ca) && is_const(b, &cb)) return ca <= cb;
    const Op *d = a->def;
    if (d && d->code == OP_T_fun && d->sub == TF_min) return fact_at_most(s, d->in[0], b) || fact_at_most(s, d->in[1], b);
    if (d && d->code == OP_T_binary && d->sub == OP_sub && is_const(d->in[1], &ca) && ca >= 0)
        return fact_at_most(s, d->in[0], b);
    return false;
}

// ---- affine forms --------------------------------------------------------------------------------

static bool add_term(Affine *o, Val *v, int64_t k) {
    int64_t c;
    if (is_const(v, &c)) { o->c += c * k; return true; }
    for (int i = 0; i < o->nterm; i++) if (o->term[i].v == v) { o->term[i].k += k; return true; }
    if (o->nterm == AFF_TERMS) return false;
    o->term[o->nterm++] = (AffTerm){v, k};
    return true;
}

static bool add_axis(Affine *o, Val *axis, int64_t k, Val *scale) {
    for (int i = 0; i < o->naxis; i++)
        if (o->axis[i].axis == axis && o->axis[i].scale == scale) {
            o->axis[i].k += k;
            return true;
        }
    if (o->naxis == AFF_AXES) return false;
    o->axis[o->naxis++] = (AffAxis){axis, k, scale};
    return true;
}

static bool walk(const Val *v, int64_t k, Affine *o) {
    Op *d = v->def;
    int64_t c;
    if (v->type.rank == 0) return add_term(o, (Val *)v, k);
    if (d && d->code == OP_T_index) return add_term(o, axis_lo(d->in[0]), k) && add_axis(o, d->in[0], k, NULL);
    if (d && d->code == OP_T_splat) return walk(d->in[0], k, o);
    if (d && d->code == OP_T_convert) {                // what axes and scalars say holds in any layout
        Affine was = *o;
        if (walk(d->in[0], k, o) && memcmp(was.tile, o->tile, sizeof was.tile) == 0) return true;
        *o = was;
    }
    if (d && d->code == OP_T_cast && elem_bits((Elem)v->type.elem) == 64 && d->in[0]->type.elem == EL_index)
        return walk(d->in[0], k, o);
    if (d && d->code == OP_T_binary) {
        if (d->sub == OP_add) return walk(d->in[0], k, o) && walk(d->in[1], k, o);
        if (d->sub == OP_sub) return walk(d->in[0], k, o) && walk(d->in[1], -k, o);
        if (d->sub == OP_mul) {
            if (is_const(d->in[1], &c)) return walk(d->in[0], k * c, o);
            if (is_const(d->in[0], &c)) return walk(d->in[1], k * c, o);
            for (int i = 0; i < 2; i++) {              // index(axis) * scalar, where the axis starts at 0
                Val *t = d->in[i], *sc = d->in[1 - i];
                if (sc->type.rank == 0 && t->def && t->def->code == OP_T_index &&
                    is_const(axis_lo(t->def->in[0]), &c) && c == 0)
                    return add_axis(o, t->def->in[0], k, sc);
            }
        }
    }
    for (int i = 0; i < o->ntile; i++) if (o->tile[i].v == v) { o->tile[i].k += k; return true; }
    if (o->ntile == AFF_TILES) return false;
    o->tile[o->ntile++] = (AffTerm){(Val *)v, k};
    return true;
}

bool affine_of(const Val *index, Affine *out) {
    memset(out, 0, sizeof *out);
    return walk(index, 1, out);
}

// ---- positive numbers ----------------------------------------------------------------------------

enum { MOST_FACTORS = 4 };
typedef struct Factors { int param[MOST_FACTORS]; int n; double lo, hi; } Factors;

static bool factors(const Val *v, Factors *out) {
    const Op *d = v->def;
    if (!d || v->type.rank || v->type.elem != EL_f32) return false;
    if (d->code == OP_T_binary && d->sub == OP_mul) return factors(d->in[0], out) && factors(d->in[1], out);
    if (d->code == OP_T_const) {
        double x;
        memcpy(&x, &d->imm, sizeof x);
        out->lo *= x;
        out->hi *= x;
        return x > 0;
    }
    if (d->code != OP_T_scalar || v->type.ptr || out->n == MOST_FACTORS) return false;
    out->param[out->n++] = (int)d->imm;
    out->lo *= 0x1p-50;
    out->hi *= 0x1p50;
    return true;
}

bool fact_positive(Facts *s, const Val *v) {
    Factors f = {.lo = 1, .hi = 1};
    if (!factors(v, &f) || f.lo < 0x1p-120 || f.hi > 0x1p120 || (f.n && !s->f->fast)) return false;
    for (int i = 0; i < f.n; i++) {
        LStep *st = NEW_N(s->f->arena, LStep, 2);
        st[0] = (LStep){L_SCALAR, f.param[i]};
        st[1] = (LStep){L_POSITIVE, 0};
        assume(s, (LExpr){st, 2});
    }
    return true;
}
