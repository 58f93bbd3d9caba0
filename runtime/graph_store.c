// What graphs keep on the device: weights, constants, and what launches compute from them alone.
//
// Everything kept has a key that says what it is: the weight's name, files and type; the constant's recipe; for
// a computed value, the compiled kernel, its scalars and the keys of its inputs. So two plans, for other batch
// sizes say, share what does not depend on the size, and a weight's transpose is made once.
//
//     store_get(w_t)    transpose(w) -> is its key there?  no: store_get(w): read, write; launch; keep
//     store_settle()    w itself is read by no plan: freed

#include "runtime/graph.h"

#include <stdlib.h>
#include <string.h>

typedef struct Kept Kept;
struct Kept {
    Kept    *next;
    char    *key;
    uint64_t address, bytes;
    bool     wanted;                     // by a plan
    bool     inside;                     // of a block
    bool     coming;                     // its data are not there yet
};

typedef struct Block { struct Block *next; uint64_t address, bytes, used; } Block;       // one allocation for what a plan keeps

struct GraphStore {
    Kept     *kept;
    Block    *blocks;                    // the newest first
    OpenFile *files;
    Transfer *transfer;                  // what is on its way
    uint64_t  arena, arena_bytes;
    uint64_t  scratch[SCRATCH_KINDS], scratch_bytes[SCRATCH_KINDS];
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

OpenFile **store_files(Runtime *rt) { return &store_of(rt)->files; }

Transfer *store_transfer(Runtime *rt)
{
    GraphStore *s = store_of(rt);
    if (!s->transfer) s->transfer = transfer_new(runtime_device(rt));
    return s->transfer;
}

void graph_store_free(Runtime *rt, GraphStore *s)
{
    if (!s) return;
    keys_free(s);
    transfer_free(s->transfer);
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
    for (int k = 0; k < SCRATCH_KINDS; k++)
        if (s->scratch[k]) d->ops->free(d, s->scratch[k]);
    open_files_free(s->files);
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

bool store_scratch(Runtime *rt, const uint64_t bytes[SCRATCH_KINDS], uint64_t at[SCRATCH_KINDS], Buf *err)
{
    GraphStore *s = store_of(rt);
    Device     *d = runtime_device(rt);
    for (int k = 0; k < SCRATCH_KINDS; k++) {
        if (bytes[k] > s->scratch_bytes[k]) {
            if (s->scratch[k]) d->ops->free(d, s->scratch[k]);
            s->scratch[k] = d->ops->alloc(d, bytes[k], "scratch", err);
            held(s, s->scratch[k] ? bytes[k] : 0, s->scratch_bytes[k]);
            s->scratch_bytes[k] = s->scratch[k] ? bytes[k] : 0;
            if (!s->scratch[k] || !d->ops->fill(d, s->scratch[k], bytes[k], FILL_ZERO, 0, err)) return false;
        }
        at[k] = s->scratch[k];
    }
    return true;
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
    for (int k = 0; k < SCRATCH_KINDS; k++) out->arena += s->scratch_bytes[k], out->kept -= s->scratch_bytes[k];
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

static void forget(Kept *k) { k->key[0] = 0; k->wanted = k->coming = false; }       // its place in a block is lost

// What was asked for is there, or it never was asked for.
static void arrived(Runtime *rt, bool fine)
{
    for (Kept *k = store_of(rt)->kept; k; k = k->next) {
        if (k->coming && !fine) forget(k);
        k->coming = false;
    }
}

bool store_wait(Runtime *rt, void (*show)(void *ctx, uint64_t bytes), void *ctx, Buf *err)
{
    bool fine = transfer_wait(store_transfer(rt), show, ctx, err);
    arrived(rt, fine);
    return fine;
}

void store_abandon(Runtime *rt)
{
    transfer_drop(store_transfer(rt));
    arrived(rt, false);
}

// ---- what a value needs --------------------------------------------------------------------------

// Weights and constants go into the transfer, which is not started.
static bool ask_leaf(Runtime *rt, const TGraph *g, int value, const char *key, bool keep, Buf *err)
{
    const TGValue *v = &g->values[value];
    uint64_t bytes = plan_bytes(v);
    TransferItem it = {.elem = v->elem, .n = (int64_t)(bytes / (uint64_t)elem_bytes(v->elem))};
    if (!store_item(rt, v, &it, err)) return false;
    it.to = add_kept(rt, key, bytes, v->name ? v->name->s : "kept", keep, err);
    if (!it.to) { tensor_free(&it.own); return false; }
    store_of(rt)->kept->coming = true;
    transfer_add(store_transfer(rt), &it);
    return true;
}

bool store_ask(Runtime *rt, const TGraph *g, int value, bool keep, StoreNeeds *needs, Buf *err)
{
    bool leaf = g->values[value].kind != TG_computed, fine = true;
    Buf  key = {0};
    if (needs->seen[value]) return true;
    needs->seen[value] = true;
    fine = key_of(rt, g, value, &key, err);
    bool there = fine && find_kept(rt, key.p);
    if (fine && !there && !keep) needs->temporary += plan_bytes(&g->values[value]);
    if (fine && !there && leaf && needs->load) fine = ask_leaf(rt, g, value, key.p, keep, err);
    buf_free(&key);
    for (int i = 0, p; fine && !there && !leaf && i < g->nlaunches; i++) {
        const TGLaunch *l = &g->launches[i];
        if (!writes(g, l, value, &p)) continue;
        if (needs->launch) needs->launch[i] = true;
        for (int k = 0; fine && k < l->kernel->nparams; k++)
            if (l->args[k].tensor >= 0) fine = store_ask(rt, g, plan_root(g, l->args[k].tensor), false, needs, err);
    }
    return fine;
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
    fine = fine && plan_variant(&l, rt, err) && plan_prepare(&l, rt, err) && plan_launch(&l, rt, &plain, err);
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

uint64_t store_get(Runtime *rt, const TGraph *g, int value, bool keep, Buf *err)
{
    const TGValue *v = &g->values[value];
    Buf  key = {0};
    bool fine = key_of(rt, g, value, &key, err), leaf = v->kind != TG_computed;
    uint64_t at = fine ? find_kept(rt, key.p) : 0;
    if (!at && fine && leaf) {
        fine = ask_leaf(rt, g, value, key.p, keep, err);
        transfer_start(store_transfer(rt));
        fine = store_wait(rt, NULL, NULL, err) && fine;
        at = fine ? find_kept(rt, key.p) : 0;
    } else if (!at && fine) {
        at = add_kept(rt, key.p, plan_bytes(v), v->name ? v->name->s : "kept", keep, err);
        Kept *made = store_of(rt)->kept;
        fine = at != 0 && compute_all(rt, g, value, err);
        if (at && !fine) forget(made);
    }
    buf_free(&key);
    return fine ? at : 0;
}
