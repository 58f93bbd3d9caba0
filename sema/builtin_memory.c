// Builtins that touch memory: pointers read and written, atomic operations on elements of tensors and through pointers.
//
//     load(p + i, where = i < n, other = 0)     ptrload: what the mask leaves out is `other`, or 0
//     store(p + i, v, where = i < n)            ptrstore
//     atomic_add(h[b], 1)                       atomic; the old value
#include "sema/builtin.h"

// element: a tensor's element would do, too.
static TExpr *pointer_arg(Check *c, Ent e, Span at, bool element) {
    if (e.kind == EN_error) return NULL;
    if (e.kind == EN_value && e.x->type.ptr) return e.x;
    Diag *d = report(c, E_pointer, at, arena_printf(c->a, "%s is needed here, not %s", element ? "an element of a tensor, or a pointer," : "a pointer", ent_text(c, e)));
    if (e.kind == EN_tensor && element)
        diag_help(d, e.tensor->rank == 0 ? "its one element is `%s[]`" : "an element of it is `%s[...]`", e.tensor->name ? e.tensor->name->s : "x");
    else if (e.kind == EN_tensor) diag_help(d, "a tensor is read with `x[...]` and written with `x[...] = v`");
    else if (e.kind == EN_value && e.x->kind == TX_load)
        diag_help(d, "`%s[...]` is the value already; what is stored is assigned: `y[...] = v`", e.x->tensor->name->s);
    return NULL;
}

// A mask, for raw pointers: NULL when there is none. Its axes join *t.
static bool mask_arg(Check *c, const Arg *a, TType *t, TExpr **out) {
    *out = NULL;
    if (!a) return true;
    Ent e = a->e.kind == EN_error && a->node ? eval(c, a->node) : a->e;
    if (e.kind == EN_bool && e.i) return true;
    TExpr *x = value_of(c, e, a->span);
    if (!x) return false;
    if (x->type.elem != EL_bool || x->type.ptr) {
        report(c, E_type_mismatch, a->span, "the condition", ttype_text(c, x->type), "bool");
        return false;
    }
    *out = x;
    return ttype_union(c, t, x->type, a->span);
}

Ent do_load(Check *c, const Call *k) {
    TExpr *p = pointer_arg(c, k->args[0].e, k->args[0].span, false), *mask, *other = NULL;
    if (!p) return ent_error(c);
    TType t = p->type;
    t.ptr = false;
    const Arg *o = named_arg(k, "other");
    if (!mask_arg(c, named_arg(k, "where"), &t, &mask)) return ent_error(c);
    if (o) {
        other = value_exact(c, o->e, ttype_scalar(t.elem), o->span, "`other`");
        if (!other || !ttype_union(c, &t, other->type, o->span)) return ent_error(c);
    }
    return ent_value(tx_new(c, TX_ptrload, t, k->at, 3, p, mask, other));
}

Ent do_store(Check *c, const Call *k) {
    if (positional_args(k) < 2) {
        report(c, E_argument_count, k->at, "store", "a pointer and a value", k->n);
        return ent_error(c);
    }
    TExpr *p = pointer_arg(c, k->args[0].e, k->args[0].span, false), *mask;
    if (!p) return ent_error(c);
    TType t = p->type;
    if (!mask_arg(c, named_arg(k, "where"), &t, &mask)) return ent_error(c);
    TExpr *v = value_exact(c, k->args[1].e, ttype_scalar(t.elem), k->args[1].span, "the value stored");
    if (!v) return ent_error(c);
    for (int i = 0; i < v->type.naxes; i++) {
        if (type_has(p->type, v->type.axis[i])) continue;
        Diag *d = report(c, E_store_axis, k->args[1].span, v->type.axis[i]->name->s);
        blame_axis(c, d, v, v->type.axis[i]);
        return ent_error(c);
    }
    TStmt *s = ts_emit(c, TS_ptrstore, k->at);
    s->idx = NEW(c->a, TExpr *);
    s->idx[0] = p;
    s->nidx = 1;
    s->value = v;
    s->cond = mask;
    return ent_void();
}

// 16 bits are the fewest that a GPU swaps at once. A swap around an element of 8 bits takes in its neighbour, which may be
// past the tensor's end.
enum { LEAST_BITS = 16 };

static bool atomic_takes(TAtomic op, Elem e) {
    if (e == EL_bool || e == EL_index || elem_bits(e) < LEAST_BITS) return false;
    return !elem_is_float(e) || (op != TA_and && op != TA_or && op != TA_xor);
}

static const char *atomic_help(TAtomic op, Elem e) {
    if (e == EL_bool || elem_bits(e) < LEAST_BITS)
        return "a GPU swaps 16 bits or more at once, so an element of 8 only with its neighbour, which may be past the tensor's end";
    return op == TA_and || op == TA_or || op == TA_xor ? "it takes integers of 16, 32 and 64 bits"
                                                       : "it takes integers and floats of 16, 32 and 64 bits";
}

// Where an atomic operation is done: an element of a tensor, or where a pointer points.
typedef struct Place { TTensor *tensor; TExpr *idx[MAX_RANK]; int n; TType type; } Place;

// As written, where the call is; a function value is called with what has been evaluated.
static Ent atomic_arg(Check *c, const Call *k, int i) { return k->node ? eval(c, k->args[i].node) : k->args[i].e; }

static bool place_of(Check *c, const Call *k, Place *at) {
    if (k->node && k->args[0].node->kind == N_index) {
        at->n = lvalue_index(c, k->args[0].node, &at->tensor, at->idx, &at->type);
        return at->n >= 0;
    }
    at->idx[0] = pointer_arg(c, atomic_arg(c, k, 0), k->args[0].span, true);
    if (!at->idx[0]) return false;
    at->n = 1;
    at->type = at->idx[0]->type;
    at->type.ptr = false;
    return true;
}

Ent do_atomic(Check *c, const Call *k) {
    TAtomic op = (TAtomic)call_code(k);
    int want = op == TA_cas ? 3 : 2;
    if (positional_args(k) != want) {
        Diag *d = report(c, E_argument_count, k->at, call_name(k),
                         op == TA_cas ? "a place, the expected and the new value" : "a place and a value",
                         positional_args(k));
        diag_help(d, op == TA_cas ? "write `%s(x[i], expected, v)`" : "write `%s(x[i], v)`", call_name(k));
        return ent_error(c);
    }
    Place at = {0};
    if (!place_of(c, k, &at)) return ent_error(c);
    TExpr *mask = NULL;
    TType t = at.type;
    if (at.tensor && named_arg(k, "where")) {
        report(c, E_pointer, named_arg(k, "where")->span,
               "`where` is for raw pointers; an index out of a tensor's range is skipped");
        return ent_error(c);
    }
    if (!mask_arg(c, named_arg(k, "where"), &t, &mask)) return ent_error(c);
    if (!atomic_takes(op, t.elem)) {
        Diag *d = report(c, E_operand_type, k->at, call_name(k), elem_name(t.elem));
        diag_help(d, "%s", atomic_help(op, t.elem));
        return ent_error(c);
    }
    TExpr *v[2] = {NULL, NULL};
    for (int i = 1; i < want; i++) {
        v[i - 1] = value_exact(c, atomic_arg(c, k, i), ttype_scalar(t.elem), k->args[i].span, "the value");
        if (!v[i - 1] || !ttype_union(c, &t, v[i - 1]->type, k->args[i].span)) return ent_error(c);
    }
    TExpr *x = tx_new(c, TX_atomic, t, k->at, 0);
    x->op = (uint8_t)op;
    x->tensor = at.tensor;
    x->nidx = (uint8_t)at.n;
    x->nkid = at.tensor ? 2u + (uint32_t)at.n : 4u;
    x->kid = NEW_N(c->a, TExpr *, x->nkid);
    x->kid[0] = v[want - 2];
    x->kid[1] = op == TA_cas ? v[0] : NULL;
    for (int i = 0; i < at.n; i++) x->kid[2 + i] = at.idx[i];
    if (!at.tensor) x->kid[3] = mask;
    return ent_value(x);
}
