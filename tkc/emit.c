// tkc FILE --emit=STAGE: the stages, from tokens to machine code.
//
//     tokens   ast   |   typed   tile   |   layout   llvm   ptx   cubin   report
//     one file           each kernel        all kernels, lowered
//
// Each kernel of the file is specialised with what --set says of it; those that are lowered go into one
// module. The PTX opens with what a launcher must know: values, dimensions, guards, parameters.
#include <string.h>
#include <unistd.h>

#include "graph/graph_passes.h"
#include "lang/shown.h"
#include "runtime/artifact.h"
#include "runtime/cuda_link.h"
#include "runtime/tk_run.h"
#include "runtime/tune.h"
#include "tkc/clock.h"
#include "tkc/compile.h"
#include "tkc/tkc.h"
#include "tkc/values.h"

// ---- one compilation -----------------------------------------------------------------------------

typedef enum Stage { ST_tokens, ST_ast, ST_typed, ST_tile, ST_layout, ST_llvm, ST_ptx, ST_cubin, ST_report, ST_plan, ST_artifact, ST_html } Stage;

typedef struct Job {
    const Options *opt;
    const char    *path;
    Stage          stage;
    Session       *s;
    CompileOptions compile;
    Clock          clock;
    Buf            out;
    TKernel       *kernel[MAX_KERNELS];
    Choice         choice[MAX_KERNELS];
    Fn            *fn[MAX_KERNELS];
    int64_t        dims[MAX_KERNELS][MAX_DIMS];          // as far as --set says; else -1
    int            n;
} Job;

static Stage stage_of(const Options *opt) {
    static const char *const names[] = {"tokens", "ast",   "typed",  "tile", "layout",   "llvm",
                                        "ptx",    "cubin", "report", "plan", "artifact", "html"};
    const char *name = opt->emit != NULL ? opt->emit : opt->after != NULL ? "tile" : "ptx";
    int i = 0;
    while (strcmp(names[i], name) != 0) i++;
    return (Stage)i;
}

static void list_kernels(Job *j, const SemaFile *file) {
    for (int i = 0; i < sema_kernel_count(file); i++) {
        const Node *k = sema_kernel(file, i);
        LineCol at = span_where(j->s, k->span.lo);
        buf_printf(&j->out, "%-24s %s:%u\n", k->sym->s, j->path, at.line);
    }
}

// The kernels of the file, specialised.
static int instantiate(Job *j, SemaFile *file) {
    const Node *nodes[MAX_KERNELS];
    Values all, set, dims;
    int status = values_read(j->opt, session_arena(j->s), &all);
    if (status != DONE) return status;
    int n = pick_kernels(file, j->path, j->opt->kernel, false, nodes, MAX_KERNELS);
    if (n == 0) return FAILED;
    status = values_check(&all, nodes, n);
    if (status != DONE) return status;
    for (int i = 0; i < n; i++) {
        values_for(&all, nodes[i], &set, &dims);
        Choice *c = &j->choice[j->n];
        if (!tuned_choose(NULL, NULL, j->s, (InstanceOf){file, nodes[i], set.at, set.n, dims.at, dims.n}, &j->compile, c)) continue;
        for (int d = 0; d < c->kernel->ndims; d++) {
            j->dims[j->n][d] = -1;
            for (int v = 0; v < dims.n; v++)
                if (strcmp(dims.at[v].name, c->kernel->dims[d].name->s) == 0) j->dims[j->n][d] = dims.at[v].ival;
        }
        j->kernel[j->n++] = c->kernel;
    }
    sema_check_imported(file);
    sema_check_names(file);
    clock_lap(&j->clock, "check");
    return report_diags(j->s, j->opt) && j->n == n ? DONE : FAILED;
}

static int build(Job *j) {
    for (int i = 0; i < j->n; i++) {
        j->fn[i] = ir_build(j->s, j->kernel[i]);
        if (j->fn[i] == NULL) {
            if (report_diags(j->s, j->opt)) fail("%s: kernel `%s` cannot be built", j->path, j->kernel[i]->name->s);
            return FAILED;
        }
        j->fn[i]->chosen = j->choice[i].why;
    }
    clock_lap(&j->clock, "build");
    return DONE;
}

static int lower(Job *j) {
    bool ok = true;
    for (int i = 0; i < j->n; i++) {
        CompileOptions own = j->compile;
        own.schedule = j->choice[i].schedule;
        bool lowered = lower_run(j->fn[i], &own);
        if (!lowered && diag_errors(j->s) == 0) fail("%s: kernel `%s` cannot be lowered", j->path, j->kernel[i]->name->s);
        ok &= lowered;
    }
    clock_lap(&j->clock, "passes");
    return report_diags(j->s, j->opt) && ok ? DONE : FAILED;
}

// ---- PTX and after -------------------------------------------------------------------------------

static void print_binding(Job *j, const TBinding *b, Buf *out) {
    buf_puts(out, "// tk: value ");
    binding_print(b, out);
    buf_printf(out, " (%s", origin_word(b->origin));
    if (b->span.hi != 0) {
        LineCol at = span_where(j->s, b->span.lo);
        if (at.src != NULL) buf_puts(out, ", "), buf_line(out, at.src->path), buf_printf(out, ":%u:%u", at.line, at.col);
    }
    buf_puts(out, ")\n");
}

static void ptx_head(Job *j, Buf *out) {
    buf_puts(out, "// ");
    buf_line(out, j->path);
    buf_printf(out, ", compiled by tkc %s for %s\n", TK_VERSION, j->compile.target->name);
    for (int i = 0; i < j->n; i++) {
        buf_puts(out, "//\n");
        const LaunchInfo *info = j->fn[i]->launch;
        if (info == NULL) continue;
        launch_print(info, out);
        for (int b = 0; b < j->kernel[i]->nbindings; b++) print_binding(j, &j->kernel[i]->bindings[b], out);
        if (info->general != NULL) {
            buf_puts(out, "//\n// the same where a fact does not hold:\n");
            launch_print(info->general, out);
        }
    }
    buf_putc(out, '\n');
}

static int emit_code(Job *j, Buf *llvm, Buf *ptx) {
    Buf text = {0};
    bool ok = lower_emit(j->s, j->fn, j->n, &j->compile, llvm, ptx != NULL ? &text : NULL);
    clock_lap(&j->clock, "code");
    ok = report_diags(j->s, j->opt) && ok;
    if (ok && ptx != NULL) {
        ptx_head(j, ptx);
        const char *body = text.n > 0 ? strstr(text.p, ".version") : NULL;     // LLVM's own head says nothing
        if (body != NULL) buf_puts(ptx, body);
    }
    buf_free(&text);
    if (!ok && diag_errors(j->s) == 0) fail("%s: no code was made", j->path);
    return ok ? DONE : FAILED;
}

static int emit_cubin(Job *j) {
    Buf ptx = {0}, log = {0}, err = {0};
    int status = emit_code(j, NULL, &ptx);
    if (status == DONE &&
        !cubin_make(session_arena(j->s), ptx.p, ptx.n, j->compile.target, cuda_cubin, &j->out, &log, &err)) {
        if (log.n > 0) put_shown(stderr, log.p, log.n);
        status = fail("%s: %s", j->path, err.p);
    }
    clock_lap(&j->clock, "ptxas");
    buf_free(&ptx), buf_free(&log), buf_free(&err);
    return status;
}

static int emit_artifact(Job *j) {
    ArtifactList list = {0};
    Buf err = {0};
    if (j->opt->out == NULL && isatty(1)) return wrong_use("--emit=artifact is not text: -o FILE says where to write it");
    bool ok = true;
    for (int i = 0; i < j->n && ok; i++) {
        CompileOptions own = j->compile;
        uint32_t given = 0;
        own.schedule = j->choice[i].schedule;
        for (int d = 0; d < j->kernel[i]->ndims; d++) given |= (uint32_t)(j->dims[i][d] >= 0) << d;
        ok = artifact_make(j->s, j->kernel[i], &own, given, &list, &err);
    }
    ok = report_diags(j->s, j->opt) && ok;
    if (!ok && diag_errors(j->s) == 0) fail("%s: %s", j->path, err.p);
    if (ok) artifact_write(j->s, list.at, (int)list.n, j->compile.target, &j->out);
    buf_free(&err);
    return ok ? DONE : FAILED;
}

// The assembler's warnings and its notes on lost performance: "(C7510) ... wgmma.mma_async instructions are serialized".
// Dynamic shared memory of a block at most: where it depends on the arguments, that of long dimensions.
static uint32_t smem_at_most(const LaunchInfo *l) {
    int64_t dims[MAX_DIMS], scalars[MAX_PARAMS] = {0}, strides[MAX_STRIDES] = {0};
    for (int i = 0; i < MAX_DIMS; i++) dims[i] = i < l->ndims && l->dims[i].fixed >= 0 ? l->dims[i].fixed : 1 << 24;
    return l->smem + (l->smem_more.n ? (uint32_t)launch_eval(l->smem_more, dims, scalars, strides) : 0);
}

static void report_notes(Arena *a, const char *log, Buf *out) {
    for (const char *line = log; line != NULL && *line != '\0';) {
        int n = (int)strcspn(line, "\n");
        char *text = arena_printf(a, "%.*s", n, line);
        char *note = strstr(text, "(C7"), *warning = strstr(text, "warning : ");
        if (note != NULL || warning != NULL) buf_printf(out, "\nthe assembler: %s\n", note != NULL ? note : warning);
        line += n + (line[n] == '\n');
    }
}

void report_machine_code(Arena *a, const char *ptx, size_t n, const Target *t, MachineBlock *block, const void *ctx, Buf *out) {
    if (ptxas_path(a) == NULL) {
        buf_puts(out, "\nmachine code: not known, there is no ptxas here\n");
        return;
    }
    Buf cubin = {0}, log = {0}, err = {0};
    PtxasInfo *e = NEW_N(a, PtxasInfo, 2 * MAX_KERNELS);
    if (!cubin_make(a, ptx, n, t, NULL, &cubin, &log, &err)) buf_printf(out, "\nmachine code: %s\n", err.p);
    else
        for (int i = 0, entries = ptxas_parse(log.p, e, 2 * MAX_KERNELS); i < entries; i++) {
            uint32_t smem = 0;
            int threads = block(ctx, e[i].entry, &smem);
            if (threads < 0) continue;
            buf_printf(out, "\nmachine code of %s (%s)\n", e[i].entry, t->name);
            buf_printf(out, "  registers    %d a thread\n", e[i].registers);
            buf_printf(out, "  spills       %d bytes stored, %d loaded\n", e[i].spill_stores, e[i].spill_loads);
            buf_printf(out, "  stack        %d bytes\n", e[i].stack);
            if (threads == 0 || t->threads_sm == 0) continue;
            int blocks = target_occupancy(t, threads, e[i].registers, smem + (uint32_t)e[i].smem);
            buf_printf(out, "  occupancy    %d blocks a multiprocessor, %d of %u threads\n", blocks, blocks * threads, t->threads_sm);
        }
    if (log.p != NULL) report_notes(a, log.p, out);
    buf_free(&cubin), buf_free(&log), buf_free(&err);
}

static int block_of(const void *job, const char *entry, uint32_t *smem) {
    const Job *j = job;
    for (int k = 0; k < j->n; k++) {
        const LaunchInfo *info = j->fn[k]->launch;
        if (info == NULL || info->entry == NULL || strcmp(info->entry, entry) != 0) continue;
        *smem = smem_at_most(info);
        return info->threads;
    }
    return 0;
}

// What the assembler says of each kernel, or why it says nothing.
static void report_code(Job *j, const Buf *ptx) {
    report_machine_code(session_arena(j->s), ptx->p, ptx->n, j->compile.target, block_of, j, &j->out);
}

static int emit_report(Job *j) {
    Buf ptx = {0};
    int status = emit_code(j, NULL, &ptx);
    for (int i = 0; i < j->n && status == DONE; i++) report_print(j->fn[i], j->dims[i], &j->out);
    if (status == DONE) report_code(j, &ptx);
    buf_free(&ptx);
    return status;
}

static int emit_html(Job *j) {
    Buf ptx = {0}, page = {0};
    int status = emit_code(j, NULL, &ptx);
    const char *slash = strrchr(j->path, '/');
    if (status == DONE) {
        report_html_begin(slash != NULL ? slash + 1 : j->path, &page);
        for (int i = 0; i < j->n; i++) report_html(j->fn[i], j->dims[i], ptx.p, &page);
        report_code(j, &ptx);                                // into the job's own text
        report_html_pre("Machine code", j->out.p, &page);
        report_html_end(&page);
        buf_free(&j->out);
        j->out = page;
    }
    buf_free(&ptx);
    return status;
}

static int emit_lowered(Job *j) {
    int status = lower(j);
    if (status != DONE) return status;
    switch (j->stage) {
    case ST_layout:
        for (int i = 0; i < j->n; i++) layout_print_all(j->fn[i], &j->out);
        return DONE;
    case ST_llvm:   return emit_code(j, &j->out, NULL);
    case ST_ptx:    return emit_code(j, NULL, &j->out);
    case ST_cubin:  return emit_cubin(j);
    case ST_report: return emit_report(j);
    case ST_html:   return emit_html(j);
    default:        break;
    }
    for (int i = 0; i < j->n; i++) ir_print(j->fn[i], &j->out);         // tile --after
    return DONE;
}

// ---- graphs --------------------------------------------------------------------------------------

// The plan for the dimensions that --set gives; those that `where` defines follow.
static int emit_plan(Job *j, SemaFile *file) {
    const Node *graph = pick_graph(file, j->path, j->opt->graph);
    if (graph == NULL) return FAILED;
    Values all, set, dims;
    Buf err = {0};
    int status = values_read(j->opt, session_arena(j->s), &all);
    if (status == DONE) status = values_check(&all, &graph, 1);
    if (status != DONE) return status;
    values_for(&all, graph, &set, &dims);
    Device  *dev = device_open("eval", NULL, &err);
    if (dev == NULL) return fail("%s", err.p);
    Runtime *rt = runtime_new(j->s, dev, &(RuntimeOptions){.compile = j->compile});
    GraphExec *x = graph_open(rt, (InstanceOf){.file = file, .item = graph, .set = set.at, .nset = set.n});
    bool ok = x != NULL && graph_print_plan(x, dims.at, dims.n, &j->out, &err);
    graph_close(x);
    ok = report_diags(j->s, j->opt) && ok;
    if (!ok && diag_errors(j->s) == 0) fail("%s: %s", j->path, err.p);
    runtime_free(rt);
    device_close(dev);
    buf_free(&err);
    return ok ? DONE : FAILED;
}

static int emit_kernels(Job *j, Node *tree) {
    SemaFile *file = sema_file(j->s, tree);
    clock_lap(&j->clock, "names");
    if (!report_diags(j->s, j->opt)) return FAILED;
    if (j->opt->list) return list_kernels(j, file), DONE;
    sema_check_graphs(file);
    sema_check_tunes(file);
    if (!report_diags(j->s, j->opt)) return FAILED;
    if (j->stage == ST_plan) return emit_plan(j, file);
    int status = instantiate(j, file);
    if (status != DONE) return status;
    if (j->stage == ST_typed) {
        for (int i = 0; i < j->n; i++) typed_print(j->s, j->kernel[i], &j->out);
        return DONE;
    }
    if (j->stage == ST_artifact) return emit_artifact(j);
    status = build(j);
    if (status != DONE) return status;
    if (j->stage > ST_tile || j->opt->after != NULL || j->opt->dump_dir != NULL) return emit_lowered(j);
    for (int i = 0; i < j->n; i++) ir_print(j->fn[i], &j->out);
    return DONE;
}

static int emit_file(Job *j) {
    int status = DONE;
    const Source *src = open_source(j->s, j->opt, &status);
    if (src == NULL) return status;
    clock_lap(&j->clock, "read");
    if (j->stage == ST_tokens) {
        tokens_print(j->s, src, &j->out);
        return report_diags(j->s, j->opt) ? DONE : FAILED;
    }
    Node *tree = parse_file(j->s, src);
    clock_lap(&j->clock, "parse");
    if (j->stage != ST_ast) return emit_kernels(j, tree);
    ast_print(j->s, tree, &j->out);                          // of a broken file too: it shows how the parser recovered
    return report_diags(j->s, j->opt) ? DONE : FAILED;
}

static int print_passes(void) {
    Buf out = {0};
    buf_puts(&out, "kernels, tile IR:\n");
    for (int i = 0; i < pass_count; i++) {
        const PassInfo *p = pass_info(i);
        buf_printf(&out, "%2d  %-23s  %-12s  %s%s\n", i + 1, p->name, p->phase, p->meaning,
                   pass_required(i) ? " (required)" : "");
    }
    buf_puts(&out, "\nmodels, graph IR:\n");
    for (int i = 1; i < graph_pass_count; i++) {
        const GraphPassInfo *p = graph_pass_info(i);
        buf_printf(&out, "%2d  %-23s  %-12s  %s%s\n", i, p->name, p->phase, p->meaning, p->required ? " (required)" : "");
    }
    bool ok = output_write(NULL, out.p, out.n);
    buf_free(&out);
    return ok ? DONE : FAILED;
}

// What is read again by a program, and so not changed; the rest is for people.
static bool is_code(Stage s) { return s == ST_tile || s == ST_layout || s == ST_llvm || s == ST_ptx || s == ST_cubin || s == ST_artifact || s == ST_html; }

int main_emit(const Options *opt) {
    if (opt->passes) return print_passes();
    if (is_model(opt)) return emit_model(opt);
    if (is_ptx(opt)) return emit_ptx(opt);
    if (opt->emit != NULL &&
        (strcmp(opt->emit, "graph") == 0 || strcmp(opt->emit, "tk") == 0 || strcmp(opt->emit, "fusion") == 0))
        return wrong_use("--emit=%s is for models: FILE.onnx", opt->emit);
    const char *model = opt->dtype != NULL    ? "--dtype"
                        : opt->dtype_io       ? "--dtype-io"
                        : opt->donate         ? "--donate"
                        : opt->fix.n > 0      ? "--fix"
                        : opt->arg.n > 0      ? "--arg"
                        : opt->random_weights ? "--random-weights"
                                              : NULL;
    if (model != NULL) return wrong_use("%s is for models: FILE.onnx", model);
    if (opt->graph != NULL && stage_of(opt) != ST_plan)
        return wrong_use("--graph is for --emit=plan, and for models; --kernel names a kernel");
    if (opt->operands.n > 1 && !strpbrk(opt->operands.at[0], "./"))
        return wrong_use("there is no command `%s`; a file is compiled by its name alone: `tkc %s`", opt->operands.at[0], opt->operands.at[1]);
    if (opt->operands.n > 1) return wrong_use("one file at a time: `%s` is the second", opt->operands.at[1]);
    static Job j;                                            // large, and there is one
    j = (Job){.opt = opt, .stage = stage_of(opt), .clock = clock_started()};
    j.path = opt->operands.n > 0 ? opt->operands.at[0] : "";
    int status = compile_options(opt, &j.compile);
    if (status != DONE) return status;
    if (j.compile.target == NULL) j.compile.target = target_default;
    if (opt->time) j.compile.timing = clock_row, j.compile.timing_ctx = &j.clock;
    j.s = session_new();
    status = emit_file(&j);
    bool whole = status == DONE || ((j.stage == ST_tokens || j.stage == ST_ast) && j.out.n > 0);
    if (whole && !(is_code(j.stage) ? output_write : output_report)(opt->out, j.out.n > 0 ? j.out.p : "", j.out.n)) status = FAILED;
    if (opt->time) clock_print(&j.clock);
    buf_free(&j.out);
    buf_free(&j.clock.rows);
    session_free(j.s);
    return status;
}
