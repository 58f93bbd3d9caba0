// Words for syntax errors: what was expected, what was found, and advice.
//
// The list of what was expected comes from trying every token on the automaton, so it is exact; it is
// then told as a person would: an expression, not the nine tokens that may begin one. Soft keywords
// are left out where a name may stand, operators where something definite may.
//
//     f(a b)       expected `,`, `)` or an operator, found `b`
//     let = 3      expected a name, found `=`
//
// Advice is two tables: spellings of other languages, and pairs of neighbouring tokens that betray a
// habit from one. "ANY" stands for any token, "NAME" for any word.

#include "parser/internal.h"

#include <string.h>

enum { MAX_EXPECTED = 5 };

typedef struct Words { const char *at[64]; int n; } Words;

static void say(Words *w, const char *text)
{
    for (int i = 0; i < w->n; i++)
        if (strcmp(w->at[i], text) == 0) return;
    if (w->n < 64) w->at[w->n++] = text;
}

static bool begins_operand(int k)
{
    return token_info[k].cls == TC_EXPR || k == T_MINUS || k == T_TILDE || k == T_LPAREN || k == T_COLON;
}

// What is worth naming first; the rest comes in the order of the tokens.
static const uint8_t first_named[] = {T_SEMI, T_RPAREN, T_RBRACKET, T_RGEN, T_RBAR, T_LBRACE, T_COMMA, T_RBRACE, T_ASSIGN};

// Where an expression could end: what is too much of a choice to be named.
static bool is_crowd(const bool *ok, int k)
{
    const TokenInfo *t = &token_info[k];
    if (t->cls == TC_BINARY || t->cls == TC_WORD || k == T_LPAREN || k == T_LBRACKET || k == T_LGEN) return true;
    if (k == T_ASSIGN) return ok[T_RPAREN];
    if (k == T_RBRACE || k == T_COLON || k == T_COMMA) return ok[T_SEMI];
    return k == T_DOTDOT && (ok[T_SEMI] || ok[T_RPAREN] || ok[T_LBRACE]);
}

static void say_token(const Parser *p, Words *w, int k)
{
    const char *spelling = token_info[k].spelling;
    bool described = k == T_STRING || k == T_INT || k == T_FLOAT;
    say(w, described ? spelling : arena_printf(session_arena(p->s), "`%s`", spelling));
}

const char *expected_words(const Parser *p)
{
    bool ok[TOKEN_KINDS] = {false}, hide[TOKEN_KINDS] = {false};
    for (int k = 1; k < TOKEN_KINDS; k++) ok[k] = grammar_accepts(p->grammar, &k, 1);
    bool name = ok[T_NAME], expression = ok[T_INT] && !ok[T_RBAR], statement = ok[T_LET], binary = ok[T_PLUS];
    bool type = name && ok[T_STAR] && !expression && !binary, item = ok[T_IMPORT] && ok[T_TUNE];

    for (int k = 1; k < TOKEN_KINDS; k++) {
        const TokenInfo *t = &token_info[k];
        bool soft = (k >= T_IMPORT && k <= T_STRIDED) && name && grammar_is_soft(k);
        hide[k] = !ok[k] || t->cls == TC_HIDDEN || k == T_NAME || soft || (t->cls == TC_ASSIGN && k != T_ASSIGN) ||
                  (k == T_LBAR && ok[T_BAR]) || ((item || statement) && (t->cls != TC_MARK || k == T_SEMI || k == T_LBRACE || begins_operand(k))) ||
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

const char *found_words(const Parser *p, const Token *t)
{
    if (t->kind == 0 || t->flags & TOKEN_VIRTUAL) return token_info[t->kind].spelling;
    Str text = token_text(p, *t);
    if (t->kind == T_STRING && text.n > 24) return "a string";
    return arena_printf(session_arena(p->s), "`%.*s%s`", text.n > 40 ? 40 : (int)text.n, text.p, text.n > 40 ? "..." : "");
}

// ---- advice --------------------------------------------------------------------------------------

typedef struct Foreign {
    const char *word, *help;
    const char *instead;                 // fits in its place as it is, or NULL
} Foreign;

// clang-format off
static const Foreign foreign[] = {
    {"def",         "functions are written `fn name(x: f32[M]) -> f32[m] { ... }`, kernels `kernel name(...) grid (...) { ... }`", NULL},
    {"func",        "functions are written `fn name(x: f32[M]) -> f32[m] { ... }`", "fn"},
    {"function",    "functions are written `fn name(x: f32[M]) -> f32[m] { ... }`", "fn"},
    {"fun",         "functions are written `fn name(x: f32[M]) -> f32[m] { ... }`", "fn"},
    {"void",        "a kernel has no result, and writes to its `out` parameters", NULL},
    {"__global__",  "kernels are written `kernel name(x: f32[M, N], y: out f32[M, N]) grid (m in M) { ... }`", NULL},
    {"__device__",  "functions are written `fn name(x: f32[M]) -> f32[m] { ... }`; all of them are inlined", NULL},
    {"__shared__",  "shared memory is the compiler's work; tiles live where they fit", NULL},
    {"struct",      "there are no structs; tuples `(a, b)` hold several values", NULL},
    {"class",       "there are no classes; tuples `(a, b)` hold several values", NULL},
    {"include",     "files are brought in with `import \"path.tk\";`", NULL},
    {"from",        "files are brought in with `import \"path.tk\";`", NULL},
    {"template",    "generics stand after the name: `fn name<T: float, B = 64>(...)`", NULL},
    {"typename",    "a type among `<>` names is `<T: type>`, or `<T: float>`", NULL},
    {"constexpr",   "names in `<>` and all that is computed from them are compile-time values already", NULL},
    {"auto",        "values are named with `let x = ...;`, variables with `var x = ...;`", "let"},
    {"const",       "values are named with `let x = ...;`", NULL},
    {"mut",         "a variable that changes is declared with `var x = ...;`", NULL},
    {"int",         "integers are `i32` and `i64`; a value is named with `let i = ...;`", NULL},
    {"long",        "64-bit integers are `i64`", NULL},
    {"unsigned",    "unsigned integers are `u8`, `u16`, `u32`, `u64`", NULL},
    {"half",        "the 16-bit float is `f16`", "f16"},
    {"double",      "the 64-bit float is `f64`", "f64"},
    {"float16",     "the element types are `f16`, `bf16`, `f32`, `f64`, `f8e4m3`, `f8e5m2`", "f16"},
    {"bfloat16",    "the element types are `f16`, `bf16`, `f32`, `f64`, `f8e4m3`, `f8e5m2`", "bf16"},
    {"float32",     "the element types are `f16`, `bf16`, `f32`, `f64`, `f8e4m3`, `f8e5m2`", "f32"},
    {"float64",     "the element types are `f16`, `bf16`, `f32`, `f64`, `f8e4m3`, `f8e5m2`", "f64"},
    {"fp16",        "the element types are `f16`, `bf16`, `f32`, `f64`, `f8e4m3`, `f8e5m2`", "f16"},
    {"fp32",        "the element types are `f16`, `bf16`, `f32`, `f64`, `f8e4m3`, `f8e5m2`", "f32"},
    {"fp8",         "the 8-bit floats are `f8e4m3` and `f8e5m2`", NULL},
    {"int8",        "the integers are `i8` ... `i64`, `u8` ... `u64`", "i8"},
    {"int32",       "the integers are `i8` ... `i64`, `u8` ... `u64`", "i32"},
    {"int64",       "the integers are `i8` ... `i64`, `u8` ... `u64`", "i64"},
    {"uint8",       "the integers are `i8` ... `i64`, `u8` ... `u64`", "u8"},
    {"uint32",      "the integers are `i8` ... `i64`, `u8` ... `u64`", "u32"},
    {"int32_t",     "the integers are `i8` ... `i64`, `u8` ... `u64`", "i32"},
    {"int64_t",     "the integers are `i8` ... `i64`, `u8` ... `u64`", "i64"},
    {"size_t",      "sizes and indices are of type `index`", "index"},
    {"usize",       "sizes and indices are of type `index`", "index"},
    {"and",         "logical and is `&&`", "&&"},
    {"not",         "logical not is `!`", NULL},
    {"is",          "equality is `==`", "=="},
    {"elif",        "write `else if`", "else if"},
    {"elseif",      "write `else if`", "else if"},
    {"lambda",      "function values are written `|x| x + 1`", NULL},
    {"True",        "truth is `true`", "true"},
    {"False",       "falsehood is `false`", "false"},
    {"None",        "there is no null value", NULL},
    {"null",        "there is no null value", NULL},
    {"nullptr",     "there is no null value", NULL},
    {"pass",        "an empty block is `{ }`", NULL},
    {"del",         "nothing is freed by hand", NULL},
    {"switch",      "write `if ... else if ...`", NULL},
    {"match",       "write `if ... else if ...`", NULL},
    {"goto",        "there is `for`, `while`, `break` and `continue`", NULL},
    {"do",          "there is `for` and `while`", NULL},
    {"loop",        "an endless loop is `while true { ... }`", NULL},
    {"tl",          "there is no `tl`: an axis `let n = 0 .. N by B;` replaces `tl.arange`, indexing `x[m, n]` replaces `tl.load` and `tl.store`", NULL},
    {"triton",      "there is no `triton` module; kernels are `kernel name<...>(...) grid (...) { ... }`", NULL},
    {"torch",       "there is no `torch` module; functions are called by name: `exp(x)`, `sum(x over n)`", NULL},
    {"np",          "there is no `np` module; functions are called by name: `exp(x)`, `sum(x over n)`", NULL},
    {"arange",      "an axis is made by a range: `let n = 0 .. N by B;`, and is its own index tile", NULL},
    {"program_id",  "the grid names its indices: `grid (m in M by BM)`", NULL},
    {"threadIdx",   "there are no threads: an axis `let n = 0 .. N by B;` is spread over them by the compiler", NULL},
    {"blockIdx",    "the grid names its indices: `grid (m in M by BM)`", NULL},
    {"blockDim",    "the grid names its indices and their extents: `grid (m in M by BM)`", NULL},
    {"gridDim",     "the grid names its indices: `grid (m in M by BM)`", NULL},
    {"__syncthreads", "barriers are inserted by the compiler", NULL},
};

typedef struct Habit { const char *before, *here, *help; } Habit;

static const Habit habits[] = {
    {"for",    "(",     "a loop is written `for i in 0 .. n { ... }`, without parentheses"},
    {"let",    "mut",   "a variable that changes is declared with `var x = ...;`"},
    {"grid",   "NAME",  "the grid's ranges stand in parentheses: `grid (m in M by BM)`"},
    {"+",      "+",     "write `i += 1`"},
    {"*",      "*",     "powers are `square(x)`, `x * x * x`, or `exp2(y * log2(x))`"},
    {"(",      "&",     "there are no references: `out` and `inout` parameters are written to"},
    {",",      "&",     "there are no references: `out` and `inout` parameters are written to"},
    {":",      "&",     "there are no references: `out` and `inout` parameters are written to"},
    {"out",    "NAME",  "the mode stands before the type: `y: out f32[M]`"},
    {"inout",  "NAME",  "the mode stands before the type: `y: inout f32[M]`"},
    {":",      "=",     "write `let x = ...;` or `var x = ...;`"},
    {"=",      ">",     "function values are written `|x| x + 1`, results `-> f32[m]`"},
    {"ANY",    "||",    "a function value has parameters: `|x| ...`"},
    {"ANY",    "&",     "nothing has an address here; tensors are parameters"},
    {"ANY",    "over",  "`over` names axes after the arguments of a call: `sum(x over n)`"},
    {"ANY",    "with",  "`with` follows a launch: `matmul(a, b) with (warps = 4)`"},
    {"ANY",    "..",    "a range stands after `in`, or is named first: `let n = lo .. hi by B;`"},
    {"ANY",    "by",    "a range stands after `in`, or is named first: `let n = lo .. hi by B;`"},
    {"..",     "=",     "a range ends before its second bound: `0 .. n + 1` has n in it"},
    {"float",  "*",     "a pointer's type is `*f32`, a tensor's `f32[M, N]`"},
    {"float",  "NAME",  "values are named with `let x = ...;`"},
    {"over",   "ANY",   "axes go by their names: `sum(x over n)`"},
    {"ANY",    "step",  "a range's step is `by 32`"},
    {"<<",     "<",     "a launch is `h = f(x);` in a graph or a test: the kernel's own grid says how many programs there are"},
    {":",      "[",     "a tensor's type is `f32[M, N]`"},
    {"tensor", "<",     "a tensor's type is `f32[M, N]`"},
    {"Tensor", "<",     "a tensor's type is `f32[M, N]`"},
    {"(",      "[",     "lists stand in parentheses: `values<f32>((1, 2), (3, 4))`; a tensor's element has its name before it: `x[m, n]`"},
    {",",      "[",     "lists stand in parentheses: `values<f32>((1, 2), (3, 4))`; a tensor's element has its name before it: `x[m, n]`"},
    {"as",     "*",     "`as` takes an element type, or a pointer to one: `x as bf16`"},
};
// clang-format on

static const Foreign *find_foreign(Str name)
{
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (strlen(foreign[i].word) == name.n && memcmp(foreign[i].word, name.p, name.n) == 0) return &foreign[i];
    return NULL;
}

const char *foreign_spelling(Str name)
{
    const Foreign *f = find_foreign(name);
    return f ? f->help : NULL;
}

static bool fits(const Parser *p, const char *pattern, const Token *t)
{
    if (strcmp(pattern, "ANY") == 0) return true;
    if (!t || t->kind == 0) return false;
    if (strcmp(pattern, "NAME") == 0) return t->kind == T_NAME;
    Str text = token_text(p, *t);
    return strlen(pattern) == text.n && memcmp(pattern, text.p, text.n) == 0;
}

// A word of another language here, or just before, where it was read as a name.
static bool hint_foreign(const Parser *p, Diag *d, const Token *before, const Token *here)
{
    const Foreign *f = here->kind == T_NAME ? find_foreign(token_text(p, *here)) : NULL;
    if (f) {
        diag_help(d, "%s", f->help);
        if (f->instead) diag_fix(d, here->span, f->instead);
        return true;
    }
    f = before && before->kind == T_NAME ? find_foreign(token_text(p, *before)) : NULL;
    if (f) {
        diag_help(d, "%s", f->help);
        if (f->instead) diag_fix(d, before->span, f->instead);
    }
    return f;
}

// `retrun x;`, `kernl f(...)`: a word that begins a statement or an item and is nearly a keyword.
static bool hint_misspelled(const Parser *p, Diag *d, const Token *before, const Token *here)
{
    bool after_head = here->kind == T_NAME && before && before->kind == T_RPAREN && grammar_accepts(p->grammar, (int[]){T_GRID}, 1);
    const Token *word = here->kind == T_NAME && (here->flags & TOKEN_FIRST || after_head) ? here : before;
    if (!word || word->kind != T_NAME) return false;
    const Token *ahead = word > p->tokens.at ? word - 1 : NULL;
    bool begins = !ahead || after_head || word->flags & TOKEN_FIRST || ahead->kind == T_SEMI || ahead->kind == T_LBRACE || ahead->kind == T_RBRACE;
    Str text = token_text(p, *word);
    if (!begins || text.n < 2 || text.n > 12) return false;
    char spelled[16];
    memcpy(spelled, text.p, text.n);
    spelled[text.n] = 0;
    bool head = grammar_accepts(p->grammar, (int[]){T_GRID}, 1) && word == here;
    for (int k = T_IMPORT; k <= T_GRID; k++) {
        const TokenInfo *info = &token_info[k];
        bool at_items = p->open.n == 0;
        if (head ? k != T_GRID && k != T_WHERE : info->cls != (at_items ? TC_ITEM : TC_STMT) && !(k == T_ELSE && !at_items)) continue;
        int distance = edit_distance(spelled, info->spelling);
        if (distance > (strlen(info->spelling) >= 6 ? 2 : 1)) continue;
        diag_help(d, "is `%s` meant?", info->spelling);
        diag_fix(d, word->span, info->spelling);
        return true;
    }
    return false;
}

static bool token_is(const Parser *p, const Token *t, const char *word)
{
    Str text = token_text(p, *t);
    return strlen(word) == text.n && memcmp(word, text.p, text.n) == 0;
}

// `(f32) x`
static bool at_cast(const Parser *p, const Token *here)
{
    const Token *type = here - p->tokens.at >= 3 ? here - 2 : NULL;
    return type && here[-1].kind == T_RPAREN && type->kind == T_NAME && type[-1].kind == T_LPAREN &&
           (elem_by_name(token_text(p, *type)) != EL_none || foreign_spelling(token_text(p, *type)) || token_is(p, type, "float"));
}

static bool hint_special(const Parser *p, Diag *d, const Token *before, const Token *here)
{
    int name = T_NAME, open = T_LBRACE;
    const TokenInfo *info = &token_info[here->kind];
    bool keyword = here->kind >= T_TRUE && here->kind <= T_STRIDED;
    if (keyword && grammar_accepts(p->grammar, &name, 1) && !grammar_accepts(p->grammar, (int[]){T_INT}, 1)) {
        diag_note(d, "`%s` is a keyword and cannot be a name", info->spelling);
        return true;
    }
    if (here->kind == T_COLON && here[1].kind == T_COLON && here[1].flags & TOKEN_GLUED) {
        diag_help(d, "names are not qualified: what a file imports is there by its own name");
        return true;
    }
    if (here->kind == T_COMMA && grammar_accepts(p->grammar, &open, 1) && grammar_accepts(p->grammar, (int[]){T_ASSIGN}, 1)) {
        diag_help(d, "several results stand in parentheses: `-> (f32[m], i32[m])`");
        return true;
    }
    if (here->kind == T_COMMA && grammar_accepts(p->grammar, (int[]){T_DOTDOT}, 1) && !grammar_accepts(p->grammar, (int[]){T_SEMI}, 1)) {
        diag_help(d, "choices stand in brackets, `BM in [64, 128];`, or are a range, `stages in 2 .. 7;`");
        return true;
    }
    bool names = here->kind == T_LET || here->kind == T_VAR || (here->kind == T_NAME && token_is(p, here, "const"));
    if (names && p->open.n == 0 && grammar_accepts(p->grammar, (int[]){T_KERNEL}, 1)) {
        diag_help(d, "a number that several items share is what a function gives: `fn width() = 64;`, then `width()`");
        return true;
    }
    if (here->kind == T_ARROW && grammar_accepts(p->grammar, (int[]){T_GRID}, 1)) {
        diag_help(d, "a kernel has no result, and writes to its `out` parameters");
        return true;
    }
    if (here->kind == T_FN && p->open.n > 0) {
        diag_help(d, "functions stand outside of others; a function value is `let f = |x| x + 1;`");
        return true;
    }
    if (here->kind == T_NAME && before && before->kind == T_NAME && token_is(p, before, "const") && p->open.n > 0 && p->open.at[p->open.n - 1] != T_LBRACE) {
        diag_help(d, "parameters are read only, unless they are `out` or `inout`; those in `<>` are known at compile time");
        return true;
    }
    if (before && before->kind == T_IN && grammar_accepts(p->grammar, (int[]){T_LBRACKET}, 1) && !grammar_accepts(p->grammar, (int[]){T_INT}, 1)) {
        diag_help(d, "a test's cases stand in brackets: `for N in [1, 100]`");
        return true;
    }
    if (here->kind == T_LBRACKET && before && before->kind == T_NAME && here - p->tokens.at >= 2 && here[-2].kind == T_AS) {
        diag_help(d, "`as` takes an element type; a tile keeps its axes");
        return true;
    }
    if (here->kind == T_IF && !(here->flags & TOKEN_FIRST)) {
        diag_help(d, "a choice is written `c ? a : b`");
        return true;
    }
    if (here->kind != T_NAME && grammar_accepts(p->grammar, (int[]){T_IN}, 1) && here - p->tokens.at >= 3 && here[-2].kind == T_LPAREN && token_is(p, here - 3, "grid")) {
        diag_help(d, "a grid is made of ranges that have names: `grid (n in N by 256)`");
        return true;
    }
    if (here->kind == T_WHERE && grammar_accepts(p->grammar, &open, 1) && grammar_accepts(p->grammar, (int[]){T_ASSIGN}, 1)) {
        diag_help(d, "conditions of a function stand in its body: `static_assert(c, \"why\");`, or `assert` for what is known at run time");
        return true;
    }
    if (here->kind == T_COLON && grammar_accepts(p->grammar, &open, 1)) {
        diag_help(d, "what belongs together stands in braces: `{ ... }`");
        return true;
    }
    if (here->kind == T_ASSIGN && grammar_accepts(p->grammar, (int[]){T_RPAREN}, 1) && grammar_accepts(p->grammar, (int[]){T_LBRACKET}, 1)) {
        diag_help(d, "only compile-time names have defaults: `fn f<LO: int = 0>(x)`; two functions of one name may take different parameters");
        return true;
    }
    if (here->kind == T_ASSIGN && grammar_accepts(p->grammar, (int[]){T_RBRACKET}, 1)) {
        diag_help(d, "what is read outside of the tensor is 0, or stands behind the index: `x[i] else 1`");
        return true;
    }
    if (here->kind == T_STRING && before && before->kind == T_NAME && here->flags & TOKEN_GLUED) {
        diag_help(d, "texts have no prefix, and no values in them: `print(\"x is\", x)`");
        return true;
    }
    if (here->kind == T_COLON && grammar_accepts(p->grammar, (int[]){T_RBRACKET}, 1)) {
        diag_help(d, "a part of a dimension is an axis of its own: `let k = 0 .. 8;`, then `x[k]`");
        return true;
    }
    if (here->kind == T_NAME && at_cast(p, here)) {
        diag_help(d, "a conversion stands after the value: `x as f32`");
        return true;
    }
    if (here->kind == T_ASSIGN && grammar_accepts(p->grammar, &open, 1)) {
        diag_help(d, "equality is `==`");
        diag_fix(d, here->span, "==");
        return true;
    }
    if (here->kind == T_OR && grammar_accepts(p->grammar, (int[]){T_LOR}, 1)) {
        diag_help(d, "logical or is `||`");
        diag_fix(d, here->span, "||");
        return true;
    }
    if (here->kind == T_COLON && before && before->kind == T_NAME && grammar_accepts(p->grammar, (int[]){T_ASSIGN}, 1) &&
        !grammar_accepts(p->grammar, (int[]){T_PLUS}, 1)) {
        diag_help(d, "`let` takes the type of its value; `var x: f32 = ...` states one, and `... as f32` converts");
        return true;
    }
    return false;
}

void hint(const Parser *p, Diag *d, uint32_t at)
{
    const Token *here = &p->tokens.at[at], *before = at ? here - 1 : NULL;
    if (hint_special(p, d, before, here) || hint_foreign(p, d, before, here) || hint_misspelled(p, d, before, here)) return;
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++) {
        if (!fits(p, habits[i].before, before) || !fits(p, habits[i].here, here)) continue;
        diag_help(d, "%s", habits[i].help);
        return;
    }
}
