// Names, once for each item: a function that nobody calls, or the branch of a compile-time `if` that no
// instance takes, still has its names looked up.
//
// This is a coarser sieve than evaluation: all that an item declares anywhere counts as declared in all of
// it. What falls through is unknown for certain, and everything else is found when the item is instantiated.
#include "sema/internal.h"

#include <string.h>

typedef struct Names { Check *c; Scope *own; } Names;

static void declare(Names *w, Sym name) {
    if (name && !scope_find_here(w->own, name)) scope_bind(w->c, w->own, name, (Ent){.kind = EN_error}, (Span){0});
}

static void declare_dims(Names *w, const Node *n) {
    if (!n) return;
    if (n->kind == N_name) declare(w, n->sym);
    for (uint32_t i = n->kind == N_call ? 3 : 0; i < n->nkid; i++) declare_dims(w, n->kid[i]);
}

static void collect(Names *w, const Node *n) {
    if (!n) return;
    switch ((NodeKind)n->kind) {
    case N_generic: case N_clause: declare(w, n->sym); break;
    case N_param:
        declare(w, n->sym);
        if (n->kid[0] && n->kid[0]->kind == N_type_tensor) {
            for (uint32_t i = 1; i < n->kid[0]->nkid; i++) declare_dims(w, n->kid[0]->kid[i]);
        }
        break;
    case N_let: case N_var:
        for (uint32_t i = 1; i < n->nkid; i++) declare(w, n->kid[i] ? n->kid[i]->sym : NULL);
        break;
    case N_kernel:                                      // `where P = ...` may define P
        for (uint32_t i = 0; n->kid[2] && i < n->kid[2]->nkid; i++) {
            const Node *e = n->kid[2]->kid[i];
            if (e && e->kind == N_binary && e->kid[0]->kind == N_name) declare(w, e->kid[0]->sym);
        }
        break;
    default: break;
    }
    for (uint32_t i = 0; i < n->nkid; i++) collect(w, n->kid[i]);
}

static bool lost(const Node *n) {                       // to the parser, with what it may have declared
    if (n && n->kind == N_error_stmt) return true;
    for (uint32_t i = 0; n && i < n->nkid; i++) if (lost(n->kid[i])) return true;
    return false;
}

static void look_up(Names *w, const Node *n) {
    static const char *const kinds[] = {"float", "int", "bool", "type", "fn", "axis", "index"};
    if (!n) return;
    if (n->kind == N_named && n->sym && strcmp(n->sym->s, "prec") == 0) return;      // prec = ieee
    if (n->kind == N_name && n->sym && name_lookup(w->c, n).kind == EN_error) declare(w, n->sym);      // said once
    if (n->kind == N_colon_dim && n->sym && !scope_find(w->own, n->sym)) {
        suggest_name(w->c, report(w->c, E_unknown_name, n->span, n->sym->s), n->sym, name_at(n));
    }
    if (n->kind == N_type_name && n->sym && !scope_find(w->own, n->sym) &&
        elem_by_name((Str){n->sym->s, n->sym->n}) == EL_none) {
        bool kind = false;
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) kind = kind || strcmp(kinds[i], n->sym->s) == 0;
        if (!kind) {
            suggest_type(w->c, report(w->c, E_unknown_type, n->span, n->sym->s), n->sym, n->span);
            declare(w, n->sym);
        }
    }
    if (n->kind == N_let || n->kind == N_var) {         // the names themselves are no uses
        look_up(w, n->kid[0]);
        for (uint32_t i = 1; i < n->nkid; i++) if (n->kid[i]) look_up(w, declared_type(n->kid[i]));
        return;
    }
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (n->kind != N_index || !is_new_axis(n->kid[i])) look_up(w, n->kid[i]);
    }
}

bool says_name(const Node *n, Sym name) {
    if (!n) return false;
    if (n->kind == N_name && n->sym == name) return true;
    for (uint32_t i = 0; i < n->nkid; i++) {
        if (says_name(n->kid[i], name)) return true;
    }
    return false;
}

static void check_names(SemaFile *f, const Node *item, Scope *env) {
    Names w = {.c = check_new(f)};
    w.own = scope_new(w.c, env);
    w.c->item = item;
    w.c->scope = w.own;
    collect(&w, item);
    if (!lost(item)) look_up(&w, item);
}

void sema_check_names(SemaFile *f) {
    for (uint32_t i = 0; i < f->kernels.n; i++) check_names(f, f->kernels.at[i], f->scope);
    for (uint32_t i = 0; i < f->fns.n; i++) check_names(f, f->fns.at[i], f->scope);
    for (uint32_t i = 0; i < f->imported.n; i++) check_names(f, f->imported.at[i].node, f->imported.at[i].env);
}
