// Random models: loops with a number of trips, scans along the first axis, branches by a constant, a size or
// the data.
//
// A body is drawn by the same operators as the model, those that keep shapes. It sees what is around it. Its
// result has the shape of its state and its bounds: Floor and Clip bring it there (Tanh, in a model that is
// not exact), so that a bound of the state before the first trip holds behind the last.
#include "tests/random/model_draw.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct Body {
    Buf outer;
    int base;
} Body;

static Body body_open(Model *m) {
    Body b = {m->nodes, m->n};
    m->nodes = (Buf){0}, m->body++;
    return b;
}

// Its text; what is in scope and drawn on is what was before.
static Buf body_close(Model *m, const Body *b) {
    Buf text = m->nodes;
    m->nodes = b->outer, m->n = b->base, m->body--;
    return text;
}

static void put_text(Model *m, Buf *text) {
    buf_puts(&m->nodes, text->p ? text->p : "");
    buf_free(text);
}

static void put_input(Model *m, const Value *v) {
    bool open = false;
    for (int i = 0; i < v->rank; i++) open |= v->dim[i].name == '?';
    model_put(m, "input %s f32%s", v->name, open ? " any" : "");
    for (int i = 0; i < v->rank && !open; i++)
        if (v->dim[i].name) model_put(m, " %c", v->dim[i].name);
        else model_put(m, " %lld", (long long)v->dim[i].at[0]);
    model_put(m, "\n");
}

// The bounds that a state has in all trips, if it begins as `v`.
static void steady(const Model *m, Value *v) {
    if (v->grain > 0) v->grain = 0;
    v->most = m->exact ? ldexp(1, (int)ceil(log2(fmax(v->most, 1)))) : fmax(v->most, 2);
}

// What the body ends with, in the bounds of `state`: its name.
static void finish(Model *m, const Body *b, const Value *state, char to[16]) {
    Value v = *state;
    for (int i = b->base; i < m->n; i++) {
        const Value *w = &m->value[i];
        bool same = w->rank == state->rank && strcmp(w->name, state->name) != 0;
        for (int k = 0; k < w->rank && same; k++)
            same =
                dim_same(w->dim[k], state->dim[k]) ||
                (w->dim[k].name == '?' && memcmp(w->dim[k].at, state->dim[k].at, sizeof w->dim[k].at) == 0);
        if (same) v = *w;
    }
    int t = m->names++;
    if (!m->exact) model_put(m, "%s %s -> z%d\n", chance(&m->d, 50) ? "Tanh" : "Sigmoid", v.name, t);
    else {
        bool floor = v.grain < state->grain;
        if (floor) model_put(m, "Floor %s -> y%d\n", v.name, t), snprintf(v.name, sizeof v.name, "y%d", t);
        if (v.most > state->most)
            model_put(m, "Clip %s w%d w%d -> z%d\n", v.name, const_scalar(m, -state->most),
                      const_scalar(m, state->most), t);
        else model_put(m, "Identity %s -> z%d\n", v.name, t);
    }
    snprintf(to, 16, "z%d", t);
}

// How many trips, and what says it: a number, or a size with a name.
static int draw_trips(Model *m, Dim *trips) {
    int64_t few[] = {1, 2, 3, 5};
    *trips = dim_of(PICK(&m->d, few));
    for (int i = 0; i < m->inputs && m->runs > 1; i++)
        for (int k = 0; k < m->input[i].rank; k++) {
            Dim d = m->input[i].dim[k];
            bool few_trips = d.at[0] < 9 && d.at[1] < 9 && d.at[2] < 9;
            if (dim_known(d) || !few_trips || chance(&m->d, 40)) continue;
            int t = m->names++;
            model_put(m, "Shape %s -> n%d\nGather n%d w%d -> m%d axis=0\n", m->input[i].name, t, t,
                      const_int(m, k), t);
            *trips = d;
            return t;
        }
    return -1;
}

static Value stacked(const Value *row, Dim trips) {
    Value y = *row;
    for (int i = y.rank++; i > 0; i--) y.dim[i] = y.dim[i - 1];
    y.dim[0] = trips;
    return y;
}

static bool loop(Model *m) {
    int a = pick(m, 1, 3);
    if (a < 0) return false;
    Value begin = m->value[a], state = begin;
    if (!m->exact && (begin.most > 1e3 || begin.most < 1e-3)) return false;
    steady(m, &state);
    bool rows = chance(&m->d, 50);
    Dim trips;
    int by = draw_trips(m, &trips), t = m->names++, last = -1;
    if (by < 0) last = const_int(m, trips.at[0]);
    Value all = stacked(&state, trips);
    int y = value_add(m, &state), z = rows ? value_add(m, &all) : -1;
    if (y < 0 || m->n + 12 > VALUES) return false;
    Body b = body_open(m);
    b.base -= 1 + (z >= 0); // results are not in scope of the body
    Value kept[2] = {m->value[b.base], m->value[b.base + 1]};
    int end = m->n;
    m->n = b.base;
    snprintf(state.name, sizeof state.name, "s%d", t);
    model_put(m, "input i%d i64\ninput c%d bool\n", t, t);
    put_input(m, &state);
    m->value[m->n++] = state;
    if (chance(&m->d, 30)) { // the number of the trip
        Value v = state;
        v.most += 64;
        int at = value_add(m, &v);
        model_put(m, "Cast i%d -> ci%d to=1\nAdd %s ci%d -> %s\n", t, t, state.name, t, m->value[at].name);
        model_settle(m, at);
    }
    draw_body(m, 1 + (int)roll(&m->d, 3));
    char out[16];
    finish(m, &b, &state, out);
    model_put(m, "Identity c%d -> d%d\noutput d%d bool\noutput %s f32 any\n", t, t, t, out);
    if (z >= 0) model_put(m, "Identity %s -> row%d\noutput row%d f32 any\n", out, t, t);
    Buf text = body_close(m, &b);
    m->value[b.base] = kept[0], m->value[b.base + 1] = kept[1], m->n = end;
    if (by >= 0) model_put(m, "Loop m%d _ %s -> %s", by, begin.name, m->value[y].name);
    else model_put(m, "Loop w%d _ %s -> %s", last, begin.name, m->value[y].name);
    model_put(m, "%s%s body={\n", z >= 0 ? " " : "", z >= 0 ? m->value[z].name : "");
    put_text(m, &text);
    model_put(m, "}\n");
    return true;
}

// Along the first axis of a value, either way; the state begins as one of its rows.
static bool scan(Model *m) {
    int a = pick(m, 2, 4);
    if (a < 0) return false;
    Value x = m->value[a], row = x;
    for (int r = 0; r < m->runs; r++)
        if (x.dim[0].at[r] > 9) return false;
    if (!m->exact && (x.most > 1e3 || x.most < 1e-3)) return false;
    for (int i = 0; i + 1 < x.rank; i++) row.dim[i] = x.dim[i + 1];
    row.rank--;
    Value state = row;
    steady(m, &state);
    int t = m->names++, back = chance(&m->d, 30), back_out = chance(&m->d, 20);
    Value all = stacked(&state, x.dim[0]);
    int y = value_add(m, &state), z = value_add(m, &all);
    if (z < 0 || m->n + 12 > VALUES) return false;
    model_put(m, "Gather %s w%d -> g%d axis=0\n", x.name, const_int(m, 0), t);
    Body b = body_open(m);
    b.base -= 2;
    Value kept[2] = {m->value[y], m->value[z]};
    m->n = b.base;
    snprintf(state.name, sizeof state.name, "s%d", t), snprintf(row.name, sizeof row.name, "e%d", t);
    put_input(m, &state), put_input(m, &row);
    m->value[m->n++] = row, m->value[m->n++] = state;
    Value sum = state;
    sum.most += row.most, sum.grain = row.grain < state.grain ? row.grain : state.grain;
    int at = value_add(m, &sum);
    model_put(m, "%s %s %s -> %s\n", chance(&m->d, 60) ? "Add" : "Max", state.name, row.name,
              m->value[at].name);
    model_settle(m, at);
    draw_body(m, (int)roll(&m->d, 3));
    char out[16];
    finish(m, &b, &state, out);
    model_put(m, "Identity %s -> row%d\noutput %s f32 any\noutput row%d f32 any\n", out, t, out, t);
    Buf text = body_close(m, &b);
    m->value[y] = kept[0], m->value[z] = kept[1], m->n = b.base + 2;
    model_put(m,
              "Scan g%d %s -> %s %s num_scan_inputs=1 scan_input_directions=[%d] scan_output_directions=[%d] "
              "body={\n",
              t, x.name, m->value[y].name, m->value[z].name, back, back_out);
    put_text(m, &text);
    model_put(m, "}\n");
    return true;
}

static void condition(Model *m, const Value *x, int t) {
    int how = (int)roll(&m->d, 3);
    if (how == 0) {
        buf_printf(&m->head, "const w%d bool : %d\n", m->consts, (int)roll(&m->d, 2));
        model_put(m, "Identity w%d -> c%d\n", m->consts++, t);
    } else if (how == 1) {
        model_put(m, "Shape %s -> n%d\nGather n%d w%d -> m%d axis=0\n", x->name, t, t, const_int(m, 0), t);
        model_put(m, "Greater m%d w%d -> c%d\n", t, const_int(m, 1 + (int)roll(&m->d, 20)), t);
    } else {
        model_put(m, "ReduceMax %s -> n%d keepdims=0\nGreater n%d w%d -> c%d\n", x->name, t, t,
                  const_scalar(m, (int)roll(&m->d, 3)), t);
    }
}

static bool branch(Model *m) {
    int a = pick(m, 1, 4);
    if (a < 0 || m->n + 12 > VALUES) return false;
    Value x = m->value[a], state = x;
    if (!m->exact && (x.most > 1e3 || x.most < 1e-3)) return false;
    steady(m, &state);
    int t = m->names++, y = value_add(m, &state);
    char out[16];
    Buf text[2];
    if (y < 0) return false;
    condition(m, &x, t);
    Value kept = m->value[y];
    for (int k = 0; k < 2; k++) {
        Body b = body_open(m);
        b.base--;
        m->n = b.base;
        m->value[m->n++] = x;
        draw_body(m, 1 + (int)roll(&m->d, 2));
        snprintf(state.name, sizeof state.name, "%s", x.name);
        finish(m, &b, &state, out);
        model_put(m, "output %s f32 any\n", out);
        text[k] = body_close(m, &b);
        m->value[b.base] = kept, m->n = b.base + 1;
    }
    model_put(m, "If c%d -> %s then_branch={\n", t, kept.name);
    put_text(m, &text[0]);
    model_put(m, "} else_branch={\n");
    put_text(m, &text[1]);
    model_put(m, "}\n");
    return true;
}

const StepRow control_steps[] = {{loop, 3, 3, 0}, {scan, 3, 3, 0}, {branch, 3, 3, 1}, {0}};
