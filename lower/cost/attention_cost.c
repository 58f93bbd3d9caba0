// How long attention takes: two products in a chain, the second on what exponentials made of the first.
//
//                              heads of up to 64                                            of up to 128
//     tiles of 64 queries      one group, a trip of 128 keys 0.80 us, a tile's begin and end 1.6     1.05      beside
//     tiles of 128 queries     two groups,                   1.12 us,                        1.5     1.47
//     tiles of 192 queries     three groups (specialize/consumer_groups.c),   1.57 us,                     2.8     (slower)
//
// Three groups keep the tensor cores, the units that make exponentials and the schedulers busier: 1.05 us for 128
// queries. But their tiles are larger, so that rows, and rounds over the multiprocessors, come out even less often: 8 x
// 12 heads of 1024 queries are 6 rounds of 128 and 5 of 192. One group keeps them less busy, but is sooner through where all tiles
// are on their way at once. That is all that is to be decided here: trips of 128 keys were the best of 64 to 192 but for heads of 80 and 256
// (by 3 and 1 %). With larger heads three groups have room for 80 keys and are slower; with a causal mask, too (programs differ in their trips
// then, and have no model).
//
// An H200, bf16, heads of 64, full: B4 H32 S4096 1163 us instead of 1194, B1 H16 S16384 2263 instead of 2389, B2 H32
// S2048 170 and 157, B8 H12 S1024 80 and 66 (2026-11-21). By 64 queries instead of 128: 16 heads of 512 9.6 instead of 11.1, 12 of 197 7.7 instead of
// 9.3, 8 heads of 128 with 128 queries and 4096 keys 39.9 instead of 51.3 (2026-11-22).
#include "lower/cost/cost.h"
#include "lower/pass/passes.h"

enum { KEYS = 128, SHORT_HEAD = 64, MOST_HEAD = 128 };
static const double START = 4.3;                                       // us: an empty launch, and the first loads
static const double FEWER = 0.35, MORE = 0.08;                         // of a key's time, by trips of fewer keys, and of more
static const struct { int64_t queries; double trip, tile; } measured[2][4] = {{{64, 0.80, 1.6}, {128, 1.12, 1.5}, {192, 1.57, 2.8}}, {{64, 1.05, 1.8}, {128, 1.47, 1.5}}};      // us

static bool makes(const Val *v, const Op *dot, int depth) {
    const Op *d = v->def;
    if (d == dot) return true;
    if (!d || depth == 0 || d->parent != dot->parent) return false;
    for (int i = 0; i < d->nin; i++)
        if (d->in[i]->type.kind == TY_TILE && d->in[i]->type.rank > 1 && makes(d->in[i], dot, depth - 1)) return true;
    return false;
}

bool cost_of_chain(const Op *loop, int64_t trips, int64_t programs, int sms, double *us, bool *knows) {
    const Op *dot[2] = {0};
    int n = 0;
    *knows = true;
    for (const Op *op = loop->reg[0]->first; op; op = op->next)
        if (op->code == OP_T_dot) { if (n < 2) dot[n] = op; n++; }
    if (n != 2 || !makes(dot[1]->in[0], dot[0], 16)) return false;
    const Val *row = NULL, *keys = dot[1]->in[op_first_axis(dot[1])];
    int64_t head = 1;
    for (int i = 0; i < 2; i++)
        for (int k = 0; k < dot[i]->out[0]->type.rank; k++) {
            const Val *axis = dot[i]->out[0]->type.axis[k];
            if (axis == keys) continue;
            if (type_axis(&dot[i]->in[0]->type, axis) >= 0) row = axis;
            else if (axis_extent(axis) > head) head = axis_extent(axis);
        }
    for (int i = op_first_axis(dot[0]); i < dot[0]->nin; i++)
        if (axis_extent(dot[0]->in[i]) > head) head = axis_extent(dot[0]->in[i]);
    if (!row) return false;
    *knows = head <= SHORT_HEAD || axis_extent(row) != 192;
    if (head > MOST_HEAD) return false;
    for (int i = 0; i < 4; i++) {
        int longer = head > SHORT_HEAD;
        if (measured[longer][i].queries != axis_extent(row)) continue;
        double rounds = (double)((programs + sms - 1) / sms);
        double of = (double)axis_extent(keys), less = of < KEYS ? FEWER * (KEYS - of) / KEYS : of > KEYS ? MORE : 0;
        *us = START + rounds * ((double)trips * measured[longer][i].trip * (1 + less) * of / KEYS + measured[longer][i].tile);
        return true;
    }
    return false;
}
