// Names. A scope is a short list of bindings with a scope around it; lists are searched in order,
// newest first, since symbols are interned and a comparison is one instruction. Long ones, as the values of a graph of
// thousands of launches, have a table.
//
// Order around a kernel's body: block scopes, parameters and compile-time names, the file's items and
// imports, the prelude (lang/std/prelude.tk), and behind all of them the builtins, which are a table.
#include "sema/internal.h"

#include "parser/parser.h"

Scope *scope_new(Check *c, Scope *up) {
    Scope *sc = NEW(c->a, Scope);
    sc->up = up;
    return sc;
}

Scope *scope_push(Check *c) {
    Scope *was = c->scope;
    c->scope = scope_new(c, was);
    c->scope->beside = was ? was->inner : NULL;
    if (was) was->inner = c->scope;
    return was;
}

void scope_pop(Check *c, Scope *was) { c->scope = was; }

enum { SHORT = 32 };

// Where a name is, or would be.
static Bind **slot_of(const Scope *sc, Sym name) {
    uint32_t at = (uint32_t)(((uintptr_t)name >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32) & (sc->size - 1);
    while (sc->slot[at] && sc->slot[at]->name != name) at = (at + 1) & (sc->size - 1);
    return &sc->slot[at];
}

static void make_table(Check *c, Scope *sc) {
    sc->size = sc->slot ? sc->size * 2 : 4 * SHORT;
    sc->slot = NEW_N(c->a, Bind *, sc->size);
    for (Bind *b = sc->first; b; b = b->next) {              // newest first
        Bind **at = slot_of(sc, b->name);
        if (!*at) *at = b;
    }
}

Bind *scope_find_here(const Scope *sc, Sym name) {
    if (sc->slot) return *slot_of(sc, name);
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

// A name of a block that has ended, in one of the scopes that are open.
static const Bind *find_ended(const Scope *sc, Sym name) {
    for (const Scope *in = sc->inner; in; in = in->beside) {
        const Bind *b = scope_find_here(in, name);
        if (b || (b = find_ended(in, name))) return b;
    }
    return NULL;
}

static const Bind *scope_find_ended(const Scope *sc, Sym name) {
    const Bind *b = NULL;
    for (; sc && !b; sc = sc->up) b = find_ended(sc, name);
    return b;
}

Bind *scope_bind(Check *c, Scope *sc, Sym name, Ent e, Span span) {
    Bind *b = NEW(c->a, Bind);
    *b = (Bind){.name = name, .ent = e, .span = span, .next = sc->first};
    sc->first = b;
    sc->n++;
    if (sc->slot ? sc->n * 2 > sc->size : sc->n > SHORT) make_table(c, sc);
    else if (sc->slot) *slot_of(sc, name) = b;
    return b;
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
    if (c->lost) return ent_error(c);
    Diag *d = report(c, E_unknown_name, n->span, n->sym->s);
    const Bind *ended = scope_find_ended(c->scope, n->sym);
    if (ended && ended->span.hi) diag_label(d, ended->span, "this `%s` is gone at the end of its block", n->sym->s);
    suggest_name(c, d, n->sym, n->span);
    return ent_error(c);
}
