// A transformer's layer as tests of the passes take it: norms in steps, four heads of 16, a gated feed-forward.
#ifndef TK_TESTS_LAYER_H
#define TK_TESTS_LAYER_H

#include "graph/graph.h"

#define S(...) (Ix[]){__VA_ARGS__}

static float weights[1 << 16];       // large constants are different ones unless they are one place of a file

static inline Node *weight(Graph *g, const char *name, int64_t rows, int64_t columns) {
    return g_name(g, g_const_ref(g, EL_f32, 2, (int64_t[]){rows, columns}, weights, &(GOrigin){.stored = name}), name);
}

static inline Node *norm(Graph *g, Node *x) {
    Node *d = g_ew2(g, EW_sub, x, g_mean(g, x, 4, true));
    Node *v = g_mean(g, g_ew2(g, EW_mul, d, d), 4, true);
    return g_ew2(g, EW_div, d, g_ew1(g, EW_sqrt, g_ew2f(g, EW_add, v, 1e-5)));
}

static inline Node *heads(Graph *g, Node *x, Ix B, Ix T) {
    return g_transpose(g, g_reshape(g, x, 4, S(B, T, ix(g, 4), ix(g, 16))), 4, (int[]){0, 2, 1, 3});
}

// x: [B, T, 64]. turns: what the queries are multiplied by, or NULL; past: where a query sees a key, or NULL.
static inline Node *layer(Graph *g, Node *x, Ix B, Ix T, Node *turns, Node *past) {
    Node *h = norm(g, x);
    Node *q = heads(g, g_matmul(g, h, weight(g, "q", 64, 64)), B, T),
         *k = heads(g, g_matmul(g, h, weight(g, "k", 64, 64)), B, T);
    Node *v = heads(g, g_matmul(g, h, weight(g, "v", 64, 64)), B, T);
    if (turns) q = g_ew2(g, EW_mul, q, turns);
    Node *s = g_ew2f(g, EW_mul, g_matmul(g, q, g_transpose(g, k, 4, (int[]){0, 1, 3, 2})), 0.25);
    if (past) s = g_where(g, past, s, g_f(g, EL_f32, -3.4e38));
    Node *o = g_reshape(g, g_transpose(g, g_matmul(g, g_softmax(g, s, 8), v), 4, (int[]){0, 2, 1, 3}), 3, S(B, T, ix(g, 64)));
    Node *r = g_ew2(g, EW_add, x, g_matmul(g, o, weight(g, "o", 64, 64)));
    Node *n = norm(g, r);
    Node *gate = g_matmul(g, n, weight(g, "gate", 64, 256)), *up = g_matmul(g, n, weight(g, "up", 64, 256));
    Node *m = g_ew2(g, EW_mul, g_ew2(g, EW_mul, gate, g_ew1(g, EW_sigmoid, gate)), up);
    return g_ew2(g, EW_add, r, g_matmul(g, m, weight(g, "down", 256, 64)));
}

#endif
