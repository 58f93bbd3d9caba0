// Random data: Philox-4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw,
// "Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
//
// A block of four words is a function of a 128-bit counter and a 64-bit key: ten rounds of two 32 x 32
// multiplications. The key is the user's seed; the counter is (block, stream). So element i of an
// argument is the same whatever else is made, in whatever order, by however many threads:
//
//     word i of a stream = philox(counter = {i / 4, stream}, key = seed)[i % 4]
//     normal i           = Box-Muller of words 2 * (i / 2), 2 * (i / 2) + 1: cosine for even i, sine for odd
//
// Normals use the C library's log, sin and cos in double and are then rounded to the element type, so
// that libraries that differ in a double's last place give the same f32 but about once in 2^28 elements.

#include "runtime/internal.h"

#include <math.h>

void philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xD2511F53u * c0, b = (uint64_t)0xCD9E8D57u * c2;
        uint32_t n0 = (uint32_t)(b >> 32) ^ c1 ^ k0, n2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = n0;
        c2 = n2;
        k0 += 0x9E3779B9u;                           // the golden ratio
        k1 += 0xBB67AE85u;                           // sqrt(3) - 1
    }
    out[0] = c0; out[1] = c1; out[2] = c2; out[3] = c3;
}

static void block(uint64_t seed, uint64_t stream, uint64_t number, uint32_t out[4]) {
    uint32_t counter[4] = {(uint32_t)number, (uint32_t)(number >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)};
    uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    philox4x32(counter, key, out);
}

uint32_t rng_bits(uint64_t seed, uint64_t stream, uint64_t i) {
    uint32_t w[4];
    block(seed, stream, i / 4, w);
    return w[i % 4];
}

double rng_uniform(uint64_t seed, uint64_t stream, uint64_t i) {
    return (double)rng_bits(seed, stream, i) * 0x1p-32;
}

// The pair that words 2 i and 2 i + 1 give.
static void normal_pair(const uint32_t word[2], double out[2]) {
    double r = sqrt(-2.0 * log(((double)word[0] + 0.5) * 0x1p-32));
    double t = 6.283185307179586476925 * ((double)word[1] * 0x1p-32);
    out[0] = r * cos(t);
    out[1] = r * sin(t);
}

double rng_normal(uint64_t seed, uint64_t stream, uint64_t i) {
    uint32_t w[4];
    double   pair[2];
    block(seed, stream, i / 4, w);
    normal_pair(w + (i & 2), pair);
    return pair[i & 1];
}

void rng_words(uint64_t seed, uint64_t stream, uint64_t first, int n, uint32_t *out) {
    uint32_t w[4];
    for (int i = 0; i < n;) {
        block(seed, stream, (first + (uint64_t)i) / 4, w);
        for (uint64_t k = (first + (uint64_t)i) % 4; k < 4 && i < n; k++) out[i++] = w[k];
    }
}

void rng_normals(uint64_t seed, uint64_t stream, uint64_t first, int n, double *out) {
    enum { PAIRS = 64 };
    uint32_t w[2 * PAIRS];
    double   pair[2];
    for (int i = -(int)(first & 1); i < n; i += 2 * PAIRS) {
        int words = n - i < 2 * PAIRS ? (n - i + 1) / 2 * 2 : 2 * PAIRS;
        rng_words(seed, stream, first + (uint64_t)(int64_t)i, words, w);
        for (int k = 0; k < words; k++) {
            if (k % 2 == 0) normal_pair(w + k, pair);
            if (i + k >= 0 && i + k < n) out[i + k] = pair[k % 2];
        }
    }
}

uint64_t rng_stream(const char *name, int position) {
    uint64_t h = 14695981039346656037u;              // FNV-1a
    for (; *name; name++) h = (h ^ (unsigned char)*name) * 1099511628211u;
    return h ^ (uint64_t)(uint32_t)position << 32;
}
