// libtkc: kernels of the language tk, and whole models, compiled and run from a C or C++ program.
//
//     tkc_context *ctx;  tkc_program *prog;  tkc_launch *run;
//     if (tkc_open("auto", NULL, &ctx) || tkc_load_file(ctx, "softmax.tk", &prog)) fail(tkc_error());
//
//     tkc_arg args[] = {
//         {.name = "x", .tensor = {.data = x, .dtype = TKC_F32, .rank = 2, .dims = {37, 1000}}},
//         {.name = "y", .tensor = {.data = y, .dtype = TKC_F32, .rank = 2, .dims = {37, 1000}}},
//     };
//     if (tkc_prepare(prog, "softmax", NULL, 0, args, 2, &run)) fail(tkc_error());
//     for (;;) if (tkc_run(run, stream)) fail(tkc_error());
//
//     tkc_launch_free(run);  tkc_unload(prog);  tkc_close(ctx);
//
// Devices     cuda is a GPU through its driver; emu runs the same code on the CPU, slowly, and reports races, missing
//             waits and bad addresses; eval runs the program's meaning on the CPU. auto is cuda where there is a GPU,
//             else emu.
// Errors      Functions that can fail give TKC_OK (0) or why they failed; tkc_error() then has the words, those that the
//             command line prints, with file, line and column where there is a place. A failed call changes nothing,
//             but that tensors of a launch that failed on the device may be half written. Every argument is checked (docs/api.md):
//             NULL where something has to be, counts below 0 and numbers of no enumeration are errors; other pointers must be valid.
// Memory      A call for which this process has no memory gives TKC_NO_MEMORY. What it was making is gone. A program or graph
//             that it was changing can only be freed from then on, which gives back all that it had: other calls give
//             TKC_NO_MEMORY again. Its launches run on where their tensors are in device memory of cuda and emu. LLVM, which
//             compiles kernels, ends the process when it gets no memory itself.
// Ownership   What tkc_open, tkc_load_*, tkc_prepare and tkc_alloc give is the caller's to hand back, launches before
//             their program, programs and memory before their context. Texts and arrays that are passed in are read
//             during the call and not kept. Memory of tensors stays the caller's and must live while a launch may use it.
// Threads     A context and a program may be used from many threads at once; programs compile beside each other, and
//             what one program compiles is done one after the other. A launch is used by one thread at a time; different
//             launches run at once. A kernel may have scratch memory of its launch, so runs of one launch must be in
//             order (one stream, or streams that wait for each other).
// Cache       Compiled code is kept on disk for the next process, under TKC_CACHE_DIR, XDG_CACHE_HOME/tkc or
//             HOME/.cache/tkc, up to TKC_CACHE_MIB MiB (256), where the folder is the user's own and nobody else may write it;
//             TKC_CACHE=off turns that off. It may be removed at any time.
// CUDA        The device's primary context is used, the one that the CUDA runtime and frameworks share, and is left
//             current in the calling thread. On tensors in device memory tkc_run allocates nothing, copies nothing, takes
//             no lock and does not wait: it is one cuLaunchKernel, and may be captured into a graph of the driver, whose
//             replays use the launch's scratch memory and the program's code: both have to outlive it.
#ifndef TKC_H
#define TKC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TKC_MAX_RANK 8

typedef struct tkc_context tkc_context;      // a device
// a .tk file with what it imports, and what was compiled of it; or a file of compiled kernels
typedef struct tkc_program tkc_program;
typedef struct tkc_launch  tkc_launch;       // a kernel bound to its arguments

typedef enum tkc_status {
    TKC_OK = 0,
    TKC_BAD_ARGUMENT = 1,                    // what the caller gave: shapes, types, names; the device was not asked
    TKC_BAD_SOURCE = 2,                      // the file cannot be read, or what it says is wrong
    TKC_DEVICE_ERROR = 3,                    // there is no such device, its memory is out, or the device found a fault
    TKC_NO_MEMORY = 4,                       // memory of this process is out
} tkc_status;

// Element types. The numbers stay what they are.
typedef enum tkc_dtype {
    TKC_BOOL = 1,                            // a byte, 0 or 1
    TKC_I8 = 2, TKC_I16 = 3, TKC_I32 = 4, TKC_I64 = 5,
    TKC_U8 = 6, TKC_U16 = 7, TKC_U32 = 8, TKC_U64 = 9,
    TKC_F8E4M3 = 10, TKC_F8E5M2 = 11, TKC_F16 = 12, TKC_BF16 = 13, TKC_F32 = 14, TKC_F64 = 15,
} tkc_dtype;

typedef enum tkc_memory {
    // memory of this process: tkc_run copies in, runs, waits, and copies results back
    TKC_HOST = 0,
    // of the device (cuMemAlloc, cudaMalloc, a framework's, tkc_alloc): used where it lies
    TKC_DEVICE = 1,
} tkc_memory;

typedef struct tkc_tensor {
    // of element [0, 0, ...]; only read where the kernel does not write the parameter
    // memory that is used where it lies begins at a multiple of the element's size
    void       *data;
    tkc_memory  memory;
    tkc_dtype   dtype;
    int         rank;                        // 0 to TKC_MAX_RANK
    int64_t     dims[TKC_MAX_RANK];          // elements along each dimension, 0 is legal; [0] is outermost
    const int64_t *strides;                  // in elements, not negative; NULL: rows follow each other without gaps
} tkc_tensor;

typedef enum tkc_kind { TKC_TENSOR = 0, TKC_INT = 1, TKC_FLOAT = 2 } tkc_kind;

// An argument, by the parameter's name; the order does not matter. Every parameter is given, outputs too: theirs is the
// memory that is written. Scalars take the parameter's type if the value fits.
typedef struct tkc_arg {
    const char *name;
    tkc_kind    kind;
    tkc_tensor  tensor;                      // TKC_TENSOR
    int64_t     i;                           // TKC_INT; bool as 0 or 1, u64 by its bits
    double      f;                           // TKC_FLOAT
} tkc_arg;

// A compile-time value, as after --set: a number ("64"), "true", "false", an element type ("bf16"), a function's name
// ("gelu"). Dimensions and element types that follow from the tensors need none.
typedef struct tkc_value { const char *name, *value; } tkc_value;

typedef struct tkc_options {                 // zeros are the defaults
    int         ordinal;                     // cuda: which GPU
    const char *driver;                      // cuda: path of the driver's library; NULL: libcuda.so.1
    // cuda, Hopper and later: a launch of tkc_run may begin before the one before it on its stream has ended (programmatic
    // dependent launch), and waits before it touches memory. Of kernels from source
    int         early;
} tkc_options;

const char *tkc_version(void);               // "0.1.0"
const char *tkc_error(void);                 // words of this thread's last failure, until its next; "" before the first

// ---- context -------------------------------------------------------------------------------------

// `device` is "auto", "cuda", "emu" or "eval"; `options` may be NULL.
tkc_status  tkc_open(const char *device, const tkc_options *options, tkc_context **out);
void        tkc_close(tkc_context *ctx);                               // NULL is fine
const char *tkc_device_name(const tkc_context *ctx);                   // "cuda", "emu", "eval"
const char *tkc_device_text(const tkc_context *ctx);                   // "NVIDIA H200, sm_90, 132 multiprocessors, ..."

// Memory of the device, aligned to 256 bytes, for programs that do not manage it with other means. Copies wait until they
// are done. 0 bytes are legal; tkc_free takes NULL.
tkc_status  tkc_alloc(tkc_context *ctx, size_t bytes, void **out);
void        tkc_free(tkc_context *ctx, void *data);
tkc_status  tkc_write(tkc_context *ctx, void *to, const void *from, size_t bytes);      // to the device
tkc_status  tkc_read(tkc_context *ctx, void *to, const void *from, size_t bytes);       // from the device
tkc_status  tkc_sync(tkc_context *ctx);                                // waits for all work; faults of kernels show here

// ---- program -------------------------------------------------------------------------------------

// Reads and checks a file; "std/softmax" is one of the library that is built in. Nothing is compiled yet. A file of
// compiled kernels (`tkc FILE.tk --emit=artifact -o FILE.tkx`) is taken too, of this version of the library, on cuda
// and emu: its kernels need no compiler, and take no values.
tkc_status  tkc_load_file(tkc_context *ctx, const char *path, tkc_program **out);
// The same from memory. `name` stands in messages, and imports are looked for beside it.
tkc_status  tkc_load_text(tkc_context *ctx, const char *name, const char *text, size_t bytes, tkc_program **out);
void        tkc_unload(tkc_program *prog);                             // NULL is fine

// ---- launch --------------------------------------------------------------------------------------

// Specialises a kernel for the arguments, compiles it unless the same was compiled before, checks every shape, stride,
// type and condition, and makes the machine parameters ready. `kernel` NULL: the file's only one. May wait for the device.
tkc_status  tkc_prepare(tkc_program *prog, const char *kernel, const tkc_value *values, int nvalues,
                        const tkc_arg *args, int nargs, tkc_launch **out);
void        tkc_launch_free(tkc_launch *launch);                       // NULL is fine; work on a GPU must be done, graphs that captured it too

// Other memory of the same shape, or another value, for the runs to come. Nothing is compiled, unless an address is less
// aligned (16 bytes) than those before, or a value breaks what the compiled code assumed; then other code is made once.
tkc_status  tkc_set_data(tkc_launch *launch, const char *name, void *data);
tkc_status  tkc_set_int(tkc_launch *launch, const char *name, int64_t value);
tkc_status  tkc_set_float(tkc_launch *launch, const char *name, double value);

// Runs. `stream` is a CUstream or cudaStream_t, NULL the default stream; on emu and eval it is not used, and the run is
// done on return. With tensors in host memory the copies are part of it, and it is done on return everywhere.
tkc_status  tkc_run(tkc_launch *launch, void *stream);

// Microseconds of a run on the device without copies from and to the host: the median of `rounds` (1 to 10000) after a few
// that do not count. On the default stream; tensors are written as often as it runs.
tkc_status  tkc_time(tkc_launch *launch, int rounds, double *microseconds);

// ---- tuning --------------------------------------------------------------------------------------

typedef struct tkc_tuning {                  // what was found; texts live as long as the program
    // the best; what the model takes by itself; the defaults. 0: not measured
    double      best_us, model_us, default_us;
    int         candidates, measured;
    const char *choice;                      // of the best: "BM = 64, BN = 128, split = 2"; "" is the defaults
    const char *table;                       // all that was measured, for people
} tkc_tuning;

// Measures what the kernel leaves open, as `tkc tune` does, for arguments such as these, on a GPU. Their tensors are
// not written: data are copied, random where `data` is NULL. At most `most` candidates are measured (0: 32), which
// takes seconds. What is prepared from then on for the same dimensions takes the best, in this program and, by the
// cache on disk, in others; launches that are prepared already stay as they are. `out` may be NULL.
tkc_status tkc_tune(tkc_program *prog, const char *kernel, const tkc_value *values, int nvalues, const tkc_arg *args,
                    int nargs, int most, tkc_tuning *out);

// ---- graphs and models ---------------------------------------------------------------------------
//
//     tkc_graph_load(ctx, "model.onnx", NULL, &g);          or model.tk
//     tkc_graph_run(g, args, nargs, stream);                every input and output, by name
//
// Sizes are those of the tensors. For sizes that did not come up before a plan is made: launches are bound, what was
// not compiled is compiled, and on a GPU one graph of the driver is built. The same sizes again cost one launch of that
// graph, when the addresses are those of the run before, too. Some plans are kept, those used last.

typedef struct tkc_graph tkc_graph;

typedef struct tkc_size { const char *name; int64_t size; } tkc_size;     // of a dimension

typedef struct tkc_graph_options {           // zeros are the defaults
    const char *graph;                       // of a .tk file with several
    int         random_weights;              // make up the weights that no file has
    // models: TKC_BF16 or TKC_F16, for products and what stays in memory; 0: as it is written
    tkc_dtype   dtype;
    int         dtype_io;                    // .. inputs and outputs, too
    int         donate;                      // models: results take over the memory of inputs that they extend or update
    const tkc_arg *known; int nknown;        // models: inputs whose values decide shapes; they are no inputs any more
    int         tf32;                        // models: products of f32 are single ones of tf32 (10 bits), not three (21)
    // models: sizes that dimensions of inputs, by their names there, have for good: the program is for these alone, and faster
    const tkc_size *fixed; int nfixed;
} tkc_graph_options;

typedef enum tkc_mode { TKC_IN = 0, TKC_OUT = 1, TKC_INOUT = 2 } tkc_mode;

typedef struct tkc_port {                    // an input or output; the texts live as long as the graph
    const char *name;
    tkc_kind    kind;
    tkc_mode    mode;
    tkc_dtype   dtype;
    int         rank;
    int64_t     dims[TKC_MAX_RANK];          // -1: not fixed
    const char *dim_names[TKC_MAX_RANK];     // "batch", "past + 1"; NULL: a number
} tkc_port;

// options: NULL is fine
tkc_status  tkc_graph_load(tkc_context *ctx, const char *path, const tkc_graph_options *options, tkc_graph **out);
void        tkc_graph_free(tkc_graph *graph);                          // NULL is fine; work on a GPU must be done, graphs that captured it too
int         tkc_graph_ports(const tkc_graph *graph);
tkc_status  tkc_graph_port(const tkc_graph *graph, int i, tkc_port *out);
// Fills in type, rank and dimensions of the outputs among the arguments, by the inputs. No data are looked at.
tkc_status  tkc_graph_sizes(tkc_graph *graph, tkc_arg *args, int nargs);
// Runs. With tensors in device memory alone it does not wait, and allocates and copies nothing once there is a plan; on
// `stream`, as tkc_run. A graph's intermediate values are in memory of its own: runs of one graph must be in order.
tkc_status  tkc_graph_run(tkc_graph *graph, const tkc_arg *args, int nargs, void *stream);

// A model of which the data decide sizes (how many boxes are left, which tokens go to which expert) is several programs of kernels, and between
// them a few operations on the host. tkc_graph_sizes says -1 for what only a run finds. Memory for such an output is room: where its dimensions
// say at least as many elements as are found, they stand there from the beginning on; else the run fails. Without memory (`data` NULL,
// or no argument at all) the result stays with the graph. After a run this says what an output's shape is and where it lies, in memory
// of the kind that is asked for, until the graph's next run. tkc_graph_run waits for such models.
tkc_status  tkc_graph_result(tkc_graph *graph, const char *output, tkc_memory memory, tkc_tensor *out);

// Runs, then times each launch alone, beside the least that its bytes and operations take. What is updated in place is
// updated again. The text is to be freed.
// TRACE: JSON for chrome://tracing
typedef enum tkc_profile_form { TKC_PROFILE_TABLE = 0, TKC_PROFILE_TRACE = 1, TKC_PROFILE_HTML = 2 } tkc_profile_form;
tkc_status  tkc_graph_profile(tkc_graph *graph, const tkc_arg *args, int nargs, tkc_profile_form form, char **text);
void        tkc_text_free(char *text);

typedef struct tkc_graph_stats {
    int      plans, plans_made;              // kept now; made so far
    // .. of them by running the graph's body through, not by what an earlier one has shown
    int      elaborated;
    int      compiled;                       // kernels made so far, or taken from the cache on disk
    int      launches;                       // of the last run
    uint64_t weight_bytes;                   // on the device: weights, constants, what is computed from them
    uint64_t arena_bytes, live_bytes;        // for intermediate values; how many of those are needed at once at most
    uint64_t peak_bytes;                     // weights, what is needed to prepare them, and the arena, at most at a time
} tkc_graph_stats;
void        tkc_graph_stats_get(tkc_graph *graph, tkc_graph_stats *out);

#ifdef __cplusplus
}
#endif
#endif
