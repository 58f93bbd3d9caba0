// Where what a graph keeps comes from: weights of files, what is made up for those that are missing, constants.
//
// Nothing is read or made here: a TransferItem says from where, and transfer.c does it on the way to the device.
#include "runtime/graph.h"
#include "runtime/weights.h"

#include "graph/onnx/onnx.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct OpenFile { OpenFile *next; char *path; WeightFile *file; char *why; };      // file NULL: why not

void open_files_free(OpenFile *f) {
    for (OpenFile *next; f; f = next) {
        next = f->next;
        weights_close(f->file);
        heap_free(f->path);
        heap_free(f->why);
        heap_free(f);
    }
}

static OpenFile *add_file(Runtime *rt, const char *path, WeightFile *file, char *why) {
    OpenFile **files = store_files(rt), *f = heap_alloc(sizeof *f);
    *f = (OpenFile){.next = *files, .path = copy_text(path, strlen(path)), .file = file, .why = why};
    return *files = f;
}

static OpenFile *open_file(Runtime *rt, const char *path) {
    Buf why = {0};
    for (OpenFile *f = *store_files(rt); f; f = f->next)
        if (strcmp(f->path, path) == 0) return f;
    WeightFile *file = weights_open(path, &why);
    return add_file(rt, path, file, why.p);
}

void graph_model(Runtime *rt, OnnxModel *m) { add_file(rt, onnx_path(m), weights_of_model(m), NULL); }

// 1: found, 0: not there, -1: err.
static int find_weight(Runtime *rt, const char *const *files, int nfiles, Str name, WeightWant want, Weight *w,
                       const char **path, Buf *err) {
    for (int i = 0; i < nfiles; i++) {
        OpenFile *f = open_file(rt, files[i]);
        if (!f->file) continue;
        int found = weights_find(f->file, name, want, w, err);
        *path = f->path;
        if (found) return found;
    }
    return 0;
}

bool runtime_weight(void *rt, const char *const *files, int nfiles, Str name, Elem *elem, int *rank, int64_t dim[MAX_RANK]) {
    Weight w;
    Buf    err = {0};
    const char *path;
    bool found = find_weight(rt, files, nfiles, name, WEIGHT_shape, &w, &path, &err) > 0;
    if (found) {
        *elem = w.elem;
        *rank = w.rank;
        memcpy(dim, w.dim, sizeof w.dim);
        weight_done(&w);
    }
    buf_free(&err);
    return found;
}

static bool missing_weight(Runtime *rt, const TGValue *v, Buf *err) {
    Session *s = runtime_session(rt);
    Arena   *a = session_arena(s);
    (void)err;
    if (v->nfiles == 0) {
        Diag *d = diag(s, E_weight, v->span,
                       arena_printf(a, "there is no file to read weight `%.*s` from", (int)v->weight.n, v->weight.p));
        diag_help(d, "name it in the graph, `weights \"model.npz\";`, or run with --random-weights");
        return false;
    }
    Diag *d = diag(s, E_weight, v->span, arena_printf(a, "there is no weight `%.*s`", (int)v->weight.n, v->weight.p));
    for (int i = 0; i < v->nfiles; i++) {
        OpenFile *f = open_file(rt, v->files[i]);
        const char *near = f->file ? weights_nearest(f->file, v->weight) : NULL;
        if (!f->file) diag_note(d, "%s", f->why);
        else diag_note(d, "%s has none of this name", f->path);
        if (near) diag_help(d, "did you mean `%s`?", near);
    }
    diag_help(d, "--random-weights fills in what is missing");
    return false;
}

// As it is declared, or with other floats, which are converted.
static bool fits(const TGValue *v, const Weight *w) {
    bool bits = w->elem == v->elem || (w->elem == EL_u16 && v->elem == EL_bf16) ||
                (w->elem == EL_u8 && (v->elem == EL_f8e4m3 || v->elem == EL_f8e5m2));
    bool floats = elem_is_float(w->elem) && elem_is_float(v->elem) && elem_bits(w->elem) >= 16 && elem_bits(v->elem) >= 16;
    bool same = (bits || floats) && w->rank == v->rank;
    for (int i = 0; same && i < v->rank; i++) same = w->dim[i] == v->dim[i];
    return same;
}

static void wrong_weight(Runtime *rt, const TGValue *v, const Weight *w, const char *path) {
    Session *s = runtime_session(rt);
    Buf have = {0}, want = {0};
    HostTensor a = {.elem = w->elem, .rank = w->rank}, b = {.elem = v->elem, .rank = v->rank};
    memcpy(a.dim, w->dim, sizeof a.dim);
    memcpy(b.dim, v->dim, sizeof b.dim);
    tensor_type_text(&a, &have);
    tensor_type_text(&b, &want);
    diag(s, E_weight, v->span,
         arena_printf(session_arena(s), "weight `%.*s` is %s in %s, and %s here", (int)v->weight.n, v->weight.p, have.p,
                      path, want.p));
    buf_free(&have);
    buf_free(&want);
}

// What a missing weight is filled with: of a size that keeps activations near 1; the same in each run.
static FillSpec random_weight(const TGValue *v, uint64_t seed) {
    double n = v->rank >= 2 && v->dim[0] > 0 ? (double)plan_bytes(v) / elem_bytes(v->elem) / (double)v->dim[v->rank - 1]
                                             : 3.0;
    double width = elem_is_float(v->elem) && n > 0 ? sqrt(3.0 / n) : 0;
    char  *name = copy_text(v->weight.p, v->weight.n);
    FillSpec fill = {.make = elem_is_float(v->elem) ? MAKE_random : MAKE_zeros,
                     .lo = number_double(-width),
                     .hi = number_double(width),
                     .seed = seed,
                     .stream = rng_stream(name, 0)};
    heap_free(name);
    return fill;
}

static bool weight_item(Runtime *rt, const TGValue *v, TransferItem *it, Buf *err) {
    const char *path = "";
    Weight w = {0};
    bool random = runtime_options(rt)->random_weights;
    int found = find_weight(rt, v->files, v->nfiles, v->weight, random ? WEIGHT_random : WEIGHT_data, &w, &path, err);
    if (found < 0) return false;
    if (found > 0 && !fits(v, &w)) { wrong_weight(rt, v, &w, path); weight_done(&w); return false; }
    it->from = found > 0 && elem_is_float(w.elem) ? w.elem : v->elem;          // other types are bits of the same width
    it->data = found > 0 ? w.data : NULL;
    it->period = w.period;
    it->own = w.own;
    if (it->data) return true;
    if (found > 0 && !random) {
        buf_printf(err, "%s: the file %s with the data of `%.*s` is not there", path, w.missing, (int)v->weight.n,
                   v->weight.p);
        return false;
    }
    if (!random) return missing_weight(rt, v, err);
    it->fill = random_weight(v, runtime_options(rt)->seed);
    return true;
}

bool store_item(Runtime *rt, const TGValue *v, TransferItem *it, Buf *err) {
    if (v->kind == TG_weight) return weight_item(rt, v, it, err);
    it->fill = (FillSpec){.make = v->make,
                          .lo = v->lo,
                          .hi = v->hi,
                          .values = v->values,
                          .seed = runtime_options(rt)->seed,
                          .stream = v->stream};
    return true;
}
