// Floating-point arithmetic and conversions against the C compiler's own, NaN made canonical (where an H200
// does so: every row but the approximate functions and those of FROM_THE_MANUAL was compared with one bit for bit).
#include <fenv.h>

#include "kit.h"

typedef int32_t s32;
typedef int64_t s64;

static u64 canon(float x)    { return x != x ? 0x7fffffffu : f32_bits(x); }
static u64 canond(double x)  { return x != x ? ~0ull : f64_bits(x); }
static float ftz(float x)    { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }
static float sat(float x)    { return x > 1 ? 1 : x > 0 ? x : 0; }
static u64 half(double x)    { _Float16 h = (_Float16)x; uint16_t b; memcpy(&b, &h, 2); return x != x ? 0x7fff : b; }
static double unhalf(u64 b)  { uint16_t x = (uint16_t)b; _Float16 h; memcpy(&h, &x, 2); return (double)h; }
static double unbf(u64 b)    { return (double)f32_from((u32)(b & 0xffff) << 16); }
static u64 bf(double x) {                                // from a double that a float holds exactly, or nearly
    u32 b = f32_bits((float)x);
    return x != x ? 0x7fff : (b + 0x7fff + (b >> 16 & 1)) >> 16;
}
static double lmin(double a, double b) { return a != a ? b : b != b ? a : a == b ? signbit(a) ? a : b : a < b ? a : b; }
static double lmax(double a, double b) { return a != a ? b : b != b ? a : a == b ? signbit(a) ? b : a : a > b ? a : b; }
static float rounded(int mode, int op, float pa, float pb) {
    volatile float a = pa, b = pb, r;
    fesetround(mode);
    r = op == 0 ? a + b : op == 1 ? a * b : op == 2 ? a / b : sqrtf(a);
    fesetround(FE_TONEAREST);
    return r;
}
static double rounded64(int mode, double pa, double pb) {
    volatile double a = pa, b = pb, r;
    fesetround(mode);
    r = a + b;
    fesetround(FE_TONEAREST);
    return r;
}
static u64 pair(float low, float high) { return canon(low) | canon(high) << 32; }
static s32 toint(double x)   { return x != x ? 0 : x >= 2147483647.0 ? INT32_MAX : x <= -2147483648.0 ? INT32_MIN : (s32)x; }
static u32 touint(double x)  { return x != x || x <= 0 ? 0 : x >= 4294967295.0 ? UINT32_MAX : (u32)x; }

#define W32 "cvt.u64.u32 %D, %d;"
#define W16 "cvt.u64.u16 %D, %hd;"
#define WP  "selp.u64 %D, 1, 0, %p;"
#define FA f32_from((u32)a)
#define FB f32_from((u32)b)
#define FC f32_from((u32)c)
#define DA f64_from(a)
#define DB f64_from(b)
#define DC f64_from(c)
#define HA unhalf(a)
#define HB unhalf(b)
#define HC unhalf(c)
#define NANOUT 0x7fffffffu

#define CANON64 "setp.nan.f64 %p, %D, %D; @%p mov.u64 %D, -1;"

// clang-format off
#define FROM_THE_MANUAL(X) \
  X(sub_ftz,   "sub.ftz.f32 %d, %a, %b;" W32,            canon(ftz(ftz(FA) - ftz(FB)))) \
  X(mul_ftz,   "mul.ftz.f32 %d, %a, %b;" W32,            canon(ftz(ftz(FA) * ftz(FB)))) \
  X(fma_ftz,   "fma.rn.ftz.f32 %d, %a, %b, %c;" W32,     canon(ftz(fmaf(ftz(FA), ftz(FB), ftz(FC))))) \
  X(div_ftz,   "div.rn.ftz.f32 %d, %a, %b;" W32,         canon(ftz(ftz(FA) / ftz(FB)))) \
  X(sin,       "sin.approx.f32 %d, %a;" W32,             canon((float)sin((double)FA))) \
  X(cos,       "cos.approx.f32 %d, %a;" W32,             canon((float)cos((double)FA))) \
  X(min_three, "min.f32 %d, %a, %b, %c;" W32,            canon((float)lmin(lmin((double)FA, (double)FB), (double)FC))) \
  X(sqrt_f64,  "sqrt.rn.f64 %D, %A; " CANON64,                canond(sqrt(DA))) \
  X(rcp_f64,   "rcp.rn.f64 %D, %A; " CANON64,                 canond(1 / DA)) \
  X(add_rp_f64,"add.rp.f64 %D, %A, %B; " CANON64,             canond(rounded64(FE_UPWARD, DA, DB))) \
  X(copysign_f64, "copysign.f64 %D, %A, %B;",            (a & 1ull << 63) | (b & ~(1ull << 63))) \
  X(add_f32x2, "add.rn.f32x2 %D, %A, %B;",          pair(FA + FB, f32_from((u32)(a >> 32)) + f32_from((u32)(b >> 32)))) \
  X(fma_f32x2, "fma.rn.f32x2 %D, %A, %B, %C;",      pair(fmaf(FA, FB, FC), fmaf(f32_from((u32)(a >> 32)), f32_from((u32)(b >> 32)), f32_from((u32)(c >> 32)))))

#define OPS(X) \
  X(add,       "add.f32 %d, %a, %b;" W32,                canon(FA + FB)) \
  X(add_rz,    "add.rz.f32 %d, %a, %b;" W32,             canon(rounded(FE_TOWARDZERO, 0, FA, FB))) \
  X(add_rm,    "add.rm.f32 %d, %a, %b;" W32,             canon(rounded(FE_DOWNWARD, 0, FA, FB))) \
  X(add_ftz,   "add.ftz.f32 %d, %a, %b;" W32,            canon(ftz(ftz(FA) + ftz(FB)))) \
  X(add_mix,   "add.rn.f32.f16 %d, %ha, %b;" W32,        canon((float)HA + FB)) \
  X(sub_mix,   "sub.rn.f32.bf16 %d, %ha, %b;" W32,       canon(f32_from((u32)a << 16) - FB)) \
  X(fma_mix,   "fma.rn.f32.f16 %d, %ha, %hb, %c;" W32,   canon(fmaf((float)HA, (float)HB, FC))) \
  X(add_sat,   "add.sat.f32 %d, %a, %b;" W32,            canon(sat(FA + FB))) \
  X(sub,       "sub.rn.f32 %d, %a, %b;" W32,             canon(FA - FB)) \
  X(mul,       "mul.f32 %d, %a, %b;" W32,                canon(FA * FB)) \
  X(mul_rp,    "mul.rp.f32 %d, %a, %b;" W32,             canon(rounded(FE_UPWARD, 1, FA, FB))) \
  X(fma,       "fma.rn.f32 %d, %a, %b, %c;" W32,         canon(fmaf(FA, FB, FC))) \
  X(div_rn,    "div.rn.f32 %d, %a, %b;" W32,             canon(FA / FB)) \
  X(div_rz,    "div.rz.f32 %d, %a, %b;" W32,             canon(rounded(FE_TOWARDZERO, 2, FA, FB))) \
  X(rcp,       "rcp.rn.f32 %d, %a;" W32,                 canon(1 / FA)) \
  X(sqrt,      "sqrt.rn.f32 %d, %a;" W32,                canon(sqrtf(FA))) \
  X(sqrt_rp,   "sqrt.rp.f32 %d, %a;" W32,                canon(rounded(FE_UPWARD, 3, FA, 0))) \
  X(ex2,       "ex2.approx.f32 %d, %a;" W32,             canon((float)exp2((double)FA))) \
  X(ex2_ftz,   "ex2.approx.ftz.f32 %d, %a;" W32,         canon(ftz((float)exp2((double)ftz(FA))))) \
  X(lg2,       "lg2.approx.f32 %d, %a;" W32,             canon((float)log2((double)FA))) \
  X(tanh,      "tanh.approx.f32 %d, %a;" W32,            canon((float)tanh((double)FA))) \
  X(rsqrt,     "rsqrt.approx.f32 %d, %a;" W32,           canon((float)(1 / sqrt((double)FA)))) \
  X(abs,       "abs.f32 %d, %a;" W32,                    canon(fabsf(FA))) \
  X(neg,       "neg.f32 %d, %a;" W32,                    canon(-FA)) \
  X(min,       "min.f32 %d, %a, %b;" W32,                canon((float)lmin((double)FA, (double)FB))) \
  X(max,       "max.f32 %d, %a, %b;" W32,                canon((float)lmax((double)FA, (double)FB))) \
  X(max_nan,   "max.NaN.f32 %d, %a, %b;" W32,            FA != FA || FB != FB ? NANOUT : canon((float)lmax((double)FA, (double)FB))) \
  X(min_xor,   "min.xorsign.abs.f32 %d, %a, %b;" W32,    FA != FA && FB != FB ? NANOUT : f32_bits((float)lmin(fabs((double)FA), fabs((double)FB))) | ((u32)(a ^ b) & 0x80000000u)) \
  X(copysign,  "copysign.f32 %d, %a, %b;" W32,           ((u32)a & 0x80000000u) | ((u32)b & 0x7fffffffu)) \
  X(testp,     "testp.subnormal.f32 %p, %a;" WP,         fpclassify(FA) == FP_SUBNORMAL) \
  X(testp_n,   "testp.number.f32 %p, %a;" WP,            FA == FA) \
  X(setp,      "setp.lt.f32 %p, %a, %b;" WP,             FA < FB) \
  X(setp_u,    "setp.geu.f32 %p, %a, %b;" WP,            !(FA < FB)) \
  X(setp_nan,  "setp.nan.f32 %p, %a, %b;" WP,            FA != FA || FB != FB) \
  X(setp_ftz,  "setp.eq.ftz.f32 %p, %a, 0f00000000;" WP, ftz(FA) == 0) \
  X(add_f64,   "add.f64 %D, %A, %B; setp.nan.f64 %p, %D, %D; @%p mov.u64 %D, -1;", canond(DA + DB)) \
  X(fma_f64,   "fma.rn.f64 %D, %A, %B, %C; setp.nan.f64 %p, %D, %D; @%p mov.u64 %D, -1;", canond(fma(DA, DB, DC))) \
  X(div_f64,   "div.rn.f64 %D, %A, %B; setp.nan.f64 %p, %D, %D; @%p mov.u64 %D, -1;", canond(DA / DB)) \
  X(max_f64,   "max.f64 %D, %A, %B; setp.nan.f64 %p, %D, %D; @%p mov.u64 %D, -1;", canond(lmax(DA, DB))) \
  X(add_f16,   "add.f16 %hd, %ha, %hb;" W16,             half(HA + HB)) \
  X(mul_f16,   "mul.rn.f16 %hd, %ha, %hb;" W16,          half(HA * HB)) \
  X(fma_f16,   "fma.rn.f16 %hd, %ha, %hb, %hc;" W16,     half((double)(_Float16)((__float128)HA * HB + HC))) \
  X(fma_relu,  "fma.rn.relu.f16 %hd, %ha, %hb, %ha;" W16, HA * HB + HA != HA * HB + HA ? 0x7fff : !(HA * HB + HA > 0) ? 0 : half((double)(_Float16)((__float128)HA * HB + HA))) \
  X(add_f16x2, "add.f16x2 %d, %a, %b;" W32,              half(HA + HB) | half(unhalf(a >> 16) + unhalf(b >> 16)) << 16) \
  X(min_f16,   "min.f16 %hd, %ha, %hb;" W16,             half(lmin(HA, HB))) \
  X(neg_f16x2, "neg.f16x2 %d, %a;" W32,                  half(-HA) | half(-unhalf(a >> 16)) << 16) \
  X(mul_bf16,  "mul.bf16 %hd, %ha, %hb;" W16,            bf(unbf(a) * unbf(b))) \
  X(max_bf16x2,"max.NaN.bf16x2 %d, %a, %b;" W32,         (unbf(a) != unbf(a) || unbf(b) != unbf(b) ? 0x7fff : bf(lmax(unbf(a), unbf(b)))) | (unbf(a >> 16) != unbf(a >> 16) || unbf(b >> 16) != unbf(b >> 16) ? 0x7fff : bf(lmax(unbf(a >> 16), unbf(b >> 16)))) << 16) \
  X(setp_f16,  "setp.lt.f16 %p, %ha, %hb;" WP,           HA < HB) \
  X(setp_bf16x2, "setp.gt.bf16x2 %q|%p, %a, %b;" WP,     unbf(a >> 16) > unbf(b >> 16)) \
  X(ex2_f16,   "ex2.approx.f16 %hd, %ha;" W16,           half(exp2(HA))) \
  X(f16_f32,   "cvt.rn.f16.f32 %hd, %a;" W16,            half((double)FA)) \
  X(f16_f32z, \
    "cvt.rz.f16.f32 %hd, %a; cvt.f32.f16 %d, %hd; abs.f32 %d, %d; abs.f32 %r3, %a; setp.le.f32 %p, %d, %r3; " \
    "setp.nan.or.f32 %p, %a, %a, %p;" WP, 1) \
  X(f32_f16,   "cvt.f32.f16 %d, %ha;" W32,               canon((float)HA) | (HA != HA ? 0 : 0)) \
  X(bf16_f32,  "cvt.rn.bf16.f32 %hd, %a;" W16,           FA != FA ? 0x7fff : bf((double)FA)) \
  X(bf16_relu, "cvt.rn.relu.bf16.f32 %hd, %a;" W16,      FA != FA ? 0x7fff : FA > 0 ? bf((double)FA) : 0) \
  X(bf16x2,    "cvt.rn.bf16x2.f32 %d, %a, %b;" W32,      (FA != FA ? 0x7fff : bf((double)FA)) << 16 | (FB != FB ? 0x7fff : bf((double)FB))) \
  X(f16x2,     "cvt.rn.f16x2.f32 %d, %a, %b;" W32,       half((double)FA) << 16 | half((double)FB)) \
  X(tf32,      "cvt.rna.tf32.f32 %d, %a;" W32,           FA != FA ? ((u32)a & ~0x1fffu) | 0x400000 : isinf(FA) ? (u32)a : ((u32)a + 0x1000) & ~0x1fffu) \
  X(e4m3x2,    "cvt.rn.satfinite.e4m3x2.f32 %hd, %a, %b;" W16, (u64)e4m3_from_f32(FA) << 8 | e4m3_from_f32(FB)) \
  X(e5m2x2,    "cvt.rn.satfinite.relu.e5m2x2.f32 %hd, %a, %b;" W16, (u64)e5m2_from_f32(FA <= 0 ? 0 : FA) << 8 | e5m2_from_f32(FB <= 0 ? 0 : FB)) \
  X(f16x2_e4,  "cvt.rn.f16x2.e4m3x2 %d, %ha;" W32,       half((double)e4m3_to_f32((uint8_t)(a >> 8))) << 16 | half((double)e4m3_to_f32((uint8_t)a))) \
  X(e4m3_f16x2,"cvt.rn.satfinite.e4m3x2.f16x2 %hd, %a;" W16, (u64)e4m3_from_f32((float)unhalf(a >> 16)) << 8 | e4m3_from_f32((float)HA)) \
  X(s32_f32,   "cvt.rzi.s32.f32 %d, %a;" W32,            (u32)toint((double)FA)) \
  X(s32_rni,   "cvt.rni.s32.f32 %d, %a;" W32,            (u32)toint(nearbyint((double)FA))) \
  X(s32_rmi,   "cvt.rmi.s32.f64 %d, %A; setp.nan.f64 %p, %A, %A; @%p mov.u32 %d, 0;" W32, (u32)toint(floor(DA))) \
  X(u32_f32,   "cvt.rzi.u32.f32 %d, %a;" W32,            touint((double)FA)) \
  X(u8_f32,    "cvt.rzi.u8.f32 %d, %a;" W32,             FA != FA || FA <= 0 ? 0 : FA >= 255 ? 255 : (u32)FA) \
  X(s64_f32,   "cvt.rzi.s64.f32 %D, %a;",                FA != FA ? 1ull << 63 : FA >= 0x1p63f ? (u64)INT64_MAX : FA < -0x1p63f ? 1ull << 63 : (u64)(s64)FA) \
  X(f32_s32,   "cvt.rn.f32.s32 %d, %a;" W32,             f32_bits((float)(s32)a)) \
  X(f32_u64,   "cvt.rn.f32.u64 %d, %A;" W32,             f32_bits((float)a)) \
  X(f32_s64z, \
    "cvt.rz.f32.s64 %d, %A; cvt.rzi.s64.f32 %D, %d; abs.s64 %D, %D; abs.s64 %A, %A; setp.le.u64 %p, %D, %A;" WP, 1) \
  X(f64_s64,   "cvt.rn.f64.s64 %D, %A;",                 f64_bits((double)(s64)a)) \
  X(f16_u32,   "cvt.rn.f16.u32 %hd, %a;" W16,            half((double)(u32)a)) \
  X(f16_s64,   "cvt.rn.f16.s64 %hd, %A;" W16,            half((s64)a > 100000 ? 1e9 : (s64)a < -100000 ? -1e9 : (double)(s64)a)) \
  X(f32_f64,   "cvt.rn.f32.f64 %d, %A;" W32,             f32_bits((float)DA)) \
  X(f64_f32,   "cvt.f64.f32 %D, %a; setp.nan.f64 %p, %D, %D; @%p mov.u64 %D, -1;", canond((double)FA)) \
  X(rni_f32,   "cvt.rni.f32.f32 %d, %a;" W32,            canon(nearbyintf(FA))) \
  X(rpi_f32,   "cvt.rpi.f32.f32 %d, %a;" W32,            canon(ceilf(FA))) \
  X(sat_f32,   "cvt.sat.f32.f32 %d, %a;" W32,            f32_bits(sat(FA))) \
  FROM_THE_MANUAL(X)

OPS(OP_WANT)

static void check(const char *name, const char *body, u64 (*want)(u64, u64, u64)) {
    static u64 a[LANES], b[LANES], c[LANES];
    inputs(a, 0), inputs(b, 1), inputs(c, 2);
    for (int i = 256; i < LANES; i += 2) {               // values of one size, so that sums and roundings matter
        float x = (float)(s32)a[i] * 0x1p-20f, y = (float)(s32)b[i] * 0x1p-21f;
        if (i % 4) a[i] = (a[i] & ~0xffffffffull) | f32_bits(x), b[i] = (b[i] & ~0xffffffffull) | f32_bits(y);
        else a[i] = f64_bits((double)x), b[i] = f64_bits((double)y);
    }
    for (int i = 300; i < 400; i++) a[i] = i * 9 - 3000 < 0 ? (u64)f32_bits((float)(i - 350) * 0.25f) : f32_bits((float)i), b[i] = 0x3c00 + (u64)i * 37;
    check_lanes(name, body, a, b, c, want);
}

OPS(OP_TEST)

int main(void) {
    const struct CMUnitTest tests[] = {OPS(OP_ROW)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
