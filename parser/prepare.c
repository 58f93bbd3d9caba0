// Between lexer and grammar: brackets are balanced, and the angle brackets of generics are told from
// comparisons. After this the grammar sees every bracket closed, so that skipping over a mistake can
// count brackets, and a file's end never comes in the middle of a block.
//
// Brackets. A closer that fits no open bracket is dropped; an opener that is not closed gets a
// virtual closer where its absence shows:
//
//     f(a, b;                the `;`: no statement ends inside ( or [
//     kernel f(x: f32[M] {   the `{`: within ( it begins only the block of a function value, after |
//     kernel g(...)          an item at the left margin, with a `{` of the last one still open
//
// For an unclosed `{` the brace to blame is often not the outermost one. One whose `}` stands at
// another indentation than the line it opened on is named as the suspect.
//
// Generics. In a call the `<` must touch the name before it, and a `>` that touches a `(` must
// follow, with nothing between that could not be an argument list; so `f<a, b>(x)` is a call and
// `f < a`, `i<n && n>(k)` are comparisons. A `|` that begins an argument begins a function value, which may
// hold anything up to that `>`: `f<|v| v > 0 ? v : g<2>(v)>(x)`. In a declaration, `fn NAME <` and
// `kernel NAME <` are always generics.

#define _GNU_SOURCE
#include "parser/internal.h"

#include <string.h>

enum {
    MAX_BRACKET_ERRORS = 100,            // a text with more is no program
    MAX_GENERICS = 1024,                 // tokens between the `<` and the `>` of a call
};

typedef VEC(uint32_t) Opens;             // indices in the output of brackets still open

typedef struct Balance {
    Session *s;
    Arena *arena;
    Tokens in, out;
    Opens open;
    Span suspect_open, suspect_close;    // a pair of braces whose indentations differ
    int reported;
} Balance;

static int closer_of(int opener) {
    return opener == T_LPAREN ? T_RPAREN : opener == T_LBRACKET ? T_RBRACKET : T_RBRACE;
}

static bool is_opener(int k) { return k == T_LPAREN || k == T_LBRACKET || k == T_LBRACE; }
static bool is_closer(int k) { return k == T_RPAREN || k == T_RBRACKET || k == T_RBRACE; }
static bool is_word(int k)   { return k == T_NAME || (k >= T_TRUE && k <= T_STRIDED); }

static Token *top_open(Balance *b) { return b->open.n ? &b->out.at[b->open.at[b->open.n - 1]] : NULL; }

static void check_indentation(Balance *b, const Token *open, const Token *close) {
    if (!(close->flags & TOKEN_FIRST)) return;
    LineCol o = span_where(b->s, open->span.lo), c = span_where(b->s, close->span.lo);
    size_t indent = 0;
    while (indent < o.text.n && (o.text.p[indent] == ' ' || o.text.p[indent] == '\t')) indent++;
    if (indent + 1 != c.col) {
        b->suspect_open = open->span;
        b->suspect_close = close->span;
    }
}

// A comment behind code that holds what would close the bracket: `y = x // 2; }`, for a quotient.
static bool closed_in_comment(Balance *b, const Token *open, char closer, Span *comment) {
    for (uint32_t i = 0; i + 1 < b->in.n; i++) {
        if (b->in.at[i].span.lo < open->span.lo) continue;
        Span gap = {b->in.at[i].span.hi, b->in.at[i + 1].span.lo};
        Str text = span_text(b->s, gap);
        const char *end = memchr(text.p, '\n', text.n),
                   *slashes = memmem(text.p, end ? (size_t)(end - text.p) : text.n, "//", 2);
        if (!end) end = text.p + text.n;
        if (!slashes || !memchr(slashes, closer, (size_t)(end - slashes))) continue;
        *comment = (Span){gap.lo + (Pos)(slashes - text.p), gap.lo + (Pos)(end - text.p)};
        return true;
    }
    return false;
}

static void report_unclosed(Balance *b, const Token *open, const Token *at) {
    if (++b->reported > MAX_BRACKET_ERRORS) return;
    const char *closer = token_info[closer_of(open->kind)].spelling;
    Diag *d = diag(b->s, E_unclosed, open->span, token_info[open->kind].spelling);
    Pos end = b->out.at[b->out.n - 1].span.hi;
    if (at->kind == 0) diag_label(d, (Span){end, end}, "the file ends here");
    else if (at->kind == T_SEMI || at->kind == T_LBRACE || is_closer(at->kind))
        diag_label(d, at->span, "`%s` should come before this", closer);
    else diag_label(d, at->span, "a new item begins here");
    Span comment;
    if (closed_in_comment(b, open, *closer, &comment)) {
        diag_label(d, comment, "a comment, with a `%s` in it", closer);
        diag_help(d, "`//` begins a comment; `/` of integers rounds down");
    }
    if (open->kind == T_LBRACE && b->suspect_open.hi && b->suspect_open.lo > open->span.lo) {
        diag_label(d, b->suspect_open, "or this `{` is the one,");
        diag_label(d, b->suspect_close, "for its `}` is indented differently");
    }
}

// Closes the innermost bracket without a token in the text. `at` is where that showed.
static void close_missing(Balance *b, const Token *at) {
    const Token *open = top_open(b);
    report_unclosed(b, open, at);
    Pos end = b->out.at[b->out.n - 1].span.hi;
    Token t = {(uint8_t)closer_of(open->kind), TOKEN_VIRTUAL | TOKEN_QUIET, {end, end}};
    vec_push(b->arena, &b->out, t);
    b->open.n--;
}

// Does an item begin here? Only a line's first token at the left margin is looked at.
static bool begins_item(Balance *b, uint32_t i) {
    const Token *t = &b->in.at[i];
    if (!(t->flags & TOKEN_FIRST) || i + 1 >= b->in.n) return false;
    int k = t->kind, next = b->in.at[i + 1].kind;
    bool item = k == T_KERNEL || k == T_FN || k == T_TUNE || k == T_GRAPH
                    ? is_word(next)
                    : (k == T_TEST || k == T_IMPORT) && next == T_STRING;
    return item && span_where(b->s, t->span.lo).col == 1;
}

static bool c_style_for(Balance *b) {      // for (i = 0; ...): the grammar has better words for it
    uint32_t open = b->open.at[b->open.n - 1];
    return open > 0 && b->out.at[open].kind == T_LPAREN && b->out.at[open - 1].kind == T_FOR;
}

void balance(Session *s, Tokens *tokens) {
    Balance b = {.s = s, .arena = session_arena(s), .in = *tokens};
    for (uint32_t i = 0; i < b.in.n; i++) {
        Token t = b.in.at[i];
        Token *open = top_open(&b);
        bool quiet = false;
        if (open && (t.kind == 0 || begins_item(&b, i))) {
            while (top_open(&b)) close_missing(&b, &t), quiet = t.kind == 0;
        } else if (t.kind == T_SEMI && open && open->kind != T_LBRACE && !c_style_for(&b)) {
            while ((open = top_open(&b)) && open->kind != T_LBRACE) close_missing(&b, &t), quiet = true;
        } else if (t.kind == T_LBRACE && open && open->kind != T_LBRACE && i > 0 && b.in.at[i - 1].kind != T_BAR) {
            while ((open = top_open(&b)) && open->kind != T_LBRACE) close_missing(&b, &t), quiet = true;
        }
        if (is_closer(t.kind)) {
            uint32_t fits = b.open.n;
            while (fits > 0 && closer_of(b.out.at[b.open.at[fits - 1]].kind) != t.kind) fits--;
            bool inner_brace = false;            // a ) or ] does not close a { on its way out
            for (uint32_t k = fits; k < b.open.n; k++) inner_brace |= b.out.at[b.open.at[k]].kind == T_LBRACE;
            if (fits == 0 || inner_brace) {
                if (++b.reported <= MAX_BRACKET_ERRORS) {
                    Diag *d = diag(s, E_unopened, t.span, token_info[t.kind].spelling);
                    if (b.open.n) diag_label(d, top_open(&b)->span, "the innermost open bracket is this one");
                }
                if (i + 1 < b.in.n) b.in.at[i + 1].flags |= TOKEN_QUIET;
                continue;
            }
            while (b.open.n > fits) close_missing(&b, &t), quiet = true;
            if (t.kind == T_RBRACE) check_indentation(&b, top_open(&b), &t);
            b.open.n--;
        }
        if (quiet) t.flags |= TOKEN_QUIET;
        if (is_opener(t.kind)) vec_push(b.arena, &b.open, b.out.n);
        vec_push(b.arena, &b.out, t);
    }
    *tokens = b.out;
}

// ---- generics ------------------------------------------------------------------------------------

static bool in_generics(int k) {
    return is_word(k) || k == T_INT || k == T_FLOAT || k == T_COMMA || k == T_ASSIGN || k == T_DOT || k == T_COLON ||
           k == T_STAR || k == T_PLUS || k == T_MINUS || k == T_SLASH || k == T_PERCENT;
}

static bool begins_argument(int before) { return before == T_LT || before == T_COMMA || before == T_ASSIGN; }

// The index of the `>` that ends the arguments of a call whose `<` is at i, or 0. Inside of a function value other calls
// may have generics, which hold no function values of their own.
static uint32_t call_generics_end(const Tokens *t, uint32_t i, bool values) {
    int depth = 0;
    bool value = false;                  // in a function value
    uint32_t most = i + MAX_GENERICS < t->n ? i + MAX_GENERICS : t->n;
    for (uint32_t j = i + 1; j + 1 < most; j++) {
        int k = t->at[j].kind;
        const Token *next = &t->at[j + 1];
        bool ends = next->kind == T_LPAREN && next->flags & TOKEN_GLUED;
        if (k == T_GT && depth == 0 && (ends || !value)) return ends && j > i + 1 ? j : 0;
        if (k == T_BAR && depth == 0 && values && begins_argument(t->at[j - 1].kind)) value = true;
        uint32_t inner = value && k == T_LT && t->at[j].flags & TOKEN_GLUED ? call_generics_end(t, j, false) : 0;
        if (inner) j = inner;
        else if (is_opener(k)) depth++;
        else if (is_closer(k)) depth--;
        else if (value ? k == T_SEMI && depth == 0 : !in_generics(k)) return 0;
        if (depth < 0 || (k == T_LBRACE && !value)) return 0;
    }
    return 0;
}

static uint32_t declared_generics_end(const Tokens *t, uint32_t i) {
    int depth = 0;
    for (uint32_t j = i + 1; j < t->n; j++) {
        int k = t->at[j].kind;
        if (k == T_GT && depth == 0) return j;
        if (k == T_LPAREN || k == T_LBRACKET) depth++;
        else if (k == T_RPAREN || k == T_RBRACKET) depth--;
        if (k == T_LBRACE || k == T_SEMI || depth < 0) return 0;
    }
    return 0;
}

void mark_generics(Tokens *tokens) {
    for (uint32_t i = 1; i < tokens->n; i++) {
        Token *t = &tokens->at[i];
        if (t->kind != T_LT || !is_word(tokens->at[i - 1].kind)) continue;
        bool declared = i > 1 && (tokens->at[i - 2].kind == T_FN || tokens->at[i - 2].kind == T_KERNEL);
        uint32_t end = declared                 ? declared_generics_end(tokens, i)
                       : t->flags & TOKEN_GLUED ? call_generics_end(tokens, i, true)
                                                : 0;
        if (!end && !declared) continue;
        t->kind = T_LGEN;
        if (end) tokens->at[end].kind = T_RGEN;
    }
}
