// Asynchronous copies from global to shared memory: cp.async, for rings that the pass `pipeline` made.
//
// A copy moves the widest pieces of 16, 8 or 4 bytes that the access allows. Neighbouring lanes take
// neighbouring pieces of a row, warps take rows: the tile's own blocked layout, made here, since nobody
// else sees it. A piece whose lanes are dead or out of range reads nothing and writes zeros (a source
// size of 0), so a stage always holds a whole tile and a product needs no mask.
//
// cp.async of 16 bytes goes past L1 (.cg); smaller ones do not have that form.
#include "lower/access.h"
#include "lower/mma.h"
#include "lower/shared.h"

#include <string.h>

static const Layout *copy_layout(Gen *g, const Access *a) {
    Blocked wish = {.vec = a->vec, .warps = g->f->warps};
    int n = 0, size = elem_bytes(a->elem);
    while (wish.vec * size > 16) wish.vec /= 2;
    wish.order[n++] = a->contiguous;
    for (int i = a->type.rank - 1; i >= 0; i--) if (i != a->contiguous) wish.order[n++] = i;
    return layout_blocked(g->arena, &a->type, &wish);
}

// The type position of each dimension of the ring: dimensions are the indices that have an axis, in order.
static void dimensions(const Access *a, Shared *s) {
    int n = 0;
    for (int d = 0; d < a->nidx; d++)
        if (a->aff[d].naxis) s->axis[n++] = a->aff[d].axis[0].axis;
    if (n != s->rank) ice("a copy of %d axes into a buffer of %d dimensions", n, s->rank);
}

static void copy(Gen *g, LLVMValueRef to, LLVMValueRef from, int64_t imm, int bytes, LLVMValueRef live, LLVMValueRef doit) {
    char text[200], cons[32];
    int k = 0, n = 3;
    LLVMValueRef args[5] = {LLVMBuildPtrToInt(g->B, to, g->i32, ""), from, gen_i32(g, imm)};
    if (live) { args[n] = LLVMBuildSelect(g->B, live, gen_i32(g, bytes), gen_i32(g, 0), ""); n++; }
    if (doit) {
        k = snprintf(text, sizeof text, "{\n.reg .pred p;\nsetp.ne.b32 p, $%d, 0;\n@p ", n);
        args[n++] = LLVMBuildZExt(g->B, doit, g->i32, "");
    }
    snprintf(text + k, sizeof text - (size_t)k, "cp.async.%s.shared.global [$0], [$1 + $2], %d%s;%s", bytes == 16 ? "cg" : "ca", bytes, live ? ", $3" : "", doit ? "\n}" : "");
    snprintf(cons, sizeof cons, "r,l,n%s%s,~{memory}", live ? ",r" : "", doit ? ",r" : "");
    gen_asm(g, LLVMVoidTypeInContext(g->C), text, cons, n, args, true, false);
}

typedef struct Copy {              // a copy under way: register by register of its layout
    Op       *op;                  // or the commit that closes the group
    const Layout *l;
    Shared    s;
    SharedAt  to;
    Addr     *from;
    LLVMValueRef lane[MAX_AXES], owner;
    int       pos[MAX_AXES], regs, vec, bytes, next;
    struct Copy *after;
} Copy;

static void open_copy(Gen *g, Copy *c) {
    Access a;
    access_of(g->facts, c->op, &a);
    if (a.contiguous < 0) ice("a copy without a contiguous axis");
    const Op *ring = c->op->in[0]->def;
    buffer_shape(&c->op->in[0]->type, &c->s);
    dimensions(&a, &c->s);
    c->s.base = gen_i32(g, ring->attr);
    if (ring->imm > 1) {
        LLVMValueRef stage = gen_get(g, c->op->in[1], 0);
        c->s.base = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, stage, gen_i32(g, shared_bytes(&c->s)), ""), c->s.base, "");
    }
    c->l = copy_layout(g, &a);
    c->regs = layout_regs(c->l);
    c->vec = access_vec(&a, c->l);
    c->bytes = c->vec * c->s.size;
    if (c->bytes < 4) ice("a copy of %d bytes", c->bytes);
    c->from = addr_open(g, c->op, c->l, &a.type);
    c->owner = gen_owner(g, c->l);
    for (int d = 0; d < c->s.rank; d++) {
        c->pos[d] = type_axis(&a.type, c->s.axis[d]);
        c->lane[d] = gen_lane_coord(g, c->l, c->pos[d]);
    }
    shared_open(g, &c->to, &c->s, c->lane);
}

static void step_copy(Gen *g, Copy *c) {
    if (c->op->code == OP_T_copy_commit) { gen_call(g, "llvm.nvvm.cp.async.commit.group", 0, NULL, 0, NULL); c->next = c->regs; return; }
    if (!c->l) open_copy(g, c);
    int64_t all[MAX_AXES], at[MAX_AXES], imm;
    LLVMValueRef doit = c->owner;
    layout_coord(c->l, c->next, 0, 0, all);
    for (int d = 0; d < c->s.rank; d++) {
        at[d] = all[c->pos[d]];
        if (layout_span(c->l, c->pos[d]) <= c->s.extent[d]) continue;
        LLVMValueRef in = LLVMBuildICmp(g->B, LLVMIntSLT, LLVMBuildAdd(g->B, c->lane[d], gen_i32(g, at[d]), ""), gen_i32(g, c->s.extent[d]), "");
        doit = doit ? LLVMBuildAnd(g->B, doit, in, "") : in;
    }
    LLVMValueRef from = addr_at(c->from, c->next, &imm), live = addr_live(c->from, c->next);
    copy(g, shared_ptr(&c->to, at), from, imm, c->bytes, live, doit);
    c->next += c->vec;
}

// ---- when they are issued ------------------------------------------------------------------------
// Right away, unless a product follows in the same run of ops: then its first fragments are read before, and the copies
// go between its instructions.

static bool product_follows(Gen *g, const Op *op) {
    MmaChoice m;
    for (const Op *x = op->next; x; x = x->next) {
        if (x->code == OP_T_dot) return mma_of_layout(g->opt->target, g->arena, x, &m);
        if (x->nreg || (!op_has(x, 'P') && x->code != OP_T_copy_async && x->code != OP_T_copy_commit && x->code != OP_T_buffer_load)) return false;
        if (x->code == OP_T_reduce || x->code == OP_T_convert) return false;          // these have barriers
    }
    return false;
}

int gen_copies_left(Gen *g) {
    int n = 0;
    for (const Copy *c = g->copies; c; c = c->after) {
        Access a;
        if (c->op->code == OP_T_copy_commit) { n++; continue; }
        if (c->l) { n += (c->regs - c->next) / c->vec; continue; }
        access_of(g->facts, c->op, &a);
        const Layout *l = copy_layout(g, &a);
        n += layout_regs(l) / access_vec(&a, l);
    }
    return n;
}

void gen_copies_issue(Gen *g, int n) {
    for (; n > 0 && g->copies; n--) {
        Copy *c = g->copies;
        step_copy(g, c);
        if (c->next >= c->regs) g->copies = c->after;
    }
}

static void put_off(Gen *g, Op *op) {
    Copy *c = NEW(g->arena, Copy), *last = g->copies;
    c->op = op;
    while (last && last->after) last = last->after;
    if (last) last->after = c;
    else g->copies = c;
    if (!product_follows(g, op)) gen_copies_issue(g, INT32_MAX);
}

void emit_copy_async(Gen *g, Op *op)  { put_off(g, op); }
void emit_copy_commit(Gen *g, Op *op) { put_off(g, op); }

void emit_copy_wait(Gen *g, Op *op) {
    LLVMValueRef n = gen_i32(g, op->imm);
    gen_call(g, "llvm.nvvm.cp.async.wait.group", 1, &n, 0, NULL);
}

void emit_barrier(Gen *g, Op *op) {
    if (!op->imm) { gen_barrier(g); return; }
    LLVMValueRef a[2] = {gen_i32(g, op->imm), gen_i32(g, op->attr)};
    gen_call(g, "llvm.nvvm.barrier.cta.sync.aligned.count", 2, a, 0, NULL);
}
