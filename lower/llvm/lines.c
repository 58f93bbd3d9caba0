// Source lines: `.loc` directives in the PTX, so that a fault, a profiler or a debugger can name the line.
//
// Each op has the span of the construct it came from; inlined functions keep theirs, also those of other
// files, as a block of the kernel that lies in that file. Only line tables are asked for.
#include "lower/llvm/gen.h"

#include <llvm-c/DebugInfo.h>
#include <string.h>

typedef struct FileScope { const Source *src; LLVMMetadataRef file, scope; } FileScope;

struct Lines {
    LLVMDIBuilderRef dib;
    LLVMMetadataRef  function;
    VEC(FileScope)   files;
};

static FileScope *file_scope(Gen *g, const Source *src) {
    Lines *l = g->lines;
    for (uint32_t i = 0; i < l->files.n; i++) if (l->files.at[i].src == src) return &l->files.at[i];
    FileScope s = {.src = src};
    const char *path = src->path, *slash = strrchr(path, '/');
    const char *dir = slash ? path : ".";
    size_t n = slash ? (size_t)(slash - path) : 1;
    s.file = LLVMDIBuilderCreateFile(l->dib, slash ? slash + 1 : path, strlen(slash ? slash + 1 : path), dir, n);
    if (l->function) s.scope = LLVMDIBuilderCreateLexicalBlockFile(l->dib, l->function, s.file, 0);
    vec_push(g->arena, &l->files, s);
    return &l->files.at[l->files.n - 1];
}

static void end_lines(void *dib, uint64_t none) { (void)none; LLVMDisposeDIBuilder(dib); }

void lines_open(Gen *g) {
    if (!g->opt->line_info || !g->f->kernel->span.hi) return;
    Lines *l = g->lines = NEW(g->arena, Lines);
    LineCol w = span_where(g->session, g->f->kernel->span.lo);
    LLVMAddModuleFlag(g->M, LLVMModuleFlagBehaviorWarning, "Debug Info Version", 18,
                      LLVMValueAsMetadata(LLVMConstInt(g->i32, LLVMDebugMetadataVersion(), 0)));
    l->dib = LLVMCreateDIBuilder(g->M);
    heap_hold(end_lines, l->dib, 0);
    FileScope *s = file_scope(g, w.src);
    LLVMDIBuilderCreateCompileUnit(l->dib, LLVMDWARFSourceLanguageC, s->file, "tkc", 3, 1, "", 0, 0, "", 0,
                                   LLVMDWARFEmissionLineTablesOnly, 0, 0, 0, "", 0, "", 0);
    LLVMMetadataRef type = LLVMDIBuilderCreateSubroutineType(l->dib, s->file, NULL, 0, LLVMDIFlagZero);
    const char *name = g->f->launch->entry;
    l->function = LLVMDIBuilderCreateFunction(l->dib, s->file, name, strlen(name), name, strlen(name), s->file, w.line,
                                              type, 0, 1, w.line, LLVMDIFlagZero, 1);
    LLVMSetSubprogram(g->fn, l->function);
    s->scope = l->function;
}

void lines_at(Gen *g, const Op *op) {
    if (!g->lines || !op->span.hi) return;
    LineCol w = span_where(g->session, op->span.lo);
    FileScope *s = file_scope(g, w.src);
    LLVMSetCurrentDebugLocation2(g->B, LLVMDIBuilderCreateDebugLocation(g->C, w.line, w.col, s->scope, NULL));
}

void lines_close(Gen *g) {
    if (!g->lines) return;
    LLVMDIBuilderFinalize(g->lines->dib);
    heap_let_go(end_lines, g->lines->dib, 0);
    LLVMDisposeDIBuilder(g->lines->dib);
}
