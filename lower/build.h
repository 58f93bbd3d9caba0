// Between build.c and launch_build.c: what the launcher must know, from the typed kernel.
#ifndef TK_LOWER_BUILD_H
#define TK_LOWER_BUILD_H

#include "lower/ir/ir.h"

LaunchInfo *launch_from_typed(Arena *a, const TKernel *k);       // params, dims, guards, programs
LExpr       launch_expr(Arena *a, const TKernel *k, const TExpr *e);   // a host expression as postfix code
LExpr       launch_const(Arena *a, int64_t v);
LExpr       launch_join(Arena *a, LOp op, LExpr x, LExpr y);      // x y op

LExpr       launch_join_const(Arena *a, LOp op, LExpr x, int64_t c);   // x c op

#endif
