// Running whole models: ONNX in, tensors in, tensors out.
//
// The device `ref` is the interpreter of the graph itself (graph/onnx_run.c). Arguments are those of kernels (args.c),
// by the names of the model's inputs; symbolic dimensions are found from them. An argument with the name of an output
// says where to save it.
#include "runtime/model.h"

#include <stdlib.h>
#include <string.h>

#include "graph/write.h"
#include "runtime/internal.h"

bool model_run(OnnxModel *m, const char *device, OnnxImport *how, GTensor *outputs, Buf *err) {
    if (device == NULL || strcmp(device, "ref") == 0 || strcmp(device, "auto") == 0)
        return onnx_run(m, how, outputs, err);
    return program_run(m, device, how, outputs, err);
}

// ---- tensors of the runtime and of the graph ---------------------------------------------------------

static GTensor as_graph(const HostTensor *t) { // shares the data
    GTensor out = {.elem = t->elem, .rank = t->rank, .bytes = tensor_bytes(t), .data = t->data};
    for (int d = 0; d < t->rank; d++) out.shape[d] = t->dim[d];
    return out;
}

static bool as_host(const GTensor *t, HostTensor *out, Buf *err) { // shares the data
    if (t->rank > MAX_RANK)
        return buf_printf(err, "has %d dimensions; %d can be shown or saved", t->rank, MAX_RANK), false;
    *out = (HostTensor){.elem = t->elem, .rank = t->rank, .data = t->data};
    for (int d = 0; d < t->rank; d++) out->dim[d] = t->shape[d];
    return true;
}

static bool ends_in(const char *text, const char *end) {
    size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

// ---- arguments ---------------------------------------------------------------------------------------

typedef struct Binding { // one run by arguments
    OnnxModel *m;
    GTensor *in; // by argument; those that are read are owned by the argument's HostTensor
    OnnxGiven *given;
    int n;
    const char **save; // by output
} Binding;

static int find(const OnnxModel *m, bool outputs, const char *name) {
    int n = outputs ? onnx_output_count(m) : onnx_input_count(m, true);
    for (int i = 0; i < n; i++)
        if (strcmp(outputs ? onnx_output_name(m, i) : onnx_input_name(m, i), name) == 0) return i;
    return -1;
}

static bool unknown_name(const OnnxModel *m, const char *name, Buf *err) {
    buf_printf(err, "the model has no input or output `%s`; its inputs are", name);
    for (int i = 0, n = onnx_input_count(m, false); i < n; i++) {
        buf_printf(err, "%s `%s`: ", i > 0 ? "," : "", onnx_input_name(m, i));
        onnx_input_type(m, i, err);
    }
    return false;
}

static bool read_argument(RunArg *a, Elem elem, Buf *err) {
    HostTensor *t = &a->tensor;
    if (a->scalar) {
        if (!tensor_make(t, elem, 0, NULL, err)) return false;
        if (a->is_float) elem_set(elem, t->data, 0, a->fval);
        else if (elem_is_float(elem)) elem_set(elem, t->data, 0, (double)a->ival);
        else elem_set_int(elem, t->data, 0, a->ival);
        return true;
    }
    if (!a->is_path) return true;
    if (ends_in(a->spec, ".pb")) {
        GTensor g;
        return onnx_tensor_read(a->spec, &g, err) && as_host(&g, t, err);
    }
    if (!npy_read(a->spec, t, err)) return false;
    if (a->as != EL_none && !tensor_convert(t, a->as, err)) return false;
    if (a->as == EL_none && t->elem != elem) tensor_reinterpret(t, elem); // u2 that is bf16
    return true;
}

static bool bind_arguments(Binding *b, RunArg *args, int nargs, Buf *err) {
    for (int i = 0; i < nargs; i++) {
        int input = find(b->m, false, args[i].name), output = input < 0 ? find(b->m, true, args[i].name) : -1;
        for (int k = 0; k < i; k++)
            if (strcmp(args[k].name, args[i].name) == 0)
                return buf_printf(err, "argument `%s` is given twice", args[i].name), false;
        if (output >= 0 && args[i].is_path) {
            b->save[output] = args[i].spec;
            continue;
        }
        if (output >= 0) return buf_printf(err, "`%s` is an output: give a file to save it in", args[i].name), false;
        if (input < 0) return unknown_name(b->m, args[i].name, err);
        Elem elem = onnx_input_elem(b->m, input);
        if (elem == EL_none) return buf_printf(err, "input `%s` is no tensor of numbers", args[i].name), false;
        if (!read_argument(&args[i], elem, err)) return false;
        b->in[b->n] = as_graph(&args[i].tensor);
        b->given[b->n] = (OnnxGiven){.name = args[i].name, .tensor = &b->in[b->n]};
        b->n++;
    }
    return true;
}

static bool all_given(const Binding *b, Buf *err) {
    for (int i = 0, n = onnx_input_count(b->m, false); i < n; i++) {
        bool given = false;
        for (int k = 0; k < b->n; k++) given |= strcmp(b->given[k].name, onnx_input_name(b->m, i)) == 0;
        if (given) continue;
        buf_printf(err, "the model needs an argument for `%s` (", onnx_input_name(b->m, i));
        onnx_input_type(b->m, i, err);
        return buf_puts(err, ")"), false;
    }
    return true;
}

static bool show(const char *name, const GTensor *t, const char *save, FILE *to, Buf *err) {
    HostTensor h;
    if (save != NULL && ends_in(save, ".pb")) {
        if (!onnx_tensor_write(save, name, t, err)) return false;
    } else if (!as_host(t, &h, err) || (save != NULL && !npy_write(save, &h, err))) {
        return false;
    }
    Buf text = {0};
    buf_printf(&text, "%s: ", name);
    if (!as_host(t, &h, err)) return false;
    tensor_type_text(&h, &text);
    buf_printf(&text, save != NULL ? " saved as %s\n" : "\n", save);
    if (save == NULL) tensor_print(&h, 0, &text), buf_putc(&text, '\n');
    fwrite(text.p, 1, text.n, to);
    buf_free(&text);
    return true;
}

static bool open_model(const char *path, RunArg *args, int nargs, Binding *b, Buf *err) {
    *b = (Binding){.m = onnx_read(path, err)};
    if (b->m == NULL) return false;
    b->in = checked_alloc(sizeof *b->in * (size_t)(nargs + 1));
    b->given = checked_alloc(sizeof *b->given * (size_t)(nargs + 1));
    b->save = checked_alloc(sizeof *b->save * (size_t)(onnx_output_count(b->m) + 1));
    Buf why = {0};
    bool ok = bind_arguments(b, args, nargs, &why);
    if (!ok) buf_printf(err, "%s: %s", path, why.p);
    buf_free(&why);
    return ok;
}

static void close_model(Binding *b) {
    free(b->in);
    free(b->given);
    free(b->save);
    onnx_free(b->m);
}

bool model_run_args(const char *path, RunArg *args, int nargs, const ModelOptions *opt, FILE *to, Buf *err) {
    Binding b;
    bool ok = open_model(path, args, nargs, &b, err);
    int outputs = b.m != NULL ? onnx_output_count(b.m) : 0;
    GTensor *out = checked_alloc(sizeof *out * (size_t)(outputs + 1));
    Buf why = {0};
    if (ok && !all_given(&b, &why)) ok = false, buf_printf(err, "%s: %s", path, why.p);
    OnnxImport how = {.given = b.given, .ngiven = b.n, .random_weights = opt->random_weights};
    ok = ok && model_run(b.m, opt->device, &how, out, err);
    for (int i = 0; i < outputs && ok; i++) ok = show(onnx_output_name(b.m, i), &out[i], b.save[i], to, err);
    for (int i = 0; i < outputs; i++) g_tensor_free(&out[i]);
    free(out);
    buf_free(&why);
    close_model(&b);
    return ok;
}

typedef enum Print { PRINT_GRAPH, PRINT_PROGRAM, PRINT_FUSION } Print;

static bool print_model(const char *path, RunArg *args, int nargs, const ModelOptions *opt, Print what, Buf *out,
                        Buf *err) {
    Binding b;
    bool ok = open_model(path, args, nargs, &b, err);
    OnnxImport how = {.given = b.given, .ngiven = b.n, .random_weights = opt->random_weights};
    Graph *g = ok ? onnx_import(b.m, &how, err) : NULL;
    const char *base = strrchr(path, '/');
    if (g != NULL && what == PRINT_GRAPH) graph_print(out, g);
    else if (g != NULL)
        ok = what == PRINT_PROGRAM ? graph_write(g, base != NULL ? base + 1 : path, out, err)
                                   : graph_write_fusion(g, out, err);
    ok = ok && g != NULL;
    graph_free(g);
    close_model(&b);
    return ok;
}

bool model_print_graph(const char *path, RunArg *args, int nargs, const ModelOptions *opt, Buf *out, Buf *err) {
    return print_model(path, args, nargs, opt, PRINT_GRAPH, out, err);
}

bool model_print_program(const char *path, RunArg *args, int nargs, const ModelOptions *opt, bool fusion, Buf *out,
                         Buf *err) {
    return print_model(path, args, nargs, opt, fusion ? PRINT_FUSION : PRINT_PROGRAM, out, err);
}
