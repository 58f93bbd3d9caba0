// What a trip computes, computed for another one.
//
//     for i .. {                                 j = i + 4 * B             the map: i is called j
//         n = axis i, N {B}               ->     n' = axis j, N {B}
//         x = load x[m, n]                       x' = load x[m, n']
//
// Loads ahead of their trip (prefetch.c in registers, row_cache.c into shared memory) need all that leads to their addresses
// again.
#include "lower/pass/iteration.h"

bool trip_follows(const Op *loop, const Val *v) {
    const Op *d = v->def;
    const Region *body = loop->reg[0];
    if (!d) return v->region != body || v == body->args.at[0];
    if (d->parent != body) return true;
    if (d->nreg || !op_has(d, 'P') || op_mixes_lanes(d)) return false;
    for (int i = 0; i < d->nin; i++) if (!trip_follows(loop, d->in[i])) return false;
    return true;
}

Val *trip_again(Fn *f, const Op *loop, ValMap *m, Val *v, Op *at) {
    Op *d = v->def;
    if (!d || d->parent != loop->reg[0] || map_get(m, v) != v) return map_get(m, v);
    for (int i = 0; i < d->nin; i++) trip_again(f, loop, m, d->in[i], at);
    Op *c = op_clone(f, d, m);
    op_before(at, c);
    const Op *end = loop->in[1]->def;                      // of a share of a row: the next trip past it is another block's
    bool earlier = d->code == OP_T_axis && end && end->code == OP_T_fun && end->sub == TF_min &&
                   (end->in[0] == d->in[1] || end->in[1] == d->in[1]);
    if (earlier) c->in[1] = loop->in[1];
    // there may be no such trip
    if (d->code == OP_T_axis && (earlier || c->in[0] != d->in[0])) c->flags &= (uint16_t)~AXIS_FULL;
    return map_get(m, v);
}
