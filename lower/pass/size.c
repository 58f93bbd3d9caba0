// How much code a kernel will be, before any is made.
//
// Every tile op is written out for each element that a thread holds, so the LLVM instructions of a kernel are about the
// sum over its ops of
//
//     registers of the result x instructions for each        loads 3, erf 25, a reduction 2, and 40 for what crosses lanes
//
// and a kernel of five lines may have millions: 65 x 192 x 192 elements in one warp are 75000 registers. Of 1658 kernels
// of the corpus half have between 0.4 and 0.8 of this sum, one in a hundred more than 5 times as many (small ones).
#include "lower/layout/layout.h"
#include "lower/layout/mma.h"
#include "lower/pass/passes.h"

#include <math.h>

int64_t thread_elements(const Fn *f, const Val *v) {
    int64_t threads = (int64_t)(f->warps ? f->warps : 32) * 32;
    if (v->type.kind != TY_TILE || !v->type.rank) return 1;
    return v->layout ? layout_regs(v->layout) : (type_lanes(&v->type) + threads - 1) / threads;
}

static int of_function(int fun) {
    switch (fun) {
    case TF_fma: case TF_min: case TF_max: case TF_abs: return 1;
    case TF_exp: case TF_exp2: case TF_sqrt: return 8;
    default: return 25;
    }
}

static int of_operator(const Op *op) {
    bool integer = elem_is_int((Elem)op->out[0]->type.elem);
    if (op->sub == OP_div || op->sub == OP_rem) return integer ? 12 : 6;
    return 1;
}

// Multiply-adds of a thread, by how many one instruction makes.
static int64_t of_product(const Fn *f, const Op *op) {
    MmaChoice c;
    int64_t along = 1, threads = (int64_t)f->warps * 32;
    for (int i = op_first_axis(op); i < op->nin; i++) along *= axis_extent(op->in[i]);
    double each = (double)type_lanes(&op->out[0]->type) * (double)along / (double)threads;
    bool cores = op->out[0]->layout && mma_of_layout(f->target, f->arena, op, &c);
    return (int64_t)(cores ? each / (8 * c.k) * 4 : 2 * each);
}

static int64_t of_body(const Region *r) {                   // of a function that joins two values
    int64_t n = 1;
    for (const Op *op = r->first; op; op = op->next) n++;
    return n;
}

static int64_t size_of(const Fn *f, const Op *op) {
    int64_t n = 0, in = op->nin ? thread_elements(f, op->in[0]) : 0;
    for (int i = 0; i < op->nout; i++) n += thread_elements(f, op->out[i]);
    switch (op->code) {
    case OP_T_const: case OP_T_dim: case OP_T_scalar: case OP_T_tensor: case OP_T_extent: case OP_T_axis: case OP_T_index:
    case OP_T_live: case OP_T_splat: case OP_T_rename: case OP_T_yield: return 1;
    case OP_T_fun:     return n * of_function(op->sub);
    case OP_T_binary:  return n * of_operator(op);
    case OP_T_load: case OP_T_ptrload: return n * 3;
    case OP_T_atomic:  return n * 6;
    case OP_T_store:   return thread_elements(f, op->in[1 + op->nidx]) * 3;
    case OP_T_ptrstore: return thread_elements(f, op->in[1]) * 3;
    case OP_T_reduce:  return in * 2 + n * 40;
    case OP_T_scan:    return n * 8;
    case OP_T_sort: case OP_T_order: {
        int64_t steps = (int64_t)ceil(log2((double)type_lanes(&op->in[0]->type) + 1));
        return n * steps * (steps + 1) * 3;
    }
    case OP_T_scan_by: case OP_T_reduce_by: return (in + n) * 4 * of_body(op->reg[0]);
    case OP_T_convert: return n * 3;
    case OP_T_dot:     return n + of_product(f, op);
    case OP_T_for: case OP_T_while: case OP_T_if: return n * 3;
    default:           return n * 2;
    }
}

CodeSize code_size(const Fn *f) {
    CodeSize s = {0};
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) {
        int64_t n = size_of(f, op);
        s.all += n;
        if (n > s.most) s.most = n, s.op = op;
    }
    return s;
}
