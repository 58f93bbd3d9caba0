// Recipes: how the numbers of a graph follow from the dimensions of its head, found out while it is run with numbers.
//
//     graph step(x: f32[batch, 16], k: f32[batch, past, 8]) -> ...        run for batch = 2, past = 7
//
//     let q = linear(reshape(x, batch * 2, 8));        rows    1  dim 0               batch
//     k_next = append(q, k);        f32[batch, past + 1, 8]    2  dim 1               past
//                                                              3  const 2    4  1 * 3       of q's first dimension
//                                                              5  const 1    6  2 + 5       of k_next's second
//                                                      holds   4 is divided by 4, as far as `linear` asks
//
// A number that depends on a dimension carries its row (Ent.row) through names, arithmetic and the types of tensors.
// Whoever makes something else depend on it, which launches there are, which instance of a kernel, what a weight is
// called, pins it: the recipe then holds for sizes where it is the same number, truth or kind. So a step of a length
// that never came up before is a table gone through once, and no word of the graph is looked at again; where a pin does
// not hold, the graph is run.
//
// Expressions propagate rows through + - * / %, comparisons, and conversions of integers. Everything else that is
// evaluated, calls say, pins what it reads by name (Check.pinning): a word of the language that knows nothing of
// recipes makes one of fewer sizes, never a wrong one.
#include "sema/internal.h"

#include "lang/number.h"

#include <string.h>

enum { MAX_ROWS = 4096 };

struct Recipe {
    Arena *a;
    bool   lost;
    VEC(TGRow) rows;
    VEC(TGHold) holds;
    VEC(TGChoice) choices;
};

Recipe *recipe_new(Arena *a) {
    Recipe *r = NEW(a, Recipe);
    TGRow nobody = {.op = L_CONST};
    r->a = a;
    vec_push(a, &r->rows, nobody);
    return r;
}

void recipe_lost(Check *c) {
    if (c->recipe) c->recipe->lost = true;
}

static int32_t row_of(Recipe *r, LOp op, int32_t a, int32_t b, int64_t arg) {
    for (uint32_t i = 1; i < r->rows.n; i++) {
        const TGRow *x = &r->rows.at[i];
        if (x->op == op && x->a == a && x->b == b && x->arg == arg) return (int32_t)i;
    }
    TGRow x = {op, a, b, arg};
    if (r->rows.n == MAX_ROWS) r->lost = true;
    if (r->lost) return 0;
    vec_push(r->a, &r->rows, x);
    return (int32_t)r->rows.n - 1;
}

void recipe_dim(Check *c, int dim, Ent *e) {
    if (c->recipe && e->kind == EN_int) e->row = row_of(c->recipe, L_DIM, 0, 0, dim);
}

// The most that a power of two is asked for, and whether 1 is.
static int most_of(int kinds) {
    int most = 1;
    while (kinds & (KIND_ONE - 1) & ~(2 * most - 1)) most *= 2;
    return most;
}

int64_t recipe_kind(int64_t v, int kinds) {
    int most = most_of(kinds);
    return v == 1 && kinds & KIND_ONE ? 0 : v % most == 0 ? most : v & -v;
}

static bool says(int kinds, int less) { return most_of(kinds) >= most_of(less) && (kinds & KIND_ONE) >= (less & KIND_ONE); }

static void hold(Recipe *r, int32_t row, int kinds, int64_t is) {
    for (uint32_t i = 0; i < r->holds.n; i++) {
        const TGHold *h = &r->holds.at[i];
        // one that says as much; they cannot contradict each other
        if (h->row == row && (!h->kinds || (kinds && says(h->kinds, kinds)))) return;
    }
    TGHold h = {row, (uint8_t)kinds, is};
    if (r->holds.n == MAX_ROWS) r->lost = true;
    if (!r->lost) vec_push(r->a, &r->holds, h);
}

// of one with a row: a constant, if it has a type
static int64_t number(Ent e) { return e.kind == EN_value ? e.x->ival : e.i; }

Ent recipe_pin(Check *c, Ent e) {
    if (c->recipe && e.row) hold(c->recipe, e.row, 0, number(e));
    e.row = 0;
    return e;
}

// What follows is for sizes where it is 1 alike, and the same powers of two divide it.
static void recipe_pin_kind(Check *c, Ent e, int kinds) {
    if (c->recipe && e.row) hold(c->recipe, e.row, kinds, recipe_kind(e.i, kinds));
}

// What rows know: the rest is pinned.
static bool row_op(AstOp op, LOp *out, bool *turned) {
    static const struct { AstOp op; LOp row; bool turned; } ops[] = {
        {OP_add, L_ADD, false}, {OP_sub, L_SUB, false}, {OP_mul, L_MUL, false}, {OP_div, L_DIV, false}, {OP_rem, L_MOD, false},
        {OP_eq, L_EQ, false}, {OP_ne, L_NE, false}, {OP_lt, L_LT, false}, {OP_le, L_LE, false}, {OP_gt, L_LT, true}, {OP_ge, L_LE, true},
    };
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        if (ops[i].op != op) continue;
        *out = ops[i].row;
        *turned = ops[i].turned;
        return true;
    }
    return false;
}

Ent recipe_result(Check *c, AstOp op, Ent a, Ent b, Ent r) {
    LOp  row;
    bool turned, numbers = a.kind == EN_int && b.kind == EN_int && (r.kind == EN_int || r.kind == EN_bool);
    if (!c->recipe || !(a.row || b.row)) return r;
    r.row = 0;
    if (!numbers || !row_op(op, &row, &turned)) {
        recipe_pin(c, a);
        recipe_pin(c, b);
        return r;
    }
    int32_t x = a.row ? a.row : row_of(c->recipe, L_CONST, 0, 0, a.i),
            y = b.row ? b.row : row_of(c->recipe, L_CONST, 0, 0, b.i);
    r.row = turned ? row_of(c->recipe, row, y, x, 0) : row_of(c->recipe, row, x, y, 0);
    return r;
}

Ent recipe_cast(Check *c, Ent e, Elem to, Ent r) {
    bool same = r.kind == EN_value && r.x->kind == TX_const && elem_is_int(to) &&
                (e.kind == EN_int || e.kind == EN_value) && r.x->ival == number(e);
    if (!c->recipe || !e.row) return r;
    if (!same || (elem_bits(to) == 64 && !elem_is_signed(to))) {
        recipe_pin(c, e);
        return r;
    }
    Ent n = ent_int(number(e), r.span);
    n.row = e.row;
    if (elem_bits(to) < 64) {                                          // for sizes where it fits
        int64_t past = INT64_C(1) << (elem_bits(to) - elem_is_signed(to)), least = elem_is_signed(to) ? -past : 0;
        recipe_pin(c, recipe_result(c, OP_lt, n, ent_int(past, r.span), ent_bool(true, r.span)));
        recipe_pin(c, recipe_result(c, OP_ge, n, ent_int(least, r.span), ent_bool(true, r.span)));
    }
    r.row = e.row;
    return r;
}

static int dim_named(const TKernel *k, const char *name) {
    for (int i = 0; i < k->ndims; i++) {
        if (strcmp(k->dims[i].name->s, name) == 0) return i;
    }
    return -1;
}

void recipe_instance(Check *c, const TKernel *k, const SemaValue *known, const int32_t *row, int n) {
    for (int i = 0; i < n && c->recipe; i++) {
        int dim = row[i] ? dim_named(k, known[i].name) : -1;
        Ent e = {.kind = EN_int, .row = row[i], .i = known[i].ival};
        if (dim < 0 || k->reads[dim]) recipe_pin(c, e);
        else if (k->kinds[dim]) recipe_pin_kind(c, e, k->kinds[dim]);
    }
}

static bool same_choice(const TGChoice *a, const TGChoice *b) {
    bool same = a->kernel == b->kernel && a->nset == b->nset && a->nknown == b->nknown &&
                memcmp(&a->given, &b->given, sizeof a->given) == 0;
    for (int i = 0; same && i < a->nset; i++)
        same = a->set[i].ival == b->set[i].ival && a->set[i].elem == b->set[i].elem &&
               sema_same_function(&a->set[i], &b->set[i]) && a->set[i].name == b->set[i].name;
    for (int i = 0; same && i < a->nknown; i++)
        same = a->known[i].ival == b->known[i].ival && a->known[i].elem == b->known[i].elem && a->row[i] == b->row[i] &&
               a->known[i].name == b->known[i].name;
    return same;
}

void recipe_choice(Check *c, const TGChoice *choice) {
    Recipe *r = c->recipe;
    if (!r || r->lost) return;
    for (uint32_t i = 0; i < r->choices.n; i++) {
        if (same_choice(&r->choices.at[i], choice)) return;
    }
    TGChoice own = *choice;
    own.set = NEW_N(r->a, SemaValue, own.nset + 1);
    own.known = NEW_N(r->a, SemaValue, own.nknown + 1);
    own.row = NEW_N(r->a, int32_t, own.nknown + 1);
    own.chosen = NEW_N(r->a, SemaValue, own.nchosen + 1);
    memcpy(own.set, choice->set, sizeof *own.set * (size_t)own.nset);
    memcpy(own.known, choice->known, sizeof *own.known * (size_t)own.nknown);
    memcpy(own.row, choice->row, sizeof *own.row * (size_t)own.nknown);
    memcpy(own.chosen, choice->chosen, sizeof *own.chosen * (size_t)own.nchosen);
    if (r->choices.n == MAX_ROWS) r->lost = true;
    else vec_push(r->a, &r->choices, own);
}

bool recipe_close(Recipe *r, TGRecipe *out) {
    *out = (TGRecipe){.rows = r->rows.at,
                      .nrows = (int)r->rows.n,
                      .holds = r->holds.at,
                      .nholds = (int)r->holds.n,
                      .choices = r->choices.at,
                      .nchoices = (int)r->choices.n};
    return !r->lost;
}

TGRecipe *recipe_kept(const TGRecipe *r, Arena *a) {
    TGRecipe *own = NEW(a, TGRecipe);
    *own = *r;
    own->rows = NEW_N(a, TGRow, r->nrows);
    own->holds = NEW_N(a, TGHold, r->nholds + 1);
    own->choices = NEW_N(a, TGChoice, r->nchoices + 1);
    memcpy(own->rows, r->rows, sizeof *own->rows * (size_t)r->nrows);
    if (r->nholds) memcpy(own->holds, r->holds, sizeof *own->holds * (size_t)r->nholds);
    for (int i = 0; i < r->nchoices; i++) {
        const TGChoice *x = &r->choices[i];
        TGChoice *y = &own->choices[i];
        *y = *x;
        y->set = launch_values_kept(a, x->set, x->nset);
        y->known = launch_values_kept(a, x->known, x->nknown);
        y->chosen = launch_values_kept(a, x->chosen, x->nchosen);
        y->row = NEW_N(a, int32_t, x->nknown + 1);
        memcpy(y->row, x->row, sizeof *y->row * (size_t)x->nknown);
    }
    return own;
}

// ---- other sizes -----------------------------------------------------------------------------------

static bool carried_out(const TGRow *x, int64_t a, int64_t b, int64_t *v) {
    switch (x->op) {
    case L_ADD: return !__builtin_add_overflow(a, b, v);
    case L_SUB: return !__builtin_sub_overflow(a, b, v);
    case L_MUL: return !__builtin_mul_overflow(a, b, v);
    case L_DIV: return b != 0 && b != -1 && (*v = int_div_floor(a, b), true);
    case L_MOD: return b != 0 && b != -1 && (*v = int_mod_floor(a, b), true);
    case L_EQ:  *v = a == b; return true;
    case L_NE:  *v = a != b; return true;
    case L_LT:  *v = a < b; return true;
    case L_LE:  *v = a <= b; return true;
    default:    return false;
    }
}

static bool numbers_of(const TGRecipe *r, const int64_t *dims, int64_t *v) {
    v[0] = 0;
    for (int i = 1; i < r->nrows; i++) {
        const TGRow *x = &r->rows[i];
        if (x->op == L_CONST) v[i] = x->arg;
        else if (x->op == L_DIM) v[i] = dims[x->arg];
        else if (!carried_out(x, v[x->a], v[x->b], &v[i])) return false;
    }
    for (int i = 0; i < r->nholds; i++) {
        const TGHold *h = &r->holds[i];
        if ((h->kinds ? recipe_kind(v[h->row], h->kinds) : v[h->row]) != h->is) return false;
    }
    return true;
}

// What is decided for these sizes is what was decided for those of the recipe.
static bool chosen_alike(SemaFile *f, const TGRecipe *r, const int64_t *v) {
    SemaValue known[2 * MAX_DIMS + 16], chosen[MAX_CHOSEN];
    for (int i = 0; i < r->nchoices; i++) {
        const TGChoice *x = &r->choices[i];
        Schedule s = x->given;
        bool same = true;
        for (int k = 0; k < x->nknown; k++) {
            known[k] = x->known[k];
            if (x->row[k]) known[k].ival = v[x->row[k]];
            same = same && known[k].ival == x->known[k].ival;
        }
        if (same) continue;
        int n = f->chooser(f->chooser_ctx, (InstanceOf){f, x->kernel, x->set, x->nset, known, x->nknown}, chosen, &s);
        if (n != x->nchosen || memcmp(&s, &x->schedule, sizeof s) != 0) return false;
        for (int k = 0; k < n; k++) {
            if (chosen[k].name != x->chosen[k].name || chosen[k].ival != x->chosen[k].ival) return false;
        }
    }
    return true;
}

static bool resize_values(TGraph *r, const int64_t *v) {
    for (int i = 0; i < r->nvalues; i++) {
        TGValue *x = &r->values[i];
        for (int d = 0; d < x->rank; d++) {
            if (x->row[d] && (x->dim[d] = v[x->row[d]]) < 0) return false;
        }
        if (x->offset_row && (x->offset = v[x->offset_row]) < 0) return false;
    }
    return true;
}

// Launches are the same but for numbers among their arguments.
static void resize_launches(TGraph *r, const int64_t *v, Arena *a) {
    TGLaunch *own = NULL;
    for (int i = 0; i < r->nlaunches; i++) {
        const TGLaunch *l = &r->launches[i];
        bool numbers = false;
        for (int p = 0; p < l->kernel->nparams; p++) numbers |= l->args[p].row != 0;
        if (!numbers) continue;
        if (!own) {
            own = NEW_N(a, TGLaunch, r->nlaunches);
            memcpy(own, r->launches, sizeof *own * (size_t)r->nlaunches);
        }
        own[i].args = NEW_N(a, TValue, l->kernel->nparams);
        memcpy(own[i].args, l->args, sizeof *l->args * (size_t)l->kernel->nparams);
        for (int p = 0; p < l->kernel->nparams; p++) {
            TValue *x = &own[i].args[p];
            if (x->row) x->ival = v[x->row], x->fval = (double)x->ival;
        }
    }
    if (own) r->launches = own;
}

TGraph *sema_graph_resize(SemaFile *f, const TGraph *g, const int64_t *dims, Arena *a) {
    int64_t  v[MAX_ROWS];
    if (!g->recipe || !numbers_of(g->recipe, dims, v) || !chosen_alike(f, g->recipe, v)) return NULL;
    TGraph  *r = NEW(a, TGraph);
    TKernel *head = NEW(a, TKernel);
    *r = *g;
    *head = *g->head;
    head->dims = NEW_N(a, LaunchDim, head->ndims + 1);
    memcpy(head->dims, g->head->dims, sizeof *head->dims * (size_t)head->ndims);
    for (int i = 0; i < head->ndims; i++) head->dims[i].fixed = dims[i];
    r->head = head;
    r->values = NEW_N(a, TGValue, g->nvalues + 1);
    memcpy(r->values, g->values, sizeof *r->values * (size_t)g->nvalues);
    if (!resize_values(r, v)) return NULL;
    resize_launches(r, v, a);
    return r;
}
