// What a kernel has to do, as formulas of its dimensions. See roofline.c.
#ifndef TK_LOWER_ROOFLINE_H
#define TK_LOWER_ROOFLINE_H

#include "lower/ir.h"

void roofline_print(Session *s, const TKernel *k, const struct Target *t, Buf *out);

#endif
