// The cache on disk: hits, damage, bounds, folders that cannot be written, many processes at once; and kernels through it.

#include "tests/runtime/common.h"

#include "runtime/cache.h"
#include "runtime/tkc.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char folder[] = "/tmp/tkc-cache-test-XXXXXX";

static int setup(void **state) {
    (void)state;
    unsetenv("TKC_CACHE");
    unsetenv("TKC_CACHE_MIB");
    if (!mkdtemp(folder)) return 1;
    char inner[128];
    snprintf(inner, sizeof inner, "%s/a/b", folder);
    return setenv("TKC_CACHE_DIR", inner, 1);
}

static int teardown(void **state) {
    (void)state;
    char text[128];
    cache_clear();
    snprintf(text, sizeof text, "%s/a/b", folder);
    rmdir(text);
    snprintf(text, sizeof text, "%s/a", folder);
    rmdir(text);
    return rmdir(folder);                                            // and nothing else was left there
}

static Buf words(const char *text) { Buf b = {0}; buf_puts(&b, text); return b; }

static void put(const char *key, const char *value) {
    Buf k = words(key), v = words(value);
    cache_put(&k, &v);
    buf_free(&k);
    buf_free(&v);
}

static bool holds(const char *key, const char *value) {
    Buf k = words(key), got = {0};
    bool hit = cache_get(&k, &got) && strcmp(got.p, value) == 0;
    buf_free(&k);
    buf_free(&got);
    return hit;
}

static void hits(void **state) {
    (void)state;
    assert_false(holds("one", "1"));
    assert_int_equal(cache_use().files, 0);
    put("one", "1");
    put("two", "22");
    put("one", "1");
    assert_true(holds("one", "1") && holds("two", "22"));
    assert_false(holds("three", "3"));
    assert_int_equal(cache_use().files, 2);
    static const char *const off[] = {"off", "OFF", "Off", "no", "false", "0"}, *const on[] = {"", "on", "1", "offer"};
    for (size_t i = 0; i < sizeof off / sizeof *off; i++) {
        setenv("TKC_CACHE", off[i], 1);
        assert_false(holds("one", "1"));
        put("four", "4");
    }
    for (size_t i = 0; i < sizeof on / sizeof *on; i++) {
        setenv("TKC_CACHE", on[i], 1);
        assert_true(holds("one", "1"));
    }
    unsetenv("TKC_CACHE");
    assert_false(holds("four", "4"));
    assert_int_equal(cache_clear(), 2);
    assert_false(holds("one", "1"));
}

// Calls `harm` for each file of the cache.
static void each_file(void (*harm)(const char *path, int how), int how) {
    Buf where = {0};
    assert_true(cache_folder(&where));
    DIR *d = opendir(where.p);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;) {
        char path[512];
        if (e->d_name[0] == '.') continue;
        snprintf(path, sizeof path, "%s/%s", where.p, e->d_name);
        harm(path, how);
    }
    closedir(d);
    buf_free(&where);
}

static void flip(const char *path, int at) {
    int fd = open(path, O_RDWR);
    char c;
    assert_true(pread(fd, &c, 1, at) == 1);
    c ^= 0x40;
    assert_true(pwrite(fd, &c, 1, at) == 1);
    close(fd);
}

static void cut(const char *path, int size) { assert_int_equal(truncate(path, size), 0); }

static void damage(void **state) {
    (void)state;
    enum { SIZE = 8 + 3 * 8 + 3 + 5 };                               // head, "key", "value"
    for (int at = 0; at < SIZE; at++)
        for (int kind = 0; kind < 2; kind++) {
            put("key", "value");
            assert_true(holds("key", "value"));
            each_file(kind ? cut : flip, at);
            assert_false(holds("key", "value"));
            assert_int_equal(cache_use().files, 0);                  // it is gone, and is made again
        }
    put("key", "value");
    assert_true(holds("key", "value"));
    cache_clear();
}

static void age(const char *path, int seconds) {
    struct timespec t[2] = {{.tv_sec = time(NULL) - seconds}, {.tv_sec = time(NULL) - seconds}};
    utimensat(AT_FDCWD, path, t, 0);
}

static void bounded(void **state) {
    (void)state;
    Buf big = {0};
    for (int i = 0; i < 300 << 10; i++) buf_putc(&big, (char)('a' + i % 26));
    setenv("TKC_CACHE_MIB", "1", 1);
    put("old", big.p);
    each_file(age, 1000);
    put("used", big.p);
    each_file(age, 500);
    assert_true(holds("old", big.p));                                // now the youngest
    put("new", big.p);
    assert_int_equal(cache_use().files, 3);
    put("newer", big.p);
    assert_true(cache_use().bytes <= 1 << 20);
    assert_false(holds("used", big.p));
    assert_true(holds("old", big.p) && holds("new", big.p) && holds("newer", big.p));
    for (int i = 0; i < 2; i++) { Buf twice = words(big.p); buf_puts(&big, twice.p); buf_free(&twice); }
    put("too big", big.p);
    assert_false(holds("too big", big.p));
    assert_int_equal(cache_use().files, 3);
    setenv("TKC_CACHE_MIB", "0", 1);
    put("none", "x");
    assert_false(holds("none", "x"));
    unsetenv("TKC_CACHE_MIB");
    cache_clear();
    buf_free(&big);
}

static void no_home(void **state) {                          // a user without one gets none made
    (void)state;
    char was[128];
    Buf where = {0};
    snprintf(was, sizeof was, "%s", getenv("TKC_CACHE_DIR"));
    unsetenv("TKC_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", "/no/such/home", 1);
    assert_false(cache_folder(&where));
    setenv("HOME", "/", 1);
    assert_true(cache_folder(&where));
    buf_free(&where);
    setenv("TKC_CACHE_DIR", was, 1);
}

static void no_room(void **state) {
    (void)state;
    char was[128];
    snprintf(was, sizeof was, "%s", getenv("TKC_CACHE_DIR"));
    setenv("TKC_CACHE_DIR", "/dev/null/cache", 1);                   // no folder, whoever asks
    put("a", "b");
    assert_false(holds("a", "b"));
    assert_int_equal(cache_use().files + cache_clear(), 0);
    setenv("TKC_CACHE_DIR", was, 1);
    put("a", "b");
    chmod(was, 0500);
    if (geteuid() != 0) {                                            // root writes everywhere
        put("c", "d");
        assert_false(holds("c", "d"));
    }
    assert_true(holds("a", "b"));
    chmod(was, 0700);
    cache_clear();
}

// Whatever another user could have put there is not taken, not waited for and not removed.
static void open_to_others(const char *path, int mode) { assert_int_equal(chmod(path, (mode_t)mode), 0); }

static void as_link(const char *path, int how) {
    char away[600];
    (void)how;
    snprintf(away, sizeof away, "%s.away", path);
    assert_int_equal(rename(path, away) | symlink(away, path), 0);
}

static void as_pipe(const char *path, int how) { (void)how; assert_int_equal(unlink(path) | mkfifo(path, 0600), 0); }

static void of_another(const char *path, int how) { assert_int_equal(lchown(path, (uid_t)how, (gid_t)-1), 0); }

static void remove_one(const char *path, int how) { (void)how; assert_int_equal(unlink(path), 0); }

static void not_ours(void **state) {
    (void)state;
    static const struct { void (*harm)(const char *, int); int how; bool root; } entries[] = {
        {open_to_others, 0620, false}, {open_to_others, 0602, false}, {open_to_others, 0666, false},
        {as_link, 0, false}, {as_pipe, 0, false}, {of_another, 12345, true},
    };
    const char *where = getenv("TKC_CACHE_DIR");
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        if (entries[i].root && geteuid() != 0) continue;
        put("key", "value");
        each_file(entries[i].harm, entries[i].how);
        alarm(20);
        assert_false(holds("key", "value"));
        put("key", "other");                                         // ours takes its place
        assert_true(holds("key", "other"));
        cache_clear();
        alarm(0);
        each_file(remove_one, 0);
    }
    static const int modes[] = {0777, 01777, 0770, 0720, 0702};
    put("key", "value");
    put(CACHE_MEASURED "key", "value");
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        chmod(where, (mode_t)modes[i]);
        assert_true(cache_refused());
        assert_false(holds("key", "value") || holds(CACHE_MEASURED "key", "value") || cache_any_measured());
        put("new", "value");
        assert_int_equal(cache_use().files + cache_use().measured + cache_clear(), 0);
        chmod(where, 0700);
        assert_true(!cache_refused() && holds("key", "value") && !holds("new", "value"));
    }
    if (geteuid() == 0) {
        of_another(where, 12345);
        assert_true(cache_refused() && !holds("key", "value"));
        of_another(where, 0);
    }
    char inner[200];
    snprintf(inner, sizeof inner, "%s/measured", where);
    chmod(inner, 0777);
    assert_false(holds(CACHE_MEASURED "key", "value") || cache_any_measured());
    chmod(inner, 0700);
    assert_true(holds(CACHE_MEASURED "key", "value"));
    cache_clear();
}

// Processes that write, read, clear and bound the same few keys: whatever is found is whole.
static void processes(void **state) {
    (void)state;
    enum { PROCESSES = 6, ROUNDS = 150, KEYS = 5 };
    pid_t child[PROCESSES];
    setenv("TKC_CACHE_MIB", "1", 1);
    for (int c = 0; c < PROCESSES; c++) {
        child[c] = fork();
        if (child[c]) continue;
        Buf big = {0};
        for (int i = 0; i < 250 << 10; i++) buf_putc(&big, (char)('a' + i % 26));
        for (int r = 0; r < ROUNDS; r++) {
            Buf key = {0}, got = {0};
            buf_printf(&key, "key %d", (r * 7 + c) % KEYS);
            if (cache_get(&key, &got) && (got.n != big.n || memcmp(got.p, big.p, big.n))) _exit(1);
            cache_put(&key, &big);
            if (r % 50 == 49) cache_clear();
            buf_free(&key);
            buf_free(&got);
        }
        _exit(0);
    }
    for (int c = 0; c < PROCESSES; c++) {
        int status = -1;
        waitpid(child[c], &status, 0);
        assert_int_equal(status, 0);
    }
    assert_true(cache_use().bytes <= 2 << 20);
    unsetenv("TKC_CACHE_MIB");
    cache_clear();
}

// ---- kernels -------------------------------------------------------------------------------------

// y = x * BY on emu from a program's first compilation in this process, and what the cache held afterwards.
static int files_after(const char *text, const char *by, float want) {
    tkc_context *ctx;
    tkc_program *prog;
    tkc_launch  *run;
    float x[128], y[128];
    for (int i = 0; i < 128; i++) x[i] = (float)i;
    tkc_value v = {"BY", by};
    tkc_arg args[] = {
        {.name = "x", .tensor = {.data = x, .dtype = TKC_F32, .rank = 1, .dims = {128}}},
        {.name = "y", .tensor = {.data = y, .dtype = TKC_F32, .rank = 1, .dims = {128}}},
    };
    if (tkc_open("emu", NULL, &ctx) || tkc_load_text(ctx, "k.tk", text, strlen(text), &prog) ||
        tkc_prepare(prog, "k", &v, 1, args, 2, &run) || tkc_run(run, NULL))
        fail_msg("%s", tkc_error());
    for (int i = 0; i < 128; i++) assert_true(y[i] == want * (float)i);
    tkc_launch_free(run);
    tkc_unload(prog);
    tkc_close(ctx);
    return cache_use().files;
}

static void spoil(const char *path, int how) {
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    flip(path, (int)st.st_size - 20 - how);
}

static void kernels(void **state) {
    (void)state;
    static const char k[] = "kernel k<BY = 2>(x: f32[N], y: out f32[N]) grid (n in N by 64) { y[n] = x[n] * BY; }\n";
    static const char other[] =
        "kernel k<BY = 2>(x: f32[N], y: out f32[N]) grid (n in N by 64) { y[n] = x[n] * (BY + 1); }\n";
    assert_int_equal(files_after(k, "2", 2), 1);
    assert_int_equal(files_after(k, "2", 2), 1);                     // found: y is as it was
    assert_int_equal(files_after(k, "3", 3), 2);
    assert_int_equal(files_after(other, "2", 3), 3);
    each_file(spoil, 0);
    assert_int_equal(files_after(k, "2", 2), 3);                     // made again in place of the damaged one
    assert_int_equal(files_after(k, "3", 3), 3);
    cache_clear();
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hits),    cmocka_unit_test(damage),    cmocka_unit_test(bounded),
        cmocka_unit_test(no_room), cmocka_unit_test(processes), cmocka_unit_test(kernels), cmocka_unit_test(no_home),
        cmocka_unit_test(not_ours),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
