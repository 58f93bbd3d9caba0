// Sizes as sums of multiples of symbols, and the equations that a launch has checked.
//
//     where D = 2 * D2                 D := 2 D2             x[d + D2], d < D2, of D elements:  D - D2 - D2 = 0, in range
//     where D2 = D / 2                 D := 2 D2 + r         r >= 0:                            D - D2 - D2 = r, in range
//     where C % 8 == 0                 8 divides C           rows of 2 * C are aligned, whatever variant of the kernel
//
// Each equation is solved for one symbol, which it gives as a whole combination of the others, and what is asked is
// rewritten until none of those is left. Sizes are not negative; so x <= y is proved where y - x has no negative
// coefficient left. A quotient by a number is a symbol of its own, q, with a second equation a = c q + r. So is a
// product of two symbols: (H - 1) D + D is H D. What does not fit (selections) is a symbol too, about which nothing is
// known.
#include "lower/facts/linear.h"
#include "lower/build.h"
#include "lang/number.h"

enum { TERMS = 12, SYMBOLS = 48, EQUATIONS = 24, DEPTH = 64 };

// bad: too long, or too large
typedef struct Sum { int64_t c; int n; struct { int sym; int64_t k; } at[TERMS]; bool bad; } Sum;

typedef struct Symbol {
    LExpr   is;                       // a dimension, a scalar, an opaque expression; n 0: the remainder of a quotient
    bool    positive;                 // not negative
    int64_t multiple;                 // that divides it, by a guard; 1
} Symbol;

struct Linear {
    Arena *a;
    const LaunchInfo *l;
    Symbol  sym[SYMBOLS]; int nsym;
    struct { int sym; Sum is; } solved[EQUATIONS]; int nsolved;
};

// ---- sums ----------------------------------------------------------------------------------------

static void add(Sum *s, const Sum *x, int64_t k) {            // s += k x
    int64_t c;
    s->bad |= x->bad || __builtin_mul_overflow(x->c, k, &c) || __builtin_add_overflow(s->c, c, &s->c);
    for (int i = 0; i < x->n && !s->bad; i++) {
        int at = 0;
        while (at < s->n && s->at[at].sym != x->at[i].sym) at++;
        if (at == TERMS) { s->bad = true; return; }
        if (at == s->n) { s->at[at].sym = x->at[i].sym; s->at[at].k = 0; s->n++; }
        s->bad |= __builtin_mul_overflow(x->at[i].k, k, &c) || __builtin_add_overflow(s->at[at].k, c, &s->at[at].k);
        if (!s->at[at].k) s->at[at] = s->at[--s->n];
    }
}

static Sum number(int64_t c) { return (Sum){.c = c}; }
static Sum symbol(int i) { return (Sum){.n = 1, .at = {{i, 1}}}; }

static int64_t factor(const Sum *s, int sym) {
    for (int i = 0; i < s->n; i++) if (s->at[i].sym == sym) return s->at[i].k;
    return 0;
}

static bool positive(const Linear *s, const Sum *x) {
    if (x->bad || x->c < 0) return false;
    for (int i = 0; i < x->n; i++) if (x->at[i].k < 0 || !s->sym[x->at[i].sym].positive) return false;
    return true;
}

// ---- equations -----------------------------------------------------------------------------------

static Sum reduced(const Linear *s, const Sum *x) {
    Sum r = *x;
    for (int i = 0; i < s->nsolved && !r.bad; i++) {
        int64_t k = factor(&r, s->solved[i].sym);
        if (!k) continue;
        Sum gone = symbol(s->solved[i].sym);
        add(&r, &gone, -k);
        add(&r, &s->solved[i].is, k);
    }
    return r;
}

// The symbol that an equation gives: as a sum of what is not negative if there is one.
static void solve(Linear *s, const Sum *zero) {
    Sum z = reduced(s, zero), best = {0};
    int found = -1;
    bool good = false;
    for (int i = 0; i < z.n && !z.bad && !good; i++) {
        int64_t k = z.at[i].k;
        if (k != 1 && k != -1) continue;
        Sum is = number(0), self = symbol(z.at[i].sym);
        add(&is, &z, -k);
        add(&is, &self, 1);                                    // k sym + rest = 0: sym = -k rest
        good = positive(s, &is);
        if (found >= 0 && !good) continue;
        found = z.at[i].sym;
        best = is;
    }
    if (found < 0 || s->nsolved == EQUATIONS) return;
    for (int i = 0; i < s->nsolved; i++) {
        int64_t k = factor(&s->solved[i].is, found);
        Sum gone = symbol(found);
        if (!k) continue;
        add(&s->solved[i].is, &gone, -k);
        add(&s->solved[i].is, &best, k);
    }
    s->solved[s->nsolved].sym = found;
    s->solved[s->nsolved++].is = best;
}

// ---- from launch expressions ---------------------------------------------------------------------

static int symbol_of(Linear *s, LExpr e, bool is_positive) {
    for (int i = 0; i < s->nsym && e.n; i++) if (launch_same(s->sym[i].is, e)) return i;
    if (s->nsym == SYMBOLS) return -1;
    s->sym[s->nsym] = (Symbol){e, is_positive, 1};
    return s->nsym++;
}

static Sum opaque(Linear *s, LExpr e, bool is_positive) {
    int i = symbol_of(s, e, is_positive);
    return i < 0 ? (Sum){.bad = true} : symbol(i);
}

// x / c: the whole part of each term, where there is one for all; else a symbol q with x = c q + r.
static Sum quotient(Linear *s, LExpr whole, const Sum *x, int64_t c) {
    Sum q = reduced(s, x), r;
    bool exact = !q.bad;
    for (int i = 0; i < q.n && exact; i++) exact = q.at[i].k % c == 0;
    if (exact) {
        for (int i = 0; i < q.n; i++) q.at[i].k /= c;
        q.c = int_div_floor(q.c, c);
        return q;
    }
    int before = s->nsym;
    Sum zero = *x;
    q = opaque(s, whole, positive(s, x));
    if (q.bad || s->nsym == before) return q;
    r = opaque(s, (LExpr){0}, true);
    add(&zero, &q, -c);
    add(&zero, &r, -1);
    solve(s, &zero);
    return q;
}

// Of sums: each symbol of the one with each of the other, whose product is a symbol.
static Sum product(Linear *s, const Sum *x, const Sum *y) {
    Sum r = number(0);
    int64_t k;
    add(&r, x, y->c);
    add(&r, y, x->c);
    if (__builtin_mul_overflow(x->c, y->c, &k) || __builtin_sub_overflow(r.c, k, &r.c)) r.bad = true;
    for (int i = 0; i < x->n * y->n && !r.bad; i++) {
        int p = x->at[i / y->n].sym, q = y->at[i % y->n].sym, low = p < q ? p : q, high = p < q ? q : p;
        if (!s->sym[p].is.n || !s->sym[q].is.n || __builtin_mul_overflow(x->at[i / y->n].k, y->at[i % y->n].k, &k)) {
            r.bad = true;
            break;
        }
        Sum both = opaque(s, launch_join(s->a, L_MUL, s->sym[low].is, s->sym[high].is),
                          s->sym[p].positive && s->sym[q].positive);
        add(&r, &both, k);
    }
    return r;
}

static Sum sum_of(Linear *s, LExpr e) {
    struct { Sum x; uint32_t from; } st[DEPTH];
    int n = 0;
    for (uint32_t i = 0; i < e.n; i++) {
        LStep t = e.at[i];
        int takes = launch_takes(t.op);
        bool leaf = takes == 0;
        if (n + 1 >= DEPTH || n < takes) return (Sum){.bad = true};
        uint32_t from = leaf ? i : st[n - takes].from;
        LExpr part = {e.at + from, i + 1 - from};
        Sum *x = takes == 2 ? &st[n - 2].x : NULL, *y = takes == 2 ? &st[n - 1].x : NULL, r;
        if (t.op == L_CONST) r = number(t.arg);
        else if (t.op == L_DIM && s->l->dims[t.arg].fixed >= 0) r = number(s->l->dims[t.arg].fixed);
        else if (t.op == L_ADD || t.op == L_SUB) { r = *x; add(&r, y, t.op == L_ADD ? 1 : -1);
        } else if (t.op == L_MUL && (!x->n || !y->n)) {
            r = number(0);
            add(&r, x->n ? x : y, x->n ? y->c : x->c);
            r.bad |= x->bad || y->bad;
        } else if (t.op == L_MUL && !(r = product(s, x, y)).bad) {
        } else if (t.op == L_DIV && !y->n && !y->bad && y->c > 0) r = quotient(s, part, x, y->c);
        else if (t.op == L_CDIV && !y->n && !y->bad && y->c > 0) {
            Sum up = number(y->c - 1);
            add(&up, x, 1);
            r = quotient(s, part, &up, y->c);
        } else if (t.op == L_MAX && positive(s, x) && !y->n && !y->bad && y->c == 0) r = *x;
        else r = opaque(s, part, t.op == L_DIM || (t.op == L_MOD && positive(s, y)));
        n -= takes;
        st[n].x = r;
        st[n++].from = from;
    }
    return n == 1 ? st[0].x : (Sum){.bad = true};
}

// e as `x == y`, where both are expressions: where y starts, or 0.
static uint32_t second_operand(LExpr e) {
    uint32_t from[DEPTH];
    int n = 0;
    if (e.n < 3) return 0;
    for (uint32_t i = 0; i + 1 < e.n; i++) {
        int takes = launch_takes(e.at[i].op);
        if (n + 1 >= DEPTH || n < takes) return 0;
        uint32_t at = takes ? from[n - takes] : i;
        n -= takes;
        from[n++] = at;
    }
    return n == 2 ? from[1] : 0;
}

static void guard(Linear *s, LExpr cond) {
    uint32_t at = second_operand(cond);
    if (!at || cond.at[cond.n - 1].op != L_EQ) return;
    LExpr x = {cond.at, at}, y = {cond.at + at, cond.n - 1 - at};
    Sum a = sum_of(s, x), b = sum_of(s, y);
    uint32_t by = second_operand(x);
    if (by && x.at[x.n - 1].op == L_MOD && !b.bad && !b.n && !b.c) {       // of % m == 0
        Sum of = sum_of(s, (LExpr){x.at, by}), m = sum_of(s, (LExpr){x.at + by, x.n - 1 - by});
        if (!of.bad && of.n == 1 && !of.c && of.at[0].k == 1 && !m.bad && !m.n && m.c > 1)
            s->sym[of.at[0].sym].multiple = m.c;
        return;
    }
    add(&a, &b, -1);
    solve(s, &a);
}

Linear *linear_new(Arena *a, const LaunchInfo *l) {
    Linear *s = NEW(a, Linear);
    s->a = a;
    s->l = l;
    for (int i = 0; i < l->nguards; i++) guard(s, l->guards[i].cond);
    return s;
}

// ---- questions -----------------------------------------------------------------------------------

bool linear_at_most(const Linear *s, LExpr x, LExpr y) {
    Linear t = *s;                                             // symbols that only the question has
    Sum a = sum_of(&t, y), b = sum_of(&t, x);
    add(&a, &b, -1);
    a = reduced(&t, &a);
    return positive(&t, &a);
}

bool linear_divides(const Linear *s, LExpr x, int64_t d) {
    Linear t = *s;
    Sum a = sum_of(&t, x);
    if (a.bad || d <= 0) return false;
    for (int pass = 0; pass < 2; pass++) {                     // as written, then with the equations
        bool all = !a.bad && a.c % d == 0;
        for (int i = 0; i < a.n && all; i++) all = a.at[i].k % d * (t.sym[a.at[i].sym].multiple % d) % d == 0;
        if (all) return true;
        a = reduced(&t, &a);
    }
    return false;
}
