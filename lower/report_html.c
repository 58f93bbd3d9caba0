// The report as a page of HTML: one file, without scripts, with nothing from elsewhere.
//
//     source, each line beside what it became        layouts, drawn: which lane of which warp holds an element
//     roofline                                       the PTX where the work is, the assembler's words
//
// The decisions are those of report.c; the drawings are made here.
#include "lower/report.h"
#include "lower/layout/layout.h"
#include "lower/cost/roofline.h"

#include <math.h>
#include <string.h>

enum { MAX_DRAWN = 6, MOST_ROWS = 32, MOST_COLUMNS = 64, CELL = 7, PTX_BEFORE = 12, PTX_AFTER = 90 };

static const char style[] =
    "<style>:root{--fg:#222;--bg:#fff;--soft:#f3f4f6;--line:#ccd;--mark:#1b5e8c}@media(prefers-color-scheme:dark){:root{--fg:#ddd;--bg:#16181c;--soft:#22252b;"
    "--line:#3a3f48;--mark:#7fc1ee}}body{font:14px/1.45 sans-serif;margin:2em auto;max-width:1300px;padding:0 1em;color:var(--fg);background:var(--bg)}"
    "pre,td,code{font:12px/1.45 ui-monospace,monospace}pre{background:var(--soft);padding:.7em;overflow:auto}table{border-collapse:collapse}"
    "td{padding:0 .7em;vertical-align:top;white-space:pre-wrap}.src td:nth-child(1){color:#888;text-align:right}.src td:nth-child(2){white-space:pre}"
    ".src td:nth-child(3){color:var(--mark);border-left:1px solid var(--line)}.src tr:nth-child(even){background:var(--soft)}"
    ".lay{display:inline-block;margin:.5em 1.5em .5em 0;vertical-align:top}svg text{font:11px sans-serif;fill:var(--fg)}h1,h2{margin-bottom:.3em}</style>";

static void html_text(const char *s, size_t n, Buf *out) {
    for (size_t i = 0; i < n; i++) {
        if (s[i] == '<') buf_puts(out, "&lt;");
        else if (s[i] == '>') buf_puts(out, "&gt;");
        else if (s[i] == '&') buf_puts(out, "&amp;");
        else if (s[i] == '"') buf_puts(out, "&quot;");
        else buf_putc(out, s[i]);
    }
}

void report_html_begin(const char *title, Buf *out) {
    buf_puts(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>");
    html_text(title, strlen(title), out);
    buf_printf(out, "</title>%s</head><body>\n<h1>", style);
    html_text(title, strlen(title), out);
    buf_puts(out, "</h1>\n");
}

void report_html_pre(const char *title, const char *text, Buf *out) {
    buf_printf(out, "<h2>%s</h2>\n<pre>", title);
    while (*text == '\n') text++;
    html_text(text, strlen(text), out);
    buf_puts(out, "</pre>\n");
}

void report_html_end(Buf *out) { buf_puts(out, "</body></html>\n"); }

// ---- source and decisions ------------------------------------------------------------------------

typedef struct Page { Fn *f; Buf *out, text; ReportLines lines; } Page;

static Str line_text(const Page *p, uint32_t i) {
    size_t end = i + 1 < p->lines.n ? p->lines.at[i + 1].from : p->text.n;
    Str s = {p->text.p + p->lines.at[i].from, end - p->lines.at[i].from};
    while (s.n && s.p[s.n - 1] == '\n') s.n--;
    return s;
}

static void decisions_of(Page *p, const Source *src, uint32_t line) {
    int n = 0;
    for (uint32_t i = 0; i < p->lines.n; i++) {
        if (!p->lines.at[i].at) continue;
        LineCol w = span_where(p->f->session, p->lines.at[i].at);
        Str s = line_text(p, i);
        bool again = false;
        for (uint32_t k = 0; k < i && !again; k++) {                   // a loop's first trip and its last: once
            Str t = line_text(p, k);
            again = p->lines.at[k].at == p->lines.at[i].at && t.n == s.n && memcmp(t.p, s.p, s.n) == 0;
        }
        if (w.src != src || w.line != line || again) continue;
        if (n++) buf_puts(p->out, "\n");
        html_text(s.p, s.n, p->out);
    }
}

static void source_row(Page *p, const Source *src, uint32_t line, Str text) {
    buf_printf(p->out, "<tr><td>%u</td><td>", line);
    html_text(text.p, text.n, p->out);
    buf_puts(p->out, "</td><td>");
    decisions_of(p, src, line);
    buf_puts(p->out, "</td></tr>\n");
}

static bool decided(const Page *p, const Source *src, uint32_t line) {
    for (uint32_t i = 0; i < p->lines.n; i++) {
        if (!p->lines.at[i].at) continue;
        LineCol w = span_where(p->f->session, p->lines.at[i].at);
        if (w.src == src && w.line == line) return true;
    }
    return false;
}

// The kernel whole; of other files (functions of the library) the lines that became something.
static void source_table(Page *p) {
    Session *s = p->f->session;
    Span k = p->f->kernel->decl->span;
    LineCol first = span_where(s, k.lo), last = span_where(s, k.hi - 1);
    const Source *src;
    for (int i = 0; (src = source_at(s, i)) != NULL; i++) {
        uint32_t line = 1;
        bool any = false;
        for (const char *at = src->text, *end = src->text + src->size; at < end; line++) {
            const char *stop = memchr(at, '\n', (size_t)(end - at));
            Str text = {at, (size_t)((stop ? stop : end) - at)};
            bool own = src == first.src && line >= first.line && line <= last.line;
            if (own || decided(p, src, line)) {
                if (!any) {
                    buf_puts(p->out, "<h3>");
                    html_text(src->path, strlen(src->path), p->out);
                    buf_puts(p->out, "</h3>\n<table class=\"src\">\n");
                }
                any = true;
                source_row(p, src, line, text);
            }
            at = stop ? stop + 1 : end;
        }
        if (any) buf_puts(p->out, "</table>\n");
    }
}

// ---- layouts -------------------------------------------------------------------------------------

static int64_t extent(const Val *v, int axis) { return axis < v->type.rank ? axis_extent(v->type.axis[axis]) : 1; }

// Hue and lightness from 0 to 1.
static unsigned colour(double hue, double light) {
    unsigned rgb = 0;
    double   reach = 0.6 * (light < 0.5 ? light : 1 - light);
    for (int i = 0; i < 3; i++) {
        double k = fmod((i == 0 ? 0 : i == 1 ? 8 : 4) + hue * 12, 12), down = fmin(fmin(k - 3, 9 - k), 1);
        rgb = rgb << 8 | (unsigned)(255 * (light - reach * (down > -1 ? down : -1)));
    }
    return rgb;
}

// One colour a warp, lighter or darker by lane.
static void draw(Page *p, const Val *v, const char *what) {
    const Layout *l = v->layout;
    static int owner[MOST_ROWS][MOST_COLUMNS];
    // rows and columns: the last two axes
    int rank = v->type.rank, r = rank > 1 ? rank - 2 : 0, c = rank > 1 ? rank - 1 : -1;
    int64_t rows = rank > 1 ? extent(v, r) : 1, cols = rank > 1 ? extent(v, c) : extent(v, r), coord[MAX_AXES];
    int64_t shown_rows = rows < MOST_ROWS ? rows : MOST_ROWS, shown_cols = cols < MOST_COLUMNS ? cols : MOST_COLUMNS;
    int warps = 1 << l->nwarp;
    memset(owner, -1, sizeof owner);
    for (int w = warps - 1; w >= 0; w--)
        for (int lane = 31; lane >= 0; lane--)
            for (int reg = 0; reg < layout_regs(l); reg++) {
                layout_coord(l, reg, lane, w, coord);
                int64_t y = rank > 1 ? coord[r] : 0, x = rank > 1 ? coord[c] : coord[r];
                bool first = true;
                for (int a = 0; a < rank - 2; a++) first &= coord[a] == 0;
                if (first && y < shown_rows && x < shown_cols) owner[y][x] = w * 32 + lane;
            }
    buf_printf(p->out, "<div class=\"lay\"><div>%s: ", what);
    for (int i = 0; i < rank; i++)
        buf_printf(p->out, "%s%s %lld", i ? ", " : "", v->type.axis[i]->name ? v->type.axis[i]->name->s : "axis",
                   (long long)extent(v, i));
    buf_printf(p->out, "; %d register%s a lane, %d warp%s</div><svg width=\"%lld\" height=\"%lld\">", layout_regs(l),
               layout_regs(l) == 1 ? "" : "s", warps, warps == 1 ? "" : "s", (long long)shown_cols * CELL,
               (long long)shown_rows * CELL);
    for (int y = 0; y < shown_rows; y++)
        for (int x = 0; x < shown_cols;) {                             // neighbours of one lane are one rectangle
            int from = x, who = owner[y][x];
            while (x < shown_cols && owner[y][x] == who) x++;
            if (who < 0) continue;
            buf_printf(
                p->out,
                "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"#%06x\"><title>warp %d, lane %d</title></rect>",
                from * CELL, y * CELL, (x - from) * CELL - 1, CELL - 1,
                colour((double)(who / 32) / warps, 0.35 + who % 32 * 0.4 / 31), who / 32, who % 32);
        }
    buf_printf(p->out, "</svg>%s</div>\n", shown_rows < rows || shown_cols < cols ? "<div>the first of it</div>" : "");
}

static void layouts_of(Page *p, const Region *r, const Layout **drawn, int *n) {
    for (const Op *op = r->first; op; op = op->next) {
        const Val *v = op->code == OP_T_store ? op->in[1 + op->nidx] : op->nout ? op->out[0] : NULL;
        const char *what = op->code == OP_T_load                            ? "load"
                           : op->code == OP_T_store                         ? "store"
                           : op->code == OP_T_wgmma || op->code == OP_T_dot ? "product"
                           : op->code == OP_T_buffer_load                   ? "fragment"
                           : op->code == OP_T_convert                       ? "converted"
                                                                            : NULL;
        bool fresh = what && v && v->layout && v->type.kind == TY_TILE && v->type.rank && *n < MAX_DRAWN;
        for (int i = 0; fresh && i < *n; i++) fresh = !layout_equal(drawn[i], v->layout);
        if (fresh) {
            if (!*n)
                buf_puts(
                    p->out,
                    "<h3>Layouts</h3>\n<p>A colour for each warp, from dark (lane 0) to light (lane 31). Elements of one lane that are one access have no line between them.</p>\n");
            drawn[(*n)++] = v->layout;
            draw(p, v, what);
        }
        for (int i = 0; i < op->nreg; i++) layouts_of(p, op->reg[i], drawn, n);
    }
}

// ---- roofline ------------------------------------------------------------------------------------

enum { W = 470, H = 240, LEFT = 60, BOTTOM = 40 };
// 0.1 to 10^4 flop/byte
static double at_x(double intensity) { return LEFT + (log10(intensity) + 1) / 5 * (W - LEFT - 25); }
// 0.1 to 10^4 TFLOP/s
static double at_y(double rate) { return H - BOTTOM - (log10(rate) + 1) / 5 * (H - BOTTOM - 10); }

static void roof(Page *p, const int64_t *dims) {
    const Target *t = p->f->target;
    double least;
    Roofline w = roofline_on(p->f->session, p->f->kernel, dims, t, &least);
    double flops = w.flops + w.products, peak = w.rate * 1e-6, intensity = w.bytes > 0 ? flops / w.bytes : 0;
    if (intensity <= 0 || peak <= 0) return;
    double knee = peak * 1e3 / t->gbs, bound = intensity * t->gbs * 1e-3 < peak ? intensity * t->gbs * 1e-3 : peak;
    double x = intensity < 0.1 ? 0.1 : intensity > 1e4 ? 1e4 : intensity, y = bound < 0.1 ? 0.1 : bound;
    double start = 0.1 * t->gbs * 1e-3, from = start < 0.1 ? 100 / t->gbs : 0.1;
    buf_printf(p->out, "<h3>Roofline (%s)</h3>\n<svg width=\"%d\" height=\"%d\">", t->gpu, W, H);
    for (int e = -1; e <= 4; e++)
        buf_printf(
            p->out,
            "<line x1=\"%.0f\" y1=\"10\" x2=\"%.0f\" y2=\"%d\" stroke=\"var(--line)\"/><text x=\"%.0f\" y=\"%d\" text-anchor=\"middle\">%g</text>"
            "<line x1=\"%d\" y1=\"%.0f\" x2=\"%d\" y2=\"%.0f\" stroke=\"var(--line)\"/><text x=\"8\" y=\"%.0f\">%g</text>",
            at_x(pow(10, e)), at_x(pow(10, e)), H - BOTTOM, at_x(pow(10, e)), H - BOTTOM + 16, pow(10, e), LEFT,
            at_y(pow(10, e)), W - 25, at_y(pow(10, e)), at_y(pow(10, e)) + 4, pow(10, e));
    buf_printf(
        p->out,
        "<polyline points=\"%.1f,%.1f %.1f,%.1f %d,%.1f\" fill=\"none\" stroke=\"var(--fg)\" stroke-width=\"2\"/>",
        at_x(from), at_y(from * t->gbs * 1e-3), at_x(knee < 1e4 ? knee : 1e4), at_y(knee < 1e4 ? peak : 10 * t->gbs),
        W - 25, at_y(knee < 1e4 ? peak : 10 * t->gbs));
    buf_printf(
        p->out,
        "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%d\" stroke=\"var(--mark)\" stroke-dasharray=\"4 3\"/><circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"var(--mark)\"/>",
        at_x(x), at_y(y), at_x(x), H - BOTTOM, at_x(x), at_y(y));
    buf_printf(p->out, "<text x=\"%d\" y=\"%d\">flop/byte</text><text x=\"%d\" y=\"22\">TFLOP/s</text></svg>\n", W - 70,
               H - 6, LEFT + 4);
    buf_printf(p->out, "<p>%.3g flop/byte: at most %.3g TFLOP/s, %s; at least %.1f us.</p>\n", intensity, bound,
               bound < peak     ? "by memory"
               : w.products > 0 ? "by the tensor cores"
                                : "by arithmetic",
               least);
}

// ---- PTX -----------------------------------------------------------------------------------------

// Where the work is: the first product of the tensor cores, else the first load.
static const char *heart(const char *from, const char *end) {
    static const char *const marks[] = {"wgmma.mma_async", "mma.sync", "ld.global", "cp.async", "st.global"};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *at = strstr(from, marks[i]);
        if (at && at < end) return at;
    }
    return from;
}

static void ptx_of(Page *p, const char *ptx) {
    Buf entry = {0};
    buf_printf(&entry, ".entry %s(", p->f->launch->entry);
    const char *from = ptx ? strstr(ptx, entry.p) : NULL, *end = from ? strstr(from + 1, ".entry ") : NULL;
    buf_free(&entry);
    if (!from) return;
    if (!end) end = from + strlen(from);
    const char *at = heart(from, end), *stop = at;
    int total = 0;
    for (const char *c = from; c < end; c++) total += *c == '\n';
    for (int n = 0; at > from && n <= PTX_BEFORE; at--) n += at[-1] == '\n';
    while (at > from && at[-1] != '\n') at++;
    for (int n = 0; stop < end && n < PTX_AFTER; stop++) n += *stop == '\n';
    buf_printf(p->out, "<h3>PTX</h3>\n<details><summary>%d lines; where the work is</summary><pre>", total);
    html_text(at, (size_t)(stop - at), p->out);
    buf_puts(p->out, "</pre></details>\n");
}

void report_html(Fn *f, const int64_t *dims, const char *ptx, Buf *out) {
    Page p = {.f = f, .out = out};
    const Layout *drawn[MAX_DRAWN];
    int n = 0;
    report_collect(f, dims, &p.text, &p.lines);
    buf_printf(out, "<h2>%s</h2>\n<pre>", f->launch->kernel->s);
    size_t head = p.lines.n ? p.lines.at[0].from : p.text.n;
    html_text(p.text.p, head, out);
    buf_puts(out, "</pre>\n");
    source_table(&p);
    if (p.lines.n) {
        Str tail = line_text(&p, p.lines.n - 1);
        buf_puts(out, "<h3>Assumptions and work</h3>\n<pre>");
        html_text(tail.p, tail.n, out);
        buf_puts(out, "</pre>\n");
    }
    roof(&p, dims);
    layouts_of(&p, &f->body, drawn, &n);
    ptx_of(&p, ptx);
    buf_free(&p.text);
}
