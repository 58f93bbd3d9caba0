// Random programs around matrix products, with the tiles that tensor cores and their pipelines want: what the
// other generator's small tiles never reach (TMA, wgmma, roles, walking blocks, rings of cp.async).
//
//     one product                                          two, as attention has them
//
//     kernel k(a: bf16[K, M], b: bf16[K, N], ..)            kernel k(q: f16[M, K], k: f16[N, K], v: f16[J, N], ..)
//         grid (n in N by 96, m in M by 128)                    grid (m in M by 64)
//     {                                                     {
//         var acc = zeros(m, n);                                let k = K by 64;  let j = J by 32;
//         for k in K by 64 {                                    var acc = zeros(m, j);
//             acc += dot((a[k, m] * s[k]) as bf16, b[k, n]);    for n in N by 64 {
//         }                                                         let t = dot(q[m, k], k[n, k]) * 0.125;
//         let v = (acc + bias[n]) * rows[m];                        acc += dot(max(t, 0) as f16, v[j, n]);
//         y0[n, m] = v as bf16;                                 }
//         y1[m, n] = v - max(v over n);                         y0[m, j] = acc;
//     }                                                     }
//
// A third kind has up to three products in one loop, of batches, between bounds, under a condition, of masked and mirrored operands:
//
//     for k in s .. K by 32 { t0 += dot(a[j, m, k], b0[k, n]);  t1 += dot(a[j, m, k], b1[k, n]); }      y0[j, m, n] = t0 * 0.125 + max(t1, 0.0);
//
// generate_sums has what several loops, or several groups of warps, make together. Up to four loops of products, one after the other, that add to up to three
// sums; and gradients, as those of attention: a trip's products contract rows that others of its products have made.
//
//     for k in K by 64 { let x = a0[m, k];  t0 += dot(x, b0[k, n]);  t1 += dot(x, b1[n, k]); }          let p = max(dot(b[n, k], a[m, k]) * 0.125, 0.0);
//     for i in 3, k in J by 32 { t1 += dot(a1[i, k, m], b2[i, k, n]); }                                 t0 += dot(p as f16, c[m, k] over m);
//     y0[m, n] = t0 * 0.125 + max(t1, 0.0);                                                             y1[m, k] = dot(p as f16, b[n, k] over n);
//
// Operands lie either way round; of one product the rows of either may be those that data names, a[ids[k], m], and it may stand in a loop over n
// that is the program's. What comes before and after products is drawn; dimensions are primes, one, tiles and
// their neighbours. Seeds decide the schedule, too: stages, walking, clusters, warps.
#include "tests/random/draw.h"
#include "tests/random/generate.h"

#include <stdio.h>

static const int64_t sizes[] = {1, 3, 8, 16, 17, 40, 63, 64, 65, 72, 100, 128, 129, 136, 200};

static const char *either(Draw *d, const char *one, const char *other) { return chance(d, 60) ? one : other; }
static bool sideways(const char *dims, char first) { return dims[0] != first; }
static const char *index_of(bool turned, const char *straight, const char *across) { return turned ? across : straight; }

typedef struct Kernel { Buf params, body; bool batch; } Kernel;      // batch: results have an index j before the others

// What follows a product, a value of the axes m and `col`.
static void epilogue(Draw *d, Kernel *k, char col, const char *start, Buf *v) {
    char dim = (char)(col - 'a' + 'A');
    buf_printf(v, "%s", start);
    for (int i = (int)roll(d, 4); i > 0; i--) {
        Buf was = *v;
        *v = (Buf){0};
        switch (roll(d, 5)) {
        case 0:
            buf_printf(v, "(%s + c%d[%c])", was.p, i, col);
            buf_printf(&k->params, ", c%d: f32[%c]", i, dim);
            break;
        case 1: buf_printf(v, "(%s * r%d[m])", was.p, i);              buf_printf(&k->params, ", r%d: f32[M]", i); break;
        case 2:
            buf_printf(v, "(%s + d%d[m, %c])", was.p, i, col);
            buf_printf(&k->params, ", d%d: %s[M, %c]", i, either(d, "f32", "bf16"), dim);
            break;
        case 3: buf_printf(v, "max(%s, 0.0)", was.p); break;
        case 4: buf_printf(v, "(%s * 0.25 + 1.0)", was.p); break;
        }
        buf_free(&was);
    }
}

// Outputs of v: the tile, either way round; again, or less what a row of the tile has in common.
static void results(Draw *d, Kernel *k, char col, Elem e, uint32_t keep, Program *p) {
    char dim = (char)(col - 'a' + 'A');
    bool whole = e == EL_i32;
    const char *small = whole ? "i32" : either(d, "f32", "bf16"), *other = whole ? "i32" : "f32";
    p->nouts = 1 + (int)roll(d, 2);
    bool turned = chance(d, 30), rows = chance(d, 50);
    for (int i = 0; i < p->nouts; i++) p->exact[i] = whole;
    const char *js = k->batch ? "J, " : "", *j = k->batch ? "j, " : "";
    if (keep & 1) {
        if (turned)
            buf_printf(&k->params, ", y0: out %s[%s%c, M]", small, js, dim),
                buf_printf(&k->body, "    y0[%s%c, m] = v as %s;\n", j, col, small);
        else
            buf_printf(&k->params, ", y0: out %s[%sM, %c]", small, js, dim),
                buf_printf(&k->body, "    y0[%sm, %c] = v as %s;\n", j, col, small);
    }
    if (p->nouts < 2 || !(keep & 2)) return;
    buf_printf(&k->params, ", y1: out %s[%sM, %c]", other, js, dim);
    if (rows) buf_printf(&k->body, "    y1[%sm, %c] = v - %s(v over %c);\n", j, col, either(d, "max", "sum"), col);
    else buf_printf(&k->body, "    y1[%sm, %c] = v;\n", j, col);
}

static void one_product(Draw *d, uint32_t keep, Program *p, Kernel *k, Buf *grid) {
    static const int rows[] = {16, 32, 64, 64, 128, 128, 192}, cols[] = {8, 16, 32, 64, 96, 128, 176, 256},
                     depths[] = {16, 32, 64, 64, 128};
    static const Elem elems[] = {EL_bf16, EL_f16, EL_bf16, EL_f32, EL_i8, EL_f8e4m3};
    Elem e = PICK(d, elems);
    int bm = PICK(d, rows), bn = PICK(d, cols), bk = PICK(d, depths);
    while (bm * bn > 128 * 192 || (bm + bn) * bk * elem_bytes(e) > 64 << 10)
        bm = PICK(d, rows), bn = PICK(d, cols), bk = PICK(d, depths);
    const char *a = either(d, "M, K", "K, M"), *b = either(d, "K, N", "N, K"), *t = elem_name(e);
    const char *ai = index_of(sideways(a, 'M'), "m, k", "k, m"), *bi = index_of(sideways(b, 'K'), "k, n", "n, k");
    char named[2][24];
    int gathered = chance(d, 30) ? (int)roll(d, 2) : 2;        // of which the rows are: S of them, and so many as axes have that lie there
    if (gathered < 2) {
        const char **dims = gathered ? &b : &a, **index = gathered ? &bi : &ai;
        buf_printf(&k->params, "ids: i32[%c], ", **dims);
        snprintf(named[0], sizeof named[0], "S%s", *dims + 1);
        snprintf(named[1], sizeof named[1], "ids[%c]%s", **index, *index + 1);
        *dims = named[0];
        *index = named[1];
    }
    bool nested = chance(d, 20);
    buf_printf(&k->params, "a: %s[%s], b: %s[%s]", t, a, t, b);
    if (nested) buf_printf(grid, "m in M by %d", bm), buf_printf(&k->body, "    for n in N by %d {\n", bn);
    else if (chance(d, 50)) buf_printf(grid, "m in M by %d, n in N by %d", bm, bn);
    else buf_printf(grid, "n in N by %d, m in M by %d", bn, bm);
    Buf left = {0}, v = {0};
    buf_printf(&left, "a[%s]", ai);
    if (elem_bits(e) == 16 && chance(d, 30)) {
        buf_free(&left), left = (Buf){0};
        if (chance(d, 50)) buf_printf(&left, "(a[%s] * s[k]) as %s", ai, t), buf_puts(&k->params, ", s: f32[K]");
        else buf_printf(&left, "max(a[%s], 0)", ai);
    }
    buf_printf(&k->body, "    var acc = zeros<%s>(m, n);\n    for k in K by %d { acc += dot(%s, b[%s] over k%s); }\n",
               e == EL_i8 ? "i32" : "f32", bk, left.p, bi,
               e != EL_f32 ? "" : either(d, ", prec = ieee", ", prec = tf32x3"));
    if (e == EL_i8) buf_puts(&v, "acc"); else epilogue(d, k, 'n', "acc", &v);
    buf_printf(&k->body, "    let v = %s;\n", v.p);
    results(d, k, 'n', e == EL_i8 ? EL_i32 : EL_f32, keep, p);
    if (nested) buf_puts(&k->body, "    }\n");
    buf_free(&left), buf_free(&v);
    for (int i = 0; i < R_DIMS; i++) p->size[i] = PICK(d, sizes);
}

static void two_products(Draw *d, uint32_t keep, Program *p, Kernel *k, Buf *grid) {
    static const int rows[] = {16, 64, 64, 128}, keys[] = {16, 32, 64, 64, 128}, heads[] = {16, 32, 64, 128};
    static const char *const between[] = {
        "t", "max(t, 0.0)", "min(t * t, 4.0)", "where(n <= m, t, 0)", "where(n + 9 > m, t, 0)", "t + w[m, n]"};
    const char *t = either(d, "bf16", "f16"), *q = either(d, "N, K", "K, N"), *v = either(d, "N, J", "J, N");
    int dk = PICK(d, heads), dv = PICK(d, heads), pick = (int)roll(d, sizeof between / sizeof *between);
    buf_printf(&k->params, "q: %s[M, K], x: %s[%s], v: %s[%s]", t, t, q, t, v);
    if (pick == 5) buf_puts(&k->params, ", w: f32[M, N]");
    buf_printf(grid, "m in M by %d", PICK(d, rows));
    buf_printf(
        &k->body,
        "    let k = K by %d;  let j = J by %d;\n    var acc = zeros(m, j);\n    for n in N by %d {\n        let t = dot(q[m, k], x[%s] over k) * 0.125;\n",
        dk, dv, PICK(d, keys), index_of(sideways(q, 'N'), "n, k", "k, n"));
    buf_printf(&k->body, "        acc += dot((%s) as %s, v[%s] over n);\n    }\n", between[pick], t,
               index_of(sideways(v, 'N'), "n, j", "j, n"));
    Buf e = {0};
    epilogue(d, k, 'j', "acc", &e);
    buf_printf(&k->body, "    let v = %s;\n", e.p);
    buf_free(&e);
    results(d, k, 'j', EL_f32, keep, p);
    for (int i = 0; i < R_DIMS; i++) p->size[i] = PICK(d, sizes);
    p->size[2] = chance(d, 70) ? dv : 1 + (int)roll(d, (uint32_t)dv);       // J, K
    p->size[3] = chance(d, 70) ? dk : 1 + (int)roll(d, (uint32_t)dk);
}

// A matrix of rows m or n and of k, either way round, of each j or of all; how it is read.
static void operand(Draw *d, Kernel *k, Buf *use, const char *name, const char *type, char row, bool batch) {
    char outer = chance(d, 60) ? row : 'k', inner = outer == 'k' ? row : 'k';
    const char *at = inner == 'k' && chance(d, 8) ? "K - 1 - k" : inner == 'k' ? "k" : row == 'm' ? "m" : "n";
    bool between = batch && chance(d, 30), before = batch && !between;
    buf_printf(&k->params, ", %s: %s[%s%c, %s%c]", name, type, before ? "J, " : "", outer - 'a' + 'A', between ? "J, " : "", inner - 'a' + 'A');
    buf_printf(use, "%s[%s%c, %s%s]", name, before ? "j, " : "", outer, between ? "j, " : "", at);
}

static void several_products(Draw *d, uint32_t keep, Program *p, Kernel *k, Buf *grid) {
    static const int rows[] = {8, 16, 32, 64, 64, 128, 192}, cols[] = {8, 16, 32, 64, 96, 128}, depths[] = {16, 32, 64, 128};
    static const Elem elems[] = {EL_bf16, EL_f16, EL_bf16, EL_i8, EL_f8e4m3, EL_u8};
    static const char *const bounds[] = {"K", "K", "K", "s * 16 .. K", "s .. K", "0 .. K - s"}, *const masks[] = {NULL, NULL, NULL, "k + 9 > m", "k <= m"};
    static const char *const joined[2][3] = {{"t0", "t0 * 0.125 + max(t1, 0.0)", "t0 - t1 + t2"}, {"t0", "t0 + max(t1, 3)", "t0 - t1 + t2"}};
    Elem e = PICK(d, elems);
    const char *left = elem_name(e), *right = e == EL_u8 ? either(d, "u8", "i8") : e == EL_f8e4m3 ? either(d, "f8e4m3", "f8e5m2") : left;
    int n = 1 + (int)roll(d, 3), bm = PICK(d, rows), bn = PICK(d, cols);
    while (n * bm * bn > 128 * 128) bm = PICK(d, rows), bn = PICK(d, cols);
    bool whole = e == EL_i8 || e == EL_u8, shared = chance(d, 60), guarded = chance(d, 15);
    bool of_left = chance(d, 30), of_right = chance(d, 30);
    k->batch = of_left || of_right;
    buf_puts(&k->params, "s: i32");
    Buf loop = {0}, a = {0}, v = {0};
    for (int i = 0; i < n; i++) {
        const char *mask = PICK(d, masks), names[6] = {'a', (char)('0' + i), 0, 'b', (char)('0' + i), 0};
        if (!i || !shared) {
            buf_free(&a), a = (Buf){0};
            if (mask) buf_printf(&a, "where(%s, ", mask);
            operand(d, k, &a, names, left, 'm', of_left);
            if (mask) buf_puts(&a, ", 0)");
        }
        buf_printf(&k->body, "    var t%d = zeros<%s>(m, n);\n", i, whole ? "i32" : "f32");
        buf_printf(&loop, "t%d += dot(%s, ", i, a.p);
        operand(d, k, &loop, names + 3, right, 'n', of_right);
        buf_puts(&loop, " over k);  ");
    }
    const char *range = PICK(d, bounds);
    buf_printf(&k->body, "    %sfor k in %s by %d { %s}%s\n", guarded ? "if s > 0 { " : "", range, PICK(d, depths), loop.p, guarded ? " }" : "");
    buf_printf(&k->body, "    let u = %s;\n", joined[whole][n - 1]);
    bool scaled = whole && chance(d, 50);
    if (scaled) buf_puts(&k->body, "    let w = u as f32 * 0.0078125;\n");
    if (whole && !scaled) buf_puts(&v, "u"); else epilogue(d, k, 'n', scaled ? "w" : "u", &v);
    buf_printf(&k->body, "    let v = %s;\n", v.p);
    buf_printf(grid, "%sm in M by %d, n in N by %d", k->batch ? "j in J, " : "", bm, bn);
    results(d, k, 'n', whole && !scaled ? EL_i32 : EL_f32, keep, p);
    buf_free(&loop), buf_free(&a), buf_free(&v);
    for (int i = 0; i < R_DIMS; i++) p->size[i] = PICK(d, sizes);
    if (k->batch) p->size[2] = 1 + (int)roll(d, 3);
}

static void schedule(Draw *d, Program *p) {
    static const int some[] = {2, 3, 4};
    if (chance(d, 25)) p->schedule.stages = PICK(d, some);
    if (chance(d, 15)) p->schedule.persistent = 1 + (int)roll(d, 2);
    if (chance(d, 15)) p->schedule.cluster = 2;
    if (chance(d, 15)) p->schedule.warps = chance(d, 50) ? 4 : 8;
}

void generate_products(uint64_t seed, uint32_t keep, Program *p, Buf *text) {
    Draw d = {seed * 0x9e3779b97f4a7c15u + 7};
    Kernel k = {0};
    Buf grid = {0};
    roll(&d, 2), roll(&d, 2);
    *p = (Program){.dim = {'M', 'N', 'J', 'K'}};
    uint32_t kind = roll(&d, 100);
    (kind < 40 ? one_product : kind < 65 ? two_products : several_products)(&d, keep, p, &k, &grid);
    schedule(&d, p);
    buf_printf(text, "kernel k(%s)\n    grid (%s)\n{\n%s}\n", k.params.p, grid.p, k.body.p);
    buf_free(&k.params), buf_free(&k.body), buf_free(&grid);
}

// ---- sums of several loops, and across groups ------------------------------------------------------

static void loop_operand(Draw *d, Kernel *k, Buf *use, char name, int i, const char *type, char row, char dim, bool outer) {
    bool turned = chance(d, 45);
    char dims[2] = {(char)(row - 'a' + 'A'), dim}, at[2] = {row, 'k'};
    buf_printf(&k->params, ", %c%d: %s[%s%c, %c]", name, i, type, outer ? "3, " : "", dims[turned], dims[!turned]);
    buf_printf(use, "%c%d[%s%c, %c]", name, i, outer ? "i, " : "", at[turned], at[!turned]);
}

static void several_loops(Draw *d, uint32_t keep, Program *p, Kernel *k, Buf *grid) {
    static const int rows[] = {16, 64, 64, 128, 128, 192}, cols[] = {8, 16, 32, 48, 64, 96, 128}, depths[] = {16, 32, 64, 64, 128};
    static const Elem elems[] = {EL_bf16, EL_f16, EL_bf16, EL_i8, EL_f8e4m3, EL_f32, EL_f32};
    static const char *const bounds[] = {"%c", "%c", "%c", "s * 16 .. %c", "0 .. %c - s"}, *const between[] = {"t0 += c[n];", "t0 = max(t0, 0);", "let z = c[n] * 0.5;  t0 += z;"};
    static const char *const joined[2][3] = {{"t0", "t0 * 0.125 + max(t1, 0.0)", "t0 - t1 + t2"}, {"t0", "t0 + max(t1, 3)", "t0 - t1 + t2"}};
    Elem e = PICK(d, elems);
    const char *t = elem_name(e), *sum = e == EL_i8 ? "i32" : "f32", *prec = e == EL_f32 ? either(d, ", prec = ieee", ", prec = tf32x3") : "";
    int sums = chance(d, 50) ? 1 : 1 + (int)roll(d, 3), loops = 2 + (int)roll(d, 3), bm = PICK(d, rows), bn = PICK(d, cols), deep = PICK(d, depths);
    while (sums * bm * bn > 128 * 128) bm = PICK(d, rows), bn = PICK(d, cols);
    bool even = chance(d, 50), looks = chance(d, 12) && e != EL_i8;
    buf_puts(&k->params, looks ? "s: i32, c: f32[N]" : "s: i32");
    for (int i = 0; i < sums; i++) buf_printf(&k->body, "    var t%d = zeros<%s>(m, n);\n", i, sum);
    for (int l = 0, lefts = 0, rights = 0; l < loops; l++) {
        bool outer = chance(d, 15), shared = chance(d, 60);
        char dim = chance(d, 50) ? 'K' : 'J';
        int all = l + 1 < loops || chance(d, 60) ? (1 << sums) - 1 : 1 + (int)roll(d, (1u << sums) - 1);
        buf_printf(&k->body, "    for %sk in ", outer ? "i in 3, " : "");
        buf_printf(&k->body, PICK(d, bounds), dim);
        buf_printf(&k->body, " by %d { ", even ? deep : PICK(d, depths));
        for (int i = 0, n = 0; i < sums; i++) {
            Buf a = {0}, b = {0};
            if (!(all >> i & 1)) continue;
            if (!n++ || !shared) loop_operand(d, k, &a, 'a', lefts++, t, 'm', dim, outer);
            loop_operand(d, k, &b, 'b', rights++, t, 'n', dim, outer);
            if (a.n && shared) buf_printf(&k->body, "let x = %s;  ", a.p);
            buf_printf(&k->body, "t%d += dot(%s, %s over k%s); ", i, shared ? "x" : a.p, b.p, prec);
            buf_free(&a), buf_free(&b);
        }
        buf_puts(&k->body, "}\n");
        if (looks && l + 1 < loops) buf_printf(&k->body, "    %s\n", PICK(d, between));
    }
    bool scaled = e == EL_i8 && chance(d, 50);
    Buf v = {0};
    buf_printf(&k->body, "    let u = %s;\n", joined[e == EL_i8][sums - 1]);
    if (scaled) buf_puts(&k->body, "    let w = u as f32 * 0.0078125;\n");
    if (e == EL_i8 && !scaled) buf_puts(&v, "u"); else epilogue(d, k, 'n', scaled ? "w" : "u", &v);
    buf_printf(&k->body, "    let v = %s;\n", v.p);
    buf_printf(grid, "m in M by %d, n in N by %d", bm, bn);
    results(d, k, 'n', e == EL_i8 && !scaled ? EL_i32 : EL_f32, keep, p);
    buf_free(&v);
    for (int i = 0; i < R_DIMS; i++) p->size[i] = chance(d, 70) ? PICK(d, sizes) : 8 * PICK(d, sizes) % 264;
}

// Rows n of a program, m of its trips, columns k; y0: by the trips' rows, added up by all programs; y1 and y2: by its own.
static void gradients(Draw *d, uint32_t keep, Program *p, Kernel *k, Buf *grid) {
    static const int rows[] = {64, 64, 128, 128, 192}, trips[] = {32, 64, 64, 128}, heads[] = {32, 64, 64, 80, 128};
    static const char *const of[] = {"max(u * 0.125, 0.0)", "min(u * u, 4.0)", "u * 0.5 - l[m]", "where(n <= m, u, 0)", "where(m + 9 > n, u * l[m], 0)"}, *const bounds[] = {"M", "M", "s * 16 .. M", "first(n) .. M"};
    const char *t = either(d, "bf16", "f16");
    int bn = PICK(d, rows), bm = PICK(d, trips), head = PICK(d, heads);
    bool second = chance(d, 60), left = chance(d, 70), early = chance(d, 50), added = chance(d, 60), swapped = chance(d, 25);
    buf_printf(&k->params, "s: i32, a: %s[M, %d], b: %s[N, %d], c: %s[M, %d], l: f32[M]", t, head, t, head, t, head);
    if (second) buf_printf(&k->params, ", e: %s[N, %d]", t, head);
    buf_printf(&k->body, "    let T = elem(a);  let k = 0 .. %d;\n    let x = b[n, k];\n", head);
    if (second) buf_puts(&k->body, "    let z = e[n, k];\n");
    buf_puts(&k->body, "    var t0 = zeros(n, k);  var t1 = zeros(n, k);\n");
    buf_printf(&k->body, "    for m in %s by %d {\n        let u = dot(%s over k);\n", added ? PICK(d, bounds) : "M", bm, swapped ? "a[m, k], x" : "x, a[m, k]");
    buf_printf(&k->body, "        let p = %s;\n", PICK(d, of));
    if (keep & 2) buf_printf(&k->body, "        t0 += %s;\n", left ? "dot(p as T, c[m, k] over m)" : "dot(c[m, k], p as T over m)");
    if (second) buf_puts(&k->body, "        let q = (p * dot(z, c[m, k] over k) * 0.125) as T;\n");
    else buf_puts(&k->body, "        let q = (p * 0.5) as T;\n");
    const char *sum = "        t1 += dot(q, a[m, k] over m);\n", *over = either(d, "dot(q, x over n)", "dot(x, q over n)");
    if (!early && keep & 4) buf_puts(&k->body, sum);
    if (keep & 1 && added) buf_printf(&k->body, "        atomic_add(y0[m, k], %s);\n", over);
    else if (keep & 1) buf_printf(&k->body, "        y0[first(n) / %d, m, k] = %s;\n", bn, over);
    if (early && keep & 4) buf_puts(&k->body, sum);
    buf_puts(&k->body, "    }\n");
    if (keep & 1 && added) buf_printf(&k->params, ", y0: inout f32[M, %d]", head);
    else if (keep & 1) buf_printf(&k->params, ", y0: out f32[cdiv(N, %d), M, %d]", bn, head);
    if (keep & 2) buf_printf(&k->params, ", y1: out f32[N, %d]", head), buf_puts(&k->body, "    y1[n, k] = t0;\n");
    if (keep & 4) buf_printf(&k->params, ", y2: out %s[N, %d]", t, head), buf_printf(&k->body, "    y2[n, k] = t1 as T;\n");
    buf_printf(grid, "n in N by %d", bn);
    p->nouts = 3;
    for (int i = 0; i < R_DIMS; i++) p->size[i] = PICK(d, sizes);
    p->any_order[0] = added && p->size[1] > bn;
}

void generate_sums(uint64_t seed, uint32_t keep, Program *p, Buf *text) {
    Draw d = {seed * 0x9e3779b97f4a7c15u + 13};
    Kernel k = {0};
    Buf grid = {0};
    roll(&d, 2), roll(&d, 2);
    *p = (Program){.dim = {'M', 'N', 'J', 'K'}};
    (chance(&d, 60) ? several_loops : gradients)(&d, keep, p, &k, &grid);
    schedule(&d, p);
    buf_printf(text, "kernel k(%s)\n    grid (%s)\n{\n%s}\n", k.params.p, grid.p, k.body.p);
    buf_free(&k.params), buf_free(&k.body), buf_free(&grid);
}
