// What graphs keep on the device: weights, constants, and what launches compute from them alone.
//
// Everything kept has a key that says what it is: the weight's name, files and type; the constant's recipe; for
// a computed value, the compiled kernel, its scalars and the keys of its inputs. So two plans, for other batch
// sizes say, share what does not depend on the size, and a weight's transpose is made once.
//
//     store_get(w_t)    transpose(w) -> is its key there?  no: store_get(w): read, write; launch; keep
//     store_settle()    w itself is read by no plan: freed

#include "runtime/graph.h"
#include "runtime/weights.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Kept Kept;
struct Kept {
    Kept    *next;
    char    *key;
    uint64_t address, bytes;
    bool     wanted;                     // by a plan
    bool     inside;                     // of a block
};

typedef struct Block { struct Block *next; uint64_t address, bytes, used; } Block;       // one allocation for what a plan keeps

typedef struct OpenFile { struct OpenFile *next; char *path; WeightFile *file; char *why; } OpenFile;    // file NULL: why not

struct GraphStore {
    Kept     *kept;
    Block    *blocks;                    // the newest first
    OpenFile *files;
    uint64_t  arena, arena_bytes;
    uint64_t  bytes, peak;               // of what is kept and the arena: now, and at most
    char    **key;                       // of values of the graph whose plan is being placed, as they are found
    int       nkeys;
};

static void keys_free(GraphStore *s)
{
    for (int i = 0; i < s->nkeys; i++) free(s->key[i]);
    free(s->key);
    s->key = NULL;
    s->nkeys = 0;
}

static void held(GraphStore *s, uint64_t more, uint64_t less)
{
    s->bytes += more - less;
    if (s->bytes > s->peak) s->peak = s->bytes;
}

static GraphStore *store_of(Runtime *rt)
{
    GraphStore **s = runtime_graphs(rt);
    if (!*s) *s = checked_alloc(sizeof **s);
    return *s;
}

void graph_store_free(Runtime *rt, GraphStore *s)
{
    if (!s) return;
    keys_free(s);
    Device *d = runtime_device(rt);
    for (Kept *k = s->kept, *next; k; k = next) {
        next = k->next;
        if (!k->inside) d->ops->free(d, k->address);
        free(k->key);
        free(k);
    }
    for (Block *b = s->blocks, *next; b; b = next) {
        next = b->next;
        d->ops->free(d, b->address);
        free(b);
    }
    if (s->arena) d->ops->free(d, s->arena);
    for (OpenFile *f = s->files, *next; f; f = next) {
        next = f->next;
        weights_close(f->file);
        free(f->path);
        free(f->why);
        free(f);
    }
    free(s);
}

uint64_t store_arena(Runtime *rt, uint64_t bytes, Buf *err)
{
    GraphStore *s = store_of(rt);
    Device     *d = runtime_device(rt);
    if (s->arena && s->arena_bytes >= bytes) return s->arena;
    if (s->arena) d->ops->free(d, s->arena);
    held(s, 0, s->arena_bytes);
    s->arena = d->ops->alloc(d, bytes, "arena", err);
    s->arena_bytes = s->arena ? bytes : 0;
    held(s, s->arena_bytes, 0);
    return s->arena;
}

void store_trim(Runtime *rt)
{
    GraphStore *s = store_of(rt);
    Device     *d = runtime_device(rt);
    for (Kept **at = &s->kept, *k; (k = *at);) {
        if (k->wanted || k->inside) { at = &k->next; continue; }
        *at = k->next;
        d->ops->free(d, k->address);
        held(s, 0, k->bytes);
        free(k->key);
        free(k);
    }
}

void store_settle(Runtime *rt)
{
    keys_free(store_of(rt));                               // another graph may come to lie where this one was
    store_trim(rt);
}

void store_stats(const Runtime *rt, GraphStats *out)
{
    const GraphStore *s = store_of((Runtime *)(uintptr_t)rt);
    out->arena = s->arena_bytes;
    out->kept = s->bytes - s->arena_bytes;
    out->peak = s->peak;
}

void store_keep(Runtime *rt, uint64_t address)
{
    for (Kept *k = store_of(rt)->kept; k; k = k->next)
        if (k->address == address) k->wanted = true;
}

// ---- keys ----------------------------------------------------------------------------------------

// Does the launch write the value? Several may: a copy, then what updates the copy.
static bool writes(const TGraph *g, const TGLaunch *l, int value, int *param)
{
    for (int p = 0; p < l->kernel->nparams; p++) {
        *param = p;
        if (l->args[p].tensor >= 0 && l->kernel->params[p].mode != PM_IN && plan_root(g, l->args[p].tensor) == value) return true;
    }
    return false;
}

static void shape_key(const TGValue *v, Buf *key)
{
    buf_printf(key, ":%s", elem_name(v->elem));
    for (int i = 0; i < v->rank; i++) buf_printf(key, ",%lld", (long long)v->dim[i]);
}

// A long key becomes two hashes, 128 bits in all.
static void shorten(Buf *key)
{
    uint64_t a = 0xcbf29ce484222325, b = 0x9e3779b97f4a7c15;
    if (key->n < 200) return;
    for (size_t i = 0; i < key->n; i++) {
        a = (a ^ (unsigned char)key->p[i]) * 0x100000001b3;
        b = (b + (unsigned char)key->p[i]) * 0xbf58476d1ce4e5b9;
        b ^= b >> 29;
    }
    key->n = 0;
    buf_printf(key, "#%016llx%016llx", (unsigned long long)a, (unsigned long long)b);
}

static bool key_of(Runtime *rt, const TGraph *g, int value, Buf *key, Buf *err);

static bool launch_key(Runtime *rt, const TGraph *g, const TGLaunch *l, int value, int param, Buf *own, Buf *err)
{
    const Compiled *c = runtime_compile(rt, l->kernel, &l->schedule, err);
    bool fine = c != NULL;
    buf_printf(own, "l%p.%d", (const void *)c, param);
    for (int p = 0; fine && p < l->kernel->nparams; p++) {
        const TValue *a = &l->args[p];
        if (a->tensor < 0) buf_printf(own, "(%lld,%.17g)", (long long)a->ival, a->fval);
        else if (l->kernel->params[p].mode != PM_OUT && plan_root(g, a->tensor) != value) {
            buf_printf(own, "(%llu", (unsigned long long)plan_offset(g, a->tensor));
            shape_key(&g->values[a->tensor], own);
            fine = key_of(rt, g, plan_root(g, a->tensor), own, err);
            buf_putc(own, ')');
        }
    }
    return fine;
}

static bool key_of(Runtime *rt, const TGraph *g, int value, Buf *key, Buf *err)
{
    const TGValue *v = &g->values[value];
    GraphStore *s = store_of(rt);
    Buf  own = {0};
    bool fine = true;
    if (!s->key) {
        s->nkeys = g->nvalues;
        s->key = checked_alloc(sizeof *s->key * ((size_t)g->nvalues + 1));
    }
    if (s->key[value]) { buf_puts(key, s->key[value]); return true; }
    if (v->kind == TG_weight) {
        buf_printf(&own, "w%.*s", (int)v->weight.n, v->weight.p);
        for (int i = 0; i < v->nfiles; i++) buf_printf(&own, ";%s", v->files[i]);
    } else if (v->kind == TG_constant) {
        bool random = v->make == MAKE_random || v->make == MAKE_randint;
        buf_printf(&own, "c%d,%.17g,%.17g,%llu", (int)v->make, v->lo, v->hi, random ? (unsigned long long)v->stream : 0);
        for (uint64_t i = 0, n = v->values ? plan_bytes(v) / (uint64_t)elem_bytes(v->elem) : 0; i < n; i++) buf_printf(&own, ",%.17g", v->values[i]);
    } else {
        for (int i = 0, p; fine && i < g->nlaunches; i++)
            if (writes(g, &g->launches[i], value, &p)) fine = launch_key(rt, g, &g->launches[i], value, p, &own, err);
    }
    shape_key(v, &own);
    shorten(&own);
    buf_add(key, own.p, own.n);
    if (fine) s->key[value] = copy_text(own.p, own.n);
    buf_free(&own);
    return fine;
}

// ---- weights -------------------------------------------------------------------------------------

static OpenFile *open_file(Runtime *rt, const char *path)
{
    GraphStore *s = store_of(rt);
    for (OpenFile *f = s->files; f; f = f->next)
        if (strcmp(f->path, path) == 0) return f;
    OpenFile *f = checked_alloc(sizeof *f);
    Buf why = {0};
    f->path = copy_text(path, strlen(path));
    f->file = weights_open(path, &why);
    f->why = why.p;
    f->next = s->files;
    s->files = f;
    return f;
}

// 1: found, 0: not there, -1: err.
static int find_weight(Runtime *rt, const char *const *files, int nfiles, Str name, WeightWant want, Weight *w, const char **path, Buf *err)
{
    for (int i = 0; i < nfiles; i++) {
        OpenFile *f = open_file(rt, files[i]);
        if (!f->file) continue;
        int found = weights_find(f->file, name, want, w, err);
        *path = f->path;
        if (found) return found;
    }
    return 0;
}

bool runtime_weight(void *rt, const char *const *files, int nfiles, Str name, Elem *elem, int *rank, int64_t dim[MAX_RANK])
{
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

static bool missing_weight(Runtime *rt, const TGValue *v, Buf *err)
{
    Session *s = runtime_session(rt);
    Arena   *a = session_arena(s);
    (void)err;
    if (v->nfiles == 0) {
        Diag *d = diag(s, E_weight, v->span, arena_printf(a, "there is no file to read weight `%.*s` from", (int)v->weight.n, v->weight.p));
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
static bool fits(const TGValue *v, const Weight *w)
{
    bool bits = w->elem == v->elem || (w->elem == EL_u16 && v->elem == EL_bf16) || (w->elem == EL_u8 && (v->elem == EL_f8e4m3 || v->elem == EL_f8e5m2));
    bool floats = elem_is_float(w->elem) && elem_is_float(v->elem) && elem_bits(w->elem) >= 16 && elem_bits(v->elem) >= 16;
    bool same = (bits || floats) && w->rank == v->rank;
    for (int i = 0; same && i < v->rank; i++) same = w->dim[i] == v->dim[i];
    return same;
}

static bool convert(const TGValue *v, Weight *w, Buf *err)
{
    HostTensor made;
    bool as_it_is = !elem_is_float(w->elem) || w->elem == v->elem;
    if (as_it_is) return true;
    if (!tensor_make(&made, v->elem, v->rank, v->dim, err)) return false;
    elems_convert(w->elem, w->data, v->elem, made.data, (int64_t)(plan_bytes(v) / (uint64_t)elem_bytes(v->elem)));
    tensor_free(&w->own);
    w->own = made;
    w->data = made.data;
    return true;
}

static bool wrong_weight(Runtime *rt, const TGValue *v, const Weight *w, const char *path)
{
    Session *s = runtime_session(rt);
    Buf have = {0}, want = {0};
    HostTensor a = {.elem = w->elem, .rank = w->rank}, b = {.elem = v->elem, .rank = v->rank};
    memcpy(a.dim, w->dim, sizeof a.dim);
    memcpy(b.dim, v->dim, sizeof b.dim);
    tensor_type_text(&a, &have);
    tensor_type_text(&b, &want);
    diag(s, E_weight, v->span, arena_printf(session_arena(s), "weight `%.*s` is %s in %s, and %s here", (int)v->weight.n, v->weight.p, have.p, path, want.p));
    buf_free(&have);
    buf_free(&want);
    return false;
}

// What a missing weight is filled with: of a size that keeps activations near 1; the same in each run.
static bool random_weight(const TGValue *v, uint64_t seed, HostTensor *t, Buf *err)
{
    double n = v->rank >= 2 && v->dim[0] > 0 ? (double)plan_bytes(v) / elem_bytes(v->elem) / (double)v->dim[v->rank - 1] : 3.0;
    double width = elem_is_float(v->elem) && n > 0 ? sqrt(3.0 / n) : 0;
    char  *name = copy_text(v->weight.p, v->weight.n);
    FillSpec fill = {.make = elem_is_float(v->elem) ? MAKE_random : MAKE_zeros, .lo = -width, .hi = width, .seed = seed, .stream = rng_stream(name, 0)};
    free(name);
    if (!tensor_make(t, v->elem, v->rank, v->dim, err)) return false;
    tensor_fill(t, &fill);
    return true;
}

static bool weight_data(Runtime *rt, const TGValue *v, Weight *w, Buf *err)
{
    const char *path = "";
    bool random = runtime_options(rt)->random_weights;
    int found = find_weight(rt, v->files, v->nfiles, v->weight, random ? WEIGHT_random : WEIGHT_data, w, &path, err);
    if (found < 0) return false;
    if (found > 0 && !fits(v, w)) return wrong_weight(rt, v, w, path);
    if (found > 0 && w->data) return convert(v, w, err);
    if (found > 0 && !random) { buf_printf(err, "%s: the file %s with the data of `%.*s` is not there", path, w->missing, (int)v->weight.n, v->weight.p); return false; }
    if (!random) return missing_weight(rt, v, err);
    if (!random_weight(v, runtime_options(rt)->seed, &w->own, err)) return false;
    w->data = w->own.data;
    return true;
}

static bool constant_data(const TGValue *v, uint64_t seed, Weight *w, Buf *err)
{
    FillSpec fill = {.make = v->make, .lo = v->lo, .hi = v->hi, .values = v->values, .seed = seed, .stream = v->stream};
    if (!tensor_make(&w->own, v->elem, v->rank, v->dim, err)) return false;
    tensor_fill(&w->own, &fill);
    w->data = w->own.data;
    return true;
}

// ---- getting -------------------------------------------------------------------------------------

static uint64_t find_kept(Runtime *rt, const char *key)
{
    for (const Kept *k = store_of(rt)->kept; k; k = k->next)
        if (strcmp(k->key, key) == 0) return k->address;
    return 0;
}

static uint64_t rounded(uint64_t bytes) { return (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN; }

bool store_reserve(Runtime *rt, const TGraph *g, const bool *values, Buf *err)
{
    GraphStore *s = store_of(rt);
    Device     *d = runtime_device(rt);
    uint64_t bytes = 0;
    if (!d->memory_bytes) return true;                   // on emu each weight has ends of its own, and a read past them is found
    for (int i = 0; i < g->nvalues; i++) {
        Buf key = {0};
        if (values[i] && !(key_of(rt, g, i, &key, err) && find_kept(rt, key.p))) bytes += rounded(plan_bytes(&g->values[i]));
        buf_free(&key);
        if (err->n) return false;
    }
    if (!bytes) return true;
    Block *b = checked_alloc(sizeof *b);
    *b = (Block){.next = s->blocks, .address = d->ops->alloc(d, bytes, "weights", err), .bytes = bytes};
    if (!b->address) { free(b); return false; }
    s->blocks = b;
    held(s, bytes, 0);
    return true;
}

// A place in the block that was reserved, or 0.
static uint64_t in_block(GraphStore *s, uint64_t bytes)
{
    Block *b = s->blocks;
    if (!b || b->bytes - b->used < rounded(bytes)) return 0;
    b->used += rounded(bytes);
    return b->address + b->used - rounded(bytes);
}

static uint64_t add_kept(Runtime *rt, const char *key, uint64_t bytes, const char *name, bool keep, Buf *err)
{
    GraphStore *s = store_of(rt);
    Device     *d = runtime_device(rt);
    uint64_t inside = keep ? in_block(s, bytes) : 0, at = inside ? inside : d->ops->alloc(d, bytes, name, err);
    if (!at) return 0;
    Kept *k = checked_alloc(sizeof *k);
    *k = (Kept){.next = s->kept, .key = copy_text(key, strlen(key)), .address = at, .bytes = bytes, .inside = inside != 0};
    s->kept = k;
    if (!inside) held(s, bytes, 0);
    return at;
}

static bool compute(Runtime *rt, const TGraph *g, const TGLaunch *launch, Buf *err)
{
    static const RunControl plain;
    PlanLaunch l = {.launch = launch};
    bool fine = plan_bind(&l, rt, g, err);
    for (int p = 0; fine && p < launch->kernel->nparams; p++) {
        int value = launch->args[p].tensor;
        if (value < 0) continue;
        uint64_t at = store_get(rt, g, plan_root(g, value), false, err);
        l.args[p].address = at + plan_offset(g, value);
        fine = at != 0;
    }
    fine = fine && plan_prepare(&l, rt, err) && plan_launch(&l, rt, &plain, err) && runtime_device(rt)->ops->sync(runtime_device(rt), err);
    prepared_free(runtime_device(rt), &l.prepared);
    free(l.args);
    free(l.bound);
    return fine;
}

static bool compute_all(Runtime *rt, const TGraph *g, int value, Buf *err)
{
    for (int i = 0, p; i < g->nlaunches; i++)
        if (writes(g, &g->launches[i], value, &p) && !compute(rt, g, &g->launches[i], err)) return false;
    return true;
}

static void forget(Runtime *rt, uint64_t address)
{
    for (Kept *k = store_of(rt)->kept; k; k = k->next)
        if (k->address == address) { k->key[0] = 0; k->wanted = false; }     // its place in a block is lost
}

uint64_t store_get(Runtime *rt, const TGraph *g, int value, bool keep, Buf *err)
{
    const TGValue *v = &g->values[value];
    Buf key = {0};
    uint64_t at = key_of(rt, g, value, &key, err) ? find_kept(rt, key.p) : 0;
    bool fine = at != 0 || !err->n;
    if (!at && fine) {
        at = add_kept(rt, key.p, plan_bytes(v), v->name ? v->name->s : "kept", keep, err);
        Device *d = runtime_device(rt);
        Weight  w = {0};
        fine = at != 0;
        if (fine && v->kind == TG_weight) fine = weight_data(rt, v, &w, err) && d->ops->write(d, at, w.data, plan_bytes(v), err);
        else if (fine && v->kind == TG_constant) fine = constant_data(v, runtime_options(rt)->seed, &w, err) && d->ops->write(d, at, w.data, plan_bytes(v), err);
        else if (fine) fine = compute_all(rt, g, value, err);
        weight_done(&w);
        if (!fine && at) forget(rt, at);
    }
    buf_free(&key);
    return fine ? at : 0;
}
