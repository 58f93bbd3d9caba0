// Arenas: chunks of memory in a chain, handed out from the front, freed together.
//
//     [chunk 64K: ######....] -> [chunk 32K: ########] -> [chunk 16K: ########]
//      newest, has room           full                     first
//
// A chunk is zeroed when it comes from the system, and what a reset gives back is zeroed again, so
// that arena_alloc never has to. Chunks double up to 1 MiB; a request larger than that gets a chunk
// of its own. Under AddressSanitizer the room that is not handed out is poisoned, and 16 bytes more
// between neighbours, so that overruns are found though malloc is not asked.

#include "lang/asan.h"
#include "lang/lang.h"

#include <stdlib.h>
#include <string.h>

#ifdef TK_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(p, n)   ASAN_POISON_MEMORY_REGION(p, n)
#define UNPOISON(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
enum { GAP = 16 };
#else
#define POISON(p, n)   ((void)0)
#define UNPOISON(p, n) ((void)0)
enum { GAP = 0 };
#endif

enum { ALIGN = 16, FIRST_CHUNK = 16 << 10, LAST_CHUNK = 1 << 20 };

typedef struct Chunk Chunk;
struct Chunk {
    Chunk *older;
    size_t size;                         // of data
    size_t used;
    size_t pad;                          // keeps data 16-byte aligned
    unsigned char data[];
};

_Static_assert(sizeof(Chunk) % ALIGN == 0, "chunk data must stay aligned");

struct Arena {
    Chunk *top;
    size_t held;
    size_t next_size;
};

Arena *arena_new(void) {
    Arena *a = heap_alloc(sizeof *a);
    a->next_size = FIRST_CHUNK;
    return a;
}

Arena *arena_sized(size_t first) {
    Arena *a = arena_new();
    if (first > FIRST_CHUNK) a->next_size = first;
    return a;
}

static void chunk_drop(Arena *a) {
    Chunk *c = a->top;
    a->top = c->older;
    a->held -= c->size;
    UNPOISON(c->data, c->size);
    heap_free(c);
}

void arena_free(Arena *a) {
    if (!a) return;
    while (a->top) chunk_drop(a);
    heap_free(a);
}

static void chunk_add(Arena *a, size_t need) {
    size_t size = need > a->next_size ? need : a->next_size;
    Chunk *c = heap_alloc(sizeof(Chunk) + size);
    c->older = a->top;
    c->size = size;
    a->top = c;
    a->held += size;
    if (a->next_size < LAST_CHUNK) a->next_size *= 2;
    POISON(c->data, size);
}

void *arena_alloc(Arena *a, size_t size) {
    if (size > SIZE_MAX / 2) heap_give_up(size);
    size_t take = ((size ? size : 1) + ALIGN - 1) / ALIGN * ALIGN + GAP;
    if (!a->top || a->top->size - a->top->used < take) chunk_add(a, take);
    unsigned char *p = a->top->data + a->top->used;
    a->top->used += take;
    UNPOISON(p, size);
    return p;
}

ArenaMark arena_mark(Arena *a) {
    return (ArenaMark){a->top, a->top ? a->top->used : 0};
}

void arena_reset(Arena *a, ArenaMark m) {
    while (a->top && a->top != m.chunk) chunk_drop(a);
    if (!a->top) return;
    size_t back = a->top->used - m.used;
    UNPOISON(a->top->data + m.used, back);
    memset(a->top->data + m.used, 0, back);
    POISON(a->top->data + m.used, back);
    a->top->used = m.used;
}

size_t arena_bytes(const Arena *a) {
    return a->held;
}

void vec_grow(Arena *a, void **at, uint32_t *cap, size_t elem_size) {
    if (*cap > UINT32_MAX / 2) heap_give_up((size_t)*cap * elem_size);
    uint32_t more = *cap ? *cap * 2 : 8;
    void *old;
    memcpy(&old, at, sizeof old);        // *at is really a T *: read and written as bytes
    void *grown = arena_alloc(a, more * elem_size);
    if (*cap) memcpy(grown, old, *cap * elem_size);
    memcpy(at, &grown, sizeof grown);
    *cap = more;
}
