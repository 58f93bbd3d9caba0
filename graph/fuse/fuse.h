// Which values are kept in memory, and which kernel makes each: the plan that the writer of `.tk` programs carries out.
//
// A *group* becomes one kernel. It has a root, whose axes are the kernel's parallel axes, and takes in whatever its root is
// computed from, up to values that are in memory: inputs, constants, what other groups make. Rules and refusals: fuse.c.
#ifndef TK_GRAPH_FUSE_H
#define TK_GRAPH_FUSE_H

#include "graph/graph.h"

typedef enum FKind {
    F_MAP,                       // every element for itself
    F_ROWS,                      // reductions of rows, and what is computed from them; scans and sorts
    F_PRODUCT,                   // a contraction, with what follows it
    F_SCATTER,
    F_STEPS,                     // no kernel: those of a body, for each of its steps
} FKind;

typedef struct Attention {       // a product whose left operand is a softmax along the contracted axis
    Node     *score;             // what the softmax is of
    const Ix *place;             // where, for the operand's place
    bool      guarded;           // rows with nothing in them give 0
} Attention;

// place: of the left operand's elements; its last coordinate is the contracted axis.
bool attention_softmax(Graph *g, const Node *n);              // is it one, along one axis?
bool attention_match(Graph *g, const Node *product, const Ix *place, Attention *to);

// Is this reduction's a few rows that no cluster of blocks keeps (rows.c)? Of sizes that are known.
bool graph_longer_than_kept(const Node *n);

// By node id: the product that an elementwise value is the epilogue of (epilogue.c), or NULL.
Node **graph_epilogues(Graph *g, const bool *alive);

enum { MOST_MORE = 3, MOST_ALSO = 2 };      // the four gates of a recurrent cell are one kernel; products that add to a third one

typedef struct FGroup {
    FKind    kind;
    bool     once;               // made of weights alone: it is run when they are loaded
    Node    *root;
    Node    *as;                 // a view of the root, one to one, that is stored in its stead; or NULL
    VEC(Node *) more;            // F_PRODUCT: other contractions of the same left operand, MOST_MORE at most
    VEC(Node *) also;            // .. or of other operands, that add to the anchor's sum: a loop of each, one after the other
    Node    *anchor;             // F_PRODUCT: the contraction; F_ROWS: the scan or sort that it is about, or NULL; F_STEPS: those
    const struct Fusion *step;   // F_STEPS: of the body
    VEC(Node *) makes;           // what it leaves in memory: the root (or `as`), and others
    VEC(Node *) beside;          // .. of which these are no part of the root, but like it (beside.c)
    const Ix *place;             // F_PRODUCT: of the anchor, in axes of the root
    VEC(Node *) numbers;         // .. of `makes`: what is reduced over one tile of its columns (numbers.c)
    int64_t  width;              // .. which are as many then
    bool     whole;              // .. each row of which is in one tile: what is reduced along it is reduced there (product.c)
    int      parts;              // an axis of the root that no product has: its few elements are stored one by one; -1: none
    bool     attends;            // .. whose left operand is a softmax, computed as the loop over keys goes
    int      along;              // .. the number of the axis of keys
    Node    *inner;              // .. the product that makes the scores, or NULL
    uint32_t rows;               // F_ROWS, and of whole rows: axes of the root that are rows; the others are columns
    VEC(Node *) nodes;           // all that it computes, for comments
    VEC(int) reads;              // groups that make what it reads
    bool     gone;               // it has become part of another one
} FGroup;

// Is x, a product or what follows it, at these places each of the group's rows, and whole in one tile?
bool graph_rows_of_product(Graph *g, const Node *product, const Node *x, const FGroup *f, int n, const Ix *const *coord);
// Is a product of f32 for wgmma, as three of tf32?
bool graph_large(Graph *g, const Node *product);
bool graph_apart_in_memory(Graph *g, const Node *n, const FGroup *f, const Ix *coord);

// A value that is stored in its place in a concatenation, by the kernel that makes it (parts.c).
enum { LARGE_WHOLE = 4 << 20 };  // elements of what is worth it
typedef struct FPart { const Node *of; Ix start; } FPart;    // of: NULL: it is not

// In the body of steps: a value that is stored as a row of what they give, at the step's number; alone: nowhere else.
typedef struct FRow { const Node *of; Ix at; bool alone; } FRow;

typedef struct Fusion {
    const Graph *graph;
    VEC(FGroup *) groups;        // in the order of launches
    int        *maker;           // by node id: the group, or -1
    bool       *stored;          // by node id: is it in memory (inputs and constants are not counted here)
    const Ix  **passing;         // by node id of what its group makes on the way: where, by the root's axes; else NULL
    // by node id: why it is stored, in words; NULL: it is not, or nothing could be done about it
    const char **why;
    FPart      *part;            // by node id
    FRow       *row;             // by node id; of NULL: it is none
    int        *begun;           // by node id of such a concatenation: the group that makes the first of its parts (maker: the last); -1: it is none
} Fusion;

// A weight in another type than its file has: converted when it is loaded, and in memory like a constant.
static inline bool graph_loaded(const Node *n) {
    bool floats = n->kind == G_cast && n->src[0]->kind == G_const && elem_is_float((Elem)n->elem) &&
                  elem_is_float((Elem)n->src[0]->elem);
    return floats && elem_bits((Elem)n->elem) >= 16 && elem_bits((Elem)n->src[0]->elem) >= 16;
}

enum { MOST_ALONG = 32768 };                                 // elements along a sort or a scan of a known size

// In which programs, and by which operations of the interpreter between them, the model is run, if not all of it has a form as kernels: g->stages,
// and g stays as it is. false: it is one program, or none. Before any rewriting. What is for an input's shape or value to settle (the next) is
// not cut off: a program of it alone can be had.
bool    graph_cut(Graph *g);
// The program of a stage of it, a graph that does not outlive the whole (stage.c). With an error (g_failed), perhaps.
Graph  *graph_stage(const Graph *whole, int stage);
// What decides how often a loop runs, or which side of an if is taken, where that can be known when the model is read: a G_index of
// sizes, whose loop could be written out, or an input. NULL: it cannot.
const Node *graph_settled_by(const Graph *g, const Node *n);
Fusion *graph_fuse(Graph *g);                                // in the graph's arena
// What a group was made for, once each, in the model's order: as many as there are, at most `most` of them in `from`.
int     group_sources(const FGroup *f, const char **from, int most);
// --emit=fusion, with the bytes that move (traffic.c). in: as for ref_run, for their dimensions; NULL: those are 1.
typedef struct Unfused { int operators; double bytes; } Unfused;       // a kernel for each operator of the model
Unfused graph_unfused(Graph *g, const GTensor *in);          // before any rewriting
void    fusion_print(Buf *to, Graph *g, const Fusion *f, const Unfused *before, const GTensor *in);
// Is a map from `n` axes (with these extents) onto the values of `coord` one to one? axis[i] gets the axis as an
// expression of places: of ix_axis(g, k, shape[k]) for the value's dimension k.
bool    map_invert(Graph *g, int rank, const Ix *shape, const Ix *coord, int n, const Ix *axis, Ix *inverse);

#endif
