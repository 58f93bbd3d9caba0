// Golden files: text that a program should print, kept beside its input. With --bless the file is
// written anew, and its diff is the review.
#ifndef TK_TESTS_GOLDEN_H
#define TK_TESTS_GOLDEN_H

#include "lang/lang.h"

#include <stdlib.h>
#include <string.h>

static inline char *golden_read(const char *path, size_t *n) {
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    Buf b = {0};
    char block[4096];
    size_t got;
    while ((got = fread(block, 1, sizeof block, f)) > 0) buf_add(&b, block, got);
    buf_puts(&b, "");
    fclose(f);
    *n = b.n;
    return b.p;
}

// The path with its ending replaced: "a/b.tk" -> "a/b.txt".
static inline char *golden_path(const char *path, const char *ending) {
    const char *dot = strrchr(path, '.');
    size_t n = dot ? (size_t)(dot - path) : strlen(path);
    char *out = heap_try(n + strlen(ending) + 1);
    if (!out) abort();
    memcpy(out, path, n);
    strcpy(out + n, ending);
    return out;
}

// True if the file holds exactly `text`; else shows the first line that differs.
static inline bool golden_check(const char *path, const char *text, bool bless) {
    if (bless) {
        FILE *f = fopen(path, "wb");
        if (!f) { perror(path); return false; }
        fputs(text, f);
        return fclose(f) == 0;
    }
    size_t n = 0;
    char *want = golden_read(path, &n);
    if (!want) { printf("%s: missing; run with --bless to write it. It would hold:\n%s", path, text); return false; }
    bool same = strcmp(want, text) == 0;
    if (!same) {
        const char *w = want, *g = text;
        int line = 1;
        for (;;) {
            size_t wn = strcspn(w, "\n"), gn = strcspn(g, "\n");
            if (wn != gn || memcmp(w, g, wn) != 0 || w[wn] != g[gn]) {
                printf("%s:%d: differs\n  want: %.*s\n  got:  %.*s\nthe whole of it:\n%s", path, line, (int)wn, w,
                       (int)gn, g, text);
                break;
            }
            w += wn + 1, g += gn + 1, line++;
        }
    }
    heap_free(want);
    return same;
}

// What `print` writes to a file, as text; for heap_free, as all texts here.
#define GOLDEN_CAPTURE(text, out, statement)                                    \
    do {                                                                        \
        size_t size_ = 0;                                                       \
        char *text_ = NULL;                                                     \
        FILE *(out) = open_memstream(&text_, &size_);                           \
        if (!(out)) abort();                                                    \
        statement;                                                              \
        fclose(out);                                                            \
        (text) = memcpy(heap_room(size_ + 1), text_, size_ + 1);                \
        free(text_);                                                            \
    } while (0)

#endif
