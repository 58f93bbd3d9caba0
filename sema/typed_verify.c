// A verifier of typed trees: what typed.h promises, checked, and all that is wrong reported. The tests
// and the fuzzer run it on everything; a finding is a bug of sema, never of the program.
//
// Variables must be defined where they are used, in the same body or one around it, and so must those in
// the bounds of the axes that a value has.
#include "sema/internal.h"

#include <stdlib.h>
#include <string.h>

typedef struct Verify { const TKernel *k; Buf *out; bool *defined; bool *axis_open; int found, depth; } Verify;

static void check_body(Verify *v, const TBody *b);
static void check_expr(Verify *v, const TExpr *x);

static void wrong(Verify *v, const char *what, const char *detail) {
    if (v->found++ < 50) buf_printf(v->out, "%s: %s %s\n", v->k->name ? v->k->name->s : "?", what, detail);
}

static bool axes_in(TType a, TType b) {
    for (int i = 0; i < a.naxes; i++) {
        if (!type_has(b, a.axis[i])) return false;
    }
    return true;
}

static void check_axis(Verify *v, const TAxis *ax) {
    if (ax->id < 0 || ax->id >= v->k->naxes) {
        wrong(v, "axis id", ax->name->s);
        return;
    }
    if (v->axis_open[ax->id]) return;                  // once at a time: bounds of bounds end
    v->axis_open[ax->id] = true;
    if (ax->extent < 0 || ax->lo->type.elem != EL_index || ax->hi->type.elem != EL_index || ax->lo->type.naxes ||
        ax->hi->type.naxes)
        wrong(v, "bounds of axis", ax->name->s);
    if (ax->full && ax->lo->kind == TX_const && ax->hi->kind == TX_const && ax->lo->ival == 0 &&
        ax->hi->ival < ax->extent)
        wrong(v, "full axis", ax->name->s);
    check_expr(v, ax->lo);
    check_expr(v, ax->hi);
    v->axis_open[ax->id] = false;
}

static void check_type(Verify *v, TType t, const char *where) {
    for (int i = 0; i < t.naxes; i++) {
        if (i > 0 && t.axis[i - 1]->id >= t.axis[i]->id) wrong(v, "axes out of order in", where);
    }
    if (t.elem == EL_none || t.elem >= EL_COUNT) wrong(v, "no element type in", where);
}

static void want(Verify *v, bool ok, const char *where) {
    if (!ok) wrong(v, "operands of", where);
}

static bool integer(const TExpr *x) { return elem_is_int(x->type.elem) && !x->type.ptr; }

static void check_operands(Verify *v, const TExpr *x) {
    const TExpr *a = x->nkid > 0 ? x->kid[0] : NULL, *b = x->nkid > 1 ? x->kid[1] : NULL,
                *c = x->nkid > 2 ? x->kid[2] : NULL;
    Elem e = x->type.elem;
    switch ((TExprKind)x->kind) {
    case TX_unary: want(v, a && type_same(a->type, x->type), "unary"); break;
    case TX_binary:
        if (x->type.ptr) { want(v, a->type.ptr && integer(b), "pointer add"); break; }
        want(v, a->type.elem == b->type.elem && axes_in(a->type, x->type) && axes_in(b->type, x->type), "binary");
        want(v, x->op >= OP_eq && x->op <= OP_ge ? e == EL_bool : e == a->type.elem, "binary result");
        want(v, x->op != OP_land && x->op != OP_lor, "logic");
        want(v, !elem_is_storage(a->type.elem) || (x->op >= OP_eq && x->op <= OP_ge), "storage arithmetic");
        break;
    case TX_select: want(v, a->type.elem == EL_bool && b->type.elem == e && c->type.elem == e, "select"); break;
    case TX_cast: want(v, type_same_axes(a->type, x->type) && !x->type.ptr && !a->type.ptr, "cast"); break;
    case TX_bitcast: want(v, elem_bits(a->type.elem) == elem_bits(e), "bitcast"); break;
    case TX_fun:
        for (uint32_t i = 1; i < x->nkid; i++) want(v, x->kid[i]->type.elem == a->type.elem, "function");
        for (uint32_t i = 0; i < x->nkid; i++) want(v, axes_in(x->kid[i]->type, x->type), "function's axes");
        want(v, x->op == TF_isnan ? e == EL_bool : e == a->type.elem, "function's result");
        break;
    case TX_reduce:
        for (int i = 0; i < x->naxes; i++)
            want(v, type_has(a->type, x->axis[i]) && !type_has(x->type, x->axis[i]), "reduce");
        want(v, x->naxes > 0 && x->type.naxes + x->naxes == a->type.naxes, "reduce's axes");
        break;
    case TX_scan: case TX_sort: case TX_order:
        want(v, x->naxes == 1 && type_has(a->type, x->axis[0]) && type_same_axes(a->type, x->type), "along an axis");
        want(v, e == (x->kind == TX_order ? EL_index : a->type.elem), "along an axis: element type");
        break;
    case TX_take:
        want(v, x->naxes == 1 && type_has(a->type, x->axis[0]) && b->type.elem == EL_index, "take's order");
        for (int i = 0; i < a->type.naxes; i++)
            want(v, a->type.axis[i] == x->axis[0] || type_has(x->type, a->type.axis[i]), "take's axes");
        want(v, axes_in(b->type, x->type) && e == a->type.elem, "take");
        break;
    case TX_dot:
        for (int i = 0; i < x->naxes; i++) want(v, type_has(a->type, x->axis[i]) && type_has(b->type, x->axis[i]), "dot");
        want(v, x->naxes > 0, "dot's axes");
        break;
    case TX_load:
        want(v,
             x->tensor && x->nidx == x->tensor->rank && x->nkid == (uint32_t)x->nidx + 1 && e == x->tensor->elem &&
                 x->tensor->mode != PM_OUT,
             "load");
        for (int i = 0; i < x->nidx; i++) want(v, integer(x->kid[i]) && axes_in(x->kid[i]->type, x->type), "load's index");
        if (x->kid[x->nidx]) want(v, x->kid[x->nidx]->type.elem == e, "load's else");
        break;
    case TX_ptrload:
        want(v,
             a->type.ptr && a->type.elem == e && !x->type.ptr && (!b || b->type.elem == EL_bool) &&
                 (!c || c->type.elem == e),
             "pointer load");
        break;
    case TX_splat: want(v, axes_in(a->type, x->type) && a->type.elem == e, "splat"); break;
    case TX_rename:
        want(v, x->naxes == 2 && type_has(a->type, x->axis[0]) && type_has(x->type, x->axis[1]), "rename");
        break;
    case TX_block: want(v, a && type_same(a->type, x->type), "block"); break;
    case TX_atomic:
        want(v, a && a->type.elem == e && (x->tensor ? x->tensor->mode != PM_IN : x->kid[2]->type.ptr), "atomic");
        break;
    default: break;
    }
}

static void use(Verify *v, const TVar *var) {
    if (var->id < 0 || var->id >= v->k->nvars) wrong(v, "variable id", "");
    else if (!v->defined[var->id]) wrong(v, "used but not defined here:", var->name ? var->name->s : "?");
}

static void check_expr(Verify *v, const TExpr *x) {
    if (!x || ++v->depth > 4000) {
        if (!x) wrong(v, "missing operand", "");
        v->depth -= x != NULL;
        return;
    }
    check_type(v, x->type, "an expression");
    if (x->kind == TX_var) use(v, x->var);
    if (x->kind == TX_dim && (x->dim < 0 || x->dim >= v->k->ndims)) wrong(v, "dimension", "");
    for (int i = 0; i < x->naxes; i++) check_axis(v, x->axis[i]);
    if (x->kind == TX_splat) {
        for (int i = 0; i < x->type.naxes; i++) check_axis(v, x->type.axis[i]);
    }
    if (x->kind == TX_block) {
        bool *saved = heap_alloc((size_t)v->k->nvars + 1);
        memcpy(saved, v->defined, (size_t)v->k->nvars);
        for (uint32_t i = 0; i < x->body.n; i++) {
            TBody one = {.at = &x->body.at[i], .n = 1};
            check_body(v, &one);
        }
        check_expr(v, x->kid[0]);
        memcpy(v->defined, saved, (size_t)v->k->nvars);
        heap_free(saved);
    } else {
        for (uint32_t i = 0; i < x->nkid; i++) {
            bool optional = x->kind == TX_load || x->kind == TX_ptrload || x->kind == TX_atomic;
            if (x->kid[i] || !optional) check_expr(v, x->kid[i]);
        }
    }
    bool whole = true;
    for (uint32_t i = 0; i < x->nkid; i++)
        whole = whole && (x->kid[i] || x->kind == TX_load || x->kind == TX_ptrload || x->kind == TX_atomic);
    if (whole) check_operands(v, x);
    v->depth--;
}

static void check_stmt(Verify *v, const TStmt *s);

static void check_scoped(Verify *v, const TBody *b) {
    bool *saved = heap_alloc((size_t)v->k->nvars + 1);
    memcpy(saved, v->defined, (size_t)v->k->nvars);
    check_body(v, b);
    memcpy(v->defined, saved, (size_t)v->k->nvars);
    heap_free(saved);
}

static void check_body(Verify *v, const TBody *b) {
    for (uint32_t i = 0; i < b->n; i++) check_stmt(v, b->at[i]);
}

static void check_merge(Verify *v, const TStmt *s) {
    for (int i = 0; i < s->ncarried; i++) v->defined[s->merge_x[i]->id] = v->defined[s->merge_y[i]->id] = true;
    check_body(v, &s->merge_body);
    for (int i = 0; i < s->ncarried; i++) {
        check_expr(v, s->merge_result[i]);
        if (s->merge_result[i] && !type_same(s->merge_result[i]->type, s->carried[i]->type))
            wrong(v, "merge of", s->carried[i]->name->s);
    }
}

static void check_joined(Verify *v, const TStmt *s) {
    for (int i = 0; i < s->nidx; i++) {
        check_expr(v, s->idx[i]);
        if (!type_has(s->idx[i]->type, s->axis)) wrong(v, "joined over", s->axis->name->s);
    }
    if (s->nidx != s->ncarried) { wrong(v, "joined values of", s->axis->name->s); return; }
    for (int i = 0; i < s->ncarried; i++) v->defined[s->merge_x[i]->id] = v->defined[s->merge_y[i]->id] = true;
    check_body(v, &s->merge_body);
    for (int i = 0; i < s->ncarried; i++) {
        check_expr(v, s->merge_result[i]);
        TType t = s->merge_result[i]->type;
        if (t.naxes || t.elem != s->carried[i]->type.elem || t.elem != s->idx[i]->type.elem) wrong(v, "joined value", s->carried[i]->name->s);
        v->defined[s->carried[i]->id] = true;
    }
}

static void check_stmt(Verify *v, const TStmt *s) {
    if (s->value) check_expr(v, s->value);
    switch ((TStmtKind)s->kind) {
    case TS_let:
        if (!s->value || !type_same(s->value->type, s->var->type)) wrong(v, "let", s->var->name->s);
        if (v->defined[s->var->id]) wrong(v, "defined twice:", s->var->name->s);
        v->defined[s->var->id] = true;
        break;
    case TS_assign:
        use(v, s->var);
        if (!s->var->mutable || !s->value || !type_same(s->value->type, s->var->type)) wrong(v, "assign", s->var->name->s);
        break;
    case TS_store: {
        TType t = {0};
        for (int i = 0; i < s->nidx; i++) {
            check_expr(v, s->idx[i]);
            for (int j = 0; j < s->idx[i]->type.naxes; j++) {
                if (!type_has(t, s->idx[i]->type.axis[j]) && t.naxes < MAX_AXES) t.axis[t.naxes++] = s->idx[i]->type.axis[j];
            }
        }
        if (s->nidx != s->tensor->rank || s->tensor->mode == PM_IN || !s->value ||
            s->value->type.elem != s->tensor->elem || !axes_in(s->value->type, t))
            wrong(v, "store to", s->tensor->name->s);
        break;
    }
    case TS_ptrstore:
        check_expr(v, s->idx[0]);
        if (s->cond) check_expr(v, s->cond);
        if (!s->idx[0]->type.ptr || !s->value || !axes_in(s->value->type, s->idx[0]->type)) wrong(v, "pointer store", "");
        break;
    case TS_for: {
        check_expr(v, s->lo);
        check_expr(v, s->hi);
        if (s->step <= 0 || s->lo->type.elem != EL_index || s->hi->type.elem != EL_index)
            wrong(v, "loop over", s->var->name->s);
        v->defined[s->var->id] = true;
        check_scoped(v, &s->body);
        v->defined[s->var->id] = false;
        if (s->merge_result) check_merge(v, s);
        break;
    }
    case TS_joined: check_joined(v, s); break;
    case TS_while:
        check_body(v, &s->cond_body);
        check_expr(v, s->cond);
        check_scoped(v, &s->body);
        break;
    case TS_if:
        check_expr(v, s->cond);
        check_scoped(v, &s->body);
        check_scoped(v, &s->orelse);
        break;
    case TS_break: case TS_continue: if (!s->target) wrong(v, "jump", ""); break;
    case TS_assert: check_expr(v, s->cond); break;
    default: break;
    }
}

int typed_verify(const TKernel *k, Buf *out) {
    Verify v = {.k = k, .out = out};
    v.defined = heap_alloc((size_t)k->nvars + 1);
    v.axis_open = heap_alloc((size_t)k->naxes + 1);
    for (int i = 0; i < k->nparams; i++) {
        if (k->scalar[i]) v.defined[k->scalar[i]->id] = true;
    }
    for (int i = 0; i < k->nguards; i++) check_expr(&v, k->guards[i].cond);
    for (int i = 0; i < k->ngrid; i++) {
        check_expr(&v, k->grid[i].lo);
        check_expr(&v, k->grid[i].hi);
        v.defined[k->grid[i].var->id] = true;
    }
    check_body(&v, &k->body);
    heap_free(v.defined);
    heap_free(v.axis_open);
    return v.found;
}
