// Diagnostics: mistakes of the user, collected while work goes on, then sorted by place and printed.
//
// Nothing is printed when it is found, because phases find things in their own order. diag_print
// shows what has come since it was last called: in the order of the text, one message for one cause
// (the same code at the same span says nothing new), and no more than 20 errors.
//
//     rich    error[E0111]: ...  with excerpts (diag_rich.c)
//     short   matmul.tk:21:15: error: E0111: ...
//     json    one object a line, with every span as line and column
//
// docs/errors.md is embedded; the build splits it at its `## E....` headings into texts that follow
// each other, each with its own terminator.

#include "lang/c_text.h"
#include "lang/diag_internal.h"
#include "lang/shown.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_ERRORS = 20 };

const DiagInfo diag_info[DIAG_COUNT] = {
#define DIAG(code, severity, name, format) [E_##name] = {#code, #name, SEV_##severity, format},
#include "lang/diags.h"
#undef DIAG
};
const char *const severity_names[] = {"error", "warning", "remark"};

extern const unsigned char errors_md[];          // made from docs/errors.md by embed.cmake
extern const unsigned int errors_md_size;

#define FORMATTED(text, arena, fmt)                    \
    do {                                               \
        va_list args_;                                 \
        va_start(args_, fmt);                          \
        (text) = shown_printf((arena), (fmt), args_);  \
        va_end(args_);                                 \
    } while (0)

static char *shown_printf(Arena *a, const char *fmt, va_list args) {
    return (char *)(uintptr_t)arena_shown(a, arena_vprintf(a, fmt, args));
}

Diag *diag(Session *s, DiagCode code, Span at, ...) {
    Diag *d = NEW(s->arena, Diag);
    d->session = s;
    d->code = code;
    d->at = at;
    va_list args;
    va_start(args, at);
    d->message = shown_printf(s->arena, diag_info[code].format, args);
    va_end(args);
    vec_push(s->arena, &s->diags, d);
    return d;
}

void diag_primary(Diag *d, const char *fmt, ...) {
    FORMATTED(d->primary, d->session->arena, fmt);
}

void diag_label(Diag *d, Span at, const char *fmt, ...) {
    Label l = {.at = at};
    FORMATTED(l.text, d->session->arena, fmt);
    vec_push(d->session->arena, &d->labels, l);
}

void diag_note(Diag *d, const char *fmt, ...) {
    Extra e = {.help = false};
    FORMATTED(e.text, d->session->arena, fmt);
    vec_push(d->session->arena, &d->extras, e);
}

void diag_help(Diag *d, const char *fmt, ...) {
    Extra e = {.help = true};
    FORMATTED(e.text, d->session->arena, fmt);
    vec_push(d->session->arena, &d->extras, e);
}

// Belongs to the help given just before, or makes one of its own.
void diag_fix(Diag *d, Span at, const char *replacement) {
    Extra *last = d->extras.n ? &d->extras.at[d->extras.n - 1] : NULL;
    if (!last || !last->help || last->has_fix) {
        diag_help(d, "try this");
        last = &d->extras.at[d->extras.n - 1];
    }
    last->has_fix = true;
    last->fix_at = at;
    last->fix = arena_printf(d->session->arena, "%s", replacement);
}

int diag_errors(const Session *s) {
    int n = 0;
    for (uint32_t i = 0; i < s->diags.n; i++) n += diag_info[s->diags.at[i]->code].severity == SEV_error;
    return n;
}

int diag_count(const Session *s) {
    return (int)s->diags.n;
}

void diag_forget(Session *s, int from) {
    if (from >= 0 && (uint32_t)from < s->diags.n) s->diags.n = (uint32_t)from;
    if (s->printed > s->diags.n) s->printed = s->diags.n;
}

// ---- printing ------------------------------------------------------------------------------------

typedef struct Place { const Diag *d; uint32_t nth; } Place;

static int by_place(const void *x, const void *y) {
    const Place *a = x, *b = y;
    if (a->d->at.lo != b->d->at.lo) return a->d->at.lo < b->d->at.lo ? -1 : 1;
    return a->nth < b->nth ? -1 : 1;
}

static bool same_cause(const Diag *a, const Diag *b) {
    if (a->code != b->code || a->at.lo != b->at.lo || a->at.hi != b->at.hi) return false;
    return a->at.hi != 0 || strcmp(a->message, b->message) == 0;      // nowhere: only the words tell
}

static void print_short(Session *s, const Diag *d, Buf *out) {
    const DiagInfo *info = &diag_info[d->code];
    LineCol w = span_where(s, d->at.lo);
    if (w.src) buf_printf(out, "%s:%u:%u: ", arena_shown(s->arena, w.src->path), w.line, w.col);
    buf_printf(out, "%s: %s: %s\n", severity_names[info->severity], info->code, d->message);
}

size_t utf8_length(const char *p, const char *end) {
    unsigned char c = (unsigned char)*p;
    size_t n = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
    if (n == 0 || (size_t)(end - p) < n) return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    unsigned char d = n > 1 ? (unsigned char)p[1] : 0;
    bool overlong = (c == 0xe0 && d < 0xa0) || (c == 0xf0 && d < 0x90);
    bool outside = (c == 0xed && d >= 0xa0) || (c == 0xf4 && d >= 0x90);
    return overlong || outside ? 0 : n;
}

static void json_string(Buf *out, const char *p) {
    const char *end = p + strlen(p);
    buf_putc(out, '"');
    while (p < end) {
        size_t n = utf8_length(p, end);
        if (n == 0) { buf_puts(out, "\\ufffd"); p++; continue; }
        if (*p == '"' || *p == '\\') buf_printf(out, "\\%c", *p);
        else if (*p == '\n') buf_puts(out, "\\n");
        else if (!char_plain(p, n)) buf_printf(out, "\\u%04x", char_code(p, n));         // all below 2^16
        else buf_add(out, p, n);
        p += n;
    }
    buf_putc(out, '"');
}

static void json_place(Session *s, Span at, Buf *out) {
    LineCol a = span_where(s, at.lo), b = span_where(s, at.hi);
    buf_puts(out, "\"file\":");
    json_string(out, a.src ? a.src->path : "");
    buf_printf(out, ",\"line\":%u,\"col\":%u,\"end_line\":%u,\"end_col\":%u", a.line, a.col, b.line, b.col);
}

static void json_span(Session *s, Span at, bool primary, const char *text, Buf *out) {
    buf_putc(out, '{');
    json_place(s, at, out);
    buf_printf(out, ",\"primary\":%s,\"label\":", primary ? "true" : "false");
    json_string(out, text ? text : "");
    buf_putc(out, '}');
}

static void print_json(Session *s, const Diag *d, Buf *out) {
    const DiagInfo *info = &diag_info[d->code];
    buf_printf(out, "{\"severity\":\"%s\",\"code\":\"%s\",\"name\":\"%s\",\"message\":", severity_names[info->severity],
               info->code, info->name);
    json_string(out, d->message);
    buf_puts(out, ",\"spans\":[");
    if (d->at.hi) json_span(s, d->at, true, d->primary, out);
    for (uint32_t i = 0; i < d->labels.n; i++) {
        if (i || d->at.hi) buf_putc(out, ',');
        json_span(s, d->labels.at[i].at, false, d->labels.at[i].text, out);
    }
    buf_puts(out, "],\"extras\":[");
    for (uint32_t i = 0; i < d->extras.n; i++) {
        const Extra *e = &d->extras.at[i];
        buf_printf(out, "%s{\"kind\":\"%s\",\"text\":", i ? "," : "", e->help ? "help" : "note");
        json_string(out, e->text);
        if (e->has_fix) {
            buf_puts(out, ",\"fix\":{");
            json_place(s, e->fix_at, out);
            buf_puts(out, ",\"replacement\":");
            json_string(out, e->fix);
            buf_putc(out, '}');
        }
        buf_putc(out, '}');
    }
    buf_puts(out, "]}\n");
}

static void print_unshown(int unshown, DiagStyle style, Buf *out) {
    const char *words = unshown == 1 ? "error is" : "errors are";
    if (style == DIAG_json)
        buf_printf(out, "{\"severity\":\"error\",\"message\":\"%d more %s not shown\"}\n", unshown, words);
    else buf_printf(out, "%serror: %d more %s not shown\n", style == DIAG_rich ? "\n" : "", unshown, words);
}

int diag_write(Session *s, Buf *to, DiagStyle style, bool color) {
    uint32_t n = s->diags.n - s->printed;
    if (n == 0) return 0;
    ArenaMark mark = arena_mark(s->arena);
    Place *order = NEW_N(s->arena, Place, n);
    for (uint32_t i = 0; i < n; i++) order[i] = (Place){s->diags.at[s->printed + i], i};
    qsort(order, n, sizeof *order, by_place);

    size_t start = to->n;
    int errors = 0, unshown = 0;
    uint32_t first = 0;                          // of those that begin where order[i] does
    for (uint32_t i = 0; i < n; i++) {
        const Diag *d = order[i].d;
        bool known = false;
        if (order[first].d->at.lo != d->at.lo) first = i;
        for (uint32_t j = first; j < i && !known; j++) known = same_cause(order[j].d, d);
        if (known) continue;
        bool is_error = diag_info[d->code].severity == SEV_error;
        if (errors >= MAX_ERRORS) { unshown += is_error; continue; }
        errors += is_error;
        if (style == DIAG_short) print_short(s, d, to);
        else if (style == DIAG_json) print_json(s, d, to);
        else {
            if (to->n > start) buf_putc(to, '\n');
            diag_draw(d, to, color);
        }
    }
    if (unshown) print_unshown(unshown, style, to);
    s->printed = s->diags.n;
    arena_reset(s->arena, mark);
    return errors + unshown;
}

int diag_print(Session *s, FILE *to, DiagStyle style, bool color) {
    Buf out = {0};
    int errors = diag_write(s, &out, style, color);
    if (out.n) fwrite(out.p, 1, out.n, to);
    buf_free(&out);
    return errors;
}

const char *diag_explain(const char *code) {
    const char *p = (const char *)errors_md, *end = p + errors_md_size;
    size_t n = strlen(code);
    for (; n && p < end; p += strlen(p) + 1)
        if (strncmp(p, code, n) == 0 && (p[n] == ' ' || p[n] == '\n')) return p;
    return NULL;
}

static char doing[1024];

void ice_while(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    c_vsnprintf(doing, sizeof doing, fmt, args);
    va_end(args);
}

void ice_at(const char *file, int line, const char *fmt, ...) {
    fprintf(stderr, "tkc: internal error at %s:%d: ", file, line);
    va_list args;
    va_start(args, fmt);
    c_vfprintf(stderr, fmt, args);
    va_end(args);
    if (doing[0]) fprintf(stderr, "\nwhile doing this: %s", doing);
    fprintf(stderr, "\nThis is a mistake in the compiler, not in your program: please report it with the source.\n");
    abort();
}
