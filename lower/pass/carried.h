// What a loop carries from iteration to iteration, and whether its iterations may be run apart. See carried.c.
#ifndef TK_LOWER_CARRIED_H
#define TK_LOWER_CARRIED_H

#include "lower/ir/ir.h"

typedef enum CarriedKind {
    CARRIED_other,           // anything else: iterations stay in order
    CARRIED_reduction,       // v' = v op e, and nothing else reads v or v'
    CARRIED_prefix,          // v' = v op e, e made of no carried value; something else reads v or v'
    CARRIED_of_prefix,       // v' = v op e, e made of prefixes; nothing else reads v or v'
} CarriedKind;
typedef struct Carried { CarriedKind kind; TReduce op; } Carried;

// `next` is v joined with something else, by an op or as the accumulator of a dot.
bool reduce_joins(const Val *v, const Val *next, TReduce *op);
bool carried_reduction(const Op *loop, int i, TReduce *op);          // value i, looked at alone
// Rule 1 of carried.c: every value is a reduction; op[i] says which, where op is not NULL.
bool carried_reductions(const Op *loop, TReduce *op);
// Rule 2: every value has a kind other than CARRIED_other; out has loop->nout entries.
bool carried_prefixes(Fn *f, const Op *loop, Carried *out);

#endif
