// As many blocks as multiprocessors, each walking from tile to tile of the grid.
//
//     roles {                                  roles {
//       for k { fill }                           for t in program .. programs by walkers { tile of t;  for k { fill } }
//     } and {                           ->     } and {
//       for k { multiply }                       for t in program .. programs by walkers { tile of t;  for k { multiply }
//       c[m, n] = acc                                                                      tma_store c, acc }
//     }                                        }
//
// The ring goes on from tile to tile, so the producer fills it for the next tile while the consumers are at the end of
// this one. Results leave by TMA: each warp group puts 64 rows of a span of columns into one of its own slots in shared
// memory (two, or what the ring leaves room for), and goes on while the copy engine writes them out.
//
// What is loaded once a tile (attention's query) has one buffer: it is free after the tile's last product with it, and the
// next tile's comes while the rest of this one is computed and stored.
//
// Applies to kernels with one product, two in a chain (attention), or several side by side (a gated layer), whose tiles
// are all stored where TMA can: a plain output tensor, its innermost index along the last product's columns, 2- or
// 4-byte elements, 128 bytes of them at least (where a row is no whole number of spans, the last one has a tensor map
// of its own, with a narrower box), the tile ending with the tensor; its rows along one dimension, or pixels
// (specialize/im2col.c); or whose rows begin where TMA cannot write (specialize/unaligned_rows.c). Where one round is all that a launch
// has, there is nothing to load ahead (Schedule.walk is 1 then). Others keep a block to a program (a converted tile
// would need shared memory beside the ring; where the slots would leave less than two stages, there is no room), and so
// do transposed products, whose tiles are small, but those that are made for what is contracted outside (specialize/tf32x3.c).
//
// An H200, B4 H32 S4096 D128: 645 TFLOP/s instead of 614; B8 H12 S1024 D64: 351 instead of 322, since a block that begins
// anew costs 3.3 us and a trip 1.3 (2026-11-21).
#include "lower/specialize/specialize.h"
#include "lower/simplify/simplify.h"

// at least so many; one for each of three groups, where the ring has fewer stages else
enum { SLOTS = 2, SLOT_ROWS = 64, BAND_STAGES = 4, ROW_STAGES = 4 };

static int stores_to(const Region *r, const Val *tensor) {
    int n = 0;
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op))
        n += (op->code == OP_T_store || op->code == OP_T_atomic) && op->in[0]->def->imm == tensor->def->imm;
    return n;
}

// Lanes past this end are past the tensor's, or there are none: the tensor's own end, a tile's length after its beginning, or the lesser of such.
static bool ends_with(Ws *h, const Val *axis, const Val *end, LExpr dim) {
    const Op *d = end->def;
    LExpr e;
    int64_t by;
    if (host_expr(h->facts, end, &e) && launch_same(e, dim)) return true;
    if (!d) return false;
    if (d->code == OP_T_binary && d->sub == OP_add)
        for (int i = 0; i < 2; i++)
            if (is_const(d->in[i], &by) && by >= axis_extent(axis) && fact_same(d->in[!i], axis_lo(axis))) return true;
    return d->code == OP_T_fun && d->sub == TF_min && ends_with(h, axis, d->in[0], dim) && ends_with(h, axis, d->in[1], dim);
}

// Lanes past the axis's end are past the tensor's, where TMA writes nothing; or there are none, as in tiles of whole
// groups' results.
bool ws_ends_with(Ws *h, const Val *axis, LExpr dim) {
    int64_t extent = axis_extent(axis);
    if (fact_divisor(h->facts, axis_lo(axis)) % extent == 0 && fact_known_multiple(h->facts, axis_hi(axis), extent))
        return true;
    return (axis->def->flags & AXIS_FULL) || ends_with(h, axis, axis_hi(axis), dim);
}

// The axes of a result's rows and columns in memory: those of the product, or of the transposed one, whose slots are written across (llvm/tma_store.c).
static Val *result_rows(const Ws *h) { return h->p[0].swapped ? h->p[0].col : h->p[h->np - 1].row; }
static Val *result_columns(const Ws *h) { return h->p[0].swapped ? h->p[0].row : h->p[h->np - 1].col; }

static bool storable(Ws *h, Op *op) {
    Access a;
    const Val *v = op_value(op), *of_rows = result_rows(h), *of_columns = result_columns(h);
    int size = elem_bytes((Elem)v->type.elem);
    int64_t row = axis_extent(of_columns) * size;
    if (h->p[0].swapped && ((size != 4 && !ws_in_pairs(h)) || axis_extent(of_rows) % SLOT_ROWS)) return false;
    access_shape(h->facts, op, &a);
    if (a.p->mode != PM_OUT || a.p->strided || a.nidx < 2 || a.nidx > 5 || v->type.rank != 2 || v->type.elem == EL_bool)
        return false;
    if ((size != 2 && size != 4) || row < SPAN || row % 16 || stores_to(&h->f->body, op->in[0]) != 1) return false;
    Window w;
    bool rows = false, cols = false, window = false;
    for (int d = 0; d + 1 < a.nidx; d++) window |= a.aff[d].ntile > 0;
    if (window && (a.inner + 1 < a.nidx || row % SPAN)) return false;
    if (window) rows = !ws_window(h, &a, a.nidx - 1, false, &w) && w.rows == of_rows && ws_window_ends(h, &a, &w);
    for (int i = 0; rows && i < w.n; i++) rows = !w.at[i].step && !w.at[i].base.c && !w.at[i].base.nterm;
    for (int d = 0; d < a.nidx; d++) {
        const Affine *x = &a.aff[d];
        if (window && d + 1 < a.nidx) continue;
        if (x->ntile || x->naxis > 1) return false;
        if (!x->naxis) continue;
        const Val *axis = x->axis[0].axis;
        if (x->axis[0].k != 1 || x->axis[0].scale || !a.proved[d] || !ws_ends_with(h, axis, a.p->dim[d])) return false;
        if (axis == of_columns && d == a.inner) cols = true;
        else if (axis == of_rows) rows = true;
        else return false;
    }
    return rows && cols && access_aligned(h->facts, &a, 16 / size);
}

// Of columns, the last of which may be narrower.
static int64_t whole_spans(const Ws *h, const Op *store) {
    return (axis_extent(h->p[h->np - 1].col) * elem_bytes((Elem)op_value(store)->type.elem) + SPAN - 1) / SPAN;
}

// What follows the loop: stores of tiles are counted where each program makes them once. False: one of them cannot be.
static bool epilogue(Ws *h, Op *first, bool once, int *stores) {
    for (Op *op = first; op; op = op->next) {
        bool tile = op->code == OP_T_store && op_value(op)->type.rank >= 2;
        if (tile && (!once || !(h->by_rows ? ws_row_storable(h, op) : storable(h, op)))) return false;
        *stores += tile;
        int64_t bytes = !tile        ? 0
                        : h->by_rows ? ws_row_bytes(h, op)
                                     : axis_extent(h->p[h->np - 1].row) * whole_spans(h, op) * SPAN;
        if (bytes > h->tile_bytes) h->tile_bytes = bytes;
        for (int i = 0; i < op->nreg; i++)
            if (!epilogue(h, op->reg[i]->first, once && op->code == OP_T_if, stores)) return false;
    }
    return true;
}

Op *ws_program(const Fn *f) {
    for (Op *op = f->body.first; op; op = op->next) if (op->code == OP_T_program) return op;
    return NULL;
}

Val *ws_existing(Builder *b, Val *program, Val *programs) {
    Val *last = b_binary(b, OP_sub, programs, b_const(b, EL_index, 1));
    Val *v = b_op(b, OP_T_fun, TF_min, type_scalar(EL_index), 2, (Val *[]){program, last});
    v->def->attr = 1;                                          // not negative: see fact_range
    return v;
}

// One product, a chain of two, or several that are added up side by side into tiles of the same rows and columns (a
// gated layer).
static bool one_tile(const Ws *h) {
    if (h->np == 1 || h->chained) return true;
    for (int i = 1; i < h->np; i++)
        if (h->p[i].row != h->p[0].row || h->p[i].col != h->p[0].col || (h->p[i].swapped && !h->by_threads)) return false;
    return h->pipelined || h->np == h->nloops;
}

// A multiprocessor for each tile: nothing is loaded ahead, and pairs would be twice as long (12 heads of 1024 causal
// keys, 96 tiles: 18.9 us instead of 16.8; 32 heads, 256 tiles: 19.5 instead of 28.0). Products without a chain are the
// model's affair (cost.c).
static bool one_round(Ws *h) {
    int64_t programs;
    const Schedule *s = &h->opt->schedule;
    return !s->persistent && !s->blocks && h->chained && fact_constant(h->facts, h->f->launch->programs, &programs) &&
           programs <= (int64_t)h->opt->target->sms;
}

// Three groups by 192 x 192 with two slots: three stages, 1 % slower.
static int slots(const Ws *h) {
    int64_t room = (int64_t)h->opt->target->smem_block - h->opt->less - SYNC_BYTES - h->once_bytes -
                   SLOTS * ws_storing(h) * SLOT_ROWS * SPAN;
    return h->bands > 1 && h->stage_bytes[0] && ws_stages_in(h, room) < BAND_STAGES ? 1 : SLOTS;
}

// The stages of a ring beside slots of so many bytes, and what is theirs besides (ws_whole_slots).
static int stages_beside(Ws *h, uint32_t bytes) {
    int64_t room = (int64_t)h->opt->target->smem_block - h->opt->less - SYNC_BYTES - h->once_bytes - bytes;
    h->walk_bytes = bytes;
    int stages = ws_stages_in(h, room - ws_whole_slots(h, room));
    h->walk_bytes = 0;
    return stages;
}

// Of slots for rows, or for halves of them. 0: tiles end inside the tensor, and the ring is better off without them (attention was not measured so).
static uint32_t row_slots(Ws *h) {
    uint32_t bytes = h->tiles > 1 ? (uint32_t)h->tile_bytes : ws_least_row_bytes(h, false), half = ws_least_row_bytes(h, true);
    int64_t room = (int64_t)h->opt->target->smem_block - h->opt->less - SYNC_BYTES - h->once_bytes - bytes;
    if (h->apart) return bytes;
    if (!h->inside || h->chained || !h->stage_bytes[0]) return 0;
    return ws_stages_in(h, room) >= ROW_STAGES ? bytes : h->tiles < 2 && stages_beside(h, half) >= ROW_STAGES ? half : 0;
}

uint32_t ws_walk_bytes(Ws *h) {
    if (h->nest || h->f->cluster || h->opt->schedule.persistent == 1 || one_round(h) || !one_tile(h) || (h->p[0].swapped && !h->by_threads) || !ws_program(h->f)) return 0;
    for (int rows = 0; rows < (h->p[0].swapped || ws_in_pairs(h) ? 1 : 2); rows++) {
        int stores = 0;
        h->by_rows = rows;
        h->tile_bytes = 0;
        if (!epilogue(h, h->loop->next, true, &stores) || !stores) continue;
        if (!rows) return (uint32_t)(slots(h) * ws_storing(h) * SLOT_ROWS * SPAN);
        if (row_slots(h)) return row_slots(h);
    }
    h->by_rows = false;
    return 0;
}

// A tile whose spans take turns in the slots waits for the copy engine, which is busy with loads for the next tiles:
// 1.5 us of the 17 of 4096 x 4096 x 128. But one stage of the ring is read and one about to be free; what the others
// bring must last until the next ones come, half a microsecond, and products of 128 columns keep shared memory busy
// themselves.
enum { ENOUGH = 1000 };                                        // clocks of multiplication

int64_t ws_whole_slots(Ws *h, int64_t room) {
    const Product *p = &h->p[0];
    int64_t more = h->tile_bytes - h->walk_bytes, n = axis_extent(p->col), each = n / 2 > 18 + n / 4 ? n / 2 : 18 + n / 4;
    int64_t clocks = axis_extent(p->row) / 64 * each * (axis_extent(p->k) * elem_bytes((Elem)p->dot->in[0]->type.elem) / 32);
    if (!h->walk_bytes || h->np > h->nloops || h->tiles > 1 || more <= 0 || more >= room) return 0;
    int stages = ws_stages_in(h, room - more);
    if (stages < (h->bands > 1 ? BAND_STAGES : 2) ||
        (stages < ws_stages_in(h, room) && (n <= 128 || (stages - 2) * clocks < ENOUGH)))
        return 0;
    h->walk_bytes += (uint32_t)more;
    return more;
}

// ---- stores --------------------------------------------------------------------------------------

int ws_slots_map(Ws *h, const Access *a, int64_t columns) {
    LaunchSlot s = {
        .kind = SLOT_TENSORMAP, .size = 128, .a = a->param, .b = h->maps, .rank = (uint8_t)a->nidx, .swizzle = SPAN};
    ws_map_dims(a, s.map_dim);
    for (int i = 0; i < a->nidx; i++) {
        int d = s.map_dim[i];
        s.box[i] = i == 0 ? (uint32_t)columns : a->aff[d].naxis ? SLOT_ROWS : 1;
    }
    return ws_add_map(h, s);
}

static void store_by_tma(Ws *h, Builder *top, Op *op) {
    Access a;
    Window w;
    Val *v = op_value(op), *in[6 + 2 * MAX_RANK];
    bool window = false;
    int size = elem_bytes((Elem)v->type.elem), n = 0;
    access_shape(h->facts, op, &a);
    Type t = {.kind = TY_BUFFER,
              .elem = v->type.elem,
              .rank = 2,
              .swizzle = SPAN,
              .order = {1, 0},
              .shape = {h->groups * SLOT_ROWS, SPAN / size}};
    Builder b = {h->f, op->parent, op, op->span};
    ValMap same = {.arena = h->f->arena};
    in[n++] = b_op(top, OP_T_buffer, 0, t, 0, NULL);
    in[0]->def->imm = h->walk_bytes / (ws_storing(h) * SLOT_ROWS * SPAN);
    in[0]->def->attr = h->walk_at;
    in[0]->name = a.p->name;
    in[n++] = op->in[0];
    for (int d = 0; d + 1 < a.nidx; d++) window |= a.aff[d].ntile > 0;
    if (window) {
        ws_window(h, &a, a.nidx - 1, false, &w);
        ws_window_start(&b, &w, axis_lo(result_rows(h)), in + n);
        n += w.n;
    }
    for (int d = window ? w.n : 0; d < a.nidx; d++) in[n++] = ws_coordinate(&b, &a.aff[d], &same);
    in[n++] = v;
    in[n++] = result_rows(h);
    in[n++] = result_columns(h);
    for (int i = 0; window && i + 1 < w.n; i++) in[n++] = w.at[i].radix ? w.at[i].radix : b_const(&b, EL_index, 1);
    Op *s = ws_effect(&b, OP_T_tma_store, n, in);
    s->nidx = op->nidx;
    s->imm = window ? ws_window_map(h, &a, &w, SPAN, SLOT_ROWS, false) : ws_slots_map(h, &a, SPAN / size);
    int64_t last = axis_extent(result_columns(h)) % (SPAN / size);
    if (h->p[0].swapped) s->attr = TO_ACROSS;
    else if (last) {
        ws_slots_map(h, &a, last);
        s->attr = TO_NARROW;
    }
    op_remove(op);
}

static void store_all(Ws *h, Builder *top, Region *r) {
    for (Op *op = r->first, *next; op; op = next) {
        next = op->next;
        if (op->code == OP_T_store && op_value(op)->type.rank >= 2) (h->by_rows ? ws_store_rows : store_by_tma)(h, top, op);
        else if (op->code == OP_T_if) for (int i = 0; i < 2; i++) store_all(h, top, op->reg[i]);
    }
}

// ---- the walk ------------------------------------------------------------------------------------

typedef struct Walk {
    Ws *h;
    Op  *program;
    Val *programs, *walkers, *end;  // end: programs, rounded up to whole clusters
    VEC(Op *) tile;                 // what both roles compute of a program's number, in order
    // of these: program % rows and program / rows, where programs with a later row take longer
    Op  *within, *beyond;
    Val *pairs, *units;             // then: of a head's rows, and of all; or runs of tiles that keep an operand (specialize/resident_b.c), of a column, and of all
} Walk;

static bool depends(const Walk *w, const Op *op) {
    if (op == w->program) return true;
    for (int i = 0; i < op->nin; i++)
        for (uint32_t k = 0; k < w->tile.n; k++) if (op->in[i]->def == w->tile.at[k]) return true;
    return false;
}

// What shares of trips are computed from (stream_k.c) is computed for each tile again: registers are worth more.
static bool is_number(const Op *op) {
    return op->nout == 1 && op->nin > 0 && op->nreg == 0 && op_has(op, 'P') && op->out[0]->type.kind == TY_TILE &&
           op->out[0]->type.rank == 0;
}

// In pairs. Where the loop's end grows with the last clause of the grid, as a causal mask has it, tiles take from one
// trip to all of them. Then a block takes two of a head at a time, the last with the first, the last but one with the
// second: all pairs are as long.
//
//     rows 5 4 3 2 1 0           for u in program .. heads * pairs by walkers {
//          | | |_| | |               for half in 0 .. 2 (1, if the row is its own partner) {
//          | |_____| |                   row = half == 0 ? rows - 1 - u % pairs : u % pairs;   head = u / pairs
//          |_________|

// How far back a loop's bounds are followed.
enum { DEPTH = 32 };

// 1: v grows with x, 0: it does not depend on it, -1: something else. `still` does not depend on it either: what is loaded
// at places that follow from it alone (where a sequence begins and ends) is the same for all x.
static int grows(const Val *v, const Val *x, const Val *still, int depth) {
    const Op *d = v->def;
    if (v == x) return 1;
    if (v == still) return 0;
    if (!d || depth == 0 || d->nin == 0) return d && d->code == OP_T_program ? -1 : 0;
    bool rising = (d->code == OP_T_binary && d->sub == OP_add) ||
                  (d->code == OP_T_fun && (d->sub == TF_min || d->sub == TF_max));
    int64_t k;
    if (d->code == OP_T_binary && d->sub == OP_mul && is_const(d->in[1], &k) && k > 0) return grows(d->in[0], x, still, depth - 1);
    if (d->code == OP_T_select && !grows(d->in[2], x, still, depth - 1))
        return grows(d->in[1], x, still, depth - 1);           // rows that a sequence does not have
    int all = 0;
    for (int i = 0; i < d->nin; i++) {
        int one = grows(d->in[i], x, still, depth - 1);
        if (one < 0 || (one && !rising && !(d->code == OP_T_binary && d->sub == OP_sub && i == 0))) return -1;
        all |= one;
    }
    return all;
}

static void find_order(Walk *w) {
    const Op *loop = w->h->loop;
    for (uint32_t i = 1; i < w->tile.n; i++) {
        Op *op = w->tile.at[i];
        if (op->code != OP_T_binary || op->in[0] != w->program->out[0]) continue;
        if (op->sub == OP_rem) w->within = op;
        if (op->sub == OP_div) w->beyond = op;
    }
    int uses = region_uses(&w->h->f->body, w->program->out[0]);
    if (!w->within || !w->beyond || uses != 2 || w->within->in[1] != w->beyond->in[1] ||
        grows(loop->in[1], w->within->out[0], w->beyond->out[0], DEPTH) != 1 ||
        grows(loop->in[0], w->within->out[0], w->beyond->out[0], DEPTH) != 0)
        w->within = w->beyond = NULL;
}

// Blocks that make one tile each, where tiles take longer the further down they are: the longest come first, of all
// heads, so that what is left for multiprocessors that are done is short.
//
//     program 0 .. heads: rows - 1     heads .. 2 * heads: rows - 2     ..
void ws_longest_first(Ws *h) {
    Fn  *f = h->f;
    Walk w = {.h = h, .program = ws_program(f)};
    for (Op *op = f->body.first; w.program && op != h->loop; op = op->next)
        if (depends(&w, op)) vec_push(f->arena, &w.tile, op);
    if (w.program) find_order(&w);
    if (!w.within) return;
    Builder b = {f, NULL, w.within, h->loop->span};
    Val *program = w.program->out[0], *rows = w.within->in[1], *one = b_const(&b, EL_index, 1);
    Val *heads = b_binary(&b, OP_div, b_op(&b, OP_T_programs, 0, type_scalar(EL_index), 0, NULL), rows);
    // below `rows` as it is, and seen to be
    Val *down = b_binary(&b, OP_rem, b_binary(&b, OP_div, program, heads), rows);
    replace_uses(&f->body, w.within->out[0], b_binary(&b, OP_sub, b_binary(&b, OP_sub, rows, one), down));
    replace_uses(&f->body, w.beyond->out[0], b_binary(&b, OP_rem, program, heads));
    op_remove(w.within);
    op_remove(w.beyond);
    f->longest_first = true;
}

// min(x, y), which is not negative.
static Val *below(Builder *b, Val *x, Val *y) {
    Val *v = b_op(b, OP_T_fun, TF_min, type_scalar(EL_index), 2, (Val *[]){x, y});
    v->def->attr = 1;
    return v;
}

enum { MAX_TURNS = 4 };

// A loop around the ops of `r` from `first` to before `end`, carrying where a role stands in the rings and the phase of what
// is loaded once a tile.
static Region *enclose(Walk *w, Op *first, const Op *end, Val *const *range, int n, Val *const *init, Val **counter,
                       Val **arg) {
    Fn *f = w->h->f;
    Val *in[3 + MAX_TURNS];
    for (int i = 0; i < 3; i++) in[i] = range[i];
    for (int i = 0; i < n; i++) in[3 + i] = init[i];
    Op *loop = op_new(f, OP_T_for, w->h->loop->span, 3 + n, in, n);
    Region *body = loop->reg[0];
    *counter = region_arg(f, body, type_scalar(EL_index));
    for (int i = 0; i < n; i++) {
        loop->out[i]->type = type_scalar(EL_i32);
        arg[i] = region_arg(f, body, type_scalar(EL_i32));
    }
    op_before(first, loop);
    for (Op *op = first, *next; op != end; op = next) {
        next = op->next;
        op_remove(op);
        op_append(body, op);
    }
    return body;
}

// Does it follow from the tile's column, and not from which of the column it is?
static bool of_column(const Walk *w, const Op *op) {
    if (op == w->within || op == w->program) return false;
    for (int i = 0; op != w->beyond && i < op->nin; i++)
        for (uint32_t k = 0; k < w->tile.n; k++) if (op->in[i]->def == w->tile.at[k] && !of_column(w, op->in[i]->def)) return false;
    return true;
}

// One role: what it does for a tile becomes the body of a loop over tiles, or of two, over pairs and the tiles of each.
static void loop_over_tiles(Walk *w, Region *r, int role) {
    Ws *h = w->h;
    Fn *f = h->f;
    Val *start[] = {h->start[role].stage, h->start[role].phase, h->turn[role]},
        *end[] = {h->end[role].stage, h->end[role].phase, NULL};
    int n = h->turn[role] ? 3 : 2;
    Op *first = r->first;
    Builder b = {f, r, first, h->loop->span};
    Val *zero = ws_i32(&b, 0), *init[] = {zero, zero, zero},
        *range[] = {w->program->out[0], w->within ? w->units : w->end, w->walkers}, *number, *arg[3];
    bool skips = h->tiles > 1 && role == CONSUMERS;
    if (skips) {
        Ring from = ws_pingpong_begin(h, &b);
        range[0] = b_binary(&b, OP_add, range[0], b_binary(&b, OP_mul, h->slice, range[2]));
        range[2] = b_binary(&b, OP_mul, range[2], b_const(&b, EL_index, h->tiles));
        init[0] = from.stage;
        init[1] = from.phase;
    }
    Region *body = enclose(w, first, r->last, range, n, init, &number, arg);
    ValMap map = {.arena = f->arena};
    Val *unit = number;
    if (w->within) {
        Builder outer = {f, body, first, h->loop->span}, top = {f, NULL, first, h->loop->span};
        Val *one = b_const(&outer, EL_index, 1), *two = b_const(&outer, EL_index, 2), *rows = w->within->in[1], *half;
        Val *pair = b_binary(&outer, OP_rem, number, w->pairs),
            *partner = b_binary(&outer, OP_sub, b_binary(&outer, OP_sub, rows, one), pair);
        Val *alone = b_binary(&outer, OP_eq, pair, partner),
            *tiles[] = {b_const(&outer, EL_index, 0),
                        b_op(&outer, OP_T_select, 0, type_scalar(EL_index), 3, (Val *[]){alone, one, two}), one};
        map_set(&map, w->beyond->out[0], b_binary(&outer, OP_div, number, w->pairs));
        Region *pairs = body;
        Val *carried[3];
        for (int i = 0; i < n; i++) carried[i] = arg[i];
        body = enclose(w, first, NULL, tiles, n, carried, &half, arg);
        Builder done = {f, pairs, NULL, h->loop->span};
        ws_effect(&done, OP_T_yield, n, pairs->last->out);
        top.r = body;
        Val *later = b_binary(&top, OP_eq, half, b_const(&top, EL_index, 0));
        Val *row = b_op(&top, OP_T_select, 0, type_scalar(EL_index), 3, (Val *[]){later, partner, pair});
        map_set(&map, w->within->out[0], below(&top, row, b_binary(&top, OP_sub, rows, one)));
    } else {
        Builder top = {f, body, first, h->loop->span};
        if (h->cluster > 1) number = ws_existing(&top, number, w->programs);              // neighbours go round together
        map_set(&map, w->program->out[0], number);
    }
    for (uint32_t i = 1; i < w->tile.n; i++)
        if (w->tile.at[i] != w->within && w->tile.at[i] != w->beyond) op_before(first, op_clone(f, w->tile.at[i], &map));
    for (uint32_t i = 0; i < w->tile.n; i++)
        for (int k = 0; k < w->tile.at[i]->nout; k++)
            replace_uses(body, w->tile.at[i]->out[k], map_get(&map, w->tile.at[i]->out[k]));
    for (int i = 0; i < n; i++) replace_uses(body, start[i], arg[i]);
    Builder last = {f, body, NULL, h->loop->span};
    if (skips) {
        Op *first_trips = h->begins[role], *trips = h->end[role].stage->def;
        Builder before = {f, trips->parent, first_trips, trips->span}, after = {f, trips->parent, trips->next, trips->span};
        Val *again = b_binary(&before, OP_ne, unit, w->program->out[0]);
        ws_pingpong_turns(h, &before, again, &after, b_binary(&after, OP_lt, b_binary(&after, OP_add, unit, w->walkers), w->end));
        Ring next = ws_pingpong_skip(h, &last, (Ring){end[0], end[1]});
        end[0] = next.stage;
        end[1] = next.phase;
    }
    if (n == 3) end[2] = b_binary(&last, OP_xor, arg[2], ws_i32(&last, 1));
    ws_effect(&last, OP_T_yield, n, end);
}

// The same in runs of tiles down a column, for which the right operand stays (specialize/resident_b.c). What follows from the column alone is the run's.
static void loop_over_runs(Walk *w, Region *r, int role) {
    Ws *h = w->h;
    Fn *f = h->f;
    bool alternate = h->tiles > 1 && role == CONSUMERS;
    Op *first = r->first;
    Builder b = {f, r, first, h->loop->span};
    Val *zero = ws_i32(&b, 0), *one = b_const(&b, EL_index, 1), *rows = w->within->in[1], *unit, *number, *arg[MAX_TURNS], *at[2];
    Ring from = alternate ? ws_pingpong_begin(h, &b) : (Ring){zero, zero};
    Val *init[] = {from.stage, from.phase, zero, zero}, *range[] = {w->program->out[0], w->units, w->walkers};
    int n = alternate ? 4 : 3;                                 // the ring, what is kept, whose turn a run's first tile is
    Region *units = enclose(w, first, r->last, range, n, init, &unit, arg);
    Builder run = {f, units, first, h->loop->span};
    Val *each = b_const(&run, EL_index, h->keep), *from_row = b_binary(&run, OP_mul, b_binary(&run, OP_rem, unit, w->pairs), each);
    Val *length = below(&run, b_binary(&run, OP_sub, rows, from_row), each);
    ValMap map = {.arena = f->arena};
    map_set(&map, w->beyond->out[0], below(&run, b_binary(&run, OP_div, unit, w->pairs), b_binary(&run, OP_sub, w->beyond->in[1], one)));
    for (uint32_t i = 1; i < w->tile.n; i++) {
        Op *op = w->tile.at[i];
        if (op == w->beyond || !of_column(w, op)) continue;
        b_insert(&run, op_clone(f, op, &map));
    }
    if (role == OTHERS) ws_once_fill(h, &run, arg[2], &map);
    if (role == CONSUMERS) ws_effect(&run, OP_T_mbar_wait, 3, (Val *[]){h->once, ws_i32(&run, 0), arg[2]});
    Val *tiles[] = {b_const(&run, EL_index, 0), length, one}, *two = b_const(&run, EL_index, h->tiles);
    if (alternate) {
        Val *mine = b_binary(&run, OP_add, h->slice, b_op(&run, OP_T_cast, 0, type_scalar(EL_index), 1, &arg[3]));
        tiles[0] = b_binary(&run, OP_rem, mine, two);
        tiles[2] = two;
    }
    Region *body = enclose(w, first, NULL, tiles, 2, arg, &number, at);
    Op *inner = body->owner;
    Builder top = {f, body, first, h->loop->span}, last = {f, body, NULL, h->loop->span}, done = {f, units, NULL, h->loop->span};
    map_set(&map, w->within->out[0], below(&top, b_binary(&top, OP_add, from_row, number), b_binary(&top, OP_sub, rows, one)));
    for (uint32_t i = 1; i < w->tile.n; i++) {
        Op *op = w->tile.at[i];
        if (op != w->within && op != w->beyond && !of_column(w, op)) op_before(first, op_clone(f, op, &map));
    }
    for (uint32_t i = 1; i < w->tile.n; i++)
        for (int k = 0; k < w->tile.at[i]->nout; k++) replace_uses(units, w->tile.at[i]->out[k], map_get(&map, w->tile.at[i]->out[k]));
    Ring end = h->end[role];
    replace_uses(body, h->start[role].stage, at[0]);
    replace_uses(body, h->start[role].phase, at[1]);
    if (alternate) {
        Op *trips = end.stage->def;
        Builder before = {f, body, trips, trips->span}, after = {f, body, trips->next, trips->span};
        Val *none = b_const(&before, EL_index, 0), *again = b_binary(&before, OP_or, b_binary(&before, OP_ne, unit, w->program->out[0]), b_binary(&before, OP_ne, number, none));
        Val *other = b_binary(&after, OP_lt, b_binary(&after, OP_add, unit, w->walkers), w->units), *below_it = b_binary(&after, OP_lt, b_binary(&after, OP_add, number, one), length);
        ws_pingpong_turns(h, &before, again, &after, b_binary(&after, OP_or, other, below_it));
        end = ws_pingpong_skip(h, &last, end);
    }
    ws_effect(&last, OP_T_yield, 2, (Val *[]){end.stage, end.phase});
    if (role == CONSUMERS) ws_effect(&done, OP_T_mbar_arrive, 2, (Val *[]){h->once_free, ws_i32(&done, 0)});
    Val *odd = b_binary(&done, OP_rem, length, b_const(&done, EL_index, 2)), *next[] = {inner->out[0], inner->out[1], b_binary(&done, OP_xor, arg[2], ws_i32(&done, 1)), NULL};
    if (alternate) next[3] = b_binary(&done, OP_xor, arg[3], b_op(&done, OP_T_cast, 0, type_scalar(EL_i32), 1, &odd));
    ws_effect(&done, OP_T_yield, n, next);
}

int walking_blocks(const CompileOptions *opt) { return opt->schedule.blocks ? opt->schedule.blocks : (int)opt->target->sms; }

void ws_walk(Ws *h, Op *roles) {
    Fn *f = h->f;
    Builder b = {f, NULL, roles, roles->span};
    Walk w = {.h = h, .program = ws_program(f)};
    store_all(h, &b, roles->reg[1]);
    w.programs = b_op(&b, OP_T_programs, 0, type_scalar(EL_index), 0, NULL);
    w.walkers = b_op(&b, OP_T_walkers, 0, type_scalar(EL_index), 0, NULL);
    w.end = w.programs;
    if (h->cluster > 1) {
        Val *c = b_const(&b, EL_index, h->cluster),
            *up = b_binary(&b, OP_add, w.programs, b_const(&b, EL_index, h->cluster - 1));
        w.end = b_binary(&b, OP_mul, b_binary(&b, OP_div, up, c), c);
    }
    for (Op *op = f->body.first; op != roles; op = op->next)
        if (depends(&w, op) || (f->dealt && w.tile.n && is_number(op))) vec_push(f->arena, &w.tile, op);
    if (h->keep) {
        w.within = h->row_tile;
        w.beyond = h->column_tile;
        Val *rows = w.within->in[1], *each = b_const(&b, EL_index, h->keep);
        w.pairs = b_binary(&b, OP_div, b_binary(&b, OP_add, rows, b_const(&b, EL_index, h->keep - 1)), each);
        w.units = below(&b, b_binary(&b, OP_mul, w.beyond->in[1], w.pairs), w.programs);
    }
    if (h->once_bytes && !h->keep && h->nloops == 1) find_order(&w);
    if (w.within && !h->keep) {
        Val *rows = w.within->in[1];
        w.pairs = b_binary(&b, OP_div, b_binary(&b, OP_add, rows, b_const(&b, EL_index, 1)), b_const(&b, EL_index, 2));
        w.units = below(&b, b_binary(&b, OP_mul, b_binary(&b, OP_div, w.programs, rows), w.pairs), w.programs);
    }
    for (int i = 0; i < roles->nreg; i++) (h->keep ? loop_over_runs : loop_over_tiles)(&w, roles->reg[i], i);
    for (uint32_t i = w.tile.n; i-- > 1;) op_remove(w.tile.at[i]);
    Builder end = {f, roles->reg[1], roles->reg[1]->last, roles->span};
    ws_effect(&end, OP_T_tma_store_wait, 0, NULL);
    f->walks = walking_blocks(h->opt);
    LExpr blocks = f->launch->programs;
    if (h->cluster > 1) {
        f->cluster = f->launch->cluster = h->cluster;
        f->walks = f->walks < h->cluster ? h->cluster : f->walks / h->cluster * h->cluster;
        blocks = launch_join_const(f->arena, L_MUL, launch_join_const(f->arena, L_CDIV, blocks, h->cluster), h->cluster);
    }
    f->launch->blocks = launch_join_const(f->arena, L_MIN, blocks, f->walks);
}
