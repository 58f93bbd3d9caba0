// What api.c (contexts, programs, errors), api_launch.c (launches), api_graph.c and api_stages.c (graphs, models) share.
#ifndef TK_RUNTIME_API_INTERNAL_H
#define TK_RUNTIME_API_INTERNAL_H

#include "runtime/artifact.h"
#include "runtime/model.h"
#include "runtime/tkc.h"

#include <pthread.h>

struct tkc_context {
    Heap            heap;                  // of the device
    Device         *device;
    bool            early;                 // tkc_options.early
    pthread_mutex_t timing;                // marks of the device are for one thread
};

typedef struct KnownChoice KnownChoice;    // instances by what was asked for (api_launch.c)

struct tkc_program {
    tkc_context    *ctx;
    Heap            heap;                  // of all below, and of its launches
    pthread_mutex_t lock;                  // over all below: sema, tile IR and the runtime's cache
    Session        *session;
    SemaFile       *file;                  // NULL: of compiled kernels
    Artifact       *made;
    int             nmade;
    Runtime        *runtime;
    KnownChoice    *choices;
};

typedef struct Place { uint64_t address, bytes; } Place;    // on the device, of a tensor that is in the host's memory

struct tkc_graph {
    tkc_context     *ctx;
    Heap             heap;                 // of all below
    pthread_mutex_t  lock;
    OnnxModel       *model;                // or NULL; the weights are read from its memory
    ModelProgram     program;              // of a model
    Session         *session;
    Runtime         *runtime;
    GraphExec       *exec;
    ModelStages     *stages;               // in its place: a model in several programs
    Place            place[MAX_GRAPH_PARAMS];
    tkc_port        *ports;
    int              nports;
    Arena           *arena;                // texts of ports
};

// A call of tkc.h. What it needs for itself is of its own heap; what it makes or changes is the owner's, from api_own on. When
// memory runs out the call returns from API_CALL: its locks are released, its heap is dropped, the owner is broken.
typedef struct ApiCall {
    HeapGuard        guard;
    Heap             own;
    Heap            *owner;                // or NULL
    pthread_mutex_t *lock[2];              // that it holds, in the order in which they came
} ApiCall;

#define API_CALL(c) API_CALL_OR(c, return api_out_of_memory(&c))
#define API_CALL_OR(c, otherwise)                                                                                      \
    ApiCall c __attribute__((cleanup(api_leave))) = {.lock = {NULL, NULL}};                                            \
    c.guard.heap = &c.own;                                                                                             \
    if (heap_enter(&c.guard) || setjmp(c.guard.back)) otherwise
void       api_lock(ApiCall *c, pthread_mutex_t *lock);
void       api_unlock(ApiCall *c);                                     // the last one
bool       api_own(ApiCall *c, Heap *owner, pthread_mutex_t *lock);    // lock: of the owner, or NULL. False: it is broken
void       api_disown(ApiCall *c);                                     // with the lock that api_own took
void       api_leave(ApiCall *c);
tkc_status api_out_of_memory(ApiCall *c);                              // NULL: before the call began
tkc_status api_broken(const char *what);                               // "program": memory ran out in it before
tkc_status api_failed(tkc_status status, Buf *err);                    // keeps the words for tkc_error and frees them
tkc_status api_refused(const char *fmt, ...) __attribute__((format(printf, 1, 2)));    // TKC_BAD_ARGUMENT with words
// What has to be there; in functions of tkc.h.
#define API_NEEDS_AS(what, name) do { if (!(what)) return api_refused("%s: `%s` is NULL", __func__, name); } while (0)
#define API_NEEDS(what) API_NEEDS_AS(what, #what)
#define API_NEEDS_ALL(what, n) do { if ((n) > 0) API_NEEDS(what); } while (0)
// Diagnostics since the first `from`, as they are drawn, then gone from the session. False: there was no error among them.
bool       api_diagnostics(Session *s, int from, Buf *out);
void       api_forget_choices(tkc_program *prog);
// api_launch.c: arguments as callers give them.
Elem       api_elem(tkc_dtype t);                                      // EL_none: there is no such type
bool       api_check_arg(const tkc_arg *a, Buf *err);
void       api_describe(const tkc_arg *a, BindArg *b);                 // one that was checked; without its address
// Memory that is used where it lies begins at a multiple of its element's size.
bool       api_aligned(const char *name, Elem elem, const void *data, Buf *err);
#define API_COUNT(n) do { if ((n) < 0) return api_refused("%s: `%s` is %d", __func__, #n, (n)); } while (0)
// And what a call asks for.
enum { API_MAX_VALUES = 64 };
#define API_COUNTS(nvalues, nargs)                                                                                     \
    do {                                                                                                               \
        if ((nvalues) < 0 || (nvalues) > API_MAX_VALUES || (nargs) < 0 || (nargs) > MAX_PARAMS)                        \
            return api_refused("%d values and %d arguments: at most %d and %d can be", nvalues, nargs, API_MAX_VALUES, \
                               MAX_PARAMS);                                                                            \
    } while (0)
const Node *api_kernel(tkc_program *p, const char *name, Buf *err);                    // NULL: which it is must be said
bool       api_values(const Node *kernel, const tkc_value *v, int n, SemaValue *out, Buf *err);
// dimensions and types; -1: err
int        api_infer(const Node *kernel, const tkc_arg *args, int nargs, SemaValue *out, Buf *err);
void       api_keep_names(tkc_program *p, SemaValue *v, int n);                        // instances keep them

// api_graph.c
tkc_dtype  api_dtype(Elem e);
const tkc_arg *api_port_arg(const tkc_graph *g, const tkc_arg *args, int nargs, int port);            // NULL: not given
bool       api_port_names(const tkc_graph *g, const tkc_arg *args, int nargs, Buf *err);               // every argument is a port's
bool       api_dense(const char *name, const BindArg *a, Buf *err);
// api_stages.c: the same for a model in several programs
void       api_stages_ports(tkc_graph *g);
tkc_status api_stages_sizes(tkc_graph *g, tkc_arg *args, int nargs, Buf *err);
tkc_status api_stages_run(tkc_graph *g, const tkc_arg *args, int nargs, const RunControl *ctl, Buf *err);

#endif
