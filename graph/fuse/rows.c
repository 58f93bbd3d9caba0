// Rows that are so long that no cluster of blocks keeps one: what reads them again reads memory.
//
// A few of them are reduced by themselves, each shared out to all multiprocessors (a norm of 1.9 G elements on an H200: 447 ms in one
// kernel of one row, 5.4 so). Where there are many, one kernel for all that is computed of a row has enough to do, and reads less:
// 1024 rows of 532 k take 3.6 ms instead of 6.7, 128 0.68 instead of 1.22; 64 of 16.8 M take 4.1 instead of 6.1 by themselves.
#include "graph/fuse/fuse.h"

#include "graph/internal.h"

enum { LONGEST = 1 << 19, FEW = 96 };

static int64_t at_most(int64_t n, int64_t size, int64_t most) { return size == 0 ? 0 : n > most / size ? most : n * size; }

bool graph_longer_than_kept(const Node *n) {
    int64_t length = 1, rows = 1, size;
    for (int d = 0; d < n->rank; d++) {
        if (!ix_const(n->shape[d], &size)) return false;
        rows = at_most(rows, size, FEW);
    }
    for (int d = 0; d < n->src[0]->rank; d++) {
        if (!(n->reduce.axes >> d & 1)) continue;
        if (!ix_const(n->src[0]->shape[d], &size)) return false;
        length = at_most(length, size, LONGEST);
    }
    return rows < FEW && length >= LONGEST;
}
