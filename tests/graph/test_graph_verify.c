// The rules of the graph IR: each is broken once, in a node that was made by the rules.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/internal.h"
#include "graph/graph_passes.h"

#include <string.h>

#define S(...)                                                                                               \
    (Ix[]) { __VA_ARGS__ }

typedef struct Made {
    Graph *g;
    Node *x, *n;
} Made;

// x: f32[4, 8], and a node over it, which is the output.
static Made made(Node *(*of)(Graph *g, Node *x)) {
    Made m = {.g = graph_new("t")};
    m.x = g_input(m.g, "x", EL_f32, 2, S(ix(m.g, 4), ix(m.g, 8)));
    m.n = of(m.g, m.x);
    g_output(m.g, "y", m.n);
    assert_null(g_failed(m.g));
    return m;
}

static Node *made_ew(Graph *g, Node *x) { return g_ew2(g, EW_add, x, g_ew1(g, EW_exp, x)); }
static Node *made_where(Graph *g, Node *x) {
    return g_where(g, g_ew2(g, EW_lt, x, g_ew1(g, EW_exp, x)), x, g_f(g, EL_f32, 0));
}
static Node *made_view(Graph *g, Node *x) { return g_transpose(g, x, 2, (int[]){1, 0}); }
static Node *made_reduce(Graph *g, Node *x) { return g_reduce(g, GR_sum, x, 2, false); }
static Node *made_scan(Graph *g, Node *x) { return g_scan(g, GR_sum, x, 1, false, false); }
static Node *made_contract(Graph *g, Node *x) { return g_contract(g, x, x, 0, 1, 1, 1, EL_f32, EL_f32); }
static Node *made_concat(Graph *g, Node *x) { return g_concat(g, 0, (Node *[]){x, g_ew1(g, EW_exp, x)}, 2); }
static Node *made_gather(Graph *g, Node *x) {
    return g_gather_axis(g, x, g_input(g, "at", EL_i64, 1, S(ix(g, 3))), 0);
}
static Node *made_const(Graph *g, Node *x) {
    return g_ew2(g, EW_add, x, g_const(g, EL_f32, 2, (int64_t[]){4, 8}, (float[32]){1}));
}
static Node *made_index(Graph *g, Node *x) {
    return g_ew2(g, EW_add, x, g_cast(g, g_iota(g, EL_i64, 2, x->shape, 1), EL_f32));
}
static Node *made_cast(Graph *g, Node *x) { return g_cast(g, x, EL_f16); }

static void order(Made *m) { m->x->id = m->n->id + 1; }
static void size(Made *m) { m->n->shape = copy_ixs(m->g, S(ix_axis(m->g, 0, ix(m->g, 4)), ix(m->g, 8)), 2); }
static void fewer(Made *m) { m->n->nsrc = 1; }
static void other_elem(Made *m) { m->n->elem = EL_i32; }
static void no_bool(Made *m) { m->n->src[0]->elem = EL_i32; }
static void far_axis(Made *m) {
    m->n->view.coord = copy_ixs(m->g, S(ix_axis(m->g, 5, ix(m->g, 4)), ix(m->g, 0)), 2);
}
static void far_reduce(Made *m) { m->n->reduce.axes = 4; }
static void far_scan(Made *m) { m->n->scan.axis = 2; }
static void more_k(Made *m) { m->n->contract.nk = 2; }
static void other_n(Made *m) { m->n->shape = copy_ixs(m->g, S(ix(m->g, 4), ix(m->g, 5)), 2); }
static void longer(Made *m) { m->n->shape = copy_ixs(m->g, S(ix(m->g, 9), ix(m->g, 8)), 2); }
static void no_index(Made *m) { m->n->src[1]->elem = EL_f32; }
static void fewer_bytes(Made *m) { m->n->src[1]->c.bytes = 4; }
static void far_index(Made *m) { m->n->src[1]->src[0]->index.expr = ix_axis(m->g, 7, ix(m->g, 4)); }
static void turned(Made *m) { m->n->shape = copy_ixs(m->g, S(ix(m->g, 8), ix(m->g, 4)), 2); }

static const struct {
    const char *words;
    Node *(*of)(Graph *, Node *);
    void (*broken)(Made *);
} cases[] = {
    {"does not come before it", made_ew, order},
    {"dimension 0 is no size", made_ew, size},
    {"it has 1 sources; its kind has 2", made_ew, fewer},
    {"add of f32 gives i32", made_ew, other_elem},
    {"a select by i32", made_where, no_bool},
    {"coordinate 0 depends on axes that it has not", made_view, far_axis},
    {"a view changes the element type", made_view, other_elem},
    {"it reduces axes that its source has not", made_reduce, far_reduce},
    {"its axis is 2 of 2", made_scan, far_scan},
    {"operands of 2 and 2 dimensions", made_contract, more_k},
    {"axis 1 has another size than the right operand's", made_contract, other_n},
    {"its operands have 8 elements along its axis of 9", made_concat, longer},
    {"operand 0 is f32", made_concat, other_elem},
    {"indices of f32", made_gather, no_index},
    {"4 bytes for 32 elements", made_const, fewer_bytes},
    {"it depends on axes that it has not", made_index, far_index},
    {"a cast changes the shape", made_cast, turned},
};

static void rules(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Made m = made(cases[i].of);
        Buf words = {0};
        assert_int_equal(graph_verify(m.g, &words), 0);
        cases[i].broken(&m);
        if (graph_verify(m.g, &words) == 0 || !strstr(words.p, cases[i].words))
            fail_msg("%s: `%s`", cases[i].words, words.n ? words.p : "");
        buf_free(&words);
        graph_free(m.g);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(rules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
