// A random model while it is drawn: its values with their sizes and bounds, and its text
// (tests/graph/onnx_text.h).
//
// A model is of one of two kinds. An *exact* one computes in small numbers with few bits: no operation
// rounds, in any order of sums and in any type of the model, so all devices give the same bits. A value that
// outgrows `bits_of` goes through Floor and Clip (model_settle). The other kind has functions, softmax, norms
// and scales of any size; it is compared within a bound that is measured (model_oracle.c), and has no
// operation that jumps.
//
// A size has one number for each run of the model. Sizes without a name have the same number in all runs.
#ifndef TESTS_RANDOM_MODEL_DRAW_H
#define TESTS_RANDOM_MODEL_DRAW_H

#include "tests/random/draw.h"

#include "lang/lang.h"

enum { RUNS = 3, RANK = 5, VALUES = 48, INPUTS = 4 };

typedef struct Dim {
    int64_t at[RUNS];
    char name;
} Dim; // name 0: none, a number

typedef struct Value {
    char name[12];
    int rank;
    Dim dim[RANK];
    double most; // no element is larger; of a model that is not exact: roughly
    int grain;   // exact: elements are multiples of 2^grain
} Value;

typedef struct Model {
    Draw d;
    Buf head, nodes; // inputs and constants; operators of the model, or of the body that is drawn
    Value value[VALUES];
    int n, names, consts; // values in scope, names given
    int inputs;           // the first values
    int body;             // how many bodies of loops and branches are around what is drawn
    int runs, opset;
    Elem dtype;          // of --dtype; EL_none: f32
    bool native;         // its values are of dtype in the file, too
    bool tf32;           // products are of tf32
    bool wide;           // sizes that tiles of a product divide
    bool exact, special; // special: NaN and infinities among the inputs
    bool images;         // inputs are pictures
    Value input[INPUTS];
} Model;

void model_draw(uint64_t seed, Model *m); // values, head, nodes
// The text: outputs are some values, or all of them. native: a native model in its own type, else in f32.
void model_text(Model *m, bool all, bool native, Buf *text);

// ---- what the files of operators share (model_draw.c)

Dim dim_of(int64_t n);
Dim dim_add(Dim a, Dim b);
bool dim_same(Dim a, Dim b);
int64_t weights_limit(const Model *m); // no matrix of weights has more elements
bool dim_known(Dim a);                 // a number, not a name
int64_t dim_least(const Model *m, Dim a);
int64_t draw_size(Model *m);
int64_t count_of(const Value *v, int run);
int64_t most_count(const Model *m, const Value *v);

// A value of rank lo .. hi, more often a late one; -1: none is found.
int pick(Model *m, int lo, int hi);
int pick_like(Model *m, const Value *v); // of its shape; itself: -1
// A new value in the scope, unless there is no room: -1. The caller prints its node, and settles it.
int value_add(Model *m, const Value *like);
void model_put(Model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
void model_settle(Model *m, int v);

// Constants: their number k, for the name `w<k>`.
int const_ints(Model *m, int n, const int64_t *v);
int const_int(Model *m, int64_t v); // of rank 0
int const_scalar(Model *m, double v);
// Weights that are added up `fan` at a time: *sum is a bound of what one sum makes of values up to 1. Whole
// numbers if exact, else of 7 bits, which all types hold.
int const_weights(Model *m, int rank, const int64_t *shape, int64_t fan, double *sum);

// ---- operators: false: not this time

typedef bool Step(Model *m);
typedef struct StepRow {
    Step *draw;
    int exact, loose, body;
} StepRow;                        // how often, in models of either kind, in a body
void draw_steps(Model *m, int n); // .. of all tables
void draw_body(Model *m, int n);  // .. those that keep shapes

extern const StepRow product_steps[], attention_steps[], window_steps[], move_steps[], element_steps[],
    norm_steps[], quant_steps[], control_steps[], block_steps[], indexed_steps[];

#endif
