// Operands whose rows data names: tokens that an expert has, pages and neighbours, embeddings that a product follows. And those whose rows are
// computed, where no walk of TMA goes through them (specialize/im2col.c): windows of a picture that is made larger, x[(p + r) / 2, ..], of one that is
// mirrored at its edges, patches whose rows lie side by side, x[p, q * 2 C + c].
//
//     acc += dot(x[rows[m], k], w[k, n])
//
//     producer, four warps                                              consumers
//     r = rows[m]                         once a tile                   for k { wait full;  fence
//     for k { wait empty                                                        acc = wgmma x, w, acc;  release }
//             expect w;  tma_load w       one thread
//             copy_async x[r, k]          16 bytes a lane
//             copy_arrive full }          when they are there
//
// TMA brings boxes, and rows that lie anywhere are none; 128 threads bring them by cp.async instead, into the swizzle that wgmma reads, and each
// tells the stage's mbarrier when its own have come. Dead rows and rows out of range write zeros, and so does what lies behind the contracted axis's end.
// Eight lanes take the 128 bytes of a row, so a row's number is computed by eight lanes of the producer, which has all that leads to it: loads from
// tensors that nobody writes, and arithmetic. It stays in registers where the loop does not change it, and is loaded a trip ahead
// where it does.
//
// The copies are writes of the generic proxy, so the consumers stand behind a fence before they multiply. The producer has the registers of a thread that
// keeps many addresses (llvm/tma_mbarrier.c). Not in clusters, whose blocks load for each other, nor with a second producer.
#include "lower/specialize/specialize.h"

#include <string.h>

enum { DEPTH = 64, PIECE = 16, MOST_ROWS = 256 };

static bool of_trips(const Ws *h, const Op *d) {
    return d->parent == h->loop->reg[0] || d->parent == h->loop->parent || (h->nest && d->parent == h->nest->parent);
}

// Can the producer compute it too: numbers of rows along one axis, from loads and arithmetic?
static bool follows_rows(const Ws *h, const Val *v, const Val *axis, int depth) {
    const Op *d = v->def;
    if (v->type.kind != TY_TILE) return v->type.kind == TY_TENSOR || v->type.kind == TY_AXIS;
    if (v->type.rank == 0) return ws_computable(h, v);
    if (!d || depth > DEPTH || !of_trips(h, d) || v->type.rank != 1 || v->type.axis[0] != axis) return false;
    switch (d->code) {
    case OP_T_load:
        if (h->f->launch->params[d->in[0]->def->imm].mode != PM_IN) return false;
        break;
    case OP_T_index: case OP_T_live: break;
    default: if (!op_is_elementwise(d)) return false;
    }
    for (int i = 0; i < d->nin; i++) if (!follows_rows(h, d->in[i], axis, depth + 1)) return false;
    return true;
}

static bool reads(const Val *v, int depth) {
    const Op *d = v->def;
    if (!d || v->type.kind != TY_TILE || v->type.rank == 0 || depth > DEPTH) return false;
    bool any = d->code == OP_T_load;
    for (int i = 0; i < d->nin && !any; i++) any = reads(d->in[i], depth + 1);
    return any;
}

bool ws_gathered(const Operand *o) {
    bool any = false;
    for (int d = 0; d < o->a.nidx; d++) any |= o->a.aff[d].ntile && reads(o->a.idx[d], 0);
    return any;
}

const char *ws_gather(Ws *h, Operand *o, const Val *k) {
    const Access *a = &o->a;
    const Affine *inner = &a->aff[a->inner];
    Access copy;
    int64_t size = elem_bytes(a->elem);
    if (o->where != RING) return "an operand is gathered";
    if (a->inner + 1 < a->nidx || inner->naxis != 1 || inner->axis[0].k != 1 || inner->axis[0].scale) return "an operand is gathered by its columns";
    o->inner = inner->axis[0].axis;
    if (!ws_computable(h, axis_lo(o->inner)) || !ws_computable(h, axis_hi(o->inner))) return "an operand's address depends on loaded values";
    for (int t = 0; t < inner->nterm; t++) if (!ws_computable(h, inner->term[t].v)) return "an operand's address depends on loaded values";
    for (int d = 0; d < a->inner; d++) {
        const Val *idx = a->idx[d];
        Val *axis = idx->type.rank ? idx->type.axis[0] : NULL;
        if (idx->type.rank > 1 || (axis && o->outer && o->outer != axis)) return "an operand is gathered by more than its rows";
        if (axis) o->outer = axis;
        if (!follows_rows(h, idx, axis, 0)) return "the rows of a gathered operand are more than loads and arithmetic";
    }
    if (!o->outer || o->inner == o->outer) return "an operand's innermost dimension has no axis";
    for (int t = 0; t < inner->ntile; t++)                  // where in a row it begins
        if (inner->tile[t].v->type.rank != 1 || inner->tile[t].v->type.axis[0] != o->outer || !follows_rows(h, inner->tile[t].v, o->outer, 0)) return "an operand is gathered by its columns";
    if (!ws_computable(h, axis_lo(o->outer)) || !ws_computable(h, axis_hi(o->outer))) return "an operand's address depends on loaded values";
    int64_t row = axis_extent(o->inner) * size, rows = axis_extent(o->outer);
    if (size != 2 && o->inner != k) return "only 16-bit operands may have the contracted axis outside";
    if (rows % 8 || rows > MOST_ROWS) return "the rows of a gathered operand are not 8 to 256";
    for (o->swizzle = SPAN; row % o->swizzle;) if ((o->swizzle /= 2) < 32) return "a gathered operand's innermost extent is no multiple of 16";
    access_of(h->facts, o->load, &copy);
    if (copy.contiguous < 0 || copy.type.axis[copy.contiguous] != o->inner || copy.vec * size < PIECE)
        return "the rows of a gathered operand do not come 16 bytes at a time";
    o->gathered = true;
    o->columns = axis_extent(o->inner);
    o->bytes = (uint32_t)(row * rows);
    return NULL;
}

uint32_t ws_gathered_bytes(const Ws *h, int ring) {
    uint32_t bytes = 0;
    for (int i = 0; i < 2 * h->np; i++) {
        const Operand *o = &h->p[i / 2].op[i % 2];
        if (o->gathered && !o->same && (ring < 0 || ws_ring(h, &h->p[i / 2]) == ring)) bytes += o->bytes;
    }
    return bytes;
}

// ---- the producer's part -------------------------------------------------------------------------

// What v is made of and stands in the region, made again.
static void bring(Ws *h, Builder *b, ValMap *m, Val *v, const Region *r) {
    Op *d = v->def;
    if (!d || map_get(m, v) != v) return;
    for (int i = 0; i < d->nin; i++) bring(h, b, m, d->in[i], r);
    for (int i = 0; v->type.kind == TY_TILE && i < v->type.rank; i++) bring(h, b, m, v->type.axis[i], r);
    if (d->parent == r && !(r == &h->f->body && ws_of_both(h, d))) b_insert(b, op_clone(h->f, d, m));
}

void ws_gather_rows(Ws *h, Builder *b, ValMap *m, const Region *r) {
    for (int i = 0; i < 2 * h->np; i++) {
        const Operand *o = &h->p[i / 2].op[i % 2];
        for (int d = 0; o->gathered && !o->same && d < o->a.nidx; d++) bring(h, b, m, o->a.idx[d], r);
    }
}

// ---- rows that a trip names: their numbers are loaded a trip ahead ---------------------------------
//
//     r = at[k of the first trip]                      on an axis that outlives the trips
//     for k { now = r;  r = at[k of the next];  wait empty;  copy_async v[now, n] .. }

static bool listed(const RowsAhead *a, const Val *idx) {
    for (int i = 0; i < a->n; i++) if (a->idx[i] == idx) return true;
    return false;
}

static Val *renamed(Builder *b, Val *v, Val *from, Val *to) {
    return b_op(b, OP_T_rename, 0, type_tile((Elem)v->type.elem, 1, &to), 3, (Val *[]){v, from, to});
}

// The index of the trip that begins at `counter`, on the lasting axis.
static Val *of_trip(Ws *h, Builder *b, const RowsAhead *a, int i, Val *counter) {
    ValMap m = {.arena = h->f->arena, .n = a->before.n};
    if (m.n) memcpy(m.at = NEW_N(m.arena, Val *, m.n), a->before.at, sizeof *m.at * m.n);
    map_set(&m, h->loop->reg[0]->args.at[0], counter);
    bring(h, b, &m, a->idx[i], h->loop->reg[0]);
    Val *v = map_get(&m, a->idx[i]);
    return renamed(b, v, v->type.axis[0], a->lasting[i]);
}

void ws_gather_ahead(Ws *h, Builder *b, const ValMap *m, RowsAhead *a, Val **first) {
    *a = (RowsAhead){.before = {.arena = h->f->arena, .n = m->n}};
    if (m->n) memcpy(a->before.at = NEW_N(h->f->arena, Val *, m->n), m->at, sizeof *m->at * m->n);
    for (int i = 0; i < 2 * h->np; i++) {
        const Operand *o = &h->p[i / 2].op[i % 2];
        for (int d = 0; o->gathered && !o->same && d < o->a.nidx; d++) {
            Val *idx = o->a.idx[d];
            if (idx->type.rank != 1 || !idx->def || idx->def->parent != h->loop->reg[0] || !reads(idx, 0) || listed(a, idx)) continue;
            int64_t extent = axis_extent(idx->type.axis[0]);
            Val *axis = b_op(b, OP_T_axis, 0, (Type){.kind = TY_AXIS, .shape = {extent}}, 2,
                             (Val *[]){b_const(b, EL_index, 0), b_const(b, EL_index, extent)});
            axis->def->imm = extent;
            axis->def->flags |= AXIS_FULL;
            a->idx[a->n] = idx;
            a->lasting[a->n] = axis;
            first[a->n] = of_trip(h, b, a, a->n, map_get(m, h->loop->in[0]));
            a->n++;
        }
    }
}

void ws_gather_now(Ws *h, Builder *b, ValMap *m, const RowsAhead *a, Val *const *now, Val *counter, Val **next) {
    for (int i = 0; i < a->n; i++) {
        Val *axis = a->idx[i]->type.axis[0];
        bring(h, b, m, axis, h->loop->reg[0]);
        map_set(m, a->idx[i], renamed(b, now[i], a->lasting[i], map_get(m, axis)));
        next[i] = of_trip(h, b, a, i, b_binary(b, OP_add, counter, map_get(m, h->loop->in[2])));
    }
}

void ws_gather_fill(Ws *h, Builder *b, const Operand *o, Val *stage, ValMap *m) {
    Val *in[3 + MAX_RANK] = {o->buffer, stage, o->load->in[0]};
    for (int d = 0; d < o->a.nidx; d++) {
        bring(h, b, m, o->a.idx[d], h->loop->reg[0]);
        in[3 + d] = map_get(m, o->a.idx[d]);
    }
    Op *copy = ws_effect(b, OP_T_copy_async, 3 + o->a.nidx, in);
    copy->nidx = (uint8_t)o->a.nidx;
    copy->span = o->load->span;
}
