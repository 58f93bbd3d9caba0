// How many bytes move between kernels and memory: those of the program, beside one kernel for each operator of the model.
//
//     kernel 3, product: MatMul fc, Add bias, Relu act          reads x, w, bias; writes one value
//     one by one                                                MatMul reads x, w, writes t; Add reads t, bias, writes u; ..
//
// A value counts once for each kernel that reads it, with no more than is looked at of it (rows of a table, a slice),
// and once when it is written. Movement (reshape, transpose, slice, ..) is free in both counts, and so is what is
// computed once, from weights alone. Dimensions that nobody has said are 1.

#include "graph/fuse/fuse.h"
#include "graph/ref/ref.h"

#include "graph/internal.h"

#include <string.h>

typedef struct Traffic {
    Graph   *g;
    int64_t *dims;               // by number
    bool    *constant;           // by node id: made of constants alone
} Traffic;

static double bytes_of(const Traffic *t, const Node *n) {
    double b = elem_bytes((Elem)n->elem);
    for (int i = 0; i < n->rank; i++) {
        int64_t v = ix_eval(n->shape[i], t->dims, NULL);
        b *= v > 0 ? (double)v : 0;
    }
    return b;
}

static bool moves(const Node *n) { return n->kind == G_view || n->kind == G_proj; }

static Traffic begin_with(Graph *g, int64_t *dims) {
    Traffic t = {g, dims, NEW_N(g->arena, bool, g->nodes.n)};
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        const Node *n = g->nodes.at[i];
        t.constant[i] = n->kind == G_const || n->kind == G_index || (n->nsrc > 0 && n->kind != G_host && n->kind != G_steps);
        for (uint32_t k = 0; k < n->nsrc; k++) t.constant[i] &= t.constant[n->src[k]->id];
    }
    return t;
}

static Traffic begin(Graph *g, const GTensor *in) {
    int64_t *dims = NEW_N(g->arena, int64_t, ix_dim_count(g) + 1);
    ref_dims(g, in, dims);
    return begin_with(g, dims);
}

// Of the body of steps: the sizes around it, and a step's number.
static Traffic of_body(const Traffic *t, Graph *body) {
    int64_t *dims = NEW_N(body->arena, int64_t, ix_dim_count(body) + 1);
    for (int64_t d = 0; d < body->step.number->value; d++) dims[d] = t->dims[d];
    return begin_with(body, dims);
}

// it is in the code
static bool is_number(const Node *n) { return n->kind == G_const && n->c.bytes <= (size_t)elem_bytes((Elem)n->elem); }

// ---- one kernel for each operator ------------------------------------------------------------------------------------

static bool same_operator(const Node *a, const Node *b) {
    return a->from && b->from && (a->from == b->from || strcmp(a->from, b->from) == 0);
}

// What an operator reads or gives, through movement.
static const Node *base(const Node *n, double *bytes, const Traffic *t) {
    while (moves(n)) {
        double b = bytes_of(t, n);
        *bytes = b < *bytes ? b : *bytes;
        n = n->src[0];
    }
    double b = bytes_of(t, n);
    *bytes = b < *bytes ? b : *bytes;
    return n;
}

static bool counts(const Traffic *t, const Node *n) {          // as an operator that runs
    return !moves(n) && n->kind != G_input && n->kind != G_index && !t->constant[n->id];
}

typedef struct Seen { const Node *reader, *value; } Seen;

Unfused graph_unfused(Graph *g, const GTensor *in) {
    Traffic t = begin(g, in);
    Unfused u = {0};
    uint32_t n = g->nodes.n;
    bool *alive = NEW_N(g->arena, bool, n), *written = NEW_N(g->arena, bool, n);
    VEC(Seen) seen = {0};
    VEC(const Node *) operators = {0};
    for (uint32_t i = 0; i < g->outputs.n; i++) alive[g->outputs.at[i].node->id] = true;
    for (uint32_t i = n; i-- > 0;)
        for (uint32_t k = 0; k < g->nodes.at[i]->nsrc && alive[i]; k++) alive[g->nodes.at[i]->src[k]->id] = true;
    for (uint32_t i = 0; i < n; i++) {
        const Node *x = g->nodes.at[i];
        if (!alive[i] || !counts(&t, x)) continue;
        bool known = false;
        for (uint32_t k = operators.n; k-- > 0 && !known;) known = same_operator(operators.at[k], x);
        if (!known) vec_push(g->arena, &operators, x);
        for (uint32_t k = 0; k < x->nsrc; k++) {
            double bytes = x->kind == G_gather && k == 0 ? bytes_of(&t, x) : 1e300;
            const Node *y = base(x->src[k], &bytes, &t);
            bool again = same_operator(x, y) || is_number(y);
            for (uint32_t j = seen.n; j-- > 0 && !again;)
                again = seen.at[j].value == y && (seen.at[j].reader == x || same_operator(seen.at[j].reader, x));
            if (again) continue;
            vec_push(g->arena, &seen, ((Seen){x, y}));
            u.bytes += bytes;
            if (counts(&t, y) && !written[y->id]) u.bytes += bytes_of(&t, y), written[y->id] = true;
        }
    }
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        double bytes = 1e300;
        const Node *y = base(g->outputs.at[i].node, &bytes, &t);
        if (counts(&t, y) && !written[y->id]) u.bytes += bytes, written[y->id] = true;
    }
    u.operators = (int)operators.n;
    return u;
}

// ---- the program's kernels -------------------------------------------------------------------------------------------

typedef struct Walk { const Traffic *t; const Fusion *f; int group; double *read; bool *was; } Walk;

static void walk(Walk *w, const Node *n, double most) {
    bool memory = n->kind == G_input || n->kind == G_const || w->f->maker[n->id] >= 0;
    double all = bytes_of(w->t, n);
    most = moves(n) && all < most ? all : most;
    if (memory && !(w->f->maker[n->id] == w->group)) {
        double sum = w->read[n->id] + (all < most ? all : most);      // of several slices, say
        w->read[n->id] = is_number(n) ? 0 : sum < all ? sum : all;
        return;
    }
    if (w->was[n->id] && !moves(n)) return;
    w->was[n->id] = true;
    for (uint32_t k = 0; k < n->nsrc; k++) {
        double limit = n->kind == G_gather && k == 0 ? all : moves(n) || n->kind == G_cast ? most : 1e300;
        walk(w, n->src[k], limit);
    }
}

typedef struct Moved { double read, written; bool once; } Moved;

static Moved fusion_moved(const Traffic *t, const Fusion *f, int group) {
    const Graph *g = t->g;
    const FGroup *a = f->groups.at[group];
    Moved m = {0};
    Walk w = {t, f, group, NEW_N(g->arena, double, g->nodes.n), NEW_N(g->arena, bool, g->nodes.n)};
    for (uint32_t i = 0; i < a->makes.n; i++) {
        const Node *n = a->makes.at[i];
        if (n->kind == G_sort || n->kind == G_steps) continue;          // its results are the values
        m.written += a->kind == F_SCATTER ? bytes_of(t, n->src[1]) : bytes_of(t, n);
        for (uint32_t k = a->kind == F_SCATTER; k < n->nsrc; k++)
            walk(&w, n->src[k], n->kind == G_gather && k == 0 ? bytes_of(t, n) : moves(n) ? bytes_of(t, n) : 1e300);
    }
    for (uint32_t i = 0; i < g->nodes.n; i++) m.read += w.read[i];
    m.once = a->once;
    return m;
}

// ---- text ------------------------------------------------------------------------------------------------------------

static void say_node(Buf *to, const Node *n) {
    if (n->kind == G_ew) buf_puts(to, g_ew_info[n->op].name);
    else if (n->kind == G_reduce) buf_puts(to, g_reduce_name[n->op]);
    else buf_puts(to, g_kind_name[n->kind]);
}

enum { MAX_SOURCES = 64 };

// A conversion that the model does not have: it is named by what it stands beside.
static bool converts(const Node *n) { return n->kind == G_cast && n->from && strncmp(n->from, "Cast", 4) != 0; }

int group_sources(const FGroup *f, const char **from, int most) {
    int count = 0;
    uint64_t last = 0;                                       // places seen so far are below it
    for (;;) {
        const Node *next = NULL;
        for (uint32_t i = 0; i < f->nodes.n; i++) {
            const Node *n = f->nodes.at[i];
            if (converts(n) && f->nodes.n > 1) continue;
            if (n->from && n->place >= last && (!next || n->place < next->place)) next = n;
        }
        if (!next) return count;
        if (count < most) from[count] = next->from;
        count++;
        last = (uint64_t)next->place + 1;
    }
}

static void say_bytes(Buf *to, double bytes) {
    static const char *const unit[] = {"bytes", "kB", "MB", "GB"};
    int i = 0;
    for (; bytes >= 1000 && i < 3; i++) bytes /= 1000;
    buf_printf(to, "%.*f %s", i > 0, bytes, unit[i]);
}

static void say_dims(Buf *to, const Traffic *t) {
    const char *before = ", for ";
    for (int i = 0; i < ix_dim_count(t->g); i++) {
        Ix d = ix_dim_at(t->g, i);
        if (ix_dim_info(t->g, d)->data_dependent) continue;  // no kernel's
        buf_printf(to, "%s%s = %lld", before, ix_dim_info(t->g, d)->name, (long long)t->dims[d->value]);
        before = ", ";
    }
}

typedef struct Sum { double bytes; int kernels, once; } Sum;

static void say_stores(Buf *to, const Fusion *f, const FGroup *a, int indent) {
    for (uint32_t k = 0; k < a->makes.n; k++) {
        const Node *n = a->makes.at[k];
        buf_printf(to, "%*s    stores ", indent, "");
        say_node(to, n);
        buf_printf(to, " %s[", elem_name((Elem)n->elem));
        for (int d = 0; d < n->rank; d++) {
            if (d) buf_puts(to, ", ");
            ix_print(to, f->graph, n->shape[d], NULL);
        }
        buf_puts(to, "]");
        if (f->why[n->id]) buf_printf(to, ": %s", f->why[n->id]);
        buf_putc(to, '\n');
    }
}

static void say_sources(Buf *to, const FGroup *a) {
    const char *from[MAX_SOURCES];
    int count = group_sources(a, from, MAX_SOURCES);
    for (int k = 0; k < count && k < MAX_SOURCES; k++) buf_printf(to, "%s %s", k ? "," : "", from[k]);
    if (count > MAX_SOURCES) buf_printf(to, ", and %d more", count - MAX_SOURCES);
}

static void say_groups(Buf *to, const Traffic *t, const Fusion *f, const char *lead, int indent, double times, Sum *sum);

static void say_steps(Buf *to, const Traffic *t, const Fusion *f, const FGroup *a, const char *number, int indent, double times, Sum *sum) {
    const Node *n = a->anchor;
    Traffic body = of_body(t, n->steps.body);
    int64_t count = ix_eval(n->steps.count, t->dims, NULL);
    buf_printf(to, "%*sloop %s, of ", indent, "", number);
    ix_print(to, t->g, n->steps.count, NULL);
    buf_puts(to, " steps:");
    say_sources(to, a);
    buf_putc(to, '\n');
    say_stores(to, f, a, indent);
    say_groups(to, &body, a->step, arena_printf(t->g->arena, "%s.", number), indent + 4, times * (double)count, sum);
}

static void say_groups(Buf *to, const Traffic *t, const Fusion *f, const char *lead, int indent, double times, Sum *sum) {
    static const char *const kind[] = {"map", "rows", "product", "scatter"};
    for (uint32_t i = 0; i < f->groups.n; i++) {
        const FGroup *a = f->groups.at[i];
        const char *number = arena_printf(t->g->arena, "%s%u", lead, i + 1);
        if (a->kind == F_STEPS) { say_steps(to, t, f, a, number, indent, times, sum); continue; }
        Moved m = fusion_moved(t, f, (int)i);
        buf_printf(to, "%*skernel %s, %s%s:", indent, "", number, kind[a->kind], a->once ? ", once" : "");
        say_sources(to, a);
        buf_printf(to, "\n%*s    reads ", indent, "");
        say_bytes(to, m.read);
        buf_puts(to, ", writes ");
        say_bytes(to, m.written);
        buf_putc(to, '\n');
        say_stores(to, f, a, indent);
        sum->once += m.once;
        if (m.once) continue;
        sum->kernels++;
        sum->bytes += times * (m.read + m.written);
    }
}

void fusion_print(Buf *to, Graph *g, const Fusion *f, const Unfused *before, const GTensor *in) {
    Traffic t = begin(g, in);
    Sum sum = {0};
    say_groups(to, &t, f, "", 0, 1, &sum);
    buf_printf(to, "%d kernel%s", sum.kernels, sum.kernels == 1 ? "" : "s");
    if (sum.once) buf_printf(to, " (and %d once)", sum.once);
    buf_puts(to, sum.kernels == 1 ? " moves " : " move ");
    say_bytes(to, sum.bytes);
    say_dims(to, &t);
    buf_printf(to, "; the model's %d operator%s, one by one, ", before->operators, before->operators == 1 ? "" : "s");
    say_bytes(to, before->bytes);
    buf_putc(to, '\n');
}
