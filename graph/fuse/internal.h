// What the files of fusion share: what is known of each value, groups, and where in them values would be computed.
#ifndef TK_GRAPH_FUSE_INTERNAL_H
#define TK_GRAPH_FUSE_INTERNAL_H

#include "graph/fuse/fuse.h"
#include "graph/internal.h"

#include <string.h>

// Axes of a group by number: the root's, those that are reduced, those of what is gathered from.
enum { FIRST_REDUCED = 20, FIRST_VALUE = 40, MAX_AXES = 64 };
enum { CHEAP = 8, FREE = 3 };                                // operations of an element: to be computed again; next to none

typedef struct Place { int group; const Ix *coord; } Place;

typedef struct State {
    Graph  *g;
    Fusion *f;
    const char **result;         // by node id: which result it is, in words; NULL: none
    bool   *needed, *in_place;   // in_place: a scatter updates it, so it must be in memory
    int    *users;               // nodes that are needed and read it
    int    *weight;              // operations to compute one element from what is in memory, if everything joins
    bool   *deep;                // there is an exponential, sine, .. below
    bool   *heavy;               // there is a reduction, contraction, .. below, not stored yet
    bool   *gathers;             // .. a gather at places that are read, with only elementwise values between
    bool   *reduces;             // .. a reduction, with only elementwise values between
    bool   *numbers;             // a few for each row of a product, joined from those of its tiles (numbers.c)
    bool   *constant;            // made of constants alone
    bool   *fixed;               // .. and of places
    bool   *for_keys;            // keys or values of an attention, or what they are computed from
    Node  **epilogue;            // the product that it is the epilogue of, or NULL
    const Node **weights_of;     // the product whose right operand it is, made of constants; or NULL
    struct Places { VEC(Place) at; bool many; } *places;
    int    *fresh;               // by group: axes handed out
    int    *open;                // by group: values that it needs and has not taken in
} State;

// weigh.c: what each value is, and what computing it costs
void fuse_count_users(State *s);
void fuse_weigh(State *s);
bool fuse_unpacks(const Node *n);

// places.c
FGroup *fuse_group_at(const State *s, int i);
int fuse_new_group(State *s, FKind kind, Node *root);
bool fuse_depends(const State *s, int from, int on, int depth);
void fuse_reads_add(State *s, int from, int on);
int fuse_root_axes(Graph *g, const FGroup *f, Ix *axis);
uint64_t fuse_all_root_axes(State *s, const FGroup *f);
uint64_t fuse_product_axes(State *s, const FGroup *f);
uint64_t fuse_used_axes(const Ix *coord, int n);
// One to one with some axes of the root.
bool fuse_covers(State *s, const Node *n, const FGroup *f, const Ix *coord, uint64_t axes);
// The only group that would compute n; -1: several.
int fuse_only_group(const State *s, const Node *n);
bool fuse_placed_in(const State *s, const Node *n, int group);
bool fuse_first_there(const struct Places *p, uint32_t i);
void fuse_place_add(State *s, Node *n, int group, const Ix *coord);
void fuse_mark_keys(State *s, const Node *x);
bool fuse_short_enough(Ix e);
// n is computed at one place of a group, or at all its places: its sources' places follow.
void fuse_push(State *s, const Node *n, int group, const Ix *coord);
void fuse_join_all(State *s, const Node *n);

// may.c: why a value does not join its groups; NULL: it may
const char *fuse_reduce_refused(State *s, const Node *n);
const char *fuse_product_refused(State *s, const Node *n);
bool fuse_adds(const State *s, const Node *n);                // .. a product, since it adds to its group's
const char *fuse_element_refused(State *s, const Node *n);
const char *fuse_grows_too_large(const State *s, const Node *n);
extern const char fuse_large[], fuse_crowded[];               // what the last one says
bool fuse_is_kept(const Node *n);
bool fuse_whole_rows(State *s, const Node *product, const Node *x);

// beside.c: a group that makes another value of n's shape and sources, in whose kernel n has a place; -1: there is none
int fuse_beside(State *s, const Node *n);

// parts.c: are the parts of this concatenation stored in their places by the kernels that make them?
bool fuse_parts_in_place(State *s, Node *n, const char *why);
bool fuse_makes_part(const State *s, const FGroup *f);       // .. and nothing else
void fuse_order_parts(State *s);                             // once groups are in their order

// step.c: rows that the steps of a loop give
void fuse_own_rows(Graph *g);                                // of a body: each is a value that a kernel stores, and no other row
void fuse_rows(State *s);
void fuse_rows_alone(State *s);                              // once all is placed: which of them nobody reads

// numbers.c: reductions over tiles of products' columns, by the products' kernels
void fuse_numbers(State *s);

// weights.c
bool fuse_is_weight(const State *s, const Node *n);
bool fuse_scattered(const State *s, const Node *n);
bool fuse_computed_once(const State *s, const Node *n);

#endif
