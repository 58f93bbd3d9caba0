// What the two files of rotary embeddings share: rotary.c says what they do.
#ifndef TK_GRAPH_TURN_H
#define TK_GRAPH_TURN_H

#include "graph/fuse/fuse.h"
#include "graph/rewrite/rewrite.h"

enum { MOST_ADDED = 4, MOST_TURNED = 4, MOST_STEPS = 400, MOST_BLOCKS = 256 };

typedef struct Turned {                      // a function of paired columns
    Node    *of;
    int      along;                          // its axis of a head's columns
    Ix       row[G_MAX_RANK], head;          // of the product, in its axes
    Ix       inverse[G_MAX_RANK];            // its axes, but for `along`, in those of a frame
    int64_t  first, step, heads;             // which heads: first, first + step, ..
} Turned;

// A product, and how its columns are paired: n = (h * blocks + b) * 2c + p * c + d.
typedef struct Pairing {
    Node    *product, *whole;
    Node    *step[MOST_ADDED + 1];           // from the one to the other: what is added to each column
    int      steps;
    bool    *below;                          // by node id: the whole is below it
    bool    *inside;                         // by node id: one of the functions is made of it
    int64_t  columns, head, c, blocks;
    Turned   at[MOST_TURNED];
    int      n;
    Node    *half[2], *result;               // once they are made
} Pairing;

typedef struct Turn {
    Rewrite *r;
    RewriteFn *fn;                           // NULL while looking: nodes stand for themselves
    Pairing **of;                            // by node id: what it is the whole, or a function, of
    // by node id: a concatenation is below it, with only what is moved and computed between
    bool    *joins;
    uint32_t *read;                          // by node id: the number of the function that it was last found in
    uint32_t number;
    VEC(int) *users;                         // by node id: alive nodes
    uint32_t *met, *seen, looked;            // by node id: the number of the product for which it was last met; of the value
    VEC(Node *) open, joined;
    bool    *below, *inside, *beyond;        // of the product that is looked at; beyond: with something else than what is moved and computed between
    const Node *from;                        // what nodes are made for that only move
    int      steps;
    bool     everywhere;                     // frames' heads and blocks are not held to those that a function is for
    bool     failed;
} Turn;

// Moved and computed on, nothing else: what a function of columns may be made of.
static inline bool turn_computes(const Node *n) {
    return n->kind == G_ew || (n->kind == G_cast && !n->cast.kept) || n->kind == G_view || n->kind == G_concat;
}
static inline int  turn_rows(const Pairing *p) { return p->product->contract.nm; }

// rotary_half.c
bool  turn_make_halves(Turn *t, Pairing *p);                  // the two products
// the function for the columns of one half. NULL: it reads others
Node *turn_half(Turn *t, const Pairing *p, const Turned *f, int half);
Node *turn_result(Turn *t, Pairing *p);                       // all columns: [rows.., heads, blocks, 2, c], in memory

#endif
