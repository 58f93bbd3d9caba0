// What the blocks of a cluster join, through distributed shared memory.
//
//     each block     its value, into every block's slots          st.shared::cluster at mapa(slots + own number)
//     all            a barrier of the cluster                      arrive (release), wait (acquire)
//     each block     reads its own slots, joins them in order      the same sum in each block
//
// Nobody writes to a block that has not begun: all arrive once when they begin, and wait for that before the first value
// is sent. What comes after the barrier is a block's own affair, so a block may end while others still read. Each join has
// slots of its own, since the pass `share` makes none in a loop.
#include "lower/gen.h"
#include "ptx/ptx.h"

static LLVMTypeRef bits_type(Gen *g, const Val *v) { return !v->type.ptr && elem_bits((Elem)v->type.elem) <= 32 ? g->i32 : g->i64; }

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

static void barrier(Gen *g, bool arrive, bool wait) {
    if (arrive) gen_call(g, "llvm.nvvm.barrier.cluster.arrive.aligned", 0, NULL, 0, NULL);
    if (wait) gen_call(g, "llvm.nvvm.barrier.cluster.wait.aligned", 0, NULL, 0, NULL);
}

void gen_cluster_begin(Gen *g) {
    for (const Op *op = op_walk(&g->f->body, NULL); op; op = op_walk(&g->f->body, op)) {
        if (op->code != OP_T_join_cluster) continue;
        gen_need(g, offsetof(Target, has_cluster));
        barrier(g, true, false);
        g->cluster_waits = true;
        return;
    }
}

// Where register r of the value of block `from` stands: for each block, register by register, thread by thread.
static LLVMValueRef slot(Gen *g, uint32_t area, LLVMValueRef from, int r, int n, int threads, int unit) {
    LLVMValueRef at = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, from, gen_i32(g, (int64_t)n * threads * unit), ""), gen_i32(g, area + (int64_t)r * threads * unit), "");
    return threads > 1 ? LLVMBuildAdd(g->B, at, LLVMBuildMul(g->B, g->tid, gen_i32(g, unit), ""), "") : at;
}

void emit_join_cluster(Gen *g, Op *op) {
    const Val *v = op->in[0], *o = op->out[0];
    const Layout *l = v->type.rank ? v->layout : NULL;
    int n = gen_tile(g, v)->n, blocks = (int)op->imm, threads = l ? g->f->warps * 32 : 1;
    LLVMTypeRef bits = bits_type(g, v);
    int unit = bits == g->i64 ? 8 : 4;
    uint32_t area = (g->smem_used + 15) & ~15u;
    g->smem_used = area + (uint32_t)(blocks * n * threads * unit);
    if (g->cluster_waits) barrier(g, false, true);
    g->cluster_waits = false;

    LLVMValueRef rank = gen_call(g, "llvm.nvvm.read.ptx.sreg.cluster.ctarank", 0, NULL, 0, NULL);
    LLVMBasicBlockRef send = gen_block(g, "send"), sent = gen_block(g, "sent");
    // a number goes out from as many threads as there are blocks, a tile from each of its threads to all blocks
    LLVMBuildCondBr(g->B, l ? LLVMConstInt(g->i1, 1, 0) : LLVMBuildICmp(g->B, LLVMIntULT, g->tid, gen_i32(g, blocks), ""), send, sent);
    LLVMPositionBuilderAtEnd(g->B, send);
    for (int r = 0; r < n; r++) {
        LLVMValueRef x = to_bits(g, gen_get(g, v, r), bits), at = slot(g, area, rank, r, n, threads, unit);
        LLVMValueRef here = LLVMBuildPtrToInt(g->B, gen_smem(g, at), g->i32, "");
        for (int b = 0; b < (l ? blocks : 1); b++) {
            LLVMValueRef to = l ? gen_i32(g, b) : g->tid;
            LLVMValueRef far = gen_asm(g, g->i32, "mapa.shared::cluster.u32 $0, $1, $2;", "=r,r,r", 2, (LLVMValueRef[]){here, to}, false, false);
            gen_asm(g, LLVMVoidTypeInContext(g->C), unit == 8 ? "st.shared::cluster.b64 [$0], $1;" : "st.shared::cluster.b32 [$0], $1;", unit == 8 ? "r,l,~{memory}" : "r,r,~{memory}", 2, (LLVMValueRef[]){far, x}, true, false);
        }
    }
    LLVMBuildBr(g->B, sent);
    LLVMPositionBuilderAtEnd(g->B, sent);
    barrier(g, true, true);

    for (int r = 0; r < n; r++) {
        LLVMValueRef sum = NULL;
        Elem e = (Elem)v->type.elem, wide = elem_is_storage(e) ? EL_f32 : e;
        for (int b = 0; b < blocks; b++) {
            LLVMValueRef x = LLVMBuildLoad2(g->B, bits, gen_smem(g, slot(g, area, gen_i32(g, b), r, n, threads, unit)), "");
            x = from_bits(g, x, LLVMTypeOf(gen_get(g, v, r)));
            if (wide != e) x = gen_to_f32(g, x, e);
            sum = sum ? gen_join(g, (TReduce)op->sub, wide, sum, x) : x;
        }
        gen_set(g, o, r, wide != e ? gen_from_f32(g, sum, e) : sum);
    }
}
