// The table that --time prints of a run. What happens on other threads meanwhile stands beside the stage that waits for it.
#include "lang/c_text.h"
#include "runtime/stages.h"

#include "runtime/internal.h"

#include <sys/resource.h>

static const struct { const char *name, *meaning; } stages[] = {
#define X(name, meaning) {#name, meaning},
    RUN_STAGES(X)
#undef X
};

void stages_start(RunStages *s) { *s = (RunStages){.started = now_us()}; }

void stages_lap(RunStages *s, RunStage stage, double *since) {
    double now = now_us();
    if (s) s->us[stage] += now - *since;
    *since = now;
}

double stages_known(const RunStages *s) {
    double sum = 0;
    for (int i = 0; s && i < RS_COUNT; i++) sum += s->us[i];
    return sum;
}

void stages_lap_rest(RunStages *s, RunStage stage, double *since, double *known) {
    double now = now_us(), rest = now - *since - (stages_known(s) - *known);
    if (s && rest > 0) s->us[stage] += rest;
    *known = stages_known(s);
    *since = now;
}

void stages_print(const RunStages *s, FILE *to) {
    double known = stages_known(s), all = now_us() - s->started;
    struct rusage use;
    for (int i = 0; i < RS_COUNT; i++) {
        if (s->us[i] <= 0) continue;
        c_fprintf(to, "%-16s %9.3f ms   %s", stages[i].name, s->us[i] * 1e-3, stages[i].meaning);
        if (i == RS_device) c_fprintf(to, ": opened in %.1f ms, beside what is above", s->device_us * 1e-3);
        if (i == RS_compile) fprintf(to, ": %d, %d of them from the cache", s->kernels, s->cached);
        if (i == RS_weights && s->weight_bytes)
            c_fprintf(to, ": %.1f MB in %.1f ms, beside compiling; %d threads made them in %.1f ms and sent them in %.1f",
                    (double)s->weight_bytes * 1e-6, s->weights_us * 1e-3, s->threads ? s->threads : 1,
                    s->made_us * 1e-3, s->sent_us * 1e-3);
        fputc('\n', to);
    }
    getrusage(RUSAGE_SELF, &use);
    c_fprintf(to, "%-16s %9.3f ms\n%-16s %9.3f ms\n%-16s %9.1f MiB\n", "other", (all - known) * 1e-3, "total", all * 1e-3,
            "peak memory", (double)use.ru_maxrss / 1024);
}
