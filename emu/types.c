// What types each instruction has, which modifiers it cannot do without, and which registers are of a type: the tables of the manual.
//
//     {"add", "sat", "s32 f32 f16 f16x2", NULL}     add.sat has these types
//     {"add", NULL,  "u16 s16 ...",       NULL}     any other add, these
//     {"cvt", NULL,  "u8 ... / u8 ..."}             first type / second type
//
// The rows of a name stand together. Of those whose modifiers (any one of the second column) a statement has, the first is its form that
// has the statement's types; where none has, the types that they do have are said. The last column are groups of modifiers, one of each
// of which has to be there. An instruction without a row says itself what it takes (mma, wgmma, wmma, ldmatrix, video instructions).
#include "emu/exec.h"
#include "emu/reader.h"

#define WIDE_INT "u32 u64 s32 s64 "
#define INT      "u16 s16 " WIDE_INT
#define HALF     "f16 f16x2 bf16 bf16x2 "
#define FLOAT    "f32 f64 " HALF
#define BITS     "b16 b32 b64 "
#define LOGIC    "pred " BITS
#define MEMORY   "b8 b16 b32 b64 b128 u8 u16 u32 u64 s8 s16 s32 s64 f32 f64 "
#define ROUND    "rn rz rm rp"
#define ORDERED  "lt le gt ge"
#define UNSIGNED "lo ls hi hs"
#define OF_FLOAT "equ neu ltu leu gtu geu num nan"

static const struct TypeRow { const char *name, *with, *types, *needs; } rows[] = {
    {"add", "cc", WIDE_INT, NULL},        {"add", "sat", "s32 f32 f16 f16x2 / f16 bf16", NULL},
    {"add", NULL, INT FLOAT "f32x2 u16x2 s16x2 / f16 bf16", NULL},
    {"sub", "cc", WIDE_INT, NULL},        {"sub", "sat", "s32 f32 f16 f16x2 / f16 bf16", NULL},
    {"sub", NULL, INT FLOAT "f32x2 / f16 bf16", NULL},
    {"addc", NULL, WIDE_INT, NULL},       {"subc", NULL, WIDE_INT, NULL},
    {"mul", "lo hi", INT, NULL},          {"mul", "wide", "u16 s16 u32 s32 ", NULL},     {"mul", NULL, FLOAT "f32x2 ", NULL},
    {"mad", "cc", WIDE_INT, "lo hi"},        {"mad", "lo hi", INT, NULL},                   {"mad", "wide", "u16 s16 u32 s32 ", NULL},
    {"mad", NULL, "f32 f64 ", ROUND},     {"madc", NULL, WIDE_INT, "lo hi"},
    {"mul24", NULL, "u32 s32 ", "lo hi"}, {"mad24", NULL, "u32 s32 ", "lo hi"},          {"sad", NULL, INT, NULL},
    {"div", "approx full", "f32 ", NULL}, {"div", NULL, INT, NULL},                      {"div", NULL, "f32 f64 ", "approx full " ROUND},
    {"rem", NULL, INT, NULL},             {"abs", NULL, "s16 s32 s64 " FLOAT, NULL},     {"neg", NULL, "s16 s32 s64 " FLOAT, NULL},
    {"min", "relu", "s32 s16x2 " HALF, NULL},                                            {"min", NULL, INT FLOAT "u16x2 s16x2 ", NULL},
    {"max", "relu", "s32 s16x2 " HALF, NULL},                                            {"max", NULL, INT FLOAT "u16x2 s16x2 ", NULL},
    {"fma", NULL, FLOAT "f32x2 / f16 bf16", ROUND},
    {"rcp", NULL, "f32 f64 ", "approx " ROUND},       {"sqrt", NULL, "f32 f64 ", "approx " ROUND},
    {"rsqrt", NULL, "f32 f64 ", "approx"},            {"sin", NULL, "f32 ", "approx"},   {"cos", NULL, "f32 ", "approx"},
    {"lg2", NULL, "f32 ", "approx"},      {"ex2", "ftz", "f32 " HALF, "approx"},          {"ex2", NULL, "f32 f16 f16x2 ", "approx"},          {"tanh", NULL, "f32 " HALF, "approx"},
    {"popc", NULL, "b32 b64 ", NULL},     {"clz", NULL, "b32 b64 ", NULL},               {"brev", NULL, "b32 b64 ", NULL},
    {"bfind", NULL, WIDE_INT, NULL},      {"bfe", NULL, WIDE_INT, NULL},                 {"bfi", NULL, "b32 b64 ", NULL},
    {"szext", NULL, "u32 s32 ", NULL},    {"bmsk", NULL, "b32 ", NULL},                  {"fns", NULL, "b32 ", NULL},
    {"dp4a", NULL, "u32 s32 / u32 s32 ", NULL},       {"dp2a", NULL, "u32 s32 / u32 s32 ", NULL},
    {"testp", NULL, "f32 f64 ", NULL},    {"copysign", NULL, "f32 f64 ", NULL},
    {"and", NULL, LOGIC, NULL},           {"or", NULL, LOGIC, NULL},                     {"xor", NULL, LOGIC, NULL},
    {"not", NULL, LOGIC, NULL},           {"cnot", NULL, BITS, NULL},                    {"lop3", NULL, "b32 ", NULL},
    {"shf", NULL, "b32 ", NULL},          {"shl", NULL, BITS, NULL},                     {"shr", NULL, BITS INT, NULL},
    {"prmt", NULL, "b32 ", NULL},
    {"setp", UNSIGNED, "u16 u32 u64 ", NULL},         {"setp", OF_FLOAT, FLOAT, NULL},   {"setp", ORDERED, INT FLOAT, NULL},
    {"setp", NULL, BITS INT FLOAT, NULL},
    {"set", UNSIGNED, "u32 s32 f32 / u16 u32 u64 ", NULL},
    {"set", OF_FLOAT, "u32 s32 f32 u16 s16 " HALF "/ " FLOAT, NULL},
    {"set", ORDERED, "u32 s32 f32 u16 s16 " HALF "/ " INT FLOAT, NULL},
    {"set", NULL, "u32 s32 f32 u16 s16 " HALF "/ " BITS INT FLOAT, NULL},
    {"selp", NULL, BITS INT "f32 f64 ", NULL},        {"slct", NULL, BITS INT "f32 f64 / s32 f32 ", NULL},
    {"mov", NULL, LOGIC "b128 " INT "f32 f64 ", NULL},
    {"cvt", "pack", "u16 s16 u8 s8 u4 s4 u2 s2 / s32 / b32 ", NULL},
    {"cvt", NULL, "u8 s8 " INT FLOAT "tf32 e4m3x2 e5m2x2 e2m1x2 e2m3x2 e3m2x2 ue8m0x2 e4m3x4 e5m2x4 e2m3x4 e3m2x4 e2m1x4 "
                  "/ u8 s8 " INT FLOAT "e4m3x2 e5m2x2 e2m1x2 e2m3x2 e3m2x2 ue8m0x2 ", NULL},
    {"cvta", NULL, "u64 ", NULL},         {"mapa", NULL, WIDE_INT, NULL},                {"getctarank", NULL, WIDE_INT, NULL},
    {"alloca", NULL, "u64 ", NULL},
    {"ld", NULL, MEMORY, NULL},           {"ldu", NULL, MEMORY, NULL},
    {"st", "async", "b32 b64 " WIDE_INT "f32 f64 ", NULL},                               {"st", NULL, MEMORY, NULL},
    {"atom", "add", "u32 s32 u64 " FLOAT, NULL},      {"atom", "inc dec", "u32 ", NULL}, {"atom", "and or xor", "b32 b64 ", NULL},
    {"atom", "min max", WIDE_INT HALF, NULL},         {"atom", "exch", "b32 b64 b128 ", NULL},
    {"atom", "cas", "b16 b32 b64 b128 ", NULL},
    {"red", "add", "u32 s32 u64 " FLOAT, NULL},       {"red", "inc dec", "u32 ", NULL},  {"red", "and or xor", "b32 b64 ", NULL},
    {"red", "min max", WIDE_INT HALF, NULL},
    {"cp", "add", "u32 s32 u64 f32 f64 f16 bf16 ", NULL},                                {"cp", "min max", WIDE_INT "f16 bf16 ", NULL},
    {"cp", "inc dec", "u32 ", NULL},      {"cp", "and or xor", "b32 b64 ", NULL},        {"cp", "mbarrier", "b64 ", NULL},
    {"shfl", NULL, "b32 ", NULL},         {"vote", "ballot", "b32 ", NULL},              {"vote", NULL, "pred ", NULL},
    {"match", NULL, "b32 b64 ", NULL},    {"activemask", NULL, "b32 ", NULL},
    {"redux", "and or xor", "b32 ", NULL},            {"redux", "min max", "u32 s32 f32 ", NULL},     {"redux", NULL, "u32 s32 ", NULL},
    {"bar", "popc", "u32 ", NULL},        {"bar", NULL, "pred ", NULL},                  {"barrier", "popc", "u32 ", NULL},
    {"barrier", NULL, "pred ", NULL},     {"nanosleep", NULL, "u32 ", NULL},             {"mbarrier", NULL, "b64 ", NULL},
    {"mma", NULL, NULL, "sync;aligned"},  {"wgmma", NULL, NULL, "sync"},         {"ldmatrix", NULL, NULL, "sync;aligned"},
    {"stmatrix", NULL, NULL, "sync;aligned"},         {"movmatrix", NULL, "b16 ", "sync;aligned"},    {"setmaxnreg", NULL, "u32 ", "sync;aligned"},
};

enum { ROWS = sizeof rows / sizeof *rows, POSITIONS = 3 };
_Static_assert(T_COUNT <= 64, "a set of types is 64 bits");
static uint64_t sets[ROWS][POSITIONS];                   // of rows[i].types

// Instructions whose registers may be larger than their types; which read special registers; which take addresses of variables; whose
// result may be `_`; which have vectors.
static const struct { uint8_t trait; const char *names; } traits[] = {
    {TRAIT_WIDER, "ld ldu st cvt"}, {TRAIT_SPECIALS, "mov cvt"}, {TRAIT_ADDRESSES, "mov cvta mapa getctarank"},
    {TRAIT_SINKS, "lop3 atom mbarrier shfl match mma wgmma ldmatrix setmaxnreg"}, {TRAIT_VECTORS, "ld ldu st atom red"}};

// Whether one of the words of the `n` characters at `list` is `s`.
static bool is_one_of(Str s, const char *list, size_t n) {
    for (const char *at = list, *end = list + n; at < end; at += strspn(at, " ")) {
        size_t k = strcspn(at, " ;");
        if (k == s.n && !memcmp(at, s.s, k)) return true;
        at += k;
        if (*at == ';') break;
    }
    return false;
}

static bool has_one_of(const Dec *d, const char *list, size_t n) {
    for (uint32_t i = 0; i < d->n_mods; i++)
        if (is_one_of(d->mods[i], list, n)) return true;
    return false;
}

static bool is_form(const Dec *d, const struct TypeRow *row) { return !row->with || has_one_of(d, row->with, strlen(row->with)); }

void types_prepare(void (*found)(Str name, const struct TypeRow *first, uint8_t trait)) {
    for (size_t i = 0; i < ROWS; i++) {
        uint32_t at = 0;
        for (const char *p = rows[i].types ? rows[i].types : ""; *p; p += strspn(p, " ")) {
            Str word = {p, (uint32_t)strcspn(p, " ")};
            if (*p == '/') at++;
            else sets[i][at] |= 1ull << ptx_type_named(word);
            p += word.n;
        }
        if (!i || strcmp(rows[i].name, rows[i - 1].name) != 0) found((Str){rows[i].name, (uint32_t)strlen(rows[i].name)}, &rows[i], 0);
    }
    for (size_t i = 0; i < sizeof traits / sizeof *traits; i++)
        for (const char *p = traits[i].names; *p; p += strspn(p, " ")) {
            Str word = {p, (uint32_t)strcspn(p, " ")};
            found(word, NULL, traits[i].trait);
            p += word.n;
        }
}

static bool has_types(const Dec *d, size_t row) {
    uint32_t at = 0;
    for (uint32_t i = 0; i < d->n_mods; i++)
        if (d->types[i] && at < POSITIONS && !(sets[row][at++] >> d->types[i] & 1)) return false;
    return true;
}

static _Noreturn void no_such_types(Dec *d, size_t first) {
    char have[400] = "", asked[80] = "";
    uint64_t all[POSITIONS] = {0};
    bool any = false;                                    // a row for the statement's modifiers: not the others, then
    for (size_t i = first; i < ROWS && !strcmp(rows[i].name, rows[first].name); i++) {
        if (rows[i].with ? !is_form(d, &rows[i]) : any) continue;
        any |= rows[i].with != NULL;
        for (int p = 0; p < POSITIONS; p++) all[p] |= sets[i][p];
    }
    for (int p = 0; p < POSITIONS && all[p]; p++) {
        if (p) snprintf(have + strlen(have), sizeof have - strlen(have), " /");
        for (Type t = T_none + 1; t < T_COUNT; t++)
            if (all[p] >> t & 1) snprintf(have + strlen(have), sizeof have - strlen(have), " .%s", ptx_type_name(t));
    }
    for (uint32_t i = 0; i < d->n_mods; i++)
        if (d->types[i]) snprintf(asked + strlen(asked), sizeof asked - strlen(asked), ".%s", ptx_type_name(d->types[i]));
    dec_error(d, "`%.*s` of %s does not exist; its types are%s", (int)d->name.n, d->name.s, asked, have);
}

static void check_needs(Dec *d, const char *needs) {
    for (const char *group = needs; *group; group += strspn(group, ";")) {
        size_t n = strcspn(group, ";");
        if (!has_one_of(d, group, n)) dec_error(d, "`%.*s` needs one of these modifiers: %.*s", (int)d->name.n, d->name.s, (int)n, group);
        group += n;
    }
}

void types_check(Dec *d, const struct TypeRow *first) {
    bool typed = false;
    d->vector = d->traits & TRAIT_VECTORS && has_one_of(d, "v2 v4 v8", 8);
    for (uint32_t k = 0; k < d->n_mods; k++) typed |= (d->types[k] = ptx_type_named(d->mods[k])) != T_none;
    if (!first) return;
    size_t start = (size_t)(first - rows);
    for (size_t i = start; i < ROWS && !strcmp(rows[i].name, first->name); i++) {
        if (!is_form(d, &rows[i])) continue;
        if (rows[i].types && typed && !has_types(d, i)) {
            if (rows[i].with) break;
            continue;
        }
        if (rows[i].needs) check_needs(d, rows[i].needs);
        return;
    }
    if (typed) no_such_types(d, start);
}

// Which registers are of a type. Those of bits are of any type of their size, those of integers of any integer type; a float's are its own.
// Where an instruction takes larger ones (loads, stores, conversions), a float is in larger ones of bits alone. In a vector that is loaded
// or stored, an integer of its size may stand for a float (ptxas takes it, though the manual does not say so).
bool ptx_fits(Type reg, Type t, bool wider, bool vector) {
    uint32_t have = ptx_type_bits(reg), bits = ptx_type_bits(t);
    char kind = ptx_type_kind(t);
    bool bare = ptx_type_kind(reg) == 'B';
    if (vector && have == bits && ptx_type_kind(reg) != 'F') return true;
    if (t == T_f16 || t == T_f32 || t == T_f64 || t == T_f16x2) return reg == t || (bare && (have == bits || (wider && have > bits)));
    if ((kind == 'F' || kind == 'V') && t != T_u16x2 && t != T_s16x2) return have == bits && (bare || reg == t);
    return (have == bits || (wider && have > bits)) && (kind == 'B' || ptx_type_kind(reg) != 'F');
}
