// A kernel compiled ahead, for arguments that nobody knows yet: in which variants.
//
//     all facts  ->  the same, but that of one group of lengths, or of several, no divisor is assumed  ->  no facts
//
// What a source compiled at its launch knows of the arguments' lengths (sema/kernel_names.c, head_odd_dims), a file has to hold
// for each case. The lengths that count are those of which the first variant assumes that a power of two divides them, and that were
// not given when it was compiled. Lengths of vectors (a scale or an index for each of seven rows) are one group, as they
// mostly are one length; each length of rows is one. With few groups each set of them has a variant, small sets first, so that
// the first whose facts hold assumes the most.
#include "runtime/artifact.h"
#include "runtime/cuda_link.h"

#include "ptx/ptx.h"
#include "sema/typed.h"

#include <string.h>

enum { MAX_GROUPS = 3 };

// The innermost length, by bit, that decides what divides a tensor's stride: none if a number does.
static uint32_t in_stride(const TKernel *k, LStep s) {
    const TTensor *t = k->tensor[launch_stride_param(s)];
    for (int j = t ? t->rank - 1 : 0; j > launch_stride_dim(s); j--) {
        const TExpr *x = t->dim[j];
        if (!x || x->kind != TX_dim) continue;
        int64_t fixed = k->dims[x->dim].fixed;
        if (fixed < 0) return 1u << x->dim;
        if (fixed > 0 && fixed % 16 == 0) break;
    }
    return 0;
}

// Dimensions, by bit, of which a fact says that a number divides them.
static uint32_t divided(const TKernel *k, const LaunchInfo *info) {
    uint32_t dims = 0;
    for (int i = 0; i < info->nfacts; i++) {
        LExpr e = info->facts[i].cond;
        uint32_t here = 0;
        bool mod = false;
        for (uint32_t j = 0; j < e.n; j++) {
            LStep s = e.at[j];
            mod |= s.op == L_MOD;
            here |= s.op == L_DIM ? 1u << s.arg : s.op == L_STRIDE ? in_stride(k, s) : 0;
        }
        if (mod) dims |= here;
    }
    return dims;
}

// Of these, those that are the length of a row in some tensor.
static uint32_t of_rows(const TKernel *k, uint32_t dims) {
    uint32_t rows = 0;
    for (int p = 0; p < k->nparams; p++) {
        const TTensor *t = k->tensor[p];
        for (int j = 1; t && j < t->rank; j++)
            if (t->dim[j] && t->dim[j]->kind == TX_dim) rows |= 1u << t->dim[j]->dim;
    }
    return rows & dims;
}

// Which lengths are odd, by bit, of each variant between the first and the last.
static int sets_of(const TKernel *k, uint32_t dims, uint32_t sets[1 << MAX_GROUPS]) {
    uint32_t group[MAX_DIMS + 1], rows = of_rows(k, dims);
    int n = 0, count = 0;
    if (dims & ~rows) group[n++] = dims & ~rows;
    for (int d = 0; d < k->ndims; d++) if (rows >> d & 1) group[n++] = 1u << d;
    if (n > MAX_GROUPS) group[1] = dims & ~group[0], n = 2;
    for (int size = 1; size <= n; size++)
        for (int s = 1; s < 1 << n; s++) {
            if (__builtin_popcount((unsigned)s) != size) continue;
            sets[count] = 0;
            for (int g = 0; g < n; g++) if (s >> g & 1) sets[count] |= group[g];
            count++;
        }
    return count;
}

static TKernel *assuming_less(Session *s, const TKernel *k, uint32_t odd) {
    TKernel *same = NEW(session_arena(s), TKernel);
    *same = *k;
    same->dims = NEW_N(session_arena(s), LaunchDim, k->ndims + 1);
    memcpy(same->dims, k->dims, sizeof *k->dims * (size_t)k->ndims);
    for (int d = 0; d < k->ndims; d++) if (odd >> d & 1) same->dims[d].divisor = 1;
    return same;
}

static Str kept(Session *s, const Buf *b) {
    char *p = arena_alloc(session_arena(s), b->n + 1);
    if (b->n) memcpy(p, b->p, b->n);
    p[b->n] = 0;
    return (Str){p, b->n};
}

// PTX, and machine code where there is an assembler.
static bool compile(Session *s, const TKernel *k, CompileOptions opt, bool general, Artifact *out, Buf *err) {
    Buf ptx = {0}, cubin = {0}, log = {0};
    opt.general = general;
    Fn  *f = ir_build(s, k);
    bool ok = f && lower_run(f, &opt) && lower_emit(s, &f, 1, &opt, NULL, &ptx);
    if (!ok) buf_printf(err, "kernel `%s` cannot be compiled", k->name->s);
    if (ok && ptxas_path(session_arena(s))) ok = cubin_make(session_arena(s), ptx.p, ptx.n, opt.target, cuda_cubin, &cubin, &log, err);
    if (ok) {
        out->info[general] = f->launch;
        out->ptx[general] = kept(s, &ptx);
        out->cubin[general] = kept(s, &cubin);
    }
    buf_free(&ptx), buf_free(&cubin), buf_free(&log);
    return ok;
}

bool artifact_make(Session *s, const TKernel *k, const CompileOptions *opt, uint32_t given, ArtifactList *list, Buf *err) {
    uint32_t sets[1 << MAX_GROUPS], assumed = 0;
    Artifact first = {0};
    if (!compile(s, k, *opt, opt->general, &first, err) || (!opt->general && !compile(s, k, *opt, true, &first, err))) return false;
    if (opt->general) first.info[0] = first.info[1], first.ptx[0] = first.ptx[1], first.cubin[0] = first.cubin[1];
    else assumed = divided(k, first.info[0]) & ~given;
    vec_push(session_arena(s), list, first);
    for (int i = 0, n = sets_of(k, assumed, sets); i < n; i++) {
        Artifact less = {.less = true};
        if (!compile(s, assuming_less(s, k, sets[i]), *opt, false, &less, err)) return false;
        vec_push(session_arena(s), list, less);
    }
    return true;
}
