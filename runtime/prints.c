// What kernels print, an element a line as machine code does (lower/llvm/misc.c), put together as `eval` has it (lower/eval/print.c):
//
//     x f32[m 0+0, n 8+1] = 2          x f32[m, n] =
//     x f32[m 0+0, n 8+0] = 1   ->     [[1. 2.]]
//     here                             here
//
// Threads print when they come to it, in any order, and a loop prints a tile once a trip. A thread's own lines are in order: the k-th line
// of an element is of the k-th tile of that name, and what a thread prints first comes first, whatever other threads were faster with.
// Other lines are left as they are.
#include "runtime/internal.h"
#include "lang/shown.h"

#include <stdlib.h>
#include <string.h>

typedef struct Line {
    size_t  head, end;                    // of "x f32[m, n]", among the heads
    int     rank;                         // -1: another line, from `value` on
    int64_t from[MAX_AXES], at[MAX_AXES]; // the axes' first places, which tell a loop's tiles apart; from there
    const char *text, *value; size_t n;
    Elem    elem;
    uint32_t thread;
    int     seq, turn, group;             // where it came; which of the tiles of its name; which tile
} Line;

typedef struct Group { const Line *line; int n, first, waits, follow; } Group;        // waits: for how many others; follow: its first edge
typedef struct Edge { int to, next; } Edge;
typedef struct From { size_t at; uint32_t thread; } From;

struct Prints { FILE *to; Buf text; From *from; int nfrom, room; char *assertion; };

static Elem elem_before(const char *p, size_t n) {
    size_t from = n;
    while (from && p[from - 1] != ' ' && p[from - 1] != '*') from--;
    return elem_by_name((Str){p + from, n - from});
}

// "m 0+0, n 8+1]": names into the heads, numbers into the line.
static bool read_places(const char *p, const char *end, Line *l, Buf *heads) {
    while (p < end && l->rank < MAX_AXES) {
        const char *space = memchr(p, ' ', (size_t)(end - p));
        char *after = NULL;
        if (!space) return false;
        buf_printf(heads, "%s%.*s", l->rank ? ", " : "[", (int)(space - p), p);
        l->from[l->rank] = strtoll(space, &after, 10);
        if (after == space || after >= end || *after != '+') return false;
        l->at[l->rank++] = strtoll(after + 1, &after, 10);
        if (after >= end) return false;
        if (*after == ']') { buf_putc(heads, ']'); return after + 1 == end; }
        if (*after != ',' || after[1] != ' ') return false;
        p = after + 2;
    }
    return false;
}

static Line read_line(const char *p, size_t n, int seq, Buf *heads) {
    Line l = {.head = heads->n, .text = p, .value = p, .n = n, .seq = seq};
    const char *equals = NULL, *bracket = NULL;
    for (size_t i = 0; i + 3 <= n; i++) if (memcmp(p + i, " = ", 3) == 0) equals = p + i;
    for (const char *q = p; equals && equals > p && equals[-1] == ']' && q < equals; q++) if (*q == '[') bracket = q;
    const char *head_end = bracket ? bracket : equals;
    l.elem = head_end ? elem_before(p, (size_t)(head_end - p)) : EL_none;
    if (l.elem != EL_none) buf_add(heads, p, (size_t)(head_end - p));
    if (l.elem == EL_none || (bracket && !read_places(bracket + 1, equals, &l, heads))) l.rank = -1;
    else l.value = equals + 3, l.n = (size_t)(p + n - l.value);
    l.end = heads->n;
    return l;
}

static _Thread_local const char *heads_of_all;          // of the sort that runs: qsort takes no context

static int by_name(const Line *a, const Line *b) {
    size_t n = a->end - a->head, m = b->end - b->head;
    if (a->rank != b->rank || a->rank < 0) return a->rank != b->rank ? (a->rank > b->rank) - (a->rank < b->rank) : (a->seq > b->seq) - (a->seq < b->seq);
    int c = memcmp(heads_of_all + a->head, heads_of_all + b->head, n < m ? n : m);
    if (c || n != m) return c ? c : (n > m) - (n < m);
    for (int i = 0; i < a->rank; i++) if (a->from[i] != b->from[i]) return a->from[i] > b->from[i] ? 1 : -1;
    return 0;
}

static int by_place(const Line *a, const Line *b) {
    for (int i = 0; i < a->rank; i++) if (a->at[i] != b->at[i]) return a->at[i] > b->at[i] ? 1 : -1;
    return 0;
}

static int by_name_place(const void *x, const void *y) {
    const Line *a = x, *b = y;
    int c = by_name(a, b);
    if (!c) c = by_place(a, b);
    return c ? c : (a->seq > b->seq) - (a->seq < b->seq);
}

static int by_name_turn(const void *x, const void *y) {
    const Line *a = x, *b = y;
    int c = by_name(a, b);
    if (!c) c = (a->turn > b->turn) - (a->turn < b->turn);
    return c ? c : by_place(a, b);
}

static int by_thread(const void *x, const void *y) {
    const Line *a = x, *b = y;
    if (a->thread != b->thread) return a->thread > b->thread ? 1 : -1;
    return (a->seq > b->seq) - (a->seq < b->seq);
}

static void cell_text(const Line *l, char out[PRINT_CELL]) {
    snprintf(out, PRINT_CELL, "%.*s", (int)l->n, l->value);
    if (l->elem == EL_bool) snprintf(out, PRINT_CELL, "%s", out[0] == '0' ? "False" : "True");
    else if (elem_is_float(l->elem)) print_point(out);
}

// The box that its places span. It is full, or these are no tile's elements.
static void print_group(const Group *g, const char *heads, FILE *to) {
    const Line *l = g->line;
    int64_t low[MAX_AXES], extent[MAX_AXES], all = 1;
    if (l->rank < 0) { print_shown(to, "%.*s\n", (int)l->n, l->value); return; }
    for (int k = 0; k < l->rank; k++) {
        int64_t high = low[k] = l->at[k];
        for (int i = 1; i < g->n; i++) {
            if (l[i].at[k] < low[k]) low[k] = l[i].at[k];
            if (l[i].at[k] > high) high = l[i].at[k];
        }
        extent[k] = high - low[k] + 1;
        all = extent[k] > 0 && all <= INT32_MAX / extent[k] ? all * extent[k] : INT32_MAX;
    }
    char (*cell)[PRINT_CELL] = all == g->n ? heap_try_zeroed((size_t)all, PRINT_CELL) : NULL;
    for (int i = 0; !cell && i < g->n; i++) print_shown(to, "%.*s\n", (int)(l[i].value + l[i].n - l[i].text), l[i].text);
    for (int i = 0; cell && i < g->n; i++) {
        int64_t at = 0;
        for (int k = 0; k < l->rank; k++) at = at * extent[k] + l[i].at[k] - low[k];
        cell_text(&l[i], cell[at]);
    }
    char *head = copy_text(heads + l->head, l->end - l->head);
    if (cell) print_tile(head, l->rank, extent, cell, to);
    heap_free(head);
    heap_free(cell);
}

// ---- order ---------------------------------------------------------------------------------------

// Groups that wait for no other, the first to come on top.
typedef struct LineHeap { int *at, n; const Group *group; } LineHeap;

static void heap_put(LineHeap *h, int g) {
    int i = h->n++;
    for (; i && h->group[h->at[(i - 1) / 2]].first > h->group[g].first; i = (i - 1) / 2) h->at[i] = h->at[(i - 1) / 2];
    h->at[i] = g;
}

static int heap_take(LineHeap *h) {
    int top = h->at[0], last = h->at[--h->n], i = 0;
    for (int kid; (kid = 2 * i + 1) < h->n; i = kid) {
        if (kid + 1 < h->n && h->group[h->at[kid + 1]].first < h->group[h->at[kid]].first) kid++;
        if (h->group[h->at[kid]].first >= h->group[last].first) break;
        h->at[i] = h->at[kid];
    }
    h->at[i] = last;
    return top;
}

// What a thread prints next waits for what it printed before. Who waits for each other all the same comes as it came.
static void in_order(Line *line, int lines, Group *group, int groups, const char *heads, FILE *to) {
    Edge *edge = heap_alloc(sizeof *edge * (size_t)(lines + 1));
    LineHeap  heap = {heap_alloc(sizeof(int) * (size_t)(groups + 1)), 0, group};
    int   edges = 0, done = 0, next = 0;
    Line *chain = heap_alloc(sizeof *chain * (size_t)(lines + 1));
    memcpy(chain, line, sizeof *line * (size_t)lines);
    qsort(chain, (size_t)lines, sizeof *chain, by_thread);
    for (int i = 1; i < lines; i++) {
        Group *a = &group[chain[i - 1].group];
        if (chain[i].thread != chain[i - 1].thread || chain[i].group == chain[i - 1].group) continue;
        edge[edges] = (Edge){chain[i].group, a->follow};
        a->follow = edges++;
        group[chain[i].group].waits++;
    }
    for (int g = 0; g < groups; g++) if (!group[g].waits) heap_put(&heap, g);
    while (done < groups) {
        while (!heap.n && group[next].waits <= 0) next++;
        int g = heap.n ? heap_take(&heap) : next;
        group[g].waits = -1;                             // it is done
        done++;
        print_group(&group[g], heads, to);
        for (int e = group[g].follow; e >= 0; e = edge[e].next)
            if (group[edge[e].to].waits > 0 && --group[edge[e].to].waits == 0) heap_put(&heap, edge[e].to);
    }
    heap_free(edge);
    heap_free(heap.at);
    heap_free(chain);
}

// ---- all together --------------------------------------------------------------------------------

static void together(Prints *p) {
    Buf heads = {0};
    int lines = 0, groups = 0, from = 0;
    const char *text = p->text.p, *end = text + p->text.n;
    for (size_t i = 0; i < p->text.n; i++) lines += text[i] == '\n';
    Line  *line = heap_alloc(sizeof *line * (size_t)(lines + 2));
    Group *group = heap_alloc(sizeof *group * (size_t)(lines + 2));
    lines = 0;
    for (const char *at = text; at < end; lines++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        while (from + 1 < p->nfrom && p->from[from + 1].at <= (size_t)(at - text)) from++;
        line[lines] = read_line(at, (size_t)((stop ? stop : end) - at), lines, &heads);
        line[lines].thread = p->from[from].thread;
        at = stop ? stop + 1 : end;
    }
    heads_of_all = heads.p ? heads.p : "";
    qsort(line, (size_t)lines, sizeof *line, by_name_place);
    for (int i = 1; i < lines; i++)
        if (line[i].rank >= 0 && by_name(&line[i - 1], &line[i]) == 0 && by_place(&line[i - 1], &line[i]) == 0) line[i].turn = line[i - 1].turn + 1;
    qsort(line, (size_t)lines, sizeof *line, by_name_turn);
    for (int i = 0; i < lines; i++) {
        bool same = i && line[i].rank >= 0 && by_name(&line[i - 1], &line[i]) == 0 && line[i - 1].turn == line[i].turn;
        if (!same) group[groups++] = (Group){&line[i], 0, line[i].seq, 0, -1};
        Group *g = &group[groups - 1];
        g->n++;
        if (line[i].seq < g->first) g->first = line[i].seq;
        line[i].group = groups - 1;
    }
    in_order(line, lines, group, groups, heads.p ? heads.p : "", p->to);
    fflush(p->to);
    heap_free(line);
    heap_free(group);
    buf_free(&heads);
    buf_free(&p->text);
    p->nfrom = 0;
}

Prints *prints_new(FILE *to) {
    Prints *p = heap_alloc(sizeof *p);
    p->to = to;
    return p;
}

// What belongs to tiles waits for the rest of them, and what comes after it, too.
void prints_add(Prints *p, uint32_t thread, const char *text, size_t n) {
    enum { MOST = 64 << 20 };
    static const char failed[] = "assertion failed: ";
    Buf heads = {0};
    if (n >= sizeof failed && memcmp(text, failed, sizeof failed - 1) == 0) {
        if (!p->assertion) p->assertion = copy_text(text, n - (text[n - 1] == '\n'));
        return;
    }
    bool element = n && text[n - 1] == '\n' && read_line(text, n - 1, 0, &heads).rank >= 0;
    buf_free(&heads);
    if (!p->text.n && !element) { put_shown(p->to, text, n); return; }
    if (p->nfrom == p->room) {
        p->room = p->room ? 2 * p->room : 256;
        p->from = heap_resize(p->from, sizeof *p->from * (size_t)p->room);
    }
    p->from[p->nfrom++] = (From){p->text.n, thread};
    buf_add(&p->text, text, n);
    if (p->text.n > MOST) together(p);
}

void prints_flush(Prints *p) {
    if (p && p->text.n) together(p);
    if (p) fflush(p->to);
}

const char *prints_assertion(const Prints *p) { return p ? p->assertion : NULL; }

void prints_free(Prints *p) {
    if (!p) return;
    buf_free(&p->text);
    heap_free(p->from);
    heap_free(p->assertion);
    heap_free(p);
}
