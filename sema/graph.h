// Graphs, elaborated: the `graph` item of a file as a list of launches over numbered values.
//
//     graph mlp(x: f32[B, 784]) -> (y: f32[B, 10]) {         0 x       input    f32[8, 784]
//         weights "mlp.npz";                                 1 y       output   f32[8, 10]
//         let w: f32[784, 512] = weight("fc1");              2 w       weight   f32[784, 512]
//         let h = linear_relu(x, w);                         3 h       computed f32[8, 512]
//         y = head(h, weight("fc2"));                        launches: linear_relu(0, 2) -> 3, head(3, 4) -> 1
//     }
//
// A graph is evaluated like a test item: run at compile time, calls of graphs inlined, loops unrolled. That
// is done twice. To *check* it, dimensions are symbols, and what can only be known of numbers is left open.
// To *run* it, dimensions and scalar parameters are numbers, and what comes out is a TGraph. Its head is a
// TKernel without a body, with the results as `out` parameters, so that whatever binds arguments to kernels
// binds them to graphs.
#ifndef TK_SEMA_GRAPH_H
#define TK_SEMA_GRAPH_H

#include "sema/typed.h"

typedef enum TGKind {
    TG_input,                           // parameter `param`, read only
    TG_state,                           // inout parameter, updated in place
    TG_output,                          // result; written by the launch that computes it
    TG_weight,                          // from a file, by name; kept
    TG_constant,                        // made on the host; kept
    TG_computed,                        // by a launch; in the arena
    TG_view,                            // of value `base`, from element `offset` on; no memory of its own
} TGKind;

typedef struct TGValue {
    TGKind   kind;
    Sym      name;                      // what the program calls it; NULL: nothing
    Span     span;
    Elem     elem;
    int      rank;
    int64_t  dim[MAX_RANK];
    int      param;                     // input, state, output
    int      base;
    int64_t  offset;
    Str      weight;
    const char *const *files; int nfiles;     // where it may stand: the `weights` around, innermost first
    TMake    make;                      // constant
    Number   lo, hi, *values;
    uint64_t stream;                    // of random constants
    bool     fixed;                     // a weight, a constant, or computed from such alone: once for all runs
    int32_t  row[MAX_RANK], offset_row; // of the graph's recipe, by dimension; 0: the same for all sizes
} TGValue;

typedef struct TGLaunch {
    Span     span;
    const char *path;                   // the graphs that were inlined around it, "layer / mlp"; "" at the top
    TKernel *kernel;
    TValue  *args;                      // by parameter: the value's number in `tensor`, or a scalar
    Schedule schedule;
    bool     fixed;
    bool     copy;                      // of a value that a launch is about to update
} TGLaunch;

// How the numbers of a graph follow from the dimensions of its head (recipe.c): a table, each row made of rows before
// it, and the conditions under which the graph of other sizes is this one with other numbers.
// L_CONST, L_DIM or arithmetic of rows; row 0 is nobody's
typedef struct TGRow  { LOp op; int32_t a, b; int64_t arg; } TGRow;
typedef struct TGHold { int32_t row; uint8_t kinds; int64_t is; } TGHold;   // its number, or its kind (TKernel.kinds), must be this
typedef struct TGChoice {               // what a launch left open: it must be decided alike
    const Node *kernel;
    SemaValue  *set;    int nset;
    SemaValue  *known;  int nknown;     // numbers with rows of their own
    int32_t    *row;
    Schedule    given, schedule;
    SemaValue  *chosen; int nchosen;
} TGChoice;
typedef struct TGRecipe { TGRow *rows; TGHold *holds; TGChoice *choices; int nrows, nholds, nchoices; } TGRecipe;

typedef struct TGraph {
    TKernel  *head;
    TGValue  *values;   int nvalues;
    TGLaunch *launches; int nlaunches;
    TGRecipe *recipe;                   // or NULL
} TGraph;

int         sema_graph_count(const SemaFile *f);
const Node *sema_graph(const SemaFile *f, int i);
const Node *sema_find_graph(const SemaFile *f, const char *name);

void sema_check_graphs(SemaFile *f);                     // with their dimensions as symbols, to report errors and warnings
// Parameters, dimensions and guards alone. NULL: reported.
TKernel *sema_graph_head(InstanceOf of);
// With numbers: `known` knows every dimension of the head, `scalars` (by parameter of the head) every scalar. It lives in
// `arena` (NULL: the session's), its kernels in the session. NULL: reported.
TGraph *sema_graph_elaborate(InstanceOf of, const TValue *scalars, Arena *arena);

// The same, for who does it often: `head` is sema_graph_head's, what is only needed meanwhile is in `scratch`. With its
// recipe, if there is one.
TGraph *sema_graph_again(InstanceOf of, const TKernel *head, const TValue *scalars, Arena *scratch, Arena *arena);
// The graph for other dimensions (by dimension of its head) by its recipe, the body not run again. It shares what is
// the same with `g`. NULL: it would be another one, or an error.
TGraph  *sema_graph_resize(SemaFile *f, const TGraph *g, const int64_t *dims, Arena *arena);

void     tgraph_print(const TGraph *g, Buf *out);         // values, then launches

// What is known of weights before they are loaded: whether one of these files has such a tensor, and what it is.
typedef bool (*WeightLookup)(void *ctx, const char *const *files, int nfiles, Str name, Elem *elem, int *rank,
                             int64_t dim[MAX_RANK]);
void sema_weights(SemaFile *f, WeightLookup look, void *ctx);
// Who decides what a launch leaves open (tune items, the schedule), when its dimensions are numbers: values for `<>` names,
// at most MAX_CHOSEN, and words of the schedule that are 0. How many values; -1: reported.
enum { MAX_CHOSEN = 16 };
typedef int (*KernelChooser)(void *ctx, InstanceOf of, SemaValue chosen[MAX_CHOSEN], Schedule *schedule);
void sema_chooser(SemaFile *f, KernelChooser choose, void *ctx);
// The same for launches of test items, which are of no graph. NULL, as at first: they take the defaults.
void sema_alone_chooser(SemaFile *f, KernelChooser choose, void *ctx);
// For choosers that remember: function values that were written in one place are the same, whatever run of the graph
// they are of.
bool sema_same_function(const SemaValue *a, const SemaValue *b);
void sema_keep_function(Session *s, SemaValue *v);       // it lives as long as the session; what is no function stays

#endif
