// Fuzzing the importer: the bytes of an ONNX file to the graph IR.
//
//     fuzz_onnx -max_len=4000 FOUND tests/fuzz/corpus/onnx /usr/share/libonnx-testdata/data/...     (README.md here)
//
// What is read is lowered without tensors for its inputs, so that inputs which must be known give messages, too; then
// with small made-up ones where the model states types and shapes, and written as a program. Whatever fails must say
// why, in one line.
#include "graph/onnx/onnx.h"
#include "graph/write/write.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MOST = 8, LARGEST = 4096 };

static void check(bool ok, const Buf *err) {
    if (ok ? err->n > 0 : err->n == 0) abort();
    if (err->n > 0 && strchr(err->p, '\n') != NULL) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Buf err = {0}, text = {0};
    OnnxModel *m = onnx_parse("/nowhere/fuzz.onnx", data, size, &err);
    check(m != NULL, &err);
    err.n = 0;
    for (int pass = 0; pass < 2 && m != NULL; pass++) {
        GTensor tensor[MOST];
        OnnxGiven given[MOST];
        int n = 0;
        for (int i = 0; pass == 1 && i < onnx_input_count(m, true) && n < MOST; i++) {
            tensor[n] = (GTensor){.elem = onnx_input_elem(m, i), .rank = i % 3};
            for (int d = 0; d < tensor[n].rank; d++) tensor[n].shape[d] = 1 + (i + d) % 4;
            int64_t count = 1;
            onnx_input_shape(m, i, &tensor[n].rank, tensor[n].shape, 2);
            for (int d = 0; d < tensor[n].rank && count <= LARGEST; d++)
                count = tensor[n].shape[d] > LARGEST ? LARGEST + 1 : count * tensor[n].shape[d];
            if (tensor[n].elem == EL_none || count > LARGEST || !g_tensor_alloc(&tensor[n])) continue;
            for (size_t k = 0; k < tensor[n].bytes && size > 0; k++)
                ((uint8_t *)tensor[n].data)[k] = k % 8 == 0 ? data[(k / 8 + (size_t)i) % size] % 5 : 0;
            given[n] = (OnnxGiven){onnx_input_name(m, i), &tensor[n]};
            n++;
        }
        OnnxImport how = {.given = given,
                          .ngiven = n,
                          .random_weights = pass == 1,
                          .kernels = pass == 1,
                          .dtype = pass == 1 && size % 2 ? EL_bf16 : EL_none,
                          .dtype_io = size % 4 == 1};
        Graph *g = onnx_import(m, &how, &err);
        check(g != NULL, &err);
        err.n = 0;
        if (g != NULL) graph_print(&text, g);
        if (g != NULL && pass == 1) check(graph_write(g, "fuzz.onnx", &text, &err), &err);
        err.n = 0;
        graph_free(g);
        for (int i = 0; i < n; i++) g_tensor_free(&tensor[i]);
    }
    onnx_free(m);
    GTensor t;
    if (onnx_tensor_parse(data, size, &t, &err)) g_tensor_free(&t);
    else check(false, &err);
    buf_free(&err);
    buf_free(&text);
    return 0;
}
