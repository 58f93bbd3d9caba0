// Whole models: run on given tensors, checked against recorded ones.
//
//   model.c        a model, its inputs, a device: `tkc run model.onnx`
//   model_program.c  the same as a program of kernels, on the devices that run those
//   check_onnx.c   folders of ONNX's backend tests: `tkc check-onnx`
#ifndef TK_RUNTIME_MODEL_H
#define TK_RUNTIME_MODEL_H

#include "graph/onnx.h"
#include "runtime/tk_run.h"

// Runs a model on the device ("ref"; NULL: that). `outputs` has room for as many as the model has; their data are
// to be freed. False: a line in err; how->out_of_scope says whether it is something that is left out on purpose.
bool model_run(OnnxModel *m, const char *device, OnnxImport *how, GTensor *outputs, Buf *err);

typedef struct ModelOptions {
    const char *device;
    uint64_t    seed;
    bool        random_weights;
} ModelOptions;

bool program_run(OnnxModel *m, const char *device, OnnxImport *how, GTensor *outputs, Buf *err);
// The program itself: --emit=tk; and which kernels it has, and why: --emit=fusion.
bool model_print_program(const char *path, RunArg *args, int nargs, const ModelOptions *opt, bool fusion, Buf *out, Buf *err);

// Arguments as for kernels (args.c), besides x=FILE.pb. Outputs are printed, or saved: y=FILE.npy, y=FILE.pb.
bool model_run_args(const char *path, RunArg *args, int nargs, const ModelOptions *opt, FILE *to, Buf *err);
// The graph IR of a model as text. Arguments are optional.
bool model_print_graph(const char *path, RunArg *args, int nargs, const ModelOptions *opt, Buf *out, Buf *err);

typedef struct CheckOnnxOptions {
    const char *device;
    const char *filter;                // only folders whose path holds this; NULL: all
    double rtol, atol;                 // |got - expected| <= atol + rtol * |expected|
    bool   relative_to_output;         // .. * max|expected| of the output
    bool   verbose;                    // a line for each that passes, too; the names of what was skipped
    FILE  *to;                         // NULL: standard output
} CheckOnnxOptions;

// Folders with model.onnx and test_data_set_*/{input,output}_*.pb, or folders of such. False when something failed or there is
// nothing to check.
bool check_onnx(const char *const *paths, int n, const CheckOnnxOptions *opt, TestCounts *counts);

#endif
