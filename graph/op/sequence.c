// Sequences: lists of tensors, as long as is known when the model is read. They are no values of the graph: a node stands for
// each, which nothing but these operators may look into, and which is gone when they have.
#include "graph/op/op.h"

#include <string.h>

enum { MAX_ITEMS = 1 << 16 };

static const GHostOp list = {.name = "Sequence"};

bool op_is_sequence(const Node *n) { return n != NULL && n->kind == G_host && n->host.op == &list; }

// `rows`: the value whose rows the first items are, all of them, or NULL
static Node *sequence_of_rows(Op *op, Node *const *item, int n, Elem elem, Node *rows) {
    GType *type = NEW_N(op->g->arena, GType, n + 1);
    for (int i = 0; i < n; i++) {
        if (item[i] == NULL) return NULL;
        if (item[i]->elem != item[0]->elem) return op_error(op, "item %d of the sequence has another element type than the first", i);
        type[i] = (GType){(Elem)item[i]->elem, item[i]->rank, item[i]->shape};
    }
    if (n > MAX_ITEMS) return op_error(op, "a sequence of %d tensors is too long", n);
    if (n == 0) type[0].elem = elem;
    return g_host(op->g, &list, rows != NULL ? &rows : NULL, rows != NULL ? sizeof rows : 0, item, n, type, n > 0 ? n : 1);
}

static Node *sequence_of(Op *op, Node *const *item, int n, Elem elem) { return sequence_of_rows(op, item, n, elem, NULL); }

Node *op_list_of_rows(Op *op, Node *before, Node *x, int64_t n) {
    Graph *g = op->g;
    Node **item = NEW_N(g->arena, Node *, before->nsrc + n);
    for (uint32_t i = 0; i < before->nsrc; i++) item[i] = before->src[i];
    for (int64_t i = 0; i < n; i++) item[before->nsrc + i] = g_squeeze(g, g_take_range(g, x, 0, ix(g, i), 1, ix(g, 1)), 1);
    return sequence_of_rows(op, item, (int)(before->nsrc + n), (Elem)x->elem, before->nsrc == 0 ? x : NULL);
}

static Node *rows_of(const Node *s) { return s->host.attr_bytes > 0 ? *(Node *const *)s->host.attr : NULL; }

static const Node *sequence_in(Op *op, int i) {
    const Node *n = i < op->nin ? op->in[i] : NULL;
    if (n == NULL && g_failed(op->g) == NULL) op_error(op, "its input %d is missing", i);
    if (n != NULL && !op_is_sequence(n)) return op_error(op, "its input %d is no sequence", i);
    return n;
}

static bool given(const Op *op, int i) { return i < op->nin && op->in[i] != NULL; }

// The position that input i says, from the end if it is negative: one of 0 .. count - 1; -1 and a message, or none.
static int64_t place(Op *op, int i, int64_t count) {
    int64_t at;
    if (!op_known_int(op, i, &at)) return -1;
    if (at < -count || at >= count) return op_error(op, "position %lld is out of range: there are %lld", (long long)at, (long long)count), -1;
    return at < 0 ? at + count : at;
}

static Node *lower_construct(Op *op) {
    Node **item = NEW_N(op->g->arena, Node *, op->nin + 1);
    for (int i = 0; i < op->nin; i++)
        if ((item[i] = op_in(op, i)) == NULL) return NULL;
    return op->nin == 0 ? op_error(op, "has no inputs") : sequence_of(op, item, op->nin, EL_f32);
}

static Node *lower_empty(Op *op) { return sequence_of(op, NULL, 0, op_elem(op, "dtype", EL_f32)); }

static Node *lower_at(Op *op) {
    const Node *s = sequence_in(op, 0);
    int64_t at = s != NULL ? place(op, 1, s->nsrc) : -1;
    return at >= 0 ? s->src[at] : NULL;
}

static Node *lower_length(Op *op) {
    const Node *s = sequence_in(op, 0);
    return s != NULL ? g_i(op->g, EL_i64, s->nsrc) : NULL;
}

static Node *lower_insert(Op *op) {
    const Node *s = sequence_in(op, 0);
    Node *x = op_in(op, 1);
    if (s == NULL || x == NULL) return NULL;
    int64_t n = s->nsrc, at = given(op, 2) ? place(op, 2, n + 1) : n;
    int64_t from = 0;
    if (at < 0) return NULL;
    if (given(op, 2) && op_known_int(op, 2, &from) && from < 0) at--;        // -1 is before the last, not behind it
    if (at < 0) return op_error(op, "position %lld is out of range: there are %lld", (long long)from, (long long)n);
    Node **item = NEW_N(op->g->arena, Node *, n + 1);
    for (int64_t i = 0; i <= n; i++) item[i] = i == at ? x : s->src[i - (i > at)];
    return sequence_of_rows(op, item, (int)n + 1, EL_f32, at == n ? rows_of(s) : NULL);
}

static Node *lower_erase(Op *op) {
    const Node *s = sequence_in(op, 0);
    if (s == NULL) return NULL;
    int64_t n = s->nsrc, at = given(op, 1) ? place(op, 1, n) : n - 1;
    if (n == 0) return op_error(op, "the sequence is empty");
    if (at < 0) return NULL;
    Node **item = NEW_N(op->g->arena, Node *, n);
    for (int64_t i = 0; i < n - 1; i++) item[i] = s->src[i + (i >= at)];
    return sequence_of(op, item, (int)n - 1, (Elem)s->elem);
}

static Node *lower_concat(Op *op) {
    Graph *g = op->g;
    const Node *s = sequence_in(op, 0);
    if (s == NULL) return NULL;
    if (s->nsrc == 0) return op_error(op, "the sequence is empty");
    bool stacked = op_int(op, "new_axis", 0) != 0;
    if (!op_given(op, "axis")) return op_error(op, "attribute `axis` is missing");
    int rank = s->src[0]->rank + stacked;
    int64_t axis = op_int(op, "axis", 0);
    if (axis < -rank || axis >= rank) return op_error(op, "axis %lld is out of range: there are %d dimensions", (long long)axis, rank);
    if (axis < 0) axis += rank;
    Node **item = NEW_N(g->arena, Node *, s->nsrc + 1), *rows = rows_of(s);
    int n = 0;
    uint32_t first = 0;
    if (rows != NULL) {                                        // the rows of one value: their axis before the other
        int64_t count = 0;
        Ix shape[G_MAX_RANK];
        int perm[G_MAX_RANK];
        ix_const(rows->shape[0], &count);
        for (int d = 0; d < rows->rank; d++) perm[d] = d == axis ? 0 : d + (d < axis);
        if ((rows = g_transpose(g, rows, rows->rank, perm)) == NULL) return NULL;
        for (int d = 0; d < rank && !stacked; d++)
            shape[d] = d == axis ? ix_mul(g, rows->shape[d], rows->shape[d + 1]) : rows->shape[d + (d > axis)];
        item[n++] = stacked ? rows : g_reshape(g, rows, rank, shape);
        first = (uint32_t)count;
    }
    for (uint32_t i = first; i < s->nsrc; i++) item[n++] = stacked ? g_unsqueeze(g, s->src[i], 1u << axis) : s->src[i];
    return g_concat(g, (int)axis, item, n);
}

// Of single elements, without that axis if `keepdims` is 0; of so many each, the last the rest; or of these sizes.
static Node *lower_split(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0);
    int axis = op_axis(op, x, "axis", 0), n = 0;
    if (axis < 0) return NULL;
    const Ix *sizes = given(op, 1) ? op_known(op, 1, &n) : NULL;
    if (given(op, 1) && sizes == NULL) return NULL;
    bool listed = sizes != NULL && op->in[1]->rank == 1, keep = sizes != NULL || op_int(op, "keepdims", 1) != 0;
    int64_t each = 1, total = 0;
    if (!listed && sizes != NULL && n != 1) return op_error(op, "its sizes should be a number or a list, not %d dimensions", op->in[1]->rank);
    if (!listed) {
        if ((sizes != NULL && !op_fixed(op, sizes[0], &each)) || !op_fixed(op, x->shape[axis], &total)) return NULL;
        if (each < 1) return op_error(op, "a size is %lld", (long long)each);
        if (total / each >= MAX_ITEMS) return op_error(op, "a sequence of %lld tensors is too long", (long long)(total / each));
        n = (int)(total / each) + (total % each != 0);
    }
    Node **item = NEW_N(g->arena, Node *, n + 1);
    Ix at = ix(g, 0);
    for (int i = 0; i < n; i++) {
        Ix size = listed ? sizes[i] : ix(g, i + 1 < n || total % each == 0 ? each : total % each);
        if (ix_is_const(size) && size->value < 0) return op_error(op, "item %d would have a negative size", i);
        item[i] = g_take_range(g, x, axis, at, 1, size);
        if (!keep) item[i] = g_squeeze(g, item[i], 1u << axis);
        at = ix_add(g, at, size);
        if (ix_is_const(at) && ix_is_const(x->shape[axis]) && at->value > x->shape[axis]->value)
            return op_error(op, "its sizes are more than the %lld that there are", (long long)x->shape[axis]->value);
    }
    if (listed) g_require(g, at, x->shape[axis]);
    return sequence_of(op, item, n, (Elem)x->elem);
}

// clang-format off
const OpRow ops_sequence[] = {
    OP("SequenceConstruct", 11, lower_construct), OP("SequenceEmpty",   11, lower_empty), OP("SequenceAt",         11, lower_at),
    OP("SequenceLength",    11, lower_length),    OP("SequenceInsert",  11, lower_insert), OP("SequenceErase",     11, lower_erase),
    OP("ConcatFromSequence", 11, lower_concat),   OP("SplitToSequence", 11, lower_split),
    {0},
};
// clang-format on
