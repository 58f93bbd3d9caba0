// Running sums that go backwards, or begin with nothing.
//
// PyTorch has neither, so models write them as movement around a running sum; a scan has both, and reads and stores its rows as
// they lie:
//
//     flip(scan(x))                              ->  scan(flip(x), reverse)         and the flips vanish
//     scan(concat(neutral, x), all but the last) ->  scan(x, exclusive)

#include "graph/rewrite/rewrite.h"

// Each element in its place, but along one axis, where the order is turned: that axis; -1: it is another view.
static int turned_axis(Graph *g, const Node *n) {
    int axis = -1;
    if (n->kind != G_view || !ix_is(n->view.pred, 1) || n->rank != n->src[0]->rank) return -1;
    for (int i = 0; i < n->rank; i++) {
        Ix at = ix_axis(g, i, n->shape[i]), c = n->view.coord[i];
        if (n->shape[i] != n->src[0]->shape[i]) return -1;
        if (c == at) continue;
        if (axis >= 0 || c != ix_sub(g, ix_addi(g, n->shape[i], -1), at)) return -1;
        axis = i;
    }
    return axis;
}

// The first elements of a value, in their places.
static Node *beginning_of(Graph *g, Node *n) {
    if (n->kind != G_view || !ix_is(n->view.pred, 1) || n->rank != n->src[0]->rank) return n;
    for (int i = 0; i < n->rank; i++)
        if (n->view.coord[i] != ix_axis(g, i, n->shape[i])) return n;
    return n->src[0];
}

enum { MOST_NEUTRAL = 1 << 22 };

static bool is_neutral(const Node *n, GReduce op) {
    GNum v;
    double want = op == GR_prod ? 1 : 0;
    if (op != GR_sum && op != GR_prod) return false;
    if (g_scalar_value(n, &v)) return (v.is_int ? (double)v.i : v.f) == want;
    int64_t count = 1, size;
    for (int i = 0; i < n->rank; i++) {
        if (!ix_const(n->shape[i], &size) || size > MOST_NEUTRAL) return false;
        count *= size;
        if (count > MOST_NEUTRAL) return false;
    }
    if (n->kind != G_const || !n->c.data) return false;
    for (int64_t i = 0; i < count; i++) {
        v = g_num_load((const char *)n->c.data + i * elem_bytes((Elem)n->elem), (Elem)n->elem);
        if ((v.is_int ? (double)v.i : v.f) != want) return false;
    }
    return true;
}

static Node *exclusive(Graph *g, const Node *n, Node *x) {
    int axis = n->scan.axis;
    Node *all = beginning_of(g, x);
    if (n->scan.exclusive || n->scan.reverse || all->kind != G_concat || all->concat.axis != axis || all->nsrc != 2) return NULL;
    Node *none = all->src[0], *rest = all->src[1];
    if (!ix_is(none->shape[axis], 1) || !is_neutral(none, (GReduce)n->op) || !g_same_shape(rest, x)) return NULL;
    return g_name(g, g_scan(g, (GReduce)n->op, rest, axis, true, false), n->name);
}

static Node *plainer(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Graph *g = r->g;
    (void)pass;
    if (n->kind == G_scan) return exclusive(g, n, src[0]);
    if (n->kind != G_view || src[0]->kind != G_scan || r->users[n->src[0]->id] != 1) return NULL;
    const Node *scan = src[0];
    if (turned_axis(g, n) != scan->scan.axis) return NULL;
    Node *x = g_view(g, scan->src[0], n->rank, n->shape, n->view.coord, NULL, g_int(0));
    return x ? g_name(g, g_scan(g, (GReduce)scan->op, x, scan->scan.axis, scan->scan.exclusive, !scan->scan.reverse), n->name) : NULL;
}

void canonicalise_scans(Graph *g) {
    Rewrite r;
    if (rewrite_begin(&r, g)) rewrite_all(&r, plainer, NULL);
}
