// Nodes: the graph itself, hash-consing, constants, index values, views. build.c has the other builders.
//
// A view is the one kind of movement. Two things keep maps small when they are made: a view of a view is one view, with
// the coordinates of the inner one substituted into; and all expressions are in normal form, so that a chain that does
// nothing ends in `axis 0, axis 1, ..`, which is seen to be the identity, and vanishes.

#include "graph/internal.h"
#include "graph/stages.h"

#include "lang/number.h"
#include "lang/shown.h"

#include <stdlib.h>
#include <string.h>

const char *const g_kind_name[G_KIND_COUNT] = {
#define X(name, meaning) [G_##name] = #name,
    G_KINDS(X)
#undef X
};

enum { RESULT_SAME, RESULT_BOOL };

const GEwInfo g_ew_info[EW_COUNT] = {
#define X(name, n, result, meaning) [EW_##name] = {#name, n, RESULT_##result},
    G_EWS(X)
#undef X
};

const char *const g_reduce_name[GR_COUNT] = {"sum", "prod", "max", "min", "argmax", "argmin", "any", "all", "none"};

// ---- the graph, messages --------------------------------------------------------------------------------------------

Graph *graph_new(const char *name) {
    Arena *a = arena_new();
    Graph *g = NEW(a, Graph);
    g->arena = a;
    g->name = arena_printf(a, "%s", name ? name : "model");
    g->tables = NEW(a, struct GTables);
    return g;
}

void graph_free(Graph *g) {
    if (!g) return;
    for (int i = 1; g->stages && i <= g->stages->nstages; i++) graph_free(g->stages->stage[i].graph);
    for (uint32_t i = 0; i < g->bodies.n; i++) graph_free(g->bodies.at[i]);
    arena_free(g->arena);
}

void g_at(Graph *g, const char *from) {
    struct GTables *t = g->tables;
    if (from && t->at && strcmp(from, t->at) == 0) return;
    t->at = from ? arena_printf(g->arena, "%s", from) : NULL;
    t->place = from ? ++t->places : 0;
}

void g_at_node(Graph *g, const Node *n) {
    g->tables->at = n->from;
    g->tables->place = n->place;
}

const char *g_source(const Graph *g) { return g->tables->at; }
void g_set_tf32(Graph *g) {
    g->tables->tf32 = true;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->kind == G_steps) g_set_tf32(g->nodes.at[i]->steps.body);
}

void g_set_unoptimised(Graph *g) {
    g->tables->unoptimised = true;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->kind == G_steps) g_set_unoptimised(g->nodes.at[i]->steps.body);
}
void g_set_rewrites(Graph *g, int n) {
    g->tables->rewrites = n + 1;
    for (uint32_t i = 0; i < g->nodes.n; i++)
        if (g->nodes.at[i]->kind == G_steps) g_set_rewrites(g->nodes.at[i]->steps.body, n);
}
const char *g_failed(const Graph *g) { return g->tables->error; }

void g_forget(Graph *g, uint32_t requires) {
    g->tables->error = NULL;
    g->requires.n = requires;
}

void *g_error(Graph *g, const char *fmt, ...) {
    if (g->tables->error) return NULL;
    Buf b = {0}, words = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&words, fmt, args);
    va_end(args);
    if (g->tables->at) buf_printf(&b, "%s: ", g->tables->at);
    buf_line(&b, words.n > 0 ? words.p : "");              // names and attributes are the model's
    g->tables->error = arena_printf(g->arena, "%s", b.p);
    buf_free(&b), buf_free(&words);
    return NULL;
}

// ---- hash-consing ---------------------------------------------------------------------------------------------------

bool any_null_ix(const Ix *at, int n) {
    for (int i = 0; i < n; i++)
        if (!at[i]) return true;
    return false;
}

bool any_null_node(Node *const *at, int n) {
    for (int i = 0; i < n; i++)
        if (!at[i]) return true;
    return false;
}

const Ix *copy_ixs(Graph *g, const Ix *at, int n) {
    Ix *copy = NEW_N(g->arena, Ix, n);
    if (n) memcpy(copy, at, (size_t)n * sizeof *copy);
    return copy;
}

Node *const *copy_nodes(Graph *g, Node *const *at, int n) {
    Node **copy = NEW_N(g->arena, Node *, n);
    if (n) memcpy(copy, at, (size_t)n * sizeof *copy);
    return copy;
}

static uint64_t num_hash(GNum v) { return v.is_int ? (uint64_t)v.i : f64_bits(v.f); }
static bool num_same(GNum a, GNum b) { return a.is_int == b.is_int && num_hash(a) == num_hash(b); }

// Constants up to this size are compared by what they hold, others by where they are from; so are weights, short ones
// too: two that happen to be equal (all ones, before training) are not the same.
enum { HASHED_BYTES = 4096, WEIGHT_BYTES = 32 };

static bool by_content(const Node *n) {
    bool weight = n->c.file && elem_is_float((Elem)n->elem) && n->c.bytes > WEIGHT_BYTES;
    return n->c.bytes <= HASHED_BYTES && !weight;
}

static uint32_t ixs_hash(uint32_t h, const Ix *at, int n) {
    for (int i = 0; i < n; i++) h = hash_mix(h, at[i] ? at[i]->id : UINT32_MAX);
    return h;
}

static bool ixs_same(const Ix *a, const Ix *b, int n) { return n == 0 || memcmp(a, b, (size_t)n * sizeof *a) == 0; }

static uint32_t payload_hash(const Node *n, uint32_t h) {
    switch ((GKind)n->kind) {
    case G_const:
        return by_content(n) ? hash_bytes(h, n->c.data, n->c.bytes) : hash_mix(h, (uintptr_t)n->c.data);
    case G_index: return hash_mix(h, n->index.expr->id);
    case G_view:
        return hash_mix(hash_mix(ixs_hash(h, n->view.coord, n->src[0]->rank), n->view.pred->id),
                        num_hash(n->view.fill));
    case G_gather: case G_scatter:
        return hash_mix(hash_mix(ixs_hash(h, n->at.coord, n->src[0]->rank), n->at.checked), num_hash(n->at.fill));
    case G_reduce: return hash_mix(h, (uint64_t)n->reduce.axes << 2 | (uint64_t)n->reduce.tile << 1 | n->reduce.last);
    case G_scan: return hash_mix(h, n->scan.axis * 4u + n->scan.exclusive * 2u + n->scan.reverse);
    case G_sort: return hash_mix(h, n->sort.axis * 2u + n->sort.descending);
    case G_contract:
        return hash_mix(h,
                        n->contract.nb | n->contract.nm << 8 | n->contract.nn << 16 | (uint64_t)n->contract.acc << 32);
    case G_concat: return hash_mix(h, n->concat.axis);
    case G_cast: return hash_mix(h, n->cast.saturate | n->cast.kept << 1);
    case G_proj: return hash_mix(h, n->proj.result);
    default: return h;
    }
}

static bool payload_same(const Node *a, const Node *b) {
    switch ((GKind)a->kind) {
    case G_ew: return true;
    case G_const:
        if (a->c.bytes != b->c.bytes) return false;
        if (by_content(a) != by_content(b)) return false;
        if (by_content(a)) return memcmp(a->c.data, b->c.data, a->c.bytes) == 0;
        return a->c.data == b->c.data && a->c.file && b->c.file && a->c.offset == b->c.offset &&
               strcmp(a->c.file, b->c.file) == 0;
    case G_index: return a->index.expr == b->index.expr;
    case G_view:
        return ixs_same(a->view.coord, b->view.coord, a->src[0]->rank) && a->view.pred == b->view.pred &&
               num_same(a->view.fill, b->view.fill);
    case G_gather: case G_scatter:
        return ixs_same(a->at.coord, b->at.coord, a->src[0]->rank) && a->at.checked == b->at.checked &&
               num_same(a->at.fill, b->at.fill);
    case G_reduce: return a->reduce.axes == b->reduce.axes && a->reduce.last == b->reduce.last && a->reduce.tile == b->reduce.tile;
    case G_scan:
        return a->scan.axis == b->scan.axis && a->scan.exclusive == b->scan.exclusive &&
               a->scan.reverse == b->scan.reverse;
    case G_sort: return a->sort.axis == b->sort.axis && a->sort.descending == b->sort.descending;
    case G_contract:
        return a->contract.nb == b->contract.nb && a->contract.nm == b->contract.nm && a->contract.nn == b->contract.nn &&
               a->contract.acc == b->contract.acc;
    case G_concat: return a->concat.axis == b->concat.axis;
    case G_cast: return a->cast.saturate == b->cast.saturate && a->cast.kept == b->cast.kept;
    case G_proj: return a->proj.result == b->proj.result;
    default: return false;                                   // inputs, parameters, bodies: each is its own
    }
}

static bool node_same(const Node *a, const Node *b) {
    if (a->hash != b->hash || a->kind != b->kind || a->elem != b->elem || a->rank != b->rank || a->op != b->op ||
        a->nsrc != b->nsrc)
        return false;
    for (uint32_t i = 0; i < a->nsrc; i++)
        if (a->src[i] != b->src[i]) return false;
    return ixs_same(a->shape, b->shape, a->rank) && payload_same(a, b);
}

static void table_grow(Graph *g) {
    struct GTables *t = g->tables;
    uint32_t size = t->node_size ? t->node_size * 2 : 1024;
    Node **slot = NEW_N(g->arena, Node *, size);
    for (uint32_t i = 0; i < t->node_size; i++) {
        Node *n = t->node_slot[i];
        if (!n) continue;
        uint32_t at = n->hash & (size - 1);
        while (slot[at]) at = (at + 1) & (size - 1);
        slot[at] = n;
    }
    t->node_slot = slot;
    t->node_size = size;
}

Node *node_intern(Graph *g, const Node *proto) {
    struct GTables *t = g->tables;
    uint32_t h = hash_mix(proto->kind | (uint32_t)proto->elem << 8 | (uint32_t)proto->rank << 16 |
                              (uint32_t)proto->op << 24,
                          proto->nsrc);
    for (uint32_t i = 0; i < proto->nsrc; i++) h = hash_mix(h, proto->src[i]->id);
    h = payload_hash(proto, ixs_hash(h, proto->shape, proto->rank));
    Node key = *proto;
    key.hash = h;
    if (t->node_count * 2 >= t->node_size) table_grow(g);
    uint32_t at = h & (t->node_size - 1);
    for (; t->node_slot[at]; at = (at + 1) & (t->node_size - 1))
        if (node_same(t->node_slot[at], &key)) return t->node_slot[at];
    Node *n = NEW(g->arena, Node);
    *n = key;
    n->id = t->node_count++;
    n->from = t->at;
    n->place = t->place;
    n->shape = copy_ixs(g, proto->shape, proto->rank);
    n->src = copy_nodes(g, proto->src, (int)proto->nsrc);
    if (n->kind == G_view) n->view.coord = copy_ixs(g, proto->view.coord, n->src[0]->rank);
    if (n->kind == G_gather || n->kind == G_scatter) n->at.coord = copy_ixs(g, proto->at.coord, n->src[0]->rank);
    t->node_slot[at] = n;
    vec_push(g->arena, &g->nodes, n);
    return n;
}

// ---- inputs, outputs, names -----------------------------------------------------------------------------------------

static bool rank_fits(Graph *g, int rank) {
    if (rank >= 0 && rank <= G_MAX_RANK) return true;
    g_error(g, "a value has %d dimensions; the most is %d", rank, G_MAX_RANK);
    return false;
}

static Node *leaf(Graph *g, GKind kind, const char *name, Elem elem, int rank, const Ix *shape) {
    if (!rank_fits(g, rank) || any_null_ix(shape, rank)) return NULL;
    Node n = {.kind = (uint8_t)kind, .elem = (uint8_t)elem, .rank = (uint8_t)rank, .shape = shape,
              .name = arena_printf(g->arena, "%s", name)};
    return node_intern(g, &n);
}

Node *g_input(Graph *g, const char *name, Elem elem, int rank, const Ix *shape) {
    Node *n = leaf(g, G_input, name, elem, rank, shape);
    if (n) vec_push(g->arena, &g->inputs, ((GNamed){.name = n->name, .node = n}));
    return n;
}

Node *g_param(Graph *g, const char *name, Elem elem, int rank, const Ix *shape) {
    return leaf(g, G_param, name, elem, rank, shape);
}

void g_output(Graph *g, const char *name, Node *node) {
    if (node) vec_push(g->arena, &g->outputs, ((GNamed){.name = arena_printf(g->arena, "%s", name), .node = node}));
}

Node *g_name(Graph *g, Node *n, const char *name) {
    if (n && name && !n->name) n->name = arena_printf(g->arena, "%s", name);
    return n;
}

void g_require(Graph *g, Ix a, Ix b) {
    if (!a || !b || a == b) return;
    if (ix_is(ix_eq(g, a, b), 0)) {
        Buf t = {0};
        ix_print(&t, g, a, NULL);
        buf_puts(&t, " and ");
        ix_print(&t, g, b, NULL);
        g_error(g, "sizes %s should be equal", t.p);
        buf_free(&t);
        return;
    }
    for (uint32_t i = 0; i < g->requires.n; i++)
        if ((g->requires.at[i].a == a && g->requires.at[i].b == b) || (g->requires.at[i].a == b && g->requires.at[i].b == a)) return;
    vec_push(g->arena, &g->requires, ((GRequire){a, b, g->tables->at}));
}

int graph_input_count(const Graph *g) { return (int)g->inputs.n; }
const char *graph_input_name(const Graph *g, int i) { return g->inputs.at[i].name; }
Elem        graph_input_elem(const Graph *g, int i) { return (Elem)g->inputs.at[i].node->elem; }
int graph_output_count(const Graph *g) { return (int)g->outputs.n; }
const GStages *graph_stages(const Graph *g) { return g->stages; }
int graph_dim_count(const Graph *g) { return ix_dim_count(g); }
int graph_made_count(const Graph *g) { return g->donated.n ? (int)g->donated.n : (int)g->outputs.n; }

Ix g_count(Graph *g, const Node *n) { return ix_product(g, n->shape, n->rank); }

bool g_same_shape(const Node *a, const Node *b) {
    return a->rank == b->rank && ixs_same(a->shape, b->shape, a->rank);
}

bool g_if_chooses(const Node *n) {
    const GBody *body = n->sub.body;
    bool same = n->kind == G_if;
    for (int i = 0; same && i < n->sub.nresults; i++) same = g_same_shape(body[0].results[i], body[1].results[i]);
    return same;
}

void g_mark_sources(bool *mark, const Node *n) {
    int bodies = n->kind == G_loop ? 1 : n->kind == G_if ? 2 : 0;
    for (uint32_t k = 0; k < n->nsrc; k++) mark[n->src[k]->id] = true;
    for (int b = 0; b < bodies; b++)
        for (int k = 0; k < n->sub.body[b].nresults; k++) mark[n->sub.body[b].results[k]->id] = true;
}

int g_axis(Graph *g, const Node *n, int64_t axis) {
    if (!n) return -1;
    if (axis >= -n->rank && axis < n->rank) return (int)(axis < 0 ? axis + n->rank : axis);
    g_error(g, "axis %lld of a value with %d dimensions", (long long)axis, n->rank);
    return -1;
}

bool g_is_const(const Node *n) { return n->kind == G_const; }

const GType *g_results(const Node *n, int *count) {
    bool host = n->kind == G_host, sub = n->kind == G_loop || n->kind == G_if;
    bool steps = n->kind == G_steps;
    *count = host ? n->host.nresults : sub ? n->sub.nresults : steps ? n->steps.nresults : 0;
    return host ? n->host.result : sub ? n->sub.result : steps ? n->steps.result : NULL;
}

// ---- numbers --------------------------------------------------------------------------------------------------------

void g_num_store(void *at, Elem elem, GNum v) {
    double f = v.is_int ? (double)v.i : v.f;
    uint64_t i = v.is_int               ? (uint64_t)v.i
                 : elem_is_signed(elem) ? (uint64_t)f64_to_int_sat(v.f, 64, true)
                                        : (uint64_t)f64_to_int_sat(v.f, 64, v.f < 0);
    uint16_t h;
    float s;
    switch (elem) {
    case EL_f64: memcpy(at, &f, 8); return;
    case EL_f32: s = v.is_int ? (float)v.i : (float)f; memcpy(at, &s, 4); return;
    case EL_f16: h = f16_from_f64(f); memcpy(at, &h, 2); return;
    case EL_bf16: h = bf16_from_f64(f); memcpy(at, &h, 2); return;
    case EL_f8e4m3: *(uint8_t *)at = e4m3_from_f64(f); return;
    case EL_f8e5m2: *(uint8_t *)at = e5m2_from_f64(f); return;
    case EL_bool: *(uint8_t *)at = v.is_int ? v.i != 0 : v.f != 0; return;
    default: memcpy(at, &i, (size_t)elem_bytes(elem)); return;
    }
}

GNum g_num_load(const void *at, Elem elem) {
    uint64_t u = 0;
    memcpy(&u, at, (size_t)elem_bytes(elem));
    switch (elem) {
    case EL_f64: return g_float(f64_from(u));
    case EL_f32: return g_float((double)f32_from((uint32_t)u));
    case EL_f16: return g_float((double)f16_to_f32((uint16_t)u));
    case EL_bf16: return g_float((double)bf16_to_f32((uint16_t)u));
    case EL_f8e4m3: return g_float((double)e4m3_to_f32((uint8_t)u));
    case EL_f8e5m2: return g_float((double)e5m2_to_f32((uint8_t)u));
    case EL_bool: return g_int(u != 0);
    case EL_i8: return g_int((int8_t)u);
    case EL_i16: return g_int((int16_t)u);
    case EL_i32: return g_int((int32_t)u);
    default: return g_int((int64_t)u);
    }
}

// ---- constants ------------------------------------------------------------------------------------------------------

static Node *constant(Graph *g, Elem elem, int rank, const int64_t *shape, const void *data, const GOrigin *from,
                      bool copy) {
    if (!rank_fits(g, rank)) return NULL;
    Ix dims[G_MAX_RANK];
    uint64_t bytes = (uint64_t)elem_bytes(elem);
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0 || __builtin_mul_overflow(bytes, (uint64_t)shape[i], &bytes))
            return g_error(g, "a constant is too large");
        dims[i] = ix(g, shape[i]);
    }
    if (copy && bytes) {
        void *mine = arena_alloc(g->arena, bytes);
        memcpy(mine, data, bytes);
        data = mine;
    }
    Node n = {.kind = G_const, .elem = (uint8_t)elem, .rank = (uint8_t)rank, .shape = dims,
              .c = {.data = data, .bytes = bytes}};
    if (from && from->stored) n.c.stored = arena_printf(g->arena, "%s", from->stored);
    if (from && from->file) n.c.file = arena_printf(g->arena, "%s", from->file), n.c.offset = from->offset;
    return node_intern(g, &n);
}

Node *g_const(Graph *g, Elem elem, int rank, const int64_t *shape, const void *data) {
    return constant(g, elem, rank, shape, data, NULL, true);
}

Node *g_const_ref(Graph *g, Elem elem, int rank, const int64_t *shape, const void *data, const GOrigin *from) {
    return constant(g, elem, rank, shape, data, from, false);
}

// A scalar; converted as g_num_store does.
static Node *g_num(Graph *g, Elem elem, GNum v) {
    char bytes[8] = {0};
    g_num_store(bytes, elem, v);
    return constant(g, elem, 0, NULL, bytes, NULL, true);
}

Node *g_f(Graph *g, Elem elem, double v) { return g_num(g, elem, g_float(v)); }
Node *g_i(Graph *g, Elem elem, int64_t v) { return g_num(g, elem, g_int(v)); }

Node *g_vec_i64(Graph *g, int n, const int64_t *v) {
    return g_const(g, EL_i64, 1, &(int64_t){n}, v);
}

Node *g_full(Graph *g, Elem elem, int rank, const Ix *shape, GNum v) {
    return g_broadcast_to(g, g_num(g, elem, v), rank, shape, NULL);
}

bool g_scalar_value(const Node *n, GNum *v) {
    if (n->kind == G_view && n->src[0]->rank == 0 && ix_is(n->view.pred, 1)) n = n->src[0];
    if (n->kind != G_const || n->c.bytes != (size_t)elem_bytes((Elem)n->elem)) return false;
    *v = g_num_load(n->c.data, (Elem)n->elem);
    return true;
}

// ---- index values ---------------------------------------------------------------------------------------------------

Node *g_index(Graph *g, Elem elem, int rank, const Ix *shape, Ix expr) {
    if (!expr || !rank_fits(g, rank) || any_null_ix(shape, rank)) return NULL;
    if (!elem_is_int(elem) && elem != EL_bool) return g_error(g, "an index value cannot have the type %s", elem_name(elem));
    if (elem == EL_bool && (expr->lo < 0 || expr->hi > 1)) expr = ix_ne(g, expr, ix(g, 0));
    if (expr->kind == IX_CONST) return g_full(g, elem, rank, shape, g_int(expr->value));
    Node n = {.kind = G_index, .elem = (uint8_t)elem, .rank = (uint8_t)rank, .shape = shape, .index.expr = expr};
    return node_intern(g, &n);
}

Node *g_iota(Graph *g, Elem elem, int rank, const Ix *shape, int axis) {
    if (any_null_ix(shape, rank)) return NULL;
    Ix e = ix_axis(g, axis, shape[axis]);
    if (elem_is_int(elem)) return g_index(g, elem, rank, shape, e);
    return g_cast(g, g_index(g, EL_i64, rank, shape, e), elem);
}

Node *g_size(Graph *g, Elem elem, Ix size) {
    if (elem_is_int(elem) || elem == EL_bool) return g_index(g, elem, 0, NULL, size);
    return g_cast(g, g_index(g, EL_i64, 0, NULL, size), elem);
}

Node *g_shape_vec(Graph *g, int n, const Ix *sizes) {
    if (any_null_ix(sizes, n)) return NULL;
    int64_t v[64];
    bool plain = n <= 64;
    for (int i = 0; i < n && plain; i++) plain = ix_const(sizes[i], &v[i]);
    if (plain) return g_vec_i64(g, n, v);
    Ix len = ix(g, n), axis = ix_axis(g, 0, len), e = ix(g, 0);
    for (int i = 0; i < n; i++) e = ix_add(g, e, ix_mul(g, ix_eq(g, axis, ix(g, i)), sizes[i]));
    return g_index(g, EL_i64, 1, &len, e);
}

// ---- views ----------------------------------------------------------------------------------------------------------

static bool is_identity(Graph *g, const Node *x, int rank, const Ix *shape, const Ix *coord) {
    if (x->rank != rank || !ixs_same(x->shape, shape, rank)) return false;
    for (int i = 0; i < rank; i++)
        if (coord[i] != ix_axis(g, i, shape[i])) return false;
    return true;
}

static bool fill_same(Elem elem, GNum a, GNum b) {
    uint64_t x = 0, y = 0;
    g_num_store(&x, elem, a);
    g_num_store(&y, elem, b);
    return x == y;
}

// A constant with one element, as one without dimensions.
static Node *as_scalar(Graph *g, Node *x) {
    return x->kind == G_const && x->rank > 0 && x->c.bytes == (size_t)elem_bytes((Elem)x->elem) && !x->c.file && !x->name
               ? g_num(g, (Elem)x->elem, g_num_load(x->c.data, (Elem)x->elem)) : NULL;
}

int g_part_at(Graph *g, const Node *n, Ix at, Ix *start) {
    *start = ix(g, 0);
    for (uint32_t k = 0; k < n->nsrc; k++) {
        Ix end = ix_add(g, *start, n->src[k]->shape[n->concat.axis]);
        if (ix_prove_lt(g, at, end)) return ix_prove_le(g, *start, at) ? (int)k : -1;
        *start = end;
    }
    return -1;
}

Node *g_view(Graph *g, Node *x, int rank, const Ix *shape, const Ix *coord_in, Ix pred, GNum fill) {
    if (!x || !rank_fits(g, rank) || any_null_ix(shape, rank) || any_null_ix(coord_in, x->rank)) return NULL;
    Elem elem = (Elem)x->elem;
    Ix one = ix(g, 1), coord[G_MAX_RANK];
    if (!pred) pred = one;
    if (ix_is(pred, 0)) return g_full(g, elem, rank, shape, fill);
    for (int i = 0; i < x->rank; i++) coord[i] = ix_is(x->shape[i], 1) ? ix(g, 0) : coord_in[i];
    if (x->kind == G_view && (pred == one || x->view.pred == one || fill_same(elem, fill, x->view.fill))) {
        Node *y = x->src[0];
        Ix through[G_MAX_RANK];
        for (int i = 0; i < y->rank; i++) through[i] = ix_substitute(g, x->view.coord[i], coord, x->rank);
        Ix inner = ix_substitute(g, x->view.pred, coord, x->rank);
        if (!inner) return NULL;
        return g_view(g, y, rank, shape, through, ix_and(g, pred, inner), x->view.pred == one ? fill : x->view.fill);
    }
    if (x->kind == G_index && pred == one)
        return g_index(g, elem, rank, shape, ix_substitute(g, x->index.expr, coord, x->rank));
    Ix start;
    int part = x->kind == G_concat ? g_part_at(g, x, coord[x->concat.axis], &start) : -1;
    if (part >= 0) {
        coord[x->concat.axis] = ix_sub(g, coord[x->concat.axis], start);
        return g_view(g, x->src[part], rank, shape, coord, pred, fill);
    }
    if (pred == one) fill = g_int(0);
    else if (!elem_is_float(elem) && !fill.is_int) fill = g_int(f64_to_int_sat(fill.f, elem_bits(elem), elem_is_signed(elem)));
    if (pred == one && is_identity(g, x, rank, shape, coord)) return x;
    Node *scalar = as_scalar(g, x);
    if (scalar) return g_view(g, scalar, rank, shape, NULL, pred, fill);
    GNum v;
    if (g_scalar_value(x, &v) && fill_same(elem, v, fill)) pred = one, fill = g_int(0);
    Node n = {.kind = G_view, .elem = x->elem, .rank = (uint8_t)rank, .shape = shape, .nsrc = 1, .src = &x,
              .view = {coord, pred, fill}};
    return node_intern(g, &n);
}
