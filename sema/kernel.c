// Instances. A kernel with its compile-time names resolved, its dimensions set up, its grid made and
// its body inlined is a TKernel.
//
//     head (kernel_names.c: `<>` names, dimensions)  ->  parameters  ->  where, grid  ->  body  ->  what was never solved
//
// Which dimensions must be numbers is found while the body is checked, so an instance may be run a few
// times: each run adds what the one before asked for (Check.fix).
#include "sema/kernel.h"

#include <string.h>

Check *check_new(SemaFile *f) {
    Arena *a = f->arena ? f->arena : session_arena(f->s);
    Check *c = NEW(a, Check);
    c->s = f->s;
    c->a = a;
    c->file = f;
    c->scope = f->scope;
    c->k = NEW(a, TKernel);
    return c;
}

// ---- parameters ------------------------------------------------------------------------------------------

static TExpr *dim_expr(Check *c, const Node *n, Ent *out) {
    Ent e = eval(c, n);
    *out = e;
    if (e.kind == EN_int) {
        if (e.dim > 0) return tx_dim(c, e.dim - 1, n->span);
        if (e.i < 0) {
            report(c, E_set_value, n->span, arena_printf(c->a, "%lld", (long long)e.i), "a dimension: none is negative");
            return NULL;
        }
        return tx_const_int(c, e.i, EL_index, n->span);
    }
    TExpr *x = scalar_index(c, e, n->span, "a dimension");
    if (!x) return NULL;
    x = tx_for_host(c, x);
    if (!tx_is_host(x)) {
        if (!tx_host_deep(c, x, n->span)) report(c, E_not_comptime, n->span, "a dimension of a kernel's tensor");
        return NULL;
    }
    int16_t dim = e.dim;
    *out = ent_value(x);
    out->dim = dim;
    return x;
}

static void tensor_param(Check *c, const Node *p, int i, LaunchParam *lp) {
    const Node *type = p->kid[0];
    TTensor *t = NEW(c->a, TTensor);
    TensorRef *ref = NEW(c->a, TensorRef);
    Ent e = {.kind = EN_tensor, .tensor = ref, .span = name_at(p)};
    *t = (TTensor){.param = i, .name = p->sym, .mode = lp->mode, .strided = lp->strided, .rank = (int)type->nkid - 1};
    *ref = (TensorRef){.t = t, .name = p->sym, .rank = t->rank, .elem_known = true};
    bool ok = eval_elem(c, type->kid[0], &t->elem);
    if (ok && t->elem == EL_index) {
        report(c, E_kernel_param, type->span, "of type `index`: say i32 or i64");
        ok = false;
    }
    if (t->rank > MAX_RANK) {
        report(c, E_too_many, type->span, item_word(c->item), MAX_RANK, "dimensions in a tensor");
        ok = false;
        t->rank = ref->rank = 0;
    }
    for (int k = 0; k < t->rank; k++) {
        ref->lo[k] = ent_int(0, type->span);
        if (type->kid[1 + k]->kind == N_colon) {
            diag_help(report(c, E_kernel_param, type->kid[1 + k]->span, "a tensor with an unnamed dimension"),
                      "give it a name: `%s[N]`", elem_name(t->elem));
            ok = false;
            continue;
        }
        t->dim[k] = dim_expr(c, type->kid[1 + k], &ref->dim[k]);
        ok = ok && t->dim[k];
    }
    ref->elem = t->elem;
    lp->kind = PK_TENSOR;
    lp->elem = t->elem;
    lp->rank = t->rank;
    c->k->tensor[i] = t;
    scope_bind(c, c->scope, p->sym, ok ? e : ent_error(c), name_at(p));
}

static void scalar_param(Check *c, const Node *p, int i, LaunchParam *lp) {
    const Node *type = p->kid[0];
    TType t = {0};
    Ent e = {.kind = EN_error};
    lp->kind = type->kind == N_type_ptr ? PK_POINTER : PK_SCALAR;
    if (type->kind == N_type_name && type->sym && !scope_find(c->scope, type->sym) &&
        !elem_by_name((Str){type->sym->s, type->sym->n}) &&
        (!strcmp(type->sym->s, "axis") || !strcmp(type->sym->s, "type") || !strcmp(type->sym->s, "fn") ||
         !strcmp(type->sym->s, "int") || !strcmp(type->sym->s, "float"))) {
        Diag *d = report(c, E_kernel_param, type->span, arena_printf(c->a, "of kind `%s`", type->sym->s));
        diag_help(d, "what is known at compile time stands in `<>`");
    } else if (eval_type(c, type, &t)) {
        if (t.elem == EL_index || (p->flags & (PARAM_OUT | PARAM_INOUT | PARAM_STRIDED))) {
            report(c, E_kernel_param, type->span,
                   t.elem == EL_index          ? "of type `index`: say i32 or i64"
                   : p->flags & PARAM_STRIDED ? "a scalar that is strided: that is said of tensors, `strided f32[N]`"
                                              : "a scalar that is written: declare a tensor of rank 0, `f32[]`");
        } else {
            TVar *v = var_new(c, p->sym, t, false, name_at(p));
            v->param = i;
            c->k->scalar[i] = v;
            e = ent_value(tx_var(c, v, name_at(p)));
        }
    }
    lp->elem = t.elem;
    scope_bind(c, c->scope, p->sym, e.kind == EN_error ? ent_error(c) : e, name_at(p));
}

static void bind_params(Check *c, const Node *kernel) {
    const Node *ps = kernel->kid[1];
    int n = ps ? (int)ps->nkid : 0;
    int most = kernel->kind == N_graph ? MAX_GRAPH_PARAMS : MAX_PARAMS;
    if (n > most) {
        report(c, E_too_many, ps->span, item_word(kernel), most, "parameters");
        n = most;
    }
    c->k->nparams = n;
    c->k->params = NEW_N(c->a, LaunchParam, n + 1);
    c->k->tensor = NEW_N(c->a, TTensor *, n + 1);
    c->k->scalar = NEW_N(c->a, TVar *, n + 1);
    for (int pass = 0; pass < 2; pass++) {             // scalars first: dimensions may be made of them
        for (int i = 0; i < n; i++) {
            const Node *p = ps->kid[i];
            LaunchParam *lp = &c->k->params[i];
            if (!p->sym) continue;
            lp->name = p->sym;
            lp->mode = p->flags & PARAM_OUT ? PM_OUT : p->flags & PARAM_INOUT ? PM_INOUT : PM_IN;
            lp->strided = p->flags & PARAM_STRIDED;
            bool tensor = p->kid[0] && p->kid[0]->kind == N_type_tensor;
            if (tensor != (pass == 1)) continue;
            Bind *b = scope_find_here(c->scope, p->sym);
            if (b && head_dim(c, p->sym) < 0) {
                Diag *d = report(c, E_redefined, name_at(p), p->sym->s);
                diag_label(d, b->span, "first here");
                continue;
            }
            if (tensor) tensor_param(c, p, i, lp);
            else if (p->kid[0] && p->kid[0]->kind != N_error_stmt) scalar_param(c, p, i, lp);
            else {
                if (!p->kid[0]) report(c, E_kernel_param, p->span, "without a type");
                scope_bind(c, c->scope, p->sym, ent_error(c), name_at(p));
            }
        }
    }
}

// ---- where, grid -------------------------------------------------------------------------------------------

// `H == N / 2` or `N == 2 * H`, where nothing else says what H is: it was meant to be defined.
static void undefined_in(Check *c, const Node *n, const Node *equation) {
    if (!n) return;
    for (uint32_t i = n->kind == N_call; i < n->nkid; i++) undefined_in(c, n->kid[i], equation);
    Ent e;
    if (n->kind != N_name || !n->sym || scope_find(c->scope, n->sym) || builtin_const(c, n->sym, n->span, &e)) return;
    Diag *d = report(c, E_unknown_name, n->span, n->sym->s);
    Str value = span_text(c->s, equation->kid[1]->span);
    if (n == equation->kid[0]) diag_help(d, "one sign defines it: `%s = %.*s`", n->sym->s, (int)value.n, value.p);
    else diag_help(d, "to define it, let it stand alone before one sign: `%s = ...`", n->sym->s);
    suggest_name(c, d, n->sym, n->span);
    scope_bind(c, c->scope, n->sym, ent_error(c), n->span);
}

// `B1 = B + 1`, where B1 is a tensor's and B nobody's: it was meant to define B.
static void turned_round(Check *c, const Node *w) {
    const Node *sum = w->kid[1];
    bool side = sum->kind == N_binary && (sum->op == OP_add || sum->op == OP_sub || sum->op == OP_mul) && sum->kid[0]->kind == N_name && sum->kid[1]->kind == N_int;
    if (!side || head_dim(c, w->kid[0]->sym) < 0 || scope_find(c->scope, sum->kid[0]->sym)) return;
    Sym name = sum->kid[0]->sym;
    Diag *d = report(c, E_unknown_name, sum->kid[0]->span, name->s);
    diag_help(d, "`%s` is a tensor's dimension; turned round, the equation defines `%s`: `%s = %s %s %lld`", w->kid[0]->sym->s, name->s, name->s, w->kid[0]->sym->s,
              sum->op == OP_add ? "-" : sum->op == OP_sub ? "+" : "/", (long long)sum->kid[1]->ival);
    scope_bind(c, c->scope, name, ent_error(c), sum->kid[0]->span);
}

static void check_where(Check *c, const Node *kernel, bool *solved) {
    const Node *list = kernel->kid[2];
    for (uint32_t i = 0; list && i < list->nkid; i++) {
        const Node *w = list->kid[i];
        Span at = w->span;
        Ent e;
        if (w->kind == N_binary && w->op == OP_eq && !head_equation(w)) undefined_in(c, w, w);
        if (head_equation(w)) {
            Sym name = w->kid[0]->sym;
            turned_round(c, w);
            Ent value = eval(c, w->kid[1]);
            Bind *b = scope_find_here(c->scope, name);
            if (!b) {                                 // a name for an expression
                scope_bind(c, c->scope, name, value, at);
                continue;
            }
            int dim = head_dim(c, name);
            b->used = true;
            if (dim >= 0) solved[dim] = true, c->dim_uses.at[dim]++;
            Ent left = dim >= 0 ? ent_value(tx_dim(c, dim, at)) : b->ent;
            e = binary(c, OP_eq, left, value, at, at, at);
        } else {
            e = eval(c, w);
        }
        Str text = span_text(c->s, at);
        if (e.kind == EN_bool && !e.i) {
            Diag *d = report(c, E_where_false, at, arena_printf(c->a, "%.*s", (int)text.n, text.p), c->k->name->s);
            note_values(c, d);
        }
        TExpr *cond;
        if (e.kind == EN_bool || !cond_of(c, e, at, "a `where` clause", NULL, &cond)) continue;
        cond = tx_for_host(c, cond);
        if (tx_host_deep(c, cond, at)) continue;
        if (!tx_is_host(cond)) {
            Diag *d = report(c, E_grid_range, at, "a condition of `where`");
            diag_help(d, "the host computes it, of dimensions and integer parameters: by `+ - * / %%`, comparisons, choices, `min`, `max`, `abs`, `cdiv`");
            continue;
        }
        guard_add(c, cond, arena_printf(c->a, "%.*s (%s)", (int)text.n, text.p, place_text(c, at)), at);
    }
}

static bool reads_memory(const TExpr *x) {
    bool reads = x->kind == TX_load;
    for (uint32_t i = 0; i < x->nkid; i++) reads = reads || reads_memory(x->kid[i]);
    return reads;
}

static void grid_range(Check *c, Span at, const TExpr *lo, const TExpr *hi) {
    Diag *d = report(c, E_grid_range, at, "the bounds of a grid clause");
    if (reads_memory(lo) || reads_memory(hi))
        diag_help(d, "how many programs run is decided before any of them reads memory: let the program loop, `for n in off[g] .. off[g + 1] by B { ... }`, "
                     "or let the grid go as far as can be and the program ask, `if i < count[0] { ... }`");
    else diag_help(d, "the host computes them, of dimensions and integer parameters: by `+ - * / %%`, comparisons, choices, `min`, `max`, `abs`, `cdiv`");
}

static void check_grid(Check *c, const Node *kernel) {
    const Node *list = kernel->kid[3];
    int n = list ? (int)list->nkid : 0;
    c->k->grid = NEW_N(c->a, TGrid, n + 1);
    for (int i = 0; i < n; i++) {
        const Node *k = list->kid[i];
        Range r;
        if (!k->sym) continue;
        if (!k->kid[0] || !range_eval(c, k->kid[0], &r)) {
            scope_bind(c, c->scope, k->sym, ent_error(c), name_at(k));
            continue;
        }
        TExpr *lo = r.lo.kind == EN_int ? tx_const_int(c, r.lo.i, EL_index, r.span) : r.lo.x;
        TExpr *hi = r.hi.kind == EN_int ? tx_const_int(c, r.hi.i, EL_index, r.span) : r.hi.x;
        lo = tx_for_host(c, lo), hi = tx_for_host(c, hi);
        if (!tx_is_host(lo) || !tx_is_host(hi)) {
            if (!tx_host_deep(c, lo, r.span) && !tx_host_deep(c, hi, r.span))
                grid_range(c, r.span, lo, hi);
            scope_bind(c, c->scope, k->sym, ent_error(c), name_at(k));
            continue;
        }
        TGrid *g = &c->k->grid[c->k->ngrid++];
        *g = (TGrid){.lo = lo, .hi = hi, .step = r.by ? r.step : 1};
        g->var = var_new(c, k->sym, ttype_scalar(EL_index), false, name_at(k));
        counter_bounds(c, g->var, lo, hi);
        Ent e = ent_value(tx_var(c, g->var, name_at(k)));
        if (r.by) {
            g->axis = axis_new(c, k->sym, r.step, e.x, hi, r.span);
            if (lo->kind == TX_const && hi->kind == TX_const && (hi->ival - lo->ival) % r.step == 0) g->axis->full = true;
            e = (Ent){.kind = EN_axis, .axis = g->axis, .span = name_at(k)};
        }
        Bind *b = scope_find_here(c->scope, k->sym);
        if (b) {
            Diag *d = report(c, E_redefined, name_at(k), k->sym->s);
            diag_label(d, b->span, "first here");
        }
        scope_bind(c, c->scope, k->sym, e, name_at(k));
    }
}

// ---- the run -----------------------------------------------------------------------------------------------

static bool stands_in(const Node *n, Sym name) {
    bool found = n && n->kind == N_name && n->sym == name;
    for (uint32_t i = 0; n && i < n->nkid && !found; i++) found = stands_in(n->kid[i], name);
    return found;
}

// Is it a dimension of one of the file's graphs, too? Then it is no misspelling.
static bool graph_has(const SemaFile *f, Sym name) {
    for (uint32_t i = 0; i < f->graphs.n; i++) {
        const Node *ps = f->graphs.at[i]->kid[1];
        for (uint32_t p = 0; ps && p < ps->nkid; p++) {
            const Node *t = ps->kid[p]->kid[0];
            for (uint32_t j = 1; t && t->kind == N_type_tensor && j < t->nkid; j++)
                if (stands_in(t->kid[j], name)) return true;
        }
    }
    return false;
}

// `N == 3 * name`, either way round: N and 3.
static Sym multiple(const Node *kernel, Sym name, int64_t *times) {
    const Node *list = kernel->kid[2];
    for (uint32_t i = 0; list && i < list->nkid; i++)
        for (int a = 0; list->kid[i]->kind == N_binary && list->kid[i]->op == OP_eq && a < 2; a++) {
            const Node *whole = list->kid[i]->kid[a], *product = list->kid[i]->kid[!a];
            if (whole->kind != N_name || product->kind != N_binary || product->op != OP_mul) continue;
            for (int k = 0; k < 2; k++)
                if (product->kid[k]->kind == N_name && product->kid[k]->sym == name && product->kid[!k]->kind == N_int && product->kid[!k]->ival > 0) {
                    *times = product->kid[!k]->ival;
                    return whole->sym;
                }
        }
    return NULL;
}

static void unsolved_dims(Check *c, const Node *kernel, const bool *solved, bool warn) {
    for (int i = 0; i < c->k->ndims; i++) {
        if (solved[i]) {
            Bind *b = scope_find_here(c->scope, c->k->dims[i].name);
            if (!warn || c->dim_uses.at[i] > 1 || (b && b->used) || c->dim_seen.at[i] || graph_has(c->file, c->k->dims[i].name)) continue;
            Diag *d = report(c, E_dim_once, c->dim_span[i].hi ? c->dim_span[i] : name_at(kernel), c->k->dims[i].name->s);
            diag_help(
                d, "a misspelt name makes a new dimension; one that is meant may stand in `where`: `where %s <= 1024`",
                c->k->dims[i].name->s);
            continue;
        }
        const char *name = c->k->dims[i].name->s;
        int64_t times = 0;
        Sym whole = kernel->kind == N_kernel ? multiple(kernel, c->k->dims[i].name, &times) : NULL;
        Diag *d = report(c, E_dim_unsolved, c->dim_span[i].hi ? c->dim_span[i] : name_at(kernel), name);
        if (kernel->kind == N_graph)
            diag_help(
                d,
                "a result's dimensions are those of the parameters, or made of them: `-> (y: f32[2 * N])`, `where M = 2 * N`");
        else if (whole)
            diag_help(d, "`where` defines it by one sign: `where %s = %s / %lld, %s %% %lld == 0`", name, whole->s, (long long)times, whole->s, (long long)times);
        else
            diag_help(d, "let it stand alone in a tensor's type, or with a number added, or define it by a name that does: not `p: i32[2 * %s]` "
                         "but `p: i32[%s2]` and `where %s = %s2 / 2`; or say what it is: `<%s = 128>`", name, name, name, name, name);
    }
}

// Is p only changed by atomics: `atomic_add(p[i], v)`? Another use of its name, and it is not.
static bool only_atomics(const Node *n, Sym p, int *atomics) {
    if (!n) return true;
    if (n->kind == N_name && n->sym == p) return false;
    bool atomic = n->kind == N_call && n->kid[0] && n->kid[0]->kind == N_name &&
                  strncmp(n->kid[0]->sym->s, "atomic_", 7) == 0;
    for (uint32_t i = 0; i < n->nkid; i++) {
        const Node *k = n->kid[i];
        bool place = atomic && i == 3 && k && k->kind == N_index && k->kid[0]->kind == N_name && k->kid[0]->sym == p;
        *atomics += place;
        for (uint32_t j = 1; place && j < k->nkid; j++) if (!only_atomics(k->kid[j], p, atomics)) return false;
        if (!place && !only_atomics(k, p, atomics)) return false;
    }
    return true;
}

static void unwritten(Check *c, const Node *kernel) {
    const Node *ps = kernel->kid[1];
    for (uint32_t i = 0; ps && i < ps->nkid; i++) {
        const Node *p = ps->kid[i];
        int atomics = 0;
        if (!p->sym || !(p->flags & PARAM_OUT) || !only_atomics(kernel->kid[4], p->sym, &atomics)) continue;
        Diag *d = report(c, E_never_stored, name_at(p), p->sym->s,
                         atomics ? "only atomics change it" : "nothing is stored to it");
        if (atomics) diag_help(d, "it holds anything before a launch; `inout` takes what the caller has put there");
        else diag_help(d, "what it holds after a launch is left over from before");
    }
}

static void dim_spans(Check *c, const Node *n) {
    if (!n) return;
    if (n->kind == N_name) {
        int i = head_dim(c, n->sym);
        if (i >= 0 && c->dim_span[i].hi == 0) c->dim_span[i] = n->span;
    }
    for (uint32_t i = 0; i < n->nkid; i++) dim_spans(c, n->kid[i]);
}

// A kernel's head: names, dimensions, parameters and conditions, in a scope of their own. `numbers`: every dimension is
// to be one (a graph that is about to run).
Check *head_open(InstanceOf of, bool *solved, const Check *last, bool numbers) {
    SemaFile *f = of.file;
    const Node *item = of.item;
    Check *c = check_new(f);
    c->set = of.set;
    c->nset = of.nset;
    c->known = of.known;
    c->nknown = of.nknown;
    c->body = &c->k->body;
    c->k->name = item->sym;
    c->k->span = name_at(item);
    c->k->decl = c->item = item;
    c->scope = scope_new(c, item_scope(f, item));
    head_collect_dims(c, item, solved);
    c->dim_span = NEW_N(c->a, Span, c->k->ndims + 1);
    dim_spans(c, item->kid[1]);
    for (int i = 0; i < c->k->ndims; i++) {
        vec_push(c->a, &c->fix, numbers || (last && (uint32_t)i < last->fix.n && last->fix.at[i]));
        vec_push(c->a, &c->dim_seen, false);
        if (c->dim_uses.n <= (uint32_t)i) vec_push(c->a, &c->dim_uses, 0);
    }
    head_check_set(c, item);
    head_generics(c, item, solved);
    head_unit_dims(c, item);
    head_bind_dims(c, item);
    bind_params(c, item);
    if (item->kind != N_graph) {
        head_odd_dims(c);
        head_lengths(c);
    }
    for (int i = 0; i < c->k->ndims; i++) {            // standing in a type is no use
        Bind *b = scope_find_here(c->scope, c->k->dims[i].name);
        if (b) b->used = false;
    }
    check_where(c, item, solved);
    return c;
}

// A graph's results may have sizes that only the equations of `where` give.
static void solve_by_equations(Check *c, bool *solved) {
    Ent *dim = NEW_N(c->a, Ent, c->k->ndims + 1);
    for (int i = 0; i < c->k->ndims; i++)
        dim[i] = solved[i] || c->k->dims[i].fixed >= 0 ? ent_value(tx_dim(c, i, c->k->span)) : ent_unknown();
    dims_solve_guards(c, c->k, dim, NULL);
    for (int i = 0; i < c->k->ndims; i++) solved[i] = dim[i].kind != EN_unknown;
}

void head_close(Check *c, const Node *item, bool *solved, bool warn) {
    c->k->guards = c->guards.at;
    c->k->nguards = (int)c->guards.n;
    if (item->kind == N_graph) solve_by_equations(c, solved);
    unsolved_dims(c, item, solved, warn);
    if (warn && item->kind == N_kernel) unwritten(c, item);
}

static Check *run_kernel(InstanceOf of, const Check *last) {
    SemaFile *f = of.file;
    const Node *kernel = of.item;
    bool *solved = NEW_N(session_arena(f->s), bool, MAX_DIMS + 1);
    int errors = diag_errors(f->s);
    Check *c = head_open(of, solved, last, false);
    check_grid(c, kernel);
    check_block(c, kernel->kid[4]);
    head_close(c, kernel, solved, diag_errors(c->s) == errors);
    if (diag_errors(c->s) == errors) check_places(c);
    return c;
}

TKernel *sema_instance(InstanceOf of) {
    SemaFile *f = of.file;
    const Node *kernel = of.item;
    if (!kernel || !kernel->sym) return NULL;
    int before = diag_count(f->s), errors = diag_errors(f->s);
    Check *c = NULL;
    for (int run = 0; run <= MAX_DIMS; run++) {
        c = run_kernel(of, c);
        if (!c->again) break;
        diag_forget(f->s, before);
    }
    // the parser, or another instance, has said it
    if (diag_errors(f->s) > errors || (c->failed && errors)) return NULL;
    if (c->failed) ice("kernel %s: something is wrong, and nothing was said", kernel->sym->s);
    return c->k;
}

// Kernels whose compile-time names all have values of their own.
static bool has_defaults(const Node *kernel) {
    const Node *gs = kernel->kid[0];
    for (uint32_t i = 0; gs && i < gs->nkid; i++) {
        if (!gs->kid[i]->kid[1]) return false;
    }
    return true;
}

static void check_defaults(SemaFile *f, const Node *item) {
    if (item->kind == N_kernel && has_defaults(item)) sema_instance((InstanceOf){.file = f, .item = item});
}

void sema_check_imported(SemaFile *f) {
    for (uint32_t i = 0; i < f->imported.n; i++) check_defaults(f, f->imported.at[i].node);
}

void sema_check(SemaFile *f) {
    for (uint32_t i = 0; i < f->kernels.n; i++) check_defaults(f, f->kernels.at[i]);
    sema_check_imported(f);
    sema_check_graphs(f);
    sema_check_tunes(f);
    sema_check_names(f);
}
