// Short programs, several at a time: their number becomes an axis.
//
//     grid (m in M)                                    grid (m in M by 8)
//     {                                                {
//         n = axis 0, N {64}                               n = axis 0, N {64};  r = axis 8 * program, M {8}
//         x = load x[m, n]                      ->         x = load x[index r, n]
//         y[m, n] = x / sum(x over n)                      y[index r, n] = x / sum(x over n)
//     }                                                }
//
// A row of 64 elements leaves a warp two elements a lane: as many warps as a multiprocessor holds have too few bytes on their
// way, and each does its addresses for next to nothing. Eight rows in a warp are sixteen elements a lane, and what all rows
// need, as the weights of a norm, is loaded once for them. Rows past the last are dead lanes of the new axis.
//
// Applies to straight lines of elementwise ops, loads, stores, reductions and scans on tiles of up to 128 lanes (or on numbers alone), where the
// program's number is one coordinate, no axis depends on it, and nothing is read that the kernel writes. Values that depend
// on the coordinate have the new axis; the others are as they were.
#include "lower/build.h"
#include "lower/passes.h"

enum { LONGEST = 128, LANES = 512, MOST = 64 };               // lanes of a program's tile; of several together; programs

typedef struct Batch {
    Fn   *f;
    Op   *program, *number;           // the coordinate: the program's number, at most the last
    bool *dep;                        // by value: depends on the coordinate
    int64_t lanes;
} Batch;

static bool allowed(const Op *op) {
    switch (op->code) {
    case OP_T_const: case OP_T_dim: case OP_T_scalar: case OP_T_tensor: case OP_T_extent: case OP_T_program: case OP_T_axis: case OP_T_index: case OP_T_live:
    case OP_T_unary: case OP_T_binary: case OP_T_select: case OP_T_cast: case OP_T_bitcast: case OP_T_fun: case OP_T_splat: case OP_T_reduce: case OP_T_scan:
    case OP_T_load: case OP_T_store: return true;
    default: return false;
    }
}

static bool find_number(Batch *b) {
    for (Op *op = b->f->body.first; op; op = op->next) {
        if (op->code == OP_T_program && b->program) return false;
        if (op->code == OP_T_program) b->program = op;
        if (op->code == OP_T_fun && op->sub == TF_min && op->attr && b->program && op->in[0] == b->program->out[0]) b->number = op;
    }
    return b->number && region_uses(&b->f->body, b->program->out[0]) == 1;
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
        if (dep && (op->code == OP_T_axis || op->code == OP_T_extent || (op->code == OP_T_store && !stores_apart(b, op)))) return false;
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
    if (d && d->code == OP_T_binary && d->sub == OP_add && d->in[1]->def && d->in[1]->def->code == OP_T_const && d->in[1]->def->imm == -1) return d->in[0];
    return b_binary(in, OP_add, last, b_const(in, EL_index, 1));
}

static void rewrite(Batch *b, int64_t many) {
    Fn *f = b->f;
    Op *number = b->number;
    Builder in = {f, NULL, number, number->span};
    Val *first = b_binary(&in, OP_mul, b->program->out[0], b_const(&in, EL_index, many)), *end = end_of(&in, number->in[1]);
    Val *rows = b_op(&in, OP_T_axis, 0, (Type){.kind = TY_AXIS, .shape = {many}}, 2, (Val *[]){first, end});
    rows->def->imm = many;
    Type one = type_tile(EL_index, 1, &rows);
    Val *index = b_op(&in, OP_T_index, 0, one, 1, &rows);
    index->name = rows->name = number->out[0]->name;
    for (Op *op = number->next; op; op = op->next)
        for (int i = 0; i < op->nout; i++)
            if (b->dep[op->out[i]->id]) op->out[i]->type = type_union(op->out[i]->type, one);
    replace_uses(&f->body, number->out[0], index);
    op_remove(number);
    f->launch->programs = launch_join_const(f->arena, L_CDIV, f->launch->programs, many);
    f->batched = (int)many;
}

bool batch(Fn *f, const CompileOptions *opt) {
    Batch b = {.f = f, .dep = NEW_N(f->arena, bool, f->nvals), .lanes = 1};
    if (opt->schedule.warps > 1 || !applies(&b)) return false;
    int64_t many = 1;
    while (many < MOST && 2 * many * b.lanes <= LANES) many *= 2;
    rewrite(&b, many);
    return true;
}
