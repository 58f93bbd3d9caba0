// Video instructions: parts of words picked, computed with, clamped, joined or merged.
#include "kit.h"

typedef int64_t s64;
static u64 a[LANES], b[LANES], c[LANES], got[LANES];

static s64 part(u64 x, u32 bits, u32 i, bool is_signed) {
    u64 v = x >> bits * i << (64 - bits);
    return is_signed ? (s64)v >> (64 - bits) : (s64)(v >> (64 - bits));
}
static s64 within(s64 x, s64 low, s64 high) { return x < low ? low : x > high ? high : x; }
static s64 apart(s64 x, s64 y) { return x > y ? x - y : y - x; }

#define EACH_PART(n, bits, from, is_signed, expr)                                                \
    for (u32 i = 0; i < (n); i++) {                                                              \
        s64 x = part(A, bits, i, is_signed), y = part(B, bits, i, is_signed);                    \
        (void)x, (void)y;                                                                        \
        expr;                                                                                    \
    }

static u32 add_signed_byte_half(u32 A, u32 B, u32 C) { (void)C; return (u32)within(part(A, 8, 2, true) + part(B, 16, 1, false), -2147483648ll, 2147483647); }
static u32 sub_min(u32 A, u32 B, u32 C) { s64 r = (s64)(u32)(part(A, 16, 0, false) - part(B, 32, 0, false)); return r < C ? (u32)r : C; }
static u32 sub_sat_max(u32 A, u32 B, u32 C) { s64 r = within((s64)(int32_t)A - (int32_t)B, -2147483648ll, 2147483647); return (u32)(r > (int32_t)C ? r : (int32_t)C); }
static u32 merged(u32 A, u32 B, u32 C) { return (C & ~0xff0000u) | (u32)within(part(A, 8, 0, true) - part(B, 8, 3, true), -128, 127) % 256 << 16; }
static u32 difference_add(u32 A, u32 B, u32 C) { return (u32)apart((int32_t)A, (int32_t)B) + C; }
static u32 less(u32 A, u32 B, u32 C) { (void)C; return part(A, 8, 1, false) < part(B, 16, 0, false); }
static u32 shift_clamped(u32 A, u32 B, u32 C) { (void)C; return B >= 32 ? 0 : A >> B; }
static u32 shift_wrapped(u32 A, u32 B, u32 C) { return (u32)((s64)(int32_t)A >> (B & 31)) + C; }
static u32 product(u32 A, u32 B, u32 C) { return (u32)((part(A, 16, 1, true) * part(B, 16, 0, false) + (int32_t)C) >> 7); }
static u32 minus_product(u32 A, u32 B, u32 C) { return (u32)within(-(s64)(int32_t)A * part(B, 8, 0, false) + (int32_t)C, -2147483648ll, 2147483647); }
static u32 one_more(u32 A, u32 B, u32 C) { return (u32)(part(A, 16, 0, false) * part(B, 16, 0, false) + C + 1); }
static u32 adds2(u32 A, u32 B, u32 C) { u32 r = 0; (void)C; EACH_PART(2, 16, 0, true, r |= (u32)(uint16_t)within(x + y, -32768, 32767) << 16 * i) return r; }
static u32 sum4(u32 A, u32 B, u32 C) { u32 r = C; EACH_PART(4, 8, 0, false, r += (u32)apart(x, y)) return r; }
static u32 average4(u32 A, u32 B, u32 C) { u32 r = C & 0xff00ff00u; EACH_PART(4, 8, 0, false, if (!(i & 1)) r |= (u32)((x + y + 1) >> 1) << 8 * i) return r; }
static u32 crossed(u32 A, u32 B, u32 C) {              // halves 3 2 1 0 are b's and a's
    (void)C;
    s64 low = part(B, 16, 0, false) < part(A, 16, 0, false) ? part(B, 16, 0, false) : part(A, 16, 0, false);
    s64 high = part(A, 16, 1, false) < part(B, 16, 1, false) ? part(A, 16, 1, false) : part(B, 16, 1, false);
    return (u32)(high << 16 | low);
}
static u32 greater4(u32 A, u32 B, u32 C) { u32 r = 0; (void)C; EACH_PART(4, 8, 0, true, r |= (u32)(x > y) << 8 * i) return r; }

static const struct { const char *body; u32 (*model)(u32, u32, u32); } cases[] = {
    {"vadd.s32.s32.u32.sat %d, %a.b2, %b.h1;", add_signed_byte_half},
    {"vsub.u32.u32.u32.min %d, %a.h0, %b, %c;", sub_min},
    {"vsub.s32.s32.s32.sat.max %d, %a, %b, %c;", sub_sat_max},
    {"vsub.s32.s32.s32.sat %d.b2, %a.b0, %b.b3, %c;", merged},
    {"vabsdiff.u32.s32.s32.add %d, %a, %b, %c;", difference_add},
    {"vset.u32.u32.lt %d, %a.b1, %b.h0;", less},
    {"vshr.u32.u32.u32.clamp %d, %a, %b;", shift_clamped},
    {"vshr.s32.s32.u32.wrap.add %d, %a, %b, %c;", shift_wrapped},
    {"vmad.s32.s32.u32.shr7 %d, %a.h1, %b.h0, %c;", product},
    {"vmad.s32.s32.u32.sat %d, -%a, %b.b0, %c;", minus_product},
    {"vmad.u32.u32.u32.po %d, %a.h0, %b.h0, %c;", one_more},
    {"vadd2.s32.s32.s32.sat %d, %a, %b, %c;", adds2},
    {"vabsdiff4.u32.u32.u32.add %d, %a, %b, %c;", sum4},
    {"vavrg4.u32.u32.u32 %d.b20, %a, %b, %c;", average4},
    {"vmin2.u32.u32.u32 %d, %a.h12, %b.h30, %c;", crossed},
    {"vset4.s32.s32.gt %d, %a, %b, %c;", greater4},
};

static void models(void **state) {
    (void)state;
    inputs(a, 0), inputs(b, 1), inputs(c, 2);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        char body[200];
        snprintf(body, sizeof body, "%s cvt.u64.u32 %%D, %%d;", cases[k].body);
        run_body(body, a, b, c, got);
        for (int i = 0; i < LANES; i++) {
            u32 want = cases[k].model((u32)a[i], (u32)b[i], (u32)c[i]);
            if (got[i] != want) fail_msg("%s\nof %08x, %08x, %08x is %08x, not %08x", cases[k].body, (u32)a[i], (u32)b[i], (u32)c[i], (u32)got[i], want);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
