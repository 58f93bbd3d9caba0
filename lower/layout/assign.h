// What the assignment of layouts shares: the function with what is asked of its values (assign.c), where layouts come from
// (anchors.c), and what stands where two meet (conversions.c).
#ifndef TK_LOWER_LAYOUT_ASSIGN_H
#define TK_LOWER_LAYOUT_ASSIGN_H

#include "lower/facts/access.h"
#include "lower/layout/mma.h"
#include "lower/pass/passes.h"

typedef VEC(Op *) Ops;
typedef struct Assign {
    Fn     *f;
    Facts  *facts;
    const CompileOptions *opt;
    Ops     all, ends;               // in program order; those that end a region
    Ops    *users;                   // by Val.id: ops that have it as operand, result or region argument
    VEC(Val *) work;
    Val   **root;                    // of an axis, by Val.id: one for all that renaming makes the same lanes
    Val   **mate;                    // of what a loop carries, by Val.id: its result and its regions' arguments, in a ring
    bool runs;                         // of scans, of elements that come one by one (anchor_scans): they go one by one, too
} Assign;

static inline bool is_tile(const Val *v) { return v->type.kind == TY_TILE && v->type.rank > 0; }

// ---- assign.c

bool assign_subset(const Type *a, const Type *b);           // all axes of a are b's
void assign_set(Assign *s, Val *v, const Layout *l);        // and what a loop carries with it
void assign_settle(Assign *s);                              // lets what was set flow
bool assign_keeps_axis(const Op *op);                       // the result has the axis that the op works along, as the operand has it
const Op *assign_leads_to(const Op *terminator);            // the loop or branch that it gives values to
Op  *assign_sender(const Assign *s, const Op *join);        // who sends what is joined here
const Layout *assign_kept(const Assign *s, const Op *op);   // the layout in which tiles of a form are kept: that of the first one put

// ---- anchors.c

void anchor_all(Assign *s);
const Layout *anchor_access(Assign *s, const Op *op, const Type *t);    // as a load, store or atomic likes it

// ---- conversions.c

void insert_conversions(Assign *s);

#endif
