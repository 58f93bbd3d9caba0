// What must be a number while a model is being lowered: shapes, axes, sizes of windows.
//
//     constants                       are numbers
//     computed from constants         are computed, by the interpreter
//     computed from dimensions        are index expressions; where a number is needed, the dimension is bound
//     computed from inputs            the input is bound
//
// Binding means to start again with the tensor that was given for an input as a constant, or its size as that of the
// dimension: Marks says which, Import.again that there are new ones.
#include "graph/onnx/internal.h"
#include "graph/ref/ref.h"

#include <string.h>

static bool mark(Marks *k, bool is_dim, const char *name) {
    const char **at = is_dim ? k->dims.at : k->inputs.at;
    for (uint32_t i = 0, n = is_dim ? k->dims.n : k->inputs.n; i < n; i++)
        if (strcmp(at[i], name) == 0) return false;
    name = arena_printf(k->arena, "%s", name);
    if (is_dim) vec_push(k->arena, &k->dims, name);
    else vec_push(k->arena, &k->inputs, name);
    return true;
}

typedef struct Search { // of what a value depends on
    Op *op;
    bool *seen;        // nodes, by id
    bool dims;         // are numbers needed, so that dimensions are to be bound, too?
    bool found;        // something new was marked
    const char *lacks; // an input or a dimension for which nothing was given
    bool dim;          // .. it is a dimension
    bool computed;     // by something that gives other sizes for other data
    bool look;         // mark nothing
    bool floats;       // an input of floats
} Search;

static void search_ix(Search *s, Ix e) {
    if (e == NULL || !e->has_dim) return;
    if (e->kind == IX_DIM) {
        const IxDim *d = ix_dim_info(s->op->g, e);
        if (d->data_dependent) s->computed = true;
        else if (s->op->import->how->ngiven == 0) s->lacks = d->name, s->dim = true;
        else if (!s->look && mark(s->op->import->marks, true, d->name)) s->found = true;
        return;
    }
    for (uint32_t i = 0; i < e->n; i++) search_ix(s, e->arg[i]);
}

static void search_node(Search *s, const Node *n) {
    if (n->kind == G_input) {
        const OnnxGiven *given = given_find(s->op->import->how, n->name);
        s->floats |= elem_is_float((Elem)n->elem);
        if (given == NULL || given->tensor->data == NULL) s->lacks = n->name, s->dim = false;
        else if (!s->look && mark(s->op->import->marks, false, n->name)) s->found = true;
    }
    if (n->kind == G_param) s->computed = true;
    if (n->kind == G_index && s->dims) search_ix(s, n->index.expr);
    for (int d = 0; d < n->rank && s->dims; d++) search_ix(s, n->shape[d]);
}

static void search(Search *s, const Node *from) {
    Arena *a = s->op->g->arena;
    VEC(const Node *) open = {0};
    vec_push(a, &open, from);
    s->seen[from->id] = true;
    while (open.n > 0) {
        const Node *n = open.at[--open.n];
        search_node(s, n);
        for (uint32_t i = 0; i < n->nsrc; i++)
            if (!s->seen[n->src[i]->id]) s->seen[n->src[i]->id] = true, vec_push(a, &open, n->src[i]);
    }
}

// A message, or a new start.
static void *needs(Op *op, const Node *x, bool dims, const char *what) {
    Search s = {.op = op, .seen = NEW_N(op->g->arena, bool, op->g->nodes.n + 1), .dims = dims};
    search(&s, x);
    if (s.found) op->import->again = true;
    if (!s.found && s.lacks == NULL && !dims) {                 // of a dimension, by more than sums and products?
        s = (Search){.op = op, .seen = NEW_N(op->g->arena, bool, op->g->nodes.n + 1), .dims = true, .look = true};
        search(&s, x);
    }
    if (s.lacks != NULL)
        return op_error(op, "%s must be known when the model is loaded, and depends on `%s`, for which no value is given (--arg %s=..)",
                        what, s.lacks, s.dim ? "INPUT" : s.lacks);
    return op_error(op, "%s must be known when the model is loaded, but depends on the data", what);
}

void *op_needs(Op *op, const Node *x, const char *what) { return needs(op, x, true, what); }

// Is x made of constants alone, and small enough to be computed now?
static bool foldable(Op *op, Node *x) {
    enum { NODES = 10000, ELEMENTS = 1 << 20 };
    Arena *a = op->g->arena;
    bool *seen = NEW_N(a, bool, op->g->nodes.n + 1);
    VEC(const Node *) open = {0};
    vec_push(a, &open, x);
    for (int nodes = 0; open.n > 0; nodes++) {
        const Node *n = open.at[--open.n];
        int64_t count = 1;
        bool lasting = n->kind == G_input || n->kind == G_param || n->kind == G_loop || n->kind == G_if;
        if (lasting || nodes > NODES || (n->kind == G_index && n->index.expr->has_dim)) return false;
        if (n->kind == G_const) continue;
        for (int d = 0; d < n->rank; d++) {
            if (!ix_is_const(n->shape[d]) || n->shape[d]->value > ELEMENTS) return false;
            count *= n->shape[d]->value;
            if (count > ELEMENTS) return false;
        }
        for (uint32_t i = 0; i < n->nsrc; i++)
            if (!seen[n->src[i]->id]) seen[n->src[i]->id] = true, vec_push(a, &open, n->src[i]);
    }
    return true;
}

Node *op_fold(Op *op, Node *x) {
    if (x == NULL || g_is_const(x)) return x;
    char why[256];
    GTensor t;
    if (!foldable(op, x) || !ref_value(op->g, x, &t, why, sizeof why)) return NULL;
    Node *c = g_const(op->g, t.elem, t.rank, t.shape, t.data);
    g_tensor_free(&t);
    return c;
}

static const char *input_text(Op *op, int i) { return arena_printf(op->g->arena, "its input %d", i); }

const Ix *op_known(Op *op, int i, int *n) {
    Node *x = op_in(op, i);
    const Ix *at = x != NULL ? g_known(op->g, x, n) : NULL;
    if (at == NULL && x != NULL && (x = op_fold(op, x)) != NULL) at = g_known(op->g, x, n);
    if (at != NULL || op_in(op, i) == NULL) return at;
    return needs(op, op->in[i], false, input_text(op, i));
}

const int64_t *op_known_ints(Op *op, int i, int *n) {
    Node *x = op_in(op, i);
    const int64_t *at = x != NULL ? g_known_ints(op->g, x, n) : NULL;
    if (at == NULL && x != NULL && (x = op_fold(op, x)) != NULL) at = g_known_ints(op->g, x, n);
    if (at != NULL || op_in(op, i) == NULL) return at;
    return needs(op, op->in[i], true, input_text(op, i));
}

bool op_known_int(Op *op, int i, int64_t *v) {
    int n = 0;
    const int64_t *at = op_known_ints(op, i, &n);
    if (at != NULL && n != 1) return op_error(op, "its input %d should be one number, not %d", i, n), false;
    if (at != NULL) *v = at[0];
    return at != NULL;
}

const double *op_known_floats(Op *op, int i, int *n) {
    Node *x = op_in(op, i);
    Node *c = x != NULL ? op_fold(op, x) : NULL;
    if (x == NULL) return NULL;
    if (c == NULL) return needs(op, x, true, input_text(op, i));
    int64_t count = 1;
    for (int d = 0; d < c->rank; d++) count *= c->shape[d]->value;
    double *out = NEW_N(op->g->arena, double, count + 1);
    for (int64_t k = 0; k < count; k++) {
        GNum v = g_num_load((const char *)c->c.data + k * elem_bytes((Elem)c->elem), (Elem)c->elem);
        out[k] = v.is_int ? (double)v.i : v.f;
    }
    *n = (int)count;
    return out;
}

bool op_fixed(Op *op, Ix size, int64_t *v) {
    if (size == NULL) return false;
    if (ix_const(size, v)) return true;
    Search s = {.op = op, .dims = true};
    search_ix(&s, size);
    if (s.found) op->import->again = true;
    if (s.lacks != NULL)
        return op_error(op, "the dimension `%s` must be known when the model is loaded: an input's shape settles it (--arg INPUT=zeros:f32[..])", s.lacks), false;
    return op_error(op, "needs a size that depends on the data"), false;
}

// Has what stays a loop no form? In a program, or in another type.
static bool written_out(const Import *im) { return im->how->ngiven > 0 && (im->how->kernels || im->how->dtype != EL_none); }

bool op_trips(Op *op, Ix size, bool chained, int64_t *n) {
    Import *im = op->import;
    if (size == NULL) return false;
    if (ix_const(size, n)) return true;
    if (!written_out(im) || (chained && !im->marks->written)) return false;
    Search s = {.op = op, .dims = true};
    search_ix(&s, size);
    im->again |= s.found;
    return false;
}

bool op_settle(Op *op, const Node *x) {
    Import *im = op->import;
    if (x == NULL || !written_out(im)) return false;
    for (int look = 1; look >= 0; look--) {
        Search s = {.op = op, .seen = NEW_N(op->g->arena, bool, op->g->nodes.n + 1), .dims = true, .look = look != 0};
        search(&s, x);
        if (s.lacks != NULL || s.computed || s.floats) return false;
        im->again |= s.found;
    }
    return im->again;
}

OpTrial op_try(Op *op) {
    const Import *im = op->import;
    return (OpTrial){op->g->requires.n, im->marks->inputs.n, im->marks->dims.n, im->again};
}

void op_undo(Op *op, OpTrial t) {
    Import *im = op->import;
    im->marks->inputs.n = t.inputs, im->marks->dims.n = t.dims, im->again = t.again;
    g_forget(op->g, t.requires);
}

bool op_axes(Op *op, const Node *x, int i, uint32_t *axes, bool *given) {
    int n = 0;
    const int64_t *at = op_given(op, "axes")    ? op_ints(op, "axes", &n)
                        : op_opt(op, i) != NULL ? op_known_ints(op, i, &n)
                                                : NULL;
    *axes = 0;
    *given = at != NULL;
    if (x == NULL || g_failed(op->g) != NULL) return false;
    for (int k = 0; k < n; k++) {
        int axis = g_axis(op->g, x, at[k]);
        if (axis < 0) return false;
        if (*axes >> axis & 1) return op_error(op, "axis %d stands twice among its axes", axis), false;
        *axes |= 1u << axis;
    }
    return true;
}
