// An LLVM module into PTX, through the LLVM-C interface.
//
// Three things here are not obvious.
//
//   Shared-memory pointers are 32 bits (-nvptx-short-ptr). Without that each shared address is a 64-bit
//   register pair. The option exists only on LLVM's command line, and changes the data layout, which is
//   therefore always taken from the target machine.
//
//   Copies are coalesced (-optimize-regalloc) also at code generator level 0, where LLVM would not: the
//   accumulators of a wgmma in flight must not move. Level 1 does so too, but spends half its time in a
//   pass over address arithmetic (straight-line strength reduction) that finds nothing here. The rule that
//   puts off copies into registers used once (-terminal-rule) costs as much as it saves: it is off.
//
//   LLVM's middle end is skipped. The tile IR has done the thinking; equal values merged (tidy.c) give the
//   same machine code as O3 in a tenth of the time.
//
//   The NVPTX code generator ends the process when it meets what it cannot select (an instruction newer
//   than the PTX version, say). A handler gets the words first, and jumps back into ptx_finish, which
//   returns false with the words and never touches that module again: its memory is leaked on purpose.
#define _GNU_SOURCE                    // memmem
#include "ptx/emit.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <llvm-c/Analysis.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Support.h>
#include <llvm-c/TargetMachine.h>

static const char triple[] = "nvptx64-nvidia-cuda";

struct PtxUnit {
    const Target        *target;
    PtxOptions           opt;
    LLVMContextRef       context;
    LLVMModuleRef        module;
    Buf                  problems;
    int64_t              too_many;     // instructions of `large`: more than opt.most
    LLVMValueRef         large;
    bool                 failed;       // LLVM reported an error
    bool                 no_memory;    // for its words
    bool                 abandoned;    // LLVM would have ended the process: nothing of it may be touched
};

// Declared by no header of an LLVM that has other targets: Target.h lists those of its own build.
extern void LLVMInitializeNVPTXTargetInfo(void);
extern void LLVMInitializeNVPTXTarget(void);
extern void LLVMInitializeNVPTXTargetMC(void);
extern void LLVMInitializeNVPTXAsmPrinter(void);

static _Thread_local jmp_buf *fatal_return;
static _Thread_local PtxUnit *fatal_unit;

typedef struct Problem { PtxUnit *u; const char *words; } Problem;

static void add_problem(void *problem) {
    const Problem *p = problem;
    Buf *to = &p->u->problems;
    buf_puts(to, p->words);
    if (to->n > 0 && to->p[to->n - 1] != '\n') buf_putc(to, '\n');
}

// LLVM may be on the stack: nothing gives up through it.
static void problem(PtxUnit *u, const char *words) {
    if (!heap_run(heap_here(), add_problem, &(Problem){u, words})) u->no_memory = true;
}

static void on_fatal(const char *reason) {
    if (fatal_return == NULL) ice("LLVM gave up: %s", reason);
    problem(fatal_unit, reason);
    longjmp(*fatal_return, 1);
}

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *unit) {
    LLVMDiagnosticSeverity severity = LLVMGetDiagInfoSeverity(info);
    if (severity != LLVMDSError && severity != LLVMDSWarning) return;
    PtxUnit *u = unit;
    char *words = LLVMGetDiagInfoDescription(info);
    problem(u, words);
    LLVMDisposeMessage(words);
    if (severity == LLVMDSError) u->failed = true;
}

static LLVMTargetRef nvptx;
static pthread_mutex_t idle_lock = PTHREAD_MUTEX_INITIALIZER, layout_lock = PTHREAD_MUTEX_INITIALIZER;

// A child of fork has the locks as they were: no thread that is not there any more may have held them.
static void before_fork(void) { pthread_mutex_lock(&idle_lock), pthread_mutex_lock(&layout_lock); }
static void after_fork(void)  { pthread_mutex_unlock(&layout_lock), pthread_mutex_unlock(&idle_lock); }

static void start(void) {
    pthread_atfork(before_fork, after_fork, after_fork);
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    const char *const args[] = {"tkc", "-nvptx-short-ptr", "-optimize-regalloc", "-terminal-rule=false"};
    LLVMParseCommandLineOptions(4, args, NULL);
    LLVMInstallFatalErrorHandler(on_fatal);
    char *words = NULL;
    if (LLVMGetTargetFromTriple(triple, &nvptx, &words)) ice("this LLVM has no NVPTX target: %s", words);
}

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static double lap(const PtxUnit *u, const char *stage, double since) {
    double now = now_ms();
    if (u->opt.timing != NULL) u->opt.timing(u->opt.timing_ctx, stage, now - since);
    return now;
}

// Machines are made once for each version of each target, and for each thread that needs one at a time: that is a tenth
// of a small kernel's time.
typedef struct Machine {
    const Target *target;
    int level, ptx_version;
    LLVMTargetMachineRef at;
    struct Machine *next;
} Machine;

static Machine *idle;

// Machines are nobody's: the next unit, of whichever program, takes one that is idle.
static Machine *machine_new(void) {
    Heap *here = heap_use(NULL);
    Machine *m = heap_try_zeroed(1, sizeof *m);
    heap_use(here);
    if (m == NULL) heap_give_up(sizeof *m);
    return m;
}

static Machine *machine_get(const PtxUnit *u) {
    Machine **at = &idle, *m;
    pthread_mutex_lock(&idle_lock);
    while ((m = *at) != NULL &&
           (m->target != u->target || m->level != u->opt.level || m->ptx_version != u->opt.ptx_version))
        at = &m->next;
    if (m != NULL) *at = m->next;
    pthread_mutex_unlock(&idle_lock);
    if (m != NULL) return m;
    char features[16];
    snprintf(features, sizeof features, "+ptx%d", u->opt.ptx_version);
    m = machine_new();
    *m = (Machine){.target = u->target, .level = u->opt.level, .ptx_version = u->opt.ptx_version};
    m->at = LLVMCreateTargetMachine(nvptx, triple, u->target->name, features, (LLVMCodeGenOptLevel)u->opt.level,
                                    LLVMRelocDefault, LLVMCodeModelDefault);
    if (m->at == NULL) ice("LLVM has no machine for %s", u->target->name);
    return m;
}

static void machine_put(Machine *m) {
    pthread_mutex_lock(&idle_lock);
    m->next = idle;
    idle = m;
    pthread_mutex_unlock(&idle_lock);
}

static void end_unit(void *unit, uint64_t none) {
    PtxUnit *u = unit;
    (void)none;
    if (u->abandoned) return;
    if (u->module != NULL) LLVMDisposeModule(u->module);
    LLVMContextDispose(u->context);
}

static PtxUnit *unit_new(const Target *t, const PtxOptions *opt) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
    PtxUnit *u = heap_alloc(sizeof *u);
    u->target = t;
    if (opt != NULL) u->opt = *opt;
    ptx_need(u, t->ptx);
    u->context = LLVMContextCreate();
    heap_hold(end_unit, u, 0);
    LLVMContextSetDiagnosticHandler(u->context, on_diagnostic, u);
    return u;
}

// The data layout, which is that of every target, as text.
static const char *layout_of(const PtxUnit *u) {
    static char *layout;
    Machine *m = machine_get(u);
    pthread_mutex_lock(&layout_lock);
    if (layout == NULL) {
        LLVMTargetDataRef data = LLVMCreateTargetDataLayout(m->at);
        layout = LLVMCopyStringRepOfTargetData(data);
        LLVMDisposeTargetData(data);
    }
    pthread_mutex_unlock(&layout_lock);
    machine_put(m);
    return layout;
}

static void adopt(PtxUnit *u, LLVMModuleRef module) {
    u->module = module;
    LLVMSetTarget(module, triple);
    LLVMSetDataLayout(module, layout_of(u));
}

PtxUnit *ptx_open(const Target *t, const PtxOptions *opt) {
    PtxUnit *u = unit_new(t, opt);
    adopt(u, LLVMModuleCreateWithNameInContext("tk", u->context));
    return u;
}

static void end_words(void *words, uint64_t none) { (void)none; LLVMDisposeMessage(words); }

static void take_words(Buf *to, char *words) {
    heap_hold(end_words, words, 0);
    buf_puts(to, words);
    heap_let_go(end_words, words, 0);
    LLVMDisposeMessage(words);
}

PtxUnit *ptx_open_text(const Target *t, const PtxOptions *opt, const char *text, size_t n, Buf *err) {
    PtxUnit *u = unit_new(t, opt);
    LLVMMemoryBufferRef buffer = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, n, "text");
    LLVMModuleRef module = NULL;
    char *words = NULL;
    if (LLVMParseIRInContext(u->context, buffer, &module, &words)) {     // takes the buffer
        take_words(err, words);
        ptx_close(u);
        return NULL;
    }
    adopt(u, module);
    return u;
}

static void end_builder(void *b, uint64_t none) { (void)none; LLVMDisposeBuilder(b); }

LLVMBuilderRef ptx_builder(LLVMContextRef context) {
    LLVMBuilderRef b = LLVMCreateBuilderInContext(context);
    heap_hold(end_builder, b, 0);
    return b;
}

void ptx_builder_end(LLVMBuilderRef b) {
    heap_let_go(end_builder, b, 0);
    LLVMDisposeBuilder(b);
}

LLVMContextRef ptx_context(const PtxUnit *u) { return u->context; }
LLVMModuleRef ptx_module(const PtxUnit *u) { return u->module; }
int ptx_version(const PtxUnit *u) { return u->opt.ptx_version; }
int64_t ptx_too_many(const PtxUnit *u, const char **function) {
    size_t n;
    if (u->too_many) *function = LLVMGetValueName2(u->large, &n);
    return u->too_many;
}
const char *ptx_problems(const PtxUnit *u) { return u->problems.n > 0 ? u->problems.p : ""; }

void ptx_need(PtxUnit *u, int version) {
    if (u->opt.ptx_version < version) u->opt.ptx_version = version;
}

static bool verified(PtxUnit *u) {
    char *words = NULL;
    bool bad = LLVMVerifyModule(u->module, LLVMReturnStatusAction, &words);
    if (bad) problem(u, words);
    LLVMDisposeMessage(words);
    return !bad;
}

// LLVM flushes small numbers in whole functions or nowhere. Its exp2 is cheap to select, a piece of assembly is not (8
// % of a softmax), so an approximate exp2 stands for the one that flushes.
static void add_text(Buf *ptx, const char *text, size_t n) {
    static const char ex2[] = "ex2.approx";
    const char *end = text + n, *at;
    while ((at = memmem(text, (size_t)(end - text), ex2, sizeof ex2 - 1)) != NULL) {
        at += sizeof ex2 - 1;
        buf_add(ptx, text, (size_t)(at - text));
        if (strncmp(at, ".f32", 4) == 0) buf_puts(ptx, ".ftz");
        text = at;
    }
    buf_add(ptx, text, (size_t)(end - text));
}

static void end_text(void *text, uint64_t none) { (void)none; LLVMDisposeMemoryBuffer(text); }

static bool generate(PtxUnit *u, Buf *ptx) {
    LLVMMemoryBufferRef text = NULL;
    char *words = NULL;
    Machine *m = machine_get(u);
    bool bad = LLVMTargetMachineEmitToMemoryBuffer(m->at, u->module, LLVMAssemblyFile, &words, &text);      // may not return
    machine_put(m);
    if (bad) {
        problem(u, words);
        LLVMDisposeMessage(words);
        return false;
    }
    heap_hold(end_text, text, 0);
    add_text(ptx, LLVMGetBufferStart(text), LLVMGetBufferSize(text));
    heap_let_go(end_text, text, 0);
    LLVMDisposeMemoryBuffer(text);
    return true;
}

static int64_t instructions(LLVMValueRef function) {
    int64_t n = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(function); b != NULL; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef v = LLVMGetFirstInstruction(b); v != NULL; v = LLVMGetNextInstruction(v)) n++;
    return n;
}

static bool few_enough(PtxUnit *u) {
    for (LLVMValueRef f = LLVMGetFirstFunction(u->module); f != NULL; f = LLVMGetNextFunction(f)) {
        int64_t n = instructions(f);
        if (n <= u->opt.most || n <= u->too_many) continue;
        u->too_many = n;
        u->large = f;
    }
    return u->too_many == 0;
}

static bool finish(PtxUnit *u, Buf *llvm, Buf *ptx) {
    double t = now_ms();
    if (u->opt.verify) {
        if (!verified(u)) return false;
        t = lap(u, "llvm verify", t);
    }
    if (!u->opt.untidied) ptx_tidy(u->module);
    if (u->opt.most && !few_enough(u)) return false;
    ptx_cut(u->module);
    t = lap(u, "llvm tidy", t);
    if (llvm != NULL) {
        take_words(llvm, LLVMPrintModuleToString(u->module));
        t = lap(u, "llvm text", t);
    }
    if (ptx != NULL) {
        if (!generate(u, ptx)) return false;
        lap(u, "llvm nvptx", t);
    }
    return !u->failed;
}

bool ptx_finish(PtxUnit *u, Buf *llvm, Buf *ptx) {
    jmp_buf back;
    volatile bool ok = false;
    jmp_buf *outer_return = fatal_return;
    PtxUnit *outer_unit = fatal_unit;
    fatal_return = &back;
    fatal_unit = u;
    // the guard ends here, however LLVM comes back
    HeapGuard guard HEAP_GUARDED = {.heap = heap_here()};
    if (setjmp(back) == 0) {
        heap_enter(&guard);
        if (setjmp(guard.back) == 0) ok = finish(u, llvm, ptx);
        else u->no_memory = true;
    } else u->abandoned = true;
    heap_leave(&guard);
    fatal_return = outer_return;
    fatal_unit = outer_unit;
    if (u->no_memory) heap_give_up(0);
    return ok && !u->abandoned;
}

void ptx_close(PtxUnit *u) {
    if (u == NULL) return;
    heap_let_go(end_unit, u, 0);
    end_unit(u, 0);
    buf_free(&u->problems);
    heap_free(u);
}
