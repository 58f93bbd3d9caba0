// Rewrites of a graph: a pass looks at the nodes in order, sources before users, and says what takes the place of each.
// Nothing is changed in place; what a pass does not care for is made anew over its new sources.
#ifndef TK_GRAPH_REWRITE_H
#define TK_GRAPH_REWRITE_H

#include "graph/internal.h"

typedef struct Rewrite {
    Graph   *g;
    uint32_t n;                  // nodes that there were
    Node   **to;                 // by node id: what stands for it; NULL: not reached yet, or not alive
    bool    *constant;           // by node id: made of constants alone
    bool    *alive;              // by node id: an output needs it
    int     *users;              // by node id: nodes alive that read it, and outputs
} Rewrite;

// What stands for n, given what stands for its sources; NULL: n over those. `pass` is the pass's own state.
typedef Node *RewriteFn(Rewrite *r, void *pass, Node *n, Node *const *src);

// False: the graph has bodies (loops, ifs), which would have to follow; it is left alone.
bool  rewrite_begin(Rewrite *r, Graph *g);
void  rewrite_all(Rewrite *r, RewriteFn *fn, void *pass);    // and the outputs
Node *rewrite_ahead(Rewrite *r, RewriteFn *fn, void *pass, Node *n);     // what stands for n, before its turn
Node *rewrite_node(Graph *g, Node *n, Node *const *src);     // n over other sources

// The passes, in this order.
void  select_branches(Graph *g);                             // branches.c
void  drop_empty(Graph *g);                                  // empty.c
void  fold_numbers(Graph *g);                                // algebra.c
void  count_constants(Graph *g);                             // algebra.c
void  plain_scans(Graph *g);                                 // scans.c
void  hoist_factors(Graph *g);                               // algebra.c
void  integer_products(Graph *g);                            // quant.c
void  fold_scales(Graph *g);                                 // fold.c
void  join_steps(Graph *g);                                  // steps.c
void  sum_products(Graph *g);                                // sums.c
void  join_alike(Graph *g);                                  // alike.c
void  scale_parts(Graph *g);                                 // part_scales.c
void  turn_columns(Graph *g);                                // turn.c
void  part_gates(Graph *g);                                  // gates.c
void  join_groups(Graph *g);                                 // groups.c
void  share_heads(Graph *g);                                 // heads.c
void  order_axes(Graph *g);                                  // layout.c
void  unfold_windows(Graph *g);                              // unfold.c
void  unshuffle_pixels(Graph *g);                            // shuffle.c
void  order_sums(Graph *g);                                  // layout.c, products alone
void  order_results(Graph *g);                               // apart.c
void  views_into_steps(Graph *g);                            // loops.c

// .. and of a model in 16-bit floats, when it is one
void  norms_apart(Graph *g);                                 // norms.c

#endif
