// What a kernel of products has to do, read off its tile IR as it is built: nothing here is a time, but for what one thread does behind the loop.
//
//     which loop        the one with products, which may stand in another loop (specialize/outer_loop.c), or where data says that there is something to do
//     a trip            multiplications, clocks of wgmma if it is by it, bytes of both operands and how they come (operand_cost.c)
//     a tile            elements, bytes that the loop carries, operations on an element behind the loop
//     a launch          programs, trips, bytes of all tensors
//     what is possible  parts, walking, groups that make tiles of their own, keeping the right operand
//
// wgmma reads its operands from shared memory as it goes, 128 bytes a clock: 64 rows by n columns take max(n / 2, 18 + n / 4) clocks for 16 of k.
#include "lower/cost/work.h"
#include "lower/pass/passes.h"

static const double ODD_COLUMNS[] = {1, 1.27, 1.09, 1.11};          // wgmma's, where memory has them in rows and the last 64 are so many 16s
static const double TURNED = 2e3, TURNED_FREE = 8192;               // elements of a turned product beyond so many, a us: nothing is loaded behind them
static const double TURNED_MADE = 8e3;                              // .. where an operand is made in registers: TURNED is of tiles that nobody computes for
static const double AHEAD = 1000;                                   // clocks that a ring must last for TMA to bring a tile behind the loop (specialize/epilogue_load.c)
static const double ALONE = 1.02;                                   // one warp group: nobody multiplies while it waits
static const double OP_US = 0.62e-3, FUN_OPS = 4, STORE_OPS = 4;    // an op of an element after the loop
static const double STORED_BETWEEN = 2;                             // operations of an element that is stored between inner loops
static const double SHARED = 128;                                   // bytes of shared memory a clock
static const double TURN = 330, TURN_HIDDEN = 0.82;                 // clocks of a trip in which both groups turn bytes and nobody multiplies; less for each that a group's products take
static const double TURN_WHOLE = 318, TURN_BEGUN = 1.2;             // .. of bytes that are turned before all products of a trip; less for each column: the second group begins an instruction later
static const double TURN_ALONE = 50, TURN_COLUMNS = 1.5;            // where one group does
enum { DEEP = 12, ROWS_TOGETHER = 16, KEPT_STAGES = 2 };            // ops that an index is looked for behind; rows of tiles that are walked together; stages beside what is kept
enum { PAIR_ROWS = 128, PAIR_COLUMNS = 224 };                      // tiles that gain by pairs of blocks: 64 x 192 lose a tenth, 128 x 256 half a percent
enum { ACC_REGS = 160, ACC_ALL = 176, GATHER_REGS = 32, PROMOTED_REGS = 192, LEFT_REGS = 32 };      // a thread's: sums of one product, of all; addresses of rows that data names; a left operand that is turned in them
enum { GROUP_REGS = 192, GROUP_REGS_BUSY = 176, GROUP_REGS_TWO = 128, GROUP_COLUMNS = 128, GROUP_LEAST = 64 * 192, GROUP_STAGES = 4 };     // tiles of a group's own
// .. and smaller ones in a graph, where what is behind the last tiles holds up the next launch: two for each multiprocessor, or with so much to compute, us.
static const double BUSY = 0.5;
enum { SMALL_COLUMNS = 64, SMALL_LEAST = 64 * 128, TWO_LEAST = 64 * 144 };
enum { THREE = 192, BAND_REGS = 96, BAND_COLUMNS = 144 };           // rows that three groups share (specialize/consumer_groups.c); columns, where what follows takes registers

bool number_of(Facts *s, const Val *v, const int64_t *dims, int64_t *out) {
    LExpr e;
    return host_expr(s, v, &e) && launch_by_dims(e, dims, out);
}

bool number_at_most(Facts *s, const Val *v, const int64_t *dims, bool any, int64_t *out) {
    const Op *d = v->def;
    if (number_of(s, v, dims, out)) return true;
    if (!d || d->code != OP_T_fun || d->sub != TF_min || (!any && !operand_loaded(v))) return false;
    return number_at_most(s, d->in[0], dims, any, out) || number_at_most(s, d->in[1], dims, any, out);
}

static bool rows_fit(int64_t m) { return m == 64 || (m > 0 && m % 128 == 0); }

static double rate_of(const Target *t, Elem e, int prec) {
    double peak = t->tflops_bf16 * 1e6 / t->sms;
    int bytes = elem_bytes(e);
    if (elem_is_float(e) && bytes == 4) peak = prec == DP_ieee ? t->tflops_f32 * 1e6 / t->sms : prec == DP_tf32 ? peak / 2 : peak / 6;
    if (elem_is_float(e) && bytes == 8) peak = t->tflops_f32 * 1e6 / t->sms / 2;
    return bytes == 1 ? peak * 2 : peak;
}

// Rows of an axis's tiles that lie past its end, of a tile in the mean.
static double past_end(const Val *axis, int64_t end) {
    int64_t n = axis_extent(axis), tiles = (end + n - 1) / n;
    return end > 0 ? (double)(tiles * n - end) / (double)tiles : 0;
}

static bool follows(const Val *v, const Val *counter, int depth) {
    bool any = v == counter;
    for (int i = 0; v->def && !any && depth && i < v->def->nin; i++) any = follows(v->def->in[i], counter, depth - 1);
    return any;
}

// The tile that a product makes, and what it sums over.
typedef struct Tile {
    int64_t m, n, k, batch;
    double  past;                   // rows and columns past the tensor's end
    bool    below;                  // there is a program below this one
} Tile;

static Tile tile_of(Work *w, Facts *s, const int64_t *dims, const Op *dot) {
    Tile t = {1, 1, 1, 1, 0, false};
    const Type *o = &dot->out[0]->type;
    double rows_together = 0, others = 0;                                           // columns of tiles but one
    for (int i = op_first_axis(dot); i < dot->nin; i++) t.k *= axis_extent(dot->in[i]);
    for (int i = 0; i < o->rank; i++) {
        bool in_a = type_axis(&dot->in[0]->type, o->axis[i]) >= 0, in_b = type_axis(&dot->in[1]->type, o->axis[i]) >= 0;
        int64_t end, extent = axis_extent(o->axis[i]);
        *(in_a && in_b ? &t.batch : in_a ? &t.m : &t.n) *= extent;
        if (in_a == in_b || !number_of(s, axis_hi(o->axis[i]), dims, &end)) continue;
        t.past += past_end(o->axis[i], end);
        *(in_b ? &w->across : &w->down) = (end + extent - 1) / extent;
        if (in_b) { others = fmax(0, (double)end / (double)extent - 1); continue; }
        t.below |= end > extent;
        rows_together = fmin((double)end, ROWS_TOGETHER * (double)extent);
    }
    w->outside = t.past / (double)(t.m + t.n);
    w->tile = (double)t.m * (double)t.n;
    w->tile_rows = (double)t.m;
    w->group += others > 0 ? rows_together : 0;
    w->group_row += (double)t.k * elem_bytes((Elem)dot->in[0]->type.elem);
    w->flops += 2.0 * (double)t.m * (double)t.n * (double)t.k * (double)t.batch;
    return t;
}

// What a trip reads of each side, and what all trips of a loop around it read again.
static void reads(Work *w, Facts *s, const int64_t *dims, const Op *dot, double read[2]) {
    for (int i = 0; i < 2; i++) {
        const Val *v = dot->in[i];
        double bytes = operand_bytes(s, v, dot->parent);
        if (operand_by_data(s, v)) operand_picks(w, s, dims, v, bytes);
        else if (operand_by_places(s, v)) w->gathered += bytes;
        if (w->nest && v->def && v->def->code == OP_T_load && !follows(v, w->nest->reg[0]->args.at[0], DEEP)) w->again += bytes;
        read[i] = operand_brought(v, dot->parent) ? bytes : 0;
        *(i ? &w->right : &w->left) = operand_plain(s, v) ? read[i] : 0;
    }
    w->bytes += read[0] + read[1];
}

// Both operands on their way through L2. False: one of them does not come as wgmma wants it.
static bool draws(Work *w, const Target *t, Facts *s, const int64_t *dims, const Op *dot, const Tile *x, const double read[2]) {
    int first = op_first_axis(dot), bytes = elem_bytes((Elem)dot->in[0]->type.elem);
    bool fit = true;
    for (int i = 0; i < 2; i++) {
        double times = 1, elements = (double)(i ? x->n : x->m) * (double)x->k * (double)x->batch;
        Way way = dot->nin == first + 1 ? operand_way(s, dot->in[i], dot->in[first], dims, &times) : BY_TMA;
        double drawn = read[i] * (way == BY_TMA ? times : 1);
        w->drawn += drawn;
        if (i && x->below && way == BY_TMA && times >= CROSSED) w->common += drawn;
        if (!t->has_wgmma || way == BY_TMA) continue;
        fit = false;
        w->narrow |= bytes == 2;
        if (way == ONE_BY_ONE) w->elements += elements;
        if (way == BY_PIECES) w->pieces += elements * bytes / times;
    }
    return fit;
}

// How wgmma would make it: its rows and columns, those of the transposed product where the tile's own do not do.
typedef struct Shape {
    int64_t rows, cols;
    int     groups;
    bool    turned, three, possible;
    bool    thrice, by_threads;     // f32 as three of tf32; threads read the left operand (specialize/tf32x3.c)
    bool    rowed;                  // other warps make rows of k of the right one
    bool    columns[2];             // of f32 and bytes: an operand lies with k outside
    bool    wrong;                  // for wgmma, as other tiles are not
} Shape;

static bool is_thrice(const Op *dot) { return dot->in[0]->type.elem == EL_f32 && dot->sub != DP_tf32 && dot->sub != DP_ieee; }

static Shape shape_of(const Target *t, Facts *s, const Op *dot, const Tile *x, bool several) {
    Elem e = (Elem)dot->in[0]->type.elem;
    int bytes = elem_bytes(e);
    bool loaded[] = {!operand_made(dot->in[0], dot->parent), !operand_made(dot->in[1], dot->parent)}, f8 = elem_is_float(e) && bytes == 1;
    bool type = bytes == 1 || e == EL_bf16 || e == EL_f16 || (e == EL_f32 && dot->sub != DP_ieee);
    bool columns[2] = {false}, f32 = e == EL_f32, alone = dot->nin == op_first_axis(dot) + 1;
    for (int i = 0; i < 2; i++) columns[i] = alone && (f32 || bytes == 1) && operand_by_columns(s, dot->in[i], dot->in[op_first_axis(dot)]);      // of these what has k outside is on the left
    int64_t unit = f8 || x->m <= 32 ? 8 : 16;
    int64_t across_regs = x->n / (x->n % 128 ? 64 : 128) * x->m / 2;
    bool bytes_across = bytes == 1 && columns[1] && !columns[0] && rows_fit(x->n) && x->m % unit == 0 && x->m <= 256 && (f8 ? 2 * across_regs <= PROMOTED_REGS : across_regs <= ACC_ALL);
    Shape p = {.three = x->m == THREE && !(bytes == 1 && columns[1]) && x->n / 2 * (f8 ? 2 : 1) <= BAND_REGS, .thrice = is_thrice(dot)};
    bool for_two = p.thrice && x->m == 64 && x->n > 64 && rows_fit(x->n) && !columns[0];                // 64 rows are one group, which reads and multiplies in turns
    p.turned = (f32 && columns[1]) || bytes_across || for_two || !((p.three || rows_fit(x->m)) && (loaded[1] || !loaded[0] || !rows_fit(x->n)));
    p.by_threads = p.thrice || (bytes == 1 ? columns[p.turned] : columns[0] || columns[1]);
    p.rowed = bytes == 1 && columns[!p.turned];
    p.wrong = t->has_wgmma && bytes == 1 && x->m == THREE && columns[0] && columns[1];            // f8 by 192 x 128: 221 us, by 128 x 192 154
    p.wrong |= t->has_wgmma && f32 && columns[1] && !columns[0] && x->n > 64 && !rows_fit(x->n);
    p.rows = p.turned ? x->n : x->m;
    p.cols = p.turned ? x->m : x->n;
    p.groups = p.three ? 3 : p.rows >= 128 ? 2 : 1;
    bool shared = loaded[!p.turned];                                              // on the right wgmma reads shared memory alone
    p.possible = t->has_wgmma && type && x->batch == 1 && (p.three || rows_fit(p.rows)) && shared && p.cols % 8 == 0 && p.cols <= 256 && x->k * bytes % 32 == 0;
    for (int i = 0; i < 2; i++) p.columns[i] = columns[i];
    p.possible &= !several || (!p.rowed && (p.thrice || !p.by_threads));
    p.possible &= bytes == 1 ? !p.rowed || (p.cols % 16 == 0 && x->k <= 256) : !p.by_threads || (p.rows >= 128 && !columns[!p.turned]);
    return p;
}

// .. by wgmma. False: sums that there are no registers for.
static bool multiplied(Work *w, Facts *s, const Op *dot, const Shape *p, const Tile *x, const double read[2]) {
    Elem e = (Elem)dot->in[0]->type.elem;
    int first = op_first_axis(dot), bytes = elem_bytes(e);
    bool f8 = elem_is_float(e) && bytes == 1;
    int64_t regs = p->rows / 64 / p->groups * p->cols / 2;
    if (f8 ? 2 * regs > PROMOTED_REGS : regs > ACC_REGS) return false;
    if (p->thrice && x->k * bytes > 128) return false;
    if (p->thrice || p->rowed) w->low += (double)p->cols * (double)x->k * bytes;
    if (p->by_threads && bytes == 1 && p->rows / 64 / p->groups * x->k / 8 > LEFT_REGS) return false;
    bool across = p->turned && p->by_threads && p->cols % 64 == 0;                // leaves by TMA all the same
    double each = fmax(p->cols / 2.0, 18 + p->cols / 4.0);
    w->pairs = w->clocks <= 0 && !w->several && bytes == 2 && x->below && p->rows == PAIR_ROWS && p->cols >= PAIR_ROWS && p->cols <= PAIR_COLUMNS && !p->turned && !p->by_threads && read[0] > 0 && read[1] > 0;
    w->promoted |= f8;
    w->turned |= p->cols != x->n;
    if (p->cols % 64 && bytes > 1 && dot->nin == first + 1 && operand_by_columns(s, dot->in[!p->turned], dot->in[first])) each *= ODD_COLUMNS[(p->cols % 64 + 15) / 16 % 4];
    w->group_regs = p->rows / 64 * p->cols / 2;
    w->regs += regs;
    w->three |= p->three;
    w->columns = p->cols;
    if (operand_made(dot->in[p->turned], dot->parent) && read[p->turned] > 0) w->made += (double)p->rows * (double)x->k;
    w->pingpong = !f8 && !p->turned && !p->three && !p->by_threads && !p->rowed;
    if (p->turned && !across && w->tile > TURNED_FREE) w->turned_end = (w->tile - TURNED_FREE) / (w->made > 0 ? TURNED_MADE : TURNED);
    w->alone |= (p->cols != x->n && !across) || p->cols < 64;
    w->clocks += (double)(p->rows / 64) * (double)(x->k * bytes / 32) * each * (p->groups > 1 ? 1 : ALONE) * (p->thrice ? 3 : 1);
    if (p->rowed) {                                               // read and written once more, beside what TMA writes and wgmma and threads read
        double all = (double)(p->rows / 64 * p->cols + 2 * p->rows + 3 * p->cols) * (double)x->k;
        w->clocks = fmax(w->clocks, all / SHARED);
        w->rowed += (double)p->cols * (double)x->k;
    }
    double products = (double)(p->rows / 64 / p->groups) * (double)(x->k * bytes / 32) * each, columns = (double)p->cols;
    if (p->by_threads && bytes == 1) w->clocks += p->groups < 2 ? TURN_ALONE + TURN_COLUMNS * columns : fmax(0, p->rowed ? TURN_WHOLE - TURN_BEGUN * columns : TURN - TURN_HIDDEN * products);
    return true;
}

// One product of a trip. False: the tile is not for this target.
static bool product(Work *w, const Target *t, Facts *s, const int64_t *dims, const Op *dot) {
    double read[2];
    const Tile x = tile_of(w, s, dims, dot);
    const Shape p = shape_of(t, s, dot, &x, w->several);
    if (p.wrong) return false;
    reads(w, s, dims, dot, read);
    w->rate = rate_of(t, (Elem)dot->in[0]->type.elem, dot->sub);
    bool wgmma = draws(w, t, s, dims, dot, &x, read) && p.possible;
    w->sync |= !wgmma;
    w->f32 |= dot->in[0]->type.elem == EL_f32 && dot->sub != DP_ieee;
    w->threads = wgmma ? 128 * p.groups : 128;
    for (int i = 0; i < 2 && !wgmma; i++) w->computes |= read[i] > 0 && operand_made(dot->in[i], dot->parent);
    for (int i = 0; i < 2 && !wgmma; i++) if (p.columns[i] && elem_bytes((Elem)dot->in[0]->type.elem) == 1) w->turned_bytes += (double)((i ? x.n : x.m) * x.k * x.batch);
    return wgmma ? multiplied(w, s, dot, &p, &x, read) : x.m * x.n <= 128 * 256 && (t->has_wgmma || x.m != THREE);
}

static bool multiplies(const Op *loop) {
    for (const Op *in = loop->reg[0]->first; in; in = in->next) if (in->code == OP_T_dot) return true;
    return false;
}

// .. in a loop around it, or where data says that there is something to do (specialize/outer_loop.c, pass/sink_guard.c).
static const Op *loop_inside(const Region *r, const Op **nest, bool *guarded) {
    const Op *found = NULL;
    for (const Op *op = r->first; op; op = op->next) {
        bool inside = op->code == OP_T_dot;
        for (int i = 0; i < op->nreg; i++) inside |= has_products(op->reg[i]);
        if (!inside) continue;
        if (found) return NULL;
        found = op;
    }
    if (!found || (found->code != OP_T_for && found->code != OP_T_if)) return NULL;
    if (found->code == OP_T_for && multiplies(found)) return found;
    if (found->code == OP_T_for) {
        if (*nest) return NULL;
        *nest = found;
        return loop_inside(found->reg[0], nest, guarded);
    }
    if (*nest || (has_products(found->reg[0]) && has_products(found->reg[1]))) return NULL;
    *guarded = true;
    return loop_inside(found->reg[has_products(found->reg[1])], nest, guarded);
}

static const Op *first_product(const Op *loop) {
    const Op *op = loop->reg[0]->first;
    while (op && op->code != OP_T_dot) op = op->next;
    return op;
}

// Does this loop of products go on in that one's ring (specialize/loop_sequence.c)? Of one tile, and nothing between is made of what it has come to.
static bool together(const Op *loop, const Op *last) {
    const Op *a = first_product(loop), *b = first_product(last);
    if (!a || !b || !type_equal(&a->out[0]->type, &b->out[0]->type)) return false;
    for (const Op *op = loop->next; op != last; op = op->next)
        for (int i = 0; i < op->nin; i++) if (op->in[i]->def == loop && op->code != OP_T_for) return false;
    return true;
}

// The loop whose trips have the products, the last one of several; of a nest, what it will be made into.
static const Op *loop_of(Fn *f, const Op **nest, bool *guarded, bool *several) {
    for (int nested = 0; nested < 2; nested++) {
        const Op *loop = NULL;
        bool nests = false;
        for (const Op *op = f->body.first; op; op = op->next) {
            if (op->code != OP_T_for || !has_products(op->reg[0])) continue;
            if (multiplies(op)) loop = op;
            else nests = true;
        }
        *several = false;
        for (const Op *op = f->body.first; loop && op != loop; op = op->next) *several |= op->code == OP_T_for && multiplies(op) && together(op, loop);
        if (loop && (!nests || nested)) return loop;
        simplify(f);
        hoist(f);
        if (!flatten(f)) break;
        simplify(f);
    }
    return loop_inside(&f->body, nest, guarded);
}

// A tile as large as the result's, not a few numbers for each of its rows.
static bool large(const Work *w, const Type *t) { return t->kind == TY_TILE && t->rank > 1 && 4 * (double)type_lanes(t) > w->tile; }

// A thread's elements of a tile, one after another: a warp or two a scheduler do not hide what an op waits for. Scaling, adding and
// narrowing are part of storing.
static double end_of(const Work *w, const Op *loop, int threads) {
    double ops = 0, lanes = 0;
    for (const Op *op = loop->next; op; op = op->next) {
        if (op->nout != 1 || !large(w, &op->out[0]->type) || !op_has(op, 'P')) continue;
        ops += op->code == OP_T_fun ? FUN_OPS : 1;
        lanes = (double)type_lanes(&op->out[0]->type);
    }
    return threads && ops > STORE_OPS ? (ops - STORE_OPS) * lanes / threads * OP_US : 0;
}

// Tiles that are loaded or stored after the loop.
static int tiles_after(const Work *w, const Op *loop) {
    int n = 0;
    for (const Op *op = loop; op; op = op->next)
        n += (op->code == OP_T_load && large(w, &op->out[0]->type)) || (op->code == OP_T_store && large(w, &op_value(op)->type));
    return n;
}

// A tile that what follows the loop reads: its bytes, where TMA brings it beside a ring that is long enough; else the time that the consumers take.
static void read_behind(Work *w, const Target *t, const Op *loop) {
    for (const Op *op = loop->next; op && w->clocks && !w->three; op = op->next) {
        if (op->code != OP_T_load || !large(w, &op->out[0]->type)) continue;
        const Type *x = &op->out[0]->type;
        double bytes = (double)type_lanes(x) * elem_bytes((Elem)x->elem), stages = (double)(int64_t)((t->smem_block - SLOTS_BYTES - bytes) / (w->bytes + w->low));
        bool whole = !w->turned && !w->behind && bytes / w->tile_rows == (double)((int64_t)(bytes / w->tile_rows / 128) * 128);
        if (whole && (stages - 2) * w->clocks >= AHEAD) w->behind = bytes;
        else w->end += w->tile / LOADED;
    }
}

// One group has room for what follows its loop: arithmetic, and a second tile that is loaded or stored, take registers beside the sums; the
// addresses of rows at their own alignment too, so that there is room for narrowing alone.
static bool end_fits(const Work *w, const Op *loop) {
    int tiles = 0;
    for (const Op *op = loop->next; op; op = op->next) {
        if (w->rows && op->nout == 1 && large(w, &op->out[0]->type)) tiles += op->code == OP_T_cast ? 0 : 1;
        if (w->rows && op->code == OP_T_store && elem_bytes((Elem)op_value(op)->type.elem) > 2) tiles++;
        tiles += op->code == OP_T_load && large(w, &op->out[0]->type);
        tiles += op->code == OP_T_store && large(w, &op_value(op)->type);
    }
    return w->group_regs <= (tiles > 1 ? GROUP_REGS_TWO : w->end > 0 ? GROUP_REGS_BUSY : GROUP_REGS);
}

// The loop around it: how many trips it has, and, of an operand that all of them read again, the bytes.
static bool outer_trips(Work *w, Facts *s, const int64_t *dims, const Op *nest) {
    int64_t lo, hi, step;
    if (!number_of(s, nest->in[0], dims, &lo) || !number_at_most(s, nest->in[1], dims, true, &hi) || !number_of(s, nest->in[2], dims, &step) || step < 1) return false;
    w->nest = nest;
    w->outer = hi > lo ? (hi - lo + step - 1) / step : 0;
    return true;
}

// Of a thread's elements, between one outer trip's products and the next one's: operations of each.
static double ops_between(const Work *w) {
    double ops = 0;
    for (const Op *op = w->nest->reg[0]->first; op; op = op->next) {
        const Type *t = op->code == OP_T_reduce ? &op->in[0]->type : op->nout ? &op->out[0]->type : NULL;
        if (op->code == OP_T_store && op_value(op)->type.rank > 1) ops += STORED_BETWEEN;
        if (op->nout < 1 || !t || t->kind != TY_TILE || t->rank < 2 || !op_has(op, 'P')) continue;
        ops += op->code == OP_T_fun && op->sub != TF_fma && op->sub != TF_min && op->sub != TF_max ? FUN_OPS : op->code == OP_T_reduce && op->nout > 1 ? 3 : 1;
    }
    return ops;
}

// Programs that data leaves nothing to do, as a grid has them that is as large as may be wanted: each element of a result is made once, but the last rows of
// each share of it, of which there are as many as the grid has times more tiles than the result.
static void some_idle(Work *w, const Fn *f, const int64_t *dims) {
    double rows = 0, columns = 0;
    int64_t d;
    for (int p = 0; p < f->launch->nparams; p++) {
        const LaunchParam *x = &f->launch->params[p];
        if (x->kind != PK_TENSOR || x->mode == PM_IN || x->rank < 2) continue;
        double all = 1, last = 1;
        for (int i = 0; i < x->rank; i++) if (launch_by_dims(x->dim[i], dims, &d)) { all *= (double)d; last = (double)d; }
        if (all <= rows * columns) continue;
        columns = last;
        rows = all / last;
    }
    double across = ceil(columns / (w->tile / w->tile_rows)), down = ceil(rows / w->tile_rows), shares = across * down > 0 ? (double)w->programs / (across * down) : 1;
    double busy = fmin((double)w->programs, (down + shares / 2) * across);
    if (shares <= 1) return;
    w->idle = (double)w->programs - busy;
    w->programs = (int64_t)busy;
}

// Elements of a tensor that a loop's end takes at places that data decide, from all that is there.
static double picked_behind(const Work *w, const Fn *f, int p) {
    double all = 0;
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) {
        bool by_data = false, own = op->nin > 0 && op->in[0]->type.kind == TY_TENSOR && op->in[0]->def->imm == p;
        for (int i = 1; own && op->code == OP_T_load && i <= op->nidx; i++) by_data |= operand_loaded(op->in[i]);
        if (own && (!by_data || op->parent != w->loop->parent)) return INFINITY;
        if (own) all += (double)w->programs * (double)type_lanes(&op->out[0]->type);
    }
    return all;
}

// All tensors' bytes, and how results leave. *odd: some have elements of other than 2 or 4 bytes. False: a dimension is not known.
static bool tensors(Work *w, const Fn *f, const int64_t *dims, bool *odd) {
    for (int p = 0; p < f->launch->nparams; p++) {
        const LaunchParam *x = &f->launch->params[p];
        double  n = 1;
        int64_t d = 1;
        if (x->kind != PK_TENSOR) continue;
        for (int i = 0; i < x->rank; i++) { if (!launch_by_dims(x->dim[i], dims, &d)) return false; n *= (double)d; }
        int bytes = elem_bytes(x->elem);
        w->scattered |= x->mode != PM_IN && d % 16 * bytes % 16;
        *odd |= x->mode != PM_IN && bytes != 2 && bytes != 4;
        n = fmin(n, picked_behind(w, f, p)) * bytes;
        w->unique += w->table && w->table->def->imm == p && w->picked < n ? w->picked : n;
    }
    return true;
}

// Ways to launch it that there are.
static void ways(Work *w, const Target *t, Fn *f, bool simple, bool numbered, int products) {
    const double room = t->smem_block - SLOTS_BYTES;
    bool large = w->columns >= GROUP_COLUMNS && w->tile >= GROUP_LEAST, two = w->tile >= TWO_LEAST && w->programs <= 2 * (int64_t)t->sms;
    bool small = w->in_graph && w->columns >= SMALL_COLUMNS && (two || (w->tile >= SMALL_LEAST && w->end > BUSY));
    bool turns = w->pingpong && (large || small) && products == 1 && end_fits(w, w->loop);
    w->keeps = turns && large && simple && w->trips == 1 && w->left > 0 && w->right > 0 && w->made <= 0 && w->right + KEPT_STAGES * w->left <= room;
    w->pingpong = turns && (simple || w->several) && numbered && GROUP_STAGES * (w->bytes + w->low) <= room - w->behind;
    w->splits = !w->three && simple && split_refusal(f) == NULL;
}

static bool products_of(Work *w, const Target *t, Facts *s, const int64_t *dims, int *products) {
    *products = 0;
    for (const Op *op = w->loop->reg[0]->first; op; op = op->next) {
        if (op->code == OP_T_dot && !product(w, t, s, dims, op)) return false;
        *products += op->code == OP_T_dot;
    }
    return true;
}

// Loops before the last one: as many trips more, and what a trip is in the mean.
static bool earlier_loops(Work *w, const Target *t, Facts *s, const int64_t *dims, const Fn *f) {
    for (const Op *op = f->body.first; op != w->loop; op = op->next) {
        Work o = {.loop = op, .wide = w->wide, .several = true, .outer = 1, .in_graph = w->in_graph};
        int64_t lo, hi, step;
        int products;
        if (op->code != OP_T_for || !multiplies(op) || !together(op, w->loop)) continue;
        if (!number_of(s, op->in[0], dims, &lo) || !number_of(s, op->in[1], dims, &hi) || !number_of(s, op->in[2], dims, &step) || step < 1) return false;
        if (!products_of(&o, t, s, dims, &products)) return false;
        int64_t trips = hi > lo ? (hi - lo + step - 1) / step : 0, all = trips + w->trips;
        double *mean[] = {&w->flops, &w->clocks, &w->bytes, &w->drawn, &w->elements, &w->pieces, &w->made, &w->turned_bytes, &w->left, &w->right, &w->group_row};
        const double with[] = {o.flops, o.clocks, o.bytes, o.drawn, o.elements, o.pieces, o.made, o.turned_bytes, o.left, o.right, o.group_row};
        for (size_t i = 0; all && i < sizeof with / sizeof *with; i++) *mean[i] = (*mean[i] * (double)w->trips + with[i] * (double)trips) / (double)all;
        w->sync |= o.sync;
        w->pingpong &= o.pingpong;
        w->trips = all;
    }
    return true;
}

bool work_of(Fn *f, const Target *t, const int64_t *dims, bool in_graph, Work *w) {
    const Op *nest = NULL;
    bool guarded = false, odd = false, several;
    const Op *loop = loop_of(f, &nest, &guarded, &several);
    Facts *s = facts_new(f);
    int64_t lo, hi, step, last;
    int products = 0;
    *w = (Work){.loop = loop, .several = several, .wide = t->has_wgmma, .outer = 1, .in_graph = in_graph};
    if (!loop || !number_of(s, loop->in[0], dims, &lo) || !number_at_most(s, loop->in[1], dims, nest != NULL, &hi) || !number_of(s, loop->in[2], dims, &step) || step < 1) return false;
    if (nest && !outer_trips(w, s, dims, nest)) return false;
    w->merged = merge_of(loop) != NULL;
    if (!products_of(w, t, s, dims, &products)) return false;
    w->trips = hi > lo ? (hi - lo + step - 1) / step : 0;
    if (several && !earlier_loops(w, t, s, dims, f)) return false;
    if (w->sync) w->clocks = 0;
    if (w->bytes <= 0 || (w->nest && w->clocks <= 0)) return false;
    if (w->clocks && w->regs > ACC_ALL - (w->gathered > 0 ? GATHER_REGS : 0)) return false;
    if (w->nest) w->between = ops_between(w);
    w->end = end_of(w, loop, w->threads);
    read_behind(w, t, loop);
    bool numbered = number_of(s, loop->in[1], dims, &last);
    if (nest && !numbered) w->trips = (w->trips + 1) / 2;                           // each of them a little longer
    for (int i = 0; i < loop->nout; i++) w->tile_bytes += (double)type_lanes(&loop->out[i]->type) * 4;
    if (!launch_by_dims(f->launch->programs, dims, &w->programs) || !tensors(w, f, dims, &odd)) return false;
    if (w->three && (w->end > 0 || (w->columns > BAND_COLUMNS && tiles_after(w, loop) > 2))) return false;          // activations: no faster
    w->rows = w->scattered && w->clocks && !w->turned && !odd;
    w->alone = !w->rows && (w->alone || w->scattered);
    if (w->three && w->gathered > 0) return false;                                  // specialize/consumer_groups.c
    if (w->three && w->alone) return false;                                         // 3072 x 1024 x 1024 17.6 us, walking 14.6
    ways(w, t, f, !nest && !guarded && !several, numbered, products);
    w->alone |= nest || guarded;
    if (guarded) some_idle(w, f, dims);
    w->keeps &= w->across * w->down == w->programs;                                 // a grid of two clauses
    return true;
}
