// Whole models: run on given tensors, checked against recorded ones.
//
//   model.c        a model, its inputs, a device: `tkc run model.onnx`
//   model_program.c   the same as a program of kernels, on the devices that run those
//   model_stages.c    the same in several programs, and the interpreter between them
//   model_call.c   a model and what it is run on: arguments, folders of recorded data
//   diff.c         the first value where a device and the interpreter part: `tkc diff`
//   check_onnx.c   folders of ONNX's backend tests: `tkc check-onnx`
#ifndef TK_RUNTIME_MODEL_H
#define TK_RUNTIME_MODEL_H

#include "graph/onnx/onnx.h"
#include "graph/write/write.h"
#include "runtime/model_stages.h"
#include "runtime/tk_run.h"

// Runs a model on a device: as a program, or by the interpreter ("ref"). `outputs` has room for as many as the model
// has; their data are to be freed. False: a line in err; how->out_of_scope says whether it is something that is left
// out on purpose.
struct ProgramOptions;
// What is to be opened for a run on `device` (NULL: auto): while the model is read, say. NULL: nothing.
DeviceOpening *model_device(const char *device, const DeviceOptions *where, bool profile);
bool model_run(OnnxModel *m, const struct ProgramOptions *opt, OnnxImport *how, const RunControl *control,
               GTensor *outputs, Buf *err);

// ---- model_call.c

typedef struct ModelCall {
    OnnxModel   *m;
    GTensor     *in;                   // by what is given; the first nargs share the data of the arguments
    OnnxGiven   *given;
    int          n, nargs;
    const char **save;                 // by output: the file that an argument names, or NULL
} ModelCall;

// Reads the model and binds arguments, which are as for kernels (args.c), besides x=FILE.pb. After a failure, too, there is
// model_close to be called.
bool model_open(const char *path, RunArg *args, int nargs, ModelCall *b, Buf *err);
bool model_data(ModelCall *b, const char *folder, Buf *err);           // inputs that are not given: from input_K.pb
bool model_all_given(const ModelCall *b, Buf *err);                    // without the path
void model_close(ModelCall *b);
bool model_tensor(const GTensor *t, HostTensor *out, Buf *err);        // shares the data
// folder/KIND_0.pb, KIND_1.pb, .. as long as there are any. -1 - (how many were read): err.
int  data_tensors(const char *folder, const char *kind, GTensor *out, int most, Buf *err);
// NumPy, which recorded it, has no bf16: it comes as its bits
void data_reinterpret(GTensor *t, Elem elem);

// What was asked for, and the data of this call.
OnnxImport model_import(const ModelCall *b, const OnnxImport *asked);

// ---- running

typedef struct ModelOptions {
    FILE       *progress_to;           // see RuntimeOptions
    RunStages  *stages;
    DeviceOpening *opening;            // of the device below; consumed. NULL: opened when it is wanted
    const char *device;                // NULL, "auto": the GPU if there is one, else the interpreter; "ref": the interpreter
    DeviceOptions where;
    OnnxImport  import;                // what was asked for; what is given and the rest are filled in
    ProfileText *profile;              // NULL: not wanted
    bool         verify_values;        // see ProgramOptions
} ModelOptions;

// ---- verify_rewrites.c

// --verify=values for a model and what is given for its inputs. False: err says which rewrite changes a result, or what failed.
bool verify_rewrites(OnnxModel *m, OnnxImport *how, Buf *err);

// ---- model_program.c

typedef struct ProgramOptions {
    const char *device;
    FILE       *progress_to;           // see RuntimeOptions
    RunStages  *stages;
    DeviceOptions where;
    Device     *opened;                // the device, if it is open already; it is closed with the program
    DeviceOpening *opening;            // .. or on its way; consumed
    DeviceClosing **closing;           // program_run leaves it there on its way to be closed; NULL: it is closed then
    struct Graph *graph;               // the model imported, if it is already; taken over
    // a .tk file in place of what the model becomes, and its graph; NULL: that, its only one
    const char *program, *item;
    bool        verify_values;         // which rewrite, or pass of a kernel on eval, changes the results
} ProgramOptions;
typedef struct ModelProgram {
    OnnxModel *model;
    struct Graph *graph;
    Session *session;
    Device *device;
    Runtime *runtime;
    GraphExec *exec;
    ModelStages *stages;               // .. or the model is run in several programs
} ModelProgram;

// close it after a failure, too
bool program_open(OnnxModel *m, const ProgramOptions *opt, OnnxImport *how, ModelProgram *p, Buf *err);
void program_close(ModelProgram *p);
// The graph of that name in a file, or its only one. NULL: err.
const struct Node *program_graph(const SemaFile *file, const char *path, const char *name, Buf *err);
bool program_call(const ModelProgram *p, const OnnxImport *how, const RunControl *control, GTensor *outputs, Buf *err);
int  program_count(const ModelProgram *p);
bool program_values(const ModelProgram *p, const OnnxImport *how, GValues *out, Buf *err);     // as the interpreter has them, by program
bool program_run(OnnxModel *m, const ProgramOptions *opt, OnnxImport *how, const RunControl *control, GTensor *outputs,
                 Buf *err);
// The program itself: --emit=tk; and which kernels it has, and why: --emit=fusion.
bool model_print_program(const char *path, RunArg *args, int nargs, const ModelOptions *opt, bool fusion, Buf *out,
                         Buf *err);

// Arguments as for kernels (args.c), besides x=FILE.pb. Outputs are printed, or saved: y=FILE.npy, y=FILE.pb.
bool model_run_args(const char *path, RunArg *args, int nargs, const ModelOptions *opt, FILE *to, Buf *err);
// The graph IR of a model as text. Arguments are optional.
bool model_print_graph(const char *path, RunArg *args, int nargs, const ModelOptions *opt, Buf *out, Buf *err);

// ---- diff.c

typedef struct DiffOptions {
    const char *device;                // NULL: auto
    DeviceOptions where;
    const char *program, *item;        // as in ProgramOptions
    const char *data;                  // folder with input_K.pb, or NULL
    // |got - expected| <= atol + rtol * max|expected| of the value; rtol < 0: by element type
    double rtol, atol;
    OnnxImport import;                 // as in ModelOptions
    bool   verbose;                    // a line for each value that agrees, too
    FILE  *to;
} DiffOptions;

typedef enum DiffResult { DIFF_AGREE, DIFF_PART, DIFF_FAILED } DiffResult;
// What was found goes to opt->to; DIFF_FAILED: words in err.
DiffResult model_diff(const char *path, RunArg *args, int nargs, const DiffOptions *opt, Buf *err);

// ---- check_onnx.c

typedef struct CheckOnnxOptions {
    const char *device;
    const char *filter;                // only folders whose path holds this; NULL: all
    double rtol, atol;                 // |got - expected| <= atol + rtol * |expected|
    bool   relative_to_output;         // .. * max|expected| of the output
    OnnxImport import;                 // as in ModelOptions
    bool   verbose;                    // a line for each that passes, too; the names of what was skipped
    FILE  *to;                         // NULL: standard output
    bool verify_values;                // see ProgramOptions
} CheckOnnxOptions;

// Folders with model.onnx and test_data_set_*/{input,output}_*.pb, or folders of such. False when something failed or
// there is nothing to check.
bool check_onnx(const char *const *paths, int n, const CheckOnnxOptions *opt, TestCounts *counts);

#endif
