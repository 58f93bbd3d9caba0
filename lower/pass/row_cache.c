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
// Where they can be, tiles are brought by asynchronous copies, some trips ahead of the first loop, which then takes
// them from shared memory as the later ones do: a share of a row is asked for almost at once, and no register waits for
// it.
//
//     for j in the first D trips { keep_put room, j, load x[m, j ..] {attr 1};  copy_commit }
//     for n0 .. { copy_wait D - 1;  keep_put room, n0 + D trips, load .. {attr 1};  copy_commit;  x = keep_get room, n0 .. }
//
// Two loops read the same when their bounds and steps are equal and their loads are of one tensor that the kernel only
// reads, by indices that are equal but for the loops' counters. Kernels of products have rings of their own.
#include "lower/pass/row_cache.h"

#include "lower/facts/access.h"
#include "lower/pass/iteration.h"
#include "ptx/ptx.h"

enum { FEWEST_LANES = 2048, EACH = 4 };                           // fewer: the program may be a single warp; elements a lane where it is not
// on their way; trips; bytes of an asynchronous copy
enum { AHEAD_BYTES = 65536, FEWEST_AHEAD = 2, MOST_AHEAD = 8, PIECE = 16 };

// a, in loop p, is what b is in loop q.
static bool same(const Val *a, const Op *p, const Val *b, const Op *q) {
    const Op *x = a->def, *y = b->def;
    if (a == b) return true;
    if (!x || !y) return a == p->reg[0]->args.at[0] && b == q->reg[0]->args.at[0];
    if (x->code != y->code || x->sub != y->sub || x->flags != y->flags || x->imm != y->imm || x->nin != y->nin ||
        x->nout != 1 || y->nout != 1)
        return false;
    if (x->nreg || y->nreg || !op_has(x, 'P') || a->type.kind != b->type.kind || a->type.elem != b->type.elem ||
        a->type.rank != b->type.rank)
        return false;
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
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op))
        if (op_target(op) == loop || op->code == OP_T_dot) return false;
    const Op *step = loop->in[2]->def;
    return step && step->code == OP_T_const && step->imm > 0;
}

// Parts that meet have a multiprocessor each: all of its shared memory is for what a part reads, be its tiles small.
int64_t keep_fewest(int warps, bool meets) { return meets && warps > 1 ? (int64_t)warps * 32 * EACH : FEWEST_LANES; }

static bool worth(const Keep *k, const Op *load) {
    if (load->code != OP_T_load || load->flags & HAS_ELSE) return false;
    const Type *t = &load->out[0]->type;
    return t->rank && type_lanes(t) >= k->fewest && k->f->launch->params[load->in[0]->def->imm].mode == PM_IN;
}

static bool varies(const Op *load, const Op *loop) {               // with the trip: else it would stand before the loop
    for (int i = 1; i < load->nin; i++) if (!same(load->in[i], loop, load->in[i], loop) || load->in[i]->def) return true;
    return false;
}

static bool collect(Keep *k, Op *first) {
    *k = (Keep){.f = k->f, .fewest = k->fewest, .loop = {first}, .loops = 1};
    if (!whole_trips(first)) return false;
    for (Op *op = first->next; op && k->loops < KEEP_LOOPS; op = op->next) {
        bool alike = op->code == OP_T_for && whole_trips(op);
        for (int i = 0; i < 3 && alike; i++) alike = fact_same(op->in[i], first->in[i]);
        if (alike) k->loop[k->loops++] = op;
    }
    for (Op *op = first->reg[0]->first; op && k->loads < KEEP_LOADS; op = op->next) {
        bool found = false;
        if (!worth(k, op) || !varies(op, first)) continue;
        for (int i = 1; i < k->loops; i++)
            for (Op *b = k->loop[i]->reg[0]->first; b && !k->again[i][k->loads]; b = b->next)
                if (b->code == OP_T_load && same_load(op, first, b, k->loop[i])) { k->again[i][k->loads] = b; found = true; }
        if (found) k->again[0][k->loads] = k->load[k->loads] = op, k->loads++;
        else for (int i = 1; i < k->loops; i++) k->again[i][k->loads] = NULL;
    }
    return k->loads > 0;
}

int64_t keep_tile_bytes(const Keep *k) {
    int64_t most = 0;
    for (int i = 0; i < k->loads; i++) {
        const Type *t = &k->load[i]->out[0]->type;
        int64_t n = type_lanes(t) * elem_bytes((Elem)t->elem);
        most = n > most ? n : most;
    }
    return most;
}

// The number under which load i of the trip at `counter` is kept.
static Val *number(const Keep *k, Builder *b, const Op *loop, Val *counter, int i) {
    Val *trip = b_binary(b, OP_div, b_binary(b, OP_sub, counter, loop->in[0]), loop->in[2]);
    Val *which = b_const(b, EL_index, i), *before = b_binary(b, OP_mul, trip, b_const(b, EL_index, k->loads));
    return b_binary(b, OP_add, before, which);
}

// Tile x of load i of the first loop, whose axes are called what the map says.
Op *keep_put_tile(Keep *k, Builder *b, Val *room, Val *nth, Val *x, int i, const ValMap *m) {
    Val *in[3 + MAX_AXES] = {room, nth, x};
    for (int a = 0; a < x->type.rank; a++) in[3 + a] = map_get(m, k->load[i]->out[0]->type.axis[a]);
    Op *op = op_new(k->f, OP_T_keep_put, b->span, 3 + x->type.rank, in, 0);
    b_insert(b, op);
    return op;
}

static void put(Keep *k, Val *room) {
    for (int i = 0; i < k->loads; i++) {
        Builder b = {k->f, NULL, k->load[i]->next, k->load[i]->span};
        keep_put_tile(k, &b, room, number(k, &b, k->loop[0], k->loop[0]->reg[0]->args.at[0], i), k->load[i]->out[0], i,
                      &(ValMap){0});
    }
}

// ---- tiles ahead of the first loop ---------------------------------------------------------------

bool keep_can_be_ahead(const Keep *k, const CompileOptions *opt) {
    Facts *facts = facts_new(k->f);
    if (!opt->target->has_cp_async || opt->schedule.stages == 1) return false;
    for (int i = 0; i < k->loads; i++) {
        Access a;
        access_of(facts, k->load[i], &a);
        if (a.contiguous < 0 || a.vec * elem_bytes(a.elem) < PIECE) return false;
        for (int x = 1; x < k->load[i]->nin; x++) if (!trip_follows(k->loop[0], k->load[i]->in[x])) return false;
        for (int x = 0; x < k->load[i]->out[0]->type.rank; x++)
            if (!trip_follows(k->loop[0], k->load[i]->out[0]->type.axis[x])) return false;
    }
    return true;
}

int keep_trips_ahead(const Keep *k) {
    int64_t trip = k->loads * keep_tile_bytes(k), n = AHEAD_BYTES / trip;
    return (int)(n < FEWEST_AHEAD ? FEWEST_AHEAD : n > MOST_AHEAD ? MOST_AHEAD : n);
}

void keep_effect(Builder *b, OpCode code, int64_t imm) {
    Op *op = op_new(b->f, code, b->span, 0, NULL, 0);
    op->imm = imm;
    b_insert(b, op);
}

// The tiles of the trip at `counter`, if it is before `limit`, on their way; a group of copies either way.
static void ask_for(Keep *k, Builder *b, Val *room, Val *counter, Val *limit) {
    Op *loop = k->loop[0], *branch = op_new(k->f, OP_T_if, b->span, 1, (Val *[]){b_binary(b, OP_lt, counter, limit)}, 0);
    for (int i = 0; i < 2; i++) op_append(branch->reg[i], op_new(k->f, OP_T_yield, b->span, 0, NULL, 0));
    b_insert(b, branch);
    ValMap m = {.arena = k->f->arena};
    Builder in = {k->f, NULL, branch->reg[0]->last, b->span};
    map_set(&m, loop->reg[0]->args.at[0], counter);
    for (int i = 0; i < k->loads; i++) {
        Val *x = trip_again(k->f, loop, &m, k->load[i]->out[0], in.before);
        keep_put_tile(k, &in, room, number(k, &in, loop, counter, i), x, i, &m)->attr = 1;
    }
    keep_effect(b, OP_T_copy_commit, 0);
}

// The first loop, which ends where there is no more room, with tiles that are asked for before it and in it.
static void put_ahead(Keep *k, Val *room) {
    Op *loop = k->loop[0];
    Builder out = {k->f, NULL, loop, loop->span};
    int n = keep_trips_ahead(k);
    Val *lo = loop->in[0], *step = loop->in[2], *far = b_binary(&out, OP_mul, b_const(&out, EL_index, n), step);
    Op *first = op_new(k->f, OP_T_for, loop->span, 3, (Val *[]){lo, b_binary(&out, OP_add, lo, far), step}, 0);
    Val *at = region_arg(k->f, first->reg[0], type_scalar(EL_index));
    op_append(first->reg[0], op_new(k->f, OP_T_yield, loop->span, 0, NULL, 0));
    op_before(loop, first);
    Builder in = {k->f, NULL, first->reg[0]->last, loop->span}, top = {k->f, NULL, loop->reg[0]->first, loop->span};
    ask_for(k, &in, room, at, loop->in[1]);
    keep_effect(&top, OP_T_copy_wait, n - 1);
    ask_for(k, &top, room, b_binary(&top, OP_add, loop->reg[0]->args.at[0], far), loop->in[1]);
    fn_note(k->f, loop->span, "its tiles come by asynchronous copies, %d trips ahead", n);
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

// The loop ends where there is no more room, a copy of it goes on.
static void bound(Keep *k, int at, Val *room) {
    Op *loop = k->loop[at];
    Builder out = {k->f, NULL, loop, loop->span};
    Val *trips = b_binary(&out, OP_div, room, b_const(&out, EL_index, k->loads));
    Val *end = b_binary(&out, OP_add, loop->in[0], b_binary(&out, OP_mul, trips, loop->in[2]));
    rest(k, loop, end);
    loop->in[1] = b_op(&out, OP_T_fun, TF_min, type_scalar(EL_index), 2, (Val *[]){loop->in[1], end});
}

void keep_get_tile(Keep *k, int at, int i, Val *room, Val *nth) {
    Op *load = k->again[at][i];
    Builder b = {k->f, NULL, load, load->span};
    Val *in[2 + MAX_AXES] = {room, nth};
    if (!same_axes(&k->load[i]->out[0]->type, k->loop[0], &load->out[0]->type, k->loop[at], in + 2))
        ice("a tile that is kept has other axes where it is got");
    Val *x = b_op(&b, OP_T_keep_get, 0, load->out[0]->type, 2 + load->out[0]->type.rank, in);
    x->name = load->out[0]->name;
    replace_uses(&k->f->body, load->out[0], x);
    op_remove(load);
}

static void get(Keep *k, int at, Val *room) {
    for (int i = 0; i < k->loads; i++) {
        if (!k->again[at][i]) continue;
        Builder b = {k->f, NULL, k->again[at][i], k->again[at][i]->span};
        keep_get_tile(k, at, i, room, number(k, &b, k->loop[at], k->loop[at]->reg[0]->args.at[0], i));
    }
}

// The length of the range that the loop walks over. Of a share of a row, which ends at the row's end or a given number
// on from where it begins (cluster_rows.c), that number: the launcher can compute it.
Val *keep_length(Builder *b, const Op *loop) {
    const Op *end = loop->in[1]->def;
    for (int i = 0; end && end->code == OP_T_fun && end->sub == TF_min && i < 2; i++) {
        const Op *sum = end->in[i]->def;
        if (!sum || sum->code != OP_T_binary || sum->sub != OP_add) continue;
        for (int k = 0; k < 2; k++) if (sum->in[k] == loop->in[0]) return sum->in[1 - k];
    }
    return b_binary(b, OP_sub, loop->in[1], loop->in[0]);
}

bool keep_gets(const Keep *k, int at) {
    for (int i = 0; i < k->loads; i++) if (k->again[at][i]) return true;
    return false;
}

static void rewrite(Keep *k, const CompileOptions *opt) {
    Op *first = k->loop[0];
    Builder b = {k->f, NULL, first, first->span};
    Val *length = keep_length(&b, first), *step = first->in[2];
    Val *trips = b_binary(&b, OP_div,
                          b_binary(&b, OP_add, length, b_binary(&b, OP_sub, step, b_const(&b, EL_index, 1))), step);
    Val *tiles = b_binary(&b, OP_mul, trips, b_const(&b, EL_index, k->loads));
    Val *room = b_op(&b, OP_T_keep, 0, type_scalar(EL_index), 1, &tiles);
    room->def->imm = keep_tile_bytes(k);
    bool ahead = keep_can_be_ahead(k, opt);
    int  later = 0;
    if (!ahead) put(k, room);
    for (int i = 1; i < k->loops; i++) {
        if (!keep_gets(k, i)) continue;
        bound(k, i, room);
        get(k, i, room);
        later++;
    }
    if (ahead) {
        bound(k, 0, room);
        put_ahead(k, room);
        get(k, 0, room);
    }
    fn_note(k->f, first->span, "what it loads is kept in shared memory for %d later loop%s", later, later == 1 ? "" : "s");
}

static bool in_region(Keep *k, Region *r, const CompileOptions *opt) {
    for (Op *op = r->first; op; op = op->next) {
        if (op->code == OP_T_for && collect(k, op)) {
            if (!walk_rows(k, opt)) rewrite(k, opt);
            return true;
        }
        for (int i = 0; i < op->nreg; i++) if (in_region(k, op->reg[i], opt)) return true;
    }
    return false;
}

bool keep_finds(Fn *f, Keep *k) {
    for (Op *op = f->body.first; op; op = op->next) {
        *k = (Keep){.f = f, .fewest = keep_fewest(2, true)};
        if (op->code == OP_T_for && collect(k, op)) return true;
    }
    return false;
}

bool keep_tiles(Fn *f, const CompileOptions *opt) {
    Keep k = {.f = f, .fewest = keep_fewest(opt->schedule.warps, f->launch->together)};
    if (opt->schedule.warps == 1) return false;                    // programs of one warp share a block
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) if (op->code == OP_T_dot) return false;
    return in_region(&k, &f->body, opt);
}
