// The text dump: one line for each value that the outputs need, numbered in the order of printing.
//
//     graph mlp(x: f32[B, 784]) -> (y: f32[B, 10])
//     %3 : f32[B, 512]       = contract %0, %2 (m=1 n=1 k=1, f32)            Gemm /fc1/Gemm
//     %5 : f32[B, 4, 128]    = view %3[a0, a1 * 128 + a2]

#include "graph/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

// ---- index expressions ----------------------------------------------------------------------------------------------

enum { P_OR, P_AND, P_CMP, P_SUM, P_MUL, P_ATOM };

static void print_ix(Buf *to, const Graph *g, Ix e, const char *const *axis, int outer);

static void binary(Buf *to, const Graph *g, Ix e, const char *op, const char *const *axis, int own, int outer) {
    if (own < outer) buf_putc(to, '(');
    for (uint32_t i = 0; i < e->n; i++) {
        if (i) buf_printf(to, " %s ", op);
        print_ix(to, g, e->arg[i], axis, own + (i > 0));
    }
    if (own < outer) buf_putc(to, ')');
}

static void call(Buf *to, const Graph *g, Ix e, const char *name, const char *const *axis) {
    buf_printf(to, "%s(", name);
    print_ix(to, g, e->arg[0], axis, P_OR);
    buf_puts(to, ", ");
    print_ix(to, g, e->arg[1], axis, P_OR);
    buf_putc(to, ')');
}

void ix_print_sum(Buf *to, Ix e, IxTerm *term, void *ctx) {
    bool first = true;
    for (int negative = 0; negative < 2; negative++) {
        if (negative && first && e->value > 0) {
            buf_printf(to, "%" PRId64, e->value);
            first = false;
        }
        for (uint32_t i = 0; i < e->n; i++) {
            int64_t c = e->coef[i];
            if ((c < 0) != negative) continue;
            buf_puts(to, first ? (negative ? "-" : "") : negative ? " - " : " + ");
            term(ctx, to, e->arg[i], negative);
            if (c != 1 && c != -1) buf_printf(to, " * %" PRIu64, c < 0 ? 0 - (uint64_t)c : (uint64_t)c);
            first = false;
        }
        if (!negative && !first && e->value > 0) buf_printf(to, " + %" PRId64, e->value);
    }
    if (e->value < 0) buf_printf(to, " - %" PRIu64, 0 - (uint64_t)e->value);
}

typedef struct Terms { const Graph *g; const char *const *axis; } Terms;

static void term(void *ctx, Buf *to, Ix e, bool negative) {
    const Terms *t = ctx;
    (void)negative;
    print_ix(to, t->g, e, t->axis, P_MUL);
}

static void sum(Buf *to, const Graph *g, Ix e, const char *const *axis, int outer) {
    int own = e->n == 1 && e->value == 0 ? P_MUL : P_SUM;
    if (own < outer) buf_putc(to, '(');
    ix_print_sum(to, e, term, &(Terms){g, axis});
    if (own < outer) buf_putc(to, ')');
}

static void print_ix(Buf *to, const Graph *g, Ix e, const char *const *axis, int outer) {
    switch ((IxKind)e->kind) {
    case IX_CONST: buf_printf(to, "%" PRId64, e->value); break;
    case IX_DIM: buf_puts(to, ix_dim_info(g, e)->name); break;
    case IX_AXIS:
        if (axis) buf_puts(to, axis[e->value]);
        else buf_printf(to, "a%d", (int)e->value);
        break;
    case IX_SUM: sum(to, g, e, axis, outer); break;
    case IX_PROD: binary(to, g, e, "*", axis, P_MUL, outer); break;
    case IX_DIV: binary(to, g, e, "/", axis, P_MUL, outer); break;
    case IX_MOD: binary(to, g, e, "%", axis, P_MUL, outer); break;
    case IX_MIN: call(to, g, e, "min", axis); break;
    case IX_MAX: call(to, g, e, "max", axis); break;
    case IX_LT: binary(to, g, e, "<", axis, P_CMP, outer); break;
    case IX_EQ: binary(to, g, e, "==", axis, P_CMP, outer); break;
    case IX_AND: binary(to, g, e, "&&", axis, P_AND, outer); break;
    case IX_OR: binary(to, g, e, "||", axis, P_OR, outer); break;
    }
}

void ix_print(Buf *to, const Graph *g, Ix e, const char *const *axis) {
    if (e) print_ix(to, g, e, axis, P_OR);
    else buf_puts(to, "?");
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

typedef struct Printer {
    Buf *to;
    const Graph *g;
    int *number;                 // by id; 0: not printed yet
    int count;
} Printer;

static void print_type(Printer *p, const Node *n) {
    buf_puts(p->to, elem_name((Elem)n->elem));
    if (n->rank == 0) return;
    buf_putc(p->to, '[');
    for (int i = 0; i < n->rank; i++) {
        if (i) buf_puts(p->to, ", ");
        ix_print(p->to, p->g, n->shape[i], NULL);
    }
    buf_putc(p->to, ']');
}

static void print_num(Printer *p, GNum v) {
    if (v.is_int) buf_printf(p->to, "%" PRId64, v.i);
    else buf_printf(p->to, "%.9g", v.f);
}

static void print_ref(Printer *p, const Node *n) {
    GNum v;
    if (p->number && !p->number[n->id] && n->rank == 0 && g_scalar_value(n, &v)) print_num(p, v);
    else buf_printf(p->to, "%%%d", p->number ? p->number[n->id] - 1 : (int)n->id);
}

static void print_coords(Printer *p, const Node *data, const Ix *coord, Node *const *index) {
    int used = 0;
    buf_putc(p->to, '[');
    for (int i = 0; i < data->rank; i++) {
        if (i) buf_puts(p->to, ", ");
        if (coord[i]) ix_print(p->to, p->g, coord[i], NULL);
        else print_ref(p, index[used++]);
    }
    buf_putc(p->to, ']');
}

static void rhs_const(Printer *p, const Node *n) {
    int bytes = elem_bytes((Elem)n->elem);
    uint64_t count = n->c.bytes / (size_t)bytes;
    if (n->name) buf_printf(p->to, "const \"%s\"", n->name);
    else buf_puts(p->to, "const");
    if (n->c.stored && (!n->name || strcmp(n->c.stored, n->name) != 0)) buf_printf(p->to, ", stored as \"%s\"", n->c.stored);
    if (n->c.file) buf_printf(p->to, " of \"%s\"", n->c.file);
    if (n->c.file && n->c.offset) buf_printf(p->to, " at %" PRIu64, n->c.offset);
    if (count > 8) return;
    buf_puts(p->to, " {");
    for (uint64_t i = 0; i < count; i++) {
        if (i) buf_puts(p->to, ", ");
        print_num(p, g_num_load((const char *)n->c.data + i * (size_t)bytes, (Elem)n->elem));
    }
    buf_putc(p->to, '}');
}

static void print_args(Printer *p, const Node *n, uint32_t from) {
    for (uint32_t i = from; i < n->nsrc; i++) {
        buf_puts(p->to, i == from ? " " : ", ");
        print_ref(p, n->src[i]);
    }
}

static void print_fill(Printer *p, const char *before, GNum fill) {
    buf_puts(p->to, before);
    print_num(p, fill);
}

static void rhs_input(Printer *p, const Node *n) { buf_printf(p->to, "%s \"%s\"", g_kind_name[n->kind], n->name); }

static void rhs_param(Printer *p, const Node *n) { rhs_input(p, n); }

static void rhs_index(Printer *p, const Node *n) {
    buf_puts(p->to, "index ");
    ix_print(p->to, p->g, n->index.expr, NULL);
}

static void rhs_view(Printer *p, const Node *n) {
    buf_puts(p->to, "view ");
    print_ref(p, n->src[0]);
    print_coords(p, n->src[0], n->view.coord, NULL);
    if (ix_is(n->view.pred, 1)) return;
    buf_puts(p->to, " where ");
    ix_print(p->to, p->g, n->view.pred, NULL);
    print_fill(p, " else ", n->view.fill);
}

static void rhs_gather(Printer *p, const Node *n) {
    buf_puts(p->to, "gather ");
    print_ref(p, n->src[0]);
    print_coords(p, n->src[0], n->at.coord, n->src + 1);
    if (!n->at.checked) print_fill(p, " else ", n->at.fill);
}

static void rhs_scatter(Printer *p, const Node *n) {
    buf_printf(p->to, "scatter%s%s ", n->op == GR_none ? "" : ".", n->op == GR_none ? "" : g_reduce_name[n->op]);
    print_ref(p, n->src[0]);
    print_coords(p, n->src[0], n->at.coord, n->src + 2);
    buf_puts(p->to, " = ");
    print_ref(p, n->src[1]);
}

static void print_named(Printer *p, const char *name, const Node *n) {
    buf_puts(p->to, name);
    print_args(p, n, 0);
}

static void rhs_ew(Printer *p, const Node *n) { print_named(p, g_ew_info[n->op].name, n); }

static void rhs_cast(Printer *p, const Node *n) {
    print_named(p, n->cast.saturate ? "cast saturating" : n->cast.kept ? "cast, kept," : "cast", n);
}

static void rhs_reduce(Printer *p, const Node *n) {
    print_named(p, g_reduce_name[n->op], n);
    buf_puts(p->to, " over");
    for (int i = 0; i < n->src[0]->rank; i++)
        if (n->reduce.axes >> i & 1) buf_printf(p->to, " a%d", i);
    if (n->reduce.last) buf_puts(p->to, ", the last");
    if (n->reduce.tile) buf_puts(p->to, ", of a tile");
}

static void rhs_scan(Printer *p, const Node *n) {
    buf_puts(p->to, "scan.");
    print_named(p, g_reduce_name[n->op], n);
    buf_printf(p->to, " along a%d%s%s", n->scan.axis, n->scan.exclusive ? " exclusive" : "", n->scan.reverse ? " reverse" : "");
}

static void rhs_sort(Printer *p, const Node *n) {
    print_named(p, "sort", n);
    buf_printf(p->to, " along a%d%s", n->sort.axis, n->sort.descending ? " descending" : "");
}

static void rhs_contract(Printer *p, const Node *n) {
    print_named(p, "contract", n);
    buf_printf(p->to, " (batch %d, m %d, n %d, k %d, sums %s)", n->contract.nb, n->contract.nm, n->contract.nn, n->contract.nk,
               elem_name(n->contract.acc));
}

static void rhs_concat(Printer *p, const Node *n) {
    print_named(p, "concat", n);
    buf_printf(p->to, " along a%d", n->concat.axis);
}

static void rhs_host(Printer *p, const Node *n) {
    buf_puts(p->to, "host ");
    print_named(p, n->host.op->name, n);
}

static void rhs_proj(Printer *p, const Node *n) {
    print_named(p, "result", n);
    buf_printf(p->to, " %u", n->proj.result);
}

static void print_bodies(Printer *p, const Node *n, int bodies) {
    print_named(p, g_kind_name[n->kind], n);
    for (int k = 0; k < bodies; k++) {
        const GBody *b = &n->sub.body[k];
        buf_puts(p->to, " {");
        for (int i = 0; i < b->nparams; i++) buf_puts(p->to, i ? ", " : ""), print_ref(p, b->params[i]);
        buf_puts(p->to, b->nparams ? " -> " : "");
        for (int i = 0; i < b->nresults; i++) buf_puts(p->to, i ? ", " : ""), print_ref(p, b->results[i]);
        buf_putc(p->to, '}');
    }
}

static void rhs_loop(Printer *p, const Node *n) { print_bodies(p, n, 1); }
static void rhs_if(Printer *p, const Node *n) { print_bodies(p, n, 2); }

static void rhs_steps(Printer *p, const Node *n) {
    print_named(p, "steps", n);
    buf_puts(p->to, " of ");
    ix_print(p->to, p->g, n->steps.count, NULL);
}

static void (*const rhs[G_KIND_COUNT])(Printer *p, const Node *n) = {
#define X(name, meaning) [G_##name] = rhs_##name,
    G_KINDS(X)
#undef X
};

// The body, below what it is of.
static void print_steps(Printer *p, const Graph *body) {
    Buf text = {0};
    graph_print(&text, body);
    for (const char *at = text.p, *end; at && *at; at = end + 1) {
        end = strchr(at, '\n');
        buf_printf(p->to, "    %.*s\n", (int)(end - at), at);
    }
    buf_free(&text);
}

static void print_line(Printer *p, const Node *n) {
    print_ref(p, n);
    buf_puts(p->to, " : ");
    print_type(p, n);
    buf_puts(p->to, " = ");
    rhs[n->kind](p, n);
    if (n->name && n->kind != G_input && n->kind != G_param && n->kind != G_const) buf_printf(p->to, "   \"%s\"", n->name);
    if (n->from && n->kind != G_input && n->kind != G_const) buf_printf(p->to, "   // %s", n->from);
    buf_putc(p->to, '\n');
    if (n->kind == G_steps) print_steps(p, n->steps.body);
}

static void mark(bool *needed, const Node *n) { needed[n->id] = true; }

void graph_print(Buf *to, const Graph *g) {
    bool *needed = heap_alloc((g->nodes.n + 1) * sizeof *needed);
    Printer p = {.to = to, .g = g, .number = heap_alloc((g->nodes.n + 1) * sizeof(int))};
    buf_printf(to, "graph %s\n", g->name);
    for (uint32_t i = 0; i < g->inputs.n; i++) mark(needed, g->inputs.at[i].node);
    for (uint32_t i = 0; i < g->outputs.n; i++) mark(needed, g->outputs.at[i].node);
    for (uint32_t i = g->nodes.n; i-- > 0;) {                // users come after their sources
        const Node *n = g->nodes.at[i];
        if (!needed[i]) continue;
        g_mark_sources(needed, n);
        for (int b = 0; b < (n->kind == G_loop) + 2 * (n->kind == G_if); b++)
            for (int k = 0; k < n->sub.body[b].nparams; k++) mark(needed, n->sub.body[b].params[k]);
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        GNum v;
        if (!needed[i] || (n->rank == 0 && g_scalar_value(n, &v))) continue;
        p.number[i] = ++p.count;
        print_line(&p, n);
    }
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        buf_printf(to, "output \"%s\" = ", g->outputs.at[i].name);
        print_ref(&p, g->outputs.at[i].node);
        buf_putc(to, '\n');
    }
    for (uint32_t i = 0; i < g->requires.n; i++) {
        buf_puts(to, "require ");
        ix_print(to, g, g->requires.at[i].a, NULL);
        buf_puts(to, " == ");
        ix_print(to, g, g->requires.at[i].b, NULL);
        if (g->requires.at[i].from) buf_printf(to, "   // %s", g->requires.at[i].from);
        buf_putc(to, '\n');
    }
    heap_free(needed);
    heap_free(p.number);
}
