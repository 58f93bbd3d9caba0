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
// last, so what they hold cannot reach a live one, but for REVERSE, where the pass `lanes` made them neutral.
//
// The total is known in the end: a reduction of the same lanes, as a loop that carries a sum has it, is given with it.
#include "lower/llvm/gen.h"
#include "lower/pass/reduction.h"

typedef struct Scan {
    Gen    *g;
    const Op *op;
    const Layout *l;
    int     pos, n;               // the axis; registers
    TReduce kind;
    Elem    e;                    // that is joined
    bool    down;                 // REVERSE
    LLVMValueRef *pre, *last;     // by register: joined within its run; without itself (NULL: nothing)
    int    *run, *group;          // by register: the first one of its run; by run: the first one of its group
    LLVMValueRef *before, *total; // by run: what stands before it in its group (NULL: nothing); by group
} Scan;

static LLVMValueRef join(Scan *s, LLVMValueRef a, LLVMValueRef b) {
    return a && b ? gen_join(s->g, s->kind, s->e, a, b) : a ? a : b;
}

static bool leads(const Scan *s, int r) { return s->run[r] == r && s->group[r] == r; }

// Group `hi` comes after group `lo`: what it has before it grows, and they are one from here, called `name`.
static void follow(Scan *s, int lo, int hi, int name) {
    LLVMValueRef total = join(s, s->total[lo], s->total[hi]);
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
        LLVMValueRef sum = NULL;
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
        LLVMValueRef other = gen_shuffle_xor(g, s->total[r], 1 << bit), none = gen_neutral(LLVMTypeOf(other), s->kind, s->e);
        for (int k = 0; k < s->n; k++)
            if (s->run[k] == k && s->group[k] == r)
                s->before[k] = LLVMBuildSelect(g->B, after, join(s, other, s->before[k]),
                                               s->before[k] ? s->before[k] : none, "");
        s->total[r] = join(s, s->total[r], other);
    }
}

// Warps that move `n` neighbouring bits: slot (warp, group, lane) of 8 bytes, or (warp, group) where lanes do not differ.
static void across_warps(Scan *s, const int *bit, int n) {
    Gen *g = s->g;
    uint32_t axis = 0, kept = 0;
    for (int b = 0; b < n; b++) axis |= 1u << bit[b];
    for (int i = 0; i < LANE_BITS; i++) {
        uint32_t own = (((uint32_t)1 << s->l->bits[s->pos]) - 1) << s->l->off[s->pos];
        if (s->l->lane[i] && !(s->l->lane[i] & own)) kept |= 1u << i;
    }
    int groups = 0, lanes = kept ? 32 : 1;
    for (int r = 0; r < s->n; r++) groups += leads(s, r);
    uint32_t pitch = (uint32_t)(groups * lanes * 8), area = gen_slots(g, s->op, (uint32_t)g->f->warps * pitch);
    LLVMBasicBlockRef write = NULL, go = NULL;
    if (!kept) {
        write = gen_block(g, "put"); go = gen_block(g, "got");
        LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntEQ, g->lane, gen_i32(g, 0), ""), write, go);
        LLVMPositionBuilderAtEnd(g->B, write);
    }
    LLVMValueRef col = LLVMBuildAdd(g->B, kept ? LLVMBuildMul(g->B, g->lane, gen_i32(g, 8), "") : gen_i32(g, 0),
                                    gen_i32(g, area), "");
    LLVMValueRef mine = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, g->warp, gen_i32(g, pitch), ""), col, "");
    for (int r = 0, k = 0; r < s->n; r++)
        if (leads(s, r)) gen_put(g, LLVMBuildAdd(g->B, mine, gen_i32(g, k++ * lanes * 8), ""), s->total[r]);
    if (!kept) { LLVMBuildBr(g->B, go); LLVMPositionBuilderAtEnd(g->B, go); }
    gen_barrier(g);
    LLVMValueRef base = LLVMBuildAnd(g->B, g->warp, gen_i32(g, ~axis), ""), number = gen_i32(g, 0);
    for (int b = 0; b < n; b++) {
        LLVMValueRef x = LLVMBuildAnd(g->B, LLVMBuildLShr(g->B, g->warp, gen_i32(g, bit[b]), ""), gen_i32(g, 1), "");
        number = LLVMBuildOr(g->B, number, LLVMBuildShl(g->B, x, gen_i32(g, b), ""), "");
    }
    for (int r = 0, k = 0; r < s->n; r++) {
        if (!leads(s, r)) continue;
        LLVMValueRef sum = NULL, lower = gen_neutral(LLVMTypeOf(s->total[r]), s->kind, s->e);
        for (int c = 0; c < 1 << n; c++) {
            int w = 0, in_order = s->down ? (1 << n) - 1 - c : c;
            for (int b = 0; b < n; b++) w |= (in_order >> b & 1) << bit[b];
            LLVMValueRef at = LLVMBuildMul(g->B, LLVMBuildOr(g->B, base, gen_i32(g, w), ""), gen_i32(g, pitch), "");
            at = LLVMBuildAdd(g->B, LLVMBuildAdd(g->B, at, col, ""), gen_i32(g, k * lanes * 8), "");
            LLVMValueRef is_me = LLVMBuildICmp(g->B, LLVMIntEQ, number, gen_i32(g, in_order), "");
            if (sum) lower = LLVMBuildSelect(g->B, is_me, sum, lower, "");
            sum = join(s, sum, gen_take(g, at, LLVMTypeOf(s->total[r])));
        }
        for (int q = 0; q < s->n; q++)
            if (s->run[q] == q && s->group[q] == r) s->before[q] = join(s, lower, s->before[q]);
        s->total[r] = sum;
        k++;
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

static void give_total(Scan *s) {
    Op *sum = scan_total(s->op);
    if (!sum || LLVMTypeOf(s->total[s->group[0]]) !=
                    (elem_is_storage((Elem)sum->out[0]->type.elem) ? s->g->f32 : gen_type(s->g, sum->out[0])))
        return;
    for (int r = 0; r < s->n; r++) {
        if (!leads(s, r)) continue;
        const Val *x = sum->in[0], *o = sum->out[0];
        LLVMValueRef v = s->total[r];
        gen_set(s->g, o, o->type.rank ? layout_project_reg(s->l, &x->type, &o->type, r) : 0,
                elem_is_storage((Elem)o->type.elem) ? gen_from_f32(s->g, v, (Elem)o->type.elem) : v);
    }
}

void emit_scan(Gen *g, Op *op) {
    Val *x = op->in[0], *o = op->out[0];
    Scan s = {.g = g,
              .op = op,
              .l = x->layout,
              .pos = type_axis(&x->type, op->in[1]),
              .n = gen_tile(g, x)->n,
              .kind = (TReduce)op->sub,
              .e = (Elem)x->type.elem,
              .down = (op->flags & REVERSE) != 0};
    bool widen = elem_is_storage(s.e);
    if (widen) s.e = EL_f32;
    s.pre = NEW_N(g->arena, LLVMValueRef, s.n);
    s.last = NEW_N(g->arena, LLVMValueRef, s.n);
    s.before = NEW_N(g->arena, LLVMValueRef, s.n);
    s.total = NEW_N(g->arena, LLVMValueRef, s.n);
    s.run = NEW_N(g->arena, int, s.n);
    s.group = NEW_N(g->arena, int, s.n);
    for (int r = 0; r < s.n; r++) {
        LLVMValueRef v = gen_get(g, x, r);
        if (x->type.elem == EL_index && gen_is32(g, x) && !gen_is32(g, o)) v = LLVMBuildSExt(g->B, v, g->i64, "");
        s.pre[r] = widen ? gen_to_f32(g, v, (Elem)x->type.elem) : v;
    }
    int bit = runs(&s), at[MAX_WARP_BITS];
    while (bit < s.l->bits[s.pos]) {
        Mover mover = layout_mover(s.l, s.pos, bit, &at[0]);
        int n = 1;
        if (mover == BY_WARP) while (bit + n < s.l->bits[s.pos] && layout_mover(s.l, s.pos, bit + n, &at[n]) == BY_WARP) n++;
        if (mover == BY_REGISTER) across_registers(&s, at[0]);
        if (mover == BY_LANE) across_lanes(&s, at[0]);
        if (mover == BY_WARP) across_warps(&s, at, n);
        bit += n;
    }
    across_repetitions(&s);
    give_total(&s);
    for (int r = 0; r < s.n; r++) {
        LLVMValueRef v = join(&s, s.before[s.run[r]], op->flags & EXCLUSIVE ? s.last[r] : s.pre[r]);
        if (!v) v = gen_neutral(LLVMTypeOf(s.pre[r]), s.kind, s.e);
        gen_set(g, o, r, widen ? gen_from_f32(g, v, (Elem)o->type.elem) : v);
    }
}
