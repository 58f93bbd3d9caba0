// The kernel of an attention: queries are a tile, keys a loop, the head and the values whole. The loop keeps the greatest
// score, the sum of the weights and the weighted sum of the values (put_attention in write/print.c).
//
// Masks. Scores come as X + where(C, 0, -3.4e38), where(C, X, -inf), and so on: a number so low that X is lost in it.
// It is as good in the exponent to the base 2, where only X is scaled: beside a score it has no weight, and in a row
// that has nothing else all are equal, as the model has it. If C depends on nothing but places, and no row is masked as
// a whole (or such a row gives what it gives by -inf), what is masked out is -inf, and keys past the last that any
// query of the tile sees are left out:
//
//     for n in min(1024, last(m) + 1) by BN {
//         let t2 = where(n <= m, dot(x[m, ..], x[n, ..] over c) * (0.125 * LOG2E), -inf);
//
// What is added to scores and could be anything (a bias, a mask from outside) is added as the model adds it.

#include "graph/write/internal.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { FEW_ROWS = 16 };
static const double MASKED = -1e30;          // so low that it has no weight beside any score

typedef struct At { Node *n; Ix coord[G_MAX_RANK]; } At;       // a value at a place

static At at_place(Node *n, const Ix *coord) {
    At a = {.n = n};
    memcpy(a.coord, coord, (size_t)n->rank * sizeof *coord);
    return a;
}

// Through movement and casts between floats, up to a value that kernel k reads (NULL: whatever that is).
static At resolved_in(const Kernel *k, Graph *g, At a) {
    while (!k || !k_reads(k, a.n)) {
        Node *x = a.n->nsrc ? a.n->src[0] : NULL;
        if (a.n->kind == G_view && ix_is(a.n->view.pred, 1)) {
            Ix through[G_MAX_RANK];
            for (int i = 0; i < x->rank; i++) through[i] = ix_substitute(g, a.n->view.coord[i], a.coord, a.n->rank);
            a = at_place(x, through);
        } else if (a.n->kind == G_cast && elem_is_float((Elem)a.n->elem) && elem_is_float((Elem)x->elem)) {
            a.n = x;
        } else {
            break;
        }
    }
    return a;
}

static At resolved(Graph *g, At a) { return resolved_in(NULL, g, a); }

static bool number(const Node *n, double *v) {
    GNum c;
    if (!g_scalar_value(n, &c)) return false;
    *v = c.is_int ? (double)c.i : c.f;
    return true;
}

// The condition of a `where`, if it is made of places alone.
static Ix condition(Graph *g, const Node *where, const Ix *coord) {
    At c = resolved(g, at_place(where->src[0], coord));
    return c.n->kind == G_index ? ix_substitute(g, c.n->index.expr, c.coord, c.n->rank) : NULL;
}

typedef struct Mask {            // score where seen, else fill
    At score;
    Ix seen;                     // NULL: it is read from memory
    double fill;
    At added;                    // 0 where seen, else fill; or n is NULL
    At where;                    // score where seen, else fill, or the other way round
} Mask;

// where(C, 0, fill) and where(C, fill, 0)
static bool added_mask(Graph *g, At w, Mask *m) {
    double t, f;
    w = resolved(g, w);
    if (w.n->kind != G_ew || w.n->op != EW_where || !number(w.n->src[1], &t) || !number(w.n->src[2], &f)) return false;
    bool direct = t == 0 && f <= MASKED, turned = f == 0 && t <= MASKED;
    if (!direct && !turned) return false;
    m->seen = condition(g, w.n, w.coord);
    if (m->seen && turned) m->seen = ix_not(g, m->seen);
    m->fill = direct ? f : t;
    return true;
}

static bool find_mask(Kernel *k, At s, Mask *m) {
    Graph *g = k->g;
    s = resolved_in(k, g, s);
    if (s.n->kind != G_ew || k_reads(k, s.n)) return false;
    for (int i = 0; i < 2 && s.n->op == EW_add; i++)
        if (added_mask(g, at_place(s.n->src[i], s.coord), m)) {
            m->score = at_place(s.n->src[1 - i], s.coord);
            m->added = at_place(s.n->src[i], s.coord);
            return true;
        }
    for (int i = 1; i < 3 && s.n->op == EW_where; i++) {
        if (!number(s.n->src[i], &m->fill) || m->fill > MASKED) continue;
        m->seen = condition(g, s.n, s.coord);
        if (m->seen && i == 1) m->seen = ix_not(g, m->seen);
        m->score = at_place(s.n->src[3 - i], s.coord);
        m->where = s;
        return true;
    }
    return false;
}

// Does every row see a key, the first one?
static bool sees_first(Kernel *k, Ix seen) {
    Ix with[MAX_KAXES];
    for (int i = 0; i < MAX_KAXES; i++) with[i] = i < k->naxes ? k->axis[i].axis : NULL;
    with[k->keys] = ix(k->g, 0);
    return !(seen->axes >> KAXIS_VALUES) && ix_is(ix_substitute(k->g, seen, with, MAX_KAXES), 1);
}

// Which keys the conjunction `seen` leaves out for all queries of a tile: those from the result on. NULL: none.
static Ix bound_of(Kernel *k, Ix seen, int queries) {
    Graph *g = k->g;
    for (uint32_t i = 0; seen->kind == IX_AND && i < seen->n; i++) {
        Ix b = bound_of(k, seen->arg[i], queries);
        if (b) return b;
    }
    if (seen->kind != IX_LT) return NULL;
    Ix room = ix_sub(g, seen->arg[1], seen->arg[0]), end, base;          // > 0
    Ix c = ix_coefficient(g, room, k->keys, &end), per = c && ix_is(c, -1) ? ix_coefficient(g, end, queries, &base) : NULL;
    if (!per || per->kind != IX_CONST || per->value < 1 || base->axes >> queries & 1) return NULL;
    return end;
}

// The last query of a tile as an index expression; it is printed as `last(m)`.
static bool shorten(Kernel *k, Ix seen, int queries) {
    Ix end = bound_of(k, seen, queries), with[MAX_KAXES];
    if (!end) return true;
    k->last = k_axis(k, A_VALUE, k->axis[queries].extent, 0, NULL);
    if (k->last < 0) return false;
    KExpr *e = k->axis[k->last].value = NEW(k->arena, KExpr);
    *e = (KExpr){.op = E_ALONG, .elem = EL_index, .prec = P_PRIMARY, .var = k->last};
    for (int i = 0; i < MAX_KAXES; i++) with[i] = i < k->naxes ? k->axis[i].axis : NULL;
    with[queries] = k->axis[k->last].axis;
    k->bound = ix_substitute(k->g, end, with, MAX_KAXES);
    k->queries = queries;
    return k->bound != NULL;
}

// s as an exponent to the base 2: a number that multiplies it takes the factor.
static KExpr *to_base_2(Kernel *k, At s) {
    double v;
    At r = resolved_in(k, k->g, s);
    for (int i = 0; i < 2 && r.n->kind == G_ew && r.n->op == EW_mul && !k_reads(k, r.n); i++) {
        if (!number(r.n->src[i], &v)) continue;
        KExpr *x = k_value(k, r.n->src[1 - i], r.coord);
        return x ? k_text(k, "$0 * ($1 * LOG2E)", P_TIMES, EL_f32, k_sized(k, x, EL_f32), k_number(k, g_float(v), r.n),
                          NULL)
                 : NULL;
    }
    KExpr *x = k_value(k, s.n, s.coord);
    return x ? k_text(k, "$0 * LOG2E", P_TIMES, EL_f32, k_sized(k, x, EL_f32), NULL, NULL) : NULL;
}

// Masked by what is in memory, or with rows of nothing: as the model has it, but to the base 2.
static KExpr *masked(Kernel *k, const Mask *m) {
    KExpr *x = to_base_2(k, m->score), *mask;
    k->base2 = true;
    if (m->added.n) {
        mask = k_value(k, m->added.n, m->added.coord);
        return x && mask ? k_text(k, "$0 + $1", P_PLUS, EL_f32, x, k_sized(k, mask, EL_f32), NULL) : NULL;
    }
    const Node *w = m->where.n;
    double t;
    bool turned = number(w->src[1], &t) && t == m->fill;
    mask = k_value(k, w->src[0], m->where.coord);
    if (!x || !mask) return NULL;
    mask = k_sized(k, mask, EL_bool);
    KExpr *fill = k_number(k, g_float(m->fill), NULL);
    return k_text(k, "where($0, $1, $2)", P_PRIMARY, EL_f32, mask, turned ? fill : x, turned ? x : fill);
}

static KExpr *score(Kernel *k, const Attention *found, int queries) {
    Mask m = {.score = at_place(found->score, found->place)};
    // -inf: a row of nothing is as the model has it
    bool has_mask = find_mask(k, m.score, &m), empty = !isfinite(m.fill);
    if (has_mask && !(m.seen && (empty || sees_first(k, m.seen)))) return masked(k, &m);
    if (has_mask) {
        if (queries >= 0 && !shorten(k, m.seen, queries)) return NULL;
        KExpr *x = to_base_2(k, m.score), *seen = k_truth(k, m.seen);
        k->base2 = true;
        return x ? k_text(k, "where($0, $1, -inf)", P_PRIMARY, EL_f32, seen, x, NULL) : NULL;
    }
    At s = at_place(found->score, found->place), r = resolved_in(k, k->g, s);
    // no mask that could be at the end of f32
    bool plain = r.n == k->fg->inner || (r.n->kind == G_ew && r.n->op == EW_mul);
    k->base2 = plain;
    return plain ? to_base_2(k, s) : k_sized(k, k_value(k, s.n, s.coord), EL_f32);
}

// 128 queries, or 64 where that leaves most multiprocessors without any: a number, or an expression of dimensions.
// Tiles that end at a diagonal are of different lengths: 64 then also where there is one of 128 for most
// multiprocessors, as short ones follow when others are done, by 64 keys a trip. An H200, 12 heads, 1024 keys: 13.9 us
// instead of 16.5 (15.3 by 128 keys), heads of 128 16.3 instead of 20.0; 16 heads 15.6 instead of 16.1, but 32 heads,
// 512 keys 13.0 instead of 12.2; from 160 tiles on blocks that walk are as fast or faster (2026-11-21).
static const char *short_tile(Kernel *k, int queries, Ix heads, bool diagonal) {
    // half of an H100's and H200's multiprocessors, three quarters, nearly all
    enum { FEW = 66, MANY = 100, ALL = 128, LONG = 1024 };
    Ix rows = k->axis[queries].extent;
    int most = !diagonal ? FEW : rows->hi < LONG ? MANY : ALL;
    Ix blocks = heads ? ix_mul(k->g, heads, ix_ceildiv(k->g, rows, ix(k->g, 128))) : NULL;
    if (!blocks || k->axis[queries].by < 128) return NULL;
    if (blocks->kind == IX_CONST) return blocks->value <= most ? "64" : NULL;
    k->few = (KFew){heads, rows, most};
    return "$";
}

// Where a number in memory says how many keys there are: the rows of what holds them, which are as many or more. It bounds the loop for
// whoever divides its trips among blocks.
static Ix room_of(Kernel *k, Node *values, const Ix *coord) {
    Ix keys = k->axis[k->keys].axis, extent = k->axis[k->keys].extent;
    At r = resolved_in(k, k->g, at_place(values, coord));
    bool numbered = false;
    for (int i = 0; i < ix_dim_count(k->g); i++) {
        Ix dim = ix_dim_at(k->g, i);
        numbered |= ix_dim_info(k->g, dim)->value && ix_substitute_dim(k->g, extent, dim, ix(k->g, 0)) != extent;
    }
    for (int i = 0; i < r.n->rank && numbered; i++)
        if (r.coord[i] == keys && r.n->shape[i] != extent) return r.n->shape[i];
    return NULL;
}

bool k_attention(Kernel *k) {
    const Node *c = k->fg->anchor, *b = c->src[1];
    Graph *g = k->g;
    int nb = c->contract.nb, nm = c->contract.nm, nn = c->contract.nn;
    Ix rows = ix_product(g, c->shape + nb, nm);
    bool few = rows && rows->hi <= FEW_ROWS;                 // a step of a decoder: the keys are what is long
    int64_t most = elem_bits((Elem)b->elem) == 16 && !few ? 128 : 64, least = few ? 8 : 16;
    Ix at[G_MAX_RANK], ca[G_MAX_RANK], cb[G_MAX_RANK], keys = c->src[0]->shape[nb + nm];
    k_reset(k);
    if (!k_one_axis(k, c->shape, nb, A_GRID, 0, "b", at)) return false;
    int queries = k->naxes;
    if (!k_one_axis(k, c->shape + nb, nm, A_TILE, k_tile_of(rows, least, most), "m", at + nb))
        return false;
    if (k->naxes == queries) queries = -1;
    if (!k_one_axis(k, c->shape + nb + nm, nn, A_FULL, 0, "d", at + nb + nm)) return false;
    k->keys = k_axis(k, A_LOOP_TILE, ix_is(keys, 1) ? ix(g, 2) : keys, k_tile_of(keys, 16, most), "n");
    if (k->keys < 0 || ix_is(keys, 1)) return g_error(g, "attention to one key") != NULL;
    for (int i = 0; i < nb + nm; i++) ca[i] = at[i];
    ca[nb + nm] = k->axis[k->keys].axis;
    for (int i = 0; i < nb; i++) cb[i] = at[i];
    for (int i = 0; i < nn; i++) cb[nb + i] = at[nb + nm + i];
    cb[nb + nn] = k->axis[k->keys].axis;
    Attention found;
    if (!attention_match(g, c, ca, &found)) return g_error(g, "an attention is not one in its kernel") != NULL;
    k->guarded = found.guarded;
    k->score = score(k, &found, queries);
    k->b = k_value(k, b, cb);
    if (!k->score || !k->b) return false;
    k->score = k_varied(k, k->score, k->keys);
    if (!k->bound) k->room = room_of(k, c->src[1], cb);
    uint64_t tile = 0;
    for (int i = 0; i < k->naxes; i++)
        if (k->axis[i].kind == A_TILE) tile |= UINT64_C(1) << i;
    k->by_sum = !tile || !(k->b->mask >> k->keys & 1) || nn == 0 || ix_is(ix_product(g, c->shape + nb + nm, nn), 1);
    k->b = k_sized(k, k->b, k->by_sum ? EL_f32 : (Elem)b->elem);
    k->score->uses += 2;
    k->b->uses++;
    // a mask with a row for each query takes registers
    for (uint32_t i = 0; i < k->exprs.n && k->axis[k->keys].by > 64; i++) {
        const KExpr *e = k->exprs.at[i];
        if (e->op == E_LOAD && (e->mask & tile) && (e->mask >> k->keys & 1)) k->axis[k->keys].by = 64;
    }
    if (most == 128 && !k->by_sum) {
        Ix   values = ix_product(g, c->shape + nb + nm, nn);
        bool diagonal = k->bound && values && values->hi <= 128;
        if (queries >= 0) k->axis[queries].default_by = short_tile(k, queries, ix_product(g, c->shape, nb), diagonal);
        if (queries >= 0 && diagonal && k->axis[k->keys].by == 128)
            k->axis[k->keys].default_by = k->axis[queries].default_by;
        k_open_tile(k, "m", "BM", NULL);
        k_open_tile(k, "n", "BN", NULL);
    }
    return k_epilogue(k, at);
}
