// What a block keeps of small tensors' atomics, in shared memory (pass/privatize.c).
//
//     place 0         place 1               copy c of place p at  (p * copies + c) * bytes of an element
//     |0 1 2 .. 31|   |0 1 2 .. 31|  ..     lane l adds to copy  l % copies
//
// Copies are as many as there is room for, a power of two up to 32: a number, or where the launch knows the size, one that
// it computes. With 32 copies each lane has a bank of its own, whatever places the lanes have; of 8 or less neighbours
// share one. Beside one another in the area, which begins where all other shared memory of the block ends, stand those of
// one tensor after the other.
//
// At the end each thread joins the copies of its places, one copy further on from lane to lane so that they are in
// different banks, and adds what is no neutral element to memory: neighbours together, as memory's atomics like it.
#include "lower/build.h"
#include "lower/llvm/gen.h"
#include "lower/pass/privatize.h"
#include "ptx/ptx.h"

#include <limits.h>

enum { TALLIES = 2 };                                              // LaunchSlot.a of the number of copies
enum { MOST_COPIES = 32, UNIT = 16 };                              // bytes that are cleared at once

static int bytes_of(const Gen *g, int param) { return elem_bytes(g->f->launch->params[param].elem); }

// ---- how many copies -----------------------------------------------------------------------------

static LExpr all_bytes(const Gen *g) {                             // of one copy
    LExpr sum = {0};
    for (const Op *op = g->f->body.first; op; op = op->next) {
        if (op->code != OP_T_tally) continue;
        int   param = (int)op->in[0]->def->imm;
        LExpr n = launch_join_const(g->arena, L_MUL, tally_places(g->f, param), bytes_of(g, param));
        sum = sum.n ? launch_join(g->arena, L_ADD, sum, n) : n;
    }
    return sum;
}

// 1, and 2^i / 2 more for each 2^i copies that there is room for.
static LExpr copies_of(const Gen *g) {
    LExpr one = all_bytes(g), n = launch_const(g->arena, 1);
    for (int i = 2; i <= MOST_COPIES; i *= 2) {
        LExpr fits = launch_join_const(g->arena, L_LE, launch_join_const(g->arena, L_MUL, one, i), tally_area(g->f));
        n = launch_join(g->arena, L_ADD, n, launch_join_const(g->arena, L_MUL, fits, i / 2));
    }
    return n;
}

static LExpr tensor_bytes(const Gen *g, int param, LExpr copies) {  // of all of a tensor's copies, whole units
    LExpr n = launch_join(g->arena, L_MUL, tally_places(g->f, param), copies);
    n = launch_join_const(g->arena, L_CDIV, launch_join_const(g->arena, L_MUL, n, bytes_of(g, param)), UNIT);
    return launch_join_const(g->arena, L_MUL, n, UNIT);
}

void gen_tally_slots(Gen *g) {
    int64_t n;
    LExpr   copies;
    if (!g->f->tallies) return;
    copies = copies_of(g);
    if (!fact_constant(g->facts, copies, &n))
        gen_add_slot(g->f, (LaunchSlot){.kind = SLOT_EXPR, .size = 4, .a = TALLIES, .expr = copies});
}

void gen_tally_close(Gen *g) {
    LaunchInfo *l = g->f->launch;
    LExpr   copies, sum = {0};
    int64_t n;
    if (!g->f->tallies) return;
    copies = copies_of(g);
    if (fact_constant(g->facts, copies, &n)) copies = launch_const(g->arena, n);
    for (const Op *op = g->f->body.first; op; op = op->next) {
        if (op->code != OP_T_tally) continue;
        LExpr x = tensor_bytes(g, (int)op->in[0]->def->imm, copies);
        sum = sum.n ? launch_join(g->arena, L_ADD, sum, x) : x;
    }
    uint32_t base = (l->smem + UNIT - 1) / UNIT * UNIT;
    l->smem = base;
    int64_t most = tally_area(g->f), one = tally_most_bytes(g->f->target);
    bool known = fact_constant(g->facts, sum, &n);
    if (known) l->smem += (uint32_t)n;
    else l->smem_more = launch_join_const(g->arena, L_MIN, sum, n = (most > one ? most : one) + UNIT * g->f->launch->nparams);
    g->f->tally_bytes = (int)n;
    LLVMReplaceAllUsesWith(g->tally.base, gen_i32(g, base));
    LLVMInstructionEraseFromParent(g->tally.base);
}

// ---- places --------------------------------------------------------------------------------------

static LLVMValueRef number(Gen *g, LExpr e) { return LLVMBuildTrunc(g->B, gen_lexpr(g, e), g->i32, ""); }
static LLVMValueRef times(Gen *g, LLVMValueRef x, LLVMValueRef y) { return LLVMBuildMul(g->B, x, y, ""); }

static void open_copies(Gen *g) {
    int64_t n;
    if (g->tally.base) return;
    LExpr copies = copies_of(g);
    g->tally.copies = fact_constant(g->facts, copies, &n) ? gen_i32(g, n) : gen_param(g, SLOT_EXPR, TALLIES, 0);
    g->tally.copy = LLVMBuildAnd(g->B, g->lane, LLVMBuildSub(g->B, g->tally.copies, gen_i32(g, 1), ""), "");
    g->tally.base = gen_call(g, "llvm.nvvm.read.ptx.sreg.envreg0", 0, NULL, 0, NULL);      // a number to be
}

// Where a tensor's copies begin, and how many elements they are: counted from the block's shared memory.
static LLVMValueRef begins(Gen *g, int param) {
    LLVMValueRef at = g->tally.base;
    for (const Op *op = g->f->body.first; op; op = op->next) {
        if (op->code != OP_T_tally) continue;
        int other = (int)op->in[0]->def->imm;
        if (other == param) return at;
        LLVMValueRef n = gen_times(g, times(g, number(g, tally_places(g->f, other)), g->tally.copies), bytes_of(g, other));
        n = LLVMBuildAnd(g->B, gen_add(g, n, gen_i32(g, UNIT - 1)), gen_i32(g, -UNIT), "");
        at = gen_add(g, at, n);
    }
    return at;
}

static LLVMValueRef pointer(Gen *g, LLVMValueRef at) { return gen_ring(g, at); }

// for (i = thread of the block; i < n; i += threads): from the block that is open now to the one that is open then.
typedef struct Each { LLVMValueRef i; LLVMBasicBlockRef head, exit; } Each;

static Each each_open(Gen *g, LLVMValueRef from, LLVMValueRef n, const char *name) {
    Each e = {.head = gen_block(g, name), .exit = gen_block(g, "end")};
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->B), body = gen_block(g, "body");
    LLVMBuildBr(g->B, e.head);
    LLVMPositionBuilderAtEnd(g->B, e.head);
    e.i = LLVMBuildPhi(g->B, g->i32, "");
    LLVMAddIncoming(e.i, &from, &before, 1);
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntULT, e.i, n, ""), body, e.exit);
    LLVMPositionBuilderAtEnd(g->B, body);
    return e;
}

static void each_close(Gen *g, Each *e, int64_t step) {
    LLVMValueRef next = gen_add(g, e->i, gen_i32(g, step));
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->B);
    LLVMAddIncoming(e->i, &next, &here, 1);
    LLVMBuildBr(g->B, e->head);
    LLVMPositionBuilderAtEnd(g->B, e->exit);
}

static void meet(Gen *g) {                                         // all of the block, whatever programs it has
    gen_call(g, "llvm.nvvm.barrier.cta.sync.aligned.all", 1, (LLVMValueRef[]){gen_i32(g, BARRIER_ALL)}, 0, NULL);
}

// ---- the neutral element, and how copies join ----------------------------------------------------

static LLVMTypeRef element_type(Gen *g, Elem e) {
    return e == EL_f32 ? g->f32 : e == EL_f64 ? g->f64 : LLVMIntTypeInContext(g->C, (unsigned)elem_bits(e));
}

static LLVMValueRef neutral(Gen *g, TAtomic op, Elem e) {
    LLVMTypeRef t = element_type(g, e);
    int bits = elem_bits(e);
    uint64_t all = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
    bool most = op == TA_min;
    if (op == TA_and) return LLVMConstInt(t, all, 0);
    if (op != TA_min && op != TA_max) return LLVMConstNull(t);
    if (elem_is_float(e)) return LLVMConstReal(t, most ? __builtin_inf() : -__builtin_inf());
    if (elem_is_signed(e)) return LLVMConstInt(t, most ? all >> 1 : (all >> 1) + 1, 0);
    return LLVMConstInt(t, most ? all : 0, 0);
}

static LLVMValueRef joined(Gen *g, TAtomic op, Elem e, LLVMValueRef x, LLVMValueRef y) {
    switch (op) {
    case TA_add: return gen_binary(g, OP_add, e, x, y);
    case TA_and: return gen_binary(g, OP_and, e, x, y);
    case TA_or:  return gen_binary(g, OP_or, e, x, y);
    case TA_xor: return gen_binary(g, OP_xor, e, x, y);
    default:     return gen_fun(g, op == TA_min ? TF_min : TF_max, e, x, y, NULL);
    }
}

static LLVMValueRef bits_of(Gen *g, LLVMValueRef x, Elem e) {
    return LLVMBuildBitCast(g->B, x, LLVMIntTypeInContext(g->C, (unsigned)elem_bits(e)), "");
}

// ---- one atomic ----------------------------------------------------------------------------------

// Those that PTX has leave no old value and are predicated; minima and maxima of floats are loops of LLVM's, in a block.
static void add_at(Gen *g, TAtomic op, Elem e, LLVMValueRef at, bool shared, LLVMValueRef x, LLVMValueRef pred) {
    static const char *const names[TA_COUNT] = {[TA_add] = "add", [TA_min] = "min", [TA_max] = "max", [TA_and] = "and", [TA_or] = "or", [TA_xor] = "xor"};
    bool wide = elem_bits(e) == 64, extreme = op == TA_min || op == TA_max, f = elem_is_float(e);
    if (f && extreme) {
        LLVMBasicBlockRef yes = gen_block(g, "atomic"), go = gen_block(g, "done");
        if (pred) LLVMBuildCondBr(g->B, pred, yes, go);
        else LLVMBuildBr(g->B, yes);
        LLVMPositionBuilderAtEnd(g->B, yes);
        gen_atomic(g, op, e, at, x, NULL);
        LLVMBuildBr(g->B, go);
        LLVMPositionBuilderAtEnd(g->B, go);
        return;
    }
    char type = op == TA_add || extreme ? f ? 'f' : extreme && elem_is_signed(e) ? 's' : 'u' : 'b';
    char reg = f ? wide ? 'd' : 'f' : wide ? 'l' : 'r';
    Buf text = {0}, cons = {0};
    buf_printf(&text, "%sred.%s.%s.%c%d [$0], $1;", pred ? "@$2 " : "", shared ? "shared" : "global", names[op], type, wide ? 64 : 32);
    buf_printf(&cons, "%c,%c%s,~{memory}", shared ? 'r' : 'l', reg, pred ? ",b" : "");
    LLVMValueRef args[3] = {LLVMBuildPtrToInt(g->B, at, shared ? g->i32 : g->i64, ""), x, pred};
    gen_asm(g, LLVMVoidTypeInContext(g->C), text.p, cons.p, pred ? 3 : 2, args, true, false);
    buf_free(&text);
    buf_free(&cons);
}

// An index in range, in 32 bits; *pred says where it is, NULL: always. Any of up to 32 bits is compared as it is, without a sign.
static LLVMValueRef index_of(Gen *g, const Val *index, int reg, LExpr dim, LLVMValueRef *pred) {
    LLVMValueRef x = gen_get(g, index, reg);
    Range   in = fact_live_range(g->facts, index);
    int64_t most;
    bool    known = fact_constant(g->facts, dim, &most) && in.lo >= 0 && in.hi < most;
    unsigned bits = LLVMGetIntTypeWidth(LLVMTypeOf(x));
    if (bits < 32) x = elem_is_signed((Elem)index->type.elem) ? LLVMBuildSExt(g->B, x, g->i32, "") : LLVMBuildZExt(g->B, x, g->i32, "");
    LLVMValueRef end = bits > 32 ? gen_lexpr(g, dim) : number(g, dim);
    if (!known) *pred = gen_both(g, *pred, LLVMBuildICmp(g->B, LLVMIntULT, x, end, ""));
    return bits > 32 ? LLVMBuildTrunc(g->B, x, g->i32, "") : x;
}

void gen_tallied(Gen *g, const Op *op) {
    int param = (int)op->in[0]->def->imm, size = bytes_of(g, param), *map[MAX_RANK];
    const LaunchParam *p = &g->f->launch->params[param];
    const Val *x = op_value(op), *o = op->out[0];
    Elem e = (Elem)o->type.elem;
    const Layout *l = o->type.rank ? o->layout : NULL;
    int n = gen_tile(g, o)->n, *xm = gen_reg_map(g, o, x);
    LLVMValueRef owner = gen_owner(g, l), begin = gen_add(g, begins(g, param), gen_times(g, g->tally.copy, size));
    LLVMValueRef apart = gen_times(g, g->tally.copies, size);
    for (int d = 0; d < op->nidx; d++) map[d] = gen_reg_map(g, o, op->in[1 + d]);
    for (int r = 0; r < n; r++) {
        LLVMValueRef pred = gen_both(g, gen_lanes_alive(g, o, l, r), owner), place = gen_i32(g, 0);
        for (int d = 0; d < op->nidx; d++) {
            if (d) place = times(g, place, number(g, p->dim[d]));
            place = gen_add(g, place, index_of(g, op->in[1 + d], map[d][r], p->dim[d], &pred));
        }
        LLVMValueRef at = pointer(g, gen_add(g, begin, times(g, place, apart)));
        add_at(g, (TAtomic)op->sub, e, at, true, gen_get(g, x, xm[r]), pred);
        gen_set(g, o, r, LLVMConstNull(gen_type(g, o)));
    }
}

// ---- the beginning and the end -------------------------------------------------------------------

void emit_tally(Gen *g, Op *op) {
    int  param = (int)op->in[0]->def->imm, size = bytes_of(g, param);
    Elem e = g->f->launch->params[param].elem;
    open_copies(g);
    LLVMValueRef begin = begins(g, param), n = times(g, number(g, tally_places(g->f, param)), g->tally.copies), words[4];
    int each = UNIT / size;
    LLVMValueRef units = LLVMBuildLShr(g->B, gen_add(g, n, gen_i32(g, each - 1)), gen_i32(g, size == 4 ? 2 : 1), "");
    for (int i = 0; i < each; i++) words[i] = neutral(g, (TAtomic)op->sub, e);
    Each loop = each_open(g, g->tid, units, "clear");
    LLVMValueRef at = pointer(g, gen_add(g, begin, gen_times(g, loop.i, UNIT)));
    LLVMSetAlignment(LLVMBuildStore(g->B, LLVMConstVector(words, (unsigned)each), at), UNIT);
    each_close(g, &loop, g->f->launch->threads);
    meet(g);
}

// The place's address in memory: its number taken apart.
static LLVMValueRef in_memory(Gen *g, int param, LLVMValueRef place) {
    const LaunchParam *p = &g->f->launch->params[param];
    LLVMValueRef off = gen_i64(g, 0);
    for (int d = p->rank - 1; d >= 0; d--) {
        LLVMValueRef i = place;
        if (d) {
            LLVMValueRef n = number(g, p->dim[d]);
            place = LLVMBuildUDiv(g->B, i, n, "");
            i = LLVMBuildSub(g->B, i, times(g, place, n), "");
        }
        i = LLVMBuildZExt(g->B, i, g->i64, "");
        if (d < p->rank - 1 || p->strided) i = times(g, i, gen_param(g, SLOT_STRIDE, param, d));
        off = LLVMBuildAdd(g->B, off, i, "");
    }
    return LLVMBuildGEP2(g->B, element_type(g, p->elem), gen_param(g, SLOT_POINTER, param, 0), &off, 1, "");
}

void emit_tally_end(Gen *g, Op *op) {
    int     param = (int)op->in[0]->def->imm, size = bytes_of(g, param);
    TAtomic kind = (TAtomic)op->sub;
    Elem    e = g->f->launch->params[param].elem;
    LLVMTypeRef t = element_type(g, e);
    LLVMValueRef begin = begins(g, param), copies = g->tally.copies, none = neutral(g, kind, e);
    LLVMValueRef turn = LLVMBuildLShr(g->B, gen_times(g, times(g, g->lane, copies), size / 4), gen_i32(g, 5), ""),
                 mask = LLVMBuildSub(g->B, copies, gen_i32(g, 1), "");
    meet(g);
    Each places = each_open(g, g->tid, number(g, tally_places(g->f, param)), "places");
    LLVMValueRef first = times(g, places.i, copies);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->B);
    Each copy = each_open(g, gen_i32(g, 0), copies, "copies");
    LLVMBasicBlockRef body = LLVMGetInsertBlock(g->B);
    LLVMPositionBuilderBefore(g->B, LLVMGetFirstInstruction(copy.head));
    LLVMValueRef sum = LLVMBuildPhi(g->B, t, "");
    LLVMAddIncoming(sum, &none, &before, 1);
    LLVMPositionBuilderAtEnd(g->B, body);
    LLVMValueRef k = LLVMBuildAnd(g->B, gen_add(g, copy.i, turn), mask, "");
    LLVMValueRef at = pointer(g, gen_add(g, begin, gen_times(g, gen_add(g, first, k), size)));
    LLVMValueRef x = joined(g, kind, e, sum, LLVMBuildLoad2(g->B, t, at, ""));
    LLVMBasicBlockRef last = LLVMGetInsertBlock(g->B);
    LLVMAddIncoming(sum, &x, &last, 1);
    each_close(g, &copy, 1);
    LLVMValueRef some = LLVMBuildICmp(g->B, LLVMIntNE, bits_of(g, sum, e), bits_of(g, none, e), "");
    add_at(g, kind, e, in_memory(g, param, places.i), false, sum, some);
    each_close(g, &places, g->f->launch->threads);
}
