// What the cache keeps of a compiled kernel (cache.h): its LaunchInfo, then its code.
//
// One walk over LaunchInfo writes it or reads it. Plain numbers go as they lie in memory: the key names the very file that
// the compiler was run from, so that nobody else reads them.

#define _GNU_SOURCE                                      // dladdr
#include "runtime/cache.h"
#include "runtime/internal.h"

#include <dlfcn.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Pack { Session *s; Buf *out; const char *p, *end; bool bad; } Pack;       // out: written, else read

static void raw(Pack *k, void *p, size_t n)
{
    if (k->out) { buf_add(k->out, p, n); return; }
    if ((size_t)(k->end - k->p) < n) { k->bad = true; memset(p, 0, n); return; }
    memcpy(p, k->p, n);
    k->p += n;
}

// How many there are, and room for them when they are read.
static void *room(Pack *k, const void *at, uint32_t n, size_t size)
{
    if (k->out) return (void *)(uintptr_t)at;
    if (n > (size_t)(k->end - k->p)) k->bad = true;
    return arena_alloc(session_arena(k->s), k->bad ? size : size * (n ? n : 1));
}

static void text(Pack *k, const char **t)
{
    uint32_t n = k->out ? (uint32_t)strlen(*t) + 1 : 0;
    raw(k, &n, sizeof n);
    char *p = room(k, *t, n, 1);
    if (!k->bad) raw(k, p, n);
    *t = p;
}

static void name(Pack *k, Sym *sm)
{
    const char *t = k->out ? (*sm)->s : NULL;
    text(k, &t);
    if (!k->out) *sm = sym(k->s, k->bad ? "" : t);
}

static void expr(Pack *k, LExpr *e)
{
    raw(k, &e->n, sizeof e->n);
    e->at = room(k, e->at, e->n, sizeof *e->at);
    if (!k->bad && e->n) raw(k, (void *)(uintptr_t)e->at, sizeof *e->at * e->n);
}

static void guards(Pack *k, LaunchGuard **at, int *n)
{
    *at = room(k, *at, (uint32_t)*n, sizeof **at);
    for (int i = 0; i < *n && !k->bad; i++) { expr(k, &(*at)[i].cond); text(k, &(*at)[i].text); }
}

static void info_walk(Pack *k, LaunchInfo *f)
{
    bool general = f->general != NULL;
    text(k, &f->entry);
    name(k, &f->kernel);
    raw(k, &f->nparams, sizeof f->nparams);
    raw(k, &f->ndims, sizeof f->ndims);
    raw(k, &f->nguards, sizeof f->nguards);
    raw(k, &f->nfacts, sizeof f->nfacts);
    raw(k, &f->nslots, sizeof f->nslots);
    raw(k, &f->threads, sizeof f->threads);
    raw(k, &f->cluster, sizeof f->cluster);
    raw(k, &f->smem, sizeof f->smem);
    raw(k, &general, sizeof general);
    expr(k, &f->programs);
    expr(k, &f->blocks);
    expr(k, &f->smem_more);
    f->params = room(k, f->params, (uint32_t)f->nparams, sizeof *f->params);
    for (int i = 0; i < f->nparams && !k->bad; i++) {
        LaunchParam *p = &f->params[i];
        raw(k, &p->kind, sizeof p->kind);
        raw(k, &p->mode, sizeof p->mode);
        raw(k, &p->elem, sizeof p->elem);
        raw(k, &p->rank, sizeof p->rank);
        raw(k, &p->strided, sizeof p->strided);
        raw(k, p->solves, sizeof p->solves);
        name(k, &p->name);
        for (int d = 0; d < p->rank && d < MAX_RANK && !k->bad; d++) expr(k, &p->dim[d]);
    }
    f->dims = room(k, f->dims, (uint32_t)f->ndims, sizeof *f->dims);
    for (int i = 0; i < f->ndims && !k->bad; i++) { name(k, &f->dims[i].name); raw(k, &f->dims[i].fixed, sizeof f->dims[i].fixed); }
    guards(k, &f->guards, &f->nguards);
    guards(k, &f->facts, &f->nfacts);
    f->slots = room(k, f->slots, (uint32_t)f->nslots, sizeof *f->slots);
    for (int i = 0; i < f->nslots && !k->bad; i++) {
        LaunchSlot *s = &f->slots[i];
        LExpr e = s->expr;
        raw(k, s, sizeof *s);
        s->expr = e;
        expr(k, &s->expr);
        for (int d = 0; s->im2col && d < 3; d++) { expr(k, &s->lower[d]); expr(k, &s->upper[d]); expr(k, &s->step[d]); }
    }
    if (general && !k->bad) {
        f->general = room(k, f->general, 1, sizeof *f->general);
        info_walk(k, f->general);
    }
}

const LaunchInfo *artifact_get(Session *s, const Buf *key, Buf *code)
{
    Buf bytes = {0};
    LaunchInfo *info = NULL;
    if (cache_get(key, &bytes)) {
        Pack k = {.s = s, .p = bytes.p, .end = bytes.p + bytes.n};
        info = NEW(session_arena(s), LaunchInfo);
        info_walk(&k, info);
        if (k.bad) info = NULL;
        else buf_add(code, k.p, (size_t)(k.end - k.p));
    }
    buf_free(&bytes);
    return info;
}

void artifact_put(Session *s, const Buf *key, const LaunchInfo *info, const Buf *code)
{
    Buf bytes = {0}, where = {0};
    if (cache_folder(&where)) {
        Pack k = {.s = s, .out = &bytes};
        info_walk(&k, (LaunchInfo *)(uintptr_t)info);
        buf_add(&bytes, code->p, code->n);
        cache_put(key, &bytes);
    }
    buf_free(&where);
    buf_free(&bytes);
}

// The file that this code was loaded from, by size and time: a compiler built anew is another one.
static void compiler(Buf *key)
{
    Dl_info own;
    struct stat st;
    bool found = dladdr((void *)(uintptr_t)compiler, &own) && own.dli_fname && strchr(own.dli_fname, '/') && stat(own.dli_fname, &st) == 0;
    if (!found && stat("/proc/self/exe", &st)) memset(&st, 0, sizeof st);
    buf_printf(key, "\n" TK_VERSION " " TK_LLVM_VERSION " %lld %lld.%09ld", (long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

void artifact_key(Session *s, const CompileOptions *opt, const char *device, Buf *key)
{
    compiler(key);
    buf_printf(key, "\n%s %s math %d general %d lines %d\n", device, opt->target->name, opt->math, opt->general, opt->line_info);
    for (int i = 0; i < schedule_field_count; i++) buf_printf(key, " %d", *(const int *)(const void *)((const char *)&opt->schedule + schedule_fields[i].offset));
    const Source *src;
    for (int i = 0; (src = source_at(s, i)) != NULL; i++) {
        buf_printf(key, "\n%s %u\n", src->path, src->size);
        buf_add(key, src->text, src->size);
    }
}
