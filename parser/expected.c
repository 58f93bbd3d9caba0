// Words for syntax errors: what was expected, and what was found.
//
// The list of what was expected comes from trying every token on the automaton, so it is exact; it is
// then told as a person would: an expression, not the nine tokens that may begin one. Soft keywords
// are left out where a name may stand, operators where something definite may.
//
//     f(a b)       expected `,`, `)` or an operator, found `b`
//     let = 3      expected a name, found `=`

#include "parser/internal.h"

#include <string.h>

enum { MAX_EXPECTED = 5 };

typedef struct Words { const char *at[64]; int n; } Words;

static void say(Words *w, const char *text) {
    for (int i = 0; i < w->n; i++)
        if (strcmp(w->at[i], text) == 0) return;
    if (w->n < 64) w->at[w->n++] = text;
}

static bool begins_operand(int k) {
    return token_info[k].cls == TC_EXPR || k == T_MINUS || k == T_TILDE || k == T_LPAREN || k == T_COLON;
}

// What is worth naming first; the rest comes in the order of the tokens.
static const uint8_t first_named[] = {T_SEMI, T_RPAREN, T_RBRACKET, T_RGEN, T_RBAR, T_LBRACE, T_COMMA, T_RBRACE, T_ASSIGN};

// Where an expression could end: what is too much of a choice to be named.
static bool is_crowd(const bool *ok, int k) {
    const TokenInfo *t = &token_info[k];
    if (t->cls == TC_BINARY || t->cls == TC_WORD || k == T_LPAREN || k == T_LBRACKET || k == T_LGEN) return true;
    if (k == T_ASSIGN) return ok[T_RPAREN];
    if (k == T_RBRACE || k == T_COLON || k == T_COMMA) return ok[T_SEMI];
    return k == T_DOTDOT && (ok[T_SEMI] || ok[T_RPAREN] || ok[T_LBRACE]);
}

static void say_token(const Parser *p, Words *w, int k) {
    const char *spelling = token_info[k].spelling;
    bool described = k == T_STRING || k == T_INT || k == T_FLOAT;
    say(w, described ? spelling : arena_printf(session_arena(p->s), "`%s`", spelling));
}

const char *expected_words(const Parser *p) {
    bool ok[TOKEN_KINDS] = {false}, hide[TOKEN_KINDS] = {false};
    for (int k = 1; k < TOKEN_KINDS; k++) ok[k] = grammar_accepts(p->grammar, &k, 1);
    bool name = ok[T_NAME], expression = ok[T_INT] && !ok[T_RBAR], statement = ok[T_LET], binary = ok[T_PLUS];
    bool type = name && ok[T_STAR] && !expression && !binary, item = ok[T_IMPORT] && ok[T_TUNE];

    for (int k = 1; k < TOKEN_KINDS; k++) {
        const TokenInfo *t = &token_info[k];
        bool soft = (k >= T_IMPORT && k <= T_STRIDED) && name && grammar_is_soft(k);
        hide[k] = !ok[k] || t->cls == TC_HIDDEN || k == T_NAME || soft || (t->cls == TC_ASSIGN && k != T_ASSIGN) ||
                  (k == T_LBAR && ok[T_BAR]) ||
                  ((item || statement) && (t->cls != TC_MARK || k == T_SEMI || k == T_LBRACE || begins_operand(k))) ||
                  (expression && begins_operand(k)) || (type && (k == T_LPAREN || k == T_STAR || k == T_FN)) ||
                  (binary && is_crowd(ok, k));
    }

    Words w = {0};
    for (size_t i = 0; i < sizeof first_named; i++)
        if (!hide[first_named[i]]) say_token(p, &w, first_named[i]);
    if (item) say(&w, "an item (`kernel`, `fn`, `test`, `tune`, `import`)");
    else if (statement) say(&w, "a statement");
    else if (expression) say(&w, "an expression");
    else if (type) say(&w, "a type");
    else if (name) say(&w, "a name");
    for (int k = 1; k < TOKEN_KINDS; k++)
        if (!hide[k]) say_token(p, &w, k);
    if (w.n > MAX_EXPECTED - binary) w.n = MAX_EXPECTED - binary;
    if (binary) say(&w, "an operator");

    Buf b = {0};
    for (int i = 0; i < w.n; i++) buf_printf(&b, "%s%s", i == 0 ? "" : i + 1 < w.n ? ", " : " or ", w.at[i]);
    const char *words = arena_printf(session_arena(p->s), "%s", w.n ? b.p : "something else");
    buf_free(&b);
    return words;
}

const char *found_words(const Parser *p, const Token *t) {
    if (t->kind == 0 || t->flags & TOKEN_VIRTUAL) return token_info[t->kind].spelling;
    Str text = token_text(p, *t);
    if (t->kind == T_STRING && text.n > 24) return "a string";
    return arena_printf(session_arena(p->s), "`%.*s%s`", text.n > 40 ? 40 : (int)text.n, text.p, text.n > 40 ? "..." : "");
}
