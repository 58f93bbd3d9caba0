// A loaded module: what its kernels and variables are called, and its end.
#include <stdlib.h>
#include <string.h>

#include "emu/internal.h"

void emu_unload(EmuContext *ctx, EmuModule *m) {
    for (EmuModule **p = &ctx->modules; *p; p = &(*p)->next)
        if (*p == m) {
            *p = m->next;
            for (struct GlobalVar *g = m->globals; g; g = g->next) emu_free(ctx, g->address);
            free(m->code);
            free(m->consts);
            free(m->const_hash);
            free(m->locs);
            free(m->files);
            free(m->funcs);
            free(m->heap_blocks);
            if (m->heap) emu_free(ctx, m->heap);
            emu_arena_free(&m->arena);
            free(m);
            return;
        }
}

size_t           emu_kernel_count(const EmuModule *m)        { return m->n_kernels; }
const EmuKernel *emu_kernel(const EmuModule *m, size_t i)    { return i < m->n_kernels ? &m->by_index[i]->info : NULL; }
uint32_t         emu_target(const EmuModule *m)              { return m->target; }
const char      *emu_target_name(const EmuModule *m)         { return m->target_name; }
uint32_t         emu_ptx_version(const EmuModule *m)         { return m->ptx_version; }

void emu_kernel_classes(const EmuModule *m, const EmuKernel *kernel, uint32_t counts[EMU_CLASS_COUNT]) {
    const Kernel *k = (const Kernel *)kernel;                // its first member
    memset(counts, 0, EMU_CLASS_COUNT * sizeof *counts);
    for (uint32_t i = 0; i < kernel->instructions; i++) counts[m->code[k->entry + i].cls]++;
}

const EmuKernel *emu_find_kernel(const EmuModule *m, const char *name) {
    for (Kernel *k = m->kernels; k; k = k->next)
        if (!strcmp(k->info.name, name)) return &k->info;
    return NULL;
}

EmuStatus emu_find_variable(EmuContext *ctx, const EmuModule *m, const char *name, uint64_t *address, size_t *size) {
    for (struct GlobalVar *g = m->globals; g; g = g->next)
        if (!strcmp(g->name, name)) {
            *address = g->address;
            if (size) *size = g->size;
            return EMU_OK;
        }
    return emu_error(ctx, EMU_NOT_FOUND, "no variable `%s`", name);
}

const struct SourceFile *module_file(const EmuModule *m, uint32_t number) {
    for (uint32_t i = 0; i < m->n_files; i++)
        if (m->files[i].number == number) return &m->files[i];
    return NULL;
}
