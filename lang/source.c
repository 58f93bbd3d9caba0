// Sources and the session that owns them.
//
// All files share one space of offsets: the first file begins at 1, each next one after the
// terminator of the last. So a span is two numbers, tokens and nodes carry no file, and 0 is left
// to mean nowhere. Lines are found when someone asks: the first question about a file builds its
// table of line starts.
//
//     a.tk "x;\n"   offsets 1 .. 4     b.tk "y"   offsets 5 .. 6
//
// A path that no file has may be one of the library in the binary: `tkc test std/norm` reads that.
//
// A column counts characters (code points), as editors do, and a tab is one of them.

#include "lang/internal.h"
#include "lang/limits.h"

#include "lang/file.h"
#include "lang/std_embed.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_SOURCE = 1 << 30 };       // far below the 4 GiB of offsets that all files share

Session *session_new(void) {
    Session *s = heap_alloc(sizeof *s);
    s->arena = arena_new();
    s->next_base = 1;
    return s;
}

void session_free(Session *s) {
    if (!s) return;
    arena_free(s->arena);
    heap_free(s);
}

Arena *session_arena(Session *s) {
    return s->arena;
}

Source *source_add(Session *s, const char *path, const char *text, size_t n) {
    if (n > MAX_SOURCE || n > UINT32_MAX - 1 - s->next_base) ice("%s: sources of more than 4 GiB", path);
    SourceFile *f = NEW(s->arena, SourceFile);
    char *copy = arena_alloc(s->arena, n + 1);
    if (n) memcpy(copy, text, n);
    f->pub.path = arena_printf(s->arena, "%s", path);
    f->pub.text = copy;
    f->pub.size = (uint32_t)n;
    f->pub.base = s->next_base;
    s->next_base += (uint32_t)n + 1;
    vec_push(s->arena, &s->sources, f);
    return &f->pub;
}

static bool read_all(int fd, Buf *text) {
    char block[1 << 16];
    for (ssize_t got; (got = read(fd, block, sizeof block)) != 0;) {
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return false;
        buf_add(text, block, (size_t)got);
        if ((int64_t)text->n > limit_of(LIMIT_source_bytes)) { errno = EFBIG; return false; }
    }
    return true;
}

Source *source_std(Session *s, const char *path) {
    if (strncmp(path, "std/", 4) != 0) return NULL;
    size_t size, n = strlen(path);
    bool whole = n > 3 && strcmp(path + n - 3, ".tk") == 0;
    char *full = arena_printf(s->arena, "%s%s", path, whole ? "" : ".tk");
    const char *text = std_source(full + 4, &size);
    if (!text) return NULL;
    Source *src = source_add(s, full, text, size);
    src->builtin = true;
    return src;
}

const char *std_nearest(const char *name) {
    const char *near = NULL;
    int best = 4;
    for (int i = 0; std_name(i); i++) {
        char base[64];
        snprintf(base, sizeof base, "%.*s", (int)strcspn(std_name(i), "."), std_name(i));
        int far = edit_distance(name, strchr(name, '.') ? std_name(i) : base);
        if (far < best) best = far, near = std_name(i);
    }
    return near;
}

// What a file names is opened only if it is a regular file; what a user names may be a pipe or a terminal, too.
static int open_source(const char *path, bool imported, const char **why) {
    size_t size;
    return imported ? file_open(path, FILE_PLAIN, &size, why) : file_open_any(path, why);
}

// Before anything is read: a sparse file of many gigabytes costs nothing to make.
static bool small(Arena *a, int in, const char **why) {
    struct stat st;
    if (fstat(in, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size <= limit_of(LIMIT_source_bytes)) return true;
    Buf words = {0};
    limit_words(LIMIT_source_bytes, st.st_size, &words);
    *why = arena_printf(a, "%s", words.p);
    buf_free(&words);
    return false;
}

static Source *read_from(Session *s, const char *path, bool imported, char **error) {
    bool standard = !imported && strcmp(path, "-") == 0;
    const char *why = NULL;
    errno = 0;
    int in = standard ? STDIN_FILENO : open_source(path, imported, &why);

    Buf text = {0};
    Source *src = NULL;
    if (in < 0 && errno == ENOENT && (src = source_std(s, path)) != NULL) return src;
    if (in >= 0 && small(s->arena, in, &why) && read_all(in, &text)) src = source_add(s, standard ? "<stdin>" : path, text.p ? text.p : "", text.n);
    else if (error) {
        const char *near = errno == ENOENT && strncmp(path, "std/", 4) == 0 ? std_nearest(path + 4) : NULL;
        *error = arena_printf(s->arena, "%s: %s", path, why ? why : strerror(errno ? errno : EIO));
        if (near) *error = arena_printf(s->arena, "%s; did you mean std/%.*s?", *error, (int)strcspn(near, "."), near);
    }
    if (!standard) file_close(in);
    buf_free(&text);
    return src;
}

Source *source_read(Session *s, const char *path, char **error) { return read_from(s, path, false, error); }
Source *source_import(Session *s, const char *path, char **error) { return read_from(s, path, true, error); }

const Source *source_at(const Session *s, int i) {
    return i >= 0 && (uint32_t)i < s->sources.n ? &s->sources.at[i]->pub : NULL;
}

static void build_lines(Session *s, SourceFile *f) {
    uint32_t lines = 1, at = 1;
    for (uint32_t i = 0; i < f->pub.size; i++) lines += f->pub.text[i] == '\n';
    f->line_starts = NEW_N(s->arena, uint32_t, lines);
    for (uint32_t i = 0; i < f->pub.size; i++)
        if (f->pub.text[i] == '\n') f->line_starts[at++] = i + 1;
    f->lines = lines;
}

static SourceFile *file_of(Session *s, Pos p) {
    uint32_t lo = 0, hi = s->sources.n;
    while (lo < hi) {                            // the last file whose base is at most p
        uint32_t mid = (lo + hi) / 2;
        if (s->sources.at[mid]->pub.base <= p) lo = mid + 1; else hi = mid;
    }
    return p != 0 && lo > 0 ? s->sources.at[lo - 1] : NULL;
}

LineCol span_where(Session *s, Pos p) {
    SourceFile *f = file_of(s, p);
    if (!f) return (LineCol){0};
    if (!f->line_starts) build_lines(s, f);
    uint32_t off = p - f->pub.base;
    if (off > f->pub.size) off = f->pub.size;
    uint32_t lo = 0, hi = f->lines;
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (f->line_starts[mid] <= off) lo = mid + 1; else hi = mid;
    }
    uint32_t start = f->line_starts[lo - 1];
    uint32_t end = lo < f->lines ? f->line_starts[lo] - 1 : f->pub.size;
    if (end > start && f->pub.text[end - 1] == '\r') end--;
    uint32_t col = 1;
    for (uint32_t i = start; i < off; i++) col += (f->pub.text[i] & 0xc0) != 0x80;
    return (LineCol){&f->pub, lo, col, {f->pub.text + start, end - start}};
}

Str span_text(Session *s, Span sp) {
    SourceFile *f = file_of(s, sp.lo);
    if (!f || sp.hi < sp.lo) return (Str){"", 0};
    uint32_t lo = sp.lo - f->pub.base, hi = sp.hi - f->pub.base;
    if (lo > f->pub.size) lo = f->pub.size;
    if (hi > f->pub.size) hi = f->pub.size;
    return (Str){f->pub.text + lo, hi - lo};
}
