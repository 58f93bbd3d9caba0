// Parts of tiles in scratch memory: how programs that share a loop hand their sums to the one that joins them.
//
//     counts      one word a tile, zero between launches
//     parts       tile 0: part 0, part 1 ..   tile 1: ..     a part: its values, one after another
//     a value     register by register as its threads hold it, 16 bytes a thread at a time where four registers are left
//
// A value's layout is the same in every program, so nothing is rearranged: a thread reads what the same thread of the
// other programs wrote. Each thread's stores are made visible by its own fence, then one thread counts the arrival; who
// finds all others counted joins, and sets the count back for the next launch.
#include "lower/gen.h"

enum { FULL_UNROLL = 256 };                  // loads a thread, up to which joining is straight-line code

static int unit_of(const Val *v) { return v->type.ptr || elem_bits((Elem)v->type.elem) > 32 ? 8 : 4; }
static int64_t threads_of(const Gen *g) { return (int64_t)g->f->warps * 32; }
static int regs_of(const Val *v) { return v->type.rank ? layout_regs(v->layout) : 1; }

static int64_t value_offset(const Fn *f, const Op *put, int value) {
    int64_t at = 0;
    for (int i = 0; i < value; i++) at += (int64_t)regs_of(put->in[2 + i]) * unit_of(put->in[2 + i]);
    return at * f->warps * 32;
}

int64_t gen_part_bytes(const Fn *f, const Op *put) { return value_offset(f, put, put->nin - 2); }

static LLVMTypeRef bits_of(Gen *g, const Val *v) { return unit_of(v) == 8 ? g->i64 : g->i32; }

static LLVMValueRef to_bits(Gen *g, const Val *v, LLVMValueRef x) {
    LLVMTypeRef t = LLVMTypeOf(x), want = bits_of(g, v);
    if (t == want) return x;
    if (t == g->f32 || t == g->f64) return LLVMBuildBitCast(g->B, x, want, "");
    if (LLVMGetTypeKind(t) == LLVMPointerTypeKind) return LLVMBuildPtrToInt(g->B, x, want, "");
    return LLVMBuildZExt(g->B, x, want, "");
}

static LLVMValueRef from_bits(Gen *g, const Val *v, LLVMValueRef x) {
    LLVMTypeRef t = gen_type(g, v);
    if (t == LLVMTypeOf(x)) return x;
    if (t == g->f32 || t == g->f64) return LLVMBuildBitCast(g->B, x, t, "");
    return LLVMBuildTrunc(g->B, x, t, "");
}

// Where this thread's first words of a value stand, in part `part` of the tile.
static LLVMValueRef place(Gen *g, const Op *put, const Val *tile, LLVMValueRef part, int value) {
    int64_t bytes = gen_part_bytes(g->f, put);
    LLVMValueRef n = LLVMBuildMul(g->B, gen_get64(g, tile, 0), gen_i64(g, put->imm), "");
    n = LLVMBuildMul(g->B, LLVMBuildAdd(g->B, n, part, ""), gen_i64(g, bytes), "");
    return LLVMBuildAdd(g->B, n, gen_i64(g, value_offset(g->f, put, value)), "");
}

// Registers r .. r + n of a value move together.
static int run_of(const Val *v, int r) {
    int left = regs_of(v) - r, most = 16 / unit_of(v);
    while (most > left) most /= 2;
    return most;
}

static LLVMValueRef address(Gen *g, const Val *v, LLVMValueRef at, int r, int n) {
    int unit = unit_of(v);
    LLVMValueRef thread = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, g->warp, gen_i32(g, 32), ""), g->lane, "");
    LLVMValueRef off = LLVMBuildZExt(g->B, LLVMBuildMul(g->B, thread, gen_i32(g, n * unit), ""), g->i64, "");
    off = LLVMBuildAdd(g->B, LLVMBuildAdd(g->B, at, off, ""), gen_i64(g, (int64_t)r * unit * threads_of(g)), "");
    LLVMValueRef base = gen_param(g, SLOT_SCRATCH, SCRATCH_PARTS, 0);
    return LLVMBuildGEP2(g->B, g->i8, base, &off, 1, "");
}

static LLVMTypeRef words(Gen *g, const Val *v, int n) { return n == 1 ? bits_of(g, v) : LLVMVectorType(bits_of(g, v), (unsigned)n); }

static void fence(Gen *g) { gen_asm(g, LLVMVoidTypeInContext(g->C), "fence.acq_rel.gpu;", "~{memory}", 0, NULL, true, false); }

static LLVMValueRef one_thread(Gen *g) {
    LLVMValueRef lane = LLVMBuildICmp(g->B, LLVMIntEQ, g->lane, gen_i32(g, 0), "");
    return g->one_warp ? lane : LLVMBuildAnd(g->B, lane, LLVMBuildICmp(g->B, LLVMIntEQ, g->warp, gen_i32(g, 0), ""), "");
}

// The number of arrivals before this program's, in every thread of it.
static LLVMValueRef arrive(Gen *g, const Op *put) {
    LLVMValueRef off = LLVMBuildMul(g->B, gen_get64(g, put->in[0], 0), gen_i64(g, 4), "");
    LLVMValueRef count = LLVMBuildGEP2(g->B, g->i8, gen_param(g, SLOT_SCRATCH, SCRATCH_COUNTS, 0), &off, 1, "");
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->B), one = gen_block(g, "arrive"), all = gen_block(g, "arrived");
    LLVMBuildCondBr(g->B, one_thread(g), one, all);
    LLVMPositionBuilderAtEnd(g->B, one);
    // inc wraps to zero at the last arrival, so that the next launch begins anew
    LLVMValueRef old = gen_asm(g, g->i32, "atom.acq_rel.gpu.global.inc.u32 $0, [$1], $2;", "=r,l,n,~{memory}", 2, (LLVMValueRef[]){count, gen_i32(g, put->imm - 1)}, true, false);
    if (!g->one_warp) LLVMBuildStore(g->B, old, gen_smem(g, gen_i32(g, g->smem_used)));
    LLVMBuildBr(g->B, all);
    LLVMPositionBuilderAtEnd(g->B, all);
    if (g->one_warp) {
        LLVMValueRef mine = LLVMBuildPhi(g->B, g->i32, ""), from[2] = {gen_i32(g, 0), old};
        LLVMAddIncoming(mine, from, (LLVMBasicBlockRef[]){before, one}, 2);
        return gen_call(g, "llvm.nvvm.shfl.sync.idx.i32", 4, (LLVMValueRef[]){gen_i32(g, -1), mine, gen_i32(g, 0), gen_i32(g, 31)}, 0, NULL);
    }
    gen_barrier(g);
    old = LLVMBuildLoad2(g->B, g->i32, gen_smem(g, gen_i32(g, g->smem_used)), "");
    g->smem_used += 16;
    return old;
}

void emit_part_put(Gen *g, Op *op) {
    LLVMValueRef part = gen_get64(g, op->in[1], 0);
    for (int i = 0; i < op->nin - 2; i++) {
        const Val *v = op->in[2 + i];
        LLVMValueRef at = place(g, op, op->in[0], part, i);
        for (int r = 0, n; r < regs_of(v); r += n) {
            n = run_of(v, r);
            LLVMValueRef x = n == 1 ? NULL : LLVMGetUndef(words(g, v, n));
            for (int k = 0; k < n; k++) {
                LLVMValueRef w = to_bits(g, v, gen_get(g, v, r + k));
                x = n == 1 ? w : LLVMBuildInsertElement(g->B, x, w, gen_i32(g, k), "");
            }
            LLVMSetAlignment(LLVMBuildStore(g->B, x, address(g, v, at, r, n)), (unsigned)(n * unit_of(v)));
        }
    }
    fence(g);
    gen_barrier(g);
    LLVMValueRef old = arrive(g, op);
    fence(g);
    gen_set(g, op->out[0], 0, LLVMBuildICmp(g->B, LLVMIntEQ, old, gen_i32(g, op->imm - 1), ""));
}

// ---- joining -------------------------------------------------------------------------------------

static LLVMValueRef join(Gen *g, TReduce kind, Elem e, LLVMValueRef a, LLVMValueRef b) {
    Elem wide = elem_is_storage(e) ? EL_f32 : e;
    if (wide != e) { a = gen_to_f32(g, a, e); b = gen_to_f32(g, b, e); }
    LLVMValueRef x = kind == TR_any   ? LLVMBuildOr(g->B, a, b, "")
                   : kind == TR_every ? LLVMBuildAnd(g->B, a, b, "")
                   : kind == TR_sum || kind == TR_prod ? gen_binary(g, kind == TR_sum ? OP_add : OP_mul, wide, a, b)
                                      : gen_fun(g, kind == TR_max ? TF_max : TF_min, wide, a, b, NULL);
    return wide != e ? gen_from_f32(g, x, e) : x;
}

static void load_part(Gen *g, const Op *put, const Op *get, LLVMValueRef part, LLVMValueRef *out) {
    const Val *v = get->out[0];
    LLVMValueRef at = place(g, put, get->in[0], part, (int)get->attr);
    for (int r = 0, n; r < regs_of(v); r += n) {
        n = run_of(v, r);
        LLVMValueRef x = LLVMBuildLoad2(g->B, words(g, v, n), address(g, v, at, r, n), "");
        LLVMSetAlignment(x, (unsigned)(n * unit_of(v)));
        for (int k = 0; k < n; k++) out[r + k] = from_bits(g, v, n == 1 ? x : LLVMBuildExtractElement(g->B, x, gen_i32(g, k), ""));
    }
}

void emit_part_get(Gen *g, Op *op) {
    const Op *put = op->in[1]->def;
    const Val *o = op->out[0];
    int regs = regs_of(o), parts = (int)put->imm;
    Elem e = (Elem)o->type.elem;
    TReduce kind = (TReduce)op->sub;
    LLVMValueRef *sum = NEW_N(g->arena, LLVMValueRef, regs), *more = NEW_N(g->arena, LLVMValueRef, regs);
    load_part(g, put, op, gen_i64(g, 0), sum);
    if (regs * parts <= FULL_UNROLL || parts == 2) {
        for (int p = 1; p < parts; p++) {
            load_part(g, put, op, gen_i64(g, p), more);
            for (int r = 0; r < regs; r++) sum[r] = join(g, kind, e, sum[r], more[r]);
        }
    } else {
        LLVMBasicBlockRef from = LLVMGetInsertBlock(g->B), loop = gen_block(g, "parts"), done = gen_block(g, "joined");
        LLVMValueRef *carried = NEW_N(g->arena, LLVMValueRef, regs), one = gen_i64(g, 1);
        LLVMBuildBr(g->B, loop);
        LLVMPositionBuilderAtEnd(g->B, loop);
        LLVMValueRef p = LLVMBuildPhi(g->B, g->i64, "");
        for (int r = 0; r < regs; r++) {
            carried[r] = LLVMBuildPhi(g->B, LLVMTypeOf(sum[r]), "");
            LLVMAddIncoming(carried[r], &sum[r], &from, 1);
        }
        LLVMAddIncoming(p, &one, &from, 1);
        load_part(g, put, op, p, more);
        for (int r = 0; r < regs; r++) sum[r] = join(g, kind, e, carried[r], more[r]);
        LLVMValueRef next = LLVMBuildAdd(g->B, p, one, "");
        LLVMBasicBlockRef end = LLVMGetInsertBlock(g->B);
        for (int r = 0; r < regs; r++) LLVMAddIncoming(carried[r], &sum[r], &end, 1);
        LLVMAddIncoming(p, &next, &end, 1);
        LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntSLT, next, gen_i64(g, parts), ""), loop, done);
        LLVMPositionBuilderAtEnd(g->B, done);
    }
    for (int r = 0; r < regs; r++) gen_set(g, o, r, sum[r]);
}
