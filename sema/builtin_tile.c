// Tiles from values and axes, and a tile's elements or axes taken for others: zeros, ones, full; where; bitcast; rename.
#include "sema/builtin.h"

static bool generic_elem(Check *c, const Call *k, Elem *out) {      // <T>; false: reported, or none and *out unchanged
    const Node *g = k->node ? k->node->kid[1] : NULL;
    if (!g || g->nkid == 0) return true;
    if (g->nkid != 1) {
        report(c, E_argument_count, g->span, call_name(k), "one element type", (int)g->nkid);
        return false;
    }
    Ent e = eval(c, g->kid[0]);
    if (e.kind == EN_error) return false;
    if (e.kind == EN_type) {
        *out = e.elem;
        return true;
    }
    report(c, E_generic_kind, g->kid[0]->span, "T", "an element type", ent_text(c, e));
    return false;
}

static bool axes_of(Check *c, const Arg *args, int n, TType *t) {
    for (int i = 0; i < n; i++) {
        Ent e = as_axis(c, args[i].e, args[i].span);
        if (e.kind == EN_error) return false;
        if (!type_add(c, t, e.axis, args[i].span)) return false;
    }
    return true;
}

static Ent filled(Check *c, TExpr *v, TType t, Span at) { return v ? ent_value(tx_splat(c, v, t, at)) : ent_error(c); }

Ent do_zeros(Check *c, const Call *k) {
    Elem e = EL_f32;
    if (!generic_elem(c, k, &e)) return ent_error(c);
    TType t = ttype_scalar(e);
    if (!axes_of(c, k->args, k->n, &t)) return ent_error(c);
    TExpr *v = elem_is_float(e) ? tx_const_float(c, call_code(k), e, k->at) : tx_const_int(c, call_code(k), e, k->at);
    return filled(c, v, t, k->at);
}

Ent do_full(Check *c, const Call *k) {
    Elem e = EL_none;
    if (!generic_elem(c, k, &e)) return ent_error(c);
    TExpr *v = e == EL_none ? value_of(c, k->args[0].e, k->args[0].span)
                            : value_exact(c, k->args[0].e, ttype_scalar(e), k->args[0].span, "the value");
    if (!v) return ent_error(c);
    TType t = v->type;
    if (!axes_of(c, k->args + 1, k->n - 1, &t)) return ent_error(c);
    return filled(c, v, t, k->at);
}

// A condition that is known takes one of the two, in the type that both have.
Ent do_where(Check *c, const Call *k) {
    Ent cond = k->args[0].e, a = k->args[1].e, b = k->args[2].e;
    bool known = cond.kind == EN_bool, values = a.kind == EN_value || b.kind == EN_value;
    if (known && !values) return cond.i ? a : b;
    Ent e = select_of(c, cond, a, b, k->at);
    return known && e.kind == EN_value ? ent_value(tx_splat(c, e.x->kid[cond.i ? 1 : 2], e.x->type, k->at)) : e;
}

Ent do_bitcast(Check *c, const Call *k) {
    Elem e = EL_none;
    if (!generic_elem(c, k, &e)) return ent_error(c);
    if (e == EL_none) {
        report(c, E_generic_missing, k->at, "T", "bitcast");
        return ent_error(c);
    }
    TExpr *x = value_of(c, k->args[0].e, k->args[0].span);
    if (!x) return ent_error(c);
    if (x->type.ptr || elem_bits(x->type.elem) != elem_bits(e) || e == EL_bool || x->type.elem == EL_bool ||
        e == EL_index || x->type.elem == EL_index) {
        report(c, E_bitcast_width, k->at, ttype_text(c, x->type), elem_name(e));
        return ent_error(c);
    }
    TType t = x->type;
    t.elem = e;
    return ent_value(t.elem == x->type.elem ? x : tx_new(c, TX_bitcast, t, k->at, 1, x));
}

// Have both axes the same live lanes? `s = first(t) .. end(t) by B` has those of t.
static bool same_stretch(Check *c, const TAxis *m, const TAxis *n, Span at) {
    if (!tx_same(m->lo, n->lo)) return false;
    if (tx_same(m->hi, n->hi)) return true;
    const TExpr *to = axis_end(c, m, at), *too = axis_end(c, n, at);
    return tx_same(to, n->hi) || tx_same(m->hi, too) || tx_same(to, too);
}

Ent do_rename(Check *c, const Call *k) {
    TExpr *x = value_of(c, k->args[0].e, k->args[0].span);
    TType from = {0}, to = {0};
    if (!x || !axes_of(c, k->args + 1, 1, &from) || !axes_of(c, k->args + 2, 1, &to)) return ent_error(c);
    TAxis *m = from.axis[0], *n = to.axis[0];
    bool has = type_has(x->type, m), same = m->extent == n->extent && ((m->full && n->full) || same_stretch(c, m, n, k->at));
    if (!has || !same || type_has(x->type, n)) {
        const char *why = !has                   ? "the value does not have it"
                          : type_has(x->type, n) ? "the value has both"
                                                 : "their ranges may differ in length";
        Diag *d = report(c, E_rename_axes, k->at, m->name->s, n->name->s, why);
        diag_label(d, m->span, "%s", axis_text(c, m));
        diag_label(d, n->span, "%s", axis_text(c, n));
        if (has && !type_has(x->type, n) && m->extent == n->extent)
            diag_help(d, "a second axis over the same stretch is `let %s = first(%s) .. end(%s) by %lld;`", n->name->s, m->name->s,
                      m->name->s, (long long)m->extent);
        return ent_error(c);
    }
    TType t = type_without(x->type, m);
    if (!type_add(c, &t, n, k->at)) return ent_error(c);
    TExpr *r = tx_new(c, TX_rename, t, k->at, 1, x);
    r->axis = NEW_N(c->a, TAxis *, 2);
    r->axis[0] = m;
    r->axis[1] = n;
    r->naxes = 2;
    return ent_value(r);
}
