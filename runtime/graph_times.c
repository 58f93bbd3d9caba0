// The times of a graph's launches, written down: a table, JSON for chrome://tracing and its like, a page of HTML.
//
//     launch                          blocks x thr.          us    share       bytes      GB/s      flops   TFLOP/s    least  of it
//     1  linear -> h1.10                   32 x 128        5.20    41 %       2.9 MB     560.0    205.5 M      39.5     3.10   60 %
//     ...
//     4 launches, on cuda                                 12.60
//     as one graph                                        10.10
//
// In the trace a launch begins where those that it waits for end, so branches that may run at once stand in rows below each
// other; they were timed one by one.

#include "lang/c_text.h"
#include "runtime/graph.h"

#include <string.h>

void profile_free(ProfileText *p) {
    buf_free(&p->table);
    buf_free(&p->trace);
    buf_free(&p->page);
}

typedef struct Sum { double us, bytes, flops, least; } Sum;

static Sum sum_of(const GraphTimes *t) {
    Sum s = {0};
    for (int i = 0; i < t->n; i++) {
        s.us += t->at[i].us;
        s.bytes += t->at[i].bytes;
        s.flops += t->at[i].flops;
        s.least += t->at[i].least_us;
    }
    return s;
}

// ---- the table -----------------------------------------------------------------------------------

static void scaled(double v, const char *unit, int width, Buf *out) {
    static const char *const of[] = {"", " k", " M", " G", " T"};
    int i = 0;
    for (; v >= 1000 && i < 4; i++) v /= 1000;
    char text[32];
    c_snprintf(text, sizeof text, "%.*f%s%s", i ? 1 : 0, v, i ? of[i] : " ", unit);
    buf_printf(out, "%*s", width, text);
}

static void rate(double amount, double us, double per, Buf *out) {
    if (amount > 0 && us > 0) buf_printf(out, " %9.1f", amount / us * per);
    else buf_printf(out, " %9s", "-");
}

static void amounts(const Sum *s, Buf *out) {
    scaled(s->bytes, "B", 11, out);
    rate(s->bytes, s->us, 1e-3, out);
    if (s->flops > 0) scaled(s->flops, "", 11, out);
    else buf_printf(out, "%11s", "-");
    rate(s->flops, s->us, 1e-6, out);
    buf_printf(out, " %8.2f", s->least);
    if (s->us > 0) buf_printf(out, " %4.0f %%", 100 * s->least / s->us);
    buf_putc(out, '\n');
}

static void table_row(const GraphTimes *t, int i, double total, Buf *out) {
    const LaunchTime *x = &t->at[i];
    char name[64], grid[32] = "-";
    snprintf(name, sizeof name, "%d  %s", i + 1, x->name);
    if (x->threads) snprintf(grid, sizeof grid, "%u x %u", x->blocks, x->threads);
    buf_printf(out, "%-34.34s %14s %11.2f %6.1f %% ", name, grid, x->us, total > 0 ? 100 * x->us / total : 0);
    amounts(&(Sum){x->us, x->bytes, x->flops, x->least_us}, out);
}

void times_table(const GraphTimes *t, Buf *out) {
    Sum  s = sum_of(t);
    char name[48];
    if (t->program) buf_printf(out, "program %d, %s\n", t->program, t->graph);
    buf_printf(out, "%-34s %14s %11s %8s %11s %9s %10s %9s %8s %6s\n", "launch", "blocks x thr.", "us", "share",
               "bytes", "GB/s", "flops", "TFLOP/s", "least", "of it");
    for (int i = 0; i < t->n; i++) table_row(t, i, s.us, out);
    snprintf(name, sizeof name, "%d launch%s, on %s", t->n, t->n == 1 ? "" : "es", t->device);
    buf_printf(out, "%-34s %14s %11.2f %8s ", name, "", s.us, "");
    amounts(&s, out);
    if (t->whole_us > 0) buf_printf(out, "%-34s %14s %11.2f\n", "as one graph", "", t->whole_us);
    if (t->machine) buf_printf(out, "least: for the bytes and operations, on %s\n", t->machine);
}

// ---- JSON ----------------------------------------------------------------------------------------

static void json_text(const char *s, Buf *out) {
    buf_putc(out, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') buf_printf(out, "\\%c", *s);
        else if ((unsigned char)*s < 32) buf_printf(out, "\\u%04x", (unsigned)*s);
        else buf_putc(out, *s);
    }
    buf_putc(out, '"');
}

static void named(const char *kind, int program, int row, const char *name, Buf *out) {
    buf_printf(out, "{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", kind, program, row);
    json_text(name, out);
    buf_puts(out, "}}");
}

// Takes back the end of a text that goes on; false: it begins here.
static bool reopened(Buf *out, const char *end) {
    size_t n = out->n;
    while (n > 0 && strncmp(out->p + n - 1, end, strlen(end)) != 0) n--;
    if (n == 0) return false;
    out->p[out->n = n - 1] = 0;
    return true;
}

void times_trace(const GraphTimes *t, Buf *out) {
    static const char end[] = "\n],\"otherData\"";
    int program = t->program ? t->program : 1;
    buf_puts(out, reopened(out, end) ? ",\n" : "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n");
    char whole[160];
    snprintf(whole, sizeof whole, "%s on %s", t->graph, t->device);
    named("process_name", program, 0, whole, out);
    for (int row = 0; row < t->rows; row++) {
        char name[32];
        snprintf(name, sizeof name, "row %d", row + 1);
        buf_puts(out, ",\n");
        named("thread_name", program, row + 1, name, out);
    }
    for (int i = 0; i < t->n; i++) {
        const LaunchTime *x = &t->at[i];
        buf_puts(out, ",\n{\"name\":");
        json_text(x->name, out);
        buf_printf(
            out,
            ",\"cat\":\"launch\",\"ph\":\"X\",\"ts\":%.3f,\"dur\":%.3f,\"pid\":%d,\"tid\":%d,\"args\":{\"launch\":%d,\"blocks\":%u,\"threads\":%u",
            t->since_us + x->start, x->us, program, x->row + 1, i + 1, x->blocks, x->threads);
        buf_printf(out, ",\"bytes\":%.0f,\"flops\":%.0f,\"least us\":%.3f,\"source\":", x->bytes, x->flops, x->least_us);
        json_text(x->where, out);
        buf_puts(out, "}}");
    }
    buf_printf(out, "%s:{\"as one graph us\":%.3f}}\n", end, t->since_us + t->whole_us);
}

// ---- HTML ----------------------------------------------------------------------------------------

static void html_text(const char *s, Buf *out) {
    for (; *s; s++) {
        if (*s == '<') buf_puts(out, "&lt;");
        else if (*s == '&') buf_puts(out, "&amp;");
        else if (*s == '"') buf_puts(out, "&quot;");
        else buf_putc(out, *s);
    }
}

static const char style[] =
    "<style>body{font:14px sans-serif;margin:2em}table{border-collapse:collapse}td,th{padding:2px 10px;text-align:right}"
    "td:nth-child(2),th:nth-child(2){text-align:left}tr:nth-child(even){background:#f4f4f4}"
    ".bar{position:relative;width:300px;height:14px;background:none}.bar i,.bar b{position:absolute;top:0;height:14px}"
    ".bar i{background:#9bc}.bar b{background:#247}</style>";

void times_page(const GraphTimes *t, Buf *out) {
    Sum    s = sum_of(t);
    double most = 0;
    for (int i = 0; i < t->n; i++) most = t->at[i].us > most ? t->at[i].us : most;
    if (!reopened(out, "</body>")) {
        buf_puts(out, "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>");
        html_text(t->graph, out);
        buf_printf(out, "</title>%s</head><body>\n", style);
    }
    buf_puts(out, "<h1>");
    html_text(t->graph, out);
    buf_printf(out, "</h1>\n<p>%d launches on %s, %.2f us one by one, %.2f us at least%s%s.", t->n, t->device, s.us,
               s.least, t->machine ? " on " : "", t->machine ? t->machine : "");
    if (t->whole_us > 0) buf_printf(out, " As one graph: %.2f us.", t->whole_us);
    buf_puts(out, " Bars: the time, and dark the least that the bytes and operations take.</p>\n"
                  "<table><tr><th></th><th>launch</th><th>us</th><th>share</th><th></th><th>least us</th><th>bytes</th><th>flops</th><th>blocks</th></tr>\n");
    for (int i = 0; i < t->n; i++) {
        const LaunchTime *x = &t->at[i];
        double least = x->least_us < x->us ? x->least_us : x->us, width = most > 0 ? 300 / most : 0;
        buf_printf(out, "<tr><td>%d</td><td title=\"", i + 1);
        html_text(x->where, out);
        buf_puts(out, "\">");
        html_text(x->name, out);
        buf_printf(
            out,
            "</td><td>%.2f</td><td>%.1f %%</td><td><div class=\"bar\"><i style=\"width:%.0fpx\"></i><b style=\"width:%.0fpx\"></b></div></td>",
            x->us, s.us > 0 ? 100 * x->us / s.us : 0, x->us * width, least * width);
        buf_printf(out, "<td>%.2f</td><td>", x->least_us);
        scaled(x->bytes, "B", 0, out);
        buf_puts(out, "</td><td>");
        scaled(x->flops, "", 0, out);
        buf_printf(out, "</td><td>%u x %u</td></tr>\n", x->blocks, x->threads);
    }
    buf_puts(out, "</table></body></html>\n");
}
