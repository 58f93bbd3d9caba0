// Values without elements: a size of 0, which a slice, a list of no boxes or an empty cache leaves.
//
// No kernel computes them and none reads them: what has no elements is a constant without data, and what is made of such alone
// is a number (an empty sum, the fill of a padded nothing).

#include "graph/ref/ref.h"
#include "graph/rewrite/rewrite.h"

static bool empty(const Node *n) {
    for (int i = 0; i < n->rank; i++)
        if (ix_is(n->shape[i], 0)) return true;
    return false;
}

static Node *nothing(Graph *g, const Node *n) {
    int64_t shape[G_MAX_RANK];
    for (int i = 0; i < n->rank; i++)
        if (!ix_const(n->shape[i], &shape[i])) return g_full(g, (Elem)n->elem, n->rank, n->shape, g_int(0));
    return g_const(g, (Elem)n->elem, n->rank, shape, "");
}

// What an empty sum, product, .. is.
static Node *of_nothing(Graph *g, const Node *n) {
    int64_t none = 0;
    char why[256];
    GTensor t;
    Node *r = g_reduce(g, (GReduce)n->op, g_const(g, (Elem)n->src[0]->elem, 1, &none, ""), 1, false);
    if (!r || !ref_value(g, r, &t, why, sizeof why)) return NULL;
    GNum v = g_num_load(t.data, t.elem);
    g_tensor_free(&t);
    return g_full(g, (Elem)n->elem, n->rank, n->shape, v);
}

static Node *without(Rewrite *r, void *pass, Node *n, Node *const *src) {
    Graph *g = r->g;
    (void)pass;
    if (n->kind == G_input || n->kind == G_const || n->kind == G_host || n->kind == G_steps || n->nsrc == 0) return NULL;
    if (empty(n)) return g_name(g, nothing(g, n), n->name);
    if (!empty(n->src[0]) && (n->nsrc < 2 || !empty(n->src[1]))) return NULL;
    switch ((GKind)n->kind) {
    case G_reduce: return n->op == GR_argmax || n->op == GR_argmin ? NULL : of_nothing(g, n);
    case G_contract: return g_full(g, (Elem)n->elem, n->rank, n->shape, g_int(0));
    case G_view: return g_full(g, (Elem)n->elem, n->rank, n->shape, n->view.fill);
    case G_gather: return g_full(g, (Elem)n->elem, n->rank, n->shape, n->at.fill);
    case G_scatter: return empty(n->src[0]) ? NULL : src[0];
    default: return NULL;
    }
}

void drop_empty(Graph *g) {
    Rewrite r;
    if (rewrite_begin(&r, g)) rewrite_all(&r, without, NULL);
}
