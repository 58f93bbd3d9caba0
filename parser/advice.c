// Advice for syntax errors: what the writer may have had in mind.
//
// Three tables: words of other languages, situations that a rule of its own looks at, and pairs of
// neighbouring tokens that betray a habit ("ANY" stands for any token, "NAME" for any word). The first
// row that fits is said; sema asks for the words, too, where one is an unknown name.

#include "parser/internal.h"

#include <string.h>

// ---- words ---------------------------------------------------------------------------------------

typedef struct Foreign {
    const char *words, *help;
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
    {"shared",      "shared memory is the compiler's work; tiles live where they fit", NULL},
    {"__shared__",  "shared memory is the compiler's work; tiles live where they fit", NULL},
    {"struct",      "there are no structs; tuples `(a, b)` hold several values", NULL},
    {"class",       "there are no classes; tuples `(a, b)` hold several values", NULL},
    {"enum",        "there are no enumerations; a number is named with `let x = 1;`, in a function or kernel", NULL},
    {"typedef",     "types have their own names alone; one that may differ is a parameter, `kernel k<T: float>(x: T[N])`", NULL},
    {"assert",      "tests say `expect a == b;`, kernels `assert(c, \"why\");`", NULL},
    {"include",     "files are brought in with `import \"path.tk\";`", NULL},
    {"use",         "files are brought in with `import \"path.tk\";`", NULL},
    {"using",       "files are brought in with `import \"path.tk\";`", NULL},
    {"from",        "files are brought in with `import \"path.tk\";`", NULL},
    {"template",    "generics stand after the name: `fn name<T: float, B = 64>(...)`", NULL},
    {"typename",    "a type among `<>` names is `<T: type>`, or `<T: float>`", NULL},
    {"constexpr",   "compile-time names stand in `<>` behind the kernel's name, `kernel f<BLOCK = 128>(...)`, and what is computed from them is known as well", NULL},
    {"auto",        "values are named with `let x = ...;`, variables with `var x = ...;`", "let"},
    {"const",       "values are named with `let x = ...;`", NULL},
    {"mut",         "a variable that changes is declared with `var x = ...;`", NULL},
    {"int",         "integers are `i32` and `i64`; a value is named with `let i = ...;`", NULL},
    {"long",        "64-bit integers are `i64`", NULL},
    {"unsigned",    "unsigned integers are `u8`, `u16`, `u32`, `u64`", NULL},
    {"half float16 float16_t fp16 half_t __half", "the 16-bit floats are `f16` and `bf16`", "f16"},
    {"bfloat16 bfloat16_t bfloat __nv_bfloat16 nv_bfloat16", "the 16-bit floats are `f16` and `bf16`", "bf16"},
    {"double float64 float64_t fp64", "the 64-bit float is `f64`", "f64"},
    {"float32 float32_t fp32 tf32", "the 32-bit float is `f32`; products of it take `prec = tf32`", "f32"},
    {"fp8 f8 float8 float8_e4m3 float8_e4m3fn fp8_e4m3 fp8_e4m3fn fp8e4nv e4m3 __nv_fp8_e4m3", "the 8-bit floats are `f8e4m3` and `f8e5m2`", "f8e4m3"},
    {"float8_e5m2 fp8_e5m2 fp8e5 e5m2 __nv_fp8_e5m2", "the 8-bit floats are `f8e4m3` and `f8e5m2`", "f8e5m2"},
    {"int4 uint4 i4 u4 int2 uint2 fp4 f4 nf4 e2m1", "elements have 8 bits or more: two of four bits are one of `u8`, and \"std/quant.tk\" takes them apart (`nibble`)", NULL},
    {"float2 float4 half2 half4 bf16x2", "how many elements move at once is the compiler's choice", NULL},
    {"complex complex64 complex128", "a complex number is two of `f32`: `x: f32[N, 2]`, or two tensors", NULL},
    {"int8 int8_t char", "the integers are `i8` ... `i64`, `u8` ... `u64`", "i8"},
    {"int16 int16_t short", "the integers are `i8` ... `i64`, `u8` ... `u64`", "i16"},
    {"int32 int32_t", "the integers are `i8` ... `i64`, `u8` ... `u64`", "i32"},
    {"int64 int64_t longlong", "the integers are `i8` ... `i64`, `u8` ... `u64`", "i64"},
    {"uint8 uint8_t byte uchar", "the integers are `i8` ... `i64`, `u8` ... `u64`", "u8"},
    {"uint16 uint16_t ushort", "the integers are `i8` ... `i64`, `u8` ... `u64`", "u16"},
    {"uint32 uint32_t uint", "the integers are `i8` ... `i64`, `u8` ... `u64`", "u32"},
    {"uint64 uint64_t ulong ulonglong", "the integers are `i8` ... `i64`, `u8` ... `u64`", "u64"},
    {"bool_ int1 i1", "truth is of type `bool`", "bool"},
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
    {"static",      "a number that several items share is what a function gives: `fn width() = 64;`, then `width()`", NULL},
    {"extern",      "there is nothing to declare elsewhere: files are brought in with `import \"path.tk\";`", NULL},
    {"inline",      "all functions are inlined", NULL},
    {"pub",         "names that begin with `_` stay in their file, all others may be imported", NULL},
    {"async",       "what runs ahead of its use is the compiler's decision", NULL},
    {"await",       "what runs ahead of its use is the compiler's decision", NULL},
    {"unsafe",      "no index can touch memory outside of its tensor; raw pointers are parameters, `p: *f32`", NULL},
    {"Inf",         "infinity is `inf`", "inf"},
    {"NaN",         "not a number is `nan`", "nan"},
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
    {"rtol",        "what may differ stands behind `within`: `expect a ~ b within rel 1e-5, abs 1e-6;`", NULL},
    {"atol",        "what may differ stands behind `within`: `expect a ~ b within rel 1e-5, abs 1e-6;`", NULL},
    {"__syncthreads", "barriers are inserted by the compiler", NULL},
};

static const Foreign *find_foreign(Str name) {
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++)
        if (text_among(name, foreign[i].words)) return &foreign[i];
    return NULL;
}

const char *foreign_spelling(Str name, const char **instead) {
    const Foreign *f = find_foreign(name);
    if (f && instead) *instead = f->instead;
    return f ? f->help : NULL;
}

// A word of another language here, or just before, where it was read as a name.
static bool hint_foreign(const Parser *p, Diag *d, const Token *before, const Token *here) {
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
static bool hint_misspelled(const Parser *p, Diag *d, const Token *before, const Token *here) {
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

// ---- situations ----------------------------------------------------------------------------------

typedef struct Spot { const Parser *p; const Token *before, *here; } Spot;      // before: NULL at the beginning

static bool token_is(const Parser *p, const Token *t, const char *word) {
    Str text = token_text(p, *t);
    return strlen(word) == text.n && memcmp(word, text.p, text.n) == 0;
}

static bool takes(const Spot *s, int kind) { return grammar_accepts(s->p->grammar, &kind, 1); }
static bool is(const Spot *s, int kind) { return s->here->kind == kind; }
static bool after(const Spot *s, int kind) { return s->before && s->before->kind == kind; }
static bool at_items(const Spot *s) { return s->p->open.n == 0; }
static bool goes_on(const Token *t) { return t[1].kind != 0 && !(t[1].flags & TOKEN_FIRST); }      // in its line

static bool brace_in_line(const Token *t) {
    while (goes_on(t)) {
        if ((++t)->kind == T_LBRACE) return true;
    }
    return false;
}

// The token before the innermost open bracket, or NULL.
static const Token *around(const Spot *s) {
    int closed = 0;
    for (const Token *t = s->here; t > s->p->tokens.at;) {
        int k = (--t)->kind;
        if (k == T_RPAREN || k == T_RBRACKET || k == T_RBRACE) closed++;
        else if ((k == T_LPAREN || k == T_LBRACKET || k == T_LBRACE) && closed-- == 0) return t > s->p->tokens.at ? t - 1 : NULL;
    }
    return NULL;
}

static bool in_brackets_of(const Spot *s, const char *word) {
    const Token *t = around(s);
    return t && token_is(s->p, t, word);
}

static bool qualified(const Spot *s) { return is(s, T_COLON) && s->here[1].kind == T_COLON && s->here[1].flags & TOKEN_GLUED; }
static bool results_bare(const Spot *s) { return is(s, T_COMMA) && takes(s, T_LBRACE) && takes(s, T_ASSIGN); }
static bool choices_bare(const Spot *s) { return is(s, T_COMMA) && takes(s, T_DOTDOT) && !takes(s, T_SEMI); }
static bool choices_braced(const Spot *s) { return is(s, T_LBRACE) && after(s, T_IN) && takes(s, T_LBRACKET) && takes(s, T_INT); }
static bool choices_assigned(const Spot *s) { return (is(s, T_ASSIGN) || is(s, T_COLON)) && takes(s, T_IN) && takes(s, T_DOT); }
static bool arrow_of_kernel(const Spot *s) { return is(s, T_ARROW) && takes(s, T_GRID) && after(s, T_RPAREN); }
static bool arrow_of_value(const Spot *s) { return is(s, T_ARROW) && after(s, T_BAR) && !at_items(s); }
static bool arrow_of_script(const Spot *s) { return is(s, T_ASSIGN) && s->here[1].kind == T_GT && !at_items(s); }
static bool kind_in_where(const Spot *s) { return is(s, T_COLON) && takes(s, T_LBRACE) && takes(s, T_ASSIGN) && takes(s, T_EQ); }
static bool mode_in(const Spot *s) { return is(s, T_IN) && after(s, T_COLON) && takes(s, T_OUT); }
static bool half_choice(const Spot *s) { return is(s, T_SEMI) && takes(s, T_COLON) && takes(s, T_QUESTION) && !takes(s, T_COMMA); }
static bool function_type(const Spot *s) { return is(s, T_LPAREN) && after(s, T_FN) && !at_items(s); }

// `if (k > 0) y[n] = 1;`, `else y[n] = 0;`
static bool body_bare(const Spot *s) {
    if (!is(s, T_NAME) || !takes(s, T_LBRACE)) return false;
    if (after(s, T_ELSE)) return true;
    int depth = 0;
    for (const Token *t = s->here; after(s, T_RPAREN) && t > s->p->tokens.at;) {
        int k = (--t)->kind;
        if (k == T_RPAREN) depth++;
        else if (k == T_LPAREN && --depth == 0) return t > s->p->tokens.at && (t[-1].kind == T_IF || t[-1].kind == T_WHILE);
    }
    return false;
}

static bool inner_function(const Spot *s) { return is(s, T_FN) && !at_items(s); }
static bool cases_unlisted(const Spot *s) { return after(s, T_IN) && takes(s, T_LBRACKET) && !takes(s, T_INT); }
static bool cast_to_tile(const Spot *s) { return is(s, T_LBRACKET) && after(s, T_NAME) && s->here - s->p->tokens.at >= 2 && s->here[-2].kind == T_AS; }
static bool if_as_value(const Spot *s) { return is(s, T_IF) && !(s->here->flags & TOKEN_FIRST); }
static bool grid_unnamed(const Spot *s) { return !is(s, T_NAME) && (takes(s, T_IN) || (is(s, T_INT) && takes(s, T_NAME))) && in_brackets_of(s, "grid"); }
static bool grid_tile(const Spot *s) { return after(s, T_COMMA) && !is(s, T_NAME) && takes(s, T_NAME) && in_brackets_of(s, "grid"); }
static bool schedule_bare(const Spot *s) { return !is(s, T_ASSIGN) && takes(s, T_ASSIGN) && in_brackets_of(s, "with"); }
static bool where_of_function(const Spot *s) { return is(s, T_WHERE) && takes(s, T_LBRACE) && takes(s, T_ASSIGN); }
static bool result_colon(const Spot *s) { return is(s, T_COLON) && takes(s, T_ARROW) && goes_on(s->here); }
static bool range_colon(const Spot *s) { return is(s, T_COLON) && takes(s, T_DOTDOT) && takes(s, T_LBRACE) && brace_in_line(s->here); }
static bool block_colon(const Spot *s) { return is(s, T_COLON) && takes(s, T_LBRACE); }
static bool default_value(const Spot *s) { return is(s, T_ASSIGN) && takes(s, T_RPAREN) && takes(s, T_LBRACKET); }
static bool index_default(const Spot *s) { return is(s, T_ASSIGN) && takes(s, T_RBRACKET); }
static bool text_prefix(const Spot *s) { return is(s, T_STRING) && after(s, T_NAME) && s->here->flags & TOKEN_GLUED; }
static bool slice(const Spot *s) { return is(s, T_COLON) && takes(s, T_RBRACKET); }
static bool one_equals(const Spot *s) { return is(s, T_ASSIGN) && takes(s, T_LBRACE) && takes(s, T_EQ); }
static bool word_or(const Spot *s) { return is(s, T_OR) && takes(s, T_LOR); }
static bool typed_assignment(const Spot *s) { return is(s, T_COLON) && after(s, T_NAME) && takes(s, T_ASSIGN) && !takes(s, T_PLUS); }
static bool generics_bracket(const Spot *s) { return is(s, T_LBRACKET) && takes(s, T_LGEN) && takes(s, T_LPAREN) && !takes(s, T_PLUS); }
static bool arrow_function(const Spot *s) { return is(s, T_GT) && after(s, T_ASSIGN) && at_items(s); }

static bool shared_number(const Spot *s) {
    bool names = is(s, T_LET) || is(s, T_VAR) || (is(s, T_NAME) && token_is(s->p, s->here, "const"));
    return names && at_items(s) && takes(s, T_KERNEL);
}

static bool const_parameter(const Spot *s) {
    return is(s, T_NAME) && after(s, T_NAME) && token_is(s->p, s->before, "const") && !at_items(s) && s->p->open.at[s->p->open.n - 1] != T_LBRACE;
}

// `f32 x[N]`, `float *x`: the modes are words before the name, too, and have advice of their own.
static bool type_first(const Spot *s) {
    static const char *const modes[] = {"out", "inout", "strided"};
    if (!(is(s, T_NAME) || is(s, T_STAR)) || !s->before || !takes(s, T_COLON) || !takes(s, T_RPAREN) || takes(s, T_PLUS)) return false;
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (token_is(s->p, s->before, modes[i])) return false;
    }
    return true;
}

// `(f32) x`
static bool cast_before(const Spot *s) {
    const Token *type = s->here - s->p->tokens.at >= 3 ? s->here - 2 : NULL;
    return is(s, T_NAME) && type && s->here[-1].kind == T_RPAREN && type->kind == T_NAME && type[-1].kind == T_LPAREN &&
           (elem_by_name(token_text(s->p, *type)) != EL_none || foreign_spelling(token_text(s->p, *type), NULL) || token_is(s->p, type, "float"));
}

static bool is_type(const Parser *p, const Token *t) {
    Str text = token_text(p, *t);
    const Foreign *f = t->kind == T_NAME ? find_foreign(text) : NULL;
    bool other = f && f->instead && elem_by_name((Str){f->instead, (uint32_t)strlen(f->instead)}) != EL_none;
    return t->kind == T_NAME && (other || elem_by_name(text) != EL_none || token_is(p, t, "float") || token_is(p, t, "int"));
}

static bool declared(const Spot *s) {                          // `let x`, `var x`, and here
    return after(s, T_NAME) && s->here - s->p->tokens.at >= 2 && (s->here[-2].kind == T_LET || s->here[-2].kind == T_VAR);
}

static bool store_declared(const Spot *s) { return is(s, T_LBRACKET) && declared(s); }
static bool nothing_declared(const Spot *s) { return is(s, T_SEMI) && declared(s); }
static bool assigned_twice(const Spot *s) { return is(s, T_ASSIGN) && takes(s, T_SEMI) && !at_items(s) && s->here[1].kind != T_GT; }
static bool function_of_c(const Spot *s) { return at_items(s) && is(s, T_NAME) && is_type(s->p, s->here) && s->here[1].kind == T_NAME && s->here[2].kind == T_LPAREN; }
static bool pointer_after(const Spot *s) { return is(s, T_STAR) && after(s, T_NAME) && is_type(s->p, s->before) && takes(s, T_LBRACKET) && takes(s, T_RPAREN); }
static bool shape_round(const Spot *s) { return is(s, T_LPAREN) && after(s, T_NAME) && is_type(s->p, s->before) && takes(s, T_LBRACKET) && !takes(s, T_PLUS); }
static bool parameters_joined(const Spot *s) { return is(s, T_NAME) && s->here[1].kind == T_COLON && takes(s, T_COMMA) && takes(s, T_RPAREN) && !takes(s, T_PLUS); }
static bool mode_before(const Spot *s) { return parameters_joined(s) && (after(s, T_OUT) || after(s, T_INOUT) || after(s, T_STRIDED)); }
static bool shape_twice(const Spot *s) { return is(s, T_LBRACKET) && after(s, T_RBRACKET) && takes(s, T_RPAREN) && takes(s, T_COMMA) && !takes(s, T_PLUS); }
static bool else_of_value(const Spot *s) { return is(s, T_ELSE) && takes(s, T_SEMI) && takes(s, T_PLUS); }
static bool second_dots(const Spot *s) { return is(s, T_DOTDOT) && takes(s, T_BY); }
static bool schedule_of_kernel(const Spot *s) {
    return (is(s, T_WITH) || (is(s, T_NAME) && s->here[1].kind == T_ASSIGN)) && takes(s, T_LBRACE) && takes(s, T_GRID);
}
static bool number_typed(const Spot *s) { return is(s, T_NAME) && after(s, T_NAME) && takes(s, T_RGEN) && takes(s, T_ASSIGN) && is_type(s->p, s->before); }
static bool grid_colon(const Spot *s) { return is(s, T_COLON) && takes(s, T_DOTDOT) && in_brackets_of(s, "grid"); }

// `kernel k<B = 8, LONG: bool = B > 4>(...)`, whose first `>` closes
static bool compared_in_generics(const Spot *s) { return at_items(s) && after(s, T_RGEN) && takes(s, T_LPAREN) && (is(s, T_INT) || is(s, T_NAME) || is(s, T_MINUS)); }

static bool kernel_unbraced(const Spot *s) {
    bool store = is(s, T_NAME) && (s->here[1].kind == T_LBRACKET || s->here[1].kind == T_ASSIGN), other = is(s, T_LET) || is(s, T_VAR) || is(s, T_FOR);
    return at_items(s) && after(s, T_RPAREN) && takes(s, T_LBRACE) && s->here->flags & TOKEN_FIRST && (store || other);
}

typedef struct Rule { bool (*when)(const Spot *); const char *help, *instead; } Rule;

// clang-format off
static const Rule rules[] = {
    {store_declared,    "a store declares nothing: `y[n] = ...;`", NULL},
    {nothing_declared,  "it begins with a value: `var x = 0.0;`, or `var acc = zeros(m, n);`", NULL},
    {assigned_twice,    "an assignment has no value: each is a statement of its own", NULL},
    {function_of_c,     "functions are written `fn name(x: f32) -> f32 { ... }`, kernels `kernel name(x: f32[N], y: out f32[N]) grid (n in N by 256) { ... }`", NULL},
    {pointer_after,     "a pointer's type is `*f32`, a tensor's `f32[M, N]`", NULL},
    {shape_round,       "a tensor's dimensions stand in brackets: `f32[M, N]`", NULL},
    {grid_colon,        "a range is written `0 .. N`", NULL},
    {second_dots,       "a range's step is `by 32`: `0 .. N by 32`", "by"},
    {schedule_of_kernel, "a kernel says nothing of its schedule: the compiler chooses it, `--with=warps=4` sets it, a `tune` item names choices, a launch has `f(x) with (warps = 4)`", NULL},
    {number_typed,      "a compile-time number is declared with its value: `<B = 128>`, or `<B: int>`", NULL},
    {compared_in_generics, "a comparison among compile-time names stands in parentheses: `<B = 8, LONG: bool = (B > 4)>`", NULL},
    {kernel_unbraced,   "what a kernel does stands in braces: `{ ... }`", NULL},
    {qualified,         "names are not qualified: what a file imports is there by its own name", NULL},
    {results_bare,      "several results stand in parentheses: `-> (f32[m], i32[m])`", NULL},
    {choices_bare,      "choices stand in brackets, `BM in [64, 128];`, or are a range, `stages in 2 .. 7;`", NULL},
    {choices_braced,    "choices stand in brackets, `BM in [64, 128];`, or are a range, `stages in 2 .. 7;`", NULL},
    {choices_assigned,  "choices are written `BM in [64, 128];`, what they depend on `key M, N;`", NULL},
    {shared_number,     "a number that several items share is what a function gives: `fn width() = 64;`, then `width()`", NULL},
    {arrow_of_kernel,   "a kernel has no result, and writes to its `out` parameters", NULL},
    {arrow_of_value,    "the type of a function value's result is found: `|x| x + 1`, or `|x| { let y = x; y }`", NULL},
    {arrow_of_script,   "function values are written `|x| x + 1`", NULL},
    {function_type,     "a function among the parameters is `f: fn`; among compile-time names `<F: fn>`", NULL},
    {mode_in,           "a tensor without a mode is read only: `x: f32[N]`", NULL},
    {half_choice,       "a choice has two values: `c ? a : b`", NULL},
    {inner_function,    "functions stand outside of others; a function value is `let f = |x| x + 1;`", NULL},
    {const_parameter,   "parameters are read only, unless they are `out` or `inout`; those in `<>` are known at compile time", NULL},
    {type_first,        "a parameter's name comes first: `x: f32[M, N]` for a tensor, `s: f32` for a number, `p: *f32` for a pointer", NULL},
    {cases_unlisted,    "a test's cases stand in brackets: `for N in [1, 100]`", NULL},
    {cast_to_tile,      "`as` takes an element type; a tile keeps its axes", NULL},
    {if_as_value,       "a choice is written `c ? a : b`", NULL},
    {grid_tile,         "how much of a range each program gets stands behind `by`: `grid (n in N by 256)`", NULL},
    {grid_unnamed,      "a grid is made of ranges that have names: `grid (n in N by 256)`", NULL},
    {schedule_bare,     "a schedule's words have values: `with (warps = 4, stages = 3)`", NULL},
    {where_of_function, "conditions of a function stand in its body: `static_assert(c, \"why\");`, or `assert` for what is known at run time", NULL},
    {result_colon,      "the type of a result stands behind an arrow: `fn f(x: f32) -> f32 { ... }`", NULL},
    {range_colon,       "a range is written `0 .. N`", NULL},
    {kind_in_where,     "what a `<>` name may be stands with it: `<T: float>`", NULL},
    {body_bare,         "what depends on a condition stands in braces: `{ ... }`", NULL},
    {block_colon,       "what belongs together stands in braces: `{ ... }`", NULL},
    {default_value,     "only compile-time names have defaults: `fn f<LO: int = 0>(x)`; two functions of one name may take different parameters", NULL},
    {index_default,     "what is read outside of the tensor is 0, or stands behind the index: `x[i] else 1`", NULL},
    {text_prefix,       "texts have no prefix, and no values in them: `print(\"x is\", x)`", NULL},
    {slice,             "a part of a dimension is an axis of its own: `let k = 0 .. 8;`, then `x[k]`", NULL},
    {generics_bracket,  "compile-time names stand in `<>`: `kernel scale<B = 128>(x: f32[N], ...)`", NULL},
    {cast_before,       "a conversion stands after the value: `x as f32`", NULL},
    {arrow_function,    "a function of one expression is `fn square(x: float) = x * x;`", NULL},
    {one_equals,        "equality is `==`", "=="},
    {word_or,           "logical or is `||`", "||"},
    {mode_before,       "`out`, `inout` and `strided` stand before the type: `y: out f32[N]`", NULL},
    {shape_twice,       "all dimensions stand in one pair of brackets: `f32[M, N]`", NULL},
    {else_of_value,     "`else` stands behind an index, and says what is read outside of the tensor: `x[i] else 1`; a choice is written `c ? a : b`", NULL},
    {parameters_joined, "a comma stands between parameters", NULL},
    {typed_assignment,  "`let` takes the type of its value; `var x: f32 = ...` states one, and `... as f32` converts", NULL},
};
// clang-format on

static bool hint_keyword(Diag *d, const Spot *s) {
    bool keyword = s->here->kind >= T_TRUE && s->here->kind <= T_STRIDED && !mode_in(s);
    if (keyword && takes(s, T_NAME) && !takes(s, T_INT))
        diag_note(d, "`%s` is a keyword and cannot be a name", token_info[s->here->kind].spelling);
    return keyword && takes(s, T_NAME) && !takes(s, T_INT);
}

static bool hint_rule(Diag *d, const Spot *s) {
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        if (!rules[i].when(s)) continue;
        diag_help(d, "%s", rules[i].help);
        if (rules[i].instead) diag_fix(d, s->here->span, rules[i].instead);
        return true;
    }
    return false;
}

// ---- pairs of tokens ------------------------------------------------------------------------------

typedef struct Habit { const char *before, *here, *help; } Habit;

static const Habit habits[] = {
    {"import", "NAME",  "a file's path stands in quotes: `import \"std/matmul.tk\";`"},
    {"weights", "NAME", "a file's path stands in quotes: `weights \"model.npz\";`"},
    {"test",   "NAME",  "a test has a name in quotes: `test \"rows\" { ... }`"},
    {"test",   "{",     "a test has a name in quotes: `test \"rows\" { ... }`"},
    {"tune",   "(",     "choices stand in an item of their own: `tune matmul { BM in [64, 128]; key M, N; }`"},
    {"key",    "=",     "the dimensions that a choice depends on are written `key M, N;`"},
    {"rel",    "=",     "bounds are written `within rel 1e-5, abs 1e-6`"},
    {"abs",    "=",     "bounds are written `within rel 1e-5, abs 1e-6`"},
    {"~",      "=",     "equality within bounds is `a ~ b within rel 1e-5`"},
    {"merge",  "{",     "`merge |a, b| ...` makes one state of those of two parts of the loop"},
    {"-",      ";",     "write `i -= 1`"},
    {"=",      "[",     "there are no lists: a row of a tensor is `x[n]`, several values are `(a, b)`"},
    {"grid",   "[",     "the grid's ranges stand in parentheses: `grid (m in M by BM)`"},
    {"->",     "NAME",  "a graph's results have names: `-> (y: f32[N])`"},
    {"->",     "(",     "a graph's results have names: `-> (y: f32[N])`"},
    {"..",     "<",     "a range ends before its second bound as it is: `0 .. n`"},
    {"..",     ".",     "a range is written `0 .. n`, and ends before its second bound"},
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
    {"(",      "[",     "a tensor's element has its name before it, `x[m, n]`; sizes are arguments, `random<f32>(4, 5)`, and lists `values<f32>((1, 2), (3, 4))`"},
    {",",      "[",     "a tensor's element has its name before it, `x[m, n]`; sizes are arguments, `random<f32>(4, 5)`, and lists `values<f32>((1, 2), (3, 4))`"},
    {"as",     "*",     "`as` takes an element type, or a pointer to one: `x as bf16`"},
};
// clang-format on

static bool fits(const Parser *p, const char *pattern, const Token *t) {
    if (strcmp(pattern, "ANY") == 0) return true;
    if (!t || t->kind == 0) return false;
    if (strcmp(pattern, "NAME") == 0) return t->kind == T_NAME;
    Str text = token_text(p, *t);
    return strlen(pattern) == text.n && memcmp(pattern, text.p, text.n) == 0;
}

void hint(const Parser *p, Diag *d, uint32_t at) {
    const Token *here = &p->tokens.at[at], *before = at ? here - 1 : NULL;
    const Spot spot = {p, before, here};
    if (hint_keyword(d, &spot) || hint_rule(d, &spot) || hint_foreign(p, d, before, here) ||
        hint_misspelled(p, d, before, here))
        return;
    for (size_t i = 0; i < sizeof habits / sizeof *habits; i++) {
        if (!fits(p, habits[i].before, before) || !fits(p, habits[i].here, here)) continue;
        diag_help(d, "%s", habits[i].help);
        return;
    }
}
