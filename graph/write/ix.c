// Index expressions as text: with as few parentheses as the language needs, `a < b + 1` as `a <= b`, and a dimension
// that has a name of its own (T_4_1, where it is T / 4 - 1) by that name, so many times it, too.

#include "graph/write/internal.h"

#include <inttypes.h>

static bool is_truth(Ix e) { return e->kind == IX_LT || e->kind == IX_EQ || e->kind == IX_AND || e->kind == IX_OR; }

void k_put_number(Kernel *k, Buf *to, Ix e, int outer) {
    if (!is_truth(e)) {
        k_put_ix(k, to, e, outer);
        return;
    }
    buf_puts(to, "where(");
    k_put_ix(k, to, e, P_TERNARY);
    buf_puts(to, ", 1, 0)");
}

static void put_truth(Kernel *k, Buf *to, Ix e, int outer) {
    if (is_truth(e)) {
        k_put_ix(k, to, e, outer);
        return;
    }
    if (outer > P_EQUAL) buf_putc(to, '(');
    k_put_ix(k, to, e, P_PLUS);
    buf_puts(to, " != 0");
    if (outer > P_EQUAL) buf_putc(to, ')');
}

static void put_list(Kernel *k, Buf *to, Ix e, const char *op, int own, int outer) {
    if (own < outer) buf_putc(to, '(');
    for (uint32_t i = 0; i < e->n; i++) {
        if (i) buf_printf(to, " %s ", op);
        if (own == P_AND2 || own == P_OR2) put_truth(k, to, e->arg[i], own + 1);
        else k_put_number(k, to, e->arg[i], own + (i > 0 || own == P_EQUAL));
    }
    if (own < outer) buf_putc(to, ')');
}

static void put_term(void *k, Buf *to, Ix e, bool negative) { k_put_number(k, to, e, P_TIMES + negative); }

static void put_sum(Kernel *k, Buf *to, Ix e, int outer) {
    int own = e->n == 1 && e->value == 0 ? P_TIMES : P_PLUS;
    if (own < outer) buf_putc(to, '(');
    ix_print_sum(to, e, put_term, k);
    if (own < outer) buf_putc(to, ')');
}

// What no tensor of the kernel has as a dimension, by one that differs from it by a number: n, where there is n_1 = n + 1.
static bool put_by_other(Kernel *k, Buf *to, Ix e, int outer) {
    if (k->alias.n == 0 || k_stands_alone(k, e, true)) return false;
    for (uint32_t i = 0; i < k->alias.n; i++) {
        KAlias a = k->alias.at[i];
        Ix more = a.of && k_stands_alone(k, a.of, false) ? ix_sub(k->g, e, a.of) : NULL;
        if (!more || !ix_is_const(more)) continue;
        bool less = more->value < 0;
        uint64_t by = less ? 0 - (uint64_t)more->value : (uint64_t)more->value;
        buf_printf(to, outer > P_PLUS ? "(%s %c %" PRIu64 ")" : "%s %c %" PRIu64, a.name, less ? '-' : '+', by);
        return true;
    }
    return false;
}

static void put_dim(Kernel *k, Buf *to, Ix e, int outer) {
    bool seen = false;
    const IxDim *dim = ix_dim_info(k->g, e);
    if (put_by_other(k, to, e, outer)) return;
    if (dim->data_dependent && !dim->value)
        g_error(k->g, "a size depends on the data (`%s`) and has no form in a kernel: only the device `ref` runs it", dim->name);
    for (uint32_t i = 0; i < k->dims.n; i++) seen |= k->dims.at[i] == e;
    const char *name = g_dim_word(k->g, e);
    if (!seen) vec_push(k->arena, &k->dims, e), vec_push(k->arena, &k->named, name);
    if (k->in_head && dim->value) k->sizes = true;
    if (!k_stands_alone(k, e, true)) k->scalar = true;
    buf_puts(to, name);
}

static void put_call(Kernel *k, Buf *to, Ix e, const char *name) {
    buf_printf(to, "%s(", name);
    k_put_number(k, to, e->arg[0], P_TERNARY);
    buf_puts(to, ", ");
    k_put_number(k, to, e->arg[1], P_TERNARY);
    buf_putc(to, ')');
}

// max(x, -x) is what it says.
static void put_max(Kernel *k, Buf *to, Ix e) {
    Ix sum = ix_add(k->g, e->arg[0], e->arg[1]);
    if (!sum || !ix_is(sum, 0)) { put_call(k, to, e, "max"); return; }
    buf_puts(to, "abs(");
    k_put_number(k, to, e->arg[e->arg[0]->kind == IX_SUM && e->arg[0]->coef[0] < 0], P_TERNARY);
    buf_putc(to, ')');
}

// a < b + 1 is a <= b.
static void put_less(Kernel *k, Buf *to, Ix e, int outer) {
    bool or_equal = e->arg[1]->kind == IX_SUM && e->arg[1]->value == 1;
    if (P_EQUAL < outer) buf_putc(to, '(');
    k_put_number(k, to, e->arg[0], P_PLUS);
    buf_puts(to, or_equal ? " <= " : " < ");
    k_put_number(k, to, or_equal ? ix_addi(k->g, e->arg[1], -1) : e->arg[1], P_PLUS);
    if (P_EQUAL < outer) buf_putc(to, ')');
}

bool k_is_alias(const Kernel *k, Ix e) {
    bool found = false;
    for (uint32_t i = 0; i < k->alias.n; i++) found |= k->alias.at[i].of == e;
    return found;
}

// (A + 3) / 4 where a dimension is (A + 1) / 2: (it + 1) / 2. The name of that dimension, or NULL.
static const char *quotient_of(const Kernel *k, Ix e, int64_t *plus, int64_t *by) {
    if (e->kind != IX_DIV || !ix_const(e->arg[1], by)) return NULL;
    for (uint32_t i = 0; i < k->alias.n; i++) {
        KAlias a = k->alias.at[i];
        int64_t part, n = *by;
        if (!a.of || a.of->kind != IX_DIV || !ix_const(a.of->arg[1], &part) || part < 2 || part >= n || n % part) continue;
        Ix more = ix_sub(k->g, e->arg[0], a.of->arg[0]);
        if (!ix_const(more, plus) || *plus % part) continue;
        *plus /= part, *by = n / part;
        return a.name;
    }
    return NULL;
}

bool k_lacks_dim(const Kernel *k, Ix e) {
    int64_t plus, by;
    if (k_is_alias(k, e) || quotient_of(k, e, &plus, &by)) return false;
    bool lacks = e->kind == IX_DIM && !k_stands_alone(k, e, true);
    for (uint32_t i = 0; i < e->n && !lacks; i++) lacks = k_lacks_dim(k, e->arg[i]);
    return lacks;
}

// Is it a product of dimensions that have names, and a number? N * N2 * 8 of what is stored as [N, N2, 8].
static bool of_aliases(Kernel *k, Ix e) {
    bool sum = e->kind == IX_SUM && (e->n > 1 || e->value != 0);
    if (k_is_alias(k, e) || (!sum && !k_lacks_dim(k, e))) return true;
    for (uint32_t i = 0; i < k->alias.n; i++) {
        Ix rest = k->alias.at[i].of && k->alias.at[i].of->kind == IX_SUM ? ix_divide_exact(k->g, e, k->alias.at[i].of) : NULL;
        if (rest && of_aliases(k, rest)) return true;
    }
    return false;
}

// As so many times a dimension of a parameter that has a name of its own.
static bool put_multiple(Kernel *k, Buf *to, Ix e, int outer) {
    for (uint32_t i = 0; i < k->alias.n; i++) {
        KAlias a = k->alias.at[i];
        bool sums = a.of && a.of->kind == IX_SUM && e->kind == IX_SUM;
        bool head = a.of && k->in_head && a.of->kind == IX_PROD && e->kind == IX_PROD && k_lacks_dim(k, e);
        Ix times = sums || head ? ix_divide_exact(k->g, e, a.of) : NULL;
        bool factors = sums && times && times->kind == IX_SUM && of_aliases(k, times);
        if (!times || (!factors && ((times->kind == IX_SUM && !k_is_alias(k, times)) || (k->in_head && k_lacks_dim(k, times))))) continue;
        bool negative = times->kind == IX_CONST && times->value < 0;
        if (outer > P_TIMES) buf_putc(to, '(');
        buf_puts(to, a.name);
        if (negative) buf_puts(to, " * ("), k_put_ix(k, to, times, P_TERNARY), buf_putc(to, ')');
        else buf_puts(to, " * "), k_put_number(k, to, times, factors ? P_TIMES : P_TIMES + 1);
        if (outer > P_TIMES) buf_putc(to, ')');
        return true;
    }
    return false;
}

static bool put_quotient(Kernel *k, Buf *to, Ix e, int outer) {
    int64_t plus, by;
    const char *name = quotient_of(k, e, &plus, &by);
    if (!name) return false;
    if (outer > P_TIMES) buf_putc(to, '(');
    if (plus) buf_printf(to, "(%s %c %" PRId64 ")", name, plus < 0 ? '-' : '+', plus < 0 ? -plus : plus);
    else buf_puts(to, name);
    buf_printf(to, " / %" PRId64, by);
    if (outer > P_TIMES) buf_putc(to, ')');
    return true;
}

void k_put_ix(Kernel *k, Buf *to, Ix e, int outer) {
    for (uint32_t i = 0; i < k->alias.n; i++) {
        if (k->alias.at[i].of != e) continue;
        buf_puts(to, k->alias.at[i].name);
        return;
    }
    if (k_put_part(k, to, e) || put_multiple(k, to, e, outer)) return;
    switch ((IxKind)e->kind) {
    case IX_CONST:
        if (e->value < 0 && outer > P_PLUS) buf_printf(to, "(%" PRId64 ")", e->value);
        else buf_printf(to, "%" PRId64, e->value);
        break;
    case IX_DIM: put_dim(k, to, e, outer); break;
    case IX_AXIS: {
        const KAxis *a = &k->axis[e->value];
        buf_puts(to, a->kind == A_VALUE ? a->value->name : a->name);
        break;
    }
    case IX_SUM:
        if (!k->in_head || !k_lacks_dim(k, e) || !put_by_other(k, to, e, outer)) put_sum(k, to, e, outer);
        break;
    case IX_PROD: put_list(k, to, e, "*", P_TIMES, outer); break;
    case IX_DIV:
        if (!k_lacks_dim(k, e->arg[0]) || !put_quotient(k, to, e, outer))
            put_list(k, to, e, "/", P_TIMES, outer);
        break;
    case IX_MOD: put_list(k, to, e, "%", P_TIMES, outer); break;
    case IX_MIN: put_call(k, to, e, "min"); break;
    case IX_MAX: put_max(k, to, e); break;
    case IX_LT: put_less(k, to, e, outer); break;
    case IX_EQ:
        if (is_truth(e->arg[0]) && ix_is(e->arg[1], 0)) {
            buf_puts(to, "!(");
            k_put_ix(k, to, e->arg[0], P_TERNARY);
            buf_putc(to, ')');
            break;
        }
        put_list(k, to, e, "==", P_EQUAL, outer);
        break;
    case IX_AND: put_list(k, to, e, "&&", P_AND2, outer); break;
    case IX_OR: put_list(k, to, e, "||", P_OR2, outer); break;
    }
}

void k_ix(Kernel *k, Buf *to, Ix e) { k_put_ix(k, to, e, P_TERNARY); }
