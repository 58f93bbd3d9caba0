// Atomics of many elements on a small tensor: each block keeps a tally of its own.
//
//     n = axis 1024 * program, N {1024}              tally h                                   copies of h in shared memory, of zeros
//     i = load x[n]                                  for p in program .. programs by walkers {
//     atomic_add(h[i], 1)                    ->          n = axis 1024 * p, N {1024}
//                                                        i = load x[n]
//                                                        atomic_add(h[i], 1)  {tallied}        on a copy
//                                                    }
//                                                    tally_end h                               copies joined, and added to memory
//
// Memory does atomics where its cache has the place: 256 places are a few slices' of it, which take them one after another
// (50 M values on an H200: 6.2 ms, where reading them takes 0.05). A block's copies are its own, and each of a warp's lanes
// has another one as long as there is room, side by side, so that lanes meet in no bank of shared memory whatever the
// values are. What a block saves is what its programs share: so there are as few blocks as fill the GPU, which go from
// program to program and add to memory once, at their end.
//
// Of a tensor whose atomics are all of one kind that has no order, whose old values nobody asks for, and that nothing
// else in the kernel touches: then nobody can tell when they happen. Its size is a number, or what the launch knows and
// the variant assumes. On `eval`, where each atomic is done at once, a tally means nothing.
//
// Where dimensions are known the model decides (lower/cost/privatize_cost.c), else extents that are numbers do; `privatize` in the
// schedule: 2 wherever it can be, 1 nowhere.
#include "lower/build.h"
#include "lower/facts/facts.h"
#include "lower/pass/passes.h"
#include "lower/pass/privatize.h"
#include "ptx/ptx.h"

enum { MOST_BYTES = 48 << 10, MOST_AREA = 64 << 10, MARGIN = 2 << 10 };        // of places; of a block's copies; of other shared memory
enum { FEW_LANES = 128 };               // of a program's tile, that leave its atomics where they are
enum { THREADS = 1024 };                // of a multiprocessor, at work: 64 registers each

typedef struct Tally {
    Fn    *f;
    Facts *facts;
    const CompileOptions *opt;
    const char *refused;
} Tally;

int64_t tally_most_bytes(const Target *t) {
    int64_t part = (int64_t)t->smem_sm / 4 - MARGIN;
    return part < MOST_BYTES ? part : MOST_BYTES;
}

static bool on_tensor(const Op *op) { return op->code == OP_T_atomic && op->in[0]->type.kind == TY_TENSOR; }

LExpr tally_places(const Fn *f, int param) {
    const LaunchParam *p = &f->launch->params[param];
    LExpr n = launch_const(f->arena, 1);
    for (int d = 0; d < p->rank; d++) n = d ? launch_join(f->arena, L_MUL, n, p->dim[d]) : p->dim[d];
    return n;
}

int tally_resident(const Fn *f) {
    int n = THREADS / f->launch->threads;
    return n < 1 ? 1 : n;
}

int64_t tally_area(const Fn *f) {
    int64_t part = (int64_t)f->target->smem_sm / tally_resident(f) - MARGIN;
    return part < MOST_AREA ? part : MOST_AREA;
}

// ---- which tensors -------------------------------------------------------------------------------

static bool of_param(const Val *v, int param) { return v->type.kind == TY_TENSOR && v->def && v->def->imm == param; }

// One kind of atomics alone; what else there is.
static const char *touched(const Fn *f, int param) {
    int kind = -1;
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        for (int i = 0; i < op->nin; i++) {
            if (!of_param(op->in[i], param) || op->code == OP_T_extent) continue;
            if (op->code != OP_T_atomic) return "the kernel reads or stores to the tensor, too";
            if (val_used(&f->body, op->out[0])) return "the old values are asked for";
            if (op->sub == TA_xchg || op->sub == TA_cas) return "exchanges have an order";
            if (kind >= 0 && op->sub != kind) return "atomics of several kinds on one tensor";
            kind = op->sub;
        }
    return NULL;
}

bool tally_many(const Fn *f, int param) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (on_tensor(op) && of_param(op->in[0], param) && type_lanes(&op->out[0]->type) >= FEW_LANES) return true;
    return false;
}

static const char *tensor_refusal(Tally *t, int param, bool asked, int64_t *bytes, LExpr *dynamic) {
    const Fn *f = t->f;
    const LaunchParam *p = &f->launch->params[param];
    const char *why = touched(f, param);
    if (why) return why;
    if (elem_bytes(p->elem) < 4) return "elements of less than 32 bits";
    if (!asked && !tally_many(f, param)) return "a program has few of them";
    LExpr n = tally_places(f, param);
    int64_t places;
    if (fact_constant(t->facts, n, &places)) { *bytes += places * elem_bytes(p->elem); return NULL; }
    if (!asked) return "the size of the tensor is the launch's";
    LExpr more = launch_join_const(f->arena, L_MUL, n, elem_bytes(p->elem));
    *dynamic = dynamic->n ? launch_join(f->arena, L_ADD, *dynamic, more) : more;
    return NULL;
}

// What shares blocks, rows or shared memory in ways of its own.
static const char *kernel_refusal(const Fn *f) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        switch (op->code) {
        case OP_T_dot: return "the kernel has products";
        case OP_T_keep: case OP_T_join_cluster: case OP_T_part_put: case OP_T_part_send: return "programs share rows or tiles";
        case OP_T_sort: case OP_T_order: case OP_T_take: return "sorts and takes want the shared memory";
        case OP_T_print: return "program 0 prints";
        case OP_T_program: if (op->parent != &f->body) return "the program's number is asked for in a loop"; break;
        default: break;
        }
    return f->walks || f->cluster ? "programs share rows or tiles" : NULL;
}

static bool fits(Tally *t, int64_t bytes, LExpr dynamic) {
    int64_t most = tally_most_bytes(t->opt->target);
    if (!dynamic.n) return bytes <= most;
    LExpr all = launch_join_const(t->f->arena, L_ADD, dynamic, bytes);
    return bytes < most && fact_assume(t->facts, launch_join_const(t->f->arena, L_LE, all, most));
}

uint64_t tally_params(Fn *f, const CompileOptions *opt, const char **refused) {
    Tally t = {.f = f, .facts = facts_new(f), .opt = opt};
    bool asked = opt->schedule.privatize == 2, any = false;
    uint64_t found = 0;
    int64_t bytes = 0;
    LExpr dynamic = {0};
    *refused = NULL;
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) any |= on_tensor(op);
    if (!any || opt->schedule.privatize == 1) return 0;
    *refused = kernel_refusal(f);
    for (const Op *op = *refused ? NULL : op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) {
        if (!on_tensor(op)) continue;
        int param = (int)op->in[0]->def->imm;
        if (found >> param & 1) continue;
        const char *why = tensor_refusal(&t, param, asked, &bytes, &dynamic);
        if (why) *refused = why;
        else found |= UINT64_C(1) << param;
    }
    if (!found) return 0;
    *refused = NULL;
    if (fits(&t, bytes, dynamic)) return found;
    *refused = dynamic.n && opt->general ? "the variant that assumes nothing knows no sizes" : "the tensor is larger than a part of shared memory";
    return 0;
}

// ---- the walk ------------------------------------------------------------------------------------

static bool in_loops(const Fn *f, uint64_t params) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        for (const Region *r = on_tensor(op) && params >> op->in[0]->def->imm & 1 ? op->parent : NULL; r && r->owner; r = r->owner->parent)
            if (r->owner->code != OP_T_if) return true;
    return false;
}

static bool depends(const Val *v, const Val *program) { return v == program || (v->def && v->def->mark); }

// Everything that is another program's with another number, or is seen from outside.
static bool moves(const Op *op, const Val *program) {
    if (!op_has(op, 'P')) return true;
    for (int i = 0; i < op->nin; i++) if (depends(op->in[i], program)) return true;
    for (int i = 0; i < op->nout; i++)
        for (int k = 0; op->out[i]->type.kind == TY_TILE && k < op->out[i]->type.rank; k++)
            if (depends(op->out[i]->type.axis[k], program)) return true;
    return false;
}

// min(program, last), where there is always such a program.
static void exists(Region *body, Val *number) {
    for (Op *op = body->first, *next; op; op = next) {
        next = op->next;
        if (op->code != OP_T_fun || op->sub != TF_min || !op->attr || op->in[0] != number) continue;
        replace_uses(body, op->out[0], number);
        op_remove(op);
    }
}

static void walk(Fn *f) {
    Op *program = program_of(f);
    Val *number = program->out[0];
    for (Op *op = f->body.first; op; op = op->next) op->mark = 0;
    for (Op *op = f->body.first; op; op = op->next) op->mark = op != program && moves(op, number);
    Span span = program->span;
    Builder b = {f, &f->body, NULL, span};
    Val *programs = b_op(&b, OP_T_programs, 0, type_scalar(EL_index), 0, NULL), *walkers = b_op(&b, OP_T_walkers, 0, type_scalar(EL_index), 0, NULL);
    Op *loop = op_new(f, OP_T_for, span, 3, (Val *[]){number, programs, walkers}, 0);
    Region *body = loop->reg[0];
    Val *counter = region_arg(f, body, type_scalar(EL_index));
    for (Op *op = f->body.first, *next; op; op = next) {
        next = op->next;
        if (!op->mark || op == programs->def || op == walkers->def) continue;
        op_remove(op);
        op_append(body, op);
    }
    op_append(body, op_new(f, OP_T_yield, span, 0, NULL, 0));
    replace_uses(body, number, counter);
    exists(body, counter);
    b_insert(&b, loop);
}

static int kind_of(const Fn *f, int param) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (op->code == OP_T_atomic && of_param(op->in[0], param)) return op->sub;
    return TA_add;
}

static Val *tensor_of(const Fn *f, int param) {
    for (Op *op = f->body.first; op; op = op->next) if (op->code == OP_T_tensor && op->imm == param) return op->out[0];
    return NULL;
}

static void mark_ends(Fn *f, uint64_t params) {
    Op *loop = f->body.last;
    for (int i = 0; i < f->launch->nparams; i++) {
        if (!(params >> i & 1)) continue;
        Val *tensor = tensor_of(f, i);
        Op *ends[2];
        for (int k = 0; k < 2; k++) {
            ends[k] = op_new(f, k ? OP_T_tally_end : OP_T_tally, loop->span, 1, &tensor, 0);
            ends[k]->sub = (uint8_t)kind_of(f, i);
        }
        op_before(loop, ends[0]);
        op_append(&f->body, ends[1]);
    }
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (on_tensor(op) && params >> op->in[0]->def->imm & 1) op->flags |= TALLIED;
}

bool tally(Fn *f, const CompileOptions *opt) {
    uint64_t params = tally_params(f, opt, &f->tally_refused);
    if (!params) return false;
    f->tally_long = in_loops(f, params);
    walk(f);
    mark_ends(f, params);
    f->tallies = true;
    return true;
}
