// The parser on whole sources.
//
//     run_parse [--bless] FILE.tk...     FILE.ast holds its tree; if there is a FILE.tokens, its tokens instead
//     run_parse --accept FILE.tk...      these only have to parse without a message
//
// Whatever a file holds, two more things are asked of its tree: every span lies inside its parent's,
// and parsing the same text twice gives the same dump.

#define _GNU_SOURCE
#include "tests/golden.h"

#include "lang/ast.h"

static bool spans_nest(Session *s, const Node *n, const char *path) {
    bool ok = n->span.lo <= n->span.hi;
    for (uint32_t i = 0; i < n->nkid; i++) {
        const Node *k = n->kid[i];
        if (!k) continue;
        bool empty_list = k->kind == N_list && k->nkid == 0;
        if (!empty_list && (k->span.lo < n->span.lo || k->span.hi > n->span.hi)) {
            LineCol w = span_where(s, k->span.lo);
            printf("%s:%u:%u: %s reaches out of the %s around it\n", path, w.line, w.col, node_names[k->kind],
                   node_names[n->kind]);
            ok = false;
        }
        ok &= spans_nest(s, k, path);
    }
    return ok;
}

static char *dump(const char *path, const char *text, size_t n, bool tokens, char **messages, bool *nest) {
    Session *s = session_new();
    Buf out = {0};
    buf_puts(&out, "");
    const char *slash = strrchr(path, '/');
    const Source *src = source_add(s, slash ? slash + 1 : path, text, n);
    if (tokens) tokens_print(s, src, &out);
    else {
        Node *file = parse_file(s, src);
        *nest = spans_nest(s, file, path);
        ast_print(s, file, &out);
    }
    GOLDEN_CAPTURE(*messages, f, diag_print(s, f, DIAG_rich, false));
    session_free(s);
    return out.p;
}

static bool check_tokens(const char *path, const char *text, size_t n, bool bless) {
    char *golden = golden_path(path, ".tokens"), *messages;
    char *tokens = dump(path, text, n, true, &messages, NULL);
    bool ok = golden_check(golden, tokens, bless);
    heap_free(golden), heap_free(tokens), heap_free(messages);
    return ok;
}

static bool check_tree(const char *path, const char *text, size_t n, bool bless, bool accept) {
    char *messages, *again_messages;
    bool ok = true, nest = true;
    char *ast = dump(path, text, n, false, &messages, &nest), *again = dump(path, text, n, false, &again_messages, &nest);
    if (messages && *messages) printf("%s", messages), ok = false;
    if (strcmp(ast, again) != 0) printf("%s: two parses, two trees\n", path), ok = false;
    if (!accept) {
        char *golden = golden_path(path, ".ast");
        ok &= golden_check(golden, ast, bless);
        heap_free(golden);
    }
    heap_free(ast), heap_free(again), heap_free(messages), heap_free(again_messages);
    return ok && nest;
}

static bool check(const char *path, bool bless, bool accept) {
    size_t n = 0, unused;
    char *text = golden_read(path, &n);
    if (!text) { perror(path); return false; }
    char *golden = golden_path(path, ".tokens"), *tokens = golden_read(golden, &unused);
    bool ok = tokens ? check_tokens(path, text, n, bless) : check_tree(path, text, n, bless, accept);
    heap_free(golden), heap_free(tokens), heap_free(text);
    return ok;
}

int main(int argc, char **argv) {
    bool ok = true, bless = argc > 1 && strcmp(argv[1], "--bless") == 0,
         accept = argc > 1 && strcmp(argv[1], "--accept") == 0;
    for (int i = 1 + bless + accept; i < argc; i++) ok &= check(argv[i], bless, accept);
    return ok ? 0 : 1;
}
