// Scans and reductions by a function of the user's own.
//
//     let f, s = scan(|f, s, g, t| (f * g, s * g + t), a[m, t], b[m, t] over t);
//     let most = reduce(|a, b| where(abs(b) > abs(a), b, a), x[m, n] over n);
//
// The function is called once, on one element of each tile of what comes first and one of each of what comes next: numbers, which
// are variables of a `joined` statement, whose results are the tiles. It computes with numbers alone, as its code stands in each thread
// between the steps of a tree: there is no memory, no axis and no branch in it.
#include "sema/builtin.h"

enum { MOST = 8 };

static const char *not_arithmetic(const TBody *b, int first_var);

// What x does that is not arithmetic of numbers, or NULL. Variables from the first on are the function's own.
static const char *beyond_numbers(const TExpr *x, int first_var) {
    switch ((TExprKind)x->kind) {
    case TX_const: case TX_var: case TX_dim: case TX_unary: case TX_binary: case TX_select: case TX_cast: case TX_bitcast: case TX_fun: break;
    case TX_block: {
        const char *why = not_arithmetic(&x->body, first_var);
        if (why) return why;
        break;
    }
    case TX_load: case TX_ptrload: return "reads memory";
    case TX_atomic: return "changes memory";
    default: return "has an axis";
    }
    for (uint32_t i = 0; i < x->nkid; i++) {
        const char *why = x->kid[i] ? beyond_numbers(x->kid[i], first_var) : NULL;
        if (why) return why;
    }
    return x->type.naxes ? "has an axis" : x->type.ptr ? "has a pointer" : NULL;
}

static const char *not_arithmetic(const TBody *b, int first_var) {
    for (uint32_t i = 0; i < b->n; i++) {
        const TStmt *s = b->at[i];
        const char *why = NULL;
        switch ((TStmtKind)s->kind) {
        case TS_let: break;
        case TS_assign: why = s->var->id < first_var ? "assigns to a variable from outside" : NULL; break;
        case TS_if: case TS_for: case TS_while: case TS_break: case TS_continue: why = "has a branch or a loop"; break;
        case TS_assert: case TS_print: why = "asserts or prints"; break;
        case TS_joined: why = "has a scan or reduction by another function"; break;
        default: why = "changes memory"; break;
        }
        if (!why && s->value) why = beyond_numbers(s->value, first_var);
        if (why) return why;
    }
    return NULL;
}

// One number of each element type, as arguments of the function.
static void numbers(Check *c, TStmt *s, TVar **vars, const char *name, Arg *args) {
    for (int i = 0; i < s->nidx; i++) {
        vars[i] = var_new(c, sym(c->s, name), ttype_scalar(s->idx[i]->type.elem), false, s->span);
        args[i] = (Arg){.e = ent_value(tx_var(c, vars[i], s->span)), .span = s->span};
    }
}

static bool joined_value(Check *c, const Call *k, TStmt *s, int i, Ent v) {
    TType t = ttype_scalar(s->idx[i]->type.elem);
    Span at = v.kind == EN_value ? v.x->span : k->args[0].span;
    const char *what = s->nidx == 1 ? "the joined value" : arena_printf(c->a, "joined value %d", i + 1);
    TExpr *x = value_exact(c, v, t, at, what);
    if (!x) return false;
    if (x->type.naxes) {
        Diag *d = report(c, E_type_mismatch, at, what, ttype_text(c, x->type), ttype_text(c, t));
        diag_help(d, "the function joins one element with the next: give it what it needs of other tiles among the values");
        return false;
    }
    s->merge_result[i] = x;
    return true;
}

static bool call_function(Check *c, const Call *k, TStmt *s) {
    int n = s->nidx, first_var = c->k->nvars;
    Arg args[2 * MOST];
    s->merge_x = NEW_N(c->a, TVar *, n);
    s->merge_y = NEW_N(c->a, TVar *, n);
    s->merge_result = NEW_N(c->a, TExpr *, n);
    numbers(c, s, s->merge_x, "x", args);
    numbers(c, s, s->merge_y, "y", args + n);
    TBody *was = c->body;
    c->body = &s->merge_body;
    c->rt_depth++;
    Ent r = call_entity(c, k->args[0].e, args, 2 * n, k->args[0].span);
    c->rt_depth--;
    int have = r.kind == EN_tuple ? r.tuple->n : r.kind == EN_void ? 0 : 1;
    bool ok = r.kind != EN_error && have == n;
    if (r.kind != EN_error && !ok)
        report(c, E_merge_shape, k->args[0].span, arena_printf(c->a, "the function of `%s` gives %d value%s of %d", call_name(k), have, have == 1 ? "" : "s", n));
    for (int i = 0; i < n && ok; i++) ok = joined_value(c, k, s, i, r.kind == EN_tuple ? r.tuple->at[i] : r);
    c->body = was;
    const char *why = ok ? not_arithmetic(&s->merge_body, first_var) : NULL;
    for (int i = 0; i < n && ok && !why; i++) why = beyond_numbers(s->merge_result[i], first_var);
    if (!why) return ok;
    Diag *d = report(c, E_merge_shape, k->args[0].span, arena_printf(c->a, "the function of `%s` %s", call_name(k), why));
    diag_help(d, "it joins one element with the next by arithmetic alone; choices are made by `where` or `? :`");
    return false;
}

// The values over all their axes, storage floats as f32; NULL: reported.
static TExpr **values(Check *c, const Call *k, int n, TType *all) {
    TExpr **x = NEW_N(c->a, TExpr *, n);
    *all = (TType){0};
    for (int i = 0; i < n; i++) {
        const Arg *a = &k->args[1 + i];
        x[i] = value_of(c, a->e, a->span);
        if (!x[i]) return NULL;
        if (x[i]->type.ptr) { report(c, E_operand_type, a->span, call_name(k), ttype_text(c, x[i]->type)); return NULL; }
        if (elem_is_storage(x[i]->type.elem)) x[i] = tx_cast(c, x[i], EL_f32, a->span);
        if (!ttype_union(c, all, x[i]->type, a->span)) return NULL;
    }
    all->elem = x[0]->type.elem;
    for (int i = 0; i < n; i++) {
        TType t = *all;
        t.elem = x[i]->type.elem;
        x[i] = tx_splat(c, x[i], t, k->args[1 + i].span);
    }
    return x;
}

static TAxis *the_axis(Check *c, const Call *k, TType all) {
    TAxis *axes[MAX_AXES];
    if (!over_list(k) || over_list(k)->nkid == 0) {
        help_axes(c, report(c, E_over_missing, k->at, call_name(k)), call_name(k), all);
        return NULL;
    }
    int n = over_axes(c, k, all, axes);
    if (n > 1) report(c, E_argument_count, k->at, call_name(k), "one axis", n);
    return n == 1 ? axes[0] : NULL;
}

static bool is_function(Check *c, const Call *k) {
    Ent f = k->args[0].e;
    if (f.kind == EN_lambda || f.kind == EN_fn || f.kind == EN_builtin) return true;
    if (f.kind == EN_error) return false;
    Diag *d = report(c, E_operand_type, k->args[0].span, call_name(k), ent_text(c, f));
    bool scan = call_code(k) == JOINED_SCAN;
    diag_help(d, "a function comes first, `%s(|a, b| a * b, x over n)`; without one there are %s", call_name(k),
              scan ? "`cumsum`, `cumprod`, `cummax` and `cummin`" : "`sum`, `prod`, `max`, `min`, `any`, `every`, `argmax` and `argmin`");
    return false;
}

Ent do_joined(Check *c, const Call *k) {
    bool keeps = call_code(k) == JOINED_SCAN;
    int n = positional_args(k) - 1;
    int64_t flags = 0;
    TType all;
    if (!is_function(c, k)) return ent_error(c);
    if (n < 1 || n > MOST) {
        report(c, E_argument_count, k->at, call_name(k), arena_printf(c->a, "a function and 1 to %d values before `over`", MOST), n + 1);
        return ent_error(c);
    }
    TExpr **x = values(c, k, n, &all);
    TAxis *axis = x ? the_axis(c, k, all) : NULL;
    if (!axis || !flag_arg(c, k, "reverse", SCAN_REVERSE, &flags)) return ent_error(c);
    TStmt *s = ts_new(c, TS_joined, k->at);
    s->idx = x;
    s->nidx = (uint8_t)n;
    s->axis = axis;
    s->step = (keeps ? JOINED_SCAN : 0) | flags;
    if (!call_function(c, k, s)) return ent_error(c);
    s->ncarried = n;
    s->carried = NEW_N(c->a, TVar *, n);
    Tuple *out = NEW(c->a, Tuple);
    *out = (Tuple){NEW_N(c->a, Ent, n), n, NULL};
    for (int i = 0; i < n; i++) {
        TType t = x[i]->type;
        if (!keeps) t = type_without(t, axis);
        s->carried[i] = var_new(c, sym(c->s, call_name(k)), t, false, k->at);
        out->at[i] = ent_value(tx_var(c, s->carried[i], k->at));
    }
    vec_push(c->a, c->body, s);
    return n == 1 ? out->at[0] : (Ent){.kind = EN_tuple, .tuple = out, .span = k->at};
}
