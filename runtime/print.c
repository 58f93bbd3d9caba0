// Tensors as text, in NumPy's way of brackets:
//
//     [[ 0     0.5   ...  1.25]
//      [-1     2     ...  3   ]
//      ...
//      [ 4     5     ...  6   ]]
//
// A float is written with the fewest digits that give the same value of its type when read and rounded.
// All columns have one width, numbers are right-aligned.

#include "lang/c_text.h"
#include "runtime/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { EDGE = 3, THRESHOLD = 1000, CELL = 40, LINE = 100 };

static void number_text(const HostTensor *t, int64_t i, char out[CELL]) {
    if (t->elem == EL_bool) { snprintf(out, CELL, "%s", elem_get_int(t->elem, t->data, i) ? "true" : "false"); return; }
    if (t->elem == EL_u64)  { snprintf(out, CELL, "%llu", (unsigned long long)elem_get_int(t->elem, t->data, i)); return; }
    if (!elem_is_float(t->elem)) { snprintf(out, CELL, "%lld", (long long)elem_get_int(t->elem, t->data, i)); return; }
    double v = elem_get(t->elem, t->data, i);
    if (isnan(v)) { snprintf(out, CELL, "nan"); return; }
    int most = t->elem == EL_f64 ? 17 : t->elem == EL_f32 ? 9 : t->elem == EL_f16 ? 5 : t->elem == EL_bf16 ? 4 : 3;
    for (int digits = 1; digits <= most; digits++) {
        unsigned char cell[8];
        c_snprintf(out, CELL, "%.*g", digits, v);
        elem_set(t->elem, cell, 0, c_strtod(out, NULL));
        if (elem_get(t->elem, cell, 0) == v) break;
    }
    // 10, not 1e+01
    if (strchr(out, 'e') && fabs(v) >= 1 && fabs(v) < 1e7) c_snprintf(out, CELL, "%.0f", c_strtod(out, NULL));
}

typedef struct Printer { const HostTensor *t; Buf *out; bool brief; int width; int64_t step[MAX_RANK]; } Printer;

// Positions along dimension d that are shown; -1 is the gap. Calls itself to the innermost dimension.
static void walk(Printer *p, int d, int64_t base, bool measure) {
    int64_t n = p->t->dim[d];
    bool    last = d == p->t->rank - 1, gap = p->brief && n > 2 * EDGE;
    int     column = p->t->rank + 1, cells = 0;
    if (!measure) buf_putc(p->out, '[');
    for (int64_t i = 0; i < n; i++) {
        if (i && !measure) {
            if (!last) {
                for (int k = 0; k < p->t->rank - 1 - d; k++) buf_putc(p->out, '\n');
                for (int k = 0; k <= d; k++) buf_putc(p->out, ' ');
            } else if (column + (cells + 1) * (p->width + 1) > LINE && !gap) {
                buf_putc(p->out, '\n');
                for (int k = 0; k <= d; k++) buf_putc(p->out, ' ');
                cells = 0;
            } else buf_putc(p->out, ' ');
        }
        if (gap && i == EDGE) {
            if (!measure) buf_puts(p->out, "...");
            i = n - EDGE - 1;
            continue;
        }
        if (!last) { walk(p, d + 1, base + i * p->step[d], measure); continue; }
        char cell[CELL];
        number_text(p->t, base + i, cell);
        cells++;
        if (!measure) buf_printf(p->out, "%*s", p->width, cell);
        else if ((int)strlen(cell) > p->width) p->width = (int)strlen(cell);
    }
    if (!measure) buf_putc(p->out, ']');
}

void tensor_print(const HostTensor *t, int64_t threshold, Buf *out) {
    Printer p = {.t = t, .out = out, .brief = tensor_count(t) > (threshold ? threshold : THRESHOLD)};
    if (t->rank == 0) {
        char cell[CELL];
        number_text(t, 0, cell);
        buf_puts(out, cell);
        return;
    }
    if (tensor_count(t) == 0) { buf_puts(out, "[]"); return; }
    int64_t step = 1;
    for (int d = t->rank - 1; d >= 0; d--) { p.step[d] = step; step *= t->dim[d]; }
    walk(&p, 0, 0, true);
    walk(&p, 0, 0, false);
}
