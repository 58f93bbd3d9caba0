// Tiles in shared memory: where an element is. smem_layout.c says how they lie; llvm/smem_tiles.h moves registers there and back.
#ifndef TK_LOWER_SHARED_H
#define TK_LOWER_SHARED_H

#include "lower/ir/ir.h"

typedef struct Shared {
    int      rank;
    const Val *axis[MAX_AXES];    // by dimension, the last one contiguous; NULL: a tile is row `row` of it
    int64_t  row;
    int64_t  extent[MAX_AXES];
    int      per[MAX_AXES];       // lanes of a tile that have the same coordinate; 0: one each
    int64_t  step[MAX_AXES];      // rows from one coordinate to the next; 0 for the last dimension
    Elem     elem;
    int      size;                // bytes of an element
    int      span;                // bytes over which 16-byte chunks are permuted: 32, 64, 128; 0: plain rows
    int64_t  rows, pitch;         // rows of `pitch` bytes; with a span, row pieces of `span` bytes, chunk after chunk
    struct LLVMOpaqueValue *base; // the code generator's: i32 byte offset
    bool     ring;                // of a block's rings, whatever its slices have of their own
} Shared;

void     shared_shape(Shared *s, Elem e, bool swizzled);       // the rest, from rank, axis and extent
void     buffer_shape(const Type *buffer, Shared *s);          // rank, extents and places; no axes, no base
int64_t  shared_row_bytes(const Shared *s);                    // of the last dimension, in whole chunks
uint32_t shared_bytes(const Shared *s);
int64_t  shared_byte(const Shared *s, const int64_t *coord);   // where an element starts, from the tile's first byte
int64_t  shared_phase(const Shared *s, int64_t row);           // the row's permutation: what its bytes are XORed with
int      shared_dim(const Shared *s, const Val *axis);         // -1: it has none

#endif
