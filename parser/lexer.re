// Bytes to tokens.
//
// The whole file becomes one array of tokens: 12 bytes each, only kind, flags and span; what a
// number or a name says is read from the text when its node is made. No line is counted here.
//
//     "a[i] += 0x1f;"   ->   NAME LBRACKET NAME RBRACKET ADD_EQ INT SEMI end
//
// Mistakes are reported once and leave the most likely token behind, so that one of them does not
// become two: a run of unknown characters is one message and no token, an unclosed string is still a
// string. The token after such a place is marked QUIET.
//
// The end of the input is re2c's own rule (`$`): a 0 byte in the middle of a file is just a byte.

#include "lang/c_text.h"
#include "parser/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Lexer {
    Session *s;
    const Source *src;
    Tokens out;
    uint8_t flags;                       // for the next token
} Lexer;

static Span span_of(const Lexer *l, const char *lo, const char *hi)
{
    return (Span){l->src->base + (Pos)(lo - l->src->text), l->src->base + (Pos)(hi - l->src->text)};
}

// ---- unknown characters --------------------------------------------------------------------------

static const struct { const char *bytes, *instead, *help; } known_bad[] = {
    {"@", NULL, "the matrix product is `dot(a, b)`, and nothing is decorated"},
    {"'", NULL, "strings stand between `\"`"},
    {"`", NULL, "strings stand between `\"`"},
    {"#", NULL, "comments begin with `//`, and there are no directives: `import \"path.tk\";` brings in a file, loops are unrolled by the compiler"},
    {"\\", NULL, "a statement may go on in the next line as it is"},
    {"\xe2\x80\x9c", "\"", "strings stand between straight quotes"},
    {"\xe2\x80\x9d", "\"", "strings stand between straight quotes"},
    {"\xe2\x89\xa4", "<=", "write it in ASCII"},
    {"\xe2\x89\xa5", ">=", "write it in ASCII"},
    {"\xe2\x89\xa0", "!=", "write it in ASCII"},
    {"\xc3\x97", "*", "write it in ASCII"},
    {"\xc2\xb7", "*", "write it in ASCII"},
    {"\xc3\xb7", "/", "write it in ASCII"},
    {"\xe2\x88\x92", "-", "this is a minus sign; an ASCII hyphen is meant"},
    {"\xe2\x80\x93", "-", "this is a dash; an ASCII hyphen is meant"},
    {"\xe2\x88\x9e", "inf", "infinity is `inf`"},
    {"\xe2\x80\xa6", "..", "a range has two dots"},
    {"\xcd\xbe", ";", "this is a Greek question mark"},
    {"\xc2\xa0", " ", "this is a no-break space"},
};

static bool is_utf8(const char *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        unsigned char c = (unsigned char)p[i];
        size_t len = c < 0x80 ? 1 : c >= 0xc2 && c < 0xe0 ? 2 : c >= 0xe0 && c < 0xf0 ? 3 : c >= 0xf0 && c < 0xf5 ? 4 : 0;
        if (len == 0 || n - i < len || c < 0x20 || c == 0x7f) return false;
        for (size_t k = 1; k < len; k++)
            if ((p[i + k] & 0xc0) != 0x80) return false;
        i += len;
    }
    return true;
}

static bool is_unknown(char c)
{
    unsigned char u = (unsigned char)c;
    return u >= 0x7f || (u < 0x20 && !(u == '\t' || u == '\n' || u == '\r')) || (u && strchr("@'`#\\$", u));
}

// U+FF01 to U+FF5E are ASCII, as wide as Chinese characters.
static char full_width(const char *p)
{
    int code = ((unsigned char)p[0] & 15) << 12 | ((unsigned char)p[1] & 63) << 6 | ((unsigned char)p[2] & 63);
    return code >= 0xff01 && code <= 0xff5e ? (char)(code - 0xfee0) : 0;
}

static void report_unknown(Lexer *l, const char *p, const char *end)
{
    size_t n = (size_t)(end - p), chars = 0;
    for (size_t i = 0; i < n; i++) chars += (p[i] & 0xc0) != 0x80;
    Span at = span_of(l, p, end);
    const char *words;
    if (!is_utf8(p, n)) words = arena_printf(session_arena(l->s), n == 1 ? "byte 0x%02x" : "bytes 0x%02x ...", (unsigned char)*p);
    else if (n <= 40) words = arena_printf(session_arena(l->s), "character%s `%.*s`", chars > 1 ? "s" : "", (int)n, p);
    else words = "characters";
    Diag *d = diag(l->s, E_unknown_char, at, words);
    bool known = false;
    for (size_t i = 0; i < sizeof known_bad / sizeof *known_bad; i++) {
        size_t k = strlen(known_bad[i].bytes);
        if (k > n || memcmp(p, known_bad[i].bytes, k) != 0) continue;
        diag_help(d, "%s", known_bad[i].help);
        known = true;
        if (known_bad[i].instead && k == n) diag_fix(d, at, known_bad[i].instead);
    }
    char narrow = n == 3 ? full_width(p) : 0;
    if (narrow) {
        diag_help(d, "this is a full-width character; the ASCII one is meant");
        diag_fix(d, at, arena_printf(session_arena(l->s), "%c", narrow));
        known = true;
    }
    if (!known && (unsigned char)*p >= 0x80) diag_help(d, "outside of strings and comments everything is ASCII");
    l->flags |= TOKEN_QUIET;
}

// ---- pieces that are no regular language ---------------------------------------------------------

static const char *skip_comment(Lexer *l, const char *start, const char *p, const char *end)
{
    for (int depth = 1; p < end; p++) {
        if (p + 1 < end && p[0] == '/' && p[1] == '*') depth++, p++;
        else if (p + 1 < end && p[0] == '*' && p[1] == '/') {
            p++;
            if (--depth == 0) return p + 1;
        }
    }
    Diag *d = diag(l->s, E_open_comment, span_of(l, start, start + 2));
    diag_note(d, "comments nest: each `/*` needs its own `*/`");
    return end;
}

static const char *skip_string(Lexer *l, const char *start, const char *p, const char *end)
{
    for (; p < end && *p != '\n' && *p != '"'; p++) {
        if (*p != '\\' || p + 1 >= end || p[1] == '\n') continue;
        p++;
        if (!strchr("nt\"\\", *p) || *p == 0)
            diag_help(diag(l->s, E_bad_escape, span_of(l, p - 1, p + 1),
                           (unsigned char)*p < 0x20 || (unsigned char)*p >= 0x7f ? "\\?" : (char[]){'\\', *p, 0}),
                      "there are `\\n`, `\\t`, `\\\"` and `\\\\`");
    }
    if (p < end && *p == '"') return p + 1;
    while (p > start + 1 && strchr("\r\t ;){", p[-1])) p--;        // more likely the line's than the string's
    diag_primary(diag(l->s, E_open_string, span_of(l, start, p)), "the line ends before a second `\"`");
    return p;
}

// 'text', as other languages have it.
static void report_quotes(Lexer *l, const char *start, const char *end)
{
    Diag *d = diag(l->s, E_unknown_char, span_of(l, start, start + 1), "character `'`");
    int n = (int)(end - start) - 2;
    diag_help(d, "strings stand between `\"`");
    if (n < 60) diag_fix(d, span_of(l, start, end), arena_printf(session_arena(l->s), "\"%.*s\"", n, start + 1));
}

static void add(Lexer *l, int kind, const char *lo, const char *hi)
{
    Token t = {(uint8_t)kind, l->flags, span_of(l, lo, hi)};
    if (l->out.n && l->out.at[l->out.n - 1].span.hi == t.span.lo) t.flags |= TOKEN_GLUED;
    vec_push(session_arena(l->s), &l->out, t);
    l->flags = 0;
}

static void bad_number(Lexer *l, const char *lo, const char *hi)
{
    const char *digits = lo;
    while (digits < hi && *digits >= '0' && *digits <= '9') digits++;
    int n = hi - lo < 60 ? (int)(hi - lo) : 60;
    Diag *d = diag(l->s, E_bad_number, span_of(l, lo, hi), arena_printf(session_arena(l->s), "%.*s", n, lo));
    bool prefix = digits == lo + 1 && *lo == '0' && digits < hi && strchr("xXbBoO", *digits);
    bool hex = digits == lo + 1 && *lo == '0' && digits < hi && strchr("xX", *digits);
    const char *end = hi, *suffix = hex ? "uUlL" : "fFhHuUlL";
    char text[64], *read = text;
    while (end > lo && strchr(suffix, end[-1])) end--;
    snprintf(text, sizeof text, "%.*s", n < end - lo ? n : (int)(end - lo), lo);
    if (end < hi && end > lo && !hex) c_strtod(text, &read);
    if (read > text && !*read && end[-1] != '.') {
        diag_help(d, "numbers have no suffix: a literal takes the type of its partner, and `1 as i64` says one");
        diag_fix(d, span_of(l, lo, hi), arena_printf(session_arena(l->s), "%s", text));
    } else if (prefix) diag_help(d, "numbers in other bases are written `0x1f` and `0b101`");
    else if (digits < hi && (*digits == 'e' || *digits == 'E')) diag_help(d, "an exponent has digits: `1e-5`");
    else diag_help(d, "numbers have no suffix: a literal takes the type of its partner, and `1 as i64` says one");
}

static void float_digits(Lexer *l, const char *lo, const char *hi)
{
    Diag *d = diag(l->s, E_float_digits, span_of(l, lo, hi));
    if (lo - l->src->text >= 2 && lo[-1] == '.' && lo[-2] == '.') {
        diag_help(d, "a range has two dots");
        diag_fix(d, span_of(l, lo - 2, hi), arena_printf(session_arena(l->s), "..%.*s", hi - lo < 60 ? (int)(hi - lo) - 1 : 60, lo + 1));
        return;
    }
    if (*lo == '.' && lo > l->src->text && (c_isalnum((unsigned char)lo[-1]) || strchr("_)]", lo[-1]))) {
        diag_help(d, "a tuple's values have names: `let a, b = ...;`");
        return;
    }
    int n = hi - lo < 60 ? (int)(hi - lo) : 60;
    diag_help(d, "add the zero");
    diag_fix(d, span_of(l, lo, hi), arena_printf(session_arena(l->s), *lo == '.' ? "0%.*s" : "%.*s0", n, lo));
}

// ---- the rules -----------------------------------------------------------------------------------

// A program of a linker, an archive, UTF-16: that is said once, and nothing is read.
static const char *no_text(const Source *src)        // the first byte that shows it, or NULL
{
    const char *first = NULL;
    size_t controls = 0;
    for (const char *p = src->text; p < src->text + src->size; p++) {
        unsigned char u = (unsigned char)*p;
        if (u >= 0x20 || u == '\t' || u == '\n' || u == '\r') continue;
        if (controls++ == 0) first = p;
    }
    return controls >= 4 && controls * 32 >= src->size ? first : NULL;
}

Tokens lex(Session *s, const Source *src)
{
    Lexer l = {.s = s, .src = src, .flags = TOKEN_FIRST};
    const char *p = src->text, *end = src->text + src->size, *marker, *start, *strange = no_text(src);
    if (src->size >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0) p += 3;      // byte order mark
    if (strange) {
        Diag *d = diag(s, E_unknown_char, span_of(&l, strange, strange + 1), arena_printf(session_arena(s), "byte 0x%02x", (unsigned char)*strange));
        diag_help(d, "this file is no text: a program is written in ASCII, or in UTF-8 where it is a comment");
        p = end;
    }

#define TOKEN(kind) add(&l, T_##kind, start, p); continue;

    for (;;) {
        start = p;
/*!re2c
        re2c:define:YYCTYPE = "unsigned char";
        re2c:define:YYCURSOR = p;
        re2c:define:YYLIMIT = end;
        re2c:define:YYMARKER = marker;
        re2c:yyfill:enable = 0;
        re2c:eof = 0;
        re2c:tags = 0;

        digit   = [0-9];
        word    = [a-zA-Z_0-9];
        name    = [a-zA-Z_] word*;
        int     = digit [0-9_]* | "0" [xX] [0-9a-fA-F_]* [0-9a-fA-F] | "0" [bB] [01_]* [01];
        exp     = [eE] [+-]? digit+;
        float   = digit [0-9_]* "." digit [0-9_]* exp? | digit [0-9_]* exp;

        // -- blanks and comments
        "\n"                 { l.flags |= TOKEN_FIRST; continue; }
        [ \t\r]+             { continue; }
        "//" [^\n]*          { continue; }
        "/*"                 { p = skip_comment(&l, start, p, end); continue; }

        // -- words
        "import"   { TOKEN(IMPORT) }     "kernel"   { TOKEN(KERNEL) }     "fn"       { TOKEN(FN) }         "test"     { TOKEN(TEST) }
        "tune"     { TOKEN(TUNE) }       "graph"    { TOKEN(GRAPH) }
        "weights"  { TOKEN(WEIGHTS) }
        "let"      { TOKEN(LET) }        "var"      { TOKEN(VAR) }        "for"      { TOKEN(FOR) }        "while"    { TOKEN(WHILE) }
        "if"       { TOKEN(IF) }         "break"    { TOKEN(BREAK) }      "continue" { TOKEN(CONTINUE) }   "return"   { TOKEN(RETURN) }
        "expect"   { TOKEN(EXPECT) }
        "else"     { TOKEN(ELSE) }       "in"       { TOKEN(IN) }         "by"       { TOKEN(BY) }         "as"       { TOKEN(AS) }
        "over"     { TOKEN(OVER) }       "with"     { TOKEN(WITH) }       "where"    { TOKEN(WHERE) }      "grid"     { TOKEN(GRID) }
        "merge"    { TOKEN(MERGE) }      "or"       { TOKEN(OR) }         "key"      { TOKEN(KEY) }        "within"   { TOKEN(WITHIN) }
        "rel"      { TOKEN(REL) }        "abs"      { TOKEN(ABS) }        "out"      { TOKEN(OUT) }        "inout"    { TOKEN(INOUT) }
        "strided"  { TOKEN(STRIDED) }
        "true"     { TOKEN(TRUE) }       "false"    { TOKEN(FALSE) }
        name                 { TOKEN(NAME) }

        // -- numbers and strings
        int                  { TOKEN(INT) }
        float                { TOKEN(FLOAT) }
        "." digit+           { float_digits(&l, start, p); TOKEN(FLOAT) }
        (digit | float | "." digit+) word* { bad_number(&l, start, p); TOKEN(INT) }
        digit [0-9_]* "." / [^.0-9a-zA-Z_]  { float_digits(&l, start, p); TOKEN(FLOAT) }
        ["]                  { p = skip_string(&l, start, p, end); TOKEN(STRING) }
        "'" [^'\n]* "'"      { report_quotes(&l, start, p); TOKEN(STRING) }

        // -- marks
        "("    { TOKEN(LPAREN) }     ")"    { TOKEN(RPAREN) }     "["    { TOKEN(LBRACKET) }   "]"    { TOKEN(RBRACKET) }
        "{"    { TOKEN(LBRACE) }     "}"    { TOKEN(RBRACE) }

        ","    { TOKEN(COMMA) }      ";"    { TOKEN(SEMI) }       ":"    { TOKEN(COLON) }      "."    { TOKEN(DOT) }
        ".."   { TOKEN(DOTDOT) }     "->"   { TOKEN(ARROW) }      "?"    { TOKEN(QUESTION) }

        "="    { TOKEN(ASSIGN) }     "+="   { TOKEN(ADD_EQ) }     "-="   { TOKEN(SUB_EQ) }     "*="   { TOKEN(MUL_EQ) }
        "/="   { TOKEN(DIV_EQ) }     "%="   { TOKEN(REM_EQ) }     "&="   { TOKEN(AND_EQ) }     "|="   { TOKEN(OR_EQ) }
        "^="   { TOKEN(XOR_EQ) }     "<<="  { TOKEN(SHL_EQ) }     ">>="  { TOKEN(SHR_EQ) }

        "||"   { TOKEN(LOR) }        "&&"   { TOKEN(LAND) }       "=="   { TOKEN(EQ) }         "!="   { TOKEN(NE) }
        "<"    { TOKEN(LT) }         "<="   { TOKEN(LE) }         ">"    { TOKEN(GT) }         ">="   { TOKEN(GE) }

        "|"    { TOKEN(BAR) }        "^"    { TOKEN(CARET) }      "&"    { TOKEN(AMP) }        "<<"   { TOKEN(SHL) }
        ">>"   { TOKEN(SHR) }        "+"    { TOKEN(PLUS) }       "-"    { TOKEN(MINUS) }      "*"    { TOKEN(STAR) }
        "/"    { TOKEN(SLASH) }      "%"    { TOKEN(PERCENT) }    "!"    { TOKEN(BANG) }       "~"    { TOKEN(TILDE) }

        // -- the rest
        *                    {
            while (p < end && is_unknown(*p)) p++;
            report_unknown(&l, start, p);
            if (*start == '#') while (p < end && *p != '\n') p++;       // a comment, or a directive: nothing of it is read
            continue;
        }
        $                    { break; }
*/
    }
    add(&l, 0, end, end);
    return l.out;
}
