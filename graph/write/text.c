// Expressions of a kernel to text. What is used twice, is a reduction, or would make a line too long, gets a name, in the
// innermost loop that it depends on; the rest is written where it is used.

#include "graph/write/internal.h"
#include "lang/c_text.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 96 };

static char *written(Kernel *k, KScope *s, KExpr *e);

void k_indent(KScope *s) {
    for (int i = 0; i < s->indent; i++) buf_puts(s->to, "    ");
}

static KScope *home(KScope *s, const KExpr *e) {
    while (s->up && !(e->mask & s->loops)) s = s->up;
    return s;
}

static const char *suggestion(const KExpr *e) {
    const Node *n = e->node;
    if (e->op == E_DOT) return "s";
    if (e->op == E_REDUCE)
        return e->fmt[0] == 's'                       ? "total"
               : e->fmt[0] == 'm' && e->fmt[1] == 'a' ? "top"
               : e->fmt[0] == 'm'                     ? "low"
                                                      : e->fmt;
    if (e->op == E_LOAD) return n && (n->kind == G_const || graph_loaded(n)) ? "c" : "v";
    if (e->var >= 0) return "at";
    if (e->fmt && strncmp(e->fmt, "exp(", 4) == 0) return "e";
    if (e->fmt && strchr(e->fmt, '-')) return "d";
    return "t";
}

static bool is_plain(const KExpr *e) {
    if (e->op == E_NUMBER || e->op == E_SUM || e->op == E_ALONG) return true;
    return e->op == E_INDEX && (e->expr->kind == IX_AXIS || e->expr->kind == IX_CONST || e->expr->kind == IX_DIM);
}

static const char *bind(Kernel *k, KScope *s, KExpr *e) {
    KScope *h = home(s, e);
    char *t = written(k, h, e);
    if (e->name) return e->name;
    const char *name = k_name(k, suggestion(e));
    k_indent(h);
    buf_printf(h->to, "let %s = %s;\n", name, t);
    return e->name = name;
}

// e as an operand that binds at least as tightly as `outer`.
const char *k_operand(Kernel *k, KScope *s, KExpr *e, int outer) {
    if (e->name) return e->name;
    bool shared = e->uses > 1 || e->var >= 0 || e->op == E_REDUCE;
    if (shared && !is_plain(e)) return bind(k, s, e);
    char *t = written(k, s, e);
    if (e->name) return e->name;
    if (strlen(t) > LINE && !is_plain(e)) return bind(k, s, e);
    int prec = e->prec;
    if (e->op == E_INDEX) prec = is_plain(e) ? P_PRIMARY : P_TERNARY;
    if (t[0] == '-' && prec > P_UNARY) prec = P_UNARY;
    return prec < outer ? arena_printf(k->arena, "(%s)", t) : t;
}

// As few digits as an f32 wants. Of a float of 16 bits and fewer, all: it holds a literal exactly, or the literal
// makes an f32 of what it meets.
static void put_num(Buf *to, GNum v, Elem elem) {
    if (v.is_int) {
        if (elem == EL_u64) buf_printf(to, "%" PRIu64, (uint64_t)v.i);
        else if (elem == EL_bool) buf_puts(to, v.i ? "true" : "false");
        else buf_printf(to, "%" PRId64, v.i);
        return;
    }
    if (isnan(v.f)) buf_puts(to, "nan");
    else if (isinf(v.f)) buf_puts(to, v.f < 0 ? "-inf" : "inf");
    else {
        char t[64];
        bool f32_will_do = elem != EL_f64 && !elem_is_storage(elem);
        for (int digits = 6; digits <= 17; digits++) {
            c_snprintf(t, sizeof t, "%.*g", digits, v.f);
            double same = c_strtod(t, NULL);
            if (same == v.f || (f32_will_do && ((float)same == (float)v.f || digits >= 9))) break;
        }
        buf_puts(to, t);
        if (!strpbrk(t, ".e")) buf_puts(to, ".0");
    }
}

// What may not be taken out of range must be said before: names of index values.
void k_name_values(Kernel *k, KScope *s, const Ix *at, int n) {
    for (int i = 0; i < n; i++)
        for (int v = KAXIS_VALUES; v < MAX_KAXES; v++)
            if (at[i]->axes >> v & 1) bind(k, s, k->axis[v].value);
}

static char *load_text(Kernel *k, KScope *s, const KExpr *e) {
    Buf b = {0};
    k_name_values(k, s, e->at, e->nat);
    k_parts_begin(k, s, e->at, e->nat);
    buf_printf(&b, "%s%s[", e->has_fill ? "(" : "", k->params.at[e->param].name);
    for (int i = 0; i < e->nat; i++) {
        if (i) buf_puts(&b, ", ");
        k_put_number(k, &b, e->at[i], P_TERNARY);
    }
    k_parts_end(k);
    buf_putc(&b, ']');
    if (e->has_fill) {
        buf_puts(&b, " else ");
        put_num(&b, e->number, e->elem);
        buf_putc(&b, ')');
    }
    char *t = arena_printf(k->arena, "%s", b.p);
    buf_free(&b);
    return t;
}

static char *template_text(Kernel *k, KScope *s, const KExpr *e) {
    Buf b = {0};
    const char *args[3] = {0};
    bool call = e->prec == P_PRIMARY, cast = strstr(e->fmt, "$0 as ") != NULL, bits = e->fmt[0] == '(';
    for (int i = 0; i < 3 && e->arg[i]; i++) {
        int prec = bits || cast         ? P_PRIMARY
                   : call               ? P_TERNARY
                   : e->prec == P_UNARY ? P_UNARY
                                        : e->prec + (i > 0 || e->fmt[0] != '$' || e->prec == P_EQUAL);
        args[i] = k_operand(k, s, e->arg[i], prec);
    }
    for (const char *f = e->fmt; *f; f++) {
        if (*f == '$') buf_puts(&b, args[*++f - '0']);
        else buf_putc(&b, *f);
    }
    char *t = arena_printf(k->arena, "%s", b.p);
    buf_free(&b);
    return t;
}

// The tile axes that a value has, as arguments: "m, n".
char *k_tile_axes(Kernel *k, uint64_t mask) {
    Buf b = {0};
    for (int n = 0; n < k->naxes; n++) {
        int i = k->across ? k->naxes - 1 - n : n;
        KAxisKind kind = k->axis[i].kind;
        if (!(mask >> i & 1) || kind == A_GRID || kind == A_LOOP) continue;
        if (b.n) buf_puts(&b, ", ");
        buf_puts(&b, k->axis[i].name);
    }
    char *t = arena_printf(k->arena, "%s", b.p ? b.p : "");
    buf_free(&b);
    return t;
}

static char *over(Kernel *k, const KExpr *e) {
    Buf b = {0};
    for (int i = 0; i < e->naxes; i++)
        if (k->axis[e->axes[i]].kind != A_LOOP) buf_printf(&b, "%s%s", b.n ? ", " : "", k->axis[e->axes[i]].name);
    char *t = arena_printf(k->arena, "%s", b.p ? b.p : "");
    buf_free(&b);
    return t;
}

static const char *start_value(const char *op, Elem elem) {
    for (int r = GR_sum; r <= GR_min; r++)
        if (strcmp(op, g_reduce_name[r]) == 0) return k_start((GReduce)r, elem);
    return strcmp(op, "any") == 0 ? "false" : "true";
}

const char *k_start(GReduce op, Elem elem) {
    if (op == GR_sum) return elem_is_float(elem) ? "0.0" : "0";
    if (op == GR_prod) return elem_is_float(elem) ? "1.0" : "1";
    bool max = op == GR_max;
    if (elem_is_float(elem)) return max ? "-inf" : "inf";
    switch (elem) {
    case EL_i8: return max ? "-128" : "127";
    case EL_i16: return max ? "-32768" : "32767";
    case EL_i32: return max ? "-2147483648" : "2147483647";
    case EL_i64: return max ? "-9223372036854775808" : "9223372036854775807";
    case EL_u8: return max ? "0" : "255";
    case EL_u16: return max ? "0" : "65535";
    case EL_u32: return max ? "0" : "4294967295";
    default: return max ? "0" : "18446744073709551615";
    }
}

// One more element joined with a reduction's variable.
static void put_joined(Buf *to, const char *fmt, const char *name, const char *arg) {
    if (strcmp(fmt, "sum") == 0) buf_printf(to, "%s += %s;\n", name, arg);
    else if (strcmp(fmt, "prod") == 0) buf_printf(to, "%s *= %s;\n", name, arg);
    else if (strcmp(fmt, "any") == 0) buf_printf(to, "%s = %s || (%s);\n", name, name, arg);
    else if (strcmp(fmt, "every") == 0) buf_printf(to, "%s = %s && (%s);\n", name, name, arg);
    else buf_printf(to, "%s = %s(%s, %s);\n", name, fmt, name, arg);
}

static bool finds_place(const KExpr *e) { return strncmp(e->fmt, "arg", 3) == 0; }

// The place of the greatest or least: with the value that is there, which another one must beat.
static void put_place(Kernel *k, KScope *loop, const KExpr *e, const char *name, const char *best, const char *arg, const char *along) {
    Buf *to = loop->to;
    bool most = strcmp(e->fmt, "argmax") == 0;
    const char *v = k_name(k, "v"), *one = v;
    if (!along[0]) {
        buf_printf(to, "let %s = %s;\n", v, arg);
    } else {
        one = k_name(k, "t");
        buf_printf(to, "let %s = %s;\n", v, arg);
        k_indent(loop);
        buf_printf(to, "let %s = %s(%s over %s);\n", one, e->fmt + 3, v, along);
    }
    k_indent(loop);
    if (elem_is_float(e->arg[0]->elem)) buf_printf(to, "%s = where(%s == %s && !(%s %s %s), ", name, best, best, one, most ? "<=" : ">=", best);     // the first NaN wins
    else buf_printf(to, "%s = where(%s %s %s, ", name, one, most ? ">" : "<", best);
    if (along[0]) buf_printf(to, "%s(%s over %s)", e->fmt, v, along);
    else buf_puts(to, k->axis[e->axes[0]].name);
    buf_printf(to, " as i32, %s);\n", name);
    k_indent(loop);
    buf_printf(to, "%s = %s(%s, %s);\n", best, e->fmt + 3, best, one);
}

// `var total: f32 = 0.0;`, of which a loop's reduction is made. The name of the value that a place must beat, or NULL.
static const char *loop_var(Kernel *k, KScope *s, KExpr *e, const char *name) {
    const char *axes = k_tile_axes(k, e->mask), *start = start_value(e->fmt, e->elem);
    const char *best = finds_place(e) ? k_name(k, strcmp(e->fmt, "argmax") == 0 ? "top" : "least") : NULL;
    k_indent(s);
    if (best) {
        Elem of = e->arg[0]->elem;
        start = k_start(strcmp(e->fmt, "argmax") == 0 ? GR_max : GR_min, of);
        if (axes[0]) buf_printf(s->to, "var %s = full(%s as %s, %s);  var %s = full(0 as i32, %s);\n", best, start, elem_name(of), axes, name, axes);
        else buf_printf(s->to, "var %s: %s = %s;  var %s: i32 = 0;\n", best, elem_name(of), start, name);
    } else if (axes[0]) buf_printf(s->to, "var %s = full(%s as %s, %s);\n", name, start, elem_name(e->elem), axes);
    else buf_printf(s->to, "var %s: %s = %s;\n", name, elem_name(e->elem), start);
    return best;
}

static void loop_step(Kernel *k, KScope *loop, KExpr *e, const char *name, const char *best) {
    const char *arg = k_operand(k, loop, e->arg[0], P_TERNARY), *along = over(k, e);
    Buf *to = loop->to;
    k_indent(loop);
    if (best) put_place(k, loop, e, name, best, arg, along);
    else if (!along[0]) put_joined(to, e->fmt, name, arg);
    else if (strcmp(e->fmt, "sum") == 0) buf_printf(to, "%s += sum(%s over %s);\n", name, arg, along);
    else if (strcmp(e->fmt, "prod") == 0) buf_printf(to, "%s *= prod(%s over %s);\n", name, arg, along);
    else if (strcmp(e->fmt, "any") == 0) buf_printf(to, "%s = %s || any(%s over %s);\n", name, name, arg, along);
    else if (strcmp(e->fmt, "every") == 0) buf_printf(to, "%s = %s && every(%s over %s);\n", name, name, arg, along);
    else buf_printf(to, "%s = %s(%s, %s(%s over %s));\n", name, e->fmt, name, e->fmt, arg, along);
}

// Of one loop: reductions along the same axis, which need nothing of each other (reduce.c).
static bool same_loop(const KExpr *e, const KExpr *x) {
    return x != e && x->op == E_REDUCE && x->uses && !x->name && x->naxes == 1 && e->naxes == 1 && x->axes[0] == e->axes[0];
}

// A reduction over an axis too long for a tile, or over a few elements one after the other: a loop, with a variable
// that it leaves; and those that the loop has beside it.
static char *loop_text(Kernel *k, KScope *s, KExpr *e) {
    Buf inside = {0}, head = {0};
    KScope loop = {&inside, 0, s, s->indent + 1};
    bool first = true;
    for (int i = 0; i < e->naxes; i++) {
        const KAxis *a = &k->axis[e->axes[i]];
        if (a->kind != A_LOOP_TILE && a->kind != A_LOOP) continue;
        loop.loops |= UINT64_C(1) << e->axes[i];
        buf_printf(&head, "%s%s in ", first ? "for " : ", ", a->name);
        k_put_ix(k, &head, a->extent, P_PLUS);
        if (a->kind == A_LOOP_TILE) buf_printf(&head, " by %" PRId64, a->by);
        first = false;
    }
    const char *name = k_name(k, suggestion(e)), *best = loop_var(k, s, e, name);
    loop_step(k, &loop, e, name, best);
    for (uint32_t i = 0; i < k->exprs.n; i++) {
        KExpr *x = k->exprs.at[i];
        if (!same_loop(e, x)) continue;
        const char *also = k_name(k, suggestion(x));
        loop_step(k, &loop, x, also, loop_var(k, s, x, also));
        x->name = also;
    }
    k_indent(s);
    buf_printf(s->to, "%s {\n%s", head.p, inside.p);
    k_indent(s);
    buf_puts(s->to, "}\n");
    buf_free(&inside);
    buf_free(&head);
    return (char *)(e->name = name);
}

// How a dot multiplies its operands: f32 as three products of tf32, unless the graph asks for one.
const char *k_precision(const Kernel *k, const KExpr *a) {
    return k->g->tables->tf32 && a->elem == EL_f32 ? ", prec = tf32" : "";
}

static bool is_loop(const Kernel *k, const KExpr *e) {
    for (int i = 0; i < e->naxes; i++)
        if (k->axis[e->axes[i]].kind == A_LOOP_TILE || k->axis[e->axes[i]].kind == A_LOOP) return true;
    return false;
}

static char *written(Kernel *k, KScope *s, KExpr *e) {
    Buf b = {0};
    switch (e->op) {
    case E_NUMBER: put_num(&b, e->number, e->elem == EL_none && e->node ? (Elem)e->node->elem : e->elem); break;
    case E_INDEX:
        k_name_values(k, s, &e->expr, 1);
        k_parts_begin(k, s, &e->expr, 1);
        k_put_ix(k, &b, e->expr, P_TERNARY);
        k_parts_end(k);
        break;
    case E_LOAD: return load_text(k, s, e);
    case E_TEXT: return template_text(k, s, e);
    case E_REDUCE:
        if (is_loop(k, e)) return loop_text(k, s, e);
        buf_printf(&b, "%s(%s over %s)", e->fmt, k_operand(k, s, e->arg[0], P_TERNARY), over(k, e));
        break;
    case E_DOT: {
        const char *a = k_operand(k, s, e->arg[0], P_TERNARY), *c = k_operand(k, s, e->arg[1], P_TERNARY);
        buf_printf(&b, "dot(%s, %s over %s%s)", a, c, over(k, e), k_precision(k, e->arg[0]));
        break;
    }
    case E_SUM: return (char *)k_sum_name[e->number.i];
    case E_ALONG: return (char *)(e->number.i ? k->along.places : k->along.value);
    }
    char *t = arena_printf(k->arena, "%s", b.p);
    buf_free(&b);
    return t;
}
