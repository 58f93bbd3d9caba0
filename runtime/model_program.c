// A model on a device: imported for the tensors given, written as a `.tk` program (graph/write.c), and that program run, just
// as if it had been read from a file.
#include <stdlib.h>
#include <string.h>

#include "graph/write.h"
#include "runtime/internal.h"
#include "runtime/model.h"

// The program's file would stand beside the model, so that it finds its weights there.
static const Source *written(Session *s, OnnxModel *m, Graph *g, Buf *err)
{
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

static const Source *from_file(Session *s, const char *path, Buf *err)
{
    char *why = NULL;
    const Source *src = source_read(s, path, &why);
    if (!src) buf_puts(err, why);
    return src;
}

static const Node *pick_graph(const SemaFile *file, const char *path, const char *name, Buf *err)
{
    int n = sema_graph_count(file);
    const Node *graph = name ? sema_find_graph(file, name) : n == 1 ? sema_graph(file, 0) : NULL;
    if (graph) return graph;
    if (name) buf_printf(err, "%s has no graph `%s`", path, name);
    else if (n == 0) buf_printf(err, "%s has no graph", path);
    else buf_printf(err, "%s has %d graphs: choose with --graph", path, n);
    return NULL;
}

static void add_diagnostics(Session *s, Buf *err)
{
    char *text = NULL;
    size_t n = 0;
    FILE *to = diag_errors(s) > 0 ? open_memstream(&text, &n) : NULL;
    if (to == NULL) return;
    diag_print(s, to, DIAG_short, false);
    fclose(to);
    buf_add(err, text, n > 0 && text[n - 1] == '\n' ? n - 1 : n);
    free(text);
}

bool program_open(OnnxModel *m, const ProgramOptions *opt, OnnxImport *how, ModelProgram *p, Buf *err)
{
    *p = (ModelProgram){.graph = onnx_import(m, how, err)};
    if (p->graph == NULL) return false;
    p->session = session_new();
    const Source *src = written(p->session, m, p->graph, err);
    if (src && opt->program) src = from_file(p->session, opt->program, err);
    SemaFile *file = src ? sema_file(p->session, parse_file(p->session, src)) : NULL;
    bool fine = file != NULL && diag_errors(p->session) == 0;
    const Node *item = fine ? pick_graph(file, src->path, opt->item, err) : NULL;
    if (item) p->device = device_open(opt->device, NULL, err);
    if (p->device) p->runtime = runtime_new(p->session, p->device, &(RuntimeOptions){.random_weights = how->random_weights});
    if (p->runtime) p->exec = graph_open(p->runtime, file, item, NULL, 0, NULL, 0);
    if (!p->exec) add_diagnostics(p->session, err);
    return p->exec != NULL;
}

void program_close(ModelProgram *p)
{
    if (p->graph == NULL) return;
    graph_close(p->exec);
    runtime_free(p->runtime);
    device_close(p->device);
    session_free(p->session);
    graph_free(p->graph);
}

// What is given for input i, in the element type that the graph has.
static bool give(const ModelProgram *p, int i, const GTensor *given, GTensor *converted, HostTensor *to, Buf *err)
{
    Elem want = graph_input_elem(p->graph, i);
    bool floats = elem_is_float(want) && elem_is_float(given->elem);
    if (given->elem == want || !floats) return model_tensor(given, to, err);
    if (!g_tensor_convert(given, want, converted)) return buf_puts(err, "out of memory"), false;
    return model_tensor(converted, to, err);
}

bool program_call(const ModelProgram *p, const OnnxImport *how, const RunControl *control, GTensor *outputs, Buf *err)
{
    KernelArg args[MAX_PARAMS] = {0};
    HostTensor tensors[MAX_PARAMS] = {0};
    int nin = graph_input_count(p->graph), nout = graph_output_count(p->graph), have = graph_head(p->exec)->nparams;
    if (nin + nout > MAX_PARAMS) return buf_printf(err, "a program has at most %d inputs and outputs", MAX_PARAMS), false;
    if (nin + nout != have) return buf_printf(err, "the graph has %d inputs and outputs, the model %d", have, nin + nout), false;
    for (int i = 0; i < nin + nout; i++) args[i].tensor = &tensors[i];
    GTensor converted[MAX_PARAMS] = {0};
    bool ok = true;
    for (int i = 0; i < nin && ok; i++)
        for (int k = 0; k < how->ngiven && ok; k++)
            if (strcmp(how->given[k].name, graph_input_name(p->graph, i)) == 0) ok = give(p, i, how->given[k].tensor, &converted[i], &tensors[i], err);
    ok = ok && graph_run(p->exec, args, nin + nout, control, err);
    for (int i = 0; i < nin; i++) g_tensor_free(&converted[i]);
    for (int i = 0; i < nout; i++) {
        HostTensor *t = &tensors[nin + i];
        outputs[i] = (GTensor){.elem = t->elem, .rank = t->rank, .bytes = tensor_bytes(t), .data = ok ? t->data : NULL};
        for (int d = 0; d < t->rank; d++) outputs[i].shape[d] = t->dim[d];
        if (!ok) tensor_free(t);
    }
    if (!ok) add_diagnostics(p->session, err);
    return ok;
}

bool program_run(OnnxModel *m, const char *device, OnnxImport *how, const RunControl *control, GTensor *outputs, Buf *err)
{
    ModelProgram p;
    bool ok = program_open(m, &(ProgramOptions){.device = device}, how, &p, err) && program_call(&p, how, control, outputs, err);
    program_close(&p);
    return ok;
}
