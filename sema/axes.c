// Axes and the ranges that make them.
//
//     grid (m in M by BM)        axis m: lanes first .. first + BM, live below M; also a scalar clause without `by`
//     for k in K by BK           the same, one axis in each trip
//     let n = N by BLOCK         one axis of BLOCK lanes; N <= BLOCK is a guard of the kernel, or an assert
//     let r = 0 .. 8             one axis of exactly 8 lanes
//     x[m, :]                    the canonical axis of the dimension, which must be a number
//
// Every evaluation of a range makes a new axis, except `:`: there is one of each dimension in an
// instance. A dimension written as a number is the dimension of that number.
#include "sema/internal.h"

#include <string.h>

enum { MAX_EXTENT_BITS = 31 };

Span name_at(const Node *n) { return n->name_span.hi ? n->name_span : n->span; }

// Index arithmetic with what is obvious folded, so that ranges print as one would write them.
TExpr *index_op(Check *c, AstOp op, TExpr *a, TExpr *b, Span at) {
    bool ka = a->kind == TX_const, kb = b->kind == TX_const;
    int64_t r;
    if (ka && kb && op == OP_add && !__builtin_add_overflow(a->ival, b->ival, &r)) return tx_const_int(c, r, EL_index, at);
    if (ka && kb && op == OP_sub && !__builtin_sub_overflow(a->ival, b->ival, &r)) return tx_const_int(c, r, EL_index, at);
    if (ka && a->ival == 0 && op == OP_add) return b;
    if (kb && b->ival == 0 && (op == OP_add || op == OP_sub)) return a;
    TExpr *x = tx_new(c, TX_binary, ttype_scalar(op >= OP_eq && op <= OP_ge ? EL_bool : EL_index), at, 2, a, b);
    x->op = (uint8_t)op;
    return x;
}

// `let n = N by B` comes with the guard N <= B.
static bool guarded(Check *c, const TAxis *ax, Span at) {
    TExpr *len = index_op(c, OP_sub, ax->hi, ax->lo, at);
    for (uint32_t i = 0; i < c->guards.n; i++) {
        const TExpr *g = c->guards.at[i].cond;
        if (g->kind == TX_binary && g->op == OP_le && tx_same(g->kid[0], len) && g->kid[1]->kind == TX_const &&
            g->kid[1]->ival <= ax->extent)
            return true;
    }
    return false;
}

TExpr *axis_end(Check *c, const TAxis *ax, Span at) {
    if (!ax->full && guarded(c, ax, at)) return ax->hi;
    TExpr *top = index_op(c, OP_add, ax->lo, tx_const_int(c, ax->extent, EL_index, at), at);
    if (ax->full) return top;                                  // one of the tiles of a range, perhaps
    if (top->kind == TX_const && ax->hi->kind == TX_const) return top->ival < ax->hi->ival ? top : ax->hi;
    return tx_fun(c, TF_min, ttype_scalar(EL_index), at, top, ax->hi, NULL);
}

TExpr *axis_length(Check *c, const TAxis *ax, Span at) {
    TExpr *len = index_op(c, OP_sub, axis_end(c, ax, at), ax->lo, at), *none = tx_const_int(c, 0, EL_index, at);
    if (len->kind == TX_const) return len->ival < 0 ? none : len;
    return ax->may_be_none ? tx_fun(c, TF_max, ttype_scalar(EL_index), at, len, none, NULL) : len;
}

void guard_add(Check *c, TExpr *cond, const char *text, Span at) {
    for (uint32_t i = 0; i < c->guards.n; i++) {
        if (tx_same(c->guards.at[i].cond, cond)) return;
    }
    TGuard g = {.cond = cond, .text = text, .span = at};
    vec_push(c->a, &c->guards, g);
}

// ---- dimensions that must be numbers ---------------------------------------------------------------

static bool fix_dims(Check *c, const TExpr *x) {
    if (x->kind == TX_dim) {
        c->fix.at[x->dim] = true;
        return c->again = true;
    }
    if (x->kind == TX_const) return true;
    if (x->kind != TX_binary && x->kind != TX_fun && x->kind != TX_cast) return false;
    for (uint32_t i = 0; i < x->nkid; i++) {
        if (!fix_dims(c, x->kid[i])) return false;
    }
    return true;
}

bool dim_fixed(Check *c, Ent dim, int64_t *v, Span at) {
    if (dim.kind == EN_error) return false;
    if (dim.kind == EN_int) {
        *v = dim.i;
        return true;
    }
    *v = 128;                                // a stand-in: the instance is run again with the number
    if (dim.kind == EN_value && fix_dims(c, dim.x)) return true;
    Diag *d = report(c, E_not_comptime, at, "the dimension that `:` stands for");
    diag_primary(d, "this is %s", ent_text(c, dim));
    return false;
}

static bool extent_ok(Check *c, int64_t n, Span at) {
    if (n >= 0 && n < (int64_t)1 << MAX_EXTENT_BITS) return true;
    Diag *d = report(c, E_range_empty, at, arena_printf(c->a, "%lld", (long long)n));
    note_values(c, d);
    return false;
}

TAxis *canonical_axis(Check *c, Ent dim, Sym name, Span at) {
    int64_t v;
    if (dim.dim > 0 && (uint32_t)dim.dim <= c->dim_seen.n) c->dim_seen.at[dim.dim - 1] = true;
    if (!dim_fixed(c, dim, &v, at) || !extent_ok(c, v, at)) return NULL;
    for (uint32_t i = 0; i < c->canon.n; i++) {
        Ent key = c->canon_key.at[i];
        if (key.dim == dim.dim && key.i == v) return c->canon.at[i];
    }
    const char *text = dim.dim > 0 ? arena_printf(c->a, ":%s", c->k->dims[dim.dim - 1].name->s)
                     : name        ? arena_printf(c->a, ":%s", name->s)
                                   : arena_printf(c->a, ":%lld", (long long)v);
    TAxis *ax = axis_new(c, sym(c->s, text), v, tx_const_int(c, 0, EL_index, at), tx_const_int(c, v, EL_index, at), at);
    vec_push(c->a, &c->canon, ax);
    axis_runs_over(c, ax, dim.dim);
    vec_push(c->a, &c->k->axes, ax);
    Ent key = {.kind = EN_int, .dim = dim.dim, .i = v};
    vec_push(c->a, &c->canon_key, key);
    return ax;
}

// ---- ranges ----------------------------------------------------------------------------------------

static bool bound_ok(Check *c, Ent *e, const Node *n, bool open) {
    if (e->kind == EN_error) return false;
    if (e->kind == EN_int || (open && e->kind == EN_unknown)) return true;
    TExpr *x = scalar_index(c, *e, n->span, "a bound of a range");
    if (!x) return false;
    int16_t dim = e->dim;
    *e = ent_value(x);
    e->dim = dim;
    return true;
}

static bool range_read(Check *c, const Node *n, Range *r, bool open) {
    *r = (Range){.span = n->span, .node = n};
    bool is_range = n->kind == N_range;
    const Node *lo = is_range ? n->kid[0] : NULL, *hi = is_range ? n->kid[1] : n, *by = is_range ? n->kid[2] : NULL;
    r->lo = lo ? eval(c, lo) : ent_int(0, n->span);
    r->hi = hi ? eval(c, hi) : ent_error(c);
    bool ok = bound_ok(c, &r->lo, lo ? lo : n, open);
    ok = hi && bound_ok(c, &r->hi, hi, open) && ok;
    if (!by) return ok;
    r->by = true;
    if (!want_int(c, by, "the step of a range", &r->step)) return false;
    if (r->step <= 0) {
        Diag *d = report(c, E_step_positive, by->span, arena_printf(c->a, "%lld", (long long)r->step));
        note_values(c, d);
        return false;
    }
    return extent_ok(c, r->step, by->span) && ok;
}

bool range_eval(Check *c, const Node *n, Range *r) { return range_read(c, n, r, false); }
bool range_open(Check *c, const Node *n, Range *r) { return range_read(c, n, r, true); }

static TExpr *bound(Check *c, Ent e, Span at) {
    return e.kind == EN_int ? tx_const_int(c, e.i, EL_index, at) : e.x;
}

static bool at_most(Check *c, const TExpr *x, int64_t n) {
    if (x->kind == TX_const) return x->ival <= n;
    if (x->kind == TX_cast && x->type.elem == EL_index && elem_is_int(x->kid[0]->type.elem)) return at_most(c, x->kid[0], n);
    if (x->kind == TX_var && !x->var->mutable && !((uint32_t)x->var->id < c->limit.n && c->limit.at[x->var->id]) &&
        (uint32_t)x->var->id < c->init.n && c->init.at[x->var->id]) {
        return at_most(c, c->init.at[x->var->id], n);
    }
    return x->kind == TX_fun && x->op == TF_min && (at_most(c, x->kid[0], n) || at_most(c, x->kid[1], n));
}

// The integer that became an index, in whose type the bounds of a range were computed.
static const TExpr *before_index(const TExpr *x) {
    if (x->kind != TX_cast || x->type.elem != EL_index) return x;
    Elem e = x->kid[0]->type.elem;
    return elem_is_int(e) && e != EL_index && e != EL_u64 ? x->kid[0] : x;
}

// hi <= lo + n, as in `s .. min(N, s + 64) by 64`. A sum that wraps around is less than what was added to, if what was added is not.
static bool at_most_past(const TExpr *hi, const TExpr *lo, int64_t n) {
    if (before_index(hi) != hi) return at_most_past(before_index(hi), before_index(lo), n);
    if (hi->kind == TX_fun && hi->op == TF_min) return at_most_past(hi->kid[0], lo, n) || at_most_past(hi->kid[1], lo, n);
    for (int i = 0; i < 2 && hi->kind == TX_binary && hi->op == OP_add; i++) {
        const TExpr *more = hi->kid[1 - i];
        bool wraps = hi->type.elem != EL_index && more->kind == TX_const && more->ival < 0;
        if (tx_same(hi->kid[i], lo) && more->kind == TX_const && more->ival <= n && !wraps) return true;
    }
    return false;
}

static bool is_zero(const TExpr *x) { return x->kind == TX_const && x->ival == 0; }

// `let n = lo .. hi by B` has B lanes, which must be enough.
static bool demand_fits(Check *c, const Range *r, TExpr *lo, TExpr *hi) {
    Span at = r->span;
    if ((is_zero(lo) && at_most(c, hi, r->step)) || at_most_past(hi, lo, r->step)) return true;
    TExpr *len = index_op(c, OP_sub, hi, lo, at), *b = tx_const_int(c, r->step, EL_index, at);
    if (len->kind == TX_const) {
        if (len->ival <= r->step) return true;
        Diag *d = report(c, E_const_range, at, "this range",
                         arena_printf(c->a, "its length is %lld, but it has only %lld elements", (long long)len->ival,
                                      (long long)r->step));
        note_values(c, d);
        return false;
    }
    Str by = span_text(c->s, r->node->kid[2]->span);
    const char *what = r->node->kid[2]->kind == N_int
                           ? arena_printf(c->a, "%s <= %lld", expr_text(c, len), (long long)r->step)
                           : arena_printf(c->a, "%s <= %.*s = %lld", expr_text(c, len), (int)by.n, by.p,
                                          (long long)r->step);
    TExpr *cond = index_op(c, OP_le, len, b, at);
    if (tx_is_host(len)) {
        guard_add(c, cond, arena_printf(c->a, "%s (%s)", what, place_text(c, at)), at);
        return true;
    }
    TStmt *s = ts_emit(c, TS_assert, at);
    s->cond = cond;
    const char *text = arena_printf(c->a, "the range needs %s", what);
    s->str = (Str){text, strlen(text)};
    return true;
}

// hi = lo + number, as in `4 * i .. 4 * i + 4`: of any integer type.
static bool constant_length(const TExpr *lo, const TExpr *hi, int64_t *n) {
    if (lo->kind == TX_cast && hi->kind == TX_cast && elem_is_int(lo->kid[0]->type.elem))
        return constant_length(lo->kid[0], hi->kid[0], n);
    if (lo->kind == TX_const && hi->kind == TX_const) return !__builtin_sub_overflow(hi->ival, lo->ival, n);
    if (hi->kind != TX_binary || hi->op != OP_add) return false;
    const TExpr *k = hi->kid[1], *base = hi->kid[0];
    if (base->kind == TX_const) {
        base = hi->kid[1];
        k = hi->kid[0];
    }
    if (k->kind != TX_const || !tx_same(base, lo)) return false;
    *n = k->ival;
    return true;
}

static bool is_number(const Node *n) {
    return n && (n->kind == N_int || (n->kind == N_unary && n->kid[0] && n->kid[0]->kind == N_int));
}

// 1 + a dimension that the expression names; 0: none.
static int dim_in(const Check *c, const Node *n) {
    const Bind *b = n && n->kind == N_name ? scope_find(c->scope, n->sym) : NULL;
    int dim = b ? b->ent.dim : 0;
    for (uint32_t i = 0; n && i < n->nkid && dim <= 0; i++) dim = dim_in(c, n->kid[i]);
    return dim;
}

Ent range_axis(Check *c, Sym name, const Node *n) {
    Range r;
    if (!range_eval(c, n, &r)) return ent_error(c);
    if (!name) name = sym(c->s, "range");
    int64_t extent = r.step, length = 0;
    TExpr *lo = bound(c, r.lo, r.span), *hi = bound(c, r.hi, r.span);
    bool known = constant_length(lo, hi, &length);
    lo = keep_simple(c, lo, name, r.span);
    hi = known && lo->kind != TX_const ? index_op(c, OP_add, lo, tx_const_int(c, length, EL_index, r.span), r.span)
                                       : keep_simple(c, hi, name, r.span);
    if (r.by) {
        if (!demand_fits(c, &r, lo, hi)) return ent_error(c);
    } else if (known) {
        bool written = is_number(n->kid[0]) && is_number(n->kid[1]);
        if (length < 0 && written) {
            Diag *d = report(c, E_range_empty, r.span, arena_printf(c->a, "%lld", (long long)length));
            diag_help(d, "a range goes upward, and ends before its second bound");
            return ent_error(c);
        }
        extent = length < 0 ? 0 : length;
        if (!extent_ok(c, extent, r.span)) return ent_error(c);
    } else {
        Diag *d = report(c, E_range_runtime, r.span);
        diag_help(d, "say how many elements a tile of it has: `by 128`");
        int dim = dim_in(c, n);
        if (dim > 0)
            diag_help(d, "or make `%s` a compile-time name of the kernel: `<%s = 128>`", c->k->dims[dim - 1].name->s,
                      c->k->dims[dim - 1].name->s);
        return ent_error(c);
    }
    TAxis *ax = axis_new(c, name, extent, lo, hi, n->span);
    if (!r.by) ax->full = true;
    ax->may_be_none = !ax->full && !(lo->kind == TX_const && lo->ival <= 0 && hi->kind == TX_dim);
    vec_push(c->a, &c->k->axes, ax);
    axis_runs_over(c, ax, r.hi.dim);
    return (Ent){.kind = EN_axis, .axis = ax, .span = n->span};
}

// `zeros(64, 64)`: the axes in scope that have as many lanes.
static void help_lanes(Check *c, Diag *d, int64_t lanes) {
    enum { MOST = 4 };
    const char *name[MOST];
    Buf names = {0};
    int n = 0;
    for (const Scope *sc = c->scope; sc; sc = sc->up) {
        for (const Bind *b = sc->first; b; b = b->next) {
            if (b->ent.kind == EN_axis && b->ent.axis->extent == lanes && n < MOST) name[n++] = b->name->s;
        }
    }
    for (int i = n; i > 0; i--) buf_printf(&names, "%s`%s`", i < n ? ", " : "", name[i - 1]);
    if (n) diag_help(d, "tiles have axes, not sizes: of %lld elements %s %s", (long long)lanes, n == 1 ? "is" : "are", names.p);
    else diag_help(d, "tiles have axes, not sizes: make one, `let n = 0 .. %lld`", (long long)lanes);
    buf_free(&names);
}

// e as an axis: an axis, or its own index tile.
Ent as_axis(Check *c, Ent e, Span at) {
    if (e.kind == EN_axis || e.kind == EN_error) return e;
    if (e.kind == EN_value && e.x->kind == TX_axis) return (Ent){.kind = EN_axis, .axis = e.x->axis[0], .span = at};
    Str name = span_text(c->s, at);
    bool index = e.kind == EN_value && e.x->kind == TX_var && e.x->type.elem == EL_index && e.x->type.naxes == 0 &&
                 name.n < 40;
    Diag *d = report(c, E_not_axis, at,
                     index ? arena_printf(c->a, "`%.*s`, one index at a time,", (int)name.n, name.p) : ent_text(c, e));
    if (e.dim > 0) diag_help(d, "`:%s` is the axis of that dimension", c->k->dims[e.dim - 1].name->s);
    else if (e.kind == EN_type) diag_help(d, "element types stand in `<>`: `zeros<%s>(n)`", elem_name(e.elem));
    else if (e.kind == EN_tuple) diag_help(d, "axes are arguments of their own: `zeros(m, n)`");
    else if (e.kind == EN_float) diag_help(d, "a value comes before the axes: `full(%g, n)`", e.f);
    else if (e.kind == EN_int) help_lanes(c, d, e.i);
    else if (e.kind == EN_value && e.x->kind == TX_var)
        diag_help(d, "a range without `by` gives a scalar index; `%.*s in ... by 16` makes an axis", (int)name.n,
                  name.p);
    return ent_error(c);
}

Ent want_axis(Check *c, const Node *n) { return as_axis(c, eval(c, n), n->span); }
