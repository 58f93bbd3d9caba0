// Checks tile IR and reports everything that it finds, a line each:
//
//     %7 = binary.add %5, %6 : f32[%n.4]      -- operands differ in element type: f32 and i32
//
// Two kinds of rules. Those of the table hold for every op alike: counts of operands, results and
// regions, the level, the suffix, terminators at the end of regions and nowhere else, operands and
// the axes of types that dominate their use, axes sorted. The rest is one function an op, check_<op>,
// named by the row: a new row without its rules is a link error.

#include "lang/c_text.h"
#include "lower/ir/verify.h"

#include <inttypes.h>
#include <string.h>

void problem(Check *c, const char *fmt, ...) {
    char words[400];
    va_list args;
    va_start(args, fmt);
    c_vsnprintf(words, sizeof words, fmt, args);
    va_end(args);
    c->problems++;
    if (!c->out) return;
    if (c->op) op_line(c->f, c->op, c->out);
    buf_printf(c->out, "  -- %s\n", words);
}

// ---- questions about types -----------------------------------------------------------------------

static bool same_axes(const Type *a, const Type *b) {
    return a->rank == b->rank && memcmp(a->axis, b->axis, sizeof *a->axis * a->rank) == 0;
}

static bool axes_within(const Type *part, const Type *whole) {
    for (int i = 0; i < part->rank; i++)
        if (type_axis(whole, part->axis[i]) < 0) return false;
    return true;
}

static Type union_of(const Op *op, int from, int to) {
    Type t = type_scalar(EL_none);
    for (int i = from; i < to; i++)
        if (is_tile(op->in[i])) t = type_union(t, op->in[i]->type);
    return t;
}

void want_scalar_int(Check *c, const Op *op, int i, const char *what) {
    if (!is_scalar(op->in[i]) || !is_int(op->in[i])) problem(c, "%s must be an integer scalar", what);
}

static void want_axes(Check *c, const Op *op, const Type *want) {
    if (!is_tile(op->out[0])) problem(c, "the result is not a tile");
    else if (!same_axes(&op->out[0]->type, want)) problem(c, "the result's axes are not those of the operands");
}

static void want_elem(Check *c, const Op *op, Elem e, bool ptr) {
    const Type *t = &op->out[0]->type;
    if (t->elem != e || t->ptr != ptr) problem(c, "the result's element type should be %s%s", ptr ? "*" : "", elem_name(e));
}

static void want_same_elem(Check *c, const Op *op, int i, int k) {
    const Type *a = &op->in[i]->type, *b = &op->in[k]->type;
    if (a->elem != b->elem || a->ptr != b->ptr)
        problem(c, "operands differ in element type: %s%s and %s%s", a->ptr ? "*" : "", elem_name((Elem)a->elem), b->ptr ? "*" : "", elem_name((Elem)b->elem));
}

bool want_tiles(Check *c, const Op *op, int from, int to) {
    for (int i = from; i < to; i++)
        if (!is_tile(op->in[i])) {
            problem(c, "operand %d is not a tile", i);
            return false;
        }
    return true;
}

static void elementwise_of(Check *c, const Op *op, int n) {
    Type t = union_of(op, 0, n);
    want_axes(c, op, &t);
}

static void elementwise(Check *c, const Op *op) { elementwise_of(c, op, op->nin); }

// ---- values --------------------------------------------------------------------------------------

static void check_const(Check *c, const Op *op) {
    Elem e = elem_of(op->out[0]);
    if (!is_scalar(op->out[0]) || op->out[0]->type.ptr) { problem(c, "a const is a scalar number"); return; }
    if (e == EL_bool && op->imm != 0 && op->imm != 1) problem(c, "a bool is 0 or 1");
    int bits = elem_bits(e);
    if (!elem_is_int(e) || bits == 64) return;
    bool fits = elem_is_signed(e) ? op->imm >= -(INT64_C(1) << (bits - 1)) && op->imm < INT64_C(1) << (bits - 1)
                                  : op->imm >= 0 && op->imm < INT64_C(1) << bits;
    if (!fits) problem(c, "%" PRId64 " does not fit in %s", op->imm, elem_name(e));
}

void index_scalar(Check *c, const Op *op) {
    if (!is_scalar(op->out[0]) || elem_of(op->out[0]) != EL_index) problem(c, "the result must be an index scalar");
}

static void check_dim(Check *c, const Op *op) {
    index_scalar(c, op);
    if (c->f->launch && (op->imm < 0 || op->imm >= c->f->launch->ndims)) problem(c, "there is no dimension %" PRId64, op->imm);
}

static const LaunchParam *param_of(Check *c, const Op *op) {
    const LaunchInfo *l = c->f->launch;
    if (l && (op->imm < 0 || op->imm >= l->nparams)) problem(c, "there is no parameter %" PRId64, op->imm);
    return l && op->imm >= 0 && op->imm < l->nparams ? &l->params[op->imm] : NULL;
}

static void check_scalar(Check *c, const Op *op) {
    const LaunchParam *p = param_of(c, op);
    if (!is_scalar(op->out[0])) problem(c, "the result must be a scalar");
    if (p && (p->kind == PK_TENSOR || p->elem != elem_of(op->out[0]) || (p->kind == PK_POINTER) != op->out[0]->type.ptr))
        problem(c, "parameter %s has another type", p->name->s);
}

static void check_tensor(Check *c, const Op *op) {
    const LaunchParam *p = param_of(c, op);
    const Type *t = &op->out[0]->type;
    if (t->kind != TY_TENSOR) problem(c, "the result must be a tensor");
    else if (p && (p->kind != PK_TENSOR || p->elem != (Elem)t->elem || p->rank != t->rank)) problem(c, "parameter %s has another type", p->name->s);
}

static void check_extent(Check *c, const Op *op) {
    const Type *t = &op->in[0]->type;
    index_scalar(c, op);
    if (t->kind != TY_TENSOR) problem(c, "the operand must be a tensor");
    else if (op->imm < 0 || op->imm >= t->rank) problem(c, "the tensor has no dimension %" PRId64, op->imm);
}

static void check_program(Check *c, const Op *op)  { index_scalar(c, op); }
static void check_programs(Check *c, const Op *op) { index_scalar(c, op); }
static void check_walkers(Check *c, const Op *op)  { index_scalar(c, op); }
static void check_slice(Check *c, const Op *op)    { index_scalar(c, op); }

static void check_axis(Check *c, const Op *op) {
    const Type *t = &op->out[0]->type;
    want_scalar_int(c, op, 0, "the lower bound");
    want_scalar_int(c, op, 1, "the upper bound");
    if (op->nin > 2) want_scalar_int(c, op, 2, "the places before the first element");
    if (t->kind != TY_AXIS) problem(c, "the result must be an axis");
    else if (t->shape[0] != op->imm) problem(c, "the axis has %" PRId64 " elements, its type says %" PRId64, op->imm, t->shape[0]);
    if (op->imm < 0) problem(c, "an axis cannot have %" PRId64 " elements", op->imm);
}

static void of_axis(Check *c, const Op *op, Elem e) {
    if (op->in[0]->type.kind != TY_AXIS) { problem(c, "the operand must be an axis"); return; }
    Type t = type_tile(e, 1, op->in);
    if (!type_equal(&t, &op->out[0]->type)) problem(c, "the result must be a tile of %s over the axis", elem_name(e));
}

static void check_index(Check *c, const Op *op) { of_axis(c, op, EL_index); }
static void check_live(Check *c, const Op *op)  { of_axis(c, op, EL_bool); }

// ---- elementwise ---------------------------------------------------------------------------------

static void check_unary(Check *c, const Op *op) {
    if (!want_tiles(c, op, 0, 1)) return;
    elementwise(c, op);
    want_elem(c, op, elem_of(op->in[0]), false);
    bool ok = op->sub == OP_neg ? is_int(op->in[0]) || is_real(op->in[0]) : op->sub == OP_not ? is_bool(op->in[0]) : op->sub == OP_bnot && is_int(op->in[0]);
    if (!ok) problem(c, "no such unary op on %s", elem_name(elem_of(op->in[0])));
}

static bool binary_ok(AstOp o, const Val *v) {
    if (o == OP_add || o == OP_sub || o == OP_mul || o == OP_div) return is_int(v) || is_real(v);
    if (o == OP_rem || o == OP_shl || o == OP_shr) return is_int(v);
    if (o == OP_and || o == OP_or || o == OP_xor) return is_int(v) || is_bool(v);
    return op_compares(o);
}

static void check_binary(Check *c, const Op *op) {
    if (!want_tiles(c, op, 0, 2)) return;
    AstOp o = (AstOp)op->sub;
    elementwise(c, op);
    if (op->in[0]->type.ptr && (o == OP_add || o == OP_sub)) {       // a pointer moves by elements
        if (!is_int(op->in[1])) problem(c, "a pointer moves by an integer");
        want_elem(c, op, elem_of(op->in[0]), true);
        return;
    }
    want_same_elem(c, op, 0, 1);
    want_elem(c, op, op_compares(o) ? EL_bool : elem_of(op->in[0]), false);
    if (op->in[0]->type.ptr ? !op_compares(o) : !binary_ok(o, op->in[0])) problem(c, "no such binary op on %s", elem_name(elem_of(op->in[0])));
}

static void check_select(Check *c, const Op *op) {
    if (!want_tiles(c, op, 0, 3)) return;
    elementwise(c, op);
    if (!is_bool(op->in[0])) problem(c, "the condition must be bool");
    want_same_elem(c, op, 1, 2);
    want_elem(c, op, elem_of(op->in[1]), op->in[1]->type.ptr);
}

static void check_cast(Check *c, const Op *op) {
    if (!want_tiles(c, op, 0, 1)) return;
    elementwise(c, op);
    if (op->in[0]->type.ptr || op->out[0]->type.ptr) problem(c, "a pointer is not a number: bitcast it");
}

static void check_bitcast(Check *c, const Op *op) {
    if (!want_tiles(c, op, 0, 1)) return;
    elementwise(c, op);
    const Type *a = &op->in[0]->type, *b = &op->out[0]->type;
    if ((a->ptr ? 64 : elem_bits((Elem)a->elem)) != (b->ptr ? 64 : elem_bits((Elem)b->elem))) problem(c, "the widths differ");
}

static void check_fun(Check *c, const Op *op) {
    static const struct { uint8_t n; char cls; } rule[TF_COUNT] = {
#define X(name, n, cls, meaning) {n, #cls[0]},
        TFUNS(X)
#undef X
    };
    if (!want_tiles(c, op, 0, op->nin)) return;
    elementwise(c, op);
    if (op->nin != rule[op->sub].n) problem(c, "the function takes %d operands", rule[op->sub].n);
    for (int i = 1; i < op->nin; i++) want_same_elem(c, op, 0, i);
    want_elem(c, op, op->sub == TF_isnan ? EL_bool : elem_of(op->in[0]), false);
    const Val *x = op->in[0];
    bool any = op->sub == TF_isnan || op->sub == TF_min || op->sub == TF_max || op->sub == TF_abs;
    bool ok = is_real(x) || (any && elem_is_float(elem_of(x))) || (rule[op->sub].cls == 'a' && is_int(x));
    if (!ok || x->type.ptr) problem(c, "no such function of %s", elem_name(elem_of(x)));
}

static void check_splat(Check *c, const Op *op) {
    if (!want_tiles(c, op, 0, 1)) return;
    want_elem(c, op, elem_of(op->in[0]), op->in[0]->type.ptr);
    if (!axes_within(&op->in[0]->type, &op->out[0]->type)) problem(c, "the result lacks an axis of the operand");
}

static void check_rename(Check *c, const Op *op) {
    if (!want_tiles(c, op, 0, 1)) return;
    Val *from = op->in[1], *to = op->in[2];
    if (from->type.kind != TY_AXIS || to->type.kind != TY_AXIS) { problem(c, "renames an axis to an axis"); return; }
    if (type_axis(&op->in[0]->type, from) < 0) problem(c, "the tile does not have the axis");
    if (type_axis(&op->in[0]->type, to) >= 0) problem(c, "the tile has the new axis already");
    if (axis_extent(from) != axis_extent(to)) problem(c, "the axes' extents differ");
    Type t = type_minus(op->in[0]->type, 1, &from);
    t = type_union(t, type_tile(EL_none, 1, &to));
    want_axes(c, op, &t);
    want_elem(c, op, elem_of(op->in[0]), op->in[0]->type.ptr);
}

// ---- over axes -----------------------------------------------------------------------------------

static bool want_over(Check *c, const Op *op, const Type *whole) {
    for (int i = op_first_axis(op); i < op->nin; i++) {
        if (op->in[i]->type.kind != TY_AXIS) { problem(c, "operand %d is not an axis", i); return false; }
        if (type_axis(whole, op->in[i]) < 0) problem(c, "no operand has the axis %%%u", op->in[i]->id);
        for (int k = op_first_axis(op); k < i; k++)
            if (op->in[k] == op->in[i]) problem(c, "the axis %%%u is listed twice", op->in[i]->id);
    }
    return true;
}

static void check_reduce(Check *c, const Op *op) {
    if (!want_tiles(c, op, 0, 1) || !want_over(c, op, &op->in[0]->type)) return;
    const Val *x = op->in[0];
    Type t = type_minus(x->type, op->nin - 1, op->in + 1);
    want_axes(c, op, &t);
    bool arg = op->sub == TR_argmax || op->sub == TR_argmin;
    if (op->sub == TR_any || op->sub == TR_every) {
        if (!is_bool(x)) problem(c, "any and every are of bool");
    } else if (op->sub == TR_sum || op->sub == TR_prod) {
        if (!is_int(x) && !is_real(x)) problem(c, "no such reduction of %s", elem_name(elem_of(x)));
    } else if (x->type.ptr || is_bool(x)) {
        problem(c, "no such reduction of %s", elem_name(elem_of(x)));
    }
    if (arg && op->nin != 2) problem(c, "argmax and argmin are over one axis");
    want_elem(c, op, arg ? EL_index : elem_of(x), false);
}

// One axis, which stays.
static void check_along(Check *c, const Op *op) {
    if (!want_tiles(c, op, 0, 1) || !want_over(c, op, &op->in[0]->type)) return;
    want_axes(c, op, &op->in[0]->type);
    if (op->in[0]->type.ptr || is_bool(op->in[0])) problem(c, "no such order of %s", elem_name(elem_of(op->in[0])));
}

static void check_scan(Check *c, const Op *op) {
    const Val *x = op->in[0];
    check_along(c, op);
    want_elem(c, op, elem_of(x), false);
    bool adds = op->sub == TR_sum || op->sub == TR_prod;
    if (!adds && op->sub != TR_max && op->sub != TR_min) problem(c, "no such scan");
    if (adds && is_tile(x) && !is_int(x) && !is_real(x)) problem(c, "no such scan of %s", elem_name(elem_of(x)));
}

// Of both kinds: what is joined, and what the function takes.
static bool check_joins(Check *c, const Op *op) {
    int n = op->nin - 1;
    if (op->nout != n) { problem(c, "a result for each value"); return false; }
    if (!want_tiles(c, op, 0, n) || !want_over(c, op, &op->in[0]->type)) return false;
    for (int i = 1; i < n; i++) {
        Type t = op->in[i]->type;
        t.elem = op->in[0]->type.elem;
        if (!type_equal(&t, &op->in[0]->type)) problem(c, "the values differ in axes");
    }
    if ((int)op->reg[0]->args.n != 2 * n) { problem(c, "the region has %u arguments, not %d", op->reg[0]->args.n, 2 * n); return false; }
    for (int i = 0; i < 2 * n; i++) {
        const Val *x = op->reg[0]->args.at[i];
        if (!is_scalar(x) || x->type.elem != op->in[i % n]->type.elem) problem(c, "region argument %d is no element of value %d", i, i % n);
    }
    for (const Op *in = op->reg[0]->first; in; in = in->next)
        if (in->nreg || (!op_has(in, 'T') && (!op_has(in, 'P') || in->nout != 1 || !is_scalar(in->out[0])))) problem(c, "%s in a function of numbers", op_info[in->code].name);
    return true;
}

static void check_scan_by(Check *c, const Op *op) {
    if (check_joins(c, op)) want_same_types(c, op->nout, op->in, op->out, "values");
}

static void check_reduce_by(Check *c, const Op *op) {
    if (!check_joins(c, op)) return;
    for (int i = 0; i < op->nout; i++) {
        Type t = type_minus(op->in[i]->type, 1, op->in + op->nin - 1);
        if (!type_equal(&op->out[i]->type, &t)) problem(c, "result %d is not value %d without the axis", i, i);
    }
}

static void check_sort(Check *c, const Op *op) {
    check_along(c, op);
    want_elem(c, op, elem_of(op->in[0]), false);
}

static void check_order(Check *c, const Op *op) {
    check_along(c, op);
    want_elem(c, op, EL_index, false);
}

static void check_take(Check *c, const Op *op) {
    if (!want_tiles(c, op, 0, 2) || !want_over(c, op, &op->in[0]->type)) return;
    Type t = type_union(type_minus(op->in[0]->type, 1, op->in + 2), op->in[1]->type);
    want_axes(c, op, &t);
    want_elem(c, op, elem_of(op->in[0]), op->in[0]->type.ptr);
    if (elem_of(op->in[1]) != EL_index) problem(c, "an order is of index");
    if (op->in[0]->type.ptr) problem(c, "no pointers are taken");
}

static void check_dot(Check *c, const Op *op) {
    int first = op_first_axis(op);
    if (first >= op->nin) { problem(c, "a dot is over at least one axis"); return; }
    if (!want_tiles(c, op, 0, first)) return;
    Type whole = union_of(op, 0, 2);
    if (!want_over(c, op, &whole)) return;
    Type t = type_minus(whole, op->nin - first, op->in + first);
    want_axes(c, op, &t);
    Elem a = elem_of(op->in[0]), b = elem_of(op->in[1]), r = elem_of(op->out[0]);
    bool mix = elem_bits(a) == 8 && elem_bits(b) == 8 && elem_is_float(a) == elem_is_float(b) && b != EL_bool;      // i8 and u8, the f8s
    if (a != b && !mix) want_same_elem(c, op, 0, 1);
    if (a == EL_bool || op->in[0]->type.ptr) problem(c, "no dot of %s", elem_name(a));
    Elem want = a == EL_f64 ? EL_f64 : elem_is_float(a) ? EL_f32 : EL_i32;
    if (r != want && !(elem_is_int(a) && elem_is_int(r))) want_elem(c, op, want, false);
    if (op_acc(op) && !type_equal(&op_acc(op)->type, &op->out[0]->type)) problem(c, "the accumulator's type is not the result's");
}

// ---- memory --------------------------------------------------------------------------------------

bool want_access(Check *c, const Op *op) {
    const Type *t = &op->in[0]->type;
    if (t->kind != TY_TENSOR) { problem(c, "operand 0 must be a tensor"); return false; }
    if (op->nidx != t->rank) problem(c, "%d indices for a tensor of %d dimensions", op->nidx, t->rank);
    for (int i = 1; i <= op->nidx; i++)
        if (i >= op->nin || !is_int(op->in[i])) { problem(c, "index %d must be an integer", i - 1); return false; }
    return true;
}

static void want_value(Check *c, const Op *op, const Val *v, Elem e, const Type *place) {
    if (!is_tile(v) || elem_of(v) != e || v->type.ptr) problem(c, "the value must be of %s", elem_name(e));
    else if (!axes_within(&v->type, place)) problem(c, "the value has an axis that the place lacks");
    (void)op;
}

static void check_load(Check *c, const Op *op) {
    if (!want_access(c, op)) return;
    if (op->nin != 1 + op->nidx + !!op_else(op)) problem(c, "too many operands");
    Elem e = elem_of(op->in[0]);
    Type t = union_of(op, 1, op->nin);
    want_axes(c, op, &t);
    want_elem(c, op, e, false);
    if (op_else(op)) want_value(c, op, op_else(op), e, &t);
}

static void check_store(Check *c, const Op *op) {
    if (!want_access(c, op)) return;
    if (op->nin != 2 + op->nidx) { problem(c, "a store takes the tensor, its indices and a value"); return; }
    Type t = union_of(op, 1, 1 + op->nidx);
    want_value(c, op, op_value(op), elem_of(op->in[0]), &t);
}

static void check_tma_store_wait(Check *c, const Op *op) { (void)c; (void)op; }

static bool want_pointer(Check *c, const Op *op) {
    if (is_tile(op->in[0]) && op->in[0]->type.ptr) return true;
    problem(c, "operand 0 must be a pointer");
    return false;
}

static void want_where(Check *c, const Op *op) {
    if (op_where(op) && !is_bool(op_where(op))) problem(c, "`where` must be bool");
}

static void check_ptrload(Check *c, const Op *op) {
    if (!want_pointer(c, op)) return;
    if (op->nin != 1 + !!op_where(op) + !!op_else(op)) problem(c, "operands and flags do not agree");
    want_where(c, op);
    elementwise(c, op);
    want_elem(c, op, elem_of(op->in[0]), false);
    Type t = union_of(op, 0, op->nin);
    if (op_else(op)) want_value(c, op, op_else(op), elem_of(op->in[0]), &t);
}

static void check_ptrstore(Check *c, const Op *op) {
    if (!want_pointer(c, op)) return;
    if (op->nin != 2 + !!op_where(op)) problem(c, "operands and flags do not agree");
    want_where(c, op);
    Type t = op->in[0]->type;
    if (op_where(op)) t = type_union(t, op_where(op)->type);
    want_value(c, op, op_value(op), elem_of(op->in[0]), &t);
}

static const Op *tallies(const Fn *f, OpCode code, const Val *tensor) {
    const Op *op = f->body.first;
    while (op && (op->code != code || op->in[0] != tensor)) op = op->next;
    return op;
}

static void check_atomic(Check *c, const Op *op) {
    bool tensor = op->in[0]->type.kind == TY_TENSOR;
    const Op *tally = op->flags & TALLIED ? tallies(c->f, OP_T_tally, op->in[0]) : NULL;
    if (op->flags & TALLIED && (!tensor || !tally || tally->sub != op->sub)) problem(c, "there is no such tally");
    if (tensor ? !want_access(c, op) : !want_pointer(c, op)) return;
    if (op->nin != 2 + op->nidx + (op->sub == TA_cas) + !!op_where(op)) { problem(c, "operands and flags do not agree"); return; }
    want_where(c, op);
    Type t = op_places(op);
    want_value(c, op, op_value(op), elem_of(op->in[0]), &t);
    if (op_compare(op)) want_value(c, op, op_compare(op), elem_of(op->in[0]), &t);
    want_axes(c, op, &t);
    want_elem(c, op, elem_of(op->in[0]), false);
}

static void check_tally(Check *c, const Op *op) {
    if (op->in[0]->type.kind != TY_TENSOR) problem(c, "operand 0 must be a tensor");
    if (op->sub == TA_xchg || op->sub == TA_cas) problem(c, "exchanges have an order");
    if (op->parent->owner || tallies(c->f, (OpCode)op->code, op->in[0]) != op) problem(c, "one for a tensor, in no other op");
}
static void check_tally_end(Check *c, const Op *op) {
    check_tally(c, op);
    const Op *begin = tallies(c->f, OP_T_tally, op->in[0]);
    if (!begin || begin->sub != op->sub) problem(c, "there is no such tally");
}

// ---- control -------------------------------------------------------------------------------------

void want_same_types(Check *c, int n, Val *const *a, Val *const *b, const char *what) {
    for (int i = 0; i < n; i++)
        if (!type_equal(&a[i]->type, &b[i]->type)) problem(c, "%s: value %d has another type", what, i);
}

void want_args(Check *c, const Region *r, int lead, int n, Val *const *types) {
    if ((int)r->args.n != lead + n) problem(c, "the region has %u arguments, not %d", r->args.n, lead + n);
    else if (n) want_same_types(c, n, r->args.at + lead, types, "region arguments");
}

static void check_for(Check *c, const Op *op) {
    static const char *const what[] = {"the lower bound", "the upper bound", "the step"};
    for (int i = 0; i < 3; i++) want_scalar_int(c, op, i, what[i]);
    if (op->nin != 3 + op->nout) { problem(c, "a for has a result for each carried value"); return; }
    want_same_types(c, op->nout, op->in + 3, op->out, "carried values");
    want_args(c, op->reg[0], 1, op->nout, op->out);
    if (op->reg[0]->args.n && !type_equal(&op->reg[0]->args.at[0]->type, &op->in[0]->type)) problem(c, "the counter's type is not that of the bounds");
}

static void check_while(Check *c, const Op *op) {
    if (op->nin != op->nout) { problem(c, "a while has a result for each carried value"); return; }
    want_same_types(c, op->nout, op->in, op->out, "carried values");
    want_args(c, op->reg[0], 0, op->nout, op->out);
    want_args(c, op->reg[1], 0, op->nout, op->out);
}

static void check_merge(Check *c, const Op *op) {
    int n = op->nout;
    if (op->nin != n) { problem(c, "a merge has a result for each value"); return; }
    want_same_types(c, n, op->in, op->out, "values");
    if ((int)op->reg[0]->args.n != 2 * n) { problem(c, "the region has %u arguments, not %d", op->reg[0]->args.n, 2 * n); return; }
    for (int side = 0; side < 2; side++) want_same_types(c, n, op->reg[0]->args.at + side * n, op->out, "region arguments");
}

static void check_if(Check *c, const Op *op) {
    if (!is_scalar(op->in[0]) || !is_bool(op->in[0])) problem(c, "the condition must be a bool scalar");
    want_args(c, op->reg[0], 0, 0, NULL);
    want_args(c, op->reg[1], 0, 0, NULL);
}

static void want_results(Check *c, const Op *op, int from, const Op *target) {
    if (op->nin - from != target->nout) problem(c, "%d values for the %d results of its %s", op->nin - from, target->nout, op_info[target->code].name);
    else want_same_types(c, target->nout, op->in + from, target->out, "values");
}

static void check_yield(Check *c, const Op *op) {
    const Op *owner = op->parent->owner;
    if (!owner) { if (op->nin) problem(c, "a kernel yields nothing"); return; }
    if (owner->code == OP_T_while && op->parent == owner->reg[0]) { problem(c, "the first region of a while ends in condition"); return; }
    if (owner->code == OP_T_roles) { if (op->nin) problem(c, "roles yield nothing"); return; }
    if (op_joins(owner)) {
        if (op->nin != owner->nout) problem(c, "%d values joined of %d", op->nin, owner->nout);
        else want_same_types(c, op->nin, op->in, owner->reg[0]->args.at, "joined values");
        return;
    }
    want_results(c, op, 0, owner);
}

static void check_condition(Check *c, const Op *op) {
    const Op *owner = op->parent->owner;
    if (!owner || owner->code != OP_T_while || op->parent != owner->reg[0]) { problem(c, "condition ends the first region of a while"); return; }
    if (!is_scalar(op->in[0]) || !is_bool(op->in[0])) problem(c, "the condition must be a bool scalar");
    want_results(c, op, 1, owner);
}

static void check_leave(Check *c, const Op *op) {
    const Op *loop = op_target(op);
    if (loop) want_results(c, op, 0, loop);
    else      problem(c, "there is no loop to leave");
}

static void check_break(Check *c, const Op *op)    { check_leave(c, op); }
static void check_continue(Check *c, const Op *op) { check_leave(c, op); }

static void check_assert(Check *c, const Op *op) {
    if (!is_bool(op->in[0])) problem(c, "the condition must be bool");
}

static void check_print(Check *c, const Op *op) {
    if (op->nin) want_tiles(c, op, 0, 1);
}

static CheckFn *const checks[OP_T_COUNT] = {
#define X(name, ...) [OP_T_##name] = check_##name,
    TILE_OPS(X)
#undef X
};

// ---- the rules of the table ----------------------------------------------------------------------

static bool see(Check *c, const Val *v) { return v && v->id < c->f->nvals && c->visible[v->id] == v; }

static void define(Check *c, Val *v) {
    if (v->id >= c->f->nvals || c->visible[v->id]) { problem(c, "two values have the number %u", v->id); return; }
    const Type *t = &v->type;
    if (t->kind == TY_NONE) problem(c, "%%%u has no type", v->id);
    for (int i = 0; i < t->rank && t->kind == TY_TILE; i++) {
        if (!see(c, t->axis[i]) || t->axis[i]->type.kind != TY_AXIS) problem(c, "an axis of %%%u does not dominate it", v->id);
        else if (i && t->axis[i - 1]->id >= t->axis[i]->id) problem(c, "the axes of %%%u are not sorted", v->id);
    }
    c->visible[v->id] = v;
}

static bool counts_ok(Check *c, const Op *op) {
    const OpInfo *info = &op_info[op->code];
    int before = c->problems;
    if (op->nin < info->in_lo || (info->in_hi != 255 && op->nin > info->in_hi)) problem(c, "%d operands", op->nin);
    if (info->out != 255 && op->nout != info->out) problem(c, "%d results", op->nout);
    if (op->nreg != info->regions && !(op->code == OP_T_roles && op->nreg == info->regions + 1)) problem(c, "%d regions", op->nreg);
    if (info->sub != SUB_NONE && !sub_name((SubTable)info->sub, op->sub)) problem(c, "no such suffix: %d", op->sub);
    if (info->level > c->f->level) problem(c, "level %d op in a function of level %d", info->level, c->f->level);
    for (int i = 0; i < op->nin; i++)
        if (!see(c, op->in[i])) problem(c, "operand %d does not dominate its use", i);
    return c->problems == before;
}

static void check_region(Check *c, const Region *r);

static void check_op(Check *c, const Op *op) {
    c->op = op;
    bool ok = counts_ok(c, op);
    if (op_has(op, 'T') != (op == op->parent->last) && (op_has(op, 'T') || op->parent->owner))
        problem(c, op_has(op, 'T') ? "ops follow a terminator" : "the region has no terminator");
    if (op->next ? op->next->prev != op || op->next->parent != op->parent : op->parent->last != op) problem(c, "the list of ops is broken");
    for (int k = 0; k < op->nreg; k++) {
        if (op->reg[k]->owner != op) problem(c, "region %d has another owner", k);
        check_region(c, op->reg[k]);
        c->op = op;
    }
    int before = c->problems;
    for (int i = 0; i < op->nout; i++) {
        if (op->out[i]->def != op) problem(c, "result %d is of another op", i);
        define(c, op->out[i]);
    }
    if (ok && c->problems == before) checks[op->code](c, op);
}

static void hide(Check *c, const Val *v) {
    if (v->id < c->f->nvals && c->visible[v->id] == v) c->visible[v->id] = NULL;
}

static void check_region(Check *c, const Region *r) {
    for (uint32_t i = 0; i < r->args.n; i++) define(c, r->args.at[i]);
    if (!r->first && r->owner) problem(c, "an empty region");
    for (const Op *op = r->first; op; op = op->next) check_op(c, op);
    for (const Op *op = r->first; op; op = op->next)
        for (int i = 0; i < op->nout; i++) hide(c, op->out[i]);
    for (uint32_t i = 0; i < r->args.n; i++) hide(c, r->args.at[i]);
}

int ir_verify(Fn *f, Buf *problems) {
    ArenaMark mark = arena_mark(f->arena);
    Check c = {.f = f, .out = problems, .visible = NEW_N(f->arena, Val *, f->nvals)};
    check_region(&c, &f->body);
    arena_reset(f->arena, mark);
    return c.problems;
}
