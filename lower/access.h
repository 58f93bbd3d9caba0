// How a tile access reaches memory: proved bounds, vector width, addresses. See access.c.
#ifndef TK_LOWER_ACCESS_H
#define TK_LOWER_ACCESS_H

#include "lower/facts.h"
#include "lower/layout.h"

typedef struct Access {
    const Op *op;
    int       param;
    const LaunchParam *p;
    Elem      elem;
    int       nidx;
    Val      *const *idx;
    Type      type;                 // axes of the access: of the loaded tile, or of all indices
    Affine    aff[MAX_RANK];
    bool      proved[MAX_RANK];     // in range on every live lane
    int       contiguous;           // position in type of the axis along which elements are adjacent, or -1
    int       vec;                  // elements an access may move at once, by alignment and bounds alone
} Access;

// `idx` may be any indices; `type` is the tile's.
bool access_of(Facts *s, const Op *op, Access *out);
// The widest vector of the layout that the facts allow (a power of two; bytes at most 16).
int  access_vec(const Access *a, const Layout *l);

#endif
