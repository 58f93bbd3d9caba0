// What executors are written with: operands as arrays of 32 lanes, and loops over the active ones.
//
// EACH(T, value) stores `value`, an expression in l, to d[l] for every active lane. For a full warp it
// is a plain loop that the compiler vectorises; else it blends by the mask, which vectorises too.
#ifndef TK_EMU_EXEC_H
#define TK_EMU_EXEC_H

#include "emu/internal.h"

static inline void *slot_at(const Warp *w, uint32_t slot)     { return w->base[slot & 3] + (slot & ~3u); }
static inline uint32_t *lane32(const Warp *w, uint32_t slot)  { return slot_at(w, slot); }
static inline uint64_t *lane64(const Warp *w, uint32_t slot)  { return slot_at(w, slot); }
static inline uint32_t *pred(const Warp *w, uint32_t slot)    { return slot_at(w, slot); }

#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

#define EACH(T, value)                                                           \
    do {                                                                         \
        uint32_t mask_ = w->active;                                              \
        if (mask_ == 0xffffffffu) {                                              \
            INDEPENDENT for (int l = 0; l < 32; l++) d[l] = (T)(value);          \
        } else {                                                                 \
            INDEPENDENT for (int l = 0; l < 32; l++) {                           \
                T keep_ = (T)0 - (T)(mask_ >> l & 1);                            \
                d[l] = ((T)(value) & keep_) | (d[l] & (T)~keep_);                \
            }                                                                    \
        }                                                                        \
    } while (0)

// For values that cost much or may not be computed for idle lanes.
#define EACH_ACTIVE(...) \
    do { for (uint32_t m_ = w->active; m_; m_ &= m_ - 1) { int l = __builtin_ctz(m_); __VA_ARGS__; } } while (0)

static inline uint32_t blend_pred(uint32_t old, uint32_t value, uint32_t mask) { return (old & ~mask) | (value & mask); }

static inline uint32_t canonical(float x) { return x != x ? 0x7fffffffu : f32_bits(x); }
static inline float flush(float x) {
    uint32_t b = f32_bits(x);
    return b & 0x7f800000u ? x : f32_from(b & 0x80000000u);
}

static inline float half_to_float(uint32_t h) {          // exact: scaled by 2^112, infinities and NaN put back
    uint32_t x = f32_bits(f32_from((h & 0x7fff) << 13) * 0x1p112f);
    x |= (h & 0x7c00) == 0x7c00 ? 0x7f800000u : 0;
    return f32_from(x | (h & 0x8000) << 16);
}

static inline uint32_t half_round(uint32_t b) {          // to nearest even; a NaN is 0x7fff
    uint32_t x = b & 0x7fffffffu, normal = (x - 0x38000000u + 0xfff + (x >> 13 & 1)) >> 13;
    uint32_t small = f32_bits(f32_from(x) + 0.5f) - 0x3f000000u;         // the last bit of 0.5 is the least half
    uint32_t h = x < 0x38800000u ? small : x >= 0x477ff000u ? 0x7c00 : normal;
    return x > 0x7f800000u ? 0x7fff : h | (b >> 16 & 0x8000);
}

// The shared-memory offset of an address and the block that it names.
static inline Block *shared_block(const Warp *w, uint32_t address, uint32_t *offset) {
    uint32_t rank = address >> RANK_SHIFT;
    *offset = address & ((1u << RANK_SHIFT) - 1);
    return rank < w->cluster->n_blocks ? &w->cluster->blocks[rank] : NULL;
}

// Another block's shared memory is there as long as a thread of that block runs.
static inline bool block_gone(Warp *w, const Insn *in, int l, const Block *b) {
    if (b == w->block || b->n_live) return false;
    emu_fault(
        w, in, l, EMU_FAULT_OUT_OF_BOUNDS,
        "shared memory of block %u of the cluster, which has ended: without a barrier of the cluster at its end a block may go first",
        (unsigned)b->rank);
    return true;
}

// Read again, and still the same: it waits for another warp or block, whose turn it is.
static inline void warp_polls(Warp *w, const Insn *in, uint32_t value) {
    if (w->watches == in && w->watched == value) {
        w->event |= EV_YIELD;
        w->polled = true;
    }
    w->watches = in;
    w->watched = value;
}

// x_memory.c, compiled once per variant like the rest, through these two pointers' worth of interface:
// false: an early launch has not waited
bool emu_may_touch(Warp *, const Insn *, int lane, uint64_t address, uint32_t size, bool write);
uint8_t *emu_memory_at(Warp *, const Insn *, int lane, uint8_t space, uint64_t address, uint32_t size, bool write);

extern InsnFn x_lea32, x_lea64;

#ifdef EMU_V3
#define VARIANT(name) name##_v3
#else
#define VARIANT(name) name##_base
#endif

// of the active lanes; which are good
uint32_t VARIANT(pointers)(Warp *, const Insn *, uint8_t **p, uint32_t size, bool write);
void copies_wait(Warp *, uint32_t lanes, uint32_t pending);        // x_async.c
void copy_begin(Warp *, const Insn *, uint32_t lane, CpAsync, uint64_t from, Access *);      // of one lane: size, valid, dst and clock are set; NULL: no races
void VARIANT(decode_bulk)(Dec *, bool reduce);
void VARIANT(decode_copy_arrive)(Dec *);
void VARIANT(decode_cluster_barrier)(Dec *);
void VARIANT(decode_st_async)(Dec *);        // x_sync.c
void VARIANT(decode_red_async)(Dec *);

#define TABLES(X) X(integer) X(compare) X(video) X(flow) X(call) X(floats) X(halves) X(convert) X(move) X(memory) X(atomic) X(warp) X(mma) X(matrix) X(wmma) X(sync) X(mbarrier) X(async) X(bulk) X(tensormap) X(wgmma)
#define X(name) extern const InsnDef VARIANT(defs_##name)[];
TABLES(X)
#undef X

#endif
