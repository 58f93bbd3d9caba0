// A call's arguments against a function's parameters: names are bound where they are new, and must agree where they are not.
//
//     fn rows<T: float>(x: T[M, K], w: f32[k], n: axis)
//
//     x: T[M, K]     a tensor or a view: T is its element type, M and K its dimensions, sizes that were known before are compared
//     w: f32[k]      a tile over an axis, whose name k becomes
//     n: axis        an axis, or a range that becomes one
//
// Then what `<>` gives, and what it leaves to defaults. The first thing that does not fit is reported at the argument, with the parameter beside it.
#include "sema/match.h"

#include <string.h>

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
    if (tx_is_host(same.x)) {
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
bool match_wants_tensor(const Node *fn, int i, Ent have) {
    const Node *p = fn->kid[1] && i < (int)fn->kid[1]->nkid ? fn->kid[1]->kid[i] : NULL;
    bool wants = false;
    for (uint32_t k = 2; p && p->kid[0] && p->kid[0]->kind == N_type_tensor && k < fn->nkid; k++) wants = wants || indexed(fn->kid[k], p->sym);
    return wants && have.kind == EN_value && have.x->type.naxes > 0;
}

void match_help_view(Diag *d, const Node *fn) {
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
            if (match_wants_tensor(m->fn, i, a->e)) return match_help_view(mismatched(m, i, a, "a tensor, or a view"), m->fn), false;
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

bool match_class(const char *kind, Ent e, bool *known) {
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
        bool ok = match_class(type->sym->s, a->e, &known);
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

bool match_param(Match *m, int i, const Node *p, Arg *a) {
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

bool match_given(Match *m, const Node *given) {
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

bool match_defaults(Match *m) {
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

const char *match_values_text(Match *m) {
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
