// How long products with one trip take whose blocks go down a column of tiles with the right operand in its place (specialize/resident_b.c).
//
// Shared memory bounds a tile then: the left operand comes, wgmma reads both, the result goes through it twice. A run of tiles begins late, as
// the operand comes and nothing multiplies: 4096 x 4096 x 128 by 64 x 256 takes 13.6 us in runs of 8 tiles, 16.5 in runs of 4.
#include "lower/cost/work.h"

// us until the first tile, and until that of another run, when the ring is full; bytes a us of the operand, a clock of shared memory
static const double KEPT_START = 0.5, KEPT_RUN = 2.8, KEPT_RATE = 80e3, SHARED = 128;

double kept_us(const Work *w, const Target *t, int run) {
    const Rates *r = &by_wgmma;
    double rows = (double)w->down, runs = (double)w->across * ceil(rows / run), rounds = ceil(runs / t->sms), clock = 2.0 * 64 * 256 * 16 / 128 / (t->tflops_bf16 * 1e6 / t->sms * POWER);
    double read = w->tile_rows / 64 * (w->group_row / 32) * (64 + (double)w->columns) * 32;        // by wgmma, 16 of k at a time
    double shared = w->left + read + 2 * (w->tile_bytes / 2), end = w->end + (w->behind > 0 ? w->tile / LOADED : 0) + (w->rows ? w->tile_rows * OWN_ALIGNMENT : 0);
    double tile = fmax(w->clocks, shared / SHARED) * clock + 2 * EXPOSED * end, tiles = rounds * fmin(run, rows) * tile, memory = w->unique / (t->gbs * r->memory * 1e3);
    double us = pow(pow(tiles, TOGETHER) + pow(memory, TOGETHER), 1 / TOGETHER);
    return START + r->fill + KEPT_START + w->right / KEPT_RATE + (rounds - 1) * KEPT_RUN + us + end;
}
