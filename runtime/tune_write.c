// What was measured, in the source: conditions of the kernel's tune item, one for each case, that leave one choice for it.
//
//     tune matmul {
//         BM in [64, 128];  BN in [64, 128, 256];
//         key M, N, K;
//     +   where M != 1024 || N != 1024 || K != 1024 || (BM == 64 && BN == 128);      // 8.4 us on NVIDIA H200
//     }
//
// All else stays as it is: other sizes are the model's, and so are `walk` and `stages` unless the item names them. A
// line for the same case is replaced. Where a kernel has no tune item, it gets one behind it; an imported kernel at the
// end of the file.
#include "runtime/tune.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 48 };
typedef struct Pair { char name[64]; char text[64]; bool number; } Pair;
typedef struct Pairs { Pair at[MAX_NAMES]; int n; } Pairs;

typedef struct Writing {
    SemaFile   *file;
    Session    *s;
    const Node *kernel, *item;
    const Source *src;
    Buf        *diff, *err;
    VEC(Str)    line;                      // of the file, without their ends
    uint32_t    first, last;               // lines of the tune item: of its `{` and its `}`
} Writing;

// "M = 1024, T = f16"
static void read_pairs(const char *text, Pairs *out) {
    out->n = 0;
    while (*text && out->n < MAX_NAMES) {
        Pair  *p = &out->at[out->n];
        size_t n = strcspn(text, " "), skip = strspn(text + n, " ="), length = strcspn(text + n + skip, ",");
        if (n >= sizeof p->name || length >= sizeof p->text) return;
        snprintf(p->name, sizeof p->name, "%.*s", (int)n, text);
        snprintf(p->text, sizeof p->text, "%.*s", (int)length, text + n + skip);
        p->number = p->text[0] >= '0' && p->text[0] <= '9';
        out->n++;
        text += n + skip + length;
        text += strspn(text, ", ");
    }
}

static const char *pair_of(const Pairs *p, const char *name) {
    for (int i = 0; i < p->n; i++) if (strcmp(p->at[i].name, name) == 0) return p->at[i].text;
    return NULL;
}

// ---- what is said of a case ----------------------------------------------------------------------

static bool is_choice(const Node *item, const char *name) {
    for (uint32_t i = 0; item && i < item->nkid; i++)
        if (item->kid[i] && item->kid[i]->kind == N_tune_choice && item->kid[i]->sym &&
            strcmp(item->kid[i]->sym->s, name) == 0)
            return true;
    return false;
}

// Words of the schedule that may become choices: those by which no other case gets slower.
static bool may_be_choice(const char *name) { return strcmp(name, "split_k") == 0 || strcmp(name, "warps") == 0; }

static void put_case(const Writing *w, const Pairs *dims, Buf *out) {
    buf_puts(out, "where");
    for (int i = 0, n = 0; i < dims->n; i++)
        if (dims->at[i].number && sema_tune_key(w->file, w->kernel, dims->at[i].name))
            buf_printf(out, "%s %s != %s", n++ ? " ||" : "", dims->at[i].name, dims->at[i].text);
    buf_puts(out, " || (");
}

static void put_term(Buf *out, int *n, const char *name, const char *value) {
    buf_printf(out, "%s%s == %s", *n ? " && " : "", name, value);
    ++*n;
}

// The values of the best; those of the defaults come from the instance.
static bool put_choice(const Writing *w, const TuneResult *r, const Pairs *dims, Buf *out) {
    Pairs take;
    int   n = 0;
    SemaValue known[MAX_NAMES];
    int       nknown = 0;
    read_pairs(r->row[0].choice, &take);
    for (int i = 0; i < dims->n; i++) {
        const Pair *p = &dims->at[i];
        known[nknown++] = (SemaValue){.name = sym(w->s, p->name)->s,
                                      .is_type = !p->number,
                                      .ival = strtoll(p->text, NULL, 10),
                                      .elem = p->number ? EL_none : elem_by_name((Str){p->text, strlen(p->text)})};
    }
    int said = diag_count(w->s);
    const TKernel *k = sema_instance((InstanceOf){.file = w->file, .item = w->kernel, .known = known, .nknown = nknown});
    diag_forget(w->s, said);
    for (uint32_t i = 0; w->item && i < w->item->nkid; i++) {
        const Node *c = w->item->kid[i];
        char value[32] = "";
        if (!c || c->kind != N_tune_choice || !c->sym) continue;
        for (int b = 0; k && b < k->nbindings; b++)
            if (strcmp(k->bindings[b].name->s, c->sym->s) == 0)
                snprintf(value, sizeof value, "%lld", (long long)k->bindings[b].ival);
        const char *best = pair_of(&take, c->sym->s);
        if (best || value[0]) put_term(out, &n, c->sym->s, best ? best : value);
        else if (may_be_choice(c->sym->s)) put_term(out, &n, c->sym->s, "1");
    }
    for (int i = 0; i < take.n; i++)
        if (!is_choice(w->item, take.at[i].name) && may_be_choice(take.at[i].name))
            put_term(out, &n, take.at[i].name, take.at[i].text);
    buf_puts(out, ");");
    return n > 0;
}

// ---- lines ---------------------------------------------------------------------------------------

static void split_lines(Writing *w) {
    const char *p = w->src->text, *end = p + w->src->size;
    while (p < end) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (!stop) stop = end;
        vec_push(session_arena(w->s), &w->line, ((Str){p, (size_t)(stop - p)}));
        p = stop + 1;
    }
}

static void insert(Writing *w, uint32_t at, const char *text) {
    vec_push(session_arena(w->s), &w->line, ((Str){0}));
    for (uint32_t i = w->line.n - 1; i > at; i--) w->line.at[i] = w->line.at[i - 1];
    w->line.at[at] = (Str){text, strlen(text)};
    buf_printf(w->diff, "@@ %s:%u\n+%s\n", w->src->path, at + 1, text);
}

static void replace(Writing *w, uint32_t at, const char *text) {
    if (w->line.at[at].n == strlen(text) && memcmp(w->line.at[at].p, text, w->line.at[at].n) == 0) return;
    buf_printf(w->diff, "@@ %s:%u\n-%.*s\n+%s\n", w->src->path, at + 1, (int)w->line.at[at].n, w->line.at[at].p, text);
    w->line.at[at] = (Str){text, strlen(text)};
}

// An item on one line, `tune k { B in [1]; }`, is put on several.
static void open_up(Writing *w) {
    if (w->first != w->last) return;
    Str   l = w->line.at[w->first];
    Arena *a = session_arena(w->s);
    const char *open = memchr(l.p, '{', l.n), *close = l.p + l.n;
    while (close > l.p && *close != '}') close--;
    if (!open || close < open) return;
    const char *inner = open + 1, *stop = close;
    while (inner < stop && *inner == ' ') inner++;
    while (stop > inner && stop[-1] == ' ') stop--;
    replace(w, w->first, arena_printf(a, "%.*s", (int)(open + 1 - l.p), l.p));
    insert(w, w->first + 1, arena_printf(a, "    %.*s", (int)(stop - inner), inner));
    insert(w, w->first + 2, arena_printf(a, "%.*s", (int)(l.p + l.n - close), close));
    w->last = w->first + 2;
}

static bool begins(Str line, const Buf *with) {
    while (line.n && (*line.p == ' ' || *line.p == '\t')) { line.p++; line.n--; }
    return line.n >= with->n && memcmp(line.p, with->p, with->n) == 0;
}

static void put_line(Writing *w, const Buf *begin, const char *text) {
    for (uint32_t i = w->first; begin && i <= w->last; i++)
        if (begins(w->line.at[i], begin)) {
            replace(w, i, text);
            return;
        }
    insert(w, w->last++, text);
}

static void put_choices(Writing *w, const TuneResult *r, int n) {
    static const char *const lists[2][2] = {{"split_k", "[1, 2, 3, 4, 6, 8, 12, 16, 64, 128, 256, 512]"},
                                            {"warps", "[1, 2, 4, 8, 16, 32]"}};
    for (int l = 0; l < 2; l++) {
        bool wanted = false;
        Pairs take;
        for (int i = 0; i < n; i++) { read_pairs(r[i].row[0].choice, &take); wanted |= pair_of(&take, lists[l][0]) != NULL; }
        if (!wanted || is_choice(w->item, lists[l][0])) continue;
        Buf begin = {0};
        buf_printf(&begin, "%s in ", lists[l][0]);
        put_line(w, &begin, arena_printf(session_arena(w->s), "    %s in %s;", lists[l][0], lists[l][1]));
        buf_free(&begin);
    }
}

// Behind the kernel, or at the end of the file that imports it.
static bool new_item(Writing *w, const TuneResult *r, int n) {
    bool wanted = false;
    for (int i = 0; i < n; i++) {
        Pairs take;
        read_pairs(r[i].row[0].choice, &take);
        for (int k = 0; k < take.n; k++) wanted |= may_be_choice(take.at[k].name);
    }
    if (!wanted) { buf_printf(w->err, "the best is what is taken anyway: nothing to write"); return false; }
    uint32_t at = w->line.n;
    if (span_where(w->s, w->kernel->span.lo).src == w->src) at = span_where(w->s, w->kernel->span.hi - 1).line;
    insert(w, at, "");
    insert(w, at + 1, arena_printf(session_arena(w->s), "tune %s {", w->kernel->sym->s));
    insert(w, at + 2, "}");
    w->first = at + 1;
    w->last = at + 2;
    return true;
}

static bool add_case(Writing *w, const TuneResult *r) {
    Buf   begin = {0}, text = {0};
    Pairs dims;
    read_pairs(r->dims, &dims);
    put_case(w, &dims, &begin);
    buf_printf(&text, "    %s", begin.p);
    bool some = strstr(begin.p, "!=") != NULL && put_choice(w, r, &dims, &text);
    buf_printf(&text, "      // %.1f us on %s", r->row[0].us, r->device);
    if (some) put_line(w, &begin, arena_printf(session_arena(w->s), "%s", text.p));
    buf_free(&begin);
    buf_free(&text);
    return some;
}

bool tune_write(SemaFile *file, Session *s, const Node *kernel, const TuneResult *r, int n, Buf *text, Buf *diff, Buf *err) {
    Writing w = {.file = file, .s = s, .kernel = kernel, .item = sema_tune_item(file, kernel), .diff = diff, .err = err};
    w.src = w.item ? span_where(s, w.item->span.lo).src : source_at(s, 0);
    if (w.src->builtin) {
        buf_printf(err, "%s is of the library in the binary: write a tune item of your own in a file that imports it",
                   w.src->path);
        return false;
    }
    split_lines(&w);
    if (w.item) {
        w.first = span_where(s, w.item->span.lo).line - 1;
        w.last = span_where(s, w.item->span.hi - 1).line - 1;
        open_up(&w);
    } else if (!new_item(&w, r, n)) return false;
    put_choices(&w, r, n);
    int written = 0;
    for (int i = 0; i < n; i++) written += add_case(&w, &r[i]);
    if (!written) { buf_puts(err, "no dimension is known that a choice depends on: nothing to write"); return false; }
    for (uint32_t i = 0; i < w.line.n; i++) { buf_add(text, w.line.at[i].p, w.line.at[i].n); buf_putc(text, '\n'); }
    return true;
}
