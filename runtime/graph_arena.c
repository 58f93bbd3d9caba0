// The arena of a graph: which value lies where, when it is known from which launch to which it lives.
//
//         launch   0   1   2   3   4
//     a   ########        at 0                  two values may share bytes
//     b       ########    at 512                iff no launch needs both
//     c           ########  at 0
//
// Values are placed one after the other at the lowest gap between those that live at the same time and were
// placed before (the gap that fits best). Which order is best differs, so a few are tried: by size, by
// size times lifetime, by lifetime, by first launch, each with the values that reach the peak moved to its front a
// few times. If the peak is still above that of the live bytes, the best order is disturbed at random (the same in
// each run), and what is no worse is kept.

#include "runtime/graph.h"

#include <stdlib.h>
#include <string.h>

enum { PROMOTIONS = 20, WORK = 20 << 20 };   // tries by promotion; by disturbance: as many as so many comparisons are

static uint64_t rounded(uint64_t bytes) { return (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN; }

uint64_t arena_live_peak(const ArenaItem *item, int n) {
    uint64_t peak = 0;
    for (int i = 0; i < n; i++) {                        // a peak begins where some value does
        uint64_t sum = 0;
        for (int j = 0; j < n; j++)
            if (item[j].first <= item[i].first && item[i].first <= item[j].last) sum += rounded(item[j].bytes);
        if (sum > peak) peak = sum;
    }
    return peak;
}

static int by_offset(const void *a, const void *b) {
    const ArenaItem *x = *(ArenaItem *const *)a, *y = *(ArenaItem *const *)b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static bool together(const ArenaItem *a, const ArenaItem *b) { return a->first <= b->last && b->first <= a->last; }

// Places all in this order; the peak.
static uint64_t place(ArenaItem *item, const int *order, int n, ArenaItem **near) {
    uint64_t peak = 0;
    for (int k = 0; k < n; k++) {
        ArenaItem *v = &item[order[k]];
        uint64_t size = rounded(v->bytes), end = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
        int m = 0;
        for (int j = 0; j < k; j++)
            if (together(v, &item[order[j]]) && item[order[j]].bytes) near[m++] = &item[order[j]];
        qsort(near, (size_t)m, sizeof *near, by_offset);
        for (int j = 0; j < m; j++) {
            uint64_t gap = near[j]->offset > end ? near[j]->offset - end : 0,
                     stop = near[j]->offset + rounded(near[j]->bytes);
            if (gap >= size && gap < best_gap) { best = end; best_gap = gap; }
            if (stop > end) end = stop;
        }
        v->offset = best == UINT64_MAX ? end : best;
        if (v->bytes && v->offset + size > peak) peak = v->offset + size;
    }
    return peak;
}

static const ArenaItem *sorting;             // qsort has no context

static double weight_of(const ArenaItem *a, int way) {
    double bytes = (double)a->bytes, life = a->last - a->first + 1;
    return way == 0 ? bytes : way == 1 ? bytes * life : way == 2 ? life : -(double)a->first;
}

#define BY(way) \
    static int by_##way(const void *a, const void *b) \
    { \
        int i = *(const int *)a, j = *(const int *)b; \
        double x = weight_of(&sorting[i], way), y = weight_of(&sorting[j], way); \
        return x > y ? -1 : x < y ? 1 : i - j; \
    }
BY(0) BY(1) BY(2) BY(3)

// The values that reach the peak, first.
static void promote(const ArenaItem *item, int *order, int n, uint64_t peak, int *scratch) {
    int front = 0, back = 0;
    for (int k = 0; k < n; k++) {
        const ArenaItem *v = &item[order[k]];
        bool top = v->bytes && v->offset + rounded(v->bytes) == peak;
        if (top) order[front++] = order[k];
        else scratch[back++] = order[k];
    }
    memcpy(order + front, scratch, sizeof *order * (size_t)back);
}

// One value that reaches the peak, and one of any kind, to earlier places of the order.
static void disturb(const ArenaItem *item, int *order, int n, uint64_t peak, uint64_t *seed) {
    for (int kind = 0; kind < 2; kind++) {
        int from = (int)((*seed = *seed * 6364136223846793005u + 1442695040888963407u) >> 33) % n;
        for (int k = 0; kind == 0 && k < n; k++, from = (from + 1) % n) {
            const ArenaItem *v = &item[order[from]];
            if (v->bytes && v->offset + rounded(v->bytes) == peak) break;
        }
        int to = from ? (int)((*seed = *seed * 6364136223846793005u + 1442695040888963407u) >> 33) % from : 0,
            moved = order[from];
        memmove(order + to + 1, order + to, sizeof *order * (size_t)(from - to));
        order[to] = moved;
    }
}

uint64_t arena_plan(ArenaItem *item, int n) {
    static int (*const ways[])(const void *, const void *) = {by_0, by_1, by_2, by_3};
    if (n == 0) return 0;
    int *order = heap_alloc(sizeof *order * (size_t)n * 3), *best_order = order + n, *spare = order + 2 * n;
    ArenaItem **near = heap_alloc(sizeof *near * (size_t)n);
    uint64_t floor = arena_live_peak(item, n), best = UINT64_MAX, seed = 1;
    int tries = n < 60 ? 2000 : WORK / n / n + 2;
    for (int way = 0; way < 4 && best > floor; way++) {
        for (int i = 0; i < n; i++) order[i] = i;
        sorting = item;
        qsort(order, (size_t)n, sizeof *order, ways[way]);
        for (int try = 0; try < PROMOTIONS && try < tries && best > floor; try++) {
            uint64_t peak = place(item, order, n, near);
            if (peak < best) { best = peak; memcpy(best_order, order, sizeof *order * (size_t)n); }
            promote(item, order, n, peak, spare);
        }
    }
    memcpy(order, best_order, sizeof *order * (size_t)n);
    for (int try = 0; try < tries && best > floor; try++) {
        memcpy(spare, order, sizeof *order * (size_t)n);
        uint64_t now = place(item, order, n, near);
        disturb(item, order, n, now, &seed);
        uint64_t peak = place(item, order, n, near);
        if (peak > now) memcpy(order, spare, sizeof *order * (size_t)n);
        if (peak < best) { best = peak; memcpy(best_order, order, sizeof *order * (size_t)n); }
    }
    best = place(item, best_order, n, near);
    heap_free(order);
    heap_free(near);
    return best;
}
