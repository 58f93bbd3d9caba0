// What was measured, as text: the record that the cache keeps, the table that people read, the file of a table.
//
//     matmul, M = 1024, N = 1024, K = 1024, on NVIDIA H200: 13 of 41 candidates measured
//           us  expected  of the best
//          8.4       8.6         1.00   BM = 64, BN = 128, persistent = 1      the model's choice
//          8.6       8.6         0.98   BM = 64, BN = 128, BK = 128, persistent = 1
//         11.0      11.4         0.76   the defaults
//            -      10.0            -   BM = 64, BN = 256                 spills 24 bytes a thread
#include "lang/c_text.h"
#include "runtime/tune.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void tune_result_free(TuneResult *r) {
    if (r->arena) arena_free(r->arena);
    *r = (TuneResult){0};
}

// ---- the record ----------------------------------------------------------------------------------

void tune_bytes(const TuneResult *r, Buf *out) {
    buf_printf(out, "kernel\t%s\nfile\t%s\ndevice\t%s\ndims\t%s\n", r->kernel, r->file, r->device, r->dims);
    buf_printf(out, "counts\t%d\t%d\t%d\t%.17g\t%.17g\n", r->model, r->defaults, r->looked, r->bytes, r->flops);
    for (int i = 0; i < r->n; i++)
        buf_printf(out, "row\t%.17g\t%.17g\t%s\t%s\n", r->row[i].us, r->row[i].expected, r->row[i].choice,
                   r->row[i].refused ? r->row[i].refused : "");
}

enum { FIELDS = 6 };

static int fields_of(Arena *a, const char *line, size_t n, const char **field) {
    int count = 0;
    while (count < FIELDS) {
        const char *tab = memchr(line, '\t', n);
        size_t length = tab && count + 1 < FIELDS ? (size_t)(tab - line) : n;
        field[count++] = arena_printf(a, "%.*s", (int)length, line);
        if (!tab || count == FIELDS) break;
        line += length + 1;
        n -= length + 1;
    }
    return count;
}

bool tune_parse(const Buf *bytes, TuneResult *out) {
    VEC(TuneRow) rows = {0};
    *out = (TuneResult){.arena = arena_new()};
    for (const char *p = bytes->p, *end = bytes->p + bytes->n; p && p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p)), *f[FIELDS];
        if (!stop) stop = end;
        int n = fields_of(out->arena, p, (size_t)(stop - p), f);
        const char **at = strcmp(f[0], "kernel") == 0 ? &out->kernel : strcmp(f[0], "file") == 0 ? &out->file
                        : strcmp(f[0], "device") == 0 ? &out->device : strcmp(f[0], "dims") == 0 ? &out->dims : NULL;
        if (at && n == 2) *at = f[1];
        else if (strcmp(f[0], "counts") == 0 && n == 6) {
            out->model = atoi(f[1]); out->defaults = atoi(f[2]); out->looked = atoi(f[3]);
            out->bytes = c_strtod(f[4], NULL); out->flops = c_strtod(f[5], NULL);
        } else if (strcmp(f[0], "row") == 0 && n == 5) {
            TuneRow row = {.us = c_strtod(f[1], NULL),
                           .expected = c_strtod(f[2], NULL),
                           .choice = f[3],
                           .refused = f[4][0] ? f[4] : NULL};
            vec_push(out->arena, &rows, row);
        }
        p = stop + 1;
    }
    out->row = rows.at;
    out->n = (int)rows.n;
    bool whole = out->kernel && out->file && out->device && out->dims && out->n > 0 && out->row[0].us > 0 &&
                 out->model >= 0 && out->model < out->n && out->defaults >= 0 && out->defaults < out->n;
    if (!whole) tune_result_free(out);
    return whole;
}

// ---- for people ----------------------------------------------------------------------------------

static void number(Buf *out, double v, int width) {
    if (v > 0 && v < INFINITY) buf_printf(out, "%*.*f", width, v < 100 ? 2 : 1, v);
    else buf_printf(out, "%*s", width, "-");
}

static int measured(const TuneResult *r) {
    int n = 0;
    for (int i = 0; i < r->n; i++) n += r->row[i].us > 0;
    return n;
}

static const char *choice_of(const TuneRow *row) { return row->choice[0] ? row->choice : "the defaults"; }

static void row_print(const TuneResult *r, int i, size_t width, Buf *out) {
    const TuneRow *row = &r->row[i];
    Buf note = {0};
    if (i == r->model) buf_puts(&note, "the model's choice");
    if (i == r->defaults && row->choice[0]) buf_printf(&note, "%sthe defaults", note.n ? ", " : "");
    if (row->refused) buf_printf(&note, "%s%s", note.n ? ", " : "", row->refused);
    number(out, row->us, 10);
    number(out, row->expected, 10);
    if (row->us > 0) buf_printf(out, "%13.2f", r->row[0].us / row->us);
    else buf_printf(out, "%13s", "-");
    buf_printf(out, "   %s", choice_of(row));
    if (note.n) buf_printf(out, "%*s   %s", (int)(width - strlen(choice_of(row))), "", note.p);
    buf_putc(out, '\n');
    buf_free(&note);
}

void tune_print(const TuneResult *r, int rows, Buf *out) {
    size_t width = 0;
    if (!rows) rows = r->n;
    for (int i = 0; i < r->n; i++) if (strlen(choice_of(&r->row[i])) > width) width = strlen(choice_of(&r->row[i]));
    buf_printf(out, "%s%s%s, on %s: %d of %d candidates measured\n", r->kernel, r->dims[0] ? ", " : "", r->dims,
               r->device, measured(r), r->looked);
    buf_printf(out, "%10s%10s%13s\n", "us", "expected", "of the best");
    for (int i = 0; i < r->n; i++)
        if (i < rows || i == r->model || i == r->defaults) row_print(r, i, width, out);
    if (r->bytes > 0 && r->row[0].us > 0) {
        buf_printf(out, "the best: %.0f GB/s", r->bytes / r->row[0].us * 1e-3);
        if (r->flops > 0) buf_printf(out, ", %.1f TFLOP/s", r->flops / r->row[0].us * 1e-6);
        buf_putc(out, '\n');
    }
}

void tune_summary(const TuneResult *r, int n, Buf *out) {
    double model = 0, defaults = 0, least = INFINITY;
    int    cases = 0, had = 0;
    for (int i = 0; i < n; i++) {
        double best = r[i].row[0].us, m = r[i].row[r[i].model].us, d = r[i].row[r[i].defaults].us;
        if (m > 0) { model += log(best / m); cases++; if (best / m < least) least = best / m; }
        if (d > 0) { defaults += log(best / d); had++; }
    }
    if (cases == 1) buf_printf(out, "the model's choice: %.3f of the best\n", least);
    if (cases > 1)
        buf_printf(out, "the model's choice: %.3f of the best in geometric mean over %d cases, the least %.3f\n",
                   exp(model / cases), cases, least);
    if (had) buf_printf(out, "the defaults:       %.3f of the best\n", exp(defaults / had));
}

// ---- a file --------------------------------------------------------------------------------------

void tune_table_head(Buf *out) { buf_puts(out, "kernel\tdimensions\tdevice\tchoice\tus\texpected us\tof the best\tnote\n"); }

void tune_table_rows(const TuneResult *r, Buf *out) {
    for (int i = 0; i < r->n; i++) {
        const TuneRow *row = &r->row[i];
        buf_printf(out, "%s\t%s\t%s\t%s\t", r->kernel, r->dims, r->device, choice_of(row));
        if (row->us > 0) buf_printf(out, "%.3f", row->us);
        buf_putc(out, '\t');
        if (row->expected < INFINITY) buf_printf(out, "%.3f", row->expected);
        buf_putc(out, '\t');
        if (row->us > 0) buf_printf(out, "%.4f", r->row[0].us / row->us);
        buf_printf(out, "\t%s%s%s\n", i == r->model ? "model" : "", i == r->model && row->refused ? ": " : "",
                   row->refused ? row->refused : "");
    }
}
