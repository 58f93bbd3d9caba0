// Expressions of a kernel to text. What is used twice, is a reduction, or would make a line too long, gets a name, in the
// innermost loop that it depends on; the rest is written where it is used.

#include "graph/write/internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LINE = 96 };

typedef struct Scope {
    Buf     *to;
    uint64_t loops;              // axes of this loop
    struct Scope *up;
    int      indent;
} Scope;

// ---- names ----------------------------------------------------------------------------------------------------------

static const char *const reserved[] = {
    "kernel", "graph", "fn", "grid", "in", "by", "let", "var", "for", "while", "if", "else", "as", "over", "out", "inout", "return", "test",
    "where", "with", "merge", "true", "false", "import", "weights", "weight", "expect", "type", "axis", "index", "float", "int", "bool",
    "sum", "prod", "max", "min", "any", "every", "mean", "argmax", "argmin", "dot", "zeros", "ones", "full", "exp", "log", "sqrt", "abs",
    "erf", "tanh", "sin", "cos", "floor", "ceil", "round", "trunc", "sort", "inf", "nan", "PI", "LN2", "LOG2E", "reshape", "slice", "random",
    "first", "last", "end", "length", "sigmoid", "silu", "relu", "gelu", "softplus", "elu", "clamp", "square", "sign", "lerp", "identity",
    "strided", "break", "continue", "assert", "print", "tune", "values", "iota", "load", "store", "cumsum", "rename", "fma", "exp2", "log2",
    "rsqrt", "cdiv", "sinh", "cosh", "asinh", "acosh", "atanh", "int_power", "div_trunc", "rem_trunc", "mod_trunc", "mod_floor", "sign_of", "log1p", "expm1",
    "lowest", "align_up", "leaky_relu", "gelu_tanh", "log1p_exp", "bitcast", "isnan", "precise", "within", "rel", "key", "tan", "atan", "acos", "asin", "power", "static_assert",
};

static bool is_taken(const Kernel *k, const char *name) {
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (strcmp(reserved[i], name) == 0) return true;
    if (elem_by_name((Str){name, strlen(name)}) != EL_none) return true;
    for (uint32_t i = 0; i < k->names.n; i++)
        if (strcmp(k->names.at[i], name) == 0) return true;
    return false;
}

const char *g_identifier(Arena *a, const char *text, const char *otherwise) {
    Buf b = {0};
    for (const char *s = text; s && *s; s++) {
        bool letter = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z'), digit = *s >= '0' && *s <= '9';
        if (letter || (digit && b.n > 0)) buf_putc(&b, *s);
        else if (b.n > 0 && b.p[b.n - 1] != '_') buf_putc(&b, '_');
    }
    while (b.n > 0 && b.p[b.n - 1] == '_') b.p[--b.n] = 0;
    const char *name = b.n ? arena_printf(a, "%s", b.p) : otherwise;
    buf_free(&b);
    return name;
}

const char *k_name(Kernel *k, const char *like) {
    const char *name = like;
    size_t n = strlen(like);
    bool digit = n > 0 && like[n - 1] >= '0' && like[n - 1] <= '9';
    KCount *count = NULL;
    for (uint32_t i = 0; i < k->counts.n && !count; i++)
        if (strcmp(k->counts.at[i].like, like) == 0) count = &k->counts.at[i];
    int number = count ? count->next : 2;
    for (; is_taken(k, name); number++)
        name = arena_printf(k->arena, "%s%s%d", like, digit ? "_" : "", number);
    name = arena_printf(k->arena, "%s", name);
    if (count) count->next = number;
    else vec_push(k->arena, &k->counts, ((KCount){arena_printf(k->arena, "%s", like), number}));
    vec_push(k->arena, &k->names, name);
    return name;
}

// ---- expressions ----------------------------------------------------------------------------------------------------

static char *written(Kernel *k, Scope *s, KExpr *e);

static void indent(Scope *s) {
    for (int i = 0; i < s->indent; i++) buf_puts(s->to, "    ");
}

static Scope *home(Scope *s, const KExpr *e) {
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

static const char *bind(Kernel *k, Scope *s, KExpr *e) {
    Scope *h = home(s, e);
    char *t = written(k, h, e);
    if (e->name) return e->name;
    const char *name = k_name(k, suggestion(e));
    indent(h);
    buf_printf(h->to, "let %s = %s;\n", name, t);
    return e->name = name;
}

// e as an operand that binds at least as tightly as `outer`.
static const char *operand(Kernel *k, Scope *s, KExpr *e, int outer) {
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
        for (int digits = 6; digits <= 17; digits++) {
            snprintf(t, sizeof t, "%.*g", digits, v.f);
            double same = strtod(t, NULL);
            if (same == v.f || (elem != EL_f64 && ((float)same == (float)v.f || digits >= 9))) break;
        }
        buf_puts(to, t);
        if (!strpbrk(t, ".e")) buf_puts(to, ".0");
    }
}

// What may not be taken out of range must be said before: names of index values.
static void name_values(Kernel *k, Scope *s, const Ix *at, int n) {
    for (int i = 0; i < n; i++)
        for (int v = KAXIS_VALUES; v < MAX_KAXES; v++)
            if (at[i]->axes >> v & 1) bind(k, s, k->axis[v].value);
}

static char *load_text(Kernel *k, Scope *s, const KExpr *e) {
    Buf b = {0};
    name_values(k, s, e->at, e->nat);
    buf_printf(&b, "%s%s[", e->has_fill ? "(" : "", k->params.at[e->param].name);
    for (int i = 0; i < e->nat; i++) {
        if (i) buf_puts(&b, ", ");
        k_put_number(k, &b, e->at[i], P_TERNARY);
    }
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

static char *template_text(Kernel *k, Scope *s, const KExpr *e) {
    Buf b = {0};
    const char *args[3] = {0};
    bool call = e->prec == P_PRIMARY, cast = strstr(e->fmt, "$0 as ") != NULL, bits = e->fmt[0] == '(';
    for (int i = 0; i < 3 && e->arg[i]; i++) {
        int prec = bits || cast         ? P_PRIMARY
                   : call               ? P_TERNARY
                   : e->prec == P_UNARY ? P_UNARY
                                        : e->prec + (i > 0 || e->fmt[0] != '$' || e->prec == P_EQUAL);
        args[i] = operand(k, s, e->arg[i], prec);
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
static char *tile_axes(Kernel *k, uint64_t mask) {
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
static void put_place(Kernel *k, Scope *loop, const KExpr *e, const char *name, const char *best, const char *arg, const char *along) {
    Buf *to = loop->to;
    bool most = strcmp(e->fmt, "argmax") == 0;
    const char *v = k_name(k, "v"), *one = v;
    if (!along[0]) {
        buf_printf(to, "let %s = %s;\n", v, arg);
    } else {
        one = k_name(k, "t");
        buf_printf(to, "let %s = %s;\n", v, arg);
        indent(loop);
        buf_printf(to, "let %s = %s(%s over %s);\n", one, e->fmt + 3, v, along);
    }
    indent(loop);
    buf_printf(to, "%s = where(%s %s %s, ", name, one, most ? ">" : "<", best);
    if (along[0]) buf_printf(to, "%s(%s over %s)", e->fmt, v, along);
    else buf_puts(to, k->axis[e->axes[0]].name);
    buf_printf(to, " as i32, %s);\n", name);
    indent(loop);
    buf_printf(to, "%s = %s(%s, %s);\n", best, e->fmt + 3, best, one);
}

// A reduction over an axis too long for a tile, or over a few elements one after the other: a loop, with a variable
// that it leaves.
static char *loop_text(Kernel *k, Scope *s, KExpr *e) {
    const char *name = k_name(k, suggestion(e)), *axes = tile_axes(k, e->mask), *start = start_value(e->fmt, e->elem);
    const char *best = finds_place(e) ? k_name(k, strcmp(e->fmt, "argmax") == 0 ? "top" : "least") : NULL;
    indent(s);
    if (best) {
        Elem of = e->arg[0]->elem;
        start = k_start(strcmp(e->fmt, "argmax") == 0 ? GR_max : GR_min, of);
        if (axes[0]) buf_printf(s->to, "var %s = full(%s as %s, %s);  var %s = full(0 as i32, %s);\n", best, start, elem_name(of), axes, name, axes);
        else buf_printf(s->to, "var %s: %s = %s;  var %s: i32 = 0;\n", best, elem_name(of), start, name);
    } else if (axes[0]) buf_printf(s->to, "var %s = full(%s as %s, %s);\n", name, start, elem_name(e->elem), axes);
    else buf_printf(s->to, "var %s: %s = %s;\n", name, elem_name(e->elem), start);
    Buf inside = {0}, head = {0};
    Scope loop = {&inside, 0, s, s->indent + 1};
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
    const char *arg = operand(k, &loop, e->arg[0], P_TERNARY), *along = over(k, e);
    indent(&loop);
    if (best) put_place(k, &loop, e, name, best, arg, along);
    else if (!along[0]) put_joined(&inside, e->fmt, name, arg);
    else if (strcmp(e->fmt, "sum") == 0) buf_printf(&inside, "%s += sum(%s over %s);\n", name, arg, along);
    else if (strcmp(e->fmt, "prod") == 0) buf_printf(&inside, "%s *= prod(%s over %s);\n", name, arg, along);
    else if (strcmp(e->fmt, "any") == 0) buf_printf(&inside, "%s = %s || any(%s over %s);\n", name, name, arg, along);
    else if (strcmp(e->fmt, "every") == 0) buf_printf(&inside, "%s = %s && every(%s over %s);\n", name, name, arg, along);
    else buf_printf(&inside, "%s = %s(%s, %s(%s over %s));\n", name, e->fmt, name, e->fmt, arg, along);
    indent(s);
    buf_printf(s->to, "%s {\n%s", head.p, inside.p);
    indent(s);
    buf_puts(s->to, "}\n");
    buf_free(&inside);
    buf_free(&head);
    e->name = name;
    return (char *)name;
}

// How a dot multiplies its operands: f32 as three products of tf32, unless the graph asks for one.
static const char *precision(const Kernel *k, const KExpr *a) {
    return k->g->tables->tf32 && a->elem == EL_f32 ? ", prec = tf32" : "";
}

static bool is_loop(const Kernel *k, const KExpr *e) {
    for (int i = 0; i < e->naxes; i++)
        if (k->axis[e->axes[i]].kind == A_LOOP_TILE || k->axis[e->axes[i]].kind == A_LOOP) return true;
    return false;
}

static char *written(Kernel *k, Scope *s, KExpr *e) {
    Buf b = {0};
    switch (e->op) {
    case E_NUMBER: put_num(&b, e->number, e->elem == EL_none && e->node ? (Elem)e->node->elem : e->elem); break;
    case E_INDEX:
        name_values(k, s, &e->expr, 1);
        k_put_ix(k, &b, e->expr, P_TERNARY);
        break;
    case E_LOAD: return load_text(k, s, e);
    case E_TEXT: return template_text(k, s, e);
    case E_REDUCE:
        if (is_loop(k, e)) return loop_text(k, s, e);
        buf_printf(&b, "%s(%s over %s)", e->fmt, operand(k, s, e->arg[0], P_TERNARY), over(k, e));
        break;
    case E_DOT: {
        const char *a = operand(k, s, e->arg[0], P_TERNARY), *c = operand(k, s, e->arg[1], P_TERNARY);
        buf_printf(&b, "dot(%s, %s over %s%s)", a, c, over(k, e), precision(k, e->arg[0]));
        break;
    }
    case E_SUM: return (char *)(e->number.i ? "acc2" : "acc");
    case E_ALONG: return (char *)(e->number.i ? k->along.places : k->along.value);
    }
    char *t = arena_printf(k->arena, "%s", b.p);
    buf_free(&b);
    return t;
}

// ---- the kernel -----------------------------------------------------------------------------------------------------

static const char *param_like(Kernel *k, const Node *n, bool out) {
    if (out) return "y";
    if (graph_loaded(n)) n = n->src[0];
    if (n->kind != G_const && k->f->maker[n->id] >= 0 && k->f->groups.at[k->f->maker[n->id]]->once) return "w";
    if (n->kind != G_const) return "x";
    const char *last = n->name ? n->name : "w";
    for (const char *s = last; *s; s++)
        if ((*s == '.' || *s == '/' || *s == ':') && ((s[1] >= 'a' && s[1] <= 'z') || (s[1] >= 'A' && s[1] <= 'Z')))
            last = s + 1;
    const char *name = g_identifier(k->arena, last, "w");
    for (const char *s = name; *s; s++)
        if (*s >= '0' && *s <= '9') return "w";
    return strlen(name) > 12 || strcmp(name, "weight") == 0 ? "w" : name;
}

static int param_of(Kernel *k, const Node *n, int rank, const Ix *shape, bool out, Ix parts, int64_t part) {
    for (uint32_t i = 0; i < k->params.n; i++) {
        KParam *p = &k->params.at[i];
        if (p->node == n && p->out == out && !p->inout && p->rank == rank && p->parts == parts && p->part == part &&
            (rank == 0 || memcmp(p->shape, shape, (size_t)rank * sizeof *shape) == 0))
            return (int)i;
    }
    vec_push(k->arena, &k->params,
             ((KParam){n, rank, copy_ixs(k->g, shape, rank), out, false, k_name(k, param_like(k, n, out)), parts, part}));
    for (int i = 0; i < rank; i++) {
        bool known = shape[i]->kind == IX_CONST || shape[i]->kind == IX_DIM;
        for (uint32_t a = 0; a < k->alias.n; a++) known |= k->alias.at[a].of == shape[i];
        if (known) continue;
        Buf b = {0};
        ix_print(&b, k->g, shape[i], NULL);
        const char *name = k_name(k, g_identifier(k->arena, b.p, "N"));
        buf_free(&b);
        vec_push(k->arena, &k->alias, ((KAlias){shape[i], name}));
    }
    return (int)k->params.n - 1;
}

static void reach(Kernel *k, KExpr *e, bool *seen);

static void reach_values(Kernel *k, const Ix *at, int n, bool *seen) {
    for (int i = 0; i < n; i++)
        for (int v = KAXIS_VALUES; v < MAX_KAXES; v++)
            if (at[i]->axes >> v & 1) reach(k, k->axis[v].value, seen);
}

static void reach(Kernel *k, KExpr *e, bool *seen) {
    for (uint32_t i = 0; i < k->exprs.n; i++) {
        if (k->exprs.at[i] != e) continue;
        if (seen[i]) return;
        seen[i] = true;
    }
    for (int i = 0; i < 3 && e->arg[i]; i++) reach(k, e->arg[i], seen);
    const Ix *at = e->op == E_LOAD ? e->coord : &e->expr;
    reach_values(k, at, e->op == E_LOAD ? e->node->rank : e->op == E_INDEX ? 1 : 0, seen);
}

enum { MOST_BOX = 5 };

// Of an attention: heads that lie side by side are a dimension, x[n, h * 64 + c] is x[n, h, c], and so are sequences.
// Then it is plain that they are in range, and where they begin.
static int heads_apart(Kernel *k, int n, Ix *shape, Ix *at) {
    for (int i = 0; i < n && n < G_MAX_RANK; i++)
        for (int a = 0; a < k->naxes; a++) {
            KAxisKind kind = k->axis[a].kind;
            bool tile = kind == A_FULL || kind == A_TILE || kind == A_LOOP_TILE;
            Ix rest, head = k->axis[a].extent, one = tile ? ix_coefficient(k->g, at[i], a, &rest) : NULL;
            Ix which = one && ix_is(one, 1) && head != shape[i] ? ix_divide_exact(k->g, rest, head) : NULL;
            Ix heads = which ? ix_divide_exact(k->g, shape[i], head) : NULL;
            if (!heads) continue;
            memmove(shape + i + 1, shape + i, (size_t)(n - i) * sizeof *shape);
            memmove(at + i + 1, at + i, (size_t)(n - i) * sizeof *at);
            shape[i] = heads, at[i] = which;
            shape[i + 1] = head, at[i + 1] = k->axis[a].axis;
            n++;
            break;
        }
    return n;
}

// Copies of boxes have five dimensions at most. Weights of a three-dimensional transposed convolution, w[phase, n, r, s, t, k], have six:
// taps that lie side by side are counted as one, w[phase, n, r, s * 2 + t, k].
static int few_enough(Kernel *k, int n, Ix *shape, Ix *at) {
    uint64_t tiles = 0;
    for (int a = 0; a < k->naxes; a++)
        if (k->axis[a].kind != A_GRID && k->axis[a].kind != A_LOOP) tiles |= UINT64_C(1) << a;
    for (int i = n - 2; i > 0 && n > MOST_BOX; i--) {
        bool plain = at[i - 1]->kind == IX_AXIS && at[i]->kind == IX_AXIS && at[i - 1]->arg[0] == shape[i - 1] && at[i]->arg[0] == shape[i];
        if (!plain || (at[i - 1]->axes | at[i]->axes) & tiles) continue;
        at[i - 1] = ix_add(k->g, ix_mul(k->g, at[i - 1], shape[i]), at[i]);
        shape[i - 1] = ix_mul(k->g, shape[i - 1], shape[i]);
        memmove(shape + i, shape + i + 1, (size_t)(n - i - 1) * sizeof *shape);
        memmove(at + i, at + i + 1, (size_t)(n - i - 1) * sizeof *at);
        n--;
    }
    return n;
}

static int dims_of(Kernel *k, const Node *n, const Ix *coord, Ix *shape, Ix *at) {
    int rank = dims_merged(k->g, n->rank, n->shape, coord, shape, at);
    if (k->a && k->b && !k->score) return few_enough(k, rank, shape, at);
    return k->score ? heads_apart(k, rank, shape, at) : rank;
}

// A step of many, as of a sequence: the kernel is given that part alone, and so is the same for all steps. Parts begin where lines of memory do.
static bool one_of_many(const Kernel *k, const KExpr *e, const Ix *shape, const Ix *at) {
    enum { MANY = 9, ALIGNED = 128 };
    int64_t size = elem_bits((Elem)e->node->elem) / 8;
    if (k->score || e->nat < 2 || !ix_is_const(shape[0]) || shape[0]->value < MANY || !ix_is_const(at[0])) return false;
    for (int d = 1; d < e->nat; d++)
        if (!ix_is_const(shape[d]) || __builtin_mul_overflow(size, shape[d]->value, &size)) return false;
    return at[0]->value >= 0 && at[0]->value < shape[0]->value && size > 0 && size % ALIGNED == 0;
}

static void settle_params(Kernel *k) {
    bool *seen = NEW_N(k->arena, bool, k->exprs.n);
    Ix shape[G_MAX_RANK], at[G_MAX_RANK];
    if (k->along.node) reach(k, k->along.arg, seen);
    if (k->a) reach(k, k->a, seen);
    if (k->b) reach(k, k->b, seen);
    if (k->b2) reach(k, k->b2, seen);
    if (k->score) reach(k, k->score, seen);
    for (uint32_t i = 0; i < k->stores.n; i++) {
        reach(k, k->stores.at[i].value, seen);
        reach_values(k, k->stores.at[i].coord, k->stores.at[i].node->rank, seen);
    }
    for (uint32_t i = 0; i < k->exprs.n; i++) {
        KExpr *e = k->exprs.at[i];
        if (!seen[i] || e->op != E_LOAD) continue;
        e->nat = dims_of(k, e->node, e->coord, shape, at);
        Ix parts = one_of_many(k, e, shape, at) ? shape[0] : NULL;
        int64_t part = parts ? at[0]->value : 0;
        if (parts) e->nat--;
        e->at = copy_ixs(k->g, at + (parts != NULL), e->nat);
        e->param = param_of(k, e->node, e->nat, shape + (parts != NULL), false, parts, part);
    }
    for (uint32_t i = 0; i < k->stores.n; i++) {
        KStore *st = &k->stores.at[i];
        const Node *n = st->node;
        if (k->in_place) {                                   // stored into in place: all dimensions as they are
            st->nat = n->rank;
            st->at = st->coord;
            vec_push(k->arena, &k->params, ((KParam){n, n->rank, n->shape, false, true, k_name(k, "y"), NULL, 0}));
            st->param = (int)k->params.n - 1;
            continue;
        }
        st->nat = dims_of(k, n, st->coord, shape, at);
        st->at = copy_ixs(k->g, at, st->nat);
        st->param = param_of(k, n, st->nat, shape, true, NULL, 0);
    }
}

static void name_axes(Kernel *k) {
    for (int i = 0; i < k->naxes; i++) k->axis[i].name = k_name(k, k->axis[i].name);
}

static void full_axes(Kernel *k, Scope *s) {
    for (int i = 0; i < k->naxes; i++) {
        const KAxis *a = &k->axis[i];
        if (a->kind != A_FULL) continue;
        indent(s);
        if (a->extent->kind == IX_CONST) {
            int64_t n = a->extent->value, p = k_pow2(n);
            if (p == n) buf_printf(s->to, "let %s = 0 .. %" PRId64 ";\n", a->name, n);
            else buf_printf(s->to, "let %s = %" PRId64 " by %" PRId64 ";\n", a->name, n, p);
            continue;
        }
        Buf e = {0};
        k->in_head = true;
        k_put_ix(k, &e, a->extent, P_PLUS);
        k->in_head = false;
        const char *block = k_name(k, "BLOCK");
        vec_push(k->arena, &k->blocks, (const char *)arena_printf(k->arena, "%s = next_pow2(%s) or 1024", block, e.p));
        buf_printf(s->to, "let %s = %s by %s;\n", a->name, e.p, block);
        buf_free(&e);
    }
}

static void put_by(Buf *to, const KAxis *a) {
    if (a->open) buf_printf(to, " by %s", a->open);
    else buf_printf(to, " by %" PRId64, a->by);
}

static void product_loop(Kernel *k, Scope *s, Scope *loop, Buf *inside) {
    Buf head = {0};
    uint64_t axes = k->a->mask | k->b->mask;
    const char *along = NULL;
    bool first = true;
    *loop = (Scope){inside, 0, s, s->indent + 1};
    for (int i = 0; i < k->naxes; i++) {
        const KAxis *a = &k->axis[i];
        if (a->kind != A_LOOP && a->kind != A_LOOP_TILE) continue;
        loop->loops |= UINT64_C(1) << i;
        buf_printf(&head, "%s%s in ", first ? "for " : ", ", a->name);
        k_put_ix(k, &head, a->extent, P_PLUS);
        if (a->kind == A_LOOP_TILE) {
            put_by(&head, a);
            along = a->name;
        }
        first = false;
    }
    for (int i = 0; i < k->naxes; i++)
        if (!(loop->loops >> i & 1) && (k->axis[i].kind == A_TILE)) axes |= UINT64_C(1) << i;
    const char *tile = tile_axes(k, axes & ~loop->loops), *elem = elem_name(k->fg->anchor->contract.acc);
    indent(s);
    for (int sum = 0; sum < (k->b2 ? 2 : 1); sum++) {
        if (tile[0]) buf_printf(s->to, "%svar %s = zeros<%s>(%s);", sum ? "  " : "", sum ? "acc2" : "acc", elem, tile);
        else buf_printf(s->to, "%svar %s: %s = 0;", sum ? "  " : "", sum ? "acc2" : "acc", elem);
    }
    buf_putc(s->to, '\n');
    for (int sum = 0; sum < (k->b2 ? 2 : 1); sum++) {
        bool add = k->by_sum || !along;
        const char *a = operand(k, loop, k->a, add ? P_TIMES : P_TERNARY),
                   *b = operand(k, loop, sum ? k->b2 : k->b, add ? P_UNARY : P_TERNARY);
        const char *to = sum ? "acc2" : "acc";
        indent(loop);
        if (!along) buf_printf(inside, "%s += %s * %s;\n", to, a, b);
        else if (k->by_sum) buf_printf(inside, "%s += sum(%s * %s over %s);\n", to, a, b, along);
        else buf_printf(inside, "%s += dot(%s, %s over %s%s);\n", to, k->across ? b : a, k->across ? a : b, along, precision(k, k->a));
    }
    if (head.n) {
        indent(s);
        buf_printf(s->to, "%s {\n%s", head.p, inside->p);
        indent(s);
        buf_puts(s->to, "}\n");
    } else {
        buf_puts(s->to, inside->p);
    }
    buf_free(&head);
}

// `let v = cumsum(..);` or `let v, at = sort(..);`
static void put_along(Kernel *k, Scope *s) {
    static const char *const scan[] = {"cumsum", "cumprod", "cummax", "cummin"};
    const Node *n = k->along.node;
    const char *axis = k->axis[k->along.axis].name, *arg = operand(k, s, k->along.arg, P_TERNARY);
    k->along.value = k_name(k, "v");
    if (n->kind == G_sort) k->along.places = k_name(k, "at");
    indent(s);
    if (n->kind == G_scan) {
        buf_printf(s->to, "let %s = %s(%s over %s%s%s);\n", k->along.value, scan[n->op], arg, axis,
                   n->scan.exclusive ? ", exclusive = true" : "", n->scan.reverse ? ", reverse = true" : "");
    } else {
        buf_printf(s->to, "let %s, %s = sort(%s, %s over %s%s);\n", k->along.value, k->along.places, arg, axis, axis,
                   n->sort.descending ? ", descending = true" : "");
    }
}

// Softmax and the weighted sum of values as one loop over keys; its scores are never stored.
// How two parts of the keys become one, for whoever divides the loop (lower/hopper/slices.c, split.c).
static void put_merge(Scope *in, Scope *s, bool base2) {
    static const char *lines[] = {"let t = max(x.top, y.top);\n", "let a = exp2(%s);\n", "let b = exp2(%s);\n",
                                  "(t, x.den * a + y.den * b, x.acc * a + y.acc * b)\n"};
    Scope deeper = {s->to, 0, in, in->indent + 1}, clause = {s->to, 0, s, in->indent};
    buf_putc(s->to, '\n');
    indent(&clause), buf_puts(s->to, "merge |x, y| {\n");
    for (int i = 0; i < 4; i++) {
        indent(&deeper);
        if (i == 1) buf_printf(s->to, lines[i], base2 ? "x.top - t" : "(x.top - t) * LOG2E");
        else if (i == 2) buf_printf(s->to, lines[i], base2 ? "y.top - t" : "(y.top - t) * LOG2E");
        else buf_puts(s->to, lines[i]);
    }
    indent(&clause), buf_puts(s->to, "}\n");
    indent(s), buf_puts(s->to, "{\n");
}

static void put_attention(Kernel *k, Scope *s) {
    const KAxis *n = &k->axis[k->keys];
    uint64_t tile = k->score->mask & ~(UINT64_C(1) << k->keys);
    char *rows = tile_axes(k, tile), *all = tile_axes(k, (tile | k->b->mask) & ~(UINT64_C(1) << k->keys));
    Buf inside = {0};
    Scope loop = {&inside, UINT64_C(1) << k->keys, s, s->indent + 1};
    indent(s);
    if (rows[0]) buf_printf(s->to, "var top = full(lowest(), %s);  var den = zeros<f32>(%s);  ", rows, rows);
    else buf_puts(s->to, "var top = lowest();  var den = 0.0;  ");
    if (all[0]) buf_printf(s->to, "var acc = zeros<f32>(%s);\n", all);
    else buf_puts(s->to, "var acc = 0.0;\n");
    const char *score = operand(k, &loop, k->score, P_TERNARY),
               *v = operand(k, &loop, k->b, k->by_sum ? P_UNARY : P_TERNARY);
    const char *lines[] = {"let t = max(top, max(%s over %s));\n",
                           k->base2 ? "let p = exp2(%s - t);\n" : "let p = exp2((%s - t) * LOG2E);\n",
                           k->base2 ? "let r = exp2(top - t);\n" : "let r = exp2((top - t) * LOG2E);\n",
                           "den = den * r + sum(p over %s);\n"};
    indent(&loop), buf_printf(&inside, lines[0], score, n->name);
    indent(&loop), buf_printf(&inside, lines[1], score);
    indent(&loop), buf_puts(&inside, lines[2]);
    indent(&loop), buf_printf(&inside, lines[3], n->name);
    indent(&loop);
    if (k->by_sum) buf_printf(&inside, "acc = acc * r + sum(p * %s over %s);\n", v, n->name);
    else if (k->b->elem == EL_f32) buf_printf(&inside, "acc = acc * r + dot(p, %s over %s%s);\n", v, n->name, precision(k, k->b));
    else buf_printf(&inside, "acc = acc * r + dot(p as %s, %s over %s);\n", elem_name(k->b->elem), v, n->name);
    indent(&loop), buf_puts(&inside, "top = t;\n");
    indent(s);
    buf_printf(s->to, "for %s in ", n->name);
    if (k->bound) k->axis[k->last].value->name = arena_printf(k->arena, "last(%s)", k->axis[k->queries].name);
    if (k->bound || k->room) {
        buf_puts(s->to, "min(");
        k_put_ix(k, s->to, n->extent, P_TERNARY);
        buf_puts(s->to, ", ");
        k_put_ix(k, s->to, k->bound ? k->bound : k->room, P_TERNARY);
        buf_putc(s->to, ')');
    } else {
        k_put_ix(k, s->to, n->extent, P_PLUS);
    }
    put_by(s->to, n);
    put_merge(&loop, s, k->base2);
    buf_puts(s->to, inside.p);
    indent(s), buf_puts(s->to, "}\n");
    indent(s), buf_puts(s->to, k->guarded ? "acc = acc * where(den == 0, 0.0, 1 / den);\n" : "acc = acc * (1 / den);\n");
    buf_free(&inside);
}

static void put_store(Kernel *k, Scope *s, const KStore *st) {
    Buf at = {0};
    name_values(k, s, st->at, st->nat);
    for (int i = 0; i < st->nat; i++) {
        if (i) buf_puts(&at, ", ");
        k_put_number(k, &at, st->at[i], P_TERNARY);
    }
    const char *name = k->params.at[st->param].name, *v = operand(k, s, st->value, P_TERNARY), *where = at.p ? at.p : "";
    indent(s);
    if (k->in_place && st->node->op == GR_sum) buf_printf(s->to, "atomic_add(%s[%s], %s);\n", name, where, v);
    else buf_printf(s->to, "%s[%s] = %s;\n", name, where, v);
    buf_free(&at);
}

// The loops that this store is in: columns that are too long for a tile, or one of several sources.
static uint64_t loops_of(const Kernel *k, const KStore *st) {
    uint64_t loops = 0;
    for (int i = 0; i < k->naxes && !k->a && !k->score; i++)
        for (int d = 0; d < st->nat && k->axis[i].kind == A_LOOP_TILE; d++) loops |= st->at[d]->axes & UINT64_C(1) << i;
    return loops;
}

static void put_stores(Kernel *k, Scope *s) {
    for (uint32_t i = 0, end; i < k->stores.n; i = end) {
        Buf head = {0}, inside = {0};
        Scope loop = {&inside, loops_of(k, &k->stores.at[i]), s, s->indent + 1};
        for (end = i; end < k->stores.n && loops_of(k, &k->stores.at[end]) == loop.loops;) end++;
        for (int n = 0; n < k->naxes; n++) {
            if (!(loop.loops >> n & 1)) continue;
            buf_printf(&head, "%s%s in ", head.n ? ", " : "for ", k->axis[n].name);
            k_put_ix(k, &head, k->axis[n].extent, P_PLUS);
            put_by(&head, &k->axis[n]);
        }
        for (uint32_t n = i; n < end; n++) put_store(k, head.n ? &loop : s, &k->stores.at[n]);
        if (head.n) {
            indent(s);
            buf_printf(s->to, "%s {\n%s", head.p, inside.p ? inside.p : "");
            indent(s);
            buf_puts(s->to, "}\n");
        }
        buf_free(&head);
        buf_free(&inside);
    }
}

static void put_grid(Kernel *k, Buf *to) {
    bool first = true;
    for (int i = 0; i < k->naxes; i++) {
        const KAxis *a = &k->axis[i];
        if (a->kind != A_GRID && a->kind != A_TILE) continue;
        buf_printf(to, "%s%s in ", first ? "    grid (" : ", ", a->name);
        k_put_ix(k, to, a->extent, P_PLUS);
        if (a->kind == A_TILE) put_by(to, a);
        first = false;
    }
    buf_puts(to, first ? "" : ")\n");
}

bool k_stands_alone(const Kernel *k, Ix dim, bool in_results) {
    int results = 0;
    for (uint32_t i = 0; i < k->params.n; i++) results += k->params.at[i].out;
    for (uint32_t i = 0; i < k->params.n; i++)
        for (int d = 0; d < k->params.at[i].rank && (!k->params.at[i].out || (in_results && results == 1)); d++)
            if (k->params.at[i].shape[d] == dim) return true;
    return false;
}

// Dimensions that are products and so on, and that only results have, are defined by an equation.
static void put_where(Kernel *k, Buf *to) {
    bool first = true;
    for (uint32_t i = 0; i < k->alias.n; i++) {
        KAlias a = k->alias.at[i];
        if (k_stands_alone(k, a.of, false)) continue;
        k->alias.at[i].of = NULL;
        buf_printf(to, "%s%s = ", first ? "    where " : ", ", a.name);
        k_put_ix(k, to, a.of, P_TERNARY);
        k->alias.at[i].of = a.of;
        first = false;
    }
    buf_puts(to, first ? "" : "\n");
}

// Dimensions in it have to be those of tensors.
static const char *short_tile(Kernel *k) {
    Buf b = {0};
    uint32_t known = k->dims.n;
    bool fine = true;
    k_put_ix(k, &b, k->few.heads, P_TIMES);
    buf_puts(&b, " * cdiv(");
    k_put_ix(k, &b, k->few.rows, P_TERNARY);
    for (uint32_t i = known; i < k->dims.n; i++) fine &= k_stands_alone(k, k->dims.at[i], true);
    if (!fine) k->dims.n = known;
    const char *text = fine ? arena_printf(k->arena, "(%s, 128) <= %d) ? 64 : 128 or 128", b.p, k->few.most) : "128";
    buf_free(&b);
    return text;
}

static void put_blocks(Kernel *k, Buf *to) {
    for (uint32_t i = 0; i < k->blocks.n; i++) {
        const char *text = k->blocks.at[i], *at = strchr(text, '$');
        buf_puts(to, i ? ", " : "<");
        if (at) buf_printf(to, "%.*s%s", (int)(at - text), text, short_tile(k));
        else buf_puts(to, text);
    }
    if (k->blocks.n) buf_putc(to, '>');
}

void k_print(Kernel *k, Buf *to, const char *name) {
    Buf body = {0}, head = {0}, params = {0}, inside = {0}, reads = {0}, blocks = {0};
    Scope top = {&body, 0, NULL, 1}, loop;
    for (int i = 0; i < ix_dim_count(k->g); i++)
        vec_push(k->arena, &k->names, g_identifier(k->arena, ix_dim_info(k->g, ix_dim_at(k->g, i))->name, "N"));
    static const char *const ours[] = {"acc", "acc2", "top", "den", "t", "p", "r"};
    for (int i = 0; i < (k->score ? 7 : 2); i++) vec_push(k->arena, &k->names, ours[i]);
    settle_params(k);
    name_axes(k);
    full_axes(k, &top);
    if (k->a) product_loop(k, &top, &loop, &inside);
    if (k->score) put_attention(k, &top);
    if (k->along.node) put_along(k, &top);
    put_stores(k, &top);
    k->in_head = true;
    put_where(k, &head);
    put_grid(k, &head);
    put_blocks(k, &blocks);
    for (uint32_t i = 0; i < k->params.n; i++) {
        const KParam *p = &k->params.at[i];
        buf_printf(&params, "%s%s: %s%s[", i ? ", " : "", p->name,
                   p->out     ? "out "
                   : p->inout ? "inout "
                              : "",
                   elem_name((Elem)p->node->elem));
        for (int d = 0; d < p->rank; d++) {
            if (d) buf_puts(&params, ", ");
            k_put_ix(k, &params, p->shape[d], P_TERNARY);
        }
        buf_putc(&params, ']');
    }
    for (uint32_t i = 0; i < k->dims.n; i++) {
        if (k_stands_alone(k, k->dims.at[i], true)) continue;
        const IxDim *info = ix_dim_info(k->g, k->dims.at[i]);
        const char *dim = g_identifier(k->arena, info->name, "N");
        vec_push(k->arena, &k->scalars, k->dims.at[i]);
        if (info->value && !k->numbers) {
            const char *at = k_name(k, arena_printf(k->arena, "%s_at", dim));
            buf_printf(&params, ", %s: i32[]", at);
            buf_printf(&reads, "    let %s = %s[];\n", dim, at);
        } else {
            buf_printf(&params, ", %s: i32", dim);
        }
    }
    k->in_head = false;
    buf_printf(to, "kernel %s", name);
    buf_printf(to, "%s(%s)\n%s{\n%s%s}\n", blocks.p ? blocks.p : "", params.p ? params.p : "", head.p ? head.p : "",
               reads.p ? reads.p : "", body.p ? body.p : "");
    for (uint32_t i = 0; i < k->tune.n; i++)
        buf_printf(to, "%s%s;%s", i ? " " : "\ntune @ {\n    ", k->tune.at[i], i + 1 == k->tune.n ? "\n}\n" : "");
    buf_free(&reads);
    buf_free(&blocks);
    buf_free(&body);
    buf_free(&head);
    buf_free(&params);
    buf_free(&inside);
}
