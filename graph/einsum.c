// Sums of products by letters. Every letter is one of
//
//     batch   in both operands and in the result            k   in both, not in the result
//     m       in the first only                             n   in the second only
//
// after what is summed over in one operand alone has been summed there, and letters that stand twice in an operand have
// become its diagonal. The operands are transposed to (batch, m, k) and (batch, n, k), which costs nothing: it is a view.

#include "graph/internal.h"

#include <string.h>

typedef struct Term { char at[G_MAX_RANK + 1]; int n; } Term;

static int where(const Term *t, char c) {
    for (int i = 0; i < t->n; i++)
        if (t->at[i] == c) return i;
    return -1;
}

static void term_add(Term *t, char c) { t->at[t->n++] = c; }

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

static const char *parse_term(const char *s, Term *t) {
    for (; *s && *s != ',' && *s != '-'; s++) {
        if (*s == ' ') continue;
        if (!is_letter(*s) || t->n == G_MAX_RANK) return NULL;
        term_add(t, *s);
    }
    return s;
}

// x with its letters in the order of `to`, which has each once: diagonals are taken, sizes 1 that others exceed are dropped.
static Node *diagonal(Graph *g, Node *x, Term *t) {
    Term once = {0};
    Ix shape[G_MAX_RANK], coord[G_MAX_RANK];
    for (int i = 0; i < t->n; i++) {
        int at = where(&once, t->at[i]);
        if (at >= 0) {
            g_require(g, shape[at], x->shape[i]);
            continue;
        }
        shape[once.n] = x->shape[i];
        term_add(&once, t->at[i]);
    }
    if (g_failed(g)) return NULL;
    if (once.n == t->n) return x;
    for (int i = 0; i < t->n; i++) coord[i] = ix_axis(g, where(&once, t->at[i]), shape[where(&once, t->at[i])]);
    *t = once;
    return g_view(g, x, once.n, shape, coord, NULL, g_int(0));
}

static Node *drop(Graph *g, Node *x, Term *t, uint32_t axes, bool sum) {
    Term left = {0};
    for (int i = 0; i < t->n; i++)
        if (!(axes >> i & 1)) term_add(&left, t->at[i]);
    *t = left;
    return sum ? g_reduce(g, GR_sum, x, axes, false) : g_squeeze(g, x, axes);
}

// Sums what is only here; drops sizes 1 against something else.
static Node *own_letters(Graph *g, Node *x, Term *t, Node *other, const Term *o, const Term *out) {
    uint32_t sums = 0, ones = 0;
    for (int i = 0; i < t->n; i++) {
        int at = other ? where(o, t->at[i]) : -1;
        if (at < 0 && where(out, t->at[i]) < 0) sums |= 1u << i;
        if (at >= 0 && ix_is(x->shape[i], 1) && !ix_is(other->shape[at], 1)) ones |= 1u << i;
    }
    if (sums) return own_letters(g, drop(g, x, t, sums, true), t, other, o, out);
    return ones ? drop(g, x, t, ones, false) : x;
}

static Node *arrange(Graph *g, Node *x, const Term *t, const Term *to) {
    int perm[G_MAX_RANK];
    for (int i = 0; i < to->n; i++) perm[i] = where(t, to->at[i]);
    return g_transpose(g, x, to->n, perm);
}

Node *g_einsum(Graph *g, const char *spec, Node *a, Node *b) {
    if (!a) return NULL;
    Term ta = {0}, tb = {0}, out = {0};
    const char *s = parse_term(spec, &ta);
    if (s && *s == ',') s = parse_term(s + 1, &tb);
    bool two = s && strchr(spec, ',');
    if (!s || s[0] != '-' || s[1] != '>' || !(s = parse_term(s + 2, &out)) || *s)
        return g_error(g, "cannot read the equation `%s`", spec);
    if (two != (b != NULL)) return two ? NULL : g_error(g, "the equation `%s` has one operand", spec);
    if (ta.n != a->rank || (b && tb.n != b->rank))
        return g_error(g, "the equation `%s` does not fit the operands' dimensions", spec);
    if (b && a->elem != b->elem)
        return g_error(g, "operands have different types: %s and %s", elem_name((Elem)a->elem),
                       elem_name((Elem)b->elem));
    for (int i = 0; i < out.n; i++)
        if (where(&ta, out.at[i]) < 0 && where(&tb, out.at[i]) < 0)
            return g_error(g, "the letter `%c` of the result is in no operand of `%s`", out.at[i], spec);
    a = diagonal(g, a, &ta);
    b = b ? diagonal(g, b, &tb) : NULL;
    if (!a || (two && !b)) return NULL;
    Term a_was = ta;
    Node *a_old = a;
    a = own_letters(g, a, &ta, b, &tb, &out);
    if (!a) return NULL;
    if (!two) return arrange(g, a, &ta, &out);
    b = own_letters(g, b, &tb, a_old, &a_was, &out);
    if (!b) return NULL;
    // a letter whose size was 1 on one side and that is not in the result is now on the other side only
    a = own_letters(g, a, &ta, b, &tb, &out);
    b = a ? own_letters(g, b, &tb, a, &ta, &out) : NULL;
    if (!b) return NULL;
    Term batch = {0}, m = {0}, n = {0}, k = {0};
    for (int i = 0; i < out.n; i++) {
        bool in_a = where(&ta, out.at[i]) >= 0, in_b = where(&tb, out.at[i]) >= 0;
        term_add(in_a && in_b ? &batch : in_a ? &m : &n, out.at[i]);
    }
    for (int i = 0; i < ta.n; i++)
        if (where(&out, ta.at[i]) < 0) term_add(&k, ta.at[i]);
    Term la = {0}, lb = {0}, lo = {0};
    for (int i = 0; i < batch.n; i++) term_add(&la, batch.at[i]), term_add(&lb, batch.at[i]), term_add(&lo, batch.at[i]);
    for (int i = 0; i < m.n; i++) term_add(&la, m.at[i]), term_add(&lo, m.at[i]);
    for (int i = 0; i < n.n; i++) term_add(&lb, n.at[i]), term_add(&lo, n.at[i]);
    for (int i = 0; i < k.n; i++) term_add(&la, k.at[i]), term_add(&lb, k.at[i]);
    Elem elem = (Elem)a->elem, acc = elem_is_float(elem) && elem != EL_f64 ? EL_f32 : elem;
    Node *r = g_contract(g, arrange(g, a, &ta, &la), arrange(g, b, &tb, &lb), batch.n, m.n, n.n, k.n, elem, acc);
    return r ? arrange(g, r, &lo, &out) : NULL;
}

// The letters of a matmul: batch axes from the right, then m k and k n. A vector on the left has no m, on the right no n.
Node *g_matmul(Graph *g, Node *a, Node *b) {
    if (!a || !b) return NULL;
    if (a->rank == 0 || b->rank == 0) return g_error(g, "a matrix product of a scalar");
    int ba = a->rank > 2 ? a->rank - 2 : 0, bb = b->rank > 2 ? b->rank - 2 : 0, batch = ba > bb ? ba : bb;
    char spec[3 * G_MAX_RANK + 16];
    int n = 0;
    for (int i = batch - ba; i < batch; i++) spec[n++] = (char)('a' + i);
    if (a->rank > 1) spec[n++] = 'M';
    spec[n++] = 'K';
    spec[n++] = ',';
    for (int i = batch - bb; i < batch; i++) spec[n++] = (char)('a' + i);
    spec[n++] = 'K';
    if (b->rank > 1) spec[n++] = 'N';
    spec[n++] = '-';
    spec[n++] = '>';
    for (int i = 0; i < batch; i++) spec[n++] = (char)('a' + i);
    if (a->rank > 1) spec[n++] = 'M';
    if (b->rank > 1) spec[n++] = 'N';
    spec[n] = 0;
    return g_einsum(g, spec, a, b);
}
