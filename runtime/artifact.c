// Compiled kernels as bytes: what the cache keeps of each (cache.h), and files of them that are shipped (artifact.h).
//
//     cache    LaunchInfo, code
//     file     "tkc artifact\n" "0.1.0 ...\n" "sm_90a\n"  checksum  count  { less?, { LaunchInfo, PTX, machine code }: fast, and general but of `less` } ..
//
// One walk over LaunchInfo writes it or reads it. Plain numbers go as they lie in memory: the cache's key names the very file that
// the compiler was run from, and a file's second line the version and the sizes of what is written, so that nobody else reads
// them. A file is held against its checksum, and every number that something is indexed by against what it may be.

#define _GNU_SOURCE                                      // dladdr
#include "runtime/artifact.h"
#include "runtime/cache.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Pack { Session *s; Buf *out; const char *p, *end; bool bad; } Pack;       // out: written, else read

static void raw(Pack *k, void *p, size_t n) {
    if (k->out) { buf_add(k->out, p, n); return; }
    if ((size_t)(k->end - k->p) < n) { k->bad = true; memset(p, 0, n); return; }
    memcpy(p, k->p, n);
    k->p += n;
}

#define RAW(field) raw(k, &(field), sizeof (field))

// How many there are, and room for them when they are read.
static void *room(Pack *k, const void *at, uint32_t n, size_t size) {
    if (k->out) return (void *)(uintptr_t)at;
    if (n > (size_t)(k->end - k->p)) k->bad = true;
    return arena_alloc(session_arena(k->s), k->bad ? size : size * (n ? n : 1));
}

static void text(Pack *k, const char **t) {
    uint32_t n = k->out ? (uint32_t)strlen(*t) + 1 : 0;
    raw(k, &n, sizeof n);
    char *p = room(k, *t, n, 1);
    if (!k->bad) raw(k, p, n);
    if (!k->out && !k->bad && (n == 0 || p[n - 1])) k->bad = true;           // nothing ends it
    *t = k->bad && !k->out ? "" : p;
}

static void name(Pack *k, Sym *sm) {
    const char *t = k->out ? (*sm)->s : NULL;
    text(k, &t);
    if (!k->out) *sm = sym(k->s, k->bad ? "" : t);
}

static void expr(Pack *k, LExpr *e) {
    RAW(e->n);
    e->at = room(k, e->at, e->n, sizeof *e->at);
    if (!k->bad && e->n) raw(k, (void *)(uintptr_t)e->at, sizeof *e->at * e->n);
}

static void guards(Pack *k, LaunchGuard **at, int *n) {
    *at = room(k, *at, (uint32_t)*n, sizeof **at);
    for (int i = 0; i < *n && !k->bad; i++) { expr(k, &(*at)[i].cond); text(k, &(*at)[i].text); }
}

static void info_walk(Pack *k, LaunchInfo *f) {
    bool general = f->general != NULL;
    text(k, &f->entry);
    name(k, &f->kernel);
    RAW(f->nparams);
    RAW(f->ndims);
    RAW(f->nguards);
    RAW(f->nfacts);
    RAW(f->nslots);
    RAW(f->threads);
    RAW(f->cluster);
    RAW(f->together);
    RAW(f->partial);
    RAW(f->early);
    RAW(f->smem);
    raw(k, &general, sizeof general);
    expr(k, &f->programs);
    expr(k, &f->blocks);
    expr(k, &f->smem_more);
    f->params = room(k, f->params, (uint32_t)f->nparams, sizeof *f->params);
    for (int i = 0; i < f->nparams && !k->bad; i++) {
        LaunchParam *p = &f->params[i];
        RAW(p->kind);
        RAW(p->mode);
        RAW(p->elem);
        RAW(p->rank);
        RAW(p->strided);
        RAW(p->fixed);
        raw(k, p->solves, sizeof p->solves);
        name(k, &p->name);
        for (int d = 0; d < p->rank && d < MAX_RANK && !k->bad; d++) expr(k, &p->dim[d]);
    }
    f->dims = room(k, f->dims, (uint32_t)f->ndims, sizeof *f->dims);
    for (int i = 0; i < f->ndims && !k->bad; i++) { name(k, &f->dims[i].name); RAW(f->dims[i].fixed); }
    guards(k, &f->guards, &f->nguards);
    guards(k, &f->facts, &f->nfacts);
    f->slots = room(k, f->slots, (uint32_t)f->nslots, sizeof *f->slots);
    for (int i = 0; i < f->nslots && !k->bad; i++) {
        LaunchSlot *s = &f->slots[i], plain = *s;
        plain.expr = (LExpr){0};
        for (int d = 0; d < 3; d++) plain.lower[d] = plain.upper[d] = plain.step[d] = (LExpr){0};
        raw(k, &plain, sizeof plain);                        // no addresses: the same kernel is the same bytes
        if (!k->out) *s = plain;
        expr(k, &s->expr);
        for (int d = 0; plain.im2col && d < 3; d++) { expr(k, &s->lower[d]); expr(k, &s->upper[d]); expr(k, &s->step[d]); }
    }
    if (general && !k->bad) {
        f->general = room(k, f->general, 1, sizeof *f->general);
        info_walk(k, f->general);
    }
}

const LaunchInfo *artifact_get(Session *s, const Buf *key, Buf *code) {
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

void artifact_put(Session *s, const Buf *key, const LaunchInfo *info, const Buf *code) {
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
static void compiler(Buf *key) {
    Dl_info own;
    struct stat st;
    bool found = dladdr((void *)(uintptr_t)compiler, &own) && own.dli_fname && strchr(own.dli_fname, '/') && stat(own.dli_fname, &st) == 0;
    if (!found && stat("/proc/self/exe", &st)) memset(&st, 0, sizeof st);
    buf_printf(key, "\n" TK_VERSION " " TK_LLVM_VERSION " %lld %lld.%09ld", (long long)st.st_size, (long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
}

void artifact_key(Session *s, const CompileOptions *opt, const char *device, Buf *key) {
    compiler(key);
    buf_printf(key, "\n%s %s math %d general %d lines %d\n", device, opt->target->name, opt->math, opt->general, opt->line_info);
    for (int i = 0; i < schedule_field_count; i++) buf_printf(key, " %d", *(const int *)(const void *)((const char *)&opt->schedule + schedule_fields[i].offset));
    const Source *src;
    for (int i = 0; (src = source_at(s, i)) != NULL; i++) {
        buf_printf(key, "\n%s %u\n", src->path, src->size);
        buf_add(key, src->text, src->size);
    }
}

// ---- files ---------------------------------------------------------------------------------------

#define MAGIC "tkc artifact\n"

static void version(Buf *out) {
    buf_printf(out, TK_VERSION " 2 %zu %zu %zu %zu\n", sizeof(LaunchInfo), sizeof(LaunchParam), sizeof(LaunchSlot), sizeof(LStep));
}

static uint64_t sum(const char *p, size_t n) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)p[i]) * UINT64_C(0x100000001b3);
    return h ^ h >> 29;
}

bool artifact_is(const char *bytes, size_t n) { return n >= strlen(MAGIC) && memcmp(bytes, MAGIC, strlen(MAGIC)) == 0; }

static void code_walk(Pack *k, Str *code) {
    uint64_t n = code->n;
    raw(k, &n, sizeof n);
    if (k->out) { buf_add(k->out, code->p, code->n); return; }
    if (k->bad || n > (size_t)(k->end - k->p)) { k->bad = true; return; }
    char *p = arena_alloc(session_arena(k->s), n + 1);
    memcpy(p, k->p, n);
    k->p += n;
    *code = (Str){p, n};
}

void artifact_write(Session *s, const Artifact *list, int n, const Target *target, Buf *out) {
    Buf  body = {0};
    Pack k = {.s = s, .out = &body};
    raw(&k, &n, sizeof n);
    for (int i = 0; i < n; i++) {
        bool less = list[i].less;
        raw(&k, &less, sizeof less);
        for (int v = 0; v < (less ? 1 : 2); v++) {
            Str ptx = list[i].ptx[v], cubin = list[i].cubin[v];
            info_walk(&k, (LaunchInfo *)(uintptr_t)list[i].info[v]);
            code_walk(&k, &ptx);
            code_walk(&k, &cubin);
        }
    }
    uint64_t check = sum(body.p, body.n);
    buf_puts(out, MAGIC);
    version(out);
    buf_printf(out, "%s\n", target->name);
    buf_add(out, (const char *)&check, sizeof check);
    buf_add(out, body.p, body.n);
    buf_free(&body);
}

static bool expr_valid(const LaunchInfo *f, LExpr e, bool may_be_empty) {
    int depth = 0;
    for (uint32_t i = 0; i < e.n; i++) {
        LOp op = e.at[i].op;
        int64_t a = e.at[i].arg;
        if ((unsigned)op > L_POSITIVE) return false;
        int takes = launch_takes(op), end = op == L_DIM ? f->ndims : op == L_SCALAR ? f->nparams : op == L_STRIDE ? f->nparams * STRIDES_EACH : 0;
        if ((end && (a < 0 || a >= end)) || depth < takes) return false;
        depth += 1 - takes;
        if (depth > 64) return false;
    }
    return depth == 1 || (may_be_empty && e.n == 0);
}

static bool info_valid(const LaunchInfo *f) {
    bool fine = f->nparams >= 0 && f->nparams <= MAX_PARAMS && f->ndims >= 0 && f->ndims <= MAX_DIMS && f->nslots >= 0 && f->nguards >= 0 && f->nfacts >= 0
             && f->threads > 0 && f->threads <= 1024 && f->cluster >= 0 && f->cluster <= 16 && expr_valid(f, f->programs, false)
             && expr_valid(f, f->blocks, false) && expr_valid(f, f->smem_more, true);
    for (int i = 0; fine && i < f->nparams; i++) {
        const LaunchParam *p = &f->params[i];
        fine = p->rank >= 0 && p->rank <= MAX_RANK && (unsigned)p->kind <= PK_SCALAR && (unsigned)p->mode <= PM_INOUT && elem_bytes(p->elem) > 0;
        for (int d = 0; fine && d < p->rank; d++) fine = p->solves[d] >= -1 && p->solves[d] < f->ndims && expr_valid(f, p->dim[d], true);
    }
    for (int i = 0; fine && i < f->nguards; i++) fine = expr_valid(f, f->guards[i].cond, false);
    for (int i = 0; fine && i < f->nfacts; i++) fine = expr_valid(f, f->facts[i].cond, false);
    for (int i = 0; fine && i < f->nslots; i++) {
        const LaunchSlot *s = &f->slots[i];
        int most = s->kind == SLOT_DIM ? f->ndims : s->kind == SLOT_EXPR || s->kind == SLOT_SCRATCH ? 1 << 20 : f->nparams;
        fine = (unsigned)s->kind <= SLOT_SCRATCH && s->a >= 0 && s->a < most && s->b >= 0 && s->b < 16 && s->rank <= 5 && expr_valid(f, s->expr, true);
        for (int d = 0; fine && d < s->rank; d++) fine = s->map_dim[d] >= -1 && s->map_dim[d] < MAX_RANK;
        for (int d = 0; fine && s->im2col && d < 3; d++) fine = expr_valid(f, s->lower[d], true) && expr_valid(f, s->upper[d], true) && expr_valid(f, s->step[d], true);
    }
    return fine;
}

static bool takes_the_same(const LaunchInfo *a, const LaunchInfo *b) {
    bool same = a->kernel == b->kernel && a->nparams == b->nparams && a->ndims == b->ndims;
    for (int i = 0; same && i < a->nparams; i++) same = a->params[i].kind == b->params[i].kind && a->params[i].rank == b->params[i].rank;
    return same;
}

int artifact_read(Session *s, const char *name, const char *bytes, size_t n, Artifact **out, Buf *err) {
    Buf  own = {0};
    const char *end = bytes + n, *p = bytes + strlen(MAGIC), *line = memchr(p, '\n', (size_t)(end - p)), *target = line ? line + 1 : end;
    uint64_t check = 0;
    int count = 0;
    version(&own);
    bool same = line && (size_t)(target - p) == own.n && memcmp(p, own.p, own.n) == 0;
    buf_free(&own);
    if (!same) {
        buf_printf(err, "%s: made by another version of tkc (%.*s; this is " TK_VERSION "): compile it again", name, line ? (int)strcspn(p, " \n") : 0, p);
        return -1;
    }
    line = memchr(target, '\n', (size_t)(end - target));
    Pack k = {.s = s, .p = line ? line + 1 : end, .end = end};
    raw(&k, &check, sizeof check);
    if (!k.bad && sum(k.p, (size_t)(end - k.p)) != check) k.bad = true;
    raw(&k, &count, sizeof count);
    if (count < 0 || count > 4096) k.bad = true;
    *out = NEW_N(session_arena(s), Artifact, k.bad ? 1 : count + 1);
    for (int i = 0; i < count && !k.bad; i++) {
        Artifact *a = &(*out)[i];
        unsigned char less = 0;
        raw(&k, &less, sizeof less);
        if (less > 1 || (less && i == 0)) k.bad = true;
        a->less = less;
        for (int v = 0; v < (less ? 1 : 2) && !k.bad; v++) {
            LaunchInfo *info = NEW(session_arena(s), LaunchInfo);
            info_walk(&k, info);
            code_walk(&k, &a->ptx[v]);
            code_walk(&k, &a->cubin[v]);
            if (!k.bad && !info_valid(info)) k.bad = true;
            a->info[v] = info;
        }
        if (less && !k.bad && !takes_the_same(a->info[0], a[-1].info[0])) k.bad = true;
    }
    if (!k.bad) return count;
    buf_printf(err, "%s: the artifact is damaged", name);
    return -1;
}
