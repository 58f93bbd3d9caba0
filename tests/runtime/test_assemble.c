// Several kernels at once are assembled by ptxas, where there is one (runtime/assemble.h): one of our own making, which
// is a script.

#include "tests/runtime/common.h"
#include "tests/runtime/fake.h"

#include "runtime/cache.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

static const char source[] =
    "kernel add(a: f32[N], b: f32[N], y: out f32[N]) grid (n in N by 1024) { y[n] = a[n] + b[n]; }\n"
    "kernel twice(x: f32[N], y: out f32[N]) grid (n in N by 1024) { y[n] = x[n] * 2; }\n"
    "kernel half(x: f32[N], y: out f32[N]) grid (n in N by 1024) { y[n] = x[n] / 2; }\n"
    "kernel less(x: f32[N], y: out f32[N]) grid (n in N by 1024) { y[n] = x[n] - 1; }\n"
    "graph four(x: f32[N]) -> (y: f32[N]) { y = add(twice(x), half(less(x))); }\n"
    "graph two(x: f32[N]) -> (y: f32[N]) { y = twice(half(x)); }\n";

static char folder[] = "/tmp/tkc-ptxas-XXXXXX";
static Fake fake;

static const char *in_folder(const char *name) {
    static char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

// What a ptxas does: `ptxas -v -arch=sm_90a IN -o OUT`.
static void ptxas(const char *does) {
    FILE *f = fopen(in_folder("ptxas"), "w");
    fprintf(f, "#!/bin/sh\necho $5 >> %s/calls\n%s\n", folder, does);
    fclose(f);
    assert_int_equal(chmod(in_folder("ptxas"), 0700), 0);
}

static int asked(void) {                                                 // how often, since it was asked for last
    int n = 0;
    FILE *f = fopen(in_folder("calls"), "r");
    for (int c; f && (c = fgetc(f)) != EOF;) n += c == '\n';
    if (f) fclose(f);
    unlink(in_folder("calls"));
    return n;
}

static int setup(void **state) {
    (void)state;
    static char path[4096];
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s:%s", folder, getenv("PATH"));
    setenv("PATH", path, 1);
    setenv("TKC_CACHE_DIR", in_folder("cache"), 1);
    unsetenv("TKC_CACHE");
    unsetenv("TKC_PTXAS");
    fake = fake_driver();
    return 0;
}

static int teardown(void **state) {
    (void)state;
    cache_clear();
    dlclose(fake.lib);
    unlink(in_folder("ptxas"));
    rmdir(in_folder("cache"));
    return rmdir(folder);
}

// A run of a graph, the device opened before or meanwhile; how many modules the driver was given as machine code, and as PTX.
static void run_with(const char *graph, bool meanwhile, int *cubins, int *texts) {
    Buf err = {0};
    fake.reset();
    Session *s = session_new();
    SemaFile *file = sema_file(s, parse_file(s, source_add(s, "test.tk", source, strlen(source))));
    const DeviceOptions where = {.driver = FAKE_WHOLE_PATH};
    Device *d = meanwhile ? device_found(device_open_later("cuda", &where), &err) : device_open("cuda", &where, &err);
    assert_non_null(d);
    Runtime *rt = runtime_new(s, d, NULL);
    GraphExec *x = graph_open(rt, (InstanceOf){.file = file, .item = sema_find_graph(file, graph)});
    HostTensor in, y = {0};
    assert_true(tensor_make(&in, EL_f32, 1, (int64_t[]){100}, &err));
    KernelArg args[2] = {{.tensor = &in}, {.tensor = &y}};
    if (!graph_run(x, args, 2, NULL, &err)) fail_msg("%s", err.p);
    *cubins = *texts = 0;
    for (const char *at = fake.calls(); (at = strstr(at, "load ")); at++) {
        *cubins += strncmp(at, "load cubin", 10) == 0;
        *texts += strncmp(at, "load text", 9) == 0;
    }
    tensor_free(&in);
    tensor_free(&y);
    graph_close(x);
    runtime_free(rt);
    device_closed(device_close_later(d));
    session_free(s);
    assert_int_equal(fake.get("live"), 0);
}

static void run(const char *graph, int *cubins, int *texts) { run_with(graph, false, cubins, texts); }

static void made_and_kept(void **state) {
    (void)state;
    int cubins, texts;
    ptxas("printf '\\177ELF fine' > $5");
    run("four", &cubins, &texts);
    assert_true(cubins == 4 && texts == 0 && asked() == 4);
    run("four", &cubins, &texts);                                      // from the cache
    assert_true(cubins == 4 && texts == 0 && asked() == 0);
    run("two", &cubins, &texts);
    assert_true(cubins == 2 && asked() == 0);
    run_with("four", true, &cubins, &texts);                           // read while the device is opened
    assert_true(cubins == 4 && texts == 0 && asked() == 0);
    cache_clear();
    run_with("four", true, &cubins, &texts);                           // .. where nothing is there
    assert_true(cubins == 4 && texts == 0 && asked() == 4);
    run_with("four", true, &cubins, &texts);
    assert_true(cubins == 4 && texts == 0 && asked() == 0);
    cache_clear();
    run("two", &cubins, &texts);                                       // few: the driver is as quick
    assert_true(cubins == 0 && texts == 2 && asked() == 0);
    setenv("TKC_PTXAS", "off", 1);
    run("four", &cubins, &texts);
    assert_true(cubins == 0 && texts == 4 && asked() == 0);
    unsetenv("TKC_PTXAS");
}

static void refused(void **state) {
    (void)state;
    int cubins, texts;
    ptxas("exit 1");
    cache_clear();
    run("four", &cubins, &texts);
    assert_true(cubins == 0 && texts == 4 && asked() <= 4);
    ptxas("printf '\\177ELF refused' > $5");                            // too new for the driver
    run("four", &cubins, &texts);
    assert_true(texts == 4 && asked() <= 4);
    run("four", &cubins, &texts);                                      // and nothing of it was kept
    assert_true(texts == 4 && asked() > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(made_and_kept), cmocka_unit_test(refused)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
