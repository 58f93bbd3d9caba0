// Rows: elements widened, rounded, copied; and the walk over all rows of operands with strides.

#include "graph/ref/internal.h"

#include "lang/number.h"

#include <string.h>

#define LOAD(T, expr) \
    for (int64_t i = 0; i < n; i++) { T x; memcpy(&x, at + i * stride, sizeof x); to[i] = expr; } break
#define STORE(T, expr) \
    for (int64_t i = 0; i < n; i++) { T x = expr; memcpy(at + i * stride, &x, sizeof x); } break

void row_load_f64(Elem elem, int64_t n, const char *at, int64_t stride, double *to) {
    switch (elem) {
    case EL_f64: LOAD(double, x);
    case EL_f32: LOAD(float, (double)x);
    case EL_f16: LOAD(uint16_t, (double)f16_to_f32(x));
    case EL_bf16: LOAD(uint16_t, (double)bf16_to_f32(x));
    case EL_f8e4m3: LOAD(uint8_t, (double)e4m3_to_f32(x));
    case EL_f8e5m2: LOAD(uint8_t, (double)e5m2_to_f32(x));
    case EL_u64: LOAD(uint64_t, (double)x);
    case EL_i64: case EL_index: LOAD(int64_t, (double)x);
    case EL_i32: LOAD(int32_t, (double)x);
    case EL_u32: LOAD(uint32_t, (double)x);
    case EL_i16: LOAD(int16_t, (double)x);
    case EL_u16: LOAD(uint16_t, (double)x);
    case EL_i8: LOAD(int8_t, (double)x);
    case EL_u8: case EL_bool: LOAD(uint8_t, (double)x);
    default: ice("no rows of %s", elem_name(elem));
    }
}

void row_store_f64(Elem elem, int64_t n, const double *from, char *at, int64_t stride) {
    switch (elem) {
    case EL_f64: STORE(double, from[i]);
    case EL_f32: STORE(float, (float)from[i]);
    case EL_f16: STORE(uint16_t, f16_from_f32((float)from[i]));
    case EL_bf16: STORE(uint16_t, bf16_from_f32((float)from[i]));
    case EL_f8e4m3: STORE(uint8_t, e4m3_from_f64(from[i]));
    case EL_f8e5m2: STORE(uint8_t, e5m2_from_f64(from[i]));
    default: ice("no rows of %s", elem_name(elem));
    }
}

void row_load_i64(Elem elem, int64_t n, const char *at, int64_t stride, int64_t *to) {
    switch (elem) {
    case EL_i64: case EL_index: case EL_u64: LOAD(int64_t, x);
    case EL_i32: LOAD(int32_t, x);
    case EL_u32: LOAD(uint32_t, x);
    case EL_i16: LOAD(int16_t, x);
    case EL_u16: LOAD(uint16_t, x);
    case EL_i8: LOAD(int8_t, x);
    case EL_u8: LOAD(uint8_t, x);
    case EL_bool: LOAD(uint8_t, x != 0);
    default: ice("no rows of %s", elem_name(elem));
    }
}

void row_store_i64(Elem elem, int64_t n, const int64_t *from, char *at, int64_t stride) {
    switch (elem) {
    case EL_i64: case EL_u64: case EL_index: STORE(int64_t, from[i]);
    case EL_i32: case EL_u32: STORE(uint32_t, (uint32_t)from[i]);
    case EL_i16: case EL_u16: STORE(uint16_t, (uint16_t)from[i]);
    case EL_i8: case EL_u8: STORE(uint8_t, (uint8_t)from[i]);
    case EL_bool: STORE(uint8_t, from[i] != 0);
    default: ice("no rows of %s", elem_name(elem));
    }
}

void row_copy(int bytes, int64_t n, const char *from, int64_t from_stride, char *to, int64_t to_stride) {
    if (from_stride == bytes && to_stride == bytes) {
        memcpy(to, from, (size_t)(n * bytes));
        return;
    }
    switch (bytes) {
    case 1: for (int64_t i = 0; i < n; i++) to[i * to_stride] = from[i * from_stride]; break;
    case 2: for (int64_t i = 0; i < n; i++) memcpy(to + i * to_stride, from + i * from_stride, 2); break;
    case 4: for (int64_t i = 0; i < n; i++) memcpy(to + i * to_stride, from + i * from_stride, 4); break;
    default: for (int64_t i = 0; i < n; i++) memcpy(to + i * to_stride, from + i * from_stride, 8); break;
    }
}

// ---- all rows -------------------------------------------------------------------------------------------------------

void rows_add(Rows *rows, const RVal *v) {
    rows->rank = v->rank;
    memcpy(rows->shape, v->shape, sizeof rows->shape);
    memcpy(rows->stride[rows->operands], v->stride, sizeof v->stride);
    rows->at[rows->operands++] = v->at;
}

// Axes of size 1 go, and an axis goes into its left neighbour where every operand steps on as if they were one.
static void put_together(Rows *rows) {
    int to = -1;
    for (int i = 0; i < rows->rank; i++) {
        int64_t size = rows->shape[i];
        if (size == 1) continue;
        bool joins = to >= 0;
        for (int k = 0; k < rows->operands && joins; k++) joins = rows->stride[k][to] == rows->stride[k][i] * size;
        if (!joins) rows->shape[++to] = 1;
        rows->shape[to] *= size;
        for (int k = 0; k < rows->operands; k++) rows->stride[k][to] = rows->stride[k][i];
    }
    rows->rank = to + 1;
}

void rows_run(Rows *rows, RowFn *fn, void *ctx) {
    for (int i = 0; i < rows->rank; i++)
        if (rows->shape[i] == 0) return;
    put_together(rows);
    int last = rows->rank - 1;
    int64_t n = last >= 0 ? rows->shape[last] : 1, stride[MAX_OPERANDS] = {0}, at[G_MAX_RANK] = {0};
    char *p[MAX_OPERANDS];
    for (int k = 0; k < rows->operands; k++) {
        p[k] = rows->at[k];
        if (last >= 0) stride[k] = rows->stride[k][last];
    }
    for (;;) {
        for (int64_t i = 0; i < n; i += ROW) {
            char *q[MAX_OPERANDS];
            for (int k = 0; k < rows->operands; k++) q[k] = p[k] + i * stride[k];
            fn(ctx, n - i < ROW ? n - i : ROW, q, stride);
        }
        int d = last - 1;
        for (; d >= 0; d--) {
            for (int k = 0; k < rows->operands; k++) p[k] += rows->stride[k][d];
            if (++at[d] < rows->shape[d]) break;
            for (int k = 0; k < rows->operands; k++) p[k] -= rows->stride[k][d] * rows->shape[d];
            at[d] = 0;
        }
        if (d < 0) return;
    }
}
