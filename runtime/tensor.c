// Host tensors: memory, shapes in words, and elements as numbers.
//
// A tensor is C order without gaps. Every element type can be read as a double; integers of 64 bits
// also as they are. Storing follows the language: floats round once to nearest even, integers take
// truncated and saturated floats, NaN gives 0.

#include "lang/c_text.h"
#include "lang/limits.h"
#include "runtime/internal.h"

#include "lang/number.h"
#include "runtime/parallel.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

char *copy_text(const char *s, size_t n) {
    char *p = heap_alloc(n + 1);
    if (n) memcpy(p, s, n);
    return p;
}

double now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

void one_line(Buf *out, const char *text, size_t n) {
    while (n && c_isspace((unsigned char)text[n - 1])) n--;
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\n') { if (i + 1 < n && text[i + 1] != '\n') buf_puts(out, "; "); }
        else if (text[i] != '\r') buf_putc(out, text[i]);
    }
}

// ---- memory --------------------------------------------------------------------------------------

enum { SMALL_PAGE = 4096, LARGE_PAGE = 2 << 20, LARGE_TENSOR = 8 << 20 };

void host_huge(void *p, size_t n) {
    uintptr_t at = ((uintptr_t)p + LARGE_PAGE - 1) / LARGE_PAGE * LARGE_PAGE,
              end = ((uintptr_t)p + n) / LARGE_PAGE * LARGE_PAGE;
    if (end > at) madvise((void *)at, end - at, MADV_HUGEPAGE);
}

static void touch(void *p, int64_t from, int64_t to) {
    for (int64_t i = from; i < to; i += SMALL_PAGE) ((volatile char *)p)[i] = 0;
}

void host_touch(void *p, size_t n) { parallel((int64_t)n, LARGE_PAGE, touch, p); }

int64_t tensor_count(const HostTensor *t) {
    int64_t n = 1;
    for (int d = 0; d < t->rank; d++) n *= t->dim[d];
    return n;
}

size_t tensor_bytes(const HostTensor *t) {
    return (size_t)tensor_count(t) * (size_t)elem_bytes(t->elem);
}

// Elements of a shape, or -1 when a dimension is negative or the bytes would not fit in 48 bits.
static int64_t shape_count(int rank, const int64_t *dim, int bytes) {
    int64_t limit = (INT64_C(1) << 48) / (bytes ? bytes : 1), n = 1;
    bool    zero = false;
    for (int d = 0; d < rank; d++) {
        if (dim[d] < 0) return -1;
        if (dim[d] == 0) { zero = true; continue; }
        if (dim[d] > limit / n) return -1;               // even beside a zero: strides must fit
        n *= dim[d];
    }
    return zero ? 0 : n;
}

// More than the machine's memory would be promised, and the process ended where it is used.
static bool tensor_fits(const HostTensor *t, size_t bytes, Buf *err) {
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    bool holds = pages <= 0 || page <= 0 || bytes / (size_t)page <= (size_t)pages;
    if (holds && bytes <= (size_t)limit_of(LIMIT_tensor_bytes)) return true;
    tensor_type_text(t, err);
    if (!holds) buf_printf(err, " needs %.1f GiB of memory, which this machine does not have", (double)bytes / (1 << 30));
    else buf_puts(err, " has "), limit_words(LIMIT_tensor_bytes, (int64_t)bytes, err);
    return false;
}

bool tensor_make(HostTensor *t, Elem elem, int rank, const int64_t *dim, Buf *err) {
    HostTensor made = {.elem = elem, .rank = rank};
    if (rank < 0 || rank > MAX_RANK) {
        buf_printf(err, "a tensor has at most %d dimensions, not %d", MAX_RANK, rank);
        return false;
    }
    for (int d = 0; d < rank; d++) made.dim[d] = dim[d];
    int64_t n = shape_count(rank, dim, elem_bytes(elem));
    if (n < 0) {
        tensor_type_text(&made, err);
        buf_puts(err, " is no possible tensor: a dimension is negative or the size is beyond any memory");
        return false;
    }
    size_t bytes = (size_t)n * (size_t)elem_bytes(elem);
    if (!tensor_fits(&made, bytes, err)) return false;
    // much of it comes from the system as it is wanted: 0.4 ms a MB by pages of 4 kB
    made.data = heap_try_zeroed(1, bytes);
    if (made.data && bytes > LARGE_TENSOR) host_huge(made.data, bytes);
    if (!made.data) {
        tensor_type_text(&made, err);
        buf_printf(err, " needs %.1f GiB of memory, which this machine does not have", (double)bytes / (1 << 30));
        return false;
    }
    *t = made;
    return true;
}

bool tensor_copy(HostTensor *to, const HostTensor *from, Buf *err) {
    if (!tensor_make(to, from->elem, from->rank, from->dim, err)) return false;
    if (from->data) memcpy(to->data, from->data, tensor_bytes(from));
    return true;
}

void tensor_free(HostTensor *t) {
    heap_free(t->data);
    *t = (HostTensor){0};
}

// ---- shapes in words -----------------------------------------------------------------------------

void tensor_type_text(const HostTensor *t, Buf *out) {
    buf_printf(out, "%s[", elem_name(t->elem));
    for (int d = 0; d < t->rank; d++) buf_printf(out, "%s%lld", d ? ", " : "", (long long)t->dim[d]);
    buf_putc(out, ']');
}

static const char *skip_space(const char *p, const char *end) {
    while (p < end && c_isspace((unsigned char)*p)) p++;
    return p;
}

// A non-negative decimal number below 2^62; NULL when there is none.
static const char *read_size(const char *p, const char *end, int64_t *out) {
    int64_t v = 0;
    const char *start = p;
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        if (v > (INT64_C(1) << 58)) return NULL;
        v = v * 10 + (*p - '0');
    }
    *out = v;
    return p > start ? p : NULL;
}

bool tensor_type_parse(Str text, Elem *elem, int *rank, int64_t *dim, Buf *err) {
    const char *p = skip_space(text.p, text.p + text.n), *end = text.p + text.n, *name = p;
    while (p < end && (c_isalnum((unsigned char)*p) || *p == '_')) p++;
    *elem = elem_by_name((Str){name, (size_t)(p - name)});
    *rank = 0;
    if (*elem == EL_none || *elem == EL_index) {
        buf_printf(err, "`%.*s` is no element type (f32, bf16, i32, ...)", (int)(p - name), name);
        return false;
    }
    p = skip_space(p, end);
    if (p == end) return true;
    if (*p++ != '[') goto bad;
    p = skip_space(p, end);
    if (p < end && *p == ']') return skip_space(p + 1, end) == end ? true : (buf_puts(err, "words after `]`"), false);
    for (;;) {
        if (*rank == MAX_RANK) { buf_printf(err, "a tensor has at most %d dimensions", MAX_RANK); return false; }
        p = read_size(skip_space(p, end), end, &dim[*rank]);
        if (!p) goto bad;
        ++*rank;
        p = skip_space(p, end);
        if (p < end && *p == ',') { p++; continue; }
        if (p < end && *p == ']' && skip_space(p + 1, end) == end) return true;
        goto bad;
    }
bad:
    buf_printf(err, "`%.*s` is no tensor type: write it like f32[37,1000]", (int)text.n, text.p);
    return false;
}

// ---- elements ------------------------------------------------------------------------------------
// Data may stand at any address in a file, so elements are copied, never dereferenced in place.

double elem_get(Elem e, const void *data, int64_t i) {
    const unsigned char *p = (const unsigned char *)data + i * elem_bytes(e);
    uint16_t h; float f; double d; uint64_t u;
    switch (e) {
    case EL_f8e4m3: return (double)e4m3_to_f32(*p);
    case EL_f8e5m2: return (double)e5m2_to_f32(*p);
    case EL_f16:    memcpy(&h, p, 2); return (double)f16_to_f32(h);
    case EL_bf16:   memcpy(&h, p, 2); return (double)bf16_to_f32(h);
    case EL_f32:    memcpy(&f, p, 4); return (double)f;
    case EL_f64:    memcpy(&d, p, 8); return d;
    case EL_u64:    memcpy(&u, p, 8); return (double)u;
    default:        return (double)elem_get_int(e, data, i);
    }
}

Number elem_get_number(Elem e, const void *data, int64_t i) {
    if (elem_is_float(e)) return number_double(elem_get(e, data, i));
    int64_t v = elem_get_int(e, data, i);
    return e == EL_u64 ? number_u64((uint64_t)v) : number_int(v);
}

int64_t elem_get_int(Elem e, const void *data, int64_t i) {
    const unsigned char *p = (const unsigned char *)data + i * elem_bytes(e);
    uint16_t h; uint32_t w; uint64_t u;
    switch (e) {
    case EL_bool:   return *p != 0;
    case EL_i8:     return (int8_t)*p;
    case EL_u8:     return *p;
    case EL_i16:    memcpy(&h, p, 2); return (int16_t)h;
    case EL_u16:    memcpy(&h, p, 2); return h;
    case EL_i32:    memcpy(&w, p, 4); return (int32_t)w;
    case EL_u32:    memcpy(&w, p, 4); return w;
    case EL_i64: case EL_u64: case EL_index: memcpy(&u, p, 8); return (int64_t)u;
    default:        return f64_to_int_sat(elem_get(e, data, i), 64, true);
    }
}

void elem_set(Elem e, void *data, int64_t i, double v) {
    unsigned char *p = (unsigned char *)data + i * elem_bytes(e);
    uint16_t h; float f;
    switch (e) {
    case EL_f8e4m3: *p = e4m3_from_f64(v); break;
    case EL_f8e5m2: *p = e5m2_from_f64(v); break;
    case EL_f16:    h = f16_from_f64(v);  memcpy(p, &h, 2); break;
    case EL_bf16:   h = bf16_from_f64(v); memcpy(p, &h, 2); break;
    case EL_f32:    f = (float)v; memcpy(p, &f, 4); break;
    case EL_f64:    memcpy(p, &v, 8); break;
    case EL_bool:   *p = v != 0; break;
    default:        elem_set_int(e, data, i, f64_to_int_sat(v, elem_bits(e), elem_is_signed(e))); break;
    }
}

void elem_set_number(Elem e, void *data, int64_t i, Number x) {
    bool beyond = e == EL_i64 ? x.f >= 0x1p63 && x.i < 0 : x.f < 0;
    if ((e == EL_i64 || e == EL_u64) && number_whole(x) && !beyond) elem_set_int(e, data, i, x.i);
    else elem_set(e, data, i, x.f);
}

void elem_set_int(Elem e, void *data, int64_t i, int64_t v) {
    unsigned char *p = (unsigned char *)data + i * elem_bytes(e);
    uint64_t u = (uint64_t)v;
    uint16_t h = (uint16_t)u;
    uint32_t w = (uint32_t)u;
    if (e == EL_bool)           *p = v != 0;
    else if (elem_is_float(e))  elem_set(e, data, i, (double)v);
    else if (elem_bits(e) == 8) *p = (unsigned char)u;
    else if (elem_bits(e) == 16) memcpy(p, &h, 2);
    else if (elem_bits(e) == 32) memcpy(p, &w, 4);
    else                        memcpy(p, &u, 8);
}
