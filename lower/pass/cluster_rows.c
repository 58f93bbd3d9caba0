// Rows too long for one block: the blocks of a cluster share each row's loops.
//
//     top = -inf                                                rank, m = program % C, program / C
//     for n in N by B { top = max(top, max(x[m, n] over n)) }   for n in rank's share of N by B { .. }
//     den = 0                                             ->    top = join_cluster.max top
//     for n in N by B { den += sum(exp(x[m, n] - top) ..) }     for n in rank's share of N by B { .. }
//     for n in N by B { y[m, n] = exp(x[m, n] - top) / den }    den = join_cluster.sum den
//                                                               for n in rank's share of N by B { .. }
//
// A row that fills a block's shared memory (row_cache.c) leaves room for no other block: loads, arithmetic and stores of a
// multiprocessor then follow each other, and memory waits. A C-th of the row leaves room for several blocks, one of which
// always loads. What the loops carry is joined through distributed shared memory, in the order of the blocks, the same
// in each.
//
// All loops of the kernel's body must be ones that may be shared: what they carry are reductions (rule 1 of carried.c), or it
// has a `merge` (an online softmax's maximum and sum: each block gets all blocks' states), and what they
// store they store along the trip's axis, so that no two blocks store the same. What else the body stores is the first
// block's affair. `--with=cluster=C` asks for it, cluster=1 forbids it; by itself it is done where the row's length is known
// to be more than two blocks of a multiprocessor can keep.
//
// Few programs with several long loops (statistics of a channel over all pictures, and what is made of them; the variance of a whole tensor) want
// more blocks than a cluster has. Where the parts of a first loop would be joined by the last of them (split_k.c), which would go through the other
// loops alone, all of them meet instead:
//
//     s = 0                                                     part, c = program % S, program / S
//     for m in M by B { s += sum(x[m, c] over m) }              for m in part's share of M by B { .. }
//     for m in M by B { y[m, c] = x[m, c] - s / M }       ->    here = part_put c, part, s            {all: until all S have put theirs}
//                                                               s = part_get.sum c, here              the same in each of them
//                                                               for m in part's share of M by B { .. }
//
// So do the parts of a loop whose trips read what it carries, where rule 2 of carried.c allows it (running sums that are stored as they come; the
// greatest of running sums). Each part first comes to its own total, by the same trips without what they store, and begins with the totals of those
// before it:
//
//     c = 0                                                     t = 0
//     for n in N by B {                                         for n in part's share of N by B { t += sum(x[n] over n) }
//         y[n] = c + cumsum(x[n] over n)                        here = part_put tile, part, t           {all}
//         c += sum(x[n] over n)                          ->     c = part_get.sum tile, here, part       of the parts before this one
//     }                                                         for n in part's share of N by B { y[n] = c + cumsum(..);  c += .. }
//
// 16 M f32 in a row, one program, take 58 us on an H200 so, and 2890 in one part (torch.cumsum 53); what is loaded for the total is kept for the second
// loop as far as there is room (row_cache.c).
//
// They wait for each other in memory, so they must all run at once: no more programs than multiprocessors (a launch fact), and a launch that
// the driver starts as a whole (LaunchInfo.together). Loops with a `merge` are left to split_k.c.
#include "lower/facts/access.h"
#include "lower/facts/facts.h"
#include "lower/pass/passes.h"
#include "lower/pass/carried.h"
#include "lower/pass/reduction.h"
#include "ptx/ptx.h"

#include <stdlib.h>

enum { MAX_LOOPS = 8, MAX_CARRIED = 16, MOST = 8, PAIR = 113 << 10 };      // bytes of a row: half a multiprocessor's
enum { SHARE = 36 << 10, LARGE = 72 << 10, TRIPS = 2 };                    // bytes of a share; trips of it
enum { FEW_JOINED = 4 };                                                   // lanes of what is joined
enum { BESIDE = 4, BESIDE_LARGE = 3 };                                     // blocks of a multiprocessor

typedef struct Share {
    Fn     *f;
    Op     *loop[MAX_LOOPS];
    TReduce join[MAX_LOOPS][MAX_CARRIED];
    Carried carried[MAX_LOOPS][MAX_CARRIED];   // of loops whose trips read what they carry
    Op     *merge[MAX_LOOPS];         // says how states become one; or NULL: they are joined
    bool    runs[MAX_LOOPS];          // trips read what they carry
    bool    in_memory;                // the blocks are of no cluster
    int     n;
} Share;

static bool inside(const Val *v, const Op *loop) {
    const Region *r = v->def ? v->def->parent : v->region;
    while (r && r->owner && r->owner != loop) r = r->owner->parent;
    return r && r->owner == loop;
}

// How much a scalar moves when the loop's counter moves by one.
static bool moves(const Val *v, const Op *loop, int64_t *k) {
    int64_t by[2] = {0};
    const Op *d = v->def;
    *k = v == loop->reg[0]->args.at[0];
    if (*k || !inside(v, loop)) return true;
    if (!d || d->nreg || d->nout != 1 || !op_has(d, 'P')) return false;
    bool still = true;
    for (int i = 0; i < d->nin; i++) {
        if (d->in[i]->type.rank || !moves(d->in[i], loop, k)) return false;
        still &= *k == 0;
        if (i < 2) by[i] = *k;
    }
    *k = 0;
    if (still) return true;
    if (d->code != OP_T_binary) return false;
    const Op *x = d->in[0]->def, *y = d->in[1]->def;
    switch (d->sub) {
    case OP_add: *k = by[0] + by[1]; return true;
    case OP_sub: *k = by[0] - by[1]; return true;
    case OP_mul:
        if (y && y->code == OP_T_const) *k = by[0] * y->imm;
        else if (x && x->code == OP_T_const) *k = by[1] * x->imm;
        return *k != 0;
    default: return false;
    }
}

// Some index moves with the loop's counter, from trip to trip by as many elements as the store has along it.
static bool along(const Op *store, const Op *loop) {
    for (int i = 1; i <= store->nidx; i++) {
        Affine x;
        int64_t moved = 0, k;
        if (!affine_of(store->in[i], &x) || x.ntile || x.naxis > 1 || (x.naxis && (x.axis[0].scale || x.axis[0].k != 1))) continue;
        bool known = true;
        for (int t = 0; t < x.nterm && known; t++) if ((known = moves(x.term[t].v, loop, &k))) moved += x.term[t].k * k;
        moved *= loop->in[2]->def->imm;
        if (known && llabs(moved) >= (x.naxis ? axis_extent(x.axis[0].axis) : 1)) return true;
    }
    return false;
}

// What the loop carries, in s->join and s->carried; or why its iterations cannot be shared.
static const char *carried_refusal(Share *s, const Op *loop) {
    const Region *r = loop->reg[0];
    TReduce op;
    if (carried_reductions(loop, s->join[s->n])) return NULL;
    Carried *carried = s->carried[s->n];
    s->runs[s->n] = s->in_memory && carried_prefixes(s->f, loop, carried);
    for (int i = 0; i < loop->nout; i++) s->join[s->n][i] = carried[i].op;
    if (s->runs[s->n]) return NULL;
    for (int i = 0; i < loop->nout; i++)
        if (r->last->in[i]->type.ptr || !reduce_joins(r->args.at[1 + i], r->last->in[i], &op))
            return "a loop carries more than sums, products, extremes and truths";
    return "a trip reads what the loop carries, which has no `merge`";
}

static const char *loop_refusal(Share *s, Op *loop) {
    Region *r = loop->reg[0];
    const Op *yield = r->last, *step = loop->in[2]->def;
    if (s->n == MAX_LOOPS || loop->nout > MAX_CARRIED) return "too many loops, or too much that they carry";
    if (yield->code != OP_T_yield || !step || step->code != OP_T_const || step->imm < 1)
        return "a loop may end early, or its step is not a number";
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op)) {
        if (op_target(op) == loop) return "a loop may end early";
        if (op->code == OP_T_store && along(op, loop)) continue;
        if (op_has(op, 'W') || op_has(op, 'S') || op_has(op, 'A'))
            return "a loop stores elsewhere than along its axis, or has another effect";
    }
    Op *merge = s->merge[s->n] = merge_of(loop);
    for (int i = 0; i < loop->nout && merge; i++) {
        int uses = 0;
        for (int k = 0; k < merge->nin; k++) uses += merge->in[k] == loop->out[i];
        if (uses != region_uses(&s->f->body, loop->out[i])) return "what a loop carries is used beside its `merge`";
    }
    if (merge && merge_refusal(merge)) return merge_refusal(merge);
    const char *why = merge ? NULL : carried_refusal(s, loop);
    if (!why) s->loop[s->n++] = loop;
    return why;
}

static bool of_inout(const Fn *f, const Op *op) {
    bool access = op->code == OP_T_load || op->code == OP_T_store || op->code == OP_T_atomic;
    return access && op->in[0]->type.kind == TY_TENSOR && f->launch->params[op->in[0]->def->imm].mode == PM_INOUT;
}

// Nothing becomes of v but what one store of the body behind `at`, outside of its loops, stores.
static bool only_stored(const Fn *f, const Val *v, const Op *at) {
    int uses = region_uses(&f->body, v);
    if (uses != 1) return uses == 0;
    for (const Op *op = at->next; op; op = op->next)
        for (int i = 0; i < op->nin; i++)
            if (op->in[i] == v) return op->code == OP_T_store || (op_has(op, 'P') && op->nout == 1 && only_stored(f, op->out[0], op));
    return false;
}

// A tensor that is read and written, as running statistics are: behind all loops, where the first block does both.
static bool first_does(const Fn *f) {
    const Op *last = NULL;
    for (const Op *op = f->body.first; op; op = op->next) if (op->code == OP_T_for) last = op;
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) {
        if (!of_inout(f, op)) continue;
        const Op *before = last;
        while (before && before != op) before = before->next;
        if (!before || op->parent != &f->body || (op->code == OP_T_load && !only_stored(f, op->out[0], op))) return false;
    }
    return true;
}

static const char *refusal(Share *s, const Target *t) {
    const LaunchInfo *l = s->f->launch;
    if (!t->has_cluster && !s->in_memory) return "the GPU has none";
    for (int i = 0; i < l->nparams; i++) if (l->params[i].kind == PK_POINTER) return "it reads what it writes";
    if (!first_does(s->f)) return "it reads what it writes";
    for (Op *op = s->f->body.first; op; op = op->next) {
        const char *why = NULL;
        if (op->code == OP_T_merge) continue;
        if (op->code == OP_T_for) why = loop_refusal(s, op);
        else if (op->nreg || op->code == OP_T_dot) why = "the body holds more than loops and straight lines";
        else if (op->code != OP_T_store && (op_has(op, 'W') || op_has(op, 'S') || op_has(op, 'A')))
            why = "the body has effects besides stores";
        if (why) return why;
    }
    return s->n ? NULL : "there is no loop";
}

static bool number(Facts *facts, const Val *v, const int64_t *dims, int64_t *out) {
    LExpr e;
    if (!host_expr(facts, v, &e)) return false;
    for (uint32_t i = 0; i < e.n; i++) if (e.at[i].op == L_DIM && !dims) return false;
    return launch_by_dims(e, dims, out);
}

static bool said_before(const Op *load) {                        // as the author wrote it: x[n] twice in a trip is one load
    for (const Op *op = load->prev; op; op = op->prev) {
        bool same = op->code == OP_T_load && op->nin == load->nin;
        for (int i = 0; i < load->nin && same; i++) same = fact_same(op->in[i], load->in[i]);
        if (same) return true;
    }
    return false;
}

// Bytes of the row that a loop walks over, as far as they are known: of what a trip loads, all trips.
static int64_t row_bytes(const Share *s, const int64_t *dims) {
    Facts *facts = facts_new(s->f);
    int64_t most = s->f->longest, lo, hi;
    for (int i = 0; i < s->n; i++) {
        int64_t bytes = 0, step = s->loop[i]->in[2]->def->imm;
        if (!number(facts, s->loop[i]->in[0], dims, &lo) || !number(facts, s->loop[i]->in[1], dims, &hi)) continue;
        for (const Op *op = s->loop[i]->reg[0]->first; op; op = op->next)
            if (op->code == OP_T_load && loads_own(op) && !said_before(op))
                bytes += type_lanes(&op->out[0]->type) * elem_bytes((Elem)op->out[0]->type.elem);
        int64_t all = bytes * ((hi - lo + step - 1) / step);
        if (all > most) most = all;
    }
    return most;
}

// Bytes of a block's share, at most. Small ones, four at a time, draw rows through the multiprocessors fastest (softmax
// of 128256 bf16 on an H200: 508 us by shares of 32 KB, 522 of 64; group norm 71 and 68, layer norm of 65536 295 and
// 278); but a share should have a few trips, and weights, which come from L2 again for each row and block, want larger
// ones to hide that. So do rows that come through registers.
static int64_t share_bytes(const Share *s) {
    int64_t most = 0;
    for (int i = 0; i < s->n; i++) {
        int64_t trip = 0;
        for (const Op *op = s->loop[i]->reg[0]->first; op; op = op->next) {
            if (op->code != OP_T_load || !op->out[0]->type.rank) continue;
            if (!loads_own(op) || !access_by_16(s->f, op)) return LARGE;
            if (!said_before(op)) trip += type_lanes(&op->out[0]->type) * elem_bytes((Elem)op->out[0]->type.elem);
        }
        most = trip > most ? trip : most;
    }
    most *= TRIPS;
    return most < SHARE ? SHARE : most > LARGE ? LARGE : most;
}

static int blocks_for(const Share *s, int64_t bytes) {
    int blocks = 1;
    int64_t each = share_bytes(s);
    while (blocks < MOST && bytes > (blocks > 1 ? each * blocks : PAIR)) blocks *= 2;
    return blocks;
}

// Every thread of a cluster's blocks sends what it holds of a join, also where others hold the same: sums of columns are better joined in memory.
static bool joins_tiles(const Share *s) {
    for (int i = 0; i < s->n; i++)
        for (int k = 0; k < s->loop[i]->nout; k++) if (type_lanes(&s->loop[i]->out[k]->type) > FEW_JOINED) return true;
    return false;
}

int share_blocks(Fn *f, const Target *t, const int64_t *dims) {
    Share s = {.f = f};
    return refusal(&s, t) || s.n < 2 || joins_tiles(&s) ? 1 : blocks_for(&s, row_bytes(&s, dims));
}

// Each block has all blocks' states, and merges them in order, leaving out those that had no trips.
static void merge_all(Share *s, Op *merge, const Op *loop, Val *lo, Val *each, Val *hi, int64_t blocks) {
    Builder b = {s->f, NULL, merge, loop->span};
    Val *state[MOST][MAX_CARRIED];
    for (int64_t k = 0; k < blocks; k++)
        for (int i = 0; i < merge->nin; i++) {
            Val *v = state[k][i] = merge->in[i];
            if (v->def != loop) continue;                      // the loop does not change it
            state[k][i] = b_op(&b, OP_T_from_cluster, 0, v->type, 1, &v);
            state[k][i]->def->imm = blocks;
            state[k][i]->def->attr = k;
        }
    for (int64_t k = 1; k < blocks; k++) {
        Val *from = b_binary(&b, OP_add, lo, b_binary(&b, OP_mul, each, b_const(&b, EL_index, k)));
        merge_if(&b, merge, b_binary(&b, OP_lt, from, hi), state[0], state[k], state[0]);
    }
    merge_becomes(s->f, merge, state[0]);
}

typedef struct Bounds { Val *lo, *each, *hi; } Bounds;

// Whole trips, as many for each block as for the first.
static Bounds share_trips(Builder *at, Op *loop, Val *rank, int64_t blocks) {
    Builder b = *at;
    Val *lo = loop->in[0], *hi = loop->in[1], *step = loop->in[2];
    Val *up = b_binary(&b, OP_sub, step, b_const(&b, EL_index, 1)), *length = b_binary(&b, OP_sub, hi, lo);
    Val *trips = b_binary(&b, OP_div, b_binary(&b, OP_add, length, up), step), *many = b_const(&b, EL_index, blocks);
    Val *each = b_binary(&b, OP_div, b_binary(&b, OP_add, trips, b_const(&b, EL_index, blocks - 1)), many);
    each = b_binary(&b, OP_mul, each, step);
    loop->in[0] = b_binary(&b, OP_add, lo, b_binary(&b, OP_mul, rank, each));
    loop->in[1] = b_op(&b, OP_T_fun, TF_min, type_scalar(EL_index), 2,
                       (Val *[]){hi, b_binary(&b, OP_add, loop->in[0], each)});
    return (Bounds){lo, each, hi};
}

// What all but the first block begin with.
static void share_carried(Share *s, Builder *b, int at, Val *rank) {
    Op *loop = s->loop[at];
    Val *first = NULL;
    for (int i = 0; i < loop->nout; i++) {
        Val *init = loop->in[3 + i];
        double none = reduce_neutral(s->join[at][i], (Elem)init->type.elem);
        if (is_neutral(init, none)) continue;
        if (!first) first = b_binary(b, OP_eq, rank, b_const(b, EL_index, 0));
        loop->in[3 + i] = b_op(b, OP_T_select, 0, init->type, 3, (Val *[]){first, init, b_number(b, init->type, none)});
    }
}

static void share_loop(Share *s, int at, Val *rank, int64_t blocks) {
    Op *loop = s->loop[at];
    Builder b = {s->f, NULL, loop, loop->span}, after = {s->f, NULL, loop->next, loop->span};
    Bounds all = share_trips(&b, loop, rank, blocks);
    if (s->merge[at]) { merge_all(s, s->merge[at], loop, all.lo, all.each, all.hi, blocks); return; }
    share_carried(s, &b, at, rank);
    for (int i = 0; i < loop->nout; i++) {
        Val *out = loop->out[i];
        Op *join = op_new(s->f, OP_T_join_cluster, loop->span, 1, (Val *[]){out}, 1);
        Val *whole = join->out[0];
        join->sub = (uint8_t)s->join[at][i];
        join->imm = blocks;
        whole->type = out->type;
        whole->name = out->name;
        replace_uses(&s->f->body, out, whole);
        join->in[0] = out;
        b_insert(&after, join);
    }
}

// What is loaded for the store, of a tensor that is written, goes with it, and what it becomes on its way.
static void with_store(Fn *f, Region *branch, Val *v) {
    Op *d = v->def;
    bool loads = d && d->code == OP_T_load && of_inout(f, d);
    if (!d || d->parent != &f->body || (!loads && (!op_has(d, 'P') || d->nout != 1 || d->out[0]->type.kind != TY_TILE))) return;
    if (region_uses(&f->body, v) != region_uses(branch, v)) return;
    op_remove(d);
    op_before(branch->first, d);
    for (int i = 0; i < d->nin; i++) if (d->in[i]->type.kind == TY_TILE) with_store(f, branch, d->in[i]);
}

// What the body stores outside of its loops.
static void by_the_first(Share *s, Val *rank) {
    for (Op *op = s->f->body.first, *next; op; op = next) {
        next = op->next;
        if (op->code != OP_T_store) continue;
        Builder b = {s->f, NULL, op, op->span};
        Val *first = b_binary(&b, OP_eq, rank, b_const(&b, EL_index, 0));
        Op *branch = op_new(s->f, OP_T_if, op->span, 1, &first, 0);
        op_before(op, branch);
        op_remove(op);
        op_append(branch->reg[0], op);
        if (of_inout(s->f, op)) with_store(s->f, branch->reg[0], op_value(op));
        for (int i = 0; i < 2; i++) op_append(branch->reg[i], op_new(s->f, OP_T_yield, op->span, 0, NULL, 0));
    }
}

// After `loop`, all parts put their shares of its values, or of those that `takes` names. Each part gets the joined values behind `whole`, the loop
// whose results they are: the same loop, or the one that runs again. Returns part_put.
static Op *meet(Share *s, int at, Op *loop, Op *whole, Val *tile, Val *part, int64_t parts, const bool *takes) {
    Val *in[2 + MAX_CARRIED] = {tile, part};
    int n = 2;
    for (int i = 0; i < loop->nout; i++) if (!takes || takes[i]) in[n++] = loop->out[i];
    Op *put = op_new(s->f, OP_T_part_put, loop->span, n, in, 1);
    put->out[0]->type = type_scalar(EL_bool);
    put->imm = parts;
    put->attr = PUT_all;
    Builder after = {s->f, NULL, loop->next, loop->span}, behind = {s->f, NULL, whole->next, whole->span};
    b_insert(&after, put);
    if (whole == loop) behind.before = after.before;
    n = 0;
    for (int i = 0; i < loop->nout; i++) {
        if (takes && !takes[i]) continue;
        Val *out = whole->out[i], *got;
        if (region_uses(&s->f->body, out) > (whole == loop)) {
            got = b_op(&behind, OP_T_part_get, s->join[at][i], out->type, 2, (Val *[]){tile, put->out[0]});
            got->def->attr = n;
            got->name = out->name;
            replace_uses(&s->f->body, out, got);
            put->in[2 + n] = loop->out[i];
        }
        n++;
    }
    return put;
}

// The same, where the blocks meet in memory.
static void meet_after(Share *s, int at, Val *tile, Val *part, int64_t parts) {
    Op *loop = s->loop[at];
    Builder b = {s->f, NULL, loop, loop->span};
    share_trips(&b, loop, part, parts);
    if (!loop->nout) return;
    share_carried(s, &b, at, part);
    meet(s, at, loop, loop, tile, part, parts, NULL);
}

static Op *without_stores(Fn *f, const Op *loop) {
    ValMap m = {NULL, 0, f->arena};
    Op *c = op_clone(f, loop, &m);
    for (Op *op = op_walk(c->reg[0], NULL), *next; op; op = next) {
        next = op_walk(c->reg[0], op);
        if (op->code == OP_T_store) op_remove(op);
    }
    return c;
}

// A loop whose trips read what it carries: each part first comes to its own total of each prefix, in a loop of the same trips that stores nothing.
// When all have, each begins with what the parts before it came to. What is made of prefixes is put together after that.
static void meet_before(Share *s, int at, Val *tile, Val *part, int64_t parts) {
    Op *loop = s->loop[at];
    Fn *f = s->f;
    Builder b = {f, NULL, loop, loop->span};
    Val *starts[MAX_CARRIED];
    bool prefix[MAX_CARRIED], other[MAX_CARRIED], any = false;
    for (int i = 0; i < loop->nout; i++) {
        prefix[i] = s->carried[at][i].kind == CARRIED_prefix;
        any |= other[i] = !prefix[i];
        starts[i] = loop->in[3 + i];
    }
    share_trips(&b, loop, part, parts);
    share_carried(s, &b, at, part);
    Op *total = without_stores(f, loop);
    op_before(loop, total);
    Op *put = meet(s, at, total, loop, tile, part, parts, prefix);
    Val *first = b_binary(&b, OP_eq, part, b_const(&b, EL_index, 0));
    for (int i = 0, n = 0; i < loop->nout; i++) {
        if (!prefix[i]) continue;
        Val *before = b_op(&b, OP_T_part_get, s->join[at][i], loop->out[i]->type, 3, (Val *[]){tile, put->out[0], part});
        before->def->attr = n++;
        loop->in[3 + i] = b_op(&b, OP_T_select, 0, before->type, 3, (Val *[]){first, starts[i], before});
    }
    if (any) meet(s, at, loop, loop, tile, part, parts, other);
}

// All run at once: this many programs, each in so many parts.
static bool together(Fn *f, int64_t parts) {
    LExpr blocks = launch_join_const(f->arena, L_MUL, f->launch->programs, parts);
    return fact_assume(facts_new(f), launch_join_const(f->arena, L_LE, blocks, f->target->sms));
}

// Loops behind the first one, which its last part would go through alone.
static bool meets(Share *s) {
    bool merges = false, runs = false;
    if (refusal(s, s->f->target)) return false;
    for (int i = 0; i < s->n; i++) merges |= s->merge[i] != NULL, runs |= s->runs[i];
    return (s->n > 1 || runs) && s->loop[0]->nout && !merges;
}

bool share_meets(Fn *f, bool *runs) {
    Share s = {.f = f, .in_memory = true};
    bool meet = meets(&s);
    *runs = false;
    for (int i = 0; i < s.n; i++) *runs |= meet && s.runs[i];
    return meet;
}

bool share_in_memory(Fn *f, const CompileOptions *opt) {
    Share s = {.f = f, .in_memory = true};
    int64_t parts = opt->schedule.split_k;
    if (parts < 2 || !f->fast || !meets(&s) || !together(f, parts)) return false;
    Op *program = program_of(f);
    Builder b = {f, NULL, program->next, f->body.first->span};
    Val *number = program->out[0];
    Val *tile = b_binary(&b, OP_div, number, b_const(&b, EL_index, parts)), *part = b_binary(&b, OP_rem, number, b_const(&b, EL_index, parts));
    replace_uses(&f->body, number, tile);
    tile->def->in[0] = part->def->in[0] = number;
    by_the_first(&s, part);
    bool runs = false;
    for (int i = 0; i < s.n; i++) {
        if (s.runs[i]) meet_before(&s, i, tile, part, parts);
        else meet_after(&s, i, tile, part, parts);
        runs |= s.runs[i];
    }
    f->launch->programs = launch_join_const(f->arena, L_MUL, f->launch->programs, parts);
    f->launch->together = true;
    f->parts = (int)parts;
    if (runs) simplify(f);                                         // what a total needs nothing of
    return true;
}

bool share_rows(Fn *f, const CompileOptions *opt) {
    Share s = {.f = f};
    int asked = opt->schedule.cluster;
    if (asked == 1 || opt->schedule.warps == 1 || opt->schedule.split_k > 1) return false;
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) if (op->code == OP_T_dot) return false;
    const char *why = refusal(&s, f->target);
    int64_t blocks = asked ? asked : why || s.n < 2 || joins_tiles(&s) ? 1 : blocks_for(&s, row_bytes(&s, NULL));
    if (!why && asked > 1 && (asked & (asked - 1) || asked > MOST))
        why = "blocks of a cluster that shares rows are 2, 4 or 8";
    if (asked) f->cluster_refused = why;
    if (why || blocks < 2) return false;

    Op *program = program_of(f);
    Builder b = {f, NULL, program->next, f->body.first->span};
    Val *number = program->out[0];
    Val *mine = b_binary(&b, OP_div, number, b_const(&b, EL_index, blocks)),
        *rank = b_binary(&b, OP_rem, number, b_const(&b, EL_index, blocks));
    replace_uses(&f->body, number, mine);
    mine->def->in[0] = rank->def->in[0] = number;
    by_the_first(&s, rank);
    for (int i = 0; i < s.n; i++) share_loop(&s, i, rank, blocks);
    f->launch->programs = launch_join_const(f->arena, L_MUL, f->launch->programs, blocks);
    f->cluster = f->launch->cluster = f->shares = (int)blocks;
    f->beside = share_bytes(&s) > SHARE || f->longest > SHARE * blocks ? BESIDE_LARGE : BESIDE;
    return true;
}
