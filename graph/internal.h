// What the files of the graph share: its tables.
#ifndef TK_GRAPH_INTERNAL_H
#define TK_GRAPH_INTERNAL_H

#include "graph/graph.h"

typedef struct GKnown { Node *node; const Ix *at; int count; bool computed; } GKnown;

struct GTables {
    Ix      *ix_slot;   uint32_t ix_count, ix_size;          // open addressing; sizes are powers of two
    Node   **node_slot; uint32_t node_count, node_size;
    VEC(IxDim) dims;
    VEC(Ix)  dim_ix;
    VEC(GKnown) known;                                       // by node id
    const char *at;                                          // see g_at
    uint32_t place, places;                                  // .. its place in the model's order; how many there were
    const char *error;
    int      prove_depth;
    struct { Ix e; int depth; bool yes; } *proved;           // what was tried last, by hash: a proof stands, a failure where as little may be tried
    struct GraphPasses *passes;                              // how its passes are watched (graph_passes.h), or NULL
    int      number;                                         // .. among all graphs that are
    bool     simplified, ended;                              // ended: the last pass that was asked for has run
    bool     narrow;                                         // .. will be of 16-bit operands (rewrite/narrow.c)
    uint8_t  narrow_to;                                      // .. of that Elem, where it is narrow
    bool     tf32;                                           // products of f32 are single ones of tf32
    int      rewrites;                                       // --verify=values: 1 + how many of the optional rewrites run; 0: all
    bool     unoptimised;                                    // --opt=none: required rewrites alone, a kernel for each value
};

static inline uint32_t hash_mix(uint32_t h, uint64_t v) {
    uint64_t x = (h ^ v) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(x ^ x >> 32);
}

uint32_t hash_bytes(uint32_t h, const void *p, size_t n);

// A node with everything set but id, hash and from: the one that is there already, or a copy in the arena.
Node *node_intern(Graph *g, const Node *n);
// As g_at, with what n was made for.
void  g_at_node(Graph *g, const Node *n);
// Its own storage for the arrays of a prototype.
const Ix *copy_ixs(Graph *g, const Ix *at, int n);
Node *const *copy_nodes(Graph *g, Node *const *at, int n);
bool any_null_ix(const Ix *at, int n);
bool any_null_node(Node *const *at, int n);

// The part of a concatenation that holds a coordinate, whatever its axes are, and where it begins; -1: not one alone.
int g_part_at(Graph *g, const Node *n, Ix at, Ix *start);

// layout.c
int  ix_quotients(Ix e);                                     // divisions and remainders in it
// Adjacent dimensions put together where the coordinates allow: the shape and coordinates that are left.
int  dims_merged(Graph *g, int rank, const Ix *shape, const Ix *coord, Ix *to_shape, Ix *to_coord);
// A product of a few taps in each channel (batch axis): multiplications and additions. Its weights are stored channels last.
bool g_is_depthwise(Graph *g, const Node *n);
int  quotients_merged(Graph *g, int rank, const Ix *shape, const Ix *coord);   // that are left then

#endif
