// Text: the heap string builder, formatting into an arena, interned symbols, and the distance
// between two spellings.
//
// A Sym is the address of the only copy of its text in the session, so that names compare as
// pointers. The table is open addressing with linear probing, at most half full.

#include "lang/c_text.h"
#include "lang/internal.h"
#include "lang/shown.h"

#include <stdlib.h>
#include <string.h>

void buf_free(Buf *b) {
    heap_free(b->p);
    *b = (Buf){0};
}

static void buf_room(Buf *b, size_t more) {
    if (b->p && b->cap - b->n > more) return;
    size_t cap = b->cap ? b->cap : 64;
    while (cap - b->n <= more) cap *= 2;
    b->p = heap_resize(b->p, cap);
    b->cap = cap;
    b->p[b->n] = 0;
}

void buf_add(Buf *b, const char *s, size_t n) {
    buf_room(b, n);
    if (n) memcpy(b->p + b->n, s, n);
    b->n += n;
    b->p[b->n] = 0;
}

void buf_puts(Buf *b, const char *s) { buf_add(b, s, strlen(s)); }
void buf_putc(Buf *b, char c)        { buf_add(b, &c, 1); }

void buf_string(Buf *b, const char *s) {
    buf_putc(b, '"');
    for (; *s; s++) {
        if (*s == '\n') buf_puts(b, "\\n");
        else if (*s == '"' || *s == '\\') buf_add(b, (char[]){'\\', *s}, 2);
        else buf_putc(b, *s);
    }
    buf_putc(b, '"');
}

void buf_int(Buf *b, int64_t n) {
    char text[20], *p = text + sizeof text;
    uint64_t u = n < 0 ? -(uint64_t)n : (uint64_t)n;
    do *--p = (char)('0' + u % 10); while ((u /= 10) > 0);
    if (n < 0) *--p = '-';
    buf_add(b, p, (size_t)(text + sizeof text - p));
}

void buf_vprintf(Buf *b, const char *fmt, va_list args) {
    va_list again;
    va_copy(again, args);
    buf_room(b, 64);                                       // most fit, and are written once
    int n = c_vsnprintf(b->p + b->n, 65, fmt, args);
    if (n > 64) {
        buf_room(b, (size_t)n);
        c_vsnprintf(b->p + b->n, (size_t)n + 1, fmt, again);
    }
    if (n > 0) b->n += (size_t)n;
    va_end(again);
}

void buf_printf(Buf *b, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    buf_vprintf(b, fmt, args);
    va_end(args);
}

char *arena_vprintf(Arena *a, const char *fmt, va_list args) {
    va_list again;
    va_copy(again, args);
    int n = c_vsnprintf(NULL, 0, fmt, args);
    char *p = arena_alloc(a, n > 0 ? (size_t)n + 1 : 1);
    if (n > 0) c_vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

char *arena_printf(Arena *a, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    char *p = arena_vprintf(a, fmt, args);
    va_end(args);
    return p;
}

// ---- symbols -------------------------------------------------------------------------------------

static uint32_t hash_text(const char *s, size_t n) {
    uint32_t h = 2166136261u;                    // FNV-1a
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 16777619u;
    return h;
}

static Sym *slot_for(SymTable *t, const char *text, size_t n, uint32_t hash) {
    uint32_t i = hash & (t->size - 1);
    while (t->slots[i]) {
        Sym y = t->slots[i];
        if (y->hash == hash && y->n == n && memcmp(y->s, text, n) == 0) break;
        i = (i + 1) & (t->size - 1);
    }
    return &t->slots[i];
}

static void symbols_grow(Session *s) {
    SymTable old = s->symbols;
    s->symbols.size = old.size ? old.size * 2 : 512;
    s->symbols.slots = NEW_N(s->arena, Sym, s->symbols.size);
    for (uint32_t i = 0; i < old.size; i++) {
        Sym y = old.slots[i];
        if (y) *slot_for(&s->symbols, y->s, y->n, y->hash) = y;
    }
}

Sym sym_n(Session *s, const char *text, size_t n) {
    if (s->symbols.count * 2 >= s->symbols.size) symbols_grow(s);
    uint32_t hash = hash_text(text, n);
    Sym *slot = slot_for(&s->symbols, text, n, hash);
    if (*slot) return *slot;
    struct SymData *y = arena_alloc(s->arena, sizeof *y + n + 1);
    y->n = (uint32_t)n;
    y->hash = hash;
    memcpy(y->s, text, n);
    s->symbols.count++;
    return *slot = y;
}

Sym sym(Session *s, const char *text) {
    return sym_n(s, text, strlen(text));
}

// ---- spelling ------------------------------------------------------------------------------------

static int length_below(const char *s, int limit) {
    int n = 0;
    while (n < limit - 1 && s[n]) n++;
    return n;
}

bool text_among(Str word, const char *words) {
    for (const char *p = words; *p; p += *p == ' ') {
        size_t n = strcspn(p, " ");
        if (n == word.n && memcmp(p, word.p, n) == 0) return true;
        p += n;
    }
    return false;
}

bool text_ends(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    return n >= k && memcmp(text + n - k, end, k) == 0;
}

// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`. Texts longer
// than 63 bytes are compared in their first 63.
int edit_distance(const char *a, const char *b) {
    enum { MAX = 64 };
    int na = length_below(a, MAX), nb = length_below(b, MAX);
    int row[3][MAX];
    for (int j = 0; j <= nb; j++) row[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *cur = row[i % 3], *prev = row[(i + 2) % 3], *prev2 = row[(i + 1) % 3];
        cur[0] = i;
        for (int j = 1; j <= nb; j++) {
            int best = prev[j - 1] + (a[i - 1] != b[j - 1]);
            if (prev[j] + 1 < best) best = prev[j] + 1;
            if (cur[j - 1] + 1 < best) best = cur[j - 1] + 1;
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && prev2[j - 2] + 1 < best) best = prev2[j - 2] + 1;
            cur[j] = best;
        }
    }
    return row[na % 3][nb];
}
