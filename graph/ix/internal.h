// What the files of the index expressions share.
#ifndef TK_GRAPH_IX_INTERNAL_H
#define TK_GRAPH_IX_INTERNAL_H

#include "graph/internal.h"
#include "lang/number.h"

Ix   ix_intern(Graph *g, struct IxData *proto);              // as it is: the caller has simplified

int64_t sat_mul(int64_t a, int64_t b);                       // INT64_MIN and INT64_MAX: no bound
int64_t gcd64(int64_t a, int64_t b);
int64_t ix_apply(IxKind kind, int64_t a, int64_t b);         // of two numbers; sums and products wrap

// An expression as a polynomial: offset + sum of terms.
uint32_t ix_terms(Ix e);
Ix       ix_term(Ix e, uint32_t i, int64_t *coef);
int64_t  ix_offset(Ix e);
Ix       ix_atom_divide(Graph *g, Ix t, Ix by);              // monomials; NULL: does not divide
Ix       ix_add_scaled(Graph *g, Ix a, Ix b, int64_t k);     // a + k * b
// is c so many times the extent of an axis of e? Then it is not negative
bool     ix_counts_extents(Graph *g, Ix c, Ix e);

#endif
