// What the files of `simplify` share.
//
//   simplify.c        the walk: renaming, equal values, the passes' entry        simplify/rules.c   one rule an op
//   simplify/dead.c   what nobody needs, carried values included                 simplify/loop.c    hoist, contract
#ifndef TK_LOWER_SIMPLIFY_H
#define TK_LOWER_SIMPLIFY_H

#include "lower/pass/passes.h"

typedef struct Entry { Op *op; uint32_t hash; uint32_t next; } Entry;     // next: 1 + index in its chain

typedef struct Simp {
    Fn      *f;
    ValMap   map;              // values replaced so far; their uses follow in the walk
    bool     axes_moved;       // some of them were axes: types are mapped too
    uint32_t *uses;            // by id, of the function as it was
    uint32_t nuses;
    uint32_t *bucket;          // values that dominate the current op, by hash
    VEC(Entry) seen;           // in order, so that leaving a region forgets its own
    int      changes;
} Simp;

// A value equal to op->out[0], or NULL. New ops go before op.
typedef Val *Rule(Simp *s, Op *op);
extern Rule *const simplify_rules[OP_T_COUNT];

Val  *simp_emit(Simp *s, Op *at, OpCode code, int sub, Type t, int nin, Val *const *in);   // or an equal value made before
Val  *simp_const(Simp *s, Op *at, Elem e, int64_t imm);
Val  *simp_as(Simp *s, Op *at, Val *v, const Type *t);        // v, splat over t's axes if it lacks some
Val  *simp_now(const Simp *s, Val *v);        // what has taken its place (results of inlined regions may be replaced again)
void  simp_replace(Simp *s, Val *from, Val *to);
uint32_t simp_uses(const Simp *s, const Val *v);
bool  reads_only(const Fn *f, const Op *op);                  // a load of a tensor that nobody writes
uint32_t *count_uses(Fn *f);                                  // by id, operands and types
bool  is_const(const Val *v, int64_t *imm);                   // through splats
bool  simplify_control(Simp *s, Op *op);                      // constant ifs and loops: true when op is gone

bool  remove_dead(Fn *f);

#endif
