// Random row programs: long rows in several loops, whole rows in one tile, columns, and sums over all, as the passes that keep rows, share them
// among blocks, walk over them and part their loops want them.
//
//     kernel k(x: bf16[M, N], w: f32[N], y0: out f32[M, N], y1: out f32[M], y2: out i32[M])
//         grid (m in M by 4)
//     {
//         var s = zeros(m);  var t = full(-inf, m);  var p = full(-1, m);
//         for n in N by 512 { s += sum(x[m, n] * w[n] over n); }
//         for n in N by 256 { t = max(t, max(x[m, n] - 0.5 over n)); }
//         for n in N by 512 { y0[m, n] = x[m, n] * 2.0 - s; }
//         y1[m] = t;
//     }
//
// or whole rows in a tile, in order, summed up, taken from elsewhere, several of these one after the other:
//
//     let n = N by 512;
//     let t0 = sort((x[m, n] as f32) over n, descending = true);      let t1 = take(t0, N - 1 - n over n);      let t2 = cummax(t1 over n, reverse = true);
//
// What later loops make of a sum is linear, so that eval's bound says how far off it may be. Dimensions are ragged, short and long, up to 9000.
#include "tests/random/draw.h"
#include "tests/random/generate.h"

#include <stdio.h>
#include <string.h>

// What is reduced: how parts are joined, and whether the order changes bits. A type of NULL is that of the values.
typedef struct Kind { const char *type, *begin, *each, *join; bool exact; } Kind;
static const Kind floats[] = {
    {NULL, "0.0", "sum(%s over %s)", "%s += %s", false},      {NULL, "0.0", "sum(%s over %s)", "%s += %s", false},
    {NULL, "-inf", "max(%s over %s)", "%s = max(%s, %s)", true}, {NULL, "inf", "min(%s over %s)", "%s = min(%s, %s)", true},
    {"i32", "0", "sum((%s > 0.25) as i32 over %s)", "%s += %s", true}, {"i32", "7", "max((%s) as i32 over %s)", "%s = max(%s, %s)", true},
};
static const Kind integers[] = {
    {NULL, "3", "sum(%s over %s)", "%s += %s", true},         {NULL, "-100000", "max(%s over %s)", "%s = max(%s, %s)", true},
    {NULL, "100000", "min(%s over %s)", "%s = min(%s, %s)", true}, {NULL, "1", "prod(%s | 1 over %s)", "%s = %s * (%s)", true},
    {"i32", "0", "sum((%s > 5) as i32 over %s)", "%s += %s", true},
};
static const char *const of_floats[] = {"%s", "(%s * 0.5)", "(%s - 1.0)", "max(%s, 0.0)", "abs(%s)", "(%s * u)", "where(%s > 0.5, 1.5, u)"};
static const char *const of_integers[] = {"%s", "(%s * 3)", "(%s - 1)", "max(%s, 0)", "abs(%s)", "(%s + u)", "where(%s > 5, 7, u)", "(%s ^ 21)"};
// What is stored, and what is computed of it.
static const char *const elems[][2] = {
    {"f32", "f32"}, {"f32", "f32"}, {"bf16", "f32"}, {"f16", "f32"}, {"bf16", "f32"}, {"f64", "f64"}, {"i8", "i32"}, {"u8", "i32"}, {"i32", "i32"}, {"i16", "i64"}, {"i64", "i64"}, {"f8e4m3", "f32"},
};

typedef struct Row { Draw *d; Buf params, body; const char *at, *along, *type; bool whole; char of; } Row;      // x's index; the axis that is reduced; of the values; integers; the dimension of what is left, 0: none

static void value(Row *r, const char *x, Buf *out) {
    const char *form = r->whole ? PICK(r->d, of_integers) : PICK(r->d, of_floats);
    for (const char *c = form; *c; c++) {
        if (*c == '%') buf_puts(out, x), c++;
        else if (*c == 'u') buf_printf(out, "w[%s]", r->along);
        else buf_add(out, c, 1);
    }
}

// One loop that reduces into s<i>, or a tile of the whole.
static void reduced(Row *r, int i, const Kind *k, int block, const char *over) {
    Buf v = {0}, each = {0};
    char x[32], s[4];
    const char *type = k->type ? k->type : r->type;
    snprintf(x, sizeof x, "(x[%s] as %s)", r->at, r->type);
    snprintf(s, sizeof s, "s%d", i);
    value(r, x, &v);
    buf_printf(&each, k->each, v.p, r->along);
    buf_printf(&r->body, r->of ? "    var %s = full(%s as %s, %c);\n" : "    var %s = %s as %s;\n", s, k->begin, type, r->of - 'A' + 'a');
    buf_printf(&r->body, "    for %s in %s by %d { ", r->along, over, block);
    if (k->join[3] == '+') buf_printf(&r->body, k->join, s, each.p);
    else buf_printf(&r->body, k->join, s, s, each.p);
    buf_puts(&r->body, "; }\n");
    buf_free(&v), buf_free(&each);
}

// Steps that keep a row's axis; %s is the step before.
static const char *const steps[] = {
    "sort(%s over n)", "sort(%s over n, descending = true)", "cummax(%s over n)", "cummin(%s over n, reverse = true)", "cummax(%s over n, exclusive = true)",
    "take(%s, N - 1 - n over n)", "take(%s, n - 3 over n)", "take(%s, n * 7 % 64 over n, other = 0.5)", "where(n % 3 == 1, %s, 0.25)", "max(%s, w[n])", "abs(%s)",
    "scan(|a, b| where(b > 0.25, b, a), %s over n)", "scan(|a, b| where(b < 0, b, a), %s over n, reverse = true)",
};
static const char *const ends[] = {
    "max(%s over n)", "min(%s over n)", "argmax(%s over n) as f32", "argmin(%s over n) as f32", "sum((%s > 0.25) as i32 over n) as f32", "take(cumsum((%s > 0.0) as i32 over n), length(n) - 1 over n) as f32",
    "reduce(|a, b| where(b > 0.25, b, a), %s over n)",
};

static void whole_rows(Draw *d, uint32_t keep, Program *p, Buf *text) {
    static const int64_t lengths[] = {1, 3, 31, 64, 100, 128, 129, 250, 255, 333, 511, 512, 577, 777, 1000, 1001, 1024, 2000};
    int64_t n = PICK(d, lengths), lanes = 1;
    while (lanes < n) lanes *= 2;
    if (chance(d, 40)) lanes *= 2;
    if (chance(d, 25)) lanes = n + (int64_t)roll(d, 30);
    int bm = lanes <= 256 && chance(d, 40) ? 1 << roll(d, 4) : 0, count = 1 + (int)roll(d, 4);
    const char *e = chance(d, 50) ? "f32" : chance(d, 50) ? "bf16" : "f16";
    Buf params = {0}, body = {0}, v = {0};
    bool turned = chance(d, 20);
    buf_printf(&params, "x: %s[%s], w: f32[N]", e, turned ? "N, M" : "M, N");
    buf_printf(&body, "    let n = N by %lld;\n", (long long)lanes);
    buf_printf(&v, "(x[%s] as f32)", turned ? "n, m" : "m, n");
    for (int i = 0; i < count; i++) {
        buf_printf(&body, "    let t%d = ", i);
        buf_printf(&body, PICK(d, steps), v.p);
        buf_puts(&body, ";\n");
        buf_free(&v), v = (Buf){0};
        buf_printf(&v, "t%d", i);
    }
    *p = (Program){.dim = {'M', 'N', 'J', 'K'}, .size = {1 + roll(d, 20), n, 3, 3}, .nouts = 3, .exact = {true, true, true}};
    for (int i = 0; i < 3; i++) {
        Buf end = {0};
        buf_printf(&end, PICK(d, ends), v.p);
        if (keep >> i & 1) {
            buf_printf(&params, ", y%d: out f32[%s]", i, i ? "M" : "M, N");
            if (i) buf_printf(&body, "    y%d[m] = %s;\n", i, end.p);
            else buf_printf(&body, "    y0[m, n] = %s;\n", v.p);
        }
        buf_free(&end);
    }
    buf_printf(text, "kernel k(%s)\n    grid (m in M", params.p);
    if (bm) buf_printf(text, " by %d", bm);
    buf_printf(text, ")\n{\n%s}\n", body.p);
    buf_free(&params), buf_free(&body), buf_free(&v);
}

static bool in_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

// N as the number that it is: an instance for rows of one length.
static void known_length(int64_t n, Buf *text) {
    Buf was = *text;
    *text = (Buf){0};
    for (const char *c = was.p; *c; c++) {
        if (*c == 'N' && !in_word(c[1]) && !in_word(c[-1])) buf_printf(text, "%lld", (long long)n);
        else buf_add(text, c, 1);
    }
    buf_free(&was);
}

// Rows of a known length that 16 bytes do not divide, each a program's: moved together from where 16 bytes begin (the pass `align_rows`).
static const char *const odd_steps[] = {
    "abs(%s)", "max(%s, 0.25)", "%s * 0.5", "%s + n * 0.25", "%s + (n & 3)", "where(n > 5, %s, 0.5)", "cummax(%s over n)", "cummin(%s over n, reverse = true)",
    "cummax(%s over n, exclusive = true, reverse = true)", "cumsum((%s > 0.0) as i32 over n) as f32", "%s - max(%s over n)", "where(%s > min(%s over n), 1.5, 0.25)", "%s - z[%s]",
};
static const char *const odd_ends[] = {"reduce(|a, b| where(b > 0.25, b, a), %s over n)", "max(%s over n)", "min(%s over n)", "sum((%s > 0.25) as i32 over n) as f32", "max(where(%s > 0.5, n, 0) over n) as f32"};

static void odd_rows(Draw *d, uint32_t keep, Program *p, Buf *text) {
    static const int64_t lengths[] = {129, 130, 191, 255, 257, 333, 511, 577, 633, 1001, 1021, 2039, 2047, 3001, 4097, 5003};
    static const char *const types[] = {"f32", "bf16", "f16", "f32", "i8", "f8e4m3"};
    int64_t n = PICK(d, lengths), lanes = chance(d, 50) ? (n + 15) / 16 * 16 + 16 : 256;
    while (lanes < n) lanes *= 2;
    bool trips = chance(d, 40), batch = chance(d, 20), z = false;
    const char *e = PICK(d, types), *more = batch ? "J, " : "", *at = batch ? "m, j, n" : "m, n";
    int64_t step = 32LL << roll(d, 6);
    Buf params = {0}, body = {0}, v = {0};
    if (trips) buf_puts(&body, "    var s1 = -inf;  var s2 = -inf;\n");
    int loops = trips ? 1 + (int)roll(d, 3) : 1;
    for (int l = 0; l < loops; l++) {
        if (trips) buf_printf(&body, "    for n in %lld by %lld {\n", (long long)n, (long long)step);
        else buf_printf(&body, "    let n = %lld by %lld;\n", (long long)n, (long long)lanes);
        buf_free(&v), v = (Buf){0};
        buf_printf(&v, "(x[%s] as f32)", at);
        for (int i = 0, count = (int)roll(d, 4); i < count; i++) {
            const char *form = PICK(d, odd_steps);
            bool other = strstr(form, "z[") != NULL;
            z |= other;
            buf_printf(&body, "    let t%d%d = ", l, i);
            buf_printf(&body, form, v.p, other ? at : v.p);
            buf_puts(&body, ";\n");
            buf_free(&v), v = (Buf){0};
            buf_printf(&v, "t%d%d", l, i);
        }
        if (l + 1 == loops && keep & 1) buf_printf(&body, "    y0[%s] = (%s%s) as %s;\n", at, v.p, trips && chance(d, 50) ? " + max(s1, 0)" : "", e);
        for (int i = 1; i < 3; i++) {
            Buf end = {0};
            buf_printf(&end, PICK(d, odd_ends), v.p);
            if (trips) buf_printf(&body, "    s%d = max(s%d, %s);\n", i, i, end.p);
            else if (keep >> i & 1) buf_printf(&body, "    y%d[m%s] = %s;\n", i, batch ? ", j" : "", end.p);
            buf_free(&end);
        }
        if (trips) buf_puts(&body, "    }\n");
    }
    for (int i = 1; trips && i < 3; i++) if (keep >> i & 1) buf_printf(&body, "    y%d[m%s] = s%d;\n", i, batch ? ", j" : "", i);
    buf_printf(&params, "x: %s[M, %s%lld]", e, more, (long long)n);
    if (z) buf_printf(&params, ", z: %s[M, %s%lld]", PICK(d, types), more, (long long)n);
    if (keep & 1) buf_printf(&params, ", y0: out %s[M, %s%lld]", e, more, (long long)n);
    for (int i = 1; i < 3; i++) if (keep >> i & 1) buf_printf(&params, ", y%d: out f32[M%s]", i, batch ? ", J" : "");
    *p = (Program){.dim = {'M', 'N', 'J', 'K'}, .size = {1 + roll(d, 9), n, 3, 3}, .nouts = 3, .exact = {true, true, true}};
    buf_printf(text, "kernel k(%s)\n    grid (m in M%s)\n{\n%s}\n", params.p, batch ? ", j in J" : "", body.p);
    buf_free(&params), buf_free(&body), buf_free(&v);
}

static void any_rows(uint64_t seed, uint32_t keep, Program *p, Buf *text) {
    static const int64_t lengths[] = {1, 5, 64, 100, 128, 333, 511, 1000, 1001, 1024, 2049, 4095, 4096, 5000, 8191, 8192, 9000}, counts[] = {1, 2, 3, 7, 16, 33};
    static const int blocks[] = {32, 100, 128, 256, 512, 1024, 2048, 4096}, rows[] = {0, 0, 0, 2, 4, 8};
    Draw d = {seed * 0x9e3779b97f4a7c15u + 11};
    roll(&d, 2), roll(&d, 2);
    if (chance(&d, 35)) { whole_rows(&d, keep, p, text); return; }
    if (chance(&d, 25)) { odd_rows(&d, keep, p, text); return; }
    bool columns = chance(&d, 25), all = !columns && chance(&d, 12), turned = chance(&d, 15);
    int bm = PICK(&d, rows), n = 1 + (int)roll(&d, 3), block = PICK(&d, blocks);
    const char *const *elem = PICK(&d, elems), *e = elem[0], *straight = columns ? "n, m" : "m, n", *dims = columns ? "N, M" : "M, N";
    Row r = {&d, .at = turned ? columns ? "m, n" : "n, m" : straight, .along = "n", .type = elem[1], .whole = *elem[1] == 'i', .of = all || (!bm && !columns) ? 0 : 'M'};
    *p = (Program){.dim = {'M', 'N', 'J', 'K'}, .size = {PICK(&d, counts), PICK(&d, lengths), 3, 3}};
    if (columns) p->size[0] = PICK(&d, lengths) % 700, p->size[1] = PICK(&d, lengths) % 3000, bm = bm ? bm * 8 : 32, block = block > 256 ? 64 : block;
    while (bm * block > 16384) block /= 2;
    if (columns) r.of = 'M';
    buf_printf(&r.params, "x: %s[%s], w: %s[N]", e, turned ? columns ? "M, N" : "N, M" : dims, elem[1]);
    bool sums = false;
    for (int i = 0; i < n; i++) {
        const Kind *k = r.whole ? &PICK(&d, integers) : &PICK(&d, floats);
        reduced(&r, i, k, chance(&d, 70) ? block : block / 2 + 1, "N");
        p->exact[i] = k->exact;
        if (keep >> i & 1) {
            buf_printf(&r.params, ", y%d: out %s[%s]", i, k->type ? k->type : elem[1], all ? "" : "M");
            buf_printf(&r.body, "    y%d[%s] = s%d;\n", i, all ? "" : "m", i);
        }
        sums |= !k->exact;
    }
    p->nouts = n;
    if (!all && chance(&d, 75)) {
        bool whole = chance(&d, 50);
        const char *out = whole ? elem[1] : e;
        p->exact[n] = !sums;
        if (keep >> n & 1) {
            Buf v = {0}, x = {0};
            buf_printf(&x, "(x[%s] as %s)", r.at, elem[1]);
            value(&r, x.p, &v);
            for (int i = 0; i < n; i++) buf_printf(&v, " - s%d", i);
            buf_printf(&r.params, ", y%d: out %s[%s]", n, out, dims);
            buf_printf(&r.body, "    for n in N by %d { y%d[%s] = (%s) as %s; }\n", block, n, straight, v.p, out);
            buf_free(&v), buf_free(&x);
        }
        p->nouts++;
    }
    static const int stages[] = {2, 3, 4};
    if (chance(&d, 20)) p->schedule.stages = PICK(&d, stages);
    buf_printf(text, "kernel k(%s)\n", r.params.p);
    if (all) buf_printf(text, "    where M == 1\n");
    else if (bm) buf_printf(text, "    grid (m in M by %d)\n", bm);
    else buf_printf(text, "    grid (m in M)\n");
    buf_printf(text, "{\n%s%s}\n", all ? "    let m = 0;\n" : "", r.body.p);
    if (all) p->size[0] = 1;
    buf_free(&r.params), buf_free(&r.body);
}

void generate_rows(uint64_t seed, uint32_t keep, Program *p, Buf *text) {
    any_rows(seed, keep, p, text);
    if (seed * 0x9e3779b97f4a7c15u >> 61 < 3) known_length(p->size[1], text);
}
