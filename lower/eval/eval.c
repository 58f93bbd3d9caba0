// The evaluator: what tile IR means. Runs every program of the grid on host memory, whole tiles at a
// time; each op's meaning is the function eval_<op>, in these files and nowhere else.
//
// A run plans first, then walks. The plan mirrors the regions: an array of steps a block, each with the
// op's function, the space that it walks, and the values whose last use it is, so that their memory is
// used again at once (tiles of a small working set stay in the cache). Values are slots by number; tiles
// are counted references, so a loop's carried values move by exchanging pointers. A block is left in one
// of four ways (Flow); its terminator's operands are then in e->carried, whoever they are for:
//
//     for:  FLOW_END, FLOW_CONTINUE of depth 0    next trip with e->carried
//           FLOW_BREAK of depth 0                 results are e->carried
//           depth > 0                             an inner loop passes it on, one less
//
// Dead lanes hold junk from their birth (loads, index tiles), drawn from EvalOptions.junk, and whatever
// becomes of it; nothing that can be observed reads them. Two runs with different seeds must agree.
//
// With EvalOptions.places they are what they are in machine code, so that the tile IR can be checked for what the pass
// `lanes` promises, from that pass on: an axis of 3 lanes has 4 places, of which one is dead; loads leave 0 in dead lanes,
// indices go on; and reductions count all places, as they do in registers. A select that is missing then changes a result.
//
// Bounds (eval/bound.c) ride beside the values when somebody asks for them: an f64 tile of the same axes
// that says how far another correct implementation may be, to first order; none means exactly equal.

#include "lang/c_text.h"
#include "lang/limits.h"
#include "lower/eval/eval.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

// ---- faults and notes ----------------------------------------------------------------------------

static char *words(const char *fmt, va_list args) {
    va_list again;
    va_copy(again, args);
    int n = c_vsnprintf(NULL, 0, fmt, args);
    char *p = heap_room((size_t)n + 1);
    c_vsnprintf(p, (size_t)n + 1, fmt, again);
    va_end(again);
    return p;
}

void eval_fault(Eval *e, Span at, const char *fmt, ...) {
    e->flow = FLOW_FAULT;
    if (e->fault) return;
    va_list args;
    va_start(args, fmt);
    e->fault = words(fmt, args);
    va_end(args);
    e->fault_at = at;
}

void eval_note(Eval *e, Span at, const char *fmt, ...) {
    enum { MAX_NOTES = 20 };
    EvalReport *r = e->opt->report;
    if (!r) return;
    int lines = 0;
    for (size_t i = 0; i < r->text.n; i++) lines += r->text.p[i] == '\n';
    if (lines >= MAX_NOTES) return;
    va_list args;
    va_start(args, fmt);
    char *p = words(fmt, args);
    va_end(args);
    LineCol where = at.hi ? span_where(e->f->session, at.lo) : (LineCol){0};
    if (where.src) buf_printf(&r->text, "%s:%u:%u: ", where.src->path, where.line, where.col);
    buf_printf(&r->text, "%s\n", p);
    heap_free(p);
}

// ---- tiles ---------------------------------------------------------------------------------------

int type_bytes(const Type *t) {
    return t->ptr ? 8 : elem_bytes((Elem)t->elem);
}

Tile *tile_new(Eval *e, int64_t bytes) {
    _Static_assert(offsetof(Tile, data) == 64, "lanes start a cache line");
    uint32_t cls = 6;
    while ((INT64_C(1) << cls) < bytes) cls++;
    Tile *t = e->pool[cls];
    if (t) {
        e->pool[cls] = t->next;
    } else {
        t = heap_aligned(64, 64 + (size_t)(INT64_C(1) << cls));
    }
    t->refs = 1;
    t->cls = cls;
    return t;
}

void tile_drop(Eval *e, Tile *t) {
    if (!t || --t->refs) return;
    t->next = e->pool[t->cls];
    e->pool[t->cls] = t;
}

Tile *tile_keep(Tile *t) {
    if (t) t->refs++;
    return t;
}

void slot_clear(Eval *e, Slot *s) {
    tile_drop(e, s->t);
    tile_drop(e, s->b);
    s->t = s->b = NULL;
}

void slot_set(Eval *e, const Val *v, const Slot *from) {
    Slot *s = slot_of(e, v);
    Slot  old = *s;
    *s = *from;
    slot_clear(e, &old);
}

Slot slot_keep(const Slot *s) {
    tile_keep(s->t);
    tile_keep(s->b);
    return *s;
}

void slot_share(Eval *e, const Val *to, const Val *from) {
    Slot s = slot_keep(slot_of(e, from));
    slot_set(e, to, &s);
}

void *out_tile(Eval *e, const Op *op) {
    const Type *t = &op->out[0]->type;
    Slot s = {.t = tile_new(e, type_lanes(t) * type_bytes(t))};
    slot_set(e, op->out[0], &s);
    return s.t->data;
}

double *out_bound(Eval *e, const Op *op) {
    Slot *s = slot_of(e, op->out[0]);
    tile_drop(e, s->b);
    s->b = tile_new(e, type_lanes(&op->out[0]->type) * 8);
    return (double *)s->b->data;
}

int64_t scalar_int(Eval *e, const Val *v) {
    return lane_imm(&v->type, lanes_of(e, v), 0);
}

void live_counts(Eval *e, const Type *t, int64_t *live) {
    for (int i = 0; i < t->rank; i++) live[i] = slot_of(e, t->axis[i])->live;
}

bool all_live(Eval *e, const Type *t) {
    for (int i = 0; i < t->rank; i++)
        if (slot_of(e, t->axis[i])->live != axis_extent(t->axis[i])) return false;
    return true;
}

// ---- junk ----------------------------------------------------------------------------------------

static uint64_t mix(uint64_t x) {
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

enum { JUNK = 1021 };                                         // a prime: rows of a tile do not begin alike

// NaN, infinities, huge and random numbers; random bits for integers.
static void junk_make(const Type *t, uint64_t seed, unsigned char *to) {
    static const int64_t special[4] = {INT64_C(0x7ff8000000000000), INT64_C(0x7ff0000000000000),
                                       (int64_t)UINT64_C(0xfff0000000000000), INT64_C(0x47efffffe0000000)};
    bool real = !t->ptr && elem_is_float((Elem)t->elem);
    size_t size = (size_t)type_bytes(t);
    unsigned char odd[4 * 8];
    for (int i = 0; i < 4 && real; i++) lane_store(t, odd, i, special[i]);
    for (size_t i = 0; i < JUNK; i++) {
        uint64_t h = mix(seed + i);
        if (real && (h & 7) < 4) memcpy(to + i * size, odd + (h & 3) * size, size);
        else if (!t->ptr && t->elem == EL_bool) to[i] = h >> 8 & 1;
        else                                    memcpy(to + i * size, &h, size);
    }
}

// Lane i of a value holds number i of the junk of its type, from where its salt says.
void junk_lanes(Eval *e, const Type *t, void *data, int64_t from, int64_t n, uint64_t salt) {
    int64_t size = type_bytes(t);
    uint64_t seed = mix(e->opt->junk + UINT64_C(0x9e3779b97f4a7c15));
    unsigned char **junk = &e->junk[t->ptr ? EL_COUNT : t->elem];
    if (!*junk) {
        *junk = heap_alloc((size_t)(JUNK * size));             // not of the arena, which operations reset
        junk_make(t, seed, *junk);
    }
    int64_t at = (int64_t)((mix(seed + salt * 31) + (uint64_t)from) % JUNK);
    for (unsigned char *to = (unsigned char *)data + from * size; n > 0; at = 0) {
        int64_t some = n < JUNK - at ? n : JUNK - at;
        memcpy(to, *junk + at * size, (size_t)(some * size));
        to += some * size;
        n -= some;
    }
}

static bool has_neighbours(const Type *t) {                   // a row that lies in its places as it does in memory
    for (int i = 0; i < t->rank; i++) if (t->axis[i]->def->nin > 2) return true;
    return false;
}

void dead_loaded(Eval *e, const Op *load, void *data, int64_t from, int64_t n) {
    const Type *t = &load->out[0]->type;
    bool zeros = e->opt->places && !(load->flags & HAS_ELSE) && !has_neighbours(t);
    if (zeros) memset((unsigned char *)data + from * type_bytes(t), 0, (size_t)(n * type_bytes(t)));
    else junk_lanes(e, t, data, from, n, load->out[0]->id);
}

// ---- leaves --------------------------------------------------------------------------------------

static void set_scalar(Eval *e, const Op *op, int64_t imm) {
    void *p = out_tile(e, op);
    lane_store(&op->out[0]->type, p, 0, imm);
}

void eval_const(Eval *e, const Step *s)   { set_scalar(e, s->op, s->op->imm); }
void eval_dim(Eval *e, const Step *s)     { set_scalar(e, s->op, e->dims[s->op->imm]); }
void eval_program(Eval *e, const Step *s)  { set_scalar(e, s->op, e->program); }
void eval_programs(Eval *e, const Step *s) { set_scalar(e, s->op, e->programs); }
void eval_slice(Eval *e, const Step *s)    { set_scalar(e, s->op, e->slice); }
void eval_walkers(Eval *e, const Step *s)  { set_scalar(e, s->op, e->walkers); }
void eval_tally(Eval *e, const Step *s)     { (void)e; (void)s; }                     // its atomics are done at once
void eval_tally_end(Eval *e, const Step *s) { (void)e; (void)s; }
void eval_tensor(Eval *e, const Step *s)  { slot_of(e, s->op->out[0])->lo = s->op->imm; }

void eval_scalar(Eval *e, const Step *s) {
    const EvalArg *arg = &e->args[s->op->imm];
    const Type    *t = &s->op->out[0]->type;
    int64_t        imm = arg->ival;
    if (t->ptr) imm = arg->tensor.data ? (int64_t)(uintptr_t)arg->tensor.data : arg->ival;
    else if (elem_is_float((Elem)t->elem)) memcpy(&imm, &arg->fval, sizeof imm);
    set_scalar(e, s->op, imm);
}

void eval_extent(Eval *e, const Step *s) {
    set_scalar(e, s->op, e->args[slot_of(e, s->op->in[0])->lo].tensor.dims[s->op->imm]);
}

void eval_axis(Eval *e, const Step *s) {
    const Op *op = s->op;
    Slot     *a = slot_of(e, op->out[0]);
    int64_t   lo = scalar_int(e, op->in[0]), hi = scalar_int(e, op->in[1]);
    a->lo = lo;
    int64_t   lanes = e->extent ? e->extent[op->out[0]->id] : op->imm;
    a->live = hi <= lo ? 0 : hi - lo < lanes ? hi - lo : lanes;
    if (!(op->flags & AXIS_FULL)) return;
    if (a->live != lanes)
        eval_fault(e, op->span, "an axis said to be full has %lld live elements of %lld", (long long)a->live,
                   (long long)lanes);
}

void eval_index(Eval *e, const Step *s) {
    const Op *op = s->op;
    Slot     *a = slot_of(e, op->in[0]);
    int64_t  *p = out_tile(e, op);
    int64_t   lanes = axis_extent(op->in[0]), n = e->opt->places ? lanes : a->live;
    for (int64_t i = 0; i < n; i++) p[i] = a->lo + i;
    junk_lanes(e, &op->out[0]->type, p, n, lanes - n, op->out[0]->id);
}

void eval_live(Eval *e, const Step *s) {
    const Op *op = s->op;
    int64_t   live = slot_of(e, op->in[0])->live;
    uint8_t  *p = out_tile(e, op);
    memset(p, 1, (size_t)live);
    memset(p + live, 0, (size_t)(axis_extent(op->in[0]) - live));
}

void eval_assert(Eval *e, const Step *s) {
    const Op *op = s->op;
    const uint8_t *p = lanes_of(e, op->in[0]);
    int64_t live[MAX_AXES];
    live_counts(e, &op->in[0]->type, live);
    Rows r;
    for (rows_start(&r, s->space); rows_next(&r);) {
        bool dead = false;
        for (int i = 0; i + 1 < s->space->rank; i++) dead |= r.at[i] >= live[i];
        int64_t n = dead ? 0 : s->space->rank ? live[s->space->rank - 1] : 1;
        for (int64_t i = 0; i < n; i++)
            if (!p[r.out + i]) {
                eval_fault(e, op->span, "assertion failed%s%.*s", op->str.n ? ": " : "", (int)op->str.n,
                           op->str.n ? op->str.p : "");
                return;
            }
    }
}

// ---- control -------------------------------------------------------------------------------------

static void take_carried(Eval *e, const Op *op, int from) {
    for (int i = 0; i < e->ncarried; i++) slot_clear(e, &e->carried[i]);
    e->ncarried = 0;
    int n = op->nin - from;
    if (n > e->cap_carried) {
        e->carried = heap_resize(e->carried, sizeof(Slot) * (size_t)n);
        e->cap_carried = n;
    }
    for (int i = 0; i < n; i++) e->carried[i] = slot_keep(slot_of(e, op->in[from + i]));
    e->ncarried = n;
}

static void give_carried(Eval *e, Val *const *to) {     // to[i] takes over e->carried[i]
    for (int i = 0; i < e->ncarried; i++) slot_set(e, to[i], &e->carried[i]);
    e->ncarried = 0;
}

enum { STOP = -1 };       // depth of the break that a false condition is

void eval_yield(Eval *e, const Step *s) { take_carried(e, s->op, 0); }

void eval_condition(Eval *e, const Step *s) {
    take_carried(e, s->op, 1);
    if (scalar_int(e, s->op->in[0])) return;
    e->flow = FLOW_BREAK;
    e->depth = STOP;
}

static void leave(Eval *e, const Step *s, Flow flow) {
    take_carried(e, s->op, 0);
    e->flow = flow;
    e->depth = s->op->imm;
}

void eval_break(Eval *e, const Step *s)    { leave(e, s, FLOW_BREAK); }
void eval_continue(Eval *e, const Step *s) { leave(e, s, FLOW_CONTINUE); }

static Flow run_step(Eval *e, const Step *s) {
    if (!e->async || readable(e, s->op)) s->run(e, s);
    for (int i = 0; i < s->ndies; i++) slot_clear(e, &e->slot[s->dies[i]]);
    return e->flow;
}

Flow run_block(Eval *e, const Block *b) {
    e->flow = FLOW_END;
    for (int i = 0; i < b->n; i++)
        if (run_step(e, &b->steps[i]) != FLOW_END) break;
    for (int i = 0; i < b->ndefines; i++) slot_clear(e, &e->slot[b->defines[i]]);
    return e->flow;
}

void eval_if(Eval *e, const Step *s) {
    bool cond = scalar_int(e, s->op->in[0]) != 0;
    if (run_block(e, s->block[cond ? 0 : 1]) == FLOW_END) give_carried(e, s->op->out);
}

// After a trip's body: true when the loop goes on. When it does not, the flow is what the loop itself hands on, and
// *done tells that its results are in e->carried.
static bool goes_on(Eval *e, bool *done) {
    *done = false;
    if (e->flow == FLOW_END) return true;
    if (e->flow == FLOW_FAULT) return false;
    if (e->depth > 0) { e->depth--; return false; }
    bool again = e->flow == FLOW_CONTINUE;
    e->flow = FLOW_END;
    *done = !again;
    return again;
}

static void start_carried(Eval *e, const Op *op, int from) { take_carried(e, op, from); }

static void many_trips(Eval *e, const Op *op, int64_t trips) {
    Buf words = {0};
    limit_words(LIMIT_trips, trips, &words);
    eval_fault(e, op->span, "a loop of %s", words.p);
    buf_free(&words);
}

// Before the first one, where all will be made: nothing in the loop leaves it.
static bool few_trips(Eval *e, const Op *op, int64_t lo, int64_t hi, int64_t step) {
    uint64_t trips = lo < hi ? ((uint64_t)hi - (uint64_t)lo - 1) / (uint64_t)step + 1 : 0;
    if (trips <= (uint64_t)limit_of(LIMIT_trips)) return true;
    for (const Op *in = op_walk(op->reg[0], NULL); in; in = op_walk(op->reg[0], in))
        if (in->code == OP_T_break && op_target(in) == op) return true;
    many_trips(e, op, trips < INT64_MAX ? (int64_t)trips : INT64_MAX);
    return false;
}

void eval_for(Eval *e, const Step *s) {
    const Op *op = s->op;
    Region   *r = op->reg[0];
    int64_t   i = scalar_int(e, op->in[0]), hi = scalar_int(e, op->in[1]), step = scalar_int(e, op->in[2]);
    if (step <= 0) { eval_fault(e, op->span, "the step of a loop is %lld", (long long)step); return; }
    if (!few_trips(e, op, i, hi, step)) return;
    start_carried(e, op, 3);
    bool done;
    int64_t left = limit_of(LIMIT_trips);
    while (i < hi) {
        if (left-- == 0) { many_trips(e, op, limit_of(LIMIT_trips)); return; }
        give_carried(e, r->args.at + 1);
        Slot counter = {.t = tile_new(e, 8)};
        lane_store(&r->args.at[0]->type, counter.t->data, 0, i);
        slot_set(e, r->args.at[0], &counter);
        run_block(e, s->block[0]);
        if (!goes_on(e, &done)) {
            if (!done) return;
            break;
        }
        if (__builtin_add_overflow(i, step, &i)) break;
    }
    give_carried(e, op->out);
}

void eval_while(Eval *e, const Step *s) {
    const Op *op = s->op;
    start_carried(e, op, 0);
    bool done;
    for (int64_t left = limit_of(LIMIT_trips);; left--) {
        if (left == 0) { many_trips(e, op, limit_of(LIMIT_trips)); return; }
        give_carried(e, op->reg[0]->args.at);
        if (run_block(e, s->block[0]) != FLOW_END) {
            if (e->flow != FLOW_BREAK || e->depth != STOP) return;
            e->flow = FLOW_END;
            break;
        }
        give_carried(e, op->reg[1]->args.at);
        run_block(e, s->block[1]);
        if (!goes_on(e, &done)) {
            if (!done) return;
            break;
        }
    }
    give_carried(e, op->out);
}

// The loop before it was whole.
void eval_merge(Eval *e, const Step *s) {
    for (int i = 0; i < s->op->nout; i++) slot_share(e, s->op->out[i], s->op->in[i]);
}

// ---- the plan ------------------------------------------------------------------------------------

static EvalFn *const table[OP_T_COUNT] = {
#define X(name, ...) [OP_T_##name] = eval_##name,
    TILE_OPS(X)
#undef X
};

typedef struct Plan {
    Eval   *e;
    int    *last;                 // by id: step of its block that uses it last
    const Region **home;          // by id: the region that defines it
    bool   *loaded;               // by id: came from memory, directly or by way of others
} Plan;

static bool elementwise(OpCode c) {
    return c == OP_T_unary || c == OP_T_binary || c == OP_T_select || c == OP_T_cast || c == OP_T_fun || c == OP_T_splat;
}

static Space *space_of(Eval *e, const Op *op) {
    bool rows = op->code == OP_T_row_store,
         store = rows || op->code == OP_T_store || op->code == OP_T_ptrstore || op->code == OP_T_atomic;
    bool whole = op->code == OP_T_assert || op->code == OP_T_print;
    bool load = op->code == OP_T_load || op->code == OP_T_ptrload;
    bool rename = op->code == OP_T_rename;
    if ((!store && !whole && !load && !rename && !elementwise((OpCode)op->code)) || (whole && !op->nin)) return NULL;
    const Type *in[MAX_FEED];
    Type over = store ? op_places(op) : whole ? op->in[0]->type : op->out[0]->type, renamed = over;
    int  first = op->in[0]->type.kind == TY_TENSOR, n = rename ? 1 : rows ? op->nidx + 1 : op->nin - first;
    for (int i = 0; i < n; i++) in[i] = &op->in[first + i]->type;
    if (rename) {                                             // the axes stay where they are in memory
        renamed = op->in[0]->type;
        renamed.axis[type_axis(&renamed, op->in[1])] = op->in[2];
        in[0] = &renamed;
    }
    Space *s = NEW(e->arena, Space);
    space_make(s, &over, n, in, !store && !whole && !load);
    return s;
}

static void note_loaded(Plan *p, const Op *op) {
    bool from = op_has(op, 'R');
    for (int i = 0; i < op->nin; i++) from |= op->in[i]->type.kind == TY_TILE && p->loaded[op->in[i]->id];
    for (int i = 0; i < op->nout; i++) p->loaded[op->out[i]->id] |= from;
    for (int k = 0; k < op->nreg; k++)
        for (uint32_t i = 0; i < op->reg[k]->args.n; i++) p->loaded[op->reg[k]->args.at[i]->id] |= from;
    if (!op_has(op, 'T') || !from) return;
    // what a terminator gives goes to its loop or if
    for (const Region *r = op->parent; r && r->owner; r = r->owner->parent) {
        for (int i = 0; i < r->owner->nout; i++) p->loaded[r->owner->out[i]->id] = true;
        for (int k = 0; k < r->owner->nreg; k++)
            for (uint32_t i = 0; i < r->owner->reg[k]->args.n; i++) p->loaded[r->owner->reg[k]->args.at[i]->id] = true;
        if (op->code == OP_T_yield || op->code == OP_T_condition) break;
    }
}

static void plan_homes(Plan *p, const Region *r) {
    for (uint32_t i = 0; i < r->args.n; i++) p->home[r->args.at[i]->id] = r;
    for (const Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nout; i++) p->home[op->out[i]->id] = r;
        for (int k = 0; k < op->nreg; k++) plan_homes(p, op->reg[k]);
    }
}

// Step `at` of region `r`, or something inside it, uses v.
static void uses_in(Plan *p, const Region *r, const Op *op, int at) {
    for (int i = 0; i < op->nin; i++)
        if (p->home[op->in[i]->id] == r) p->last[op->in[i]->id] = at;
    for (int k = 0; k < op->nreg; k++)
        for (const Op *in = op_walk(op->reg[k], NULL); in; in = op_walk(op->reg[k], in))
            for (int i = 0; i < in->nin; i++)
                if (p->home[in->in[i]->id] == r) p->last[in->in[i]->id] = at;
}

static Block *plan_block(Plan *p, const Region *r) {
    Arena *a = p->e->arena;
    Block *b = NEW(a, Block);
    b->region = r;
    for (const Op *op = r->first; op; op = op->next) b->n++;
    b->steps = NEW_N(a, Step, b->n);
    VEC(uint32_t) defines = {0};
    for (uint32_t i = 0; i < r->args.n; i++) {
        p->last[r->args.at[i]->id] = -1;
        vec_push(a, &defines, r->args.at[i]->id);
    }
    int at = 0;
    for (const Op *op = r->first; op; op = op->next, at++) {
        Step *s = &b->steps[at];
        s->op = op;
        s->run = table[op->code];
        s->space = space_of(p->e, op);
        for (int i = 1; i <= op->nidx; i++) s->gather |= op->code == OP_T_load && p->loaded[op->in[i]->id];
        for (int i = 0; i < op->nout; i++) {
            p->last[op->out[i]->id] = at;
            vec_push(a, &defines, op->out[i]->id);
        }
        uses_in(p, r, op, at);
        for (int k = 0; k < op->nreg; k++) s->block[k] = plan_block(p, op->reg[k]);
    }
    for (uint32_t i = 0; i < defines.n; i++)
        if (p->last[defines.at[i]] >= 0) b->steps[p->last[defines.at[i]]].ndies++;
    for (int i = 0; i < b->n; i++) {
        b->steps[i].dies = NEW_N(a, uint32_t, b->steps[i].ndies);
        b->steps[i].ndies = 0;
    }
    for (uint32_t i = 0; i < defines.n; i++) {
        int last = p->last[defines.at[i]];
        if (last >= 0) b->steps[last].dies[b->steps[last].ndies++] = defines.at[i];
    }
    b->defines = defines.at;
    b->ndefines = (int)defines.n;
    return b;
}

static Block *plan(Eval *e) {
    uint32_t n = e->f->nvals;
    Plan p = {e, NEW_N(e->arena, int, n), NEW_N(e->arena, const Region *, n), NEW_N(e->arena, bool, n)};
    for (int twice = 0; twice < 2; twice++)                   // loops carry it round
        for (const Op *op = op_walk(&e->f->body, NULL); op; op = op_walk(&e->f->body, op)) note_loaded(&p, op);
    plan_homes(&p, &e->f->body);
    return plan_block(&p, &e->f->body);
}

// ---- running -------------------------------------------------------------------------------------

int64_t eval_launch(Eval *e, LExpr n) {
    const LaunchInfo *l = e->f->launch;
    if (!n.n) return 1;
    int64_t scalars[MAX_PARAMS] = {0}, strides[MAX_STRIDES] = {0};
    for (int i = 0; i < l->nparams; i++) {
        scalars[i] = e->args[i].ival;
        for (int d = 0; d < l->params[i].rank; d++) strides[launch_stride(i, d)] = e->args[i].tensor.strides[d];
    }
    return launch_eval(n, e->dims, scalars, strides);
}

static void prepare_tensors(Eval *e) {
    const LaunchInfo *l = e->f->launch;
    for (int i = 0; l && i < l->nparams; i++) {
        const LaunchParam *p = &l->params[i];
        if (p->kind != PK_TENSOR) continue;
        int64_t count = 1;
        for (int d = p->rank - 1; d >= 0; d--) {
            e->logical[i][d] = count;
            count *= e->args[i].tensor.dims[d];
        }
        e->bounds |= e->opt->bound[i] != NULL;
        if (e->opt->report && p->mode != PM_IN && count) e->touched[i] = heap_alloc((size_t)count * sizeof(Touch));
    }
}

static bool meets(const Fn *f) {                             // blocks of a cluster join values
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (op_meets(op) && op->code != OP_T_drawn) return true;
    return false;
}

static bool joins(const Fn *f) {                             // programs join parts of tiles that others send
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (op->code == OP_T_part_join || op_put_in(op) == PUT_all || op_put_in(op) == PUT_scattered) return true;
    return false;
}

static void free_everything(Eval *e) {
    drop_parts(e);
    drop_kept(e);
    drop_meetings(e);
    for (int i = 0; i < e->ncarried; i++) slot_clear(e, &e->carried[i]);
    for (uint32_t i = 0; i < e->f->nvals; i++) slot_clear(e, &e->slot[i]);
    for (size_t i = 0; i < sizeof e->pool / sizeof *e->pool; i++)
        for (Tile *t = e->pool[i], *next; t; t = next) {
            next = t->next;
            heap_free(t);
        }
    for (int i = 0; i < MAX_PARAMS; i++) heap_free(e->touched[i]);
    heap_free(e->carried);
    for (int i = 0; i <= EL_COUNT; i++) heap_free(e->junk[i]);
    arena_free(e->arena);
}

static bool has_rings(const Fn *f) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) if (op->code == OP_T_buffer) return true;
    return false;
}

// Registers and threads have a power of two of places along an axis. Not where rings in shared memory have its extents.
static void give_places(Eval *e, Fn *f) {
    bool rings = has_rings(f);
    e->extent = NEW_N(e->arena, int64_t, f->nvals + 1);
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) {
        if (op->code != OP_T_axis) continue;
        int64_t *places = &op->out[0]->type.shape[0];
        e->extent[op->out[0]->id] = *places;
        while (!rings && *places & (*places - 1)) *places += *places & -*places;
    }
}

static void take_places(Eval *e, Fn *f) {
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (op->code == OP_T_axis) op->out[0]->type.shape[0] = e->extent[op->out[0]->id];
}

bool ir_eval(Fn *f, const EvalArg *args, const int64_t *dims, const EvalOptions *opt, char **fault, Span *at) {
    static const EvalOptions plain = {0};
    Eval e = {.f = f, .arena = arena_new(), .args = args, .dims = dims, .opt = opt ? opt : &plain};
    e.slot = NEW_N(e.arena, Slot, f->nvals + 1);
    prepare_tensors(&e);
    if (e.opt->places) give_places(&e, f);
    const Block *body = plan(&e);
    if (f->level > 1) plan_async(&e);
    e.programs = f->launch ? eval_launch(&e, f->launch->programs) : 1;
    e.walkers = f->walks && f->walks < e.programs ? f->walks : e.programs;
    if (f->cluster) e.walkers = (e.walkers + f->cluster - 1) / f->cluster * f->cluster;
    int64_t n = e.walkers;
    int together = meets(f) ? f->cluster : 0;
    bool senders = joins(f);
    if (senders) run_senders(&e, body, n);
    for (int64_t i = 0; i < n && !senders && !e.fault; i += together ? together : 1) {
        e.program = e.opt->reversed ? n - 1 - i : i;
        if (e.async) start_async(&e);
        if (together) run_cluster(&e, body, e.program, e.opt->reversed ? -1 : 1, together);
        else run_block(&e, body);
    }
    bool ok = !e.fault;
    if (fault) *fault = e.fault; else heap_free(e.fault);
    if (at) *at = e.fault_at;
    if (e.extent) take_places(&e, f);
    free_everything(&e);
    return ok;
}
