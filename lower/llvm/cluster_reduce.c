// What the blocks of a cluster join, through distributed shared memory.
//
//     each block     its value, into every block's slots          st.async at mapa(slots + own number), 4 bytes told to mapa(mbarrier)
//     each block     waits for what all have sent                 its own mbarrier: so many bytes
//     each block     reads its own slots, joins them in order      the same sum in each block
//
// There are no barriers of the cluster: their arrivals release all that a thread has written, and ptxas makes of that a
// fence of the whole GPU (MEMBAR.ALL.GPU), for which a block waits until its results are in memory. Softmax of 4096 x
// 128256 bf16 by hand in clusters of 8: 552 us with barriers, 511 so (a copy: 497; H200, 2026-11-21).
//
// Joins that are neighbours go out together, for one mbarrier. So does the next row's number, which the first block asks
// a counter in memory for, for all (`draw`, `drawn`).
//
// Nobody writes to a block that has not begun: all arrive once when they begin, at the cluster's barrier, and wait for
// that before the first value is sent. Who has received what all have sent may end: no more comes.
//
// Where blocks walk from row to row (row_cache_loop.c), a join is done again for each, with the same slots and the next
// phase of the mbarrier: `turn` counts rows. Whoever sends for a row has received all that was sent in the join before,
// whose senders had all read what came before that: so between two uses of slots there must be another join. Where a
// row has one alone, its slots and mbarrier are double and take turns.
#include "lower/llvm/gen.h"
#include "ptx/ptx.h"

static LLVMTypeRef bits_type(Gen *g, const Val *v) {
    return !v->type.ptr && elem_bits((Elem)v->type.elem) <= 32 ? g->i32 : g->i64;
}

static LLVMValueRef to_bits(Gen *g, LLVMValueRef x, LLVMTypeRef want) {
    LLVMTypeRef t = LLVMTypeOf(x);
    if (t == want) return x;
    return t == g->f32 || t == g->f64 ? LLVMBuildBitCast(g->B, x, want, "") : LLVMBuildZExt(g->B, x, want, "");
}

static LLVMValueRef from_bits(Gen *g, LLVMValueRef x, LLVMTypeRef want) {
    LLVMTypeRef t = LLVMTypeOf(x);
    if (t == want) return x;
    return want == g->f32 || want == g->f64 ? LLVMBuildBitCast(g->B, x, want, "") : LLVMBuildTrunc(g->B, x, want, "");
}

// ---- mbarriers -----------------------------------------------------------------------------------

enum { TOGETHER = 64, BAR = 8 };

static const char wait_text[] =
    "{\n.reg .pred p;\nwait:\nmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [$0], $1;\n@!p bra wait;\n}";

static uint32_t room(Gen *g, int64_t bytes) { return gen_area(g, (uint32_t)bytes); }

static LLVMValueRef address(Gen *g, LLVMValueRef at) { return LLVMBuildPtrToInt(g->B, gen_smem(g, at), g->i32, ""); }

static void effect(Gen *g, const char *text, const char *constraints, int n, LLVMValueRef *args) {
    gen_asm(g, LLVMVoidTypeInContext(g->C), text, constraints, n, args, true, false);
}

static LLVMValueRef from_first_lane(Gen *g, LLVMValueRef x) {
    return gen_call(g, "llvm.nvvm.shfl.sync.idx.i32", 4,
                    (LLVMValueRef[]){gen_i32(g, -1), x, gen_i32(g, 0), gen_i32(g, 31)}, 0, NULL);
}

static LLVMValueRef first_thread(Gen *g) { return LLVMBuildICmp(g->B, LLVMIntEQ, g->tid, gen_i32(g, 0), ""); }

void gen_cluster_begin(Gen *g) {
    int n = 0;
    for (const Op *op = op_walk(&g->f->body, NULL); op; op = op_walk(&g->f->body, op))
        n += (op_meets(op) && g->f->cluster > 1) || op_put_in(op) == PUT_cluster || op_put_in(op) == PUT_scattered;
    if (!n) return;
    gen_need(g, offsetof(Target, has_st_async));
    g->bars = room(g, 2 * BAR * n);
    for (int i = 0; i < 2 * n; i++) {
        LLVMValueRef in[] = {address(g, gen_i32(g, g->bars + BAR * i)), first_thread(g)};
        effect(g, "@$1 mbarrier.init.shared::cta.b64 [$0], 1;", "r,b,~{memory}", 2, in);
    }
    gen_call(g, "llvm.nvvm.fence.mbarrier_init.release.cluster", 0, NULL, 0, NULL);
    // nothing but mbarriers has been written where parts of a product come later: no fence of the whole GPU
    gen_call(g, put_scattered(g->f) ? "llvm.nvvm.barrier.cluster.arrive.relaxed.aligned" : "llvm.nvvm.barrier.cluster.arrive.aligned", 0, NULL, 0, NULL);
    g->cluster_waits = true;
}

// The others have begun, too.
static void begun(Gen *g) {
    if (g->cluster_waits) gen_call(g, "llvm.nvvm.barrier.cluster.wait.aligned", 0, NULL, 0, NULL);
    g->cluster_waits = false;
}

void gen_cluster_loop(Gen *g, const Op *loop) {
    for (int i = 0; i < loop->nreg; i++)
        for (const Op *op = loop->reg[i]->first; op; op = op->next) if (op_meets(op)) { begun(g); return; }
}

// ---- one value -----------------------------------------------------------------------------------

typedef struct Out {                     // an op that goes out
    const Op *op;
    int  n, threads, unit;               // registers; threads that send; bytes of a register
    bool joins;                          // all blocks send; else it is one block's number
    int  like;                           // the one before that sends the same, or -1
    int64_t bytes, room;                 // that a block receives; and has for it
    LLVMValueRef area;                   // of the slots
} Out;

static Out out_of(Gen *g, const Op *op) {
    const Val *v = op->in[0];
    Out o = {.op = op, .joins = op->code != OP_T_drawn, .like = -1, .threads = v->type.rank ? g->f->warps * 32 : 1};
    o.n = gen_tile(g, v)->n;
    o.unit = o.joins && bits_type(g, v) == g->i64 ? 8 : 4;
    o.bytes = o.joins ? (int64_t)op->imm * o.n * o.threads * o.unit : o.unit;
    o.room = (o.bytes + 15) & ~INT64_C(15);
    return o;
}

// Where register r of the value of block `from` stands: for each block, register by register, thread by thread.
static LLVMValueRef slot(Gen *g, const Out *o, LLVMValueRef from, int r) {
    if (!o->joins) return o->area;
    LLVMValueRef at = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, from, gen_i32(g, (int64_t)o->n * o->threads * o->unit), ""),
                                   gen_i32(g, (int64_t)r * o->threads * o->unit), "");
    at = LLVMBuildAdd(g->B, at, o->area, "");
    return o->threads > 1 ? LLVMBuildAdd(g->B, at, LLVMBuildMul(g->B, g->tid, gen_i32(g, o->unit), ""), "") : at;
}

static LLVMValueRef rank_of(Gen *g) { return gen_call(g, "llvm.nvvm.read.ptx.sreg.cluster.ctarank", 0, NULL, 0, NULL); }

static LLVMValueRef there(Gen *g, LLVMValueRef at, LLVMValueRef block) {
    return gen_asm(g, g->i32, "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", 2,
                   (LLVMValueRef[]){address(g, at), block}, false, false);
}

static void send(Gen *g, const Out *o, LLVMValueRef bar, LLVMValueRef rank) {
    const Val *v = o->op->in[0];
    int blocks = g->f->cluster;
    LLVMBasicBlockRef out = gen_block(g, "send"), sent = gen_block(g, "sent");
    LLVMValueRef sends = LLVMBuildICmp(g->B, LLVMIntULT, g->tid, gen_i32(g, blocks), ""), drawn = NULL;
    if (!o->joins) {                                           // the first thread of the first block has it
        drawn = from_first_lane(g, LLVMBuildTrunc(g->B, gen_get64(g, v, 0), g->i32, ""));
        sends = LLVMBuildAnd(g->B, sends, LLVMBuildICmp(g->B, LLVMIntEQ, rank, gen_i32(g, 0), ""), "");
    }
    // a number goes out from as many threads as there are blocks, a tile from each of its threads to all blocks
    bool tile = o->threads > 1;
    LLVMBuildCondBr(g->B, tile ? LLVMConstInt(g->i1, 1, 0) : sends, out, sent);
    LLVMPositionBuilderAtEnd(g->B, out);
    for (int b = 0; b < (tile ? blocks : 1); b++) {
        LLVMValueRef to = tile ? gen_i32(g, b) : g->tid, signal = there(g, bar, to);
        for (int r = 0; r < o->n; r++) {
            LLVMValueRef x = o->joins ? to_bits(g, gen_get(g, v, r), o->unit == 8 ? g->i64 : g->i32) : drawn;
            LLVMValueRef in[] = {there(g, slot(g, o, rank, r), to), x, signal};
            if (o->unit == 8)
                effect(g, "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [$0], $1, [$2];",
                       "r,l,r,~{memory}", 3, in);
            else
                effect(g, "st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [$0], $1, [$2];",
                       "r,r,r,~{memory}", 3, in);
        }
    }
    LLVMBuildBr(g->B, sent);
    LLVMPositionBuilderAtEnd(g->B, sent);
}

static void set_number(Gen *g, const Op *op, LLVMValueRef x) {
    gen_set(g, op->out[0], 0, gen_is32(g, op->out[0]) ? x : LLVMBuildZExt(g->B, x, g->i64, ""));
}

static void receive(Gen *g, const Out *o) {
    const Op *op = o->op;
    const Val *v = op->in[0];
    LLVMTypeRef bits = o->unit == 8 ? g->i64 : g->i32;
    if (!o->joins) { set_number(g, op, LLVMBuildLoad2(g->B, bits, gen_smem(g, o->area), "")); return; }
    Elem e = (Elem)v->type.elem, wide = elem_is_storage(e) ? EL_f32 : e;
    for (int r = 0; r < o->n; r++) {
        LLVMValueRef sum = NULL;
        bool one = op->code == OP_T_from_cluster;
        for (int b = one ? (int)op->attr : 0; b < (one ? (int)op->attr + 1 : (int)op->imm); b++) {
            LLVMValueRef x = LLVMBuildLoad2(g->B, bits, gen_smem(g, slot(g, o, gen_i32(g, b), r)), "");
            x = from_bits(g, x, LLVMTypeOf(gen_get(g, v, r)));
            if (wide != e) x = gen_to_f32(g, x, e);
            sum = sum ? gen_join(g, (TReduce)op->sub, wide, sum, x) : x;
        }
        gen_set(g, op->out[0], r, wide != e ? gen_kept_f32(g, sum, e) : sum);
    }
}

// ---- all that go out together --------------------------------------------------------------------

static bool alone(const Op *first, const Op *last) {          // of its row
    for (const Op *op = first->prev; op; op = op->prev) if (op_meets(op)) return false;
    for (const Op *op = last->next; op; op = op->next) if (op_meets(op)) return false;
    return true;
}

static void meet(Gen *g, const Op *first) {
    Out out[TOGETHER];
    int n = 0;
    int64_t bytes = 0, slots = 0;
    bool numbers = false, again = first->parent != &g->f->body;
    if (g->met > 0) { g->met--; return; }                      // with one before it
    begun(g);
    for (const Op *op = first; op && op_meets(op) && n < TOGETHER; op = op->next) {
        out[n] = out_of(g, op);
        for (int k = 0; k < n && out[n].like < 0; k++) if (out[k].op->in[0] == op->in[0]) out[n].like = k;
        numbers |= out[n].threads == 1;
        if (out[n].like < 0) {
            bytes += out[n].bytes;
            slots += out[n].room;
        }
        n++;
    }
    g->met = n - 1;
    bool twice = again && alone(first, out[n - 1].op);
    uint32_t area = room(g, twice ? 2 * slots : slots);
    LLVMValueRef at = gen_i32(g, area), bar = gen_i32(g, g->bars), parity = gen_i32(g, 0), rank = rank_of(g);
    g->bars += 2 * BAR;
    if (again) {
        LLVMValueRef turn = gen_get(g, first->in[first->nin - 1], 0), odd = LLVMBuildAnd(g->B, turn, gen_i32(g, 1), "");
        parity = twice ? LLVMBuildAnd(g->B, LLVMBuildLShr(g->B, turn, gen_i32(g, 1), ""), gen_i32(g, 1), "") : odd;
        if (twice) {
            at = LLVMBuildAdd(g->B, at, LLVMBuildMul(g->B, odd, gen_i32(g, slots), ""), "");
            bar = LLVMBuildAdd(g->B, bar, LLVMBuildMul(g->B, odd, gen_i32(g, BAR), ""), "");
        }
        if (numbers) gen_barrier(g);                           // all threads have read what came before
    }
    for (int i = 0; i < n; i++) {
        out[i].area = out[i].like < 0 ? at : out[out[i].like].area;
        if (out[i].like < 0) at = LLVMBuildAdd(g->B, at, gen_i32(g, out[i].room), "");
    }
    LLVMValueRef here = address(g, bar);
    LLVMValueRef expected[] = {here, gen_i32(g, bytes), first_thread(g)}, awaited[] = {here, parity};
    effect(g, "@$2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,b,~{memory}", 3, expected);
    for (int i = 0; i < n; i++) if (out[i].like < 0) send(g, &out[i], bar, rank);
    effect(g, wait_text, "r,r,~{memory}", 2, awaited);
    for (int i = 0; i < n; i++) receive(g, &out[i]);
}

// ---- for llvm/split_k_workspace.c: what all blocks but the first send there ---------------------------------------

uint32_t gen_cluster_bar(Gen *g) {
    begun(g);
    uint32_t bar = g->bars;
    g->bars += 2 * BAR;
    return bar;
}

uint32_t gen_cluster_room(Gen *g, int64_t bytes) { return room(g, bytes); }

void gen_cluster_send(Gen *g, int block, LLVMValueRef at, int n, LLVMValueRef *words, uint32_t bar) {
    static const char *const text[] = {[1] = ".b32 [$0], $1, [$2];",
                                       [2] = ".v2.b32 [$0], {$1, $2}, [$3];",
                                       [4] = ".v4.b32 [$0], {$1, $2, $3, $4}, [$5];"};
    static const char *const wide[] = {[1] = ".b64 [$0], $1, [$2];", [2] = ".v2.b64 [$0], {$1, $2}, [$3];"};
    static const char *const regs[] = {[1] = "r,r,r,~{memory}", [2] = "r,r,r,r,~{memory}", [4] = "r,r,r,r,r,r,~{memory}"};
    static const char *const wide_regs[] = {[1] = "r,l,r,~{memory}", [2] = "r,l,l,r,~{memory}"};
    bool is_wide = LLVMTypeOf(words[0]) == g->i64;
    LLVMValueRef in[6] = {there(g, at, gen_i32(g, block))};
    for (int i = 0; i < n; i++) in[1 + i] = words[i];
    in[1 + n] = there(g, gen_i32(g, bar), gen_i32(g, block));
    Buf line = {0};
    buf_printf(&line, "st.async.shared::cluster.mbarrier::complete_tx::bytes%s", is_wide ? wide[n] : text[n]);
    effect(g, line.p, is_wide ? wide_regs[n] : regs[n], n + 2, in);
    buf_free(&line);
}

void gen_cluster_expect(Gen *g, uint32_t bar, int64_t bytes, LLVMValueRef by) {
    LLVMValueRef expected[] = {address(g, gen_i32(g, bar)), gen_i32(g, bytes), by};
    effect(g, "@$2 mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,b,~{memory}", 3, expected);
}

void gen_cluster_await(Gen *g, uint32_t bar) {
    effect(g, wait_text, "r,r,~{memory}", 2, (LLVMValueRef[]){address(g, gen_i32(g, bar)), gen_i32(g, 0)});
}

void gen_cluster_receive(Gen *g, uint32_t bar, int64_t bytes) {
    gen_cluster_expect(g, bar, bytes, first_thread(g));
    gen_cluster_await(g, bar);
}

void gen_cluster_leave(Gen *g) { gen_call(g, "llvm.nvvm.barrier.cluster.wait", 0, NULL, 0, NULL); }

void emit_join_cluster(Gen *g, Op *op) { meet(g, op); }
void emit_from_cluster(Gen *g, Op *op) { meet(g, op); }

void emit_draw(Gen *g, Op *op) {
    LLVMValueRef one = first_thread(g), most = LLVMBuildTrunc(g->B, gen_get64(g, op->in[0], 0), g->i32, "");
    if (g->f->cluster > 1) one = LLVMBuildAnd(g->B, one, LLVMBuildICmp(g->B, LLVMIntEQ, rank_of(g), gen_i32(g, 0), ""), "");
    if (g->one_warp) ice("programs of one warp draw numbers");
    // inc wraps to zero after the last number, so that the next launch begins anew
    LLVMValueRef x = gen_asm(g, g->i32, "mov.b32 $0, 0; @$1 atom.relaxed.gpu.global.inc.u32 $0, [$2], $3;",
                             "=&r,b,l,r,~{memory}", 3,
                             (LLVMValueRef[]){one, gen_param(g, SLOT_SCRATCH, SCRATCH_COUNTS, 0),
                                              LLVMBuildSub(g->B, most, gen_i32(g, 1), "")},
                             true, false);
    set_number(g, op, x);
}

void emit_drawn(Gen *g, Op *op) {
    if (g->f->cluster > 1) { meet(g, op); return; }
    uint32_t area = room(g, 4);
    LLVMBasicBlockRef put = gen_block(g, "drawn"), all = gen_block(g, "told");
    gen_barrier(g);                                            // all have read the last one
    LLVMBuildCondBr(g->B, first_thread(g), put, all);
    LLVMPositionBuilderAtEnd(g->B, put);
    LLVMBuildStore(g->B, LLVMBuildTrunc(g->B, gen_get64(g, op->in[0], 0), g->i32, ""), gen_smem(g, gen_i32(g, area)));
    LLVMBuildBr(g->B, all);
    LLVMPositionBuilderAtEnd(g->B, all);
    gen_barrier(g);
    set_number(g, op, LLVMBuildLoad2(g->B, g->i32, gen_smem(g, gen_i32(g, area)), ""));
}
