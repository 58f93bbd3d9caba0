// A nest of loops around products becomes one loop.
//
//     for r in R {                                 n = cdiv(C, BC)
//         for s in S {                             for t in R * S * n {
//             for c in C by BC {            ->         c = t % n * BC;  s = t / n % S;  r = t / n / S
//                 acc += dot(..)                       acc += dot(..)
//     } } }                                        }
//
// What a loop of products gets (rings of shared memory filled ahead, roles, parts) it gets from trip to trip, so the trips
// of a convolution over taps and channels had better be those of one loop: its ring does not run dry between taps.
//
// Applies to loops whose bodies are the next loop and index arithmetic in front of it, where all that is carried goes
// through unchanged, the bounds of each loop stand outside of the nest, and the innermost body has a product. The
// arithmetic moves into the trip.
#include "lower/facts/facts.h"
#include "lower/pass/passes.h"

enum { DEEPEST = 6 };

typedef struct Nest { Op *loop[DEEPEST]; int n; } Nest;       // outermost first

// Index arithmetic: cheap enough for each trip.
static bool arithmetic(const Op *op) {
    if (!op_has(op, 'P') || op->nout != 1) return false;
    if (op->out[0]->type.kind == TY_AXIS || op->code == OP_T_index) return true;
    return op->out[0]->type.kind == TY_TILE && elem_is_int((Elem)op->out[0]->type.elem) && op->code != OP_T_reduce &&
           op->code != OP_T_scan && op->code != OP_T_dot && op->code != OP_T_sort && op->code != OP_T_order &&
           op->code != OP_T_take;
}

// The loop that the body of `outer` is, or NULL.
static Op *inner_of(const Op *outer) {
    const Region *r = outer->reg[0];
    const Op *yield = r->last;
    Op *in = yield->prev;
    if (!in || in->code != OP_T_for || yield->code != OP_T_yield || in->nout != outer->nout) return NULL;
    for (int i = 0; i < in->nout; i++) {
        const Val *arg = r->args.at[1 + i];
        if (in->in[3 + i] != arg || region_uses(r, arg) != 1) return NULL;
        if (yield->in[i] != in->out[i]) return NULL;
    }
    for (const Op *op = r->first; op != in; op = op->next) if (!arithmetic(op)) return NULL;
    for (int i = 0; i < 3; i++) {                                // a rectangle: bounds from outside of the nest
        const Op *d = in->in[i]->def;
        if (!d || op_inside(d, r)) return NULL;
    }
    return in;
}

static bool has_product(const Region *r) {
    for (const Op *op = r->first; op; op = op->next) if (op->code == OP_T_dot) return true;
    return false;
}

static bool is_const(const Val *v, int64_t c) { return v->def && v->def->code == OP_T_const && v->def->imm == c; }

static Val *mul(Builder *b, Val *x, Val *y) { return is_const(x, 1) ? y : is_const(y, 1) ? x : b_binary(b, OP_mul, x, y); }

// Trips of a loop, none where it would run backwards.
static Val *trips(Facts *s, Builder *b, const Op *loop) {
    Val *lo = loop->in[0], *hi = loop->in[1], *step = loop->in[2];
    Val *n = is_const(lo, 0) ? hi : b_binary(b, OP_sub, hi, lo);
    if (fact_range(s, hi).lo < 0 || !is_const(lo, 0))
        n = b_op(b, OP_T_fun, TF_max, type_scalar(EL_index), 2, (Val *[]){n, b_const(b, EL_index, 0)});
    if (is_const(step, 1)) return n;
    Val *up = b_binary(b, OP_sub, step, b_const(b, EL_index, 1));
    return b_binary(b, OP_div, b_binary(b, OP_add, n, up), step);
}

// The counters of the loops, as digits of the trip's number t.
static void digits(Builder *b, const Nest *nest, Val *const *n, Val *t, Val **at) {
    Val *rest = t;
    for (int i = nest->n - 1; i >= 0; i--) {
        const Op *loop = nest->loop[i];
        bool more = false;
        for (int k = 0; k < i; k++) more |= !is_const(n[k], 1);
        if (is_const(n[i], 1)) { at[i] = loop->in[0]; continue; }
        at[i] = more ? b_binary(b, OP_rem, rest, n[i]) : rest;
        if (more) rest = b_binary(b, OP_div, rest, n[i]);
        at[i] = mul(b, at[i], loop->in[2]);
        if (!is_const(loop->in[0], 0)) at[i] = b_binary(b, OP_add, loop->in[0], at[i]);
        if (!at[i]->name) at[i]->name = loop->reg[0]->args.at[0]->name;
    }
}

static void flatten_nest(Fn *f, Facts *s, const Nest *nest) {
    Op *outer = nest->loop[0], *last = nest->loop[nest->n - 1];
    Builder b = {f, NULL, outer, outer->span};
    Val *n[DEEPEST], *at[DEEPEST], *all, **in = NEW_N(f->arena, Val *, outer->nin);
    for (int i = 0; i < nest->n; i++) n[i] = trips(s, &b, nest->loop[i]);
    all = n[0];
    for (int i = 1; i < nest->n; i++) all = mul(&b, all, n[i]);
    for (int i = 3; i < outer->nin; i++) in[i] = outer->in[i];
    in[0] = b_const(&b, EL_index, 0);
    in[1] = all;
    in[2] = b_const(&b, EL_index, 1);
    Op *flat = op_new(f, OP_T_for, outer->span, outer->nin, in, outer->nout);
    flat->str = outer->str;
    op_before(outer, flat);
    Region *body = flat->reg[0], *was = last->reg[0];
    ValMap map = {.arena = f->arena};
    Builder inside = {f, body, NULL, outer->span};
    digits(&inside, nest, n, region_arg(f, body, type_scalar(EL_index)), at);
    for (int i = 0; i < nest->n; i++) map_set(&map, nest->loop[i]->reg[0]->args.at[0], at[i]);
    for (int i = 0; i < outer->nout; i++) {
        Val *arg = region_arg(f, body, was->args.at[1 + i]->type);
        arg->name = was->args.at[1 + i]->name;
        map_set(&map, was->args.at[1 + i], arg);
        flat->out[i]->type = outer->out[i]->type;
        flat->out[i]->name = outer->out[i]->name;
    }
    for (int i = 0; i + 1 < nest->n; i++)
        for (Op *op = nest->loop[i]->reg[0]->first; op != nest->loop[i + 1]; op = op->next)
            op_append(body, op_clone(f, op, &map));
    region_clone(f, was, body, NULL, &map);
    for (int i = 0; i < outer->nout; i++) replace_uses(&f->body, outer->out[i], flat->out[i]);
    op_remove(outer);
}

static bool visit(Fn *f, Facts *s, Region *r) {
    bool any = false;
    for (Op *op = r->first, *next; op; op = next) {
        Nest nest = {.n = 0};
        next = op->next;
        for (Op *in = op; in && in->code == OP_T_for && nest.n < DEEPEST; in = inner_of(in)) nest.loop[nest.n++] = in;
        const Op *last = nest.n ? nest.loop[nest.n - 1] : NULL;
        if (nest.n > 1 && has_product(last->reg[0]) && !region_leaves_early(op->reg[0])) {
            flatten_nest(f, s, &nest);
            any = true;
        } else
            for (int i = 0; i < op->nreg; i++) any |= visit(f, s, op->reg[i]);
    }
    return any;
}

bool flatten(Fn *f) { return visit(f, facts_new(f), &f->body); }
