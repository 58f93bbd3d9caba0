// Programs that store to one place: `s[] = sum(x[n] over n);` where n is the grid's, which leaves one program's sum.
//
// A value may differ from program to program if it is made of what a grid clause counts: of its index or axis, of what is
// loaded there, of variables that such values were assigned to. Sets of clauses are bits of a word, and grow until nothing
// changes. A store is warned about where its value depends on a clause and neither its place does nor a condition around it
// (one of the programs may be chosen there). So is one that adds to what the place held: without an atomic, programs that
// read before the others have written lose what those have added. Old values of atomics differ from program to program.
#include "sema/internal.h"

typedef uint32_t Clauses;

typedef struct Places {
    Check   *c;
    TKernel *k;
    Clauses  all;                        // clauses that make more than one program
    Clauses *var, *axis;                 // by id
    int     *begins, pass;               // by axis: the last pass that looked at where it begins
    Clauses  around;                     // conditions around the statement
    bool     changed;                    // in this pass; one in which nothing does knows all
    const TStmt *bad;                    // the first store in it that loses something, and what
    Clauses  lost;
    bool     adds;
} Places;

static void body_of(Places *p, const TBody *body);
static Clauses of_expr(Places *p, const TExpr *x);

static void grow(Places *p, Clauses *to, Clauses more) {
    if ((*to | more) == *to) return;
    *to |= more;
    p->changed = true;
}

static Clauses of_axis(Places *p, const TAxis *ax) {
    for (int g = 0; g < p->k->ngrid; g++) {
        if (p->k->grid[g].axis == ax) return p->all & 1u << g;
    }
    return p->axis[ax->id];
}

static Clauses of_kids(Places *p, const TExpr *x, uint32_t from, uint32_t to) {
    Clauses m = 0;
    for (uint32_t i = from; i < to && i < x->nkid; i++) m |= x->kid[i] ? of_expr(p, x->kid[i]) : 0;
    return m;
}

static Clauses of_expr(Places *p, const TExpr *x) {
    if (x->kind == TX_block) body_of(p, &x->body);       // its value is made of what it says; else each block in a block took a pass
    Clauses m = of_kids(p, x, 0, x->nkid);
    for (int i = 0; i < x->type.naxes; i++) {
        TAxis *ax = x->type.axis[i];
        if (!ax->lo || p->begins[ax->id] == p->pass) continue;
        p->begins[ax->id] = p->pass;
        grow(p, &p->axis[ax->id], of_expr(p, ax->lo));
    }
    if (x->kind == TX_var) return m | p->var[x->var->id];
    if (x->kind == TX_axis) return m | of_axis(p, x->axis[0]);
    if (x->kind == TX_atomic) return p->all;
    return m;
}

static bool reads(const TExpr *x, const TTensor *t) {
    if (x->kind == TX_load && x->tensor == t) return true;
    for (uint32_t i = 0; i < x->nkid; i++) if (x->kid[i] && reads(x->kid[i], t)) return true;
    return false;
}

static const char *atomic_for(const TExpr *x) {
    while (x->kind == TX_cast || x->kind == TX_splat || (x->kind == TX_block && x->nkid)) x = x->kid[0];
    if (x->kind != TX_reduce) return "atomic_add";
    return x->op == TR_max || x->op == TR_any ? "atomic_max" : x->op == TR_min || x->op == TR_every ? "atomic_min" : "atomic_add";
}

static void say(Places *p) {
    const TStmt *st = p->bad;
    Clauses lost = p->lost;
    bool adds = p->adds;
    Buf names = {0};
    for (int g = 0; g < p->k->ngrid; g++)
        if (lost & 1u << g) buf_printf(&names, "%s`%s`", names.n ? ", " : "", p->k->grid[g].var->name->s);
    Diag *d = report(p->c, E_one_place, st->span, names.p, adds ? "add to" : "store to", st->tensor->name->s,
                     adds ? "what others add in between is lost" : "what one of them stores stays");
    buf_free(&names);
    for (int g = 0; g < p->k->ngrid; g++)
        if (lost & 1u << g) diag_label(d, p->k->grid[g].var->span, "`%s` is not in the place", p->k->grid[g].var->name->s);
    const char *place = st->nidx ? "..." : "";
    diag_help(d, "`%s(%s[%s], v)` of an `inout` tensor is done once for each program; or one program has it all, in a loop instead of the grid",
              adds ? "atomic_add" : atomic_for(st->value), st->tensor->name->s, place);
}

static void store(Places *p, const TStmt *st, Clauses value) {
    Clauses place = p->around;
    for (int i = 0; i < st->nidx; i++) place |= of_expr(p, st->idx[i]);
    bool adds = st->tensor && st->tensor->mode == PM_INOUT && reads(st->value, st->tensor);
    Clauses lost = p->all & ~place & (adds ? p->all : value);
    if (lost && st->tensor && !p->bad) p->bad = st, p->lost = lost, p->adds = adds;
}

static void statement(Places *p, const TStmt *st) {
    Clauses around = p->around;
    Clauses value = st->value ? of_expr(p, st->value) : 0, cond = st->cond ? of_expr(p, st->cond) : 0;
    switch ((TStmtKind)st->kind) {
    case TS_let: case TS_assign: grow(p, &p->var[st->var->id], value | around); break;
    case TS_store: store(p, st, value); break;
    case TS_for:
        grow(p, &p->var[st->var->id], of_expr(p, st->lo) | of_expr(p, st->hi) | around);
        if (st->axis) grow(p, &p->axis[st->axis->id], p->var[st->var->id]);
        for (int i = 0; i < st->ncarried; i++) grow(p, &p->var[st->merge_x[i]->id], p->all), grow(p, &p->var[st->merge_y[i]->id], p->all);
        body_of(p, &st->body);
        break;
    case TS_joined:
        for (int i = 0; i < st->nidx; i++) value |= of_expr(p, st->idx[i]);
        for (int i = 0; i < st->ncarried; i++) grow(p, &p->var[st->carried[i]->id], value | around);
        break;
    case TS_while: case TS_if:
        p->around |= cond;
        body_of(p, &st->cond_body);
        body_of(p, &st->body);
        body_of(p, &st->orelse);
        p->around = around;
        break;
    default: break;
    }
}

static bool leaves(const TBody *body) {                        // a loop, at a place that some condition decides
    for (uint32_t i = 0; i < body->n; i++) {
        const TStmt *st = body->at[i];
        if (st->kind == TS_break || st->kind == TS_continue || leaves(&st->body) || leaves(&st->orelse)) return true;
    }
    return false;
}

static void body_of(Places *p, const TBody *body) {
    Clauses around = p->around;
    for (uint32_t i = 0; i < body->n; i++) {
        const TStmt *st = body->at[i];
        statement(p, st);
        if (st->kind == TS_if && (leaves(&st->body) || leaves(&st->orelse))) p->around |= of_expr(p, st->cond);
    }
    p->around = around;
}

// `where M <= BM`: a clause over 0 .. M by BM is one program's.
static bool guarded(const TKernel *k, const TGrid *r) {
    for (int i = 0; i < k->nguards; i++) {
        const TExpr *x = k->guards[i].cond;
        bool most = x->kind == TX_binary && x->op == OP_le && x->kid[0]->kind == TX_dim && x->kid[1]->kind == TX_const;
        if (most && r->hi->kind == TX_dim && r->hi->dim == x->kid[0]->dim && x->kid[1]->ival <= r->step) return true;
    }
    return false;
}

static Clauses several(const TKernel *k) {
    Clauses all = 0;
    for (int g = 0; g < k->ngrid && g < 32; g++) {
        const TGrid *r = &k->grid[g];
        bool from = r->lo->kind == TX_const, known = from && r->hi->kind == TX_const;
        bool one = known ? r->hi->ival - r->lo->ival <= r->step : from && r->lo->ival >= 0 && guarded(k, r);
        if (!one) all |= 1u << g;
    }
    return all;
}

void check_places(Check *c) {
    TKernel *k = c->k;
    Places p = {.c = c, .k = k, .all = several(k)};
    if (!p.all || c->failed) return;
    p.var = NEW_N(c->a, Clauses, k->nvars + 1);
    p.axis = NEW_N(c->a, Clauses, k->naxes + 1);
    p.begins = NEW_N(c->a, int, k->naxes + 1);
    for (int g = 0; g < k->ngrid; g++) p.var[k->grid[g].var->id] = p.all & 1u << g;
    do {
        p.changed = false;
        p.bad = NULL;
        p.pass++;
        body_of(&p, &k->body);
    } while (p.changed);
    if (p.bad) say(&p);
}
