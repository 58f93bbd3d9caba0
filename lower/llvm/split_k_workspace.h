// Values on their way through scratch memory (llvm/split_k_workspace.c): which registers go, and as what words.
#ifndef TK_LOWER_LLVM_PARTS_H
#define TK_LOWER_LLVM_PARTS_H

#include "lower/llvm/gen.h"

enum { MAX_SLICED = 16 };                                      // values of a part_put, pass/split_k.h has as many

int          part_unit(const Val *v);                          // bytes of a register's word: 4 or 8
int          part_regs(const Val *v);
int          part_alive(Gen *g, const Val *v, int **at);       // registers that may hold something alive, in order; how many
int          part_run(const Val *v, int left);                 // how many of so many registers move together
LLVMTypeRef  part_words(Gen *g, const Val *v, int n);
// n registers that move together
void         part_store(Gen *g, const Val *v, const int *reg, int n, LLVMValueRef to);
LLVMValueRef part_from_bits(Gen *g, const Val *v, LLVMValueRef x);
LLVMValueRef part_to_bits(Gen *g, const Val *v, LLVMValueRef x);
LLVMValueRef part_one_thread(Gen *g);                          // is this the first of the program's threads?

// cluster_scatter_smem.c: parts in a cluster, whose blocks each join a slice: sent to the others, and all of them received; the slice, joined
void gen_scatter(Gen *g, const Op *put);
void gen_scattered(Gen *g, const Op *get);

#endif
