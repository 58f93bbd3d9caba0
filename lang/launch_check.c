// Is what a file says of a launch something that may be used? Asked of every LaunchInfo that was read (artifacts, the
// cache, heads of PTX) before anything else looks at it.
//
//     counts        within what launchers have room for                    nparams <= MAX_PARAMS, ...
//     enumerations  one of their values                                    elem, kind, mode, op
//     indices       of parameters, dimensions, strides: there are such     L_DIM 3: ndims > 3
//     expressions   take from the stack what is there, leave one value     a b add: 1
//
// Nothing here says that the launch is right: whoever writes a file decides what its kernel does. It says that evaluating,
// printing and binding it reads no memory but its own, ends, and needs no more room than the limits below say.
#include "lang/launch.h"

#include <string.h>

static bool expr_ok(const LaunchInfo *f, LExpr e, bool may_be_empty) {
    int depth = 0;
    if (e.n == 0) return may_be_empty;
    if (e.n > LAUNCH_MAX_STEPS) return false;
    for (uint32_t i = 0; i < e.n; i++) {
        LOp op = e.at[i].op;
        int64_t a = e.at[i].arg;
        if ((unsigned)op > L_POSITIVE) return false;
        int takes = launch_takes(op);
        int end = op == L_DIM ? f->ndims : op == L_SCALAR ? f->nparams : op == L_STRIDE ? f->nparams * STRIDES_EACH : 0;
        bool indexes = op == L_DIM || op == L_SCALAR || op == L_STRIDE;
        if ((indexes && (a < 0 || a >= end)) || depth < takes) return false;
        depth += 1 - takes;
        if (depth > LAUNCH_STACK) return false;
    }
    return depth == 1;
}

static bool name_ok(Sym name) { return name != NULL && name->n > 0 && name->n <= LAUNCH_MAX_NAME; }

static bool param_ok(const LaunchInfo *f, const LaunchParam *p) {
    bool ok = name_ok(p->name) && (unsigned)p->kind <= PK_SCALAR && (unsigned)p->mode <= PM_INOUT && p->elem > EL_none && p->elem < EL_COUNT &&
              p->rank >= 0 && p->rank <= MAX_RANK && (p->kind == PK_TENSOR || p->rank == 0);
    for (int d = 0; ok && d < p->rank; d++) ok = p->solves[d] >= -1 && p->solves[d] < f->ndims && expr_ok(f, p->dim[d], false);
    return ok;
}

static bool guards_ok(const LaunchInfo *f, const LaunchGuard *g, int n) {
    for (int i = 0; i < n; i++)
        if (g[i].text == NULL || !expr_ok(f, g[i].cond, false)) return false;
    return true;
}

static bool map_ok(const LaunchInfo *f, const LaunchSlot *s) {
    bool ok = s->rank >= 1 && s->rank <= 5 && f->params[s->a].kind == PK_TENSOR && (!s->im2col || s->rank >= 3) &&
              (s->swizzle == 0 || s->swizzle == 32 || s->swizzle == 64 || s->swizzle == 128);
    for (int d = 0; ok && d < s->rank; d++) ok = s->map_dim[d] >= -1 && s->map_dim[d] < MAX_RANK;
    for (int d = 0; ok && s->im2col && d + 2 < s->rank; d++)
        ok = expr_ok(f, s->lower[d], false) && expr_ok(f, s->upper[d], false) && expr_ok(f, s->step[d], false);
    return ok && expr_ok(f, s->expr, true);
}

static bool slot_ok(const LaunchInfo *f, const LaunchSlot *s) {
    bool of_param = s->kind == SLOT_POINTER || s->kind == SLOT_SCALAR || s->kind == SLOT_STRIDE || s->kind == SLOT_TENSORMAP;
    bool number = s->size == 4 || s->size == 8;
    if (of_param && (s->a < 0 || s->a >= f->nparams)) return false;
    switch (s->kind) {
    case SLOT_POINTER:   return s->size == 8 && f->params[s->a].kind != PK_SCALAR;
    case SLOT_SCALAR:    return f->params[s->a].kind == PK_SCALAR && s->size == elem_bytes(f->params[s->a].elem);
    case SLOT_DIM:       return number && s->a >= 0 && s->a < f->ndims;
    case SLOT_STRIDE:    return number && s->b >= 0 && s->b < STRIDES_EACH;
    case SLOT_EXPR:      return number && expr_ok(f, s->expr, false);
    case SLOT_TENSORMAP: return s->size == 128 && map_ok(f, s);
    case SLOT_SCRATCH:   return s->size == 8 && s->a >= 0 && s->a < SCRATCH_KINDS && expr_ok(f, s->expr, false);
    default:             return false;
    }
}

bool launch_counts_ok(const LaunchInfo *f) {
    return f->nparams >= 0 && f->nparams <= MAX_PARAMS && f->ndims >= 0 && f->ndims <= MAX_DIMS && f->nslots >= 0 && f->nslots <= LAUNCH_MAX_SLOTS &&
           f->nguards >= 0 && f->nguards <= LAUNCH_MAX_GUARDS && f->nfacts >= 0 && f->nfacts <= LAUNCH_MAX_GUARDS;
}

bool launch_valid(const LaunchInfo *f) {
    bool ok = launch_counts_ok(f) && f->entry != NULL && f->entry[0] != '\0' && name_ok(f->kernel) && f->threads > 0 && f->threads <= 1024 &&
              f->cluster >= 0 && f->cluster <= 64 && f->early >= 0 && f->smem <= LAUNCH_MAX_SMEM && expr_ok(f, f->programs, true) &&
              expr_ok(f, f->blocks, true) && expr_ok(f, f->smem_more, true);
    for (int i = 0; ok && i < f->ndims; i++) ok = name_ok(f->dims[i].name);
    for (int i = 0; ok && i < f->nparams; i++) ok = param_ok(f, &f->params[i]);
    for (int i = 0; ok && i < f->nslots; i++) ok = slot_ok(f, &f->slots[i]);
    return ok && guards_ok(f, f->guards, f->nguards) && guards_ok(f, f->facts, f->nfacts);
}

bool launch_alike(const LaunchInfo *a, const LaunchInfo *b) {
    bool same = a->kernel == b->kernel && a->nparams == b->nparams && a->ndims == b->ndims;
    for (int i = 0; same && i < a->nparams; i++) {
        const LaunchParam *p = &a->params[i], *q = &b->params[i];
        same = p->kind == q->kind && p->mode == q->mode && p->elem == q->elem && p->rank == q->rank && p->name == q->name;
    }
    for (int i = 0; same && i < a->ndims; i++) same = a->dims[i].name == b->dims[i].name;
    return same;
}
