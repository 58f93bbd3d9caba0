// Edits of arguments: sizes halved, one less, 2 and 1, in all arguments at once, and in the program where it has the same number (a tile as long as its
// row); numbers; random data that become ones.
#include "lang/c_text.h"
#include "runtime/reduce.h"

#include <stdlib.h>
#include <string.h>

void case_copy(const ReduceCase *from, ReduceCase *to) {
    memcpy(to, from, sizeof *to);
    to->file = (Buf){0};
    buf_add(&to->file, from->file.p, from->file.n);
}

static bool holds(const ReduceCase *c, const char *name, size_t n) {
    for (const char *p = c->file.p, *end = p + c->file.n; p && p + n <= end; p++) {
        if (memcmp(p, name, n) != 0) continue;
        bool before = p > c->file.p && (c_isalnum(p[-1]) || p[-1] == '_'), after = p + n < end && (c_isalnum(p[n]) || p[n] == '_');
        if (!before && !after) return true;
    }
    return false;
}

void args_mentioned(ReduceCase *c) {
    for (int i = 0; i < c->nargs; i++) c->arg[i].gone |= !holds(c, c->arg[i].text, strcspn(c->arg[i].text, "="));
}

// Where the shape's numbers begin, or NULL: it is no tensor that is made.
static const char *shape_of(const char *arg) {
    const char *open = strrchr(arg, '[');
    return open && open > arg && strchr(arg, ':') && strchr(open, ']') ? open + 1 : NULL;
}

static void replace_numbers(char *at, size_t room, int64_t was, int64_t now) {
    char out[REDUCE_TEXT];
    size_t n = 0;
    for (const char *p = at; *p && n + 24 < sizeof out;) {
        if (!c_isdigit(*p)) { out[n++] = *p++; continue; }
        char *end;
        int64_t v = strtoll(p, &end, 10);
        n += (size_t)snprintf(out + n, sizeof out - n, "%lld", (long long)(v == was ? now : v));
        p = end;
    }
    out[n] = 0;
    if (n < room) memcpy(at, out, n + 1);
}

static void replace_in_text(Buf *text, int64_t was, int64_t now) {
    Buf out = {0};
    for (const char *p = text->p, *end = p + text->n; p < end;) {
        bool word = p > text->p && (c_isalnum(p[-1]) || p[-1] == '_' || p[-1] == '.');
        if (!c_isdigit(*p) || word) { buf_putc(&out, *p++); continue; }
        char *stop;
        int64_t v = strtoll(p, &stop, 10);
        if (v == was) buf_printf(&out, "%lld", (long long)now);
        else buf_add(&out, p, (size_t)(stop - p));
        p = stop;
    }
    buf_free(text);
    *text = out;
}

enum { MOST_SIZES = 64, WAYS = 4 };

static int sizes_of(const ReduceCase *c, int64_t *size) {
    int n = 0;
    for (int i = 0; i < c->nargs; i++) {
        const char *p = c->arg[i].gone ? NULL : shape_of(c->arg[i].text);
        while (p && c_isdigit(*p)) {
            char *end;
            int64_t v = strtoll(p, &end, 10);
            int k = 0;
            while (k < n && size[k] != v) k++;
            if (k == n && n < MOST_SIZES) size[n++] = v;
            p = *end == ',' ? end + 1 : NULL;
        }
    }
    return n;
}

static int64_t smaller(int64_t v, int way) { return way == 0 ? v / 2 : way == 1 ? 1 : way == 2 ? 2 : v - 1; }

static bool resized(const ReduceCase *c, int64_t was, int64_t now, bool text, ReduceCase *out) {
    if (now < 1 || now >= was) return false;
    case_copy(c, out);
    for (int i = 0; i < out->nargs; i++) {
        char *p = (char *)(uintptr_t)shape_of(out->arg[i].text);
        if (p) replace_numbers(p, REDUCE_TEXT - (size_t)(p - out->arg[i].text), was, now);
    }
    if (text) replace_in_text(&out->file, was, now);
    return true;
}

// NAME=randint(-3,4):f32[..] becomes NAME=ones:f32[..]; NAME=7 becomes NAME=1.
static bool simpler(const ReduceCase *c, int i, int way, ReduceCase *out) {
    const char *arg = c->arg[i].text, *is = strchr(arg, '='), *colon = is ? strchr(is, ':') : NULL;
    static const char *const kinds[] = {"zeros", "ones", "iota"}, *const numbers[] = {"0", "1", "2"};
    if (c->arg[i].gone || is == NULL || (colon && !shape_of(arg))) return false;
    for (int k = 0; k <= way; k++)                            // simple enough already
        if (colon ? strncmp(is + 1, kinds[k], strlen(kinds[k])) == 0 : strcmp(is + 1, numbers[k]) == 0) return false;
    case_copy(c, out);
    snprintf(out->arg[i].text, REDUCE_TEXT, "%.*s%s%s", (int)(is + 1 - arg), arg, colon ? kinds[way] : numbers[way], colon ? colon : "");
    return true;
}

bool args_edit(const ReduceCase *c, int k, bool model, ReduceCase *out) {
    int64_t size[MOST_SIZES];
    int n = sizes_of(c, size), each = WAYS * (model ? 1 : 2);
    if (k < n * each) {
        int64_t was = size[k / each];
        if (!resized(c, was, smaller(was, k % each % WAYS), k % each >= WAYS, out)) case_copy(c, out);
        return true;
    }
    k -= n * each;
    if (k >= c->nargs * 3) return false;
    if (!simpler(c, k / 3, k % 3, out)) case_copy(c, out);
    return true;
}
