// What the files of the verifier share.
#ifndef TK_LOWER_IR_VERIFY_H
#define TK_LOWER_IR_VERIFY_H

#include "lower/ir/ir.h"

typedef struct Check {
    Fn    *f;
    Buf   *out;
    int    problems;
    Val  **visible;          // by id: values that dominate the current op
    const Op *op;
} Check;

typedef void CheckFn(Check *c, const Op *op);

void problem(Check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void want_scalar_int(Check *c, const Op *op, int i, const char *what);
bool want_tiles(Check *c, const Op *op, int from, int to);
void index_scalar(Check *c, const Op *op);
bool want_access(Check *c, const Op *op);             // of a tensor: an integer for each dimension
void want_same_types(Check *c, int n, Val *const *a, Val *const *b, const char *what);
void want_args(Check *c, const Region *r, int lead, int n, Val *const *types);       // of a region: lead others, then those like `types`

static inline bool is_tile(const Val *v)   { return v->type.kind == TY_TILE; }
static inline bool is_scalar(const Val *v) { return is_tile(v) && v->type.rank == 0; }
static inline Elem elem_of(const Val *v)   { return (Elem)v->type.elem; }
static inline bool is_int(const Val *v)    { return is_tile(v) && !v->type.ptr && elem_is_int(elem_of(v)); }
static inline bool is_bool(const Val *v)   { return is_tile(v) && !v->type.ptr && elem_of(v) == EL_bool; }
static inline bool is_real(const Val *v) {
    return is_tile(v) && !v->type.ptr && elem_is_float(elem_of(v)) && !elem_is_storage(elem_of(v));
}

// ir/verify_parts.c
CheckFn check_part_put, check_part_take, check_part_send, check_part_join, check_part_get,
        check_join_cluster, check_from_cluster, check_draw, check_drawn, check_keep, check_keep_put, check_keep_get;

// ir/verify_level2.c
CheckFn check_convert, check_buffer, check_buffer_low, check_buffer_turn, check_buffer_clear, check_buffer_load, check_buffer_row,
        check_buffer_store, check_copy_async, check_tma_load, check_mbar, check_mbar_expect, check_copy_arrive,
        check_mbar_arrive, check_mbar_wait, check_tma_store, check_row_store, check_wgmma, check_join_lanes,
        check_wgmma_wait, check_copy_commit, check_copy_wait, check_barrier, check_turn_wait, check_turn_pass,
        check_fence_async, check_wait_launches, check_roles;

#endif
