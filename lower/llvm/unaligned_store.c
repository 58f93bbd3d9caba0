// Tiles of accumulators to global memory where 16 bytes do not divide the rows: row_store (specialize/unaligned_rows.c says when).
//
// Each warp has 16 rows of 64, and a slot of shared memory for some of their columns. A row lies there as far behind a
// multiple of 16 bytes as in the tensor, its `shift`:
//
//     tensor   |. . s s s s s s | s s s s s s s s | s s s . . . . .|      . another tile's, or the next row's
//     slot     |. . s s s s s s | s s s s s s s s | s s s . . . . .|      16 bytes each
//                   head           middle           tail
//
// The middle goes 16 bytes a lane, the rest by elements, eight lanes a row (four for 4 bytes). Nothing but the warp waits.
//
// An accumulator's registers are (column, column + 1), (row + 8), then eight columns on (layout_mma_acc). Of 16-bit elements
// two are a word; where the shift is odd, a word holds an element of the lane before and the first of this one:
//
//     lane     0        1        2        3            a word of each lane:      x 0 | 1 2 | 3 4 | 5 6 | (then 7 8 | ...)
//     has      0 1      2 3      4 5      6 7
//
// One shuffle brings the neighbour's elements of both rows: eight rows down the shift is the same.
//
// Rows that have places of their own (`apart`) are all aligned. A lane knows where the two rows are of which it holds
// elements; which lane stores a row asks for its place by shuffles. 0: it is not stored.
#include "lower/facts/access.h"
#include "lower/llvm/gen.h"

typedef struct Rows {
    Gen   *g;
    const Op *op;
    const Val *v;
    int    size, columns, blocks, parts, chunk, pitch;       // of an element; of the tile; of a slot's columns
    bool   words;                        // no row's shift is odd
    bool   apart;
    Access a;
    LLVMValueRef at[2];                  // i64, apart: where this lane's rows are, of the block at hand
    LLVMValueRef base, step, eight;      // i64: where the warp's first row begins, bytes from row to row, and to the eighth
    LLVMValueRef low, low_step;          // their low words
    LLVMValueRef rows, cols;             // i32 live ones of the tile, counted from the warp's first row; NULL: all
} Rows;

static LLVMValueRef plus(Gen *g, LLVMValueRef a, int64_t k) { return k ? gen_add(g, a, gen_i32(g, k)) : a; }
static LLVMValueRef less(Gen *g, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildICmp(g->B, LLVMIntSLT, a, b, ""); }
static LLVMValueRef choose(Gen *g, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b) {
    return LLVMBuildSelect(g->B, c, a, b, "");
}

static void put(Gen *g, LLVMValueRef at, int64_t imm, LLVMValueRef word, LLVMTypeRef t) {
    LLVMValueRef x = LLVMTypeOf(word) == t ? word
                     : t == g->i16         ? LLVMBuildTrunc(g->B, word, t, "")
                                           : LLVMBuildBitCast(g->B, word, t, "");
    LLVMSetAlignment(LLVMBuildStore(g->B, x, gen_ring(g, plus(g, at, imm))), t == g->i16 ? 2 : 4);
}

// Bytes by which the warp's row (i32) begins behind a multiple of 16, at column `column`.
static LLVMValueRef shift(const Rows *o, LLVMValueRef row, int column) {
    Gen *g = o->g;
    if (o->apart) return gen_i32(g, 0);
    LLVMValueRef at = gen_add(g, o->low, LLVMBuildMul(g->B, row, o->low_step, ""));
    return LLVMBuildAnd(g->B, plus(g, at, column * o->size), gen_i32(g, 15), "");
}

static int reg_at(const Rows *o, int block, int eight) { return 4 * (block * o->columns / 8 + eight); }

// Columns [column, column + chunk) of this lane's two rows into the slot.
static void put_rows(const Rows *o, LLVMValueRef slot, int block, int column, LLVMValueRef first) {
    Gen *g = o->g;
    LLVMValueRef q = gen_bits(g, g->lane, 2, 7), t = gen_bits(g, g->lane, 0, 3), by = shift(o, gen_add(g, first, q), column);
    LLVMValueRef at = gen_add(g, gen_add(g, slot, gen_times(g, q, o->pitch)), by);
    int below = 8 * o->pitch, eights = o->chunk / 8, from = reg_at(o, block, column / 8);
    if (o->size == 4) {
        at = gen_add(g, at, gen_times(g, t, 8));
        for (int e = 0; e < eights; e++)
            for (int k = 0; k < 4; k++)
                put(g, at, e * 32 + k % 2 * 4 + k / 2 * below, gen_get(g, o->v, from + 4 * e + k), g->i32);
        return;
    }
    at = gen_add(g, at, gen_times(g, t, 4));
    if (o->words) {
        for (int e = 0; e < eights; e++)
            for (int k = 0; k < 2; k++) put(g, at, e * 16 + k * below, gen_word(g, o->v, from + 4 * e + 2 * k, 2), g->i32);
        return;
    }
    LLVMValueRef odd = LLVMBuildICmp(g->B, LLVMIntNE, LLVMBuildAnd(g->B, by, gen_i32(g, 2), ""), gen_i32(g, 0), "");
    LLVMValueRef last = LLVMBuildICmp(g->B, LLVMIntEQ, t, gen_i32(g, 3), "");
    LLVMValueRef neighbour = LLVMBuildOr(g->B, LLVMBuildAnd(g->B, g->lane, gen_i32(g, 28), ""),
                                         gen_bits(g, plus(g, t, 3), 0, 3), "");
    LLVMValueRef how[] = {choose(g, odd, gen_i32(g, 0x1054), gen_i32(g, 0x3210)),
                          choose(g, odd, gen_i32(g, 0x1076), gen_i32(g, 0x3210))};
    LLVMValueRef before = NULL;
    at = choose(g, odd, plus(g, at, -2), at);
    for (int e = 0; e < eights; e++) {
        LLVMValueRef w[] = {gen_word(g, o->v, from + 4 * e, 2), gen_word(g, o->v, from + 4 * e + 2, 2)};
        LLVMValueRef high = gen_permute(g, w[0], w[1], gen_i32(g, 0x7632)),
                     given = before ? choose(g, last, before, high) : high;
        LLVMValueRef got = gen_call(g, "llvm.nvvm.shfl.sync.idx.i32", 4,
                                    (LLVMValueRef[]){gen_i32(g, -1), given, neighbour, gen_i32(g, 31)}, 0, NULL);
        for (int k = 0; k < 2; k++) put(g, at, e * 16 + k * below, gen_permute(g, w[k], got, how[k]), g->i32);
        before = high;
    }
    LLVMBasicBlockRef yes = gen_block(g, "last"), go = gen_block(g, "rows");       // the last column of an odd row
    LLVMBuildCondBr(g->B, gen_both(g, odd, last), yes, go);
    LLVMPositionBuilderAtEnd(g->B, yes);
    put(g, at, eights * 16 - 12, before, g->i16);
    put(g, at, eights * 16 - 12 + below, LLVMBuildLShr(g->B, before, gen_i32(g, 16), ""), g->i16);
    LLVMBuildBr(g->B, go);
    LLVMPositionBuilderAtEnd(g->B, go);
}

// A row as a lane sees it: where it begins in the tensor (i64, a multiple of 16) and in the slot, the bytes from there
// to its elements and to their end, and to its first and last whole 16. `below`: the row eight rows down, in the
// tensor.
typedef struct Line { LLVMValueRef global, below, slot, shift, end, first, last, live, live_below; } Line;

// Where the row is that lane 4 * row has elements of.
static LLVMValueRef place_of(Gen *g, LLVMValueRef at, LLVMValueRef row) {
    LLVMValueRef from = gen_times(g, row, 4), half[2];
    for (int i = 0; i < 2; i++) {
        LLVMValueRef x = LLVMBuildTrunc(g->B, i ? LLVMBuildLShr(g->B, at, gen_i64(g, 32), "") : at, g->i32, "");
        x = gen_call(g, "llvm.nvvm.shfl.sync.idx.i32", 4, (LLVMValueRef[]){gen_i32(g, -1), x, from, gen_i32(g, 31)}, 0,
                     NULL);
        half[i] = LLVMBuildZExt(g->B, x, g->i64, "");
    }
    return LLVMBuildOr(g->B, half[0], LLVMBuildShl(g->B, half[1], gen_i64(g, 32), ""), "");
}

static Line line(const Rows *o, LLVMValueRef slot, LLVMValueRef row, LLVMValueRef in_slot, int column) {
    Gen *g = o->g;
    Line l = {.shift = shift(o, row, column)};
    LLVMValueRef behind = gen_i64(g, column * o->size);
    if (o->apart) {
        LLVMValueRef at = place_of(g, o->at[0], in_slot), below = place_of(g, o->at[1], in_slot);
        l.live = LLVMBuildICmp(g->B, LLVMIntNE, at, gen_i64(g, 0), "");
        l.live_below = LLVMBuildICmp(g->B, LLVMIntNE, below, gen_i64(g, 0), "");
        l.global = gen_add(g, at, behind);
        l.below = gen_add(g, below, behind);
    } else {
        LLVMValueRef at = gen_add(
            g, gen_add(g, o->base, LLVMBuildMul(g->B, LLVMBuildZExt(g->B, row, g->i64, ""), o->step, "")), behind);
        l.live = o->rows ? less(g, row, o->rows) : NULL;
        l.live_below = o->rows ? less(g, plus(g, row, 8), o->rows) : NULL;
        l.global = LLVMBuildSub(g->B, at, LLVMBuildZExt(g->B, l.shift, g->i64, ""), "");
        l.below = gen_add(g, l.global, o->eight);
    }
    l.slot = gen_add(g, slot, gen_times(g, in_slot, o->pitch));
    LLVMValueRef bytes = gen_i32(g, o->chunk * o->size);
    if (o->cols) {
        LLVMValueRef left = gen_times(g, plus(g, o->cols, -column), o->size);
        bytes = choose(g, less(g, left, bytes), left, bytes);
    }
    l.end = gen_add(g, l.shift, bytes);
    l.first = LLVMBuildAnd(g->B, plus(g, l.shift, 15), gen_i32(g, -16), "");
    l.last = LLVMBuildAnd(g->B, l.end, gen_i32(g, -16), "");
    return l;
}

// Moves what lies `from` bytes behind the line's beginning, and what lies there eight rows down, where the line is the same.
static void move(const Rows *o, const Line *l, LLVMValueRef from, LLVMValueRef go, bool whole) {
    static const struct { const char *registers, *type, *x, *y; } as[] = {
        {".b16 x, y", "b16", "x", "y"}, {".b32 x, y", "b32", "x", "y"}, {".b32 a, b, c, d, e, f, g, h", "v4.b32", "{a, b, c, d}", "{e, f, g, h}"}};
    Gen *g = o->g;
    int k = whole ? 2 : o->size == 4;
    LLVMValueRef by = LLVMBuildSExt(g->B, from, g->i64, "");
    LLVMValueRef args[] = {gen_add(g, l->global, by),
                           gen_add(g, l->below, by),
                           LLVMBuildPtrToInt(g->B, gen_ring(g, gen_add(g, l->slot, from)), g->i32, ""),
                           gen_i32(g, 8 * o->pitch),
                           gen_both(g, l->live, go),
                           gen_both(g, l->live_below, go)};
    Buf text = {0};
    buf_printf(&text, "{\n.reg %s;\n@$4 ld.shared.%s %s, [$2];\n@$5 ld.shared.%s %s, [$2 + $3];\n", as[k].registers,
               as[k].type, as[k].x, as[k].type, as[k].y);
    buf_printf(&text, "@$4 st.global.%s [$0], %s;\n@$5 st.global.%s [$1], %s;\n}", as[k].type, as[k].x, as[k].type, as[k].y);
    gen_asm(g, LLVMVoidTypeInContext(g->C), text.p, "l,l,r,n,b,b,~{memory}", 6, args, true, false);
    buf_free(&text);
}

// Eight of the rows, `lanes` lanes for each, and those eight rows below them. A loop: unrolled, the assembler would
// keep the addresses of all rows in registers beside the accumulators.
static void all_rows(const Rows *o, LLVMValueRef slot, LLVMValueRef first, int column, int lanes,
                     void (*body)(const Rows *o, const Line *l, LLVMValueRef lane)) {
    Gen *g = o->g;
    int at_once = 32 / lanes;
    LLVMBasicBlockRef from = LLVMGetInsertBlock(g->B), loop = gen_block(g, "row"), done = gen_block(g, "stored");
    LLVMValueRef zero = gen_i32(g, 0), of = lanes == 32 ? zero : LLVMBuildUDiv(g->B, g->lane, gen_i32(g, lanes), "");
    LLVMBuildBr(g->B, loop);
    LLVMPositionBuilderAtEnd(g->B, loop);
    LLVMValueRef i = LLVMBuildPhi(g->B, g->i32, ""), row = gen_add(g, i, of);
    LLVMAddIncoming(i, &zero, &from, 1);
    Line l = line(o, slot, gen_add(g, first, row), row, column);
    body(o, &l, lanes == 32 ? g->lane : gen_bits(g, g->lane, 0, lanes - 1));
    LLVMValueRef next = plus(g, i, at_once);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(g->B);
    LLVMAddIncoming(i, &next, &end, 1);
    LLVMBuildCondBr(g->B, less(g, next, gen_i32(g, 8)), loop, done);
    LLVMPositionBuilderAtEnd(g->B, done);
}

static int pieces(const Rows *o) { return o->chunk * o->size / 16; }

static int middle_lanes(const Rows *o) {
    int n = 4;
    while (n < pieces(o) && n < 32) n *= 2;
    return n;
}

static void middle(const Rows *o, const Line *l, LLVMValueRef lane) {
    Gen *g = o->g;
    for (int p = 0; p < pieces(o); p += middle_lanes(o)) {
        LLVMValueRef at = plus(g, gen_add(g, l->first, gen_times(g, lane, 16)), 16 * p);
        move(o, l, at, less(g, at, l->last), true);
    }
}

static void edges(const Rows *o, const Line *l, LLVMValueRef lane) {
    Gen *g = o->g;
    LLVMValueRef head = gen_times(g, lane, o->size), tail = gen_add(g, l->last, head);
    LLVMValueRef in_head = gen_both(g, LLVMBuildICmp(g->B, LLVMIntSGE, head, l->shift, ""),
                                    gen_both(g, less(g, head, l->end), less(g, gen_i32(g, 0), l->first)));
    move(o, l, head, in_head, false);
    move(o, l, tail, gen_both(g, less(g, tail, l->end), LLVMBuildICmp(g->B, LLVMIntSGE, l->last, l->first, "")), false);
}

static LLVMValueRef live(Gen *g, const Val *axis) {
    if (axis->def->flags & AXIS_FULL) return NULL;
    LLVMValueRef n = LLVMBuildSub(g->B, gen_get64(g, axis_hi(axis), 0), gen_get64(g, axis_lo(axis), 0), ""),
                 most = gen_i64(g, axis_extent(axis));
    n = LLVMBuildSelect(g->B, LLVMBuildICmp(g->B, LLVMIntSLT, n, most, ""), n, most, "");
    return LLVMBuildTrunc(g->B, n, g->i32, "");
}

static LLVMValueRef pointer(Gen *g, const Access *a) {
    return LLVMBuildPtrToInt(g->B, gen_param(g, SLOT_POINTER, a->param, 0), g->i64, "");
}

static LLVMValueRef warp_rows(Gen *g) {                         // where a warp's begin, of the tile's
    LLVMValueRef group = LLVMBuildLShr(g->B, g->warp, gen_i32(g, 2), "");
    return gen_add(g, gen_times(g, group, 64), gen_times(g, gen_bits(g, g->warp, 0, 3), 16));
}

static void open_rows(Rows *o, const Val *row) {
    Gen *g = o->g;
    const Access *a = &o->a;
    LLVMValueRef sum = NULL;
    o->step = gen_i64(g, 0);                                   // of one row
    for (int d = 0; d < a->nidx; d++) {
        if (a->unit[d]) continue;
        LLVMValueRef at = gen_affine(g, g->i64, &a->aff[d]), stride = d == a->inner ? NULL : gen_param(g, SLOT_STRIDE, a->param, d);
        if (stride) at = LLVMBuildMul(g->B, at, stride, "");
        sum = sum ? gen_add(g, sum, at) : at;
        if (a->aff[d].naxis && a->aff[d].axis[0].axis == row)
            o->step = LLVMBuildMul(g->B, stride, gen_i64(g, a->aff[d].axis[0].k * o->size), "");
    }
    o->words = o->size == 4 || access_aligned(g->facts, a, 2);
    LLVMValueRef first = warp_rows(g);
    o->base = gen_add(g, pointer(g, a), LLVMBuildMul(g->B, sum, gen_i64(g, o->size), ""));
    o->base = gen_add(g, o->base, LLVMBuildMul(g->B, LLVMBuildZExt(g->B, first, g->i64, ""), o->step, ""));
    o->eight = LLVMBuildMul(g->B, o->step, gen_i64(g, 8), "");
    o->low = LLVMBuildTrunc(g->B, o->base, g->i32, "");
    o->low_step = LLVMBuildTrunc(g->B, o->step, g->i32, "");
}

// Where this lane's two rows of a block are.
static void places(Rows *o, const Val *row, int block, LLVMValueRef first) {
    Gen *g = o->g;
    const Access *a = &o->a;
    for (int half = 0; half < 2; half++) {
        LLVMValueRef in_warp = gen_add(g, first, plus(g, gen_bits(g, g->lane, 2, 7), 8 * half)), sum = NULL,
                     ok = o->rows ? less(g, in_warp, o->rows) : NULL;
        for (int d = 0; d < a->nidx; d++) {
            const Affine *x = &a->aff[d];
            LLVMValueRef at = gen_affine(g, g->i64, x);
            if (x->naxis && x->axis[0].axis == row)
                at = gen_add(g, at,
                             LLVMBuildMul(g->B, LLVMBuildZExt(g->B, gen_add(g, warp_rows(g), in_warp), g->i64, ""),
                                          gen_i64(g, x->axis[0].k), ""));
            for (int t = 0; t < x->ntile; t++) {
                const Val *v = x->tile[t].v;
                int r = layout_project_reg(o->v->layout, &o->v->type, &v->type, reg_at(o, block, 0) + 2 * half);
                at = gen_add(g, at, LLVMBuildMul(g->B, gen_get64(g, v, r), gen_i64(g, x->tile[t].k), ""));
            }
            if (!a->proved[d]) ok = gen_both(g, ok, LLVMBuildICmp(g->B, LLVMIntULT, at, gen_lexpr(g, a->p->dim[d]), ""));
            if (a->unit[d]) continue;
            if (d != a->inner) at = LLVMBuildMul(g->B, at, gen_param(g, SLOT_STRIDE, a->param, d), "");
            sum = sum ? gen_add(g, sum, at) : at;
        }
        LLVMValueRef at = gen_add(g, pointer(g, a), LLVMBuildMul(g->B, sum, gen_i64(g, o->size), ""));
        o->at[half] = ok ? choose(g, ok, at, gen_i64(g, 0)) : at;
    }
}

void emit_row_store(Gen *g, Op *op) {
    int n = op->nidx;
    const Val *buf = op->in[2 + n], *row = op->in[3 + n], *col = op->in[4 + n];
    Rows o = {.g = g,
              .op = op,
              .v = op->in[1 + n],
              .size = elem_bytes((Elem)buf->type.elem),
              .columns = (int)axis_extent(col),
              .rows = live(g, row),
              .cols = live(g, col)};
    int64_t room = buf->type.shape[1] * o.size;
    o.blocks = (int)axis_extent(row) / 64 / g->f->groups;
    o.chunk = (int)row_chunk(o.columns, o.size, room);
    o.parts = o.columns / o.chunk;
    o.pitch = (int)row_pitch(o.chunk, o.size);
    access_of(g->facts, op, &o.a);
    o.apart = access_rows_apart(&o.a);
    if (o.apart) o.words = true;
    else open_rows(&o, row);
    if (o.rows) o.rows = LLVMBuildSub(g->B, o.rows, warp_rows(g), "");
    LLVMValueRef warp = g->slice ? gen_add(g, gen_times(g, g->slice, 4 * g->f->groups), g->warp) : g->warp,
                 slot = gen_add(g, gen_i32(g, buf->def->attr), gen_times(g, warp, room));
    for (int c = 0; c < o.blocks * o.parts; c++) {
        LLVMValueRef first = gen_i32(g, c / o.parts * 64 * g->f->groups);
        int column = c % o.parts * o.chunk;
        if (o.apart && column == 0) places(&o, row, c / o.parts, first);
        gen_barrier_warp(g);
        put_rows(&o, slot, c / o.parts, column, first);
        gen_barrier_warp(g);
        all_rows(&o, slot, first, column, middle_lanes(&o), middle);
        if (!o.apart) all_rows(&o, slot, first, column, 16 / o.size, edges);         // else all is whole 16 bytes
    }
}
