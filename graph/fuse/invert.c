// A map from axes onto places, inverted: which axes a place comes from.
//
//     (b, m, n)  ->  [b, m / 64, m % 64, n]         one to one: m is made two axes, hi * 64 + lo, and put together again
//
// Fusion asks it whether a value's places in a kernel are all of its elements, once each.
#include "graph/fuse/fuse.h"

#include "graph/internal.h"

#include <string.h>

enum { MAX_AXES = 64 };

// One coordinate as a mixed radix number of axes: the parts by weight, greatest first. -1: it is not one.
typedef struct Digit { int axis; Ix weight; } Digit;

static int digits(Graph *g, Ix c, int n, const Ix *axis, Digit *to) {
    int count = 0;
    Ix rest = c;
    for (int i = 0; i < n; i++) {
        if (axis[i]->kind != IX_AXIS || !(c->axes >> axis[i]->value & 1)) continue;
        Ix left, w = ix_coefficient(g, rest, (int)axis[i]->value, &left);
        if (!w || w->has_axis) return -1;
        rest = left;
        int at = count++;
        while (at > 0 && ix_divide_exact(g, w, to[at - 1].weight)) to[at] = to[at - 1], at--;
        to[at] = (Digit){i, w};
    }
    if (!ix_is(rest, 0)) return -1;
    Ix weight = ix(g, 1);
    for (int k = count; k-- > 0; weight = ix_mul(g, weight, axis[to[k].axis]->arg[0]))
        if (to[k].weight != weight) return -1;
    return count;
}

// Digits only: each coordinate a mixed radix number of whole axes.
static bool invert_digits(Graph *g, int rank, const Ix *shape, const Ix *coord, int n, const Ix *axis, Ix *inverse) {
    for (int i = 0; i < n; i++) inverse[i] = axis[i]->kind == IX_AXIS ? NULL : ix(g, 0);
    for (int k = 0; k < rank; k++) {
        Digit d[MAX_AXES];
        int count = digits(g, coord[k], n, axis, d);
        if (count < 0) return false;
        Ix place = ix_axis(g, k, shape[k]), size = ix(g, 1);
        for (int i = 0; i < count; i++) {
            Ix extent = axis[d[i].axis]->arg[0];
            if (inverse[d[i].axis]) return false;
            Ix part = ix_div(g, place, d[i].weight);
            inverse[d[i].axis] = i == 0 ? part : ix_mod(g, part, extent);
            size = ix_mul(g, size, extent);
        }
        if (size != shape[k]) return false;                  // not all of it
    }
    for (int i = 0; i < n; i++)
        if (!inverse[i]) return false;
    return true;
}

// An axis that e takes apart: its quotient or remainder by *by.
static Ix taken_apart(Graph *g, Ix e, Ix *by) {
    bool apart = (e->kind == IX_DIV || e->kind == IX_MOD) && e->arg[0]->kind == IX_AXIS &&
                 ix_divide_exact(g, e->arg[0]->arg[0], e->arg[1]);
    if (apart) {
        *by = e->arg[1];
        return e->arg[0];
    }
    for (uint32_t i = 0; e->has_axis && e->kind != IX_AXIS && i < e->n; i++) {
        Ix found = taken_apart(g, e->arg[i], by);
        if (found) return found;
    }
    return NULL;
}

enum { FIRST_PART = 44, PARTS = 8 };

// Axes that coordinates take apart (a / 64, a % 64) are made two, hi * 64 + lo, first.
bool map_invert(Graph *g, int rank, const Ix *shape, const Ix *coord, int n, const Ix *axis, Ix *inverse) {
    Ix at[G_MAX_RANK], fine[G_MAX_RANK + PARTS], whole[G_MAX_RANK], with[MAX_AXES] = {0}, found[MAX_AXES] = {0};
    int nfine = n;
    for (int i = 0; i < rank; i++)
        if (!(at[i] = coord[i])) return false;
    for (int i = 0; i < n; i++) fine[i] = whole[i] = axis[i];
    for (int part = 0; part < PARTS; part++) {
        Ix by = NULL, apart = NULL;
        for (int i = 0; i < rank && !apart; i++) apart = taken_apart(g, at[i], &by);
        int which = -1;
        for (int i = 0; i < nfine && apart; i++)
            if (fine[i] == apart) which = i;
        if (which < 0) break;
        Ix hi = ix_axis(g, FIRST_PART + 2 * part, ix_divide_exact(g, apart->arg[0], by)),
           lo = ix_axis(g, FIRST_PART + 2 * part + 1, by);
        for (int i = 0; i < nfine; i++)
            if (fine[i]->kind == IX_AXIS) with[fine[i]->value] = fine[i];
        with[apart->value] = ix_add(g, ix_mul(g, hi, by), lo);
        for (int i = 0; i < rank; i++)
            if (!(at[i] = ix_substitute(g, at[i], with, MAX_AXES))) return false;
        for (int i = 0; i < n; i++)
            if (!(whole[i] = ix_substitute(g, whole[i], with, MAX_AXES))) return false;
        fine[which] = hi;
        fine[nfine++] = lo;
    }
    Ix parts[G_MAX_RANK + PARTS];
    if (!invert_digits(g, rank, shape, at, nfine, fine, parts)) return false;
    for (int i = 0; i < nfine; i++)
        if (fine[i]->kind == IX_AXIS) found[fine[i]->value] = parts[i];
    for (int i = 0; i < n; i++) inverse[i] = ix_substitute(g, whole[i], found, MAX_AXES);
    return true;
}
