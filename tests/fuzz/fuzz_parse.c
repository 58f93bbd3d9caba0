// Fuzzing the front of the compiler: no text may crash lexer, parser, or the printing of trees and
// messages, and no tree may come out whose spans are out of order.
//
// Bytes alone rarely get past the lexer, so two of three mutations work on tokens: they drop, double,
// swap, replace and splice whole tokens, with words taken from the language.
//
//     fuzz_parse -dict=... corpus/ tests/parse tests/diag

#define _GNU_SOURCE
#include "lang/ast.h"
#include "parser/tokens.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out, size_t max, unsigned seed);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

static void check_tree(const Node *n, Span around)
{
    if (n->span.lo > n->span.hi || n->span.lo < around.lo || n->span.hi > around.hi) ice("%s: span out of its parent's", node_names[n->kind]);
    if (n->kind >= N_COUNT || n->op >= OP_COUNT) ice("no such node");
    for (uint32_t i = 0; i < n->nkid; i++) {
        const Node *k = n->kid[i];
        if (!k) continue;
        if (k->depth >= n->depth) ice("%s: depth", node_names[n->kind]);
        if (k->kind == N_list && k->nkid == 0) continue;
        check_tree(k, n->span);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Session *s = session_new();
    const Source *src = source_add(s, "fuzz.tk", (const char *)data, size);
    Node *file = parse_file(s, src);
    check_tree(file, file->span);
    Buf out = {0};
    ast_print(s, file, &out);
    int errors = diag_errors(s);
    if (errors == 0 && file->nkid == 0 && size > 0 && memchr(data, '{', size) && !memchr(data, '/', size)) ice("a file of something is a file of nothing");
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    diag_print(s, f, (DiagStyle)(size % 3), size & 1);
    fclose(f);
    if (errors && n == 0) ice("errors that nobody sees");
    free(text);
    if (size < 4096) tokens_print(s, src, &out);
    buf_free(&out);
    session_free(s);
    return 0;
}

// ---- mutation ------------------------------------------------------------------------------------

static const char *const words[] = {
#define X(kind, spelling, cls) spelling,
    TOKENS(X)
#undef X
    "x", "m", "M", "f32", "1", "0.5", "1e-3", "\"s\"", "f<", ">(", "|x|", "|m in M, k in K by 2|", "{ }", "( )", "[ ]", "\n", "// c\n", "/*", "*/",
    "let x = 3;", "y[m] = x[m];", "kernel k(x: f32[M]) grid (m in M) { }", "fn f(x: f32) = x;", "\nkernel", "\nfn", "else if", "\xff", "@", "..", "x[:, m]", "sum(x over m)",
};

static unsigned next(unsigned *rng) { return (*rng = *rng * 1664525u + 1013904223u) >> 8; }

static bool is_word_byte(uint8_t c) { return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); }

enum { MAX_CUTS = 4096 };

// Where tokens begin, roughly: words, and each other byte but blanks by itself.
static int cut(const uint8_t *p, size_t n, uint32_t *cuts)
{
    int k = 0;
    for (size_t i = 0; i < n && k < MAX_CUTS; i++) {
        bool blank = p[i] == ' ' || p[i] == '\n';
        if (!blank && !(i > 0 && is_word_byte(p[i]) && is_word_byte(p[i - 1]))) cuts[k++] = (uint32_t)i;
    }
    return k;
}

static size_t splice(const uint8_t *p, size_t n, size_t lo, size_t hi, const uint8_t *with, size_t wn, uint8_t *out, size_t max)
{
    if (lo + wn + (n - hi) + 2 > max) return 0;
    size_t o = 0;
    memcpy(out, p, lo), o += lo;
    if (wn) out[o++] = ' ', memcpy(out + o, with, wn), o += wn, out[o++] = ' ';
    memcpy(out + o, p + hi, n - hi);
    return o + n - hi;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    static uint32_t cuts[MAX_CUTS + 1];
    unsigned rng = seed;
    int k = cut(data, size, cuts);
    if (k == 0 || next(&rng) % 3 == 0) return LLVMFuzzerMutate(data, size, max);
    cuts[k] = (uint32_t)size;
    uint8_t *out = malloc(max + 1);
    if (!out) abort();
    int at = (int)(next(&rng) % (unsigned)k), run = 1 + (int)(next(&rng) % 4 == 0 ? next(&rng) % 12 : 0);
    int end = at + run < k ? at + run : k, other = (int)(next(&rng) % (unsigned)k), other_end = other + run < k ? other + run : k;
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

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t na, const uint8_t *b, size_t nb, uint8_t *out, size_t max, unsigned seed)
{
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
