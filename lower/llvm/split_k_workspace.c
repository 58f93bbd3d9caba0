// Parts of tiles in scratch memory: how programs that share a loop hand their sums to the one that joins them.
//
//     counts      one word a tile, zero between launches
//     parts       tile 0: part 0, part 1 ..   tile 1: ..     a part: its values, one after another
//     a value     register by register as its threads hold it, 16 bytes a thread at a time where four registers are left
//
// A value's layout is the same in every program, so nothing is rearranged: a thread reads what the same thread of the
// other programs wrote. Registers that are past the end of their axis whatever the launch are left out; a thread whose
// lanes are all dead reads what another one does, which is no traffic. When all threads have stored (a barrier), one counts
// the arrival: its atomic operation releases what the barrier has shown it, and acquires for the others, behind a second
// barrier, what other programs' have released. Who finds all others counted joins, and sets the count back for the next
// launch.
//
// Where all parts go on (PUT_all, pass/cluster_rows.c), each waits until all are counted. There are two words a tile then: arrivals, and who has seen all of them; the
// last of these sets both back. A kernel whose programs meet several times has words and parts for each time.
//
// Threads that hold the same elements (a sum over everything is one number, which all hold) share the joining: only the
// first of them writes, the k-th of R reads the parts k, k + R .. of what the first of each program wrote, and the R results
// are joined as in a reduction. The order is fixed by R, so results are still the same from run to run.
#include "lower/llvm/split_k_workspace.h"
#include "lower/pass/reduction.h"

#include <math.h>

enum { FULL_UNROLL = 256 };                  // loads a thread, up to which joining is straight-line code

int part_unit(const Val *v) { return v->type.ptr || elem_bits((Elem)v->type.elem) > 32 ? 8 : 4; }
static int64_t threads_of(const Gen *g) { return (int64_t)g->f->warps * 32; }
int part_regs(const Val *v) { return v->type.rank ? layout_regs(v->layout) : 1; }

static int64_t value_offset(const Fn *f, const Op *put, int value) {
    int64_t at = 0;
    for (int i = 0; i < value; i++) at += (int64_t)part_regs(put->in[2 + i]) * part_unit(put->in[2 + i]);
    return at * f->warps * 32;
}

// Where programs meet several times: how often, or before this time; and what a part puts then.
static int64_t met(const Fn *f, const Op *until, int *times) {
    int64_t bytes = 0;
    *times = 0;
    for (const Op *op = op_walk(&f->body, NULL); op && op != until; op = op_walk(&f->body, op)) {
        if (op_put_in(op) != PUT_all) continue;
        bytes += (value_offset(f, op, op->nin - 2) + 15) & ~INT64_C(15);
        ++*times;
    }
    return bytes;
}

int64_t gen_part_bytes(const Fn *f, const Op *put) {
    int times;
    return put->attr == PUT_all ? met(f, NULL, &times) : value_offset(f, put, put->nin - 2);
}

int64_t gen_part_counts(const Fn *f, const Op *put) {
    int times;
    met(f, NULL, &times);
    return put->attr == PUT_all ? (int64_t)2 * 4 * times : 4;
}

static const Layout *layout_of(const Gen *g, const Val *v) {
    return v->type.rank ? v->layout : layout_replicated(g->arena, g->f->warps);
}

static LLVMTypeRef part_bits(Gen *g, const Val *v) { return part_unit(v) == 8 ? g->i64 : g->i32; }

LLVMValueRef part_to_bits(Gen *g, const Val *v, LLVMValueRef x) {
    LLVMTypeRef t = LLVMTypeOf(x), want = part_bits(g, v);
    if (t == want) return x;
    if (t == g->f32 || t == g->f64) return LLVMBuildBitCast(g->B, x, want, "");
    if (LLVMGetTypeKind(t) == LLVMPointerTypeKind) return LLVMBuildPtrToInt(g->B, x, want, "");
    return LLVMBuildZExt(g->B, x, want, "");
}

LLVMValueRef part_from_bits(Gen *g, const Val *v, LLVMValueRef x) {
    LLVMTypeRef t = gen_type(g, v);
    if (t == LLVMTypeOf(x)) return x;
    if (t == g->f32 || t == g->f64) return LLVMBuildBitCast(g->B, x, t, "");
    return LLVMBuildTrunc(g->B, x, t, "");
}

// ---- registers and threads that may hold something alive -----------------------------------------------

static int64_t most_live(Gen *g, const Val *axis) {
    LExpr lo, hi;
    int64_t from, to, all = axis_extent(axis);
    if (!host_expr(g->facts, axis_lo(axis), &lo) || !host_expr(g->facts, axis_hi(axis), &hi)) return all;
    if (!fact_constant(g->facts, lo, &from) || !fact_constant(g->facts, hi, &to)) return all;
    return to - from < all ? to - from : all;
}

// The registers of a value that may, in order; how many they are.
int part_alive(Gen *g, const Val *v, int **at) {
    int n = 0, regs = part_regs(v);
    *at = NEW_N(g->arena, int, regs);
    for (int r = 0; r < regs; r++) {
        bool dead = false;
        for (int i = 0; i < v->type.rank; i++) dead |= gen_reg_coord(v->layout, i, r) >= most_live(g, v->type.axis[i]);
        if (!dead) (*at)[n++] = r;
    }
    return n;
}

// In a cluster only these are sent, so that there is room for them.
static int64_t sent_offset(Gen *g, const Op *put, int value) {
    int64_t at = 0;
    for (int i = 0, *reg; i < value; i++) at += (int64_t)part_alive(g, put->in[2 + i], &reg) * part_unit(put->in[2 + i]);
    return at * threads_of(g);
}

// Where this thread's first words of a value stand, in part `part` of the tile.
static LLVMValueRef place(Gen *g, const Op *put, const Val *tile, LLVMValueRef part, int value) {
    int64_t bytes = gen_part_bytes(g->f, put);
    if (put->attr == PUT_block || put->attr == PUT_cluster) {  // the first keeps its own
        bool near = put->attr == PUT_cluster;
        LLVMValueRef before = LLVMBuildMul(g->B, LLVMBuildSub(g->B, part, gen_i64(g, 1), ""),
                                           gen_i64(g, near ? sent_offset(g, put, put->nin - 2) : bytes), "");
        return LLVMBuildAdd(
            g->B, before,
            gen_i64(g, g->joined_at + (near ? sent_offset(g, put, value) : value_offset(g->f, put, value))), "");
    }
    LLVMValueRef n = LLVMBuildMul(g->B, gen_get64(g, tile, 0), gen_i64(g, put->imm), "");
    n = LLVMBuildMul(g->B, LLVMBuildAdd(g->B, n, part, ""), gen_i64(g, bytes), "");
    int times;
    int64_t before = put->attr == PUT_all ? met(g->f, put, &times) : 0;
    return LLVMBuildAdd(g->B, n, gen_i64(g, before + value_offset(g->f, put, value)), "");
}

static uint32_t lanes_along(const Layout *l, int axis) {
    uint32_t mask = 0, bits = ((1u << l->bits[axis]) - 1) << l->off[axis];
    for (int i = 0; i < LANE_BITS; i++) if (l->lane[i] & bits) mask |= 1u << i;
    return mask;
}

// This thread's lane, or if all that it would read is dead, one that holds the first elements of the axes where it ends.
static LLVMValueRef reading_lane(Gen *g, const Val *v) {
    LLVMValueRef lane = g->lane;
    for (int i = 0; i < v->type.rank; i++) {
        LLVMValueRef live = gen_live(g, v->type.axis[i], v->layout, i, 0, 1);
        uint32_t bits = lanes_along(v->layout, i);
        if (live && bits)
            lane = LLVMBuildSelect(g->B, live, lane, LLVMBuildAnd(g->B, lane, gen_i32(g, 31 & ~(int64_t)bits), ""), "");
    }
    return lane;
}

// How many of the `left` registers that are left move together.
int part_run(const Val *v, int left) {
    int most = 16 / part_unit(v);
    while (most > left) most /= 2;
    return most;
}

// Where the first of the threads that hold what this lane's holds has n registers, from the k-th that may be alive on.
static LLVMValueRef address(Gen *g, const Op *put, const Val *v, LLVMValueRef at, LLVMValueRef lane, int k, int n) {
    int unit = part_unit(v);
    const Layout *l = layout_of(g, v);
    uint32_t lanes = layout_replica_lanes(l), warps = layout_replica_warps(l);
    if (lanes) lane = LLVMBuildAnd(g->B, lane, gen_i32(g, 31 & ~lanes), "");
    LLVMValueRef warp = warps ? LLVMBuildAnd(g->B, g->warp, gen_i32(g, ~(int64_t)warps), "") : g->warp;
    LLVMValueRef thread = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, warp, gen_i32(g, 32), ""), lane, "");
    LLVMValueRef off = LLVMBuildZExt(g->B, LLVMBuildMul(g->B, thread, gen_i32(g, n * unit), ""), g->i64, "");
    off = LLVMBuildAdd(g->B, LLVMBuildAdd(g->B, at, off, ""), gen_i64(g, (int64_t)k * unit * threads_of(g)), "");
    if (put->attr == PUT_block) return gen_ring(g, LLVMBuildTrunc(g->B, off, g->i32, ""));
    if (put->attr == PUT_cluster) return gen_smem(g, LLVMBuildTrunc(g->B, off, g->i32, ""));
    LLVMValueRef base = gen_param(g, SLOT_SCRATCH, SCRATCH_PARTS, 0);
    return LLVMBuildGEP2(g->B, g->i8, base, &off, 1, "");
}

// ---- arriving ------------------------------------------------------------------------------------

LLVMTypeRef part_words(Gen *g, const Val *v, int n) {
    return n == 1 ? part_bits(g, v) : LLVMVectorType(part_bits(g, v), (unsigned)n);
}

LLVMValueRef part_one_thread(Gen *g) {
    LLVMValueRef lane = LLVMBuildICmp(g->B, LLVMIntEQ, g->lane, gen_i32(g, 0), "");
    return g->one_warp ? lane : LLVMBuildAnd(g->B, lane, LLVMBuildICmp(g->B, LLVMIntEQ, g->warp, gen_i32(g, 0), ""), "");
}

// The number of arrivals before this program's, in every thread of it.
static LLVMValueRef arrive(Gen *g, const Op *put) {
    LLVMValueRef off = LLVMBuildMul(g->B, gen_get64(g, put->in[0], 0), gen_i64(g, 4), "");
    LLVMValueRef count = LLVMBuildGEP2(g->B, g->i8, gen_param(g, SLOT_SCRATCH, SCRATCH_COUNTS, 0), &off, 1, "");
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->B), one = gen_block(g, "arrive"), all = gen_block(g, "arrived");
    LLVMBuildCondBr(g->B, part_one_thread(g), one, all);
    LLVMPositionBuilderAtEnd(g->B, one);
    // inc wraps to zero at the last arrival, so that the next launch begins anew
    LLVMValueRef old = gen_asm(g, g->i32, "atom.acq_rel.gpu.global.inc.u32 $0, [$1], $2;", "=r,l,n,~{memory}", 2,
                               (LLVMValueRef[]){count, gen_i32(g, put->imm - 1)}, true, false);
    if (!g->one_warp) LLVMBuildStore(g->B, old, gen_smem(g, gen_i32(g, g->smem_used)));
    LLVMBuildBr(g->B, all);
    LLVMPositionBuilderAtEnd(g->B, all);
    if (g->one_warp) {
        LLVMValueRef mine = LLVMBuildPhi(g->B, g->i32, ""), from[2] = {gen_i32(g, 0), old};
        LLVMAddIncoming(mine, from, (LLVMBasicBlockRef[]){before, one}, 2);
        return gen_call(g, "llvm.nvvm.shfl.sync.idx.i32", 4,
                        (LLVMValueRef[]){gen_i32(g, -1), mine, gen_i32(g, 0), gen_i32(g, 31)}, 0, NULL);
    }
    gen_barrier(g);
    old = LLVMBuildLoad2(g->B, g->i32, gen_smem(g, gen_i32(g, g->smem_used)), "");
    g->smem_used += 16;
    return old;
}

void part_store(Gen *g, const Val *v, const int *reg, int n, LLVMValueRef to) {
    LLVMValueRef x = n == 1 ? NULL : LLVMGetUndef(part_words(g, v, n));
    for (int i = 0; i < n; i++) {
        LLVMValueRef w = part_to_bits(g, v, gen_get(g, v, reg[i]));
        x = n == 1 ? w : LLVMBuildInsertElement(g->B, x, w, gen_i32(g, i), "");
    }
    LLVMSetAlignment(LLVMBuildStore(g->B, x, to), (unsigned)(n * part_unit(v)));
}

static void part_send(Gen *g, const Val *v, const int *reg, int n, LLVMValueRef to) {
    LLVMValueRef words[4], base = LLVMBuildPtrToInt(g->B, gen_smem(g, gen_i32(g, 0)), g->i32, "");
    for (int i = 0; i < n; i++) words[i] = part_to_bits(g, v, gen_get(g, v, reg[i]));
    gen_cluster_send(g, 0, LLVMBuildSub(g->B, LLVMBuildPtrToInt(g->B, to, g->i32, ""), base, ""), n, words, g->joined_bar);
}

static void put_value(Gen *g, const Op *put, const Val *v, LLVMValueRef at) {
    int *reg, all = part_alive(g, v, &reg);
    for (int k = 0, n; k < all; k += n) {
        n = part_run(v, all - k);
        (put->attr == PUT_cluster ? part_send : part_store)(g, v, reg + k, n, address(g, put, v, at, g->lane, k, n));
    }
}

static void put_values(Gen *g, const Op *op) {
    LLVMValueRef part = gen_get64(g, op->in[1], 0);
    for (int i = 0; i < op->nin - 2; i++) {
        const Val *v = op->in[2 + i];
        LLVMValueRef at = place(g, op, op->in[0], part, i), owner = gen_owner(g, layout_of(g, v));
        LLVMBasicBlockRef mine = owner ? gen_block(g, "put") : NULL, go = owner ? gen_block(g, "kept") : NULL;
        if (owner) { LLVMBuildCondBr(g->B, owner, mine, go); LLVMPositionBuilderAtEnd(g->B, mine); }
        put_value(g, op, v, at);
        if (owner) { LLVMBuildBr(g->B, go); LLVMPositionBuilderAtEnd(g->B, go); }
    }
}

// Slices of a block: all but the first put, and have nothing more to do then. It has the others' scratch to itself. The
// barrier is passed twice: compute-sanitizer's racecheck may count one of some of a block's warps late, and takes the
// first reads behind it for too early, also where 20 us of sleep stand between; behind two it does not (H200, CUDA
// 13.0).
static void put_slices(Gen *g, Op *op) {
    LLVMBasicBlockRef others = gen_block(g, "put"), all = gen_block(g, "sliced");
    LLVMValueRef first = LLVMBuildICmp(g->B, LLVMIntEQ, g->slice, gen_i32(g, 0), ""), bar = gen_i32(g, BARRIER_CONSUMERS);
    LLVMBuildCondBr(g->B, first, all, others);
    LLVMPositionBuilderAtEnd(g->B, others);
    put_values(g, op);
    LLVMBuildBr(g->B, all);
    LLVMPositionBuilderAtEnd(g->B, all);
    for (int i = 0; i < 2; i++) gen_barrier_named(g, bar, g->program_threads * (int)op->imm);
    g->smem = g->rings;
    gen_set(g, op->out[0], 0, first);
}

static int ones(uint32_t m) { int n = 0; for (; m; m &= m - 1) n++; return n; }

// Bytes that a part sends: of each register that may be alive, from the first of the threads that hold the same.
static int64_t sent_bytes(Gen *g, const Op *put) {
    int64_t bytes = 0;
    for (int i = 0, *reg; i < put->nin - 2; i++) {
        const Val *v = put->in[2 + i];
        const Layout *l = layout_of(g, v);
        bytes += (int64_t)part_alive(g, v, &reg) * part_unit(v) *
                 (threads_of(g) >> (ones(layout_replica_lanes(l)) + ones(layout_replica_warps(l))));
    }
    return bytes;
}

// Parts are the blocks of a cluster: all but the first send theirs into its shared memory, each 16 bytes telling its
// mbarrier, and are through.
static void put_cluster(Gen *g, Op *op) {
    LLVMBasicBlockRef joins = gen_block(g, "join"), others = gen_block(g, "send"), all = gen_block(g, "sent");
    LLVMValueRef first = LLVMBuildICmp(g->B, LLVMIntEQ, gen_get64(g, op->in[1], 0), gen_i64(g, 0), "");
    g->joined_bar = gen_cluster_bar(g);
    g->joined_at = gen_cluster_room(g, sent_offset(g, op, op->nin - 2) * (op->imm - 1));
    LLVMBuildCondBr(g->B, first, joins, others);
    LLVMPositionBuilderAtEnd(g->B, others);
    put_values(g, op);
    LLVMBuildBr(g->B, all);
    LLVMPositionBuilderAtEnd(g->B, joins);
    gen_cluster_receive(g, g->joined_bar, sent_bytes(g, op) * (op->imm - 1));
    LLVMBuildBr(g->B, all);
    LLVMPositionBuilderAtEnd(g->B, all);
    gen_set(g, op->out[0], 0, first);
}

// Arrives, waits until all parts have, and counts itself as one that has seen it: all threads go on then.
static void meet_all(Gen *g, const Op *put) {
    int times;
    met(g->f, put, &times);
    LLVMValueRef off = LLVMBuildMul(g->B, gen_get64(g, put->in[0], 0), gen_i64(g, gen_part_counts(g->f, put)), "");
    off = LLVMBuildAdd(g->B, off, gen_i64(g, (int64_t)2 * 4 * times), "");
    LLVMValueRef count = LLVMBuildGEP2(g->B, g->i8, gen_param(g, SLOT_SCRATCH, SCRATCH_COUNTS, 0), &off, 1, ""), four = gen_i64(g, 4);
    LLVMValueRef seen = LLVMBuildGEP2(g->B, g->i8, count, &four, 1, "");
    LLVMBasicBlockRef one = gen_block(g, "arrive"), poll = gen_block(g, "poll"), come = gen_block(g, "come"), anew = gen_block(g, "anew"), all = gen_block(g, "met");
    LLVMBuildCondBr(g->B, part_one_thread(g), one, all);
    LLVMPositionBuilderAtEnd(g->B, one);
    gen_asm(g, LLVMVoidTypeInContext(g->C), "red.release.gpu.global.add.u32 [$0], 1;", "l,~{memory}", 1, &count, true, false);
    LLVMBuildBr(g->B, poll);
    LLVMPositionBuilderAtEnd(g->B, poll);
    LLVMValueRef n = gen_asm(g, g->i32, "ld.acquire.gpu.global.u32 $0, [$1];", "=r,l,~{memory}", 1, &count, true, false);
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntEQ, n, gen_i32(g, put->imm), ""), come, poll);
    LLVMPositionBuilderAtEnd(g->B, come);
    // inc wraps to zero at the last one
    LLVMValueRef old = gen_asm(g, g->i32, "atom.acq_rel.gpu.global.inc.u32 $0, [$1], $2;", "=r,l,n,~{memory}", 2,
                               (LLVMValueRef[]){seen, gen_i32(g, put->imm - 1)}, true, false);
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntEQ, old, gen_i32(g, put->imm - 1), ""), anew, all);
    LLVMPositionBuilderAtEnd(g->B, anew);
    LLVMSetAlignment(LLVMBuildStore(g->B, gen_i32(g, 0), count), 4);
    LLVMBuildBr(g->B, all);
    LLVMPositionBuilderAtEnd(g->B, all);
    gen_barrier(g);
}

void emit_part_put(Gen *g, Op *op) {
    if (op->attr == PUT_block) { put_slices(g, op); return; }
    if (op->attr == PUT_cluster) { put_cluster(g, op); return; }
    if (op->attr == PUT_scattered) {
        gen_scatter(g, op);
        gen_set(g, op->out[0], 0, LLVMConstInt(g->i1, 1, 0));
        return;
    }
    if (op->attr == PUT_all) {
        put_values(g, op);
        gen_barrier(g);
        meet_all(g, op);
        gen_set(g, op->out[0], 0, LLVMConstInt(g->i1, 1, 0));
        return;
    }
    put_values(g, op);
    gen_barrier(g);
    LLVMValueRef old = arrive(g, op);
    gen_set(g, op->out[0], 0, LLVMBuildICmp(g->B, LLVMIntEQ, old, gen_i32(g, op->imm - 1), ""));
}

// ---- joining -------------------------------------------------------------------------------------

static void load_part(Gen *g, const Op *put, const Op *get, LLVMValueRef part, LLVMValueRef *out) {
    const Val *v = get->out[0];
    LLVMValueRef at = place(g, put, get->in[0], part, (int)get->attr), lane = reading_lane(g, v);
    int *reg, all = part_alive(g, v, &reg);
    for (int r = 0; r < part_regs(v); r++) out[r] = LLVMConstNull(gen_type(g, v));
    for (int k = 0, n; k < all; k += n) {
        n = part_run(v, all - k);
        LLVMValueRef x = LLVMBuildLoad2(g->B, part_words(g, v, n), address(g, put, v, at, lane, k, n), "");
        LLVMSetAlignment(x, (unsigned)(n * part_unit(v)));
        for (int i = 0; i < n; i++)
            out[reg[k + i]] = part_from_bits(g, v, n == 1 ? x : LLVMBuildExtractElement(g->B, x, gen_i32(g, i), ""));
    }
}

void emit_part_take(Gen *g, Op *op) {
    int regs = part_regs(op->out[0]);
    LLVMValueRef *x = NEW_N(g->arena, LLVMValueRef, regs);
    const Op *put = op->in[1]->def, *number = op->in[2]->def;
    bool own = (put->attr == PUT_block || put->attr == PUT_cluster) && number && number->code == OP_T_const && number->imm == 0;
    if (own) for (int r = 0; r < regs; r++) x[r] = gen_get(g, put->in[2 + op->attr], r);
    else load_part(g, put, op, gen_get64(g, op->in[2], 0), x);
    for (int r = 0; r < regs; r++) gen_set(g, op->out[0], r, x[r]);
}

void emit_merge(Gen *g, Op *op) { (void)g; (void)op; ice("the pass `split_k` left a merge"); }

typedef struct Joining {
    const Op     *put, *get;
    TReduce       kind;
    Elem          e;                     // in which it is done: storage floats as f32
    int           regs, parts, sharers;  // threads that hold the same, a power of two
    LLVMValueRef  mine, none;            // this thread's number among them; the result over no parts
    LLVMValueRef  upto;                  // i64: of parts below this one; NULL: of all
} Joining;

static void load_wide(Gen *g, const Joining *j, LLVMValueRef part, LLVMValueRef *out) {
    load_part(g, j->put, j->get, part, out);
    Elem e = (Elem)j->get->out[0]->type.elem;
    for (int r = 0; r < j->regs && e != j->e; r++) out[r] = gen_to_f32(g, out[r], e);
}

// sum += the step-th of this thread's parts. `last`: some thread may have none.
static void join_step(Gen *g, const Joining *j, LLVMValueRef step, bool last, LLVMValueRef *sum, LLVMValueRef *more) {
    LLVMValueRef part = step, there = NULL;
    if (j->sharers > 1) {
        part = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, step, gen_i64(g, j->sharers), ""), j->mine, "");
        there = last ? LLVMBuildICmp(g->B, LLVMIntSLT, part, gen_i64(g, j->parts), "") : NULL;
    }
    if (j->upto) there = LLVMBuildICmp(g->B, LLVMIntSLT, part, j->upto, "");
    if (there) part = LLVMBuildSelect(g->B, there, part, gen_i64(g, 0), "");
    load_wide(g, j, part, more);
    for (int r = 0; r < j->regs; r++) {
        if (there) more[r] = LLVMBuildSelect(g->B, there, more[r], j->none, "");
        sum[r] = sum[r] ? gen_join(g, j->kind, j->e, sum[r], more[r]) : more[r];
    }
}

// The steps from .. to - 1, none of them the last one, in a loop.
static void join_loop(Gen *g, const Joining *j, int from, int to, LLVMValueRef *sum, LLVMValueRef *more) {
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->B), loop = gen_block(g, "parts"), done = gen_block(g, "joined");
    LLVMValueRef *carried = NEW_N(g->arena, LLVMValueRef, j->regs), first = gen_i64(g, from);
    LLVMBuildBr(g->B, loop);
    LLVMPositionBuilderAtEnd(g->B, loop);
    LLVMValueRef p = LLVMBuildPhi(g->B, g->i64, "");
    for (int r = 0; r < j->regs; r++) {
        carried[r] = LLVMBuildPhi(g->B, LLVMTypeOf(sum[r]), "");
        LLVMAddIncoming(carried[r], &sum[r], &before, 1);
        sum[r] = carried[r];
    }
    LLVMAddIncoming(p, &first, &before, 1);
    join_step(g, j, p, false, sum, more);
    LLVMValueRef next = LLVMBuildAdd(g->B, p, gen_i64(g, 1), "");
    LLVMBasicBlockRef end = LLVMGetInsertBlock(g->B);
    for (int r = 0; r < j->regs; r++) LLVMAddIncoming(carried[r], &sum[r], &end, 1);
    LLVMAddIncoming(p, &next, &end, 1);
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntSLT, next, gen_i64(g, to), ""), loop, done);
    LLVMPositionBuilderAtEnd(g->B, done);
}

// The bits of `of` that the mask names, packed.
static LLVMValueRef packed(Gen *g, LLVMValueRef of, uint32_t mask, int to, LLVMValueRef with) {
    for (int i = 0; i < 32; i++) {
        if (!(mask >> i & 1)) continue;
        LLVMValueRef bit = LLVMBuildAnd(g->B, i ? LLVMBuildLShr(g->B, of, gen_i32(g, i), "") : of, gen_i32(g, 1), "");
        if (to) bit = LLVMBuildShl(g->B, bit, gen_i32(g, to), "");
        with = with ? LLVMBuildOr(g->B, with, bit, "") : bit;
        to++;
    }
    return with;
}

void emit_part_get(Gen *g, Op *op) {
    if (op->in[1]->def->attr == PUT_scattered) { gen_scattered(g, op); return; }
    const Val *o = op->out[0];
    const Layout *l = layout_of(g, o);
    Elem e = (Elem)o->type.elem;
    uint32_t lanes = layout_replica_lanes(l), warps = layout_replica_warps(l);
    Joining j = {.put = op->in[1]->def,
                 .get = op,
                 .kind = (TReduce)op->sub,
                 .e = elem_is_storage(e) ? EL_f32 : e,
                 .regs = part_regs(o)};
    j.parts = (int)j.put->imm;
    j.sharers = 1 << (ones(lanes) + ones(warps));
    if (j.e == EL_index && gen_is32(g, o)) j.e = EL_i32;
    if (j.sharers > 1) {
        LLVMValueRef k = packed(g, g->lane, lanes, 0, NULL);
        k = packed(g, g->warp, warps, ones(lanes), k);
        j.mine = LLVMBuildZExt(g->B, k, g->i64, "");
    }
    if (op->nin > 2) j.upto = gen_get64(g, op->in[2], 0);
    if (j.upto || j.sharers > 1) j.none = gen_neutral(elem_is_storage(e) ? g->f32 : gen_type(g, o), j.kind, j.e);
    int steps = (j.parts + j.sharers - 1) / j.sharers, unrolled = j.regs * steps <= FULL_UNROLL || steps <= 2 ? steps : 1;
    LLVMValueRef *sum = NEW_N(g->arena, LLVMValueRef, j.regs), *more = NEW_N(g->arena, LLVMValueRef, j.regs);
    bool ragged = j.parts % j.sharers != 0;
    for (int k = 0; k < unrolled; k++) join_step(g, &j, gen_i64(g, k), ragged && k == steps - 1, sum, more);
    int whole = ragged ? steps - 1 : steps;
    if (unrolled < whole) join_loop(g, &j, unrolled, whole, sum, more);
    if (unrolled < steps && ragged) join_step(g, &j, gen_i64(g, steps - 1), true, sum, more);
    if (j.sharers > 1) {
        uint32_t kept = 0;
        for (int i = 0; i < LANE_BITS; i++) if (l->lane[i]) kept |= 1u << i;
        gen_join_threads(g, op, j.kind, j.e, sum, j.regs, lanes, warps, kept);
    }
    for (int r = 0; r < j.regs; r++) gen_set(g, o, r, e != j.e && elem_is_storage(e) ? gen_kept_f32(g, sum[r], e) : sum[r]);
}
