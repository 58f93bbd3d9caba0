// A model and what it is run on: arguments of the command line, or a folder of recorded data.
//
//     x=random:f32[8,784]  x=x.npy  x=x.pb  x=3        inputs, as for kernels (args.c), by the names of the model
//     y=y.npy  y=y.pb                                  an argument with the name of an output says where to save it
//     input_0.pb, input_1.pb, ..                       a folder: the k-th input
#include "runtime/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/model.h"

// ---- tensors of the runtime and of the graph ---------------------------------------------------------

static GTensor as_graph(const HostTensor *t) { // shares the data
    GTensor out = {.elem = t->elem, .rank = t->rank, .bytes = tensor_bytes(t), .data = t->data};
    for (int d = 0; d < t->rank; d++) out.shape[d] = t->dim[d];
    return out;
}

bool model_tensor(const GTensor *t, HostTensor *out, Buf *err) { // shares the data
    if (t->rank > MAX_RANK)
        return buf_printf(err, "has %d dimensions; %d can be shown or saved", t->rank, MAX_RANK), false;
    *out = (HostTensor){.elem = t->elem, .rank = t->rank, .data = t->data};
    for (int d = 0; d < t->rank; d++) out->dim[d] = t->shape[d];
    return true;
}

OnnxImport model_import(const ModelCall *b, const OnnxImport *asked) {
    OnnxImport how = *asked;
    how.given = b->given;
    how.ngiven = b->n;
    return how;
}

// ---- arguments ---------------------------------------------------------------------------------------

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
        Number x = a->is_float ? number_double(a->fval) : a->is_u64 ? number_u64((uint64_t)a->ival) : number_int(a->ival);
        Buf    why = {0};
        if (!number_fits(elem, a->is_float, &x, &why)) {
            buf_printf(err, "input `%s`%s", a->name, why.p);
            return buf_free(&why), false;
        }
        if (elem_is_float(elem)) elem_set(elem, t->data, 0, x.f);
        else elem_set_int(elem, t->data, 0, x.i);
        return true;
    }
    if (!a->is_path) return true;
    if (text_ends(a->spec, ".pb")) {
        GTensor g;
        return onnx_tensor_read(a->spec, &g, err) && model_tensor(&g, t, err);
    }
    if (!npy_read(a->spec, t, err)) return false;
    if (a->as != EL_none && !tensor_convert(t, a->as, err)) return false;
    if (a->as == EL_none && t->elem != elem) tensor_reinterpret(t, elem); // u2 that is bf16
    return true;
}

static bool bind_arguments(ModelCall *b, RunArg *args, int nargs, Buf *err) {
    for (int i = 0; i < nargs; i++) {
        int input = find(b->m, false, args[i].name), output = input < 0 ? find(b->m, true, args[i].name) : -1;
        for (int k = 0; k < i; k++)
            if (strcmp(args[k].name, args[i].name) == 0)
                return buf_printf(err, "argument `%s` is given twice", args[i].name), false;
        if (output >= 0 && args[i].is_path) {
            if (!text_ends(args[i].spec, ".pb") && !npy_named(args[i].spec, err)) return false;
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

bool model_all_given(const ModelCall *b, Buf *err) {
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

// ---- folders of recorded data ------------------------------------------------------------------------

int data_tensors(const char *folder, const char *kind, GTensor *out, int most, Buf *err) {
    for (int i = 0;; i++) {
        Buf path = {0};
        struct stat st;
        buf_printf(&path, "%s/%s_%d.pb", folder, kind, i);
        bool found = stat(path.p, &st) == 0, there = found || (errno != ENOENT && errno != ENOTDIR);
        bool ok = found && i < most && onnx_tensor_read(path.p, &out[i], err);
        if (!found && there) buf_printf(err, "%s: %s", path.p, strerror(errno));
        if (found && i >= most) buf_printf(err, "%s: the model has only %d %ss", path.p, most, kind);
        buf_free(&path);
        if (there && !ok) return -1 - i;
        if (!there) return i;
    }
}

void data_reinterpret(GTensor *t, Elem elem) {
    if (elem == EL_bf16 && t->elem == EL_u16) t->elem = EL_bf16;
}

bool model_data(ModelCall *b, const char *folder, Buf *err) {
    int most = onnx_input_count(b->m, true);
    GTensor *in = heap_alloc(sizeof *in * (size_t)(most + 1));
    int n = data_tensors(folder, "input", in, most, err), read = n < 0 ? -1 - n : n;
    for (int i = 0; i < read; i++) {
        bool given = n < 0;
        for (int k = 0; k < b->nargs; k++) given |= strcmp(b->given[k].name, onnx_input_name(b->m, i)) == 0;
        if (given) {
            g_tensor_free(&in[i]);
            continue;
        }
        data_reinterpret(&in[i], onnx_input_elem(b->m, i));
        b->in[b->n] = in[i];
        b->given[b->n] = (OnnxGiven){.name = onnx_input_name(b->m, i), .tensor = &b->in[b->n]};
        b->n++;
    }
    if (n == 0 && most > 0) buf_printf(err, "%s: there is no input_0.pb", folder);
    heap_free(in);
    return n > 0 || (n == 0 && most == 0);
}

// ---- life --------------------------------------------------------------------------------------------

bool model_open(const char *path, RunArg *args, int nargs, ModelCall *b, Buf *err) {
    *b = (ModelCall){.m = onnx_read(path, err)};
    if (b->m == NULL) return false;
    size_t room = (size_t)nargs + (size_t)onnx_input_count(b->m, true) + 1;
    b->in = heap_alloc(sizeof *b->in * room);
    b->given = heap_alloc(sizeof *b->given * room);
    b->save = heap_alloc(sizeof *b->save * (size_t)(onnx_output_count(b->m) + 1));
    Buf why = {0};
    bool ok = bind_arguments(b, args, nargs, &why);
    b->nargs = b->n;
    if (!ok) buf_printf(err, "%s: %s", path, why.p);
    buf_free(&why);
    return ok;
}

void model_close(ModelCall *b) {
    for (int i = b->nargs; i < b->n; i++) g_tensor_free(&b->in[i]);
    heap_free(b->in);
    heap_free(b->given);
    heap_free(b->save);
    onnx_free(b->m);
}
