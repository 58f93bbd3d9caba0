// Bytes turned for wgmma, which takes 8-bit operands by rows of k alone (specialize/tf32x3.c): tiles that lie with k outside.
//
// ldmatrix.trans moves pairs of bytes: of eight rows of 16 it gives lane (g, c), g = l / 4, c = l % 4, the pairs (2 g, 2 g + 1) of the rows 2 c and 2 c + 1.
// Rows are named by their addresses, so two matrices are the four k of a fragment's word, and a prmt for each of the pair's elements parts them:
//
//     matrix 0:  (k, i) (k, i + 1) (k + 1, i) (k + 1, i + 1)            word of i      k .. k + 3            i = 2 g, k = 4 c
//     matrix 1:  those of k + 2, k + 3                                  word of i + 1  k .. k + 3
//
// Four matrices are a fragment of 16 rows and 32 k, whose rows i and i + 1 stand where wgmma has g and g + 8: its result has its rows in pairs
// (layout_mma_pairs), which are neighbours in memory where the transposed product is made. Rows of a matrix are to lie on different banks, which
// rows k and k + 8 do not: of c = 2, 3 the first matrix has k + 2, k + 3.
//
// Three warps of the producer's group turn a right operand into rows of k beside it, by stmatrix, again with rows on different banks.
#include "lower/llvm/dot.h"

enum { MATRICES = 8, UNIT = 16, STEP = 32, EVEN = 0x6420, EVEN_LATE = 0x2064, ODD = 0x1111 };      // bytes of a matrix's row; k of a fragment; prmt's choices

// Of 32 rows the one whose address lane l gives: bits of l in the order h, c, p, half (of a row, a pair of rows, the matrix of two, 16 rows).
static LLVMValueRef row_of_lane(Gen *g) {
    LLVMValueRef l = g->lane, late = LLVMBuildXor(g->B, gen_bits(g, l, 2, 1), gen_bits(g, l, 3, 1), "");
    LLVMValueRef r = gen_add(g, gen_bits(g, l, 0, 1), gen_times(g, gen_bits(g, l, 1, 3), 4));
    return gen_add(g, gen_add(g, r, gen_times(g, late, 2)), gen_times(g, gen_bits(g, l, 4, 1), 16));
}

// Which bytes of two matrices are the word of the first of a pair's rows.
static LLVMValueRef even_bytes(Gen *g) {
    LLVMValueRef late = LLVMBuildICmp(g->B, LLVMIntNE, gen_bits(g, g->lane, 1, 1), gen_i32(g, 0), "");
    return LLVMBuildSelect(g->B, late, gen_i32(g, EVEN_LATE), gen_i32(g, EVEN), "");
}

static LLVMValueRef odd_bytes(Gen *g, LLVMValueRef even) { return gen_add(g, even, gen_i32(g, ODD)); }

// 16 columns of 32 rows as four words: by the choice `first` and by `second`, of 16 rows, then of the next.
static void fragment(Gen *g, LLVMValueRef at, LLVMValueRef first, LLVMValueRef second, LLVMValueRef *words) {
    LLVMValueRef m[4];
    gen_ldmatrix(g, at, 4, true, m);
    for (int i = 0; i < 4; i++) words[i] = gen_permute(g, m[i & 2], m[(i & 2) + 1], i & 1 ? second : first);
}

// The same in the order of mma.sync's fragments: of eight columns from `from` (0 or 8) on, lane (g, c) has that of number g, which lane (g / 2, c) of those has
// in its word of the first, or of the second.
LLVMValueRef gen_turned_lane(Gen *g) { return row_of_lane(g); }

static LLVMValueRef brought(Gen *g, LLVMValueRef const *pair, LLVMValueRef from) {
    LLVMValueRef g2 = LLVMBuildLShr(g->B, g->lane, gen_i32(g, 3), ""), lane, x[2];
    lane = gen_add(g, gen_times(g, gen_add(g, g2, LLVMBuildLShr(g->B, from, gen_i32(g, 1), "")), 4), gen_bits(g, g->lane, 0, 3));
    for (int i = 0; i < 2; i++) x[i] = gen_call(g, "llvm.nvvm.shfl.sync.idx.i32", 4, (LLVMValueRef[]){gen_i32(g, -1), pair[i], lane, gen_i32(g, 31)}, 0, NULL);
    return LLVMBuildSelect(g->B, LLVMBuildICmp(g->B, LLVMIntNE, gen_bits(g, g->lane, 2, 1), gen_i32(g, 0), ""), x[1], x[0], "");
}

void gen_turned_words(Gen *g, LLVMValueRef at, int n, LLVMValueRef const *from, LLVMValueRef *words) {
    LLVMValueRef even = even_bytes(g), both[4];
    fragment(g, at, even, odd_bytes(g, even), both);
    for (int i = 0; i < n; i++) for (int half = 0; half < 2; half++) words[2 * i + half] = brought(g, both + 2 * half, from[i]);
}

static void open_stage(Gen *g, const Val *buffer, LLVMValueRef stage, Shared *s) {
    buffer_shape(&buffer->type, s);
    s->base = gen_stage(g, buffer, stage);
    s->ring = true;
}

void gen_left_bytes(Gen *g, const Op *op, LLVMValueRef group, Share share, LLVMValueRef *words) {
    Shared s;
    SharedAt at;
    open_stage(g, op->in[0], gen_get(g, op->in[2], 0), &s);
    LLVMValueRef column = gen_times(g, gen_bits(g, g->warp, 0, 3), UNIT), even = even_bytes(g), odd = odd_bytes(g, even);
    if (group) column = gen_add(g, column, gen_times(g, group, 64));
    shared_open(g, &at, &s, (LLVMValueRef[]){row_of_lane(g), column});
    for (int m = share.block; m < share.block + share.blocks; m++)
        for (int k = share.step; k < share.step + share.steps; k++, words += 4) fragment(g, shared_ptr(&at, (int64_t[]){STEP * k, (int64_t)m * 64 * g->f->groups}), even, odd, words);
}

// Matrices of rows: 0, 2, 4, 6, 9, 11, 13, 15 and the others of 16, so that those of one are on different banks.
static LLVMValueRef row_turned(Gen *g) {
    LLVMValueRef l = g->lane;
    return gen_add(g, gen_times(g, gen_bits(g, l, 0, 7), 2), LLVMBuildXor(g->B, gen_bits(g, l, 3, 1), gen_bits(g, l, 2, 1), ""));
}

static void put_rows(Gen *g, LLVMValueRef at, LLVMValueRef const *words) {
    LLVMValueRef args[] = {LLVMBuildPtrToInt(g->B, at, g->i32, ""), words[0], words[1], words[2], words[3]};
    gen_asm(g, LLVMVoidTypeInContext(g->C), "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};", "r,r,r,r,r,~{memory}", 5, args, true, true);
}

// 16 or 32 columns and all rows at a time, each warp's in turn: as many matrices on their way as there are registers for.
void emit_buffer_turn(Gen *g, Op *op) {
    const Type *to = &op->in[2]->type;
    int steps = (int)(to->shape[1] / STEP), together = steps <= MATRICES / 2 && to->shape[0] % (2 * UNIT) == 0 ? 2 : 1;
    Shared from_s, to_s;
    SharedAt from, turned;
    LLVMValueRef stage = gen_get(g, op->in[1], 0), warp = LLVMBuildSub(g->B, LLVMBuildLShr(g->B, g->tid, gen_i32(g, 5), ""), gen_i32(g, (g->prepares - 1) / 32), "");
    LLVMValueRef start = gen_times(g, warp, UNIT * together), more, even = even_bytes(g), odd = odd_bytes(g, even), row = row_of_lane(g), turned_row = row_turned(g), words[MATRICES * 4];
    LLVMValueRef late = LLVMBuildICmp(g->B, LLVMIntNE, gen_bits(g, g->lane, 4, 1), gen_i32(g, 0), "");         // the second four of eight pairs of rows
    LLVMValueRef first = LLVMBuildSelect(g->B, late, odd, even, ""), second = LLVMBuildSelect(g->B, late, even, odd, "");
    open_stage(g, op->in[0], stage, &from_s);
    open_stage(g, op->in[2], stage, &to_s);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->B), loop = gen_block(g, "turn"), done = gen_block(g, "turned");
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntSLT, start, gen_i32(g, to->shape[0]), ""), loop, done);
    LLVMPositionBuilderAtEnd(g->B, loop);
    LLVMValueRef column = LLVMBuildPhi(g->B, g->i32, "");
    LLVMAddIncoming(column, &start, &before, 1);
    shared_open(g, &from, &from_s, (LLVMValueRef[]){row, column});
    shared_open(g, &turned, &to_s, (LLVMValueRef[]){gen_add(g, column, turned_row), gen_times(g, gen_bits(g, g->lane, 4, 1), UNIT)});
    for (int i = 0; i < steps * together; i++) fragment(g, shared_ptr(&from, (int64_t[]){STEP * (i % steps), UNIT * (i / steps)}), first, second, words + 4 * i);
    for (int i = 0; i < steps * together; i++) put_rows(g, shared_ptr(&turned, (int64_t[]){UNIT * (i / steps), STEP * (i % steps)}), words + 4 * i);
    more = gen_add(g, column, gen_i32(g, UNIT * TURN_WARPS * together));
    LLVMAddIncoming(column, &more, &loop, 1);
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntSLT, more, gen_i32(g, to->shape[0]), ""), loop, done);
    LLVMPositionBuilderAtEnd(g->B, done);
    gen_prepared(g, op->in[3], stage);
}
