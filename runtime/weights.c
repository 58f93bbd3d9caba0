// Files of weights. A kind of file is a row: how to open it, how to find a weight, what its names are.
//
// An .npz is a zip whose members are .npy files. NumPy stores them as they are (savez), so a weight is used where
// it lies in the mapped file; members that are compressed (savez_compressed) are unpacked when they are first asked for.

#include "runtime/weights.h"

#include "graph/onnx/onnx.h"
#include "lang/file.h"
#include "runtime/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

// mapped: a file of its own, or what was unpacked; full, crc: of that
typedef struct Member { char *name; uint64_t at, bytes, full; int method; uint32_t crc; unsigned char *mapped; size_t size; } Member;

typedef struct WeightKind {
    const char *name;
    bool (*open)(WeightFile *f, Buf *err);
    int  (*find)(WeightFile *f, Str name, WeightWant want, Weight *out, Buf *err);
} WeightKind;

struct WeightFile {
    const WeightKind *kind;
    char    *path;
    unsigned char *bytes;               // mapped
    size_t   size;
    OnnxModel *onnx;
    bool     borrowed;                  // .. from whoever opened it
    Member  *member;                    // .npz: by name; a folder: names alone
    int      nmembers;
};

static bool map_file(const char *path, unsigned char **bytes, size_t *size, Buf *err) {
    const void *p;
    const char *why;
    if (!file_map_plain(path, &p, size, &why)) return buf_printf(err, "%s: %s", path, why), false;
    *bytes = (unsigned char *)(uintptr_t)p;
    return true;
}

static Member *add_member(WeightFile *f, const char *name, size_t n, uint64_t at, uint64_t bytes, int method) {
    if ((f->nmembers & (f->nmembers - 1)) == 0)
        f->member = heap_resize(f->member, sizeof *f->member * (size_t)(f->nmembers ? f->nmembers * 2 : 1));
    f->member[f->nmembers] = (Member){.name = copy_text(name, n), .at = at, .bytes = bytes, .method = method};
    return &f->member[f->nmembers++];
}

static Member *member_named(const WeightFile *f, Str name) {
    for (int i = 0; i < f->nmembers; i++)
        if (strlen(f->member[i].name) == name.n && memcmp(f->member[i].name, name.p, name.n) == 0) return &f->member[i];
    return NULL;
}

static void take_shape(const HostTensor *t, Weight *out) {
    out->elem = t->elem;
    out->rank = t->rank;
    memcpy(out->dim, t->dim, sizeof out->dim);
}

// ---- .npz ----------------------------------------------------------------------------------------

static uint64_t le(const unsigned char *p, int n) {
    uint64_t v = 0;
    for (int i = n - 1; i >= 0; i--) v = v << 8 | p[i];
    return v;
}

enum { STORED = 0, DEFLATED = 8 };
enum { END = 0x06054b50, END64 = 0x06064b50, LOCATOR64 = 0x07064b50, ENTRY = 0x02014b50, LOCAL = 0x04034b50 };

// Where the list of members is, and how many there are.
static bool zip_end(const WeightFile *f, uint64_t *at, uint64_t *n) {
    const unsigned char *b = f->bytes;
    if (f->size < 22) return false;
    for (size_t i = f->size - 22, stop = f->size > 65557 ? f->size - 65557 : 0; ; i--) {
        if (le(b + i, 4) == END) {
            *n = le(b + i + 10, 2);
            *at = le(b + i + 16, 4);
            if (i >= 20 && le(b + i - 20, 4) == LOCATOR64) {
                uint64_t far = le(b + i - 12, 8);
                if (f->size < 56 || far > f->size - 56 || le(b + far, 4) != END64) return false;
                *n = le(b + far + 32, 8);
                *at = le(b + far + 48, 8);
            }
            return *at <= f->size;
        }
        if (i == stop) return false;
    }
}

// Sizes that did not fit 32 bits stand in a field of their own.
static void zip_large(const unsigned char *extra, size_t n, uint64_t *full, uint64_t *packed, uint64_t *at) {
    for (size_t i = 0; i + 4 <= n;) {
        size_t size = le(extra + i + 2, 2);
        const unsigned char *p = extra + i + 4, *end = extra + (i + 4 + size < n ? i + 4 + size : n);
        uint64_t *const fields[] = {full, packed, at};
        for (int k = 0; k < 3 && le(extra + i, 2) == 1; k++) {
            if (*fields[k] != UINT32_MAX || end - p < 8) continue;
            *fields[k] = le(p, 8);
            p += 8;
        }
        i += 4 + size;
    }
}

static bool npz_open(WeightFile *f, Buf *err) {
    uint64_t at, count;
    if (!map_file(f->path, &f->bytes, &f->size, err)) return false;
    if (!zip_end(f, &at, &count)) { buf_printf(err, "%s: is no .npz file, or cut off", f->path); return false; }
    const unsigned char *b = f->bytes;
    for (uint64_t i = 0; i < count; i++) {
        if (at > f->size || f->size - at < 46 || le(b + at, 4) != ENTRY) {
            buf_printf(err, "%s: its list of members is damaged", f->path);
            return false;
        }
        size_t name = le(b + at + 28, 2), extra = le(b + at + 30, 2), words = le(b + at + 32, 2);
        uint64_t packed = le(b + at + 20, 4), full = le(b + at + 24, 4), local = le(b + at + 42, 4);
        if (f->size - at - 46 < name + extra) {
            buf_printf(err, "%s: its list of members is damaged", f->path);
            return false;
        }
        zip_large(b + at + 46 + name, extra, &full, &packed, &local);
        const char *text = (const char *)b + at + 46;
        size_t n = name > 4 && memcmp(text + name - 4, ".npy", 4) == 0 ? name - 4 : name;
        if (local > f->size || f->size - local < 30 || le(b + local, 4) != LOCAL) {
            buf_printf(err, "%s: member `%.*s` is not where it should be", f->path, (int)n, text);
            return false;
        }
        uint64_t data = local + 30 + le(b + local + 26, 2) + le(b + local + 28, 2);
        if (data > f->size || packed > f->size - data) {
            buf_printf(err, "%s: member `%.*s` is cut off", f->path, (int)n, text);
            return false;
        }
        Member *m = add_member(f, text, n, data, packed, (int)le(b + at + 10, 2));
        m->full = full;
        m->crc = (uint32_t)le(b + at + 16, 4);
        at += 46 + name + extra + words;
    }
    return true;
}

// An .npy file in memory, used where it lies if it can be.
static bool npy_in_memory(const void *bytes, size_t n, WeightWant want, Weight *out, Buf *why) {
    HostTensor shape;
    bool fine = npy_look(bytes, n, &shape, &out->data, why);
    if (fine) take_shape(&shape, out);
    if (fine && want != WEIGHT_shape && !out->data) {
        fine = npy_parse(bytes, n, &out->own, why);
        out->data = out->own.data;
    }
    return fine;
}

// All of it: so many bytes, and no others. no_memory: why not.
static bool inflated(const unsigned char *from, uint64_t n, unsigned char *to, uint64_t full, bool *no_memory) {
    z_stream z = {0};
    uint32_t most = UINT32_MAX & ~4095u;
    int status = Z_OK;
    *no_memory = inflateInit2(&z, -MAX_WBITS) == Z_MEM_ERROR;
    if (*no_memory) return false;
    z.next_in = (unsigned char *)(uintptr_t)from;
    z.next_out = to;
    while (status == Z_OK && (n || full)) {
        uint32_t in = n < most ? (uint32_t)n : most, room = full < most ? (uint32_t)full : most;
        z.avail_in = in, z.avail_out = room;
        status = inflate(&z, Z_NO_FLUSH);
        n -= in - z.avail_in, full -= room - z.avail_out;
        if (z.avail_in == in && z.avail_out == room) break;
    }
    inflateEnd(&z);
    *no_memory = status == Z_MEM_ERROR;
    return status == Z_STREAM_END && n == 0 && full == 0;
}

static uint32_t crc_of(const unsigned char *p, uint64_t n) {
    uLong crc = crc32(0, NULL, 0);
    for (uint64_t most = 1 << 30, k; n; p += k, n -= k) crc = crc32(crc, p, (uInt)(k = n < most ? n : most));
    return (uint32_t)crc;
}

static bool unpack(const WeightFile *f, Member *m, Buf *why) {
    enum { DENSEST = 1040 };                             // deflate makes no more bytes of one
    if (m->method != DEFLATED) {
        buf_printf(why, "is compressed by method %d: those of numpy.savez and savez_compressed are read", m->method);
        return false;
    }
    bool fine = m->full > 0 && m->full / DENSEST <= m->bytes;
    void *p = fine ? mmap(NULL, m->full, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (p != MAP_FAILED) file_hold_map(p, m->full);
    if (fine && p == MAP_FAILED) {
        buf_printf(why, "takes %llu bytes: %s", (unsigned long long)m->full, strerror(errno));
        return false;
    }
    bool no_memory = false;
    fine = fine && inflated(f->bytes + m->at, m->bytes, p, m->full, &no_memory) && crc_of(p, m->full) == m->crc;
    if (fine) m->mapped = p, m->size = m->full;
    else if (p != MAP_FAILED) file_unmap_plain(p, m->full);
    if (!fine) buf_puts(why, no_memory ? "cannot be unpacked: memory is out" : "is damaged: it cannot be unpacked");
    return fine;
}

static int npz_find(WeightFile *f, Str name, WeightWant want, Weight *out, Buf *err) {
    Member *m = member_named(f, name);
    Buf why = {0};
    if (!m) return 0;
    bool fine = m->method == STORED || m->mapped || unpack(f, m, &why);
    fine = fine && npy_in_memory(m->mapped ? m->mapped : f->bytes + m->at, m->mapped ? m->size : m->bytes, want, out, &why);
    if (!fine) buf_printf(err, "%s: `%s` %s", f->path, m->name, why.p);
    buf_free(&why);
    return fine ? 1 : -1;
}

// ---- a folder ------------------------------------------------------------------------------------

static bool folder_open(WeightFile *f, Buf *err) {
    char **names = file_names(f->path, strcmp);
    if (!names) { buf_printf(err, "%s: %s", f->path, strerror(errno)); return false; }
    for (int i = 0; names[i]; i++)
        if (strlen(names[i]) > 4 && text_ends(names[i], ".npy")) add_member(f, names[i], strlen(names[i]) - 4, 0, 0, 0);
    heap_free(names);
    return true;
}

static int folder_find(WeightFile *f, Str name, WeightWant want, Weight *out, Buf *err) {
    Member *m = member_named(f, name);
    if (!m) return 0;
    Buf path = {0}, why = {0};
    buf_printf(&path, "%s/%s.npy", f->path, m->name);
    bool fine = m->mapped || map_file(path.p, &m->mapped, &m->size, err);
    if (fine && !npy_in_memory(m->mapped, m->size, want, out, &why)) {
        buf_printf(err, "%s: %s", path.p, why.p);
        fine = false;
    }
    buf_free(&path);
    buf_free(&why);
    return fine ? 1 : -1;
}

// ---- .onnx ---------------------------------------------------------------------------------------

static void onnx_members(WeightFile *f) {
    for (int i = 0, n = onnx_weight_count(f->onnx); i < n; i++) {
        const char *name = onnx_weight_name(f->onnx, i);
        add_member(f, name, strlen(name), 0, 0, 0);
    }
}

static bool onnx_open(WeightFile *f, Buf *err) {
    f->onnx = onnx_read(f->path, err);
    if (f->onnx) onnx_members(f);
    return f->onnx != NULL;
}

static int onnx_find(WeightFile *f, Str name, WeightWant want, Weight *out, Buf *err) {
    OnnxWeight w;
    const Member *m = member_named(f, name);
    if (!m) return 0;
    if (!onnx_weight(f->onnx, (int)(m - f->member), want == WEIGHT_random, &w, err)) return -1;
    out->elem = w.elem;
    out->rank = w.rank;
    if (w.rank > MAX_RANK) {
        buf_printf(err, "%s: `%s` has more than %d dimensions", f->path, m->name, MAX_RANK);
        return -1;
    }
    memcpy(out->dim, w.dim, sizeof out->dim);
    out->data = w.data;
    out->period = w.period;
    out->missing = want != WEIGHT_shape && !w.data ? w.missing : NULL;
    return 1;
}

// ---- the table -----------------------------------------------------------------------------------

static const WeightKind folder = {"", folder_open, folder_find}, archive = {".npz", npz_open, npz_find},
                        model = {".onnx", onnx_open, onnx_find};
static const WeightKind *const kinds[] = {&archive, &model};     // by the end of the name

WeightFile *weights_open(const char *path, Buf *err) {
    struct stat st;
    size_t n = strlen(path);
    if (stat(path, &st) != 0) { buf_printf(err, "%s: %s", path, strerror(errno)); return NULL; }
    const WeightKind *kind = S_ISDIR(st.st_mode) ? &folder : NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && !kind; i++) {
        size_t end = strlen(kinds[i]->name);
        if (n > end && strcmp(path + n - end, kinds[i]->name) == 0) kind = kinds[i];
    }
    if (!kind) {
        buf_printf(err, "%s: weights are read from .npz and .onnx files and folders of .npy files", path);
        return NULL;
    }
    WeightFile *f = heap_alloc(sizeof *f);
    f->kind = kind;
    f->path = copy_text(path, n);
    if (kind->open(f, err)) return f;
    weights_close(f);
    return NULL;
}

WeightFile *weights_of_model(OnnxModel *m) {
    WeightFile *f = heap_alloc(sizeof *f);
    *f = (WeightFile){.kind = &model, .path = copy_text(onnx_path(m), strlen(onnx_path(m))), .onnx = m, .borrowed = true};
    onnx_members(f);
    return f;
}

void weights_close(WeightFile *f) {
    if (!f) return;
    if (!f->borrowed) onnx_free(f->onnx);
    file_unmap_plain(f->bytes, f->size);
    for (int i = 0; i < f->nmembers; i++) {
        file_unmap_plain(f->member[i].mapped, f->member[i].size);
        heap_free(f->member[i].name);
    }
    heap_free(f->member);
    heap_free(f->path);
    heap_free(f);
}

int weights_find(WeightFile *f, Str name, WeightWant want, Weight *out, Buf *err) {
    *out = (Weight){0};
    return f->kind->find(f, name, want, out, err);
}

void weight_done(Weight *w) {
    tensor_free(&w->own);
    *w = (Weight){0};
}

const char *weights_nearest(WeightFile *f, Str name) {
    const char *best = NULL;
    char *text = copy_text(name.p, name.n);
    int least = name.n <= 6 ? 3 : 4;
    for (int i = 0; i < f->nmembers; i++) {
        int d = edit_distance(f->member[i].name, text);
        if (d < least) { least = d; best = f->member[i].name; }
    }
    heap_free(text);
    return best;
}
