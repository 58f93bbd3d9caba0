// Random models: inputs, values, constants, and the choice of operators.
#include "tests/random/model_draw.h"

#include "lang/c_text.h"
#include "runtime/tensor.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const int64_t sizes[] = {1, 2, 3, 5, 7, 8, 9, 16, 17, 20, 31, 32, 33, 48, 63, 64, 65};
static const int64_t extents[] = {16, 32, 64, 128}; // of tiles

Dim dim_of(int64_t n) { return (Dim){.at = {n, n, n}}; }

Dim dim_add(Dim a, Dim b) {
    Dim c = {.name = (char)(a.name || b.name ? '?' : 0)};
    for (int r = 0; r < RUNS; r++) c.at[r] = a.at[r] + b.at[r];
    return c;
}

bool dim_same(Dim a, Dim b) {
    return a.name == b.name && a.name != '?' && memcmp(a.at, b.at, sizeof a.at) == 0;
}
bool dim_known(Dim a) { return a.name == 0; }

int64_t dim_least(const Model *m, Dim a) {
    int64_t n = a.at[0];
    for (int r = 1; r < m->runs; r++) n = a.at[r] < n ? a.at[r] : n;
    return n;
}

int64_t draw_size(Model *m) {
    static const int64_t wide[] = {32, 64, 64, 80, 96, 128, 128};
    return m->wide ? PICK(&m->d, wide) : PICK(&m->d, sizes);
}

int64_t weights_limit(const Model *m) { return m->wide ? 17000 : 4100; }

int64_t count_of(const Value *v, int run) {
    int64_t n = 1;
    for (int i = 0; i < v->rank; i++) n *= v->dim[i].at[run];
    return n;
}

int64_t most_count(const Model *m, const Value *v) {
    int64_t n = 0;
    for (int r = 0; r < m->runs; r++) n = count_of(v, r) > n ? count_of(v, r) : n;
    return n;
}

// ---- values
// ---------------------------------------------------------------------------------------------------------

int pick(Model *m, int lo, int hi) {
    for (int tries = 0; tries < 8; tries++) {
        int v = chance(&m->d, 50) ? m->n - 1 - (int)roll(&m->d, (uint32_t)(m->n < 3 ? m->n : 3))
                                  : (int)roll(&m->d, (uint32_t)m->n);
        if (m->value[v].rank >= lo && m->value[v].rank <= hi) return v;
    }
    return -1;
}

static bool same_shape(const Value *a, const Value *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (!dim_same(a->dim[i], b->dim[i])) return false;
    return true;
}

int pick_like(Model *m, const Value *v) {
    int from = (int)roll(&m->d, (uint32_t)m->n);
    for (int i = 0; i < m->n; i++) {
        const Value *w = &m->value[(from + i) % m->n];
        if (strcmp(w->name, v->name) != 0 && same_shape(w, v)) return (from + i) % m->n;
    }
    return -1;
}

int value_add(Model *m, const Value *like) {
    if (m->n == VALUES) return -1;
    for (int i = 0; i < like->rank; i++)
        for (int r = 0; r < m->runs; r++)
            if (like->dim[i].at[r] < 1) return -1;
    if (most_count(m, like) > 20000) return -1;
    m->value[m->n] = *like;
    if (like->grain > 0) m->value[m->n].grain = 0;
    snprintf(m->value[m->n].name, sizeof m->value[0].name, "t%d", m->names++);
    return m->n++;
}

void model_put(Model *m, const char *format, ...) {
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    buf_puts(&m->nodes, line);
}

// Operands of products stay within 11 bits, those of bf16 within 8: sums of products then have 24 bits at
// most.
static int bits_of(const Model *m) { return m->dtype == EL_bf16 ? 8 : 11; }

static void renamed(Model *m, Value *v, const char *format, ...) {
    char op[64];
    va_list args;
    va_start(args, format);
    vsnprintf(op, sizeof op, format, args);
    va_end(args);
    char *space = strchr(op, ' ');
    int n = m->names++;
    model_put(m, "%.*s %s%s -> t%d\n", (int)(space - op), op, v->name, space, n);
    snprintf(v->name, sizeof v->name, "t%d", n);
}

// Clip comes first: what a narrow type rounds is beyond its bounds, and it is the bound then.
void model_settle(Model *m, int at) {
    if (at < 0 || !m->exact) return;
    Value *v = &m->value[at];
    int bits = bits_of(m);
    if (v->most > ldexp(1, v->grain + bits)) {
        v->most = ldexp(1, v->grain + 1 + (int)roll(&m->d, (uint32_t)bits));
        renamed(m, v, "Clip w%d w%d", const_scalar(m, -v->most), const_scalar(m, v->most));
    }
    if (v->grain >= -4) return;
    renamed(m, v, "Floor ");
    v->grain = 0, v->most = ceil(v->most);
}

// ---- constants
// ------------------------------------------------------------------------------------------------------

int const_ints(Model *m, int n, const int64_t *v) {
    buf_printf(&m->head, "const w%d i64 %d :", m->consts, n);
    for (int i = 0; i < n; i++) buf_printf(&m->head, " %lld", (long long)v[i]);
    buf_puts(&m->head, "\n");
    return m->consts++;
}

int const_int(Model *m, int64_t v) {
    buf_printf(&m->head, "const w%d i64 : %lld\n", m->consts, (long long)v);
    return m->consts++;
}

int const_scalar(Model *m, double v) {
    buf_printf(&m->head, "const w%d f32 : %.9g\n", m->consts, v);
    return m->consts++;
}

static double a_weight(Model *m, int64_t fan) {
    static const int few[] = {0, 0, 0, 1, -1, 1, -1, 2};
    if (m->exact) return fan > 64 && chance(&m->d, 50) ? 0 : PICK(&m->d, few);
    double near = ldexp(1, (int)lround(-log2(sqrt((double)fan)))); // a power of two
    return ((int)roll(&m->d, 255) - 127) / 64.0 * near;
}

int const_weights(Model *m, int rank, const int64_t *shape, int64_t fan, double *sum) {
    int64_t n = 1;
    buf_printf(&m->head, "const w%d f32", m->consts);
    for (int i = 0; i < rank; i++) buf_printf(&m->head, " %lld", (long long)shape[i]), n *= shape[i];
    buf_puts(&m->head, " :");
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double w = a_weight(m, fan);
        most = fmax(most, fabs(w));
        buf_printf(&m->head, " %.9g", w);
    }
    buf_puts(&m->head, "\n");
    *sum = m->exact ? most * (double)fan : 2;
    return m->consts++;
}

// ---- a model
// --------------------------------------------------------------------------------------------------------

static void draw_name(Model *m, Dim *to, char name) {
    *to = (Dim){.name = name};
    for (int r = 0; r < RUNS; r++) to->at[r] = draw_size(m);
    to->at[1] = name == 'N' || chance(&m->d, 50) ? 1 : to->at[1];
    to->at[2] = chance(&m->d, 60) ? PICK(&m->d, extents) : to->at[2];
}

// Magnitudes: mostly about 1; else towards the ends of the type, in the order that leaves products in range.
static double draw_scale(Model *m) {
    static const int narrow[] = {-12, -6, 5, 8, 11}, wide[] = {-100, -60, -30, -12, 6, 12, 30, 50};
    if (chance(&m->d, 75)) return 1;
    return ldexp(1, m->dtype == EL_f16 ? PICK(&m->d, narrow) : PICK(&m->d, wide));
}

static void draw_input(Model *m, const Dim *named) {
    Value v = {
        .rank = 2, .most = m->exact ? 4 : 2 * draw_scale(m), .grain = m->exact && chance(&m->d, 20) ? -1 : 0};
    if (m->images) v.rank = chance(&m->d, 70) ? 4 : 3;
    else if (chance(&m->d, 40)) v.rank = 3;
    static const int64_t batches[] = {1, 1, 2, 3, 4}, channels[] = {1, 2, 3, 4, 6, 7, 8, 12, 16, 17, 32, 33},
                         spatial[] = {3, 5, 7, 8, 9, 12, 16, 17};
    for (int i = 0; i < v.rank; i++) {
        int64_t n = draw_size(m);
        if (m->images)
            n = i == 0 ? PICK(&m->d, batches) : i == 1 ? PICK(&m->d, channels) : PICK(&m->d, spatial);
        else if (v.rank == 3 && i == 0) n = PICK(&m->d, batches);
        v.dim[i] = dim_of(n);
    }
    if (m->runs > 1) { // a batch's or a length's name; both
        int at = m->images || chance(&m->d, 50) ? 0 : v.rank - 2;
        v.dim[at] = named[at != 0];
        if (!m->images && v.rank == 3 && chance(&m->d, 30)) v.dim[1 - at] = named[at == 0];
    }
    if (m->inputs && chance(&m->d, 40))
        memcpy(v.dim, m->input[0].dim, sizeof v.dim), v.rank = m->input[0].rank;
    for (int i = 0; i < v.rank; i++) // small enough for an emulator
        while (most_count(m, &v) > (m->wide ? 17000 : 6000) && dim_known(v.dim[i]) && v.dim[i].at[0] > 1)
            v.dim[i] = dim_of(v.dim[i].at[0] / 2);
    int at = m->n++;
    snprintf(v.name, sizeof v.name, "x%d", m->inputs);
    m->value[at] = m->input[m->inputs++] = v;
    buf_printf(&m->head, "input %s f32", v.name);
    for (int i = 0; i < v.rank; i++)
        if (v.dim[i].name) buf_printf(&m->head, " %c", v.dim[i].name);
        else buf_printf(&m->head, " %lld", (long long)v.dim[i].at[0]);
    buf_puts(&m->head, "\n");
}

static const StepRow *const tables[] = {product_steps, attention_steps, window_steps, move_steps,
                                        element_steps, norm_steps,      quant_steps,  control_steps,
                                        block_steps,   indexed_steps};

static int weight_of(const Model *m, const StepRow *s, bool body) {
    return body && !s->body ? 0 : m->exact ? s->exact : s->loose;
}

static void draw_one(Model *m, bool body) {
    int all = 0;
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const StepRow *s = tables[t]; s->draw; s++) all += weight_of(m, s, body);
    for (int tries = 0; tries < 12; tries++) {
        int at = (int)roll(&m->d, (uint32_t)all);
        for (size_t t = 0; t < sizeof tables / sizeof *tables && at >= 0; t++)
            for (const StepRow *s = tables[t]; s->draw && at >= 0; s++)
                if ((at -= weight_of(m, s, body)) < 0 && s->draw(m)) return;
    }
}

void draw_steps(Model *m, int n) {
    for (int i = 0; i < n && m->n + 8 < VALUES; i++) draw_one(m, false);
}
void draw_body(Model *m, int n) {
    for (int i = 0; i < n && m->n + 8 < VALUES; i++) draw_one(m, true);
}

void model_draw(uint64_t seed, Model *m) {
    static const Elem dtypes[] = {EL_none, EL_f16, EL_bf16};
    static const int opsets[] = {17, 18, 23};
    *m = (Model){.d = {seed * 0x9e3779b97f4a7c15u + 31}, .runs = 1};
    roll(&m->d, 2), roll(&m->d, 2);
    m->dtype = PICK(&m->d, dtypes);
    m->opset = PICK(&m->d, opsets);
    m->exact = chance(&m->d, 45);
    m->special = m->dtype == EL_none && chance(&m->d, 20);
    m->native = m->dtype != EL_none && chance(&m->d, 35);
    m->tf32 = m->dtype == EL_none && !m->special && chance(&m->d, 25);
    m->wide = m->dtype != EL_none && chance(&m->d, 20);
    m->images = !m->wide && chance(&m->d, 30);
    if (chance(&m->d, 40)) m->runs = RUNS;
    Dim named[2];
    draw_name(m, &named[0], 'N'), draw_name(m, &named[1], 'S');
    int inputs = 1 + (int)roll(&m->d, 2), steps = 2 + (int)roll(&m->d, 6);
    for (int i = 0; i < inputs; i++) draw_input(m, named);
    draw_steps(m, steps);
    if (m->n == m->inputs) { // nothing fits what was drawn
        int v = value_add(m, &m->value[0]);
        model_put(m, "Abs x0 -> %s\n", m->value[v].name);
    }
}

// ---- its text
// -------------------------------------------------------------------------------------------------------

// A line of the f32 model in the model's own type: constants are bits there, and casts go to that type.
static void put_native(const Model *m, const char *line, size_t n, Buf *text) {
    const char *type = m->dtype == EL_f16 ? "f16" : "bf16", *end = line + n, *at = line, *f32;
    while ((f32 = strstr(at, " f32")) && f32 < end) {
        buf_add(text, at, (size_t)(f32 - at));
        buf_printf(text, " %s", type);
        at = f32 + 4;
    }
    const char *colon =
        strncmp(line, "const ", 6) == 0 && at > line ? memchr(at, ':', (size_t)(end - at)) : NULL;
    const char *cast = strncmp(line, "Cast ", 5) == 0 ? strstr(at, " to=1\n") : NULL;
    if (colon) {
        buf_add(text, at, (size_t)(colon + 1 - at));
        for (char *p = (char *)(uintptr_t)(colon + 1), *next; p < end - 1; p = next) {
            uint16_t bits = 0;
            elem_set(m->dtype, &bits, 0, c_strtod(p, &next));
            buf_printf(text, " %u", bits);
        }
        buf_puts(text, "\n");
    } else if (cast && cast < end) {
        buf_add(text, at, (size_t)(cast - at));
        buf_printf(text, " to=%d\n", m->dtype == EL_f16 ? 10 : 16);
    } else buf_add(text, at, (size_t)(end - at));
}

static void put_lines(const Model *m, const Buf *from, bool native, Buf *text) {
    for (const char *p = from->p, *end; p && *p; p = end) {
        end = strchr(p, '\n') + 1;
        if (native && strncmp(p, "const scales", 12) != 0) put_native(m, p, (size_t)(end - p), text);
        else buf_add(text, p, (size_t)(end - p));
    }
}

void model_text(Model *m, bool all, bool native, Buf *text) {
    Draw d = m->d;
    buf_printf(text, "opset %d\n", m->opset);
    native = native && m->native;
    put_lines(m, &m->head, native, text), put_lines(m, &m->nodes, native, text);
    const char *type = !native ? "f32" : m->dtype == EL_f16 ? "f16" : "bf16";
    for (int v = m->inputs; v < m->n; v++)
        if (chance(&d, 15) || all || v == m->n - 1)
            buf_printf(text, "output %s %s any\n", m->value[v].name, type);
}
