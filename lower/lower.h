// From a checked kernel to PTX: the one door that tkc and the runtime use.
#ifndef TK_LOWER_LOWER_H
#define TK_LOWER_LOWER_H

#include "lower/ir/ir.h"
#include "ptx/ptx.h"


typedef struct CompileOptions {
    const Target *target;
    Schedule      schedule;
    int           math;                    // 0 default, 1 strict (no contraction), 2 fast
    bool          verify;                  // run the verifier after each pass
    bool          in_graph;                // for a launch of a graph, which begins before the one before has ended: what cost_of expects of it
    bool          general;                 // the variant that assumes nothing of the arguments
    bool          unoptimised;             // only what passes require, and the general variant (pass.c)
    bool          line_info;               // .loc directives
    uint32_t      less;                    // bytes of shared memory that rings leave free besides: what a first attempt lacked (llvm/file.c)
    const char   *after;                   // stop after this pass
    const char   *dump_dir;                // NN-pass.tir after each pass
    void        (*passed)(void *ctx, Fn *f, const char *pass);   // called with the tile IR as each pass leaves it, first "build"
    void         *passed_ctx;
    void        (*timing)(void *ctx, const char *stage, double ms);
    void         *timing_ctx;
} CompileOptions;

// An instance with what it leaves open decided, as far as dimensions are known: choose.c.
typedef struct Choice {
    TKernel    *kernel;
    Schedule    schedule;
    const char *why;                       // what was decided and why, for people; NULL: nothing was
} Choice;
// False, with diagnostics in the session, where sema_instance gives NULL.
bool kernel_choose(Session *s, InstanceOf of, const CompileOptions *opt, Choice *out);
// What kernel_choose compares: candidates.c.
typedef struct Candidate {
    TKernel  *kernel;
    Schedule  schedule;                    // the whole of it
    double    us;                          // expected; INFINITY: the model does not know
    const TuneCandidate *from;             // its row of the tune item; NULL: the defaults
    bool      allowed;                     // of the defaults: the tune item's conditions hold
    double    worth;                       // the part of its time that others must stay below to be taken for it
    bool      varied;                      // another schedule than the model's own for these values: to be measured
} Candidate;
// The first is the defaults, as the model would launch them. With `schedules`, to be measured, each row comes with all
// schedules worth trying. 0: sema_instance gave NULL.
int kernel_candidates(Session *s, InstanceOf of, const CompileOptions *opt, bool schedules, Candidate **out);
int  candidate_best(const Candidate *c, int n);        // the one that kernel_choose takes
// "BM = 64, BN = 128, split = 2"; NULL: nothing but the defaults.
const char *candidate_text(Arena *a, const Candidate *c, const Schedule *given);

typedef struct PassInfo { const char *name, *phase, *meaning; int level; } PassInfo;      // level: of the tile IR behind it
extern const int pass_count;
const PassInfo *pass_info(int i);          // in the order in which they run
bool  pass_required(int i);                // something of it runs with --opt=none, too

// Runs the tile passes on f. Returns false (with a diagnostic in the session) when the kernel cannot be lowered.
bool  lower_run(Fn *f, const CompileOptions *opt);
// LLVM module of several kernels -> text. Each fn must have been lowered; fns[i] is another one afterwards where smaller rings were needed. `llvm` and `ptx` may be NULL.
bool  lower_emit(Session *s, Fn **fns, int n, const CompileOptions *opt, Buf *llvm, Buf *ptx);
// a module for each: ptx[0 .. n)
bool  lower_emit_each(Session *s, Fn **fns, int n, const CompileOptions *opt, Buf *ptx);
void  layout_print_all(Fn *f, Buf *out);   // --emit=layout
// --emit=report: decisions, buffers, widths, refusals; dims by number, -1: not known
void  report_print(Fn *f, const int64_t *dims, Buf *out);

// Why what f's options ask of this word of the schedule is not there, after lower_run; NULL: it is, or nothing was asked. Fewer
// stages than asked for are some.
const char *schedule_refusal(const Fn *f, const char *word);

// The same as a page of HTML: report_html.c. A page has a head, kernels, and an end; `ptx` holds the kernel's entry, or
// NULL.
void  report_html_begin(const char *title, Buf *out);
void  report_html(Fn *f, const int64_t *dims, const char *ptx, Buf *out);
void  report_html_pre(const char *title, const char *text, Buf *out);
void  report_html_end(Buf *out);

#endif
