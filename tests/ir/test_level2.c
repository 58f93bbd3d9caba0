// Level 2: pipelines and warp roles compute what level 1 does, with asynchronous copies as late as can be
// and either role first; and a pipeline with something missing is a fault that says what.
//
// Kernels are built from source and lowered through all passes of the tile IR, for cp.async (sm_80) and
// for TMA and wgmma (sm_90a); then a wait, a barrier or an arrival is taken out.

#include "ir_test.h"
#include "lang/number.h"
#include "lower/pass/passes.h"

// What attention is, with a `merge` and without: before its loop; a trip, and what follows.
#define ATTENTION_HEAD \
    "    grid (m in S by 64)\n" \
    "{\n" \
    "    let qt = q[m, :];\n" \
    "    var top = full(-inf, m);  var den = zeros<f32>(m);  var acc = zeros<f32>(m, :D);\n"
#define ATTENTION_TRIP \
    "        let s = dot(qt, k[n, :] over :D) * scale;\n" \
    "        let t = max(top, max(s over n));\n" \
    "        let p = exp2(s - t);\n" \
    "        let r = exp2(top - t);\n" \
    "        den = den * r + sum(p over n);\n" \
    "        acc = acc * r + dot(p as bf16, v[n, :] over n);\n" \
    "        top = t;\n" \
    "    }\n" \
    "    o[m, :] = acc / den;\n" \
    "}\n"

static const char source[] =
    "kernel matmul<BM = 64, BN = 64, BK = 64>(a: bf16[M, K], b: bf16[K, N], c: out f32[M, N])\n"
    "    grid (m in M by BM, n in N by BN)\n"
    "{\n"
    "    var acc = zeros<f32>(m, n);\n"
    "    for k in K by BK { acc += dot(a[m, k], b[k, n]); }\n"
    "    c[m, n] = acc;\n"
    "}\n"
    "kernel wide(a: bf16[M, K], b: bf16[K, N], c: out f32[M, N])\n"
    "    grid (m in M by 128, n in N by 128)\n"
    "{\n"
    "    var acc = zeros<f32>(m, n);\n"
    "    for k in K by 32 { acc += dot(a[m, k], b[k, n]); }\n"
    "    c[m, n] = acc;\n"
    "}\n"
    "kernel twice(a: bf16[M, K], b: bf16[K, N], c: out f32[M, N])\n"
    "    grid (m in M by 64, n in N by 64)\n"
    "{\n"
    "    var acc = zeros<f32>(m, n);\n"
    "    for k in K by 64 { acc += dot(a[m, k], b[k, n]); }\n"
    "    for k in K by 32 { acc += dot(a[m, k], b[k, n]); }\n"
    "    c[m, n] = acc;\n"
    "}\n"
    "kernel nested(a: bf16[M, K], b: bf16[K, N], c: out f32[M, N])\n"
    "    grid (m in M by 64)\n"
    "{\n"
    "    for n in N by 64 {\n"
    "        var acc = zeros<f32>(m, n);\n"
    "        for k in K by 64 { acc += dot(a[m, k], b[k, n]); }\n"
    "        c[m, n] = acc;\n"
    "    }\n"
    "}\n"
    "kernel gathered(a: bf16[M, K], b: bf16[K, N], c: out f32[M, N], at: i32[M], of: i32[K])\n"
    "    grid (m in M by 128, n in N by 64)\n"
    "{\n"
    "    var acc = zeros<f32>(m, n);\n"
    "    for k in K by 64 { acc += dot(a[at[m] - 2, k], b[of[k], n]); }\n"
    "    c[m, n] = acc;\n"
    "}\n"
    "kernel attention(q: bf16[S, D], k: bf16[L, D], v: bf16[L, D], o: out f32[S, D], scale: f32)\n"
    ATTENTION_HEAD
    "    for n in L by 64 {\n"
    ATTENTION_TRIP
    "kernel merged(q: bf16[S, D], k: bf16[L, D], v: bf16[L, D], o: out f32[S, D], scale: f32)\n"
    ATTENTION_HEAD
    "    for n in L by 64\n"
    "        merge |x, y| {\n"
    "            let t = max(x.top, y.top);\n"
    "            (t, x.den * exp2(x.top - t) + y.den * exp2(y.top - t), x.acc * exp2(x.top - t) + y.acc * exp2(y.top - t))\n"
    "        }\n"
    "    {\n"
    ATTENTION_TRIP
    "kernel conv(x: bf16[N, H, W, C], w: bf16[K, R, S, C], y: out f32[N, P, Q, K], sh: i32, sw: i32, top: i32, left: i32)\n"
    "    where P = (H + 2 * top - R) / sh + 1, Q = (W + 2 * left - S) / sw + 1\n"
    "    grid (m in N * P * Q by 64, k in K by 64)\n"
    "{\n"
    "    let b = m / (P * Q);  let p = m / Q % P;  let q = m % Q;\n"
    "    var acc = zeros<f32>(m, k);\n"
    "    for r in R, s in S, c in C by 32 { acc += dot(x[b, p * sh + r - top, q * sw + s - left, c], w[k, r, s, c]); }\n"
    "    y[b, p, q, k] = acc;\n"
    "}\n"
    "kernel odd(a: bf16[M, K], b: bf16[N, K], c: out f32[M, N])\n"
    "    grid (m in M by 128, n in N by 64)\n"
    "{\n"
    "    var acc = zeros<f32>(m, n);\n"
    "    for k in K by 64 { acc += dot(a[m, k], b[n, k]); }\n"
    "    c[m, n] = acc;\n"
    "}\n"
    "kernel turned<BM = 128, BN = 64, BK = 32>(a: i8[K, M], b: i8[K, N], c: out f32[M, N]) grid (m in M by BM, n in N by BN)\n"
    "{\n"
    "    var acc = zeros<i32>(m, n);\n"
    "    for k in K by BK { acc += dot(a[k, m], b[k, n]); }\n"
    "    c[m, n] = acc as f32;\n"
    "}\n"
    "kernel center(a: bf16[M, N], b: bf16[M, N], c: out f32[M, N], low: out f32[M])\n"
    "    grid (m in M)\n"
    "{\n"
    "    var total = 3.0;  var top = -inf;\n"
    "    for n in N by 32 { total += sum(a[m, n] as f32 over n);  top = max(top, max(b[m, n] as f32 over n)); }\n"
    "    for n in N by 32 { c[m, n] = a[m, n] - total / N + top * b[m, n]; }\n"
    "    low[m] = top;\n"
    "}\n"
    "kernel online(a: bf16[M, N], b: bf16[M, N], c: out f32[M, N], low: out f32[M])\n"
    "    grid (m in M by 16)\n"
    "{\n"
    "    var top = full(-3.4e38, m);  var den = zeros<f32>(m);\n"
    "    for n in N by 128 merge |p, q| { let t = max(p.top, q.top);  (t, p.den * exp(p.top - t) + q.den * exp(q.top - t)) }\n"
    "    {\n"
    "        let t = max(top, max(a[m, n] as f32 over n));\n"
    "        den = den * exp(top - t) + sum(exp(a[m, n] - t) over n);\n"
    "        top = t;\n"
    "    }\n"
    "    for n in N by 128 { c[m, n] = exp(a[m, n] - top) / den + b[m, n]; }\n"
    "    low[m] = top;\n"
    "}\n"
    "kernel rows(a: bf16[M, N], b: bf16[M, N], c: out f32[M, N], low: out f32[M])\n"
    "    grid (m in M by 16)\n"
    "{\n"
    "    var total = full(3.0, m);  var top = full(-inf, m);\n"
    "    for n in N by 128 { total += sum(a[m, n] as f32 over n);  top = max(top, max(b[m, n] as f32 over n)); }\n"
    "    for n in N by 128 { c[m, n] = a[m, n] - total / N + top * b[m, n]; }\n"
    "    low[m] = top;\n"
    "}\n";

enum { M = 100, K = 200, N = 136, ODD = 135, S = 100, L = 200, D = 64 };       // ODD: columns that 16 bytes do not divide
typedef struct World { Session *s; SemaFile *file; } World;

static World world(void) {
    World w = {.s = session_new()};
    w.file = sema_file(w.s, parse_file(w.s, source_add(w.s, "level2.tk", source, strlen(source))));
    if (diag_errors(w.s)) { diag_print(w.s, stderr, DIAG_short, false); fail(); }
    return w;
}

static bool is_rows(const char *name) {
    return strcmp(name, "center") == 0 || strcmp(name, "rows") == 0 || strcmp(name, "online") == 0;
}

static bool is_product(const char *name) {
    return strcmp(name, "matmul") == 0 || strcmp(name, "wide") == 0 || strcmp(name, "nested") == 0 || strcmp(name, "twice") == 0 || strcmp(name, "gathered") == 0 || strcmp(name, "turned") == 0;
}

static int parts;                                                    // that a tile's loop is split in
static int slices;                                                   // of a block's consumers
static int pingpong;                                                 // tiles that a block makes at a time
static int cluster;                                                  // blocks of one; 0: none
// blocks among which trips are dealt evenly; 0: tiles are whole
static int dealt;
static int walk;                                                     // 2: blocks walk from row to row
static unsigned fixed;                                               // parameters, by bit, that nothing writes meanwhile

static Fn *build(World *w, const char *name, const char *arch) {       // arch NULL: level 1
    static const SemaValue heads[] = {{.name = "D", .ival = 64, .elem = EL_none}},
                           columns[] = {{.name = "N", .ival = ODD, .elem = EL_none}};
    bool odd = strcmp(name, "odd") == 0;
    TKernel *k = sema_instance((InstanceOf){.file = w->file,
                                             .item = sema_find_kernel(w->file, name),
                                             .known = odd ? columns : heads,
                                             .nknown = odd || strcmp(name, "attention") == 0 || strcmp(name, "merged") == 0});
    if (!k) { diag_print(w->s, stderr, DIAG_short, false); fail(); }
    Fn *f = ir_build(w->s, k);
    if (!arch) return f;
    for (int i = 0; i < f->launch->nparams; i++) f->launch->params[i].fixed = fixed >> i & 1;
    f->early = fixed != 0;
    CompileOptions opt = {.target = target_find(arch),
                          .verify = true,
                          .schedule = {.stages = slices > 1 ? 4 : 2,
                                       .split_k = parts,
                                       .sliced_k = slices,
                                       .pingpong = pingpong,
                                       .cluster = cluster,
                                       .persistent = walk,
                                       .stream_k = dealt ? 2 : 0,
                                       .blocks = dealt}};
    if (!lower_run(f, &opt)) { diag_print(w->s, stderr, DIAG_short, false); fail(); }
    return f;
}

static bool has_op(const Fn *f, OpCode code) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (op->code == code) return true;
    return false;
}

enum { CN = 3, CH = 9, CW = 7, CC = 40, CK = 72, CR = 3, CS = 2, SH = 2, SW = 1, TOP = 1, LEFT = 1, CP = (CH + 2 * TOP - CR) / SH + 1, CQ = CW + 2 * LEFT - CS + 1 };
_Static_assert(CN * CH * CW * CC <= M * K && CK * CR * CS * CC <= K * N && CN * CP * CQ * CK <= M * N,
               "the convolution is no larger than the product");
static uint16_t x[M * K], y[K * N];
static float    want[M * N], got[M * N];
static double   bound[M * N];
static float    lows[M];
static int32_t  rows_at[M], rows_of[K];                              // some of the former are out of range

static void fill(void) {
    for (int i = 0; i < M * K; i++) x[i] = bf16_from_f32((float)(i * 37 % 101 - 50) / 64);
    for (int i = 0; i < K * N; i++) y[i] = bf16_from_f32((float)(i * 53 % 97 - 48) / 64);
    for (int i = 0; i < M; i++) rows_at[i] = i * 29 % (M + 5);
    for (int i = 0; i < K; i++) rows_of[i] = i * 31 % K;
}

static EvalArg nhwc(void *p, int64_t n, int64_t h, int64_t w, int64_t c) {
    return (EvalArg){.tensor = {p, {n, h, w, c}, {h * w * c, w * c, c, 1}, 0}};
}

static int arguments(const char *name, EvalArg *args, int64_t *dims, float *out) {
    if (strcmp(name, "conv") == 0) {
        static const int64_t numbers[] = {SH, SW, TOP, LEFT};
        args[0] = nhwc(x, CN, CH, CW, CC);
        args[1] = nhwc(y, CK, CR, CS, CC);
        args[2] = nhwc(out, CN, CP, CQ, CK);
        for (int i = 0; i < 4; i++) args[3 + i] = (EvalArg){.ival = numbers[i]};
        return 2;
    }
    if (is_rows(name)) {
        args[0] = mat_arg(x, M, N);
        args[1] = mat_arg(y, M, N);
        args[2] = mat_arg(out, M, N);
        args[3] = (EvalArg){.tensor = {lows, {M}, {1}, 0}};
        dims[0] = M; dims[1] = N;
        return 2;
    }
    if (strcmp(name, "odd") == 0) {
        args[0] = mat_arg(x, M, K);
        args[1] = mat_arg(y, ODD, K);
        args[2] = mat_arg(out, M, ODD);
        return 2;
    }
    if (is_product(name)) {
        bool turned = strcmp(name, "turned") == 0;
        args[0] = mat_arg(x, turned ? K : M, turned ? M : K);
        args[1] = mat_arg(y, K, N);
        args[2] = mat_arg(out, M, N);
        args[3] = (EvalArg){.tensor = {rows_at, {M}, {1}, 0}};
        args[4] = (EvalArg){.tensor = {rows_of, {K}, {1}, 0}};
        dims[0] = M; dims[1] = K; dims[2] = N;
        return 2;
    }
    args[0] = mat_arg(x, S, D);
    args[1] = mat_arg(y, L, D);
    args[2] = mat_arg(y + 64, L, D);
    args[3] = mat_arg(out, S, D);
    args[4] = float_arg(0.25);
    return 3;
}

static void order_dims(const Fn *f, const char *name, int64_t *dims) {
    static const struct {
        const char *name;
        int64_t size;
    } sizes[] = {{"M", M}, {"K", K}, {"N", N}, {"S", S}, {"L", L}, {"D", D}};
    static const struct {
        const char *name;
        int64_t size;
    } pictures[] = {{"N", CN}, {"H", CH}, {"W", CW}, {"C", CC}, {"K", CK}, {"R", CR}, {"S", CS}, {"P", CP}, {"Q", CQ}};
    for (int i = 0; i < f->launch->ndims; i++) {
        const char *dim = f->launch->dims[i].name->s;
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            if (strcmp(dim, sizes[k].name) == 0) dims[i] = sizes[k].size;
        for (size_t k = 0; k < sizeof pictures / sizeof *pictures && strcmp(name, "conv") == 0; k++)
            if (strcmp(dim, pictures[k].name) == 0) dims[i] = pictures[k].size;
    }
}

static bool evaluate(Fn *f, const char *name, float *out, double *bounds, uint32_t junk, char **fault) {
    EvalArg args[8] = {0};
    int64_t dims[16] = {0};
    Span at;
    int o = arguments(name, args, dims, out);
    order_dims(f, name, dims);
    EvalOptions opt = {.junk = junk, .bound = {[2] = o == 2 ? bounds : NULL, [3] = o == 3 ? bounds : NULL}};
    return ir_eval(f, args, dims, &opt, fault, &at);
}

// A product that was broken: evaluation says so.
static void faults(Fn *f, const char *words) {
    char *fault = NULL;
    assert_false(evaluate(f, "matmul", got, NULL, 1, &fault));
    assert_non_null(strstr(fault, words));
    heap_free(fault);
}

static void agrees(const char *name, const char *arch, OpCode must_have) {
    World w = world();
    char *fault = NULL;
    int n = is_product(name) || is_rows(name) ? M * N
            : strcmp(name, "odd") == 0        ? M * ODD
            : strcmp(name, "conv") == 0       ? CN * CP * CQ * CK
                                              : S * D;
    if (!evaluate(build(&w, name, NULL), name, want, bound, 1, &fault)) fail_msg("level 1: %s", fault);
    Fn *f = build(&w, name, arch);
    if (!has_op(f, must_have)) fail_msg("%s for %s has no %s", name, arch, op_info[must_have].name);
    Buf text = {0};
    ir_print(f, &text);
    Fn *again = ir_parse(w.s, source_add(w.s, "level2.tir", text.p, text.n), NULL);       // the law, at level 2
    assert_non_null(again);
    Buf twice = {0};
    ir_print(again, &twice);
    assert_string_equal(text.p, twice.p);
    for (uint32_t junk = 1; junk < 5; junk++) {
        memset(got, 0xff, sizeof got);
        if (f->walks) f->walks = (int)junk;                          // fewer blocks than programs, and as many
        if (!evaluate(f, name, got, NULL, junk, &fault)) fail_msg("%s for %s: %s\n%s", name, arch, fault, text.p);
        for (int i = 0; i < n; i++)
            if (!(fabs((double)got[i] - (double)want[i]) <= bound[i] + 1e-6))
                fail_msg("%s for %s: element %d is %g, not %g", name, arch, i, (double)got[i], (double)want[i]);
    }
    buf_free(&text);
    buf_free(&twice);
    session_free(w.s);
}

static void test_pipelines_agree(void **state) {
    (void)state;
    fill();
    agrees("matmul", "sm_80", OP_T_copy_async);
    agrees("attention", "sm_80", OP_T_copy_async);
    agrees("conv", "sm_80", OP_T_copy_async);
}

static void test_roles_agree(void **state) {
    (void)state;
    fill();
    agrees("matmul", "sm_90a", OP_T_wgmma);
    agrees("matmul", "sm_90a", OP_T_tma_store);
    agrees("odd", "sm_90a", OP_T_row_store);
    agrees("attention", "sm_90a", OP_T_wgmma);
    agrees("nested", "sm_90a", OP_T_wgmma);
    agrees("twice", "sm_90a", OP_T_wgmma);                           // loops one after the other
    agrees("twice", "sm_90a", OP_T_tma_store);
    agrees("gathered", "sm_90a", OP_T_copy_arrive);
    agrees("gathered", "sm_90a", OP_T_wgmma);
    agrees("conv", "sm_90a", OP_T_wgmma);
    agrees("conv", "sm_90a", OP_T_tma_store);
    agrees("turned", "sm_90a", OP_T_buffer_turn);
    agrees("turned", "sm_90a", OP_T_tma_store);
}

// Weights are brought by a producer of their own, which does not wait for earlier launches.
static void test_fixed_inputs_agree(void **state) {
    (void)state;
    fill();
    for (fixed = 1; fixed <= 2; fixed++) {
        agrees("matmul", "sm_90a", OP_T_wait_launches);
        agrees("conv", "sm_90a", OP_T_wait_launches);
        agrees("twice", "sm_90a", OP_T_wait_launches);
    }
    for (parts = 3, fixed = 2; parts; parts = 0) agrees("matmul", "sm_90a", OP_T_wait_launches);
    World w = world();
    for (fixed = 0; fixed < 8; fixed += 3) {                         // all inputs or none: one producer
        Fn *f = build(&w, "matmul", "sm_90a");
        for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
            if (op->code == OP_T_roles) assert_int_equal(op->nreg, fixed == 0 || fixed == 3 ? 2 : 3);
    }
    session_free(w.s);
    fixed = 0;
}

static void test_clusters_agree(void **state) {
    (void)state;
    fill();
    cluster = 2;
    agrees("matmul", "sm_90a", OP_T_tma_store);
    World w = world();
    Fn *f = build(&w, "matmul", "sm_90a"), *again;
    Buf text = {0}, problems = {0};
    assert_int_equal(f->cluster, 2);
    assert_int_equal(f->launch->cluster, 2);
    ir_print(f, &text);
    again = ir_parse(w.s, source_add(w.s, "cluster.tir", text.p, text.n), NULL);
    assert_int_equal(again->cluster, 2);
    if (ir_verify(again, &problems)) fail_msg("%s", problems.p);
    again->cluster = 4;                                              // copies and arrivals are for two
    assert_true(ir_verify(again, &problems) > 0);
    buf_free(&text);
    buf_free(&problems);
    session_free(w.s);
    cluster = 0;
}

static void test_shares_agree(void **state) {
    (void)state;
    fill();
    for (cluster = 2; cluster <= 8; cluster *= 2) agrees("center", "sm_90a", OP_T_join_cluster);
    cluster = 2;
    World w = world();
    Fn *f = build(&w, "center", "sm_90a");
    assert_int_equal(f->launch->cluster, 2);
    cluster = 3;
    f = build(&w, "center", "sm_90a");                               // a power of two
    assert_false(has_op(f, OP_T_join_cluster));
    assert_non_null(f->cluster_refused);
    cluster = 2;
    f = build(&w, "center", "sm_80");
    assert_false(has_op(f, OP_T_join_cluster));
    session_free(w.s);
    cluster = 0;
}

// Blocks walk from row to row, in clusters and by themselves: whoever is done draws the next row.
static void test_walks_agree(void **state) {
    (void)state;
    fill();
    walk = 2;
    for (cluster = 1; cluster <= 4; cluster *= 2) agrees("rows", "sm_90a", OP_T_drawn);
    for (cluster = 2; cluster <= 4; cluster *= 2) agrees("online", "sm_90a", OP_T_from_cluster);
    cluster = 0;
    agrees("rows", "sm_80", OP_T_drawn);
    walk = 1;
    World w = world();
    assert_false(has_op(build(&w, "rows", "sm_90a"), OP_T_drawn));
    session_free(w.s);
    walk = 0;
}

static void test_parts_agree(void **state) {
    (void)state;
    fill();
    for (parts = 2; parts < 8; parts += 3) {
        agrees("matmul", "sm_80", OP_T_part_get);
        agrees("matmul", "sm_90a", OP_T_part_get);
        agrees("conv", "sm_90a", OP_T_part_get);
        agrees("wide", "sm_80", OP_T_part_join);                     // large tiles: the last part waits for the others
        agrees("wide", "sm_90a", OP_T_part_join);
    }
    parts = 3;
    World w = world();
    Fn *f = build(&w, "attention", "sm_90a");                        // its maximum is part of what it sums up
    assert_false(has_op(f, OP_T_part_put));
    assert_non_null(f->split_refused);
    f = build(&w, "matmul", "sm_90a");
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (op->code == OP_T_part_put) op->in[1] = op->in[0];        // the tile's number for the part's
    faults(f, "part_put");
    session_free(w.s);
    parts = 0;
}

// Each group of a block makes every second tile of it: of none, one, two and more, of pixels too; more trips than stages.
// Blocks of a cluster that each join a slice of the tile; a slice of another length, and parts that are not the cluster's blocks.
static void test_slices_of_tiles_agree(void **state) {
    (void)state;
    fill();
    for (parts = cluster = 2; parts <= 8; parts = cluster = parts * 2) agrees("matmul", "sm_90a", OP_T_part_get);
    parts = cluster = 2;
    World w = world();
    Fn *f = build(&w, "matmul", "sm_90a");
    const Op *put = put_scattered(f);
    assert_non_null(put);
    Buf problems = {0};
    assert_int_equal(ir_verify(f, &problems), 0);
    f->cluster = 4;
    assert_int_equal(ir_verify(f, &problems), 1);
    assert_non_null(strstr(problems.p, "the cluster has 4 blocks"));
    f->cluster = 2;
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (op->code == OP_T_part_get) op->out[0]->type = put->in[2]->type;
    assert_true(ir_verify(f, &problems) > 0);
    assert_non_null(strstr(problems.p, "the result is no slice of the value kept"));
    buf_free(&problems);
    session_free(w.s);
    parts = cluster = 0;
}

static void test_pingpong_agrees(void **state) {
    (void)state;
    fill();
    pingpong = 2;
    agrees("matmul", "sm_90a", OP_T_turn_wait);
    agrees("conv", "sm_90a", OP_T_turn_wait);
    cluster = 2;
    agrees("matmul", "sm_90a", OP_T_turn_wait);
    cluster = 0;
    World w = world();
    Fn *f = build(&w, "attention", "sm_90a");                        // two products
    assert_false(has_op(f, OP_T_slice));
    assert_non_null(f->pingpong_refused);
    parts = 2;
    f = build(&w, "matmul", "sm_90a");                               // a tile is stored by the last of its parts
    assert_true(has_op(f, OP_T_slice) == (f->pingpong_refused == NULL));
    pingpong = parts = 0;
    session_free(w.s);
}

// Trips dealt to blocks: fewer than tiles, as many, more than trips; each with other numbers of blocks at work, forward
// and back. A part that is for another block, and one that nobody sends.
static void test_dealt_agrees(void **state) {
    (void)state;
    fill();
    for (dealt = 1; dealt < 40; dealt = dealt * 2 + 1) {
        agrees("matmul", "sm_90a", OP_T_part_join);
        agrees("conv", "sm_90a", OP_T_part_join);
    }
    dealt = 4;                                                       // six tiles are all dealt
    World w = world();
    Fn *f = build(&w, "attention", "sm_90a");
    assert_false(has_op(f, OP_T_part_join));
    assert_non_null(f->streamk_refused);
    f = build(&w, "matmul", "sm_90a");
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (op->code == OP_T_part_send) op->in[1] = op->in[0];       // the sender's number for the joining one's
    faults(f, "part_join");
    f = build(&w, "matmul", "sm_90a");
    Op *sending = NULL;
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) if (op->code == OP_T_part_send) sending = op;
    op_remove(sending);
    faults(f, "deadlock");
    session_free(w.s);
    dealt = 0;
}

// Four trips in 2, 3 (two each: the last has none) and 8 parts, read one to seven at once.
static void test_merges_agree(void **state) {
    (void)state;
    fill();
    for (parts = 2; parts <= 8; parts += parts == 2 ? 1 : 5) {
        agrees("merged", "sm_80", OP_T_part_take);
        agrees("merged", "sm_90a", OP_T_part_take);
    }
    parts = 0;
    World w = world();
    Fn *f = build(&w, "merged", "sm_90a");                           // whole: nothing is left of the merge
    assert_false(has_op(f, OP_T_merge));
    f = build(&w, "merged", NULL);
    assert_true(has_op(f, OP_T_merge));
    merge_apart(f);
    assert_false(has_op(f, OP_T_merge));
    int loops = 0;
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) loops += op->code == OP_T_for;
    assert_int_equal(loops, 3);
    session_free(w.s);
}

// Two groups of consumers, each with every second trip and values of its own; one of them with fewer, or none.
static void test_slices_agree(void **state) {
    (void)state;
    fill();
    slices = 2;
    agrees("merged", "sm_90a", OP_T_slice);
    agrees("matmul", "sm_90a", OP_T_slice);
    agrees("conv", "sm_90a", OP_T_slice);
    World w = world();
    Fn *f = build(&w, "attention", "sm_90a");                        // has no merge
    assert_false(has_op(f, OP_T_slice));
    assert_non_null(f->slices_refused);
    parts = 2;
    f = build(&w, "merged", "sm_90a");                               // one or the other
    assert_false(has_op(f, OP_T_slice));
    assert_non_null(f->slices_refused);
    parts = slices = 0;
    session_free(w.s);
}

// Takes out the nth op of a kind, then some run must trap with these words.
static void without_of(const char *name, const char *arch, OpCode code, int nth, const char *words) {
    World w = world();
    Fn *f = build(&w, name, arch);
    char *fault = NULL;
    if (f->walks) f->walks = 1;
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) {
        if (op->code != code || nth-- > 0) continue;
        for (int i = 0; i < op->nout; i++) replace_uses(&f->body, op->out[i], op->in[i]);
        op_remove(op);
        break;
    }
    bool ok = evaluate(f, name, got, NULL, 1, &fault) && evaluate(f, name, got, NULL, 2, &fault);
    if (ok) fail_msg("%s without %s: nothing noticed", arch, op_info[code].name);
    if (!strstr(fault, words)) fail_msg("%s without %s: %s", arch, op_info[code].name, fault);
    heap_free(fault);
    session_free(w.s);
}

static void without(const char *arch, OpCode code, int nth, const char *words) { without_of("matmul", arch, code, nth, words); }

static void test_what_is_missing_is_told(void **state) {
    (void)state;
    fill();
    without("sm_80", OP_T_copy_wait, 0, "not waited for");
    without("sm_80", OP_T_barrier, 0, "no barrier");
    without("sm_80", OP_T_copy_commit, 0, "not waited for");
    without("sm_80", OP_T_copy_async, 0, "nothing was put there");
    without("sm_90a", OP_T_tma_load, 0, "expects");
    without("sm_90a", OP_T_mbar_expect, 0, "deadlock");
    without("sm_90a", OP_T_mbar_arrive, 0, "deadlock");
    without("sm_90a", OP_T_mbar_wait, 0, "of stage");             // the producer's, on empty stages
    without("sm_90a", OP_T_mbar_wait, 1, "of stage");             // the consumers', on full ones
    without("sm_90a", OP_T_wgmma_wait, 1, "still writing");       // the one after the loop
    without_of("gathered", "sm_90a", OP_T_copy_arrive, 0, "deadlock");
    without_of("gathered", "sm_90a", OP_T_copy_async, 0, "nothing was put there");
    without_of("gathered", "sm_90a", OP_T_mbar_wait, 0, "deadlock");      // the producer fills stages twice, and nobody looks
    without_of("nested", "sm_90a", OP_T_mbar_arrive, 0, "deadlock");
    pingpong = 2;
    without("sm_90a", OP_T_turn_wait, 0, "deadlock");
    without("sm_90a", OP_T_turn_pass, 0, "deadlock");
    pingpong = 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pipelines_agree),    cmocka_unit_test(test_roles_agree),
        cmocka_unit_test(test_fixed_inputs_agree), cmocka_unit_test(test_clusters_agree),
        cmocka_unit_test(test_shares_agree),       cmocka_unit_test(test_walks_agree),
        cmocka_unit_test(test_parts_agree),        cmocka_unit_test(test_dealt_agrees),
        cmocka_unit_test(test_slices_agree),       cmocka_unit_test(test_slices_of_tiles_agree), cmocka_unit_test(test_pingpong_agrees),
        cmocka_unit_test(test_merges_agree),       cmocka_unit_test(test_what_is_missing_is_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
