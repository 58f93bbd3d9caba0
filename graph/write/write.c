// The program: kernels, each once, and the graph that launches them.
//
// Kernels that come out as the same text, but for the names of dimensions, are one kernel: the layers of a model share theirs. They are named by the operators
// that they came from. A value of the graph has the shape that its kernel gives it; where another kernel wants the same
// elements with other dimensions, it gets a `reshape`, which costs nothing.

#include "graph/write/write.h"
#include "lang/c_text.h"

#include "graph/rewrite/rewrite.h"
#include "graph/stages.h"
#include "graph/write/program.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

// ---- names ----------------------------------------------------------------------------------------------------------

static const char *const movement[] = {
    "Reshape", "Transpose", "Unsqueeze", "Squeeze", "Slice", "Cast", "Expand", "Identity", "Constant", "Shape", "Split", "Flatten", "CastLike",
    "ConstantOfShape", "Concat", "Range", "initializer", "input",
};

static const char *const arithmetic[] = {
    "Add", "Sub", "Mul", "Div", "Pow", "Sqrt", "Reciprocal", "Neg", "Where", "And", "Or", "Not", "Equal", "Less", "Greater", "LessOrEqual",
    "GreaterOrEqual", "GatherND",
};

static bool among(const char *const *list, size_t count, const char *op, size_t n) {
    for (size_t i = 0; i < count; i++)
        if (strlen(list[i]) == n && memcmp(list[i], op, n) == 0) return true;
    return false;
}

static bool is_movement(const char *op, size_t n) { return among(movement, sizeof movement / sizeof *movement, op, n); }
static bool is_arithmetic(const char *op, size_t n) {
    return among(arithmetic, sizeof arithmetic / sizeof *arithmetic, op, n);
}

static void snake(Buf *to, const char *op, size_t n) {
    for (size_t i = 0; i < n; i++) {
        bool upper = op[i] >= 'A' && op[i] <= 'Z', before = i > 0 && op[i - 1] >= 'a' && op[i - 1] <= 'z';
        if (upper && before) buf_putc(to, '_');
        buf_putc(to, upper ? (char)(op[i] + 32) : op[i]);
    }
}

// What is known by a name of its own, whatever operators an exporter wrote it as.
static const char *idiom(const FGroup *f) {
    int sums = 0, tops = 0, roots = 0, exps = 0, ews = 0, negs = 0, products = 0;
    bool gathers = false, norm = false, moves = true, joins = false, own = false;
    if (f->attends) return "attention";
    for (uint32_t i = 0; i < f->nodes.n; i++) {
        const Node *n = f->nodes.at[i];
        bool again = false;
        for (uint32_t k = 0; k < i && !again; k++) again = f->nodes.at[k] == n;
        if (again) continue;
        sums += n->kind == G_reduce && n->op == GR_sum;
        tops += n->kind == G_reduce && n->op == GR_max;
        roots += n->kind == G_ew && n->op == EW_sqrt;
        exps += n->kind == G_ew && n->op == EW_exp;
        ews += n->kind == G_ew;
        negs += n->kind == G_ew && n->op == EW_neg;
        products += n->kind == G_ew && n->op == EW_mul;
        gathers |= n->kind == G_gather;
        joins |= n->kind == G_concat;
        moves &= n->kind == G_view || n->kind == G_concat || n->kind == G_cast || n->kind == G_index;
        own |= n->from && is_movement(n->from, strcspn(n->from, " "));
        norm |= n->from && strstr(n->from, "Normalization") && strncmp(n->from, "Skip", 4) != 0 &&
                strncmp(n->from, "Simplified", 10) != 0;
    }
    if (f->kind == F_MAP && moves && !own) return joins ? "side_by_side" : "reordered";     // for the operator's sake
    if (f->kind == F_MAP && f->once) return "prepared";
    if (f->kind == F_MAP && gathers && strncmp(f->root->from ? f->root->from : "", "GroupQueryAttention", 19) == 0)
        return f->root->kind == G_ew && f->root->op == EW_where ? "cached" : "gather";
    if (f->kind == F_ROWS && f->once && sums == 1 && ews == 0) return "sums";
    if (f->kind == F_MAP && negs >= 1 && products >= 2 && ews <= 6) return "rotary";        // x * cos + (-x2 or x1) * sin
    if (f->kind == F_PRODUCT && f->parts >= 0 && f->more.n == 1 && products >= 2) return "mat_mul_rotary";
    if (f->kind != F_ROWS || norm) return NULL;
    if (roots == 1 && sums == 1 && !exps) return gathers ? "gather_rms_norm" : "rms_norm";
    if (roots == 1 && sums == 2 && !exps) return gathers ? "gather_layer_norm" : "layer_norm";
    return exps == 1 && sums == 1 && tops == 1 && !roots ? "softmax" : NULL;
}

// The name of an operator in a kernel's: of a tanh or erf among products and sums, what it is there for; of a norm with
// a sum, where only the sum is.
static const char *operator_name(const FGroup *f, const char *op, size_t n) {
    bool by_tanh = n == 4 && memcmp(op, "Tanh", 4) == 0, by_erf = n == 3 && memcmp(op, "Erf", 3) == 0;
    int products = 0, sums = 0, curves = 0;
    for (uint32_t i = 0; i < f->nodes.n && (by_tanh || by_erf); i++) {
        const Node *e = f->nodes.at[i];
        products += e->kind == G_ew && e->op == EW_mul;
        sums += e->kind == G_ew && e->op == EW_add;
        curves += e->kind == G_ew && e->op == (by_tanh ? EW_tanh : EW_erf);
    }
    if (curves == 1 && products >= (by_tanh ? 4 : 2) && sums >= (by_tanh ? 2 : 1)) return "Gelu";
    return f->kind != F_ROWS && n > 4 && memcmp(op, "Skip", 4) == 0 ? "Add" : op;
}

// Does all that a group has of an operator only move?
static bool only_moves(const FGroup *f, const char *from) {
    for (uint32_t i = 0; i < f->nodes.n; i++) {
        const Node *n = f->nodes.at[i];
        bool moves = n->kind == G_view || n->kind == G_index || n->kind == G_cast;
        if (n->from && strcmp(n->from, from) == 0 && !moves) return false;
    }
    return true;
}

enum { MAX_SOURCES = 64 };

// "gemm_relu": the operators of a group, in the order of the model; what only moves or adds is left out where others
// say more.
static const char *kernel_name(Writer *w, const FGroup *f) {
    Buf b = {0};
    const char *seen[4], *from[MAX_SOURCES], *known_as = idiom(f);
    int n = 0, sources = group_sources(f, from, MAX_SOURCES);
    if (known_as) return known_as;
    for (int pass = 0; pass < 3 && n < 2 - (pass == 2); pass++)
        for (int i = 0; i < sources && i < MAX_SOURCES && n < 4; i++) {
            size_t len = strcspn(from[i], " ");
            const char *op = operator_name(f, from[i], len);
            bool sum = op != from[i] && strcmp(op, "Add") == 0;
            int rank = is_movement(from[i], len) || only_moves(f, from[i]) ? 2 : sum || is_arithmetic(from[i], len) ? 1 : 0;
            bool known = rank != pass;
            for (int k = 0; k < n; k++) known |= strncmp(seen[k], from[i], len) == 0 && seen[k][len] == ' ';
            if (known) continue;
            if (n) buf_putc(&b, '_');
            snake(&b, op, op == from[i] ? len : strlen(op));
            seen[n++] = from[i];
        }
    const char *name = g_identifier(w->g->arena, b.p, "kernel_");
    buf_free(&b);
    return name;
}

char *w_nodes(Writer *w, const FGroup *f) {
    Buf b = {0};
    const char *from[MAX_SOURCES];
    int n = 0, sources = group_sources(f, from, MAX_SOURCES);
    for (; n < sources && n < MAX_SOURCES && (b.n <= 140 || n <= 2); n++) buf_printf(&b, "%s%s", n ? ", " : "", from[n]);
    if (n < sources) buf_printf(&b, ", and %d more", sources - n);
    for (size_t i = 0; i < b.n; i++)
        if (b.p[i] == '\n') b.p[i] = ' ';
    char *t = arena_printf(w->g->arena, "%s", b.p ? b.p : "");
    buf_free(&b);
    return t;
}

// ---- lines ----------------------------------------------------------------------------------------------------------

// A line, broken after commas of its outermost parentheses where it is too long.
void w_line(Buf *to, const char *line, size_t n, int indent) {
    int depth = 0;
    size_t start = 0, cut = 0, room = WIDTH;
    char open[64] = {0};
    for (size_t i = 0; i < n; i++) {
        if (strchr("([", line[i]) && depth < 63) open[depth++] = line[i];
        if (strchr(")]", line[i]) && depth > 0) depth--;
        if (i - start >= room && cut > start) {
            buf_add(to, line + start, cut - start);
            buf_printf(to, "\n%*s", indent, "");
            start = cut + 1;
            room = WIDTH - (size_t)indent;
        }
        if (line[i] == ',' && depth == 1 && open[0] == '(') cut = i + 1;
    }
    buf_add(to, line + start, n - start);
}

void w_comment(Buf *to, const char *text, int indent) {
    size_t room = WIDTH - 3 - (size_t)indent;
    while (*text) {
        size_t n = strlen(text), cut = n;
        for (size_t i = 0; n > room && i < room; i++)
            if (text[i] == ',') cut = i + 1;
        buf_printf(to, "%*s// %.*s\n", indent, "", (int)cut, text);
        text += cut;
        while (*text == ' ') text++;
    }
}

// ---- values ---------------------------------------------------------------------------------------------------------

static void put_dims(Writer *w, Buf *to, int rank, const Ix *shape) {
    for (int i = 0; i < rank; i++) {
        if (i) buf_puts(to, ", ");
        k_ix(w->scope, to, shape[i]);
    }
}

void w_type(Writer *w, Buf *to, const Node *n, int rank, const Ix *shape) {
    buf_printf(to, "%s[", elem_name((Elem)n->elem));
    put_dims(w, to, rank, shape);
    buf_putc(to, ']');
}

static void put_element(Buf *to, const Node *n, uint64_t i) {
    GNum v = g_num_load((const char *)n->c.data + i * (size_t)elem_bytes((Elem)n->elem), (Elem)n->elem);
    if (n->elem == EL_bool) buf_puts(to, v.i ? "true" : "false");
    else if (n->elem == EL_u64) buf_printf(to, "%" PRIu64, (uint64_t)v.i);
    else if (v.is_int) buf_printf(to, "%" PRId64, v.i);
    else if (v.f != v.f) buf_puts(to, "nan");
    else if (v.f > 1.7e308 || v.f < -1.7e308) buf_puts(to, v.f < 0 ? "-inf" : "inf");
    else {
        char t[40];
        c_snprintf(t, sizeof t, n->elem == EL_f64 ? "%.17g" : "%.9g", v.f);
        buf_puts(to, t);
        if (!strpbrk(t, ".e")) buf_puts(to, ".0");
    }
}

enum { FEW_ELEMENTS = 16, MOST_ELEMENTS = 1 << 22 };     // written out where the file has them, too; where it has not

// What a weight is called already, in another graph: around steps, or their body.
static const char *weight_there(const Writer *w, const Node *typed, const Node *n) {
    for (uint32_t i = 0; i < w->let.n; i++) {
        const Node *there = w->let.at[i].typed, *c = graph_loaded(there) ? there->src[0] : there;
        if (there->elem == typed->elem && c->c.data == n->c.data && strcmp(c->c.stored, n->c.stored) == 0 && c->rank == n->rank) return w->let.at[i].name;
    }
    return NULL;
}

// A constant: by its name in the file of weights, or by its elements.
static bool put_constant(Writer *w, const Node *typed, Value *v) {
    const Node *n = graph_loaded(typed) ? typed->src[0] : typed;
    uint64_t count = n->c.bytes / (size_t)elem_bytes((Elem)n->elem);
    bool named = n->c.stored && w->weights && count > (n->c.file ? 1 : FEW_ELEMENTS);
    const char *there = named ? weight_there(w, typed, n) : NULL;
    if (there) {
        *v = (Value){there, n->rank, n->shape};
        return true;
    }
    v->name = k_name(w->scope, g_identifier(w->g->arena, n->name, "constant"));
    v->rank = n->rank;
    v->shape = n->shape;
    size_t line = w->lets.n;
    buf_printf(&w->lets, "    let %s: ", v->name);
    if (named) {
        w_type(w, &w->lets, typed, n->rank, n->shape);
        buf_puts(&w->lets, " = weight(");
        buf_string(&w->lets, n->c.stored);
        buf_puts(&w->lets, ");\n");
        w->has_weights = true;
        vec_push(w->g->arena, &w->let, ((Weight){typed, v->name}));
        return true;
    }
    if (count > MOST_ELEMENTS)
        return g_error(w->g, "a constant with %" PRIu64 " elements and no name cannot be written", count) != NULL;
    Ix flat = ix(w->g, (int64_t)count);
    v->rank = 1;
    v->shape = copy_ixs(w->g, &flat, 1);
    w_type(w, &w->lets, typed, 1, v->shape);
    if (count == 0) {
        buf_printf(&w->lets, " = zeros<%s>(0);\n", elem_name((Elem)typed->elem));
        return true;
    }
    buf_printf(&w->lets, " = values<%s>(", elem_name((Elem)typed->elem));
    for (uint64_t i = 0; i < count; i++) {
        Buf text = {0};
        put_element(&text, n, i);
        bool room = w->lets.n - line + text.n < WIDTH;
        if (i) buf_puts(&w->lets, room ? ", " : ",\n        ");
        if (!room) line = w->lets.n - 8;
        buf_add(&w->lets, text.p, text.n);
        buf_free(&text);
    }
    buf_puts(&w->lets, ");\n");
    return true;
}

static bool same_shape(int r1, const Ix *s1, int r2, const Ix *s2) {
    return r1 == r2 && (r1 == 0 || memcmp(s1, s2, (size_t)r1 * sizeof *s1) == 0);
}

// A value with the shape that is wanted, or that part of it.
bool w_value(Writer *w, Buf *to, const Node *n, int rank, const Ix *shape, Ix parts, int64_t part) {
    if (parts) {
        Ix all[G_MAX_RANK] = {parts};
        for (int i = 0; i < rank; i++) all[i + 1] = shape[i];
        if (!w_value(w, to, n, rank + 1, all, NULL, 0)) return false;
        buf_printf(to, "[%" PRId64 "]", part);
        return true;
    }
    Value *v = &w->value[n->id];
    if (!v->name && n->kind == G_view && n->src[0]->kind == G_proj) *v = w->value[n->src[0]->id];      // of steps, with other axes of 1
    if (!v->name && (n->kind == G_const || graph_loaded(n)) && !put_constant(w, n, v)) return false;
    if (!v->name) return g_error(w->g, "a value is used before it is made") != NULL;
    if (same_shape(v->rank, v->shape, rank, shape)) {
        buf_puts(to, v->name);
        return true;
    }
    buf_printf(to, "reshape(%s", v->name);
    if (rank) buf_puts(to, ", ");
    put_dims(w, to, rank, shape);
    buf_putc(to, ')');
    return true;
}

// ---- launches -------------------------------------------------------------------------------------------------------

// The text with dimensions by their order in it: a kernel does not care what its caller calls them.
static const char *meaning(const Kernel *k, const char *text) {
    Buf b = {0};
    int *order = NEW_N(k->arena, int, k->named.n + 1), known = 0;
    for (const char *c = text; *c;) {
        size_t n = 0;
        uint32_t at = 0;
        while (g_in_name(c[n])) n++;
        while (n > 0 && at < k->named.n && (strncmp(k->named.at[at], c, n) != 0 || k->named.at[at][n])) at++;
        if (n > 0 && at < k->named.n) {
            if (!order[at]) order[at] = ++known;
            buf_printf(&b, "$%d", order[at]);
        } else {
            buf_add(&b, c, n > 0 ? n : 1);
        }
        c += n > 0 ? n : 1;
    }
    const char *kept = arena_printf(k->arena, "%s", b.p);
    buf_free(&b);
    return kept;
}

// A kernel, and what it is as text.
typedef struct Item { Kernel *k; Buf text; const char *means; } Item;

static bool build_as(Writer *w, int group, bool stepped, bool by_loops, Item *to) {
    Kernel *k = to->k = NEW(w->g->arena, Kernel);
    *k = (Kernel){.g = w->g, .arena = w->g->arena, .f = w->f, .group = group, .fg = w->f->groups.at[group], .numbers = w->numbers, .stepped = stepped, .by_loops = by_loops};
    if (!kernel_build(k)) return g_failed(w->g) ? false : g_error(w->g, "a kernel cannot be written") != NULL;
    to->text = (Buf){0};
    k_print(k, &to->text, "@");
    return true;
}

static bool build(Writer *w, int group, bool stepped, Item *to) {
    if (!build_as(w, group, stepped, false, to)) return false;
    if (to->k->unsized) {
        buf_free(&to->text);
        if (!build_as(w, group, stepped, true, to)) return false;
    }
    to->means = meaning(to->k, to->text.p);
    return true;
}

static const Written *known_kernel(const Writer *w, const char *means) {
    for (uint32_t i = 0; i < w->kernels.n; i++) if (strcmp(w->kernels.at[i].meaning, means) == 0) return &w->kernels.at[i];
    return NULL;
}

static Shared *shared_kernel(const Writer *w, const char *means) {
    for (uint32_t i = 0; i < w->steps->at.n; i++) if (strcmp(w->steps->at.at[i].meaning, means) == 0) return &w->steps->at.at[i];
    return NULL;
}

static bool is_shared(const Shared *s) {
    enum { ENOUGH = 8 };
    return s && s->kernels >= ENOUGH;
}

static bool any_shared(const Steps *s) {
    bool any = false;
    for (uint32_t i = 0; i < s->at.n; i++) any |= is_shared(&s->at.at[i]);
    return any;
}

// The kernel of a launch: with its step as a parameter where enough others are the same then.
static bool choose(Writer *w, int group, Item *it) {
    Item with;
    bool known = w->steps->known && any_shared(w->steps);
    if (known && !build(w, group, true, it)) return false;
    if (known && it->k->steps.n && is_shared(shared_kernel(w, it->means))) return true;
    if (known) buf_free(&it->text);
    if (!build(w, group, false, it)) return false;
    if (w->steps->known || !it->k->may_step || known_kernel(w, it->means)) return true;
    if (!build(w, group, true, &with)) return false;
    Shared *s = shared_kernel(w, with.means);
    if (s) s->kernels++;
    else vec_push(w->g->arena, &w->steps->at, ((Shared){with.means, 1}));
    buf_free(&with.text);
    return true;
}

static const char *kernel_item(Writer *w, Item *it, const char *comment) {
    Kernel *k = it->k;
    Buf text = it->text;
    const Written *known = known_kernel(w, it->means);
    if (known) {
        buf_free(&text);
        return known->name;
    }
    const char *name = k_name(w->scope, kernel_name(w, k->fg));
    vec_push(w->g->arena, &w->kernels, ((Written){it->means, name}));
    const char *rest = strchr(text.p, '\n');
    char *head = arena_printf(w->g->arena, "kernel %s%.*s", name, (int)(rest - text.p) - 8, text.p + strlen("kernel @"));
    buf_putc(&w->items, '\n');
    w_comment(&w->items, comment[0] ? comment : "of the model", 0);
    w_line(&w->items, head, strlen(head), 7);
    for (const char *c = rest; *c; c++) {                    // @: its name, in its tune item
        if (*c == '@') buf_puts(&w->items, name);
        else buf_putc(&w->items, *c);
    }
    buf_free(&text);
    w->needs_library |= k->needs_library;
    return name;
}

// The result of the graph that is just what this kernel gives.
static const char *own_result(Writer *w, const KParam *p) {
    if (!w->result || p->inout || w->f->begun[p->node->id] >= 0 || !same_shape(p->rank, p->shape, p->node->rank, p->node->shape)) return NULL;
    int found = -1;
    for (uint32_t i = 0; i < w->g->outputs.n; i++) {
        if (w->g->outputs.at[i].node != p->node) continue;
        if (found >= 0) return NULL;
        found = (int)i;
    }
    return found >= 0 ? w->result[found] : NULL;
}

static bool is_state(const Graph *g, const Node *n) {
    bool found = false;
    for (uint32_t i = 0; i < g->donated.n; i++) found |= !g->donated.at[i].refused && g->donated.at[i].state == n;
    return found;
}

// Not of the body of steps: the interpreter has no such values, but those of each.
static void say(Writer *w, const char *name, const Node *n) {
    if (w->result) vec_push(w->g->arena, &w->g->written, ((GNamed){.name = name, .node = (Node *)(uintptr_t)n}));
}

static const KStep *step_of(const Kernel *k, Ix name) {
    for (uint32_t i = 0; i < k->steps.n; i++) if (k->steps.at[i].name == name) return &k->steps.at[i];
    return NULL;
}

// name(x, w, 3)
static bool put_call(Writer *w, Buf *call, const char *name, const Kernel *k) {
    bool ok = true, first = true;
    buf_printf(call, "%s(", name);
    for (uint32_t i = 0; i < k->params.n && ok; i++) {
        const KParam *p = &k->params.at[i];
        if (p->out) continue;
        if (!first) buf_puts(call, ", ");
        first = false;
        bool updates = p->inout && p->node->kind == G_scatter;
        ok = w_value(w, call, updates ? p->node->src[0] : p->node, p->rank, p->shape, p->parts, p->part);
        if (updates && is_state(w->g, p->node->src[0])) say(w, w->value[p->node->src[0]->id].name, p->node);    // by the parameter's name
    }
    for (uint32_t i = 0; i < k->scalars.n; i++) {
        const KStep *step = step_of(k, k->scalars.at[i]);
        if (!first) buf_puts(call, ", ");
        first = false;
        if (step) {
            buf_printf(call, "%" PRId64, step->at);
            continue;
        }
        w->scope->in_head = false;                           // no size here
        k_ix(w->scope, call, k->scalars.at[i]);
        w->scope->in_head = true;
        if (!ix_dim_info(w->g, k->scalars.at[i])->value) buf_puts(call, " as i32");
    }
    buf_putc(call, ')');
    return ok;
}

// y, or let a, b, or let a: f32[M, N]
static void put_results(Writer *w, Buf *line, const char *name, const Kernel *k) {
    int results = 0, said = 0;
    const KParam *only = NULL;
    for (uint32_t i = 0; i < k->params.n; i++)
        if (k->params.at[i].out || k->params.at[i].inout) results++, only = &k->params.at[i];
    const char *result = results == 1 ? own_result(w, only) : NULL;
    if (result) {
        w->value[only->node->id] = (Value){result, only->rank, only->shape};
        say(w, result, only->node);
        buf_puts(line, result);
        return;
    }
    buf_puts(line, "let ");
    for (uint32_t i = 0, n = k->params.n; i < 2 * n; i++) {  // what it makes, then what it updates
        const KParam *p = &k->params.at[i % n];
        if (i < n ? !p->out : !p->inout) continue;
        const char *of = k_name(w->scope, g_identifier(w->g->arena, p->node->name, name));
        w->value[p->node->id] = (Value){of, p->rank, p->shape};
        if (w->f->begun[p->node->id] < 0 || w->f->maker[p->node->id] == k->group) say(w, of, p->node);       // with all its parts
        buf_printf(line, "%s%s", said++ ? ", " : "", of);
    }
    if (results != 1) return;
    buf_puts(line, ": ");
    w_type(w, line, only->node, only->rank, only->shape);
}

bool w_launch(Writer *w, int group) {
    if (w->f->groups.at[group]->kind == F_STEPS) return w_steps(w, w->f->groups.at[group]);
    Item it;
    if (!choose(w, group, &it)) return false;
    Kernel *k = it.k;
    char *comment = w_nodes(w, k->fg);
    const char *name = kernel_item(w, &it, comment);
    Buf call = {0}, line = {0};
    w->sizes |= k->sizes;
    bool ok = put_call(w, &call, name, k);
    put_results(w, &line, name, k);
    buf_printf(&line, " = %s;", call.p);
    bool beside = line.n + strlen(comment) + (size_t)w->indent + 3 + 4 <= WIDTH;
    if (comment[0] && !beside) w_comment(&w->body, comment, w->indent);
    buf_printf(&w->body, "%*s", w->indent, "");
    w_line(&w->body, line.p, line.n, w->indent + 4);
    if (comment[0] && beside) buf_printf(&w->body, "    // %s", comment);
    buf_putc(&w->body, '\n');
    w->launches++;
    w->repeated += w->g->step.number && !k->fg->once;
    buf_free(&line);
    buf_free(&call);
    return ok;
}

// ---- the item -------------------------------------------------------------------------------------------------------

static bool results(Writer *w, Buf *head) {
    Graph *g = w->g;
    buf_puts(head, ") -> (");
    for (uint32_t i = 0; i < g->outputs.n; i++) {
        const Node *n = g->outputs.at[i].node;
        const char *name = w->result[i];
        buf_printf(head, "%s%s: ", i ? ", " : "", name);
        w_type(w, head, n, n->rank, n->shape);
        if (w->value[n->id].name == name) continue;          // its launch has assigned it
        say(w, name, g->outputs.at[i].node);
        buf_printf(&w->body, "    %s = ", name);
        if (!w_value(w, &w->body, n, n->rank, n->shape, NULL, 0)) return false;
        buf_puts(&w->body, ";\n");
    }
    buf_puts(head, ")");
    return true;
}

static bool says_size(const Graph *g, const Node *n) {
    bool found = false;
    for (int i = 0; i < ix_dim_count(g); i++) found |= ix_dim_info(g, ix_dim_at(g, i))->value == n;
    return found;
}

static bool program(Writer *w, Buf *to) {
    Graph *g = w->g;
    Buf head = {0};
    const char *name = g_identifier(g->arena, g->name, "model");
    for (int i = 0; i < ix_dim_count(g); i++)
        if (!ix_dim_info(g, ix_dim_at(g, i))->value)
            vec_push(g->arena, &w->scope->names, g_dim_word(g, ix_dim_at(g, i)));
    w_reserve_numbers(w, w->f);
    w->item = name = k_name(w->scope, name);
    buf_printf(&head, "graph %s(", name);
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        const Node *n = g->inputs.at[i].node;
        Value v = {k_name(w->scope, g_identifier(g->arena, n->name, "x")), n->rank, n->shape};
        w->value[n->id] = v;
        buf_printf(&head, "%s%s: %s", i ? ", " : "", v.name, is_state(g, n) ? "inout " : "");
        if (w->numbers && says_size(g, n)) buf_puts(&head, elem_name((Elem)n->elem));
        else w_type(w, &head, n, n->rank, n->shape);
    }
    w->result = NEW_N(g->arena, const char *, g->outputs.n);
    for (uint32_t i = 0; i < g->outputs.n; i++)
        w->result[i] = k_name(w->scope, g_identifier(g->arena, g->outputs.at[i].name, "y"));
    bool ok = true;
    for (uint32_t i = 0; i < w->f->groups.n && ok; i++) ok = w_launch(w, (int)i);
    ok = ok && results(w, &head) && !g_failed(g);
    w->sizes |= w->scope->sizes;
    bool again = (w->sizes && !w->numbers) || (!w->steps->known && any_shared(w->steps));      // with numbers; with steps as parameters
    ok = ok && !again;
    if (ok) {
        w_line(to, head.p, head.n, 6);
        buf_puts(to, "\n{\n");
        if (w->has_weights) {
            buf_puts(to, "    weights ");
            buf_string(to, w->weights);
            buf_puts(to, ";\n");
        }
        buf_printf(to, "%s%s}\n", w->lets.p ? w->lets.p : "", w->body.p ? w->body.p : "");
    }
    buf_free(&head);
    return ok;
}

// What is written so far of a file: kernels of all its graphs, and the graphs.
typedef struct Text {
    Buf  kernels, graphs;
    bool needs_library;
    int  nkernels, ngraphs, launches[MOST_STAGES], repeated;
    VEC(Written) written;
    VEC(const char *) names;     // that kernels and graphs have
} Text;

static bool write_with(Graph *g, const Fusion *f, const char *weights, bool *numbers, Steps *steps, bool *again, Text *to) {
    Writer w = {.g = g, .f = f, .weights = weights, .numbers = *numbers, .steps = steps, .indent = 4};
    Buf graph = {0};
    g->written.n = 0;
    w.scope = NEW(g->arena, Kernel);
    *w.scope = (Kernel){.g = g, .arena = g->arena, .f = f, .in_head = true};
    for (uint32_t i = 0; i < to->names.n; i++) vec_push(g->arena, &w.scope->names, to->names.at[i]);
    for (uint32_t i = 0; i < to->written.n; i++) vec_push(g->arena, &w.kernels, to->written.at[i]);
    uint32_t before = w.kernels.n;
    w.value = NEW_N(g->arena, Value, g->nodes.n);
    bool ok = program(&w, &graph);
    bool sizes = w.sizes && !*numbers, share = !steps->known && any_shared(steps);
    *again = !ok && (sizes || share) && !g_failed(g);
    *numbers |= sizes;
    if (sizes) steps->at.n = 0;                              // their kernels are others
    else steps->known = true;
    if (ok) {
        buf_puts(&to->kernels, w.items.p ? w.items.p : "");
        buf_puts(&to->graphs, graph.p);
        to->needs_library |= w.needs_library;
        to->nkernels += (int)(w.kernels.n - before);
        to->launches[to->ngraphs++] = w.launches;
        to->repeated += w.repeated;
        for (uint32_t i = before; i < w.kernels.n; i++) {
            vec_push(g->arena, &to->written, w.kernels.at[i]);
            vec_push(g->arena, &to->names, w.kernels.at[i].name);
        }
        vec_push(g->arena, &to->names, w.item);
    }
    buf_free(&graph);
    buf_free(&w.items);
    buf_free(&w.body);
    buf_free(&w.lets);
    return ok;
}

// The rewrites and fusion. NULL: the graph failed, or --after ended the passes before it was fused.
static const Fusion *fused(Graph *g, const GTensor *in) {
    const GraphPasses *how = g->tables->passes;
    graph_simplify(g);
    if (graph_passes_ended(g)) return NULL;
    bool dumps = how && how->dump_dir;
    Unfused before = dumps ? graph_unfused(g, in) : (Unfused){0};
    double started = graph_pass_started();
    const Fusion *f = graph_fuse(g);
    Buf text = {0};
    if (f && dumps) fusion_print(&text, g, f, &before, in);
    graph_pass_ended(g, "fuse", started, &text);
    buf_free(&text);
    return f && !g_failed(g) ? f : NULL;
}

static bool write_graph(Graph *g, const char *weights, Text *to, Buf *err) {
    bool again = true, ok = false, numbers = false;
    Steps steps = {0};
    const Fusion *f = fused(g, NULL);
    while (f && again) ok = write_with(g, f, weights, &numbers, &steps, &again, to);
    g_at(g, NULL);
    if (!ok) buf_puts(err, g_failed(g) ? g_failed(g) : "the graph cannot be written");
    return ok;
}

static const char *plural(int n) { return n == 1 ? "" : "s"; }

static void put_head(const Graph *g, const Text *t, Buf *to) {
    buf_printf(to, "// The model %s as a program: %d kernel%s, and a graph of %d launch%s", g->name, t->nkernels, plural(t->nkernels), t->launches[0],
               t->launches[0] == 1 ? "" : "es");
    if (t->repeated) buf_printf(to, ", %d of them once for each step of a loop", t->repeated);
    buf_puts(to, ".\n");
    graph_donate_print(g, to, "// ", false);
}

static void put_head_of_stages(const Graph *g, const GStages *s, const Text *t, Buf *to) {
    if (s->nstages == 0) { buf_printf(to, "// The model %s has nothing with a form as kernels: all of it is the interpreter's.\n", g->name); return; }
    buf_printf(to, "// The model %s as %d program%s: %d kernel%s, and ", g->name, s->nstages, plural(s->nstages), t->nkernels, plural(t->nkernels));
    if (t->ngraphs == 1) buf_printf(to, "a graph of %d launch%s.", t->launches[0], t->launches[0] == 1 ? "" : "es");
    else {
        buf_puts(to, "graphs of");
        for (int i = 0; i < t->ngraphs; i++) buf_printf(to, "%s %d", i == 0 ? "" : i + 1 < t->ngraphs ? "," : " and", t->launches[i]);
        buf_puts(to, " launches, one after the other.");
    }
    buf_puts(to, " What has no form as\n// kernels is the interpreter's, before and after them; sizes that it finds are dimensions of what follows.\n");
}

// What the interpreter does between two programs.
static void put_turn(const GStages *s, int turn, Buf *to) {
    const GStage *at = &s->stage[turn];
    Buf line = {0};
    if (at->nmakes == 0) return;
    buf_printf(&line, "the interpreter: %s", at->from ? at->from : "what only moves");
    for (int i = 0; i < at->nreads; i++) buf_printf(&line, "%s %s", i ? "," : ", reads", s->value[at->reads[i]].name);
    for (int i = 0; i < at->nmakes; i++) buf_printf(&line, "%s %s", i ? "," : ", makes", s->value[at->makes[i]].name);
    buf_putc(to, '\n');
    w_comment(to, line.p, 0);
    buf_free(&line);
}

static bool write_stages(const GStages *s, const char *weights, Text *t, Buf *err) {
    put_turn(s, 0, &t->graphs);
    for (int i = 1; i <= s->nstages; i++) {
        buf_putc(&t->graphs, '\n');
        if (!write_graph(s->stage[i].graph, weights, t, err)) return false;
        put_turn(s, i, &t->graphs);
    }
    return true;
}

bool graph_write(Graph *g, const char *weights, Buf *to, Buf *err) {
    const GStages *s = graph_stages(g);
    Text *t = NEW(g->arena, Text);
    if (!s) buf_putc(&t->graphs, '\n');
    bool ok = s ? write_stages(s, weights, t, err) : write_graph(g, weights, t, err);
    if (ok) {
        if (s) put_head_of_stages(g, s, t, to);
        else put_head(g, t, to);
        if (t->needs_library) buf_puts(to, "\nimport \"std/elementary.tk\";\n");
        buf_printf(to, "%s%s", t->kernels.p ? t->kernels.p : "", t->graphs.p);
    }
    buf_free(&t->kernels);
    buf_free(&t->graphs);
    return ok;
}

static bool fusion_of(Graph *g, const GTensor *in, Buf *to, Buf *err) {
    Unfused before = graph_unfused(g, in);
    const Fusion *f = fused(g, in);
    if (f) fusion_print(to, g, f, &before, in);
    else buf_puts(err, g_failed(g));
    return f != NULL;
}

bool graph_write_fusion(Graph *g, const GTensor *in, Buf *to, Buf *err) {
    const GStages *s = graph_stages(g);
    bool ok = true;
    if (!s) {
        ok = fusion_of(g, in, to, err);
        if (ok) graph_donate_print(g, to, "", true);
        return ok;
    }
    put_turn(s, 0, to);
    for (int i = 1; i <= s->nstages && ok; i++) {
        const GStage *at = &s->stage[i];
        GTensor *given = heap_alloc(sizeof *given * (size_t)(at->nin + 1));
        for (int k = 0; k < at->nin; k++)
            if (at->in[k] < 0) given[k] = in[-1 - at->in[k]];
        buf_printf(to, "%sprogram %d of %d, %s\n", i > 1 ? "\n" : "", i, s->nstages, at->graph->name);
        ok = fusion_of(at->graph, given, to, err);
        if (ok) put_turn(s, i, to);
        heap_free(given);
    }
    return ok;
}
