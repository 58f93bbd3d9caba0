// What a seed decides: numbers below n, so many percent, an element of a table.
#ifndef TESTS_RANDOM_DRAW_H
#define TESTS_RANDOM_DRAW_H

#include <stdbool.h>
#include <stdint.h>

typedef struct Draw { uint64_t state; } Draw;

static inline uint32_t roll(Draw *d, uint32_t n) {
    d->state = d->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(d->state >> 33) % n;
}
static inline bool chance(Draw *d, uint32_t percent) { return roll(d, 100) < percent; }
#define PICK(d, table) ((table)[roll(d, sizeof(table) / sizeof *(table))])

#endif
