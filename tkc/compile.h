// What emit, run and test share: options of the compilation, and a file read and checked.
#ifndef TK_TKC_COMPILE_H
#define TK_TKC_COMPILE_H

#include "lower/lower.h"
#include "tkc/tkc.h"

bool verifies_values(const Options *opt);      // --verify=values
bool graph_pass_exists(const char *name);      // --after of a model; false: reported
// DONE, or reported. The target stays NULL when --arch is not given.
int compile_options(const Options *opt, CompileOptions *out);
// The only operand, as a file; NULL: reported, *status says how.
const Source *open_source(Session *s, const Options *opt, int *status);
// --kernel, or the only kernel when `one`, or all. The count; 0: reported.
int pick_kernels(const SemaFile *file, const char *path, const char *name, bool one, const Node **out, int max);

// --graph, or the only graph. NULL: reported.
const Node *pick_graph(const SemaFile *file, const char *path, const char *name);
// What `tkc run` runs: --kernel or --graph, else the only graph, else the only kernel. NULL: reported.
const Node *pick_item(const SemaFile *file, const char *path, const Options *opt);

enum { MAX_KERNELS = 256 };

// model.c: how options say that a model is to be read.
struct OnnxImport;
void model_import_asked(const Options *opt, struct OnnxImport *out);

struct Values;
// tune_graph.c: the kernels that a graph launches with these dimensions, at theirs, each once, behind the `n` that are there. Their count with those, at most
// `max`; -1: err, or diagnostics.
int graph_asks(Session *s, SemaFile *file, const Node *graph, const CompileOptions *compile, const struct Values *all, InstanceOf *out, int n, int max, Buf *err);

// What ptxas says of each entry: registers, spills, and how many blocks fit, where `block` knows the entry's threads (0: it does not;
// -1: the entry is not wanted) and its dynamic shared memory.
typedef int MachineBlock(const void *ctx, const char *entry, uint32_t *smem);
void report_machine_code(Arena *a, const char *ptx, size_t n, const Target *t, MachineBlock *block, const void *ctx, Buf *out);

#endif
