// RNN, GRU, LSTM.
//
//     gates = X W' + H R' + b        X W' + b for all times at once, before the loop; H R' in it
//
// One direction is a chain of steps over time. A known number of steps is written out, else it is a loop. Rows of the batch
// that are shorter than the longest keep their state at the end and give zeros; the reverse direction turns each row around
// within its own length. Everything is computed in f32 (f64 of f64).
//
// DynamicQuantizeLSTM, of ONNX Runtime's quantiser: weights are bytes [directions, in, gates] with scales; they become floats once. What ONNX Runtime does besides, round input and
// state to bytes before each product, is not done: results are nearer to those of the model before it.
#include "graph/op/quant.h"
#include "lang/c_text.h"

#include <string.h>

typedef enum Cell { RNN, GRU, LSTM } Cell;
enum { QUANTISED_LSTM = LSTM + 1 };           // a row's
enum { UNROLLED = 1024, MAX_STATE = 2, FUNCTIONS = 3 };

// ---- activations ------------------------------------------------------------------------------------

typedef enum Function {
    F_SIGMOID,
    F_TANH,
    F_RELU,
    F_AFFINE,
    F_LEAKY,
    F_THRESHOLDED,
    F_SCALED_TANH,
    F_HARD_SIGMOID,
    F_ELU,
    F_SOFTSIGN,
    F_SOFTPLUS
} Function;
typedef struct Activation { const char *name; Function f; float alpha, beta; int numbers; } Activation;

static const Activation activations[] = {
    {"Sigmoid", F_SIGMOID, 0, 0, 0},
    {"Tanh", F_TANH, 0, 0, 0},
    {"Relu", F_RELU, 0, 0, 0},
    {"Affine", F_AFFINE, 1, 0, 2},
    {"LeakyRelu", F_LEAKY, 0.01f, 0, 1},
    {"ThresholdedRelu", F_THRESHOLDED, 1, 0, 1},
    {"ScaledTanh", F_SCALED_TANH, 1, 1, 2},
    {"HardSigmoid", F_HARD_SIGMOID, 0.2f, 0.5f, 2},
    {"Elu", F_ELU, 1, 0, 1},
    {"Softsign", F_SOFTSIGN, 0, 0, 0},
    {"Softplus", F_SOFTPLUS, 0, 0, 0},
};

static Node *constant(Graph *g, Node *x, double v) { return x != NULL ? g_f(g, (Elem)x->elem, v) : NULL; }

static Node *activate(Graph *g, const Activation *a, Node *x) {
    double alpha = (double)a->alpha, beta = (double)a->beta;
    Node *scaled = a->numbers > 0 ? g_ew2f(g, EW_mul, x, alpha) : NULL, *size;
    switch (a->f) {
    case F_SIGMOID:      return g_ew1(g, EW_sigmoid, x);
    case F_TANH:         return g_ew1(g, EW_tanh, x);
    case F_RELU:         return g_ew2f(g, EW_max, x, 0);
    case F_AFFINE:       return g_ew2f(g, EW_add, scaled, beta);
    case F_LEAKY:        return g_where(g, g_ew2f(g, EW_lt, x, 0), scaled, x);
    case F_THRESHOLDED:  return g_where(g, g_ew2f(g, EW_gt, x, alpha), x, constant(g, x, 0));
    case F_SCALED_TANH:  return g_ew2f(g, EW_mul, g_ew1(g, EW_tanh, g_ew2f(g, EW_mul, x, beta)), alpha);
    case F_HARD_SIGMOID: return g_ew2f(g, EW_min, g_ew2f(g, EW_max, g_ew2f(g, EW_add, scaled, beta), 0), 1);
    case F_ELU:
        return g_where(g, g_ew2f(g, EW_lt, x, 0), g_ew2f(g, EW_mul, g_ew1(g, EW_expm1, x), alpha), x);
    case F_SOFTSIGN:
        x = g_ew2f(g, EW_min, g_ew2f(g, EW_max, x, -0x1p100), 0x1p100);         // an infinity's is 1
        return g_ew2(g, EW_div, x, g_ew2f(g, EW_add, g_ew1(g, EW_abs, x), 1));
    case F_SOFTPLUS:     break;
    }
    size = g_ew1(g, EW_exp, g_ew1(g, EW_neg, g_ew1(g, EW_abs, x)));
    return g_ew2(g, EW_add, g_ew2f(g, EW_max, x, 0), g_ew1(g, EW_log1p, size));
}

// ---- one direction ----------------------------------------------------------------------------------

typedef struct Rnn {
    Op  *op;
    Cell cell;
    int  gates, states;
    Elem wide;
    Ix   S, B, H;                      // steps, batch, hidden
    double clip;                       // 0: none
    bool forget_input, reset_late;     // LSTM's input_forget, GRU's linear_before_reset
    Activation f[2][FUNCTIONS];        // by direction
    // of the direction
    const Activation *act;
    Node *r, *late;                    // R [gates * H, H]; GRU's bias of the hidden gate's recurrent part
    Node *peep[3];                     // of i, o, f: [H]
    Node *length;                      // [B, 1] i64, or NULL
} Rnn;

static Node *part(Rnn *m, Node *x, int axis, int i) {           // the i-th H of an axis
    Graph *g = m->op->g;
    return g_take_range(g, x, axis, ix_muli(g, m->H, i), 1, m->H);
}

static Node *gate(Rnn *m, int f, Node *x) {
    Graph *g = m->op->g;
    if (m->clip > 0) x = g_ew2f(g, EW_min, g_ew2f(g, EW_max, x, -m->clip), m->clip);
    return activate(g, &m->act[f], x);
}

static Node *add(Rnn *m, Node *a, Node *b) { return g_ew2(m->op->g, EW_add, a, b); }
static Node *mul(Rnn *m, Node *a, Node *b) { return g_ew2(m->op->g, EW_mul, a, b); }
static Node *less_1(Rnn *m, Node *a) { return g_ew2(m->op->g, EW_sub, constant(m->op->g, a, 1), a); }

// A state that nobody gave: the first step needs no product of it.
static bool is_zero(const Node *n) {
    GNum v;
    return n != NULL && g_scalar_value(n, &v) && (v.is_int ? v.i == 0 : v.f == 0);
}

static Node *recur(Rnn *m, Node *h, Node *r) {
    Graph *g = m->op->g;
    if (!is_zero(h) || r == NULL) return g_einsum(g, "bh,gh->bg", h, r);
    return g_full(g, m->wide, 2, (Ix[]){h->shape[0], r->shape[0]}, g_int(0));
}

static void step_rnn(Rnn *m, Node *x, Node **state) { state[0] = gate(m, 0, add(m, x, recur(m, state[0], m->r))); }

static void step_gru(Rnn *m, Node *x, Node **state) {
    Graph *g = m->op->g;
    Node *h = state[0], *zr = recur(m, h, g_take_range(g, m->r, 0, ix(g, 0), 1, ix_muli(g, m->H, 2)));
    Node *z = gate(m, 0, add(m, part(m, x, 1, 0), part(m, zr, 1, 0))),
         *r = gate(m, 0, add(m, part(m, x, 1, 1), part(m, zr, 1, 1)));
    Node *rh = part(m, m->r, 0, 2), *hidden;
    if (m->reset_late) {
        hidden = recur(m, h, rh);
        if (m->late != NULL) hidden = add(m, hidden, m->late);
        hidden = mul(m, r, hidden);
    } else {
        hidden = recur(m, mul(m, r, h), rh);
    }
    Node *n = gate(m, 1, add(m, part(m, x, 1, 2), hidden));
    state[0] = add(m, mul(m, less_1(m, z), n), mul(m, z, h));
}

static Node *peek(Rnn *m, Node *x, Node *c, int i) { return m->peep[i] != NULL ? add(m, x, mul(m, m->peep[i], c)) : x; }

static void step_lstm(Rnn *m, Node *x, Node **state) {
    Node *all = add(m, x, recur(m, state[0], m->r)), *c = state[1];
    Node *i = gate(m, 0, peek(m, part(m, all, 1, 0), c, 0));
    Node *f = m->forget_input ? less_1(m, i) : gate(m, 0, peek(m, part(m, all, 1, 2), c, 2));
    Node *in = mul(m, i, gate(m, 1, part(m, all, 1, 3)));
    state[1] = is_zero(c) ? in : add(m, mul(m, f, c), in);
    Node *o = gate(m, 0, peek(m, part(m, all, 1, 1), state[1], 1));
    state[0] = mul(m, o, activate(m->op->g, &m->act[2], state[1]));
}

// x: what the input gives to the gates at this time. t: i64 scalar. The output of the step.
static Node *step(Rnn *m, Node *x, Node *t, Node **state) {
    static void (*const steps[])(Rnn *, Node *, Node **) = {step_rnn, step_gru, step_lstm};
    Graph *g = m->op->g;
    Node *old[MAX_STATE] = {state[0], state[1]};
    steps[m->cell](m, x, state);
    if (m->length == NULL) return state[0];
    Node *runs = g_ew2(g, EW_lt, t, m->length);
    for (int i = 0; i < m->states; i++) state[i] = g_where(g, runs, state[i], old[i]);
    return g_where(g, runs, state[0], constant(g, state[0], 0));
}

// Element t of the first axis.
static Node *at_time(Graph *g, Node *x, Node *t) { return g_gather_axis(g, x, t, 0); }

static Node *unrolled(Rnn *m, Node *x, int64_t n, Node **state) {
    Graph *g = m->op->g;
    Node **out = NEW_N(g->arena, Node *, n);
    for (int64_t t = 0; t < n; t++) {
        Node *now = g_i(g, EL_i64, t);
        out[t] = g_unsqueeze(g, step(m, at_time(g, x, now), now, state), 1);
        if (out[t] == NULL) return NULL;
    }
    return g_concat(g, 0, out, (int)n);
}

static Node *looped(Rnn *m, Node *x, Node **state) {
    Graph *g = m->op->g;
    Node *param[1 + MAX_STATE], *result[2 + MAX_STATE], *now[MAX_STATE];
    if (x == NULL) return NULL;
    param[0] = g_param(g, "t", EL_i64, 0, NULL);
    for (int i = 0; i < m->states; i++) {
        if (state[i] == NULL) return NULL;
        now[i] = param[1 + i] = g_param(g, i == 0 ? "h" : "c", m->wide, 2, state[i]->shape);
    }
    // the trip is below the length of x's first axis
    Ix coord[3] = {NULL, ix_axis(g, 0, x->shape[1]), ix_axis(g, 1, x->shape[2])};
    Node *xt = g_gather(g, x, 2, x->shape + 1, coord, param, 1, true, g_int(0));
    result[0] = g_i(g, EL_bool, 1);
    result[1 + m->states] = step(m, xt, param[0], now);
    for (int i = 0; i < m->states; i++) result[1 + i] = now[i];
    GBody body = {param, 1 + m->states, result, 2 + m->states};
    Node *loop = g_loop(g, g_size(g, EL_i64, m->S), NULL, state, m->states, &body);
    for (int i = 0; i < m->states; i++) state[i] = g_proj(g, loop, i);
    return g_proj(g, loop, m->states);
}

// x [S, B, ..] with time turned around, for each row within its length.
static Node *turned(Rnn *m, Node *x) {
    Graph *g = m->op->g;
    if (m->length == NULL || x == NULL) return g_flip(g, x, 1);
    Ix shape[3] = {m->S, m->B, ix(g, 1)};
    Node *length = g_unsqueeze(g, m->length, 1), *t = g_iota(g, EL_i64, 3, shape, 0);         // [1, B, 1]
    Node *from = g_where(g, g_ew2(g, EW_lt, t, length), g_ew2f(g, EW_sub, g_ew2(g, EW_sub, length, t), 1), t);
    Ix coord[3] = {NULL, ix_axis(g, 1, m->B), ix_axis(g, 2, x->shape[2])};
    return g_gather(g, x, 3, x->shape, coord, &from, 1, true, g_int(0));
}

// ---- the operator -----------------------------------------------------------------------------------

// Row d of a value whose first axis is the direction.
static Node *of_direction(Graph *g, Node *x, int d) {
    return x != NULL ? g_squeeze(g, g_take_range(g, x, 0, ix(g, d), 1, ix(g, 1)), 1) : NULL;
}

// The first n names of the default, or those of the attribute; alpha and beta go to those that take them, in turn.
static bool functions(Rnn *m, int directions) {
    static const char *const defaults[3][FUNCTIONS] = {{"Tanh"}, {"Sigmoid", "Tanh"}, {"Sigmoid", "Tanh", "Tanh"}};
    Op *op = m->op;
    int each = (int)m->cell + 1, n = 0, nalpha = 0, nbeta = 0, used_alpha = 0, used_beta = 0;
    const char *const *names = op_texts(op, "activations", &n);
    const float *alpha = op_floats(op, "activation_alpha", &nalpha), *beta = op_floats(op, "activation_beta", &nbeta);
    if (g_failed(op->g) != NULL) return false;
    if (names != NULL && n != each * directions)
        return op_error(op, "attribute `activations` has %d names; it should have %d", n, each * directions), false;
    for (int i = 0; i < each * directions; i++) {
        const char *name = names != NULL ? names[i] : defaults[m->cell][i % each];
        const Activation *found = NULL;
        for (size_t k = 0; k < sizeof activations / sizeof *activations; k++)
            if (c_strcasecmp(activations[k].name, name) == 0) found = &activations[k];
        if (found == NULL) return op_error(op, "attribute `activations` has `%s` among its names", name), false;
        Activation *f = &m->f[i / each][i % each];
        *f = *found;
        if (f->numbers > 0 && used_alpha < nalpha) f->alpha = alpha[used_alpha++];
        if (f->numbers > 1 && used_beta < nbeta) f->beta = beta[used_beta++];
    }
    return true;
}

static bool size_is(Op *op, const Node *n, int rank, const Ix *shape, const char *what) {
    if (n == NULL) return true;
    if (n->rank != rank) return op_error(op, "its %s has %d dimensions; it should have %d", what, n->rank, rank), false;
    for (int d = 0; d < rank; d++) g_require(op->g, n->shape[d], shape[d]);
    return g_failed(op->g) == NULL;
}

// One direction: y [S, B, H] and the last states.
static Node *run_direction(Rnn *m, Node *x, Node *w, Node *bias, bool backward, Node **state) {
    Graph *g = m->op->g;
    int64_t steps;
    Node *in = g_einsum(g, "sbi,gi->sbg", x, w), *input_bias = NULL;
    if (bias != NULL) {
        Ix size = ix_muli(g, m->H, m->gates);
        input_bias = g_take_range(g, bias, 0, ix(g, 0), 1, size);
        Node *recurrent = g_take_range(g, bias, 0, size, 1, size);
        if (m->cell == GRU && m->reset_late) {                  // the hidden gate's is added inside
            m->late = part(m, recurrent, 0, 2);
            Node *zr = g_take_range(g, recurrent, 0, ix(g, 0), 1, ix_muli(g, m->H, 2));
            recurrent = g_pad(g, zr, (Ix[]){ix(g, 0)}, &m->H, GP_constant, g_int(0));
        }
        in = add(m, in, add(m, input_bias, recurrent));
    }
    if (backward) in = turned(m, in);
    bool known = op_trips(m->op, m->S, true, &steps) && steps <= UNROLLED && steps > 0;
    Node *y = known ? unrolled(m, in, steps, state) : looped(m, in, state);
    return backward ? turned(m, y) : y;
}

// The node's inputs, with the batch in the middle.
typedef struct Given { Node *x, *w, *r, *bias, *length, *peep, *initial[MAX_STATE]; bool swap, both, reverse; } Given;

static const int swapped[] = {1, 0, 2};

// Weights of bytes as floats, in LSTM's order: [directions, gates, in]. The scale, and the zero point behind it, are one for a direction or one for each column.
static Node *floats_of(Op *op, Node *w, int scale) {
    static const int turned[] = {0, 2, 1};
    Graph *g = op->g;
    Node *number[2] = {op_in(op, scale), op_opt(op, scale + 1)};
    if (w == NULL || number[0] == NULL || !op_rank(op, w, 3, "its weights")) return NULL;
    for (int i = 0; i < 2; i++) {
        Node *n = number[i];
        if (n != NULL && (n->rank < 1 || n->rank > 2)) return op_error(op, "its scales and zero points should have 1 or 2 dimensions, not %d", n->rank);
        if (n != NULL) number[i] = g_unsqueeze(g, n, n->rank == 1 ? 6u : 2u);
    }
    Node *x = g_ew2(g, EW_mul, g_cast(g, op_centred(g, w, number[1]), EL_f32), g_cast(g, number[0], EL_f32));
    return g_transpose(g, x, 3, turned);
}

static bool given(Op *op, Given *in) {
    Graph *g = op->g;
    bool lstm = op->row >= LSTM;
    *in = (Given){.x = op_in(op, 0), .w = op_in(op, 1), .r = op_in(op, 2), .bias = op_opt(op, 3), .length = op_opt(op, 4),
                  .initial = {op_opt(op, 5), lstm ? op_opt(op, 6) : NULL}, .peep = lstm ? op_opt(op, 7) : NULL,
                  .swap = op_int(op, "layout", 0) != 0};
    if (op->row == QUANTISED_LSTM) in->w = floats_of(op, in->w, 8), in->r = floats_of(op, in->r, 10);
    if (in->x == NULL || in->w == NULL || in->r == NULL) return false;
    if (in->x->rank != 3 || in->w->rank != 3 || in->r->rank != 3)
        return op_error(op, "its input, weights and recurrence should have 3 dimensions"), false;
    if (!elem_is_float((Elem)in->x->elem)) return op_error(op, "takes floats, not %s", elem_name((Elem)in->x->elem)), false;
    in->both = op_is(op, "direction", "forward", "bidirectional");
    in->reverse = op_is(op, "direction", "forward", "reverse");
    if (!in->both && !in->reverse && !op_is(op, "direction", "forward", "forward"))
        return op_error(op, "attribute `direction` must be forward, reverse or bidirectional"), false;
    if (in->swap) in->x = g_transpose(g, in->x, 3, swapped);
    for (int i = 0; i < MAX_STATE && in->swap; i++)
        if (in->initial[i] != NULL && in->initial[i]->rank == 3) in->initial[i] = g_transpose(g, in->initial[i], 3, swapped);
    return true;
}

static bool sizes_are(const Rnn *m, const Given *in, int directions) {
    Op *op = m->op;
    Graph *g = op->g;
    Ix all = ix_muli(g, m->H, m->gates), d = ix(g, directions);
    int64_t hidden = op_int(op, "hidden_size", -1);
    if (hidden >= 0) g_require(g, ix(g, hidden), m->H);
    return size_is(op, in->w, 3, (Ix[]){d, all, in->x->shape[2]}, "weight") &&
           size_is(op, in->r, 3, (Ix[]){d, all, m->H}, "recurrence") &&
           size_is(op, in->bias, 2, (Ix[]){d, ix_muli(g, all, 2)}, "bias") &&
           size_is(op, in->length, 1, &m->B, "sequence_lens") &&
           size_is(op, in->initial[0], 3, (Ix[]){d, m->B, m->H}, "initial_h") &&
           size_is(op, in->initial[1], 3, (Ix[]){d, m->B, m->H}, "initial_c") &&
           size_is(op, in->peep, 2, (Ix[]){d, ix_muli(g, m->H, 3)}, "peephole");
}

// Direction k: [S, 1, B, H], and the last state in `state`.
static Node *one_direction(Rnn *m, const Given *in, int k, Node **state) {
    Graph *g = m->op->g;
    Node *p = g_cast(g, of_direction(g, in->peep, k), m->wide);
    Ix shape[2] = {m->B, m->H};
    for (int i = 0; i < m->states; i++)
        state[i] = in->initial[i] != NULL ? g_cast(g, of_direction(g, in->initial[i], k), m->wide) : g_full(g, m->wide, 2, shape, g_int(0));
    for (int i = 0; i < 3 && p != NULL; i++) m->peep[i] = part(m, p, 0, i);
    m->act = m->f[k];
    m->late = NULL;
    m->r = g_cast(g, of_direction(g, in->r, k), m->wide);
    Node *y = run_direction(m, g_cast(g, in->x, m->wide), g_cast(g, of_direction(g, in->w, k), m->wide),
                            g_cast(g, of_direction(g, in->bias, k), m->wide), in->reverse || k == 1, state);
    return g_unsqueeze(g, y, 2);
}

static Node *lower_rnn(Op *op) {
    static const int gates[] = {1, 3, 4};
    Graph *g = op->g;
    Cell cell = op->row == QUANTISED_LSTM ? LSTM : (Cell)op->row;
    Given in;
    if (!given(op, &in)) return NULL;
    int D = in.both ? 2 : 1;
    Elem elem = (Elem)in.x->elem;
    Rnn m = {.op = op,
             .cell = cell,
             .gates = gates[cell],
             .states = cell == LSTM ? 2 : 1,
             .wide = elem == EL_f64 ? EL_f64 : EL_f32,
             .S = in.x->shape[0],
             .B = in.x->shape[1],
             .H = in.r->shape[2],
             .clip = op_float(op, "clip", 0),
             .forget_input = op_int(op, "input_forget", 0) != 0,
             .reset_late = op_int(op, "linear_before_reset", 0) != 0};
    if (!functions(&m, D) || !sizes_are(&m, &in, D)) return NULL;
    if (in.length != NULL) m.length = g_unsqueeze(g, g_cast(g, in.length, EL_i64), 2);
    Node *y[2], *last[MAX_STATE][2];
    for (int k = 0; k < D; k++) {
        Node *state[MAX_STATE] = {NULL, NULL};
        y[k] = one_direction(&m, &in, k, state);
        for (int i = 0; i < m.states; i++) last[i][k] = g_unsqueeze(g, state[i], 1);
    }
    for (int i = 0; i < m.states && op_wants(op, 1 + i); i++) {
        Node *h = g_cast(g, g_concat(g, 0, last[i], D), elem);
        op_out(op, 1 + i, in.swap && h != NULL ? g_transpose(g, h, 3, swapped) : h);
    }
    Node *out = g_cast(g, g_concat(g, 1, y, D), elem);
    return in.swap && out != NULL ? g_transpose(g, out, 4, (int[]){2, 0, 1, 3}) : out;
}

const OpRow ops_rnn[] = {
    OP_OF("RNN", 1, lower_rnn, RNN), OP_OF("GRU", 1, lower_rnn, GRU), OP_OF("LSTM", 1, lower_rnn, LSTM),
    {"DynamicQuantizeLSTM", 1, lower_rnn, QUANTISED_LSTM, NULL, "com.microsoft"},
    {0},
};
