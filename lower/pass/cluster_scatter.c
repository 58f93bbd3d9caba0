// Parts of a product's tile as the blocks of a cluster, each of which joins a slice of the tile and goes on with that.
//
//     acc = 0                                    part, tile = program % S, program / S          the cluster's blocks: parts 0 .. S - 1
//     for k in K by BK {                         acc = 0
//         acc += dot(a[m, k], b[k, n])     ->    for k in part's share of K by BK { acc += dot(a[m, k], b[k, n]) }
//     }                                          put = part_put.scattered tile, part, acc
//     c[m, n] = f(acc, bias[n])                  n'  = axis lo + part * BN / S, hi {BN / S}
//                                                acc' = part_get.sum tile, put                   f32[m, n']
//                                                c[m, n'] = f(acc', bias[n'])
//
// What bounds a product of few tiles is the bytes that come into a multiprocessor, 64 a clock: as many blocks of tiles
// S times as large, with a share of K each, bring less of them ((BM + BN) * K / S). Through memory their sums take 2 to
// 6 us to join (fences, a count, reading back by one block). Here each block sends each other one that one's slice
// of its sums, straight into its shared memory, and has received all it will when its mbarrier says so: no fence, no
// count, and what follows the loop, the result's rows too, is shared out (llvm/cluster_scatter_smem.c). Bytes between the blocks are
// (S - 1) * BM * BN * 4 for a tile, where 3 TB/s are to be had in all.
//
// On an H200, cold caches, medians (bench/results/2026-11-22-h200-slices-first.txt, and of the last three 2026-11-22-h200-slices.txt):
//
//     m x n x k             without, us   in clusters: parts, tile, us
//     128 x 768 x 3072       8.6          4   64 x 64     7.2
//     64 x 1280 x 8192      12.9          4   64 x 64    10.8
//     16 x 1024 x 4096       7.8          4   32 x 64     6.9
//     256 x 256 x 16384     14.9          8   64 x 128   12.0
//     512 x 1024 x 4096     13.8          2  128 x 64    15.0     much is read again through L2
//     1024^3                 9.1          2  128 x 128    9.8     exchange takes what is won
//     768 x 768 x 16384     34.6          4  160 x 128   37.7     long: joining is a small part of it
//
// Chosen where the model (cost/product_cost.c) expects 5 % less, of what takes less than 20 us; by `split` and `cluster` of the same number, 2 to 8, asked for.
//
// The columns are divided that wgmma has along registers, so that a slice is a run of each thread's registers; slices of
// whole eights. Sums are added in the order of the parts, whoever's the slice is, so that results are the bits that
// parts joined through memory have. For loops that carry only such sums, where what follows works on each element by
// itself and nothing is stored that has no columns; what was computed before the loop for all columns (indices, a bias)
// is computed again behind it for those of the slice. Blocks do not walk.
#include "lower/facts/facts.h"
#include "lower/pass/split_k.h"

enum { SCATTER_MOST = 8, EIGHTS = 8, WGMMA_ROWS = 64, RECEIVED = 64 << 10 };

static bool has(const Type *t, const Val *axis) { return type_axis(t, axis) >= 0; }

// wgmma's columns: those of the right operand, or the left one's rows where it takes the product transposed.
static Val *columns_of(const Op *loop) {
    for (Op *op = loop->reg[0]->first; op; op = op->next) {
        if (op->code != OP_T_dot) continue;
        const Type *t = &op->out[0]->type;
        Val *row = NULL, *col = NULL;
        for (int i = 0; i < t->rank; i++) *(has(&op->in[0]->type, t->axis[i]) ? &row : &col) = t->axis[i];
        if (t->rank != 2 || !row || !col) return NULL;
        return axis_extent(row) % WGMMA_ROWS && axis_extent(col) % WGMMA_ROWS == 0 ? row : col;
    }
    return NULL;
}

// What an op does along the axis, beside taking each element where it is.
static const char *along(const Op *op, const Val *n) {
    bool stores = op->code == OP_T_store || op->code == OP_T_ptrstore || op->code == OP_T_atomic;
    Type places = stores ? op_places(op) : (Type){0};
    if (op->code == OP_T_print || op->code == OP_T_assert) return "what follows its loop prints, or asserts";
    if (stores && !has(&places, n)) return "something is stored that has not all of the tile's columns";
    for (int i = 0; i < op->nin; i++)
        if (op->in[i] == n && op->code != OP_T_index && op->code != OP_T_live) return "something is computed across the columns that would be divided";
    return NULL;
}

// A value from before the loop can be made again for a slice.
static const char *again(const Val *v, const Val *n) {
    if (!has(&v->type, n)) return NULL;
    const Op *d = v->def;
    if (!d || d->nreg) return "a tile from before its loop comes of a loop or branch";
    const char *why = along(d, n);
    for (int i = 0; i < d->nin && !why; i++) why = d->in[i]->type.kind == TY_TILE ? again(d->in[i], n) : NULL;
    return why;
}

static bool carried(const Op *loop, const Val *v) { return v->def == loop; }

static bool follows(const Op *loop, const Op *op) {
    while (op && op->parent->owner) op = op->parent->owner;
    for (const Op *x = loop->next; x; x = x->next) if (x == op) return true;
    return false;
}

static const char *behind(const Op *loop, const Op *op, const Val *n) {
    const char *why = along(op, n);
    for (int i = 0; i < op->nin && !why; i++) {
        const Val *v = op->in[i];
        if (v->type.kind == TY_TILE && v->def && !carried(loop, v) && !follows(loop, v->def)) why = again(v, n);
    }
    for (int k = 0; k < op->nreg && !why; k++)
        for (const Op *in = op->reg[k]->first; in && !why; in = in->next) why = behind(loop, in, n);
    return why;
}

int64_t scatter_bytes(Val *const *v, int n, int64_t parts) {
    int64_t bytes = 0;
    for (int i = 0; i < n; i++) {
        int size = elem_bytes((Elem)v[i]->type.elem);
        bytes += type_lanes(&v[i]->type) / parts * (parts - 1) * (size > 4 ? 8 : 4);
    }
    return bytes;
}

static const char *refusal(const Split *s, const Target *t, int parts) {
    const Op  *loop = s->loop;
    const Val *n = columns_of(loop);
    if (!split_products(s)) return "its loop has no products, or a `merge`";
    if (!t->has_st_async) return "this target's blocks do not send into each other's shared memory";
    if (parts > SCATTER_MOST) return "clusters of more than 8 blocks have room on a part of the GPU alone";
    if (!n) return "its product has a batch axis";
    if (axis_extent(n) % ((int64_t)EIGHTS * parts)) return "a slice of its columns is no multiple of 8";
    for (int i = 0; i < loop->nout; i++) if (!has(&loop->out[i]->type, n) || loop->out[i]->type.rank != 2) return "its loop carries something that has not the tile's rows and columns";
    if (scatter_bytes(loop->out, loop->nout, parts) > RECEIVED) return "what the other blocks send takes more than 64 KB of shared memory";
    const char *why = NULL;
    for (const Op *op = loop->next; op && !why; op = op->next) why = behind(loop, op, n);
    return why;
}

bool scatter_applies(const Split *s, const CompileOptions *opt) {
    if (opt->schedule.cluster < 2 || opt->schedule.cluster != opt->schedule.split_k || !split_products(s)) return false;
    s->f->scatter_refused = refusal(s, opt->target, opt->schedule.split_k);
    return !s->f->scatter_refused;
}

const char *scatter_refusal(Fn *f, const Target *t, int parts) {
    Split s = {.f = f};
    const char *why = split_applies(&s);
    return why ? why : refusal(&s, t, parts);
}

typedef struct Cut { Fn *f; Val *n; ValMap map; Op *at; } Cut;

// Of a value from before the loop, what a slice has of it.
static void cut(Cut *c, Val *v) {
    if (v->type.kind != TY_TILE || !has(&v->type, c->n) || map_get(&c->map, v) != v) return;
    for (int i = 0; i < v->def->nin; i++) cut(c, v->def->in[i]);
    op_before(c->at, op_clone(c->f, v->def, &c->map));
}

static void cut_operands(Cut *c, const Op *loop, Op *op) {
    for (int i = 0; i < op->nin; i++) {
        const Op *d = op->in[i]->def;
        if (d && !follows(loop, d)) cut(c, op->in[i]);
        op->in[i] = map_get(&c->map, op->in[i]);
    }
    for (int k = 0; k < op->nreg; k++) for (Op *in = op->reg[k]->first; in; in = in->next) cut_operands(c, loop, in);
}

static void retype(Op *op, const ValMap *m) {
    for (int i = 0; i < op->nout; i++) op->out[i]->type = map_type(m, op->out[i]->type);
    for (int k = 0; k < op->nreg; k++) {
        for (uint32_t i = 0; i < op->reg[k]->args.n; i++) op->reg[k]->args.at[i]->type = map_type(m, op->reg[k]->args.at[i]->type);
        for (Op *in = op->reg[k]->first; in; in = in->next) retype(in, m);
    }
}

void scatter(Split *s, Val *tile, Val *part, int64_t parts) {
    Fn  *f = s->f;
    Op  *loop = s->loop, *rest = loop->next;
    Val *n = columns_of(loop), *in[2 + SPLIT_CARRIED] = {tile, part};
    for (int i = 0; i < loop->nout; i++) in[2 + i] = loop->out[i];
    Op *put = op_new(f, OP_T_part_put, loop->span, 2 + loop->nout, in, 1);
    put->out[0]->type = type_scalar(EL_bool);
    put->imm = parts;
    put->attr = PUT_scattered;
    op_after(loop, put);

    Builder b = {f, loop->parent, rest, loop->span};
    int64_t each = axis_extent(n) / parts;
    Val *lo = b_binary(&b, OP_add, axis_lo(n), b_binary(&b, OP_mul, part, b_const(&b, EL_index, each)));
    Val *own = b_op(&b, OP_T_axis, 0, (Type){.kind = TY_AXIS, .shape = {each}}, 2, (Val *[]){lo, axis_hi(n)});
    own->def->imm = each;
    own->def->flags = n->def->flags;
    own->name = n->name;
    Cut c = {f, n, {.arena = f->arena}, rest};
    map_set(&c.map, n, own);
    for (int i = 0; i < loop->nout; i++) {
        Val *out = loop->out[i], *slice = b_op(&b, OP_T_part_get, s->join[i], map_type(&c.map, out->type), 2, (Val *[]){tile, put->out[0]});
        slice->def->attr = i;
        slice->name = out->name;
        map_set(&c.map, out, slice);
    }
    for (Op *op = rest; op; op = op->next) cut_operands(&c, loop, op);
    for (Op *op = rest; op; op = op->next) retype(op, &c.map);
    f->cluster = f->launch->cluster = (int)parts;
}
