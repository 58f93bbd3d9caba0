// Words for messages. Types are written as shapes (`f32[m, n]`), axes as their ranges, compile-time
// names with their value and where it came from, and every message inside inlined code carries the
// chain of calls that led there.
#include "sema/internal.h"

#include <string.h>

const char *place_text(Check *c, Span at) {
    if (at.hi == 0) return "?";
    LineCol lc = span_where(c->s, at.lo);
    const char *slash = strrchr(lc.src->path, '/');
    return arena_printf(c->a, "%s:%u", slash ? slash + 1 : lc.src->path, lc.line);
}

void note_values(Check *c, Diag *d) {
    Buf all = {0};
    for (int i = 0; c->k && i < c->k->nbindings; i++) {
        const TBinding *b = &c->k->bindings[i];
        if (i) buf_puts(&all, "; ");
        binding_print(b, &all);
        buf_printf(&all, " (%s",
                   b->origin == ORIGIN_SET        ? "set by the caller"
                   : b->origin == ORIGIN_INFERRED ? "from the arguments"
                                                  : origin_word(b->origin));
        if (b->span.hi) buf_printf(&all, ", %s", place_text(c, b->span));
        buf_putc(&all, ')');
    }
    if (all.n) diag_note(d, "%s", all.p);
    buf_free(&all);
}

Diag *with_chain(Check *c, Diag *d) {
    int shown = 0;
    for (const Frame *f = c->frame; f; f = f->up) {
        if (!f->up && !f->fn) break;
        bool again = false;                                   // a recursion says it once
        for (const Frame *g = f->up; g && !again; g = g->up) again = g->fn == f->fn && g->call.lo == f->call.lo;
        if (again) continue;
        if (++shown > 6) {
            diag_note(d, "... and more calls around");
            break;
        }
        if (f->call.hi)
            diag_note(d, "in `%s%s`, called at %s", f->name ? f->name->s : "|...|", f->values ? f->values : "",
                      place_text(c, f->call));
    }
    if (!c->k || !c->k->name || c->k->nbindings == 0) return d;
    Buf all = {0};
    instance_print(c->k, &all);
    diag_note(d, "in instance %s", all.p);
    buf_free(&all);
    return d;
}

static const char *elem_text(Elem e) { return e == EL_none ? "nothing" : elem_name(e); }

const char *ttype_text(Check *c, TType t) {
    const char *elem = t.ptr ? arena_printf(c->a, "*%s", elem_name(t.elem)) : elem_text(t.elem);
    if (t.naxes == 0) return elem;
    const char *r = arena_printf(c->a, "%s[%s", elem, t.axis[0]->name->s);
    for (int i = 1; i < t.naxes; i++) r = arena_printf(c->a, "%s, %s", r, t.axis[i]->name->s);
    return arena_printf(c->a, "%s]", r);
}

const char *ent_text(Check *c, Ent e) {
    switch ((EntKind)e.kind) {
    case EN_error:   return "an error";
    case EN_void:    return "nothing";
    case EN_unknown: return "a dimension that is not known yet";
    case EN_int:     return arena_printf(c->a, "the number %lld", (long long)e.i);
    case EN_float:   return arena_printf(c->a, "the number %g", e.f);
    case EN_bool:    return e.i ? "true" : "false";
    case EN_str:     return "a text";
    case EN_type:    return arena_printf(c->a, "the type %s", elem_name(e.elem));
    case EN_kind:    return arena_printf(c->a, "the kind `%s`", e.kindname->s);
    case EN_fn:      return arena_printf(c->a, "the function `%s`", e.fn->node->sym->s);
    case EN_lambda:  return "a function value";
    case EN_builtin: return arena_printf(c->a, "the builtin `%s`", builtin_name(e.builtin));
    case EN_kernel:  return arena_printf(c->a, "the kernel `%s`", e.node->sym->s);
    case EN_graph:   return arena_printf(c->a, "the graph `%s`", e.node->sym->s);
    case EN_tensor:  return e.tensor->view ? "a view" : arena_printf(c->a, "the tensor `%s`", e.tensor->name->s);
    case EN_axis:    return arena_printf(c->a, "axis `%s`", e.axis->name->s);
    case EN_value:   return ttype_text(c, e.x->type);
    case EN_tuple:   return arena_printf(c->a, "a tuple of %d values", e.tuple->n);
    }
    return "?";
}

// `sum(... over n)`, for each axis that there is to choose from.
void help_axes(Check *c, Diag *d, const char *function, TType t) {
    const char *rest = "";
    for (int i = 1; i < t.naxes; i++)
        rest = arena_printf(c->a, "%s%s `over %s`", rest, i + 1 < t.naxes ? "," : " or", t.axis[i]->name->s);
    if (t.naxes) diag_help(d, "write `%s(... over %s)`%s", function, t.axis[0]->name->s, rest);
}

// ---- expressions as text: only what guards and ranges are made of ---------------------------------

static int prec_of(const TExpr *x) {
    if (x->kind != TX_binary) return 9;
    switch ((AstOp)x->op) {
    case OP_mul: case OP_div: case OP_rem: return 8;
    case OP_add: case OP_sub: return 7;
    case OP_and: case OP_or: return 3;
    default: return 5;
    }
}

static const char *text_in(Check *c, const TExpr *x, int around, int depth) {
    if (depth > 12) return "...";
    const char *r;
    switch ((TExprKind)x->kind) {
    case TX_const:
        if (elem_is_float(x->type.elem)) return arena_printf(c->a, "%g", x->fval);
        return arena_printf(c->a, "%lld", (long long)x->ival);
    case TX_var: return x->var->name ? x->var->name->s : "it";
    case TX_dim: return c->k->dims[x->dim].name->s;
    case TX_axis: return x->axis[0]->name->s;
    case TX_cast: case TX_splat: return text_in(c, x->kid[0], around, depth + 1);
    case TX_unary: return arena_printf(c->a, "%s%s", op_spellings[x->op], text_in(c, x->kid[0], 9, depth + 1));
    case TX_fun:
        r = arena_printf(c->a, "%s(%s",
                         x->op == TF_min   ? "min"
                         : x->op == TF_max ? "max"
                                           : "f",
                         text_in(c, x->kid[0], 0, depth + 1));
        for (uint32_t i = 1; i < x->nkid; i++) r = arena_printf(c->a, "%s, %s", r, text_in(c, x->kid[i], 0, depth + 1));
        return arena_printf(c->a, "%s)", r);
    case TX_binary: {
        int p = prec_of(x);
        r = arena_printf(c->a, "%s %s %s", text_in(c, x->kid[0], p, depth + 1), op_spellings[x->op],
                         text_in(c, x->kid[1], p + 1, depth + 1));
        return p < around ? arena_printf(c->a, "(%s)", r) : r;
    }
    case TX_load: return arena_printf(c->a, "%s[...]", x->tensor->name->s);
    default: return "...";
    }
}

const char *expr_text(Check *c, const TExpr *x) { return text_in(c, x, 0, 0); }

const char *axis_text(Check *c, const TAxis *ax) {
    Str src = span_text(c->s, ax->span);
    if (ax->name->s[0] != ':' && src.n > 0 && src.n < 60) {      // as it was written
        return ax->full ? arena_printf(c->a, "%.*s", (int)src.n, src.p)
                        : arena_printf(c->a, "%.*s, %lld elements", (int)src.n, src.p, (long long)ax->extent);
    }
    const char *lo = expr_text(c, ax->lo), *hi = expr_text(c, ax->hi);
    if (ax->full) return arena_printf(c->a, "%s .. %s", lo, hi);
    return arena_printf(c->a, "%s .. %s, %lld elements", lo, hi, (long long)ax->extent);
}

// ---- blame: which operation brought an axis in ------------------------------------------------------

void blame_axis(Check *c, Diag *d, const TExpr *x, const TAxis *ax) {
    for (int steps = 0; steps < 200; steps++) {
        const TExpr *next = NULL;
        if (x->kind == TX_var && (uint32_t)x->var->id < c->init.n) next = c->init.at[x->var->id];
        for (uint32_t i = 0; !next && i < x->nkid; i++) {
            if (x->kid[i] && type_has(x->kid[i]->type, ax)) next = x->kid[i];
        }
        if (!next || !type_has(next->type, ax) || x->kind == TX_load) break;
        if (next->kind == TX_axis && x->kind != TX_var) break;
        x = next;
    }
    diag_label(d, x->span, "axis `%s` comes in here", ax->name->s);
    diag_label(d, ax->span, "axis `%s` is %s", ax->name->s, axis_text(c, ax));
}
