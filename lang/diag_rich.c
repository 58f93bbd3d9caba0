// The rich form of a diagnostic: the message, the lines it is about, and what to do.
//
//     error[E0304]: inner dimensions of `dot` differ: 64 and 32      message
//       --> matmul.tk:21:15                                          place of the primary span
//        |
//     16 |     let b = w[k2, n];                                     lines with marks, in order;
//        |             -------- `b` is f32[k2, n]                    `...` where lines are left out
//     ...
//     21 |     acc += dot(a, b);
//        |                ^  ^ 32 long                               the last mark's words beside it,
//        |                64 long                                    the others' below, right to left
//        |
//        = note: BK = 64 (default)                                  facts
//     help: use the whole range                                     a help with its fix, as the line
//        |                                                          would then read
//     14 |     let k2 = K by BK;
//        |              ~~~~~~~
//
// Columns are those of a terminal: tabs go to the next multiple of 4, wide characters take two, and
// bytes that are no text show as U+FFFD. A span of several lines is marked on its first. Lines too
// long to read are cut to a window around the marks.

#include "lang/diag_internal.h"
#include "lang/shown.h"

#include <stdlib.h>
#include <string.h>

enum { TAB = 4, LONG_LINE = 400, WINDOW_BEFORE = 80, WINDOW = 200 };

typedef struct Mark {
    const Source *src;
    uint32_t line;
    Str text;                    // of the line
    uint32_t lo, hi;             // bytes in the line, hi > lo but for an empty span
    uint32_t col, width;         // as shown
    bool primary;
    const char *words;           // or NULL
} Mark;

typedef struct Page {            // where drawing goes
    Buf *out;
    bool color;
    Severity severity;
    int gutter;                  // digits of the largest line number
} Page;

// ---- colours -------------------------------------------------------------------------------------

typedef enum Ink { INK_plain, INK_bold, INK_rule, INK_error, INK_warning, INK_remark, INK_good } Ink;

static const char *const inks[] = {
    [INK_plain] = "\x1b[0m",        [INK_bold] = "\x1b[1m",          [INK_rule] = "\x1b[1;34m", [INK_error] = "\x1b[1;31m",
    [INK_warning] = "\x1b[1;33m",   [INK_remark] = "\x1b[1;36m",     [INK_good] = "\x1b[1;32m",
};
static const Ink severity_inks[] = {[SEV_error] = INK_error, [SEV_warning] = INK_warning, [SEV_remark] = INK_remark};

static void ink(Page *p, Ink to) {
    if (p->color) buf_puts(p->out, inks[to]);
}

static void inked(Page *p, Ink to, const char *text) {
    ink(p, to);
    buf_puts(p->out, text);
    ink(p, INK_plain);
}

// ---- columns of a terminal -----------------------------------------------------------------------

static const struct { uint32_t lo, hi; uint8_t width; } char_widths[] = {
    {0x0300, 0x036f, 0},   {0x1100, 0x115f, 2},   {0x200b, 0x200f, 0},   {0x2e80, 0xa4cf, 2},   {0xac00, 0xd7a3, 2},
    {0xf900, 0xfaff, 2},   {0xfe00, 0xfe0f, 0},   {0xfe30, 0xfe6f, 2},   {0xfeff, 0xfeff, 0},   {0xff00, 0xff60, 2},
    {0xffe0, 0xffe6, 2},   {0x1f300, 0x1f64f, 2}, {0x1f680, 0x1f6ff, 2}, {0x1f900, 0x1f9ff, 2}, {0x20000, 0x3fffd, 2},
};

static const char replacement[] = "\xef\xbf\xbd";

// The character at p: its bytes, its width at column `col`, and what to show for it.
static uint32_t char_at(const char *p, const char *end, uint32_t col, uint32_t *width, Str *shown) {
    unsigned char c = (unsigned char)*p;
    *width = 1;
    *shown = (Str){replacement, 3};
    if (c == '\t') { *width = TAB - col % TAB; *shown = (Str){"    ", *width}; return 1; }
    if (c < 0x20 || c == 0x7f) return 1;
    if (c < 0x80) { *shown = (Str){p, 1}; return 1; }
    uint32_t n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 0;
    if (n == 0 || (size_t)(end - p) < n || c > 0xf4) return 1;
    uint32_t code = c & (0x7fu >> n);
    for (uint32_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) return 1;
        code = code << 6 | (p[i] & 0x3fu);
    }
    if (code >= 0x80 && code < 0xa0) return n;
    if ((code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069)) return n;    // would turn the line around
    *shown = (Str){p, n};
    for (size_t i = 0; i < sizeof char_widths / sizeof *char_widths; i++)
        if (code >= char_widths[i].lo && code <= char_widths[i].hi) *width = char_widths[i].width;
    return n;
}

// Shows a line; the column at which byte `upto` stands.
static uint32_t show(Str line, uint32_t upto, Buf *out) {
    uint32_t col = 0, at = line.n < upto ? UINT32_MAX : 0, width;
    Str shown;
    for (uint32_t i = 0; i < line.n;) {
        if (i <= upto) at = col;
        uint32_t n = char_at(line.p + i, line.p + line.n, col, &width, &shown);
        if (out) buf_add(out, shown.p, shown.n);
        col += width;
        i += n;
    }
    return upto >= line.n ? col : at;
}

static uint32_t column(Str line, uint32_t byte) { return show(line, byte, NULL); }

// ---- the gutter ----------------------------------------------------------------------------------

static void rule(Page *p, const char *after) {
    ink(p, INK_rule);
    buf_printf(p->out, "%*s |", p->gutter, "");
    ink(p, INK_plain);
    buf_puts(p->out, after);
}

static void numbered(Page *p, uint32_t line, Str text) {
    ink(p, INK_rule);
    buf_printf(p->out, "%*u |", p->gutter, line);
    ink(p, INK_plain);
    if (text.n) {
        buf_putc(p->out, ' ');
        show(text, 0, p->out);
    }
    buf_putc(p->out, '\n');
}

static void pad_to(Buf *out, uint32_t *col, uint32_t to) {
    while (*col < to) {
        buf_putc(out, ' ');
        ++*col;
    }
}

// ---- marks ---------------------------------------------------------------------------------------

static bool mark_make(Session *s, Span at, bool primary, const char *words, Mark *m) {
    LineCol w = span_where(s, at.lo);
    if (at.hi == 0 || !w.src) return false;
    uint32_t lo = (uint32_t)(w.src->text + (at.lo - w.src->base) - w.text.p);
    if (lo > w.text.n) lo = (uint32_t)w.text.n;
    uint32_t hi = at.hi > at.lo ? lo + (at.hi - at.lo) : lo;
    if (hi > w.text.n) hi = (uint32_t)w.text.n;
    *m = (Mark){w.src, w.line, w.text, lo, hi, 0, 0, primary, words && *words ? words : NULL};
    return true;
}

static int by_line(const void *x, const void *y) {
    const Mark *a = x, *b = y;
    if (a->line != b->line) return a->line < b->line ? -1 : 1;
    if (a->lo != b->lo) return a->lo < b->lo ? -1 : 1;
    if (a->primary != b->primary) return a->primary ? 1 : -1;
    return 0;
}

// Cuts a long line to a window around its first mark and moves the marks along.
static void window(Arena *arena, Mark *marks, uint32_t n) {
    Str line = marks[0].text;
    if (line.n > LONG_LINE) {
        size_t lo = marks[0].lo > WINDOW_BEFORE ? marks[0].lo - WINDOW_BEFORE : 0;
        while (lo > 0 && (line.p[lo] & 0xc0) == 0x80) lo--;
        size_t hi = lo + WINDOW < line.n ? lo + WINDOW : line.n;
        while (hi < line.n && (line.p[hi] & 0xc0) == 0x80) hi++;
        const char *before = lo > 0 ? "... " : "", *after = hi < line.n ? " ..." : "";
        uint32_t shown = (uint32_t)(hi - lo), shift = (uint32_t)strlen(before);
        for (uint32_t i = 0; i < n; i++) {
            marks[i].lo = shift + (marks[i].lo - lo < shown ? (uint32_t)(marks[i].lo - lo) : shown);
            marks[i].hi = shift + (marks[i].hi - lo < shown ? (uint32_t)(marks[i].hi - lo) : shown);
        }
        char *cut = arena_alloc(arena, shift + shown + strlen(after) + 1);
        memcpy(cut, before, shift);
        memcpy(cut + shift, line.p + lo, shown);
        strcpy(cut + shift + shown, after);
        line = (Str){cut, shift + shown + strlen(after)};
    }
    for (uint32_t i = 0; i < n; i++) {
        Mark *m = &marks[i];
        m->text = line;
        m->col = column(line, m->lo);
        uint32_t end = column(line, m->hi);
        m->width = end > m->col ? end - m->col : 1;
    }
}

static void draw_underlines(Page *p, const Mark *marks, uint32_t n, const Mark *beside) {
    uint32_t end = 0;
    for (uint32_t i = 0; i < n; i++)
        if (marks[i].col + marks[i].width > end) end = marks[i].col + marks[i].width;
    rule(p, " ");
    Ink now = INK_plain;
    for (uint32_t c = 0; c < end; c++) {
        char ch = ' ';
        for (uint32_t i = 0; i < n; i++)
            if (c >= marks[i].col && c < marks[i].col + marks[i].width && ch != '^') ch = marks[i].primary ? '^' : '-';
        Ink want = ch == '^' ? severity_inks[p->severity] : ch == '-' ? INK_rule : INK_plain;
        if (want != now) ink(p, want);
        now = want;
        buf_putc(p->out, ch);
    }
    if (beside) {
        ink(p, beside->primary ? severity_inks[p->severity] : INK_rule);
        buf_printf(p->out, " %s", beside->words);
        now = INK_bold;
    }
    if (now != INK_plain) ink(p, INK_plain);
    buf_putc(p->out, '\n');
}

// The words that do not fit beside the underlines, right to left, each with `|` for those to come.
static void draw_hanging(Page *p, const Mark *marks, uint32_t n, const Mark *beside) {
    for (uint32_t i = n; i-- > 0;) {
        if (!marks[i].words || &marks[i] == beside) continue;
        uint32_t col = 0;
        rule(p, " ");
        for (uint32_t j = 0; j < i; j++) {
            if (!marks[j].words || &marks[j] == beside || marks[j].col >= marks[i].col || marks[j].col < col) continue;
            pad_to(p->out, &col, marks[j].col);
            inked(p, marks[j].primary ? severity_inks[p->severity] : INK_rule, "|");
            col++;
        }
        pad_to(p->out, &col, marks[i].col);
        inked(p, marks[i].primary ? severity_inks[p->severity] : INK_rule, marks[i].words);
        buf_putc(p->out, '\n');
    }
}

static void draw_line(Session *s, Page *p, Mark *marks, uint32_t n) {
    window(s->arena, marks, n);
    numbered(p, marks[0].line, marks[0].text);
    const Mark *beside = &marks[n - 1];
    for (uint32_t i = 0; i + 1 < n; i++)
        if (marks[i].col + marks[i].width > beside->col) beside = NULL, i = n;
    if (beside && !beside->words) beside = NULL;
    draw_underlines(p, marks, n, beside);
    draw_hanging(p, marks, n, beside);
}

static void draw_file(Session *s, Page *p, Mark *marks, uint32_t n, const Mark *primary) {
    const Mark *first = primary && primary->src == marks[0].src ? primary : &marks[0];
    LineCol w = span_where(s, first->src->base + (Pos)(first->text.p - first->src->text) + first->lo);
    ink(p, INK_rule);
    buf_printf(p->out, "%*s%s ", p->gutter, "", first == primary ? "-->" : ":::");
    ink(p, INK_plain);
    buf_shown(p->out, first->src->path, strlen(first->src->path), SHOWN_SHORT);
    buf_printf(p->out, ":%u:%u\n", w.line, w.col);
    rule(p, "\n");
    qsort(marks, n, sizeof *marks, by_line);
    uint32_t before = 0;
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && marks[end].line == marks[i].line; end++) {}
        uint32_t line = marks[i].line;
        if (before && line == before + 2) {
            LineCol between = span_where(s, marks[i].src->base + (Pos)(marks[i].text.p - marks[i].src->text) - 1);
            if (between.text.n <= LONG_LINE) numbered(p, between.line, between.text);
        } else if (before && line > before + 2) {
            inked(p, INK_rule, "...\n");
        }
        draw_line(s, p, marks + i, end - i);
        before = line;
    }
}

// ---- notes, helps, fixes -------------------------------------------------------------------------

static void draw_words(Page *p, const char *kind, const char *text) {
    ink(p, INK_rule);
    buf_printf(p->out, "%*s = ", p->gutter, "");
    ink(p, INK_bold);
    buf_printf(p->out, "%s: ", kind);
    ink(p, INK_plain);
    for (; *text; text++) {
        buf_putc(p->out, *text);
        if (*text == '\n') buf_printf(p->out, "%*s", p->gutter + 3 + (int)strlen(kind) + 2, "");
    }
    buf_putc(p->out, '\n');
}

static void draw_diff(Page *p, uint32_t line, const char *sign, Ink to, const char *text, size_t n) {
    while (true) {
        const char *nl = memchr(text, '\n', n);
        size_t len = nl ? (size_t)(nl - text) : n;
        ink(p, INK_rule);
        buf_printf(p->out, "%*u ", p->gutter, line++);
        ink(p, to);
        buf_puts(p->out, sign);
        if (len) buf_putc(p->out, ' ');
        show((Str){text, len}, 0, p->out);
        ink(p, INK_plain);
        buf_putc(p->out, '\n');
        if (!nl) return;
        n -= len + 1;
        text = nl + 1;
    }
}

// The line as it would read: `+` under what is new, `~` under what is changed; lines taken out or
// changed in number as a diff.
static void draw_fix(Session *s, Page *p, const Extra *e) {
    LineCol a = span_where(s, e->fix_at.lo), b = span_where(s, e->fix_at.hi);
    if (!a.src || a.src != b.src) return;
    const char *from = a.src->text + (e->fix_at.lo - a.src->base), *to = a.src->text + (e->fix_at.hi - a.src->base);
    const char *begin = a.text.p, *end = b.text.p + b.text.n;
    if (end < to) end = to;                      // at a carriage return
    size_t before = (size_t)(from - begin);
    Buf line = {0};
    buf_add(&line, begin, before);
    buf_puts(&line, e->fix);
    buf_add(&line, to, (size_t)(end - to));
    rule(p, "\n");
    if (line.n > LONG_LINE) {
        buf_free(&line);
        return;
    }
    bool insertion = from == to;
    if (*e->fix == 0 || strchr(e->fix, '\n') || a.line != b.line) {
        draw_diff(p, a.line, "-", INK_error, begin, (size_t)(end - begin));
        draw_diff(p, a.line, "+", INK_good, line.p, line.n);
    } else {
        Str text = {line.p, line.n};
        numbered(p, a.line, text);
        uint32_t lo = column(text, (uint32_t)before), hi = column(text, (uint32_t)(before + strlen(e->fix)));
        rule(p, " ");
        for (uint32_t c = 0; c < lo; c++) buf_putc(p->out, ' ');
        ink(p, insertion ? INK_good : INK_warning);
        for (uint32_t c = lo; c < hi; c++) buf_putc(p->out, insertion ? '+' : '~');
        ink(p, INK_plain);
        buf_putc(p->out, '\n');
    }
    buf_free(&line);
}

static void draw_extras(Session *s, Page *p, const Diag *d) {
    if (d->extras.n && d->at.hi) rule(p, "\n");
    for (uint32_t i = 0; i < d->extras.n; i++) {
        const Extra *e = &d->extras.at[i];
        if (!e->has_fix) { draw_words(p, e->help ? "help" : "note", e->text); continue; }
        inked(p, INK_bold, "help");
        buf_printf(p->out, ": %s\n", e->text);
        draw_fix(s, p, e);
    }
}

// ---- the whole -----------------------------------------------------------------------------------

static int gutter_width(Session *s, const Diag *d, const Mark *marks, uint32_t n) {
    uint32_t last = 1;
    for (uint32_t i = 0; i < n; i++)
        if (marks[i].line > last) last = marks[i].line;
    for (uint32_t i = 0; i < d->extras.n; i++) {
        LineCol w = d->extras.at[i].has_fix ? span_where(s, d->extras.at[i].fix_at.hi) : (LineCol){0};
        if (w.line > last) last = w.line;
    }
    int digits = 1;
    while (last >= 10) last /= 10, digits++;
    return digits < 2 ? 2 : digits;              // most files have 10 lines: keep pages alike
}

void diag_draw(const Diag *d, Buf *out, bool color) {
    Session *s = d->session;
    const DiagInfo *info = &diag_info[d->code];
    Mark *marks = NEW_N(s->arena, Mark, d->labels.n + 1);
    uint32_t n = 0;
    bool placed = mark_make(s, d->at, true, d->primary, &marks[0]);
    n += placed;
    for (uint32_t i = 0; i < d->labels.n; i++) n += mark_make(s, d->labels.at[i].at, false, d->labels.at[i].text, &marks[n]);

    Page p = {out, color, info->severity, gutter_width(s, d, marks, n)};
    ink(&p, severity_inks[info->severity]);
    buf_printf(out, "%s[%s]", severity_names[info->severity], info->code);
    ink(&p, INK_bold);
    buf_printf(out, ": %s", d->message);
    ink(&p, INK_plain);
    buf_putc(out, '\n');

    Mark primary = placed ? marks[0] : (Mark){0};
    for (uint32_t i = 0, end; i < n; i = end) {          // file by file, the primary's first
        const Source *src = marks[i].src;
        end = i;
        for (uint32_t j = i; j < n; j++) {
            if (marks[j].src != src) continue;
            Mark m = marks[j];
            for (uint32_t k = j; k > end; k--) marks[k] = marks[k - 1];
            marks[end++] = m;
        }
        if (i > 0) rule(&p, "\n");
        draw_file(s, &p, marks + i, end - i, placed && primary.src == src ? &primary : NULL);
    }
    draw_extras(s, &p, d);
}
