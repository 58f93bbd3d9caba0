// Level 2 of the evaluator: not there yet. Each op says so.

#include "lower/eval.h"

void plan_async(Eval *e) { (void)e; }
void free_async(Eval *e) { (void)e; }

#define LATER(op_) void eval_##op_(Eval *e, const Step *s) { eval_fault(e, s->op->span, "level 2 op %s", op_info[s->op->code].name); }
LATER(convert)
LATER(buffer)
LATER(buffer_clear)
LATER(buffer_load)
LATER(buffer_store)
LATER(copy_async)
LATER(copy_commit)
LATER(copy_wait)
LATER(barrier)
LATER(mbar)
LATER(mbar_expect)
LATER(mbar_arrive)
LATER(mbar_wait)
LATER(tma_load)
LATER(tma_store)
LATER(tma_wait)
LATER(fence_async)
LATER(wgmma)
LATER(wgmma_wait)
LATER(roles)
