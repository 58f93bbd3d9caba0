// Data for arguments: random, constants, counting. And junk, which is data that no result may depend on.

#include "runtime/internal.h"

#include <math.h>
#include <string.h>

static void random_floats(HostTensor *t, const FillSpec *s, int64_t n)
{
    bool normal = s->lo == s->hi;
    for (int64_t i = 0; i < n; i++) {
        if (normal) { elem_set(t->elem, t->data, i, rng_normal(s->seed, s->stream, (uint64_t)i)); continue; }
        elem_set(t->elem, t->data, i, s->lo + rng_uniform(s->seed, s->stream, (uint64_t)i) * (s->hi - s->lo));
        if (elem_get(t->elem, t->data, i) >= s->hi) elem_set(t->elem, t->data, i, s->lo);   // rounded up to hi
    }
}

static uint64_t bits64(const FillSpec *s, int64_t i)
{
    return (uint64_t)rng_bits(s->seed, s->stream, 2 * (uint64_t)i) << 32 | rng_bits(s->seed, s->stream, 2 * (uint64_t)i + 1);
}

// Integers in [lo, hi); all values of the type when the range is empty. Multiply-high maps the words on
// the range, with a bias of at most range / 2^64.
static void random_ints(HostTensor *t, const FillSpec *s, int64_t n)
{
    double   lo = ceil(s->lo), hi = ceil(s->hi);
    uint64_t range = hi > lo ? (uint64_t)fmin(hi - lo, 0x1.fffffffffffffp63) : 0;
    for (int64_t i = 0; i < n; i++) {
        uint64_t u = bits64(s, i);
        if (!range) { elem_set_int(t->elem, t->data, i, t->elem == EL_bool ? (int64_t)(u >> 63) : (int64_t)u); continue; }
        uint64_t v = (uint64_t)((unsigned __int128)u * range >> 64);
        int64_t  x = (int64_t)((uint64_t)(int64_t)lo + v);
        if (elem_is_float(t->elem)) elem_set(t->elem, t->data, i, (double)x);
        else elem_set_int(t->elem, t->data, i, x);
    }
}

void tensor_fill(HostTensor *t, const FillSpec *s)
{
    int64_t n = tensor_count(t);
    switch (s->make) {
    case MAKE_random:
        if (elem_is_float(t->elem)) random_floats(t, s, n);
        else random_ints(t, s, n);
        break;
    case MAKE_randint: random_ints(t, s, n); break;
    case MAKE_zeros:   memset(t->data, 0, tensor_bytes(t)); break;
    case MAKE_ones:    for (int64_t i = 0; i < n; i++) elem_set(t->elem, t->data, i, 1); break;
    case MAKE_full:    for (int64_t i = 0; i < n; i++) elem_set(t->elem, t->data, i, s->lo); break;
    case MAKE_iota:
        for (int64_t i = 0; i < n; i++) elem_set(t->elem, t->data, i, s->lo + (double)i * s->hi);
        break;
    case MAKE_values:  for (int64_t i = 0; i < n; i++) elem_set(t->elem, t->data, i, s->values[i]); break;
    }
}

// NaN in every f32, f16, bf16 and f8 alike: all bits set. Infinity: every 16-bit float is bf16's +inf, which
// as f32 is NaN and as f16 NaN; odd seeds use f16's.
void junk_fill(void *p, uint64_t bytes, DeviceFill fill, uint64_t seed)
{
    unsigned char *at = p;
    if (fill == FILL_ZERO || fill == FILL_NAN) { memset(p, fill == FILL_ZERO ? 0 : 0xff, bytes); return; }
    if (fill == FILL_INF) {
        unsigned char hi = seed & 1 ? 0x7c : 0x7f, lo = seed & 1 ? 0x00 : 0x80;
        for (uint64_t i = 0; i < bytes; i++) at[i] = i & 1 ? hi : lo;
        return;
    }
    for (uint64_t i = 0; i < bytes; i += 4) {
        uint32_t w = rng_bits(seed, 0x6a756e6b, i / 4);           // "junk"
        memcpy(at + i, &w, bytes - i < 4 ? bytes - i : 4);
    }
}
