// cost.c: how long a kernel would take; candidates.c: what it leaves open; choose.c: the best of that.
#ifndef TK_LOWER_COST_H
#define TK_LOWER_COST_H

#include "lower/facts/facts.h"
#include "lower/lower.h"

// expected; with what `given` left open filled in; it is known to a percent or two against the others
typedef struct Cost { double us; Schedule schedule; bool close; } Cost;
// Of f as built, launched with these dimensions. False: not a kernel that the model knows, or not on this target.
bool cost_of(Fn *f, const CompileOptions *opt, const Schedule *given, const int64_t *dims, Cost *out);
// of one without products
bool cost_of_rows(Fn *f, const CompileOptions *opt, const Schedule *given, const int64_t *dims, Cost *out);

// Whether blocks keep tallies of small tensors, where that is left open: privatize_cost.c.
void cost_tally(Fn *f, const CompileOptions *opt, const int64_t *dims, Schedule *s);

// What a loop's end is at most: lengths that the device reads are taken to be as long as the tensor, and with `any`, inside another loop, that
// grow with its trips, as the last. False: nothing is known.
bool number_at_most(Facts *s, const Val *v, const int64_t *dims, bool any, int64_t *out);

// Of a loop whose second product takes what became of the first's result: false if it is none, or of a kind that is not
// modelled; *knows is false where it is one that nothing should be said of.
bool cost_of_chain(const Op *loop, int64_t trips, int64_t programs, int sms, double *us, bool *knows);

// Of a loop of several products of which some wait for others, on Hopper: what it takes; that it is one, but of which nothing is known; that it is none.
typedef enum Several { SEVERAL_NOT, SEVERAL_UNKNOWN, SEVERAL_KNOWN } Several;
Several cost_of_several(Fn *f, const Target *target, const int64_t *dims, double *us);

#endif
