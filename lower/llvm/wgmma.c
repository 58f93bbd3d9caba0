// Products on Hopper: wgmma, which reads its operands from the rings through descriptors, or the left one from registers.
//
// A descriptor is made of a stage's address and of which of its dimensions is contracted (how a stage lies is llvm/tma_mbarrier.c's):
//
//     K-major (columns are k):   stride 8 rows = 1024;  next 16 of k: + 32 bytes, every 64th: the next chunk
//     MN-major (rows are k):     stride 8 rows = 1024, from chunk to chunk R * 128;  next 16 of k: + 16 rows
//
// Accumulators are in registers of their own (llvm/wgmma_registers.c), which a wait's assembly copies out for those who compute with them,
// so that nothing moves a use before its wait (reference: PTX ISA, asynchronous warpgroup level matrix instructions).
#include "lower/llvm/dot.h"

#include <string.h>

static LLVMValueRef add(Gen *g, LLVMValueRef a, LLVMValueRef b) { return LLVMBuildAdd(g->B, a, b, ""); }
static LLVMValueRef mul(Gen *g, LLVMValueRef a, int64_t k) { return LLVMBuildMul(g->B, a, gen_i32(g, k), ""); }

// Descriptor of the stage's first element (PTX ISA, matrix descriptor format).
static LLVMValueRef descriptor(Gen *g, const Val *buf, LLVMValueRef at, bool mn_major) {
    const Type *t = &buf->type;
    int64_t lead = mn_major ? t->shape[0] * t->swizzle / 16 : 1, stride = 8 * t->swizzle / 16;
    int64_t mode = t->swizzle == 128 ? 1 : t->swizzle == 64 ? 2 : 3;
    LLVMValueRef base = LLVMBuildPtrToInt(g->B, gen_ring(g, at), g->i32, "");
    base = LLVMBuildAnd(g->B, LLVMBuildLShr(g->B, base, gen_i32(g, 4), ""), gen_i32(g, 0x3fff), "");
    return LLVMBuildOr(g->B, LLVMBuildZExt(g->B, base, g->i64, ""), gen_i64(g, (int64_t)((uint64_t)mode << 62 | (uint64_t)stride << 32 | (uint64_t)lead << 16)), "");
}

// Bytes from the stage's start to step `k` (of 32 bytes) of rows `row` on.
static int64_t step_offset(const Type *t, bool mn_major, int k, int row) {
    int span = t->swizzle / 2;                       // of 16-bit elements: no others may be MN-major
    if (mn_major) return (int64_t)k * 16 * t->swizzle + row / span * t->shape[0] * t->swizzle + row % span * 2;
    int per = t->swizzle / 32;
    return (int64_t)(k / per) * t->shape[0] * t->swizzle + k % per * 32 + (int64_t)row * t->swizzle;
}

// The op after a wgmma, if it waits for its accumulators alone: then the wait joins the product's assembly.
static const Op *joined_wait(const Op *op) {
    const Op *w = op->next;
    return w && w->code == OP_T_wgmma_wait && w->nin == 1 && w->in[0] == op->out[0] ? w : NULL;
}

// Loops or branches before the wait: LLVM copies its values where they begin, so that they have to be there.
static bool blocks_before_wait(const Op *op) {
    bool blocks = false;
    for (const Op *w = op->next; w; w = w->next) {
        for (int i = 0; i < w->nin && w->code == OP_T_wgmma_wait; i++) if (w->in[i] == op->out[0]) return blocks;
        blocks |= w->nreg > 0;
    }
    return false;
}

static const char *operand_type(Elem e) {
    switch (e) {
    case EL_bf16:   return "bf16";
    case EL_f16:    return "f16";
    case EL_f8e4m3: return "e4m3";
    case EL_f8e5m2: return "e5m2";
    case EL_i8:     return "s8";
    case EL_u8:     return "u8";
    case EL_f32:    return "tf32";
    default:        ice("wgmma of %s", elem_name(e));
    }
}

// A group's rows of the left operand begin here: those of a tile that groups share, or of one band of several.
static LLVMValueRef own_rows(Gen *g, const Op *op, LLVMValueRef at) {
    LLVMValueRef group = op->imm > 1 ? g->slice : g->f->groups > 1 ? LLVMBuildLShr(g->B, g->warp, gen_i32(g, 2), "") : NULL;
    return group ? add(g, at, mul(g, group, step_offset(&op->in[0]->type, op->attr & 1, 0, 64))) : at;
}

static LLVMTypeRef acc_struct(Gen *g, LLVMTypeRef of, int n) {
    LLVMTypeRef t[256];
    for (int i = 0; i < n; i++) t[i] = of;
    return LLVMStructTypeInContext(g->C, t, (unsigned)n, 0);
}

// A left operand that threads take from the stage: for its low parts, or since k is outside of elements that are no 16 bits.
static bool by_threads(const Op *op) {
    return op->in[0]->type.kind == TY_BUFFER && (op_in_pairs(op) || (op->in[0]->type.elem == EL_f32 && (op_low(op) || op->attr & 1)));
}

// Where accumulators are values of LLVM's (llvm/wgmma_registers.c says where): tied to the products as operands, and threaded through waits.
//
// A whole product in one piece of assembly: fence, every m64nNk step (32 bytes of k) on its block of accumulators, commit.
// Descriptors advance by constants.
static void tied_wgmma(Gen *g, Op *op) {
    Val *o = op->out[0], *a = op->in[0], *b = op->in[1];
    bool acc_in = op->flags & HAS_ACC, ta = op->attr & 1, tb = op->attr >> 1 & 1;
    const Val *row = op->in[4 + acc_in], *k_axis = op->in[6 + acc_in];
    int regs = gen_tile(g, o)->n, groups = g->f->groups, blocks = (int)(axis_extent(row) / 64 / groups), per = regs / blocks;
    Elem ea = (Elem)a->type.elem, eb = (Elem)b->type.elem;
    int step = 32 / elem_bytes(eb), steps = (int)(axis_extent(k_axis) / step), n = 0, da = acc_in ? 2 * regs : regs, db = da + 1;
    if (ea != eb && elem_is_int(eb)) gen_need(g, offsetof(Target, has_wgmma_mixed));
    bool ints = o->type.elem == EL_i32, halves = elem_bytes(eb) == 2, in_regs = a->type.kind == TY_TILE;
    if (by_threads(op)) ice("a left operand by threads where groups take turns");
    int words = in_regs ? 4 * steps * blocks : 0, wait = joined_wait(op) ? (int)joined_wait(op)->imm : blocks_before_wait(op) ? 0 : -1;
    LLVMValueRef args[520];
    Buf text = {0}, cons = {0};
    if (in_regs) { db = da + words; }

    // This group's 64 rows: in the layout they are the warps' bits, repeated `blocks` times.
    LLVMValueRef at_a = in_regs ? NULL : gen_stage(g, a, gen_get(g, op->in[2], 0)), at_b = gen_stage(g, b, gen_get(g, op->in[3], 0));
    if (!in_regs) at_a = own_rows(g, op, at_a);
    for (int i = 0; i < regs; i++) buf_puts(&cons, ints ? "=r," : "=f,");
    for (int i = 0; i < regs && acc_in; i++) { buf_printf(&cons, "%d,", i); args[n++] = gen_get(g, op->in[4], i); }
    for (int i = 0; i < words; i++) { buf_puts(&cons, "r,"); args[n++] = gen_word(g, a, 2 * i, 2); }
    buf_puts(&cons, in_regs ? "l" : "l,l");
    if (!in_regs) args[n++] = descriptor(g, a, at_a, ta);
    args[n++] = descriptor(g, b, at_b, tb);

    buf_puts(&text, "{\n.reg .b64 da, db;\nwgmma.fence.sync.aligned;\n");
    for (int m = 0; m < blocks; m++)
        for (int k = 0; k < steps; k++) {
            if (!in_regs) buf_printf(&text, "add.s64 da, $%d, %lld;\n", da, (long long)step_offset(&a->type, ta, k, m * 64 * groups) / 16);
            buf_printf(&text, "add.s64 db, $%d, %lld;\n", db, (long long)step_offset(&b->type, tb, k, 0) / 16);
            buf_printf(&text, "wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s {", per * 2, step, ints ? "s32" : "f32", operand_type(ea), operand_type(eb));
            for (int i = 0; i < per; i++) buf_printf(&text, "%s$%d", i ? ", " : "", m * per + i);
            int w = da + 4 * (m * steps + k);
            if (in_regs) buf_printf(&text, "}, {$%d, $%d, $%d, $%d}, db, %d, 1, 1, %d;\n", w, w + 1, w + 2, w + 3, acc_in || k > 0, tb);
            else buf_printf(&text, "}, da, db, %d", acc_in || k > 0);
            if (!in_regs && !ints) buf_puts(&text, ", 1, 1");
            if (!in_regs && halves) buf_printf(&text, ", %d, %d", ta, tb);
            if (!in_regs) buf_puts(&text, ";\n");
        }
    buf_puts(&text, "wgmma.commit_group.sync.aligned;\n");
    if (wait >= 0) buf_printf(&text, "wgmma.wait_group.sync.aligned %d;\n", wait);
    buf_puts(&text, "}");
    LLVMValueRef r = gen_asm(g, acc_struct(g, ints ? g->i32 : g->f32, regs), text.p, cons.p, n, args, true, true);
    for (int i = 0; i < regs; i++) gen_set(g, o, i, LLVMBuildExtractValue(g->B, r, (unsigned)i, ""));
    buf_free(&text);
    buf_free(&cons);
}

// Waits, with the accumulators and whatever else the products in flight use threaded through: 16-bit tiles as
// words, f32 ones as they are.
static void tied_wait(Gen *g, Op *op) {
    if (op->prev && op->prev->code == OP_T_wgmma && joined_wait(op->prev)) {
        for (int r = 0; r < gen_tile(g, op->in[0])->n; r++) gen_set(g, op->out[0], r, gen_get(g, op->in[0], r));
        return;
    }
    LLVMValueRef args[520];
    LLVMTypeRef types[520];
    Buf text = {0}, cons = {0};
    int n = 0;
    for (int i = 0; i < op->nin; i++) {
        int per = 32 / elem_bits((Elem)op->in[i]->type.elem);
        for (int r = 0; r < gen_tile(g, op->in[i])->n; r += per) {
            args[n] = per == 1 ? gen_get(g, op->in[i], r) : gen_word(g, op->in[i], r, per);
            types[n] = LLVMTypeOf(args[n]);
            buf_puts(&cons, types[n++] == g->f32 ? "=f," : "=r,");
        }
    }
    buf_printf(&text, "wgmma.wait_group.sync.aligned %d;", (int)op->imm);
    for (int i = 0; i < n; i++) buf_printf(&cons, "%s%d", i ? "," : "", i);
    LLVMValueRef x = gen_asm(g, LLVMStructTypeInContext(g->C, types, (unsigned)n, 0), text.p, cons.p, n, args, true, true);
    n = 0;
    for (int i = 0; i < op->nin; i++) {
        int per = 32 / elem_bits((Elem)op->in[i]->type.elem);
        for (int r = 0; r < gen_tile(g, op->in[i])->n; r += per) {
            LLVMValueRef v = LLVMBuildExtractValue(g->B, x, (unsigned)n++, "");
            if (per == 1) gen_set(g, op->out[i], r, v);
            else gen_set_word(g, op->out[i], r, per, v);
        }
    }
    buf_free(&text);
    buf_free(&cons);
}

// Assembly whose results are v's accumulators first, if somebody computes with them.
typedef struct Pieces { Buf text, cons; LLVMTypeRef types[520]; LLVMValueRef args[520]; int nout, nin; } Pieces;

static void piece_constraint(Pieces *p, const char *c) {
    if (p->cons.n) buf_putc(&p->cons, ',');
    buf_puts(&p->cons, c);
}

static void piece_in(Pieces *p, const char *c, LLVMValueRef x) {
    piece_constraint(p, c);
    p->args[p->nin++] = x;
}

static void piece_take(Gen *g, Pieces *p, const Val *v, const char *cond) {
    acc_take_text(g->accs, v, p->nout, cond, &p->text, &p->cons);
    for (int i = 0; i < acc_regs(v); i++) p->types[p->nout++] = v->type.elem == EL_f32 ? g->f32 : g->i32;
}

static LLVMValueRef piece_end(Gen *g, Pieces *p) {
    LLVMTypeRef ret = p->nout ? LLVMStructTypeInContext(g->C, p->types, (unsigned)p->nout, 0) : LLVMVoidTypeInContext(g->C);
    LLVMValueRef x = gen_asm(g, ret, p->text.p, p->cons.p ? p->cons.p : "", p->nin, p->args, true, true);
    buf_free(&p->text);
    buf_free(&p->cons);
    return x;
}

static void put_list(Buf *text, const char *prefix, int from, int n) {          // {$4, $5, $6}
    for (int i = 0; i < n; i++) {
        buf_puts(text, i ? ", " : "{");
        buf_puts(text, prefix);
        buf_int(text, from + i);
    }
    buf_putc(text, '}');
}

// The same where threads bring the left operand, and of f32 as three of tf32: small terms first. The wait is part of it, since ptxas does not keep what
// a product reads from registers.
static void wgmma_share(Gen *g, Op *op, int at, int per, Share s, bool last) {
    const Op *wait = last ? joined_wait(op) : NULL;
    const Val *read = wait && acc_read(g->accs, wait->out[0]) ? wait->out[0] : NULL, *low = op_low(op);
    bool acc_in = op->flags & HAS_ACC, ints = op->out[0]->type.elem == EL_i32;
    Elem ea = (Elem)op->in[0]->type.elem, eb = (Elem)op->in[1]->type.elem;
    int words = 4 * s.steps * s.blocks, first = read ? gen_tile(g, op->out[0])->n : 0, from_b = first + words * (low ? 2 : 1);
    LLVMValueRef word[2 * 4 * 64], group = op->imm > 1 ? g->slice : g->f->groups > 1 ? LLVMBuildLShr(g->B, g->warp, gen_i32(g, 2), "") : NULL;
    if (words > 4 * 64) ice("%d registers of a left operand", words);
    gen_left_words(g, op, group, s, word);
    for (int i = 0; low && i < words; i++) gen_tf32_parts(g, word[i], &word[i], &word[words + i]);
    Pieces p = {0};
    Buf *text = &p.text;
    buf_puts(text, "{\n.reg .b64 db, dl;\nwgmma.fence.sync.aligned;\n");
    for (int m = s.block; m < s.block + s.blocks; m++)
        for (int k = s.step; k < s.step + s.steps; k++) {
            long long by = (long long)step_offset(&op->in[1]->type, false, k, 0) / 16;
            buf_printf(text, "add.s64 db, $%d, %lld;\n", from_b, by);
            if (low) buf_printf(text, "add.s64 dl, $%d, %lld;\n", from_b + 1, by);
            for (int term = low ? 0 : 2; term < 3; term++) {        // al b, a bl, a b
                buf_printf(text, "wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s ", per * 2, 32 / elem_bytes(ea), ints ? "s32" : "f32", operand_type(ea), operand_type(eb));
                put_list(text, "%acc", at + m * per, per);
                buf_puts(text, ", ");
                put_list(text, "$", first + (term == 0 ? words : 0) + 4 * ((m - s.block) * s.steps + k - s.step), 4);
                buf_printf(text, ", %s, %d%s;\n", term == 1 ? "dl" : "db", acc_in || k > 0 || (low && term > 0), ints ? "" : ", 1, 1");
            }
        }
    buf_puts(text, "wgmma.commit_group.sync.aligned;\n");
    if (last) buf_printf(text, "wgmma.wait_group.sync.aligned %d;\n", wait ? (int)wait->imm : 0);
    if (read) piece_take(g, &p, read, NULL);
    buf_puts(text, "}");
    for (int i = 0; i < words * (low ? 2 : 1); i++) piece_in(&p, "r", word[i]);
    piece_in(&p, "l", descriptor(g, op->in[1], gen_stage(g, op->in[1], gen_get(g, op->in[3], 0)), false));
    if (low) piece_in(&p, "l", descriptor(g, low, gen_stage(g, low, gen_get(g, op->in[3], 0)), false));
    LLVMValueRef x = piece_end(g, &p);
    if (read) acc_set(g, read, x, 0);
}

// Bytes are turned share by share, each while the products of those before it are on their way: 4096^3 in i8 by 128 x 256 100 us instead of 111.
static void wgmma_by_threads(Gen *g, Op *op, int at, int per, int blocks, int steps) {
    int parts = op_in_pairs(op) ? g->shares : 1;
    int across = parts < blocks ? parts : blocks, along = parts / across < steps ? parts / across : steps;
    parts = across * along;
    for (int i = 0; i < parts; i++) {
        int m = i / along, k = i % along;
        Share s = {m * blocks / across, (m + 1) * blocks / across - m * blocks / across, k * steps / along, (k + 1) * steps / along - k * steps / along};
        wgmma_share(g, op, at, per, s, i + 1 == parts);
    }
}

// A whole product in one piece of assembly: fence, every m64nNk step (32 bytes of k) on its block of accumulators, commit,
// and the wait if it comes next. Descriptors advance by constants.
void emit_wgmma(Gen *g, Op *op) {
    if (!g->accs) { tied_wgmma(g, op); return; }
    Val *o = op->out[0], *a = op->in[0], *b = op->in[1];
    bool acc_in = op->flags & HAS_ACC, ta = op->attr & 1, tb = op->attr >> 1 & 1;
    const Val *row = op->in[4 + acc_in], *k_axis = op->in[6 + acc_in];
    const Op *wait = joined_wait(op);
    int regs = gen_tile(g, o)->n, groups = g->f->groups, blocks = (int)(axis_extent(row) / 64 / groups), per = regs / blocks;
    Elem ea = (Elem)a->type.elem, eb = (Elem)b->type.elem;
    int step = 32 / elem_bytes(eb), steps = (int)(axis_extent(k_axis) / step), at = acc_first(g->accs, o);
    if (ea != eb && elem_is_int(eb)) gen_need(g, offsetof(Target, has_wgmma_mixed));
    bool ints = o->type.elem == EL_i32, halves = elem_bytes(eb) == 2, in_regs = a->type.kind == TY_TILE;
    const Val *read = wait && acc_read(g->accs, wait->out[0]) ? wait->out[0] : NULL;
    if (acc_in) acc_put(g, op->in[4], o);

    // This group's 64 rows: in the layout they are the warps' bits, repeated `blocks` times.
    if (by_threads(op)) { wgmma_by_threads(g, op, at, per, blocks, steps); return; }
    LLVMValueRef at_a = in_regs ? NULL : gen_stage(g, a, gen_get(g, op->in[2], 0)), at_b = gen_stage(g, b, gen_get(g, op->in[3], 0));
    if (!in_regs) at_a = own_rows(g, op, at_a);
    Pieces p = {0};
    bool named = in_regs && acc_held(g->accs, a);
    int words = named ? 0 : in_regs ? 4 * steps * blocks : 1, first = read ? regs : 0;
    Buf *text = &p.text;
    buf_puts(text, "{\n.reg .b64 da, db;\nwgmma.fence.sync.aligned;\n");
    for (int m = 0; m < blocks; m++)
        for (int k = 0; k < steps; k++) {
            if (!in_regs) buf_printf(text, "add.s64 da, $%d, %lld;\n", first, (long long)step_offset(&a->type, ta, k, m * 64 * groups) / 16);
            buf_printf(text, "add.s64 db, $%d, %lld;\n", first + words, (long long)step_offset(&b->type, tb, k, 0) / 16);
            buf_printf(text, "wgmma.mma_async.sync.aligned.m64n%dk%d.%s.%s.%s ", per * 2, step, ints ? "s32" : "f32", operand_type(ea), operand_type(eb));
            put_list(text, "%acc", at + m * per, per);
            buf_puts(text, ", ");
            if (in_regs) put_list(text, named ? "%acc" : "$", (named ? acc_first(g->accs, a) : first) + 4 * (m * steps + k), 4);
            else buf_puts(text, "da");
            buf_printf(text, ", db, %d", acc_in || k > 0);
            if (!ints) buf_puts(text, ", 1, 1");
            if (halves) buf_printf(text, in_regs ? ", %d" : ", %d, %d", in_regs ? tb : ta, tb);
            buf_puts(text, ";\n");
        }
    buf_puts(text, "wgmma.commit_group.sync.aligned;\n");
    if (wait) buf_printf(text, "wgmma.wait_group.sync.aligned %d;\n", (int)wait->imm);
    if (read) piece_take(g, &p, read, NULL);
    buf_puts(text, "}");
    if (in_regs) for (int i = 0; i < words; i++) piece_in(&p, "r", gen_word(g, a, 2 * i, 2));
    else piece_in(&p, "l", descriptor(g, a, at_a, ta));
    piece_in(&p, "l", descriptor(g, b, at_b, tb));
    LLVMValueRef x = piece_end(g, &p);
    if (read) acc_set(g, read, x, 0);
}

// ptxas moves arithmetic across barriers and branches: an activation over a tile to before the arrival that frees its last stage, 2 us before
// the producer learns of it. So values are taken by a predicate that a look at an mbarrier gives, which stays behind arrivals at it: of a
// shuffle of it, whether lane 0 exists, which is always so.
static void taken_behind(Gen *g, Op *op) {
    Pieces p = {0};
    int n = 0, regs = 0;
    for (int i = 0; i < op->nout; i++) if (acc_held(g->accs, op->out[i]) && acc_read(g->accs, op->out[i])) regs += acc_regs(op->out[i]);
    if (!regs) return;
    buf_printf(&p.text, "{\n.reg .pred p, q;\n.reg .b32 x;\nmbarrier.test_wait.parity.shared.b64 q, [$%d], 0;\n", regs);
    buf_puts(&p.text, "selp.b32 x, 1, 0, q;\nshfl.sync.idx.b32 x|p, x, 0, 31, -1;\n");
    for (int i = 0; i < op->nout; i++) if (acc_held(g->accs, op->out[i]) && acc_read(g->accs, op->out[i])) piece_take(g, &p, op->out[i], "p");
    buf_puts(&p.text, "}");
    piece_in(&p, "r", LLVMBuildPtrToInt(g->B, gen_ring(g, gen_i32(g, op->attr)), g->i32, ""));
    LLVMValueRef x = piece_end(g, &p);
    for (int i = 0; i < op->nout; i++) if (acc_held(g->accs, op->out[i]) && acc_read(g->accs, op->out[i])) n = acc_set(g, op->out[i], x, n);
}

// Waits, and copies out what somebody computes with. What else is said to be read after it stands behind it in the text.
void emit_wgmma_wait(Gen *g, Op *op) {
    if (!g->accs) { tied_wait(g, op); return; }
    if (op->attr) { taken_behind(g, op); return; }
    if (op->prev && op->prev->code == OP_T_wgmma && joined_wait(op->prev) == op) return;
    Pieces p = {0};
    int n = 0;
    buf_printf(&p.text, "wgmma.wait_group.sync.aligned %d;\n", (int)op->imm);
    for (int i = 0; i < op->nin; i++) if (acc_held(g->accs, op->out[i]) && acc_read(g->accs, op->out[i])) piece_take(g, &p, op->out[i], NULL);
    LLVMValueRef x = piece_end(g, &p);
    for (int i = 0; i < op->nin; i++) {
        const Val *v = op->in[i], *o = op->out[i];
        if (acc_held(g->accs, o)) { if (acc_read(g->accs, o)) n = acc_set(g, o, x, n); continue; }
        memcpy(gen_tile(g, o)->r, gen_tile(g, v)->r, sizeof(Reg) * (size_t)gen_tile(g, v)->n);
    }
}
