// Runs of lanes: what an index does along an axis that is not affine in it.
//
//     n = 1536 by 64            0  1  2 .. 30 31 | 32 33 .. 62 63       an axis
//     n % 32                    0  1  2 .. 30 31 |  0  1 .. 30 31       counts up, eight lanes at a time
//     n / 32                    0  0  0 ..  0  0 |  1  1 ..  1  1       stays the same, eight lanes at a time
//     n < 40                    stays the same, eight lanes at a time
//
// The question is put for a number of lanes v, which is to be moved at once: of each v lanes that begin at a multiple of v,
// does the value stay the same, or count up by one? A quotient or remainder by a multiple of v answers it where what is
// divided counts up and is itself a multiple of v where the lanes begin, so that no v lanes lie across two runs.
// (Quotients are floored, so this holds below 0 as well.) What sizes divide is asked of facts.c, which may assume it in
// the specialised variant.
#include "lower/facts/runs.h"

static const Op *quotient(const Val *x) {
    const Op *d = x->def;
    return d && d->code == OP_T_binary && (d->sub == OP_div || d->sub == OP_rem) ? d : NULL;
}

// What is no more than another value in another place or type.
static const Val *behind(const Val *x) {
    const Op *d = x->def;
    bool widened = d && d->code == OP_T_cast && !elem_is_float((Elem)d->in[0]->type.elem) &&
                   elem_bits((Elem)x->type.elem) >= elem_bits((Elem)d->in[0]->type.elem);
    return d && (d->code == OP_T_splat || d->code == OP_T_convert || widened) ? d->in[0] : NULL;
}

bool lanes_aligned(Facts *s, const Val *x, const Val *axis, int64_t v) {
    const Op *d = x->def;
    if (x->type.rank == 0) return fact_divides(s, x, v);
    if (!d) return false;
    if (behind(x)) return lanes_aligned(s, behind(x), axis, v);
    if (d->code == OP_T_index && d->in[0] == axis) return fact_divides(s, axis_lo(axis), v);
    if (d->code == OP_T_select) return lanes_aligned(s, d->in[1], axis, v) && lanes_aligned(s, d->in[2], axis, v);
    if (d->code != OP_T_binary) return false;
    if (d->sub == OP_mul) return lanes_aligned(s, d->in[1], axis, v) || lanes_aligned(s, d->in[0], axis, v);
    return (d->sub == OP_add || d->sub == OP_sub || d->sub == OP_rem) && lanes_aligned(s, d->in[0], axis, v) &&
           lanes_aligned(s, d->in[1], axis, v);
}

static LaneStep of_binary(Facts *s, const Op *d, const Val *axis, int64_t v) {
    LaneStep a = lane_step(s, d->in[0], axis, v), b = lane_step(s, d->in[1], axis, v);
    if (a == RUN_NONE || b == RUN_NONE) return RUN_NONE;
    if (a == b && (a == RUN_SAME || d->sub == OP_sub)) return RUN_SAME;
    if (d->sub == OP_add && (a == RUN_SAME || b == RUN_SAME)) return RUN_UP;
    if (a == RUN_SAME || b == RUN_UP) return RUN_NONE;
    if (d->sub == OP_sub) return RUN_UP;
    bool divides = quotient(d->out[0]) || d->sub == OP_lt || d->sub == OP_ge;
    if (!divides || !lanes_aligned(s, d->in[1], axis, v) || !lanes_aligned(s, d->in[0], axis, v)) return RUN_NONE;
    return d->sub == OP_rem ? RUN_UP : RUN_SAME;
}

LaneStep lane_step(Facts *s, const Val *x, const Val *axis, int64_t v) {
    const Op *d = x->def;
    if (type_axis(&x->type, axis) < 0) return RUN_SAME;
    if (!d) return RUN_NONE;
    if (behind(x)) return lane_step(s, behind(x), axis, v);
    switch (d->code) {
    case OP_T_index: return RUN_UP;
    case OP_T_binary: return of_binary(s, d, axis, v);
    case OP_T_select: {
        LaneStep a = lane_step(s, d->in[1], axis, v), b = lane_step(s, d->in[2], axis, v);
        return a == b && lane_step(s, d->in[0], axis, v) == RUN_SAME ? a : RUN_NONE;
    }
    default: return RUN_NONE;
    }
}
