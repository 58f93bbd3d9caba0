// The two ways to emit a dot, chosen by the layout of its result. See llvm/mma_sync.c, llvm/fma.c.
#ifndef TK_LOWER_DOT_H
#define TK_LOWER_DOT_H

#include "lower/layout/mma.h"
#include "lower/llvm/smem_tiles.h"

typedef enum Where { STAGED, IN_BUFFER, IN_REGISTERS } Where;      // an operand, when the product begins

typedef struct DotPlan {
    bool      mma;
    MmaChoice c;
    Where     where[2];           // by operand
    Shared    shared[2];          // STAGED: base still unset; IN_BUFFER: shape alone
} DotPlan;

void fma_plan(const Op *op, DotPlan *p);
void fma_emit(Gen *g, Op *op, DotPlan *p);                         // operands staged, barriers done
LLVMValueRef dot_start(Gen *g, const Op *op, int reg);             // the accumulator's register, or 0

// A fragment by ldmatrix; x -> hi and lo of tf32x3, both as bits.
void gen_ldmatrix(Gen *g, LLVMValueRef p, int n, bool trans, LLVMValueRef *out);
// mma.sync's fragments of bytes that lie with k outside: what a lane adds to k in their addresses; of n blocks of eight columns, that begin 0 or 8 behind the
// address, the words of both halves of k.
LLVMValueRef gen_turned_lane(Gen *g);
void gen_turned_words(Gen *g, LLVMValueRef at, int n, LLVMValueRef const *from, LLVMValueRef *words);
// Bytes of a left operand with k outside, as fragments (llvm/transpose8.c); what a warp has prepared of a stage is there.
void gen_left_bytes(Gen *g, const Op *op, LLVMValueRef group, Share s, LLVMValueRef *words);
void gen_prepared(Gen *g, const Val *bar, LLVMValueRef stage);
void gen_tf32_parts(Gen *g, LLVMValueRef x, LLVMValueRef *hi, LLVMValueRef *lo);

// Fragments that a loop carries from one trip to the next: see "Ahead" in llvm/mma_sync.c. NULL: there are none.
typedef struct Ahead Ahead;
Ahead       *ahead_open(Gen *g, const Op *loop);                   // before the loop: reads the first trip's
void         ahead_head(Gen *g, Ahead *a, LLVMBasicBlockRef from); // in its head: phis
void         ahead_next(Gen *g, Ahead *a, LLVMBasicBlockRef from); // at the end of a trip

#endif
