// `--verify=values`: translation validation of the tile passes, for the arguments of one launch.
//
// The tile IR is evaluated as it was built, and again after each pass that changed it. Every stage must write what the
// first one wrote:
//
//     arguments of the launch    floats within twice the error bound that `eval` gives for the first stage
//     small integers in place    bit for bit, where every operation of the kernel is exact on them: sums of integers
//     of the floats              are the same in any order, so a pass that counts a lane twice, or not at all, or
//                                that runs an iteration with the wrong carried value, cannot hide behind rounding
//
// From the pass `lanes` on, stages are evaluated with EvalOptions.places: reductions count dead lanes, as registers do.
// Both the built IR and all stages run on the same evaluator, so this checks passes and not code generation; devices
// that run PTX check that. The variant is the one that a launch with these arguments takes.
#include "runtime/artifact.h"
#include "runtime/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Stage { unsigned char *data[MAX_PARAMS]; } Stage;      // memory of each tensor after it

typedef struct Check {
    Runtime *rt;
    const LaunchInfo *info;
    const Bound   *bound_launch;      // its arguments' addresses are of the host's memory
    const BindArg *args;
    size_t   bytes[MAX_PARAMS];
    Stage    start, first, now;       // before the launch; what the built IR writes; what this stage writes
    double  *bound[MAX_PARAMS];       // of `first`; NULL: results must be equal to the bit
    bool     integers;                // the data are small integers, and every operation is exact on them
    bool     places, off;             // off: the built IR traps, or a mismatch was found
    char    *text;                    // of the stage before
    Buf     *err;
} Check;

// ---- data ------------------------------------------------------------------------------------------------

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static bool is_number(const LaunchParam *p) { return p->kind == PK_SCALAR; }

static bool is_only_written(const LaunchParam *p) { return p->kind == PK_TENSOR && p->mode == PM_OUT; }

static int64_t elements(const BindArg *a) {
    int64_t n = 1;
    for (int d = 0; d < a->rank; d++) n *= a->dim[d];
    return n;
}

// Where element i, in row-major order, lies in memory.
static int64_t lies_at(const BindArg *a, int64_t i) {
    int64_t at = 0;
    for (int d = a->rank - 1; d >= 0; d--) {
        at += i % a->dim[d] * a->stride[d];
        i /= a->dim[d];
    }
    return at;
}

// -2 .. 2 in place of the floats that the kernel reads.
static void make_integers(const BindArg *a, Elem e, unsigned char *data, uint64_t seed) {
    for (int64_t i = 0, n = elements(a); i < n; i++)
        elem_set(e, data, lies_at(a, i), (double)(int64_t)(mixed(seed + (uint64_t)i) % 5) - 2);
}

static void stage_new(const Check *c, Stage *s) {
    for (int p = 0; p < c->info->nparams; p++) if (!is_number(&c->info->params[p])) s->data[p] = heap_alloc(c->bytes[p] + 16);
}

static void stage_copy(const Check *c, Stage *to, const Stage *from) {
    for (int p = 0; p < c->info->nparams; p++) if (to->data[p]) memcpy(to->data[p], from->data[p], c->bytes[p]);
}

static void stage_free(const Check *c, Stage *s) {
    for (int p = 0; p < c->info->nparams; p++) heap_free(s->data[p]);
}

static void prepare_start(Check *c) {
    for (int p = 0; p < c->info->nparams; p++) {
        const LaunchParam *want = &c->info->params[p];
        const BindArg *a = &c->args[p];
        if (is_number(want)) continue;
        if (is_only_written(want)) junk_fill(c->start.data[p], c->bytes[p], FILL_RANDOM, (uint64_t)p);
        else if (c->bytes[p]) memcpy(c->start.data[p], (const void *)(uintptr_t)a->address, c->bytes[p]);
        if (c->integers && elem_is_float(a->elem) && !is_only_written(want)) make_integers(a, a->elem, c->start.data[p], (uint64_t)p << 40);
    }
}

// ---- which kernels are exact on small integers -------------------------------------------------------------

static bool exact_fun(TFun f) {
    switch (f) {
    case TF_min: case TF_max: case TF_abs: case TF_floor: case TF_ceil: case TF_round: case TF_trunc: case TF_fma: case TF_isnan: return true;
    default: return false;
    }
}

// A factor of few bits leaves products of small integers exact.
static bool few_bits(const Op *constant) {
    union { int64_t i; double f; } c = {constant->imm};
    return isinf(c.f) || (fabs(c.f) <= 1024 && c.f * 16 == rint(c.f * 16));
}

static bool exact_op(const Op *op) {
    if (op->nout == 0 || op->out[0]->type.ptr) return true;
    Elem e = (Elem)op->out[0]->type.elem;
    if (!elem_is_float(e)) return true;
    bool wide = e == EL_f32 || e == EL_f64;
    switch (op->code) {
    case OP_T_binary: return wide && op->sub != OP_div && op->sub != OP_rem;
    case OP_T_fun:    return exact_fun((TFun)op->sub) && (wide || op->sub != TF_fma);
    case OP_T_reduce: case OP_T_scan: return wide ? op->sub != TR_prod : op->sub != TR_sum && op->sub != TR_prod;
    case OP_T_atomic: return wide;
    case OP_T_const:  return few_bits(op);
    case OP_T_unary: case OP_T_splat: case OP_T_rename: case OP_T_select: case OP_T_load: case OP_T_cast: case OP_T_dot:
    case OP_T_for: case OP_T_if: case OP_T_while: case OP_T_merge: case OP_T_tensor: return true;
    default: return false;
    }
}

static bool is_exact(const Fn *f) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) if (!exact_op(op)) return false;
    return true;
}

// ---- a stage -------------------------------------------------------------------------------------------------

static bool evaluate(Check *c, Fn *f, bool bounds, char **fault) {
    EvalArg args[MAX_PARAMS] = {0};
    EvalOptions opt = {.places = c->places, .reordered = true, .bounded = true};
    for (int p = 0; p < c->info->nparams; p++) {
        const BindArg *a = &c->args[p];
        args[p] = (EvalArg){.tensor.data = c->now.data[p], .tensor.bytes = c->bytes[p], .ival = a->ival, .fval = a->fval};
        memcpy(args[p].tensor.dims, a->dim, sizeof a->dim);
        memcpy(args[p].tensor.strides, a->stride, sizeof a->stride);
        if (bounds) opt.bound[p] = c->bound[p];
    }
    stage_copy(c, &c->now, &c->start);
    return ir_eval(f, args, c->bound_launch->dims, &opt, fault, NULL);
}

static bool differs(double x, double y, double bound) {
    if (x == y || (x != x && y != y) || !isfinite(bound)) return false;
    return !(fabs(x - y) <= 2 * bound);
}

static void say(Check *c, const char *pass, int p, int64_t i, double is, double was, double bound) {
    const BindArg *a = &c->args[p];
    int64_t stride = elements(a);
    buf_printf(c->err, "the pass `%s` changes what `%s` computes: %s[", pass, c->info->kernel->s, c->info->params[p].name->s);
    for (int d = 0; d < a->rank; d++) {
        stride /= a->dim[d];
        buf_printf(c->err, "%s%lld", d ? ", " : "", (long long)(i / stride % a->dim[d]));
    }
    buf_printf(c->err, "] is %.9g after it, and %.9g as written (allowed error %.3g)%s", is, was, 2 * bound,
               c->integers ? "; on small integers, whose sums are exact" : "");
    c->off = true;
}

// Integers that have grown past what f32 holds one by one, as in products of products: nothing is exact there.
static bool outgrown(const Check *c) {
    for (int p = 0; p < c->info->nparams; p++) {
        if (is_number(&c->info->params[p]) || !param_written(&c->info->params[p]) || !elem_is_float(c->args[p].elem)) continue;
        for (int64_t i = 0, n = elements(&c->args[p]); i < n; i++)
            if (fabs(elem_get(c->args[p].elem, c->first.data[p], lies_at(&c->args[p], i))) > 0x1p22) return true;
    }
    return false;
}

static void compare(Check *c, const char *pass) {
    for (int p = 0; p < c->info->nparams && !c->off; p++) {
        const LaunchParam *want = &c->info->params[p];
        if (is_number(want) || !param_written(want)) continue;
        Elem e = c->args[p].elem;
        bool real = elem_is_float(e);
        if (!real && !c->integers) continue;                 // floats that rounding moves may decide it
        for (int64_t i = 0, n = elements(&c->args[p]); i < n && !c->off; i++) {
            int64_t at = lies_at(&c->args[p], i);
            double bound = c->bound[p] && real ? c->bound[p][i] : 0;
            double is = elem_get(e, c->now.data[p], at), was = elem_get(e, c->first.data[p], at);
            if (differs(is, was, bound)) say(c, pass, p, i, is, was, bound);
        }
    }
}

static void passed(void *ctx, Fn *f, const char *pass) {
    Check *c = ctx;
    char  *fault = NULL;
    Buf    text = {0};
    if (c->off) return;
    ir_print(f, &text);
    bool first = !c->text, same = !first && strcmp(c->text, text.p) == 0, filled = strcmp(pass, "lanes") == 0;
    heap_free(c->text);
    c->text = text.p;
    c->places |= filled;
    if (first) {
        c->off = (c->integers && !is_exact(f)) || !evaluate(c, f, !c->integers, &fault);
        stage_copy(c, &c->first, &c->now);
        c->off |= c->integers && outgrown(c);
    } else if (!same || filled) {
        if (evaluate(c, f, false, &fault)) compare(c, pass);
        else {
            buf_printf(c->err, "after the pass `%s`, `%s` stops: %s", pass, c->info->kernel->s, fault ? fault : "it traps");
            c->off = true;
        }
    }
    heap_free(fault);
}

static bool check(Check c, const Compiled *compiled, bool general) {
    size_t before = c.err->n;
    for (int p = 0; p < c.info->nparams; p++) {
        if (is_number(&c.info->params[p])) continue;
        c.bytes[p] = bind_extent(&c.args[p]);
        if (!c.integers && param_written(&c.info->params[p])) c.bound[p] = heap_alloc(sizeof(double) * ((size_t)elements(&c.args[p]) + 1));
    }
    stage_new(&c, &c.start);
    stage_new(&c, &c.first);
    stage_new(&c, &c.now);
    prepare_start(&c);
    compiled_passes(c.rt, compiled, general, passed, &c);
    stage_free(&c, &c.start);
    stage_free(&c, &c.first);
    stage_free(&c, &c.now);
    for (int p = 0; p < c.info->nparams; p++) heap_free(c.bound[p]);
    heap_free(c.text);
    return c.err->n == before;
}

// A variant that assumes facts is checked where they hold; which they are, its passes say.
static bool assumes_too_much(Runtime *rt, const Compiled *compiled, const Bound *bound) {
    Fn *f = compiled_passes(rt, compiled, false, NULL, NULL);
    if (!f) return true;
    Bound *b = heap_alloc(sizeof *b);
    *b = *bound;
    b->info = f->launch;
    bool too_much = bind_variant(b, NULL) != f->launch;
    heap_free(b);
    return too_much;
}

bool verify_values(Runtime *rt, const Compiled *compiled, const Bound *bound, const BindArg *args, Buf *err) {
    bool  general = assumes_too_much(rt, compiled, bound);
    Check c = {.rt = rt, .info = compiled_launch(compiled), .bound_launch = bound, .args = args, .err = err};
    if (!check(c, compiled, general)) return false;
    c.integers = true;
    return check(c, compiled, general);
}
