// The launcher's half of a kernel: typed host expressions -> launch expressions, and which occurrence
// of a dimension defines it.
//
//     a: bf16[M, K], b: bf16[K, N]       M := a.dim 0,  K := a.dim 1,  N := b.dim 1;  check b.dim 0 == K
#include "lower/build.h"

#include <string.h>

typedef struct Code { Arena *a; const TKernel *k; VEC(LStep) steps; } Code;

static void step(Code *c, LOp op, int64_t arg) { vec_push(c->a, &c->steps, ((LStep){op, arg})); }

static const int16_t binary_op[OP_COUNT] = {
    [OP_add] = L_ADD, [OP_sub] = L_SUB, [OP_mul] = L_MUL, [OP_div] = L_DIV, [OP_rem] = L_MOD, [OP_eq] = L_EQ,  [OP_ne] = L_NE,
    [OP_lt] = L_LT,   [OP_le] = L_LE,   [OP_land] = L_AND, [OP_lor] = L_OR, [OP_and] = L_AND, [OP_or] = L_OR,
};

static void host(Code *c, const TExpr *e) {
    switch (e->kind) {
    case TX_const: step(c, L_CONST, e->ival); return;
    case TX_dim:   step(c, L_DIM, e->dim); return;
    case TX_var:
        if (e->var->param < 0) break;
        step(c, L_SCALAR, e->var->param);
        return;
    case TX_cast:  host(c, e->kid[0]); return;
    case TX_unary:
        if (e->op == OP_neg) { step(c, L_CONST, 0); host(c, e->kid[0]); step(c, L_SUB, 0); return; }
        if (e->op == OP_not) { host(c, e->kid[0]); step(c, L_NOT, 0); return; }
        break;
    case TX_binary: {
        bool swap = e->op == OP_gt || e->op == OP_ge;
        int op = swap ? (e->op == OP_gt ? L_LT : L_LE) : binary_op[e->op];
        host(c, e->kid[swap]);
        host(c, e->kid[!swap]);
        step(c, (LOp)op, 0);
        return;
    }
    case TX_select:
        for (int i = 0; i < 3; i++) host(c, e->kid[i]);
        step(c, L_SELECT, 0);
        return;
    case TX_fun:
        if (e->op == TF_abs) {                                 // max(x, 0 - x)
            host(c, e->kid[0]);
            step(c, L_CONST, 0);
            host(c, e->kid[0]);
            step(c, L_SUB, 0);
            step(c, L_MAX, 0);
            return;
        }
        if (e->op != TF_min && e->op != TF_max) break;
        host(c, e->kid[0]);
        host(c, e->kid[1]);
        step(c, e->op == TF_min ? L_MIN : L_MAX, 0);
        return;
    case TX_block:
        if (e->body.n == 0) { host(c, e->kid[0]); return; }
        break;
    default: break;
    }
    ice("not a host expression: kind %d", e->kind);
}

LExpr launch_expr(Arena *a, const TKernel *k, const TExpr *e) {
    Code c = {.a = a, .k = k};
    host(&c, e);
    return (LExpr){c.steps.at, c.steps.n};
}

LExpr launch_const(Arena *a, int64_t v) {
    LStep *s = NEW(a, LStep);
    *s = (LStep){L_CONST, v};
    return (LExpr){s, 1};
}

LExpr launch_join(Arena *a, LOp op, LExpr x, LExpr y) {
    LStep *s = NEW_N(a, LStep, x.n + y.n + 1);
    memcpy(s, x.at, sizeof *s * x.n);
    memcpy(s + x.n, y.at, sizeof *s * y.n);
    s[x.n + y.n] = (LStep){op, 0};
    return (LExpr){s, x.n + y.n + 1};
}

LExpr launch_join_const(Arena *a, LOp op, LExpr x, int64_t c) { return launch_join(a, op, x, launch_const(a, c)); }

static LExpr programs(Arena *a, const TKernel *k) {
    LExpr n = launch_const(a, 1);
    for (int i = 0; i < k->ngrid; i++) {
        const TGrid *g = &k->grid[i];
        LExpr len = launch_join(a, L_SUB, launch_expr(a, k, g->hi), launch_expr(a, k, g->lo));
        len = launch_join(a, L_MAX, len, launch_const(a, 0));
        if (g->step != 1) len = launch_join(a, L_CDIV, len, launch_const(a, g->step));
        n = i ? launch_join(a, L_MUL, n, len) : len;
    }
    return n;
}

LaunchInfo *launch_from_typed(Arena *a, const TKernel *k) {
    LaunchInfo *l = NEW(a, LaunchInfo);
    bool *solved = NEW_N(a, bool, k->ndims + 1);
    l->kernel = k->name;
    l->entry = k->name->s;
    l->nparams = k->nparams;
    l->params = NEW_N(a, LaunchParam, k->nparams);
    l->ndims = k->ndims;
    l->dims = k->dims;
    for (int i = 0; i < k->nparams; i++) {
        LaunchParam *p = &l->params[i];
        *p = k->params[i];
        if (p->kind != PK_TENSOR) continue;
        for (int d = 0; d < p->rank; d++) {
            const TExpr *e = k->tensor[i]->dim[d];
            p->dim[d] = launch_expr(a, k, e);
            p->solves[d] = -1;
            if (e->kind == TX_dim && !solved[e->dim]) { p->solves[d] = e->dim; solved[e->dim] = true; }
        }
    }
    l->nguards = k->nguards;
    l->guards = NEW_N(a, LaunchGuard, k->nguards);
    for (int i = 0; i < k->nguards; i++)
        l->guards[i] = (LaunchGuard){launch_expr(a, k, k->guards[i].cond), k->guards[i].text};
    l->programs = programs(a, k);
    l->cluster = 1;
    return l;
}
