// Rewrites of a graph: a pass looks at the nodes in order, sources before users, and says what takes the place of each.
// Nothing is changed in place; what a pass does not care for is made anew over its new sources.
#ifndef TK_GRAPH_REWRITE_H
#define TK_GRAPH_REWRITE_H

#include "graph/graph_passes.h"
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

// The passes, in the order in which they run (rewrite_passes.c). A required one makes what fusion or the writer of programs has a
// form for; the others make faster programs.
//    name                    phase         required  meaning
#define GRAPH_REWRITES(X) \
    X(select_branches,         canonicalise, true,  "makes a select between both branches of an `if`") \
    X(drop_empty,              canonicalise, true,  "removes values that have no elements") \
    X(fold_constants,          canonicalise, false, "computes single numbers that are made of constants") \
    X(integer_products,        algebra,      false, "multiplies quantised operands as integers, with their scales in the epilogue") \
    X(constants_to_indices,    canonicalise, true,  "writes counting constants and masks as index expressions") \
    X(canonicalise_scans,      canonicalise, true,  "gives scans their direction and exclusiveness in place of flips and slices") \
    X(hoist_factors,           algebra,      false, "moves scalar factors of a product's operands to where fewer values are scaled") \
    X(fold_scales,             algebra,      false, "folds scales and shifts of output channels (batch normalisation) into weights") \
    X(merge_unrolled_steps,    products,     false, "joins the products that the steps of an unrolled loop make with the same weights") \
    X(reduce_before_product,   products,     false, "sums the operands in place of a product's rows or columns") \
    X(merge_products,          products,     false, "joins products that read the same left operand (queries, keys, values)") \
    X(merge_twin_operands,     products,     false, "computes operands that are one function of neighbouring columns as one value") \
    X(rotary_columns,          products,     false, "applies rotary embeddings in the product that makes the columns") \
    X(scale_column_ranges,     products,     false, "scales ranges of a product's columns in its epilogue") \
    X(split_gate_columns,      products,     false, "splits a product whose column ranges meet element by element (gated layers)") \
    X(merge_small_groups,      products,     false, "joins groups of few channels into block-diagonal products") \
    X(merge_shared_heads,      products,     false, "makes query heads that share keys (GQA) the rows of one product") \
    X(choose_axis_order,       layout,       false, "stores values in the order of axes that their users read (channels last)") \
    X(unfold_windows,          layout,       false, "stores windows (im2col) where a product could not read whole rows of them") \
    X(unshuffle_pixels,        layout,       false, "stores shuffled pictures pixel by pixel") \
    X(order_reduction_axes,    layout,       false, "gives products the reduction order that their left operand has in memory") \
    X(transpose_before_concat, layout,       false, "transposes the operands of a concatenation in place of its result") \
    X(limit_concat_operands,   canonicalise, true,  "makes trees of concatenations that have more operands than a kernel has parameters") \
    X(views_into_bodies,       layout,       false, "moves views of a loop's operands into its body")

#define X(name, phase, required, meaning) void name(Graph *g);
GRAPH_REWRITES(X)
#undef X

// For passes that run themselves (rewrite_passes.c): narrow, split_norms, fuse. text: what a dump shows; NULL: the graph.
double graph_pass_started(void);
void   graph_pass_ended(Graph *g, const char *name, double started, const Buf *text);

// Of a model in 16-bit floats (narrow.c), after these and the rounding.
void  split_norms(Graph *g);                                 // split_norms.c

#endif
