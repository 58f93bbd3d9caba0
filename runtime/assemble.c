// The driver's own assembler does one kernel after the other, however many threads ask it: 37 kernels of a ResNet-50
// take 1.7 s. ptxas is a program, and as many of them run as there are cores. So where several kernels are to be
// assembled and ptxas is at hand, it does that, and the result is kept in the cache on disk, as the driver keeps its
// own in another.
//
// The driver may be older than ptxas and refuse its code, or ptxas older than the PTX: then the driver gets the PTX, as
// ever.
#include "runtime/assemble.h"

#include "ptx/ptx.h"
#include "runtime/cache.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

void assembler_open(Assembler *a, const Target *t) {
    Arena *scratch = arena_new();
    char  *path = env_off("TKC_PTXAS") ? NULL : ptxas_path(scratch);
    struct stat st;
    *a = (Assembler){.target = t};
    if (path && stat(path, &st) == 0) {
        Buf id = {0};
        buf_printf(&id, "%s %lld %lld.%09ld", path, (long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
        a->ptxas = copy_text(path, strlen(path));
        a->identity = id.p;
    }
    arena_free(scratch);
}

void assembler_close(Assembler *a) {
    heap_free(a->ptxas);
    heap_free(a->identity);
    *a = (Assembler){0};
}

static void key_of(const Assembler *a, const Buf *ptx, Buf *key) {
    buf_printf(key, "machine code\n%s\n%s\n", a->identity, a->target->name);
    buf_add(key, ptx->p, ptx->n);
}

bool assembler_get(const Assembler *a, const Buf *ptx, Buf *cubin) {
    Buf key = {0};
    if (!a->ptxas) return false;
    key_of(a, ptx, &key);
    bool there = cache_get(&key, cubin) && cubin->n > 0;
    buf_free(&key);
    return there;
}

void assembler_put(const Assembler *a, const Buf *ptx, const Buf *cubin) {
    Buf key = {0};
    key_of(a, ptx, &key);
    cache_put(&key, cubin);
    buf_free(&key);
}

bool assembler_make(Assembler *a, const Buf *ptx, Buf *cubin) {
    Buf why = {0};
    if (!a->ptxas || atomic_load(&a->failed)) return false;
    Arena *scratch = arena_new();
    bool fine = cubin_make(scratch, ptx->p, ptx->n, a->target, NULL, cubin, NULL, &why);
    if (!fine) atomic_store(&a->failed, true);
    arena_free(scratch);
    buf_free(&why);
    return fine;
}
