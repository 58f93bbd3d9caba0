// What a kernel may not be more of than a limit says: ops of its tile IR, memory, elements of a tile in one thread.
//
// Passes take time by the number of ops, some in its square, and registers stand for elements one by one; so both are
// looked at after each pass, before the next one has to go through them. A tile that is too large is refused with the
// largest that works. Its longest axes are halved for that, since what a thread holds is in proportion to the lanes.
#include "lang/limits.h"
#include "lower/pass/passes.h"

#include <stdlib.h>
#include <string.h>

static const double MARGIN = 0.8, A_PART = 0.02;           // of the limit, that a suggested tile fills; of the kernel, that an op must be to be worth a smaller tile

// ---- tiles in words ----------------------------------------------------------------------------------

static const Type *largest_tile(const Op *op) {
    const Type *best = NULL;
    for (int i = 0; i < op->nin + op->nout; i++) {
        const Type *t = i < op->nin ? &op->in[i]->type : &op->out[i - op->nin]->type;
        if (t->kind == TY_TILE && t->rank && (!best || type_lanes(t) > type_lanes(best))) best = t;
    }
    return best;
}

// The extents, the longest halved until they make at most `lanes`.
static void shrink(int64_t *extent, int rank, double lanes) {
    double now = 1;
    for (int i = 0; i < rank; i++) now *= (double)extent[i];
    while (now > lanes) {
        int at = 0;
        for (int i = 1; i < rank; i++) if (extent[i] > extent[at]) at = i;
        if (extent[at] == 1) return;
        now = now / (double)extent[at] * (double)((extent[at] + 1) / 2);
        extent[at] = (extent[at] + 1) / 2;
    }
}

static void extents_text(const int64_t *extent, int n, Buf *out) {
    for (int i = 0; i < n; i++) buf_printf(out, "%s%lld", i ? " x " : "", (long long)extent[i]);
}

static void help_smaller_tile(Diag *d, const Fn *f, const Type *t, double part) {
    int64_t extent[MAX_AXES];
    Buf text = {0};
    for (int i = 0; i < t->rank; i++) extent[i] = axis_extent(t->axis[i]);
    buf_puts(&text, "the tile is ");
    extents_text(extent, t->rank, &text);
    shrink(extent, t->rank, (double)type_lanes(t) * part);
    buf_puts(&text, "; one of ");
    extents_text(extent, t->rank, &text);
    buf_puts(&text, " works: go along the rest by a loop or the grid");
    diag_help(d, "%s", text.p);
    if (f->with && f->with->schedule.warps && f->warps < 32)
        diag_help(d, "it is spread over %d warp%s, as asked: with `--with=warps=%d` each thread has less", f->warps, f->warps == 1 ? "" : "s",
                  f->warps * 2);
    buf_free(&text);
}

// ---- limits --------------------------------------------------------------------------------------------

static int by_place(const void *a, const void *b) {
    const Span *x = a, *y = b;
    return x->lo != y->lo ? (x->lo > y->lo) - (x->lo < y->lo) : (x->hi > y->hi) - (x->hi < y->hi);
}

// The place of the source that most ops are for.
static Span busiest(const Fn *f, int64_t n, int64_t *count) {
    Span *at = heap_alloc(sizeof *at * (size_t)n), best = {0, 0};
    int64_t k = 0;
    for (const Op *op = op_walk(&f->body, NULL); op && k < n; op = op_walk(&f->body, op)) at[k++] = op->span;
    qsort(at, (size_t)k, sizeof *at, by_place);
    *count = 0;
    for (int64_t i = 0, j; i < k; i = j) {
        for (j = i; j < k && by_place(&at[i], &at[j]) == 0; j++) continue;
        if (at[i].hi && j - i > *count) *count = j - i, best = at[i];
    }
    heap_free(at);
    return best;
}

static bool few_ops(const Fn *f) {
    int64_t n = 0, most = limit_of(LIMIT_tile_ops), here;
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) n++;
    if (n <= most) return true;
    Span at = busiest(f, n, &here);
    Diag *d = diag(f->session, E_kernel_large, f->kernel->span, f->launch->entry, (long long)n, "operations on tiles", (long long)most);
    if (at.hi) diag_label(d, at, "%lld of them", (long long)here);
    diag_help(d, "calls are inlined and compile-time choices written out: a loop has its body once");
    limit_help(d, LIMIT_tile_ops, n);
    return false;
}

static bool little_memory(const Fn *f) {
    int64_t n = (int64_t)arena_bytes(f->arena), most = limit_of(LIMIT_compile_bytes);
    if (n <= most) return true;
    Diag *d = diag(f->session, E_kernel_large, f->kernel->span, f->launch->entry, (long long)n, "bytes of tile IR", (long long)most);
    limit_help(d, LIMIT_compile_bytes, n);
    return false;
}

// Index tiles are arithmetic, and so is what is made of them alone: they are not counted before layouts are known.
static bool held(const Val *v) {
    bool number = v->type.elem == EL_index || (v->def && (v->def->code == OP_T_live || v->def->code == OP_T_splat));
    return v->type.kind == TY_TILE && v->type.rank && (v->layout || !number);
}

static double least(double a, double b) { return a < b ? a : b; }

static bool small_tiles(const Fn *f) {
    int64_t most = limit_of(LIMIT_thread_elements), n = 0;
    const Op *at = NULL;
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        for (int i = 0; i < op->nout; i++)
            if (held(op->out[i]) && thread_elements(f, op->out[i]) > n) n = thread_elements(f, op->out[i]), at = op;
    if (n <= most) return true;
    Diag *d = diag(f->session, E_kernel_large, f->kernel->span, f->launch->entry, (long long)n, "elements of a tile in each thread", (long long)most);
    if (at->span.hi) diag_label(d, at->span, "of this tile");
    help_smaller_tile(d, f, largest_tile(at), least(MARGIN * (double)limit_of(LIMIT_instructions) / (double)code_size(f).all, (double)most / (double)n));
    limit_help(d, LIMIT_thread_elements, n);
    return false;
}

void too_many_instructions(const Fn *f, int64_t n) {
    int64_t most = limit_of(LIMIT_instructions);
    CodeSize s = code_size(f);
    double part = s.all ? (double)s.most / (double)s.all : 0;
    Diag *d = diag(f->session, E_kernel_large, f->kernel->span, f->launch->entry, (long long)n, "instructions for each thread", (long long)most);
    if (s.op && s.op->span.hi) diag_label(d, s.op->span, "about %lld of them", (long long)((double)n * part));
    const Type *t = s.op ? largest_tile(s.op) : NULL;
    if (t && type_lanes(t) > f->warps * 32 && part > A_PART) help_smaller_tile(d, f, t, MARGIN * (double)most / (double)n);
    else diag_help(d, "calls are inlined and each op is written out for each element that a thread holds: a loop has its body once");
    limit_help(d, LIMIT_instructions, n);
}

// What is a little above may be below when equal values are one: it is counted when it has been made (llvm/file.c).
static bool little_code(const Fn *f) {
    int64_t n = code_size(f).all;
    if (n <= 2 * limit_of(LIMIT_instructions)) return true;
    too_many_instructions(f, n);
    return false;
}

bool within_bounds(const Fn *f, bool laid_out) {
    return few_ops(f) && little_memory(f) && (!f->warps || small_tiles(f)) && (!laid_out || little_code(f));
}
