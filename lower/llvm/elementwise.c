// Elementwise ops, one LLVM value per register, and value conversions.
//
// Storage floats live as their bits. Widening bf16 is a shift, f8 goes by way of f16, which holds all of it, two at a time; narrowing goes two (or, for
// f8, two at a time) elements per instruction into a packed word, which is what a store or a tensor core wants next.
#include "lower/llvm/gen.h"

#include "lang/number.h"

// ---- storage floats ------------------------------------------------------------------------------

static bool is_f8(Elem e) { return e == EL_f8e4m3 || e == EL_f8e5m2; }

// Two f8 of 16 bits as a word of two f16: exact.
static LLVMValueRef f16x2_of_f8(Gen *g, LLVMValueRef two, Elem e) {
    gen_need(g, offsetof(Target, has_cvt_f8));
    return LLVMBuildBitCast(g->B, gen_call(g, e == EL_f8e4m3 ? "llvm.nvvm.e4m3x2.to.f16x2.rn" : "llvm.nvvm.e5m2x2.to.f16x2.rn", 1, &two, 0, NULL), g->i32, "");
}

static LLVMValueRef f32_of_half(Gen *g, LLVMValueRef word, int part) {
    LLVMValueRef h = LLVMBuildTrunc(g->B, part ? LLVMBuildLShr(g->B, word, gen_i32(g, 16), "") : word, g->i16, "");
    return LLVMBuildFPExt(g->B, LLVMBuildBitCast(g->B, h, g->f16, ""), g->f32, "");
}

LLVMValueRef gen_to_f32(Gen *g, LLVMValueRef x, Elem e) {
    if (is_f8(e) && g->opt->target->has_cvt_f8 && !LLVMIsConstant(x))
        return f32_of_half(g, f16x2_of_f8(g, LLVMBuildZExt(g->B, x, g->i16, ""), e), 0);
    switch (e) {
    case EL_bf16:
        return LLVMBuildBitCast(g->B, LLVMBuildShl(g->B, LLVMBuildZExt(g->B, x, g->i32, ""), gen_i32(g, 16), ""),
                                g->f32, "");
    case EL_f16:  return LLVMBuildFPExt(g->B, LLVMBuildBitCast(g->B, x, g->f16, ""), g->f32, "");
    case EL_f8e4m3:
    case EL_f8e5m2: {    // exact in f16: shift the bits into place and rescale, NaN and inf kept by hand
        LLVMValueRef w = LLVMBuildZExt(g->B, x, g->i32, "");
        LLVMValueRef sign = LLVMBuildShl(g->B, LLVMBuildAnd(g->B, w, gen_i32(g, 0x80), ""), gen_i32(g, 24), "");
        LLVMValueRef mag = LLVMBuildAnd(g->B, w, gen_i32(g, 0x7f), "");
        int up = e == EL_f8e4m3 ? 20 : 21;
        double scale = e == EL_f8e4m3 ? 0x1p120 : 0x1p112;
        LLVMValueRef f = LLVMBuildBitCast(g->B, LLVMBuildShl(g->B, mag, gen_i32(g, up), ""), g->f32, "");
        f = LLVMBuildFMul(g->B, f, LLVMConstReal(g->f32, scale), "");
        LLVMValueRef bits = LLVMBuildBitCast(g->B, f, g->i32, "");
        if (e == EL_f8e4m3) {
            bits = LLVMBuildSelect(g->B, LLVMBuildICmp(g->B, LLVMIntEQ, mag, gen_i32(g, 0x7f), ""),
                                   gen_i32(g, 0x7fc00000), bits, "");
        } else {
            LLVMValueRef special = LLVMBuildOr(g->B, LLVMBuildShl(g->B, mag, gen_i32(g, 21), ""),
                                               gen_i32(g, 0x7f800000), "");
            bits = LLVMBuildSelect(g->B, LLVMBuildICmp(g->B, LLVMIntUGE, mag, gen_i32(g, 0x7c), ""), special, bits, "");
        }
        return LLVMBuildBitCast(g->B, LLVMBuildOr(g->B, bits, sign, ""), g->f32, "");
    }
    default: return x;
    }
}

// f32 -> f8 in integer arithmetic, for targets without the instruction: to nearest even, saturating.
static LLVMValueRef to_f8_soft(Gen *g, LLVMValueRef x, Elem e) {
    LLVMBuilderRef B = g->B;
    bool e4 = e == EL_f8e4m3;
    int mant = e4 ? 3 : 2;
    uint32_t max = e4 ? 0x7e : 0x7b;
    double unscale = e4 ? 0x1p-120 : 0x1p-112;
    LLVMValueRef bits = LLVMBuildBitCast(B, x, g->i32, "");
    LLVMValueRef sign = LLVMBuildAnd(B, LLVMBuildLShr(B, bits, gen_i32(g, 24), ""), gen_i32(g, 0x80), "");
    LLVMValueRef mag = LLVMBuildAnd(B, bits, gen_i32(g, 0x7fffffff), "");
    // Normal results: rebias by integers, round at bit (23 - mant). Subnormal ones: add a magic number.
    int drop = 23 - mant, bias = e4 ? 7 : 15;
    LLVMValueRef odd = LLVMBuildAnd(B, LLVMBuildLShr(B, mag, gen_i32(g, drop), ""), gen_i32(g, 1), "");
    LLVMValueRef rounded = LLVMBuildAdd(B, LLVMBuildAdd(B, mag, gen_i32(g, (1 << (drop - 1)) - 1), ""), odd, "");
    LLVMValueRef normal = LLVMBuildSub(B, LLVMBuildLShr(B, rounded, gen_i32(g, drop), ""),
                                       gen_i32(g, (127 - bias) << mant), "");
    double magic = e4 ? 0x1p14 : 0x1p7;                       // ulp of it is the smallest subnormal: 2^-9, 2^-16
    LLVMValueRef m = LLVMConstReal(g->f32, magic);
    LLVMValueRef sub = LLVMBuildFAdd(B, LLVMBuildBitCast(B, mag, g->f32, ""), m, "");
    LLVMValueRef small = LLVMBuildSub(B, LLVMBuildBitCast(B, sub, g->i32, ""), LLVMBuildBitCast(B, m, g->i32, ""), "");
    uint32_t least = (uint32_t)(127 - bias + 1) << 23;        // smallest normal
    LLVMValueRef r = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntULT, mag, gen_i32(g, least), ""), small, normal, "");
    LLVMTypeRef t = g->i32;
    r = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntUGE, mag, gen_i32(g, 0x7f800000), ""), gen_i32(g, max), r, "");
    r = gen_call(g, "llvm.umin", 2, (LLVMValueRef[]){r, gen_i32(g, max)}, 1, &t);
    r = LLVMBuildSelect(B, LLVMBuildICmp(B, LLVMIntUGT, mag, gen_i32(g, 0x7f800000), ""), gen_i32(g, 0x7f), r, "");
    (void)unscale;
    return LLVMBuildTrunc(B, LLVMBuildOr(B, r, sign, ""), g->i8, "");
}

// Two f32 -> one word of two storage floats (lo in the low half).
static LLVMValueRef pack2(Gen *g, LLVMValueRef lo, LLVMValueRef hi, Elem e) {
    LLVMValueRef a[2] = {hi, lo};
    if (e == EL_bf16) return gen_asm(g, g->i32, "cvt.rn.bf16x2.f32 $0, $1, $2;", "=r,f,f", 2, a, false, false);
    if (e == EL_f16)  return gen_asm(g, g->i32, "cvt.rn.f16x2.f32 $0, $1, $2;", "=r,f,f", 2, a, false, false);
    if (g->opt->target->has_cvt_f8) {
        gen_need(g, offsetof(Target, has_cvt_f8));
        LLVMValueRef w = gen_call(g, e == EL_f8e4m3 ? "llvm.nvvm.ff.to.e4m3x2.rn" : "llvm.nvvm.ff.to.e5m2x2.rn", 2, a,
                                  0, NULL);
        return LLVMBuildZExt(g->B, w, g->i32, "");
    }
    LLVMValueRef l = LLVMBuildZExt(g->B, to_f8_soft(g, lo, e), g->i32, ""),
                 h = LLVMBuildZExt(g->B, to_f8_soft(g, hi, e), g->i32, "");
    return LLVMBuildOr(g->B, l, LLVMBuildShl(g->B, h, gen_i32(g, 8), ""), "");
}

LLVMValueRef gen_from_f32(Gen *g, LLVMValueRef x, Elem e) {
    if (!elem_is_storage(e)) return x;
    if (LLVMIsConstant(x)) {                                  // keep constants constant
        LLVMBool lost;
        float f = (float)LLVMConstRealGetDouble(x, &lost);
        unsigned bits = e == EL_f16      ? f16_from_f32(f)
                        : e == EL_bf16   ? bf16_from_f32(f)
                        : e == EL_f8e4m3 ? e4m3_from_f32(f)
                                         : e5m2_from_f32(f);
        return LLVMConstInt(LLVMIntTypeInContext(g->C, (unsigned)elem_bits(e)), bits, 0);
    }
    LLVMValueRef w = pack2(g, x, LLVMConstReal(g->f32, 0), e);
    return LLVMBuildTrunc(g->B, w, LLVMIntTypeInContext(g->C, (unsigned)elem_bits(e)), "");
}

LLVMValueRef gen_kept_f32(Gen *g, LLVMValueRef x, Elem e) {
    if (e != EL_f8e5m2) return gen_from_f32(g, x, e);
    LLVMValueRef half = LLVMBuildZExt(g->B, gen_from_f32(g, x, EL_f16), g->i32, "");     // whose high byte it is
    return LLVMBuildTrunc(g->B, LLVMBuildLShr(g->B, half, gen_i32(g, 8), ""), g->i8, "");
}

// ---- arithmetic ----------------------------------------------------------------------------------

// By the width or more: nothing is left but the sign.
static LLVMValueRef shift(Gen *g, AstOp op, Elem e, LLVMValueRef a, LLVMValueRef b) {
    LLVMTypeRef t = LLVMTypeOf(a);
    unsigned width = LLVMGetIntTypeWidth(t);
    LLVMValueRef zero = LLVMConstInt(t, 0, 0), ok = LLVMBuildICmp(g->B, LLVMIntULT, b, LLVMConstInt(t, width, 0), "");
    if (op == OP_shr && elem_is_signed(e))
        return LLVMBuildAShr(g->B, a, LLVMBuildSelect(g->B, ok, b, LLVMConstInt(t, width - 1, 0), ""), "");
    LLVMValueRef by = LLVMBuildSelect(g->B, ok, b, zero, "");
    return LLVMBuildSelect(g->B, ok, op == OP_shl ? LLVMBuildShl(g->B, a, by, "") : LLVMBuildLShr(g->B, a, by, ""),
                           zero, "");
}

static LLVMValueRef divide_any(Gen *g, AstOp op, Elem e, LLVMValueRef a, LLVMValueRef b) {
    LLVMBuilderRef B = g->B;
    LLVMTypeRef t = LLVMTypeOf(a);
    LLVMValueRef zero = LLVMConstInt(t, 0, 0), one = LLVMConstInt(t, 1, 0), minus = LLVMConstInt(t, ~0ULL, 1);
    bool known = LLVMIsConstant(b) && !LLVMIsNull(b);
    LLVMValueRef bz = known ? NULL : LLVMBuildICmp(B, LLVMIntEQ, b, zero, ""), r;
    LLVMValueRef d = known ? b : LLVMBuildSelect(B, bz, one, b, "");
    if (!elem_is_signed(e)) {
        r = op == OP_div ? LLVMBuildUDiv(B, a, d, "") : LLVMBuildURem(B, a, d, "");
    } else {                                                  // -1 separately: INT_MIN / -1 wraps
        LLVMValueRef m1 = LLVMBuildICmp(B, LLVMIntEQ, d, minus, ""), safe = known ? d : LLVMBuildSelect(B, m1, one, d, "");
        if (known && LLVMConstIntGetSExtValue(b) == -1) return op == OP_div ? LLVMBuildNeg(B, a, "") : zero;
        LLVMValueRef q = LLVMBuildSDiv(B, a, safe, ""), rem = LLVMBuildSub(B, a, LLVMBuildMul(B, q, safe, ""), "");
        LLVMValueRef adjust = LLVMBuildAnd(B, LLVMBuildICmp(B, LLVMIntNE, rem, zero, ""),
                                           LLVMBuildICmp(B, LLVMIntSLT, LLVMBuildXor(B, rem, safe, ""), zero, ""), "");
        if (op == OP_div) {
            r = LLVMBuildSub(B, q, LLVMBuildZExt(B, adjust, t, ""), "");
            if (!known) r = LLVMBuildSelect(B, m1, LLVMBuildNeg(B, a, ""), r, "");
        } else {
            r = LLVMBuildSelect(B, adjust, LLVMBuildAdd(B, rem, safe, ""), rem, "");
            if (!known) r = LLVMBuildSelect(B, m1, zero, r, "");
        }
    }
    return known ? r : LLVMBuildSelect(B, bz, zero, r, "");
}

// Floored division and remainder; by zero gives 0 (a trap is eval's business). One of 64 bits is a function of a hundred
// instructions; where both numbers are below 2^32, as indices mostly are, it is one of 32 bits.
static LLVMValueRef divide_int(Gen *g, AstOp op, Elem e, LLVMValueRef a, LLVMValueRef b) {
    LLVMTypeRef t = LLVMTypeOf(a);
    if (LLVMGetIntTypeWidth(t) != 64 || LLVMIsConstant(b)) return divide_any(g, op, e, a, b);
    LLVMBuilderRef B = g->B;
    LLVMBasicBlockRef small = gen_block(g, "small"), large = gen_block(g, "large"), join = gen_block(g, "join");
    LLVMValueRef high = LLVMBuildLShr(B, LLVMBuildOr(B, a, b, ""), LLVMConstInt(t, 32, 0), "");
    LLVMBuildCondBr(B, LLVMBuildICmp(B, LLVMIntEQ, high, LLVMConstInt(t, 0, 0), ""), small, large);
    LLVMPositionBuilderAtEnd(B, small);
    LLVMValueRef x = divide_any(g, op, EL_u32, LLVMBuildTrunc(B, a, g->i32, ""), LLVMBuildTrunc(B, b, g->i32, ""));
    x = LLVMBuildZExt(B, x, t, "");
    LLVMBuildBr(B, join);
    LLVMPositionBuilderAtEnd(B, large);
    LLVMValueRef y = divide_any(g, op, e, a, b);
    LLVMBuildBr(B, join);
    LLVMPositionBuilderAtEnd(B, join);
    LLVMValueRef r = LLVMBuildPhi(B, t, "");
    LLVMAddIncoming(r, (LLVMValueRef[]){x, y}, (LLVMBasicBlockRef[]){small, large}, 2);
    return r;
}

static LLVMValueRef compare(Gen *g, AstOp op, Elem e, LLVMValueRef a, LLVMValueRef b) {
    static const LLVMRealPredicate real[OP_COUNT] = {[OP_eq] = LLVMRealOEQ, [OP_ne] = LLVMRealUNE,
                                                     [OP_lt] = LLVMRealOLT, [OP_le] = LLVMRealOLE,
                                                     [OP_gt] = LLVMRealOGT, [OP_ge] = LLVMRealOGE};
    static const LLVMIntPredicate sint[OP_COUNT] = {[OP_eq] = LLVMIntEQ,  [OP_ne] = LLVMIntNE,  [OP_lt] = LLVMIntSLT,
                                                    [OP_le] = LLVMIntSLE, [OP_gt] = LLVMIntSGT, [OP_ge] = LLVMIntSGE};
    static const LLVMIntPredicate uint[OP_COUNT] = {[OP_eq] = LLVMIntEQ,  [OP_ne] = LLVMIntNE,  [OP_lt] = LLVMIntULT,
                                                    [OP_le] = LLVMIntULE, [OP_gt] = LLVMIntUGT, [OP_ge] = LLVMIntUGE};
    if (elem_is_storage(e)) { a = gen_to_f32(g, a, e); b = gen_to_f32(g, b, e); }
    if (elem_is_float(e)) return LLVMBuildFCmp(g->B, real[op], a, b, "");
    return LLVMBuildICmp(g->B, elem_is_signed(e) ? sint[op] : uint[op], a, b, "");
}

LLVMValueRef gen_binary(Gen *g, AstOp op, Elem e, LLVMValueRef a, LLVMValueRef b) {
    bool f = elem_is_float(e);
    switch (op) {
    case OP_add: return f ? LLVMBuildFAdd(g->B, a, b, "") : LLVMBuildAdd(g->B, a, b, "");
    case OP_sub: return f ? LLVMBuildFSub(g->B, a, b, "") : LLVMBuildSub(g->B, a, b, "");
    case OP_mul: return f ? LLVMBuildFMul(g->B, a, b, "") : LLVMBuildMul(g->B, a, b, "");
    case OP_div: return f ? gen_divide(g, e, a, b, false) : divide_int(g, op, e, a, b);
    case OP_rem:
        if (!f) return divide_int(g, op, e, a, b);
        else {                                                // a - floor(a / b) * b, in one rounding of each step
            LLVMTypeRef t = LLVMTypeOf(a);
            LLVMValueRef q = gen_divide(g, e, a, b, true), fl = gen_call(g, "llvm.floor", 1, &q, 1, &t),
                         n = LLVMBuildFNeg(g->B, fl, "");
            return gen_call(g, "llvm.fma", 3, (LLVMValueRef[]){n, b, a}, 1, &t);
        }
    case OP_and: case OP_land: return LLVMBuildAnd(g->B, a, b, "");
    case OP_or:  case OP_lor:  return LLVMBuildOr(g->B, a, b, "");
    case OP_xor: return LLVMBuildXor(g->B, a, b, "");
    case OP_shl: case OP_shr: return shift(g, op, e, a, b);
    default:     return compare(g, op, e, a, b);
    }
}

static LLVMValueRef minmax(Gen *g, bool max, Elem e, LLVMValueRef a, LLVMValueRef b) {
    LLVMTypeRef t = LLVMTypeOf(a);
    if (elem_is_storage(e)) {
        LLVMValueRef x = minmax(g, max, EL_f32, gen_to_f32(g, a, e), gen_to_f32(g, b, e));
        return gen_kept_f32(g, x, e);
    }
    if (e == EL_f32) return gen_call(g, max ? "llvm.maximum" : "llvm.minimum", 2, (LLVMValueRef[]){a, b}, 1, &t);
    if (e == EL_f64) {                                        // no max.NaN.f64: NaN by hand
        LLVMValueRef m = gen_call(g, max ? "llvm.maxnum" : "llvm.minnum", 2, (LLVMValueRef[]){a, b}, 1, &t);
        LLVMValueRef sum = LLVMBuildFAdd(g->B, a, b, "");
        return LLVMBuildSelect(g->B, LLVMBuildFCmp(g->B, LLVMRealUNO, a, b, ""), sum, m, "");
    }
    const char *name = elem_is_signed(e) ? (max ? "llvm.smax" : "llvm.smin") : (max ? "llvm.umax" : "llvm.umin");
    if (e == EL_bool) return max ? LLVMBuildOr(g->B, a, b, "") : LLVMBuildAnd(g->B, a, b, "");
    return gen_call(g, name, 2, (LLVMValueRef[]){a, b}, 1, &t);
}

LLVMValueRef gen_fun(Gen *g, TFun fun, Elem e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    LLVMTypeRef t = LLVMTypeOf(a);
    switch (fun) {
    case TF_min: case TF_max: return minmax(g, fun == TF_max, e, a, b);
    case TF_fma:    return gen_call(g, "llvm.fma", 3, (LLVMValueRef[]){a, b, c}, 1, &t);
    case TF_floor:  return gen_call(g, "llvm.floor", 1, &a, 1, &t);
    case TF_ceil:   return gen_call(g, "llvm.ceil", 1, &a, 1, &t);
    case TF_round:  return gen_call(g, "llvm.rint", 1, &a, 1, &t);
    case TF_trunc:  return gen_call(g, "llvm.trunc", 1, &a, 1, &t);
    case TF_abs:
        if (elem_is_storage(e)) return LLVMBuildAnd(g->B, a, LLVMConstInt(t, (1ULL << (elem_bits(e) - 1)) - 1, 0), "");
        if (elem_is_float(e)) return gen_call(g, "llvm.fabs", 1, &a, 1, &t);
        return elem_is_signed(e) ? gen_call(g, "llvm.abs", 2, (LLVMValueRef[]){a, LLVMConstInt(g->i1, 0, 0)}, 1, &t) : a;
    case TF_isnan:
        if (elem_is_storage(e)) a = gen_to_f32(g, a, e);
        return LLVMBuildFCmp(g->B, LLVMRealUNO, a, a, "");
    case TF_copysign: return gen_call(g, "llvm.copysign", 2, (LLVMValueRef[]){a, b}, 1, &t);
    case TF_div_rn: return gen_divide(g, e, a, b, true);
    default:        return gen_math(g, fun, e, a, b);
    }
}

LLVMValueRef gen_shuffle_xor(Gen *g, LLVMValueRef x, int mask) {
    LLVMTypeRef t = LLVMTypeOf(x);
    LLVMTypeKind k = LLVMGetTypeKind(t);
    unsigned bits = k == LLVMFloatTypeKind ? 32 : k == LLVMDoubleTypeKind ? 64 : LLVMGetIntTypeWidth(t);
    LLVMValueRef a[4] = {gen_i32(g, -1), NULL, gen_i32(g, mask), gen_i32(g, 31)};
    if (bits == 64) {
        LLVMValueRef w = k == LLVMDoubleTypeKind ? LLVMBuildBitCast(g->B, x, g->i64, "") : x, half[2];
        for (int i = 0; i < 2; i++) {
            a[1] = LLVMBuildTrunc(g->B, i ? LLVMBuildLShr(g->B, w, gen_i64(g, 32), "") : w, g->i32, "");
            half[i] = LLVMBuildZExt(g->B, gen_call(g, "llvm.nvvm.shfl.sync.bfly.i32", 4, a, 0, NULL), g->i64, "");
        }
        w = LLVMBuildOr(g->B, half[0], LLVMBuildShl(g->B, half[1], gen_i64(g, 32), ""), "");
        return k == LLVMDoubleTypeKind ? LLVMBuildBitCast(g->B, w, g->f64, "") : w;
    }
    a[1] = k == LLVMFloatTypeKind ? LLVMBuildBitCast(g->B, x, g->i32, "")
           : bits < 32            ? LLVMBuildZExt(g->B, x, g->i32, "")
                                  : x;
    LLVMValueRef r = gen_call(g, "llvm.nvvm.shfl.sync.bfly.i32", 4, a, 0, NULL);
    return k == LLVMFloatTypeKind ? LLVMBuildBitCast(g->B, r, g->f32, "") : bits < 32 ? LLVMBuildTrunc(g->B, r, t, "") : r;
}

// ---- conversions ---------------------------------------------------------------------------------

static LLVMValueRef float_to_int(Gen *g, LLVMValueRef x, Elem from, Elem to) {
    bool d = from == EL_f64, sign = elem_is_signed(to), wide = elem_bits(to) == 64;
    static const char *const name[2][2][2] = {
        {{"llvm.nvvm.f2ui.rz", "llvm.nvvm.f2i.rz"}, {"llvm.nvvm.f2ull.rz", "llvm.nvvm.f2ll.rz"}},
        {{"llvm.nvvm.d2ui.rz", "llvm.nvvm.d2i.rz"}, {"llvm.nvvm.d2ull.rz", "llvm.nvvm.d2ll.rz"}}};
    LLVMValueRef nan = LLVMBuildFCmp(g->B, LLVMRealUNO, x, x, "");
    LLVMValueRef r = gen_call(g, name[d][wide][sign], 1, &x, 0, NULL);
    if (wide || d) r = LLVMBuildSelect(g->B, nan, LLVMConstInt(LLVMTypeOf(r), 0, 0), r, "");
    int bits = elem_bits(to);
    if (bits >= 32) return r;
    int64_t hi = sign ? (1LL << (bits - 1)) - 1 : (1LL << bits) - 1, lo = sign ? -(1LL << (bits - 1)) : 0;
    LLVMTypeRef t = g->i32;
    r = gen_call(g, sign ? "llvm.smin" : "llvm.umin", 2, (LLVMValueRef[]){r, gen_i32(g, hi)}, 1, &t);
    if (sign) r = gen_call(g, "llvm.smax", 2, (LLVMValueRef[]){r, gen_i32(g, lo)}, 1, &t);
    return LLVMBuildTrunc(g->B, r, LLVMIntTypeInContext(g->C, (unsigned)bits), "");
}

// An f32 that was rounded toward zero, odd if that lost something: then rounding it again is exact, as the nearest of a type with two bits fewer.
static LLVMValueRef made_odd(Gen *g, LLVMValueRef x, LLVMValueRef inexact) {
    LLVMValueRef b = LLVMBuildBitCast(g->B, x, g->i32, "");
    return LLVMBuildBitCast(g->B, LLVMBuildOr(g->B, b, LLVMBuildZExt(g->B, inexact, g->i32, ""), ""), g->f32, "");
}

static LLVMValueRef odd_of_int(Gen *g, LLVMValueRef x, bool sign) {
    static const char *const names[2][2] = {{"llvm.nvvm.ui2f.rz", "llvm.nvvm.i2f.rz"}, {"llvm.nvvm.ull2f.rz", "llvm.nvvm.ll2f.rz"}};
    LLVMTypeRef t = LLVMTypeOf(x);
    LLVMValueRef r = gen_call(g, names[LLVMGetIntTypeWidth(t) == 64][sign], 1, &x, 0, NULL);
    LLVMValueRef back = sign ? LLVMBuildFPToSI(g->B, r, t, "") : LLVMBuildFPToUI(g->B, r, t, "");
    return made_odd(g, r, LLVMBuildICmp(g->B, LLVMIntNE, back, x, ""));
}

static LLVMValueRef convert(Gen *g, LLVMValueRef x, Elem from, Elem to, LLVMTypeRef t) {
    if (from == to && LLVMTypeOf(x) == t) return x;
    if (elem_is_storage(from)) { x = gen_to_f32(g, x, from); from = EL_f32; }
    if (to == EL_bool) {
        if (elem_is_float(from)) return LLVMBuildFCmp(g->B, LLVMRealUNE, x, LLVMConstReal(LLVMTypeOf(x), 0), "");
        return from == EL_bool ? x : LLVMBuildICmp(g->B, LLVMIntNE, x, LLVMConstInt(LLVMTypeOf(x), 0, 0), "");
    }
    if (elem_is_float(from)) {
        if (elem_is_storage(to)) {
            if (from == EL_f64 && to == EL_f16)
                return LLVMBuildBitCast(g->B, LLVMBuildFPTrunc(g->B, x, g->f16, ""), g->i16, "");
            if (from == EL_f64) {
                LLVMValueRef r = gen_call(g, "llvm.nvvm.d2f.rz", 1, &x, 0, NULL);
                LLVMValueRef back = LLVMBuildFPExt(g->B, r, g->f64, "");
                x = made_odd(g, r, LLVMBuildFCmp(g->B, LLVMRealONE, back, x, ""));
            }
            return gen_from_f32(g, x, to);
        }
        if (elem_is_float(to))
            return to == from     ? x
                   : to == EL_f64 ? LLVMBuildFPExt(g->B, x, g->f64, "")
                                  : LLVMBuildFPTrunc(g->B, x, g->f32, "");
        return float_to_int(g, x, from, to);
    }
    bool sign = elem_is_signed(from) && from != EL_bool;
    if (elem_is_float(to)) {
        LLVMTypeRef ft = to == EL_f64 ? g->f64 : g->f32;
        if (to == EL_bf16 && elem_bits(from) >= 32) return gen_from_f32(g, odd_of_int(g, x, sign), to);
        x = sign ? LLVMBuildSIToFP(g->B, x, ft, "") : LLVMBuildUIToFP(g->B, x, ft, "");
        return gen_from_f32(g, x, to);
    }
    unsigned a = LLVMGetIntTypeWidth(LLVMTypeOf(x)), b = LLVMGetIntTypeWidth(t);
    return a == b  ? x
           : a > b ? LLVMBuildTrunc(g->B, x, t, "")
           : sign  ? LLVMBuildSExt(g->B, x, t, "")
                   : LLVMBuildZExt(g->B, x, t, "");
}

// Registers r and r + 1 of f8 in another type, by way of f16.
static void widen_two(Gen *g, const Val *o, int r, LLVMValueRef halves) {
    Elem to = (Elem)o->type.elem;
    if (to == EL_f16) { gen_set_word(g, o, r, 2, halves); return; }
    LLVMValueRef lo = f32_of_half(g, halves, 0), hi = f32_of_half(g, halves, 1);
    if (to == EL_bf16) { gen_set_word(g, o, r, 2, pack2(g, lo, hi, to)); return; }
    gen_set(g, o, r, lo);
    gen_set(g, o, r + 1, hi);
}

// How many registers of f8 were widened two at a time: as they lie in words of four.
static int widen(Gen *g, const Val *x, const Val *o, int n) {
    Elem from = (Elem)x->type.elem, to = (Elem)o->type.elem;
    int r = 0;
    if (!is_f8(from) || !g->opt->target->has_cvt_f8 || (to != EL_f16 && to != EL_bf16 && to != EL_f32)) return 0;
    for (; r + 3 < n; r += 4) {
        LLVMValueRef w = gen_word(g, x, r, 4);
        for (int i = 0; i < 2; i++)
            widen_two(g, o, r + 2 * i, f16x2_of_f8(g, LLVMBuildTrunc(g->B, i ? LLVMBuildLShr(g->B, w, gen_i32(g, 16), "") : w, g->i16, ""), from));
    }
    for (; r + 1 < n; r += 2) widen_two(g, o, r, f16x2_of_f8(g, LLVMBuildTrunc(g->B, gen_word(g, x, r, 2), g->i16, ""), from));
    return r;
}

void emit_cast(Gen *g, Op *op) {
    Val *o = op->out[0], *x = op->in[0];
    Elem from = (Elem)x->type.elem, to = (Elem)o->type.elem;
    int n = gen_tile(g, o)->n, r = 0;
    bool pairs = elem_is_storage(to) && (from == EL_f32 || (elem_is_storage(from) && from != to));
    if (!g->wanted[o->id]) return;
    r = widen(g, x, o, n);
    for (; r + 1 < n && gen_halves(g, op, r); r += 2) {}
    for (; pairs && r + 1 < n; r += 2) {
        LLVMValueRef lo = gen_get(g, x, r), hi = gen_get(g, x, r + 1);
        if (from != EL_f32) { lo = gen_to_f32(g, lo, from); hi = gen_to_f32(g, hi, from); }
        if (elem_bits(to) == 16) gen_set_word(g, o, r, 2, pack2(g, lo, hi, to));
        else if (r + 3 < n) {
            LLVMValueRef l2 = gen_get(g, x, r + 2), h2 = gen_get(g, x, r + 3);
            if (from != EL_f32) { l2 = gen_to_f32(g, l2, from); h2 = gen_to_f32(g, h2, from); }
            LLVMValueRef w = LLVMBuildOr(g->B, pack2(g, lo, hi, to),
                                         LLVMBuildShl(g->B, pack2(g, l2, h2, to), gen_i32(g, 16), ""), "");
            gen_set_word(g, o, r, 4, w);
            r += 2;
        } else {
            gen_set_word(g, o, r, 2, pack2(g, lo, hi, to));
        }
    }
    for (; r < n; r++) {
        Tile *t = gen_tile(g, x);
        if (from == EL_bf16 && to == EL_f32 && !t->r[r].v && t->r[r].word) {      // half of a word: a shift or a mask
            LLVMValueRef w = t->r[r].word;
            w = t->r[r].part ? LLVMBuildAnd(g->B, w, gen_i32(g, 0xffff0000), "") : LLVMBuildShl(g->B, w, gen_i32(g, 16), "");
            gen_set(g, o, r, LLVMBuildBitCast(g->B, w, g->f32, ""));
            continue;
        }
        gen_set(g, o, r, convert(g, gen_get(g, x, r), from, to, gen_type(g, o)));
    }
}

void emit_bitcast(Gen *g, Op *op) {
    for (int r = 0, n = gen_tile(g, op->out[0])->n; r < n; r++)
        gen_set(g, op->out[0], r, LLVMBuildBitCast(g->B, gen_get(g, op->in[0], r), gen_type(g, op->out[0]), ""));
}

// ---- the ops -------------------------------------------------------------------------------------

static LLVMValueRef operand(Gen *g, const Val *v, int r, bool narrow) {
    LLVMValueRef x = gen_get(g, v, r);
    if (v->type.elem != EL_index || v->type.ptr) return x;
    return narrow ? x : gen_get64(g, v, r);
}

// All index operands of an op run in 32 bits, or none does.
bool gen_narrow_op(Gen *g, const Op *op) {
    for (int i = 0; i < op->nin; i++) if (op->in[i]->type.elem == EL_index && !gen_is32(g, op->in[i])) return false;
    return op->out[0]->type.elem != EL_index || gen_is32(g, op->out[0]);
}

static LLVMValueRef fit(Gen *g, const Val *o, LLVMValueRef x) {
    LLVMTypeRef t = gen_type(g, o);
    if (LLVMTypeOf(x) == t || o->type.elem != EL_index) return x;
    return t == g->i32 ? LLVMBuildTrunc(g->B, x, t, "") : LLVMBuildSExt(g->B, x, t, "");
}

typedef LLVMValueRef ElemFn(Gen *g, const Op *op, LLVMValueRef *in);

static void each(Gen *g, Op *op, ElemFn *fn) {
    Val *o = op->out[0];
    if (!g->wanted[o->id]) return;
    int n = gen_tile(g, o)->n, *map[3];
    bool narrow = gen_narrow_op(g, op);
    for (int i = 0; i < op->nin; i++) map[i] = gen_reg_map(g, o, op->in[i]);
    for (int r = 0; r < n; r++) {
        LLVMValueRef in[3];
        for (int i = 0; i < op->nin; i++) in[i] = operand(g, op->in[i], map[i][r], narrow);
        gen_set(g, o, r, fit(g, o, fn(g, op, in)));
    }
}

static LLVMValueRef do_binary(Gen *g, const Op *op, LLVMValueRef *in) {
    Elem e = (Elem)op->in[0]->type.elem;
    if (op->in[0]->type.ptr) {                                 // pointer arithmetic, in elements
        LLVMValueRef off = in[1];
        if (op->sub == OP_sub) off = LLVMBuildNeg(g->B, off, "");
        LLVMTypeRef et = LLVMIntTypeInContext(g->C, (unsigned)elem_bits(e));
        return LLVMBuildGEP2(g->B, et, in[0], &off, 1, "");
    }
    LLVMValueRef quotient = gen_divide_known(g, op, in);
    if (quotient) return quotient;
    if (e == EL_index && (op->sub == OP_div || op->sub == OP_rem) && fact_range(g->facts, op->in[0]).lo >= 0 &&
        fact_range(g->facts, op->in[1]).lo >= 0)
        e = EL_u64;                                            // both are known not to be negative
    return gen_binary(g, (AstOp)op->sub, e, in[0], in[1]);
}

// index % c comes again every c lanes: registers a multiple of c apart have one value, and what is loaded there is
// loaded once.
static bool repeats(Gen *g, Op *op) {
    Val *o = op->out[0];
    const Op *x = op->in[0]->def, *c = op->in[1]->def;
    if (op->sub != OP_rem || o->type.rank != 1 || !x || x->code != OP_T_index || !c || c->code != OP_T_const ||
        c->imm < 1 || !g->wanted[o->id])
        return false;
    int n = gen_tile(g, o)->n, *map = gen_reg_map(g, o, op->in[0]);
    bool narrow = gen_narrow_op(g, op);
    for (int r = 0; r < n; r++) {
        int same = 0;
        while ((gen_reg_coord(o->layout, 0, r) - gen_reg_coord(o->layout, 0, same)) % c->imm) same++;
        LLVMValueRef in[] = {operand(g, op->in[0], map[r], narrow), operand(g, op->in[1], 0, narrow)};
        gen_set(g, o, r, same < r ? gen_get(g, o, same) : fit(g, o, do_binary(g, op, in)));
    }
    return true;
}

void emit_binary(Gen *g, Op *op) {
    if (!gen_divide_tile(g, op) && !repeats(g, op) && !gen_compare_places(g, op)) each(g, op, do_binary);
}

static LLVMValueRef do_unary(Gen *g, const Op *op, LLVMValueRef *in) {
    Elem e = (Elem)op->in[0]->type.elem;
    if (op->sub != OP_neg) return LLVMBuildNot(g->B, in[0], "");
    if (elem_is_storage(e))
        return LLVMBuildXor(g->B, in[0], LLVMConstInt(LLVMTypeOf(in[0]), 1ULL << (elem_bits(e) - 1), 0), "");
    return elem_is_float(e) ? LLVMBuildFNeg(g->B, in[0], "") : LLVMBuildNeg(g->B, in[0], "");
}
void emit_unary(Gen *g, Op *op) { each(g, op, do_unary); }

static LLVMValueRef do_select(Gen *g, const Op *op, LLVMValueRef *in) {
    (void)op;
    // a lane that is known to be alive
    bool always = LLVMIsAConstantInt(in[0]) && LLVMConstIntGetZExtValue(in[0]) == 1;
    return always ? in[1] : LLVMBuildSelect(g->B, in[0], in[1], in[2], "");
}
// `where(c, x, 0)` of 16-bit elements that lie in words: a word at a time, without taking it apart.
static bool select_words(Gen *g, const Op *op) {
    const Val *o = op->out[0], *c = op->in[0], *x = op->in[1], *other = op->in[2];
    int n = gen_tile(g, o)->n;
    if (o->type.elem == EL_index || o->type.ptr || elem_bits((Elem)o->type.elem) != 16 || n % 2 ||
        gen_tile(g, x)->n != n)
        return false;
    int *cm = gen_reg_map(g, o, c), *xm = gen_reg_map(g, o, x), *om = gen_reg_map(g, o, other);
    for (int r = 0; r < n; r++) {
        const Reg *w = &gen_tile(g, x)->r[r & ~1];
        LLVMValueRef zero = gen_get(g, other, om[r]);
        if (xm[r] != r || !w->word || w->word != w[1].word || w->part != 0 || w[1].part != 1 ||
            !LLVMIsAConstantInt(zero) || !LLVMIsNull(zero))
            return false;
    }
    for (int r = 0; r < n; r += 2) {
        LLVMValueRef w = gen_word(g, x, r, 2), c0 = gen_get(g, c, cm[r]), c1 = gen_get(g, c, cm[r + 1]);
        if (c0 == c1) {
            w = LLVMBuildSelect(g->B, c0, w, gen_i32(g, 0), "");
        } else {
            w = LLVMBuildSelect(g->B, c0, w, LLVMBuildAnd(g->B, w, gen_i32(g, 0xffff0000), ""), "");
            w = LLVMBuildSelect(g->B, c1, w, LLVMBuildAnd(g->B, w, gen_i32(g, 0xffff), ""), "");
        }
        gen_set_word(g, o, r, 2, w);
    }
    return true;
}

void emit_select(Gen *g, Op *op) {
    if (g->wanted[op->out[0]->id] && !select_words(g, op)) each(g, op, do_select);
}

static LLVMValueRef do_fun(Gen *g, const Op *op, LLVMValueRef *in) {
    return gen_fun(g, (TFun)op->sub, (Elem)op->in[0]->type.elem, in[0], op->nin > 1 ? in[1] : NULL,
                   op->nin > 2 ? in[2] : NULL);
}
void emit_fun(Gen *g, Op *op) { each(g, op, do_fun); }

static LLVMValueRef do_copy(Gen *g, const Op *op, LLVMValueRef *in) { (void)g; (void)op; return in[0]; }
void emit_splat(Gen *g, Op *op) { each(g, op, do_copy); }

void emit_rename(Gen *g, Op *op) {
    Tile *from = gen_tile(g, op->in[0]), *to = gen_tile(g, op->out[0]);
    for (int r = 0; r < to->n; r++) to->r[r] = from->r[r];
}

void emit_index(Gen *g, Op *op) {
    Val *o = op->out[0], *axis = op->in[0];
    if (!g->wanted[o->id]) return;
    int n = gen_tile(g, o)->n;
    bool narrow = gen_is32(g, o);
    LLVMValueRef lo = narrow && gen_is32(g, axis_lo(axis)) ? gen_get(g, axis_lo(axis), 0) : gen_get64(g, axis_lo(axis), 0);
    if (narrow && LLVMTypeOf(lo) != g->i32) lo = LLVMBuildTrunc(g->B, lo, g->i32, "");
    LLVMValueRef c = gen_lane_coord(g, o->layout, 0);
    LLVMValueRef base = gen_lane_number(g, axis, c);
    base = LLVMBuildAdd(g->B, lo, narrow ? base : base == c ? LLVMBuildZExt(g->B, c, g->i64, "") : LLVMBuildSExt(g->B, base, g->i64, ""), "");
    for (int r = 0; r < n; r++) {
        int64_t k = gen_reg_coord(o->layout, 0, r);
        gen_set(g, o, r, k ? LLVMBuildAdd(g->B, base, LLVMConstInt(LLVMTypeOf(base), (unsigned long long)k, 0), "") : base);
    }
}

void emit_live(Gen *g, Op *op) {
    Val *o = op->out[0];
    if (!g->wanted[o->id]) return;
    for (int r = 0, n = gen_tile(g, o)->n; r < n; r++) {
        LLVMValueRef p = gen_live(g, op->in[0], o->layout, 0, r, 1);
        gen_set(g, o, r, p ? p : LLVMConstInt(g->i1, 1, 0));
    }
}
