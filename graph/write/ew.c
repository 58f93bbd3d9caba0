// Elementwise operations as text: what each is in the language, of floats, of integers and of bools; and those that take more than a row of the
// tables says.

#include "graph/write/internal.h"

typedef struct EwText { const char *text; uint8_t prec; bool library; } EwText;

#define CALL P_PRIMARY
static const EwText float_text[EW_COUNT] = {
    [EW_neg] = {"-$0", P_UNARY, false}, [EW_abs] = {"abs($0)", CALL, false}, [EW_sign] = {"sign_of($0)", CALL, true},
    [EW_floor] = {"floor($0)", CALL, false}, [EW_ceil] = {"ceil($0)", CALL, false}, [EW_round] = {"round($0)", CALL, false},
    [EW_trunc] = {"trunc($0)", CALL, false}, [EW_sqrt] = {"sqrt($0)", CALL, false}, [EW_exp] = {"exp($0)", CALL, false},
    [EW_log] = {"log($0)", CALL, false}, [EW_expm1] = {"expm1($0)", CALL, false}, [EW_log1p] = {"log1p($0)", CALL, false},
    [EW_sin] = {"sin($0)", CALL, false}, [EW_cos] = {"cos($0)", CALL, false},
    [EW_tan] = {"tan($0)", CALL, true}, [EW_asin] = {"asin($0)", CALL, true}, [EW_acos] = {"acos($0)", CALL, true},
    [EW_atan] = {"atan($0)", CALL, true}, [EW_sinh] = {"sinh($0)", CALL, true}, [EW_cosh] = {"cosh($0)", CALL, true},
    [EW_tanh] = {"tanh($0)", CALL, false}, [EW_asinh] = {"asinh($0)", CALL, true}, [EW_acosh] = {"acosh($0)", CALL, true},
    [EW_atanh] = {"atanh($0)", CALL, true}, [EW_erf] = {"erf($0)", CALL, false}, [EW_sigmoid] = {"sigmoid($0)", CALL, false},
    [EW_isnan] = {"isnan($0)", CALL, false}, [EW_isinf] = {"abs($0) == inf", P_EQUAL, false},
    [EW_add] = {"$0 + $1", P_PLUS, false}, [EW_sub] = {"$0 - $1", P_PLUS, false}, [EW_mul] = {"$0 * $1", P_TIMES, false},
    [EW_div] = {"$0 / $1", P_TIMES, false}, [EW_floordiv] = {"floor(div_rn($0, $1))", CALL, false},
    [EW_mod] = {"mod_floor($0, $1)", CALL, true}, [EW_rem] = {"fmod($0, $1)", CALL, false}, [EW_pow] = {"pow($0, $1)", CALL, false},
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

// A quotient that is made whole at once: one that is off in its last bit may become the next number, so it is divided
// exactly.
static KExpr *whole_quotient(Kernel *k, const Node *n, const Ix *coord) {
    static const char *const text[EW_COUNT] = {[EW_round] = "round(div_rn($0, $1))", [EW_floor] = "floor(div_rn($0, $1))",
                                               [EW_ceil] = "ceil(div_rn($0, $1))", [EW_trunc] = "trunc(div_rn($0, $1))"};
    const Node *q = n->src[0];
    if (!text[n->op] || q->kind != G_ew || q->op != EW_div || !elem_is_float((Elem)q->elem) || k_in_memory(k, q)) return NULL;
    KExpr *a = k_value(k, q->src[0], coord), *b = k_value(k, q->src[1], coord);
    Elem   elem = q->elem == EL_f64 ? EL_f64 : EL_f32;
    if (!a || !b) return NULL;
    return k_text(k, text[n->op], CALL, elem, a->elem == EL_none && b->elem == EL_none ? k_sized(k, a, elem) : a, b, NULL);
}

// A quotient that is one number for all, as a scale is that data say: it costs nothing, and many elements are rounded by it, which a last bit would
// move where they tie.
static bool one_for_all(const Node *n) { return n->op == EW_div && n->rank == 0; }

// x to a power that is a number: a few products, or a root. NULL: as any other.
static KExpr *power(Kernel *k, KExpr *x, double p, Elem to) {
    static const char *const whole[] = {[2] = "square($0)", [4] = "power_of<N = 4>($0)", [5] = "power_of<N = 5>($0)", [6] = "power_of<N = 6>($0)",
                                        [7] = "power_of<N = 7>($0)", [8] = "power_of<N = 8>($0)"};
    static const char *const below[] = {[2] = "power_of<N = -2>($0)", [3] = "power_of<N = -3>($0)", [4] = "power_of<N = -4>($0)"};
    if (p == 1) return x;
    if (p == -1) return k_text(k, "1 / $0", P_TIMES, to, x, NULL, NULL);
    if (p == 3) return k_text(k, "$0 * $0 * $0", P_TIMES, to, x, x, NULL);
    const char *text = p == 0.5                                            ? "power_half($0)"
                       : p >= 2 && p <= 8 && p == (double)(int)p           ? whole[(int)p]
                       : p <= -2 && p >= -4 && p == (double)(int)p         ? below[-(int)p]
                                                                           : NULL;
    k->needs_library |= text && p != 2;
    return text ? k_text(k, text, CALL, to, x, NULL, NULL) : NULL;
}

// A product that adds to the first one's sum is in that already.
static bool in_sum(const Kernel *k, const Node *n) {
    while (n->kind == G_view && !k_in_memory(k, n)) n = n->src[0];
    for (uint32_t i = 0; i < k->fg->also.n; i++) if (k->fg->also.at[i] == n) return true;
    return false;
}

KExpr *k_elementwise(Kernel *k, const Node *n, const Ix *coord) {
    for (uint32_t i = 0; n->op == EW_add && i < 2; i++) if (in_sum(k, n->src[i])) return k_value(k, n->src[1 - i], coord);
    KExpr *known = k_gelu(k, n, coord);
    if (!known) known = whole_quotient(k, n, coord);
    if (known) return known;
    GEw op = (GEw)n->op;
    Elem operand = (Elem)n->src[n->nsrc - 1]->elem;
    KExpr *arg[3] = {0};
    for (uint32_t i = 0; i < n->nsrc; i++)
        if (!(arg[i] = k_value(k, n->src[i], coord))) return NULL;
    static const EwText exact = {"div_rn($0, $1)", CALL, false};
    const EwText *t = &(operand == EL_bool ? bool_text : elem_is_float(operand) ? float_text : int_text)[op];
    if (elem_is_float(operand) && one_for_all(n)) t = &exact;
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
        KExpr *known_power = power(k, arg[0]->elem == EL_none ? k_sized(k, arg[0], operand) : arg[0], p, operand == EL_f64 ? EL_f64 : EL_f32);
        if (known_power) return known_power;
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
