// Blocks that keep tallies of small tensors: privatize.c finds them, llvm/privatize_smem.c makes them, cost/privatize_cost.c says whether it pays.
#ifndef TK_LOWER_TALLY_H
#define TK_LOWER_TALLY_H

#include "lower/lower.h"

// Parameters, by bit, that blocks would keep tallies of; else why not, or NULL where there are no such atomics.
uint64_t tally_params(Fn *f, const CompileOptions *opt, const char **refused);
LExpr    tally_places(const Fn *f, int param);                // elements of the tensor
bool     tally_many(const Fn *f, int param);                  // some of its atomics are of tiles worth the while
int64_t  tally_most_bytes(const Target *t);                   // of one copy of all of them
int      tally_resident(const Fn *f);                         // blocks of a multiprocessor
int64_t  tally_area(const Fn *f);                             // bytes of shared memory for a block's copies; one may have more

#endif
