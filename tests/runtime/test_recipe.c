// Recipes (sema/recipe.c): a graph for other sizes by the recipe of one that was run through is what running it through
// gives, or there is none. How often there is one is counted.

#include "tests/runtime/common.h"

#include "runtime/graph.h"
#include "runtime/model.h"

#include <unistd.h>

static const char source[] =
    "kernel twice(x: f32[N], y: out f32[N]) grid (n in N by 1024) { y[n] = x[n] * 2; }\n"
    "kernel plus(x: f32[M, N], a: i32, y: out f32[M, N]) grid (m in M, n in N by 64) { y[m, n] = x[m, n] + (a as f32); }\n"
    "kernel row<BLOCK = next_pow2(N) or 1024>(x: f32[M, N], y: out f32[M, N]) grid (m in M) { let n = N by BLOCK;  y[m, n] = x[m, n] - max(x[m, n] over n); }\n"
    "kernel linear<BM = 16, BN = 16>(x: f32[M, K], w: f32[K, N], y: out f32[M, N]) grid (m in M by BM, n in N by BN) {\n"
    "    var acc = zeros(m, n);\n"
    "    for k in K by 16 { acc += dot(x[m, k], w[k, n]); }\n"
    "    y[m, n] = acc;\n"
    "}\n"
    "kernel append(x: f32[B, D], c: f32[L, D], y: out f32[R, D]) where R = L + B grid (r in R by 16, d in D by 16) { y[r, d] = c[r, d] + x[r - L, d]; }\n"
    "kernel put(c: inout f32[L, D], x: f32[B, D], at: i32) grid (b in B, d in D by 16) { c[at + b, d] = x[b, d]; }\n"
    "kernel fourths(x: f32[N], y: out f32[N]) where N % 4 == 0 grid (n in N by 128) { y[n] = x[n]; }\n"
    "kernel windows<R = 4>(x: f32[N], y: out f32[P, R], stride: i32) where P = (N - R) / stride + 1 grid (p in P by 32) { let r = 0 .. R;  y[p, r] = x[p * stride + r]; }\n"
    "kernel map<F: fn>(x: f32[N], y: out f32[N]) grid (n in N by 1024) { y[n] = F(x[n]); }\n"
    "fn half_of(n) { return n / 2; }\n"
    "fn square(x) { return x * x; }\n"
    "graph step(x: f32[B, 16], c: f32[B, L, 16]) -> (y: f32[B, 16], next: f32[B * (L + 1), 16]) {\n"
    "    let w: f32[16, 16] = weight(\"w\");\n"
    "    let q = linear(x, w);\n"
    "    let flat = reshape(c, B * L, 16);\n"
    "    next = append(q, flat);\n"
    "    y = linear(q, w);\n"
    "}\n"
    "graph views(x: f32[N, M]) -> (a: f32[M], b: f32[N - 1, M], c: f32[M * N]) {\n"
    "    a = twice(x[0]);\n"
    "    b = plus(slice(x, 1, N), (N + 2 * M) as i32);\n"
    "    c = twice(reshape(slice(x, 0, N), M * N));\n"
    "}\n"
    "graph branches(x: f32[N], s: f32[M, M]) -> (y: f32[N]) {\n"
    "    var h = x;\n"
    "    if N > 8 && M < 5 { h = twice(h); }\n"
    "    if N % 2 == 0 { h = twice(h); } else { h = twice(twice(h)); }\n"
    "    for i in M / 4 { h = twice(h); }\n"
    "    for i in 0 .. half_of(3) { h = twice(h); }\n"
    "    y = N > 12 ? twice(h) : h;\n"
    "}\n"
    "graph rows(x: f32[M, N]) -> (y: f32[M, N]) { y = row(x); }\n"
    "graph four(x: f32[N]) -> (y: f32[N]) { y = fourths(x); }\n"
    "graph tiles(x: f32[M, K], w: f32[K, N]) -> (y: f32[M, N]) { let BIG = M > 16 ? 32 : 16;  y = linear<BM = BIG>(x, w); }\n"
    "graph sums(x: f32[N], a: f32[2 * N], b: f32[P]) -> (y: f32[P]) where P = N + 3 { let s = 2 * N + 1 - N;  y = twice(b);  }\n"
    "graph equal(x: f32[N], w: f32[M, K]) -> (y: f32[N]) where N == M * K { y = twice(reshape(w, M * K)); }\n"
    "graph made(x: f32[N]) -> (y: f32[N], z: f32[N + 1]) { y = twice(x);  z = twice(zeros<f32>(N + 1)); }\n"
    "graph named(x: f32[N, 16]) -> (y: f32[N, 16]) { let w: f32[16, 16] = weight(\"w.\", N / 8);  y = linear(x, w); }\n"
    "graph shaped(x: f32[N, K]) -> (y: f32[N, 16]) { let w: f32[K, 16] = weight(\"w\");  y = linear(x, w); }\n"
    "graph state(x: f32[B, D], c: inout f32[L, D], at: i32) -> (y: f32[B, D]) { put(c, x, at);  y = plus(x, (L - (at as index)) as i32); }\n"
    "graph copied(x: f32[N, D]) -> (y: f32[N, D], z: f32[N, D]) { let s = put(x, slice(x, 0, 1), 0);  y = s;  z = x; }\n"
    "graph bound(x: f32[N], stride: i32) -> (y: f32[P, 3]) where P = (N - 3) / stride + 1 { let w: f32[P, 3] = windows(x, stride);  y = plus(w, P as i32); }\n"
    "graph inner<D: int = 4>(x: f32[N, D]) -> (y: f32[N, D]) where E = N * D { y = plus(x, (E + D) as i32); }\n"
    "graph outer(x: f32[N, M], z: f32[M, N]) -> (y: f32[N, M], t: f32[M, N]) { y = inner(x);  t = inner<D = N>(z); }\n"
    "graph functions<LAYERS = 2>(x: f32[N]) -> (y: f32[N]) { let f = |v| v + LAYERS;  y = map<f>(map<square>(x)); }\n"
    "graph fixed_function(x: f32[N]) -> (y: f32[N]) { y = map<square>(x); }\n"
    "graph generic<R = N + 1 or 4>(x: f32[N]) -> (y: f32[N]) { var h = twice(x);  for i in R / 8 { h = twice(h); }  y = h; }\n"
    "graph truths(x: f32[N], z: f32[M]) -> (y: f32[N]) { let big = N > M;  var h = twice(x);  if big { h = twice(h); }  y = h; }\n";

typedef struct World { Session *s; SemaFile *file; } World;

static World world(const char *text, size_t n) {
    World w = {.s = session_new()};
    w.file = sema_file(w.s, parse_file(w.s, source_add(w.s, "recipe.tk", text, n)));
    sema_check_graphs(w.file);
    if (diag_errors(w.s)) { diag_print(w.s, stderr, DIAG_short, false); fail(); }
    return w;
}

static char *text_of(const TGraph *g) {
    Buf out = {0};
    if (!g) return NULL;
    tgraph_print(g, &out);
    for (int i = 0; i < g->nlaunches; i++)                               // what an instance was made for beside its names
        for (int d = 0; d < g->launches[i].kernel->ndims; d++)
            buf_printf(&out, "%lld ", (long long)g->launches[i].kernel->dims[d].fixed);
    buf_putc(&out, 0);
    return out.p;
}

typedef struct Sizes { int64_t dims[MAX_DIMS]; } Sizes;

static TGraph *through(World *w, const Node *item, const TKernel *head, const Sizes *z, const TValue *scalars, Arena *a) {
    SemaValue known[MAX_DIMS];
    Arena *scratch = arena_new();
    for (int i = 0; i < head->ndims; i++) known[i] = (SemaValue){.name = head->dims[i].name->s, .ival = z->dims[i]};
    int before = diag_count(w->s);
    TGraph *g = sema_graph_again((InstanceOf){w->file, item, NULL, 0, known, head->ndims}, head, scalars, scratch, a);
    diag_forget(w->s, before);
    arena_free(scratch);
    return g;
}

static uint64_t seed;
static int64_t any(int64_t n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((seed >> 33) % (uint64_t)n);
}

// Sizes that fit each other, as a launch's equations ask.
static void any_sizes(const TKernel *head, int64_t most, Sizes *z) {
    int64_t n = 0;
    for (int i = 0; i < head->ndims; i++) {
        const char *name = head->dims[i].name->s;
        z->dims[i] = any(4) ? 1 + any(most) : 16 * (1 + any(most / 16 + 1));
        if (strcmp(name, "N") == 0) n = z->dims[i];
        if (strcmp(name, "P") == 0) z->dims[i] = strcmp(head->name->s, "sums") == 0 ? n + 3 : (n - 3) / 2 + 1;
        if (strcmp(name, "K") == 0 && strcmp(head->name->s, "equal") == 0 && any(2)) z->dims[i] = n, z->dims[i - 1] = 1;
    }
}

// How many of so many sizes the recipes of some gave; each is what running the graph through gives.
static int agree(World *w, const Node *item, int64_t most, int rounds) {
    TKernel *head = sema_graph_head((InstanceOf){.file = w->file, .item = item});
    TValue   scalars[MAX_PARAMS] = {{0}};
    int      given = 0;
    assert_non_null(head);
    for (int p = 0; p < head->nparams; p++)
        scalars[p] = (TValue){.tensor = -1, .elem = head->params[p].elem, .ival = 2, .fval = 2};
    for (int base = 0; base < 6; base++) {
        Sizes  z;
        Arena *a = arena_new();
        any_sizes(head, most, &z);
        TGraph *g = through(w, item, head, &z, scalars, a);
        for (int i = 0; g && i < rounds; i++) {
            Arena *b = arena_new();
            if (i) any_sizes(head, most, &z);
            TGraph *got = sema_graph_resize(w->file, g, z.dims, b);
            char   *want = got ? text_of(through(w, item, head, &z, scalars, b)) : NULL, *have = text_of(got);
            if (got && (!want || strcmp(want, have) != 0)) {
                print_error("graph %s\nby the recipe:\n%s\nrun through:\n%s\n", head->name->s, have,
                            want ? want : "an error");
                fail();
            }
            if (i == 0 && g->recipe) assert_non_null(got);                // for its own sizes it always holds
            given += got != NULL;
            heap_free(want);
            heap_free(have);
            arena_free(b);
        }
        arena_free(a);
    }
    return given;
}

static void recipes(void **state) {
    (void)state;
    World w = world(source, strlen(source));
    static const struct { const char *graph; int least, most; } rows[] = {
        {"step", 300, 300}, {"views", 40, 200}, {"branches", 12, 60}, {"rows", 6, 60}, {"four", 40, 150}, {"tiles", 8, 100}, {"sums", 100, 250}, {"equal", 12, 120},
        {"made", 6, 60}, {"named", 30, 120}, {"shaped", 6, 60}, {"state", 6, 60}, {"copied", 50, 200}, {"bound", 60, 250}, {"outer", 6, 40}, {"functions", 0, 0},
        {"fixed_function", 80, 250}, {"generic", 0, 0}, {"truths", 40, 250},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        seed = i;
        int n = agree(&w, sema_find_graph(w.file, rows[i].graph), 40, 50);
        if (n < rows[i].least || n > rows[i].most) {
            print_error("%s: %d of 300 sizes by recipes\n", rows[i].graph, n);
            fail();
        }
    }
    session_free(w.s);
}

// Whole models, as the programs that they become.
static void models(void **state) {
    (void)state;
    static const char *const paths[] = {EXAMPLES "/models/step/model.onnx", MODELS "/gpt_step/model.onnx",
                                        MODELS "/mlp/model.onnx", MODELS "/unet/model.onnx",
                                        MODELS "/mobilenetv3/model.onnx"};
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++) {
        Buf text = {0}, err = {0};
        if (access(paths[i], R_OK) != 0) continue;
        assert_true(model_print_program(paths[i], NULL, 0, &(ModelOptions){.device = "eval"}, false, &text, &err));
        World w = world(text.p, text.n);
        seed = i;
        int n = agree(&w, sema_graph(w.file, 0), 20, 20);
        if (n < 12) { print_error("%s: %d of 120 sizes by recipes\n", paths[i], n); fail(); }
        session_free(w.s);
        buf_free(&text);
        buf_free(&err);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(recipes), cmocka_unit_test(models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
