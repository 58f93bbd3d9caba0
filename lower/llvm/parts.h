// Values on their way through scratch memory (llvm/parts.c): which registers go, and as what words.
#ifndef TK_LOWER_LLVM_PARTS_H
#define TK_LOWER_LLVM_PARTS_H

#include "lower/llvm/gen.h"

int          part_unit(const Val *v);                          // bytes of a register's word: 4 or 8
int          part_regs(const Val *v);
int          part_alive(Gen *g, const Val *v, int **at);       // registers that may hold something alive, in order; how many
int          part_run(const Val *v, int left);                 // how many of so many registers move together
LLVMTypeRef  part_words(Gen *g, const Val *v, int n);
// n registers that move together
void         part_store(Gen *g, const Val *v, const int *reg, int n, LLVMValueRef to);
LLVMValueRef part_from_bits(Gen *g, const Val *v, LLVMValueRef x);

#endif
