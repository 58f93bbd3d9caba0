// Asynchronous copies from global to shared memory: cp.async, for rings that the pass `pipeline` made.
//
// A copy moves the widest pieces of 16, 8 or 4 bytes that the access allows. Neighbouring lanes take
// neighbouring pieces of a row, warps take rows: the tile's own blocked layout, made here, since nobody
// else sees it. A piece whose lanes are dead or out of range reads nothing and writes zeros (a source
// size of 0), so a stage always holds a whole tile and a product needs no mask.
//
// cp.async of 16 bytes goes past L1 (.cg); smaller ones do not have that form.
#include "lower/facts/access.h"
#include "lower/llvm/smem_tiles.h"

// The type position of each dimension of the ring: dimensions are the indices that have an axis, in order; rows that are gathered, their own.
static void dimensions(const Access *a, Shared *s) {
    int n = 0;
    for (int d = 0; d < a->nidx; d++) {
        bool gathered = a->aff[d].ntile && a->idx[d]->type.rank == 1, seen = false;
        if (!gathered && !a->aff[d].naxis) continue;
        s->axis[n] = gathered ? a->idx[d]->type.axis[0] : a->aff[d].axis[0].axis;
        for (int i = 0; i < n; i++) seen |= s->axis[i] == s->axis[n];
        n += !seen;
    }
    if (n != s->rank) ice("a copy of %d axes into a buffer of %d dimensions", n, s->rank);
}

void gen_copy(Gen *g, LLVMValueRef to, LLVMValueRef from, int64_t imm, int bytes, LLVMValueRef live, LLVMValueRef doit) {
    LLVMValueRef n = live && LLVMTypeOf(live) == g->i32 ? live : live ? LLVMBuildSelect(g->B, live, gen_i32(g, bytes), gen_i32(g, 0), "") : NULL;
    const char *cache = bytes == 16 ? "cg" : "ca";
    if (!doit) {
        char name[64];
        LLVMValueRef by = gen_i64(g, imm), at = LLVMBuildIntToPtr(g->B, from, g->gptr, "");
        LLVMValueRef args[3] = {to, imm ? LLVMBuildGEP2(g->B, g->i8, at, &by, 1, "") : at, n};
        snprintf(name, sizeof name, "llvm.nvvm.cp.async.%s.shared.global.%d%s", cache, bytes, n ? ".s" : "");
        gen_call(g, name, n ? 3 : 2, args, 0, NULL);
        return;
    }
    char text[200];                                        // no name of LLVM's has a predicate
    LLVMValueRef args[5] = {LLVMBuildPtrToInt(g->B, to, g->i32, ""), from, gen_i32(g, imm), doit, n};
    snprintf(text, sizeof text, "@$3 cp.async.%s.shared.global [$0], [$1 + $2], %d%s;", cache, bytes, n ? ", $4" : "");
    gen_asm(g, LLVMVoidTypeInContext(g->C), text, n ? "r,l,n,b,r,~{memory}" : "r,l,n,b,~{memory}", n ? 5 : 4, args,
            true, false);
}

void emit_copy_async(Gen *g, Op *op) {
    Access a;
    Shared s;
    access_of(g->facts, op, &a);
    if (a.contiguous < 0) ice("a copy without a contiguous axis");
    const Op *ring = op->in[0]->def;
    buffer_shape(&op->in[0]->type, &s);
    dimensions(&a, &s);
    s.base = gen_i32(g, ring->attr);
    if (ring->imm > 1) {
        LLVMValueRef stage = gen_get(g, op->in[1], 0);
        s.base = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, stage, gen_i32(g, shared_bytes(&s)), ""), s.base, "");
    }
    const Layout *l = access_copy_layout(g->arena, &a, g->produces ? GROUP_THREADS / 32 : g->f->warps);
    int n = layout_regs(l), vec = access_vec(&a, l), bytes = vec * s.size, pos[MAX_AXES];
    if (bytes < 4) ice("a copy of %d bytes", bytes);
    Addr *from = addr_open(g, op, l, &a.type);
    LLVMValueRef lane[MAX_AXES], owner = gen_owner(g, l);
    SharedAt to;
    for (int d = 0; d < s.rank; d++) {
        pos[d] = type_axis(&a.type, s.axis[d]);
        lane[d] = gen_lane_coord(g, l, pos[d]);
    }
    shared_open(g, &to, &s, lane);
    for (int r = 0; r < n; r += vec) {
        int64_t all[MAX_AXES], c[MAX_AXES], imm;
        LLVMValueRef doit = owner;
        layout_coord(l, r, 0, 0, all);
        for (int d = 0; d < s.rank; d++) {
            c[d] = all[pos[d]];
            if (layout_span(l, pos[d]) <= s.extent[d]) continue;
            LLVMValueRef in = LLVMBuildICmp(g->B, LLVMIntSLT, LLVMBuildAdd(g->B, lane[d], gen_i32(g, c[d]), ""),
                                            gen_i32(g, s.extent[d]), "");
            doit = doit ? LLVMBuildAnd(g->B, doit, in, "") : in;
        }
        LLVMValueRef at = addr_at(from, r, &imm), live = addr_live(from, r);
        gen_copy(g, shared_ptr(&to, c), at, imm, bytes, live, doit);
    }
}

void emit_copy_commit(Gen *g, Op *op) { (void)op; gen_call(g, "llvm.nvvm.cp.async.commit.group", 0, NULL, 0, NULL); }

void emit_copy_arrive(Gen *g, Op *op) {
    LLVMValueRef bar = gen_mbar(g, op->in[0], gen_get(g, op->in[1], 0));
    gen_call(g, "llvm.nvvm.cp.async.mbarrier.arrive.noinc.shared", 1, &bar, 0, NULL);
}

void emit_copy_wait(Gen *g, Op *op) {
    LLVMValueRef n = gen_i32(g, op->imm);
    gen_call(g, "llvm.nvvm.cp.async.wait.group", 1, &n, 0, NULL);
}

void emit_barrier(Gen *g, Op *op) {
    (void)op;
    gen_barrier(g);
}
