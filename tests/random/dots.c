// Random products of operands that are computed, gathered or made on the way, over tiles of any extent, alone, in loops and one after the other.
//
//     kernel k(a0: bf16[M, K], b0: i8[N, K], w: f32[K], ids: i32[L], s: i32, y0: out f32[M, N])
//         grid (m in M by 33, n in N by 20)
//     {
//         var t0 = zeros(m, n);
//         for k in K by 17 { t0 += dot(where(exp(w[k]) > 0.5, (a0[ids[m], k] as f32), 2) as f16, abs((b0[n, k] as f32) - 1) as f16); }
//         y0[m, n] = max(t0, 1);
//     }
//
// Operands are small integers in every type, so that the sums are exact in any order and every bit has to agree.
#include "tests/random/draw.h"
#include "tests/random/generate.h"

#include <stdio.h>
#include <string.h>

static const int64_t extents[] = {3, 5, 6, 7, 8, 9, 10, 16, 16, 17, 20, 24, 31, 32, 32, 33, 48, 64, 64, 65, 66, 80, 96, 100, 128};
static const char *const stored[] = {"f32", "f16", "bf16", "i8", "u8", "i16", "i32", "f8e4m3", "f16", "bf16"};
static const char *const typed[] = {"f16", "bf16", "f32", "f16", "bf16", "f8e4m3", "f64"};

typedef struct Dots { Draw d; Program *p; int64_t tile[R_DIMS]; uint32_t keep; Buf params, body; int operands; bool bytes, batch; } Dots;

// What is made of an element e of an operand along its axes; w holds a number for each step of the sum.
static const char *const forms[] = {
    "%s", "%s", "%s", "(%s * (w[%c] as f32))", "max(%s, 0)", "abs(%s - 1)", "where(%c %% 3 == 1, %s, 2)", "where(exp(%s) > 0.5, %s, 1)", "(%s + 1)", "where(cos(w[%c] as f32) > 0.3, %s, -1)",
    "min(%s, (w[%c] as f32))",
};

static void element(Dots *g, const char *x, char along, Buf *to) {
    for (const char *c = PICK(&g->d, forms); *c; c++) {
        if (*c == '%' && c[1] == 's') buf_puts(to, x), c++;
        else if (*c == '%' && c[1] == 'c') buf_printf(to, "%c", along), c++;
        else if (*c == '%' && c[1] == '%') buf_puts(to, "%"), c++;
        else buf_add(to, c, 1);
    }
}

// An operand over `row` and `along`, as type e.
static void operand(Dots *g, char row, char along, const char *e, Buf *to) {
    int i = g->operands++;
    bool turned = chance(&g->d, 40), gathered = chance(&g->d, 20), bytes = g->bytes, batch = g->batch && chance(&g->d, 50);
    const char *type = bytes ? e : chance(&g->d, 60) ? e : PICK(&g->d, stored);
    char x[120], r[24], index[48];
    snprintf(r, sizeof r, gathered ? "ids[%c]" : "%c", row);
    if (turned) snprintf(index, sizeof index, "%s%c, %s", batch ? "i, " : "", along, r);
    else snprintf(index, sizeof index, "%s%s, %c", batch ? "i, " : "", r, along);
    buf_printf(&g->params, "a%d: %s[%s%c, %c], ", i, type, batch ? "3, " : "", turned ? along - 32 : row - 32, turned ? row - 32 : along - 32);
    if (bytes || (!strcmp(type, e) && chance(&g->d, 40))) { buf_printf(to, "a%d[%s]", i, index); return; }
    snprintf(x, sizeof x, "(a%d[%s] as f32)", i, index);
    buf_puts(to, "(");
    element(g, x, along, to);
    buf_printf(to, ") as %s", e);
}

static const char *any_type(Dots *g) {
    static const char *const whole[] = {"i8", "u8"};
    g->bytes = chance(&g->d, 12);
    return g->bytes ? PICK(&g->d, whole) : PICK(&g->d, typed);
}

static const char *sum_type(const Dots *g, const char *e) { return g->bytes ? "i32" : strcmp(e, "f64") ? "f32" : "f64"; }

static void product(Dots *g, char row, char column, char along, const char *e, Buf *to) {
    buf_puts(to, "dot(");
    operand(g, row, along, e, to);
    buf_puts(to, ", ");
    operand(g, column, along, e, to);
    buf_puts(to, ")");
}

// Sums of one or two products in a loop over k.
static void summed(Dots *g) {
    int n = 1 + (int)roll(&g->d, 2);
    const char *e = any_type(g), *sum = sum_type(g, e);
    Buf loop = {0};
    g->batch = chance(&g->d, 25);
    for (int i = 0; i < n; i++) buf_printf(&g->body, "    var t%d = zeros<%s>(m, n);\n", i, sum);
    if (g->batch) buf_puts(&loop, "    for i in 3 {\n");
    buf_printf(&loop, chance(&g->d, 10) ? "    for k in s .. K by %d {\n" : "    for k in K by %d {\n", (int)g->tile[3]);
    for (int i = 0; i < n; i++) {
        buf_printf(&loop, "        t%d += ", i && chance(&g->d, 30) ? 0 : i);
        product(g, 'm', 'n', 'k', e, &loop);
        buf_puts(&loop, ";\n");
        if (chance(&g->d, 10)) buf_printf(&loop, "        t%d = min(t%d, 50);\n", i, i);       // the order of steps is seen
    }
    buf_puts(&loop, g->batch ? "    }\n    }\n" : "    }\n");
    g->batch = false;
    buf_puts(&g->body, loop.p);
    for (int i = 0; i < n && g->keep & 1; i++) buf_printf(&g->body, "    y0[m, n] = t%d%s;\n", i, i ? " - t0" : "");
    if (g->keep & 1) buf_printf(&g->params, "y0: out %s[M, N], ", sum);
    if (g->keep & 2) {
        buf_printf(&g->body, "    y1[n, m] = max(t0, 1) as f32;\n");
        buf_puts(&g->params, "y1: out f32[N, M], ");
    }
    g->p->nouts = 2;
    buf_free(&loop);
}

// A loop over n, whose trips make a product, something of it, and another product or sums: attention's form.
static void chained(Dots *g) {
    static const char *const middles[] = {"max(t, 0)", "min(max(t, -4), 4)", "where(t > 0, 1, 0)", "min(abs(t - 1), 9)", "where(exp(min(t, 3)) > 0.5, 2, 1)"};
    const char *e = any_type(g);
    if (g->bytes || !strcmp(e, "f64") || !strcmp(e, "f8e4m3")) e = "f16", g->bytes = false;
    buf_printf(&g->body, "    let k = K by %d;\n    let j = J by %d;\n    var o = zeros(m, j);\n    var d = zeros(m);\n    var top = full<f32>(-9, m);\n", (int)g->tile[3], (int)g->tile[2]);
    buf_printf(&g->body, "    for n in N by %d {\n        let t = ", (int)g->tile[1]);
    product(g, 'm', 'n', 'k', e, &g->body);
    buf_printf(&g->body, ";\n        let u = min(%s, 8);\n", PICK(&g->d, middles));
    if (chance(&g->d, 50)) buf_puts(&g->body, "        top = max(top, max(t over n));\n");
    if (chance(&g->d, 70)) buf_puts(&g->body, chance(&g->d, 30) ? "        d += sum(u over n) - min(top, 1);\n" : "        d += sum(u over n);\n");
    buf_printf(&g->body, "        o += dot(u as %s, ", e);
    operand(g, 'j', 'n', e, &g->body);
    buf_puts(&g->body, ");\n    }\n");
    if (g->keep & 1) buf_puts(&g->body, "    y0[m, j] = o;\n"), buf_puts(&g->params, "y0: out f32[M, J], ");
    if (g->keep & 2) buf_puts(&g->body, "    y1[m] = d - top;\n"), buf_puts(&g->params, "y1: out f32[M], ");
    g->p->nouts = 2;
}

// The whole of a sum in one tile.
static void whole(Dots *g) {
    const char *e = any_type(g);
    buf_printf(&g->body, "    let k = K by %d;\n    let t = ", (int)g->tile[3]);
    product(g, 'm', 'n', 'k', e, &g->body);
    buf_puts(&g->body, ";\n");
    if (g->keep & 1) buf_puts(&g->body, "    y0[m, n] = t as f32;\n"), buf_puts(&g->params, "y0: out f32[M, N], ");
    if (g->keep & 2) buf_puts(&g->body, "    y1[m] = max(t over n) as f32;\n"), buf_puts(&g->params, "y1: out f32[M], ");
    g->p->nouts = 2;
}

void generate_dots(uint64_t seed, uint32_t keep, Program *p, Buf *text) {
    Dots g = {.d = {seed * 0x9e3779b97f4a7c15u + 29}, .p = p, .keep = keep};
    roll(&g.d, 2), roll(&g.d, 2);
    *p = (Program){.dim = {'M', 'N', 'J', 'K'}, .small = true, .exact = {true, true}};
    uint32_t form = roll(&g.d, 10);
    bool over_n = form < 5 || form == 9;                               // the grid has n; else a loop, or one tile
    for (int i = 0; i < R_DIMS; i++) {
        int64_t t = PICK(&g.d, extents), n;
        bool one = i == 2 || (i == 3 && form >= 5) || (i == 1 && form == 9);
        while (one && t > 66) t = PICK(&g.d, extents);
        n = chance(&g.d, 30) ? t : chance(&g.d, 40) ? t - 1 + 2 * roll(&g.d, 2) : chance(&g.d, 60) ? t * (1 + roll(&g.d, 4)) - 1 + roll(&g.d, 3) : 1 + roll(&g.d, 200);
        g.tile[i] = t, p->size[i] = one && n > t ? t : n > 260 ? 260 : n < 1 ? 1 : n;
    }
    if (form < 5) summed(&g);
    else if (form < 9) chained(&g);
    else whole(&g);
    buf_printf(text, "kernel k(%sw: f32[K], ids: i32[L], s: i32)\n    grid (m in M by %d", g.params.p, (int)g.tile[0]);
    if (over_n && form != 9) buf_printf(text, ", n in N by %d", (int)g.tile[1]);
    buf_puts(text, ")\n{\n");
    if (form == 9) buf_printf(text, "    let n = N by %d;\n", (int)g.tile[1]);
    buf_printf(text, "%s}\n", g.body.p);
    if (form >= 5 && form < 9) {                                       // w is along what is summed there, too
        for (char *c = strstr(text->p, "w: f32[K]"); c; c = NULL) c[7] = 'L';
    }
    buf_free(&g.params), buf_free(&g.body);
}
