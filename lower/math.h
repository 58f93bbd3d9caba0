// The mathematical functions of the language, each written once as a sequence of elementary steps.
//
// A MathBuilder gives the steps their meaning. lower/llvm/math.c makes LLVM IR of them; the host
// instance (lower/math_host.c) carries them out, so that the error of every function can be measured
// over all of its inputs without a GPU; bench/math_ptx.c prints PTX.
// All steps but the approximate ones are rounded once, to nearest even, and keep subnormals, so that
// host and GPU agree in every bit; results of the approximate ones differ by their stated error.
//
//     math_build(b, MATH_exp, MT_F32, MATH_DEFAULT, x, NULL)      the value e^x, as b's instructions
#ifndef TK_LOWER_MATH_H
#define TK_LOWER_MATH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum MathType { MT_I1, MT_I32, MT_I64, MT_F32, MT_F64 } MathType;

typedef enum MathMode {
    MATH_DEFAULT,          // as near as the table says
    MATH_FAST,             // `--math=fast`: the approximate instructions, subnormals flushed
    MATH_PRECISE,          // correctly rounded: div, sqrt and recip alone differ from the default
    MATH_MODES
} MathMode;

// The functions. `ulp` is the largest distance from the correctly rounded f32 result, counted in
// floats, over all 2^32 inputs on a Hopper (docs/math.md); results below 2^-126 may be 2^-126 off
// instead. `ulp64` is that of f64, over random inputs. `issue` counts the instructions of the f32 form
// on sm_90, its constants in registers, and `mufu` those of them that go to the special-function unit
// (a quarter of the rate or less). `fast` is that pair for the approximate form.
//
// clang-format off
//  name     args ulp ulp64 issue mufu  fast  meaning                how
#define MATH_FNS(X)                                                                                 \
  X(exp,     1,   2,  1,    8,    1,    2, 1, "e^x",                 "2^n by exponent bits, EX2 of the fraction")    \
  X(exp2,    1,   2,  1,    1,    1,    1, 1, "2^x",                 "EX2; below 2^-126: 0")         \
  X(log,     1,   1,  1,    23,   1,    2, 1, "natural logarithm",   "degree 10 about 1; LG2 for 0, infinity, NaN")  \
  X(log2,    1,   2,  2,    23,   1,    1, 1, "logarithm to base 2", "as log")                       \
  X(sqrt,    1,   1,  0,    4,    1,    1, 1, "square root",         "SQRT; sqrt.rn.f64")            \
  X(rsqrt,   1,   2,  1,    4,    1,    1, 1, "1 / sqrt(x)",         "RSQ; sqrt and reciprocal in f64") \
  X(recip,   1,   1,  0,    7,    1,    1, 1, "1 / x",               "RCP; rcp.rn.f64")              \
  X(div,     2,   2,  0,    8,    1,    2, 1, "x / y",               "div.full.f32; div.rn.f64")     \
  X(sin,     1,   2,  2,    22,   0,    2, 1, "sine",                "pi/2 in three parts; a branch from 2^18 on")   \
  X(cos,     1,   2,  2,    21,   0,    2, 1, "cosine",              "as sin")                       \
  X(tanh,    1,   2,  1,    13,   2,    1, 1, "hyperbolic tangent",  "degree 9; 1 - 2 / (e^2x + 1) from 0.59")       \
  X(erf,     1,   2,  1,    18,   1,    6, 1, "error function",      "degree 11; 1 - 2^p(x) from 0.85") \
  X(pow,     2,   1,  1,    60,   1,    20, 2, "x^y",                "log2 in two floats, e^r by degree 7; special cases selected") \
  X(fmod,    2,   0,  0,    18,   1,    18, 1, "x - y trunc(x / y)",  "one FMA; a loop of FMAs for quotients from 2^20 on") \
  X(sigmoid, 1,   4,  2,    9,    2,    4, 2, "1 / (1 + e^-x)",      "exp's parts, one FMA, RCP")
// clang-format on

typedef enum MathFn {
#define X(name, ...) MATH_##name,
    MATH_FNS(X)
#undef X
    MATH_FN_COUNT
} MathFn;

typedef struct MathFnInfo {
    const char *name;
    int         args;
    int         ulp32, ulp64;
    int         issue, mufu;             // default form, f32
    int         fast_issue, fast_mufu;
    const char *meaning, *how;
} MathFnInfo;

extern const MathFnInfo math_fns[MATH_FN_COUNT];

// The steps. The type handed to a builder with a step is that of its operands (of the last two for
// select); the result is the SAME, a BIT (MT_I1), the integer or float of that width, or as named.
// Shift amounts are below the width. Comparisons with a NaN are false.
//
//  name       args result  operands   PTX                           meaning
#define MATH_OPS(X)                                                                                 \
  X(fadd,      2,   SAME,   FLOAT,     "add.rn",                     "a + b")                        \
  X(fsub,      2,   SAME,   FLOAT,     "sub.rn",                     "a - b")                        \
  X(fmul,      2,   SAME,   FLOAT,     "mul.rn",                     "a * b")                        \
  X(fma,       3,   SAME,   FLOAT,     "fma.rn",                     "a * b + c, rounded once")      \
  X(fma_sat,   3,   SAME,   ONLY_F32,  "fma.rn.sat",                 "fma, clamped to 0 .. 1; NaN gives 0") \
  X(fneg,      1,   SAME,   FLOAT,     "neg",                        "-a")                           \
  X(fabs,      1,   SAME,   FLOAT,     "abs",                        "|a|")                          \
  X(fmin,      2,   SAME,   FLOAT,     "min",                        "the lesser; the other one if one is NaN") \
  X(copysign,  2,   SAME,   FLOAT,     "copysign",                   "|a| with the sign of b")       \
  X(flt,       2,   BIT,    FLOAT,     "setp.lt",                    "a < b")                        \
  X(fge,       2,   BIT,    FLOAT,     "setp.ge",                    "a >= b")                       \
  X(feq,       2,   BIT,    FLOAT,     "setp.eq",                    "a == b")                       \
  X(iadd,      2,   SAME,   INT,       "add",                        "a + b, wrapping")              \
  X(isub,      2,   SAME,   INT,       "sub",                        "a - b, wrapping")              \
  X(imul,      2,   SAME,   INT,       "mul.lo",                     "low half of a * b")            \
  X(umulhi,    2,   SAME,   INT,       "mul.hi",                     "high half of the unsigned product") \
  X(iand,      2,   SAME,   INT,       "and.b",                      "a & b")                        \
  X(ior,       2,   SAME,   INT,       "or.b",                       "a | b")                        \
  X(ixor,      2,   SAME,   INT,       "xor.b",                      "a ^ b")                        \
  X(shl,       2,   SAME,   INT,       "shl.b",                      "a << b; b has the type of a")  \
  X(lshr,      2,   SAME,   INT,       "shr.u",                      "a >> b, zeros come in")        \
  X(ashr,      2,   SAME,   INT,       "shr.s",                      "a >> b, copies of the sign come in") \
  X(fshl,      3,   SAME,   INT,       "shf.l.wrap",                 "high half of (a : b) << c")    \
  X(clz,       1,   SAME,   INT,       "clz",                        "leading zeros; a is not 0")    \
  X(ieq,       2,   BIT,    INT,       "setp.eq",                    "a == b")                       \
  X(ult,       2,   BIT,    INT,       "setp.lt.u",                  "a < b, unsigned")              \
  X(select,    3,   SAME,   ANY,       "selp",                       "a ? b : c")                    \
  X(bits,      1,   INT_OF, FLOAT,     "mov.b",                      "the bits, as an integer")      \
  X(unbits,    1,   FLT_OF, INT,       "mov.b",                      "the float of these bits")      \
  X(i2f,       1,   FLT_OF, INT,       "cvt.rn",                     "signed integer to float of its width") \
  X(zext,      1,   I64,    ONLY_I32,  "cvt.u64.u32",                "zero extension")               \
  X(trunc,     1,   I32,    ONLY_I64,  "cvt.u32.u64",                "low half")                     \
  X(narrow,    1,   F32,    ONLY_F64,  "cvt.rn.f32.f64",             "f64 to f32")                   \
  X(ex2,       1,   SAME,   ONLY_F32,  "ex2.approx.f32",             "2^a")                          \
  X(ex2_ftz,   1,   SAME,   ONLY_F32,  "ex2.approx.ftz.f32",         "2^a")                          \
  X(lg2_ftz,   1,   SAME,   ONLY_F32,  "lg2.approx.ftz.f32",         "logarithm to base 2")          \
  X(rcp,       1,   SAME,   ONLY_F32,  "rcp.approx.f32",             "1 / a")                        \
  X(rcp_ftz,   1,   SAME,   ONLY_F32,  "rcp.approx.ftz.f32",         "1 / a")                        \
  X(rsq,       1,   SAME,   ONLY_F32,  "rsqrt.approx.f32",           "1 / sqrt(a)")                  \
  X(rsq_ftz,   1,   SAME,   ONLY_F32,  "rsqrt.approx.ftz.f32",       "1 / sqrt(a)")                  \
  X(sqrt,      1,   SAME,   ONLY_F32,  "sqrt.approx.f32",            "sqrt(a)")                      \
  X(sqrt_ftz,  1,   SAME,   ONLY_F32,  "sqrt.approx.ftz.f32",        "sqrt(a)")                      \
  X(sin_ftz,   1,   SAME,   ONLY_F32,  "sin.approx.ftz.f32",         "sine")                         \
  X(cos_ftz,   1,   SAME,   ONLY_F32,  "cos.approx.ftz.f32",         "cosine")                       \
  X(tanh,      1,   SAME,   ONLY_F32,  "tanh.approx.f32",            "hyperbolic tangent")           \
  X(div_full,  2,   SAME,   ONLY_F32,  "div.full.f32",               "a / b")                        \
  X(div_ftz,   2,   SAME,   ONLY_F32,  "div.approx.ftz.f32",         "a / b; 0 for b above 2^126")   \
  X(div_rn,    2,   SAME,   FLOAT,     "div.rn",                     "a / b, correctly rounded")     \
  X(rcp_rn,    1,   SAME,   FLOAT,     "rcp.rn",                     "1 / a, correctly rounded")     \
  X(sqrt_rn,   1,   SAME,   FLOAT,     "sqrt.rn",                    "sqrt(a), correctly rounded")

typedef enum MathOp {
#define X(name, ...) MOP_##name,
    MATH_OPS(X)
#undef X
    MOP_COUNT
} MathOp;

typedef enum MathResult {                // of a step, from the type handed over
    MR_SAME, MR_BIT, MR_INT_OF, MR_FLT_OF, MR_I64, MR_I32, MR_F32
} MathResult;

typedef struct MathOpInfo {
    const char *name;
    int         args;
    MathResult  result;
    const char *ptx;                     // the instruction; rows without a type suffix take one
    const char *meaning;
} MathOpInfo;

extern const MathOpInfo math_ops[MOP_COUNT];

typedef void *MathVal;                   // whatever the builder made: an LLVMValueRef, say
typedef struct MathBuilder MathBuilder;

// The rare path of a function: changes vals[0 .. n-1] by way of the builder it is handed.
typedef void MathBody(MathBuilder *b, MathVal *vals, const void *env);

struct MathBuilder {
    // A constant. The value of a float constant is exact in its type.
    MathVal (*fconst)(MathBuilder *b, MathType type, double value);
    MathVal (*iconst)(MathBuilder *b, MathType type, uint64_t value);

    // One step on operands x, y, z (a, b, c above); those past the step's number are NULL.
    MathVal (*op)(MathBuilder *b, MathOp op, MathType type, MathVal x, MathVal y, MathVal z);

    // if (cond) body(b, vals, env). Afterwards each vals[i] is what body left there where cond holds
    // and what it was elsewhere (a phi). Expected to be false nearly always; body is called once.
    // types[i] is that of vals[i].
    void (*rarely)(MathBuilder *b, MathVal cond, MathBody *body, MathVal *vals,
                   const MathType *types, int n, const void *env);

    // do body(b, vals, env) while (vals[0] != 0): an integer. Inside a body of `rarely` only; body is called once.
    void (*repeat)(MathBuilder *b, MathBody *body, MathVal *vals, const MathType *types, int n, const void *env);
};

// fn(x) or fn(x, y), in f32 or f64. y is NULL for functions of one argument.
MathVal math_build(MathBuilder *b, MathFn fn, MathType type, MathMode mode, MathVal x, MathVal y);

// The type of a step's result, from the type handed over with it.
MathType math_result(MathOp op, MathType type);

// ---- The host instance (math_host.c): out[i] = fn(x[i], y[i]); y may be NULL where fn has one
// argument, and out may be x or y. Approximate steps give the correctly rounded result. NaNs come
// out canonical: 0x7fffffff, 0x7fffffffffffffff.
void math_host_f32(MathFn fn, MathMode mode, const float *x, const float *y, float *out, size_t n);
void math_host_f64(MathFn fn, MathMode mode, const double *x, const double *y, double *out, size_t n);

// Moves the results of approximate steps by the error that PTX documents for them: -1 down, 0 not at
// all, 1 up. EX2 has a direction of its own, so that two steps in a row can err alike or against
// each other.
typedef struct MathNudge { int ex2, other; } MathNudge;

void math_host_nudged_f32(MathFn fn, MathMode mode, const float *x, const float *y, float *out,
                          size_t n, MathNudge nudge);

// One approximate step of the host instance (y only for the divisions).

#endif
