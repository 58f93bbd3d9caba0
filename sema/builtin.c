// Builtins: one row each. A row's handler gets the arguments as entities (lazy rows: as written) and
// gives an entity; the elementwise functions come from TFUNS and share one handler.
//
// The library (lang/std) is written in the language on top of these; what can be said there is not here.
#include "sema/builtin.h"

#include <math.h>
#include <string.h>

typedef Ent Handler(Check *c, const Call *k);

struct Builtin {
    const char *name;
    int8_t      lo, hi;             // positional arguments; hi < 0: any number
    Handler    *handler;
    int         code;               // TFun, TReduce, TAtomic
    uint16_t    flags;
    const char *meaning;
};

enum { OVER = 1, LAZY = 2, TYPED = 4,                          // may have `over`, takes syntax, `<T>`
       // takes an argument of this name
       WHERE = 8, OTHER = 16, PREC = 32, EXCLUSIVE = 64, REVERSE = 128, DESCENDING = 256, NAN_FIRST = 512 };

static const struct { const char *name; uint16_t flag; } named_args[] = {
    {"where", WHERE}, {"other", OTHER}, {"prec", PREC}, {"exclusive", EXCLUSIVE}, {"reverse", REVERSE}, {"descending", DESCENDING},
    {"nan_first", NAN_FIRST},
};

bool        builtin_over(const Builtin *b) { return b->flags & OVER; }
const char *call_name(const Call *k) { return k->b->name; }
int         call_code(const Call *k) { return k->b->code; }

const Arg *named_arg(const Call *k, const char *name) {
    for (int i = 0; i < k->n; i++) {
        if (k->args[i].name && strcmp(k->args[i].name->s, name) == 0) return &k->args[i];
    }
    return NULL;
}

int positional_args(const Call *k) {
    int n = 0;
    for (int i = 0; i < k->n; i++) n += !k->args[i].name;
    return n;
}

// ---- elementwise functions -------------------------------------------------------------------------

typedef struct FunRow { const char *name; int n; char cls; } FunRow;

static const FunRow fun_rows[TF_COUNT] = {
#define X(name, n, cls, meaning) [TF_##name] = {#name, n, #cls[0]},
    TFUNS(X)
#undef X
};

static bool fun_operand(Check *c, const FunRow *f, TExpr **x, Span at, bool keeps) {
    Elem e = (*x)->type.elem;
    if ((*x)->type.ptr || e == EL_bool || (f->cls == 'f' && !elem_is_float(e)) || (f->cls == 'i' && !elem_is_int(e))) {
        Diag *d = report(c, E_operand_type, at, f->name, ttype_text(c, (*x)->type));
        if (elem_is_int(e) && f->cls == 'f') diag_help(d, "convert it with `as f32`");
        return false;
    }
    if (elem_is_storage(e) && !keeps) *x = tx_cast(c, *x, EL_f32, at);
    return true;
}

static Ent fun_of(Check *c, TFun fun, const Ent *args, int n, Span at) {
    const FunRow *f = &fun_rows[fun];
    bool all_const = true, keeps = fun == TF_min || fun == TF_max || fun == TF_isnan;
    for (int i = 0; i < n; i++) {
        all_const = all_const && (args[i].kind == EN_int || args[i].kind == EN_float);
        if (args[i].kind == EN_bool) {
            report(c, E_operand_type, at, f->name, "bool");
            return ent_error(c);
        }
    }
    if (all_const) return fold_fun(c, fun, args, n, at);
    if (n == 1) {
        TExpr *x = value_of(c, args[0], at);
        if (!x || !fun_operand(c, f, &x, at, keeps)) return ent_error(c);
        TType t = x->type;
        if (fun == TF_isnan) t.elem = EL_bool;
        return ent_value(tx_fun(c, fun, t, at, x, NULL, NULL));
    }
    Ent a = args[0], b = args[1], d = n > 2 ? args[2] : ent_void();
    TType t;
    if (!unify(c, &a, &b, keeps, OP_none, at, &t)) return ent_error(c);
    if (n > 2) {                                     // fma: all three to one type
        if (!unify(c, &a, &d, keeps, OP_none, at, &t) || !unify(c, &b, &d, keeps, OP_none, at, &t) ||
            !unify(c, &a, &d, keeps, OP_none, at, &t))
            return ent_error(c);
        t.naxes = 0;
        if (!ttype_union(c, &t, a.x->type, at) || !ttype_union(c, &t, b.x->type, at) ||
            !ttype_union(c, &t, d.x->type, at))
            return ent_error(c);
    }
    TExpr *x = a.x;
    if (!fun_operand(c, f, &x, at, keeps)) return ent_error(c);
    return ent_value(tx_fun(c, fun, t, at, a.x, b.x, n > 2 ? d.x : NULL));
}

static Ent do_fun(Check *c, const Call *k) {
    Ent args[4];
    for (int i = 0; i < k->n && i < 4; i++) args[i] = k->args[i].e;
    return fun_of(c, (TFun)k->b->code, args, k->n, k->at);
}

// ---- reductions ------------------------------------------------------------------------------------

const Node *over_list(const Call *k) { return k->node ? k->node->kid[2] : NULL; }

static TExpr *reduce_over(Check *c, TReduce r, TExpr *x, TAxis **axes, int n, Span at) {
    Elem e = x->type.elem;
    bool logic = r == TR_any || r == TR_every, arg = r == TR_argmax || r == TR_argmin;
    const char *names[] = {
#define X(name) #name,
        TREDUCES(X)
#undef X
    };
    if (x->type.ptr || logic != (e == EL_bool)) {
        Diag *d = report(c, E_operand_type, at, names[r], ttype_text(c, x->type));
        if (logic) diag_help(d, "compare with `!= 0`");
        else if (e == EL_bool && arg) diag_help(d, "the first that is %s is `%s(c as i32 over n)`", r == TR_argmax ? "true" : "false", names[r]);
        else if (e == EL_bool) diag_help(d, "count with `sum(c as i32 over n)`, or use `any` and `every`");
        return NULL;
    }
    if (elem_is_storage(e) && (r == TR_sum || r == TR_prod)) x = tx_cast(c, x, EL_f32, at);
    TType t = x->type;
    for (int i = 0; i < n; i++) t = type_without(t, axes[i]);
    if (arg) t.elem = EL_index;
    TExpr *red = tx_new(c, TX_reduce, t, at, 1, x);
    red->op = (uint8_t)r;
    red->naxes = (uint8_t)n;
    red->axis = NEW_N(c->a, TAxis *, n);
    memcpy(red->axis, axes, sizeof *axes * (size_t)n);
    return red;
}

// The axes named by `over`; each must be in x, once.
int over_axes(Check *c, const Call *k, TType t, TAxis **axes) {
    const Node *over = over_list(k);
    int n = 0;
    for (uint32_t i = 0; over && i < over->nkid; i++) {
        Ent ax = want_axis(c, over->kid[i]);
        if (ax.kind != EN_axis) return -1;
        bool twice = false;
        for (int j = 0; j < n; j++) twice = twice || axes[j] == ax.axis;
        if (!type_has(t, ax.axis) || twice || n == MAX_AXES) {
            Diag *d = report(c, E_over_axis, over->kid[i]->span, ax.axis->name->s);
            diag_primary(d, "the value is %s", ttype_text(c, t));
            if (t.naxes == 0)
                diag_help(d, "a scalar needs no reduction; a variable that is to have the axis is declared with it: `var x = zeros(%s);`",
                          ax.axis->name->s);
            return -1;
        }
        axes[n++] = ax.axis;
    }
    return n;
}

static Ent do_reduce(Check *c, const Call *k) {
    TReduce r = (TReduce)k->b->code;
    if (!over_list(k) || over_list(k)->nkid == 0) {
        bool elementwise = r == TR_max || r == TR_min;
        if (elementwise && k->n >= 2) {              // max(a, b, c): elementwise, left to right
            Ent acc = k->args[0].e;
            for (int i = 1; i < k->n; i++) {
                Ent two[2] = {acc, k->args[i].e};
                acc = fun_of(c, r == TR_max ? TF_max : TF_min, two, 2, k->at);
                if (acc.kind == EN_error) break;
            }
            return acc;
        }
        Diag *d = report(c, E_over_missing, k->at, k->b->name);
        if (k->n > 0 && k->args[0].e.kind == EN_value) help_axes(c, d, k->b->name, k->args[0].e.x->type);
        return ent_error(c);
    }
    if (k->n != 1) {
        report(c, E_argument_count, k->at, k->b->name, "one argument before `over`", k->n);
        return ent_error(c);
    }
    TExpr *x = value_of(c, k->args[0].e, k->args[0].span);
    TAxis *axes[MAX_AXES];
    int n = x ? over_axes(c, k, x->type, axes) : -1;
    if (n < 0) return ent_error(c);
    if ((r == TR_argmax || r == TR_argmin) && n != 1) {
        report(c, E_argument_count, k->at, k->b->name, "one axis", n);
        return ent_error(c);
    }
    return ent_value(reduce_over(c, r, x, axes, n, k->at));
}

// mean = sum / number of live lanes; NaN over none.
static Ent do_mean(Check *c, const Call *k) {
    TExpr *x = value_of(c, k->args[0].e, k->args[0].span);
    TAxis *axes[MAX_AXES];
    if (!x) return ent_error(c);
    int n = over_axes(c, k, x->type, axes);
    if (n == 0) report(c, E_over_missing, k->at, "mean");
    if (n <= 0) return ent_error(c);
    if (!elem_is_float(x->type.elem)) {
        Diag *d = report(c, E_operand_type, k->at, "mean", ttype_text(c, x->type));
        diag_help(d, "convert it with `as f32`");
        return ent_error(c);
    }
    TExpr *sum = reduce_over(c, TR_sum, x, axes, n, k->at);
    if (!sum) return ent_error(c);
    Ent count = ent_int(1, k->at);
    for (int i = 0; i < n; i++) {
        TExpr *len = axis_length(c, axes[i], k->at);
        Ent e = len->kind == TX_const ? ent_int(len->ival, k->at) : ent_value(len);
        count = i == 0 ? e : binary(c, OP_mul, count, e, k->at, k->at, k->at);
    }
    return binary(c, OP_div, ent_value(sum), count, k->at, k->at, k->at);
}

// ---- scalars of axes, integers ------------------------------------------------------------------------

enum { FIRST, LAST, END, LENGTH };

static Ent do_axis_scalar(Check *c, const Call *k) {
    Ent e = k->args[0].e;
    e = as_axis(c, e, k->args[0].span);
    if (e.kind == EN_error) return e;
    TExpr *x = k->b->code == FIRST ? e.axis->lo : k->b->code == LENGTH ? axis_length(c, e.axis, k->at) : axis_end(c, e.axis, k->at);
    if (k->b->code == LAST) x = index_op(c, OP_sub, x, tx_const_int(c, 1, EL_index, k->at), k->at);
    return x->kind == TX_const ? ent_int(x->ival, k->at) : ent_value(x);
}

// (a + b - 1) / b of numbers and of what is of type index, where nothing overflows; of other integers a / b, and one more where something is left.
static Ent do_cdiv(Check *c, const Call *k) {
    Ent a = k->args[0].e, b = k->args[1].e, one = ent_int(1, k->at);
    Span pa = k->args[0].span, pb = k->args[1].span;
    if (b.kind == EN_value) b = ent_value(keep(c, b.x, sym(c->s, "by"), pb));
    if (a.kind == EN_value && a.x->type.elem != EL_index) a = ent_value(keep(c, a.x, sym(c->s, "of"), pa));
    Ent down = binary(c, OP_div, a, b, k->at, pa, pb);
    if (down.kind == EN_float || (down.kind == EN_value && elem_is_float(down.x->type.elem))) {
        report(c, E_operand_type, k->at, "cdiv", ent_text(c, down.kind == EN_value ? down : a.kind == EN_float ? a : b));
        return ent_error(c);
    }
    if (down.kind != EN_value || down.x->type.elem == EL_index) {
        AstOp nearer = b.kind == EN_int && b.i < 0 ? OP_add : OP_sub;
        Ent top = binary(c, nearer, binary(c, OP_add, a, b, k->at, pa, pb), one, k->at, k->at, k->at);
        return down.kind == EN_error ? down : binary(c, OP_div, top, b, k->at, k->at, pb);
    }
    down = ent_value(keep(c, down.x, sym(c->s, "down"), k->at));
    Ent left = binary(c, OP_ne, binary(c, OP_rem, a, b, k->at, pa, pb), ent_int(0, k->at), k->at, k->at, k->at);
    return select_of(c, left, binary(c, OP_add, down, one, k->at, k->at, k->at), down, k->at);
}

// A graph's dimensions are symbols while it is checked, and numbers when it runs: what is no polynomial of them is not known yet.
static bool open_in_graph(const Check *c, Ent e) {
    return in_item(c, N_graph) && e.kind == EN_value && !e.x->type.naxes && elem_is_int(e.x->type.elem);
}

static Ent do_pow2(Check *c, const Call *k) {
    Ent e = k->args[0].e;
    if (e.kind == EN_error) return e;
    if (open_in_graph(c, e)) return ent_unknown();
    if (e.kind != EN_int) {
        report(c, E_not_comptime, k->args[0].span, "the argument of `next_pow2`");
        return ent_error(c);
    }
    int64_t r;
    if (next_pow2(e.i, &r)) return ent_int(r, k->at);
    report(c, E_const_overflow, k->at, "next_pow2");
    return ent_error(c);
}

static Ent do_elem(Check *c, const Call *k) {
    Ent e = k->args[0].e;
    if (e.kind == EN_error || e.kind == EN_type) return e;
    Elem elem = EL_none;
    if (e.kind == EN_tensor) elem = e.tensor->elem;
    else if (e.kind == EN_axis) elem = EL_index;
    else {
        const TExpr *x = value_of(c, e, k->args[0].span);
        if (x) elem = x->type.elem;
    }
    return elem == EL_none ? ent_error(c) : (Ent){.kind = EN_type, .elem = elem, .span = k->at};
}

static Ent do_log2(Check *c, const Call *k) {
    Ent e = k->args[0].e;
    if (open_in_graph(c, e)) return ent_unknown();
    if (e.kind != EN_int) return fun_of(c, TF_log2, &e, 1, k->at);
    if (e.i <= 0 || (e.i & (e.i - 1))) return fun_of(c, TF_log2, &e, 1, k->at);
    return ent_int(__builtin_ctzll((unsigned long long)e.i), k->at);
}

static Ent do_precise(Check *c, const Call *k) {
    const Node *n = k->args[0].node;
    if (n && n->kind == N_binary && n->op == OP_div) {
        Ent two[2] = {eval(c, n->kid[0]), eval(c, n->kid[1])};
        if (two[0].kind == EN_error || two[1].kind == EN_error) return ent_error(c);
        return fun_of(c, TF_div_rn, two, 2, k->at);
    }
    if (n && n->kind == N_call && n->nkid == 4 && n->kid[0]->kind == N_name && strcmp(n->kid[0]->sym->s, "sqrt") == 0) {
        Ent x = eval(c, n->kid[3]);
        return x.kind == EN_error ? x : fun_of(c, TF_sqrt_rn, &x, 1, k->at);
    }
    Diag *d = report(c, E_operand_type, k->at, "precise", "this");
    diag_help(d, "write `precise(a / b)` or `precise(sqrt(x))`");
    return ent_error(c);
}

// ---- effects -------------------------------------------------------------------------------------------

static bool text_arg(const Call *k, int i, Str *out) {
    if (i >= k->n || k->args[i].e.kind != EN_str) return false;
    *out = k->args[i].e.str;
    return true;
}

static Ent do_static_assert(Check *c, const Call *k) {
    Ent e = k->args[0].e;
    Str s = {0};
    text_arg(k, 1, &s);
    if (e.kind == EN_value) {
        diag_help(
            report(c, E_not_comptime, k->args[0].span, "the condition of `static_assert`"),
            "what the launch knows stands in the kernel's head: `where M > 3`; what the GPU computes, in `assert`");
    } else if (e.kind != EN_bool) {
        report(c, E_condition, k->args[0].span, "the condition of `static_assert`", ent_text(c, e));
    } else if (!e.i) {
        Diag *d = report(c, E_static_assert, k->args[0].span, s.n ? ": " : "",
                         s.n ? arena_printf(c->a, "%.*s", (int)s.n, s.p) : "");
        note_values(c, d);
    }
    return ent_void();
}

static Ent do_assert(Check *c, const Call *k) {
    Str s = {0};
    if (!text_arg(k, 1, &s)) s = span_text(c->s, k->args[0].span);
    Ent e = k->args[0].e;
    if (e.kind == EN_bool && e.i) return ent_void();
    TExpr *x = e.kind == EN_bool ? tx_const_int(c, 0, EL_bool, k->at) : NULL;
    if (e.kind == EN_value && e.x->type.elem == EL_bool && e.x->type.naxes > 0) {
        TType t = e.x->type;                          // a tile must hold at every live lane
        x = reduce_over(c, TR_every, e.x, t.axis, t.naxes, k->at);
    }
    if (!x && !cond_of(c, e, k->args[0].span, "the condition of `assert`", NULL, &x)) return ent_error(c);
    TStmt *st = ts_emit(c, TS_assert, k->at);
    st->cond = x;
    st->str = s;
    return ent_void();
}

static Ent do_print(Check *c, const Call *k) {
    Str s = {0};
    int first = text_arg(k, 0, &s) ? 1 : 0;
    if (k->n == first) ts_emit(c, TS_print, k->at)->str = s;
    for (int i = first; i < k->n; i++) {
        TExpr *x = value_of(c, k->args[i].e, k->args[i].span);
        if (!x) return ent_error(c);
        TStmt *st = ts_emit(c, TS_print, k->at);
        st->str = i == first && s.n ? s : span_text(c->s, k->args[i].span);
        st->value = x;
    }
    return ent_void();
}

// ---- the table -----------------------------------------------------------------------------------------

// clang-format off
#define FUN(name, n)            {#name, n, n, do_fun, TF_##name, 0, NULL}
#define RED(name)               {#name, 1, 1, do_reduce, TR_##name, OVER, "reduction"}
#define CUM(name)               {"cum" #name, 1, 3, do_scan, TR_##name, OVER | EXCLUSIVE | REVERSE, "prefixes along an axis: exclusive =, reverse ="}
#define ATOMIC(name, n)         {"atomic_" #name, n, n + 1, do_atomic, TA_##name, LAZY | WHERE, "atomic operation; gives the old value"}
static const Builtin builtins[] = {
    FUN(exp, 1),   FUN(exp2, 1),  FUN(log, 1),   FUN(sqrt, 1),  FUN(rsqrt, 1), FUN(sin, 1),   FUN(cos, 1),
    FUN(tanh, 1),  FUN(erf, 1),   FUN(floor, 1), FUN(ceil, 1),  FUN(round, 1), FUN(trunc, 1), FUN(abs, 1),
    FUN(fma, 3),   FUN(div_rn, 2), FUN(sqrt_rn, 1), FUN(isnan, 1), FUN(pow, 2),   FUN(fmod, 2),  FUN(copysign, 2),
    RED(sum), RED(prod), RED(any), RED(every), RED(argmax), RED(argmin),
    {"max",           1, -1, do_reduce,        TR_max,  OVER,         "greater, elementwise; with `over`, greatest along axes"},
    {"min",           1, -1, do_reduce,        TR_min,  OVER,         "lesser, elementwise; with `over`, least along axes"},
    {"log2",          1,  1, do_log2,          0,       0,            "logarithm to base 2; an integer for a compile-time power of two"},
    {"mean",          1,  1, do_mean,          0,       OVER,         "the sum divided by the number of live elements"},
    {"dot",           2,  3, do_dot,           0,       OVER | LAZY | PREC, "contraction of a shared axis"},
    CUM(sum), CUM(prod), CUM(max), CUM(min),
    {"scan",          1, -1, do_joined,        JOINED_SCAN, OVER | REVERSE, "prefixes along an axis by a function: reverse ="},
    {"reduce",        1, -1, do_joined,        0,       OVER,         "along an axis by a function"},
    {"take",          2,  3, do_take,          0,       OVER | OTHER, "the value in another place of an axis: other ="},
    {"sort",          1, -1, do_sort,          0,       OVER | DESCENDING | NAN_FIRST, "in order along an axis, and other tiles with it: descending =, nan_first ="},
    {"zeros",         0, -1, do_zeros,         0,       TYPED,        "a tile of zeros over axes"},
    {"ones",          0, -1, do_zeros,         1,       TYPED,        "a tile of ones over axes"},
    {"full",          1, -1, do_full,          0,       TYPED,        "a value over axes"},
    {"where",         3,  3, do_where,         0,       0,            "elementwise choice, `where(condition, a, b)`"},
    {"select",        3,  3, do_where,         0,       0,            "elementwise choice"},
    {"bitcast",       1,  1, do_bitcast,       0,       TYPED,        "the same bits as another type"},
    {"rename",        3,  3, do_rename,        0,       0,            "a tile with one axis called another"},
    {"first",         1,  1, do_axis_scalar,   FIRST,   0,            "an axis's first index"},
    {"last",          1,  1, do_axis_scalar,   LAST,    0,            "an axis's last live index"},
    {"end",           1,  1, do_axis_scalar,   END,     0,            "one past an axis's last live index"},
    {"length",        1,  1, do_axis_scalar,   LENGTH,  0,            "how many elements of an axis are live"},
    {"cdiv",          2,  2, do_cdiv,          0,       0,            "quotient rounded up"},
    {"next_pow2",     1,  1, do_pow2,          0,       0,            "least power of two that is not less, at compile time"},
    {"elem",          1,  1, do_elem,          0,       0,            "the element type of a value or a tensor, at compile time"},
    {"precise",       1,  1, do_precise,       0,       LAZY,         "correctly rounded division or square root"},
    {"load",          1,  3, do_load,          0,       WHERE | OTHER, "read through a pointer: where =, other ="},
    {"store",         2,  3, do_store,         0,       WHERE,        "write through a pointer: where ="},
    ATOMIC(add, 2), ATOMIC(min, 2), ATOMIC(max, 2), ATOMIC(and, 2), ATOMIC(or, 2), ATOMIC(xor, 2), ATOMIC(xchg, 2), ATOMIC(cas, 3),
    {"static_assert", 1,  2, do_static_assert, 0,       0,            "must hold at compile time"},
    {"assert",        1,  2, do_assert,        0,       0,            "must hold at run time"},
    {"print",         1, -1, do_print,         0,       0,            "print a text and values"},
};
// clang-format on

static const char *const const_names[] = {"inf", "nan", "PI", "LN2", "LOG2E"};

int builtin_count(void) { return (int)(sizeof builtins / sizeof *builtins); }
const char *builtin_name_at(int i) { return builtins[i].name; }
const char *builtin_name(const Builtin *b) { return b->name; }
bool builtin_is_lazy(const Builtin *b) { return b->flags & LAZY; }

const Builtin *builtin_find(Sym name) {
    for (size_t i = 0; i < sizeof builtins / sizeof *builtins; i++) {
        if (strcmp(builtins[i].name, name->s) == 0) return &builtins[i];
    }
    return NULL;
}

bool builtin_const(Check *c, Sym name, Span at, Ent *out) {
    static const double values[] = {INFINITY, NAN, 3.14159265358979323846, 0.69314718055994530942, 1.44269504088896340736};
    static const char *const kinds[] = {"float", "int", "bool", "type", "fn", "axis"};
    Elem e = elem_by_name((Str){name->s, name->n});
    (void)c;
    if (e != EL_none) {
        *out = (Ent){.kind = EN_type, .elem = e, .span = at};
        return true;
    }
    for (size_t i = 0; i < sizeof const_names / sizeof *const_names; i++) {
        if (strcmp(const_names[i], name->s) == 0) return *out = ent_float(values[i], at), true;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (i != 0 && strcmp(kinds[i], name->s) == 0)
            return *out = (Ent){.kind = EN_kind, .kindname = name, .span = at}, true;
    }
    return false;
}

static bool takes_name(const Builtin *b, Sym name) {
    for (size_t i = 0; i < sizeof named_args / sizeof *named_args; i++)
        if (strcmp(named_args[i].name, name->s) == 0) return b->flags & named_args[i].flag;
    return false;
}

static void help_over(Diag *d, const Builtin *b) {
    diag_help(d, "axes stand after `over`: `%s(%s over n)`", b->name, b->lo == 1 ? "x" : "a, b");
}

// Arguments that such functions have in other languages.
static const struct { const char *name, *help; } foreign_args[] = {
    {"mask",           "outside of its tensor `x[i]` reads 0, or v as `x[i] else v`; pointers have `where = c`"},
    {"boundary_check", "every index is checked: outside of its tensor `x[i]` reads 0"},
    {"keepdims",       "tiles align by their axes: nothing has to be kept for that"},
    {"keepdim",        "tiles align by their axes: nothing has to be kept for that"},
    {"keep_dims",      "tiles align by their axes: nothing has to be kept for that"},
    {"return_indices", "`argmax(x over n)` and `argmin(x over n)` give the place"},
    {"allow_tf32",     "write `prec = tf32`, `tf32x3` or `ieee`"},
    {"input_precision", "write `prec = tf32`, `tf32x3` or `ieee`"},
    {"acc",            "write `acc += dot(a, b over k)`"},
    {"out_dtype",      "convert the result: `dot(a, b over k) as bf16`"},
};

static bool help_foreign_arg(Diag *d, Sym name) {
    for (size_t i = 0; i < sizeof foreign_args / sizeof *foreign_args; i++) {
        if (strcmp(foreign_args[i].name, name->s) != 0) continue;
        diag_help(d, "%s", foreign_args[i].help);
        return true;
    }
    return false;
}

static bool args_ok(Check *c, const Call *k) {
    const Builtin *b = k->b;
    for (int i = 0; i < k->n; i++) {
        if (k->args[i].name && !takes_name(b, k->args[i].name)) {
            Diag *d = report(c, E_argument_name, k->args[i].span, b->name, k->args[i].name->s);
            if (help_foreign_arg(d, k->args[i].name)) return false;
            if (b->flags & OVER) help_over(d, b);
            if (b->flags & TYPED) diag_help(d, "the element type stands in `<>`: `%s<f16>(...)`", b->name);
            return false;
        }
        bool value = k->args[i].e.kind != EN_void || b->flags & LAZY;
        if (!value) {
            report(c, E_not_value, k->args[i].span, "nothing");
            return false;
        }
    }
    if (k->n < b->lo || (b->hi >= 0 && k->n > b->hi)) {
        const char *want = b->lo == b->hi ? arena_printf(c->a, "%d argument%s", b->lo, b->lo == 1 ? "" : "s")
                         : b->hi < 0      ? arena_printf(c->a, "at least %d argument%s", b->lo, b->lo == 1 ? "" : "s")
                                          : arena_printf(c->a, "%d to %d arguments", b->lo, b->hi);
        Diag *d = report(c, E_argument_count, k->at, b->name, want, k->n);
        if (b->flags & OVER && k->n > b->hi) help_over(d, b);
        else if (b->meaning) diag_help(d, "`%s`: %s", b->name, b->meaning);
        return false;
    }
    if (over_list(k) && over_list(k)->nkid && !(b->flags & OVER)) {
        report(c, E_argument_name, over_list(k)->span, b->name, "over");
        return false;
    }
    if (k->node && k->node->kid[1] && k->node->kid[1]->nkid && !(b->flags & TYPED)) {
        report(c, E_generic_unknown, k->node->kid[1]->span, b->name, "");
        return false;
    }
    return true;
}

Ent builtin_call(Check *c, const Builtin *b, const Node *n, const Arg *args, int nargs, Span at) {
    Call k = {.b = b, .node = n, .args = args, .n = nargs, .at = at};
    if (!args_ok(c, &k) || c->too_big) return ent_error(c);
    for (int i = 0; i < nargs; i++) {
        if (args[i].e.kind == EN_unknown) return ent_unknown();
    }
    return b->handler(c, &k);
}
