// How many blocks of a row program should fit a multiprocessor, as a wish to ptxas.
//
// Left alone, ptxas starts loads as early as it can: a layer norm takes 80 registers, most of them for gamma and beta, which
// nobody needs before the row's second reduction; then three blocks fit where four would, and memory waits (bf16 8192 x 8192
// on an H200, 2026-11-21: 0.91 of a copy against 0.97). So a program without loops that holds a row across its
// reductions asks for 64 registers a thread, if what must live across one of them leaves room: values that are made
// before it and used after it. Everything else is made register by register on its way to a use, and loads can wait.
// Where a lane holds some more (elements of a layer norm over 320 channels: 40), half as many blocks of 128 registers do the same: 93 us instead of 113.
// Where all of it fits anyhow (but in blocks of 512 threads, of which two fit or one: softmax over 512 in the middle 159 us instead of 257), where nothing lives across a reduction (a stencil's residual, a factor for a tile: what
// is loaded is wanted at once, and half of it would spill), where elements are divided correctly rounded (each has a slow
// path, a call, around which the row is kept), or elements go where data says, ptxas is left alone, and on GPUs before
// Hopper, for which its code has a few more registers live (8 bytes would spill).
#include "lower/layout/layout.h"
#include "lower/pass/passes.h"
#include "lower/pass/privatize.h"
#include "ptx/ptx.h"

// rows kept between loops, by blocks of their own
enum { WANTED = 64, MOST_HELD = 36, REGISTERS_SM = 65536, SHARERS = 3 };
enum { FEWER = 128, HELD_BY_FEWER = 48 };            // blocks of more registers, of programs that hold more
enum { LARGE = 512 };                                // threads: two blocks of them, or one

static int words(const Val *v) {
    if (v->type.kind != TY_TILE || !v->type.rank || !v->layout) return 0;
    int bits = v->type.ptr ? 64 : elem_bits((Elem)v->type.elem);
    return (layout_regs(v->layout) * bits + 31) / 32;
}

// Made anew rather than held: what the lane's number and launch parameters say.
static bool cheap(const Op *d) {
    return d->code == OP_T_index || d->code == OP_T_live || d->code == OP_T_splat || d->code == OP_T_const;
}

static int held_across(const Fn *f, const Op *red) {
    int held = 0;
    for (const Op *d = f->body.first; d != red; d = d->next) {
        for (int i = 0; i < d->nout && !cheap(d); i++) {
            bool used = false;
            for (const Op *u = red->next; u && !used; u = u->next)
                for (int k = 0; k < u->nin; k++) used |= u->in[k] == d->out[i];
            // a load that is only used after the reduction is started after it
            bool before = d->code != OP_T_load;
            for (const Op *u = d->next; u && u != red->next && !before; u = u->next)
                for (int k = 0; k < u->nin; k++) before |= u->in[k] == d->out[i];
            if (used && before) held += words(d->out[i]);
        }
    }
    return held;
}

// Places that are computed from data, lane by lane: their addresses are two registers each, and stay.
static bool from_data(const Val *v, int depth) {
    const Op *d = v->type.kind == TY_TILE && v->type.rank ? v->def : NULL;
    if (!d) return false;
    if (d->code == OP_T_load || d->code == OP_T_scan || d->code == OP_T_select) return true;
    for (int i = 0; i < d->nin && depth > 0; i++) if (from_data(d->in[i], depth - 1)) return true;
    return false;
}

static bool scatters(const Op *op) {
    if (op->code != OP_T_load && op->code != OP_T_store && op->code != OP_T_atomic) return false;
    for (int i = 0; i < op->nidx; i++) if (from_data(op->in[1 + i], 8)) return true;
    return false;
}

// A row kept between loops, of which several blocks' shares fit a multiprocessor: so should their registers.
static int sharers(const Fn *f) {
    int n = REGISTERS_SM / 40 / f->launch->threads;
    int most = f->shares ? f->beside : SHARERS;
    return n > most ? most : n < 1 ? 1 : n;
}

int blocks_wanted(const Fn *f) {
    int most = 0, loaded = 0, threads = f->launch->threads;
    bool reduces = false;
    if (f->shares || f->rows_walk) return sharers(f);
    if (f->tallies) return tally_resident(f);
    for (const Op *op = f->body.first; op; op = op->next) {
        if (op->nreg || op->code == OP_T_sort || op->code == OP_T_order || op->code == OP_T_dot || scatters(op)) return 1;
        if (op->code == OP_T_fun && (op->sub == TF_div_rn || op->sub == TF_sqrt_rn) && op->out[0]->type.rank) return 1;
        if (op->code == OP_T_load) loaded += words(op->out[0]);
        if (op->code != OP_T_reduce && op->code != OP_T_scan) continue;
        int held = held_across(f, op);
        most = held > most ? held : most;
        reduces = true;
    }
    bool fits = most + loaded <= WANTED && threads < LARGE;
    if (!f->target->has_cluster || !reduces || !most || most > HELD_BY_FEWER || fits) return 1;
    int n = REGISTERS_SM / (most > MOST_HELD ? FEWER : WANTED) / threads;
    return n < 1 ? 1 : n;
}

// Blocks that keep a row in shared memory: as many as fit by that, but with registers for a trip and its loads (softmax over 1000 of 49 columns,
// 68 KB by 256 threads: 39 us by one of 137 registers, 29 by two of 128, 31 by three and four).
int blocks_that_keep(const Fn *f) {
    const LaunchInfo *l = f->launch;
    int64_t dims[MAX_DIMS] = {0}, more;
    int by_registers = REGISTERS_SM / FEWER / l->threads;
    for (int i = 0; i < l->ndims; i++) dims[i] = l->dims[i].fixed >= 0 ? l->dims[i].fixed : l->dims[i].upto;
    if (!f->fast || f->shares || f->rows_walk || !f->target->has_cluster || !launch_by_dims(l->smem_more, dims, &more) || !more) return blocks_wanted(f);
    int fit = (int)(f->target->smem_sm / (l->smem + more + f->target->smem_reserved)), n = fit < by_registers ? fit : by_registers;
    return n < 1 ? 1 : n;
}
