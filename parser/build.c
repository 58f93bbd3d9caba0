// Nodes from tokens: what the grammar's actions call. Each constructor joins the spans of what it is
// made of, and does the checks that syntax alone can do: targets that can be assigned to, comparisons
// that do not chain, values nobody uses, rows of test cases as wide as their names.
//
// A tree that is deeper than the limit `nesting` stops the parser, so that every later phase may recurse.

#include "lang/c_text.h"
#include "parser/internal.h"

#include <stdlib.h>
#include <string.h>

static Node *checked(Parser *p, Node *n) {
    if (n->depth <= limit_of(LIMIT_nesting) || p->stop) return n;
    Diag *d = diag(p->s, E_too_deep, n->span);
    diag_note(d, "at most %lld constructs may stand inside each other", (long long)limit_of(LIMIT_nesting));
    limit_help(d, LIMIT_nesting, limit_of(LIMIT_nesting) + 1);
    p->stop = true;
    return n;
}

// The nkid nodes that a function was called with, behind its last parameter.
enum { MOST_KIDS = 6 };
#define KIDS(kids, nkid)                                                     \
    do {                                                                     \
        va_list args;                                                        \
        if ((nkid) > MOST_KIDS) ice("a node of %d", nkid);                   \
        va_start(args, nkid);                                                \
        for (int i = 0; i < (nkid); i++) (kids)[i] = va_arg(args, Node *);   \
        va_end(args);                                                        \
    } while (0)

Node *make(Parser *p, NodeKind kind, Span span, int nkid, ...) {
    Node *kids[MOST_KIDS];
    KIDS(kids, nkid);
    return checked(p, node_list(p->s, kind, span, kids, nkid));
}

Node *make_named(Parser *p, NodeKind kind, Span span, Token name, int nkid, ...) {
    Node *kids[MOST_KIDS];
    KIDS(kids, nkid);
    for (int i = 0; i < nkid; i++)
        if (kids[i]) span = span_join(span, kids[i]->span);
    Node *n = checked(p, node_list(p->s, kind, span, kids, nkid));
    n->sym = token_sym(p, name);
    n->name_span = name.span;
    return n;
}

Node *make_list(Parser *p, NodeKind kind, Span span, Nodes kids) {
    return checked(p, node_list(p->s, kind, span, kids.at, (int)kids.n));
}

void push(Parser *p, Nodes *list, Node *node) {
    vec_push(session_arena(p->s), list, node);
}

Span nodes_span(Nodes list) {
    return list.n ? span_join(list.at[0]->span, list.at[list.n - 1]->span) : (Span){0, 0};
}

Str token_text(const Parser *p, Token t) {
    return (Str){p->src->text + (t.span.lo - p->src->base), t.span.hi - t.span.lo};
}

// The symbol of a name; of a dotted one without the blanks it may be written with.
Sym token_sym(Parser *p, Token t) {
    Str text = token_text(p, t);
    if (!memchr(text.p, '.', text.n)) return sym_n(p->s, text.p, text.n);
    Buf b = {0};
    for (size_t i = 0; i < text.n; i++)
        if (!strchr(" \t\r\n", text.p[i])) buf_putc(&b, text.p[i]);
    Sym y = sym_n(p->s, b.p, b.n);
    buf_free(&b);
    return y;
}

void bar_opened(Parser *p) {
    vec_push(session_arena(p->s), &p->bars, p->open.n);
}

// ---- literals ------------------------------------------------------------------------------------

static const char *shortened(Parser *p, Str text) {
    return arena_printf(session_arena(p->s), "%.*s%s", text.n > 40 ? 40 : (int)text.n, text.p, text.n > 40 ? "..." : "");
}

static int digit_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return 99;
}

Node *make_int(Parser *p, Token t) {
    Str text = token_text(p, t);
    bool prefixed = text.n > 2 && text.p[0] == '0';
    uint64_t base = prefixed && (text.p[1] | 32) == 'x' ? 16 : prefixed && (text.p[1] | 32) == 'b' ? 2 : 10;
    uint64_t value = 0;
    bool over = false;
    for (size_t i = base == 10 ? 0 : 2; i < text.n; i++) {
        if (text.p[i] == '_') continue;
        uint64_t d = (uint64_t)digit_value(text.p[i]);
        if (d >= base) break;                    // the lexer has said so
        over |= value > (UINT64_MAX - d) / base;
        value = value * base + d;
    }
    if (over) diag(p->s, E_number_range, t.span, shortened(p, text), "64 bits");
    Node *n = make(p, N_int, t.span, 0);
    n->ival = (int64_t)value;
    return n;
}

Node *make_float(Parser *p, Token t) {
    Str text = token_text(p, t);
    Buf digits = {0};
    for (size_t i = 0; i < text.n; i++) {
        if (text.p[i] != '_') buf_putc(&digits, text.p[i]);
    }
    Node *n = make(p, N_float, t.span, 0);
    n->fval = c_strtod(digits.p, NULL);
    if (n->fval > 1.7976931348623157e308) diag(p->s, E_number_range, t.span, shortened(p, text), "any float");
    buf_free(&digits);
    return n;
}

Node *make_bool(Parser *p, Token t) {
    Node *n = make(p, N_bool, t.span, 0);
    n->ival = t.kind == T_TRUE;
    return n;
}

static Str decode(Parser *p, Str text) {           // between the quotes; the lexer has judged the escapes
    char *out = arena_alloc(session_arena(p->s), text.n + 1);
    size_t n = 0;
    for (size_t i = 1; i < text.n; i++) {
        char c = text.p[i];
        if (c == '"') break;
        if (c == '\\' && i + 1 < text.n) {
            c = text.p[++i];
            if (c == 'n') c = '\n';
            if (c == 't') c = '\t';
        }
        out[n++] = c;
    }
    return (Str){out, n};
}

Node *make_string(Parser *p, NodeKind kind, Span span, Token t, int nkid, ...) {
    Node *kids[MOST_KIDS];
    KIDS(kids, nkid);
    Node *n = checked(p, node_list(p->s, kind, span, kids, nkid));
    n->str = decode(p, token_text(p, t));
    n->name_span = t.span;
    return n;
}

// ---- expressions ---------------------------------------------------------------------------------

static const uint8_t binary_ops[TOKEN_KINDS] = {
    [T_ASSIGN] = OP_eq,              // an equation of `where`
    [T_LOR] = OP_lor,   [T_LAND] = OP_land,  [T_EQ] = OP_eq,    [T_NE] = OP_ne,      [T_LT] = OP_lt,
    [T_LE] = OP_le,     [T_GT] = OP_gt,      [T_GE] = OP_ge,    [T_BAR] = OP_or,     [T_LBAR] = OP_or,
    [T_CARET] = OP_xor, [T_AMP] = OP_and,    [T_SHL] = OP_shl,  [T_SHR] = OP_shr,    [T_PLUS] = OP_add,
    [T_MINUS] = OP_sub, [T_STAR] = OP_mul,   [T_SLASH] = OP_div, [T_PERCENT] = OP_rem,
};
static const uint8_t unary_ops[TOKEN_KINDS] = {[T_MINUS] = OP_neg, [T_BANG] = OP_not, [T_TILDE] = OP_bnot};
static const uint8_t assign_ops[TOKEN_KINDS] = {
    [T_ADD_EQ] = OP_add, [T_SUB_EQ] = OP_sub, [T_MUL_EQ] = OP_mul, [T_DIV_EQ] = OP_div, [T_REM_EQ] = OP_rem,
    [T_AND_EQ] = OP_and, [T_OR_EQ] = OP_or,   [T_XOR_EQ] = OP_xor, [T_SHL_EQ] = OP_shl, [T_SHR_EQ] = OP_shr,
};

static bool is_comparison(const Node *n) {
    return n->kind == N_binary && n->op >= OP_eq && n->op <= OP_ge && !(n->flags & NODE_PAREN);
}

static const char *text_of(Parser *p, const Node *n) {
    Str t = span_text(p->s, n->span);
    return t.n <= 40 && !memchr(t.p, '\n', t.n) ? arena_printf(session_arena(p->s), "%.*s", (int)t.n, t.p) : NULL;
}

static void report_chain(Parser *p, const Node *first, Token op, const Node *last) {
    Diag *d = diag(p->s, E_compare_chain, op.span);
    diag_label(d, first->span, "this is true or false");
    const Node *between = first->kid[1];
    if (between->kind == N_binary && (between->op == OP_and || between->op == OP_or) && !(between->flags & NODE_PAREN)) {
        const char *word = between->op == OP_and ? "&&" : "||";
        diag_help(d, "`%.1s` is for bits, and binds tighter than comparisons: of what is true or false it is `%s`",
                  word, word);
        diag_fix(d, between->name_span, word);
        return;
    }
    const char *middle = text_of(p, between);
    if (!middle) return;
    diag_help(d, "compare twice");
    diag_fix(d, (Span){between->span.hi, last->span.lo},
             arena_printf(session_arena(p->s), " && %s %s ", middle, token_info[op.kind].spelling));
}

Node *make_binary(Parser *p, Node *left, Token op, Node *right) {
    Node *n = make(p, N_binary, span_join(left->span, right->span), 2, left, right);
    n->op = binary_ops[op.kind];
    n->name_span = op.span;
    if (op.kind != T_ASSIGN && is_comparison(n) && is_comparison(left)) report_chain(p, left, op, right);
    return n;
}

Node *make_unary(Parser *p, Token op, Node *operand) {
    Node *n = make(p, N_unary, span_join(op.span, operand->span), 1, operand);
    n->op = unary_ops[op.kind];
    n->name_span = op.span;
    return n;
}

Node *make_paren(Parser *p, Token open, Node *inner, Token close) {
    (void)p;
    inner->flags |= NODE_PAREN;
    inner->span = span_join(open.span, close.span);
    return inner;
}

Node *make_range(Parser *p, Node *lo, Node *hi, Node *by) {
    Span span = span_join(lo ? lo->span : hi->span, by ? by->span : hi->span);
    return make(p, N_range, span, 3, lo, hi, by);
}

Node *make_call(Parser *p, Node *callee, Node *generics, ArgList args, Token close) {
    Nodes all = {0};
    push(p, &all, callee);
    push(p, &all, generics);
    push(p, &all, args.over);
    const Node *named = NULL;
    for (uint32_t i = 0; i < args.args.n; i++) {
        Node *a = args.args.at[i];
        if (named && a->kind != N_named) {
            Diag *d = diag(p->s, E_argument_order, a->span, "an argument without a name comes after one with a name");
            diag_label(d, named->span, "named here");
            named = NULL;
        } else if (a->kind == N_named) {
            named = a;
        }
        push(p, &all, a);
    }
    return make_list(p, N_call, span_join(callee->span, close.span), all);
}

Node *make_index(Parser *p, Node *base, Nodes indices, Token close, Node *otherwise) {
    Nodes all = {0};
    push(p, &all, base);
    push(p, &all, otherwise);
    for (uint32_t i = 0; i < indices.n; i++) push(p, &all, indices.at[i]);
    return make_list(p, N_index, span_join(base->span, otherwise ? otherwise->span : close.span), all);
}

Node *make_with(Parser *p, Node *call, Nodes items, Token close) {
    if (call->kind != N_call)
        diag_help(diag(p->s, E_with_no_call, call->span), "write `kernel(arguments) with (warps = 4)`");
    Nodes all = {0};
    push(p, &all, call);
    for (uint32_t i = 0; i < items.n; i++) push(p, &all, items.at[i]);
    return make_list(p, N_with, span_join(call->span, close.span), all);
}

Node *make_lambda(Parser *p, Token open, Nodes domain, Node *body) {
    Node *bounds = make_list(p, N_list, nodes_span(domain), domain);
    return make(p, N_lambda, span_join(open.span, body->span), 2, bounds, body);
}

// `sum(x over m, n, exact = true)`: what stands after `over` and has a name is an argument again.
void add_named_after_over(Parser *p, ArgList *args, Nodes axes) {
    Nodes over = {0};
    for (uint32_t i = 0; i < axes.n; i++) {
        if (axes.at[i]->kind == N_named) push(p, &args->args, axes.at[i]);
        else push(p, &over, axes.at[i]);
    }
    args->over = make_list(p, N_list, nodes_span(over), over);
}

// ---- statements ----------------------------------------------------------------------------------

Node *make_block(Parser *p, Token open, Nodes stmts, Node *value, Token close) {
    if (value) push(p, &stmts, value);
    Node *n = make_list(p, N_block, span_join(open.span, close.span), stmts);
    if (value) n->flags |= BLOCK_VALUE;
    return n;
}

Node *make_body(Parser *p, Node *block) {
    if (!(block->flags & BLOCK_VALUE)) return block;
    Node *value = block->kid[block->nkid - 1];
    bool effect = value->kind == N_call || value->kind == N_with;
    Span after = {value->span.hi, value->span.hi};
    if (effect) {
        Diag *d = diag(p->s, E_missing, after, "`;`");
        diag_help(d, "end the statement");
        diag_fix(d, after, ";");
        value = make(p, N_expr_stmt, value->span, 1, value);
    } else {
        Diag *d = diag(p->s, E_stray_value, value->span);
        diag_primary(d, "nothing takes this");
        diag_note(d, "only the block of a function value, `|x| { ... }`, ends in its value");
        diag_help(d, "in a function, return it");
        const char *text = text_of(p, value);
        if (text) diag_fix(d, value->span, arena_printf(session_arena(p->s), "return %s;", text));
        value = make(p, N_error_stmt, value->span, 0);
    }
    block->kid[block->nkid - 1] = value;
    return make_list(p, N_block, block->span, (Nodes){block->kid, block->nkid, block->nkid});
}

static void check_target(Parser *p, const Node *n) {
    bool fill = n->kind == N_index && n->kid[1];
    if ((n->kind == N_name || n->kind == N_index) && !fill) return;
    Diag *d = diag(p->s, E_assign_target, n->span);
    if (fill) diag_help(d, "`else` gives a value to reads; a store out of range is skipped anyway");
    else if (n->kind == N_tuple) diag_help(d, "write the targets without parentheses: `a, b = f(x);`");
    else if (n->kind == N_call && n->kid[0]->kind == N_name)
        diag_help(d, "a tensor's elements stand in brackets: `%s[...] = ...`", n->kid[0]->sym->s);
    else diag_help(d, "assign to a variable, `acc = ...`, or to a tensor's elements, `y[m, n] = ...`");
}

Node *make_assign(Parser *p, Nodes targets, Token op, Node *value, Token end) {
    for (uint32_t i = 0; i < targets.n; i++) check_target(p, targets.at[i]);
    Span span = span_join(targets.at[0]->span, end.span);
    Node *target = targets.n == 1 ? targets.at[0] : make_list(p, N_list, nodes_span(targets), targets);
    if (targets.n > 1 && op.kind != T_ASSIGN)
        diag_help(diag(p->s, E_assign_target, target->span), "`%s` updates one variable at a time",
                  token_info[op.kind].spelling);
    Node *n = make(p, N_assign, span, 2, target, value);
    n->op = assign_ops[op.kind];
    n->name_span = op.span;
    return n;
}

// An item that was given up keeps its name, so that nobody is told that there is none.
Node *make_lost(Parser *p, Token bad) {
    return p->lost.kind ? make_named(p, N_error_stmt, bad.span, p->lost, 0) : NULL;
}

Node *make_effect(Parser *p, Node *value, Token end) {
    if (value->kind != N_call && value->kind != N_with) {
        Diag *d = diag(p->s, E_unused_value, value->span);
        if (value->kind == N_binary && value->op == OP_eq) {
            diag_help(d, "`==` compares; to assign, write `=`");
            diag_fix(d, value->name_span, "=");
        }
    }
    return make(p, N_expr_stmt, span_join(value->span, end.span), 1, value);
}

Node *make_let(Parser *p, NodeKind kind, Token start, Nodes names, Node *value, Token end) {
    Nodes all = {0};
    push(p, &all, value);
    for (uint32_t i = 0; i < names.n; i++) push(p, &all, names.at[i]);
    return make_list(p, kind, span_join(start.span, end.span), all);
}

Node *make_for(Parser *p, Token start, Nodes clauses, Node *merge, Node *body) {
    Node *list = make_list(p, N_list, nodes_span(clauses), clauses);
    return make(p, N_for, span_join(start.span, body->span), 3, list, merge, body);
}

// `expect a < b` keeps both sides, so that a failure can show them.
Node *make_expect(Parser *p, Token start, Node *left, Node *right, Nodes tolerances, Token end) {
    AstOp op = right ? OP_approx : OP_none;
    if (!right && is_comparison(left)) {
        op = (AstOp)left->op;
        right = left->kid[1];
        left = left->kid[0];
    }
    Node *first = NULL, *second = NULL;
    Sym which = NULL;
    for (uint32_t i = 0; i < tolerances.n; i++) {
        Node *t = tolerances.at[i], *value = t->kind == N_named ? t->kid[0] : t;
        Sym kind = t->kind == N_named ? t->sym : NULL;
        if (!first) { first = value; which = kind; }
        else if (second || kind == which || !kind || !which) diag(p->s, E_twice, t->span, "a tolerance");
        else if (kind == sym(p->s, "abs")) second = value;
        else { second = first; first = value; which = kind; }
    }
    Node *n = make(p, N_expect, span_join(start.span, end.span), 4, left, right, first, second);
    n->op = (uint8_t)op;
    n->sym = which;
    return n;
}

// ---- items ---------------------------------------------------------------------------------------

Node *make_kernel(Parser *p, Token start, Token name, Node *generics, Node *params, Heads heads, Node *body) {
    return make_named(p, N_kernel, span_join(start.span, body->span), name, 5, generics, params, heads.where,
                      heads.grid, body);
}

// The results stand among the parameters, as `out`.
Node *make_graph(Parser *p, Token start, Token name, Node *generics, Nodes params, Nodes results, Heads heads, Node *body) {
    if (heads.grid)
        diag_help(diag(p->s, E_graph_statement, heads.grid->span, "a `grid`"),
                  "the kernels that it launches have grids");
    for (uint32_t i = 0; i < params.n; i++) {
        if (params.at[i]->flags & PARAM_OUT)
            diag_help(diag(p->s, E_graph_statement, params.at[i]->span, "an `out` parameter"),
                      "results stand after `->`: `graph f(...) -> (y: f32[N])`");
    }
    for (uint32_t i = 0; i < results.n; i++) {
        results.at[i]->flags |= PARAM_OUT;
        push(p, &params, results.at[i]);
    }
    Node *list = make_list(p, N_list, nodes_span(params), params);
    return make_named(p, N_graph, span_join(start.span, body->span), name, 5, generics, list, heads.where, NULL, body);
}

// `= a, b;` is `{ return a, b; }`.
Node *make_values(Parser *p, Nodes values) {
    if (values.n == 1) return values.at[0];
    Nodes body = {0};
    push(p, &body, make_list(p, N_return, nodes_span(values), values));
    return make_list(p, N_block, nodes_span(values), body);
}

Node *make_fn(Parser *p, Token start, Token name, Node *generics, Node *params, Node *result, Node *body, Span end) {
    Node *n = make_named(p, N_fn, span_join(start.span, end), name, 4, generics, params, result, body);
    if (body->kind != N_block) n->flags |= FN_EXPR;
    return n;
}

Node *make_param(Parser *p, Token name, int modes, Node *type) {
    Node *n = make_named(p, N_param, name.span, name, 1, type);
    n->flags |= (uint8_t)modes;
    return n;
}

int add_mode(Parser *p, int modes, int mode, Token t) {
    bool clash = mode != PARAM_STRIDED && modes & (PARAM_OUT | PARAM_INOUT);
    if (modes & mode || clash) diag(p->s, E_twice, t.span, modes & mode ? "a mode" : "the direction of a parameter");
    return modes | mode;
}

void add_head(Parser *p, Heads *heads, Node *where, Node *grid) {
    Node **slot = where ? &heads->where : &heads->grid, *node = where ? where : grid;
    if (*slot) diag_label(diag(p->s, E_twice, node->span, where ? "`where`" : "`grid`"), (*slot)->span, "the first is here");
    else *slot = node;
}

Node *make_cases(Parser *p, Token start, Nodes names, Nodes rows, Token end) {
    Nodes lists = {0};
    for (uint32_t i = 0; i < rows.n; i++) {
        Node *row = rows.at[i];
        Nodes values = {0};
        if (names.n == 1 && row->kind != N_tuple) push(p, &values, row);
        else if (row->kind != N_tuple) push(p, &values, row);
        else for (uint32_t k = 0; k < row->nkid; k++) push(p, &values, row->kid[k]);
        if (values.n != names.n) {
            Diag *d = diag(p->s, E_case_width, row->span, (int)values.n, values.n == 1 ? "" : "s", (int)names.n,
                           names.n == 1 ? "" : "s");
            diag_label(d, nodes_span(names), "the names are here");
            continue;
        }
        push(p, &lists, make_list(p, N_list, row->span, values));
    }
    return make(p, N_test_cases, span_join(start.span, end.span), 2, make_list(p, N_list, nodes_span(names), names),
                make_list(p, N_list, nodes_span(rows), lists));
}

Node *make_test(Parser *p, Token start, Token name, Node *cases, Node *body) {
    return make_string(p, N_test, span_join(start.span, body->span), name, 2, cases, body);
}
