// Rows that are pixels: the windows of a convolution by TMA's im2col mode.
//
//     x[m / (P * Q), m / Q % P * sh - top + r * dh, m % Q * sw - left + s * dw, c]         m: rows, c: columns of the tile
//
// The row's number counts pixels: its digits, of lengths Q, P and on, index the dimensions W, H (, D) and at last N. TMA
// walks just so: box[1] pixels from a first one on, W fastest, from `lower` by `step` below the dimension's length +
// `upper`, then one step of H, at last the next picture. What lies outside of the picture is 0. The two corners follow from
// where the first pixel is and how many there are, whatever equation binds P and H:
//
//     lower = -left          upper = -left + (Q - 1) * sw + 1 - W          step = sw
//
// The tap moves the walk as a whole: (s * dw, r * dh) are offsets of the instruction. The hardware asks for
// offsets in 0 .. 255 (4 dimensions; 3: 65535; 5: 31), corners in half as much either way, steps in 1 .. 8: launch facts. Where taps count
// down, as in the gradient by the input, dy[.., m / Q % P + top - r, ..], the window is further down by the most that r can be, R - 1, and
// the offset is R - 1 - r.
//
// A tensor of one picture, x[m / Q + r, m % Q + s, c], is walked as the first of a row of pictures, whose map has a dimension more, of length 1: what is past
// its last pixel is outside.
//
// Results leave the same way, without offsets: y[m / (P * Q), m / Q % P, m % Q, k] is a walk over all of y.
#include "lower/specialize/specialize.h"

enum { MAX_FACTORS = 12, MAX_STEP = 8, MAX_DOWN = 4 };

// ---- products ------------------------------------------------------------------------------------

typedef struct Factors { int64_t c; int n; const Val *of[MAX_FACTORS]; bool bad; } Factors;

static void factor(Factors *f, const Val *v) {
    const Op *d = v->def;
    if (d && d->code == OP_T_const) { f->c *= d->imm; return; }
    if (d && d->code == OP_T_binary && d->sub == OP_mul && !v->type.rank) {
        factor(f, d->in[0]);
        factor(f, d->in[1]);
        return;
    }
    f->bad |= f->n == MAX_FACTORS;
    if (!f->bad) f->of[f->n++] = v;
}

static bool same_product(Factors a, Factors b) {
    if (a.bad || b.bad || a.n != b.n || a.c != b.c) return false;
    for (int i = 0; i < a.n; i++) {
        int k = 0;
        while (k < b.n && !fact_same(a.of[i], b.of[k])) k++;
        if (k == b.n) return false;
        b.of[k] = b.of[--b.n];
    }
    return true;
}

// ---- one dimension's index -----------------------------------------------------------------------

typedef struct Place {
    const Val *rows;                // the row axis whose number's digit it is, or NULL: the same for all rows
    Factors    by;                  // number / by % radix
    Val       *radix;               // NULL: no remainder is taken
    Val       *step;                // times this; NULL: 1
    Affine     base;                // and this, the same for all lanes
} Place;

static Val *strip(Val *v) {
    while (v->def && v->def->code == OP_T_splat) v = v->def->in[0];
    return v;
}

static bool scalar_in(const Op *d, int i) { return strip(d->in[i])->type.rank == 0; }

// a / b, where each factor of b is one of a's.
static bool without(Factors *a, const Factors *b) {
    if (a->bad || b->bad || !b->c || a->c % b->c) return false;
    a->c /= b->c;
    for (int i = 0; i < b->n; i++) {
        int k = 0;
        while (k < a->n && !fact_same(b->of[i], a->of[k])) k++;
        if (k == a->n) return false;
        a->of[k] = a->of[--a->n];
    }
    return true;
}

// number / by % radix, also as number % (by * radix) / by.
static bool digit(Val *v, Place *p) {
    Op *d = strip(v)->def;
    if (p->rows) return false;
    if (d && d->code == OP_T_binary && d->sub == OP_rem && scalar_in(d, 1)) {
        p->radix = strip(d->in[1]);
        d = strip(d->in[0])->def;
    }
    for (bool again = true; again;) {
        again = false;
        for (; d && d->code == OP_T_binary && d->sub == OP_div && scalar_in(d, 1); d = strip(d->in[0])->def) factor(&p->by, strip(d->in[1]));
        if (!d || d->code != OP_T_binary || d->sub != OP_rem || !scalar_in(d, 1)) continue;
        Factors rest = {.c = 1}, digit = {.c = 1};
        factor(&rest, strip(d->in[1]));
        if (!without(&rest, &p->by)) return false;
        if (p->radix) {                                           // of what is left anyway
            factor(&digit, p->radix);
            if (!without(&rest, &digit)) return false;
        } else if (rest.bad || rest.c != 1 || rest.n != 1) return false;
        else p->radix = (Val *)(uintptr_t)rest.of[0];
        d = strip(d->in[0])->def;
        // no divisions before a remainder: by is from the number on
        again = d && d->code == OP_T_binary && d->sub == OP_rem;
        if (d && d->code == OP_T_binary && d->sub == OP_div) return false;
    }
    if (!d || d->code != OP_T_index) return false;
    p->rows = d->in[0];
    return true;
}

static bool place(Val *v, int64_t sign, Place *p) {
    Op *d = (v = strip(v))->def;
    if (v->type.rank == 0) {
        Affine *b = &p->base;
        if (d && d->code == OP_T_const) { b->c += sign * d->imm; return true; }
        if (b->nterm == AFF_TERMS) return false;
        b->term[b->nterm++] = (AffTerm){v, sign};
        return true;
    }
    if (d && d->code == OP_T_binary && d->sub == OP_add) return place(d->in[0], sign, p) && place(d->in[1], sign, p);
    if (d && d->code == OP_T_binary && d->sub == OP_sub) return place(d->in[0], sign, p) && place(d->in[1], -sign, p);
    for (int i = 0; d && d->code == OP_T_binary && d->sub == OP_mul && i < 2; i++)
        if (scalar_in(d, i) && !p->step) {
            p->step = strip(d->in[i]);
            return sign > 0 && digit(d->in[1 - i], p);
        }
    return sign > 0 && digit(v, p);
}

// ---- all of them ---------------------------------------------------------------------------------

static LExpr number(Ws *h, int64_t c) { return launch_const(h->f->arena, c); }
static LExpr join(Ws *h, LOp op, LExpr x, LExpr y) { return launch_join(h->f->arena, op, x, y); }

static bool at_most(Ws *h, LExpr x, int64_t hi) { return fact_assume(h->facts, join(h, L_LE, x, number(h, hi))); }
static bool at_least(Ws *h, LExpr x, int64_t lo) { return fact_assume(h->facts, join(h, L_LE, number(h, lo), x)); }
static bool between(Ws *h, LExpr x, int64_t lo, int64_t hi) { return at_least(h, x, lo) && at_most(h, x, hi); }

static bool in_loop(const Ws *h, const Val *v) {
    return v->def ? op_inside(v->def, h->loop->reg[0]) : v->region == h->loop->reg[0];
}

// What a sum of scalars is, for the launcher.
static bool sum_of(Ws *h, const Affine *x, LExpr *out) {
    *out = number(h, x->c);
    for (int i = 0; i < x->nterm; i++) {
        LExpr e;
        if (!host_expr(h->facts, x->term[i].v, &e)) return false;
        *out = i || x->c || x->term[i].k < 0 ? join(h, x->term[i].k < 0 ? L_SUB : L_ADD, *out, e) : e;
    }
    return true;
}

// Does v depend on which tile this is?
static bool of_tile(Ws *h, const Val *v) {
    LExpr e;
    const Op *d = v->def;
    if (!in_loop(h, v)) return !host_expr(h->facts, v, &e);
    bool any = false;
    for (int i = 0; d && i < d->nin; i++) any |= of_tile(h, d->in[i]);
    return any;
}

// Splits off what changes from trip to trip, or that no launcher knows (a program's phase of a transposed convolution):
// the tap, which must be in 0 .. most.
static const char *tap_of(Ws *h, Affine *base, Affine *tap, int64_t most, bool *phased) {
    LExpr sum = {0}, e, most_of[MAX_DOWN];
    int kept = 0, nmost = 0;
    for (int i = 0; i < base->nterm; i++) {
        if (!in_loop(h, base->term[i].v) && host_expr(h->facts, base->term[i].v, &e)) {
            base->term[kept++] = base->term[i];
            continue;
        }
        Val *v = base->term[i].v;
        bool down = base->term[i].k < 0;
        if (!fact_bound(h->facts, v, &e)) return "a tap of a window may be negative";
        if (down && (base->term[i].k != -1 || nmost == MAX_DOWN || fact_range(h->facts, v).lo < 0 || !host_has_value(e))) return "a tap of a window may be negative";
        tap->term[tap->nterm++] = base->term[i];
        *phased |= of_tile(h, v);
        sum = sum.n ? join(h, L_ADD, sum, e) : e;
        if (down) most_of[nmost++] = e;
    }
    base->nterm = kept;
    Builder b = {h->f, NULL, h->loop, h->loop->span};
    for (int i = 0; i < nmost; i++) {                             // -v is most - v, and what is further down by as much
        if (base->nterm == AFF_TERMS || tap->nterm == AFF_TERMS) return "a tap of a window may be negative";
        Val *v = host_value(&b, most_of[i]);
        base->term[base->nterm++] = (AffTerm){v, -1};
        tap->term[tap->nterm++] = (AffTerm){v, 1};
    }
    return !tap->nterm || at_most(h, sum, most) ? NULL : "a tap of a window is out of TMA's range";
}

// Do windows move along the outermost dimension? Then it is no row of pictures, but a side of the only one.
static bool lone(Ws *h, const Access *a) {
    Place p = {.by = {.c = 1}};
    if (!place(a->idx[0], 1, &p)) return false;
    bool moves = p.step || p.radix;
    for (int t = 0; t < p.base.nterm; t++) moves |= in_loop(h, p.base.term[t].v);
    return moves;
}

int ws_window_spatial(const Window *w) { return w->n - !w->lone; }

// Rows end with the last of all digits so far: past it the walk is in the next picture.
static bool rows_end_with(Ws *h, const Val *rows, LExpr digits) {
    LExpr end;
    return host_expr(h->facts, axis_hi(rows), &end) && fact_assume(h->facts, join(h, L_LE, end, digits));
}

const char *ws_window(Ws *h, const Access *a, int dims, bool taps, Window *w) {
    static const int64_t offsets[] = {65535, 255, 31}, corners[] = {32767, 127, 15};
    Factors so_far = {.c = 1};
    LExpr rows_end, digits_before = number(h, 1);
    *w = (Window){.n = dims, .lone = taps && lone(h, a)};
    int spatial = ws_window_spatial(w);
    if (spatial < 1 || spatial > 3) return "a window has one to three dimensions beside channels and pictures";
    if (a->aff[dims].ntile) return "an operand is gathered";
    bool open = true;                                             // more digits may follow
    for (int i = 0; i < dims; i++) {                              // innermost first
        Place p = {.by = {.c = 1}};
        Pixels *x = &w->at[i];
        LExpr step, count, base;
        if (!place(a->idx[dims - 1 - i], 1, &p)) return "an operand is gathered";
        x->dim = dims - 1 - i;
        x->base = p.base;
        if (p.rows) {
            if (!open || (w->rows && w->rows != p.rows) || !same_product(p.by, so_far)) return "an operand is gathered";
            w->rows = (Val *)(uintptr_t)p.rows;
            if (!p.radix) open = false;
            else factor(&so_far, p.radix);
        }
        if (i == spatial) {                                       // pictures
            for (int t = 0; t < p.base.nterm; t++) if (in_loop(h, p.base.term[t].v)) return "a window moves over pictures";
            if (p.step || p.radix) return "an operand is gathered";
            x->digit = p.rows != NULL;
            // past the last digit the walk is in the next picture, where rows begin anew: x[b, m % 8, k] of 64 rows
            if (!x->digit && open && w->rows && !rows_end_with(h, w->rows, digits_before)) return "an operand is gathered";
            w->whole = x->digit;
            continue;
        }
        const char *why = tap_of(h, &x->base, &x->tap, offsets[spatial - 1], &w->phased);
        if (why) return why;
        if (x->tap.nterm && !taps) return "an operand is gathered";
        if (!sum_of(h, &x->base, &base)) return "where a window begins is not known at launch";
        x->digit = p.rows != NULL;
        x->radix = p.radix;
        x->step = p.step;
        if (p.step && !host_expr(h->facts, p.step, &step)) return "a window's stride is not known at launch";
        if (!p.step) step = number(h, 1);
        else if (!between(h, step, 1, MAX_STEP)) return "a window's stride is more than 8";
        if (p.radix && !host_expr(h->facts, p.radix, &count)) return "how many windows there are is not known at launch";
        if (!p.radix) count = number(h, 1);
        if (x->digit && !p.radix) {                               // the last digit counts all that is left of the rows
            if (!host_expr(h->facts, axis_hi(w->rows), &rows_end))
                return "how many windows there are is not known at launch";
            count = join(h, L_CDIV, rows_end, digits_before);
        } else if (p.radix) digits_before = i ? join(h, L_MUL, digits_before, count) : count;
        x->lower = base;
        x->stride = step;
        LExpr last = join(
            h, L_MUL, launch_join_const(h->f->arena, L_SUB, launch_join_const(h->f->arena, L_MAX, count, 1), 1), step);
        bool all = !p.step && !x->base.nterm && !x->base.c && launch_same(count, a->p->dim[x->dim]);
        x->upper = all ? number(h, 0)
                       : join(h, L_SUB, launch_join_const(h->f->arena, L_ADD, join(h, L_ADD, base, last), 1),
                              a->p->dim[x->dim]);
        int64_t most = corners[spatial - 1];
        if (!at_least(h, a->p->dim[x->dim], 1)) return "a window's tensor is empty";
        if (!between(h, x->lower, -most - 1, most) || !between(h, x->upper, -most - 1, most))
            return "a window's corners are out of TMA's range";
    }
    if (w->lone && open && w->rows && !rows_end_with(h, w->rows, digits_before)) return "an operand is gathered";
    return w->rows ? NULL : "an operand is gathered";
}

// Do the rows end where the tensor does, so that the walk passes its end with them?
bool ws_window_ends(Ws *h, const Access *a, const Window *w) {
    Factors all = {.c = 1}, rows = {.c = 1};
    LExpr dim;
    if (!w->whole) return false;
    for (int i = 0; i + 1 < w->n; i++) if (w->at[i].radix) factor(&all, w->at[i].radix);
    factor(&rows, axis_hi(w->rows));
    for (int i = 0; i < rows.n; i++) {                            // but the number of pictures
        if (!host_expr(h->facts, rows.of[i], &dim) || !launch_same(dim, a->p->dim[w->at[w->n - 1].dim])) continue;
        rows.of[i] = rows.of[--rows.n];
        return same_product(rows, all) && !w->at[w->n - 1].base.nterm && !w->at[w->n - 1].base.c;
    }
    int64_t pictures;
    return fact_constant(h->facts, a->p->dim[w->at[w->n - 1].dim], &pictures) &&
           (all.c *= pictures, same_product(rows, all));
}

// ---- what is made of it --------------------------------------------------------------------------

int ws_window_map(Ws *h, const Access *a, const Window *w, int swizzle, int64_t pixels, bool rounds) {
    LaunchSlot s = {.kind = SLOT_TENSORMAP,
                    .size = 128,
                    .a = a->param,
                    .b = h->maps,
                    .rank = (uint8_t)(a->nidx + w->lone),
                    .swizzle = (uint8_t)swizzle,
                    .rounds = rounds,
                    .im2col = true};
    for (int i = 0; i < s.rank; i++) s.map_dim[i] = (int8_t)(a->nidx - 1 - i);          // -1: of length 1
    s.box[0] = (uint32_t)(swizzle / elem_bytes(a->elem));
    s.box[1] = (uint32_t)pixels;
    for (int i = 0; i < ws_window_spatial(w); i++) {
        s.lower[i] = w->at[i].lower;
        s.upper[i] = w->at[i].upper;
        s.step[i] = w->at[i].stride;
    }
    return ws_add_map(h, s);
}

// The digits of a row's number that index dimensions, by division: those that a window has, in its order.
void ws_window_digits(Builder *b, const Window *w, Val *first, Val **digit) {
    Val *rest = first;
    for (int i = 0; i < w->n; i++) {
        const Pixels *x = &w->at[i];
        if (!x->digit) continue;
        digit[i] = x->radix ? b_binary(b, OP_rem, rest, x->radix) : rest;
        if (x->radix) rest = b_binary(b, OP_div, rest, x->radix);
    }
}

// Where the row of these digits is, without the tap: a coordinate for each dimension that rows index.
void ws_window_place(Builder *b, const Window *w, Val *const *digit, Val **coord) {
    ValMap same = {.arena = b->f->arena};
    for (int i = 0; i < w->n; i++) {
        const Pixels *x = &w->at[i];
        Val *base = ws_coordinate(b, &x->base, &same);
        if (!x->digit) { coord[x->dim] = base; continue; }
        coord[x->dim] = b_binary(b, OP_add, x->step ? b_binary(b, OP_mul, digit[i], x->step) : digit[i], base);
    }
}

void ws_window_start(Builder *b, const Window *w, Val *first, Val **coord) {
    Val *digit[MAX_RANK];
    ws_window_digits(b, w, first, digit);
    ws_window_place(b, w, digit, coord);
}
