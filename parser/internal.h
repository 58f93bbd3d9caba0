// What the parts of the parser share: tokens, the parser's state, and the constructors that the
// grammar's actions call.
//
//   lexer.re     bytes -> tokens                     prepare.c   balanced brackets, generics told from <
//   grammar.y    tokens -> calls of build.c          build.c     nodes, and the checks that need only syntax
//   parse.c      feeds tokens, reports, recovers     expected.c  "expected ..., found ..."
//   advice.c     what the writer may have had in mind
#ifndef TK_PARSER_INTERNAL_H
#define TK_PARSER_INTERNAL_H

#include "lang/ast.h"
#include "lang/limits.h"
#include "parser/parser.h"
#include "parser/tokens.h"

#include "grammar.h"             // T_... from lemon

enum {
    TOKEN_FIRST   = 1,           // of its line
    TOKEN_GLUED   = 2,           // nothing between it and the token before
    TOKEN_QUIET   = 4,           // next to something already reported: an error here says nothing new
    TOKEN_VIRTUAL = 8,           // not in the text: a bracket or `;` that was missing
};

typedef struct Token {
    uint8_t kind;                // T_..., 0 at the end
    uint8_t flags;
    Span    span;
} Token;

typedef struct Tokens { Token *at; uint32_t n, cap; } Tokens;
typedef struct Nodes { Node **at; uint32_t n, cap; } Nodes;

typedef struct TokenInfo { const char *name, *spelling; TokenClass cls; } TokenInfo;
enum { TOKEN_KINDS = T_BAD + 1 };
extern const TokenInfo token_info[TOKEN_KINDS];

// lexer.re: the last token is the end, of kind 0.
Tokens lex(Session *s, const Source *src);

// prepare.c
void balance(Session *s, Tokens *tokens);        // reports and repairs brackets
void mark_generics(Tokens *tokens);              // LT, GT -> LGEN, RGEN

// The parser's state, %extra_argument of the grammar.
typedef struct Parser {
    Session *s;
    const Source *src;
    void    *grammar;            // lemon's automaton
    Node    *root;               // the file node, once all is read
    Tokens   tokens;
    VEC(uint8_t) open;           // kinds of the brackets open at this point
    VEC(uint32_t) bars;          // how many brackets were open at each `|` whose domain is still open
    int      errors;             // syntax errors reported
    Token    lost;               // the name of the item being given up, if it has one
    bool     stop;               // read no further: too many of them, or nested too deeply
} Parser;

typedef struct ArgList { Nodes args; Node *over; } ArgList;
typedef struct Heads { Node *where, *grid; } Heads;

// grammar.y, beyond what lemon makes: would these tokens be read without an error? And: forget the
// innermost unfinished construct.
void *TkParseAlloc(void *(*alloc)(size_t));
void  TkParseFree(void *parser, void (*release)(void *));
void  TkParse(void *parser, int kind, Token token, Parser *p);
bool  grammar_accepts(const void *parser, const int *kinds, int n);
bool  grammar_drop(void *parser);
bool  grammar_is_soft(int kind);         // a name, where it is no keyword
#ifdef YYCOVERAGE
int   grammar_coverage(FILE *missed, int *states);
int   TkParseCoverage(FILE *out);
#endif

// expected.c
const char *expected_words(const Parser *p);                       // "`,`, `)` or an operator"
const char *found_words(const Parser *p, const Token *t);          // "`}`", "the end of the file"

// advice.c
void hint(const Parser *p, Diag *d, uint32_t at);                  // advice that fits the token and its neighbours

// build.c: constructors. Spans join those of tokens and kids.
Node *make(Parser *p, NodeKind kind, Span span, int nkid, ...);
Node *make_list(Parser *p, NodeKind kind, Span span, Nodes kids);
Node *make_named(Parser *p, NodeKind kind, Span span, Token name, int nkid, ...);
void  push(Parser *p, Nodes *list, Node *node);
Str   token_text(const Parser *p, Token t);
Sym   token_sym(Parser *p, Token t);
Span  nodes_span(Nodes list);

Node *make_int(Parser *p, Token t);
Node *make_float(Parser *p, Token t);
Node *make_bool(Parser *p, Token t);
Node *make_string(Parser *p, NodeKind kind, Span span, Token t, int nkid, ...);
Node *make_binary(Parser *p, Node *left, Token op, Node *right);
Node *make_unary(Parser *p, Token op, Node *operand);
Node *make_paren(Parser *p, Token open, Node *inner, Token close);
Node *make_call(Parser *p, Node *callee, Node *generics, ArgList args, Token close);
Node *make_index(Parser *p, Node *base, Nodes indices, Token close, Node *otherwise);
Node *make_with(Parser *p, Node *call, Nodes items, Token close);
Node *make_lambda(Parser *p, Token open, Nodes domain, Node *body);
Node *make_block(Parser *p, Token open, Nodes stmts, Node *value, Token close);
Node *make_body(Parser *p, Node *block);                           // a block of statements: no value at its end
Node *make_range(Parser *p, Node *lo, Node *hi, Node *by);
Node *make_assign(Parser *p, Nodes targets, Token op, Node *value, Token end);
Node *make_lost(Parser *p, Token bad);
Node *make_effect(Parser *p, Node *value, Token end);
Node *make_expect(Parser *p, Token start, Node *left, Node *right, Nodes tolerances, Token end);
Node *make_let(Parser *p, NodeKind kind, Token start, Nodes names, Node *value, Token end);
Node *make_for(Parser *p, Token start, Nodes clauses, Node *merge, Node *body);
Node *make_kernel(Parser *p, Token start, Token name, Node *generics, Node *params, Heads heads, Node *body);
Node *make_graph(Parser *p, Token start, Token name, Node *generics, Nodes params, Nodes results, Heads heads, Node *body);
Node *make_values(Parser *p, Nodes values);
Node *make_fn(Parser *p, Token start, Token name, Node *generics, Node *params, Node *result, Node *body, Span end);
Node *make_param(Parser *p, Token name, int modes, Node *type);
Node *make_cases(Parser *p, Token start, Nodes names, Nodes rows, Token end);
Node *make_test(Parser *p, Token start, Token name, Node *cases, Node *body);
int   add_mode(Parser *p, int modes, int mode, Token t);
void  add_head(Parser *p, Heads *heads, Node *where, Node *grid);
void  add_named_after_over(Parser *p, ArgList *args, Nodes axes);
void  bar_opened(Parser *p);

#endif
