// Measuring what a kernel leaves open: `tkc tune`, tkc_tune.
//
//   tune.c         candidates, compiled, timed on data of their own; the best is kept
//   tune_check.c   are their results the same?
//   tuned.c        what was measured, found again by whoever launches the kernel
//   tune_table.c   results as text: for people, for the cache, as a table file
//   tune_write.c   results in the source
#ifndef TK_RUNTIME_TUNE_H
#define TK_RUNTIME_TUNE_H

#include "runtime/internal.h"

typedef struct TuneRow {
    const char *choice;                    // "BM = 64, BN = 128, split = 2"; "" is the defaults
    double      expected;                  // INFINITY: the model does not know
    double      us;                        // 0: not measured, `refused` says why
    const char *refused;
} TuneRow;

typedef struct TuneResult {                // of a kernel and its dimensions
    Arena      *arena;                     // all below
    const char *kernel, *file, *device, *dims;           // "matmul", "matmul.tk", "NVIDIA H200", "M = 1024, N = 1024"
    TuneRow    *row;                       // the best first, those without a time last
    int         n;
    int         model, defaults;           // rows: what the model takes, and the defaults
    int         looked;                    // at candidates in all; those not in a row were left out by the model
    double      bytes, flops;              // of a launch: the tensors', once each; 0: not known
} TuneResult;
void tune_result_free(TuneResult *r);

// What one launch would be given. Tensors: with `host` or `device` data of that memory are copied, else they are random.
typedef struct TuneArg {
    const char *name;
    BindArg     arg;                       // kind, type, shape; scalars: the value
    const void *host;
    uint64_t    device;
} TuneArg;

typedef struct TuneOptions {
    int      most;                         // candidates to measure; 0: 32
    int      rounds;                       // of those that are left at the end; 0: 7
    bool     all;                          // nothing is left out by the model
    uint64_t seed;
    void   (*progress)(void *ctx, const char *doing, int done, int of);
    void    *ctx;
} TuneOptions;

// `known` are dimensions and element types. Tensors that `args` lacks are made from them. False: err, or diagnostics.
bool tune_kernel(Runtime *rt, InstanceOf of, const TuneArg *args, int nargs, const TuneOptions *opt, TuneResult *out, Buf *err);

// The same as the model expects it, on no device: nothing is measured, the rows are in the model's order.
bool tune_expect(Session *s, InstanceOf of, const CompileOptions *opt, TuneResult *out, Buf *err);

// ---- tune_check.c

typedef struct TuneCheck { bool have; HostTensor first[MAX_PARAMS]; } TuneCheck;
bool tune_check_begin(Device *d, const LaunchInfo *info, const BindArg *args, Buf *err);      // results are cleared
// false: they are others
bool tune_check_end(TuneCheck *c, Device *d, const LaunchInfo *info, const BindArg *args, Buf *why);
void tune_check_free(TuneCheck *c);

// ---- tuned.c

typedef struct TunedStore TunedStore;      // of this process, beside what is on disk
void tuned_store_free(TunedStore *s);      // NULL is fine
// kernel_choose, but what was measured for the same kernel, dimensions, schedule and device stands before the model. `store`
// may be NULL; `device` NULL: on whatever device of the target was measured last.
bool tuned_choose(const TunedStore *store, const char *device, Session *s, InstanceOf of, const CompileOptions *opt, Choice *out);
void tuned_keep(TunedStore **store, Session *s, InstanceOf of, const CompileOptions *opt, const TuneResult *r);

// ---- tune_table.c

void tune_bytes(const TuneResult *r, Buf *out);          // one line each, fields by tabs
bool tune_parse(const Buf *bytes, TuneResult *out);
void tune_print(const TuneResult *r, int rows, Buf *out);                // for people; rows 0: all
void tune_summary(const TuneResult *r, int n, Buf *out);                 // of several: the model against the best
void tune_table_head(Buf *out);                                          // a table file: tab-separated
void tune_table_rows(const TuneResult *r, Buf *out);

// ---- tune_write.c

// The kernel's file, with these results (of one kernel) in its tune item: a condition for each. Adds what changes as lines
// of a diff. False: err says why not.
bool tune_write(SemaFile *file, Session *s, const Node *kernel, const TuneResult *r, int n, Buf *text, Buf *diff, Buf *err);

#endif
