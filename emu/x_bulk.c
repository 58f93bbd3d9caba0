// cp.async.bulk and cp.async.bulk.tensor: issue, commit and wait. What they move is in bulk.c. And clusterlaunchcontrol, whose
// answer comes as a copy of 16 bytes does.
//
// At issue everything is checked (alignment, bounds, barriers, races against what the issuer has not
// synchronised with); the bytes move later, when something waits for them (EmuOptions.async).
#include "emu/bulk.h"

typedef uint32_t u32;
typedef uint64_t u64;

static u64 at_lane(const Warp *w, u32 slot, bool narrow, int64_t imm, int l) {
    return narrow ? (u32)(lane32(w, slot)[l] + (u32)imm) : lane64(w, slot)[l] + (u64)imm;
}

static bool shared_range(Warp *w, const Insn *in, int l, u32 at, u32 size, u32 align, Block **b, u32 *offset) {
    char where[160];
    *b = shared_block(w, at, offset);
    if (*offset & (align - 1)) {
        shared_describe(w->launch, *offset, where, sizeof where);
        emu_fault(w, in, l, EMU_FAULT_MISALIGNED, "a bulk copy needs shared memory aligned to %u bytes: %s", align, where);
        return false;
    }
    if (*b && *offset >= SHARED_START && *offset <= (*b)->shared_size && size <= (*b)->shared_size - *offset) return true;
    shared_describe(w->launch, *offset, where, sizeof where);
    emu_fault(w, in, l, EMU_FAULT_OUT_OF_BOUNDS, "a bulk copy of %u bytes in shared memory: %s", size, where);
    return false;
}

// Where in a block's shared memory it reads or writes.
typedef struct Range { Block *b; u32 offset; } Range;

static bool issue_tensor(Warp *w, const Insn *in, const BulkSpec *s, int l, AsyncOp *op, Range *at) {
    if (op->global & 63) {
        emu_fault(w, in, l, EMU_FAULT_MISALIGNED, "the tensor map is not 64-byte aligned");
        return false;
    }
    for (u32 i = 0; i < 128; i += 16) {
        const uint8_t *p = emu_memory_at(w, in, l, SPACE_GENERIC, op->global + i, 16, false);
        if (!p) return false;
        memcpy(op->map + i, p, 16);
    }
    if (!tensor_check(w, in, l, op->map, s->rank, s->im2col) ||
        !emu_may_touch(w, in, l, tensor_base(op->map), 16, !s->load))
        return false;
    for (u32 i = 0; i < s->rank; i++) op->coord[i] = (int32_t)lane32(w, s->coord[i])[l];
    for (u32 i = 0; i < s->n_offsets; i++) op->offset[i] = (int32_t)(lane32(w, s->offset[i])[l] & 0xffff);
    op->size = tensor_box_bytes(op->map, s->im2col);
    op->extent = op->size / tensor_inner(op->map) * tensor_pitch(op->map);
    return tensor_aligned(w, in, l, op->map, op->coord[0]) &&
           shared_range(w, in, l, op->shared, op->extent, 128, &at->b, &at->offset);
}

// From one block's shared memory to another's: the bytes are taken at once.
static bool take_shared(Warp *w, const Insn *in, int l, AsyncOp *op) {
    Range from;
    if (!shared_range(w, in, l, (u32)op->global, op->size, 16, &from.b, &from.offset)) return false;
    op->bytes = emu_got(malloc(op->size + 16));
    memcpy(op->bytes, from.b->shared + from.offset, op->size);
    if (w->launch->races)
        shadow_async(w, in, from.b, from.offset, op->size, false, w->agent + AGENT_BULK, w->bulk_clock, w->vc, w->fv);
    return true;
}

static bool global_range(Warp *w, const Insn *in, const BulkSpec *s, int l, const AsyncOp *op) {
    char where[160];
    memory_describe(w->launch->context, op->global, op->size, where, sizeof where);
    if (op->global & 15) {
        emu_fault(w, in, l, EMU_FAULT_MISALIGNED, "a bulk copy needs global memory aligned to 16 bytes: %s", where);
        return false;
    }
    if (!emu_may_touch(w, in, l, op->global, op->size, !s->load)) return false;
    if (emu_host(w->launch->context, op->global, op->size)) return true;
    emu_fault(w, in, l, EMU_FAULT_OUT_OF_BOUNDS, "a bulk copy %s %u bytes: %s", s->load ? "reads" : "writes", op->size, where);
    return false;
}

static bool issue_bytes(Warp *w, const Insn *in, const BulkSpec *s, int l, AsyncOp *op, Range *at) {
    op->extent = op->size = lane32(w, s->size)[l];
    if (op->size & 15) {
        emu_fault(w, in, l, EMU_FAULT_MISALIGNED, "a bulk copy of %u bytes, not a multiple of 16", op->size);
        return false;
    }
    if (!shared_range(w, in, l, op->shared, op->size, 16, &at->b, &at->offset)) return false;
    if (s->to_cluster) return take_shared(w, in, l, op);
    return !op->size || global_range(w, in, s, l, op);
}

// It will write so many bytes into the block, or into all blocks of a multicast.
static void issue_load(Warp *w, const Insn *in, AsyncOp *op, Range at, u32 bytes) {
    op->kind = ASYNC_LOAD, op->run = bulk_load, op->clock = w->bulk_clock++;
    if (!w->launch->races) return;
    for (u32 r = 0; r < w->cluster->n_blocks; r++)
        if (op->blocks ? op->blocks >> r & 1 : &w->cluster->blocks[r] == at.b)
            shadow_async(w, in, &w->cluster->blocks[r], at.offset, bytes, true, w->agent + AGENT_BULK, op->clock, w->vc, NULL);
}

static bool issue(Warp *w, const Insn *in, const BulkSpec *s, int l, AsyncOp *op) {
    u64 dst = at_lane(w, s->dst, s->narrow_dst, s->dst_imm, l), src = at_lane(w, s->src, s->narrow_src, s->src_imm, l);
    Range at;
    op->lane = (uint8_t)l;
    op->shared = (u32)(s->load ? dst : src);
    op->global = s->load ? src : dst;
    if (s->load) {
        op->mbar = (u32)at_lane(w, s->mbar, s->narrow_mbar, s->mbar_imm, l);
        op->blocks = s->mask == NO_SLOT ? 0 : lane32(w, s->mask)[l] & 0xffff;
        if (op->blocks >> w->cluster->n_blocks) {
            emu_fault(w, in, l, EMU_FAULT_BAD_OPERAND, "a multicast to blocks 0x%x of a cluster of %u", op->blocks,
                      w->cluster->n_blocks);
            return false;
        }
    }
    if (!(s->tensor ? issue_tensor : issue_bytes)(w, in, s, l, op, &at)) return false;
    if (s->load) {
        issue_load(w, in, op, at, op->extent);
        return true;
    }
    op->kind = ASYNC_STORE, op->run = bulk_store, op->read = bulk_read, op->clock = w->store_clock++;
    op->group = w->bulk_group[l];
    if (w->launch->races) shadow_async(w, in, at.b, at.offset, op->extent, false, w->agent + AGENT_STORE, op->clock, w->vc, w->fv);
    return true;
}

static void x_bulk(Warp *w, const Insn *in) {
    const BulkSpec *s = in->extra;
    EACH_ACTIVE({
        AsyncOp *op = async_new(w, in);
        if (issue(w, in, s, l, op)) async_append(w->cluster, op);
        else async_drop(w->cluster);
    });
}

// clusterlaunchcontrol.try_cancel: the next cluster that has not begun is not launched, and its first block's number is the answer:
// {x, y, z, 1}, or {0, 0, 0, 0} where there is none left. aux: to all blocks of the cluster.
static void x_try_cancel(Warp *w, const Insn *in) {
    const BulkSpec *s = in->extra;
    Launch *launch = w->launch;
    EACH_ACTIVE({
        AsyncOp *op = async_new(w, in);
        Block *b;
        u32 offset;
        op->lane = (uint8_t)l;
        op->shared = (u32)at_lane(w, s->dst, s->narrow_dst, s->dst_imm, l);
        op->mbar = (u32)at_lane(w, s->mbar, s->narrow_mbar, s->mbar_imm, l);
        op->blocks = in->aux ? (1u << w->cluster->n_blocks) - 1 : 0;
        op->size = op->extent = 16;
        if (!shared_range(w, in, l, op->shared, 16, 16, &b, &offset)) {
            free(op);
            continue;
        }
        u32 answer[4] = {0};
        u64 i = atomic_fetch_add(&launch->next_cluster, 1);
        for (u32 k = 0; k < 3 && i < launch->n_clusters; k++) {
            u32 n = launch->grid[k] / launch->cluster[k];
            answer[k] = (u32)(i % n) * launch->cluster[k];
            i /= n;
            answer[3] = 1;
        }
        op->bytes = emu_got(malloc(2 * sizeof answer));
        memcpy(op->bytes, answer, sizeof answer);
        issue_load(w, in, op, (Range){b, offset}, 16);
        async_append(w->cluster, op);
    });
}

static void x_query_cancel(Warp *w, const Insn *in) {    // imm: -1 whether, else which coordinate
    EACH_ACTIVE({
        const u32 *answer = (const u32 *)slot_at(w, in->a) + 4 * l;
        if (in->imm >= 0) lane32(w, in->d)[l] = answer[in->imm];
        else *pred(w, in->d) = blend_pred(*pred(w, in->d), answer[3] ? ~0u : 0, 1u << l);
    });
}

static void x_commit(Warp *w, const Insn *in) {
    (void)in;
    EACH_ACTIVE(w->bulk_group[l]++);
}

static void x_wait(Warp *w, const Insn *in) {            // imm: groups that may stay, aux: .read
    Cluster *c = w->cluster;
    u32 oldest = w->store_clock;
    for (AsyncOp *op = async_next(c, NULL); op; op = async_next(c, op)) {
        if (op->warp != w || op->kind != ASYNC_STORE || op->done) continue;
        if (!(w->active >> op->lane & 1) || op->group + (u32)in->imm >= w->bulk_group[op->lane]) {
            if (!op->read_done && op->clock < oldest) oldest = op->clock;
            continue;
        }
        if (in->aux) op->read(op);
        else op->run(op);
    }
    async_sweep(c);
    if (w->launch->races && w->vc[w->agent + AGENT_STORE] < oldest - 1) w->vc[w->agent + AGENT_STORE] = oldest - 1;
}

static void x_hint(Warp *w, const Insn *in) { (void)w, (void)in; }

static void address_part(Dec *d, const Operand *o, uint8_t space, u32 *slot, int64_t *imm, bool *narrow) {
    Insn at = {0};
    dec_address(d, o, &at, space);
    *slot = at.a, *imm = at.imm, *narrow = at.flags & ADDR32;
    if (at.space == SPACE_PARAM && space != SPACE_SHARED && space != SPACE_CLUSTER) *imm |= (int64_t)PARAM_WINDOW;
}

static void coordinates(Dec *d, const Operand *o, BulkSpec *s) {
    if (o->kind != O_ADDR || o->n != 1 || o->items[0].kind != O_VEC || o->items[0].n != s->rank)
        dec_error(d, "a tensor copy of %u dimensions needs [map, {%u coordinates}]", s->rank, s->rank);
    for (u32 i = 0; i < s->rank; i++) s->coord[i] = dec_src_op(d, &o->items[0].items[i], T_b32);
}

// The instruction that `s` is of, as it is when all of it is known.
static Insn *emit(Dec *d, InsnFn *fn, BulkSpec *s) {
    uint32_t *slots[] = {&s->dst, &s->src, &s->mbar, &s->size, &s->mask};
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) slots_place(d, slots[i]);
    for (u32 i = 0; i < s->rank; i++) slots_place(d, &s->coord[i]);
    for (u32 i = 0; i < s->n_offsets; i++) slots_place(d, &s->offset[i]);
    Insn *in = dec_emit(d, fn);
    in->extra = s;
    return in;
}

static void query_cancel(Dec *d) {
    static const char *const parts[] = {"get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"};
    bool whether = dec_mod(d, "is_canceled"), all = dec_mod(d, "get_first_ctaid");
    int part = -1;
    for (int i = 0; i < 3; i++) if (dec_mod(d, parts[i])) part = i;
    dec_mod(d, "v4");
    Type t = dec_need_type(d), from = dec_need_type(d);
    dec_count(d, 2, 2);
    if (whether + all + (part >= 0) != 1 || t != (whether ? T_pred : T_b32) || from != T_b128)
        dec_error(d, "`clusterlaunchcontrol.query_cancel` is .is_canceled.pred.b128, or .get_first_ctaid of .b32.b128");
    const Operand *to = dec_op(d, 0);
    if (all && (to->kind != O_VEC || to->n != 4)) dec_error(d, "`.get_first_ctaid.v4` gives four registers");
    u32 a = dec_src(d, 1, T_b128);
    for (u32 i = 0; i < (all ? 3u : 1u); i++) {
        u32 dst = whether ? dec_pred_dst(d, to) : all ? dec_dst_op(d, &to->items[i], T_b32) : dec_dst(d, 0, T_b32);
        Insn *in = dec_emit(d, x_query_cancel);
        in->d = dst, in->a = a, in->imm = whether ? -1 : all ? (int64_t)i : part;
    }
}

static void decode_launch_control(Dec *d) {
    if (dec_mod(d, "query_cancel")) { query_cancel(d); return; }
    if (!dec_mod(d, "try_cancel") || !dec_mod(d, "async")) dec_error(d, "`clusterlaunchcontrol` needs .try_cancel.async or .query_cancel");
    BulkSpec *s = dec_alloc(d, sizeof *s);
    *s = (BulkSpec){.load = true, .to_cluster = true, .reduce = -1, .src = NO_SLOT, .size = NO_SLOT, .mask = NO_SLOT};
    bool own = dec_mod(d, "shared::cta"), mbar = dec_mod(d, "mbarrier::complete_tx::bytes"), all = dec_mod(d, "multicast::cluster::all");
    dec_count(d, 2, 2);
    if (!mbar || dec_need_type(d) != T_b128) dec_error(d, "`clusterlaunchcontrol.try_cancel` needs .mbarrier::complete_tx::bytes and .b128");
    uint8_t space = own ? SPACE_SHARED : SPACE_GENERIC;
    address_part(d, dec_op(d, 0), space, &s->dst, &s->dst_imm, &s->narrow_dst);
    address_part(d, dec_op(d, 1), space, &s->mbar, &s->mbar_imm, &s->narrow_mbar);
    emit(d, x_try_cancel, s)->aux = all;
}

static int reduction(Dec *d) {
    static const char *const names[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
    for (int i = 0; i < 8; i++)
        if (dec_mod(d, names[i])) return i;
    dec_error(d, "`cp.reduce.async.bulk` needs an operation");
}

// What the modifiers say, as far as it is not the copy's own.
typedef struct Form { bool prefetch, offsets, group, mbar, multicast; int first, second; } Form;

enum { AT_GLOBAL, AT_SHARED, AT_CLUSTER };               // what Form.first, the destination, and second, the source, name; -1: nothing

static bool decode_groups(Dec *d) {
    if (dec_mod(d, "commit_group")) {
        dec_count(d, 0, 0);
        dec_emit(d, x_commit);
        return true;
    }
    if (!dec_mod(d, "wait_group")) return false;
    bool read = dec_mod(d, "read");
    dec_count(d, 1, 1);
    int64_t n = dec_imm(d, 0);
    if (n < 0 || n > 1 << 20) dec_error(d, "`cp.async.bulk.wait_group` of %lld", (long long)n);
    Insn *in = dec_emit(d, x_wait);
    in->imm = n, in->aux = read;
    return true;
}

static void decode_places(Dec *d, Form *f) {
    static const char *const names[] = {[AT_GLOBAL] = "global", [AT_SHARED] = "shared::cta", [AT_CLUSTER] = "shared::cluster"};
    f->first = f->second = -1;
    for (u32 i = 0; i < d->n_mods; i++)
        for (int what = 0; what < 3; what++) {
            if (!ptx_str_is(d->mods[i], names[what])) continue;
            d->used |= 1u << i;
            *(f->first < 0 ? &f->first : &f->second) = what;
        }
}

static Form decode_form(Dec *d, BulkSpec *s, bool reduce) {
    static const char *const ranks[] = {"1d", "2d", "3d", "4d", "5d"};
    Form f = {.prefetch = dec_mod(d, "prefetch")};
    if (f.prefetch && !dec_mod(d, "L2")) dec_error(d, "a bulk prefetch needs .L2");
    s->tensor = dec_mod(d, "tensor");
    for (u32 i = 0; s->tensor && i < 5; i++)
        if (dec_mod(d, ranks[i])) s->rank = i + 1;
    if (s->tensor && !s->rank) dec_error(d, "a tensor copy needs .1d to .5d");
    dec_mod(d, "tile");
    s->im2col = dec_mod(d, "im2col_no_offs");
    f.offsets = dec_mod(d, "im2col");
    s->im2col |= f.offsets;
    f.group = dec_mod(d, "bulk_group"), f.mbar = dec_mod(d, "mbarrier::complete_tx::bytes"), f.multicast = dec_mod(d, "multicast::cluster");
    dec_mod(d, "cta_group::1");
    if (reduce) s->reduce = reduction(d);
    decode_places(d, &f);
    dec_cache_hints(d);
    return f;
}

static void decode_reduced(Dec *d, BulkSpec *s) {
    dec_mod(d, "noftz");
    if (!s->tensor) s->type = dec_need_type(d);
    if (!s->tensor && (ptx_type_bits(s->type) < 16 || ptx_type_bits(s->type) > 64))
        dec_error(d, "a bulk reduction of .%s", ptx_type_name(s->type));
    if (s->type == T_b32 || s->type == T_b64) s->type = s->type == T_b32 ? T_u32 : T_u64;
}

// Destination and source; how many operands they are.
static u32 decode_ends(Dec *d, BulkSpec *s, const Form *f) {
    const Operand *dst = dec_op(d, 0), *src = dec_op(d, 1);
    if (s->tensor) {
        const Operand *map = s->load ? src : dst, *mem = s->load ? dst : src;
        coordinates(d, map, s);
        address_part(d, mem, s->load && f->first != AT_SHARED ? SPACE_CLUSTER : SPACE_SHARED, s->load ? &s->dst : &s->src,
                     s->load ? &s->dst_imm : &s->src_imm, s->load ? &s->narrow_dst : &s->narrow_src);
        address_part(d, map, SPACE_GENERIC, s->load ? &s->src : &s->dst, s->load ? &s->src_imm : &s->dst_imm,
                     s->load ? &s->narrow_src : &s->narrow_dst);
        return 2;
    }
    address_part(d, dst, f->first ? SPACE_CLUSTER : SPACE_GLOBAL, &s->dst, &s->dst_imm, &s->narrow_dst);
    address_part(d, src, f->second ? SPACE_CLUSTER : SPACE_GLOBAL, &s->src, &s->src_imm, &s->narrow_src);
    s->size = dec_src(d, 2, T_u32);
    return 3;
}

static void decode_operands(Dec *d, BulkSpec *s, const Form *f) {
    u32 i = decode_ends(d, s, f);
    if (s->load) address_part(d, dec_op(d, i++), SPACE_CLUSTER, &s->mbar, &s->mbar_imm, &s->narrow_mbar);
    if (f->offsets && s->load) {
        const Operand *o = dec_op(d, i++);
        if (o->kind != O_VEC || o->n + 2 != s->rank)
            dec_error(d, "an im2col copy of %u dimensions needs %u offsets", s->rank, s->rank - 2);
        s->n_offsets = o->n;
        for (u32 k = 0; k < o->n; k++) s->offset[k] = dec_src_op(d, &o->items[k], T_u16);
    }
    if (f->multicast) s->mask = dec_src(d, i++, T_u16);
    if (i != d->n_ops) dec_error(d, "a bulk copy with %u operands too many", d->n_ops - i);
}

void VARIANT(decode_bulk)(Dec *d, bool reduce) {
    if (reduce && (!dec_mod(d, "async") || !dec_mod(d, "bulk"))) dec_error(d, "`cp.reduce` needs .async.bulk");
    if (decode_groups(d)) return;
    BulkSpec *s = dec_alloc(d, sizeof *s);
    s->reduce = -1, s->mask = s->mbar = s->size = NO_SLOT;
    Form f = decode_form(d, s, reduce);
    if (f.prefetch) {
        dec_emit(d, x_hint);
        return;
    }
    if (f.first < 0 || (f.second < 0 && !(s->tensor && f.first == AT_GLOBAL)))
        dec_error(d, "a bulk copy needs a destination and a source");
    s->load = f.first != AT_GLOBAL;
    s->to_cluster = s->load && f.second == AT_SHARED;
    if (s->load != f.mbar || s->load == f.group)
        dec_error(d, "a bulk %s needs %s", s->load ? "load" : "store", s->load ? ".mbarrier::complete_tx::bytes" : ".bulk_group");
    if (reduce) decode_reduced(d, s);
    decode_operands(d, s, &f);
    emit(d, x_bulk, s);
}

const InsnDef VARIANT(defs_bulk)[] = {{"clusterlaunchcontrol", decode_launch_control, EMU_CLASS_ASYNC}, {NULL, NULL, 0}};
