// The parser: feeds the grammar, and knows what to do when it balks.
//
// Every token is first tried on the automaton's states alone (grammar_accepts). So a mistake is seen
// before any reduction is made because of it: the list of what was expected is exact, and the stack is
// as it was. Then, in this order:
//
//   1. A `;` is missing, if one would do and the next token begins a line or ends the block: it is
//      reported where it should stand, and put there.
//   2. Otherwise the message names what was found and what was expected, and the statement (outside of
//      blocks: the item) is given up: tokens are skipped to its end, counting brackets, the automaton
//      drops what it was in the middle of, and gets a BAD in its place.
//
// Brackets are balanced before (prepare.c), so skipping never leaves the block that the mistake is in.
// A token marked QUIET stands next to something already reported; its error is not.

#include "parser/internal.h"

#include <stdlib.h>

enum { MAX_SYNTAX_ERRORS = 100 };        // then the text is no program

const TokenInfo token_info[TOKEN_KINDS] = {
    [0] = {"END", "the end of the file", TC_HIDDEN},
#define X(name, spelling, cls) [T_##name] = {#name, spelling, TC_##cls},
    TOKENS(X)
#undef X
};

static bool is_opener(int k) { return k == T_LPAREN || k == T_LBRACKET || k == T_LBRACE; }
static bool is_closer(int k) { return k == T_RPAREN || k == T_RBRACKET || k == T_RBRACE; }

static bool begins_statement(int k) {
    return token_info[k].cls == TC_STMT;
}

static bool begins_item(const Tokens *t, uint32_t i) {
    int k = t->at[i].kind, next = i + 1 < t->n ? t->at[i + 1].kind : 0;
    bool word = next == T_NAME || (next >= T_TRUE && next <= T_STRIDED);
    return k == T_KERNEL || k == T_FN || k == T_TUNE || k == T_GRAPH
               ? word
               : (k == T_TEST || k == T_IMPORT) && next == T_STRING;
}

// The name that the item around token i has, if it has got that far.
static Token item_name(const Tokens *t, uint32_t i) {
    for (uint32_t j = i + 1; j-- > 0;) {
        if (!begins_item(t, j)) continue;
        bool named = j < i && (t->at[j].kind == T_FN || t->at[j].kind == T_KERNEL || t->at[j].kind == T_GRAPH);
        return named ? t->at[j + 1] : (Token){0};
    }
    return (Token){0};
}

// An item whose first word is wrong: `kernl f(...)` on a line of its own, after the end of something.
static bool may_begin_item(const Tokens *t, uint32_t i) {
    int before = t->at[i - 1].kind, next = t->at[i].kind ? t->at[i + 1].kind : 0;
    return t->at[i].kind == T_NAME && (before == T_RBRACE || before == T_SEMI) && (next == T_NAME || next == T_STRING);
}

// ---- feeding -------------------------------------------------------------------------------------

// `|` closes the domain that was opened last if no bracket has been opened since; else it may open one.
static int kind_here(const Parser *p, const Token *t) {
    if (t->kind != T_BAR) return t->kind;
    return p->bars.n && p->bars.at[p->bars.n - 1] == p->open.n ? T_RBAR : T_LBAR;
}

static void feed(Parser *p, int kind, Token t) {
    TkParse(p->grammar, kind, t, p);
    if (is_opener(kind)) vec_push(session_arena(p->s), &p->open, (uint8_t)kind);
    else if (is_closer(kind) && p->open.n) p->open.n--;
    else if (kind == T_RBAR && p->bars.n) p->bars.n--;
}

// ---- mistakes ------------------------------------------------------------------------------------

static bool semicolon_missing(const Parser *p, uint32_t i) {
    const Token *t = &p->tokens.at[i];
    bool fresh = t->flags & TOKEN_FIRST || t->kind == T_RBRACE || t->kind == 0;
    // c if x, f for x
    if (i == 0 || !(fresh || (begins_statement(t->kind) && t->kind != T_IF && t->kind != T_FOR))) return false;
    return grammar_accepts(p->grammar, (int[]){T_SEMI, kind_here(p, t)}, 2);
}

// Is this next to something already reported, or before a bracket that was missing in the same statement?
static bool is_quiet(const Parser *p, uint32_t i) {
    if (p->tokens.at[i].flags & TOKEN_QUIET) return diag_errors(p->s) > 0;
    for (; i < p->tokens.n; i++) {
        const Token *t = &p->tokens.at[i];
        if (t->flags & TOKEN_VIRTUAL && t->kind != T_RBRACE) return true;
        if (t->kind == T_SEMI || t->kind == T_LBRACE || t->kind == T_RBRACE || t->kind == 0) break;
    }
    return false;
}

// `x // 2;`: is what follows in the line a comment that ends a statement?
static bool comment_for_quotient(const Parser *p, Pos end) {
    Str line = span_text(p->s, (Span){end, p->src->base + p->src->size});
    uint32_t at = 0, to = 0;
    while (at < line.n && line.p[at] == ' ') at++;
    while (to < line.n && line.p[to] != '\n') to++;
    while (to > at && (line.p[to - 1] == ' ' || line.p[to - 1] == '\r')) to--;
    return to > at + 2 && line.p[at] == '/' && line.p[at + 1] == '/' && line.p[to - 1] == ';';
}

static void report(Parser *p, uint32_t i, bool semicolon) {
    if (is_quiet(p, i)) return;
    const Token *t = &p->tokens.at[i];
    if (++p->errors >= MAX_SYNTAX_ERRORS) p->stop = true;
    Diag *d;
    if (semicolon) {
        Pos end = p->tokens.at[i - 1].span.hi;
        d = diag(p->s, E_missing, (Span){end, end}, "`;`");
        hint(p, d, i);
        if (comment_for_quotient(p, end)) { diag_help(d, "`//` begins a comment: a quotient is `a / b`, which rounds down where both are integers"); return; }
        diag_help(d, "end the statement");
        diag_fix(d, (Span){end, end}, ";");
        return;
    }
    d = diag(p->s, E_syntax, t->span, expected_words(p), found_words(p, t));
    hint(p, d, i);
}

// The first token past what is given up: in a block, after a `;` or an inner block, or before what
// begins a statement; between items, before what begins one. `depth` counts the brackets that the
// statement has open.
static uint32_t skip(const Parser *p, uint32_t i, uint32_t depth, bool in_block) {
    const Tokens *t = &p->tokens;
    for (uint32_t j = i; ; j++) {
        int k = t->at[j].kind, next = k ? t->at[j + 1].kind : 0;
        if (k == 0) return j;
        if (is_opener(k)) { depth++; continue; }
        if (is_closer(k)) {
            if (depth == 0) return j;
            depth--;
            bool ends = t->at[j + 1].flags & TOKEN_FIRST || next == T_RBRACE || next == 0;
            if (in_block && k == T_RBRACE && depth == 0 && ends && next != T_ELSE) return j + 1;
            continue;
        }
        if (depth > 0) continue;
        if (k == T_SEMI && in_block) return j + 1;
        if (j == i || !(t->at[j].flags & TOKEN_FIRST)) continue;
        if (in_block ? begins_statement(k) : begins_item(t, j) || may_begin_item(t, j)) return j;
    }
}

static uint32_t give_up(Parser *p, uint32_t i, bool again) {
    uint32_t depth = 0;
    while (p->open.n && p->open.at[p->open.n - 1] != T_LBRACE) p->open.n--, depth++;
    while (p->bars.n && p->bars.at[p->bars.n - 1] >= p->open.n) p->bars.n--;
    bool in_block = p->open.n > 0;
    const Token *t = &p->tokens.at[i];
    bool fresh = !again && depth == 0 && t->flags & TOKEN_FIRST &&
                 (in_block ? begins_statement(t->kind) : begins_item(&p->tokens, i));
    uint32_t next = fresh ? i : skip(p, i, depth, in_block);

    int bad = T_BAD;
    while (!grammar_accepts(p->grammar, &bad, 1))
        if (!grammar_drop(p->grammar)) ice("the grammar takes BAD nowhere");
    p->lost = in_block ? (Token){0} : item_name(&p->tokens, i);
    Pos lo = t->span.lo, hi = next > i ? p->tokens.at[next - 1].span.hi : lo;
    TkParse(p->grammar, T_BAD, (Token){T_BAD, 0, {lo, hi}}, p);
    if (again && next == i) ice("no way on from a token that recovery stopped at");
    return next;
}

// ---- the file ------------------------------------------------------------------------------------

Node *parse_file(Session *s, const Source *src) {
    Parser p = {.s = s, .src = src, .tokens = lex(s, src)};
    balance(s, &p.tokens);
    mark_generics(&p.tokens);
    p.grammar = TkParseAlloc(heap_room);

    uint32_t failed = UINT32_MAX;                // the token of the last mistake
    for (uint32_t i = 0; i < p.tokens.n && !p.stop;) {
        const Token *t = &p.tokens.at[i];
        int kind = kind_here(&p, t);
        if (grammar_accepts(p.grammar, &kind, 1)) {
            feed(&p, kind, *t);
            i++;
        } else if (i != failed && semicolon_missing(&p, i)) {
            report(&p, i, true);
            Pos end = p.tokens.at[i - 1].span.hi;
            feed(&p, T_SEMI, (Token){T_SEMI, TOKEN_VIRTUAL, {end, end}});
            failed = i;
        } else {
            if (i != failed) report(&p, i, false);
            bool again = i == failed;
            failed = i;
            i = give_up(&p, i, again);
        }
    }
    TkParseFree(p.grammar, heap_free);
    Span whole = {src->base, src->base + src->size};
    if (!p.root || p.stop) p.root = node_new(s, N_file, whole, 0);
    p.root->span = whole;
    return p.root;
}

void tokens_print(Session *s, const Source *src, Buf *out) {
    Tokens tokens = lex(s, src);
    mark_generics(&tokens);
    for (uint32_t i = 0; i < tokens.n; i++) {
        const Token *t = &tokens.at[i];
        LineCol w = span_where(s, t->span.lo);
        Str text = span_text(s, t->span);
        buf_printf(out, "%u:%u %s", w.line, w.col, token_info[t->kind].name);
        if (text.n) buf_putc(out, ' ');
        buf_add(out, text.p, text.n);
        buf_putc(out, '\n');
    }
}
