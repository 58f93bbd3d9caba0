// What a kernel has to do, as formulas of its dimensions, and what bounds it on the target's machine.
//
//       bytes          6 * M * N + 2 * N, each tensor once
//       flops          7 * M * N
//       at 4096        100.7 MB in 21.0 us, 117.4 Mflop in 1.8 us, 1.2 flop/byte: memory bounds it (H200)
//
// It is counted on the tile IR as built and simplified, before any pass cuts or copies loops. Bytes are compulsory: each
// tensor that is loaded from, stored to, or both, once, and of a tensor that is only gathered from or scattered to (its
// index was loaded) the elements that are asked for, where they are fewer; what caches do not catch comes on top.
// Operations are those of floats: one for an addition, a function, an element of a reduction, two for a multiply-add
// and for each pair of a product. An op is done for each live lane of its axes, in each program and trip: a grid clause
// or loop that makes one of the axes gives its length, any other one how often it runs, an axis made by neither its own
// length. A bound that depends on where a program is (a causal mask) counts as its most.
//
// The last line puts a number for each dimension that is not known: 4096, or 64 where they are more than three.
#include "lower/cost/roofline.h"

#include <string.h>

#include "lower/facts/facts.h"
#include "lower/pass/passes.h"
#include "ptx/ptx.h"

enum { MOST_TERMS = 12, NEST = 16 };

typedef struct Term { double k; LExpr of; } Term;               // of.n 0: 1
typedef struct Work { Term at[MOST_TERMS]; int n; bool most; } Work;

typedef struct Touch {                                          // of a tensor, by loads and by stores
    bool  whole, most;
    LExpr asked;                                               // elements at places that data decide; n 0: none
} Touch;

typedef struct Count {
    Fn    *f;
    Facts *facts;
    Touch  touch[MAX_PARAMS][2];
    Work   bytes, flops, products;
    Elem   product;                                            // what is multiplied
    bool   most;                                               // the term at work has a bound that is no number
} Count;

static void add(Work *w, double k, LExpr of, bool most) {
    int i = 0;
    while (i < w->n && !launch_same(w->at[i].of, of)) i++;
    w->most |= most;
    if (i == MOST_TERMS) { w->most = true; return; }
    if (i == w->n) w->at[w->n++] = (Term){0, of};
    w->at[i].k += k;
}

static bool is_number(LExpr x) { return x.n == 1 && x.at->op == L_CONST; }

static void times(Count *c, double *k, LExpr *of, LExpr x) {
    if (is_number(x)) { *k *= (double)x.at->arg; return; }
    *of = of->n ? launch_join(c->f->arena, L_MUL, *of, x) : x;
}

// ---- how often an op is done ---------------------------------------------------------------------

static bool at_most(Count *c, const Val *v, LExpr *out) {       // v, or something the launcher knows that is not less
    const Op *d = v->def;
    if (host_expr(c->facts, v, out)) return true;
    c->most = true;
    if (d && d->code == OP_T_fun && d->sub == TF_min) return at_most(c, d->in[0], out) || at_most(c, d->in[1], out);
    return false;
}

static LExpr length(Count *c, LExpr lo, LExpr hi) {
    return is_number(lo) && lo.at->arg == 0 ? hi : launch_join(c->f->arena, L_SUB, hi, lo);
}

static bool length_of(Count *c, const Val *lo, const Val *hi, LExpr *out) {
    LExpr a, b;
    const Op *d = hi->def;
    for (int i = 0; d && d->code == OP_T_fun && d->sub == TF_min && i < 2; i++) {       // min(.., lo + 128)
        const Op *sum = d->in[i]->def;
        if (!sum || sum->code != OP_T_binary || sum->sub != OP_add || sum->in[0] != lo ||
            !host_expr(c->facts, sum->in[1], out))
            continue;
        c->most = true;
        return true;
    }
    if (!at_most(c, hi, &b)) return false;
    *out = host_expr(c->facts, lo, &a) ? length(c, a, b) : b;
    return true;
}

static LExpr trips(Count *c, LExpr len, int64_t step) {
    return step == 1 ? len : launch_join_const(c->f->arena, L_CDIV, len, step);
}

// The axis of t that clause g of the grid makes, or -1.
static int made_by(Count *c, const Type *t, const TGrid *g, uint32_t done) {
    LExpr hi, lo, want = launch_expr(c->f->arena, c->f->kernel, g->hi);
    for (int i = 0; i < t->rank && g->axis; i++) {
        const Val *axis = t->axis[i];
        if (done >> i & 1 || axis_extent(axis) != g->step || host_expr(c->facts, axis_lo(axis), &lo)) continue;
        if (axis_lo(axis)->def && host_expr(c->facts, axis_hi(axis), &hi) && launch_same(hi, want)) return i;
    }
    return -1;
}

// Lanes of t over all programs and trips: k * of.
static void how_often(Count *c, double *times_k, LExpr *times_of, const Type *t, Op *const *loop, int nloop) {
    LExpr of = *times_of, len;
    double k = *times_k;
    uint32_t done = 0;
    c->most = false;
    for (int i = 0; i < c->f->kernel->ngrid; i++) {
        const TGrid *g = &c->f->kernel->grid[i];
        int at = made_by(c, t, g, done);
        len = length(c, launch_expr(c->f->arena, c->f->kernel, g->lo), launch_expr(c->f->arena, c->f->kernel, g->hi));
        if (at >= 0) done |= 1u << at;
        times(c, &k, &of, at >= 0 ? len : trips(c, len, g->step));
    }
    for (int i = 0; i < nloop; i++) {
        const Op *l = loop[i];
        int at = -1;
        if (l->code != OP_T_for) { c->most |= l->code == OP_T_while; continue; }
        for (int q = 0; q < t->rank; q++) if (!(done >> q & 1) && axis_lo(t->axis[q]) == l->reg[0]->args.at[0]) at = q;
        bool known = length_of(c, l->in[0], l->in[1], &len) && l->in[2]->def && l->in[2]->def->code == OP_T_const;
        if (at >= 0) done |= 1u << at;
        if (known) times(c, &k, &of, at >= 0 ? len : trips(c, len, l->in[2]->def->imm));
        else if (at >= 0) k *= (double)axis_extent(t->axis[at]);
        c->most |= !known;
    }
    for (int i = 0; i < t->rank; i++) {
        if (done >> i & 1) continue;
        const Val *axis = t->axis[i];
        bool most = c->most, known = !(axis->def->flags & AXIS_FULL) && length_of(c, axis_lo(axis), axis_hi(axis), &len);
        if (known) times(c, &k, &of, len);
        else { c->most = most; k *= (double)axis_extent(axis); }
    }
    *times_k = k;
    *times_of = of;
}

static void done_for(Count *c, Work *w, double k, const Type *t, Op *const *loop, int nloop) {
    LExpr of = {0};
    how_often(c, &k, &of, t, loop, nloop);
    add(w, k, of, c->most);
}

static void count_op(Count *c, const Op *op, Op *const *loop, int nloop) {
    if (op->nout != 1 || op->out[0]->type.kind != TY_TILE || op->out[0]->type.ptr) return;
    const Op *by = op->parent->owner;                           // a function of numbers: once an element
    Type t = by && op_joins(by) ? by->in[0]->type : op->out[0]->type;
    t.elem = op->out[0]->type.elem;
    bool real = elem_is_float((Elem)t.elem);
    switch (op->code) {
    case OP_T_binary: if (real && !op_compares((AstOp)op->sub)) done_for(c, &c->flops, 1, &t, loop, nloop); break;
    case OP_T_fun: if (real) done_for(c, &c->flops, op->sub == TF_fma ? 2 : 1, &t, loop, nloop); break;
    case OP_T_reduce:
    case OP_T_scan:
        if (elem_is_float((Elem)op->in[0]->type.elem)) done_for(c, &c->flops, 1, &op->in[0]->type, loop, nloop);
        break;
    case OP_T_dot:
        t = type_union(op->in[0]->type, op->in[1]->type);
        c->product = (Elem)op->in[0]->type.elem;
        done_for(c, &c->products, 2, &t, loop, nloop);
        break;
    default: break;
    }
}

static bool loaded(const Val *v, int *steps) {                  // something that was loaded makes it
    if (!v->def || --*steps < 0) return false;
    if (v->def->code == OP_T_load) return true;
    for (int i = 0; i < v->def->nin; i++) if (loaded(v->def->in[i], steps)) return true;
    return false;
}

static int64_t clipped(double n) { return n < (double)INT64_MAX ? (int64_t)n : INT64_MAX; }

static void count_access(Count *c, const Op *op, Op *const *loop, int nloop) {
    if (op->code != OP_T_load && op->code != OP_T_store && op->code != OP_T_atomic) return;
    if (op->in[0]->type.kind != TY_TENSOR) return;
    bool by_data = false;
    int  steps = 1000;
    for (int i = 1; i <= op->nidx; i++) by_data |= loaded(op->in[i], &steps);
    Type lanes = op->code == OP_T_load ? op->out[0]->type : op_places(op);
    double k = 1;
    LExpr of = {0};
    how_often(c, &k, &of, &lanes, loop, nloop);
    LExpr n = of.n ? launch_join_const(c->f->arena, L_MUL, of, clipped(k)) : launch_const(c->f->arena, clipped(k));
    for (int way = 0; way < 2; way++) {
        Touch *t = &c->touch[op->in[0]->def->imm][way];
        if (op->code == (way ? OP_T_load : OP_T_store)) continue;
        t->whole |= !by_data;
        t->most |= c->most;
        t->asked = t->asked.n ? launch_join(c->f->arena, L_ADD, t->asked, n) : n;
    }
}

static void count_region(Count *c, const Region *r, Op **loop, int nloop) {
    for (Op *op = r->first; op; op = op->next) {
        count_op(c, op, loop, nloop);
        count_access(c, op, loop, nloop);
        if (nloop == NEST) continue;
        loop[nloop] = op;
        for (int i = 0; i < op->nreg; i++) count_region(c, op->reg[i], loop, nloop + 1);
    }
}

// ---- bytes ---------------------------------------------------------------------------------------

static void count_bytes(Count *c) {
    const LaunchInfo *l = c->f->launch;
    for (int p = 0; p < l->nparams; p++) {
        double k = (double)elem_bytes(l->params[p].elem), one = 1;
        LExpr size = {0};
        for (int d = 0; d < l->params[p].rank; d++) times(c, &one, &size, l->params[p].dim[d]);
        LExpr all = size.n ? launch_join_const(c->f->arena, L_MUL, size, clipped(one))
                           : launch_const(c->f->arena, clipped(one));
        for (int way = 0; way < 2; way++) {
            const Touch *t = &c->touch[p][way];
            if (t->whole) add(&c->bytes, k * one, size, false);
            else if (is_number(t->asked) && is_number(all))
                add(&c->bytes, k * (double)(t->asked.at->arg < all.at->arg ? t->asked.at->arg : all.at->arg), size,
                    t->most);
            else if (t->asked.n) add(&c->bytes, k, launch_join(c->f->arena, L_MIN, all, t->asked), t->most);
        }
    }
}

// ---- in words ------------------------------------------------------------------------------------

static void put_work(Count *c, const char *what, const Work *w, const char *after, Buf *out) {
    buf_printf(out, "  %-14s %s", what, w->most ? "at most " : "");
    for (int i = 0; i < w->n; i++) {
        const Term *t = &w->at[i];
        buf_printf(out, "%s", i ? " + " : "");
        if (t->k != 1 || !t->of.n) buf_printf(out, "%.15g%s", t->k, t->of.n ? " * " : "");
        LOp  last = t->of.n ? t->of.at[t->of.n - 1].op : L_MUL;
        bool apart = t->k != 1 && (last == L_ADD || last == L_SUB || last == L_DIV || last == L_MOD);
        if (t->of.n) buf_printf(out, apart ? "(%s)" : "%s", launch_expr_text(c->f->arena, c->f->launch, t->of));
    }
    if (!w->n) buf_puts(out, "0");
    buf_printf(out, "%s\n", after);
}

static int64_t sample(const LaunchInfo *l) {
    int unknown = 0;
    for (int i = 0; i < l->ndims; i++) unknown += l->dims[i].fixed < 0;
    return unknown > 3 ? 64 : 4096;
}

static bool whole(LExpr e) {                                    // an expression by itself: it takes nothing from before
    int depth = 0;
    for (uint32_t i = 0; i < e.n; i++) {
        int takes = launch_takes(e.at[i].op);
        if (depth < takes) return false;
        depth += 1 - takes;
    }
    return depth == 1;
}

static double value(Count *c, const Work *w, const int64_t *known) {
    int64_t dims[MAX_DIMS], scalars[MAX_PARAMS], strides[MAX_STRIDES] = {0};
    double sum = 0;
    for (int i = 0; i < MAX_DIMS; i++)
        dims[i] = i < c->f->launch->ndims && c->f->launch->dims[i].fixed >= 0 ? c->f->launch->dims[i].fixed
                                                                              : sample(c->f->launch);
    for (int i = 0; known && i < c->f->launch->ndims; i++) if (known[i] >= 0) dims[i] = known[i];
    for (int i = 0; i < MAX_PARAMS; i++) scalars[i] = 1;
    for (int i = 0; i < c->f->launch->nguards; i++) {              // `where P = ..` says what P is
        LExpr g = c->f->launch->guards[i].cond;
        LExpr is = {g.at + 1, g.n - 2};
        if (g.n > 2 && g.at[0].op == L_DIM && g.at[g.n - 1].op == L_EQ && whole(is) &&
            c->f->launch->dims[g.at[0].arg].fixed < 0 && !(known && known[g.at[0].arg] >= 0))
            dims[g.at[0].arg] = launch_eval(is, dims, scalars, strides);
    }
    for (int i = 0; i < w->n; i++)
        sum += w->at[i].k * (w->at[i].of.n ? (double)launch_eval(w->at[i].of, dims, scalars, strides) : 1);
    return sum;
}

static void put_scaled(double x, const char *unit, Buf *out) {
    static const char *const prefix[] = {"", "k", "M", "G", "T", "P"};
    int i = 0;
    while (x >= 1000 && i < 5) { x /= 1000; i++; }
    buf_printf(out, "%.1f %s%s", x, prefix[i], unit);
}

static bool any_unknown(const LaunchInfo *l, const int64_t *known) {
    for (int i = 0; i < l->ndims; i++) {
        bool follows = false;                                       // `where P = ..` says what it is
        for (int g = 0; g < l->nguards; g++) {
            LExpr e = l->guards[g].cond;
            follows |= e.n > 2 && e.at[0].op == L_DIM && e.at[0].arg == i && e.at[e.n - 1].op == L_EQ &&
                       whole((LExpr){e.at + 1, e.n - 2});
        }
        if (l->dims[i].fixed < 0 && !(known && known[i] >= 0) && !follows) return true;
    }
    return false;
}

static double product_rate(const Count *c, const Target *t) {       // operations in a microsecond
    if (c->product == EL_f64) return t->tflops_f32 / 2 * 1e6;
    if (c->product == EL_f32) return t->tflops_bf16 / 6 * 1e6;      // three products of tf32
    return (elem_bits(c->product) == 8 ? 2 : 1) * t->tflops_bf16 * 1e6;
}

static Count count_all(Session *s, const TKernel *k) {
    Count c = {.f = ir_build(s, k)};
    Op   *loop[NEST + 1];
    c.facts = facts_new(c.f);
    simplify(c.f);
    if (contract(c.f)) simplify(c.f);
    count_region(&c, &c.f->body, loop, 0);
    count_bytes(&c);
    return c;
}

Roofline roofline_at(Session *s, const TKernel *k, const int64_t *dims) {
    Count c = count_all(s, k);
    return (Roofline){value(&c, &c.bytes, dims), value(&c, &c.flops, dims), value(&c, &c.products, dims), 0};
}

Roofline roofline_on(Session *s, const TKernel *k, const int64_t *dims, const Target *t, double *us) {
    Count c = count_all(s, k);
    Roofline r = {value(&c, &c.bytes, dims), value(&c, &c.flops, dims), value(&c, &c.products, dims), 0};
    r.rate = r.products > 0 ? product_rate(&c, t) : t->tflops_f32 * 1e6;
    double memory = r.bytes / (t->gbs * 1e3), arithmetic = r.flops / (t->tflops_f32 * 1e6),
           tensor = r.products > 0 ? r.products / product_rate(&c, t) : 0;
    *us = memory > arithmetic ? memory > tensor ? memory : tensor : arithmetic > tensor ? arithmetic : tensor;
    return r;
}

void roofline_print(Session *s, const TKernel *k, const Target *t, const int64_t *dims, Buf *out) {
    Count c = count_all(s, k);
    put_work(&c, "bytes", &c.bytes, ", each tensor once", out);
    put_work(&c, "flops", &c.flops, c.products.n ? " besides products" : "", out);
    if (c.products.n) put_work(&c, "products", &c.products, " flops", out);
    double bytes = value(&c, &c.bytes, dims), flops = value(&c, &c.flops, dims), products = value(&c, &c.products, dims);
    double memory = bytes / (t->gbs * 1e3), arithmetic = flops / (t->tflops_f32 * 1e6),
           tensor = products / product_rate(&c, t);
    double most = memory > arithmetic ? memory > tensor ? memory : tensor : arithmetic > tensor ? arithmetic : tensor;
    if (any_unknown(c.f->launch, dims)) buf_printf(out, "  at %-11lld ", (long long)sample(c.f->launch));
    else buf_printf(out, "  %-14s ", "a launch");
    put_scaled(bytes, "B", out);
    buf_printf(out, " in %.1f us, ", memory);
    put_scaled(flops + products, "flop", out);
    buf_printf(out, " in %.1f us, %.1f flop/byte: %s (%s)\n", arithmetic > tensor ? arithmetic : tensor,
               bytes > 0 ? (flops + products) / bytes : 0,
               most == 0        ? "nothing to do"
               : most == memory ? "memory bounds it"
               : most == tensor ? "products bound it"
                                : "arithmetic bounds it",
               t->gpu);
}
