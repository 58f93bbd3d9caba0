// `dot`: the axis that both sides have is contracted, sums wider than operands.
//
//     dot(a[m, k], b[k, n])            : f32[m, n]      k is the only axis that both have
//     dot(a[h, m, k], b[h, k, n] over k)                h is the batch
//     acc += dot(a, b, prec = "tf32")                   f32 by fewer bits; what it is added to stands outside
#include "sema/builtin.h"

#include <string.h>

static bool dot_result(Elem a, Elem b, Elem *r) {
    bool f8a = a == EL_f8e4m3 || a == EL_f8e5m2, f8b = b == EL_f8e4m3 || b == EL_f8e5m2;
    bool i8a = a == EL_i8 || a == EL_u8, i8b = b == EL_i8 || b == EL_u8;
    if (i8a && i8b) return *r = EL_i32, true;
    if (f8a && f8b) return *r = EL_f32, true;
    if (a != b) return false;
    if (a == EL_f16 || a == EL_bf16 || a == EL_f32) return *r = EL_f32, true;
    return a == EL_f64 ? *r = EL_f64, true : false;
}

static bool dot_prec(Check *c, const Arg *a, Elem e, DotPrec *out) {
    static const char *const names[] = {
        [DP_default] = "default", [DP_tf32x3] = "tf32x3", [DP_tf32] = "tf32", [DP_ieee] = "ieee"};
    const Node *n = a->node;
    Str s = {0};
    if (n->kind == N_string) s = n->str;
    else if (n->kind == N_name) s = (Str){n->sym->s, n->sym->n};
    for (int i = 0; i < 4; i++) {
        if (strlen(names[i]) != s.n || memcmp(names[i], s.p, s.n) != 0) continue;
        if (e != EL_f32 && i != DP_default && i != DP_ieee) {
            report(c, E_dot_axis, a->span, arena_printf(c->a, "precision `%s` is for f32, not %s", names[i], elem_name(e)));
            return false;
        }
        *out = (DotPrec)i;
        return true;
    }
    Diag *d = report(c, E_dot_axis, a->span, "this is not a precision of `dot`");
    diag_help(d, "there are `tf32x3` (the default), `tf32` and `ieee`");
    return false;
}

static bool dot_axes(Check *c, const Call *k, TExpr *a, TExpr *b, TAxis **axes, int *n) {
    *n = 0;
    const Node *over = over_list(k);
    for (uint32_t i = 0; over && i < over->nkid; i++) {
        Ent ax = want_axis(c, over->kid[i]);
        if (ax.kind != EN_axis) return false;
        const TExpr *lacks = !type_has(a->type, ax.axis) ? a : !type_has(b->type, ax.axis) ? b : NULL;
        if (lacks) {
            Diag *d = report(c, E_dot_axis, over->kid[i]->span,
                             arena_printf(c->a, "`dot` contracts axis `%s`, which one side lacks", ax.axis->name->s));
            diag_label(d, lacks->span, "this is %s", ttype_text(c, lacks->type));
            note_values(c, d);
            return false;
        }
        for (int j = 0; j < *n; j++) {
            if (axes[j] == ax.axis) return true;
        }
        axes[(*n)++] = ax.axis;
    }
    if (*n > 0) return true;
    TAxis *shared[MAX_AXES];
    int ns = 0;
    for (int i = 0; i < a->type.naxes; i++) {
        if (type_has(b->type, a->type.axis[i])) shared[ns++] = a->type.axis[i];
    }
    if (ns == 1) {
        axes[(*n)++] = shared[0];
        return true;
    }
    Diag *d = report(c, E_dot_axis, k->at,
                     ns == 0 ? "the sides of `dot` share no axis to contract"
                             : "the sides of `dot` share several axes: say which to contract");
    diag_label(d, a->span, "this is %s", ttype_text(c, a->type));
    diag_label(d, b->span, "this is %s", ttype_text(c, b->type));
    Buf ways = {0};
    for (int i = 0; i < ns; i++) buf_printf(&ways, "%s`over %s`", i == 0 ? "" : i + 1 < ns ? ", " : " or ", shared[i]->name->s);
    if (ns > 1) diag_help(d, "write %s: the others are batch axes", ways.p);
    else diag_help(d, "two axes are the same only if one range made both");
    buf_free(&ways);
    note_values(c, d);
    return false;
}

Ent do_dot(Check *c, const Call *k) {
    DotPrec prec = DP_default;
    const Arg *pos[2] = {NULL, NULL}, *named = NULL;
    for (int i = 0, p = 0; i < k->n; i++) {
        if (k->args[i].name && strcmp(k->args[i].name->s, "prec") == 0) named = &k->args[i];
        else if (!k->args[i].name && p < 2) pos[p++] = &k->args[i];
        else {
            Diag *d = report(c, E_argument_count, k->args[i].span, "dot", "2 arguments, and `prec = ...`", k->n);
            if (!k->args[i].name) diag_help(d, "what it is added to stands outside: `acc += dot(a, b)`");
            return ent_error(c);
        }
    }
    if (!pos[1]) {
        report(c, E_argument_count, k->at, "dot", "2 arguments", pos[0] ? 1 : 0);
        return ent_error(c);
    }
    TExpr *a = k->node ? eval_value(c, pos[0]->node) : value_of(c, pos[0]->e, pos[0]->span);
    TExpr *b = k->node ? eval_value(c, pos[1]->node) : value_of(c, pos[1]->e, pos[1]->span);
    if (!a || !b) return ent_error(c);
    Elem e;
    if (a->type.ptr || b->type.ptr || !dot_result(a->type.elem, b->type.elem, &e)) {
        Diag *d = report(c, E_dot_types, k->at, ttype_text(c, a->type), ttype_text(c, b->type));
        diag_help(
            d,
            a->type.elem != b->type.elem
                ? "convert one side with `as`"
                : "it multiplies f16, bf16, f8, f32, f64, i8 and u8; convert with `as`, or write `sum(a * b over k)`");
        note_values(c, d);
        return ent_error(c);
    }
    TAxis *axes[MAX_AXES];
    int n;
    if (named && !dot_prec(c, named, a->type.elem, &prec)) return ent_error(c);
    if (!dot_axes(c, k, a, b, axes, &n)) return ent_error(c);
    TType t = ttype_scalar(e);
    if (!ttype_union(c, &t, a->type, k->at) || !ttype_union(c, &t, b->type, k->at)) return ent_error(c);
    for (int i = 0; i < n; i++) t = type_without(t, axes[i]);
    TExpr *x = tx_new(c, TX_dot, t, k->at, 2, a, b);
    x->op = (uint8_t)prec;
    x->naxes = (uint8_t)n;
    x->axis = NEW_N(c->a, TAxis *, n);
    memcpy(x->axis, axes, sizeof *axes * (size_t)n);
    return ent_value(x);
}
