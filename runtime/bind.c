// Binding: what a launch means in numbers, and whether it may be made.
//
//     kernel softmax(x: f32[M, N], y: out f32[M, N])     x is f32[37, 1000], y is absent
//
//     M = 37    from `x`, dimension 0              y must be f32[37, 1000]: made so
//     N = 1000  from `x`, dimension 1              guard N <= BLOCK = 1024 holds
//
// A dimension is solved by the first given argument whose dimension is the bare symbol, else by a `where`
// clause that says what it is; every other occurrence is an equation. Each refusal is one line that names the
// parameter, the dimension, what was expected with where that came from, and what was found.

#include "runtime/internal.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { FIXED = -1, UNKNOWN = -2, EQUATION = -3 };

int64_t bind_eval(const Bound *b, LExpr e) {
    return launch_eval(e, b->dims, b->scalars, b->strides);
}

void bind_contiguous(BindArg *a) {
    int64_t step = 1;
    for (int d = a->rank - 1; d >= 0; d--) { a->stride[d] = step; step *= a->dim[d] > 0 ? a->dim[d] : 1; }
}

static const char *name_of(const LaunchInfo *info, int p) { return info->params[p].name->s; }

static void from_text(const BindArg *a, Buf *err) {
    if (a->origin) buf_printf(err, " (%s)", a->origin);
}

// "`x` (x.npy)"
static void arg_text(const LaunchInfo *info, const BindArg *args, int p, Buf *err) {
    buf_printf(err, "`%s`", name_of(info, p));
    from_text(&args[p], err);
}

// "N = 1000 (`x`, dimension 1)"
static void dim_text(const Bound *b, int k, Buf *err) {
    buf_printf(err, "%s = %lld", b->info->dims[k].name->s, (long long)b->dims[k]);
    if (b->dim_param[k] >= 0) buf_printf(err, " (`%s`, dimension %d)", name_of(b->info, b->dim_param[k]), b->dim_index[k]);
    else if (b->dim_param[k] == FIXED) buf_puts(err, " (fixed when it was compiled)");
    else if (b->dim_param[k] == EQUATION) buf_puts(err, " (by an equation)");
}

// " with M = 37 (...), N = 5 (...)" for the dimensions that an expression reads.
static void expr_dims_text(const Bound *b, LExpr e, Buf *err) {
    bool any = false;
    for (uint32_t i = 0; i < e.n; i++) {
        bool again = false;
        for (uint32_t k = 0; k < i; k++) again |= e.at[i].op == L_DIM && e.at[k].op == L_DIM && e.at[k].arg == e.at[i].arg;
        if (e.at[i].op == L_SCALAR)
            buf_printf(err, "%s%s = %lld", any ? ", " : " with ", name_of(b->info, (int)e.at[i].arg),
                       (long long)b->scalars[e.at[i].arg]);
        else if (e.at[i].op == L_STRIDE)
            buf_printf(err, "%sstride of `%s`, dimension %d = %lld", any ? ", " : " with ",
                       name_of(b->info, launch_stride_param(e.at[i])), launch_stride_dim(e.at[i]),
                       (long long)b->strides[e.at[i].arg]);
        else if (e.at[i].op == L_DIM && !again) {
            buf_puts(err, any ? ", " : " with ");
            dim_text(b, (int)e.at[i].arg, err);
        } else continue;
        any = true;
    }
}

static bool bare_dim(LExpr e, int *k) {
    if (e.n != 1 || e.at[0].op != L_DIM) return false;
    *k = (int)e.at[0].arg;
    return true;
}

static bool names_dim(LExpr e, int k) {
    for (uint32_t i = 0; i < e.n; i++) if (e.at[i].op == L_DIM && e.at[i].arg == k) return true;
    return false;
}

// ---- kinds ---------------------------------------------------------------------------------------

bool bind_scalar(const LaunchInfo *info, BindArg *args, int p, Bound *b, Buf *err) {
    const LaunchParam *want = &info->params[p];
    BindArg *a = &args[p];
    if (!a->scalar) {
        arg_text(info, args, p, err);
        buf_printf(err, " is a tensor; the kernel takes a number of type %s", elem_name(want->elem));
        return false;
    }
    if (a->elem != EL_none && a->elem != want->elem) {
        arg_text(info, args, p, err);
        buf_printf(err, " is of type %s; the kernel takes %s", elem_name(a->elem), elem_name(want->elem));
        return false;
    }
    bool   large = a->is_u64 || (a->bits && want->elem == EL_u64);
    Number x = a->is_float ? number_double(a->fval) : large ? number_u64((uint64_t)a->ival) : number_int(a->ival);
    Buf    why = {0};
    if (!number_fits(want->elem, a->is_float, &x, &why)) {
        arg_text(info, args, p, err);
        buf_printf(err, "%s", why.p);
        buf_free(&why);
        return false;
    }
    a->fval = x.f;
    if (elem_is_float(want->elem)) memcpy(&b->scalars[p], &a->fval, sizeof a->fval);
    else b->scalars[p] = a->ival;
    return true;
}

static bool check_tensor(const LaunchInfo *info, BindArg *args, int p, Buf *err) {
    const LaunchParam *want = &info->params[p];
    BindArg *a = &args[p];
    if (a->scalar) {
        arg_text(info, args, p, err);
        buf_printf(err, " is a number; the kernel takes a %s of %s",
                   want->kind == PK_POINTER ? "pointer to memory" : "tensor", elem_name(want->elem));
        if (want->kind == PK_TENSOR && want->rank == 0)
            buf_printf(err, " of no dimensions, `full(1):%s[]`", elem_name(want->elem));
        return false;
    }
    if (a->absent) { a->elem = want->elem; if (want->kind == PK_TENSOR) a->rank = want->rank; return true; }
    if (a->elem != want->elem) {
        arg_text(info, args, p, err);
        buf_printf(err, " holds %s; the kernel takes %s", elem_name(a->elem), elem_name(want->elem));
        return false;
    }
    if (want->kind == PK_TENSOR && a->rank != want->rank) {
        arg_text(info, args, p, err);
        buf_printf(err, " has %d dimension%s; the kernel takes %d", a->rank, a->rank == 1 ? "" : "s", want->rank);
        return false;
    }
    return true;
}

// ---- dimensions ----------------------------------------------------------------------------------

static void solve(Bound *b, int k, int64_t value, int p, int d) {
    if (b->dim_param[k] != UNKNOWN) return;
    b->dims[k] = value;
    b->dim_param[k] = (int16_t)p;
    b->dim_index[k] = (int16_t)d;
}

// Where no tensor has a dimension alone, those that have it in an expression and the equations among the guards give it.
static void solve_equations(const LaunchInfo *info, const BindArg *args, Bound *b) {
    bool known[MAX_GRAPH_DIMS];
    for (int k = 0; k < info->ndims; k++) known[k] = b->dim_param[k] != UNKNOWN;
    for (int p = 0; args && p < info->nparams; p++)
        for (int d = 0; d < info->params[p].rank; d++)
            if (info->params[p].kind == PK_TENSOR && !args[p].absent)
                launch_solve(info->params[p].dim[d], args[p].dim[d], b->dims, known, b->scalars);
    launch_solve_guards(info, b->dims, known, args ? b->scalars : NULL);
    for (int k = 0; k < info->ndims; k++) if (known[k]) solve(b, k, b->dims[k], EQUATION, 0);
}

// What the caller says of dimensions that nothing else gives.
static void solve_said(const LaunchInfo *info, const int64_t *said, const BindArg *args, Bound *b) {
    bool any = false;
    for (int k = 0; said && k < info->ndims; k++) {
        if (b->dim_param[k] != UNKNOWN || said[k] < 0) continue;
        solve(b, k, said[k], FIXED, 0);
        any = true;
    }
    if (any) solve_equations(info, args, b);
}

// `i32[B + 1]` of a tensor without elements.
static bool none_negative(const LaunchInfo *info, const BindArg *args, const Bound *b, Buf *err) {
    for (int k = 0; k < info->ndims; k++) {
        if (b->dims[k] >= 0) continue;
        for (int p = 0; p < info->nparams; p++)
            for (int d = 0; d < info->params[p].rank; d++) {
                if (info->params[p].kind != PK_TENSOR || args[p].absent || !names_dim(info->params[p].dim[d], k)) continue;
                arg_text(info, args, p, err);
                buf_printf(err, " has %lld element%s along dimension %d: %s would be %lld", (long long)args[p].dim[d],
                           args[p].dim[d] == 1 ? "" : "s", d, info->dims[k].name->s, (long long)b->dims[k]);
                return false;
            }
        buf_printf(err, "dimension %s would be %lld", info->dims[k].name->s, (long long)b->dims[k]);
        return false;
    }
    return true;
}

static bool as_said(const int64_t *said, const Bound *b, Buf *err) {
    for (int k = 0; said && k < b->info->ndims; k++) {
        if (said[k] < 0 || said[k] == b->dims[k]) continue;
        dim_text(b, k, err);
        buf_printf(err, ", and %lld was said", (long long)said[k]);
        return false;
    }
    return true;
}

static bool solve_dims(const LaunchInfo *info, const BindArg *args, const int64_t *said, Bound *b, Buf *err) {
    for (int k = 0; k < info->ndims; k++) {
        b->dim_param[k] = UNKNOWN;
        if (info->dims[k].fixed >= 0) solve(b, k, info->dims[k].fixed, FIXED, 0);
    }
    for (int p = 0; p < info->nparams; p++) {
        const LaunchParam *want = &info->params[p];
        if (want->kind != PK_TENSOR || args[p].absent) continue;
        for (int d = 0; d < want->rank; d++) {
            int k = want->solves[d];
            if (k >= 0 || bare_dim(want->dim[d], &k)) solve(b, k, args[p].dim[d], p, d);
        }
    }
    solve_equations(info, args, b);
    solve_said(info, said, args, b);
    for (int k = 0; k < info->ndims; k++) {
        if (b->dim_param[k] != UNKNOWN) continue;
        buf_printf(err, "dimension %s is not known: no argument that is given has it alone as a dimension",
                   info->dims[k].name->s);
        for (int p = 0; p < info->nparams; p++)
            for (int d = 0; d < info->params[p].rank; d++)
                if (info->params[p].kind == PK_TENSOR && args[p].absent && names_dim(info->params[p].dim[d], k)) {
                    buf_printf(err, " (give `%s` its shape, or say --set %s=...)", name_of(info, p), info->dims[k].name->s);
                    return false;
                }
        return false;
    }
    return none_negative(info, args, b, err) && as_said(said, b, err);
}

static bool shape_outputs(const LaunchInfo *info, BindArg *args, const Bound *b, Buf *err) {
    for (int p = 0; p < info->nparams; p++) {
        const LaunchParam *want = &info->params[p];
        if (want->kind != PK_TENSOR || !args[p].absent) continue;
        for (int d = 0; d < want->rank; d++) {
            args[p].dim[d] = bind_eval(b, want->dim[d]);
            if (args[p].dim[d] >= 0) continue;
            buf_printf(err, "`%s` would have %lld elements along dimension %d", name_of(info, p),
                       (long long)args[p].dim[d], d);
            expr_dims_text(b, want->dim[d], err);
            return false;
        }
        bind_contiguous(&args[p]);
    }
    return true;
}

static bool check_equations(const LaunchInfo *info, const BindArg *args, const Bound *b, Buf *err) {
    for (int p = 0; p < info->nparams; p++) {
        const LaunchParam *want = &info->params[p];
        if (want->kind != PK_TENSOR) continue;
        for (int d = 0; d < want->rank; d++) {
            int64_t expected = bind_eval(b, want->dim[d]);
            if (expected == args[p].dim[d]) continue;
            int k;
            arg_text(info, args, p, err);
            buf_printf(err, " has %lld elements along dimension %d, not %lld", (long long)args[p].dim[d], d,
                       (long long)expected);
            if (bare_dim(want->dim[d], &k)) { buf_puts(err, ": "); dim_text(b, k, err); }
            else expr_dims_text(b, want->dim[d], err);
            return false;
        }
    }
    return true;
}

static bool check_strides(const LaunchInfo *info, const BindArg *args, Bound *b, Buf *err) {
    for (int p = 0; p < info->nparams; p++) {
        const LaunchParam *want = &info->params[p];
        if (want->kind != PK_TENSOR) continue;
        for (int d = 0; d < want->rank && p < MAX_PARAMS; d++) b->strides[launch_stride(p, d)] = args[p].stride[d];
        int in = want->rank - 1;
        if (in < 0 || want->strided || args[p].dim[in] <= 1 || args[p].stride[in] == 1) continue;
        arg_text(info, args, p, err);
        buf_printf(err, " has stride %lld along its last dimension; it must be 1 (or the parameter declared `strided`)",
                   (long long)args[p].stride[in]);
        return false;
    }
    return true;
}

static bool check_guards(const LaunchInfo *info, const Bound *b, Buf *err) {
    for (int i = 0; i < info->nguards; i++) {
        if (bind_eval(b, info->guards[i].cond)) continue;
        buf_printf(err, "`%s` cannot run here: %s does not hold", info->kernel->s, info->guards[i].text);
        expr_dims_text(b, info->guards[i].cond, err);
        return false;
    }
    return true;
}

bool bind_dims(const LaunchInfo *info, const int64_t *given, Bound *b, Buf *err) {
    b->info = info;
    for (int k = 0; k < info->ndims; k++) {
        b->dim_param[k] = UNKNOWN;
        if (info->dims[k].fixed >= 0) solve(b, k, info->dims[k].fixed, FIXED, 0);
        else if (given[k] >= 0) solve(b, k, given[k], FIXED, 0);
    }
    solve_equations(info, NULL, b);
    for (int k = 0, n = 0; k < info->ndims; k++) {
        if (b->dim_param[k] != UNKNOWN) continue;
        for (int i = k; i < info->ndims; i++)
            if (b->dim_param[i] == UNKNOWN) buf_printf(err, "%s%s", n++ ? ", " : "", info->dims[i].name->s);
        buf_printf(err, " %s not known: --set %s=...", n == 1 ? "is" : "are", info->dims[k].name->s);
        return false;
    }
    return check_guards(info, b, err);
}

bool bind_args(const LaunchInfo *info, BindArg *args, int nargs, Bound *b, Buf *err) {
    return bind_sized(info, args, nargs, NULL, b, err);
}

bool bind_sized(const LaunchInfo *info, BindArg *args, int nargs, const int64_t *said, Bound *b, Buf *err) {
    size_t n = (size_t)info->nparams, strided = n < MAX_PARAMS ? n : MAX_PARAMS;
    memset(b, 0, offsetof(Bound, dims));
    memset(b->dims, 0, sizeof *b->dims * (size_t)info->ndims);
    memset(b->scalars, 0, sizeof *b->scalars * n);
    memset(b->strides, 0, sizeof *b->strides * 16 * strided);
    b->info = info;
    b->args = args;
    b->nargs = nargs;
    if (nargs != info->nparams) {
        buf_printf(err, "`%s` has %d parameter%s, %d argument%s given", info->kernel->s, info->nparams,
                   info->nparams == 1 ? "" : "s", nargs, nargs == 1 ? " was" : "s were");
        return false;
    }
    for (int p = 0; p < nargs; p++)
        if (!(info->params[p].kind == PK_SCALAR ? bind_scalar(info, args, p, b, err)
                                                : check_tensor(info, args, p, err)))
            return false;
    return solve_dims(info, args, said, b, err) && shape_outputs(info, args, b, err) && check_equations(info, args, b, err)
        && check_strides(info, args, b, err) && check_guards(info, b, err);
}

// ---- with addresses ------------------------------------------------------------------------------

uint64_t bind_extent(const BindArg *a) {
    uint64_t last = 0;
    if (a->scalar) return 0;
    for (int d = 0; d < a->rank; d++) {
        if (a->dim[d] <= 0) return 0;
        last += (uint64_t)(a->dim[d] - 1) * (uint64_t)a->stride[d];
    }
    return (last + 1) * (uint64_t)elem_bytes(a->elem);
}

bool bind_overlap(const Bound *b, Buf *err) {
    const LaunchInfo *info = b->info;
    for (int w = 0; w < b->nargs; w++) {
        if (info->params[w].kind == PK_SCALAR || info->params[w].mode == PM_IN) continue;
        uint64_t at = b->args[w].address, size = bind_extent(&b->args[w]);
        for (int p = 0; p < b->nargs; p++) {
            bool later = info->params[p].mode == PM_IN || p > w;         // each pair once
            if (p == w || !later || info->params[p].kind == PK_SCALAR) continue;
            uint64_t other = b->args[p].address, n = bind_extent(&b->args[p]);
            if (!size || !n || at >= other + n || other >= at + size) continue;
            buf_printf(err, "`%s` is written and shares memory with `%s`", name_of(info, w), name_of(info, p));
            return false;
        }
    }
    return true;
}

bool slot_fits(const Bound *b, const LaunchSlot *s, int64_t *v) {
    switch (s->kind) {
    case SLOT_DIM:    *v = b->dims[s->a]; break;
    case SLOT_STRIDE: *v = b->strides[launch_stride(s->a, s->b)]; break;
    case SLOT_EXPR:   *v = bind_eval(b, s->expr); break;
    default:          return true;
    }
    return s->size != 4 || (*v >= INT32_MIN && *v <= INT32_MAX);
}

const LaunchInfo *bind_variant(const Bound *b, Buf *why) {
    const LaunchInfo *info = b->info;
    for (int p = 0; p < b->nargs; p++) {
        if (info->params[p].kind != PK_TENSOR || b->args[p].address % 16 == 0) continue;
        if (why) buf_printf(why, "`%s` is not 16-byte aligned", name_of(info, p));
        return info->general;
    }
    for (int i = 0; i < info->nfacts; i++) {
        if (bind_eval(b, info->facts[i].cond)) continue;
        if (why) buf_printf(why, "%s does not hold", info->facts[i].text);
        return info->general;
    }
    for (int i = 0; i < info->nslots; i++) {
        int64_t v;
        if (slot_fits(b, &info->slots[i], &v)) continue;
        if (why) buf_printf(why, "machine parameter %d = %lld needs more than 32 bits", i, (long long)v);
        return info->general;
    }
    return info;
}
