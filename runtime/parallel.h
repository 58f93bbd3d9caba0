// Work in pieces, on as many threads as there are cores.
#ifndef TK_RUNTIME_PARALLEL_H
#define TK_RUNTIME_PARALLEL_H

#include <stdint.h>

int  cores(void);                      // that this process may use
// piece(ctx, from, to) for stretches of 0 .. n of `grain` or more, on whichever thread is free; this one helps. Where
// there is work for one thread only, that is this one.
void parallel(int64_t n, int64_t grain, void (*piece)(void *ctx, int64_t from, int64_t to), void *ctx);

#endif
