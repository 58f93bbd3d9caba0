// Binding and parameter blocks, on launch information made by hand:
//
//     kernel mix(a: f32[M, K], b: f32[K, N], c: out f32[M, N], n: i32, s: f32)
//         where K % 4 == 0       fact N % 8 == 0       grid cdiv(M, 16)

#include "tests/runtime/common.h"

enum { M, N, K };                                       // dims, in this order

#define CODE(...) {(const LStep[]){__VA_ARGS__}, sizeof((LStep[]){__VA_ARGS__}) / sizeof(LStep)}
#define DIM(k) {L_DIM, k}
#define NUM(v) {L_CONST, v}

typedef struct Name { uint32_t n, hash; char s[8]; } Name;
static Sym name(const char *s)
{
    static Name pool[64];
    static int used;
    for (int i = 0; i < used; i++) if (!strcmp(pool[i].s, s)) return (Sym)(void *)&pool[i];
    snprintf(pool[used].s, sizeof pool[used].s, "%s", s);
    pool[used].n = (uint32_t)strlen(s);
    return (Sym)(void *)&pool[used++];
}

static LaunchParam  params[5];
static LaunchDim    dims[3];
static LaunchGuard  guards[1], facts[1];
static LaunchSlot   slots[10];
static LaunchInfo   info, general;
static const LStep  quarter[] = {DIM(K), NUM(4), {L_MOD, 0}, NUM(0), {L_EQ, 0}}, eighth[] = {DIM(N), NUM(8), {L_MOD, 0}, NUM(0), {L_EQ, 0}};

static int setup(void **state)
{
    (void)state;
    static const LStep d[3] = {DIM(M), DIM(N), DIM(K)};
    static const LStep blocks[] = {DIM(M), NUM(16), {L_CDIV, 0}};
#define ONE(k) {&d[k], 1}
    params[0] = (LaunchParam){.name = name("a"), .elem = EL_f32, .rank = 2, .dim = {ONE(M), ONE(K)}, .solves = {M, K}};
    params[1] = (LaunchParam){.name = name("b"), .elem = EL_f32, .rank = 2, .dim = {ONE(K), ONE(N)}, .solves = {-1, N}};
    params[2] = (LaunchParam){.name = name("c"), .mode = PM_OUT, .elem = EL_f32, .rank = 2, .dim = {ONE(M), ONE(N)}, .solves = {-1, -1}};
    params[3] = (LaunchParam){.kind = PK_SCALAR, .name = name("n"), .elem = EL_i32};
    params[4] = (LaunchParam){.kind = PK_SCALAR, .name = name("s"), .elem = EL_f32};
    dims[M] = (LaunchDim){.name = name("M"), .fixed = -1};
    dims[N] = (LaunchDim){.name = name("N"), .fixed = -1};
    dims[K] = (LaunchDim){.name = name("K"), .fixed = -1};
    guards[0] = (LaunchGuard){{quarter, 5}, "K % 4 == 0 (mix.tk:2)"};
    facts[0] = (LaunchGuard){{eighth, 5}, "N % 8 == 0"};
    info = (LaunchInfo){.entry = "mix", .kernel = name("mix"), .params = params, .nparams = 5, .dims = dims, .ndims = 3, .guards = guards, .nguards = 1,
                        .facts = facts, .nfacts = 1, .slots = slots, .programs = {blocks, 3}, .blocks = {blocks, 3}, .threads = 64, .cluster = 1, .smem = 100};
    general = info;
    general.nfacts = 0;
    general.entry = "mix_general";
    return 0;
}

static BindArg tensor(int rank, int64_t d0, int64_t d1)
{
    BindArg a = {.elem = EL_f32, .rank = rank, .dim = {d0, d1}};
    bind_contiguous(&a);
    return a;
}

// a f32[32, 8], b f32[8, 24], c absent, n = 5, s = 2
static void good(BindArg *args)
{
    args[0] = tensor(2, 32, 8);
    args[1] = tensor(2, 8, 24);
    args[2] = (BindArg){.absent = true};
    args[3] = (BindArg){.scalar = true, .ival = 5};
    args[4] = (BindArg){.scalar = true, .ival = 2};
    args[0].address = 0x10000;
    args[1].address = 0x20000;
    args[2].address = 0x30000;
}

static void solves(void **state)
{
    (void)state;
    Buf err = {0};
    BindArg args[5];
    Bound b;
    good(args);
    assert_true(bind_args(&info, args, 5, &b, &err));
    assert_int_equal(b.dims[M], 32);
    assert_int_equal(b.dims[N], 24);
    assert_int_equal(b.dims[K], 8);
    assert_int_equal(args[2].dim[0], 32);
    assert_int_equal(args[2].dim[1], 24);
    assert_int_equal(args[2].stride[0], 24);
    assert_int_equal(b.strides[16], 24);
    assert_int_equal(b.scalars[3], 5);
    assert_true(args[4].fval == 2);                               // a literal takes the parameter's type
    assert_true(bind_overlap(&b, &err));
    assert_ptr_equal(bind_variant(&b, NULL), &info);
    params[0].solves[0] = params[0].solves[1] = params[1].solves[1] = -1;
    params[2].solves[0] = M;                                      // the output defines M, but it is not given: `a` says it too
    good(args);
    assert_true(bind_args(&info, args, 5, &b, &err));
    assert_int_equal(b.dims[M], 32);
    good(args);
    args[0].dim[0] = 0;                                           // nothing to do is legal
    assert_true(bind_args(&info, args, 5, &b, &err));
    assert_int_equal(bind_eval(&b, info.blocks), 0);
}

// `where` says what a dimension is that only an absent output has, on either side of the equation.
static void solves_by_where(void **state)
{
    (void)state;
    static const LStep right[] = {DIM(N), DIM(K), NUM(2), {L_MUL, 0}, {L_SCALAR, 3}, {L_ADD, 0}, {L_EQ, 0}};
    static const LStep left[] = {DIM(K), NUM(2), {L_MUL, 0}, {L_SCALAR, 3}, {L_ADD, 0}, DIM(N), {L_EQ, 0}};
    for (int i = 0; i < 2; i++) {
        Buf err = {0};
        BindArg args[5];
        Bound b;
        good(args);
        guards[0] = (LaunchGuard){{i ? left : right, 7}, "N = K * 2 + n (mix.tk:2)"};
        params[1].dim[1] = params[1].dim[0];
        params[1].solves[1] = -1;
        args[1] = tensor(2, 8, 8);
        assert_true(bind_args(&info, args, 5, &b, &err));
        assert_int_equal(b.dims[N], 21);
        assert_int_equal(args[2].dim[1], 21);
        args[2] = tensor(2, 32, 20);                              // given, and wrong
        assert_false(bind_args(&info, args, 5, &b, &err));
        assert_says(&err, "N = K * 2 + n (mix.tk:2) does not hold");
    }
}

#define REFUSED(change, words) do { \
    Buf err_ = {0}; BindArg args[5]; Bound b_; \
    good(args); change; \
    assert_false(bind_args(&info, args, 5, &b_, &err_)); assert_says(&err_, words); } while (0)

static void refuses(void **state)
{
    (void)state;
    REFUSED(args[1].dim[0] = 9, "`b` has 9 elements along dimension 0, not 8: K = 8 (`a`, dimension 1)");
    REFUSED((args[1].origin = "w.npy", args[1].dim[0] = 9), "`b` (w.npy) has 9 elements along dimension 0, not 8");
    REFUSED(args[1].rank = 1, "`b` has 1 dimension; the kernel takes 2");
    REFUSED(args[1].elem = EL_bf16, "`b` holds bf16; the kernel takes f32");
    REFUSED(args[1].scalar = true, "`b` is a number; the kernel takes a tensor of f32");
    REFUSED(args[3].scalar = false, "`n` is a tensor; the kernel takes a number of type i32");
    REFUSED((args[3].is_float = true, args[3].fval = 2.5), "`n` is 2.5, no integer (i32)");
    REFUSED(args[3].ival = INT64_C(1) << 31, "`n` is 2147483648; i32 holds -2147483648 to 2147483647");
    REFUSED(args[4].elem = EL_f64, "`s` is of type f64; the kernel takes f32");
    REFUSED((args[4].is_float = true, args[4].fval = 1e50), "`s` is past what f32 holds");
    REFUSED((args[0].dim[1] = 6, args[1].dim[0] = 6), "`mix` cannot run here: K % 4 == 0 (mix.tk:2) does not hold with K = 6 (`a`, dimension 1)");
    REFUSED(args[0].stride[1] = 2, "`a` has stride 2 along its last dimension");
    REFUSED((args[2] = tensor(2, 32, 23)), "`c` has 23 elements along dimension 1, not 24: N = 24 (`b`, dimension 1)");
    REFUSED((dims[K].fixed = 64, (void)0), "`a` has 8 elements along dimension 1, not 64: K = 64 (fixed when it was compiled)");
    dims[K].fixed = -1;
    params[1].dim[1] = (LExpr)CODE(DIM(N), NUM(2), {L_MUL, 0});
    params[1].solves[1] = -1;
    REFUSED(args[1].dim[1] = 25, "`b` has 25 elements along dimension 1, not 24 with N = 12 (by an equation)");
    params[1].dim[1] = (LExpr)CODE(DIM(N), NUM(48), {L_MAX, 0});
    REFUSED((void)0, "dimension N is not known: no argument that is given has it alone as a dimension (give `c` its shape, or say --set N=...)");
    REFUSED((args[2] = tensor(2, 32, 24)), "`b` has 24 elements along dimension 1, not 48 with N = 24 (`c`, dimension 1)");
    params[2].dim[1] = (LExpr)CODE(NUM(3), DIM(M), {L_SUB, 0});
    dims[N].fixed = 12;
    REFUSED((void)0, "`c` would have -29 elements along dimension 1 with M = 32 (`a`, dimension 0)");
    Buf err = {0};
    Bound b;
    BindArg args[5];
    good(args);
    assert_false(bind_args(&info, args, 4, &b, &err));
    assert_says(&err, "`mix` has 5 parameters, 4 arguments were given");
}

static void overlap(void **state)
{
    (void)state;
    Buf err = {0};
    BindArg args[5];
    Bound b;
    good(args);
    assert_true(bind_args(&info, args, 5, &b, &err));
    args[2].address = args[0].address + 32 * 8 * 4;               // next to each other
    assert_true(bind_overlap(&b, &err));
    args[2].address -= 4;
    assert_false(bind_overlap(&b, &err));
    assert_says(&err, "`c` is written and shares memory with `a`");
    args[1].address = args[0].address;                            // both only read
    args[2].address = 0x30000;
    assert_true(bind_overlap(&b, &err));
    args[1].address = 0x30000 - 4;
    args[1].dim[0] = 0;                                           // empty: shares nothing
    assert_true(bind_overlap(&b, &err));
}

static void variants(void **state)
{
    (void)state;
    Buf err = {0}, why = {0};
    BindArg args[5];
    Bound b;
    good(args);
    args[1] = tensor(2, 8, 23);
    args[1].address = 0x20000;
    assert_true(bind_args(&info, args, 5, &b, &err));
    assert_null(bind_variant(&b, &why));
    assert_says(&why, "N % 8 == 0 does not hold");
    info.general = &general;
    assert_ptr_equal(bind_variant(&b, NULL), &general);
    good(args);
    assert_true(bind_args(&info, args, 5, &b, &err));
    assert_ptr_equal(bind_variant(&b, NULL), &info);
    args[0].address += 4;
    assert_ptr_equal(bind_variant(&b, &why), &general);
    assert_says(&why, "`a` is not 16-byte aligned");
    good(args);
    args[0].dim[0] = INT64_C(1) << 40;
    slots[0] = (LaunchSlot){.kind = SLOT_DIM, .size = 4, .a = M};
    info.nslots = 1;
    assert_true(bind_args(&info, args, 5, &b, &err));
    assert_ptr_equal(bind_variant(&b, &why), &general);
    assert_says(&why, "machine parameter 0 = 1099511627776 needs more than 32 bits");
    assert_int_equal(err.n, 0);
}

// ---- a device that writes down what it is given --------------------------------------------------

static struct { TensorMapSpec map; bool map_fails; DeviceLaunch launch; uint64_t filled, fill_bytes; int live, launches; } seen;

static uint64_t d_alloc(Device *d, uint64_t n, const char *what, Buf *err) { (void)d; (void)n; (void)what; (void)err; seen.live++; return 0x7000; }
static void d_free(Device *d, uint64_t a) { (void)d; (void)a; seen.live--; }
static bool d_fill(Device *d, uint64_t a, uint64_t n, DeviceFill f, uint64_t s, Buf *err)
{
    (void)d; (void)s; (void)err;
    assert_int_equal(f, FILL_ZERO);
    seen.filled = a;
    seen.fill_bytes = n;
    return true;
}
static bool d_map(Device *d, const TensorMapSpec *s, TensorMap *out, Buf *err)
{
    (void)d;
    seen.map = *s;
    memset(out->bytes, 0xab, 128);
    if (seen.map_fails) buf_puts(err, "no map");
    return !seen.map_fails;
}
static bool d_launch(Device *d, const DeviceLaunch *l, Buf *err) { (void)d; (void)err; seen.launch = *l; seen.launches++; return true; }
static const DeviceOps ops = {.name = "test", .alloc = d_alloc, .free = d_free, .fill = d_fill, .tensor_map = d_map, .launch = d_launch};

#define VALUE(T, i) (*(const T *)p.params[i])

static void blocks(void **state)
{
    (void)state;
    Buf err = {0};
    BindArg args[5];
    Bound b;
    Device dev = {.ops = &ops};
    DeviceKernel k = {.name = "mix"};
    Prepared p;
    memset(&seen, 0, sizeof seen);
    slots[0] = (LaunchSlot){.kind = SLOT_POINTER, .size = 8, .a = 2};
    slots[1] = (LaunchSlot){.kind = SLOT_SCALAR, .size = 4, .a = 3};
    slots[2] = (LaunchSlot){.kind = SLOT_SCALAR, .size = 4, .a = 4};
    slots[3] = (LaunchSlot){.kind = SLOT_DIM, .size = 4, .a = N};
    slots[4] = (LaunchSlot){.kind = SLOT_DIM, .size = 8, .a = M};
    slots[5] = (LaunchSlot){.kind = SLOT_STRIDE, .size = 8, .a = 1, .b = 0};
    slots[6] = (LaunchSlot){.kind = SLOT_EXPR, .size = 4, .expr = CODE(DIM(M), DIM(N), {L_MUL, 0})};
    slots[7] = (LaunchSlot){.kind = SLOT_TENSORMAP, .size = 128, .a = 1, .rank = 2, .swizzle = 64, .map_dim = {1, 0}, .box = {8, 16}};
    slots[8] = (LaunchSlot){.kind = SLOT_SCRATCH, .size = 8, .expr = CODE(DIM(K), NUM(4), {L_MUL, 0})};
    info.nslots = 9;
    good(args);
    assert_true(bind_args(&info, args, 5, &b, &err));
    assert_true(prepare(&dev, &info, &b, &k, &p, &err));
    assert_true(VALUE(uint64_t, 0) == 0x30000 && VALUE(int32_t, 1) == 5 && VALUE(float, 2) == 2.0f && VALUE(int32_t, 3) == 24);
    assert_true(VALUE(int64_t, 4) == 32 && VALUE(int64_t, 5) == 24 && VALUE(int32_t, 6) == 768);
    assert_int_equal((uintptr_t)p.params[7] % 128, 0);
    assert_int_equal(((unsigned char *)p.params[7])[127], 0xab);
    assert_int_equal(VALUE(uint64_t, 8), 0x7000);
    assert_true(seen.map.dims[0] == 24 && seen.map.dims[1] == 8 && seen.map.strides[1] == 96 && seen.map.box[1] == 16 && seen.map.swizzle == 64);
    assert_int_equal(seen.map.address, 0x20000);
    assert_true(seen.filled == 0x7000 && seen.fill_bytes == 32);
    assert_true(prepared_launch(&dev, &p, &err));
    assert_true(seen.launch.grid[0] == 2 && seen.launch.block[0] == 64 && seen.launch.smem == 100 && seen.launch.kernel == &k);
    prepared_free(&dev, &p);
    assert_int_equal(seen.live, 0);

    LaunchSlot tiled = slots[7], window = {.kind = SLOT_TENSORMAP, .size = 128, .a = 1, .rank = 3, .swizzle = 64, .map_dim = {1, 0, -1}, .box = {8, 16}, .im2col = true,
        .lower = {CODE(NUM(-3))}, .upper = {CODE(DIM(K), NUM(9), {L_SUB, 0})}, .step = {CODE(NUM(2))}};
    slots[7] = window;                                            // corners and steps are expressions
    good(args);
    assert_true(bind_args(&info, args, 5, &b, &err));
    assert_true(prepare(&dev, &info, &b, &k, &p, &err));
    assert_true(seen.map.im2col && seen.map.channels == 8 && seen.map.pixels == 16 && seen.map.lower[0] == -3 && seen.map.upper[0] == -1);
    assert_true(seen.map.step[0] == 1 && seen.map.step[1] == 2 && seen.map.step[2] == 1);
    prepared_free(&dev, &p);
    slots[7] = tiled;
    slots[7].expr = (LExpr)CODE(DIM(M), NUM(1), {L_SUB, 0}, NUM(16), {L_MOD, 0}, NUM(1), {L_ADD, 0});      // rows of the last tile: the innermost dimension stays
    good(args);
    assert_true(bind_args(&info, args, 5, &b, &err));
    info.partial = true;
    assert_true(prepare(&dev, &info, &b, &k, &p, &err));
    assert_true(seen.map.box[0] == 8 && seen.map.box[1] == 16 && p.launch.partial);
    slots[7].expr = (LExpr)CODE(NUM(3));
    assert_true(prepared_patch(&dev, &b, &p, 1, &err));
    assert_true(seen.map.box[0] == 8 && seen.map.box[1] == 3);
    prepared_free(&dev, &p);
    info.partial = false;
    slots[7] = tiled;
    seen.launches = 1;

    good(args);
    args[0].dim[0] = 0;                                           // an empty grid launches nothing
    assert_true(bind_args(&info, args, 5, &b, &err));
    assert_true(prepare(&dev, &info, &b, &k, &p, &err));
    assert_true(p.empty && prepared_launch(&dev, &p, &err) && seen.launches == 1);
    prepared_free(&dev, &p);

    good(args);
    args[0].dim[1] = args[1].dim[0] = 0;                          // nor does an empty tensor make an empty map
    assert_true(bind_args(&info, args, 5, &b, &err));
    assert_true(prepare(&dev, &info, &b, &k, &p, &err));
    assert_int_equal(seen.map.dims[1], 1);
    prepared_free(&dev, &p);

    good(args);
    args[0].dim[0] = INT64_C(1) << 30;
    assert_true(bind_args(&info, args, 5, &b, &err));
    assert_false(prepare(&dev, &info, &b, &k, &p, &err));
    assert_says(&err, "`mix` is too large for this code: machine parameter 6 = 25769803776 needs more than 32 bits");
    args[0].dim[0] = INT64_C(1) << 40;
    good(args);
    args[0].dim[0] = INT64_C(1) << 40;
    assert_true(bind_args(&info, args, 5, &b, &err));
    assert_false(prepare(&dev, &info, &b, &k, &p, &err));
    assert_says(&err, "`mix` cannot be launched with 68719476736 blocks: a grid has at most 2^31 - 1");
    good(args);
    seen.map_fails = true;
    assert_true(bind_args(&info, args, 5, &b, &err));
    assert_false(prepare(&dev, &info, &b, &k, &p, &err));
    assert_says(&err, "no map (tensor map of `b`)");
    assert_int_equal(seen.live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(solves, setup), cmocka_unit_test_setup(solves_by_where, setup), cmocka_unit_test_setup(refuses, setup), cmocka_unit_test_setup(overlap, setup),
        cmocka_unit_test_setup(variants, setup), cmocka_unit_test_setup(blocks, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
