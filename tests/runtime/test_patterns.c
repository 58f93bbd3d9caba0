// Plans of many sizes that share launches, and a graph of the device (runtime/graph_pattern.c): on the emulator, given
// graphs of our own making that go through their nodes in the worst order that their edges allow, results are those of
// launches one by one.

#include "tests/runtime/common.h"

#include "runtime/internal.h"
#include "runtime/model.h"
#include "runtime/stages.h"

#include <unistd.h>

#define STEP EXAMPLES "/models/step/model.onnx"

// ---- graphs of our own making ----------------------------------------------------------------------

enum { NODES = 64, PARAMS = 64, CELL = 128 };

// A copy of what the caller gave, which may be gone when the graph runs.
typedef struct Node_ {
    DeviceLaunch launch;
    DeviceKernel kernel;
    DeviceRange fixed[PARAMS];
    void *params[PARAMS];
    _Alignas(CELL) unsigned char cell[PARAMS][CELL];
    int after[NODES], nafter;
} Node_;
struct DeviceGraph { int n; Node_ node[NODES]; };

static int made, set, launched;

static void keep(Node_ *node, const DeviceLaunch *l) {
    node->launch = *l;
    node->kernel = *l->kernel;
    node->launch.kernel = &node->kernel;
    for (int i = 0; i < l->nfixed; i++) node->fixed[i] = l->fixed[i];
    node->launch.fixed = node->fixed;
    int n = 0;
    for (; l->params[n]; n++) {                                          // Prepared: cells of one size, then NULL
        assert_true(n + 1 < PARAMS);
        memcpy(node->cell[n], l->params[n], CELL);
        node->params[n] = node->cell[n];
    }
    node->params[n] = NULL;
    node->launch.params = node->params;
}

static DeviceGraph *graph_make(Device *d, const DeviceNode *nodes, int n, Buf *err) {
    (void)d; (void)err;
    DeviceGraph *g = heap_try_aligned(CELL, (sizeof *g + CELL - 1) / CELL * CELL);
    assert_true(g && n <= NODES);
    g->n = n;
    for (int i = 0; i < n; i++) {
        keep(&g->node[i], nodes[i].launch);
        g->node[i].nafter = nodes[i].nafter;
        for (int k = 0; k < nodes[i].nafter; k++) g->node[i].after[k] = nodes[i].after[k];
    }
    made++;
    return g;
}

static bool graph_set(Device *d, DeviceGraph *g, int i, const DeviceLaunch *l, Buf *err) {
    (void)d; (void)err;
    assert_true(i >= 0 && i < g->n);
    keep(&g->node[i], l);
    set++;
    return true;
}

// The last that may run, first.
static bool graph_launch_(Device *d, DeviceGraph *g, void *stream, Buf *err) {
    bool done[NODES] = {false};
    (void)stream;
    launched++;
    for (int ran = 0; ran < g->n; ran++) {
        int next = -1;
        for (int i = 0; i < g->n; i++) {
            bool may = !done[i];
            for (int k = 0; k < g->node[i].nafter; k++) may = may && done[g->node[i].after[k]];
            if (may) next = i;
        }
        assert_true(next >= 0);
        done[next] = true;
        if (!d->ops->launch(d, &g->node[next].launch, err)) return false;
    }
    return true;
}

static void graph_free_(Device *d, DeviceGraph *g) { (void)d; heap_free(g); }

// ---- a model ---------------------------------------------------------------------------------------

enum { ROOM = 1 << 16 };
typedef struct World { OnnxModel *model; ModelProgram p; BindArg args[MAX_PARAMS]; uint64_t at[MAX_PARAMS]; } World;

static void open(World *w, const DeviceOps *ops) {
    Buf err = {0};
    OnnxImport how = {0};
    Device *d = device_open("emu", NULL, &err);
    assert_non_null(d);
    d->ops = ops;
    w->model = onnx_read(STEP, &err);
    assert_non_null(w->model);
    if (!program_open(w->model, &(ProgramOptions){.opened = d}, &how, &w->p, &err)) { print_error("%s\n", err.p); fail(); }
    for (int p = 0; p < graph_info(w->p.exec)->nparams; p++) w->at[p] = d->ops->alloc(d, ROOM, "room", &err);
}

static void end(World *w) {
    Device *d = w->p.device;
    for (int p = 0; p < graph_info(w->p.exec)->nparams; p++) d->ops->free(d, w->at[p]);
    w->p.device = NULL;
    program_close(&w->p);
    onnx_free(w->model);
    d->ops = &emu_ops;
    device_close(d);
}

// Arguments for these sizes, what is read filled with numbers that follow from them; from `shift` bytes of the room on.
static void arguments(World *w, int64_t batch, int64_t past, uint64_t shift) {
    const LaunchInfo *head = graph_info(w->p.exec);
    Buf err = {0};
    int64_t dims[MAX_DIMS];
    static float data[ROOM / 4];
    for (int k = 0; k < head->ndims; k++) dims[k] = strcmp(head->dims[k].name->s, "batch") == 0 ? batch : past;
    for (int p = 0; p < head->nparams; p++) {
        const LaunchParam *want = &head->params[p];
        BindArg *a = &w->args[p];
        *a = (BindArg){.elem = want->elem, .rank = want->rank, .address = w->at[p] + shift};
        for (int d = 0; d < a->rank; d++) a->dim[d] = launch_eval(want->dim[d], dims, NULL, NULL);
        bind_contiguous(a);
        if (want->mode == PM_OUT) continue;
        uint64_t bytes = bind_extent(a);
        assert_true(bytes + shift <= ROOM);
        for (uint64_t i = 0; i < bytes / 4; i++)
            data[i] = (float)((i * 37 + (uint64_t)(batch * 5 + past * 3 + p)) % 17) / 8 - 1;
        if (want->elem == EL_i64)
            for (uint64_t i = 0; i < bytes / 8; i++)
                ((int64_t *)(void *)data)[i] = (int64_t)((i * 11 + (uint64_t)past) % 64);
        assert_true(w->p.device->ops->write(w->p.device, a->address, data, bytes, &err));
    }
}

static void run(World *w, char *out, size_t *n) {
    Buf err = {0};
    const LaunchInfo *head = graph_info(w->p.exec);
    if (graph_run_at(w->p.exec, w->args, &(RunControl){0}, &err) != GRAPH_FINE) {
        print_error("%s\n", err.p ? err.p : "?");
        fail();
    }
    *n = 0;
    for (int p = 0; p < head->nparams; p++) {
        if (head->params[p].mode != PM_OUT) continue;
        uint64_t bytes = bind_extent(&w->args[p]);
        assert_true(w->p.device->ops->read(w->p.device, out + *n, w->args[p].address, bytes, &err));
        *n += bytes;
    }
}

static void same_results(void **state) {
    (void)state;
    static char got[16 * ROOM], want[16 * ROOM];
    DeviceOps ops = emu_ops;
    ops.graph_make = graph_make;
    ops.graph_set = graph_set;
    ops.graph_launch = graph_launch_;
    ops.graph_free = graph_free_;
    World a = {0}, b = {0};
    open(&a, &ops);
    open(&b, &emu_ops);
    for (int i = 0; i < 150; i++) {
        int64_t batch = i < 100 ? 1 : 1 + i % 7, past = 1 + (i * 29) % 67;
        size_t  n, m;
        uint64_t shift = i % 5 == 4 ? 256 : 0;                            // caches that lie elsewhere
        arguments(&a, batch, past, shift);
        arguments(&b, batch, past, 0);
        run(&b, want, &m);
        for (int again = 0; again < 1 + (i % 3 == 0); again++) {
            run(&a, got, &n);
            if (n != m || memcmp(got, want, n) != 0)
                fail_msg("batch %d, past %d, run %d, the %dth: other results", (int)batch, (int)past, again, i);
        }
    }
    assert_true(made > 0 && launched > 100 && set > 400);
    GraphStats s = graph_stats(a.p.exec);
    assert_true(s.elaborated < s.plans_made / 4);
    end(&a);
    end(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_results)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
