// A kernel as text: its head, its loops, its stores. What is computed is written by text.c, into the loop that it belongs into.

#include "graph/write/internal.h"

#include <inttypes.h>
#include <string.h>

// The length that a kernel compiled for no size in particular has of axis i: of all axes without sizes that are in one tile, 1024 elements.
static int without_sizes(const Kernel *k, int i) {
    enum { ALL = 10 };
    uint64_t open = 0;
    int beside = 1;
    for (int a = 0; a < k->naxes; a++)
        if (k->axis[a].kind == A_LOOP_TILE || (k->axis[a].kind == A_FULL && k->axis[a].extent->kind != IX_CONST)) open |= UINT64_C(1) << a;
    for (uint32_t e = 0; e < k->exprs.n; e++) {
        int n = __builtin_popcountll(k->exprs.at[e]->mask & open);
        if (k->exprs.at[e]->mask >> i & 1 && n > beside) beside = n;
    }
    return 1 << ALL / beside;
}

// .. of one whose length only a launch's scalars say: as many as a tile has room for, since longer ones cannot be launched.
static int64_t most_of(const Kernel *k, int i) {
    int64_t room = K_TILE_LIMIT, usual = without_sizes(k, i), known = k_pow2(k->axis[i].extent->hi);
    for (int a = 0; a < k->naxes; a++) {
        Ix extent = k->axis[a].extent;
        if (k->axis[a].kind == A_TILE) room /= k->axis[a].by;
        else if (k->axis[a].kind == A_FULL && a != i) room /= extent->kind == IX_CONST ? k_pow2(extent->value) : K_TILE_LIMIT;
    }
    if (room < usual) room = usual;
    return known < room ? known : room;
}

static const char *block_of(const Kernel *k, int i, const char *name, const char *extent) {
    return k->scalar ? arena_printf(k->arena, "%s = %" PRId64, name, most_of(k, i))
                     : arena_printf(k->arena, "%s = next_pow2(%s) or %d", name, extent, without_sizes(k, i));
}

static void full_axes(Kernel *k, KScope *s) {
    for (int i = 0; i < k->naxes; i++) {
        const KAxis *a = &k->axis[i];
        if (a->kind != A_FULL) continue;
        k_indent(s);
        if (a->extent->kind == IX_CONST) {
            int64_t n = a->extent->value, p = k_pow2(n);
            if (p == n) buf_printf(s->to, "let %s = 0 .. %" PRId64 ";\n", a->name, n);
            else buf_printf(s->to, "let %s = %" PRId64 " by %" PRId64 ";\n", a->name, n, p);
            continue;
        }
        Buf e = {0};
        k->in_head = true;
        k->scalar = false;
        k_put_ix(k, &e, a->extent, P_PLUS);
        k->in_head = false;
        k->unsized |= k->scalar;
        const char *block = k_name(k, "BLOCK");
        vec_push(k->arena, &k->blocks, block_of(k, i, block, e.p));
        buf_printf(s->to, "let %s = %s by %s;\n", a->name, e.p, block);
        buf_free(&e);
    }
}

static void put_by(Buf *to, const KAxis *a) {
    if (a->open) buf_printf(to, " by %s", a->open);
    else buf_printf(to, " by %" PRId64, a->by);
}

// A product's loops around what is in them. Returns the axis of its tile; NULL: there is none.
static const char *loop_head(Kernel *k, Buf *head, uint64_t trips) {
    const char *along = NULL;
    for (int i = 0; i < k->naxes; i++) {
        const KAxis *a = &k->axis[i];
        if (!(trips >> i & 1)) continue;
        buf_printf(head, "%s%s in ", head->n ? ", " : "for ", a->name);
        k_put_ix(k, head, a->extent, P_PLUS);
        if (a->kind != A_LOOP_TILE) continue;
        put_by(head, a);
        along = a->name;
    }
    return along;
}

static void add_product(Kernel *k, KScope *loop, const char *along, const char *to, KExpr *left, KExpr *right) {
    bool add = k->by_sum || !along;
    const char *a = k_operand(k, loop, left, add ? P_TIMES : P_TERNARY), *b = k_operand(k, loop, right, add ? P_UNARY : P_TERNARY);
    k_indent(loop);
    if (!along) buf_printf(loop->to, "%s += %s * %s;\n", to, a, b);
    else if (k->by_sum) buf_printf(loop->to, "%s += sum(%s * %s over %s);\n", to, a, b, along);
    else buf_printf(loop->to, "%s += dot(%s, %s over %s%s);\n", to, k->across ? b : a, k->across ? a : b, along, k_precision(k, k->a));
}

static void put_loop(KScope *s, const Buf *head, const Buf *inside) {
    if (!head->n) { buf_puts(s->to, inside->p); return; }
    k_indent(s);
    buf_printf(s->to, "%s {\n%s", head->p, inside->p);
    k_indent(s);
    buf_puts(s->to, "}\n");
}

static void product_loop(Kernel *k, KScope *s) {
    Buf head = {0}, inside = {0};
    KScope loop = {&inside, k->trips[0], s, s->indent + 1};
    uint64_t axes = k->a->mask | k->b->mask;
    const char *along = loop_head(k, &head, k->trips[0]);
    loop.indent -= !head.n;
    for (int i = 0; i < k->naxes; i++)
        if (!(loop.loops >> i & 1) && (k->axis[i].kind == A_TILE)) axes |= UINT64_C(1) << i;
    const char *tile = k_tile_axes(k, axes & ~loop.loops), *elem = elem_name(k->fg->anchor->contract.acc);
    k_indent(s);
    for (int sum = 0; sum <= k->nmore; sum++) {
        if (tile[0]) buf_printf(s->to, "%svar %s = zeros<%s>(%s);", sum ? "  " : "", k_sum_name[sum], elem, tile);
        else buf_printf(s->to, "%svar %s: %s = 0;", sum ? "  " : "", k_sum_name[sum], elem);
    }
    buf_putc(s->to, '\n');
    for (int sum = 0; sum <= k->nmore; sum++) add_product(k, &loop, along, k_sum_name[sum], k->a, sum ? k->more[sum - 1] : k->b);
    put_loop(s, &head, &inside);
    for (int i = 0; i < k->nalso; i++) {
        head.n = inside.n = 0;
        loop = (KScope){&inside, k->trips[1 + i], s, s->indent + 1};
        along = loop_head(k, &head, k->trips[1 + i]);
        loop.indent -= !head.n;
        add_product(k, &loop, along, k_sum_name[0], k->also[i][0], k->also[i][1]);
        put_loop(s, &head, &inside);
    }
    buf_free(&head);
    buf_free(&inside);
}

// `let v = cumsum(..);` or `let v, at = sort(..);`
static void put_along(Kernel *k, KScope *s) {
    static const char *const scan[] = {"cumsum", "cumprod", "cummax", "cummin"};
    const Node *n = k->along.node;
    const char *axis = k->axis[k->along.axis].name, *arg = k_operand(k, s, k->along.arg, P_TERNARY);
    k->along.value = k_name(k, "v");
    if (n->kind == G_sort) k->along.places = k_name(k, "at");
    k_indent(s);
    if (n->kind == G_scan) {
        buf_printf(s->to, "let %s = %s(%s over %s%s%s);\n", k->along.value, scan[n->op], arg, axis,
                   n->scan.exclusive ? ", exclusive = true" : "", n->scan.reverse ? ", reverse = true" : "");
    } else {
        buf_printf(s->to, "let %s, %s = sort(%s, %s over %s%s);\n", k->along.value, k->along.places, arg, axis, axis,
                   !n->sort.descending ? "" : elem_is_float((Elem)n->elem) ? ", descending = true, nan_first = true" : ", descending = true");
    }
}

// How two parts of the keys become one, for whoever divides the loop (lower/specialize/sliced_k.c, split.c).
static void put_merge(KScope *in, KScope *s, bool base2) {
    static const char *lines[] = {"let t = max(x.top, y.top);\n", "let a = exp2(%s);\n", "let b = exp2(%s);\n",
                                  "(t, x.den * a + y.den * b, x.acc * a + y.acc * b)\n"};
    KScope deeper = {s->to, 0, in, in->indent + 1}, clause = {s->to, 0, s, in->indent};
    buf_putc(s->to, '\n');
    k_indent(&clause), buf_puts(s->to, "merge |x, y| {\n");
    for (int i = 0; i < 4; i++) {
        k_indent(&deeper);
        if (i == 1) buf_printf(s->to, lines[i], base2 ? "x.top - t" : "(x.top - t) * LOG2E");
        else if (i == 2) buf_printf(s->to, lines[i], base2 ? "y.top - t" : "(y.top - t) * LOG2E");
        else buf_puts(s->to, lines[i]);
    }
    k_indent(&clause), buf_puts(s->to, "}\n");
    k_indent(s), buf_puts(s->to, "{\n");
}

// Softmax and the weighted sum of values as one loop over keys; its scores are never stored.
static void put_attention(Kernel *k, KScope *s) {
    const KAxis *n = &k->axis[k->keys];
    uint64_t tile = k->score->mask & ~(UINT64_C(1) << k->keys);
    char *rows = k_tile_axes(k, tile), *all = k_tile_axes(k, (tile | k->b->mask) & ~(UINT64_C(1) << k->keys));
    Buf inside = {0};
    KScope loop = {&inside, UINT64_C(1) << k->keys, s, s->indent + 1};
    k_indent(s);
    if (rows[0]) buf_printf(s->to, "var top = full(lowest(), %s);  var den = zeros<f32>(%s);  ", rows, rows);
    else buf_puts(s->to, "var top = lowest();  var den = 0.0;  ");
    if (all[0]) buf_printf(s->to, "var acc = zeros<f32>(%s);\n", all);
    else buf_puts(s->to, "var acc = 0.0;\n");
    const char *score = k_operand(k, &loop, k->score, P_TERNARY),
               *v = k_operand(k, &loop, k->b, k->by_sum ? P_UNARY : P_TERNARY);
    const char *lines[] = {"let t = max(top, max(%s over %s));\n",
                           k->base2 ? "let p = exp2(%s - t);\n" : "let p = exp2((%s - t) * LOG2E);\n",
                           k->base2 ? "let r = exp2(top - t);\n" : "let r = exp2((top - t) * LOG2E);\n",
                           "den = den * r + sum(p over %s);\n"};
    k_indent(&loop), buf_printf(&inside, lines[0], score, n->name);
    k_indent(&loop), buf_printf(&inside, lines[1], score);
    k_indent(&loop), buf_puts(&inside, lines[2]);
    k_indent(&loop), buf_printf(&inside, lines[3], n->name);
    k_indent(&loop);
    if (k->by_sum) buf_printf(&inside, "acc = acc * r + sum(p * %s over %s);\n", v, n->name);
    else if (k->b->elem == EL_f32) buf_printf(&inside, "acc = acc * r + dot(p, %s over %s%s);\n", v, n->name, k_precision(k, k->b));
    else buf_printf(&inside, "acc = acc * r + dot(p as %s, %s over %s);\n", elem_name(k->b->elem), v, n->name);
    k_indent(&loop), buf_puts(&inside, "top = t;\n");
    k_indent(s);
    buf_printf(s->to, "for %s in ", n->name);
    if (k->bound) k->axis[k->last].value->name = arena_printf(k->arena, "last(%s)", k->axis[k->queries].name);
    if (k->bound || k->room) {
        buf_puts(s->to, "min(");
        k_put_ix(k, s->to, n->extent, P_TERNARY);
        buf_puts(s->to, ", ");
        k_put_ix(k, s->to, k->bound ? k->bound : k->room, P_TERNARY);
        buf_putc(s->to, ')');
    } else {
        k_put_ix(k, s->to, n->extent, P_PLUS);
    }
    put_by(s->to, n);
    put_merge(&loop, s, k->base2);
    buf_puts(s->to, inside.p);
    k_indent(s), buf_puts(s->to, "}\n");
    k_indent(s), buf_puts(s->to, k->guarded ? "acc = acc * where(den == 0, 0.0, 1 / den);\n" : "acc = acc * (1 / den);\n");
    buf_free(&inside);
}

static void put_store(Kernel *k, KScope *s, const KStore *st) {
    Buf at = {0};
    k_name_values(k, s, st->at, st->nat);
    k_parts_begin(k, s, st->at, st->nat);
    for (int i = 0; i < st->nat; i++) {
        if (i) buf_puts(&at, ", ");
        k_put_number(k, &at, st->at[i], P_TERNARY);
    }
    k_parts_end(k);
    const char *name = k->params.at[st->param].name, *v = k_operand(k, s, st->value, P_TERNARY), *where = at.p ? at.p : "";
    k_indent(s);
    if (k->in_place && st->node->op == GR_sum) buf_printf(s->to, "atomic_add(%s[%s], %s);\n", name, where, v);
    else buf_printf(s->to, "%s[%s] = %s;\n", name, where, v);
    buf_free(&at);
}

// The loops that this store is in: columns that are too long for a tile, or one of several sources.
static uint64_t loops_of(const Kernel *k, const KStore *st) {
    uint64_t loops = 0;
    for (int i = 0; i < k->naxes && !k->a && !k->score; i++)
        for (int d = 0; d < st->nat && k->axis[i].kind == A_LOOP_TILE; d++) loops |= st->at[d]->axes & UINT64_C(1) << i;
    return loops;
}

static void put_stores(Kernel *k, KScope *s) {
    for (uint32_t i = 0, end; i < k->stores.n; i = end) {
        Buf head = {0}, inside = {0};
        KScope loop = {&inside, loops_of(k, &k->stores.at[i]), s, s->indent + 1};
        for (end = i; end < k->stores.n && loops_of(k, &k->stores.at[end]) == loop.loops;) end++;
        for (int n = 0; n < k->naxes; n++) {
            if (!(loop.loops >> n & 1)) continue;
            buf_printf(&head, "%s%s in ", head.n ? ", " : "for ", k->axis[n].name);
            k_put_ix(k, &head, k->axis[n].extent, P_PLUS);
            put_by(&head, &k->axis[n]);
        }
        for (uint32_t n = i; n < end; n++) put_store(k, head.n ? &loop : s, &k->stores.at[n]);
        if (head.n) {
            k_indent(s);
            buf_printf(s->to, "%s {\n%s", head.p, inside.p ? inside.p : "");
            k_indent(s);
            buf_puts(s->to, "}\n");
        }
        buf_free(&head);
        buf_free(&inside);
    }
}

static void put_grid(Kernel *k, Buf *to) {
    bool first = true;
    for (int i = 0; i < k->naxes; i++) {
        const KAxis *a = &k->axis[i];
        if (a->kind != A_GRID && a->kind != A_TILE) continue;
        buf_printf(to, "%s%s in ", first ? "    grid (" : ", ", a->name);
        k_put_ix(k, to, a->extent, P_PLUS);
        if (a->kind == A_TILE) put_by(to, a);
        first = false;
    }
    buf_puts(to, first ? "" : ")\n");
}

bool k_stands_alone(const Kernel *k, Ix dim, bool in_results) {
    int results = 0;
    for (uint32_t i = 0; i < k->params.n; i++) results += k->params.at[i].out;
    for (uint32_t i = 0; i < k->params.n; i++)
        for (int d = 0; d < k->params.at[i].rank && (!k->params.at[i].out || (in_results && results == 1)); d++)
            if (k->params.at[i].shape[d] == dim) return true;
    return false;
}

// Dimensions that are products and so on, and that only results have, are defined by an equation.
static void put_where(Kernel *k, Buf *to) {
    bool first = true;
    for (uint32_t i = 0; i < k->alias.n; i++) {
        KAlias a = k->alias.at[i];
        if (k_stands_alone(k, a.of, false)) continue;
        k->alias.at[i].of = NULL;
        buf_printf(to, "%s%s = ", first ? "    where " : ", ", a.name);
        k_put_ix(k, to, a.of, P_TERNARY);
        k->alias.at[i].of = a.of;
        first = false;
    }
}

// Of a parameter some rows may be read: how many it has stands once in the text then. Named in `where` it is no slip (E0331).
static void say_unused(Kernel *k, Buf *where, const char *text) {
    for (uint32_t i = 0; i < k->alias.n; i++) {
        const char *name = k->alias.at[i].name;
        size_t n = strlen(name);
        int times = 0;
        for (const char *c = strstr(text, name); c; c = strstr(c + n, name)) times += !g_in_name(c[n]) && (c == text || !g_in_name(c[-1]));
        if (times == 1) buf_printf(where, "%s%s >= 0", where->n ? ", " : "    where ", name);
    }
}

// Dimensions in it have to be those of tensors.
static const char *short_tile(Kernel *k) {
    Buf b = {0};
    uint32_t known = k->dims.n;
    bool fine = !k_lacks_dim(k, k->few.heads) && !k_lacks_dim(k, k->few.rows);
    k_put_ix(k, &b, k->few.heads, P_TIMES);
    buf_puts(&b, " * cdiv(");
    k_put_ix(k, &b, k->few.rows, P_TERNARY);
    for (uint32_t i = known; i < k->dims.n; i++) fine &= k_stands_alone(k, k->dims.at[i], true);
    if (!fine) k->dims.n = known;
    const char *text = fine ? arena_printf(k->arena, "(%s, 128) <= %d) ? 64 : 128 or 128", b.p, k->few.most) : "128";
    buf_free(&b);
    return text;
}

static void put_blocks(Kernel *k, Buf *to) {
    for (uint32_t i = 0; i < k->blocks.n; i++) {
        const char *text = k->blocks.at[i], *at = strchr(text, '$');
        buf_puts(to, i ? ", " : "<");
        if (at) buf_printf(to, "%.*s%s", (int)(at - text), text, short_tile(k));
        else buf_puts(to, text);
    }
    if (k->blocks.n) buf_putc(to, '>');
}

static void put_tensors(Kernel *k, Buf *to) {
    for (uint32_t i = 0; i < k->params.n; i++) {
        const KParam *p = &k->params.at[i];
        buf_printf(to, "%s%s: %s%s[", i ? ", " : "", p->name, p->out ? "out " : p->inout ? "inout " : "", elem_name((Elem)p->node->elem));
        for (int d = 0; d < p->rank; d++) {
            if (d) buf_puts(to, ", ");
            k_put_ix(k, to, p->shape[d], P_TERNARY);
        }
        buf_putc(to, ']');
    }
}

// Dimensions that no tensor has: scalars, or read from memory at the kernel's begin.
static void put_scalars(Kernel *k, Buf *to, Buf *reads) {
    for (uint32_t i = 0; i < k->dims.n; i++) {
        if (k_stands_alone(k, k->dims.at[i], true)) continue;
        const IxDim *info = ix_dim_info(k->g, k->dims.at[i]);
        const char *dim = g_dim_word(k->g, k->dims.at[i]);
        vec_push(k->arena, &k->scalars, k->dims.at[i]);
        if (info->value && !k->numbers) {
            const char *at = k_name(k, arena_printf(k->arena, "%s_at", dim));
            vec_push(k->arena, &k->named, at);
            buf_printf(to, ", %s: i32[]", at);
            buf_printf(reads, "    let %s = %s[];\n", dim, at);
        } else {
            buf_printf(to, ", %s: i32", dim);
        }
    }
}

static void take_names(Kernel *k) {
    static const char *const ours[] = {"top", "den", "t", "p", "r"};
    for (int i = 0; i < ix_dim_count(k->g); i++)
        vec_push(k->arena, &k->names, g_dim_word(k->g, ix_dim_at(k->g, i)));
    for (int i = 0; i <= k->nmore || i < 2; i++) vec_push(k->arena, &k->names, k_sum_name[i]);
    for (int i = 0; k->score && i < 5; i++) vec_push(k->arena, &k->names, ours[i]);
    k_settle_params(k);
    for (int i = 0; i < k->naxes; i++) k->axis[i].name = k_name(k, k->axis[i].name);
}

void k_print(Kernel *k, Buf *to, const char *name) {
    Buf body = {0}, head = {0}, where = {0}, params = {0}, reads = {0}, blocks = {0}, rest = {0};
    KScope top = {&body, 0, NULL, 1};
    take_names(k);
    full_axes(k, &top);
    if (k->a) product_loop(k, &top);
    if (k->score) put_attention(k, &top);
    if (k->along.node) put_along(k, &top);
    put_stores(k, &top);
    k->in_head = true;
    put_where(k, &where);
    put_grid(k, &head);
    put_blocks(k, &blocks);
    put_tensors(k, &params);
    put_scalars(k, &params, &reads);
    k->in_head = false;
    buf_printf(to, "kernel %s", name);
    buf_printf(&rest, "%s(%s)\n", blocks.p ? blocks.p : "", params.p ? params.p : "");
    Buf all = {0};
    buf_printf(&all, "%s%s%s%s%s", rest.p, where.p ? where.p : "", head.p ? head.p : "", reads.p ? reads.p : "", body.p ? body.p : "");
    say_unused(k, &where, all.p);
    buf_printf(to, "%s%s%s%s{\n%s%s}\n", rest.p, where.p ? where.p : "", where.p ? "\n" : "", head.p ? head.p : "", reads.p ? reads.p : "", body.p ? body.p : "");
    buf_free(&all);
    buf_free(&rest);
    buf_free(&where);
    for (uint32_t i = 0; i < k->tune.n; i++)
        buf_printf(to, "%s%s;%s", i ? " " : "\ntune @ {\n    ", k->tune.at[i], i + 1 == k->tune.n ? "\n}\n" : "");
    buf_free(&reads);
    buf_free(&blocks);
    buf_free(&body);
    buf_free(&head);
    buf_free(&params);
}
