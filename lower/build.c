// Typed tree -> tile IR, level 1, one to one.
//
// Mutable variables become SSA values: a loop or an `if` carries exactly the variables that its body
// assigns and that live outside it.
//
//     var acc = zeros<f32>(m, n);               %acc0 = splat 0 : f32[%m, %n]
//     for k in K by BK {                        %r = for 0, %K, 64, %acc0 { (%k0, %acc)
//         acc += dot(a[m, k], b[k, n]);             %k = axis %k0, %K {64} ...  yield %acc1
//     }                                         }
//
// The grid clauses become arithmetic on the program's linear number, first clause outermost, and a
// launch expression that counts programs. `break` and `continue` carry the values of the loop they
// leave; what follows them in their block is dropped.
#include "lower/build.h"

#include <string.h>

typedef struct Loop { const TStmt *stmt; TVar **vars; int nvars; struct Loop *outer; } Loop;

typedef struct Bld {
    Fn       *f;
    Builder   b;
    Val     **var;              // by TVar.id
    Val     **axis;             // by TAxis.id
    Val     **tensor;           // by parameter
    Val      *program;           // its number; NULL: there is but one
    Loop     *loop;
    bool      ended;            // the current block has its terminator
} Bld;

static Val *expr(Bld *s, const TExpr *e);
static void body(Bld *s, const TBody *b);
static Val *num(Bld *s, int64_t v) { return b_const(&s->b, EL_index, v); }
static Val *bin(Bld *s, AstOp op, Val *a, Val *b) { return b_binary(&s->b, op, a, b); }

// ---- types ---------------------------------------------------------------------------------------

static Type tile_type(Bld *s, const TType *t) {
    Val *axes[MAX_AXES];
    for (int i = 0; i < t->naxes; i++) axes[i] = s->axis[t->axis[i]->id];
    Type r = type_tile(t->elem, t->naxes, axes);
    r.ptr = t->ptr;
    return r;
}

static Val *make_axis(Bld *s, const TAxis *a, Val *lo, Val *hi) {
    Type t = {.kind = TY_AXIS, .shape = {a->extent}};
    s->b.span = a->span;
    Val *v = b_op(&s->b, OP_T_axis, 0, t, 2, (Val *[]){lo, hi});
    v->def->imm = a->extent;
    if (a->full) v->def->flags |= AXIS_FULL;
    v->name = a->name;
    return s->axis[a->id] = v;
}

// A canonical or `let` axis is made where it is first met: in the function's outermost region when its
// bounds are host expressions, so that it dominates every later use.
static Val *axis_of(Bld *s, const TAxis *a) {
    if (s->axis[a->id]) return s->axis[a->id];
    Builder saved = s->b;
    Val *lo = expr(s, a->lo), *hi = expr(s, a->hi);
    Val *v = make_axis(s, a, lo, hi);
    s->b.span = saved.span;
    return v;
}

static void need_axes(Bld *s, const TType *t) {
    for (int i = 0; i < t->naxes; i++) axis_of(s, t->axis[i]);
}

// ---- expressions ---------------------------------------------------------------------------------

static Val *emit(Bld *s, const TExpr *e, OpCode code, int sub, int nin, Val *const *in) {
    need_axes(s, &e->type);
    s->b.span = e->span;
    return b_op(&s->b, code, sub, tile_type(s, &e->type), nin, in);
}

static Val *constant(Bld *s, const TExpr *e) {
    s->b.span = e->span;
    Elem el = e->type.elem;
    Val *v = elem_is_float(el) ? b_float(&s->b, el, e->fval) : b_const(&s->b, el, e->ival);
    if (e->type.naxes) { need_axes(s, &e->type); v = b_op(&s->b, OP_T_splat, 0, tile_type(s, &e->type), 1, &v); }
    return v;
}

// The operands of a load, a store or an atomic: tensor or nothing, then the indices.
static int access_operands(Bld *s, const TTensor *t, TExpr *const *idx, int n, Val **in) {
    int k = 0;
    if (t) in[k++] = s->tensor[t->param];
    for (int i = 0; i < n; i++) in[k++] = expr(s, idx[i]);
    return k;
}

static Val *load(Bld *s, const TExpr *e) {
    Val *in[MAX_RANK + 2];
    int n = access_operands(s, e->tensor, e->kid, e->nidx, in);
    TExpr *other = e->nkid > e->nidx ? e->kid[e->nidx] : NULL;
    if (other) in[n++] = expr(s, other);
    Val *v = emit(s, e, OP_T_load, 0, n, in);
    v->def->nidx = e->nidx;
    if (other) v->def->flags |= HAS_ELSE;
    return v;
}

static Val *ptrload(Bld *s, const TExpr *e) {
    Val *in[3] = {expr(s, e->kid[0])};
    int n = 1, flags = 0;
    if (e->nkid > 1 && e->kid[1]) { in[n++] = expr(s, e->kid[1]); flags |= HAS_WHERE; }
    if (e->nkid > 2 && e->kid[2]) { in[n++] = expr(s, e->kid[2]); flags |= HAS_ELSE; }
    Val *v = emit(s, e, OP_T_ptrload, 0, n, in);
    v->def->flags |= (uint16_t)flags;
    return v;
}

// kids: value, compare, indices... (tensor) or value, compare, address, where
static Val *atomic(Bld *s, const TExpr *e) {
    Val *in[MAX_RANK + 4];
    int n = e->tensor ? access_operands(s, e->tensor, e->kid + 2, e->nidx, in) : 0, flags = 0;
    if (!e->tensor) in[n++] = expr(s, e->kid[2]);
    in[n++] = expr(s, e->kid[0]);
    if (e->kid[1]) in[n++] = expr(s, e->kid[1]);
    if (!e->tensor && e->nkid > 3 && e->kid[3]) { in[n++] = expr(s, e->kid[3]); flags = HAS_WHERE; }
    Val *v = emit(s, e, OP_T_atomic, e->op, n, in);
    v->def->nidx = e->tensor ? e->nidx : 0;
    v->def->flags |= (uint16_t)flags;
    return v;
}

static Val *flagged(Val *v, int flags) { v->def->flags |= (uint16_t)flags; return v; }

static int sort_flags(const TExpr *e) {
    return (e->ival & SORT_DESCENDING ? REVERSE : 0) | (e->ival & SORT_NAN_FIRST ? NAN_FIRST : 0);
}

static Val *over_axes(Bld *s, const TExpr *e, OpCode code, int nval) {     // ops with axes after `over`
    Val *in[2 + MAX_AXES];
    for (int i = 0; i < nval; i++) in[i] = expr(s, e->kid[i]);
    for (int i = 0; i < e->naxes; i++) in[nval + i] = axis_of(s, e->axis[i]);
    return emit(s, e, code, e->op, nval + e->naxes, in);
}

static Val *expr(Bld *s, const TExpr *e) {
    Val *in[4];
    int n = 0;
    switch ((TExprKind)e->kind) {
    case TX_const:  return constant(s, e);
    case TX_var:    return s->var[e->var->id];
    case TX_load:   return load(s, e);
    case TX_ptrload:return ptrload(s, e);
    case TX_atomic: return atomic(s, e);
    case TX_reduce: return over_axes(s, e, OP_T_reduce, 1);
    case TX_scan:
        return flagged(over_axes(s, e, OP_T_scan, 1),
                       (e->ival & SCAN_EXCLUSIVE ? EXCLUSIVE : 0) | (e->ival & SCAN_REVERSE ? REVERSE : 0));
    case TX_sort:   return flagged(over_axes(s, e, OP_T_sort, 1), sort_flags(e));
    case TX_order:  return flagged(over_axes(s, e, OP_T_order, 1), sort_flags(e));
    case TX_take:   return over_axes(s, e, OP_T_take, 2);
    case TX_dot:    return over_axes(s, e, OP_T_dot, 2);
    case TX_block:  body(s, &e->body); return expr(s, e->kid[0]);
    case TX_dim: {
        Val *v = emit(s, e, OP_T_dim, 0, 0, NULL);
        v->def->imm = e->dim;
        v->name = s->f->kernel->dims[e->dim].name;
        return v;
    }
    case TX_axis: {
        Val *a = axis_of(s, e->axis[0]);
        Val *v = emit(s, e, OP_T_index, 0, 1, &a);
        v->name = e->axis[0]->name;
        return v;
    }
    case TX_rename:
        in[0] = expr(s, e->kid[0]); in[1] = axis_of(s, e->axis[0]); in[2] = axis_of(s, e->axis[1]);
        return emit(s, e, OP_T_rename, 0, 3, in);
    case TX_unary: case TX_binary: case TX_select: case TX_cast: case TX_bitcast: case TX_fun: case TX_splat: {
        static const uint16_t code[] = {[TX_unary] = OP_T_unary, [TX_binary] = OP_T_binary,   [TX_select] = OP_T_select,
                                        [TX_cast] = OP_T_cast,   [TX_bitcast] = OP_T_bitcast, [TX_fun] = OP_T_fun,
                                        [TX_splat] = OP_T_splat};
        for (uint32_t i = 0; i < e->nkid && e->kid[i]; i++) in[n++] = expr(s, e->kid[i]);
        int sub = e->kind == TX_binary && e->op == OP_land  ? OP_and
                  : e->kind == TX_binary && e->op == OP_lor ? OP_or
                                                            : e->op;
        return emit(s, e, (OpCode)code[e->kind], sub, n, in);
    }
    case TX_COUNT: break;
    }
    ice("typed expression of unknown kind %d", e->kind);
}

// ---- which variables a body assigns --------------------------------------------------------------

typedef VEC(TVar *) Vars;

static void assigned(Bld *s, const TBody *b, Vars *out);

static void assigned_expr(Bld *s, const TExpr *e, Vars *out) {
    if (!e) return;
    if (e->kind == TX_block) assigned(s, &e->body, out);
    for (uint32_t i = 0; i < e->nkid; i++) assigned_expr(s, e->kid[i], out);
}

static void assigned(Bld *s, const TBody *b, Vars *out) {
    for (uint32_t i = 0; i < b->n; i++) {
        const TStmt *t = b->at[i];
        if (t->kind == TS_assign && s->var[t->var->id]) {      // defined outside, as it has a value already
            bool seen = false;
            for (uint32_t k = 0; k < out->n; k++) seen |= out->at[k] == t->var;
            if (!seen) vec_push(s->f->arena, out, t->var);
        }
        assigned_expr(s, t->value, out);
        assigned_expr(s, t->cond, out);
        for (int k = 0; k < t->nidx; k++) assigned_expr(s, t->idx[k], out);
        assigned(s, &t->body, out);
        assigned(s, &t->orelse, out);
        assigned(s, &t->cond_body, out);
    }
}

static int current(Bld *s, TVar *const *vars, int n, Val **out) {
    for (int i = 0; i < n; i++) out[i] = s->var[vars[i]->id];
    return n;
}

static void terminate(Bld *s, OpCode code, int n, Val *const *in, int64_t imm) {
    if (s->ended) return;
    Op *op = op_new(s->f, code, s->b.span, n, in, 0);
    op->imm = imm;
    b_insert(&s->b, op);
    s->ended = true;
}

// Opens `r` for building; close() ends it with `code` over the current values of vars.
typedef struct Open { Builder b; bool ended; } Open;
static Open open_region(Bld *s, Region *r) {
    Open o = {s->b, s->ended};
    s->b.r = r;
    s->b.before = NULL;
    s->ended = false;
    return o;
}
static void close_region(Bld *s, Open o, TVar *const *vars, int n) {
    Val **in = NEW_N(s->f->arena, Val *, n + 1);
    current(s, vars, n, in);
    terminate(s, OP_T_yield, n, in, 0);
    s->b = o.b;
    s->ended = o.ended;
}

static void bind_args(Bld *s, Region *r, TVar *const *vars, int n) {
    for (int i = 0; i < n; i++) {
        Val *v = region_arg(s->f, r, s->var[vars[i]->id]->type);
        v->name = vars[i]->name;
        s->var[vars[i]->id] = v;
    }
}
static void bind_results(Bld *s, Op *op, TVar *const *vars, int n) {
    for (int i = 0; i < n; i++) { s->var[vars[i]->id] = op->out[i]; op->out[i]->name = vars[i]->name; }
}
static Op *control(Bld *s, OpCode code, Span span, int nlead, Val *const *lead, TVar *const *vars, int n, bool carried) {
    Val **in = NEW_N(s->f->arena, Val *, nlead + n + 1);
    if (nlead) memcpy(in, lead, sizeof *in * (size_t)nlead);
    current(s, vars, n, in + nlead);
    Op *op = op_new(s->f, code, span, nlead + (carried ? n : 0), in, n);
    for (int i = 0; i < n; i++) op->out[i]->type = in[nlead + i]->type;
    b_insert(&s->b, op);
    return op;
}

// ---- statements ----------------------------------------------------------------------------------

// The region of an op that makes one state of two, of what comes first and of what comes next: as its operands are, or a number of each.
static void of_two_states(Bld *s, Op *op, const TStmt *t, bool numbers) {
    int n = op->nout;
    Val **made = NEW_N(s->f->arena, Val *, n + 1);
    Open o = open_region(s, op->reg[0]);
    for (int i = 0; i < 2 * n; i++) {
        const TVar *v = i < n ? t->merge_x[i] : t->merge_y[i - n];
        const Type *of = &op->in[i % n]->type;
        s->var[v->id] = region_arg(s->f, op->reg[0], numbers ? type_scalar((Elem)of->elem) : *of);
        s->var[v->id]->name = v->name;
    }
    body(s, &t->merge_body);
    for (int i = 0; i < n; i++) made[i] = expr(s, t->merge_result[i]);
    terminate(s, OP_T_yield, n, made, 0);
    s->b = o.b;
    s->ended = o.ended;
    bind_results(s, op, t->carried, n);
}

// `merge`: an op behind the loop.
static void merge(Bld *s, const TStmt *t) {
    Op *op = control(s, OP_T_merge, t->span, 0, NULL, t->carried, t->ncarried, true);
    Val **saved = NEW_N(s->f->arena, Val *, s->f->kernel->naxes + 1);
    memcpy(saved, s->axis, sizeof *saved * (size_t)s->f->kernel->naxes);
    of_two_states(s, op, t, false);
    memcpy(s->axis, saved, sizeof *saved * (size_t)s->f->kernel->naxes);
}

// A scan or reduction by a function.
static void joined(Bld *s, const TStmt *t) {
    int n = t->nidx;
    Val **in = NEW_N(s->f->arena, Val *, n + 1);
    for (int i = 0; i < n; i++) in[i] = expr(s, t->idx[i]);
    in[n] = axis_of(s, t->axis);
    bool scan = t->step & JOINED_SCAN;
    Op *op = op_new(s->f, scan ? OP_T_scan_by : OP_T_reduce_by, t->span, n + 1, in, n);
    op->flags = t->step & SCAN_REVERSE ? REVERSE : 0;
    for (int i = 0; i < n; i++) op->out[i]->type = scan ? in[i]->type : type_minus(in[i]->type, 1, &in[n]);
    b_insert(&s->b, op);
    of_two_states(s, op, t, true);
}

static void for_stmt(Bld *s, const TStmt *t) {
    Vars vars = {0};
    assigned(s, &t->body, &vars);
    s->b.span = t->span;
    Val *lead[3] = {expr(s, t->lo), expr(s, t->hi),
                    t->step_expr ? expr(s, t->step_expr) : b_const(&s->b, EL_index, t->step)};
    int n = (int)vars.n;
    Op *op = control(s, OP_T_for, t->span, 3, lead, vars.at, n, true);
    op->str = t->label ? (Str){t->label->s, t->label->n} : (Str){0};
    Region *r = op->reg[0];
    Val **saved = NEW_N(s->f->arena, Val *, s->f->kernel->naxes + 1);
    memcpy(saved, s->axis, sizeof *saved * (size_t)s->f->kernel->naxes);
    Open o = open_region(s, r);
    Val *counter = region_arg(s->f, r, type_scalar(EL_index));
    counter->name = t->var->name;
    s->var[t->var->id] = counter;
    bind_args(s, r, vars.at, n);
    Loop loop = {t, vars.at, n, s->loop};
    s->loop = &loop;
    if (t->axis) make_axis(s, t->axis, counter, lead[1]);
    body(s, &t->body);
    s->loop = loop.outer;
    close_region(s, o, vars.at, n);
    memcpy(s->axis, saved, sizeof *saved * (size_t)s->f->kernel->naxes);
    bind_results(s, op, vars.at, n);
    if (t->ncarried && t->merge_result) merge(s, t);
}

static void while_stmt(Bld *s, const TStmt *t) {
    Vars vars = {0};
    assigned(s, &t->cond_body, &vars);
    assigned_expr(s, t->cond, &vars);
    assigned(s, &t->body, &vars);
    int n = (int)vars.n;
    Op *op = control(s, OP_T_while, t->span, 0, NULL, vars.at, n, true);
    Val **saved = NEW_N(s->f->arena, Val *, s->f->kernel->naxes + 1);
    memcpy(saved, s->axis, sizeof *saved * (size_t)s->f->kernel->naxes);
    Open o = open_region(s, op->reg[0]);
    bind_args(s, op->reg[0], vars.at, n);
    body(s, &t->cond_body);
    Val **in = NEW_N(s->f->arena, Val *, n + 1);
    in[0] = expr(s, t->cond);
    current(s, vars.at, n, in + 1);
    terminate(s, OP_T_condition, n + 1, in, 0);
    close_region(s, o, vars.at, n);
    memcpy(s->axis, saved, sizeof *saved * (size_t)s->f->kernel->naxes);
    o = open_region(s, op->reg[1]);
    bind_args(s, op->reg[1], vars.at, n);
    Loop loop = {t, vars.at, n, s->loop};
    s->loop = &loop;
    body(s, &t->body);
    s->loop = loop.outer;
    close_region(s, o, vars.at, n);
    memcpy(s->axis, saved, sizeof *saved * (size_t)s->f->kernel->naxes);
    bind_results(s, op, vars.at, n);
}

static void if_stmt(Bld *s, const TStmt *t) {
    Vars vars = {0};
    Val *cond = expr(s, t->cond);
    assigned(s, &t->body, &vars);
    assigned(s, &t->orelse, &vars);
    int n = (int)vars.n;
    Op *op = control(s, OP_T_if, t->span, 1, &cond, vars.at, n, false);
    Val **before = NEW_N(s->f->arena, Val *, n + 1);
    current(s, vars.at, n, before);
    Val **saved = NEW_N(s->f->arena, Val *, s->f->kernel->naxes + 1);
    memcpy(saved, s->axis, sizeof *saved * (size_t)s->f->kernel->naxes);
    for (int i = 0; i < 2; i++) {
        for (int k = 0; k < n; k++) s->var[vars.at[k]->id] = before[k];
        Open o = open_region(s, op->reg[i]);
        body(s, i ? &t->orelse : &t->body);
        close_region(s, o, vars.at, n);
        memcpy(s->axis, saved, sizeof *saved * (size_t)s->f->kernel->naxes);
    }
    bind_results(s, op, vars.at, n);
}

static void leave(Bld *s, const TStmt *t) {
    int depth = 0;
    Loop *l = s->loop;
    for (; l && t->target && l->stmt != t->target; l = l->outer) depth++;
    if (!l) ice("break outside of a loop");
    Val **in = NEW_N(s->f->arena, Val *, l->nvars + 1);
    current(s, l->vars, l->nvars, in);
    s->b.span = t->span;
    terminate(s, t->kind == TS_break ? OP_T_break : OP_T_continue, l->nvars, in, depth);
}

static Op *effect(Bld *s, OpCode code, const TStmt *t, int n, Val *const *in) {
    Op *op = op_new(s->f, code, t->span, n, in, 0);
    op->nidx = code == OP_T_store ? t->nidx : 0;
    op->str = t->str;
    if (code == OP_T_ptrstore && t->cond) op->flags |= HAS_WHERE;
    b_insert(&s->b, op);
    return op;
}

static void stmt(Bld *s, const TStmt *t) {
    Val *in[MAX_RANK + 3];
    int n;
    switch ((TStmtKind)t->kind) {
    case TS_let: case TS_assign: {
        Val *v = expr(s, t->value);
        need_axes(s, &t->var->type);
        if (v->type.rank < t->var->type.naxes) {
            s->b.span = t->span;
            v = b_op(&s->b, OP_T_splat, 0, tile_type(s, &t->var->type), 1, &v);
        }
        if (!v->name) v->name = t->var->name;
        s->var[t->var->id] = v;
        return;
    }
    case TS_store: {
        n = access_operands(s, t->tensor, t->idx, t->nidx, in);
        in[n] = expr(s, t->value);
        Type whole = in[n]->type;                       // what is stored has every axis of the index
        for (int i = 0; i < t->nidx; i++) whole = type_union(whole, in[1 + i]->type);
        s->b.span = t->span;
        if (whole.rank != in[n]->type.rank) in[n] = b_op(&s->b, OP_T_splat, 0, whole, 1, &in[n]);
        n++;
        effect(s, OP_T_store, t, n, in);
        return;
    }
    case TS_ptrstore:
        in[0] = expr(s, t->idx[0]); in[1] = expr(s, t->value); n = 2;
        if (t->cond) in[n++] = expr(s, t->cond);
        effect(s, OP_T_ptrstore, t, n, in);
        return;
    case TS_eval:   expr(s, t->value); return;
    case TS_for:    for_stmt(s, t); return;
    case TS_joined: joined(s, t); return;
    case TS_while:  while_stmt(s, t); return;
    case TS_if:     if_stmt(s, t); return;
    case TS_break: case TS_continue: leave(s, t); return;
    case TS_assert: in[0] = expr(s, t->cond); effect(s, OP_T_assert, t, 1, in); return;
    case TS_print:
        n = 0;
        if (t->value) in[n++] = expr(s, t->value);
        in[n++] = s->program ? bin(s, OP_eq, s->program, num(s, 0)) : b_const(&s->b, EL_bool, 1);
        effect(s, OP_T_print, t, n, in)->attr = 1;
        return;
    case TS_COUNT: break;
    }
    ice("typed statement of unknown kind %d", t->kind);
}

static void body(Bld *s, const TBody *b) {
    for (uint32_t i = 0; i < b->n && !s->ended; i++) stmt(s, b->at[i]);
}

// ---- the grid ------------------------------------------------------------------------------------
// Programs are numbered along the last clause first. Kernels with products take their last two clauses in
// groups instead, so that the programs that run at one time share operands in L2:
//
//     GROUP rows of tiles, walked down before across         0 4 8 ..      rows of the first clause
//     (as many of each as make the group's operands equal)   1 5 9
//                                                            2 6 10
//                                                            3 7 11
//
// Where the clause before the last is a number that does nothing but look up integers, it goes through a list of tiles (a group's, from some row on), and
// neighbours in the list share operands as rows of tiles do: groups of LISTED. Products of 8 groups of rows with a matrix each, 8192 x 14336 x 4096, H200: 1748 us
// by 128 x 128, 1615 by 128 x 256; 2013 and 1778 along the last clause first, since each row of tiles reads the whole matrix (2026-11-24).

static bool has_dot(const TBody *b);

static bool expr_has_dot(const TExpr *e) {
    if (!e) return false;
    if (e->kind == TX_dot || (e->kind == TX_block && has_dot(&e->body))) return true;
    for (uint32_t i = 0; i < e->nkid; i++) if (expr_has_dot(e->kid[i])) return true;
    return false;
}

static bool has_dot(const TBody *b) {
    for (uint32_t i = 0; i < b->n; i++) {
        const TStmt *t = b->at[i];
        if (expr_has_dot(t->value) || has_dot(&t->body) || has_dot(&t->orelse)) return true;
    }
    return false;
}


// min(v, n - 1) where the program's existence says that it is so: bounds and ranges follow from it.
static Val *existing(Bld *s, Val *v, Val *n) {
    Val *last = bin(s, OP_sub, n, num(s, 1));
    v = b_op(&s->b, OP_T_fun, TF_min, type_scalar(EL_index), 2, (Val *[]){v, last});
    v->def->attr = 1;                                   // not negative: see fact_range
    return v;
}

static int64_t group_rows(const TGrid *m, const TGrid *n) {      // 132 programs, square in operand bytes
    double rows = 132.0 * (double)n->step / (double)m->step;
    int64_t g = 1;
    while (g < 64 && (double)(g * g) * 2 < rows) g *= 2;
    return g;
}

static void grouped(Bld *s, int64_t g, Val *rows, Val *cols, Val *number, Val **at_m, Val **at_n) {
    Val *per_group = bin(s, OP_mul, cols, num(s, g));
    Val *groups = bin(s, OP_div, bin(s, OP_add, rows, num(s, g - 1)), num(s, g));
    // 32 bits hold it: so they do all of this
    Val *first = bin(s, OP_mul, existing(s, bin(s, OP_div, number, per_group), groups), num(s, g));
    Val *inside = bin(s, OP_rem, number, per_group), *left = bin(s, OP_sub, rows, first);
    Val *rest = b_op(
        &s->b, OP_T_fun, TF_min, type_scalar(EL_index), 2,
        (Val *[]){bin(s, OP_sub, rows, bin(s, OP_mul, bin(s, OP_sub, groups, num(s, 1)), num(s, g))), num(s, g)});
    // rows of the last group: a launch knows them, and so divides by them fast
    rest->def->attr = 1;
    Val *whole = bin(s, OP_ge, left, num(s, g)), *at[2];
    for (int i = 0; i < 2; i++)
        at[i] = b_op(&s->b, OP_T_select, 0, type_scalar(EL_index), 3,
                     (Val *[]){whole, bin(s, i ? OP_div : OP_rem, inside, num(s, g)),
                               bin(s, i ? OP_div : OP_rem, inside, rest)});
    *at_m = existing(s, bin(s, OP_add, first, at[0]), rows);
    *at_n = bin(s, OP_rem, at[1],
                cols);    // says `below cols` as well as a minimum does, and mma.sync kernels come out of
    // ptxas 5 % faster (H200, 2026-11-21)
}

// The last two clauses, where the last one alone is of tiles: how many there are, and a program's numbers in each.
typedef struct Plane { Val *rows, *cols, *row, *col; } Plane;

static Plane grid(Bld *s) {
    const TKernel *k = s->f->kernel;
    Val *count[MAX_RANK], *lo[MAX_RANK], *hi[MAX_RANK], *at[MAX_RANK];
    int n = k->ngrid;
    for (int i = 0; i < n; i++) {
        const TGrid *g = &k->grid[i];
        lo[i] = expr(s, g->lo);
        hi[i] = expr(s, g->hi);
        Val *len = bin(s, OP_sub, hi[i], lo[i]);
        count[i] = g->step == 1 ? len : bin(s, OP_div, bin(s, OP_add, len, num(s, g->step - 1)), num(s, g->step));
    }
    Val *rest = n ? b_op(&s->b, OP_T_program, 0, type_scalar(EL_index), 0, NULL) : NULL;
    int left = n;
    s->program = rest;
    if (n >= 2 && k->grid[n - 1].axis && k->grid[n - 2].axis && has_dot(&k->body)) {
        Val *plane = bin(s, OP_mul, count[n - 2], count[n - 1]), *number = rest;
        left = n - 2;
        if (left) { number = bin(s, OP_rem, rest, plane); rest = bin(s, OP_div, rest, plane); }
        grouped(s, group_rows(&k->grid[n - 2], &k->grid[n - 1]), count[n - 2], count[n - 1], number, &at[n - 2], &at[n - 1]);
    }
    for (int i = left - 1; i >= 0; i--) {
        at[i] = i ? bin(s, OP_rem, rest, count[i]) : existing(s, rest, count[i]);
        if (i) rest = bin(s, OP_div, rest, count[i]);
    }
    for (int i = 0; i < n; i++) {
        const TGrid *g = &k->grid[i];
        Val *first = g->step == 1 ? at[i] : bin(s, OP_mul, at[i], num(s, g->step));
        first = bin(s, OP_add, lo[i], first);
        first->name = g->var->name;
        s->var[g->var->id] = first;
        if (g->axis) make_axis(s, g->axis, first, hi[i]);
    }
    bool numbers = left == n && n >= 2 && k->grid[n - 1].axis && has_dot(&k->body);
    return numbers ? (Plane){count[n - 2], count[n - 1], at[n - 2], at[n - 1]} : (Plane){0};
}

static bool looks_up_integers(const Fn *f, const Val *number) {
    bool any = false;
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        for (int i = 0; i < op->nin; i++) {
            if (op->in[i] != number) continue;
            if (op->code != OP_T_load || i < 1 || i > op->nidx || !elem_is_int((Elem)op->in[0]->type.elem)) return false;
            any = true;
        }
    return any;
}

// Once it is known what the body does with them.
static void group_list(Bld *s, const Plane *p) {
    enum { LISTED = 8 };
    const TKernel *k = s->f->kernel;
    if (!p->row || !looks_up_integers(s->f, s->var[k->grid[k->ngrid - 2].var->id])) return;
    Builder end = s->b;
    Val *row, *col;
    s->b = (Builder){s->f, &s->f->body, p->row->def->next, k->span};
    Val *number = k->ngrid > 2 ? bin(s, OP_rem, s->program, bin(s, OP_mul, p->rows, p->cols)) : s->program;
    grouped(s, LISTED, p->rows, p->cols, number, &row, &col);
    replace_uses(&s->f->body, p->row, row);
    replace_uses(&s->f->body, p->col, col);
    s->f->listed = true;
    s->b = end;
}

Fn *ir_build(Session *session, const TKernel *k) {
    Fn *f = fn_new(session, k);
    Bld s = {.f = f, .b = {f, &f->body, NULL, k->span}};
    s.var = NEW_N(f->arena, Val *, k->nvars + 1);
    s.axis = NEW_N(f->arena, Val *, k->naxes + 1);
    s.tensor = NEW_N(f->arena, Val *, k->nparams + 1);
    for (int i = 0; i < k->nparams; i++) {
        const LaunchParam *p = &k->params[i];
        Type t = p->kind == PK_TENSOR ? (Type){.kind = TY_TENSOR, .elem = (uint8_t)p->elem, .rank = (uint8_t)p->rank}
                                      : type_scalar(p->elem);
        t.ptr = p->kind == PK_POINTER;
        Val *v = b_op(&s.b, p->kind == PK_TENSOR ? OP_T_tensor : OP_T_scalar, 0, t, 0, NULL);
        v->def->imm = i;
        v->name = p->name;
        if (p->kind == PK_TENSOR) s.tensor[i] = v;
        else s.var[k->scalar[i]->id] = v;
    }
    f->launch = launch_from_typed(f->arena, k);
    Plane plane = grid(&s);
    body(&s, &k->body);
    group_list(&s, &plane);
    return f;
}
