// Software pipelining with cp.async: operands of products are copied to shared memory some trips ahead.
//
//     for k in K by BK {                          %ra = buffer {stages}    %rb = buffer {stages}
//         %a = load a[m, k]                       copies for trips 0 .. stages - 1, a group each
//         %b = load b[k, n]            ->         wait for the first group;  barrier
//         acc = dot %a, %b, acc                   for k, acc, stage {
//     }                                               %a = buffer_load %ra, stage    %b = buffer_load %rb, stage
//                                                     acc = dot %a, %b, acc
//                                                     copy_wait stages - 2;  barrier     // the next trip's stage is whole,
//                                                     copies for trip + stages           // nobody reads this one any more
//                                                 }
//
// The code generator does the last two lines inside the product, as soon as its last fragments are in registers, and
// then reads the first fragments of the next trip: the barrier, the copies' addresses and the first reads cost no time
// of the tensor cores, and the next trip starts at once ("Ahead" in llvm/mma_sync.c).
//
// A load is taken when it is a plain one (of a read-only tensor, an axis or a scalar per dimension, addresses
// made of the loop's counter and of what does not change in the loop), used by tensor core products alone,
// 4 bytes at a time or more, and its tile is made of whole fragments. Copies past the last trip must read
// nothing: either an axis that starts at the counter ends with the loop, so that all its lanes are dead
// there, or the copies go into a branch. Operands that the loop does not change (a query tile) are put into
// shared memory once, before it.
//
// The number of stages is what fits, at most three: 438 to 468 TFLOP/s at bf16 4096^3 on an H200 (2026-11-21), by what
// registers ptxas happens to choose; four give 436 to 446. With one, a trip's copies are waited for at once, which still
// saves the way through registers; with none, the loop stays as it is.
#include "lower/facts/access.h"
#include "lower/layout/mma.h"
#include "lower/pass/passes.h"
#include "lower/layout/smem_layout.h"

#include <string.h>

// SPARE: bytes for reductions across warps, at least
enum { MAX_RINGS = 12, MOST_STAGES = 3, ALIGN = 1024, SPARE = 2048 };

typedef struct Ring {
    Val     *tile;                 // the load's result, or the value from before the loop
    Op      *load;                 // NULL: put once
    int      rank;
    Val     *axis[MAX_AXES];       // by dimension
    uint32_t bytes;                // of a stage
    bool     ends;                 // dead past the last trip by its own axis
    bool     counted;              // its index is made of the loop's counter, not only of an axis
    Val     *buffer;
} Ring;

typedef struct Pipe {
    Fn      *f;
    const CompileOptions *opt;
    Facts   *facts;
    Op      *loop;
    Region  *body;
    Ring     ring[MAX_RINGS];
    int      n;
    int      stages;               // 0: only tiles that are put once
    bool     inner;                // there are rings in a loop inside
} Pipe;

// ---- what can be taken ---------------------------------------------------------------------------

static bool number(const Val *v, int64_t *n) {
    bool is = v->def && v->def->code == OP_T_const;
    if (is) *n = v->def->imm;
    return is;
}

static Val *counter(const Pipe *p) { return p->body->args.at[0]; }

// Computable for another trip: pure, and made of the counter and of values from outside.
static bool movable(const Pipe *p, const Val *v) {
    const Op *d = v->def;
    if (!d) return v->region != p->body || v == counter(p);
    if (!op_inside(d, p->body)) return true;
    if (d->parent != p->body || !op_has(d, 'P') || d->nreg || d->code == OP_T_dot || d->code == OP_T_reduce) return false;
    for (int i = 0; i < d->nin; i++) if (!movable(p, d->in[i])) return false;
    return true;
}

static bool depends(const Pipe *p, const Val *v) {
    const Op *d = v->def;
    if (!d) return v == counter(p);
    if (!op_inside(d, p->body)) return false;
    for (int i = 0; i < d->nin; i++) if (depends(p, d->in[i])) return true;
    return false;
}

static bool feeds_products_only(const Pipe *p, const Val *v) {
    for (const Op *op = op_walk(&p->f->body, NULL); op; op = op_walk(&p->f->body, op))
        for (int i = 0; i < op->nin; i++) {
            MmaChoice c;
            if (op->in[i] != v) continue;
            if (op->code != OP_T_dot || i > 1 || op->parent != p->body ||
                !mma_choose(p->opt->target, op, p->f->warps, &c))
                return false;
            if (mma_fragment(c.insn, (Elem)v->type.elem) != v->type.elem) return false;
        }
    return true;
}

// The tile is whole fragments of every product that uses it, and ldmatrix can read it as it lies.
static bool whole_fragments(const Pipe *p, const Ring *r) {
    int size = elem_bytes((Elem)r->tile->type.elem);
    const Val *last = r->axis[r->rank - 1];
    if (r->rank < 2 || axis_extent(last) * size % 16 || axis_extent(r->axis[r->rank - 2]) % 8) return false;
    for (const Op *op = p->body->first; op; op = op->next) {
        MmaChoice c;
        if (op->code != OP_T_dot || (op->in[0] != r->tile && op->in[1] != r->tile)) continue;
        if (!mma_choose(p->opt->target, op, p->f->warps, &c)) return false;
        int64_t m = axis_extent(op->out[0]->type.axis[c.row]), n = axis_extent(op->out[0]->type.axis[c.col]);
        if (op->in[c.a] == r->tile && m % (16 * c.warps_m)) return false;
        if (op->in[c.b] == r->tile && n % (8 * c.warps_n)) return false;
        if (axis_extent(c.k_axis) % c.k) return false;
    }
    return true;
}

static bool listed(const Pipe *p, const Val *v) {
    for (int i = 0; i < p->n; i++) if (p->ring[i].tile == v) return true;
    return false;
}

static void measure(Ring *r) {
    Shared s = {.rank = r->rank};
    for (int d = 0; d < r->rank; d++) s.extent[d] = axis_extent(r->axis[d]);
    shared_shape(&s, (Elem)r->tile->type.elem, true);
    r->bytes = (shared_bytes(&s) + ALIGN - 1) & ~(uint32_t)(ALIGN - 1);
    if (r->bytes != shared_bytes(&s) && r->load) r->bytes = 0;                  // stages follow one another without gaps
}

// The loop's counter itself is in v, not only the bounds of an axis: where v can be follows from the last trip.
static bool counted(const Pipe *p, const Val *v) {
    const Op *d = v->def;
    if (!d || !op_inside(d, p->body)) return v == counter(p);
    for (int i = 0; i < d->nin && d->code != OP_T_axis; i++) if (counted(p, d->in[i])) return true;
    return false;
}

static bool take_load(Pipe *p, Ring *r, Op *load) {
    Access a;
    int64_t from, to;
    access_of(p->facts, load, &a);
    r->tile = load->out[0];
    r->load = load;
    if (a.p->mode != PM_IN || a.p->strided || load->flags & HAS_ELSE || a.contiguous < 0) return false;
    if (a.vec * elem_bytes(a.elem) < 4) return false;
    r->counted = counted(p, a.idx[a.inner]);
    if (r->counted && !(number(p->loop->in[0], &from) && from >= 0 && number(p->loop->in[1], &to))) return false;
    for (int d = 0; d < a.nidx; d++) {
        const Affine *f = &a.aff[d];
        if (f->ntile || f->naxis > 1 || !movable(p, a.idx[d])) return false;
        if (!f->naxis) continue;
        Val *axis = f->axis[0].axis;
        for (int i = 0; i < r->rank; i++) if (r->axis[i] == axis) return false;      // a diagonal
        r->axis[r->rank++] = axis;
        if (axis_lo(axis) == counter(p) && fact_at_most(p->facts, axis_hi(axis), p->loop->in[1])) r->ends = true;
    }
    if (r->rank != r->tile->type.rank || r->axis[r->rank - 1] != a.type.axis[a.contiguous]) return false;
    return true;
}

static bool take_value(Pipe *p, Ring *r, Val *v) {
    int fast = v->type.rank - 1;
    const Op *d = v->def;
    r->tile = v;
    if (v->region == p->body || (d && op_inside(d, p->body)) || v->type.rank < 2) return false;
    if (d && d->code == OP_T_load) {
        Access a;
        access_of(p->facts, d, &a);
        if (a.contiguous >= 0) fast = a.contiguous;
    }
    for (int i = 0; i < v->type.rank; i++) if (i != fast) r->axis[r->rank++] = v->type.axis[i];
    r->axis[r->rank++] = v->type.axis[fast];
    return true;
}

static void find_rings(Pipe *p) {
    for (Op *op = p->body->first; op; op = op->next) {
        MmaChoice c;
        if (op->code != OP_T_dot || !mma_choose(p->opt->target, op, p->f->warps, &c)) continue;
        for (int i = 0; i < 2 && p->n < MAX_RINGS; i++) {
            Val *v = op->in[i];
            Ring r = {0};
            if (listed(p, v)) continue;
            bool load = v->def && v->def->code == OP_T_load && v->def->parent == p->body;
            if (!(load ? take_load(p, &r, v->def) : take_value(p, &r, v))) continue;
            if (!feeds_products_only(p, v) || !whole_fragments(p, &r)) continue;
            measure(&r);
            if (r.bytes) p->ring[p->n++] = r;
        }
    }
}

// ---- how much fits -------------------------------------------------------------------------------

// A product's rows all lie in one warp, so that a next product finds them in its registers.
static bool whole_rows(const Pipe *p) {
    for (const Op *op = p->body->first; op; op = op->next) {
        MmaChoice c;
        if (op->code == OP_T_dot && mma_choose(p->opt->target, op, p->f->warps, &c) && c.warps_n > 1) return false;
    }
    return true;
}

// Bytes that products which still stage their operands will want; those in registers of an earlier product want none.
static uint32_t staging(const Pipe *p) {
    uint32_t most = 0;
    bool whole = whole_rows(p);
    for (const Op *op = op_walk(&p->f->body, NULL); op; op = op_walk(&p->f->body, op)) {
        MmaChoice c;
        if (op->code != OP_T_dot) continue;
        bool mma = mma_choose(p->opt->target, op, p->f->warps, &c);
        int64_t n = 0;
        for (int i = 0; i < 2; i++) {
            const Val *v = op->in[i];
            bool chained = whole && mma && i == c.a && elem_bits((Elem)v->type.elem) == 16 && v->def &&
                           op_inside(v->def, p->body) && v->def->code != OP_T_load;
            if (listed(p, v) || chained) continue;
            int64_t bytes = elem_bytes((Elem)v->type.elem);
            for (int d = 0; d < v->type.rank; d++) bytes *= (axis_extent(v->type.axis[d]) + 15) & ~(int64_t)15;
            n += bytes + ALIGN;
        }
        if (n > most) most = (uint32_t)n;
    }
    return most;
}

// Bytes that stores may want for a change of layout. Rings in the same memory are over by then, unless products stage.
static uint32_t storing(const Pipe *p) {
    uint32_t most = 0;
    for (const Op *op = op_walk(&p->f->body, NULL); op; op = op_walk(&p->f->body, op)) {
        if (op->code != OP_T_store) continue;
        const Type *t = &op_value(op)->type;
        int64_t n = elem_bytes((Elem)t->elem);
        for (int d = 0; d < t->rank; d++) {
            int64_t e = axis_extent(t->axis[d]), up = 1;
            while (up < e) up *= 2;
            n *= up + 16;
        }
        if (n > most) most = (uint32_t)n;
    }
    return most;
}

// Bytes for reductions across warps: a slot for each result in two of them, of 16 bytes where it comes with its place
// (llvm/reduce.c).
static uint32_t reducing(const Pipe *p) {
    int64_t most = SPARE;
    for (const Op *op = op_walk(&p->f->body, NULL); op; op = op_walk(&p->f->body, op)) {
        if (op->code != OP_T_reduce || !op->out[0]->type.rank) continue;
        bool place = op->sub == TR_argmax || op->sub == TR_argmin;
        int64_t bytes = 2 * type_lanes(&op->out[0]->type) * (place ? 16 : 4);
        if (bytes > most) most = bytes;
    }
    return (uint32_t)(most < p->opt->target->smem_block / 4 ? most : SPARE);
}

// Are there so few trips that none is so many after another?
static bool past_last(const Pipe *p, int trips) {
    int64_t from, to, step;
    return number(p->loop->in[0], &from) && number(p->loop->in[1], &to) && number(p->loop->in[2], &step) &&
           from + step * trips >= to;
}

static bool choose_stages(Pipe *p) {
    // of one warp, in a block
    uint32_t programs = (uint32_t)(p->f->launch->threads / (p->f->warps * 32));
    uint32_t once = 0, each = 0, room = (p->opt->target->smem_block - p->opt->less) / programs, taken = p->inner ? p->f->buffer_bytes : 0;
    for (int i = 0; i < p->n; i++) *(p->ring[i].load ? &each : &once) += p->ring[i].bytes;
    uint32_t stage = staging(p), store = stage ? storing(p) : 0;
    taken += reducing(p) + (stage > store ? stage : store) + once;
    if (!p->n || taken > room) return false;
    if (!each) { p->stages = 0; return true; }
    p->stages = p->opt->schedule.stages ? p->opt->schedule.stages : MOST_STAGES;
    if (p->stages > (int)((room - taken) / each)) p->stages = (int)((room - taken) / each);
    while (p->stages > 1 && past_last(p, p->stages - 1)) p->stages--;
    return p->stages >= 1;
}

// ---- the rewriting -------------------------------------------------------------------------------

static void make_buffers(Pipe *p, Builder *b) {
    uint32_t at = p->inner ? p->f->buffer_bytes : 0;           // loops one after the other, inside others too, share the room
    for (int i = 0; i < p->n; i++) {
        Ring *r = &p->ring[i];
        Type t = {.kind = TY_BUFFER, .elem = r->tile->type.elem, .rank = (uint8_t)r->rank};
        Shared s = {.rank = r->rank};
        for (int d = 0; d < r->rank && d < MAX_AXES; d++) {
            s.extent[d] = t.shape[d] = axis_extent(r->axis[d]);
            t.order[d] = (uint8_t)(r->rank - 1 - d);
        }
        shared_shape(&s, (Elem)t.elem, true);
        t.swizzle = (uint8_t)s.span;
        Op *o = op_new(p->f, OP_T_buffer, b->span, 0, NULL, 1);
        o->imm = r->load ? p->stages : 1;
        o->attr = at;
        o->out[0]->type = t;
        o->out[0]->name = r->tile->name;
        r->buffer = o->out[0];
        b_insert(b, o);
        at += (uint32_t)o->imm * r->bytes;
    }
    if (at > p->f->buffer_bytes) p->f->buffer_bytes = at;
}

static Op *effect(Pipe *p, Builder *b, OpCode code, int64_t imm) {
    Op *o = op_new(p->f, code, b->span, 0, NULL, 0);
    o->imm = imm;
    b_insert(b, o);
    return o;
}

// Copies `v` and what it is made of inside the loop, for the trip whose counter is mapped.
static void bring(Pipe *p, Builder *b, Val *v, ValMap *m) {
    Op *d = v->def;
    if (!d || !op_inside(d, p->body) || !depends(p, v) || map_get(m, v) != v) return;
    for (int i = 0; i < d->nin; i++) bring(p, b, d->in[i], m);
    Op *c = op_clone(p->f, d, m);
    if (c->code == OP_T_axis) c->flags &= (uint16_t)~AXIS_FULL;
    b_insert(b, c);
}

// What of the addresses is inside the loop but the same in each trip goes before it.
static void lift(Pipe *p, Val *v) {
    Op *d = v->def;
    if (!d || !op_inside(d, p->body)) return;
    for (int i = 0; i < d->nin; i++) lift(p, d->in[i]);
    if (depends(p, v)) return;
    op_remove(d);
    op_before(p->loop, d);
}

// `trip` as a number that says it is one of the loop's, where an index is made of it.
static Val *one_of(Pipe *p, Builder *b, Val *trip) {
    int64_t to = 0;
    number(p->loop->in[1], &to);
    Val *v = b_op(b, OP_T_fun, TF_min, trip->type, 2, (Val *[]){trip, b_const(b, (Elem)trip->type.elem, to - 1)});
    v->def->attr = 1;                                          // not negative
    return v;
}

static void copies(Pipe *p, Builder *b, Val *trip, Val *stage, bool ending) {
    ValMap plain = {.arena = p->f->arena}, sure = plain;
    map_set(&plain, counter(p), trip);
    for (int i = 0; i < p->n; i++) {
        Ring *r = &p->ring[i];
        if (!r->load || r->ends != ending) continue;
        if (r->counted && map_get(&sure, counter(p)) == counter(p)) map_set(&sure, counter(p), one_of(p, b, trip));
        ValMap *m = r->counted ? &sure : &plain;
        for (int k = 1; k < r->load->nin; k++) bring(p, b, r->load->in[k], m);
        Op *o = op_new(p->f, OP_T_copy_async, r->load->span, 0, NULL, 0);
        op_add_operand(p->f, o, r->buffer);
        op_add_operand(p->f, o, stage);
        for (int k = 0; k < r->load->nin; k++) op_add_operand(p->f, o, map_get(m, r->load->in[k]));
        o->nidx = r->load->nidx;
        b_insert(b, o);
    }
}

// All copies of the trip that comes so many after the one at hand (or is the first); those that would read past the
// last one, in a branch.
static void issue(Pipe *p, Builder *b, Val *trip, Val *stage, int trips) {
    bool guarded = false;
    copies(p, b, trip, stage, true);
    for (int i = 0; i < p->n; i++) guarded |= p->ring[i].load && !p->ring[i].ends;
    if (guarded && !past_last(p, trips)) {
        Val *more = b_binary(b, OP_lt, trip, p->loop->in[1]);
        Op *o = op_new(p->f, OP_T_if, b->span, 1, &more, 0);
        b_insert(b, o);
        Builder in = {p->f, o->reg[0], NULL, b->span};
        copies(p, &in, trip, stage, false);
        for (int k = 0; k < 2; k++) op_append(o->reg[k], op_new(p->f, OP_T_yield, b->span, 0, NULL, 0));
    }
    effect(p, b, OP_T_copy_commit, 0);
}

static Val *ahead(Builder *b, Val *from, Val *step, int trips) {
    if (!trips) return from;
    const Op *s = step->def;
    Val *by = s && s->code == OP_T_const ? b_const(b, (Elem)step->type.elem, s->imm * trips)
                                         : b_binary(b, OP_mul, step, b_const(b, (Elem)step->type.elem, trips));
    const Op *d = from->def;
    if (d && d->code == OP_T_const && d->imm == 0) return by;
    return b_binary(b, OP_add, from, by);
}

static Val *carry(Pipe *p, int64_t start) {                  // an i32 that the loop carries besides
    Op *loop = p->loop;
    Builder b = {p->f, NULL, loop, loop->span};
    op_add_operand(p->f, loop, b_const(&b, EL_i32, start));
    Val *arg = region_arg(p->f, p->body, type_scalar(EL_i32)), **out = NEW_N(p->f->arena, Val *, loop->nout + 1);
    if (loop->nout) memcpy(out, loop->out, sizeof *out * loop->nout);
    out[loop->nout] = val_new(p->f, type_scalar(EL_i32));
    out[loop->nout]->def = loop;
    loop->out = out;
    loop->nout++;
    return arg;
}

static Val *next_stage(Pipe *p, Builder *b, Val *stage) {
    Val *up = b_binary(b, OP_add, stage, b_const(b, EL_i32, 1)), *zero = b_const(b, EL_i32, 0);
    Val *wraps = b_binary(b, OP_eq, up, b_const(b, EL_i32, p->stages));
    return b_op(b, OP_T_select, 0, type_scalar(EL_i32), 3, (Val *[]){wraps, zero, up});
}

static void read_from(Pipe *p, Ring *r, Val *stage, Op *at) {
    Builder b = {p->f, NULL, at, at->span};
    Op *o = op_new(p->f, OP_T_buffer_load, at->span, 0, NULL, 1);
    op_add_operand(p->f, o, r->buffer);
    op_add_operand(p->f, o, stage);
    for (int d = 0; d < r->rank; d++) op_add_operand(p->f, o, r->axis[d]);
    o->out[0]->type = r->tile->type;
    o->out[0]->name = r->tile->name;
    b_insert(&b, o);
    if (r->load) { replace_uses(p->body, r->tile, o->out[0]); op_remove(r->load); return; }
    for (Op *op = p->body->first; op; op = op->next)                    // the value itself goes into the buffer
        for (int i = 0; op->code == OP_T_dot && i < 2; i++) if (op->in[i] == r->tile) op->in[i] = o->out[0];
}

static bool nested(const Op *loop) {
    for (const Region *r = loop->parent; r && r->owner; r = r->owner->parent)
        if (r->owner->code == OP_T_for || r->owner->code == OP_T_while) return true;
    return false;
}

static const Op *last_product(const Pipe *p) {             // that reads from a ring
    for (const Op *op = p->body->last; op; op = op->prev)
        for (int i = 0; op->code == OP_T_dot && i < 2; i++)
            if (op->in[i]->def && op->in[i]->def->code == OP_T_buffer_load) return op;
    return NULL;
}

static void rewrite(Pipe *p) {
    Op *loop = p->loop;
    Builder out = {p->f, NULL, loop, loop->span}, in = {p->f, NULL, p->body->first, loop->span};
    bool rings = p->stages > 0, ahead_of = p->stages > 1, used = p->f->buffer_bytes > 0;
    for (int i = 0; i < p->n; i++)
        for (int k = 1; p->ring[i].load && k < p->ring[i].load->nin; k++) lift(p, p->ring[i].load->in[k]);
    for (int i = 0; i < p->n; i++)
        for (int d = 0; d < p->ring[i].rank; d++) lift(p, p->ring[i].axis[d]);
    in.before = p->body->first;
    make_buffers(p, &out);
    if (nested(loop) || used) effect(p, &out, OP_T_barrier, 0);            // what was there before has been read
    Val *zero = b_const(&out, EL_i32, 0);
    for (int i = 0; i < p->n; i++) {
        Ring *r = &p->ring[i];
        if (r->load) continue;
        Op *o = op_new(p->f, OP_T_buffer_store, loop->span, 0, NULL, 0);
        op_add_operand(p->f, o, r->buffer);
        op_add_operand(p->f, o, zero);
        op_add_operand(p->f, o, r->tile);
        for (int d = 0; d < r->rank; d++) op_add_operand(p->f, o, r->axis[d]);
        b_insert(&out, o);
    }
    if (!rings) effect(p, &out, OP_T_barrier, 0);
    for (int s = 0; ahead_of && s < p->stages; s++)
        issue(p, &out, ahead(&out, loop->in[0], loop->in[2], s), b_const(&out, EL_i32, s), s);
    if (ahead_of) {
        effect(p, &out, OP_T_copy_wait, p->stages - 1);
        effect(p, &out, OP_T_barrier, 0);
    }
    Op *yield = p->body->last;
    Val *read = ahead_of ? carry(p, 0) : zero;
    if (rings && !ahead_of) {                                  // room for one trip's tiles only: no reading ahead
        effect(p, &in, OP_T_barrier, 0);
        issue(p, &in, counter(p), zero, 0);
        effect(p, &in, OP_T_copy_wait, 0);
        effect(p, &in, OP_T_barrier, 0);
    }
    for (int i = 0; i < p->n; i++) {
        Ring *r = &p->ring[i];
        Op *at = r->load;
        for (Op *op = p->body->first; !at && op; op = op->next)
            if (op->code == OP_T_dot && (op->in[0] == r->tile || op->in[1] == r->tile)) at = op;
        read_from(p, r, r->load ? read : zero, at);
    }
    if (!ahead_of) return;
    Builder refill = {p->f, NULL, last_product(p)->next, loop->span};
    op_add_operand(p->f, yield, next_stage(p, &refill, read));
    effect(p, &refill, OP_T_copy_wait, p->stages - 2);
    effect(p, &refill, OP_T_barrier, 0);
    issue(p, &refill, ahead(&refill, counter(p), loop->in[2], p->stages), read, p->stages);
    Builder after = {p->f, loop->parent, loop->next, loop->span};
    effect(p, &after, OP_T_copy_wait, 0);
}

// Of a thread, beside what the loop carries, for what is loaded before it; 0: none, as products of large tiles have all of them.
static int spare_registers(const Fn *f, const Op *loop) {
    enum { MOST = 24, WITH_CARRIED = 64 };
    int64_t carried = 0;
    for (int i = 0; i < loop->nout; i++) {
        int64_t elements = loop->out[i]->type.kind == TY_TILE;
        for (int a = 0; elements && a < loop->out[i]->type.rank; a++) elements *= axis_extent(loop->out[i]->type.axis[a]);
        carried += elements / (32 * f->warps);
    }
    return carried + MOST <= WITH_CARRIED ? MOST : 0;
}

static bool visit(Fn *f, const CompileOptions *opt, Facts *facts, Region *r) {
    bool any = false;
    for (Op *op = r->first, *next; op; op = next) {
        bool inner = false;
        next = op->next;
        for (int i = 0; i < op->nreg; i++) inner |= visit(f, opt, facts, op->reg[i]);
        any |= inner;
        if (op->code != OP_T_for || op->flags & REPEATS || region_leaves_early(op->reg[0])) continue;
        Pipe p = {.f = f, .opt = opt, .facts = facts, .loop = op, .body = op->reg[0], .inner = inner};
        find_rings(&p);
        if (!choose_stages(&p)) continue;
        if (spare_registers(f, op)) load_before(f, op, 32 * f->warps, (Spare){spare_registers(f, op), 0, NULL}, NULL);
        rewrite(&p);
        any = true;
    }
    return any;
}

static bool has_op(const Fn *f, OpCode code) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) if (op->code == code) return true;
    return false;
}

bool pipeline(Fn *f, const CompileOptions *opt) {
    if (dot_to_reduce(f)) simplify(f);
    if (opt->target->has_cp_async && has_op(f, OP_T_dot) && !has_op(f, OP_T_roles)) visit(f, opt, facts_new(f), &f->body);
    return true;
}
