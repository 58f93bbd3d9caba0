// From a statement to instructions. decode_statement finds the opcode's row in the tables of x_*.c; the
// row's decoder takes modifiers and operands through the helpers below and emits one instruction, at
// times two. Whatever does not fit the plain form "32 lanes of the type's width" is bent here, so that
// no executor knows about it:
//
//     st.global.b32 [%rd1], %rd2;     narrow  t, %rd2;  st t           a wider register
//     cvt.u32.u8 %rd1, %r2;           cvt t, %r2;  widen %rd1, t       a wider destination
//     mov.u32 %r1, smem;              lea t, smem_base + offset        a shared variable
//     add.s32 %r1, %r2, 5;            5 becomes a constant slot
//
// A modifier that no helper took is an error, so nothing is ever ignored by accident.
#include <time.h>

#include "emu/reader.h"
#include "emu/exec.h"
#include "lang/c_text.h"

uint32_t ptx_type_bits(Type t) {
    static const uint16_t bits[] = {0,
#define X(name, b, kind) b,
        PTX_TYPES(X)
#undef X
    };
    return bits[t];
}

char ptx_type_kind(Type t) {
    enum { P = 'P', B = 'B', U = 'U', S = 'S', F = 'F', V = 'V' };
    static const char kinds[] = {0,
#define X(name, b, kind) kind,
        PTX_TYPES(X)
#undef X
    };
    return kinds[t];
}

const char *ptx_type_name(Type t) {
    static const char *const names[] = {"",
#define X(name, b, kind) #name,
        PTX_TYPES(X)
#undef X
    };
    return names[t];
}

_Noreturn void dec_error_at(Dec *d, uint32_t line, const char *format, va_list args) {
    char text[400];
    c_vsnprintf(text, sizeof text, format, args);
    emu_error(d->module->context, EMU_INVALID, "line %u: %s", line, text);
    longjmp(*d->on_error, 1);
}

_Noreturn void dec_error(Dec *d, const char *format, ...) {
    va_list args;
    va_start(args, format);
    dec_error_at(d, d->line, format, args);
}

void *dec_alloc(Dec *d, size_t n) { return emu_arena_alloc(&d->module->arena, n); }

static void spell(const Dec *d, char *out, size_t n) {   // the opcode as written
    size_t at = (size_t)snprintf(out, n, "%.*s", (int)(d->name.n < 60 ? d->name.n : 60), d->name.s);
    for (uint32_t i = 0; i < d->n_mods && at + 2 < n; i++)
        at += (size_t)snprintf(out + at, n - at, ".%.*s", (int)(d->mods[i].n < 60 ? d->mods[i].n : 60), d->mods[i].s);
}

// ---- Modifiers

bool dec_has(const Dec *d, const char *name) {
    for (uint32_t i = 0; i < d->n_mods; i++)
        if (!(d->used >> i & 1) && ptx_str_is(d->mods[i], name)) return true;
    return false;
}

bool dec_mod(Dec *d, const char *name) {
    for (uint32_t i = 0; i < d->n_mods; i++)
        if (!(d->used >> i & 1) && ptx_str_is(d->mods[i], name)) {
            d->used |= 1u << i;
            return true;
        }
    return false;
}

bool dec_prefix(Dec *d, const char *prefix, Str *rest) {
    size_t n = strlen(prefix);
    for (uint32_t i = 0; i < d->n_mods; i++)
        if (!(d->used >> i & 1) && d->mods[i].n >= n && !memcmp(d->mods[i].s, prefix, n)) {
            d->used |= 1u << i;
            if (rest) *rest = (Str){d->mods[i].s + n, d->mods[i].n - (uint32_t)n};
            return true;
        }
    return false;
}

Type dec_type(Dec *d) {
    for (uint32_t i = 0; i < d->n_mods; i++)
        if (d->types[i] && !(d->used >> i & 1)) {
            d->used |= 1u << i;
            return d->types[i];
        }
    return T_none;
}

Type dec_need_type(Dec *d) {
    Type t = dec_type(d);
    if (!t) dec_error(d, "`%.*s` needs a type", (int)d->name.n, d->name.s);
    return t;
}

uint8_t dec_space(Dec *d) {
    static const struct { const char *name; uint8_t space; } spaces[] = {
        {"global", SPACE_GLOBAL}, {"shared::cta", SPACE_SHARED}, {"shared::cluster", SPACE_CLUSTER}, {"shared", SPACE_SHARED},
        {"local", SPACE_LOCAL}, {"param::entry", SPACE_PARAM}, {"param::func", SPACE_PARAM}, {"param", SPACE_PARAM}, {"const", SPACE_CONST}};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (dec_mod(d, spaces[i].name)) return spaces[i].space;
    return SPACE_GENERIC;
}

void dec_cache_hints(Dec *d) {
    static const char *const names[] = {"ca", "cg", "cs", "lu", "cv", "wb", "wt", "nc", "unified"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) dec_mod(d, names[i]);
    bool policy = dec_has(d, "L2::cache_hint");
    while (dec_prefix(d, "L1::", NULL) || dec_prefix(d, "L2::", NULL)) {}
    if (policy && d->n_ops) d->n_ops--;                  // the policy operand comes last
}

void dec_sem(Dec *d, bool *acquire, bool *release) {
    *acquire = *release = false;
    if (dec_mod(d, "acquire")) *acquire = true;
    if (dec_mod(d, "release")) *release = true;
    if (dec_mod(d, "acq_rel") || dec_mod(d, "sc")) *acquire = *release = true;
    if (dec_mod(d, "relaxed") || dec_mod(d, "weak")) {}
    if (dec_mod(d, "volatile") || dec_mod(d, "mmio")) *acquire = *release = true;
    static const char *const scopes[] = {"cta", "cluster", "gpu", "sys"};
    for (int i = 0; i < 4; i++) dec_mod(d, scopes[i]);
}

void dec_count(Dec *d, uint32_t low, uint32_t high) {
    if (d->n_ops >= low && d->n_ops <= high) return;
    if (low == high) dec_error(d, "`%.*s` takes %u operands, not %u", (int)d->name.n, d->name.s, low, d->n_ops);
    dec_error(d, "`%.*s` takes %u to %u operands, not %u", (int)d->name.n, d->name.s, low, high, d->n_ops);
}

// ---- Constants

static uint32_t pool(Dec *d, const void *value, uint32_t width, uint64_t hi, uint64_t lo) {
    EmuModule *m = d->module;
    if (2 * (m->n_consts + 1) > m->const_hash_size) {
        uint32_t size = m->const_hash_size ? 2 * m->const_hash_size : 256;
        uint32_t *grown = emu_got(calloc(size, sizeof *grown));
        for (uint32_t i = 0; i < m->const_hash_size; i++) {
            uint32_t at = m->const_hash[i], w = at & 3;
            if (!at) continue;
            uint64_t key = 0;
            memcpy(&key, m->consts + (at & ~3u), w == 1 ? 4 : 8);
            uint32_t h = (uint32_t)(key * 0x9e3779b97f4a7c15ull >> 40) & (size - 1);
            while (grown[h]) h = (h + 1) & (size - 1);
            grown[h] = at;
        }
        free(m->const_hash);
        m->const_hash = grown;
        m->const_hash_size = size;
    }
    (void)hi;
    uint32_t tag = width == 4 ? 1 : 2;
    uint32_t h = (uint32_t)(lo * 0x9e3779b97f4a7c15ull >> 40) & (m->const_hash_size - 1);
    for (uint32_t at; (at = m->const_hash[h]); h = (h + 1) & (m->const_hash_size - 1))
        if ((at & 3) == tag && !memcmp(m->consts + (at & ~3u), value, width)) return (at & ~3u) | BASE_CONSTS;
    if (!m->const_bytes) m->const_bytes = 128;           // offset 0 would read as an empty bucket
    uint32_t at = m->const_bytes, bytes = 32 * width;
    if (at + bytes > m->cap_consts) {
        m->cap_consts = m->cap_consts ? 2 * m->cap_consts : 16384;
        char *grown = emu_got(realloc(m->consts, m->cap_consts + 64));
        if (at == 128) memset(grown, 0, 128);
        m->consts = grown;
    }
    for (int l = 0; l < 32; l++) memcpy(m->consts + at + (uint32_t)l * width, value, width);
    m->const_bytes += bytes;
    m->const_hash[h] = at | tag;
    m->n_consts++;
    return at | BASE_CONSTS;
}

static uint32_t dec_const32(Dec *d, uint32_t v) { return pool(d, &v, 4, 0, v); }
static uint32_t dec_const64(Dec *d, uint64_t v) { return pool(d, &v, 8, 0, v); }

// ---- Emission

Insn *dec_emit(Dec *d, InsnFn *fn) {
    EmuModule *m = d->module;
    if (m->n_code == m->cap_code) {
        m->cap_code = m->cap_code ? 2 * m->cap_code : 1024;
        m->code = emu_got(realloc(m->code, m->cap_code * sizeof *m->code));
    }
    if (m->n_code >= 1u << 22) dec_error(d, "more than 4 million instructions");
    Insn *in = &m->code[m->n_code++];
    *in = (Insn){.fn = fn, .d = NO_SLOT, .a = NO_SLOT, .b = NO_SLOT, .c = NO_SLOT, .e = NO_SLOT, .guard = d->guard,
                 .guard_not = d->guard_not, .cls = d->cls, .line = d->line, .loc = d->loc};
    return in;
}

uint32_t *dec_list(Dec *d, Insn *in, uint32_t n) {
    in->list = dec_alloc(d, n * sizeof *in->list);
    in->n = (uint16_t)n;
    return in->list;
}

uint32_t dec_temp(Dec *d, Type t) {
    uint32_t slot = reader_new_slot(d, t);
    slots_touch(d, slot, SLOT_BETWEEN);
    return slot;
}

// ---- Operands as slots

static uint32_t width_of(Type t) {
    return t == T_pred ? 0 : ptx_type_bits(t) <= 32 ? 32 : ptx_type_bits(t) <= 64 ? 64 : 128;
}

const Operand *dec_op(Dec *d, uint32_t i) {
    if (i >= d->n_ops) dec_error(d, "`%.*s` has too few operands", (int)d->name.n, d->name.s);
    return &d->ops[i];
}

static void check_constant(Dec *d, const Operand *o, Type t) {
    char kind = ptx_type_kind(t);
    bool whole = o->kind == O_IMM, single = o->kind == O_F32;
    if (whole && (t == T_f32 || t == T_f64))
        dec_error(d, "a constant of .%s is a float, like %s", ptx_type_name(t), t == T_f32 ? "0f3F800000 or 1.0" : "0d3FF0000000000000 or 1.0");
    if ((kind == 'F' || kind == 'V') && t != T_f32 && t != T_f64 && t != T_f32x2 && t != T_u16x2 && t != T_s16x2)
        dec_error(d, "there are no constants of .%s: `mov` takes its bits to a register first", ptx_type_name(t));
    if (!whole && (kind == 'U' || kind == 'S')) dec_error(d, "a float constant where .%s is needed", ptx_type_name(t));
    if (!whole && kind == 'B' && t != (single ? T_b32 : T_b64)) dec_error(d, "a constant of .%s where .%s is needed", single ? "f32" : "f64", ptx_type_name(t));
}

static uint64_t immediate_bits(Dec *d, const Operand *o, Type t) {
    uint64_t v = o->bits;
    check_constant(d, o, t);
    if (o->kind == O_IMM) return v;
    bool single = o->kind == O_F32;
    if (t == T_f64) return single ? f64_bits((double)f32_from((uint32_t)v)) : v;
    if (t == T_f32 || t == T_b32) return single ? v : f32_bits((float)f64_from(v));
    if (t == T_b64 || t == T_f32x2) return v;
    dec_error(d, "a float constant where .%s is needed", ptx_type_name(t));
}

static uint32_t lea(Dec *d, uint32_t base, uint64_t offset, uint32_t width) {
    uint32_t t = dec_temp(d, width == 32 ? T_u32 : T_u64);
    Insn *in = dec_emit(d, width == 32 ? x_lea32 : x_lea64);
    in->guard = NO_SLOT;
    in->cls = EMU_CLASS_MOVE;
    in->d = t;
    in->a = base;
    in->imm = (int64_t)offset;
    return t;
}

static uint32_t shared_base(Dec *d, Sym *s) {            // the slot that s->offset is relative to
    if (s->external && !s->size) {
        if (!s->placed) s->offset = 0;
        reader_place_shared(d, s);
        return SPECIAL_SLOT(SP_smem_dynamic);
    }
    if (d->module->has_functions || s->scope) {
        if (!s->placed) reader_place_shared(d, s);
        s->placed = true;
    } else reader_place_shared(d, s);
    return SPECIAL_SLOT(SP_smem_static);
}

static void x_clock(Warp *, const Insn *);
static uint32_t clock_now(Dec *d, const Operand *o, uint32_t width) {
    static const char *const names[] = {"%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"};
    uint32_t t = dec_temp(d, width == 32 ? T_u32 : T_u64);
    Insn *in = dec_emit(d, x_clock);
    in->d = t, in->type = width == 32 ? T_u32 : T_u64;
    for (int i = 0; i < 6; i++)
        if (ptx_str_is(o->name, names[i])) in->imm = i;
    return t;
}

static void check_agrees(Dec *d, const Operand *o, Type t) {
    if (!o->sym || o->type == T_pred || ptx_fits(o->type, t, d->traits & TRAIT_WIDER, d->vector)) return;
    dec_error(d, "`%.*s` has type .%s, and `%.*s` needs .%s here", (int)o->name.n, o->name.s, ptx_type_name(o->type), (int)d->name.n, d->name.s, ptx_type_name(t));
}

static bool is_entry(const EmuModule *m, Str name) {
    for (const Kernel *k = m->kernels; k; k = k->next)
        if (ptx_str_is(name, k->info.name)) return true;
    return false;
}

uint32_t dec_src_op(Dec *d, const Operand *o, Type t) {
    uint32_t width = width_of(t);
    if (t == T_pred) return dec_pred(d, o);
    if (o->negated) dec_error(d, "only a predicate can be negated");
    switch (o->kind) {
    case O_IMM: case O_F32: case O_F64: {
        uint64_t v = immediate_bits(d, o, t);
        if (ptx_type_bits(t) < 32 && width == 32 && o->kind == O_IMM) {
            uint32_t n = ptx_type_bits(t);
            v = ptx_type_is_signed(t) ? (uint64_t)((int64_t)(v << (64 - n)) >> (64 - n)) : v & ((1ull << n) - 1);
        }
        if (width == 128) dec_error(d, "a constant of 128 bits");
        return width == 32 ? dec_const32(d, (uint32_t)v) : dec_const64(d, v);
    }
    case O_REG: {
        uint32_t have = width_of(o->type);
        if (!o->sym && !(d->traits & TRAIT_SPECIALS)) dec_error(d, "`%.*s` is read by `mov` alone: it needs to be in a register here", (int)o->name.n, o->name.s);
        slots_touch(d, o->slot, SLOT_READ);
        check_agrees(d, o, t);
        if (have == width) return o->slot;
        if (!have) dec_error(d, "`%.*s` is a predicate", (int)o->name.n, o->name.s);
        if (have == 128 || width == 128) dec_error(d, "`%.*s` has %u bits, not %u", (int)o->name.n, o->name.s, have, width);
        uint32_t to = dec_temp(d, width == 32 ? T_u32 : T_u64);
        Insn *in = dec_emit(d, have == 64 ? x_narrow : ptx_type_is_signed(t) ? x_widen_s : x_widen_u);
        in->guard = NO_SLOT;
        in->cls = EMU_CLASS_MOVE;
        in->type = (uint8_t)o->type;
        in->d = to;
        in->a = o->slot;
        return to;
    }
    case O_SYM: {
        Sym *s = o->sym;
        if (s && s->kind == SYM_FUNC && s->func) return dec_const64(d, func_address(s->func));
        if (!s && is_entry(d->module, o->name)) dec_error(d, "`%.*s` is a kernel: others do not launch it here", (int)o->name.n, o->name.s);
        if (!s || s->kind != SYM_VAR) dec_error(d, "`%.*s` is not declared", (int)o->name.n, o->name.s);
        if (!(d->traits & TRAIT_ADDRESSES)) dec_error(d, "`%.*s` is a variable: `mov` takes its address to a register first", (int)o->name.n, o->name.s);
        if (s->space == SPACE_SHARED) {
            uint32_t base = shared_base(d, s);
            return lea(d, base, s->offset + (uint64_t)o->offset, width);
        }
        if (s->space == SPACE_LOCAL && s->in_func) return lea(d, SPECIAL_SLOT(SP_frame), s->offset + (uint64_t)o->offset, width);
        uint64_t v = s->offset + (uint64_t)o->offset + (s->space == SPACE_PARAM ? PARAM_WINDOW : 0);
        return width == 32 ? dec_const32(d, (uint32_t)v) : dec_const64(d, v);
    }
    case O_SPECIAL:
        if (!(d->traits & TRAIT_SPECIALS)) dec_error(d, "`%.*s` is read by `mov` alone: it needs to be in a register here", (int)o->name.n, o->name.s);
        if (o->type == T_pred || width == 128) dec_error(d, "`%.*s` is not of .%s", (int)o->name.n, o->name.s, ptx_type_name(t));
        return clock_now(d, o, width);
    case O_SINK: dec_error(d, "`_` is not a source");
    default: dec_error(d, "this operand needs to be a register or a constant");
    }
}

uint32_t dec_src(Dec *d, uint32_t i, Type t) { return dec_src_op(d, dec_op(d, i), t); }

uint32_t dec_dst_op(Dec *d, const Operand *o, Type t) {
    if (t == T_pred) return dec_pred_dst(d, o);
    if (o->kind == O_SINK && d->known && !(d->traits & TRAIT_SINKS) && !d->vector) dec_error(d, "`%.*s` needs a register for its result, not `_`", (int)d->name.n, d->name.s);
    if (o->kind == O_SINK) return dec_temp(d, t);
    if (o->kind != O_REG) dec_error(d, "the destination needs to be a register");
    if (!o->sym) dec_error(d, "`%.*s` cannot be written", (int)o->name.n, o->name.s);
    uint32_t have = width_of(o->type), width = width_of(t);
    slots_touch(d, o->slot, SLOT_WRITTEN);
    check_agrees(d, o, t);
    if (have == width) return o->slot;
    if (!have || have < width || have == 128)
        dec_error(d, "`%.*s` has type .%s, too narrow for .%s", (int)o->name.n, o->name.s, ptx_type_name(o->type),
                  ptx_type_name(t));
    if (d->n_widen == 300) dec_error(d, "too many operands");
    uint32_t from = dec_temp(d, t);
    d->widen[d->n_widen++] = (struct Widen){o->slot, from, (uint8_t)t};
    return from;
}

uint32_t dec_dst(Dec *d, uint32_t i, Type t) { return dec_dst_op(d, dec_op(d, i), t); }

uint32_t dec_pred(Dec *d, const Operand *o) {
    uint32_t slot;
    if (o->kind == O_IMM) slot = dec_const32(d, o->bits ? 0xffffffffu : 0);
    else if (o->kind == O_REG && o->type == T_pred) slot = o->slot;
    else if (o->kind == O_SPECIAL && o->type == T_pred) slot = dec_const32(d, 0xffffffffu);
    else dec_error(d, "`%.*s` is not a predicate", (int)o->name.n, o->name.s ? o->name.s : "");
    slots_touch(d, slot, SLOT_READ);
    if (!o->negated) return slot;
    uint32_t t = dec_temp(d, T_pred);
    Insn *in = dec_emit(d, x_pred_not);
    in->guard = NO_SLOT;
    in->cls = EMU_CLASS_MOVE;
    in->d = t;
    in->a = slot;
    return t;
}

uint32_t dec_pred_dst(Dec *d, const Operand *o) {
    if (o->kind == O_SINK) return dec_temp(d, T_pred);
    if (o->kind != O_REG || o->type != T_pred) dec_error(d, "the destination needs to be a predicate");
    slots_touch(d, o->slot, SLOT_WRITTEN);
    return o->slot;
}

int64_t dec_imm(Dec *d, uint32_t i) {
    const Operand *o = dec_op(d, i);
    if (o->kind != O_IMM) dec_error(d, "operand %u needs to be an integer constant", i + 1);
    return (int64_t)o->bits;
}

// Needs: `in` not yet emitted by the caller's other dec_src calls; call it before dec_emit with a scratch
// Insn and copy a, imm, flags and space over.
void dec_address(Dec *d, const Operand *o, Insn *in, uint8_t space) {
    in->space = space;
    if (o->kind != O_ADDR) dec_error(d, "an address needs [ ]");
    in->imm = o->offset;
    in->flags &= (uint8_t)~ADDR32;
    if (o->bits == 1) {
        uint32_t width = width_of(o->type);
        bool number = ptx_type_kind(o->type) == 'F' || ptx_type_kind(o->type) == 'V';
        if (!width || width == 128 || (number && !o->items)) dec_error(d, "`%.*s` cannot hold an address", (int)o->name.n, o->name.s);
        slots_touch(d, o->slot, SLOT_READ);
        in->a = o->slot;
        if (width == 32) in->flags |= ADDR32;
        return;
    }
    if (o->bits == 2) {
        in->a = dec_const64(d, 0);
        return;
    }
    Sym *s = o->sym;
    if (s->kind != SYM_VAR) dec_error(d, "`%.*s` is not a variable", (int)o->name.n, o->name.s);
    bool in_shared = space == SPACE_SHARED || space == SPACE_CLUSTER;
    if (s->space == SPACE_SHARED) {
        if (!in_shared && space != SPACE_GENERIC) dec_error(d, "`%.*s` is in shared memory", (int)o->name.n, o->name.s);
        in->a = shared_base(d, s);
        in->imm += (int64_t)s->offset;
        in->flags |= ADDR32;
        if (space == SPACE_GENERIC) in->space = SPACE_SHARED;
        return;
    }
    if (in_shared) dec_error(d, "`%.*s` is not in shared memory", (int)o->name.n, o->name.s);
    bool in_frame = s->space == SPACE_LOCAL && s->in_func;
    in->a = in_frame ? SPECIAL_SLOT(SP_frame) : dec_const64(d, 0);
    if (in_frame) in->flags |= ADDR32;
    in->imm += (int64_t)s->offset;
    in->space = s->space;                                // the variable knows best: .param may be local
}

// ---- Statements

static const struct InsnSlot { const InsnDef *def; const struct TypeRow *types; uint8_t traits; } *emu_insn_find(Str name);

// Families that are there in PTX and not here, in words.
static const struct { const char *name, *what; } refused[] = {
    {"tex", "textures"},   {"tld4", "textures"},  {"txq", "textures"},   {"suld", "surfaces"}, {"sust", "surfaces"}, {"sured", "surfaces"},
    {"suq", "surfaces"},   {"istypep", "textures and surfaces"},         {"tcgen05", "instructions of tensor memory (sm_100)"},      {"multimem", "accesses to several devices' memory"},
};

void decode_statement(Dec *d) {
    EmuModule *m = d->module;
    const struct InsnSlot *found = emu_insn_find(d->name);
    char text[200];
    d->n_widen = 0;
    d->first = m->n_code;
    if (!found) {
        spell(d, text, sizeof text);
        for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
            if (ptx_str_is(d->name, refused[i].name)) dec_error(d, "`%s`: %s are not supported", text, refused[i].what);
        dec_error(d, "unknown instruction `%s`", text);
    }
    d->cls = found->def->cls;
    d->traits = found->traits, d->known = found->types;
    types_check(d, found->types);
    slots_statement(d, ptx_str_is(d->name, "ret") || ptx_str_is(d->name, "exit") || ptx_str_is(d->name, "bra") || ptx_str_is(d->name, "brx"));
    found->def->decode(d);
    for (uint32_t i = 0; i < d->n_mods; i++)
        if (!(d->used >> i & 1)) {
            spell(d, text, sizeof text);
            dec_error(d, "unknown instruction `%s` (`.%.*s` is not supported here)", text, (int)d->mods[i].n, d->mods[i].s);
        }
    for (uint32_t i = 0; i < d->n_widen; i++) {
        Insn *in = dec_emit(d, ptx_type_is_signed((Type)d->widen[i].type) ? x_widen_s : x_widen_u);
        in->cls = EMU_CLASS_MOVE;
        in->type = T_u32;
        in->d = d->widen[i].to;
        in->a = d->widen[i].from;
    }
}

void decode_end(Dec *d) {
    d->name = (Str){"ret", 3};
    d->n_mods = d->used = d->n_ops = 0;
    decode_statement(d);
}

// ---- The rows of all tables, hashed once

enum { INSN_SLOTS = 1024 };
static struct InsnSlot insn_slot[INSN_SLOTS];

static uint32_t hash_name(const char *p, uint32_t n) {
    uint32_t h = 2166136261u;
    for (uint32_t i = 0; i < n; i++) h = (h ^ (unsigned char)p[i]) * 16777619u;
    return h % INSN_SLOTS;
}

static struct InsnSlot *slot_named(Str name) {           // its own, or the free one where it would be
    uint32_t i = hash_name(name.s, name.n);
    while (insn_slot[i].def && !ptx_str_is(name, insn_slot[i].def->name)) i = (i + 1) % INSN_SLOTS;
    return &insn_slot[i];
}

static void add_types(Str name, const struct TypeRow *first, uint8_t trait) {
    struct InsnSlot *slot = slot_named(name);
    if (!slot->def) return;
    if (first) slot->types = first;
    slot->traits |= trait;
}

static void fill_slots(void) {
    const InsnTable *tables = insn_tables_base;
#ifdef EMU_HAVE_V3
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) tables = insn_tables_v3;
#endif
    for (; tables->defs; tables++)
        for (const InsnDef *def = tables->defs; def->name; def++) slot_named((Str){def->name, (uint32_t)strlen(def->name)})->def = def;
    types_prepare(add_types);
}

static const struct InsnSlot *emu_insn_find(Str name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, fill_slots);
    const struct InsnSlot *slot = slot_named(name);
    return slot->def ? slot : NULL;
}

// ---- The few executors that decoding itself needs

void x_widen_u(Warp *w, const Insn *in) {
    uint64_t *d = lane64(w, in->d);
    const uint32_t *a = lane32(w, in->a);
    uint32_t keep = in->type && ptx_type_bits((Type)in->type) == 16 ? 0xffff : 0xffffffffu;
    for (int l = 0; l < 32; l++)
        if (w->active >> l & 1) d[l] = a[l] & keep;
}

void x_widen_s(Warp *w, const Insn *in) {
    uint64_t *d = lane64(w, in->d);
    const uint32_t *a = lane32(w, in->a);
    bool half = in->type && ptx_type_bits((Type)in->type) == 16;
    for (int l = 0; l < 32; l++)
        if (w->active >> l & 1) d[l] = (uint64_t)(half ? (int64_t)(int16_t)a[l] : (int64_t)(int32_t)a[l]);
}

void x_narrow(Warp *w, const Insn *in) {
    uint32_t *d = lane32(w, in->d);
    const uint64_t *a = lane64(w, in->a);
    EACH(uint32_t, a[l]);
}

void x_pred_not(Warp *w, const Insn *in) {
    uint32_t *d = pred(w, in->d);
    *d = blend_pred(*d, ~*pred(w, in->a), w->active);
}

void x_lea32(Warp *w, const Insn *in) {
    uint32_t *d = lane32(w, in->d);
    const uint32_t *a = lane32(w, in->a);
    EACH(uint32_t, a[l] + (uint32_t)in->imm);
}

void x_lea64(Warp *w, const Insn *in) {
    uint64_t *d = lane64(w, in->d);
    const uint32_t *a = lane32(w, in->a);
    EACH(uint64_t, (uint64_t)a[l] + (uint64_t)in->imm);
}

static void x_clock(Warp *w, const Insn *in) {           // imm: 0 clock, 1 clock_hi, 2 clock64, 3.. globaltimer
    uint64_t v = 0;
    struct timespec t;
    if (in->imm < 3) {
        for (int i = 0; i < EMU_CLASS_COUNT; i++) v += w->count.instructions[i];
        v *= 4;
    } else {
        clock_gettime(CLOCK_REALTIME, &t);
        v = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    }
    if (in->imm == 1 || in->imm == 5) v >>= 32;
    if (in->imm != 2 && in->imm != 3) v = (uint32_t)v;
    EACH_ACTIVE({
        if (in->type == T_u64) lane64(w, in->d)[l] = v;
        else lane32(w, in->d)[l] = (uint32_t)v;
    });
}
