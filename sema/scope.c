// Names. A scope is a short list of bindings with a scope around it; lists are searched in order,
// newest first, since symbols are interned and a comparison is one instruction.
//
// Order around a kernel's body: block scopes, parameters and compile-time names, the file's items and
// imports, the prelude (lang/std/prelude.tk), and behind all of them the builtins, which are a table.
#include "sema/internal.h"

#include "lang/std_embed.h"
#include "parser/parser.h"

#include <string.h>

Scope *scope_new(Check *c, Scope *up) {
    Scope *sc = NEW(c->a, Scope);
    sc->up = up;
    return sc;
}

Scope *scope_push(Check *c) {
    Scope *was = c->scope;
    c->scope = scope_new(c, was);
    return was;
}

void scope_pop(Check *c, Scope *was) { c->scope = was; }

Bind *scope_find_here(const Scope *sc, Sym name) {
    for (Bind *b = sc->first; b; b = b->next) {
        if (b->name == name) return b;
    }
    return NULL;
}

Bind *scope_find(const Scope *sc, Sym name) {
    for (; sc; sc = sc->up) {
        Bind *b = scope_find_here(sc, name);
        if (b) return b;
    }
    return NULL;
}

Bind *scope_bind(Check *c, Scope *sc, Sym name, Ent e, Span span) {
    Bind *b = NEW(c->a, Bind);
    *b = (Bind){.name = name, .ent = e, .span = span, .next = sc->first};
    sc->first = b;
    return b;
}

// ---- unknown names -------------------------------------------------------------------------------

typedef struct Foreign { const char *theirs, *ours; } Foreign;   // besides the parser's table: functions of Triton, CUDA and NumPy

static const Foreign foreign[] = {
    {"rand",          "a kernel computes its random numbers, from a seed and the index, in u32 or u64"},
    {"randn",         "a kernel computes its random numbers, from a seed and the index, in u32 or u64"},
    {"gather",        "write `take(x, i over n)`, or index the tensor itself: `x[i[n]]`"},
    {"roll",          "write `take(x, (n + 1) % N over n)`"},
    {"flip",          "write `take(x, N - 1 - n over n)`"},
    {"math",          "there is no `math` module; functions are called by name: `exp(x)`"},
    {"jnp",           "there is no `jnp` module; functions are called by name: `exp(x)`, `sum(x over n)`"},
    {"libdevice",     "there is no `libdevice` module; functions are called by name: `exp(x)`, `erf(x)`"},
    {"len",           "lengths have names, those of the dimensions in the tensor's type; `length(n)` is an axis's"},
    {"sizeof",        "nothing here counts bytes"},
    {"ceildiv",       "write `cdiv(a, b)`"},
    {"ceil_div",      "write `cdiv(a, b)`"},
    {"clip",          "write `clamp(x, lo, hi)`"},
    {"fmod",          "write `x - trunc(x / y) * y`"},
    {"isinf",         "write `abs(x) == inf`"},
    {"zeros_like",    "write `zeros(m, n)`, with the axes of the tile"},
    {"full_like",     "write `full(v, m, n)`, with the axes of the tile"},
    {"eye",           "write `where(i == j, 1.0, 0.0)`"},
    {"tril",          "write `where(n <= m, x, 0)`"},
    {"triu",          "write `where(n >= m, x, 0)`"},
    {"einsum",        "write `dot(a, b over k)`, or `sum(a * b over k)`"},
    {"bmm",           "write `dot(a, b over k)`: other axes that both have are its batch"},
    {"concat",        "write `where(n < N, a[n], b[n - N])` over an axis of both lengths"},
    {"cat",           "write `where(n < N, a[n], b[n - N])` over an axis of both lengths"},
    {"static_range",  "write `for i in 0 .. 4 { ... }`"},
    {"make_block_ptr", "index the tensor with axes: `x[m, k]`"},
    {"associative_scan", "`cumsum`, `cumprod`, `cummax`, `cummin`, or a loop of `take`, as in docs/language.md"},
    {"printf",        "write `print(\"words\", x)`"},
    {"shfl",          "write `take(x, n + 1 over n)`"},
    {"__shfl_sync",   "write `take(x, n + 1 over n)`"},
    {"__ldg",         "index the tensor: `x[i]`"},
    {"range",         "an axis is made by a range: `let n = 0 .. N by 128`"},
    {"num_programs",  "the grid names its programs: `grid (m in M by 128)`"},
    {"syncthreads",   "barriers are inserted by the compiler"},
    {"debug_barrier", "barriers are inserted by the compiler"},
    {"expf",          "write `exp(x)`"},
    {"sqrtf",         "write `sqrt(x)`"},
    {"fabs",          "write `abs(x)`"},
    {"fmaxf",         "write `max(a, b)`"},
    {"fminf",         "write `min(a, b)`"},
    {"maximum",       "write `max(a, b)`"},
    {"minimum",       "write `min(a, b)`"},
    {"atomicAdd",     "write `atomic_add(x[i], v)`"},
    {"matmul",        "write `dot(a, b over k)`, or `import \"std/matmul.tk\"`"},
    {"pow",           "write `square(x)`, `x * x * x`, or `power(x, y)` of \"std/elementary.tk\""},
    {"transpose",     "index a tensor in the order of its dimensions; tiles have no order to transpose"},
    {"trans",         "index a tensor in the order of its dimensions; tiles have no order to transpose"},
    {"reshape",       "make an axis over the product and divide its index"},
    {"expand_dims",   "tiles align by their axes; there is nothing to expand"},
    {"broadcast_to",  "tiles align by their axes; `full(v, m, n)` makes one of given axes"},
    {"float",         "element types are f16, bf16, f32, f64"},
    {"char",          "write `i8`"},
    {"INFINITY",      "write `inf`"},
    {"NAN",           "write `nan`"},
};

typedef struct Guess { const char *name; int distance; } Guess;

static void consider(Guess *g, const char *have, const char *name) {
    int d = edit_distance(have, name);
    if (d < g->distance) *g = (Guess){name, d};
}

static Guess guess_for(Sym name) {                       // a distance below this is a guess worth making
    return (Guess){NULL, name->n <= 3 ? 2 : name->n <= 6 ? 3 : 4};
}

static bool advise(Diag *d, Sym name) {
    const char *local = foreign_spelling((Str){name->s, name->n});
    for (size_t i = 0; !local && i < sizeof foreign / sizeof *foreign; i++) {
        if (strcmp(foreign[i].theirs, name->s) == 0) local = foreign[i].ours;
    }
    if (local) diag_help(d, "%s", local);
    return local;
}

static void offer(Diag *d, Guess g, Span at) {
    if (!g.name) return;
    diag_help(d, "did you mean `%s`?", g.name);
    diag_fix(d, at, g.name);
}

// A function of the library that is not imported: the file that declares it.
static const char *library_file(Sym name) {
    for (int i = 0; name->s[0] != '_' && std_name(i); i++) {
        size_t size;
        const char *text = std_source(std_name(i), &size);
        for (const char *at = text; (at = strstr(at, "\nfn ")) != NULL; at += 4)
            if (strncmp(at + 4, name->s, name->n) == 0 && (at[4 + name->n] == '(' || at[4 + name->n] == '<')) return std_name(i);
    }
    return NULL;
}

static bool all_capitals(Sym name) {
    for (const char *p = name->s; *p; p++) if (!(*p == '_' || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9'))) return false;
    return true;
}

void suggest_name(Check *c, Diag *d, Sym name, Span at) {
    if (advise(d, name)) return;
    if (name->n <= 1) {
        if (all_capitals(name)) diag_help(d, "a compile-time name is declared with its kernel or function: `<%s = 128>`", name->s);
        else if (c->at_index && c->k->decl && c->k->decl->kind == N_kernel) diag_help(d, "an axis or index is named by the grid, `grid (%s in N by 128)`, by a loop, or by `let %s = 0 .. N by 128;`", name->s, name->s);
        return;
    }
    const char *file = library_file(name);
    if (file) {
        diag_help(d, "it is in the library: `import \"std/%s\";`", file);
        return;
    }
    Guess g = guess_for(name);
    for (const Scope *sc = c->scope; sc; sc = sc->up) {
        for (const Bind *b = sc->first; b; b = b->next)
            if (b->ent.kind != EN_error || !c->k->decl) consider(&g, name->s, b->name->s);      // in an instance: what is wrong itself
    }
    for (int i = 0; i < builtin_count(); i++) consider(&g, name->s, builtin_name_at(i));
    offer(d, g, at);
    if (!g.name && all_capitals(name)) diag_help(d, "a compile-time name is declared with its kernel or function: `<%s = 128>`", name->s);
}

void suggest_type(Check *c, Diag *d, Sym name, Span at) {
    if (advise(d, name) || name->n <= 1) return;
    Guess g = guess_for(name);
    for (const Scope *sc = c->scope; sc; sc = sc->up) {
        for (const Bind *b = sc->first; b; b = b->next) {
            if (b->ent.kind == EN_type) consider(&g, name->s, b->name->s);
        }
    }
    for (int e = EL_none + 1; e < EL_COUNT; e++) consider(&g, name->s, elem_name((Elem)e));
    offer(d, g, at);
}

Ent name_lookup(Check *c, const Node *n) {
    Bind *b = scope_find(c->scope, n->sym);
    if (b) {
        b->used = true;
        if (c->pinning && b->ent.kind == EN_tensor) recipe_lost(c);       // its dimensions may be asked for
        return c->pinning ? recipe_pin(c, b->ent) : b->ent;
    }
    Ent e = {0};
    if (builtin_const(c, n->sym, n->span, &e)) return e;
    const Builtin *f = builtin_find(n->sym);
    if (f) return (Ent){.kind = EN_builtin, .builtin = f, .span = n->span};
    Diag *d = report(c, E_unknown_name, n->span, n->sym->s);
    suggest_name(c, d, n->sym, n->span);
    return ent_error(c);
}
