// Scans: each element joined with all before it along an axis.
//
// The coordinate along the axis is a word of bits, and the layout says of each who moves it: a register, a lane, a
// warp, or at the top a repetition. The scan climbs from the lowest bit to the highest, merging neighbouring groups
// of elements, and knows of each group its total and of each run of registers what stands before it in the group:
//
//     bits    w w  l l l l l  r r        a row of 8192 f32 in 8 warps: vectors of 4, 32 lanes, 8 warps, 8 repetitions
//     r r     in order, within the lane's registers            pre[i] = pre[i-1] + x[i],  total = pre[last]
//     l       other = shuffle(total)                           upper lanes: before += other;  total += other
//     w w     totals of all warps through shared memory        before += those of lower warps;  total = all
//     times   one repetition after the other                   before += the totals so far
//     end     result = before + pre
//
// With REVERSE "lower" is "higher". Nothing is subtracted to exclude an element: pre[i-1] is at hand. Dead lanes come
// last, so what they hold cannot reach a live one, but for REVERSE, where the pass `neutral_padding` made them neutral.
//
// The total is known in the end: a reduction of the same lanes, as a loop that carries a sum has it, is given with it.
//
// By a function of the user's own (scan_by, reduce_by) an element is one number of each value, and `join` is the function's code, emitted
// anew for each two elements that meet. Nothing is neutral then: what may be nothing (before the first element, dead lanes where they do
// not come last) says at run time whether it is there. Nor is the order of two elements free: lower lanes' totals come first.
#include "lower/llvm/gen.h"
#include "lower/pass/reduction.h"

enum { MOST_VALUES = 8 };

typedef struct Item {             // what is joined
    LLVMValueRef v[MOST_VALUES];  // v[0] NULL: nothing
    LLVMValueRef has;             // i1, whether it is there; NULL: it is
} Item;

typedef struct Scan {
    Gen    *g;
    const Op *op;
    const Layout *l;
    int     pos, n;               // the axis; registers
    int     values;               // of an item
    Region *by;                   // the function, or NULL: kind
    TReduce kind;
    Elem    e;                    // that is joined
    bool    down;                 // REVERSE
    Item   *pre, *last;           // by register: joined within its run; without itself (nothing: the first)
    int    *run, *group;          // by register: the first one of its run; by run: the first one of its group
    Item   *before, *total;       // by run: what stands before it in its group; by group
} Scan;

// ---- items ---------------------------------------------------------------------------------------

static Item pick(Scan *s, LLVMValueRef c, Item a, Item b) {
    LLVMValueRef yes = LLVMConstInt(s->g->i1, 1, 0);
    Item x = {0};
    for (int i = 0; i < s->values; i++) x.v[i] = LLVMBuildSelect(s->g->B, c, a.v[i], b.v[i], "");
    if (a.has || b.has) x.has = LLVMBuildSelect(s->g->B, c, a.has ? a.has : yes, b.has ? b.has : yes, "");
    return x;
}

static Item none(Scan *s, Item like) {
    Item x = {.has = s->by ? LLVMConstInt(s->g->i1, 0, 0) : NULL};
    for (int i = 0; i < s->values; i++)
        x.v[i] = s->by ? LLVMConstNull(LLVMTypeOf(like.v[i])) : gen_neutral(LLVMTypeOf(like.v[i]), s->kind, s->e);
    return x;
}

// An index of 32 or 64 bits as the value has it that it becomes.
static LLVMValueRef as(Gen *g, LLVMValueRef x, const Val *v) {
    LLVMTypeRef t = gen_type(g, v);
    return LLVMTypeOf(x) == t ? x : LLVMBuildSExtOrBitCast(g->B, x, t, "");
}

static Item by_function(Scan *s, Item a, Item b) {
    Gen *g = s->g;
    Item x = {0};
    for (int i = 0; i < s->values; i++) {
        gen_set(g, s->by->args.at[i], 0, a.v[i]);
        gen_set(g, s->by->args.at[s->values + i], 0, b.v[i]);
    }
    for (Op *op = s->by->first; op->next; op = op->next) gen_op(g, op);
    for (int i = 0; i < s->values; i++) x.v[i] = as(g, gen_get(g, s->by->last->in[i], 0), s->by->args.at[i]);
    return x;
}

static Item join(Scan *s, Item a, Item b) {
    if (!a.v[0] || !b.v[0]) return a.v[0] ? a : b;
    if (!s->by) return (Item){.v = {gen_join(s->g, s->kind, s->e, a.v[0], b.v[0])}};
    Item both = by_function(s, a, b);
    if (a.has && b.has) {
        both = pick(s, a.has, pick(s, b.has, both, a), b);
        both.has = LLVMBuildOr(s->g->B, a.has, b.has, "");
    } else if (a.has || b.has) {
        both = a.has ? pick(s, a.has, both, b) : pick(s, b.has, both, a);
        both.has = NULL;
    }
    return both;
}

static Item shuffled(Scan *s, Item a, int mask) {
    Item x = {0};
    for (int i = 0; i < s->values; i++) x.v[i] = gen_shuffle_xor(s->g, a.v[i], mask);
    if (a.has) x.has = gen_shuffle_xor(s->g, a.has, mask);
    return x;
}

// An item in shared memory: words of 8 bytes, `apart` from one to the next.
static void put(Scan *s, LLVMValueRef at, int apart, Item a) {
    for (int i = 0; i < s->values; i++) gen_put(s->g, i ? LLVMBuildAdd(s->g->B, at, gen_i32(s->g, i * apart), "") : at, a.v[i]);
    if (a.has) gen_put(s->g, LLVMBuildAdd(s->g->B, at, gen_i32(s->g, s->values * apart), ""), a.has);
}

static Item take(Scan *s, LLVMValueRef at, int apart, Item like) {
    Item x = {0};
    for (int i = 0; i < s->values; i++)
        x.v[i] = gen_take(s->g, i ? LLVMBuildAdd(s->g->B, at, gen_i32(s->g, i * apart), "") : at, LLVMTypeOf(like.v[i]));
    if (like.has) x.has = gen_take(s->g, LLVMBuildAdd(s->g->B, at, gen_i32(s->g, s->values * apart), ""), s->g->i1);
    return x;
}

// ---- the climb -----------------------------------------------------------------------------------

static bool leads(const Scan *s, int r) { return s->run[r] == r && s->group[r] == r; }

// Group `hi` comes after group `lo`: what it has before it grows, and they are one from here, called `name`.
static void follow(Scan *s, int lo, int hi, int name) {
    Item total = join(s, s->total[lo], s->total[hi]);
    for (int r = 0; r < s->n; r++)
        if (s->run[r] == r && s->group[r] == hi) s->before[r] = join(s, s->total[lo], s->before[r]);
    for (int r = 0; r < s->n; r++)
        if (s->run[r] == r && (s->group[r] == hi || s->group[r] == lo)) s->group[r] = name;
    s->total[name] = total;
}

// The lowest bits, as far as registers move them: in order. Gives the first bit that is left.
static int runs(Scan *s) {
    int bits = 0, at[MAX_REG_BITS], in_run = 0;
    while (bits < s->l->bits[s->pos] && layout_mover(s->l, s->pos, bits, &at[bits]) == BY_REGISTER)
        in_run |= 1 << at[bits++];
    for (int r = 0; r < s->n; r++) s->group[r] = s->run[r] = r & ~in_run;
    for (int first = 0; first < s->n; first++) {
        if (s->run[first] != first) continue;
        Item sum = {0};
        for (int k = 0; k < 1 << bits; k++) {
            int c = s->down ? (1 << bits) - 1 - k : k, r = first;
            for (int b = 0; b < bits; b++) r |= (c >> b & 1) << at[b];
            s->last[r] = sum;
            sum = s->pre[r] = join(s, sum, s->pre[r]);
        }
        s->total[first] = sum;
    }
    return bits;
}

static void across_registers(Scan *s, int bit) {
    for (int r = 0; r < s->n; r++) {
        if (!leads(s, r) || (r >> bit & 1)) continue;
        int other = r | 1 << bit;
        follow(s, s->down ? other : r, s->down ? r : other, r);
    }
}

static void across_lanes(Scan *s, int bit) {
    Gen *g = s->g;
    LLVMValueRef mine = LLVMBuildAnd(g->B, g->lane, gen_i32(g, 1 << bit), "");
    LLVMValueRef after = LLVMBuildICmp(g->B, s->down ? LLVMIntEQ : LLVMIntNE, mine, gen_i32(g, 0), "");
    for (int r = 0; r < s->n; r++) {
        if (!leads(s, r)) continue;
        Item own = s->total[r], other = shuffled(s, own, 1 << bit), nothing = none(s, other);
        for (int k = 0; k < s->n; k++)
            if (s->run[k] == k && s->group[k] == r)
                s->before[k] = pick(s, after, join(s, other, s->before[k]), s->before[k].v[0] ? s->before[k] : nothing);
        s->total[r] = s->by ? join(s, pick(s, after, other, own), pick(s, after, own, other)) : join(s, own, other);
    }
}

typedef struct Warps {             // that move neighbouring bits
    const int *bit;
    int      n;
    int      lanes, each;         // of a slot: 32, or 1 where lanes do not differ; bytes of an item of a slot
    uint32_t axis, pitch;         // the warps' bits; bytes from warp to warp
} Warps;

static LLVMValueRef column(Scan *s, const Warps *w, uint32_t area) {
    Gen *g = s->g;
    return LLVMBuildAdd(g->B, w->lanes > 1 ? LLVMBuildMul(g->B, g->lane, gen_i32(g, 8), "") : gen_i32(g, 0), gen_i32(g, area), "");
}

// Which of the warps that move these bits this one is.
static LLVMValueRef number_of_warp(Scan *s, const Warps *w) {
    Gen *g = s->g;
    LLVMValueRef number = gen_i32(g, 0);
    for (int b = 0; b < w->n; b++) {
        LLVMValueRef x = LLVMBuildAnd(g->B, LLVMBuildLShr(g->B, g->warp, gen_i32(g, w->bit[b]), ""), gen_i32(g, 1), "");
        number = LLVMBuildOr(g->B, number, LLVMBuildShl(g->B, x, gen_i32(g, b), ""), "");
    }
    return number;
}

// Totals of the groups list[0 .. n) to shared memory, by one lane where lanes do not differ.
static void put_totals(Scan *s, const Warps *w, LLVMValueRef col, const int *list, int n) {
    Gen *g = s->g;
    LLVMBasicBlockRef go = w->lanes == 1 ? gen_block(g, "got") : NULL;
    if (go) {
        LLVMBasicBlockRef write = gen_block(g, "put");
        LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntEQ, g->lane, gen_i32(g, 0), ""), write, go);
        LLVMPositionBuilderAtEnd(g->B, write);
        LLVMMoveBasicBlockAfter(go, write);
    }
    LLVMValueRef mine = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, g->warp, gen_i32(g, w->pitch), ""), col, "");
    for (int k = 0; k < n; k++) put(s, LLVMBuildAdd(g->B, mine, gen_i32(g, k * w->each), ""), w->lanes * 8, s->total[list[k]]);
    if (go) { LLVMBuildBr(g->B, go); LLVMPositionBuilderAtEnd(g->B, go); }
}

// The total of a group, and what stands before this warp in it; base, number: of the first of the warps, and which of them this is.
static void take_total(Scan *s, const Warps *w, LLVMValueRef col, LLVMValueRef base, LLVMValueRef number, int k, int r) {
    Gen *g = s->g;
    Item sum = {0}, lower = none(s, s->total[r]);
    for (int c = 0; c < 1 << w->n; c++) {
        int warp = 0, in_order = s->down ? (1 << w->n) - 1 - c : c;
        for (int b = 0; b < w->n; b++) warp |= (in_order >> b & 1) << w->bit[b];
        LLVMValueRef at = LLVMBuildMul(g->B, LLVMBuildOr(g->B, base, gen_i32(g, warp), ""), gen_i32(g, w->pitch), "");
        at = LLVMBuildAdd(g->B, LLVMBuildAdd(g->B, at, col, ""), gen_i32(g, k * w->each), "");
        LLVMValueRef is_me = LLVMBuildICmp(g->B, LLVMIntEQ, number, gen_i32(g, in_order), "");
        if (sum.v[0]) lower = pick(s, is_me, sum, lower);
        sum = join(s, sum, take(s, at, w->lanes * 8, s->total[r]));
    }
    for (int q = 0; q < s->n; q++)
        if (s->run[q] == q && s->group[q] == r) s->before[q] = join(s, lower, s->before[q]);
    s->total[r] = sum;
}

static void take_totals(Scan *s, const Warps *w, LLVMValueRef col, const int *list, int n) {
    LLVMValueRef base = LLVMBuildAnd(s->g->B, s->g->warp, gen_i32(s->g, ~w->axis), ""), number = number_of_warp(s, w);
    for (int k = 0; k < n; k++) take_total(s, w, col, base, number, k, list[k]);
}

// Through slots (warp, group, value, lane) of 8 bytes, of as many groups at a time as there is room for.
static void across_warps(Scan *s, const int *bit, int n) {
    Gen *g = s->g;
    Warps w = {.bit = bit, .n = n, .lanes = 1};
    uint32_t own = (((uint32_t)1 << s->l->bits[s->pos]) - 1) << s->l->off[s->pos];
    for (int b = 0; b < n; b++) w.axis |= 1u << bit[b];
    for (int i = 0; i < LANE_BITS; i++) if (s->l->lane[i] && !(s->l->lane[i] & own)) w.lanes = 32;
    int *list = NEW_N(g->arena, int, s->n), groups = 0, words = s->values;
    for (int r = 0; r < s->n; r++) {
        if (!leads(s, r)) continue;
        if (s->total[r].has) words = s->values + 1;
        list[groups++] = r;
    }
    w.each = words * w.lanes * 8;
    int most = (int)(gen_slots_room(g) / (uint32_t)(g->f->warps * w.each));
    most = most < 1 ? 1 : most < groups ? most : groups;
    w.pitch = (uint32_t)(most * w.each);
    LLVMValueRef col = column(s, &w, gen_slots(g, s->op, (uint32_t)g->f->warps * w.pitch));
    for (int from = 0; from < groups; from += most) {
        int count = groups - from < most ? groups - from : most;
        if (from) gen_barrier(g);                                  // its readers are through
        put_totals(s, &w, col, list + from, count);
        gen_barrier(g);
        take_totals(s, &w, col, list + from, count);
    }
}

static void across_repetitions(Scan *s) {
    int stride = 1 << s->l->nreg;
    for (int i = 0; i < s->l->nrep; stride *= s->l->rep[i++].count) {
        int count = s->l->rep[i].count;
        if (s->l->rep[i].axis != s->pos) continue;
        for (int r = 0; r < s->n; r++) {
            if (!leads(s, r) || r / stride % count) continue;
            int first = r + (s->down ? count - 1 : 0) * stride;
            for (int d = 1; d < count; d++) follow(s, first, r + (s->down ? count - 1 - d : d) * stride, first);
        }
    }
}

static void climb(Scan *s) {
    int bit = runs(s), at[MAX_WARP_BITS];
    while (bit < s->l->bits[s->pos]) {
        Mover mover = layout_mover(s->l, s->pos, bit, &at[0]);
        int n = 1;
        if (mover == BY_WARP) while (bit + n < s->l->bits[s->pos] && layout_mover(s->l, s->pos, bit + n, &at[n]) == BY_WARP) n++;
        if (mover == BY_REGISTER) across_registers(s, at[0]);
        if (mover == BY_LANE) across_lanes(s, at[0]);
        if (mover == BY_WARP) across_warps(s, at, n);
        bit += n;
    }
    across_repetitions(s);
}

static Scan scan_of(Gen *g, Op *op) {
    Val *x = op->in[0];
    Scan s = {.g = g,
              .op = op,
              .l = x->layout,
              .pos = type_axis(&x->type, op->in[op->nin - 1]),
              .n = gen_tile(g, x)->n,
              .values = op->nin - 1,
              .by = op_joins(op) ? op->reg[0] : NULL,
              .kind = (TReduce)op->sub,
              .e = (Elem)x->type.elem,
              .down = (op->flags & REVERSE) != 0};
    s.pre = NEW_N(g->arena, Item, s.n);
    s.last = NEW_N(g->arena, Item, s.n);
    s.before = NEW_N(g->arena, Item, s.n);
    s.total = NEW_N(g->arena, Item, s.n);
    s.run = NEW_N(g->arena, int, s.n);
    s.group = NEW_N(g->arena, int, s.n);
    return s;
}

// ---- the ops -------------------------------------------------------------------------------------

static void give_total(Scan *s) {
    Op *sum = scan_total(s->op);
    if (!sum || LLVMTypeOf(s->total[s->group[0]].v[0]) !=
                    (elem_is_storage((Elem)sum->out[0]->type.elem) ? s->g->f32 : gen_type(s->g, sum->out[0])))
        return;
    for (int r = 0; r < s->n; r++) {
        if (!leads(s, r)) continue;
        const Val *x = sum->in[0], *o = sum->out[0];
        LLVMValueRef v = s->total[r].v[0];
        gen_set(s->g, o, o->type.rank ? layout_project_reg(s->l, &x->type, &o->type, r) : 0,
                elem_is_storage((Elem)o->type.elem) ? gen_kept_f32(s->g, v, (Elem)o->type.elem) : v);
    }
}

void emit_scan(Gen *g, Op *op) {
    Val *x = op->in[0], *o = op->out[0];
    Scan s = scan_of(g, op);
    bool widen = elem_is_storage(s.e);
    if (widen) s.e = EL_f32;
    for (int r = 0; r < s.n; r++) {
        LLVMValueRef v = gen_get(g, x, r);
        if (x->type.elem == EL_index && gen_is32(g, x) && !gen_is32(g, o)) v = LLVMBuildSExt(g->B, v, g->i64, "");
        s.pre[r].v[0] = widen ? gen_to_f32(g, v, (Elem)x->type.elem) : v;
    }
    climb(&s);
    give_total(&s);
    for (int r = 0; r < s.n; r++) {
        Item all = join(&s, s.before[s.run[r]], op->flags & EXCLUSIVE ? s.last[r] : s.pre[r]);
        LLVMValueRef v = all.v[0] ? all.v[0] : none(&s, s.pre[r]).v[0];
        gen_set(g, o, r, widen ? gen_kept_f32(g, v, (Elem)o->type.elem) : v);
    }
}

// The elements, as the function takes them; which of them are there, where dead ones are in the way.
static Scan joined(Gen *g, Op *op, bool all) {
    Scan s = scan_of(g, op);
    const Val *axis = op->in[op->nin - 1];
    bool last = !s.down && !all && axis->def->nin == 2;                    // no places before the first lane
    bool alive = last || gen_always_live(g, axis, s.l, s.pos);
    for (int r = 0; r < s.n; r++) {
        for (int i = 0; i < s.values; i++) s.pre[r].v[i] = as(g, gen_get(g, op->in[i], r), s.by->args.at[i]);
        if (!alive) s.pre[r].has = gen_live(g, axis, s.l, s.pos, r, 1);
    }
    climb(&s);
    return s;
}

void emit_scan_by(Gen *g, Op *op) {
    Scan s = joined(g, op, false);
    for (int r = 0; r < s.n; r++) {
        Item all = join(&s, s.before[s.run[r]], s.pre[r]);
        for (int i = 0; i < s.values; i++) gen_set(g, op->out[i], r, all.v[i]);
    }
}

void emit_reduce_by(Gen *g, Op *op) {
    Scan s = joined(g, op, true);
    for (int r = 0; r < s.n; r++) {
        if (!leads(&s, r)) continue;
        Item all = s.total[r].has ? pick(&s, s.total[r].has, s.total[r], none(&s, s.total[r])) : s.total[r];
        for (int i = 0; i < s.values; i++) {
            const Val *x = op->in[i], *o = op->out[i];
            gen_set(g, o, o->type.rank ? layout_project_reg(s.l, &x->type, &o->type, r) : 0, all.v[i]);
        }
    }
}
