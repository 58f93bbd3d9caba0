// What a terminal gets to see of text that comes from a file: a model's names, a source's lines, PTX, paths.
//
//     ESC [ 31 m        \x1b[31m            a terminal would obey
//     U+202E            \u{202e}            the line would be read the other way round
//     not UTF-8         \xff
//     100,000 letters   aaaaaaa...(100000 bytes)
//
// Line feeds and tabs stay: messages have lines. Whoever prints a name in a line of a program's, where a line feed would make another
// line of it, says so (buf_line; `shown` of graph/onnx). Programs (--emit=tk, ptx) are not changed: they are code, and are read again.
#include "lang/shown.h"

#include <stdlib.h>
#include <string.h>

enum { LONG_WORD = 400, WORD_KEPT = 200, LONG_LINE = 4000 };

uint32_t char_code(const char *p, size_t n) {
    uint32_t code = n == 1 ? (unsigned char)*p : (unsigned char)*p & (0x7fu >> n);
    for (size_t i = 1; i < n; i++) code = code << 6 | (p[i] & 0x3fu);
    return code;
}

static bool obeyed(uint32_t code) {
    bool control = (code < 0x20 && code != '\n' && code != '\t') || (code >= 0x7f && code < 0xa0);
    bool turns = (code >= 0x200e && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    return control || turns;
}

bool char_plain(const char *p, size_t n) {
    uint32_t code = char_code(p, n);
    return !obeyed(code) && code != '\n' && code != '\t';
}

static bool is_plain(const char *p, size_t n, Shown how) {
    size_t word = 0, line = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)p[i];
        if ((c < 0x20 && c != '\n' && c != '\t') || c >= 0x7f) return false;
        word = c == ' ' || c == '\n' || c == '\t' ? 0 : word + 1;
        line = c == '\n' ? 0 : line + 1;
        if (word > LONG_WORD || (how == SHOWN_SHORT && line > LONG_LINE)) return false;
    }
    return true;
}

// Up to n bytes; returns how many it took, which ends with a whole character.
static size_t escaped(Buf *out, const char *p, size_t n, size_t most) {
    size_t i = 0;
    while (i < most) {
        size_t whole = utf8_length(p + i, p + n);
        uint32_t code = whole ? char_code(p + i, whole) : 0;
        if (!whole) buf_printf(out, "\\x%02x", (unsigned char)p[i]);
        else if (!obeyed(code)) buf_add(out, p + i, whole);
        else buf_printf(out, code < 0x80 ? "\\x%02x" : "\\u{%x}", code);
        i += whole ? whole : 1;
    }
    return i;
}

static size_t length_to(const char *p, size_t n, const char *ends) {
    size_t i = 0;
    while (i < n && !strchr(ends, p[i])) i++;           // a zero ends it, too
    return i < n && p[i] == 0 ? i + 1 : i;
}

static void line_shown(Buf *out, const char *p, size_t n, Shown how) {
    size_t done = 0, stop = how == SHOWN_SHORT && n > LONG_LINE ? LONG_LINE : n;
    while (done < stop) {
        size_t word = length_to(p + done, n - done, " \t");
        if (word > LONG_WORD) {
            escaped(out, p + done, n - done, WORD_KEPT);
            buf_printf(out, "...(%zu bytes)", word);
        } else escaped(out, p + done, word, word);
        done += word;
        for (; done < n && done < stop && (p[done] == ' ' || p[done] == '\t'); done++) buf_putc(out, p[done]);
    }
    if (done < n) buf_printf(out, "...(%zu bytes)", n);
}

void buf_shown(Buf *out, const char *text, size_t n, Shown how) {
    if (how == SHOWN_TEXT) { escaped(out, text, n, n); return; }
    if (is_plain(text, n, how)) { buf_add(out, text, n); return; }
    for (size_t i = 0; i < n;) {
        const char *end = memchr(text + i, '\n', n - i);
        size_t line = end ? (size_t)(end - text) - i : n - i;
        line_shown(out, text + i, line, how);
        i += line;
        if (end) buf_putc(out, '\n'), i++;
    }
}

void buf_line(Buf *out, const char *text) {
    while (*text) {
        size_t n = strcspn(text, "\n\t");
        buf_shown(out, text, n, SHOWN_SHORT);
        if (text[n]) buf_printf(out, "\\x%02x", text[n]);
        text += n + (text[n] != 0);
    }
}

const char *arena_shown(Arena *a, const char *text) {
    size_t n = strlen(text);
    if (is_plain(text, n, SHOWN_SHORT)) return text;
    Buf out = {0};
    buf_shown(&out, text, n, SHOWN_SHORT);
    char *copy = arena_alloc(a, out.n + 1);
    memcpy(copy, out.p, out.n);
    buf_free(&out);
    return copy;
}

void put_shown(FILE *to, const char *text, size_t n) {
    Buf out = {0};
    buf_shown(&out, text, n, SHOWN_SHORT);
    if (out.n) fwrite(out.p, 1, out.n, to);
    buf_free(&out);
}

void print_shown(FILE *to, const char *fmt, ...) {
    Buf text = {0};
    va_list args;
    va_start(args, fmt);
    buf_vprintf(&text, fmt, args);
    va_end(args);
    if (text.n) put_shown(to, text.p, text.n);
    buf_free(&text);
}
