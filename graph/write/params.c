// What a kernel is given: the tensors that it loads and stores, with the dimensions that make its accesses plain, and their names.

#include "graph/write/internal.h"

#include <string.h>

static const char *param_like(Kernel *k, const Node *n, bool out) {
    if (out) return "y";
    if (graph_loaded(n)) n = n->src[0];
    if (n->kind != G_const && k->f->maker[n->id] >= 0 && k->f->groups.at[k->f->maker[n->id]]->once) return "w";
    if (n->kind != G_const) return "x";
    const char *last = n->name ? n->name : "w";
    for (const char *s = last; *s; s++)
        if ((*s == '.' || *s == '/' || *s == ':') && ((s[1] >= 'a' && s[1] <= 'z') || (s[1] >= 'A' && s[1] <= 'Z')))
            last = s + 1;
    const char *name = g_identifier(k->arena, last, "w");
    for (const char *s = name; *s; s++)
        if (*s >= '0' && *s <= '9') return "w";
    return strlen(name) > 12 || strcmp(name, "weight") == 0 ? "w" : name;
}

// Of a dimension that is more than a name: as long as that a name made from it still says what it is, a product more
// than a quotient.
enum { LONG_PRODUCT = 40, LONG_QUOTIENT = 12 };

static const char *name_of_size(Kernel *k, Ix size) {
    Buf b = {0};
    ix_print(&b, k->g, size, NULL);
    const char *like = g_identifier(k->arena, b.p, "N");
    bool plain = strlen(like) <= (strchr(b.p, '/') != NULL ? LONG_QUOTIENT : LONG_PRODUCT);
    buf_free(&b);
    return k_name(k, plain ? like : "N");
}

static int param_of(Kernel *k, const Node *n, int rank, const Ix *shape, bool out, Ix parts, int64_t part) {
    for (uint32_t i = 0; i < k->params.n; i++) {
        KParam *p = &k->params.at[i];
        if (p->node == n && (p->out || p->inout) == out && p->rank == rank && p->parts == parts && p->part == part &&
            (rank == 0 || memcmp(p->shape, shape, (size_t)rank * sizeof *shape) == 0))
            return (int)i;
    }
    vec_push(k->arena, &k->params,
             ((KParam){n, rank, copy_ixs(k->g, shape, rank), out, false, k_name(k, param_like(k, n, out)), parts, part}));
    for (int i = 0; i < rank; i++) {
        bool known = shape[i]->kind == IX_CONST || shape[i]->kind == IX_DIM;
        for (uint32_t a = 0; a < k->alias.n; a++) known |= k->alias.at[a].of == shape[i];
        if (known) continue;
        const char *name = name_of_size(k, shape[i]);
        vec_push(k->arena, &k->alias, ((KAlias){shape[i], name}));
        vec_push(k->arena, &k->named, name);
    }
    return (int)k->params.n - 1;
}

static void reach(Kernel *k, KExpr *e, bool *seen);

static void reach_values(Kernel *k, const Ix *at, int n, bool *seen) {
    for (int i = 0; i < n; i++)
        for (int v = KAXIS_VALUES; v < MAX_KAXES; v++)
            if (at[i]->axes >> v & 1) reach(k, k->axis[v].value, seen);
}

static void reach(Kernel *k, KExpr *e, bool *seen) {
    for (uint32_t i = 0; i < k->exprs.n; i++) {
        if (k->exprs.at[i] != e) continue;
        if (seen[i]) return;
        seen[i] = true;
    }
    for (int i = 0; i < 3 && e->arg[i]; i++) reach(k, e->arg[i], seen);
    const Ix *at = e->op == E_LOAD ? e->coord : &e->expr;
    reach_values(k, at, e->op == E_LOAD ? e->node->rank : e->op == E_INDEX ? 1 : 0, seen);
}

enum { MOST_BOX = 5 };

// Of an attention: heads that lie side by side are a dimension, x[n, h * 64 + c] is x[n, h, c], and so are sequences.
// Then it is plain that they are in range, and where they begin.
static int heads_apart(Kernel *k, int n, Ix *shape, Ix *at) {
    for (int i = 0; i < n && n < G_MAX_RANK; i++)
        for (int a = 0; a < k->naxes; a++) {
            KAxisKind kind = k->axis[a].kind;
            bool tile = kind == A_FULL || kind == A_TILE || kind == A_LOOP_TILE;
            Ix rest, head = k->axis[a].extent, one = tile ? ix_coefficient(k->g, at[i], a, &rest) : NULL;
            Ix which = one && ix_is(one, 1) && head != shape[i] ? ix_divide_exact(k->g, rest, head) : NULL;
            Ix heads = which ? ix_divide_exact(k->g, shape[i], head) : NULL;
            if (!heads) continue;
            memmove(shape + i + 1, shape + i, (size_t)(n - i) * sizeof *shape);
            memmove(at + i + 1, at + i, (size_t)(n - i) * sizeof *at);
            shape[i] = heads, at[i] = which;
            shape[i + 1] = head, at[i + 1] = k->axis[a].axis;
            n++;
            break;
        }
    return n;
}

// Copies of boxes have five dimensions at most. Weights of a three-dimensional transposed convolution, w[phase, n, r, s, t, k], have six:
// taps that lie side by side are counted as one, w[phase, n, r, s * 2 + t, k].
static int few_enough(Kernel *k, int n, Ix *shape, Ix *at) {
    uint64_t tiles = 0;
    for (int a = 0; a < k->naxes; a++)
        if (k->axis[a].kind != A_GRID && k->axis[a].kind != A_LOOP) tiles |= UINT64_C(1) << a;
    for (int i = n - 2; i > 0 && n > MOST_BOX; i--) {
        bool plain = at[i - 1]->kind == IX_AXIS && at[i]->kind == IX_AXIS && at[i - 1]->arg[0] == shape[i - 1] && at[i]->arg[0] == shape[i];
        if (!plain || (at[i - 1]->axes | at[i]->axes) & tiles) continue;
        at[i - 1] = ix_add(k->g, ix_mul(k->g, at[i - 1], shape[i]), at[i]);
        shape[i - 1] = ix_mul(k->g, shape[i - 1], shape[i]);
        memmove(shape + i, shape + i + 1, (size_t)(n - i - 1) * sizeof *shape);
        memmove(at + i, at + i + 1, (size_t)(n - i - 1) * sizeof *at);
        n--;
    }
    return n;
}

static int dims_of(Kernel *k, int n, const Ix *all, const Ix *coord, Ix *shape, Ix *at) {
    int rank = dims_merged(k->g, n, all, coord, shape, at);
    if (k->a && k->b && !k->score) return few_enough(k, rank, shape, at);
    return k->score ? heads_apart(k, rank, shape, at) : rank;
}

enum { MANY = 9 };                                           // steps of a sequence

// A step of many, as of a sequence: the kernel is given that part alone, and so is the same for all steps. Parts begin where 16 bytes do, as a tensor
// that is launched with must. How many of the dimensions count the parts; 0: it is not one.
static int one_of_many(const Kernel *k, const Node *n, const Ix *coord, int64_t *parts, int64_t *part) {
    enum { ALIGNED = 16 };
    int64_t size = elem_bits((Elem)n->elem) / 8;
    int first = 0;
    *parts = 1, *part = 0;
    for (; first < n->rank && ix_is_const(coord[first]) && ix_is_const(n->shape[first]); first++) {
        int64_t at = coord[first]->value, all = n->shape[first]->value;
        if (at < 0 || at >= all || __builtin_mul_overflow(*parts, all, parts)) return 0;
        *part = *part * all + at;
    }
    for (int d = first; d < n->rank; d++)
        if (ix_is_const(n->shape[d]) && __builtin_mul_overflow(size, n->shape[d]->value, &size)) return 0;
    return !k->score && first < n->rank && *parts >= MANY && size > 0 && size % ALIGNED == 0 ? first : 0;
}

static Ix step_of(Kernel *k, const Node *n, int dim, int64_t at) {
    for (uint32_t i = 0; i < k->steps.n; i++) if (k->steps.at[i].node == n && k->steps.at[i].dim == dim && k->steps.at[i].at == at) return k->steps.at[i].name;
    const char *word = k->steps.n ? arena_printf(k->arena, "step%d", (int)k->steps.n + 1) : "step";
    vec_push(k->arena, &k->steps, ((KStep){n, dim, at, ix_dim_range(k->g, word, 0, IX_DIM_MAX, 1)}));
    return k->steps.at[k->steps.n - 1].name;
}

// Where no such part begins at 16 bytes, or it is none, as x[:, t] of a sequence with batches outside: all of it, and the step's number.
static const Ix *numbered(Kernel *k, const KExpr *e, Ix *coord) {
    for (int d = 0; d < e->node->rank; d++) {
        bool step = !k->score && ix_is_const(e->coord[d]) && ix_is_const(e->node->shape[d]) && e->node->shape[d]->value >= MANY;
        coord[d] = step && k->stepped ? step_of(k, e->node, d, e->coord[d]->value) : e->coord[d];
        k->may_step |= step;
    }
    return coord;
}

// A part of a concatenation: the kernel that makes the first of them has all of it as its result, those after it update it.
static void store_part(Kernel *k, KStore *st, FPart part) {
    const Node *whole = part.of;
    int axis = whole->concat.axis;
    Ix coord[G_MAX_RANK], shape[G_MAX_RANK], at[G_MAX_RANK];
    for (int d = 0; d < whole->rank; d++) coord[d] = st->coord[d];
    coord[axis] = ix_add(k->g, coord[axis], part.start);
    st->nat = dims_of(k, whole->rank, whole->shape, coord, shape, at);
    st->at = copy_ixs(k->g, at, st->nat);
    st->param = param_of(k, whole, st->nat, shape, true, NULL, 0);
    k->params.at[st->param].inout = k->f->begun[whole->id] != k->group;
    k->params.at[st->param].out = !k->params.at[st->param].inout;
}

// A row of what the steps of a loop give.
static void store_row(Kernel *k, KStore *st, FRow row) {
    Ix coord[G_MAX_RANK] = {row.at}, shape[G_MAX_RANK], at[G_MAX_RANK];
    for (int d = 1; d < row.of->rank; d++) coord[d] = st->coord[d - 1];
    st->nat = dims_of(k, row.of->rank, row.of->shape, coord, shape, at);
    st->at = copy_ixs(k->g, at, st->nat);
    st->param = param_of(k, row.of, st->nat, shape, true, NULL, 0);
    k->params.at[st->param].out = false;
    k->params.at[st->param].inout = true;
}

static void store_rows(Kernel *k) {
    for (uint32_t i = 0, n = k->stores.n; i < n; i++) {
        FRow row = k->f->row[k->stores.at[i].node->id];
        KStore st = k->stores.at[i];
        if (!row.of) continue;
        store_row(k, &st, row);
        st.value->uses += !row.alone;
        if (row.alone) k->stores.at[i] = st;
        else vec_push(k->arena, &k->stores, st);
    }
}

void k_settle_params(Kernel *k) {
    bool *seen = NEW_N(k->arena, bool, k->exprs.n);
    Ix shape[G_MAX_RANK], at[G_MAX_RANK], own[G_MAX_RANK];
    if (k->along.node) reach(k, k->along.arg, seen);
    if (k->a) reach(k, k->a, seen);
    if (k->b) reach(k, k->b, seen);
    for (int i = 0; i < k->nmore; i++) reach(k, k->more[i], seen);
    for (int i = 0; i < 2 * k->nalso; i++) reach(k, k->also[i / 2][i % 2], seen);
    if (k->score) reach(k, k->score, seen);
    for (uint32_t i = 0; i < k->stores.n; i++) {
        reach(k, k->stores.at[i].value, seen);
        reach_values(k, k->stores.at[i].coord, k->stores.at[i].node->rank, seen);
    }
    for (uint32_t i = 0; i < k->exprs.n; i++) {
        KExpr *e = k->exprs.at[i];
        if (!seen[i] || e->op != E_LOAD) continue;
        int64_t parts, part;
        int first = one_of_many(k, e->node, e->coord, &parts, &part);
        const Ix *coord = first ? e->coord : numbered(k, e, own);
        e->nat = dims_of(k, e->node->rank - first, e->node->shape + first, coord + first, shape, at);
        e->at = copy_ixs(k->g, at, e->nat);
        e->param = param_of(k, e->node, e->nat, shape, false, first ? ix(k->g, parts) : NULL, first ? part : 0);
    }
    for (uint32_t i = 0; i < k->stores.n; i++) {
        KStore *st = &k->stores.at[i];
        const Node *n = st->node;
        if (k->f->row[n->id].alone) continue;
        if (k->f->part[n->id].of) {
            store_part(k, st, k->f->part[n->id]);
            continue;
        }
        if (k->in_place) {                                   // stored into in place: all dimensions as they are
            st->nat = n->rank;
            st->at = st->coord;
            vec_push(k->arena, &k->params, ((KParam){n, n->rank, n->shape, false, true, k_name(k, "y"), NULL, 0}));
            st->param = (int)k->params.n - 1;
            continue;
        }
        st->nat = dims_of(k, n->rank, n->shape, st->coord, shape, at);
        st->at = copy_ixs(k->g, at, st->nat);
        st->param = param_of(k, n, st->nat, shape, true, NULL, 0);
    }
    store_rows(k);
}
