// The tokens: one row each, in the order of the grammar's %token list.
//
//     X(kind, spelling, class)
//
// A class groups what an error message would rather say in one word. A word whose class is SOFT
// (or whose row the grammar names in %fallback) is a keyword only where the grammar expects it, and
// a name everywhere else.
#ifndef TK_PARSER_TOKENS_H
#define TK_PARSER_TOKENS_H

typedef enum TokenClass {
    TC_MARK,         // punctuation, listed by its spelling
    TC_WORD,         // a keyword in the middle of something
    TC_ITEM,         // begins an item
    TC_STMT,         // begins a statement
    TC_EXPR,         // begins an expression, and nothing else
    TC_BINARY,       // stands between operands, or after one
    TC_ASSIGN,       // = += ...
    TC_HIDDEN,       // never in a list of what was expected
} TokenClass;

// clang-format off
#define TOKENS(X) \
    X(NAME,      "a name",    EXPR)   X(INT,      "a number",  EXPR)   X(FLOAT,    "a number", EXPR) \
    X(STRING,    "a string",  EXPR)   X(TRUE,     "true",      EXPR)   X(FALSE,    "false",    EXPR) \
    /* items */ \
    X(IMPORT,    "import",    ITEM)   X(KERNEL,   "kernel",    ITEM)   X(FN,       "fn",       ITEM) \
    X(TEST,      "test",      ITEM)   X(TUNE,     "tune",      ITEM)   X(GRAPH,    "graph",    ITEM) \
    X(WEIGHTS,  "weights",   HIDDEN) \
    /* statements */ \
    X(LET,       "let",       STMT)   X(VAR,      "var",       STMT)   X(FOR,      "for",      STMT) \
    X(WHILE,     "while",     STMT)   X(IF,       "if",        STMT)   X(BREAK,    "break",    STMT) \
    X(CONTINUE,  "continue",  STMT)   X(RETURN,   "return",    STMT)   X(EXPECT,   "expect",   STMT) \
    /* words in the middle */ \
    X(ELSE,      "else",      WORD)   X(IN,       "in",        WORD)   X(BY,       "by",       WORD) \
    X(AS,        "as",        BINARY) X(OVER,     "over",      WORD)   X(WITH,     "with",     BINARY) \
    X(WHERE,     "where",     WORD)   X(GRID,     "grid",      WORD)   X(MERGE,    "merge",    WORD) \
    X(OR,        "or",        WORD)   X(KEY,      "key",       WORD)   X(WITHIN,   "within",   WORD) \
    X(REL,       "rel",       WORD)   X(ABS,      "abs",       WORD)   X(OUT,      "out",      WORD) \
    X(INOUT,     "inout",     WORD)   X(STRIDED,  "strided",   WORD) \
    /* brackets; LGEN and RGEN are < and > around generics, LBAR and RBAR | and | around a domain */ \
    X(LPAREN,    "(",         MARK)   X(RPAREN,   ")",         MARK)   X(LBRACKET, "[",        MARK) \
    X(RBRACKET,  "]",         MARK)   X(LBRACE,   "{",         MARK)   X(RBRACE,   "}",        MARK) \
    X(LGEN,      "<",         MARK)   X(RGEN,     ">",         MARK)   X(LBAR,     "|",        EXPR) \
    X(RBAR,      "|",         MARK) \
    /* marks */ \
    X(COMMA,     ",",         MARK)   X(SEMI,     ";",         MARK)   X(COLON,    ":",        MARK) \
    X(DOT,       ".",         BINARY) X(DOTDOT,   "..",        MARK)   X(ARROW,    "->",       MARK) \
    X(QUESTION,  "?",         BINARY) \
    /* assignment */ \
    X(ASSIGN,    "=",         ASSIGN) X(ADD_EQ,   "+=",        ASSIGN) X(SUB_EQ,   "-=",       ASSIGN) \
    X(MUL_EQ,    "*=",        ASSIGN) X(DIV_EQ,   "/=",        ASSIGN) X(REM_EQ,   "%=",       ASSIGN) \
    X(AND_EQ,    "&=",        ASSIGN) X(OR_EQ,    "|=",        ASSIGN) X(XOR_EQ,   "^=",       ASSIGN) \
    X(SHL_EQ,    "<<=",       ASSIGN) X(SHR_EQ,   ">>=",       ASSIGN) \
    /* operators */ \
    X(LOR,       "||",        BINARY) X(LAND,     "&&",        BINARY) \
    X(EQ,        "==",        BINARY) X(NE,       "!=",        BINARY) X(LT,       "<",        BINARY) \
    X(LE,        "<=",        BINARY) X(GT,       ">",         BINARY) X(GE,       ">=",       BINARY) \
    X(BAR,       "|",         BINARY) X(CARET,    "^",         BINARY) X(AMP,      "&",        BINARY) \
    X(SHL,       "<<",        BINARY) X(SHR,      ">>",        BINARY) \
    X(PLUS,      "+",         BINARY) X(MINUS,    "-",         BINARY) X(STAR,     "*",        BINARY) \
    X(SLASH,     "/",         BINARY) X(PERCENT,  "%",         BINARY) \
    X(BANG,      "!",         EXPR)   X(TILDE,    "~",         BINARY) \
    /* what recovery feeds in place of something it skipped */ \
    X(BAD,       "",          HIDDEN)
// clang-format on

#endif
