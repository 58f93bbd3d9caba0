// Products without tensor cores: multiply and add in registers.
//
// Both operands lie in shared memory as plain rows; every lane walks along the contracted axes in a loop
// and keeps its registers of the result in the loop's phis:
//
//     for k:  acc[r] = a[m(r), k] * b[k, n(r)] + acc[r]        one fma, k in ascending order
//
// Registers with the same row (column) share the load. Any element type, any number of contracted, free
// and shared axes; storage floats widen to f32, small integers to the result's type.
#include "lower/llvm/dot.h"

#include <string.h>

enum { UNROLL = 4 };

static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

static void stage_rows(const Op *op, int operand, Shared *s) {
    const Val *x = op->in[operand], *o = op->out[0];
    int fast = 0, n = 0;
    memset(s, 0, sizeof *s);
    for (int i = 1; i < x->type.rank; i++)
        if (layout_vec(x->layout, i) >= layout_vec(x->layout, fast)) fast = i;
    for (int i = 0; i < x->type.rank; i++) if (i != fast) s->axis[n++] = x->type.axis[i];
    s->axis[n++] = x->type.axis[fast];
    s->rank = n;
    for (int d = 0; d < n; d++) {
        int at = type_axis(&o->type, s->axis[d]);
        s->extent[d] = layout_span(x->layout, type_axis(&x->type, s->axis[d]));
        if (at >= 0) s->extent[d] = max64(s->extent[d], layout_span(o->layout, at));
    }
    shared_shape(s, (Elem)x->type.elem, false);
}

void fma_plan(const Op *op, DotPlan *p) {
    for (int i = 0; i < 2; i++) {
        p->where[i] = STAGED;
        stage_rows(op, i, &p->shared[i]);
    }
}

typedef struct Side {              // one operand as the loop reads it
    const Val *v;
    Shared   *s;
    SharedAt  at;
    int      *slot;                // by register of the result: which of the loads
    LLVMValueRef *ptr, *val;       // by load
    int       loads;
} Side;

static LLVMValueRef widen(Gen *g, LLVMValueRef x, Elem e, Elem to) {
    if (elem_is_storage(e)) x = gen_to_f32(g, x, e);
    LLVMTypeRef t = LLVMTypeOf(x);
    if (to == EL_f64 && t == g->f32) return LLVMBuildFPExt(g->B, x, g->f64, "");
    if (elem_is_float(to)) return x;
    LLVMTypeRef want = LLVMIntTypeInContext(g->C, (unsigned)elem_bits(to));
    if (t == want) return x;
    return elem_is_signed(e) ? LLVMBuildSExt(g->B, x, want, "") : LLVMBuildZExt(g->B, x, want, "");
}

static void open_side(Gen *g, Side *s, const Op *op, int operand, Shared *shared) {
    const Val *o = op->out[0];
    LLVMValueRef lane[MAX_AXES] = {NULL};
    int n = gen_tile(g, o)->n, known = 0;
    int64_t (*seen)[MAX_AXES] = (int64_t (*)[MAX_AXES])NEW_N(g->arena, int64_t, n * MAX_AXES);
    memset(s, 0, sizeof *s);
    s->v = op->in[operand];
    s->s = shared;
    for (int d = 0; d < shared->rank; d++) {
        int at = type_axis(&o->type, shared->axis[d]);
        if (at >= 0) lane[d] = gen_lane_coord(g, o->layout, at);
    }
    shared_open(g, &s->at, shared, lane);
    s->slot = NEW_N(g->arena, int, n);
    s->ptr = NEW_N(g->arena, LLVMValueRef, n);
    s->val = NEW_N(g->arena, LLVMValueRef, n);
    for (int r = 0; r < n; r++) {
        int64_t c[MAX_AXES] = {0}, all[MAX_AXES] = {0};
        if (o->type.rank) layout_coord(o->layout, r, 0, 0, all);
        for (int d = 0; d < shared->rank; d++) {
            int at = type_axis(&o->type, shared->axis[d]);
            if (at >= 0) c[d] = all[at];
        }
        int i = 0;
        while (i < known && memcmp(seen[i], c, sizeof c)) i++;
        if (i == known) {
            memcpy(seen[known++], c, sizeof c);
            s->ptr[i] = shared_ptr(&s->at, c);
        }
        s->slot[r] = i;
    }
    s->loads = known;
}

// Bytes from the first element along the contracted axes to trip number t of the walk over them.
static LLVMValueRef walked(Gen *g, const Op *op, const Shared *s, LLVMValueRef t, int64_t ahead) {
    LLVMValueRef sum = NULL;
    int64_t inner = 1;
    bool one = op->nin - op_first_axis(op) == 1;
    for (int i = op->nin - 1; i >= op_first_axis(op); i--) {
        const Val *axis = op->in[i];
        int d = shared_dim(s, axis);
        int64_t n = axis_extent(axis), bytes = d == s->rank - 1 ? s->size : s->step[d] * s->pitch;
        LLVMValueRef x = t;
        if (!one && inner > 1) x = LLVMBuildUDiv(g->B, x, gen_i32(g, inner), "");
        if (!one && i > op_first_axis(op)) x = LLVMBuildURem(g->B, x, gen_i32(g, n), "");
        x = LLVMBuildMul(g->B, x, gen_i32(g, bytes), "");
        if (ahead) x = LLVMBuildAdd(g->B, x, gen_i32(g, ahead * bytes), "");
        sum = sum ? LLVMBuildAdd(g->B, sum, x, "") : x;
        inner *= n;
    }
    return sum;
}

static void read_side(Gen *g, Side *s, const Op *op, LLVMValueRef t, int64_t ahead) {
    Elem e = s->s->elem, to = (Elem)op->out[0]->type.elem;
    LLVMTypeRef type = e == EL_bool ? g->i8 : gen_type(g, s->v);
    LLVMValueRef by = walked(g, op, s->s, t, ahead);
    for (int i = 0; i < s->loads; i++) {
        LLVMValueRef x = LLVMBuildLoad2(g->B, type, LLVMBuildGEP2(g->B, g->i8, s->ptr[i], &by, 1, ""), "");
        LLVMSetAlignment(x, (unsigned)s->s->size);
        s->val[i] = widen(g, x, e, to);
    }
}

static LLVMValueRef multiply_add(Gen *g, Elem e, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c) {
    if (!elem_is_float(e)) return LLVMBuildAdd(g->B, LLVMBuildMul(g->B, a, b, ""), c, "");
    LLVMTypeRef t = LLVMTypeOf(c);
    return gen_call(g, "llvm.fma", 3, (LLVMValueRef[]){a, b, c}, 1, &t);
}

void fma_emit(Gen *g, Op *op, DotPlan *p) {
    const Val *o = op->out[0];
    Elem e = (Elem)o->type.elem;
    int n = gen_tile(g, o)->n;
    int64_t trips = 1;
    Side a, b;
    for (int i = op_first_axis(op); i < op->nin; i++) trips *= axis_extent(op->in[i]);
    int step = op->nin - op_first_axis(op) == 1 && trips % UNROLL == 0 && n <= 64 ? UNROLL : 1;
    open_side(g, &a, op, 0, &p->shared[0]);
    open_side(g, &b, op, 1, &p->shared[1]);
    LLVMValueRef *acc = NEW_N(g->arena, LLVMValueRef, n), *phi = NEW_N(g->arena, LLVMValueRef, n), zero = gen_i32(g, 0);
    for (int r = 0; r < n; r++) acc[r] = dot_start(g, op, r);
    if (!trips) { for (int r = 0; r < n; r++) gen_set(g, o, r, acc[r]); return; }
    LLVMBasicBlockRef from = LLVMGetInsertBlock(g->B), body = gen_block(g, "k"), done = gen_block(g, "product");
    LLVMBuildBr(g->B, body);
    LLVMPositionBuilderAtEnd(g->B, body);
    LLVMValueRef t = LLVMBuildPhi(g->B, g->i32, "k");
    LLVMAddIncoming(t, &zero, &from, 1);
    for (int r = 0; r < n; r++) {
        phi[r] = LLVMBuildPhi(g->B, LLVMTypeOf(acc[r]), "");
        LLVMAddIncoming(phi[r], &acc[r], &from, 1);
        acc[r] = phi[r];
    }
    for (int u = 0; u < step; u++) {
        read_side(g, &a, op, t, u);
        read_side(g, &b, op, t, u);
        for (int r = 0; r < n; r++) acc[r] = multiply_add(g, e, a.val[a.slot[r]], b.val[b.slot[r]], acc[r]);
    }
    LLVMValueRef next = LLVMBuildAdd(g->B, t, gen_i32(g, step), "");
    LLVMAddIncoming(t, &next, &body, 1);
    for (int r = 0; r < n; r++) LLVMAddIncoming(phi[r], &acc[r], &body, 1);
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntULT, next, gen_i32(g, trips), ""), body, done);
    LLVMPositionBuilderAtEnd(g->B, done);
    for (int r = 0; r < n; r++) gen_set(g, o, r, acc[r]);
}
