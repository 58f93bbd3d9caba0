// Stretches of 0 .. n, handed out one after the other to whoever comes next.
#define _GNU_SOURCE                    // sched_getaffinity
#include "runtime/parallel.h"

#include "lang/heap.h"

#include <sched.h>
#include <stdatomic.h>

typedef struct Shared {
    void  (*piece)(void *ctx, int64_t from, int64_t to);
    void   *ctx;
    int64_t n, grain;
    _Atomic int64_t next;
} Shared;

int cores(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

static void take(void *shared) {
    Shared *s = shared;
    for (int64_t at; (at = atomic_fetch_add(&s->next, s->grain)) < s->n;)
        s->piece(s->ctx, at, s->n - at < s->grain ? s->n : at + s->grain);
}

void parallel(int64_t n, int64_t grain, void (*piece)(void *ctx, int64_t from, int64_t to), void *ctx) {
    Shared s = {.piece = piece, .ctx = ctx, .n = n, .grain = grain};
    int64_t pieces = (n + grain - 1) / grain;
    int more = cores() - 1;
    heap_crew(more < pieces - 1 ? more : (int)(pieces - 1), take, &s);
}
