// The blocks of a cluster, each of which joins a slice of a tile that all have a part of (pass/cluster_scatter.c).
//
//     part p      registers of slice s, s not p      st.async into block s, slot p (p - 1 behind its own), 16 bytes a thread at a time
//     block s     waits for its mbarrier             as many bytes as S - 1 slots have
//                 part 0 + part 1 + ..               its own from registers, where its turn is
//
//     a slot      value by value, register by register as the threads hold the slice, as in llvm/split_k_workspace.c
//
// A slice differs from the next one in registers alone (layout_slice), so a thread sends to the same thread of the other
// blocks, and reads what its fellows have sent: nothing is rearranged. Which slice is a block's own is known when it
// runs: each slice is sent in a branch of its own, and the own one picked by selects.
//
// Slots are nobody else's memory, so that a block may send while another one still multiplies; it must have begun,
// which all wait for once, behind their loops (llvm/cluster_reduce.c). A block that has received all may end: no more comes.
#include "lower/llvm/split_k_workspace.h"

typedef struct Sliced {                      // a value of the part_put
    const Val *whole, *own;
    int  regs, alive, *reg;                  // of the slice: all, those that may be alive, and which
    int *from;                               // of the whole: where register r of slice s is, [s * regs + r]
    int64_t at, bytes;                       // in a slot; of all threads
} Sliced;

static const Op *get_of(const Gen *g, const Op *put, int value) {
    for (const Op *op = op_walk(&g->f->body, NULL); op; op = op_walk(&g->f->body, op))
        if (op->code == OP_T_part_get && op->in[1] == put->out[0] && op->attr == value) return op;
    return NULL;
}

static int64_t threads_of(const Gen *g) { return (int64_t)g->f->warps * 32; }

static int register_at(const Val *v, const int64_t *coord) {
    for (int r = 0; r < part_regs(v); r++) {
        bool same = true;
        for (int i = 0; i < v->type.rank && same; i++) same = gen_reg_coord(v->layout, i, r) == coord[i];
        if (same) return r;
    }
    ice("a slice is not in the registers of its tile");
}

static void places(Gen *g, Sliced *v, int parts) {
    const Type *whole = &v->whole->type, *slice = &v->own->type;
    int divided = 0, own = 0;
    slice_axes(whole, slice, &divided, &own);
    v->from = NEW_N(g->arena, int, parts * v->regs);
    for (int s = 0; s < parts; s++)
        for (int r = 0; r < v->regs; r++) {
            int64_t at[MAX_AXES];
            for (int i = 0; i < whole->rank; i++)
                at[i] = gen_reg_coord(v->own->layout, i == divided ? own : type_axis(slice, whole->axis[i]), r);
            at[divided] += s * axis_extent(slice->axis[own]);
            v->from[s * v->regs + r] = register_at(v->whole, at);
        }
}

// The values that are joined; how many they are.
static int sliced(Gen *g, const Op *put, Sliced *out, int64_t *slot) {
    int n = 0;
    *slot = 0;
    for (int i = 0; i < put->nin - 2; i++) {
        const Op *get = get_of(g, put, i);
        if (!get) continue;
        Sliced v = {.whole = put->in[2 + i], .own = get->out[0], .regs = part_regs(get->out[0]), .at = *slot};
        v.alive = part_alive(g, v.own, &v.reg);
        v.bytes = (int64_t)v.alive * part_unit(v.own) * threads_of(g);
        places(g, &v, (int)put->imm);
        *slot += v.bytes;
        out[n++] = v;
    }
    return n;
}

// In a slot: n registers that move together from the k-th alive one on, of the first of the threads that hold what this one does.
static LLVMValueRef offset(Gen *g, const Sliced *v, LLVMValueRef slot, int k, int n) {
    uint32_t   lanes = layout_replica_lanes(v->own->layout), warps = layout_replica_warps(v->own->layout);
    int        unit = part_unit(v->own);
    LLVMValueRef lane = lanes ? LLVMBuildAnd(g->B, g->lane, gen_i32(g, 31 & ~lanes), "") : g->lane;
    LLVMValueRef warp = warps ? LLVMBuildAnd(g->B, g->warp, gen_i32(g, ~(int64_t)warps), "") : g->warp;
    LLVMValueRef thread = LLVMBuildAdd(g->B, LLVMBuildMul(g->B, warp, gen_i32(g, 32), ""), lane, "");
    LLVMValueRef at = LLVMBuildAdd(g->B, slot, LLVMBuildMul(g->B, thread, gen_i32(g, n * unit), ""), "");
    return LLVMBuildAdd(g->B, at, gen_i32(g, g->joined_at + v->at + (int64_t)k * unit * threads_of(g)), "");
}

static void send(Gen *g, const Sliced *v, LLVMValueRef slot, int to) {
    LLVMValueRef words[4];
    for (int k = 0, n; k < v->alive; k += n) {
        n = part_run(v->own, v->alive - k);
        for (int i = 0; i < n; i++) words[i] = part_to_bits(g, v->own, gen_get(g, v->whole, v->from[to * v->regs + v->reg[k + i]]));
        gen_cluster_send(g, to, offset(g, v, slot, k, n), n, words, g->joined_bar);
    }
}

static int64_t received(const Sliced *v) {
    return v->bytes >> (__builtin_popcount(layout_replica_lanes(v->own->layout)) + __builtin_popcount(layout_replica_warps(v->own->layout)));
}

static LLVMValueRef part_of(Gen *g, const Op *put) { return LLVMBuildTrunc(g->B, gen_get64(g, put->in[1], 0), g->i32, ""); }

static void send_owned(Gen *g, const Sliced *v, LLVMValueRef slot, int to) {
    LLVMValueRef owner = gen_owner(g, v->own->layout);
    LLVMBasicBlockRef mine = owner ? gen_block(g, "put") : NULL, go = owner ? gen_block(g, "kept") : NULL;
    if (owner) { LLVMBuildCondBr(g->B, owner, mine, go); LLVMPositionBuilderAtEnd(g->B, mine); }
    send(g, v, slot, to);
    if (owner) { LLVMBuildBr(g->B, go); LLVMPositionBuilderAtEnd(g->B, go); }
}

void gen_scatter(Gen *g, const Op *put) {
    Sliced v[MAX_SLICED];
    int64_t slot, bytes = 0;
    int     n = sliced(g, put, v, &slot), parts = (int)put->imm;
    for (int i = 0; i < n; i++) bytes += received(&v[i]);
    g->joined_bar = gen_cluster_bar(g);
    g->joined_at = gen_cluster_room(g, slot * (parts - 1));
    gen_cluster_expect(g, g->joined_bar, bytes * (parts - 1), part_one_thread(g));
    LLVMValueRef part = part_of(g, put);
    for (int s = 0; s < parts; s++) {
        LLVMBasicBlockRef other = gen_block(g, "send"), next = gen_block(g, "sent");
        LLVMBuildCondBr(g->B, LLVMBuildICmp(g->B, LLVMIntNE, part, gen_i32(g, s), ""), other, next);
        LLVMPositionBuilderAtEnd(g->B, other);
        LLVMValueRef behind = LLVMBuildICmp(g->B, LLVMIntSGT, part, gen_i32(g, s), "");
        LLVMValueRef number = LLVMBuildSub(g->B, part, LLVMBuildZExt(g->B, behind, g->i32, ""), "");
        for (int i = 0; i < n; i++) send_owned(g, &v[i], LLVMBuildMul(g->B, number, gen_i32(g, slot), ""), s);
        LLVMBuildBr(g->B, next);
        LLVMPositionBuilderAtEnd(g->B, next);
    }
    gen_cluster_await(g, g->joined_bar);
}

// What part k sent; of its own part a block reads another one's, which nobody wants.
static void load(Gen *g, const Sliced *v, LLVMValueRef part, int k, int parts, int64_t slot, LLVMValueRef *out) {
    LLVMValueRef before = LLVMBuildICmp(g->B, LLVMIntSLT, part, gen_i32(g, k), "");
    LLVMValueRef number = LLVMBuildSelect(g->B, before, gen_i32(g, k - 1), gen_i32(g, k < parts - 1 ? k : parts - 2), "");
    LLVMValueRef at = LLVMBuildMul(g->B, number, gen_i32(g, slot), "");
    for (int i = 0, n; i < v->alive; i += n) {
        n = part_run(v->own, v->alive - i);
        LLVMValueRef x = LLVMBuildLoad2(g->B, part_words(g, v->own, n), gen_smem(g, offset(g, v, at, i, n)), "");
        LLVMSetAlignment(x, (unsigned)(n * part_unit(v->own)));
        for (int w = 0; w < n; w++)
            out[v->reg[i + w]] = part_from_bits(g, v->own, n == 1 ? x : LLVMBuildExtractElement(g->B, x, gen_i32(g, w), ""));
    }
}

void gen_scattered(Gen *g, const Op *get) {
    Sliced all[MAX_SLICED], *v = all;
    int64_t slot;
    const Op *put = get->in[1]->def;
    int     n = sliced(g, put, all, &slot), parts = (int)put->imm;
    while (v < all + n && v->whole != put->in[2 + get->attr]) v++;
    LLVMValueRef part = part_of(g, put), *sum = NEW_N(g->arena, LLVMValueRef, v->regs), *more = NEW_N(g->arena, LLVMValueRef, v->regs);
    Elem    e = (Elem)get->out[0]->type.elem, wide = elem_is_storage(e) ? EL_f32 : e;
    for (int k = 0; k < parts; k++) {
        LLVMValueRef own = LLVMBuildICmp(g->B, LLVMIntEQ, part, gen_i32(g, k), "");
        load(g, v, part, k, parts, slot, more);
        for (int i = 0; i < v->alive; i++) {
            int r = v->reg[i];
            LLVMValueRef x = LLVMBuildSelect(g->B, own, gen_get(g, v->whole, v->from[k * v->regs + r]), more[r], "");
            if (wide != e) x = gen_to_f32(g, x, e);
            sum[r] = k ? gen_join(g, (TReduce)get->sub, wide, sum[r], x) : x;
        }
    }
    for (int r = 0; r < v->regs; r++) {
        bool there = false;
        for (int i = 0; i < v->alive; i++) there |= v->reg[i] == r;
        gen_set(g, get->out[0], r, !there ? LLVMConstNull(gen_type(g, get->out[0])) : wide != e ? gen_kept_f32(g, sum[r], e) : sum[r]);
    }
}
