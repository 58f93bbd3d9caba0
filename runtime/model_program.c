// A model on a device: imported for the tensors given, written as a `.tk` program (graph/write/write.c), and that program
// run, just as if it had been read from a file.
#include <stdlib.h>
#include <string.h>

#include "graph/write/write.h"
#include "runtime/internal.h"
#include "runtime/model.h"

// The program's file would stand beside the model, so that it finds its weights there.
static const Source *written(Session *s, OnnxModel *m, Graph *g, Buf *err) {
    const char *path = onnx_path(m), *base = strrchr(path, '/');
    Buf text = {0}, name = {0};
    const Source *src = NULL;
    if (graph_write(g, base != NULL ? base + 1 : path, &text, err)) {
        buf_printf(&name, "%s.tk", path);
        src = source_add(s, name.p, text.p, text.n);
    }
    buf_free(&text);
    buf_free(&name);
    return src;
}

static const Source *from_file(Session *s, const char *path, Buf *err) {
    char *why = NULL;
    const Source *src = source_read(s, path, &why);
    if (!src) buf_puts(err, why);
    return src;
}

const Node *program_graph(const SemaFile *file, const char *path, const char *name, Buf *err) {
    int n = sema_graph_count(file);
    const Node *graph = name ? sema_find_graph(file, name) : n == 1 ? sema_graph(file, 0) : NULL;
    if (graph) return graph;
    if (name) buf_printf(err, "%s has no graph `%s`", path, name);
    else if (n == 0) buf_printf(err, "%s has no graph", path);
    else buf_printf(err, "%s has %d graphs: choose with --graph", path, n);
    return NULL;
}

static void add_diagnostics(Session *s, Buf *err) {
    if (diag_errors(s) == 0) return;
    diag_write(s, err, DIAG_short, false);
    if (err->n > 0 && err->p[err->n - 1] == '\n') err->p[--err->n] = 0;
}

bool program_open(OnnxModel *m, const ProgramOptions *opt, OnnxImport *how, ModelProgram *p, Buf *err) {
    RunStages *stages = opt->stages;
    double since = now_us();
    how->kernels = true;
    *p = (ModelProgram){.model = m, .graph = opt->graph ? opt->graph : onnx_import(m, how, err), .device = opt->opened};
    stages_lap(stages, RS_import, &since);
    if (p->graph == NULL && opt->opening) {
        Buf none = {0};
        p->device = device_found(opt->opening, &none);
        buf_free(&none);
    }
    if (p->graph == NULL) return false;
    p->session = session_new();
    const Source *src = written(p->session, m, p->graph, err);
    if (src && opt->program) src = from_file(p->session, opt->program, err);
    stages_lap(stages, RS_write, &since);
    SemaFile *file = src ? sema_file(p->session, parse_file(p->session, src)) : NULL;
    bool fine = file != NULL && diag_errors(p->session) == 0;
    bool parted = graph_stages(p->graph) != NULL;
    const Node *item = fine && !parted ? program_graph(file, src->path, opt->item, err) : NULL;
    fine = fine && (item || parted);
    stages_lap(stages, RS_check, &since);
    if (opt->opening) p->device = device_found(opt->opening, err);
    else if (fine && !p->device) p->device = device_open(opt->device ? opt->device : "auto", &opt->where, err);
    stages_lap(stages, RS_device, &since);
    if (fine && p->device)
        p->runtime = runtime_new(p->session, p->device,
                                 &(RuntimeOptions){.compile.unoptimised = how->unoptimised,
                                                   .progress_to = opt->progress_to,
                                                   .verify_values = opt->verify_values,
                                                   .stages = stages,
                                                   .random_weights = how->random_weights});
    if (p->runtime) graph_model(p->runtime, m);
    if (p->runtime && parted) p->stages = stages_open(p->runtime, file, p->graph, err);
    else if (p->runtime) p->exec = graph_open(p->runtime, (InstanceOf){.file = file, .item = item});
    if (!p->exec && !p->stages) add_diagnostics(p->session, err);
    return p->exec || p->stages;
}

// The device is left to the caller.
static void close_but_device(ModelProgram *p) {
    graph_close(p->exec);
    stages_close(p->stages);
    runtime_free(p->runtime);
    if (p->session) session_free(p->session);
    if (p->graph) graph_free(p->graph);
}

void program_close(ModelProgram *p) {
    close_but_device(p);
    device_close(p->device);
}

// ---- a call -------------------------------------------------------------------------------------------------------

typedef struct Call {
    const ModelProgram *p;
    const OnnxImport *how;
    KernelArg  args[MAX_GRAPH_PARAMS];
    HostTensor tensor[MAX_GRAPH_PARAMS];
    GTensor    in[MAX_GRAPH_PARAMS];   // by input of the graph: what is given
    bool       own[MAX_GRAPH_PARAMS];  // in[i] is a copy, or tensor[i] has room
    int        nin, nout;
} Call;

static const GTensor *given_for(const OnnxImport *how, const char *name) {
    for (int k = 0; k < how->ngiven; k++)
        if (strcmp(how->given[k].name, name) == 0) return how->given[k].tensor;
    return NULL;
}

// What is given for input i, in the element type that the graph has.
static bool give(Call *c, int i, Buf *err) {
    Elem want = graph_input_elem(c->p->graph, i);
    const GTensor *given = given_for(c->how, graph_input_name(c->p->graph, i));
    if (!given) return true;
    c->own[i] = given->elem != want && elem_is_float(want) && elem_is_float(given->elem);
    c->in[i] = *given;
    if (!model_tensor(&c->in[i], &c->tensor[i], err) || !c->own[i]) return !err->n;
    HostTensor as = {.elem = want};
    if (!tensor_make(&as, want, given->rank, c->tensor[i].dim, err)) { c->own[i] = false; return false; }
    elems_convert_all(given->elem, given->data, want, as.data, tensor_count(&as));
    c->tensor[i] = as;
    c->in[i].elem = want;
    c->in[i].data = as.data;
    c->in[i].bytes = tensor_bytes(&as);
    return true;
}

// ---- inputs that are updated in place ------------------------------------------------------------------------------
//
// They come as ONNX has them, with the rows in use; the program wants them with room for those that are added.

// The number of the donation that input i takes part in, or -1.
static int donation_of(const Graph *g, int i) {
    for (int k = 0; k < graph_donation_count(g); k++)
        if (graph_donation(g, k).state == i) return k;
    return -1;
}

// Rows of `from` to the first rows of `to`, or as many as `to` has back.
static void copy_rows(const HostTensor *from, const HostTensor *to, int axis) {
    size_t inner = (size_t)elem_bytes(from->elem), outer = 1;
    for (int d = 0; d < axis; d++) outer *= (size_t)from->dim[d];
    for (int d = axis + 1; d < from->rank; d++) inner *= (size_t)from->dim[d];
    size_t have = inner * (size_t)from->dim[axis], want = inner * (size_t)to->dim[axis], n = have < want ? have : want;
    for (size_t i = 0; i < outer; i++) memcpy((char *)to->data + i * want, (const char *)from->data + i * have, n);
}

// The number of rows in use, for the input that says it.
static bool give_rows(Call *c, Buf *err) {
    for (int k = 0; k < graph_donation_count(c->p->graph); k++) {
        GDonation d = graph_donation(c->p->graph, k);
        if (d.rows < 0 || !c->tensor[d.state].data) continue;
        int32_t n = (int32_t)c->tensor[d.state].dim[d.axis];
        if (!c->tensor[d.rows].data && !tensor_make(&c->tensor[d.rows], EL_i32, 0, NULL, err)) return false;
        c->own[d.rows] = true;
        elem_set_int(EL_i32, c->tensor[d.rows].data, 0, n);
        c->in[d.rows] = (GTensor){.elem = EL_i32, .bytes = sizeof n, .data = c->tensor[d.rows].data};
        if (graph_head(c->p->exec)->params[d.rows].kind == PK_SCALAR)
            c->args[d.rows] = (KernelArg){.scalar = true, .ival = n};
    }
    return true;
}

static bool give_room(Call *c, Buf *err) {
    const Graph *g = c->p->graph;
    char why[256] = "";
    GTensor known[MAX_GRAPH_PARAMS];
    memcpy(known, c->in, sizeof known);
    for (int i = 0; i < c->nin; i++)
        if (donation_of(g, i) >= 0) known[i].data = NULL;
    for (int i = 0; i < c->nin; i++) {
        int k = donation_of(g, i), axis = k < 0 ? -1 : graph_donation(g, k).axis;
        HostTensor wide = {0};
        int64_t rows[MAX_RANK];
        if (axis < 0 || !c->tensor[i].data) continue;
        memcpy(rows, c->tensor[i].dim, sizeof rows);
        if (!graph_donated_rows(g, k, known, &rows[axis], why, sizeof why)) return buf_puts(err, why), false;
        if (!tensor_make(&wide, c->tensor[i].elem, c->tensor[i].rank, rows, err)) return false;
        copy_rows(&c->tensor[i], &wide, axis);
        if (c->own[i]) g_tensor_free(&c->in[i]);
        c->own[i] = true;
        c->tensor[i] = wide;
        c->in[i] = (GTensor){.elem = wide.elem, .rank = wide.rank, .bytes = tensor_bytes(&wide), .data = wide.data};
        for (int d = 0; d < wide.rank; d++) c->in[i].shape[d] = wide.dim[d];
    }
    return true;
}

// ---- results -------------------------------------------------------------------------------------------------------

static void take_result(HostTensor *t, GTensor *out) {
    *out = (GTensor){.elem = t->elem, .rank = t->rank, .bytes = tensor_bytes(t), .data = t->data};
    for (int d = 0; d < t->rank; d++) out->shape[d] = t->dim[d];
    t->data = NULL;
}

// By output of the model; an input that was updated is a result, too.
static bool take_results(Call *c, GTensor *outputs, Buf *err) {
    const Graph *g = c->p->graph;
    int donations = graph_donation_count(g), n = graph_made_count(g);
    for (int i = 0, k = 0; i < n; i++) {
        int state = donations ? graph_donation(g, i).state : -1;
        if (state < 0) {
            take_result(&c->tensor[c->nin + k++], &outputs[i]);
            continue;
        }
        HostTensor copy = {0}, *updated = &c->tensor[state];
        if (!tensor_copy(&copy, updated, err)) return false;
        take_result(&copy, &outputs[i]);
    }
    return true;
}

static bool open_call(Call *c, Buf *err) {
    int have = graph_head(c->p->exec)->nparams;
    if (c->nin + c->nout > MAX_GRAPH_PARAMS)
        return buf_printf(err, "a program has at most %d inputs and outputs", MAX_GRAPH_PARAMS), false;
    if (c->nin + c->nout != have)
        return buf_printf(err, "the graph has %d inputs and outputs, the model %d", have, c->nin + c->nout), false;
    for (int i = 0; i < c->nin + c->nout; i++) c->args[i].tensor = &c->tensor[i];
    for (int i = 0; i < c->nin; i++)
        if (!give(c, i, err)) return false;
    return give_rows(c, err) && give_room(c, err);
}

static Call *new_call(const ModelProgram *p, const OnnxImport *how) {
    Call *c = heap_alloc(sizeof *c);
    *c = (Call){.p = p, .how = how, .nin = graph_input_count(p->graph), .nout = graph_output_count(p->graph)};
    return c;
}

static void close_call(Call *c) {
    for (int i = 0; i < c->nin; i++)
        if (c->own[i]) tensor_free(&c->tensor[i]);           // which is in[i]
    for (int i = 0; i < c->nout; i++) tensor_free(&c->tensor[c->nin + i]);
    heap_free(c);
}

// ---- a call of several programs --------------------------------------------------------------------------------------

static bool host_result(ModelStages *x, int i, const OnnxImport *how, GTensor *out, Buf *err) {
    StageTensor t;
    if (!stages_result(x, i, false, &t, err)) return false;
    GTensor from = {.elem = t.elem, .rank = t.rank, .bytes = t.bytes, .data = t.data};
    for (int d = 0; d < t.rank; d++) from.shape[d] = t.dim[d];
    Elem as = how->dtype_io && t.elem == EL_f32 ? how->dtype : t.elem;
    return g_tensor_convert(&from, as, out) || (buf_puts(err, "out of memory"), false);
}

static bool call_stages(const ModelProgram *p, const OnnxImport *how, const RunControl *control, GTensor *outputs, Buf *err) {
    int n = graph_input_count(p->graph), made = 0;
    StageTensor *in = heap_alloc(sizeof *in * (size_t)(n + 1));
    bool fine = true;
    for (int i = 0; i < n && fine; i++) {
        const GTensor *t = given_for(how, graph_input_name(p->graph, i));
        fine = t != NULL && t->rank <= MAX_RANK;
        if (!fine) { buf_printf(err, "`%s` is not given", graph_input_name(p->graph, i)); break; }
        in[i] = (StageTensor){.given = true, .elem = t->elem, .rank = t->rank, .data = t->data};
        for (int d = 0; d < t->rank; d++) in[i].dim[d] = t->shape[d];
    }
    fine = fine && stages_run(p->stages, in, NULL, control, err) == GRAPH_FINE;
    for (int i = 0; i < graph_output_count(p->graph) && fine; i++, made += fine) fine = host_result(p->stages, i, how, &outputs[i], err);
    for (int i = 0; i < made && !fine; i++) g_tensor_free(&outputs[i]);
    heap_free(in);
    return fine;
}

bool program_call(const ModelProgram *p, const OnnxImport *how, const RunControl *control, GTensor *outputs, Buf *err) {
    bool ok = false;
    if (p->stages) ok = call_stages(p, how, control, outputs, err);
    else {
        Call *c = new_call(p, how);
        ok = open_call(c, err) && graph_run(p->exec, c->args, c->nin + c->nout, control, err) && take_results(c, outputs, err);
        close_call(c);
    }
    if (!ok) add_diagnostics(p->session, err);
    return ok;
}

// ---- as the interpreter has them -----------------------------------------------------------------------------------

int program_count(const ModelProgram *p) { return p->stages ? graph_stages(p->graph)->nstages : 1; }

static bool values_of(const GStage *at, const GTensor *in, const GTensor *between, GValues *out, Buf *err) {
    GTensor *given = heap_alloc(sizeof *given * (size_t)(at->nin + 1));
    bool fine = true;
    int n = 0;
    for (; n < at->nin && fine; n++)
        fine = g_tensor_convert(at->in[n] < 0 ? &in[-1 - at->in[n]] : &between[at->in[n]], graph_input_elem(at->graph, n), &given[n]);
    if (!fine) buf_puts(err, "out of memory");
    fine = fine && graph_values(at->graph, given, out, err);
    for (int i = 0; i < n; i++) g_tensor_free(&given[i]);
    heap_free(given);
    return fine;
}

static bool values_of_stages(const ModelProgram *p, const OnnxImport *how, GValues *out, Buf *err) {
    const GStages *s = graph_stages(p->graph);
    int  inputs = graph_input_count(p->graph), n = 0;
    char why[512] = "";
    GTensor *in = heap_alloc(sizeof *in * (size_t)(inputs + 1)), *between = heap_alloc(sizeof *between * (size_t)(s->nvalues + 1));
    bool fine = true;
    for (; n < inputs && fine; n++) {
        const GTensor *t = given_for(how, graph_input_name(p->graph, n));
        fine = t && g_tensor_convert(t, graph_input_elem(p->graph, n), &in[n]);
    }
    fine = fine && graph_between(p->graph, in, between, why, sizeof why);
    buf_puts(err, why);
    for (int i = 0; i < s->nstages && fine; i++) fine = values_of(&s->stage[i + 1], in, between, &out[i], err);
    for (int i = 0; i < n; i++) g_tensor_free(&in[i]);
    for (int i = 0; i < s->nvalues; i++) g_tensor_free(&between[i]);
    heap_free(between);
    heap_free(in);
    return fine;
}

bool program_values(const ModelProgram *p, const OnnxImport *how, GValues *out, Buf *err) {
    if (p->stages) return values_of_stages(p, how, out, err);
    Call *c = new_call(p, how);
    bool ok = open_call(c, err) && graph_values(p->graph, c->in, out, err);
    close_call(c);
    return ok;
}

bool program_run(OnnxModel *m, const ProgramOptions *opt, OnnxImport *how, const RunControl *control, GTensor *outputs,
                 Buf *err) {
    ModelProgram p;
    bool ok = program_open(m, opt, how, &p, err) && program_call(&p, how, control, outputs, err);
    double since = now_us();
    close_but_device(&p);
    if (opt->closing) *opt->closing = device_close_later(p.device);
    else device_close(p.device);
    stages_lap(opt->stages, RS_close, &since);
    return ok;
}
