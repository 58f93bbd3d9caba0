// Types as written in the source: element names, tiles over axes, pointers.
#include "sema/internal.h"

static Elem name_elem(Sym name) { return elem_by_name((Str){name->s, name->n}); }

bool eval_elem(Check *c, const Node *n, Elem *out) {
    if (!n || n->kind == N_error_stmt) return false;
    if ((n->kind != N_type_name && n->kind != N_name) || !n->sym) {
        report(c, E_type_mismatch, n->span, "this", "a type of tiles or pointers", "an element type");
        return false;
    }
    Bind *b = scope_find(c->scope, n->sym);
    if (b) {
        b->used = true;
        if (b->ent.kind == EN_error) return false;
        if (b->ent.kind == EN_type) {
            *out = b->ent.elem;
            return true;
        }
    } else if ((*out = name_elem(n->sym)) != EL_none) return true;
    Diag *d = report(c, E_unknown_type, n->span, n->sym->s);
    if (b) diag_primary(d, "this is %s", ent_text(c, b->ent));
    else {
        suggest_type(c, d, n->sym, n->span);
        scope_bind(c, c->scope, n->sym, ent_error(c), n->span);        // said once
    }
    return false;
}

bool eval_type(Check *c, const Node *n, TType *out) {
    *out = (TType){0};
    if (!n) return false;
    if (n->kind == N_type_ptr) {
        out->ptr = true;
        return eval_elem(c, n->kid[0], &out->elem);
    }
    if (n->kind != N_type_tensor) return eval_elem(c, n, &out->elem);
    if (!eval_elem(c, n->kid[0], &out->elem)) return false;
    bool ok = true;
    for (uint32_t i = 1; i < n->nkid; i++) {
        Ent ax = want_axis(c, n->kid[i]);
        ok = ax.kind == EN_axis && type_add(c, out, ax.axis, n->kid[i]->span) && ok;
    }
    return ok;
}
