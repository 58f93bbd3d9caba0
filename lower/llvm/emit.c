// From a laid-out function to an entry of an LLVM module.
//
// The entry's machine parameters are the launch slots: addresses, outer strides, dimensions, scalars, the
// number of programs. What index arithmetic nobody needs as a value (loads fold it into addresses) is
// found first, so that it is never emitted.
#include "lower/facts/access.h"
#include "lower/build.h"
#include "lower/llvm/gen.h"
#include "lower/pass/passes.h"
#include "ptx/emit.h"

#include <limits.h>
#include <string.h>

// ---- launch slots --------------------------------------------------------------------------------

static void slot(Arena *a, LaunchInfo *l, LaunchSlot s) {
    LaunchSlot *grown = NEW_N(a, LaunchSlot, l->nslots + 1);
    if (l->nslots) memcpy(grown, l->slots, sizeof *grown * (size_t)l->nslots);
    grown[l->nslots++] = s;
    l->slots = grown;
}

void gen_add_slot(Fn *f, LaunchSlot s) { slot(f->arena, f->launch, s); }

static void make_slots(Fn *f) {
    LaunchInfo *l = f->launch;
    for (int i = 0; i < l->nparams; i++) {
        const LaunchParam *p = &l->params[i];
        if (p->kind == PK_SCALAR) {
            slot(f->arena, l, (LaunchSlot){.kind = SLOT_SCALAR, .size = (uint8_t)elem_bytes(p->elem), .a = i});
            continue;
        }
        slot(f->arena, l, (LaunchSlot){.kind = SLOT_POINTER, .size = 8, .a = i});
        for (int d = 0; d < p->rank - !p->strided; d++)
            slot(f->arena, l, (LaunchSlot){.kind = SLOT_STRIDE, .size = 8, .a = i, .b = d});
    }
    for (int i = 0; i < l->ndims; i++)
        if (l->dims[i].fixed < 0) slot(f->arena, l, (LaunchSlot){.kind = SLOT_DIM, .size = f->fast ? 4 : 8, .a = i});
    slot(f->arena, l, (LaunchSlot){.kind = SLOT_EXPR, .size = 8, .expr = l->programs});
}

static void scratch_slots(Fn *f, const Op *put) {
    LaunchInfo *l = f->launch;
    LExpr counts = launch_join_const(f->arena, L_MUL, launch_join_const(f->arena, L_DIV, l->programs, put->imm), gen_part_counts(f, put));
    LExpr parts = launch_join_const(f->arena, L_MUL, l->programs, gen_part_bytes(f, put));
    slot(f->arena, l, (LaunchSlot){.kind = SLOT_SCRATCH, .size = 8, .a = SCRATCH_COUNTS, .expr = counts});
    slot(f->arena, l, (LaunchSlot){.kind = SLOT_SCRATCH, .size = 8, .a = SCRATCH_PARTS, .expr = parts});
}

static void sent_slots(Fn *f, const Op *send) {
    LExpr joining = f->dealt ? launch_const(f->arena, f->dealt)
                             : launch_join_const(f->arena, L_DIV, f->launch->programs, send->imm + 1);
    LExpr counts = launch_join_const(f->arena, L_MUL, joining, gen_slot_counts(f, send)),
          slots = launch_join_const(f->arena, L_MUL, joining, send->imm * gen_slot_bytes(f, send));
    slot(f->arena, f->launch, (LaunchSlot){.kind = SLOT_SCRATCH, .size = 8, .a = SCRATCH_COUNTS, .expr = counts});
    slot(f->arena, f->launch, (LaunchSlot){.kind = SLOT_SCRATCH, .size = 8, .a = SCRATCH_PARTS, .expr = slots});
}

static void draw_slot(Fn *f) {
    slot(f->arena, f->launch,
         (LaunchSlot){.kind = SLOT_SCRATCH, .size = 8, .a = SCRATCH_COUNTS, .expr = launch_const(f->arena, 4)});
}

static LLVMTypeRef slot_type(Gen *g, const LaunchSlot *s) {
    switch (s->kind) {
    case SLOT_POINTER: case SLOT_SCRATCH: return g->gptr;
    case SLOT_TENSORMAP: return LLVMPointerTypeInContext(g->C, 0);
    case SLOT_SCALAR: {
        Elem e = g->f->launch->params[s->a].elem;
        if (e == EL_f32) return g->f32;
        if (e == EL_f64) return g->f64;
        return LLVMIntTypeInContext(g->C, (unsigned)elem_bits(e));
    }
    default: return s->size == 4 ? g->i32 : g->i64;
    }
}

static void attribute(Gen *g, unsigned at, const char *key, const char *value) {
    LLVMAddAttributeAtIndex(
        g->fn, at, LLVMCreateStringAttribute(g->C, key, (unsigned)strlen(key), value, (unsigned)strlen(value)));
}
static void enum_attribute(Gen *g, unsigned at, const char *name, uint64_t v) {
    LLVMAddAttributeAtIndex(g->fn, at,
                            LLVMCreateEnumAttribute(g->C, LLVMGetEnumAttributeKindForName(name, strlen(name)), v));
}

static void number_attribute(Gen *g, const char *key, int n) {
    char text[32];
    snprintf(text, sizeof text, "%d", n);
    attribute(g, (unsigned)LLVMAttributeFunctionIndex, key, text);
}
static void size_attributes(Gen *g) {
    number_attribute(g, "nvvm.reqntid", g->f->launch->threads);
    number_attribute(g, "nvvm.minctasm", blocks_wanted(g->f));
}

static void make_function(Gen *g) {
    LaunchInfo *l = g->f->launch;
    LLVMTypeRef types[128];
    char text[32];
    if (l->nslots > 128) ice("kernel %s has %d machine parameters", l->entry, l->nslots);
    for (int i = 0; i < l->nslots; i++) types[i] = slot_type(g, &l->slots[i]);
    LLVMTypeRef ft = LLVMFunctionType(LLVMVoidTypeInContext(g->C), types, (unsigned)l->nslots, 0);
    g->fn = LLVMAddFunction(g->M, l->entry, ft);
    LLVMSetFunctionCallConv(g->fn, 71);                        // ptx_kernel
    size_attributes(g);
    snprintf(text, sizeof text, "%d,1,1", g->f->cluster);
    if (g->f->cluster) attribute(g, (unsigned)LLVMAttributeFunctionIndex, "nvvm.cluster_dim", text);
    enum_attribute(g, (unsigned)LLVMAttributeFunctionIndex, "nounwind", 0);
    g->param = NEW_N(g->arena, LLVMValueRef, l->nslots);
    for (int i = 0; i < l->nslots; i++) {
        const LaunchSlot *s = &l->slots[i];
        unsigned at = (unsigned)i + 1;
        g->param[i] = LLVMGetParam(g->fn, (unsigned)i);
        if (s->kind == SLOT_POINTER) {
            const LaunchParam *p = &l->params[s->a];
            LLVMSetValueName2(g->param[i], p->name->s, p->name->n);
            if (p->kind == PK_TENSOR) enum_attribute(g, at, "noalias", 0);
            enum_attribute(g, at, "align", p->kind == PK_TENSOR && g->f->fast ? 16 : (uint64_t)elem_bytes(p->elem));
        } else if (s->kind == SLOT_TENSORMAP) {
            LLVMTypeRef map = LLVMArrayType2(g->i8, 128);
            LLVMAddAttributeAtIndex(g->fn, at,
                                    LLVMCreateTypeAttribute(g->C, LLVMGetEnumAttributeKindForName("byval", 5), map));
            enum_attribute(g, at, "align", 64);
            attribute(g, at, "nvvm.grid_constant", "");
        }
    }
    for (int i = 0; i < l->nslots; i++)                        // a bool comes as a byte
        if (l->slots[i].kind == SLOT_SCALAR && l->params[l->slots[i].a].elem == EL_bool) g->param[i] = NULL;
}

// ---- which index arithmetic is needed as values --------------------------------------------------

static bool lazy(const Val *v) {
    if (!v->def || v->type.rank == 0) return false;
    if (v->def->code == OP_T_index || v->def->code == OP_T_live) return true;
    return v->type.elem == EL_index &&
           (v->def->code == OP_T_binary || v->def->code == OP_T_splat || v->def->code == OP_T_cast);
}

static void want(Gen *g, const Val *v) { g->wanted[v->id] = true; }

static void want_region(Gen *g, const Region *r) {
    for (const Op *op = r->last; op; op = op->prev) {
        bool active = op->nout == 0;
        for (int i = 0; i < op->nout; i++) active |= g->wanted[op->out[i]->id] || !lazy(op->out[i]);
        for (int i = op->nreg - 1; i >= 0; i--) want_region(g, op->reg[i]);
        if (!active) continue;
        int first = op->code == OP_T_copy_async ? 3 : 1;
        bool access = op->code == OP_T_load || op->code == OP_T_store || op->code == OP_T_row_store ||
                      op->code == OP_T_copy_async;
        for (int i = 0; i < op->nin; i++)
            if (!access || i < first || i >= first + op->nidx) want(g, op->in[i]);
        if (!access) continue;
        Access a;
        access_of(g->facts, op, &a);
        for (int d = 0; d < a.nidx; d++) {
            const Affine *x = &a.aff[d];
            for (int t = 0; t < x->ntile; t++) want(g, x->tile[t].v);
            for (int t = 0; t < x->nterm; t++) want(g, x->term[t].v);
            for (int t = 0; t < x->naxis; t++) if (x->axis[t].scale) want(g, x->axis[t].scale);
        }
    }
}

// ---- one kernel ----------------------------------------------------------------------------------

static bool holds(const Region *r, OpCode code) {
    for (const Op *op = r->first; op; op = op->next) {
        if (op->code == code) return true;
        for (int i = 0; i < op->nreg; i++) if (holds(op->reg[i], code)) return true;
    }
    return false;
}

static bool asks(Gen *g, const Region *r) {                 // for scratch
    for (const Op *op = r->first; op; op = op->next) {
        if (gen_room(g, op) > 0) return true;
        for (int i = 0; i < op->nreg; i++) if (asks(g, op->reg[i])) return true;
    }
    return false;
}

// The rings are free once the loop of products is over: conversions may use their memory, if all come later.
static bool rings_are_free(Gen *g) {
    const Op *roles = g->f->body.first;
    while (roles && roles->code != OP_T_roles) roles = roles->next;
    if (!roles) return gen_rings_end(g);
    if (roles->attr > 1 && gen_scratch_room(g) > g->joined_at) return false;       // what was handed over is read beside it
    if (g->f->bands > 1) return false;                                             // another group may be in the loop yet
    bool seen = false, taken = false;
    for (const Op *op = roles->reg[1]->first; op; op = op->next) {
        bool products = false, scratch = gen_room(g, op) > 0;
        for (int i = 0; i < op->nreg; i++) { products |= holds(op->reg[i], OP_T_wgmma); scratch |= asks(g, op->reg[i]); }
        if ((scratch && (!seen || products)) || (taken && op->code == OP_T_buffer_load)) return false;
        taken |= scratch;
        seen |= products;
    }
    return true;
}

// The roles of a kernel whose consumers come in slices, or NULL.
static const Op *slices_of(const Fn *f) {
    for (const Op *op = f->body.first; op; op = op->next) if (op->code == OP_T_roles && op->attr > 1) return op;
    return NULL;
}

// What all slices but the first hand over, behind the rings.
static void room_to_join(Gen *g, int slices) {
    Fn *f = g->f;
    g->joined_at = (f->buffer_bytes + 15) & ~15u;
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (op_put_in(op) == PUT_block) f->buffer_bytes = g->joined_at + (uint32_t)(gen_part_bytes(f, op) * (slices - 1));
}

static LLVMValueRef shared_memory(PtxUnit *unit) {
    LLVMValueRef smem = LLVMGetNamedGlobal(ptx_module(unit), "smem");
    if (smem) return smem;
    LLVMTypeRef bytes = LLVMArrayType2(LLVMInt8TypeInContext(ptx_context(unit)), 0);
    smem = LLVMAddGlobalInAddressSpace(ptx_module(unit), bytes, "smem", 3);
    LLVMSetAlignment(smem, 1024);
    LLVMSetLinkage(smem, LLVMExternalLinkage);
    return smem;
}

// ---- early starts --------------------------------------------------------------------------------
// For launches of a graph (Fn.early). One may begin when all blocks of the one before have
// (griddepcontrol.launch_dependents: right away, here), and waits before it touches memory, whatever it is that it
// touches; with roles after the barriers are made, or where the pass `hopper` says so. Both cost something: 65536
// blocks of four short rows each took a quarter longer, so programs of one warp do it where a multiprocessor has a few
// blocks of them.

void gen_wait_launches(Gen *g) {
    // loads of what nobody writes have no order but that of blocks
    LLVMBasicBlockRef after = gen_block(g, "memory");
    LLVMMoveBasicBlockAfter(after, LLVMGetInsertBlock(g->B));
    gen_call(g, "llvm.nvvm.griddepcontrol.wait", 0, NULL, 0, NULL);
    LLVMBuildBr(g->B, after);
    LLVMPositionBuilderAtEnd(g->B, after);
}

static void start_few_early(Gen *g) {
    enum { FEW = 8 };
    int most = (int)g->f->target->sms * FEW;
    LLVMBasicBlockRef few = gen_block(g, "few"), after = gen_block(g, "started");
    LLVMValueRef blocks = gen_call(g, "llvm.nvvm.read.ptx.sreg.nctaid.x", 0, NULL, 0, NULL);
    LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntULE, blocks, gen_i32(g, most), ""), few, after);
    LLVMPositionBuilderAtEnd(g->B, few);
    gen_call(g, "llvm.nvvm.griddepcontrol.launch.dependents", 0, NULL, 0, NULL);
    gen_wait_launches(g);
    LLVMBuildBr(g->B, after);
    LLVMPositionBuilderAtEnd(g->B, after);
    g->f->launch->early = most;
}

static void start_early(Gen *g) {
    if (!g->f->target->has_pdl || !g->f->early) return;
    if (g->one_warp) { start_few_early(g); return; }
    for (const Op *op = g->f->body.first;
         op && !op_has(op, 'R') && !op_has(op, 'W') && (op->nreg == 0 || op->code == OP_T_roles); op = op->next)
        g->waits_late |= op->code == OP_T_roles;
    bool itself = holds(&g->f->body, OP_T_wait_launches);
    g->f->launch->early = INT_MAX;
    gen_call(g, "llvm.nvvm.griddepcontrol.launch.dependents", 0, NULL, 0, NULL);
    if (itself) g->waits_late = false;
    else if (!g->waits_late) gen_wait_launches(g);
}

static void open_types(Gen *g) {
    g->i1 = LLVMInt1TypeInContext(g->C);
    g->i8 = LLVMInt8TypeInContext(g->C);
    g->i16 = LLVMInt16TypeInContext(g->C);
    g->i32 = LLVMInt32TypeInContext(g->C);
    g->i64 = LLVMInt64TypeInContext(g->C);
    g->f16 = LLVMHalfTypeInContext(g->C);
    g->f32 = LLVMFloatTypeInContext(g->C);
    g->f64 = LLVMDoubleTypeInContext(g->C);
    g->gptr = LLVMPointerTypeInContext(g->C, 1);
    g->sptr = LLVMPointerTypeInContext(g->C, 3);
}

// Parameters that the machine code has besides the source's.
static void all_slots(Fn *f) {
    bool meets = false;                                        // the first time stands for all
    make_slots(f);
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) {
        if (op_put_in(op) == PUT_memory || (op_put_in(op) == PUT_all && !meets)) scratch_slots(f, op);
        meets |= op_put_in(op) == PUT_all;
    }
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) if (op->code == OP_T_draw) draw_slot(f);
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) if (op->code == OP_T_part_send) sent_slots(f, op);
}

// Shared memory behind the rings, or over them where they are free by then: true.
static bool place_scratch(Gen *g) {
    bool over = rings_are_free(g);
    g->scratch = over ? 0 : (g->f->buffer_bytes + 15) & ~15u;
    g->scratch_size = gen_scratch_room(g);
    g->smem_used = g->scratch + ((g->scratch_size + 15) & ~15u);
    if (g->smem_used < g->f->buffer_bytes) g->smem_used = g->f->buffer_bytes;
    return over;
}

// Programs of one warp have their shared memory beside one another: there are as many to a block as it has room for.
static void fit_programs(Gen *g) {
    LaunchInfo *l = g->f->launch;
    uint32_t each = (g->smem_used + 127) & ~127u, programs = (uint32_t)l->threads / 32, fit = programs;
    while (fit > 1 && each * fit > g->opt->target->smem_block) fit /= 2;
    if (fit == programs || !g->one_warp || g->f->rows_walk || g->f->tallies) return;
    g->program_threads = l->threads = (int)fit * 32;
    l->blocks = fit == 1 ? l->programs : launch_join_const(g->arena, L_CDIV, l->programs, fit);
    size_attributes(g);
}

static void open_entry(Gen *g) {
    LLVMPositionBuilderAtEnd(g->B, gen_block(g, "entry"));
    g->exit = gen_block(g, "exit");
    for (int i = 0; i < g->f->launch->nslots; i++)
        if (!g->param[i])
            g->param[i] = LLVMBuildICmp(g->B, LLVMIntNE, LLVMGetParam(g->fn, (unsigned)i), LLVMConstInt(g->i8, 0, 0), "");
    g->tid = gen_call(g, "llvm.nvvm.read.ptx.sreg.tid.x", 0, NULL, 0, NULL);
    g->lane = LLVMBuildAnd(g->B, g->tid, gen_i32(g, 31), "");
    g->warp = g->one_warp ? gen_i32(g, 0) : LLVMBuildLShr(g->B, g->tid, gen_i32(g, 5), "");
}

// A number of bytes that is known when all has been generated.
static LLVMValueRef number_to_be(Gen *g) { return gen_call(g, "llvm.nvvm.read.ptx.sreg.envreg0", 0, NULL, 0, NULL); }

static void number_is(Gen *g, LLVMValueRef number, uint32_t bytes) {
    LLVMReplaceAllUsesWith(number, gen_i32(g, bytes));
    LLVMInstructionEraseFromParent(number);
}

void gen_kernel(Session *s, Fn *f, const CompileOptions *opt, PtxUnit *unit) {
    LLVMContextRef C = ptx_context(unit);
    Gen g = {.session = s, .arena = f->arena, .f = f, .facts = facts_new(f), .opt = opt, .C = C, .M = ptx_module(unit)};
    open_types(&g);
    g.smem = shared_memory(unit);
    ir_number(f);
    facts_narrow(g.facts, facts_indices(f));
    g.tile = NEW_N(f->arena, Tile, f->nvals + 1);
    g.narrow = NEW_N(f->arena, uint8_t, f->nvals + 1);
    g.wanted = NEW_N(f->arena, bool, f->nvals + 1);
    g.B = ptx_builder(C);
    g.one_warp = f->warps == 1;
    g.program_threads = f->launch->threads;
    g.smem_used = f->buffer_bytes;
    all_slots(f);
    gen_reciprocals(&g);
    gen_tally_slots(&g);
    make_function(&g);
    lines_open(&g);
    want_region(&g, &f->body);
    const Op *roles = slices_of(f);
    if (roles) room_to_join(&g, (int)roles->attr);
    uint32_t own = place_scratch(&g) ? g.smem_used : g.scratch;             // from here on it is a slice's
    fit_programs(&g);
    open_entry(&g);
    start_early(&g);
    g.rings = g.smem;
    if (roles) g.slice_apart = number_to_be(&g);
    LLVMValueRef apart = NULL;                                 // bytes from one program's shared memory to the next one's
    if (g.one_warp && g.program_threads > 32) {
        apart = number_to_be(&g);
        g.smem = gen_smem(&g, LLVMBuildMul(g.B, LLVMBuildLShr(g.B, g.tid, gen_i32(&g, 5), ""), apart, ""));
    }
    gen_cluster_begin(&g);
    g.accs = acc_open(&g);
    gen_region(&g, &f->body);
    if (!g.dead) LLVMBuildBr(g.B, g.exit);
    LLVMPositionBuilderAtEnd(g.B, g.exit);
    LLVMBuildRetVoid(g.B);
    acc_close(&g);
    lines_close(&g);
    ptx_builder_end(g.B);
    f->launch->smem = g.smem_used;
    if (apart) {
        g.smem_used = (g.smem_used + 127) & ~127u;
        f->launch->smem = g.smem_used * (uint32_t)(g.program_threads / 32);
        number_is(&g, apart, g.smem_used);
    }
    if (roles) {
        own = (g.smem_used - own + 127) & ~127u;
        f->launch->smem = g.smem_used += own * (uint32_t)(roles->attr - 1);
        number_is(&g, g.slice_apart, own);
    }
    gen_keep_close(&g);
    if (g.keep.op) number_attribute(&g, "nvvm.minctasm", blocks_that_keep(f));
    gen_tally_close(&g);
    gen_check_room(&g);
    ptx_need(unit, g.ptx_version);
}
