// Dimensions as polynomials: are two expressions of symbols the same number, whatever the symbols are?
//
//     B * S * 768   and   768 * (S * B)      the same
//     2 * B + 1     and   2 * B              never
//     T             and   B * S              only if T = B * S was said by `where`: T is replaced by it
//     B             and   S                  not in general
//     N / 2 * 2     and   N                  not known: a quotient is an atom, equal to itself alone
//
// An expression becomes a sum of terms, a term a coefficient times a sorted product of atoms: dimensions,
// integer parameters, and whatever is not a polynomial. The difference of two sums answers the question.
#include "sema/internal.h"

#include <string.h>

enum { MAX_TERMS = 24, MAX_DEGREE = 8, MAX_ATOMS = 64 };

typedef struct Term { int64_t coef; int n; uint8_t atom[MAX_DEGREE]; } Term;
typedef struct Sum { int n; bool lost; Term term[MAX_TERMS]; } Sum;          // lost: too large to follow
typedef struct Atoms { Check *c; const TExpr *at[MAX_ATOMS]; int n; bool opaque; } Atoms;

static void add_term(Sum *s, Term t) {
    for (int i = 0; i < s->n; i++) {
        if (s->term[i].n != t.n || memcmp(s->term[i].atom, t.atom, (size_t)t.n) != 0) continue;
        s->lost = s->lost || __builtin_add_overflow(s->term[i].coef, t.coef, &s->term[i].coef);
        if (s->term[i].coef == 0) s->term[i] = s->term[--s->n];
        return;
    }
    if (t.coef == 0) return;
    if (s->n == MAX_TERMS) s->lost = true;
    else s->term[s->n++] = t;
}

static void add_scaled(Sum *s, const Sum *x, int64_t k) {
    s->lost = s->lost || x->lost;
    for (int i = 0; i < x->n; i++) {
        Term t = x->term[i];
        s->lost = s->lost || __builtin_mul_overflow(t.coef, k, &t.coef);
        add_term(s, t);
    }
}

static Sum product(const Sum *a, const Sum *b) {
    Sum r = {.lost = a->lost || b->lost};
    for (int i = 0; i < a->n; i++) {
        for (int j = 0; j < b->n && !r.lost; j++) {
            const Term *x = &a->term[i], *y = &b->term[j];
            Term t = {.n = 0};
            if (x->n + y->n > MAX_DEGREE || __builtin_mul_overflow(x->coef, y->coef, &t.coef)) {
                r.lost = true;
                break;
            }
            for (int p = 0, q = 0; p < x->n || q < y->n;)
                t.atom[t.n++] = q == y->n || (p < x->n && x->atom[p] <= y->atom[q]) ? x->atom[p++] : y->atom[q++];
            add_term(&r, t);
        }
    }
    return r;
}

static Sum atom(Atoms *a, const TExpr *x) {
    int i = 0;
    while (i < a->n && !tx_same(a->at[i], x)) i++;
    if (i == MAX_ATOMS) return (Sum){.lost = true};
    if (i == a->n) a->at[a->n++] = x;
    return (Sum){.n = 1, .term = {{.coef = 1, .n = 1, .atom = {(uint8_t)i}}}};
}

static Sum sum_of(Atoms *a, const TExpr *x, int depth);

// What `where` says that a dimension is: the other side of an equation in which it stands alone.
static const TExpr *definition(Check *c, int dim) {
    for (uint32_t i = 0; i < c->guards.n; i++) {
        const TExpr *g = c->guards.at[i].cond;
        if (g->kind == TX_binary && g->op == OP_eq && g->kid[0]->kind == TX_dim && g->kid[0]->dim == dim) return g->kid[1];
    }
    return NULL;
}

static Sum sum_of(Atoms *a, const TExpr *x, int depth) {
    if (depth > 40) return (Sum){.lost = true};
    switch ((TExprKind)x->kind) {
    case TX_const: return (Sum){.n = x->ival != 0, .term = {{.coef = x->ival}}};
    case TX_cast: case TX_splat: return sum_of(a, x->kid[0], depth + 1);
    case TX_dim: {
        const TExpr *d = definition(a->c, x->dim);
        return d ? sum_of(a, d, depth + 1) : atom(a, x);
    }
    case TX_var: return atom(a, x);
    case TX_binary: break;
    default: a->opaque = true; return atom(a, x);
    }
    if (x->op != OP_add && x->op != OP_sub && x->op != OP_mul) {
        a->opaque = true;
        return atom(a, x);
    }
    Sum l = sum_of(a, x->kid[0], depth + 1), r = sum_of(a, x->kid[1], depth + 1);
    if (x->op == OP_mul) return product(&l, &r);
    add_scaled(&l, &r, x->op == OP_add ? 1 : -1);
    return l;
}

DimsAre dims_compare(Check *c, Ent a, Ent b) {
    if (a.kind == EN_int && b.kind == EN_int) {
        if (a.row != b.row) recipe_pin(c, recipe_result(c, OP_eq, a, b, ent_bool(a.i == b.i, a.span)));
        return a.i == b.i ? DIMS_same : DIMS_differ;
    }
    bool numbers = (a.kind == EN_int || a.kind == EN_value) && (b.kind == EN_int || b.kind == EN_value);
    if (!numbers) return DIMS_open;
    Atoms atoms = {.c = c};
    TExpr *x = a.kind == EN_int ? tx_const_int(c, a.i, EL_index, a.span) : a.x,
          *y = b.kind == EN_int ? tx_const_int(c, b.i, EL_index, b.span) : b.x;
    Sum l = sum_of(&atoms, x, 0), r = sum_of(&atoms, y, 0);
    add_scaled(&l, &r, -1);
    if (l.lost) return DIMS_open;
    if (l.n == 0) return DIMS_same;
    return atoms.opaque && !(l.n == 1 && l.term[0].n == 0) ? DIMS_open : DIMS_differ;
}

// ---- host expressions, their dimensions and scalars replaced -----------------------------------------

static Ent whole(Check *c, AstOp op, int64_t a, int64_t b, Span at) {
    switch (op) {
    case OP_add: return ent_int((int64_t)((uint64_t)a + (uint64_t)b), at);
    case OP_sub: return ent_int((int64_t)((uint64_t)a - (uint64_t)b), at);
    case OP_mul: return ent_int((int64_t)((uint64_t)a * (uint64_t)b), at);
    case OP_div: case OP_rem: if (b == 0 || (a == INT64_MIN && b == -1)) return ent_unknown(); break;
    case OP_shl: return ent_int(b >= 0 && b < 64 ? (int64_t)((uint64_t)a << b) : 0, at);
    case OP_shr: return ent_int(b >= 0 && b < 64 ? a >> b : a < 0 ? -1 : 0, at);
    case OP_land: return ent_int(a && b, at);
    case OP_lor: return ent_int(a || b, at);
    default: break;
    }
    Ent r = fold_binary(c, op, ent_int(a, at), ent_int(b, at), at);
    return r.kind == EN_bool ? ent_int(r.i, at) : r;
}

static TExpr *as_index(Check *c, Ent e, Span at) {
    return e.kind == EN_int ? tx_const_int(c, e.i, EL_index, at) : tx_cast(c, e.x, EL_index, at);
}

static Ent pair(Check *c, AstOp op, Ent a, Ent b, Span at) {
    if (a.kind == EN_int && b.kind == EN_int) return recipe_result(c, op, a, b, whole(c, op, a.i, b.i, at));
    bool logic = op == OP_land || op == OP_lor || op == OP_and || op == OP_or || op == OP_xor || op == OP_shl ||
                 op == OP_shr;
    return logic ? ent_unknown() : ent_value(index_op(c, op, as_index(c, a, at), as_index(c, b, at), at));
}

Ent dims_replace(Check *c, const TExpr *x, const Replaced *by) {
    Ent a[3] = {{0}};
    Span at = x->span;
    switch ((TExprKind)x->kind) {
    case TX_const: return elem_is_float(x->type.elem) ? ent_unknown() : ent_int(x->ival, at);
    case TX_dim: return by->dim ? by->dim[x->dim] : ent_value((TExpr *)(uintptr_t)x);
    case TX_var:
        if (x->var->param < 0) return ent_unknown();
        return by->scalar ? by->scalar[x->var->param] : ent_value((TExpr *)(uintptr_t)x);
    case TX_cast: case TX_splat: return elem_is_float(x->type.elem) ? ent_unknown() : dims_replace(c, x->kid[0], by);
    case TX_unary: case TX_binary: case TX_select: case TX_fun: break;
    default: return ent_unknown();
    }
    for (uint32_t i = 0; i < x->nkid && i < 3; i++) {
        if (!x->kid[i]) continue;
        a[i] = dims_replace(c, x->kid[i], by);
        if (a[i].kind != EN_int && a[i].kind != EN_value) return ent_unknown();
    }
    if (x->kind == TX_binary) return pair(c, (AstOp)x->op, a[0], a[1], at);
    if (x->kind == TX_select) return recipe_pin(c, a[0]).kind != EN_int ? ent_unknown() : a[0].i ? a[1] : a[2];
    if (x->kind == TX_fun) {
        if (x->op != TF_min && x->op != TF_max) return ent_unknown();
        for (int i = 0; i < 2; i++) a[i] = recipe_pin(c, a[i]);
        if (a[0].kind == EN_int && a[1].kind == EN_int) return (x->op == TF_min) == (a[0].i < a[1].i) ? a[0] : a[1];
        return ent_value(
            tx_fun(c, (TFun)x->op, ttype_scalar(EL_index), at, as_index(c, a[0], at), as_index(c, a[1], at), NULL));
    }
    if (x->op == OP_neg) return pair(c, OP_sub, ent_int(0, at), a[0], at);
    if (recipe_pin(c, a[0]).kind != EN_int) return ent_unknown();
    return ent_int(x->op == OP_not ? !a[0].i : ~a[0].i, at);
}

// If x is to be `value`, so are the parts of it that hold the only dimension not known: M + 1 is P, so M is P - 1. A product
// need not come out even: whoever solved checks the equation.
void dims_solve(Check *c, const TExpr *x, Ent value, Ent *dim, const Ent *scalar) {
    if (value.kind != EN_int && value.kind != EN_value) return;
    if (x->kind == TX_dim && dim[x->dim].kind == EN_unknown) dim[x->dim] = value;
    if (x->kind == TX_cast || x->kind == TX_splat) dims_solve(c, x->kid[0], value, dim, scalar);
    bool inverse = x->kind == TX_binary && (x->op == OP_add || x->op == OP_sub || x->op == OP_mul);
    for (int side = 0; inverse && side < 2; side++) {
        Ent other = dims_replace(c, x->kid[1 - side], &(Replaced){dim, scalar});
        if (other.kind != EN_int && other.kind != EN_value) continue;
        bool taken = x->op == OP_sub && side == 1;             // v = other - part
        AstOp undo = x->op == OP_mul ? OP_div : x->op == OP_add || taken ? OP_sub : OP_add;
        dims_solve(c, x->kid[side], taken ? pair(c, undo, other, value, x->span) : pair(c, undo, value, other, x->span),
                   dim, scalar);
    }
}

// The same of all conditions of `where` that are equations.
void dims_solve_guards(Check *c, const TKernel *k, Ent *dim, const Ent *scalar) {
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < k->nguards; i++) {
            const TExpr *g = k->guards[i].cond;
            if (g->kind != TX_binary || g->op != OP_eq) continue;
            for (int s = 0; s < 2; s++) {
                const TExpr *x = g->kid[s], *y = g->kid[1 - s];
                // `D == 128`: what it was compiled for
                bool number = y->kind == TX_const && x->kind == TX_dim && k->dims[x->dim].fixed >= 0;
                if (!number) dims_solve(c, x, dims_replace(c, y, &(Replaced){dim, scalar}), dim, scalar);
            }
        }
    }
}

// A dimension as it was computed: the number, if it is one.
Ent dims_settle(Check *c, Ent e) {
    if (e.kind != EN_value || e.x->type.naxes > 0 || e.x->type.ptr || !elem_is_int(e.x->type.elem)) return e;
    Ent r = dims_replace(c, e.x, &(Replaced){0});
    if (r.kind != EN_int) return e;
    r.row = e.row;
    r.span = e.span;
    return r;
}

const char *dims_text(Check *c, Ent e) {
    return e.kind == EN_int ? arena_printf(c->a, "%lld", (long long)e.i) : e.kind == EN_value ? expr_text(c, e.x) : "?";
}

const char *tensor_text(Check *c, const TensorRef *t) {
    const char *r = arena_printf(c->a, "%s[", t->elem == EL_none ? "?" : elem_name(t->elem));
    for (int i = 0; i < t->rank; i++) r = arena_printf(c->a, "%s%s%s", r, i ? ", " : "", dims_text(c, t->dim[i]));
    return arena_printf(c->a, "%s]", r);
}
