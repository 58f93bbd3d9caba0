// Fuzzing what `tkc run` reads: .npy files, and the types of tensors on the command line.
//
//     fuzz_npy -max_len=400 FOUND tests/fuzz/corpus/npy
#include "runtime/tensor.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    HostTensor t = {0};
    Buf err = {0}, text = {0};
    if (npy_parse(data, size, &t, &err)) {
        if (tensor_bytes(&t) > size) abort();            // elements that are not in the file
        tensor_print(&t, size % 50, &text);
        tensor_free(&t);
    } else if (err.n == 0) abort();
    err.n = 0;
    Elem elem;
    int rank;
    int64_t dim[MAX_RANK];
    if (!tensor_type_parse((Str){(const char *)data, size}, &elem, &rank, dim, &err) && err.n == 0) abort();
    buf_free(&err);
    buf_free(&text);
    return 0;
}
