// libtkc (tkc.h): tuning. Under the program's lock, and under that of the device's marks.

#include "runtime/api_internal.h"
#include "runtime/tune.h"

static void arguments(const tkc_arg *args, int nargs, TuneArg *out) {
    for (int i = 0; i < nargs; i++) {
        out[i].name = args[i].name ? args[i].name : "";
        api_describe(&args[i], &out[i].arg);
        if (args[i].kind != TKC_TENSOR) continue;
        if (args[i].tensor.memory == TKC_HOST) out[i].host = args[i].tensor.data;
        else out[i].device = (uint64_t)(uintptr_t)args[i].tensor.data;
    }
}

static void found(tkc_program *p, const TuneResult *r, tkc_tuning *out) {
    Buf text = {0};
    *out = (tkc_tuning){.best_us = r->row[0].us,
                        .model_us = r->row[r->model].us,
                        .default_us = r->row[r->defaults].us,
                        .candidates = r->looked};
    for (int i = 0; i < r->n; i++) out->measured += r->row[i].us > 0;
    tune_print(r, 0, &text);
    out->choice = arena_printf(session_arena(p->session), "%s", r->row[0].choice);
    out->table = arena_printf(session_arena(p->session), "%s", text.p);
    buf_free(&text);
}

tkc_status tkc_tune(tkc_program *prog, const char *kernel, const tkc_value *values, int nvalues, const tkc_arg *args,
                    int nargs, int most, tkc_tuning *out) {
    SemaValue  set[API_MAX_VALUES], known[API_MAX_VALUES];
    TuneArg    list[MAX_PARAMS] = {0};
    TuneResult result = {0};
    if (out) *out = (tkc_tuning){0};
    API_NEEDS(prog);
    API_NEEDS_ALL(values, nvalues);
    API_NEEDS_ALL(args, nargs);
    API_COUNTS(nvalues, nargs);
    if (most < 0) return api_refused("at most %d candidates cannot be measured", most);
    if (!prog->file) return api_refused("the program is compiled: nothing of it is left open");
    API_CALL(call);
    Buf        err = {0};
    int        nknown = -1;
    tkc_status status = TKC_BAD_ARGUMENT;
    if (!api_own(&call, &prog->heap, &prog->lock)) return api_broken("program");
    int from = diag_count(prog->session);
    const Node *node = api_kernel(prog, kernel, &err);
    bool fine = node && api_values(node, values, nvalues, set, &err);
    if (fine) nknown = api_infer(node, args, nargs, known, &err);
    if (nknown >= 0) {
        api_keep_names(prog, set, nvalues);
        api_keep_names(prog, known, nknown);
        arguments(args, nargs, list);
        api_lock(&call, &prog->ctx->timing);
        fine = tune_kernel(prog->runtime, (InstanceOf){prog->file, node, set, nvalues, known, nknown}, list, nargs,
                           &(TuneOptions){.most = most}, &result, &err);
        api_unlock(&call);
        if (fine) status = TKC_OK;
        else if (api_diagnostics(prog->session, from, &err)) status = TKC_BAD_SOURCE;
        else status = TKC_DEVICE_ERROR;
    }
    if (!status) {
        api_forget_choices(prog);
        if (out) found(prog, &result, out);
    }
    tune_result_free(&result);
    return status ? api_failed(status, &err) : TKC_OK;
}
