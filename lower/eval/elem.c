// Elementwise ops over tiles: spaces, rows, and the driver that feeds rows to kernels.
//
// The operands of an elementwise op may lack axes of the result. A Space holds each operand's stride
// along each axis of the result, in lanes, 0 where it lacks the axis; neighbouring axes that all tiles
// step through alike are one:
//
//     f32[m, n] + f32[n]  with m 128, n 256     extents 128 256    strides (256, 1) and (0, 1)
//     f32[m, n] * f32[m, n]                     extent 32768       strides (1) and (1)
//
// A row is the last axis. Kernels want neighbouring lanes, so that a chunk of a row is given in place
// (stride 1), filled (stride 0) or gathered (after a rename).

#include "lower/eval/eval.h"

#include <string.h>

// ---- spaces --------------------------------------------------------------------------------------

static void tile_strides(const Type *t, const Type *over, int64_t *stride) {
    int64_t lanes = 1;
    for (int i = 0; i < over->rank; i++) stride[i] = 0;
    for (int i = t->rank - 1; i >= 0; i--) {
        int at = type_axis(over, t->axis[i]);
        if (at < 0) ice("an operand has an axis that the result lacks");
        stride[at] = lanes;
        lanes *= axis_extent(t->axis[i]);
    }
}

static bool mergeable(const Space *s, int i) {          // axis i with i + 1
    for (int k = 0; k < s->n; k++)
        if (s->stride[k][i] != s->stride[k][i + 1] * s->extent[i + 1]) return false;
    return true;
}

void space_make(Space *s, const Type *over, int n, const Type *const *tiles, bool merge) {
    s->n = n;
    s->rank = over->rank;
    s->total = type_lanes(over);
    for (int i = 0; i < over->rank; i++) s->extent[i] = axis_extent(over->axis[i]);
    for (int k = 0; k < n; k++)
        if (tiles[k]->kind == TY_TILE) tile_strides(tiles[k], over, s->stride[k]);
    for (int i = s->rank - 2; merge && i >= 0; i--) {
        if (!mergeable(s, i)) continue;
        s->extent[i] *= s->extent[i + 1];
        for (int k = 0; k < n; k++) s->stride[k][i] = s->stride[k][i + 1];
        for (int j = i + 1; j + 1 < s->rank; j++) {
            s->extent[j] = s->extent[j + 1];
            for (int k = 0; k < n; k++) s->stride[k][j] = s->stride[k][j + 1];
        }
        s->rank--;
    }
}

void rows_start(Rows *r, const Space *s) {
    *r = (Rows){.s = s, .n = s->rank ? s->extent[s->rank - 1] : 1, .out = -1};
}

bool rows_next(Rows *r) {
    const Space *s = r->s;
    if (r->out < 0) {
        r->out = 0;
        return s->total > 0;
    }
    r->out += r->n;
    if (r->out >= s->total) return false;
    for (int i = s->rank - 2; i >= 0; i--) {
        for (int k = 0; k < s->n; k++) r->off[k] += s->stride[k][i];
        if (++r->at[i] < s->extent[i]) return true;
        r->at[i] = 0;
        for (int k = 0; k < s->n; k++) r->off[k] -= s->stride[k][i] * s->extent[i];
    }
    return true;
}

#define GATHER(T) \
    { \
        T *o = buf; \
        const T *p = (const T *)data + off; \
        if (stride) for (int64_t i = 0; i < n; i++) o[i] = p[i * stride]; \
        else        for (int64_t i = 0; i < n; i++) o[i] = p[0]; \
        return buf; \
    }

const void *feed(const void *data, int size, int64_t off, int64_t stride, int64_t n, void *buf) {
    if (stride == 1 || n == 1) return (const unsigned char *)data + off * size;
    switch (size) {
    case 1:  GATHER(uint8_t)
    case 2:  GATHER(uint16_t)
    case 4:  GATHER(uint32_t)
    default: GATHER(uint64_t)
    }
}

// ---- the driver ----------------------------------------------------------------------------------

typedef struct Operand {
    const void *data;
    int         size;             // bytes of a lane
    Kernel     *widen;            // to f32 first, or NULL
} Operand;

typedef struct Job {
    Kernel  *kernel;              // NULL: one operand, copied
    Kernel  *narrow;              // from what the kernel gives to what the result holds, or NULL
    Operand  in[3];
    int      n;
    unsigned char *out;
    int      out_size;
} Job;

typedef struct { _Alignas(64) unsigned char at[CHUNK * 8]; } Lanes;

static void run_chunk(const Job *j, const Rows *r, int64_t pos, int64_t n, unsigned char *out) {
    Lanes fed[3], wide[3], result;
    const void *in[3] = {NULL, NULL, NULL};
    int last = r->s->rank - 1;
    for (int k = 0; k < j->n; k++) {
        const Operand *o = &j->in[k];
        int64_t stride = last < 0 ? 1 : r->s->stride[k][last];
        in[k] = feed(o->data, o->size, r->off[k] + pos * stride, stride, n, fed[k].at);
        if (!o->widen) continue;
        o->widen(n, wide[k].at, in[k], NULL, NULL);
        in[k] = wide[k].at;
    }
    if (!j->kernel)     { memcpy(out, in[0], (size_t)(n * j->out_size)); return; }
    j->kernel(n, j->narrow ? result.at : out, in[0], in[1], in[2]);
    if (j->narrow) j->narrow(n, out, result.at, NULL, NULL);
}

static void run_job(const Job *j, const Space *s) {
    Rows r;
    for (rows_start(&r, s); rows_next(&r);)
        for (int64_t pos = 0; pos < r.n; pos += CHUNK)
            run_chunk(j, &r, pos, r.n - pos < CHUNK ? r.n - pos : CHUNK, j->out + (r.out + pos) * j->out_size);
}

static Job job_of(const Op *op, Kernel *kernel, const void *const *in, int n, void *out, bool floats) {
    Job j = {.kernel = kernel, .n = n, .out = out, .out_size = type_bytes(&op->out[0]->type)};
    for (int k = 0; k < n; k++) {
        const Type *t = &op->in[k]->type;
        bool storage = floats && !t->ptr && elem_is_storage((Elem)t->elem);
        j.in[k] = (Operand){in[k], type_bytes(t), storage ? kernel_widen(t) : NULL};
    }
    const Type *t = &op->out[0]->type;
    if (floats && !t->ptr && elem_is_storage((Elem)t->elem)) j.narrow = kernel_narrow(WIDE_F32, t);
    return j;
}

static Kernel *kernel_of(const Op *op) {
    Elem e = kernel_elem(&op->in[0]->type);
    switch (op->code) {
    case OP_T_unary:  return kernel_unary((AstOp)op->sub, e);
    case OP_T_binary: return kernel_binary((AstOp)op->sub, e);
    case OP_T_fun:    return kernel_fun((TFun)op->sub, e);
    default:          return NULL;
    }
}

static void bounds(Eval *e, const Step *s) {
    if (e->bounds) bound_elementwise(e, s);
}

static void elementwise(Eval *e, const Step *s) {
    const Op *op = s->op;
    Kernel *k = kernel_of(op);
    if (!k) {
        eval_fault(e, op->span, "%s.%s is not defined on %s", op_info[op->code].name,
                   sub_name((SubTable)op_info[op->code].sub, op->sub), elem_name((Elem)op->in[0]->type.elem));
        return;
    }
    const void *in[3];
    for (int i = 0; i < op->nin; i++) in[i] = lanes_of(e, op->in[i]);
    Job j = job_of(op, k, in, op->nin, out_tile(e, op), true);
    run_job(&j, s->space);
    bounds(e, s);
}

// ---- the ops -------------------------------------------------------------------------------------

void eval_unary(Eval *e, const Step *s) { elementwise(e, s); }
void eval_fun(Eval *e, const Step *s)   { elementwise(e, s); }

// An integer division by a live zero: the divisor's own lanes, where the result has live lanes at all.
static bool divides_by_zero(Eval *e, const Op *op) {
    const Type *t = &op->in[1]->type, *whole = &op->out[0]->type;
    int64_t live[MAX_AXES], n = type_lanes(t);
    Lanes wide;
    const unsigned char *p = lanes_of(e, op->in[1]);
    live_counts(e, whole, live);
    for (int i = 0; i < whole->rank; i++)
        if (!live[i]) return false;
    live_counts(e, t, live);
    for (int64_t at = 0; at < n; at += CHUNK) {
        int64_t m = n - at < CHUNK ? n - at : CHUNK;
        lanes_to_i64(t, m, p + at * type_bytes(t), (int64_t *)wide.at);
        for (int64_t i = 0; i < m; i++) {
            if (((int64_t *)wide.at)[i]) continue;
            bool    dead = false;
            int64_t lane = at + i;
            for (int k = t->rank - 1; k >= 0; k--) {
                dead |= lane % axis_extent(t->axis[k]) >= live[k];
                lane /= axis_extent(t->axis[k]);
            }
            if (!dead) return true;
        }
    }
    return false;
}

static void move_pointer(Eval *e, const Step *s) {
    const Op *op = s->op;
    const Type *t = &op->in[1]->type;
    uint64_t *out = out_tile(e, op), size = (uint64_t)elem_bytes((Elem)op->in[0]->type.elem);
    Lanes a_buf, b_buf, wide;
    Rows r;
    for (rows_start(&r, s->space); rows_next(&r);)
        for (int64_t pos = 0; pos < r.n; pos += CHUNK) {
            int64_t n = r.n - pos < CHUNK ? r.n - pos : CHUNK;
            int last = s->space->rank - 1;
            int64_t sa = last < 0 ? 1 : s->space->stride[0][last], sb = last < 0 ? 1 : s->space->stride[1][last];
            const uint64_t *a = feed(lanes_of(e, op->in[0]), 8, r.off[0] + pos * sa, sa, n, a_buf.at);
            const void *b = feed(lanes_of(e, op->in[1]), type_bytes(t), r.off[1] + pos * sb, sb, n, b_buf.at);
            lanes_to_i64(t, n, b, (int64_t *)wide.at);
            const uint64_t *by = (const uint64_t *)wide.at;
            for (int64_t i = 0; i < n; i++)
                out[r.out + pos + i] = op->sub == OP_add ? a[i] + by[i] * size : a[i] - by[i] * size;
        }
}

void eval_binary(Eval *e, const Step *s) {
    const Op *op = s->op;
    if (op->in[0]->type.ptr && !op_compares((AstOp)op->sub)) { move_pointer(e, s); return; }
    if ((op->sub == OP_div || op->sub == OP_rem) && elem_is_int((Elem)op->in[1]->type.elem) && divides_by_zero(e, op)) {
        eval_fault(e, op->span, "integer division by zero");
        return;
    }
    elementwise(e, s);
}

void eval_select(Eval *e, const Step *s) {
    const Op *op = s->op;
    const void *in[3] = {lanes_of(e, op->in[0]), lanes_of(e, op->in[1]), lanes_of(e, op->in[2])};
    Job j = job_of(op, kernel_select(type_bytes(&op->out[0]->type)), in, 3, out_tile(e, op), false);
    run_job(&j, s->space);
    bounds(e, s);
}

void eval_cast(Eval *e, const Step *s) {
    const Op *op = s->op;
    const Type *from = &op->in[0]->type, *to = &op->out[0]->type;
    if (from->elem == to->elem) { slot_share(e, op->out[0], op->in[0]); return; }
    const void *in = lanes_of(e, op->in[0]);
    Job j = {.kernel = kernel_cast(wide_of(from), to), .n = 1, .out = out_tile(e, op), .out_size = type_bytes(to)};
    j.in[0] = (Operand){in, type_bytes(from), kernel_widen(from)};
    run_job(&j, s->space);
    bounds(e, s);
}

static void copy_lanes(Eval *e, const Step *s) {
    const Op *op = s->op;
    if (s->space->total == type_lanes(&op->in[0]->type) && s->space->rank <= 1 &&
        (!s->space->rank || s->space->stride[0][0] == 1)) {
        slot_share(e, op->out[0], op->in[0]);
        return;
    }
    const void *in = lanes_of(e, op->in[0]);
    Job j = job_of(op, NULL, &in, 1, out_tile(e, op), false);
    run_job(&j, s->space);
    bounds(e, s);
}

void eval_splat(Eval *e, const Step *s)  { copy_lanes(e, s); }
void eval_rename(Eval *e, const Step *s) { copy_lanes(e, s); }

void eval_bitcast(Eval *e, const Step *s) {
    slot_share(e, s->op->out[0], s->op->in[0]);
    tile_drop(e, slot_of(e, s->op->out[0])->b);
    slot_of(e, s->op->out[0])->b = NULL;
}

// ---- constants -----------------------------------------------------------------------------------

// The same driver on single lanes. Divisions by zero are left for run time to trap on.
bool eval_constant(Fn *f, const Op *op, int64_t *imm) {
    (void)f;
    bool cast = op->code == OP_T_cast, select = op->code == OP_T_select, bits = op->code == OP_T_bitcast;
    if (!cast && !select && !bits && op->code != OP_T_unary && op->code != OP_T_binary && op->code != OP_T_fun) return false;
    uint64_t lane[3], out = 0;
    const void *in[3] = {&lane[0], &lane[1], &lane[2]};
    for (int i = 0; i < op->nin; i++) {
        const Val *v = op->in[i];
        if (!v->def || v->def->code != OP_T_const || v->type.ptr) return false;
        lane_store(&v->type, &lane[i], 0, v->def->imm);
    }
    const Type *t = &op->out[0]->type;
    if (t->kind != TY_TILE || t->rank || t->ptr) return false;
    bool divides = op->code == OP_T_binary && (op->sub == OP_div || op->sub == OP_rem) &&
                   elem_is_int((Elem)op->in[1]->type.elem);
    if (divides && op->in[1]->def->imm == 0) return false;
    Kernel *k = select ? kernel_select(type_bytes(t))
                : cast ? kernel_cast(wide_of(&op->in[0]->type), t)
                : bits ? NULL
                       : kernel_of(op);
    if (!k && !bits) return false;
    Job j = job_of(op, k, in, op->nin, &out, !select && !cast && !bits);
    if (cast) j.in[0].widen = kernel_widen(&op->in[0]->type);
    static const Space one = {.total = 1, .n = 3};
    run_job(&j, &one);
    *imm = lane_imm(t, &out, 0);
    double x;
    memcpy(&x, imm, sizeof x);
    return !bits || !elem_is_float((Elem)t->elem) || x == x;       // a const has no NaN payload
}
