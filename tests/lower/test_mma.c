// Fragments and shared memory of products, checked exhaustively: the accumulator's layout against the
// formula of the PTX manual, tiles in shared memory for being a permutation and free of bank conflicts
// where ldmatrix and cp.async touch them.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "lower/layout/layout.h"
#include "lower/layout/smem_layout.h"

// ---- the accumulator -----------------------------------------------------------------------------

static Val axis_of(uint32_t id, int64_t extent) { return (Val){.id = id, .type = {.kind = TY_AXIS, .shape = {extent}}}; }

static void check_acc(int64_t rows, int64_t cols, int wm, int wn) {
    Arena *arena = arena_new();
    Val m = axis_of(1, rows), n = axis_of(2, cols);
    Val *axes[2] = {&m, &n};
    Type t = type_tile(EL_f32, 2, axes);
    const Layout *l = layout_mma_acc(arena, &t, 0, 1, wm, wn);
    int per = 8 * wn, blocks = (int)((cols + per - 1) / per);
    for (int warp = 0; warp < wm * wn; warp++)
        for (int lane = 0; lane < 32; lane++)
            for (int reg = 0; reg < layout_regs(l); reg++) {
                int64_t c[MAX_AXES];
                int r = reg & 3, j = reg / 4 % blocks, i = reg / 4 / blocks;
                layout_coord(l, reg, lane, warp, c);
                assert_int_equal(c[0], lane / 4 + 8 * (r >> 1) + 16 * (warp % wm) + 16 * wm * i);
                assert_int_equal(c[1], 2 * (lane % 4) + (r & 1) + 8 * (warp / wm) + per * j);
            }
    arena_free(arena);
}

static void accumulator(void **state) {
    (void)state;
    for (int wm = 1; wm <= 8; wm *= 2)
        for (int wn = 1; wm * wn <= 8; wn *= 2)
            for (int k = 0; k < 3; k++) check_acc((int64_t[]){16, 96, 128}[k] * wm, (int64_t[]){8, 24, 64}[k] * wn, wm, wn);
    check_acc(100, 40, 4, 2);                               // not whole fragments: padded
    check_acc(8, 8, 1, 4);
}

// ---- shared memory -------------------------------------------------------------------------------

static Shared tile(Elem e, int64_t rows, int64_t cols) {
    Shared s = {.rank = 2, .extent = {rows, cols}};
    shared_shape(&s, e, true);
    return s;
}

static void permutation(void **state) {
    (void)state;
    static const struct { Elem e; int64_t rows, cols; } cases[] = {
        {EL_bf16, 128, 64}, {EL_bf16, 64, 256}, {EL_bf16, 16, 16}, {EL_bf16, 32, 96}, {EL_bf16, 24, 40}, {EL_bf16, 8, 8}, {EL_f32, 64, 32},
        {EL_f32, 32, 128}, {EL_i8, 64, 64}, {EL_i8, 16, 48}, {EL_f64, 8, 16}, {EL_bf16, 100, 20},
    };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        Shared s = tile(cases[k].e, cases[k].rows, cases[k].cols);
        uint8_t *seen = heap_try_zeroed(1, shared_bytes(&s));
        for (int64_t r = 0; r < cases[k].rows; r++)
            for (int64_t c = 0; c < cases[k].cols; c++) {
                int64_t at = shared_byte(&s, (int64_t[]){r, c});
                assert_in_range(at, 0, shared_bytes(&s) - (uint32_t)s.size);
                assert_int_equal(at % s.size, 0);
                for (int b = 0; b < s.size; b++) assert_int_equal(seen[at + b]++, 0);
            }
        heap_free(seen);
    }
}

// Eight rows of one chunk of 16 bytes, as a phase of ldmatrix reads them, lie in different quarters of 128 bytes.
static void no_conflicts(void **state) {
    (void)state;
    static const int64_t widths[] = {16, 24, 32, 40, 48, 64, 72, 96, 128, 160, 192, 256};      // of bf16
    for (size_t k = 0; k < sizeof widths / sizeof *widths; k++) {
        Shared s = tile(EL_bf16, 64, widths[k]);
        for (int64_t row = 0; row < 64; row += 8)
            for (int64_t c = 0; c < widths[k]; c += 8) {
                int used = 0;
                for (int64_t i = 0; i < 8; i++) used |= 1 << (shared_byte(&s, (int64_t[]){row + i, c}) / 16 % 8);
                assert_int_equal(used, 0xff);
            }
    }
}

// A row of 64 16-bit elements is TMA's 128-byte swizzle: chunk XOR row.
static void as_tma_writes_it(void **state) {
    (void)state;
    Shared s = tile(EL_bf16, 64, 128);
    assert_int_equal(s.span, 128);
    for (int64_t r = 0; r < 64; r++)
        for (int64_t c = 0; c < 128; c++) {
            int64_t byte = c % 64 * 2, plain = c / 64 * 64 * 128 + r * 128 + byte;
            assert_int_equal(shared_byte(&s, (int64_t[]){r, c}), plain ^ (plain >> 7 & 7) << 4);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accumulator),
        cmocka_unit_test(permutation),
        cmocka_unit_test(no_conflicts),
        cmocka_unit_test(as_tma_writes_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
