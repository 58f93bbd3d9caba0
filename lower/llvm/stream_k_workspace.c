// Parts of tiles that programs send to the one that joins them: slots of scratch memory, and counts of what has come.
//
//     slots       slot 0's values, slot 1's ..          one for each block (stream_k_workspace.c), or each part of a tile but the last (split_k.c): register by
//                                                       register as its threads hold it, 16 bytes a thread at a time
//     counts      a word for each value and warp of who joins, a block or a tile        zero between launches
//
// A value's layout is the same in all programs, so a thread reads what the same threads of the others wrote, and warps need
// not wait for each other: a warp's lanes store (__syncwarp), one counts the arrival at its own word of the joining block,
// which releases what all have stored. That block's warp reads its word until all are there, which acquires it, sets it
// back for the next launch, and adds slot by slot, in the tile's order.
#include "lower/llvm/split_k_workspace.h"

// registers of all parts, up to which adding is straight-line code: all of them are on their way at once
enum { UNROLLED = 256 };

static const Op *sender(const Gen *g) {
    for (const Op *op = op_walk(&g->f->body, NULL); op; op = op_walk(&g->f->body, op))
        if (op->code == OP_T_part_send) return op;
    ice("nobody sends the parts that are joined");
}

static int64_t value_offset(const Fn *f, const Op *send, int value) {
    int64_t at = 0;
    for (int i = 0; i < value; i++) at += (int64_t)part_regs(send->in[2 + i]) * part_unit(send->in[2 + i]);
    return at * f->warps * 32;
}

int64_t gen_slot_bytes(const Fn *f, const Op *send) { return (value_offset(f, send, send->nin - 2) + 127) & ~(int64_t)127; }
int64_t gen_slot_counts(const Fn *f, const Op *send) { return (int64_t)(send->nin - 2) * f->warps * 4; }

// The word that this warp's parts of a value are counted in, of the block that joins them.
static LLVMValueRef count_of(Gen *g, const Op *send, LLVMValueRef block, int value) {
    LLVMValueRef at = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, block, gen_i64(g, send->nin - 2), ""), gen_i64(g, value), "");
    at = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, at, gen_i64(g, g->f->warps), ""),
                      LLVMBuildZExt(g->B, g->warp, g->i64, ""), "");
    at = LLVMBuildMul(g->B, at, gen_i64(g, 4), "");
    return LLVMBuildGEP2(g->B, g->i8, gen_param(g, SLOT_SCRATCH, SCRATCH_COUNTS, 0), &at, 1, "");
}

// Where this thread's part of a value begins in a slot, but for the size of what is moved together.
static LLVMValueRef slot_of(Gen *g, const Op *send, LLVMValueRef slot, int value) {
    LLVMValueRef at = LLVMBuildMul(g->B, slot, gen_i64(g, gen_slot_bytes(g->f, send)), "");
    return LLVMBuildAdd(g->B, at, gen_i64(g, value_offset(g->f, send, value)), "");
}

static LLVMValueRef address(Gen *g, const Val *v, LLVMValueRef slot, int k, int n) {
    int unit = part_unit(v);
    LLVMValueRef thread = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, g->warp, gen_i32(g, 32), ""), g->lane, "");
    LLVMValueRef off = LLVMBuildZExt(g->B, LLVMBuildMul(g->B, thread, gen_i32(g, n * unit), ""), g->i64, "");
    off = LLVMBuildAdd(g->B, LLVMBuildAdd(g->B, slot, off, ""), gen_i64(g, (int64_t)k * unit * g->f->warps * 32), "");
    return LLVMBuildGEP2(g->B, g->i8, gen_param(g, SLOT_SCRATCH, SCRATCH_PARTS, 0), &off, 1, "");
}


// the block after it, which is to be gone to
static LLVMBasicBlockRef one_lane(Gen *g, const char *name) {
    LLVMBasicBlockRef one = gen_block(g, name), all = gen_block(g, "warp");
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntEQ, g->lane, gen_i32(g, 0), ""), one, all);
    LLVMPositionBuilderAtEnd(g->B, one);
    return all;
}

void emit_part_send(Gen *g, Op *op) {
    LLVMValueRef slot = gen_get64(g, op->in[0], 0), block = gen_get64(g, op->in[1], 0);
    for (int i = 0; i < op->nin - 2; i++) {
        const Val *v = op->in[2 + i];
        LLVMValueRef at = slot_of(g, op, slot, i);
        int *reg, all = part_alive(g, v, &reg);
        for (int k = 0, n; k < all; k += n) {
            n = part_run(v, all - k);
            part_store(g, v, reg + k, n, address(g, v, at, k, n));
        }
    }
    gen_barrier_warp(g);
    LLVMBasicBlockRef all = one_lane(g, "sent");
    for (int i = 0; i < op->nin - 2; i++)
        gen_asm(g, LLVMVoidTypeInContext(g->C), "red.release.gpu.global.add.u32 [$0], 1;", "l,~{memory}", 1,
                (LLVMValueRef[]){count_of(g, op, block, i)}, true, false);
    LLVMBuildBr(g->B, all);
    LLVMPositionBuilderAtEnd(g->B, all);
}

// Until so many parts have come; the word is zero again then.
static void await_parts(Gen *g, LLVMValueRef count, LLVMValueRef parts) {
    LLVMBasicBlockRef poll = gen_block(g, "poll"), come = gen_block(g, "come");
    LLVMBuildBr(g->B, poll);
    LLVMPositionBuilderAtEnd(g->B, poll);
    LLVMValueRef n = gen_asm(g, g->i32, "ld.acquire.gpu.global.u32 $0, [$1];", "=r,l,~{memory}", 1, &count, true, false);
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntEQ, n, LLVMBuildTrunc(g->B, parts, g->i32, ""), ""), come, poll);
    LLVMPositionBuilderAtEnd(g->B, come);
    gen_barrier_warp(g);
    LLVMBasicBlockRef all = one_lane(g, "anew");
    LLVMSetAlignment(LLVMBuildStore(g->B, gen_i32(g, 0), count), 4);
    LLVMBuildBr(g->B, all);
    LLVMPositionBuilderAtEnd(g->B, all);
}

static void add_slot(Gen *g, const Op *op, const Op *send, LLVMValueRef slot, Elem as, LLVMValueRef *sum) {
    const Val *v = op->out[0];
    Elem e = (Elem)v->type.elem;
    LLVMValueRef at = slot_of(g, send, slot, (int)op->attr);
    int *reg, all = part_alive(g, v, &reg);
    for (int k = 0, n; k < all; k += n) {
        n = part_run(v, all - k);
        LLVMValueRef x = LLVMBuildLoad2(g->B, part_words(g, v, n), address(g, v, at, k, n), "");
        LLVMSetAlignment(x, (unsigned)(n * part_unit(v)));
        for (int r = 0; r < n; r++) {
            LLVMValueRef y = part_from_bits(g, v, n == 1 ? x : LLVMBuildExtractElement(g->B, x, gen_i32(g, r), ""));
            if (e != as) y = gen_to_f32(g, y, e);
            sum[reg[k + r]] = gen_join(g, (TReduce)op->sub, as, sum[reg[k + r]], y);
        }
    }
}

// A phi over two blocks for each register.
static void meet(Gen *g, int n, LLVMValueRef *x, LLVMBasicBlockRef from, LLVMValueRef *phi) {
    for (int r = 0; r < n; r++) {
        phi[r] = LLVMBuildPhi(g->B, LLVMTypeOf(x[r]), "");
        LLVMAddIncoming(phi[r], &x[r], &from, 1);
    }
}

void emit_part_join(Gen *g, Op *op) {
    const Op *send = sender(g);
    const Val *v = op->out[0];
    Elem e = (Elem)v->type.elem, as = elem_is_storage(e) ? EL_f32 : e == EL_index && gen_is32(g, v) ? EL_i32 : e;
    int regs = part_regs(v);
    LLVMValueRef *own = NEW_N(g->arena, LLVMValueRef, regs), *sum = NEW_N(g->arena, LLVMValueRef, regs),
                 *all = NEW_N(g->arena, LLVMValueRef, regs);
    LLVMValueRef first = gen_get64(g, op->in[0], 0), parts = gen_get64(g, op->in[1], 0),
                 block = gen_get64(g, op->in[2], 0), zero = gen_i64(g, 0);
    for (int r = 0; r < regs; r++) {
        own[r] = gen_get(g, op->in[3], r);
        if (e != as && as == EL_f32) own[r] = gen_to_f32(g, own[r], e);
    }
    LLVMValueRef count = count_of(g, send, block, (int)op->attr);
    Elem in = as == EL_f32 && e != as ? as : e;
    int64_t known = op->in[1]->def && op->in[1]->def->code == OP_T_const ? op->in[1]->def->imm : 0;
    if (known > 0 && (known <= 2 || known * regs <= UNROLLED)) {
        await_parts(g, count, parts);
        for (int r = 0; r < regs; r++) sum[r] = own[r];
        for (int64_t i = 0; i < known; i++) add_slot(g, op, send, LLVMBuildAdd(g->B, first, gen_i64(g, i), ""), in, sum);
        for (int r = 0; r < regs; r++) gen_set(g, v, r, in != e ? gen_from_f32(g, sum[r], e) : sum[r]);
        return;
    }
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->B), some = gen_block(g, "join"), loop = gen_block(g, "part"),
                      done = gen_block(g, "joined");
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntSGT, parts, zero, ""), some, done);
    LLVMPositionBuilderAtEnd(g->B, some);
    await_parts(g, count, parts);
    LLVMBasicBlockRef come = LLVMGetInsertBlock(g->B);
    LLVMBuildBr(g->B, loop);
    LLVMPositionBuilderAtEnd(g->B, loop);
    LLVMValueRef p = LLVMBuildPhi(g->B, g->i64, "");
    LLVMAddIncoming(p, &zero, &come, 1);
    LLVMValueRef *carried = NEW_N(g->arena, LLVMValueRef, regs);
    meet(g, regs, own, come, carried);
    for (int r = 0; r < regs; r++) sum[r] = carried[r];
    add_slot(g, op, send, LLVMBuildAdd(g->B, first, p, ""), in, sum);
    LLVMValueRef next = LLVMBuildAdd(g->B, p, gen_i64(g, 1), "");
    LLVMBasicBlockRef end = LLVMGetInsertBlock(g->B);
    LLVMAddIncoming(p, &next, &end, 1);
    for (int r = 0; r < regs; r++) LLVMAddIncoming(carried[r], &sum[r], &end, 1);
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntSLT, next, parts, ""), loop, done);
    LLVMPositionBuilderAtEnd(g->B, done);
    meet(g, regs, own, before, all);
    for (int r = 0; r < regs; r++) LLVMAddIncoming(all[r], &sum[r], &end, 1);
    for (int r = 0; r < regs; r++) gen_set(g, v, r, in != e ? gen_from_f32(g, all[r], e) : all[r]);
}
