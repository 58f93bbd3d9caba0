// Split-K, a loop in parts: several programs run a share of its trips each, and the last of them to be done
// puts the shares together.
//
//     acc = 0                                   part, tile = program % S, program / S
//     for k in K by BK {                        acc = 0
//         acc += dot(a[m, k], b[k, n])     ->   for k in part's share of K by BK { acc += dot(a[m, k], b[k, n]) }
//     }                                         last = part_put tile, part, acc
//     c[m, n] = acc as bf16                     if last { acc = part_get.sum tile;  c[m, n] = acc as bf16 }
//
// So few programs with long loops fill the machine: a product of few rows, or of a long K, a sum over everything. The
// shares are joined in the order of the parts whoever comes last, so results are the same from run to run; and what
// follows the loop runs once, whatever it is.
//
// A product's large tiles are joined by their last part instead, which waits for the others and adds their sums to its
// own: nothing is written that the same program would read again, and no barrier of the block is passed
// (llvm/stream_k_workspace.c). It waits for programs with lower numbers only, which have been started before it. By 128 x 256 in
// two parts that is 2 us sooner on an H200, by 128 x 128 one; by smaller tiles it is none.
//
//     if part == S - 1 { acc = part_join.sum others of tile, acc;  c[m, n] = acc as bf16 }  else { part_send tile, part, acc }
//
// Parts that have a `merge` may be the blocks of a cluster (Schedule.cluster as many as there are parts): all but the
// first send theirs into its shared memory, which wakes it, and it goes on; no counting, and no way through L2 and
// back. Decoding 2048 keys for 8 heads in 8 parts takes 9.2 us so instead of 9.8 on an H200. Clusters of 12 and 16 have
// room on seven eighths of its multiprocessors, in one round of seven: 24.6 and 22.0 us for 8192 keys that 16 parts
// through memory take 15.6 for.
//
// The parts of a product, too, may be the blocks of a cluster: each of them joins a slice of the tile then (cluster_scatter.c).
//
// A loop may be split when all that it carries are reductions (rule 1 of carried.c) or when its `merge` says how parts
// become one (merge_partial.c), when its body has no effects, and when what comes before it may be done again. Parts but the first
// start from what the op leaves alone, with `merge` from what the loop starts from; a part may have no trips. How many
// parts there are is the schedule's affair (Schedule.split); 1 leaves the kernel as it was.
#include "lower/pass/split_k.h"
#include "lower/build.h"
#include "lower/pass/carried.h"
#include "lower/pass/reduction.h"

// registers of 128 threads
enum { MAX_AT_ONCE = 16, READ_LANES = 128 * 128, LARGE = 128 * 128, UNROLLED_LANES = 2048 * 128, NEAR_BYTES = 48 << 10 };

static bool effects_inside(const Op *op) {
    for (int i = 0; i < op->nreg; i++)
        for (const Op *in = op_walk(op->reg[i], NULL); in; in = op_walk(op->reg[i], in)) if (has_effect(in)) return true;
    return has_effect(op);
}

static int uses_of(const Op *op, const Val *v) {
    int n = 0;
    for (int i = 0; i < op->nin; i++) n += op->in[i] == v;
    return n;
}

static const char *sums_of(Split *s) {
    const Region *r = s->loop->reg[0];
    const Op *yield = r->last;
    TReduce kind;
    for (int i = 0; i < s->loop->nout; i++) {
        if (carried_reduction(s->loop, i, &s->join[i])) continue;
        if (yield->in[i]->type.ptr || !reduce_joins(r->args.at[1 + i], yield->in[i], &kind))
            return "the loop carries more than sums, products, extremes and truths, and has no `merge`";
        return "a trip reads what the loop carries, which has no `merge`";
    }
    return NULL;
}

static const char *merged_of(const Split *s) {
    for (int i = 0; i < s->loop->nout; i++)
        if (region_uses(&s->f->body, s->loop->out[i]) != uses_of(s->merge, s->loop->out[i]))
            return "what the loop carries is used beside its `merge`";
    return merge_refusal(s->merge);
}

static const char *loop_of(Split *s, Op *loop) {
    if (!loop->nout) return "the loop carries nothing";
    if (loop->nout > SPLIT_CARRIED) return "the loop carries too much";
    const char *why = trips_bound(loop);
    if (why) return why;
    s->loop = loop;
    s->merge = merge_of(loop);
    return s->merge ? merged_of(s) : sums_of(s);
}

// What stands before the loop is done by each part.
static const char *taken_apart(Split *s, Op *loop) {
    for (const Op *op = s->f->body.first; op && op != loop; op = op->next)
        if (effects_inside(op)) return "something is stored before the loop";
    return loop_of(s, loop);
}

const char *split_applies(Split *s) {
    Op *loop = s->f->body.first;
    while (loop && loop->code != OP_T_for) loop = loop->next;
    return loop ? taken_apart(s, loop) : "no loop stands outside of other loops and branches";
}

const char *split_refusal(Fn *f) {
    Split s = {.f = f};
    return split_applies(&s);
}

static Val *number_of(Builder *b, int64_t v) { return b_const(b, EL_index, v); }

Op *program_of(Fn *f) {
    for (Op *op = f->body.first; op; op = op->next) if (op->code == OP_T_program) return op;
    Op *op = op_new(f, OP_T_program, f->body.first->span, 0, NULL, 1);
    op->out[0]->type = type_scalar(EL_index);
    op_before(f->body.first, op);
    return op;
}

bool of_program(const Val *v) {
    if (!v->def) return false;
    if (v->def->code == OP_T_program) return true;
    for (int i = 0; i < v->def->nin; i++) if (of_program(v->def->in[i])) return true;
    return false;
}

bool loads_own(const Op *load) {
    for (int i = 1; i < load->nin; i++) if (of_program(load->in[i])) return true;
    return false;
}

// The loop's bounds for this part: whole trips, as many for each as the first.
static void share(Split *s, Builder *b, Val *part, int64_t parts) {
    Op *loop = s->loop;
    s->from = loop->in[0];
    s->end = loop->in[1];
    s->share = part_length(b, loop, parts);
    loop->in[0] = b_binary(b, OP_add, s->from, b_binary(b, OP_mul, part, s->share));
    loop->in[1] = b_op(b, OP_T_fun, TF_min, type_scalar(EL_index), 2,
                       (Val *[]){s->end, b_binary(b, OP_add, loop->in[0], s->share)});
}

bool is_neutral(const Val *v, double x) {
    const Op *d = v->def;
    if (d && d->code == OP_T_splat) d = d->in[0]->def;
    if (!d || d->code != OP_T_const) return false;
    union { int64_t i; double f; } c = {d->imm};
    return elem_is_float((Elem)v->type.elem) ? c.f == x : (double)c.i == x;
}

void split_carry(Split *s, Builder *b, Val *part) {
    Val *first = NULL;
    for (int i = 0; i < s->loop->nout; i++) {
        Val *init = s->loop->in[3 + i];
        double x = reduce_neutral(s->join[i], (Elem)init->type.elem);
        if (is_neutral(init, x)) continue;
        if (!first) first = b_binary(b, OP_eq, part, number_of(b, 0));
        s->loop->in[3 + i] = b_op(b, OP_T_select, 0, init->type, 3, (Val *[]){first, init, b_number(b, init->type, x)});
    }
}

// In an op of a region and all that follow it there.
static void replace_uses_from(Op *first, Val *from, Val *to) {
    for (Op *op = first; op; op = op->next) {
        for (int i = 0; i < op->nin; i++) if (op->in[i] == from) op->in[i] = to;
        for (int i = 0; i < op->nreg; i++) replace_uses(op->reg[i], from, to);
    }
}

static void join_sums(Split *s, Region *in, Val *tile, Val *last) {
    Builder b = {s->f, in, in->first, s->loop->span};
    for (int i = 0; i < s->loop->nout; i++) {
        Val *out = s->loop->out[i], *whole = b_op(&b, OP_T_part_get, s->join[i], out->type, 2, (Val *[]){tile, last});
        whole->def->attr = i;
        whole->name = out->name;
        replace_uses(in, out, whole);
    }
}

// The same, of the slices of a block: each of them takes what the others have put.
static void join_slices(Split *s, Region *in, Val *tile, Val *last, int64_t slices) {
    Builder b = {s->f, in, in->first, s->loop->span};
    for (int i = 0; i < s->loop->nout; i++) {
        Val *out = s->loop->out[i], *whole = NULL;
        for (int64_t k = 0; k < slices; k++) {
            Val *part = b_op(&b, OP_T_part_take, 0, out->type, 3, (Val *[]){tile, last, number_of(&b, k)});
            part->def->attr = i;
            whole = whole ? reduce_join(&b, s->join[i], whole, part) : part;
        }
        whole->name = out->name;
        replace_uses_from(b.before, out, whole);
    }
}

// One part's state, in the order of merge's operands. What the loop does not change is the same in all parts.
static void take(const Split *s, Builder *b, Val *tile, Val *last, Val *part, Val **out) {
    for (int i = 0; i < s->merge->nin; i++) {
        Val *v = out[i] = s->merge->in[i];
        for (int k = 0; k < s->loop->nout; k++) {
            if (s->loop->out[k] != v) continue;
            out[i] = b_op(b, OP_T_part_take, 0, v->type, 3, (Val *[]){tile, last, part});
            out[i]->def->attr = k;
            out[i]->name = v->name;
            break;
        }
    }
}

// As many parts are read at once as registers hold beside what they are merged into: each read is a way to L2 and back.
static int64_t at_once(int64_t lanes, int64_t parts) {
    int64_t rest = parts - 1, fit = READ_LANES / lanes;
    if (fit < 1) fit = 1;
    if (fit > MAX_AT_ONCE) fit = MAX_AT_ONCE;
    int64_t rounds = (rest + fit - 1) / fit;
    return (rest + rounds - 1) / rounds;
}

typedef struct Merging { Split *s; Val *tile, *last; int64_t parts, many; } Merging;

// x = x and parts first .. first + many, those that have trips.
static void merge_round(const Merging *m, Builder *b, Val *first, bool ragged, Val **x) {
    Split *s = m->s;
    Val *y[MAX_AT_ONCE][SPLIT_CARRIED], *part[MAX_AT_ONCE];
    for (int u = 0; u < m->many; u++) {
        part[u] = u ? b_binary(b, OP_add, first, number_of(b, u)) : first;
        Val *at = u && ragged ? b_op(b, OP_T_fun, TF_min, type_scalar(EL_index), 2,
                                     (Val *[]){part[u], number_of(b, m->parts - 1)})
                              : part[u];
        take(s, b, m->tile, m->last, at, y[u]);
    }
    for (int u = 0; u < m->many; u++) {
        Val *there = b_binary(b, OP_lt, b_binary(b, OP_add, s->from, b_binary(b, OP_mul, part[u], s->share)), s->end);
        if (u && ragged) there = b_binary(b, OP_and, there, b_binary(b, OP_lt, part[u], number_of(b, m->parts)));
        merge_if(b, s->merge, there, x, y[u], x);
    }
}

//     x = part 0
//     for p in 1 .. parts by U { y0 .. = parts p .. p + U;  if there is a part p { x = merge x, y0 } .. }
static void join_merged(Split *s, Region *in, Val *tile, Val *last, int64_t parts) {
    Op *merge = s->merge;
    int n = merge->nin;
    int64_t lanes = 0;
    for (int i = 0; i < s->loop->nout; i++) lanes += type_lanes(&s->loop->out[i]->type);
    Merging m = {s, tile, last, parts, at_once(lanes, parts)};
    Builder b = {s->f, in, merge, s->loop->span};
    Val *init[3 + SPLIT_CARRIED] = {number_of(&b, 1), number_of(&b, parts), number_of(&b, m.many)}, *x[SPLIT_CARRIED];
    take(s, &b, tile, last, number_of(&b, 0), init + 3);
    if (lanes * parts <= UNROLLED_LANES) {
        for (int64_t p = 1; p < parts; p += m.many) {
            if (p + m.many > parts) m.many = parts - p;
            merge_round(&m, &b, number_of(&b, p), false, init + 3);
        }
        merge_becomes(s->f, merge, init + 3);
        return;
    }
    Op *walk = op_new(s->f, OP_T_for, s->loop->span, 3 + n, init, n);
    Region *r = walk->reg[0];
    Val *first = region_arg(s->f, r, type_scalar(EL_index));
    for (int i = 0; i < n; i++) {
        walk->out[i]->type = merge->in[i]->type;
        x[i] = region_arg(s->f, r, merge->in[i]->type);
    }
    Builder t = {s->f, r, NULL, s->loop->span};
    merge_round(&m, &t, first, (parts - 1) % m.many != 0, x);
    b_insert(&t, op_new(s->f, OP_T_yield, s->loop->span, n, x, 0));
    b_insert(&b, walk);
    merge_becomes(s->f, merge, walk->out);
}

// All that follows `at` becomes a branch of it, taken where `cond` holds.
static Op *rest_if(Fn *f, Op *at, Val *cond) {
    Op *rest = at->next, *branch = op_new(f, OP_T_if, at->span, 1, &cond, 0);
    op_after(at, branch);
    for (Op *op = rest, *next; op; op = next) {
        next = op->next;
        op_remove(op);
        op_append(branch->reg[0], op);
    }
    for (int i = 0; i < 2; i++) op_append(branch->reg[i], op_new(f, OP_T_yield, at->span, 0, NULL, 0));
    return branch;
}

// Everything after the loop is for the part that comes last. Returns part_put.
static Op *combine(Split *s, Val *tile, Val *part, int64_t parts, bool slices) {
    Fn *f = s->f;
    Op *loop = s->loop;
    int n = loop->nout;
    Val *in[2 + SPLIT_CARRIED] = {tile, part};
    for (int i = 0; i < n; i++) in[2 + i] = loop->out[i];
    Op *put = op_new(f, OP_T_part_put, loop->span, 2 + n, in, 1);
    put->out[0]->type = type_scalar(EL_bool);
    put->imm = parts;
    op_after(loop, put);
    Op *branch = rest_if(f, put, put->out[0]);
    if (s->merge) join_merged(s, branch->reg[0], tile, put->out[0], parts);
    else if (slices) join_slices(s, branch->reg[0], tile, put->out[0], parts);
    else join_sums(s, branch->reg[0], tile, put->out[0]);
    return put;
}

// ---- large products: the last part waits for the others ------------------------------------------------------

bool split_products(const Split *s) {
    bool any = false;
    for (const Op *op = s->loop->reg[0]->first; op; op = op->next) any |= op->code == OP_T_dot;
    return any && !s->merge;
}

// The last part waits for the others: for large tiles.
static bool split_waits(const Split *s) {
    int64_t lanes = 0;
    for (int i = 0; i < s->loop->nout; i++) lanes += type_lanes(&s->loop->out[i]->type);
    return split_products(s) && lanes >= LARGE;
}

void split_send(Split *s, Region *r, Val *slot, Val *to, int64_t slots) {
    Op *loop = s->loop;
    Val *in[2 + SPLIT_CARRIED] = {slot, to};
    for (int i = 0; i < loop->nout; i++) in[2 + i] = loop->out[i];
    Op *op = op_new(s->f, OP_T_part_send, loop->span, 2 + loop->nout, in, 0);
    op->imm = slots;
    op_before(r->first, op);
}

void split_join(Split *s, Region *r, Val *first, Val *others, Val *to) {
    Op *loop = s->loop;
    Builder b = {s->f, r, r->first, loop->span};
    for (int i = 0; i < loop->nout; i++) {
        Val *out = loop->out[i],
            *whole = b_op(&b, OP_T_part_join, s->join[i], out->type, 4, (Val *[]){first, others, to, out});
        whole->def->attr = i;
        whole->name = out->name;
        replace_uses_from(b.before, out, whole);
    }
}

// The last part of a tile has the highest number of its programs: those that it waits for have been started before it.
static void hand_over(Split *s, Val *tile, Val *part, int64_t parts) {
    Fn *f = s->f;
    Op *loop = s->loop;
    Builder b = {f, NULL, loop, loop->span};
    Val *others = number_of(&b, parts - 1), *first = b_binary(&b, OP_mul, tile, others),
        *last = b_binary(&b, OP_eq, part, others);
    Val *slot = b_binary(&b, OP_add, first, part);
    Op *branch = rest_if(f, loop, last);
    split_join(s, branch->reg[0], first, others, tile);
    split_send(s, branch->reg[1], slot, tile, parts - 1);
}

// ---- slices of one block (specialize/sliced_k.c) ---------------------------------------------------------

const char *slices_refusal(Fn *f, Op *loop) {
    Split s = {.f = f};
    return taken_apart(&s, loop);
}

void slices_join(Fn *f, Op *loop, Val *slice, int64_t slices) {
    Split s = {.f = f};
    if (loop_of(&s, loop)) ice("slices of a loop that cannot be taken apart");
    Builder b = {f, NULL, loop, loop->span};
    s.from = loop->in[0];
    s.end = loop->in[1];
    s.share = loop->in[2];                                     // slice i has trips if there is a trip i
    if (!s.merge) split_carry(&s, &b, slice);
    combine(&s, program_of(f)->out[0], slice, slices, true)->attr = PUT_block;
}

bool slices_possible(Fn *f, const CompileOptions *opt) {
    bool dot = false;
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) dot |= op->code == OP_T_dot;
    return dot && f->fast && opt->target->has_wgmma && opt->schedule.sliced_k != 1;
}

// The parts of a tile as one cluster, where the first has room for what the others send.
static bool in_cluster(const Split *s, const CompileOptions *opt) {
    int64_t bytes = 0;
    for (int i = 0; i < s->loop->nout; i++)
        bytes += type_lanes(&s->loop->out[i]->type) *
                 (s->loop->out[i]->type.elem == EL_f64 || s->loop->out[i]->type.elem == EL_i64 ? 8 : 4);
    return s->merge && opt->target->has_st_async && opt->schedule.cluster == opt->schedule.split_k &&
           bytes * (opt->schedule.split_k - 1) <= NEAR_BYTES;
}

bool split_loop(Fn *f, const CompileOptions *opt) {
    Split s = {.f = f};
    int64_t parts = opt->schedule.split_k;
    if (f->dealt || f->parts) return true;                  // by stream_k, or rows_in_memory
    if (parts > 1) f->split_refused = split_applies(&s);
    if (parts < 2 || f->split_refused) {
        return true;                                           // the pass `cluster_rows` drops merges that nobody wants
    }

    bool scatters = scatter_applies(&s, opt);
    Op *program = program_of(f);
    Builder b = {f, NULL, program->next, s.loop->span};
    Val *number = program->out[0];
    Val *tile = b_binary(&b, OP_div, number, number_of(&b, parts)),
        *part = b_binary(&b, OP_rem, number, number_of(&b, parts));
    replace_uses(&f->body, number, tile);
    tile->def->in[0] = part->def->in[0] = number;
    b.before = s.loop;
    share(&s, &b, part, parts);
    if (!s.merge) split_carry(&s, &b, part);
    if (scatters) scatter(&s, tile, part, parts);
    else if (split_waits(&s)) hand_over(&s, tile, part, parts);
    else if (in_cluster(&s, opt)) {
        combine(&s, tile, part, parts, false)->attr = PUT_cluster;
        f->cluster = f->launch->cluster = (int)parts;
    } else combine(&s, tile, part, parts, false);
    f->launch->programs = launch_join_const(f->arena, L_MUL, f->launch->programs, parts);
    f->parts = (int)parts;
    merge_drop(f);
    simplify(f);
    return true;
}
