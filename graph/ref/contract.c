// Sums of products in the interpreter. The operands are packed, batch by batch: a as rows of k numbers, b as panels of 16
// columns with k rows of 16 numbers, so that the inner loop adds 4 x 16 products from memory in order:
//
//     a  [m][k]                b  [n / 16][k][16]             c  4 rows x 16 columns of sums
//
// f32 products are added in f32 for 32 steps at a time, and those sums in f64: as good as a sum in f64 for what this is
// compared with, and four times as fast. Everything else is added in f64 or, integers, in 64 bits.

#include "graph/ref/internal.h"

#include <stdlib.h>
#include <string.h>

enum { MR = 4, NR = 16, KB = 32 };

typedef float V8 __attribute__((vector_size(32), aligned(4), may_alias));

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__)
#define WIDE __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define WIDE
#endif

// c[MR][NR] += a[MR][k] * b[k][NR]
WIDE static void block_f32(int64_t k, const float *a, int64_t lda, const float *b, double *c) {
    for (int64_t k0 = 0; k0 < k; k0 += KB) {
        int64_t end = k0 + KB < k ? k0 + KB : k;
        V8 s[MR][2];
        memset(s, 0, sizeof s);
        for (int64_t i = k0; i < end; i++) {
            V8 b0 = *(const V8 *)(b + i * NR), b1 = *(const V8 *)(b + i * NR + 8);
            for (int m = 0; m < MR; m++) {
                s[m][0] += b0 * a[m * lda + i];
                s[m][1] += b1 * a[m * lda + i];
            }
        }
        for (int m = 0; m < MR; m++)
            for (int j = 0; j < NR; j++) c[m * NR + j] += (double)s[m][j / 8][j % 8];
    }
}

// ---- packing --------------------------------------------------------------------------------------------------------

typedef enum Width { W_f32, W_f64, W_i64 } Width;

static int64_t width_bytes(Width w) { return w == W_f32 ? 4 : 8; }

typedef struct Pack { Width width; Elem from; } Pack;

static void pack_row(void *ctx, int64_t n, char *const *at, const int64_t *stride) {
    const Pack *p = ctx;
    if (p->width == W_i64) {
        row_load_i64(p->from, n, at[1], stride[1], (int64_t *)at[0]);
    } else if (p->width == W_f64) {
        row_load_f64(p->from, n, at[1], stride[1], (double *)at[0]);
    } else if (p->from == EL_f32) {
        row_copy(4, n, at[1], stride[1], at[0], stride[0]);
    } else {
        double wide[ROW];
        row_load_f64(p->from, n, at[1], stride[1], wide);
        for (int64_t i = 0; i < n; i++) ((float *)at[0])[i] = (float)wide[i];
    }
}

// Axes from `first` on of v, packed as rows of k.
static void pack(const RVal *v, int first, Width width, char *to) {
    RVal src = *v, dst = {.elem = v->elem, .rank = v->rank - first, .at = to};
    src.rank -= first;
    memmove(src.shape, v->shape + first, (size_t)src.rank * sizeof *src.shape);
    memmove(src.stride, v->stride + first, (size_t)src.rank * sizeof *src.stride);
    memcpy(dst.shape, src.shape, sizeof dst.shape);
    for (int64_t i = src.rank, step = width_bytes(width); i-- > 0; step *= dst.shape[i]) dst.stride[i] = step;
    Rows rows = {0};
    rows_add(&rows, &dst);
    rows_add(&rows, &src);
    rows_run(&rows, pack_row, &(Pack){width, v->elem});
}

static void panels(const float *b, int64_t n, int64_t k, float *to) {
    for (int64_t j = 0; j < n; j += NR, to += k * NR)
        for (int64_t jj = 0; jj < NR; jj++)
            for (int64_t i = 0; i < k; i++) to[i * NR + jj] = j + jj < n ? b[(j + jj) * k + i] : 0;
}

// ---- one batch ------------------------------------------------------------------------------------------------------

typedef struct Job { int64_t m, n, k; Width width; Elem elem; char *a, *b; float *panel; char *c; } Job;

static void store_sums(const Job *j, int64_t m, int64_t n, int64_t count, const double *sum) {
    int64_t bytes = elem_bytes(j->elem);
    char *to = j->c + (m * j->n + n) * bytes;
    if (elem_is_float(j->elem)) {
        row_store_f64(j->elem, count, sum, to, bytes);
        return;
    }
    for (int64_t i = 0; i < count; i++) g_num_store(to + i * bytes, j->elem, g_float(sum[i]));
}

static void multiply_f32(const Job *j) {
    panels((const float *)j->b, j->n, j->k, j->panel);
    for (int64_t n = 0; n < j->n; n += NR)
        for (int64_t m = 0; m < j->m; m += MR) {
            double c[MR * NR] = {0};
            int64_t columns = j->n - n < NR ? j->n - n : NR;
            block_f32(j->k, (const float *)j->a + m * j->k, j->k, j->panel + n * j->k, c);
            for (int64_t i = 0; i < MR && m + i < j->m; i++) store_sums(j, m + i, n, columns, c + i * NR);
        }
}

static void multiply_wide(const Job *j) {
    for (int64_t m = 0; m < j->m; m++)
        for (int64_t n = 0; n < j->n; n++) {
            if (j->width == W_f64) {
                const double *a = (const double *)j->a + m * j->k, *b = (const double *)j->b + n * j->k;
                double s = 0;
                for (int64_t i = 0; i < j->k; i++) s += a[i] * b[i];
                store_sums(j, m, n, 1, &s);
            } else {
                const int64_t *a = (const int64_t *)j->a + m * j->k, *b = (const int64_t *)j->b + n * j->k;
                uint64_t s = 0;
                for (int64_t i = 0; i < j->k; i++) s += (uint64_t)a[i] * (uint64_t)b[i];
                g_num_store(j->c + (m * j->n + n) * elem_bytes(j->elem), j->elem, g_int((int64_t)s));
            }
        }
}

static int64_t span(const RVal *v, int from, int n) {
    int64_t p = 1;
    for (int i = 0; i < n; i++) p *= v->shape[from + i];
    return p;
}

static bool too_large(int64_t rows, int64_t k, int64_t bytes) {
    int64_t total;
    return __builtin_mul_overflow(rows, k, &total) || __builtin_mul_overflow(total, bytes, &total) ||
           total > INT64_C(1) << 40;
}

bool ref_contract(Run *r, const Node *n, RVal *out) {
    const RVal *a = &r->val[n->src[0]->id], *b = &r->val[n->src[1]->id];
    int nb = n->contract.nb, nm = n->contract.nm, nn = n->contract.nn, nk = n->contract.nk;
    int64_t shape[G_MAX_RANK];
    for (int i = 0; i < nb + nm; i++) shape[i] = a->shape[i];
    for (int i = 0; i < nn; i++) shape[nb + nm + i] = b->shape[nb + i];
    for (int i = 0; i < nb + nk; i++)
        if ((i < nb ? a->shape[i] : a->shape[nm + i]) != (i < nb ? b->shape[i] : b->shape[nn + i]))
            return run_fail(r, "a product's operands have different sizes");
    if (!rval_new(r, out, (Elem)n->elem, nb + nm + nn, shape)) return false;
    bool is_float = elem_is_float(a->elem);
    Width w = !is_float ? W_i64 : n->contract.acc == EL_f64 || a->elem == EL_f64 ? W_f64 : W_f32;
    Job j = {span(a, nb, nm), span(b, nb, nn), span(a, nb + nm, nk), w, out->elem, NULL, NULL, NULL, out->at};
    int64_t batches = span(a, 0, nb), wide = width_bytes(w), columns = (j.n + NR - 1) / NR * NR;
    if (j.m == 0 || j.n == 0 || batches == 0) return true;
    if (too_large(j.m + MR, j.k, wide) || too_large(columns, j.k, wide)) return run_fail(r, "a product is too large");
    j.a = heap_try_zeroed((size_t)((j.m + MR) * j.k + 1), (size_t)wide);
    j.b = heap_try((size_t)(j.n * j.k * wide) + 1);
    j.panel = w == W_f32 ? heap_try((size_t)(columns * j.k * 4) + 1) : NULL;
    if (j.a && j.b && (j.panel || w != W_f32)) {
        int64_t at[G_MAX_RANK] = {0};
        for (int64_t i = 0; i < batches; i++, j.c += j.m * j.n * elem_bytes(out->elem)) {
            RVal pa = *a, pb = *b;
            for (int d = 0; d < nb; d++) pa.at += at[d] * a->stride[d], pb.at += at[d] * b->stride[d];
            pack(&pa, nb, w, j.a);
            pack(&pb, nb, w, j.b);
            (w == W_f32 ? multiply_f32 : multiply_wide)(&j);
            for (int d = nb; d-- > 0;) {
                if (++at[d] < a->shape[d]) break;
                at[d] = 0;
            }
        }
    } else {
        run_fail(r, "out of memory");
    }
    heap_free(j.a);
    heap_free(j.b);
    heap_free(j.panel);
    return !r->failed;
}
