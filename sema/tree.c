// Constructors of the typed tree, and questions about it.
//
// A type's axes are kept sorted by id, so that two types are the same iff they are equal field by
// field. Constructors keep the invariants that the lowering relies on: operands of one element type,
// conversions written out, at most MAX_AXES axes. What every constructor does besides is count, so
// that no program, however small its text, makes a tree without bound.
#include "sema/internal.h"

#include "lang/number.h"

TType ttype_scalar(Elem e) { return (TType){.elem = e}; }

bool type_has(TType t, const TAxis *ax) {
    for (int i = 0; i < t.naxes; i++) {
        if (t.axis[i] == ax) return true;
    }
    return false;
}

bool type_add(Check *c, TType *t, TAxis *ax, Span at) {
    if (type_has(*t, ax)) return true;
    if (t->naxes == MAX_AXES) {
        report(c, E_too_many_axes, at, MAX_AXES);
        return false;
    }
    int i = t->naxes++;
    for (; i > 0 && t->axis[i - 1]->id > ax->id; i--) t->axis[i] = t->axis[i - 1];
    t->axis[i] = ax;
    return true;
}

bool ttype_union(Check *c, TType *t, TType of, Span at) {
    for (int i = 0; i < of.naxes; i++) {
        if (!type_add(c, t, of.axis[i], at)) return false;
    }
    return true;
}

TType type_without(TType t, const TAxis *ax) {
    TType r = {.elem = t.elem, .ptr = t.ptr};
    for (int i = 0; i < t.naxes; i++) {
        if (t.axis[i] != ax) r.axis[r.naxes++] = t.axis[i];
    }
    return r;
}

bool type_same_axes(TType a, TType b) {
    if (a.naxes != b.naxes) return false;
    for (int i = 0; i < a.naxes; i++) {
        if (a.axis[i] != b.axis[i]) return false;
    }
    return true;
}

bool type_same(TType a, TType b) { return a.elem == b.elem && a.ptr == b.ptr && type_same_axes(a, b); }

// ---- expressions ---------------------------------------------------------------------------------

void too_big(Check *c, Span at, LimitId limit, const char *of_what) {
    c->too_big = true;
    Diag *d = report(c, E_too_big, at, (long long)limit_of(limit), of_what);
    limit_help(d, limit, 2 * limit_of(limit));
}

static void count(Check *c, Span at) {
    if (++c->nodes <= limit_of(LIMIT_typed_nodes) || c->too_big) return;
    too_big(c, at, LIMIT_typed_nodes, "typed nodes");
}

TExpr *tx_new(Check *c, TExprKind kind, TType t, Span at, int nkid, ...) {
    count(c, at);
    TExpr *x = NEW(c->a, TExpr);
    x->kind = (uint8_t)kind;
    x->type = t;
    x->span = at;
    x->nkid = (uint32_t)nkid;
    if (nkid > 0) x->kid = NEW_N(c->a, TExpr *, nkid);
    va_list args;
    va_start(args, nkid);
    for (int i = 0; i < nkid; i++) x->kid[i] = va_arg(args, TExpr *);
    va_end(args);
    return x;
}

TExpr *tx_const_int(Check *c, int64_t v, Elem e, Span at) {
    TExpr *x = tx_new(c, TX_const, ttype_scalar(e), at, 0);
    x->ival = v;
    return x;
}

// As a double from which rounding to e is rounding from the integer: f64 is that of the integer itself.
double int_for_float(int64_t v, Elem from, Elem e) {
    if (from == EL_u64) return e == EL_f64 ? (double)(uint64_t)v : u64_sticky((uint64_t)v);
    return e == EL_f64 ? (double)v : i64_sticky(v);
}

static double round_to(double v, Elem e) {
    switch (e) {
    case EL_f32:    return (double)(float)v;
    case EL_f16:    return f16_to_f32(f16_from_f64(v));
    case EL_bf16:   return bf16_to_f32(bf16_from_f64(v));
    case EL_f8e4m3: return e4m3_to_f32(e4m3_from_f64(v));
    case EL_f8e5m2: return e5m2_to_f32(e5m2_from_f64(v));
    default:        return v;
    }
}

TExpr *tx_const_float(Check *c, double v, Elem e, Span at) {
    TExpr *x = tx_new(c, TX_const, ttype_scalar(e), at, 0);
    x->fval = round_to(v, e);
    return x;
}

TExpr *tx_var(Check *c, TVar *v, Span at) {
    TExpr *x = tx_new(c, TX_var, v->type, at, 0);
    x->var = v;
    return x;
}

TExpr *tx_dim(Check *c, int dim, Span at) {
    TExpr *x = tx_new(c, TX_dim, ttype_scalar(EL_index), at, 0);
    x->dim = dim;
    return x;
}

TExpr *tx_axis(Check *c, TAxis *ax, Span at) {
    TType t = ttype_scalar(EL_index);
    t.axis[t.naxes++] = ax;
    TExpr *x = tx_new(c, TX_axis, t, at, 0);
    x->axis = NEW(c->a, TAxis *);
    x->axis[0] = ax;
    x->naxes = 1;
    return x;
}

TExpr *tx_cast(Check *c, TExpr *x, Elem e, Span at) {
    if (x->type.elem == e) return x;
    if (x->kind == TX_const && elem_is_int(x->type.elem) && (e == EL_f32 || e == EL_f64)) {
        return tx_const_float(c, int_for_float(x->ival, (Elem)x->type.elem, e), e, at);
    }
    if (x->kind == TX_const && elem_is_int(x->type.elem) && elem_is_int(e) && int_fits(x->ival, e)) {
        return tx_const_int(c, x->ival, e, at);
    }
    TType t = x->type;
    t.elem = e;
    return tx_new(c, TX_cast, t, at, 1, x);
}

TExpr *tx_splat(Check *c, TExpr *x, TType t, Span at) {
    t.elem = x->type.elem;
    t.ptr = x->type.ptr;
    return type_same(x->type, t) ? x : tx_new(c, TX_splat, t, at, 1, x);
}

TExpr *tx_fun(Check *c, TFun f, TType t, Span at, TExpr *a, TExpr *b, TExpr *d) {
    TExpr *x = tx_new(c, TX_fun, t, at, d ? 3 : b ? 2 : 1, a, b, d);
    x->op = (uint8_t)f;
    return x;
}

// ---- statements, variables, axes -----------------------------------------------------------------

TStmt *ts_new(Check *c, TStmtKind kind, Span at) {
    count(c, at);
    TStmt *s = NEW(c->a, TStmt);
    s->kind = (uint8_t)kind;
    s->span = at;
    return s;
}

TStmt *ts_emit(Check *c, TStmtKind kind, Span at) {
    TStmt *s = ts_new(c, kind, at);
    vec_push(c->a, c->body, s);
    return s;
}

TVar *var_new(Check *c, Sym name, TType t, bool mutable, Span at) {
    TVar *v = NEW(c->a, TVar);
    *v = (TVar){.id = c->k->nvars++, .name = name, .span = at, .type = t, .mutable = mutable, .param = -1};
    return v;
}

TAxis *axis_new(Check *c, Sym name, int64_t extent, TExpr *lo, TExpr *hi, Span at) {
    TAxis *ax = NEW(c->a, TAxis);
    *ax = (TAxis){.id = c->k->naxes++, .name = name, .span = at, .extent = extent, .lo = lo, .hi = hi};
    ax->full = lo->kind == TX_const && hi->kind == TX_const && hi->ival - lo->ival == extent;
    return ax;
}

void axis_runs_over(Check *c, const TAxis *ax, int dim) {
    while (c->axis_dim.n <= (uint32_t)ax->id) vec_push(c->a, &c->axis_dim, 0);
    c->axis_dim.at[ax->id] = dim;
}

static void remember(Check *c, const TVar *v, TExpr *x) {
    while (c->init.n <= (uint32_t)v->id) vec_push(c->a, &c->init, NULL);
    c->init.at[v->id] = x;
}

TVar *let_var(Check *c, Sym name, TExpr *x, bool mutable, Span at) {
    TVar *v = var_new(c, name, x->type, mutable, at);
    TStmt *s = ts_emit(c, TS_let, at);
    s->var = v;
    s->value = x;
    remember(c, v, x);
    return v;
}

// May be repeated and moved at will.
static bool tx_is_free(const TExpr *x) {
    switch ((TExprKind)x->kind) {
    case TX_const: case TX_dim: case TX_axis: return true;
    case TX_var: return !x->var->mutable;
    default: return false;
    }
}

static bool simple(const TExpr *x) {
    if (tx_is_free(x)) return true;
    bool inner = x->kind == TX_binary || x->kind == TX_unary || x->kind == TX_cast || x->kind == TX_select ||
                 (x->kind == TX_fun && (x->op == TF_min || x->op == TF_max || x->op == TF_abs));
    if (!inner) return false;
    for (uint32_t i = 0; i < x->nkid; i++) {
        if (!simple(x->kid[i])) return false;
    }
    return true;
}

// Small host arithmetic stays as it is written, so that ranges and guards made of it see dimensions.
static bool small_host(const TExpr *x) {
    if (x->kind != TX_binary || x->type.elem != EL_index || !tx_is_host(x)) return false;
    int n = 0;
    for (uint32_t i = 0; i < 2; i++) {
        const TExpr *k = x->kid[i];
        n += k->nkid > 0 ? 1 + (int)k->nkid : 0;
        for (uint32_t j = 0; j < k->nkid; j++) n += k->kid[j]->nkid > 0 ? 8 : 0;
    }
    return n < 8;
}

TExpr *keep(Check *c, TExpr *x, Sym name, Span at) {
    return tx_is_free(x) || small_host(x) ? x : tx_var(c, let_var(c, name, x, false, at), at);
}

TExpr *keep_simple(Check *c, TExpr *x, Sym name, Span at) {
    return simple(x) ? x : tx_var(c, let_var(c, name, x, false, at), at);
}

// ---- questions -----------------------------------------------------------------------------------

bool tx_same(const TExpr *a, const TExpr *b) {
    if (a == b) return true;
    if (a->kind != b->kind || a->op != b->op || a->nkid != b->nkid || !type_same(a->type, b->type)) return false;
    switch ((TExprKind)a->kind) {
    case TX_const: return a->ival == b->ival;    // floats by their bits
    case TX_var: return a->var == b->var && !a->var->mutable;
    case TX_dim: return a->dim == b->dim;
    case TX_axis: return a->axis[0] == b->axis[0];
    case TX_load:
        if (a->tensor != b->tensor || a->tensor->mode != PM_IN) return false;
        break;
    case TX_unary: case TX_binary: case TX_select: case TX_cast: case TX_fun: case TX_splat: break;
    default: return false;
    }
    for (uint32_t i = 0; i < a->nkid; i++) {
        if (a->kid[i] == b->kid[i]) continue;
        if (!a->kid[i] || !b->kid[i] || !tx_same(a->kid[i], b->kid[i])) return false;
    }
    return true;
}

static bool has_abs(const TExpr *x) {
    for (uint32_t i = 0; i < x->nkid; i++) if (has_abs(x->kid[i])) return true;
    return x->kind == TX_fun && x->op == TF_abs;
}

// The launcher's arithmetic: see LOp in lang/launch.h. A magnitude is its operand twice there, so it stands in no other one.
static bool host_operation(const TExpr *x) {
    switch (x->kind) {
    case TX_cast:  return elem_is_int(x->type.elem) && elem_bits(x->type.elem) >= 32;
    case TX_unary: return x->op == OP_neg || x->op == OP_not;
    case TX_fun:   return x->op == TF_min || x->op == TF_max || (x->op == TF_abs && !has_abs(x->kid[0]));
    case TX_binary:
        switch (x->op) {
        case OP_add: case OP_sub: case OP_mul: case OP_div: case OP_rem: return true;
        case OP_eq: case OP_ne: case OP_lt: case OP_le: case OP_gt: case OP_ge: return true;
        case OP_and: case OP_or: case OP_land: case OP_lor: return x->type.elem == EL_bool;
        default: return false;
        }
    default: return true;
    }
}

// How many numbers the host has at hand at most while it computes x, from left to right; 0: it cannot.
static int host_numbers(const TExpr *x) {
    if (x->kind == TX_const || x->kind == TX_dim) return 1;
    if (x->kind == TX_var) return x->var->param >= 0 && !x->type.ptr && elem_is_int(x->type.elem);
    if (!simple(x) || x->type.naxes > 0 || !host_operation(x)) return 0;
    int most = 1;
    for (uint32_t i = 0; i < x->nkid; i++) {
        int n = host_numbers(x->kid[i]);
        if (n == 0) return 0;
        if (n + (int)i > most) most = n + (int)i;
    }
    return most;
}

bool tx_is_host(const TExpr *x) {
    int n = host_numbers(x);
    return n > 0 && n <= LAUNCH_DEEPEST;
}

static bool only_names(const TBody *b) {
    for (uint32_t i = 0; i < b->n; i++) if (b->at[i]->kind != TS_let || b->at[i]->var->mutable) return false;
    return true;
}

// What is computed twice has a name (`keep`), and what functions take and compute has; a launcher has no names.
static TExpr *written_out(Check *c, TExpr *x, int *left) {
    if (--*left < 0) return x;
    if (x->kind == TX_block && only_names(&x->body)) return written_out(c, x->kid[0], left);
    uint32_t id = x->kind == TX_var ? (uint32_t)x->var->id : 0;
    if (x->kind == TX_var && x->var->param < 0 && !x->var->mutable && id < c->init.n && c->init.at[id])
        return written_out(c, c->init.at[id], left);
    if (x->kind != TX_binary && x->kind != TX_unary && x->kind != TX_cast && x->kind != TX_select && x->kind != TX_fun) return x;
    TExpr *all = NEW(c->a, TExpr);
    *all = *x;
    all->kid = NEW_N(c->a, TExpr *, x->nkid);
    for (uint32_t i = 0; i < x->nkid; i++) all->kid[i] = written_out(c, x->kid[i], left);
    return all;
}

TExpr *tx_for_host(Check *c, TExpr *x) {
    enum { MOST = 512 };
    int left = MOST;
    if (x->type.naxes || tx_is_host(x)) return x;
    TExpr *all = written_out(c, x, &left);
    return left < 0 ? x : all;
}

bool tx_host_deep(Check *c, const TExpr *x, Span at) {
    if (host_numbers(x) <= LAUNCH_DEEPEST) return false;
    diag_note(report(c, E_too_deep, at), "what a launch computes has at most %d numbers that wait for another", LAUNCH_DEEPEST);
    return true;
}

static bool body_has_effect(const TBody *b) {
    for (uint32_t i = 0; i < b->n; i++) {
        const TStmt *s = b->at[i];
        if (s->kind == TS_store || s->kind == TS_ptrstore || s->kind == TS_eval || s->kind == TS_print ||
            s->kind == TS_assert)
            return true;
        if (s->value && tx_has_effect(s->value)) return true;
        if (body_has_effect(&s->body) || body_has_effect(&s->orelse) || body_has_effect(&s->cond_body)) return true;
    }
    return false;
}

bool tx_has_effect(const TExpr *x) {
    if (x->kind == TX_atomic) return true;
    if (x->kind == TX_block && body_has_effect(&x->body)) return true;
    for (uint32_t i = 0; i < x->nkid; i++) {
        if (x->kid[i] && tx_has_effect(x->kid[i])) return true;
    }
    return false;
}
