// The syntax tree: making nodes, and the dump behind --emit=ast.
//
// Both work from the rows of NODES. A row's children say the role of each kid, and the dump prints
// it before the kid, so that absent children need no line:
//
//     binary + @1:1-1:6
//       left: name a @1:1-1:2
//       right: name b @1:5-1:6

#include "lang/ast.h"

#include <string.h>

const char *const node_names[N_COUNT] = {
#define X(kind, kids, meaning) [N_##kind] = #kind,
    NODES(X)
#undef X
};

const char *const op_spellings[OP_COUNT] = {
#define X(name, spelling) [OP_##name] = spelling,
    OPS(X)
#undef X
};

static const char *const kid_roles[N_COUNT] = {
#define X(kind, kids, meaning) [N_##kind] = kids,
    NODES(X)
#undef X
};

static Node *node_make(Session *s, NodeKind kind, Span span, int nkid) {
    Node *n = arena_alloc(session_arena(s), sizeof(Node) + sizeof(Node *) * (size_t)nkid);
    n->kind = (uint8_t)kind;
    n->span = span;
    n->nkid = (uint32_t)nkid;
    n->depth = 1;
    return n;
}

static void node_set(Node *n, int i, Node *kid) {
    n->kid[i] = kid;
    if (kid && kid->depth >= n->depth) n->depth = kid->depth < UINT16_MAX ? (uint16_t)(kid->depth + 1) : UINT16_MAX;
}

Node *node_new(Session *s, NodeKind kind, Span span, int nkid, ...) {
    Node *n = node_make(s, kind, span, nkid);
    va_list kids;
    va_start(kids, nkid);
    for (int i = 0; i < nkid; i++) node_set(n, i, va_arg(kids, Node *));
    va_end(kids);
    return n;
}

Node *node_list(Session *s, NodeKind kind, Span span, Node **kids, int nkid) {
    Node *n = node_make(s, kind, span, nkid);
    for (int i = 0; i < nkid; i++) node_set(n, i, kids[i]);
    return n;
}

// ---- dump ----------------------------------------------------------------------------------------

// The name of child i: "left" of "left,right"; the last name, if it ends in "...", is for all that
// remain, and sequences need none.
static Str kid_role(NodeKind kind, uint32_t i) {
    const char *p = kid_roles[kind];
    for (;;) {
        const char *end = strchr(p, ',');
        size_t n = end ? (size_t)(end - p) : strlen(p);
        bool rest = n > 3 && memcmp(p + n - 3, "...", 3) == 0;
        if (rest || n == 0) return (Str){"", 0};
        if (i-- == 0) return (Str){p, n};
        if (!end) return (Str){"", 0};
        p = end + 1;
    }
}

static void print_quoted(Buf *out, Str text) {
    buf_putc(out, '"');
    for (size_t i = 0; i < text.n; i++) {
        unsigned char c = (unsigned char)text.p[i];
        if (c == '"' || c == '\\') buf_printf(out, "\\%c", c);
        else if (c == '\n') buf_puts(out, "\\n");
        else if (c < 0x20 || c == 0x7f) buf_printf(out, "\\x%02x", c);
        else buf_putc(out, (char)c);
    }
    buf_putc(out, '"');
}

static const struct { uint8_t bit; const char *word; } flag_words[] = {
    {PARAM_OUT, "out"},
    {PARAM_INOUT, "inout"},
    {PARAM_STRIDED, "strided"},
    {FN_EXPR, "expr"},
    {NODE_PAREN, "paren"},
    {BLOCK_VALUE, "value"},
};

static void print_node(Session *s, const Node *n, uint32_t indent, Str role, Buf *out) {
    for (uint32_t i = 0; i < indent; i++) buf_puts(out, "  ");
    if (role.n) buf_printf(out, "%.*s: ", (int)role.n, role.p);
    buf_puts(out, node_names[n->kind]);
    if (n->op) buf_printf(out, " %s", op_spellings[n->op]);
    if (n->sym) buf_printf(out, " %s", n->sym->s);
    if (n->kind == N_int) buf_printf(out, " %llu", (unsigned long long)n->ival);
    if (n->kind == N_bool) buf_puts(out, n->ival ? " true" : " false");
    if (n->kind == N_float) buf_printf(out, " %.17g", n->fval);
    if (n->kind == N_string || n->kind == N_import || n->kind == N_test) {
        buf_putc(out, ' ');
        print_quoted(out, n->str);
    }
    for (size_t i = 0; i < sizeof flag_words / sizeof *flag_words; i++)
        if (n->flags & flag_words[i].bit) buf_printf(out, " (%s)", flag_words[i].word);
    LineCol a = span_where(s, n->span.lo), b = span_where(s, n->span.hi);
    buf_printf(out, " @%u:%u-%u:%u\n", a.line, a.col, b.line, b.col);
    for (uint32_t i = 0; i < n->nkid; i++)
        if (n->kid[i]) print_node(s, n->kid[i], indent + 1, kid_role(n->kind, i), out);
}

void ast_print(Session *s, const Node *root, Buf *out) {
    print_node(s, root, 0, (Str){"", 0}, out);
}
