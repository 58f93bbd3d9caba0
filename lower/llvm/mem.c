// Loads and stores of tiles: one address per lane, constants per register, a predicate where needed.
//
// The affine form of each index (access.h) splits an address into a part that is the same for the whole
// program (64-bit, computed once), a part of the lane, and a part of the register that is a constant along
// the contiguous dimension or a multiple of a stride elsewhere:
//
//     &x[m, n]  =  x + ((lo_m * stride + lo_n) + (lane_m * stride + lane_n)) * size  +  reg_m * stride * size  +  reg_n * size
//
// Windows and gathers have dimensions whose index is computed lane by lane, or may be out of range. Where such an index fits in 32
// bits (facts/narrow.c) it is a number of its own, compared once and multiplied once into the address, whatever the loop around it:
//
//     &x[n, c, h, w]  =  x + (n, c as above)  +  wide((h_index * stride + w_index) * size)        a picture has fewer than 2^31 elements
//     &x[row, n]      =  x + (n as above)     +  wide(row * (stride * size))                      one such dimension: of rows that short
//
// A predicate is the conjunction of: the axes' lanes are alive, unproved indices are in range, and, for
// stores, this lane owns the element. A load that is predicated off leaves 0 (or `else`) in its registers.
// Loads of `in` tensors are pure; what touches others is ordered first (memory_order.c).
#include "lower/facts/access.h"
#include "lower/llvm/gen.h"

#include <string.h>

typedef struct Coord { int64_t at; LLVMValueRef v; } Coord;
typedef struct PredCache { VEC(Coord) live[MAX_AXES]; LLVMValueRef uniform; bool made; } PredCache;

struct Addr {
    Gen          *g;
    Access        a;
    const Layout *l;
    Type          type;                 // of the layout's axes
    LLVMValueRef  stride[MAX_RANK];     // i64 elements; NULL: 1
    LLVMValueRef  base;                 // i64 address of this lane's register 0 without opaque parts
    LLVMValueRef  coef[MAX_AXES];       // i64 elements per step of an axis; NULL: kcoef
    int64_t       kcoef[MAX_AXES];
    LLVMValueRef  lane[MAX_AXES];       // i32 coordinate
    VEC(Coord)    moved[MAX_AXES];      // base part for a register coordinate of an axis with a run-time coefficient
    int          *tile_map[MAX_RANK][AFF_TILES];
    LLVMValueRef  uniform[MAX_RANK];    // the index's uniform part: i32 where it is narrow, else i64
    bool          narrow[MAX_RANK];     // the index fits in 32 bits
    bool          apart[MAX_RANK];      // addresses are made of it as such
    bool          together;             // of several
    LLVMValueRef  step[MAX_RANK];       // i32: from one index to the next, of those that are apart: bytes, or elements where they are together
    // its constant is counted with the registers instead: `more`, which is `shift` steps of the axis
    bool          near[MAX_RANK];
    int64_t       more[MAX_RANK], shift[MAX_AXES];
    // of the innermost dimension, when it is counted with the registers: a run begins `shifted` elements behind a word's begin (emit_words)
    int           shifted;
    bool          words;                // it comes by words, as such a run, or beside one
    int64_t       word;
    int64_t       behind;               // the constant of a load's innermost index, where that is the same for all lanes: its instruction adds it
    uint32_t      other;                // what a word out of range holds
    // lanes past the axis's end may be loaded: what is in range is there, and nothing counts them
    bool          any_lane[MAX_AXES];
    PredCache     cache;                // for addr_live
    LLVMValueRef  at;                   // for addr_at: where it was last
    int64_t       last[MAX_AXES];
    // made before the innermost loop, which changes nothing of it: checks of a dimension, all checks of an axis
    LLVMBasicBlockRef before;
    bool          outside[MAX_RANK], kept[MAX_AXES];
};

static LLVMValueRef mul64(Gen *g, LLVMValueRef a, LLVMValueRef b) { return b ? LLVMBuildMul(g->B, a, b, "") : a; }
static LLVMValueRef plus(Gen *g, LLVMValueRef a, LLVMValueRef b) { return !a ? b : !b ? a : LLVMBuildAdd(g->B, a, b, ""); }

static LLVMValueRef number(LLVMTypeRef t, int64_t v) { return LLVMConstInt(t, (unsigned long long)v, 1); }

static LLVMValueRef scale_of(Gen *g, LLVMTypeRef t, const AffAxis *x) {
    return x->scale ? gen_term(g, t, x->scale, 0, x->k) : number(t, x->k);
}

// Does something look at all lanes of the axis: a reduction, a product?
static bool counted(const Region *r, const Val *axis) {
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op))
        for (int i = 0; i < op->nin && op->code != OP_T_index && op->code != OP_T_live; i++)
            if (op->in[i] == axis) return true;
    return false;
}

// Another dimension's index follows from the axis, too, by a tile of its own: x[m + 1, m / 2]. It is in range where the axis's lanes are alive.
static bool goes_elsewhere(const Access *a, int d, const Val *axis) {
    for (int o = 0; o < a->nidx; o++)
        for (int i = 0; i < a->aff[o].ntile && o != d; i++) if (type_axis(&a->aff[o].tile[i].v->type, axis) >= 0) return true;
    return false;
}

// x[q + 1] and x[q] of two loads: what a register has of one a neighbour has of the other. Where the constant is
// counted with the registers, as a multiple of what a step of the axis is, both compute the same address in the same
// way, and are one (unroll.c).
static bool neighbours(const Addr *s, int d) {
    const Affine *x = &s->a.aff[d];
    if (x->naxis != 1 || x->ntile || x->axis[0].scale || x->c % x->axis[0].k || s->a.unit[d] || !s->stride[d]) return false;
    for (int o = 0; o < s->a.nidx; o++)
        for (int i = 0; i < s->a.aff[o].naxis && o != d; i++) if (s->a.aff[o].axis[i].axis == x->axis[0].axis) return false;
    return true;
}

// A number of an i32, whatever it is that it is kept as.
static bool fits(Gen *g, const Val *v) {
    Elem e = (Elem)v->type.elem;
    return gen_is32(g, v) || (e != EL_index && !elem_is_float(e) && e != EL_bool && elem_bits(e) + !elem_is_signed(e) <= 32);
}

// Which dimensions' indices are numbers of 32 bits, for their checks, and which of those for addresses. An index that is an axis
// itself adds constants to an address, register by register: innermost it is as good as it is.
static void narrow_indices(Gen *g, Addr *s) {
    const Access *a = &s->a;
    int size = elem_bytes(a->elem), n = 0;
    bool fits_wide = true;
    for (int d = 0; d < a->nidx; d++) {
        const Affine *x = &a->aff[d];
        if (a->unit[d] || (a->proved[d] && !x->ntile) || !fits(g, a->idx[d]) || !fact_size_small(g->facts, a->p->dim[d])) continue;
        s->narrow[d] = true;
        s->apart[d] = x->ntile || s->stride[d];
        n += s->apart[d];
    }
    s->together = n > 1 && fact_place_small(g->facts, a->param, s->apart);
    for (int d = 0; d < a->nidx; d++) {
        if (!s->apart[d]) continue;
        if (!s->together && s->stride[d]) fits_wide = fact_stride_small(g->facts, a->param, d, size);
        if (!fits_wide) { s->apart[d] = false; continue; }
        s->step[d] = s->stride[d] ? LLVMBuildTrunc(g->B, s->stride[d], g->i32, "") : gen_i32(g, 1);
        if (!s->together) s->step[d] = LLVMBuildMul(g->B, s->step[d], gen_i32(g, size), "");
    }
}

// ---- before the loop -----------------------------------------------------------------------------
//
// A window's rows are checked once for its columns: ptxas moves a comparison or two out of a loop and leaves the rest. At most
// as many as there are predicates to hold them.

static bool made_in(const Val *v, const Op *loop) {
    const Region *r = v->def ? v->def->parent : v->region;
    for (; r && r->owner; r = r->owner->parent) if (r->owner == loop) return true;
    return false;
}

static bool index_outside(const Access *a, int d, const Op *loop) {
    const Affine *x = &a->aff[d];
    bool in = false;
    for (int i = 0; i < x->nterm; i++) in |= made_in(x->term[i].v, loop);
    for (int i = 0; i < x->ntile; i++) in |= made_in(x->tile[i].v, loop);
    for (int i = 0; i < x->naxis; i++) in |= made_in(x->axis[i].axis, loop) || (x->axis[i].scale && made_in(x->axis[i].scale, loop));
    return !in;
}

static int coordinates(const Layout *l, int axis) {
    int n = 0, regs = layout_regs(l);
    for (int r = 0; r < regs; r++) {
        int same = 0;
        while (gen_reg_coord(l, axis, same) != gen_reg_coord(l, axis, r)) same++;
        n += same == r;
    }
    return n;
}

static int only_axis(const Addr *s, const Type *t);

static void checks_outside(Gen *g, Addr *s) {
    enum { MOST = 8, REGS = 64 };
    const LoopGen *loop = g->loop;
    const Access *a = &s->a;
    if (!loop || !loop->before || layout_regs(s->l) > REGS) return;
    for (int i = 0; i < s->type.rank; i++) {
        bool all = !made_in(s->type.axis[i], loop->op), some = false;
        for (int d = 0; d < a->nidx; d++) {
            if (a->proved[d] || only_axis(s, &a->idx[d]->type) != i) continue;
            all &= s->narrow[d] && index_outside(a, d, loop->op);
            some = true;
        }
        s->kept[i] = some && all && coordinates(s->l, i) <= MOST;
        if (s->kept[i]) s->before = loop->before;
    }
    for (int d = 0; d < a->nidx && s->before; d++) {
        int i = only_axis(s, &a->idx[d]->type);
        s->outside[d] = !a->proved[d] && i < s->type.rank && s->kept[i];
    }
}

// What is made next is made there: true. Back again with false.
static void make_outside(Addr *s, bool there, LLVMBasicBlockRef *here) {
    if (there) {
        *here = LLVMGetInsertBlock(s->g->B);
        LLVMPositionBuilderBefore(s->g->B, LLVMGetBasicBlockTerminator(s->before));
    } else {
        LLVMPositionBuilderAtEnd(s->g->B, *here);
    }
}

// x[i, j] beside x[i, j - 1]: what they share should be loaded the same way.
static bool beside_shifted(Gen *g, const Addr *s, const Op *op) {
    const Affine *f = &s->a.aff[s->a.inner];
    if (f->naxis != 1 || f->ntile || access_vec(&s->a, s->l) * elem_bytes(s->a.elem) != 4) return false;
    for (const Op *other = op->parent->first; other; other = other->next) {
        Access x;
        if (other->code != OP_T_load || other->in[0] != op->in[0] || other == op || !other->out[0]->layout) continue;
        access_of(g->facts, other, &x);
        const Affine *y = &x.aff[x.inner];
        bool same = x.inner == s->a.inner && y->naxis == 1 && y->axis[0].axis == f->axis[0].axis && y->nterm == f->nterm;
        for (int i = 0; i < f->nterm && same; i++) same = y->term[i].v == f->term[i].v && y->term[i].k == f->term[i].k;
        if (same && access_shifted(g->facts, &x, other->out[0]->layout)) return true;
    }
    return false;
}

static bool by_words(Gen *g, Addr *s, const Op *op) {
    if (!access_words(&s->a, &s->other)) return false;
    s->shifted = access_shifted(g->facts, &s->a, s->l);
    return s->words = s->shifted || beside_shifted(g, s, op);
}

// The lane's number in 64 bits.
static LLVMValueRef extended(const Addr *s, int i) {
    Gen *g = s->g;
    return s->type.axis[i]->def->nin > 2 ? LLVMBuildSExt(g->B, s->lane[i], g->i64, "") : LLVMBuildZExt(g->B, s->lane[i], g->i64, "");
}

// The constant of an index that is the same for all lanes, which is left without it; 0: as it was.
static int64_t taken_out(Affine *x) {
    enum { MOST = 1 << 20 };
    Affine left = *x;
    int64_t c = x->c;
    left.c = 0;
    for (int i = 0; i < x->nterm; i++) {
        const Op *d = x->term[i].v->def, *by = d && d->code == OP_T_binary && d->sub == OP_add ? d->in[1]->def : NULL;
        if (!by || by->code != OP_T_const || x->term[i].v->type.elem != EL_index) continue;
        if (by->imm > MOST || by->imm < -MOST || x->term[i].k > MOST || x->term[i].k < -MOST) continue;
        left.term[i].v = d->in[0];
        c += x->term[i].k * by->imm;
    }
    if (!c || c > MOST || c < -MOST || x->naxis || x->ntile) return 0;
    *x = left;
    return c;
}

static void open_addr(Gen *g, Addr *s, const Op *op, const Layout *l, const Type *type, bool registers) {
    memset(s, 0, sizeof *s);
    s->g = g;
    s->l = l;
    s->type = *type;
    access_of(g->facts, op, &s->a);
    Access *a = &s->a;
    for (int d = 0; d < a->nidx; d++) {
        bool inner = d == a->inner && !a->p->strided;
        s->stride[d] = inner || a->unit[d] ? NULL : gen_param(g, SLOT_STRIDE, a->param, d);
    }
    LLVMValueRef sum = NULL;
    if (registers && op->code == OP_T_load && by_words(g, s, op)) a->proved[a->inner] = false;
    if (registers && facts_are_narrow(g->facts)) {
        narrow_indices(g, s);
        checks_outside(g, s);
    }
    LLVMBasicBlockRef here = NULL;
    for (int d = 0; d < a->nidx; d++) {
        Affine rest = a->aff[d];
        bool apart = s->apart[d], inner = d == a->inner && !a->unit[d] && !s->words;
        if (op->code == OP_T_load && neighbours(s, d)) {
            s->near[d] = true;
            a->proved[d] &= !s->words;                        // as its neighbours, which may not be
            const Val *axis = rest.axis[0].axis;
            s->any_lane[type_axis(type, axis)] = !a->proved[d] && !counted(&g->f->body, axis) && !goes_elsewhere(a, d, axis);
            s->more[d] = rest.c;
            s->shift[type_axis(type, rest.axis[0].axis)] = rest.c / rest.axis[0].k;
            rest.c = 0;
        }
        if (s->words && d == a->inner) {
            s->word = rest.c - s->shifted;
            rest.c = 0;
        }
        if (s->outside[d]) make_outside(s, true, &here);
        s->uniform[d] = gen_affine(g, s->narrow[d] ? g->i32 : g->i64, &rest);
        if (s->outside[d]) make_outside(s, false, &here);
        LLVMValueRef from = s->uniform[d];
        if (registers && op->code == OP_T_load && inner && !s->stride[d] && !apart && (s->behind = taken_out(&rest)))
            from = gen_affine(g, s->narrow[d] ? g->i32 : g->i64, &rest);
        // of a unit it is 0 on all lanes that count
        if (!a->unit[d] && !apart) sum = plus(g, sum, mul64(g, s->narrow[d] ? LLVMBuildSExt(g->B, from, g->i64, "") : from, s->stride[d]));
        for (int i = 0; i < (a->unit[d] || apart ? 0 : a->aff[d].naxis); i++) {
            const AffAxis *x = &a->aff[d].axis[i];
            int pos = type_axis(type, x->axis);
            if (!s->stride[d] && !x->scale) { s->kcoef[pos] += x->k; continue; }
            s->coef[pos] = plus(g, s->coef[pos], mul64(g, scale_of(g, g->i64, x), s->stride[d]));
        }
        for (int t = 0; t < a->aff[d].ntile; t++) {
            int n = l ? layout_regs(l) : 1;
            int *map = NEW_N(g->arena, int, n);
            const Type *tt = &a->aff[d].tile[t].v->type;
            for (int r = 0; r < n && tt->rank; r++) map[r] = layout_project_reg(l, type, tt, r);
            s->tile_map[d][t] = map;
        }
    }
    for (int i = 0; i < type->rank; i++) {
        if (s->before) make_outside(s, true, &here);
        s->lane[i] = gen_lane_number(g, type->axis[i], gen_lane_coord(g, l, i));
        if (s->before) make_outside(s, false, &here);
        LLVMValueRef x = extended(s, i);
        if (s->coef[i]) sum = plus(g, sum, LLVMBuildMul(g->B, x, s->coef[i], ""));
        if (s->kcoef[i]) sum = plus(g, sum, s->kcoef[i] == 1 ? x : LLVMBuildMul(g->B, x, gen_i64(g, s->kcoef[i]), ""));
    }
    LLVMValueRef p = LLVMBuildPtrToInt(g->B, gen_param(g, SLOT_POINTER, a->param, 0), g->i64, "");
    s->base = sum ? LLVMBuildAdd(g->B, p, LLVMBuildMul(g->B, sum, gen_i64(g, elem_bytes(a->elem)), ""), "") : p;
}

// The position of a tile's axis, if it has one only; else how many axes there are.
static int only_axis(const Addr *s, const Type *t) { return t->rank == 1 ? type_axis(&s->type, t->axis[0]) : s->type.rank; }

// Bytes from a lane to that `by` further on along axis i: computed once for each.
static LLVMValueRef moved_by(Addr *s, int i, int64_t by) {
    Gen *g = s->g;
    for (uint32_t k = 0; k < s->moved[i].n; k++) if (s->moved[i].at[k].at == by) return s->moved[i].at[k].v;
    LLVMValueRef off = LLVMBuildMul(g->B, s->coef[i], gen_i64(g, by * elem_bytes(s->a.elem)), "");
    vec_push(g->arena, &s->moved[i], ((Coord){by, off}));
    return off;
}

static LLVMValueRef index_at(Addr *s, int d, int r);

// at + index * step, the product in 64 bits.
static LLVMValueRef wide(Gen *g, LLVMValueRef index, LLVMValueRef step, LLVMValueRef at) {
    LLVMValueRef args[] = {index, step, at};
    return gen_asm(g, g->i64, "mad.wide.s32 $0, $1, $2, $3;", LLVMIsAConstantInt(step) ? "=l,r,n,l" : "=l,r,r,l", 3, args, false, false);
}

// Address of register r: a 64-bit value and a constant byte offset.
static LLVMValueRef address(Addr *s, int r, int64_t *imm) {
    Gen *g = s->g;
    Access *a = &s->a;
    int size = elem_bytes(a->elem);
    LLVMValueRef at = s->base, place = NULL;
    *imm = (s->word + s->behind) * size;
    for (int i = 0; i < s->type.rank; i++) {
        int64_t c = gen_reg_coord(s->l, i, r);
        *imm += c * s->kcoef[i] * size;
        c += s->shift[i];
        if (!c || !s->coef[i]) continue;
        at = LLVMBuildAdd(g->B, at, moved_by(s, i, c), "");
    }
    // Axis by axis, then what has several: registers that share a coordinate share the sum so far.
    for (int i = 0; i <= s->type.rank; i++) {
        LLVMValueRef part = NULL;
        for (int d = 0; d < a->nidx; d++)
            for (int t = 0; t < (a->unit[d] || s->apart[d] ? 0 : a->aff[d].ntile); t++) {
                const AffTerm *x = &a->aff[d].tile[t];
                if (only_axis(s, &x->v->type) != i) continue;
                LLVMValueRef v = mul64(g, gen_get64(g, x->v, s->tile_map[d][t][r]), s->stride[d]);
                part = plus(g, part, LLVMBuildMul(g->B, v, gen_i64(g, x->k * size), ""));
            }
        at = plus(g, part, at);
        for (int d = 0; d < a->nidx; d++) {
            if (!s->apart[d] || only_axis(s, &a->idx[d]->type) != i) continue;
            if (!s->together) at = wide(g, index_at(s, d, r), s->step[d], at);
            else place = plus(g, place, LLVMBuildMul(g->B, index_at(s, d, r), s->step[d], ""));
        }
    }
    return place ? wide(g, place, gen_i32(g, size), at) : at;
}

// The index of dimension d at register r: i32 where it is narrow.
static LLVMValueRef index_at(Addr *s, int d, int r) {
    Gen *g = s->g;
    LLVMTypeRef t = s->narrow[d] ? g->i32 : g->i64;
    const Affine *f = &s->a.aff[d];
    LLVMValueRef x = s->uniform[d];
    if (s->words && d == s->a.inner && s->word) x = LLVMBuildAdd(g->B, x, number(t, s->word), "");
    for (int i = 0; i < f->naxis; i++) {
        int pos = type_axis(&s->type, f->axis[i].axis);
        LLVMValueRef lane = s->narrow[d] ? s->lane[pos] : extended(s, pos);
        if (s->near[d]) {
            x = LLVMBuildAdd(g->B, x, LLVMBuildMul(g->B, lane, number(t, f->axis[i].k), ""), "");
            x = LLVMBuildAdd(g->B, x, number(t, gen_reg_coord(s->l, pos, r) * f->axis[i].k + s->more[d]), "");
            continue;
        }
        LLVMValueRef c = LLVMBuildAdd(g->B, s->lane[pos], gen_i32(g, gen_reg_coord(s->l, pos, r)), "");
        if (!s->narrow[d]) c = s->type.axis[pos]->def->nin > 2 ? LLVMBuildSExt(g->B, c, g->i64, "") : LLVMBuildZExt(g->B, c, g->i64, "");
        x = LLVMBuildAdd(g->B, x, LLVMBuildMul(g->B, c, scale_of(g, t, &f->axis[i]), ""), "");
    }
    for (int i = 0; i < f->ntile; i++)
        x = LLVMBuildAdd(g->B, x, gen_term(g, t, f->tile[i].v, s->tile_map[d][i][r], f->tile[i].k), "");
    return x;
}

// The same for all lanes, and it and the dimension are numbers of 32 bits, whatever addresses are.
static bool small_check(const Addr *s, int d) {
    Gen *g = s->g;
    const Val *x = s->a.idx[d];
    LExpr n = s->a.p->dim[d];
    return x->type.rank == 0 && g->f->fast && n.n == 1 && n.at[0].op == L_DIM && g->f->launch->dims[n.at[0].arg].fixed <= INT32_MAX &&
           gen_is32(g, x) && fact_range(g->facts, x).lo >= 0;
}

// NULL: always. `alive` leaves out the range checks: what `else` must not replace.
static LLVMValueRef predicate(Addr *s, PredCache *c, int r, int span, LLVMValueRef *in_range) {
    Gen *g = s->g;
    LLVMValueRef p = NULL, q = NULL, range[MAX_AXES + 1] = {0};
    int rank = s->type.rank;
    LLVMBasicBlockRef here = NULL;
    (void)span;
    for (int d = 0; d < s->a.nidx; d++) {                       // by the axis that the index has; several: last
        if (s->a.proved[d]) continue;
        bool uniform = s->a.idx[d]->type.rank == 0;
        if (uniform && c->made) continue;
        if (s->outside[d]) make_outside(s, true, &here);
        LLVMValueRef n = gen_lexpr(g, s->a.p->dim[d]);
        LLVMValueRef index = index_at(s, d, r);
        bool small = s->narrow[d] || small_check(s, d);
        if (small) n = LLVMBuildTrunc(g->B, n, g->i32, "");
        if (small && !s->narrow[d]) index = LLVMBuildTrunc(g->B, index, g->i32, "");
        LLVMValueRef ok = LLVMBuildICmp(g->B, LLVMIntULT, index, n, "");
        if (uniform) c->uniform = gen_both(g, c->uniform, ok);
        else {
            LLVMValueRef *of = &range[only_axis(s, &s->a.idx[d]->type)];
            *of = gen_both(g, *of, ok);
        }
        if (s->outside[d]) make_outside(s, false, &here);
    }
    c->made = true;
    for (int i = 0; i <= rank; i++) {                           // registers that share a coordinate share its part
        LLVMValueRef x = NULL;
        bool kept = i < rank && s->kept[i];
        if (kept) make_outside(s, true, &here);
        if (i < rank && !s->any_lane[i] && !gen_always_live(g, s->type.axis[i], s->l, i)) {
            int64_t at = gen_reg_coord(s->l, i, r);
            for (uint32_t k = 0; k < c->live[i].n; k++) if (c->live[i].at[k].at == at) x = c->live[i].at[k].v;
            if (!x) {
                x = gen_live(g, s->type.axis[i], s->l, i, r, 1);
                vec_push(g->arena, &c->live[i], ((Coord){at, x}));
            }
        }
        x = gen_both(g, x, range[i]);
        if (kept) make_outside(s, false, &here);
        p = gen_both(g, p, x);
        q = gen_both(g, q, range[i]);
    }
    *in_range = gen_both(g, q, c->uniform);
    return gen_both(g, p, c->uniform);
}

// ---- the instructions ----------------------------------------------------------------------------

// What one register of an access holds: an f32, an f64, a word of small elements, or a part of a word.
typedef struct Unit { LLVMTypeRef t; int bytes; char reg; const char *bits; } Unit;

static Unit unit_of(Gen *g, Elem e, int bytes) {
    if (e == EL_f32) return (Unit){g->f32, 4, 'f', "b32"};
    if (e == EL_f64) return (Unit){g->f64, 8, 'd', "b64"};
    if (elem_bytes(e) == 8) return (Unit){g->i64, 8, 'l', "b64"};
    return bytes == 1   ? (Unit){g->i16, 1, 'h', "u8"}
           : bytes == 2 ? (Unit){g->i16, 2, 'h', "b16"}
                        : (Unit){g->i32, 4, 'r', "b32"};
}

static void registers(Buf *text, int n) {
    buf_puts(text, n > 1 ? "{" : "");
    for (int i = 0; i < n; i++) buf_printf(text, "%s$%d", i ? ", " : "", i);
    buf_puts(text, n > 1 ? "}" : "");
}

static const char *vector(int n) { return n == 4 ? ".v4" : n == 2 ? ".v2" : ""; }

// Loads `bytes` (1, 2, 4, 8, 16) at addr + imm into out[], one value a unit. Less than 4 bytes come into a register of
// 32 bits: of two of 16 bits ptxas makes halves of one, and waits for each load to put it there.
//
// `.nc` says that nobody writes the memory while the kernel runs. A kernel that may start before those that it follows
// have ended runs while they write: ptxas moves such loads above griddepcontrol.wait, and they see what was there
// before. So it is for what no launch writes.
static void load_units(Gen *g, const Addr *s, LLVMValueRef addr, int64_t imm, LLVMValueRef pred, int bytes,
                       LLVMValueRef *other, LLVMValueRef *out) {
    Unit u = unit_of(g, s->a.elem, bytes);
    if (bytes < 4) u = (Unit){g->i32, bytes, 'r', bytes == 2 ? "u16" : "u8"};            // a whole register each, see above
    int n = bytes / u.bytes;
    bool readonly = s->a.p->mode == PM_IN, constant = readonly && (s->a.p->fixed || !g->f->early || !g->f->target->has_pdl);
    Buf text = {0}, cons = {0};
    LLVMValueRef args[3 + 4] = {addr, gen_i32(g, imm), pred};
    int nargs = pred ? 3 : 2;
    for (int i = 0; i < n && pred; i++) {
        buf_printf(&text, "mov.%s $%d, ", u.bytes < 4 ? "b32" : u.bits, i);
        if (!other) { buf_puts(&text, "0;\n"); continue; }
        buf_printf(&text, "$%d;\n", n + nargs);
        args[nargs++] = u.bytes < 4 ? LLVMBuildZExt(g->B, other[i], g->i32, "") : other[i];
    }
    if (pred) buf_printf(&text, "@$%d ", n + 2);
    buf_printf(&text, "ld.global%s%s.%s ", constant ? ".nc" : "", vector(n), u.bits);
    registers(&text, n);
    buf_printf(&text, ", [$%d + $%d];", n, n + 1);
    for (int i = 0; i < n; i++) buf_printf(&cons, "=%s%c,", pred ? "&" : "", u.reg);
    buf_printf(&cons, "l,n%s", pred ? ",b" : "");
    for (int i = 3; i < nargs; i++) buf_printf(&cons, ",%c", u.reg);
    buf_puts(&cons, readonly ? "" : ",~{memory}");
    LLVMTypeRef types[4] = {u.t, u.t, u.t, u.t};
    LLVMTypeRef ret = n == 1 ? u.t : LLVMStructTypeInContext(g->C, types, (unsigned)n, 0);
    LLVMValueRef x = gen_asm(g, ret, text.p, cons.p, nargs, args, !readonly, false);
    for (int i = 0; i < n; i++) out[i] = n == 1 ? x : LLVMBuildExtractValue(g->B, x, (unsigned)i, "");
    if (bytes < 4) out[0] = LLVMBuildTrunc(g->B, out[0], g->i16, "");
    buf_free(&text);
    buf_free(&cons);
}

// Stored, or added to what is there.
static void store_units(Gen *g, const Addr *s, bool added, LLVMValueRef addr, int64_t imm, LLVMValueRef pred, int bytes,
                        LLVMValueRef *in) {
    Unit u = unit_of(g, s->a.elem, bytes);
    int n = bytes / u.bytes;
    Buf text = {0}, cons = {0};
    LLVMValueRef args[8];
    if (pred) buf_printf(&text, "@$%d ", n + 2);
    buf_printf(&text, "%s%s.%s [$%d + $%d], ", added ? "red.global.add" : "st.global", vector(n), added ? "f32" : u.bits, n, n + 1);
    registers(&text, n);
    buf_puts(&text, ";");
    for (int i = 0; i < n; i++) {
        buf_printf(&cons, "%c,", u.reg);
        args[i] = in[i];
    }
    buf_printf(&cons, "l,n%s,~{memory}", pred ? ",b" : "");
    args[n] = addr;
    args[n + 1] = gen_i32(g, imm);
    args[n + 2] = pred;
    gen_asm(g, LLVMVoidTypeInContext(g->C), text.p, cons.p, n + 2 + (pred != NULL), args, true, false);
    buf_free(&text);
    buf_free(&cons);
}

static LLVMValueRef as_element(Gen *g, LLVMValueRef w, Elem e) {       // a loaded unit -> an element
    if (e == EL_bool) return LLVMBuildICmp(g->B, LLVMIntNE, w, LLVMConstInt(LLVMTypeOf(w), 0, 0), "");
    return elem_bits(e) == 8 ? LLVMBuildTrunc(g->B, w, g->i8, "") : w;
}

static LLVMValueRef byte_is_set(Gen *g, LLVMValueRef unit, int byte) {       // of several bools in a unit
    LLVMTypeRef t = LLVMTypeOf(unit);
    LLVMValueRef x = LLVMBuildAnd(g->B, unit, LLVMConstInt(t, 0xffull << 8 * byte, 0), "");
    return LLVMBuildICmp(g->B, LLVMIntNE, x, LLVMConstInt(t, 0, 0), "");
}

static LLVMValueRef as_unit(Gen *g, LLVMValueRef x, Elem e) {
    return e == EL_bool || elem_bits(e) == 8 ? LLVMBuildZExt(g->B, x, g->i16, "") : x;
}

// ---- runs that begin within a word -----------------------------------------------------------------
//
//     x[i, j - 1], x[i, j], x[i, j + 1] of bytes, four of them a lane:     w0 | w1 | w2, words of the row
//                                                                          bytes 3 .. 6, 4 .. 7, 5 .. 8 of these
//
// What taps share is loaded once: their addresses differ in a constant alone. Rows are whole words (access_shifted), so a word is in range or not.

static LLVMValueRef word_at(Gen *g, Addr *s, PredCache *cache, int r, int64_t word) {
    int64_t imm, was = s->word;
    LLVMValueRef out, in_range, before = gen_i32(g, (int32_t)s->other);
    s->word = word;
    LLVMValueRef p = predicate(s, cache, r, 1, &in_range), at = address(s, r, &imm);
    load_units(g, s, at, imm, p, 4, s->other ? &before : NULL, &out);
    s->word = was;
    return out;
}

static void emit_words(Gen *g, Op *op, Addr *s) {
    Val *o = op->out[0];
    PredCache cache = {0};
    int size = elem_bytes(s->a.elem), each = 4 / size, n = gen_tile(g, o)->n;
    for (int r = 0; r < n; r += each) {
        LLVMValueRef lo = word_at(g, s, &cache, r, s->word), hi = s->shifted ? word_at(g, s, &cache, r, s->word + each) : NULL;
        LLVMValueRef args[] = {hi, lo, gen_i32(g, 8 * size * s->shifted)};
        gen_set_word(g, o, r, each, hi ? gen_call(g, "llvm.fshr.i32", 3, args, 1, (LLVMTypeRef[]){g->i32}) : lo);
    }
}

// ---- rows that begin anywhere (pass/align_rows.c) -------------------------------------------------------
//
//     places    | d d d d d 0 1 2 | 3 .. 10 | .. | 2995 .. 3000 d d |        a vector of 8 lies in the row, at one of its ends, or nowhere
//     load      all that touch the row, as far as the tensor goes: only the last row's last may not, and is loaded by elements
//     store     what lies in the row; of ends their elements, by the few lanes that have them

static LLVMValueRef under(Gen *g, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildICmp(g->B, LLVMIntULT, a, b, ""); }
static LLVMValueRef add32(Gen *g, LLVMValueRef a, int64_t k) { return k ? LLVMBuildAdd(g->B, a, gen_i32(g, k), "") : a; }

// The number in its row of this lane's first place.
static LLVMValueRef row_first(Addr *s) {
    return LLVMBuildAdd(s->g->B, s->lane[0], gen_as32(s->g, axis_lo(s->type.axis[0])), "");
}

static LLVMValueRef row_length(Addr *s) { return LLVMBuildTrunc(s->g->B, gen_lexpr(s->g, s->a.p->dim[s->a.inner]), s->g->i32, ""); }

// Elements of the tensor from this row's first on, as far as it matters.
static LLVMValueRef row_left(Addr *s, LLVMValueRef n, int vec) {
    Gen *g = s->g;
    const Access *a = &s->a;
    LLVMValueRef last = NULL;
    for (int d = 0; d < a->inner; d++) {
        LLVMValueRef end = LLVMBuildSub(g->B, gen_lexpr(g, a->p->dim[d]), gen_i64(g, 1), "");
        last = gen_both(g, last, LLVMBuildICmp(g->B, LLVMIntEQ, gen_get64(g, a->idx[d], 0), end, ""));
    }
    return LLVMBuildSelect(g->B, last, n, add32(g, n, vec), "");
}

// Of so many places: how many bytes of them an asynchronous copy brings.
static LLVMValueRef row_bytes(Addr *s, int r, int vec) {
    Gen *g = s->g;
    if (gen_always_live(g, s->type.axis[0], s->l, 0)) return NULL;
    LLVMValueRef c = add32(g, row_first(s), gen_reg_coord(s->l, 0, r)), n = row_length(s);
    LLVMValueRef some = LLVMBuildSub(g->B, row_left(s, n, vec), c, ""), all = gen_i32(g, vec);
    some = gen_call(g, "llvm.smin", 2, (LLVMValueRef[]){some, all}, 1, &g->i32);
    some = LLVMBuildSelect(g->B, under(g, add32(g, c, vec - 1), add32(g, n, vec - 1)), some, gen_i32(g, 0), "");
    return LLVMBuildMul(g->B, some, gen_i32(g, elem_bytes(s->a.elem)), "");
}

static LLVMValueRef element_of(Gen *g, const Addr *s, LLVMValueRef *words, int e) {
    int size = elem_bytes(s->a.elem);
    if (size >= 4) return words[e];
    LLVMValueRef w = words[e * size / 4];
    int shift = e * size % 4 * 8;
    if (shift) w = LLVMBuildLShr(g->B, w, gen_i32(g, shift), "");
    return LLVMBuildTrunc(g->B, w, g->i16, "");
}

static void row_is(Gen *g, const Op *op, const Addr *s, int vec, LLVMValueRef (*words)[4]) {
    Val *o = op->out[0];
    int size = elem_bytes(s->a.elem), each = size < 4 ? 4 / size : 1;
    for (int r = 0, n = gen_tile(g, o)->n; r < n; r += each) {
        LLVMValueRef w = words[r / vec][r % vec / each];
        if (size >= 4) gen_set(g, o, r, as_element(g, w, s->a.elem));
        else gen_set_word(g, o, r, each, w);
    }
}

static void load_row(Gen *g, Op *op, Addr *s, int vec) {
    Val *o = op->out[0];
    int n = gen_tile(g, o)->n, size = elem_bytes(s->a.elem), each = size < 4 ? 4 / size : 1, units = vec / each, k = 0;
    bool all = gen_always_live(g, s->type.axis[0], s->l, 0);
    LLVMValueRef first = row_first(s), length = row_length(s), left = row_left(s, length, vec), most = LLVMBuildSub(g->B, left, gen_i32(g, vec - 1), "");
    LLVMValueRef (*words)[4] = (void *)NEW_N(g->arena, LLVMValueRef, n / vec * 4), *rest = NEW_N(g->arena, LLVMValueRef, n / vec * 4);
    LLVMValueRef end = gen_call(g, "llvm.smin", 2, (LLVMValueRef[]){length, most}, 1, &g->i32);        // the first place of none
    for (int r = 0; r < n; r += vec, k++) {
        int64_t imm;
        LLVMValueRef c = add32(g, first, gen_reg_coord(s->l, 0, r) + vec - 1), at = address(s, r, &imm);
        LLVMValueRef p = all ? NULL : under(g, c, add32(g, end, vec - 1));
        load_units(g, s, at, imm, p, vec * size, NULL, words[k]);
    }
    LLVMBasicBlockRef from = LLVMGetInsertBlock(g->B), ends = all ? NULL : gen_block(g, "ends"), go = all ? NULL : gen_block(g, "row");
    if (all) { row_is(g, op, s, vec, words); return; }
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntEQ, left, length, ""), ends, go);
    LLVMPositionBuilderAtEnd(g->B, ends);
    k = 0;
    for (int r = 0; r < n; r += vec, k++) {
        int64_t imm;
        LLVMValueRef c = add32(g, first, gen_reg_coord(s->l, 0, r)), at = address(s, r, &imm);
        LLVMValueRef whole = under(g, add32(g, c, vec - 1), add32(g, end, vec - 1));
        for (int i = 0; i < units; i++) {
            LLVMValueRef word = words[k][i];
            for (int e = 0; e < each; e++) {
                LLVMValueRef one, in = under(g, add32(g, c, i * each + e), length);
                in = LLVMBuildAnd(g->B, in, LLVMBuildNot(g->B, whole, ""), "");
                load_units(g, s, at, imm + (i * each + e) * size, in, size, NULL, &one);
                if (each == 1) { word = LLVMBuildSelect(g->B, in, one, word, ""); continue; }
                one = LLVMBuildZExt(g->B, one, g->i32, "");
                word = LLVMBuildOr(g->B, word, LLVMBuildShl(g->B, one, gen_i32(g, e * size * 8), ""), "");
            }
            rest[k * 4 + i] = word;
        }
    }
    ends = LLVMGetInsertBlock(g->B);
    LLVMBuildBr(g->B, go);
    LLVMPositionBuilderAtEnd(g->B, go);
    k = 0;
    for (int r = 0; r < n; r += vec, k++)
        for (int i = 0; i < units; i++) {
            LLVMValueRef x = LLVMBuildPhi(g->B, LLVMTypeOf(words[k][i]), "");
            LLVMAddIncoming(x, (LLVMValueRef[]){words[k][i], rest[k * 4 + i]}, (LLVMBasicBlockRef[]){from, ends}, 2);
            words[k][i] = x;
        }
    row_is(g, op, s, vec, words);
}

static void store_row(Gen *g, Op *op, Addr *s, int vec) {
    Val *v = op->in[1 + op->nidx];
    const Layout *l = v->layout;
    int n = layout_regs(l), size = elem_bytes(s->a.elem), each = size < 4 ? 4 / size : 1, units = vec / each, k = 0;
    bool all = gen_always_live(g, s->type.axis[0], l, 0);
    LLVMValueRef first = row_first(s), length = row_length(s), owner = gen_owner(g, l), any = NULL;
    LLVMValueRef (*words)[4] = (void *)NEW_N(g->arena, LLVMValueRef, n / vec * 4), *ends = NEW_N(g->arena, LLVMValueRef, n / vec);
    LLVMValueRef whole = LLVMBuildSub(g->B, length, gen_i32(g, vec - 1), "");
    whole = gen_call(g, "llvm.smax", 2, (LLVMValueRef[]){whole, gen_i32(g, 0)}, 1, &g->i32);
    for (int r = 0; r < n; r += vec, k++) {
        int64_t imm;
        LLVMValueRef c = add32(g, first, gen_reg_coord(l, 0, r)), at = address(s, r, &imm);
        LLVMValueRef in = all ? NULL : under(g, c, whole), touches = under(g, add32(g, c, vec - 1), add32(g, length, vec - 1));
        for (int i = 0; i < units; i++)
            words[k][i] = size >= 4 ? as_unit(g, gen_get(g, v, r + i), s->a.elem) : gen_word(g, v, r + i * each, each);
        store_units(g, s, false, at, imm, gen_both(g, in, owner), vec * size, words[k]);
        if (all) continue;
        ends[k] = gen_both(g, LLVMBuildAnd(g->B, touches, LLVMBuildNot(g->B, in, ""), ""), owner);
        any = any ? LLVMBuildOr(g->B, any, ends[k], "") : ends[k];
    }
    if (all) return;
    LLVMBasicBlockRef some = gen_block(g, "ends"), go = gen_block(g, "row");
    LLVMBuildCondBr(g->B, any, some, go);
    LLVMPositionBuilderAtEnd(g->B, some);
    k = 0;
    for (int r = 0; r < n; r += vec, k++) {
        int64_t imm;
        LLVMValueRef c = add32(g, first, gen_reg_coord(l, 0, r)), at = address(s, r, &imm);
        for (int e = 0; e < vec; e++) {
            LLVMValueRef one = element_of(g, s, words[k], e), in = under(g, add32(g, c, e), length);
            store_units(g, s, false, at, imm + e * size, LLVMBuildAnd(g->B, in, ends[k], ""), size, &one);
        }
    }
    LLVMBuildBr(g->B, go);
    LLVMPositionBuilderAtEnd(g->B, go);
}

// ---- the ops -------------------------------------------------------------------------------------

// In a loop that repeats another one beside its sums no register is left for an address for each row (pass/infinities.c).
static bool in_repeat(const Op *op) {
    for (const Op *loop = op->parent->owner; loop; loop = loop->parent->owner) if (loop->flags & REPEATS) return true;
    return false;
}

void emit_load(Gen *g, Op *op) {
    Val *o = op->out[0];
    Elem e = (Elem)o->type.elem;
    int n = gen_tile(g, o)->n, size = elem_bytes(e);
    Addr s;
    PredCache cache = {0};
    bool step = in_repeat(op);
    gen_order(g, op);
    if (gen_load_is_copied(g, op)) return;                      // keep_put does both
    const Layout *l = o->type.rank ? o->layout : layout_replicated(g->arena, 1);
    open_addr(g, &s, op, l, &o->type, !step);
    int vec = access_vec(&s.a, l);
    Val *other = op->flags & HAS_ELSE ? op->in[1 + op->nidx] : NULL;
    int *other_map = other ? gen_reg_map(g, o, other) : NULL;
    if (s.words) { emit_words(g, op, &s); return; }
    if (op->flags & FROM_16 && vec * size >= 4 && vec > 1) { load_row(g, op, &s, vec); return; }
    if (op->flags & FROM_16) vec = 1;
    for (int r = 0; r < n; r += vec) {
        int64_t imm;
        LLVMValueRef words[4], in_range, before[4];
        LLVMValueRef p = predicate(&s, &cache, r, vec, &in_range), at = step ? addr_at(&s, r, &imm) : address(&s, r, &imm);
        bool each = other && in_range && (vec == 1 || size >= 4) && vec <= 4;      // a unit is an element: it holds `else` before
        for (int i = 0; i < vec && each; i++) before[i] = gen_get(g, other, other_map[r + i]);
        load_units(g, &s, at, imm, p, vec * size, each ? before : NULL, words);
        for (int i = 0; i < vec; i++) {
            if (e == EL_bool && vec > 1) {
                gen_set(g, o, r + i, byte_is_set(g, words[i / 4], i % 4));
            } else if (size >= 4 || vec * size < 4) {
                if (vec > 1 && size < 4) {                              // two 8-bit elements in a 16-bit unit
                    LLVMValueRef w = LLVMBuildZExt(g->B, words[0], g->i32, "");
                    gen_set_word(g, o, r, vec, w);
                    break;
                }
                gen_set(g, o, r + i, as_element(g, words[i], e));
            } else if (i % (4 / size) == 0) {
                gen_set_word(g, o, r + i, 4 / size, words[i * size / 4]);
            }
        }
        if (!other || !in_range || each) continue;
        for (int i = 0; i < vec; i++)
            gen_set(g, o, r + i,
                    LLVMBuildSelect(g->B, in_range, gen_get(g, o, r + i), gen_get(g, other, other_map[r + i]), ""));
    }
}

void emit_store(Gen *g, Op *op) {
    Val *v = op->in[1 + op->nidx];
    Elem e = (Elem)v->type.elem;
    int size = elem_bytes(e);
    Addr s;
    PredCache cache = {0};
    gen_order(g, op);
    const Layout *l = v->layout;
    if (!v->type.rank) l = layout_replicated(g->arena, g->f->warps);
    open_addr(g, &s, op, l, &v->type, true);
    int vec = access_vec(&s.a, l), n = layout_regs(l);
    if (op->flags & FROM_16 && vec * size >= 4 && vec > 1) { store_row(g, op, &s, vec); return; }
    if (op->flags & FROM_16) vec = 1;
    LLVMValueRef owner = gen_owner(g, l);
    for (int r = 0; r < n; r += vec) {
        int64_t imm;
        LLVMValueRef words[4], in_range;
        LLVMValueRef p = gen_both(g, predicate(&s, &cache, r, vec, &in_range), owner), at = address(&s, r, &imm);
        for (int i = 0; i < vec; i++) {
            if (size >= 4) words[i] = as_unit(g, gen_get(g, v, r + i), e);
            else if (vec * size < 4) {
                words[0] = vec == 1 ? as_unit(g, gen_get(g, v, r), e)
                                    : LLVMBuildTrunc(g->B, gen_word(g, v, r, vec), g->i16, "");
                break;
            } else if (i % (4 / size) == 0) {
                words[i * size / 4] = gen_word(g, v, r + i, 4 / size);
            }
        }
        store_units(g, &s, false, at, imm, p, vec * size, words);
    }
}

// A tile added to memory, whose old values nobody wants: as a store, with several elements a lane where the target has that. False: places
// are named by data, lie apart, or are no f32.
bool gen_red(Gen *g, Op *op) {
    const Val *o = op->out[0], *x = op->in[1 + op->nidx];
    Addr s;
    PredCache cache = {0};
    if (op->sub != TA_add || o->type.elem != EL_f32 || !o->type.rank || val_used(&g->f->body, o)) return false;
    access_of(g->facts, op, &s.a);
    if (access_rows_scattered(&s.a) || s.a.p->strided || s.a.contiguous < 0) return false;
    const Layout *l = o->layout;
    open_addr(g, &s, op, l, &o->type, true);
    int vec = g->f->target->has_red_vec ? access_vec(&s.a, l) : 1, n = gen_tile(g, o)->n, *map = gen_reg_map(g, o, x);
    LLVMValueRef owner = gen_owner(g, l);
    if (vec > 1) gen_need(g, offsetof(Target, has_red_vec));
    for (int r = 0; r < n; r += vec) {
        int64_t imm;
        LLVMValueRef words[4], in_range, p = gen_both(g, predicate(&s, &cache, r, vec, &in_range), owner), at = address(&s, r, &imm);
        for (int i = 0; i < vec; i++) words[i] = gen_get(g, x, map[r + i]);
        store_units(g, &s, true, at, imm, p, vec * elem_bytes(EL_f32), words);
    }
    return true;
}

// ---- for llvm/async_copy.c -----------------------------------------------------------------------------

Addr *addr_open(Gen *g, const Op *op, const Layout *l, const Type *type) {
    Addr *s = NEW(g->arena, Addr);
    open_addr(g, s, op, l, type, false);
    return s;
}

// As `address`, but from the register asked for last: one step a stride, not a product a row, stays alive in a loop.
LLVMValueRef addr_at(Addr *s, int reg, int64_t *imm) {
    Gen *g = s->g;
    Access *a = &s->a;
    int size = elem_bytes(a->elem);
    for (int d = 0; d < a->nidx; d++) if (a->aff[d].ntile) return address(s, reg, imm);
    if (!s->at) s->at = s->base;
    *imm = (s->word + s->behind) * size;
    for (int i = 0; i < s->type.rank; i++) {
        int64_t c = gen_reg_coord(s->l, i, reg), by = c + s->shift[i] - s->last[i];
        *imm += c * s->kcoef[i] * size;
        c += s->shift[i];
        if (!by || !s->coef[i]) continue;
        s->at = LLVMBuildAdd(g->B, s->at, moved_by(s, i, by), "");
        s->last[i] = c;
    }
    return s->at;
}

LLVMValueRef addr_live(Addr *s, int reg) {
    LLVMValueRef in_range;
    if (s->a.op->flags & FROM_16) return row_bytes(s, reg, access_vec(&s->a, s->l));
    return predicate(s, &s->cache, reg, 1, &in_range);
}
