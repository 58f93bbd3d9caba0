// Index expressions over rows. The expressions are put in one list, sources first. What does not vary along the row's axis
// is one number; what does is an array; and what varies with nothing else is computed once. So a view with a division in it
// costs a few machine operations for each element rather than a walk over a tree.

#include "graph/ref/internal.h"

#include "graph/ix/internal.h"

#include <string.h>

typedef struct Step {
    Ix       e;
    int     *arg;                // steps
    bool     along;              // varies along the row
    bool     across;             // varies from row to row
    bool     done;
    int64_t  one;                // !along
    int64_t *many;
} Step;

struct IxRows {
    Run *run;
    int  rank, axis, nroots;
    int64_t shape[G_MAX_RANK], at[G_MAX_RANK];
    bool started, empty;
    VEC(Step) step;
    int *root;
    int64_t **spread;            // by root: a number repeated
};

bool ix_value(Run *r, Ix e, int64_t *to) {
    if (e->kind == IX_DIM && !r->bound[e->value])
        return run_fail(r, "the size `%s` is not known", ix_dim_info(r->g, e)->name);
    for (uint32_t i = 0; i < e->n; i++) {
        int64_t unused;
        if (e->has_dim && !ix_value(r, e->arg[i], &unused)) return false;
    }
    *to = ix_eval(e, r->dims, NULL);
    return true;
}

bool ix_affine_in(Run *r, Ix e, int rank, int64_t *coef, int64_t *offset) {
    int64_t c, v;
    if (!e->has_axis) {
        if (!ix_value(r, e, &v)) return false;
        *offset = v;
        for (int i = 0; i < rank; i++) coef[i] = 0;
        return true;
    }
    int64_t part[G_MAX_RANK];
    switch ((IxKind)e->kind) {
    case IX_AXIS:
        if (e->value >= rank) return false;
        for (int i = 0; i < rank; i++) coef[i] = i == e->value;
        *offset = 0;
        return true;
    case IX_SUM:
        *offset = e->value;
        for (int i = 0; i < rank; i++) coef[i] = 0;
        for (uint32_t k = 0; k < e->n; k++) {
            if (!ix_affine_in(r, e->arg[k], rank, part, &c)) return false;
            *offset += e->coef[k] * c;
            for (int i = 0; i < rank; i++) coef[i] += e->coef[k] * part[i];
        }
        return true;
    case IX_PROD: {
        Ix moving = NULL;
        int64_t by = 1;
        for (uint32_t k = 0; k < e->n; k++) {
            if (e->arg[k]->has_axis) {
                if (moving) return false;
                moving = e->arg[k];
            } else {
                if (!ix_value(r, e->arg[k], &v)) return false;
                by *= v;
            }
        }
        if (!ix_affine_in(r, moving, rank, coef, offset)) return false;
        *offset *= by;
        for (int i = 0; i < rank; i++) coef[i] *= by;
        return true;
    }
    default: return false;
    }
}

static int add_step(IxRows *p, Ix e) {
    Run *r = p->run;
    for (uint32_t i = 0; i < p->step.n; i++)
        if (p->step.at[i].e == e) return (int)i;
    Step s = {.e = e};
    if (e->kind == IX_DIM && !r->bound[e->value]) {
        run_fail(r, "the size `%s` is not known", ix_dim_info(r->g, e)->name);
        return 0;
    }
    if (e->kind == IX_AXIS) {
        if (e->value >= p->rank) {
            run_fail(r, "an index expression uses axis %d of %d", (int)e->value, p->rank);
            return 0;
        }
        s.along = e->value == p->axis;
        s.across = !s.along;
    } else {
        s.arg = NEW_N(r->arena, int, e->n);
        for (uint32_t i = 0; i < e->n; i++) {
            s.arg[i] = add_step(p, e->arg[i]);
            if (r->failed) return 0;
            s.along |= p->step.at[s.arg[i]].along;
            s.across |= p->step.at[s.arg[i]].across;
        }
    }
    if (s.along) s.many = NEW_N(r->arena, int64_t, p->shape[p->axis]);
    vec_push(r->arena, &p->step, s);
    return (int)p->step.n - 1;
}

IxRows *ixrows_new(Run *r, const Ix *root, int nroots, int rank, const int64_t *shape) {
    IxRows *p = NEW(r->arena, IxRows);
    p->run = r;
    p->rank = rank;
    p->nroots = nroots;
    p->axis = -1;
    for (int i = 0; i < rank; i++) {
        p->shape[i] = shape[i];
        p->empty |= shape[i] == 0;
        if (p->axis < 0 || shape[i] >= shape[p->axis]) p->axis = i;
    }
    if (p->empty) return p;
    p->root = NEW_N(r->arena, int, nroots);
    p->spread = NEW_N(r->arena, int64_t *, nroots);
    int64_t n = rank ? p->shape[p->axis] : 1;
    for (int i = 0; i < nroots; i++) {
        if (!root[i]) continue;
        p->root[i] = add_step(p, root[i]);
        if (r->failed) return NULL;
        if (!p->step.at[p->root[i]].along) p->spread[i] = NEW_N(r->arena, int64_t, n);
    }
    return p;
}

int ixrows_axis(const IxRows *p) { return p->axis; }
const int64_t *ixrows_at(const IxRows *p) { return p->at; }

#define EACH(expr) \
    if (b) for (int64_t i = 0; i < n; i++) { int64_t x = a[i], y = b[i]; to[i] = (expr); } \
    else for (int64_t i = 0; i < n; i++) { int64_t x = a[i], y = c; to[i] = (expr); } \
    break

static void apply_row(IxKind kind, int64_t n, const int64_t *a, const int64_t *b, int64_t c, int64_t *to) {
    switch (kind) {                                          // b NULL: the number c
    case IX_DIV: EACH(int_div_floor(x, y));
    case IX_MOD: EACH(int_mod_floor(x, y));
    case IX_MIN: EACH(x < y ? x : y);
    case IX_MAX: EACH(x > y ? x : y);
    case IX_LT: EACH(x < y);
    case IX_EQ: EACH(x == y);
    case IX_AND: EACH(x & y);
    case IX_OR: EACH(x | y);
    default: EACH(ix_apply(kind, x, y));
    }
}

static void step_one(IxRows *p, Step *s) {
    Ix e = s->e;
    switch ((IxKind)e->kind) {
    case IX_CONST: s->one = e->value; return;
    case IX_DIM: s->one = p->run->dims[e->value]; return;
    case IX_AXIS: s->one = p->at[e->value]; return;
    case IX_SUM:
        s->one = e->value;
        for (uint32_t i = 0; i < e->n; i++)
            s->one = ix_apply(IX_SUM, s->one, ix_apply(IX_PROD, e->coef[i], p->step.at[s->arg[i]].one));
        return;
    default:
        s->one = p->step.at[s->arg[0]].one;
        for (uint32_t i = 1; i < e->n; i++) s->one = ix_apply((IxKind)e->kind, s->one, p->step.at[s->arg[i]].one);
    }
}

static void step_sum(IxRows *p, Step *s, int64_t n) {
    int64_t *to = s->many;
    uint64_t c0 = (uint64_t)s->e->value;                     // what overflows wraps, as in ix_eval
    for (uint32_t k = 0; k < s->e->n; k++)
        if (!p->step.at[s->arg[k]].along) c0 += (uint64_t)s->e->coef[k] * (uint64_t)p->step.at[s->arg[k]].one;
    bool first = true;
    for (uint32_t k = 0; k < s->e->n; k++) {
        const Step *a = &p->step.at[s->arg[k]];
        uint64_t c = (uint64_t)s->e->coef[k];
        if (!a->along) continue;
        if (first) for (int64_t i = 0; i < n; i++) to[i] = (int64_t)(c0 + c * (uint64_t)a->many[i]);
        else for (int64_t i = 0; i < n; i++) to[i] = (int64_t)((uint64_t)to[i] + c * (uint64_t)a->many[i]);
        first = false;
    }
}

static void step_many(IxRows *p, Step *s, int64_t n) {
    Ix e = s->e;
    if (e->kind == IX_AXIS) {
        for (int64_t i = 0; i < n; i++) s->many[i] = i;
        return;
    }
    if (e->kind == IX_SUM) {
        step_sum(p, s, n);
        return;
    }
    const Step *a = &p->step.at[s->arg[0]];
    if (!a->along) for (int64_t i = 0; i < n; i++) s->many[i] = a->one;
    for (uint32_t k = 1; k < e->n; k++) {
        const Step *b = &p->step.at[s->arg[k]];
        apply_row((IxKind)e->kind, n, k == 1 && a->along ? a->many : s->many, b->along ? b->many : NULL, b->one, s->many);
    }
}

static void evaluate(IxRows *p) {
    int64_t n = p->rank ? p->shape[p->axis] : 1;
    for (uint32_t i = 0; i < p->step.n; i++) {
        Step *s = &p->step.at[i];
        if (s->done && !s->across) continue;
        if (s->along) step_many(p, s, n);
        else step_one(p, s);
        s->done = true;
    }
    for (int k = 0; k < p->nroots; k++) {
        if (!p->spread[k]) continue;
        const Step *s = &p->step.at[p->root[k]];
        for (int64_t i = 0; i < n; i++) p->spread[k][i] = s->one;
    }
}

bool ixrows_next(IxRows *p) {
    if (p->empty) return false;
    if (p->started) {
        int d = p->rank - 1;
        for (; d >= 0; d--) {
            if (d == p->axis) continue;
            if (++p->at[d] < p->shape[d]) break;
            p->at[d] = 0;
        }
        if (d < 0) return false;
    }
    p->started = true;
    evaluate(p);
    return true;
}

const int64_t *ixrows_values(const IxRows *p, int root) {
    return p->spread[root] ? p->spread[root] : p->step.at[p->root[root]].many;
}
