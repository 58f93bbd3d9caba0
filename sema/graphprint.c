// A graph that has been elaborated, as text: its values, then its launches.
#include "sema/internal.h"

static void shape_text(const TGValue *v, Buf *out) {
    buf_printf(out, "%s[", elem_name(v->elem));
    for (int i = 0; i < v->rank; i++) buf_printf(out, "%s%lld", i ? ", " : "", (long long)v->dim[i]);
    buf_putc(out, ']');
}

static void print_value(const TGraph *g, int i, Buf *out) {
    static const char *const kinds[] = {"input", "state", "output", "weight", "constant", "computed", "view"};
    static const char *const makes[] = {"random", "zeros", "ones", "full", "iota", "randint", "values"};
    const TGValue *v = &g->values[i];
    buf_printf(out, "  v%-4d %-10s %-9s ", i, v->name ? v->name->s : "", kinds[v->kind]);
    shape_text(v, out);
    if (v->kind == TG_weight) buf_printf(out, " \"%.*s\"", (int)v->weight.n, v->weight.p);
    if (v->kind == TG_constant) buf_printf(out, " %s", makes[v->make]);
    if (v->kind == TG_view) buf_printf(out, " of v%d", v->base);
    if (v->kind == TG_view && v->offset) buf_printf(out, " from %lld", (long long)v->offset);
    if (v->kind == TG_output) buf_printf(out, " for `%s`", g->head->params[v->param].name->s);
    if (v->kind == TG_computed && v->fixed) buf_puts(out, " once");
    buf_putc(out, '\n');
}

static void print_launch(const TGLaunch *l, Buf *out) {
    const TKernel *k = l->kernel;
    buf_puts(out, "  ");
    instance_print(k, out);
    buf_putc(out, '(');
    for (int i = 0; i < k->nparams; i++) {
        static const char *const modes[] = {"", "out ", "inout "};
        const TValue *a = &l->args[i];
        buf_printf(out, "%s%s = ", i ? ", " : "", k->params[i].name->s);
        if (a->tensor >= 0) buf_printf(out, "%sv%d", modes[k->params[i].mode], a->tensor);
        else if (elem_is_float(a->elem)) buf_printf(out, "%g", a->fval);
        else buf_printf(out, "%lld", (long long)a->ival);
    }
    buf_putc(out, ')');
    for (int i = 0, n = 0; i < schedule_field_count; i++) {
        int v = *(const int *)(const void *)((const char *)&l->schedule + schedule_fields[i].offset);
        if (v) buf_printf(out, "%s%s = %d", n++ ? ", " : " with (", schedule_fields[i].name, v);
        if (n && i + 1 == schedule_field_count) buf_putc(out, ')');
    }
    if (l->fixed) buf_puts(out, " once");
    if (l->path[0]) buf_printf(out, "    in %s", l->path);
    buf_putc(out, '\n');
}

void tgraph_print(const TGraph *g, Buf *out) {
    buf_printf(out, "graph %s", g->head->name->s);
    for (int i = 0; i < g->head->ndims; i++)
        buf_printf(out, ", %s = %lld", g->head->dims[i].name->s, (long long)g->head->dims[i].fixed);
    buf_putc(out, '\n');
    for (int i = 0; i < g->nvalues; i++) print_value(g, i, out);
    for (int i = 0; i < g->nlaunches; i++) print_launch(&g->launches[i], out);
}
