// The two ways to emit a dot, chosen by the layout of its result. See llvm_mma.c, llvm_fma.c.
#ifndef TK_LOWER_DOT_H
#define TK_LOWER_DOT_H

#include "lower/mma.h"
#include "lower/shared.h"

typedef enum Where { STAGED, IN_BUFFER, IN_REGISTERS } Where;      // an operand, when the product begins

typedef struct DotPlan {
    bool      mma;
    MmaChoice c;
    Where     where[2];           // by operand
    Shared    shared[2];          // STAGED: base still unset; IN_BUFFER: shape alone
} DotPlan;

void plan_dot(Gen *g, const Op *op, DotPlan *p);
void fma_plan(const Op *op, DotPlan *p);
void fma_emit(Gen *g, Op *op, DotPlan *p);                         // operands staged, barriers done
LLVMValueRef dot_start(Gen *g, const Op *op, int reg);             // the accumulator's register, or 0

#endif
