// Statements. Each appends typed statements to the body being built; an error leaves its statement out
// and binds what it would have bound to an error, so that the next statement is checked in peace.
//
// `if` on a compile-time value takes one branch and forgets the other. A `for` with several clauses is
// several loops inside each other; `break` leaves them all, `continue` goes on with the innermost.
#include "sema/internal.h"

#include <string.h>

void bind_name(Check *c, const Node *name, Ent e) {
    if (!name || !name->sym) return;
    if (name->sym->n == 1 && name->sym->s[0] == '_') return;
    scope_bind(c, c->scope, name->sym, e, name_at(name));
}

// ---- let, var ----------------------------------------------------------------------------------------

static Ent let_entity(Check *c, Ent e, Sym name, Span at) {
    if (e.kind == EN_void) {
        report(c, E_not_value, at, "nothing");
        return ent_error(c);
    }
    if (e.kind == EN_tensor && e.tensor->view && !e.tensor->name) e.tensor->name = name;
    if (e.kind != EN_value) return e;
    int16_t dim = e.dim;
    e = ent_value(keep(c, e.x, name, at));
    e.dim = dim;
    return e;
}

// What a name of `let` or `var` is declared as: NULL without a type.
const Node *declared_type(const Node *name) { return name->kind == N_param ? name->kid[0] : NULL; }

static Ent var_entity(Check *c, Ent e, const Node *name, Span at) {
    TExpr *x = value_of(c, e, at);
    if (!x) return ent_error(c);
    TVar *v = let_var(c, name->sym, x, true, name_at(name));
    v->type = x->type;
    return ent_value(tx_var(c, v, name_at(name)));
}

static void declare_one(Check *c, const Node *name, Ent e, Span at, bool mutable) {
    const Node *type = declared_type(name);
    const char *what = arena_printf(c->a, "`%s`", name->sym->s);
    TType want;
    if (type && at.lo == name->span.lo && e.kind == EN_value && e.x->type.elem != EL_none &&
        eval_type(c, type, &want) && e.x->type.elem != want.elem) {
        // one of a call's values: there is no place for an `as`
        report(c, E_type_mismatch, at, what, ttype_text(c, e.x->type), ttype_text(c, want));
        e = ent_error(c);
    } else if (type) e = declared_as(c, type, e, at, what);
    // an index's
    if (type && mutable && e.kind == EN_int && eval_type(c, type, &want)) e = ent_value(tx_const_int(c, e.i, want.elem, at));
    bind_name(c, name, mutable ? var_entity(c, e, name, at) : let_entity(c, e, name->sym, name_at(name)));
}

static void check_let(Check *c, const Node *n, bool mutable) {
    const Node *value = n->kid[0];
    int names = (int)n->nkid - 1;
    if (!value) return;
    if (names == 1) {
        const Node *name = n->kid[1];
        declare_one(c, name, value->kind == N_range ? range_axis(c, name->sym, value) : eval(c, value), value->span,
                    mutable);
        return;
    }
    Ent e = eval(c, value);
    bool fits = e.kind == EN_tuple && e.tuple->n == names;
    if (!fits && e.kind != EN_error) {
        int have = e.kind == EN_tuple ? e.tuple->n : 1;
        Diag *d = report(c, E_tuple_count, n->span, names, names == 1 ? "" : "s", have, have == 1 ? "" : "s");
        const char *f = value->kind == N_call && value->kid[0]->kind == N_name ? value->kid[0]->sym->s : "";
        if (strcmp(f, "max") == 0 || strcmp(f, "min") == 0) diag_help(d, "where it is, is `arg%s(x over n)`", f);
        if (strcmp(f, "sort") == 0) diag_help(d, "`sort(x, n over n)` gives the places, too");
    }
    for (int i = 0; i < names; i++) {
        const Node *name = n->kid[1 + i];
        declare_one(c, name, fits ? e.tuple->at[i] : ent_error(c),
                    value->kind == N_tuple && fits ? value->kid[i]->span : name->span, mutable);
    }
}

// ---- assignment --------------------------------------------------------------------------------------

static bool in_outer_loop(Check *c, const TVar *v, Loop *l) {
    (void)c;
    for (uint32_t i = 0; i < l->carried.n; i++) {
        if (l->carried.at[i] == v) return true;
    }
    return false;
}

static TVar *assignable(Check *c, const Node *target) {
    Bind *b = target->sym ? scope_find(c->scope, target->sym) : NULL;
    if (!b && target->sym && !builtin_find(target->sym)) {
        Diag *d = report(c, E_unknown_name, target->span, target->sym->s);
        diag_help(d, "`let %s = ...;` names a value, `var %s = ...;` a variable", target->sym->s, target->sym->s);
        suggest_name(c, d, target->sym, target->span);
        scope_bind(c, c->scope, target->sym, ent_error(c), target->span);
        return NULL;
    }
    if (!b) {
        name_lookup(c, target);
        return NULL;
    }
    b->used = true;
    if (b->ent.kind == EN_error) return ent_error(c), NULL;
    if (b->ent.kind == EN_value && b->ent.x->kind == TX_var && b->ent.x->var->mutable) return b->ent.x->var;
    Diag *d = report(c, E_assign_const, target->span, target->sym->s);
    diag_label(d, b->span, "declared here, as %s", ent_text(c, b->ent));
    if (b->ent.kind == EN_value || is_const(b->ent)) diag_help(d, "declare it with `var`");
    if (b->ent.kind == EN_tensor)
        diag_help(d, "store to its elements: `%s[%s] = ...`", target->sym->s, b->ent.tensor->rank ? "..." : "");
    return NULL;
}

// A variable keeps its element type. It is said once: what reads the variable later would only say it again.
static bool keeps_elem(Check *c, TVar *v, Ent value, Span at, const char *what) {
    if (value.kind != EN_value || value.x->type.ptr || v->type.ptr || value.x->type.elem == v->type.elem) return true;
    const char *had = elem_name(v->type.elem), *has = elem_name(value.x->type.elem);
    const TExpr *first = (uint32_t)v->id < c->init.n ? c->init.at[v->id] : NULL;
    Diag *d = report(c, E_element_type, at, what, ttype_text(c, value.x->type), had);
    diag_label(d, v->span, "`%s` is %s", v->name->s, ttype_text(c, v->type));
    const char *axes = strchr(ttype_text(c, value.x->type), '[');
    bool said = help_converted(c, d, value.x, v->type.elem, at);
    if (!said && first && first->kind == TX_const && axes)
        diag_help(d, "it has axes and a type from the start: `var %s = zeros<%s>(%.*s);`", v->name->s, has, (int)strlen(axes) - 2, axes + 1);
    else if (!said && first && first->kind == TX_const)
        diag_help(d, "write `%s = (...) as %s`, or say what `%s` is: `var %s: %s = ...;`", v->name->s, had, v->name->s,
                  v->name->s, has);
    else if (!said) diag_help(d, "write `%s = (...) as %s`, or declare `%s` as %s", v->name->s, had, v->name->s, has);
    Bind *b = scope_find(c->scope, v->name);
    if (b && b->ent.kind == EN_value && b->ent.x->kind == TX_var && b->ent.x->var == v) b->ent = ent_error(c);
    return false;
}

static void assign_var(Check *c, TVar *v, Ent value, Span vspan, Span at) {
    if (!keeps_elem(c, v, value, vspan, "the value")) return;
    TExpr *x = value_exact(c, value, v->type, vspan, "the value");
    if (!x) return;
    for (int i = 0; i < x->type.naxes; i++) {
        TAxis *ax = x->type.axis[i];
        if (type_has(v->type, ax)) continue;
        Diag *d = report(c, E_assign_axis, vspan, ax->name->s, v->name->s);
        diag_primary(d, "the value is %s, `%s` is %s", ttype_text(c, x->type), v->name->s, ttype_text(c, v->type));
        diag_label(d, v->span, "`%s` keeps the type that it has here", v->name->s);
        blame_axis(c, d, x, ax);
        diag_help(d, "reduce over `%s`, or give `%s` the axis where it is declared: `full(..., %s)`", ax->name->s,
                  v->name->s, ax->name->s);
        note_values(c, d);
        return;
    }
    for (Loop *l = c->loop; l; l = l->up) {
        if (v->id < l->first_var && !in_outer_loop(c, v, l)) vec_push(c->a, &l->carried, v);
    }
    TStmt *s = ts_emit(c, TS_assign, at);
    s->var = v;
    s->value = tx_splat(c, x, v->type, at);
}

static void assign_tuple(Check *c, const Node *n, Ent e) {
    const Node *targets = n->kid[0];
    if (e.kind == EN_error) return;
    if (e.kind != EN_tuple || e.tuple->n != (int)targets->nkid) {
        int have = e.kind == EN_tuple ? e.tuple->n : 1;
        report(c, E_tuple_count, n->span, (int)targets->nkid, targets->nkid == 1 ? "" : "s", have, have == 1 ? "" : "s");
        return;
    }
    Ent *kept = NEW_N(c->a, Ent, e.tuple->n);
    for (int i = 0; i < e.tuple->n; i++) kept[i] = let_entity(c, e.tuple->at[i], sym(c->s, "t"), n->span);
    for (int i = 0; i < e.tuple->n; i++) {
        const Node *t = targets->kid[i], *value = n->kid[1];
        Span written = value->kind == N_tuple && (int)value->nkid == e.tuple->n ? value->kid[i]->span : t->span;
        if (t->kind == N_index) store_index(c, t, OP_none, kept[i], written, n->span);
        else if (t->kind == N_name) {
            TVar *v = assignable(c, t);
            if (v) assign_var(c, v, kept[i], written, n->span);
        }
    }
}

static void check_assign(Check *c, const Node *n) {
    const Node *target = n->kid[0], *value = n->kid[1];
    if (!target || !value) return;
    Span at = n->span;
    if (target->kind == N_list || target->kind == N_tuple) {
        assign_tuple(c, n, eval(c, value));
        return;
    }
    if (target->kind == N_index) {
        store_index(c, target, (AstOp)n->op, eval(c, value), value->span, at);
        return;
    }
    if (target->kind != N_name) {
        report(c, E_not_value, target->span, "this target");
        return;
    }
    TVar *v = assignable(c, target);
    Ent e = eval(c, value);
    if (!v || e.kind == EN_error) return;
    Span vspan = value->span;
    if (n->op != OP_none) {
        e = binary(c, (AstOp)n->op, ent_value(tx_var(c, v, target->span)), e, at, target->span, vspan);
        if (!keeps_elem(c, v, e, at, arena_printf(c->a, "`%s %s ...`", v->name->s, op_spellings[n->op]))) return;
    }
    assign_var(c, v, e, vspan, at);
}

// ---- loops -------------------------------------------------------------------------------------------

static void remember_counter(Check *c, const TVar *v, TExpr *lo, TExpr *hi) {
    while (c->init.n <= (uint32_t)v->id) vec_push(c->a, &c->init, NULL);
    while (c->limit.n <= (uint32_t)v->id) vec_push(c->a, &c->limit, NULL);
    c->init.at[v->id] = lo;
    c->limit.at[v->id] = hi;
}

void counter_bounds(Check *c, const TVar *v, TExpr *lo, TExpr *hi) { remember_counter(c, v, lo, hi); }

static TExpr *bound_expr(Check *c, Ent e, Span at) { return e.kind == EN_int ? tx_const_int(c, e.i, EL_index, at) : e.x; }

// One clause as a loop; the body of the innermost is the statement's.
static void loop_clauses(Check *c, const Node *n, uint32_t i, Loop *l) {
    const Node *clauses = n->kid[0], *k = clauses->kid[i];
    Range r;
    if (!k->kid[0] || !range_eval(c, k->kid[0], &r)) {
        if (k->sym) scope_bind(c, c->scope, k->sym, ent_error(c), name_at(k));
        if (i + 1 < clauses->nkid) loop_clauses(c, n, i + 1, l);
        else check_block(c, n->kid[2]);
        return;
    }
    Sym name = k->sym ? k->sym : sym(c->s, "i");
    TExpr *lo = keep_simple(c, bound_expr(c, r.lo, r.span), name, r.span);
    TExpr *hi = keep_simple(c, bound_expr(c, r.hi, r.span), name, r.span);
    TStmt *s = ts_emit(c, TS_for, n->span);
    s->var = var_new(c, name, ttype_scalar(EL_index), false, name_at(k));
    s->lo = lo;
    s->hi = hi;
    s->step = r.by ? r.step : 1;
    s->label = n->sym;
    remember_counter(c, s->var, lo, hi);
    if (!l->outer) l->outer = s;
    l->inner = s;
    Ent counter = ent_value(tx_var(c, s->var, name_at(k)));
    if (r.by) {
        s->axis = axis_new(c, name, r.step, counter.x, hi, r.span);
        int64_t len;
        if (lo->kind == TX_const && hi->kind == TX_const && !__builtin_sub_overflow(hi->ival, lo->ival, &len) &&
            len % r.step == 0)
            s->axis->full = true;
        counter = (Ent){.kind = EN_axis, .axis = s->axis, .span = name_at(k)};
    }
    scope_bind(c, c->scope, name, counter, name_at(k));
    TBody *was = c->body;
    c->body = &s->body;
    if (i + 1 < clauses->nkid) loop_clauses(c, n, i + 1, l);
    else check_block(c, n->kid[2]);
    c->body = was;
}

static Ent record(Check *c, Loop *l, TVar **vars, Span at) {
    Tuple *t = NEW(c->a, Tuple);
    t->n = (int)l->carried.n;
    t->at = NEW_N(c->a, Ent, t->n + 1);
    t->names = NEW_N(c->a, Sym, t->n + 1);
    for (int i = 0; i < t->n; i++) {
        const TVar *v = l->carried.at[i];
        vars[i] = var_new(c, v->name, v->type, false, at);
        t->at[i] = ent_value(tx_var(c, vars[i], at));
        t->names[i] = v->name;
    }
    return (Ent){.kind = EN_tuple, .tuple = t, .span = at};
}

static void sort_by_id(TVar **v, uint32_t n) {
    for (uint32_t i = 1; i < n; i++) {
        for (uint32_t j = i; j > 0 && v[j - 1]->id > v[j]->id; j--) {
            TVar *t = v[j];
            v[j] = v[j - 1];
            v[j - 1] = t;
        }
    }
}

// `merge |x, y| ...`: how the states of two parts of the loop become one. The parts are records of the
// variables that the loop carries, in order of declaration; so is the result.
static void check_merge(Check *c, const Node *n, Loop *l) {
    const Node *m = n->kid[1];
    TStmt *s = l->outer;
    sort_by_id(l->carried.at, l->carried.n);
    s->ncarried = (int)l->carried.n;
    s->carried = l->carried.at;
    s->merge_x = NEW_N(c->a, TVar *, s->ncarried + 1);
    s->merge_y = NEW_N(c->a, TVar *, s->ncarried + 1);
    s->merge_result = NEW_N(c->a, TExpr *, s->ncarried + 1);
    Ent f = m->kind == N_lambda ? eval(c, m) : ent_error(c);
    if (f.kind != EN_lambda) {
        if (f.kind != EN_error) report(c, E_merge_shape, m->span, "`merge` takes a function of two states: `|x, y| ...`");
        return;
    }
    Arg args[2] = {{.span = m->span}, {.span = m->span}};
    args[0].e = record(c, l, s->merge_x, m->span);
    args[1].e = record(c, l, s->merge_y, m->span);
    TBody *was = c->body;
    c->body = &s->merge_body;
    c->rt_depth++;
    Ent r = call_lambda(c, f.lambda, args, 2, m->span, sym(c->s, "merge"));
    int have = r.kind == EN_tuple ? r.tuple->n : 1;
    if (r.kind != EN_error && have != s->ncarried) {
        Buf b = {0};
        for (int i = 0; i < s->ncarried; i++) buf_printf(&b, "%s`%s`", i ? ", " : "", s->carried[i]->name->s);
        report(c, E_merge_shape, m->span,
               arena_printf(c->a, "`merge` gives %d value%s, but the loop carries %s", have, have == 1 ? "" : "s",
                            b.n ? b.p : "nothing"));
        buf_free(&b);
    } else if (r.kind != EN_error) {
        for (int i = 0; i < s->ncarried; i++) {
            Ent v = r.kind == EN_tuple ? r.tuple->at[i] : r;
            TExpr *x = value_exact(c, v, s->carried[i]->type, m->span,
                                   arena_printf(c->a, "the merged `%s`", s->carried[i]->name->s));
            if (!x) continue;
            TType t = s->carried[i]->type, both = t;
            if (!ttype_union(c, &both, x->type, m->span) || !type_same_axes(both, t)) {
                report(c, E_type_mismatch, m->span, arena_printf(c->a, "the merged `%s`", s->carried[i]->name->s),
                       ttype_text(c, x->type), ttype_text(c, t));
                continue;
            }
            s->merge_result[i] = tx_splat(c, x, t, m->span);
        }
    }
    c->rt_depth--;
    c->body = was;
}

static void check_for(Check *c, const Node *n) {
    if (!n->kid[0] || n->kid[0]->nkid == 0) return;
    Loop l = {.up = c->loop, .label = n->sym, .first_var = c->k->nvars, .frame = c->frame};
    Scope *was = scope_push(c);
    c->loop = &l;
    c->rt_depth++;
    bool failed = c->failed, lost = c->lost;
    int errors = diag_errors(c->s);
    c->failed = c->lost = false;
    loop_clauses(c, n, 0, &l);
    // What the loop carries is known when its body is right: nothing in it depends on a mistake before it, either.
    bool right = !c->failed && !c->lost && diag_errors(c->s) == errors;
    c->failed |= failed;
    c->lost |= lost;
    c->rt_depth--;
    c->loop = l.up;
    scope_pop(c, was);
    if (n->kid[1] && l.outer && right) check_merge(c, n, &l);
}

static void check_while(Check *c, const Node *n) {
    Loop l = {.up = c->loop, .label = n->sym, .first_var = c->k->nvars, .frame = c->frame};
    TStmt *s = ts_new(c, TS_while, n->span);
    TBody *was = c->body;
    l.outer = l.inner = s;
    c->rt_depth++;
    c->body = &s->cond_body;
    Ent e = eval(c, n->kid[0]);
    if (e.kind == EN_bool) s->cond = tx_const_int(c, e.i, EL_bool, n->kid[0]->span);
    else if (e.kind != EN_error) cond_of(c, e, n->kid[0]->span, "the condition of `while`", NULL, &s->cond);
    c->loop = &l;
    c->body = &s->body;
    check_block(c, n->kid[1]);
    c->loop = l.up;
    c->body = was;
    c->rt_depth--;
    if (s->cond && !(s->cond->kind == TX_const && s->cond->ival == 0)) vec_push(c->a, c->body, s);
}

// Of the same function: with the label, or the innermost.
static Loop *loop_of_jump(const Check *c, Sym label) {
    Loop *l = c->loop;
    while (l && l->frame == c->frame && label && l->label != label) l = l->up;
    return l && l->frame == c->frame && l->inner ? l : NULL;
}

static void help_label(Check *c, Diag *d) {
    Buf names = {0};
    for (const Loop *l = c->loop; l && l->frame == c->frame; l = l->up)
        if (l->label) buf_printf(&names, "%s`%s`", names.n ? ", " : "", l->label->s);
    if (names.n) diag_help(d, "the labels of the loops around it are %s", names.p);
    else diag_help(d, "a label stands before its loop: `rows: for m in M { ... break rows; ... }`");
    buf_free(&names);
}

static void check_jump(Check *c, const Node *n) {
    bool out = n->kind == N_break;
    const char *word = out ? "break" : "continue";
    Loop *l = loop_of_jump(c, n->sym);
    if (!l) {
        Diag *d = report(c, E_loop_outside, n->sym ? name_at(n) : n->span, n->sym ? arena_printf(c->a, "%s %s", word, n->sym->s) : word);
        if (n->sym) help_label(c, d);
        return;
    }
    TStmt *s = ts_emit(c, out ? TS_break : TS_continue, n->span);
    s->target = out ? l->outer : l->inner;
}

// ---- if, return ----------------------------------------------------------------------------------------

static void check_if(Check *c, const Node *n) {
    Ent e = eval(c, n->kid[0]);
    if (e.kind == EN_bool) {
        check_block(c, e.i ? n->kid[1] : n->kid[2]);
        return;
    }
    TExpr *cond = NULL;
    if (e.kind != EN_error) cond_of(c, e, n->kid[0]->span, "the condition of `if`", n->kid[1], &cond);
    TStmt *s = ts_new(c, TS_if, n->span);
    s->cond = cond;
    TBody *was = c->body;
    c->rt_depth++;
    c->body = &s->body;
    check_block(c, n->kid[1]);
    c->body = &s->orelse;
    check_block(c, n->kid[2]);
    c->rt_depth--;
    c->body = was;
    if (cond) vec_push(c->a, c->body, s);
}

// What a function gives: a variable's value is its value now.
static void give(Check *c, Ent e, Span at) {
    bool outer = e.kind == EN_value && e.x->kind == TX_var && e.x->var->mutable && e.x->var->id < c->frame->first_var;
    if (outer) e.x = keep(c, e.x, e.x->var->name, at);
    c->frame->result = e;
    c->frame->result.span = at;
    c->frame->returned = true;
}

static void block_value(Check *c, const Node *value) {
    if (c->frame && c->frame->fn) give(c, eval(c, value), value->span);
}

static void check_return(Check *c, const Node *n) {
    Frame *f = c->frame;
    if (!f || !f->fn) {
        Diag *d = report(c, E_return_kernel, n->span);
        diag_help(d, "results are stored to `out` tensors; what is to be left out stands in an `if`");
        return;
    }
    if (c->rt_depth > f->rt_depth) {
        Diag *d = report(c, E_early_return, n->span);
        diag_help(d, "assign to a `var` and return it at the end; `return` may stand in an `if` on compile-time values");
    }
    if (n->nkid == 0) give(c, ent_void(), n->span);
    else if (n->nkid == 1) give(c, eval(c, n->kid[0]), n->kid[0]->span);
    else give(c, eval_tuple(c, n), n->span);
}

// ---- the walk ------------------------------------------------------------------------------------------

static void check_expr_stmt(Check *c, const Node *n) {
    if (!n->kid[0]) return;
    Ent e = eval(c, n->kid[0]);
    if (e.kind != EN_value || !tx_has_effect(e.x)) return;
    if (e.x->kind == TX_block) {                         // only what it does counts
        for (uint32_t i = 0; i < e.x->body.n; i++) vec_push(c->a, c->body, e.x->body.at[i]);
        if (!tx_has_effect(e.x->kid[0])) return;
        e.x = e.x->kid[0];
    }
    TStmt *s = ts_emit(c, TS_eval, n->span);
    s->value = e.x;
}

static void check_stmt(Check *c, const Node *n) {
    switch ((NodeKind)n->kind) {
    case N_let:       check_let(c, n, false); break;
    case N_var:       check_let(c, n, true); break;
    case N_assign:    check_assign(c, n); break;
    case N_for:       check_for(c, n); break;
    case N_while:     check_while(c, n); break;
    case N_if:        check_if(c, n); break;
    case N_break: case N_continue: check_jump(c, n); break;
    case N_return:    check_return(c, n); break;
    case N_expr_stmt: check_expr_stmt(c, n); break;
    case N_block:     check_block(c, n); break;
    case N_error_stmt: c->lost = true; break;
    case N_expect:    report(c, E_test_expect, n->span, "`expect` stands in a `test`"); break;
    default:          report(c, E_not_value, n->span, "this statement"); break;
    }
}

void check_stmts(Check *c, const Node *block) {
    if (!block) return;
    if (block->kind != N_block) {
        check_stmt(c, block);
        return;
    }
    if (c->depth >= limit_of(LIMIT_inlined_nesting)) {
        if (!c->too_big) too_big(c, block->span, LIMIT_inlined_nesting, "statements inside each other");
        return;
    }
    c->depth++;
    for (uint32_t i = 0; i < block->nkid && !c->too_big; i++) {
        if (!block->kid[i]) continue;
        if (block->flags & BLOCK_VALUE && i + 1 == block->nkid) {
            block_value(c, block->kid[i]);
            break;
        }
        check_stmt(c, block->kid[i]);
        if (c->frame && c->frame->returned) break;      // the rest is not reached
    }
    c->depth--;
}

void check_block(Check *c, const Node *block) {
    if (!block) return;
    Scope *was = scope_push(c);
    check_stmts(c, block);
    scope_pop(c, was);
}
