// atom and red, on global and shared memory. Lanes go in order; each is one compare-and-swap on the host
// word, so that blocks on other threads see it whole. Floating-point adds round once, like the hardware's.
#include "emu/exec.h"

typedef uint32_t u32;
typedef uint64_t u64;

typedef enum Op { O_add, O_min, O_max, O_inc, O_dec, O_and, O_or, O_xor, O_exch, O_cas } Op;

static uint16_t half_add(uint16_t a, uint16_t b, bool bf) {
    double r = bf ? (double)bf16_to_f32(a) + (double)bf16_to_f32(b) : (double)f16_to_f32(a) + (double)f16_to_f32(b);
    return r != r ? 0x7fff : bf ? bf16_from_f64(r) : f16_from_f64(r);
}
static uint16_t half_pick(uint16_t a, uint16_t b, bool bf, bool least) {
    float x = bf ? bf16_to_f32(a) : f16_to_f32(a), y = bf ? bf16_to_f32(b) : f16_to_f32(b);
    if (x != x) return y != y ? 0x7fff : b;
    if (y != y) return a;
    if (x == y) return least ? a | b : a & b;
    return (x < y) == least ? a : b;
}

static u64 combine(Op op, Type t, u64 old, u64 b, u64 c) {
    bool s = ptx_type_is_signed(t), wide = ptx_type_bits(t) == 64;
    switch (op) {
    case O_add:
        switch (t) {
        case T_f32: return canonical(f32_from((u32)old) + f32_from((u32)b));
        case T_f64: return f64_bits(f64_from(old) + f64_from(b));
        case T_f16: case T_bf16: return half_add((uint16_t)old, (uint16_t)b, t == T_bf16);
        case T_f16x2: case T_bf16x2:
            return (u32)half_add((uint16_t)(old >> 16), (uint16_t)(b >> 16), t == T_bf16x2) << 16 |
                   half_add((uint16_t)old, (uint16_t)b, t == T_bf16x2);
        default: return old + b;
        }
    case O_min: case O_max: {
        bool least = op == O_min;
        if (t == T_f16 || t == T_bf16) return half_pick((uint16_t)old, (uint16_t)b, t == T_bf16, least);
        if (t == T_f16x2 || t == T_bf16x2)
            return (u32)half_pick((uint16_t)(old >> 16), (uint16_t)(b >> 16), t == T_bf16x2, least) << 16 |
                   half_pick((uint16_t)old, (uint16_t)b, t == T_bf16x2, least);
        if (t == T_f32) {
            float x = f32_from((u32)old), y = f32_from((u32)b);
            return x != x ? b : y != y ? old : (x < y) == least ? old : b;
        }
        bool less = s ? wide ? (int64_t)old < (int64_t)b : (int32_t)old < (int32_t)b : wide ? old < b : (u32)old < (u32)b;
        return less == least ? old : b;
    }
    case O_inc: return (u32)old >= (u32)b ? 0 : (u32)old + 1;
    case O_dec: return (u32)old == 0 || (u32)old > (u32)b ? (u32)b : (u32)old - 1;
    case O_and: return old & b;
    case O_or:  return old | b;
    case O_xor: return old ^ b;
    case O_exch: return b;
    default: {
        u64 keep = wide ? ~0ull : ptx_type_bits(t) == 16 ? 0xffff : 0xffffffffu;
        return ((old ^ b) & keep) == 0 ? c : old;
    }
    }
}

static u64 atomically(uint8_t *p, Op op, Type t, u64 b, u64 c) {
    if (ptx_type_bits(t) == 64) {
        u64 old = __atomic_load_n((u64 *)(void *)p, __ATOMIC_SEQ_CST);
        while (!__atomic_compare_exchange_n((u64 *)(void *)p, &old, combine(op, t, old, b, c), false, __ATOMIC_SEQ_CST,
                                            __ATOMIC_SEQ_CST)) {
        }
        return old;
    }
    if (ptx_type_bits(t) == 16) {
        uint16_t old = __atomic_load_n((uint16_t *)(void *)p, __ATOMIC_SEQ_CST);
        while (!__atomic_compare_exchange_n((uint16_t *)(void *)p, &old, (uint16_t)combine(op, t, old, b, c), false,
                                            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        }
        return old;
    }
    u32 old = __atomic_load_n((u32 *)(void *)p, __ATOMIC_SEQ_CST);
    while (!__atomic_compare_exchange_n((u32 *)(void *)p, &old, (u32)combine(op, t, old, b, c), false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST)) {
    }
    return old;
}

#ifndef EMU_V3
u64 atomic_apply(uint8_t *p, int op, Type t, u64 b) { return atomically(p, (Op)op, t, b, 0); }
#endif

static void x_atomic(Warp *w, const Insn *in) {          // list: vec results (or none), vec b, vec c
    Type t = (Type)in->type;
    u32 size = ptx_type_bits(t) / 8, vec = in->vec;
    const u32 *results = in->list, *bs = in->list + vec, *cs = bs + vec;
    bool wide = size == 8;
    u64 before = w->effects;
    if (w->launch->races) vc_release(w, w->block->atomic_vc);
    EACH_ACTIVE({
        u64 at = (in->flags & ADDR32 ? lane32(w, in->a)[l] : lane64(w, in->a)[l]) + (u64)in->imm;
        if (in->flags & ADDR32) at = (u32)at;
        uint8_t *p = emu_memory_at(w, in, l, in->space, at, size * vec, false);
        if (p && !emu_memory_at(w, in, l, in->space, at, size * vec, true)) p = NULL;
        for (u32 v = 0; p && v < vec; v++) {
            u64 b = wide ? lane64(w, bs[v])[l] : lane32(w, bs[v])[l];
            u64 c = in->aux == O_cas ? wide ? lane64(w, cs[v])[l] : lane32(w, cs[v])[l] : 0;
            u64 old = atomically(p + v * size, (Op)in->aux, t, b, c), changed = combine((Op)in->aux, t, old, b, c) ^ old;
            w->effects += (size < 8 ? changed << (64 - 8 * size) : changed) != 0;
            if (results[v] == NO_SLOT) continue;
            if (wide) lane64(w, results[v])[l] = old;
            else lane32(w, results[v])[l] = (u32)old;
        }
    });
    if (w->launch->races) vc_acquire(w, w->block->atomic_vc);
    if (w->effects == before && w->active) warp_polls(w, in, results[0] == NO_SLOT ? 0 : lane32(w, results[0])[__builtin_ctz(w->active)]);
    else w->watches = NULL;
}

static pthread_mutex_t wide_lock = PTHREAD_MUTEX_INITIALIZER;
static void x_atomic128(Warp *w, const Insn *in) {       // exch and cas of b128
    EACH_ACTIVE({
        u64 at = (in->flags & ADDR32 ? lane32(w, in->a)[l] : lane64(w, in->a)[l]) + (u64)in->imm;
        uint8_t *p = emu_memory_at(w, in, l, in->space, at, 16, true);
        if (!p) continue;
        w->effects++;
        char old[16];
        const char *b = (const char *)slot_at(w, in->b) + 16 * l;
        pthread_mutex_lock(&wide_lock);
        memcpy(old, p, 16);
        if (in->aux == O_exch) memcpy(p, b, 16);
        else if (!memcmp(old, b, 16)) memcpy(p, (const char *)slot_at(w, in->c) + 16 * l, 16);
        pthread_mutex_unlock(&wide_lock);
        if (in->d != NO_SLOT) memcpy((char *)slot_at(w, in->d) + 16 * l, old, 16);
    });
}

static void atomic(Dec *d, bool result) {
    static const char *const names[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas"};
    bool acquire, release;
    int op = -1;
    for (int i = 0; i < 10; i++)
        if (dec_mod(d, names[i])) {
            if (op >= 0) dec_error(d, "`%.*s` is .%s or .%s, not both", (int)d->name.n, d->name.s, names[op], names[i]);
            op = i;
        }
    if (op < 0) dec_error(d, "`%.*s` needs an operation", (int)d->name.n, d->name.s);
    dec_sem(d, &acquire, &release);
    bool noftz = dec_mod(d, "noftz");
    uint8_t space = dec_space(d), vec = dec_mod(d, "v2") ? 2 : dec_mod(d, "v4") ? 4 : dec_mod(d, "v8") ? 8 : 1;
    dec_cache_hints(d);
    if (space == SPACE_LOCAL || space == SPACE_PARAM || space == SPACE_CONST) dec_error(d, "`%.*s` is on global or shared memory", (int)d->name.n, d->name.s);
    Type t = dec_need_type(d);
    uint32_t first = result ? 1 : 0, n_sources = op == O_cas ? 2 : 1, slots[24];
    dec_count(d, first + 1 + n_sources, first + 1 + n_sources);
    Insn at = {0};
    dec_address(d, dec_op(d, first), &at, space);
    at.flags |= F_ATOMIC;
    if (t == T_b128) {
        uint32_t b = dec_src(d, first + 1, t), c = op == O_cas ? dec_src(d, first + 2, t) : NO_SLOT,
                 to = result ? dec_dst(d, 0, t) : NO_SLOT;
        if (op != O_exch && op != O_cas) dec_error(d, "an atomic of .b128 is exch or cas");
        Insn *in = dec_emit(d, x_atomic128);
        in->a = at.a, in->imm = at.imm, in->flags = at.flags, in->space = at.space, in->b = b, in->c = c, in->d = to,
        in->aux = op;
        return;
    }
    if (ptx_type_bits(t) < 16 || ptx_type_kind(t) == 'P' || t == T_f32x2)
        dec_error(d, "`%.*s` of .%s", (int)d->name.n, d->name.s, ptx_type_name(t));
    if (!noftz && op == O_add && (ptx_type_bits(t) == 16 || ptx_type_kind(t) == 'V')) dec_error(d, "`%.*s` of .%s needs .noftz", (int)d->name.n, d->name.s, ptx_type_name(t));
    for (uint32_t v = 0; v < vec; v++) {
        const Operand *parts[3] = {result ? dec_op(d, 0) : NULL, dec_op(d, first + 1),
                                   op == O_cas ? dec_op(d, first + 2) : NULL};
        for (int k = 0; k < 3; k++) {
            const Operand *o = parts[k];
            if (o && vec > 1 && (o->kind != O_VEC || o->n != vec)) dec_error(d, "a vector of %u is needed", vec);
            if (o && vec > 1) o = &o->items[v];
            slots[(uint32_t)k * vec + v] = !o                  ? NO_SLOT
                                           : k                 ? dec_src_op(d, o, t)
                                           : o->kind == O_SINK ? NO_SLOT
                                                               : dec_dst_op(d, o, t);
        }
    }
    Insn *in = dec_emit(d, x_atomic);
    in->a = at.a, in->imm = at.imm, in->flags = at.flags, in->space = at.space;
    in->aux = op, in->type = (uint8_t)t, in->vec = vec;
    memcpy(dec_list(d, in, 3u * vec), slots, 3u * vec * sizeof *slots);
}

static void decode_atom(Dec *d) { atomic(d, true); }
static void decode_red(Dec *d) {
    if (dec_mod(d, "async")) { VARIANT(decode_red_async)(d); return; }
    atomic(d, false);
}

const InsnDef VARIANT(defs_atomic)[] = {
    {"atom", decode_atom, EMU_CLASS_ATOMIC}, {"red", decode_red, EMU_CLASS_ATOMIC}, {NULL, NULL, 0}};
