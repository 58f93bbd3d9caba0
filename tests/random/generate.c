// Random programs that are right by construction: every expression is made for an element type and a set
// of axes, by the language's own rules (storage floats compute in f32, nothing narrows silently), so that
// what comes out is typed, and means something for any data.
//
//     kernel k(x0: f32[M, N], x1: i8[J, N], ids: i32[N], s: i32, y0: out i32[M, N])
//         grid (m in M by 8)
//     {
//         let n = N by 24;
//         let j = J by 5;
//         let t0 = where(x0[m, n - 3] < 0.5, max(x1[j, n] over j), (m as i8));
//         y0[m, n] = ...;
//     }
//
// There are dead lanes nearly everywhere: dimensions are 0, 1, primes, powers of two and their neighbours,
// tiles 1 to 48 long. Any axis may index any dimension, shifted, mirrored, doubled or through `ids`, so that
// many reads fall outside and give 0 or their `else`.
//
// Sums and products of floats round differently in another order. They stand at the top of an output only,
// alone or scaled and shifted, where eval's bound says how far apart two results may be; outputs without
// them must agree to the bit. Functions that may be off by an ulp or two are left out, `/` and `sqrt` of f32
// among them; div_rn and sqrt_rn are exact.
#include "tests/random/generate.h"

#include <string.h>

typedef enum { AX_m, AX_n, AX_j, AX_k, NAXES } AxisId;          // axis of dimension M, N, J, K

typedef struct Input { Elem elem; int rank; AxisId dim[2]; } Input;
typedef struct Local { Elem elem; unsigned axes; } Local;

typedef struct Gen {
    uint64_t state;
    Program *p;
    int64_t  tile[NAXES];              // lanes of its axis
    bool     scalar_m;                 // m is a plain index
    Input    input[8];  int ninputs;
    Local    local[12]; int nlocals;
    bool     loop_i;                   // inside `for i`
} Gen;

static const Elem VALUES[] = {EL_f32, EL_f32, EL_i32, EL_i32, EL_f16, EL_bf16, EL_i8, EL_u8, EL_i64, EL_u32, EL_i16, EL_f64};

static uint32_t roll(Gen *g, uint32_t n) {
    g->state = g->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(g->state >> 33) % n;
}
static bool chance(Gen *g, uint32_t percent) { return roll(g, 100) < percent; }
static Elem any_elem(Gen *g) { return VALUES[roll(g, sizeof VALUES / sizeof *VALUES)]; }
static bool is_storage(Elem e) { return e == EL_f16 || e == EL_bf16; }

// ---- leaves

static void literal(Gen *g, Elem e, Buf *o) {
    static const char *const reals[] = {"0.5", "-1.25", "3.0", "0.0", "100.0", "-0.0078125"};
    if (elem_is_float(e)) buf_printf(o, "(%s as %s)", reals[roll(g, 6)], elem_name(e));
    else buf_printf(o, "(%d as %s)", (int)roll(g, 101), elem_name(e));
}

static AxisId pick_axis(Gen *g, unsigned axes) {
    for (;;) {
        AxisId a = (AxisId)roll(g, NAXES);
        if (axes >> a & 1) return a;
    }
}

static void axis_index(Gen *g, AxisId a, AxisId dim, Buf *o) {
    char c = "mnjk"[a];
    switch (roll(g, 9)) {
    case 0:  buf_printf(o, "%c + %d", c, (int)roll(g, 9)); break;
    case 1:  buf_printf(o, "%c - %d", c, (int)roll(g, 9)); break;
    case 2:  buf_printf(o, "%c - 1 - %c", "MNJK"[dim], c); break;
    case 3:  buf_printf(o, "%c * 2 + %d", c, (int)roll(g, 2)); break;
    case 4:  buf_printf(o, "ids[%c]", c); break;
    case 5:  buf_printf(o, "%c / 2", c); break;
    default: buf_printf(o, "%c", c); break;
    }
}

// An element of an input; with `must` < NAXES, along that axis.
static void load(Gen *g, int which, unsigned axes, int must, Buf *o) {
    const Input *x = &g->input[which];
    int at = (int)roll(g, (uint32_t)x->rank);
    bool fill = chance(g, 20);
    if (fill) buf_puts(o, "(");
    buf_printf(o, "x%d[", which);
    for (int d = 0; d < x->rank; d++) {
        if (d) buf_puts(o, ", ");
        if (must < NAXES && d == at) axis_index(g, (AxisId)must, x->dim[d], o);
        else if (axes && axes >> x->dim[d] & 1 && chance(g, 70)) buf_printf(o, "%c", "mnjk"[x->dim[d]]);
        else if (axes && chance(g, 80)) axis_index(g, pick_axis(g, axes), x->dim[d], o);
        else if (g->loop_i && chance(g, 50)) buf_puts(o, "i");
        else buf_printf(o, "%d", (int)roll(g, 4));
    }
    buf_puts(o, "]");
    if (fill) buf_printf(o, elem_is_float(x->elem) ? " else 0.5)" : " else %d)", (int)roll(g, 100));
}

static void leaf(Gen *g, Elem e, unsigned axes, int must, Buf *o) {
    if (must == NAXES && g->nlocals && chance(g, 40)) {
        int v = (int)roll(g, (uint32_t)g->nlocals);
        if (!(g->local[v].axes & ~axes)) {
            buf_printf(o, g->local[v].elem == e ? "t%d" : "(t%d as %s)", v, elem_name(e));
            return;
        }
    }
    if (!is_storage(e) && axes && chance(g, 15)) {
        buf_printf(o, "(%c as %s)", "mnjk"[must < NAXES ? must : (int)pick_axis(g, axes)], elem_name(e));
        return;
    }
    int which = (int)roll(g, (uint32_t)g->ninputs);
    for (int i = 0; i < 3 && g->input[which].elem != e; i++) which = (int)roll(g, (uint32_t)g->ninputs);
    bool cast = g->input[which].elem != e;
    if (cast) buf_puts(o, "(");
    load(g, which, axes, must, o);
    if (cast) buf_printf(o, " as %s)", elem_name(e));
}

// ---- expressions

static void value(Gen *g, Elem e, unsigned axes, int depth, Buf *o);

static void condition(Gen *g, unsigned axes, int depth, Buf *o) {
    static const char *const compare[] = {"<", "<=", ">", ">=", "==", "!="};
    if (depth > 0 && chance(g, 30)) {
        buf_puts(o, "(");
        if (chance(g, 30)) buf_puts(o, "!");
        condition(g, axes, depth - 1, o);
        buf_puts(o, chance(g, 50) ? " && " : " || ");
        condition(g, axes, depth - 1, o);
        buf_puts(o, ")");
        return;
    }
    Elem e = any_elem(g);
    buf_puts(o, "(");
    value(g, e, axes, depth - 1, o);
    buf_printf(o, " %s ", compare[roll(g, 6)]);
    if (chance(g, 40)) literal(g, e, o);
    else value(g, e, axes, depth - 1, o);
    buf_puts(o, ")");
}

static void two(Gen *g, const char *before, Elem e, unsigned axes, int depth, const char *between, Buf *o) {
    buf_puts(o, before);
    value(g, e, axes, depth, o);
    buf_puts(o, between);
    if (chance(g, 25)) literal(g, e, o);
    else value(g, e, axes, depth, o);
    buf_puts(o, ")");
}

// A value with axis r for certain.
static void along(Gen *g, Elem e, unsigned axes, AxisId r, int depth, Buf *o) {
    if (depth <= 0) { leaf(g, e, axes | 1u << r, (int)r, o); return; }
    buf_puts(o, chance(g, 50) ? "max(" : "min(");
    value(g, e, axes | 1u << r, depth - 1, o);
    buf_puts(o, ", ");
    leaf(g, e, axes | 1u << r, (int)r, o);
    buf_puts(o, ")");
}

// By a function that is associative and not commutative: the last element so far that something holds of, else the first.
static void last_so_far(Gen *g, Elem e, unsigned axes, AxisId r, bool stays, int depth, Buf *o) {
    buf_printf(o, "(%s(|a, b| where(%s, b, a), ", stays ? "scan" : "reduce", elem_is_float(e) ? "b > 0" : "b % 3 == 1");
    along(g, e, axes, r, depth - 1, o);
    buf_printf(o, " over %c%s) as %s)", "mnjk"[r], stays && chance(g, 40) ? ", reverse = true" : "", elem_name(e));
}

// Over an axis that the result lacks: exact ones only.
static bool reduction(Gen *g, Elem e, unsigned axes, int depth, Buf *o) {
    AxisId r = AX_j;
    if (axes & 1u << AX_j) return false;
    bool whole = !elem_is_float(e);
    if (chance(g, 20)) { last_so_far(g, e, axes, r, false, depth, o); return true; }
    switch (roll(g, 6)) {
    case 0:
        if (!whole) return false;
        buf_puts(o, chance(g, 70) ? "sum(" : "prod(");
        break;
    case 1:
        if (e != EL_i64) return false;
        buf_puts(o, chance(g, 50) ? "(argmax(" : "(argmin(");
        along(g, any_elem(g), axes, r, depth - 1, o);
        buf_puts(o, " over j) as i64)");
        return true;
    case 2:
        if (is_storage(e)) return false;
        buf_puts(o, "((");
        buf_puts(o, chance(g, 50) ? "any(" : "every(");
        along(g, EL_i32, axes, r, depth - 1, o);
        buf_printf(o, " > %d over j)) as %s)", (int)roll(g, 5), elem_name(e));
        return true;
    case 3:
        buf_puts(o, "min(");
        break;
    default:
        buf_puts(o, "max(");
        break;
    }
    along(g, e, axes, r, depth - 1, o);
    buf_puts(o, " over j)");
    return true;
}

// Along an axis that stays: scans that are exact, sorts.
static bool ordered(Gen *g, Elem e, unsigned axes, int depth, Buf *o) {
    unsigned tiles = g->scalar_m ? axes & ~(1u << AX_m) : axes;
    if (!tiles) return false;
    AxisId r = pick_axis(g, tiles);
    if (chance(g, 25)) { last_so_far(g, e, axes, r, true, depth, o); return true; }
    static const char *const exact[] = {"cummax(", "cummin(", "sort(", "cumsum(", "cumprod("};
    uint32_t kind = roll(g, elem_is_float(e) ? 3 : 5);
    buf_puts(o, exact[kind]);
    along(g, e, axes, r, depth - 1, o);
    buf_printf(o, " over %c", "mnjk"[r]);
    if (kind == 2 && chance(g, 50)) buf_puts(o, ", descending = true");
    if (kind != 2 && chance(g, 40)) buf_puts(o, ", exclusive = true");
    if (kind != 2 && chance(g, 40)) buf_puts(o, ", reverse = true");
    buf_puts(o, ")");
    return true;
}

// From another place of an axis, which stays, or of one that the result lacks: neighbours, mirrored, or wherever
// numbers say. The tile lies whole in shared memory, its extents powers of two.
static bool taken(Gen *g, Elem e, unsigned axes, int depth, Buf *o) {
    enum { MOST_LANES = 16384 };
    unsigned tiles = (g->scalar_m ? axes & ~(1u << AX_m) : axes) | 1u << AX_j;
    AxisId r = pick_axis(g, tiles);
    int64_t lanes = 1;
    for (int a = 0; a < NAXES; a++) {
        int64_t up = 1;
        while ((tiles >> a & 1) && up < g->tile[a]) up *= 2;
        lanes *= up;
    }
    if (lanes > MOST_LANES) return false;
    char n = "mnjk"[r], length = "MNJK"[r];
    buf_puts(o, "take(");
    along(g, e, axes, r, depth - 1, o);
    if (!(axes >> r & 1) || chance(g, 40)) { buf_puts(o, ", "); value(g, EL_i32, axes, 1, o); }
    else if (chance(g, 60)) buf_printf(o, ", %c %c %d", n, chance(g, 50) ? '+' : '-', (int)roll(g, 4));
    else buf_printf(o, ", %c - 1 - %c", length, n);
    buf_printf(o, " over %c)", n);
    return true;
}

static void float_value(Gen *g, Elem e, unsigned axes, int depth, Buf *o) {
    switch (roll(g, 9)) {
    case 0:  two(g, "(", e, axes, depth, " + ", o); break;
    case 1:  two(g, "(", e, axes, depth, " - ", o); break;
    case 2:  two(g, "(", e, axes, depth, " * ", o); break;
    case 3:  two(g, "div_rn(", e, axes, depth, ", ", o); break;
    case 4:  buf_puts(o, "sqrt_rn(abs("); value(g, e, axes, depth, o); buf_puts(o, "))"); break;
    case 5: {
        static const char *const f[] = {"floor(", "ceil(", "trunc(", "round(", "abs(", "-("};
        buf_puts(o, f[roll(g, 6)]);
        value(g, e, axes, depth, o);
        buf_puts(o, ")");
        break;
    }
    case 6:
        buf_puts(o, "fma(");
        value(g, e, axes, depth, o);
        buf_puts(o, ", ");
        two(g, "", e, axes, depth, ", ", o);
        break;
    default: two(g, chance(g, 50) ? "min(" : "max(", e, axes, depth, ", ", o); break;
    }
}

static void int_value(Gen *g, Elem e, unsigned axes, int depth, Buf *o) {
    static const char *const ops[] = {" + ", " - ", " * ", " & ", " | ", " ^ "};
    uint32_t kind = roll(g, 10);
    if (kind < 6) two(g, "(", e, axes, depth, ops[kind], o);
    else if (kind == 6) {
        buf_puts(o, "(");
        value(g, e, axes, depth, o);
        buf_printf(o, " %s %d)", chance(g, 50) ? "/" : "%", 1 + (int)roll(g, 9));
    } else if (kind == 7) {
        buf_puts(o, "(");
        value(g, e, axes, depth, o);
        buf_printf(o, " %s %d)", chance(g, 50) ? "<<" : ">>", (int)roll(g, 40));
    } else if (kind == 8) {
        buf_puts(o, elem_is_signed(e) && chance(g, 50) ? "abs(" : "~(");
        value(g, e, axes, depth, o);
        buf_puts(o, ")");
    } else two(g, chance(g, 50) ? "min(" : "max(", e, axes, depth, ", ", o);
}

static void value(Gen *g, Elem e, unsigned axes, int depth, Buf *o) {
    if (depth <= 0 || chance(g, 12)) { leaf(g, e, axes, NAXES, o); return; }
    depth--;
    if (chance(g, 12) && reduction(g, e, axes, depth, o)) return;
    if (chance(g, 5) && ordered(g, e, axes, depth, o)) return;
    if (chance(g, 4) && taken(g, e, axes, depth, o)) return;
    if (chance(g, 15)) {
        buf_puts(o, "where(");
        condition(g, axes, depth, o);
        buf_puts(o, ", ");
        two(g, "", e, axes, depth, ", ", o);
    } else if (is_storage(e)) {
        if (chance(g, 40)) two(g, chance(g, 50) ? "min(" : "max(", e, axes, depth, ", ", o);
        else { buf_puts(o, "("); value(g, EL_f32, axes, depth, o); buf_printf(o, " as %s)", elem_name(e)); }
    } else if (chance(g, 12)) {
        Elem from = any_elem(g);
        buf_puts(o, "(");
        value(g, from, axes, depth, o);
        buf_printf(o, " as %s)", elem_name(e));
    } else if (elem_is_float(e)) float_value(g, e, axes, depth, o);
    else int_value(g, e, axes, depth, o);
}

// ---- statements

static void axes_list(const Gen *g, unsigned axes, bool values, Buf *o) {
    bool first = true;
    for (int a = 0; a < NAXES; a++) {
        if (!(axes >> a & 1) || (!values && a == AX_m && g->scalar_m)) continue;
        buf_printf(o, "%s%c", first ? "" : ", ", "mnjk"[a]);
        first = false;
    }
}

// A tensor of normal random numbers with the two dimensions of an operand: made for it, so that products stay finite.
static int operand(Gen *g, Elem e, AxisId a, AxisId b) {
    int i = g->ninputs++;
    g->input[i] = (Input){e, 2, {a, b}};
    return i;
}

static void inexact(Gen *g, Buf *before, Buf *o) {
    static const Elem products[] = {EL_f16, EL_bf16, EL_f32, EL_f16};
    Elem e = products[roll(g, 4)];
    if (chance(g, 30) || g->ninputs > 6 || g->scalar_m) {
        buf_puts(o, "sum(");
        leaf(g, EL_f32, 1u << AX_m | 1u << AX_n | 1u << AX_j, AX_j, o);
        if (chance(g, 50)) { buf_puts(o, " * "); leaf(g, EL_f32, 1u << AX_n | 1u << AX_j, NAXES, o); }
        buf_puts(o, " over j)");
    } else if (chance(g, 50)) {
        int a = operand(g, e, AX_m, AX_j), b = chance(g, 50) ? operand(g, e, AX_j, AX_n) : operand(g, e, AX_n, AX_j);
        buf_printf(o, "dot(x%d[m, j], x%d[%s])", a, b, g->input[b].dim[0] == AX_j ? "j, n" : "n, j");
    } else {
        int a = chance(g, 50) ? operand(g, e, AX_m, AX_k) : operand(g, e, AX_k, AX_m);
        int b = chance(g, 50) ? operand(g, e, AX_k, AX_n) : operand(g, e, AX_n, AX_k);
        buf_printf(before, "    var a%d = zeros<f32>(m, n);\n    for k in K by %d { a%d += dot(x%d[%s], x%d[%s]); }\n",
                   a, (int)g->tile[AX_k], a, a, g->input[a].dim[0] == AX_m ? "m, k" : "k, m", b,
                   g->input[b].dim[0] == AX_k ? "k, n" : "n, k");
        buf_printf(o, "a%d", a);
    }
    if (chance(g, 40)) buf_puts(o, " * 0.5");
    if (chance(g, 40)) { buf_puts(o, " + "); leaf(g, EL_f32, 1u << AX_m | 1u << AX_n, NAXES, o); }
}

// A variable that a loop carries, then its value.
static void carried(Gen *g, int number, Elem e, unsigned axes, Buf *before, Buf *o) {
    buf_printf(before, "    var v%d = zeros<%s>(", number, elem_name(e));
    axes_list(g, axes, false, before);
    buf_puts(before, ");\n");
    if (chance(g, 50)) {
        buf_printf(before, "    for k in K by %d ", (int)g->tile[AX_k]);
        if (chance(g, 30)) buf_printf(before, "merge |a, b| max(a.v%d, b.v%d) ", number, number);
        buf_printf(before, "{ v%d = max(v%d, max(", number, number);
        along(g, e, axes, AX_k, 1, before);
        buf_puts(before, " over k)); }\n");
    } else {
        g->loop_i = true;
        buf_printf(before, "    for i in %d {\n", (int)roll(g, 4));
        if (chance(g, 40)) buf_printf(before, "        if i == s { %s; }\n", chance(g, 50) ? "continue" : "break");
        buf_printf(before, "        v%d = %s(v%d, ", number, chance(g, 50) ? "max" : "min", number);
        value(g, e, axes, 2, before);
        buf_puts(before, ");\n    }\n");
        g->loop_i = false;
    }
    if (chance(g, 40)) {
        buf_printf(before, "    if s > %d { v%d = min(v%d, ", (int)roll(g, 4), number, number);
        value(g, e, axes, 1, before);
        buf_puts(before, "); }\n");
    }
    buf_printf(o, "v%d", number);
}

static int64_t tile_for(Gen *g, int64_t size, bool whole) {
    static const int64_t tiles[] = {1, 2, 3, 4, 5, 8, 12, 16, 24, 32, 48};
    for (;;) {
        int64_t t = tiles[roll(g, 11)];
        if (!whole || t >= size) return t;
    }
}

void generate(uint64_t seed, uint32_t keep, Program *p, Buf *text) {
    static const int64_t sizes[] = {0, 1, 2, 3, 5, 7, 8, 13, 16, 17, 24, 31, 32, 33};
    Gen g = {.state = seed * 0x9e3779b97f4a7c15u + 1, .p = p};
    Buf body = {0};
    roll(&g, 2), roll(&g, 2);
    *p = (Program){.dim = {'M', 'N', 'J', 'K'}};
    int mode = (int)roll(&g, 4);                          // grid over m and n; m (scalar); m; nothing
    g.scalar_m = mode == 1;
    for (int d = 0; d < R_DIMS; d++) {
        p->size[d] = sizes[chance(&g, 90) ? 1 + roll(&g, 13) : 0];
        g.tile[d] = tile_for(&g, p->size[d], d == AX_j || (d == AX_n && mode != 0) || (d == AX_m && mode == 3));
    }
    for (int i = 0; i < 4; i++) {
        Input *x = &g.input[g.ninputs++];
        *x = (Input){any_elem(&g), 1 + (int)roll(&g, 2), {(AxisId)roll(&g, 3), (AxisId)roll(&g, 3)}};
    }
    unsigned mn = 1u << AX_m | 1u << AX_n;
    for (int i = (int)roll(&g, 4); i > 0; i--) {
        Local v = {any_elem(&g), chance(&g, 70) ? mn : chance(&g, 50) ? 1u << AX_n : 1u << AX_m};
        buf_printf(&body, "    let t%d = ", g.nlocals);
        value(&g, v.elem, v.axes, 3, &body);
        buf_puts(&body, ";\n");
        g.local[g.nlocals++] = v;
    }
    Elem out[R_OUTS];
    p->nouts = 1 + (int)roll(&g, 3);
    for (int i = 0; i < p->nouts; i++) {
        Buf before = {0}, e = {0};
        out[i] = any_elem(&g);
        p->exact[i] = true;
        if (chance(&g, 25)) {
            out[i] = EL_f32;
            p->exact[i] = false;
            inexact(&g, &before, &e);
        } else if (chance(&g, 30)) carried(&g, i, out[i], mn, &before, &e);
        else value(&g, out[i], mn, 4, &e);
        if (keep >> i & 1) buf_printf(&body, "%s    y%d[m, n] = %s;\n", before.p ? before.p : "", i, e.p);
        buf_free(&before), buf_free(&e);
    }
    buf_puts(text, "kernel k(");
    for (int i = 0; i < g.ninputs; i++) {
        buf_printf(text, "x%d: %s[%c", i, elem_name(g.input[i].elem), "MNJK"[g.input[i].dim[0]]);
        if (g.input[i].rank == 2) buf_printf(text, ", %c", "MNJK"[g.input[i].dim[1]]);
        buf_puts(text, "], ");
    }
    buf_puts(text, "dm: i8[M], dn: i8[N], dj: i8[J], dk: i8[K], ids: i32[L], s: i32");
    for (int i = 0; i < p->nouts; i++)
        if (keep >> i & 1) buf_printf(text, ", y%d: out %s[M, N]", i, elem_name(out[i]));
    buf_puts(text, ")\n");
    if (mode == 0) buf_printf(text, "    grid (m in M by %d, n in N by %d)\n", (int)g.tile[AX_m], (int)g.tile[AX_n]);
    if (mode == 1) buf_puts(text, "    grid (m in M)\n");
    if (mode == 2) buf_printf(text, "    grid (m in M by %d)\n", (int)g.tile[AX_m]);
    buf_puts(text, "{\n");
    if (mode == 3) buf_printf(text, "    let m = M by %d;\n", (int)g.tile[AX_m]);
    if (mode != 0) buf_printf(text, "    let n = N by %d;\n", (int)g.tile[AX_n]);
    buf_printf(text, "    let j = J by %d;\n%s}\n", (int)g.tile[AX_j], body.p);
    buf_free(&body);
}
