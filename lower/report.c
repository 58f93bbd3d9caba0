// What was decided, for people: `--emit=report` and `--emit=layout`.
//
//     matmul: 8 warps in 2 consumer groups + 1 producer, 384 threads, programs cdiv(M, 128) * cdiv(N, 256)
//       shared memory   192.1 KiB: ring a 4 x 16.0 KiB, ring b 4 x 32.0 KiB, mbarriers 64 B
//       mm.tk:5   load a      TMA boxes of 64 x 128, swizzle 128
//       mm.tk:5   dot         wgmma m64n256k16, one group in flight
//       mm.tk:6   store c     16 bytes a lane, after a conversion of 64.0 KiB through shared memory
//
// Each line names the source line that led to it; a refusal names its reason.
#include "lower/facts/access.h"
#include "lower/layout/mma.h"
#include "lower/pass/passes.h"
#include "lower/report.h"
#include "lower/cost/roofline.h"

#include <string.h>

typedef struct Rpt { Fn *f; Facts *facts; Buf *out; ReportLines *lines; size_t first; } Rpt;      // first: where lines of ops begin

static void begin(Rpt *r, const Op *op) {
    if (r->lines) vec_push(r->f->arena, r->lines, ((ReportLine){op->span.hi ? op->span.lo : 0, r->out->n}));
}

static void where(Rpt *r, const Op *op) {
    if (r->lines) { begin(r, op); return; }
    if (!op->span.hi) { buf_puts(r->out, "  -            "); return; }
    LineCol w = span_where(r->f->session, op->span.lo);
    const char *base = strrchr(w.src->path, '/');
    char text[64];
    snprintf(text, sizeof text, "%s:%u", base ? base + 1 : w.src->path, w.line);
    buf_printf(r->out, "  %-14s ", text);
}

static const char *param_name(const Rpt *r, const Val *tensor) { return r->f->launch->params[tensor->def->imm].name->s; }

static void access_line(Rpt *r, const Op *op) {
    Access a;
    const Val *v = op->code == OP_T_store ? op->in[1 + op->nidx] : op->out[0];
    access_of(r->facts, op, &a);
    where(r, op);
    buf_printf(r->out, "%-5s %-10s ", op->code == OP_T_store ? "store" : "load", param_name(r, op->in[0]));
    int vec = v->type.rank && v->layout ? access_vec(&a, v->layout) : 1;
    int shift = v->type.rank && v->layout ? access_shifted(r->facts, &a, v->layout) : 0;
    if (shift) {
        buf_printf(r->out, "4 bytes a lane, of two words, from their byte %d on, %d of them\n", shift * elem_bytes(a.elem), layout_regs(v->layout) * elem_bytes(a.elem) / 4);
        return;
    }
    buf_printf(r->out, "%d bytes a lane", vec * elem_bytes(a.elem));
    if (v->type.rank && v->layout) buf_printf(r->out, ", %d of them", layout_regs(v->layout) / vec);
    if (v->type.rank && a.contiguous < 0) buf_puts(r->out, "; no axis runs along the innermost dimension: single elements");
    else if (v->type.rank && vec * elem_bytes(a.elem) < 16) {
        if (a.vec * elem_bytes(a.elem) < 16) buf_puts(r->out, "; more is not known to be aligned and in range");
        else buf_puts(r->out, "; the layout has no longer runs");
    }
    for (int d = 0; d < a.nidx; d++) if (!a.proved[d]) buf_printf(r->out, "; index %d is checked", d);
    buf_putc(r->out, '\n');
}

static void dot_line(Rpt *r, const Op *op) {
    MmaChoice c;
    where(r, op);
    buf_puts(r->out, "dot              ");
    if (op->out[0]->type.rank && mma_choose(r->f->target, op, r->f->warps, &c)) {
        const Layout *l = op->out[0]->layout;                 // the choice's, or that of a product before it
        int across = 1;
        for (int i = 0; l && i < l->nwarp; i++) across <<= (l->warp[i] >> l->off[c.col] & ((1u << l->bits[c.col]) - 1)) != 0;
        buf_printf(r->out, "mma.sync, %d x %d warps", r->f->warps / across, across);
    }
    else buf_puts(r->out, "multiply and add in registers");
    buf_putc(r->out, '\n');
}

// What goes element by element: atomics, and memory behind pointers.
static void pointer_line(Rpt *r, const Op *op) {
    static const char *const names[] = {"add", "min", "max", "and", "or", "xor", "exchange", "compare and swap"};
    const Val *v = op->code == OP_T_ptrload                        ? op->out[0]
                   : op->code == OP_T_ptrstore                     ? op->in[1]
                   : op->nidx || op->in[0]->type.kind == TY_TENSOR ? op->in[1 + op->nidx]
                                                                   : op->in[1];
    where(r, op);
    if (op->code == OP_T_atomic)
        buf_printf(r->out, "atomic %-9s %s", op->in[0]->type.kind == TY_TENSOR ? param_name(r, op->in[0]) : "*",
                   names[op->sub]);
    else buf_printf(r->out, "%-5s *          through a pointer", op->code == OP_T_ptrload ? "load" : "store");
    buf_printf(r->out, ", %d bytes a lane", elem_bytes((Elem)v->type.elem));
    if (v->type.rank && v->layout) buf_printf(r->out, ", %d of them", layout_regs(v->layout));
    buf_putc(r->out, '\n');
}

// Reductions, and what keeps the axis: over which parts of the layout it runs.
static void along_steps(Rpt *r, const Op *op) {
    const Val *x = op->in[0];
    const Layout *l = x->layout;
    uint32_t mask = 0;
    int lanes = 0, warps = 0;
    if (!l) { buf_putc(r->out, '\n'); return; }
    int first = op_first_axis(op);
    for (int i = first; i < op->nin; i++) {
        int pos = type_axis(&x->type, op->in[i]);
        mask |= (uint32_t)((((uint64_t)1 << l->bits[pos]) - 1) << l->off[pos]);
    }
    for (int i = 0; i < LANE_BITS; i++) lanes += (l->lane[i] & mask) != 0;
    for (int i = 0; i < l->nwarp; i++) warps += (l->warp[i] & mask) != 0;
    int regs = layout_regs(l), kept = 1;
    Type rest = type_minus(x->type, op->nin - first, op->in + first);
    if (rest.rank) kept = layout_regs(layout_project(r->f->arena, l, &x->type, &rest));
    buf_printf(r->out, "%-16s %d registers", op_info[op->code].name, regs / kept);
    if (lanes) buf_printf(r->out, ", %d lanes", 1 << lanes);
    if (warps) buf_printf(r->out, ", %d warps through shared memory", 1 << warps);
    buf_putc(r->out, '\n');
}

// Trips that are written out, or have a body for masked lanes besides, say the same: once is enough.
static void once(Rpt *r, size_t line) {
    size_t n = r->lines ? 0 : r->out->n - line;
    for (size_t at = r->first; n && at + n <= line; at += (size_t)((char *)memchr(r->out->p + at, '\n', line - at) - (r->out->p + at)) + 1)
        if (!memcmp(r->out->p + at, r->out->p + line, n)) { r->out->p[r->out->n = line] = 0; return; }
}

static void region(Rpt *r, const Region *reg) {
    Access a;
    for (const Op *op = reg->first; op; op = op->next) {
        size_t line = r->out->n;
        switch (op->code) {
        case OP_T_load: case OP_T_store: access_line(r, op); break;
        case OP_T_dot: dot_line(r, op); break;
        case OP_T_atomic: case OP_T_ptrload: case OP_T_ptrstore: pointer_line(r, op); break;
        case OP_T_wgmma: {
            int first = 4 + ((op->flags & HAS_ACC) != 0), bands = r->f->bands > 1 ? r->f->bands : 1;
            where(r, op);
            buf_printf(r->out, "dot              wgmma m64n%lldk%d, %lld rows over %d warp groups%s\n",
                       (long long)axis_extent(op->in[first + 1]), 32 / elem_bytes((Elem)op->in[1]->type.elem),
                       (long long)axis_extent(op->in[first]) * bands, r->f->groups * bands, op_in_pairs(op) ? ", whose bytes they turn in registers" : "");
            break;
        }
        case OP_T_buffer_turn: {
            const Type *t = &op->in[2]->type;
            where(r, op);
            buf_printf(r->out, "turn  %-10s in shared memory by %d warps, into %lld x %lld\n", op->in[0]->name ? op->in[0]->name->s : "", TURN_WARPS, (long long)t->shape[0], (long long)t->shape[1]);
            break;
        }
        case OP_T_tma_load: {
            const Type *t = &op->in[0]->type;
            where(r, op);
            int boxes = op_boxes(op);
            buf_printf(r->out, "load  %-10s TMA, %lld x %lld", param_name(r, op->in[3]), (long long)t->shape[0], (long long)t->shape[1]);
            if (t->swizzle) buf_printf(r->out, ", swizzle %d", t->swizzle);
            buf_printf(r->out, ", %lld stages", (long long)op->in[0]->def->imm);
            if (boxes > 1) buf_printf(r->out, ", boxes of %lld rows", (long long)t->shape[0] / boxes);
            buf_printf(r->out, "\n");
            break;
        }
        case OP_T_tma_store: {
            const Type *t = &op->in[0]->type;
            where(r, op);
            buf_printf(r->out, "%s %-10s TMA, 64 x %lld a warp group at a time\n", op->attr & TO_ADD ? "add  " : "store", param_name(r, op->in[1]),
                       (long long)t->shape[1]);
            break;
        }
        case OP_T_row_store:
            access_shape(r->facts, op, &a);
            where(r, op);
            buf_printf(r->out, "store %-10s 16 rows a warp through shared memory, %s\n", param_name(r, op->in[0]),
                       access_rows_scattered(&a)                              ? "each to a place of its own"
                       : access_aligned(r->facts, &a, 16 / elem_bytes(a.elem)) ? "since tiles end inside the tensor"
                                                                              : "each at its own alignment: 16 bytes do not divide them");
            break;
        case OP_T_copy_async:
            where(r, op);
            buf_printf(r->out, "load  %-10s cp.async%s, %lld stages\n", param_name(r, op->in[2]),
                       r->f->groups ? " of rows where they lie, by the producer's four warps" : "", (long long)op->in[0]->def->imm);
            break;
        case OP_T_convert:
            where(r, op);
            buf_printf(r->out, "convert          %.1f KiB to another layout\n",
                       (double)type_lanes(&op->out[0]->type) * elem_bytes((Elem)op->out[0]->type.elem) / 1024);
            break;
        case OP_T_reduce: case OP_T_scan: case OP_T_scan_by: case OP_T_reduce_by: case OP_T_sort: case OP_T_order:
            where(r, op);
            along_steps(r, op);
            break;
        default: break;
        }
        once(r, line);
        for (int i = 0; i < op->nreg; i++) region(r, op->reg[i]);
    }
}

static bool takes_turns(const Fn *f) {
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) if (op->code == OP_T_turn_wait) return true;
    return false;
}

static void note_line(Rpt *r, const FnNote *n) {
    Op at = {.span = n->at};
    where(r, &at);
    buf_printf(r->out, "loop             %s\n", n->text);
}

void report_print(Fn *f, const int64_t *dims, Buf *out) { report_collect(f, dims, out, NULL); }

// What a program and a block are, and what memory they have.
static void block_lines(Fn *f, Buf *out) {
    const LaunchInfo *l = f->launch;
    int groups = f->groups * (f->bands > 1 ? f->bands : 1);
    buf_printf(out, "%s: %d warp%s a program", l->kernel->s, f->warps, f->warps == 1 ? "" : "s");
    if (groups) buf_printf(out, " in %d consumer group%s and 1 producer", groups, groups == 1 ? "" : "s");
    buf_printf(out, ", %d threads a block, blocks %s\n", l->threads, launch_expr_text(f->arena, l, l->blocks));
    if (l->smem || f->buffer_bytes)
        buf_printf(out, "  shared memory  %.1f KiB of %.1f KiB, rings %.1f KiB\n", l->smem / 1024.0, f->target->smem_block / 1024.0,
                   f->buffer_bytes / 1024.0);
    if (f->warps_why && !f->groups) buf_printf(out, "  warps          %s\n", f->warps_why);
    if (f->chosen) buf_printf(out, "  chosen         %s\n", f->chosen);
    Buf words = {0};
    if (f->with && schedule_text(&f->with->schedule, &words)) buf_printf(out, "  schedule       %s\n", words.p);
    buf_free(&words);
}

// Which programs a block runs, and which blocks work together.
static void walk_lines(Fn *f, Buf *out) {
    const LaunchInfo *l = f->launch;
    if (f->tallies)
        buf_printf(out, "  tallies        %s %.1f KiB of shared memory: blocks go from program to program, and add to memory at their end\n",
                   l->smem_more.n ? "up to" : "in", f->tally_bytes / 1024.0);
    if (f->tally_refused) buf_printf(out, "  no tallies of atomics in shared memory: %s\n", f->tally_refused);
    if (f->walks && !f->tallies)
        buf_printf(out, "  walks          %d blocks from %s, loading ahead\n", f->walks, f->rows_walk ? "row to row" : "tile to tile");
    if (f->walk_refused) buf_printf(out, "  no walk from row to row: %s\n", f->walk_refused);
    if (takes_turns(f) && !f->by_twos)
        buf_printf(out, "  turns          the consumer groups run %s a trip apart: exponentials take as long as products\n",
                   f->bands > 1 ? "a third of" : "half");
    if (f->batched) buf_printf(out, "  together       %d short programs run as one\n", f->batched);
    if (f->shares) buf_printf(out, "  clusters       of %d blocks share each program's loops\n", f->shares);
    else if (f->cluster && f->parts) buf_printf(out, "  clusters       of %d blocks, a tile's parts\n", f->cluster);
    else if (f->cluster) buf_printf(out, "  clusters       of %d blocks; what all of them want is loaded once\n", f->cluster);
    if (f->cluster_refused) buf_printf(out, "  no clusters: %s\n", f->cluster_refused);
    if (f->scatter_refused) buf_printf(out, "  no slices of tiles in clusters: %s\n", f->scatter_refused);
}

// How a loop's trips are shared, and in which order they come.
static void trip_lines(Fn *f, Buf *out) {
    const LaunchInfo *l = f->launch;
    if (f->parts)
        buf_printf(out, "  split          each %s in %d parts, %s\n", l->together ? "program's loops" : "tile's loop", f->parts,
                   l->together              ? "which meet after each: all of them run at once"
                   : put_scattered(f)       ? "the blocks of a cluster: each joins a slice of the tile in its shared memory, in order"
                   : f->cluster == f->parts ? "joined in order by the first, in its shared memory"
                                            : "joined in order by the last");
    if (f->dealt)
        buf_printf(out,
                   "  stream-K       the trips of the last tiles are dealt evenly to %d blocks, a tile is joined by the block with its begin\n",
                   f->dealt);
    if (f->streamk_refused) buf_printf(out, "  no stream-K: %s\n", f->streamk_refused);
    if (f->slices)
        buf_printf(out, "  slices         %d warp groups take every %s trip each, and join what they have after the loop\n", f->slices,
                   f->slices == 2 ? "second" : "n-th");
    if (f->by_twos) buf_printf(out, "  by twos        two trips' products begin together%s: one is added while the other is made\n", takes_turns(f) ? ", in turns with the other group's" : "");
    if (f->listed) buf_puts(out, "  order          along the list of tiles, some of its rows at a time, each column by column\n");
    if (f->longest_first) buf_puts(out, "  order          the tiles with most trips come first, of all heads\n");
    if (f->turned) buf_puts(out, "  order          blocks of other columns begin at other trips of the loop, and go round\n");
    if (f->slices_refused) buf_printf(out, "  no slices: %s\n", f->slices_refused);
}

// What the groups of a block have each, what is kept, and what was not done.
static void group_lines(Fn *f, Buf *out) {
    const LaunchInfo *l = f->launch;
    if (f->tiles > 1)
        buf_printf(out, "  ping-pong      each consumer group of a block takes every %s tile: one stores while the other multiplies\n",
                   f->tiles == 2 ? "second" : "n-th");
    if (f->kept_right) buf_printf(out, "  keeps          the right operand, while a block makes up to %d tiles of a column\n", f->kept_right);
    if (f->keep_refused) buf_printf(out, "  keeps nothing: %s\n", f->keep_refused);
    if (f->pingpong_refused) buf_printf(out, "  no ping-pong: %s\n", f->pingpong_refused);
    if (f->bands > 1)
        buf_printf(out, "  groups         %d, each of its own 64 of %d rows; what all of them want is loaded once\n", f->bands, 64 * f->bands);
    if (f->groups_refused) buf_printf(out, "  other consumer groups than wanted: %s\n", f->groups_refused);
    if (f->kept)
        buf_printf(out, "  keeps          up to %d tiles that a later loop reads too: shared memory %u + %s bytes\n", f->kept, l->smem,
                   launch_expr_text(f->arena, l, l->smem_more));
    if (f->split_refused) buf_printf(out, "  not split: %s\n", f->split_refused);
    if (f->roles_refused) buf_printf(out, "  no warp roles: %s\n", f->roles_refused);
}

// ---- what was asked for and is not there, where no pass has said why ------------------------------

static bool walks(const Fn *f) { return f->walks || f->tallies; }

static const char *no_roles(const Fn *f) { return f->groups ? NULL : "only products of warp roles have them"; }

static const char *why_walk(const Fn *f, int asked) {
    if (asked < 2 || walks(f) || f->walk_refused) return NULL;
    return f->groups ? "its results do not leave by way of a walking block's shared memory" : "only products of warp roles, rows that are kept and tallies do";
}
static const char *why_blocks(const Fn *f, int asked) { (void)asked; return walks(f) ? NULL : "each program has its own: none walks from program to program"; }
static const char *why_cluster(const Fn *f, int asked) {
    if (asked < 2 || f->cluster || f->shares || f->cluster_refused) return NULL;
    return f->target->has_cluster ? "its blocks load nothing in common, and share no loops" : "the GPU has none";
}
static const char *why_slices(const Fn *f, int asked) { return asked < 2 || f->slices || f->slices_refused ? NULL : no_roles(f); }
static const char *why_pingpong(const Fn *f, int asked) { return asked < 2 || f->tiles > 1 || f->pingpong_refused ? NULL : no_roles(f); }
static const char *why_keep(const Fn *f, int asked) { return asked < 2 || f->kept_right || f->keep_refused ? NULL : no_roles(f); }
static const char *why_groups(const Fn *f, int asked) { (void)asked; return f->groups_refused ? NULL : no_roles(f); }
static const char *why_tally(const Fn *f, int asked) { return asked < 2 || f->tallies || f->tally_refused ? NULL : "it has no atomics that could be counted"; }
static const char *why_warps(const Fn *f, int asked) { (void)asked; return f->groups ? "those of its roles are groups of four" : NULL; }

static int ring_stages(const Fn *f) {
    int most = 0;
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op))
        if (op->code == OP_T_buffer && op->imm > most) most = (int)op->imm;
    return most;
}
static const char *why_stages(const Fn *f, int asked) {
    int has = ring_stages(f);
    return has == asked ? NULL : !has ? "nothing comes through a ring in shared memory" : has < asked ? "a ring has as many as fit, and as there are trips for" : "its products need more";
}

typedef struct Asked { const char *word, *line; const char *(*why)(const Fn *, int); } Asked;
static const Asked asked[] = {
    {"warps", "other warps than asked for", why_warps},        {"stages", "other stages than asked for", why_stages},
    {"persistent", "no walk from program to program", why_walk},     {"blocks", "other blocks than asked for", why_blocks},
    {"cluster", "no clusters", why_cluster},                   {"sliced_k", "no slices", why_slices},
    {"pingpong", "no ping-pong", why_pingpong},                {"resident_b", "keeps nothing", why_keep},
    {"groups", "no consumer groups", why_groups},              {"privatize", "no tallies of atomics in shared memory", why_tally},
};

// What passes say by themselves.
static const struct { const char *word; size_t why; } refused[] = {
    {"persistent", offsetof(Fn, walk_refused)},         {"cluster", offsetof(Fn, cluster_refused)},
    {"sliced_k", offsetof(Fn, slices_refused)},     {"pingpong", offsetof(Fn, pingpong_refused)},
    {"resident_b", offsetof(Fn, keep_refused)},         {"groups", offsetof(Fn, groups_refused)},
    {"privatize", offsetof(Fn, tally_refused)},       {"split_k", offsetof(Fn, split_refused)},
    {"stream_k", offsetof(Fn, streamk_refused)},
};

const char *schedule_refusal(const Fn *f, const char *word) {
    Schedule s = f->with->schedule;
    int  most, v = *schedule_field(&s, word, strlen(word), &most);
    bool one = strcmp(word, "warps") && strcmp(word, "stages") && strcmp(word, "groups") && strcmp(word, "blocks");
    if (!v || (v == 1 && one)) return NULL;                         // 1 of these is that there are none
    if (strcmp(word, "stages") == 0 && ring_stages(f)) return NULL;
    if (strcmp(word, "cluster") == 0 && (f->cluster || f->shares)) return NULL;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const char *why = *(const char *const *)(const void *)((const char *)f + refused[i].why);
        if (strcmp(refused[i].word, word) == 0 && why) return why;
    }
    for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
        if (strcmp(asked[i].word, word) == 0) return asked[i].why(f, v);
    return NULL;
}

static void asked_lines(const Fn *f, Buf *out) {
    for (size_t i = 0; f->with && i < sizeof asked / sizeof *asked; i++) {
        Schedule s = f->with->schedule;
        int most, v = *schedule_field(&s, asked[i].word, strlen(asked[i].word), &most);
        const char *why = v ? asked[i].why(f, v) : NULL;
        if (why) buf_printf(out, "  %s: %s\n", asked[i].line, why);
    }
}

void report_collect(Fn *f, const int64_t *dims, Buf *out, ReportLines *lines) {
    const LaunchInfo *l = f->launch;
    Rpt r = {.f = f, .facts = facts_new(f), .out = out, .lines = lines};
    block_lines(f, out);
    walk_lines(f, out);
    trip_lines(f, out);
    group_lines(f, out);
    asked_lines(f, out);
    for (uint32_t i = 0; i < f->notes.n; i++) note_line(&r, &f->notes.at[i]);
    r.first = out->n;
    region(&r, &f->body);
    begin(&r, &(Op){0});
    for (int i = 0; i < l->nfacts; i++) buf_printf(out, "  assumes        %s\n", l->facts[i].text);
    roofline_print(f->session, f->kernel, f->target, dims, out);
}

static void layouts(const Region *reg, Buf *out) {
    for (uint32_t i = 0; i < reg->args.n; i++)
        if (reg->args.at[i]->layout) {
            buf_printf(out, "  %%%-5u ", reg->args.at[i]->id);
            layout_print(reg->args.at[i]->layout, &reg->args.at[i]->type, out);
            buf_putc(out, '\n');
        }
    for (const Op *op = reg->first; op; op = op->next) {
        for (int i = 0; i < op->nout; i++) {
            const Val *v = op->out[i];
            if (!v->layout) continue;
            buf_printf(out, "  %%%-5u %-8s ", v->id, op_info[op->code].name);
            layout_print(v->layout, &v->type, out);
            buf_putc(out, '\n');
        }
        for (int i = 0; i < op->nreg; i++) layouts(op->reg[i], out);
    }
}

void layout_print_all(Fn *f, Buf *out) {
    ir_number(f);
    ir_print(f, out);
    buf_printf(out, "\nlayouts of @%s, %d warps\n", f->launch->kernel->s, f->warps);
    layouts(&f->body, out);
}
