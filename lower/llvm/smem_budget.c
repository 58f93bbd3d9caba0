// Shared memory as a whole: what conversions, sorts and products ask for, and the error of a kernel that asks for too
// much, which says what takes the room and which numbers of the kernel would make it less.
//
//     rings     from byte 0, laid out by the pass `pipeline`; they keep their place while their loop runs
//     scratch   one area for conversions, sorts and operands on their way to the tensor cores, as large as the largest;
//               over the rings, where those are through
//     the rest  slots of reductions and scans across warps
//
// What the rest takes is known when code is made, long after rings were laid out by what it would take. Where a block has too little, the kernel is made anew
// with smaller rings (llvm/file.c), and the error comes when those are not the reason.
#include "lower/llvm/gen.h"

#include <string.h>

uint32_t gen_room(Gen *g, const Op *op) {
    switch (op->code) {
    case OP_T_convert: return convert_room(g, op);
    case OP_T_sort: case OP_T_order: return sort_room(g, op);
    case OP_T_take: return take_room(g, op);
    case OP_T_dot: return gen_dot_room(g, op);
    default: return 0;
    }
}

uint32_t gen_scratch_room(Gen *g) {
    uint32_t most = 0;
    for (const Op *op = op_walk(&g->f->body, NULL); op; op = op_walk(&g->f->body, op)) {
        uint32_t n = gen_room(g, op);
        most = n > most ? n : most;
    }
    return most;
}

// ---- the error -----------------------------------------------------------------------------------

enum { EXTENTS = 64 };
typedef struct Room {
    Gen    *g;
    Diag   *d;
    int64_t extent[EXTENTS];     // of what takes the room
    int     n;
} Room;

static double kib(uint32_t bytes) { return (double)bytes / 1024; }

static void extent(Room *r, int64_t e) { if (r->n < EXTENTS) r->extent[r->n++] = e; }
static void extents(Room *r, const Type *t) { for (int i = 0; i < t->rank; i++) extent(r, axis_extent(t->axis[i])); }

// The tensor that a ring is filled from, or NULL.
static const char *filled_from(Room *r, const Val *buffer) {
    for (const Op *op = op_walk(&r->g->f->body, NULL); op; op = op_walk(&r->g->f->body, op)) {
        int tensor = op->code == OP_T_copy_async ? 2 : op->code == OP_T_tma_load ? 3 : 0;
        if (tensor && op->in[0] == buffer) return r->g->f->launch->params[op->in[tensor]->def->imm].name->s;
    }
    return NULL;
}

static void rings(Room *r) {
    for (const Op *op = op_walk(&r->g->f->body, NULL); op; op = op_walk(&r->g->f->body, op)) {
        if (op->code != OP_T_buffer) continue;
        const Type *t = &op->out[0]->type;
        int64_t bytes = elem_bytes((Elem)t->elem);
        for (int d = 0; d < t->rank; d++) { bytes *= t->shape[d]; extent(r, t->shape[d]); }
        const char *tensor = filled_from(r, op->out[0]);
        Sym name = op->out[0]->name;
        diag_note(r->d, "%.1f KiB: %lld stage%s of %s%s%s, %.1f KiB each", kib((uint32_t)(bytes * op->imm)),
                  (long long)op->imm, op->imm == 1 ? "" : "s", tensor || name ? "`" : "a tile",
                  tensor ? tensor
                  : name ? name->s
                         : "",
                  tensor || name ? "`" : "", kib((uint32_t)bytes));
    }
}

static void scratch(Room *r) {
    const Op *largest = NULL;
    uint32_t most = 0;
    for (const Op *op = op_walk(&r->g->f->body, NULL); op; op = op_walk(&r->g->f->body, op)) {
        uint32_t n = gen_room(r->g, op);
        if (n > most) { most = n; largest = op; }
    }
    if (!largest) return;
    bool dot = largest->code == OP_T_dot;
    if (largest->span.hi)
        diag_label(r->d, largest->span, "%.1f KiB %s", kib(most),
                   dot ? "for the operands of this product" : "to hand this value's elements to other threads");
    for (int i = 0; i < (dot ? 2 : 1); i++) extents(r, &largest->in[i]->type);
}

// The kernel's numbers that are extents of what takes the room, the largest first.
static void help(Room *r) {
    const TKernel *k = r->g->f->kernel;
    const TBinding *found[3];
    int n = 0;
    for (int b = 0; b < k->nbindings; b++) {
        const TBinding *x = &k->bindings[b];
        bool fits = !x->is_type && x->origin != ORIGIN_INFERRED && x->ival > 1;
        bool is_extent = false;
        for (int i = 0; i < r->n; i++) is_extent |= r->extent[i] == x->ival;
        if (!fits || !is_extent) continue;
        int at = n;
        while (at > 0 && found[at - 1]->ival < x->ival) at--;
        if (at == 3) continue;
        n += n < 3;
        memmove(&found[at + 1], &found[at], sizeof *found * (size_t)(n - 1 - at));
        found[at] = x;
    }
    if (!n) { diag_help(r->d, "smaller tiles need less: split an axis further with `by`"); return; }
    Buf names = {0};
    for (int i = 0; i < n; i++)
        buf_printf(&names, "%s`%s` (%lld)",
                   i == 0       ? ""
                   : i == n - 1 ? " or "
                                : ", ",
                   found[i]->name->s, (long long)found[i]->ival);
    diag_help(r->d, "a smaller %s needs less: `--set %s=%lld`", names.p, found[0]->name->s, (long long)found[0]->ival / 2);
    buf_free(&names);
}

uint32_t gen_next_area(const Gen *g) { return (g->smem_used + 15) & ~15u; }

uint32_t gen_area(Gen *g, uint32_t bytes) {
    uint32_t area = gen_next_area(g);
    g->smem_used = area + bytes;
    return area;
}

void gen_check_room(Gen *g) {
    const LaunchInfo *l = g->f->launch;
    if (l->smem <= g->opt->target->smem_block) return;
    if (g->f->buffer_bytes && g->f->with->less < g->opt->target->smem_block / 2) {
        g->f->over = l->smem - g->opt->target->smem_block;
        return;
    }
    Room r = {.g = g};
    r.d = diag(g->session, E_smem_overflow, g->f->kernel->span, l->entry, kib(l->smem), g->opt->target->name,
               kib(g->opt->target->smem_block));
    uint32_t known = g->scratch + g->scratch_size, each = g->smem_used;
    if (g->scratch || g->scratch_size < g->f->buffer_bytes) rings(&r);     // else they lie beneath the scratch area
    scratch(&r);
    if (known < g->f->buffer_bytes) known = g->f->buffer_bytes;
    if (each > known + 1024)
        diag_note(r.d, "%.1f KiB: %sreductions across warps", kib(each - known),
                  g->f->cluster ? "what the other blocks of the cluster send, and " : "");
    if (l->smem >= 2 * each)
        diag_note(r.d, "each of the %u programs of a block, of one warp each, has its own", l->smem / each);
    help(&r);
}
