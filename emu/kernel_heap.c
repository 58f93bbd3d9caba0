// malloc and free of device code. A module that calls them has a heap, an allocation of device memory of the size that a
// driver gives by default; what is handed out lasts over launches, as there. The first gap that is large enough is taken.
#include "emu/internal.h"

enum { HEAP_BYTES = 8 << 20, HEAP_ALIGN = 16 };

bool heap_create(EmuModule *m) { return m->heap || emu_alloc(m->context, HEAP_BYTES, "the device's heap", &m->heap) == EMU_OK; }

uint64_t kernel_malloc(Launch *launch, uint64_t size) {
    EmuModule *m = launch->module;
    uint64_t address = 0;
    if (!size || size > HEAP_BYTES) return 0;
    pthread_mutex_lock(&launch->lock);
    uint32_t need = ((uint32_t)size + HEAP_ALIGN - 1) & ~(uint32_t)(HEAP_ALIGN - 1), at = 0, i = 0;
    while (i < m->n_heap && m->heap_blocks[i].at - at < need) at = m->heap_blocks[i].at + m->heap_blocks[i].size, i++;
    struct KernelBlock *blocks = m->heap_blocks;
    uint32_t cap = m->cap_heap;
    if (m->n_heap == cap) blocks = realloc(blocks, (cap = cap ? 2 * cap : 64) * sizeof *blocks);
    if (blocks) m->heap_blocks = blocks, m->cap_heap = cap;
    if (blocks && HEAP_BYTES - at >= need) {
        memmove(m->heap_blocks + i + 1, m->heap_blocks + i, (m->n_heap - i) * sizeof *m->heap_blocks);
        m->heap_blocks[i] = (struct KernelBlock){at, need};
        m->n_heap++;
        address = m->heap + at;
    }
    pthread_mutex_unlock(&launch->lock);
    return address;
}

bool kernel_free(Launch *launch, uint64_t address) {
    EmuModule *m = launch->module;
    bool found = !address;
    pthread_mutex_lock(&launch->lock);
    for (uint32_t i = 0; i < m->n_heap && !found; i++) {
        found = m->heap + m->heap_blocks[i].at == address;
        if (found) memmove(m->heap_blocks + i, m->heap_blocks + i + 1, (--m->n_heap - i) * sizeof *m->heap_blocks);
    }
    pthread_mutex_unlock(&launch->lock);
    return found;
}
