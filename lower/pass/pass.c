// The pass driver.
//
//     canonicalise   simplify scale_past_max contract licm flatten unroll
//     partition      shrink_tiles batch_programs strip_mine stream_k rows_in_memory split_k cluster_rows
//     schedule       row_cache prefetch privatize schedule align_rows infinities neutral_padding         level 1
//     specialize     sink_guard, then the first that takes the kernel: specialize, recurrence, pipeline  level 2
//     layout         peel merge_masks layout fill_padding
//     late           lazy_reduce
//
// then llvm/*.c: one LLVM function a kernel; ptx/tidy.c and emit.c: equal values merged, the NVPTX back end.
//
// After each pass the verifier may run, the function may be written out, and lowering may stop.
//
// With --opt=none (CompileOptions.unoptimised) a pass runs only what its row names as required: what the code generator
// cannot do without. That program shares no optional pass with the default one, so that a fault of an optional pass
// shows as a difference between the two, on `eval` too, where both devices would repeat it. It is the general variant,
// its schedule has nothing but warps, and equal values are merged nowhere (ptx/tidy.c does not run either).
#include "lang/file.h"
#include "lower/pass/passes.h"
#include "lower/simplify/simplify.h"

#include <errno.h>
#include <string.h>
#include <time.h>

typedef bool PassFn(Fn *f, const CompileOptions *opt);

static bool run_simplify(Fn *f, const CompileOptions *o) { (void)o; simplify(f); return true; }
static bool run_flatten(Fn *f, const CompileOptions *o)  { (void)o; if (flatten(f)) simplify(f); return true; }
static bool run_tighten(Fn *f, const CompileOptions *o)  { (void)o; tighten(f); return true; }
static bool run_batch(Fn *f, const CompileOptions *o)    { if (batch(f, o)) simplify(f); return true; }
static bool run_extremes(Fn *f, const CompileOptions *o) {
    if (o->target->has_wgmma && extremes(f)) simplify(f);
    return true;
}
static bool run_defer(Fn *f, const CompileOptions *o)    { if (o->math != 1) defer(f); return true; }
static bool run_contract(Fn *f, const CompileOptions *o) { if (o->math != 1 && contract(f)) simplify(f); return true; }
static bool run_unroll(Fn *f, const CompileOptions *o)   { (void)o; if (unroll(f)) simplify(f); return true; }
static bool run_hoist(Fn *f, const CompileOptions *o)    { (void)o; hoist(f); return true; }
static bool run_peel(Fn *f, const CompileOptions *o)     { (void)o; if (peel(f)) simplify(f); return true; }
static bool run_masks(Fn *f, const CompileOptions *o)    { (void)o; if (masks(f)) simplify(f); return true; }
static bool run_prefetch(Fn *f, const CompileOptions *o) { if (prefetch(f, o)) simplify(f); return true; }
static bool run_share(Fn *f, const CompileOptions *o) {
    bool shared = share_rows(f, o), merges = !slices_possible(f, o) && merge_drop(f);
    if (shared || merges) simplify(f);
    return true;
}
static bool run_keep(Fn *f, const CompileOptions *o)     { if (keep_tiles(f, o)) simplify(f); return true; }
static bool run_tally(Fn *f, const CompileOptions *o)    { tally(f, o); return true; }
static bool run_chunk(Fn *f, const CompileOptions *o)    { (void)o; chunk(f); return true; }
static bool run_stream_k(Fn *f, const CompileOptions *o) { streamk(f, o); return true; }
static bool run_in_memory(Fn *f, const CompileOptions *o) { if (!f->dealt) share_in_memory(f, o); return true; }
static bool run_guard(Fn *f, const CompileOptions *o)    { (void)o; unguard(f); return true; }

// Of specialize, recurrence and pipeline the first that takes the kernel makes the rings: level 2.
static bool run_specialize(Fn *f, const CompileOptions *o) {
    bool taken = specialize(f, o), merges = merge_drop(f);
    if (merges || f->slices) simplify(f);
    if (taken) f->level = 2;
    return true;
}
static bool run_recurrence(Fn *f, const CompileOptions *o) {
    if (f->level == 1 && sequence(f, o)) f->level = 2;
    return true;
}
static bool run_pipeline(Fn *f, const CompileOptions *o) { return f->level == 2 || pipeline(f, o); }
static bool run_beyond(Fn *f, const CompileOptions *o)   { (void)o; lanes_beyond(f); return true; }
static bool run_align(Fn *f, const CompileOptions *o)    { (void)o; align_rows(f); return true; }
static bool run_infinities(Fn *f, const CompileOptions *o) { (void)o; infinities(f); return true; }
static bool run_lanes(Fn *f, const CompileOptions *o)    { (void)o; if (lanes(f)) simplify(f); return true; }

// ---- what of a pass is required

static bool need_chunk(Fn *f, const CompileOptions *o)   { (void)o; if (chunk(f)) remove_dead(f); return true; }
static bool need_merge(Fn *f, const CompileOptions *o)   { (void)o; merge_drop(f); return true; }
static bool need_lanes(Fn *f, const CompileOptions *o)   { (void)o; lanes(f); return true; }

// clang-format off
static const struct { PassInfo info; PassFn *run, *required; } passes[] = {
    {{"simplify",        "canonicalise", "folds constants, merges equal values, drops dead ones, gives dots their accumulators", 1}, run_simplify, NULL},
    {{"scale_past_max",  "canonicalise", "moves positive factors behind maxima and minima", 1}, run_extremes, NULL},
    {{"contract",        "canonicalise", "a * b + c becomes fma, rounded once (not with --math=strict)", 1}, run_contract, NULL},
    {{"licm",            "canonicalise", "moves loop-invariant code out of loops", 1}, run_hoist, NULL},
    {{"flatten",         "canonicalise", "makes one loop of a loop nest around products", 1}, run_flatten, NULL},
    {{"unroll",          "canonicalise", "writes out short loops that load what neighbours load, or that only compute", 1}, run_unroll, NULL},
    {{"shrink_tiles",    "partition",    "gives tiles no more elements than the rows have that they were made for", 1}, run_tighten, NULL},
    {{"batch_programs",  "partition",    "makes one of several short programs, their number an axis", 1}, run_batch, NULL},
    {{"strip_mine",      "partition",    "cuts tiles that no block can hold into loops over chunks of an axis", 1}, run_chunk, need_chunk},
    {{"stream_k",        "partition",    "lets persistent blocks share the iterations of the last tiles evenly", 1}, run_stream_k, NULL},
    {{"rows_in_memory",  "partition",    "lets programs share the loops of a long row and meet in memory after each", 1}, run_in_memory, NULL},
    {{"split_k",         "partition",    "lets several programs share the iterations of a reduction", 1}, split_loop, NULL},
    {{"cluster_rows",    "partition",    "lets the blocks of a cluster share the loops of a long row", 1}, run_share, need_merge},
    {{"row_cache",       "schedule",     "keeps in shared memory what a later loop would load again", 1}, run_keep, NULL},
    {{"prefetch",        "schedule",     "loads ahead in loops that reduce across lanes, and in recurrences", 1}, run_prefetch, NULL},
    {{"privatize",       "schedule",     "counts in shared memory what small tensors get by atomics (privatised atomics)", 1}, run_tally, NULL},
    {{"schedule",        "schedule",     "chooses warps for a program and programs for a block", 1}, schedule, schedule},
    {{"align_rows",      "schedule",     "shifts unaligned rows so that threads access 16 bytes at once", 1}, run_align, NULL},
    {{"infinities",      "schedule",     "computes tiles again in f32 where TF32 made NaN of an infinity", 1}, run_infinities, NULL},
    {{"neutral_padding", "schedule",     "gives padding a neutral value where a reduction would count it", 1}, run_lanes, need_lanes},
    {{"sink_guard",      "specialise",   "moves an `if` around a loop of products into its iterations", 1}, run_guard, NULL},
    {{"specialize",      "specialise",   "gives warps roles on Hopper: a producer copies by TMA, consumers multiply by wgmma", 1}, run_specialize, NULL},
    {{"recurrence",      "specialise",   "copies what recurrences read some iterations ahead, by cp.async", 1}, run_recurrence, NULL},
    {{"pipeline",        "specialise",   "gives the operands of products rings in shared memory, filled ahead of use", 2}, run_pipeline, NULL},
    {{"peel",            "layout",       "gives iterations without padding and masks a body of their own (steady state)", 2}, run_peel, NULL},
    {{"merge_masks",     "layout",       "merges a mask and the bounds check of its axis into one comparison", 2}, run_masks, NULL},
    {{"layout",          "layout",       "assigns every tile to registers, lanes and warps; inserts conversions", 2}, assign_layouts, assign_layouts},
    {{"fill_padding",    "layout",       "gives places past a tile a neutral value where a layout has some", 2}, run_beyond, run_beyond},
    {{"lazy_reduce",     "late",         "combines the lanes of a reduction once, after the loop (not with --math=strict)", 2}, run_defer, NULL},
};
// clang-format on

enum { PASSES = sizeof passes / sizeof *passes };
const int pass_count = PASSES;
const PassInfo *pass_info(int i) { return &passes[i].info; }
bool pass_required(int i) { return passes[i].required != NULL; }

static double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static bool dump(Fn *f, const char *dir, int number, const char *pass) {
    char path[4096];
    Buf text = {0};
    snprintf(path, sizeof path, "%s/%s.%02d-%s.tir", dir, f->launch->entry, number, pass);
    ir_print(f, &text);
    bool ok = file_replace(path, &(FilePart){text.p, text.n}, 1);
    if (!ok) diag(f->session, E_cannot_write, (Span){0, 0}, path, strerror(errno));
    buf_free(&text);
    return ok;
}

static void verify(Fn *f, const char *pass) {
    Buf text = {0};
    if (ir_verify(f, &text) == 0) { buf_free(&text); return; }
    fputs(text.p, stderr);
    buf_free(&text);
    schedule_text(&f->with->schedule, &text);
    ice("the tile IR of `%s` (%s) is broken after the pass `%s`", f->launch->entry, text.n ? text.p : "no schedule", pass);
}

bool lower_run(Fn *f, const CompileOptions *opt) {
    f->fast = !opt->general && !opt->unoptimised;
    f->target = opt->target;
    CompileOptions *with = NEW(f->arena, CompileOptions);
    *with = *opt;
    if (opt->unoptimised) with->schedule = (Schedule){.warps = opt->schedule.warps};
    f->with = with;
    if (opt->verify) verify(f, "build");
    if (opt->dump_dir && !dump(f, opt->dump_dir, 0, "build")) return false;
    if (opt->passed) opt->passed(opt->passed_ctx, f, "build");
    if (opt->after && !strcmp(opt->after, "build")) return true;
    bool laid_out = false;
    if (!within_bounds(f, laid_out)) return false;
    for (int i = 0; i < PASSES; i++) {
        double t = now_ms();
        PassFn *run = opt->unoptimised ? passes[i].required : passes[i].run;
        bool ok = run == NULL || run(f, with);
        if (opt->timing) opt->timing(opt->timing_ctx, passes[i].info.name, now_ms() - t);
        laid_out |= passes[i].run == assign_layouts;
        if (!ok || !within_bounds(f, laid_out)) return false;
        if (f->level < passes[i].info.level) f->level = passes[i].info.level;
        if (opt->verify) verify(f, passes[i].info.name);
        if (opt->passed) opt->passed(opt->passed_ctx, f, passes[i].info.name);
        if (opt->dump_dir && !dump(f, opt->dump_dir, i + 1, passes[i].info.name)) return false;
        if (opt->after && !strcmp(opt->after, passes[i].info.name)) return true;
    }
    return true;
}
