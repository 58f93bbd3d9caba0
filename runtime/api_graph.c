// libtkc (tkc.h): graphs and models.
//
//     file -> program -> checked graph                                   tkc_graph_load
//     arguments -> dimensions -> a plan for them -> addresses -> run     tkc_graph_run, under the graph's lock
//
// A model is written as a program first and is a graph like any other from then on. Tensors in device memory are used
// where they lie; those of the host have a place on the device that grows with them and stays the graph's.

#include "graph/ix/ix.h"
#include "runtime/api_internal.h"

#include <stdlib.h>
#include <string.h>

// ---- life ----------------------------------------------------------------------------------------

tkc_dtype api_dtype(Elem e) {
    for (int t = TKC_BOOL; t <= TKC_F64; t++)
        if (api_elem((tkc_dtype)t) == e) return (tkc_dtype)t;
    return (tkc_dtype)0;
}

static void describe_ports(tkc_graph *g) {
    if (g->stages) { api_stages_ports(g); return; }
    const LaunchInfo *head = graph_info(g->exec);
    g->nports = head->nparams;
    g->ports = NEW_N(g->arena, tkc_port, head->nparams + 1);
    for (int i = 0; i < head->nparams; i++) {
        const LaunchParam *p = &head->params[i];
        tkc_port *port = &g->ports[i];
        *port = (tkc_port){.name = p->name->s,
                           .kind = p->kind == PK_SCALAR ? elem_is_float(p->elem) ? TKC_FLOAT : TKC_INT : TKC_TENSOR,
                           .mode = p->mode == PM_OUT     ? TKC_OUT
                                   : p->mode == PM_INOUT ? TKC_INOUT
                                                         : TKC_IN,
                           .dtype = api_dtype(p->elem),
                           .rank = p->rank};
        for (int d = 0; d < p->rank; d++) {
            const LExpr e = p->dim[d];
            bool number = e.n == 1 && e.at->op == L_CONST,
                 fixed = e.n == 1 && e.at->op == L_DIM && head->dims[e.at->arg].fixed >= 0;
            port->dims[d] = number ? e.at->arg : fixed ? head->dims[e.at->arg].fixed : -1;
            port->dim_names[d] = number ? NULL : launch_expr_text(g->arena, head, e);
        }
    }
}

// An input whose values decide shapes: a dense tensor in the host's memory.
static bool known_input(const tkc_arg *a, GTensor *in, Buf *err) {
    const tkc_tensor *t = &a->tensor;
    BindArg b;
    if (!a->name || !a->name[0]) return buf_puts(err, "an input of `known` has no name"), false;
    if (!api_check_arg(a, err)) return false;
    if (a->kind != TKC_TENSOR || t->memory != TKC_HOST)
        return buf_printf(err, "`%s` is no tensor in the host's memory", a->name), false;
    api_describe(a, &b);
    if (!api_dense(a->name, &b, err) || !api_aligned(a->name, b.elem, t->data, err)) return false;
    if (!t->data && bind_extent(&b)) return buf_printf(err, "`%s` has no memory", a->name), false;
    *in = (GTensor){.elem = b.elem, .rank = t->rank, .data = t->data, .bytes = bind_extent(&b)};
    for (int d = 0; d < t->rank; d++) in->shape[d] = t->dims[d];
    return true;
}

static bool fixed_size(const tkc_size *size, OnnxSize *out, Buf *err) {
    if (!size->name || !size->name[0]) return buf_puts(err, "a dimension of `fixed` has no name"), false;
    *out = (OnnxSize){size->name, size->size};
    bool fits = size->size >= 0 && size->size <= IX_DIM_MAX;
    if (!fits) buf_printf(err, "`%s` cannot be fixed to %lld", size->name, (long long)size->size);
    return fits;
}

static bool open_model(tkc_graph *g, const char *path, const tkc_graph_options *o, Buf *err) {
    GTensor   *in = heap_alloc(sizeof *in * ((size_t)o->nknown + 1));
    OnnxGiven *given = heap_alloc(sizeof *given * ((size_t)o->nknown + 1));
    OnnxSize  *fixed = heap_alloc(sizeof *fixed * ((size_t)o->nfixed + 1));
    OnnxImport how = {.given = given,
                      .ngiven = o->nknown,
                      .fixed = fixed,
                      .nfixed = o->nfixed,
                      .dtype = o->dtype ? api_elem(o->dtype) : EL_none,
                      .dtype_io = o->dtype_io,
                      .tf32 = o->tf32,
                      .donate = o->donate,
                      .random_weights = o->random_weights};
    bool fine = true;
    for (int i = 0; i < o->nknown && fine; i++) {
        fine = known_input(&o->known[i], &in[i], err);
        given[i] = (OnnxGiven){o->known[i].name, &in[i]};
        for (int k = 0; k < i && fine; k++)
            if (strcmp(o->known[k].name, o->known[i].name) == 0) fine = false, buf_printf(err, "`%s` is given twice", o->known[i].name);
    }
    for (int i = 0; i < o->nfixed && fine; i++) {
        fine = fixed_size(&o->fixed[i], &fixed[i], err);
        for (int k = 0; k < i && fine; k++)
            if (strcmp(fixed[k].name, fixed[i].name) == 0) fine = false, buf_printf(err, "`%s` is fixed twice", fixed[i].name);
    }
    g->model = fine ? onnx_read(path, err) : NULL;
    fine = fine && g->model && program_open(g->model, &(ProgramOptions){.opened = g->ctx->device}, &how, &g->program, err);
    g->session = g->program.session;
    g->runtime = g->program.runtime;
    g->exec = g->program.exec;
    g->stages = g->program.stages;
    heap_free(in);
    heap_free(given);
    heap_free(fixed);
    return fine;
}

static bool open_file(tkc_graph *g, const char *path, const tkc_graph_options *o, Buf *err) {
    char *why = NULL;
    g->session = session_new();
    const Source *src = source_read(g->session, path, &why);
    if (!src) { buf_puts(err, why); return false; }
    SemaFile *file = sema_file(g->session, parse_file(g->session, src));
    if (api_diagnostics(g->session, 0, err)) return false;
    const Node *item = program_graph(file, path, o->graph, err);
    if (!item) return false;
    g->runtime = runtime_new(g->session, g->ctx->device, &(RuntimeOptions){.random_weights = o->random_weights});
    g->exec = graph_open(g->runtime, (InstanceOf){.file = file, .item = item});
    if (!g->exec) api_diagnostics(g->session, 0, err);
    return g->exec != NULL;
}

static tkc_status load(tkc_graph *g, bool model, const char *path, const tkc_graph_options *o) {
    Buf err = {0};
    API_CALL(call);
    api_own(&call, &g->heap, NULL);
    g->arena = arena_new();
    if (!(model ? open_model : open_file)(g, path, o, &err)) return api_failed(TKC_BAD_SOURCE, &err);
    describe_ports(g);
    return TKC_OK;
}

tkc_status tkc_graph_load(tkc_context *ctx, const char *path, const tkc_graph_options *options, tkc_graph **out) {
    static const tkc_graph_options plain;
    const tkc_graph_options *o = options ? options : &plain;
    API_NEEDS(out);
    *out = NULL;
    API_NEEDS(ctx);
    API_NEEDS(path);
    bool model = text_ends(path, ".onnx"), for_models = o->dtype || o->dtype_io || o->tf32 || o->donate || o->nknown || o->nfixed;
    if (!model && for_models) return api_refused("%s is no model: dtype, tf32, donate, known and fixed are for those", path);
    if (o->dtype && o->dtype != TKC_BF16 && o->dtype != TKC_F16)
        return api_refused("tkc_graph_load: `dtype` is %d; a model can be of bf16 or f16, or as it is written", (int)o->dtype);
    if (o->nknown < 0 || o->nknown > MAX_GRAPH_PARAMS) return api_refused("tkc_graph_load: `nknown` is %d; 0 to %d can be", o->nknown, MAX_GRAPH_PARAMS);
    if (o->nfixed < 0 || o->nfixed > MAX_GRAPH_DIMS) return api_refused("tkc_graph_load: `nfixed` is %d; 0 to %d can be", o->nfixed, MAX_GRAPH_DIMS);
    if (o->nknown && !o->known) return api_refused("tkc_graph_load: `known` is NULL");
    if (o->nfixed && !o->fixed) return api_refused("tkc_graph_load: `fixed` is NULL");
    tkc_graph *g = heap_try_zeroed(1, sizeof *g);
    if (!g) return api_out_of_memory(NULL);
    g->ctx = ctx;
    pthread_mutex_init(&g->lock, NULL);
    tkc_status status = load(g, model, path, o);
    if (status) tkc_graph_free(g);
    else *out = g;
    return status;
}

static tkc_status close_graph(tkc_graph *g) {
    API_CALL(call);
    if (!api_own(&call, &g->heap, NULL)) return TKC_OK;
    for (int i = 0; i < MAX_GRAPH_PARAMS; i++)
        if (g->place[i].address) device_free(g->ctx->device, g->place[i].address);
    if (g->model) {
        g->program.device = NULL;                                      // the context's
        program_close(&g->program);
        onnx_free(g->model);
    } else {
        graph_close(g->exec);
        runtime_free(g->runtime);
        if (g->session) session_free(g->session);
    }
    arena_free(g->arena);
    return TKC_OK;
}

void tkc_graph_free(tkc_graph *g) {
    if (!g) return;
    close_graph(g);
    heap_end(&g->heap);
    pthread_mutex_destroy(&g->lock);
    heap_free(g);
}

int tkc_graph_ports(const tkc_graph *g) { return g ? g->nports : 0; }

tkc_status tkc_graph_port(const tkc_graph *g, int i, tkc_port *out) {
    API_NEEDS_AS(g, "graph");
    API_NEEDS(out);
    if (i < 0 || i >= g->nports) return api_refused("there is no port %d; there are %d", i, g->nports);
    *out = g->ports[i];
    return TKC_OK;
}

// ---- arguments -----------------------------------------------------------------------------------

// The argument of port p: mostly the p-th.
const tkc_arg *api_port_arg(const tkc_graph *g, const tkc_arg *args, int nargs, int p) {
    const char *name = g->ports[p].name;
    if (p < nargs && args[p].name && strcmp(args[p].name, name) == 0) return &args[p];
    for (int i = 0; i < nargs; i++)
        if (args[i].name && strcmp(args[i].name, name) == 0) return &args[i];
    return NULL;
}

bool api_port_names(const tkc_graph *g, const tkc_arg *args, int nargs, Buf *err) {
    for (int i = 0; i < nargs; i++) {
        bool found = false;
        if (i < g->nports && args[i].name) found = strcmp(args[i].name, g->ports[i].name) == 0;
        for (int k = 0; k < g->nports && !found; k++) found = args[i].name && strcmp(args[i].name, g->ports[k].name) == 0;
        if (!found) return buf_printf(err, "the graph has no input or output `%s`", args[i].name ? args[i].name : ""), false;
        if (!api_check_arg(&args[i], err)) return false;
    }
    return true;
}

bool api_dense(const char *name, const BindArg *a, Buf *err) {
    BindArg dense = *a;
    bind_contiguous(&dense);
    if (memcmp(dense.stride, a->stride, sizeof *dense.stride * (size_t)dense.rank) == 0) return true;
    return buf_printf(err, "`%s` has gaps between its rows: a graph's tensors are dense", name), false;
}

// By parameter. `sizes`: an output without data is to be made, that is its shape is asked for.
static bool describe_args(const tkc_graph *g, const tkc_arg *args, int nargs, bool sizes, BindArg *out, Buf *err) {
    if (!api_port_names(g, args, nargs, err)) return false;
    for (int p = 0; p < g->nports; p++) {
        const tkc_arg *a = api_port_arg(g, args, nargs, p);
        bool absent = sizes && g->ports[p].mode == TKC_OUT;
        if (!a && !absent) return buf_printf(err, "`%s` is not given", g->ports[p].name), false;
        if (absent) { out[p] = (BindArg){.absent = true}; continue; }
        api_describe(a, &out[p]);
        if (out[p].scalar) continue;
        if (!api_dense(g->ports[p].name, &out[p], err)) return false;
        if (!a->tensor.data && bind_extent(&out[p]) && !sizes)
            return buf_printf(err, "`%s` has no memory", g->ports[p].name), false;
        if (!sizes && a->tensor.memory == TKC_DEVICE && !api_aligned(g->ports[p].name, out[p].elem, a->tensor.data, err)) return false;
    }
    return true;
}

tkc_status tkc_graph_sizes(tkc_graph *g, tkc_arg *args, int nargs) {
    Buf      err = {0};
    API_NEEDS_AS(g, "graph");
    API_COUNT(nargs);
    if (nargs > g->nports) return api_refused("%d arguments, but the graph has %d inputs and outputs", nargs, g->nports);
    API_NEEDS_ALL(args, nargs);
    API_CALL(call);
    if (!api_own(&call, &g->heap, &g->lock)) return api_broken("graph");
    if (g->stages) {
        tkc_status status = api_stages_sizes(g, args, nargs, &err);
        return status ? api_failed(status, &err) : TKC_OK;
    }
    BindArg *bind = heap_alloc(sizeof *bind * ((size_t)g->nports + 1));
    Bound   *b = heap_alloc(sizeof *b);
    for (int i = 0; i < nargs; i++) {                                  // their type and shape are what is asked for
        const tkc_port *port = NULL;
        for (int k = 0; k < g->nports; k++)
            if (args[i].name && strcmp(args[i].name, g->ports[k].name) == 0) port = &g->ports[k];
        if (port && port->mode == TKC_OUT)
            args[i].tensor = (tkc_tensor){
                .data = args[i].tensor.data, .memory = args[i].tensor.memory, .dtype = port->dtype};
    }
    bool fine = describe_args(g, args, nargs, true, bind, &err) && bind_args(graph_info(g->exec), bind, g->nports, b, &err);
    for (int p = 0; p < g->nports && fine; p++) {
        tkc_arg *a = (tkc_arg *)(uintptr_t)api_port_arg(g, args, nargs, p);
        if (!a || g->ports[p].mode != TKC_OUT) continue;
        a->tensor.rank = g->ports[p].rank;
        memcpy(a->tensor.dims, bind[p].dim, sizeof *bind[p].dim * (size_t)a->tensor.rank);
    }
    heap_free(bind);
    heap_free(b);
    return fine ? TKC_OK : api_failed(TKC_BAD_ARGUMENT, &err);
}

// ---- running -------------------------------------------------------------------------------------

static bool on_host(const tkc_graph *g, const tkc_arg *a) {
    (void)g;
    return a->kind == TKC_TENSOR && a->tensor.memory == TKC_HOST;
}

static bool copy_in(tkc_graph *g, const tkc_arg *args, int nargs, BindArg *bind, Buf *err) {
    Device *d = g->ctx->device;
    for (int p = 0; p < g->nports; p++) {
        const tkc_arg *a = api_port_arg(g, args, nargs, p);
        if (bind[p].scalar) continue;
        bind[p].address = (uint64_t)(uintptr_t)a->tensor.data;
        if (!on_host(g, a)) continue;
        uint64_t bytes = bind_extent(&bind[p]);
        Place   *place = &g->place[p];
        if (!place->address || place->bytes < bytes) {
            if (place->address) device_free(d, place->address);
            *place = (Place){device_alloc(d, bytes, g->ports[p].name, err), bytes};
            if (!place->address) return false;
        }
        bind[p].address = place->address;
        if (g->ports[p].mode != TKC_OUT && !d->ops->write(d, place->address, a->tensor.data, bytes, err)) return false;
    }
    return true;
}

static bool copy_out(tkc_graph *g, const tkc_arg *args, int nargs, const BindArg *bind, Buf *err) {
    Device *d = g->ctx->device;
    for (int p = 0; p < g->nports; p++) {
        const tkc_arg *a = api_port_arg(g, args, nargs, p);
        bool back = !bind[p].scalar && on_host(g, a) && g->ports[p].mode != TKC_IN;
        if (back && !d->ops->read(d, a->tensor.data, bind[p].address, bind_extent(&bind[p]), err)) return false;
    }
    return true;
}

static tkc_status run(tkc_graph *g, const tkc_arg *args, int nargs, void *stream, ApiCall *call, ProfileText *profile) {
    Buf        err = {0};
    if (!api_own(call, &g->heap, &g->lock)) return api_broken("graph");
    bool       copies = false;
    RunControl ctl = {.stream = stream, .profile = profile};
    if (g->stages) {
        tkc_status status = api_stages_run(g, args, nargs, &ctl, &err);
        return status ? api_failed(status, &err) : TKC_OK;
    }
    BindArg   *bind = heap_alloc(sizeof *bind * ((size_t)g->nports + 1));
    for (int i = 0; i < nargs; i++) copies |= on_host(g, &args[i]);
    ctl.no_wait = !copies && !profile;
    int        from = diag_count(g->session);
    tkc_status status = describe_args(g, args, nargs, false, bind, &err) ? TKC_OK : TKC_BAD_ARGUMENT;
    if (!status && !copy_in(g, args, nargs, bind, &err)) status = TKC_DEVICE_ERROR;
    if (!status) {
        GraphFailure why = graph_run_at(g->exec, bind, &ctl, &err);
        status = why == GRAPH_ARGUMENTS ? TKC_BAD_ARGUMENT : why == GRAPH_DEVICE ? TKC_DEVICE_ERROR : TKC_OK;
        if (api_diagnostics(g->session, from, &err)) status = TKC_BAD_SOURCE;
    }
    if (!status && copies && !copy_out(g, args, nargs, bind, &err)) status = TKC_DEVICE_ERROR;
    heap_free(bind);
    return status ? api_failed(status, &err) : TKC_OK;
}

tkc_status tkc_graph_run(tkc_graph *g, const tkc_arg *args, int nargs, void *stream) {
    API_NEEDS_AS(g, "graph");
    API_COUNT(nargs);
    if (nargs > g->nports) return api_refused("%d arguments, but the graph has %d inputs and outputs", nargs, g->nports);
    API_NEEDS_ALL(args, nargs);
    API_CALL(call);
    return run(g, args, nargs, stream, &call, NULL);
}

tkc_status tkc_graph_profile(tkc_graph *g, const tkc_arg *args, int nargs, tkc_profile_form form, char **text) {
    ProfileText p = {0};
    API_NEEDS(text);
    *text = NULL;
    API_NEEDS_AS(g, "graph");
    API_COUNT(nargs);
    if (nargs > g->nports) return api_refused("%d arguments, but the graph has %d inputs and outputs", nargs, g->nports);
    API_NEEDS_ALL(args, nargs);
    if (form < TKC_PROFILE_TABLE || form > TKC_PROFILE_HTML)
        return api_refused("there is no form %d of profiles", (int)form);
    API_CALL(call);
    api_lock(&call, &g->ctx->timing);
    tkc_status status = run(g, args, nargs, NULL, &call, &p);
    const Buf *chosen = form == TKC_PROFILE_TABLE ? &p.table : form == TKC_PROFILE_TRACE ? &p.trace : &p.page;
    if (!status) heap_release(*text = copy_text(chosen->p ? chosen->p : "", chosen->n));
    profile_free(&p);
    return status;
}

void tkc_text_free(char *text) { heap_free(text); }

void tkc_graph_stats_get(tkc_graph *g, tkc_graph_stats *out) {
    if (!out) return;
    *out = (tkc_graph_stats){0};
    if (!g) return;
    pthread_mutex_lock(&g->lock);
    GraphStats s = g->stages ? stages_stats(g->stages) : graph_stats(g->exec);
    *out = (tkc_graph_stats){.plans = s.plans,
                             .plans_made = s.plans_made,
                             .elaborated = s.elaborated,
                             .compiled = s.compiled,
                             .launches = s.launches,
                             .weight_bytes = s.kept,
                             .arena_bytes = s.arena,
                             .live_bytes = s.live,
                             .peak_bytes = s.peak};
    pthread_mutex_unlock(&g->lock);
}
