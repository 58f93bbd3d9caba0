// What a launch's equations say about sizes. See linear.c.
#ifndef TK_LOWER_LINEAR_H
#define TK_LOWER_LINEAR_H

#include "lower/ir/ir.h"

typedef struct Linear Linear;         // the launch's equations, solved once

Linear *linear_new(Arena *a, const LaunchInfo *l);
bool    linear_at_most(const Linear *s, LExpr x, LExpr y);       // x <= y in every launch that is made
bool    linear_divides(const Linear *s, LExpr x, int64_t d);     // x % d == 0 in every launch that is made

#endif
