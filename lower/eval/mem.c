// Loads, stores and atomics, of tensors and through pointers; who touched what.
//
// A row of lanes at a time: each index is fed as i64, its dimension checked on its own, and the row's
// places are found. Most rows walk one dimension by ones, or stay: then the places are a base, a step
// and the range of lanes that are inside; else every lane has its own offset, or -1.
//
//     w[ids[m], k]    row k of w: base ids[m] * stride, step 1, lanes 0 .. K
//
// Dead lanes are never looked at, and get junk. A live lane out of range reads `else` or 0, and stores
// nothing; a load whose index was itself loaded, without `else`, is worth a note (the program may mean
// it, but a GPU would not say so). A load or store marked as proved in range is held to it.
//
// When a report is wanted, every element of a tensor that may be written remembers the program that
// wrote it, read it or updated it atomically. Two programs, one of them writing plainly, are a race.

#include "lower/eval/eval.h"

#include <math.h>
#include <string.h>

typedef struct Access {
    const Op   *op;
    int         param, rank;
    unsigned char *data;
    int         size;
    const int64_t *dims, *strides, *logical;
    Val *const *index;
    Touch      *touched;           // NULL: nobody asks
    double     *bound;             // of the tensor, by logical position, or NULL
    bool        linear;            // logical positions are wanted
} Access;

typedef struct Places {            // of at most CHUNK lanes
    bool     run;
    int64_t  from, to;             // run: lanes in range, places base + lane * step
    int64_t  base, step, lbase, lstep;
    int64_t  off[CHUNK], lin[CHUNK];      // else: -1 out of range
    int64_t  misses;
} Places;

typedef struct { _Alignas(64) unsigned char at[CHUNK * 8]; } Lanes;

static Access access_of(Eval *e, const Op *op) {
    Access a = {.op = op, .param = (int)slot_of(e, op->in[0])->lo, .rank = op->nidx, .index = op->in + 1};
    const EvalTensor *t = &e->args[a.param].tensor;
    a.data = t->data;
    a.size = elem_bytes((Elem)op->in[0]->type.elem);
    a.dims = t->dims;
    a.strides = t->strides;
    a.logical = e->logical[a.param];
    a.touched = e->touched[a.param];
    a.bound = e->opt->bound[a.param];
    a.linear = a.touched || a.bound;
    return a;
}

static int64_t stride_of(const Space *s, int k) { return s->rank ? s->stride[k][s->rank - 1] : 0; }

static bool by_ones(const int64_t *x, int64_t n) {
    uint64_t wrong = 0;
    for (int64_t i = 1; i < n; i++) wrong |= (uint64_t)x[i] - (uint64_t)x[0] - (uint64_t)i;
    return wrong == 0;
}

// Lanes [pos, pos + n) of the row; operand k of the space is index k.
static void find_places(Eval *e, const Access *a, const Rows *r, int64_t pos, int64_t n, Places *p) {
    Lanes   raw;
    int64_t idx[CHUNK];
    int     moving = -1, nmoving = 0;
    bool    inside = true;
    *p = (Places){.run = true, .to = n};
    for (int d = 0; d < a->rank; d++) {
        const Type *t = &a->index[d]->type;
        const unsigned char *lanes = lanes_of(e, a->index[d]);
        if (stride_of(r->s, d)) { moving = d; nmoving++; continue; }
        lanes_to_i64(t, 1, lanes + r->off[d] * type_bytes(t), idx);
        inside &= idx[0] >= 0 && idx[0] < a->dims[d];
        p->base += inside ? idx[0] * a->strides[d] : 0;
        p->lbase += inside ? idx[0] * a->logical[d] : 0;
    }
    if (!inside) { p->to = 0; p->misses = n; return; }
    if (!nmoving) return;
    if (nmoving == 1) {
        int64_t stride = stride_of(r->s, moving);
        const Type *t = &a->index[moving]->type;
        const void *fed = feed(lanes_of(e, a->index[moving]), type_bytes(t), r->off[moving] + pos * stride, stride, n,
                               raw.at);
        lanes_to_i64(t, n, fed, idx);
        if (by_ones(idx, n)) {
            int64_t lo = idx[0], dim = a->dims[moving];
            if (lo <= -n || lo >= dim) { p->to = 0; p->misses = n; return; }
            p->from = lo < 0 ? -lo : 0;
            p->to = dim - lo < n ? dim - lo : n;
            p->misses = n - (p->to - p->from);
            p->base += lo * a->strides[moving];
            p->step = a->strides[moving];
            p->lbase += lo * a->logical[moving];
            p->lstep = a->logical[moving];
            return;
        }
    }
    p->run = false;
    for (int64_t i = 0; i < n; i++) { p->off[i] = p->base; p->lin[i] = p->lbase; }
    for (int d = 0; d < a->rank; d++) {
        int64_t stride = stride_of(r->s, d), size = a->dims[d], by = a->strides[d], lby = a->logical[d];
        if (!stride) continue;
        const Type *t = &a->index[d]->type;
        const void *fed = feed(lanes_of(e, a->index[d]), type_bytes(t), r->off[d] + pos * stride, stride, n, raw.at);
        lanes_to_i64(t, n, fed, idx);
        for (int64_t i = 0; i < n; i++) {
            bool ok = p->off[i] != INT64_MIN && (uint64_t)idx[i] < (uint64_t)size;
            p->off[i] = ok ? p->off[i] + idx[i] * by : INT64_MIN;
            p->lin[i] += ok ? idx[i] * lby : 0;
        }
    }
    for (int64_t i = 0; i < n; i++) p->misses += p->off[i] == INT64_MIN;
}

static inline bool place_ok(const Places *p, int64_t i) {
    return p->run ? i >= p->from && i < p->to : p->off[i] != INT64_MIN;
}
static inline int64_t place_at(const Places *p, int64_t i)  { return p->run ? p->base + i * p->step : p->off[i]; }
static inline int64_t place_lin(const Places *p, int64_t i) { return p->run ? p->lbase + i * p->lstep : p->lin[i]; }

// Live lanes of the row: its own coordinate's prefix, or none when an outer coordinate is dead.
static int64_t live_lanes(const Rows *r, const int64_t *live) {
    int rank = r->s->rank;
    for (int i = 0; i + 1 < rank; i++)
        if (r->at[i] >= live[i]) return 0;
    return rank ? live[rank - 1] : 1;
}

// ---- races ---------------------------------------------------------------------------------------

typedef enum Act { ACT_READ, ACT_WRITE, ACT_ATOMIC } Act;

static void mark(uint32_t *who, uint32_t me) { *who = *who == 0 || *who == me ? me : UINT32_MAX; }

static void touch(Eval *e, const Access *a, int64_t lin, Act act) {
    Touch   *t = &a->touched[lin];
    uint32_t me = (uint32_t)(e->program % 0xfffffffe) + 1, other = 0;
    const char *what = act == ACT_READ ? "reads" : act == ACT_WRITE ? "writes" : "updates";
    if (t->writer && t->writer != me) other = t->writer;
    if (act != ACT_READ && t->reader && t->reader != me) other = t->reader;
    if (act != ACT_ATOMIC && t->atomic && t->atomic != me) other = t->atomic;
    mark(act == ACT_READ ? &t->reader : act == ACT_WRITE ? &t->writer : &t->atomic, me);
    if (!other || e->opt->report->races++) return;
    Buf at = {0}, who = {0};
    for (int d = 0; d < a->rank; d++) {
        buf_printf(&at, "%s%lld", d ? ", " : "", (long long)(lin / a->logical[d]));
        lin %= a->logical[d];
    }
    if (other == UINT32_MAX) buf_puts(&who, "other programs");
    else                     buf_printf(&who, "program %u", other - 1);
    eval_note(e, a->op->span, "race: program %lld %s %s[%s], which %s touched", (long long)e->program, what,
              e->f->launch->params[a->param].name->s, at.p ? at.p : "", who.p);
    buf_free(&at);
    buf_free(&who);
}

static void touch_all(Eval *e, const Access *a, const Places *p, int64_t n, Act act) {
    if (!a->touched) return;
    for (int64_t i = 0; i < n; i++)
        if (place_ok(p, i)) touch(e, a, place_lin(p, i), act);
}

// ---- loads ---------------------------------------------------------------------------------------

#define COPY_IN(T) \
    { \
        T *to = out; \
        const T *from = (const T *)a->data; \
        if (p->run) for (int64_t i = p->from; i < p->to; i++) to[i] = from[p->base + i * p->step]; \
        else for (int64_t i = 0; i < n; i++) if (p->off[i] != INT64_MIN) to[i] = from[p->off[i]]; \
        break; \
    }

static void copy_in(const Access *a, const Places *p, int64_t n, void *out) {
    if (p->run && p->step == 1) {
        if (p->to > p->from)
            memcpy((unsigned char *)out + p->from * a->size, a->data + (p->base + p->from) * a->size,
                   (size_t)((p->to - p->from) * a->size));
        return;
    }
    switch (a->size) {
    case 1:  COPY_IN(uint8_t)
    case 2:  COPY_IN(uint16_t)
    case 4:  COPY_IN(uint32_t)
    default: COPY_IN(uint64_t)
    }
}

static bool misses_allowed(Eval *e, const Step *s, const Access *a, int64_t misses) {
    if (!misses) return true;
    const Op *op = s->op;
    const char *name = e->f->launch ? e->f->launch->params[a->param].name->s : "tensor";
    if (op->flags & NO_BOUNDS) {
        eval_fault(e, op->span, "an access of %s said to be in range is not", name);
        return false;
    }
    if (!s->gather || op_else(op)) return true;
    if (e->opt->trap_gathers) {
        eval_fault(e, op->span, "a gather from %s is out of range", name);
        return false;
    }
    if (!e->opt->report) return true;
    if (e->opt->report->gathers == 0)
        eval_note(e, op->span, "a gather from %s is out of range and has no `else`: it reads 0", name);
    e->opt->report->gathers += misses;
    return true;
}

void eval_load(Eval *e, const Step *s) {
    const Op *op = s->op;
    const Type *t = &op->out[0]->type;
    Access  a = access_of(e, op);
    Places  p;
    Rows    r;
    Lanes   raw;
    int64_t live[MAX_AXES];
    unsigned char *out = out_tile(e, op);
    const Val *other = op_else(op);
    const Slot *filler = other ? slot_of(e, other) : NULL;
    double *bound = a.bound || (e->bounds && filler && filler->b) ? out_bound(e, op) : NULL;
    live_counts(e, t, live);
    for (rows_start(&r, s->space); rows_next(&r);) {
        int64_t alive = live_lanes(&r, live);
        for (int64_t pos = 0; pos < alive; pos += CHUNK) {
            int64_t n = alive - pos < CHUNK ? alive - pos : CHUNK, lane = r.out + pos;
            find_places(e, &a, &r, pos, n, &p);
            if (!misses_allowed(e, s, &a, p.misses)) return;
            int64_t by = stride_of(s->space, a.rank), off = r.off[a.rank] + pos * by;
            if (p.misses && other) {
                const void *fed = feed(filler->t->data, a.size, off, by, n, raw.at);
                memcpy(out + lane * a.size, fed, (size_t)(n * a.size));
            } else if (p.misses) {
                memset(out + lane * a.size, 0, (size_t)(n * a.size));
            }
            copy_in(&a, &p, n, out + lane * a.size);
            touch_all(e, &a, &p, n, ACT_READ);
            for (int64_t i = 0; bound && i < n; i++)
                bound[lane + i] = place_ok(&p, i) ? (a.bound ? a.bound[place_lin(&p, i)] : 0)
                                : filler && filler->b ? ((const double *)filler->b->data)[off + i * by] : 0;
        }
        dead_loaded(e, op, out, r.out + alive, r.n - alive);
        for (int64_t i = alive; bound && i < r.n; i++) bound[r.out + i] = 0;
    }
}

// ---- stores --------------------------------------------------------------------------------------

#define COPY_OUT(T) \
    { \
        T *to = (T *)a->data; \
        const T *from = in; \
        if (p->run) for (int64_t i = p->from; i < p->to; i++) to[p->base + i * p->step] = from[i]; \
        else for (int64_t i = 0; i < n; i++) if (p->off[i] != INT64_MIN) to[p->off[i]] = from[i]; \
        break; \
    }

static void copy_out(const Access *a, const Places *p, int64_t n, const void *in) {
    if (p->run && p->step == 1) {
        if (p->to > p->from)
            memcpy(a->data + (p->base + p->from) * a->size, (const unsigned char *)in + p->from * a->size,
                   (size_t)((p->to - p->from) * a->size));
        return;
    }
    switch (a->size) {
    case 1:  COPY_OUT(uint8_t)
    case 2:  COPY_OUT(uint16_t)
    case 4:  COPY_OUT(uint32_t)
    default: COPY_OUT(uint64_t)
    }
}

void eval_store(Eval *e, const Step *s) {
    const Op *op = s->op;
    Access  a = access_of(e, op);
    Places  p;
    Rows    r;
    Lanes   raw;
    int64_t live[MAX_AXES];
    const Slot *value = slot_of(e, op_value(op));
    Type places = op_places(op);
    live_counts(e, &places, live);
    for (rows_start(&r, s->space); rows_next(&r);) {
        int64_t alive = live_lanes(&r, live), by = stride_of(s->space, a.rank);
        for (int64_t pos = 0; pos < alive; pos += CHUNK) {
            int64_t n = alive - pos < CHUNK ? alive - pos : CHUNK, off = r.off[a.rank] + pos * by;
            find_places(e, &a, &r, pos, n, &p);
            if (!misses_allowed(e, s, &a, p.misses)) return;
            copy_out(&a, &p, n, feed(value->t->data, a.size, off, by, n, raw.at));
            touch_all(e, &a, &p, n, ACT_WRITE);
            for (int64_t i = 0; a.bound && i < n; i++)
                if (place_ok(&p, i))
                    a.bound[place_lin(&p, i)] = value->b ? ((const double *)value->b->data)[off + i * by] : 0;
        }
    }
}

void eval_row_store(Eval *e, const Step *s) { eval_store(e, s); }

// ---- pointers ------------------------------------------------------------------------------------

static int64_t lane_in(const Rows *r, int k, int64_t i) { return r->off[k] + i * stride_of(r->s, k); }

// Where a raw pointer leads: into the memory of an argument, or the kernel has a fault.
static unsigned char *pointed(Eval *e, const Op *op, uint64_t address, int size) {
    const LaunchInfo *info = e->f->launch;
    if (!e->opt->bounded) return (unsigned char *)(uintptr_t)address;
    for (int p = 0; p < info->nparams; p++) {
        const EvalTensor *t = &e->args[p].tensor;
        uint64_t from = (uint64_t)(uintptr_t)t->data;
        bool in = info->params[p].kind != PK_SCALAR && address >= from && address - from <= t->bytes && t->bytes - (address - from) >= (uint64_t)size;
        if (in) return (unsigned char *)(uintptr_t)address;
    }
    eval_fault(e, op->span, "a raw pointer leads out of the memory of the arguments");
    return NULL;
}

void eval_ptrload(Eval *e, const Step *s) {
    const Op *op = s->op;
    const Type *t = &op->out[0]->type;
    int     size = type_bytes(t), kwhere = 1, kelse = op->nin - 1;
    int64_t live[MAX_AXES];
    unsigned char *out = out_tile(e, op);
    const uint64_t *address = lanes_of(e, op->in[0]);
    const uint8_t  *where = op_where(op) ? lanes_of(e, op_where(op)) : NULL;
    const unsigned char *other = op_else(op) ? lanes_of(e, op_else(op)) : NULL;
    live_counts(e, t, live);
    Rows r;
    for (rows_start(&r, s->space); rows_next(&r);) {
        int64_t alive = live_lanes(&r, live);
        for (int64_t i = 0; i < alive; i++) {
            unsigned char *to = out + (r.out + i) * size;
            if (!where || where[lane_in(&r, kwhere, i)]) {
                const unsigned char *from = pointed(e, op, address[lane_in(&r, 0, i)], size);
                if (!from) return;
                memcpy(to, from, (size_t)size);
            } else if (other)                            memcpy(to, other + lane_in(&r, kelse, i) * size, (size_t)size);
            else                                         memset(to, 0, (size_t)size);
        }
        junk_lanes(e, t, out, r.out + alive, r.n - alive, op->out[0]->id);
    }
}

void eval_ptrstore(Eval *e, const Step *s) {
    const Op *op = s->op;
    int     size = elem_bytes((Elem)op->in[0]->type.elem);
    int64_t live[MAX_AXES];
    const uint64_t *address = lanes_of(e, op->in[0]);
    const unsigned char *value = lanes_of(e, op->in[1]);
    const uint8_t *where = op_where(op) ? lanes_of(e, op_where(op)) : NULL;
    Type places = op_places(op);
    live_counts(e, &places, live);
    Rows r;
    for (rows_start(&r, s->space); rows_next(&r);) {
        int64_t alive = live_lanes(&r, live);
        for (int64_t i = 0; i < alive; i++)
            if (!where || where[lane_in(&r, 2, i)]) {
                unsigned char *to = pointed(e, op, address[lane_in(&r, 0, i)], size);
                if (!to) return;
                memcpy(to, value + lane_in(&r, 1, i) * size, (size_t)size);
            }
    }
}

// ---- atomics -------------------------------------------------------------------------------------

// The new value, in place: `bits` of the element type combined with `v`.
static uint64_t combine(TAtomic how, const Type *t, uint64_t old, uint64_t v, uint64_t compare) {
    static const uint8_t as_binary[TA_COUNT] = {[TA_add] = OP_add, [TA_and] = OP_and, [TA_or] = OP_or, [TA_xor] = OP_xor};
    uint64_t r = v;
    Kernel  *k = NULL;
    bool     storage = elem_is_storage((Elem)t->elem);
    if (how == TA_xchg) return v;
    if (how == TA_cas) {
        int bits = elem_bits((Elem)t->elem);
        uint64_t mask = bits == 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
        return (old & mask) == (compare & mask) ? v : old;
    }
    if (how == TA_min || how == TA_max) k = kernel_fun(how == TA_min ? TF_min : TF_max, kernel_elem(t));
    else                                k = kernel_binary((AstOp)as_binary[how], kernel_elem(t));
    if (!k) return v;
    if (!storage) { k(1, &r, &old, &v, NULL); return r; }
    float x, y, z;
    kernel_widen(t)(1, &x, &old, NULL, NULL);
    kernel_widen(t)(1, &y, &v, NULL, NULL);
    k(1, &z, &x, &y, NULL);
    kernel_narrow(WIDE_F32, t)(1, &r, &z, NULL, NULL);
    return r;
}

// Sums may be taken in any order, by anyone: each addition may be off by an ulp of what is there.
static void atomic_bound(const Access *a, int64_t lin, const Slot *value, int64_t lane, const Type *t, const void *now) {
    double b = value->b ? ((const double *)value->b->data)[lane] : 0, v, after;
    lanes_to_f64(t, 1, (const unsigned char *)value->t->data + lane * a->size, &v);
    lanes_to_f64(t, 1, now, &after);
    a->bound[lin] += b + 2 * elem_unit((Elem)t->elem) * (fabs(after) + fabs(v));
}

void eval_atomic(Eval *e, const Step *s) {
    const Op *op = s->op;
    bool    tensor = op->in[0]->type.kind == TY_TENSOR;
    Access  a = {.op = op};
    Places  p;
    Rows    r;
    int64_t live[MAX_AXES];
    Type    t = type_scalar((Elem)op->in[0]->type.elem);
    int     size = type_bytes(&t), kvalue = tensor ? op->nidx : 1;
    unsigned char *out = out_tile(e, op);
    const Slot *value = slot_of(e, op_value(op));
    const unsigned char *compare = op_compare(op) ? lanes_of(e, op_compare(op)) : NULL;
    const uint8_t *where = op_where(op) ? lanes_of(e, op_where(op)) : NULL;
    if (tensor) a = access_of(e, op);
    Type places = op_places(op);
    live_counts(e, &places, live);
    for (rows_start(&r, s->space); rows_next(&r);) {
        int64_t alive = live_lanes(&r, live);
        for (int64_t pos = 0; pos < alive; pos += CHUNK) {
            int64_t n = alive - pos < CHUNK ? alive - pos : CHUNK;
            if (tensor) {
                find_places(e, &a, &r, pos, n, &p);
                touch_all(e, &a, &p, n, ACT_ATOMIC);
            }
            for (int64_t i = 0; i < n; i++) {
                int64_t  lane = pos + i;
                uint64_t old = 0, v = 0, c = 0;
                unsigned char *at = NULL;
                bool on = (!tensor || place_ok(&p, i)) && (!where || where[lane_in(&r, s->space->n - 1, lane)]);
                if (on && tensor) at = a.data + place_at(&p, i) * size;
                else if (on)
                    at = pointed(e, op, ((const uint64_t *)lanes_of(e, op->in[0]))[lane_in(&r, 0, lane)], size);
                if (on && !at) return;
                if (on) {
                    memcpy(&old, at, (size_t)size);
                    memcpy(&v, value->t->data + lane_in(&r, kvalue, lane) * size, (size_t)size);
                    if (compare) memcpy(&c, compare + lane_in(&r, kvalue + 1, lane) * size, (size_t)size);
                    uint64_t now = combine((TAtomic)op->sub, &t, old, v, c);
                    memcpy(at, &now, (size_t)size);
                    if (tensor && a.bound) atomic_bound(&a, place_lin(&p, i), value, lane_in(&r, kvalue, lane), &t, &now);
                }
                memcpy(out + (r.out + lane) * size, &old, (size_t)size);
            }
        }
        junk_lanes(e, &op->out[0]->type, out, r.out + alive, r.n - alive, op->out[0]->id);
    }
}
