// Recurrences: what the next trips load comes to shared memory by cp.async, several trips at a time.
//
//     for t in T, h {                              ring of x: stages of 8 rows
//         x = load x[t, c]                         copies of rows 0 .., 8 .., 16 ..; a group each
//         h = h * a + x                     ->     for t in T / 8 * 8 by 8, h, stage {
//         store y[t, c], h                             wait for the stage;  barrier;  copies of rows t + 24 ..  into the one before
//     }                                                h = h * a + row 0 of x;  store y[t, c], h;  ..  row 7
//                                                  }
//                                                  for t in T / 8 * 8 .. T, h { as it was }
//
// A chain of trips waits for nothing but memory, and its loads follow from the counter alone. In registers (prefetch.c) they can come eight or sixteen trips
// ahead, but a warp has six scoreboards: ptxas gives all loads of a loop one, and what a group of trips loaded last is waited for before the next one's
// first. A group of cp.async is waited for by its number. A copy has the rows of a group in one instruction, whose addresses are computed once for them, and
// what is on its way takes no registers: the trips of more warps share a multiprocessor.
//
// Rows past the last are dead lanes of the copy's own axis and read nothing. Of each trip's loads all must be such rows: along an index that is the counter,
// or it and numbers, before those of its lanes, 4 bytes or more together; or numbers that lie one after the other.
#include "lower/build.h"
#include "lower/facts/access.h"
#include "lower/layout/smem_layout.h"
#include "lower/pass/passes.h"
#include "lower/pass/iteration.h"

enum { MOST_LOADS = 8, ALIGN = 16, SPARE = 4096 };           // SPARE: bytes for what joins lanes of several warps
// bytes of a warp on their way; stages
enum { BYTES_AHEAD = 6144, LEAST_STAGES = 3, MOST_STAGES = 8 };

typedef struct Rows {              // what a trip loads
    Op      *load;
    int      time;                 // which index the counter is in
    int      rank;                 // of its tile
    Val     *axis[MAX_AXES];       // of the tile, in the order of its indices
    uint32_t bytes;                // of a stage
    Val     *buffer;
} Rows;

typedef struct Sequence {
    Fn   *f;
    Op   *loop;
    Facts *facts;
    Rows  rows[MOST_LOADS];
    int   n;
    int   trips, stages;           // of a group; of the rings
} Sequence;

static Region *body_of(const Sequence *s) { return s->loop->reg[0]; }
static Val *counter_of(const Sequence *s) { return body_of(s)->args.at[0]; }

// ---- what can come so ------------------------------------------------------------------------------

static bool of_body(const Sequence *s, const Val *v) { return v->def ? v->def->parent == body_of(s) : v->region == body_of(s); }

// The counter, with numbers added, taken away or multiplied.
static bool counts(const Sequence *s, const Val *v) {
    const Op *d = v->def;
    if (!of_body(s, v) || v == counter_of(s)) return true;
    if (d && d->code == OP_T_const) return true;
    return d && d->code == OP_T_binary && v->type.rank == 0 && (d->sub == OP_add || d->sub == OP_sub || d->sub == OP_mul) && counts(s, d->in[0]) && counts(s, d->in[1]);
}

// The counter, or it and a number, and no more than one a trip.
static bool rises(const Sequence *s, const Val *v) {
    const Op *d = v->def;
    if (v == counter_of(s)) return true;
    if (!d || d->code != OP_T_binary || (d->sub != OP_add && d->sub != OP_sub)) return false;
    bool second = d->in[1]->def && d->in[1]->def->code == OP_T_const, outside = !of_body(s, d->in[1]);
    return (second || outside) && rises(s, d->in[0]);
}

static bool lanes_of_all_trips(const Sequence *s, const Type *t) {
    for (int i = 0; i < t->rank; i++) if (of_body(s, t->axis[i])) return false;
    return true;
}

// A number of each trip, one after the other in memory.
static bool take_number(Sequence *s, Op *load, const Access *a) {
    for (int d = 0; d < a->nidx; d++) {
        bool moves = of_body(s, a->idx[d]), last = d == a->nidx - 1;
        if (moves != last || (moves && !rises(s, a->idx[d]))) return false;
    }
    if (elem_bytes(a->elem) < 4) return false;
    s->rows[s->n++] = (Rows){.load = load, .time = a->nidx - 1};
    return true;
}

static bool take(Sequence *s, Op *load) {
    Rows *r = &s->rows[s->n];
    Access a;
    if (s->n == MOST_LOADS || load->flags & (HAS_ELSE | FROM_16) || !lanes_of_all_trips(s, &load->out[0]->type)) return false;
    access_of(s->facts, load, &a);
    if (a.p->mode != PM_IN || a.p->strided) return false;
    if (load->out[0]->type.rank == 0) return take_number(s, load, &a);
    if (a.contiguous < 0 || access_copy_bytes(s->f->arena, &a, s->f->warps) < 4) return false;
    *r = (Rows){.load = load, .time = -1};
    for (int d = 0; d < a.nidx; d++) {
        const Affine *x = &a.aff[d];
        if (a.idx[d]->type.rank == 0 && of_body(s, a.idx[d])) {
            if (r->time >= 0 || r->rank || !counts(s, a.idx[d])) return false;
            r->time = d;
        }
        if (x->ntile || x->naxis > 1) return false;
        if (x->naxis) r->axis[r->rank++] = x->axis[0].axis;
    }
    for (int i = 0; i < r->rank; i++)
        for (int k = 0; k < i; k++) if (r->axis[i] == r->axis[k]) return false;
    if (r->time < 0 || r->rank != a.type.rank || r->rank + 1 > MAX_AXES || r->axis[r->rank - 1] != a.type.axis[a.contiguous]) return false;
    s->n++;
    return true;
}

// All loads that move with the counter.
static bool take_all(Sequence *s) {
    for (Op *op = body_of(s)->first; op; op = op->next) {
        bool moves = false;
        if (op->nreg || op->code == OP_T_ptrload || op->code == OP_T_buffer || op->code == OP_T_barrier) return false;
        for (int i = 1; i < op->nin && op->code == OP_T_load; i++) moves |= of_body(s, op->in[i]);
        if (moves && !take(s, op)) return false;
    }
    return s->n > 0;
}

static bool one_by_one(const Op *loop) {
    if (loop->code != OP_T_for || loop->reg[0]->last->code != OP_T_yield) return false;
    const Op *step = loop->in[2]->def;
    return step && step->code == OP_T_const && step->imm == 1;
}

// ---- rings ---------------------------------------------------------------------------------------

static Type ring_type(const Sequence *s, const Rows *r) {
    Type t = {.kind = TY_BUFFER, .elem = r->load->out[0]->type.elem, .rank = (uint8_t)(r->rank + 1)};
    t.shape[0] = s->trips;
    for (int i = 0; i < r->rank; i++) t.shape[1 + i] = axis_extent(r->axis[i]);
    for (int d = 0; d <= r->rank; d++) t.order[d] = (uint8_t)(r->rank - d);
    return t;
}

// Of a stage of all rings.
static uint32_t stage_bytes(Sequence *s) {
    uint32_t bytes = 0;
    for (int i = 0; i < s->n; i++) {
        Shared shape;
        Type t = ring_type(s, &s->rows[i]);
        buffer_shape(&t, &shape);
        bytes += s->rows[i].bytes = shared_bytes(&shape);
    }
    return bytes;
}

// As many stages as bring enough; of long rows fewer trips a stage, but eight, of which swizzled lines are made.
static bool fits(Sequence *s, const CompileOptions *opt, int warps, int programs) {
    uint32_t room = (opt->target->smem_block - (uint32_t)opt->less - SPARE) / (uint32_t)programs, taken = s->f->buffer_bytes + (uint32_t)s->n * 1024;
    for (;; s->trips /= 2) {
        uint32_t each = stage_bytes(s);
        s->stages = (int)((uint32_t)(BYTES_AHEAD * warps) / each) + 1;
        if (s->stages > MOST_STAGES) s->stages = MOST_STAGES;
        if (s->stages < LEAST_STAGES) s->stages = LEAST_STAGES;
        if (each * (uint32_t)s->stages + taken <= room / 2) return true;
        if (s->trips <= 8) return false;
    }
}

// The loop's trips, if all that they load can come so.
static bool found(Sequence *s, const CompileOptions *opt, int warps, int programs) {
    s->trips = one_by_one(s->loop) ? recurrence_trips(s->f, s->loop, opt) : 0;
    if (s->trips < 2) return false;
    s->facts = facts_new(s->f);
    return take_all(s) && fits(s, opt, warps, programs);
}

bool sequence_possible(Fn *f, Op *loop, const CompileOptions *opt) {
    int programs, warps = schedule_warps(f, opt, &programs);
    Sequence s = {.f = f, .loop = loop};
    return found(&s, opt, warps, programs);
}

static void make_rings(Sequence *s, Builder *b) {
    uint32_t at = s->f->buffer_bytes;
    for (int i = 0; i < s->n; i++) {
        Rows *r = &s->rows[i];
        Type t = ring_type(s, r);
        Shared shape;
        buffer_shape(&t, &shape);
        t.swizzle = (uint8_t)shape.span;
        uint32_t align = shape.span ? 8 * (uint32_t)shape.span : ALIGN;                      // swizzled lines repeat
        at = (at + align - 1) / align * align;
        Op *o = op_new(s->f, OP_T_buffer, b->span, 0, NULL, 1);
        o->imm = s->stages;
        o->attr = at;
        o->out[0]->type = t;
        o->out[0]->name = r->load->out[0]->name;
        r->buffer = o->out[0];
        b_insert(b, o);
        at += (uint32_t)s->stages * r->bytes;
    }
    s->f->buffer_bytes = at;
}

static void effect(Sequence *s, Builder *b, OpCode code, int64_t imm) {
    Op *o = op_new(s->f, code, b->span, 0, NULL, 0);
    o->imm = imm;
    b_insert(b, o);
}

// The index with the rows of a group in the counter's place.
static Val *along(Sequence *s, Builder *b, Val *v, Val *rows) {
    const Op *d = v->def;
    if (v == counter_of(s)) return rows;
    if (!of_body(s, v)) return v;
    if (d->code == OP_T_const) return b_const(b, (Elem)v->type.elem, d->imm);
    return b_binary(b, (AstOp)d->sub, along(s, b, d->in[0], rows), along(s, b, d->in[1], rows));
}

// The rows of a group that begins at `first`, into a stage.
static void copies(Sequence *s, Builder *b, Val *first, Val *stage) {
    Val *axis = b_op(b, OP_T_axis, 0, (Type){.kind = TY_AXIS, .shape = {s->trips}}, 2, (Val *[]){first, s->loop->in[1]});
    axis->def->imm = s->trips;
    Val *rows = b_op(b, OP_T_index, 0, type_tile(EL_index, 1, &axis), 1, &axis);
    for (int i = 0; i < s->n; i++) {
        const Rows *r = &s->rows[i];
        Val *idx[MAX_RANK];
        for (int d = 0; d < r->load->nidx; d++) idx[d] = d == r->time ? along(s, b, r->load->in[1 + d], rows) : r->load->in[1 + d];
        Op *o = op_new(s->f, OP_T_copy_async, r->load->span, 0, NULL, 0);
        op_add_operand(s->f, o, r->buffer);
        op_add_operand(s->f, o, stage);
        op_add_operand(s->f, o, r->load->in[0]);
        for (int d = 0; d < r->load->nidx; d++) op_add_operand(s->f, o, idx[d]);
        o->nidx = r->load->nidx;
        b_insert(b, o);
    }
    effect(s, b, OP_T_copy_commit, 0);
}

static Val *row(Sequence *s, Builder *b, const Rows *r, Val *stage, int k) {
    Op *o = op_new(s->f, OP_T_buffer_row, r->load->span, 0, NULL, 1);
    op_add_operand(s->f, o, r->buffer);
    op_add_operand(s->f, o, stage);
    for (int i = 0; i < r->rank; i++) op_add_operand(s->f, o, r->axis[i]);
    o->imm = k;
    o->out[0]->type = r->load->out[0]->type;
    o->out[0]->name = r->load->out[0]->name;
    b_insert(b, o);
    return o->out[0];
}

static Val *ring_step(Builder *b, Val *stage, int by, int stages) {        // by: 1 or -1
    Val *end = b_const(b, EL_i32, by > 0 ? stages - 1 : 0), *begin = b_const(b, EL_i32, by > 0 ? 0 : stages - 1);
    Val *at_end = b_binary(b, OP_eq, stage, end);
    return b_op(b, OP_T_select, 0, type_scalar(EL_i32), 3, (Val *[]){at_end, begin, b_binary(b, OP_add, stage, b_const(b, EL_i32, by))});
}

// ---- the loop --------------------------------------------------------------------------------------

static void group_of_trips(Sequence *s, Op *yield, Val *counter, Val *stage, Val **carried) {
    Fn *f = s->f;
    const Region *body = body_of(s);
    Builder b = {f, NULL, yield, s->loop->span};
    for (int k = 0; k < s->trips; k++) {
        ValMap m = {.arena = f->arena};
        map_set(&m, counter_of(s), k ? b_binary(&b, OP_add, counter, b_const(&b, EL_index, k)) : counter);
        for (int i = 0; i < s->loop->nout; i++) map_set(&m, body->args.at[1 + i], carried[i]);
        for (int i = 0; i < s->n; i++) map_set(&m, s->rows[i].load->out[0], row(s, &b, &s->rows[i], stage, k));
        for (const Op *op = body->first; op != body->last; op = op->next)
            if (op->nout != 1 || map_get(&m, op->out[0]) == op->out[0]) op_before(yield, op_clone(f, op, &m));
        for (int i = 0; i < s->loop->nout; i++) carried[i] = map_get(&m, body->last->in[i]);
    }
}

static void rewrite(Sequence *s) {
    Fn *f = s->f;
    Op *loop = s->loop;
    int n = loop->nout;
    Builder out = {f, NULL, loop, loop->span};
    Val *lo = loop->in[0], *by = b_const(&out, EL_index, s->trips), **in = NEW_N(f->arena, Val *, 4 + n), **now = NEW_N(f->arena, Val *, n + 1);
    Val *groups = b_binary(&out, OP_div, b_binary(&out, OP_sub, loop->in[1], lo), by);
    groups = b_op(&out, OP_T_fun, TF_max, type_scalar(EL_index), 2, (Val *[]){groups, b_const(&out, EL_index, 0)});
    Val *mid = b_binary(&out, OP_add, lo, b_binary(&out, OP_mul, groups, by));
    bool used = f->buffer_bytes > 0 || f->walks;               // by another loop, or the program before
    make_rings(s, &out);
    if (used) effect(s, &out, OP_T_barrier, 0);
    for (int k = 0; k + 1 < s->stages; k++) copies(s, &out, k ? b_binary(&out, OP_add, lo, b_const(&out, EL_index, (int64_t)k * s->trips)) : lo, b_const(&out, EL_i32, k));
    in[0] = lo, in[1] = mid, in[2] = by;
    for (int i = 0; i < n; i++) in[3 + i] = loop->in[3 + i];
    in[3 + n] = b_const(&out, EL_i32, 0);
    Op *group = op_new(f, OP_T_for, loop->span, 4 + n, in, n + 1), *yield = op_new(f, OP_T_yield, loop->span, 0, NULL, 0);
    Region *r = group->reg[0];
    Val *counter = region_arg(f, r, type_scalar(EL_index));
    counter->name = counter_of(s)->name;
    op_before(loop, group);
    op_append(r, yield);
    for (int i = 0; i <= n; i++) {
        group->out[i]->type = in[3 + i]->type;
        now[i] = region_arg(f, r, in[3 + i]->type);
        if (i < n) now[i]->name = body_of(s)->args.at[1 + i]->name;
    }
    Builder b = {f, NULL, yield, loop->span};
    Val *stage = now[n];
    effect(s, &b, OP_T_copy_wait, s->stages - 2);
    effect(s, &b, OP_T_barrier, 0);
    copies(s, &b, b_binary(&b, OP_add, counter, b_const(&b, EL_index, (int64_t)(s->stages - 1) * s->trips)), ring_step(&b, stage, -1, s->stages));
    group_of_trips(s, yield, counter, stage, now);
    now[n] = ring_step(&b, stage, 1, s->stages);
    for (int i = 0; i <= n; i++) op_add_operand(f, yield, now[i]);
    effect(s, &out, OP_T_copy_wait, 0);
    effect(s, &out, OP_T_barrier, 0);                          // what comes may have the rings' memory
    loop->in[0] = mid;                                         // what is left of it
    for (int i = 0; i < n; i++) loop->in[3 + i] = group->out[i];
}

static bool visit(Fn *f, const CompileOptions *opt, Region *r) {
    bool any = false;
    for (Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nreg; i++) any |= visit(f, opt, op->reg[i]);
        Sequence s = {.f = f, .loop = op};
        if (!found(&s, opt, f->warps, f->launch->threads / (f->warps * 32))) continue;
        fn_note(f, op->span, "%d tile%s by cp.async, %d stages of %d trips: each trip goes on from the one before", s.n, s.n == 1 ? "" : "s", s.stages, s.trips);
        rewrite(&s);
        any = true;
    }
    return any;
}

bool sequence(Fn *f, const CompileOptions *opt) { return opt->schedule.stages != 1 && visit(f, opt, &f->body); }
