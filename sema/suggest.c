// What may be meant by a name that is not there: what the same is called here, the file of the library
// that has it, or a name that is spelled almost the same. The parser's table (advice.c) has the words that
// may stand anywhere, this one functions of Triton, CUDA and NumPy, some of them for a kind of item only.
#include "sema/internal.h"

#include "lang/std_embed.h"
#include "parser/parser.h"

#include <string.h>

typedef struct Foreign { const char *theirs, *ours; } Foreign;

static const Foreign foreign[] = {
    {"rand",          "a kernel computes its random numbers, from a seed and the index, in u32 or u64"},
    {"randn",         "a kernel computes its random numbers, from a seed and the index, in u32 or u64"},
    {"gather",        "write `take(x, i over n)`, or index the tensor itself: `x[i[n]]`"},
    {"roll",          "write `take(x, (n + 1) % N over n)`"},
    {"flip",          "write `take(x, N - 1 - n over n)`"},
    {"math",          "there is no `math` module; functions are called by name: `exp(x)`"},
    {"jnp",           "there is no `jnp` module; functions are called by name: `exp(x)`, `sum(x over n)`"},
    {"libdevice",     "there is no `libdevice` module; functions are called by name: `exp(x)`, `erf(x)`"},
    {"len",           "lengths have names, those of the dimensions in the tensor's type; `length(n)` is an axis's"},
    {"sizeof",        "nothing here counts bytes"},
    {"ceildiv",       "write `cdiv(a, b)`"},
    {"ceil_div",      "write `cdiv(a, b)`"},
    {"clip",          "write `clamp(x, lo, hi)`"},
    {"fmod",          "write `x - trunc(x / y) * y`"},
    {"isinf",         "write `abs(x) == inf`"},
    {"zeros_like",    "write `zeros(m, n)`, with the axes of the tile"},
    {"full_like",     "write `full(v, m, n)`, with the axes of the tile"},
    {"eye",           "write `where(i == j, 1.0, 0.0)`"},
    {"tril",          "write `where(n <= m, x, 0)`"},
    {"triu",          "write `where(n >= m, x, 0)`"},
    {"einsum",        "write `dot(a, b over k)`, or `sum(a * b over k)`"},
    {"bmm",           "write `dot(a, b over k)`: other axes that both have are its batch"},
    {"concat",        "write `where(n < N, a[n], b[n - N])` over an axis of both lengths"},
    {"cat",           "write `where(n < N, a[n], b[n - N])` over an axis of both lengths"},
    {"static_range",  "write `for i in 0 .. 4 { ... }`"},
    {"make_block_ptr", "index the tensor with axes: `x[m, k]`"},
    {"associative_scan", "`cumsum`, `cumprod`, `cummax`, `cummin`, or a loop of `take`, as in docs/language.md"},
    {"printf",        "write `print(\"words\", x)`"},
    {"shfl",          "write `take(x, n + 1 over n)`"},
    {"__shfl_sync",   "write `take(x, n + 1 over n)`"},
    {"__ldg",         "index the tensor: `x[i]`"},
    {"static_cast",   "convert with `as`: `x as f32`"},
    {"reinterpret_cast", "bits are kept by `bitcast<i32>(x)`"},
    {"__float_as_int", "write `bitcast<i32>(x)`"},
    {"__int_as_float", "write `bitcast<f32>(x)`"},
    {"FLT_MAX",       "write `inf`, or 3.4028234663852886e38"},
    {"DBL_MAX",       "write `inf`, or 1.7976931348623157e308"},
    {"FLT_EPSILON",   "write 1.1920929e-7"},
    {"M_PI",          "write `PI`"},
    {"barrier",       "barriers are inserted by the compiler"},
    {"sync",          "barriers are inserted by the compiler"},
    {"sync_threads",  "barriers are inserted by the compiler"},
    {"wait",          "copies are waited for by the compiler"},
    {"async_copy",    "a load is a copy ahead of its use where the compiler finds that it pays: `x[m, k]`"},
    {"memcpy_async",  "a load is a copy ahead of its use where the compiler finds that it pays: `x[m, k]`"},
    {"range",         "an axis is made by a range: `let n = 0 .. N by 128`"},
    {"num_programs",  "the grid names its programs: `grid (m in M by 128)`"},
    {"syncthreads",   "barriers are inserted by the compiler"},
    {"debug_barrier", "barriers are inserted by the compiler"},
    {"expf",          "write `exp(x)`"},
    {"sqrtf",         "write `sqrt(x)`"},
    {"fabs",          "write `abs(x)`"},
    {"hypot",         "write `sqrt(x * x + y * y)`"},
    {"sincos",        "write `sin(x)` and `cos(x)`"},
    {"copysign",      "write `where(y < 0, -abs(x), abs(x))`"},
    {"__fdividef",    "write `a / b`"},
    {"__frcp_rn",     "write `precise(1 / x)`"},
    {"__fmaf_rn",     "write `fma(a, b, c)`"},
    {"__saturatef",   "write `clamp(x, 0, 1)`"},
    {"swizzle2d",     "the order of programs is the compiler's: `grid (m in M by BM, n in N by BN)`"},
    {"logical_and",   "write `a && b`"},
    {"logical_or",    "write `a || b`"},
    {"logical_not",   "write `!a`"},
    {"empty",         "write `zeros(m, n)`: a tile has values from the start"},
    {"empty_like",    "write `zeros(m, n)`, with the axes of the tile"},
    {"squeeze",       "a tile has no axes of one lane: a tensor is indexed with a number, `x[m, 0]`"},
    {"unsqueeze",     "tiles align by their axes; there is nothing to expand"},
    {"permute",       "index a tensor in the order of its dimensions; tiles have no order to transpose"},
    {"fmaxf",         "write `max(a, b)`"},
    {"fminf",         "write `min(a, b)`"},
    {"maximum",       "write `max(a, b)`"},
    {"minimum",       "write `min(a, b)`"},
    {"atomicAdd",     "write `atomic_add(x[i], v)`"},
    {"matmul",        "write `dot(a, b over k)`, or `import \"std/matmul.tk\"`"},
    {"pow",           "write `square(x)`, `x * x * x`, or `power(x, y)` of \"std/elementary.tk\""},
    {"transpose",     "index a tensor in the order of its dimensions; tiles have no order to transpose"},
    {"trans",         "index a tensor in the order of its dimensions; tiles have no order to transpose"},
    {"reshape",       "make an axis over the product and divide its index"},
    {"expand_dims",   "tiles align by their axes; there is nothing to expand"},
    {"broadcast_to",  "tiles align by their axes; `full(v, m, n)` makes one of given axes"},
    {"float",         "element types are f16, bf16, f32, f64; a value converts by `x as f32`, and infinity is `inf`"},
    {"char",          "write `i8`"},
    {"INFINITY",      "write `inf`"},
    {"NAN",           "write `nan`"},
};

typedef struct Local { NodeKind item; const char *theirs, *ours; } Local;      // what it is called in such items

static const Local local[] = {
    {N_test, "rand",            "random numbers are `random<f32>(M, N)`, those of a range `random<f32>(M, N, lo = 0, hi = 1)`"},
    {N_test, "randn",           "random numbers are `random<f32>(M, N)`, those of a range `random<f32>(M, N, lo = 0, hi = 1)`"},
    {N_test, "uniform",         "random numbers of a range are `random<f32>(M, N, lo = 0, hi = 1)`"},
    {N_test, "arange",          "numbers that count up are `iota<i32>(N)`"},
    {N_test, "tensor",          "listed values are `values<f32>((1, 2), (3, 4))`"},
    {N_test, "array",           "listed values are `values<f32>((1, 2), (3, 4))`"},
    {N_test, "allclose",        "write `expect a ~ b within rel 1e-5, abs 1e-6;`"},
    {N_test, "assert_allclose", "write `expect a ~ b within rel 1e-5, abs 1e-6;`"},
    {N_test, "assert_close",    "write `expect a ~ b within rel 1e-5, abs 1e-6;`"},
    {N_graph, "weights",         "a weight is `weight(\"name\")`; `weights \"file\";` says where they are"},
    {N_graph, "transpose",       "a transpose is a launch: `kernel transpose(x: f32[M, N], y: out f32[N, M]) ...`"},
    {N_graph, "view",            "write `reshape(x, M, N)`"},
    {N_graph, "flatten",         "write `reshape(x, M * N)`"},
};

typedef struct Guess { const char *name; int distance; } Guess;

// `__expf`, `Relu`: the same word with what CUDA puts around it, or in other letters.
static bool same_word(const char *have, const char *name) {
    while (*have == '_' && *name != '_') have++;
    for (; *have && *name; have++, name++) {
        int h = *have >= 'A' && *have <= 'Z' ? *have - 'A' + 'a' : *have;
        if (h != *name) return false;
    }
    return !*name && (!*have || strcmp(have, "f") == 0 || strcmp(have, "_rn") == 0);
}

static void consider(Guess *g, const char *have, const char *name) {
    int d = same_word(have, name) ? 0 : edit_distance(have, name);
    if (d < g->distance) *g = (Guess){name, d};
}

static Guess guess_for(Sym name) {                       // a distance below this is a guess worth making
    return (Guess){NULL, name->n <= 4 ? 2 : name->n <= 7 ? 3 : 4};
}

static bool advise(Check *c, Diag *d, Sym name, Span at) {
    const char *ours = NULL, *instead = NULL;
    for (size_t i = 0; !ours && i < sizeof local / sizeof *local; i++) {
        if (in_item(c, local[i].item) && strcmp(local[i].theirs, name->s) == 0) ours = local[i].ours;
    }
    if (!ours) ours = foreign_spelling((Str){name->s, name->n}, &instead);
    for (size_t i = 0; !ours && i < sizeof foreign / sizeof *foreign; i++) {
        if (strcmp(foreign[i].theirs, name->s) == 0) ours = foreign[i].ours;
    }
    if (ours) diag_help(d, "%s", ours);
    if (ours && instead) diag_fix(d, at, instead);
    return ours;
}

static void offer(Diag *d, Guess g, Span at) {
    if (!g.name) return;
    diag_help(d, "did you mean `%s`?", g.name);
    diag_fix(d, at, g.name);
}

// A function of the library that is not imported: the file that declares it.
static const char *library_file(Sym name) {
    for (int i = 0; name->s[0] != '_' && std_name(i); i++) {
        size_t size;
        const char *text = std_source(std_name(i), &size);
        for (const char *at = text; (at = strstr(at, "\nfn ")) != NULL; at += 4)
            if (strncmp(at + 4, name->s, name->n) == 0 && (at[4 + name->n] == '(' || at[4 + name->n] == '<'))
                return std_name(i);
    }
    return NULL;
}

static bool all_capitals(Sym name) {
    for (const char *p = name->s; *p; p++)
        if (!(*p == '_' || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9'))) return false;
    return true;
}

void suggest_name(Check *c, Diag *d, Sym name, Span at) {
    if (advise(c, d, name, at)) return;
    if (name->n <= 1) {
        if (all_capitals(name))
            diag_help(d, "a compile-time name is declared with its kernel or function: `<%s = 128>`", name->s);
        else if (c->at_index && c->k->decl && c->k->decl->kind == N_kernel)
            diag_help(
                d,
                "an axis or index is named by the grid, `grid (%s in N by 128)`, by a loop, or by `let %s = 0 .. N by 128;`",
                name->s, name->s);
        return;
    }
    const char *file = library_file(name);
    if (file) {
        diag_help(d, "it is in the library: `import \"std/%s\";`", file);
        return;
    }
    Guess g = guess_for(name);
    for (const Scope *sc = c->scope; sc; sc = sc->up) {
        for (const Bind *b = sc->first; b; b = b->next)
            // in an instance: what is wrong itself
            if (b->ent.kind != EN_error || !c->k->decl) consider(&g, name->s, b->name->s);
    }
    for (int i = 0; i < builtin_count(); i++) consider(&g, name->s, builtin_name_at(i));
    offer(d, g, at);
    if (!g.name && all_capitals(name))
        diag_help(d, "a compile-time name is declared with its kernel or function: `<%s = 128>`", name->s);
}

void suggest_type(Check *c, Diag *d, Sym name, Span at) {
    if (advise(c, d, name, at)) return;
    if (name->n <= 1) {
        if (all_capitals(name)) diag_help(d, "a type that the caller chooses is declared in `<>`: `<%s: type>`", name->s);
        return;
    }
    Guess g = guess_for(name);
    for (const Scope *sc = c->scope; sc; sc = sc->up) {
        for (const Bind *b = sc->first; b; b = b->next) {
            if (b->ent.kind == EN_type) consider(&g, name->s, b->name->s);
        }
    }
    for (int e = EL_none + 1; e < EL_COUNT; e++) consider(&g, name->s, elem_name((Elem)e));
    offer(d, g, at);
}

// `scle = 2` of a function that has `scale`.
void suggest_param(Check *c, Diag *d, const Node *item, const Node *arg) {
    const Node *ps = item->kid[1];
    Guess g = guess_for(arg->sym);
    Buf names = {0};
    for (uint32_t i = 0; ps && i < ps->nkid; i++) {
        const Node *p = ps->kid[i];
        if (!p->sym || (item->kind != N_fn && p->flags & PARAM_OUT)) continue;
        consider(&g, arg->sym->s, p->sym->s);
        buf_printf(&names, "%s`%s`", names.n ? ", " : "", p->sym->s);
    }
    Span at = {arg->span.lo, arg->span.lo + (Pos)arg->sym->n};
    Str text = span_text(c->s, at);
    if (g.name && text.n == arg->sym->n && memcmp(text.p, arg->sym->s, text.n) == 0) offer(d, g, at);
    else if (names.n) diag_help(d, "it has %s", names.p);
    buf_free(&names);
}

// `num_warps = 4`
void suggest_schedule_word(Diag *d, Sym word) {
    const char *have = strncmp(word->s, "num_", 4) == 0 ? word->s + 4 : word->s;
    Guess g = guess_for(word);
    Buf words = {0};
    for (int i = 0; i < schedule_field_count; i++) {
        consider(&g, have, schedule_fields[i].name);
        buf_printf(&words, "%s`%s`", i ? ", " : "", schedule_fields[i].name);
    }
    if (g.name) diag_help(d, "did you mean `%s`?", g.name);
    else diag_help(d, "the schedule's words are %s", words.p);
    buf_free(&words);
}
