// The kernel as an LLVM function: parameters, the program's number, regions, loops, small helpers.
//
// Control flow is uniform, so a region becomes plain blocks and a carried tile becomes one phi per
// register. Several one-warp programs may share a block; a warp whose program does not exist leaves at
// once, which is why such kernels may hold no block barrier.
#include "lower/llvm/dot.h"

#include <string.h>

// ---- small helpers -------------------------------------------------------------------------------

LLVMValueRef gen_i32(Gen *g, int64_t v) { return LLVMConstInt(g->i32, (unsigned long long)v, 1); }
LLVMValueRef gen_i64(Gen *g, int64_t v) { return LLVMConstInt(g->i64, (unsigned long long)v, 1); }
LLVMBasicBlockRef gen_block(Gen *g, const char *name) { return LLVMAppendBasicBlockInContext(g->C, g->fn, name); }

// LLVM takes a thousand instructions to find an intrinsic by its name: those of one type are kept.
static Intrinsic *known(Gen *g, const char *name, LLVMTypeRef type) {
    uint32_t h = (uint32_t)((uintptr_t)type >> 4);
    for (const char *p = name; *p; p++) h = (h ^ (uint8_t)*p) * 16777619u;
    return &g->known[(h ^ h >> 15) % (sizeof g->known / sizeof *g->known)];
}

LLVMValueRef gen_try(Gen *g, const char *name, int n, LLVMValueRef *args, int ntypes, LLVMTypeRef *types) {
    LLVMTypeRef type = ntypes == 1 ? types[0] : NULL;
    Intrinsic *k = ntypes < 2 ? known(g, name, type) : NULL;
    if (!k || !k->f || k->type != type || strcmp(k->name, name) != 0) {
        unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
        if (!id) return NULL;
        LLVMValueRef f = LLVMGetIntrinsicDeclaration(g->M, id, types, LLVMIntrinsicIsOverloaded(id) ? (size_t)ntypes : 0);
        if (!k) return LLVMBuildCall2(g->B, LLVMGlobalGetValueType(f), f, args, (unsigned)n, "");
        *k = (Intrinsic){.name = arena_printf(g->arena, "%s", name), .type = type, .f = f, .ft = LLVMGlobalGetValueType(f)};
    }
    return LLVMBuildCall2(g->B, k->ft, k->f, args, (unsigned)n, "");
}

LLVMValueRef gen_call(Gen *g, const char *name, int n, LLVMValueRef *args, int ntypes, LLVMTypeRef *types) {
    LLVMValueRef x = gen_try(g, name, n, args, ntypes, types);
    if (!x) ice("LLVM has no intrinsic %s", name);
    return x;
}

void gen_need(Gen *g, size_t cap) {
    for (int i = 0; i < cap_count; i++)
        if (cap_table[i].offset == cap && cap_table[i].since > g->ptx_version) g->ptx_version = cap_table[i].since;
}

LLVMValueRef gen_asm(Gen *g, LLVMTypeRef ret, const char *text, const char *constraints, int n, LLVMValueRef *args,
                     bool effect, bool convergent) {
    LLVMTypeRef types[520];
    if (n > 520) ice("inline assembly with %d operands", n);
    for (int i = 0; i < n; i++) types[i] = LLVMTypeOf(args[i]);
    LLVMTypeRef ft = LLVMFunctionType(ret, types, (unsigned)n, 0);
    LLVMValueRef f = LLVMGetInlineAsm(ft, text, strlen(text), constraints, strlen(constraints), effect, 0,
                                      LLVMInlineAsmDialectATT, 0);
    LLVMValueRef call = LLVMBuildCall2(g->B, ft, f, args, (unsigned)n, "");
    unsigned nounwind = LLVMGetEnumAttributeKindForName("nounwind", 8),
             conv = LLVMGetEnumAttributeKindForName("convergent", 10);
    unsigned memory = LLVMGetEnumAttributeKindForName("memory", 6);
    LLVMAddCallSiteAttribute(call, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(g->C, nounwind, 0));
    if (convergent) LLVMAddCallSiteAttribute(call, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(g->C, conv, 0));
    if (!effect) LLVMAddCallSiteAttribute(call, LLVMAttributeFunctionIndex, LLVMCreateEnumAttribute(g->C, memory, 0));
    return call;
}

bool gen_is32(Gen *g, const Val *v) {
    if (v->type.elem != EL_index) return false;
    uint8_t *known = &g->narrow[v->id];                        // 1: no, 2: yes
    if (!*known) *known = (uint8_t)(1 + fact_fits32(g->facts, v));
    return *known == 2;
}

static LLVMTypeRef elem_type(Gen *g, Elem e) {
    switch (e) {
    case EL_bool: return g->i1;
    case EL_f32:  return g->f32;
    case EL_f64:  return g->f64;
    default:      return LLVMIntTypeInContext(g->C, (unsigned)elem_bits(e));      // storage floats as bits
    }
}

LLVMTypeRef gen_type(Gen *g, const Val *v) {
    if (v->type.ptr) return g->gptr;
    return gen_is32(g, v) ? g->i32 : elem_type(g, (Elem)v->type.elem);
}

// ---- tiles ---------------------------------------------------------------------------------------

static int regs_of(const Val *v) {
    return v->type.kind == TY_TILE && v->type.rank && v->layout ? layout_regs(v->layout) : 1;
}

Tile *gen_tile(Gen *g, const Val *v) {
    Tile *t = &g->tile[v->id];
    if (!t->r) {
        if (v->type.kind == TY_TILE && v->type.rank && !v->layout) ice("value %%%u has no layout", v->id);
        t->n = regs_of(v);
        t->r = NEW_N(g->arena, Reg, t->n);
    }
    return t;
}

static LLVMValueRef extract(Gen *g, LLVMValueRef word, int part, int bits) {
    LLVMValueRef x = part ? LLVMBuildLShr(g->B, word, gen_i32(g, part * bits), "") : word;
    return LLVMBuildTrunc(g->B, x, LLVMIntTypeInContext(g->C, (unsigned)bits), "");
}

LLVMValueRef gen_get(Gen *g, const Val *v, int reg) {
    Tile *t = gen_tile(g, v);
    if (reg >= t->n) ice("register %d of %%%u, which has %d", reg, v->id, t->n);
    Reg *r = &t->r[reg];
    if (!r->v && r->word) return extract(g, r->word, r->part, elem_bits((Elem)v->type.elem));   // not kept: may not dominate
    if (!r->v)
        ice("register %d of %%%u (%s) is read before it is made", reg, v->id,
            v->def ? op_info[v->def->code].name : "argument");
    return r->v;
}

LLVMValueRef gen_get64(Gen *g, const Val *v, int reg) {
    LLVMValueRef x = gen_get(g, v, reg);
    if (LLVMTypeOf(x) == g->i64) return x;
    return elem_is_signed((Elem)v->type.elem) ? LLVMBuildSExt(g->B, x, g->i64, "") : LLVMBuildZExt(g->B, x, g->i64, "");
}

void gen_set(Gen *g, const Val *v, int reg, LLVMValueRef x) { gen_tile(g, v)->r[reg] = (Reg){.v = x}; }

void gen_set_word(Gen *g, const Val *v, int reg, int n, LLVMValueRef word) {
    Tile *t = gen_tile(g, v);
    for (int i = 0; i < n; i++) t->r[reg + i] = (Reg){.word = word, .part = (uint8_t)i};
}

LLVMValueRef gen_word(Gen *g, const Val *v, int reg, int n) {
    Tile *t = gen_tile(g, v);
    LLVMValueRef word = t->r[reg].word;
    bool whole = word && t->r[reg].part == 0;
    for (int i = 1; i < n && whole; i++) whole = t->r[reg + i].word == word && t->r[reg + i].part == i;
    if (whole) return word;
    int bits = elem_bits((Elem)v->type.elem);
    word = NULL;
    for (int i = 0; i < n; i++) {
        LLVMValueRef x = LLVMBuildZExt(g->B, gen_get(g, v, reg + i), g->i32, "");
        if (i) x = LLVMBuildShl(g->B, x, gen_i32(g, i * bits), "");
        word = word ? LLVMBuildOr(g->B, word, x, "") : x;
    }
    return word;
}

int *gen_reg_map(Gen *g, const Val *from, const Val *operand) {
    int n = gen_tile(g, from)->n;
    int *map = NEW_N(g->arena, int, n);
    for (int i = 0; i < n && operand->type.rank; i++)
        map[i] = from->type.rank == operand->type.rank
                     ? i
                     : layout_project_reg(from->layout, &from->type, &operand->type, i);
    return map;
}

// The bits of `id` that move along the axis, gathered run by run: ((id >> from) & mask) << to.
static LLVMValueRef gather(Gen *g, LLVMValueRef id, const uint32_t *base, int n, const Layout *l, int axis,
                           LLVMValueRef sum) {
    uint32_t mask = (uint32_t)((((uint64_t)1 << l->bits[axis]) - 1) << l->off[axis]);
    for (int i = 0; i < n;) {
        uint32_t b = (base[i] & mask) >> l->off[axis];
        int run = 1;
        if (!b) { i++; continue; }
        while (i + run < n && ((base[i + run] & mask) >> l->off[axis]) == b << run) run++;
        LLVMValueRef x = i ? LLVMBuildLShr(g->B, id, gen_i32(g, i), "") : id;
        x = LLVMBuildAnd(g->B, x, gen_i32(g, (1 << run) - 1), "");
        if (b & (b - 1)) x = LLVMBuildMul(g->B, x, gen_i32(g, b), "");
        else if (b > 1)  x = LLVMBuildShl(g->B, x, gen_i32(g, __builtin_ctz(b)), "");
        sum = sum ? LLVMBuildXor(g->B, sum, x, "") : x;
        i += run;
    }
    return sum;
}

LLVMValueRef gen_lane_coord(Gen *g, const Layout *l, int axis) {
    LLVMValueRef x = gather(g, g->lane, l->lane, LANE_BITS, l, axis, NULL);
    x = gather(g, g->warp, l->warp, l->nwarp, l, axis, x);
    return x ? x : gen_i32(g, 0);
}

int64_t gen_reg_coord(const Layout *l, int axis, int reg) {
    int64_t c[MAX_AXES];
    layout_coord(l, reg, 0, 0, c);
    return c[axis];
}

LLVMValueRef gen_as32(Gen *g, const Val *v) {
    LLVMValueRef x = gen_get64(g, v, 0);
    return gen_is32(g, v) ? gen_get(g, v, 0) : LLVMBuildTrunc(g->B, x, g->i32, "");
}

LLVMValueRef gen_lane_number(Gen *g, const Val *axis, LLVMValueRef place) {
    const Op *d = axis->def;
    if (d->nin < 3) return place;
    return LLVMBuildSub(g->B, place, gen_as32(g, d->in[2]), "");
}

LLVMValueRef gen_owner(Gen *g, const Layout *l) {
    uint32_t lanes = l ? layout_replica_lanes(l) : 31, warps = l ? layout_replica_warps(l) : (uint32_t)(g->f->warps - 1);
    LLVMValueRef a = lanes ? LLVMBuildAnd(g->B, g->lane, gen_i32(g, lanes), "") : NULL;
    LLVMValueRef b = warps ? LLVMBuildAnd(g->B, g->warp, gen_i32(g, warps), "") : NULL;
    LLVMValueRef x = a && b ? LLVMBuildOr(g->B, a, b, "") : a ? a : b;
    return x ? LLVMBuildICmp(g->B, LLVMIntEQ, x, gen_i32(g, 0), "") : NULL;
}

// ---- liveness ------------------------------------------------------------------------------------

bool gen_always_live(Gen *g, const Val *axis, const Layout *l, int pos) {
    (void)g;
    int64_t phys = (int64_t)1 << l->bits[pos];
    for (int i = 0; i < l->nrep; i++) if (l->rep[i].axis == pos) phys *= l->rep[i].count;
    return (axis->def->flags & AXIS_FULL) && phys == axis_extent(axis);
}

// min(hi - lo, extent) as i32, the number of live lanes.
static LLVMValueRef live_count(Gen *g, const Val *axis) {
    int64_t e = axis_extent(axis);
    if (axis->def->flags & AXIS_FULL) return gen_i32(g, e);
    Val *lo = axis_lo(axis), *hi = axis_hi(axis);
    bool small = gen_is32(g, lo) && gen_is32(g, hi);
    LLVMValueRef n = small ? LLVMBuildSub(g->B, gen_get(g, hi, 0), gen_get(g, lo, 0), "")
                           : LLVMBuildSub(g->B, gen_get64(g, hi, 0), gen_get64(g, lo, 0), "");
    LLVMTypeRef t = LLVMTypeOf(n);
    n = gen_call(g, "llvm.smin", 2, (LLVMValueRef[]){n, LLVMConstInt(t, (unsigned long long)e, 1)}, 1, &t);
    return small ? n
                 : LLVMBuildTrunc(g->B, gen_call(g, "llvm.smax", 2, (LLVMValueRef[]){n, gen_i64(g, 0)}, 1, &t), g->i32,
                                  "");
}

// Registers side by side that live and die together: the axis ends between such groups.
static int64_t alive_alike(Gen *g, const Val *axis, const Layout *l, int pos) {
    if (g->alike.axis == axis && g->alike.layout == l && g->alike.pos == pos) return g->alike.n;
    int64_t v = axis->def->nin > 2 ? 1 : layout_vec(l, pos);
    while (v > 1 && (v > 16 || axis_extent(axis) % v)) v /= 2;
    bool full = (axis->def->flags & AXIS_FULL) != 0;
    while (v > 1 && !full &&
           !(fact_known_multiple(g->facts, axis_lo(axis), v) && fact_known_multiple(g->facts, axis_hi(axis), v)))
        v /= 2;
    g->alike.axis = axis; g->alike.layout = l; g->alike.pos = pos; g->alike.n = v;
    return v;
}

// The register's lanes end before the axis can.
static bool before_the_end(Gen *g, const Val *axis, const Layout *l, int pos, int64_t at) {
    uint32_t others = 0;
    for (int i = 0; i < LANE_BITS; i++) others |= l->lane[i];
    for (int i = 0; i < l->nwarp; i++) others |= l->warp[i];
    others = others >> l->off[pos] & (uint32_t)(((uint64_t)1 << l->bits[pos]) - 1);
    Range lo = fact_range(g->facts, axis_lo(axis)), hi = fact_range(g->facts, axis_hi(axis));
    if (axis->def->nin > 2 && at < fact_range(g->facts, axis->def->in[2]).hi) return false;
    return lo.lo == lo.hi && at + others < axis_extent(axis) && lo.hi + at + others < hi.lo;
}

LLVMValueRef gen_live(Gen *g, const Val *axis, const Layout *l, int pos, int reg, int span) {
    if (gen_always_live(g, axis, l, pos)) return NULL;
    int64_t at = gen_reg_coord(l, pos, reg) + span - 1;
    if (before_the_end(g, axis, l, pos, at)) return NULL;
    at -= at % alive_alike(g, axis, l, pos);
    LLVMValueRef c = LLVMBuildAdd(g->B, gen_lane_number(g, axis, gen_lane_coord(g, l, pos)), gen_i32(g, at), "");
    if (axis->def->nin > 2) return LLVMBuildICmp(g->B, LLVMIntULT, LLVMBuildAdd(g->B, c, gen_as32(g, axis_lo(axis)), ""), gen_as32(g, axis_hi(axis)), "");
    return LLVMBuildICmp(g->B, LLVMIntSLT, c, live_count(g, axis), "");
}

// ---- parameters and launch expressions -----------------------------------------------------------

LLVMValueRef gen_param(Gen *g, SlotKind kind, int a, int b) {
    const LaunchInfo *l = g->f->launch;
    for (int i = 0; i < l->nslots; i++)
        if (l->slots[i].kind == kind && l->slots[i].a == a && l->slots[i].b == b) return g->param[i];
    ice("kernel %s has no machine parameter of kind %d for %d.%d", l->entry, kind, a, b);
}

LLVMValueRef gen_lexpr(Gen *g, LExpr e) {
    LLVMValueRef st[64];
    int n = 0;
    for (uint32_t i = 0; i < e.n; i++) {
        if (n > 60) ice("launch expression too deep");
        LStep s = e.at[i];
        LLVMValueRef y = n > 0 ? st[n - 1] : NULL, x = n > 1 ? st[n - 2] : NULL;
        switch (s.op) {
        case L_CONST:  st[n++] = gen_i64(g, s.arg); continue;
        case L_DIM: {
            if (g->f->launch->dims[s.arg].fixed >= 0) { st[n++] = gen_i64(g, g->f->launch->dims[s.arg].fixed); continue; }
            LLVMValueRef d = gen_param(g, SLOT_DIM, (int)s.arg, 0);
            st[n++] = LLVMTypeOf(d) == g->i64 ? d : LLVMBuildZExt(g->B, d, g->i64, "");
            continue;
        }
        case L_SCALAR: {
            LLVMValueRef d = gen_param(g, SLOT_SCALAR, (int)s.arg, 0);
            st[n++] = LLVMTypeOf(d) == g->i64 ? d : LLVMBuildSExt(g->B, d, g->i64, "");
            continue;
        }
        case L_STRIDE: st[n++] = gen_param(g, SLOT_STRIDE, launch_stride_param(s), launch_stride_dim(s)); continue;
        case L_ADD: n--; st[n - 1] = LLVMBuildAdd(g->B, x, y, ""); continue;
        case L_SUB: n--; st[n - 1] = LLVMBuildSub(g->B, x, y, ""); continue;
        case L_MUL: n--; st[n - 1] = LLVMBuildMul(g->B, x, y, ""); continue;
        case L_DIV: n--; st[n - 1] = gen_binary(g, OP_div, EL_i64, x, y); continue;
        case L_MOD: n--; st[n - 1] = gen_binary(g, OP_rem, EL_i64, x, y); continue;
        case L_MIN: case L_MAX:
            n--;
            st[n - 1] = gen_call(g, s.op == L_MIN ? "llvm.smin" : "llvm.smax", 2, (LLVMValueRef[]){x, y}, 1, &g->i64);
            continue;
        case L_CDIV:
            n--;
            st[n - 1] = gen_binary(g, OP_div, EL_i64,
                                   LLVMBuildSub(g->B, LLVMBuildAdd(g->B, x, y, ""), gen_i64(g, 1), ""), y);
            continue;
        default: ice("launch expression step %d in code", s.op);
        }
    }
    return st[0];
}

LLVMValueRef gen_term(Gen *g, LLVMTypeRef t, const Val *v, int reg, int64_t k) {
    LLVMValueRef x = gen_get(g, v, reg);
    if (LLVMTypeOf(x) != t) {
        x = gen_get64(g, v, reg);
        if (t != g->i64) x = LLVMBuildTrunc(g->B, x, t, "");
    }
    return k == 1 ? x : LLVMBuildMul(g->B, x, LLVMConstInt(t, (unsigned long long)k, 1), "");
}

LLVMValueRef gen_affine(Gen *g, LLVMTypeRef t, const Affine *a) {
    LLVMValueRef sum = NULL, c = LLVMConstInt(t, (unsigned long long)a->c, 1);
    for (int i = 0; i < a->nterm; i++) {
        LLVMValueRef x = gen_term(g, t, a->term[i].v, 0, a->term[i].k);
        sum = sum ? LLVMBuildAdd(g->B, sum, x, "") : x;
    }
    return !sum ? c : a->c ? LLVMBuildAdd(g->B, sum, c, "") : sum;
}

// ---- shared memory and barriers ------------------------------------------------------------------

LLVMValueRef gen_smem(Gen *g, LLVMValueRef byte_offset) { return LLVMBuildGEP2(g->B, g->i8, g->smem, &byte_offset, 1, ""); }

LLVMValueRef gen_ring(Gen *g, LLVMValueRef byte_offset) { return LLVMBuildGEP2(g->B, g->i8, g->rings, &byte_offset, 1, ""); }

LLVMValueRef gen_scratch(Gen *g, uint32_t bytes) {
    if (bytes > g->scratch_size) g->scratch_size = bytes;
    return gen_i32(g, g->scratch);
}

void gen_barrier_warp(Gen *g) {
    gen_call(g, "llvm.nvvm.bar.warp.sync", 1, (LLVMValueRef[]){gen_i32(g, -1)}, 0, NULL);
}

void gen_barrier_named(Gen *g, LLVMValueRef number, int threads) {
    gen_call(g, "llvm.nvvm.barrier.cta.sync.aligned.count", 2, (LLVMValueRef[]){number, gen_i32(g, threads)}, 0, NULL);
}

void gen_barrier(Gen *g) {
    bool consumers = g->program_threads != g->f->launch->threads;          // of a kernel with roles
    if (g->one_warp) gen_barrier_warp(g);
    else if (consumers && g->slice)
        gen_barrier_named(g, gen_add(g, g->slice, gen_i32(g, BARRIER_SLICE)), g->program_threads);
    else if (consumers) gen_barrier_named(g, gen_i32(g, BARRIER_CONSUMERS), g->program_threads);
    else gen_call(g, "llvm.nvvm.barrier.cta.sync.aligned.all", 1, (LLVMValueRef[]){gen_i32(g, BARRIER_ALL)}, 0, NULL);
    g->dirty = g->read = 0;
}

// ---- regions and control -------------------------------------------------------------------------

void gen_op(Gen *g, Op *op) {
    lines_at(g, op);
    if (!g->skip) { gen_table[op->code](g, op); return; }
    if (op == g->skip) g->skip = NULL;
}

void gen_region(Gen *g, Region *r) {
    for (Op *op = r->first; op && !g->dead; op = op->next) gen_op(g, op);
}

// Loops and branches carry a tile register by register; 8- and 16-bit elements by the word where they fill words.
static int per_unit(const Val *v) {
    int bits = elem_bits((Elem)v->type.elem), n = regs_of(v);
    bool small = v->type.kind == TY_TILE && !v->type.ptr && v->type.elem != EL_bool && bits < 32;
    return small && n % (32 / bits) == 0 ? 32 / bits : 1;
}
static int units_of(const Val *v) { return regs_of(v) / per_unit(v); }
static LLVMTypeRef unit_type(Gen *g, const Val *v) { return per_unit(v) > 1 ? g->i32 : gen_type(g, v); }
static void set_unit(Gen *g, const Val *v, int unit, LLVMValueRef x) {
    int per = per_unit(v);
    if (per > 1) gen_set_word(g, v, unit * per, per, x);
    else gen_set(g, v, unit, x);
}

static int count_regs(Gen *g, Val *const *v, int n) {
    int k = 0;
    for (int i = 0; i < n; i++) k += acc_held(g->accs, v[i]) ? 0 : units_of(v[i]);
    return k;
}

// Elements, in the types of what they become; those that become held accumulators are put there.
static LLVMValueRef *flatten(Gen *g, Val *const *v, int n, Val *const *like) {
    LLVMValueRef *out = NEW_N(g->arena, LLVMValueRef, count_regs(g, like, n) + 1);
    int k = 0;
    for (int i = 0; i < n; i++) {
        if (acc_held(g->accs, like[i])) { acc_put(g, v[i], like[i]); continue; }
        for (int r = 0; r < units_of(v[i]); r++) {
            int per = per_unit(v[i]);
            LLVMValueRef x = per > 1 ? gen_word(g, v[i], r * per, per) : gen_get(g, v[i], r);
            LLVMTypeRef want = unit_type(g, like[i]);
            if (LLVMTypeOf(x) != want && v[i]->type.elem == EL_index)
                x = want == g->i64 ? LLVMBuildSExt(g->B, x, g->i64, "") : LLVMBuildTrunc(g->B, x, g->i32, "");
            out[k++] = x;
        }
    }
    return out;
}

static void go(Gen *g, LLVMBasicBlockRef to) { LLVMBuildBr(g->B, to); g->dead = true; }
static void at(Gen *g, LLVMBasicBlockRef b) { LLVMPositionBuilderAtEnd(g->B, b); g->dead = false; }

static void phis(Gen *g, Val *const *vals, int n, LLVMValueRef *out) {
    int k = 0;
    for (int i = 0; i < n; i++) {
        if (acc_held(g->accs, vals[i])) continue;
        gen_tile(g, vals[i]);
        for (int r = 0; r < units_of(vals[i]); r++) {
            out[k] = LLVMBuildPhi(g->B, unit_type(g, vals[i]), "");
            set_unit(g, vals[i], r, out[k++]);
        }
    }
}

static void incoming(LLVMValueRef *phi, int n, LLVMValueRef *vals, LLVMBasicBlockRef from) {
    for (int i = 0; i < n; i++) LLVMAddIncoming(phi[i], &vals[i], &from, 1);
}

static void take_held(Gen *g, Val *const *vals, int n) {
    for (int i = 0; i < n; i++) if (acc_held(g->accs, vals[i])) acc_take(g, vals[i]);
}

// What several ways into this block bring, as phis like those of the loop's head.
static LLVMValueRef *joined(Gen *g, const Edge *edge, uint32_t edges, LLVMValueRef *like, int n) {
    LLVMValueRef *out = NEW_N(g->arena, LLVMValueRef, n + 1);
    for (int k = 0; k < n; k++) out[k] = LLVMBuildPhi(g->B, LLVMTypeOf(like[k]), "");
    for (uint32_t k = 0; k < edges; k++) incoming(out, n, edge[k].vals, edge[k].from);
    return out;
}

static void set_units(Gen *g, Val *const *vals, int n, LLVMValueRef *x) {      // what a loop leaves behind
    for (int v = 0; v < n; v++)
        for (int q = 0; !acc_held(g->accs, vals[v]) && q < units_of(vals[v]); q++) set_unit(g, vals[v], q, *x++);
    take_held(g, vals, n);
}

void emit_for(Gen *g, Op *op) {
    Region *r = op->reg[0];
    Val **args = r->args.at;                               // counter, carried...
    int n = op->nout, regs = count_regs(g, op->out, n);
    bool small = gen_is32(g, args[0]) && gen_is32(g, op->in[1]) && gen_is32(g, op->in[2]) && gen_is32(g, op->in[0]);
    LLVMTypeRef ct = gen_type(g, args[0]);
    LLVMValueRef lo = small ? gen_get(g, op->in[0], 0) : gen_get64(g, op->in[0], 0);
    LLVMValueRef hi = small ? gen_get(g, op->in[1], 0) : gen_get64(g, op->in[1], 0);
    LLVMValueRef step = small ? gen_get(g, op->in[2], 0) : gen_get64(g, op->in[2], 0);
    LLVMValueRef *init = flatten(g, op->in + 3, n, args + 1);
    Ahead *outer = g->ahead, *ahead = g->ahead = ahead_open(g, op);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(g->B);
    LLVMBasicBlockRef head = gen_block(g, "for"), body = gen_block(g, "body"), next = gen_block(g, "next"),
                      exit = gen_block(g, "end");
    LLVMValueRef *ph = NEW_N(g->arena, LLVMValueRef, regs + 1);
    LoopGen loop = {.op = op, .before = from, .next = next, .exit = exit, .outer = g->loop};

    go(g, head);
    at(g, head);
    LLVMValueRef i = LLVMBuildPhi(g->B, small ? g->i32 : g->i64, "i");
    LLVMAddIncoming(i, &lo, &from, 1);
    phis(g, args + 1, n, ph);
    incoming(ph, regs, init, from);
    ahead_head(g, ahead, from);
    LLVMValueRef counter = LLVMTypeOf(i) == ct ? i
                           : ct == g->i32      ? LLVMBuildTrunc(g->B, i, ct, "")
                                               : LLVMBuildSExt(g->B, i, ct, "");
    gen_set(g, args[0], 0, counter);
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntSLT, i, hi, ""), body, exit);
    vec_push(g->arena, &loop.to_exit, ((Edge){head, ph}));
    at(g, body);
    take_held(g, args + 1, n);
    g->loop = &loop;
    gen_region(g, r);
    g->loop = loop.outer;
    g->ahead = outer;
    at(g, next);
    LLVMValueRef *pn = joined(g, loop.to_next.at, loop.to_next.n, ph, regs);
    if (loop.to_next.n) {
        LLVMValueRef i2 = LLVMBuildAdd(g->B, i, step, "");
        LLVMAddIncoming(i, &i2, &next, 1);
        incoming(ph, regs, pn, next);
        ahead_next(g, ahead, next);
        go(g, head);
    } else {
        LLVMBuildUnreachable(g->B);
    }
    at(g, exit);
    set_units(g, op->out, n, joined(g, loop.to_exit.at, loop.to_exit.n, ph, regs));
}

void emit_while(Gen *g, Op *op) {
    gen_cluster_loop(g, op);
    int n = op->nout, regs = count_regs(g, op->out, n);
    Region *cond = op->reg[0], *body = op->reg[1];
    LLVMValueRef *init = flatten(g, op->in, n, cond->args.at);
    LLVMBasicBlockRef from = LLVMGetInsertBlock(g->B);
    LLVMBasicBlockRef head = gen_block(g, "while"), next = gen_block(g, "next"), exit = gen_block(g, "end");
    LLVMValueRef *ph = NEW_N(g->arena, LLVMValueRef, regs + 1);
    LoopGen loop = {.op = op, .next = next, .exit = exit, .outer = g->loop};
    go(g, head);
    at(g, head);
    phis(g, cond->args.at, n, ph);
    incoming(ph, regs, init, from);
    g->loop = &loop;
    gen_region(g, cond);                                    // ends in emit_condition, which opens the body
    gen_region(g, body);
    g->loop = loop.outer;
    at(g, next);
    LLVMValueRef *pn = joined(g, loop.to_next.at, loop.to_next.n, ph, regs);
    if (loop.to_next.n) { incoming(ph, regs, pn, next); go(g, head); }
    else LLVMBuildUnreachable(g->B);
    at(g, exit);
    set_units(g, op->out, n, joined(g, loop.to_exit.at, loop.to_exit.n, ph, regs));
}

void emit_condition(Gen *g, Op *op) {
    LoopGen *l = g->loop;
    const Op *loop = l->op;
    Val **body_args = loop->reg[1]->args.at;
    LLVMValueRef *vals = flatten(g, op->in + 1, op->nin - 1, loop->out);
    LLVMValueRef c = gen_get(g, op->in[0], 0);
    LLVMBasicBlockRef body = gen_block(g, "body");
    vec_push(g->arena, &l->to_exit, ((Edge){LLVMGetInsertBlock(g->B), vals}));
    LLVMBuildCondBr(g->B, c, body, l->exit);
    at(g, body);
    for (int v = 0, k = 0; v < op->nin - 1; v++)
        for (int q = 0; q < units_of(body_args[v]); q++) set_unit(g, body_args[v], q, vals[k++]);
}

void emit_if(Gen *g, Op *op) {
    int n = op->nout, regs = count_regs(g, op->out, n);
    LLVMValueRef c = gen_get(g, op->in[0], 0);
    LLVMBasicBlockRef side[2] = {gen_block(g, "then"), gen_block(g, "else")}, exit = gen_block(g, "endif");
    LLVMBuildCondBr(g->B, c, side[0], side[1]);
    Edge edge[2];
    int edges = 0;
    uint64_t dirty = g->dirty, seen = g->read, dirty_out = 0, read_out = 0;
    for (int i = 0; i < 2; i++) {
        at(g, side[i]);
        g->dirty = dirty; g->read = seen;
        Region *r = op->reg[i];
        gen_region(g, r);                                   // a yield leaves the block open
        dirty_out |= g->dirty; read_out |= g->read;
        if (g->dead) continue;
        LLVMValueRef *vals = flatten(g, r->last->in, n, op->out);
        edge[edges++] = (Edge){LLVMGetInsertBlock(g->B), vals};
        go(g, exit);
    }
    g->dirty = dirty_out; g->read = read_out;
    at(g, exit);
    if (!edges) { LLVMBuildUnreachable(g->B); g->dead = true; return; }
    LLVMValueRef *pe = NEW_N(g->arena, LLVMValueRef, regs + 1);
    phis(g, op->out, n, pe);
    for (int i = 0; i < edges; i++) incoming(pe, regs, edge[i].vals, edge[i].from);
    take_held(g, op->out, n);
}

void emit_yield(Gen *g, Op *op) {
    const Op *owner = op->parent->owner;
    if (owner->code == OP_T_if || owner->code == OP_T_roles) return;
    Val **args = owner->code == OP_T_for ? owner->reg[0]->args.at + 1 : owner->reg[0]->args.at;
    LLVMValueRef *vals = flatten(g, op->in, op->nin, args);
    vec_push(g->arena, &g->loop->to_next, ((Edge){LLVMGetInsertBlock(g->B), vals}));
    go(g, g->loop->next);
}

static void leave(Gen *g, Op *op, bool out) {
    LoopGen *l = g->loop;
    for (int64_t i = 0; i < op->imm; i++) l = l->outer;
    LLVMValueRef *vals = flatten(g, op->in, op->nin, l->op->out);
    Edge e = {LLVMGetInsertBlock(g->B), vals};
    if (out) vec_push(g->arena, &l->to_exit, e);
    else     vec_push(g->arena, &l->to_next, e);
    go(g, out ? l->exit : l->next);
}
void emit_break(Gen *g, Op *op)    { leave(g, op, true); }
void emit_continue(Gen *g, Op *op) { leave(g, op, false); }

// ---- leaves --------------------------------------------------------------------------------------

void emit_const(Gen *g, Op *op) {
    const Val *v = op->out[0];
    Elem e = (Elem)v->type.elem;
    double d;
    memcpy(&d, &op->imm, sizeof d);
    LLVMValueRef x;
    if (e == EL_f32 || e == EL_f64) x = LLVMConstReal(elem_type(g, e), d);
    else if (elem_is_storage(e))    x = gen_kept_f32(g, LLVMConstReal(g->f32, d), e);
    else                            x = LLVMConstInt(gen_type(g, v), (unsigned long long)op->imm, 1);
    gen_set(g, v, 0, x);
}

void emit_dim(Gen *g, Op *op) {
    int64_t fixed = g->f->launch->dims[op->imm].fixed;
    if (fixed >= 0) {
        gen_set(g, op->out[0], 0, LLVMConstInt(gen_type(g, op->out[0]), (unsigned long long)fixed, 1));
        return;
    }
    LLVMValueRef x = gen_param(g, SLOT_DIM, (int)op->imm, 0);
    LLVMTypeRef t = gen_type(g, op->out[0]);
    if (LLVMTypeOf(x) != t) x = t == g->i32 ? LLVMBuildTrunc(g->B, x, t, "") : LLVMBuildZExt(g->B, x, t, "");
    gen_set(g, op->out[0], 0, x);
}

void emit_scalar(Gen *g, Op *op) {
    gen_set(g, op->out[0], 0, gen_param(g, op->out[0]->type.ptr ? SLOT_POINTER : SLOT_SCALAR, (int)op->imm, 0));
}
void emit_tensor(Gen *g, Op *op) { (void)g; (void)op; }
void emit_axis(Gen *g, Op *op)   { (void)g; (void)op; }

void emit_extent(Gen *g, Op *op) {
    const Val *t = op->in[0];
    LLVMValueRef x = gen_lexpr(g, g->f->launch->params[t->def->imm].dim[op->imm]);
    gen_set(g, op->out[0], 0, gen_is32(g, op->out[0]) ? LLVMBuildTrunc(g->B, x, g->i32, "") : x);
}

static LLVMValueRef blocks_of(Gen *g) { return gen_call(g, "llvm.nvvm.read.ptx.sreg.nctaid.x", 0, NULL, 0, NULL); }

static void stop_past_last(Gen *g, LLVMValueRef program) {
    LLVMValueRef n = LLVMBuildTrunc(g->B, gen_param(g, SLOT_EXPR, 0, 0), g->i32, "");
    LLVMBasicBlockRef go_on = gen_block(g, "program");
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntULT, program, n, ""), go_on, g->exit);
    at(g, go_on);
}

void emit_program(Gen *g, Op *op) {
    LLVMValueRef x = gen_call(g, "llvm.nvvm.read.ptx.sreg.ctaid.x", 0, NULL, 0, NULL);
    int per_block = g->f->launch->threads / (g->f->warps * 32);
    if (g->one_warp && per_block > 1) {
        LLVMValueRef w = LLVMBuildLShr(g->B, g->tid, gen_i32(g, 5), "");
        w = gen_call(g, "llvm.nvvm.shfl.sync.idx.i32", 4,
                     (LLVMValueRef[]){gen_i32(g, -1), w, gen_i32(g, 0), gen_i32(g, 31)}, 0, NULL);
        if (g->f->tally_long) x = gen_add(g, x, LLVMBuildMul(g->B, w, blocks_of(g), ""));      // neighbours in blocks of their own
        else x = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, x, gen_i32(g, per_block), ""), w, "");
        if (!g->f->tallies) stop_past_last(g, x);
    }
    gen_set(g, op->out[0], 0, gen_is32(g, op->out[0]) ? x : LLVMBuildZExt(g->B, x, g->i64, ""));
}

static void set_count(Gen *g, const Op *op, LLVMValueRef x) {
    LLVMTypeRef want = gen_type(g, op->out[0]);
    if (LLVMTypeOf(x) != want) x = want == g->i32 ? LLVMBuildTrunc(g->B, x, want, "") : LLVMBuildZExt(g->B, x, want, "");
    gen_set(g, op->out[0], 0, x);
}
void emit_programs(Gen *g, Op *op) { set_count(g, op, gen_param(g, SLOT_EXPR, 0, 0)); }
void emit_slice(Gen *g, Op *op)    { set_count(g, op, g->slice); }
void emit_walkers(Gen *g, Op *op) {
    LLVMValueRef blocks = blocks_of(g);
    int each = g->f->launch->threads / (g->f->warps * 32);
    set_count(g, op, g->f->tallies && each > 1 ? gen_times(g, blocks, each) : blocks);
}

GenFn *const gen_table[OP_T_COUNT] = {
#define X(name, ...) [OP_T_##name] = emit_##name,
    TILE_OPS(X)
#undef X
};

LLVMValueRef gen_permute(Gen *g, LLVMValueRef a, LLVMValueRef b, LLVMValueRef how) {
    return gen_asm(g, g->i32, "prmt.b32 $0, $1, $2, $3;", "=r,r,r,r", 3, (LLVMValueRef[]){a, b, how}, false, false);
}
