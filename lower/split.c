// A loop in parts: several programs run a share of its trips each, and the last of them to be done puts the shares together.
//
//     acc = 0                                   part, tile = program % S, program / S
//     for k in K by BK {                        acc = 0
//         acc += dot(a[m, k], b[k, n])     ->   for k in part's share of K by BK { acc += dot(a[m, k], b[k, n]) }
//     }                                         last = part_put tile, part, acc
//     c[m, n] = acc as bf16                     if last { acc = part_get.sum tile;  c[m, n] = acc as bf16 }
//
// So few programs with long loops fill the machine: a product of few rows, or of a long K, a sum over everything. The
// shares are joined in the order of the parts whoever comes last, so results are the same from run to run; and what
// follows the loop runs once, whatever it is.
//
// A loop may be split when each variable that it carries is only ever joined with something that no carried variable is
// part of (v = v op f(trip), op one of + * min max and or, the accumulator of a dot), when its body has no effects, and
// when what comes before it may be done again. Parts but the first start from what the op leaves alone; a part may have
// no trips. How many parts there are is the schedule's affair (Schedule.split); 1 leaves the kernel as it was.
#include "lower/build.h"
#include "lower/passes.h"
#include "lower/reduction.h"

enum { MAX_CARRIED = 16 };

typedef struct Split {
    Fn     *f;
    Op     *loop;
    TReduce join[MAX_CARRIED];
} Split;

static bool effects(const Op *op) { return op_has(op, 'W') || op_has(op, 'S') || op_has(op, 'A'); }

static bool effects_inside(const Op *op) {
    for (int i = 0; i < op->nreg; i++)
        for (const Op *in = op_walk(op->reg[i], NULL); in; in = op_walk(op->reg[i], in)) if (effects(in)) return true;
    return effects(op);
}

static const char *loop_of(Split *s, Op *loop) {
    Region *r = loop->reg[0];
    const Op *yield = r->last;
    if (!loop->nout) return "the loop carries nothing";
    if (loop->nout > MAX_CARRIED) return "the loop carries too much";
    for (const Op *op = r->first; op != yield; op = op->next) {
        if (effects_inside(op)) return "the loop stores, or has another effect";
        for (const Op *in = op->nreg ? op : NULL; in; in = NULL)
            for (int i = 0; i < op->nreg; i++)
                for (const Op *x = op_walk(op->reg[i], NULL); x; x = op_walk(op->reg[i], x)) if (op_target(x) == loop) return "the loop may end early";
    }
    if (yield->code != OP_T_yield) return "the loop may end early";
    for (int i = 0; i < loop->nout; i++) {
        const Val *v = r->args.at[1 + i];
        if (yield->in[i]->type.ptr || !reduce_joins(v, yield->in[i], &s->join[i])) return "the loop carries more than sums, products, extremes and truths";
        if (region_uses(r, v) != 1 || region_uses(r, yield->in[i]) != 1) return "a trip reads what the loop carries";
    }
    s->loop = loop;
    return NULL;
}

static const char *applies(Split *s) {
    Op *loop = s->f->body.first;
    while (loop && loop->code != OP_T_for) loop = loop->next;
    if (!loop) return "no loop stands outside of other loops and branches";
    for (const Op *op = s->f->body.first; op != loop; op = op->next) if (effects_inside(op)) return "something is stored before the loop";
    return loop_of(s, loop);
}

const char *split_refusal(Fn *f) {
    Split s = {.f = f};
    return applies(&s);
}

static Val *number_of(Builder *b, int64_t v) { return b_const(b, EL_index, v); }

Op *program_of(Fn *f) {
    for (Op *op = f->body.first; op; op = op->next) if (op->code == OP_T_program) return op;
    Op *op = op_new(f, OP_T_program, f->body.first->span, 0, NULL, 1);
    op->out[0]->type = type_scalar(EL_index);
    op_before(f->body.first, op);
    return op;
}

// The loop's bounds for this part: whole trips, as many for each as the first.
static void share(Split *s, Builder *b, Val *part, int64_t parts) {
    Val *lo = s->loop->in[0], *hi = s->loop->in[1], *step = s->loop->in[2];
    Val *length = b_binary(b, OP_sub, hi, lo), *trips = b_binary(b, OP_div, b_binary(b, OP_add, length, b_binary(b, OP_sub, step, number_of(b, 1))), step);
    Val *each = b_binary(b, OP_div, b_binary(b, OP_add, trips, number_of(b, parts - 1)), number_of(b, parts));
    each = b_binary(b, OP_mul, each, step);
    Val *from = b_binary(b, OP_add, lo, b_binary(b, OP_mul, part, each));
    s->loop->in[0] = from;
    s->loop->in[1] = b_op(b, OP_T_fun, TF_min, type_scalar(EL_index), 2, (Val *[]){hi, b_binary(b, OP_add, from, each)});
}

bool is_neutral(const Val *v, double x) {
    const Op *d = v->def;
    if (d && d->code == OP_T_splat) d = d->in[0]->def;
    if (!d || d->code != OP_T_const) return false;
    union { int64_t i; double f; } c = {d->imm};
    return elem_is_float((Elem)v->type.elem) ? c.f == x : (double)c.i == x;
}

static void carry(Split *s, Builder *b, Val *part) {
    Val *first = NULL;
    for (int i = 0; i < s->loop->nout; i++) {
        Val *init = s->loop->in[3 + i];
        double x = reduce_neutral(s->join[i], (Elem)init->type.elem);
        if (is_neutral(init, x)) continue;
        if (!first) first = b_binary(b, OP_eq, part, number_of(b, 0));
        s->loop->in[3 + i] = b_op(b, OP_T_select, 0, init->type, 3, (Val *[]){first, init, b_number(b, init->type, x)});
    }
}

// Everything after the loop is for the part that comes last.
static void combine(Split *s, Val *tile, Val *part, int64_t parts) {
    Fn *f = s->f;
    Op *loop = s->loop, *rest = loop->next;
    int n = loop->nout;
    Val *in[2 + MAX_CARRIED] = {tile, part};
    for (int i = 0; i < n; i++) in[2 + i] = loop->out[i];
    Op *put = op_new(f, OP_T_part_put, loop->span, 2 + n, in, 1);
    put->out[0]->type = type_scalar(EL_bool);
    put->imm = parts;
    op_after(loop, put);
    Op *branch = op_new(f, OP_T_if, loop->span, 1, put->out, 0);
    op_after(put, branch);
    Builder t = {f, branch->reg[0], NULL, loop->span}, e = {f, branch->reg[1], NULL, loop->span};
    Val *whole[MAX_CARRIED];
    for (int i = 0; i < n; i++) {
        whole[i] = b_op(&t, OP_T_part_get, s->join[i], loop->out[i]->type, 2, (Val *[]){tile, put->out[0]});
        whole[i]->def->attr = i;
        whole[i]->name = loop->out[i]->name;
    }
    for (Op *op = rest, *next; op; op = next) {
        next = op->next;
        op_remove(op);
        op_append(branch->reg[0], op);
    }
    for (int i = 0; i < n; i++) replace_uses(branch->reg[0], loop->out[i], whole[i]);
    b_insert(&t, op_new(f, OP_T_yield, loop->span, 0, NULL, 0));
    b_insert(&e, op_new(f, OP_T_yield, loop->span, 0, NULL, 0));
}

bool split_loop(Fn *f, const CompileOptions *opt) {
    Split s = {.f = f};
    int64_t parts = opt->schedule.split;
    if (parts < 2) return true;
    f->split_refused = applies(&s);
    if (f->split_refused) return true;

    Op *program = program_of(f);
    Builder b = {f, NULL, program->next, s.loop->span};
    Val *number = program->out[0];
    Val *tile = b_binary(&b, OP_div, number, number_of(&b, parts)), *part = b_binary(&b, OP_rem, number, number_of(&b, parts));
    replace_uses(&f->body, number, tile);
    tile->def->in[0] = part->def->in[0] = number;
    b.before = s.loop;
    share(&s, &b, part, parts);
    carry(&s, &b, part);
    combine(&s, tile, part, parts);
    f->launch->programs = launch_join_const(f->arena, L_MUL, f->launch->programs, parts);
    f->parts = (int)parts;
    simplify(f);
    return true;
}
