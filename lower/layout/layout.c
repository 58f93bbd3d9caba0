// The algebra of layouts: making, projecting, comparing, evaluating. See layout.h for the idea.
#include "lower/layout/layout.h"

#include <string.h>

static int log2_floor(int64_t n) { int b = 0; while ((n >> (b + 1)) > 0) b++; return b; }
static int log2_ceil(int64_t n) { return n <= 1 ? 0 : log2_floor(n - 1) + 1; }

static void set_offsets(Layout *l) {
    int at = 0;
    for (int i = 0; i < l->naxes; i++) { l->off[i] = (uint8_t)at; at += l->bits[i]; }
    if (at > 32) ice("layout atom of %d bits", at);
}

static uint32_t axis_mask(const Layout *l, int axis) {
    return (uint32_t)((((uint64_t)1 << l->bits[axis]) - 1) << l->off[axis]);
}

// ---- making --------------------------------------------------------------------------------------

typedef struct Bit { uint8_t axis, bit; } Bit;           // of a coordinate

// Vector first, then lanes along the fastest axis as far as it goes and on to the next, then warps over
// what is left (slower axes first, those that are reduced last), then registers.
// Along axis x, as often as the bits do not reach.
static void repeat(Layout *l, const Type *t, int x) {
    int64_t n = (axis_extent(t->axis[x]) + ((int64_t)1 << l->bits[x]) - 1) >> l->bits[x];
    if (n > 1) l->rep[l->nrep++] = (Rep){(uint8_t)x, (uint16_t)n};
}

const Layout *layout_blocked(Arena *a, const Type *t, const Blocked *wish) {
    Layout *l = NEW(a, Layout);
    l->naxes = t->rank;
    int left[MAX_AXES], used[MAX_AXES] = {0};               // bits of each axis rounded up, bits given out
    for (int i = 0; i < t->rank; i++) left[i] = log2_ceil(axis_extent(t->axis[i]));
    Bit reg[MAX_REG_BITS], lane[LANE_BITS], warp[MAX_WARP_BITS];
    int nreg = 0, nlane = 0, nwarp = 0, want_warp = log2_floor(wish->warps);
    if (t->rank) {
        int f = wish->order[0];
        for (int v = log2_floor(wish->vec); v > 0 && left[f] > 0; v--) {
            reg[nreg++] = (Bit){(uint8_t)f, (uint8_t)used[f]++};
            left[f]--;
        }
    }
    int more = -LANE_BITS - want_warp;                      // bits that registers must take anyway
    for (int i = 0; i < t->rank; i++) more += left[i];
    for (int x = wish->near - 1; x >= 0 && more > 0 && left[x] > 0 && nreg < MAX_REG_BITS; more--) {
        reg[nreg++] = (Bit){(uint8_t)x, (uint8_t)used[x]++};
        left[x]--;
    }
    int rest = 0, spare = 0;                                // bits of the other axes; of the first that lanes leave to registers
    if (wish->fold && t->rank > 1) {
        for (int i = 1; i < t->rank; i++) rest += left[wish->order[i]];
        spare = log2_floor(wish->fold) - used[wish->order[0]];
        if (spare > left[wish->order[0]]) spare = left[wish->order[0]];
        if (LANE_BITS - left[wish->order[0]] + spare > rest) spare = rest - LANE_BITS + left[wish->order[0]];
        if (spare < 0) spare = 0;
    }
    for (int i = 0; i < t->rank; i++)
        while (nlane < LANE_BITS && left[wish->order[i]] > (i == 0 ? spare : 0)) {
            int x = wish->order[i];
            lane[nlane++] = (Bit){(uint8_t)x, (uint8_t)used[x]++};
            left[x]--;
        }
    for (int pass = 0; pass < 2; pass++)
        for (int i = t->rank - 1; i >= 0; i--) {
            int x = wish->order[i];
            if ((wish->keep >> x & 1) != (uint32_t)pass) continue;
            while (nwarp < want_warp && left[x] > 0) { warp[nwarp++] = (Bit){(uint8_t)x, (uint8_t)used[x]++}; left[x]--; }
        }
    for (int i = 0; i < t->rank; i++) l->bits[i] = (uint8_t)used[i];
    set_offsets(l);
#define PACK(b) ((uint32_t)1 << (l->off[(b).axis] + (b).bit))
    l->nreg = (uint8_t)nreg;
    l->nwarp = (uint8_t)want_warp;
    for (int i = 0; i < nreg; i++) l->reg[i] = PACK(reg[i]);
    for (int i = 0; i < nlane; i++) l->lane[i] = PACK(lane[i]);
    for (int i = 0; i < nwarp; i++) l->warp[i] = PACK(warp[i]);
#undef PACK
    for (int i = 0; i < t->rank; i++) repeat(l, t, wish->order[i]);
    return l;
}

const Layout *layout_replicated(Arena *a, int warps) {
    Layout *l = NEW(a, Layout);
    l->nwarp = (uint8_t)log2_floor(warps);
    return l;
}

static const Layout *mma_acc(Arena *a, const Type *t, int row, int col, int warps_m, int warps_n, bool pairs) {
    Layout *l = NEW(a, Layout);
    l->naxes = t->rank;
    int wm = log2_floor(warps_m), wn = log2_floor(warps_n);
    l->bits[row] = (uint8_t)(4 + wm);
    l->bits[col] = (uint8_t)(3 + wn);
    set_offsets(l);
    uint32_t r = (uint32_t)1 << l->off[row], c = (uint32_t)1 << l->off[col];
    l->nreg = 2;
    l->reg[0] = c; l->reg[1] = pairs ? r : r << 3;
    l->lane[0] = c << 1; l->lane[1] = c << 2;
    for (int i = 0; i < 3; i++) l->lane[2 + i] = r << (i + pairs);
    for (int i = 0; i < wm; i++) l->warp[l->nwarp++] = r << (4 + i);
    for (int i = 0; i < wn; i++) l->warp[l->nwarp++] = c << (3 + i);
    repeat(l, t, col);
    repeat(l, t, row);
    for (int i = 0; i < t->rank; i++) if (i != row && i != col) repeat(l, t, i);       // batch axes: registers
    return l;
}

const Layout *layout_mma_acc(Arena *a, const Type *t, int row, int col, int warps_m, int warps_n) {
    return mma_acc(a, t, row, col, warps_m, warps_n, false);
}
const Layout *layout_mma_pairs(Arena *a, const Type *t, int row, int col, int warps) { return mma_acc(a, t, row, col, warps, 1, true); }
bool layout_in_pairs(const Layout *l, int row) { return l->nreg > 1 && l->reg[1] == (uint32_t)1 << l->off[row]; }

// ---- projecting ----------------------------------------------------------------------------------

static uint32_t repack(const Layout *from, const Layout *to, const int *map, uint32_t v) {
    uint32_t r = 0;
    for (int i = 0; i < from->naxes; i++)
        if (map[i] >= 0) r |= ((v & axis_mask(from, i)) >> from->off[i]) << to->off[map[i]];
    return r;
}

static void axis_map(const Type *from, const Type *to, int *map) {
    for (int i = 0; i < from->rank; i++) map[i] = type_axis(to, from->axis[i]);
}

// Axis i becomes axis map[i], or is left out. Axes that nothing becomes have `fresh` bits.
static Layout *remap(Arena *a, const Layout *l, int naxes, const int *map, const uint8_t *fresh) {
    Layout *p = NEW(a, Layout);
    p->naxes = (uint8_t)naxes;
    for (int i = 0; fresh && i < naxes; i++) p->bits[i] = fresh[i];
    for (int i = 0; i < l->naxes; i++) if (map[i] >= 0) p->bits[map[i]] = l->bits[i];
    set_offsets(p);
    for (int i = 0; i < l->nreg; i++) {
        uint32_t v = repack(l, p, map, l->reg[i]);
        if (v) p->reg[p->nreg++] = v;
    }
    for (int i = 0; i < LANE_BITS; i++) p->lane[i] = repack(l, p, map, l->lane[i]);
    p->nwarp = l->nwarp;
    for (int i = 0; i < l->nwarp; i++) p->warp[i] = repack(l, p, map, l->warp[i]);
    for (int i = 0; i < l->nrep; i++)
        if (map[l->rep[i].axis] >= 0) p->rep[p->nrep++] = (Rep){(uint8_t)map[l->rep[i].axis], l->rep[i].count};
    return p;
}

const Layout *layout_project(Arena *a, const Layout *l, const Type *from, const Type *to) {
    int map[MAX_AXES];
    axis_map(from, to, map);
    return remap(a, l, to->rank, map, NULL);
}

const Layout *layout_rename(Arena *a, const Layout *l, const Type *from, const Type *to, const Val *old, const Val *fresh) {
    int map[MAX_AXES];
    for (int i = 0; i < from->rank; i++) map[i] = type_axis(to, from->axis[i] == old ? fresh : from->axis[i]);
    return remap(a, l, to->rank, map, NULL);
}

const Layout *layout_slice(Arena *a, const Layout *l, const Type *whole, const Type *slice, int parts) {
    int map[MAX_AXES], divided = 0, own = 0, last = -1, n = 0;
    if (!slice_axes(whole, slice, &divided, &own)) ice("a slice of another tile");
    if (layout_span(l, divided) != axis_extent(whole->axis[divided])) return NULL;
    for (int i = 0; i < whole->rank; i++) map[i] = i == divided ? own : type_axis(slice, whole->axis[i]);
    Layout *p = remap(a, l, slice->rank, map, NULL);
    for (int i = 0; i < p->nrep; i++) if (p->rep[i].axis == own) last = i;
    if (last < 0 || p->rep[last].count % parts) return NULL;
    p->rep[last].count /= (uint16_t)parts;
    for (int i = 0; i < p->nrep; i++) if (p->rep[i].count > 1) p->rep[n++] = p->rep[i];
    p->nrep = (uint8_t)n;
    return p;
}

// Bases that move nothing move the new axes' bits, those of the innermost axis first.
static void fill_replicas(const uint32_t *base, int n, int *axis, uint8_t *left, uint8_t *used, Bit *got, bool *filled) {
    for (int b = 0; b < n; b++) {
        while (*axis >= 0 && !left[*axis]) --*axis;
        filled[b] = !base[b] && *axis >= 0;
        if (!filled[b]) continue;
        got[b] = (Bit){(uint8_t)*axis, used[*axis]++};
        left[*axis]--;
    }
}

const Layout *layout_lift(Arena *a, const Layout *l, const Type *from, const Type *to) {
    int map[MAX_AXES], inner = to->rank - 1;
    uint8_t left[MAX_AXES] = {0}, used[MAX_AXES] = {0};
    Bit lane[LANE_BITS], warp[MAX_WARP_BITS];
    bool by_lane[LANE_BITS], by_warp[MAX_WARP_BITS];
    axis_map(from, to, map);
    for (int i = 0; i < to->rank; i++)
        if (type_axis(from, to->axis[i]) < 0) left[i] = (uint8_t)log2_ceil(axis_extent(to->axis[i]));
    fill_replicas(l->lane, LANE_BITS, &inner, left, used, lane, by_lane);
    fill_replicas(l->warp, l->nwarp, &inner, left, used, warp, by_warp);
    Layout *p = remap(a, l, to->rank, map, used);
    for (int i = 0; i < LANE_BITS; i++) if (by_lane[i]) p->lane[i] = (uint32_t)1 << (p->off[lane[i].axis] + lane[i].bit);
    for (int i = 0; i < l->nwarp; i++)  if (by_warp[i]) p->warp[i] = (uint32_t)1 << (p->off[warp[i].axis] + warp[i].bit);
    for (int i = 0; i < to->rank; i++) {
        int64_t n = (axis_extent(to->axis[i]) + ((int64_t)1 << used[i]) - 1) >> used[i];
        if (type_axis(from, to->axis[i]) < 0 && n > 1) p->rep[p->nrep++] = (Rep){(uint8_t)i, (uint16_t)n};
    }
    return p;
}

int layout_project_reg(const Layout *l, const Type *from, const Type *to, int reg) {
    int map[MAX_AXES], out = 0, bit = 0, stride;
    axis_map(from, to, map);
    for (int i = 0; i < l->nreg; i++) {
        uint32_t keep = 0;
        for (int x = 0; x < l->naxes; x++) if (map[x] >= 0) keep |= axis_mask(l, x);
        if (l->reg[i] & keep) { out |= ((reg >> i) & 1) << bit; bit++; }
    }
    stride = 1 << bit;
    reg >>= l->nreg;
    for (int i = 0; i < l->nrep; i++) {
        int digit = reg % l->rep[i].count;
        reg /= l->rep[i].count;
        if (map[l->rep[i].axis] >= 0) { out += digit * stride; stride *= l->rep[i].count; }
    }
    return out;
}

// ---- evaluating ----------------------------------------------------------------------------------

int layout_regs(const Layout *l) {
    int n = 1 << l->nreg;
    for (int i = 0; i < l->nrep; i++) n *= l->rep[i].count;
    return n;
}

void layout_coord(const Layout *l, int reg, int lane, int warp, int64_t *coord) {
    uint32_t v = 0;
    for (int i = 0; i < l->nreg; i++)  if (reg >> i & 1)  v ^= l->reg[i];
    for (int i = 0; i < LANE_BITS; i++) if (lane >> i & 1) v ^= l->lane[i];
    for (int i = 0; i < l->nwarp; i++) if (warp >> i & 1) v ^= l->warp[i];
    for (int i = 0; i < l->naxes; i++) coord[i] = (v & axis_mask(l, i)) >> l->off[i];
    reg >>= l->nreg;
    int64_t unit[MAX_AXES];
    for (int i = 0; i < l->naxes; i++) unit[i] = (int64_t)1 << l->bits[i];
    for (int i = 0; i < l->nrep; i++) {
        coord[l->rep[i].axis] += reg % l->rep[i].count * unit[l->rep[i].axis];
        unit[l->rep[i].axis] *= l->rep[i].count;
        reg /= l->rep[i].count;
    }
}

bool layout_equal(const Layout *a, const Layout *b) {
    if (a == b) return true;
    if (!a || !b || a->naxes != b->naxes || a->nreg != b->nreg || a->nwarp != b->nwarp || a->nrep != b->nrep) return false;
    return !memcmp(a->bits, b->bits, a->naxes) && !memcmp(a->reg, b->reg, sizeof *a->reg * a->nreg) &&
           !memcmp(a->lane, b->lane, sizeof a->lane) && !memcmp(a->warp, b->warp, sizeof *a->warp * a->nwarp) &&
           !memcmp(a->rep, b->rep, sizeof *a->rep * a->nrep);
}

uint32_t layout_replica_lanes(const Layout *l) {
    uint32_t m = 0;
    for (int i = 0; i < LANE_BITS; i++) if (!l->lane[i]) m |= 1u << i;
    return m;
}

uint32_t layout_replica_warps(const Layout *l) {
    uint32_t m = 0;
    for (int i = 0; i < l->nwarp; i++) if (!l->warp[i]) m |= 1u << i;
    return m;
}

Mover layout_mover(const Layout *l, int axis, int bit, int *at) {
    uint32_t want = (uint32_t)1 << (l->off[axis] + bit);
    for (int i = 0; i < l->nreg; i++)   if (l->reg[i] == want)  { *at = i; return BY_REGISTER; }
    for (int i = 0; i < LANE_BITS; i++) if (l->lane[i] == want) { *at = i; return BY_LANE; }
    for (int i = 0; i < l->nwarp; i++)  if (l->warp[i] == want) { *at = i; return BY_WARP; }
    ice("no input moves bit %d of axis %d alone", bit, axis);
}

int64_t layout_span(const Layout *l, int axis) {
    int64_t n = (int64_t)1 << l->bits[axis];
    for (int i = 0; i < l->nrep; i++) if (l->rep[i].axis == axis) n *= l->rep[i].count;
    return n;
}

int layout_vec(const Layout *l, int axis) {
    int b = 0;
    while (b < l->nreg && l->reg[b] == (uint32_t)1 << (l->off[axis] + b) && b < l->bits[axis]) b++;
    return 1 << b;
}

int layout_run(const Layout *l, int axis, int most, int reg[MAX_RUN]) {
    int n = 1, at;
    reg[0] = 0;
    for (int b = 0; b < l->bits[axis] && 2 * n <= most && 2 * n <= MAX_RUN; b++, n *= 2) {
        for (at = 0; at < l->nreg && l->reg[at] != (uint32_t)1 << (l->off[axis] + b);) at++;
        if (at == l->nreg) break;
        for (int i = 0; i < n; i++) reg[n + i] = reg[i] | 1 << at;
    }
    return n;
}

// ---- text ----------------------------------------------------------------------------------------

static void print_bases(const Layout *l, const char *name, const uint32_t *base, int n, Buf *out) {
    if (!n) return;
    buf_printf(out, " %s", name);
    for (int i = 0; i < n; i++) {
        buf_puts(out, " (");
        for (int x = 0; x < l->naxes; x++) buf_printf(out, "%s%u", x ? "," : "", (base[i] & axis_mask(l, x)) >> l->off[x]);
        buf_puts(out, ")");
    }
}

void layout_print(const Layout *l, const Type *t, Buf *out) {
    buf_puts(out, "L{");
    for (int i = 0; i < l->naxes; i++)
        buf_printf(out, "%s%s %d", i ? " x " : "", t->axis[i]->name ? t->axis[i]->name->s : "axis", 1 << l->bits[i]);
    buf_puts(out, l->naxes ? ";" : "scalar;");
    print_bases(l, "reg", l->reg, l->nreg, out);
    if (l->naxes) print_bases(l, "lane", l->lane, LANE_BITS, out);
    if (l->naxes) print_bases(l, "warp", l->warp, l->nwarp, out);
    for (int i = 0; i < l->nrep; i++)
        buf_printf(out, " times %d %s", l->rep[i].count,
                   t->axis[l->rep[i].axis]->name ? t->axis[l->rep[i].axis]->name->s : "axis");
    buf_puts(out, "}");
}
