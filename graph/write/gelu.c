// GELU: x/2 (1 + erf(x / sqrt(2))), and its approximation x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), however the factors
// are put together: the library has both in fewer instructions.

#include "graph/write/internal.h"

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
        if (n->src[i] != x && !is_number(n->src[i], &v) && (k_in_memory(k, n->src[i]) || keeps_between(k, n->src[i], x))) return true;
    return false;
}

KExpr *k_gelu(Kernel *k, const Node *n, const Ix *coord) {
    if (n->op != EW_mul) return NULL;
    Elem elem = n->elem == EL_f64 ? EL_f64 : EL_f32;
    Factors f = factors(n);
    for (int i = 0; i < 2 && f.fine && f.n == 2 && near(f.number, 0.5); i++) {
        const Node *one = plus(f.of[i], 1), *x = f.of[1 - i];
        const char *as = one ? gelu_of(one, x) : NULL;
        KExpr *e = as && !keeps_between(k, n, x) ? k_value(k, x, coord) : NULL;
        if (e) return k_text(k, as, P_PRIMARY, elem, k_sized(k, e, elem), NULL, NULL);
    }
    return NULL;
}
