// Tensor maps that a kernel makes or changes (tensormap.replace), as compilers do where sizes are known on the device only.
#include "kit.h"

enum { ROWS = 10, COLS = 24, H = 8, W = 16 };

#define REPLACE(field, type, value) "tensormap.replace.tile." field ".shared::cta.b1024." type " [map], " value ";\n"

// Thread 0 makes the map in shared memory; a warp takes it to global memory, where a copy uses it.
#define MAKE(replace)                                                                                                              \
    HEAD ".visible .entry k(.param .u64 x, .param .u64 out, .param .u64 place) {\n"                                               \
    ".shared .align 128 .b8 buf[512]; .shared .align 128 .b8 map[128]; .shared .align 8 .b8 bar[8];\n"                             \
    ".reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;\n"                                                                      \
    "mov.u32 %r0, %tid.x; setp.ne.s32 %p0, %r0, 0; ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [out]; ld.param.u64 %rd3, [place];\n" \
    "mov.u32 %r1, map; shl.b32 %r2, %r0, 2; add.s32 %r1, %r1, %r2; st.shared.b32 [%r1], 0; bar.warp.sync -1;\n"                     \
    "@%p0 bra A;\n" replace "mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;\n"                             \
    "A: bar.warp.sync -1; tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd3], [map], 128;\n" \
    "fence.proxy.tensormap::generic.acquire.gpu [%rd3], 128; @%p0 bra B; mov.u32 %r5, 8; mov.u32 %r6, 4; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512;\n" \
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd3, {%r5, %r6}], [bar];\n"               \
    "B: W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W;\n"                                                \
    "mul.wide.u32 %rd4, %r0, 16; add.s64 %rd2, %rd2, %rd4; mov.u32 %r1, buf; shl.b32 %r2, %r0, 4; add.s32 %r1, %r1, %r2;\n"         \
    "ld.shared.v4.b32 {%r7, %r8, %r9, %r10}, [%r1]; st.global.v4.b32 [%rd2], {%r7, %r8, %r9, %r10}; ret; }\n"

#define FIELDS                                                                                                                  \
    REPLACE("global_address", "b64", "%rd1") REPLACE("rank", "b32", "1") REPLACE("box_dim", "b32", "0, 16") REPLACE("box_dim", "b32", "1, 8") \
    REPLACE("global_dim", "b32", "0, 24") REPLACE("global_dim", "b32", "1, 10") REPLACE("global_stride", "b64", "0, 96")           \
    REPLACE("element_stride", "b32", "0, 1") REPLACE("element_stride", "b32", "1, 1") REPLACE("elemtype", "b32", "7")              \
    REPLACE("interleave_layout", "b32", "0") REPLACE("swizzle_mode", "b32", "0") REPLACE("fill_mode", "b32", "0")

static void made_on_the_device(void **state) {
    (void)state;
    float x[ROWS * COLS], got[H * W];
    for (int i = 0; i < ROWS * COLS; i++) x[i] = (float)(i + 1);
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, MAKE(FIELDS));
    u64 dx = device(emu, "x", x, sizeof x), out = device(emu, "out", NULL, sizeof got), place = device(emu, "place", NULL, 128);
    for (int mode = 0; mode < 2; mode++) {
        run_clean(emu, m, "k", 1, 32, 0, (void *[]){&dx, &out, &place}, &(EmuOptions){.async = (EmuAsync)mode});
        emu_read(emu, got, out, sizeof got);
        for (int i = 0; i < H; i++)                      // rows 4 .. 11, columns 8 .. 23: two rows are outside
            for (int j = 0; j < W; j++) assert_true(got[i * W + j] == (i + 4 < ROWS ? x[(i + 4) * COLS + j + 8] : 0));
    }
    emu_destroy(emu);
}

static void not_whole(void **state) {                    // each is found where the map is used
    (void)state;
    static const struct { const char *replace, *message; } cases[] = {
        {MAKE(""), "these 128 bytes are no tensor map"},
        {MAKE(FIELDS REPLACE("rank", "b32", "2")), "the tensor map has another rank"},
        {MAKE(FIELDS REPLACE("global_dim", "b32", "1, 0")), "a dimension of the tensor map is 0"},
        {MAKE(FIELDS REPLACE("box_dim", "b32", "1, 300")), "a box dimension of the tensor map is not 1 to 256"},
        {MAKE(FIELDS REPLACE("box_dim", "b32", "0, 3")), "the inner dimension of the tensor map's box is not a multiple of 16 bytes"},
        {MAKE(FIELDS REPLACE("element_stride", "b32", "0, 0")), "an element stride of the tensor map is not 1 to 8"},
        {MAKE(FIELDS REPLACE("global_stride", "b64", "0, 100")), "a stride of the tensor map is not a multiple of 16 below 2^40"},
        {MAKE(FIELDS REPLACE("global_address", "b64", "4")), "the tensor map's address is not 16-byte aligned"},
        {MAKE(FIELDS REPLACE("elemtype", "b32", "13")), "the tensor map's element type or swizzle is not one that is supported"},
        {MAKE(FIELDS REPLACE("swizzle_mode", "b32", "1")), "the inner dimension of the tensor map's box has more bytes than its swizzle"},
        {MAKE(FIELDS REPLACE("interleave_layout", "b32", "1")), "interleaved layouts are not supported"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        EmuContext *emu = emu_create();
        u64 dx = device(emu, "x", NULL, 4 * ROWS * COLS), out = device(emu, "out", NULL, 4 * H * W), place = device(emu, "place", NULL, 128);
        expect_fault(emu, cases[i].replace, 32, 0, (void *[]){&dx, &out, &place}, NULL, EMU_FAULT_BAD_OPERAND, cases[i].message);
        emu_destroy(emu);
    }
}

static void parameter_addresses(void **state) {          // of a map among the parameters, through 32 bits as LLVM has it
    (void)state;
    EmuContext *emu = emu_create();
    EmuModule *m = load_ptx(emu, HEAD ".visible .entry k(.param .u64 out, .param .align 64 .b8 p[128]) {\n.reg .b32 %r<4>; .reg .b64 %rd<4>;\n"
                                      "mov.b32 %r1, p; cvt.u64.u32 %rd1, %r1; cvta.param.u64 %rd1, %rd1; ld.u32 %r2, [%rd1+124]; mov.b64 %rd2, p; cvta.param.u64 %rd2, %rd2;\n"
                                      "ld.u32 %r3, [%rd2]; add.s32 %r2, %r2, %r3; ld.param.u64 %rd3, [out]; st.global.u32 [%rd3], %r2; ret; }\n");
    u32 p[32] = {[0] = 5, [31] = 70}, got;
    u64 out = device(emu, "out", NULL, 4);
    run_clean(emu, m, "k", 1, 1, 0, (void *[]){&out, p}, NULL);
    emu_read(emu, &got, out, 4);
    assert_int_equal(got, 75);
    emu_destroy(emu);
}

// Packed elements: with gaps in shared memory that an mbarrier does not count, and without.
#define PACKED(bytes, counted)                                                                                                     \
    HEAD ".visible .entry k(.param .u64 out, .param .align 64 .b8 map[128]) {\n"                                                  \
    ".shared .align 128 .b8 buf[" #bytes "]; .shared .align 8 .b8 bar[8]; .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;\n"  \
    "mov.u32 %r0, %tid.x; setp.ne.s32 %p0, %r0, 0; ld.param.u64 %rd2, [out]; mov.b64 %rd3, map; cvta.param.u64 %rd3, %rd3;\n"      \
    "@%p0 bra A; mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared.b64 _, [bar], " #counted ";\n" \
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [buf], [%rd3, {128, 1}], [bar];\n"               \
    "A: bar.warp.sync -1; W: mbarrier.try_wait.parity.shared::cta.b64 %p1, [bar], 0; @!%p1 bra W;\n"                              \
    "mul.wide.u32 %rd4, %r0, 8; add.s64 %rd2, %rd2, %rd4; mov.u32 %r1, buf; shl.b32 %r2, %r0, 3; add.s32 %r1, %r1, %r2;\n"         \
    "ld.shared.b64 %rd5, [%r1]; st.global.b64 [%rd2], %rd5; ret; }\n"

static void packed_elements(void **state) {
    (void)state;
    static const struct { int type; u64 row; u32 size, from, to; const char *ptx; } cases[] = {       // bytes of a row, of 16 elements, here and there
        {EMU_TM_16U4_ALIGN8B, 128, 8, 8, 128, PACKED(128, 128)},
        {EMU_TM_16U4_ALIGN16B, 128, 8, 16, 256, PACKED(256, 128)},
        {EMU_TM_16U6_ALIGN16B, 192, 12, 16, 256, PACKED(256, 192)}};
    for (size_t c = 0; c < 3; c++) {
        uint8_t x[3 * 192], got[256];
        for (u32 i = 0; i < sizeof x; i++) x[i] = (uint8_t)(i * 7 + 1);
        EmuContext *emu = emu_create();
        EmuModule *m = load_ptx(emu, cases[c].ptx);
        u64 dx = device(emu, "x", x, 3 * cases[c].row), out = device(emu, "out", NULL, sizeof got), dims[] = {256, 3};
        EmuTensorMap map;
        assert_int_equal(emu_tensor_map_encode_tiled(emu, &map, cases[c].type, 2, dx, dims, &cases[c].row, (u32[]){128, 2}, NULL, 0, 0, 0, 0), EMU_OK);
        run_clean(emu, m, "k", 1, cases[c].to / 8, 0, (void *[]){&out, &map}, NULL);
        emu_read(emu, got, out, cases[c].to);
        for (u32 i = 0; i < cases[c].to; i++) {
            u32 unit = i / cases[c].from, row = 1 + unit / 8, at = i % cases[c].from;
            u64 from = row * cases[c].row + (8 + unit % 8) * cases[c].size + at;
            if (at < cases[c].size) assert_int_equal(got[i], x[from]);
        }
        EmuStatus wrong = emu_tensor_map_encode_tiled(emu, &map, cases[c].type, 2, dx, (u64[]){c ? 192 : 255, 3}, &cases[c].row, (u32[]){128, 2}, NULL, 0, 0, 0, 0);
        assert_int_equal(wrong, EMU_INVALID);
        emu_destroy(emu);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(made_on_the_device), cmocka_unit_test(not_whole), cmocka_unit_test(parameter_addresses), cmocka_unit_test(packed_elements)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
