// What a computed left operand is made of, brought by TMA: weights of 8 or 4 bits, unpacked on their way to the tensor
// cores.
//
//     acc += dot(x[m, k], w(q[n, k / 2], s[n, k / 128]))        w: shifts, masks, scales; made as the transposed product, w on the left
//
//     producer                                            consumers
//     wait empty;  tma_load x, q                          wait full;  b = buffer_load q;  a = w(b, s) in wgmma's fragments;
//                                                         acc = wgmma a, x, acc;  wait;  it is read
//
// So what lies in shared memory, and comes from memory, is the few bits; it is widened in registers, where wgmma takes
// its left operand from, and the layout pass lays out all that leads to it as those fragments (assign.c). What TMA
// cannot bring (scales of groups, in rows of a few) each thread loads for itself.
//
// A tile of q has fewer elements than lanes where several lie in one: index k / 2 is two lanes an element
// (Operand.per), if a tile's first lane is a multiple of that.
//
//     s[n, k / 128], 64 lanes of k a trip:  s[n, k0 / 128]    one number a row, loaded a trip ahead and carried (of shorter groups, several)
//
// An H200, decoding with weights of 8 bits, 16 x 14336 x 4096: 31.6 us with conversions one by one and one block a multiprocessor (bf16 31.7),
// 24.2 two at a time (llvm/packed16.c), 19.3 with two blocks on each (2026-11-22).
//
// Threads read these stages themselves, so a stage is free when each warp has said so, not each group's first one.
#include "lower/specialize/specialize.h"
#include "lower/pass/iteration.h"

enum { MOST_PACKED = 16, LEAST_ROW = 32, LEAST_RUN = 16, RESERVED = 1024, LEAST_STAGES = 3 };
// lanes of an element; bytes of a row in shared memory; lanes with one scale; bytes of shared memory that each block takes; stages of a block that shares it

// The axis along which an index counts, every `per` lanes; NULL: none, or otherwise.
static Val *counts(Ws *h, const Access *a, int d, int *per) {
    const Affine *x = &a->aff[d];
    *per = 1;
    if (x->naxis == 1 && !x->ntile) return x->axis[0].k == 1 && !x->axis[0].scale ? x->axis[0].axis : NULL;
    const Op *q = a->idx[d]->def, *i = q && q->code == OP_T_binary && q->sub == OP_div ? q->in[0]->def : NULL,
             *by = i ? q->in[1]->def : NULL;
    if (!i || i->code != OP_T_index || !by || by->code != OP_T_const || by->imm < 2 || by->imm > MOST_PACKED ||
        (by->imm & (by->imm - 1)))
        return NULL;
    Val *axis = i->in[0];
    if (axis_extent(axis) % by->imm || fact_divisor(h->facts, axis_lo(axis)) % by->imm) return NULL;
    *per = (int)by->imm;
    return axis;
}

static bool placed(Ws *h, Operand *o) {
    const Access *a = &o->a;
    for (int d = 0; d < a->nidx; d++) {
        int per;
        if (a->idx[d]->type.rank == 0) {
            if (!ws_place_computable(h, &a->aff[d])) return false;
            continue;
        }
        Val *axis = counts(h, a, d, &per);
        if (!axis || (per == 1 ? !ws_place_computable(h, &a->aff[d]) : !ws_computable(h, axis_lo(axis)))) return false;
        if (d == a->inner) o->inner = axis;
        else if (!o->outer) { o->outer = axis; o->outer_dim = d; }
        else return false;
        o->per[d == a->inner] = per;
    }
    return o->inner && o->outer && o->inner != o->outer;
}

// Dead lanes of a load are 0, and somebody may count on it: of the contracted axis they lie where the tensor has ended,
// or there are none.
static bool ends(Ws *h, const Operand *o) {
    const Val *k = h->p[0].k;
    int64_t extent = axis_extent(k);
    LExpr end;
    if ((k->def->flags & AXIS_FULL) ||
        (fact_divisor(h->facts, axis_lo(k)) % extent == 0 && fact_known_multiple(h->facts, axis_hi(k), extent)))
        return true;
    for (int i = 0; i < 2; i++) {
        if ((i ? o->inner : o->outer) != k) continue;
        LExpr dim = launch_join_const(h->f->arena, L_MUL, o->a.p->dim[i ? o->a.inner : o->outer_dim], o->per[i]);
        return host_expr(h->facts, axis_hi(k), &end) && (launch_same(dim, end) || fact_host_at_most(h->facts, dim, end));
    }
    return false;
}

static bool aligned(Ws *h, const Operand *o, int unit) {
    const Access *a = &o->a;
    const Affine *x = &a->aff[a->inner];
    if (o->per[1] > 1 ? !fact_divides(h->facts, axis_lo(o->inner), (int64_t)unit * o->per[1]) : x->c % unit != 0)
        return false;
    for (int t = 0; o->per[1] == 1 && t < x->nterm; t++)
        if (x->term[t].k % unit && !fact_divides(h->facts, x->term[t].v, unit)) return false;
    for (int d = 0; d < a->nidx; d++)
        if (d != a->inner && !a->unit[d] && !fact_stride_divides(h->facts, a->param, d, unit)) return false;
    return true;
}

static bool source(Ws *h, Op *load, Operand *o) {
    *o = (Operand){.where = RING, .load = load};
    if ((load->flags & HAS_ELSE) || load->out[0]->type.rank != 2 || load->out[0]->type.elem == EL_bool) return false;
    access_shape(h->facts, load, &o->a);
    int size = elem_bytes(o->a.elem);
    if (o->a.p->mode != PM_IN || o->a.p->strided || o->a.nidx < 2 || o->a.nidx > 5 || !placed(h, o)) return false;
    int64_t row = axis_extent(o->inner) / o->per[1] * size, rows = axis_extent(o->outer) / o->per[0];
    if (row % LEAST_ROW || rows % 8 || rows > 256 || size > 4) return false;
    for (o->swizzle = SPAN; row % o->swizzle;) o->swizzle /= 2;
    o->columns = row / size;
    o->bytes = (uint32_t)(row * rows);
    return ends(h, o) && aligned(h, o, 16 / size);
}

// ---- loads a trip ahead ---------------------------------------------------------------------------
//
//     s[n, k / 32], 64 lanes of k a trip:  s[n, k0 / 32], s[n, k0 / 32 + 1], and by a lane's number one of them; which one
//                                          the layout says of each register, so nothing is chosen when it runs

static const Op *quotient(Ws *h, const Val *idx) {
    const Op *q = idx->def, *k = q && q->code == OP_T_binary && q->sub == OP_div ? q->in[0]->def : NULL, *c = k ? q->in[1]->def : NULL;
    return k && k->code == OP_T_index && k->in[0] == h->p[0].k && c && c->code == OP_T_const && c->imm >= 1 ? q : NULL;
}

// Of how many lanes in a row each has the same, at least: quotients, and what is made of them and of what lacks the axis. 0: unknown.
static int64_t alike(Ws *h, const Val *v) {
    const Op *d = v->def, *q = quotient(h, v);
    int64_t extent = axis_extent(h->p[0].k), least = extent;
    if (type_axis(&v->type, h->p[0].k) < 0) return extent;
    if (q) {
        int64_t c = q->in[1]->def->imm;
        if (fact_divisor(h->facts, axis_lo(h->p[0].k)) % extent) return 0;
        return c % extent == 0 ? extent : extent % c == 0 && (c & (c - 1)) == 0 ? c : 0;
    }
    if (!d || (d->code != OP_T_binary && d->code != OP_T_cast && d->code != OP_T_splat)) return 0;
    for (int i = 0; i < d->nin; i++) {
        int64_t n = alike(h, d->in[i]);
        least = n < least ? n : least;
    }
    return least;
}

// Runs of lanes with the same element; 0: it is loaded in its trip.
int ws_runs_ahead(Ws *h, const Op *load) {
    int64_t extent = axis_extent(h->p[0].k), least = extent;
    if (h->slices > 1 || h->tiles > 1 || (load->flags & HAS_ELSE) || h->f->launch->params[load->in[0]->def->imm].mode != PM_IN) return 0;
    for (int i = 0; i < load->nidx; i++) {
        int64_t n = trip_follows(h->loop, load->in[1 + i]) ? alike(h, load->in[1 + i]) : 0;
        least = n < least ? n : least;
    }
    return least < LEAST_RUN && least < extent ? 0 : (int)(extent / least);
}

// v of another trip, whose counter m knows.
static Val *again(Ws *h, Builder *b, ValMap *m, Val *v) {
    Op *d = v->def;
    if (!d || d->parent != h->loop->reg[0] || map_get(m, v) != v) return map_get(m, v);
    for (int i = 0; i < d->nin; i++) again(h, b, m, d->in[i]);
    b_insert(b, op_clone(h->f, d, m));
    return map_get(m, v);
}

// The same, as the lanes of a run have it that begins `from` lanes behind the trip's first.
static Val *of_run(Ws *h, Builder *b, ValMap *m, Val *v, int64_t from) {
    Val *k = h->p[0].k, *in[3];
    Op *d = v->def;
    if (type_axis(&v->type, k) < 0) return again(h, b, m, v);
    if (quotient(h, v)) {
        int64_t c = d->in[1]->def->imm;                         // lo is a multiple of it, or of all lanes
        Val *q = b_binary(b, OP_div, again(h, b, m, axis_lo(k)), again(h, b, m, d->in[1]));
        return from >= c ? b_binary(b, OP_add, q, b_const(b, EL_index, from / c)) : q;
    }
    for (int i = 0; i < d->nin; i++) in[i] = of_run(h, b, m, d->in[i], from);
    Type t = type_minus(v->type, 1, &k);
    for (int a = 0; a < t.rank; a++) t.axis[a] = again(h, b, m, t.axis[a]);
    return d->code == OP_T_splat && t.rank == in[0]->type.rank ? in[0] : b_op(b, (OpCode)d->code, d->sub, t, d->nin, in);
}

void ws_load_ahead(Ws *h, Builder *b, Val *counter, Val **out) {
    ValMap m = {.arena = h->f->arena};
    int at = 0;
    map_set(&m, h->loop->reg[0]->args.at[0], counter);
    for (int i = 0; i < h->naheads; i++)
        for (int r = 0; r < h->ahead[i].runs; r++) {
            const Op *load = h->ahead[i].load;
            Val *in[1 + MAX_RANK] = {load->in[0]}, *k = h->p[0].k;
            Type t = load->out[0]->type;
            for (int d = 0; d < load->nidx; d++) in[1 + d] = of_run(h, b, &m, load->in[1 + d], r * axis_extent(k) / h->ahead[i].runs);
            if (type_axis(&t, k) >= 0) t = type_minus(t, 1, &k);
            for (int a = 0; a < t.rank; a++) t.axis[a] = again(h, b, &m, t.axis[a]);
            b->span = load->span;
            Val *v = out[at++] = b_op(b, OP_T_load, 0, t, 1 + load->nidx, in);
            v->def->nidx = load->nidx;
            v->name = load->out[0]->name;
        }
}

bool ws_take_ahead(Ws *h, Builder *b, const Op *load, Val *const *took, ValMap *map) {
    for (int i = 0; i < h->naheads; took += h->ahead[i++].runs) {
        if (h->ahead[i].load != load) continue;
        Val *k = map_get(map, h->p[0].k), *v = took[0];
        int64_t extent = axis_extent(k), runs = h->ahead[i].runs;
        Type t = load->out[0]->type, index = type_tile(EL_index, 1, &k), choice = type_tile(EL_bool, 1, &k);
        for (int a = 0; a < t.rank; a++) t.axis[a] = map_get(map, t.axis[a]);
        b->span = load->span;
        if (v->type.rank < t.rank) v = b_op(b, OP_T_splat, 0, t, 1, &v);
        Val *lane = runs > 1 ? b_op(b, OP_T_binary, OP_rem, index, 2, (Val *[]){b_op(b, OP_T_index, 0, index, 1, &k), b_const(b, EL_index, extent)}) : NULL;
        if (lane) lane = b_op(b, OP_T_binary, OP_div, index, 2, (Val *[]){lane, b_const(b, EL_index, extent / runs)});
        for (int r = 1; r < runs; r++) {
            Val *here = b_op(b, OP_T_binary, OP_eq, choice, 2, (Val *[]){lane, b_const(b, EL_index, r)});
            v = b_op(b, OP_T_select, 0, t, 3, (Val *[]){here, took[r], v});
        }
        map_set(map, load->out[0], v);
        return true;
    }
    return false;
}

// ---- which they are -------------------------------------------------------------------------------

static void collect(Ws *h, const Val *v) {
    Op *d = v->def;
    int runs;
    if (!d || d->parent != h->loop->reg[0] || v->type.rank == 0) return;
    if (d->code == OP_T_load) {
        for (int i = 0; i < h->nsources; i++) if (h->source[i].load == d) return;
        for (int i = 0; i < h->naheads; i++) if (h->ahead[i].load == d) return;
        if (h->nsources < MAX_SOURCES && source(h, d, &h->source[h->nsources])) h->nsources++;
        else if ((runs = ws_runs_ahead(h, d)) && h->naheads < MAX_SOURCES && h->nahead + runs <= MAX_AHEAD) {
            h->ahead[h->naheads].load = d;
            h->ahead[h->naheads++].runs = runs;
            h->nahead += runs;
        }
        return;
    }
    if (op_has(d, 'P') && d->code != OP_T_dot)
        for (int i = 0; i < d->nin; i++)
            if (d->in[i]->type.kind == TY_TILE) collect(h, d->in[i]);
}

void ws_sources(Ws *h) {
    h->nsources = h->naheads = h->nahead = 0;
    if (ws_scales(h)) return;
    if (h->np != 1 || h->p[0].op[0].where != REGISTERS || h->p[0].op[1].window) return;
    collect(h, h->p[0].dot->in[h->p[0].swapped]);
    if (!h->nsources || h->loop->nout + h->nahead > MAX_CARRIED) h->naheads = h->nahead = 0;
    for (int i = 0; i < h->nsources; i++) h->stage_bytes[0] += h->source[i].bytes;
}

// One group's trip is a chain: bits from shared memory, arithmetic, the product. Other blocks on its multiprocessor work meanwhile, if there are so many.
int ws_blocks_together(int64_t programs, int sms, int groups) { return groups > 1 || programs <= sms ? 1 : programs <= 2 * (int64_t)sms ? 2 : 3; }

// So it is with several products of which each waits for another: attention's gradients by queries, B4 H32 S4096 D64, 1206 us by three blocks of 64 x 64 on
// each multiprocessor, 1441 by one of two groups, 2541 by one of one group and 13 stages (2026-11-23).
static bool waits_for_itself(const Ws *h) { return h->nsources || (h->np > 1 && h->nloops < 2 && h->groups == 1 && !h->by_threads && !h->chained && !h->pipelined && !h->nest && h->slices == 1); }

int64_t ws_shared_room(Ws *h, int64_t room) {
    const Target *t = h->opt->target;
    int64_t programs, beside = h->nsources ? 0 : (int64_t)h->once_bytes + h->made_bytes + h->across_bytes + h->added_bytes;
    if (!waits_for_itself(h) || h->walk_bytes) return room;
    if (!fact_constant(h->facts, h->f->launch->programs, &programs)) programs = (h->nsources ? 2 : 3) * (int64_t)t->sms;
    int blocks = ws_blocks_together(programs, t->sms, h->groups);
    int64_t part = t->smem_sm / blocks - SYNC_BYTES - RESERVED - beside;
    while (blocks > 1 && part < LEAST_STAGES * (int64_t)h->stage_bytes[0]) part = t->smem_sm / --blocks - SYNC_BYTES - RESERVED - beside;
    return blocks > 1 && part < room ? part : room;
}

Val *ws_packed_coordinate(Builder *b, const Operand *o, int d, ValMap *map) {
    int per = o->per[d == o->a.inner];
    if (per < 2 || o->a.idx[d]->type.rank == 0) return ws_coordinate(b, &o->a.aff[d], map);
    Val *axis = d == o->a.inner ? o->inner : o->outer;
    return b_binary(b, OP_div, map_get(map, axis_lo(axis)), b_const(b, EL_index, per));
}

bool ws_take_source(Ws *h, Builder *b, const Op *load, Val *stage, ValMap *map) {
    for (int i = 0; i < h->nsources; i++) {
        const Operand *o = &h->source[i];
        if (o->load != load) continue;
        Type t = load->out[0]->type;
        for (int k = 0; k < t.rank; k++) t.axis[k] = map_get(map, t.axis[k]);
        b->span = load->span;
        Val *v = b_op(b, OP_T_buffer_load, 0, t, 4,
                      (Val *[]){o->buffer, stage, map_get(map, o->outer), map_get(map, o->inner)});
        v->def->imm = o->per[0];
        v->def->attr = o->per[1];
        v->name = load->out[0]->name;
        map_set(map, load->out[0], v);
        return true;
    }
    return false;
}
