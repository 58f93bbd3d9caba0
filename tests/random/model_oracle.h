// What a random model has to give, and by how much a device may differ from it.
#ifndef TESTS_RANDOM_MODEL_ORACLE_H
#define TESTS_RANDOM_MODEL_ORACLE_H

#include "tests/random/model_draw.h"

#include "graph/onnx/onnx.h"

typedef struct Expected {
    int n;
    GTensor value[VALUES]; // of one run on the interpreter: all values of the model
    char name[VALUES][16];
    double off[VALUES]; // by how much an element may differ; 0: not at all
    double range;       // no finite element is larger
    bool finite;
} Expected;

typedef struct Inputs {
    GTensor in[INPUTS], own[INPUTS]; // in f32; in the model's type
    OnnxGiven given[INPUTS], typed[INPUTS];
    char name[INPUTS][8];
    int n;
} Inputs;

bool inputs_make(const Model *m, uint64_t seed, int run, Inputs *to);
void inputs_free(Inputs *x);
// bytes: the model with all values as results
bool expected_make(const Model *m, const Buf *bytes, const Inputs *in, Expected *to, Buf *err);
void expected_free(Expected *x);
// Is anything to be asked of the model in its type: does no value leave the range?
bool expected_judged(const Model *m, const Expected *x);
bool expected_agree(const Model *m, const Expected *x, const char *name, const GTensor *got, Buf *err);

#endif
