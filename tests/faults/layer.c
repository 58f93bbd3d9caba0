// The linker's --wrap sends calls of our own objects here, not those of LLVM or the C library. Every call is counted, the one whose turn it is
// fails as the system lets it fail: by NULL or -1, and errno. A file that fails to be closed is closed all the same, as on Linux.
#define _GNU_SOURCE
#include "tests/faults/layer.h"

#include <dirent.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static FaultLayer *layer;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool inside;            // backtrace may allocate

void layer_begin(FaultLayer *f) {
    void *none[2];
    backtrace(none, 2);                      // loads what it needs
    layer = f;
}

void layer_end(void) { layer = NULL; }
void layer_spare(void) { if (layer) layer->at = 0; }

enum { DEEP = 14, SKIPPED = 2 };

static uint32_t place(void) {
    void *frame[DEEP];
    int n = backtrace(frame, DEEP);
    uint32_t h = 2166136261u;
    for (int i = SKIPPED; i < n; i++) h = (h ^ (uint32_t)(uintptr_t)frame[i]) * 16777619u;
    return h;
}

static void trace(void) {
    void *frame[40];
    backtrace_symbols_fd(frame, backtrace(frame, 40), 2);
}

static bool fails(FaultKind kind, const char *what) {
    FaultLayer *f = layer;
    if (!f || inside) return false;
    inside = true;
    pthread_mutex_lock(&lock);
    uint32_t n = ++f->calls[kind];
    if (f->notes && f->kind == kind && n < FAULT_CALLS) f->place[n] = place();
    bool now = f->kind == kind && f->at && (f->onwards ? n >= f->at : n == f->at);
    if (now && !f->fired) snprintf(f->what, sizeof f->what, "%s", what);
    if (now && getenv("FAULTS_TRACE")) trace();
    f->fired |= now;
    pthread_mutex_unlock(&lock);
    inside = false;
    return now;
}

#define COUNT(member, by) do { if (layer) __atomic_fetch_add(&layer->member, (by), __ATOMIC_RELAXED); } while (0)
#define REAL(type, name, ...) extern type __real_##name(__VA_ARGS__); type __wrap_##name(__VA_ARGS__); type __wrap_##name(__VA_ARGS__)

// ---- memory --------------------------------------------------------------------------------------

static void *got(void *p) {
    if (p) COUNT(blocks, 1);
    return p;
}

static void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

REAL(void *, malloc, size_t n)                  { return fails(FAULT_MEMORY, "malloc") ? no_memory() : got(__real_malloc(n)); }
REAL(void *, calloc, size_t n, size_t m)        { return fails(FAULT_MEMORY, "calloc") ? no_memory() : got(__real_calloc(n, m)); }
REAL(void *, aligned_alloc, size_t a, size_t n) { return fails(FAULT_MEMORY, "aligned_alloc") ? no_memory() : got(__real_aligned_alloc(a, n)); }
REAL(char *, strdup, const char *s)             { return fails(FAULT_MEMORY, "strdup") ? no_memory() : got(__real_strdup(s)); }

REAL(void *, realloc, void *p, size_t n) {
    if (fails(FAULT_MEMORY, "realloc")) return no_memory();
    void *q = __real_realloc(p, n);
    if (!p && q) COUNT(blocks, 1);
    return q;
}

REAL(void, free, void *p) {
    if (p) COUNT(blocks, -1);
    __real_free(p);
}

// ---- files ---------------------------------------------------------------------------------------

static int bad(int error) {
    errno = error;
    return -1;
}

static int opened(int fd) {
    if (fd >= 0) COUNT(files, 1);
    return fd;
}

extern int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    return fails(FAULT_FILES, "open") ? bad(EMFILE) : opened(__real_open(path, flags, mode));
}

extern int __real_openat(int at, const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, ...);
int __wrap_openat(int at, const char *path, int flags, ...) {
    va_list args;
    va_start(args, flags);
    int mode = flags & O_CREAT ? va_arg(args, int) : 0;
    va_end(args);
    return fails(FAULT_FILES, "openat") ? bad(EMFILE) : opened(__real_openat(at, path, flags, mode));
}

REAL(int, close, int fd) {
    bool now = fails(FAULT_FILES, "close");
    int  r = __real_close(fd);
    if (r == 0) COUNT(files, -1);
    return now ? bad(EIO) : r;
}

REAL(ssize_t, read, int fd, void *to, size_t n)          { return fails(FAULT_FILES, "read") ? bad(EIO) : __real_read(fd, to, n); }
REAL(ssize_t, write, int fd, const void *from, size_t n) { return fails(FAULT_FILES, "write") ? bad(ENOSPC) : __real_write(fd, from, n); }
REAL(int, fsync, int fd)                                 { return fails(FAULT_FILES, "fsync") ? bad(EIO) : __real_fsync(fd); }
REAL(int, fstat, int fd, struct stat *st)                { return fails(FAULT_FILES, "fstat") ? bad(EIO) : __real_fstat(fd, st); }
REAL(int, fchmod, int fd, mode_t mode)                   { return fails(FAULT_FILES, "fchmod") ? bad(EIO) : __real_fchmod(fd, mode); }
REAL(int, rename, const char *a, const char *b)          { return fails(FAULT_FILES, "rename") ? bad(EIO) : __real_rename(a, b); }
REAL(int, renameat, int d, const char *a, int e, const char *b) { return fails(FAULT_FILES, "renameat") ? bad(EIO) : __real_renameat(d, a, e, b); }
REAL(int, mkdir, const char *path, mode_t mode)          { return fails(FAULT_FILES, "mkdir") ? bad(ENOSPC) : __real_mkdir(path, mode); }
REAL(int, mkdirat, int d, const char *path, mode_t mode) { return fails(FAULT_FILES, "mkdirat") ? bad(ENOSPC) : __real_mkdirat(d, path, mode); }
REAL(int, mkstemp, char *path)                           { return fails(FAULT_FILES, "mkstemp") ? bad(ENOSPC) : opened(__real_mkstemp(path)); }
REAL(int, ftruncate, int fd, off_t n)                    { return fails(FAULT_FILES, "ftruncate") ? bad(ENOSPC) : __real_ftruncate(fd, n); }
REAL(int, memfd_create, const char *name, unsigned flags) { return fails(FAULT_FILES, "memfd_create") ? bad(EMFILE) : opened(__real_memfd_create(name, flags)); }

REAL(char *, mkdtemp, char *path) {
    if (!fails(FAULT_FILES, "mkdtemp")) return __real_mkdtemp(path);
    errno = ENOSPC;
    return NULL;
}

REAL(char *, realpath, const char *path, char *to) {
    if (!fails(FAULT_FILES, "realpath")) return __real_realpath(path, to);
    errno = EIO;
    return NULL;
}

REAL(void *, mmap, void *at, size_t n, int prot, int flags, int fd, off_t from) {
    if (fails(FAULT_FILES, "mmap")) { errno = ENOMEM; return MAP_FAILED; }
    void *p = __real_mmap(at, n, prot, flags, fd, from);
    if (p != MAP_FAILED && !(flags & MAP_FIXED)) COUNT(mappings, 1);
    return p;
}

REAL(int, munmap, void *p, size_t n) {
    COUNT(mappings, -1);
    return __real_munmap(p, n);
}

REAL(DIR *, opendir, const char *path) {
    if (!fails(FAULT_FILES, "opendir")) return __real_opendir(path);
    errno = EMFILE;
    return NULL;
}

REAL(DIR *, fdopendir, int fd) {
    if (fails(FAULT_FILES, "fdopendir")) { errno = ENOMEM; return NULL; }
    DIR *d = __real_fdopendir(fd);
    if (d) COUNT(files, -1);                 // closedir's from here on
    return d;
}

REAL(struct dirent *, readdir, DIR *d) {
    if (!fails(FAULT_FILES, "readdir")) return __real_readdir(d);
    errno = EIO;
    return NULL;
}

REAL(int, pthread_create, pthread_t *t, const pthread_attr_t *a, void *(*f)(void *), void *x) {
    return fails(FAULT_FILES, "pthread_create") ? EAGAIN : __real_pthread_create(t, a, f, x);
}

REAL(int, posix_spawn, pid_t *pid, const char *path, const posix_spawn_file_actions_t *f, const posix_spawnattr_t *a, char *const argv[], char *const env[]) {
    return fails(FAULT_FILES, "posix_spawn") ? EAGAIN : __real_posix_spawn(pid, path, f, a, argv, env);
}
