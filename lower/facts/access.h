// How a tile access reaches memory: proved bounds, vector width, addresses. See access.c.
#ifndef TK_LOWER_ACCESS_H
#define TK_LOWER_ACCESS_H

#include "lower/facts/facts.h"
#include "lower/layout/layout.h"

typedef struct Access {
    const Op *op;
    int       param;
    const LaunchParam *p;
    Elem      elem;
    int       nidx;
    int       inner;                // the dimension whose elements are adjacent in memory
    bool      unit[MAX_RANK];       // one element long: its index is 0, its stride does not matter
    Val      *const *idx;
    Type      type;                 // axes of the access: of the loaded tile, or of all indices
    Affine    aff[MAX_RANK];
    bool      proved[MAX_RANK];     // in range on every live lane
    int       contiguous;           // position in type of the axis along which elements are adjacent, or -1
    int       vec;                  // elements an access may move at once, by alignment and bounds alone
} Access;

// `idx` may be any indices; `type` is the tile's. The shape has no width, and so assumes nothing for one: TMA does not ask.
bool access_shape(Facts *s, const Op *op, Access *out);
bool access_of(Facts *s, const Op *op, Access *out);
// Its rows begin at multiples of so many elements, which is assumed where it is not known.
bool access_aligned(Facts *s, const Access *a, int64_t unit);
// The widest vector of the layout that the facts allow (a power of two; bytes at most 16).
int  access_vec(const Access *a, const Layout *l);
// A load of elements of one or two bytes that may come by words: what one holds that is out of range, `else` in all of it, is a number.
bool access_words(const Access *a, uint32_t *other);
// Elements of one or two bytes whose runs begin so many elements behind a word's begin, in rows of whole words: a lane's word is made of two. 0: not so.
int  access_shifted(Facts *s, const Access *a, const Layout *l);

// Bytes of a row of `bytes` in shared memory as TMA brings it for wgmma: of columns that are not contracted, whole
// spans of 128 where that is a quarter more at most, or a third where else boxes would be 32 bytes wide: shorter rows
// take as long (columns of the next tile come along, and nobody reads them).
int64_t tma_row(int64_t bytes, bool contracted);
// How a block's warps share the tile of an asynchronous copy: pieces of 16 bytes, or what the access allows, neighbours by neighbours.
const Layout *access_copy_layout(Arena *arena, const Access *a, int warps);
int access_copy_bytes(Arena *arena, const Access *a, int warps);      // of one copy in it: its lanes may be fewer than lie together in memory
// Each row has a place of its own: an index is computed from it.
bool access_rows_scattered(const Access *a);
// So it has, or some row may be out of range.
bool access_rows_apart(const Access *a);
// 16 bytes at a time, so that an asynchronous copy can bring it; may be added to what is assumed. Before the passes:
// nobody knows, true.
bool access_by_16(Fn *f, const Op *load);

#endif
