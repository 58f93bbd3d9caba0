// A plan in words: --emit=plan.
//
//     graph mlp, B = 8, for sm_90a
//
//     launches                                              by number; what runs once comes first
//     1  linear<BM = 64, ...>(x = x, w = fc1.7, ...) -> h.9        8 blocks of 128 threads
//
//     values                                                what has memory, where, and while which launches run
//     h.9        f32[8, 512]     16384 bytes   arena + 0         launches 1 .. 2
//
//     arena 32768 bytes; 32768 are live at once (1.00)

#include "runtime/graph.h"

#include <stdlib.h>
#include <string.h>

static void label(const TGraph *g, int value, Buf *out) {
    const TGValue *v = &g->values[value];
    if (v->kind == TG_input || v->kind == TG_state || v->kind == TG_output) buf_puts(out, g->head->params[v->param].name->s);
    else if (v->name) buf_printf(out, "%s.%d", v->name->s, value);
    else if (v->kind == TG_weight) buf_printf(out, "\"%.*s\"", (int)v->weight.n, v->weight.p);
    else buf_printf(out, "%%%d", value);
}

static void shape_text(const TGValue *v, Buf *out) {
    HostTensor t = {.elem = v->elem, .rank = v->rank};
    memcpy(t.dim, v->dim, sizeof t.dim);
    tensor_type_text(&t, out);
}

static void argument(const TGraph *g, const TGLaunch *l, int p, Buf *out) {
    const TValue *a = &l->args[p];
    if (a->tensor < 0 && elem_is_float(a->elem)) buf_printf(out, "%g", a->fval);
    else if (a->tensor < 0) buf_printf(out, "%lld", (long long)a->ival);
    else {
        int root = plan_root(g, a->tensor);
        uint64_t offset = plan_offset(g, a->tensor);
        label(g, root, out);
        if (offset) buf_printf(out, " + %llu", (unsigned long long)offset);
        if (root == a->tensor) return;
        buf_puts(out, " as ");
        shape_text(&g->values[a->tensor], out);
    }
}

static void launch_line(const TGraph *g, const TGLaunch *l, Buf *out) {
    const TKernel *k = l->kernel;
    int outs = 0;
    instance_print(k, out);
    buf_putc(out, '(');
    for (int p = 0, n = 0; p < k->nparams; p++) {
        if (k->params[p].kind == PK_TENSOR && k->params[p].mode == PM_OUT) continue;
        buf_printf(out, "%s%s = ", n++ ? ", " : "", k->params[p].name->s);
        argument(g, l, p, out);
    }
    buf_putc(out, ')');
    for (int p = 0; p < k->nparams; p++) {
        if (k->params[p].kind != PK_TENSOR || k->params[p].mode != PM_OUT) continue;
        buf_puts(out, outs++ ? ", " : " -> ");
        argument(g, l, p, out);
    }
    for (int i = 0, n = 0; i < schedule_field_count; i++) {
        int v = *(const int *)(const void *)((const char *)&l->schedule + schedule_fields[i].offset);
        // 1 is nothing decided, or as good
        if (v > 1) buf_printf(out, "%s%s = %d", n++ ? ", " : " with (", schedule_fields[i].name, v);
        if (n && i + 1 == schedule_field_count) buf_putc(out, ')');
    }
}

// Blocks and threads, of the variant that these shapes get; all memory is aligned.
static bool grid_line(const Plan *p, PlanLaunch *l, Buf *out, Buf *err) {
    const LaunchInfo *info = compiled_info(p->rt, l->compiled, false, err);
    Buf why = {0};
    if (!info) return false;
    Bound b = *l->bound;
    b.args = l->args;
    b.info = info;
    for (int k = 0; k < b.nargs; k++) b.args[k].address = ARENA_ALIGN;
    const LaunchInfo *use = bind_variant(&b, &why);
    if (use != info) use = compiled_info(p->rt, l->compiled, true, err);
    if (use) {
        int64_t blocks = bind_eval(&b, use->blocks);
        buf_printf(out, "      %lld block%s of %d threads", (long long)blocks, blocks == 1 ? "" : "s", use->threads);
        if (use->cluster > 1) buf_printf(out, ", clusters of %d", use->cluster);
        if (use->smem) buf_printf(out, ", %u bytes of shared memory", use->smem);
        if (use != info) buf_printf(out, "; general: %s", why.p ? why.p : "");
    }
    buf_putc(out, '\n');
    buf_free(&why);
    return use != NULL;
}

static bool print_launches(const Plan *p, Buf *out, Buf *err) {
    const TGraph *g = p->graph;
    int once = g->nlaunches - p->nlaunches;
    if (once) buf_puts(out, "\nonce\n");
    for (int i = 0; i < g->nlaunches; i++) {
        if (!g->launches[i].fixed) continue;
        buf_puts(out, "  -   ");
        launch_line(g, &g->launches[i], out);
        buf_putc(out, '\n');
    }
    buf_puts(out, "\nlaunches\n");
    for (int i = 0; i < p->nlaunches; i++) {
        const char *path = p->launch[i]->launch->path;
        buf_printf(out, "  %-3d ", i + 1);
        launch_line(g, p->launch[i]->launch, out);
        if (*path) buf_printf(out, "    in %s", path);
        buf_putc(out, '\n');
        if (!grid_line(p, p->launch[i], out, err)) return false;
    }
    return true;
}

static void value_line(const Plan *p, int i, Buf *out) {
    const TGraph  *g = p->graph;
    const TGValue *v = &g->values[i];
    Buf name = {0}, shape = {0};
    label(g, i, &name);
    shape_text(v, &shape);
    buf_printf(out, "  %-20s %-22s %12llu bytes  ", name.p, shape.p, (unsigned long long)plan_bytes(v));
    const ArenaItem *item = p->item[i] >= 0 ? &p->items[p->item[i]] : NULL;
    switch (v->kind) {
    case TG_input:    buf_puts(out, "input"); break;
    case TG_state:    buf_puts(out, "state"); break;
    case TG_output:   buf_puts(out, "output"); break;
    case TG_weight:   buf_printf(out, "weight \"%.*s\"", (int)v->weight.n, v->weight.p); break;
    case TG_constant: buf_puts(out, "constant"); break;
    default:
        if (item)
            buf_printf(out, "arena + %llu, launches %d .. %d", (unsigned long long)item->offset, item->first + 1,
                       item->last + 1);
        else buf_puts(out, v->fixed ? "computed once" : "not used");
    }
    buf_putc(out, '\n');
    buf_free(&name);
    buf_free(&shape);
}

bool plan_print(const Plan *p, const char *target, Buf *out, Buf *err) {
    const TGraph *g = p->graph;
    buf_printf(out, "graph %s", g->head->name->s);
    for (int i = 0; i < g->head->ndims; i++)
        buf_printf(out, ", %s = %lld", g->head->dims[i].name->s, (long long)g->head->dims[i].fixed);
    buf_printf(out, ", for %s\n", target);
    if (!print_launches(p, out, err)) return false;
    buf_puts(out, "\nvalues\n");
    uint64_t kept = 0;
    bool *read = heap_alloc(sizeof *read * (size_t)(g->nvalues + 1));
    for (int l = 0; l < p->nlaunches; l++)
        for (int k = 0; k < p->launch[l]->launch->kernel->nparams; k++)
            if (p->launch[l]->launch->args[k].tensor >= 0) read[plan_root(g, p->launch[l]->launch->args[k].tensor)] = true;
    for (int i = 0; i < g->nvalues; i++) {
        if (g->values[i].kind != TG_view) value_line(p, i, out);
        if (read[i] && g->values[i].fixed) kept += plan_bytes(&g->values[i]);
    }
    heap_free(read);
    uint64_t live = plan_live_bytes(p);
    buf_printf(out, "\narena %llu bytes; %llu are live at once", (unsigned long long)p->arena_bytes,
               (unsigned long long)live);
    if (live) buf_printf(out, " (%.2f)", (double)p->arena_bytes / (double)live);
    buf_printf(out, "\nkept  %llu bytes of weights, constants and what is computed from them\n", (unsigned long long)kept);
    return true;
}
