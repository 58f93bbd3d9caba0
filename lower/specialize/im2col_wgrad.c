// Windows whose rows are contracted: the gradient of a convolution by its weights.
//
//     for m in N * P * Q by 64 {                                          m: pixels of dy, windows of x, contracted
//         acc += dot(dy[m / (P * Q), m / Q % P, m % Q, k],                k, c: rows and columns of the tile
//                    x[m / (P * Q), m / Q % P * sh + r - top, m % Q * sw + s - left, c]);
//     }
//
// The windows are those of im2col.c, but their first row is another one in each trip. The producer carries its digits from trip to
// trip instead of dividing: it adds the digits of the step, of which each is less than its radix, so that one carry is all there is.
//
//     step 64, Q = 56, P = 56:   0, 1, 8        m % Q: x = q + 8;  carry = x >= 56;  q = carry ? x - 56 : x
//                                               m / Q % P: the same of p + 1 + carry;  m / (P * Q): n + carry
//
// Where a trip begins at what other loops count, as in a nest that `flatten` took apart, it divides. Rows past the last picture are
// zeros by themselves, others past the axis's end are cleared (buffer_clear).
#include "lower/specialize/specialize.h"
#include "lower/simplify/simplify.h"

const char *ws_pixels_refusal(const Ws *h, const Operand *o) {
    const Region *trip = h->loop->reg[0];
    if (elem_bytes(o->a.elem) != 2) return "only 16-bit operands may have the contracted axis outside";
    if (!ws_computable(h, axis_lo(o->outer))) return "where a trip's pixels begin is not known to the producer";
    for (int i = 0; i < o->window->n; i++) {
        const Val *fixed[] = {o->window->at[i].radix, o->window->at[i].step};
        for (int k = 0; k < 2; k++)
            if (fixed[k] && (fixed[k]->def ? op_inside(fixed[k]->def, trip) : fixed[k]->region == trip))
                return "a window's shape changes from trip to trip";
    }
    return NULL;
}

static bool walks(const Product *p, const Operand *o, bool fixed) {
    return o->window && o->where == RING && !o->same && o->outer == p->k && o->fixed == fixed;
}

static bool radixes(const Window *w) {
    bool any = false;
    for (int i = 0; i < w->n; i++) any |= w->at[i].radix != NULL;
    return any;
}

static bool same_digits(const Window *a, const Window *b) {
    if (a->n != b->n || a->rows != b->rows) return false;
    for (int i = 0; i < a->n; i++) {
        const Pixels *x = &a->at[i], *y = &b->at[i];
        if (x->digit != y->digit || !x->radix != !y->radix || (x->radix && !fact_same(x->radix, y->radix))) return false;
    }
    return true;
}

static PixelWalk *walk_of(PixelWalks *all, const Window *w) {
    for (int i = 0; i < all->n; i++) if (same_digits(all->at[i].w, w)) return &all->at[i];
    return NULL;
}

// In the producer, before its loop, whose first trip is `begin`: returns how many digits the loop carries, and what they begin with.
int ws_pixels_begin(Ws *h, Builder *b, bool fixed, Val *begin, PixelWalks *all, Val **digits) {
    int n = 0;
    int64_t step;
    bool known = is_const(h->loop->in[2], &step);
    all->n = 0;
    for (int i = h->from; i < h->to; i++)
        for (int k = 0; k < 2; k++) {
            const Operand *o = &h->p[i].op[k];
            if (!walks(&h->p[i], o, fixed) || walk_of(all, o->window)) continue;
            PixelWalk *w = &all->at[all->n++];
            *w = (PixelWalk){.w = o->window, .from = axis_lo(o->outer)};
            w->carried = known && radixes(w->w) && w->from == h->loop->reg[0]->args.at[0];
            if (!w->carried) continue;
            Val *first[MAX_RANK];
            ws_window_digits(b, w->w, begin, first);
            ws_window_digits(b, w->w, b_const(b, EL_index, step), w->step);
            for (int d = 0; d < w->w->n; d++) if (w->w->at[d].digit) digits[n++] = first[d];
        }
    return n;
}

// In a trip, for which the loop carries `digits`: where its boxes begin.
void ws_pixels_place(Ws *h, Builder *b, bool fixed, PixelWalks *all, Val *const *digits, ValMap *map) {
    for (int i = 0; i < all->n; i++) {
        PixelWalk *w = &all->at[i];
        if (!w->carried) ws_window_digits(b, w->w, map_get(map, w->from), w->digit);
        for (int d = 0; d < w->w->n && w->carried; d++) if (w->w->at[d].digit) w->digit[d] = *digits++;
    }
    for (int i = h->from; i < h->to; i++)
        for (int k = 0; k < 2; k++) {
            Operand *o = &h->p[i].op[k];
            if (walks(&h->p[i], o, fixed)) ws_window_place(b, o->window, walk_of(all, o->window)->digit, o->start);
        }
}

// The next trip's, behind those that the loop carries already.
int ws_pixels_next(Builder *b, const PixelWalks *all, Val **digits) {
    int n = 0;
    Val *zero = b_const(b, EL_index, 0), *one = b_const(b, EL_index, 1);
    for (int i = 0; i < all->n; i++) {
        const PixelWalk *w = &all->at[i];
        Val *carry = NULL;
        for (int d = 0; d < w->w->n && w->carried; d++) {
            const Pixels *x = &w->w->at[d];
            if (!x->digit) continue;
            Val *up = b_binary(b, OP_add, w->digit[d], w->step[d]);
            if (carry) up = b_binary(b, OP_add, up, b_op(b, OP_T_select, 0, type_scalar(EL_index), 3, (Val *[]){carry, one, zero}));
            digits[n++] = up;
            if (!x->radix) continue;
            carry = b_binary(b, OP_ge, up, x->radix);
            digits[n - 1] = b_op(b, OP_T_select, 0, type_scalar(EL_index), 3, (Val *[]){carry, b_binary(b, OP_sub, up, x->radix), up});
        }
    }
    return n;
}
