// Parts of long index expressions, by names. Where sizes are names and a model's reshapes do not cancel, a coordinate may be a page long, most of
// it the same few parts again: windows of a picture, h / 8 * (w / 8) of them, put together as `windows / (h * w / 64)` pictures.
//
//     let t = h / 8 * (w / 8);
//     let t2 = n2 / t;
//     let v = x2[t2, (n2 - t2 * t) / w];
//
// An expression's arguments are shared, so a part is what has two parents or more; it is written, once, before what it is part of, in the innermost
// loop that it depends on. Names outside of all loops are there for what follows, too.

#include "graph/write/internal.h"

enum { LONG = 400, LEAST = 28, DEEP = 64 };

// How long e is as text, about; about `most`, if it is longer. What has a name is as long as any: kernels that differ in names alone are one.
static int length_of(const Kernel *k, Ix e, int most) {
    bool leaf = e->n == 0 || e->kind == IX_AXIS || k_is_alias(k, e);
    int n = leaf ? 4 : 0;
    for (uint32_t i = 0; i < e->n && !leaf && n < most; i++) n += 3 + length_of(k, e->arg[i], most - n);
    return n;
}

static int place_of(const KPieces *p, Ix e) {
    for (uint32_t i = 0; i < p->at.n; i++)
        if (p->at.at[i].of == e) return (int)i;
    return -1;
}

static bool may_be_named(const Kernel *k, Ix e) {
    bool number = e->kind == IX_SUM || e->kind == IX_PROD || e->kind == IX_DIV || e->kind == IX_MOD || e->kind == IX_MIN || e->kind == IX_MAX;
    return number && length_of(k, e, LEAST) >= LEAST;
}

static void count(Kernel *k, Ix e, int depth) {
    if (e->n == 0 || e->kind == IX_AXIS || k_is_alias(k, e) || depth > DEEP) return;
    int at = place_of(&k->parts, e);
    if (at >= 0) {
        k->parts.at.at[at].parents++;
        return;
    }
    vec_push(k->arena, &k->parts.at, ((KPiece){.of = e, .parents = 1}));
    for (uint32_t i = 0; i < e->n; i++) count(k, e->arg[i], depth + 1);
}

void k_parts_begin(Kernel *k, KScope *s, const Ix *at, int n) {
    int length = 0;
    k->parts.scope = s;
    for (int i = 0; i < n && length < LONG; i++) length += length_of(k, at[i], LONG);
    for (int i = 0; i < n && length >= LONG; i++) count(k, at[i], 0);
}

void k_parts_end(Kernel *k) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < k->parts.at.n; i++)
        if (k->parts.at.at[i].outside) k->parts.at.at[n++] = k->parts.at.at[i];
    k->parts.at.n = n;
}

bool k_put_part(Kernel *k, Buf *to, Ix e) {
    int at = k->parts.at.n > 0 && !k->in_head ? place_of(&k->parts, e) : -1;
    if (at < 0 || k->parts.at.at[at].open || k->parts.at.at[at].parents < 2 || !may_be_named(k, e)) return false;
    if (k->parts.at.at[at].name == NULL) {
        Buf b = {0};
        KScope *home = k->parts.scope;
        uint64_t mask = k_mask_of(k, &e, 1);
        while (home->up && !(mask & home->loops)) home = home->up;
        k->parts.at.at[at].open = true;
        k_ix(k, &b, e);
        k->parts.at.at[at].open = false;
        k->parts.at.at[at].name = k_name(k, "t"), k->parts.at.at[at].outside = home->up == NULL;
        k_indent(home);
        buf_printf(home->to, "let %s = %s;\n", k->parts.at.at[at].name, b.p);
        buf_free(&b);
    }
    buf_puts(to, k->parts.at.at[at].name);
    return true;
}
