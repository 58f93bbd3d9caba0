// Device memory: named allocations in a fake 64-bit address space, and the context that owns them.
//
//     0x100000000  | x (exact size) | unmapped ... | y | ...
//
// Every allocation starts at a multiple of 256 (1 MiB apart at least, so that an index that runs off one
// does not land in the next) and has a byte of shadow for each byte: written or not. Reads and writes
// through emu_read and emu_write are checked like the kernels' own.
#include "emu/internal.h"
#include "lang/c_text.h"

#define FIRST_ADDRESS 0x100000000ull
#define GUARD         0x100000ull

_Thread_local jmp_buf *emu_no_room;

void emu_give_up(void) {
    if (!emu_no_room) abort();
    longjmp(*emu_no_room, NO_ROOM);
}

struct Arena { Arena *next; size_t used, size; };

void *emu_arena_alloc(Arena **arena, size_t size) {
    size = (size + 15) & ~(size_t)15;
    if (!*arena || (*arena)->size - (*arena)->used < size) {
        size_t room = size > 65536 ? size : 65536;
        Arena *a = malloc(((sizeof *a + 15) & ~(size_t)15) + room);
        emu_got(a);
        *a = (Arena){*arena, 0, room};
        *arena = a;
    }
    void *p = (char *)*arena + ((sizeof(Arena) + 15) & ~(size_t)15) + (*arena)->used;
    (*arena)->used += size;
    return memset(p, 0, size);
}

void emu_arena_free(Arena **arena) {
    for (Arena *a = *arena, *next; a; a = next) {
        next = a->next;
        free(a);
    }
    *arena = NULL;
}

void *emu_grown(void *p, uint32_t *cap, uint32_t first, size_t size) {
    uint32_t more = *cap ? 2 * *cap : first;
    p = emu_got(realloc(p, more * size));
    *cap = more;
    return p;
}

EmuContext *emu_create(void) {
    EmuContext *ctx = calloc(1, sizeof *ctx);
    if (ctx) ctx->next = FIRST_ADDRESS;
    return ctx;
}

void emu_destroy(EmuContext *ctx) {
    if (!ctx) return;
    while (ctx->modules) emu_unload(ctx, ctx->modules);
    for (size_t i = 0; i < ctx->n_allocs; i++) {
        free(ctx->allocs[i].raw);
        free(ctx->allocs[i].init);
        free(ctx->allocs[i].name);
    }
    free(ctx->allocs);
    free(ctx);
}

const char *emu_message(const EmuContext *ctx) { return ctx->message; }

EmuStatus emu_error(EmuContext *ctx, EmuStatus status, const char *format, ...) {
    va_list args;
    va_start(args, format);
    c_vsnprintf(ctx->message, sizeof ctx->message, format, args);
    va_end(args);
    return status;
}

static size_t lower_bound(const EmuContext *ctx, uint64_t address) {   // allocations that start at or below
    size_t low = 0, high = ctx->n_allocs;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (ctx->allocs[mid].address <= address) low = mid + 1;
        else high = mid;
    }
    return low;
}

Alloc *emu_memory_find(EmuContext *ctx, uint64_t address) {
    size_t i = lower_bound(ctx, address);
    if (!i) return NULL;
    Alloc *a = &ctx->allocs[i - 1];
    return address - a->address < a->size || (address == a->address && !a->size) ? a : NULL;
}

void memory_describe(EmuContext *ctx, uint64_t address, size_t size, char *out, size_t n) {
    size_t i = lower_bound(ctx, address);
    Alloc *before = i ? &ctx->allocs[i - 1] : NULL, *after = i < ctx->n_allocs ? &ctx->allocs[i] : NULL;
    uint64_t past = before ? address - before->address : 0;
    if (before && past < before->size && size <= before->size - past) {
        snprintf(out, n, "`%s` + %llu", before->name, (unsigned long long)past);
    } else if (before && past < before->size) {
        snprintf(out, n, "`%s` + %llu runs %llu bytes past its end", before->name, (unsigned long long)past,
                 (unsigned long long)(past + size - before->size));
    } else if (after && after->address - address < GUARD / 2) {
        snprintf(out, n, "`%s` - %llu is before its start", after->name,
                 (unsigned long long)(after->address - address));
    } else if (before && past < before->size + (GUARD << 12)) {
        snprintf(out, n, "`%s` + %llu is %llu bytes past its end", before->name, (unsigned long long)past,
                 (unsigned long long)(past - before->size));
    } else {
        snprintf(out, n, "0x%llx is in no allocation", (unsigned long long)address);
    }
}

EmuStatus emu_alloc(EmuContext *ctx, size_t size, const char *name, uint64_t *address) {
    *address = 0;
    if (size > (1ull << 40)) return emu_error(ctx, EMU_OUT_OF_MEMORY, "`%s`: %zu bytes are too many", name, size);
    if (ctx->n_allocs == ctx->cap_allocs) {
        size_t cap = ctx->cap_allocs ? 2 * ctx->cap_allocs : 64;
        Alloc *grown = realloc(ctx->allocs, cap * sizeof *grown);
        if (!grown) return emu_error(ctx, EMU_OUT_OF_MEMORY, "out of memory");
        ctx->allocs = grown;
        ctx->cap_allocs = cap;
    }
    Alloc a = {.address = ctx->next, .size = size, .raw = calloc(1, size + 64), .init = calloc(1, size / 8 + 9)};
    if (name && (a.name = malloc(strlen(name) + 1))) strcpy(a.name, name);
    else if ((a.name = malloc(24))) snprintf(a.name, 24, "0x%llx", (unsigned long long)a.address);
    if (!a.raw || !a.init || !a.name) {
        free(a.raw), free(a.init), free(a.name);
        return emu_error(ctx, EMU_OUT_OF_MEMORY, "`%s`: no %zu bytes left", name ? name : "?", size);
    }
    a.bytes = (uint8_t *)(((uintptr_t)a.raw + 63) & ~(uintptr_t)63);
    ctx->allocs[ctx->n_allocs++] = a;                    // addresses only grow: still in order
    ctx->next += (size + 2 * GUARD - 1) / GUARD * GUARD + GUARD;
    *address = a.address;
    return EMU_OK;
}

EmuStatus emu_free(EmuContext *ctx, uint64_t address) {
    size_t i = lower_bound(ctx, address);
    if (!address) return EMU_OK;
    if (!i || ctx->allocs[i - 1].address != address)
        return emu_error(ctx, EMU_INVALID, "free: no allocation starts at 0x%llx", (unsigned long long)address);
    Alloc *a = &ctx->allocs[i - 1];
    free(a->raw);
    free(a->init);
    free(a->name);
    memmove(a, a + 1, (ctx->n_allocs - i) * sizeof *a);
    ctx->n_allocs--;
    return EMU_OK;
}

void *emu_host(EmuContext *ctx, uint64_t address, size_t size) {
    Alloc *a = emu_memory_find(ctx, address);
    if (!a || size > a->size - (address - a->address)) return NULL;
    return a->bytes + (address - a->address);
}

static Alloc *checked(EmuContext *ctx, const char *what, uint64_t address, size_t size) {
    char where[160];
    Alloc *a = emu_memory_find(ctx, address);
    if (a && size <= a->size - (address - a->address)) return a;
    memory_describe(ctx, address, size, where, sizeof where);
    emu_error(ctx, EMU_INVALID, "%s of %zu bytes: %s", what, size, where);
    return NULL;
}

static void mark(Alloc *a, uint64_t offset, size_t size, bool written) {
    for (; size && offset & 7; offset++, size--)
        a->init[offset >> 3] = (uint8_t)((a->init[offset >> 3] & ~(1u << (offset & 7))) | (unsigned)written << (offset & 7));
    memset(a->init + (offset >> 3), written ? 0xff : 0, size / 8);
    for (offset += size & ~(size_t)7, size &= 7; size; offset++, size--)
        a->init[offset >> 3] = (uint8_t)((a->init[offset >> 3] & ~(1u << (offset & 7))) | (unsigned)written << (offset & 7));
}

EmuStatus emu_write(EmuContext *ctx, uint64_t address, const void *bytes, size_t size) {
    if (!size) return EMU_OK;
    Alloc *a = checked(ctx, "write", address, size);
    if (!a) return EMU_INVALID;
    memcpy(a->bytes + (address - a->address), bytes, size);
    mark(a, address - a->address, size, true);
    return EMU_OK;
}

EmuStatus emu_read(EmuContext *ctx, void *bytes, uint64_t address, size_t size) {
    if (!size) return EMU_OK;
    Alloc *a = checked(ctx, "read", address, size);
    if (!a) return EMU_INVALID;
    memcpy(bytes, a->bytes + (address - a->address), size);
    return EMU_OK;
}

void emu_junk_fill(void *to, size_t size, EmuFill fill, uint64_t seed) {
    uint8_t *p = to;
    uint64_t word[4];
    size_t   whole = size & ~(size_t)31;
    for (int k = 0; k < 4; k++)
        word[k] = fill == EMU_FILL_NAN      ? ~0ull
                  : fill == EMU_FILL_INF    ? 0x7f807f807f807f80ull
                  : fill == EMU_FILL_RANDOM ? rng_next(&seed)
                                            : 0;
    if (fill == EMU_FILL_RANDOM)
        for (size_t i = 0; i < whole; i += 32) {
            memcpy(p + i, word, 32);
            for (int k = 0; k < 4; k++) word[k] = word[k] * 6364136223846793005ull + 1442695040888963407ull;
        }
    else for (size_t i = 0; i < whole; i += 32) memcpy(p + i, word, 32);
    memcpy(p + whole, word, size - whole);
}

EmuStatus emu_fill(EmuContext *ctx, uint64_t address, size_t size, EmuFill fill, uint64_t seed) {
    if (!size) return EMU_OK;
    Alloc *a = checked(ctx, "fill", address, size);
    if (!a) return EMU_INVALID;
    emu_junk_fill(a->bytes + (address - a->address), size, fill, seed);
    mark(a, address - a->address, size, fill == EMU_FILL_ZERO);
    return EMU_OK;
}

void memory_mark_written(EmuContext *ctx, uint64_t address, size_t size) {
    Alloc *a = emu_memory_find(ctx, address);
    if (a && size <= a->size - (address - a->address)) mark(a, address - a->address, size, true);
}
