// Kernels from source text to results: on eval and on the emulator, through the same door as `tkc run`
// and `tkc test`.

#include "tests/runtime/common.h"
#include "tests/runtime/fake.h"

#include "runtime/timing.h"

#include <unistd.h>

static const char source[] =
    AXPY_TK "\n"
    "kernel softmax<BLOCK = next_pow2(N) or 1024>(x: f32[M, N], y: out f32[M, N])\n"
    "    grid (m in M)\n"
    "{\n"
    "    let n = N by BLOCK;\n"
    "    let e = exp(x[m, n] - max(x[m, n] over n));\n"
    "    y[m, n] = e / sum(e over n);\n"
    "}\n"
    "\n"
    "kernel double<T: float = f32>(x: T[M, D], y: out T[M, D], off: i32)\n"
    "    where D % 4 == 0\n"
    "    grid (m in M by 16)\n"
    "{\n"
    "    y[m, :] = (x[m, :] * 2.0 + off) as T;\n"
    "}\n"
    "\n"
    "kernel parts(x: f32[N], s: f32[], k: i32[], at: i32[B + 1], y: out f32[B]) grid (b in B)\n"
    "{\n"
    "    let n = at[b] .. at[b + 1] by 64;\n"
    "    y[b] = s[] * sum(x[n] over n) + k[];\n"
    "}\n";

static const char tests[] =
    "test \"good\" for (M, N) in [(3, 17), (1, 1), (5, 300)] {\n"
    "    let x = random<f32>(M, N);\n"
    "    expect softmax(x) ~ softmax(x) within rel 1e-6;\n"
    "}\n"
    "test \"wrong\" {\n"
    "    let x = random<f32>(4, 8);\n"
    "    expect softmax(x) ~ x within rel 1e-6;\n"
    "}\n";

typedef struct World { Session *s; SemaFile *file; Device *dev; Runtime *rt; } World;

static World world_with(const char *device, const DeviceOptions *opt) {
    World w = {.s = session_new()};
    Buf err = {0};
    Source *src = source_add(w.s, "test.tk", source, strlen(source));
    w.file = sema_file(w.s, parse_file(w.s, src));
    if (diag_errors(w.s)) { diag_print(w.s, stderr, DIAG_short, false); fail(); }
    w.dev = device_open(device, opt, &err);
    assert_non_null(w.dev);
    w.rt = runtime_new(w.s, w.dev, NULL);
    return w;
}

static World world(const char *device) { return world_with(device, NULL); }

static void end(World *w) {
    runtime_free(w->rt);
    device_close(w->dev);
    session_free(w->s);
}

// Runs and gives the first written tensor, which the caller frees; with `words`, must fail so.
static HostTensor run(World *w, const char *kernel, int n, const char *const *specs, const char *words) {
    Buf err = {0};
    RunArg args[8] = {0};
    RunResult result = {0};
    HostTensor out = {0};
    for (int i = 0; i < n; i++)
        if (!arg_parse(specs[i], i, 0, &args[i], &err)) { print_error("%s\n", err.p); fail(); }
    bool ok = run_item(w->rt, (InstanceOf){.file = w->file, .item = sema_find_kernel(w->file, kernel)}, args, n, &result, &err);
    if (words) {
        assert_false(ok);
        assert_says(&err, words);
    } else if (!ok) {
        diag_print(w->s, stderr, DIAG_short, false);
        print_error("%s\n", err.p ? err.p : "");
        fail();
    } else {
        out = result.out[0].tensor;
        result.out[0].tensor = (HostTensor){0};
    }
    for (int i = 0; i < n; i++) arg_free(&args[i]);
    run_result_free(&result);
    return out;
}

#define RUN(w, kernel, ...) run(w, kernel, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), (const char *[]){__VA_ARGS__}, NULL)
#define FAILS(w, words, kernel, ...) run(w, kernel, (int)(sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *)), (const char *[]){__VA_ARGS__}, words)

static void axpy_on(const char *device) {
    World w = world(device);
    HostTensor y = RUN(&w, "axpy", "x=iota:f32[100]", "y=ones:f32[100]", "a=2");
    for (int64_t i = 0; i < 100; i++) assert_true(elem_get(EL_f32, y.data, i) == 2.0 * (double)i + 1);
    tensor_free(&y);
    y = RUN(&w, "axpy", "x=iota:f32[0]", "y=ones:f32[0]", "a=2");
    assert_int_equal(tensor_count(&y), 0);
    tensor_free(&y);
    FAILS(&w, "`axpy` needs an argument for `a` (f32, a number)", "axpy", "x=iota:f32[100]", "y=ones:f32[100]");
    FAILS(&w, "`axpy` has no parameter `zzzz`; it has `x`, `y`, `a`", "axpy", "zzzz=1", "x=iota:f32[100]");
    FAILS(&w, "`y` (ones:f32[99]) has 99 elements along dimension 0, not 100: N = 100 (`x`, dimension 0)", "axpy",
          "x=iota:f32[100]", "y=ones:f32[99]", "a=1");
    FAILS(&w, "`x` (iota:f32[10,10]) has 2 dimensions; the kernel takes 1", "axpy", "x=iota:f32[10,10]",
          "y=ones:f32[99]", "a=1");
    FAILS(&w, "`x` (iota:f16[100]) holds f16; the kernel takes f32", "axpy", "x=iota:f16[100]", "y=ones:f32[100]", "a=1");
    FAILS(&w, "argument `x` is given twice", "axpy", "x=iota:f32[100]", "x=ones:f32[100]", "a=1");
    FAILS(&w, "no.npy: No such file", "axpy", "x=no.npy", "y=ones:f32[100]", "a=1");
    end(&w);
}

static void on_eval(void **state) { (void)state; axpy_on("eval"); }
static void on_emu(void **state) { (void)state; axpy_on("emu"); }

// Element types and the lengths of `:` axes come from the arguments.
static void generic(void **state) {
    (void)state;
    static const char *const devices[] = {"eval", "emu"};
    for (int i = 0; i < 2; i++) {
        World w = world(devices[i]);
        HostTensor y = RUN(&w, "double", "x=iota:bf16[5,12]", "off=1");
        assert_int_equal(y.elem, EL_bf16);
        assert_true(y.rank == 2 && y.dim[1] == 12 && elem_get(y.elem, y.data, 59) == 119);
        tensor_free(&y);
        y = RUN(&w, "double", "x=iota:f32[5,8]", "off=-1");
        assert_true(y.elem == EL_f32 && elem_get(y.elem, y.data, 39) == 77);
        tensor_free(&y);
        y = RUN(&w, "parts", "x=ones:f32[9]", "s=0.5", "k=3", "at=iota(0,2):i32[4]");       // B of `at: i32[B + 1]`
        assert_true(y.rank == 1 && y.dim[0] == 3 && elem_get(y.elem, y.data, 2) == 4);
        tensor_free(&y);
        FAILS(&w, "`k` (0.5) is a number; the kernel takes a tensor of i32 of no dimensions", "parts", "x=ones:f32[9]", "s=1", "k=0.5", "at=iota:i32[2]");
        FAILS(&w, "", "double", "x=iota:f32[5,6]", "off=1");       // D is a number: a diagnostic, not a guard
        assert_int_equal(diag_errors(w.s), 1);
        diag_forget(w.s, 0);
        FAILS(&w, "`off` (2.5) is 2.5, no integer (i32)", "double", "x=iota:f32[5,8]", "off=2.5");
        FAILS(&w, "`off` is a number (i32), not `ones:i32[1]`", "double", "x=iota:f32[5,8]", "off=ones:i32[1]");
        end(&w);
    }
}

static void agree(void **state) {
    (void)state;
    World e = world("eval"), m = world("emu");
    static const char *const shapes[] = {"x=random:f32[3,17]", "x=random:f32[1,1]", "x=random:f32[7,1000]",
                                         "x=random:f32[4,21]"};
    for (int i = 0; i < 4; i++) {
        HostTensor a = RUN(&e, "softmax", shapes[i]), b = RUN(&m, "softmax", shapes[i]);
        CompareSpec spec = {.op = OP_approx, .rel = 2e-6};
        CompareResult r = tensor_compare(&b, &a, &spec);
        Buf text = {0};
        if (!r.ok) { compare_text(&r, &a, &spec, &text); print_error("%s: %s\n", shapes[i], text.p); fail(); }
        tensor_free(&a);
        tensor_free(&b);
    }
    HostTensor y = RUN(&m, "softmax", "x=random:f32[7,1000]");      // BLOCK = 1024 again: from the cache
    tensor_free(&y);
    CompileStats stats = runtime_stats(m.rt);
    assert_int_equal(stats.reused, 2);                           // and BLOCK = 32 twice, for rows of odd lengths
    end(&e);
    end(&m);
}

static void files(void **state) {
    (void)state;
    World w = world("eval");
    HostTensor y = RUN(&w, "axpy", "x=iota:f32[5]", "y=zeros:f32[5]", "a=3"), back = {0};
    Buf err = {0};
    assert_true(npy_write("axpy-x.npy", &y, &err));
    tensor_free(&y);
    y = RUN(&w, "axpy", "x=axpy-x.npy", "y=zeros:f32[5]", "a=2");
    assert_true(elem_get(EL_f32, y.data, 4) == 24);
    tensor_free(&y);
    y = RUN(&w, "softmax", "x=zeros:f32[2,4]", "y=softmax-y.npy");
    tensor_free(&y);
    assert_true(npy_read("softmax-y.npy", &back, &err));
    assert_true(back.rank == 2 && elem_get(EL_f32, back.data, 7) == 0.25);
    tensor_free(&back);
    y = RUN(&w, "double", "x=iota:bf16[2,4]", "off=1", "y=bits.npy");        // as u2: NumPy has no bf16
    tensor_free(&y);
    y = RUN(&w, "double", "x=bf16:bits.npy", "off=0");
    assert_true(y.elem == EL_bf16 && elem_get(y.elem, y.data, 3) == 14);
    tensor_free(&y);
    FAILS(&w, "`x` (bits.npy) holds u16, or the bits of bf16: say which, x=bf16:bits.npy or x=u16:bits.npy", "double",
          "x=bits.npy", "off=0");
    FAILS(&w, "`x` (bits.npy) holds u16; the kernel takes f32", "softmax", "x=bits.npy");
    unlink("bits.npy");
    unlink("axpy-x.npy");
    unlink("softmax-y.npy");
    end(&w);
}

static void runner(const char *device) {
    FILE *f = fopen("runner-test.tk", "w"), *log = tmpfile();
    fputs(source, f);
    fputs(tests, f);
    fclose(f);
    TestOptions opt = {.device = device, .to = log, .run = {.twice = true}};
    TestCounts counts;
    const char *path = "runner-test.tk";
    bool ok = test_paths(&path, 1, &opt, &counts);
    rewind(log);
    char text[4096] = {0};
    if (fread(text, 1, sizeof text - 1, log) == 0) fail();
    if (counts.passed != 3 || counts.failed != 1) print_error("%s\n", text);
    assert_false(ok);
    assert_int_equal(counts.passed, 3);
    assert_int_equal(counts.failed, 1);
    assert_non_null(strstr(text, "FAIL  runner-test.tk: wrong"));
    assert_non_null(strstr(text, "expect ~ within rel 1e-06: 32 of 32 elements out of bounds; worst at ["));
    assert_non_null(strstr(text, "3 passed, 1 failed, 0 skipped\n"));
    fclose(log);
    opt.to = tmpfile();
    opt.filter = "good";
    assert_true(test_paths(&path, 1, &opt, &counts));
    opt.filter = "nothing like this";
    assert_false(test_paths(&path, 1, &opt, &counts));
    fclose(opt.to);
    unlink("runner-test.tk");
}

static void runner_eval(void **state) { (void)state; runner("eval"); }
static void runner_emu(void **state) { (void)state; runner("emu"); }

// The median of 4 launches of axpy on 1000 elements; 0 where there is no timing.
static double timed(World *w, Buf *err) {
    TKernel *k = sema_instance((InstanceOf){.file = w->file, .item = sema_find_kernel(w->file, "axpy")});
    HostTensor x, y;
    int64_t dim[1] = {1000};
    RunControl ctl = {0};
    OpenLaunch l;
    double us = 0;
    assert_true(tensor_make(&x, EL_f32, 1, dim, err) && tensor_make(&y, EL_f32, 1, dim, err));
    KernelArg args[3] = {{.tensor = &x}, {.tensor = &y}, {.scalar = true, .ival = 2}};
    assert_true(launch_open(w->rt, k, args, 3, &ctl, &l, err));
    Timer *t = timer_open(runtime_device(w->rt), true, err);
    if (t) assert_true(timer_run(t, &l.prepared, 4, &us, err));
    timer_close(t);
    launch_close(&l);
    tensor_free(&x);
    tensor_free(&y);
    return us;
}

static void timing(void **state) {
    (void)state;
    Buf err = {0};
    World w = world("emu");
    assert_true(timed(&w, &err) > 0);
    end(&w);
    w = world("eval");
    timed(&w, &err);
    assert_says(&err, "the device eval is not for timing");
    end(&w);
    w = world_with("cuda", &(DeviceOptions){.driver = FAKE_WHOLE_PATH});       // every launch takes 500 us there
    assert_true(timed(&w, &err) == 500);
    end(&w);
}

// A driver that fails at a launch: the line says so, nothing is left behind.
static void refused(void **state) {
    (void)state;
    World w = world_with("cuda", &(DeviceOptions){.driver = FAKE_WHOLE_PATH});
    Fake fake = fake_driver();
    HostTensor y = RUN(&w, "axpy", "x=iota:f32[100]", "y=ones:f32[100]", "a=2");
    tensor_free(&y);
    int live = fake.get("live");                                      // the loaded module stays in the cache
    fake.fail_in("cuLaunchKernel", 1);
    FAILS(&w, "cuda: cannot launch `axpy` (grid ", "axpy", "x=iota:f32[100]", "y=ones:f32[100]", "a=2");
    assert_int_equal(fake.get("live"), live);
    fake.fail_in("cuMemAlloc_v2", 2);
    FAILS(&w, "GiB for `x`: the driver says \"out of memory\"", "axpy", "x=iota:f32[100]", "y=ones:f32[100]", "a=2");
    assert_int_equal(fake.get("live"), live);
    fake.fail_in("", 0);
    end(&w);
    assert_int_equal(fake.get("live"), 0);
    dlclose(fake.lib);
}

int main(void) {
    const struct CMUnitTest all[] = {
        cmocka_unit_test(on_eval),    cmocka_unit_test(on_emu), cmocka_unit_test(generic),
        cmocka_unit_test(agree),      cmocka_unit_test(files),  cmocka_unit_test(runner_eval),
        cmocka_unit_test(runner_emu), cmocka_unit_test(timing), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(all, NULL, NULL);
}
