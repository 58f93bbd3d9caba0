// What may be meant by a name that is not there: what the same is called here, the file of the library
// that has it, or a name that is spelled almost the same. The parser's table (advice.c) has the words that
// may stand anywhere, this one functions of Triton, CUDA and NumPy, some of them for a kind of item only.
#include "sema/internal.h"

#include "lang/std_embed.h"
#include "parser/parser.h"

#include <string.h>

typedef struct Foreign { const char *theirs, *ours; } Foreign;      // several words, with a space between them

static const Foreign foreign[] = {
    // numbers
    {"rand randint rand4x uniform bernoulli seed random", "numbers of a seed and a place are in \"std/random.tk\": `random_uniform(seed, n)`, `random_bits(seed, n)`"},
    {"randn randn_like normal gaussian", "numbers of a seed and a place are in \"std/random.tk\": `random_normal(seed, n)`"},
    {"dropout",       "write `where(random_uniform(seed, n) >= p, x / (1 - p), 0)`, with \"std/random.tk\", which has a kernel of that name, too"},
    {"powf powr",     "write `pow(x, y)`, or, where y is a number, `square(x)` and `x * x * x`"},
    {"log10",         "write `log(x) * 0.4342944819`"},
    {"exp10",         "write `exp2(x * 3.3219280949)`"},
    {"cbrt",          "write `sign(x) * exp2(log2(abs(x)) / 3)`"},
    {"expf",          "write `exp(x)`"},
    {"sqrtf",         "write `sqrt(x)`"},
    {"fabs fabsf",    "write `abs(x)`"},
    {"hypot",         "write `sqrt(x * x + y * y)`"},
    {"sincos",        "write `sin(x)` and `cos(x)`"},
    {"copysign",      "write `where(y < 0, -abs(x), abs(x))`"},
    {"rint nearbyint round_half_even", "`round(x)` takes halves to the even number"},
    {"frac fract",    "write `x - floor(x)`"},
    {"mod remainder floor_mod", "of integers write `a % b`, which floors; of floats `mod_floor` or `mod_trunc` of \"std/elementary.tk\""},
    {"fmodf frem",    "write `fmod(x, y)`"},
    {"floordiv floor_div floor_divide divmod", "`a / b` and `a % b` of integers round down"},
    {"erfc",          "write `1 - erf(x)`"},
    {"isinf",         "write `abs(x) == inf`"},
    {"isfinite",      "write `abs(x) < inf`"},
    {"isclose",       "write `abs(a - b) <= atol + rtol * abs(b)`"},
    {"nan_to_num",    "write `where(isnan(x), 0, x)`"},
    {"__fdividef fdiv", "write `a / b`"},
    {"__frcp_rn",     "write `precise(1 / x)`"},
    {"__fmaf_rn",     "write `fma(a, b, c)`"},
    {"__saturatef saturate", "write `clamp(x, 0, 1)`"},
    {"clip",          "write `clamp(x, lo, hi)`"},
    {"swish",         "write `silu(x)`"},
    {"hardswish",     "it is `hard_swish` of \"std/activation.tk\""},
    {"fmaxf fmax maximum", "write `max(a, b)`"},
    {"fminf fmin minimum", "write `min(a, b)`"},
    {"static_cast",   "convert with `as`: `x as f32`"},
    {"reinterpret_cast", "bits are kept by `bitcast<i32>(x)`"},
    {"__float_as_int __float_as_uint", "write `bitcast<i32>(x)`"},
    {"__int_as_float __uint_as_float", "write `bitcast<f32>(x)`"},
    {"popc __popc bit_count __builtin_popcount", "it is `popcount` of \"std/elementary.tk\""},
    {"clz __clz",     "it is `leading_zeros` of \"std/elementary.tk\""},
    {"ctz ffs __ffs", "it is `trailing_zeros` of \"std/elementary.tk\", where `ffs` counts from 1"},
    {"brev __brev bit_reverse", "swap neighbouring bits, pairs, fours: `v = (v >> 1 & 0x55555555) | (v & 0x55555555) << 1;` and so on"},
    {"mulhi mul_hi umulhi __mulhi __umulhi", "write `(a as u64 * b as u64 >> 32) as u32`"},
    {"rotl rotr __funnelshift_l", "write `x << k | x >> (32 - k)` of a u32"},
    {"FLT_MAX",       "write `inf`, or 3.4028234663852886e38"},
    {"DBL_MAX",       "write `inf`, or 1.7976931348623157e308"},
    {"FLT_EPSILON",   "write 1.1920929e-7"},
    {"INT_MAX INT32_MAX", "write 2147483647"},
    {"INT_MIN INT32_MIN", "write -2147483648"},
    {"M_PI pi",       "write `PI`"},
    {"INFINITY",      "write `inf`"},
    {"NAN",           "write `nan`"},
    {"float",         "element types are f16, bf16, f32, f64; a value converts by `x as f32`, and infinity is `inf`"},
    // choices
    {"logical_and",   "write `a && b`"},
    {"logical_or",    "write `a || b`"},
    {"logical_not",   "write `!a`"},
    {"if_else choose cond masked_fill", "write `where(c, a, b)`, or `c ? a : b`"},
    // along an axis
    {"topk argsort sort_by_key", "write `sort(x, n over n, descending = true)`: values and places, the first K of them are the K greatest; `top_k` of \"std/scan.tk\" takes long rows"},
    {"median quantile percentile", "sort, and take the place: `take(sort(x over n), (N - 1) / 2 over n)`"},
    {"unique",        "sort; `s != take(s, n - 1 over n)` begins a run, and `cumsum` of that counts them"},
    {"exclusive_scan exclusive_sum", "write `cumsum(x over n, exclusive = true)`"},
    {"inclusive_scan cumulative_sum prefix_sum inclusive_sum", "write `cumsum(x over n)`; there are `cumprod`, `cummax` and `cummin`, too"},
    {"associative_scan", "write `scan(|a, b| a * b, x over n)`; there are `cumsum`, `cumprod`, `cummax` and `cummin`, too"},
    {"reduce reduce_sum warp_reduce block_reduce warpReduceSum __shfl_down_sync __shfl_xor_sync sum_all total nansum", "write `sum(x over n)`; there are `max`, `min`, `prod`, `any`, `every`, `mean`, `argmax` and `argmin`, too"},
    {"reduce_max amax nanmax",  "write `max(x over n)`"},
    {"reduce_min amin nanmin",  "write `min(x over n)`"},
    {"all all_of",    "write `every(c over n)`"},
    {"none_of",       "write `!any(c over n)`"},
    {"average avg",   "write `mean(x over n)`"},
    {"var variance std stddev var_mean", "`mean_var(x, n)` of \"std/norm.tk\" gives the mean and the variance along n"},
    {"norm vector_norm", "write `sqrt(sum(x * x over n))`"},
    {"count_nonzero ballot __ballot_sync", "count with `sum((x != 0) as i32 over n)`"},
    {"histogram bincount", "a count for each value is `atomic_add(h[x[n]], 1)`"},
    {"nonzero masked_select compact compress boolean_mask", "places are a running count: `cumsum(c as i32 over n, exclusive = true)`; what is stored to -1 is skipped: `y[c ? at : -1] = x;`"},
    {"diff",          "write `x - take(x, n - 1 over n)`, or index twice: `x[n] - x[n - 1]`"},
    {"gather",        "write `take(x, i over n)`, or index the tensor itself: `x[i[n]]`"},
    {"scatter",       "store by an index: `y[i[n]] = x[n];`"},
    {"scatter_add index_add", "write `atomic_add(y[i[n]], x[n])`"},
    {"roll",          "write `take(x, (n + 1) % N over n)`"},
    {"flip",          "write `take(x, N - 1 - n over n)`"},
    {"shfl __shfl_sync __shfl_up_sync", "write `take(x, n + 1 over n)`"},
    {"einsum",        "write `dot(a, b over k)`, or `sum(a * b over k)`"},
    {"bmm baddbmm",   "write `dot(a, b over k)`: other axes that both have are its batch"},
    {"mm addmm inner dot_product dotproduct vdot", "write `dot(a, b over k)`"},
    {"matmul",        "write `dot(a, b over k)`, or `import \"std/matmul.tk\"`"},
    {"outer",         "axes that only one side has are both there: `a[m] * b[n]`"},
    // shapes
    {"len",           "lengths have names, those of the dimensions in the tensor's type; `length(n)` is an axis's"},
    {"sizeof",        "nothing here counts bytes"},
    {"ceildiv ceil_div", "write `cdiv(a, b)`"},
    {"next_power_of_2 next_power_of_two", "write `next_pow2(n)`"},
    {"zeros_like empty_like", "write `zeros(m, n)`, with the axes of the tile"},
    {"full_like",     "write `full(v, m, n)`, with the axes of the tile"},
    {"empty",         "write `zeros(m, n)`: a tile has values from the start"},
    {"eye",           "write `where(i == j, 1.0, 0.0)`"},
    {"tril",          "write `where(n <= m, x, 0)`"},
    {"triu",          "write `where(n >= m, x, 0)`"},
    {"concat cat hstack vstack concatenate", "write `where(n < N, a[n], b[n - N])` over an axis of both lengths"},
    {"stack join interleave", "store each to its place: `y[n, 0] = a; y[n, 1] = b;`, or `y[2 * n] = a; y[2 * n + 1] = b;`"},
    {"split chunk unbind", "index each part: `x[n]` and `x[n + N / 2]`"},
    {"repeat tile",   "index with a remainder: `x[n % N]`"},
    {"repeat_interleave", "index with a quotient: `x[n / R]`"},
    {"pad",           "an index outside of the tensor gives 0, or what stands behind `else`: `x[n - left] else v`"},
    {"squeeze",       "a tile has no axes of one element: a tensor is indexed with a number, `x[m, 0]`"},
    {"unsqueeze expand_dims expand broadcast", "tiles align by their axes; there is nothing to expand"},
    {"broadcast_to",  "tiles align by their axes; `full(v, m, n)` makes one of given axes"},
    {"permute transpose trans swapaxes moveaxis", "index a tensor in the order of its dimensions; tiles have no order to transpose"},
    {"reshape view flatten ravel", "make an axis over the product and divide its index"},
    {"make_block_ptr", "index the tensor with axes: `x[m, k]`"},
    {"range",         "a loop is `for i in 0 .. n { ... }`, an axis `let n = 0 .. N by 128;`"},
    {"static_range",  "write `for i in 0 .. 4 { ... }`"},
    // modules
    {"math",          "there is no `math` module; functions are called by name: `exp(x)`"},
    {"jnp",           "there is no `jnp` module; functions are called by name: `exp(x)`, `sum(x over n)`"},
    {"libdevice",     "there is no `libdevice` module; functions are called by name: `exp(x)`, `erf(x)`"},
    // programs, memory
    {"printf device_print", "write `print(\"words\", x)`"},
    {"__ldg",         "index the tensor: `x[i]`"},
    {"assume",        "what must hold of dimensions stands behind `where`, and is checked at the launch: `where N % 4 == 0`"},
    {"barrier sync sync_threads syncthreads debug_barrier", "barriers are inserted by the compiler"},
    {"wait",          "copies are waited for by the compiler"},
    {"async_copy memcpy_async", "a load is a copy ahead of its use where the compiler finds that it pays: `x[m, k]`"},
    {"num_programs",  "the grid names its programs: `grid (m in M by 128)`"},
    {"swizzle2d",     "the order of programs is the compiler's: `grid (m in M by BM, n in N by BN)`"},
    {"atomicAdd",     "write `atomic_add(x[i], v)`"},
    {"atomicMax",     "write `atomic_max(x[i], v)`"},
    {"atomicMin",     "write `atomic_min(x[i], v)`"},
    {"atomicExch",    "write `atomic_xchg(x[i], v)`"},
    {"atomicCAS",     "write `atomic_cas(x[i], expected, v)`"},
    {"atomic_inc atomicInc", "write `atomic_add(x[i], 1)`"},
    {"atomic_sub atomicSub", "write `atomic_add(x[i], -v)`"},
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
        if (text_among((Str){name->s, name->n}, foreign[i].theirs)) ours = foreign[i].ours;
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

// `logsumexp` and `LogSumExp` for `log_sum_exp`.
static bool spelled_alike(const char *theirs, const char *ours, size_t n) {
    const char *end = ours + n;
    for (;; theirs++, ours++) {
        while (*theirs == '_') theirs++;
        while (ours < end && *ours == '_') ours++;
        int t = *theirs >= 'A' && *theirs <= 'Z' ? *theirs - 'A' + 'a' : *theirs;
        if (!t || ours == end) return !t && ours == end;
        if (t != *ours) return false;
    }
}

typedef struct Found { const char *file, *name; size_t n; } Found;             // name is NULL if nothing is

// An item of the library that begins with `head`, "\nfn " or "\nkernel "; one of the very name before one spelled alike.
static Found library_item(Sym name, const char *head) {
    Found alike = {0};
    for (int i = 0; name->s[0] != '_' && std_name(i); i++) {
        size_t size, skip = strlen(head);
        const char *text = std_source(std_name(i), &size);
        for (const char *at = text; (at = strstr(at, head)) != NULL; at += skip) {
            size_t n = strcspn(at + skip, "(<");
            if (at[skip] == '_') continue;
            Found found = {std_name(i), at + skip, n};
            if (n == name->n && memcmp(at + skip, name->s, n) == 0) return found;
            if (!alike.name && spelled_alike(name->s, at + skip, n)) alike = found;
        }
    }
    return alike;
}

// A function that is not imported, or a kernel, which only graphs and tests launch.
static bool suggest_library(Check *c, Diag *d, Sym name, Span at) {
    Found fn = library_item(name, "\nfn "), kernel = fn.name ? fn : library_item(name, "\nkernel ");
    bool imported = strcmp(kernel.file ? kernel.file : "", "prelude.tk") == 0;
    if (!kernel.name) return false;
    bool same = kernel.n == name->n && memcmp(kernel.name, name->s, name->n) == 0;
    int n = (int)kernel.n;
    if (imported && !same) offer(d, (Guess){arena_printf(c->a, "%.*s", n, kernel.name), 0}, at);
    else if (same && (fn.name || in_item(c, N_test) || in_item(c, N_graph))) diag_help(d, "it is in the library: `import \"std/%s\";`", kernel.file);
    else if (fn.name) diag_help(d, "`%.*s` is in the library: `import \"std/%s\";`", n, kernel.name, kernel.file);
    else diag_help(d, "the library has a kernel `%.*s`, in \"std/%s\", that a graph launches and `tkc run` runs: `tkc run std/%.*s --kernel=%.*s`", n, kernel.name, kernel.file, (int)strcspn(kernel.file, "."), kernel.file, n, kernel.name);
    return true;
}

static bool all_capitals(Sym name) {
    for (const char *p = name->s; *p; p++)
        if (!(*p == '_' || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9'))) return false;
    return true;
}

// The tensor `x` for `X`, the dimension `N` for `n` (an index `n` that is not there is an axis that was not made).
static const char *other_case(const Check *c, Sym name) {
    bool capital = all_capitals(name);
    for (const Scope *sc = c->scope; sc && (capital || !c->at_index); sc = sc->up)
        for (const Bind *b = sc->first; b; b = b->next)
            if (b->name->n == name->n && (b->ent.kind == EN_tensor ? capital && same_word(name->s, b->name->s) : b->ent.kind == EN_value && same_word(b->name->s, name->s)))
                return b->name->s;
    return NULL;
}

void suggest_name(Check *c, Diag *d, Sym name, Span at) {
    if (advise(c, d, name, at)) return;
    if (name->n <= 1) {
        const char *other = other_case(c, name);
        if (other) offer(d, (Guess){other, 0}, at);
        else if (all_capitals(name))
            diag_help(d, "a compile-time name is declared with its kernel or function: `<%s = 128>`", name->s);
        else if (c->at_index && c->k->decl && c->k->decl->kind == N_kernel)
            diag_help(
                d,
                "an axis or index is named by the grid, `grid (%s in N by 128)`, by a loop, or by `let %s = 0 .. N by 128;`",
                name->s, name->s);
        return;
    }
    if (suggest_library(c, d, name, at)) return;
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
