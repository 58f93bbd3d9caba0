// `tkc tune` on a driver of our own making, whose clock counts blocks: which candidates are measured, which is the
// best, who finds it again, and what is written of it.

#include "tests/runtime/common.h"
#include "tests/runtime/fake.h"

#include <math.h>
#include <stdio.h>
#include <unistd.h>

#include "lang/ast.h"
#include "runtime/cache.h"
#include "runtime/tune.h"

static const char source[] =
    "kernel mm<BM = 128, BN = 128>(a: bf16[M, K], b: bf16[K, N], c: out bf16[M, N]) grid (m in M by BM, n in N by BN)\n"
    "{ var acc = zeros<f32>(m, n);  for k in K by 64 { acc += dot(a[m, k], b[k, n]); }  c[m, n] = acc as bf16; }\n"
    "tune mm { BM in [64, 128]; BN in [64, 128, 256]; key M, N; }\n"
    "\n"
    "kernel rows(x: f32[M, N], y: out f32[M], s: f32) grid (m in M) {\n"
    "    let n = N by 1024;\n"
    "    y[m] = s * sum(x[m, n] over n);\n"
    "}\n";

typedef struct World { Session *s; SemaFile *file; Device *dev; Runtime *rt; } World;

static Fake fake;

static int setup(void **state) {
    (void)state;
    fake = fake_driver();
    return 0;
}

static World world(void) {
    World w = {.s = session_new()};
    Buf err = {0};
    fake.reset();
    fake.set("by_blocks", 1);
    w.file = sema_file(w.s, parse_file(w.s, source_add(w.s, "tune-test.tk", source, strlen(source))));
    assert_int_equal(diag_errors(w.s), 0);
    w.dev = device_open("cuda", &(DeviceOptions){.driver = FAKE_WHOLE_PATH}, &err);
    assert_non_null(w.dev);
    w.rt = runtime_new(w.s, w.dev, &(RuntimeOptions){.compile.schedule = {.split_k = 1, .persistent = 1}});      // fewer to compile
    return w;
}

static void end(World *w) {
    runtime_free(w->rt);
    device_close(w->dev);
    session_free(w->s);
    assert_int_equal(fake.get("live"), 0);
}

static bool tune(World *w, const char *kernel, const SemaValue *known, int n, const TuneArg *args, int nargs,
                 const TuneOptions *opt, TuneResult *r, Buf *err) {
    return tune_kernel(w->rt, (InstanceOf){w->file, sema_find_kernel(w->file, kernel), NULL, 0, known, n}, args, nargs, opt, r, err);
}

static const SemaValue dims[] = {{.name = "M", .ival = 512}, {.name = "N", .ival = 512}, {.name = "K", .ival = 256}};

static int64_t value_of(const TKernel *k, const char *name) {
    for (int i = 0; i < k->nbindings; i++) if (strcmp(k->bindings[i].name->s, name) == 0) return k->bindings[i].ival;
    return -1;
}

// Few blocks are fast here: the largest tile is the best whatever the model says, and that is what later launches take.
static void best(void **state) {
    (void)state;
    World w = world();
    TuneResult r, back;
    Buf err = {0}, bytes = {0}, text = {0};
    Choice c;
    const Node *mm = sema_find_kernel(w.file, "mm");
    const CompileOptions *opt = &runtime_options(w.rt)->compile;
    if (!tune(&w, "mm", dims, 3, NULL, 0, &(TuneOptions){.all = true}, &r, &err)) fail_msg("%s", err.p);
    assert_non_null(strstr(r.row[0].choice, "BM = 128, BN = 256"));
    assert_true(fabs(r.row[0].us - 18) < 1e-3);
    assert_true(r.row[r.model].us >= r.row[0].us && fabs(r.row[r.defaults].us - 26) < 1e-3);
    for (int i = 1; i < r.n; i++) assert_true(r.row[i].us >= r.row[i - 1].us || r.row[i].us == 0);
    assert_int_equal(r.looked, r.n);
    assert_string_equal(r.device, "Fake GPU");
    assert_true(r.bytes == 2 * (512 * 256 * 2 + 512 * 512) && r.flops == 2.0 * 512 * 512 * 256);

    assert_true(runtime_choose(w.rt, (InstanceOf){w.file, mm, NULL, 0, dims, 3}, opt, &c));
    assert_int_equal(value_of(c.kernel, "BN"), 256);
    assert_non_null(strstr(c.why, "18.0 us measured on Fake GPU"));
    SemaValue other[] = {dims[0], dims[1], {.name = "K", .ival = 1024}},
              larger[] = {dims[0], {.name = "N", .ival = 1024}, dims[2]};
    assert_true(runtime_choose(w.rt, (InstanceOf){w.file, mm, NULL, 0, other, 3}, opt, &c));              // K is not in the key
    assert_non_null(strstr(c.why, "measured"));
    assert_true(runtime_choose(w.rt, (InstanceOf){w.file, mm, NULL, 0, larger, 3}, opt, &c));
    assert_null(strstr(c.why, "measured"));
    SemaValue bm = {.name = "BM", .ival = 64};
    // what the caller sets is another question
    assert_true(runtime_choose(w.rt, (InstanceOf){w.file, mm, &bm, 1, dims, 3}, opt, &c));
    assert_int_equal(value_of(c.kernel, "BM"), 64);
    assert_true(kernel_choose(w.s, (InstanceOf){w.file, mm, NULL, 0, dims, 3}, opt, &c));
    assert_null(strstr(c.why, "measured"));

    tune_bytes(&r, &bytes);
    assert_true(tune_parse(&bytes, &back));
    assert_int_equal(back.n, r.n);
    assert_string_equal(back.row[0].choice, r.row[0].choice);
    assert_true(back.row[0].us == r.row[0].us && back.model == r.model);
    tune_print(&back, 3, &text);
    assert_non_null(strstr(text.p, "mm, M = 512, N = 512, K = 256, on Fake GPU:"));
    assert_non_null(strstr(text.p, "the model's choice"));
    bytes.p[bytes.n / 2] = 0;
    bytes.n /= 8;
    TuneResult none;
    assert_false(tune_parse(&bytes, &none));
    tune_result_free(&back);
    tune_result_free(&r);
    buf_free(&bytes);
    buf_free(&text);
    end(&w);
}

// The disk: another session finds it, one whose kernel means something else does not.
static void kept(void **state) {
    (void)state;
    char folder[] = "/tmp/tune-test-XXXXXX";
    TuneResult r;
    Buf err = {0};
    Choice c;
    assert_non_null(mkdtemp(folder));
    setenv("TKC_CACHE", "on", 1);
    setenv("TKC_CACHE_DIR", folder, 1);
    World w = world();
    assert_true(tune(&w, "mm", dims, 3, NULL, 0, &(TuneOptions){.all = true}, &r, &err));
    tune_result_free(&r);
    end(&w);
    // for the device, and for its target
    assert_int_equal(cache_use().measured, 2);
    w = world();
    const CompileOptions *opt = &runtime_options(w.rt)->compile;
    assert_true(tuned_choose(NULL, "Fake GPU", w.s, (InstanceOf){w.file, sema_find_kernel(w.file, "mm"), NULL, 0, dims, 3}, opt, &c));
    assert_non_null(strstr(c.why, "measured"));
    assert_true(tuned_choose(NULL, NULL, w.s, (InstanceOf){w.file, sema_find_kernel(w.file, "mm"), NULL, 0, dims, 3}, opt, &c));
    assert_non_null(strstr(c.why, "measured"));
    assert_true(tuned_choose(NULL, "Another GPU", w.s, (InstanceOf){w.file, sema_find_kernel(w.file, "mm"), NULL, 0, dims, 3}, opt, &c));
    assert_null(strstr(c.why, "measured"));
    // the item allows less than was measured
    Buf changed = {0};
    buf_printf(&changed, "%s", source);
    char *at = strstr(changed.p, "128, 256]");
    assert_non_null(at);
    memcpy(at, "128, 128]", strlen("128, 128]"));
    SemaFile *file = sema_file(w.s, parse_file(w.s, source_add(w.s, "changed.tk", changed.p, changed.n)));
    assert_true(tuned_choose(NULL, NULL, w.s, (InstanceOf){file, sema_find_kernel(file, "mm"), NULL, 0, dims, 3}, opt, &c));
    assert_null(strstr(c.why, "measured"));
    buf_free(&changed);
    end(&w);
    assert_true(cache_clear() > 2);
    assert_false(cache_any_measured());
    rmdir(folder);
    setenv("TKC_CACHE", "off", 1);
    unsetenv("TKC_CACHE_DIR");
}

// A kernel without a tune item: its schedule. Blocks of more threads than registers are for are refused, and those that
// spill.
static void without_item(void **state) {
    (void)state;
    World w = world();
    SemaValue known[] = {{.name = "M", .ival = 64}, {.name = "N", .ival = 1000}};
    TuneArg args[] = {{.name = "s", .arg = {.scalar = true, .is_float = true, .fval = 0.5}}};
    TuneResult r;
    Buf err = {0}, text = {0}, diff = {0};
    assert_false(tune(&w, "rows", known, 2, NULL, 0, NULL, &r, &err));
    assert_says(&err, "`rows` needs a value for `s` (f32)");
    assert_false(tune(&w, "rows", known, 1, args, 1, NULL, &r, &err));
    assert_says(&err, "N is not known");
    fake.set("spills_at", 256);
    assert_true(tune(&w, "rows", known, 2, args, 1, &(TuneOptions){.all = true}, &r, &err));
    int spilled = 0, large = 0, last = 0;
    for (int i = 0; i < r.n; i++) {
        spilled += r.row[i].refused && strstr(r.row[i].refused, "spills 8 bytes a thread");
        large += r.row[i].refused && strstr(r.row[i].refused, "1024 threads, where registers are for 512");
        if (r.row[i].us > 0) assert_int_equal(last, i), last = i + 1;                        // those measured come first
    }
    assert_true(spilled == 2 && large == 1 && last == 4);
    assert_true(tune_write(w.file, w.s, sema_find_kernel(w.file, "rows"), &r, 1, &text, &diff, &err) ||
                strstr(err.p, "nothing to write"));
    buf_free(&err);
    buf_free(&text);
    buf_free(&diff);
    tune_result_free(&r);
    end(&w);
}

// Results are held against those of the first, as closely as sums in another order allow.
static void checked(void **state) {
    (void)state;
    enum { M = 300 };
    World w = world();
    Buf err = {0};
    Device *d = device_open("eval", NULL, &err);
    const LaunchInfo *info = ir_build(w.s, sema_instance((InstanceOf){.file = w.file, .item = sema_find_kernel(w.file, "rows")}))
                                 ->launch;
    BindArg args[3] = {
        {.elem = EL_f32, .rank = 2, .dim = {M, 4}}, {.elem = EL_f32, .rank = 1, .dim = {M}}, {.scalar = true}};
    float y[M], zero[M];
    TuneCheck c = {0};
    for (int p = 0; p < 2; p++) {
        bind_contiguous(&args[p]);
        args[p].address = d->ops->alloc(d, bind_extent(&args[p]), "test", &err);
    }
    for (int i = 0; i < M; i++) y[i] = (float)i;
    assert_true(d->ops->write(d, args[1].address, y, sizeof y, &err) && tune_check_end(&c, d, info, args, &err));
    assert_true(tune_check_begin(d, info, args, &err) && d->ops->read(d, zero, args[1].address, sizeof zero, &err));
    for (int i = 0; i < M; i++) assert_true(zero[i] == 0);
    assert_false(tune_check_end(&c, d, info, args, &err));                                   // nothing was written
    assert_says(&err, "`y` differs from that of the model's choice: 0, not 2");
    for (int i = 0; i < M; i++) y[i] *= 1.0005f;
    assert_true(d->ops->write(d, args[1].address, y, sizeof y, &err) && tune_check_end(&c, d, info, args, &err));
    y[7] = NAN;
    assert_true(d->ops->write(d, args[1].address, y, sizeof y, &err));
    assert_false(tune_check_end(&c, d, info, args, &err));
    assert_says(&err, "at element 7");
    for (int p = 0; p < 2; p++) d->ops->free(d, args[p].address);
    tune_check_free(&c);
    device_close(d);
    end(&w);
}

// The source that --write leaves parses, and takes what was measured; a second time nothing changes.
static void written(void **state) {
    (void)state;
    World w = world();
    TuneResult r;
    Buf err = {0}, text = {0}, diff = {0}, again = {0}, same = {0};
    Choice c;
    assert_true(tune(&w, "mm", dims, 3, NULL, 0, &(TuneOptions){.all = true}, &r, &err));
    assert_true(tune_write(w.file, w.s, sema_find_kernel(w.file, "mm"), &r, 1, &text, &diff, &err));
    assert_non_null(strstr(diff.p, "-tune mm { BM in"));
    assert_non_null(
        strstr(text.p, "where M != 512 || N != 512 || (BM == 128 && BN == 256);      // 18.0 us on Fake GPU\n}\n"));
    Session  *s = session_new();
    SemaFile *file = sema_file(s, parse_file(s, source_add(s, "written.tk", text.p, text.n)));
    assert_int_equal(diag_errors(s), 0);
    assert_true(kernel_choose(s, (InstanceOf){file, sema_find_kernel(file, "mm"), NULL, 0, dims, 3}, &runtime_options(w.rt)->compile, &c));
    assert_int_equal(value_of(c.kernel, "BM"), 128);
    assert_int_equal(value_of(c.kernel, "BN"), 256);
    SemaValue larger[] = {dims[0], {.name = "N", .ival = 64}, dims[2]};
    assert_true(
        kernel_choose(s, (InstanceOf){file, sema_find_kernel(file, "mm"), NULL, 0, larger, 3}, &runtime_options(w.rt)->compile, &c));
    assert_int_not_equal(value_of(c.kernel, "BN"), 256);
    assert_true(tune_write(file, s, sema_find_kernel(file, "mm"), &r, 1, &again, &same, &err));
    assert_int_equal(same.n, 0);
    assert_string_equal(again.p, text.p);
    session_free(s);
    buf_free(&text);
    buf_free(&diff);
    buf_free(&again);
    tune_result_free(&r);
    end(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(best), cmocka_unit_test(kept), cmocka_unit_test(without_item),
                                       cmocka_unit_test(checked), cmocka_unit_test(written)};
    return cmocka_run_group_tests(tests, setup, NULL);
}
