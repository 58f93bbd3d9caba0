// LLVM as an assembler: a module in, PTX text out. Only lower/llvm/*.c and ptx/ include this.
//
//     PtxUnit *u = ptx_open(target, NULL);
//     ... build into ptx_module(u), types from ptx_context(u) ...
//     if (!ptx_finish(u, NULL, &ptx)) fputs(ptx_problems(u), stderr);
//     ptx_close(u);
#ifndef TK_PTX_EMIT_H
#define TK_PTX_EMIT_H

#include <llvm-c/Core.h>
#include <llvm-c/Target.h>

#include "ptx/ptx.h"

typedef struct PtxOptions {
    int         ptx_version;           // 86 for 8.6: what the instructions used need; at least the target's own is taken
    int         level;                 // code generator: 0 (the default, a third of the time) .. 3
    bool        untidied;              // equal values are not merged
    int64_t     most;                  // instructions of a function, when tidied, that the code generator is given; 0: any number
    bool        verify;                // LLVMVerifyModule before anything else
    void      (*timing)(void *ctx, const char *stage, double ms);
    void       *timing_ctx;
} PtxOptions;

typedef struct PtxUnit PtxUnit;

// An empty module for the target, its triple and data layout set. Never NULL: when LLVM cannot make one, that is an
// internal error. `opt` (NULL: all defaults) is copied.
PtxUnit       *ptx_open(const Target *t, const PtxOptions *opt);
LLVMContextRef ptx_context(const PtxUnit *u);
LLVMModuleRef  ptx_module(const PtxUnit *u);
void           ptx_need(PtxUnit *u, int ptx_version);      // an instruction of that version is used
int            ptx_version(const PtxUnit *u);

// Tidies the module (ptx/tidy.c), then runs the code generator. `llvm` (or NULL) takes the module's text as the code
// generator gets it, `ptx` (or NULL) the result. False: ptx_problems says why. A unit can be finished once.
bool           ptx_finish(PtxUnit *u, Buf *llvm, Buf *ptx);
// Where ptx_finish was false since a function has more than `most`: how many, and its name (till the unit is closed); else 0.
int64_t        ptx_too_many(const PtxUnit *u, const char **function);
const char    *ptx_problems(const PtxUnit *u);             // lines of what LLVM reported; "" if nothing
void           ptx_close(PtxUnit *u);

// LLVM's builder of instructions, which the thread's heap holds until its end.
LLVMBuilderRef ptx_builder(LLVMContextRef context);
void           ptx_builder_end(LLVMBuilderRef b);
void           ptx_tidy(LLVMModuleRef module);
void           ptx_cut(LLVMModuleRef module);              // after it: very long blocks in pieces (ptx/cut.c)

// LLVM text -> a unit with that module, for tests and experiments. NULL: `err` says why.
PtxUnit       *ptx_open_text(const Target *t, const PtxOptions *opt, const char *text, size_t n, Buf *err);

#endif
