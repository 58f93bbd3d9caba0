// tkc FILE.ptx: what is in a PTX file that anyone made, and its machine code. `tkc run FILE.ptx` is in run.c.
#include <string.h>

#include "runtime/cuda_link.h"
#include "lang/shown.h"
#include "runtime/ptx_run.h"
#include "tkc/compile.h"

bool is_ptx(const Options *opt) { return opt->operands.n > 0 && text_ends(opt->operands.at[0], ".ptx"); }

// --arch, or the file's own target, which need not be one that tkc compiles for.
static Target target_for(const Options *opt, const PtxFile *f) {
    const char *name = opt->arch != NULL ? opt->arch : emu_target_name(f->outline);
    const Target *known = name != NULL ? target_find(name) : target_default;
    if (known != NULL) return *known;
    int number = (int)emu_target(f->outline);
    return (Target){.name = name, .major = number / 10, .minor = number % 10};
}

static void row(const char *name, Buf *out) { buf_printf(out, "  %-13s", name); }

static void report_threads(const EmuKernel *k, Buf *out) {
    const uint32_t *n = k->reqntid[0] ? k->reqntid : k->maxntid;
    row("block", out);
    if (!n[0]) { buf_puts(out, "as the launch says\n"); return; }
    buf_printf(out, "%s%u threads", k->reqntid[0] ? "" : "at most ", n[0] * n[1] * n[2]);
    if (n[1] * n[2] > 1) buf_printf(out, " (%u, %u, %u)", n[0], n[1], n[2]);
    buf_printf(out, ", by .%s\n", k->reqntid[0] ? "reqntid" : "maxntid");
}

static void report_classes(const EmuModule *code, const char *name, Buf *out) {
    const EmuKernel *k = emu_find_kernel(code, name);
    uint32_t n[EMU_CLASS_COUNT], shown = 0;
    emu_kernel_classes(code, k, n);
    row("instructions", out);
    buf_printf(out, "%u", k->instructions);
    for (int c = 0; c < EMU_CLASS_COUNT; c++)
        if (n[c]) buf_printf(out, "%s%u %s", shown++ ? ", " : ": ", n[c], emu_class_name((EmuClass)c));
    buf_putc(out, '\n');
}

static void report_entry(const PtxFile *f, const EmuModule *code, const EmuKernel *k, Buf *out) {
    const EmuKernel *decoded = code != NULL ? emu_find_kernel(code, k->name) : NULL;
    buf_putc(out, '\n');
    ptx_signature(k, out);
    buf_putc(out, '\n');
    report_threads(k, out);
    if (k->reqcluster[0]) {
        row("cluster", out);
        buf_printf(out, "%u blocks, by .reqnctapercluster\n", k->reqcluster[0] * k->reqcluster[1] * k->reqcluster[2]);
    }
    if (decoded != NULL && (decoded->static_shared || k->dynamic_shared)) {
        row("shared", out);
        buf_printf(out, "%u bytes%s\n", decoded->static_shared, k->dynamic_shared ? ", and what the launch says" : "");
    }
    if (decoded != NULL && decoded->local_bytes) {
        row("local", out);
        buf_printf(out, "%u bytes a thread\n", decoded->local_bytes);
    }
    if (decoded != NULL) report_classes(code, k->name, out);
    if (ptx_head(f, k) != NULL) {
        row("launch", out);
        buf_puts(out, "as the head of the file says\n");
    }
}

typedef struct Wanted { const PtxFile *file; const EmuKernel *only; } Wanted;

static int block_of(const void *wanted, const char *entry, uint32_t *smem) {
    const Wanted *w = wanted;
    const EmuKernel *k = emu_find_kernel(w->file->outline, entry);
    const LaunchInfo *head = k != NULL ? ptx_head(w->file, k) : NULL;
    if (w->only != NULL && w->only != k) return -1;
    *smem = head != NULL ? head->smem : 0;
    return k == NULL || (k->dynamic_shared && head == NULL) ? 0 : (int)(k->reqntid[0] * k->reqntid[1] * k->reqntid[2]);
}

static int report(const Options *opt, const PtxFile *f, Arena *a, Buf *out) {
    Buf err = {0};
    const EmuKernel *only = opt->kernel != NULL ? ptx_entry(f, opt->kernel, &err) : NULL;
    int status = opt->kernel != NULL && only == NULL ? fail("%s", err.p) : DONE;
    Target t = target_for(opt, f);
    EmuModule *code = emu_load(f->emu, f->text, f->n);
    uint32_t version = emu_ptx_version(f->outline);
    buf_printf(out, "%s: PTX %u.%u for %s\n", f->path, version / 10, version % 10, emu_target_name(f->outline));
    if (code == NULL) {
        buf_puts(out, "the emulator does not run it: ");
        ptx_place(f->path, emu_message(f->emu), out);
        buf_putc(out, '\n');
    }
    for (size_t i = 0; i < emu_kernel_count(f->outline); i++) {
        const EmuKernel *k = emu_kernel(f->outline, i);
        if (only == NULL || only == k) report_entry(f, code, k, out);
    }
    if (status == DONE) report_machine_code(a, f->text, f->n, &t, block_of, &(Wanted){f, only}, out);
    buf_free(&err);
    return status;
}

static int cubin(const Options *opt, const PtxFile *f, Arena *a, Buf *out) {
    Target t = target_for(opt, f);
    Buf log = {0}, err = {0};
    int status = DONE;
    if (!cubin_make(a, f->text, f->n, &t, cuda_cubin, out, &log, &err)) {
        if (log.n > 0) put_shown(stderr, log.p, log.n);
        status = fail("%s: %s", f->path, err.p);
    }
    buf_free(&log), buf_free(&err);
    return status;
}

int emit_ptx(const Options *opt) {
    bool machine = opt->emit != NULL && strcmp(opt->emit, "cubin") == 0;
    if (!machine && opt->emit != NULL && strcmp(opt->emit, "report") != 0) return wrong_use("--emit=%s is for FILE.tk: of PTX there are report and cubin", opt->emit);
    const char *other = opt->set.n > 0 ? "set" : opt->with.n > 0 ? "with" : opt->math ? "math" : opt->opt ? "opt" : opt->graph ? "graph" : opt->after ? "after" : opt->dump_dir ? "dump-dir"
                        : opt->general ? "general" : opt->line_info ? "line-info" : opt->verify ? "verify" : opt->list ? "list" : opt->arg.n > 0 ? "arg" : NULL;
    if (other != NULL) return wrong_use("--%s is for what tkc compiles: PTX is taken as it is", other);
    if (opt->operands.n > 1) return wrong_use("one file at a time: `%s` is the second; tkc run takes arguments", opt->operands.at[1]);
    Session *s = session_new();
    Buf out = {0}, err = {0};
    int status = DONE;
    PtxFile f = {0};
    const Source *src = open_source(s, opt, &status);
    if (src != NULL) {
        if (!ptx_file_open(s, src->path, src->text, src->size, &f, &err)) status = fail("%s", err.p);
        else status = (machine ? cubin : report)(opt, &f, session_arena(s), &out);
        ptx_file_close(&f);
    }
    if (status == DONE && !(machine ? output_write : output_report)(opt->out, out.p, out.n)) status = FAILED;
    buf_free(&out), buf_free(&err);
    session_free(s);
    return status;
}
