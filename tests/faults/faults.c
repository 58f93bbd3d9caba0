// Injected failures: each allocation and each call of the system that our own code makes fails once, in runs of a scenario.
//
//     base/   what a scenario finds: sources, data, old results, a cache
//     ref/    what it leaves where nothing fails
//     run/    what it leaves where call n failed        for n = one of each place in the code (its callers' addresses), or all
//
// Every run is a process of its own. It ends well, with the results of ref/, or ends with a status and words; then each file is that of
// base/ or that of ref/, none is there that is in neither, and no block, mapping or descriptor is left over. Calls of the library are
// made again after the failure, in the same context, and then go well.
//
//     faults SCENARIO DATA WORK                a sample of the places: what the tests run
//     faults SCENARIO DATA WORK all            every call
//     faults SCENARIO DATA WORK memory 17      that one alone; FAULTS_TRACE=1: with those who called (files: the other kind)
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/faults/scenarios.h"

enum { PATH = 1024, NAMES = 256, SAMPLES = 60, ONWARDS = 6 };

typedef struct Name { char path[256]; } Name;
typedef struct Tree { Name at[NAMES]; int n; } Tree;

static FaultLayer *layer;
static char work[PATH], data[PATH];
static bool all;
static int  spare;                           // blocks that stay with the process
static int  wrong;

// ---- trees ---------------------------------------------------------------------------------------

static void list(const char *root, const char *below, Tree *t) {
    char path[PATH * 2];
    snprintf(path, sizeof path, "%s/%s", root, below);
    DIR *d = opendir(path);
    for (struct dirent *e; d && (e = readdir(d));) {
        struct stat st;
        Name name;
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        if (snprintf(name.path, sizeof name.path, "%s%s%s", below, *below ? "/" : "", e->d_name) >= (int)sizeof name.path || t->n == NAMES) abort();
        snprintf(path, sizeof path, "%s/%s", root, name.path);
        if (lstat(path, &st)) continue;
        t->at[t->n++] = name;
        if (S_ISDIR(st.st_mode)) list(root, name.path, t);
    }
    if (d) closedir(d);
}

static char *content(const char *root, const char *name, size_t *n) {      // NULL: no such file; a folder is ""
    char path[PATH * 2];
    snprintf(path, sizeof path, "%s/%s", root, name);
    struct stat st;
    if (lstat(path, &st)) return NULL;
    char *p = calloc(1, (size_t)st.st_size + 1);
    *n = 0;
    if (S_ISDIR(st.st_mode)) return p;
    FILE *f = fopen(path, "rb");
    if (f) *n = fread(p, 1, (size_t)st.st_size, f), fclose(f);
    return p;
}

static bool same(const char *a, const char *b, const char *name) {
    size_t na, nb;
    char  *x = content(a, name, &na), *y = content(b, name, &nb);
    bool   equal = x && y && na == nb && !memcmp(x, y, na);
    free(x), free(y);
    return equal;
}

static void clear(const char *root) {
    Tree *t = calloc(1, sizeof *t);
    char  path[PATH * 2];
    list(root, "", t);
    for (int i = t->n - 1; i >= 0; i--) snprintf(path, sizeof path, "%s/%s", root, t->at[i].path), remove(path);
    free(t);
    remove(root);
}

static void copy(const char *from, const char *to) {
    Tree *t = calloc(1, sizeof *t);
    char  path[PATH * 2];
    clear(to);
    mkdir(to, 0700);
    list(from, "", t);
    for (int i = 0; i < t->n; i++) {
        size_t n;
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", from, t->at[i].path);
        bool  folder = !stat(path, &st) && S_ISDIR(st.st_mode);
        char *p = content(from, t->at[i].path, &n);
        snprintf(path, sizeof path, "%s/%s", to, t->at[i].path);
        if (folder) mkdir(path, 0700);
        else {
            FILE *f = fopen(path, "wb");
            if (!f || fwrite(p, 1, n, f) != n || fclose(f)) abort();
        }
        free(p);
    }
    free(t);
}

// ---- runs ----------------------------------------------------------------------------------------

static char *at(char *to, const char *name) {
    snprintf(to, PATH * 2, "%s/%s", work, name);
    return to;
}

static void redirect(int fd, const char *name) {
    char path[PATH * 2];
    int  to = open(at(path, name), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(to, fd);
    close(to);
}

// The scenario in a folder. Its exit status; -N: a signal.
static int run(int (*what)(void), const char *folder, bool counted) {
    char path[PATH * 2];
    int  status;
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        redirect(1, "out.txt");
        redirect(2, "err.txt");
        if (chdir(at(path, folder))) abort();
        alarm(60);
        if (counted) layer_begin(layer);
        int rc = what();
        layer_end();
        fflush(stdout);
        exit(rc);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static void prepare(const Scenario *s) {
    char base[PATH * 2], path[PATH * 2];
    copy(data, at(base, "base"));
    mkdir(at(path, "base/tmp"), 0700);
    mkdir(at(path, "base/cache"), 0700);
    if (s->before && run(s->before, "base", false)) {
        fprintf(stderr, "%s: what comes before it fails\n", s->name);
        exit(2);
    }
}

static uint32_t failing;                     // layer->at, which the scenario may take back

static void complain(const char *why, const char *name, int status) {
    size_t n;
    char *err = content(work, "err.txt", &n);
    fprintf(stderr, "%s %u (%s)%s: status %d: %s%s%s\n%s", layer->kind == FAULT_MEMORY ? "allocation" : "call", failing, layer->what,
            layer->onwards ? " and all after it" : "", status, why, name ? " " : "", name ? name : "", err ? err : "");
    free(err);
    wrong++;
}

static bool in_cache(const char *name) { return !strncmp(name, "cache/", 6); }

static void check_files(int status) {
    char base[PATH * 2], ref[PATH * 2], now[PATH * 2];
    at(base, "base"), at(ref, "ref"), at(now, "run");
    Tree *t = calloc(1, sizeof *t), *want = calloc(1, sizeof *want);
    list(now, "", t);
    for (int i = 0; i < t->n; i++) {
        const char *name = t->at[i].path;
        bool as_ref = same(now, ref, name);
        bool fine = as_ref || (status && same(now, base, name)) || (!status && in_cache(name) && strlen(name) > 4 && !strcmp(name + strlen(name) - 4, ".art"));
        if (!fine) complain("it leaves, or leaves wrong,", name, status);
    }
    list(base, "", want);
    if (status == 0) want->n = 0, list(ref, "", want);
    for (int i = 0; i < want->n; i++) {
        struct stat st;
        char path[PATH * 3];
        snprintf(path, sizeof path, "%s/%s", now, want->at[i].path);
        if (!in_cache(want->at[i].path) && lstat(path, &st)) complain("it loses", want->at[i].path, status);
    }
    free(t), free(want);
}

static void check(int status, const FaultLayer *ref) {
    size_t n, m;
    char *err = content(work, "err.txt", &n), *out = content(work, "out.txt", &m);
    if (status < 0) complain("a signal", NULL, status);
    else if (status > 2) complain("a status that no failure has", NULL, status);
    else if (status && !n && !strstr(out, "FAIL") && !strstr(out, "memory")) complain("no words", NULL, status);
    else if (status && (strstr(err, "internal error") || strstr(err, "(null)"))) complain("wrong words", NULL, status);
    else if (!status && !same(work, work, "out.txt")) complain("no output", NULL, status);
    if (status >= 0 && layer->blocks > ref->blocks + spare) complain("it keeps blocks of memory", NULL, status);
    if (status >= 0 && layer->mappings > ref->mappings) complain("it keeps mappings", NULL, status);
    if (status >= 0 && layer->files > ref->files) complain("it keeps descriptors", NULL, status);
    free(err), free(out);
    check_files(status);
}

// Everything afresh, then call `n` fails.
static void one(const Scenario *s, FaultKind kind, uint32_t n, bool onwards, const FaultLayer *ref) {
    char base[PATH * 2], now[PATH * 2];
    copy(at(base, "base"), at(now, "run"));
    memset(layer, 0, offsetof(FaultLayer, place));
    layer->blocks = layer->mappings = layer->files = 0;
    layer->kind = kind;
    layer->at = failing = n;
    layer->onwards = onwards;
    int status = run(s->run, "run", true);
    check(status, ref);
}

// Each place once, its last call: what comes before it is there by then.
static int choose(const FaultLayer *ref, FaultKind kind, uint32_t *to) {
    int n = 0;
    uint32_t most = ref->calls[kind] < FAULT_CALLS ? ref->calls[kind] : FAULT_CALLS - 1;
    for (uint32_t i = 1; i <= most; i++) {
        bool again = false;
        for (uint32_t k = i + 1; k <= most && !again && !all; k++) again = ref->place[k] == ref->place[i];
        if (!again) to[n++] = i;
    }
    return n;
}

static void reference(const Scenario *s, FaultKind kind, FaultLayer *ref) {
    char base[PATH * 2], now[PATH * 2];
    copy(at(base, "base"), at(now, "ref"));
    memset(layer, 0, sizeof *layer);
    layer->kind = kind;
    layer->notes = true;
    int status = run(s->run, "ref", true);
    *ref = *layer;
    if (status == s->status) return;
    complain("without a failure", NULL, status);
    exit(1);
}

int main(int argc, char **argv) {
    if (argc < 4) return fprintf(stderr, "faults SCENARIO DATA WORK [all]\n"), 2;
    const Scenario *s = scenario_named(argv[1]);
    all = argc > 4;
    if (!s || !realpath(argv[2], data) || (mkdir(argv[3], 0700) && errno != EEXIST) || !realpath(argv[3], work)) return 2;
    setenv("TKC_CACHE_DIR", "cache", 1);
    setenv("TMPDIR", "tmp", 1);
    unsetenv("TKC_CACHE");
    layer = mmap(NULL, sizeof *layer, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    spare = s->machine;
    prepare(s);
    FaultLayer *ref = calloc(1, sizeof *ref);
    if (argc > 5) {
        FaultKind kind = strcmp(argv[4], "memory") == 0 ? FAULT_MEMORY : FAULT_FILES;
        reference(s, kind, ref);
        one(s, kind, (uint32_t)atoi(argv[5]), argc > 6, ref);
        size_t n;
        fputs(content(work, "err.txt", &n), stdout);
        return wrong != 0;
    }
    uint32_t   *call = calloc(FAULT_CALLS, sizeof *call);
    for (FaultKind kind = 0; kind < FAULT_KINDS; kind++) {
        reference(s, kind, ref);
        int n = choose(ref, kind, call), step = all || n <= SAMPLES ? 1 : n / SAMPLES + 1, tried = 0;
        for (int i = all ? 0 : (int)(getpid() % step); i < n; i += step, tried++) one(s, kind, call[i], false, ref);
        for (int i = 0; kind == FAULT_MEMORY && i < ONWARDS && n; i++) one(s, kind, call[(size_t)i * (size_t)n / ONWARDS], true, ref);
        printf("%s: %u %s, %d places, %d tried\n", s->name, ref->calls[kind], kind == FAULT_MEMORY ? "allocations" : "calls of the system", n, tried);
        fflush(stdout);
    }
    if (wrong) fprintf(stderr, "%d are wrong\n", wrong);
    return wrong != 0;
}
