// What may be left out of a program, or made simpler: read off its syntax tree, so that brackets and commas stay whole.
//
//     an item, a statement, one of a list (a parameter, an axis, a condition)      goes
//     for, while, if                                                               becomes its body
//     a parameter or variable that is written                                      goes, and the statements that write it
//     an expression                                                                becomes one that it is made of, or 0, or 1
//     a number                                                                     is halved, one less, 2, 1
//     a parameter's element type                                                   becomes f32, or i32; its argument's, too
#include "runtime/reduce.h"

#include <stdlib.h>
#include <string.h>

typedef struct Edits { Session *s; const Source *src; TextEdits *to; } Edits;

static uint32_t lo_of(const Edits *e, const Node *n) { return n->span.lo - e->src->base; }
static uint32_t hi_of(const Edits *e, const Node *n) { return n->span.hi - e->src->base; }

static void add(Edits *e, TextEdit x) {
    if (x.hi <= e->src->size && x.lo < x.hi) vec_push(session_arena(e->s), &e->to->list, x);
}

static void cut(Edits *e, uint32_t lo, uint32_t hi) { add(e, (TextEdit){.lo = lo, .hi = hi, .by = ""}); }
static void becomes(Edits *e, const Node *n, const char *by) { add(e, (TextEdit){.lo = lo_of(e, n), .hi = hi_of(e, n), .by = by}); }

static void becomes_part(Edits *e, const Node *n, const Node *part) {
    if (part != NULL && part->span.hi) add(e, (TextEdit){.lo = lo_of(e, n), .hi = hi_of(e, n), .from = lo_of(e, part), .to = hi_of(e, part)});
}

// Each of the kids from `first` on, and its comma.
static void one_less(Edits *e, const Node *n, uint32_t first) {
    for (uint32_t i = first; i < n->nkid; i++) {
        if (n->kid[i] == NULL) continue;
        bool next = i + 1 < n->nkid && n->kid[i + 1] != NULL, before = i > first && n->kid[i - 1] != NULL;
        if (next) cut(e, lo_of(e, n->kid[i]), lo_of(e, n->kid[i + 1]));
        else if (before) cut(e, hi_of(e, n->kid[i - 1]), hi_of(e, n->kid[i]));
        else if (n->kind != N_list) cut(e, lo_of(e, n->kid[i]), hi_of(e, n->kid[i]));
    }
}

static void each(Edits *e, const Node *n) {                    // no commas between
    for (uint32_t i = 0; i < n->nkid; i++) if (n->kid[i]) cut(e, lo_of(e, n->kid[i]), hi_of(e, n->kid[i]));
}

static void unwrapped(Edits *e, const Node *n, const Node *body) {
    if (body != NULL && body->kind == N_block && body->span.hi > body->span.lo + 2)
        add(e, (TextEdit){.lo = lo_of(e, n), .hi = hi_of(e, n), .from = lo_of(e, body) + 1, .to = hi_of(e, body) - 1});
}

static void number(Edits *e, const Node *n) {
    Arena *a = session_arena(e->s);
    if (n->ival > 3) becomes(e, n, arena_printf(a, "%lld", (long long)n->ival / 2));
    if (n->ival > 2) becomes(e, n, arena_printf(a, "%lld", (long long)n->ival - 1));
    if (n->ival > 2) becomes(e, n, "2");
    if (n->ival > 1) becomes(e, n, "1");
}

// for .. merge |a, b| ..
static void without_merge(Edits *e, const Node *merge) {
    static const char word[] = "merge";
    uint32_t lo = lo_of(e, merge);
    while (lo > 0 && strncmp(e->src->text + lo, word, sizeof word - 1) != 0) lo--;
    if (lo > 0) cut(e, lo, hi_of(e, merge));
}

// An out parameter, a var: what writes it goes first (without).
static void with_writers(Edits *e, const Node *list, uint32_t i) {
    uint32_t at = e->to->list.n;
    one_less(e, list, 0);                                      // of which the i-th is wanted
    for (uint32_t k = at, seen = 0; k < e->to->list.n; k++, seen++)
        if (seen == i) { e->to->list.at[at] = e->to->list.at[k], e->to->list.at[at].writers = list->kid[i]->sym ? list->kid[i]->sym->s : NULL; break; }
    if (e->to->list.n > at) e->to->list.n = at + 1;
}

static void types_of(Edits *e, const Node *param) {
    const Node *t = param->nkid ? param->kid[0] : NULL, *elem = t && t->kind == N_type_tensor ? t->kid[0] : NULL;
    if (elem == NULL || elem->kind != N_type_name || elem->sym == NULL || param->sym == NULL) return;
    Elem have = elem_by_name(span_text(e->s, elem->span));
    if (have == EL_none || have == EL_f32) return;
    const char *to[] = {"f32", "i32"};
    for (int i = 0; i < 2 && have != (i ? EL_i32 : EL_f32); i++)
        add(e, (TextEdit){.lo = lo_of(e, elem), .hi = hi_of(e, elem), .by = to[i], .param = param->sym->s, .type = to[i]});
}

static bool is_expression(const Node *n) { return n->kind >= N_name && n->kind <= N_tuple && n->kind != N_named && n->kind != N_colon && n->kind != N_colon_dim && n->kind != N_range; }

static void expression(Edits *e, const Node *n) {
    if (n->kind == N_name || n->kind == N_string || n->kind == N_lambda || n->kind == N_bool) return;
    if (n->kind == N_int) { number(e, n); return; }
    for (uint32_t i = 0; i < n->nkid; i++) if (n->kid[i] && is_expression(n->kid[i]) && !(n->kind == N_call && i == 0)) becomes_part(e, n, n->kid[i]);
    becomes(e, n, "0");
    becomes(e, n, "1");
}

static void walk(Edits *e, const Node *n) {
    if (n == NULL) return;
    switch ((NodeKind)n->kind) {
    case N_file: case N_block: case N_tune: each(e, n); break;
    case N_list: one_less(e, n, 0); break;
    case N_kernel: case N_graph:
        for (int i = 2; i < 4; i++) if (n->kid[i] && n->kid[i]->span.hi) cut(e, lo_of(e, n->kid[i]), hi_of(e, n->kid[i]));
        if (n->kid[0] && n->kid[0]->span.hi) cut(e, lo_of(e, n->kid[0]), hi_of(e, n->kid[0]));
        for (uint32_t i = 0; n->kid[1] && i < n->kid[1]->nkid; i++) if (n->kid[1]->nkid > 1) with_writers(e, n->kid[1], i);
        break;
    case N_var:
        if (n->nkid == 2 && n->kid[1] && n->kid[1]->sym) {
            cut(e, lo_of(e, n), hi_of(e, n));
            e->to->list.at[e->to->list.n - 1].writers = n->kid[1]->sym->s;
        }
        break;
    case N_for:
        if (n->kid[1]) without_merge(e, n->kid[1]);
        unwrapped(e, n, n->kid[2]);
        break;
    case N_while: unwrapped(e, n, n->kid[1]); break;
    case N_if: unwrapped(e, n, n->kid[1]), unwrapped(e, n, n->kid[2]); break;
    case N_range:
        if (n->kid[2] && n->kid[1]) cut(e, hi_of(e, n->kid[1]), hi_of(e, n->kid[2]));
        if (n->kid[0] && n->kid[1]) cut(e, lo_of(e, n->kid[0]), lo_of(e, n->kid[1]));
        break;
    case N_call: one_less(e, n, 3); break;
    case N_index: if (n->kid[1]) cut(e, hi_of(e, n->kid[n->nkid - 1]) + 1, hi_of(e, n->kid[1])); break;
    case N_with: one_less(e, n, 1), becomes_part(e, n, n->kid[0]); break;
    case N_param: types_of(e, n); break;
    default: break;
    }
    if (is_expression(n)) expression(e, n);
    for (uint32_t i = 0; i < n->nkid; i++) walk(e, n->kid[i]);
}

static uint32_t gain(const TextEdit *e) { return (e->hi - e->lo) - (e->by ? (uint32_t)strlen(e->by) : e->to - e->from); }

static int larger_first(const void *a, const void *b) {
    uint32_t x = gain(a) + 1000, y = gain(b) + 1000;          // a type's name may be longer
    return (x < y) - (x > y);
}

TextEdits reduce_edits(Session *s, const char *text, size_t n) {
    TextEdits list = {0};
    const Source *src = source_add(s, "candidate.tk", text, n);
    const Node   *file = parse_file(s, src);
    Edits         e = {s, src, &list};
    if (diag_errors(s)) return list;
    walk(&e, file);
    if (list.list.n) qsort(list.list.at, list.list.n, sizeof *list.list.at, larger_first);
    return list;
}

static bool names(const Node *n, const char *name) {
    if (n == NULL) return false;
    if (n->kind == N_name && n->sym && strcmp(n->sym->s, name) == 0) return true;
    for (uint32_t i = 0; i < n->nkid; i++) if (names(n->kid[i], name)) return true;
    return false;
}

// The last statement that writes it: an assignment to it, or a call for its effect that is given it.
static const Node *writer(const Node *n, const char *name) {
    const Node *found = NULL;
    if (n == NULL) return NULL;
    if (n->kind == N_assign && names(n->kid[0], name)) return n;
    if (n->kind == N_expr_stmt && names(n, name)) return n;
    for (uint32_t i = 0; i < n->nkid; i++) { const Node *x = writer(n->kid[i], name); if (x) found = x; }
    return found;
}

void text_without_writers(const char *name, Buf *text) {
    for (bool more = true; more;) {
        Session *s = session_new();
        const Source *src = source_add(s, "candidate.tk", text->p, text->n);
        const Node *w = writer(parse_file(s, src), name);
        more = w != NULL && diag_errors(s) == 0;
        if (more) {
            Buf out = {0};
            text_edit(&(TextEdit){.lo = w->span.lo - src->base, .hi = w->span.hi - src->base, .by = ""}, text, &out);
            buf_free(text);
            *text = out;
        }
        session_free(s);
    }
}

// Without lines that hold nothing, or a comment.
void text_edit(const TextEdit *e, const Buf *text, Buf *out) {
    Buf all = {0};
    buf_add(&all, text->p, e->lo);
    if (e->by) buf_puts(&all, e->by);
    else buf_add(&all, text->p + e->from, e->to - e->from);
    buf_add(&all, text->p + e->hi, text->n - e->hi);
    for (const char *line = all.p; line && *line;) {
        size_t n = strcspn(line, "\n"), blank = strspn(line, " \t");
        if (blank < n && strncmp(line + blank, "//", 2) != 0) buf_add(out, line, n), buf_putc(out, '\n');
        line += n + (line[n] == '\n');
    }
    buf_free(&all);
}
