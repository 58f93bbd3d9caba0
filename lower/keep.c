// Rows that no block holds in registers: what one loop reads, a later loop over the same tiles need not read again.
//
//     for n0 .. N by B {                            room = keep (tiles)             in shared memory, one tile a trip
//         x = load x[m, n0 ..]                      for n0 .. N by B {
//         t = max(top, max(x over n)) ..                x = load x[m, n0 ..];  keep_put room, trip, x
//     }                                      ->         ..
//     for n0 .. N by B {                            }
//         x = load x[m, n0 ..]                      for n0 .. min(N, room * B) by B { x = keep_get room, trip .. }
//         y[m, n0 ..] = exp(x - top) / den          for n0 from there .. N by B     { x = load x[m, n0 ..] .. }
//     }
//
// A softmax of 128256 entries, a group norm, each kernel that `chunk` cut into loops reads its row two or three times. The
// rows of all blocks at work are more than the L2 cache holds, so each reading is one of memory. Shared memory holds what
// fits; the tiles past that are read again, and are few and recent enough to come from L2.
//
// Nothing is shared: a thread takes back what it put itself, 16 bytes at a time, in the layout in which it was loaded. So
// there are no barriers, no bank conflicts and no conversions. How many tiles there is room for is known when all other
// shared memory is laid out; how many are asked for, at the launch: a short row takes little room, and many blocks fit.
//
// Two loops read the same when their bounds and steps are equal and their loads are of one tensor that the kernel only
// reads, by indices that are equal but for the loops' counters. Kernels of products have rings of their own.
#include "lower/build.h"
#include "lower/facts.h"
#include "lower/passes.h"

enum { MAX_LOADS = 8, MAX_LOOPS = 8, FEWEST_LANES = 2048 };       // fewer: the program may be a single warp

typedef struct Keep {
    Fn  *f;
    Op  *loop[MAX_LOOPS];             // the first puts, the others get
    int  loops;
    Op  *load[MAX_LOADS];             // of the first loop
    Op  *again[MAX_LOOPS][MAX_LOADS]; // in a later loop, or NULL
    int  loads;
} Keep;

// a, in loop p, is what b is in loop q.
static bool same(const Val *a, const Op *p, const Val *b, const Op *q) {
    const Op *x = a->def, *y = b->def;
    if (a == b) return true;
    if (!x || !y) return a == p->reg[0]->args.at[0] && b == q->reg[0]->args.at[0];
    if (x->code != y->code || x->sub != y->sub || x->flags != y->flags || x->imm != y->imm || x->nin != y->nin || x->nout != 1 || y->nout != 1) return false;
    if (x->nreg || y->nreg || !op_has(x, 'P') || a->type.kind != b->type.kind || a->type.elem != b->type.elem || a->type.rank != b->type.rank) return false;
    for (int i = 0; i < x->nin; i++) if (!same(x->in[i], p, y->in[i], q)) return false;
    return true;
}

// For each axis of a, in loop p, the one of b, in loop q, that is the same: each has an order of its own.
static bool same_axes(const Type *a, const Op *p, const Type *b, const Op *q, Val **match) {
    unsigned taken = 0;
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++) {
        int k = 0;
        while (k < b->rank && (taken >> k & 1 || !same(a->axis[i], p, b->axis[k], q))) k++;
        if (k == b->rank) return false;
        taken |= 1u << k;
        match[i] = b->axis[k];
    }
    return true;
}

static bool same_load(const Op *a, const Op *p, const Op *b, const Op *q) {
    Val *match[MAX_AXES];
    if (b->code != OP_T_load || a->flags != b->flags || a->nin != b->nin || a->nidx != b->nidx) return false;
    for (int i = 0; i < a->nin; i++) if (!same(a->in[i], p, b->in[i], q)) return false;
    return same_axes(&a->out[0]->type, p, &b->out[0]->type, q, match);
}

static bool whole_trips(const Op *loop) {                          // and a step that is a number
    const Region *r = loop->reg[0];
    if (loop->code != OP_T_for || r->last->code != OP_T_yield) return false;
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op)) if (op_target(op) == loop || op->code == OP_T_dot) return false;
    const Op *step = loop->in[2]->def;
    return step && step->code == OP_T_const && step->imm > 0;
}

static bool worth(const Keep *k, const Op *load) {
    if (load->code != OP_T_load || load->flags & HAS_ELSE) return false;
    const Type *t = &load->out[0]->type;
    return t->rank && type_lanes(t) >= FEWEST_LANES && k->f->launch->params[load->in[0]->def->imm].mode == PM_IN;
}

static bool varies(const Op *load, const Op *loop) {               // with the trip: else it would stand before the loop
    for (int i = 1; i < load->nin; i++) if (!same(load->in[i], loop, load->in[i], loop) || load->in[i]->def) return true;
    return false;
}

static bool collect(Keep *k, Op *first) {
    *k = (Keep){.f = k->f, .loop = {first}, .loops = 1};
    if (!whole_trips(first)) return false;
    for (Op *op = first->next; op && k->loops < MAX_LOOPS; op = op->next) {
        bool alike = op->code == OP_T_for && whole_trips(op);
        for (int i = 0; i < 3 && alike; i++) alike = fact_same(op->in[i], first->in[i]);
        if (alike) k->loop[k->loops++] = op;
    }
    for (Op *op = first->reg[0]->first; op && k->loads < MAX_LOADS; op = op->next) {
        bool found = false;
        if (!worth(k, op) || !varies(op, first)) continue;
        for (int i = 1; i < k->loops; i++)
            for (Op *b = k->loop[i]->reg[0]->first; b && !k->again[i][k->loads]; b = b->next)
                if (b->code == OP_T_load && same_load(op, first, b, k->loop[i])) { k->again[i][k->loads] = b; found = true; }
        if (found) k->load[k->loads++] = op;
        else for (int i = 1; i < k->loops; i++) k->again[i][k->loads] = NULL;
    }
    return k->loads > 0;
}

static int64_t tile_bytes(const Keep *k) {
    int64_t most = 0;
    for (int i = 0; i < k->loads; i++) {
        const Type *t = &k->load[i]->out[0]->type;
        int64_t n = type_lanes(t) * elem_bytes((Elem)t->elem);
        most = n > most ? n : most;
    }
    return most;
}

// The number under which load i of the trip at work is kept.
static Val *number(const Keep *k, Builder *b, const Op *loop, int i) {
    Val *trip = b_binary(b, OP_div, b_binary(b, OP_sub, loop->reg[0]->args.at[0], loop->in[0]), loop->in[2]);
    Val *which = b_const(b, EL_index, i), *before = b_binary(b, OP_mul, trip, b_const(b, EL_index, k->loads));
    return b_binary(b, OP_add, before, which);
}

static void put(Keep *k, Val *room) {
    for (int i = 0; i < k->loads; i++) {
        Builder b = {k->f, NULL, k->load[i]->next, k->load[i]->span};
        const Type *t = &k->load[i]->out[0]->type;
        Val *in[3 + MAX_AXES] = {room, number(k, &b, k->loop[0], i), k->load[i]->out[0]};
        for (int a = 0; a < t->rank; a++) in[3 + a] = t->axis[a];
        b_insert(&b, op_new(k->f, OP_T_keep_put, b.span, 3 + t->rank, in, 0));
    }
}

// A copy of the loop for the trips past those that are kept, which goes on where the loop ends.
static void rest(Keep *k, Op *loop, Val *end) {
    Op *more = op_new(k->f, OP_T_for, loop->span, loop->nin, loop->in, loop->nout);
    ValMap map = {.arena = k->f->arena};
    more->str = loop->str;
    more->in[0] = end;
    op_after(loop, more);
    for (uint32_t i = 0; i < loop->reg[0]->args.n; i++) {
        Val *a = loop->reg[0]->args.at[i];
        map_set(&map, a, region_arg(k->f, more->reg[0], a->type));
    }
    region_clone(k->f, loop->reg[0], more->reg[0], NULL, &map);
    for (int i = 0; i < loop->nout; i++) {
        more->out[i]->type = loop->out[i]->type;
        more->out[i]->name = loop->out[i]->name;
        replace_uses(&k->f->body, loop->out[i], more->out[i]);
        more->in[3 + i] = loop->out[i];
    }
}

static void get(Keep *k, int at, Val *room) {
    Op *loop = k->loop[at];
    Builder out = {k->f, NULL, loop, loop->span};
    Val *trips = b_binary(&out, OP_div, room, b_const(&out, EL_index, k->loads));
    Val *end = b_binary(&out, OP_add, loop->in[0], b_binary(&out, OP_mul, trips, loop->in[2]));
    rest(k, loop, end);
    loop->in[1] = b_op(&out, OP_T_fun, TF_min, type_scalar(EL_index), 2, (Val *[]){loop->in[1], end});
    for (int i = 0; i < k->loads; i++) {
        Op *load = k->again[at][i];
        if (!load) continue;
        Builder b = {k->f, NULL, load, load->span};
        Val *in[2 + MAX_AXES] = {room, number(k, &b, loop, i)};
        if (!same_axes(&k->load[i]->out[0]->type, k->loop[0], &load->out[0]->type, loop, in + 2)) ice("a tile that is kept has other axes where it is got");
        Val *x = b_op(&b, OP_T_keep_get, 0, load->out[0]->type, 2 + load->out[0]->type.rank, in);
        x->name = load->out[0]->name;
        replace_uses(&k->f->body, load->out[0], x);
        op_remove(load);
    }
}

// The length of the range that the loop walks over. Of a share of a row, which ends at the row's end or a given number on from
// where it begins (share.c), that number: the launcher can compute it.
static Val *length_of(Builder *b, const Op *loop) {
    const Op *end = loop->in[1]->def;
    for (int i = 0; end && end->code == OP_T_fun && end->sub == TF_min && i < 2; i++) {
        const Op *sum = end->in[i]->def;
        if (!sum || sum->code != OP_T_binary || sum->sub != OP_add) continue;
        for (int k = 0; k < 2; k++) if (sum->in[k] == loop->in[0]) return sum->in[1 - k];
    }
    return b_binary(b, OP_sub, loop->in[1], loop->in[0]);
}

static void rewrite(Keep *k) {
    Op *first = k->loop[0];
    Builder b = {k->f, NULL, first, first->span};
    Val *length = length_of(&b, first), *step = first->in[2];
    Val *trips = b_binary(&b, OP_div, b_binary(&b, OP_add, length, b_binary(&b, OP_sub, step, b_const(&b, EL_index, 1))), step);
    Val *tiles = b_binary(&b, OP_mul, trips, b_const(&b, EL_index, k->loads));
    Val *room = b_op(&b, OP_T_keep, 0, type_scalar(EL_index), 1, &tiles);
    room->def->imm = tile_bytes(k);
    put(k, room);
    int later = 0;
    for (int i = 1; i < k->loops; i++) {
        bool any = false;
        for (int q = 0; q < k->loads; q++) any |= k->again[i][q] != NULL;
        if (!any) continue;
        get(k, i, room);
        later++;
    }
    fn_note(k->f, first->span, "what it loads is kept in shared memory for %d later loop%s", later, later == 1 ? "" : "s");
}

static bool in_region(Keep *k, Region *r) {
    for (Op *op = r->first; op; op = op->next) {
        if (op->code == OP_T_for && collect(k, op)) { rewrite(k); return true; }
        for (int i = 0; i < op->nreg; i++) if (in_region(k, op->reg[i])) return true;
    }
    return false;
}

bool keep_tiles(Fn *f, const CompileOptions *opt) {
    Keep k = {.f = f};
    if (opt->schedule.warps == 1) return false;                    // programs of one warp share a block
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) if (op->code == OP_T_dot) return false;
    return in_region(&k, &f->body);
}
