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
void  fold_constants(Graph *g);                                // algebra.c
void  constants_to_indices(Graph *g);                             // algebra.c
void  canonicalise_scans(Graph *g);                                 // scans.c
void  hoist_factors(Graph *g);                               // algebra.c
void  integer_products(Graph *g);                            // quant.c
void  fold_scales(Graph *g);                                 // fold.c
void  merge_unrolled_steps(Graph *g);                                  // unrolled_steps.c
void  reduce_before_product(Graph *g);                                // reduce_product.c
void  merge_twin_operands(Graph *g);                                  // twin_operands.c
void  scale_column_ranges(Graph *g);                                 // column_scales.c
void  rotary_columns(Graph *g);                                // rotary.c
void  split_gate_columns(Graph *g);                                  // gate_columns.c
void  merge_small_groups(Graph *g);                                 // small_groups.c
void  merge_shared_heads(Graph *g);                                 // shared_heads.c
void  choose_axis_order(Graph *g);                                  // axis_order.c
void  unfold_windows(Graph *g);                              // unfold.c
void  unshuffle_pixels(Graph *g);                            // pixel_shuffle.c
void  order_reduction_axes(Graph *g);                                  // axis_order.c, products alone
void  transpose_before_concat(Graph *g);                               // transpose_concat.c
void  views_into_bodies(Graph *g);                            // loops.c

// .. and of a model in 16-bit floats, when it is one
void  split_norms(Graph *g);                                 // split_norms.c

#endif
