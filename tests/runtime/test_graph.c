// Graphs at run time: the arena, the order of launches, plans and what they share, weights and what is said of
// them, runs on eval, emu and a GPU of our own making.

#include "tests/runtime/common.h"
#include "tests/runtime/fake.h"

#include "runtime/cache.h"
#include "runtime/graph.h"
#include "runtime/weights.h"

#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static const char source[] =
    "kernel linear<BM = 16, BN = 16, RELU: bool = false>(x: f32[M, K], w: f32[K, N], y: out f32[M, N]) grid (m in M by BM, n in N by BN) {\n"
    "    var acc = zeros(m, n);\n"
    "    for k in K by 16 { acc += dot(x[m, k], w[k, n]); }\n"
    "    if RELU { y[m, n] = relu(acc); } else { y[m, n] = acc; }\n"
    "}\n"
    "kernel add(a: f32[N], b: f32[N], y: out f32[N]) grid (n in N by 1024) { y[n] = a[n] + b[n]; }\n"
    "kernel twice(x: f32[N], y: out f32[N]) grid (n in N by 1024) { y[n] = x[n] * 2; }\n"
    "kernel bump(s: inout f32[N], x: f32[N]) grid (n in N by 1024) { s[n] += x[n]; }\n"
    "kernel turn(x: f32[M, N], y: out f32[N, M]) grid (m in M by 16, n in N by 16) { y[n, m] = x[m, n]; }\n"
    "graph wide(x: f32[N]) -> (y: f32[N]) {\n"
    "    let a = twice(x);\n"
    "    let b = twice(x);\n"
    "    y = add(twice(a), twice(b));\n"
    "}\n"
    "graph count(x: f32[N], s: inout f32[N]) -> (y: f32[N]) {\n"
    "    bump(s, x);\n"
    "    y = twice(s);\n"
    "    bump(s, y);\n"
    "}\n"
    "graph model(x: f32[B, 8]) -> (y: f32[B, 4]) {\n"
    "    weights \"w\";\n"
    "    let w: f32[4, 8] = weight(\"fc\");\n"
    "    y = linear(x, turn(w));\n"
    "}\n"
    "graph named(x: f32[B, 8]) -> (y: f32[B, 4]) { weights \"w\";  let w: f32[8, 4] = weight(\"cf\");  y = linear(x, w); }\n"
    "graph shaped(x: f32[B, 8]) -> (y: f32[B, 4]) { weights \"w\";  let w: f32[8, 4] = weight(\"fc\");  y = linear(x, w); }\n"
    "graph fileless(x: f32[B, 8]) -> (y: f32[B, 4]) { let w: f32[8, 4] = weight(\"fc\");  y = linear(x, w); }\n"
    "kernel total(x: f32[M, N], y: out f32[N]) grid (n in N by 16) { var s = zeros(n);  for m in M by 16 { s += sum(x[m, n] over m); }  y[n] = s; }\n"
    "graph parts(x: f32[M, N]) -> (y: f32[N]) {\n"
    "    let a = total(x) with (split_k = 4);\n"
    "    let b = total(x) with (split_k = 2);\n"
    "    y = add(add(a, b), total(x) with (split_k = 3));\n"
    "}\n"
    "fn square(x) { return x * x; }\n"
    "kernel map<F: fn>(x: f32[N], y: out f32[N]) grid (n in N by 1024) { y[n] = F(x[n]); }\n"
    "graph lambdas(x: f32[N]) -> (y: f32[N]) { var h = map<square>(x);  for i in 1 .. 3 { let f = |v| v + i;  h = map<f>(h); }  y = h; }\n"
    "graph deep(x: f32[B, 16]) -> (y: f32[B, 16]) {\n"
    "    var h = x;\n"
    "    for i in 24 { let w: f32[16, 16] = weight(\"layer.\", i);  h = linear(h, turn(turn(turn(w)))); }\n"
    "    y = h;\n"
    "}\n"
    "kernel halves(w: f32[M, N], a: out f32[M, N], b: out f32[M, N]) grid (m in M by 16, n in N by 16) { a[m, n] = w[m, n] / 2;  b[m, n] = w[m, n] + 1; }\n"
    "graph twins(x: f32[B, 16]) -> (y: f32[B, 16]) {\n"
    "    var h = x;\n"
    "    for i in 12 { let w: f32[16, 16] = weight(\"layer.\", i);  let a, b = halves(w);  h = linear(linear(h, turn(b)), a); }\n"
    "    y = h;\n"
    "}\n"
    "kernel number(y: out f32[], n: i32) { y[] = n as f32; }\n"
    "kernel ramp(y: out f32[N], from: i32) grid (n in N by 64) { y[n] = (n as f32) + (from as f32); }\n"
    "kernel whole(x: f32[N], y: out f32[]) { var s = 0.0;  for n in N by 64 { s += sum(x[n] over n); }  y[] = s; }\n"
    "kernel ratio(a: f32[], b: f32[], y: out f32[]) { y[] = a[] / b[]; }\n"
    "graph mean(x: f32[N]) -> (y: f32[]) { y = ratio(whole(x), number(N as i32)); }\n"
    "graph ramps(x: f32[N]) -> (y: f32[N]) { let r: f32[N] = ramp(0);  y = add(x, r); }\n"
    "graph ramp_alone(x: f32[N]) -> (y: f32[N]) { y = ramp(3); }\n"
    "graph shifted(x: f32[N]) -> (y: f32[N]) { let r: f32[N] = ramp(N as i32);  y = add(x, twice(r)); }\n"
    "graph untyped(x: f32[B, 4]) -> (y: f32[B, 8]) { weights \"w\";  y = linear(x, weight(\"fc\")); }\n";

typedef struct World { Session *s; SemaFile *file; Device *dev; Runtime *rt; char folder[64], was[512]; } World;

static void write_tensor(const char *path, int rank, const int64_t *dim, double first) {
    HostTensor t;
    Buf err = {0};
    assert_true(tensor_make(&t, EL_f32, rank, dim, &err));
    for (int64_t i = 0; i < tensor_count(&t); i++) elem_set(EL_f32, t.data, i, first + (double)i);
    assert_true(npy_write(path, &t, &err));
    tensor_free(&t);
}

// In a folder of its own, with w/fc.npy there.
static World world(const char *device, const DeviceOptions *where, const RuntimeOptions *opt) {
    World w = {.s = session_new()};
    Buf err = {0};
    assert_non_null(getcwd(w.was, sizeof w.was));
    snprintf(w.folder, sizeof w.folder, "/tmp/tk-graph-XXXXXX");
    assert_non_null(mkdtemp(w.folder));
    assert_int_equal(chdir(w.folder), 0);
    assert_int_equal(mkdir("w", 0700), 0);
    write_tensor("w/fc.npy", 2, (int64_t[]){4, 8}, 0);
    Source *src = source_add(w.s, "test.tk", source, strlen(source));
    w.file = sema_file(w.s, parse_file(w.s, src));
    sema_check(w.file);
    if (diag_count(w.s)) { diag_print(w.s, stderr, DIAG_short, false); fail(); }
    w.dev = device_open(device, where, &err);
    assert_non_null(w.dev);
    w.rt = runtime_new(w.s, w.dev, opt);
    return w;
}

static void end(World *w) {
    runtime_free(w->rt);
    device_close(w->dev);
    session_free(w->s);
    assert_int_equal(unlink("w/fc.npy") | rmdir("w"), 0);
    assert_int_equal(chdir(w->was) | rmdir(w->folder), 0);
}

static HostTensor tensor(int rank, const int64_t *dim, double first) {
    HostTensor t;
    Buf err = {0};
    assert_true(tensor_make(&t, EL_f32, rank, dim, &err));
    for (int64_t i = 0; i < tensor_count(&t); i++) elem_set(EL_f32, t.data, i, first + (double)i);
    return t;
}

static double at(const HostTensor *t, int64_t i) { return elem_get(EL_f32, t->data, i); }

static GraphExec *opened(World *w, const char *graph) {
    GraphExec *x = graph_open(w->rt, (InstanceOf){.file = w->file, .item = sema_find_graph(w->file, graph)});
    assert_non_null(x);
    return x;
}

// Runs on x; what the graph says instead, if it says something.
static HostTensor run(World *w, GraphExec *x, HostTensor *in, HostTensor *state, const char *words) {
    Buf err = {0};
    HostTensor y = {0};
    KernelArg args[3] = {{.tensor = in}, {.tensor = state ? state : &y}, {.tensor = &y}};
    bool ok = graph_run(x, args, state ? 3 : 2, NULL, &err);
    if (!words && !ok) { diag_print(w->s, stderr, DIAG_short, false); print_error("%s\n", err.p ? err.p : ""); fail(); }
    if (words) {
        Buf text = {0};
        assert_false(ok);
        char *shown = NULL;
        size_t n = 0;
        FILE *f = open_memstream(&shown, &n);
        diag_print(w->s, f, DIAG_rich, false);
        fclose(f);
        buf_printf(&text, "%s%s", shown, err.p ? err.p : "");
        if (!strstr(text.p, words)) { print_error("got:  %s\nwant: %s\n", text.p, words); fail(); }
        free(shown);
        buf_free(&text);
        diag_forget(w->s, 0);
        tensor_free(&y);                                               // made before it was known
    }
    buf_free(&err);
    return y;
}

// ---- the arena -----------------------------------------------------------------------------------

static void check_arena(ArenaItem *item, int n, double most) {
    uint64_t peak = arena_plan(item, n), live = arena_live_peak(item, n);
    for (int i = 0; i < n; i++) {
        assert_true(item[i].offset % ARENA_ALIGN == 0 && (item[i].bytes == 0 || item[i].offset + item[i].bytes <= peak));
        for (int j = 0; j < i; j++) {
            bool both = item[i].first <= item[j].last && item[j].first <= item[i].last;
            bool meet = item[i].bytes && item[j].bytes && item[i].offset < item[j].offset + item[j].bytes &&
                        item[j].offset < item[i].offset + item[i].bytes;
            assert_false(both && meet);
        }
    }
    if ((double)peak > most * (double)live) {
        print_error("%llu bytes, %llu live\n", (unsigned long long)peak, (unsigned long long)live);
        fail();
    }
}

static void arena(void **state) {
    (void)state;
    ArenaItem chain[] = {{512, 0, 1, 0}, {512, 1, 2, 0}, {512, 2, 3, 0}};
    check_arena(chain, 3, 1.0);
    assert_int_equal(arena_plan(chain, 3), 1024);
    assert_int_equal(arena_plan(chain, 0), 0);
    // first fit by time would leave a hole
    ArenaItem uneven[] = {{256, 0, 3, 0}, {1024, 0, 1, 0}, {1280, 2, 3, 0}, {0, 1, 2, 0}};
    check_arena(uneven, 4, 1.0);
    // Layers as models have them: a residual that lives through, wide values in between.
    ArenaItem layers[7 * 24];
    int n = 0;
    for (int l = 0; l < 24; l++) {
        int t = 7 * l;
        static const struct {
            int bytes, from, to;
        } of[] = {{3072, 0, 1}, {9216, 1, 2}, {3072, 2, 3}, {3072, 3, 6}, {3072, 4, 5}, {12288, 5, 6}, {3072, 6, 10}};
        for (int i = 0; i < 7; i++)
            layers[n++] = (ArenaItem){
                .bytes = (uint64_t)of[i].bytes * 100, .first = t + of[i].from, .last = t + of[i].to};
    }
    check_arena(layers, n, 1.0);
    for (uint64_t seed = 0; seed < 40; seed++) {                       // any lifetimes
        ArenaItem any[120];
        for (int i = 0; i < 120; i++) {
            uint32_t a = rng_bits(seed, 1, (uint64_t)i), b = rng_bits(seed, 2, (uint64_t)i),
                     c = rng_bits(seed, 3, (uint64_t)i);
            any[i] = (ArenaItem){
                .bytes = (a % 4096 + 1) << (c % 6), .first = i, .last = i + 1 + (int)(b % (c % 7 == 0 ? 40 : 6))};
        }
        check_arena(any, 120, 1.05);
    }
}

// ---- runs ----------------------------------------------------------------------------------------

static void runs_on(const char *device) {
    World w = world(device, NULL, NULL);
    GraphExec *x = opened(&w, "wide");
    HostTensor in = tensor(1, (int64_t[]){100}, 1), y = run(&w, x, &in, NULL, NULL);
    for (int64_t i = 0; i < 100; i++) assert_true(at(&y, i) == 8.0 * (double)(i + 1));
    tensor_free(&y);
    tensor_free(&in);
    in = tensor(1, (int64_t[]){0}, 0);
    y = run(&w, x, &in, NULL, NULL);
    assert_int_equal(tensor_count(&y), 0);
    tensor_free(&y);
    tensor_free(&in);
    graph_close(x);

    x = opened(&w, "count");                                           // state: updated, read, updated again
    in = tensor(1, (int64_t[]){70}, 1);
    HostTensor s = tensor(1, (int64_t[]){70}, 10);
    y = run(&w, x, &in, &s, NULL);
    assert_true(at(&y, 3) == 2 * (4 + 13) && at(&s, 3) == 3 * (4 + 13));
    tensor_free(&y);
    y = run(&w, x, &in, &s, NULL);
    assert_true(at(&y, 3) == 2 * (4 + 51) && at(&s, 3) == 3 * (4 + 51));
    tensor_free(&y);
    tensor_free(&s);
    tensor_free(&in);
    graph_close(x);
    end(&w);
}
static void on_eval(void **state) { (void)state; runs_on("eval"); }
static void on_emu(void **state) { (void)state; runs_on("emu"); }

// ---- sizes ---------------------------------------------------------------------------------------

// Another batch compiles nothing, but where what is chosen for it differs; weights and what is made from them are there
// once.
static void batches(void **state) {
    (void)state;
    World w = world("emu", NULL, NULL);
    GraphExec *x = opened(&w, "model");
    int compiled = 0;
    size_t held = 0;
    for (int round = 0; round < 2; round++)
        for (int64_t b = 1; b <= 100; b++) {                           // more than there are plans kept
            HostTensor in = tensor(2, (int64_t[]){b, 8}, 0), y = run(&w, x, &in, NULL, NULL);
            for (int64_t j = 0; j < 4; j++) {                          // rows of the weight, [out, in]
                double sum = 0;
                for (int64_t k = 0; k < 8; k++) sum += (double)k * (double)(j * 8 + k);
                assert_true(at(&y, j) == sum);
            }
            tensor_free(&y);
            tensor_free(&in);
            if (round == 0 && b == 60) {
                compiled = runtime_stats(w.rt).compiled;               // kernels have decided for enough sizes
                held = arena_bytes(session_arena(w.s));
                assert_true(compiled <= 4);
            }
            if (round == 0 && b < 60) continue;
            assert_int_equal(runtime_stats(w.rt).compiled, compiled);
            assert_int_equal(arena_bytes(session_arena(w.s)), held);   // what another size leaves is its plan, which goes
        }
    graph_close(x);
    end(&w);
}

// ---- weights -------------------------------------------------------------------------------------

// What is computed once depends on a size: by its shape, or by a scalar alone, and whoever reads it has the same shapes for all sizes.
static void computed_by_size(void **state) {
    (void)state;
    static const int64_t sizes[] = {7, 33, 1, 64, 7, 130, 65};
    static const char *const graphs[] = {"mean", "ramps", "ramp_alone", "shifted"}, *const devices[] = {"eval", "emu"};
    for (int d = 0; d < 2; d++) {
        World w = world(devices[d], NULL, NULL);
        for (int g = 0; g < 4; g++) {
            GraphExec *x = opened(&w, graphs[g]);
            for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                int64_t n = sizes[i], last = n - 1;
                HostTensor in = tensor(1, &n, 5), y = run(&w, x, &in, NULL, NULL);
                double want[] = {5 + (double)last / 2, 5 + 2 * (double)last, 3 + (double)last, 5 + (double)(last + 2 * (n + last))};
                if (at(&y, g ? last : 0) != want[g]) fail_msg("%s of %d on %s: %g, not %g", graphs[g], (int)n, devices[d], at(&y, g ? last : 0), want[g]);
                tensor_free(&in), tensor_free(&y);
            }
            graph_close(x);
        }
        end(&w);
    }
}

static void weights_said(void **state) {
    (void)state;
    World w = world("eval", NULL, NULL);
    static const struct { const char *graph, *words; } rows[] = {
        {"named", "there is no weight `cf`"},
        {"named", "did you mean `fc`?"},
        {"shaped", "weight `fc` is f32[4, 8] in w, and f32[8, 4] here"},
        {"fileless", "there is no file to read weight `fc` from"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        GraphExec *x = opened(&w, rows[i].graph);
        HostTensor in = tensor(2, (int64_t[]){2, 8}, 0);
        run(&w, x, &in, NULL, rows[i].words);
        tensor_free(&in);
        graph_close(x);
    }
    GraphExec *x = opened(&w, "untyped");                              // the file says what it is
    HostTensor in = tensor(2, (int64_t[]){1, 4}, 0), y = run(&w, x, &in, NULL, NULL);
    assert_true(at(&y, 0) == 8 + 2 * 16 + 3 * 24);
    tensor_free(&y);
    tensor_free(&in);
    graph_close(x);
    end(&w);

    w = world("eval", NULL, &(RuntimeOptions){.random_weights = true});
    x = opened(&w, "fileless");
    in = tensor(2, (int64_t[]){1, 8}, 1);
    y = run(&w, x, &in, NULL, NULL);
    HostTensor again = run(&w, x, &in, NULL, NULL);
    assert_true(at(&y, 0) != 0 && at(&y, 0) == at(&again, 0));
    tensor_free(&again);
    tensor_free(&y);
    tensor_free(&in);
    graph_close(x);
    end(&w);
}

static int      allocated;
static uint64_t (*really)(Device *d, uint64_t bytes, const char *name, Buf *err);
static uint64_t counted(Device *d, uint64_t bytes, const char *name, Buf *err) {
    allocated++;
    return really(d, bytes, name, err);
}

// Weights that are computed once stand at the end of the room for what is kept, several at a time, until that is
// wanted. What a launch makes beside what it was made for ("twins") may be what the plan reads, too: it has its place
// at the front.
static void lent(void **state) {
    (void)state;
    static const struct { const char *graph; int at_most, at_least; } rows[] = {{"deep", 24, 4 * 24}, {"twins", 24, 4 * 12}};
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        HostTensor y[2];
        for (int block = 0; block < 2; block++) {
            World w = world("emu", NULL, &(RuntimeOptions){.random_weights = true});
            DeviceOps ops = *w.dev->ops;
            const DeviceOps *own = w.dev->ops;
            really = ops.alloc;
            ops.alloc = counted;
            w.dev->ops = &ops;
            w.dev->memory_bytes = block ? UINT64_C(1) << 30 : 0;           // 0: each value is apart from the others
            allocated = 0;
            GraphExec *x = opened(&w, rows[r].graph);
            HostTensor in = tensor(2, (int64_t[]){1, 16}, 1);
            y[block] = run(&w, x, &in, NULL, NULL);
            GraphStats s = graph_stats(x);
            assert_int_equal(s.kept, 24 * 1024);
            if (block) assert_true(allocated < rows[r].at_most && s.peak <= s.kept + s.arena + 3 * 1024);
            else assert_true(allocated > rows[r].at_least);
            tensor_free(&in);
            graph_close(x);
            runtime_free(w.rt);
            w.rt = NULL;
            w.dev->ops = own;
            end(&w);
        }
        for (int64_t i = 0; i < 16; i++) assert_true(at(&y[0], i) == at(&y[1], i) && at(&y[0], i) != 0);
        tensor_free(&y[0]);
        tensor_free(&y[1]);
    }
}

// A zip of stored members, as numpy.savez writes it.
typedef struct Zip { FILE *f; Buf list; int n; } Zip;

static void put(Buf *b, uint64_t v, int bytes) { for (int i = 0; i < bytes; i++) buf_putc(b, (char)(v >> (8 * i))); }

static void zip_add(Zip *z, const char *name, const Buf *plain, int method) {
    Buf head = {0}, packed = {0};
    const Buf *data = plain;
    uLong crc = crc32(0, (const unsigned char *)plain->p, (uInt)plain->n);
    long start = ftell(z->f);
    if (method == 8) {
        z_stream s = {.next_in = (unsigned char *)plain->p, .avail_in = (uInt)plain->n, .avail_out = (uInt)plain->n + 64};
        s.next_out = heap_alloc(s.avail_out);
        packed.p = (char *)s.next_out;
        assert_int_equal(deflateInit2(&s, 9, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY), Z_OK);
        assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
        packed.n = s.total_out;
        deflateEnd(&s);
        data = &packed;
    }
    put(&head, 0x04034b50, 4); put(&head, 20, 2); put(&head, 0, 2); put(&head, (uint64_t)method, 2); put(&head, 0, 4);
    put(&head, crc, 4); put(&head, data->n, 4); put(&head, plain->n, 4); put(&head, strlen(name), 2); put(&head, 0, 2);
    buf_puts(&head, name);
    fwrite(head.p, 1, head.n, z->f);
    fwrite(data->p, 1, data->n, z->f);
    put(&z->list, 0x02014b50, 4);
    put(&z->list, 20, 2);
    put(&z->list, 20, 2);
    put(&z->list, 0, 2);
    put(&z->list, (uint64_t)method, 2);
    put(&z->list, 0, 4); put(&z->list, crc, 4); put(&z->list, data->n, 4); put(&z->list, plain->n, 4); put(&z->list, strlen(name), 2);
    put(&z->list, 0, 2);
    put(&z->list, 0, 2);
    put(&z->list, 0, 2);
    put(&z->list, 0, 2);
    put(&z->list, 0, 4);
    put(&z->list, (uint64_t)start, 4);
    buf_puts(&z->list, name);
    z->n++;
    heap_free(packed.p);
    buf_free(&head);
}

static void zip_end(Zip *z) {
    Buf tail = {0};
    long at_list = ftell(z->f);
    fwrite(z->list.p, 1, z->list.n, z->f);
    put(&tail, 0x06054b50, 4); put(&tail, 0, 4); put(&tail, (uint64_t)z->n, 2); put(&tail, (uint64_t)z->n, 2);
    put(&tail, z->list.n, 4); put(&tail, (uint64_t)at_list, 4); put(&tail, 0, 2);
    fwrite(tail.p, 1, tail.n, z->f);
    buf_free(&tail);
    buf_free(&z->list);
    fclose(z->f);
}

static Buf file_bytes(const char *path) {
    Buf b = {0};
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    for (int c; (c = getc(f)) != EOF;) buf_putc(&b, (char)c);
    fclose(f);
    return b;
}

static void archives(void **state) {
    (void)state;
    World w = world("eval", NULL, NULL);
    Buf npy = file_bytes("w/fc.npy"), err = {0};
    Zip z = {.f = fopen("a.npz", "wb")};
    zip_add(&z, "fc.weight.npy", &npy, 0);
    zip_add(&z, "packed.npy", &npy, 8);
    zip_add(&z, "other.npy", &npy, 14);
    zip_end(&z);
    WeightFile *f = weights_open("a.npz", &err);
    Weight x;
    assert_non_null(f);
    assert_int_equal(weights_find(f, (Str){"fc.weight", 9}, WEIGHT_data, &x, &err), 1);
    float last;                                                        // the members of a zip stand anywhere
    memcpy(&last, (const char *)x.data + 31 * sizeof last, sizeof last);
    assert_true(x.elem == EL_f32 && x.rank == 2 && x.dim[0] == 4 && x.dim[1] == 8 && last == 31 && !x.own.data);
    weight_done(&x);
    assert_int_equal(weights_find(f, (Str){"fc.wait", 7}, WEIGHT_data, &x, &err), 0);
    assert_string_equal(weights_nearest(f, (Str){"fc.weigth", 9}), "fc.weight");
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weights_find(f, (Str){"packed", 6}, i ? WEIGHT_data : WEIGHT_shape, &x, &err), 1);
        assert_true(x.elem == EL_f32 && x.rank == 2 && x.dim[0] == 4 && x.dim[1] == 8);
        if (i) memcpy(&last, (const char *)x.data + 30 * sizeof last, sizeof last);
        weight_done(&x);
    }
    assert_true(last == 30);
    assert_int_equal(weights_find(f, (Str){"other", 5}, WEIGHT_data, &x, &err), -1);
    assert_says(&err, "a.npz: `other` is compressed by method 14");
    weights_close(f);

    // every way to be cut off or damaged: words, or what is there
    Buf whole = file_bytes("a.npz");
    for (size_t n = 0; n < whole.n; n += 7)
        for (int damage = 0; damage < 2; damage++) {
            FILE *out = fopen("b.npz", "wb");
            if (damage) whole.p[n] ^= 0x55;
            fwrite(whole.p, 1, damage ? whole.n : n, out);
            if (damage) whole.p[n] ^= 0x55;
            fclose(out);
            f = weights_open("b.npz", &err);
            if (f && weights_find(f, (Str){"fc.weight", 9}, WEIGHT_data, &x, &err) > 0) weight_done(&x);
            if (f && weights_find(f, (Str){"packed", 6}, WEIGHT_data, &x, &err) > 0) {
                memcpy(&last, (const char *)x.data + 30 * sizeof last, sizeof last);
                assert_true(last == 30);                             // damaged, it would not have its checksum
                weight_done(&x);
            }
            weights_close(f);
            buf_free(&err);
        }
    assert_null(weights_open("w.bin", &err));
    assert_says(&err, "w.bin: No such file");
    assert_null(weights_open("../etc", &err));
    buf_free(&err);
    unlink("a.npz");
    unlink("b.npz");
    buf_free(&npy);
    buf_free(&whole);
    end(&w);
}

// ---- scratch memory ------------------------------------------------------------------------------

// Three launches in parts: one piece of scratch memory for all, as large as the largest asks for, whatever sizes come
// up; they wait for each other, for they share it.
static void scratch(void **state) {
    (void)state;
    static const int64_t sizes[][2] = {{64, 40}, {128, 100}, {64, 40}, {200, 33}, {128, 100}};
    World w = world("emu", NULL, NULL);
    GraphExec *x = opened(&w, "parts");
    uint64_t most = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        HostTensor in = tensor(2, sizes[i], 1), y = run(&w, x, &in, NULL, NULL);
        for (int64_t n = 0; n < sizes[i][1]; n++) {
            double sum = 0;
            for (int64_t m = 0; m < sizes[i][0]; m++) sum += at(&in, m * sizes[i][1] + n);
            assert_true(at(&y, n) == 3 * sum);
        }
        tensor_free(&y);
        tensor_free(&in);
        uint64_t held = graph_stats(x).arena;
        assert_true(i != 2 || held == most);                           // smaller: nothing more
        most = held > most ? held : most;
    }
    uint64_t parts = 7 * 128 * sizeof(float);                          // tiles of 100 columns, threads
    // those of the launch in four; its counts and the arena are little
    assert_true(most >= 4 * parts && most < (4 + 1) * parts);
    graph_close(x);
    end(&w);
}

// ---- a GPU of our own making ---------------------------------------------------------------------

static void fake_gpu(void **state) {
    (void)state;
    Fake fake = fake_driver();
    fake.reset();
    World w = world("cuda", &(DeviceOptions){.driver = FAKE_WHOLE_PATH}, NULL);
    GraphExec *x = opened(&w, "wide");
    Buf err = {0};
    BindArg args[2] = {{.elem = EL_f32, .rank = 1, .dim = {100}}, {.elem = EL_f32, .rank = 1, .dim = {100}}};
    for (int i = 0; i < 2; i++) {
        args[i].address = w.dev->ops->alloc(w.dev, 400, "x", &err);
        bind_contiguous(&args[i]);
    }
    RunControl ctl = {0};
    assert_int_equal(graph_run_at(x, args, &ctl, &err), GRAPH_FINE);   // the first run: one by one
    assert_null(strstr(fake.calls(), "cuGraph"));
    int launches = 0;
    for (const char *at = fake.calls(); (at = strstr(at, "cuLaunchKernel\n")); at++) launches++;
    assert_int_equal(launches, 5);
    const char *log = fake.calls() + strlen(fake.calls());
    assert_int_equal(graph_run_at(x, args, &ctl, &err), GRAPH_FINE);
    assert_null(strstr(log, "cuLaunchKernel\n"));                      // the second: one launch of the whole
    assert_non_null(strstr(log, "node 0 grid"));
    const char *second = strstr(log, "node 2 grid"), *last = strstr(log, "node 4 grid");
    assert_non_null(second);
    assert_non_null(strstr(second, "after 0"));                        // a and b are apart, their results are joined
    assert_non_null(last);
    // which writes where a was, so waits for 2; waits by itself
    assert_non_null(strstr(last, "after 3 early"));
    char first[200] = {0};
    const char *node = strstr(log, "node 1 grid");
    memcpy(first, node, strcspn(node, "\n"));
    assert_null(strstr(first, "after"));
    const char *made = strstr(log, "cuGraphInstantiateWithFlags");
    assert_non_null(made);
    const char *launched = strstr(made, "cuGraphLaunch"), *synced = strstr(made, "cuCtxSynchronize");
    assert_true(launched && synced && launched < synced);
    for (int i = 0; i < 2; i++) w.dev->ops->free(w.dev, args[i].address);
    graph_close(x);
    end(&w);
    assert_int_equal(fake.get("live"), 0);

    fake.reset();                                                           // a driver without graphs: launch by launch
    w = world("cuda", &(DeviceOptions){.driver = FAKE_OLD_PATH}, NULL);
    x = opened(&w, "wide");
    HostTensor in = tensor(1, (int64_t[]){100}, 1), y = run(&w, x, &in, NULL, NULL);
    tensor_free(&y);
    tensor_free(&in);
    graph_close(x);
    end(&w);
    dlclose(fake.lib);
}

// Function values of a launch are those of one evaluation: another size has its own.
static void function_values(void **state) {
    (void)state;
    World w = world("eval", NULL, NULL);
    GraphExec *x = opened(&w, "lambdas");
    for (int64_t n = 1; n <= 80; n++) {
        HostTensor in = tensor(1, (int64_t[]){n}, 0), y = run(&w, x, &in, NULL, NULL);
        for (int64_t i = 0; i < n; i++) assert_true(at(&y, i) == (double)(i * i + 3));
        tensor_free(&in);
        tensor_free(&y);
    }
    graph_close(x);
    end(&w);
}

// What was decided for some sizes is found by whoever comes later, for just those.
static void choices_kept(void **state) {
    (void)state;
    char folder[] = "/tmp/tk-choices-XXXXXX";
    assert_non_null(mkdtemp(folder));
    unsetenv("TKC_CACHE");
    setenv("TKC_CACHE_DIR", folder, 1);
    static const struct {
        int64_t rows;
        bool again;
    } steps[] = {{2, false}, {2, true}, {300, false}, {300, true}, {2, true}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        World w = world("emu", NULL, NULL);
        GraphExec *x = opened(&w, "model");
        HostTensor in = tensor(2, (int64_t[]){steps[i].rows, 8}, 0), y = run(&w, x, &in, NULL, NULL);
        assert_true((graph_stats(x).decided == 0) == steps[i].again);
        graph_close(x);
        tensor_free(&in);
        tensor_free(&y);
        end(&w);
    }
    cache_clear();
    assert_int_equal(rmdir(folder), 0);
    setenv("TKC_CACHE", "off", 1);
}

int main(void) {
    const struct CMUnitTest list[] = {
        cmocka_unit_test(arena),           cmocka_unit_test(on_eval),      cmocka_unit_test(on_emu),
        cmocka_unit_test(batches),         cmocka_unit_test(weights_said), cmocka_unit_test(lent),
        cmocka_unit_test(archives),        cmocka_unit_test(scratch),      cmocka_unit_test(choices_kept),
        cmocka_unit_test(function_values), cmocka_unit_test(fake_gpu),     cmocka_unit_test(computed_by_size),
    };
    return cmocka_run_group_tests(list, NULL, NULL);
}
