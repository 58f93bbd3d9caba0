// Stretches of 0 .. n, handed out one after the other to whoever comes next.
#define _GNU_SOURCE                    // sched_getaffinity
#include "runtime/parallel.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

enum { MAX_THREADS = 16 };

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

static void *take(void *shared) {
    Shared *s = shared;
    for (int64_t at; (at = atomic_fetch_add(&s->next, s->grain)) < s->n;)
        s->piece(s->ctx, at, s->n - at < s->grain ? s->n : at + s->grain);
    return NULL;
}

void parallel(int64_t n, int64_t grain, void (*piece)(void *ctx, int64_t from, int64_t to), void *ctx) {
    pthread_t thread[MAX_THREADS];
    Shared s = {.piece = piece, .ctx = ctx, .n = n, .grain = grain};
    int64_t pieces = (n + grain - 1) / grain;
    int started = 0, most = cores() - 1 < MAX_THREADS ? cores() - 1 : MAX_THREADS;
    while (started < most && started < pieces - 1 && pthread_create(&thread[started], NULL, take, &s) == 0) started++;
    take(&s);
    for (int i = 0; i < started; i++) pthread_join(thread[i], NULL);
}
