// Builtins that work along an axis without folding it: scans, sorts, and lanes taken from other places.
//
//     cumsum(x over n, exclusive = true)     scan, the operation in `op`
//     take(x, i over n)                      i is a place if it is in n: where(that, take(x, where(that, i - first(n), 0)), 0)
//     sort(x over n)                         sort
//     sort(x, v, w over n)                   order(x), once; then x, v and w each taken in that order
#include "sema/builtin.h"

// `name = true`, false if it is not given. False as a result: reported.
bool flag_arg(Check *c, const Call *k, const char *name, int64_t bit, int64_t *flags) {
    const Arg *a = named_arg(k, name);
    if (!a) return true;
    if (a->e.kind != EN_bool) {
        if (a->e.kind != EN_error) report(c, E_not_comptime, a->span, arena_printf(c->a, "`%s`, true or false,", name));
        return false;
    }
    if (a->e.i) *flags |= bit;
    return true;
}

// The axis that the call is along, which x must have; NULL: reported.
static TAxis *along(Check *c, const Call *k, const TExpr *x, int most) {
    int n = positional_args(k);
    TAxis *axes[MAX_AXES];
    if (!over_list(k) || over_list(k)->nkid == 0) {
        Diag *d = report(c, E_over_missing, k->at, call_name(k));
        help_axes(c, d, call_name(k), x->type);
        return NULL;
    }
    if (n < 1 || n > most) {
        report(c, E_argument_count, k->at, call_name(k),
               most == 1 ? "one argument before `over`" : arena_printf(c->a, "1 to %d arguments before `over`", most),
               n);
        return NULL;
    }
    int got = over_axes(c, k, x->type, axes);
    if (got > 1) report(c, E_argument_count, k->at, call_name(k), "one axis", got);
    return got == 1 ? axes[0] : NULL;
}

static TExpr *along_axis(Check *c, TExprKind kind, TType t, TAxis *axis, int64_t flags, Span at, TExpr *x) {
    TExpr *e = tx_new(c, kind, t, at, 1, x);
    e->naxes = 1;
    e->axis = NEW(c->a, TAxis *);
    e->axis[0] = axis;
    e->ival = flags;
    return e;
}

static bool orderable(Check *c, const Call *k, const TExpr *x) {
    if (!x->type.ptr && x->type.elem != EL_bool) return true;
    Diag *d = report(c, E_operand_type, k->at, call_name(k), ttype_text(c, x->type));
    if (x->type.elem == EL_bool) diag_help(d, "convert it with `as i32`");
    return false;
}

Ent do_scan(Check *c, const Call *k) {
    TReduce r = (TReduce)call_code(k);
    TExpr *x = value_of(c, k->args[0].e, k->args[0].span);
    TAxis *axis = x ? along(c, k, x, 1) : NULL;
    int64_t flags = 0;
    if (!axis || !flag_arg(c, k, "exclusive", SCAN_EXCLUSIVE, &flags) ||
        !flag_arg(c, k, "reverse", SCAN_REVERSE, &flags))
        return ent_error(c);
    if (!orderable(c, k, x)) return ent_error(c);
    if (elem_is_storage(x->type.elem) && (r == TR_sum || r == TR_prod)) x = tx_cast(c, x, EL_f32, k->at);
    TExpr *e = along_axis(c, TX_scan, x->type, axis, flags, k->at, x);
    e->op = (uint8_t)r;
    return ent_value(e);
}

static TExpr *taken(Check *c, TExpr *v, TExpr *order, TAxis *axis, Span at) {
    TType t = v->type;
    if (!ttype_union(c, &t, order->type, at)) return NULL;
    TExpr *e = tx_new(c, TX_take, t, at, 2, v, order);
    e->naxes = 1;
    e->axis = NEW(c->a, TAxis *);
    e->axis[0] = axis;
    return e;
}

Ent do_sort(Check *c, const Call *k) {
    enum { MOST = 8 };
    TExpr *x = value_of(c, k->args[0].e, k->args[0].span);
    TAxis *axis = x ? along(c, k, x, MOST) : NULL;
    int64_t flags = 0;
    if (!axis || !flag_arg(c, k, "descending", SORT_DESCENDING, &flags) || !flag_arg(c, k, "nan_first", SORT_NAN_FIRST, &flags) ||
        !orderable(c, k, x))
        return ent_error(c);
    int n = positional_args(k);
    if (n == 1) return ent_value(along_axis(c, TX_sort, x->type, axis, flags, k->at, x));
    TType t = x->type;
    t.elem = EL_index;
    x = keep(c, x, sym(c->s, "key"), k->at);
    TExpr *order = keep(c, along_axis(c, TX_order, t, axis, flags, k->at, x), sym(c->s, "order"), k->at);
    Tuple *all = NEW(c->a, Tuple);
    *all = (Tuple){NEW_N(c->a, Ent, n), n, NULL};
    for (int i = 0; i < n; i++) {
        TExpr *v = i ? value_of(c, k->args[i].e, k->args[i].span) : x;
        if (v && (v->type.ptr || !type_has(v->type, axis))) {
            Diag *d = report(c, E_operand_type, k->args[i].span, call_name(k), ttype_text(c, v->type));
            diag_help(
                d, v->type.ptr ? "a tile of numbers can be carried along" : "what is carried along has the axis `%s`",
                axis->name->s);
            return ent_error(c);
        }
        TExpr *e = v ? taken(c, v, order, axis, k->at) : NULL;
        if (!e) return ent_error(c);
        all->at[i] = ent_value(e);
    }
    return (Ent){.kind = EN_tuple, .tuple = all, .span = k->at};
}

// The value of x where the axis has the index i, as a tensor would be read: 0 or `other` outside.
Ent do_take(Check *c, const Call *k) {
    TExpr *x = value_of(c, k->args[0].e, k->args[0].span);
    TAxis *axis = x ? along(c, k, x, 2) : NULL;
    if (!axis) return ent_error(c);
    if (positional_args(k) != 2) {
        report(c, E_argument_count, k->at, call_name(k), "a tile and an index before `over`", positional_args(k));
        return ent_error(c);
    }
    if (x->type.ptr) {
        report(c, E_operand_type, k->args[0].span, call_name(k), ttype_text(c, x->type));
        return ent_error(c);
    }
    TExpr *i = index_of(c, k->args[1].e, k->args[1].span, "the index");
    if (!i) return ent_error(c);
    Span at = k->at;
    Ent place = ent_value(keep(c, tx_cast(c, i, EL_index, at), sym(c->s, "place"), at)), lo = ent_value(axis->lo),
        end = ent_value(axis_end(c, axis, at));
    Ent within = binary(c, OP_land, binary(c, OP_ge, place, lo, at, at, at), binary(c, OP_lt, place, end, at, at, at),
                        at, at, at);
    Ent lane = select_of(c, within, binary(c, OP_sub, place, lo, at, at, at), ent_int(0, at), at);
    TExpr *order = value_of(c, lane, at);
    if (!order) return ent_error(c);
    TType t = {.elem = x->type.elem};
    for (int n = 0; n < x->type.naxes; n++) if (x->type.axis[n] != axis) t.axis[t.naxes++] = x->type.axis[n];
    if (!ttype_union(c, &t, order->type, at)) return ent_error(c);
    TExpr *v = tx_new(c, TX_take, t, at, 2, x, tx_cast(c, order, EL_index, at));
    v->naxes = 1;
    v->axis = NEW(c->a, TAxis *);
    v->axis[0] = axis;
    const Arg *o = named_arg(k, "other");
    Ent other = x->type.elem == EL_bool ? ent_bool(false, at) : ent_int(0, at);
    if (o) {
        TExpr *given = value_exact(c, o->e, ttype_scalar(x->type.elem), o->span, "`other`");
        if (!given) return ent_error(c);
        other = ent_value(given);
    }
    return select_of(c, within, ent_value(v), other, at);
}
