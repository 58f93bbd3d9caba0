// Random loops over long rows that carry something from trip to trip, look at it, and store as they go: what passes that part such loops, run them in
// several blocks, load ahead or move rows must tell apart.
//
//     kernel k(x: i32[N, M], y0: out i32[N, M], y1: out i32[M], y2: out i32[M])
//         grid (m in M by 32)
//     {
//         var a = full<i32>(3, m);  var b = full<i32>(0, m);
//         for n in N by 64 {
//             let v = x[n, m] * 3;
//             a += sum(v over n);
//             y0[n, m] = a + cumsum(v over n, exclusive = true);
//             b = max(b, sum(v over n));
//         }
//         y1[m] = a;  y2[m] = b;
//     }
//
// In integers, so that every bit must agree, or in floats where nothing is summed. Rows are one, several, or columns; a second loop may go on with what the first has come to.
#include "tests/random/draw.h"
#include "tests/random/generate.h"

#include <string.h>

static const char *const updates[] = {
    "%c += sum(v over n);", "%c += sum(v over n);", "%c = max(%c, max(v over n));", "%c = min(%c, min(v over n));", "%c = %c * 3 + sum(v over n);", "%c = max(%c, sum(v over n));",
    "%c = take(v, last(n) over n);", "%c += 1;", "%c = max(%c, sum(v over n)) - 1;", "%c = %c ^ sum(v over n);", "%c += max(v over n);", "%c += sum(v * 2 over n) + 5;", "%c += prod(v | 1 over n);",
    "if max(v over n) > 90 { %c += 7; }", "%c = max(%c, first(n) as i32);", "%c += sum(v * (n & 3) as i32 over n);", "%c = %c | max(v over n);",
};
static const char *const float_updates[] = {"%c = max(%c, max(v over n));", "%c = min(%c, min(v over n));", "%c = take(v, last(n) over n);", "%c = max(%c * 0.5, max(v over n));", "%c = max(%c, min(v over n));", "%c += 1;"};
static const char *const stores[] = {
    "a + cumsum(v over n)", "a + cumsum(v over n)", "a + cumsum(v over n, exclusive = true)", "max(a, cummax(v over n))", "v + a", "v - b", "max(v, a) - b", "v * 2", "a + cumsum(v over n, reverse = true)", "a - b + v * 0",
    "b + cumsum(v over n) * 2", "min(b, cummin(v over n))", "v - max(v over n)", "v * (n & 7) as i32",
};
static const char *const float_stores[] = {"max(a, cummax(v over n))", "v - a", "max(v, b)", "min(b, cummin(v over n))", "v * 0.5", "v - max(v over n)", "a + v * 0", "max(a, cummax(v over n, exclusive = true))"};

static void update(Draw *d, Buf *body, bool whole, bool rows, char name) {
    const char *form = whole ? PICK(d, updates) : PICK(d, float_updates);
    if (rows && strncmp(form, "if", 2) == 0) form = updates[0];
    buf_puts(body, "        ");
    for (const char *c = form; *c; c++) {
        if (*c == '%' && c[1] == 'c') buf_printf(body, "%c", name), c++;
        else buf_printf(body, "%c", *c);
    }
    buf_puts(body, "\n");
}

static void loop(Draw *d, Buf *body, bool whole, bool rows, const char *at, int out, bool stored) {
    static const int blocks[] = {32, 64, 100, 128, 256, 512};
    int block = PICK(d, blocks);
    buf_printf(body, "    for n in N by %d {\n        let v = x[%s]%s;\n", rows && block > 128 ? 64 : block, at, whole ? chance(d, 50) ? " * 3" : "" : chance(d, 50) ? " * 0.5" : "");
    bool second = chance(d, 60);
    int place = (int)roll(d, 3);
    for (int i = 0; i < 3; i++) {
        if (i == place && stored) buf_printf(body, "        y%d[%s] = %s;\n", out, at, whole ? PICK(d, stores) : PICK(d, float_stores));
        if (i == 0) update(d, body, whole, rows, 'a');
        if (i == 1 && second) update(d, body, whole, rows, 'b');
    }
    buf_puts(body, "    }\n");
}

void generate_carried(uint64_t seed, uint32_t keep, Program *p, Buf *text) {
    static const int64_t lengths[] = {1, 63, 100, 257, 511, 1000, 1001, 2048, 3001, 5000, 8191, 9000};
    Draw d = {seed * 0x9e3779b97f4a7c15u + 17};
    Buf body = {0};
    roll(&d, 2), roll(&d, 2);
    bool whole = chance(&d, 75), two = chance(&d, 35);
    int form = (int)roll(&d, 3), bm = 8 << roll(&d, 4);          // one row, several, columns
    const char *type = whole ? "i32" : "f32", *at = form == 0 ? "n" : form == 1 ? "m, n" : "n, m", *dims = form == 0 ? "N" : form == 1 ? "M, N" : "N, M", *each = form ? "m" : "", *of = form ? "M" : "";
    *p = (Program){.dim = {'M', 'N', 'J', 'K'}, .size = {1 + roll(&d, form == 2 ? 90 : 7), PICK(&d, lengths), 3, 3}, .nouts = 4, .exact = {true, true, true, true}};
    if (form == 2) p->size[1] %= 1500;
    for (int i = 0; i < 2; i++) {
        int from = (int)roll(&d, 8) - 2;
        if (form == 2) buf_printf(&body, "    var %c = full<%s>(%d, m);\n", 'a' + i, type, from);
        else buf_printf(&body, "    var %c: %s = %d;\n", 'a' + i, type, from);
    }
    loop(&d, &body, whole, form == 2, at, 0, keep & 1);
    if (two) loop(&d, &body, whole, form == 2, at, 3, keep >> 3 & 1);
    else if (keep >> 3 & 1) buf_printf(&body, "    y3[%s] = a;\n", each);
    if (keep & 2) buf_printf(&body, "    y1[%s] = a;\n", each);
    if (keep & 4) buf_printf(&body, "    y2[%s] = b;\n", each);
    buf_printf(text, "kernel k(x: %s[%s]", type, dims);
    for (int i = 0; i < 4; i++) if (keep >> i & 1) buf_printf(text, ", y%d: out %s[%s]", i, type, i == 0 || (i == 3 && two) ? dims : of);
    buf_puts(text, ")");
    if (form == 1) buf_puts(text, " grid (m in M)");
    if (form == 2) buf_printf(text, " grid (m in M by %d)", bm);
    buf_printf(text, "\n{\n%s}\n", body.p);
    buf_free(&body);
}
