// Faults in words, and the report's text.
#include "emu/exec.h"
#include "lang/c_text.h"

static const char *const fault_names[] = {
#define X(name, text) text,
    EMU_FAULT_KINDS(X)
#undef X
};
static const char *const class_names[] = {
#define X(name, text) text,
    EMU_CLASSES(X)
#undef X
};

const char *emu_fault_name(EmuFaultKind kind) { return fault_names[kind]; }
const char *emu_class_name(EmuClass c)        { return class_names[c]; }

static char *copy(const char *s) {
    char *p = malloc(strlen(s) + 1);
    return p ? strcpy(p, s) : NULL;
}

void emu_insn_place(const Launch *launch, const Insn *in, char *out, size_t n) {
    const Loc *loc = in->loc ? &launch->module->locs[in->loc] : NULL;
    const struct SourceFile *file = loc ? module_file(launch->module, loc->file) : NULL;
    if (file && loc->line) snprintf(out, n, "%s:%u", file->name, loc->line);
    else snprintf(out, n, "PTX line %u", in->line);
}

static void record(Warp *w, const Insn *in, int lane, EmuFaultKind kind, const char *format, va_list args) {
    Launch *launch = w->launch;
    EmuReport *report = launch->report;
    char message[2048];
    c_vsnprintf(message, sizeof message, format, args);
    pthread_mutex_lock(&launch->lock);
    bool again = false;
    for (size_t i = 0; i < report->n_faults; i++)        // each place and kind once
        again |= report->faults[i].kind == kind && report->faults[i].ptx_line == in->line;
    if (!again && report->n_faults < (size_t)launch->options.max_faults) {
        EmuFault *grown = realloc(report->faults, (report->n_faults + 1) * sizeof *grown);
        if (grown) {
            const Loc *loc = in->loc ? &launch->module->locs[in->loc] : NULL;
            const struct SourceFile *file = loc ? module_file(launch->module, loc->file) : NULL;
            report->faults = grown;
            EmuFault *f = &grown[report->n_faults++];
            *f = (EmuFault){.kind = kind, .message = copy(message), .kernel = copy(launch->kernel->info.name),
                            .warp = w->id, .lane = lane < 0 ? 0 : (uint32_t)lane, .ptx_line = in->line};
            memcpy(f->block, w->block->id, sizeof f->block);
            if (file && loc->line) f->file = copy(file->name), f->line = loc->line, f->column = loc->column;
        }
    }
    unsigned n = atomic_fetch_add(&launch->n_faults, 1) + 1;
    if (report->n_faults >= (size_t)launch->options.max_faults || n > 10000u) atomic_store(&launch->stop, true);
    pthread_mutex_unlock(&launch->lock);
    if (atomic_load(&launch->stop)) w->event |= EV_STOP;
}

void emu_fault(Warp *w, const Insn *in, int lane, EmuFaultKind kind, const char *format, ...) {
    va_list args;
    va_start(args, format);
    record(w, in, lane, kind, format, args);
    va_end(args);
}

void emu_fault_stop(Warp *w, const Insn *in, int lane, EmuFaultKind kind, const char *format, ...) {
    va_list args;
    va_start(args, format);
    record(w, in, lane, kind, format, args);
    va_end(args);
    atomic_store(&w->launch->stop, true);
    w->event |= EV_STOP;
}

void emu_report_print(const EmuReport *r, FILE *f) {
    for (size_t i = 0; i < r->n_faults; i++) {
        const EmuFault *x = &r->faults[i];
        fprintf(f, "fault: %s: %s\n", fault_names[x->kind], x->message);
        if (x->file) fprintf(f, "  --> %s:%u:%u (PTX line %u)\n", x->file, x->line, x->column, x->ptx_line);
        else fprintf(f, "  --> PTX line %u\n", x->ptx_line);
        fprintf(f, "  in `%s`, block (%u, %u, %u), warp %u, lane %u\n", x->kernel, x->block[0], x->block[1],
                x->block[2], x->warp, x->lane);
    }
    const EmuCounters *c = &r->counters;
    uint64_t total = 0;
    for (int i = 0; i < EMU_CLASS_COUNT; i++) total += c->instructions[i];
    fprintf(f, "%llu warp instructions (", (unsigned long long)total);
    bool first = true;
    for (int i = 0; i < EMU_CLASS_COUNT; i++)
        if (c->instructions[i]) {
            fprintf(f, "%s%llu %s", first ? "" : ", ", (unsigned long long)c->instructions[i], class_names[i]);
            first = false;
        }
    c_fprintf(f, "), %llu lane instructions, %.3f s\n", (unsigned long long)c->lane_instructions, r->seconds);
    if (c->global_requests)
        c_fprintf(f, "global: %llu requests, %.2f sectors each\n", (unsigned long long)c->global_requests,
                (double)c->global_sectors / (double)c->global_requests);
    if (c->shared_requests)
        fprintf(f, "shared: %llu requests, %llu wavefronts, %llu of them from bank conflicts\n",
                (unsigned long long)c->shared_requests, (unsigned long long)c->shared_cycles,
                (unsigned long long)c->shared_conflicts);
    if (c->mma_flops) fprintf(f, "tensor cores: %llu flop\n", (unsigned long long)c->mma_flops);
    if (c->async_bytes) fprintf(f, "asynchronous copies: %llu bytes\n", (unsigned long long)c->async_bytes);
}

void emu_report_free(EmuReport *r) {
    for (size_t i = 0; i < r->n_faults; i++) {
        free(r->faults[i].message);
        free(r->faults[i].kernel);
        free(r->faults[i].file);
    }
    free(r->faults);
    *r = (EmuReport){0};
}
