// Names in a program that are not taken: not by the language, not by its library, not by what the kernel has.

#include "graph/write/internal.h"

#include <string.h>

static const char *const reserved[] = {
    "kernel", "graph", "fn", "grid", "in", "by", "let", "var", "for", "while", "if", "else", "as", "over", "out", "inout", "return", "test",
    "where", "with", "merge", "true", "false", "import", "weights", "weight", "expect", "type", "axis", "index", "float", "int", "bool",
    "sum", "prod", "max", "min", "any", "every", "mean", "argmax", "argmin", "dot", "zeros", "ones", "full", "exp", "log", "sqrt", "abs",
    "erf", "tanh", "sin", "cos", "floor", "ceil", "round", "trunc", "sort", "inf", "nan", "PI", "LN2", "LOG2E", "reshape", "slice", "random",
    "first", "last", "end", "length", "sigmoid", "silu", "relu", "gelu", "softplus", "elu", "clamp", "square", "sign", "lerp", "identity",
    "strided", "break", "continue", "assert", "print", "tune", "values", "iota", "load", "store", "cumsum", "rename", "fma", "exp2", "log2",
    "rsqrt", "cdiv", "sinh", "cosh", "asinh", "acosh", "atanh", "int_power", "power_of", "power_half", "copysign", "pow", "fmod", "div_trunc", "rem_trunc", "mod_trunc", "mod_floor", "sign_of", "log1p", "expm1",
    "lowest", "align_up", "leaky_relu", "gelu_tanh", "log1p_exp", "bitcast", "isnan", "precise", "within", "rel", "key", "tan", "atan", "acos", "asin", "power", "static_assert",
    "empty",
};

static uint32_t slot_of(const Kernel *k, const char *name) {
    uint32_t at = hash_bytes(0, name, strlen(name)) & (k->name_slots - 1);
    while (k->name_slot[at] && strcmp(k->name_slot[at], name) != 0) at = (at + 1) & (k->name_slots - 1);
    return at;
}

static bool is_named(Kernel *k, const char *name) {
    if (k->names.n * 2 > k->name_slots) {
        k->name_slots = k->name_slots ? k->name_slots * 2 : 128;
        while (k->names.n * 2 > k->name_slots) k->name_slots *= 2;
        k->name_slot = NEW_N(k->arena, const char *, k->name_slots);
        k->in_slots = 0;
    }
    for (; k->in_slots < k->names.n; k->in_slots++) k->name_slot[slot_of(k, k->names.at[k->in_slots])] = k->names.at[k->in_slots];
    return k->name_slots && k->name_slot[slot_of(k, name)];
}

static bool is_taken(Kernel *k, const char *name) {
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (*reserved[i] == *name && strcmp(reserved[i], name) == 0) return true;
    return elem_by_name((Str){name, strlen(name)}) != EL_none || is_named(k, name);
}

const char *g_identifier(Arena *a, const char *text, const char *otherwise) {
    Buf b = {0};
    for (const char *s = text; s && *s; s++) {
        bool letter = (*s >= 'a' && *s <= 'z') || (*s >= 'A' && *s <= 'Z'), digit = *s >= '0' && *s <= '9';
        if (letter || (digit && b.n > 0)) buf_putc(&b, *s);
        else if (b.n > 0 && b.p[b.n - 1] != '_') buf_putc(&b, '_');
    }
    while (b.n > 0 && b.p[b.n - 1] == '_') b.p[--b.n] = 0;
    const char *name = b.n ? arena_printf(a, "%s", b.p) : otherwise;
    buf_free(&b);
    return name;
}

const char *g_dim_word(Graph *g, Ix dim) {
    IxDim *at = &g->tables->dims.at[dim->value];
    const char *like = g_identifier(g->arena, at->name, "N");
    for (int number = 1; !at->word; number++) {              // s0 + 1 and s0 - 1 are s0_1 and s0_1_2
        const char *word = number > 1 ? arena_printf(g->arena, "%s_%d", like, number) : like;
        bool taken = false;
        for (uint32_t i = 0; i < g->tables->dims.n && !taken; i++) {
            const char *other = g->tables->dims.at[i].word;
            taken = (int64_t)i != dim->value && (other ? strcmp(other, word) == 0 : strcmp(g_identifier(g->arena, g->tables->dims.at[i].name, "N"), word) == 0 && (number > 1 || (int64_t)i < dim->value));
        }
        if (!taken) at->word = word;
    }
    return at->word;
}

const char *k_name(Kernel *k, const char *like) {
    const char *name = like;
    size_t n = strlen(like);
    bool digit = n > 0 && like[n - 1] >= '0' && like[n - 1] <= '9', taken = is_taken(k, like);
    KCount *count = NULL;
    for (uint32_t i = 0; i < k->counts.n && !count && taken; i++)
        if (strcmp(k->counts.at[i].like, like) == 0) count = &k->counts.at[i];
    int number = count ? count->next : 2;
    for (; taken && is_taken(k, name); number++)
        name = arena_printf(k->arena, "%s%s%d", like, digit ? "_" : "", number);
    name = arena_printf(k->arena, "%s", name);
    if (count) count->next = number;
    else if (taken) vec_push(k->arena, &k->counts, ((KCount){arena_printf(k->arena, "%s", like), number}));
    vec_push(k->arena, &k->names, name);
    return name;
}
