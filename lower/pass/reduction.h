// Reductions taken apart: what they start from, how partial results join. See reduction.c.
#ifndef TK_LOWER_REDUCTION_H
#define TK_LOWER_REDUCTION_H

#include "lower/ir/ir.h"

double  reduce_neutral(TReduce kind, Elem e);                      // the result over no lanes
Val    *b_number(Builder *b, Type t, double x);                    // x in every lane; clamped to the type's range
Val    *reduce_join(Builder *b, TReduce kind, Val *x, Val *y);     // not argmax and argmin

// the reduction of the same lanes after it in its region, or NULL
Op     *scan_total(const Op *scan);

typedef struct ArgBest { Val *value, *at; } ArgBest;               // the best value so far and its place
ArgBest argbest_join(Builder *b, TReduce kind, ArgBest x, ArgBest y);   // y comes after x

#endif
