// Nodes to expressions of a kernel. A node at a place (coordinates in the kernel's axes) is computed by what its kind
// says of its sources at theirs, down to what is in memory: there it is a load. Equal nodes at equal places are one
// expression.
//
// 16-bit floats compute in f32, as the language has it, and are rounded where the model says so (casts) and where they are
// stored; the IR's rounding after each operation is not imitated.

#include "graph/write/internal.h"

#include <string.h>

// ---- elementwise operations as text ---------------------------------------------------------------------------------

typedef struct EwText { const char *text; uint8_t prec; bool library; } EwText;

#define CALL P_PRIMARY
static const EwText float_text[EW_COUNT] = {
    [EW_neg] = {"-$0", P_UNARY, false}, [EW_abs] = {"abs($0)", CALL, false}, [EW_sign] = {"sign_of($0)", CALL, true},
    [EW_floor] = {"floor($0)", CALL, false}, [EW_ceil] = {"ceil($0)", CALL, false}, [EW_round] = {"round($0)", CALL, false},
    [EW_trunc] = {"trunc($0)", CALL, false}, [EW_sqrt] = {"sqrt($0)", CALL, false}, [EW_exp] = {"exp($0)", CALL, false},
    [EW_log] = {"log($0)", CALL, false}, [EW_sin] = {"sin($0)", CALL, false}, [EW_cos] = {"cos($0)", CALL, false},
    [EW_tan] = {"tan($0)", CALL, true}, [EW_asin] = {"asin($0)", CALL, true}, [EW_acos] = {"acos($0)", CALL, true},
    [EW_atan] = {"atan($0)", CALL, true}, [EW_sinh] = {"sinh($0)", CALL, true}, [EW_cosh] = {"cosh($0)", CALL, true},
    [EW_tanh] = {"tanh($0)", CALL, false}, [EW_asinh] = {"asinh($0)", CALL, true}, [EW_acosh] = {"acosh($0)", CALL, true},
    [EW_atanh] = {"atanh($0)", CALL, true}, [EW_erf] = {"erf($0)", CALL, false}, [EW_sigmoid] = {"sigmoid($0)", CALL, false},
    [EW_isnan] = {"isnan($0)", CALL, false}, [EW_isinf] = {"abs($0) == inf", P_EQUAL, false},
    [EW_add] = {"$0 + $1", P_PLUS, false}, [EW_sub] = {"$0 - $1", P_PLUS, false}, [EW_mul] = {"$0 * $1", P_TIMES, false},
    [EW_div] = {"$0 / $1", P_TIMES, false}, [EW_floordiv] = {"floor(div_rn($0, $1))", CALL, false},
    [EW_mod] = {"mod_floor($0, $1)", CALL, true}, [EW_rem] = {"mod_trunc($0, $1)", CALL, true}, [EW_pow] = {"power($0, $1)", CALL, true},
    [EW_min] = {"min($0, $1)", CALL, false}, [EW_max] = {"max($0, $1)", CALL, false},
    [EW_eq] = {"$0 == $1", P_EQUAL, false}, [EW_ne] = {"$0 != $1", P_EQUAL, false}, [EW_lt] = {"$0 < $1", P_EQUAL, false},
    [EW_le] = {"$0 <= $1", P_EQUAL, false}, [EW_gt] = {"$0 > $1", P_EQUAL, false}, [EW_ge] = {"$0 >= $1", P_EQUAL, false},
    [EW_where] = {"where($0, $1, $2)", CALL, false},
};
static const EwText int_text[EW_COUNT] = {
    [EW_neg] = {"-$0", P_UNARY, false}, [EW_abs] = {"abs($0)", CALL, false}, [EW_sign] = {"sign_of($0)", CALL, true},
    [EW_floor] = {"$0", CALL, false}, [EW_ceil] = {"$0", CALL, false}, [EW_round] = {"$0", CALL, false}, [EW_trunc] = {"$0", CALL, false},
    [EW_not] = {"~$0", P_UNARY, false},
    [EW_add] = {"$0 + $1", P_PLUS, false}, [EW_sub] = {"$0 - $1", P_PLUS, false}, [EW_mul] = {"$0 * $1", P_TIMES, false},
    [EW_div] = {"div_trunc($0, $1)", CALL, true}, [EW_floordiv] = {"$0 / $1", P_TIMES, false}, [EW_mod] = {"$0 % $1", P_TIMES, false},
    [EW_rem] = {"rem_trunc($0, $1)", CALL, true}, [EW_pow] = {"int_power($0, $1)", CALL, true},
    [EW_min] = {"min($0, $1)", CALL, false}, [EW_max] = {"max($0, $1)", CALL, false},
    [EW_and] = {"($0 & $1)", CALL, false}, [EW_or] = {"($0 | $1)", CALL, false}, [EW_xor] = {"($0 ^ $1)", CALL, false},
    [EW_shl] = {"($0 << $1)", CALL, false}, [EW_shr] = {"($0 >> $1)", CALL, false},
    [EW_eq] = {"$0 == $1", P_EQUAL, false}, [EW_ne] = {"$0 != $1", P_EQUAL, false}, [EW_lt] = {"$0 < $1", P_EQUAL, false},
    [EW_le] = {"$0 <= $1", P_EQUAL, false}, [EW_gt] = {"$0 > $1", P_EQUAL, false}, [EW_ge] = {"$0 >= $1", P_EQUAL, false},
    [EW_where] = {"where($0, $1, $2)", CALL, false},
};
static const EwText bool_text[EW_COUNT] = {
    [EW_not] = {"!$0", P_UNARY, false}, [EW_and] = {"$0 && $1", P_AND2, false}, [EW_or] = {"$0 || $1", P_OR2, false},
    [EW_xor] = {"$0 != $1", P_EQUAL, false}, [EW_eq] = {"$0 == $1", P_EQUAL, false}, [EW_ne] = {"$0 != $1", P_EQUAL, false},
    [EW_min] = {"$0 && $1", P_AND2, false}, [EW_max] = {"$0 || $1", P_OR2, false}, [EW_mul] = {"$0 && $1", P_AND2, false},
    [EW_add] = {"$0 || $1", P_OR2, false}, [EW_where] = {"where($0, $1, $2)", CALL, false},
};

// ---- making ---------------------------------------------------------------------------------------------------------

static KExpr *expr_new(Kernel *k, KExpr proto) {
    KExpr *e = NEW(k->arena, KExpr);
    *e = proto;
    e->var = -1;
    for (int i = 0; i < 3; i++) {
        if (!e->arg[i]) continue;
        e->mask |= e->arg[i]->mask;
        e->arg[i]->uses++;
    }
    vec_push(k->arena, &k->exprs, e);
    return e;
}

KExpr *k_number(Kernel *k, GNum v, const Node *n) {
    return expr_new(k, (KExpr){.op = E_NUMBER, .number = v, .prec = P_PRIMARY, .node = n});
}

KExpr *k_text(Kernel *k, const char *fmt, int prec, Elem elem, KExpr *a, KExpr *b, KExpr *c) {
    return expr_new(k, (KExpr){.op = E_TEXT, .fmt = fmt, .prec = prec, .elem = elem, .arg = {a, b, c}});
}

KExpr *k_sized(Kernel *k, KExpr *e, Elem elem) {
    if (!e || e->elem == elem) return e;
    if (elem == EL_bool && e->op == E_NUMBER) {
        bool truth = e->number.is_int ? e->number.i != 0 : e->number.f != 0;
        return expr_new(
            k, (KExpr){.op = E_NUMBER, .number = g_int(truth), .prec = P_PRIMARY, .elem = EL_bool, .node = e->node});
    }
    const char *fmt = arena_printf(k->arena, "$0 as %s", elem_name(elem));
    if (elem == EL_bool) return k_text(k, "$0 != 0", P_EQUAL, EL_bool, e, NULL, NULL);
    return k_text(k, fmt, P_TERNARY, elem, e, NULL, NULL);
}

// The axes that index expressions vary along, values among them.
static uint64_t mask_of(Kernel *k, const Ix *at, int n) {
    uint64_t m = 0;
    for (int i = 0; i < n; i++) {
        uint64_t a = at[i]->axes;
        m |= a & ((UINT64_C(1) << KAXIS_VALUES) - 1);
        for (int v = KAXIS_VALUES; v < MAX_KAXES; v++)
            if (a >> v & 1) m |= k->axis[v].value->mask;
    }
    return m;
}

static void use_values(Kernel *k, const Ix *at, int n) {
    for (int i = 0; i < n; i++)
        for (int v = KAXIS_VALUES; v < MAX_KAXES; v++)
            if (at[i]->axes >> v & 1) k->axis[v].value->uses += 2;       // it gets a name
}

KExpr *k_index(Kernel *k, Ix e) {
    use_values(k, &e, 1);
    bool truth = e->kind == IX_LT || e->kind == IX_EQ || e->kind == IX_AND || e->kind == IX_OR;
    return expr_new(
        k, (KExpr){
               .op = E_INDEX, .expr = e, .elem = truth ? EL_bool : EL_index, .prec = P_OR2, .mask = mask_of(k, &e, 1)});
}

int k_axis(Kernel *k, KAxisKind kind, Ix extent, int64_t by, const char *name) {
    bool value = kind == A_VALUE;
    if (value ? k->nvalues == MAX_KAXES - KAXIS_VALUES : k->naxes == KAXIS_VALUES) {
        g_error(k->g, "a kernel with too many axes");
        return -1;
    }
    int number = value ? KAXIS_VALUES + k->nvalues++ : k->naxes++;
    k->axis[number] = (KAxis){.kind = kind, .axis = ix_axis(k->g, number, extent), .extent = extent, .by = by, .name = name};
    return number;
}

static KExpr *load(Kernel *k, const Node *n, const Ix *coord, bool has_fill, GNum fill) {
    GNum v;
    if (g_scalar_value(n, &v)) return k_number(k, v, n);
    use_values(k, coord, n->rank);
    return expr_new(k, (KExpr){.op = E_LOAD,
                               .node = n,
                               .coord = copy_ixs(k->g, coord, n->rank),
                               .elem = (Elem)n->elem,
                               .prec = P_PRIMARY,
                               .mask = mask_of(k, coord, n->rank),
                               .has_fill = has_fill,
                               .number = fill});
}

// ---- the kinds ------------------------------------------------------------------------------------------------------

static bool in_memory(const Kernel *k, const Node *n) {
    return n->kind == G_input || n->kind == G_const || graph_loaded(n) || k->f->stored[n->id];
}

static bool made_here(const Kernel *k, const Node *n) {
    return k->f->maker[n->id] == k->group && n->kind != G_scan && n->kind != G_sort && n->kind != G_scatter &&
           n->kind != G_proj;
}

bool k_reads(const Kernel *k, const Node *n) { return in_memory(k, n) && !made_here(k, n); }

static KExpr *view(Kernel *k, const Node *n, const Ix *coord) {
    Graph *g = k->g;
    const Node *src = n->src[0];
    Ix at[G_MAX_RANK], pred = ix_substitute(g, n->view.pred, coord, n->rank), inside = ix(g, 1);   // pred implies inside
    for (int i = 0; i < src->rank; i++) {
        at[i] = ix_substitute(g, n->view.coord[i], coord, n->rank);
        inside = ix_and(g, inside, ix_in_range(g, at[i], src->shape[i]));
    }
    if (!pred || !inside) return NULL;
    if (ix_is(pred, 1)) return k_value(k, src, at);
    bool zero = n->view.fill.is_int ? n->view.fill.i == 0 : n->view.fill.f == 0;
    GNum v;
    if (k_reads(k, src) && ix_among(pred, inside) && !g_scalar_value(src, &v))
        return load(k, src, at, !zero, n->view.fill);
    KExpr *e = k_value(k, src, at), *p = k_sized(k, k_index(k, pred), EL_bool), *f = k_number(k, n->view.fill, n);
    if (!e) return NULL;
    if (e->elem == EL_none || e->elem == EL_index) e = k_sized(k, e, (Elem)n->elem);
    return k_text(k, "where($0, $1, $2)", P_PRIMARY, e->elem, p, e, f);
}

Ix k_value_index(Kernel *k, const Node *n, const Ix *coord, Ix extent) {
    KExpr *v = k_value(k, n, coord);
    if (!v) return NULL;
    if (v->op == E_INDEX) return v->expr;
    if (v->op == E_NUMBER) return ix(k->g, v->number.i);
    if (v->var < 0) {
        v->var = k_axis(k, A_VALUE, extent, 0, NULL);
        if (v->var < 0) return NULL;
        k->axis[v->var].value = v;
    }
    // of a dimension of size 1 too, it stays a value
    Ix wide = ix_is(extent, 1) ? ix(k->g, 2) : extent;
    k->axis[v->var].extent = wide;
    return k->axis[v->var].axis = ix_axis(k->g, v->var, wide);
}

static bool is_value(Ix e) { return e->kind == IX_AXIS && e->value >= KAXIS_VALUES; }

// A load reads 0 where an index is out of range. Does it see that of each value among the coordinates of `data`? It
// does where there is nothing but views between, and these leave the dimension as it is.
static bool load_sees_range(const Kernel *k, const Node *data, const Ix *at) {
    Ix c[G_MAX_RANK], next[G_MAX_RANK];
    const Node *x = data;
    memcpy(c, at, (size_t)x->rank * sizeof *at);
    while (!k_reads(k, x) && x->kind == G_view && ix_is(x->view.pred, 1)) {
        for (int i = 0; i < x->src[0]->rank; i++) next[i] = ix_substitute(k->g, x->view.coord[i], c, x->rank);
        x = x->src[0];
        memcpy(c, next, (size_t)x->rank * sizeof *c);
    }
    GNum v;
    if (!k_reads(k, x) || g_scalar_value(x, &v)) return false;
    for (int i = 0; i < data->rank; i++) {
        bool alone = !is_value(at[i]);
        for (int d = 0; d < x->rank; d++) alone |= c[d] == at[i] && x->shape[d] == data->shape[i];
        if (!alone) return false;
    }
    return true;
}

// Are these coordinates in range? Values are of unknown size, whatever the extent that they index has.
static KExpr *in_range(Kernel *k, const Ix *at, const Ix *shape, int rank) {
    KExpr *all = NULL;
    for (int i = 0; i < rank; i++) {
        Ix known = is_value(at[i]) ? NULL : ix_in_range(k->g, at[i], shape[i]);
        if (known && ix_is(known, 1)) continue;
        KExpr *one = known ? k_sized(k, k_index(k, known), EL_bool)
                           : k_text(k, "$0 >= 0 && $0 < $1", P_AND2, EL_bool, k->axis[at[i]->value].value,
                                    k_index(k, shape[i]), NULL);
        all = all ? k_text(k, "$0 && $1", P_AND2, EL_bool, all, one, NULL) : one;
    }
    return all;
}

static KExpr *gather(Kernel *k, const Node *n, const Ix *coord) {
    Ix at[G_MAX_RANK];
    const Node *data = n->src[0];
    for (int i = 0, used = 1; i < data->rank; i++) {
        if (n->at.coord[i]) {
            at[i] = ix_substitute(k->g, n->at.coord[i], coord, n->rank);
            continue;
        }
        at[i] = k_value_index(k, n->src[used++], coord, data->shape[i]);
        if (!at[i]) return NULL;
    }
    bool zero = n->at.checked || (n->at.fill.is_int ? n->at.fill.i == 0 : n->at.fill.f == 0);
    GNum v;
    if (k_reads(k, data) && !g_scalar_value(data, &v)) return load(k, data, at, !zero, n->at.fill);
    KExpr *e = k_value(k, data, at);
    if (!e || n->at.checked || (zero && load_sees_range(k, data, at))) return e;
    KExpr *inside = in_range(k, at, data->shape, data->rank);
    if (!inside) return e;
    if (e->elem == EL_none || e->elem == EL_index) e = k_sized(k, e, (Elem)n->elem);
    return k_text(k, "where($0, $1, $2)", P_PRIMARY, e->elem, inside, e, k_number(k, n->at.fill, n));
}

// ---- gelu -----------------------------------------------------------------------------------------------------------
//
// x/2 (1 + erf(x / sqrt(2))), and its approximation x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), however the factors
// are put together: the library has both in fewer instructions.

typedef struct Factors { const Node *of[4]; int n; double number; bool fine; } Factors;

static bool is_number(const Node *n, double *v) {
    GNum c;
    if (!g_scalar_value(n, &c)) return false;
    *v = c.is_int ? (double)c.i : c.f;
    return true;
}

static void factors_of(const Node *n, Factors *f) {
    double v;
    if (is_number(n, &v)) f->number *= v;
    else if (n->kind == G_ew && n->op == EW_mul) factors_of(n->src[0], f), factors_of(n->src[1], f);
    else if (n->kind == G_ew && n->op == EW_div && is_number(n->src[1], &v)) f->number /= v, factors_of(n->src[0], f);
    else if (f->n < 4) f->of[f->n++] = n;
    else f->fine = false;
}

static Factors factors(const Node *n) {
    Factors f = {.number = 1, .fine = true};
    factors_of(n, &f);
    return f;
}

static bool near(double a, double b) { return a > b - 1e-4 * b && a < b + 1e-4 * b; }

// a + number
static const Node *plus(const Node *n, double number) {
    double v;
    for (int i = 0; i < 2 && n->kind == G_ew && n->op == EW_add; i++)
        if (is_number(n->src[i], &v) && v == number) return n->src[1 - i];
    return NULL;
}

static bool is_cube(const Node *n, const Node *x, double by) {
    Factors f = factors(n);
    double p;
    bool cube = f.n == 3 && f.of[0] == x && f.of[1] == x && f.of[2] == x;
    cube |= f.n == 1 && f.of[0]->kind == G_ew && f.of[0]->op == EW_pow && f.of[0]->src[0] == x &&
            is_number(f.of[0]->src[1], &p) && p == 3;
    return f.fine && cube && near(f.number, by);
}

static const char *gelu_of(const Node *one, const Node *x) {      // one: what is added to 1
    if (one->kind != G_ew) return NULL;
    Factors f = factors(one->src[0]);
    if (one->op == EW_erf)
        return f.fine && f.n == 1 && f.of[0] == x && near(f.number, 0.70710678118654752) ? "gelu($0)" : NULL;
    if (one->op != EW_tanh || !f.fine || f.n != 1 || !near(f.number, 0.79788456080286536)) return NULL;
    const Node *sum = f.of[0];
    for (int i = 0; i < 2 && sum->kind == G_ew && sum->op == EW_add; i++)
        if (sum->src[i] == x && is_cube(sum->src[1 - i], x, 0.044715)) return "gelu_tanh($0)";
    return NULL;
}

// Is something kept in memory of what n is computed from, down to x? This kernel may be what makes it.
static bool keeps_between(const Kernel *k, const Node *n, const Node *x) {
    double v;
    for (uint32_t i = 0; i < n->nsrc; i++)
        if (n->src[i] != x && !is_number(n->src[i], &v) && (in_memory(k, n->src[i]) || keeps_between(k, n->src[i], x))) return true;
    return false;
}

static KExpr *gelu(Kernel *k, const Node *n, const Ix *coord) {
    if (n->op != EW_mul || (n->elem != EL_f32 && !elem_is_storage((Elem)n->elem))) return NULL;
    Factors f = factors(n);
    for (int i = 0; i < 2 && f.fine && f.n == 2 && near(f.number, 0.5); i++) {
        const Node *one = plus(f.of[i], 1), *x = f.of[1 - i];
        const char *as = one ? gelu_of(one, x) : NULL;
        KExpr *e = as && !keeps_between(k, n, x) ? k_value(k, x, coord) : NULL;
        if (e) return k_text(k, as, P_PRIMARY, EL_f32, k_sized(k, e, EL_f32), NULL, NULL);
    }
    return NULL;
}

// A quotient that is made whole at once: one that is off in its last bit may become the next number, so it is divided
// exactly.
static KExpr *whole_quotient(Kernel *k, const Node *n, const Ix *coord) {
    static const char *const text[EW_COUNT] = {[EW_round] = "round(div_rn($0, $1))", [EW_floor] = "floor(div_rn($0, $1))",
                                               [EW_ceil] = "ceil(div_rn($0, $1))", [EW_trunc] = "trunc(div_rn($0, $1))"};
    const Node *q = n->src[0];
    if (!text[n->op] || q->kind != G_ew || q->op != EW_div || !elem_is_float((Elem)q->elem) || in_memory(k, q)) return NULL;
    KExpr *a = k_value(k, q->src[0], coord), *b = k_value(k, q->src[1], coord);
    Elem   elem = q->elem == EL_f64 ? EL_f64 : EL_f32;
    if (!a || !b) return NULL;
    return k_text(k, text[n->op], CALL, elem, a->elem == EL_none && b->elem == EL_none ? k_sized(k, a, elem) : a, b, NULL);
}

static KExpr *elementwise(Kernel *k, const Node *n, const Ix *coord) {
    KExpr *known = gelu(k, n, coord);
    if (!known) known = whole_quotient(k, n, coord);
    if (known) return known;
    GEw op = (GEw)n->op;
    Elem operand = (Elem)n->src[n->nsrc - 1]->elem;
    KExpr *arg[3] = {0};
    for (uint32_t i = 0; i < n->nsrc; i++)
        if (!(arg[i] = k_value(k, n->src[i], coord))) return NULL;
    const EwText *t = &(operand == EL_bool ? bool_text : elem_is_float(operand) ? float_text : int_text)[op];
    bool integer = !elem_is_float(operand) && operand != EL_bool;
    bool keeps = op == EW_where || op == EW_min || op == EW_max;
    if (operand == EL_bool && !t->text && g_ew_info[op].gives_bool) {    // an order of bools
        t = &int_text[op];
        for (uint32_t i = 0; i < n->nsrc; i++) arg[i] = k_sized(k, arg[i], EL_i32);
    }
    if (integer && g_ew_info[op].gives_bool && !t->text) return k_number(k, g_int(0), n);   // isnan of an integer
    if (integer && !t->text && float_text[op].text) {        // a float's function of an integer
        t = &float_text[op];
        arg[0] = k_sized(k, arg[0], EL_f32);
        k->needs_library |= t->library;
        return k_sized(k, k_text(k, t->text, t->prec, EL_f32, arg[0], NULL, NULL), operand);
    }
    if (!t->text) return g_error(k->g, "`%s` of %s has no form in a kernel", g_ew_info[op].name, elem_name(operand));
    if (op == EW_pow && arg[1]->op == E_NUMBER && elem_is_float(operand)) {
        double p = arg[1]->number.is_int ? (double)arg[1]->number.i : arg[1]->number.f;
        KExpr *x = arg[0];
        if (x->elem == EL_none) x = k_sized(k, x, operand);
        Elem to = operand == EL_f64 ? EL_f64 : EL_f32;
        if (p == 2) return k_text(k, "square($0)", CALL, to, x, NULL, NULL);
        if (p == 3) return k_text(k, "$0 * $0 * $0", P_TIMES, to, x, x, NULL);
        if (p == 0.5) return k_text(k, "sqrt($0)", CALL, to, x, NULL, NULL);
        if (p == 1) return x;
        if (p == -1) return k_text(k, "1 / $0", P_TIMES, to, x, NULL, NULL);
    }
    k->needs_library |= t->library;
    int first = op == EW_where;
    bool literals = true, plain = true;
    for (uint32_t i = (uint32_t)first; i < n->nsrc; i++) {
        if (integer && arg[i]->elem == EL_index) arg[i] = k_sized(k, arg[i], operand);
        literals &= arg[i]->elem == EL_none;
        plain &= arg[i]->elem == EL_none || arg[i]->elem == operand;
    }
    if (literals && elem_is_storage(operand)) plain = false, arg[first] = k_sized(k, arg[first], EL_f32);
    else if (literals || (t->library && n->nsrc > 1 && arg[0]->elem == EL_none)) arg[first] = k_sized(k, arg[first], operand);
    Elem elem = g_ew_info[op].gives_bool ? EL_bool : elem_is_storage(operand) && !(keeps && plain) ? EL_f32 : operand;
    return k_text(k, t->text, t->prec, elem, arg[0], arg[1], arg[2]);
}

static KExpr *cast(Kernel *k, const Node *n, const Ix *coord) {
    Elem from = (Elem)n->src[0]->elem, to = (Elem)n->elem;
    KExpr *e = k_value(k, n->src[0], coord);
    if (!e || e->elem == to) return e;
    if (e->elem == EL_none) return k_sized(k, k_sized(k, e, from), to);
    if (to == EL_bool) return k_text(k, "$0 != 0", P_EQUAL, EL_bool, e, NULL, NULL);
    if (elem_is_int(from) && n->cast.saturate) return k_sized(k, k_sized(k, e, EL_f64), to);
    return k_sized(k, e, to);
}

static KExpr *concat(Kernel *k, const Node *n, const Ix *coord) {
    Graph *g = k->g;
    Ix at[G_MAX_RANK], offset = g_count(g, n), axis = coord[n->concat.axis], start[64];
    if (n->nsrc > 64) return g_error(g, "a concatenation of %u values has no form in a kernel yet", n->nsrc);
    for (int i = 0; i < n->rank; i++) at[i] = coord[i];
    offset = ix(g, 0);
    for (uint32_t i = 0; i < n->nsrc; i++) {
        start[i] = offset;
        offset = ix_add(g, offset, n->src[i]->shape[n->concat.axis]);
    }
    KExpr *all = NULL;
    for (uint32_t i = n->nsrc; i-- > 0;) {
        Ix end = ix_add(g, start[i], n->src[i]->shape[n->concat.axis]);
        // never there
        if ((i > 0 && ix_prove_lt(g, axis, start[i])) || (i + 1 < n->nsrc && ix_prove_le(g, end, axis))) continue;
        at[n->concat.axis] = ix_sub(g, axis, start[i]);
        KExpr *e = k_value(k, n->src[i], at);
        if (!e) return NULL;
        if (e->elem == EL_none || e->elem == EL_index) e = k_sized(k, e, (Elem)n->elem);
        bool alike = all && e->op == E_NUMBER && all->op == E_NUMBER && e->elem == all->elem &&
                     e->number.is_int == all->number.is_int && e->number.i == all->number.i && e->number.f == all->number.f;
        if (!all || alike) {
            all = e;
            continue;
        }
        Ix before = ix_lt(g, axis, end);
        if (ix_is(before, 1)) all = e;
        else if (!ix_is(before, 0)) {
            Elem elem = e->elem == all->elem ? e->elem : EL_f32;
            all = k_text(k, "where($0, $1, $2)", P_PRIMARY, elem, k_sized(k, k_index(k, before), EL_bool), e, all);
        }
    }
    return all;
}

// ---- reductions -----------------------------------------------------------------------------------------------------

static const char *const reduce_text[GR_COUNT] = {"sum", "prod", "max", "min", "argmax", "argmin", "any", "every", "none"};

enum { TILE_LIMIT = 8192, COLUMN = 256 };

// Does it fit a tile? Sizes that are not known are taken to: launches check it.
static bool fits(Ix extent) {
    return extent->kind == IX_CONST ? extent->value <= TILE_LIMIT : extent->hi <= TILE_LIMIT || extent->hi >= IX_DIM_MAX;
}

// An axis for a stretch of reduced dimensions: one that is there already (so that what is computed along it is shared), or
// a new one.
static int reduced_axis(Kernel *k, Ix extent, uint64_t taken, bool arg) {
    for (int i = 0; i < k->naxes; i++)
        if (k->axis[i].kind == A_FULL && k->axis[i].extent == extent && !(taken >> i & 1)) return i;
    if (k->reduces == R_TAPS) return k_axis(k, A_LOOP, extent, 0, "r");
    if (k->reduces == R_COLUMNS && extent->kind == IX_CONST && extent->value > COLUMN)
        return k_axis(k, A_LOOP_TILE, extent, COLUMN / 2, "k");
    int64_t side = k->side > 1 ? k->side : 1;
    bool full = (fits(extent) && extent != k->looped && (side == 1 || extent->kind == IX_CONST)) || arg;
    return k_axis(k, full ? A_FULL : A_LOOP_TILE, extent, full ? 0 : extent == k->looped ? k->looped_by : 2048 / side, "k");
}

static KExpr *reduce(Kernel *k, const Node *n, const Ix *coord) {
    Graph *g = k->g;
    const Node *src = n->src[0];
    GReduce op = (GReduce)n->op;
    bool arg = op == GR_argmax || op == GR_argmin;
    Ix at[G_MAX_RANK];
    KExpr proto = {.op = E_REDUCE, .fmt = reduce_text[op], .prec = P_PRIMARY, .node = n};
    uint64_t taken = 0;
    for (int i = 0; i < n->rank; i++) taken |= coord[i]->axes;
    for (int i = 0, kept = 0; i < src->rank;) {
        if (!(n->reduce.axes >> i & 1)) {
            at[i++] = coord[kept++];
            continue;
        }
        int end = i + 1;                                     // together, but for taps of windows: those are loops, each of its own
        while (end < src->rank && n->reduce.axes >> end & 1 && !k->step) end++;
        Ix extent = ix_product(g, src->shape + i, end - i);
        if (!extent) return NULL;
        if (ix_is(extent, 1)) {
            for (; i < end; i++) at[i] = ix(g, 0);
            continue;
        }
        int a = reduced_axis(k, extent, taken, arg);
        if (a < 0) return NULL;
        taken |= UINT64_C(1) << a;
        proto.axes[proto.naxes++] = a;
        Ix place = k->axis[a].axis;
        if (arg && n->reduce.last) place = ix_sub(g, ix_addi(g, extent, -1), place);
        for (int d = end; d-- > i;) {
            at[d] = d == i ? place : ix_mod(g, place, src->shape[d]);
            place = ix_div(g, place, src->shape[d]);
        }
        i = end;
    }
    KExpr *e = k_value(k, src, at);
    if (!e) return NULL;
    int varies = 0;
    // along some axes it may be the same: as often as there are elements
    for (int i = 0; i < proto.naxes; i++) {
        int axis = proto.axes[i];
        if (e->mask >> axis & 1) {
            proto.axes[varies++] = axis;
            continue;
        }
        if (op == GR_sum)
            e = k_text(k, "$0 * $1", P_TIMES, e->elem == EL_none ? (Elem)src->elem : e->elem, e,
                       k_index(k, k->axis[axis].extent), NULL);
        else if (op == GR_prod || arg) {
            e = k_text(k, "$0 + 0 * $1", P_PLUS, e->elem == EL_none ? (Elem)src->elem : e->elem, e,
                       k_index(k, k->axis[axis].axis), NULL);
            proto.axes[varies++] = axis;
        }
    }
    proto.naxes = varies;
    if (proto.naxes == 0) return arg ? k_number(k, g_int(0), n) : e;
    Elem elem = (Elem)src->elem;
    if (elem == EL_bool && op < GR_any) e = k_sized(k, e, EL_i32), elem = EL_i32;
    if (e->elem == EL_none || e->elem == EL_index) e = k_sized(k, e, elem);
    if (op == GR_sum || op == GR_prod) elem = elem_is_storage(e->elem) ? EL_f32 : e->elem;
    else elem = e->elem;
    proto.elem = arg ? EL_index : elem;
    proto.arg[0] = e;
    KExpr *r = expr_new(k, proto);
    for (int i = 0; i < r->naxes; i++) r->mask &= ~(UINT64_C(1) << r->axes[i]);
    if (!arg) return (Elem)n->elem == EL_bool && elem != EL_bool ? k_sized(k, r, EL_bool) : r;
    if (!n->reduce.last) return k_sized(k, r, EL_i64);
    Buf b = {0};
    k_ix(k, &b, ix_addi(g, k->axis[proto.axes[0]].extent, -1));
    KExpr *back = k_text(k, arena_printf(k->arena, "%s - $0", b.p), P_PLUS, EL_index, r, NULL, NULL);
    buf_free(&b);
    return k_sized(k, back, EL_i64);
}

KExpr *k_reduced(Kernel *k, GReduce op, KExpr *e, const int *axis, int naxes) {
    KExpr proto = {.op = E_REDUCE, .fmt = reduce_text[op], .prec = P_PRIMARY, .elem = e->elem, .naxes = naxes, .arg = {e}};
    memcpy(proto.axes, axis, (size_t)naxes * sizeof *axis);
    KExpr *r = expr_new(k, proto);
    for (int i = 0; i < naxes; i++) r->mask &= ~(UINT64_C(1) << axis[i]);
    return r;
}

// The scores of an attention: queries times keys, over the whole head.
static KExpr *scores(Kernel *k, const Node *n, const Ix *coord) {
    Ix a[G_MAX_RANK], b[G_MAX_RANK];
    int nb = n->contract.nb, nm = n->contract.nm, axis = k_axis(k, A_FULL, n->src[0]->shape[nb + nm], 0, "c");
    if (axis < 0) return NULL;
    for (int i = 0; i < nb + nm; i++) a[i] = coord[i];
    for (int i = 0; i < nb; i++) b[i] = coord[i];
    a[nb + nm] = b[nb + 1] = k->axis[axis].axis;
    b[nb] = coord[nb + nm];
    KExpr *q = k_value(k, n->src[0], a), *c = k_value(k, n->src[1], b);
    if (!q || !c) return NULL;
    bool tiles = false;
    for (int i = 0; i < k->naxes; i++) tiles |= k->axis[i].kind == A_TILE && (q->mask >> i & 1);
    Elem elem = (Elem)n->src[0]->elem;
    bool dot = tiles && (q->mask >> axis & 1) && (c->mask >> axis & 1);
    if (!dot) {
        KExpr *p = k_text(k, "$0 * $1", P_TIMES, EL_f32, k_sized(k, q, EL_f32), k_sized(k, c, EL_f32), NULL);
        return k_reduced(k, GR_sum, p, &axis, 1);
    }
    KExpr *e = expr_new(k, (KExpr){.op = E_DOT,
                                   .elem = n->contract.acc,
                                   .prec = P_PRIMARY,
                                   .node = n,
                                   .arg = {k_sized(k, q, elem), k_sized(k, c, elem)},
                                   .axes = {axis},
                                   .naxes = 1});
    e->mask &= ~(UINT64_C(1) << axis);
    return e;
}

// n's element, computed even if n is stored.
static KExpr *k_compute(Kernel *k, const Node *n, const Ix *coord) {
    GNum v;
    if (g_scalar_value(n, &v)) return k_number(k, v, n);
    switch ((GKind)n->kind) {
    case G_input: case G_const: return load(k, n, coord, false, g_int(0));
    case G_index: {
        KExpr *e = k_index(k, ix_substitute(k->g, n->index.expr, coord, n->rank));
        return n->elem == EL_bool ? k_sized(k, e, EL_bool) : e;
    }
    case G_view: return view(k, n, coord);
    case G_gather: return gather(k, n, coord);
    case G_ew: return elementwise(k, n, coord);
    case G_cast: return cast(k, n, coord);
    case G_concat: return concat(k, n, coord);
    case G_reduce: return reduce(k, n, coord);
    case G_contract:
        if (n == k->fg->inner) return scores(k, n, coord);
        return expr_new(k, (KExpr){.op = E_SUM,
                                   .elem = n->contract.acc,
                                   .prec = P_PRIMARY,
                                   .node = n,
                                   .number = g_int(n == k->fg->second),
                                   .mask = mask_of(k, coord, n->rank)});
    default: return g_error(k->g, "`%s` has no form in a kernel", g_kind_name[n->kind]);
    }
}

KExpr *k_value(Kernel *k, const Node *n, const Ix *coord) {
    if (any_null_ix(coord, n->rank) || g_failed(k->g)) return NULL;
    for (uint32_t i = 0; i < k->memo.n; i++)
        if (k->memo.node[i] == n &&
            (n->rank == 0 || memcmp(k->memo.coord[i], coord, (size_t)n->rank * sizeof *coord) == 0))
            return k->memo.e[i];
    KExpr *e = k_reads(k, n) ? load(k, n, coord, false, g_int(0)) : k_compute(k, n, coord);
    if (!e) return NULL;
    if (k->memo.n == k->memo.cap) {
        uint32_t cap = k->memo.cap;
        vec_grow(k->arena, (void **)&k->memo.node, &cap, sizeof *k->memo.node);
        cap = k->memo.cap;
        vec_grow(k->arena, (void **)&k->memo.coord, &cap, sizeof *k->memo.coord);
        cap = k->memo.cap;
        vec_grow(k->arena, (void **)&k->memo.e, &cap, sizeof *k->memo.e);
        k->memo.cap = cap;
    }
    k->memo.node[k->memo.n] = n;
    k->memo.coord[k->memo.n] = copy_ixs(k->g, coord, n->rank);
    k->memo.e[k->memo.n++] = e;
    return e;
}

// ---- quotients -------------------------------------------------------------------------------------------------------

int k_load_quotients(Kernel *k) {
    int q = 0;
    for (uint32_t i = 0; i < k->exprs.n; i++) {
        const KExpr *e = k->exprs.at[i];
        if (e->op == E_LOAD) q += quotients_merged(k->g, e->node->rank, e->node->shape, e->coord);
        if (e->op == E_INDEX) q += ix_quotients(e->expr);
    }
    for (uint32_t i = 0; i < k->stores.n; i++)
        q += quotients_merged(k->g, k->stores.at[i].node->rank, k->stores.at[i].node->shape, k->stores.at[i].coord);
    return q;
}
