// Registers to shared memory and back. See llvm/smem_tiles.c.
#ifndef TK_LOWER_LLVM_SHARED_H
#define TK_LOWER_LLVM_SHARED_H

#include "lower/llvm/gen.h"
#include "lower/layout/smem_layout.h"

typedef struct SharedAt {         // a lane's place in it; registers add constants
    Gen     *g;
    const Shared *s;
    LLVMValueRef row, low;        // i32: bytes that constants are added to, and bits that they are XORed into
    LLVMValueRef known[8];        // pointers for each value of the XOR, made when first asked for
} SharedAt;

// lane: elements, by dimension; NULL: 0
void         shared_open(Gen *g, SharedAt *at, const Shared *s, LLVMValueRef const *lane);
LLVMValueRef shared_ptr(SharedAt *at, const int64_t *coord);       // constants, by dimension
// Registers of v -> shared memory, as elements of s->elem. Zero goes to coordinates past the extent of an axis in
// `zero`, and to all that v has no lane for; the caller puts barriers around.
void         shared_put(Gen *g, const Shared *s, const Val *v, int nzero, Val *const *zero);
// The ring that a buffer_load or buffer_store names, at its stage.
Shared       shared_buffer(Gen *g, const Op *op);
Shared       shared_stage(Gen *g, const Op *op, const Val *stage);  // the same at another stage
bool         buffer_load_is_fused(Gen *g, const Op *load);         // every use is a dot that reads fragments from it

#endif
