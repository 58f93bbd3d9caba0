// What may follow a product in its kernel, beyond one element at a time.
//
// Rows that one tile holds whole:
//
//     softmax over n of (conv(x, w) + bias)[m, n]          n: a product's columns, 64 to 256; m: its rows, the group's too
//
// A group of rows takes in the product that makes them if it needs each row once and all of it: the kernel is the product's then, its columns an axis
// that is whole, and what is reduced along it is reduced in registers: 64 x 254 x 254 pixels of 128 channels and their softmax take 1.10 ms on an H200, the product alone 0.84
// and a softmax of what it stores half of one. Where a row leaves one number only (the least channel) that is no sure gain, 0.91 to 1.08 ms (logsumexp 1.31)
// against 1.10: such results are not stored by TMA, and blocks do not walk from tile to tile.
//
// Results that lie apart: see below.

#include "graph/fuse/fuse.h"

#include "graph/internal.h"

enum { LEAST_ROWS = 1 << 14, LEAST_COLUMNS = 16, LEAST_WHOLE = 64, ONE_TILE = 256, MANY = 1 << 20 };

static bool whole_tile(Ix columns) {
    return ix_is_const(columns) && columns->value >= LEAST_WHOLE && columns->value <= ONE_TILE && columns->value % LEAST_COLUMNS == 0;
}

// The dimension of x that counts the columns: at each place an axis of its own, all others the same rows. -1: there is none.
static int column_of(const Node *x, uint32_t rows, int n, const Ix *const *coord) {
    int column = -1;
    for (int i = 0; i < n; i++)
        for (int d = 0; d < x->rank; d++) {
            Ix at = coord[i][d];
            if (!(at->axes & ~(uint64_t)rows)) {
                if (at != coord[0][d]) return -1;
                continue;
            }
            if (at->kind != IX_AXIS || at->arg[0] != x->shape[d] || (column >= 0 && column != d)) return -1;
            column = d;
        }
    for (int i = 0; i < n && column >= 0; i++)               // none of them at one row's column alone
        if (!(coord[i][column]->axes & ~(uint64_t)rows)) return -1;
    return column;
}

bool graph_rows_of_product(Graph *g, const Node *product, const Node *x, const FGroup *f, int n, const Ix *const *coord) {
    const Node *root = f->root;
    Ix axis[G_MAX_RANK], inverse[G_MAX_RANK], shape[G_MAX_RANK], at[G_MAX_RANK];
    int count = 0, rank = 0, column = n > 0 && f->kind == F_ROWS && !f->anchor && f->makes.n == 1 ? column_of(x, f->rows, n, coord) : -1;
    bool wide = elem_bits((Elem)product->src[0]->elem) == 16 || product->src[0]->elem == EL_f32;
    if (column < 0 || !wide || product->contract.nn != 1 || !whole_tile(x->shape[column])) return false;
    Ix columns = x->shape[column], all = ix_product(g, product->shape + product->contract.nb, product->contract.nm);
    if (product->shape[product->rank - 1] != columns || (x == product && column != x->rank - 1) || !all || all->lo < LEAST_ROWS) return false;
    bool stored = false;
    for (int i = 0; i < root->rank; i++) {
        if (f->rows >> i & 1) axis[count++] = ix_axis(g, i, root->shape[i]);
        else if (!ix_is(root->shape[i], 1) && root->shape[i] != columns) return false;
        else stored |= root->shape[i] == columns && i == root->rank - 1;
    }
    if (!stored || f->as) return false;
    for (uint32_t i = 0; i < f->nodes.n; i++) {              // all that is reduced is such a row
        const Node *r = f->nodes.at[i];
        if (r->kind != G_reduce) continue;
        if (r->op == GR_argmax || r->op == GR_argmin) return false;
        for (int d = 0; d < r->src[0]->rank; d++)
            if (r->reduce.axes >> d & 1 && r->src[0]->shape[d] != columns && !ix_is(r->src[0]->shape[d], 1)) return false;
    }
    for (int d = 0; d < x->rank; d++) {
        if (d == column) continue;
        shape[rank] = x->shape[d];
        at[rank++] = coord[0][d];
    }
    return map_invert(g, rank, shape, at, count, axis, inverse);
}

// Would each of a product's rows be stored by single elements, some apart from each other? So it is where phases of a transposed
// convolution, batches of its product, are places side by side in a picture with channels first: what the innermost axis counts is
// taken apart, and its digits lie outside of the product's columns. Stored as they are made and put in order by themselves they
// are written by whole lines, and read and written once more.
bool graph_apart_in_memory(Graph *g, const Node *n, const FGroup *f, const Ix *coord) {
    int last = f->root->rank - 1, end = n->rank - 1, uses = 0;
    int64_t count;
    while (last > 0 && ix_is(f->root->shape[last], 1)) last--;
    while (end > 0 && ix_is(n->shape[end], 1)) end--;
    if (last < 0 || end < 0 || f->parts >= 0 || !ix_const(g_count(g, n), &count) || count < MANY) return false;
    for (int i = 0; i < n->rank; i++) uses += (int)(coord[i]->axes >> last & 1);
    return uses > 1 && !(coord[end]->axes >> last & 1) && n->shape[end]->lo >= LEAST_COLUMNS;
}
