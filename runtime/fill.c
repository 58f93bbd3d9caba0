// Data for arguments: random, constants, counting. And junk, which is data that no result may depend on.
//
// What an element is depends on its number alone, so a tensor is made by as many threads as there are, some elements at
// a time.

#include "runtime/internal.h"
#include "runtime/parallel.h"

#include <math.h>
#include <string.h>

enum { AT_ONCE = 256, GRAIN = 1 << 15 };

static void random_floats(Elem e, void *out, int64_t first, int n, const FillSpec *s) {
    double   v[AT_ONCE];
    uint32_t w[AT_ONCE];
    double   lo = s->lo.f, hi = s->hi.f;
    bool     normal = lo == hi;
    if (normal) rng_normals(s->seed, s->stream, (uint64_t)first, n, v);
    else rng_words(s->seed, s->stream, (uint64_t)first, n, w);
    for (int i = 0; i < n; i++) {
        elem_set(e, out, i, normal ? v[i] : lo + (double)w[i] * 0x1p-32 * (hi - lo));
        if (!normal && elem_get(e, out, i) >= hi) elem_set(e, out, i, lo);         // rounded up to hi
    }
}

// Integers in [lo, hi); all values of the type when the range is empty. Multiply-high maps the words on
// the range, with a bias of at most range / 2^64.
static void random_ints(Elem e, void *out, int64_t first, int n, const FillSpec *s) {
    Number lo = number_whole(s->lo) ? s->lo : number_double(ceil(s->lo.f)),
           hi = number_whole(s->hi) ? s->hi : number_double(ceil(s->hi.f));
    bool     exact = number_whole(lo) && number_whole(hi);
    uint64_t range = !(hi.f > lo.f || (hi.f == lo.f && hi.i > lo.i)) ? 0
                     : exact ? (uint64_t)hi.i - (uint64_t)lo.i
                             : (uint64_t)fmin(hi.f - lo.f, 0x1.fffffffffffffp63);
    uint32_t w[2 * AT_ONCE];
    rng_words(s->seed, s->stream, 2 * (uint64_t)first, 2 * n, w);
    for (int i = 0; i < n; i++) {
        uint64_t u = (uint64_t)w[2 * i] << 32 | w[2 * i + 1];
        if (!range) { elem_set_int(e, out, i, e == EL_bool ? (int64_t)(u >> 63) : (int64_t)u); continue; }
        uint64_t v = (uint64_t)((unsigned __int128)u * range >> 64);
        int64_t  x = (int64_t)((uint64_t)lo.i + v);
        if (elem_is_float(e)) elem_set(e, out, i, (double)x);
        else elem_set_int(e, out, i, x);
    }
}

static Number counted(const FillSpec *s, int64_t k) {
    double f = s->lo.f + (double)k * s->hi.f;
    if (!number_whole(s->lo) || !number_whole(s->hi)) return number_double(f);
    return (Number){f, (int64_t)((uint64_t)s->lo.i + (uint64_t)k * (uint64_t)s->hi.i)};
}

static void numbers(Elem e, void *out, int64_t first, int n, const FillSpec *s) {
    for (int i = 0; i < n; i++)
        elem_set_number(e, out, i, s->make == MAKE_ones ? number_int(1) : s->make == MAKE_full ? s->lo
                                 : s->make == MAKE_iota ? counted(s, first + i) : s->values[first + i]);
}

void elems_fill(Elem e, void *out, int64_t first, int64_t n, const FillSpec *s) {
    bool random = s->make == MAKE_random || s->make == MAKE_randint;
    if (s->make == MAKE_zeros) { memset(out, 0, (size_t)n * (size_t)elem_bytes(e)); return; }
    for (int64_t at = 0; at < n; at += AT_ONCE) {
        int   k = n - at < AT_ONCE ? (int)(n - at) : AT_ONCE;
        void *to = (char *)out + at * elem_bytes(e);
        if (!random) numbers(e, to, first + at, k, s);
        else if (s->make == MAKE_random && elem_is_float(e)) random_floats(e, to, first + at, k, s);
        else random_ints(e, to, first + at, k, s);
    }
}

typedef struct Filling { HostTensor *t; const FillSpec *s; } Filling;

static void fill_piece(void *ctx, int64_t from, int64_t to) {
    const Filling *f = ctx;
    elems_fill(f->t->elem, (char *)f->t->data + from * elem_bytes(f->t->elem), from, to - from, f->s);
}

void tensor_fill(HostTensor *t, const FillSpec *s) {
    Filling f = {t, s};
    parallel(tensor_count(t), GRAIN, fill_piece, &f);
}

// NaN in every f32, f16, bf16 and f8 alike: all bits set. Infinity: every 16-bit float is bf16's +inf, which
// as f32 is NaN and as f16 NaN; odd seeds use f16's.
void junk_fill(void *p, uint64_t bytes, DeviceFill fill, uint64_t seed) {
    unsigned char *at = p;
    if (fill == FILL_ZERO || fill == FILL_NAN) { memset(p, fill == FILL_ZERO ? 0 : 0xff, bytes); return; }
    if (fill == FILL_INF) {
        unsigned char hi = seed & 1 ? 0x7c : 0x7f, lo = seed & 1 ? 0x00 : 0x80;
        for (uint64_t i = 0; i < bytes; i++) at[i] = i & 1 ? hi : lo;
        return;
    }
    uint32_t w[AT_ONCE];
    for (uint64_t i = 0; i < bytes; i += sizeof w) {
        rng_words(seed, 0x6a756e6b, i / 4, AT_ONCE, w);           // "junk"
        memcpy(at + i, w, bytes - i < sizeof w ? bytes - i : sizeof w);
    }
}
