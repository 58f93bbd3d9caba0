// Warp roles on Hopper: the loop of products becomes a producer that fills shared memory by TMA and
// consumers that run wgmma on it.
//
//     for k in K by BK {                             roles {                       // producer: one thread
//         acc += dot(a[m, k], b[k, n]);                for ... { wait empty; expect full; tma_load a, b }
//     }                                       ->     } and {                       // consumers: 1 to 3 warp groups
//     c[m, n] = acc as bf16;                           for ... { wait full; acc = wgmma a, b, acc; wait 1; release }
//                                                      c[m, n] = acc as bf16;
//                                                    }
//
// Which kernels it is for says specialize/ws_plan.c; the producer is made by specialize/producer.c, the consumers by specialize/consumer.c.
//
// Products that are only added up stay in flight across a trip, and a stage is released one trip late; of two products in a chain the
// first runs a trip ahead (specialize/softmax_overlap.c); otherwise each product is waited for. What comes before the loop and is not plain
// arithmetic on scalars (of parameters, or read from tensors that nobody writes), and all that follows it, is the consumers'. Where
// the results can leave by TMA too, blocks walk from tile to tile (specialize/persistent.c).
//
// Declines (returns false, function unchanged) when anything is not so; the reason goes to the report.
#include "lower/specialize/specialize.h"
#include "lower/simplify/simplify.h"

#include <string.h>

// ---- buffers, barriers, tensor maps --------------------------------------------------------------

static int64_t rows_of(const Operand *o) { return !o->outer ? 1 : axis_extent(o->outer) / (o->per[0] > 1 ? o->per[0] : 1); }

// In a stage of several loops: its part of it, which may be longer.
static uint32_t place_of(const Ws *h, const Operand *o) {
    uint32_t at = 0;
    for (int i = 0; i < o->place; i++) at += h->place_bytes[i] * (uint32_t)h->stages;
    return at;
}

static Val *buffer(Ws *h, Builder *b, const Operand *o, uint32_t *at) {
    uint32_t place = place_of(h, o);
    bool part = h->nloops > 1 && o->where == RING;
    Type t = {.kind = TY_BUFFER, .elem = (uint8_t)o->a.elem, .rank = 2, .swizzle = (uint8_t)o->swizzle, .order = {1, 0}};
    t.shape[0] = rows_of(o);
    t.shape[1] = o->columns;
    if (part && h->place_bytes[o->place] > o->bytes) t.shape[2] = h->place_bytes[o->place];
    if (part) at = &place;
    Val *v = b_op(b, OP_T_buffer, 0, t, 0, NULL);
    v->def->imm = o->where == RING ? h->stages : o->where == ACROSS ? ACROSS_SLOTS : 1;
    v->def->attr = *at;
    v->name = o->tile ? o->tile->name : o->a.p->name;
    *at += o->bytes * (uint32_t)v->def->imm;
    return v;
}

int ws_add_map(Ws *h, LaunchSlot s) {
    LaunchInfo *l = h->f->launch;
    LaunchSlot *grown = NEW_N(h->f->arena, LaunchSlot, l->nslots + 1);
    if (l->nslots) memcpy(grown, l->slots, sizeof *grown * (size_t)l->nslots);
    grown[l->nslots++] = s;
    l->slots = grown;
    return h->maps++;
}

void ws_map_dims(const Access *a, int8_t *dim) {
    int n = 0;
    dim[n++] = (int8_t)a->inner;
    for (int d = a->nidx - 1; d >= 0; d--) if (d != a->inner) dim[n++] = (int8_t)d;
}

// wgmma reads 10 bits of an f32's fraction and leaves the rest: always towards zero, which adds up over a network's layers. TMA rounds to the nearest.
static int tensor_map(Ws *h, const Operand *o, bool rounds) {
    if (o->window) return ws_window_map(h, &o->a, o->window, o->swizzle, axis_extent(o->outer), rounds);
    LaunchSlot s = {.kind = SLOT_TENSORMAP, .size = 128, .a = o->a.param, .b = h->maps, .rank = (uint8_t)o->a.nidx, .swizzle = (uint8_t)o->swizzle, .rounds = rounds};
    ws_map_dims(&o->a, s.map_dim);
    for (int i = 0; i < o->a.nidx; i++) {
        int d = s.map_dim[i];
        s.box[i] = i == 0 ? (uint32_t)(o->swizzle ? o->swizzle / elem_bytes(o->a.elem) : o->columns) : d == o->outer_dim ? (uint32_t)(rows_of(o) / (o->boxes ? o->boxes : ws_row_parts(h, o))) : 1;
    }
    return ws_add_map(h, s);
}

static Val *mbar(Builder *b, int stages, int arrivals, uint32_t *at) {
    Val *v = b_op(b, OP_T_mbar, 0, (Type){.kind = TY_MBAR, .shape = {arrivals}}, 0, NULL);
    v->def->imm = stages;
    v->def->attr = *at;
    *at += 8 * (uint32_t)stages;
    return v;
}

// ---- the ring's position -------------------------------------------------------------------------

Val *ws_i32(Builder *b, int64_t v) { return b_const(b, EL_i32, v); }

// As many stages further as the role goes from trip to trip.
Ring ws_advance(Ws *h, Builder *b, Ring r) {
    bool one = h->every == 1;
    Val *next = b_binary(b, OP_add, r.stage, ws_i32(b, h->every)), *wrap = b_binary(b, one ? OP_eq : OP_ge, next, ws_i32(b, h->stages));
    Val *flip = b_binary(b, OP_xor, r.phase, ws_i32(b, 1)), *first = one ? ws_i32(b, 0) : b_binary(b, OP_sub, next, ws_i32(b, h->stages));
    return (Ring){b_op(b, OP_T_select, 0, type_scalar(EL_i32), 3, (Val *[]){wrap, first, next}),
                  b_op(b, OP_T_select, 0, type_scalar(EL_i32), 3, (Val *[]){wrap, flip, r.phase})};
}

Op *ws_effect(Builder *b, OpCode code, int n, Val *const *in) {
    Op *op = op_new(b->f, code, b->span, n, in, 0);
    b_insert(b, op);
    return op;
}

// A `for` like the loop, carrying `n` values and the ring's position, of the producer (0) or the consumers (1).
Op *ws_ring_loop(Ws *h, Builder *b, int role, int n, Val *const *init, const ValMap *map, Builder *inner, Ring *ring) {
    Val *in[5 + MAX_CARRIED + MAX_AHEAD];
    for (int i = 0; i < 3; i++) in[i] = map_get(map, h->loop->in[i]);
    for (int i = 0; i < n; i++) in[3 + i] = init[i];
    bool first = h->at == 0 && !h->halfway;
    if (first) h->start[role] = h->nest ? h->within[role] : role == CONSUMERS ? ws_first(h, b) : (Ring){ws_i32(b, 0), ws_i32(b, 0)};
    Ring from = first ? h->start[role] : h->end[role];
    in[3 + n] = from.stage;
    in[4 + n] = from.phase;
    Op *loop = op_new(h->f, OP_T_for, h->loop->span, 5 + n, in, n + 2);
    if (first) h->begins[role] = loop;
    for (int i = 0; i < n + 2; i++) loop->out[i]->type = in[3 + i]->type;
    h->end[role] = (Ring){loop->out[n], loop->out[n + 1]};
    loop->str = h->loop->str;
    b_insert(b, loop);
    *inner = (Builder){h->f, loop->reg[0], NULL, h->loop->span};
    region_arg(h->f, loop->reg[0], type_scalar(EL_index))->name = h->loop->reg[0]->args.at[0]->name;
    for (int i = 0; i < n; i++) region_arg(h->f, loop->reg[0], in[3 + i]->type)->name = init[i]->name;
    ring->stage = region_arg(h->f, loop->reg[0], type_scalar(EL_i32));
    ring->phase = region_arg(h->f, loop->reg[0], type_scalar(EL_i32));
    return loop;
}

// ---- putting it together -------------------------------------------------------------------------

bool ws_of_both(const Ws *h, const Op *op) {
    for (int i = 0; i < op->nout; i++) if (op->out[i]->type.kind == TY_TILE && (op->out[i]->type.rank || !ws_computable(h, op->out[i]))) return false;
    for (int i = 0; i < op->nin; i++) if (op->in[i]->type.kind == TY_TILE && !ws_computable(h, op->in[i])) return false;
    return op->nout > 0 && ws_repeatable(h, op);
}

// The first group begins; it waits for the last turn that is passed to it, which leaves the barriers as they were.
static void take_turns(Ws *h, Region *r) {
    Builder begin = {h->f, r, r->first, h->loop->span}, end = {h->f, r, r->last, h->loop->span};
    Op *turn[] = {ws_effect(&begin, OP_T_turn_pass, 0, NULL), ws_effect(&end, OP_T_turn_wait, 0, NULL)};
    for (int i = 0; i < 2; i++) {
        turn[i]->imm = 1;
        if (h->bands > 1) turn[i]->attr = h->bands;
    }
}

static uint32_t aligned(uint32_t at) { return (at + 8 * SPAN - 1) & ~(uint32_t)(8 * SPAN - 1); }

// What is in shared memory, in order: operands, low parts, a tile that is read behind the loop, slots of walking blocks, barriers. How many bytes
// that is.
static uint32_t lay_out(Ws *h, Builder *b) {
    uint32_t at = h->nloops > 1 ? (h->stage_bytes[0] - h->low_bytes) * (uint32_t)h->stages : 0;
    for (int swizzle = SPAN; swizzle >= 32; swizzle /= 2)       // wider ones first: a swizzle repeats after 8 rows, and must begin there
        for (int i = 0; i < 2 * h->np + h->nsources; i++) {
            Operand *o = i < 2 * h->np ? &h->p[i / 2].op[i % 2] : &h->source[i - 2 * h->np];
            if (o->where == REGISTERS || o->same || o->swizzle != swizzle) continue;
            o->buffer = buffer(h, b, o, &at);
            bool rounds = i < 2 * h->np && o->a.elem == EL_f32 && !o->seen && !h->low_bytes;
            if (o->load && !o->gathered) o->map = tensor_map(h, o, rounds);
            if (o->ends == BY_ROWS) ws_last_map(h, o, tensor_map(h, o, rounds));
            bool each_trip = i < 2 * h->np && o->outer == h->p[i / 2].k;
            if (o->window && !each_trip) ws_window_start(b, o->window, axis_lo(o->outer), o->start);
        }
    for (int i = 0; i < h->nvectors; i++) {
        h->vector[i].buffer = buffer(h, b, &h->vector[i], &at);
        h->vector[i].map = tensor_map(h, &h->vector[i], false);
    }
    ws_low_buffers(h, b, &at);
    if (h->behind_bytes) {
        at = aligned(at);
        h->behind.buffer = buffer(h, b, &h->behind, &at);
        h->behind.map = tensor_map(h, &h->behind, false);
        if (h->behind.window) ws_window_start(b, h->behind.window, axis_lo(h->behind.outer), h->behind.start);
    }
    if (h->walk_bytes) at = aligned(at);
    h->walk_at = at;
    at += h->walk_bytes;
    if (h->added_bytes) {
        at = aligned(at);
        ws_added(h, b, at);
        at += h->added_bytes;
    }
    static const int arrivals[] = {[BY_GROUPS] = 1, [BY_WARPS] = 4, [BY_THREADS] = 128};
    for (int i = 0; i < h->rings; i++) {
        h->full[i] = mbar(b, h->stages, ws_gathered_bytes(h, i) ? 1 + GATHER_THREADS : h->fixed_bytes ? 2 : 1, &at);
        h->empty[i] = mbar(b, h->stages, h->groups * h->bands * h->cluster * arrivals[ws_release_by(h)], &at);
    }
    ws_low_barriers(h, b, &at);
    if (h->once_bytes) h->once = mbar(b, 1, 1, &at);
    if (h->once_bytes && h->walk_bytes) h->once_free = mbar(b, 1, h->groups * h->bands * (h->keep ? h->tiles : arrivals[BY_WARPS]), &at);
    if (h->behind_bytes) h->behind_full = mbar(b, h->tiles, 1, &at);
    if (h->behind_bytes && h->walk_bytes) h->behind_free = mbar(b, 1, h->groups, &at);
    return at;
}

// The op whose regions are the roles; how many warps, threads and blocks there are.
static Op *roles_new(Ws *h, uint32_t bytes) {
    Fn *f = h->f;
    int groups = ws_storing(h) * h->slices;
    f->groups = h->groups;
    f->warps = 4 * h->groups;
    f->tiles = h->tiles;
    f->bands = h->bands;
    f->buffer_bytes = bytes;
    f->launch->threads = groups == 1 && !ws_gathered_bytes(h, -1) ? 128 + 32 * (h->low ? 1 + ws_preparing(h) : h->fixed_bytes ? 2 : 1) : 128 * (groups + 1);
    f->launch->blocks = f->launch->programs;
    Op *roles = op_new(f, OP_T_roles, h->loop->span, 0, NULL, 0);
    roles->imm = groups;
    if (groups > h->groups) roles->attr = groups / h->groups;
    return roles;
}

// The consumers' region: their part of the prologue, the loop, and all that follows it.
static void consume(Ws *h, Op *roles) {
    Region *r = roles->reg[1];
    for (Op *op = h->f->body.first, *next; op != roles; op = next) {
        next = op->next;
        if (ws_is_ring_load(h, op)) { op_remove(op); continue; }
        if (ws_of_both(h, op) || op->code == OP_T_buffer || op->code == OP_T_mbar) continue;
        op_remove(op);
        op_append(r, op);
    }
    ws_consumers(h, r);
    if (h->behind_bytes) ws_behind_take(h);
    Builder through = {h->f, r, NULL, roles->span};
    if (h->added_bytes) ws_effect(&through, OP_T_tma_store_wait, 0, NULL);
    if (h->nloops == 1) op_remove(h->loop);
    for (int i = 0; i < h->nloops && h->nloops > 1; i++) op_remove(h->loops[i]);
    for (Op *op = roles->next, *next; op; op = next) {
        next = op->next;
        op_remove(op);
        op_append(r, op);
    }
    Builder end = {h->f, r, NULL, roles->span};
    if (h->behind_bytes) ws_behind_release(h, &end);
    ws_effect(&end, OP_T_yield, 0, NULL);
    if (h->bands > 1) ws_bands_apart(h, r);
    if (h->fixed_bytes) ws_wait_late(h, r);
}

// Of a consumer's thread, beside its sums, for what is loaded before the loop.
static Spare spare_registers(const Ws *h) {
    enum { MOST = 48, WITH_SUMS = 144, ADDRESSES = 24, ALONE = 255, OF_TWO = 240, OF_THREE = 160 };
    int64_t sums = 0, all = h->bands > 1 ? OF_THREE : h->groups * h->tiles > 1 ? OF_TWO : ALONE;
    for (int i = 0; i < h->np; i++) if (!h->p[i].goes_on) sums += axis_extent(h->p[i].row) * axis_extent(h->p[i].col) * (1 + h->p[i].promoted + h->f->by_twos) / (128 * h->groups * h->bands);
    bool plain = !h->chained && !h->nest;
    return (Spare){!plain || sums > WITH_SUMS ? 0 : (int)(sums + MOST > WITH_SUMS ? WITH_SUMS - sums : MOST), (int)(all - ADDRESSES - sums), plain ? h->p[0].col : NULL};
}

bool specialize(Fn *f, const CompileOptions *opt) {
    Ws h = {.f = f, .opt = opt, .facts = facts_new(f), .slices = 1, .every = 1};
    if (!opt->target->has_wgmma || !f->fast) return false;
    Op *made[MAX_LOOPS];
    int lone = ws_lone_products(f, made);
    for (int i = 0; i < lone; i++) made[i] = ws_into_loop(f, made[i]);
    for (int i = 0; i < lone; i++) ws_sum_begun(f, made[i]);
    ws_keep(&h);
    if (h.keep) h.facts = facts_new(f);                        // programs have other places
    if (!ws_applies(&h)) {
        for (int i = 0; i < lone; i++) ws_out_of_loop(f, made[i]);
        return false;
    }

    f->kept_right = ws_keeps(&h) ? h.keep : 0;
    Op *top = h.nest ? h.nest : h.loops[0];
    load_before(f, h.loop, 128 * h.groups * h.bands, spare_registers(&h), h.behind_bytes ? h.behind.load : NULL);
    ws_loops_together(&h);
    for (int i = 0; i < h.np; i++)
        for (int k = 0; k < 2; k++) f->phased |= h.p[i].op[k].window && h.p[i].op[k].window->phased;
    if (h.chained && !h.walk_bytes) ws_longest_first(&h);
    if (h.slices > 1) ws_slices_join(&h);
    ws_seen_apart(&h);
    ws_ends(&h);
    Builder b = {f, NULL, top, h.loop->span};
    ws_turn(&h, &b);
    Op *roles = roles_new(&h, lay_out(&h, &b));
    op_before(top, roles);
    if (h.cluster > 1) ws_common(&h, roles->reg[0]);
    ws_producer(&h, roles->reg[0], OTHERS);
    if (h.fixed_bytes) ws_producer(&h, op_add_region(f, roles), FIXED);
    if (h.low) ws_low_region(&h, op_add_region(f, roles));
    consume(&h, roles);
    if (h.walk_bytes) ws_walk(&h, roles);
    if (h.chained ? h.turns : ws_twos_turns(&h)) take_turns(&h, roles->reg[1]);
    if (ws_gathered_bytes(&h, -1) || ws_any_boxes(&h)) remove_dead(f);      // rows' numbers that the producer alone wants
    return true;
}
