// Where the time from a file to its results goes: `tkc run --time`.
#ifndef TK_RUNTIME_STAGES_H
#define TK_RUNTIME_STAGES_H

#include <stdint.h>
#include <stdio.h>

#define RUN_STAGES(X) \
    X(inputs,  "arguments read or made") \
    X(import,  "the model read, simplified") \
    X(write,   "fused, written as a program") \
    X(check,   "the program read and checked") \
    X(device,  "waiting for the device") \
    X(plan,    "sizes, choices, what lies where") \
    X(compile, "kernels to PTX") \
    X(load,    "PTX to machine code, by ptxas or the driver") \
    X(weights, "waiting for weights") \
    X(once,    "computed from weights") \
    X(bind,    "inputs copied, launches made ready") \
    X(run,     "the first run") \
    X(turns,   "the interpreter between programs, and what it reads and makes copied") \
    X(profile, "timed") \
    X(results, "copied back") \
    X(close,   "all given back")

typedef enum RunStage {
#define X(name, meaning) RS_##name,
    RUN_STAGES(X)
#undef X
    RS_COUNT
} RunStage;

typedef struct RunStages {
    double   us[RS_COUNT];
    double   started, device_us;       // device_us: opening it, beside other things
    // weights: from the first to the last, beside other things; of all threads: made, sent
    double   weights_us, made_us, sent_us;
    uint64_t weight_bytes;
    int      threads, kernels, cached; // cached: of the kernels, found on disk
} RunStages;

void stages_start(RunStages *s);
// What has passed since *since goes to a stage, and *since is now. NULL is fine.
void stages_lap(RunStages *s, RunStage stage, double *since);
double stages_known(const RunStages *s);                 // what has gone to stages so far
// The same, less what went to stages meanwhile: since *known, which is now.
void stages_lap_rest(RunStages *s, RunStage stage, double *since, double *known);
void stages_print(const RunStages *s, FILE *to);

#endif
