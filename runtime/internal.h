// What the files of runtime/ share and nobody else needs.
#ifndef TK_RUNTIME_INTERNAL_H
#define TK_RUNTIME_INTERNAL_H

#include "runtime/tk_run.h"

extern const DeviceOps cuda_ops, emu_ops, eval_ops;

char *copy_text(const char *s, size_t n);
void  host_huge(void *p, size_t n);                      // memory that was not touched yet: large pages, if there are some
void  host_touch(void *p, size_t n);                     // .. of zeros: it is there afterwards, by several threads
double now_us(void);
void junk_fill(void *p, uint64_t bytes, DeviceFill fill, uint64_t seed);   // what DeviceOps.fill writes
// One line out of many: newlines become "; ", trailing ones go.
void one_line(Buf *out, const char *text, size_t n);
// same bits where that is meant (tensor_reinterpret), else the same numbers
bool tensor_convert(HostTensor *t, Elem to, Buf *err);
bool slot_fits(const Bound *b, const LaunchSlot *s, int64_t *v);   // *v: value of a number slot; false: not in its size
void launch_text(const DeviceLaunch *l, Buf *out);       // "`scale` (grid 8, block 128, 0 bytes of shared memory)"

// compile.c: code of one variant on the runtime's device, and the tile IR for eval.
// For launches of a graph, which may begin before the end of those that they follow: OF_A_GRAPH, and parameters, by
// bit, that nothing writes meanwhile.
#define OF_A_GRAPH (UINT64_C(1) << 63)
Compiled *runtime_compile_fixed(Runtime *rt, const TKernel *k, const Schedule *schedule, uint64_t fixed, Buf *err);
// prints.c: what the threads of a launch print, put together as tiles.
typedef struct Prints Prints;
Prints *prints_new(FILE *to);
void    prints_add(Prints *p, uint32_t thread, const char *text, size_t n);
void    prints_flush(Prints *p);                          // writes what is left; NULL is fine, also below
const char *prints_assertion(const Prints *p);            // "assertion failed: ..", which is not written; NULL: none has
void    prints_free(Prints *p);
void  compiled_with(const Compiled *c, Buf *out);         // for messages: " (with --with=split_k=4)", or nothing
bool  compiled_tried(const Compiled *c, bool general);   // made, or in vain
bool  compiled_kernel(Runtime *rt, Compiled *c, const LaunchInfo **info, DeviceKernel *k, bool general, Buf *err);
// Variants that were not made yet, together: on as many threads as there are cores.
bool  compile_all(Runtime *rt, Compiled **list, const bool *general, int n, Buf *err);
// Reads what the cache on disk has of those that use facts, for compile_all, before the device is ready. True: machine code of each, so that
// nothing is left but to load it.
bool  compile_fetch(Runtime *rt, Compiled *const *list, int n);
// The same, but one that fails does not stop the others: why[i] says why.
void  compile_each(Runtime *rt, Compiled **list, const bool *general, int n, Buf *why);
// For who tries schedules (RuntimeOptions.tries). What all launches from now on are asked for; `set` outlives them.
void  runtime_asks(Runtime *rt, const Schedule *with, const SemaValue *set, int nset, bool defaults);
// None of the words asked is in the kernel, or it does not compile: `why`, and there may be diagnostics.
bool  compiled_refused(Runtime *rt, Compiled *c, const Schedule *asked, Buf *why);
// Of its code and of how it is launched: the same for the same. 0: it does not compile.
uint64_t compiled_sum(Runtime *rt, Compiled *c, Buf *err);
// of the code for the target, nothing loaded; on eval
const LaunchInfo *compiled_info(Runtime *rt, Compiled *c, bool general, Buf *err);
Fn   *compiled_eval(const Compiled *c);                  // not lowered
uint64_t compiled_meaning(const Compiled *c);            // a sum of it: the same whatever the schedule is
// For --verify=values. Runs the passes on a function of its own; shows it after each (CompileOptions.passed).
typedef void Passed(void *ctx, Fn *f, const char *pass);
void  compiled_passes(Runtime *rt, const Compiled *c, bool general, Passed *passed, void *ctx);
// A variant's tile IR before all passes, after `lanes`, after the last one; NULL: the passes refuse it. Kept.
typedef enum After { AFTER_build, AFTER_lanes, AFTER_last, AFTER_ENDS } After;
Fn   *compiled_after(Runtime *rt, Compiled *c, bool general, After after);
bool  compiled_verified(const Compiled *c, uint64_t launch);         // compiled_verifies was told of it
void  compiled_verifies(Runtime *rt, Compiled *c, uint64_t launch);
typedef struct VerifyKept VerifyKept;                    // what the built IR wrote last (verify_values.c)
VerifyKept **runtime_kept(Runtime *rt);
void  verify_kept_free(VerifyKept *k);                   // NULL is fine
typedef struct GraphStore GraphStore;                    // what graphs keep on the device (graph_store.c)
GraphStore **runtime_graphs(Runtime *rt);
typedef struct GraphChoices GraphChoices;                // what was decided for their launches (graph_choose.c)
GraphChoices **runtime_choices(Runtime *rt);
void  graph_choices_free(GraphChoices *c);               // what is new goes to the cache on disk; NULL is fine
typedef struct TunedStore TunedStore;                    // what was measured here (tuned.c)
TunedStore **runtime_tuned(Runtime *rt);
// kernel_choose, after what was measured on this device.
bool runtime_choose(Runtime *rt, InstanceOf of, const CompileOptions *opt, Choice *out);
Schedule runtime_schedule(const Runtime *rt, const Schedule *own);       // a launch's own over the options'
void  graph_store_free(Runtime *rt, GraphStore *s);      // NULL is fine
// run.c
bool  arg_load(RunArg *a, Buf *err);                     // its file, if it names one
// by[p] is parameter p's argument, or NULL. k: what was written, for messages; NULL: not known.
bool  args_bind(Sym kernel, const LaunchParam *params, int nparams, const TKernel *k, RunArg *const *by, KernelArg *out, RunResult *result,
                Buf *err);
// launch.c
bool  param_written(const LaunchParam *p);               // out, inout and whatever a pointer points to
typedef struct OpenLaunch {                              // a kernel bound to device memory
    Device     *device, *host;                           // host: an eval device opened for this launch, or NULL
    Compiled   *compiled;
    const LaunchInfo *info;                              // of the variant
    Bound      *bound;
    BindArg    *args;
    int         nargs;
    bool        on_eval;
    DeviceKernel kernel;                                 // not on eval
    Prepared    prepared;
} OpenLaunch;
void  describe_arg(const KernelArg *a, BindArg *b);
bool  make_outputs(const LaunchInfo *info, KernelArg *args, const BindArg *bound, Buf *err);
DeviceFill junk_of(const RunControl *ctl);
bool eval_kernel(Runtime *rt, const Compiled *c, const LaunchInfo *info, const BindArg *args, const int64_t *dims,
                 const RunControl *ctl, EvalOptions *opt, Buf *err);
bool  launch_open(Runtime *rt, const TKernel *k, KernelArg *args, int nargs, const RunControl *ctl, OpenLaunch *l, Buf *err);
// .. of code that is loaded, by l's info: device, info, kernel and nargs are set.
bool  launch_open_code(OpenLaunch *l, KernelArg *args, Buf *err);
bool  launch_copy_out(OpenLaunch *l, KernelArg *args, Buf *err);
// verify_values.c: --verify=values for one launch, whose arguments are addresses of the host's memory. False: a pass changes a result; err says which.
bool  verify_values(Runtime *rt, Compiled *compiled, const Bound *bound, const BindArg *args, Buf *err);
void  launch_close(OpenLaunch *l);                       // after a failed launch_open too

Session *runtime_session(const Runtime *rt);
const RuntimeOptions *runtime_options(const Runtime *rt);

#endif
