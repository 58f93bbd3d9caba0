// `test` items: a body is run here, at compile time, over tensors that are only numbers and shapes; what
// is left are steps for a runner: make a tensor, launch a kernel, compare.
//
//     test "rows" for (M, N) in [(1, 5), (37, 1000)] {
//         let x = random<f32>(M, N);
//         expect softmax(x) ~ reference(x) within rel 1e-5;
//     }
//
// A kernel is called with its `in` and `inout` tensors and scalars, in order; its `out` tensors are the
// result (the `inout` ones, if it has no other). Dimensions and element types follow from the arguments,
// `<>` gives the rest. A `fn` called on tensors is a *reference*: it becomes a kernel of one program in
// which every dimension is a number, and whose results are stored whole.
#include "sema/internal.h"

#include <string.h>

typedef struct MadeReference { const Node *fn; const Arg *args; int nargs, step; } MadeReference;

typedef struct Tester {
    SemaFile *f;
    Check    *c;                    // of the test's body
    TTest    *test;
    VEC(TStep) steps;
    Schedule  schedule;             // of the launch that is being read
    const TensorRef **want;         // what its results are declared as, NULL where nothing is said
    int       nwant;
    bool      bad;
    VEC(MadeReference) references;  // whose results nothing has changed since
} Tester;

static Ent test_eval(Tester *t, const Node *n);

// ---- tensors of a test -------------------------------------------------------------------------------

static Ent tensor_ent(Tester *t, int number, Elem e, int rank, const int64_t *shape, Span at) {
    Check *c = t->c;
    TTensor *tt = NEW(c->a, TTensor);
    TensorRef *ref = NEW(c->a, TensorRef);
    *tt = (TTensor){.param = number, .name = sym(c->s, arena_printf(c->a, "t%d", number)), .elem = e, .rank = rank};
    *ref = (TensorRef){.t = tt, .name = tt->name, .elem = e, .elem_known = true, .rank = rank};
    for (int i = 0; i < rank; i++) {
        ref->dim[i] = ent_int(shape[i], at);
        ref->lo[i] = ent_int(0, at);
        tt->dim[i] = tx_const_int(c, shape[i], EL_index, at);
    }
    return (Ent){.kind = EN_tensor, .tensor = ref, .span = at};
}

static int number_of(Ent e) { return e.tensor->t->param; }

static TStep *add_step(Tester *t, TStepKind kind, Span at) {
    TStep s = {.kind = kind, .span = at};
    vec_push(t->c->a, &t->steps, s);
    return &t->steps.at[t->steps.n - 1];
}

static Ent make_tensor(Tester *t, const Maker *m, const Node *n) {
    Made made;
    if (!maker_read(t->c, m, n, &made)) return ent_error(t->c);
    TStep *s = add_step(t, STEP_make, n->span);
    s->make = made.make;
    s->elem = made.elem;
    s->rank = made.rank;
    s->lo = made.lo;
    s->hi = made.hi;
    s->values = made.values;
    s->result = t->test->ntensors++;
    for (int i = 0; i < made.rank; i++) s->shape[i] = made.dim[i].i;
    return tensor_ent(t, s->result, made.elem, made.rank, s->shape, n->span);
}

// ---- launches --------------------------------------------------------------------------------------------

static Ent eval_arg(void *t, const Node *n) { return test_eval(t, n); }

// The tensors that a launch makes; those that it updates, if there are no others.
static Ent launch_results(Tester *t, const LaunchCall *l, const TKernel *k, const Ent *dim, TStep *s) {
    Check *c = t->c;
    Ent *outs = NEW_N(c->a, Ent, k->nparams + 1), *inout = NEW_N(c->a, Ent, k->nparams + 1);
    int n = 0, inouts = 0;
    s->nargs = k->nparams;
    s->result = t->test->ntensors;
    for (int i = 0; i < k->nparams; i++) {
        const TTensor *p = k->tensor[i];
        if (!p) continue;
        if (p->mode != PM_IN && p->mode != PM_OUT) t->references.n = 0;
        if (p->mode == PM_INOUT) inout[inouts++] = l->arg[i];
        if (p->mode != PM_OUT) continue;
        int64_t shape[MAX_RANK];
        for (int d = 0; d < p->rank; d++) {
            Ent e = launch_dim(c, l, p->dim[d], dim);
            shape[d] = e.i;
            if (e.kind == EN_int && e.i >= 0) continue;
            Diag *g = report(
                c, E_test_shape, l->call->span,
                arena_printf(c->a, "dimension %d of `%s` does not follow from the arguments", d, p->name->s));
            const char *name = p->dim[d]->kind == TX_dim ? k->dims[p->dim[d]->dim].name->s : "N";
            diag_help(
                g,
                "the result's type says it: `let %s: %s[...] = %s(...);`; so does a `where` clause of the kernel, or the launch, if `%s` is a name in `<>`",
                p->name->s, elem_name(p->elem), k->name->s, name);
            return ent_error(c);
        }
        s->args[i] = (TValue){.tensor = t->test->ntensors++, .elem = p->elem};
        outs[n++] = tensor_ent(t, s->args[i].tensor, p->elem, p->rank, shape, l->call->span);
    }
    *add_step(t, s->kind, l->call->span) = *s;
    return n ? launch_tuple(c, outs, n, l->call->span) : launch_tuple(c, inout, inouts, l->call->span);
}

static Ent launch(Tester *t, const Node *item, const Node *call) {
    Check *c = t->c;
    LaunchCall *l = launch_call(c, item, call, t->want, t->nwant);
    t->nwant = 0;                                      // nor what is declared of this one's results
    TStep step = {.kind = item->kind == N_graph ? STEP_graph : STEP_launch, .span = call->span, .schedule = t->schedule};
    t->schedule = (Schedule){0};                       // not that of the arguments' launches
    Ent *dim = NEW_N(c->a, Ent, item->kind == N_graph ? MAX_GRAPH_DIMS : MAX_DIMS);
    if (!launch_generics(c, l) || !launch_args(c, l, eval_arg, t) || !launch_learn(c, l)) return ent_error(c);
    int errors = diag_errors(c->s);
    if (item->kind != N_graph) l->schedule = &step.schedule, l->alone = true;
    TKernel *k = launch_instance(c, l, dim);
    if (!k) {
        if (diag_errors(c->s) == errors) t->bad = true;
        return ent_error(c);
    }
    step.kernel = k;
    step.args = NEW_N(c->a, TValue, k->nparams + 1);
    step.dims = NEW_N(c->a, int64_t, k->ndims + 1);
    for (int i = 0; i < k->ndims; i++) step.dims[i] = dim[i].kind == EN_int ? dim[i].i : -1;
    for (int i = 0; i < k->nparams; i++) {
        bool tensor = k->tensor[i] || k->params[i].kind == PK_POINTER;
        if (tensor && !k->tensor[i]) t->references.n = 0;             // who knows what is done through an address
        if (tensor)
            step.args[i] = (TValue){.tensor = l->arg[i].kind == EN_tensor ? number_of(l->arg[i]) : -1,
                                    .elem = k->params[i].elem};
        else if (!launch_scalar(c, k->params[i].elem, l->arg[i], l->at[i], false, &step.args[i])) return ent_error(c);
    }
    if (step.kind == STEP_graph) {
        SemaValue known[2 * MAX_GRAPH_DIMS + 16];
        int n = 0;
        for (uint32_t i = 0; i < l->learned.n; i++) {                  // element types, as dimensions, follow from the tensors
            const Learned *v = &l->learned.at[i];
            if (v->e.kind == EN_type && n < MAX_GRAPH_DIMS) known[n++] = (SemaValue){.name = v->name->s, .is_type = true, .elem = v->e.elem};
        }
        for (int i = 0; i < k->ndims; i++) {
            if (dim[i].kind == EN_int) known[n++] = (SemaValue){.name = k->dims[i].name->s, .ival = dim[i].i};
        }
        step.graph = sema_graph_elaborate((InstanceOf){t->f, item, l->set, l->nset, known, n}, step.args, NULL);
        if (!step.graph) return ent_error(c);
    }
    return launch_results(t, l, k, dim, &step);
}

// ---- references ------------------------------------------------------------------------------------------

static int ref_dim(Check *c, Sym name, int64_t size) {
    for (int i = 0; i < c->k->ndims; i++) {
        if (c->k->dims[i].name == name) return i + 1;
    }
    if (c->k->ndims == MAX_DIMS) return 0;
    c->k->dims[c->k->ndims++] = (LaunchDim){.name = name, .fixed = size};
    return c->k->ndims;
}

static void ref_param(Check *c, Arg *a, const Node *p, TValue *value) {
    TKernel *k = c->k;
    const TensorRef *have = a->e.tensor;
    int i = k->nparams++;
    TTensor *t = NEW(c->a, TTensor);
    TensorRef *ref = NEW(c->a, TensorRef);
    Sym name = p && p->sym ? p->sym : sym(c->s, arena_printf(c->a, "arg%d", i));
    *t = (TTensor){.param = i, .name = name, .mode = PM_IN, .elem = have->elem, .rank = have->rank};
    *ref = (TensorRef){.t = t, .name = name, .elem = have->elem, .elem_known = true, .rank = have->rank};
    const Node *type = p && p->kid[0] && p->kid[0]->kind == N_type_tensor && (int)p->kid[0]->nkid - 1 == have->rank
                           ? p->kid[0]
                           : NULL;
    for (int d = 0; d < have->rank; d++) {
        ref->dim[d] = ent_int(have->dim[d].i, a->span);
        ref->lo[d] = ent_int(0, a->span);
        if (type && type->kid[1 + d]->kind == N_name)
            ref->dim[d].dim = (int16_t)ref_dim(c, type->kid[1 + d]->sym, have->dim[d].i);
        t->dim[d] = tx_const_int(c, have->dim[d].i, EL_index, a->span);
    }
    k->params[i] = (LaunchParam){.kind = PK_TENSOR, .mode = PM_IN, .name = name, .elem = have->elem, .rank = have->rank};
    k->tensor[i] = t;
    *value = (TValue){.tensor = number_of(a->e), .elem = have->elem};
    a->e = (Ent){.kind = EN_tensor, .tensor = ref, .span = a->e.span};
}

// The axes of x in the order of the result's dimensions: first those that run over a dimension of that name, then,
// for what is left, those of that length.
static void take_axes(Check *c, const TExpr *x, const Ent *dim, TAxis **out) {
    bool used[MAX_AXES] = {false};
    for (int pass = 0; pass < 2; pass++) {
        for (int d = 0; d < x->type.naxes; d++) {
            for (int i = 0; i < x->type.naxes && dim[d].kind == EN_int && !out[d]; i++) {
                TAxis *ax = x->type.axis[i];
                int over = (uint32_t)ax->id < c->axis_dim.n ? c->axis_dim.at[ax->id] : 0;
                bool same = pass == 0 ? over > 0 && over == dim[d].dim
                                      : ax->extent == dim[d].i && (over == 0 || dim[d].dim == 0);
                if (used[i] || !same) continue;
                used[i] = true;
                out[d] = ax;
            }
        }
    }
}

static bool ref_result(Tester *t, Check *c, Ent e, const Node *type, Scope *sc, Span at, Ent *out, TValue *value) {
    TExpr *x = value_of(c, e, at), *idx[MAX_RANK] = {0};
    if (!x) return false;
    TKernel *k = c->k;
    int rank = x->type.naxes, i = k->nparams;
    int64_t shape[MAX_RANK];
    bool listed = type && type->kind == N_type_tensor;
    Scope *was = c->scope;
    c->scope = sc;
    Elem want = x->type.elem;
    bool named_kind = type && type->kind == N_type_name && elem_by_name((Str){type->sym->s, type->sym->n}) == EL_none &&
                      !scope_find(sc, type->sym);
    bool ok = !type || named_kind || eval_elem(c, listed ? type->kid[0] : type, &want);
    if (ok && want != x->type.elem) x = value_exact(c, e, ttype_scalar(want), at, "the result");
    ok = ok && x;
    if (ok && listed && (int)type->nkid - 1 != rank) {
        report(c, E_type_mismatch, at, "the result", ttype_text(c, x->type),
               arena_printf(c->a, "a tensor of %d dimensions", (int)type->nkid - 1));
        ok = false;
    }
    Ent dim[MAX_AXES];
    TAxis *taken[MAX_AXES] = {NULL};
    for (int d = 0; d < rank && ok && listed; d++) dim[d] = eval(c, type->kid[1 + d]);
    if (ok && listed) take_axes(c, x, dim, taken);
    for (int d = 0; d < rank && ok; d++) {
        TAxis *ax = x->type.axis[d];
        if (listed) {
            ax = dim[d].kind == EN_axis ? dim[d].axis : taken[d];
            if (!ax && dim[d].kind != EN_error)
                report(c, E_type_mismatch, type->kid[1 + d]->span, "this dimension of the result", ent_text(c, dim[d]),
                       "the length of one of its axes");
        }
        ok = ax != NULL;
        if (!ok) break;
        shape[d] = ax->extent;
        idx[d] = tx_axis(c, ax, at);
    }
    c->scope = was;
    if (!ok || i == MAX_PARAMS) return false;
    TTensor *tt = NEW(c->a, TTensor);
    *tt = (TTensor){.param = i,
                    .name = sym(c->s, arena_printf(c->a, "result%d", i)),
                    .mode = PM_OUT,
                    .elem = x->type.elem,
                    .rank = rank};
    for (int d = 0; d < rank; d++) tt->dim[d] = tx_const_int(c, shape[d], EL_index, at);
    if (tt->elem == EL_index) {                       // indices are stored as i64
        tt->elem = EL_i64;
        x = tx_cast(c, x, EL_i64, at);
    }
    k->nparams++;
    k->params[i] = (LaunchParam){.kind = PK_TENSOR, .mode = PM_OUT, .name = tt->name, .elem = tt->elem, .rank = rank};
    k->tensor[i] = tt;
    TStmt *s = ts_emit(c, TS_store, at);
    s->tensor = tt;
    s->value = x;
    s->nidx = (uint8_t)rank;
    s->idx = NEW_N(c->a, TExpr *, rank + 1);
    memcpy(s->idx, idx, sizeof *idx * (size_t)rank);
    *value = (TValue){.tensor = t->test->ntensors++, .elem = tt->elem};
    *out = tensor_ent(t, value->tensor, tt->elem, rank, shape, at);
    return true;
}

// Tests compare one kernel in many forms with one function of the same tensors: its value is found once. 0: there is no such step.
static int step_like(Tester *t, const FnItem *fn, const Node *n, const Arg *args, int nargs) {
    if (n->kid[1] && n->kid[1]->nkid) return 0;                       // what is in `<>` may be anything
    for (int i = 0; i < nargs; i++)
        if (args[i].e.kind != EN_int && (args[i].e.kind != EN_tensor || args[i].e.tensor->view)) return 0;
    for (size_t r = 0; r < t->references.n; r++) {
        const MadeReference *m = &t->references.at[r];
        bool same = m->fn == fn->node && m->nargs == nargs;
        for (int i = 0; i < nargs && same; i++) {
            same = m->args[i].name == args[i].name && m->args[i].e.kind == args[i].e.kind;
            if (same) same = args[i].e.kind == EN_int ? m->args[i].e.i == args[i].e.i : number_of(m->args[i].e) == number_of(args[i].e);
        }
        if (same) return m->step;
    }
    Arg *copy = NEW_N(t->c->a, Arg, nargs + 1);
    memcpy(copy, args, sizeof *args * (size_t)nargs);
    vec_push(t->c->a, &t->references, ((MadeReference){fn->node, copy, nargs, (int)t->steps.n + 1}));
    return 0;
}

static Ent reference(Tester *t, Ent callee, const Node *n, Arg *args, int nargs) {
    int like = step_like(t, callee.fn, n, args, nargs);
    Check *c = check_new(t->f);
    TKernel *k = c->k;
    TStep step = {.kind = STEP_launch, .span = n->span, .kernel = k, .reference = true, .like = like};
    const Node *params = callee.fn->node->kid[1];
    c->host = true;
    c->body = &k->body;
    c->scope = scope_new(c, c->scope);
    k->name = callee.fn->node->sym;
    k->span = name_at(callee.fn->node);
    k->decl = callee.fn->node;
    k->params = NEW_N(c->a, LaunchParam, MAX_PARAMS + 1);
    k->tensor = NEW_N(c->a, TTensor *, MAX_PARAMS + 1);
    k->scalar = NEW_N(c->a, TVar *, MAX_PARAMS + 1);
    k->dims = NEW_N(c->a, LaunchDim, MAX_DIMS + 1);
    step.args = c->adopted = NEW_N(c->a, TValue, MAX_PARAMS + 1);
    for (int i = 0; i < nargs; i++) {
        const Node *p = NULL;
        for (uint32_t j = 0; params && j < params->nkid; j++) {
            if (args[i].name ? params->kid[j]->sym == args[i].name : (int)j == i) p = params->kid[j];
        }
        if (args[i].e.kind != EN_tensor || args[i].e.tensor->view) continue;
        if (k->nparams >= MAX_PARAMS - 8) {
            report(c, E_too_many, args[i].span, "kernel", MAX_PARAMS - 8, "parameters");
            return ent_error(c);
        }
        ref_param(c, &args[i], p, &step.args[k->nparams]);
    }
    const Node *fn;
    Scope *sc;
    step.result = t->test->ntensors;
    Ent r = call_reference(c, callee.fn, n->kid[1], args, nargs, n->span, &fn, &sc);
    if (r.kind == EN_error) return r;
    const Node *type = fn->kid[2];
    Span at = r.span.hi ? r.span : n->span;
    Ent result = {.kind = EN_error};
    if (r.kind == EN_tuple) {
        bool typed = type && type->kind == N_type_tuple && (int)type->nkid == r.tuple->n;
        Tuple *tuple = NEW(c->a, Tuple);
        tuple->n = r.tuple->n;
        tuple->at = NEW_N(c->a, Ent, r.tuple->n + 1);
        for (int i = 0; i < tuple->n; i++) {
            if (!ref_result(t, c, r.tuple->at[i], typed ? type->kid[i] : NULL, sc, at, &tuple->at[i],
                            &step.args[k->nparams]))
                return ent_error(c);
        }
        result = (Ent){.kind = EN_tuple, .tuple = tuple, .span = n->span};
    } else if (r.kind == EN_void) {
        report(c, E_return_missing, name_at(fn), fn->sym->s);
        return ent_error(c);
    } else if (!ref_result(t, c, r, type, sc, at, &result, &step.args[k->nparams])) return ent_error(c);
    k->guards = c->guards.at;
    k->nguards = (int)c->guards.n;
    step.nargs = k->nparams;
    *add_step(t, STEP_launch, n->span) = step;
    return result;
}

// A function without tensors among its arguments is a reference too if its type says that its result is one.
static bool returns_tensors(const Node *fn) {
    const Node *type = fn->kid[2];
    if (type && type->kind == N_type_tuple && type->nkid) type = type->kid[0];
    return type && type->kind == N_type_tensor;
}

// ---- the body --------------------------------------------------------------------------------------------

static Ent test_call(Tester *t, const Node *n) {
    Check *c = t->c;
    const Node *f = n->kid[0];
    const Maker *m = f->kind == N_name && !scope_find(c->scope, f->sym) ? maker_find(f->sym) : NULL;
    if (m) return make_tensor(t, m, n);
    Ent callee = eval(c, f);
    if (callee.kind == EN_error) return callee;
    if (callee.kind == EN_kernel || callee.kind == EN_graph) return launch(t, callee.node, n);
    if (callee.kind != EN_fn) return eval(c, n);
    int nargs = (int)n->nkid - 3;
    Arg *args = NEW_N(c->a, Arg, nargs + 1);
    bool tensors = false;
    for (int i = 0; i < nargs; i++) {
        const Node *a = n->kid[3 + i];
        args[i] = (Arg){
            .node = a->kind == N_named ? a->kid[0] : a, .name = a->kind == N_named ? a->sym : NULL, .span = a->span};
        args[i].e = test_eval(t, args[i].node);
        if (args[i].e.kind == EN_error) return ent_error(c);
        tensors = tensors || args[i].e.kind == EN_tensor;
    }
    return tensors || returns_tensors(callee.fn->node) ? reference(t, callee, n, args, nargs)
                                                       : call_entity(c, callee, args, nargs, n->span);
}

static Ent test_eval(Tester *t, const Node *n) {
    if (!n) return ent_error(t->c);
    if (n->kind == N_call) return test_call(t, n);
    if (n->kind == N_with) {
        Schedule was = t->schedule;
        t->schedule = (Schedule){0};
        Ent e = launch_schedule(t->c, n, &t->schedule) ? test_eval(t, n->kid[0]) : ent_error(t->c);
        t->schedule = was;
        return e;
    }
    if (n->kind == N_tuple) {
        Tuple *tuple = NEW(t->c->a, Tuple);
        tuple->n = (int)n->nkid;
        tuple->at = NEW_N(t->c->a, Ent, n->nkid + 1);
        for (uint32_t i = 0; i < n->nkid; i++) tuple->at[i] = test_eval(t, n->kid[i]);
        return (Ent){.kind = EN_tuple, .tuple = tuple, .span = n->span};
    }
    return eval(t->c, n);
}

static bool side(Tester *t, Ent e, Elem like, Span at, TValue *out) {
    if (e.kind == EN_tensor && !e.tensor->view) {
        *out = (TValue){.tensor = number_of(e), .elem = e.tensor->elem};
        return true;
    }
    *out = (TValue){.tensor = -1, .elem = like};
    Number v;
    if (number_known(e, &v)) {
        bool fraction = e.kind == EN_float || (e.kind == EN_value && elem_is_float(e.x->type.elem));
        if (e.kind == EN_bool && like == EL_none) out->elem = EL_bool;
        else if (!elem_is_float(like) && like != EL_bool)
            out->elem = fraction ? EL_f64 : v.i < 0 && v.f > 0 ? EL_u64 : EL_i64;      // 300 is no i8
        out->ival = fraction ? 0 : v.i;
        out->fval = v.f;
        return true;
    }
    if (e.kind == EN_error) return false;
    bool element = e.kind == EN_value && e.x->kind == TX_load && !e.x->type.naxes;
    Diag *d = report(t->c, E_test_expect, at, arena_printf(t->c->a, "`expect` compares tensors and numbers, not %s", element ? "an element of one" : ent_text(t->c, e)));
    if (element) diag_help(d, "a function takes one out, `fn at(x: f32[N], i: int) -> f32[] = x[i];`: `expect at(y, 3) == 1`");
    return false;
}

static void expect_pair(Tester *t, const Node *n, Ent a, Ent b, double rel, double abs) {
    Elem ea = a.kind == EN_tensor ? a.tensor->elem : EL_none, eb = b.kind == EN_tensor ? b.tensor->elem : EL_none;
    TStep s = {.kind = STEP_expect, .span = n->span, .op = (AstOp)n->op, .rel = rel, .abs = abs};
    if (!side(t, a, eb, n->kid[0]->span, &s.left) || !side(t, b, ea, n->kid[1]->span, &s.right)) {
        t->bad = true;
        return;
    }
    if (a.kind == EN_tensor && b.kind == EN_tensor) {
        bool same = a.tensor->rank == b.tensor->rank;
        for (int i = 0; same && i < a.tensor->rank; i++) same = a.tensor->dim[i].i == b.tensor->dim[i].i;
        if (!same) {
            report(t->c, E_test_expect, n->span,
                   arena_printf(t->c->a, "%s is compared with %s", tensor_text(t->c, a.tensor),
                                tensor_text(t->c, b.tensor)));
            t->bad = true;
            return;
        }
    }
    *add_step(t, STEP_expect, n->span) = s;
}

static void check_expect(Tester *t, const Node *n) {
    Check *c = t->c;
    Ent a = test_eval(t, n->kid[0]);
    if (!n->kid[1]) {                                  // a condition on compile-time values
        if (a.kind == EN_bool && !a.i) report(c, E_static_assert, n->span, "", "");
        else if (a.kind != EN_bool && a.kind != EN_error)
            report(c, E_test_expect, n->span, "`expect` takes `a ~ b`, `a == b` or a condition on compile-time values");
        return;
    }
    Ent b = test_eval(t, n->kid[1]);
    if (a.kind == EN_error || b.kind == EN_error) {
        t->bad = true;
        return;
    }
    if (is_const(a) && is_const(b) && n->op != OP_approx) {
        Ent r = binary(c, (AstOp)n->op, a, b, n->span, n->kid[0]->span, n->kid[1]->span);
        if (r.kind == EN_bool && !r.i) report(c, E_static_assert, n->span, "", "");
        return;
    }
    if (n->op == OP_ne) {
        report(c, E_test_expect, n->span, "tensors are compared with `~`, `==`, `<`, `<=`, `>` or `>=`");
        return;
    }
    Number read[2] = {{0}};
    bool abs_first = n->sym && strcmp(n->sym->s, "abs") == 0;
    if (n->kid[2] && !number_read(c, n->kid[2], &read[abs_first])) return;
    if (n->kid[3] && !number_read(c, n->kid[3], &read[1])) return;
    double tol[2] = {read[0].f, read[1].f};
    if (a.kind == EN_tuple || b.kind == EN_tuple) {
        if (a.kind != b.kind || a.tuple->n != b.tuple->n) {
            report(c, E_test_expect, n->span, "the sides of `expect` have different numbers of tensors");
            return;
        }
        for (int i = 0; i < a.tuple->n; i++) expect_pair(t, n, a.tuple->at[i], b.tuple->at[i], tol[0], tol[1]);
        return;
    }
    expect_pair(t, n, a, b, tol[0], tol[1]);
}

// `let x: f32[4, N] = ..`. NULL: no tensor's type, or one that is wrong, which is said. `:` leaves a dimension open.
static const TensorRef *wanted_in_test(Tester *t, const Node *type) {
    Check *c = t->c;
    TensorRef *want = NEW(c->a, TensorRef);
    if (!type || type->kind != N_type_tensor) return NULL;
    *want = (TensorRef){.elem_known = true, .rank = (int)type->nkid - 1};
    if (!eval_elem(c, type->kid[0], &want->elem)) return NULL;
    for (int i = 0; i < want->rank && i < MAX_RANK; i++) {
        const Node *n = type->kid[1 + i];
        want->dim[i] = n->kind == N_colon ? ent_void() : eval(c, n);
        if (n->kind == N_colon) continue;
        if (want->dim[i].kind != EN_int && want->dim[i].kind != EN_error) report(c, E_not_comptime, n->span, "a dimension");
        if (want->dim[i].kind != EN_int) return NULL;
    }
    return want;
}

// The tensor must be of this type; a number becomes one of its type.
static Ent declared_in_test(Tester *t, const Node *name, const TensorRef *want, Ent e, Span at) {
    Check *c = t->c;
    const Node *type = declared_type(name);
    const char *what = arena_printf(c->a, "`%s`", name->sym->s);
    if (!type || e.kind == EN_error) return e;
    if (e.kind != EN_tensor) return declared_as(c, type, e, at, what);
    if (type->kind == N_type_tensor) {
        if (!want) return ent_error(c);
        TensorRef whole = *want;
        bool fits = want->rank == e.tensor->rank && want->rank <= MAX_RANK && want->elem == e.tensor->elem;
        for (int i = 0; i < want->rank && i < MAX_RANK; i++) {
            if (want->dim[i].kind == EN_void) whole.dim[i] = i < e.tensor->rank ? e.tensor->dim[i] : ent_int(0, at);
            fits = fits && e.tensor->dim[i].i == whole.dim[i].i;
        }
        if (fits) return e;
        report(c, E_type_mismatch, at, what, tensor_text(c, e.tensor),
               want->rank <= MAX_RANK ? tensor_text(c, &whole) : "one of fewer dimensions");
        return ent_error(c);
    }
    TType scalar;
    if (eval_type(c, type, &scalar)) report(c, E_type_mismatch, at, what, tensor_text(c, e.tensor), ttype_text(c, scalar));
    return ent_error(c);
}

static void called(Tester *t, const Node *name, const TensorRef *want, Ent e, Span at) {
    e = declared_in_test(t, name, want, e, at);
    if (e.kind == EN_tensor && !e.tensor->view && name->sym) e.tensor->name = e.tensor->t->name = name->sym;
    bind_name(t->c, name, e);
}

// A call of a kernel or a graph, perhaps with a schedule.
static bool is_launch(Tester *t, const Node *n) {
    if (n->kind == N_with) n = n->kid[0];
    const Bind *b = n->kind == N_call && n->kid[0]->kind == N_name ? scope_find(t->c->scope, n->kid[0]->sym) : NULL;
    return b && (b->ent.kind == EN_kernel || b->ent.kind == EN_graph);
}

static void test_let(Tester *t, const Node *n) {
    int names = (int)n->nkid - 1;
    const TensorRef **want = NEW_N(t->c->a, const TensorRef *, names + 1);
    for (int i = 0; i < names; i++) want[i] = wanted_in_test(t, declared_type(n->kid[1 + i]));
    t->want = want;
    t->nwant = is_launch(t, n->kid[0]) ? names : 0;
    Ent e = test_eval(t, n->kid[0]);
    t->nwant = 0;
    if (names == 1) {
        called(t, n->kid[1], want[0], e, n->kid[0]->span);
        return;
    }
    bool fits = e.kind == EN_tuple && e.tuple->n == names;
    if (!fits && e.kind != EN_error) {
        int have = e.kind == EN_tuple ? e.tuple->n : 1;
        Diag *d = report(t->c, E_tuple_count, n->span, names, "s", have, have == 1 ? "" : "s");
        const TStep *last = t->steps.n ? &t->steps.at[t->steps.n - 1] : NULL;
        for (int i = 0; last && last->kind == STEP_launch && i < last->nargs; i++) {
            const TTensor *p = last->kernel->tensor[i];
            if (p && p->mode == PM_INOUT && have < names) {
                diag_help(d, "`%s` is `inout`: what is given for it has its new values", p->name->s);
                break;
            }
        }
    }
    for (int i = 0; i < names; i++) called(t, n->kid[1 + i], want[i], fits ? e.tuple->at[i] : ent_error(t->c), n->kid[0]->span);
}

static void test_block(Tester *t, const Node *block);

static void test_stmt(Tester *t, const Node *n) {
    switch ((NodeKind)n->kind) {
    case N_let: test_let(t, n); return;
    case N_expect: check_expect(t, n); return;
    case N_expr_stmt: test_eval(t, n->kid[0]); return;
    case N_block: test_block(t, n); return;
    case N_error_stmt: t->bad = t->c->lost = true; return;
    case N_if: {
        Ent e = eval(t->c, n->kid[0]);
        if (e.kind == EN_bool) test_block(t, n->kid[e.i ? 1 : 2]);
        else if (e.kind != EN_error)
            report(t->c, E_test_statement, n->span, "a condition that is not known at compile time");
        return;
    }
    default: break;
    }
    Diag *d = report(t->c, E_test_statement, n->span, "this statement has no meaning");
    diag_help(d, "a test has `let`, `expect`, launches, and `if` on compile-time values");
}

static void test_block(Tester *t, const Node *block) {
    if (!block) return;
    if (block->kind != N_block) {
        test_stmt(t, block);
        return;
    }
    Scope *was = scope_push(t->c);
    for (uint32_t i = 0; i < block->nkid && !t->c->lost; i++) {      // what follows a statement that was given up depends on it
        if (block->kid[i]) test_stmt(t, block->kid[i]);
    }
    scope_pop(t->c, was);
}

// ---- items -------------------------------------------------------------------------------------------------

static TTest *one_case(SemaFile *f, const Node *item, const Node *names, const Node *row) {
    Tester t = {.f = f, .c = check_new(f)};
    TBody scratch = {0};
    int errors = diag_errors(f->s);
    t.c->item = item;
    t.c->body = &scratch;
    t.c->host = true;
    t.c->k->dims = NEW_N(t.c->a, LaunchDim, 1);
    t.test = NEW(t.c->a, TTest);
    t.test->name = item->str;
    t.test->span = item->span;
    t.c->scope = scope_new(t.c, t.c->scope);
    if (row) {
        Str text = span_text(f->s, row->span);
        t.test->case_text = arena_printf(t.c->a, "%.*s", (int)text.n, text.p);
        for (uint32_t i = 0; i < row->nkid && i < names->nkid; i++) bind_name(t.c, names->kid[i], eval(t.c, row->kid[i]));
    }
    test_block(&t, item->kid[1]);
    t.test->steps = t.steps.at;
    t.test->nsteps = (int)t.steps.n;
    return t.bad || diag_errors(f->s) > errors ? NULL : t.test;
}

static const Node *rows_of(const Node *item) { return item->kid[0] ? item->kid[0]->kid[1] : NULL; }

static uint32_t cases_of(const Node *item) {
    const Node *rows = rows_of(item);
    return !item->kid[1] ? 0 : rows ? rows->nkid : 1;
}

int sema_test_count(const SemaFile *f) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->tests.n; i++) n += cases_of(f->tests.at[i]);
    return (int)n;
}

TTest *sema_test(SemaFile *f, int number) {
    uint32_t left = (uint32_t)number;
    for (uint32_t i = 0; i < f->tests.n; i++) {
        const Node *item = f->tests.at[i], *rows = rows_of(item);
        if (left < cases_of(item)) return one_case(f, item, rows ? item->kid[0]->kid[0] : NULL, rows ? rows->kid[left] : NULL);
        left -= cases_of(item);
    }
    return NULL;
}

int sema_tests(SemaFile *f, TTest ***out) {
    VEC(TTest *) all = {0};
    for (int i = 0, n = sema_test_count(f); i < n; i++) {
        TTest *t = sema_test(f, i);
        if (t) vec_push(session_arena(f->s), &all, t);
    }
    *out = all.at;
    return (int)all.n;
}
