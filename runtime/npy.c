// .npy files, versions 1, 2 and 3.
//
//     93 'N' 'U' 'M' 'P' 'Y'  major minor  length (2 bytes in version 1, else 4)
//     {'descr': '<f4', 'fortran_order': False, 'shape': (37, 1000), }   padded with spaces, ends in \n
//     data
//
// The header is a Python literal. We read the subset that numpy writes: a dictionary of those three
// keys, in any order. Everything is checked against the file's own size before memory is asked for,
// so a hostile header costs nothing. Big endian data are swapped, Fortran order is turned into C order.
//
// NumPy has no bf16 and no f8: their bits are stored as '<u2' and '|u1'. Other writers leave them as
// void ('|V2', '|V1'), which is read as the same.

#include "lang/file.h"
#include "runtime/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// clang-format off
static const struct { const char *code; Elem elem; const char *written; } descrs[] = {
    {"b1", EL_bool, "|b1"}, {"i1", EL_i8,  "|i1"}, {"u1", EL_u8,  "|u1"},
    {"i2", EL_i16,  "<i2"}, {"u2", EL_u16, "<u2"}, {"i4", EL_i32, "<i4"}, {"u4", EL_u32, "<u4"},
    {"i8", EL_i64,  "<i8"}, {"u8", EL_u64, "<u8"}, {"f2", EL_f16, "<f2"}, {"f4", EL_f32, "<f4"}, {"f8", EL_f64, "<f8"},
    {"V2", EL_u16,  "<u2"}, {"V1", EL_u8,  "|u1"}, {"f1", EL_u8,  "|u1"},
    {"",   EL_bf16, "<u2"}, {"",   EL_f8e4m3, "|u1"}, {"", EL_f8e5m2, "|u1"}, {"", EL_index, "<i8"},
};
// clang-format on
enum { DESCRS = sizeof descrs / sizeof *descrs, MAX_HEADER = 1 << 20 };

typedef struct Reader { const char *p, *end; } Reader;

static void space(Reader *r) {
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\t' || *r->p == '\r')) r->p++;
}

static bool take(Reader *r, const char *word) {
    space(r);
    size_t n = strlen(word);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, word, n) != 0) return false;
    r->p += n;
    return true;
}

static bool quoted(Reader *r, Str *out) {
    space(r);
    if (r->p == r->end || (*r->p != '\'' && *r->p != '"')) return false;
    char q = *r->p++;
    const char *start = r->p;
    while (r->p < r->end && *r->p != q && *r->p != '\\') r->p++;
    if (r->p == r->end || *r->p != q) return false;
    *out = (Str){start, (size_t)(r->p++ - start)};
    return true;
}

typedef struct Header { Elem elem; bool swap, fortran; int rank; int64_t dim[MAX_RANK]; bool seen[3]; } Header;

static bool read_descr(Reader *r, Header *h, Buf *err) {
    Str d;
    space(r);
    if (r->p < r->end && *r->p == '[') { buf_puts(err, "holds records (a structured type), not numbers"); return false; }
    if (!quoted(r, &d)) { buf_puts(err, "bad header: 'descr' is no string"); return false; }
    char order = d.n && strchr("<>|=", d.p[0]) ? d.p[0] : '=';
    size_t skip = d.n && strchr("<>|=", d.p[0]) ? 1 : 0;
    for (int i = 0; i < DESCRS; i++) {
        size_t n = strlen(descrs[i].code);
        if (!n || n != d.n - skip || memcmp(descrs[i].code, d.p + skip, n) != 0) continue;
        h->elem = descrs[i].elem;
        h->swap = order == '>' && elem_bytes(h->elem) > 1;
        return true;
    }
    buf_printf(err, "holds elements '%.*s', which no element type of ours is", (int)(d.n < 40 ? d.n : 40), d.p);
    return false;
}

static bool read_shape(Reader *r, Header *h, Buf *err) {
    if (!take(r, "(")) { buf_puts(err, "bad header: 'shape' is no tuple"); return false; }
    while (!take(r, ")")) {
        space(r);
        int64_t v = 0;
        const char *start = r->p;
        for (; r->p < r->end && *r->p >= '0' && *r->p <= '9'; r->p++) {
            if (v > INT64_MAX / 16) { buf_puts(err, "bad header: a dimension beyond 2^59"); return false; }
            v = v * 10 + (*r->p - '0');
        }
        if (r->p == start) { buf_puts(err, "bad header: 'shape' holds something that is no size"); return false; }
        if (r->p < r->end && *r->p == 'L') r->p++;                 // Python 2 wrote 3L
        if (h->rank == MAX_RANK) { buf_printf(err, "has more than %d dimensions", MAX_RANK); return false; }
        h->dim[h->rank++] = v;
        if (take(r, ",")) continue;
        if (take(r, ")")) break;
        buf_puts(err, "bad header: 'shape' does not end");
        return false;
    }
    return true;
}

static bool read_dict(Reader *r, Header *h, Buf *err) {
    static const char *const keys[] = {"descr", "fortran_order", "shape"};
    if (!take(r, "{")) { buf_puts(err, "bad header: no dictionary"); return false; }
    while (!take(r, "}")) {
        Str key;
        int k = 0;
        if (!quoted(r, &key) || !take(r, ":")) { buf_puts(err, "bad header: not what NumPy writes"); return false; }
        while (k < 3 && (strlen(keys[k]) != key.n || memcmp(keys[k], key.p, key.n) != 0)) k++;
        if (k == 3 || h->seen[k]) {
            buf_printf(err, "bad header: %s key '%.*s'", k == 3 ? "unknown" : "repeated",
                       (int)(key.n < 40 ? key.n : 40), key.p);
            return false;
        }
        h->seen[k] = true;
        if (k == 0 && !read_descr(r, h, err)) return false;
        if (k == 1 && !(h->fortran = take(r, "True")) && !take(r, "False")) {
            buf_puts(err, "bad header: 'fortran_order' is neither True nor False");
            return false;
        }
        if (k == 2 && !read_shape(r, h, err)) return false;
        if (!take(r, ",") && !(take(r, "}") && (r->p--, true))) {
            buf_puts(err, "bad header: a `,` is missing");
            return false;
        }
    }
    for (int k = 0; k < 3; k++)
        if (!h->seen[k]) { buf_printf(err, "bad header: no '%s'", keys[k]); return false; }
    return true;
}

static void swap_bytes(unsigned char *p, int64_t n, int size) {
    for (; n > 0; n--, p += size)
        for (int i = 0; i < size / 2; i++) { unsigned char t = p[i]; p[i] = p[size - 1 - i]; p[size - 1 - i] = t; }
}

// From first-dimension-fastest to last-dimension-fastest: walks the destination in order.
static void from_fortran(unsigned char *to, const unsigned char *from, const Header *h, int size, int64_t n) {
    int64_t stride[MAX_RANK], at[MAX_RANK] = {0}, step = 1, src = 0;
    for (int d = 0; d < h->rank; d++) { stride[d] = step; step *= h->dim[d]; }
    for (int64_t i = 0; i < n; i++) {
        memcpy(to + i * size, from + src * size, (size_t)size);
        for (int d = h->rank - 1; d >= 0; d--) {
            src += stride[d];
            if (++at[d] < h->dim[d]) break;
            src -= stride[d] * h->dim[d];
            at[d] = 0;
        }
    }
}

// The header, and where the data begin; that all of them are there.
static bool read_head(const unsigned char *b, size_t n, Header *h, size_t *data, Buf *err) {
    if (n < 10 || memcmp(b, "\x93NUMPY", 6) != 0) {
        buf_puts(err, n > 4 && memcmp(b, "PK\3\4", 4) == 0 ? "is an archive of arrays (.npz): save the one that is meant as .npy" : "is no .npy file");
        return false;
    }
    if (b[6] < 1 || b[6] > 3) { buf_printf(err, "is .npy version %d.%d; 1 to 3 can be read", b[6], b[7]); return false; }
    size_t start = b[6] == 1 ? 10 : 12;
    size_t length = n < start ? 0 : b[6] == 1 ? (size_t)b[8] | (size_t)b[9] << 8
                                  : (size_t)b[8] | (size_t)b[9] << 8 | (size_t)b[10] << 16 | (size_t)b[11] << 24;
    if (n < start || length > n - start) { buf_puts(err, "is cut off inside its header"); return false; }
    if (length > MAX_HEADER) {
        buf_printf(err, "has a header of %zu bytes; at most %d can be right", length, MAX_HEADER);
        return false;
    }
    Reader r = {(const char *)b + start, (const char *)b + start + length};
    if (!read_dict(&r, h, err)) return false;
    space(&r);
    if (r.p != r.end) { buf_puts(err, "bad header: words after the dictionary"); return false; }

    size_t have = n - start - length, need = (size_t)elem_bytes(h->elem);
    bool   zero = false;
    for (int d = 0; d < h->rank; d++) {
        if (h->dim[d] == 0) zero = true;
        else if (need > have / (uint64_t)h->dim[d] + 1) need = SIZE_MAX / 2;    // already beyond what is there
        else need *= (size_t)h->dim[d];
    }
    *data = start + length;
    if (zero || need <= have) return true;
    HostTensor t = {.elem = h->elem, .rank = h->rank};
    memcpy(t.dim, h->dim, sizeof t.dim);
    buf_puts(err, "is cut off: ");
    tensor_type_text(&t, err);
    buf_printf(err, " does not fit in the %zu bytes of data that are there", have);
    return false;
}

bool npy_look(const void *bytes, size_t n, HostTensor *shape, const void **data, Buf *err) {
    Header h = {0};
    size_t start;
    if (!read_head(bytes, n, &h, &start, err)) return false;
    *shape = (HostTensor){.elem = h.elem, .rank = h.rank};
    memcpy(shape->dim, h.dim, sizeof shape->dim);
    *data = (h.fortran && h.rank > 1) || h.swap || h.elem == EL_bool ? NULL : (const char *)bytes + start;
    return true;
}

bool npy_parse(const void *bytes, size_t n, HostTensor *out, Buf *err) {
    const unsigned char *b = bytes;
    Header h = {0};
    size_t start;
    if (!read_head(b, n, &h, &start, err) || !tensor_make(out, h.elem, h.rank, h.dim, err)) return false;
    int64_t count = tensor_count(out);
    size_t  size = (size_t)elem_bytes(h.elem);
    if (h.fortran && h.rank > 1) from_fortran(out->data, b + start, &h, (int)size, count);
    else if (count) memcpy(out->data, b + start, (size_t)count * size);
    if (h.swap) swap_bytes(out->data, count, (int)size);
    if (h.elem == EL_bool)
        for (int64_t i = 0; i < count; i++) ((unsigned char *)out->data)[i] = ((unsigned char *)out->data)[i] != 0;
    return true;
}

bool npy_read(const char *path, HostTensor *out, Buf *err) {
    const void *p;
    const char *words;
    size_t n;
    if (!file_map_plain(path, &p, &n, &words)) {
        buf_printf(err, "%s: %s", path, words);
        if (errno == ENOENT && !text_ends(path, ".npy")) buf_puts(err, " (a tensor is FILE.npy, or made: random:f32[37,1000])");
        return false;
    }
    Buf  why = {0};
    bool ok = npy_parse(p, n, out, &why);
    if (!ok) buf_printf(err, "%s: %s", path, why.p);
    buf_free(&why);
    file_unmap_plain(p, n);
    return ok;
}

bool npy_named(const char *path, Buf *err) {
    bool ok = text_ends(path, ".npy");
    if (!ok) buf_printf(err, "%s: a tensor is saved as FILE.npy", path);
    return ok;
}

bool npy_write(const char *path, const HostTensor *t, Buf *err) {
    Buf head = {0};
    const char *descr = NULL;
    for (int i = 0; i < DESCRS && !descr; i++)
        if (descrs[i].elem == t->elem) descr = descrs[i].written;
    buf_printf(&head, "{'descr': '%s', 'fortran_order': False, 'shape': (", descr);
    for (int d = 0; d < t->rank; d++) buf_printf(&head, "%s%lld", d ? ", " : "", (long long)t->dim[d]);
    buf_puts(&head, t->rank == 1 ? ",), }" : "), }");
    while ((10 + head.n + 1) % 64) buf_putc(&head, ' ');
    buf_putc(&head, '\n');

    unsigned char start[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (unsigned char)head.n, (unsigned char)(head.n >> 8)};
    FilePart part[3] = {{start, sizeof start}, {head.p, head.n}, {t->data, tensor_bytes(t)}};
    bool ok = file_replace(path, part, 3);
    if (!ok) buf_printf(err, "%s: cannot be written: %s", path, strerror(errno));
    buf_free(&head);
    return ok;
}

bool tensor_reinterpret(HostTensor *t, Elem elem) {
    if (t->elem == elem) return true;
    bool fits = t->elem == EL_u16 ? elem == EL_bf16
              : t->elem == EL_u8  ? elem == EL_f8e4m3 || elem == EL_f8e5m2
              : t->elem == EL_i64 && elem == EL_index;
    if (fits) t->elem = elem;
    return fits;
}
