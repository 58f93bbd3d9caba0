// Calls: a `fn` is evaluated in place, with its parameters bound to the arguments' entities.
//
//     fn matmul<T: type, BK: int = 64>(a: T[M, K], b: T[K, N], m: axis, n: axis) -> f32[m, n]
//
// Matching an argument to `T[M, K]` takes a tensor or a view apart: T, M and K are bound to its element
// type and dimensions where they are new, and must agree where they are not. A type whose names are
// axes, `f32[m, n]`, is that of a tile. The body becomes statements and a value (TX_block); with an
// empty body, only the value is left. Overloads are tried in order of declaration, quietly.
#include "sema/internal.h"

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
    if (same >= MAX_SAME || depth >= MAX_INLINE_DEPTH) {
        Diag *d = report(c, E_recursion, call, name ? name->s : "a function value");
        diag_label(d, name_at(fn), "declared here");
        diag_help(d, "functions are inlined, so they cannot recurse; write a loop");
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
    Ent r = ent_void();
    if (body && body->kind == N_block) {
        check_stmts(c, body);                 // a value at the end is "returned" (BLOCK_VALUE)
        r = e.frame.returned ? e.frame.result : ent_void();
    } else {
        r = eval(c, body);
    }
    return leave(c, &e, r, at);
}

// ---- matching a parameter ----------------------------------------------------------------------------

typedef struct Match {
    Check      *c;
    const Node *fn;
    Scope      *sc;          // parameters and compile-time names, as they are found
    Span        call;
} Match;

static const Node *find_generic(const Node *fn, Sym name) {
    const Node *gs = fn->kid[0];
    for (uint32_t i = 0; gs && i < gs->nkid; i++) {
        if (gs->kid[i]->sym == name) return gs->kid[i];
    }
    return NULL;
}

static Diag *mismatched(Match *m, int i, const Arg *a, const char *want) {
    const Node *p = m->fn->kid[1]->kid[i];
    Diag *d = report(m->c, E_argument_type, a->span, i + 1, m->fn->sym->s, want, ent_text(m->c, a->e));
    diag_label(d, p->span, "the parameter");
    bool tile = a->e.kind == EN_value && a->e.x->type.naxes > 0 && !a->e.x->type.ptr;
    bool whole = a->e.kind == EN_tensor && a->e.tensor->rank && p->kid[0] && p->kid[0]->kind == N_type_name;
    if (whole) diag_help(d, "what is computed with is a tile: `x[m, n]`, with the axes that it is to have");
    if (tile && p->kid[0] && p->kid[0]->kind == N_type_name && p->sym)
        diag_help(d, "without its type, `%s` takes tiles as well as numbers", p->sym->s);
    return d;
}

static bool mismatch(Match *m, int i, const Arg *a, const char *want) { return mismatched(m, i, a, want), false; }

// One that would fit, were its elements of another type.
static bool wrong_elem(Match *m, int i, const Arg *a, const char *want, Elem fits) {
    Diag *d = mismatched(m, i, a, want);
    if (a->e.kind == EN_axis || (a->e.kind == EN_value && !a->e.x->type.ptr)) diag_help(d, "convert it with `as %s`", elem_name(fits));
    return false;
}

static bool dims_agree(Match *m, Sym name, Ent have, Ent was, Span at) {
    Check *c = m->c;
    if (have.kind == EN_error || was.kind == EN_error) return true;
    if (have.kind == EN_int && was.kind == EN_int) {
        if (have.i == was.i) return true;
        Diag *d = report(c, E_dim_mismatch, at, name ? name->s : "a dimension", ent_text(c, have), ent_text(c, was));
        note_values(c, d);
        return false;
    }
    if (have.kind == EN_value && was.kind == EN_value && tx_same(have.x, was.x)) return true;
    Ent same = binary(c, OP_eq, was, have, at, at, at);
    if (same.kind != EN_value) return same.kind != EN_error;
    const char *text = arena_printf(c->a, "%s (%s)", expr_text(c, same.x), place_text(c, at));
    if (tx_is_host(c, same.x)) {
        guard_add(c, same.x, text, at);
        return true;
    }
    TStmt *s = ts_emit(c, TS_assert, at);
    s->cond = same.x;
    s->str = (Str){text, strlen(text)};
    return true;
}

static bool bind_elem(Match *m, const Node *type, Elem have, int i, const Arg *a) {
    Check *c = m->c;
    if (have == EL_none) return false;
    if (type->sym && !scope_find_here(m->sc, type->sym)) {
        const Node *g = find_generic(m->fn, type->sym);
        if (g) {
            Ent e = {.kind = EN_type, .elem = have, .span = a->span, .origin = ORIGIN_INFERRED};
            return generic_bind(c, m->sc, g, e, ORIGIN_INFERRED, a->span);
        }
    }
    Elem want;
    if (!eval_elem(c, type, &want)) return false;
    return want == have || wrong_elem(m, i, a, arena_printf(c->a, "of %s", elem_name(want)), want);
}

static bool match_tensor(Match *m, int i, const Node *type, const Arg *a) {
    Check *c = m->c;
    TensorRef *t = a->e.tensor;
    int rank = (int)type->nkid - 1;
    if (rank != t->rank)
        return mismatch(m, i, a, arena_printf(c->a, "a tensor of %d dimension%s", rank, rank == 1 ? "" : "s"));
    Elem have = tensor_elem(c, t, a->span);
    if (have == EL_none || !bind_elem(m, type->kid[0], have, i, a)) return false;
    for (int k = 0; k < rank; k++) {
        const Node *dim = type->kid[1 + k];
        if (t->lo[k].kind != EN_int || t->lo[k].i != 0) {
            return mismatch(m, i, a, "a tensor, or a view whose ranges start at 0");
        }
        Ent have_dim = t->dim[k];
        if (have_dim.dim > 0 && (uint32_t)have_dim.dim <= c->dim_seen.n) c->dim_seen.at[have_dim.dim - 1] = true;
        if (dim->kind == N_colon) continue;
        Bind *b = dim->kind == N_name ? scope_find_here(m->sc, dim->sym) : NULL;
        if (dim->kind == N_name && !b) {
            const Node *g = find_generic(m->fn, dim->sym);
            if (g) {                                 // a compile-time name: the dimension must be a number
                int64_t v;
                if (!dim_fixed(c, have_dim, &v, a->span)) return false;
                Ent e = ent_int(v, a->span);
                e.dim = have_dim.dim;
                if (!generic_bind(c, m->sc, g, e, ORIGIN_INFERRED, a->span)) return false;
            } else {
                scope_bind(c, m->sc, dim->sym, have_dim, a->span);
            }
            continue;
        }
        Ent want = b ? b->ent : eval(c, dim);
        if (b) b->used = true;
        if (!dims_agree(m, dim->kind == N_name ? dim->sym : NULL, have_dim, want, a->span)) return false;
    }
    return true;
}

static bool indexed(const Node *n, Sym name) {
    if (!n) return false;
    if (n->kind == N_index && n->kid[0] && n->kid[0]->kind == N_name && n->kid[0]->sym == name) return true;
    for (uint32_t i = 0; i < n->nkid; i++) if (indexed(n->kid[i], name)) return true;
    return false;
}

// `x: T[N]` of a tensor that the function indexes, given a tile: `moments(x[m, :])`.
static bool wants_tensor(const Node *fn, int i, Ent have) {
    const Node *p = fn->kid[1] && i < (int)fn->kid[1]->nkid ? fn->kid[1]->kid[i] : NULL;
    bool wants = false;
    for (uint32_t k = 2; p && p->kid[0] && p->kid[0]->kind == N_type_tensor && k < fn->nkid; k++) wants = wants || indexed(fn->kid[k], p->sym);
    return wants && have.kind == EN_value && have.x->type.naxes > 0;
}

static void help_view(Diag *d, const Node *fn) {
    diag_help(d, "`%s` reads it with an index: instead of the tile `x[m, n]` it takes a view, `|i in N| x[m, i]`", fn->sym->s);
}

static bool match_tile(Match *m, int i, const Node *type, Arg *a) {
    Check *c = m->c;
    TExpr *x = is_const(a->e) ? NULL : value_of(c, a->e, a->span);
    if (!x && !is_const(a->e)) return false;
    if (x && (x->type.ptr || !bind_elem(m, type->kid[0], x->type.elem, i, a))) return false;
    TType t = {0};
    int unknown = -1;
    for (uint32_t k = 1; k < type->nkid; k++) {
        const Node *dim = type->kid[k];
        if (dim->kind == N_name && !scope_find(m->sc, dim->sym)) unknown = unknown < 0 ? (int)k : (int)type->nkid;
        else {
            Ent ax = want_axis(c, dim);
            if (ax.kind != EN_axis || !type_add(c, &t, ax.axis, dim->span)) return false;
        }
    }
    if (unknown >= 0 && x) {                         // one new name takes the one axis that is left
        TAxis *left = NULL;
        int nleft = 0;
        for (int k = 0; k < x->type.naxes; k++) {
            if (!type_has(t, x->type.axis[k])) nleft++, left = x->type.axis[k];
        }
        if (nleft == 1 && unknown < (int)type->nkid) {
            if (wants_tensor(m->fn, i, a->e)) return help_view(mismatched(m, i, a, "a tensor, or a view"), m->fn), false;
            Ent ax = {.kind = EN_axis, .axis = left, .span = a->span};
            scope_bind(c, m->sc, type->kid[unknown]->sym, ax, a->span);
            return true;
        }
        return mismatch(m, i, a, "a tile whose axes are known (pass them as `axis` parameters)");
    }
    for (int k = 0; x && k < x->type.naxes; k++) {
        if (!type_has(t, x->type.axis[k])) {
            t.elem = x->type.elem;
            return mismatch(m, i, a, ttype_text(c, t));
        }
    }
    if (!x && !eval_elem(c, type->kid[0], &t.elem)) return false;
    if (!x) x = value_exact(c, a->e, ttype_scalar(t.elem), a->span, "the argument");
    if (!x) return false;
    a->e = ent_value(x);
    return true;
}

static bool class_match(const char *kind, Ent e, bool *known) {
    bool value = e.kind == EN_value && !e.x->type.ptr;
    *known = true;
    if (strcmp(kind, "axis") == 0) return e.kind == EN_axis;
    if (strcmp(kind, "type") == 0) return e.kind == EN_type;
    if (strcmp(kind, "fn") == 0) return e.kind == EN_fn || e.kind == EN_lambda || e.kind == EN_builtin;
    if (strcmp(kind, "float") == 0)
        return e.kind == EN_float || e.kind == EN_int || (value && elem_is_float(e.x->type.elem));
    if (strcmp(kind, "int") == 0) return e.kind == EN_int || e.kind == EN_axis || (value && elem_is_int(e.x->type.elem));
    *known = false;
    return false;
}

static bool match_name(Match *m, int i, const Node *type, Arg *a) {
    Check *c = m->c;
    bool known = false;
    if (!scope_find_here(m->sc, type->sym)) {
        bool ok = class_match(type->sym->s, a->e, &known);
        const char *kind = arena_printf(c->a, "of kind `%s`", type->sym->s);
        if (known && strcmp(type->sym->s, "float") == 0) return ok || wrong_elem(m, i, a, kind, EL_f32);
        if (known) return ok || mismatch(m, i, a, kind);
    }
    if (strcmp(type->sym->s, "index") == 0) {
        bool scalar = a->e.kind == EN_int || (a->e.kind == EN_value && a->e.x->type.naxes == 0);
        if (a->e.kind == EN_int) return true;
        TExpr *x = scalar ? index_of(c, a->e, a->span, "the argument") : NULL;
        if (!x) return mismatch(m, i, a, "a scalar integer");
        int16_t dim = a->e.dim;
        a->e = ent_value(tx_cast(c, x, EL_index, a->span));
        a->e.dim = dim;
        return true;
    }
    if (a->e.kind == EN_axis) return mismatch(m, i, a, "a scalar");
    if (a->e.kind == EN_value && !a->e.x->type.ptr && !bind_elem(m, type, a->e.x->type.elem, i, a)) return false;
    Elem e;
    // T of a literal: its default
    if (is_const(a->e) && !scope_find_here(m->sc, type->sym) && find_generic(m->fn, type->sym)) return true;
    if (!eval_elem(c, type, &e)) return false;
    if (e == EL_bool && a->e.kind == EN_bool) return true;
    if (!is_const(a->e) && a->e.kind != EN_value) return mismatch(m, i, a, elem_name(e));
    if (a->e.kind == EN_value && a->e.x->type.naxes > 0)
        return mismatch(m, i, a, arena_printf(c->a, "a scalar %s", elem_name(e)));
    TExpr *x = value_exact(c, a->e, ttype_scalar(e), a->span, "the argument");
    if (!x) return false;
    a->e = ent_value(x);
    return true;
}

static bool match_param(Match *m, int i, const Node *p, Arg *a) {
    Check *c = m->c;
    const Node *type = p->kid[0];
    if (a->e.kind == EN_error) return false;
    if (a->e.kind == EN_void) return mismatch(m, i, a, "a value");
    if (!type) return true;
    if (p->flags & (PARAM_OUT | PARAM_INOUT) && a->e.kind == EN_tensor) {
        if (a->e.tensor->view || a->e.tensor->t->mode == PM_IN) return mismatch(m, i, a, "a tensor that may be written");
    }
    if (type->kind == N_type_tensor) return a->e.kind == EN_tensor ? match_tensor(m, i, type, a) : match_tile(m, i, type, a);
    if (a->e.kind == EN_tensor) return mismatch(m, i, a, "a value");
    if (type->kind == N_type_name) return match_name(m, i, type, a);
    if (type->kind == N_type_ptr) {
        if (a->e.kind != EN_value || !a->e.x->type.ptr || a->e.x->type.naxes) return mismatch(m, i, a, "a pointer");
        return bind_elem(m, type->kid[0], a->e.x->type.elem, i, a);
    }
    if (type->kind != N_error_stmt) report(c, E_not_value, type->span, "this type");
    return false;
}

// ---- generics of a call --------------------------------------------------------------------------------

static bool explicit_generics(Match *m, const Node *given) {
    const Node *gs = m->fn->kid[0];
    uint32_t next = 0;
    for (uint32_t i = 0; given && i < given->nkid; i++) {
        const Node *v = given->kid[i];
        const Node *g = NULL;
        if (v->kind == N_named) g = find_generic(m->fn, v->sym);
        else if (gs && next < gs->nkid) g = gs->kid[next++];
        if (!g) {
            report(m->c, E_generic_unknown, v->span, m->fn->sym->s,
                   v->kind == N_named ? arena_printf(m->c->a, "`%s`", v->sym->s)
                                      : arena_printf(m->c->a, "number %u", i + 1));
            return false;
        }
        Ent e = eval(m->c, v->kind == N_named ? v->kid[0] : v);
        if (e.kind == EN_error || !generic_bind(m->c, m->sc, g, e, ORIGIN_SET, v->span)) return false;
    }
    return true;
}

static bool default_generics(Match *m) {
    Check *c = m->c;
    const Node *gs = m->fn->kid[0];
    for (uint32_t i = 0; gs && i < gs->nkid; i++) {
        const Node *g = gs->kid[i];
        if (scope_find_here(m->sc, g->sym)) continue;
        Scope *was = c->scope;
        c->scope = m->sc;
        Ent e = g->kid[1] ? eval(c, g->kid[1]) : ent_void();
        if (e.kind == EN_value && g->kid[2]) e = eval(c, g->kid[2]);
        c->scope = was;
        if (e.kind == EN_void) {
            Diag *d = report(c, E_generic_missing, m->call, g->sym->s, m->fn->sym->s);
            diag_label(d, g->span, "declared here");
            diag_help(d, "give it: `%s<%s = ...>(...)`", m->fn->sym->s, g->sym->s);
            return false;
        }
        if (e.kind == EN_error || !generic_bind(c, m->sc, g, e, ORIGIN_DEFAULT, g->span)) return false;
    }
    return true;
}

static const char *values_text(Match *m) {
    const Node *gs = m->fn->kid[0];
    Buf b = {0};
    for (uint32_t i = 0; gs && i < gs->nkid; i++) {
        Bind *v = scope_find_here(m->sc, gs->kid[i]->sym);
        if (!v) continue;
        buf_puts(&b, b.n ? ", " : "<");
        if (v->ent.kind == EN_int) buf_printf(&b, "%s = %lld", v->name->s, (long long)v->ent.i);
        else if (v->ent.kind == EN_type) buf_printf(&b, "%s = %s", v->name->s, elem_name(v->ent.elem));
        else if (v->ent.kind == EN_bool) buf_printf(&b, "%s = %s", v->name->s, v->ent.i ? "true" : "false");
        else buf_printf(&b, "%s", v->name->s);
    }
    if (b.n) buf_puts(&b, ">");
    const char *r = b.n ? arena_printf(m->c->a, "%s", b.p) : "";
    buf_free(&b);
    return r;
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
    if (!explicit_generics(m, generics) || !order_args(m, args, n, out)) return false;
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
    return ok && default_generics(m);
}

// e as a value of the type that is written where it was made or named; `what` it is, in messages.
Ent declared_as(Check *c, const Node *type, Ent e, Span at, const char *what) {
    if (!type || e.kind == EN_error) return e;
    bool known = false;
    if (type->kind == N_type_name && !scope_find_here(c->scope, type->sym)) {
        bool ok = class_match(type->sym->s, e, &known);
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
    if (!enter(c, &e, fn, fn->sym, at, values_text(m), m->sc)) return ent_error(c);
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
                    if (wants_tensor(g->node, i, args[i].e)) help_view(d, f->node), said = true;
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
    if (!enter(c, &e, m.fn, m.fn->sym, at, values_text(&m), m.sc)) return ent_error(c);
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
