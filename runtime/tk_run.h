// The runtime as the command line sees it: compile and run a kernel on a device, run test items, time.
//
//   args.c      "x=random:f32[37,1000]" -> tensors and scalars
//   compile.c   typed kernel -> tile IR -> PTX -> loaded module, cached by meaning
//   launch.c    a kernel on host tensors
//   run.c       a kernel on arguments: `tkc run`
//   test.c      test items on a device: `tkc test`
//   timing.c    how long a launch takes (timing.h); tune.c: which way of launching is the fastest (tune.h)
//
//     Buf err = {0};
//     Device  *dev = device_open("auto", NULL, &err);
//     Runtime *rt  = runtime_new(session, dev, NULL);
//     RunArg args[2] = {0};  arg_parse("x=random:f32[37,1000]", 0, 0, &args[0], &err);
//     RunResult r;
//     if (run_item(rt, (InstanceOf){.file = file, .item = sema_find_kernel(file, "softmax")}, args, 1, &r, &err)) run_print(&r, stdout);
//     else if (err.n) fprintf(stderr, "tkc: %s\n", err.p);      // and diagnostics, if any, are in the session
#ifndef TK_RUNTIME_TK_RUN_H
#define TK_RUNTIME_TK_RUN_H

#include "lower/lower.h"
#include "runtime/bind.h"
#include "runtime/device.h"
#include "runtime/stages.h"
#include "runtime/tensor.h"
#include "sema/graph.h"

// ---- args.c --------------------------------------------------------------------------------------

// box(64,32,swizzle128): of PTX's arguments, what a tensor map brings at once; dim[0] is of the outermost axis. rank 0: no map is meant.
typedef struct ArgBox { int rank; uint32_t dim[5]; uint8_t swizzle; bool rounds; } ArgBox;

typedef struct RunArg {                // one NAME=SPEC
    char       *name, *spec;           // owned
    bool        scalar;
    bool        is_path;               // SPEC names a file: read for in and inout parameters, written for out parameters
    const char *save;                  // where what is in it after the run goes, or NULL; not owned
    bool        only_saved;            // all that was said of it is --save: SPEC is that file
    Elem        as;                    // is_path: "bf16:file.npy", else EL_none
    // made at once for random:, zeros:, ones:, iota:, full(V):, uniform(LO,HI):, randint(LO,HI):
    HostTensor  tensor;
    ArgBox      box;
    bool        is_float, is_u64;      // is_u64: above INT64_MAX
    int64_t     ival;
    double      fval;
} RunArg;

// NAME=SPEC. SPEC is KIND:TYPE[SHAPE] with KIND of random, uniform(lo,hi), randint(lo,hi), zeros, ones, full(v), iota;
// a number, true or false; FILE.npy; or ELEM:FILE.npy, which says that a file of u2 holds bf16 (u1: f8), or converts
// floats to ELEM. Random data depend on the name, on `position` and on `seed` alone.
bool arg_parse(const char *text, int position, uint64_t seed, RunArg *out, Buf *err);
void arg_free(RunArg *a);
extern const char arg_help[];          // the same in words, for --help

// ---- compile.c -----------------------------------------------------------------------------------

typedef struct RuntimeOptions {
    CompileOptions compile;            // target NULL: the device's own (Device.arch)
    const SemaValue *set; int nset;    // of `<>` names that launches of graphs and test items leave open
    bool    *set_found;                // by value: some launch has left it open; or NULL
    bool     defaults;                 // nothing is chosen for launches of graphs and test items
    uint64_t seed;                     // of random data
    bool     random_weights;           // weights that no file has are made up
    uint64_t junk_seed;                // of what outputs and dead lanes hold: no result may depend on it
    bool     tries;                    // many schedules are tried: code is told apart, and the disk keeps none of it
    bool     early;                    // kernels wait for the launches before them by themselves, as those of graphs do
    bool     profile;                  // graphs: RunResult.profile
    bool     verify_values;            // RunControl.verify_values of what `run` and tests launch
    bool     twice;                    // tests: run each kernel again with other junk; outputs must be bit-equal
    bool     times;                    // tests: milliseconds of each
    FILE    *print_to;                 // what kernels print; NULL: standard output
    RunStages *stages;                 // graphs: where the time goes; NULL: not asked for
    FILE    *progress_to;              // a line that grows while many weights are loaded, a terminal's; NULL: none
} RuntimeOptions;

typedef struct Runtime Runtime;        // one session's kernels on one device
typedef struct Compiled Compiled;      // a kernel instance, ready to launch

Runtime *runtime_new(Session *s, Device *dev, const RuntimeOptions *opt);   // opt may be NULL
void     runtime_free(Runtime *rt);    // not the device
Device  *runtime_device(const Runtime *rt);
// From the cache when the same meaning was compiled before. NULL: err, or diagnostics in the session.
Compiled *runtime_compile(Runtime *rt, const TKernel *k, const Schedule *schedule, Buf *err);     // schedule: NULL is fine
typedef struct CompileStats { int compiled, reused; double ms; } CompileStats;
CompileStats runtime_stats(const Runtime *rt);

// ---- launch.c ------------------------------------------------------------------------------------

typedef struct KernelArg {             // by parameter of the kernel
    const char *origin;                // for messages, may be NULL
    bool        scalar, is_float, is_u64;
    Elem        elem;                  // scalar: EL_none is a literal
    int64_t     ival;
    double      fval;
    HostTensor *tensor;                // in, inout: given; out: data NULL is made here (elem and shape filled in)
    // RunControl.bounds: error bounds by element, or NULL; what is written gets its own (malloc)
    double     *bound;
} KernelArg;

// Called with the values of a graph as launches leave them. False: the run ends there, and is none that failed.
typedef struct RunValue {
    const char *name, *kernel;         // in the program; "once": computed from weights alone
    int         launch;                // from 1; 0: once
    Span        span;                  // of the launch
    HostTensor  tensor;                // valid during the call
} RunValue;
typedef struct RunWatch {
    bool (*see)(void *ctx, const RunValue *v);
    void  *ctx;
    void (*program)(void *ctx, int number);            // of a model in several: before each, from 1; or NULL
} RunWatch;

// JSON for chrome://tracing; HTML. Of a model in several programs: which comes next, from 1, and when it begins.
typedef struct ProfileText { Buf table, trace, page; int program; double since_us; } ProfileText;
void profile_free(ProfileText *p);

typedef struct RunControl {
    bool       on_eval;                // run on the tile IR whatever the device is (references)
    DeviceFill junk;                   // of unwritten outputs and dead lanes; FILL_ZERO: random
    uint64_t   junk_seed;
    bool       in_order;               // emu: one block after the other
    uint64_t   order_seed;             // emu: its warps in another order, asynchronous copies at other times; 0: in turns, as late as may be
    bool       verify_values;          // of a kernel: a pass that changes its results is an error (verify_values.c)
    bool       only_verify;            // .. and nothing else is done: the outputs are made, and not written
    bool       reversed;               // eval: programs from last to first
    bool       bounds;                 // eval: KernelArg.bound
    ProfileText *profile;              // graphs: run again, launch by launch, and the times here (state is updated again)
    void      *stream;                 // graphs on device addresses: of the caller's
    bool       no_wait;                // .. and the run need not be done on return
    const RunWatch *watch;             // graphs: launch by launch, each value shown
    const int64_t *dims;               // dimensions that no argument gives, by number, -1: nothing is said; or NULL
    const Schedule *schedule;          // of this launch, over that of the options; NULL: none
    // eval: looks for races (an error) and gathers out of range (lines here); NULL: does not
    Buf       *notes;
} RunControl;

// Binds, copies in, launches (compiling the general variant when a fact fails), copies out and inout tensors back.
bool kernel_launch(Runtime *rt, const TKernel *k, KernelArg *args, int nargs, const RunControl *ctl, Buf *err);

// ---- graph_run.c, graph_store.c ------------------------------------------------------------------

// The same for a graph: `args` by parameter of its head.
bool graph_launch(Runtime *rt, const TGraph *g, KernelArg *args, int nargs, const RunControl *ctl, Buf *err);
// A graph for all sizes. `known` are element types (and dimensions that must be numbers); plans are made when arguments
// first ask for them. NULL: reported.
typedef struct GraphExec GraphExec;
GraphExec *graph_open(Runtime *rt, InstanceOf of);
void graph_close(GraphExec *x);
struct OnnxModel;
// its weights are read from it, not from its file again; it outlives the runtime
void graph_model(Runtime *rt, struct OnnxModel *m);
const TKernel *graph_head(const GraphExec *x);           // its parameters; results are out
const LaunchInfo *graph_info(const GraphExec *x);        // the same for launchers
typedef enum GraphFailure { GRAPH_FINE, GRAPH_ARGUMENTS, GRAPH_DEVICE } GraphFailure;
// on device addresses, by parameter
GraphFailure graph_run_at(GraphExec *x, BindArg *args, const RunControl *ctl, Buf *err);
typedef struct GraphStats {
    int plans, plans_made, elaborated, compiled, decided, launches;
    uint64_t kept, arena, live, peak;
} GraphStats;
GraphStats graph_stats(const GraphExec *x);              // see tkc_graph_stats
bool graph_run(GraphExec *x, KernelArg *args, int nargs, const RunControl *ctl, Buf *err);
// --emit=plan for dimensions and scalars by name; what `where` defines follows.
bool graph_print_plan(GraphExec *x, const SemaValue *values, int nvalues, Buf *out, Buf *err);
// What graphs of a file ask the runtime: weights, and what launches leave open.
void runtime_serves(Runtime *rt, SemaFile *file);

// ---- run.c ---------------------------------------------------------------------------------------

typedef struct RunResult { int n; struct { Sym name; ParamMode mode; HostTensor tensor; const char *saved; } out[MAX_GRAPH_PARAMS]; Buf notes; ProfileText profile; } RunResult;

// `notes` are lines that people may want to see: gathers out of range, found on eval.
// Instantiates a kernel, or elaborates a graph, with what the arguments say of its dimensions and types, runs it, saves
// `out=file.npy`. Every parameter but out tensors must be given; an out tensor may be, to give its shape.
bool run_item(Runtime *rt, InstanceOf of, RunArg *args, int nargs, RunResult *result, Buf *err);
void run_print(const RunResult *r, FILE *to);          // "y: f32[37, 1000]" and the tensor, or where it was saved
void run_result_free(RunResult *r);
bool args_load(const Node *kernel, RunArg *args, int nargs, Buf *err);     // reads the files of parameters that are read
// What arguments say of a kernel's compile-time names: dimensions that stand alone in tensor types, and element types.
int  infer_values(const Node *kernel, const RunArg *args, int nargs, SemaValue *out, int max, Buf *err);   // -1: error

// ---- test.c --------------------------------------------------------------------------------------

typedef struct TestOptions {
    const char    *device;             // "eval", "emu", "cuda", "auto"
    DeviceOptions  device_options;
    RuntimeOptions run;
    const char    *filter;             // only tests whose "file: name" holds this; NULL: all
    bool           all_schedules;      // each test with all schedules instead of the chosen one alone
    int            most;               // .. of which as many at most; 0: all
    bool           only_new;           // with run.defaults: tests whose launches are others than those chosen
    bool           verbose;            // a line for each test that passes, too
    DiagStyle      diag_style;
    bool           color;
    FILE          *to;                 // NULL: standard output
} TestOptions;
typedef struct TestCounts { int passed, failed, skipped; } TestCounts;   // of tests; with all_schedules, of their schedules

// Files and folders (searched for *.tk, in order of name). Prints failures, counts, and the closing line
// "N passed, N failed, N skipped". False when something failed or nothing could be run.
bool test_paths(const char *const *paths, int n, const TestOptions *opt, TestCounts *counts);
// One test. `report`: why it failed, or what eval noted (lines).

#endif
