// Running whole models: ONNX in, tensors in, tensors out.
//
// The device `ref` is the interpreter of the graph itself (graph/onnx/run.c). Arguments are those of kernels (args.c),
// by the names of the model's inputs; symbolic dimensions are found from them. An argument with the name of an output
// says where to save it.
#include "runtime/model.h"

#include <stdlib.h>
#include <string.h>

#include "graph/graph_passes.h"
#include "graph/write/write.h"
#include "lang/shown.h"
#include "runtime/internal.h"

static bool any_device(const char *device) { return device == NULL || strcmp(device, "auto") == 0; }

DeviceOpening *model_device(const char *device, const DeviceOptions *where, bool profile) {
    if (device != NULL && strcmp(device, "ref") == 0) return NULL;
    return device_open_later(!any_device(device) ? device : profile ? "auto" : "cuda", where);
}

// On a GPU, or by the interpreter, which is the fastest where there is none.
static bool run_anywhere(OnnxModel *m, const ProgramOptions *opt, OnnxImport *how, const RunControl *control,
                         GTensor *outputs, Buf *err) {
    ProgramOptions with = *opt;
    RunStages *s = opt->stages;
    Buf why = {0};
    double since = now_us();
    how->kernels = true;
    if (with.opening == NULL) with.opening = model_device(opt->device, &opt->where, false);
    with.graph = onnx_import(m, how, err);
    stages_lap(s, RS_import, &since);
    with.opened = device_found(with.opening, &why);
    stages_lap(s, RS_device, &since);
    with.opening = NULL;
    buf_free(&why);
    if (with.graph == NULL) return device_close(with.opened), false;
    if (with.opened != NULL) return program_run(m, &with, how, control, outputs, err);
    if (!how->donate && (graph_stages(with.graph) == NULL || how->dtype == EL_none)) return onnx_run_graph(m, with.graph, how, outputs, err);
    graph_free(with.graph);
    return onnx_run(m, how, outputs, err);
}

bool model_run(OnnxModel *m, const ProgramOptions *opt, OnnxImport *how, const RunControl *control, GTensor *outputs,
               Buf *err) {
    if (opt->verify_values && !verify_rewrites(m, how, err)) return false;
    if (any_device(opt->device) && control->profile == NULL) return run_anywhere(m, opt, how, control, outputs, err);
    bool ref = opt->device != NULL && strcmp(opt->device, "ref") == 0;
    return ref ? onnx_run(m, how, outputs, err) : program_run(m, opt, how, control, outputs, err);
}

static bool show(const char *name, const GTensor *t, const char *save, FILE *to, Buf *err) {
    HostTensor h;
    if (save != NULL && text_ends(save, ".pb")) {
        if (!onnx_tensor_write(save, name, t, err)) return false;
    } else if (!model_tensor(t, &h, err) || (save != NULL && !npy_write(save, &h, err))) {
        return false;
    }
    Buf text = {0};
    buf_shown(&text, name, strlen(name), SHOWN_SHORT);
    buf_puts(&text, ": ");
    if (!model_tensor(t, &h, err)) return false;
    tensor_type_text(&h, &text);
    buf_printf(&text, save != NULL ? " saved as %s\n" : "\n", save);
    if (save == NULL) tensor_print(&h, 0, &text), buf_putc(&text, '\n');
    fwrite(text.p, 1, text.n, to);
    buf_free(&text);
    return true;
}

bool model_run_args(const char *path, RunArg *args, int nargs, const ModelOptions *opt, FILE *to, Buf *err) {
    ModelCall b;
    double since = now_us();
    bool ok = model_open(path, args, nargs, &b, err);
    stages_lap(opt->stages, RS_import, &since);
    int outputs = b.m != NULL ? onnx_output_count(b.m) : 0;
    GTensor *out = heap_alloc(sizeof *out * (size_t)(outputs + 1));
    Buf why = {0};
    if (ok && !model_all_given(&b, &why)) ok = false, buf_printf(err, "%s: %s", path, why.p);
    OnnxImport how = model_import(&b, &opt->import);
    RunControl control = {.junk_seed = 1, .profile = opt->profile};
    DeviceClosing *closing = NULL;
    ProgramOptions with = {.device = opt->device,
                           .where = opt->where,
                           .progress_to = opt->progress_to,
                           .verify_values = opt->verify_values,
                           .stages = opt->stages,
                           .opening = opt->opening,
                           .closing = &closing};
    if (ok) ok = model_run(b.m, &with, &how, &control, out, err);
    else if (opt->opening != NULL) device_close(device_found(opt->opening, &why));
    for (int i = 0; i < outputs && ok; i++) ok = show(onnx_output_name(b.m, i), &out[i], b.save[i], to, err);
    fflush(to);                                              // they are there before the device is closed
    for (int i = 0; i < outputs; i++) g_tensor_free(&out[i]);
    heap_free(out);
    buf_free(&why);
    model_close(&b);
    since = now_us();
    device_closed(closing);
    stages_lap(opt->stages, RS_close, &since);
    return ok;
}

typedef enum Print { PRINT_GRAPH, PRINT_PROGRAM, PRINT_FUSION, PRINT_AFTER } Print;

static bool print_fusion(Graph *g, const OnnxImport *how, Buf *out, Buf *err) {
    GTensor *in = heap_alloc(sizeof *in * (size_t)(graph_input_count(g) + 1));
    for (int i = 0; i < graph_input_count(g); i++)
        for (int k = 0; k < how->ngiven; k++)
            if (strcmp(how->given[k].name, graph_input_name(g, i)) == 0) in[i] = *how->given[k].tensor;
    bool ok = graph_write_fusion(g, in, out, err);
    heap_free(in);
    return ok;
}

static bool print_model(const char *path, RunArg *args, int nargs, const ModelOptions *opt, Print what, Buf *out,
                        Buf *err) {
    ModelCall b;
    bool ok = model_open(path, args, nargs, &b, err);
    OnnxImport how = model_import(&b, &opt->import);
    const char *after = how.passes ? how.passes->after : NULL;
    if (after) what = strcmp(after, "fuse") == 0 ? PRINT_FUSION : PRINT_AFTER;
    how.kernels = what != PRINT_GRAPH;
    Graph *g = ok ? onnx_import(b.m, &how, err) : NULL;
    const char *base = strrchr(path, '/');
    if (g != NULL && what == PRINT_GRAPH) graph_print(out, g);
    else if (g != NULL && what == PRINT_AFTER) ok = graph_print_after(g, out, err);
    else if (g != NULL)
        ok = what == PRINT_PROGRAM ? graph_write(g, base != NULL ? base + 1 : path, out, err)
                                   : print_fusion(g, &how, out, err);
    ok = ok && g != NULL;
    graph_free(g);
    model_close(&b);
    return ok;
}

bool model_print_graph(const char *path, RunArg *args, int nargs, const ModelOptions *opt, Buf *out, Buf *err) {
    return print_model(path, args, nargs, opt, PRINT_GRAPH, out, err);
}

bool model_print_program(const char *path, RunArg *args, int nargs, const ModelOptions *opt, bool fusion, Buf *out,
                         Buf *err) {
    return print_model(path, args, nargs, opt, fusion ? PRINT_FUSION : PRINT_PROGRAM, out, err);
}
