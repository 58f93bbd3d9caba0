// --set NAME=VALUE and --with NAME=VALUE, read and held against what the kernels declare.
#ifndef TK_TKC_VALUES_H
#define TK_TKC_VALUES_H

#include "lower/lower.h"
#include "tkc/tkc.h"

enum { MAX_VALUES = 64 };

typedef struct Values { SemaValue at[MAX_VALUES]; int n; } Values;

// Status: DONE, or the failure has been reported.
int values_read(const Options *opt, Arena *a, Values *out);
int value_read(const char *option, const char *text, Arena *a, SemaValue *out);      // one
int schedule_read(const Options *opt, Schedule *out);
// Of `all`, those that `kernel` has as compile-time parameters, and those that it has as dimensions.
void values_for(const Values *all, const Node *kernel, Values *set, Values *dims);
// Each value must belong to some kernel of `kernels`.
int values_check(const Values *all, const Node *const *kernels, int n);

#endif
