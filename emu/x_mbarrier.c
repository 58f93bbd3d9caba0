// mbarrier instructions, and what arrives on one when it completes: cp.async.mbarrier.arrive, st.async,
// red.async.
//
// try_wait parks its lanes until the phase completes: the hardware suspends them "for a time", and a loop
// around it is the only use. Should nothing else be able to move it answers no (launch.c). test_wait
// answers at once and gives way to other warps.
#include "emu/exec.h"

typedef uint32_t u32;
typedef uint64_t u64;

static u64 lane_address(const Warp *w, const Insn *in, int l) {
    return in->flags & ADDR32 ? (u32)(lane32(w, in->a)[l] + (u32)in->imm) : lane64(w, in->a)[l] + (u64)in->imm;
}

// The mbarrier that lane l names, with its block; NULL (and a fault) if there is none.
static Mbarrier *mbar_at(Warp *w, const Insn *in, int l, Block **b, u32 *full) {
    u32 at = (u32)lane_address(w, in, l), offset;
    char where[160];
    *b = shared_block(w, at, &offset);
    *full = at;
    Mbarrier *m = *b ? mbar_find(*b, offset) : NULL;
    if (m && block_gone(w, in, l, *b)) return NULL;
    if (m && (*b == w->block || in->space != SPACE_SHARED)) return m;
    shared_describe(w->launch, offset, where, sizeof where);
    if (m)
        emu_fault(w, in, l, EMU_FAULT_OUT_OF_BOUNDS,
                  "the mbarrier at %s is in another block's shared memory, which needs .shared::cluster", where);
    else emu_fault(w, in, l, EMU_FAULT_BAD_OPERAND, "%s is no initialised mbarrier", where);
    return NULL;
}

static void x_init(Warp *w, const Insn *in) {            // aux: inval
    EACH_ACTIVE({
        u32 at = (u32)lane_address(w, in, l); u32 offset; Block *b = shared_block(w, at, &offset);
        u32 count = in->b == NO_SLOT ? 0 : lane32(w, in->b)[l];
        uint8_t *p = emu_memory_at(w, in, l, SPACE_SHARED, at, 8, true);
        if (!p) continue;
        if (in->aux) { mbar_drop(b, offset); continue; }
        if (!count || count >= 1u << 20) {
            emu_fault(w, in, l, EMU_FAULT_BAD_OPERAND, "`mbarrier.init` with a count of %u", count);
            continue;
        }
        mbar_init(b, offset, count);
        memcpy(p, &(u64){0x6d62617272696572ull}, 8);
    });
}

enum { ARRIVE = 1, EXPECT = 2, DROP = 4, RELEASE = 8, COMPLETE = 16 };

static void x_arrive(Warp *w, const Insn *in) {          // b: count, c: bytes; aux: what
    EACH_ACTIVE({
        Block *b; u32 at; Mbarrier *m = mbar_at(w, in, l, &b, &at);
        if (!m) continue;
        u32 count = in->aux & ARRIVE ? in->b == NO_SLOT ? 1 : lane32(w, in->b)[l] : 0;
        int64_t bytes = in->c == NO_SLOT ? 0 : (int64_t)lane32(w, in->c)[l];
        if (in->d != NO_SLOT) lane64(w, in->d)[l] = m->phase << 32 | ((u64)m->pending & 0xffffffff);
        if (in->aux & DROP) m->count -= count;
        if (in->aux & COMPLETE) { m->tx -= bytes; mbar_check(b, m); continue; }
        if (in->aux & ARRIVE) mbar_arrive(w, in, l, b, m, count, bytes, in->aux & RELEASE);
        else m->tx += bytes;
    });
}

static void x_wait(Warp *w, const Insn *in) {            // b: parity or state; aux: 1 parity, 2 try
    u32 done = 0, ats[32], first = (u32)__builtin_ctz(w->active), *d = pred(w, in->d);
    bool same = true;
    EACH_ACTIVE({
        Block *b; u32 at; Mbarrier *m = mbar_at(w, in, l, &b, &at);
        ats[l] = at;
        same &= at == ats[first];
        if (!m) { done |= 1u << l; continue; }
        bool yes = in->aux & 1 ? (m->phase & 1) != (lane32(w, in->b)[l] & 1) : m->phase != lane64(w, in->b)[l] >> 32;
        if (yes && w->launch->races && !(in->flags & F_RELAXED)) vc_acquire(w, m->vc_done);
        done |= (u32)yes << l;
    });
    if (!done && in->aux & 2 && same && !w->cluster->give_up) {
        warp_block(w, W_MBARRIER, ats[first], in->aux & 1 ? lane32(w, in->b)[first] & 1 : 0, w->pc - 1);
        return;
    }
    *d = blend_pred(*d, done, w->active);
    if (done != w->active) {
        w->event |= EV_YIELD;
        w->polled = true;
    }
}

static void x_pending(Warp *w, const Insn *in) {
    EACH_ACTIVE(lane32(w, in->d)[l] = (u32)lane64(w, in->a)[l]);
}

static uint8_t mbar_space(Dec *d) {
    uint8_t space = dec_space(d);
    return space == SPACE_GENERIC ? SPACE_CLUSTER : space;
}

static void decode_arrive(Dec *d, int what) {
    bool acquire, release, relaxed = dec_has(d, "relaxed"), no_complete = dec_mod(d, "noComplete");
    dec_sem(d, &acquire, &release);
    if (!relaxed) what |= RELEASE;
    uint8_t space = mbar_space(d);
    if (dec_need_type(d) != T_b64) dec_error(d, "an mbarrier is .b64");
    bool state = what & (ARRIVE | DROP) && d->n_ops && d->ops[0].kind != O_ADDR;
    uint32_t first = state ? 1 : 0;
    bool bytes = what & (EXPECT | COMPLETE);
    dec_count(d, first + 1 + (bytes || no_complete), first + 2);
    Insn at = {0};
    dec_address(d, dec_op(d, first), &at, space);
    uint32_t b = !bytes && d->n_ops > first + 1 ? dec_src(d, first + 1, T_b32) : NO_SLOT,
             c = bytes ? dec_src(d, first + 1, T_b32) : NO_SLOT;
    uint32_t to = state && dec_op(d, 0)->kind != O_SINK ? dec_dst(d, 0, T_b64) : NO_SLOT;
    Insn *in = dec_emit(d, x_arrive);
    in->a = at.a, in->imm = at.imm, in->flags = at.flags, in->space = space;
    in->b = b, in->c = c, in->d = to, in->aux = what;
}

static void decode_mbarrier(Dec *d) {
    bool init = dec_mod(d, "init"), inval = dec_mod(d, "inval");
    if (init || inval) {
        uint8_t space = mbar_space(d);
        dec_need_type(d);
        dec_count(d, init ? 2 : 1, init ? 2 : 1);
        Insn at = {0};
        dec_address(d, dec_op(d, 0), &at, space);
        uint32_t b = init ? dec_src(d, 1, T_b32) : NO_SLOT;
        Insn *in = dec_emit(d, x_init);
        in->a = at.a, in->imm = at.imm, in->flags = at.flags, in->space = space, in->b = b, in->aux = inval;
        return;
    }
    if (dec_mod(d, "arrive")) { decode_arrive(d, ARRIVE | (dec_mod(d, "expect_tx") ? EXPECT : 0)); return; }
    if (dec_mod(d, "arrive_drop")) { decode_arrive(d, ARRIVE | DROP | (dec_mod(d, "expect_tx") ? EXPECT : 0)); return; }
    if (dec_mod(d, "expect_tx")) { decode_arrive(d, EXPECT); return; }
    if (dec_mod(d, "complete_tx")) { decode_arrive(d, COMPLETE); return; }
    if (dec_mod(d, "pending_count")) {
        dec_need_type(d);
        dec_count(d, 2, 2);
        uint32_t a = dec_src(d, 1, T_b64), to = dec_dst(d, 0, T_b32);
        Insn *in = dec_emit(d, x_pending);
        in->a = a, in->d = to;
        return;
    }
    bool try = dec_mod(d, "try_wait");
    if (!try && !dec_mod(d, "test_wait")) {
        if (d->n_mods) dec_error(d, "unknown instruction `mbarrier.%.*s`", (int)d->mods[0].n, d->mods[0].s);
        dec_error(d, "`mbarrier` needs an operation");
    }
    bool acquire, release, relaxed = dec_has(d, "relaxed"), parity = dec_mod(d, "parity");
    dec_sem(d, &acquire, &release);
    uint8_t space = mbar_space(d);
    dec_need_type(d);
    dec_count(d, 3, 4);
    Insn at = {0};
    dec_address(d, dec_op(d, 1), &at, space);
    uint32_t b = dec_src(d, 2, parity ? T_b32 : T_b64), p = dec_pred_dst(d, dec_op(d, 0));
    Insn *in = dec_emit(d, x_wait);
    in->a = at.a, in->imm = at.imm, in->flags = (uint8_t)(at.flags | (relaxed ? F_RELAXED : 0)), in->space = space;
    in->b = b, in->d = p, in->aux = (parity ? 1 : 0) | (try ? 2 : 0);
}

// ---- cp.async.mbarrier.arrive: an arrival once this lane's earlier cp.async are done. They are done here:
//      a later moment would only be seen by a wait that does not use the mbarrier.

static void x_copy_arrive(Warp *w, const Insn *in) {     // aux: noinc
    EACH_ACTIVE(w->copy_group[l]++);
    copies_wait(w, w->active, 0);
    EACH_ACTIVE({
        Block *b; u32 at; Mbarrier *m = mbar_at(w, in, l, &b, &at);
        if (!m) continue;
        if (!in->aux) m->pending++;
        mbar_arrive(w, in, l, b, m, 1, 0, true);
    });
}
void VARIANT(decode_copy_arrive)(Dec *d) {
    if (!dec_mod(d, "arrive")) dec_error(d, "`cp.async.mbarrier` needs .arrive");
    bool noinc = dec_mod(d, "noinc");
    uint8_t space = mbar_space(d);
    dec_need_type(d);
    dec_count(d, 1, 1);
    Insn at = {0};
    dec_address(d, dec_op(d, 0), &at, space);
    Insn *in = dec_emit(d, x_copy_arrive);
    in->a = at.a, in->imm = at.imm, in->flags = at.flags, in->space = space, in->aux = noinc;
}

// ---- st.async and red.async: to a block of the cluster, with complete_tx on its mbarrier. That releases, at the scope of the cluster,
//      what the lane has done before: who has waited for the bytes may write where the sender has read.

static void run_store(AsyncOp *op) {
    const Insn *in = op->in;
    u32 offset, size = ptx_type_bits((Type)in->type) / 8;
    Block *b = shared_block(op->warp, op->shared, &offset);
    if (in->aux < 0) memcpy(b->shared + offset, op->bytes, op->size);
    else for (u32 v = 0; v < in->vec; v++) {
        u64 x = 0;
        memcpy(&x, op->bytes + v * size, size);
        atomic_apply(b->shared + offset + v * size, (int)in->aux, (Type)in->type, x);
    }
    shadow_init(b, offset, op->size);
    mbar_complete(op, op->mbar, op->size);
    op->done = true;
}

static void x_store_async(Warp *w, const Insn *in) {     // list: values, then the mbarrier's address; c's imm in extra
    u32 size = ptx_type_bits((Type)in->type) / 8, bytes = size * in->vec;
    EACH_ACTIVE({
        u32 at = (u32)lane_address(w, in, l); u32 offset; Block *b = shared_block(w, at, &offset);
        u32 mbar = (in->flags & F_MBAR32 ? lane32(w, in->c)[l] : (u32)lane64(w, in->c)[l]) + (u32)(intptr_t)in->extra;
        char where[160];
        if (!b || offset < SHARED_START || offset > b->shared_size || bytes > b->shared_size - offset ||
            offset & (bytes - 1)) {
            shared_describe(w->launch, offset, where, sizeof where);
            emu_fault(w, in, l, EMU_FAULT_OUT_OF_BOUNDS, "asynchronous store of %u bytes to shared memory: %s", bytes,
                      where);
            continue;
        }
        AsyncOp *op = async_new(w, in);
        op->kind = ASYNC_LOAD, op->lane = (uint8_t)l, op->run = run_store, op->shared = at, op->size = bytes,
        op->mbar = mbar;
        op->clock = w->bulk_clock++;
        op->bytes = emu_got(malloc(bytes));
        for (u32 v = 0; v < in->vec; v++)
            memcpy(op->bytes + v * size, (char *)slot_at(w, in->list[v]) + (size == 8 ? 8 : 4) * l, size);
        if (w->launch->races) {
            shadow_async(w, in, b, offset, bytes, true, w->agent + AGENT_BULK, op->clock, w->vc, NULL);
            op->vc = vc_new(w->cluster);
            vc_release(w, op->vc);
        }
        async_append(w->cluster, op);
    });
}

static void store_async(Dec *d, int op) {
    bool acquire, release;
    dec_sem(d, &acquire, &release);
    dec_space(d);
    uint32_t vec = dec_mod(d, "v2") ? 2 : dec_mod(d, "v4") ? 4 : 1;
    if (!dec_mod(d, "mbarrier::complete_tx::bytes"))
        dec_error(d, "an asynchronous store needs .mbarrier::complete_tx::bytes");
    Type t = dec_need_type(d);
    dec_count(d, 3, 3);
    Insn at = {0}, mbar = {0};
    dec_address(d, dec_op(d, 0), &at, SPACE_CLUSTER);
    dec_address(d, dec_op(d, 2), &mbar, SPACE_CLUSTER);
    const Operand *o = dec_op(d, 1), *items = o->kind == O_VEC ? o->items : o;
    if ((o->kind == O_VEC ? o->n : 1) != vec || ptx_type_bits(t) < 32 || ptx_type_bits(t) > 64)
        dec_error(d, "an asynchronous store of %u .%s", vec, ptx_type_name(t));
    uint32_t slots[4];
    for (uint32_t i = 0; i < vec; i++) slots[i] = dec_src_op(d, &items[i], t);
    Insn *in = dec_emit(d, x_store_async);
    in->a = at.a, in->imm = at.imm, in->flags = (uint8_t)(at.flags | (mbar.flags & ADDR32 ? F_MBAR32 : 0)),
    in->space = SPACE_CLUSTER;
    in->c = mbar.a, in->extra = (const void *)(intptr_t)mbar.imm, in->vec = (uint8_t)vec, in->type = (uint8_t)t,
    in->aux = op, in->cls = EMU_CLASS_ASYNC;
    memcpy(dec_list(d, in, vec), slots, vec * sizeof *slots);
}
void VARIANT(decode_st_async)(Dec *d) { store_async(d, -1); }
void VARIANT(decode_red_async)(Dec *d) {
    static const char *const names[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
    for (int i = 0; i < 8; i++)
        if (dec_mod(d, names[i])) { store_async(d, i); return; }
    dec_error(d, "`red.async` needs an operation");
}

const InsnDef VARIANT(defs_mbarrier)[] = {{"mbarrier", decode_mbarrier, EMU_CLASS_BARRIER}, {NULL, NULL, 0}};
