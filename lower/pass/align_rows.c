// Rows that begin anywhere, 16 bytes at a time.
//
//     x: bf16[M, 3001], a row a program                 memory   | . . . . . . . . | . . . . . . . . | . .
//     n = axis 0, N {3072}                              row m          ^ 5 elements behind 16 bytes
//     n = axis 0, N, m * N % 8 {3072}                   places   d d d d d 0 1 2   3 4 5 6 7 8 9 10  ..        d: dead
//
// Elements of a row whose length 16 bytes do not divide have to be moved one by one: their places move with the row. But all
// tensors of one form have them at the same ones. So the lanes of a row are counted from the 16 bytes on in which it begins: an axis may say
// how many of its first places are nobody's, a number that follows from the program's, and what tensors of this form have in a row is then
// loaded and stored 16 bytes a lane. What is loaded beside the row is its neighbours', in lanes that are dead; of what is stored the two
// ends go element by element (llvm/mem.c). Tensors of another form, weights, are read element by element at their own places, as before.
//
// A loop's trips are all moved by as much, and the row must leave room for that in its last trip. Programs of one row each: tiles of several rows begin at places of their own. What looks at lanes' numbers where values
// are alike (argmax), divides them, or puts lanes in another order, is left alone, and so are rows that a cluster shares.
#include "lower/build.h"
#include "lower/facts/access.h"
#include "lower/pass/passes.h"

enum { MOST = 32, SHORTEST_ROW = 128, AT_ONCE = 16 };

typedef struct Row {
    Fn    *f;
    Facts *facts;
    Val   *end;                    // of the row, in all its axes
    LExpr  length;
    Op    *axis[MOST], *op[MOST];  // op: what moves elements of such rows
    int    axes, n, least;         // bytes of the smallest element
    bool   keeps;
    Access first;                  // the others have its form
} Row;

static bool of_row(const Row *r, const Val *axis) {
    for (int i = 0; i < r->axes; i++) if (r->axis[i]->out[0] == axis) return true;
    return false;
}

// The op of the function's body that has it inside.
static const Op *at_top(const Op *op) {
    while (op->parent->owner) op = op->parent->owner;
    return op;
}

static bool stands_before(const Val *v, const Op *op) {
    if (!v->def || v->def->parent->owner) return false;
    for (const Op *o = v->def; o; o = o->next) if (o == op) return true;
    return false;
}

// Nothing but what moves and computes lane by lane, reduces or scans.
static bool simple(Row *r) {
    for (const Op *op = op_walk(&r->f->body, NULL); op; op = op_walk(&r->f->body, op))
        switch (op->code) {
        case OP_T_reduce: if (op->sub == TR_argmax || op->sub == TR_argmin) return false; break;
        case OP_T_keep: r->keeps = true; break;
        case OP_T_const: case OP_T_dim: case OP_T_scalar: case OP_T_tensor: case OP_T_extent: case OP_T_program: case OP_T_programs: case OP_T_axis: case OP_T_index:
        case OP_T_live: case OP_T_unary: case OP_T_binary: case OP_T_select: case OP_T_cast: case OP_T_bitcast: case OP_T_fun: case OP_T_splat: case OP_T_rename:
        case OP_T_scan: case OP_T_load: case OP_T_store: case OP_T_for: case OP_T_yield: case OP_T_keep_put: case OP_T_keep_get: case OP_T_copy_commit: case OP_T_copy_wait: break;
        default: return false;
        }
    return !r->f->shares && !r->f->rows_walk && !r->f->tallies && !r->f->cluster;
}

static bool power_of_two(int64_t n) { return n > 0 && (n & (n - 1)) == 0; }

static bool is_number(const Val *v, int64_t x) { return v->def && v->def->code == OP_T_const && v->def->imm == x; }
static bool made_of(const Val *v, OpCode code) {
    for (int i = 0; v->def && i < v->def->nin; i++) if (v->def->in[i]->def && v->def->in[i]->def->code == code) return true;
    return false;
}

// From the row's begin to its end; what is kept of it and what is not are two loops, one behind the other.
static bool walks_row(const Row *r, const Op *loop, const Op *axis) {
    bool begins = is_number(loop->in[0], 0) || (r->keeps && made_of(loop->in[0], OP_T_keep));
    bool ends = loop->in[1] == r->end || (r->keeps && loop->in[1]->def && loop->in[1]->def->code == OP_T_fun && loop->in[1]->def->sub == TF_min &&
                                          (loop->in[1]->def->in[0] == r->end || loop->in[1]->def->in[1] == r->end));
    return begins && ends && is_number(loop->in[2], axis->imm);
}

// The first trip's tile, asked for before the loop: nothing is made of it but what the loop carries.
static bool asked_for(const Row *r, const Val *axis) {
    bool carried = false;
    for (const Op *op = r->f->body.first; op; op = op->next) {
        carried |= op->code == OP_T_rename && op->in[1] == axis && op->in[2]->def->flags & AXIS_FULL;
        for (int i = 0; i < op->nout; i++)
            if (op->out[i]->type.kind == TY_TILE && type_axis(&op->out[i]->type, axis) >= 0 && op->code != OP_T_index && op->code != OP_T_load) return false;
    }
    return carried;
}

// Of a loop's trips, this one's or the next one's; else of the whole row.
static bool walks(const Row *r, const Op *axis) {
    const Op *loop = axis->parent->owner;
    const Val *lo = axis->in[0];
    if (!loop) {
        bool any = false;
        for (const Op *op = r->f->body.first; op; op = op->next) any |= op->code == OP_T_for && walks_row(r, op, axis);
        return any && is_number(lo, 0) && asked_for(r, axis->out[0]);
    }
    const Val *counter = loop->code == OP_T_for ? loop->reg[0]->args.at[0] : NULL;
    const Op *next = lo->def && lo->def->code == OP_T_binary && lo->def->sub == OP_add ? lo->def : NULL;
    bool follows = next && ((next->in[0] == counter && is_number(next->in[1], axis->imm)) || (next->in[1] == counter && is_number(next->in[0], axis->imm)));
    return counter && (lo == counter || follows) && walks_row(r, loop, axis);
}

// The length that the instance was made for; 0: nobody knows.
static int64_t given_length(const Row *r) {
    const Op *d = r->end->def;
    int64_t n;
    if (fact_constant(r->facts, r->length, &n)) return n;
    return d && d->code == OP_T_dim ? r->f->launch->dims[d->imm].given : 0;
}

static int64_t at_once(const Row *r) { return (int64_t)r->f->warps * 32 * (AT_ONCE / r->least); }

// Trips begin at multiples of 16 bytes' elements; the whole row's lanes have room before it (softmax of 8191 f32 with one more vector a thread for that: 143 us instead of 136).
static bool begins_well(Row *r, const Op *axis, int unit) {
    const Op *lo = axis->in[0]->def;
    int64_t n = given_length(r);
    if (walks(r, axis)) return power_of_two(axis->imm) && axis->imm % unit == 0 && fact_known_multiple(r->facts, axis->in[0], unit);
    if (!lo || lo->code != OP_T_const || lo->imm || axis->parent->owner) return false;
    if (!n || n + unit - 1 > axis->imm) return false;
    // vectors of all threads may be many more places than the row has: softmax of 257 bf16 by one warp 17.4 us instead of 12.4, of 577 as it was
    int64_t places = (axis->imm + at_once(r) - 1) / at_once(r) * at_once(r);
    return places * 4 <= n * 5;
}

// Quotients and remainders of lanes' numbers are made of what several registers share, which is not negative elsewhere.
static bool divides(const Row *r) {
    for (const Op *op = op_walk(&r->f->body, NULL); op; op = op_walk(&r->f->body, op)) {
        if (op->code != OP_T_binary || (op->sub != OP_div && op->sub != OP_rem) || elem_is_float((Elem)op->in[0]->type.elem)) continue;
        for (int i = 0; i < op->out[0]->type.rank; i++) if (of_row(r, op->out[0]->type.axis[i])) return true;
    }
    return false;
}

// What has another form, a norm's weights, comes element by element, and a lane's neighbours are far apart then: layer norm of 3001 bf16 88 us instead of 62. Where rows are
// kept, their own elements decide (50257: 204 instead of 267).
static bool others(const Row *r) {
    for (const Op *op = op_walk(&r->f->body, NULL); op && !r->keeps; op = op_walk(&r->f->body, op)) {
        if ((op->code != OP_T_load && op->code != OP_T_store)) continue;
        const Type *t = op->code == OP_T_load ? &op->out[0]->type : &op->in[1 + op->nidx]->type;
        bool mine = false, row = false;
        for (int i = 0; i < r->n; i++) mine |= r->op[i] == op;
        for (int i = 0; i < t->rank; i++) row |= of_row(r, t->axis[i]);
        if (row && !mine) return true;
    }
    return false;
}

// A tile keeps its places where its axis is called otherwise: both are of the row, or of what a loop carries of it.
static bool renames_well(const Row *r) {
    for (const Op *op = op_walk(&r->f->body, NULL); op; op = op_walk(&r->f->body, op)) {
        if (op->code != OP_T_rename || of_row(r, op->in[1]) == of_row(r, op->in[2])) continue;
        const Val *other = of_row(r, op->in[1]) ? op->in[2] : op->in[1];
        if (!(other->def->flags & AXIS_FULL)) return false;
    }
    return true;
}

static bool same_rows(const Row *r, const Access *a) {
    const Access *x = &r->first;
    if (!r->n) return true;
    if (a->nidx != x->nidx) return false;
    for (int d = 0; d < a->nidx; d++)
        if (d != a->inner && (!fact_same(a->idx[d], x->idx[d]) || !launch_same(a->p->dim[d], x->p->dim[d]))) return false;
    return true;
}

static bool in_such_a_row(Row *r, const Op *op, Access *a) {
    bool load = op->code == OP_T_load;
    if ((!load && op->code != OP_T_store) || op->flags & HAS_ELSE || op->nidx < 2) return false;
    access_of(r->facts, op, a);
    const Op *index = a->idx[a->inner]->def;
    int size = elem_bytes(a->elem);
    if (a->p->mode != (load ? PM_IN : PM_OUT) || a->p->strided || a->elem == EL_bool || size > 4 || a->type.rank != 1 || !of_row(r, a->type.axis[0])) return false;
    if (a->contiguous != 0 || a->inner != a->nidx - 1 || a->vec * size >= AT_ONCE || !index || index->code != OP_T_index) return false;
    for (int d = 0; d < a->nidx; d++)
        if (!a->proved[d] || (d != a->inner && (a->idx[d]->type.rank || a->unit[d] || !stands_before(a->idx[d], at_top(r->axis[0]))))) return false;
    for (int d = 1; d < a->nidx; d++) if (!host_has_value(a->p->dim[d])) return false;
    return launch_same(a->p->dim[a->inner], r->length);
}

// A dense tensor's: what the dimensions behind d have together.
static bool dense(Row *r, const Access *a) {
    Arena *arena = r->f->arena;
    for (int d = 0; d + 1 < a->nidx; d++) {
        LStep *st = NEW(arena, LStep);
        *st = (LStep){L_STRIDE, launch_stride(a->param, d)};
        LExpr size = a->p->dim[d + 1];
        for (int k = d + 2; k < a->nidx; k++) size = launch_join(arena, L_MUL, size, a->p->dim[k]);
        if (!fact_assume(r->facts, launch_join(arena, L_EQ, (LExpr){st, 1}, size))) return false;
    }
    return true;
}

static void collect(Row *r) {
    for (Op *op = op_walk(&r->f->body, NULL); op && r->n < MOST; op = op_walk(&r->f->body, op)) {
        Access a;
        if (!in_such_a_row(r, op, &a) || !same_rows(r, &a)) continue;
        if (!r->n) r->first = a;
        int size = elem_bytes(a.elem);
        if (!r->least || size < r->least) r->least = size;
        r->op[r->n++] = op;
    }
}

// The last trip has room for the row's end wherever the row begins: there are as many trips as there were.
static bool trips_have_room(Row *r, int unit) {
    Arena *arena = r->f->arena;
    int64_t n = given_length(r);
    for (int i = 0; i < r->axes; i++) {
        int64_t step = r->axis[i]->imm;
        if (!walks(r, r->axis[i])) continue;
        if (!n || (n + unit - 1 + step - 1) / step != (n + step - 1) / step) return false;
        LExpr trips = launch_join_const(arena, L_CDIV, r->length, step), moved = launch_join_const(arena, L_CDIV, launch_join_const(arena, L_ADD, r->length, unit - 1), step);
        if (!fact_assume(r->facts, launch_join(arena, L_EQ, moved, trips))) return false;
    }
    return true;
}

static bool align(Row *r) {
    Op *top = (Op *)at_top(r->axis[0]);
    collect(r);
    if (!r->n || !renames_well(r) || divides(r) || others(r)) return false;
    int unit = AT_ONCE / r->least;
    for (int i = 0; i < r->axes; i++) {
        const Op *loop = r->axis[i]->parent->owner;
        if (loop && !trips_regroup(r->f, loop)) return false;
    }
    for (int i = 0; i < r->axes; i++) if (!begins_well(r, r->axis[i], unit)) return false;
    if (!trips_have_room(r, unit)) return false;
    for (int i = 0; i < r->n; i++) {
        Access a;
        access_of(r->facts, r->op[i], &a);
        if (!dense(r, &a)) return false;
    }
    Builder b = {r->f, NULL, top, top->span};
    const Access *x = &r->first;
    Val *at = x->idx[0];
    for (int d = 1; d < x->nidx; d++) {
        at = b_binary(&b, OP_mul, at, host_value(&b, x->p->dim[d]));
        if (d < x->inner) at = b_binary(&b, OP_add, at, x->idx[d]);
    }
    Val *moved = b_binary(&b, OP_rem, at, b_const(&b, EL_index, unit));
    for (int i = 0; i < r->axes; i++) {
        Op *axis = r->axis[i];
        if (!walks(r, axis)) fact_assume(r->facts, launch_join_const(r->f->arena, L_LE, launch_join_const(r->f->arena, L_ADD, r->length, unit - 1), axis->imm));
        axis->flags &= ~AXIS_FULL;                             // a first trip's places before the row
        op_add_operand(r->f, axis, moved);
    }
    for (int i = 0; i < r->n; i++) r->op[i]->flags |= FROM_16;
    fn_note(r->f, r->op[0]->span, "rows of %s are moved 16 bytes at a time, wherever they begin", r->n == 1 ? "a tensor" : "tensors of one form");
    return true;
}

// The first axis that a row does not fill says which row it is; all that end with it are of it.
bool align_rows(Fn *f) {
    Row r = {.f = f, .facts = facts_new(f)};
    if (!f->fast || !simple(&r)) return false;
    for (Op *op = op_walk(&f->body, NULL); op && !r.end; op = op_walk(&f->body, op))
        if (op->code == OP_T_axis && op->nin == 2 && !(op->flags & AXIS_FULL) && op->imm >= SHORTEST_ROW && stands_before(op->in[1], at_top(op)) && host_expr(r.facts, op->in[1], &r.length)) r.end = op->in[1];
    for (Op *op = op_walk(&f->body, NULL); op && r.end; op = op_walk(&f->body, op)) {
        if (op->code != OP_T_axis || op->nin > 2 || op->in[1] != r.end) continue;
        if (r.axes == MOST) return false;
        r.axis[r.axes++] = op;
    }
    return r.axes && align(&r);
}
