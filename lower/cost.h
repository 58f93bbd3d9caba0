// cost.c: how long a kernel would take; candidates.c: what it leaves open; choose.c: the best of that.
#ifndef TK_LOWER_COST_H
#define TK_LOWER_COST_H

#include "lower/lower.h"

typedef struct Cost { double us; Schedule schedule; } Cost;            // expected; with what `given` left open filled in
// Of f as built, launched with these dimensions. False: not a kernel that the model knows, or not on this target.
bool cost_of(Fn *f, const CompileOptions *opt, const Schedule *given, const int64_t *dims, Cost *out);
bool cost_of_rows(Fn *f, const CompileOptions *opt, const Schedule *given, const int64_t *dims, Cost *out);    // of one without products

#endif
