// Calls in a graph: a kernel becomes a launch, a graph is inlined, a few words make values.
//
//     let h = linear_relu<BM = 64>(x, w, b);      a launch: `out` parameters are the results
//     append(cache, k, pos);                      the state `cache` is updated in place
//     let c = histogram(ids, zeros<i32>(256));    a value is immutable: its copy is updated, and is the result; what nothing else
//                                                 uses from then on is updated where it lies
//     let y = layer(h, i);                        the body of the graph `layer`, here
#include "sema/graphitem.h"

#include <string.h>

static Ent eval_arg(void *g, const Node *n) { return graph_eval(g, n, NULL, 0); }

// ---- launches --------------------------------------------------------------------------------------

static bool tensors_only(Grapher *g, const LaunchCall *l) {
    const Node *ps = l->item->kid[1];
    for (uint32_t i = 0; ps && i < ps->nkid; i++) {
        const Node *type = ps->kid[i]->kid[0];
        if (!type || type->kind != N_type_ptr) continue;
        Diag *d = report(g->c, E_graph_statement, l->call->span, "a kernel with a raw pointer");
        diag_label(d, ps->kid[i]->span, "what is written through it is not known");
        return false;
    }
    return true;
}

// Weights that nothing was known of are what the kernel takes.
static bool weights_by_use(Grapher *g, LaunchCall *l, const TKernel *k, const Ent *dim) {
    for (int i = 0; i < k->nparams; i++) {
        const TTensor *t = k->tensor[i];
        if (!t || t->mode == PM_OUT || l->arg[i].kind != EN_tensor || l->arg[i].tensor->rank >= 0) continue;
        TensorRef type = {.elem = t->elem, .rank = t->rank};
        for (int d = 0; d < t->rank; d++) type.dim[d] = launch_dim(g->c, l, t->dim[d], dim);
        if (!graph_weight_shape(g, l->arg[i], &type, l->at[i])) return false;
    }
    return true;
}

static Ent made_by(Grapher *g, const LaunchCall *l, const TTensor *p, const Ent *dim, int result) {
    Check *c = g->c;
    Ent shape[MAX_RANK];
    for (int d = 0; d < p->rank; d++) {
        shape[d] = launch_dim(c, l, p->dim[d], dim);
        bool known = shape[d].kind == EN_int ? shape[d].i >= 0 : !g->numbers && shape[d].kind != EN_error;
        const TensorRef *w = l->want[result];
        if (shape[d].kind == EN_unknown && w && w->rank == p->rank) {
            shape[d] = w->dim[d];
            known = true;
        }
        if (known) continue;
        Diag *e = report(c, E_graph_dim, l->call->span, d, p->name->s);
        diag_help(
            e, "declare the result: `let %s: %s[...] = %s(...);`, or say what it is in a `where` clause of the kernel",
            p->name->s, elem_name(p->elem), l->item->sym->s);
        return ent_error(c);
    }
    Ent e = graph_value(g, TG_computed, p->elem, p->rank, shape, l->call->span);
    e.tensor->name = p->name;
    return e;
}

static Ent graph_copy(Grapher *g, Ent v, Span at);

// What a launch gives: its `out` tensors; without any, what it updates; and of both, where the caller has names for both, those values
// that it updates in a copy.
static Ent given_by(Grapher *g, const LaunchCall *l, Ent *outs, int n, Ent *updated, int nupdated) {
    int all = n;
    for (int i = 0; i < nupdated; i++)
        if (n == 0 || !graph_in_state(g, updated[i].tensor->t->param)) outs[all++] = updated[i];
    return launch_tuple(g->c, outs, n == 0 || l->nwant == all ? all : n, l->call->span);
}

static Ent add_launch(Grapher *g, LaunchCall *l, TKernel *k, const Ent *dim, Schedule schedule) {
    Check *c = g->c;
    TGLaunch launch = {.span = l->call->span, .path = g->level->path, .kernel = k, .schedule = schedule, .fixed = true};
    Ent outs[MAX_PARAMS], updated[MAX_PARAMS];
    int n = 0, nupdated = 0;
    uint32_t first = g->launches.n;
    launch.args = NEW_N(c->a, TValue, k->nparams + 1);
    for (int i = 0; i < k->nparams; i++) {
        const TTensor *p = k->tensor[i];
        launch.args[i] = (TValue){.tensor = -1, .elem = k->params[i].elem};
        if (!p) {
            if (!launch_scalar(c, k->params[i].elem, l->arg[i], l->at[i], !g->numbers, &launch.args[i])) return ent_error(c);
            continue;
        }
        if (p->mode == PM_OUT) continue;
        int value = l->arg[i].tensor->t->param;
        if (p->mode == PM_INOUT) {
            if (!graph_in_state(g, value)) {
                l->arg[i] = graph_copy(g, l->arg[i], l->at[i]);
                if (l->arg[i].kind == EN_error) return l->arg[i];
                value = l->arg[i].tensor->t->param;
            }
            updated[nupdated++] = l->arg[i];
            launch.fixed = launch.fixed && !graph_in_state(g, value);
        }
        launch.args[i].tensor = value;
        launch.fixed = launch.fixed && g->values.at[value].fixed;
    }
    for (uint32_t i = first; i < g->launches.n && !launch.fixed; i++) {        // copies that are updated at each run
        TGLaunch *copy = &g->launches.at[i];
        copy->fixed = false;
        g->values.at[copy->args[1].tensor].fixed = false;
        g->values.at[graph_root(g, copy->args[1].tensor)].fixed = false;
    }
    for (int i = 0; i < k->nparams; i++) {
        if (!k->tensor[i] || k->tensor[i]->mode != PM_OUT) continue;
        outs[n] = made_by(g, l, k->tensor[i], dim, n);
        if (outs[n].kind == EN_error) return outs[n];
        launch.args[i].tensor = outs[n].tensor->t->param;
        g->values.at[launch.args[i].tensor].fixed = launch.fixed;
        n++;
    }
    if (g->launches.n >= limit_of(LIMIT_launches)) {
        too_big(c, l->call->span, LIMIT_launches, "launches");
        return ent_error(c);
    }
    vec_push(c->a, &g->launches, launch);
    return given_by(g, l, outs, n, updated, nupdated);
}

static Ent launch_kernel(Grapher *g, LaunchCall *l, Schedule schedule) {
    Check *c = g->c;
    Ent dim[MAX_DIMS];
    if (!tensors_only(g, l)) return ent_error(c);
    int errors = diag_errors(c->s);
    if (g->numbers) l->schedule = &schedule;
    TKernel *k = launch_instance(c, l, dim);
    if (!k) {
        if (diag_errors(c->s) == errors) g->bad = true;
        return ent_error(c);
    }
    return weights_by_use(g, l, k, dim) ? add_launch(g, l, k, dim, schedule) : ent_error(c);
}

// ---- copies and outputs ------------------------------------------------------------------------------

static bool run_copy(Grapher *g, Ent from, Ent to, Span at) {
    Check *c = g->c;
    const Bind *b = g->f->graph_library ? scope_find_here(g->f->graph_library, sym(c->s, "copy")) : NULL;
    if (!b) ice("std/graph.tk has no `copy`");
    Ent n = graph_count(g, from.tensor, at);
    SemaValue known[2] = {{.name = "T", .is_type = true, .elem = from.tensor->elem}, {.name = "N", .ival = n.i}};
    TKernel *k = launch_cached((InstanceOf){.file = g->f, .item = b->ent.node, .known = known, .nknown = 1});      // of any length
    if (!k) return false;
    recipe_instance(c, k, &known[1], &n.row, 1);
    TGLaunch launch = {.span = at, .path = g->level->path, .kernel = k, .args = NEW_N(c->a, TValue, 3)};
    launch.args[0] = (TValue){.tensor = graph_view(g, from, ent_int(0, at), 1, &n, at).tensor->t->param,
                              .elem = from.tensor->elem};
    launch.args[1] = (TValue){.tensor = graph_view(g, to, ent_int(0, at), 1, &n, at).tensor->t->param,
                              .elem = from.tensor->elem};
    TGValue *target = &g->values.at[to.tensor->t->param];
    launch.fixed = target->kind == TG_computed && g->values.at[from.tensor->t->param].fixed;
    target->fixed = g->values.at[launch.args[1].tensor].fixed = launch.fixed;
    vec_push(c->a, &g->launches, launch);
    return true;
}

static Ent graph_copy(Grapher *g, Ent v, Span at) {
    Ent to = graph_value(g, TG_computed, v.tensor->elem, v.tensor->rank, v.tensor->dim, at);
    to.tensor->name = v.tensor->name;
    if (!run_copy(g, v, to, at)) return ent_error(g->c);
    g->launches.at[g->launches.n - 1].copy = true;
    return to;
}

static Ent elements(Grapher *g, const TGValue *v) {
    TensorRef t = {.rank = v->rank};
    for (int d = 0; d < v->rank; d++) {
        t.dim[d] = ent_int(v->dim[d], v->span);
        t.dim[d].row = v->row[d];
    }
    return graph_count(g, &t, v->span);
}

// What nothing uses but a launch that updates it is updated where it lies: its copy is a view of it.
static void update_in_place(Grapher *g) {
    uint32_t kept = 0;
    int *last = NEW_N(g->c->a, int, g->values.n);            // by value: the last launch that touches its memory; results: none is
    for (uint32_t i = 0; i < g->launches.n; i++)
        for (int p = 0; p < g->launches.at[i].kernel->nparams; p++)
            if (g->launches.at[i].args[p].tensor >= 0) last[graph_root(g, g->launches.at[i].args[p].tensor)] = (int)i;
    for (int i = 0; i < g->level->nresults; i++) {
        const Ent *v = &g->level->results[i].value;
        if (v->kind == EN_tensor && v->tensor->rank >= 0) last[graph_root(g, v->tensor->t->param)] = (int)g->launches.n;
    }
    for (uint32_t i = 0; i < g->launches.n; i++) {
        const TGLaunch *l = &g->launches.at[i];
        int from = l->copy ? l->args[0].tensor : 0, root = graph_root(g, from), copy = l->copy ? graph_root(g, l->args[1].tensor) : 0;
        const TGValue *v = &g->values.at[from], *r = &g->values.at[root];
        bool whole = l->copy && v->offset == 0 && v->offset_row == 0 && dims_compare(g->c, elements(g, v), elements(g, r)) == DIMS_same;
        if (!whole || r->kind != TG_computed || r->fixed || g->values.at[copy].fixed || last[root] != (int)i) {
            g->launches.at[kept++] = *l;
            continue;
        }
        TGValue *to = &g->values.at[copy];
        to->kind = TG_view;
        to->base = root;
        to->offset = to->offset_row = 0;
        last[root] = last[copy];
    }
    g->launches.n = kept;
}

// A result is computed where it is wanted: the launch that makes it writes the output. What is no launch's result, or is
// already an output, is copied.
void graph_outputs(Grapher *g) {
    const Node *ps = g->level->item->kid[1];
    update_in_place(g);
    for (int i = 0; i < g->level->nresults; i++) {
        const Result *r = &g->level->results[i];
        if (r->value.kind != EN_tensor || r->value.tensor->rank < 0) continue;
        int param = 0;
        while (ps->kid[param] != r->param) param++;
        TGValue *root = &g->values.at[graph_root(g, r->value.tensor->t->param)];
        if (root->kind == TG_computed && !root->fixed &&
            dims_compare(g->c, elements(g, graph_value_of(g, r->value)), elements(g, root)) == DIMS_same) {
            root->kind = TG_output;
            root->param = param;
            continue;
        }
        Ent to = graph_value(g, TG_output, r->value.tensor->elem, r->value.tensor->rank, r->value.tensor->dim, r->where);
        graph_value_of(g, to)->param = param;
        graph_value_of(g, to)->name = r->name;
        if (!run_copy(g, r->value, to, r->where)) g->bad = true;
    }
}

// ---- graphs, inlined ---------------------------------------------------------------------------------

static bool calls_itself(Grapher *g, const LaunchCall *l) {
    for (const Level *up = g->level; up; up = up->up) {
        if (up->item != l->item) continue;
        Diag *d = report(g->c, E_recursion, l->call->span, l->item->sym->s);
        diag_label(d, name_at(l->item), "this graph");
        return true;
    }
    return false;
}

static const SemaValue *value_set(const LaunchCall *l, Sym name) {
    for (int i = 0; i < l->nset; i++) {
        if (strcmp(l->set[i].name, name->s) == 0) return &l->set[i];
    }
    return NULL;
}

// `<>` names: set by the call, learned from its tensors, or their defaults.
static bool bind_generics(Grapher *g, const LaunchCall *l) {
    Check *c = g->c;
    const Node *gs = l->item->kid[0];
    for (uint32_t i = 0; gs && i < gs->nkid; i++) {
        const Node *p = gs->kid[i];
        const SemaValue *v = value_set(l, p->sym);
        const Learned *seen = launch_learned(l, p->sym, true) ? launch_learned(l, p->sym, true)
                                                              : launch_learned(l, p->sym, false);
        Ent e = v && v->value     ? *v->value
                : v && v->is_type ? (Ent){.kind = EN_type, .elem = v->elem}
                : v               ? ent_int(v->ival, l->call->span)
                : seen            ? seen->e
                : p->kid[1]       ? eval(c, p->kid[1])
                                  : ent_void();
        if (e.kind == EN_void) {
            report(c, E_generic_missing, l->call->span, p->sym->s, l->item->sym->s);
            return false;
        }
        if (seen && v && !v->is_type && dims_compare(c, seen->e, e) == DIMS_differ) {
            Diag *d = report(c, E_dim_mismatch, l->call->span, p->sym->s, dims_text(c, seen->e), dims_text(c, e));
            diag_label(d, seen->why, "%s is %s by this argument", p->sym->s, dims_text(c, seen->e));
            return false;
        }
        bool open = e.kind == EN_value && !g->numbers;             // a number when the graph runs
        if (open) scope_bind(c, c->scope, p->sym, e, name_at(p));
        else if (!generic_bind(c, c->scope, p, e,
                               v      ? ORIGIN_SET
                               : seen ? ORIGIN_INFERRED
                                      : ORIGIN_DEFAULT,
                               l->call->span))
            return false;
    }
    return true;
}

static void bind_learned(Grapher *g, const LaunchCall *l) {
    Check *c = g->c;
    for (uint32_t i = 0; i < l->learned.n; i++) {
        const Learned *v = &l->learned.at[i];
        bool generic = v->e.kind == EN_type;                       // a `<>` name, bound before
        if (!generic && !scope_find_here(c->scope, v->name)) scope_bind(c, c->scope, v->name, v->e, v->why);
    }
}

static bool bind_args(Grapher *g, LaunchCall *l) {
    Check *c = g->c;
    const Node *ps = l->item->kid[1];
    for (int pass = 0; pass < 2; pass++) {                         // scalars first: dimensions may be made of them
        for (uint32_t i = 0; ps && i < ps->nkid; i++) {
            const Node *p = ps->kid[i], *type = p->kid[0];
            bool tensor = type && type->kind == N_type_tensor;
            if (p->flags & PARAM_OUT || tensor != (pass == 1)) continue;
            Ent e = l->arg[i];
            if (!tensor) {
                TType t;
                TValue v;
                if (!eval_type(c, type, &t) || !launch_scalar(c, t.elem, e, l->at[i], !g->numbers, &v)) return false;
                e = dims_settle(c, e);
            } else {
                TensorRef want;
                if (!graph_type(g, type, &want)) return false;
                if (e.tensor->rank < 0 ? !graph_weight_shape(g, e, &want, l->at[i])
                                       : !graph_fits(g, e, &want, "argument ", p->sym, l->at[i], p->span)) return false;
                if (p->flags & PARAM_INOUT && !graph_in_state(g, e.tensor->t->param)) {
                    Diag *d = report(c, E_graph_type, l->at[i], arena_printf(c->a, "argument `%s`", p->sym->s),
                                     "a value", "state");
                    diag_label(d, p->span, "updated in place");
                    diag_help(d, "state is an `inout` parameter of the outermost graph");
                    return false;
                }
            }
            scope_bind(c, c->scope, p->sym, e, name_at(p))->used = true;
        }
    }
    return true;
}

static bool check_where(Grapher *g, const LaunchCall *l) {
    Check *c = g->c;
    const Node *list = l->item->kid[2];
    for (uint32_t i = 0; list && i < list->nkid; i++) {
        const Node *w = list->kid[i];
        bool equation = w->kind == N_binary && w->op == OP_eq && w->name_span.hi - w->name_span.lo == 1 &&
                        w->kid[0]->kind == N_name;
        if (equation && !scope_find_here(c->scope, w->kid[0]->sym)) {
            scope_bind(c, c->scope, w->kid[0]->sym, dims_settle(c, eval(c, w->kid[1])), w->span);
            continue;
        }
        Ent e = recipe_pin(c, dims_settle(c, eval(c, w)));
        bool equal = e.kind == EN_value && e.x->kind == TX_binary && e.x->op == OP_eq;
        bool fails = (e.kind == EN_bool || e.kind == EN_int)
                         ? !e.i
                         : equal && dims_compare(c, ent_value(e.x->kid[0]), ent_value(e.x->kid[1])) == DIMS_differ;
        if (e.kind == EN_error) return false;
        if (!fails) continue;
        Str text = span_text(c->s, w->span);
        Diag *d = report(c, E_where_false, l->call->span, arena_printf(c->a, "%.*s", (int)text.n, text.p), l->item->sym->s);
        diag_label(d, w->span, "stated here");
        return false;
    }
    return true;
}

static Ent results_of(Grapher *g, Span at) {
    Check *c = g->c;
    Level *l = g->level;
    Ent *outs = NEW_N(c->a, Ent, l->nresults + 1);
    for (int i = 0; i < l->nresults; i++) {
        outs[i] = l->results[i].value;
        if (outs[i].kind == EN_void || outs[i].kind == EN_error) return ent_error(c);
        TGValue *v = graph_value_of(g, outs[i]);
        if (v->kind == TG_computed) v->name = NULL;               // the caller's name says more
    }
    return launch_tuple(c, outs, l->nresults, at);
}

static Ent inline_graph(Grapher *g, LaunchCall *l) {
    Check *c = g->c;
    if (calls_itself(g, l)) return ent_error(c);
    Scope *was = c->scope;
    Frame *frame = NEW(c->a, Frame);
    *frame = (Frame){.up = c->frame, .fn = l->item, .call = l->call->span, .name = l->item->sym};
    c->scope = scope_new(c, item_scope(g->f, l->item));
    bool fine = bind_generics(g, l);
    bind_learned(g, l);
    fine = fine && bind_args(g, l) && check_where(g, l);
    Ent r = ent_error(c);
    if (fine) {
        Level *up = g->level;
        g->level = graph_level(g, l->item);
        g->level->up = up;
        g->level->path = *up->path ? sym(c->s, arena_printf(c->a, "%s / %s", up->path, l->item->sym->s))->s
                                   : l->item->sym->s;
        c->frame = frame;
        graph_body(g, l->item);
        r = results_of(g, l->call->span);
        c->frame = frame->up;
        g->level = up;
    }
    c->scope = was;
    return r;
}

// ---- words that make values --------------------------------------------------------------------------

static bool is_word(Grapher *g, const Node *callee, const char *word) {
    return callee->kind == N_name && strcmp(callee->sym->s, word) == 0 && !scope_find(g->c->scope, callee->sym);
}

static Ent view_call(Grapher *g, const Node *call, Ent (*make)(Grapher *, Ent, const Node *)) {
    if (call->nkid < 4) {
        report(g->c, E_argument_count, call->span, call->kid[0]->sym->s, "a tensor and numbers", 0);
        return ent_error(g->c);
    }
    Ent v = graph_eval(g, call->kid[3], NULL, 0);
    return v.kind == EN_error ? v : make(g, v, call);
}

Ent graph_call(Grapher *g, const Node *call, Schedule schedule, const TensorRef *const *want, int nwant) {
    Check *c = g->c;
    const Node *f = call->kid[0];
    if (is_word(g, f, "weight")) return graph_weight(g, call, nwant ? want[0] : NULL);
    if (is_word(g, f, "reshape")) return view_call(g, call, graph_reshape);
    if (is_word(g, f, "slice")) return view_call(g, call, graph_slice);
    if (is_word(g, f, "empty")) return graph_empty(g, call);
    const Maker *m = f->kind == N_name && !scope_find(c->scope, f->sym) ? maker_find(f->sym) : NULL;
    if (m) return graph_constant(g, m, call);
    Ent callee = eval(c, f);
    if (callee.kind == EN_error) return callee;
    if (callee.kind != EN_kernel && callee.kind != EN_graph) {
        for (uint32_t i = 3; i < call->nkid; i++) {
            const Node *a = call->kid[i]->kind == N_named ? call->kid[i]->kid[0] : call->kid[i];
            const Bind *b = a->kind == N_name ? scope_find(c->scope, a->sym) : NULL;
            if (!b || b->ent.kind != EN_tensor) continue;
            Diag *d = report(c, E_graph_statement, call->span, "a function of tensors");
            diag_help(d, "a graph launches kernels: write one that calls `%s`", f->kind == N_name ? f->sym->s : "it");
            return ent_error(c);
        }
        return eval(c, call);
    }
    LaunchCall *l = launch_call(c, callee.node, call, want, nwant);
    if (!launch_generics(c, l) || !launch_args(c, l, eval_arg, g) || !launch_learn(c, l)) return ent_error(c);
    return callee.kind == EN_kernel ? launch_kernel(g, l, schedule) : inline_graph(g, l);
}
