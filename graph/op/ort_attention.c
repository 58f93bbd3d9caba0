// ONNX Runtime's own attentions (domain com.microsoft), each by what it computes.
//
//     Attention              one product for queries, keys and values, with its weights; past and present as one tensor [2, b, h, s, d]
//     QAttention             the same, its product of bytes
//     MultiHeadAttention     queries, keys and values as they are, side by side ([b, s, h, 3, d]), or heads already
//     GroupQueryAttention    what exporters of language models write: caches, rotary embeddings, windows, and for each row of the
//                            batch how many keys count:
//
//         length[b] = seqlens_k[b] + 1            keys that count, the new ones included
//         past[b]   = length[b] - s               rows of its cache in use; 0 in a prompt, which may be padded at its end
//         present[b, h, past[b] + i] = key i      the cache, as long as before or as the longest row needs
//
//     RotaryEmbedding        as ONNX's, with the positions second and tables that no batch has
//
// How long the caches get is max(total_sequence_length, rows of past), so that one program serves caches that grow and
// caches that have room for all that will come.
#include "graph/op/attention.h"
#include "graph/op/quant.h"

#include <math.h>

enum { FAR = 1 << 30 };                // more heads, or a wider window, than that nobody has

static Node *to_f32(Graph *g, Node *x) { return g_cast(g, x, EL_f32); }

// Scores of heads, as a model says them: scale, then a cap.
static Node *scores_of(Op *op, Node *q, Node *k) {
    Graph *g = op->g;
    int64_t d;
    double scale = op_float(op, "scale", 0), cap = op_float(op, "softcap", 0);
    if (q == NULL || k == NULL) return NULL;
    g_require(g, q->shape[3], k->shape[3]);
    if (scale == 0) {
        if (!op_fixed(op, q->shape[3], &d)) return NULL;
        scale = 1 / sqrt((double)d);
    }
    Node *s = g_ew2f(g, EW_mul, op_scores(g, q, op_spread_heads(op, k, q->shape[1])), scale);
    return cap != 0 ? g_ew2f(g, EW_mul, g_ew1(g, EW_tanh, g_ew2f(g, EW_div, s, cap)), cap) : s;
}

static Node *added(Graph *g, Node *scores, Node *bias) {
    return bias != NULL ? g_ew2(g, EW_add, scores, g_cast(g, bias, scores != NULL ? (Elem)scores->elem : EL_f32)) : scores;
}

// Where `may` is false nobody looks: at all, or as little as the model says.
static Node *kept(Graph *g, Node *scores, Node *may, double otherwise) {
    if (may == NULL || scores == NULL) return scores;
    return isinf(otherwise)
               ? g_where(g, may, scores, g_f(g, (Elem)scores->elem, otherwise))
               : g_ew2(g, EW_add, scores,
                       g_where(g, may, g_f(g, (Elem)scores->elem, 0), g_f(g, (Elem)scores->elem, otherwise)));
}

static Node *values_of(Op *op, Node *p, Node *v, Elem elem) {
    Graph *g = op->g;
    if (p == NULL || v == NULL) return NULL;
    return op_join_heads(g, g_cast(g, op_values(g, p, op_spread_heads(op, v, p->shape[1])), elem));
}

// ---- Attention, MultiHeadAttention ------------------------------------------------------------------

// A mask of 0 and 1 by key, row or both, or the numbers of keys, as bools that broadcast to the scores.
static Node *mask_of(Op *op, Node *mask, const Node *scores) {
    Graph *g = op->g;
    if (mask == NULL || scores == NULL) return NULL;
    Ix keys = scores->shape[3];
    // how many keys; what comes behind those (their starts) is read, too
    if (mask->rank == 1) {
        Ix batch = scores->shape[0];
        Node *end = g_take_range(g, mask, 0, ix(g, 0), 1, batch);
        Node *j = g_index(g, EL_i64, 4, (Ix[]){ix(g, 1), ix(g, 1), ix(g, 1), keys}, ix_axis(g, 3, keys));
        Node *may = g_ew2(g, EW_lt, j, g_unsqueeze(g, g_cast(g, end, EL_i64), 14));
        if (mask->shape[0] == batch) return may;
        if (mask->shape[0] != ix_muli(g, batch, 2))
            return op_error(op, "its mask has neither one number for each row of the batch nor two");
        Node *start = g_take_range(g, mask, 0, batch, 1, batch);
        return g_ew2(g, EW_and, may, g_ew2(g, EW_ge, j, g_unsqueeze(g, g_cast(g, start, EL_i64), 14)));
    }
    if (mask->rank == 0 || mask->rank > 4) return op_error(op, "its mask has %d dimensions", mask->rank);
    Node *may = mask->elem == EL_bool ? mask : g_ew2f(g, EW_gt, mask, 0);
    if (mask->rank == 2) return g_unsqueeze(g, may, 6);
    if (mask->rank == 3) return g_unsqueeze(g, may, 2);
    // of all places, those of the rows
    Node *row = g_take_range(g, may, 2, ix_sub(g, keys, scores->shape[2]), 1, scores->shape[2]);
    return g_take_range(g, row, 3, ix(g, 0), 1, keys);
}

// Scores, masked, to the result: [b, s, h * d].
static Node *attend(Op *op, Node *q, Node *k, Node *v, Node *mask, Node *bias, Elem elem) {
    Graph *g = op->g;
    Node *s = scores_of(op, q, k);
    if (s == NULL) return NULL;
    s = kept(g, added(g, s, bias), mask_of(op, mask, s), op_float(op, "mask_filter_value", -10000));
    if (op_int(op, "unidirectional", 0) != 0)
        s = kept(g, s,
                 op_reach(op, s, s != NULL ? ix_sub(g, s->shape[3], s->shape[2]) : NULL, NULL, (Reach){true, -1, -1}),
                 -INFINITY);
    return values_of(op, op_softmax_rows(g, s), v, elem);
}

// Row i of the first axis.
static Node *half(Graph *g, Node *x, int i) {
    return x != NULL ? g_squeeze(g, g_take_range(g, x, 0, ix(g, i), 1, ix(g, 1)), 1) : NULL;
}

// Where the inputs are. Of bytes: numbers whose scales and zero points are inputs, too.
typedef struct AttentionInputs { int mask, past, bias, in_place; bool bytes; } AttentionInputs;

// Queries, keys and values of all heads, side by side.
static Node *projected(Op *op, Node *x, Node *w, const AttentionInputs *at) {
    Graph *g = op->g;
    if (!at->bytes) return g_matmul(g, x, w);
    Node *scale[2] = {op_in(op, 3), op_in(op, 4)};
    if (scale[0] == NULL || scale[1] == NULL) return NULL;
    Node *sum = g_matmul(g, op_centred(g, x, op_one(g, op_opt(op, 6))), op_centred(g, w, op_one(g, op_opt(op, 7))));
    for (int i = 0; i < 2; i++) scale[i] = op_one(g, g_cast(g, scale[i], EL_f32));
    return g_cast(g, g_ew2(g, EW_mul, g_cast(g, sum, EL_f32), g_ew2(g, EW_mul, scale[0], scale[1])), (Elem)op_in(op, 3)->elem);
}

static Node *lower_attention(Op *op) {
    static const AttentionInputs inputs[] = {{3, 4, 5, 6, false}, {5, 8, -1, -1, true}};
    const AttentionInputs *at = &inputs[op->row];
    Graph *g = op->g;
    Node *x = op_in(op, 0), *w = op_in(op, 1), *bias = op_opt(op, 2), *past = op_opt(op, at->past);
    int64_t heads = op_int(op, "num_heads", 0);
    int n = 0;
    const int64_t *sizes = op_ints(op, "qkv_hidden_sizes", &n);
    if (x == NULL || w == NULL) return NULL;
    if (op_int(op, "do_rotary", 0) != 0 || op_int(op, "past_present_share_buffer", 0) != 0 || (at->in_place >= 0 && op_opt(op, at->in_place) != NULL))
        return op_error(op, "with rotary embeddings or a cache in place it is not supported");
    if (x->rank != 3 || w->rank != 2 || (sizes != NULL && n != 3))
        return op_error(op, "its input should have 3 dimensions, its weights 2");
    Ix third = sizes == NULL ? ix_divide_exact(g, w->shape[1], ix(g, 3)) : NULL, start = ix(g, 0);
    if (sizes == NULL && third == NULL) return op_error(op, "its weights have no three parts of columns");
    Node *part[3], *all = projected(op, x, w, at);
    if (all == NULL) return NULL;
    Elem elem = (Elem)all->elem;
    if (bias != NULL) all = g_ew2(g, EW_add, all, bias);
    for (int i = 0; i < 3; i++) {
        Ix size = sizes != NULL ? ix(g, sizes[i]) : third;
        part[i] = op_split_heads(op, g_take_range(g, all, 2, start, 1, size), heads);
        start = ix_add(g, start, size);
    }
    for (int i = 1; i < 3 && past != NULL; i++) part[i] = g_concat(g, 2, (Node *[]){half(g, past, i - 1), part[i]}, 2);
    if (op_wants(op, 1))
        op_out(op, 1, g_concat(g, 0, (Node *[]){g_unsqueeze(g, part[1], 1), g_unsqueeze(g, part[2], 1)}, 2));
    return attend(op, part[0], part[1], part[2], op_opt(op, at->mask), at->bias >= 0 ? op_opt(op, at->bias) : NULL, elem);
}

// Part `i` of `n` that lie side by side for each head, [b, s, h, n, d], as heads.
static Node *side(Graph *g, Node *x, int i) {
    return g_transpose(g, g_squeeze(g, g_take_range(g, x, 3, ix(g, i), 1, ix(g, 1)), 8), 4, (int[]){0, 2, 1, 3});
}

static Node *lower_multi_head(Op *op) {
    Graph *g = op->g;
    Node *q = op_in(op, 0), *k = op_opt(op, 1), *v = op_opt(op, 2), *bias = op_opt(op, 3),
         *past[2] = {op_opt(op, 6), op_opt(op, 7)};
    int64_t heads = op_int(op, "num_heads", 0);
    if (q == NULL) return NULL;
    if (op_opt(op, 8) != NULL || op_opt(op, 9) != NULL) return op_error(op, "with a cache in place it is not supported");
    Elem elem = (Elem)q->elem;
    Node *part[3] = {q, k, v};
    if (q->rank == 5)
        for (int i = 0; i < 3; i++) part[i] = side(g, q, i);
    else if (k != NULL && k->rank == 5)
        part[1] = side(g, k, 0), part[2] = side(g, k, 1);
    if (part[1] == NULL || part[2] == NULL) return op_in(op, part[1] == NULL ? 1 : 2);
    Ix start = ix(g, 0);
    for (int i = 0; i < 3; i++) {
        bool heads_yet = part[i]->rank == 4;
        if (!heads_yet && !op_rank(op, part[i], 3, "its queries, keys and values")) return NULL;
        Ix width = heads_yet ? ix_mul(g, part[i]->shape[1], part[i]->shape[3]) : part[i]->shape[2];
        Node *b = bias != NULL ? g_take_range(g, bias, 0, start, 1, width) : NULL;
        start = ix_add(g, start, width);
        if (b != NULL && heads_yet) b = g_unsqueeze(g, g_reshape(g, b, 2, (Ix[]){part[i]->shape[1], part[i]->shape[3]}), 2);
        if (b != NULL) part[i] = g_ew2(g, EW_add, part[i], b);
        part[i] = op_split_heads(op, part[i], heads);
        if (part[i] == NULL) return NULL;
    }
    for (int i = 0; i < 2; i++)
        if (past[i] != NULL) part[1 + i] = g_concat(g, 2, (Node *[]){past[i], part[1 + i]}, 2);
    for (int i = 0; i < 2; i++)
        if (op_wants(op, 1 + i)) op_out(op, 1 + i, part[1 + i]);
    return attend(op, part[0], part[1], part[2], op_opt(op, 4), op_opt(op, 5), elem);
}

// ---- GroupQueryAttention ----------------------------------------------------------------------------

typedef struct Rows {                  // of a cache
    Ix new, total;                     // that come, that there are afterwards
    Node *past;                        // i32[b]: how many are in use before; NULL: none in any
} Rows;

// The cache with new rows in it.
static Node *cached(Op *op, Node *past, Node *x, const Rows *r) {
    Graph *g = op->g;
    if (past == NULL || x == NULL) return x;
    Ix shape[4] = {x->shape[0], x->shape[1], r->total, x->shape[3]}, coord[4];
    int batch[1] = {0};
    Ix as[4] = {shape[0], shape[1], past->shape[2], shape[3]};
    for (int d = 0; d < 4; d++) coord[d] = ix_axis(g, d, as[d]);
    for (int d = 0; d < 4; d++) g_require(g, past->shape[d], as[d]);
    past = g_view(g, past, 4, as, coord, NULL, g_int(0));         // sizes that only the model's inputs have names for
    if (past == NULL || g_failed(g) != NULL) return NULL;
    for (int d = 0; d < 4; d++) coord[d] = ix_axis(g, d, d == 2 ? r->new : shape[d]);
    if (past->shape[2] == r->total) {                           // it has room: elements of it are replaced
        Node *at = g_ew2(g, EW_add, g_index(g, EL_i32, 4, x->shape, coord[2]),
                         g_broadcast_to(g, r->past, 4, x->shape, batch));
        coord[2] = NULL;
        return g_scatter(g, GR_none, past, x, coord, &at, 1, false);
    }
    Ix zero[4] = {ix(g, 0), ix(g, 0), ix(g, 0), ix(g, 0)},
       more[4] = {zero[0], zero[0], ix_sub(g, r->total, past->shape[2]), zero[0]};
    Node *old = g_pad(g, past, zero, more, GP_constant, g_int(0));
    Node *at = g_ew2(g, EW_sub, g_index(g, EL_i32, 4, shape, ix_axis(g, 2, r->total)),
                     g_broadcast_to(g, r->past, 4, shape, batch));
    Node *here = g_ew2(g, EW_and, g_ew2f(g, EW_ge, at, 0), g_ew2(g, EW_lt, at, g_size(g, EL_i32, r->new)));
    for (int d = 0; d < 4; d++) coord[d] = d == 2 ? NULL : ix_axis(g, d, shape[d]);
    Node *fresh = g_gather(g, x, 4, shape, coord, &at, 1, false, g_int(0));
    return g_where(g, here, fresh, old);
}

// softmax over the last axis and one more score of each head, which no value belongs to
static Node *softmax_with(Graph *g, Node *s, Node *sink) {
    Node *top = g_ew2(g, EW_max, g_reduce(g, GR_max, s, 8, true), sink), *e = g_ew1(g, EW_exp, g_ew2(g, EW_sub, s, top));
    Node *sum = g_ew2(g, EW_add, g_reduce(g, GR_sum, e, 8, true), g_ew1(g, EW_exp, g_ew2(g, EW_sub, sink, top)));
    return g_ew2(g, EW_div, e, sum);
}

// Queries and keys turned by their places: those that are given, or what follows from the rows in use.
static void turn_both(Op *op, Node **q, Node **k, const Rows *r) {
    Graph *g = op->g;
    Node *cos = op_in(op, 7), *sin = op_in(op, 8), *at = op_opt(op, 9);
    int64_t size, half_turned;
    if (cos == NULL || sin == NULL || *q == NULL || !op_fixed(op, (*q)->shape[3], &size)) return;
    if (!op_rank(op, cos, 2, "its table of cosines") || !op_rank(op, sin, 2, "its table of sines") ||
        !op_fixed(op, cos->shape[1], &half_turned))
        return;
    if (at != NULL && !op_rank(op, at, 2, "its positions")) return;
    if (half_turned * 2 > size)
        op_error(op, "cannot turn %lld of %lld elements", (long long)half_turned * 2, (long long)size);
    Ix places[2] = {(*q)->shape[0], r->new};
    bool given = at != NULL;
    at = given ? g_cast(g, at, EL_i32) : g_index(g, EL_i32, 2, places, ix_axis(g, 1, r->new));
    if (!given && r->past != NULL) at = g_ew2(g, EW_add, at, g_unsqueeze(g, r->past, 2));
    cos = g_gather_axis(g, cos, at, 0), sin = g_gather_axis(g, sin, at, 0);
    bool neighbours = op_int(op, "rotary_interleaved", 0) != 0;
    *q = op_turn(g, *q, cos, sin, 2 * half_turned, size, neighbours);
    *k = op_turn(g, *k, cos, sin, 2 * half_turned, size, neighbours);
}

// Queries, keys and values of one tensor, when the keys are not given.
static bool take_apart(Op *op, Node *all, int64_t heads, int64_t key_heads, Node *part[3]) {
    Graph *g = op->g;
    Ix head = all->rank == 3 ? ix_divide_exact(g, all->shape[2], ix(g, heads + 2 * key_heads)) : NULL, start = ix(g, 0);
    if (head == NULL)
        return op_error(op, "its queries, keys and values side by side do not fit the numbers of heads"), false;
    for (int i = 0; i < 3; i++) {
        Ix width = ix_muli(g, head, i == 0 ? heads : key_heads);
        part[i] = g_take_range(g, all, 2, start, 1, width);
        start = ix_add(g, start, width);
    }
    return true;
}

static Node *lower_group_query(Op *op) {
    Graph *g = op->g;
    Node *q = op_in(op, 0), *past_k = op_opt(op, 3), *past_v = op_opt(op, 4), *lengths = op_in(op, 5),
         *sink = op_opt(op, 11);
    int64_t heads = op_int(op, "num_heads", 0), key_heads = op_int(op, "kv_num_heads", 0),
            window = op_int(op, "local_window_size", -1);
    int n = 0;
    if (q == NULL || lengths == NULL || op_in(op, 6) == NULL) return NULL;
    if (heads < 1 || key_heads < 1 || heads > FAR || key_heads > FAR)
        return op_error(op, "needs `num_heads` and `kv_num_heads`");
    if (window > FAR) return op_error(op, "its window is wider than %d", FAR);
    if (op_given(op, "k_quant_type") && !op_is(op, "k_quant_type", "NONE", "NONE"))
        return op_error(op, "quantised caches are not supported");
    const Ix *total = op_known(op, 6, &n);
    if (total == NULL || n != 1) return total == NULL ? NULL : op_error(op, "its total length should be one number");
    Elem elem = (Elem)q->elem;
    Node *part[3] = {q, op_opt(op, 1), op_opt(op, 2)};
    if (part[1] == NULL && !take_apart(op, q, heads, key_heads, part)) return NULL;
    if (part[2] == NULL) return op_in(op, 2);
    for (int i = 0; i < 3; i++) part[i] = op_split_heads(op, part[i], i == 0 ? heads : key_heads);
    if (part[0] == NULL || part[1] == NULL || part[2] == NULL) return NULL;
    if ((past_k == NULL) != (past_v == NULL)) return op_error(op, "has a cache for keys or for values, but not for both");
    if (past_k != NULL && (!op_rank(op, past_k, 4, "its cache") || !op_rank(op, past_v, 4, "its cache"))) return NULL;
    Rows r = {.new = part[0]->shape[2], .total = past_k != NULL ? ix_max(g, total[0], past_k->shape[2]) : part[0]->shape[2]};
    if (past_k != NULL) {
        Node *used = g_ew2f(g, EW_add, g_ew2(g, EW_sub, g_cast(g, lengths, EL_i32), g_size(g, EL_i32, r.new)), 1);
        if (used != NULL && used->rank != 1) used = g_reshape(g, used, 1, (Ix[]){part[0]->shape[0]});
        Node *prompt = g_index(g, EL_bool, 0, NULL, ix_eq(g, total[0], r.new));
        r.past = g_kept(g, g_where(g, prompt, g_i(g, EL_i32, 0), used), EL_i32);      // all layers read it
    }
    if (op_int(op, "do_rotary", 0) != 0) turn_both(op, &part[0], &part[1], &r);
    Node *k = cached(op, past_k, part[1], &r), *v = cached(op, past_v, part[2], &r);
    op_out(op, 1, k);
    op_out(op, 2, v);
    Node *s = added(g, scores_of(op, part[0], k), op_opt(op, 10));
    Node *upto = r.past != NULL ? g_ew2(g, EW_add, r.past, g_size(g, EL_i32, r.new)) : NULL;
    s = kept(g, s, op_reach(op, s, ix(g, 0), upto, (Reach){true, window > 0 ? window - 1 : -1, -1}), -INFINITY);
    if (op_int(op, "smooth_softmax", 0) != 0 && sink == NULL) sink = g_f(g, EL_f32, 0);
    else if (sink != NULL) sink = g_reshape(g, to_f32(g, sink), 4, (Ix[]){ix(g, 1), ix(g, heads), ix(g, 1), ix(g, 1)});
    if (s == NULL || g_failed(g) != NULL) return NULL;
    return values_of(op, sink != NULL ? softmax_with(g, s, sink) : op_softmax_rows(g, s), v, elem);
}

// ---- RotaryEmbedding --------------------------------------------------------------------------------

static Node *lower_rotary(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *at = op_in(op, 1), *cos = op_in(op, 2), *sin = op_in(op, 3);
    int64_t heads = op_int(op, "num_heads", 0), turned = op_int(op, "rotary_embedding_dim", 0), size, half_turned;
    if (x == NULL || at == NULL || cos == NULL || sin == NULL) return NULL;
    if (op_int(op, "is_packed_batching", 0) != 0) return op_error(op, "packed batches are not supported");
    if (!op_rank(op, cos, 2, "its table of cosines") || !op_rank(op, sin, 2, "its table of sines") ||
        !op_fixed(op, cos->shape[1], &half_turned))
        return NULL;
    bool joined = x->rank == 3;
    if (joined && heads == 0 && op_fixed(op, x->shape[2], &size)) heads = half_turned > 0 ? size / (2 * half_turned) : 0;
    if (turned == 0) turned = 2 * half_turned;
    x = op_split_heads(op, x, heads);
    if (x == NULL || !op_fixed(op, x->shape[3], &size)) return NULL;
    if (turned > size || turned != 2 * half_turned)
        return op_error(op, "cannot turn %lld of %lld elements by tables of %lld", (long long)turned, (long long)size,
                        (long long)half_turned);
    at = g_cast(g, at, EL_i64);
    if (at != NULL && at->rank < 2)                             // one for all: that of the first row
        at = g_ew2(g, EW_add, g_index(g, EL_i64, 2, (Ix[]){x->shape[0], x->shape[2]}, ix_axis(g, 1, x->shape[2])),
                   g_reshape(g, at, 0, NULL));
    if (at == NULL || !op_rank(op, at, 2, "its positions")) return NULL;
    Node *y = op_turn(g, x, g_gather_axis(g, cos, at, 0), g_gather_axis(g, sin, at, 0), turned, size,
                      op_int(op, "interleaved", 0) != 0);
    double scale = op_float(op, "scale", 1);
    if (scale != 1 && y != NULL) y = g_cast(g, g_ew2f(g, EW_mul, op_widen(g, y), scale), (Elem)y->elem);
    return joined ? op_join_heads(g, y) : y;
}

#define MS_OP(type, lower, arg) {type, 1, lower, arg, NULL, "com.microsoft"}
const OpRow ops_ort_attention[] = {
    MS_OP("Attention", lower_attention, 0),
    MS_OP("QAttention", lower_attention, 1),
    MS_OP("MultiHeadAttention", lower_multi_head, 0),
    MS_OP("GroupQueryAttention", lower_group_query, 0),
    MS_OP("RotaryEmbedding", lower_rotary, 0),
    {0},
};
