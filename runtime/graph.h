// Graphs at run time: a TGraph (sema/graph.h) made ready for one device, and run.
//
//     graph_arena.c    which bytes of the arena a value gets           graph_store.c   weights, constants and what is
//     graph_plan.c     launches bound, what is kept put there                          computed from them alone, kept
//     graph_run.c      on host tensors or device addresses             graph_weights.c, weights.c   where weights come from
//     graph_sizes.c    a plan for each set of sizes                    graph_pattern.c  what such plans share
//     graph_order.c    which launch waits for which                  graph_print.c, graph_profile.c, graph_times.c   --emit=plan, --profile
//     graph_watch.c    each value shown: tkc diff
//
// A plan belongs to one set of dimensions. The arena and what is kept belong to the runtime, and all plans share them:
// one graph runs at a time. Inputs, outputs and state are the caller's memory, bound without copies.
#ifndef TK_RUNTIME_GRAPH_H
#define TK_RUNTIME_GRAPH_H

#include "runtime/internal.h"
#include "runtime/transfer.h"
#include "sema/graph.h"

// ---- graph_arena.c

enum { ARENA_ALIGN = 256 };
// launches between which it lives, both included
typedef struct ArenaItem { uint64_t bytes; int first, last; uint64_t offset; } ArenaItem;
uint64_t arena_plan(ArenaItem *item, int n);             // sets the offsets; the bytes of the arena
uint64_t arena_live_peak(const ArenaItem *item, int n);  // no plan can do with less

// ---- graph_plan.c

typedef struct PlanLaunch {                              // plans of a pattern share those that no size changes
    int         users;
    bool        ready;                                   // prepared, for the addresses of its arguments
    TGLaunch    own;
    const TGLaunch *launch;                              // own
    Compiled   *compiled;
    BindArg    *args;                                    // addresses are set before it is prepared
    Bound      *bound;
    DeviceKernel kernel;
    const LaunchInfo *info;                              // the variant; on eval the kernel's own
    Prepared    prepared;
    bool        general;                                 // .. which is the one that assumes nothing
    double      us;                                      // --profile
} PlanLaunch;

typedef struct Pattern Pattern;                          // a graph with its recipe (graph_pattern.c)

typedef struct Plan {
    Runtime      *rt;
    const TGraph *graph;
    Arena        *arena_of_graph;                        // goes with the plan, or NULL
    Pattern      *pattern;                               // what the graph shares with that, or NULL
    PlanLaunch  **launch;   int nlaunches;               // those that run each time
    int          *item;                                  // by value: its place in items, or -1
    ArenaItem    *items;    int nitems;                  // room for the value, or more
    uint64_t      arena_bytes;
    uint64_t      arena;                                 // address that the launches were prepared for, 0: none
    uint64_t      scratch[SCRATCH_KINDS];                // the same
    bool          fetched;                               // the code of all launches was read ahead
    bool          placed;                                // what is kept is there
    uint64_t     *kept;                                  // by value: address in the store, or 0
    uint64_t      param[MAX_GRAPH_PARAMS];                     // addresses that the launches were prepared for
    bool          prepared;
    DeviceGraph  *device_graph;                          // NULL: launched one by one
    bool          again, apart;                          // it has run so; it cannot be made one
    bool          by_recipe;                             // of the pattern, not the plan that it came from
} Plan;

// Binds and compiles; no memory yet. `like`: a plan of the same pattern, whose work is taken over where sizes change
// nothing, or NULL.
Plan    *plan_make(Runtime *rt, const TGraph *g, const Plan *like, Buf *err);
uint64_t plan_live_bytes(const Plan *p);                 // at once, at most
PlanLaunch *plan_launch_new(Plan *p, const TGLaunch *launch, Buf *err);     // bound; NULL: err
uint64_t plan_fixed_inputs(const TGLaunch *l, const TGraph *g);              // for runtime_compile_fixed
PlanLaunch *launch_shared(PlanLaunch *l);                // one more user
void     launch_leave(Runtime *rt, PlanLaunch *l);       // one less; NULL is fine
void     plan_fetch(Plan *p);                            // what the cache on disk has of its code, before the device is ready
bool     plan_place(Plan *p, Buf *err);                  // memory: the arena, and what is kept
bool     plan_bind(PlanLaunch *l, Runtime *rt, const TGraph *g, Buf *err);
void     plan_free(Plan *p);
void     plan_where(const Runtime *rt, const PlanLaunch *l, Buf *out);   // "mlp.tk:12:9: "
uint64_t plan_bytes(const TGValue *v);
int      plan_root(const TGraph *g, int value);
uint64_t plan_offset(const TGraph *g, int value);        // in bytes, from its root on
bool     plan_facts(PlanLaunch *l, Runtime *rt, Buf *err);           // addresses are set: do its facts hold? Not on eval
bool     plan_variant(PlanLaunch *l, Runtime *rt, Buf *err);         // .. which code runs
bool     plan_prepare(PlanLaunch *l, Runtime *rt, Buf *err);         // .. and its parameters
bool     plan_launch(PlanLaunch *l, Runtime *rt, const RunControl *ctl, Buf *err);

// ---- graph_order.c

// Of the launches numbered launch[0 .. n): after[i] (malloc) are the nafter[i] among 0 .. i that i waits for. The
// number of edges. alike: by values instead of addresses, so that it is the order of all plans of the same pattern
// whose values lie alike, too.
int      plan_order(const Plan *p, const int *launch, int n, bool alike, int **after, int *nafter);

// ---- graph_store.c

// What a fixed value needs that is not there yet. With `load`, weights and constants go into the transfer, which is not
// started.
typedef struct StoreNeeds {
    bool    *seen;                                       // by value
    bool     load;
    bool    *launch;                                     // by launch of the graph: to be made once; or NULL
    // bytes of what the plan reads, and of what was only needed to make it
    uint64_t stays, goes;
} StoreNeeds;
bool     store_ask(Runtime *rt, const TGraph *g, int value, StoreNeeds *needs, Buf *err);
Transfer *store_transfer(Runtime *rt);
// for the transfer: what was asked for is there
bool     store_wait(Runtime *rt, void (*show)(void *ctx, uint64_t bytes), void *ctx, Buf *err);
void     store_abandon(Runtime *rt);                     // after a failure: what was asked for is not there
// The address of a fixed value: loaded, made or computed if it is not there. 0: err, or diagnostics.
// what a plan reads: room in one piece for those that are not there yet
bool     store_reserve(Runtime *rt, const TGraph *g, const bool *values, Buf *err);
uint64_t store_room(Runtime *rt);                        // bytes of that room nobody has
// until the next trim: what goes again may have the end of that room
void     store_lend(Runtime *rt, bool lends);
uint64_t store_get(Runtime *rt, const TGraph *g, int value, Buf *err);
uint64_t store_arena(Runtime *rt, uint64_t bytes, Buf *err);         // of at least so many bytes; it may move
// Scratch memory that launches share, at least so many bytes of each kind; it may move. Those that use it wait for each
// other.
bool     store_scratch(Runtime *rt, const uint64_t bytes[SCRATCH_KINDS], uint64_t at[SCRATCH_KINDS], Buf *err);
void     store_settle(Runtime *rt);                      // frees what was only needed to compute something else
void     store_keep(Runtime *rt, uint64_t address);      // a plan reads it
void     store_trim(Runtime *rt);                        // the same while plans are being placed: what no plan reads so far
void     store_stats(const Runtime *rt, GraphStats *s);  // bytes
// Launches that no plan has any more are the next plan's: their memory is some pages each. False: there are enough.
bool     store_spare(Runtime *rt, PlanLaunch *l);
PlanLaunch *store_spared(Runtime *rt);                   // one that was, or zeros

// ---- graph_weights.c

typedef struct OpenFile OpenFile;
OpenFile **store_files(Runtime *rt);
void     open_files_free(OpenFile *f);                   // NULL is fine
// of a weight or constant: its data, its fill
bool     store_item(Runtime *rt, const TGValue *v, TransferItem *it, Buf *err);
// a WeightLookup
bool runtime_weight(void *rt, const char *const *files, int nfiles, Str name, Elem *elem, int *rank,
                    int64_t dim[MAX_RANK]);

// ---- graph_choose.c

// KernelChoosers, for launches of graphs and of test items.
int graph_choose(void *rt, InstanceOf of, SemaValue chosen[MAX_CHOSEN], Schedule *schedule);
int alone_choose(void *rt, InstanceOf of, SemaValue chosen[MAX_CHOSEN], Schedule *schedule);

int      graph_decided(const GraphChoices *c);           // so far, and not found on disk

// ---- graph_run.c

// One run on addresses by parameter of the head.
bool     plan_run(Plan *p, const uint64_t *param, const RunControl *ctl, Buf *err);
// of a plan that is prepared: its launches as one, if the device can
bool     plan_as_one(Plan *p, Buf *err);

// .. on tensors of the host. The device may not be ready before the plan is: meanwhile results get their memory.
typedef struct OnHost { BindArg args[MAX_GRAPH_PARAMS]; Bound bound; uint64_t param[MAX_GRAPH_PARAMS]; } OnHost;
bool     graph_wait_for_device(Plan *p, const LaunchInfo *head, KernelArg *args, Buf *err);
bool     plan_run_on_host(Plan *p, OnHost *h, const LaunchInfo *head, KernelArg *args, const RunControl *ctl, Buf *err);

// ---- graph_pattern.c

struct Pattern {
    Runtime *rt;
    Arena   *arena;
    TGraph  *graph;                                      // with a recipe
    TValue  *scalars;                       // that it was run with
    int      users;                                      // plans whose graph shares what is the same, and who keeps it
    uint64_t used;
    const Plan *like;                                    // the plan that was made of it last, or NULL
    DeviceGraph *device_graph;                           // for plans that run once, or NULL
    PlanLaunch **node; int nnodes;                       // whose parameters are in it
    ArenaItem *items; int nitems;                        // where values lay when it was made
    int      built, runs;                                // how often it was made, and asked for
};
Pattern *pattern_new(Runtime *rt, TGraph *g, const TValue *scalars, Arena *arena);
void     pattern_leave(Pattern *p);                      // one user less; NULL is fine
// of a plan that is prepared. *out NULL: launch one by one
bool     pattern_device_graph(Plan *p, DeviceGraph **out, Buf *err);

// ---- graph_watch.c

// of a plan that is prepared: a run, shown to ctl->watch
bool     plan_watch(Plan *p, const RunControl *ctl, Buf *err);

// ---- graph_profile.c

bool     plan_profile(Plan *p, const RunControl *ctl, Buf *err);     // of a plan that has run: again, timed; to ctl->profile

// ---- graph_times.c

typedef struct LaunchTime {
    char    *name, *where;                               // "gemm -> h"; "model.tk:12:5"
    uint32_t blocks, threads;                            // 0: on eval, or nothing was to do
    double   us, least_us, bytes, flops;
    double   start;                                      // us, if launches ran as they wait for each other
    int      row;                                        // .. and on which of how many
} LaunchTime;
// program: its number, if there are several; since_us: when it begins, then
typedef struct GraphTimes { const char *graph, *device, *machine; LaunchTime *at; int n, rows; double whole_us, since_us; int program; } GraphTimes;
// Text that is there already goes on: the next program's.
void     times_table(const GraphTimes *t, Buf *out);
void     times_trace(const GraphTimes *t, Buf *out);
void     times_page(const GraphTimes *t, Buf *out);

// ---- graph_print.c

// grids are those of the target, so kernels are lowered
bool     plan_print(const Plan *p, const char *target, Buf *out, Buf *err);

#endif
