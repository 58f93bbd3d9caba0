// Numbers for weights whose file is not there (--random-weights).
//
// A ring of some 4 MB of random numbers is mapped again and again behind itself, and a weight is a stretch of that which
// begins where its name says: each weight has an address and numbers of its own, the same in each run and on each device,
// and a model of any size costs the memory of a few rings and no time. What runs on a GPU is copied there, weight by
// weight, so that it has as many bytes to read as the real model; whoever copies reads the first rings over and over, whose
// pages are there (random_period).
//
//     address   |------ ring ------|------ ring ------|------ ring ------|
//     weights        [----- wq -----]
//                              [------------- wte -------------]
//
// The numbers are normal, of deviation 1 / sqrt(what is summed over), so that values neither die out nor grow along the
// layers; vectors (norms, biases, statistics) are near 1. Integers are 0.
#define _GNU_SOURCE // memfd_create
#include "graph/onnx/internal.h"
#include "graph/graph.h"
#include "lang/file.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGES = 1021, LEAST_SHIFT = -1 };       // a prime: rows of weights do not repeat; shift -1: near 1

// Of four numbers, each uniform over -0.5 .. 0.5: deviation sqrt(1 / 3). Each element's come from a hash of its place.
static float sum_of_four(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    x ^= x >> 31;
    return (float)((int)((x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48)) - 131070) * 0x1p-16f;
}

static void fill(char *p, size_t bytes, Elem e, int shift) {
    if (!elem_is_float(e)) return;
    size_t wide = (size_t)elem_bytes(e);
    uint64_t x = 0x9e3779b97f4a7c15u * (uint64_t)(shift + 2);
    float scale = 1.732f * (shift < 0 ? 0.02f : ldexpf(1, -shift)), middle = shift < 0;
    for (size_t at = 0; at < bytes; at += wide) {
        float v = middle + scale * sum_of_four(x += 0x9e3779b97f4a7c15u);
        if (e == EL_f32) memcpy(p + at, &v, sizeof v);
        else g_num_store(p + at, e, g_float((double)v));
    }
}

size_t random_period(void) { return PAGES * (size_t)sysconf(_SC_PAGESIZE); }

static bool ring_map(RandomRing *r, size_t period) {
    r->p = mmap(NULL, r->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (r->p == MAP_FAILED) return false;
    for (size_t at = 0; at < r->bytes; at += period) {
        void *p = mmap((char *)r->p + at, period, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, r->fd, 0);
        if (p == MAP_FAILED) return munmap(r->p, r->bytes), false;
    }
    file_hold_map(r->p, r->bytes);
    return true;
}

// A larger weight maps the same numbers once more: what points into the ring stays.
static const RandomRing *ring(OnnxModel *m, Elem e, int shift, size_t bytes, Buf *err) {
    size_t period = random_period();
    RandomRing r = {.elem = e, .shift = shift, .fd = -1, .bytes = (bytes / period + 2) * period};
    for (uint32_t i = 0; i < m->random.n; i++) {
        const RandomRing *have = &m->random.at[i];
        if (have->elem != e || have->shift != shift) continue;
        if (have->bytes >= bytes + period) return have;
        r.fd = have->fd;
    }
    bool first = r.fd < 0;
    if (first) r.fd = memfd_create("weights", MFD_CLOEXEC);
    if (first && r.fd >= 0) file_hold(r.fd);
    bool ok = r.fd >= 0 && (!first || ftruncate(r.fd, (off_t)period) == 0) && ring_map(&r, period);
    if (!ok) {
        buf_printf(err, "no room for %zu bytes of random weights: %s", bytes, strerror(errno));
        if (first) file_close(r.fd);
        return NULL;
    }
    if (first) fill(r.p, period, e, shift);
    vec_push(m->arena, &m->random, r);
    return &m->random.at[m->random.n - 1];
}

// How many products a result of the weight sums, as far as its shape tells: [K, N] or [N, K]; of convolutions [N, C, R, S].
static double summed(const OnnxTensor *t) {
    if (t->rank == 2) return (double)(t->dim[0] < t->dim[1] ? t->dim[0] : t->dim[1]);
    return t->dim[0] > 0 ? (double)t->count / (double)t->dim[0] : 1;
}

const void *random_weight(OnnxModel *m, const OnnxTensor *t, Buf *err) {
    size_t wide = (size_t)elem_bytes(t->elem), period = random_period();
    int shift = t->rank < 2 ? LEAST_SHIFT : (int)lround(log2(fmax(1, summed(t))) / 2);
    uint64_t start = 0xcbf29ce484222325u;
    if (t->count == 0) return "";
    const RandomRing *r = ring(m, t->elem, elem_is_float(t->elem) ? shift : 0, (size_t)t->count * wide, err);
    for (const char *s = t->name; *s != '\0'; s++) start = (start ^ (unsigned char)*s) * 0x100000001b3u;
    return r != NULL ? (const char *)r->p + start % (period / 64) * 64 : NULL;
}

void random_free(OnnxModel *m) {
    for (uint32_t i = 0; i < m->random.n; i++) {
        const RandomRing *r = &m->random.at[i];
        bool first = true;
        for (uint32_t k = 0; k < i; k++) first = first && m->random.at[k].fd != r->fd;
        file_unmap_plain(r->p, r->bytes);
        if (first) file_close(r->fd);
    }
}
