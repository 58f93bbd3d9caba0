// Fuzzing the front of the compiler: no text may crash lexer, parser, or the printing of trees and
// messages, and no tree may come out whose spans are out of order.
//
//     fuzz_parse -max_len=2000 FOUND tests/fuzz/corpus/language tests/parse tests/diag

#define _GNU_SOURCE
#include "lang/ast.h"
#include "parser/tokens.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_tree(const Node *n, Span around) {
    if (n->span.lo > n->span.hi || n->span.lo < around.lo || n->span.hi > around.hi)
        ice("%s: span out of its parent's", node_names[n->kind]);
    if (n->kind >= N_COUNT || n->op >= OP_COUNT) ice("no such node");
    for (uint32_t i = 0; i < n->nkid; i++) {
        const Node *k = n->kid[i];
        if (!k) continue;
        if (k->depth >= n->depth) ice("%s: depth", node_names[n->kind]);
        if (k->kind == N_list && k->nkid == 0) continue;
        check_tree(k, n->span);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    Session *s = session_new();
    const Source *src = source_add(s, "fuzz.tk", (const char *)data, size);
    Node *file = parse_file(s, src);
    check_tree(file, file->span);
    Buf out = {0};
    ast_print(s, file, &out);
    int errors = diag_errors(s);
    if (errors == 0 && file->nkid == 0 && size > 0 && memchr(data, '{', size) && !memchr(data, '/', size))
        ice("a file of something is a file of nothing");
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
