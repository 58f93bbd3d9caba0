// Loads and stores. Every access first turns its lanes' addresses into host pointers, with all checks:
// alignment, bounds, initialisation, races. Lanes that fail are reported and left out.
//
// Most global accesses of a warp stay inside the allocation that it used last: then one comparison of the
// lowest and highest address does for all lanes.
#include "emu/exec.h"

typedef uint32_t u32;
typedef uint64_t u64;

static const char *verb(bool write) { return write ? "write" : "read"; }

// All bytes from low to high + size lie in the allocation used last. Sums of addresses may wrap, differences may not.
static bool in_last(const Warp *w, u64 low, u64 high, u32 size) {
    u64 bytes = (u64)(w->hit_end - w->hit);
    return low >= w->hit_base && high >= low && high - w->hit_base < bytes && size <= bytes - (high - w->hit_base);
}

static void mark_written(Warp *w, u64 at, u32 size) {
    uint8_t *init = (uint8_t *)(uintptr_t)w->hit_init;
    u64 o = at - w->hit_base;
    while (size) {
        u32 n = 8 - (u32)(o & 7) < size ? 8 - (u32)(o & 7) : size;
        uint8_t m = (uint8_t)(((1u << n) - 1) << (o & 7));
        if ((init[o >> 3] & m) != m) __atomic_fetch_or(&init[o >> 3], m, __ATOMIC_RELAXED);
        o += n, size -= n;
    }
}

#ifndef EMU_V3
static bool was_written(const Warp *w, u64 at, u32 size) {
    for (u64 o = at - w->hit_base; size; o++, size--)
        if (!(w->hit_init[o >> 3] >> (o & 7) & 1)) return false;
    return true;
}

bool emu_may_touch(Warp *w, const Insn *in, int l, u64 at, u32 size, bool write) {
    const EmuOptions *o = &w->launch->options;
    char where[160];
    if (w->waited >> l & 1) return true;
    for (size_t i = 0; i < o->n_fixed && !write; i++)
        if (at >= o->fixed[i].address && at + size <= o->fixed[i].address + o->fixed[i].size) return true;
    memory_describe(w->launch->context, at, size, where, sizeof where);
    emu_fault(w, in, l, EMU_FAULT_MISSING_WAIT,
              "%s of %u bytes before griddepcontrol.wait, while earlier launches may still run: %s", verb(write), size,
              where);
    return false;
}

static uint8_t *global_at(Warp *w, const Insn *in, int l, u64 at, u32 size, bool write) {
    char where[160];
    Launch *launch = w->launch;
    if (!emu_may_touch(w, in, l, at, size, write)) return NULL;
    if (!in_last(w, at, at, size)) {
        Alloc *a = emu_memory_find(launch->context, at);
        if (!a || at - a->address + size > a->size) {
            memory_describe(launch->context, at, size, where, sizeof where);
            emu_fault(w, in, l, EMU_FAULT_OUT_OF_BOUNDS, "%s of %u bytes: %s", verb(write), size, where);
            return NULL;
        }
        w->hit = a->bytes, w->hit_end = a->bytes + a->size, w->hit_base = a->address, w->hit_init = a->init;
    }
    if (write) mark_written(w, at, size);
    else if (launch->options.check_global_init && !was_written(w, at, size)) {
        memory_describe(launch->context, at, size, where, sizeof where);
        emu_fault(w, in, l, EMU_FAULT_UNINITIALISED, "read of %u bytes that nothing wrote: %s", size, where);
    }
    return (uint8_t *)(uintptr_t)w->hit + (at - w->hit_base);
}

#endif

static uint8_t *shared_at(Warp *w, const Insn *in, int l, u32 at, u32 size, bool write, bool cluster) {
    u32 offset;
    char where[160];
    Block *b = shared_block(w, at, &offset);
    if (!b || (b != w->block && !cluster)) {
        emu_fault(w, in, l, EMU_FAULT_OUT_OF_BOUNDS,
                  "%s of %u bytes of shared memory: address 0x%x is in another block's, which needs .shared::cluster",
                  verb(write), size, at);
        return NULL;
    }
    if (block_gone(w, in, l, b)) return NULL;
    if (offset < w->launch->shared_from || offset > b->shared_size || size > b->shared_size - offset) {
        shared_describe(w->launch, offset, where, sizeof where);
        emu_fault(w, in, l, EMU_FAULT_OUT_OF_BOUNDS, "%s of %u bytes of shared memory: %s", verb(write), size, where);
        return NULL;
    }
    if (write) shadow_init(b, offset, size);
    else if (!w->launch->options.allow_uninitialised && !shadow_is_init(b, offset, size)) {
        shared_describe(w->launch, offset, where, sizeof where);
        emu_fault(w, in, l, EMU_FAULT_UNINITIALISED, "read of %u bytes of shared memory that nothing wrote: %s", size,
                  where);
    }
    if (w->launch->races) {
        u32 offsets[32];
        offsets[l] = offset;
        shadow_access(w, in, 1u << l, b, offsets, size, write, (in->flags & F_ATOMIC) != 0);
    }
    return b->shared + offset;
}

#ifndef EMU_V3
static uint8_t *local_at(Warp *w, const Insn *in, int l, u32 at, u32 size, bool write) {
    bool f = at >= FUNC_LOCAL;
    u32 area = f ? w->top[l] : w->launch->kernel->local_bytes, o = f ? at - FUNC_LOCAL : at;
    if (o > area || size > area - o) {
        emu_fault(w, in, l, EMU_FAULT_OUT_OF_BOUNDS, "%s of %u bytes of local memory at offset %u of %u", verb(write),
                  size, o, area);
        return NULL;
    }
    return frame_at(w, l, at);
}

static uint8_t *param_at(Warp *w, const Insn *in, int l, u64 at, u32 size, bool write) {
    u32 bytes = w->launch->kernel->info.param_bytes;
    u64 o = at & ~WINDOW_MASK;
    if (o >= FUNC_LOCAL) return local_at(w, in, l, (u32)o, size, write);     // a device function's
    if (write || o > bytes || size > bytes - o) {
        emu_fault(w, in, l, EMU_FAULT_OUT_OF_BOUNDS, "%s of %u bytes of the parameters at offset %llu of %u",
                  verb(write), size, (unsigned long long)o, bytes);
        return NULL;
    }
    return w->launch->params + o;
}

uint8_t *emu_memory_at(Warp *w, const Insn *in, int l, uint8_t space, u64 at, u32 size, bool write) {
    w->effects += write && w->storing != in && !(in->flags & F_ATOMIC);
    u32 align = size & (size - 1) ? 1 : size;
    if (align > 1 && at & (align - 1)) {
        char where[160] = "";
        if (space == SPACE_SHARED || space == SPACE_CLUSTER)
            shared_describe(w->launch, (u32)at & ((1u << RANK_SHIFT) - 1), where, sizeof where);
        else memory_describe(w->launch->context, at, size, where, sizeof where);
        emu_fault(w, in, l, EMU_FAULT_MISALIGNED, "%s of %u bytes at an address that is not a multiple of %u: %s",
                  verb(write), size, align,
                  space == SPACE_LOCAL || space == SPACE_PARAM ? "local or parameter memory" : where);
        return NULL;
    }
    if (space == SPACE_GENERIC) {
        u64 window = at & WINDOW_MASK;
        space = window == SHARED_WINDOW  ? SPACE_CLUSTER
                : window == LOCAL_WINDOW ? SPACE_LOCAL
                : window == PARAM_WINDOW ? SPACE_PARAM
                                         : SPACE_GLOBAL;
    }
    switch (space) {
    case SPACE_SHARED:  return shared_at(w, in, l, (u32)at, size, write, false);
    case SPACE_CLUSTER: return shared_at(w, in, l, (u32)at, size, write, true);
    case SPACE_LOCAL:   return local_at(w, in, l, (u32)at, size, write);
    case SPACE_PARAM:   return param_at(w, in, l, at, size, write);
    default:            return global_at(w, in, l, at, size, write);
    }
}
#endif

// ---- Counters

static bool consecutive(const u64 *at, u32 active, u32 size) {
    u64 bad = 0;
    if (active != 0xffffffffu) return false;
    for (u32 l = 0; l < 32; l++) bad |= at[l] ^ (at[0] + (u64)l * size);
    return !bad;
}

static void count_sectors(Warp *w, const u64 *at, u32 active, u32 size) {
    if (consecutive(at, active, size)) {
        w->count.global_requests++;
        w->count.global_sectors += ((at[0] + 32 * size - 1) >> 5) - (at[0] >> 5) + 1;
        return;
    }
    u64 last = ~0ull, seen[64];
    u32 n = 0, sectors = 0;
    bool sorted = true;
    for (u32 m = active; m; m &= m - 1) {
        u64 first = at[__builtin_ctz(m)] >> 5, end = (at[__builtin_ctz(m)] + size - 1) >> 5;
        if (last != ~0ull && first < last) sorted = false;
        if (first != last) {
            sectors++;
            if (n < 64) seen[n++] = first;
        }
        if (end != first) {
            sectors++;
            if (n < 64) seen[n++] = end;
        }
        last = end;
    }
    if (!sorted) {
        sectors = 0;
        for (u32 i = 0; i < n; i++) {
            bool again = false;
            for (u32 k = 0; k < i && !again; k++) again = seen[k] == seen[i];
            sectors += !again;
        }
    }
    w->count.global_requests++;
    w->count.global_sectors += sectors;
}

// A wavefront serves 128 bytes, 32 banks of one word. Lanes are taken 32, 16 or 8 at a time for accesses of
// 4, 8 and 16 bytes; within those, distinct words of one bank take a cycle each.
static void count_banks(Warp *w, const u64 *at, u32 active, u32 size) {
    u32 words = size < 4 ? 1 : size / 4, lanes = 32 / words ? 32 / words : 1;
    w->count.shared_requests++;
    if (size >= 4 && consecutive(at, active, size)) {
        w->count.shared_cycles += words;
        return;
    }
    for (u32 first = 0; first < 32; first += lanes) {
        u32 part = lanes == 32 ? active : active & (((1u << lanes) - 1) << first);
        if (!part) continue;
        u64 base = at[__builtin_ctz(part)];
        u32 cycles = 1;
        bool simple = true;
        for (u32 m = part; m && simple; m &= m - 1) {    // consecutive, or all the same: the common cases
            u32 l = (u32)__builtin_ctz(m);
            simple = at[l] == base + (u64)(l - (u32)__builtin_ctz(part)) * size || at[l] == base;
        }
        if (!simple) {
            u64 word[32][8];
            uint8_t n[32] = {0};
            for (u32 m = part; m; m &= m - 1) {
                u64 first_word = at[__builtin_ctz(m)] >> 2;
                for (u64 x = first_word; x < first_word + words; x++) {
                    u32 bank = (u32)x & 31, k = 0;
                    while (k < n[bank] && k < 8 && word[bank][k] != x) k++;
                    if (k < n[bank] && k < 8) continue;
                    if (n[bank] < 8) word[bank][n[bank]] = x;
                    n[bank]++;
                    if (n[bank] > cycles) cycles = n[bank];
                }
            }
        }
        w->count.shared_cycles += cycles;
        w->count.shared_conflicts += cycles - 1;
    }
}

// ---- Pointers of all lanes; the mask of those that passed

// What the active lanes' addresses have in common: the least, the greatest, and every bit that one of them has.
typedef struct Reach { u64 low, high, bits; } Reach;

static inline void reach_to(Reach *r, u64 x) {
    r->low = x < r->low ? x : r->low;
    r->high = x > r->high ? x : r->high;
    r->bits |= x;
}

static inline Reach reach_of(Warp *w, const Insn *in, u64 *at) {
    Reach r = {~0ull, 0, 0};
    if (in->flags & ADDR32) {
        const u32 *a = lane32(w, in->a);
        for (int l = 0; l < 32; l++) at[l] = (u32)(a[l] + (u32)in->imm);
    } else {
        const u64 *a = lane64(w, in->a);
        for (int l = 0; l < 32; l++) at[l] = a[l] + (u64)in->imm;
    }
    if (w->active == 0xffffffffu) for (int l = 0; l < 32; l++) reach_to(&r, at[l]);
    else for (u32 m = w->active; m; m &= m - 1) reach_to(&r, at[__builtin_ctz(m)]);
    return r;
}

// All in the warp's own block, which has those bytes, and initialised, where they are read: nothing is to be said of a single lane.
static inline bool all_own(const Warp *w, const u32 *offset, const Reach *r, u32 size, bool write) {
    const Block *b = w->block;
    u64 own = (u64)b->rank << RANK_SHIFT, low = r->low & 0xffffffffu, high = r->high & 0xffffffffu;
    if (low < own + SHARED_START || high < low || high - own > b->shared_size || size > b->shared_size - (high - own)) return false;
    if (write || w->launch->options.allow_uninitialised) return true;
    bool fine = true;
    for (u32 m = w->active; m && fine; m &= m - 1) fine = shadow_is_init(b, offset[__builtin_ctz(m)], size);
    return fine;
}

static inline u32 shared_pointers(Warp *w, const Insn *in, uint8_t **p, const u64 *at, const Reach *r, u32 size, bool write, bool cluster) {
    u32 ok = 0, offset[32];
    for (u32 l = 0; l < 32; l++) offset[l] = (u32)at[l] & ((1u << RANK_SHIFT) - 1);
    if (r->low >> 32 == r->high >> 32 && all_own(w, offset, r, size, write)) {
        for (u32 l = 0; l < 32; l++) p[l] = w->block->shared + offset[l];
        if (write) for (u32 m = w->active; m; m &= m - 1) shadow_init(w->block, offset[__builtin_ctz(m)], size);
        if (w->launch->races) shadow_access(w, in, w->active, w->block, offset, size, write, (in->flags & F_ATOMIC) != 0);
        return w->active;
    }
    for (u32 m = w->active; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        p[l] = shared_at(w, in, l, (u32)at[l], size, write, cluster);
        ok |= (u32)(p[l] != NULL) << l;
    }
    return ok;
}

u32 VARIANT(pointers)(Warp *w, const Insn *in, uint8_t **p, u32 size, bool write) {
    u64 at[32];
    u32 active = w->active, ok = 0;
    uint8_t space = in->space;
    const Reach r = reach_of(w, in, at);
    const bool aligned = !(r.bits & (size - 1)), counted = !w->launch->options.no_counters;
    if (space == SPACE_GENERIC && r.low >> 40 == r.high >> 40) {
        u64 window = r.low & WINDOW_MASK;
        if (window == SHARED_WINDOW) space = SPACE_CLUSTER;
        else if (window != LOCAL_WINDOW && window != PARAM_WINDOW) space = SPACE_GLOBAL;
    }
    w->effects += write && w->storing != in;
    switch (space) {
    case SPACE_GLOBAL: case SPACE_CONST:
        if (counted) count_sectors(w, at, active, size);
        if (aligned && !~w->waited && in_last(w, r.low, r.high, size) && (write || !w->launch->options.check_global_init)) {
            u64 delta = (u64)(uintptr_t)w->hit - w->hit_base;
            for (int l = 0; l < 32; l++) p[l] = (uint8_t *)(uintptr_t)(at[l] + delta);
            if (write)
                for (u32 m = active; m; m &= m - 1) mark_written(w, at[__builtin_ctz(m)], size);
            return active;
        }
        break;
    case SPACE_SHARED: case SPACE_CLUSTER:
        if (counted) count_banks(w, at, active, size);
        if (aligned) return shared_pointers(w, in, p, at, &r, size, write, space == SPACE_CLUSTER);
        break;
    case SPACE_PARAM:
        if (r.low == r.high && !write && (r.low & ~WINDOW_MASK) + size <= w->launch->kernel->info.param_bytes && aligned) {
            for (int l = 0; l < 32; l++) p[l] = w->launch->params + (r.low & ~WINDOW_MASK);
            return active;
        }
        break;
    default: break;
    }
    for (u32 m = active; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        p[l] = emu_memory_at(w, in, l, space, at[l], size, write);
        ok |= (u32)(p[l] != NULL) << l;
    }
    return ok;
}

static void synchronise(Warp *w, const Insn *in, bool before) {       // .acquire and .release on shared memory
    if (!w->launch->races || !(in->flags & F_ATOMIC)) return;
    if (before && in->flags & F_RELEASE) vc_release(w, w->block->atomic_vc);
    if (!before && in->flags & F_ACQUIRE) vc_acquire(w, w->block->atomic_vc);
}

static void poll(Warp *w, const Insn *in) {
    if (in->flags & F_ATOMIC && w->active) warp_polls(w, in, lane32(w, in->list[0])[__builtin_ctz(w->active)]);
}

#define LOAD(name, T, C, R)                                                           \
    static void name(Warp *w, const Insn *in) {                                       \
        uint8_t *p[32];                                                               \
        u32 ok = VARIANT(pointers)(w, in, p, (u32)sizeof(T) * in->vec, false), n = in->vec;    \
        for (u32 v = 0; v < n; v++) {                                                 \
            C *d = slot_at(w, in->list[v]);                                           \
            if (ok == 0xffffffffu) {                                                  \
                for (int l = 0; l < 32; l++) {                                        \
                    T x;                                                              \
                    memcpy(&x, p[l] + v * sizeof(T), sizeof x);                       \
                    d[l] = (C)(R)x;                                                   \
                }                                                                     \
            } else for (u32 m = ok; m; m &= m - 1) {                                  \
                int l = __builtin_ctz(m);                                             \
                T x;                                                                  \
                memcpy(&x, p[l] + v * sizeof(T), sizeof x);                           \
                d[l] = (C)(R)x;                                                       \
            }                                                                         \
        }                                                                             \
        synchronise(w, in, false);                                                    \
        poll(w, in);                                                                  \
    }
typedef struct Wide { u64 part[2]; } Wide;
LOAD(load_u8, uint8_t, u32, u32)
LOAD(load_s8, int8_t, u32, int32_t) LOAD(load_u16, uint16_t, u32, u32) LOAD(load_s16, int16_t, u32, int32_t)
    LOAD(load_32, u32, u32, u32) LOAD(load_64, u64, u64, u64)

        static void load_128(Warp *w, const Insn *in) {
    uint8_t *p[32];
    u32 ok = VARIANT(pointers)(w, in, p, 16u * in->vec, false);
    for (u32 v = 0; v < in->vec; v++)
        for (u32 m = ok; m; m &= m - 1)
            memcpy((char *)slot_at(w, in->list[v]) + 16 * __builtin_ctz(m), p[__builtin_ctz(m)] + 16 * v, 16);
}

#define STORE(name, T, C)                                                             \
    static void name(Warp *w, const Insn *in) {                                       \
        uint8_t *p[32];                                                               \
        synchronise(w, in, true);                                                     \
        w->storing = in;                                                              \
        u32 ok = VARIANT(pointers)(w, in, p, (u32)sizeof(T) * in->vec, true), n = in->vec;     \
        w->storing = NULL;                                                            \
        for (u32 v = 0; v < n; v++) {                                                 \
            const C *a = slot_at(w, in->list[v]);                                     \
            for (u32 m = ok; m; m &= m - 1) {                                         \
                int l = __builtin_ctz(m);                                             \
                T x = (T)a[l], old;                                                   \
                memcpy(&old, p[l] + v * sizeof(T), sizeof x);                         \
                w->effects += old != x;                                               \
                memcpy(p[l] + v * sizeof(T), &x, sizeof x);                           \
            }                                                                         \
        }                                                                             \
    }
STORE(store_8, uint8_t, u32) STORE(store_16, uint16_t, u32) STORE(store_32, u32, u32) STORE(store_64, u64, u64)
static void store_128(Warp *w, const Insn *in) {
    uint8_t *p[32];
    w->storing = in;
    u32 ok = VARIANT(pointers)(w, in, p, 16u * in->vec, true);
    w->storing = NULL;
    w->effects++;
    for (u32 v = 0; v < in->vec; v++)
        for (u32 m = ok; m; m &= m - 1)
            memcpy(p[__builtin_ctz(m)] + 16 * v, (char *)slot_at(w, in->list[v]) + 16 * __builtin_ctz(m), 16);
}

static uint8_t class_of(uint8_t space, uint8_t other) {
    return space == SPACE_SHARED || space == SPACE_CLUSTER ? EMU_CLASS_SHARED : space == SPACE_LOCAL ? EMU_CLASS_LOCAL
         : space == SPACE_PARAM ? EMU_CLASS_MOVE : other;
}

static void access(Dec *d, bool write) {
    bool acquire, release, strong = dec_has(d, "relaxed");
    bool scoped = dec_has(d, "cta") || dec_has(d, "cluster") || dec_has(d, "gpu") || dec_has(d, "sys"), ordered = strong || dec_has(d, write ? "release" : "acquire");
    if (dec_has(d, write ? "acquire" : "release")) dec_error(d, "`%.*s` has no .%s", (int)d->name.n, d->name.s, write ? "acquire" : "release");
    if (!dec_has(d, "mmio") && scoped != ordered)
        dec_error(d, "`%.*s` needs %s", (int)d->name.n, d->name.s, scoped ? "an order beside its scope, as .relaxed" : "a scope beside its order: .cta, .cluster, .gpu or .sys");
    dec_sem(d, &acquire, &release);
    uint8_t space = dec_space(d), vec = dec_mod(d, "v2") ? 2 : dec_mod(d, "v4") ? 4 : dec_mod(d, "v8") ? 8 : 1;
    dec_cache_hints(d);
    Type t = dec_need_type(d);
    dec_count(d, 2, 2);
    const Operand *value = dec_op(d, write ? 1 : 0), *address = dec_op(d, write ? 0 : 1), *items = value;
    Insn at = {0};
    uint32_t bits = ptx_type_bits(t), n = 1, slots[8];
    if (bits < 8) dec_error(d, "`%.*s` of .%s", (int)d->name.n, d->name.s, ptx_type_name(t));
    dec_address(d, address, &at, space);
    if (value->kind == O_VEC) items = value->items, n = value->n;
    if (n != vec || bits * n / 8 > 32) dec_error(d, "`%.*s` with a vector of %u", (int)d->name.n, d->name.s, n);
    for (uint32_t i = 1; i < n; i++)
        if (items[i].kind == O_REG && items[0].kind == O_REG && ptx_type_bits(items[i].type) != ptx_type_bits(items[0].type))
            dec_error(d, "`%.*s` and `%.*s` in one vector have other sizes", (int)items[0].name.n, items[0].name.s, (int)items[i].name.n, items[i].name.s);
    for (uint32_t i = 0; i < n; i++) slots[i] = write ? dec_src_op(d, &items[i], t) : dec_dst_op(d, &items[i], t);
    static InsnFn *const loads[] = {load_u8, load_u16, load_32, load_64, load_128}, *const stores[] = {
                                                                                        store_8, store_16, store_32,
                                                                                        store_64, store_128};
    int size = bits == 8 ? 0 : bits == 16 ? 1 : bits == 32 ? 2 : bits == 64 ? 3 : 4;
    InsnFn *fn = write ? stores[size] : ptx_type_is_signed(t) && size < 2 ? size ? load_s16 : load_s8 : loads[size];
    Insn *in = dec_emit(d, fn);
    in->a = at.a, in->imm = at.imm, in->flags = at.flags, in->space = at.space;
    in->vec = vec;
    in->type = (uint8_t)t;
    in->cls = class_of(at.space, EMU_CLASS_GLOBAL);
    if (strong) in->flags |= F_ATOMIC;
    if (acquire) in->flags |= F_ATOMIC | F_ACQUIRE;
    if (release) in->flags |= F_ATOMIC | F_RELEASE;
    memcpy(dec_list(d, in, n), slots, n * sizeof *slots);
}

static void decode_ld(Dec *d) { access(d, false); }
static void decode_st(Dec *d) {
    if (dec_mod(d, "async")) { VARIANT(decode_st_async)(d); return; }
    if (dec_has(d, "bulk")) dec_error(d, "unknown instruction `st.bulk`");
    access(d, true);
}

// ---- Hints that change no value

static void hint(Warp *w, const Insn *in) { (void)w, (void)in; }
static void decode_hint(Dec *d) {                        // prefetch, applypriority, discard
    Insn at = {0};
    uint8_t space = dec_space(d);
    while (dec_prefix(d, "L1", NULL) || dec_prefix(d, "L2", NULL)) {}
    dec_mod(d, "tensormap");
    dec_count(d, 1, 2);
    dec_address(d, dec_op(d, 0), &at, space);
    dec_emit(d, hint);
}

static void x_policy(Warp *w, const Insn *in) {
    EACH_ACTIVE(lane64(w, in->d)[l] = 0x1000000000000000ull);
}
static void decode_createpolicy(Dec *d) {
    bool fractional = dec_mod(d, "fractional"), cvt = dec_mod(d, "cvt"), range = dec_mod(d, "range");
    if (!fractional && !cvt && !range) dec_error(d, "`createpolicy` needs .fractional, .range or .cvt");
    dec_space(d);
    while (dec_prefix(d, "L2", NULL) || dec_prefix(d, "L1", NULL)) {}
    if (dec_need_type(d) != T_b64) dec_error(d, "`createpolicy` needs .b64");
    uint32_t slot = dec_dst(d, 0, T_b64);
    Insn *in = dec_emit(d, x_policy);
    in->d = slot;
}

const InsnDef VARIANT(defs_memory)[] = {
    {"ld", decode_ld, EMU_CLASS_GLOBAL},              {"ldu", decode_ld, EMU_CLASS_GLOBAL},       {"st", decode_st, EMU_CLASS_GLOBAL},
    {"prefetch", decode_hint, EMU_CLASS_OTHER},       {"prefetchu", decode_hint, EMU_CLASS_OTHER}, {"applypriority", decode_hint, EMU_CLASS_OTHER},
    {"discard", decode_hint, EMU_CLASS_OTHER},        {"createpolicy", decode_createpolicy, EMU_CLASS_OTHER}, {NULL, NULL, 0},
};
