// Products on tensor cores: which ones, with which instruction, and how warps share the result.
//
// A dot is an m16n8 product when one axis of the result comes from one operand alone (the rows), another
// from the other operand alone (the columns), and a third is contracted; any further axes, of a batch or
// of windows, are looped over in registers. Which of the two is called the column decides where adjacent
// registers lie: along the axis that a later dot contracts (its operand is then in registers already),
// else along the contiguous axis of the store, else along the second operand's axis.
//
//     acc[m, n] += a[m, k] b[k, n]         rows m from a, columns n from b
//     c[n, m]    = dot(a[m, k], b[k, n])   rows n from b, columns m from a: the store runs along m
//
// Warps tile the result so that each issues the fewest instructions and then reads the smallest perimeter
// of operands; in a chain of dots all warps lie along the rows, so that row statistics and the second
// product's operand never leave a warp. layout_mma_acc holds this; mma_of_layout reads it back.
#include "lower/layout/mma.h"
#include "lower/layout/layout.h"

#include <stddef.h>
#include <string.h>

// clang-format off
//     a           b           fragments   k   types
static const MmaInsn insns[] = {
    {EL_bf16,   EL_bf16,   EL_bf16,   16, "m16n8k16.row.col.f32.bf16.bf16.f32", offsetof(Target, has_bf16)},
    {EL_f16,    EL_f16,    EL_f16,    16, "m16n8k16.row.col.f32.f16.f16.f32",   offsetof(Target, has_bf16)},
    {EL_f32,    EL_f32,    EL_f32,     8, "m16n8k8.row.col.f32.tf32.tf32.f32",  offsetof(Target, has_bf16)},
    {EL_i8,     EL_i8,     EL_i8,     32, "m16n8k32.row.col.s32.s8.s8.s32",     offsetof(Target, has_bf16)},
    {EL_u8,     EL_u8,     EL_u8,     32, "m16n8k32.row.col.s32.u8.u8.s32",     offsetof(Target, has_bf16)},
    {EL_i8,     EL_u8,     EL_i8,     32, "m16n8k32.row.col.s32.s8.u8.s32",     offsetof(Target, has_bf16)},
    {EL_u8,     EL_i8,     EL_i8,     32, "m16n8k32.row.col.s32.u8.s8.s32",     offsetof(Target, has_bf16)},
    {EL_f8e4m3, EL_f8e4m3, EL_f8e4m3, 32, "m16n8k32.row.col.f32.e4m3.e4m3.f32", offsetof(Target, has_mma_f8)},
    {EL_f8e5m2, EL_f8e5m2, EL_f8e5m2, 32, "m16n8k32.row.col.f32.e5m2.e5m2.f32", offsetof(Target, has_mma_f8)},
    {EL_f8e4m3, EL_f8e5m2, EL_f8e4m3, 32, "m16n8k32.row.col.f32.e4m3.e5m2.f32", offsetof(Target, has_mma_f8)},
    {EL_f8e5m2, EL_f8e4m3, EL_f8e4m3, 32, "m16n8k32.row.col.f32.e5m2.e4m3.f32", offsetof(Target, has_mma_f8)},
    {EL_f8e4m3, EL_f8e4m3, EL_f16,    16, "m16n8k16.row.col.f32.f16.f16.f32",   offsetof(Target, has_bf16)},
    {EL_f8e5m2, EL_f8e5m2, EL_f16,    16, "m16n8k16.row.col.f32.f16.f16.f32",   offsetof(Target, has_bf16)},
    {EL_f8e4m3, EL_f8e5m2, EL_f16,    16, "m16n8k16.row.col.f32.f16.f16.f32",   offsetof(Target, has_bf16)},
    {EL_f8e5m2, EL_f8e4m3, EL_f16,    16, "m16n8k16.row.col.f32.f16.f16.f32",   offsetof(Target, has_bf16)},
};
// clang-format on

enum { LEAST = 8 };                       // extents below this are not worth a fragment

static const MmaInsn *find_insn(const Target *t, const Op *dot, int a, int b) {
    Elem ea = (Elem)dot->in[a]->type.elem, eb = (Elem)dot->in[b]->type.elem, eo = (Elem)dot->out[0]->type.elem;
    if (ea == EL_f32 && dot->sub == DP_ieee) return NULL;
    if (eo != EL_f32 && eo != EL_i32) return NULL;
    for (size_t i = 0; i < sizeof insns / sizeof *insns; i++)
        if (insns[i].a == ea && insns[i].b == eb && *(const bool *)((const char *)t + insns[i].cap)) return &insns[i];
    return NULL;
}

static bool has(const Val *v, const Val *axis) { return type_axis(&v->type, axis) >= 0; }

static const Region *root(const Op *op) {
    const Region *r = op->parent;
    while (r && r->owner) r = r->owner->parent;
    return r;
}

// The axis of the result that another dot contracts, or NULL. `chained`: this dot and another are links of a chain.
static const Val *contracted_later(const Op *dot, bool *chained) {
    const Region *r = root(dot);
    const Val *found = NULL;
    *chained = false;
    if (!r) return NULL;
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op)) {
        if (op->code != OP_T_dot || op == dot) continue;
        for (int i = op_first_axis(op); i < op->nin; i++)
            if (has(dot->out[0], op->in[i])) { found = op->in[i]; *chained = true; }
        for (int i = op_first_axis(dot); i < dot->nin; i++)
            if (has(op->out[0], dot->in[i])) *chained = true;
    }
    return found;
}

// The result's axis along which it is stored contiguously, as far as that can be told from the stores there are.
static const Val *stored_along(const Op *dot) {
    const Region *r = root(dot);
    const Type *t = &dot->out[0]->type;
    if (!r) return NULL;
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op)) {
        if (op->code != OP_T_store || !op->nidx) continue;
        const Val *last = op->in[op->nidx], *v = op_value(op);
        bool whole = true;
        for (int i = 0; i < t->rank; i++) whole &= type_axis(&v->type, t->axis[i]) >= 0;
        for (int i = 0; whole && i < t->rank; i++) if (has(last, t->axis[i])) return t->axis[i];
    }
    return NULL;
}

static const Val *longest(const Op *dot, int in, int not_in, const Val *wanted) {
    const Type *t = &dot->in[in]->type;
    const Val *best = NULL;
    for (int i = 0; i < t->rank; i++) {
        const Val *x = t->axis[i];
        if (!has(dot->out[0], x) || has(dot->in[not_in], x) || axis_extent(x) < LEAST) continue;
        if (!best || x == wanted || (best != wanted && axis_extent(x) > axis_extent(best))) best = x;
    }
    return best;
}

static bool find_axes(const Target *t, const Op *dot, MmaChoice *c, bool *chained) {
    const Val *later = contracted_later(dot, chained), *along = later ? later : stored_along(dot);
    if (dot->out[0]->type.rank < 2) return false;
    c->a = along && has(dot->in[0], along) && !has(dot->in[1], along) ? 1 : 0;
    c->b = 1 - c->a;
    c->insn = find_insn(t, dot, c->a, c->b);
    if (!c->insn) return false;
    const Val *row = longest(dot, c->a, c->b, NULL), *col = longest(dot, c->b, c->a, along);
    if (!row || !col) return false;
    c->row = type_axis(&dot->out[0]->type, row);
    c->col = type_axis(&dot->out[0]->type, col);
    c->k = c->insn->k;
    c->k_axis = NULL;
    for (int i = op_first_axis(dot); i < dot->nin; i++)
        if (axis_extent(dot->in[i]) >= LEAST && (!c->k_axis || axis_extent(dot->in[i]) > axis_extent(c->k_axis)))
            c->k_axis = dot->in[i];
    return c->k_axis != NULL;
}

static int64_t up(int64_t n, int64_t unit) { return (n + unit - 1) / unit; }

bool mma_choose(const Target *t, const Op *dot, int warps, MmaChoice *c) {
    bool chained;
    memset(c, 0, sizeof *c);
    if (!find_axes(t, dot, c, &chained)) return false;
    int64_t rows = axis_extent(dot->out[0]->type.axis[c->row]), cols = axis_extent(dot->out[0]->type.axis[c->col]),
            best = INT64_MAX;
    for (int wm = 1; wm <= warps; wm *= 2) {
        int wn = warps / wm;
        int64_t m = up(rows, 16 * wm), n = up(cols, 8 * wn);
        int64_t cost = m * n * 4096 + 16 * m + 8 * n;
        if (chained && wm == warps && rows >= 16 * wm) cost = 0;
        if (cost > best || (cost == best && wn > wm)) continue;
        best = cost;
        c->warps_m = wm;
        c->warps_n = wn;
    }
    return true;
}

bool mma_of_layout(const Target *t, Arena *a, const Op *dot, MmaChoice *c) {
    const Val *o = dot->out[0];
    const Layout *l = o->layout;
    bool chained;
    memset(c, 0, sizeof *c);
    if (!l || l->nreg != 2 || !find_axes(t, dot, c, &chained)) return false;
    c->row = c->col = -1;
    for (int i = 0; i < o->type.rank; i++) {
        if (l->reg[0] == (uint32_t)1 << l->off[i] && l->bits[i] >= 3) c->col = i;
        if (l->bits[i] >= 4 && l->reg[1] == (uint32_t)8 << l->off[i]) c->row = i;
    }
    if (c->row < 0 || c->col < 0 || c->row == c->col) return false;
    c->warps_m = 1 << (l->bits[c->row] - 4);
    c->warps_n = 1 << (l->bits[c->col] - 3);
    if (!layout_equal(l, layout_mma_acc(a, &o->type, c->row, c->col, c->warps_m, c->warps_n))) return false;
    const Val *row = o->type.axis[c->row], *col = o->type.axis[c->col];
    c->a = has(dot->in[0], row) ? 0 : 1;
    c->b = 1 - c->a;
    c->insn = find_insn(t, dot, c->a, c->b);
    if (!c->insn) return false;
    c->k = c->insn->k;
    return has(dot->in[c->a], row) && !has(dot->in[c->b], row) && has(dot->in[c->b], col) && !has(dot->in[c->a], col);
}

bool mma_operand_in_registers(Arena *a, const MmaChoice *c, const Op *dot, int operand) {
    const Val *x = dot->in[operand];
    int row = type_axis(&x->type, dot->out[0]->type.axis[c->row]), col = type_axis(&x->type, c->k_axis);
    if (operand != c->a || row < 0 || col < 0 || !x->layout || axis_extent(c->k_axis) % 8) return false;
    if (c->insn->frag != EL_f16 && c->insn->frag != EL_bf16) return false;
    if (c->insn->frag != x->type.elem) return false;
    int wn = 1 << (x->layout->nwarp - __builtin_ctz((unsigned)c->warps_m));
    return wn == 1 && layout_equal(x->layout, layout_mma_acc(a, &x->type, row, col, c->warps_m, 1));
}
