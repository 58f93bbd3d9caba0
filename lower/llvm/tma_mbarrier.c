// Hopper's own: mbarriers, the turns of consumer groups, roles, and TMA loads: emit_tma_load, under "TMA"
// below. specialize/producer.c makes that op (ws_fill). llvm/wgmma.c has products, llvm/tma_store.c TMA
// stores.
//
// Shared memory holds the rings (1024-byte aligned stages, as swizzled TMA and wgmma want them), then the
// mbarriers, then what the rest of the kernel asks for. A tile of R rows by C columns lies in chunks of
// one swizzle span, 128 bytes or less of columns, each R rows of 128 bytes; a chunk is one TMA box.
#include "lower/llvm/dot.h"

#include <stddef.h>
#include <string.h>

static LLVMValueRef call(Gen *g, const char *name, int n, LLVMValueRef *args) { return gen_call(g, name, n, args, 0, NULL); }

static LLVMValueRef add(Gen *g, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAdd(g->B, a, b, ""); }
static LLVMValueRef mul(Gen *g, LLVMValueRef a, int64_t k) { return LLVMBuildMul(g->B, a, gen_i32(g, k), ""); }

// ---- barriers ------------------------------------------------------------------------------------

LLVMValueRef gen_mbar(Gen *g, const Val *bar, LLVMValueRef stage) {
    return gen_ring(g, add(g, gen_i32(g, bar->def->attr), LLVMBuildShl(g->B, stage, gen_i32(g, 3), "")));
}

static LLVMValueRef mbar_at(Gen *g, const Val *bar, LLVMValueRef stage) { return gen_mbar(g, bar, stage); }

static void if_thread(Gen *g, LLVMValueRef cond, LLVMBasicBlockRef *go) {
    LLVMBasicBlockRef yes = gen_block(g, "one");
    *go = gen_block(g, "all");
    LLVMBuildCondBr(g->B, cond, yes, *go);
    LLVMPositionBuilderAtEnd(g->B, yes);
}

static void rejoin(Gen *g, LLVMBasicBlockRef go) {
    LLVMBuildBr(g->B, go);
    LLVMPositionBuilderAtEnd(g->B, go);
}

// Where groups take turns, ptxas is to find the blocks that it was measured with.
static void mbar_by_blocks(Gen *g, Op *op) {
    LLVMBasicBlockRef go;
    if_thread(g, LLVMBuildICmp(g->B, LLVMIntEQ, g->tid, gen_i32(g, 0), ""), &go);
    for (int i = 0; i < op->imm; i++)
        call(g, "llvm.nvvm.mbarrier.init.shared", 2, (LLVMValueRef[]){gen_ring(g, gen_i32(g, op->attr + 8 * i)), gen_i32(g, op->out[0]->type.shape[0])});
    rejoin(g, go);
}

static void mbar_arrive_by_blocks(Gen *g, Op *op) {
    LLVMBasicBlockRef go;
    LLVMValueRef bar = mbar_at(g, op->in[0], gen_get(g, op->in[1], 0)), thread = LLVMBuildAnd(g->B, g->tid, gen_i32(g, op->imm ? 31 : 127), "");
    bool far = op->attr > 1;
    if_thread(g, LLVMBuildICmp(g->B, LLVMIntULT, thread, gen_i32(g, far ? op->attr : 1), ""), &go);
    if (far) bar = call(g, "llvm.nvvm.mapa.shared.cluster", 2, (LLVMValueRef[]){bar, thread});
    call(g, far ? "llvm.nvvm.mbarrier.arrive.scope.cta.space.cluster" : "llvm.nvvm.mbarrier.arrive.scope.cta.space.cta", 2, (LLVMValueRef[]){bar, gen_i32(g, 1)});
    rejoin(g, go);
}

static void mbar_wait_by_blocks(Gen *g, Op *op) {
    LLVMValueRef bar = mbar_at(g, op->in[0], gen_get(g, op->in[1], 0)), parity = gen_get(g, op->in[2], 0);
    LLVMBasicBlockRef spin = gen_block(g, "spin"), go = gen_block(g, "ready");
    LLVMBuildBr(g->B, spin);
    LLVMPositionBuilderAtEnd(g->B, spin);
    LLVMValueRef ok = call(g, "llvm.nvvm.mbarrier.try.wait.parity.scope.cta.space.cta", 2, (LLVMValueRef[]){bar, parity});
    LLVMBuildCondBr(g->B, ok, go, spin);
    LLVMPositionBuilderAtEnd(g->B, go);
}

// Branches and predicates inside a piece of assembly cost LLVM a fraction of what blocks of its own do.
static void effect(Gen *g, const char *text, const char *cons, int n, LLVMValueRef *args) {
    gen_asm(g, LLVMVoidTypeInContext(g->C), text, cons, n, args, true, true);
}

static LLVMValueRef address(Gen *g, LLVMValueRef smem) { return LLVMBuildPtrToInt(g->B, smem, g->i32, ""); }

void emit_mbar(Gen *g, Op *op) {
    if (!g->accs) { mbar_by_blocks(g, op); return; }
    Buf text = {0};
    buf_puts(&text, "{\n@!$1 bra others;\n");              // not each by a predicate: ptxas puts a fence after each, for all threads then
    for (int i = 0; i < op->imm; i++)
        buf_printf(&text, "mbarrier.init.shared.b64 [$0+%d], %d;\n", 8 * i, (int)op->out[0]->type.shape[0]);
    buf_puts(&text, "others:\n}");
    effect(g, text.p, "r,b,~{memory}", 2, (LLVMValueRef[]){address(g, gen_ring(g, gen_i32(g, op->attr))), LLVMBuildICmp(g->B, LLVMIntEQ, g->tid, gen_i32(g, 0), "")});
    buf_free(&text);
}

// Of several warps that produce one thread does what one thread is to do; NULL: there is no other.
static LLVMValueRef elected(Gen *g) { return g->produces ? LLVMBuildICmp(g->B, LLVMIntEQ, g->tid, gen_i32(g, g->produces - 1), "") : NULL; }

void emit_mbar_expect(Gen *g, Op *op) {
    LLVMValueRef bar = mbar_at(g, op->in[0], gen_get(g, op->in[1], 0));
    LLVMValueRef bytes = gen_i32(g, op->imm);
    if (op->nin > 2) bytes = LLVMBuildSub(g->B, bytes, gen_get(g, op->in[2], 0), "");
    LLVMBasicBlockRef go = NULL;
    if (elected(g)) if_thread(g, elected(g), &go);
    call(g, "llvm.nvvm.mbarrier.arrive.expect.tx.scope.cta.space.cta", 2, (LLVMValueRef[]){bar, bytes});
    if (go) rejoin(g, go);
}

// One arrival for each consumer warp group, or for each warp where its threads read the stage themselves, all of which have then, or for each thread; in a cluster a thread of it for each block, at that block's barrier. What it
// tells has no writes before it that the other block reads, so it needs no wider scope, which would be a fence of the GPU.
void emit_mbar_arrive(Gen *g, Op *op) {
    if (!g->accs) { mbar_arrive_by_blocks(g, op); return; }
    LLVMValueRef bar = address(g, mbar_at(g, op->in[0], gen_get(g, op->in[1], 0))), thread = LLVMBuildAnd(g->B, g->tid, gen_i32(g, op->imm ? 31 : 127), "");
    bool far = op->attr > 1;
    if (op->imm == 2 && !far) { effect(g, "mbarrier.arrive.shared.b64 _, [$0];", "r,~{memory}", 1, &bar); return; }
    if (op->imm) gen_barrier_warp(g);
    LLVMValueRef mine = LLVMBuildICmp(g->B, LLVMIntULT, thread, gen_i32(g, far ? op->attr : 1), "");
    if (far) effect(g, "{\n.reg .b32 a;\n@$1 mapa.shared::cluster.u32 a, $0, $2;\n@$1 mbarrier.arrive.shared::cluster.b64 _, [a];\n}", "r,b,r,~{memory}", 3, (LLVMValueRef[]){bar, mine, thread});
    else effect(g, "@$1 mbarrier.arrive.shared.b64 _, [$0];", "r,b,~{memory}", 2, (LLVMValueRef[]){bar, mine});
}

// One of each warp of the role.
void gen_arrive(Gen *g, const Val *bar, LLVMValueRef stage) {
    effect(g, "@$1 mbarrier.arrive.shared.b64 _, [$0];", "r,b,~{memory}", 2,
           (LLVMValueRef[]){address(g, mbar_at(g, bar, stage)), LLVMBuildICmp(g->B, LLVMIntEQ, g->lane, gen_i32(g, 0), "")});
}

static void mbar_wait(Gen *g, Op *op) {
    if (!g->accs) { mbar_wait_by_blocks(g, op); return; }
    LLVMValueRef args[] = {address(g, mbar_at(g, op->in[0], gen_get(g, op->in[1], 0))), gen_get(g, op->in[2], 0)};
    effect(g, "{\n.reg .pred p;\nwait:\nmbarrier.try_wait.parity.shared.b64 p, [$0], $1;\n@!p bra wait;\n}", "r,r,~{memory}", 2, args);
}

void emit_mbar_wait(Gen *g, Op *op) {
    LLVMBasicBlockRef go = NULL;
    if (op->attr && elected(g)) if_thread(g, elected(g), &go);
    mbar_wait(g, op);
    if (go) rejoin(g, go);
}

void emit_fence_async(Gen *g, Op *op) {
    (void)op;
    call(g, "llvm.nvvm.fence.proxy.async.shared_cta", 0, NULL);
}

// ---- turns of two consumer groups ----------------------------------------------------------------
//
// Each has a named barrier of both groups' threads (BARRIER_TURN) on which it waits and the other one arrives. ptxas moves
// arithmetic across barriers, so an arrival after x is made to depend on x, by the predicate of a shuffle of it: whether lane 0
// exists, which is always so.

static LLVMValueRef group_of(Gen *g) { return g->slice ? g->slice : LLVMBuildLShr(g->B, g->warp, gen_i32(g, 2), ""); }

void emit_turn_wait(Gen *g, Op *op) {
    LLVMValueRef args[] = {group_of(g)};
    const char *first = op->imm ? ".reg .pred p;\nsetp.eq.u32 p, $0, 0;\n@p " : "";
    Buf text = {0};
    buf_printf(&text, "{\n.reg .b32 b;\nadd.u32 b, $0, %d;\n%sbar.sync b, %d;\n}", op->attr > 2 ? BARRIER_TURN_OF_THREE : BARRIER_TURN, first, 2 * GROUP_THREADS);
    gen_asm(g, LLVMVoidTypeInContext(g->C), text.p, "r,~{memory}", 1, args, true, true);
    buf_free(&text);
}

void emit_turn_pass(Gen *g, Op *op) {
    LLVMValueRef args[33] = {group_of(g)};
    Buf text = {0}, cons = {0};
    int n = op->nin ? gen_tile(g, op->in[0])->n : 0;
    if (n > 32 || (n && op->in[0]->type.elem != EL_f32)) n = 0;
    int last = op->attr > 2 ? (int)op->attr - 1 : 1;
    buf_puts(&text, "{\n.reg .pred p;\n.reg .b32 b, x;\n");
    if (last > 1) buf_printf(&text, "setp.eq.u32 p, $0, %d;\nadd.u32 b, $0, %d;\nselp.b32 b, %d, b, p;\n", last, BARRIER_TURN_OF_THREE + 1, BARRIER_TURN_OF_THREE);
    else buf_printf(&text, "sub.u32 b, %d, $0;\n", BARRIER_TURN + 1);         // the next group's
    buf_puts(&cons, "r");
    for (int i = 0; i < n; i++) {
        args[1 + i] = gen_get(g, op->in[0], i);
        buf_puts(&cons, ",f");
        if (i) buf_printf(&text, "max.f32 x, x, $%d;\n", 1 + i);
        else buf_puts(&text, "mov.b32 x, $1;\n");
    }
    if (n) buf_puts(&text, "shfl.sync.idx.b32 x|p, x, 0, 31, -1;\n");
    if (op->imm) buf_printf(&text, "setp.eq.u32 p, $0, %d;\n", last);
    buf_printf(&text, "%sbar.arrive b, %d;\n}", n || op->imm ? "@p " : "", 2 * GROUP_THREADS);
    buf_puts(&cons, ",~{memory}");
    gen_asm(g, LLVMVoidTypeInContext(g->C), text.p, cons.p, 1 + n, args, true, true);
    buf_free(&text);
    buf_free(&cons);
}

// ---- roles ---------------------------------------------------------------------------------------

// Shares of a product whose bytes the consumers turn; one where other warps turn the right operand.
enum { SHARES = 4, SHARES_ALONE = 2 };

// Registers after the exchange: the producer gives up what the consumers take (hopper.md 1.6). Rows that are gathered have an address each,
// and many boxes a corner each.
enum { PLAIN, PHASED, GATHERS, BOXES };
enum { FEW_BOXES = 4 };
static const struct { int groups, kind, producer, consumer; } exchange[] = {{2, PLAIN, 24, 240},  {2, PHASED, 56, 224}, {2, GATHERS, 88, 208}, {2, BOXES, 40, 232},
                                                                             {3, PLAIN, 32, 160}, {3, PHASED, 32, 160}, {3, BOXES, 32, 160}};

static bool gathers(const Region *r) {
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op)) if (op->code == OP_T_copy_async) return true;
    return false;
}

static bool brings_boxes(const Region *r) {
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op)) if (op->code == OP_T_tma_load && op_boxes(op) > FEW_BOXES) return true;
    return false;
}

static void take_registers(Gen *g, int groups, int kind, bool consumer) {
    for (size_t i = 0; i < sizeof exchange / sizeof *exchange; i++)
        if (exchange[i].groups == groups && exchange[i].kind == kind)
            call(g, consumer ? "llvm.nvvm.setmaxnreg.inc.sync.aligned.u32" : "llvm.nvvm.setmaxnreg.dec.sync.aligned.u32", 1,
                 (LLVMValueRef[]){gen_i32(g, consumer ? exchange[i].consumer : exchange[i].producer)});
}

// One thread of another warp than the one that makes the barriers fetches what TMA will read of the tensor maps.
static void prefetch_maps(Gen *g) {
    LLVMBasicBlockRef go;
    const LaunchInfo *l = g->f->launch;
    if_thread(g, LLVMBuildICmp(g->B, LLVMIntEQ, g->tid, gen_i32(g, 32), ""), &go);
    for (int i = 0; i < l->nslots; i++)
        if (l->slots[i].kind == SLOT_TENSORMAP && !l->slots[i].expr.n)
            gen_asm(g, LLVMVoidTypeInContext(g->C), "prefetch.tensormap [$0];", "l", 1, (LLVMValueRef[]){LLVMBuildPtrToInt(g->B, g->param[i], g->i64, "")}, true, false);
    rejoin(g, go);
}

// All threads of the cluster that still run meet: they arrive, and wait when they need the others. Nothing is written for those but mbarriers, which have a fence of
// their own.
static void cluster_arrive(Gen *g) { call(g, "llvm.nvvm.barrier.cluster.arrive.relaxed.aligned", 0, NULL); }
static void cluster_wait(Gen *g) { call(g, "llvm.nvvm.barrier.cluster.wait.aligned", 0, NULL); }

// Does it prepare what the other brings? Then it is so many warps, not one thread.
static int prepares(const Region *r) {
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op)) if (op->code == OP_T_buffer_low || op->code == OP_T_buffer_turn) return (int)op->in[3]->type.shape[0];
    return 0;
}

static void second_producer(Gen *g, Region *r, int thread, LLVMBasicBlockRef at) {
    LLVMBasicBlockRef go = gen_block(g, "fixed");
    LLVMPositionBuilderAtEnd(g->B, at);
    LLVMValueRef from = LLVMBuildSub(g->B, g->tid, gen_i32(g, thread), "");
    int warps = prepares(r);
    g->prepares = warps ? 1 + thread : 0;
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntULT, from, gen_i32(g, warps ? 32 * warps : 1), ""), go, g->exit);
    LLVMPositionBuilderAtEnd(g->B, go);
    gen_region(g, r);
    g->prepares = 0;
    if (!g->dead) LLVMBuildBr(g->B, g->exit);
    g->dead = false;
}

void emit_wait_launches(Gen *g, Op *op) { (void)op; gen_wait_launches(g); }

// A number that a warp's threads share, for ptxas to know it. What `redux` gives lies in a uniform register, and so does then all that follows from it, stages, phases, descriptors
// and coordinates; a shuffle from lane 0 is seen through, and each wgmma has four R2UR of its own: a trip of two groups with a tile each is 119 instructions instead
// of 58. 4096 x 4096 x 128 13.76 to 13.34 us, f8 of 8192^3 0.98, large products 0.997, an H200, 2026-11-22. But attention of heads of 64, where groups take turns
// within a trip and accumulators are LLVM's, 1.05 of its time when causal: ptxas orders its exponentials otherwise.
static LLVMValueRef of_warp(Gen *g, LLVMValueRef x) {
    if (g->accs) return call(g, "llvm.nvvm.redux.sync.umax", 2, (LLVMValueRef[]){x, gen_i32(g, -1)});
    return call(g, "llvm.nvvm.shfl.sync.idx.i32", 4, (LLVMValueRef[]){gen_i32(g, -1), x, gen_i32(g, 0), gen_i32(g, 31)});
}

// Each slice has scratch and slots of its own, and a barrier.
static void begin_slice(Gen *g, int slices) {
    int warps = g->program_threads / 32 / slices;
    g->slice = LLVMBuildUDiv(g->B, g->warp, gen_i32(g, warps), "");
    g->warp = LLVMBuildAnd(g->B, g->warp, gen_i32(g, warps - 1), "");
    g->program_threads /= slices;
    g->smem = gen_smem(g, LLVMBuildMul(g->B, g->slice, g->slice_apart, ""));
}

// In a cluster whose blocks load for each other the consumers go when all have: until then others arrive at this block's barriers. Where they are the
// parts of a tile (cluster_scatter_smem.c), its begin is waited for behind the loop, and by the producers before they end.
void emit_roles(Gen *g, Op *op) {
    prefetch_maps(g);
    LLVMBasicBlockRef produce = gen_block(g, "producer"), first = gen_block(g, "first"), consume = gen_block(g, "consumers"), end = g->exit;
    if (g->cluster_waits) g->exit = gen_block(g, "leave");
    LLVMBasicBlockRef other = op->nreg > 2 ? gen_block(g, "second") : g->exit;
    call(g, "llvm.nvvm.fence.mbarrier_init.release.cluster", 0, NULL);
    if (g->waits_late) gen_wait_launches(g);
    bool loads = g->f->cluster && !g->cluster_waits;
    if (loads) cluster_arrive(g);
    else call(g, "llvm.nvvm.barrier.cta.sync.aligned.all", 1, (LLVMValueRef[]){gen_i32(g, 0)});
    LLVMValueRef group = of_warp(g, LLVMBuildLShr(g->B, g->tid, gen_i32(g, 7), ""));
    int begin = op->imm == 1 ? 128 : 0, kind = gathers(op->reg[0]) ? GATHERS : g->f->phased || (op->nreg > 2 && prepares(op->reg[2])) ? PHASED : brings_boxes(op->reg[0]) ? BOXES : PLAIN;      // the first producer's thread
    g->shares = kind == PHASED ? 1 : op->imm > 1 ? SHARES : SHARES_ALONE;
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntEQ, group, gen_i32(g, begin / 128), ""), produce, consume);

    LLVMPositionBuilderAtEnd(g->B, produce);
    take_registers(g, (int)op->imm, kind, false);
    if (loads) cluster_wait(g);
    LLVMValueRef warp = g->warp;
    if (kind == GATHERS) {
        LLVMBuildBr(g->B, first);
        g->produces = begin + 1;
    } else LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntEQ, g->tid, gen_i32(g, begin), ""), first, other);
    if (op->nreg > 2) second_producer(g, op->reg[2], begin + 32, other);
    LLVMPositionBuilderAtEnd(g->B, first);
    if (begin && g->produces) g->warp = LLVMBuildSub(g->B, warp, gen_i32(g, begin / 32), "");
    gen_region(g, op->reg[0]);
    if (g->produces && !g->dead) call(g, "llvm.nvvm.cp.async.wait.all", 0, NULL);          // whose threads go when what they have asked for is there
    if (!g->dead) LLVMBuildBr(g->B, g->exit);
    g->produces = 0;
    if (g->exit != end) {
        LLVMPositionBuilderAtEnd(g->B, g->exit);
        gen_cluster_leave(g);
        LLVMBuildBr(g->B, g->exit = end);
    }

    LLVMPositionBuilderAtEnd(g->B, consume);
    g->dead = false;
    take_registers(g, (int)op->imm, kind, true);
    if (loads) cluster_wait(g);
    warp = of_warp(g, LLVMBuildLShr(g->B, g->tid, gen_i32(g, 5), ""));
    g->warp = begin ? warp : LLVMBuildSub(g->B, warp, gen_i32(g, 4), "");
    g->program_threads = (int)op->imm * 128;
    if (op->attr > 1) begin_slice(g, (int)op->attr);
    gen_region(g, op->reg[1]);
    if (loads && !g->dead) { cluster_arrive(g); cluster_wait(g); }
}

// ---- TMA -----------------------------------------------------------------------------------------

static uint32_t stage_bytes(const Type *t) { return (uint32_t)(t->shape[0] * t->shape[1] * elem_bytes((Elem)t->elem)); }

LLVMValueRef gen_stage(Gen *g, const Val *buffer, LLVMValueRef stage) {
    return add(g, gen_i32(g, buffer->def->attr), mul(g, stage, type_apart(&buffer->type) ? type_apart(&buffer->type) : stage_bytes(&buffer->type)));
}

void emit_buffer(Gen *g, Op *op) { (void)g; (void)op; }

const LaunchSlot *gen_map(const Gen *g, const Op *op) {
    const LaunchInfo *l = g->f->launch;
    for (int i = 0; i < l->nslots; i++) if (l->slots[i].kind == SLOT_TENSORMAP && l->slots[i].b == op->imm) return &l->slots[i];
    ice("no tensor map %d", (int)op->imm);
}

// The next map, whose box has the rows of the last tile, where there are no more.
static LLVMValueRef map_of_rows(Gen *g, const Op *op, LLVMValueRef live, LLVMValueRef map) {
    LLVMValueRef maps[] = {map, gen_param(g, SLOT_TENSORMAP, (int)op->in[3]->def->imm, (int)op->imm + 1)};
    LLVMValueRef some = LLVMBuildICmp(g->B, LLVMIntSLT, live, LLVMConstInt(LLVMTypeOf(live), (unsigned long long)op->in[0]->type.shape[0], 0), "");
    for (int i = 0; i < 2; i++) maps[i] = LLVMBuildPtrToInt(g->B, maps[i], g->i64, "");
    return LLVMBuildIntToPtr(g->B, LLVMBuildSelect(g->B, some, maps[1], maps[0], ""), LLVMTypeOf(map), "");
}

// A tile is loaded by boxes: chunks of columns, and of each all rows, or as many parts of them as a cluster has blocks. In
// a cluster that shares it each block brings every second box, or so, to all blocks. Parts may have places of their own (specialize/paged_boxes.c).
//
//     chunks 0 1 2 3, whole         block 0: 0 1, block 1: 2 3             one chunk, parts 0 1       block 0: 0, block 1: 1
void emit_tma_load(Gen *g, Op *op) {
    Val *buf = op->in[0];
    const Type *t = &buf->type;
    const LaunchSlot *slot = gen_map(g, op);
    int pitch = t->swizzle ? t->swizzle : (int)t->shape[1] * elem_bytes((Elem)t->elem), span = pitch / elem_bytes((Elem)t->elem), chunks = (int)(t->shape[1] / span), rank = slot->rank, row_dim = -1;
    int blocks = op->attr > 1 ? (int)op->attr : 1, box_rows = (int)t->shape[0];
    for (int d = 1; d < rank; d++) if (slot->box[d] > 1) { row_dim = slot->map_dim[d]; box_rows = (int)slot->box[d]; }
    int parts = (int)t->shape[0] / box_rows, boxes = chunks * parts / blocks, box_bytes = box_rows * pitch;
    bool by_rows = parts > 1 && blocks > 1;                                  // then this block's number is the part
    LLVMValueRef at = gen_stage(g, buf, buf->def->imm == 1 ? gen_i32(g, 0) : gen_get(g, op->in[1], 0)), bar = mbar_at(g, op->in[2], gen_get(g, op->in[1], 0));
    LLVMValueRef map = gen_param(g, SLOT_TENSORMAP, (int)op->in[3]->def->imm, (int)op->imm), block = NULL;
    LLVMTypeRef p7 = LLVMPointerTypeInContext(g->C, 7);
    char name[64];
    LLVMValueRef one = elected(g);
    int last = op->nin - !!(op->flags & HAS_WHERE);
    bool own = last == 4 + parts * rank && parts > 1, window = slot->im2col, columns = last < op->nin && op->attr == 1;
    LLVMValueRef live = last < op->nin ? gen_get(g, op->in[last], 0) : NULL;
    if (live && !columns) map = map_of_rows(g, op, live, map);
    snprintf(name, sizeof name, "llvm.nvvm.cp.async.bulk.tensor.g2s.%s.%dd", window ? "im2col" : "tile", rank);
    if (blocks > 1) {
        block = call(g, "llvm.nvvm.read.ptx.sreg.cluster.ctarank", 0, NULL);
        at = add(g, at, mul(g, block, by_rows ? box_bytes : boxes * box_bytes));
    }
    for (int i = 0; i < boxes; i++) {
        LLVMValueRef a[20];
        int n = 0, chunk = by_rows ? i : i / parts, part = by_rows ? 0 : i % parts;
        int64_t off = by_rows ? (int64_t)i * parts * box_bytes : (int64_t)i * box_bytes;
        a[n++] = LLVMBuildAddrSpaceCast(g->B, gen_ring(g, add(g, at, gen_i32(g, off))), p7, "");
        a[n++] = bar;
        a[n++] = map;
        for (int k = 0; k < rank; k++) {                         // innermost first
            int d = slot->map_dim[k];
            LLVMValueRef x = d < 0 ? gen_i32(g, 0) : gen_get(g, op->in[4 + (own ? part * rank : 0) + d], 0);
            if (LLVMTypeOf(x) != g->i32) x = LLVMBuildTrunc(g->B, x, g->i32, "");
            if (!k && chunk) x = add(g, x, gen_i32(g, chunk * span));
            if (!k && block && !by_rows) x = add(g, x, mul(g, block, boxes * span));
            if (d == row_dim && part && !own) x = add(g, x, gen_i32(g, part * box_rows));
            if (d == row_dim && by_rows) x = add(g, x, mul(g, block, box_rows));
            a[n++] = x;
        }
        for (int d = last - 1; d >= 4 + op->nidx && window; d--) {                         // of the window, innermost first
            LLVMValueRef x = gen_get(g, op->in[d], 0);
            a[n++] = LLVMBuildTrunc(g->B, x, g->i16, "");
        }
        a[n++] = LLVMConstInt(g->i16, (1u << blocks) - 1, 0);                // to these blocks of the cluster
        a[n++] = gen_i64(g, 0);                                              // no cache hint
        a[n++] = LLVMConstInt(g->i1, blocks > 1, 0);
        a[n++] = LLVMConstInt(g->i1, 0, 0);
        a[n++] = gen_i32(g, 0);
        LLVMBasicBlockRef go = NULL;
        LLVMValueRef some = columns && chunk ? LLVMBuildICmp(g->B, LLVMIntSGT, live, LLVMConstInt(LLVMTypeOf(live), (unsigned long long)chunk * (unsigned)span, 0), "") : NULL;
        if (one || some) if_thread(g, gen_both(g, one, some), &go);
        call(g, name, n, a);
        if (go) rejoin(g, go);
    }
}

// Rows of a stage past the axis's last live lane become zero, 16 bytes a step, spread over the consumers.
void emit_buffer_clear(Gen *g, Op *op) {
    Val *buf = op->in[0], *axis = op->in[2];
    const Type *t = &buf->type;
    if (axis->def->flags & AXIS_FULL) return;
    int64_t rows = t->shape[0], bytes = stage_bytes(t);
    LLVMValueRef live = LLVMBuildSub(g->B, gen_get64(g, axis_hi(axis), 0), gen_get64(g, axis_lo(axis), 0), "");
    LLVMBasicBlockRef partial = gen_block(g, "partial"), loop = gen_block(g, "clear"), zero = gen_block(g, "zero"), next = gen_block(g, "step"), done = gen_block(g, "cleared"), go = gen_block(g, "whole");
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntSLT, live, gen_i64(g, rows), ""), partial, go);

    LLVMPositionBuilderAtEnd(g->B, partial);
    LLVMValueRef n = LLVMBuildTrunc(g->B, live, g->i32, ""), base = gen_stage(g, buf, gen_get(g, op->in[1], 0));
    LLVMValueRef thread = add(g, mul(g, g->warp, 32), g->lane);
    int threads = g->program_threads * (g->f->bands > 1 ? g->f->bands : 1);          // whose stage it is
    if (threads > g->program_threads) thread = add(g, thread, mul(g, g->slice, g->program_threads));
    LLVMValueRef start = mul(g, thread, 16);
    if (bytes < threads * 16) LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntSLT, start, gen_i32(g, bytes), ""), loop, done);      // fewer pieces than threads
    else LLVMBuildBr(g->B, loop);
    LLVMPositionBuilderAtEnd(g->B, loop);
    LLVMValueRef at = LLVMBuildPhi(g->B, g->i32, "");
    LLVMAddIncoming(at, &start, &partial, 1);
    LLVMValueRef row = LLVMBuildURem(g->B, LLVMBuildUDiv(g->B, at, gen_i32(g, t->swizzle), ""), gen_i32(g, rows), "");
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntSGE, row, n, ""), zero, next);
    LLVMPositionBuilderAtEnd(g->B, zero);
    LLVMTypeRef v4 = LLVMVectorType(g->i32, 4);
    LLVMSetAlignment(LLVMBuildStore(g->B, LLVMConstNull(v4), gen_ring(g, add(g, base, at))), 16);
    LLVMBuildBr(g->B, next);
    LLVMPositionBuilderAtEnd(g->B, next);
    LLVMValueRef more = add(g, at, gen_i32(g, threads * 16));
    LLVMAddIncoming(at, &more, &next, 1);
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntSLT, more, gen_i32(g, bytes), ""), loop, done);
    LLVMPositionBuilderAtEnd(g->B, done);
    call(g, "llvm.nvvm.fence.proxy.async.shared_cta", 0, NULL);
    if (threads > g->program_threads) gen_barrier_named(g, gen_i32(g, BARRIER_CONSUMERS), threads);
    else gen_barrier(g);
    LLVMBuildBr(g->B, go);
    LLVMPositionBuilderAtEnd(g->B, go);
}
