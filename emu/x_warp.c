// Operations between the lanes of a warp: shuffles, votes, matches, reductions, election.
//
// Each waits (warp_converge) until all lanes of its member mask are here; lanes with different masks in
// one instruction form separate groups.
#include "emu/exec.h"

typedef uint32_t u32;
typedef uint64_t u64;

// The lanes that lane l works with, or 0 if it names none of the active ones. e: member mask operand.
static bool together(Warp *w, const Insn *in) {
    u32 needed = 0;
    if (in->e == NO_SLOT) return true;                   // without .sync: whoever is here
    const u32 *mask = lane32(w, in->e);
    for (u32 m = w->active; m; m &= m - 1) {
        u32 l = (u32)__builtin_ctz(m);
        needed |= mask[l];
        if (!(mask[l] >> l & 1)) {
            emu_fault(w, in, (int)l, EMU_FAULT_BAD_OPERAND, "lane %u is not in the member mask 0x%08x", l, mask[l]);
            return true;
        }
    }
    return warp_converge(w, in, needed);
}

static u32 peers(Warp *w, const Insn *in, u32 left, u32 *members) {
    u32 l = (u32)__builtin_ctz(left), same = 0;
    if (in->e == NO_SLOT) return *members = left;
    const u32 *mask = lane32(w, in->e);
    for (u32 m = left; m; m &= m - 1) same |= (u32)(mask[__builtin_ctz(m)] == mask[l]) << __builtin_ctz(m);
    *members = same;
    return same;
}

enum { SHFL_up, SHFL_down, SHFL_bfly, SHFL_idx };

static void x_shfl(Warp *w, const Insn *in) {
    if (!together(w, in)) return;
    u32 *d = lane32(w, in->d), *p = in->list ? pred(w, in->list[0]) : NULL, a[32], hit = 0;
    const u32 *b = lane32(w, in->b), *c = lane32(w, in->c);
    memcpy(a, lane32(w, in->a), sizeof a);
    u32 out[32], ok[32], from[32];
#define SOURCES(lane, good)                                                           \
    for (u32 l = 0; l < 32; l++) {                                                    \
        u32 bv = b[l] & 31, segment = c[l] >> 8 & 31, top = (l & segment) | (c[l] & 31 & ~segment), j = (lane); \
        ok[l] = (good) ? 1u << l : 0;                                                 \
        from[l] = (good) ? j & 31 : l;                                                \
    }
    switch (in->aux) {
    case SHFL_up:   SOURCES(l - bv, (int)j >= (int)top) break;
    case SHFL_down: SOURCES(l + bv, j <= top) break;
    case SHFL_bfly: SOURCES(l ^ bv, j <= top) break;
    default:        SOURCES((l & segment) | (bv & ~segment), j <= top) break;
    }
#undef SOURCES
    for (u32 l = 0; l < 32; l++) hit |= ok[l], out[l] = a[from[l]];
    for (u32 m = w->active; m; m &= m - 1) d[__builtin_ctz(m)] = out[__builtin_ctz(m)];
    if (p) *p = blend_pred(*p, hit, w->active);
}

static void split_pair(Dec *d, uint32_t i, Type t, uint32_t *first, uint32_t *second) {
    const Operand *o = dec_op(d, i);
    Operand alone = *o;
    alone.pair = NULL;
    *first = t == T_pred ? dec_pred_dst(d, &alone) : dec_dst_op(d, &alone, t);
    *second = o->pair ? dec_pred_dst(d, o->pair) : NO_SLOT;
}

static void decode_shfl(Dec *d) {
    static const char *const modes[] = {"up", "down", "bfly", "idx"};
    bool sync = dec_mod(d, "sync");
    int mode = -1;
    for (int i = 0; i < 4; i++)
        if (dec_mod(d, modes[i])) mode = i;
    if (mode < 0) dec_error(d, "`shfl` needs .up, .down, .bfly or .idx");
    Type t = dec_need_type(d);
    if (ptx_type_bits(t) != 32) dec_error(d, "`shfl` of .%s", ptx_type_name(t));
    dec_count(d, sync ? 5 : 4, sync ? 5 : 4);
    uint32_t a = dec_src(d, 1, t), b = dec_src(d, 2, T_b32), c = dec_src(d, 3, T_b32),
             e = sync ? dec_src(d, 4, T_b32) : NO_SLOT, to, p;
    split_pair(d, 0, t, &to, &p);
    Insn *in = dec_emit(d, x_shfl);
    in->d = to, in->a = a, in->b = b, in->c = c, in->e = e, in->aux = mode;
    if (p != NO_SLOT) dec_list(d, in, 1)[0] = p;
}

enum { VOTE_all, VOTE_any, VOTE_uni, VOTE_ballot };

static void x_vote(Warp *w, const Insn *in) {
    if (!together(w, in)) return;
    u32 a = *pred(w, in->a), left = w->active, members;
    while (left) {
        u32 same = peers(w, in, left, &members), yes = a & members;
        left &= ~same;
        if (in->aux == VOTE_ballot) {
            for (u32 m = same; m; m &= m - 1) lane32(w, in->d)[__builtin_ctz(m)] = yes;
            continue;
        }
        bool r = in->aux == VOTE_all ? yes == members : in->aux == VOTE_any ? yes != 0 : yes == members || !yes;
        u32 *d = pred(w, in->d);
        *d = blend_pred(*d, r ? ~0u : 0, same);
    }
}
static void decode_vote(Dec *d) {
    static const char *const modes[] = {"all", "any", "uni", "ballot"};
    bool sync = dec_mod(d, "sync");
    int mode = -1;
    for (int i = 0; i < 4; i++)
        if (dec_mod(d, modes[i])) mode = i;
    if (mode < 0) dec_error(d, "`vote` needs .all, .any, .uni or .ballot");
    Type t = dec_need_type(d);
    dec_count(d, sync ? 3 : 2, sync ? 3 : 2);
    if ((mode == VOTE_ballot) != (t == T_b32)) dec_error(d, "`vote` of .%s", ptx_type_name(t));
    uint32_t a = dec_pred(d, dec_op(d, 1)), e = sync ? dec_src(d, 2, T_b32) : NO_SLOT, to = dec_dst(d, 0, t);
    Insn *in = dec_emit(d, x_vote);
    in->d = to, in->a = a, in->e = e, in->aux = mode;
}

static u64 value(const Warp *w, const Insn *in, u32 l) {
    return in->type == T_b64 ? lane64(w, in->a)[l] : lane32(w, in->a)[l];
}

static void x_match(Warp *w, const Insn *in) {           // aux: all
    if (!together(w, in)) return;
    u32 left = w->active, members, out[32];
    while (left) {
        u32 same = peers(w, in, left, &members);
        left &= ~same;
        for (u32 m = same; m; m &= m - 1) {
            u32 l = (u32)__builtin_ctz(m), equal = 0;
            for (u32 k = members; k; k &= k - 1)
                equal |= (u32)(value(w, in, (u32)__builtin_ctz(k)) == value(w, in, l)) << __builtin_ctz(k);
            out[l] = in->aux ? equal == members ? members : 0 : equal;
        }
        if (in->list) {
            u32 *p = pred(w, in->list[0]);
            *p = blend_pred(*p, out[__builtin_ctz(same)] ? ~0u : 0, same);
        }
    }
    for (u32 m = w->active; m; m &= m - 1) lane32(w, in->d)[__builtin_ctz(m)] = out[__builtin_ctz(m)];
}
static void decode_match(Dec *d) {
    bool all = dec_mod(d, "all");
    if (!all && !dec_mod(d, "any")) dec_error(d, "`match` needs .any or .all");
    if (!dec_mod(d, "sync")) dec_error(d, "`match` needs .sync");
    Type t = dec_need_type(d);
    dec_count(d, 3, 3);
    uint32_t a = dec_src(d, 1, t), e = dec_src(d, 2, T_b32), to, p;
    split_pair(d, 0, T_b32, &to, &p);
    Insn *in = dec_emit(d, x_match);
    in->d = to, in->a = a, in->e = e, in->aux = all, in->type = ptx_type_bits(t) == 64 ? T_b64 : T_b32;
    if (p != NO_SLOT) dec_list(d, in, 1)[0] = p;
}

static void x_activemask(Warp *w, const Insn *in) {
    EACH_ACTIVE(lane32(w, in->d)[l] = w->active);
}
static void decode_activemask(Dec *d) {
    Type t = dec_need_type(d);
    dec_count(d, 1, 1);
    uint32_t to = dec_dst(d, 0, t);
    dec_emit(d, x_activemask)->d = to;
}

enum { R_add, R_min, R_max, R_and, R_or, R_xor };

static void x_redux(Warp *w, const Insn *in) {
    if (!together(w, in)) return;
    u32 left = w->active, members;
    bool s = in->type == T_s32;
    while (left) {
        u32 same = peers(w, in, left, &members), r = lane32(w, in->a)[__builtin_ctz(members)];
        left &= ~same;
        for (u32 m = members & (members - 1); m; m &= m - 1) {
            u32 v = lane32(w, in->a)[__builtin_ctz(m)];
            bool less = s ? (int32_t)v < (int32_t)r : v < r;
            if (in->type == T_f32) {
                float x = f32_from(v), y = f32_from(r);
                if (in->flags & 1) x = f32_from(v & 0x7fffffff), y = f32_from(r & 0x7fffffff);
                bool nan = x != x || y != y;
                r = nan                             ? in->flags & 2 ? 0x7fffffff
                                                      : x != x      ? f32_bits(y)
                                                                    : f32_bits(x)
                    : (x < y) == (in->aux == R_min) ? f32_bits(x)
                                                    : f32_bits(y);
                continue;
            }
            switch (in->aux) {
            case R_add: r += v; break;
            case R_min: r = less ? v : r; break;
            case R_max: r = less ? r : v; break;
            case R_and: r &= v; break;
            case R_or:  r |= v; break;
            default:    r ^= v; break;
            }
        }
        for (u32 m = same; m; m &= m - 1) lane32(w, in->d)[__builtin_ctz(m)] = r;
    }
}
static void decode_redux(Dec *d) {
    static const char *const ops[] = {"add", "min", "max", "and", "or", "xor"};
    if (!dec_mod(d, "sync")) dec_error(d, "`redux` needs .sync");
    int op = -1;
    for (int i = 0; i < 6; i++)
        if (dec_mod(d, ops[i])) op = i;
    uint8_t flags = (uint8_t)((dec_mod(d, "abs") ? 1 : 0) | (dec_mod(d, "NaN") ? 2 : 0));
    Type t = dec_need_type(d);
    if (op < 0 || ptx_type_bits(t) != 32) dec_error(d, "`redux` needs an operation on 32 bits");
    dec_count(d, 3, 3);
    uint32_t a = dec_src(d, 1, t), e = dec_src(d, 2, T_b32), to = dec_dst(d, 0, t);
    Insn *in = dec_emit(d, x_redux);
    in->d = to, in->a = a, in->e = e, in->aux = op, in->type = (uint8_t)t, in->flags = flags;
}

static void x_elect(Warp *w, const Insn *in) {
    if (!together(w, in)) return;
    u32 left = w->active, members;
    while (left) {
        u32 same = peers(w, in, left, &members), leader = (u32)__builtin_ctz(members), *p = pred(w, in->list[0]);
        left &= ~same;
        for (u32 m = same; m; m &= m - 1) lane32(w, in->d)[__builtin_ctz(m)] = leader;
        *p = blend_pred(*p, 1u << leader, same);
    }
}
static void decode_elect(Dec *d) {
    if (!dec_mod(d, "sync")) dec_error(d, "`elect` needs .sync");
    dec_count(d, 2, 2);
    uint32_t e = dec_src(d, 1, T_b32), to, p;
    split_pair(d, 0, T_b32, &to, &p);
    if (p == NO_SLOT) dec_error(d, "`elect.sync` needs d|p");
    Insn *in = dec_emit(d, x_elect);
    in->d = to, in->e = e;
    dec_list(d, in, 1)[0] = p;
}

const InsnDef VARIANT(defs_warp)[] = {
    {"shfl", decode_shfl, EMU_CLASS_WARP},   {"vote", decode_vote, EMU_CLASS_WARP},   {"match", decode_match, EMU_CLASS_WARP},
    {"activemask", decode_activemask, EMU_CLASS_WARP}, {"redux", decode_redux, EMU_CLASS_WARP}, {"elect", decode_elect, EMU_CLASS_WARP},
    {NULL, NULL, 0},
};
