// A model in several programs on a device (graph/stages.h), run: see model_stages.c.
#ifndef TK_RUNTIME_MODEL_STAGES_H
#define TK_RUNTIME_MODEL_STAGES_H

#include "graph/stages.h"
#include "runtime/tk_run.h"

typedef struct ModelStages ModelStages;

// The file's graphs are the model's programs, in order. The graph outlives it. NULL: err, or diagnostics.
ModelStages *stages_open(Runtime *rt, const SemaFile *file, const Graph *whole, Buf *err);
void stages_close(ModelStages *x);                             // NULL is fine

// A tensor of the caller's, on the host or on the device. Of an output: room for `bytes` at most, or none.
typedef struct StageTensor {
    bool     on_device, given;
    Elem     elem;
    int      rank;
    int64_t  dim[MAX_RANK];
    void    *data;
    uint64_t address, bytes;
} StageTensor;

// in: by input of the model; out: by output, NULL: none has room. Results stay until the next run; those for which there is room are
// there, too, from its beginning on.
GraphFailure stages_run(ModelStages *x, const StageTensor *in, const StageTensor *out, const RunControl *ctl, Buf *err);
// After a run, what output i is: type and shape; where it lies, on the device or the host, until the next run.
bool stages_result(ModelStages *x, int i, bool on_device, StageTensor *to, Buf *err);

// What the programs say of the model's inputs and outputs: the element type on the device. EL_none: no program has it.
Elem stages_input_elem(const ModelStages *x, int i);
Elem stages_output_elem(const ModelStages *x, int i);
GraphStats stages_stats(const ModelStages *x);                 // of all of its programs

#endif
