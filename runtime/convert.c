// Elements from one type to another, many at once: weights whose program wants them in fewer bits than their file has.
//
// Between f32 and f16 or bf16 each has a loop of its own over blocks of one size, without branches, which the compiler
// vectorises; the rest goes through elem_get and elem_set. Rounded once, to nearest even.
#include "runtime/tensor.h"
#include "lang/number.h"
#include "runtime/parallel.h"

#include <string.h>

enum { BLOCK = 1024 };

// Made for several machines, of which the one that it runs on is chosen when the program is loaded: vectors of 64 bytes make a model's
// weights, on all cores at once, in half of the time that those of 16 take, which every machine has.
#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define FOR_SEVERAL_MACHINES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FOR_SEVERAL_MACHINES
#endif

static inline uint32_t pick(bool first, uint32_t a, uint32_t b) {          // without a branch, whatever a and b are
    uint32_t mask = -(uint32_t)first;
    return (a & mask) | (b & ~mask);
}

static inline uint32_t bf16_of(uint32_t u) {
    return pick((u & 0x7fffffff) > 0x7f800000, 0x7fff, (u + 0x7fff + (u >> 16 & 1)) >> 16);
}

// Normal numbers are rounded as bits; of small ones an addition shifts the last place to where f16 has it, and rounds.
static inline uint32_t f16_of(uint32_t u) {
    uint32_t mag = u & 0x7fffffff, sign = u >> 16 & 0x8000;
    uint32_t normal = (mag - (112u << 23) + 0xfff + (mag >> 13 & 1)) >> 13;
    uint32_t small = f32_bits(f32_from(mag) + 0.5f) - f32_bits(0.5f);
    uint32_t r = pick(mag < 113u << 23, small, normal);
    r = pick(mag >= 143u << 23, 0x7c00, r) | sign;
    return pick(mag > 0x7f800000, 0x7fff, r);
}

FOR_SEVERAL_MACHINES static void bf16_block(const void *restrict from, void *restrict to) {
    const uint32_t *restrict in = from;
    uint16_t *restrict out = to;
    for (int i = 0; i < BLOCK; i++) out[i] = (uint16_t)bf16_of(in[i]);
}

FOR_SEVERAL_MACHINES static void f16_block(const void *restrict from, void *restrict to) {
    const uint32_t *restrict in = from;
    uint16_t *restrict out = to;
    for (int i = 0; i < BLOCK; i++) out[i] = (uint16_t)f16_of(in[i]);
}

FOR_SEVERAL_MACHINES static void wide_block(const void *restrict from, void *restrict to) {       // bf16 to f32
    const uint16_t *restrict in = from;
    uint32_t *restrict out = to;
    for (int i = 0; i < BLOCK; i++) out[i] = (uint32_t)in[i] << 16;
}

static const struct { Elem from, to; void (*block)(const void *from, void *to); } quick[] = {
    {EL_f32, EL_bf16, bf16_block}, {EL_f32, EL_f16, f16_block}, {EL_bf16, EL_f32, wide_block},
};

void elems_convert(Elem from, const void *data, Elem to, void *out, int64_t n) {
    uint32_t in[BLOCK] = {0}, made[BLOCK];               // the data may lie at any address
    size_t a = (size_t)elem_bytes(from), b = (size_t)elem_bytes(to);
    if (from == to) { memcpy(out, data, (size_t)n * a); return; }
    for (size_t k = 0; k < sizeof quick / sizeof *quick; k++) {
        if (quick[k].from != from || quick[k].to != to) continue;
        for (int64_t i = 0; i < n; i += BLOCK) {
            size_t some = n - i < BLOCK ? (size_t)(n - i) : BLOCK;
            memcpy(in, (const char *)data + (size_t)i * a, some * a);
            quick[k].block(in, made);
            memcpy((char *)out + (size_t)i * b, made, some * b);
        }
        return;
    }
    for (int64_t i = 0; i < n; i++) elem_set(to, out, i, elem_get(from, data, i));
}

typedef struct Converting { Elem from, to; const char *data; char *out; } Converting;

static void convert_piece(void *ctx, int64_t first, int64_t end) {
    const Converting *c = ctx;
    elems_convert(c->from, c->data + first * elem_bytes(c->from), c->to, c->out + first * elem_bytes(c->to), end - first);
}

void elems_convert_all(Elem from, const void *data, Elem to, void *out, int64_t n) {
    Converting c = {from, to, data, out};
    parallel(n, 256 * BLOCK, convert_piece, &c);
}
