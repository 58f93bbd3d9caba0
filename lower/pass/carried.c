// Which values a loop carries, and what may be done with its iterations. Every pass that splits, shares, reorders or
// rotates the iterations of a loop asks here (split_k.c, stream_k.c, cluster_scatter.c, cluster_rows.c, specialize/sliced_k.c, specialize/k_rotation.c;
// prefetch.c, to tell recurrences); regroup.c has the one other rule, for iterations over other ranges of a row.
//
// An iteration maps the carried values v1 .. vn to v1' .. vn'. A value is *joined* when v' = v op e with op one of
// + * min max and or, or the accumulator of a dot or of an fma. The operand e may depend on the iteration, and on
// carried values.
//
// Rule 1 (reductions). If every v is joined, is read nowhere but in its own join, and every v' is read nowhere but by
// the next iteration, then the iterations may be run in any order and in any groups:
//
//     e mentions no carried value: that would be a second use of some v or v'. So e depends on the iteration alone,
//     and the final v is init op e(1) op .. op e(n). All these ops are associative and commutative (of floats up to
//     rounding), so each group may start from the op's neutral element and the groups' results are joined with init.
//
// It is a property of all values together. One value alone says nothing: in { s += x;  best = max(best, s) } `best` is
// read only by its own join, but its operand needs the sum of all iterations before.
//
// Rule 2 (prefixes). Let every v be joined, and let some be read elsewhere: by a store, or by another value's operand.
// Call v a *prefix* if its operand mentions no carried value. Iterations may then be run in consecutive groups, twice:
//
//     By rule 1, applied to the prefixes alone, a first run gives each group's total of every prefix. The joined totals
//     of the groups before it (and init) are what the prefix holds where the group begins in the original loop. A
//     second run that begins with them therefore sees, in each iteration, the values of the original loop; so do its
//     stores. The other values must be *of prefixes*: read nowhere but in their own join, so that operands mention
//     prefixes alone. In the second run these operands are those of the original loop, and by rule 1 each group may
//     start from the neutral element.
//
// Neither rule covers a loop that leaves early or an iteration that has effects on memory: `trips_bound` (merge_partial.c) and
// the stores that cluster_rows.c allows are asked for by whoever needs them. A loop whose author wrote `merge` carries
// whatever the author says, and none of this is asked.
#include "lower/pass/carried.h"

bool reduce_joins(const Val *v, const Val *next, TReduce *op) {
    const Op *d = next->def;
    if (!d) return false;
    bool operand = d->nin >= 2 && (d->in[0] == v || d->in[1] == v), truth = next->type.elem == EL_bool;
    if (d->code == OP_T_dot) { *op = TR_sum; return op_acc(d) == v; }
    if (d->code == OP_T_fun && d->sub == TF_fma) { *op = TR_sum; return d->in[2] == v; }
    if (d->code == OP_T_fun && (d->sub == TF_max || d->sub == TF_min)) {
        *op = d->sub == TF_max ? TR_max : TR_min;
        return operand;
    }
    if (d->code != OP_T_binary || !operand) return false;
    switch (d->sub) {
    case OP_add: *op = TR_sum;  return true;
    case OP_mul: *op = TR_prod; return true;
    case OP_or:  *op = TR_any;   return truth;
    case OP_and: *op = TR_every; return truth;
    default:     return false;
    }
}

static bool read_once(const Op *loop, int i) {
    const Region *r = loop->reg[0];
    return region_uses(r, r->args.at[1 + i]) == 1 && region_uses(r, r->last->in[i]) == 1;
}

// Also through a loop inside: v is the inner loop's initial value and nothing else, and v' is its result.
bool carried_reduction(const Op *loop, int i, TReduce *op) {
    const Region *r = loop->reg[0];
    const Val *v = r->args.at[1 + i], *next = r->last->in[i];
    if (next->type.ptr || !read_once(loop, i)) return false;
    if (reduce_joins(v, next, op)) return true;
    const Op *in = next->def;
    if (!in || in->code != OP_T_for || in->parent != r) return false;
    for (int k = 0; k < in->nout; k++)
        if (in->out[k] == next)
            return in->in[3 + k] == v && in->reg[0]->last->code == OP_T_yield && carried_reduction(in, k, op);
    return false;
}

bool carried_reductions(const Op *loop, TReduce *op) {
    TReduce own;
    for (int i = 0; i < loop->nout; i++) if (!carried_reduction(loop, i, op ? &op[i] : &own)) return false;
    return true;
}

// Is something that the loop carries part of v? A value made in a region inside counts as if it were.
static bool of_carried(const Region *r, const Val *v, bool *seen) {
    const Op *d = v->def;
    if (!d) return v->region == r && v != r->args.at[0];
    if (d->parent != r || seen[v->id]) return false;
    seen[v->id] = true;
    if (d->nreg) return true;
    for (int i = 0; i < d->nin; i++) if (of_carried(r, d->in[i], seen)) return true;
    return false;
}

static bool joined_with_carried(Fn *f, const Region *r, const Op *join, const Val *v) {
    bool *seen = NEW_N(f->arena, bool, f->nvals + 1);
    int own = 0;
    for (int k = 0; k < join->nin; k++) {
        if (join->in[k] == v && !own++) continue;
        if (of_carried(r, join->in[k], seen)) return true;
    }
    return false;
}

static CarriedKind kind_of(Fn *f, const Op *loop, int i, TReduce *op) {
    const Region *r = loop->reg[0];
    const Val *v = r->args.at[1 + i], *next = r->last->in[i];
    if (v->type.ptr || !reduce_joins(v, next, op) || next->def->code == OP_T_dot || next->def->parent != r) return CARRIED_other;
    if (!joined_with_carried(f, r, next->def, v)) return CARRIED_prefix;
    return read_once(loop, i) ? CARRIED_of_prefix : CARRIED_other;
}

// An operand of a CARRIED_of_prefix may mention any carried value but those of its own kind: they are read once.
bool carried_prefixes(Fn *f, const Op *loop, Carried *out) {
    for (int i = 0; i < loop->nout; i++)
        if ((out[i].kind = kind_of(f, loop, i, &out[i].op)) == CARRIED_other) return false;
    return true;
}
