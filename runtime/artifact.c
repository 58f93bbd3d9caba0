// Compiled kernels as bytes: what the cache keeps of each (cache.h), and files of them that are shipped (artifact.h).
//
//     cache    LaunchInfo, code
//     file     "tkc artifact\n" "0.1.0 ...\n" "sm_90a\n"  checksum  count  { less?, { LaunchInfo, PTX, machine code }: fast, and general but of `less` } ..
//
// One walk over LaunchInfo writes it or reads it. Plain numbers go as they lie in memory: the cache's key names the very file that
// the compiler was run from, and a file's second line the version and the sizes of what is written, so that nobody else reads
// them. A file is held against its checksum, which is for accidents: whoever makes a file up makes up the sum, too. So all that is
// read is held against what it may be before it is used (lang/launch_check.c), lengths against what is left of the file, and
// machine code against its own head. A general variant has no other within.

#define _GNU_SOURCE                                      // dladdr
#include "runtime/artifact.h"
#include "runtime/cache.h"

#include <dlfcn.h>
#include <elf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct Pack { Session *s; Buf *out; const char *p, *end; bool bad; } Pack;       // out: written, else read

static void raw(Pack *k, void *p, size_t n) {
    if (k->out) { buf_add(k->out, p, n); return; }
    if (k->bad || (size_t)(k->end - k->p) < n) { k->bad = true; memset(p, 0, n); return; }
    memcpy(p, k->p, n);
    k->p += n;
}

#define RAW(field) raw(k, &(field), sizeof (field))

// A bool is a byte, 0 or 1: another one in memory is no bool of C's.
static void flag(Pack *k, bool *v) {
    unsigned char byte = k->out ? *v : 0;
    raw(k, &byte, 1);
    if (byte > 1) k->bad = true;
    if (!k->out) *v = byte == 1;
}

// Where the next n of them are; room for them when they are read, each at least a byte of the file.
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
    if (!k->out && !k->bad && (n == 0 || memchr(p, 0, n) != p + n - 1)) k->bad = true;           // nothing ends it, or something before
    *t = k->bad && !k->out ? "" : p;
}

static void name(Pack *k, Sym *sm) {
    const char *t = k->out ? (*sm)->s : NULL;
    text(k, &t);
    if (!k->out) *sm = sym(k->s, k->bad ? "" : t);
}

static void expr(Pack *k, LExpr *e) {
    RAW(e->n);
    if (!k->out && (e->n > LAUNCH_MAX_STEPS || e->n > (size_t)(k->end - k->p) / sizeof *e->at)) k->bad = true;
    if (k->bad) { e->n = 0; return; }
    LStep *at = k->out ? (LStep *)(uintptr_t)e->at : arena_alloc(session_arena(k->s), sizeof *at * (e->n ? e->n : 1));
    if (e->n) raw(k, at, sizeof *at * e->n);
    e->at = at;
}

static void guards(Pack *k, LaunchGuard **at, int *n) {
    *at = room(k, *at, (uint32_t)*n, sizeof **at);
    for (int i = 0; i < *n && !k->bad; i++) { expr(k, &(*at)[i].cond); text(k, &(*at)[i].text); }
}

static void param_walk(Pack *k, LaunchParam *p) {
    RAW(p->kind);
    RAW(p->mode);
    RAW(p->elem);
    RAW(p->rank);
    flag(k, &p->strided);
    flag(k, &p->fixed);
    raw(k, p->solves, sizeof p->solves);
    name(k, &p->name);
    if (p->rank < 0 || p->rank > MAX_RANK) k->bad = true;
    for (int d = 0; !k->bad && d < p->rank; d++) expr(k, &p->dim[d]);
}

static void slot_walk(Pack *k, LaunchSlot *s) {
    RAW(s->kind);
    RAW(s->size);
    RAW(s->a);
    RAW(s->b);
    RAW(s->rank);
    RAW(s->swizzle);
    flag(k, &s->rounds);
    flag(k, &s->im2col);
    raw(k, s->map_dim, sizeof s->map_dim);
    raw(k, s->box, sizeof s->box);
    expr(k, &s->expr);
    for (int d = 0; s->im2col && d < 3; d++) { expr(k, &s->lower[d]); expr(k, &s->upper[d]); expr(k, &s->step[d]); }
}

// `inner`: the general variant, which has none of its own.
static void info_walk(Pack *k, LaunchInfo *f, bool inner) {
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
    flag(k, &f->together);
    flag(k, &f->partial);
    RAW(f->early);
    RAW(f->smem);
    flag(k, &general);
    if (!k->out && (!launch_counts_ok(f) || (inner && general))) k->bad = true;
    if (k->bad) return;
    expr(k, &f->programs);
    expr(k, &f->blocks);
    expr(k, &f->smem_more);
    f->params = room(k, f->params, (uint32_t)f->nparams, sizeof *f->params);
    for (int i = 0; i < f->nparams && !k->bad; i++) param_walk(k, &f->params[i]);
    f->dims = room(k, f->dims, (uint32_t)f->ndims, sizeof *f->dims);
    for (int i = 0; i < f->ndims && !k->bad; i++) { name(k, &f->dims[i].name); RAW(f->dims[i].fixed); }
    guards(k, &f->guards, &f->nguards);
    guards(k, &f->facts, &f->nfacts);
    f->slots = room(k, f->slots, (uint32_t)f->nslots, sizeof *f->slots);
    for (int i = 0; i < f->nslots && !k->bad; i++) slot_walk(k, &f->slots[i]);
    if (!general || k->bad) return;
    f->general = room(k, f->general, 1, sizeof *f->general);
    info_walk(k, f->general, true);
}

// What was read, whole; NULL: it cannot be.
static LaunchInfo *info_read(Pack *k) {
    LaunchInfo *f = NEW(session_arena(k->s), LaunchInfo);
    info_walk(k, f, false);
    if (!k->bad && (!launch_valid(f) || !f->blocks.n)) k->bad = true;
    if (!k->bad && f->general && (!launch_valid(f->general) || !f->general->blocks.n || !launch_alike(f, f->general))) k->bad = true;
    return k->bad ? NULL : f;
}

static void info_write(Pack *k, const LaunchInfo *f) { info_walk(k, (LaunchInfo *)(uintptr_t)f, false); }

void artifact_info(const LaunchInfo *info, Buf *out) {
    Pack k = {.out = out};
    info_write(&k, info);
}

// ---- the cache -----------------------------------------------------------------------------------

const LaunchInfo *artifact_entry(Session *s, const char *bytes, size_t n, Buf *code) {
    Pack k = {.s = s, .p = bytes, .end = bytes + n};
    LaunchInfo *info = info_read(&k);
    if (info) buf_add(code, k.p, (size_t)(k.end - k.p));
    return info;
}

const LaunchInfo *artifact_get(Session *s, const Buf *key, const LaunchInfo *built, Buf *code) {
    Buf bytes = {0};
    bool hit = cache_get(key, &bytes);
    const LaunchInfo *info = hit ? artifact_entry(s, bytes.p, bytes.n, code) : NULL;
    if (info && !launch_alike(info, built)) code->n = 0, info = NULL;
    buf_free(&bytes);
    return info;
}

void artifact_put(Session *s, const Buf *key, const LaunchInfo *info, const Buf *code) {
    Buf bytes = {0}, where = {0};
    if (cache_folder(&where)) {
        Pack k = {.s = s, .out = &bytes};
        info_write(&k, info);
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
    buf_printf(key, "\n%s %s math %d general %d opt %d lines %d\n", device, opt->target->name, opt->math, opt->general,
               !opt->unoptimised, opt->line_info);
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
    buf_printf(out, TK_VERSION " 3 %zu %zu %zu %zu\n", sizeof(LaunchInfo), sizeof(LaunchParam), sizeof(LaunchSlot), sizeof(LStep));
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

void artifact_wrap(const Target *target, const char *body, size_t n, Buf *out) {
    uint64_t check = sum(body, n);
    buf_puts(out, MAGIC);
    version(out);
    buf_printf(out, "%s\n", target->name);
    buf_add(out, (const char *)&check, sizeof check);
    buf_add(out, body, n);
}

void artifact_write(Session *s, const Artifact *list, int n, const Target *target, Buf *out) {
    Buf  body = {0};
    Pack k = {.s = s, .out = &body};
    raw(&k, &n, sizeof n);
    for (int i = 0; i < n; i++) {
        bool less = list[i].less;
        flag(&k, &less);
        for (int v = 0; v < (less ? 1 : 2); v++) {
            Str ptx = list[i].ptx[v], cubin = list[i].cubin[v];
            info_write(&k, list[i].info[v]);
            code_walk(&k, &ptx);
            code_walk(&k, &cubin);
        }
    }
    artifact_wrap(target, body.p, body.n, out);
    buf_free(&body);
}

// Machine code is an ELF file, and whoever loads it is not told how long it is: what its head says lies within it.
static bool elf_whole(Str code) {
    Elf64_Ehdr head;
    if (code.n == 0) return true;
    if (code.n < sizeof head || memcmp(code.p, ELFMAG, SELFMAG) != 0 || code.p[EI_CLASS] != ELFCLASS64) return false;
    memcpy(&head, code.p, sizeof head);
    if (head.e_shnum && (head.e_shentsize != sizeof(Elf64_Shdr) || head.e_shoff > code.n || head.e_shnum > (code.n - head.e_shoff) / sizeof(Elf64_Shdr)))
        return false;
    if (head.e_phnum && (head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phoff > code.n || head.e_phnum > (code.n - head.e_phoff) / sizeof(Elf64_Phdr)))
        return false;
    for (unsigned i = 0; i < head.e_shnum; i++) {
        Elf64_Shdr part;
        memcpy(&part, code.p + head.e_shoff + i * sizeof part, sizeof part);
        if (part.sh_type != SHT_NOBITS && (part.sh_offset > code.n || part.sh_size > code.n - part.sh_offset)) return false;
    }
    for (unsigned i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr part;
        memcpy(&part, code.p + head.e_phoff + i * sizeof part, sizeof part);
        if (part.p_offset > code.n || part.p_filesz > code.n - part.p_offset) return false;
    }
    return true;
}

// The variants of one entry of the list.
static void one_read(Pack *k, Artifact *a, const Artifact *before) {
    flag(k, &a->less);
    if (a->less && !before) k->bad = true;
    for (int v = 0; v < (a->less ? 1 : 2) && !k->bad; v++) {
        a->info[v] = info_read(k);
        code_walk(k, &a->ptx[v]);
        code_walk(k, &a->cubin[v]);
        if (!k->bad && (memchr(a->ptx[v].p, 0, a->ptx[v].n) || !elf_whole(a->cubin[v]))) k->bad = true;
    }
    if (!k->bad && !a->less && !launch_alike(a->info[0], a->info[1])) k->bad = true;
    if (!k->bad && a->less && !launch_alike(a->info[0], before->info[0])) k->bad = true;
}

int artifact_read(Session *s, const char *name, const char *bytes, size_t n, Artifact **out, Buf *err) {
    enum { MOST = 4096 };
    Buf  own = {0};
    const char *end = bytes + n, *p = bytes + strlen(MAGIC), *line = memchr(p, '\n', (size_t)(end - p)), *target = line ? line + 1 : end;
    uint64_t check = 0;
    int count = 0;
    version(&own);
    bool same = line && (size_t)(target - p) == own.n && memcmp(p, own.p, own.n) == 0;
    buf_free(&own);
    if (!same) {
        size_t word = 0, left = line ? (size_t)(line - p) : 0;
        while (word < left && word < 40 && p[word] > ' ' && p[word] <= '~') word++;
        buf_printf(err, "%s: made by another version of tkc (%.*s; this is " TK_VERSION "): compile it again", name, (int)word, p);
        return -1;
    }
    line = memchr(target, '\n', (size_t)(end - target));
    Pack k = {.s = s, .p = line ? line + 1 : end, .end = end};
    raw(&k, &check, sizeof check);
    if (!k.bad && sum(k.p, (size_t)(end - k.p)) != check) k.bad = true;
    raw(&k, &count, sizeof count);
    if (count < 0 || count > MOST || (size_t)count > (size_t)(k.end - k.p)) k.bad = true;
    *out = NEW_N(session_arena(s), Artifact, k.bad ? 1 : count + 1);
    for (int i = 0; i < count && !k.bad; i++) one_read(&k, &(*out)[i], i ? &(*out)[i - 1] : NULL);
    if (k.p != k.end) k.bad = true;
    if (!k.bad) return count;
    buf_printf(err, "%s: the artifact is damaged", name);
    return -1;
}
