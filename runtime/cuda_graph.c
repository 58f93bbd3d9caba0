// The driver's graphs, built node by node: a list of launches that the GPU goes through on its own, with one call
// and without coming back to the host in between.
//
//     kernel 1 -> kernel 3         edges are what the caller says; parameters are copied into the nodes,
//     kernel 2 ->                  so later runs do not read them again
//
// A kernel that waits by itself (griddepcontrol.wait, before it touches memory) is started as soon as all blocks of those
// before it have been: its launch, its barriers and its first instructions are behind it when they end. Each of ours waits,
// whatever it reads, so the end of one is the end of all that it follows, and edges need not be more than they were.
//
// A multiprocessor divides its memory into shared memory and L1 as a kernel asks, and only when it is empty. So all ask for
// the most of shared memory: otherwise a norm between two products keeps the second one's blocks from starting
// (ViT-B/16 at batch 1 on an H200, 2026-11-21: 307 us instead of 310).

#include "runtime/cuda_internal.h"

#include <stdlib.h>

struct DeviceGraph { CuGraph graph; CuGraphExec exec; CuGraphNode *node; int nodes; };

static CuKernelNode kernel_node(const DeviceLaunch *l) {
    return (CuKernelNode){
        .f = ((Function *)l->kernel->handle)->f, .grid_x = l->grid[0], .grid_y = l->grid[1], .grid_z = l->grid[2],
        .block_x = l->block[0], .block_y = l->block[1], .block_z = l->block[2], .smem = l->smem, .params = l->params,
    };
}

static bool add_kernel(Cuda *c, CuGraph g, const DeviceNode *n, const CuGraphNode *after, size_t nafter,
                       CuGraphNode *out, Buf *err) {
    const DeviceLaunch *l = n->launch;
    CuKernelNode node = kernel_node(l);
    bool early = l->early && nafter > 0 && c->cu.graph_edges;
    if (!cuda_ready(c, l, err)) return false;
    c->cu.function_set(node.f, CU_FN_SMEM_CARVEOUT, 100);            // a hint
    if (!cuda_ok_late(c, c->cu.graph_kernel(out, g, after, early ? 0 : nafter, &node), err, "add to a graph",
                      l->kernel->name))
        return false;
    for (size_t i = 0; early && i < nafter; i++) {
        const CuGraphEdge edge = {.from_port = CU_PORT_PROGRAMMATIC, .type = CU_EDGE_PROGRAMMATIC};
        if (!cuda_ok_late(c, c->cu.graph_edges(g, &after[i], out, &edge, 1), err, "add to a graph what comes before",
                          l->kernel->name))
            return false;
    }
    if (l->together) {
        CuLaunchAttr whole = {.value.cooperative = 1};
        return cuda_ok_late(c, c->cu.graph_attr(*out, CU_ATTR_COOPERATIVE, &whole.value), err, "start as a whole a node for", l->kernel->name);
    }
    if (l->cluster[0] <= 1 && l->cluster[1] <= 1 && l->cluster[2] <= 1) return true;
    CuLaunchAttr attr = {.value.cluster = {l->cluster[0], l->cluster[1], l->cluster[2]}};
    return cuda_ok_late(c, c->cu.graph_attr(*out, CU_ATTR_CLUSTER, &attr.value), err, "set the cluster of a node for",
                        l->kernel->name);
}

static bool add_all(Cuda *c, CuGraph g, const DeviceNode *nodes, int n, CuGraphNode *made, CuGraphNode *after, Buf *err) {
    for (int i = 0; i < n; i++) {
        size_t k = 0;
        for (int j = 0; j < nodes[i].nafter; j++) after[k++] = made[nodes[i].after[j]];
        if (!add_kernel(c, g, &nodes[i], after, k, &made[i], err)) return false;
    }
    return true;
}

static void end_graph(void *d, uint64_t g) { cuda_graph_free(d, (DeviceGraph *)(uintptr_t)g); }

DeviceGraph *cuda_graph_make(Device *d, const DeviceNode *nodes, int n, Buf *err) {
    Cuda *c = cuda_use(d);
    bool whole = c->cu.graph_create && c->cu.graph_destroy && c->cu.graph_kernel && c->cu.graph_attr && c->cu.graph_make
              && c->cu.graph_launch && c->cu.graph_set && c->cu.graph_free;
    if (!whole) return NULL;
    DeviceGraph *g = heap_alloc(sizeof *g);
    CuGraphNode *after = heap_alloc(sizeof *after * (size_t)(n + 1));
    g->node = heap_alloc(sizeof *g->node * (size_t)(n + 1));
    g->nodes = n;
    heap_hold(end_graph, d, (uint64_t)(uintptr_t)g);
    bool fine = cuda_ok_late(c, c->cu.graph_create(&g->graph, 0), err, "make a graph", NULL);
    if (!fine) g->graph = NULL;
    fine = fine && add_all(c, g->graph, nodes, n, g->node, after, err);
    fine = fine && cuda_ok_late(c, c->cu.graph_make(&g->exec, g->graph, 0), err, "make ready a graph", NULL);
    if (!fine) g->exec = NULL;
    heap_free(after);
    heap_let_go(end_graph, d, (uint64_t)(uintptr_t)g);
    if (fine) return g;
    cuda_graph_free(d, g);
    return NULL;
}

bool cuda_graph_launch(Device *d, DeviceGraph *g, void *stream, Buf *err) {
    Cuda *c = cuda_use(d);
    if (!cuda_ok_late(c, c->cu.graph_launch(g->exec, stream), err, "launch a graph", NULL)) return false;
    c->last_nodes = g->nodes;
    return true;
}

bool cuda_graph_set(Device *d, DeviceGraph *g, int i, const DeviceLaunch *l, Buf *err) {
    Cuda *c = cuda_use(d);
    CuKernelNode node = kernel_node(l);
    return cuda_ready(c, l, err) &&
           cuda_ok_late(c, c->cu.graph_set(g->exec, g->node[i], &node), err, "set in a graph", l->kernel->name);
}

void cuda_graph_free(Device *d, DeviceGraph *g) {
    Cuda *c = cuda_use(d);
    if (!g) return;
    if (g->exec) c->cu.graph_free(g->exec);
    if (g->graph) c->cu.graph_destroy(g->graph);
    heap_free(g->node);
    heap_free(g);
}
