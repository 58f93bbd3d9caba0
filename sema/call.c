// Calls: a `fn` is evaluated in place, with its parameters bound to the arguments' entities.
//
//     fn matmul<T: type, BK: int = 64>(a: T[M, K], b: T[K, N], m: axis, n: axis) -> f32[m, n]
//
// Matching an argument to `T[M, K]` takes a tensor or a view apart: T, M and K are bound to its element
// type and dimensions where they are new, and must agree where they are not. A type whose names are
// axes, `f32[m, n]`, is that of a tile. The body becomes statements and a value (TX_block); with an
// empty body, only the value is left. Overloads are tried in order of declaration, quietly.
#include "sema/match.h"

#include <string.h>

// ---- frames ----------------------------------------------------------------------------------------

typedef struct Entered { Frame frame; TBody body, *was_body; Scope *was_scope; Loop *was_loop; } Entered;

enum { MAX_SAME = 8 };       // a function that is inside itself more often than this recurses

static bool enter(Check *c, Entered *e, const Node *fn, Sym name, Span call, const char *values, Scope *sc) {
    int depth = 0, same = 0;
    for (const Frame *f = c->frame; f; f = f->up) {
        depth++;
        same += f->fn == fn;
    }
    if (same >= MAX_SAME || depth >= limit_of(LIMIT_calls)) {
        Diag *d = report(c, E_recursion, call, name ? name->s : "a function value");
        diag_label(d, name_at(fn), "declared here");
        diag_help(d, "functions are inlined, so they cannot recurse; write a loop");
        if (same < MAX_SAME) limit_help(d, LIMIT_calls, depth + 1);
        c->too_big = true;
        return false;
    }
    *e = (Entered){.was_body = c->body, .was_scope = c->scope, .was_loop = c->loop};
    e->frame = (Frame){.up = c->frame,
                       .fn = fn,
                       .call = call,
                       .name = name,
                       .values = values,
                       .first_axis = c->k->naxes,
                       .first_var = c->k->nvars,
                       .rt_depth = c->rt_depth,
                       .result = {.kind = EN_void}};
    c->frame = &e->frame;
    c->scope = sc;
    c->body = &e->body;
    return true;
}

static bool is_canonical(const Check *c, const TAxis *ax) {
    for (uint32_t i = 0; i < c->canon.n; i++) {
        if (c->canon.at[i] == ax) return true;
    }
    return false;
}

static bool escapes(Check *c, const Frame *f, Ent e, Span at) {
    TAxis *gone = NULL;
    if (e.kind == EN_axis && e.axis->id >= f->first_axis && !is_canonical(c, e.axis)) gone = e.axis;
    for (int i = 0; e.kind == EN_value && i < e.x->type.naxes; i++) {
        TAxis *ax = e.x->type.axis[i];
        if (ax->id >= f->first_axis && !is_canonical(c, ax)) gone = ax;
    }
    for (int i = 0; e.kind == EN_tuple && i < e.tuple->n; i++) {
        if (escapes(c, f, e.tuple->at[i], at)) return true;
    }
    if (!gone) return false;
    Diag *d = report(c, E_axis_escape, at, gone->name->s,
                     f->name ? arena_printf(c->a, "function `%s`", f->name->s) : "the function that makes it");
    diag_label(d, gone->span, "axis `%s` is made here: %s", gone->name->s, axis_text(c, gone));
    diag_help(d, "take the axis as a parameter, `%s: axis`, or reduce over it", gone->name->s);
    return true;
}

// Back in the caller: the body's statements go with the value, or before it.
static Ent leave(Check *c, Entered *e, Ent result, Span at) {
    bool bad = escapes(c, &e->frame, result, at);
    c->frame = e->frame.up;
    c->scope = e->was_scope;
    c->body = e->was_body;
    c->loop = e->was_loop;
    if (bad) return ent_error(c);
    if (e->body.n == 0) return result;
    if (result.kind != EN_value) {
        for (uint32_t i = 0; i < e->body.n; i++) vec_push(c->a, c->body, e->body.at[i]);
        return result;
    }
    TExpr *b = tx_new(c, TX_block, result.x->type, at, 1, result.x);
    b->body = e->body;
    return ent_value(b);
}

// A value argument is computed once. Compile-time entities are bound as they are.
static Ent bind_once(Check *c, Ent e, Sym name, Span at) {
    if (e.kind != EN_value) return e;
    int16_t dim = e.dim;
    e = ent_value(keep(c, e.x, name, at));
    e.dim = dim;
    return e;
}

// ---- function values -------------------------------------------------------------------------------

Ent call_lambda(Check *c, Lambda *l, const Arg *args, int n, Span at, Sym name) {
    const Node *params = l->node->kid[0], *body = l->node->kid[1];
    int np = params ? (int)params->nkid : 0;
    if (np != n) {
        Diag *d = report(c, E_argument_count, at, name ? name->s : "|...|",
                         arena_printf(c->a, "%d argument%s", np, np == 1 ? "" : "s"), n);
        diag_label(d, l->node->span, "the function value");
        return ent_error(c);
    }
    Scope *sc = scope_new(c, l->env);
    Entered e;
    if (!enter(c, &e, l->node, name, at, "", sc)) return ent_error(c);
    for (int i = 0; i < np; i++) {
        const Node *p = params->kid[i];
        if (p->sym) scope_bind(c, sc, p->sym, bind_once(c, args[i].e, p->sym, args[i].span), name_at(p));
    }
    Ent r;
    if (body && body->kind == N_block) {
        check_stmts(c, body);                 // a value at the end is "returned" (BLOCK_VALUE)
        r = e.frame.returned ? e.frame.result : ent_void();
    } else {
        r = eval(c, body);
    }
    return leave(c, &e, r, at);
}

// ---- fn items ----------------------------------------------------------------------------------------

void count_args(Check *c, const Node *item, Span at, int want, const int *given, int n) {
    const Node *params = item->kid[1];
    int np = params ? (int)params->nkid : 0;
    Diag *d = report(c, E_argument_count, at, item->sym->s,
                     arena_printf(c->a, "%d argument%s", want, want == 1 ? "" : "s"), n);
    diag_label(d, name_at(item), "declared here");
    if (item->kind == N_kernel && n > want && n == np) diag_help(d, "`out` tensors are the launch's result");
    for (int i = 0; n <= want && i < np; i++) {
        bool result = item->kind == N_kernel && (params->kid[i]->flags & PARAM_OUT);
        const Node *p = params->kid[i], *type = p->kid[0];
        bool axis = type && type->kind == N_type_name && strcmp(type->sym->s, "axis") == 0;
        if (!result && !given[i]) diag_note(d, axis ? "`%s` is not given: the axis along which, `%s(..., n)`" : "`%s` is not given", p->sym->s, item->sym->s);
        if (given[i] > 1) diag_note(d, "`%s` is given twice", params->kid[i]->sym->s);
    }
}

// Arguments in the order of the parameters.
static bool order_args(Match *m, const Arg *args, int n, Arg *out) {
    const Node *params = m->fn->kid[1];
    int np = params ? (int)params->nkid : 0, next = 0, *given = NEW_N(m->c->a, int, np + 1);
    bool ok = n == np, named = false;
    for (int i = 0; i < np; i++) out[i].span.hi = 0, out[i].e.kind = EN_void;
    for (int i = 0; i < n; i++) {
        int at = next;
        if (named && !args[i].name) return false;             // the parser has told it
        named |= args[i].name != NULL;
        if (args[i].name) {
            for (at = 0; at < np && params->kid[at]->sym != args[i].name; at++) continue;
            if (at == np) {
                Node arg = {.sym = args[i].name, .span = args[i].span};
                suggest_param(m->c, report(m->c, E_argument_name, args[i].span, m->fn->sym->s, args[i].name->s), m->fn,
                              &arg);
                return false;
            }
        } else next++;
        if (at >= np) {
            ok = false;
            break;
        }
        out[at] = args[i];
        given[at]++;
    }
    for (int i = 0; ok && i < np; i++) ok = given[i] == 1;
    if (!ok) count_args(m->c, m->fn, m->call, np, given, n);
    return ok;
}

static bool match_all(Match *m, const Node *generics, const Arg *args, int n, Arg *out) {
    Check *c = m->c;
    const Node *params = m->fn->kid[1];
    if (!match_given(m, generics) || !order_args(m, args, n, out)) return false;
    int np = params ? (int)params->nkid : 0;
    Scope *was = c->scope;
    c->scope = m->sc;
    bool ok = true;
    for (int pass = 0; pass < 2; pass++) {           // axes first: the tiles' types name them
        for (int i = 0; i < np && ok; i++) {
            const Node *p = params->kid[i];
            bool axis = p->kid[0] && p->kid[0]->kind == N_type_name && strcmp(p->kid[0]->sym->s, "axis") == 0;
            if (axis != (pass == 0)) continue;
            ok = match_param(m, i, p, &out[i]);
            if (ok && axis && p->sym) scope_bind(c, m->sc, p->sym, out[i].e, name_at(p));
        }
    }
    c->scope = was;
    return ok && match_defaults(m);
}

// e as a value of the type that is written where it was made or named; `what` it is, in messages.
Ent declared_as(Check *c, const Node *type, Ent e, Span at, const char *what) {
    if (!type || e.kind == EN_error) return e;
    bool known = false;
    if (type->kind == N_type_name && !scope_find_here(c->scope, type->sym)) {
        bool ok = match_class(type->sym->s, e, &known);
        if (known && ok) return e;
        if (known) {
            report(c, E_type_mismatch, at, what, ent_text(c, e), type->sym->s);
            return ent_error(c);
        }
    }
    TType want;
    if (!eval_type(c, type, &want)) return ent_error(c);
    if (e.kind == EN_int && want.elem == EL_index && want.naxes == 0) return e;
    if (e.kind == EN_bool && want.elem == EL_bool && want.naxes == 0) return e;
    TExpr *x = value_exact(c, e, want, at, what);
    if (!x) return ent_error(c);
    for (int i = 0; i < x->type.naxes; i++) {
        if (type_has(want, x->type.axis[i])) continue;
        Diag *d = report(c, E_type_mismatch, at, what, ttype_text(c, x->type), ttype_text(c, want));
        blame_axis(c, d, x, x->type.axis[i]);
        if (want.naxes == 0 && x->type.elem == want.elem)
            diag_help(d, "without its type, %s can be a tile as well as a number", what);
        return ent_error(c);
    }
    return ent_value(tx_splat(c, x, want, at));
}

static Ent check_result(Check *c, const Node *type, Ent e, const Frame *f, Span at) {
    if (!type || e.kind == EN_error) return e;
    if (type->kind != N_type_tuple) return escapes(c, f, e, at) ? ent_error(c) : declared_as(c, type, e, at, "the result");
    if (e.kind != EN_tuple || e.tuple->n != (int)type->nkid) {
        report(c, E_tuple_count, at, (int)type->nkid, type->nkid == 1 ? "" : "s", e.kind == EN_tuple ? e.tuple->n : 1, "s");
        return ent_error(c);
    }
    for (int i = 0; i < e.tuple->n; i++) e.tuple->at[i] = check_result(c, type->kid[i], e.tuple->at[i], f, at);
    return e;
}

static Ent fn_body(Check *c, Match *m, Entered *e, const Node *body, Span *where) {
    Span at = body ? body->span : m->fn->span;
    Ent r = ent_void();
    if (m->fn->flags & FN_EXPR || (body && body->kind != N_block)) r = eval(c, body);
    else if (body) {
        check_stmts(c, body);
        r = e->frame.returned ? e->frame.result : ent_void();
        if (!e->frame.returned && m->fn->kid[2] && !c->too_big) {
            report(c, E_return_missing, name_at(m->fn), m->fn->sym->s);
            r = ent_error(c);
        }
        if (r.span.hi) at = r.span;
    }
    if (where) *where = at;
    return r;
}

static Ent run_fn(Check *c, Match *m, Arg *args, Span at) {
    const Node *fn = m->fn, *params = fn->kid[1], *body = fn->kid[3];
    Entered e;
    if (!enter(c, &e, fn, fn->sym, at, match_values_text(m), m->sc)) return ent_error(c);
    for (uint32_t i = 0; params && i < params->nkid; i++) {
        const Node *p = params->kid[i];
        if (!p->sym || scope_find_here(m->sc, p->sym)) continue;
        scope_bind(c, m->sc, p->sym, bind_once(c, args[i].e, p->sym, args[i].span), name_at(p));
    }
    Span where;
    Ent r = fn_body(c, m, &e, body, &where);
    r = check_result(c, fn->kid[2], r, &e.frame, where);
    return leave(c, &e, r, at);
}

static bool speculate(Check *c, Match *m, const Node *generics, const Arg *args, int n, Arg *out) {
    int before = diag_count(c->s);
    uint32_t guards = c->guards.n;
    TBody scratch = {0}, *was = c->body;
    bool again = c->again, failed = c->failed;
    c->body = &scratch;
    bool ok = match_all(m, generics, args, n, out);
    c->body = was;
    c->guards.n = guards;
    c->again = again;
    c->failed = failed;
    diag_forget(c->s, before);
    return ok;
}

// The overload that these arguments match; its parameters are left in `sc`, its arguments in `out`.
static FnItem *pick_overload(Check *c, FnItem *f, const Node *generics, const Arg *args, int n, Arg *out, Span at,
                             Match *m) {
    FnItem *pick = f;
    if (f->next) {
        for (pick = f; pick; pick = pick->next) {
            *m = (Match){.c = c, .fn = pick->node, .sc = scope_new(c, pick->env), .call = at};
            if (speculate(c, m, generics, args, n, out)) break;
        }
        if (!pick) {
            Diag *d = report(c, E_no_overload, at, f->node->sym->s);
            for (int i = 0; i < n; i++) diag_label(d, args[i].span, "%s", ent_text(c, args[i].e));
            bool said = false;
            for (FnItem *g = f; g; g = g->next) {
                diag_label(d, name_at(g->node), "tried");
                for (int i = 0; i < n && !said; i++)
                    if (match_wants_tensor(g->node, i, args[i].e)) match_help_view(d, f->node), said = true;
            }
            return NULL;
        }
    }
    *m = (Match){.c = c, .fn = pick->node, .sc = scope_new(c, pick->env), .call = at};
    return match_all(m, generics, args, n, out) ? pick : NULL;
}

static Arg *room_for_args(Check *c, const FnItem *f) {
    uint32_t np = 0;
    for (const FnItem *g = f; g; g = g->next) {
        if (g->node->kid[1] && g->node->kid[1]->nkid > np) np = g->node->kid[1]->nkid;
    }
    return NEW_N(c->a, Arg, np + 1);
}

static Ent call_fn_item(Check *c, FnItem *f, const Node *generics, const Arg *args, int n, Span at) {
    Arg *out = room_for_args(c, f);
    Match m;
    if (!pick_overload(c, f, generics, args, n, out, at, &m)) return ent_error(c);
    return run_fn(c, &m, out, at);
}

// A test's reference: the same, but the body is the kernel's, and the axes of its result may leave it.
Ent call_reference(Check *c, FnItem *f, const Node *generics, const Arg *args, int n, Span at, const Node **fn, Scope **sc) {
    Arg *out = room_for_args(c, f);
    Match m;
    if (!pick_overload(c, f, generics, args, n, out, at, &m)) return ent_error(c);
    const Node *params = m.fn->kid[1], *body = m.fn->kid[3];
    Entered e;
    if (!enter(c, &e, m.fn, m.fn->sym, at, match_values_text(&m), m.sc)) return ent_error(c);
    c->body = e.was_body;
    for (uint32_t i = 0; params && i < params->nkid; i++) {
        const Node *p = params->kid[i];
        if (p->sym && !scope_find_here(m.sc, p->sym))
            scope_bind(c, m.sc, p->sym, bind_once(c, out[i].e, p->sym, out[i].span), name_at(p));
    }
    Ent r = fn_body(c, &m, &e, body, NULL);
    c->frame = e.frame.up;
    c->scope = e.was_scope;
    *fn = m.fn;
    *sc = m.sc;
    return r;
}

// ---- calls -----------------------------------------------------------------------------------------

// `let max = 3; max(a, b)`: the name is that of a function, too.
static void label_hiding(Check *c, Diag *d, Span callee_at) {
    Str text = span_text(c->s, callee_at);
    Sym name = sym(c->s, arena_printf(c->a, "%.*s", (int)text.n, text.p));
    Bind *b = scope_find(c->scope, name), *outer = b ? scope_find(c->file->scope, name) : NULL;
    bool function = builtin_find(name) || (outer && outer->ent.kind == EN_fn);
    if (b && b->span.hi && function && outer != b) diag_label(d, b->span, "this hides the function `%s`", name->s);
}

static Ent call_any(Check *c, Ent callee, const Node *generics, const Arg *args, int n, Span at, Span callee_at) {
    for (int i = 0; i < n; i++) {
        if (args[i].e.kind == EN_error) return ent_error(c);
    }
    switch ((EntKind)callee.kind) {
    case EN_fn: return call_fn_item(c, callee.fn, generics, args, n, at);
    case EN_lambda: return call_lambda(c, callee.lambda, args, n, at, NULL);
    case EN_builtin: return builtin_call(c, callee.builtin, NULL, args, n, at);
    default: break;
    }
    Diag *d = report(c, E_not_callable, callee_at, ent_text(c, callee));
    label_hiding(c, d, callee_at);
    if (callee.kind == EN_kernel && in_item(c, N_graph))
        diag_help(
            d,
            "in a graph a launch stands alone, `h = %s(...);`: what is computed with its result is the work of a kernel",
            callee.node->sym->s);
    else if (callee.kind == EN_kernel && in_item(c, N_test))
        diag_help(
            d,
            "in a test a launch stands alone, `let y = %s(...);`, or as a side of what is compared: `expect %s(...) == ...;`",
            callee.node->sym->s, callee.node->sym->s);
    else if (callee.kind == EN_kernel)
        diag_help(d, "only `graph` and `test` items launch kernels; move the shared code to a `fn`");
    if (callee.kind == EN_tensor) diag_help(d, "index it: `x[...]`");
    if (callee.kind == EN_type) diag_help(d, "convert with `x as %s`", elem_name(callee.elem));
    return ent_error(c);
}

Ent call_entity(Check *c, Ent callee, const Arg *args, int n, Span at) {
    if (callee.kind == EN_error) return callee;
    return call_any(c, callee, NULL, args, n, at, at);
}

// `store(y[n], v)`, `load(x[n])`: those are for raw pointers.
static bool element_for_pointer(Check *c, const Builtin *b, const Node *n) {
    const char *name = builtin_name(b);
    bool store = strcmp(name, "store") == 0;
    const Node *place = n->kid[3];
    if ((!store && strcmp(name, "load") != 0) || !place || place->kind != N_index || place->kid[0]->kind != N_name)
        return false;
    Bind *t = scope_find(c->scope, place->kid[0]->sym);
    if (!t || t->ent.kind != EN_tensor) return false;
    t->used = true;
    Str text = span_text(c->s, place->span);
    Diag *d = report(c, E_pointer, place->span,
                     arena_printf(c->a, "`%s` is for raw pointers, and this is a tensor's element", name));
    diag_help(d, store ? "store to it by assignment: `%.*s = ...;`" : "it is its value already: `%.*s`",
              text.n > 60 ? 1 : (int)text.n, text.p);
    return true;
}

Ent eval_call(Check *c, const Node *n) {
    Ent callee = eval(c, n->kid[0]);
    if (callee.kind == EN_error) return callee;
    int nargs = (int)n->nkid - 3;
    if (callee.kind == EN_builtin && nargs && element_for_pointer(c, callee.builtin, n)) return ent_error(c);
    Arg *args = NEW_N(c->a, Arg, nargs + 1);
    bool lazy = callee.kind == EN_builtin && builtin_is_lazy(callee.builtin);
    bool bad = false;
    for (int i = 0; i < nargs; i++) {
        const Node *a = n->kid[3 + i];
        if (!a) return ent_error(c);
        args[i] = (Arg){.node = a, .span = a->span};
        if (a->kind == N_named) {
            args[i].name = a->sym;
            args[i].node = a->kid[0];
        }
        if (!lazy) args[i].e = eval(c, args[i].node);
        bad = bad || args[i].e.kind == EN_error;
    }
    if (bad && !lazy) return ent_error(c);
    if (callee.kind == EN_builtin) return builtin_call(c, callee.builtin, n, args, nargs, n->span);
    if (n->kid[2] && (callee.kind == EN_fn || callee.kind == EN_lambda)) {
        Diag *d = report(c, E_not_callable, n->kid[2]->span, arena_printf(c->a, "%s with `over`", ent_text(c, callee)));
        diag_help(d, "`over` is for reductions, scans and sorts; functions take axes as arguments");
        return ent_error(c);
    }
    return call_any(c, callee, n->kid[1], args, nargs, n->span, n->kid[0]->span);
}
