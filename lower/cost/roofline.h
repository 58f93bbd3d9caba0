// What a kernel has to do, as formulas of its dimensions. See roofline.c.
#ifndef TK_LOWER_ROOFLINE_H
#define TK_LOWER_ROOFLINE_H

#include "lower/ir/ir.h"

typedef struct Roofline { double bytes, flops, products, rate; } Roofline;   // of a launch; operations of products apart
// For dimensions by number, -1: not known, then one is made up. dims NULL: none is known.
Roofline roofline_at(Session *s, const TKernel *k, const int64_t *dims);
// .. and how long it must take at least, in us; `rate`: operations in a us of what its products, or all others, run on.
Roofline roofline_on(Session *s, const TKernel *k, const int64_t *dims, const struct Target *t, double *us);
void roofline_print(Session *s, const TKernel *k, const struct Target *t, const int64_t *dims, Buf *out);

#endif
