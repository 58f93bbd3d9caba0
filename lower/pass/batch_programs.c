// Short programs, several at a time: their number becomes an axis.
//
//     grid (m in M)                                    grid (m in M by 8)
//     {                                                {
//         n = axis 0, N {64}                               n = axis 0, N {64};  r = axis 8 * program, M {8}
//         x = load x[m, n]                      ->         x = load x[index r, n]
//         y[m, n] = x / sum(x over n)                      y[index r, n] = x / sum(x over n)
//     }                                                }
//
// A row of 64 elements leaves a warp two elements a lane: as many warps as a multiprocessor holds have too few bytes on
// their way, and each does its addresses for next to nothing. Eight rows in a warp are sixteen elements a lane, and
// what all rows need, as the weights of a norm, is loaded once for them. Rows past the last are dead lanes of the new
// axis.
//
// The coordinate is the program's number, or the last of several: number % H, by whose H others are found. Applies to
// straight lines of elementwise ops, loads, stores, reductions and scans on tiles of up to 128 lanes (or on numbers
// alone), where no axis depends on the coordinate and nothing is read that the kernel writes. Values that depend on it
// have the new axis; the others are as they were.
#include "lower/build.h"
#include "lower/facts/facts.h"
#include "lower/pass/passes.h"

enum { LONGEST = 128, LANES = 512, MOST = 256 };               // lanes of a program's tile; of several together; programs

typedef struct Batch {
    Fn   *f;
    Op   *program, *number;           // the coordinate: min(program, last), or program % H
    Op   *before;                     // program / H, or NULL
    LExpr many;                       // H
    bool *dep;                        // by value: depends on the coordinate
    uint32_t known;                   // values before the pass
    int64_t lanes;
} Batch;

static bool allowed(const Op *op) {
    switch (op->code) {
    case OP_T_const: case OP_T_dim: case OP_T_scalar: case OP_T_tensor: case OP_T_extent: case OP_T_program:
    case OP_T_axis: case OP_T_index: case OP_T_live: case OP_T_reduce: case OP_T_scan: case OP_T_load: case OP_T_store:
        return true;
    default: return op_is_elementwise(op);
    }
}

static bool find_number(Batch *b) {
    int uses = 0;
    for (Op *op = b->f->body.first; op; op = op->next) {
        if (op->code == OP_T_program && b->program) return false;
        if (op->code == OP_T_program) b->program = op;
        if (!b->program || !op->nin || op->in[0] != b->program->out[0]) continue;
        if (op->code == OP_T_fun && op->sub == TF_min && op->attr) b->number = op;
        else if (op->code == OP_T_binary && op->sub == OP_rem) b->number = op;
        else if (op->code == OP_T_binary && op->sub == OP_div) b->before = op;
        else return false;
        uses++;
    }
    if (!b->number || region_uses(&b->f->body, b->program->out[0]) != uses || uses != (b->before ? 2 : 1)) return false;
    if (b->number->code == OP_T_fun) return !b->before;
    return b->before && b->before->in[1] == b->number->in[1] && host_expr(facts_new(b->f), b->number->in[1], &b->many);
}

static bool depends(const Batch *b, const Op *op) {
    for (int i = 0; i < op->nin; i++) if (b->dep[op->in[i]->id]) return true;
    return false;
}

static bool stores_apart(const Batch *b, const Op *op) {        // two programs store at two places
    for (int i = 1; i <= op->nidx; i++) if (b->dep[op->in[i]->id]) return true;
    return false;
}

static bool applies(Batch *b) {
    const LaunchInfo *l = b->f->launch;
    bool stores = false;
    for (int i = 0; i < l->nparams; i++) if (l->params[i].mode == PM_INOUT || l->params[i].kind == PK_POINTER) return false;
    if (!find_number(b)) return false;
    for (Op *op = b->f->body.first; op; op = op->next) {
        if (!allowed(op)) return false;
        bool dep = op == b->number || depends(b, op);
        if (dep &&
            (op->code == OP_T_axis || op->code == OP_T_extent || (op->code == OP_T_store && !stores_apart(b, op))))
            return false;
        if (op->code == OP_T_load && l->params[op->in[0]->def->imm].mode != PM_IN) return false;
        stores |= op->code == OP_T_store;
        for (int i = 0; i < op->nout; i++) {
            const Type *t = &op->out[i]->type;
            b->dep[op->out[i]->id] = dep;
            if (t->kind == TY_TILE && t->rank && type_lanes(t) > b->lanes) b->lanes = type_lanes(t);
            if (t->kind == TY_TILE && t->rank == MAX_AXES) return false;
        }
    }
    return stores && b->lanes <= LONGEST;
}

// What the number is less than.
static Val *end_of(Builder *in, Val *last) {
    const Op *d = last->def;
    if (d && d->code == OP_T_const) return b_const(in, EL_index, d->imm + 1);
    if (d && d->code == OP_T_binary && d->sub == OP_add && d->in[1]->def && d->in[1]->def->code == OP_T_const &&
        d->in[1]->def->imm == -1)
        return d->in[0];
    return b_binary(in, OP_add, last, b_const(in, EL_index, 1));
}

// How many programs stand side by side along the coordinate, and from where on this one has its share.
static Val *first_of(Batch *b, Builder *in, int64_t each) {
    Fn *f = b->f;
    Val *p = b->program->out[0], *size = b_const(in, EL_index, each);
    if (!b->before) {
        f->launch->programs = launch_join_const(f->arena, L_CDIV, f->launch->programs, each);
        return b_binary(in, OP_mul, p, size);
    }
    Val *groups = b_binary(in, OP_div, b_binary(in, OP_add, b->number->in[1], b_const(in, EL_index, each - 1)), size);
    LExpr others = launch_join(f->arena, L_DIV, f->launch->programs, b->many);
    f->launch->programs = launch_join(f->arena, L_MUL, others, launch_join_const(f->arena, L_CDIV, b->many, each));
    Val *other = b_binary(in, OP_div, p, groups);
    replace_uses(&f->body, b->before->out[0], other);
    return b_binary(in, OP_mul, b_binary(in, OP_rem, p, groups), size);
}

static void rewrite(Batch *b, int64_t each) {
    Fn *f = b->f;
    Op *number = b->number, *at = b->before && b->before->prev == b->program ? b->before : number;
    Builder in = {f, NULL, at, number->span};
    Val *first = first_of(b, &in, each), *end = b->before ? number->in[1] : end_of(&in, number->in[1]);
    Val *rows = b_op(&in, OP_T_axis, 0, (Type){.kind = TY_AXIS, .shape = {each}}, 2, (Val *[]){first, end});
    rows->def->imm = each;
    Type one = type_tile(EL_index, 1, &rows);
    Val *index = b_op(&in, OP_T_index, 0, one, 1, &rows);
    index->name = rows->name = number->out[0]->name;
    for (Op *op = number->next; op; op = op->next)
        for (int i = 0; i < op->nout; i++)
            if (op->out[i]->id < b->known && b->dep[op->out[i]->id]) op->out[i]->type = type_union(op->out[i]->type, one);
    replace_uses(&f->body, number->out[0], index);
    op_remove(number);
    if (b->before) op_remove(b->before);
    f->batched = (int)each;
}

bool batch(Fn *f, const CompileOptions *opt) {
    Batch b = {.f = f, .dep = NEW_N(f->arena, bool, f->nvals), .known = f->nvals, .lanes = 1};
    if (opt->schedule.warps > 1 || !applies(&b)) return false;
    int64_t each = 1;
    while (each < MOST && 2 * each * b.lanes <= LANES) each *= 2;
    rewrite(&b, each);
    return true;
}
