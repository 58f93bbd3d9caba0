// `--verify=values`: translation validation of the tile passes, for the arguments of one launch.
//
// The tile IR is evaluated as it was built, and as the passes leave it. Both must write the same:
//
//     small integers in place   bit for bit, where every operation of the kernel is exact on them: sums of
//     of the floats             integers are the same in any order, so a pass that counts a lane twice, or not at
//                               all, or that runs an iteration with the wrong carried value, cannot hide
//     arguments of the launch   floats within twice the error bound that `eval` gives for the built IR; of other
//                               kernels, and where arguments hold infinities or NaN, which integers do not
//
// What a pass does wrong is in the result of the last one, unless a later one undoes it. So three stages
// are evaluated,
//
//     build    the reference
//     lanes    the last stage without rings in shared memory, where the last one has some
//     last     what the code generator gets
//
// and only where one of them differs are the passes run again and evaluated one by one: the first after
// which the result differs is named. The test run verifies all its tests on `eval`; with all twenty stages
// they would take three times as long. For the same reason a stage's tile IR is made once for all launches
// of an instance, a launch with the data of an earlier one is not verified again, and what the built IR
// wrote is kept for a next launch that has another schedule.
//
// From the pass `neutral_padding` on, stages are evaluated with EvalOptions.places: reductions count dead lanes, as
// registers do. Where rings hold operands they cannot, hence the stage before. The built IR and all stages
// run on the same evaluator, so this checks passes and not code generation; devices that run PTX check
// that. The variant is the one that a launch with these arguments takes.
#include "runtime/artifact.h"
#include "runtime/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Stage { unsigned char *data[MAX_PARAMS]; } Stage;      // memory of each tensor after it

typedef struct Built {                // a launch of the built IR
    uint64_t launch;                  // sum of the instance and of its arguments; 0: none
    Stage    start, first;            // before it; what it writes
    double  *bound[MAX_PARAMS];       // of `first`; NULL: exact
    bool     bounded;                 // `bound` holds
    bool     off;                     // it traps, or is not exact on integers: nothing can be asked
} Built;

struct VerifyKept { Built of[2]; };   // with the launch's arguments, with small integers

typedef struct Check {
    Runtime *rt;
    Compiled *compiled;
    bool      general;                // the variant
    const LaunchInfo *info;
    const Bound   *bound_launch;      // its arguments' addresses are of the host's memory
    const BindArg *args;
    size_t   bytes[MAX_PARAMS];
    bool     integers;                // the data are small integers, and every operation is exact on them
    Built   *built;
    Stage    now;                     // what this stage writes
    char    *text;                    // of the stage before, where all are evaluated
    Buf     *err;                     // what differs
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

static void stage_free(Stage *s) {
    for (int p = 0; p < MAX_PARAMS; p++) heap_free(s->data[p]);
}

static void built_free(Built *b) {
    stage_free(&b->start);
    stage_free(&b->first);
    for (int p = 0; p < MAX_PARAMS; p++) heap_free(b->bound[p]);
    *b = (Built){0};
}

void verify_kept_free(VerifyKept *k) {
    for (int i = 0; k && i < 2; i++) built_free(&k->of[i]);
    heap_free(k);
}

static void prepare_start(Check *c) {
    Stage *start = &c->built->start;
    for (int p = 0; p < c->info->nparams; p++) {
        const LaunchParam *want = &c->info->params[p];
        const BindArg *a = &c->args[p];
        if (is_number(want)) continue;
        if (is_only_written(want)) junk_fill(start->data[p], c->bytes[p], FILL_RANDOM, (uint64_t)p);
        else if (c->bytes[p]) memcpy(start->data[p], (const void *)(uintptr_t)a->address, c->bytes[p]);
        if (c->integers && elem_is_float(a->elem) && !is_only_written(want))
            make_integers(a, a->elem, start->data[p], (uint64_t)p << 40);
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

static bool evaluate(Check *c, Fn *f, bool places, bool bounds, Stage *out, char **fault) {
    Built *b = c->built;
    EvalArg args[MAX_PARAMS] = {0};
    EvalOptions opt = {.places = places, .reordered = true, .bounded = true};
    for (int p = 0; p < c->info->nparams; p++) {
        const BindArg *a = &c->args[p];
        args[p] = (EvalArg){.tensor.data = out->data[p], .tensor.bytes = c->bytes[p], .ival = a->ival};
        args[p].fval = a->fval;
        memcpy(args[p].tensor.dims, a->dim, sizeof a->dim);
        memcpy(args[p].tensor.strides, a->stride, sizeof a->stride);
        if (bounds) opt.bound[p] = b->bound[p];
    }
    stage_copy(c, out, &b->start);
    return ir_eval(f, args, c->bound_launch->dims, &opt, fault, NULL);
}

// The built IR, with bounds or without.
static bool evaluate_built(Check *c, bool bounds) {
    Built *b = c->built;
    Fn    *f = compiled_after(c->rt, c->compiled, c->general, AFTER_build);
    char  *fault = NULL;
    for (int p = 0; bounds && p < c->info->nparams; p++) {
        size_t n = (size_t)elements(&c->args[p]);
        if (param_written(&c->info->params[p])) b->bound[p] = heap_alloc(sizeof(double) * (n + 1));
    }
    bool fine = f && evaluate(c, f, false, bounds, &b->first, &fault);
    b->bounded |= bounds;
    heap_free(fault);
    return fine;
}

static double bound_at(Check *c, int p, int64_t i) {
    if (c->integers) return 0;
    if (!c->built->bounded) evaluate_built(c, true);
    return c->built->bound[p] ? c->built->bound[p][i] : 0;
}

static bool same(double x, double y) { return x == y || (x != x && y != y); }

static bool within(double x, double y, double bound) { return !isfinite(bound) || fabs(x - y) <= 2 * bound; }

static void say(Check *c, const char *pass, int p, int64_t i, double is, double was) {
    const BindArg *a = &c->args[p];
    int64_t stride = elements(a);
    buf_printf(c->err, "the pass `%s` changes what `%s` computes: %s[", pass, c->info->kernel->s, c->info->params[p].name->s);
    for (int d = 0; d < a->rank; d++) {
        stride /= a->dim[d];
        buf_printf(c->err, "%s%lld", d ? ", " : "", (long long)(i / stride % a->dim[d]));
    }
    buf_printf(c->err, "] is %.9g after it, and %.9g as written (allowed error %.3g)%s", is, was,
               2 * bound_at(c, p, i), c->integers ? "; on small integers, whose sums are exact" : "");
}

// Integers that have grown past what f32 holds one by one, as in products of products: nothing is exact there.
static bool outgrown(const Check *c) {
    for (int p = 0; p < c->info->nparams; p++) {
        const LaunchParam *want = &c->info->params[p];
        const BindArg *a = &c->args[p];
        if (is_number(want) || !param_written(want) || !elem_is_float(a->elem)) continue;
        for (int64_t i = 0, n = elements(a); i < n; i++)
            if (fabs(elem_get(a->elem, c->built->first.data[p], lies_at(a, i))) > 0x1p22) return true;
    }
    return false;
}

static bool same_param(Check *c, const char *pass, int p) {
    Elem e = c->args[p].elem;
    if (!elem_is_float(e) && !c->integers) return true;         // floats that rounding moves may decide it
    if (memcmp(c->now.data[p], c->built->first.data[p], c->bytes[p]) == 0) return true;
    for (int64_t i = 0, n = elements(&c->args[p]); i < n; i++) {
        int64_t at = lies_at(&c->args[p], i);
        double is = elem_get(e, c->now.data[p], at), was = elem_get(e, c->built->first.data[p], at);
        if (same(is, was) || within(is, was, elem_is_float(e) ? bound_at(c, p, i) : 0)) continue;
        say(c, pass, p, i, is, was);
        return false;
    }
    return true;
}

// Does it write what the built IR writes?
static bool stage_same(Check *c, Fn *f, const char *pass, bool places) {
    char *fault = NULL;
    bool fine = evaluate(c, f, places, false, &c->now, &fault);
    const char *why = fault ? fault : "it traps";
    if (!fine) buf_printf(c->err, "after the pass `%s`, `%s` stops: %s", pass, c->info->kernel->s, why);
    for (int p = 0; p < c->info->nparams && fine; p++) {
        const LaunchParam *want = &c->info->params[p];
        if (!is_number(want) && param_written(want)) fine = same_param(c, pass, p);
    }
    heap_free(fault);
    return fine;
}

// ---- which pass it was ------------------------------------------------------------------------------------

typedef struct Search { Check *check; bool places, found; } Search;

static void passed(void *ctx, Fn *f, const char *pass) {
    Search *s = ctx;
    Check  *c = s->check;
    Buf     text = {0};
    if (s->found) return;
    ir_print(f, &text);
    bool first = !c->text, alike = !first && strcmp(c->text, text.p) == 0;
    bool filled = strcmp(pass, "neutral_padding") == 0;
    heap_free(c->text);
    c->text = text.p;
    s->places |= filled;
    s->found = !first && (!alike || filled) && !stage_same(c, f, pass, s->places);
}

// A stage differs, as `how` says, which is kept where no pass alone does.
static void name_pass(Check *c, Buf *how) {
    Search s = {.check = c};
    size_t before = c->err->n;
    compiled_passes(c->rt, c->compiled, c->general, passed, &s);
    if (c->err->n == before) buf_add(c->err, how->p, how->n);
}

// ---- a launch ---------------------------------------------------------------------------------------------

// Sums of floats come out in another order: bounds will be asked for.
static bool sums_floats(const Fn *f) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) {
        bool sums = op->code == OP_T_dot || op->code == OP_T_reduce || op->code == OP_T_scan;
        sums |= op->code == OP_T_atomic;
        if (sums && op->nout && elem_is_float((Elem)op->out[0]->type.elem)) return true;
    }
    return false;
}

static void begin(Check *c, uint64_t launch) {
    Built *b = c->built;
    Fn    *f = compiled_after(c->rt, c->compiled, c->general, AFTER_build);
    built_free(b);
    b->launch = launch;
    b->off = !f || (c->integers && !is_exact(f));
    if (b->off) return;
    stage_new(c, &b->start);
    stage_new(c, &b->first);
    prepare_start(c);
    b->off = !evaluate_built(c, !c->integers && sums_floats(f)) || (c->integers && outgrown(c));
}

static bool has_rings(const Fn *f) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (op->code == OP_T_buffer) return true;
    return false;
}

static bool stages_same(Check *c) {
    Buf how = {0}, *err = c->err;
    bool fine = true;
    c->err = &how;
    Fn *last = compiled_after(c->rt, c->compiled, c->general, AFTER_last);
    Fn *lanes = !last || has_rings(last) ? compiled_after(c->rt, c->compiled, c->general, AFTER_lanes) : NULL;
    fine = (!lanes || stage_same(c, lanes, "neutral_padding", true)) && (!last || stage_same(c, last, "lazy_reduce", true));
    c->err = err;
    if (!fine) name_pass(c, &how);
    buf_free(&how);
    return fine;
}

// False: a pass changes a result. *asked: there was something to ask.
static bool check(Check c, uint64_t launch, bool *asked) {
    c.built = &(*runtime_kept(c.rt))->of[c.integers];
    for (int p = 0; p < c.info->nparams; p++)
        if (!is_number(&c.info->params[p])) c.bytes[p] = bind_extent(&c.args[p]);
    if (c.built->launch != launch) begin(&c, launch);
    *asked = !c.built->off;
    if (c.built->off) return true;
    stage_new(&c, &c.now);
    bool fine = stages_same(&c);
    stage_free(&c.now);
    heap_free(c.text);
    return fine;
}

// A variant that assumes facts is checked where they hold; which they are, its passes say.
static bool assumes_too_much(Runtime *rt, Compiled *compiled, const Bound *bound) {
    Fn *f = compiled_after(rt, compiled, false, AFTER_last);
    if (!f) return true;
    Bound *b = heap_alloc(sizeof *b);
    *b = *bound;
    b->info = f->launch;
    bool too_much = bind_variant(b, NULL) != f->launch;
    heap_free(b);
    return too_much;
}

static uint64_t sum_bytes(uint64_t sum, const void *bytes, size_t n) {
    const unsigned char *at = bytes;
    uint64_t word;
    for (; n >= sizeof word; n -= sizeof word, at += sizeof word) {
        memcpy(&word, at, sizeof word);
        sum = mixed(sum ^ word);
    }
    for (; n; n--) sum = mixed(sum ^ *at++);
    return sum;
}

// What its result follows from.
static uint64_t launch_sum(const Compiled *compiled, const Bound *bound, const BindArg *args) {
    const LaunchInfo *info = compiled_launch(compiled);
    uint64_t sum = sum_bytes(compiled_meaning(compiled), bound->dims, sizeof bound->dims);
    for (int p = 0; p < info->nparams; p++) {
        const BindArg *a = &args[p];
        sum = sum_bytes(sum, a->dim, sizeof a->dim);
        sum = sum_bytes(sum, a->stride, sizeof a->stride);
        sum = sum_bytes(sum_bytes(sum, &a->ival, sizeof a->ival), &a->fval, sizeof a->fval);
        if (!is_number(&info->params[p]) && !is_only_written(&info->params[p]))
            sum = sum_bytes(sum, (const void *)(uintptr_t)a->address, bind_extent(a));
    }
    return sum;
}

static bool all_finite(const LaunchInfo *info, const BindArg *args) {
    for (int p = 0; p < info->nparams; p++) {
        const LaunchParam *want = &info->params[p];
        const BindArg *a = &args[p];
        const void    *data = (const void *)(uintptr_t)a->address;
        if (is_number(want) && !isfinite(a->fval)) return false;
        if (is_number(want) || is_only_written(want) || !elem_is_float(a->elem)) continue;
        for (int64_t i = 0, n = elements(a); i < n; i++)
            if (!isfinite(elem_get(a->elem, data, lies_at(a, i)))) return false;
    }
    return true;
}

bool verify_values(Runtime *rt, Compiled *compiled, const Bound *bound, const BindArg *args, Buf *err) {
    Check c = {.rt = rt, .compiled = compiled, .bound_launch = bound, .args = args, .err = err};
    c.info = compiled_launch(compiled);
    uint64_t sum = launch_sum(compiled, bound, args);
    if (compiled_verified(compiled, sum)) return true;
    VerifyKept **kept = runtime_kept(rt);
    if (!*kept) *kept = heap_alloc(sizeof **kept);
    c.general = assumes_too_much(rt, compiled, bound);
    c.integers = true;
    bool asked = false, fine = check(c, sum, &asked);
    c.integers = false;
    if (fine && (!asked || !all_finite(c.info, args))) fine = check(c, sum, &asked);
    if (fine) compiled_verifies(rt, compiled, sum);
    return fine;
}
