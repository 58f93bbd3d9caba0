// f32 for wgmma (specialize/tf32x3.c): left operands that threads take from a stage, as the registers of m64nNk8, and what tf32 leaves of right ones.
//
//     A  r = 0..3   row g + 8 * (r & 1)   k c + 4 * (r >> 1)        l the lane, g = l / 4, c = l % 4; 16 rows a warp
//
// With k contiguous that is what ldmatrix gives of matrices of eight rows of 16 bytes; with rows contiguous each element is read by itself
// (two lanes of four at a bank).
#include "lower/llvm/dot.h"

static LLVMValueRef add(Gen *g, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAdd(g->B, a, b, ""); }
static LLVMValueRef times(Gen *g, LLVMValueRef a, int64_t k) { return LLVMBuildMul(g->B, a, gen_i32(g, k), ""); }
static LLVMValueRef below(Gen *g, LLVMValueRef x, int64_t n) { return LLVMBuildAnd(g->B, x, gen_i32(g, n - 1), ""); }
static LLVMValueRef down(Gen *g, LLVMValueRef x, int by) { return LLVMBuildLShr(g->B, x, gen_i32(g, by), ""); }

void gen_left_words(Gen *g, const Op *op, LLVMValueRef group, Share share, LLVMValueRef *words) {
    if (op_in_pairs(op)) { gen_left_bytes(g, op, group, share, words); return; }
    bool columns = op->attr & 1;                                   // k is the outer dimension
    Shared s;
    SharedAt at;
    buffer_shape(&op->in[0]->type, &s);
    s.base = gen_stage(g, op->in[0], gen_get(g, op->in[2], 0));
    s.ring = true;
    LLVMValueRef row = times(g, below(g, g->warp, 4), 16), lane[2];
    if (group) row = add(g, row, times(g, group, 64));
    lane[columns] = add(g, row, columns ? down(g, g->lane, 2) : below(g, g->lane, 16));
    lane[!columns] = columns ? below(g, g->lane, 4) : times(g, down(g, g->lane, 4), 4);
    shared_open(g, &at, &s, lane);
    for (int m = share.block; m < share.block + share.blocks; m++)
        for (int k = share.step; k < share.step + share.steps; k++, words += 4) {
            int64_t c[2] = {0};
            c[columns] = (int64_t)m * 64 * g->f->groups;
            c[!columns] = 8 * k;
            if (!columns) { gen_ldmatrix(g, shared_ptr(&at, c), 4, false, words); continue; }
            for (int r = 0; r < 4; r++) {
                int64_t each[] = {c[0] + 4 * (r >> 1), c[1] + 8 * (r & 1)};
                words[r] = LLVMBuildLoad2(g->B, g->i32, shared_ptr(&at, each), "");
                LLVMSetAlignment(words[r], 4);
            }
        }
}

void gen_prepared(Gen *g, const Val *bar, LLVMValueRef stage) {
    gen_call(g, "llvm.nvvm.fence.proxy.async.shared_cta", 0, NULL, 0, NULL);
    gen_barrier_warp(g);
    gen_arrive(g, bar, stage);
}

// 16 bytes a lane at a time, several of them on their way: a loop where they are many.
enum { TOGETHER = 8, THREADS = 32 * LOW_WARPS };

void emit_buffer_low(Gen *g, Op *op) {
    const Type *t = &op->in[0]->type;
    int64_t bytes = t->shape[0] * t->shape[1] * 4, round = 16 * THREADS;
    int each = TOGETHER;
    while (bytes % (round * each)) each--;                         // ends: a stage has 8 rows of 32 bytes or more
    LLVMValueRef stage = gen_get(g, op->in[1], 0), thread = LLVMBuildSub(g->B, g->tid, gen_i32(g, g->prepares - 1), "");
    LLVMValueRef from = gen_stage(g, op->in[0], stage), to = gen_stage(g, op->in[2], stage), start = times(g, thread, 16), more;
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->B), loop = gen_block(g, "low"), done = gen_block(g, "parted");
    LLVMTypeRef v4 = LLVMVectorType(g->i32, 4);
    LLVMBuildBr(g->B, loop);
    LLVMPositionBuilderAtEnd(g->B, loop);
    LLVMValueRef at = LLVMBuildPhi(g->B, g->i32, ""), x[TOGETHER];
    LLVMAddIncoming(at, &start, &before, 1);
    for (int i = 0; i < each; i++) {
        x[i] = LLVMBuildLoad2(g->B, v4, gen_ring(g, add(g, add(g, from, at), gen_i32(g, round * i))), "");
        LLVMSetAlignment(x[i], 16);
    }
    for (int i = 0; i < each; i++) {
        LLVMValueRef low = LLVMGetUndef(v4);
        for (int k = 0; k < 4; k++) {
            LLVMValueRef high, rest;
            gen_tf32_parts(g, LLVMBuildExtractElement(g->B, x[i], gen_i32(g, k), ""), &high, &rest);
            low = LLVMBuildInsertElement(g->B, low, rest, gen_i32(g, k), "");
        }
        LLVMSetAlignment(LLVMBuildStore(g->B, low, gen_ring(g, add(g, add(g, to, at), gen_i32(g, round * i)))), 16);
    }
    more = add(g, at, gen_i32(g, round * each));
    LLVMAddIncoming(at, &more, &loop, 1);
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntSLT, more, gen_i32(g, bytes), ""), loop, done);
    LLVMPositionBuilderAtEnd(g->B, done);
    gen_prepared(g, op->in[3], stage);
}
