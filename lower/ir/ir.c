// The tile IR's data structure: making ops and values, linking them into regions, copying and renaming.
//
// A function is a region; a region is a list of ops and some arguments; an op may own up to two
// regions. Nothing is freed (the arena goes as a whole) and no use lists are kept: whoever needs the
// uses of a value walks for them, in program order, with op_walk:
//
//     for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) ...
//
// Types may name axes, which are values. So renaming a value and copying ops go through types as
// well, and a tile's axes are kept sorted by id, so that equal types are equal arrays. ir_number
// gives new ids, in print order, and therefore sorts every type anew.

#include "lang/c_text.h"
#include "lower/ir/ir.h"

#include <string.h>

#define NONE   SUB_NONE
#define BINARY SUB_BINARY
#define FUN    SUB_FUN
#define REDUCE SUB_REDUCE
#define ATOMIC SUB_ATOMIC
#define PREC   SUB_PREC
const OpInfo op_info[OP_T_COUNT] = {
#define X(name, sub, lo, hi, out, reg, flags, level, meaning) \
    [OP_T_##name] = {#name, sub, lo, hi, out, reg, level, flags, meaning},
    TILE_OPS(X)
#undef X
};
#undef NONE
#undef BINARY
#undef FUN
#undef REDUCE
#undef ATOMIC
#undef PREC

// ---- names of the suffixes -----------------------------------------------------------------------

static const char *const binary_names[] = {
#define X(name, spelling) #name,
    OPS(X)
#undef X
};
#define X(name, ...) #name,
static const char *const fun_names[]    = {TFUNS(X)};
static const char *const reduce_names[] = {TREDUCES(X)};
static const char *const atomic_names[] = {TATOMICS(X)};
#undef X
static const char *const prec_names[] = {"default", "tf32x3", "tf32", "ieee"};

static const struct { const char *const *names; int n; } subs[] = {
    [SUB_NONE]   = {NULL, 0},
    [SUB_BINARY] = {binary_names, OP_COUNT},
    [SUB_FUN]    = {fun_names, TF_COUNT},
    [SUB_REDUCE] = {reduce_names, TR_COUNT},
    [SUB_ATOMIC] = {atomic_names, TA_COUNT},
    [SUB_PREC]   = {prec_names, 4},
};

const char *sub_name(SubTable table, int sub) {
    return sub >= 0 && sub < subs[table].n ? subs[table].names[sub] : NULL;
}

int sub_find(SubTable table, Str name) {
    for (int i = 0; i < subs[table].n; i++) {
        const char *s = subs[table].names[i];
        if (strlen(s) == name.n && memcmp(s, name.p, name.n) == 0) return i;
    }
    return -1;
}

// ---- making --------------------------------------------------------------------------------------

void fn_note(Fn *f, Span at, const char *fmt, ...) {
    char text[256];
    va_list args;
    va_start(args, fmt);
    c_vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (uint32_t i = 0; i < f->notes.n; i++)
        if (f->notes.at[i].at.lo == at.lo && strcmp(f->notes.at[i].text, text) == 0) return;
    vec_push(f->arena, &f->notes, ((FnNote){at, arena_printf(f->arena, "%s", text)}));
}

Fn *fn_new(Session *s, const TKernel *k) {
    Fn *f = NEW(session_arena(s), Fn);
    f->session = s;
    f->arena = session_arena(s);
    f->kernel = k;
    f->level = 1;
    return f;
}

Val *val_new(Fn *f, Type t) {
    Val *v = NEW(f->arena, Val);
    v->id = f->nvals++;
    v->type = t;
    return v;
}

static Region *region_new(Fn *f, Op *owner);

// More than a loop may carry: a kernel with so many values that live at once has no use of a GPU.
static void few_operands(int n) {
    if (n > UINT16_MAX) ice("an operation has more than %d operands or results", UINT16_MAX);
}

Op *op_new(Fn *f, OpCode code, Span span, int nin, Val *const *in, int nout) {
    few_operands(nin > nout ? nin : nout);
    Op *op = NEW(f->arena, Op);
    op->code = (uint16_t)code;
    op->span = span;
    op->nin = op->cap = (uint16_t)nin;
    op->nout = (uint16_t)nout;
    op->in = NEW_N(f->arena, Val *, nin);
    op->out = NEW_N(f->arena, Val *, nout);
    if (nin) memcpy(op->in, in, sizeof *in * (size_t)nin);
    for (int i = 0; i < nout; i++) {
        op->out[i] = val_new(f, (Type){0});
        op->out[i]->def = op;
    }
    op->nreg = op_info[code].regions;
    for (int i = 0; i < op->nreg; i++) op->reg[i] = region_new(f, op);
    return op;
}

Region *op_add_region(Fn *f, Op *op) {
    return op->reg[op->nreg++] = region_new(f, op);
}

static Region *region_new(Fn *f, Op *owner) {
    Region *r = NEW(f->arena, Region);
    r->owner = owner;
    return r;
}

Val *region_arg(Fn *f, Region *r, Type t) {
    Val *v = val_new(f, t);
    v->region = r;
    vec_push(f->arena, &r->args, v);
    return v;
}

void op_add_operand(Fn *f, Op *op, Val *v) {
    op_insert_operand(f, op, op->nin, v);
}

void op_insert_operand(Fn *f, Op *op, int at, Val *v) {
    if (op->nin == op->cap) {
        few_operands(op->nin + 1);
        uint16_t cap = (uint16_t)(op->cap > UINT16_MAX / 2 ? UINT16_MAX : op->cap ? op->cap * 2 : 4);
        Val **in = NEW_N(f->arena, Val *, cap);
        if (op->nin) memcpy(in, op->in, sizeof *in * op->nin);
        op->in = in;
        op->cap = cap;
    }
    memmove(op->in + at + 1, op->in + at, sizeof *op->in * (size_t)(op->nin - at));
    op->in[at] = v;
    op->nin++;
}

void op_remove_operand(Op *op, int at) {
    memmove(op->in + at, op->in + at + 1, sizeof *op->in * (size_t)(op->nin - at - 1));
    op->nin--;
}

// ---- lists ---------------------------------------------------------------------------------------

void op_append(Region *r, Op *op) {
    op->parent = r;
    op->prev = r->last;
    op->next = NULL;
    if (r->last) r->last->next = op; else r->first = op;
    r->last = op;
}

void op_before(Op *at, Op *op) {
    op->parent = at->parent;
    op->prev = at->prev;
    op->next = at;
    if (at->prev) at->prev->next = op; else at->parent->first = op;
    at->prev = op;
}

void op_after(Op *at, Op *op) {
    if (at->next) op_before(at->next, op);
    else          op_append(at->parent, op);
}

void op_remove(Op *op) {
    if (op->prev) op->prev->next = op->next; else op->parent->first = op->next;
    if (op->next) op->next->prev = op->prev; else op->parent->last = op->prev;
    op->prev = op->next = NULL;
    op->parent = NULL;
}

bool op_has(const Op *op, char flag) {
    return strchr(op_info[op->code].flags, flag) != NULL;
}

bool op_inside(const Op *op, const Region *r) {
    const Region *at = op->parent;
    while (at && at != r) at = at->owner ? at->owner->parent : NULL;
    return at == r;
}

static Op *first_inside(const Op *op, int from) {
    for (int i = from; i < op->nreg; i++)
        if (op->reg[i]->first) return op->reg[i]->first;
    return NULL;
}

Op *op_walk(const Region *root, const Op *prev) {
    if (!prev) return root->first;
    Op *in = first_inside(prev, 0);
    if (in) return in;
    for (;;) {
        if (prev->next) return prev->next;
        if (prev->parent == root) return NULL;
        const Region *r = prev->parent;
        prev = r->owner;
        int at = 0;
        while (prev->reg[at] != r) at++;
        in = first_inside(prev, at + 1);
        if (in) return in;
    }
}

bool region_leaves_early(const Region *r) {
    for (const Op *op = op_walk(r, NULL); op; op = op_walk(r, op))
        if (op->code == OP_T_break || op->code == OP_T_continue) return true;
    return false;
}

Op *op_target(const Op *op) {
    if (op->code != OP_T_break && op->code != OP_T_continue) return NULL;
    int64_t depth = op->imm;
    const Region *r = op->parent;
    for (Op *at = r ? r->owner : NULL; at; r = at->parent, at = r ? r->owner : NULL) {
        bool loop = at->code == OP_T_for || (at->code == OP_T_while && r == at->reg[1]);
        if (loop && depth-- == 0) return at;
    }
    return NULL;
}

// ---- types ---------------------------------------------------------------------------------------

Type type_scalar(Elem e) {
    return (Type){.kind = TY_TILE, .elem = (uint8_t)e};
}

static void type_add_axis(Type *t, Val *axis) {
    int at = 0;
    while (at < t->rank && t->axis[at]->id < axis->id) at++;
    if (at < t->rank && t->axis[at] == axis) return;
    if (t->rank == MAX_AXES) ice("a tile of more than %d axes", MAX_AXES);
    memmove(t->axis + at + 1, t->axis + at, sizeof *t->axis * (size_t)(t->rank - at));
    t->axis[at] = axis;
    t->rank++;
}

Type type_tile(Elem e, int naxes, Val *const *axes) {
    Type t = type_scalar(e);
    for (int i = 0; i < naxes; i++) type_add_axis(&t, axes[i]);
    return t;
}

Type type_with(Type t, Elem e) {
    t.elem = (uint8_t)e;
    t.ptr = false;
    return t;
}

Type type_union(Type a, Type b) {
    for (int i = 0; i < b.rank; i++) type_add_axis(&a, b.axis[i]);
    return a;
}

Type type_minus(Type t, int n, Val *const *axes) {
    int kept = 0;
    for (int i = 0; i < t.rank; i++) {
        bool drop = false;
        for (int j = 0; j < n; j++) drop |= t.axis[i] == axes[j];
        if (!drop) t.axis[kept++] = t.axis[i];
    }
    for (int i = kept; i < t.rank; i++) t.axis[i] = NULL;
    t.rank = (uint8_t)kept;
    return t;
}

int type_axis(const Type *t, const Val *axis) {
    for (int i = 0; i < t->rank && t->kind == TY_TILE; i++)
        if (t->axis[i] == axis) return i;
    return -1;
}

bool type_equal(const Type *a, const Type *b) {
    if (a->kind != b->kind || a->elem != b->elem || a->ptr != b->ptr || a->rank != b->rank || a->swizzle != b->swizzle)
        return false;
    int shape = a->kind == TY_AXIS || a->kind == TY_MBAR ? 1 : a->kind == TY_BUFFER ? a->rank : 0;
    if (type_apart(a) != type_apart(b)) return false;
    for (int i = 0; i < shape; i++)
        if (a->shape[i] != b->shape[i]) return false;
    for (int i = 0; i < a->rank; i++) {
        if (a->kind == TY_TILE && a->axis[i] != b->axis[i]) return false;
        if (a->kind == TY_BUFFER && a->order[i] != b->order[i]) return false;
    }
    return true;
}

int64_t type_apart(const Type *t) { return t->kind == TY_BUFFER && t->rank < MAX_AXES ? t->shape[t->rank] : 0; }

int64_t type_lanes(const Type *t) {
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++) n *= t->kind == TY_TILE ? axis_extent(t->axis[i]) : t->shape[i];
    return n;
}

static void type_sort(Type *t) {
    if (t->kind != TY_TILE) return;
    for (int i = 1; i < t->rank; i++) {
        Val *axis = t->axis[i];
        int  at = i;
        for (; at > 0 && t->axis[at - 1]->id > axis->id; at--) t->axis[at] = t->axis[at - 1];
        t->axis[at] = axis;
    }
}

// ---- renaming ------------------------------------------------------------------------------------

static void type_replace(Type *t, Val *from, Val *to) {
    if (type_axis(t, from) < 0) return;
    Type less = type_minus(*t, 1, &from);
    type_add_axis(&less, to);
    *t = less;
}

int region_uses(const Region *in, const Val *v) {
    int n = 0;
    for (const Op *op = op_walk(in, NULL); op; op = op_walk(in, op))
        for (int i = 0; i < op->nin; i++) n += op->in[i] == v;
    return n;
}

void replace_uses(Region *in, Val *from, Val *to) {
    bool axis = from->type.kind == TY_AXIS;
    for (Op *op = op_walk(in, NULL); op; op = op_walk(in, op)) {
        for (int i = 0; i < op->nin; i++)
            if (op->in[i] == from) op->in[i] = to;
        if (!axis) continue;
        for (int i = 0; i < op->nout; i++) type_replace(&op->out[i]->type, from, to);
        for (int k = 0; k < op->nreg; k++)
            for (uint32_t i = 0; i < op->reg[k]->args.n; i++) type_replace(&op->reg[k]->args.at[i]->type, from, to);
    }
}

bool val_used(const Region *in, const Val *v) {
    bool axis = v->type.kind == TY_AXIS;
    for (const Op *op = op_walk(in, NULL); op; op = op_walk(in, op)) {
        for (int i = 0; i < op->nin; i++)
            if (op->in[i] == v) return true;
        if (!axis) continue;
        for (int i = 0; i < op->nout; i++)
            if (type_axis(&op->out[i]->type, v) >= 0) return true;
        for (int k = 0; k < op->nreg; k++)
            for (uint32_t i = 0; i < op->reg[k]->args.n; i++)
                if (type_axis(&op->reg[k]->args.at[i]->type, v) >= 0) return true;
    }
    return false;
}

static uint32_t number_region(Region *r, uint32_t n) {
    for (uint32_t i = 0; i < r->args.n; i++) r->args.at[i]->id = n++;
    for (Op *op = r->first; op; op = op->next) {
        for (int i = 0; i < op->nout; i++) op->out[i]->id = n++;
        for (int k = 0; k < op->nreg; k++) n = number_region(op->reg[k], n);
    }
    return n;
}

void ir_number(Fn *f) {
    f->nvals = number_region(&f->body, 0);
    for (Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) {
        for (int i = 0; i < op->nout; i++) type_sort(&op->out[i]->type);
        for (int k = 0; k < op->nreg; k++)
            for (uint32_t i = 0; i < op->reg[k]->args.n; i++) type_sort(&op->reg[k]->args.at[i]->type);
    }
}

// ---- copying -------------------------------------------------------------------------------------

Val *map_get(const ValMap *m, Val *v) {
    return v && v->id < m->n && m->at[v->id] ? m->at[v->id] : v;
}

void map_set(ValMap *m, Val *from, Val *to) {
    if (from->id >= m->n) {
        uint32_t n = m->n ? m->n : 64;
        while (n <= from->id) n *= 2;
        Val **at = NEW_N(m->arena, Val *, n);
        if (m->n) memcpy(at, m->at, sizeof *at * m->n);
        m->at = at;
        m->n = n;
    }
    m->at[from->id] = to;
}

Type map_type(const ValMap *m, Type t) {
    if (t.kind != TY_TILE) return t;
    Type r = t;
    r.rank = 0;
    for (int i = 0; i < t.rank; i++) r.axis[i] = NULL;
    for (int i = 0; i < t.rank; i++) type_add_axis(&r, map_get(m, t.axis[i]));
    return r;
}

static void val_copy(Val *to, const Val *from, const ValMap *m) {
    to->type = map_type(m, from->type);
    to->name = from->name;
    to->layout = from->layout;
}

Op *op_clone(Fn *f, const Op *op, ValMap *m) {
    Op *c = op_new(f, (OpCode)op->code, op->span, op->nin, op->in, op->nout);
    c->sub = op->sub;
    c->flags = op->flags;
    c->nidx = op->nidx;
    c->imm = op->imm;
    c->attr = op->attr;
    c->str = op->str;
    for (int i = 0; i < op->nin; i++) c->in[i] = map_get(m, op->in[i]);
    for (int i = 0; i < op->nout; i++) {
        val_copy(c->out[i], op->out[i], m);
        map_set(m, op->out[i], c->out[i]);
    }
    while (c->nreg < op->nreg) op_add_region(f, c);
    for (int k = 0; k < op->nreg; k++) {
        const Region *r = op->reg[k];
        for (uint32_t i = 0; i < r->args.n; i++) {
            Val *arg = region_arg(f, c->reg[k], (Type){0});
            val_copy(arg, r->args.at[i], m);
            map_set(m, r->args.at[i], arg);
        }
        region_clone(f, r, c->reg[k], NULL, m);
    }
    return c;
}

void region_clone(Fn *f, const Region *from, Region *into, Op *at, ValMap *m) {
    if (!m->arena) m->arena = f->arena;
    const Op *last = from->last;
    for (const Op *op = from->first; op; op = op == last ? NULL : op->next) {
        Op *c = op_clone(f, op, m);
        if (at) op_before(at, c);
        else    op_append(into, c);
    }
}

// ---- the builder ---------------------------------------------------------------------------------

void b_insert(Builder *b, Op *op) {
    if (b->before) op_before(b->before, op);
    else           op_append(b->r, op);
}

Val *b_op(Builder *b, OpCode code, int sub, Type t, int nin, Val *const *in) {
    Op *op = op_new(b->f, code, b->span, nin, in, t.kind != TY_NONE);
    op->sub = (uint8_t)sub;
    if (op->nout) op->out[0]->type = t;
    b_insert(b, op);
    return op->nout ? op->out[0] : NULL;
}

Val *b_const(Builder *b, Elem e, int64_t v) {
    Val *c = b_op(b, OP_T_const, 0, type_scalar(e), 0, NULL);
    c->def->imm = v;
    return c;
}

Val *b_float(Builder *b, Elem e, double v) {
    int64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return b_const(b, e, bits);
}

bool slice_axes(const Type *whole, const Type *slice, int *divided, int *own) {
    int n = 0, k = 0;
    for (int i = 0; i < whole->rank; i++) if (type_axis(slice, whole->axis[i]) < 0) { *divided = i; n++; }
    for (int i = 0; i < slice->rank; i++) if (type_axis(whole, slice->axis[i]) < 0) { *own = i; k++; }
    return n == 1 && k == 1 && whole->elem == slice->elem && whole->ptr == slice->ptr;
}

const Op *put_scattered(const Fn *f) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) if (op_put_in(op) == PUT_scattered) return op;
    return NULL;
}

int op_put_in(const Op *op) { return op->code == OP_T_part_put ? (int)op->attr : -1; }

bool op_meets(const Op *op) {
    return op->code == OP_T_join_cluster || op->code == OP_T_from_cluster || op->code == OP_T_drawn;
}

bool op_compares(AstOp op) {
    return op >= OP_eq && op <= OP_ge;
}

Val *b_binary(Builder *b, AstOp op, Val *a, Val *c) {
    Type t = type_union(a->type, c->type);
    if (op_compares(op)) t = type_with(t, EL_bool);
    return b_op(b, OP_T_binary, op, t, 2, (Val *[]){a, c});
}

Val *b_cast(Builder *b, Elem e, Val *a) {
    return b_op(b, OP_T_cast, 0, type_with(a->type, e), 1, &a);
}

// ---- operands by role ----------------------------------------------------------------------------

Val *op_else(const Op *op) {
    return op->flags & HAS_ELSE ? op->in[op->nin - 1] : NULL;
}

int op_boxes(const Op *op) {
    int n = op->nin - 4 - !!(op->flags & HAS_WHERE);
    return n % op->nidx ? 1 : n / op->nidx;
}

Val *op_where(const Op *op) {
    if (!(op->flags & HAS_WHERE)) return NULL;
    return op->in[op->code == OP_T_ptrload ? 1 : op->nin - 1];
}

Val *op_acc(const Op *op) {
    return op->flags & HAS_ACC ? op->in[op->code == OP_T_wgmma ? 4 : 2] : NULL;
}

Val *op_low(const Op *op) {
    int first = 7 + ((op->flags & HAS_ACC) != 0);
    return op->nin > first ? op->in[first] : NULL;
}

bool op_in_pairs(const Op *op) {
    return op->code == OP_T_wgmma && op->in[0]->type.kind == TY_BUFFER && elem_bytes((Elem)op->in[0]->type.elem) == 1 && (op->attr & 1);
}

bool op_is_elementwise(const Op *op) {
    switch (op->code) {
    case OP_T_unary: case OP_T_binary: case OP_T_select: case OP_T_cast: case OP_T_bitcast: case OP_T_fun: case OP_T_splat:
        return true;
    default: return false;
    }
}

bool op_mixes_lanes(const Op *op) {
    switch (op->code) {
    case OP_T_reduce: case OP_T_scan: case OP_T_scan_by: case OP_T_reduce_by: case OP_T_sort: case OP_T_order: case OP_T_take: return true;
    default: return false;
    }
}

bool op_joins(const Op *op) { return op->code == OP_T_scan_by || op->code == OP_T_reduce_by; }

int op_first_axis(const Op *op) {
    switch (op->code) {
    case OP_T_reduce: case OP_T_scan: case OP_T_sort: case OP_T_order: return 1;
    case OP_T_scan_by: case OP_T_reduce_by: return op->nin - 1;
    case OP_T_take: return 2;
    case OP_T_dot: return 2 + !!(op->flags & HAS_ACC);
    default: return op->nin;
    }
}

Val *op_value(const Op *op) {
    switch (op->code) {
    case OP_T_store:    return op->in[op->nin - 1];
    case OP_T_ptrstore: return op->in[1];
    case OP_T_row_store: case OP_T_atomic: return op->in[1 + op->nidx];
    default:            return NULL;
    }
}

Val *op_compare(const Op *op) {
    return op->code == OP_T_atomic && op->sub == TA_cas ? op->in[2 + op->nidx] : NULL;
}

// A store's value may lack axes of its indices but has none of its own; every lane of an atomic's value acts.
Type op_places(const Op *op) {
    bool tensor = op->in[0]->type.kind == TY_TENSOR, all = op->code == OP_T_atomic;
    Type t = type_scalar(EL_none);
    int  last = all ? op->nin - 1 : tensor ? op->nidx : 0;
    for (int i = tensor; i <= last; i++) t = type_union(t, op->in[i]->type);
    return op_where(op) ? type_union(t, op_where(op)->type) : t;
}
