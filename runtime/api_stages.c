// libtkc (tkc.h): models of which the data decide sizes, in several programs (model_stages.c).
//
// What an output's shape is, its run says: the caller gives memory with room for it, or none, and asks afterwards (tkc_graph_result).
#include "runtime/api_internal.h"

#include <stdlib.h>
#include <string.h>

static int inputs_of(const tkc_graph *g) { return graph_input_count(g->program.graph); }

static bool is_output(const tkc_graph *g, int port) { return port >= inputs_of(g); }

void api_stages_ports(tkc_graph *g) {
    Graph *whole = g->program.graph;
    int    inputs = inputs_of(g);
    g->nports = inputs + graph_output_count(whole);
    g->ports = NEW_N(g->arena, tkc_port, g->nports + 1);
    for (int i = 0; i < g->nports; i++) {
        bool  out = is_output(g, i);
        GPort p = graph_port(whole, out, out ? i - inputs : i);
        Elem  e = out ? stages_output_elem(g->stages, i - inputs) : stages_input_elem(g->stages, i);
        g->ports[i] = (tkc_port){.name = p.name, .mode = out ? TKC_OUT : TKC_IN, .dtype = api_dtype(e), .rank = p.rank};
        for (int d = 0; d < p.rank && d < TKC_MAX_RANK; d++) g->ports[i].dims[d] = p.dim[d], g->ports[i].dim_names[d] = p.word[d];
    }
}

// An argument against its port: type, rank, what is fixed of its shape.
static bool fits(const tkc_port *p, const tkc_tensor *t, Buf *err) {
    if (t->dtype != p->dtype) return buf_printf(err, "`%s` has another element type", p->name), false;
    if (t->rank != p->rank) return buf_printf(err, "`%s` has %d dimensions; it should have %d", p->name, t->rank, p->rank), false;
    for (int d = 0; d < p->rank; d++)
        if (p->dims[d] >= 0 && t->dims[d] != p->dims[d])
            return buf_printf(err, "dimension %d of `%s` is %lld; it should be %lld", d, p->name, (long long)t->dims[d], (long long)p->dims[d]), false;
    return true;
}

static bool take_inputs(const tkc_graph *g, const tkc_arg *args, int nargs, bool sizes, StageTensor *to, Buf *err) {
    if (!api_port_names(g, args, nargs, err)) return false;
    for (int i = 0; i < nargs; i++)
        for (int k = 0; k < i; k++)
            if (strcmp(args[i].name, args[k].name) == 0) return buf_printf(err, "`%s` is given twice", args[i].name), false;
    for (int p = 0; p < inputs_of(g); p++) {
        const tkc_arg *a = api_port_arg(g, args, nargs, p);
        BindArg b;
        if (!a) return buf_printf(err, "`%s` is not given", g->ports[p].name), false;
        if (a->kind != TKC_TENSOR) return buf_printf(err, "`%s` is a tensor", g->ports[p].name), false;
        api_describe(a, &b);
        if (!fits(&g->ports[p], &a->tensor, err) || !api_dense(g->ports[p].name, &b, err)) return false;
        if (!a->tensor.data && bind_extent(&b) && !sizes) return buf_printf(err, "`%s` has no memory", g->ports[p].name), false;
        bool device = a->tensor.memory == TKC_DEVICE;
        to[p] = (StageTensor){.given = true, .on_device = device, .elem = b.elem, .rank = b.rank, .data = device ? NULL : a->tensor.data,
                              .address = device ? (uint64_t)(uintptr_t)a->tensor.data : 0, .bytes = bind_extent(&b)};
        static char none;
        if (!device && !to[p].data) to[p].data = &none;      // without elements
        memcpy(to[p].dim, b.dim, sizeof to[p].dim);
    }
    return true;
}

tkc_status api_stages_sizes(tkc_graph *g, tkc_arg *args, int nargs, Buf *err) {
    int  n = inputs_of(g);
    char why[512] = "", some = 0;
    StageTensor *given = heap_alloc(sizeof *given * (size_t)(n + 1));
    GTensor     *in = heap_alloc(sizeof *in * (size_t)(n + 1));
    for (int i = n; i < g->nports; i++) {
        tkc_arg *a = (tkc_arg *)(uintptr_t)api_port_arg(g, args, nargs, i);
        if (a) a->tensor = (tkc_tensor){.data = a->tensor.data, .memory = a->tensor.memory, .dtype = g->ports[i].dtype, .rank = g->ports[i].rank};
    }
    bool fine = take_inputs(g, args, nargs, true, given, err);
    for (int i = 0; i < n && fine; i++) {
        in[i] = (GTensor){.elem = graph_input_elem(g->program.graph, i), .rank = given[i].rank, .data = &some};
        for (int d = 0; d < in[i].rank; d++) in[i].shape[d] = given[i].dim[d];
    }
    for (int i = n; i < g->nports && fine; i++) {
        tkc_arg *a = (tkc_arg *)(uintptr_t)api_port_arg(g, args, nargs, i);
        int64_t  dim[G_MAX_RANK];
        if (!a) continue;
        fine = graph_port_sizes(g->program.graph, in, i - n, dim, why, sizeof why);
        for (int d = 0; d < a->tensor.rank && fine; d++) a->tensor.dims[d] = dim[d];
    }
    if (why[0]) buf_puts(err, why);
    heap_free(in);
    heap_free(given);
    return fine ? TKC_OK : TKC_BAD_ARGUMENT;
}

// Memory for outputs: its dimensions say how much there is.
static bool take_outputs(const tkc_graph *g, const tkc_arg *args, int nargs, StageTensor *to, Buf *err) {
    for (int p = inputs_of(g), i = 0; p < g->nports; p++, i++) {
        const tkc_arg *a = api_port_arg(g, args, nargs, p);
        BindArg b;
        if (!a || !a->tensor.data) continue;
        api_describe(a, &b);
        if (a->kind != TKC_TENSOR || b.elem != api_elem(g->ports[p].dtype)) return buf_printf(err, "`%s` has another element type", g->ports[p].name), false;
        bool device = a->tensor.memory == TKC_DEVICE;
        to[i] = (StageTensor){.given = true, .on_device = device, .elem = b.elem, .data = device ? NULL : a->tensor.data,
                              .address = device ? (uint64_t)(uintptr_t)a->tensor.data : 0, .bytes = bind_extent(&b)};
    }
    return true;
}

tkc_status api_stages_run(tkc_graph *g, const tkc_arg *args, int nargs, const RunControl *ctl, Buf *err) {
    StageTensor *in = heap_alloc(sizeof *in * (size_t)(g->nports + 1)), *out = in + inputs_of(g);
    int        from = diag_count(g->session);
    bool       fine = take_inputs(g, args, nargs, false, in, err) && take_outputs(g, args, nargs, out, err);
    tkc_status status = fine ? TKC_OK : TKC_BAD_ARGUMENT;
    if (fine) {
        GraphFailure why = stages_run(g->stages, in, out, ctl, err);
        status = why == GRAPH_ARGUMENTS ? TKC_BAD_ARGUMENT : why == GRAPH_DEVICE ? TKC_DEVICE_ERROR : TKC_OK;
        if (api_diagnostics(g->session, from, err)) status = TKC_BAD_SOURCE;
    }
    heap_free(in);
    return status;
}

tkc_status tkc_graph_result(tkc_graph *g, const char *output, tkc_memory memory, tkc_tensor *out) {
    API_NEEDS(out);
    *out = (tkc_tensor){0};
    API_NEEDS_AS(g, "graph");
    API_NEEDS(output);
    if (memory != TKC_HOST && memory != TKC_DEVICE) return api_refused("tkc_graph_result: `memory` is %d", (int)memory);
    API_CALL(call);
    Buf err = {0};
    int port = -1;
    StageTensor t;
    for (int p = 0; p < g->nports; p++)
        if (g->ports[p].mode == TKC_OUT && strcmp(g->ports[p].name, output) == 0) port = p;
    if (port < 0) return api_refused("the graph has no output `%s`", output);
    if (!g->stages) return api_refused("`%s` is where the caller wanted it: only what a run finds the size of is asked for", output);
    if (!api_own(&call, &g->heap, &g->lock)) return api_broken("graph");
    bool fine = stages_result(g->stages, port - inputs_of(g), memory == TKC_DEVICE, &t, &err);
    if (!fine) return api_failed(TKC_DEVICE_ERROR, &err);
    *out = (tkc_tensor){.data = memory == TKC_DEVICE ? (void *)(uintptr_t)t.address : t.data, .memory = memory, .dtype = g->ports[port].dtype, .rank = t.rank};
    memcpy(out->dims, t.dim, sizeof *t.dim * (size_t)t.rank);
    return TKC_OK;
}
