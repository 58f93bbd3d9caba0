// Consumer groups of a block that share the trips of its loop.
//
// A tile of 64 rows has work for one warp group, and a long loop is then a chain of trips, however few blocks there are:
// products, maxima, exponentials, products. Two groups that take every second trip each halve the chain:
//
//     acc = 0                                group 0            group 1
//     for n in N by B { trip n }      ->     trips 0, 2, 4 ..   trips 1, 3, 5 ..      each from what the loop starts from
//     o = acc / den                          waits for group 1  hands over acc, den
//                                            acc, den merged;  o = acc / den
//
// One producer fills one ring for both, in the order of the trips; group i begins at stage i and goes on by as many
// stages as there are groups. Their number is a multiple of the groups', so that a stage stays with its group: it is
// waited for by the parity of its phase, which tells phases apart only for who has seen the last one but this complete
// (specialize/pingpong.c), and copies do not come in order. What they carry is joined as parts of other programs are (split_k.c: sums, or what `merge`
// says), but through shared memory (llvm/split_k_workspace.c). Beside a second group the tensor cores work while this one makes
// exponentials, as with tiles of 128 rows, which have one chain of as many trips as there are.
//
// Chosen where products are in a chain (specialize/softmax_overlap.c), which is where a trip waits for itself, and there may be
// four trips: joining takes as long as one. Else asked for (Schedule.slices). Blocks do not walk then. An H200, D64, 12
// heads, 64 queries: 512 keys 8.3 us instead of 8.7, 1024 keys 17.8 instead of 19.1 (2026-11-21).
#include "lower/specialize/specialize.h"

enum { WORTH = 4 };                                            // trips: to join what groups have takes as long as one

static int refuse(Ws *h, const char *why) {
    if (h->opt->schedule.sliced_k > 1) h->f->slices_refused = why;
    return 1;
}

// The most trips that the loop has, whatever the launch; INT64_MAX: any number.
static int64_t most_trips(const Ws *h) {
    LExpr lo, hi;
    int64_t from, to;
    const Op *step = h->loop->in[2]->def;
    if (!step || step->code != OP_T_const || !host_expr(h->facts, h->loop->in[0], &lo)) return INT64_MAX;
    to = fact_range(h->facts, h->loop->in[1]).hi;
    if (host_expr(h->facts, h->loop->in[1], &hi)) fact_constant(h->facts, hi, &to);
    if (!fact_constant(h->facts, lo, &from) || to >= INT32_MAX) return INT64_MAX;
    return to > from ? (to - from + step->imm - 1) / step->imm : 0;
}

int ws_slices(Ws *h) {
    int asked = h->opt->schedule.sliced_k;
    const Schedule *s = &h->opt->schedule;
    if (asked == 1 || (!asked && (!h->chained || s->stages || s->persistent == 2 || s->blocks || s->cluster > 1))) return 1;
    if (h->f->parts || h->f->dealt) return refuse(h, "programs share the loop already");
    if (h->groups * h->bands > 1) return refuse(h, "a tile of more than 64 rows has two warp groups already");
    if (h->made_bytes) return refuse(h, "an operand is made before the loop");
    if (ws_any_across(h)) return refuse(h, "an operand of a product goes from group to group");
    if (h->nest) return refuse(h, "its loop of products is in another one");
    if (h->nloops > 1) return refuse(h, "its products are in several loops");
    if (h->p[0].swapped) return refuse(h, "rows of its product are columns of the tile");
    const char *why = slices_refusal(h->f, h->loop);
    if (why) return refuse(h, why);
    int64_t trips = most_trips(h);
    if (trips < 2) return refuse(h, "the loop has one trip");
    if (!asked && trips < WORTH) return 1;
    return asked ? asked : 2;
}

// A stage may be held until the group's next trip has begun: so many stages, and as many more. Each is one group's.
bool ws_slices_short(Ws *h) {
    bool held = h->rings == 1;                                // else what the next trip needs first is free by then
    h->stages -= h->stages % h->slices;
    if (h->stages >= (held ? 2 : 1) * h->slices) return false;
    h->slices = refuse(h, "the ring is too short for it");
    return true;
}

// Each thread's registers: tiles as the accumulators of wgmma have them, rows four times in each warp.
uint32_t ws_slice_bytes(const Ws *h) {
    enum { ROW = 2048 };
    uint32_t bytes = 0;
    for (int i = 0; i < h->loop->nout && h->slices > 1; i++) {
        const Type *t = &h->loop->out[i]->type;
        bytes += t->rank > 1 ? (uint32_t)type_lanes(t) * (elem_bytes((Elem)t->elem) > 4 ? 8 : 4) : ROW;
    }
    return bytes * (uint32_t)(h->slices - 1);
}

void ws_slices_join(Ws *h) {
    Builder b = {h->f, NULL, h->loop, h->loop->span};
    h->slice = b_op(&b, OP_T_slice, 0, type_scalar(EL_index), 0, NULL);
    h->slice->def->imm = h->slices;
    slices_join(h->f, h->loop, h->slice, h->slices);
    h->f->slices = h->slices;
}

// From here on the loop is a slice's.
void ws_slice_trips(Ws *h, Builder *b) {
    Val **in = h->loop->in, *step = in[2];
    in[0] = b_binary(b, OP_add, in[0], b_binary(b, OP_mul, h->slice, step));
    in[2] = b_binary(b, OP_mul, step, b_const(b, EL_index, h->slices));
    h->every = h->slices;
}

Ring ws_first(Ws *h, Builder *b) {
    Val *stage = h->slices > 1 ? b_op(b, OP_T_cast, 0, type_scalar(EL_i32), 1, &h->slice) : ws_i32(b, 0);
    return (Ring){stage, ws_i32(b, 0)};                       // two values: blocks that walk put others in their places
}
