// print: a whole tile, live lanes only, as NumPy shows arrays.
//
//     scores f32[m, n] =
//     [[ 1.5  -2.   ]
//      [ 0.25  3.   ]]
//
// Program 0 prints, unless the options say otherwise. What machine code prints, an element a line, comes out alike: runtime/prints.c.

#include "lang/c_text.h"
#include "lang/shown.h"
#include "lower/eval/eval.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static void number(const Type *t, const void *data, int64_t lane, char text[PRINT_CELL]) {
    int64_t imm = lane_imm(t, data, lane);
    double  x;
    memcpy(&x, &imm, sizeof x);
    if (t->ptr)                             snprintf(text, PRINT_CELL, "0x%" PRIx64, (uint64_t)imm);
    else if (t->elem == EL_bool)            snprintf(text, PRINT_CELL, "%s", imm ? "True" : "False");
    else if (t->elem == EL_u64)             snprintf(text, PRINT_CELL, "%" PRIu64, (uint64_t)imm);
    else if (!elem_is_float((Elem)t->elem)) snprintf(text, PRINT_CELL, "%" PRId64, imm);
    else {
        c_snprintf(text, PRINT_CELL, "%.*g", print_digits((Elem)t->elem), x);
        print_point(text);
    }
}

int print_digits(Elem e) { return e == EL_f64 ? 15 : e == EL_f32 ? 8 : 5; }

void print_point(char text[PRINT_CELL]) {
    if (!strpbrk(text, ".en")) strncat(text, ".", PRINT_CELL - strlen(text) - 1);
}

typedef struct Box { int rank, width; const int64_t *extent; char (*cell)[PRINT_CELL]; FILE *to; } Box;

static int64_t rows(const Box *b, int axis, int64_t at) {
    if (axis == b->rank) {
        fprintf(b->to, "%*s", b->width, b->cell[at]);
        return at + 1;
    }
    fputc('[', b->to);
    for (int64_t i = 0; i < b->extent[axis]; i++) {
        if (i && axis + 1 == b->rank) fputc(' ', b->to);
        else if (i)                   fprintf(b->to, "\n%*s", axis + 1, "");
        at = rows(b, axis + 1, at);
    }
    fputc(']', b->to);
    return at;
}

void print_tile(const char *head, int rank, const int64_t *extent, char (*cell)[PRINT_CELL], FILE *to) {
    Box b = {rank, 0, extent, cell, to};
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= extent[i];
    for (int64_t i = 0; rank && i < n; i++) {
        int w = (int)strlen(cell[i]);
        if (w > b.width) b.width = w;
    }
    print_shown(to, "%s =%s", head, rank ? "\n" : " ");
    rows(&b, 0, 0);
    fputc('\n', to);
}

// Of the box of lanes that live, in order.
static char (*cells_of(Eval *e, const Val *v, const int64_t *live))[PRINT_CELL] {
    const Type *t = &v->type;
    int64_t n = 1, at[MAX_AXES] = {0};
    for (int i = 0; i < t->rank; i++) n *= live[i];
    char (*cell)[PRINT_CELL] = heap_room(PRINT_CELL * (size_t)(n ? n : 1));
    for (int64_t i = 0; i < n; i++) {
        int64_t lane = 0;
        for (int k = 0; k < t->rank; k++) lane = lane * axis_extent(t->axis[k]) + at[k];
        number(t, lanes_of(e, v), lane, cell[i]);
        for (int k = t->rank - 1; k >= 0 && ++at[k] == live[k]; k--) at[k] = 0;
    }
    return cell;
}

void print_head(const Op *op, Buf *out) {
    const Type *t = print_value(op) ? &op->in[0]->type : NULL;
    buf_add(out, op->str.p ? op->str.p : "", op->str.n);
    if (t) buf_printf(out, "%s%s%s", op->str.n ? " " : "", t->ptr ? "*" : "", elem_name((Elem)t->elem));
}

void eval_print(Eval *e, const Step *s) {
    const Op *op = s->op;
    FILE *to = e->opt->print_to;
    if (!to || (!e->opt->print_all && e->program != 0)) return;
    Buf head = {0};
    print_head(op, &head);
    if (print_value(op)) {
        const Type *t = &op->in[0]->type;
        int64_t live[MAX_AXES];
        live_counts(e, t, live);
        for (int i = 0; i < t->rank; i++) buf_printf(&head, "%s%s", i ? ", " : "[", t->axis[i]->name ? t->axis[i]->name->s : "_");
        if (t->rank) buf_putc(&head, ']');
        char (*cell)[PRINT_CELL] = cells_of(e, op->in[0], live);
        print_tile(head.p, t->rank, live, cell, to);
        heap_free(cell);
    } else {
        print_shown(to, "%s\n", head.n ? head.p : "");
    }
    buf_free(&head);
}
