// Floats of 4, 6 and 8 bits: conversions against a search through all of a format's values, random rounding against exact
// arithmetic on the discarded bits, products with elements and scales of such formats against sums of their values.
#include "kit.h"

typedef struct Format { const char *name; int bits, exponent, mantissa, bias; double most; int nan; } Format;

static const Format formats[] = {
    {"e2m1", 4, 2, 1, 1, 6, -1}, {"e2m3", 6, 2, 3, 1, 7.5, -1}, {"e3m2", 6, 3, 2, 3, 28, -1}, {"e4m3", 8, 4, 3, 7, 448, 0x7f}, {"e5m2", 8, 5, 2, 15, 57344, 0x7f},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static double value(const Format *f, u32 b) {
    u32 sign = b >> (f->bits - 1) & 1, e = b >> f->mantissa & ((1u << f->exponent) - 1), m = b & ((1u << f->mantissa) - 1);
    double v = ldexp(e ? 1 + ldexp(m, -f->mantissa) : ldexp(m, -f->mantissa), (int)(e ? e : 1) - f->bias);
    return sign ? -v : v;
}

static bool is_number(const Format *f, u32 b) { return fabs(value(f, b)) <= f->most; }

// The nearest by search, ties to the even one, saturated.
static u32 nearest(const Format *f, float x, bool relu) {
    u32 best = 0, n = 1u << (f->bits - 1);
    if (x != x) return f->nan >= 0 ? (u32)f->nan : n - 1;
    if (relu && !(x > 0)) x = 0;
    double a = fmin(fabs((double)x), f->most), least = INFINITY;
    for (u32 b = 0; b < n; b++) {
        if (!is_number(f, b)) continue;
        double off = fabs(value(f, b) - a);
        if (off < least || (off == least && !(b & 1))) least = off, best = b;
    }
    return best | (signbit(x) && !(relu && x == 0) ? n : 0);
}

static float of_lane(u64 a) {                            // all sizes about those of the formats, and anything
    u32 b = (u32)a;
    return f32_from(a >> 40 & 1 ? (b & 0x807fffff) | (100 + (b >> 23 & 0xff) % 48) << 23 : b);
}

static void conversions(void **state) {
    (void)state;
    static u64 a[LANES], b[LANES], d[LANES];
    inputs(a, 0), inputs(b, 2);
    for (int i = 0; i < LANES; i++) a[i] = f32_bits(of_lane(a[i])), b[i] = f32_bits(of_lane(b[i]));
    for (int k = 0; k < 2 * FORMATS; k++) {
        const Format *f = &formats[k / 2];
        char body[400];
        bool relu = k & 1, four = f->bits == 4;
        snprintf(body, sizeof body, four ? "{ .reg .b8 t; cvt.rn.satfinite%s.%sx2.f32 t, %%a, %%b; cvt.u64.u8 %%D, t; }" : "cvt.rn.satfinite%s.%sx2.f32 %%hd, %%a, %%b; cvt.u64.u16 %%D, %%hd;",
                 relu ? ".relu" : "", f->name);
        run_body(body, a, b, a, d);
        for (int i = 0; i < LANES; i++) {
            u64 want = nearest(f, f32_from((u32)a[i]), relu) << (four ? 4 : 8) | nearest(f, f32_from((u32)b[i]), relu);
            if (d[i] != want) fail_msg("%s of %a, %a: 0x%llx, not 0x%llx", body, (double)f32_from((u32)a[i]), (double)f32_from((u32)b[i]), (unsigned long long)d[i], (unsigned long long)want);
        }
        for (int i = 0; i < LANES; i++) b[i] = (u64)i;           // and back
        snprintf(body, sizeof body, four ? "{ .reg .b8 t; cvt.u8.u64 t, %%B; cvt.rn%s.f16x2.%sx2 %%d, t; cvt.u64.u32 %%D, %%d; }" : "cvt.rn%s.f16x2.%sx2 %%d, %%hb; cvt.u64.u32 %%D, %%d;", relu ? ".relu" : "", f->name);
        run_body(body, a, b, a, d);
        for (int i = 0; i < LANES; i++)
            for (int h = 0; h < 2; h++) {
                u32 bits = (u32)i >> (four ? 4 : 8) * h & ((1u << f->bits) - 1);
                double got = (double)f16_to_f32((uint16_t)(d[i] >> 16 * h)), want = value(f, bits);
                if (is_number(f, bits) && got != (relu && want < 0 ? 0 : want)) fail_msg("%s of 0x%x: %g, not %g", body, bits, got, want);
            }
        inputs(b, 2);
        for (int i = 0; i < LANES; i++) b[i] = f32_bits(of_lane(b[i]));
    }
}

static u64 exponents(u64 a, u64 b, bool up, bool finite) {
    u64 r = 0;
    for (int i = 0; i < 2; i++) {
        float x = f32_from((u32)(i ? b : a));
        int e;
        double m = frexp(fabs((double)x), &e);
        long k = x != x || (isinf(x) && !finite) ? 255 : isinf(x) ? 254 : x == 0 ? 0 : e - 1 + 127 + (up && m > 0.5);
        k = k < 0 ? 0 : k > 254 && x == x && finite ? 254 : k > 255 ? 255 : k;
        r = r << 8 | (u64)k;
    }
    return r;
}
static u64 want_rz(u64 a, u64 b, u64 c) { (void)c; return exponents(a, b, false, false); }
static u64 want_rp(u64 a, u64 b, u64 c) { (void)c; return exponents(a, b, true, true); }
static u64 want_scale(u64 a, u64 b, u64 c) {
    (void)a, (void)c;
    u64 r = 0;
    for (int h = 0; h < 2; h++) {
        u32 e = b >> 8 * h & 0xff;
        r |= (u64)(e == 255 ? 0x7fff : bf16_from_f64(ldexp(1, (int)e - 127))) << 16 * h;
    }
    return r;
}

static void scales(void **state) {
    (void)state;
    static u64 a[LANES], b[LANES];
    inputs(a, 0), inputs(b, 2);
    check_lanes("rz", "cvt.rz.ue8m0x2.f32 %hd, %a, %b; cvt.u64.u16 %D, %hd;", a, b, a, want_rz);
    check_lanes("rp", "cvt.rp.satfinite.ue8m0x2.f32 %hd, %a, %b; cvt.u64.u16 %D, %hd;", a, b, a, want_rp);
    check_lanes("scale", "cvt.rn.bf16x2.ue8m0x2 %d, %hb; cvt.u64.u32 %D, %d;", a, b, a, want_scale);
}

// Down or up to a neighbour of the format: up if the first `n` discarded bits and the random ones carry.
static double rounded_by(double x, int mantissa, int least, u32 random, int n) {
    int e;
    frexp(x, &e);
    int unit = (e - 1 > least ? e - 1 : least) - mantissa;
    double scaled = ldexp(fabs(x), -unit), whole = floor(scaled);
    return copysign(ldexp(whole + (scaled - whole + ldexp(random, -n) >= 1), unit), x);
}

static void random_rounding(void **state) {
    (void)state;
    static u64 a[LANES], b[LANES], c[LANES], d[LANES];
    inputs(a, 0), inputs(b, 2), inputs(c, 1);
    for (int i = 0; i < LANES; i++) a[i] = f32_bits(ldexpf((float)(int32_t)a[i], (int)(b[i] % 12) - 40)), b[i] = f32_bits(ldexpf((float)(int32_t)b[i], -31));
    for (int k = 0; k < 4; k++) {
        static const char *const bodies[] = {"cvt.rs.f16x2.f32 %d, %a, %b, %c;", "cvt.rs.bf16x2.f32 %d, %a, %b, %c;", "cvt.rs.satfinite.e4m3x4.f32 %d, {%a, %b, %b, %a}, %c;",
                                             "cvt.rs.relu.satfinite.e2m1x4.f32 %hd, {%a, %b, %b, %a}, %c; cvt.u32.u16 %d, %hd;"};
        static const int mantissa[] = {10, 7, 3, 1}, least[] = {-14, -126, -6, 0}, room[] = {16, 16, 8, 4};
        static const double most[] = {65504, 3.3895313892515355e38, 448, 6};
        char body[200];
        snprintf(body, sizeof body, "%s cvt.u64.u32 %%D, %%d;", bodies[k]);
        run_body(body, a, b, c, d);
        for (int i = 0; i < LANES; i++)
            for (int j = 0, n = k < 2 ? 2 : 4; j < n; j++) {
                u32 by = (u32)c[i], high = by >> 16, low = by & 0xffff, pair = n == 2 ? (u32)j : (u32)j / 2;
                u32 random = k == 3 ? (pair ? (high & 0xff) << 8 | (low & 0xff) : (high & 0xff00) | low >> 8) : pair ? low : high;
                float x = f32_from((u32)(j == 0 || j == 3 ? a[i] : b[i]));
                double want = k == 0 ? rounded_by((double)x, 10, -14, random & 0x1fff, 13) : rounded_by((double)x, mantissa[k], least[k], random, 16);
                want = fabs(want) > most[k] ? copysign(k < 2 ? INFINITY : most[k], want) : want;
                if (k == 3 && want < 0) want = 0;
                u32 bits = (u32)(d[i] >> room[k] * (n - 1 - j)) & (room[k] == 16 ? 0xffff : room[k] == 8 ? 0xff : 0xf);
                double got = k == 0 ? (double)f16_to_f32((uint16_t)bits) : k == 1 ? (double)bf16_to_f32((uint16_t)bits) : value(&formats[k == 2 ? 3 : 0], bits);
                if (got != want) fail_msg("%s, element %d of %a by 0x%x: %g, not %g", body, j, (double)x, random, got, want);
            }
    }
}

// ---- Products

typedef struct Product { const char *text; int a, b, k, room, scales; bool half, nv; } Product;      // a, b: formats

static const Product products[] = {
    {"kind::f8f6f4.f32.e2m1.e4m3.f32", 0, 3, 32, 8, 0, false, false}, {"kind::f8f6f4.f32.e2m3.e3m2.f32", 1, 2, 32, 8, 0, false, false}, {"kind::f8f6f4.f16.e3m2.e2m1.f16", 2, 0, 32, 8, 0, true, false},
    {"kind::mxf8f6f4.block_scale.scale_vec::1X.f32.e5m2.e2m3.f32.ue8m0", 4, 1, 32, 8, 1, false, false}, {"kind::mxf8f6f4.block_scale.f32.e2m1.e2m1.f32.ue8m0", 0, 0, 32, 8, 1, false, false},
    {"kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0", 0, 0, 64, 4, 2, false, false}, {"kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3", 0, 0, 64, 4, 4, false, true},
};

static u32 seed;
static u32 any(void) { return (seed = seed * 1664525 + 1013904223) >> 8; }

// A number of the format that is small enough for all sums to be exact, in its room.
static u32 element(const Format *f, int room, double *v) {
    u32 b;
    do b = any() & ((1u << f->bits) - 1);
    while (!is_number(f, b) || fabs(value(f, b)) > 6 || fmod(value(f, b), 0.125) != 0);
    *v = value(f, b);
    return b << (f->bits == 4 && room == 8 ? 2 : 0);
}

static void product(const Product *t) {
    static double a[16][64], b[64][8], sa[16][4], sb[4][8];
    u32 in[32][16] = {{0}}, out[32][4], e = 32 / (u32)t->room, parts = t->scales ? (u32)t->scales : 1, na = t->k * 16 / 32 / e, nb = na / 2, thread_a = any() & 1, thread_b = any() & 3;
    u32 byte = t->scales == 1 ? any() & 3 : t->scales == 2 ? any() & 2 : 0;
    for (u32 l = 0; l < 32; l++) {
        for (u32 r = 0; r < na; r++)
            for (u32 h = 0; h < e; h++) in[l][r] |= element(&formats[t->a], t->room, &a[l / 4 + 8 * (r & 1)][e * (l % 4) + h + 4 * e * (r >> 1)]) << t->room * h;
        for (u32 r = 0; r < nb; r++)
            for (u32 h = 0; h < e; h++) in[l][4 + r] |= element(&formats[t->b], t->room, &b[e * (l % 4) + h + 4 * e * r][l / 4]) << t->room * h;
        in[l][10] = any(), in[l][11] = any();                                           // scales that nobody is to read
    }
    for (u32 part = 0; part < parts; part++)
        for (u32 i = 0; i < 24; i++) {
            u32 code = t->nv ? 0x30 + any() % 24 : 124 + any() % 7, lane = i < 16 ? 4 * (i % 8) + 2 * thread_a + i / 8 : 4 * (i - 16) + thread_b, at = 8 * (byte + part);
            u32 *to = &in[lane][i < 16 ? 10 : 11];
            *to = (*to & ~(0xffu << at)) | code << at;
            *(i < 16 ? &sa[i][part] : &sb[part][i - 16]) = !t->scales ? 1 : t->nv ? value(&formats[3], code) : ldexp(1, (int)code - 127);
        }
    char ptx[4000], scale[100] = "";
    if (t->scales) snprintf(scale, sizeof scale, ", {%%r10}, {%u, %u}, {%%r11}, {%u, %u}", byte, thread_a, byte, thread_b);
    int at = sprintf(ptx, ".version 8.8\n.target sm_120a\n.address_size 64\n.visible .entry k(.param .u64 in, .param .u64 out) {\n.reg .b32 %%r<12>, %%d<4>, %%t; .reg .b64 %%i, %%o, %%l;\n"
                     "ld.param.u64 %%i, [in]; ld.param.u64 %%o, [out]; mov.u32 %%t, %%tid.x; mul.wide.u32 %%l, %%t, 64; add.s64 %%i, %%i, %%l; mul.wide.u32 %%l, %%t, 16; add.s64 %%o, %%o, %%l;\n");
    for (int i = 0; i < 12; i++) at += sprintf(ptx + at, "ld.global.b32 %%r%d, [%%i+%d];\n", i, 4 * i);
    for (int i = 0; i < 4; i++) at += sprintf(ptx + at, "mov.b32 %%d%d, 0;\n", i);
    const char *sums = t->half ? "{%d0,%d1}" : "{%d0,%d1,%d2,%d3}";
    at += sprintf(ptx + at, "mma.sync.aligned.m16n8k%d.row.col.%s %s,{%%r0,%%r1,%%r2,%%r3},{%%r4,%%r5},%s%s;\n", t->k, t->text, sums, sums, scale);
    sprintf(ptx + at, "st.global.v4.b32 [%%o], {%%d0,%%d1,%%d2,%%d3}; ret; }\n");
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, ptx);
    u64 din = device(emu, "in", in, sizeof in), dout = device(emu, "out", NULL, sizeof out);
    run_clean(emu, m, "k", 1, 32, 0, (void *[]){&din, &dout}, NULL);
    emu_read(emu, out, dout, sizeof out);
    emu_destroy(emu);
    for (u32 l = 0; l < 32; l++)
        for (u32 i = 0; i < 4; i++) {
            u32 row = l / 4 + 8 * (i >> 1), col = 2 * (l % 4) + (i & 1);
            double want = 0;
            for (u32 k = 0; k < (u32)t->k; k++) want += a[row][k] * sa[row][k / (t->k / parts)] * (b[k][col] * sb[k / (t->k / parts)][col]);
            double got = t->half ? (double)f16_to_f32((uint16_t)(out[l][i / 2] >> 16 * (i & 1))) : (double)f32_from(out[l][i]);
            want = t->half ? (double)f16_to_f32(f16_from_f64(want)) : (double)(float)want;
            if (got != want) fail_msg("%s: d[%u][%u] = %g, not %g", t->text, row, col, got, want);
        }
}

static void small_products(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        for (seed = 1; seed < 20000; seed += 997) product(&products[i]);
}

static void refused(void **state) {
    (void)state;
    static const struct { const char *line, *why; } wrong[] = {
        {"cvt.rs.e4m3x2.f32 h, f, f, r;", "cvt.rs.e4m3x2.f32 does not exist"},
        {"cvt.rn.e4m3x4.f32 r, {f, f, f, f};", "cvt.e4m3x4.f32 does not exist"},
        {"cvt.rs.satfinite.e4m3x4.f32 r, {f, f}, r;", "cvt.e4m3x4 takes four numbers in { }"},
        {"cvt.rn.ue8m0x2.f32 h, f, f;", "cvt.ue8m0x2.f32 does not exist"},
        {"mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f32 {f,f,f,f},{r,r,r,r},{r,r},{f,f,f,f};", "`mma.m16n8k16` of .f32.f16.bf16.f32 does not exist"},
        {"mma.sync.aligned.m16n8k32.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 {f,f,f,f},{r,r,r,r},{r,r},{f,f,f,f},r,{0,0},r,{0,0};", "`mma.m16n8k32.kind::mxf4` of .f32.e2m1.e2m1.f32 does not exist"},
        {"mma.sync.aligned.m16n8k64.row.col.kind::mxf4.f32.e2m1.e2m1.f32.ue8m0 {f,f,f,f},{r,r,r,r},{r,r},{f,f,f,f},r,{0,0},r,{0,0};", "`mma` of .kind::mxf4 needs .block_scale"},
        {"mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.f32.e2m1.e2m1.f32.ue4m3 {f,f,f,f},{r,r,r,r},{r,r},{f,f,f,f},r,{0,0},r,{0,0};", "`mma` of .kind::mxf4nvf4 has no 0 scales of .ue4m3"},
        {"mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {f,f,f,f},{r,r},{r,r},{f,f,f,f},r,4;", "the sparsity selector of this mma is from 0 to 3"},
        {"mma.sp.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {f,f,f,f},{r,r},{r,r},{f,f,f,f},r,0;", "`mma.sp.m16n8k8` of .f32.f16.f16.f32 does not exist"},
        {"mma.sync.aligned.m16n8k16.col.row.f32.f16.f16.f32 {f,f,f,f},{r,r,r,r},{r,r},{f,f,f,f};", "`mma` needs .row.col"},
        {"mma.sync.aligned.m8n8k4.row.col.f16.f16.f16.f32 {r,r,r,r},{r,r},{r,r},{f,f,f,f,f,f,f,f};", "`mma.m8n8k4` of .f16.f16.f16.f32 does not exist"},
        {"wgmma.mma_async.sp.sync.aligned.m64n8k64.f32.e4m3.e4m3 {f,f,f,f}, l, l, r, 1, 1, 1, 1;", "the sparsity selector of this wgmma is from 0 to 0"},
        {"wgmma.mma_async.sp.sync.aligned.m64n8k256.s32.b1.b1.and.popc {r,r,r,r}, l, l, r, 0, 1;", "`wgmma.sp.m64n8k256` of .s32.b1.b1 does not exist"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char ptx[1000], want[300];
        sprintf(ptx, HEAD ".visible .entry k() { .reg .b32 r; .reg .f32 f; .reg .b16 h; .reg .b64 l;\n%s\nret; }\n", wrong[i].line);
        snprintf(want, sizeof want, "line 5: %s", wrong[i].why);
        EmuContext *emu = emu_create();
        assert_null(emu_load(emu, ptx, strlen(ptx)));
        assert_string_equal(emu_message(emu), want);
        emu_destroy(emu);
    }
}

// Metadata that names an element twice, or out of order where it may not.
static void metadata(void **state) {
    (void)state;
    for (int i = 0; i < 2; i++) {
        char ptx[1000];
        sprintf(ptx, HEAD ".visible .entry k() { .reg .b32 r, m; .reg .f32 f;\nmov.b32 r, 0; mov.b32 f, 0f00000000; mov.b32 m, %s;\n"
                "mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32 {f,_,_,_},{r,r,r,r},{r,r,r,r},{f,f,f,f},m,0;\nret; }\n", i ? "0x44444454" : "0x44441444");
        EmuContext *emu = emu_create();
        expect_fault(emu, ptx, 32, 0, NULL, NULL, EMU_FAULT_BAD_OPERAND, i ? "metadata 0x5 of row 0 of a sparse A" : "metadata 0x1 of row 0 of a sparse A, which is not in order");
        emu_destroy(emu);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(conversions), cmocka_unit_test(scales), cmocka_unit_test(random_rounding), cmocka_unit_test(small_products), cmocka_unit_test(refused), cmocka_unit_test(metadata)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
