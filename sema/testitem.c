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

#include "lang/number.h"

#include <string.h>

typedef struct Tester {
    SemaFile *f;
    Check    *c;                    // of the test's body
    TTest    *test;
    VEC(TStep) steps;
    bool      bad;
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

// ---- makers --------------------------------------------------------------------------------------------

typedef struct Maker { const char *name; TMake make; Elem elem; int values; } Maker;    // values before the dimensions

static const Maker makers[] = {
    {"random", MAKE_random, EL_f32, 0}, {"zeros", MAKE_zeros, EL_f32, 0},      {"ones", MAKE_ones, EL_f32, 0},
    {"full", MAKE_full, EL_f32, 1},     {"iota", MAKE_iota, EL_i32, 0},        {"randint", MAKE_randint, EL_i32, 2},
    {"values", MAKE_values, EL_f32, 0},
};

static const Maker *find_maker(Sym name) {
    for (size_t i = 0; i < sizeof makers / sizeof *makers; i++) {
        if (strcmp(makers[i].name, name->s) == 0) return &makers[i];
    }
    return NULL;
}

static bool number(Tester *t, const Node *n, double *v) {
    Ent e = eval(t->c, n);
    if (e.kind == EN_value && e.x->kind == TX_const) *v = elem_is_float(e.x->type.elem) ? e.x->fval : (double)e.x->ival;
    else if (e.kind == EN_float) *v = e.f;
    else if (e.kind == EN_int || e.kind == EN_bool) *v = (double)e.i;
    else {
        if (e.kind != EN_error) report(t->c, E_not_comptime, n->span, "a number of a test");
        return false;
    }
    return true;
}

// values<f32>((1, 2), (3, 4)): nested tuples of one shape.
static bool flatten(Tester *t, const Node *n, int depth, int64_t *shape, int *rank, double *out, int64_t *count, int64_t cap) {
    if (n->kind != N_tuple) {
        double v;
        if (*rank < 0) *rank = depth;
        bool fits = *rank == depth && *count < cap && number(t, n, &v);
        if (fits) out[(*count)++] = v;
        else if (*rank != depth || *count >= cap) report(t->c, E_test_shape, n->span, "these values have no common shape");
        return fits;
    }
    if (depth >= MAX_RANK || (*rank >= 0 && depth >= *rank) || (shape[depth] >= 0 && shape[depth] != (int64_t)n->nkid)) {
        report(t->c, E_test_shape, n->span, "these values have no common shape");
        return false;
    }
    shape[depth] = n->nkid;
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (!flatten(t, n->kid[i], depth + 1, shape, rank, out, count, cap)) return false;
    }
    return true;
}

static int64_t count_leaves(const Node *n) {
    if (n->kind != N_tuple) return 1;
    int64_t k = 0;
    for (uint32_t i = 0; i < n->nkid; i++) k += count_leaves(n->kid[i]);
    return k;
}

static Ent make_values(Tester *t, const Node *n, Elem e) {
    Check *c = t->c;
    int64_t cap = 0, count = 0, shape[MAX_RANK];
    for (int i = 0; i < MAX_RANK; i++) shape[i] = -1;
    int rank = -1;
    for (uint32_t i = 3; i < n->nkid; i++) cap += count_leaves(n->kid[i]);
    double *v = NEW_N(c->a, double, cap + 1);
    shape[0] = (int64_t)n->nkid - 3;
    for (uint32_t i = 3; i < n->nkid; i++) {
        if (!flatten(t, n->kid[i], 1, shape, &rank, v, &count, cap)) return ent_error(c);
    }
    if (rank < 0) rank = 1;
    TStep *s = add_step(t, STEP_make, n->span);
    s->make = MAKE_values;
    s->elem = e;
    s->rank = rank;
    s->values = v;
    s->result = t->test->ntensors++;
    memcpy(s->shape, shape, sizeof shape);
    return tensor_ent(t, s->result, e, rank, shape, n->span);
}

static bool maker_named(Tester *t, const Maker *m, const Node *a, TStep *s) {
    double v;
    if (!number(t, a->kid[0], &v)) return false;
    bool iota = m->make == MAKE_iota;
    if (strcmp(a->sym->s, iota ? "start" : "lo") == 0) s->lo = v;
    else if (strcmp(a->sym->s, iota ? "step" : "hi") == 0) s->hi = v;
    else {
        report(t->c, E_argument_name, a->span, m->name, a->sym->s);
        return false;
    }
    return true;
}

static Ent make_tensor(Tester *t, const Maker *m, const Node *n) {
    Check *c = t->c;
    TStep made = {.kind = STEP_make, .span = n->span, .make = m->make, .elem = m->elem, .hi = m->make == MAKE_iota ? 1 : 0};
    const Node *g = n->kid[1];
    if (g && g->nkid > 0) {
        Ent e = eval(c, g->kid[0]);
        if (e.kind != EN_type || g->nkid > 1) {
            if (e.kind != EN_error) report(c, E_generic_kind, g->span, "T", "one element type", ent_text(c, e));
            return ent_error(c);
        }
        made.elem = e.elem;
    }
    if (made.elem == EL_index) made.elem = EL_i64;
    if (m->make == MAKE_values) return make_values(t, n, made.elem);
    double v[2] = {0, 0};
    int given = 0;
    int64_t count = 1;
    for (uint32_t i = 3; i < n->nkid; i++) {
        const Node *a = n->kid[i];
        if (a->kind == N_named) {
            if (!maker_named(t, m, a, &made)) return ent_error(c);
            continue;
        }
        if (given++ < m->values) {
            if (!number(t, a, &v[given - 1])) return ent_error(c);
            continue;
        }
        int64_t d;
        if (!want_int(c, a, "a dimension of a test's tensor", &d)) return ent_error(c);
        if (d < 0 || made.rank == MAX_RANK || __builtin_mul_overflow(count, d > 0 ? d : 1, &count) || count > (int64_t)1 << 32) {
            report(c, E_test_shape, a->span, d < 0 ? "a dimension is negative" : made.rank == MAX_RANK ? "a tensor has too many dimensions" : "a test's tensor is too large");
            return ent_error(c);
        }
        made.shape[made.rank++] = d;
    }
    if (given < m->values) {
        report(c, E_argument_count, n->span, m->name, m->values == 1 ? "a value and dimensions" : "two bounds and dimensions", given);
        return ent_error(c);
    }
    if (m->values > 0) {
        made.lo = v[0];
        made.hi = v[1];
    }
    made.result = t->test->ntensors++;
    *add_step(t, STEP_make, n->span) = made;
    return tensor_ent(t, made.result, made.elem, made.rank, made.shape, n->span);
}

// ---- launches --------------------------------------------------------------------------------------------

// A host expression as a number, when all that it is made of is known.
typedef struct Known { const TKernel *k; int64_t dim[MAX_DIMS]; bool known[MAX_DIMS]; const TValue *args; } Known;

static bool host_eval(const Known *h, const TExpr *x, int64_t *v) {
    int64_t a, b, k;
    switch ((TExprKind)x->kind) {
    case TX_const: *v = x->ival; return !elem_is_float(x->type.elem);
    case TX_dim: *v = h->dim[x->dim]; return h->known[x->dim];
    case TX_var: if (x->var->param < 0) return false; *v = h->args[x->var->param].ival; return true;
    case TX_cast: case TX_splat: return host_eval(h, x->kid[0], v);
    case TX_unary:
        if (!host_eval(h, x->kid[0], &a)) return false;
        *v = x->op == OP_not ? !a : x->op == OP_bnot ? ~a : (int64_t)(0 - (uint64_t)a);
        return true;
    case TX_select: return host_eval(h, x->kid[0], &k) && host_eval(h, x->kid[k ? 1 : 2], v);
    case TX_fun:
        if (!host_eval(h, x->kid[0], &a) || x->nkid < 2 || !host_eval(h, x->kid[1], &b)) return false;
        *v = (x->op == TF_min) == (a < b) ? a : b;
        return x->op == TF_min || x->op == TF_max;
    case TX_binary: break;
    default: return false;
    }
    if (!host_eval(h, x->kid[0], &a) || !host_eval(h, x->kid[1], &b)) return false;
    switch ((AstOp)x->op) {
    case OP_add: *v = (int64_t)((uint64_t)a + (uint64_t)b); return true;
    case OP_sub: *v = (int64_t)((uint64_t)a - (uint64_t)b); return true;
    case OP_mul: *v = (int64_t)((uint64_t)a * (uint64_t)b); return true;
    case OP_div: if (b == 0) return false; *v = int_div_floor(a, b); return true;
    case OP_rem: if (b == 0) return false; *v = int_mod_floor(a, b); return true;
    case OP_shl: *v = b >= 0 && b < 64 ? (int64_t)((uint64_t)a << b) : 0; return true;
    case OP_shr: *v = b >= 0 && b < 64 ? a >> b : 0; return true;
    case OP_and: *v = a & b; return true;
    case OP_or:  *v = a | b; return true;
    case OP_xor: *v = a ^ b; return true;
    case OP_eq:  *v = a == b; return true;
    case OP_ne:  *v = a != b; return true;
    case OP_lt:  *v = a < b; return true;
    case OP_le:  *v = a <= b; return true;
    case OP_gt:  *v = a > b; return true;
    case OP_ge:  *v = a >= b; return true;
    default: return false;
    }
}

typedef struct Launch { const Node *kernel, *call; SemaValue set[64], known[MAX_DIMS + 16]; Span why[MAX_DIMS + 16]; int nset, nknown; Ent arg[MAX_PARAMS]; Span at[MAX_PARAMS]; } Launch;

static bool launch_set(Tester *t, Launch *l) {
    const Node *g = l->call->kid[1], *gs = l->kernel->kid[0];
    uint32_t next = 0;
    for (uint32_t i = 0; g && i < g->nkid; i++) {
        const Node *v = g->kid[i];
        Sym name = v->kind == N_named ? v->sym : gs && next < gs->nkid ? gs->kid[next++]->sym : NULL;
        Ent e = eval(t->c, v->kind == N_named ? v->kid[0] : v);
        if (e.kind == EN_error) return false;
        if (!name || l->nset == 64) {
            report(t->c, E_generic_unknown, v->span, l->kernel->sym->s, arena_printf(t->c->a, "number %u", i + 1));
            return false;
        }
        if (e.kind == EN_fn || e.kind == EN_lambda || e.kind == EN_builtin) {
            Ent *value = NEW(t->c->a, Ent);
            *value = e;
            l->set[l->nset++] = (SemaValue){.name = name->s, .value = value};
            continue;
        }
        if (e.kind != EN_int && e.kind != EN_bool && e.kind != EN_type) {
            report(t->c, E_generic_kind, v->span, name->s, "a number, an element type or a function", ent_text(t->c, e));
            return false;
        }
        l->set[l->nset++] = (SemaValue){.name = name->s, .is_type = e.kind == EN_type, .ival = e.kind == EN_type ? 0 : e.i, .elem = e.kind == EN_type ? e.elem : EL_none};
    }
    return true;
}

static bool learn(Tester *t, Launch *l, SemaValue v, Span at) {
    for (int i = 0; i < l->nknown; i++) {
        if (strcmp(l->known[i].name, v.name) != 0) continue;
        if (l->known[i].is_type == v.is_type && l->known[i].ival == v.ival && l->known[i].elem == v.elem) return true;
        const char *a = v.is_type ? elem_name(v.elem) : arena_printf(t->c->a, "%lld", (long long)v.ival);
        const char *b = l->known[i].is_type ? elem_name(l->known[i].elem) : arena_printf(t->c->a, "%lld", (long long)l->known[i].ival);
        Diag *d = report(t->c, E_dim_mismatch, at, v.name, a, b);
        diag_label(d, l->why[i], "%s is %s by this argument", v.name, b);
        return false;
    }
    if (l->nknown == MAX_DIMS + 16) return true;
    l->why[l->nknown] = at;
    l->known[l->nknown++] = v;
    return true;
}

static bool is_generic(const Node *kernel, Sym name) {
    for (uint32_t i = 0; kernel->kid[0] && i < kernel->kid[0]->nkid; i++) {
        if (kernel->kid[0]->kid[i]->sym == name) return true;
    }
    return false;
}

static bool launch_elem(Tester *t, Launch *l, const Node *p, const Node *elem, Ent e, Span at) {
    if (elem->kind != N_type_name || !elem->sym) return true;
    if (is_generic(l->kernel, elem->sym)) return learn(t, l, (SemaValue){.name = elem->sym->s, .is_type = true, .elem = e.tensor->elem}, at);
    Elem want = elem_by_name((Str){elem->sym->s, elem->sym->n});
    if (want == EL_none || want == e.tensor->elem) return true;
    report(t->c, E_element_type, at, arena_printf(t->c->a, "argument `%s`", p->sym->s), elem_name(e.tensor->elem), elem_name(want));
    return false;
}

// A raw pointer points to the memory of a tensor of the test, of any shape; what is written there is in the tensor afterwards.
static bool launch_pointer(Tester *t, Launch *l, const Node *p, Ent e, Span at) {
    if (e.kind == EN_tensor && !e.tensor->view) return launch_elem(t, l, p, p->kid[0]->kid[0], e, at);
    report(t->c, E_argument_type, at, 1, l->kernel->sym->s, arena_printf(t->c->a, "a tensor whose memory `%s` points to", p->sym->s), ent_text(t->c, e));
    return false;
}

static bool launch_tensor(Tester *t, Launch *l, const Node *p, Ent e, Span at) {
    const Node *type = p->kid[0];
    Check *c = t->c;
    if (e.kind != EN_tensor || e.tensor->view || e.tensor->rank != (int)type->nkid - 1) {
        report(c, E_argument_type, at, 1, l->kernel->sym->s, arena_printf(c->a, "a tensor of %d dimension%s for `%s`", (int)type->nkid - 1, type->nkid == 2 ? "" : "s", p->sym->s),
               e.kind == EN_tensor ? arena_printf(c->a, "one of %d", e.tensor->rank) : ent_text(c, e));
        return false;
    }
    if (!launch_elem(t, l, p, type->kid[0], e, at)) return false;
    for (int i = 0; i < e.tensor->rank; i++) {
        const Node *d = type->kid[1 + i];
        if (d->kind == N_name && !learn(t, l, (SemaValue){.name = d->sym->s, .ival = e.tensor->dim[i].i}, at)) return false;
    }
    return true;
}

// Arguments to parameters; `out` parameters take none.
static bool launch_args(Tester *t, Launch *l) {
    const Node *ps = l->kernel->kid[1], *n = l->call;
    Check *c = t->c;
    int np = ps ? (int)ps->nkid : 0, nargs = (int)n->nkid - 3, want = 0, next = 0;
    bool ok = np <= MAX_PARAMS;
    for (int i = 0; i < np && ok; i++) want += !(ps->kid[i]->flags & PARAM_OUT);
    bool *have = NEW_N(c->a, bool, np + 1);
    for (int i = 0; i < nargs && ok; i++) {
        const Node *a = n->kid[3 + i];
        int at = next;
        if (a->kind == N_named) {
            for (at = 0; at < np && ps->kid[at]->sym != a->sym; at++) continue;
            if (at == np) {
                report(c, E_argument_name, a->span, l->kernel->sym->s, a->sym->s);
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
        l->arg[at] = test_eval(t, a->kind == N_named ? a->kid[0] : a);
        l->at[at] = a->span;
        have[at] = true;
        if (l->arg[at].kind == EN_error) return false;
    }
    for (int i = 0; i < np && ok; i++) ok = have[i] == !(ps->kid[i]->flags & PARAM_OUT);
    if (ok) return true;
    Diag *d = report(c, E_argument_count, n->span, l->kernel->sym->s, arena_printf(c->a, "%d argument%s in a test", want, want == 1 ? "" : "s"), nargs);
    diag_label(d, name_at(l->kernel), "declared here");
    diag_help(d, "`out` tensors are the launch's result");
    return false;
}

static bool scalar_value(Tester *t, Elem e, Ent v, Span at, TValue *out) {
    *out = (TValue){.tensor = -1, .elem = e};
    TExpr *x = v.kind == EN_bool ? (e == EL_bool ? tx_const_int(t->c, v.i, EL_bool, at) : NULL) : value_exact(t->c, v, ttype_scalar(e), at, "the argument");
    if (x && x->kind == TX_const) {
        if (elem_is_float(e)) out->fval = x->fval;
        else out->ival = x->ival;
        return true;
    }
    if (x || v.kind == EN_bool) report(t->c, E_not_comptime, at, "a scalar argument of a test");
    return false;
}

static void solve_equations(Known *h) {
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < h->k->nguards; i++) {
            const TExpr *g = h->k->guards[i].cond;
            if (g->kind != TX_binary || g->op != OP_eq) continue;
            for (int s = 0; s < 2; s++) {
                const TExpr *d = g->kid[s];
                int64_t v;
                if (d->kind != TX_dim || h->known[d->dim] || !host_eval(h, g->kid[1 - s], &v)) continue;
                h->dim[d->dim] = v;
                h->known[d->dim] = true;
            }
        }
    }
}

static bool launch_shapes(Tester *t, Launch *l, TKernel *k, TValue *args, Known *h) {
    *h = (Known){.k = k, .args = args};
    for (int i = 0; i < k->ndims; i++) {
        for (int j = 0; j < l->nknown; j++) {
            if (l->known[j].is_type || strcmp(l->known[j].name, k->dims[i].name->s) != 0) continue;
            h->dim[i] = l->known[j].ival;
            h->known[i] = true;
        }
        if (!h->known[i] && k->dims[i].fixed >= 0) h->dim[i] = k->dims[i].fixed, h->known[i] = true;
    }
    solve_equations(h);
    for (int i = 0; i < k->nguards; i++) {
        int64_t v;
        if (!host_eval(h, k->guards[i].cond, &v) || v) continue;
        Diag *d = report(t->c, E_where_false, l->call->span, k->guards[i].text, k->name->s);
        for (int j = 0; j < k->ndims; j++) {
            if (h->known[j]) diag_note(d, "%s = %lld", k->dims[j].name->s, (long long)h->dim[j]);
        }
        return false;
    }
    return true;
}

static Ent launch_results(Tester *t, Launch *l, TKernel *k, TValue *args, const Known *h) {
    Check *c = t->c;
    Ent outs[MAX_PARAMS];
    int n = 0, inouts = 0;
    Ent inout[MAX_PARAMS];
    TStep *s = add_step(t, STEP_launch, l->call->span);
    s->kernel = k;
    s->args = args;
    s->nargs = k->nparams;
    s->result = t->test->ntensors;
    for (int i = 0; i < k->nparams; i++) {
        const TTensor *p = k->tensor[i];
        if (!p) continue;
        if (p->mode == PM_INOUT) inout[inouts++] = l->arg[i];
        if (p->mode != PM_OUT) continue;
        int64_t shape[MAX_RANK];
        for (int d = 0; d < p->rank; d++) {
            if (!host_eval(h, p->dim[d], &shape[d]) || shape[d] < 0) {
                Diag *g = report(c, E_test_shape, l->call->span, arena_printf(c->a, "dimension %d of `%s` does not follow from the arguments", d + 1, p->name->s));
                diag_help(g, "a `where` clause of the kernel can say what it is");
                return ent_error(c);
            }
        }
        args[i] = (TValue){.tensor = t->test->ntensors++, .elem = p->elem};
        outs[n++] = tensor_ent(t, args[i].tensor, p->elem, p->rank, shape, l->call->span);
    }
    if (n == 0) {
        n = inouts;
        memcpy(outs, inout, sizeof *outs * (size_t)n);
    }
    if (n == 0) return ent_void();
    if (n == 1) return outs[0];
    Tuple *tuple = NEW(c->a, Tuple);
    tuple->n = n;
    tuple->at = NEW_N(c->a, Ent, n);
    memcpy(tuple->at, outs, sizeof *outs * (size_t)n);
    return (Ent){.kind = EN_tuple, .tuple = tuple, .span = l->call->span};
}

static Ent launch(Tester *t, const Node *kernel, const Node *call) {
    Check *c = t->c;
    Launch *l = NEW(c->a, Launch);
    l->kernel = kernel;
    l->call = call;
    if (!launch_set(t, l) || !launch_args(t, l)) return ent_error(c);
    const Node *ps = kernel->kid[1];
    for (uint32_t i = 0; ps && i < ps->nkid; i++) {
        const Node *p = ps->kid[i];
        bool tensor = p->kid[0] && p->kid[0]->kind == N_type_tensor;
        if (tensor && !(p->flags & PARAM_OUT) && !launch_tensor(t, l, p, l->arg[i], l->at[i])) return ent_error(c);
        if (p->kid[0] && p->kid[0]->kind == N_type_ptr && !launch_pointer(t, l, p, l->arg[i], l->at[i])) return ent_error(c);
    }
    int errors = diag_errors(c->s);
    TKernel *k = sema_instance(t->f, kernel, l->set, l->nset, l->known, l->nknown);
    if (!k) {
        if (diag_errors(c->s) == errors) t->bad = true;
        return ent_error(c);
    }
    TValue *args = NEW_N(c->a, TValue, k->nparams + 1);
    for (int i = 0; i < k->nparams; i++) {
        if (k->tensor[i] || k->params[i].kind == PK_POINTER) args[i] = (TValue){.tensor = l->arg[i].kind == EN_tensor ? number_of(l->arg[i]) : -1, .elem = k->params[i].elem};
        else if (!scalar_value(t, k->params[i].elem, l->arg[i], l->at[i], &args[i])) return ent_error(c);
    }
    Known h;
    if (!launch_shapes(t, l, k, args, &h)) return ent_error(c);
    return launch_results(t, l, k, args, &h);
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
    const Node *type = p && p->kid[0] && p->kid[0]->kind == N_type_tensor && (int)p->kid[0]->nkid - 1 == have->rank ? p->kid[0] : NULL;
    for (int d = 0; d < have->rank; d++) {
        ref->dim[d] = ent_int(have->dim[d].i, a->span);
        ref->lo[d] = ent_int(0, a->span);
        if (type && type->kid[1 + d]->kind == N_name) ref->dim[d].dim = (int16_t)ref_dim(c, type->kid[1 + d]->sym, have->dim[d].i);
        t->dim[d] = tx_const_int(c, have->dim[d].i, EL_index, a->span);
    }
    k->params[i] = (LaunchParam){.kind = PK_TENSOR, .mode = PM_IN, .name = name, .elem = have->elem, .rank = have->rank};
    k->tensor[i] = t;
    *value = (TValue){.tensor = number_of(a->e), .elem = have->elem};
    a->e = (Ent){.kind = EN_tensor, .tensor = ref, .span = a->e.span};
}

// The axis of x that runs over a dimension of the result: of that name, or at least of that length.
static TAxis *take_axis(Check *c, TExpr *x, bool *used, Ent dim) {
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < x->type.naxes; i++) {
            TAxis *ax = x->type.axis[i];
            int over = (uint32_t)ax->id < c->axis_dim.n ? c->axis_dim.at[ax->id] : 0;
            bool same = pass == 0 ? over > 0 && over == dim.dim : ax->extent == dim.i && (over == 0 || dim.dim == 0);
            if (used[i] || !same) continue;
            used[i] = true;
            return ax;
        }
    }
    return NULL;
}

static bool ref_result(Tester *t, Check *c, Ent e, const Node *type, Scope *sc, Span at, Ent *out, TValue *value) {
    TExpr *x = value_of(c, e, at), *idx[MAX_RANK] = {0};
    if (!x) return false;
    TKernel *k = c->k;
    int rank = x->type.naxes, i = k->nparams;
    bool used[MAX_AXES] = {false};
    int64_t shape[MAX_RANK];
    bool listed = type && type->kind == N_type_tensor;
    Scope *was = c->scope;
    c->scope = sc;
    Elem want = x->type.elem;
    bool named_kind = type && type->kind == N_type_name && elem_by_name((Str){type->sym->s, type->sym->n}) == EL_none && !scope_find(sc, type->sym);
    bool ok = !type || named_kind || eval_elem(c, listed ? type->kid[0] : type, &want);
    if (ok && want != x->type.elem) x = value_exact(c, e, ttype_scalar(want), at, "the result");
    ok = ok && x;
    if (ok && listed && (int)type->nkid - 1 != rank) {
        report(c, E_type_mismatch, at, "the result", ttype_text(c, x->type), arena_printf(c->a, "a tensor of %d dimensions", (int)type->nkid - 1));
        ok = false;
    }
    for (int d = 0; d < rank && ok; d++) {
        TAxis *ax = x->type.axis[d];
        if (listed) {
            Ent dim = eval(c, type->kid[1 + d]);
            ax = dim.kind == EN_int ? take_axis(c, x, used, dim) : dim.kind == EN_axis ? dim.axis : NULL;
            if (!ax && dim.kind != EN_error) report(c, E_type_mismatch, type->kid[1 + d]->span, "this dimension of the result", ent_text(c, dim), "the length of one of its axes");
        }
        ok = ax != NULL;
        if (!ok) break;
        shape[d] = ax->extent;
        idx[d] = tx_axis(c, ax, at);
    }
    c->scope = was;
    if (!ok || i == MAX_PARAMS) return false;
    TTensor *tt = NEW(c->a, TTensor);
    *tt = (TTensor){.param = i, .name = sym(c->s, arena_printf(c->a, "result%d", i)), .mode = PM_OUT, .elem = x->type.elem, .rank = rank};
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

static Ent reference(Tester *t, Ent callee, const Node *n, Arg *args, int nargs) {
    Check *c = check_new(t->f);
    TKernel *k = c->k;
    TStep step = {.kind = STEP_launch, .span = n->span, .kernel = k, .reference = true};
    const Node *params = callee.fn->node->kid[1];
    c->host = true;
    c->body = &k->body;
    scope_push(c);
    k->name = callee.fn->node->sym;
    k->span = name_at(callee.fn->node);
    k->decl = callee.fn->node;
    k->params = NEW_N(c->a, LaunchParam, MAX_PARAMS + 1);
    k->tensor = NEW_N(c->a, TTensor *, MAX_PARAMS + 1);
    k->scalar = NEW_N(c->a, TVar *, MAX_PARAMS + 1);
    k->dims = NEW_N(c->a, LaunchDim, MAX_DIMS + 1);
    step.args = NEW_N(c->a, TValue, MAX_PARAMS + 1);
    for (int i = 0; i < nargs; i++) {
        const Node *p = NULL;
        for (uint32_t j = 0; params && j < params->nkid; j++) {
            if (args[i].name ? params->kid[j]->sym == args[i].name : (int)j == i) p = params->kid[j];
        }
        if (args[i].e.kind != EN_tensor) continue;
        if (k->nparams >= MAX_PARAMS - 8) {
            report(c, E_too_many, args[i].span, MAX_PARAMS - 8, "parameters");
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
            if (!ref_result(t, c, r.tuple->at[i], typed ? type->kid[i] : NULL, sc, at, &tuple->at[i], &step.args[k->nparams])) return ent_error(c);
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
    const Maker *m = f->kind == N_name && !scope_find(c->scope, f->sym) ? find_maker(f->sym) : NULL;
    if (m) return make_tensor(t, m, n);
    Ent callee = eval(c, f);
    if (callee.kind == EN_error) return callee;
    if (callee.kind == EN_kernel) return launch(t, callee.node, n);
    if (callee.kind != EN_fn) return eval(c, n);
    int nargs = (int)n->nkid - 3;
    Arg *args = NEW_N(c->a, Arg, nargs + 1);
    bool tensors = false;
    for (int i = 0; i < nargs; i++) {
        const Node *a = n->kid[3 + i];
        args[i] = (Arg){.node = a->kind == N_named ? a->kid[0] : a, .name = a->kind == N_named ? a->sym : NULL, .span = a->span};
        args[i].e = test_eval(t, args[i].node);
        if (args[i].e.kind == EN_error) return ent_error(c);
        tensors = tensors || args[i].e.kind == EN_tensor;
    }
    return tensors || returns_tensors(callee.fn->node) ? reference(t, callee, n, args, nargs) : call_entity(c, callee, args, nargs, n->span);
}

static Ent test_eval(Tester *t, const Node *n) {
    if (!n) return ent_error(t->c);
    if (n->kind == N_call) return test_call(t, n);
    if (n->kind == N_with) return test_eval(t, n->kid[0]);       // the schedule is the launcher's matter
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
    if (e.kind == EN_int || e.kind == EN_bool || e.kind == EN_float) {
        if (like == EL_none) out->elem = e.kind == EN_float ? EL_f64 : e.kind == EN_bool ? EL_bool : EL_i64;
        out->ival = e.kind == EN_float ? 0 : e.i;
        out->fval = e.kind == EN_float ? e.f : (double)e.i;
        if (e.kind == EN_float && !elem_is_float(out->elem)) out->elem = EL_f64;
        return true;
    }
    if (e.kind != EN_error) report(t->c, E_test_expect, at, arena_printf(t->c->a, "`expect` compares tensors and numbers, not %s", ent_text(t->c, e)));
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
            report(t->c, E_test_expect, n->span, "the tensors compared have different shapes");
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
        else if (a.kind != EN_bool && a.kind != EN_error) report(c, E_test_expect, n->span, "`expect` takes `a ~ b`, `a == b` or a condition on compile-time values");
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
    if (n->op != OP_approx && n->op != OP_eq) {
        report(c, E_test_expect, n->span, "tensors are compared with `~` or `==`");
        return;
    }
    double tol[2] = {0, 0}, v;
    bool abs_first = n->sym && strcmp(n->sym->s, "abs") == 0;
    if (n->kid[2] && !number(t, n->kid[2], &tol[abs_first])) return;
    if (n->kid[3]) {
        if (!number(t, n->kid[3], &v)) return;
        tol[1] = v;
    }
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

static void test_let(Tester *t, const Node *n) {
    int names = (int)n->nkid - 1;
    Ent e = test_eval(t, n->kid[0]);
    if (names == 1) {
        bind_name(t->c, n->kid[1], e);
        return;
    }
    bool fits = e.kind == EN_tuple && e.tuple->n == names;
    if (!fits && e.kind != EN_error) report(t->c, E_tuple_count, n->span, names, "s", e.kind == EN_tuple ? e.tuple->n : 1, "s");
    for (int i = 0; i < names; i++) bind_name(t->c, n->kid[1 + i], fits ? e.tuple->at[i] : ent_error(t->c));
}

static void test_block(Tester *t, const Node *block);

static void test_stmt(Tester *t, const Node *n) {
    switch ((NodeKind)n->kind) {
    case N_let: test_let(t, n); return;
    case N_expect: check_expect(t, n); return;
    case N_expr_stmt: test_eval(t, n->kid[0]); return;
    case N_block: test_block(t, n); return;
    case N_error_stmt: t->bad = true; return;
    case N_if: {
        Ent e = eval(t->c, n->kid[0]);
        if (e.kind == EN_bool) test_block(t, n->kid[e.i ? 1 : 2]);
        else if (e.kind != EN_error) report(t->c, E_test_statement, n->span, "a condition that is not known at compile time");
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
    for (uint32_t i = 0; i < block->nkid; i++) {
        if (block->kid[i]) test_stmt(t, block->kid[i]);
    }
    scope_pop(t->c, was);
}

// ---- items -------------------------------------------------------------------------------------------------

static TTest *one_case(SemaFile *f, const Node *item, const Node *names, const Node *row) {
    Tester t = {.f = f, .c = check_new(f)};
    TBody scratch = {0};
    int errors = diag_errors(f->s);
    t.c->body = &scratch;
    t.c->host = true;
    t.c->k->dims = NEW_N(t.c->a, LaunchDim, 1);
    t.test = NEW(t.c->a, TTest);
    t.test->name = item->str;
    t.test->span = item->span;
    scope_push(t.c);
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

int sema_tests(SemaFile *f, TTest ***out) {
    VEC(TTest *) all = {0};
    Arena *a = session_arena(f->s);
    for (uint32_t i = 0; i < f->tests.n; i++) {
        const Node *item = f->tests.at[i], *cases = item->kid[0];
        const Node *rows = cases ? cases->kid[1] : NULL;
        if (!item->kid[1]) continue;
        for (uint32_t r = 0; r < (rows ? rows->nkid : 1); r++) {
            TTest *t = one_case(f, item, rows ? cases->kid[0] : NULL, rows ? rows->kid[r] : NULL);
            if (t) vec_push(a, &all, t);
        }
    }
    *out = all.at;
    return (int)all.n;
}
