// Tiles of accumulators to global memory by TMA: tma_store.
//
// Each warp group owns slots of shared memory, two or more of 64 rows of 128 bytes, and 64 rows of the tile at a time. It
// takes the columns by spans of 128 bytes: waits until the slot has been read by the copy engine, writes its registers there
// under the swizzle that the tensor map names, makes that visible to the copy engine, and one of its threads sends the slot
// off. Where the slots hold the whole tile, it is written and sent at once: the copy engine takes its time, behind the
// loads for the next tiles.
//
//     rows of 64 (warp group)   span 0 -> slot 0 -> TMA      span 1 -> slot 1 -> TMA      span 2 -> slot 0 ...
//
// An accumulator's registers lie in memory as (column, column + 1), (row + 8), then eight columns on (layout_mma_acc):
// two 16-bit elements are a word and four words a stmatrix; 32-bit elements go in pairs. 16 bytes at a row's place x are
// at x ^ (row % 8), which spreads both over all banks. Rows in pairs (layout_mma_pairs) are neighbours instead of eight apart.
#include "lower/llvm/gen.h"

typedef struct Out {
    Gen   *g;
    const Op *op;
    const Val *v, *row, *col;
    // the warp group; is this its thread that talks to the copy engine; byte of its first slot
    LLVMValueRef group, elected, slot;
    // of an element; columns of a span; times 64 rows; spans of a row, the last of which may be narrower
    int    size, span, blocks, spans;
    bool   pairs;
} Out;

static void group_barrier(const Out *o) {
    Gen *g = o->g;
    gen_barrier_named(g, gen_add(g, g->slice ? g->slice : o->group, gen_i32(g, BARRIER_STORE)), GROUP_THREADS);
}

static void elected(Gen *g, LLVMValueRef cond, LLVMBasicBlockRef *go) {
    LLVMBasicBlockRef yes = gen_block(g, "elected");
    *go = gen_block(g, "group");
    LLVMBuildCondBr(g->B, cond, yes, *go);
    LLVMPositionBuilderAtEnd(g->B, yes);
}
static void rejoin(Gen *g, LLVMBasicBlockRef go) {
    LLVMBuildBr(g->B, go);
    LLVMPositionBuilderAtEnd(g->B, go);
}

static void wait_read(Gen *g, int in_flight) {
    LLVMValueRef n = gen_i32(g, in_flight);
    gen_call(g, "llvm.nvvm.cp.async.bulk.wait.group.read", 1, &n, 0, NULL);
}

// First register of rows `block` of 64 and eight columns `eight`.
static int reg_at(const Out *o, int block, int eight) { return 4 * (block * (int)(axis_extent(o->col) / 8) + eight); }

static int eights(const Out *o, int span) {              // of columns, in a span
    int left = (int)axis_extent(o->col) - span * o->span;
    return (left < o->span ? left : o->span) / 8;
}

static void put_16bit(const Out *o, LLVMValueRef slot, int block, int span) {
    Gen *g = o->g;
    LLVMValueRef l = g->lane, high = gen_bits(g, l, 3, 1), low = gen_bits(g, l, 0, 7);
    LLVMValueRef row = o->pairs ? gen_add(g, gen_times(g, low, 2), high) : gen_add(g, low, gen_times(g, high, 8));
    LLVMValueRef phase = o->pairs ? gen_bits(g, row, 0, 7) : gen_bits(g, l, 0, 7);
    row = gen_add(g, row, gen_times(g, gen_bits(g, g->warp, 0, 3), 16));
    LLVMValueRef chunk = LLVMBuildXor(g->B, gen_bits(g, l, 4, 1), phase, ""),
                 base = gen_add(g, slot, gen_times(g, row, 128));
    for (int e = 0, n = eights(o, span); e < n; e += 2) {
        bool two = e + 1 < n;
        LLVMValueRef x = LLVMBuildXor(g->B, chunk, gen_i32(g, e), ""), args[5];
        args[0] = LLVMBuildPtrToInt(g->B, gen_ring(g, gen_add(g, base, gen_times(g, x, 16))), g->i32, "");
        for (int k = 0; k < (two ? 4 : 2); k++) args[1 + k] = gen_word(g, o->v, reg_at(o, block, span * 8 + e) + 2 * k, 2);
        gen_asm(g, LLVMVoidTypeInContext(g->C),
                two ? "stmatrix.sync.aligned.m8n8.x4.shared.b16 [$0], {$1, $2, $3, $4};"
                    : "stmatrix.sync.aligned.m8n8.x2.shared.b16 [$0], {$1, $2};",
                two ? "r,r,r,r,r,~{memory}" : "r,r,r,~{memory}", two ? 5 : 3, args, true, true);
    }
}

static void put_32bit(const Out *o, LLVMValueRef slot, int block, int span) {
    Gen *g = o->g;
    LLVMTypeRef pair = LLVMVectorType(g->i32, 2);
    LLVMValueRef below = LLVMBuildLShr(g->B, g->lane, gen_i32(g, 2), ""), c = gen_bits(g, g->lane, 0, 3);
    LLVMValueRef first = o->pairs ? gen_times(g, below, 2) : below;
    LLVMValueRef base = gen_add(g, slot, gen_times(g, gen_add(g, first, gen_times(g, gen_bits(g, g->warp, 0, 3), 16)), 128));
    base = gen_add(g, base, gen_times(g, gen_bits(g, c, 0, 1), 8));
    for (int e = 0; e < eights(o, span); e++) {
        LLVMValueRef chunk = gen_add(g, gen_bits(g, c, 1, 1), gen_i32(g, 2 * e)), at = NULL;
        for (int h = 0; h < 2; h++) {
            LLVMValueRef w = LLVMGetUndef(pair), phase = o->pairs ? gen_bits(g, gen_add(g, first, gen_i32(g, h)), 0, 7) : below;
            if (o->pairs || !h) at = gen_add(g, base, gen_times(g, LLVMBuildXor(g->B, chunk, phase, ""), 16));
            for (int k = 0; k < 2; k++) {
                LLVMValueRef r = gen_get(g, o->v, reg_at(o, block, span * 4 + e) + 2 * h + k);
                w = LLVMBuildInsertElement(g->B, w, LLVMTypeOf(r) == g->f32 ? LLVMBuildBitCast(g->B, r, g->i32, "") : r,
                                           gen_i32(g, k), "");
            }
            LLVMSetAlignment(LLVMBuildStore(g->B, w, gen_ring(g, gen_add(g, at, gen_i32(g, h * (o->pairs ? 1 : 8) * 128)))), 8);
        }
    }
}

// Of the transposed product, whose rows are columns here: 64 of either, in two slots of 32 columns, each written by two warps. Lanes have elements of
// four rows and eight columns, which are on banks of their own.
//
//     columns 0 .. 31    warps 0, 1 -> slot 0        columns 32 .. 63    warps 2, 3 -> slot 1
static void put_across(const Out *o, LLVMValueRef left, LLVMValueRef right, int block, int eight) {
    Gen *g = o->g;
    LLVMValueRef warp = gen_bits(g, g->warp, 0, 3), below = LLVMBuildLShr(g->B, g->lane, gen_i32(g, 2), ""), c = gen_bits(g, g->lane, 0, 3);
    LLVMValueRef slot = LLVMBuildSelect(g->B, LLVMBuildICmp(g->B, LLVMIntULT, warp, gen_i32(g, 2), ""), left, right, "");
    LLVMValueRef base = gen_add(g, gen_add(g, slot, gen_times(g, c, 2 * 128)), gen_times(g, gen_bits(g, below, 0, 3), 4));
    LLVMValueRef chunk = gen_add(g, gen_times(g, gen_bits(g, warp, 0, 1), 4), gen_bits(g, below, 2, 1));
    for (int k = 0; k < 2; k++)
        for (int h = 0; h < 2; h++) {
            LLVMValueRef row = gen_add(g, gen_times(g, c, 2), gen_i32(g, k)), x = LLVMBuildXor(g->B, gen_add(g, chunk, gen_i32(g, 2 * h)), row, "");
            LLVMValueRef at = gen_add(g, base, gen_times(g, x, 16));
            for (int e = 0; e < 8; e++) {
                int first = 4 * (block * (int)(axis_extent(o->row) / 8) + 8 * eight + e);
                LLVMSetAlignment(LLVMBuildStore(g->B, gen_get(g, o->v, first + 2 * h + k), gen_ring(g, gen_add(g, at, gen_i32(g, (8 * e + k) * 128)))), 4);
            }
        }
}

// The same with rows in pairs: a lane has two neighbours of each memory's row, of 16 bits a word of one slot that all four warps write.
static void put_across_pairs(const Out *o, LLVMValueRef left, LLVMValueRef right, int block, int eight) {
    Gen *g = o->g;
    bool wide = o->size == 4;
    LLVMTypeRef pair = LLVMVectorType(g->i32, 2);
    LLVMValueRef warp = gen_bits(g, g->warp, 0, 3), below = LLVMBuildLShr(g->B, g->lane, gen_i32(g, 2), ""), c = gen_bits(g, g->lane, 0, 3);
    LLVMValueRef slot = wide ? LLVMBuildSelect(g->B, LLVMBuildICmp(g->B, LLVMIntULT, warp, gen_i32(g, 2), ""), left, right, "") : left;
    LLVMValueRef base = gen_add(g, gen_add(g, slot, gen_times(g, c, 2 * 128)), wide ? gen_times(g, gen_bits(g, below, 0, 1), 8) : gen_times(g, gen_bits(g, below, 0, 3), 4));
    LLVMValueRef chunk = wide ? gen_add(g, gen_times(g, gen_bits(g, warp, 0, 1), 4), gen_bits(g, below, 1, 3)) : gen_add(g, gen_times(g, warp, 2), gen_bits(g, below, 2, 1));
    for (int k = 0; k < 2; k++) {
        LLVMValueRef row = gen_add(g, gen_times(g, c, 2), gen_i32(g, k)), at = gen_add(g, base, gen_times(g, LLVMBuildXor(g->B, chunk, row, ""), 16));
        for (int e = 0; e < 8; e++) {
            int first = 4 * (block * (int)(axis_extent(o->row) / 8) + 8 * eight + e);
            LLVMValueRef w = wide ? LLVMGetUndef(pair) : gen_permute(g, gen_word(g, o->v, first, 2), gen_word(g, o->v, first + 2, 2), gen_i32(g, k ? 0x7632 : 0x5410));
            for (int h = 0; wide && h < 2; h++) {
                LLVMValueRef r = gen_get(g, o->v, first + 2 * h + k);
                w = LLVMBuildInsertElement(g->B, w, LLVMTypeOf(r) == g->f32 ? LLVMBuildBitCast(g->B, r, g->i32, "") : r, gen_i32(g, h), "");
            }
            LLVMSetAlignment(LLVMBuildStore(g->B, w, gen_ring(g, gen_add(g, at, gen_i32(g, (8 * e + k) * 128)))), wide ? 8 : 4);
        }
    }
}

static LLVMValueRef number(Gen *g, const Val *v) {
    LLVMValueRef x = gen_get(g, v, 0);
    return LLVMTypeOf(x) == g->i32 ? x : LLVMBuildTrunc(g->B, x, g->i32, "");
}

// Where these rows of the tile begin in the tensor, but for the column.
static void start(const Out *o, LLVMValueRef rows, LLVMValueRef *at) {
    Gen *g = o->g;
    const Op *op = o->op;
    const LaunchSlot *map = gen_map(g, op);
    int rank = op->nidx;
    for (int i = 0; i < rank; i++) {
        int d = map->map_dim[i];
        LLVMValueRef x = number(g, op->in[2 + d]);
        if (map->im2col && i) {                                   // so many pixels on: a sum of numbers in mixed radix
            x = gen_add(g, x, rows);
            if (d) {
                LLVMValueRef radix = number(g, op->in[5 + rank + (rank - 2 - d)]), pixels = x;
                rows = LLVMBuildUDiv(g->B, pixels, radix, "");
                x = LLVMBuildURem(g->B, pixels, radix, "");
            }
        } else if (i && map->box[i] > 1) x = gen_add(g, x, rows);
        at[d] = x;
    }
}

static void send(const Out *o, LLVMValueRef slot, LLVMValueRef *at, LLVMValueRef column, bool last) {
    Gen *g = o->g;
    const Op *op = o->op;
    const LaunchSlot *map = gen_map(g, op);
    int rank = op->nidx, n = 0;
    LLVMValueRef a[12];
    char name[64];
    snprintf(name, sizeof name, "llvm.nvvm.cp.async.bulk.tensor.%s.%s.%dd", op->attr & TO_ADD ? "reduce.add" : "s2g", map->im2col ? "im2col" : "tile", rank);
    a[n++] = gen_ring(g, slot);
    a[n++] = gen_param(g, SLOT_TENSORMAP, (int)op->in[1]->def->imm, (int)op->imm + last);
    // innermost first
    for (int i = 0; i < rank; i++)
        a[n++] = i ? at[map->map_dim[i]] : gen_add(g, at[map->map_dim[i]], column);
    a[n++] = gen_i64(g, 0);                                                  // no cache hint
    a[n++] = LLVMConstInt(g->i1, 0, 0);
    gen_call(g, name, n, a, 0, NULL);
    gen_call(g, "llvm.nvvm.cp.async.bulk.commit.group", 0, NULL, 0, NULL);
}

void emit_tma_store(Gen *g, Op *op) {
    const Val *buf = op->in[0];
    Out o = {.g = g, .op = op, .v = op->in[2 + op->nidx], .row = op->in[3 + op->nidx], .col = op->in[4 + op->nidx]};
    o.size = elem_bytes((Elem)buf->type.elem);
    o.span = (int)buf->type.shape[1];
    bool across = op->attr & TO_ACROSS;
    o.blocks = (int)axis_extent(across ? o.col : o.row) / 64 / g->f->groups;
    int together = across ? o.size / 2 : 1;                                  // slots that are written at once
    o.pairs = layout_in_pairs(o.v->layout, type_axis(&o.v->type, across ? o.col : o.row));
    o.spans = across ? (int)axis_extent(o.row) / 64 * together : ((int)axis_extent(o.col) + o.span - 1) / o.span;
    o.group = LLVMBuildLShr(g->B, g->warp, gen_i32(g, 2), "");
    o.elected = LLVMBuildAnd(g->B, LLVMBuildICmp(g->B, LLVMIntEQ, gen_bits(g, g->warp, 0, 3), gen_i32(g, 0), ""),
                             LLVMBuildICmp(g->B, LLVMIntEQ, g->lane, gen_i32(g, 0), ""), "");
    int slot_bytes = 64 * 128, all = o.blocks * o.spans, slots = (int)buf->def->imm, step = slots < all ? together : all;
    LLVMValueRef first = gen_add(g, gen_i32(g, buf->def->attr), gen_times(g, o.group, slot_bytes)), slot[64], at[MAX_RANK];
    if (g->slice) first = gen_add(g, first, gen_times(g, g->slice, slots * slot_bytes));
    for (int n = 0; n < slots; n++) slot[n] = gen_add(g, first, gen_i32(g, n * g->f->groups * slot_bytes));
    for (int n = 0; n < all; n += step) {
        LLVMBasicBlockRef go;
        elected(g, o.elected, &go);
        wait_read(g, n <= slots - together ? n : slots - together);              // what was sent before this op may have been from any slot
        rejoin(g, go);
        group_barrier(&o);
        for (int i = n; i < n + step; i += together)
            if (across) (o.pairs ? put_across_pairs : put_across)(&o, slot[i % slots], slot[(i + 1) % slots], i / o.spans, i % o.spans / together);
            else (o.size == 2 ? put_16bit : put_32bit)(&o, slot[i % slots], i / o.spans, i % o.spans);
        gen_call(g, "llvm.nvvm.fence.proxy.async.shared_cta", 0, NULL, 0, NULL);
        group_barrier(&o);
        for (int i = n; i < n + step; i++) {
            int span = i % o.spans;
            LLVMValueRef rows = gen_add(g, gen_times(g, o.group, 64), gen_i32(g, i / o.spans * 64 * g->f->groups));        // of the product, before these
            if (across ? span % together == 0 : span == 0) start(&o, across ? gen_i32(g, span / together * 64) : rows, at);
            elected(g, o.elected, &go);
            if (across) send(&o, slot[i % slots], at, gen_add(g, rows, gen_i32(g, span % together * 32)), false);
            else send(&o, slot[i % slots], at, gen_i32(g, span * o.span), op->attr & TO_NARROW && span == o.spans - 1);
            rejoin(g, go);
        }
    }
}

void emit_tma_store_wait(Gen *g, Op *op) {
    (void)op;
    wait_read(g, 0);
}
