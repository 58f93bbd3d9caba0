// Tiles kept in shared memory from one loop to the next (row_cache_smem.c).
//
//     tile 0       [16 bytes of thread 0][16 bytes of thread 1] ..  [the next 16 bytes of thread 0] ..
//     tile 1 ..    behind all other shared memory of the block
//
// Each thread takes back what it put, or what it asked for: a tile that is loaded to be kept is copied by cp.async,
// straight to where the thread will look for it, without registers. The area begins where all else ends, and has what
// is left of the block's shared memory; both numbers are known when the kernel is made, and stand for themselves until
// then.
#include "lower/facts/access.h"
#include "lower/llvm/smem_tiles.h"
#include "ptx/ptx.h"

static int unit_bytes(const Val *v) { return v->type.ptr ? 8 : elem_bytes((Elem)v->type.elem); }

static int64_t thread_bytes(const Val *v) {
    int64_t n = (int64_t)layout_regs(v->layout) * unit_bytes(v);
    return (n + 3) & ~(int64_t)3;                              // whole units, the last of which may be half full
}

// Bytes of one tile: the largest of those that are kept.
static int64_t slot_bytes(const Gen *g, const Op *keep) {
    int64_t most = 0;
    for (const Op *op = op_walk(&g->f->body, NULL); op; op = op_walk(&g->f->body, op)) {
        if (op->code != OP_T_keep_put || op->in[0] != keep->out[0]) continue;
        int64_t n = thread_bytes(op->in[2]) * g->f->warps * 32;
        most = n > most ? n : most;
    }
    return (most + 15) & ~(int64_t)15;
}

// a number to be
static LLVMValueRef later(Gen *g) { return gen_call(g, "llvm.nvvm.read.ptx.sreg.envreg0", 0, NULL, 0, NULL); }

void emit_keep(Gen *g, Op *op) {
    if (g->one_warp) ice("tiles are kept by a program of one warp");
    g->keep.op = op;
    g->keep.bytes = slot_bytes(g, op);
    g->keep.base = later(g);
    g->keep.room = later(g);
    LLVMTypeRef want = gen_type(g, op->out[0]);
    gen_set(g, op->out[0], 0, want == g->i32 ? g->keep.room : LLVMBuildZExt(g->B, g->keep.room, want, ""));
}

void gen_keep_close(Gen *g) {
    const Op *op = g->keep.op;
    if (!op) return;
    LaunchInfo *l = g->f->launch;
    uint32_t all = g->opt->target->smem_block, base = (g->smem_used + 127) & ~127u;
    int64_t  bytes = g->keep.bytes, room = all > base && bytes ? (all - base) / bytes : 0;
    LExpr    tiles, most = launch_const(g->arena, room);
    if (host_expr(g->facts, op->in[0], &tiles)) {
        LExpr some = launch_join(g->arena, L_MAX, launch_const(g->arena, 0), tiles);
        most = launch_join(g->arena, L_MIN, some, most);
    }
    int64_t ring;
    // too much: an error
    if (g->f->rows_walk && host_expr(g->facts, op->in[0], &tiles) && fact_constant(g->facts, tiles, &ring) &&
        ring > room)
        base += (uint32_t)(ring * bytes);
    l->smem = base;
    l->smem_more = launch_join_const(g->arena, L_MUL, most, bytes);
    g->f->kept = (int)room;
    LLVMReplaceAllUsesWith(g->keep.base, gen_i32(g, base));
    LLVMReplaceAllUsesWith(g->keep.room, gen_i32(g, room));
    LLVMInstructionEraseFromParent(g->keep.base);
    LLVMInstructionEraseFromParent(g->keep.room);
}

// Where this thread's bytes of the tile's first unit stand.
static LLVMValueRef place(Gen *g, const Op *op, int unit) {
    LLVMValueRef number = gen_get64(g, op->in[1], 0);
    LLVMValueRef at = LLVMBuildMul(g->B, LLVMBuildTrunc(g->B, number, g->i32, ""), gen_i32(g, g->keep.bytes), "");
    at = LLVMBuildAdd(g->B, at, LLVMBuildMul(g->B, g->tid, gen_i32(g, unit), ""), "");
    return LLVMBuildAdd(g->B, at, g->keep.base, "");
}

// Registers a unit holds: 16 bytes where there are so many, else 8 or 4.
static int unit_of(const Val *v) {
    int64_t n = thread_bytes(v);
    return n % 16 == 0 ? 16 : n % 8 == 0 ? 8 : 4;
}

static LLVMValueRef word_of(Gen *g, const Val *v, int r, int n) {       // n registers in 32 bits
    if (n > 1 || unit_bytes(v) < 4) {
        int left = layout_regs(v->layout) - r;
        if (left >= n && v->type.elem != EL_bool)
            return n > 1 ? gen_word(g, v, r, n) : LLVMBuildZExt(g->B, gen_get(g, v, r), g->i32, "");
        LLVMValueRef w = gen_i32(g, 0);
        for (int i = 0; i < n && i < left; i++) {
            LLVMValueRef x = LLVMBuildZExt(g->B, gen_get(g, v, r + i), g->i32, "");
            w = LLVMBuildOr(g->B, w, LLVMBuildShl(g->B, x, gen_i32(g, i * 32 / n), ""), "");
        }
        return w;
    }
    LLVMValueRef x = gen_get(g, v, r);
    return LLVMTypeOf(x) == g->i32 ? x : LLVMBuildBitCast(g->B, x, g->i32, "");
}

// Bytes that a cp.async moves of a tile that is loaded and kept asynchronously, or 0: it must be loaded and put.
static int copied_bytes(Gen *g, const Op *put) {
    const Op *load = put->in[2]->def;
    Access a;
    if (!put->attr || !load || load->code != OP_T_load || load->parent != put->parent || load->flags & HAS_ELSE ||
        region_uses(&g->f->body, put->in[2]) != 1)
        return 0;
    access_of(g->facts, load, &a);
    int bytes = access_vec(&a, put->in[2]->layout) * unit_bytes(put->in[2]);
    return bytes >= 4 && bytes <= unit_of(put->in[2]) && !a.p->strided ? bytes : 0;
}

bool gen_load_is_copied(Gen *g, const Op *load) {
    if (!g->keep.op) return false;                             // nothing is kept: nothing to look for
    for (const Op *put = load->next; put; put = put->next)
        if (put->code == OP_T_keep_put && put->in[2] == load->out[0]) return copied_bytes(g, put) > 0;
    return false;
}

static void copy_tile(Gen *g, Op *op, int bytes, LLVMValueRef at) {
    const Val *v = op->in[2];
    int unit = unit_of(v), each = bytes / unit_bytes(v), per = unit / unit_bytes(v), regs = layout_regs(v->layout),
        threads = g->f->warps * 32;
    Addr *from = addr_open(g, v->def, v->layout, &v->type);
    for (int r = 0; r < regs; r += each) {
        int64_t imm, off = (int64_t)(r / per) * unit * threads + r % per * unit_bytes(v);
        LLVMValueRef src = addr_at(from, r, &imm), live = addr_live(from, r);
        gen_copy(g, gen_smem(g, LLVMBuildAdd(g->B, at, gen_i32(g, off), "")), src, imm, bytes, live, NULL);
    }
}

void emit_keep_put(Gen *g, Op *op) {
    const Val *v = op->in[2];
    int regs = layout_regs(v->layout), bytes = unit_bytes(v), unit = unit_of(v), threads = g->f->warps * 32;
    LLVMBasicBlockRef put = gen_block(g, "keep"), go = gen_block(g, "kept");
    LLVMValueRef number = LLVMBuildTrunc(g->B, gen_get64(g, op->in[1], 0), g->i32, "");
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntSLT, number, g->keep.room, ""), put, go);
    LLVMPositionBuilderAtEnd(g->B, put);
    LLVMValueRef at = place(g, op, unit);
    int copied = copied_bytes(g, op);
    if (copied) copy_tile(g, op, copied, at);
    for (int r = 0, k = 0; r < regs && !copied; r += unit / bytes ? unit / bytes : 1, k++) {
        LLVMTypeRef of = bytes == 8 ? g->i64 : g->i32;
        int n = unit / (bytes == 8 ? 8 : 4), each = bytes < 4 ? 4 / bytes : 1;
        LLVMValueRef x = n == 1 ? NULL : LLVMGetUndef(LLVMVectorType(of, (unsigned)n));
        for (int i = 0; i < n; i++) {
            LLVMValueRef w = bytes == 8 ? gen_get(g, v, r + i) : word_of(g, v, r + i * each, each);
            if (LLVMTypeOf(w) == g->f64) w = LLVMBuildBitCast(g->B, w, of, "");
            x = n == 1 ? w : LLVMBuildInsertElement(g->B, x, w, gen_i32(g, i), "");
        }
        LLVMSetAlignment(
            LLVMBuildStore(g->B, x, gen_smem(g, LLVMBuildAdd(g->B, at, gen_i32(g, (int64_t)k * unit * threads), ""))),
            (unsigned)unit);
    }
    LLVMBuildBr(g->B, go);
    LLVMPositionBuilderAtEnd(g->B, go);
}

static LLVMValueRef element(Gen *g, const Val *v, LLVMValueRef w, int part) {
    int bits = 8 * unit_bytes(v);
    LLVMTypeRef want = gen_type(g, v);
    if (bits >= 32) return LLVMTypeOf(w) == want ? w : LLVMBuildBitCast(g->B, w, want, "");
    LLVMValueRef x = part ? LLVMBuildLShr(g->B, w, gen_i32(g, part * bits), "") : w;
    if (want == g->i1) return LLVMBuildTrunc(g->B, x, g->i1, "");
    return LLVMBuildTrunc(g->B, x, want, "");
}

void emit_keep_get(Gen *g, Op *op) {
    const Val *v = op->out[0];
    int regs = layout_regs(v->layout), bytes = unit_bytes(v), unit = unit_of(v), threads = g->f->warps * 32;
    LLVMValueRef at = place(g, op, unit);
    gen_tile(g, v);
    for (int r = 0, k = 0; r < regs; r += unit / bytes, k++) {
        LLVMTypeRef of = bytes == 8 ? g->i64 : g->i32;
        int n = unit / (bytes == 8 ? 8 : 4), each = bytes < 4 ? 4 / bytes : 1;
        LLVMValueRef x = LLVMBuildLoad2(
            g->B, n == 1 ? of : LLVMVectorType(of, (unsigned)n),
            gen_smem(g, LLVMBuildAdd(g->B, at, gen_i32(g, (int64_t)k * unit * threads), "")), "");
        LLVMSetAlignment(x, (unsigned)unit);
        for (int i = 0; i < n; i++) {
            LLVMValueRef w = n == 1 ? x : LLVMBuildExtractElement(g->B, x, gen_i32(g, i), "");
            int at_reg = r + i * each;
            if (each > 1 && at_reg + each <= regs && v->type.elem != EL_bool) {
                gen_set_word(g, v, at_reg, each, w);
                continue;
            }
            for (int q = 0; q < each && at_reg + q < regs; q++) gen_set(g, v, at_reg + q, element(g, v, w, q));
        }
    }
}
