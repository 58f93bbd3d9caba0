// The LLVM instance of the functions of math.h: one instruction a step.
//
// Steps with a plain LLVM counterpart become that; the rest are the PTX instruction of their row, as
// inline assembly, or by LLVM's name for it: LLVM is quick with inline assembly of one operand, and three
// times as quick with intrinsics of more (measured in attention and softmax). No flag that would let LLVM
// reassociate or contract is ever set.
#include <string.h>

#include "lower/llvm/gen.h"
#include "lower/math.h"

typedef struct LlvmMath { MathBuilder b; Gen *g; } LlvmMath;

static LLVMTypeRef type_of(Gen *g, MathType t) {
    LLVMTypeRef types[] = {[MT_I1] = g->i1, [MT_I32] = g->i32, [MT_I64] = g->i64, [MT_F32] = g->f32, [MT_F64] = g->f64};
    return types[t];
}

static MathVal fconst(MathBuilder *b, MathType t, double v) {
    Gen *g = ((LlvmMath *)b)->g;
    return LLVMConstReal(type_of(g, t), v);
}
static MathVal iconst(MathBuilder *b, MathType t, uint64_t v) {
    Gen *g = ((LlvmMath *)b)->g;
    return LLVMConstInt(type_of(g, t), v, 0);
}

static LLVMValueRef intrinsic(Gen *g, const char *name, MathType type, int n, LLVMValueRef *a) {
    LLVMTypeRef t = type_of(g, type);
    return gen_call(g, name, n, a, 1, &t);
}

// ex2.approx.ftz.f32 is llvm.nvvm.ex2.approx.ftz.f, or the same without the letter where LLVM has one name for all types.
static LLVMValueRef by_name(Gen *g, const char *ptx, MathType type, int n, LLVMValueRef *a) {
    char name[96];
    int k = (int)strlen(ptx);
    if (type != MT_F32 && type != MT_F64) return NULL;
    if (k > 4 && (!strcmp(ptx + k - 4, ".f32") || !strcmp(ptx + k - 4, ".f64"))) k -= 4;
    LLVMTypeRef t = type_of(g, type);
    int m = snprintf(name, sizeof name, "llvm.nvvm.%.*s", k, ptx);
    snprintf(name + m, sizeof name - (size_t)m, type == MT_F64 ? ".d" : ".f");
    LLVMValueRef x = gen_try(g, name, n, a, 1, &t);
    if (x != NULL) return x;
    name[m] = '\0';
    return type == MT_F32 ? gen_try(g, name, n, a, 1, &t) : NULL;
}

// name.type d, a, b, c;  the suffix is added where the row's instruction has none.
static LLVMValueRef instruction(Gen *g, MathOp op, MathType type, int n, LLVMValueRef *a) {
    char text[96], cons[16] = "=";
    const char *ptx = math_ops[op].ptx;
    if (op == MOP_ex2_ftz && type == MT_F32) {                 // the text says `ftz` in the end: see ptx/emit.c
        LLVMValueRef x = intrinsic(g, "llvm.exp2", type, n, a);
        LLVMSetFastMathFlags(x, LLVMFastMathApproxFunc);
        return x;
    }
    LLVMValueRef known = n > 1 ? by_name(g, ptx, type, n, a) : NULL;
    if (known != NULL) return known;
    char c = type == MT_F64 ? 'd' : type == MT_F32 ? 'f' : type == MT_I64 ? 'l' : 'r';
    const char *suffix = strstr(ptx, "f32") || strstr(ptx, "f64") ? "" : type == MT_F64 ? ".f64" : ".f32";
    int k = snprintf(text, sizeof text, "%s%s $0", ptx, suffix), m = 1;
    cons[m++] = c;
    for (int i = 0; i < n; i++) {
        k += snprintf(text + k, sizeof text - (size_t)k, ", $%d", i + 1);
        cons[m++] = ',';
        cons[m++] = c;
    }
    cons[m] = 0;
    snprintf(text + k, sizeof text - (size_t)k, ";");
    return gen_asm(g, type_of(g, type), text, cons, n, a, false, false);
}

static MathVal math_op(MathBuilder *mb, MathOp op, MathType type, MathVal x, MathVal y, MathVal z) {
    Gen *g = ((LlvmMath *)mb)->g;
    LLVMBuilderRef B = g->B;
    LLVMValueRef a[3] = {x, y, z};
    switch (op) {
    case MOP_fadd: return LLVMBuildFAdd(B, x, y, "");
    case MOP_fsub: return LLVMBuildFSub(B, x, y, "");
    case MOP_fmul: return LLVMBuildFMul(B, x, y, "");
    case MOP_fma:  return intrinsic(g, "llvm.fma", type, 3, a);
    case MOP_fneg: return LLVMBuildFNeg(B, x, "");
    case MOP_fabs: return intrinsic(g, "llvm.fabs", type, 1, a);
    case MOP_copysign: return intrinsic(g, "llvm.copysign", type, 2, a);
    case MOP_flt:  return LLVMBuildFCmp(B, LLVMRealOLT, x, y, "");
    case MOP_fge:  return LLVMBuildFCmp(B, LLVMRealOGE, x, y, "");
    case MOP_feq:  return LLVMBuildFCmp(B, LLVMRealOEQ, x, y, "");
    case MOP_iadd: return LLVMBuildAdd(B, x, y, "");
    case MOP_isub: return LLVMBuildSub(B, x, y, "");
    case MOP_imul: return LLVMBuildMul(B, x, y, "");
    case MOP_iand: return LLVMBuildAnd(B, x, y, "");
    case MOP_ior:  return LLVMBuildOr(B, x, y, "");
    case MOP_ixor: return LLVMBuildXor(B, x, y, "");
    case MOP_shl:  return LLVMBuildShl(B, x, y, "");
    case MOP_lshr: return LLVMBuildLShr(B, x, y, "");
    case MOP_ashr: return LLVMBuildAShr(B, x, y, "");
    case MOP_fshl: return intrinsic(g, "llvm.fshl", type, 3, a);
    case MOP_clz:  a[1] = LLVMConstInt(g->i1, 0, 0); return intrinsic(g, "llvm.ctlz", type, 2, a);
    case MOP_ieq:  return LLVMBuildICmp(B, LLVMIntEQ, x, y, "");
    case MOP_ult:  return LLVMBuildICmp(B, LLVMIntULT, x, y, "");
    case MOP_select: return LLVMBuildSelect(B, x, y, z, "");
    case MOP_bits: return LLVMBuildBitCast(B, x, type == MT_F64 ? g->i64 : g->i32, "");
    case MOP_unbits: return LLVMBuildBitCast(B, x, type == MT_I64 ? g->f64 : g->f32, "");
    case MOP_i2f:  return LLVMBuildSIToFP(B, x, type == MT_I64 ? g->f64 : g->f32, "");
    case MOP_zext: return LLVMBuildZExt(B, x, g->i64, "");
    case MOP_trunc: return LLVMBuildTrunc(B, x, g->i32, "");
    case MOP_narrow: return LLVMBuildFPTrunc(B, x, g->f32, "");
    case MOP_umulhi: {
        LLVMTypeRef t = type_of(g, type), wide = LLVMIntTypeInContext(g->C, type == MT_I64 ? 128 : 64);
        LLVMValueRef p = LLVMBuildMul(B, LLVMBuildZExt(B, x, wide, ""), LLVMBuildZExt(B, y, wide, ""), "");
        return LLVMBuildTrunc(B, LLVMBuildLShr(B, p, LLVMConstInt(wide, type == MT_I64 ? 64 : 32, 0), ""), t, "");
    }
    default: return instruction(g, op, type, math_ops[op].args, a);
    }
}

static void rarely(MathBuilder *mb, MathVal cond, MathBody *body, MathVal *vals, const MathType *types, int n,
                   const void *env) {
    Gen *g = ((LlvmMath *)mb)->g;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(g->B), rare = gen_block(g, "rare"), join = gen_block(g, "join");
    LLVMValueRef before[16];
    if (n > 16) ice("rare path with %d values", n);
    for (int i = 0; i < n; i++) before[i] = vals[i];
    LLVMBuildCondBr(g->B, cond, rare, join);
    LLVMPositionBuilderAtEnd(g->B, rare);
    body(mb, vals, env);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(g->B);
    LLVMBuildBr(g->B, join);
    LLVMPositionBuilderAtEnd(g->B, join);
    for (int i = 0; i < n; i++) {
        LLVMValueRef phi = LLVMBuildPhi(g->B, type_of(g, types[i]), ""), in[2] = {before[i], vals[i]};
        LLVMBasicBlockRef blocks[2] = {from, end};
        LLVMAddIncoming(phi, in, blocks, 2);
        vals[i] = phi;
    }
}

static void repeat(MathBuilder *mb, MathBody *body, MathVal *vals, const MathType *types, int n, const void *env) {
    Gen *g = ((LlvmMath *)mb)->g;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(g->B), loop = gen_block(g, "repeat"), after = gen_block(g, "done");
    LLVMValueRef phi[16];
    if (n > 16) ice("a loop with %d values", n);
    LLVMBuildBr(g->B, loop);
    LLVMPositionBuilderAtEnd(g->B, loop);
    for (int i = 0; i < n; i++) {
        phi[i] = LLVMBuildPhi(g->B, type_of(g, types[i]), "");
        LLVMAddIncoming(phi[i], (LLVMValueRef[]){vals[i]}, &from, 1);
        vals[i] = phi[i];
    }
    body(mb, vals, env);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(g->B);
    for (int i = 0; i < n; i++) LLVMAddIncoming(phi[i], (LLVMValueRef[]){vals[i]}, &end, 1);
    LLVMValueRef more = LLVMBuildICmp(g->B, LLVMIntNE, vals[0], LLVMConstNull(type_of(g, types[0])), "");
    LLVMBuildCondBr(g->B, more, loop, after);
    LLVMPositionBuilderAtEnd(g->B, after);
}

static LLVMValueRef build(Gen *g, MathFn fn, Elem e, MathMode mode, LLVMValueRef x, LLVMValueRef y) {
    LlvmMath m = {{fconst, iconst, math_op, rarely, repeat}, g};
    return math_build(&m.b, fn, e == EL_f64 ? MT_F64 : MT_F32, mode, x, y);
}

LLVMValueRef gen_math(Gen *g, TFun fun, Elem e, LLVMValueRef a, LLVMValueRef b) {
    static const uint8_t fn[TF_COUNT] = {[TF_exp] = MATH_exp,   [TF_exp2] = MATH_exp2,   [TF_log] = MATH_log,
                                         [TF_log2] = MATH_log2, [TF_sqrt] = MATH_sqrt,   [TF_rsqrt] = MATH_rsqrt,
                                         [TF_sin] = MATH_sin,   [TF_cos] = MATH_cos,     [TF_tanh] = MATH_tanh,
                                         [TF_erf] = MATH_erf,   [TF_sqrt_rn] = MATH_sqrt, [TF_pow] = MATH_pow,   [TF_fmod] = MATH_fmod};
    MathMode mode = fun == TF_sqrt_rn ? MATH_PRECISE : g->opt->math == 2 ? MATH_FAST : MATH_DEFAULT;
    return build(g, (MathFn)fn[fun], e, mode, a, b);
}

// Of a number that is not subnormal: one instruction, within 1 ulp or 2^-126.
LLVMValueRef gen_reciprocal(Gen *g, LLVMValueRef x) { return build(g, MATH_recip, EL_f32, MATH_FAST, x, NULL); }

LLVMValueRef gen_divide(Gen *g, Elem e, LLVMValueRef a, LLVMValueRef b, bool precise) {
    return build(g, MATH_div, e, precise ? MATH_PRECISE : g->opt->math == 2 ? MATH_FAST : MATH_DEFAULT, a, b);
}
