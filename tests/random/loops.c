// Random loops whose trips carry values that read each other, over tiles of any extent, what dead lanes hold being anything but neutral.
//
//     kernel k(x0: i8[N, J], x1: f32[M, N], ids: i32[L], s: i32, y0: out f32[M], y1: out f32[M, N])
//         grid (m in M by 10)
//     {
//         let j = J by 3;
//         var v0 = full<f32>(2, m);  var v1 = full<f32>(-3, m);
//         for n in N by 65 {
//             v1 = max(v1, v0);
//             v0 += sum(abs((x0[n, j] as f32) - 1) over n, j);
//             y1[m, n] = v0 + cumsum((x1[m, n] as f32) over n);
//         }
//         y0[m] = v1;
//     }
//
// A range is as long as its tile, one shorter or longer, or several tiles and a bit: known when the kernel is launched alone. Values are small integers
// in every type, and their magnitude is followed, so that all sums are exact in any order and every bit has to agree; what is not exact (exp, cos) is asked
// a question that has a clear answer. Others are random, sums of functions, within eval's bound. Updates stand in any order and in inner loops; some loops
// say how their parts are merged.
#include "tests/random/draw.h"
#include "tests/random/generate.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

enum { AM = 1, AN = 2, AJ = 4, AK = 8, INPUTS = 6, VARS = 4, OUTS = 4 };

static const int64_t extents[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 16, 17, 20, 24, 31, 32, 33, 34, 48, 64, 65, 66, 100, 128, 200};
static const char *const stored[] = {"f32", "f32", "f32", "f16", "bf16", "i8", "u8", "i16", "i32", "f64", "f8e4m3", "u16", "u32", "i64"};

typedef struct Value { char text[400]; double most; unsigned axes; } Value;

typedef struct Loops {
    Draw     d;
    Program *p;
    int64_t  tile[R_DIMS];
    unsigned tiles;                    // axes that are index tiles; others are scalars
    unsigned input[INPUTS];            // axes of x<i>
    const char *type;                  // of what is computed
    bool     whole, exact, ids;        // in integers; small ones, in floats too
    double   limit;                    // magnitudes above which a sum need not be exact
    struct { unsigned axes; double most; } var[VARS];
    int      nvars;
    uint32_t keep;
    Buf      params, body, *to;
    int      outs;
    bool     leaves;                   // a loop may leave out trips: it stores nothing, since outputs hold anything before
} Loops;

static const char *name_of(unsigned axis) { return axis == AM ? "m" : axis == AN ? "n" : axis == AJ ? "j" : "k"; }
static int number_of(unsigned axis) { return axis == AM ? 0 : axis == AN ? 1 : axis == AJ ? 2 : 3; }

static char *axes_of(unsigned axes, bool capital, char *out) {     // "m, n"
    char *to = out;
    *to = 0;
    for (unsigned a = AM; a <= AK; a *= 2)
        if (axes & a) to += sprintf(to, "%s%c", to == out ? "" : ", ", *name_of(a) - (capital ? 32 : 0));
    return out;
}

static double trips(const Loops *g, unsigned axes) {               // elements along them
    double n = 1;
    for (unsigned a = AM; a <= AK; a *= 2) if (axes & a) n *= (double)g->p->size[number_of(a)];
    return n < 1 ? 1 : n;
}

// ---- values ------------------------------------------------------------------------------------------------------

static Value say(double most, unsigned axes, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static Value say(double most, unsigned axes, const char *fmt, ...) {
    Value v = {.most = most, .axes = axes};
    va_list more;
    va_start(more, fmt);
    vsnprintf(v.text, sizeof v.text, fmt, more);
    va_end(more);
    return v;
}

static int input_over(Loops *g, unsigned axes, unsigned must) {
    for (int tries = 0; tries < 8; tries++) {
        int i = (int)roll(&g->d, INPUTS);
        if ((g->input[i] & must) == must && !(g->input[i] & ~axes)) return i;
    }
    return -1;
}

// Over some of the axes, `must` among them.
static Value leaf(Loops *g, unsigned axes, unsigned must) {
    char at[32];
    int  x = input_over(g, axes, must);
    uint32_t kind = roll(&g->d, 10);
    if (kind == 0 && must) return say(trips(g, must), must, "(%s as %s)", name_of(must), g->type);
    if (kind == 1 && must == AN) {
        g->ids = true;
        return say(3, must, "(z[ids[n]%s] as %s)", "", g->type);
    }
    if (x < 0 && must) return say(3, must, "((%s %% 5) as %s)", name_of(must), g->type);
    if (x < 0 || kind == 2) return say(3, 0, "(%d as %s)", (int)roll(&g->d, 7) - 3, g->type);
    return say(3, g->input[x], "(x%d[%s] as %s)", x, axes_of(g->input[x], false, at), g->type);
}

static Value value(Loops *g, unsigned axes, unsigned must, int depth) {
    if (depth == 0) return leaf(g, axes, must);
    Value a = value(g, axes, must, depth - 1), b = leaf(g, axes, 0);
    unsigned both = a.axes | b.axes;
    switch (roll(&g->d, g->whole ? 9 : 12)) {
    case 0: return say(a.most + b.most, both, "(%s + %s)", a.text, b.text);
    case 1: return say(a.most + b.most, both, "(%s - %s)", a.text, b.text);
    case 2: return say(a.most * b.most, both, "(%s * %s)", a.text, b.text);
    case 3: return say(a.most + 1, a.axes, "abs(%s - 1)", a.text);
    case 4: return say(fmax(a.most, b.most), both, "max(%s, %s)", a.text, b.text);
    case 5: return say(fmax(a.most, b.most), both, "where(%s > %d, %s, 2)", b.text, (int)roll(&g->d, 3) - 1, a.text);
    case 6: return say(a.most + 3, a.axes, "(%s + 3)", a.text);
    case 7: return say(fmax(a.most, 2), a.axes, "(%d - %s)", 1 + (int)roll(&g->d, 3), a.text);
    case 8: return a;
    case 9: return g->exact ? say(2, a.axes, "(where(exp(%s) > 0.5, 2, 1) as %s)", a.text, g->type) : say(9, a.axes, "exp(-abs(%s))", a.text);
    case 10: return g->exact ? say(1, a.axes, "(where(cos(%s) > 0.3, 1, -1) as %s)", a.text, g->type) : say(1, a.axes, "cos(%s)", a.text);
    default: return g->exact ? say(a.most, a.axes, "floor(%s)", a.text) : say(1, a.axes, "tanh(%s)", a.text);
    }
}

// ---- what is carried ----------------------------------------------------------------------------------------------

// A value over the variable's axes and no others, made of values over those and `over`, which are reduced.
static Value reduced(Loops *g, unsigned axes, unsigned over, const char *fold) {
    char at[32];
    unsigned tiles = over & g->tiles;
    Value v = tiles ? value(g, axes | over, tiles & (~tiles + 1), (int)roll(&g->d, 3)) : value(g, axes | over, over, (int)roll(&g->d, 3));
    tiles &= v.axes;
    if (!tiles) return v;
    return say(*fold == 's' ? v.most * trips(g, tiles) : v.most, v.axes & ~tiles, "%s(%s over %s)", fold, v.text, axes_of(tiles, false, at));
}

static bool fits(const Loops *g, double most) { return g->whole || !g->exact || most < g->limit; }

// One update of a variable, in a loop over `over`; `in`: axes of all loops around it.
static void update(Loops *g, int v, unsigned over, unsigned in) {
    unsigned axes = g->var[v].axes;
    int w = (int)roll(&g->d, (uint32_t)g->nvars);
    bool reads = chance(&g->d, 40) && w != v && !(g->var[w].axes & ~axes) && (g->whole || g->exact);
    double t = trips(g, in), have = g->var[v].most;
    uint32_t kind = roll(&g->d, 8);
    Value r = reduced(g, axes, over, kind < 4 ? "sum" : kind == 4 ? "min" : "max");
    if (kind < 3 && reads && chance(&g->d, 60) && fits(g, have + t * r.most * g->var[w].most)) {
        buf_printf(g->to, "v%d += %s * v%d;", v, r.text, w);
        g->var[v].most = have + t * r.most * g->var[w].most;
    } else if (kind < 4 && fits(g, have + t * (r.most + (reads ? g->var[w].most : 0)))) {
        if (reads) buf_printf(g->to, "v%d += %s - v%d;", v, r.text, w);
        else buf_printf(g->to, "v%d += %s;", v, r.text);
        g->var[v].most = have + t * (r.most + (reads ? g->var[w].most : 0));
    } else if (kind == 6 && g->whole) {
        buf_printf(g->to, chance(&g->d, 50) ? "v%d = v%d * 3 + %s;" : "v%d = v%d ^ %s;", v, v, r.text);
    } else if (kind == 7 && axes == 0 && g->var[w].axes == 0 && g->exact && fits(g, have + t)) {
        buf_printf(g->to, "if v%d > %d { v%d += 1; }", w, (int)roll(&g->d, 9), v);
        g->var[v].most = have + t;
    } else {
        const char *f = chance(&g->d, 70) ? "max" : "min";
        if (reads && chance(&g->d, 50)) buf_printf(g->to, "v%d = %s(v%d, %s - v%d);", v, f, v, r.text, w);
        else if (reads) buf_printf(g->to, "v%d = %s(v%d, v%d);", v, f, v, w);
        else buf_printf(g->to, "v%d = %s(v%d, %s);", v, f, v, r.text);
        g->var[v].most = fmax(have, r.most + (reads ? g->var[w].most : 0));
    }
    buf_puts(g->to, "\n");
}

// A store in the loop over n, of what is carried and of the trip's own.
static void store_in(Loops *g, unsigned grid) {
    char at[32], dims[32];
    int v = (int)roll(&g->d, (uint32_t)g->nvars), out = g->outs;
    if (out == OUTS || g->var[v].axes & ~grid) return;
    unsigned axes = grid | AN;
    Value e = value(g, axes, AN, 1);
    bool tile = (g->tiles & AN) && e.axes & AN;
    static const char *const forms[] = {"cumsum(%s over n)", "cumsum(%s over n, exclusive = true)", "cummax(%s over n)", "%s", "cumsum(%s over n, reverse = true)", "sort(%s over n)"};
    uint32_t form = tile ? roll(&g->d, 6) : 3;
    if (form != 3 && form != 2 && !fits(g, e.most * trips(g, AN))) form = 3;
    g->outs++;
    g->p->exact[out] = g->exact || g->whole;
    if (!(g->keep >> out & 1)) return;
    buf_printf(g->to, "        y%d[%s] = v%d + ", out, axes_of(axes, false, at), v);
    buf_printf(g->to, forms[form], e.text);
    buf_puts(g->to, ";\n");
    buf_printf(&g->params, ", y%d: out %s[%s]", out, g->type, axes_of(axes, true, dims));
}

// An atomic update of a small tensor by the values of a trip.
static void atomic_in(Loops *g, unsigned in) {
    static const char *const types[] = {"i32", "u32", "f32", "i64", "f64", "f16", "bf16"}, *const whole[] = {"add", "min", "max", "xor", "or"};
    int out = g->outs;
    unsigned must = in & g->tiles;
    if (out == OUTS || !g->exact) return;
    const char *type = PICK(&g->d, types), *op = *type == 'i' || *type == 'u' ? PICK(&g->d, whole) : "add";
    if (trips(g, in) * 3 > 200 && (type[1] == '1' || *type == 'b')) type = "f32";
    g->outs++;
    g->p->exact[out] = g->p->any_order[out] = true;
    if (!(g->keep >> out & 1)) return;
    char at[32];
    int  x = input_over(g, in, must & (~must + 1));
    if (x >= 0) buf_printf(g->to, "        atomic_%s(y%d[(abs(x%d[%s] as i32) * 3) %% 20], %d as %s);\n", op, out, x, axes_of(g->input[x], false, at), 1 + (int)roll(&g->d, 3), type);
    else buf_printf(g->to, "        atomic_%s(y%d[%s %% 7], 1 as %s);\n", op, out, must ? name_of(must & (~must + 1)) : "3", type);
    buf_printf(&g->params, ", y%d: inout %s[L]", out, type);
}

static void merge(Loops *g, Buf *head) {                           // of sums, or of maxima, alone
    bool one = g->nvars == 1;
    buf_puts(head, " merge |a, b| ");
    if (!one) buf_puts(head, "(");
    for (int i = 0; i < g->nvars; i++) buf_printf(head, "%smax(a.v%d, b.v%d)", i ? ", " : "", i, i);
    if (!one) buf_puts(head, ")");
}

static void loop_header(Loops *g, unsigned axis, const char *indent, bool merges, Buf *to) {
    int a = number_of(axis);
    char c = *name_of(axis);
    buf_printf(to, "%sfor %c in ", indent, c);
    if (chance(&g->d, 8) && !merges) g->leaves = true, buf_puts(to, "s .. ");
    buf_printf(to, "%c", c - 32);
    if (g->tiles & axis) buf_printf(to, " by %d", (int)g->tile[a]);
    if (merges) merge(g, to);
    buf_puts(to, " {\n");
}

static void loop(Loops *g, unsigned grid, unsigned lets, bool first) {
    bool inner = chance(&g->d, 25), merges = first && !inner && chance(&g->d, 12);
    unsigned over = AN | lets, in = AN;
    g->leaves = chance(&g->d, 8) && !merges;
    loop_header(g, AN, "    ", merges, g->to);
    if (g->leaves) buf_printf(g->to, "        if %s == s * 5 { %s; }\n", g->tiles & AN ? "first(n)" : "n", chance(&g->d, 50) ? "break" : "continue");
    int at = (int)roll(&g->d, (uint32_t)g->nvars + 1), order[VARS], inside = inner ? (int)roll(&g->d, (uint32_t)g->nvars) : -1;
    for (int i = 0; i < g->nvars; i++) order[i] = i;
    for (int i = g->nvars - 1; i > 0; i--) { int k = (int)roll(&g->d, (uint32_t)i + 1), t = order[i]; order[i] = order[k], order[k] = t; }
    for (int i = 0; i <= g->nvars; i++) {
        if (i == at && first && !merges) { if (chance(&g->d, 65) && !g->leaves) store_in(g, grid); else if (chance(&g->d, 40)) atomic_in(g, in | (grid & g->tiles)); }
        if (i == g->nvars) break;
        if (merges) {
            Value r = reduced(g, g->var[order[i]].axes, over, "max");
            buf_printf(g->to, "        v%d = max(v%d, %s);\n", order[i], order[i], r.text);
        } else if (i == inside) {
            loop_header(g, AK, "        ", false, g->to);
            buf_puts(g->to, "            ");
            update(g, order[i], chance(&g->d, 50) ? AK : AK | over, in | AK);
            buf_puts(g->to, "        }\n");
        } else {
            buf_puts(g->to, "        ");
            update(g, order[i], over, in);
        }
    }
    buf_puts(g->to, "    }\n");
}

// ---- the program --------------------------------------------------------------------------------------------------

static int64_t length(Draw *d, int64_t tile, int64_t most) {
    int64_t n = chance(d, 30) ? tile : chance(d, 40) ? tile - 1 + 2 * roll(d, 2) : chance(d, 60) ? tile * (1 + roll(d, 6)) - 1 + roll(d, 3) : 1 + roll(d, (uint32_t)most);
    return n < 1 ? 1 : n > most ? most : n;
}

static void sizes(Loops *g, unsigned grid, unsigned lets) {
    for (int i = 0; i < R_DIMS; i++) {
        unsigned axis = 1u << i;
        g->tile[i] = PICK(&g->d, extents);
        if (axis & (grid | lets | AK)) while (g->tile[i] > (axis == AK ? 40 : 24)) g->tile[i] = PICK(&g->d, extents);
        int64_t most = axis == AN ? 700 : axis == AK ? 90 : 60;
        g->p->size[i] = length(&g->d, g->tile[i], axis & lets ? g->tile[i] : most);
        if (axis & lets && g->p->size[i] > g->tile[i]) g->p->size[i] = g->tile[i];
    }
    if (chance(&g->d, 12)) g->p->size[1] = 1500 + roll(&g->d, 3000), g->p->size[3] = 1 + roll(&g->d, 4);
}

static void finish(Loops *g, unsigned grid, Buf *text) {
    char dims[32], at[32];
    for (int v = 0; v < g->nvars && g->outs < R_OUTS; v++) {
        int out = g->outs++;
        g->p->exact[out] = g->exact || g->whole;
        if (!(g->keep >> out & 1)) continue;
        unsigned axes = g->var[v].axes | grid;
        buf_printf(&g->body, "    y%d[%s] = v%d;\n", out, axes_of(axes, false, at), v);
        buf_printf(&g->params, ", y%d: out %s[%s]", out, g->type, axes_of(axes, true, dims));
    }
    g->p->nouts = g->outs;
    buf_puts(text, "kernel k(");
    for (int i = 0; i < INPUTS; i++) buf_printf(text, "x%d: %s[%s], ", i, PICK(&g->d, stored), axes_of(g->input[i], true, dims));
    buf_printf(text, "z: %s[L], ids: i32[N], s: i32%s)", PICK(&g->d, stored), g->params.p ? g->params.p : "");
    if (grid) buf_printf(text, g->tiles & AM ? " grid (m in M by %d)" : " grid (m in M)", (int)g->tile[0]);
    buf_printf(text, "\n{\n%s}\n", g->body.p);
}

void generate_loops(uint64_t seed, uint32_t keep, Program *p, Buf *text) {
    static const char *const floats[] = {"f32", "f32", "f32", "f64"}, *const integers[] = {"i32", "i32", "i64"};
    Loops g = {.d = {seed * 0x9e3779b97f4a7c15u + 23}, .p = p, .keep = keep};
    char  at[32];
    roll(&g.d, 2), roll(&g.d, 2);
    g.to = &g.body;
    *p = (Program){.dim = {'M', 'N', 'J', 'K'}};
    g.whole = chance(&g.d, 25), g.exact = g.whole || chance(&g.d, 85);
    p->small = g.exact;
    p->rel = 1e-3;                                             // a variable that is added to in each trip has no bound
    g.type = g.whole ? PICK(&g.d, integers) : PICK(&g.d, floats);
    g.limit = g.type[1] == '6' ? 1e14 : 8e6;
    unsigned grid = chance(&g.d, 60) ? AM : 0, lets = chance(&g.d, 45) ? AJ : 0;
    g.tiles = lets | (chance(&g.d, 60) ? AM : 0) | (chance(&g.d, 70) ? AN : 0) | (chance(&g.d, 50) ? AK : 0);
    sizes(&g, grid, lets);
    for (int i = 0; i < INPUTS; i++) g.input[i] = i == 0 ? AN : i == 1 ? AN | (lets ? lets : grid) : i == 2 ? AK | (grid ? grid : AN) : 1 + roll(&g.d, 15);
    for (int i = 0; i < INPUTS; i++) if (i != 1 && trips(&g, g.input[i]) > 50000) g.input[i] = i == 2 ? AK : AN;
    if (!grid) for (int i = 0; i < INPUTS; i++) if (g.input[i] & AM) g.input[i] = AN;
    if (lets) buf_printf(&g.body, "    let j = J by %d;\n", (int)g.tile[2]);
    g.nvars = 1 + (int)roll(&g.d, VARS);
    for (int i = 0; i < g.nvars; i++) {
        unsigned axes = grid && chance(&g.d, 85) ? g.tiles & AM : 0;
        int from = (int)roll(&g.d, 9) - 4;
        g.var[i].axes = axes, g.var[i].most = 5;
        if (axes) buf_printf(&g.body, "    var v%d = full<%s>(%d, %s);\n", i, g.type, from, axes_of(axes, false, at));
        else buf_printf(&g.body, "    var v%d: %s = %d;\n", i, g.type, from);
    }
    loop(&g, grid, lets, true);
    if (chance(&g.d, 30)) loop(&g, grid, lets, false);
    finish(&g, grid, text);
    buf_free(&g.params), buf_free(&g.body);
}
