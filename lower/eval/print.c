// print: a whole tile, live lanes only, as NumPy shows arrays.
//
//     scores f32[m, n] =
//     [[ 1.5  -2.   ]
//      [ 0.25  3.   ]]
//
// Program 0 prints, each op once, unless the options say otherwise.

#include "lower/eval/eval.h"

#include <inttypes.h>
#include <string.h>

static void number(const Type *t, const void *data, int64_t lane, char *text, size_t size) {
    int64_t imm = lane_imm(t, data, lane);
    double  x;
    memcpy(&x, &imm, sizeof x);
    if (t->ptr)                             snprintf(text, size, "0x%" PRIx64, (uint64_t)imm);
    else if (t->elem == EL_bool)            snprintf(text, size, "%s", imm ? "True" : "False");
    else if (t->elem == EL_u64)             snprintf(text, size, "%" PRIu64, (uint64_t)imm);
    else if (!elem_is_float((Elem)t->elem)) snprintf(text, size, "%" PRId64, imm);
    else {
        snprintf(text, size, "%.*g", t->elem == EL_f64 ? 15 : t->elem == EL_f32 ? 8 : 5, x);
        if (!strpbrk(text, ".en")) strncat(text, ".", size - strlen(text) - 1);
    }
}

static void values(Eval *e, const Val *v, int axis, int64_t lane, const int64_t *live, int width, FILE *to) {
    const Type *t = &v->type;
    char text[48];
    if (axis == t->rank) {
        number(t, lanes_of(e, v), lane, text, sizeof text);
        fprintf(to, "%*s", width, text);
        return;
    }
    int64_t by = 1;
    for (int i = axis + 1; i < t->rank; i++) by *= axis_extent(t->axis[i]);
    fputc('[', to);
    for (int64_t i = 0; i < live[axis]; i++) {
        if (i && axis + 1 == t->rank) fputc(' ', to);
        else if (i)                   fprintf(to, "\n%*s", axis + 1, "");
        values(e, v, axis + 1, lane + i * by, live, width, to);
    }
    fputc(']', to);
}

static int widest(Eval *e, const Val *v, int axis, int64_t lane, const int64_t *live) {
    const Type *t = &v->type;
    char text[48];
    if (axis == t->rank) {
        number(t, lanes_of(e, v), lane, text, sizeof text);
        return (int)strlen(text);
    }
    int64_t by = 1;
    int     most = 0;
    for (int i = axis + 1; i < t->rank; i++) by *= axis_extent(t->axis[i]);
    for (int64_t i = 0; i < live[axis]; i++) {
        int w = widest(e, v, axis + 1, lane + i * by, live);
        most = w > most ? w : most;
    }
    return most;
}

static int print_number(const Eval *e, const Op *op) {        // which print of the function it is
    int n = 0;
    for (const Op *at = op_walk(&e->f->body, NULL); at && at != op; at = op_walk(&e->f->body, at))
        n += at->code == OP_T_print;
    return n;
}

void eval_print(Eval *e, const Step *s) {
    const Op *op = s->op;
    FILE *to = e->opt->print_to;
    if (!to || (!e->opt->print_all && e->program != 0)) return;
    bool *done = &e->printed[print_number(e, op)];
    if (*done && !e->opt->print_all) return;
    *done = true;
    if (op->str.n) fwrite(op->str.p, 1, op->str.n, to);
    if (op->nin) {
        const Val *v = op->in[0];
        const Type *t = &v->type;
        int64_t live[MAX_AXES];
        live_counts(e, t, live);
        fprintf(to, "%s%s%s", op->str.n ? " " : "", t->ptr ? "*" : "", elem_name((Elem)t->elem));
        for (int i = 0; i < t->rank; i++) fprintf(to, "%s%s", i ? ", " : "[", t->axis[i]->name ? t->axis[i]->name->s : "_");
        fprintf(to, "%s =%s", t->rank ? "]" : "", t->rank ? "\n" : " ");
        values(e, v, 0, 0, live, t->rank ? widest(e, v, 0, 0, live) : 0, to);
    }
    fputc('\n', to);
}
