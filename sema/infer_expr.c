// Expressions: what an operation on entities gives.
//
// Two compile-time numbers fold. Otherwise operands become values of one element type and the result
// has the union of their axes; nothing else about shapes can go wrong. The element types follow one
// small lattice (join_elem):
//
//     number literal + x     the literal takes x's type, if it can: `x + 1`, `x * 0.5`
//     integer + float        the float's type (f32 for a storage float)
//     storage floats         f32, unless the operation keeps them: compare, select, min, max
//     integer + integer      the wider; index wins; the result must hold both, else it is an error
#include "sema/internal.h"

#include "lang/number.h"

#include <math.h>
#include <string.h>

// ---- values --------------------------------------------------------------------------------------

static TExpr *not_a_value(Check *c, Ent e, Span at) {
    if (e.kind == EN_error) return NULL;
    Diag *d = report(c, E_not_value, at, ent_text(c, e));
    if (e.kind == EN_tensor && in_item(c, N_graph))
        diag_help(d, "what is computed with tensors is the work of a kernel: launch one");
    else if (e.kind == EN_tensor && in_item(c, N_test))
        diag_help(
            d,
            "what is computed with tensors stands in a function that the test calls: `fn twice(x: f32[N]) { let n = 0 .. N; return x[n] * 2; }`");
    else if (e.kind == EN_tensor)
        diag_help(d, "read it with an index: `%s[%s]`", e.tensor->name ? e.tensor->name->s : "x",
                  e.tensor->rank ? "..." : "");
    if (e.kind == EN_str && in_item(c, N_graph))
        diag_help(d, "a name is put together by its parts: `weight(\"layer.\", i, \".w\")`");
    if (e.kind == EN_fn || e.kind == EN_lambda || e.kind == EN_builtin) diag_help(d, "call it");
    if (e.kind == EN_void) diag_help(d, "a function gives what stands in its `return`: `return x;`");
    if (e.kind == EN_tuple) diag_help(d, "name each of its values: `let a, b = ...;`");
    return NULL;
}

// A number is f32 where nothing beside it says more, and known as written until it has met something (widened).
static TExpr *alone(Check *c, double v, Span at) {
    TExpr *x = tx_const_float(c, v, EL_f32, at);
    if (x->fval != v && !isnan(v)) x->whole = v;
    return x;
}

TExpr *value_of(Check *c, Ent e, Span at) {
    switch ((EntKind)e.kind) {
    case EN_int:   return tx_const_int(c, e.i, int_fits(e.i, EL_i32) ? EL_i32 : EL_i64, at);
    case EN_float: return alone(c, e.f, e.span.hi ? e.span : at);
    case EN_bool:  return tx_const_int(c, e.i, EL_bool, at);
    case EN_axis:  return tx_axis(c, e.axis, at);
    case EN_value: return e.x;
    default:       return not_a_value(c, e, at);
    }
}

static TExpr *literal_range(Check *c, Ent e, Elem el, Span at) {
    int bits = elem_bits(el);
    Diag *d = report(c, E_literal_range, e.span.hi ? e.span : at, ent_text(c, e), elem_name(el));
    if (e.span.hi && (e.span.lo < at.lo || e.span.hi > at.hi))
        diag_label(d, at, "here it meets %s", elem_name(el));
    if (elem_info[el].cls == EC_UINT) diag_help(d, "`%s` holds 0 to %llu", elem_name(el), ~0ull >> (64 - bits));
    else
        diag_help(d, "`%s` holds %lld to %lld", elem_name(el), (long long)(INT64_MIN >> (64 - bits)),
                  (long long)(INT64_MAX >> (64 - bits)));
    return NULL;
}

// Numbers take `el`; a value keeps its type.
static TExpr *value_as(Check *c, Ent e, Elem el, Span at) {
    if (e.kind == EN_int && elem_is_int(el))
        return int_fits(e.i, el) ? tx_const_int(c, e.i, el, at) : literal_range(c, e, el, at);
    if (e.kind == EN_int && elem_is_float(el)) return tx_const_float(c, int_for_float(e.i, EL_i64, el), el, at);
    if (e.kind == EN_float && elem_is_float(el)) return tx_const_float(c, e.f, el, at);
    return value_of(c, e, at);
}

TExpr *index_of(Check *c, Ent e, Span at, const char *what) {
    if (e.kind == EN_error) return NULL;
    if (e.kind == EN_int) return tx_const_int(c, e.i, EL_index, at);
    if (e.kind == EN_axis) return tx_axis(c, e.axis, at);
    if (e.kind == EN_value && elem_is_int(e.x->type.elem) && !e.x->type.ptr) return e.x;
    Diag *d = report(c, E_index_type, at, what, ent_text(c, e));
    if (e.kind == EN_value && !e.x->type.ptr) diag_help(d, "convert it with `as i32`");
    return NULL;
}

TExpr *scalar_index(Check *c, Ent e, Span at, const char *what) {
    if (e.kind == EN_error) return NULL;
    bool scalar = e.kind == EN_int || (e.kind == EN_value && e.x->type.naxes == 0);
    if (!scalar) {
        Diag *d = report(c, E_type_mismatch, at, what, ent_text(c, e), "a scalar integer");
        if (e.kind == EN_axis)
            diag_help(d, "`first(%s)`, `last(%s)` and `end(%s)` are scalars", e.axis->name->s, e.axis->name->s,
                      e.axis->name->s);
        return NULL;
    }
    TExpr *x = index_of(c, e, at, what);
    return x ? tx_cast(c, x, EL_index, at) : NULL;
}

// `n < N`, of an axis over 0 .. N: the mask that other languages need.
static bool compares_with_bound(const TExpr *x) {
    if (x->kind != TX_binary || (x->op != OP_lt && x->op != OP_gt)) return false;
    for (int i = 0; i < 2; i++) {
        const TExpr *a = x->kid[i], *b = x->kid[1 - i];
        while (a->kind == TX_cast || a->kind == TX_splat) a = a->kid[0];
        while (b->kind == TX_cast || b->kind == TX_splat) b = b->kid[0];
        if (a->kind == TX_axis && tx_same(a->axis[0]->hi, b)) return true;
    }
    return false;
}

// What an `if` over lanes wants to do with some of them, as a choice: the first thing that it assigns or stores.
static bool help_chosen(Check *c, Diag *d, const Node *then, Span cond) {
    const Node *a = then && then->nkid ? then->kid[0] : NULL;
    if (!a || a->kind != N_assign || a->op != OP_none || a->nkid < 2 || !a->kid[0] || !a->kid[1]) return false;
    const Node *to = a->kid[0], *name = to->kind == N_index ? to->kid[0] : to;
    const Bind *b = name->kind == N_name ? scope_find(c->scope, name->sym) : NULL;
    Str value = span_text(c->s, a->kid[1]->span), target = span_text(c->s, to->span), test = span_text(c->s, cond);
    if (!b || value.n + target.n + test.n > 120) return false;
    bool tensor = b->ent.kind == EN_tensor && b->ent.tensor->t, written_only = tensor && b->ent.tensor->t->mode == PM_OUT;
    if (written_only && to->nkid > 2 && to->kid[2]->kind == N_name) {
        Str first = span_text(c->s, to->kid[2]->span), rest = {first.p + first.n, (size_t)(target.p + target.n - first.p) - first.n};
        diag_help(d, "control flow is uniform; a store skips elements whose index is outside of the tensor: `%.*s[where(%.*s, %.*s, -1)%.*s = %.*s`", (int)name->sym->n,
                  name->sym->s, (int)test.n, test.p, (int)first.n, first.p, (int)rest.n, rest.p, (int)value.n, value.p);
        return true;
    }
    if (written_only || (!tensor && to->kind == N_index)) return false;
    diag_help(d, "control flow is uniform; choose for each element: `%.*s = where(%.*s, %.*s, %.*s)`", (int)target.n, target.p, (int)test.n, test.p, (int)value.n, value.p,
              (int)target.n, target.p);
    return true;
}

bool cond_of(Check *c, Ent e, Span at, const char *what, const Node *then, TExpr **out) {
    if (e.kind == EN_error) return false;
    if (e.kind == EN_value && e.x->type.elem == EL_bool && e.x->type.naxes == 0 && !e.x->type.ptr) {
        *out = e.x;
        return true;
    }
    Diag *d = report(c, E_condition, at, what, ent_text(c, e));
    if (e.kind == EN_value && compares_with_bound(e.x)) {
        diag_help(
            d,
            "there is no bound to check: elements from the end of a range on are neither loaded nor stored nor counted");
    } else if (e.kind == EN_value && e.x->type.elem == EL_bool && help_chosen(c, d, then, at)) {
    } else if (e.kind == EN_value && e.x->type.elem == EL_bool) {
        diag_help(d, "control flow is uniform: choose elements with `where(c, a, b)`, or reduce with `any(c over %s)`",
                  e.x->type.axis[0]->name->s);
    } else if (e.kind == EN_int || (e.kind == EN_value && elem_is_int(e.x->type.elem))) diag_help(d, "compare with `!= 0`");
    return false;
}

static const char *as_text(Check *c, Elem to, Span at) {
    Str src = span_text(c->s, at);
    bool atom = true;
    int depth = 0;
    for (size_t i = 0; i < src.n; i++) {
        char ch = src.p[i];
        if (ch == '(' || ch == '[') depth++;
        else if (ch == ')' || ch == ']') depth--;
        else if (depth == 0 && ch == ' ') atom = false;
    }
    return arena_printf(c->a, atom ? "%.*s as %s" : "(%.*s) as %s", (int)src.n, src.p, elem_name(to));
}

static const TExpr *bare(const TExpr *x) {
    while (x->kind == TX_splat) x = x->kid[0];
    return x;
}

// An operand that is an index beside one that is not, `x >> b` of a u32 and a loop's b: what made the whole an index.
static const TExpr *index_among(const TExpr *x) {
    x = bare(x);
    for (uint32_t i = 0; x->kind == TX_binary && x->type.elem == EL_index && i < 2; i++) {
        const TExpr *own = bare(x->kid[i]), *other = bare(x->kid[1 - i]);
        bool widened = other->kind == TX_cast && bare(other->kid[0])->type.elem != EL_index;
        if (own->kind != TX_cast && own->kind != TX_const && widened) return index_among(own) ? index_among(own) : own;
    }
    for (uint32_t i = 0; x->kind == TX_binary && i < 2; i++) {
        const TExpr *found = index_among(x->kid[i]);
        if (found) return found;
    }
    return NULL;
}

// The first operand of sums and products of integers; NULL of anything else.
static const TExpr *first_operand(const TExpr *x) {
    bool made = x->kind == TX_binary && (x->op == OP_add || x->op == OP_sub || x->op == OP_mul || x->op == OP_div || x->op == OP_shl);
    if (!made || !elem_is_int(x->type.elem)) return NULL;
    const TExpr *left = bare(x->kid[0]), *first = first_operand(left);
    return first ? first : left;
}

// What stands behind `x as i32` comes too late for `a - b` of u8, which has wrapped, and for `a / b`, which is rounded down.
bool help_converted(Check *c, Diag *d, const TExpr *x, Elem want, Span at) {
    x = bare(x);
    const TExpr *index = x->type.elem == EL_index && elem_is_int(want) ? index_among(x) : NULL;
    if (index) {
        diag_label(d, index->span, "this is an index, and so is what it is computed with");
        diag_help(d, "convert it where it comes in: `%s`", as_text(c, want, index->span));
        return true;
    }
    const TExpr *first = first_operand(x);
    bool wider = elem_is_float(want) ? first && x->op == OP_div : x->type.elem != EL_index && elem_is_int(want) && elem_bits(want) > elem_bits(x->type.elem);
    bool inside = first && first->span.lo >= at.lo && first->span.hi <= at.hi && first->span.hi > first->span.lo;
    if (!inside || !wider) return false;
    if (elem_is_float(want)) diag_help(d, "`/` of integers rounds down; what is converted before it is not");
    else diag_help(d, "%s wraps; what is converted before it does not", elem_name(x->type.elem));
    Str all = span_text(c->s, at);
    int head = (int)(first->span.hi - at.lo);
    diag_fix(d, at, arena_printf(c->a, "%.*s as %s%.*s", head, all.p, elem_name(want), (int)all.n - head, all.p + head));
    return true;
}

static TExpr *exactly(Check *c, Ent e, TType want, Span at, const char *what, bool nearer) {
    if (e.kind == EN_error) return NULL;
    bool adapts = want.ptr           ? false
                  : e.kind == EN_int ? elem_is_int(want.elem) || elem_is_float(want.elem)
                                     : e.kind == EN_float && elem_is_float(want.elem);
    TExpr *x = adapts ? value_as(c, e, want.elem, at) : value_of(c, e, at);
    if (!x) return NULL;
    if (x->type.elem != want.elem || x->type.ptr != want.ptr) {
        const char *have = e.kind == EN_int || e.kind == EN_float ? ent_text(c, e) : ttype_text(c, x->type);
        TType w = {.elem = want.elem, .ptr = want.ptr};
        Diag *d = report(c, E_element_type, at, what, have, ttype_text(c, w));
        if (!want.ptr && !x->type.ptr && want.elem != EL_bool && !help_converted(c, d, x, want.elem, at)) {
            diag_help(d, "convert it with `as %s`", elem_name(want.elem));
            const char *fixed = as_text(c, want.elem, at);
            diag_fix(d, at, nearer ? arena_printf(c->a, "(%s)", fixed) : fixed);
        }
        note_values(c, d);
        return NULL;
    }
    return x;
}

TExpr *value_exact(Check *c, Ent e, TType want, Span at, const char *what) { return exactly(c, e, want, at, what, false); }

// `else` is nearer than `as`: what is converted stands in parentheses.
TExpr *else_exact(Check *c, Ent e, TType want, Span at) { return exactly(c, e, want, at, "the value after `else`", true); }

TExpr *eval_value(Check *c, const Node *n) { return value_of(c, eval(c, n), n->span); }

// ---- element types -------------------------------------------------------------------------------

static void help_bool(Diag *d) {
    diag_help(d, "a bool is no number: choose with `where(c, x, 0)`, or count with `c as i32`");
}

static Elem literal_with(Check *c, Ent lit, Elem el, bool keeps, AstOp op, Span at) {
    if (el == EL_bool || lit.kind == EN_bool) {
        if (el == EL_bool && lit.kind == EN_bool) return EL_bool;
        Diag *d = report(c, E_operand_type, at, op_spellings[op],
                         arena_printf(c->a, "%s and %s", elem_name(el), ent_text(c, lit)));
        help_bool(d);
        return EL_none;
    }
    if (elem_is_int(el)) {
        if (lit.kind == EN_float) return EL_f32;
        if (int_fits(lit.i, el)) return el;
        literal_range(c, lit, el, at);
        return EL_none;
    }
    if (!elem_is_storage(el)) return el;
    double v = lit.kind == EN_int ? (double)lit.i : lit.f;
    return keeps && float_fits(v, el) ? el : EL_f32;
}

static Elem join_values(Check *c, Elem a, Elem b, bool keeps, AstOp op, Span at) {
    if (a == EL_bool || b == EL_bool) {
        if (a == b) return EL_bool;
    } else if (elem_is_float(a) || elem_is_float(b)) {
        if (a == b) return elem_is_storage(a) && !keeps ? EL_f32 : a;
        return a == EL_f64 || b == EL_f64 ? EL_f64 : EL_f32;
    } else {
        if (a == b) return a;
        if (a == EL_index && b != EL_u64) return a;
        if (b == EL_index && a != EL_u64) return b;
        bool ua = elem_info[a].cls == EC_UINT, ub = elem_info[b].cls == EC_UINT;
        Elem wide = elem_bits(a) >= elem_bits(b) ? a : b;
        if (ua == ub) return wide;
        if (elem_bits(a) != elem_bits(b) && elem_info[wide].cls == EC_INT) return wide;
        if (op == OP_shl || op == OP_shr) return a;            // of any width and sign, what is too far either way stays so
        Diag *d = report(c, E_mixed_sign, at, op_spellings[op], elem_name(a), elem_name(b));
        diag_help(d, "convert one of them with `as`");
        return EL_none;
    }
    Diag *d = report(c, E_operand_type, at, op_spellings[op], arena_printf(c->a, "%s and %s", elem_name(a), elem_name(b)));
    help_bool(d);
    return EL_none;
}

static Elem join_elem(Check *c, Ent a, Ent b, bool keeps, AstOp op, Span at) {
    if (is_const(a) && is_const(b)) {
        if (a.kind == EN_bool && b.kind == EN_bool) return EL_bool;
        if (a.kind == EN_bool || b.kind == EN_bool) return literal_with(c, a, EL_bool, keeps, op, at);
        if (a.kind == EN_float || b.kind == EN_float) return EL_f32;
        return int_fits(a.i, EL_i32) && int_fits(b.i, EL_i32) ? EL_i32 : EL_i64;
    }
    if (is_const(a)) return literal_with(c, a, b.x->type.elem, keeps, op, at);
    if (is_const(b)) return literal_with(c, b, a.x->type.elem, keeps, op, at);
    return join_values(c, a.x->type.elem, b.x->type.elem, keeps, op, at);
}

static bool to_operand(Check *c, Ent *e, Span at) {
    if (is_const(*e)) return true;
    TExpr *x = value_of(c, *e, at);
    if (!x) return false;
    *e = ent_value(x);
    return true;
}

// Chosen among numbers alone, as `where(c, PI / 2, 0.0)`: f64 where it meets f64, as the numbers would be.
static TExpr *as_written(Check *c, const TExpr *x) {
    TExpr *kid[3];
    if (x->kind == TX_const) return tx_const_float(c, x->whole != 0 ? x->whole : x->fval, EL_f64, x->span);
    bool select = x->kind == TX_select, negated = x->kind == TX_unary && x->op == OP_neg;
    if (!select && !negated) return NULL;
    for (uint32_t i = 0; i < x->nkid; i++) {
        kid[i] = select && i == 0 ? x->kid[0] : as_written(c, x->kid[i]);
        if (!kid[i]) return NULL;
    }
    TType t = x->type;
    t.elem = EL_f64;
    TExpr *r = select ? tx_new(c, TX_select, t, x->span, 3, kid[0], kid[1], kid[2]) : tx_new(c, TX_unary, t, x->span, 1, kid[0]);
    r->op = x->op;
    return r;
}

// A number of an f32 that was rounded for want of another type; NULL: there is none.
static const TExpr *rounded_in(const Check *c, const TExpr *x, int depth) {
    if (x->kind == TX_const) return elem_is_float(x->type.elem) && x->whole != 0 ? x : NULL;
    if (x->kind == TX_var) {
        const TExpr *first = (uint32_t)x->var->id < c->init.n ? c->init.at[x->var->id] : NULL;
        return first && depth < 8 ? rounded_in(c, first, depth + 1) : NULL;
    }
    bool through = x->kind == TX_unary || x->kind == TX_binary || x->kind == TX_select || x->kind == TX_fun || x->kind == TX_splat;
    for (uint32_t i = x->kind == TX_select; through && depth < 8 && i < x->nkid; i++) {
        const TExpr *found = x->kid[i] ? rounded_in(c, x->kid[i], depth + 1) : NULL;
        if (found) return found;
    }
    return NULL;
}

// What meets a value of another type is of it.
static TExpr *widened(Check *c, TExpr *x, Elem e) {
    if (x->type.elem != EL_f32 || e != EL_f64) return tx_cast(c, x, e, x->span);
    TExpr *written = as_written(c, x);
    if (written) return written;
    const TExpr *number = rounded_in(c, x, 0);
    if (number) {
        Str text = span_text(c->s, number->span);
        Diag *d = report(c, E_number_rounded, number->span, arena_printf(c->a, "%.*s", (int)text.n, text.p));
        if (x->span.lo != number->span.lo || x->span.hi != number->span.hi) diag_label(d, x->span, "this is f32, and meets f64");
        diag_help(d, "say that it is one: `%s`", as_text(c, EL_f64, number->span));
    }
    return tx_cast(c, x, e, x->span);
}

// Both to values of one element type; *t gets it and the union of the axes.
bool unify(Check *c, Ent *a, Ent *b, bool keeps, AstOp op, Span at, TType *t) {
    if (!to_operand(c, a, at) || !to_operand(c, b, at)) return false;
    bool pa = a->kind == EN_value && a->x->type.ptr, pb = b->kind == EN_value && b->x->type.ptr;
    if (pa || pb) {
        report(c, E_operand_type, at, op_spellings[op], arena_printf(c->a, "%s and %s", ent_text(c, *a), ent_text(c, *b)));
        return false;
    }
    Elem e = join_elem(c, *a, *b, keeps, op, at);
    if (e == EL_none) return false;
    bool f32 = e == EL_f32 && (is_const(*a) ? is_const(*b) || elem_is_int(b->x->type.elem) : elem_is_int(a->x->type.elem));
    TExpr *x = f32 && a->kind == EN_float ? value_of(c, *a, at) : value_as(c, *a, e, at),
          *y = f32 && b->kind == EN_float ? value_of(c, *b, at) : value_as(c, *b, e, at);
    if (!x || !y) return false;
    *t = ttype_scalar(e);
    if (!ttype_union(c, t, x->type, at) || !ttype_union(c, t, y->type, at)) return false;
    *a = ent_value(widened(c, x, e));
    *b = ent_value(widened(c, y, e));
    return true;
}

// ---- operators -----------------------------------------------------------------------------------

enum { BOOLS = 1, INTS = 2, FLOATS = 4, KEEPS = 8, COMPARES = 16 };

static const uint8_t takes[OP_COUNT] = {
    [OP_add] = INTS | FLOATS, [OP_sub] = INTS | FLOATS, [OP_mul] = INTS | FLOATS, [OP_div] = INTS | FLOATS,
    [OP_rem] = INTS,          [OP_shl] = INTS,          [OP_shr] = INTS,
    [OP_and] = INTS | BOOLS,  [OP_or] = INTS | BOOLS,   [OP_xor] = INTS | BOOLS,
    [OP_land] = BOOLS,        [OP_lor] = BOOLS,
    [OP_eq] = INTS | FLOATS | BOOLS | KEEPS | COMPARES, [OP_ne] = INTS | FLOATS | BOOLS | KEEPS | COMPARES,
    [OP_lt] = INTS | FLOATS | KEEPS | COMPARES,         [OP_le] = INTS | FLOATS | KEEPS | COMPARES,
    [OP_gt] = INTS | FLOATS | KEEPS | COMPARES,         [OP_ge] = INTS | FLOATS | KEEPS | COMPARES,
};

static bool class_ok(uint8_t row, Elem e) {
    return e == EL_bool ? row & BOOLS : elem_is_int(e) ? row & INTS : row & FLOATS;
}

static Ent operand_error(Check *c, AstOp op, Elem e, Span at) {
    Diag *d = report(c, E_operand_type, at, op_spellings[op], elem_name(e));
    if (e == EL_bool) diag_help(d, "convert it with `as i32`");
    else if (op == OP_xor) diag_help(d, "powers are `square(x)`, `x * x * x`, or `exp2(y * log2(x))`");
    else if (op == OP_rem) diag_help(d, "write `x - floor(x / y) * y`");
    else if (op == OP_land || op == OP_lor) diag_help(d, "compare with `!= 0`");
    else if (elem_is_float(e)) diag_help(d, "its bits are `bitcast<i%d>(x)`", elem_bits(e));
    return ent_error(c);
}

static Ent pointer_add(Check *c, AstOp op, Ent p, Ent i, Span at) {
    TExpr *by = index_of(c, i, at, "what is added to a pointer");
    if (!by) return ent_error(c);
    if (op == OP_sub)
        by = tx_new(c, TX_unary, by->type, at, 1, tx_cast(c, by, EL_index, at)), by->op = OP_neg,
        by->type.elem = EL_index;
    TType t = p.x->type;
    if (!ttype_union(c, &t, by->type, at)) return ent_error(c);
    TExpr *x = tx_new(c, TX_binary, t, at, 2, p.x, by);
    x->op = OP_add;
    return ent_value(x);
}

static bool is_ptr(Ent e) { return e.kind == EN_value && e.x->type.ptr; }

// `false && x` is false whatever x is, and `true && x` is x: compile-time switches cost nothing.
static bool logic_shortcut(AstOp op, Ent a, Ent b, Ent *r) {
    if (a.kind != EN_bool) {
        if (b.kind != EN_bool) return false;
        Ent t = a;
        a = b;
        b = t;
    }
    bool decides = op == OP_land ? !a.i : a.i;
    *r = decides ? a : b;
    return true;
}

Ent binary(Check *c, AstOp op, Ent a, Ent b, Span at, Span pa, Span pb) {
    if (a.kind == EN_error || b.kind == EN_error || c->too_big) return ent_error(c);
    if (a.kind == EN_unknown || b.kind == EN_unknown) return ent_unknown();
    Ent r;
    if ((op == OP_land || op == OP_lor) && logic_shortcut(op, a, b, &r) &&
        (is_const(r) || (r.kind == EN_value && r.x->type.elem == EL_bool)))
        return r;
    if (is_const(a) && is_const(b)) return fold_binary(c, op, a, b, at);
    a = recipe_pin(c, a);
    b = recipe_pin(c, b);
    if (a.kind == EN_type && b.kind == EN_type && (op == OP_eq || op == OP_ne))
        return ent_bool((a.elem == b.elem) == (op == OP_eq), at);
    if (takes[op] & COMPARES && ((a.kind == EN_float && isnan(a.f)) || (b.kind == EN_float && isnan(b.f))))
        diag_help(report(c, E_nan_compare, at, op_spellings[op], op == OP_ne ? "true" : "false"), "write `isnan(x)`, or `!isnan(x)`");
    if (a.kind == EN_axis && b.kind == EN_axis && a.axis == b.axis && op == OP_eq) { /* all true, but let it be computed */ }
    if (is_ptr(a) && (op == OP_add || op == OP_sub) && !is_ptr(b)) return pointer_add(c, op, a, b, at);
    if (is_ptr(b) && op == OP_add && !is_ptr(a)) return pointer_add(c, op, b, a, at);
    if (!to_operand(c, &a, pa) || !to_operand(c, &b, pb)) return ent_error(c);
    if ((op == OP_div || op == OP_rem) && b.kind == EN_int && b.i == 0 && a.kind == EN_value &&
        elem_is_int(a.x->type.elem)) {
        report(c, E_const_div_zero, at);
        return ent_error(c);
    }
    uint8_t row = takes[op];
    TType t;
    if (!unify(c, &a, &b, row & KEEPS, op, at, &t)) return ent_error(c);
    if (!class_ok(row, t.elem)) return operand_error(c, op, t.elem, at);
    if (row & COMPARES) t.elem = EL_bool;
    TExpr *x = tx_new(c, TX_binary, t, at, 2, a.x, b.x);
    x->op = (uint8_t)(op == OP_land ? OP_and : op == OP_lor ? OP_or : op);
    return ent_value(x);
}

static Ent unary(Check *c, AstOp op, Ent a, Span at) {
    if (a.kind == EN_error || c->too_big) return ent_error(c);
    if (a.kind == EN_unknown) return a;
    if (is_const(a)) return fold_unary(c, op, a, at);
    a = recipe_pin(c, a);
    TExpr *x = value_of(c, a, at);
    if (!x) return ent_error(c);
    uint8_t row = op == OP_not ? BOOLS : op == OP_bnot ? INTS : INTS | FLOATS;
    if (x->type.ptr || !class_ok(row, x->type.elem)) {
        Diag *d = report(c, E_operand_type, at, op_spellings[op], ttype_text(c, x->type));
        if (op == OP_not && !x->type.ptr) diag_help(d, "compare with `== 0`");
        return ent_error(c);
    }
    if (elem_is_storage(x->type.elem)) x = tx_cast(c, x, EL_f32, at);
    TExpr *r = tx_new(c, TX_unary, x->type, at, 1, x);
    r->op = (uint8_t)op;
    return ent_value(r);
}

Ent select_of(Check *c, Ent cond, Ent a, Ent b, Span at) {
    if (cond.kind == EN_error || a.kind == EN_error || b.kind == EN_error) return ent_error(c);
    TExpr *k = value_of(c, cond, at);
    if (!k) return ent_error(c);
    if (k->type.elem != EL_bool || k->type.ptr) {
        Diag *d = report(c, E_type_mismatch, at, "the condition", ttype_text(c, k->type), "bool");
        if (!k->type.ptr) diag_help(d, "compare with `!= 0`");
        return ent_error(c);
    }
    TType t;
    if (is_ptr(a) && is_ptr(b) && a.x->type.elem == b.x->type.elem) {
        t = a.x->type;
        if (!ttype_union(c, &t, b.x->type, at)) return ent_error(c);
    } else if (!unify(c, &a, &b, true, OP_none, at, &t)) return ent_error(c);
    if (!ttype_union(c, &t, k->type, at)) return ent_error(c);
    return ent_value(tx_new(c, TX_select, t, at, 3, k, a.x, b.x));
}

static int64_t wrap_to(int64_t v, Elem e) {
    int bits = elem_bits(e);
    if (bits == 64) return v;
    uint64_t u = (uint64_t)v & (((uint64_t)1 << bits) - 1);
    if (elem_info[e].cls == EC_INT && u >> (bits - 1)) u |= ~(uint64_t)0 << bits;
    return (int64_t)u;
}

static Ent cast_to(Check *c, Ent e, Elem to, Span at) {
    if (e.kind == EN_error || e.kind == EN_unknown) return e;
    if (to == EL_bool && !(e.kind == EN_bool || (e.kind == EN_value && e.x->type.elem == EL_bool))) {
        Diag *d = report(c, E_type_mismatch, at, "this", ent_text(c, e), "bool");
        diag_help(d, "compare with `!= 0`");
        return ent_error(c);
    }
    if (is_const(e)) {
        if (to == EL_bool) return ent_value(tx_const_int(c, e.i, EL_bool, at));
        if (elem_is_float(to)) return ent_value(tx_const_float(c, e.kind == EN_float ? e.f : int_for_float(e.i, EL_i64, to), to, at));
        int64_t v = e.kind == EN_float ? f64_to_int_sat(e.f, elem_bits(to), elem_info[to].cls == EC_INT) : wrap_to(e.i, to);
        return ent_value(tx_const_int(c, v, to, at));
    }
    TExpr *x = value_of(c, e, at);
    if (!x) return ent_error(c);
    if (x->type.ptr) {
        report(c, E_pointer, at, "a pointer does not convert");
        return ent_error(c);
    }
    TExpr *written = x->type.elem == EL_f32 && to == EL_f64 && rounded_in(c, x, 0) ? as_written(c, x) : NULL;
    return ent_value(written ? written : tx_cast(c, x, to, at));
}

// ---- the walk ------------------------------------------------------------------------------------

static Ent eval_ternary(Check *c, const Node *n) {
    Ent cond = eval(c, n->kid[0]);
    if (cond.kind == EN_error || cond.kind == EN_unknown) return cond;
    if (cond.kind == EN_bool) return eval(c, n->kid[cond.i ? 1 : 2]);
    Ent a = eval(c, n->kid[1]), b = eval(c, n->kid[2]);
    for (int i = 0; i < 2; i++) {
        Ent arm = i ? b : a;
        if (arm.kind == EN_value && tx_has_effect(arm.x)) {
            report(c, E_runtime_effect, n->kid[1 + i]->span,
                   "both sides of a run-time `? :` are computed, so neither may have an effect");
            return ent_error(c);
        }
    }
    return select_of(c, cond, a, b, n->span);
}

static Ent eval_cast(Check *c, const Node *n) {
    Ent e = eval(c, n->kid[0]);
    Elem to;
    if (!eval_elem(c, n->kid[1], &to)) return ent_error(c);
    return recipe_cast(c, e, to, cast_to(c, e, to, n->span));
}

// What methods of tensors are called elsewhere.
static const char *method_advice(Check *c, Ent of, Sym name) {
    static const char *const of_graph[][2] = {
        {"T", "a transpose is a launch: `kernel transpose(x: f32[M, N], y: out f32[N, M]) ...`"}, {"reshape", "write `reshape(x, M, N)`"}, {"view", "write `reshape(x, M, N)`"},
        {"to", "a conversion is a launch of a kernel that does it"}, {"astype", "a conversion is a launch of a kernel that does it"}};
    for (size_t i = 0; in_item(c, N_graph) && of.kind == EN_tensor && i < sizeof of_graph / sizeof *of_graph; i++)
        if (strcmp(of_graph[i][0], name->s) == 0) return of_graph[i][1];
    static const char *const rows[][2] = {
        {"to", "convert with `as` and an element type: `x as f32`"}, {"astype", "convert with `as` and an element type: `x as f32`"}, {"float", "convert with `as` and an element type: `x as f32`"}, {"cast", "convert with `as` and an element type: `x as f32`"},
        {"shape", "dimensions have names, those in the tensor's type"}, {"size", "dimensions have names, those in the tensor's type"},
        {"T", "index a tensor in the order of its dimensions; tiles have no order to transpose"}, {"dtype", "write `elem(x)`"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(rows[i][0], name->s) == 0) return rows[i][1];
    const Builtin *b = builtin_find(name);
    return b || scope_find(c->scope, name) ? arena_printf(c->a, "functions are called by name: `%s(x%s)`", name->s,
                                                          b && builtin_over(b) ? " over n" : "")
                                           : NULL;
}

static Ent eval_field(Check *c, const Node *n) {
    Ent e = eval(c, n->kid[0]);
    if (e.kind == EN_error) return e;
    for (int i = 0; e.kind == EN_tuple && e.tuple->names && i < e.tuple->n; i++) {
        if (e.tuple->names[i] == n->sym) return e.tuple->at[i];
    }
    bool  state = e.kind == EN_tuple && e.tuple->names;
    Diag *d = report(c, E_no_field, n->name_span.hi ? n->name_span : n->span,
                     state ? "the loop's state" : ent_text(c, e), n->sym ? n->sym->s : "?");
    Buf names = {0};
    for (int i = 0; state && i < e.tuple->n; i++) buf_printf(&names, "%s`%s`", i ? ", " : "", e.tuple->names[i]->s);
    if (names.n) diag_help(d, "it has the variables that the loop carries: %s", names.p);
    buf_free(&names);
    const char *help = n->sym ? method_advice(c, e, n->sym) : NULL;
    if (help) diag_help(d, "%s", help);
    return ent_error(c);
}

Ent eval_tuple(Check *c, const Node *n) {
    Tuple *t = NEW(c->a, Tuple);
    t->n = (int)n->nkid;
    t->at = NEW_N(c->a, Ent, n->nkid);
    for (uint32_t i = 0; i < n->nkid; i++) t->at[i] = eval(c, n->kid[i]);
    return (Ent){.kind = EN_tuple, .tuple = t, .span = n->span};
}

static Ent eval_lambda(Check *c, const Node *n) {
    const Node *domain = n->kid[0];
    for (uint32_t i = 0; domain && i < domain->nkid; i++) {
        if (domain->kid[i] && domain->kid[i]->kind == N_clause) return view_make(c, n);
    }
    Lambda *l = NEW(c->a, Lambda);
    *l = (Lambda){.node = n, .env = c->scope, .rt_depth = c->rt_depth};
    return (Ent){.kind = EN_lambda, .lambda = l, .span = n->span};
}

static Ent eval_colon_dim(Check *c, const Node *n) {
    if (!n->sym) return ent_error(c);
    Bind *b = scope_find(c->scope, n->sym);
    if (!b) {
        Diag *d = report(c, E_unknown_name, n->span, n->sym->s);
        suggest_name(c, d, n->sym, name_at(n));
        return ent_error(c);
    }
    b->used = true;
    if (b->ent.kind == EN_axis) return b->ent;
    TAxis *ax = canonical_axis(c, b->ent, n->sym, n->span);
    return ax ? (Ent){.kind = EN_axis, .axis = ax, .span = n->span} : ent_error(c);
}

// A literal from 2^63 on fits no type but u64: it is of that type.
static Ent eval_int(Check *c, const Node *n) {
    return n->ival >= 0 ? ent_int(n->ival, n->span) : ent_value(tx_const_int(c, n->ival, EL_u64, n->span));
}

static Ent eval_unary(Check *c, const Node *n) {
    const Node *of = n->kid[0];
    if (n->op == OP_neg && of && of->kind == N_int && of->ival == INT64_MIN) return ent_int(INT64_MIN, n->span);
    return unary(c, (AstOp)n->op, eval(c, of), n->span);
}

static Ent eval_binary(Check *c, const Node *n) {
    bool logic = n->op == OP_land || n->op == OP_lor;
    Ent a = eval(c, n->kid[0]);
    if (logic) a = recipe_pin(c, a);
    if (logic && a.kind == EN_bool && a.i == (n->op == OP_lor)) return a;
    Ent b = eval(c, n->kid[1]);
    if (logic) b = recipe_pin(c, b);
    return binary(c, (AstOp)n->op, a, b, n->span, n->kid[0]->span, n->kid[1]->span);
}

static Ent eval_string(const Node *n) { return (Ent){.kind = EN_str, .str = n->str, .span = n->span}; }

static Ent eval_type_node(Check *c, const Node *n) {
    Elem e;
    if (n->kind == N_type_name && n->sym) {
        Bind *b = scope_find(c->scope, n->sym);
        if (b) { b->used = true; return b->ent; }
    }
    return eval_elem(c, n, &e) ? (Ent){.kind = EN_type, .elem = e, .span = n->span} : ent_error(c);
}

// A variable's every use has its own place.
static Ent eval_name(Check *c, const Node *n) {
    Ent e = name_lookup(c, n);
    if (e.kind == EN_value && (e.x->kind == TX_var || e.x->kind == TX_dim)) {
        TExpr *x = tx_new(c, (TExprKind)e.x->kind, e.x->type, n->span, 0);
        if (e.x->kind == TX_var) x->var = e.x->var;
        else x->dim = e.x->dim;
        e.x = x;
    }
    return e;
}

static Ent eval_kind(Check *c, const Node *n) {
    switch ((NodeKind)n->kind) {
    case N_name:      return eval_name(c, n);
    case N_int:       return eval_int(c, n);
    case N_float:     return ent_float(n->fval, n->span);
    case N_bool:      return ent_bool(n->ival != 0, n->span);
    case N_string:    return eval_string(n);
    case N_unary:     return eval_unary(c, n);
    case N_binary:    return eval_binary(c, n);
    case N_ternary:   return eval_ternary(c, n);
    case N_cast:      return eval_cast(c, n);
    case N_call:      return eval_call(c, n);
    case N_index:     return sema_index(c, n);
    case N_colon_dim: return eval_colon_dim(c, n);
    case N_range:     return range_axis(c, NULL, n);
    case N_lambda:    return eval_lambda(c, n);
    case N_field:     return eval_field(c, n);
    case N_tuple:     return eval_tuple(c, n);
    case N_type_name: case N_type_tensor: case N_type_ptr: return eval_type_node(c, n);
    case N_error_stmt: return ent_error(c);
    default:
        report(c, E_not_value, n->span, n->kind == N_with ? "a launch" : n->kind == N_colon ? "`:`" : "this");
        return ent_error(c);
    }
}

Ent eval(Check *c, const Node *n) {
    if (!n || c->too_big) return ent_error(c);
    if (c->depth >= limit_of(LIMIT_inlined_nesting)) {
        too_big(c, n->span, LIMIT_inlined_nesting, "expressions inside each other");
        return ent_error(c);
    }
    // these keep them (recipe.c)
    bool rows = n->kind == N_name || n->kind == N_int || n->kind == N_binary || n->kind == N_unary || n->kind == N_cast;
    c->depth++;
    c->pinning += !rows;
    Ent e = eval_kind(c, n);
    c->pinning -= !rows;
    c->depth--;
    return e;
}
