// Pairs of a product's columns that are turned into each other, as rotary embeddings do with queries and keys: the
// product turns them itself.
//
//     x[.., h, n] * cos[n] + (n < 32 ? -x[.., h, n + 32] : x[.., h, n - 32]) * sin[n],     x = linear(..) by heads of 64
//
// Each element needs two columns of the product, 32 apart, which two lanes of one kernel hold. So the product becomes
// two, of the weights of the columns 0 .. 32 and 32 .. 64 of each head (put in this order when they are loaded), which
// fusion makes one loop with two sums, like a gated layer's halves. What follows is written down for either half: in
// each the choice by n is gone.
//
//     y0, y1 = x * w[0], x * w[1]                 columns (h, d), d in 0 .. 32
//     r[.., h, 0, d] = y0 * cos[d] - y1 * sin[d]
//     r[.., h, 1, d] = y1 * cos[d + 32] + y0 * sin[d + 32]
//
// All columns go along: those of the values are not turned, but they are paired in the same way, so that r is the whole
// of what the product was, in its order. Which columns are a pair is found, not known: a function of the product's
// columns that contains a concatenation is tried with its axis n taken apart as b * 2c + p * c + d, for each distance c
// between two columns that it reads. If for p = 0 and p = 1 it reads nothing but the columns (b, 0, d) and (b, 1, d),
// that is how they are paired. So it does not matter how an exporter wrote it: halves (c is half a head), neighbours (c
// = 1), only some of a head turned (b counts the blocks of 2c of it, of which those are turned that the concatenation
// says), one table of angles for both halves or each its own.
//
// Left alone: products whose columns are needed unturned as well, and whatever has a reduction (a norm) in between.

#include "graph/rewrite/rotary.h"

#include <string.h>

enum { MOST_LEAVES = 16, MOST_COLUMNS = 1 << 24, MOST_HEADS = 4096 };

typedef struct Leaves { Turn *t; const Pairing *p; Ix (*at)[G_MAX_RANK]; int n; } Leaves;

// The coordinates at which n, at these of its own, reads the whole.
static void leaves(Leaves *l, const Node *n, const Ix *coord) {
    Graph *g = l->t->r->g;
    Ix to[G_MAX_RANK];
    if (l->t->failed || (n != l->p->whole && !l->p->below[n->id])) return;
    if (n == l->p->whole) {
        bool found = false;
        for (int i = 0; i < l->n && !found; i++) found = memcmp(l->at[i], coord, (size_t)n->rank * sizeof *coord) == 0;
        if (!found && l->n == MOST_LEAVES) l->t->failed = true;
        else if (!found) memcpy(l->at[l->n++], coord, (size_t)n->rank * sizeof *coord);
        return;
    }
    if (!turn_computes(n) || ++l->t->steps > MOST_STEPS || (n->kind == G_view && !ix_is(n->view.pred, 1))) {
        l->t->failed = true;
    } else if (n->kind == G_view) {
        for (int i = 0; i < n->src[0]->rank; i++) to[i] = ix_substitute(g, n->view.coord[i], coord, n->rank);
        leaves(l, n->src[0], to);
    } else {
        memcpy(to, coord, (size_t)n->rank * sizeof *coord);
        for (uint32_t k = 0; k < n->nsrc; k++) {
            leaves(l, n->src[k], to);
            if (n->kind == G_concat) to[n->concat.axis] = ix_sub(g, to[n->concat.axis], n->src[k]->shape[n->concat.axis]);
        }
    }
}

// Its axis but for `along` one to one with rows and heads of the product, as one of the places has them that it reads.
static bool placed(Graph *g, const Pairing *p, Turned *f, const Ix *leaf) {
    int rows = turn_rows(p), rank = f->of->rank, n = 0;
    Ix axis[G_MAX_RANK], shape[G_MAX_RANK], coord[G_MAX_RANK], inverse[G_MAX_RANK], zero[G_MAX_RANK], with[G_MAX_RANK];
    for (int i = 0; i < rank; i++) {
        zero[i] = ix(g, 0);
        with[i] = i == f->along ? ix(g, 0) : ix_axis(g, i, f->of->shape[i]);
        if (i != f->along) axis[n++] = ix_axis(g, i, f->of->shape[i]);
    }
    Ix first = ix_substitute(g, leaf[rows], zero, rank);
    if (!ix_is_const(first) || first->value < 0 || first->value % p->head != 0) return false;
    f->head = ix_divide_exact(g, ix_substitute(g, leaf[rows], with, rank), ix(g, p->head));
    if (!f->head || f->head->lo != first->value / p->head || f->head->hi >= p->columns / p->head) return false;
    f->first = f->head->lo;
    Ix beyond = ix_addi(g, f->head, -f->first);
    f->step = beyond->multiple > 1 ? beyond->multiple : 1;
    f->heads = beyond->hi / f->step + 1;
    if (f->heads > MOST_HEADS) return false;
    for (int i = 0; i < rows; i++) {
        f->row[i] = coord[i] = leaf[i];
        shape[i] = p->product->shape[i];
        if (leaf[i]->axes >> f->along & 1) return false;
    }
    shape[rows] = ix(g, f->heads);
    coord[rows] = ix_divide_exact(g, beyond, ix(g, f->step));
    if (!coord[rows] || !map_invert(g, rows + 1, shape, coord, n, axis, inverse)) return false;
    for (int i = 0, k = 0; i < rank; i++) f->inverse[i] = i == f->along ? NULL : inverse[k++];
    return true;
}

static bool has_head(const Turned *f, int64_t h) {
    return h >= f->first && (h - f->first) % f->step == 0 && (h - f->first) / f->step < f->heads;
}

static bool apart(const Turned *a, const Turned *b) {
    for (int64_t i = 0; i < a->heads; i++)
        if (has_head(b, a->first + i * a->step)) return false;
    return true;
}

// The functions of a product are of different heads, in order.
static bool insert(Pairing *p, const Turned *f) {
    int at = p->n;
    while (at > 0 && p->at[at - 1].first > f->first) at--;
    for (int i = 0; i < p->n; i++)
        if (!apart(&p->at[i], f)) return false;
    memmove(p->at + at + 1, p->at + at, (size_t)(p->n - at) * sizeof *f);
    p->at[at] = *f;
    p->n++;
    return true;
}

static bool try_pairs(Turn *t, Pairing *p, Node *n, int along, int64_t c, const Leaves *l) {
    Graph *g = t->r->g;
    int64_t head = n->shape[along]->value;
    Pairing with = *p;
    with.head = head;
    with.c = c;
    with.blocks = head / (2 * c);
    if (!head || head % (2 * c) || p->columns % head || with.blocks > MOST_BLOCKS ||
        (p->n && (p->head != head || p->c != c)))
        return false;
    for (int i = 0; i < l->n; i++) {
        Turned f = {.of = n, .along = along};
        if (!placed(g, &with, &f, l->at[i])) continue;
        if (!p->n && !turn_make_halves(t, &with)) return false;
        t->number++;
        if (!turn_half(t, &with, &f, 0) || !turn_half(t, &with, &f, 1) || !insert(&with, &f)) return false;
        *p = with;
        for (uint32_t k = 0; k < t->r->n; k++) p->inside[k] |= t->read[k] == t->number;
        return true;
    }
    return false;
}

static bool turns(Turn *t, Pairing *p, Node *n) {
    Graph *g = t->r->g;
    int rows = turn_rows(p);
    Ix at[MOST_LEAVES][G_MAX_RANK], own[G_MAX_RANK];
    Leaves l = {t, p, at, 0};
    t->failed = false;
    t->steps = 0;
    for (int i = 0; i < n->rank; i++) own[i] = ix_axis(g, i, n->shape[i]);
    leaves(&l, n, own);
    if (t->failed || l.n < 2 || p->n == MOST_TURNED) return false;
    for (int along = n->rank; along-- > 0;)
        for (int i = 0; i < l.n && ix_is_const(n->shape[along]); i++)
            for (int k = 0; k < i; k++) {
                Ix apart = ix_sub(g, at[i][rows], at[k][rows]);
                int64_t c = ix_is_const(apart) && apart->value > -p->columns && apart->value < p->columns ? apart->value : 0;
                if (c < 0) c = -c;
                if (c && try_pairs(t, p, n, along, c, &l)) return true;
            }
    return false;
}

// May a column be one of a function's?
static bool may_be_of(Graph *g, const Pairing *p, const Turned *f, Ix column) {
    Ix beyond = ix_mod(g, ix_addi(g, ix_divi(g, column, p->head), -f->first), ix(g, f->step));
    int64_t end = f->first + (f->heads - 1) * f->step + 1;
    return column->hi >= f->first * p->head && column->lo < end * p->head && (!ix_is_const(beyond) || beyond->value == 0);
}

// Is no column that is turned read by anything else?
static bool alone(Turn *t, const Pairing *p) {
    Graph *g = t->r->g;
    int rows = turn_rows(p);
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        const Node *n = g->outputs.at[i].node;
        if (n == p->whole || (p->inside[n->id] && !t->of[n->id])) return false;
    }
    for (uint32_t i = 0; i < t->r->n; i++) {
        const Node *n = g->nodes.at[i];
        for (uint32_t k = 0; t->r->alive[i] && !p->inside[i] && k < n->nsrc; k++) {
            const Node *x = n->src[k];
            if (p->inside[x->id] && !t->of[x->id]) return false;
            if (x != p->whole) continue;
            if (n->kind != G_view) return false;
            for (int j = 0; j < p->n; j++)
                if (may_be_of(g, p, &p->at[j], n->view.coord[rows])) return false;
        }
    }
    return true;
}

// The product with biases and what else is computed column by column, as long as nothing else reads what is before.
static void add_steps(Turn *t, Pairing *p) {
    Graph *g = t->r->g;
    p->step[p->steps++] = p->whole = p->product;
    for (uint32_t i = p->product->id + 1; i < t->r->n && p->steps <= MOST_ADDED && t->r->users[p->whole->id] == 1; i++) {
        Node *n = g->nodes.at[i];
        bool uses = false;
        for (uint32_t k = 0; k < n->nsrc; k++) uses |= n->src[k] == p->whole;
        if (!uses || !t->r->alive[i]) continue;
        if ((n->kind != G_ew && n->kind != G_cast) || !turn_computes(n) || !g_same_shape(n, p->product)) return;
        p->step[p->steps++] = p->whole = n;
    }
}

// Is something that computes nothing, and was met for `of`, below e, with what computes between?
static bool is_beyond(Turn *t, Node *e, uint32_t of, const Node *whole) {
    uint32_t own = ++t->looked;
    bool beyond = false;
    t->open.n = 0;
    vec_push(t->r->g->arena, &t->open, e);
    while (t->open.n && !beyond) {
        const Node *x = t->open.at[--t->open.n];
        for (uint32_t k = x->nsrc; k-- > 0 && !beyond;) {
            Node *from = x->src[k];
            if (from->id <= whole->id || t->seen[from->id] == own) continue;
            beyond = !turn_computes(from) && t->met[from->id] == of;
            t->seen[from->id] = own;
            if (turn_computes(from)) vec_push(t->r->g->arena, &t->open, from);
        }
    }
    return beyond;
}

// Is there anything that could be a function of its columns? What is made of it, with nothing but what computes between, and of two values side by side.
// In a long sequence that is soon said of a step, where to look at all that follows is not.
static bool may_be_turned(Turn *t, Node *whole) {
    uint32_t of = ++t->looked;
    bool may = false;
    t->open.n = t->joined.n = 0;
    vec_push(t->r->g->arena, &t->open, whole);
    while (t->open.n) {
        const Node *x = t->open.at[--t->open.n];
        for (uint32_t i = 0; i < t->users[x->id].n; i++) {
            Node *user = t->r->g->nodes.at[t->users[x->id].at[i]];
            if (t->met[user->id] == of) continue;
            t->met[user->id] = of;
            if (!turn_computes(user)) continue;
            vec_push(t->r->g->arena, &t->open, user);
            if (t->joins[user->id] && user->kind != G_view && user->elem == whole->elem) vec_push(t->r->g->arena, &t->joined, user);
        }
    }
    for (uint32_t i = 0; i < t->joined.n && !may; i++) may = !is_beyond(t, t->joined.at[i], of, whole);
    return may;
}

static bool find(Turn *t, Node *product) {
    Graph *g = t->r->g;
    uint32_t n = t->r->n;
    Pairing *p = NEW(g->arena, Pairing);
    p->product = product;
    if (product->rank > G_MAX_RANK - 4 || !ix_const(product->shape[product->rank - 1], &p->columns) ||
        p->columns > MOST_COLUMNS)
        return false;
    add_steps(t, p);
    if (!may_be_turned(t, p->whole)) return false;
    p->below = t->below;
    p->inside = t->inside;
    memset(t->below, 0, n * sizeof *t->below);
    memset(t->inside, 0, n * sizeof *t->inside);
    memset(t->beyond, 0, n * sizeof *t->beyond);
    for (uint32_t i = p->whole->id + 1; i < n; i++)
        for (uint32_t k = 0; k < g->nodes.at[i]->nsrc && t->r->alive[i]; k++) {
            const Node *x = g->nodes.at[i]->src[k];
            p->below[i] |= x == p->whole || p->below[x->id];
            t->beyond[i] |= t->beyond[x->id] || (p->below[x->id] && !turn_computes(x));
        }
    for (uint32_t i = n; i-- > p->whole->id + 1;) {          // the largest first
        Node *e = g->nodes.at[i];
        bool may = p->below[i] && !t->beyond[i] && t->joins[i] && !p->inside[i] && e->kind != G_view && e->elem == p->whole->elem &&
                   !t->of[i];
        if (may && turns(t, p, e)) t->of[i] = p;
    }
    bool found = p->n > 0 && alone(t, p);
    for (int i = 0; i < p->n && !found; i++) t->of[p->at[i].of->id] = NULL;
    if (!found) return false;
    t->of[p->whole->id] = p;
    p->below = memcpy(NEW_N(g->arena, bool, n), p->below, n * sizeof *p->below);
    return true;
}

// The whole, or a function, as the result has it: column (h * blocks + b) * 2c + q * c + d.
static Node *turned(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Turn *t = pass;
    Graph *g = r->g;
    Pairing *p = t->of[n->id];
    Ix coord[G_MAX_RANK], column, head;
    (void)src;
    if (!p || !turn_result(t, p)) return NULL;
    int rows = turn_rows(p);
    const Turned *f = NULL;
    for (int i = 0; i < p->n; i++)
        if (p->at[i].of == n) f = &p->at[i];
    for (int i = 0; i < rows; i++) coord[i] = f ? f->row[i] : ix_axis(g, i, n->shape[i]);
    column = f ? ix_axis(g, f->along, n->shape[f->along]) : ix_axis(g, rows, n->shape[rows]);
    head = f ? f->head : ix_divi(g, column, p->head);
    if (!f) column = ix_modi(g, column, p->head);
    coord[rows] = head;
    coord[rows + 1] = ix_divi(g, column, 2 * p->c);
    coord[rows + 2] = ix_modi(g, ix_divi(g, column, p->c), 2);
    coord[rows + 3] = ix_modi(g, column, p->c);
    return g_view(g, p->result, n->rank, n->shape, coord, NULL, g_int(0));
}

void rotary_columns(Graph *g) {
    Rewrite r;
    if (!rewrite_begin(&r, g)) return;
    Turn t = {.r = &r,
              .of = NEW_N(g->arena, Pairing *, r.n),
              .joins = NEW_N(g->arena, bool, r.n),
              .read = NEW_N(g->arena, uint32_t, r.n),
              .met = NEW_N(g->arena, uint32_t, r.n),
              .seen = NEW_N(g->arena, uint32_t, r.n),
              .users = arena_alloc(g->arena, (r.n + 1) * sizeof *t.users),        // zeroed
              .below = NEW_N(g->arena, bool, r.n),
              .beyond = NEW_N(g->arena, bool, r.n),
              .inside = NEW_N(g->arena, bool, r.n)};
    bool any = false, found = false;
    for (uint32_t i = 0; i < r.n; i++) {
        const Node *n = g->nodes.at[i];
        for (uint32_t k = 0; k < n->nsrc && turn_computes(n); k++)
            t.joins[i] |= n->kind == G_concat || t.joins[n->src[k]->id];
        for (uint32_t k = 0; k < n->nsrc && r.alive[i]; k++) vec_push(g->arena, &t.users[n->src[k]->id], (int)i);
        any |= t.joins[i] && r.alive[i];
    }
    for (uint32_t i = 0; i < r.n && any; i++) {
        Node *n = g->nodes.at[i];
        bool product = n->kind == G_contract && r.alive[i] && n->contract.nb == 0 && n->contract.nn == 1 &&
                       elem_is_float((Elem)n->elem);
        if (product && r.constant[n->src[1]->id] && !r.constant[n->src[0]->id]) found |= find(&t, n);
    }
    t.fn = turned;
    if (found) rewrite_all(&r, turned, &t);
}
