// Attention of opset 23, RotaryEmbedding, RMSNormalization: each by the decomposition that ONNX's specification gives.
//
//     Q [b, qh, s, d], K [b, kh, t, d], V [b, kh, t, e]      or [b, s, qh * d] with the numbers of heads as attributes
//     past_key, past_value come before K and V               present_key, present_value are what came of it
//     scores = softcap(Q K' * scale) + mask, causal          [b, qh, s, t]; a key head serves qh / kh query heads
//     Y = softmax(scores) V
//
// A grouped key is read by an index map (its head is the query's, divided), never repeated. Opset 24 adds the number of
// keys that count, for each batch (nonpad_kv_seqlen), opset 25 windows.
#include "graph/op/attention.h"

#include <math.h>

Node *op_split_heads(Op *op, Node *x, int64_t heads) {
    Graph *g = op->g;
    if (x == NULL || x->rank == 4) return x;
    if (x->rank != 3) return op_error(op, "its operands have 3 or 4 dimensions, not %d", x->rank);
    Ix d = heads > 0 ? ix_divide_exact(g, x->shape[2], ix(g, heads)) : NULL;
    if (d == NULL)
        return op_error(
            op, "with operands of 3 dimensions the numbers of heads must be given, and divide the last dimension");
    static const int perm[] = {0, 2, 1, 3};
    return g_transpose(g, g_reshape(g, x, 4, (Ix[]){x->shape[0], x->shape[1], ix(g, heads), d}), 4, perm);
}

Node *op_join_heads(Graph *g, Node *x) {
    static const int perm[] = {0, 2, 1, 3};
    return x != NULL ? g_reshape(g, g_transpose(g, x, 4, perm), 3,
                                 (Ix[]){x->shape[0], x->shape[2], ix_mul(g, x->shape[1], x->shape[3])})
                     : NULL;
}

Node *op_spread_heads(Op *op, Node *x, Ix heads) {
    Graph *g = op->g;
    if (x == NULL || x->shape[1] == heads) return x;
    Ix group = ix_divide_exact(g, heads, x->shape[1]), shape[4] = {x->shape[0], heads, x->shape[2], x->shape[3]},
       coord[4];
    if (group == NULL) return op_error(op, "the number of query heads must be a multiple of that of key heads");
    for (int d = 0; d < 4; d++) coord[d] = ix_axis(g, d, shape[d]);
    coord[1] = ix_div(g, coord[1], group);
    return g_view(g, x, 4, shape, coord, NULL, g_int(0));
}

// A mask of 1 to 4 dimensions, lined up at the end with the scores; shorter ones end in what may not be looked at.
static Node *mask_scores(Op *op, Node *scores, Node *mask) {
    Graph *g = op->g;
    if (scores == NULL || mask == NULL) return scores;
    bool flag = mask->elem == EL_bool;
    if (!flag) mask = g_cast(g, mask, (Elem)scores->elem);
    if (mask == NULL) return NULL;
    int last = mask->rank - 1;
    if (last >= 0 && mask->shape[last] != scores->shape[3] && !ix_is(mask->shape[last], 1)) {
        Ix none[G_MAX_RANK], more[G_MAX_RANK];
        for (int d = 0; d <= last; d++) none[d] = more[d] = ix(g, 0);
        more[last] = ix_sub(g, scores->shape[3], mask->shape[last]);
        mask = g_pad(g, mask, none, more, GP_constant, flag ? g_int(0) : g_float(-INFINITY));
    }
    if (flag) return g_where(g, mask, scores, g_f(g, (Elem)scores->elem, -INFINITY));
    return g_ew2(g, EW_add, scores, mask);
}

Node *op_reach(Op *op, const Node *scores, Ix past, Node *lengths, Reach r) {
    Graph *g = op->g;
    if (scores == NULL || (lengths != NULL && !op_rank(op, lengths, 1, "the lengths of its keys"))) return NULL;
    if (r.causal) r.right = 0;
    Ix i = ix_axis(g, 2, scores->shape[2]), j = ix_axis(g, 3, scores->shape[3]);
    if (lengths == NULL) {
        Ix p = ix_add(g, i, past), may = ix(g, 1);
        if (r.right >= 0) may = ix_and(g, may, ix_le(g, j, ix_addi(g, p, r.right)));
        if (r.left >= 0) may = ix_and(g, may, ix_le(g, p, ix_addi(g, j, r.left)));
        return g_index(g, EL_bool, 4, scores->shape, may);
    }
    Ix shape[4] = {scores->shape[0], ix(g, 1), scores->shape[2], scores->shape[3]};       // heads are alike
    Elem count = lengths->elem == EL_i32 ? EL_i32 : EL_i64;
    Node *n = g_broadcast_to(g, g_cast(g, lengths, count), 4, shape, (int[]){0}), *column = g_index(g, count, 4, shape, j);
    Node *p = g_ew2(g, EW_add, g_index(g, count, 4, shape, ix_sub(g, i, shape[2])), n),
         *may = g_ew2(g, EW_lt, column, n);
    Node *ahead = g_ew2(g, EW_sub, column, p);
    if (r.right >= 0) may = g_ew2(g, EW_and, may, g_ew2(g, EW_le, ahead, g_i(g, count, r.right)));
    if (r.left >= 0) may = g_ew2(g, EW_and, may, g_ew2(g, EW_ge, ahead, g_i(g, count, -r.left)));
    return may;
}

// Products of heads in 16 bits stay so: sums in f32, which the scores are.
static bool in_16_bits(const Node *x) { return elem_bits((Elem)x->elem) == 16 && elem_is_float((Elem)x->elem); }

Node *op_scores(Graph *g, Node *q, Node *k) {
    if (q == NULL || k == NULL) return NULL;
    if (in_16_bits(q) && q->elem == k->elem) return g_contract(g, q, k, 2, 1, 1, 1, EL_f32, EL_f32);
    return g_einsum(g, "bhsd,bhtd->bhst", op_widen(g, q), op_widen(g, k));
}

Node *op_values(Graph *g, Node *p, Node *v) {
    if (p == NULL || v == NULL) return NULL;
    if (!in_16_bits(v)) return g_einsum(g, "bhst,bhte->bhse", p, op_widen(g, v));
    return g_contract(g, g_cast(g, p, (Elem)v->elem), g_transpose(g, v, 4, (int[]){0, 1, 3, 2}), 2, 1, 1, 1, EL_f32, EL_f32);
}

Node *op_softmax_rows(Graph *g, Node *scores) {
    Node *top = g_reduce(g, GR_max, scores, 1u << 3, true);
    if (top == NULL) return NULL;
    return g_where(g, g_ew2f(g, EW_eq, top, -INFINITY), g_f(g, (Elem)top->elem, 0), g_softmax(g, scores, 1u << 3));
}

static Node *concat_past(Op *op, Node *past, Node *x) {
    if (past != NULL && !op_rank(op, past, 4, "what is past")) return NULL;
    return past != NULL && x != NULL ? g_concat(op->g, 2, (Node *[]){past, x}, 2) : x;
}

static Node *lower_attention(Op *op) {
    Graph *g = op->g;
    int64_t qh = op_int(op, "q_num_heads", 0), kh = op_int(op, "kv_num_heads", 0),
            report = op_int(op, "qk_matmul_output_mode", 0);
    Node *q = op_in(op, 0), *past_k = op_opt(op, 4), *past_v = op_opt(op, 5), *lengths = op_opt(op, 6);
    if (q == NULL) return NULL;
    bool joined = q->rank == 3;
    Reach reach = {op_int(op, "is_causal", 0) != 0, op_int(op, "left_window_size", -1),
                   op_int(op, "right_window_size", -1)};
    enum { FAR = 1 << 30 };
    if (reach.left > FAR || reach.right > FAR) return op_error(op, "its window is wider than %d", FAR);
    Elem elem = (Elem)q->elem;
    q = op_split_heads(op, q, qh);
    Node *k = concat_past(op, past_k, op_split_heads(op, op_in(op, 1), kh)),
         *v = concat_past(op, past_v, op_split_heads(op, op_in(op, 2), kh));
    if (q == NULL || k == NULL || v == NULL) return NULL;
    op_out(op, 1, k);
    op_out(op, 2, v);
    int64_t d;
    double softcap = op_float(op, "softcap", 0), scale = op_float(op, "scale", 0);
    if (!op_given(op, "scale")) {
        if (!op_fixed(op, q->shape[3], &d)) return NULL;
        scale = 1 / sqrt((double)d);
    }
    g_require(g, q->shape[3], k->shape[3]);
    Node *s = op_scores(g, q, op_spread_heads(op, k, q->shape[1]));
    Node *stage = s = g_ew2f(g, EW_mul, s, scale);
    Ix past = past_k != NULL ? past_k->shape[2] : ix(g, 0);
    Node *capped = softcap != 0 ? g_ew2f(g, EW_mul, g_ew1(g, EW_tanh, g_ew2f(g, EW_div, s, softcap)), softcap) : s;
    Node *masked = mask_scores(op, capped, op_opt(op, 3));
    if (lengths != NULL || reach.causal || reach.left >= 0 || reach.right >= 0)
        masked = g_where(g, op_reach(op, masked, past, lengths, reach), masked,
                         g_f(g, masked != NULL ? (Elem)masked->elem : EL_f32, -INFINITY));
    Node *p = op_softmax_rows(g, masked);
    if (report == 1) stage = capped;
    if (report == 2) stage = masked;
    if (report == 3) stage = p;
    op_out(op, 3, op_wants(op, 3) ? g_cast(g, stage, elem) : NULL);
    Node *y = g_cast(g, op_values(g, p, op_spread_heads(op, v, q->shape[1])), elem);
    return joined ? op_join_heads(g, y) : y;
}

// Pairs (x1, x2) of each head's first elements, halves or neighbours, turned by an angle:
//     x1 cos - x2 sin,  x1 sin + x2 cos
Node *op_turn(Graph *g, Node *x, Node *cos, Node *sin, int64_t turned, int64_t size, bool neighbours) {
    if (x == NULL || cos == NULL || sin == NULL) return NULL;
    Ix half = ix(g, turned / 2), zero = ix(g, 0);
    int axes[] = {0, 2, 3};
    Ix table[4] = {x->shape[0], x->shape[1], x->shape[2], half};
    cos = op_widen(g, g_broadcast_to(g, cos, 4, table, axes));
    sin = op_widen(g, g_broadcast_to(g, sin, 4, table, axes));
    Node *w = op_widen(g, x);
    Node *x1 = g_take_range(g, w, 3, zero, neighbours ? 2 : 1, half);
    Node *x2 = g_take_range(g, w, 3, neighbours ? ix(g, 1) : half, neighbours ? 2 : 1, half);
    Node *a = g_ew2(g, EW_sub, g_ew2(g, EW_mul, x1, cos), g_ew2(g, EW_mul, x2, sin));
    Node *b = g_ew2(g, EW_add, g_ew2(g, EW_mul, x1, sin), g_ew2(g, EW_mul, x2, cos));
    Node *y;
    if (neighbours) {
        Node *pair[2] = {g_unsqueeze(g, a, 1u << 4), g_unsqueeze(g, b, 1u << 4)};
        y = g_reshape(g, g_concat(g, 4, pair, 2), 4, (Ix[]){x->shape[0], x->shape[1], x->shape[2], ix(g, turned)});
    } else {
        y = g_concat(g, 3, (Node *[]){a, b}, 2);
    }
    if (turned < size)
        y = g_concat(g, 3, (Node *[]){y, g_take_range(g, w, 3, ix(g, turned), 1, ix(g, size - turned))}, 2);
    return g_cast(g, y, (Elem)x->elem);
}

static Node *lower_rotary(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *cos = op_in(op, 1), *sin = op_in(op, 2), *at = op_opt(op, 3);
    if (x == NULL || cos == NULL || sin == NULL) return NULL;
    bool joined = x->rank == 3, neighbours = op_int(op, "interleaved", 0) != 0;
    int64_t turned = op_int(op, "rotary_embedding_dim", 0), size;
    x = op_split_heads(op, x, op_int(op, "num_heads", 0));
    if (x == NULL || !op_fixed(op, x->shape[3], &size)) return NULL;
    if (turned == 0) turned = size;
    if (turned < 0 || turned > size || turned % 2 != 0)
        return op_error(op, "cannot turn %lld of %lld elements", (long long)turned, (long long)size);
    if (at != NULL) cos = g_gather_axis(g, cos, at, 0), sin = g_gather_axis(g, sin, at, 0);
    if (cos == NULL || sin == NULL) return NULL;
    if (!op_rank(op, cos, 3, "the cosines of its positions") || !op_rank(op, sin, 3, "the sines of its positions"))
        return NULL;
    Node *y = op_turn(g, x, cos, sin, turned, size, neighbours);
    return joined ? op_join_heads(g, y) : y;
}

// x / sqrt(mean(x^2) + epsilon) * scale, the mean over the axes from `axis` on, in stash_type
static Node *lower_rms(Op *op) {
    Graph *g = op->g;
    Node *x = op_in(op, 0), *scale = op_in(op, 1);
    int axis = op_axis(op, x, "axis", -1);
    Elem in = op_elem(op, "stash_type", EL_f32);
    if (axis < 0 || scale == NULL || in == EL_none) return NULL;
    Elem elem = (Elem)x->elem;
    uint32_t axes = ((1u << x->rank) - 1) & ~((1u << axis) - 1);
    Node *w = g_cast(g, x, in);
    Node *mean = g_mean(g, g_ew2(g, EW_mul, w, w), axes, true);
    Node *y = g_ew2(g, EW_div, w, g_ew1(g, EW_sqrt, g_ew2f(g, EW_add, mean, op_float(op, "epsilon", 1e-5f))));
    return g_cast(g, g_ew2(g, EW_mul, g_cast(g, y, (Elem)scale->elem), scale), elem);
}

const OpRow ops_attention[] = {
    OP("Attention", 23, lower_attention),
    OP("RotaryEmbedding", 23, lower_rotary),
    OP("RMSNormalization", 23, lower_rms),
    {0},
};
