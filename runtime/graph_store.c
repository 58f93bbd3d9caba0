// What graphs keep on the device: weights, constants, and what launches compute from them alone.
//
// Everything kept has a key that says what it is: the weight's name, files and type; the constant's recipe; for
// a computed value, the compiled kernel, its scalars and the keys of its inputs. So two plans, for other batch
// sizes say, share what does not depend on the size, and a weight's transpose is made once.
//
//     store_get(w_t)    transpose(w) -> is its key there?  no: store_get(w): read, write; launch; keep
//     store_settle()    w itself is read by no plan: freed
//
// What a plan keeps gets one block of memory. Its end is filled last: until then it is lent to what is only needed on
// the way.
//
//     [ kept | kept |  free ......  | lent: w, w', .. ]      several values are made at once, half of what is left each time
//
// Whether a value stays is asked of the plan (store_reserve), not of who happens to need it first: a launch of two
// results makes both, and the one that nobody asked for yet may be another one's place in the plan.

#include "runtime/graph.h"

#include <stdlib.h>
#include <string.h>

typedef struct Key { uint64_t a, b; } Key;               // two hashes of what a value is

typedef struct Kept Kept;
struct Kept {
    Kept    *next;
    Key      key;
    uint64_t address, bytes;
    bool     wanted;                     // by a plan
    bool     inside;                     // of a block
    bool     lent;                       // at a block's end, until the next trim
    bool     coming;                     // its data are not there yet
};

// one allocation for what a plan keeps
typedef struct Block { struct Block *next; uint64_t address, bytes, used, lent; } Block;

enum { SPARES = 256 };

struct GraphStore {
    Kept     *kept;
    Block    *blocks;                    // the newest first; it lends its end
    OpenFile *files;
    Transfer *transfer;                  // what is on its way
    uint64_t  arena, arena_bytes;
    uint64_t  scratch[SCRATCH_KINDS], scratch_bytes[SCRATCH_KINDS];
    uint64_t  bytes, peak;               // of what is kept and the arena: now, and at most
    bool      lends;                     // .. what is asked for now
    PlanLaunch *spare[SPARES];  int nspare;
    Key      *key;                       // of values of the graph whose plan is being placed, as they are found
    Key      *stays;  int nstays;        // of what that plan reads, in order
};

static void keys_free(GraphStore *s) {
    heap_free(s->key);
    heap_free(s->stays);
    s->key = s->stays = NULL;
    s->nstays = 0;
}

static void held(GraphStore *s, uint64_t more, uint64_t less) {
    s->bytes += more - less;
    if (s->bytes > s->peak) s->peak = s->bytes;
}

static GraphStore *store_of(Runtime *rt) {
    GraphStore **s = runtime_graphs(rt);
    if (!*s) *s = heap_alloc(sizeof **s);
    return *s;
}

OpenFile **store_files(Runtime *rt) { return &store_of(rt)->files; }

Transfer *store_transfer(Runtime *rt) {
    GraphStore *s = store_of(rt);
    if (!s->transfer) s->transfer = transfer_new(runtime_device(rt));
    return s->transfer;
}

void graph_store_free(Runtime *rt, GraphStore *s) {
    if (!s) return;
    keys_free(s);
    transfer_free(s->transfer);
    Device *d = runtime_device(rt);
    for (Kept *k = s->kept, *next; k; k = next) {
        next = k->next;
        if (!k->inside && !k->lent) device_free(d, k->address);
        heap_free(k);
    }
    for (Block *b = s->blocks, *next; b; b = next) {
        next = b->next;
        device_free(d, b->address);
        heap_free(b);
    }
    if (s->arena) device_free(d, s->arena);
    for (int k = 0; k < SCRATCH_KINDS; k++)
        if (s->scratch[k]) device_free(d, s->scratch[k]);
    open_files_free(s->files);
    for (int i = 0; i < s->nspare; i++) {
        heap_free(s->spare[i]->args);
        heap_free(s->spare[i]->bound);
        heap_free(s->spare[i]);
    }
    heap_free(s);
}

bool store_spare(Runtime *rt, PlanLaunch *l) {
    GraphStore *s = store_of(rt);
    if (s->nspare == SPARES) return false;
    s->spare[s->nspare++] = l;
    return true;
}

PlanLaunch *store_spared(Runtime *rt) {
    GraphStore *s = store_of(rt);
    return s->nspare ? s->spare[--s->nspare] : heap_alloc(sizeof(PlanLaunch));
}

uint64_t store_arena(Runtime *rt, uint64_t bytes, Buf *err) {
    GraphStore *s = store_of(rt);
    Device     *d = runtime_device(rt);
    if (s->arena && s->arena_bytes >= bytes) return s->arena;
    if (s->arena) device_free(d, s->arena);
    held(s, 0, s->arena_bytes);
    s->arena = device_alloc(d, bytes, "arena", err);
    s->arena_bytes = s->arena ? bytes : 0;
    held(s, s->arena_bytes, 0);
    return s->arena;
}

bool store_scratch(Runtime *rt, const uint64_t bytes[SCRATCH_KINDS], uint64_t at[SCRATCH_KINDS], Buf *err) {
    GraphStore *s = store_of(rt);
    Device     *d = runtime_device(rt);
    for (int k = 0; k < SCRATCH_KINDS; k++) {
        if (bytes[k] > s->scratch_bytes[k]) {
            if (s->scratch[k]) device_free(d, s->scratch[k]);
            s->scratch[k] = device_alloc(d, bytes[k], "scratch", err);
            held(s, s->scratch[k] ? bytes[k] : 0, s->scratch_bytes[k]);
            s->scratch_bytes[k] = s->scratch[k] ? bytes[k] : 0;
            if (!s->scratch[k] || !d->ops->fill(d, s->scratch[k], bytes[k], FILL_ZERO, 0, err)) return false;
        }
        at[k] = s->scratch[k];
    }
    return true;
}

void store_trim(Runtime *rt) {
    GraphStore *s = store_of(rt);
    Device     *d = runtime_device(rt);
    for (Kept **at = &s->kept, *k; (k = *at);) {
        if (k->wanted || k->inside) { at = &k->next; continue; }
        *at = k->next;
        if (!k->lent) {
            device_free(d, k->address);
            held(s, 0, k->bytes);
        }
        heap_free(k);
    }
    if (s->blocks) s->blocks->lent = 0;
    s->lends = false;
}

void store_settle(Runtime *rt) {
    keys_free(store_of(rt));                               // another graph may come to lie where this one was
    store_trim(rt);
}

void store_stats(const Runtime *rt, GraphStats *out) {
    const GraphStore *s = store_of((Runtime *)(uintptr_t)rt);
    out->arena = s->arena_bytes;
    out->kept = s->bytes - s->arena_bytes;
    for (int k = 0; k < SCRATCH_KINDS; k++) out->arena += s->scratch_bytes[k], out->kept -= s->scratch_bytes[k];
    out->peak = s->peak;
}

void store_keep(Runtime *rt, uint64_t address) {
    for (Kept *k = store_of(rt)->kept; k; k = k->next)
        if (k->address == address) {
            if (k->lent) ice("what a plan reads lies where room is lent");
            k->wanted = true;
        }
}

// ---- keys ----------------------------------------------------------------------------------------

// Does the launch write the value? Several may: a copy, then what updates the copy.
static bool writes(const TGraph *g, const TGLaunch *l, int value, int *param) {
    for (int p = 0; p < l->kernel->nparams; p++) {
        *param = p;
        if (l->args[p].tensor >= 0 && l->kernel->params[p].mode != PM_IN && plan_root(g, l->args[p].tensor) == value)
            return true;
    }
    return false;
}

static void mix(Key *k, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    for (size_t i = 0; i < n; i++) {
        k->a = (k->a ^ p[i]) * UINT64_C(0x100000001b3);
        k->b = (k->b + p[i]) * UINT64_C(0xbf58476d1ce4e5b9);
        k->b ^= k->b >> 29;
    }
}

static void mix_text(Key *k, const char *p, size_t n) { mix(k, &n, sizeof n); mix(k, p, n); }

static void mix_shape(Key *k, const TGValue *v) {
    mix(k, &v->elem, sizeof v->elem);
    mix(k, &v->rank, sizeof v->rank);
    mix(k, v->dim, sizeof *v->dim * (size_t)v->rank);
}

static bool key_of(Runtime *rt, const TGraph *g, int value, Key *key, Buf *err);

static bool launch_key(Runtime *rt, const TGraph *g, const TGLaunch *l, int value, int param, Key *key, Buf *err) {
    const Compiled *c = runtime_compile(rt, l->kernel, &l->schedule, err);
    mix(key, &c, sizeof c);
    mix(key, &param, sizeof param);
    for (int p = 0; c && p < l->kernel->nparams; p++) {
        const TValue *a = &l->args[p];
        bool read = a->tensor >= 0 && l->kernel->params[p].mode != PM_OUT && plan_root(g, a->tensor) != value;
        mix(key, &p, sizeof p);
        if (a->tensor < 0) { mix(key, &a->ival, sizeof a->ival); mix(key, &a->fval, sizeof a->fval); }
        if (!read) continue;
        uint64_t offset = plan_offset(g, a->tensor);
        Key of;
        if (!key_of(rt, g, plan_root(g, a->tensor), &of, err)) return false;
        mix(key, &offset, sizeof offset);
        mix_shape(key, &g->values[a->tensor]);
        mix(key, &of, sizeof of);
    }
    return c != NULL;
}

static void constant_key(const TGValue *v, Key *key) {
    bool random = v->make == MAKE_random || v->make == MAKE_randint;
    mix(key, &v->make, sizeof v->make);
    mix(key, &v->lo, sizeof v->lo);
    mix(key, &v->hi, sizeof v->hi);
    if (random) mix(key, &v->stream, sizeof v->stream);
    if (v->values) mix(key, v->values, sizeof *v->values * (size_t)(plan_bytes(v) / (uint64_t)elem_bytes(v->elem)));
}

static bool key_of(Runtime *rt, const TGraph *g, int value, Key *key, Buf *err) {
    static const Key none;
    const TGValue *v = &g->values[value];
    GraphStore *s = store_of(rt);
    bool fine = true;
    if (!s->key) s->key = heap_alloc(sizeof *s->key * ((size_t)g->nvalues + 1));
    *key = s->key[value];
    if (memcmp(key, &none, sizeof none) != 0) return true;
    *key = (Key){UINT64_C(0xcbf29ce484222325) + (uint64_t)v->kind, UINT64_C(0x9e3779b97f4a7c15)};
    if (v->kind == TG_weight) {
        mix_text(key, v->weight.p, v->weight.n);
        for (int i = 0; i < v->nfiles; i++) mix_text(key, v->files[i], strlen(v->files[i]));
    } else if (v->kind == TG_constant) constant_key(v, key);
    else
        for (int i = 0, p; fine && i < g->nlaunches; i++)
            if (writes(g, &g->launches[i], value, &p)) fine = launch_key(rt, g, &g->launches[i], value, p, key, err);
    mix_shape(key, v);
    if (fine) s->key[value] = *key;
    return fine;
}

// ---- getting -------------------------------------------------------------------------------------

static uint64_t find_kept(Runtime *rt, Key key) {
    for (const Kept *k = store_of(rt)->kept; k; k = k->next)
        if (k->key.a == key.a && k->key.b == key.b) return k->address;
    return 0;
}

static uint64_t rounded(uint64_t bytes) { return (bytes + ARENA_ALIGN - 1) / ARENA_ALIGN * ARENA_ALIGN; }

static int by_key(const void *x, const void *y) { return memcmp(x, y, sizeof(Key)); }

static bool stays(Runtime *rt, Key key) {
    const GraphStore *s = store_of(rt);
    return s->nstays && bsearch(&key, s->stays, (size_t)s->nstays, sizeof key, by_key);
}

static bool find_stays(Runtime *rt, const TGraph *g, const bool *values, Buf *err) {
    GraphStore *s = store_of(rt);
    heap_free(s->stays);
    s->stays = heap_alloc(sizeof *s->stays * ((size_t)g->nvalues + 1));
    s->nstays = 0;
    for (int i = 0; i < g->nvalues; i++)
        if (values[i] && !key_of(rt, g, i, &s->stays[s->nstays++], err)) return false;
    qsort(s->stays, (size_t)s->nstays, sizeof *s->stays, by_key);
    return true;
}

bool store_reserve(Runtime *rt, const TGraph *g, const bool *values, Buf *err) {
    GraphStore *s = store_of(rt);
    Device     *d = runtime_device(rt);
    uint64_t bytes = 0;
    Key key;
    if (!find_stays(rt, g, values, err)) return false;
    // on emu each weight has ends of its own, and a read past them is found
    if (!d->memory_bytes) return true;
    for (int i = 0; i < g->nvalues; i++)
        if (values[i] && key_of(rt, g, i, &key, err) && !find_kept(rt, key)) bytes += rounded(plan_bytes(&g->values[i]));
    if (!bytes) return true;
    Block *b = heap_alloc(sizeof *b);
    *b = (Block){.next = s->blocks, .address = device_alloc(d, bytes, "weights", err), .bytes = bytes};
    if (!b->address) { heap_free(b); return false; }
    s->blocks = b;
    held(s, bytes, 0);
    return true;
}

uint64_t store_room(Runtime *rt) {
    const Block *b = store_of(rt)->blocks;
    return b ? b->bytes - b->used - b->lent : 0;
}

void store_lend(Runtime *rt, bool lends) { store_of(rt)->lends = lends; }

// A place in the block that was reserved, or 0: from its front to keep, from its end to lend.
static uint64_t in_block(Runtime *rt, uint64_t bytes, bool keep) {
    GraphStore *s = store_of(rt);
    Block      *b = s->blocks;
    if (!b || store_room(rt) < rounded(bytes) || (!keep && !s->lends)) return 0;
    *(keep ? &b->used : &b->lent) += rounded(bytes);
    return b->address + (keep ? b->used - rounded(bytes) : b->bytes - b->lent);
}

static uint64_t add_kept(Runtime *rt, Key key, uint64_t bytes, const char *name, Buf *err) {
    GraphStore *s = store_of(rt);
    Device     *d = runtime_device(rt);
    bool     keep = stays(rt, key);
    uint64_t inside = in_block(rt, bytes, keep), at = inside ? inside : device_alloc(d, bytes, name, err);
    if (!at) return 0;
    Kept *k = heap_alloc(sizeof *k);
    *k = (Kept){
        .next = s->kept, .key = key, .address = at, .bytes = bytes, .inside = inside && keep, .lent = inside && !keep};
    s->kept = k;
    if (!inside) held(s, bytes, 0);
    return at;
}

static void forget(Kept *k) { k->key = (Key){0}; k->wanted = k->coming = false; }       // its place in a block is lost

// What was asked for is there, or it never was asked for.
static void arrived(Runtime *rt, bool fine) {
    for (Kept *k = store_of(rt)->kept; k; k = k->next) {
        if (k->coming && !fine) forget(k);
        k->coming = false;
    }
}

bool store_wait(Runtime *rt, void (*show)(void *ctx, uint64_t bytes), void *ctx, Buf *err) {
    bool fine = transfer_wait(store_transfer(rt), show, ctx, err);
    arrived(rt, fine);
    return fine;
}

void store_abandon(Runtime *rt) {
    transfer_drop(store_transfer(rt));
    arrived(rt, false);
}

// ---- what a value needs --------------------------------------------------------------------------

// Weights and constants go into the transfer, which is not started.
static bool ask_leaf(Runtime *rt, const TGraph *g, int value, Key key, Buf *err) {
    const TGValue *v = &g->values[value];
    uint64_t bytes = plan_bytes(v);
    TransferItem it = {.elem = v->elem, .n = (int64_t)(bytes / (uint64_t)elem_bytes(v->elem))};
    if (!store_item(rt, v, &it, err)) return false;
    it.to = add_kept(rt, key, bytes, v->name ? v->name->s : "kept", err);
    if (!it.to) { tensor_free(&it.own); return false; }
    store_of(rt)->kept->coming = true;
    transfer_add(store_transfer(rt), &it);
    return true;
}

bool store_ask(Runtime *rt, const TGraph *g, int value, StoreNeeds *needs, Buf *err) {
    bool leaf = g->values[value].kind != TG_computed, fine = true;
    Key  key;
    if (needs->seen[value]) return true;
    needs->seen[value] = true;
    fine = key_of(rt, g, value, &key, err);
    bool there = fine && find_kept(rt, key);
    if (fine && !there) *(stays(rt, key) ? &needs->stays : &needs->goes) += rounded(plan_bytes(&g->values[value]));
    if (fine && !there && leaf && needs->load) fine = ask_leaf(rt, g, value, key, err);
    for (int i = 0, p; fine && !there && !leaf && i < g->nlaunches; i++) {
        const TGLaunch *l = &g->launches[i];
        if (!writes(g, l, value, &p)) continue;
        if (needs->launch) needs->launch[i] = true;
        for (int k = 0; fine && k < l->kernel->nparams; k++)
            if (l->args[k].tensor >= 0) fine = store_ask(rt, g, plan_root(g, l->args[k].tensor), needs, err);
    }
    return fine;
}

static bool compute(Runtime *rt, const TGraph *g, const TGLaunch *launch, Buf *err) {
    static const RunControl plain;
    PlanLaunch l = {.launch = launch};
    bool fine = plan_bind(&l, rt, g, err);
    for (int p = 0; fine && p < launch->kernel->nparams; p++) {
        int value = launch->args[p].tensor;
        if (value < 0) continue;
        uint64_t at = store_get(rt, g, plan_root(g, value), err);
        l.args[p].address = at + plan_offset(g, value);
        fine = at != 0;
    }
    fine = fine && (!runtime_device(rt)->ops->runs_ptx || plan_facts(&l, rt, err)) && plan_variant(&l, rt, err) &&
           plan_prepare(&l, rt, err) && plan_launch(&l, rt, &plain, err);
    prepared_free(runtime_device(rt), &l.prepared);
    heap_free(l.args);
    heap_free(l.bound);
    return fine;
}

static bool compute_all(Runtime *rt, const TGraph *g, int value, Buf *err) {
    for (int i = 0, p; i < g->nlaunches; i++)
        if (writes(g, &g->launches[i], value, &p) && !compute(rt, g, &g->launches[i], err)) return false;
    return true;
}

uint64_t store_get(Runtime *rt, const TGraph *g, int value, Buf *err) {
    const TGValue *v = &g->values[value];
    Key  key;
    bool fine = key_of(rt, g, value, &key, err), leaf = v->kind != TG_computed;
    uint64_t at = fine ? find_kept(rt, key) : 0;
    if (!at && fine && leaf) {
        fine = ask_leaf(rt, g, value, key, err);
        transfer_start(store_transfer(rt));
        fine = store_wait(rt, NULL, NULL, err) && fine;
        at = fine ? find_kept(rt, key) : 0;
    } else if (!at && fine) {
        at = add_kept(rt, key, plan_bytes(v), v->name ? v->name->s : "kept", err);
        Kept *made = store_of(rt)->kept;
        fine = at != 0 && compute_all(rt, g, value, err);
        if (at && !fine) forget(made);
    }
    return fine ? at : 0;
}
