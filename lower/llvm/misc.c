// Atomics, raw pointers, print and assert.
//
// An atomic is done by the element's owner under its predicate, in a block of its own, and its old value
// is handed to the replicas when somebody reads it. The operations that PTX lacks (extremes of floats, all of
// 16-bit integers) are loops of compare-and-swap on the element itself.
#include "lower/facts/access.h"
#include "lower/llvm/gen.h"

#include <string.h>

// Live lanes of all of a tile's axes at a register, or NULL.
LLVMValueRef gen_lanes_alive(Gen *g, const Val *v, const Layout *l, int r) {
    LLVMValueRef p = NULL;
    for (int i = 0; i < v->type.rank; i++) p = gen_both(g, p, gen_live(g, v->type.axis[i], l, i, r, 1));
    return p;
}

enum { ADDRESS_SHARED = 3 };

static bool is_f(Elem e) { return elem_is_float(e); }

static LLVMAtomicRMWBinOp rmw(TAtomic op, Elem e) {
    switch (op) {
    case TA_add: return is_f(e) ? LLVMAtomicRMWBinOpFAdd : LLVMAtomicRMWBinOpAdd;
    case TA_min:
        return is_f(e)             ? LLVMAtomicRMWBinOpFMinimum
               : elem_is_signed(e) ? LLVMAtomicRMWBinOpMin
                                   : LLVMAtomicRMWBinOpUMin;
    case TA_max:
        return is_f(e)             ? LLVMAtomicRMWBinOpFMaximum
               : elem_is_signed(e) ? LLVMAtomicRMWBinOpMax
                                   : LLVMAtomicRMWBinOpUMax;
    case TA_and: return LLVMAtomicRMWBinOpAnd;
    case TA_or:  return LLVMAtomicRMWBinOpOr;
    case TA_xor: return LLVMAtomicRMWBinOpXor;
    default:     return LLVMAtomicRMWBinOpXchg;
    }
}

static LLVMTypeRef memory_type(Gen *g, Elem e) {
    switch (e) {
    case EL_f16:  return g->f16;
    case EL_bf16: return LLVMBFloatTypeInContext(g->C);
    case EL_f32:  return g->f32;
    case EL_f64:  return g->f64;
    case EL_bool: return g->i8;
    default:      return LLVMIntTypeInContext(g->C, (unsigned)elem_bits(e));
    }
}
static LLVMValueRef into(Gen *g, LLVMValueRef x, LLVMTypeRef t) {
    if (LLVMTypeOf(x) == t) return x;
    return LLVMTypeOf(x) == g->i1 ? LLVMBuildZExt(g->B, x, t, "") : LLVMBuildBitCast(g->B, x, t, "");
}
static LLVMValueRef out_of(Gen *g, LLVMValueRef x, LLVMTypeRef t) {
    if (LLVMTypeOf(x) == t) return x;
    return t == g->i1 ? LLVMBuildTrunc(g->B, x, t, "") : LLVMBuildBitCast(g->B, x, t, "");
}

static LLVMValueRef combined(Gen *g, TAtomic op, Elem e, LLVMValueRef old, LLVMValueRef x) {
    if (op == TA_xchg) return x;
    if (op == TA_min || op == TA_max) return gen_fun(g, op == TA_max ? TF_max : TF_min, e, old, x, NULL);
    AstOp how = op == TA_add ? OP_add : op == TA_and ? OP_and : op == TA_or ? OP_or : OP_xor;
    if (!elem_is_storage(e)) return gen_binary(g, how, e, old, x);
    return gen_from_f32(g, gen_binary(g, how, EL_f32, gen_to_f32(g, old, e), gen_to_f32(g, x, e)), e);
}

// atom.cas takes 16 bits from sm_70 on, but LLVM swaps the enclosing four bytes, of which two may be past the tensor's end.
static LLVMValueRef swap_16(Gen *g, LLVMValueRef at, LLVMValueRef old, LLVMValueRef next) {
    unsigned space = LLVMGetPointerAddressSpace(LLVMTypeOf(at));
    bool shared = space == ADDRESS_SHARED;
    const char *text = arena_printf(g->arena, "atom%s.cas.b16 $0, [$1], $2, $3;", shared ? ".shared" : space ? ".global" : "");
    LLVMValueRef args[3] = {LLVMBuildPtrToInt(g->B, at, shared ? g->i32 : g->i64, ""), old, next};
    return gen_asm(g, g->i16, text, shared ? "=h,r,h,h,~{memory}" : "=h,l,h,h,~{memory}", 3, args, true, false);
}

// What was there before; both are bits.
static LLVMValueRef swapped(Gen *g, Elem e, LLVMValueRef at, LLVMValueRef old, LLVMValueRef next) {
    if (elem_bits(e) == 16) return swap_16(g, at, old, next);
    LLVMValueRef r = LLVMBuildAtomicCmpXchgSyncScope(g->B, at, old, next, LLVMAtomicOrderingMonotonic, LLVMAtomicOrderingMonotonic,
                                                     LLVMGetSyncScopeID(g->C, "device", 6));
    return LLVMBuildExtractValue(g->B, r, 0, "");
}

// A loop of compare-and-swap on the element itself. LLVM's own loop begins with a load that others' writes race with.
static LLVMValueRef by_swaps(Gen *g, TAtomic op, Elem e, LLVMValueRef at, LLVMValueRef x) {
    LLVMTypeRef bits = LLVMIntTypeInContext(g->C, (unsigned)elem_bits(e));
    LLVMBasicBlockRef from = LLVMGetInsertBlock(g->B), again = gen_block(g, "again"), done = gen_block(g, "done");
    LLVMValueRef first = LLVMBuildLoad2(g->B, bits, at, "");
    LLVMSetAlignment(first, (unsigned)elem_bytes(e));
    LLVMSetVolatile(first, 1);
    LLVMBuildBr(g->B, again);
    LLVMPositionBuilderAtEnd(g->B, again);
    LLVMValueRef old = LLVMBuildPhi(g->B, bits, "");
    LLVMValueRef next = into(g, combined(g, op, e, out_of(g, old, LLVMTypeOf(x)), x), bits);
    LLVMValueRef there = swapped(g, e, at, old, next);
    LLVMAddIncoming(old, (LLVMValueRef[]){first, there}, (LLVMBasicBlockRef[]){from, LLVMGetInsertBlock(g->B)}, 2);
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntEQ, there, old, ""), done, again);
    LLVMPositionBuilderAtEnd(g->B, done);
    return out_of(g, there, LLVMTypeOf(x));
}

// What PTX has no instruction for: extremes of floats (in global memory LLVM's own loop does for 32 and 64 bits), and of 16 bits all but sums.
static bool needs_swaps(Gen *g, TAtomic op, Elem e, LLVMValueRef at) {
    bool shared = LLVMGetPointerAddressSpace(LLVMTypeOf(at)) == ADDRESS_SHARED;
    if (op == TA_cas) return false;
    if (elem_bits(e) > 16) return shared && is_f(e) && (op == TA_min || op == TA_max);
    if (op != TA_add || !is_f(e)) return true;
    return e == EL_bf16 && !g->opt->target->has_bf16_atomics;
}

LLVMValueRef gen_atomic(Gen *g, TAtomic op, Elem e, LLVMValueRef at, LLVMValueRef x, LLVMValueRef cmp) {
    LLVMTypeRef t = memory_type(g, e), bits = LLVMIntTypeInContext(g->C, (unsigned)elem_bits(e));
    LLVMValueRef r;
    if (needs_swaps(g, op, e, at)) return by_swaps(g, op, e, at, x);
    if (op == TA_cas) {
        LLVMValueRef c = out_of(g, into(g, cmp, memory_type(g, e)), memory_type(g, e)), v = into(g, x, t);
        c = LLVMBuildBitCast(g->B, c, bits, "");
        v = LLVMBuildBitCast(g->B, v, bits, "");
        r = LLVMBuildBitCast(g->B, swapped(g, e, at, c, v), t, "");
    } else {
        if (e == EL_bf16) gen_need(g, offsetof(Target, has_bf16_atomics));
        r = LLVMBuildAtomicRMWSyncScope(g->B, rmw(op, e), at, into(g, x, t), LLVMAtomicOrderingMonotonic,
                                        LLVMGetSyncScopeID(g->C, "device", 6));
    }
    return out_of(g, r, LLVMTypeOf(x));
}

// The owner's value for every lane: from the lane, then from the warp, whose replica bits are 0.
static LLVMValueRef from_owner(Gen *g, LLVMValueRef x, const Layout *l) {
    uint32_t lanes = l ? layout_replica_lanes(l) : 31, warps = l ? layout_replica_warps(l) : (uint32_t)(g->f->warps - 1);
    LLVMTypeRef t = LLVMTypeOf(x);
    if (!lanes && !warps) return x;
    uint32_t area = gen_area(g, (uint32_t)(g->f->warps * 32 * 8));
    LLVMValueRef slot = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, g->warp, gen_i32(g, 32), ""), g->lane, "");
    LLVMValueRef from = LLVMBuildAnd(g->B, slot, gen_i32(g, ~(int64_t)(lanes | warps << 5)), "");
    gen_barrier(g);
    LLVMTypeRef m = t == g->i1 ? g->i8 : t;
    LLVMValueRef w = t == g->i1 ? LLVMBuildZExt(g->B, x, m, "") : x;
    LLVMBuildStore(g->B, w,
                   gen_smem(g, LLVMBuildAdd(g->B, LLVMBuildMul(g->B, slot, gen_i32(g, 8), ""), gen_i32(g, area), "")));
    gen_barrier(g);
    w = LLVMBuildLoad2(
        g->B, m, gen_smem(g, LLVMBuildAdd(g->B, LLVMBuildMul(g->B, from, gen_i32(g, 8), ""), gen_i32(g, area), "")),
        "");
    return t == g->i1 ? LLVMBuildTrunc(g->B, w, t, "") : w;
}

void emit_atomic(Gen *g, Op *op) {
    if (op->flags & TALLIED) { gen_tallied(g, op); return; }
    bool tensor = op->in[0]->type.kind == TY_TENSOR;
    if (tensor) gen_order(g, op);
    else gen_order_pointers(g, op);
    if (tensor && gen_red(g, op)) return;
    int first = tensor ? 1 + op->nidx : 1;
    Val *x = op->in[first], *cmp = op->sub == TA_cas ? op->in[first + 1] : NULL, *o = op->out[0];
    Val *where = op->flags & HAS_WHERE ? op->in[op->nin - 1] : NULL;
    Elem e = (Elem)o->type.elem;
    const Layout *l = o->type.rank ? o->layout : NULL;
    int n = gen_tile(g, o)->n, *xm = gen_reg_map(g, o, x), *cm = cmp ? gen_reg_map(g, o, cmp) : NULL,
        *wm = where ? gen_reg_map(g, o, where) : NULL;
    LLVMValueRef owner = gen_owner(g, l);
    bool used = val_used(&g->f->body, o);
    int *im[MAX_RANK];
    const LaunchParam *p = tensor ? &g->f->launch->params[op->in[0]->def->imm] : NULL;
    for (int i = 0; i < (tensor ? op->nidx : 1); i++) im[i] = gen_reg_map(g, o, op->in[tensor ? 1 + i : 0]);
    for (int r = 0; r < n; r++) {
        LLVMValueRef at, pred = gen_both(g, gen_lanes_alive(g, o, l, r), owner);
        if (tensor) {
            LLVMValueRef off = gen_i64(g, 0);
            for (int d = 0; d < op->nidx; d++) {
                LLVMValueRef i = gen_get64(g, op->in[1 + d], im[d][r]);
                pred = gen_both(g, pred, LLVMBuildICmp(g->B, LLVMIntULT, i, gen_lexpr(g, p->dim[d]), ""));
                bool inner = d == op->nidx - 1 && !p->strided;
                off = LLVMBuildAdd(
                    g->B, off,
                    inner ? i : LLVMBuildMul(g->B, i, gen_param(g, SLOT_STRIDE, (int)op->in[0]->def->imm, d), ""), "");
            }
            at = LLVMBuildGEP2(g->B, memory_type(g, e), gen_param(g, SLOT_POINTER, (int)op->in[0]->def->imm, 0), &off,
                               1, "");
        } else {
            at = gen_get(g, op->in[0], im[0][r]);
            if (where) pred = gen_both(g, pred, gen_get(g, where, wm[r]));
        }
        LLVMValueRef v = gen_get(g, x, xm[r]), c = cmp ? gen_get(g, cmp, cm[r]) : NULL, old;
        if (!pred) { old = gen_atomic(g, (TAtomic)op->sub, e, at, v, c); }
        else {
            LLVMBasicBlockRef from = LLVMGetInsertBlock(g->B), yes = gen_block(g, "atomic"), go = gen_block(g, "done");
            LLVMBuildCondBr(g->B, pred, yes, go);
            LLVMPositionBuilderAtEnd(g->B, yes);
            LLVMValueRef y = gen_atomic(g, (TAtomic)op->sub, e, at, v, c);
            LLVMBasicBlockRef end = LLVMGetInsertBlock(g->B);
            LLVMBuildBr(g->B, go);
            LLVMPositionBuilderAtEnd(g->B, go);
            if (!used) { gen_set(g, o, r, LLVMConstNull(LLVMTypeOf(v))); continue; }
            old = LLVMBuildPhi(g->B, LLVMTypeOf(v), "");
            LLVMValueRef in[2] = {y, LLVMConstNull(LLVMTypeOf(v))};
            LLVMBasicBlockRef bb[2] = {end, from};
            LLVMAddIncoming(old, in, bb, 2);
        }
        gen_set(g, o, r, used ? from_owner(g, old, l) : old);
    }
}

// ---- raw pointers --------------------------------------------------------------------------------

void emit_ptrload(Gen *g, Op *op) {
    gen_order_pointers(g, op);
    Val *o = op->out[0];
    Val *where = op->flags & HAS_WHERE ? op->in[1] : NULL, *other = op->flags & HAS_ELSE ? op->in[op->nin - 1] : NULL;
    Elem e = (Elem)o->type.elem;
    const Layout *l = o->type.rank ? o->layout : NULL;
    int n = gen_tile(g, o)->n, *am = gen_reg_map(g, o, op->in[0]), *wm = where ? gen_reg_map(g, o, where) : NULL,
        *em = other ? gen_reg_map(g, o, other) : NULL;
    for (int r = 0; r < n; r++) {
        LLVMTypeRef t = gen_type(g, o), m = t == g->i1 ? g->i8 : t;
        LLVMValueRef pred = gen_lanes_alive(g, o, l, r), at = gen_get(g, op->in[0], am[r]), none = LLVMConstNull(t);
        if (where) { pred = gen_both(g, pred, gen_get(g, where, wm[r])); if (other) none = gen_get(g, other, em[r]); }
        LLVMBasicBlockRef from = LLVMGetInsertBlock(g->B), yes = NULL, go = NULL;
        if (pred) {
            yes = gen_block(g, "load"); go = gen_block(g, "loaded");
            LLVMBuildCondBr(g->B, pred, yes, go);
            LLVMPositionBuilderAtEnd(g->B, yes);
        }
        LLVMValueRef x = LLVMBuildLoad2(g->B, m, at, "");
        LLVMSetAlignment(x, (unsigned)elem_bytes(e));
        LLVMSetVolatile(x, 0);
        if (m != t) x = LLVMBuildICmp(g->B, LLVMIntNE, x, LLVMConstInt(m, 0, 0), "");
        if (pred) {
            LLVMBuildBr(g->B, go);
            LLVMPositionBuilderAtEnd(g->B, go);
            LLVMValueRef phi = LLVMBuildPhi(g->B, t, ""), in[2] = {x, none};
            LLVMBasicBlockRef bb[2] = {yes, from};
            LLVMAddIncoming(phi, in, bb, 2);
            x = phi;
        }
        gen_set(g, o, r, x);
    }
}

void emit_ptrstore(Gen *g, Op *op) {
    gen_order_pointers(g, op);
    Val *a = op->in[0], *v = op->in[1], *where = op->flags & HAS_WHERE ? op->in[2] : NULL;
    const Val *wide = a->type.rank >= v->type.rank ? a : v;
    const Layout *l = wide->type.rank ? wide->layout : NULL;
    int n = gen_tile(g, wide)->n, *am = gen_reg_map(g, wide, a), *vm = gen_reg_map(g, wide, v),
        *wm = where ? gen_reg_map(g, wide, where) : NULL;
    LLVMValueRef owner = gen_owner(g, l);
    for (int r = 0; r < n; r++) {
        LLVMValueRef pred = gen_both(g, gen_lanes_alive(g, wide, l, r), owner), x = gen_get(g, v, vm[r]), at = gen_get(g, a, am[r]);
        if (where) pred = gen_both(g, pred, gen_get(g, where, wm[r]));
        LLVMBasicBlockRef go = NULL;
        if (pred) {
            LLVMBasicBlockRef yes = gen_block(g, "store");
            go = gen_block(g, "stored");
            LLVMBuildCondBr(g->B, pred, yes, go);
            LLVMPositionBuilderAtEnd(g->B, yes);
        }
        if (LLVMTypeOf(x) == g->i1) x = LLVMBuildZExt(g->B, x, g->i8, "");
        LLVMValueRef st = LLVMBuildStore(g->B, x, at);
        LLVMSetAlignment(st, (unsigned)elem_bytes((Elem)a->type.elem));
        if (pred) { LLVMBuildBr(g->B, go); LLVMPositionBuilderAtEnd(g->B, go); }
    }
}

// ---- print, assert -------------------------------------------------------------------------------

static LLVMValueRef string(Gen *g, const char *s) {
    LLVMValueRef c = LLVMConstStringInContext2(g->C, s, strlen(s), 0);
    const char *name = arena_printf(g->arena, "%s_text", g->f->launch->entry);
    LLVMValueRef v = LLVMAddGlobalInAddressSpace(g->M, LLVMTypeOf(c), name, 1);
    LLVMSetInitializer(v, c);
    LLVMSetGlobalConstant(v, 1);
    LLVMSetLinkage(v, LLVMPrivateLinkage);
    return LLVMBuildAddrSpaceCast(g->B, v, LLVMPointerTypeInContext(g->C, 0), "");
}

static void print_line(Gen *g, const char *format, int n, LLVMValueRef *args) {
    LLVMTypeRef p0 = LLVMPointerTypeInContext(g->C, 0), pt[2] = {p0, p0}, ft = LLVMFunctionType(g->i32, pt, 2, 0),
                types[2 * MAX_AXES + 1];
    LLVMValueRef f = LLVMGetNamedFunction(g->M, "vprintf");
    if (!f) f = LLVMAddFunction(g->M, "vprintf", ft);
    for (int i = 0; i < n; i++) types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef st = LLVMStructTypeInContext(g->C, types, (unsigned)n, 0);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->B), entry = LLVMGetEntryBasicBlock(g->fn);
    LLVMMetadataRef line = LLVMGetCurrentDebugLocation2(g->B);
    LLVMPositionBuilderBefore(g->B, LLVMGetFirstInstruction(entry));
    LLVMValueRef room = n ? LLVMBuildAlloca(g->B, st, "") : LLVMConstNull(p0);
    LLVMPositionBuilderAtEnd(g->B, here);
    LLVMSetCurrentDebugLocation2(g->B, line);
    for (int i = 0; i < n; i++) LLVMBuildStore(g->B, args[i], LLVMBuildStructGEP2(g->B, st, room, (unsigned)i, ""));
    LLVMBuildCall2(g->B, ft, f, (LLVMValueRef[]){string(g, format), room}, 2, "");
}

// In a format, but none.
static void plain_words(Buf *format, const char *p, size_t n) {
    for (size_t i = 0; i < n; i++) buf_printf(format, p[i] == '%' ? "%%%%" : "%c", p[i]);
}

// An element as one argument of printf, and how it is written.
static LLVMValueRef printed_number(Gen *g, Val *v, int r, const char **format) {
    Elem e = (Elem)v->type.elem;
    LLVMValueRef x = gen_get(g, v, r);
    if (v->type.ptr) { *format = "0x%llx"; return x; }
    if (elem_is_float(e)) {
        *format = arena_printf(g->arena, "%%.%dg", print_digits(e));
        if (elem_is_storage(e)) x = gen_to_f32(g, x, e);
        return e == EL_f64 ? x : LLVMBuildFPExt(g->B, x, g->f64, "");
    }
    *format = elem_is_signed(e) ? "%lld" : "%llu";
    if (LLVMTypeOf(x) == g->i64) return x;
    return elem_is_signed(e) && e != EL_bool ? LLVMBuildSExt(g->B, x, g->i64, "") : LLVMBuildZExt(g->B, x, g->i64, "");
}

static LLVMValueRef first_block(Gen *g) {
    LLVMValueRef block = gen_call(g, "llvm.nvvm.read.ptx.sreg.ctaid.x", 0, NULL, 0, NULL);
    LLVMValueRef first = LLVMBuildICmp(g->B, LLVMIntEQ, block, gen_i32(g, 0), "");
    return g->one_warp ? LLVMBuildAnd(g->B, first, LLVMBuildICmp(g->B, LLVMIntULT, g->tid, gen_i32(g, 32), ""), "") : first;
}

// Program 0 prints; one line an element, "text f32[m 0+2, n 64+1] = value" (its axes' first places, and how far from them), by the lane that owns it. runtime/prints.c makes tiles of them.
void emit_print(Gen *g, Op *op) {
    Val *v = print_value(op);
    const Layout *l = v && v->type.rank ? v->layout : NULL;
    LLVMValueRef mine = op->attr ? gen_get(g, op->in[op->nin - 1], 0) : first_block(g);
    mine = gen_both(g, mine, gen_owner(g, l));
    Buf head = {0};
    print_head(op, &head);
    for (int r = 0; r < (v ? gen_tile(g, v)->n : 1); r++) {
        LLVMValueRef args[2 * MAX_AXES + 1], pred = v ? gen_both(g, mine, gen_lanes_alive(g, v, l, r)) : mine;
        LLVMBasicBlockRef yes = gen_block(g, "print"), go = gen_block(g, "printed");
        LLVMBuildCondBr(g->B, pred, yes, go);
        LLVMPositionBuilderAtEnd(g->B, yes);
        Buf text = {0};
        int n = 0;
        plain_words(&text, head.p, head.n);
        for (int i = 0; v && i < v->type.rank; i++) {
            const Val *axis = v->type.axis[i];
            LLVMValueRef c = LLVMBuildAdd(g->B, gen_lane_coord(g, l, i), gen_i32(g, gen_reg_coord(l, i, r)), "");
            args[n++] = gen_get64(g, axis_lo(axis), 0);
            args[n++] = LLVMBuildZExt(g->B, c, g->i64, "");
            buf_printf(&text, "%s%s %%lld+%%lld", i ? ", " : "[", axis->name ? axis->name->s : "_");
        }
        if (v) {
            const char *format;
            args[n++] = printed_number(g, v, r, &format);
            buf_printf(&text, "%s = %s", v->type.rank ? "]" : "", format);
        }
        buf_putc(&text, '\n');
        print_line(g, text.p, n, args);
        buf_free(&text);
        LLVMBuildBr(g->B, go);
        LLVMPositionBuilderAtEnd(g->B, go);
    }
    buf_free(&head);
}

void emit_assert(Gen *g, Op *op) {
    Val *c = op->in[0];
    const Layout *l = c->type.rank ? c->layout : NULL;
    for (int r = 0; r < gen_tile(g, c)->n; r++) {
        LLVMValueRef bad = LLVMBuildNot(g->B, gen_get(g, c, r), "");
        bad = gen_both(g, bad, gen_both(g, gen_lanes_alive(g, c, l, r), gen_owner(g, l)));
        LLVMBasicBlockRef yes = gen_block(g, "failed"), go = gen_block(g, "holds");
        LLVMBuildCondBr(g->B, bad, yes, go);
        LLVMPositionBuilderAtEnd(g->B, yes);
        Buf text = {0};
        buf_puts(&text, "assertion failed: ");
        plain_words(&text, op->str.p, op->str.n < 150 ? op->str.n : 150);
        buf_putc(&text, '\n');
        print_line(g, text.p, 0, NULL);
        buf_free(&text);
        gen_asm(g, LLVMVoidTypeInContext(g->C), "trap;", "", 0, NULL, true, false);
        LLVMBuildBr(g->B, go);
        LLVMPositionBuilderAtEnd(g->B, go);
    }
}
