// wgmma: asynchronous matrix products of a warpgroup, four warps and 64 rows, with operands in shared memory
// (described by 64-bit descriptors) or, for A, in registers.
//
// A wgmma is one operation of four warps: it can start when all four have issued it, and when one of them
// waits for it, it is complete for all. So each warp queues what it issues, and a wait runs the queue of the
// whole warpgroup up to there; before that neither shared memory is read nor an accumulator written. In
// between the registers are marked, and touching them is reported (warps.c).
//
// Where an element lies, from the descriptor (start, LBO, SBO; span S = 32, 64 or 128 bytes of swizzle):
//
//     K-major   none   start + mn/8 * SBO + mn%8 * 16 + kb/16 * LBO + kb%16         kb = k in bytes
//               S      start + mn/8 * SBO + mn%8 * S + kb
//     MN-major  none   start + mb/16 * SBO + mb%16 + k%8 * 16 + k/8 * LBO           mb = mn in bytes
//               S      start + mb/S * LBO + mb%S + k%8 * S + k/8 * SBO
//
// and with a swizzle address bits 4.. are exclusive-ored with bits 7.. (the base offset subtracted). As with
// mma.sync, products are exact, sums in double, rounded once per instruction. A sparse A (.sp) is K / 2 wide, in shared
// memory too; each warp's metadata, for its 16 rows, is that of mma.sp (fragments.h). Bits are multiplied: .and, .popc.
#include "emu/panels.h"

typedef uint32_t u32;
typedef uint64_t u64;

typedef struct Wgmma {
    u32  n, k;
    Type d, a, b;
    bool registers;               // A comes from registers
    bool trans_a, trans_b, satfinite, sparse;
    int  sign_a, sign_b;
    u32  nd, na;                  // registers
    u32  k_a, select;             // k of what A holds: half of it if sparse
} Wgmma;

// a[64][k]; b: panels of eight columns, k deep each.
typedef struct Operands { double *a; Four *b; } Operands;

// ---- Descriptors

typedef struct Place { u32 start, lead, stride, mask, span, base; } Place;

static Place place_of(u64 desc) {
    static const u32 masks[] = {0, 7, 3, 1};
    u32 mode = (u32)(desc >> 62);
    return (Place){(u32)(desc & 0x3fff) << 4, (u32)(desc >> 16 & 0x3fff) << 4, (u32)(desc >> 32 & 0x3fff) << 4,
                   masks[mode], mode ? 16 * (masks[mode] + 1) : 0, (u32)(desc >> 49) & 7};
}

// The 16 bytes that hold bytes kb.. of row mn (K-major), or bytes mb.. of column k (MN-major).
static u32 chunk_at(const Place *p, bool mn_major, u32 row, u32 byte) {
    u32 at;
    if (!mn_major) at = p->span ? p->start + row / 8 * p->stride + row % 8 * p->span + byte
                                : p->start + row / 8 * p->stride + row % 8 * 16 + byte / 16 * p->lead;
    else at = p->span ? p->start + byte / p->span * p->lead + byte % p->span + row % 8 * p->span + row / 8 * p->stride
                      : p->start + byte / 16 * p->stride + row % 8 * 16 + row / 8 * p->lead;
    return p->mask ? at ^ (((at >> 7) - p->base) & p->mask) << 4 : at;
}

// Visits the operand's 16-byte chunks: rows x bytes, K-major; k x bytes of mn otherwise.
#define EACH_CHUNK(place, mn_major, mn, k, bits, ...)                                         \
    do {                                                                                      \
        u32 rows_ = (mn_major) ? (k) : (mn), bytes_ = ((mn_major) ? (mn) : (k)) * (bits) / 8; \
        for (u32 row = 0; row < rows_; row++)                                                 \
            for (u32 byte = 0; byte < bytes_; byte += 16) {                                   \
                u32 at = chunk_at(place, mn_major, row, byte) & 0x3ffff;                      \
                __VA_ARGS__;                                                                  \
            }                                                                                 \
    } while (0)

// The elements of 16 bytes.
static void chunk_elements(const uint8_t *from, Type t, double *to) {
    u32 word[4], bits = ptx_type_bits(t), e = 32 / bits;
    uint16_t half[8];
    if (bits == 16) {                                    // the most frequent, in their order
        memcpy(half, from, sizeof half);
        if (t == T_bf16) for (u32 i = 0; i < 8; i++) to[i] = (double)f32_from((u32)half[i] << 16);
        else for (u32 i = 0; i < 8; i++) to[i] = (double)half_to_float(half[i]);
        return;
    }
    memcpy(word, from, sizeof word);
    for (u32 h = 0; h < e; h++) {
        double v[4];
        elements_of(word, 4, t, bits, h, v);
        for (u32 i = 0; i < 4; i++) to[e * i + h] = v[i];
    }
}

// Element (mn, k) goes to out[place[mn] + k * k_step].
static void fetch(const Block *b, u64 desc, bool mn_major, Type t, u32 mn, u32 k, double *out, const u32 *place, u32 k_step) {
    Place p = place_of(desc);
    u32 bits = ptx_type_bits(t), per = 128 / bits;
    EACH_CHUNK(&p, mn_major, mn, k, bits, {
        double v[128];
        u32 first = byte * 8 / bits;
        if (at + 16 <= b->shared_size) chunk_elements(b->shared + at, t, v);
        else memset(v, 0, sizeof v);
        if (mn_major) for (u32 i = 0; i < per; i++) out[place[first + i] + row * k_step] = v[i];
        else for (u32 i = 0; i < per; i++) out[place[row] + (first + i) * k_step] = v[i];
    });
}

// From K / 2 columns of A to K.
static void unpack(Warp *const warps[4], AsyncOp *const ops[4], const Wgmma *t, Operands *o) {
    for (u32 i = 0; i < 64; i++) {
        u32 what, bad = 0;
        double packed[32], *a = o->a + i * t->k;
        memcpy(packed, a, t->k_a * sizeof *packed);
        memset(a, 0, t->k * sizeof *a);
        for (u32 j = 0; j < t->k_a; j++) {
            u32 k = sparse_column(lane32(warps[i / 16], ops[i / 16]->in->e), ptx_type_bits(t->a), t->k, t->select, i % 16, j, &what);
            if (k < t->k) a[k] = packed[j];
            else if (!bad++) emu_fault(warps[i / 16], ops[i / 16]->in, 0, EMU_FAULT_BAD_OPERAND, "metadata 0x%x of row %u of a sparse A", what, i % 16);
        }
    }
}

static void run(Warp *const warps[4], AsyncOp *const ops[4]) {
    const Wgmma *t = ops[0]->in->extra;
    Operands own, *o = &own;
    u32 place[256];
    uint16_t at[256];
    for (u32 i = 0; i < t->k; i++) at[i] = (uint16_t)i;
    o->b = emu_got(aligned_alloc(64, t->k * (64 + t->n) * sizeof *own.a));
    o->a = (double *)o->b + t->k * t->n;
    if (t->registers) {
        u32 e = 32 / ptx_type_bits(t->a);
        for (u32 i = 0; i < 4; i++)
            for (u32 r = 0; r < 4; r++)
                for (u32 h = 0; h < e; h++) {
                    double v[32];
                    elements_of(lane32(warps[i], ops[i]->in->list[t->nd + r]), 32, t->a, 32 / e, h, v);
                    for (u32 l = 0; l < 32; l++) o->a[(16 * i + l / 4 + 8 * (r & 1)) * t->k + e * (l % 4) + h + 4 * e * (r >> 1)] = v[l];
                }
    } else {
        for (u32 i = 0; i < 64; i++) place[i] = i * t->k;
        fetch(warps[0]->block, ops[0]->desc[0], t->trans_a, t->a, 64, t->k_a, o->a, place, 1);
    }
    if (t->sparse) unpack(warps, ops, t, o);
    for (u32 i = 0; i < t->n; i++) place[i] = i / 8 * 8 * t->k + panel_place(i);
    fetch(warps[0]->block, ops[0]->desc[1], t->trans_b, t->b, t->n, t->k, (double *)o->b, place, 8);
    if (t->sign_a * t->sign_b < 0)
        for (u32 i = 0; i < 64 * t->k; i++) o->a[i] = -o->a[i];
    for (u32 i = 0; i < 4; i++)
        for (u32 j = 0; j < t->n / 8; j++) {
            const u32 *regs = ops[i]->in->list + (t->d == T_f16 ? 2 * j : 4 * j), second = t->d == T_f16 ? 1 : 2;
            Four c[32] = {{0}};
            if (ops[i]->scale_d) sums_load(warps[i], t->d, regs, c), sums_load(warps[i], t->d, regs + second, c + 16);
            multiply_exact(o->a + 16 * i * t->k, at, t->k, o->b + 2 * j * t->k, t->k, c, 16);
            sums_store(warps[i], t->d, t->satfinite, regs, c);
            sums_store(warps[i], t->d, t->satfinite, regs + second, c + 16);
        }
    free(o->b);
}

// ---- The warpgroup's queue

static AsyncOp *queued(Warp *w, u32 sequence) {
    AsyncOp *op = w->wgmma_first;
    while (op && op->clock != sequence) op = op->next;
    return op;
}

// Runs what is pending up to `sequence` for all four warps. Needs them to have issued that many.
static void run_until(Warp *w, u32 sequence) {
    Block *b = w->block;
    Warp *warps[4];
    for (u32 i = 0; i < 4; i++) warps[i] = b->warps[(w->id & ~3u) + i];
    for (AsyncOp *op = w->wgmma_first; op && op->clock <= sequence; op = op->next) {
        if (op->done) continue;
        AsyncOp *ops[4];
        bool all = true;
        for (u32 i = 0; i < 4; i++) all &= (ops[i] = queued(warps[i], op->clock)) != NULL;
        if (!all) continue;
        for (u32 i = 0; i < 4; i++) ops[i]->done = true;
        run(warps, ops);
    }
}

static void mark(Warp *w, const Insn *in, const Wgmma *t) {
    if (!w->inflight) w->inflight = emu_got(calloc(1, w->launch->kernel->reg_bytes / 4 + 64));
    for (u32 i = 0; i < in->n; i++)
        if (!(in->list[i] & 3)) w->inflight[in->list[i] >> 2] |= i < t->nd ? 2 : 1;
    if (t->sparse && !(in->e & 3)) w->inflight[in->e >> 2] |= 1;
}

static void check_operand(Warp *w, const Insn *in, Warp *const warps[4], u64 desc, bool mn_major, Type type, u32 mn, u32 k, u32 clock,
                          const u32 *vc, const u32 *fv, char name) {
    Block *b = w->block;
    Place p = place_of(desc);
    char where[160];
    bool told = false, races = w->launch->races, clean = w->launch->options.allow_uninitialised || w->launch->options.partial;
    Access access = shadow_helper(w, in, false, warps[0]->agent + AGENT_WGMMA, clock, vc, fv);
    EACH_CHUNK(&p, mn_major, mn, k, ptx_type_bits(type), {
        if (told) continue;
        if (at < SHARED_START || at + 16 > b->shared_size) {
            shared_describe(w->launch, at, where, sizeof where);
            emu_fault(w, in, 0, EMU_FAULT_OUT_OF_BOUNDS, "the descriptor of %c (start %u, leading %u, stride %u) leads out of shared memory: %s", name, p.start, p.lead, p.stride, where);
            told = true;
            continue;
        }
        if (!clean && !shadow_is_init(b, at, 16)) {
            shared_describe(w->launch, at, where, sizeof where);
            emu_fault(w, in, 0, EMU_FAULT_UNINITIALISED, "wgmma reads %c from shared memory that nothing wrote: %s", name, where);
            told = true;
        }
        if (races) shadow_reach(&access, w, in, b, at, 16);
    });
}

// When the fourth warp has issued an operation it may start: then its operands must be ready.
static void started(Warp *w, const Insn *in, u32 sequence) {
    const Wgmma *t = in->extra;
    Warp *warps[4];
    AsyncOp *ops[4];
    for (u32 i = 0; i < 4; i++) {
        warps[i] = w->block->warps[(w->id & ~3u) + i];
        if (!(ops[i] = queued(warps[i], sequence))) return;
    }
    for (u32 i = 1; i < 4; i++)
        if (ops[i]->in != ops[0]->in || ops[i]->desc[0] != ops[0]->desc[0] || ops[i]->desc[1] != ops[0]->desc[1]) {
            emu_fault_stop(w, in, 0, EMU_FAULT_DIVERGENCE, "the warps of a warpgroup issue different wgmmas, or with different descriptors");
            return;
        }
    u32 *vc = NULL, *fv = NULL, n = w->cluster->clocks;
    if (w->launch->races) {
        vc = vc_new(w->cluster), fv = vc + n;
        for (u32 i = 0; i < 4; i++) vc_join(vc, warps[i]->vc, n), vc_join(fv, warps[i]->fv, n);
    }
    if (!t->registers) check_operand(w, in, warps, ops[0]->desc[0], t->trans_a, t->a, 64, t->k_a, sequence, vc, fv, 'A');
    check_operand(w, in, warps, ops[0]->desc[1], t->trans_b, t->b, t->n, t->k, sequence, vc, fv, 'B');
    free(vc);
    EmuAsync mode = w->launch->options.async;
    if (mode == EMU_ASYNC_EAGER || (mode == EMU_ASYNC_RANDOM && rng_next(&w->rng) & 1)) run_until(w, sequence);
}

static void x_wgmma(Warp *w, const Insn *in) {           // a, b: descriptors; c: scale-d; e: metadata; list: d, then A's registers
    const Wgmma *t = in->extra;
    if (!warp_converge(w, in, 0xffffffffu)) return;
    if ((w->id & ~3u) + 4 > w->block->n_warps) {
        emu_fault_stop(w, in, 0, EMU_FAULT_DIVERGENCE, "wgmma needs a warpgroup of four warps; the block has %u", w->block->n_warps);
        return;
    }
    if (!w->wgmma_fenced) {
        emu_fault(w, in, 0, EMU_FAULT_MISSING_FENCE, "a wgmma with no `wgmma.fence` before it");
        w->wgmma_fenced = true;
    }
    u32 p = *pred(w, in->c);
    if (p && p != 0xffffffffu) emu_fault(w, in, 0, EMU_FAULT_BAD_OPERAND, "scale-d of a wgmma differs between lanes");
    AsyncOp *op = async_new(w, in);
    op->desc[0] = in->a == NO_SLOT ? 0 : lane64(w, in->a)[0];
    op->desc[1] = lane64(w, in->b)[0];
    op->scale_d = p != 0;
    op->group = w->wgmma_group;
    op->clock = ++w->wgmma_clock;
    *w->wgmma_last = op;
    w->wgmma_last = &op->next;
    w->cluster->at_hand = NULL;
    w->n_inflight++;
    w->count.mma_flops += 2ull * 16 * t->n * t->k;
    mark(w, in, t);
    started(w, in, op->clock);
    w->cluster->progress++;
    for (u32 i = 0; i < 4; i++) {                        // someone may wait for this one
        Warp *peer = w->block->warps[(w->id & ~3u) + i];
        for (u32 g = 0; g < peer->n_groups; g++)
            if (peer->groups[g].wait == W_WGMMA) peer->groups[g].wait = READY;
    }
}

static void x_wgmma_fence(Warp *w, const Insn *in) {
    if (warp_converge(w, in, 0xffffffffu)) w->wgmma_fenced = true;
}
static void x_wgmma_commit(Warp *w, const Insn *in) {
    if (warp_converge(w, in, 0xffffffffu)) w->wgmma_group++;
}

static void x_wgmma_wait(Warp *w, const Insn *in) {      // imm: groups that may stay in flight
    if (!warp_converge(w, in, 0xffffffffu)) return;
    u32 last = 0;
    for (AsyncOp *op = w->wgmma_first; op; op = op->next)
        if (op->group + (u32)in->imm < w->wgmma_group) last = op->clock;
    if (!last) return;
    for (u32 i = 0; i < 4; i++)
        if (w->block->warps[(w->id & ~3u) + i]->wgmma_clock < last) {
            warp_block(w, W_WGMMA, last, 0, w->pc - 1);
            return;
        }
    run_until(w, last);
    if (w->launch->races) {
        u32 *known = &w->vc[w->block->warps[w->id & ~3u]->agent + AGENT_WGMMA];
        if (*known < last) *known = last;
    }
    while (w->wgmma_first && w->wgmma_first->clock <= last) {
        AsyncOp *op = w->wgmma_first;
        w->wgmma_first = op->next;
        w->n_inflight--;
        free(op);
    }
    if (!w->wgmma_first) w->wgmma_last = &w->wgmma_first;
    memset(w->inflight, 0, w->launch->kernel->reg_bytes / 4 + 64);
    for (AsyncOp *op = w->wgmma_first; op; op = op->next) mark(w, op->in, op->in->extra);
}

// ---- Decoding

static void registers(Dec *d, const Operand *o, u32 want, bool write, u32 *slots, u32 *n) {
    if (o->kind != O_VEC || o->n != want) dec_error(d, "this wgmma needs %u registers here, not %u", want, o->kind == O_VEC ? o->n : 1);
    for (u32 i = 0; i < want; i++) slots[(*n)++] = write ? dec_dst_op(d, &o->items[i], T_b32) : dec_src_op(d, &o->items[i], T_b32);
}

static void shape(Dec *d, Wgmma *t) {
    for (u32 i = 0; i < d->n_mods; i++) {
        unsigned m, n, k;
        char text[32];
        if (d->used >> i & 1 || d->mods[i].n > 30 || d->mods[i].s[0] != 'm') continue;
        memcpy(text, d->mods[i].s, d->mods[i].n);
        text[d->mods[i].n] = 0;
        if (sscanf(text, "m%un%uk%u", &m, &n, &k) != 3 || m != 64) continue;
        d->used |= 1u << i;
        t->n = n, t->k = k;
        return;
    }
    dec_error(d, "`wgmma.mma_async` needs a shape m64nNkK");
}

static void decode_wgmma(Dec *d) {
    bool fence = dec_mod(d, "fence"), commit = dec_mod(d, "commit_group"), wait = dec_mod(d, "wait_group");
    dec_mod(d, "sync");
    dec_mod(d, "aligned");
    if (fence || commit || wait) {
        dec_count(d, wait, wait);
        int64_t n = wait ? dec_imm(d, 0) : 0;
        if (n < 0 || n > 1000) dec_error(d, "`wgmma.wait_group` of %lld", (long long)n);
        dec_emit(d, fence ? x_wgmma_fence : commit ? x_wgmma_commit : x_wgmma_wait)->imm = n;
        d->module->code[d->module->n_code - 1].cls = EMU_CLASS_BARRIER;
        return;
    }
    if (!dec_mod(d, "mma_async")) dec_error(d, "`wgmma` needs .mma_async, .fence, .commit_group or .wait_group");
    Wgmma *t = dec_alloc(d, sizeof *t);
    slots_own(d);
    t->sparse = dec_mod(d, "sp");
    shape(d, t);
    t->satfinite = dec_mod(d, "satfinite");
    t->d = dec_need_type(d), t->a = dec_need_type(d), t->b = dec_need_type(d);
    u32 bits = ptx_type_bits(t->a);
    t->k_a = bits ? 256 / bits : 0;
    bool f8 = t->a == T_e4m3 || t->a == T_e5m2, i8 = t->a == T_s8 || t->a == T_u8, sixteen = t->a == T_f16 || t->a == T_bf16, b1 = t->a == T_b1;
    bool good = t->k == t->k_a << t->sparse && t->n >= 8 && t->n <= 256 && t->n % 8 == 0;
    if (b1) good &= dec_mod(d, "and") && dec_mod(d, "popc") && t->b == T_b1 && t->d == T_s32 && !t->sparse && (t->n <= 32 || t->n % 16 == 0);
    else if (f8) good &= (t->b == T_e4m3 || t->b == T_e5m2) && (t->d == T_f32 || t->d == T_f16);
    else if (i8) good &= (t->b == T_s8 || t->b == T_u8) && t->d == T_s32 && (t->n <= 32 || t->n % 16 == 0);
    else good &= t->b == t->a && (t->d == T_f32 || (t->d == T_f16 && t->a == T_f16)) && (sixteen || t->a == T_tf32);
    if (!good) dec_error(d, "`wgmma%s.m64n%uk%u` of .%s.%s.%s does not exist", t->sparse ? ".sp" : "", t->n, t->k, ptx_type_name(t->d), ptx_type_name(t->a), ptx_type_name(t->b));
    t->nd = t->d == T_f16 ? t->n / 4 : t->n / 2;
    t->registers = dec_op(d, 1)->kind == O_VEC;
    t->na = t->registers ? 4 : 0;
    t->sign_a = t->sign_b = 1;
    u32 at = t->sparse ? 5 : 3, slots[300], n = 0, meta = NO_SLOT;       // at: of scale-d
    u32 want = at + (i8 || b1 ? 1 : sixteen ? t->registers ? 4 : 5 : 3);
    dec_count(d, want, want);
    if (t->sparse) {
        int64_t select = dec_imm(d, 4), most = bits == 8 ? 0 : 1;
        if (select < 0 || select > most) dec_error(d, "the sparsity selector of this wgmma is from 0 to %d", (int)most);
        t->select = (u32)select;
        meta = dec_src(d, 3, T_b32);
    }
    registers(d, dec_op(d, 0), t->nd, true, slots, &n);
    if (t->registers) registers(d, dec_op(d, 1), 4, false, slots, &n);
    u32 a = t->registers ? NO_SLOT : dec_src(d, 1, T_b64), b = dec_src(d, 2, T_b64), c = dec_pred(d, dec_op(d, at));
    if (!i8 && !b1) {
        t->sign_a = (int)dec_imm(d, at + 1), t->sign_b = (int)dec_imm(d, at + 2);
        if ((t->sign_a != 1 && t->sign_a != -1) || (t->sign_b != 1 && t->sign_b != -1)) dec_error(d, "a wgmma's scales are 1 or -1");
    }
    if (sixteen) {
        if (!t->registers) t->trans_a = dec_imm(d, at + 3) != 0;
        t->trans_b = dec_imm(d, at + (t->registers ? 3 : 4)) != 0;
    }
    Insn *in = dec_emit(d, x_wgmma);
    in->a = a, in->b = b, in->c = c, in->e = meta, in->extra = t;
    memcpy(dec_list(d, in, n), slots, n * sizeof *slots);
}

const InsnDef VARIANT(defs_wgmma)[] = {{"wgmma", decode_wgmma, EMU_CLASS_MMA}, {NULL, NULL, 0}};
