// `graph` items: a body is run here, at compile time. What is left are values and launches (graph.h).
//
// A graph is checked once with its dimensions as symbols, and run again with numbers for each set of sizes that
// it is used with. Values are immutable; a `var` is a name that may be given to another value, so that a loop of
// layers can be written, and is unrolled:
//
//     var h = embed(ids, weight("wte"));
//     for i in 0 .. 12 { h = layer<I = i>(h); }
//
// An `if` or a loop that depends on a dimension is decided by numbers. Until there are some, both branches, and one trip, are checked;
// of what they assign is known what is the same either way, its type, or nothing.
#include "sema/graphitem.h"

#include <string.h>

static void statements(Grapher *g, const Node *block);

// ---- expressions -------------------------------------------------------------------------------------

static Result *result_named(Grapher *g, Sym name);

// A result has a value from its assignment on; until then its name is that of a parameter.
static bool too_early(Grapher *g, const Node *n) {
    const Bind *b = n->kind == N_name ? scope_find(g->c->scope, n->sym) : NULL;
    const Result *r = b ? result_named(g, n->sym) : NULL;
    if (!r || r->value.kind != EN_void || b->span.lo != name_at(r->param).lo) return false;
    Diag *d = report(g->c, E_result_missing, n->span, n->sym->s, g->level->item->sym->s);
    diag_label(d, b->span, "declared here");
    diag_help(d, "it can be read from its assignment on");
    return true;
}

static bool same_type(Grapher *g, Ent a, Ent b) {
    bool same = a.kind == EN_tensor && b.kind == EN_tensor && a.tensor->elem == b.tensor->elem && a.tensor->rank == b.tensor->rank && a.tensor->rank >= 0;
    for (int i = 0; same && i < a.tensor->rank; i++) same = dims_compare(g->c, a.tensor->dim[i], b.tensor->dim[i]) == DIMS_same;
    return same;
}

// A choice that numbers make, until there are some: of two values, what both are. False: it is one of numbers.
static bool undecided_choice(Grapher *g, const Node *n, const TensorRef *const *want, int nwant, Ent *to) {
    g->undecided++;
    Ent a = graph_eval(g, n->kid[1], want, nwant);
    bool values = a.kind == EN_tensor || a.kind == EN_tuple || a.kind == EN_error;
    if (values) {
        Ent b = graph_eval(g, n->kid[2], want, nwant);
        *to = same_type(g, a, b) ? a : ent_error(g->c);
    }
    g->undecided--;
    return values;
}

Ent graph_eval(Grapher *g, const Node *n, const TensorRef *const *want, int nwant) {
    Check *c = g->c;
    if (!n || too_early(g, n)) return ent_error(c);
    if (n->kind == N_call) return graph_call(g, n, (Schedule){0}, want, nwant);
    if (n->kind == N_with && n->kid[0]->kind == N_call) {
        Schedule s = {0};
        c->pinning++;
        bool fine = launch_schedule(c, n, &s);
        c->pinning--;
        if (!fine) return ent_error(c);
        return graph_call(g, n->kid[0], s, want, nwant);
    }
    if (n->kind == N_index) {
        Ent v = graph_eval(g, n->kid[0], NULL, 0);
        return v.kind == EN_error ? v : graph_index(g, v, n);
    }
    if (n->kind == N_tuple) {
        Tuple *tuple = NEW(c->a, Tuple);
        tuple->n = (int)n->nkid;
        tuple->at = NEW_N(c->a, Ent, n->nkid + 1);
        for (uint32_t i = 0; i < n->nkid; i++)
            tuple->at[i] = graph_eval(g, n->kid[i], (int)i < nwant ? want + i : NULL, (int)i < nwant);
        return (Ent){.kind = EN_tuple, .tuple = tuple, .span = n->span};
    }
    if (n->kind == N_ternary) {
        Ent cond = recipe_pin(c, dims_settle(c, eval(c, n->kid[0])));
        Ent e;
        if (cond.kind == EN_bool || cond.kind == EN_int) return graph_eval(g, n->kid[cond.i ? 1 : 2], want, nwant);
        if (!g->numbers && cond.kind != EN_error && undecided_choice(g, n, want, nwant, &e)) return e;
    }
    Ent e = dims_settle(c, eval(c, n));
    if (e.kind != EN_tensor || !e.tensor->view) return e;
    Diag *d = report(c, E_graph_statement, n->span, "a function with a domain");
    diag_help(d, "a graph's values are tensors in memory; `reshape`, `slice` and `x[0]` see them with another shape");
    return ent_error(c);
}

// ---- let, var, assignment -----------------------------------------------------------------------------

static void called(Grapher *g, Ent e, Sym name) {
    if (e.kind != EN_tensor || !name) return;
    TGValue *v = graph_value_of(g, e);
    if (!v->name) v->name = name;
    if (v->kind != TG_weight || e.tensor->rank >= 0) e.tensor->name = name;
}

static Bind *bind_value(Grapher *g, const Node *name, Ent e) {
    Check *c = g->c;
    if (name->sym->n == 1 && name->sym->s[0] == '_') return NULL;
    if (e.kind == EN_void) {
        report(c, E_not_value, name_at(name), "nothing");
        e = ent_error(c);
    }
    called(g, e, name->sym);
    return scope_bind(c, c->scope, name->sym, e, name_at(name));
}

// What a name is declared as: NULL without a type.
static bool declared(Grapher *g, const Node *type, const TensorRef **want) {
    *want = NULL;
    if (!type || type->kind != N_type_tensor) return true;
    TensorRef *t = NEW(g->c->a, TensorRef);
    if (!graph_type(g, type, t)) return false;
    *want = t;
    return true;
}

static Ent as_declared(Grapher *g, const Node *name, const Node *type, const TensorRef *want, Ent e, Span at) {
    Check *c = g->c;
    if (!type || e.kind == EN_error) return e;
    if (want) return graph_fits(g, e, want, "", name->sym, at, type->span) ? e : ent_error(c);
    TType t;
    e = recipe_pin(c, e);                                        // it must fit
    TExpr *x = eval_type(c, type, &t) ? value_exact(c, e, t, at, arena_printf(c->a, "`%s`", name->sym->s)) : NULL;
    return x ? e : ent_error(c);
}

static void let_names(Grapher *g, const Node *whole, bool mutable) {
    const Node *value = whole->kid[0];
    Node *const *names = whole->kid + 1;
    int n = (int)whole->nkid - 1;
    Check *c = g->c;
    const TensorRef **want = NEW_N(c->a, const TensorRef *, n + 1);
    bool fine = true;
    for (int i = 0; i < n; i++) fine = declared(g, declared_type(names[i]), &want[i]) && fine;
    Ent e = ent_error(c);
    if (fine && value->kind == N_range) report(c, E_graph_statement, value->span, "an axis");
    else if (fine) e = graph_eval(g, value, want, n);
    bool fits = n == 1 ? e.kind != EN_tuple : e.kind == EN_tuple && e.tuple->n == n;
    if (!fits && e.kind != EN_error) {
        int have = e.kind == EN_tuple ? e.tuple->n : e.kind == EN_void ? 0 : 1;
        report(c, E_tuple_count, whole->span, n, n == 1 ? "" : "s", have, have == 1 ? "" : "s");
    }
    for (int i = 0; i < n; i++) {
        Ent one = !fits ? ent_error(c) : n == 1 ? e : e.tuple->at[i];
        Bind *b = bind_value(g, names[i], as_declared(g, names[i], declared_type(names[i]), want[i], one, value->span));
        if (b && mutable) vec_push(c->a, &g->vars, b);
    }
}

static Result *result_named(Grapher *g, Sym name) {
    for (int i = 0; i < g->level->nresults; i++) {
        if (g->level->results[i].name == name) return &g->level->results[i];
    }
    return NULL;
}

static bool is_var(const Grapher *g, const Bind *b) {
    for (uint32_t i = 0; i < g->vars.n; i++) {
        if (g->vars.at[i] == b) return true;
    }
    return false;
}

static void assign_one(Grapher *g, const Node *target, Ent e, Span value) {
    Check *c = g->c;
    Result *r = target->kind == N_name ? result_named(g, target->sym) : NULL;
    Bind *b = target->kind == N_name ? scope_find(c->scope, target->sym) : NULL;
    if (e.kind == EN_void) {
        report(c, E_not_value, value, "nothing");
        e = ent_error(c);
    }
    if (b && is_var(g, b)) {
        called(g, e, b->name);
        b->ent = g->undecided && !same_type(g, b->ent, e) ? ent_error(c) : e;
        return;
    }
    if (!r) {
        if (target->kind == N_name && !b) name_lookup(c, target);
        else if (b && b->ent.kind != EN_error) {
            Diag *d = report(c, E_assign_const, target->span, target->sym->s);
            diag_label(d, b->span, "declared here");
            diag_help(d, "values do not change; declare the name with `var` to give it to another one");
        } else if (!b)
            diag_help(report(c, E_graph_statement, target->span, "a store"),
                      "values do not change, and are assigned whole: `y = ...;`");
        return;
    }
    if (r->value.kind != EN_void && !g->undecided) {
        Diag *d = report(c, E_result_twice, target->span, r->name->s);
        diag_label(d, r->where, "first here");
        return;
    }
    if (e.kind == EN_tensor && !graph_fits(g, e, r->want, "", r->name, value, r->param->span)) e = ent_error(c);
    else if (e.kind != EN_tensor && e.kind != EN_error) {
        report(c, E_graph_type, value, arena_printf(c->a, "`%s`", r->name->s), ent_text(c, e), tensor_text(c, r->want));
        e = ent_error(c);
    }
    if (g->undecided) e = ent_error(c);
    called(g, e, r->name);
    r->value = e;
    r->where = target->span;
    scope_bind(c, c->scope, r->name, e, target->span)->used = true;
}

static void assign(Grapher *g, const Node *n) {
    Check *c = g->c;
    const Node *t = n->kid[0];
    Node *const *targets = t->kind == N_list ? t->kid : &n->kid[0];
    int count = t->kind == N_list ? (int)t->nkid : 1;
    const TensorRef **want = NEW_N(c->a, const TensorRef *, count + 1);
    if (n->op != OP_none) {
        Diag *d = report(c, E_graph_statement, n->span, "an update");
        diag_help(d, "values do not change: launch a kernel that makes the new one");
        return;
    }
    for (int i = 0; i < count; i++) {
        const Result *r = targets[i]->kind == N_name ? result_named(g, targets[i]->sym) : NULL;
        want[i] = r ? r->want : NULL;
    }
    Ent e = graph_eval(g, n->kid[1], want, count);
    bool fits = count == 1 ? e.kind != EN_tuple : e.kind == EN_tuple && e.tuple->n == count;
    if (!fits && e.kind != EN_error) {
        int have = e.kind == EN_tuple ? e.tuple->n : e.kind == EN_void ? 0 : 1;
        report(c, E_tuple_count, n->span, count, count == 1 ? "" : "s", have, have == 1 ? "" : "s");
    }
    for (int i = 0; i < count; i++)
        assign_one(g, targets[i], !fits ? ent_error(c) : count == 1 ? e : e.tuple->at[i], n->kid[1]->span);
}

// ---- control ------------------------------------------------------------------------------------------

static void loop(Grapher *g, const Node *n, uint32_t clause) {
    Check *c = g->c;
    const Node *list = n->kid[0];
    if (clause == list->nkid) {
        statements(g, n->kid[2]);
        return;
    }
    const Node *k = list->kid[clause];
    Range r;
    if (!k->kid[0] || !range_open(c, k->kid[0], &r)) return;
    Ent lo = recipe_pin(c, dims_settle(c, r.lo)), hi = recipe_pin(c, dims_settle(c, r.hi));
    bool numbers = lo.kind == EN_int && hi.kind == EN_int;
    if (!numbers && g->numbers) {
        report(c, E_not_comptime, r.span, "a bound of a graph's loop");
        return;
    }
    Scope *was = scope_push(c);
    g->undecided += !numbers;
    for (int64_t i = numbers ? lo.i : 0, end = numbers ? hi.i : 1, step = r.by ? r.step : 1;
         i < end && diag_errors(c->s) < 50; i += step) {
        if (c->too_big) break;
        if (++g->unrolled > limit_of(LIMIT_unrolled)) {
            too_big(c, r.span, LIMIT_unrolled, "trips of loops");
            break;
        }
        c->scope = scope_new(c, was);
        scope_bind(c, c->scope, k->sym, numbers ? ent_int(i, name_at(k)) : ent_unknown(), name_at(k))->used = true;
        loop(g, n, clause + 1);
    }
    g->undecided -= !numbers;
    scope_pop(c, was);
}

static void branch(Grapher *g, const Node *n) {
    Check *c = g->c;
    Ent e = recipe_pin(c, dims_settle(c, eval(c, n->kid[0])));
    if (e.kind == EN_error) return;
    if (e.kind == EN_bool || e.kind == EN_int) {
        statements(g, n->kid[e.i ? 1 : 2]);
        return;
    }
    if (g->numbers) {
        report(c, E_graph_statement, n->kid[0]->span, "a condition that is not known before the graph runs");
        return;
    }
    g->undecided++;
    statements(g, n->kid[1]);
    statements(g, n->kid[2]);
    g->undecided--;
}

// The file of the statement, beside which the weights stand.
static void weights(Grapher *g, const Node *n) {
    Check *c = g->c;
    const char *path = span_where(c->s, n->span.lo).src->path, *slash = strrchr(path, '/');
    bool absolute = n->str.n && n->str.p[0] == '/';
    int dir = slash && !absolute ? (int)(slash - path) + 1 : 0;
    if (g->level->nfiles == MAX_FILES) report(c, E_too_many, n->span, "graph", MAX_FILES, "`weights`");
    else
        g->level->file[g->level->nfiles++] =
            sym(c->s, arena_printf(c->a, "%.*s%.*s", dir, path, (int)n->str.n, n->str.p))->s;
}

// Was the launch made for what it does to state?
static bool all_state(const Grapher *g, Ent e) {
    bool all = e.kind == EN_void || e.kind == EN_error || (e.kind == EN_tensor && graph_in_state(g, e.tensor->t->param));
    for (int i = 0; e.kind == EN_tuple && i < e.tuple->n; i++)
        all = i == 0 ? all_state(g, e.tuple->at[i]) : all && all_state(g, e.tuple->at[i]);
    return all;
}

static void statement(Grapher *g, const Node *n) {
    switch ((NodeKind)n->kind) {
    case N_let: let_names(g, n, false); return;
    case N_var: let_names(g, n, true); return;
    case N_assign: assign(g, n); return;
    case N_expr_stmt: {
        Ent e = graph_eval(g, n->kid[0], NULL, 0);
        if (!all_state(g, e) && !g->numbers) report(g->c, E_graph_unused, n->span, "the result of this launch");
        return;
    }
    case N_for:
        if (n->kid[1]) report(g->c, E_graph_statement, n->kid[1]->span, "`merge`");
        else loop(g, n, 0);
        return;
    case N_if: branch(g, n); return;
    case N_block: statements(g, n); return;
    case N_weights: weights(g, n); return;
    case N_error_stmt: g->bad = g->c->lost = true; return;
    default: break;
    }
    Diag *d = report(g->c, E_graph_statement, n->span, "this statement has no meaning");
    if (n->kind == N_return)
        diag_help(d, "results have names, and are assigned: `%s = ...;`",
                  g->level->nresults ? g->level->results[0].name->s : "y");
    else
        diag_help(
            d,
            "a graph has `weights`, `let`, `var`, launches, assignments to its results, and `if` and `for` on what is known at compile time");
}

static void report_unused(Grapher *g, const Scope *sc) {
    for (const Bind *b = sc->first; b; b = b->next) {
        if (!b->used && b->ent.kind == EN_tensor && b->name->s[0] != '_')
            report(g->c, E_graph_unused, b->span, arena_printf(g->c->a, "`%s`", b->name->s));
    }
}

static void statements(Grapher *g, const Node *block) {
    Check *c = g->c;
    if (!block) return;
    if (block->kind != N_block) {
        statement(g, block);
        return;
    }
    Scope *was = g->level->results && block == g->level->item->kid[4] ? c->scope : scope_push(c);
    for (uint32_t i = 0; i < block->nkid; i++) {
        if (block->kid[i]) statement(g, block->kid[i]);
    }
    if (!g->numbers && !g->level->up) report_unused(g, c->scope);
    scope_pop(c, was);
}

// ---- items --------------------------------------------------------------------------------------------

// A level for the graph, its results declared in the current scope.
Level *graph_level(Grapher *g, const Node *item) {
    Check *c = g->c;
    const Node *ps = item->kid[1];
    Level *l = NEW(c->a, Level);
    l->item = item;
    l->path = "";
    l->results = NEW_N(c->a, Result, ps->nkid + 1);
    for (uint32_t i = 0; i < ps->nkid; i++) {
        const Node *p = ps->kid[i];
        if (!(p->flags & PARAM_OUT) || !p->kid[0] || p->kid[0]->kind != N_type_tensor) continue;
        TensorRef *want = NEW(c->a, TensorRef);
        if (!graph_type(g, p->kid[0], want)) g->bad = true;
        l->results[l->nresults++] = (Result){.name = p->sym, .param = p, .want = want, .value = ent_void()};
    }
    return l;
}

void graph_body(Grapher *g, const Node *item) {
    Check *c = g->c;
    Scope *was = scope_push(c);
    int errors = diag_errors(c->s);
    statements(g, item->kid[4]);
    c->scope = was;
    // else what is missing is that
    for (int i = 0; i < g->level->nresults && diag_errors(c->s) == errors && !g->bad; i++) {
        const Result *r = &g->level->results[i];
        if (r->value.kind == EN_void) report(c, E_result_missing, name_at(r->param), r->name->s, item->sym->s);
    }
}

// The parameters as values; scalars as numbers, when there are some.
static void bind_params(Grapher *g, const Node *item, const TValue *scalars) {
    Check *c = g->c;
    for (int i = 0; i < c->k->nparams; i++) {
        const LaunchParam *p = &c->k->params[i];
        Bind *was = scope_find_here(c->scope, p->name);
        if (!was || was->ent.kind == EN_error || p->mode == PM_OUT) continue;
        if (p->kind != PK_TENSOR) {
            if (p->kind == PK_POINTER) report(c, E_graph_statement, item->kid[1]->kid[i]->span, "a raw pointer");
            if (!scalars) continue;
            const TValue *v = &scalars[i];
            Ent e = elem_is_float(p->elem) ? ent_float(v->fval, was->span)
                    : p->elem == EL_bool   ? ent_bool(v->ival != 0, was->span)
                                           : ent_int(v->ival, was->span);
            scope_bind(c, c->scope, p->name, e, was->span);
            continue;
        }
        const TensorRef *t = was->ent.tensor;
        TensorRef own;
        if (c->recipe && graph_type(g, item->kid[1]->kid[i]->kid[0], &own)) t = &own;        // with rows
        Ent e = graph_value(g, p->mode == PM_INOUT ? TG_state : TG_input, p->elem, t->rank, t->dim, was->span);
        graph_value_of(g, e)->param = i;
        called(g, e, p->name);
        scope_bind(c, c->scope, p->name, e, was->span)->used = true;
    }
}

// The graph's own nodes are in `arena`; the instances of kernels that come up are the session's.
static Grapher open_graph(InstanceOf of, const TValue *scalars, Arena *arena) {
    SemaFile *f = of.file;
    const Node *item = of.item;
    Grapher g = {.f = f, .numbers = scalars != NULL};
    bool *solved = NEW_N(arena, bool, MAX_GRAPH_DIMS + 1);
    int errors = diag_errors(f->s);
    f->arena = arena;
    g.c = head_open(of, solved, NULL, g.numbers);
    f->arena = NULL;
    head_close(g.c, item, solved, false);
    if (diag_errors(f->s) > errors) g.bad = true;
    return g;
}

TKernel *sema_graph_head(InstanceOf of) {
    SemaFile *f = of.file;
    bool *solved = NEW_N(session_arena(f->s), bool, MAX_GRAPH_DIMS + 1);
    int errors = diag_errors(f->s);
    Check *c = head_open(of, solved, NULL, false);
    head_close(c, of.item, solved, false);
    return diag_errors(f->s) > errors ? NULL : c->k;
}

static bool mentions(const TKernel *k, const Node *n) {
    if (!n) return false;
    for (int i = 0; n->kind == N_name && i < k->ndims; i++) {
        if (k->dims[i].name == n->sym) return true;
    }
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (mentions(k, n->kid[i])) return true;
    }
    return false;
}

// From here on numbers carry what they follow from. A name that was made of dimensions before cannot.
static void open_recipe(Grapher *g, const Node *item) {
    Check *c = g->c;
    const Node *gs = item->kid[0], *list = item->kid[2];
    c->recipe = recipe_new(c->a);
    for (uint32_t i = 0; gs && i < gs->nkid; i++) {
        if (mentions(c->k, gs->kid[i]->kid[1]) || mentions(c->k, gs->kid[i]->kid[2])) recipe_lost(c);
    }
    for (uint32_t i = 0; list && i < list->nkid; i++) {
        const Node *w = list->kid[i];
        if (w->kind == N_binary && w->op == OP_eq && w->kid[0]->kind == N_name && !mentions(c->k, w->kid[0])) recipe_lost(c);
    }
    for (int i = 0; i < c->k->ndims; i++) {
        Bind *b = scope_find_here(c->scope, c->k->dims[i].name);
        if (b && b->ent.kind == EN_int && b->ent.dim == i + 1) recipe_dim(c, i, &b->ent);
        else recipe_lost(c);
    }
}

static TGraph *evaluate(InstanceOf of, const TValue *scalars, Arena *arena, bool recipe) {
    SemaFile *f = of.file;
    const Node *item = of.item;
    int errors = diag_errors(f->s);
    f->run++;
    Grapher g = open_graph(of, scalars, arena);
    if (g.bad) return NULL;
    if (recipe) open_recipe(&g, item);
    bind_params(&g, item, scalars);
    g.level = graph_level(&g, item);
    graph_body(&g, item);
    if (g.bad || diag_errors(f->s) > errors) return NULL;
    if (!g.numbers) return NULL;
    graph_outputs(&g);
    TGraph *r = NEW(g.c->a, TGraph);
    *r = (TGraph){.head = g.c->k,
                  .values = g.values.at,
                  .nvalues = (int)g.values.n,
                  .launches = g.launches.at,
                  .nlaunches = (int)g.launches.n};
    TGRecipe *how = NEW(g.c->a, TGRecipe);
    if (recipe && recipe_close(g.c->recipe, how)) r->recipe = how;
    return g.bad || diag_errors(f->s) > errors ? NULL : r;
}

// In memory of its own: what names and kernels it refers to is the session's.
static TGraph *kept(const TGraph *g, const TKernel *head, Arena *a) {
    TGraph *r = NEW(a, TGraph);
    TKernel *k = NEW(a, TKernel);
    *r = *g;
    *k = *head;
    k->ndims = g->head->ndims;
    k->dims = NEW_N(a, LaunchDim, k->ndims + 1);
    memcpy(k->dims, g->head->dims, sizeof *k->dims * (size_t)k->ndims);
    r->head = k;
    r->values = NEW_N(a, TGValue, g->nvalues + 1);
    r->launches = NEW_N(a, TGLaunch, g->nlaunches + 1);
    memcpy(r->values, g->values, sizeof *r->values * (size_t)g->nvalues);
    memcpy(r->launches, g->launches, sizeof *r->launches * (size_t)g->nlaunches);
    for (int i = 0; i < g->nvalues; i++) {
        TGValue *v = &r->values[i];
        const char **files = v->nfiles ? NEW_N(a, const char *, v->nfiles) : NULL;
        if (v->nfiles) memcpy(files, v->files, sizeof *files * (size_t)v->nfiles);
        v->files = files;
        if (!v->values) continue;
        size_t n = 1;
        for (int d = 0; d < v->rank; d++) n *= (size_t)v->dim[d];
        v->values = NEW_N(a, Number, n + 1);
        memcpy(v->values, g->values[i].values, sizeof *v->values * n);
    }
    for (int i = 0; i < g->nlaunches; i++) {
        TGLaunch *l = &r->launches[i];
        l->args = NEW_N(a, TValue, l->kernel->nparams + 1);
        memcpy(l->args, g->launches[i].args, sizeof *l->args * (size_t)l->kernel->nparams);
    }
    if (g->recipe) r->recipe = recipe_kept(g->recipe, a);
    return r;
}

TGraph *sema_graph_again(InstanceOf of, const TKernel *head, const TValue *scalars, Arena *scratch, Arena *arena) {
    const TGraph *g = evaluate(of, scalars, scratch, true);
    return g ? kept(g, head, arena) : NULL;
}

TGraph *sema_graph_elaborate(InstanceOf of, const TValue *scalars, Arena *arena) {
    return evaluate(of, scalars, arena ? arena : session_arena(of.file->s), false);
}

void sema_check_graphs(SemaFile *f) {
    for (uint32_t i = 0; i < f->graphs.n; i++) {
        const Node *item = f->graphs.at[i], *gs = item->kid[0];
        bool defaults = true;
        for (uint32_t k = 0; gs && k < gs->nkid; k++) defaults = defaults && gs->kid[k]->kid[1];
        if (defaults) evaluate((InstanceOf){.file = f, .item = item}, NULL, session_arena(f->s), false);
    }
}
