// Tiles in shared memory: where an element is, and moving registers there and back. See llvm_shared.c.
#ifndef TK_LOWER_SHARED_H
#define TK_LOWER_SHARED_H

#include "lower/gen.h"

typedef struct Shared {
    int      rank;
    const Val *axis[MAX_AXES];    // by dimension, the last one contiguous
    int64_t  extent[MAX_AXES];
    int      per[MAX_AXES];       // lanes of a tile that have the same coordinate; 0: one each
    int64_t  step[MAX_AXES];      // rows from one coordinate to the next; 0 for the last dimension
    Elem     elem;
    int      size;                // bytes of an element
    int      span;                // bytes over which 16-byte chunks are permuted: 32, 64, 128; 0: plain rows
    int64_t  rows, pitch;         // rows of `pitch` bytes; with a span, row pieces of `span` bytes, chunk after chunk
    LLVMValueRef base;            // i32 byte offset
    bool     ring;                // of a block's rings, whatever its slices have of their own
} Shared;

typedef struct SharedAt {         // a lane's place in it; registers add constants
    Gen     *g;
    const Shared *s;
    LLVMValueRef row, low;        // i32: bytes that constants are added to, and bits that they are XORed into
    LLVMValueRef known[8];        // pointers for each value of the XOR, made when first asked for
} SharedAt;

void         shared_shape(Shared *s, Elem e, bool swizzled);       // the rest, from rank, axis and extent
uint32_t     shared_bytes(const Shared *s);
int64_t      shared_byte(const Shared *s, const int64_t *coord);   // where an element starts, from the tile's first byte
int          shared_dim(const Shared *s, const Val *axis);         // -1: it has none
void         shared_open(Gen *g, SharedAt *at, const Shared *s, LLVMValueRef const *lane);   // lane: elements, by dimension; NULL: 0
LLVMValueRef shared_ptr(SharedAt *at, const int64_t *coord);       // constants, by dimension
// Registers of v -> shared memory, as elements of s->elem. Zero goes to coordinates past the extent of an axis in
// `zero`, and to all that v has no lane for; the caller puts barriers around.
void         shared_put(Gen *g, const Shared *s, const Val *v, int nzero, Val *const *zero);
// The ring that a buffer_load or buffer_store names, at its stage.
Shared       shared_buffer(Gen *g, const Op *op);
Shared       shared_stage(Gen *g, const Op *op, const Val *stage);  // the same at another stage
bool         buffer_load_is_fused(Gen *g, const Op *load);         // every use is a dot that reads fragments from it
void         buffer_shape(const Type *buffer, Shared *s);          // rank, extents and places; no axes, no base

#endif
