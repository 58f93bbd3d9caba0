// A kernel or a graph called with tensors and numbers, in a test or a graph: what the arguments say.
//
//     kernel linear<BM = 128>(x: f32[M, K], w: f32[K, N], y: out f32[M, N])      linear<BM = 64>(a, b)
//
//     a is f32[B, 784]      M = B, K = 784          names that stand alone in a type are learned
//     b is f32[784, 512]    K = 784, N = 512        and compared with what was learned before
//     instance              BM = 64, K, N known     B stays open while it is a symbol
//     y                     f32[B, 512]             the kernel's own expression, its dimensions replaced
//
// Dimensions are entities: in tests, and in graphs that are about to run, numbers; in graphs that are only
// checked, also expressions of the graph's own dimensions.
#include "sema/internal.h"

#include "lang/number.h"

#include <string.h>

// ---- what is written --------------------------------------------------------------------------------

// A function value is compiled into the kernel: of the graph or test around it, it may see what is known at compile time.
typedef struct Lambdas { const struct Lambdas *up; const Node *node; } Lambdas;

static bool is_parameter(const Lambdas *in, Sym name) {
    for (; in; in = in->up) {
        for (uint32_t i = 0; i < in->node->kid[0]->nkid; i++) {
            if (in->node->kid[0]->kid[i]->sym == name) return true;
        }
    }
    return false;
}

static bool captures(Check *c, const Node *n, const Scope *env, const Lambdas *in);

static bool lambda_captures(Check *c, Lambda *l) {
    return !l->alone && !(l->alone = !captures(c, l->node, l->env, NULL));
}

static bool captures(Check *c, const Node *n, const Scope *env, const Lambdas *in) {
    const Bind *b = n->kind == N_name && n->sym && !is_parameter(in, n->sym) ? scope_find(env, n->sym) : NULL;
    if (b && b->ent.kind == EN_lambda) return lambda_captures(c, b->ent.lambda);
    if (b && (b->ent.kind == EN_value || b->ent.kind == EN_tensor)) {
        Diag *d = report(c, E_not_comptime, n->span, "what a function value given to a launch uses");
        diag_label(d, b->span, "%s", ent_text(c, b->ent));
        return true;
    }
    Lambdas own = {in, n};
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (n->kid[i] && captures(c, n->kid[i], env, n->kind == N_lambda ? &own : in)) return true;
    }
    return false;
}

LaunchCall *launch_call(Check *c, const Node *item, const Node *call, const TensorRef *const *want, int nwant) {
    LaunchCall *l = NEW(c->a, LaunchCall);
    int np = item->kid[1] ? (int)item->kid[1]->nkid : 0;
    *l = (LaunchCall){.item = item, .call = call, .nparams = np, .nwant = nwant};
    l->set = NEW_N(c->a, SemaValue, call->kid[1] ? call->kid[1]->nkid + 1 : 1);
    l->arg = NEW_N(c->a, Ent, np + 1);
    l->at = NEW_N(c->a, Span, np + 1);
    l->want = NEW_N(c->a, const TensorRef *, np + 1);
    for (int i = 0; i < nwant && i < np; i++) l->want[i] = want[i];
    return l;
}

// `gate<K = 4>(x)` of a kernel without `<K>`
static void no_such_generic(Check *c, const LaunchCall *l, const Node *v) {
    const Node *item = l->item;
    Diag *d = report(c, E_generic_unknown, v->span, item->sym->s, arena_printf(c->a, "`%s`", v->sym->s));
    if (says_name(item->kid[1], v->sym))
        diag_help(d, "there it is a dimension; as `%s %s<%s = 128>(...)` a launch can say what it is",
                  item->kind == N_graph ? "graph" : "kernel", item->sym->s, v->sym->s);
    Buf b = {0};
    for (uint32_t i = 0; item->kid[0] && i < item->kid[0]->nkid; i++)
        buf_printf(&b, "%s`%s`", b.n ? ", " : "", item->kid[0]->kid[i]->sym->s);
    if (b.n) diag_help(d, "it has %s", b.p);
    buf_free(&b);
}

bool launch_generics(Check *c, LaunchCall *l) {
    const Node *g = l->call->kid[1], *gs = l->item->kid[0];
    uint32_t next = 0;
    for (uint32_t i = 0; g && i < g->nkid; i++) {
        const Node *v = g->kid[i];
        Sym name = v->kind == N_named ? v->sym : gs && next < gs->nkid ? gs->kid[next++]->sym : NULL;
        Ent e = recipe_pin(c, dims_settle(c, eval(c, v->kind == N_named ? v->kid[0] : v)));
        if (e.kind == EN_error) return false;
        bool known = v->kind != N_named;
        for (uint32_t k = 0; gs && k < gs->nkid; k++) known = known || gs->kid[k]->sym == name;
        if (!known) {
            no_such_generic(c, l, v);
            return false;
        }
        for (uint32_t k = 0; k < i; k++) {
            if (v->kind != N_named || g->kid[k]->kind != N_named || g->kid[k]->sym != name) continue;
            report(c, E_twice, v->span, arena_printf(c->a, "`%s`", name->s));
            return false;
        }
        if (e.kind == EN_lambda) recipe_lost(c);                      // it may see numbers, and its instance is this run's
        if (!name || l->nset == 64) {
            report(c, E_generic_unknown, v->span, l->item->sym->s, arena_printf(c->a, "number %u", i + 1));
            return false;
        }
        if ((e.kind == EN_value || e.kind == EN_unknown) && !c->host) continue;       // a dimension: a number when the graph runs
        if (e.kind == EN_fn || e.kind == EN_lambda || e.kind == EN_builtin) {
            if (e.kind == EN_lambda && lambda_captures(c, e.lambda)) return false;
            Ent *value = NEW(c->a, Ent);
            *value = e;
            l->set[l->nset++] = (SemaValue){.name = name->s, .value = value};
            continue;
        }
        if (e.kind != EN_int && e.kind != EN_bool && e.kind != EN_type) {
            report(c, E_generic_kind, v->span, name->s, "a number, an element type or a function", ent_text(c, e));
            return false;
        }
        l->set[l->nset++] = (SemaValue){.name = name->s,
                                        .is_type = e.kind == EN_type,
                                        .ival = e.kind == EN_type ? 0 : e.i,
                                        .elem = e.kind == EN_type ? e.elem : EL_none};
    }
    return true;
}

// Arguments to parameters; `out` parameters take none.
bool launch_args(Check *c, LaunchCall *l, EvalArg eval_arg, void *ctx) {
    const Node *ps = l->item->kid[1], *n = l->call;
    int np = ps ? (int)ps->nkid : 0, nargs = (int)n->nkid - 3, want = 0, next = 0, *given = NEW_N(c->a, int, np + 1);
    bool ok = np <= (l->item->kind == N_graph ? MAX_GRAPH_PARAMS : MAX_PARAMS), named = false;
    for (int i = 0; i < np && ok; i++) want += !(ps->kid[i]->flags & PARAM_OUT);
    for (int i = 0; i < nargs && ok; i++) {
        const Node *a = n->kid[3 + i];
        int at = next;
        if (named && a->kind != N_named) return false;        // the parser has told it
        named |= a->kind == N_named;
        if (a->kind == N_named) {
            for (at = 0; at < np && ps->kid[at]->sym != a->sym; at++) continue;
            if (at == np) {
                suggest_param(c, report(c, E_argument_name, a->span, l->item->sym->s, a->sym->s), l->item, a);
                return false;
            }
        } else {
            while (at < np && (ps->kid[at]->flags & PARAM_OUT)) at++;
            next = at + 1;
        }
        if (at >= np) {
            ok = false;
            break;
        }
        l->arg[at] = eval_arg(ctx, a->kind == N_named ? a->kid[0] : a);
        l->at[at] = a->span;
        given[at]++;
        if (l->arg[at].kind == EN_error) return false;
    }
    for (int i = 0; i < np && ok; i++) ok = given[i] == !(ps->kid[i]->flags & PARAM_OUT);
    if (!ok) count_args(c, l->item, n->span, want, given, nargs);
    return ok;
}

// `with (warps = 4, stages = 3)`
bool launch_schedule(Check *c, const Node *with, Schedule *s) {
    for (uint32_t i = 1; i < with->nkid; i++) {
        const Node *item = with->kid[i];
        int most = 0, *field = schedule_field(s, item->sym->s, item->sym->n, &most);
        int64_t v;
        if (!field) {
            Diag *d = report(c, E_schedule_word, item->span, item->sym->s);
            suggest_schedule_word(d, item->sym);
            return false;
        }
        if (!want_int(c, item->kid[0], "part of a schedule", &v)) return false;
        const char *takes = schedule_refuses(item->sym->s, item->sym->n, v);
        if (takes) {
            report(c, E_const_range, item->kid[0]->span, item->sym->s, takes);
            return false;
        }
        *field = (int)v;
    }
    return true;
}

// ---- what the tensors say ---------------------------------------------------------------------------

const Learned *launch_learned(const LaunchCall *l, Sym name, bool is_type) {
    for (uint32_t i = 0; i < l->learned.n; i++) {
        const Learned *v = &l->learned.at[i];
        if (v->name == name && (v->e.kind == EN_type) == is_type) return v;
    }
    return NULL;
}

static bool note_learned(Check *c, LaunchCall *l, Sym name, Ent e, Span at) {
    if (l->learned.n == (l->item->kind == N_graph ? MAX_LEARNED : MAX_DIMS + 16)) return false;
    Learned v = {name, e, at};
    vec_push(c->a, &l->learned, v);
    return true;
}

static const char *learned_text(Check *c, Ent e) { return e.kind == EN_type ? elem_name(e.elem) : dims_text(c, e); }

static bool learn(Check *c, LaunchCall *l, Sym name, Ent e, Span at) {
    if (e.kind != EN_int && e.kind != EN_value && e.kind != EN_type) return true;
    const Learned *before = launch_learned(l, name, e.kind == EN_type);
    if (!before) {
        note_learned(c, l, name, e, at);
        return true;
    }
    bool same = e.kind == EN_type ? before->e.elem == e.elem : dims_compare(c, before->e, e) != DIMS_differ;
    if (same) return true;
    const char *a = learned_text(c, e), *b = learned_text(c, before->e);
    Diag *d = report(c, E_dim_mismatch, at, name->s, a, b);
    diag_label(d, before->why, "%s is %s by this argument", name->s, b);
    if (e.kind == EN_value || before->e.kind == EN_value)
        diag_help(d, "if they are always equal, say so: `where %s = %s`", a, b);
    return false;
}

static bool is_generic(const Node *item, Sym name) {
    for (uint32_t i = 0; item->kid[0] && i < item->kid[0]->nkid; i++) {
        if (item->kid[0]->kid[i]->sym == name) return true;
    }
    return false;
}

static bool learn_elem(Check *c, LaunchCall *l, const Node *p, const Node *elem, Ent e, Span at) {
    if (elem->kind != N_type_name || !elem->sym || e.tensor->elem == EL_none) return true;
    if (is_generic(l->item, elem->sym))
        return learn(c, l, elem->sym, (Ent){.kind = EN_type, .elem = e.tensor->elem, .span = at}, at);
    Elem want = elem_by_name((Str){elem->sym->s, elem->sym->n});
    if (want == EL_none || want == e.tensor->elem) return true;
    report(c, E_element_type, at, arena_printf(c->a, "argument `%s`", p->sym->s), elem_name(e.tensor->elem),
           elem_name(want));
    return false;
}

// A raw pointer points to the memory of a tensor of any shape; what is written there is in the tensor afterwards.
static bool learn_pointer(Check *c, LaunchCall *l, const Node *p, Ent e, Span at) {
    if (e.kind == EN_tensor && !e.tensor->view) return learn_elem(c, l, p, p->kid[0]->kid[0], e, at);
    report(c, E_argument_type, at, 1, l->item->sym->s,
           arena_printf(c->a, "a tensor whose memory `%s` points to", p->sym->s), ent_text(c, e));
    return false;
}

static bool learn_tensor(Check *c, LaunchCall *l, const Node *p, Ent e, Span at) {
    const Node *type = p->kid[0];
    int rank = (int)type->nkid - 1;
    if (e.kind == EN_tensor && e.tensor->rank < 0) return true;       // a weight that nothing is known of yet
    if (e.kind != EN_tensor || e.tensor->view || e.tensor->rank != rank) {
        Diag *d = report(
            c, E_argument_type, at, 1, l->item->sym->s,
            arena_printf(c->a, "a tensor of %d dimension%s for `%s`", rank, rank == 1 ? "" : "s", p->sym->s),
            e.kind == EN_tensor ? arena_printf(c->a, e.tensor->view ? "a view" : "one of %d", e.tensor->rank)
                                : ent_text(c, e));
        diag_label(d, p->span, "declared here");
        if (e.kind == EN_tensor && e.tensor->view)
            diag_help(d, "a launch reads tensors in memory; a `fn` may be given a view");
        if (!rank && is_const(e)) diag_help(d, "a tensor of no dimensions is `full<f32>(1)`");
        return false;
    }
    if (!learn_elem(c, l, p, type->kid[0], e, at)) return false;
    for (int i = 0; i < rank; i++) {
        const Node *d = type->kid[1 + i];
        if (d->kind == N_name && !learn(c, l, d->sym, e.tensor->dim[i], at)) return false;
    }
    return true;
}

// A number in the type is as good as a name.
static bool fixed_dims(Check *c, const LaunchCall *l, const Node *p, Ent e, Span at) {
    const Node *type = p->kid[0];
    for (int i = 0; i < e.tensor->rank; i++) {
        const Node *d = type->kid[1 + i];
        if (d->kind != N_int || dims_compare(c, e.tensor->dim[i], ent_int(d->ival, d->span)) != DIMS_differ) continue;
        Diag *g = report(c, E_argument_type, at, 1, l->item->sym->s,
                         arena_printf(c->a, "%lld long along dimension %d for `%s`", (long long)d->ival, i, p->sym->s),
                         arena_printf(c->a, "%s", tensor_text(c, e.tensor)));
        diag_label(g, d->span, "declared here");
        return false;
    }
    return true;
}

// What the caller declares of the results binds what nothing else does.
static void learn_wanted(Check *c, LaunchCall *l) {
    const Node *ps = l->item->kid[1];
    int out = 0;
    for (uint32_t i = 0; ps && i < ps->nkid; i++) {
        const Node *p = ps->kid[i], *type = p->kid[0];
        if (!(p->flags & PARAM_OUT)) continue;
        const TensorRef *w = l->want[out++];
        if (!w || !type || type->kind != N_type_tensor || w->rank != (int)type->nkid - 1) continue;
        if (type->kid[0]->sym && is_generic(l->item, type->kid[0]->sym) && !launch_learned(l, type->kid[0]->sym, true)) {
            learn(c, l, type->kid[0]->sym, (Ent){.kind = EN_type, .elem = w->elem}, l->call->span);
        }
        for (int d = 0; d < w->rank; d++) {
            const Node *n = type->kid[1 + d];
            if (w->dim[d].kind != EN_void && n->kind == N_name && !launch_learned(l, n->sym, false)) learn(c, l, n->sym, w->dim[d], l->call->span);
        }
    }
}

bool launch_learn(Check *c, LaunchCall *l) {
    const Node *ps = l->item->kid[1];
    for (uint32_t i = 0; ps && i < ps->nkid; i++) {
        const Node *p = ps->kid[i], *type = p->kid[0];
        if (!type || p->flags & PARAM_OUT) continue;
        if (type->kind == N_type_tensor &&
            (!learn_tensor(c, l, p, l->arg[i], l->at[i]) || !fixed_dims(c, l, p, l->arg[i], l->at[i])))
            return false;
        if (type->kind == N_type_ptr && !learn_pointer(c, l, p, l->arg[i], l->at[i])) return false;
    }
    learn_wanted(c, l);
    return true;
}

// ---- numbers ----------------------------------------------------------------------------------------

// A scalar made of constants, as one.
static Ent folded(Check *c, const TExpr *x) {
    Ent a[3] = {{0}};
    switch ((TExprKind)x->kind) {
    case TX_const:
        return elem_is_float(x->type.elem) ? ent_float(x->fval, x->span)
               : x->type.elem == EL_bool   ? ent_bool(x->ival, x->span)
                                           : ent_int(x->ival, x->span);
    case TX_cast: case TX_unary: case TX_binary: case TX_fun: case TX_select: break;
    default: return ent_unknown();
    }
    for (uint32_t i = 0; i < x->nkid && i < 3; i++) {
        if (!x->kid[i]) continue;
        a[i] = folded(c, x->kid[i]);
        if (!is_const(a[i])) return ent_unknown();
    }
    Ent r = x->kind == TX_cast     ? a[0]
            : x->kind == TX_unary  ? fold_unary(c, (AstOp)x->op, a[0], x->span)
            : x->kind == TX_select ? a[0].i ? a[1] : a[2]
            : x->kind == TX_binary ? fold_binary(c, (AstOp)x->op, a[0], a[1], x->span)
                                   : fold_fun(c, (TFun)x->op, a, (int)x->nkid, x->span);
    Elem e = x->type.elem;
    if (elem_is_float(e) && (r.kind == EN_float || r.kind == EN_int))
        return ent_float(tx_const_float(c, r.kind == EN_int ? int_for_float(r.i, EL_i64, e) : r.f, e, x->span)->fval, x->span);
    if (elem_is_int(e) && r.kind == EN_float) return ent_unknown();
    return r;
}

bool launch_scalar(Check *c, Elem e, Ent v, Span at, bool open, TValue *out) {
    *out = (TValue){.tensor = -1, .elem = e};
    if (open && v.kind == EN_unknown) return true;
    TExpr *x = v.kind == EN_bool ? (e == EL_bool ? tx_const_int(c, v.i, EL_bool, at) : NULL)
                                 : value_exact(c, v, ttype_scalar(e), at, "the argument");
    if (!x) {
        if (v.kind == EN_bool) report(c, E_not_comptime, at, "a scalar argument of a test");
        return false;
    }
    Ent r = folded(c, x);
    if ((v.kind == EN_int || v.kind == EN_value) && elem_is_int(e)) out->row = v.row;         // binding checks its range
    else recipe_pin(c, v);
    if (r.kind == EN_float) out->fval = r.f;
    else if (r.kind == EN_int || r.kind == EN_bool) {
        out->ival = r.i;
        out->fval = (double)r.i;
    } else if (!open) {
        report(c, E_not_comptime, at, "a scalar argument of a test");
        return false;
    }
    return true;
}

// ---- the instance -----------------------------------------------------------------------------------

static void scalars_of(Check *c, const LaunchCall *l, const TKernel *k, Ent *scalar) {
    for (int i = 0; i < k->nparams; i++) {
        scalar[i] = ent_unknown();
        if (k->params[i].kind != PK_SCALAR || !elem_is_int(k->params[i].elem)) continue;
        Ent e = dims_settle(c, l->arg[i]);
        if (e.kind == EN_int || e.kind == EN_value) scalar[i] = e;
    }
}

// Where no tensor has a dimension alone, those that have it in an expression and the equations of `where` give it; then what
// the caller declares of the results.
static void solve_equations(Check *c, const LaunchCall *l, const TKernel *k, Ent *dim, const Ent *scalar) {
    for (int i = 0; i < k->nparams; i++) {
        const TTensor *t = k->tensor[i];
        bool given = t && t->mode != PM_OUT && l->arg[i].kind == EN_tensor && l->arg[i].tensor->rank == t->rank;
        for (int d = 0; given && d < t->rank; d++) dims_solve(c, t->dim[d], l->arg[i].tensor->dim[d], dim, scalar);
    }
    dims_solve_guards(c, k, dim, scalar);
    for (int i = 0, out = 0; i < k->nparams; i++) {
        const TTensor *t = k->tensor[i];
        const TensorRef *w = t && t->mode == PM_OUT ? l->want[out++] : NULL;
        for (int d = 0; w && w->rank == t->rank && d < t->rank; d++) dims_solve(c, t->dim[d], w->dim[d], dim, scalar);
    }
    dims_solve_guards(c, k, dim, scalar);
}

// `i32[B + 1]` of a tensor without elements.
static bool none_negative(Check *c, const LaunchCall *l, const TKernel *k, const Ent *dim) {
    for (int i = 0; i < k->ndims; i++) {
        if (dim[i].kind != EN_int || dim[i].i >= 0) continue;
        report(c, E_test_shape, l->call->span, arena_printf(c->a, "dimension `%s` of `%s` would be %lld", k->dims[i].name->s, k->name->s, (long long)dim[i].i));
        return false;
    }
    return true;
}

static void note_dims(Check *c, Diag *d, const TKernel *k, const Ent *dim) {
    for (int j = 0; j < k->ndims; j++) {
        if (dim[j].kind == EN_int || dim[j].kind == EN_value)
            diag_note(d, "%s = %s", k->dims[j].name->s, dims_text(c, dim[j]));
    }
}

static bool guards_hold(Check *c, const LaunchCall *l, const TKernel *k, const Ent *dim, const Ent *scalar) {
    for (int i = 0; i < k->nguards; i++) {
        const TExpr *g = k->guards[i].cond;
        bool equal = g->kind == TX_binary && g->op == OP_eq;
        Ent v = recipe_pin(c, dims_replace(c, g, &(Replaced){dim, scalar}));
        bool fails = v.kind == EN_int && !v.i;
        if (equal && v.kind == EN_value) {
            Ent a = dims_replace(c, g->kid[0], &(Replaced){dim, scalar}),
                b = dims_replace(c, g->kid[1], &(Replaced){dim, scalar});
            // a number by lack of a better one
            bool fixed = g->kid[0]->kind == TX_dim && k->dims[g->kid[0]->dim].fixed >= 0;
            fails = !fixed && dims_compare(c, a, b) == DIMS_differ;
        }
        if (!fails) continue;
        Diag *d = report(c, E_where_false, l->call->span, k->guards[i].text, k->name->s);
        note_dims(c, d, k, dim);
        return false;
    }
    return true;
}

// A parameter's dimension that is an expression: `x: f32[2 * D]`.
static bool exprs_hold(Check *c, const LaunchCall *l, const TKernel *k, const Ent *dim, const Ent *scalar) {
    for (int i = 0; i < k->nparams; i++) {
        const TTensor *t = k->tensor[i];
        if (!t || t->mode == PM_OUT || l->arg[i].kind != EN_tensor) continue;
        for (int d = 0; d < t->rank && l->arg[i].tensor->rank == t->rank; d++) {
            if (t->dim[d]->kind == TX_const || t->dim[d]->kind == TX_dim) continue;
            Ent want = dims_replace(c, t->dim[d], &(Replaced){dim, scalar});
            if (dims_compare(c, want, l->arg[i].tensor->dim[d]) != DIMS_differ) continue;
            Diag *g = report(
                c, E_argument_type, l->at[i], 1, k->name->s,
                arena_printf(c->a, "%s long along dimension %d for `%s`", dims_text(c, want), d, t->name->s),
                tensor_text(c, l->arg[i].tensor));
            note_dims(c, g, k, dim);
            return false;
        }
    }
    return true;
}

static int known_values(const LaunchCall *l, SemaValue *out, int32_t *row) {
    int n = 0;
    for (uint32_t i = 0; i < l->learned.n; i++) {
        const Learned *v = &l->learned.at[i];
        row[n] = v->e.kind == EN_int ? v->e.row : 0;
        if (v->e.kind == EN_type) out[n++] = (SemaValue){.name = v->name->s, .is_type = true, .elem = v->e.elem};
        else if (v->e.kind == EN_int) out[n++] = (SemaValue){.name = v->name->s, .ival = v->e.i};
    }
    return n;
}

static const TBinding *binding_of(const TKernel *k, Sym name) {
    for (int i = 0; i < k->nbindings; i++) {
        if (k->bindings[i].name == name) return &k->bindings[i];
    }
    return NULL;
}

static bool same_function(const SemaValue *a, const SemaValue *b) {
    if (!a->value || !b->value) return a->value == b->value;
    if (a->value->kind != b->value->kind) return false;
    if (a->value->kind == EN_lambda)
        return a->value->lambda->node == b->value->lambda->node && a->value->lambda->env == b->value->lambda->env;
    return a->value->kind == EN_fn ? a->value->fn == b->value->fn : a->value->builtin == b->value->builtin;
}

bool sema_same_function(const SemaValue *a, const SemaValue *b) {
    bool lambdas = a->value && b->value && a->value->kind == EN_lambda && b->value->kind == EN_lambda;
    return lambdas ? a->value->lambda->node == b->value->lambda->node : same_function(a, b);
}

void sema_keep_function(Session *s, SemaValue *v) {
    if (!v->value) return;
    Ent *value = NEW(session_arena(s), Ent);
    *value = *v->value;
    if (value->kind == EN_lambda) {                        // its node is all that is looked at again
        Lambda *l = NEW(session_arena(s), Lambda);
        l->node = value->lambda->node;
        value->lambda = l;
    }
    v->value = value;
}

static bool same_values(const SemaValue *a, const SemaValue *b, int n) {
    for (int i = 0; i < n; i++) {
        if (!same_function(&a[i], &b[i]) || strcmp(a[i].name, b[i].name) != 0 || a[i].is_type != b[i].is_type ||
            a[i].ival != b[i].ival || a[i].elem != b[i].elem)
            return false;
    }
    return true;
}

SemaValue *launch_values_kept(Arena *a, const SemaValue *v, int n) {
    SemaValue *kept = NEW_N(a, SemaValue, n + 1);
    for (int i = 0; i < n; i++) {
        kept[i] = v[i];
        if (!v[i].value) continue;
        Ent *value = NEW(a, Ent);
        *value = *v[i].value;
        kept[i].value = value;
    }
    return kept;
}

static int dim_of(const TKernel *k, const SemaValue *v) {
    for (int i = 0; i < k->ndims && !v->is_type; i++) if (strcmp(k->dims[i].name->s, v->name) == 0) return i;
    return -1;
}

// A known dimension that made no difference to the instance is none of its business.
static bool covers(const TKernel *k, const SemaValue *a, int na, const SemaValue *b, int nb) {
    for (int i = 0; i < na; i++) {
        int dim = dim_of(k, &a[i]);
        bool found = dim >= 0 && !k->reads[dim], alike = dim < 0 || !k->kinds[dim];
        for (int j = 0; j < nb; j++) {
            // whether it is 1, and what divides it
            alike = alike || (dim_of(k, &b[j]) == dim && recipe_kind(a[i].ival, k->kinds[dim]) == recipe_kind(b[j].ival, k->kinds[dim]));
            found = found || same_values(&a[i], &b[j], 1);
        }
        if (!found || !alike) return false;
    }
    return true;
}

TKernel *launch_cached(InstanceOf of) {
    SemaFile *f = of.file;
    Arena *a = session_arena(f->s);
    for (uint32_t i = 0; i < f->instances.n; i++) {
        const Instance *x = &f->instances.at[i];
        bool same = x->item == of.item && x->nset == of.nset && (!x->run || x->run == f->run) && same_values(x->set, of.set, of.nset);
        if (same && covers(x->kernel, x->known, x->nknown, of.known, of.nknown) &&
            covers(x->kernel, of.known, of.nknown, x->known, x->nknown))
            return x->kernel;
    }
    TKernel *k = sema_instance(of);
    if (!k) return NULL;
    int run = 0;
    for (int i = 0; i < of.nset; i++) if (of.set[i].value && of.set[i].value->kind == EN_lambda) run = f->run;
    Instance x = {.run = run,
                  .item = of.item,
                  .set = launch_values_kept(a, of.set, of.nset),
                  .nset = of.nset,
                  .known = launch_values_kept(a, of.known, of.nknown),
                  .nknown = of.nknown,
                  .kernel = k};
    vec_push(a, &f->instances, x);
    return k;
}

static TKernel *instance_of(Check *c, const LaunchCall *l, const SemaValue *known, int nknown) {
    const InstanceOf of = {c->file, l->item, l->set, l->nset, known, nknown};
    return l->item->kind == N_graph ? sema_graph_head(of) : launch_cached(of);
}

// Dimensions that follow from what was chosen (P == cdiv(N, BN), how many tiles there are) are others then than they were with the defaults.
static bool solved_anew(Check *c, const LaunchCall *l, const TKernel *k, const Ent *before, Ent *dim, const Ent *scalar) {
    Ent anew[MAX_DIMS];
    bool any = false;
    memcpy(anew, before, sizeof *anew * (size_t)k->ndims);
    solve_equations(c, l, k, anew, scalar);
    for (int i = 0; i < k->ndims; i++) {
        if (anew[i].kind != EN_int || dim[i].kind != EN_int || anew[i].i == dim[i].i) continue;
        dim[i] = anew[i];
        any = true;
    }
    return any;
}

// What the launch leaves open, decided for its dimensions by whoever knows the target. before: those that are known without any equation.
static TKernel *chosen_instance(Check *c, LaunchCall *l, TKernel *k, const Ent *before, Ent *dim, const Ent *scalar) {
    SemaValue known[2 * MAX_DIMS + 16], set[64 + MAX_CHOSEN];
    int32_t   row[2 * MAX_DIMS + 16] = {0};
    Schedule  given = *l->schedule;
    int n = 0;
    for (uint32_t i = 0; i < l->learned.n; i++) {
        const Learned *v = &l->learned.at[i];
        if (v->e.kind == EN_type) known[n++] = (SemaValue){.name = v->name->s, .is_type = true, .elem = v->e.elem};
    }
    for (int i = 0; i < k->ndims; i++) {
        if (dim[i].kind != EN_int) continue;
        row[n] = dim[i].row;
        known[n++] = (SemaValue){.name = k->dims[i].name->s, .ival = dim[i].i};
    }
    memcpy(set, l->set, sizeof *set * (size_t)l->nset);
    InstanceOf of = {c->file, l->item, l->set, l->nset, known, n};
    const SemaFile *f = c->file;
    int chosen = l->alone ? f->alone(f->alone_ctx, of, set + l->nset, l->schedule)
                          : f->chooser(f->chooser_ctx, of, set + l->nset, l->schedule);
    if (chosen >= 0)
        recipe_choice(c, &(TGChoice){.kernel = l->item,
                                     .set = l->set,
                                     .nset = l->nset,
                                     .known = known,
                                     .nknown = n,
                                     .row = row,
                                     .given = given,
                                     .schedule = *l->schedule,
                                     .chosen = set + l->nset,
                                     .nchosen = chosen});
    of.set = set;
    of.nset += chosen;
    TKernel *made = chosen < 0 ? NULL : chosen == 0 ? k : launch_cached(of);
    if (made && made != k && solved_anew(c, l, made, before, dim, scalar)) {
        for (int i = 0; i < n; i++) {
            int at = dim_of(made, &known[i]);
            if (at >= 0 && dim[at].kind == EN_int) known[i].ival = dim[at].i, row[i] = dim[at].row;
        }
        made = launch_cached(of);
    }
    if (made) recipe_instance(c, made, known, row, n);
    return made;
}

TKernel *launch_instance(Check *c, LaunchCall *l, Ent *dim) {
    SemaValue known[MAX_LEARNED];
    int32_t row[MAX_LEARNED];
    Ent few[MAX_PARAMS], *scalar = l->nparams > MAX_PARAMS ? NEW_N(c->a, Ent, l->nparams) : few;
    for (int run = 0; run < MAX_DIMS; run++) {
        int n = known_values(l, known, row);
        TKernel *k = instance_of(c, l, known, n);
        if (!k) return NULL;
        recipe_instance(c, k, known, row, n);
        scalars_of(c, l, k, scalar);
        for (int i = 0; i < k->ndims; i++) {
            dim[i] = ent_unknown();
            const Learned *v = launch_learned(l, k->dims[i].name, false);
            const TBinding *b = k->dims[i].fixed >= 0 ? binding_of(k, k->dims[i].name) : NULL;
            if (v) dim[i] = v->e;
            else if (b && b->origin != ORIGIN_FALLBACK) dim[i] = ent_int(k->dims[i].fixed, l->call->span);
        }
        Ent before[MAX_DIMS];
        memcpy(before, dim, sizeof *before * (size_t)k->ndims);
        solve_equations(c, l, k, dim, scalar);
        if (!none_negative(c, l, k, dim)) return NULL;
        bool again = false;                            // a stand-in was used for what `where` says
        for (int i = 0; i < k->ndims; i++) {
            if (k->dims[i].fixed < 0 || dim[i].kind != EN_int || launch_learned(l, k->dims[i].name, false)) continue;
            dim[i] = recipe_pin(c, dim[i]);
            if (dim[i].i == k->dims[i].fixed) continue;
            again = note_learned(c, l, k->dims[i].name, dim[i], l->call->span) || again;
        }
        if (again) continue;
        if (l->schedule && (l->alone ? c->file->alone : c->file->chooser)) k = chosen_instance(c, l, k, before, dim, scalar);
        return k && guards_hold(c, l, k, dim, scalar) && exprs_hold(c, l, k, dim, scalar) ? k : NULL;
    }
    return NULL;
}

Ent launch_dim(Check *c, const LaunchCall *l, const TExpr *x, const Ent *dim) {
    Ent scalar[MAX_PARAMS];
    for (int i = 0; i < l->nparams && i < MAX_PARAMS; i++)
        scalar[i] = l->arg[i].kind == EN_int || l->arg[i].kind == EN_value ? dims_settle(c, l->arg[i]) : ent_unknown();
    return dims_replace(c, x, &(Replaced){dim, scalar});
}

Ent launch_tuple(Check *c, const Ent *at, int n, Span span) {
    if (n == 0) return ent_void();
    if (n == 1) return at[0];
    Tuple *tuple = NEW(c->a, Tuple);
    tuple->n = n;
    tuple->at = NEW_N(c->a, Ent, n);
    memcpy(tuple->at, at, sizeof *at * (size_t)n);
    return (Ent){.kind = EN_tuple, .tuple = tuple, .span = span};
}
