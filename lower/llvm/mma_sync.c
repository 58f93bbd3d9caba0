// Products on tensor cores: mma.sync on fragments that ldmatrix reads from shared memory.
//
// An instruction multiplies 16 rows by 8 columns over k elements (16 of 16 bits, 8 of 32, 32 of 8: always
// 32 bytes). With l the lane, g = l / 4 and c = l % 4, its 32-bit registers hold
//
//     A   r = 0..3   row g + 8 * (r & 1)   chunk c of the 16 bytes  r >> 1   of the 32 bytes of k
//     B   r = 0..1   column g              chunk c of the 16 bytes  r        of the 32 bytes of k
//     C   r = 0..3   row g + 8 * (r >> 1)  column 2c + (r & 1)               as layout_mma_acc says
//
// which is what ldmatrix gives for matrices of eight 16-byte rows: four of them are one A fragment, or the
// B fragments of two column blocks. Where k is not the contiguous dimension, .trans turns 16-bit matrices
// around and 32-bit elements are read one by one; of bytes pairs are turned and parted
// (llvm/transpose8.c); where they are staged, they lie with k contiguous.
//
// An operand comes from one of three places: a ring that the pass `pipeline` fills; registers that hold A
// fragments as they are (an accumulator of the previous product, narrowed); else its registers are put
// into shared memory first, with zeros where an axis ends before the fragment does. The fragments of a
// step are read while earlier ones are multiplied.
//
// tf32x3: x = hi + lo with hi the truncation to tf32 and lo exact; lo*hi, hi*lo, hi*hi go into one
// accumulator, small terms first. Of an infinity lo is NaN, which a checked product's program finds (pass/infinities.c). In
// others lo and hi of the small terms are those of x brought within the finite numbers: large*lo has the sign of inf*hi, or is 0.
#include "lower/llvm/dot.h"

#include <string.h>

enum { MAX_FRAGMENTS = 128 };      // a lane's column blocks or row blocks

// ---- the plan ------------------------------------------------------------------------------------

static int64_t up(int64_t n, int64_t unit) { return (n + unit - 1) / unit * unit; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

// Dimensions of a staged operand: other axes, then the two of the fragment, the better vector last.
static void stage_shape(const Op *op, const MmaChoice *c, int operand, Shared *s) {
    const Val *x = op->in[operand], *o = op->out[0];
    Val *axis[2] = {o->type.axis[operand == c->a ? c->row : c->col], c->k_axis};
    int vec[2], n = 0;
    memset(s, 0, sizeof *s);
    for (int i = 0; i < 2; i++) vec[i] = layout_vec(x->layout, type_axis(&x->type, axis[i]));
    bool k_last = vec[1] >= vec[0] || elem_bits((Elem)c->insn->frag) == 8;
    for (int i = 0; i < x->type.rank; i++)
        if (x->type.axis[i] != axis[0] && x->type.axis[i] != axis[1]) s->axis[n++] = x->type.axis[i];
    s->axis[n++] = axis[!k_last];
    s->axis[n++] = axis[k_last];
    s->rank = n;
    for (int d = 0; d < n; d++) {
        int at = type_axis(&o->type, s->axis[d]);
        s->extent[d] = layout_span(x->layout, type_axis(&x->type, s->axis[d]));
        if (s->axis[d] == c->k_axis) s->extent[d] = max64(s->extent[d], up(axis_extent(c->k_axis), c->k));
        else if (at >= 0) s->extent[d] = max64(s->extent[d], layout_span(o->layout, at));
    }
    shared_shape(s, mma_fragment(c->insn, (Elem)x->type.elem), true);
}

static void plan_dot(Gen *g, const Op *op, DotPlan *p) {
    memset(p, 0, sizeof *p);
    p->mma = mma_of_layout(g->opt->target, g->arena, op, &p->c);
    if (!p->mma) { fma_plan(op, p); return; }
    for (int i = 0; i < 2; i++) {
        const Op *d = op->in[i]->def;
        if (mma_operand_in_registers(g->arena, &p->c, op, i)) p->where[i] = IN_REGISTERS;
        else if (d && d->code == OP_T_buffer_load && buffer_load_is_fused(g, d)) {
            p->where[i] = IN_BUFFER;
            buffer_shape(&d->in[0]->type, &p->shared[i]);
        } else {
            p->where[i] = STAGED;
            stage_shape(op, &p->c, i, &p->shared[i]);
        }
    }
}

static uint32_t staged_bytes(const DotPlan *p, int i) {
    return p->where[i] == STAGED ? (shared_bytes(&p->shared[i]) + 127) & ~127u : 0;
}

uint32_t gen_dot_room(Gen *g, const Op *op) {
    DotPlan p;
    plan_dot(g, op, &p);
    return staged_bytes(&p, 0) + staged_bytes(&p, 1);
}

static bool contains(Gen *g, const Op *op, bool ring) {
    bool uses_ring = op->code == OP_T_buffer_load || op->code == OP_T_buffer_row || op->code == OP_T_buffer_store || op->code == OP_T_copy_async;
    if (ring ? uses_ring : gen_room(g, op) > 0) return true;
    for (int i = 0; i < op->nreg; i++)
        for (const Op *x = op->reg[i]->first; x; x = x->next) if (contains(g, x, ring)) return true;
    return false;
}

bool gen_rings_end(Gen *g) {
    bool scratch = false, rings = false;
    for (const Op *op = g->f->body.first; op; op = op->next) {
        bool ring = contains(g, op, true);
        if (contains(g, op, false)) scratch = true;
        if (ring && scratch) return false;
        rings |= ring;
    }
    return rings;
}

LLVMValueRef dot_start(Gen *g, const Op *op, int reg) {
    if (!op_acc(op)) return LLVMConstNull(gen_type(g, op->out[0]));
    const Val *acc = op_acc(op);
    return gen_get(g, acc,
                   acc->type.rank == op->out[0]->type.rank
                       ? reg
                       : layout_project_reg(op->out[0]->layout, &op->out[0]->type, &acc->type, reg));
}

// ---- fragments -----------------------------------------------------------------------------------

typedef struct Feed {            // where an operand's fragments come from
    const Val *v;                  // IN_REGISTERS
    Shared     shared;
    SharedAt   at;
    bool       k_last;
    int        across, along;      // dimensions of the row or column axis, and of k
    int64_t    unit;               // coordinates from one fragment to the next: 16 or 8 times the warps there
    bool       turned;             // bytes with k outside (llvm/transpose8.c): addresses are of 16 rows or columns
    LLVMValueRef behind;           // then: where the warp's eight columns begin in them, where other warps have the rest; NULL: it has all
} Feed;

typedef struct Mma {
    Gen     *g;
    Op      *op;
    DotPlan *p;
    Feed   a, b;
    int      rows, cols;           // fragments a lane has of each
    int64_t  outer[MAX_AXES];      // coordinates of the result's other axes, by position
    Val     *extra[MAX_AXES];      // contracted axes besides k
    int64_t  at[MAX_AXES];
    int      nextra;
    LLVMTypeRef acc;
    bool     three;                // tf32x3
} Mma;

// bits from .. from + n of x, moved to bit `to`
static LLVMValueRef bits_of(Gen *g, LLVMValueRef x, int from, int n, int to) {
    if (from) x = LLVMBuildLShr(g->B, x, gen_i32(g, from), "");
    x = LLVMBuildAnd(g->B, x, gen_i32(g, (1 << n) - 1), "");
    return to ? LLVMBuildShl(g->B, x, gen_i32(g, to), "") : x;
}

// What the lane and its warp add: rows (columns) of the fragment, and k, for the way the tile lies.
static void open_source(Mma *m, Feed *s, int operand, bool is_a) {
    Gen *g = m->g;
    const MmaChoice *c = &m->p->c;
    const Val *axis = m->op->out[0]->type.axis[is_a ? c->row : c->col];
    int wm = __builtin_ctz((unsigned)c->warps_m), wn = __builtin_ctz((unsigned)c->warps_n);
    s->v = m->op->in[operand];
    s->unit = is_a ? 16 * c->warps_m : 8 * c->warps_n;
    if (m->p->where[operand] == IN_REGISTERS) return;
    s->across = shared_dim(&s->shared, axis);
    s->along = shared_dim(&s->shared, c->k_axis);
    s->k_last = s->along == s->shared.rank - 1;
    LLVMValueRef lane[MAX_AXES] = {NULL}, x, k, l = g->lane, warp = NULL;
    int size = s->shared.size, chunk = __builtin_ctz(16u / (unsigned)size);           // elements of 16 bytes, as a shift
    if (is_a && wm)  warp = bits_of(g, g->warp, 0, wm, 4);
    if (!is_a && wn) warp = bits_of(g, g->warp, wm, wn, 3);
    s->turned = !s->k_last && size == 1;
    if (s->turned) {
        if (!is_a && wn) {
            s->behind = gen_bits(g, warp, 0, 8);
            warp = LLVMBuildXor(g->B, warp, s->behind, "");
        }
        x = NULL;
        k = gen_turned_lane(g);
    } else if (s->k_last && is_a)       { x = bits_of(g, l, 0, 4, 0); k = bits_of(g, l, 4, 1, chunk);
    } else if (s->k_last) {
        x = LLVMBuildOr(g->B, bits_of(g, l, 0, 3, 0), bits_of(g, l, 4, 1, 3 + wn), "");
        k = bits_of(g, l, 3, 1, chunk);
    } else if (size == 4) {
        x = bits_of(g, l, 2, 3, 0);
        k = bits_of(g, l, 0, 2, 0);
    } else if (is_a) {
        x = bits_of(g, l, 3, 1, 3);
        k = LLVMBuildOr(g->B, bits_of(g, l, 0, 3, 0), bits_of(g, l, 4, 1, 3), "");
    } else {
        x = bits_of(g, l, 4, 1, 3 + wn);
        k = bits_of(g, l, 0, 4, 0);
    }
    lane[s->across] = warp && x ? LLVMBuildOr(g->B, x, warp, "") : warp ? warp : x;
    lane[s->along] = k;
    shared_open(g, &s->at, &s->shared, lane);
}

// Constants of a fragment's place: block i of rows or columns, k step, and the loops around.
static LLVMValueRef place(Mma *m, Feed *s, int64_t across, int64_t k) {
    int64_t c[MAX_AXES] = {0};
    const Type *t = &m->op->out[0]->type;
    for (int d = 0; d < s->shared.rank; d++) {
        int at = type_axis(t, s->shared.axis[d]);
        if (at >= 0) c[d] = m->outer[at];
        for (int i = 0; i < m->nextra; i++) if (m->extra[i] == s->shared.axis[d]) c[d] = m->at[i];
    }
    c[s->across] = across;
    c[s->along] = k;
    return shared_ptr(&s->at, c);
}

void gen_ldmatrix(Gen *g, LLVMValueRef p, int n, bool trans, LLVMValueRef *out) {
    char name[64];
    snprintf(name, sizeof name, "llvm.nvvm.ldmatrix.sync.aligned.m8n8.x%d%s.b16", n, trans ? ".trans" : "");
    LLVMValueRef x = gen_call(g, name, 1, &p, 1, &g->sptr);
    for (int i = 0; i < n; i++) out[i] = n == 1 ? x : LLVMBuildExtractValue(g->B, x, (unsigned)i, "");
}

static LLVMValueRef load32(Mma *m, Feed *s, int64_t across, int64_t k) {
    LLVMValueRef x = LLVMBuildLoad2(m->g->B, m->g->i32, place(m, s, across, k), "");
    LLVMSetAlignment(x, 4);
    return x;
}

// first of the four registers of block (i, j)
static int acc_reg(const Mma *m, const Layout *l, int row, int col, int i, int j) {
    int at = 0, stride = 1;
    for (int r = 0; r < l->nrep; r++) {
        int x = l->rep[r].axis;
        at += (int)(x == row ? i : x == col ? j : m->outer[x]) * stride;
        stride *= l->rep[r].count;
    }
    return at * 4;
}

// The operand's accumulator-shaped registers are A fragments: two column blocks a step.
static void a_from_registers(Mma *m, int i, int64_t step, LLVMValueRef *out) {
    Gen *g = m->g;
    const Val *x = m->a.v;
    Mma in = *m;
    int row = type_axis(&x->type, m->op->out[0]->type.axis[m->p->c.row]), col = type_axis(&x->type, m->p->c.k_axis);
    for (int d = 0; d < x->type.rank; d++) {
        int at = type_axis(&m->op->out[0]->type, x->type.axis[d]);
        in.outer[d] = at >= 0 ? m->outer[at] : 0;
        for (int e = 0; e < m->nextra; e++) if (m->extra[e] == x->type.axis[d]) in.outer[d] = m->at[e];
    }
    int64_t blocks = layout_span(x->layout, col) / 8;
    for (int r = 0; r < 4; r++) {
        int64_t j = 2 * step + (r >> 1);
        out[r] = j >= blocks ? gen_i32(g, 0) : gen_word(g, x, acc_reg(&in, x->layout, row, col, i, (int)j) + 2 * (r & 1), 2);
    }
}

// Rows g and g + 8 of a fragment of A, then of its second half of k.
static void turned_rows(Mma *m, Feed *s, int i, int64_t k, LLVMValueRef *out) {
    LLVMValueRef words[4], from[] = {gen_i32(m->g, 0), gen_i32(m->g, 8)};
    gen_turned_words(m->g, place(m, s, i * s->unit, k), 2, from, words);
    for (int r = 0; r < 4; r++) out[r] = words[2 * (r & 1) + (r >> 1)];
}

// One or two blocks of columns from block j on, which are neighbours where a warp has all columns.
static void turned_columns(Mma *m, Feed *s, int j, int n, int64_t k, LLVMValueRef *out) {
    LLVMValueRef from[] = {gen_i32(m->g, 0), gen_i32(m->g, 8)};
    if (!s->behind) { gen_turned_words(m->g, place(m, s, j * s->unit, k), n, from, out); return; }
    for (int i = 0; i < n; i++) gen_turned_words(m->g, place(m, s, (j + i) * s->unit, k), 1, &s->behind, out + 2 * i);
}

static void load_a(Mma *m, int64_t step, LLVMValueRef *out) {
    Feed *s = &m->a;
    int64_t k = step * m->p->c.k;
    for (int i = 0; i < m->rows; i++, out += 4) {
        if (m->p->where[m->p->c.a] == IN_REGISTERS) { a_from_registers(m, i, step, out); continue; }
        if (s->turned) { turned_rows(m, s, i, k, out); continue; }
        if (s->k_last || s->shared.size == 2) { gen_ldmatrix(m->g, place(m, s, i * s->unit, k), 4, !s->k_last, out); continue; }
        for (int r = 0; r < 4; r++) out[r] = load32(m, s, i * s->unit + 8 * (r & 1), k + 4 * (r >> 1));
    }
}

// Column blocks 2j and 2j + 1: four registers, two if there is only one block left.
static void load_b(Mma *m, int64_t step, int pair, LLVMValueRef *out) {
    Feed *s = &m->b;
    int64_t k = step * m->p->c.k;
    int j = 2 * pair, n = j + 1 < m->cols ? 4 : 2;
    if (s->turned) { turned_columns(m, s, j, n / 2, k, out); return; }
    if (s->k_last || s->shared.size == 2) { gen_ldmatrix(m->g, place(m, s, j * s->unit, k), n, !s->k_last, out); return; }
    for (int r = 0; r < n; r++) out[r] = load32(m, s, (j + (r >> 1)) * s->unit, k + 4 * (r & 1));
}

// ---- instructions --------------------------------------------------------------------------------

// mma.sync by LLVM's name: of the types in m16n8k16.row.col.D.A.B.C it has A alone for bf16 and tf32, A and B (once if
// equal) for integers, D and C for f16 (whose registers are pairs to it), all for the rest. NULL: this LLVM has none.
static LLVMValueRef by_name(Mma *m, LLVMValueRef *args) {
    Gen *g = m->g;
    const char *types = m->p->c.insn->types;
    char name[96], shape[32], d[8], a[8], b[8], c[8];
    if (sscanf(types, "%31[a-z0-9].row.col.%7[a-z0-9].%7[a-z0-9].%7[a-z0-9].%7[a-z0-9]", shape, d, a, b, c) != 5)
        return NULL;
    bool half = !strcmp(a, "f16"), ints = m->acc == g->i32,
         one = !strcmp(a, "bf16") || !strcmp(a, "tf32") || (ints && !strcmp(a, b));
    if (one)       snprintf(name, sizeof name, "llvm.nvvm.mma.%s.row.col.%s", shape, a);
    else if (ints) snprintf(name, sizeof name, "llvm.nvvm.mma.%s.row.col.%s.%s", shape, a, b);
    else if (half) snprintf(name, sizeof name, "llvm.nvvm.mma.%s.row.col.%s.%s", shape, d, c);
    else           snprintf(name, sizeof name, "llvm.nvvm.mma.%s.row.col.%s.%s.%s.%s", shape, d, a, b, c);
    for (int i = 0; i < 6 && half; i++) args[i] = LLVMBuildBitCast(g->B, args[i], LLVMVectorType(g->f16, 2), "");
    return gen_try(g, name, 10, args, 0, NULL);
}

static void mma(Mma *m, const LLVMValueRef *a, const LLVMValueRef *b, LLVMValueRef *acc) {
    Gen *g = m->g;
    char text[200];
    bool ints = m->acc == g->i32;
    gen_need(g, m->p->c.insn->cap);
    LLVMValueRef operands[10] = {a[0], a[1], a[2], a[3], b[0], b[1], acc[0], acc[1], acc[2], acc[3]},
                 known = by_name(m, operands);
    for (int i = 0; i < 4 && known; i++) acc[i] = LLVMBuildExtractValue(g->B, known, (unsigned)i, "");
    if (known) return;
    snprintf(text, sizeof text, "mma.sync.aligned.%s {$0, $1, $2, $3}, {$4, $5, $6, $7}, {$8, $9}, {$0, $1, $2, $3};",
             m->p->c.insn->types);
    LLVMTypeRef four[4] = {m->acc, m->acc, m->acc, m->acc};
    LLVMValueRef args[10] = {a[0], a[1], a[2], a[3], b[0], b[1], acc[0], acc[1], acc[2], acc[3]};
    LLVMValueRef d = gen_asm(g, LLVMStructTypeInContext(g->C, four, 4, 0), text,
                             ints ? "=r,=r,=r,=r,r,r,r,r,r,r,0,1,2,3" : "=f,=f,=f,=f,r,r,r,r,r,r,0,1,2,3", 10, args,
                             false, true);
    for (int i = 0; i < 4; i++) acc[i] = LLVMBuildExtractValue(g->B, d, (unsigned)i, "");
}

static LLVMValueRef round_tf32(Gen *g, LLVMValueRef x) {
    return gen_asm(g, g->i32, "cvt.rna.tf32.f32 $0, $1;", "=r,r", 1, &x, false, false);
}

// To the nearest, but what is finite stays so.
static LLVMValueRef round_finite(Gen *g, LLVMValueRef x) {
    LLVMValueRef r = LLVMBuildAdd(g->B, x, gen_i32(g, 0x1000), ""), size = LLVMBuildAnd(g->B, x, gen_i32(g, 0x7fffffff), "");
    LLVMValueRef fits = LLVMBuildICmp(g->B, LLVMIntULT, size, gen_i32(g, 0x7f7ff000), "");
    return LLVMBuildAnd(g->B, LLVMBuildSelect(g->B, fits, r, x, ""), gen_i32(g, 0xffffe000), "");
}

// The nearest finite number; NaN stays.
static LLVMValueRef bounded(Gen *g, LLVMValueRef x) {
    LLVMValueRef v = LLVMBuildBitCast(g->B, x, g->f32, "");
    v = gen_call(g, "llvm.minimum", 2, (LLVMValueRef[]){v, LLVMConstReal(g->f32, 0x1.fffffep127)}, 1, &g->f32);
    v = gen_call(g, "llvm.maximum", 2, (LLVMValueRef[]){v, LLVMConstReal(g->f32, -0x1.fffffep127)}, 1, &g->f32);
    return LLVMBuildBitCast(g->B, v, g->i32, "");
}

// x -> hi and lo of tf32x3, both as bits.
void gen_tf32_parts(Gen *g, LLVMValueRef x, LLVMValueRef *hi, LLVMValueRef *lo) {
    *hi = LLVMBuildAnd(g->B, x, gen_i32(g, 0xffffe000), "");
    LLVMValueRef d = LLVMBuildFSub(g->B, LLVMBuildBitCast(g->B, x, g->f32, ""), LLVMBuildBitCast(g->B, *hi, g->f32, ""), "");
    *lo = LLVMBuildBitCast(g->B, d, g->i32, "");
}

// all: what the large terms multiply. hi and lo, of the small terms: tf32x3 only.
typedef struct Parts { LLVMValueRef all[4 * MAX_FRAGMENTS], hi[4 * MAX_FRAGMENTS], lo[4 * MAX_FRAGMENTS]; } Parts;

// 32-bit fragments become tf32: rounded, or as two parts.
static void prepare(Mma *m, Parts *p, int n) {
    Gen *g = m->g;
    bool checked = (m->op->flags & CHECKED) != 0;
    if (m->p->c.insn->frag != EL_f32) return;
    for (int i = 0; i < n; i++) {
        LLVMValueRef x = p->all[i];
        if (!m->three) { p->all[i] = checked ? round_tf32(g, x) : round_finite(g, x); continue; }
        gen_tf32_parts(g, checked ? x : bounded(g, x), &p->hi[i], &p->lo[i]);
        p->all[i] = checked ? p->hi[i] : LLVMBuildAnd(g->B, x, gen_i32(g, 0xffffe000), "");
    }
}

static void multiply(Mma *m, const Parts *a, const Parts *b, LLVMValueRef (*acc)[4]) {
    for (int i = 0; i < m->rows; i++)
        for (int q = 0; q < m->cols; q++) {
            int j = i & 1 ? m->cols - 1 - q : q;             // back and forth: the last column's fragment is still at hand
            LLVMValueRef *d = acc[i * m->cols + j];
            if (m->three) { mma(m, a->lo + 4 * i, b->hi + 2 * j, d); mma(m, a->hi + 4 * i, b->lo + 2 * j, d); }
            mma(m, a->all + 4 * i, b->all + 2 * j, d);
        }
}

// ---- the product ---------------------------------------------------------------------------------

static void go_on(Mma *m, const Op *last) {                  // emits the ops after the product, up to `last`
    for (Op *op = last ? m->op->next : NULL; op; op = op == last ? NULL : op->next) gen_op(m->g, op);
}

static void load_step(Mma *m, int64_t step, LLVMValueRef *a, LLVMValueRef *b) {
    load_a(m, step, a);
    for (int j = 0; 2 * j < m->cols; j++) load_b(m, step, j, b + 4 * j);
}

// Ahead. A product that reads two rings in a loop would begin each trip by waiting for its first fragments: they are what
// the loop carries instead, read at the end of the trip before, after the barrier that says the next stage is whole.
// (Past the last trip that stage holds the zeros of copies whose lanes are dead, and nobody multiplies them.)
struct Ahead {
    const Op *dot;
    const Val *next[2];            // the stage of the next trip, by operand
    DotPlan p;
    Mma      m;
    int      n, na;                // registers, and how many of them are A's
    LLVMValueRef *now, *then;
};

static void ahead_read(Gen *g, Ahead *h, const Val *const *stage, LLVMValueRef *out) {
    Mma *m = &h->m;
    for (int i = 0; i < 2; i++) {
        Feed *s = i == h->p.c.a ? &m->a : &m->b;
        s->shared = shared_stage(g, m->op->in[i]->def, stage[i]);
        open_source(m, s, i, i == h->p.c.a);
    }
    load_step(m, 0, out, out + h->na);
}

// The next step's fragments are read while one step is multiplied.
static void by_steps(Mma *m, int steps, const Op *inside, LLVMValueRef (*acc)[4]) {
    Parts *a = NEW_N(m->g->arena, Parts, 2), *b = NEW_N(m->g->arena, Parts, 2);
    Ahead *ahead = m->g->ahead && m->g->ahead->dot == m->op ? m->g->ahead : NULL;
    if (ahead) {
        memcpy(a[0].all, ahead->now, (size_t)ahead->na * sizeof a->all[0]);
        memcpy(b[0].all, ahead->now + ahead->na, (size_t)(ahead->n - ahead->na) * sizeof b->all[0]);
    }
    for (int s = ahead ? 0 : -1; s < steps; s++) {
        Parts *x = &a[s & 1], *y = &b[s & 1];
        if (s + 1 < steps) {
            load_step(m, s + 1, a[(s + 1) & 1].all, b[(s + 1) & 1].all);
        } else {
            go_on(m, inside);
            if (ahead) ahead_read(m->g, ahead, ahead->next, ahead->then);
        }
        if (s < 0) continue;
        prepare(m, x, 4 * m->rows);
        prepare(m, y, 2 * m->cols);
        multiply(m, x, y, acc);
    }
}

// Over k, for one setting of the loops around. When the last fragments are in registers the operands' memory is free:
// there goes `inside`, what the program does next with it.
static void product(Mma *m, const Op *inside) {
    const Val *o = m->op->out[0];
    const MmaChoice *c = &m->p->c;
    int steps = (int)(up(axis_extent(c->k_axis), c->k) / c->k);
    LLVMValueRef (*acc)[4] = (LLVMValueRef (*)[4])NEW_N(m->g->arena, LLVMValueRef, 4 * m->rows * m->cols);
    for (int i = 0; i < m->rows; i++)
        for (int j = 0; j < m->cols; j++)
            for (int r = 0; r < 4; r++)
                acc[i * m->cols + j][r] = gen_get(m->g, o, acc_reg(m, o->layout, c->row, c->col, i, j) + r);
    by_steps(m, steps, inside, acc);
    for (int i = 0; i < m->rows; i++)
        for (int j = 0; j < m->cols; j++)
            for (int r = 0; r < 4; r++)
                gen_set(m->g, o, acc_reg(m, o->layout, c->row, c->col, i, j) + r, acc[i * m->cols + j][r]);
}

// The last of the ops after a product that refill the memory it read from: a wait, a barrier and copies, with nothing
// but their addresses between. NULL: there are none.
static bool is_address(uint8_t e) { return e == EL_index || e == EL_i32 || e == EL_bool; }

static const Op *refill(const Op *dot) {
    bool waits = false;
    for (const Op *op = dot->next; op; op = op->next) {
        if (op->code == OP_T_copy_commit) return waits ? op : NULL;
        if (op->code == OP_T_copy_wait) { waits = true; continue; }
        if (op->code == OP_T_barrier || op->code == OP_T_copy_async) continue;
        bool address = op_has(op, 'P') && op->nout == 1 &&
                       (op->out[0]->type.kind == TY_AXIS || is_address(op->out[0]->type.elem));
        if (!address || op->nreg || op->code == OP_T_reduce || op->code == OP_T_dot || op->code == OP_T_convert) return NULL;
    }
    return NULL;
}

static bool next_setting(int64_t *at, const int64_t *n, int count) {       // counts like an odometer
    for (int i = 0; i < count; i++) {
        if (++at[i] < n[i]) return true;
        at[i] = 0;
    }
    return false;
}

// The number of fragments and the loops around them; true if there are none.
static bool mma_open(Mma *m, int64_t *outer_n, int64_t *extra_n) {
    const Op *op = m->op;
    const Val *o = op->out[0];
    const MmaChoice *c = &m->p->c;
    bool once = true;
    m->rows = (int)(layout_span(o->layout, c->row) / (16 * c->warps_m));
    m->cols = (int)(layout_span(o->layout, c->col) / (8 * c->warps_n));
    if (m->rows > MAX_FRAGMENTS || m->cols > MAX_FRAGMENTS) ice("a product of %d x %d fragments a lane", m->rows, m->cols);
    m->three = c->insn->frag == EL_f32 && op->sub != DP_tf32;
    for (int i = 0; i < o->type.rank; i++) {
        outer_n[i] = i == c->row || i == c->col ? 1 : axis_extent(o->type.axis[i]);
        once &= outer_n[i] == 1;
    }
    for (int i = op_first_axis(op); i < op->nin; i++) {
        if (op->in[i] == c->k_axis) continue;
        extra_n[m->nextra] = axis_extent(op->in[i]);
        once &= extra_n[m->nextra] == 1;
        m->extra[m->nextra++] = op->in[i];
    }
    return once;
}

static void tensor_cores(Gen *g, Op *op, DotPlan *p) {
    const Val *o = op->out[0];
    Mma m = {.g = g, .op = op, .p = p, .acc = gen_type(g, o)};
    int64_t outer_n[MAX_AXES], extra_n[MAX_AXES];
    bool once = mma_open(&m, outer_n, extra_n);
    m.a.shared = p->shared[p->c.a];
    m.b.shared = p->shared[p->c.b];
    open_source(&m, &m.a, p->c.a, true);
    open_source(&m, &m.b, p->c.b, false);
    for (int r = 0; r < gen_tile(g, o)->n; r++) gen_set(g, o, r, dot_start(g, op, r));
    const Op *inside = once ? refill(op) : NULL;
    do {
        memset(m.at, 0, sizeof m.at);
        do product(&m, inside); while (next_setting(m.at, extra_n, m.nextra));
    } while (next_setting(m.outer, outer_n, o->type.rank));
    g->skip = inside;
}

// ---- ahead ---------------------------------------------------------------------------------------

static const Op *only_dot(const Region *body) {              // of a loop that is left at its end alone
    const Op *dot = NULL;
    for (const Op *op = body->first; op; op = op->next) {
        if (op->code == OP_T_break || op->code == OP_T_continue || op->nreg || (op->code == OP_T_dot && dot)) return NULL;
        if (op->code == OP_T_dot) dot = op;
    }
    return dot;
}

Ahead *ahead_open(Gen *g, const Op *loop) {
    const Region *body = loop->reg[0];
    const Op *dot = only_dot(body);
    const Val *first[2];
    int64_t outer_n[MAX_AXES], extra_n[MAX_AXES];
    if (!dot || !refill(dot)) return NULL;
    Ahead *h = NEW(g->arena, Ahead);
    *h = (Ahead){.dot = dot, .m = {.g = g, .op = (Op *)dot, .p = &h->p, .acc = gen_type(g, dot->out[0])}};
    plan_dot(g, dot, &h->p);
    if (!h->p.mma || !mma_open(&h->m, outer_n, extra_n)) return NULL;
    for (int i = 0; i < 2; i++) {
        int k = 1;                                            // the loop's counter is its first argument
        if (h->p.where[i] != IN_BUFFER) return NULL;
        const Val *stage = dot->in[i]->def->in[1];
        while (k < (int)body->args.n && body->args.at[k] != stage) k++;
        if (k == (int)body->args.n) return NULL;
        first[i] = loop->in[2 + k];
        h->next[i] = body->last->in[k - 1];
    }
    h->na = 4 * h->m.rows;
    h->n = h->na + 2 * h->m.cols;
    h->now = NEW_N(g->arena, LLVMValueRef, h->n);
    h->then = NEW_N(g->arena, LLVMValueRef, h->n);
    ahead_read(g, h, first, h->now);
    return h;
}

void ahead_head(Gen *g, Ahead *h, LLVMBasicBlockRef from) {
    for (int i = 0; h && i < h->n; i++) {
        LLVMValueRef phi = LLVMBuildPhi(g->B, LLVMTypeOf(h->now[i]), "");
        LLVMAddIncoming(phi, &h->now[i], &from, 1);
        h->now[i] = phi;
    }
}

void ahead_next(Gen *g, Ahead *h, LLVMBasicBlockRef from) {
    (void)g;
    for (int i = 0; h && i < h->n; i++) LLVMAddIncoming(h->now[i], &h->then[i], &from, 1);
}

void emit_dot(Gen *g, Op *op) {
    DotPlan p;
    plan_dot(g, op, &p);
    uint32_t bytes = staged_bytes(&p, 0) + staged_bytes(&p, 1), offset = 0;
    LLVMValueRef area = bytes ? gen_scratch(g, bytes) : NULL;
    if (bytes) gen_barrier(g);                                // others may still read what was there
    for (int i = 0; i < 2; i++) {
        if (p.where[i] == IN_BUFFER) p.shared[i] = shared_buffer(g, op->in[i]->def);
        if (p.where[i] != STAGED) continue;
        p.shared[i].base = offset ? LLVMBuildAdd(g->B, area, gen_i32(g, offset), "") : area;
        shared_put(g, &p.shared[i], op->in[i], op->nin - op_first_axis(op), op->in + op_first_axis(op));
        offset += staged_bytes(&p, i);
    }
    if (bytes) gen_barrier(g);
    if (p.mma) tensor_cores(g, op, &p);
    else fma_emit(g, op, &p);
}
