// Mutations of texts, for all fuzzers of the language. Bytes alone rarely get past the lexer, so two of
// three work on tokens: they drop, double, swap, replace and splice whole tokens, with words taken from
// the language, and cross whole runs of one input into another.
#include "parser/tokens.h"
#include "sema/typed.h"

#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out, size_t max,
                                 unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

static const char *const words[] = {
#define X(kind, spelling, cls) spelling,
    TOKENS(X)
#undef X
#define X(name, ...) #name, #name "(x)",
    TFUNS(X)
#undef X
#define X(name) #name "(x over m)", "atomic_" #name "(y[m], x)",
    TREDUCES(X)
#undef X
#define X(name, ...) #name, "as " #name,
    ELEMS(X)
#undef X
    "x", "m", "M", "f32", "1", "0.5", "1e-3", "\"s\"", "f<", ">(", "|x|", "|m in M, k in K by 2|", "{ }", "( )", "[ ]", "\n", "// c\n", "/*", "*/",
    "let x = 3;", "y[m] = x[m];", "kernel k(x: f32[M]) grid (m in M) { }", "fn f(x: f32) = x;", "\nkernel", "\nfn", "else if", "\xff", "@", "..", "x[:, m]", "sum(x over m)",
    "kernel k<B = 16>(x: T[N], y: out T[N]) grid (n in N by B) { y[n] = x[n]; }", "let i, j = (m, n);", "var acc = 0.0;", "for k in K by 16 {", "while i < n {", "if m < M { } else { }",
    "break;", "continue;", "return;", "where N >= 1", "where N % 16 == 0", "dot(x[m, k], y[k, n])", "dot(a, b, precision = ieee)", "x as f16", "bitcast<u32>(x)", "m = j", "over (m, n)", "[m] else 0",
    "0 .. N by 4", "strided", "|a, b| a + b", "merge |a, b| a + b", "test \"t\" for N in [1, 2, 3] {", "expect y ~ x within rel 1e-3;", "random(f32[4, N])", "zeros(f32[N])", "next_pow2(N) or 64", "*f32",
    "0x7fffffffffffffff", "-1", "9223372036854775808", "1e400", "65536", "cdiv(N, 4)", "load(p, where = m < N, other = 0.0)", "store(p + m, x, where = m < N)", "rename(x, m, n)", "first(m)", "length(m)", "end(m)", "last(m)", "precise(x / y)", "zeros<f32>(m, n)", "full(1.0, m)", "where(m < N, x, 0.0)", "mean(x over m)", "log2(8)", "inf", "PI", "range(0, 16)", "static_assert(N > 0, \"s\");", "print(\"x\", x);", "assert(m < N);",
    "import \"std/norm.tk\";", "f<x = f32>(y)", "with (stages = 3)",
};

static unsigned next(unsigned *rng) { return (*rng = *rng * 1664525u + 1013904223u) >> 8; }

static bool is_word_byte(uint8_t c) { return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); }

enum { MAX_CUTS = 4096 };

// Where tokens begin, roughly: words, and each other byte but blanks by itself.
static int cut(const uint8_t *p, size_t n, uint32_t *cuts) {
    int k = 0;
    for (size_t i = 0; i < n && k < MAX_CUTS; i++) {
        bool blank = p[i] == ' ' || p[i] == '\n';
        if (!blank && !(i > 0 && is_word_byte(p[i]) && is_word_byte(p[i - 1]))) cuts[k++] = (uint32_t)i;
    }
    return k;
}

static size_t splice(const uint8_t *p, size_t n, size_t lo, size_t hi, const uint8_t *with, size_t wn, uint8_t *out,
                     size_t max) {
    if (lo + wn + (n - hi) + 2 > max) return 0;
    size_t o = 0;
    memcpy(out, p, lo), o += lo;
    if (wn) out[o++] = ' ', memcpy(out + o, with, wn), o += wn, out[o++] = ' ';
    memcpy(out + o, p + hi, n - hi);
    return o + n - hi;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed) {
    static uint32_t cuts[MAX_CUTS + 1];
    unsigned rng = seed;
    int k = cut(data, size, cuts);
    if (k == 0 || next(&rng) % 3 == 0) return LLVMFuzzerMutate(data, size, max);
    cuts[k] = (uint32_t)size;
    uint8_t *out = malloc(max + 1);
    if (!out) abort();
    int at = (int)(next(&rng) % (unsigned)k), run = 1 + (int)(next(&rng) % 4 == 0 ? next(&rng) % 12 : 0);
    int end = at + run < k ? at + run : k, other = (int)(next(&rng) % (unsigned)k),
        other_end = other + run < k ? other + run : k;
    const char *word = words[next(&rng) % (sizeof words / sizeof *words)];
    size_t n = 0;
    switch (next(&rng) % 5) {
    case 0: n = splice(data, size, cuts[at], cuts[end], NULL, 0, out, max); break;
    case 1: n = splice(data, size, cuts[at], cuts[at], (const uint8_t *)word, strlen(word), out, max); break;
    case 2: n = splice(data, size, cuts[at], cuts[end], (const uint8_t *)word, strlen(word), out, max); break;
    case 3: n = splice(data, size, cuts[at], cuts[at], data + cuts[other], cuts[other_end] - cuts[other], out, max); break;
    case 4: n = splice(data, size, cuts[at], cuts[end], data + cuts[other], cuts[other_end] - cuts[other], out, max); break;
    }
    if (n) memcpy(data, out, n);
    free(out);
    return n ? n : size;
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out, size_t max,
                                 unsigned seed) {
    static uint32_t ca[MAX_CUTS + 1], cb[MAX_CUTS + 1];
    unsigned rng = seed;
    int ka = cut(a, na, ca), kb = cut(b, nb, cb);
    if (ka == 0 || kb == 0) return 0;
    cb[kb] = (uint32_t)nb;
    int lo = (int)(next(&rng) % (unsigned)kb), hi = lo + 1 + (int)(next(&rng) % 40);
    if (hi > kb) hi = kb;
    size_t at = ca[next(&rng) % (unsigned)ka];
    return splice(a, na, at, at, b + cb[lo], cb[hi] - cb[lo], out, max);
}
