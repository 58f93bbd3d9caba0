// Indexing: loads, stores and views.
//
// An index is one entity per dimension: a number, an integer scalar or tile, an axis, or `:`. What is
// read has the union of the indices' axes. A *view* is a function with a domain standing for a tensor:
//
//     let h = |m in M, k in K| silu(g[m, k])        h[m, k]  ->  the body with m and k bound to the index
//
// so indexing a view is inlining it. Outside its domain it gives 0, or the `else`, as a tensor does; the
// select that this takes is left out where the index is an axis of the same range, or an access in the body
// checks the same index against the same bound.
#include "sema/internal.h"

#include <string.h>

// ---- what is indexed -------------------------------------------------------------------------------

// The dimension that an index runs over, plus 1; 0: none alone.
static int runs_over(Check *c, Ent idx) {
    const TExpr *end = NULL;
    if (idx.kind == EN_axis) end = idx.axis->hi;
    else if (idx.kind == EN_value && idx.x->kind == TX_var && (uint32_t)idx.x->var->id < c->limit.n)
        end = c->limit.at[idx.x->var->id];
    return end && end->kind == TX_dim ? end->dim + 1 : 0;
}

// A dimension is used when it is indexed, unless by an axis or counter of another dimension: that is how
// a misspelt dimension looks.
static void note_use(Check *c, Ent dim, Ent idx) {
    if (dim.dim <= 0 || (uint32_t)dim.dim > c->dim_seen.n) return;
    int over = runs_over(c, idx);
    if (over == 0 || over == dim.dim) c->dim_seen.at[dim.dim - 1] = true;
}

// Two indices that would each fit the other's place: `b[k, n]` of b: f16[N, K], which reads zeros where N and K differ.
static void note_order(Check *c, const TensorRef *t, const Ent *idx, Span at) {
    for (int i = 0; i < t->rank; i++) {
        for (int j = i + 1; j < t->rank; j++) {
            int a = t->dim[i].dim, b = t->dim[j].dim;
            if (a <= 0 || b <= 0 || a == b || runs_over(c, idx[i]) != b || runs_over(c, idx[j]) != a) continue;
            if (dims_compare(c, t->dim[i], t->dim[j]) == DIMS_same) continue;
            const char *first = c->k->dims[a - 1].name->s, *second = c->k->dims[b - 1].name->s;
            Diag *d = report(c, E_index_order, at, t->name ? t->name->s : "view", first, second, second, first);
            diag_help(d, "change their places, or the dimensions' in the type");
            return;
        }
    }
}

// `x[m, -1]`, which is not the last, or `x[4]` of four.
static void note_outside(Check *c, const TensorRef *t, const Ent *idx, const Node *n) {
    for (int i = 0; i < t->rank && !t->view; i++) {
        bool known = t->dim[i].kind == EN_int;
        if (idx[i].kind != EN_int || (idx[i].i >= 0 && !(known && idx[i].i >= t->dim[i].i))) continue;
        const char *size = known ? arena_printf(c->a, ", which has %lld element%s", (long long)t->dim[i].i,
                                                t->dim[i].i == 1 ? "" : "s")
                                 : "";
        Diag *d = report(c, E_index_outside, n->kid[2 + i]->span, (long long)idx[i].i, i, t->name ? t->name->s : "this",
                         size);
        diag_help(d, "a read gives 0 there, or what stands behind `else`; a store is skipped");
        if (idx[i].i == -1 && !known && t->dim[i].dim > 0)
            diag_help(d, "the last one is `%s - 1`", c->k->dims[t->dim[i].dim - 1].name->s);
        return;
    }
}

bool is_new_axis(const Node *n) {
    return n && n->sym && (n->kind == N_name || n->kind == N_field) &&
           (strcmp(n->sym->s, "None") == 0 || strcmp(n->sym->s, "newaxis") == 0);
}

// `moments(x[m])`, where NumPy has a row: a view of it. `x[m][n]` is nearer to what it means.
static void help_row(Check *c, Diag *d, const TensorRef *t, const Node *n) {
    int last = t->rank - 1, given = (int)n->nkid - 2;
    Str chained = span_text(c->s, (Span){n->span.hi, n->span.hi + 1});
    if (given != last || given == 0 || !t->name || t->dim[last].dim <= 0 || (chained.n && *chained.p == '[')) return;
    Str at = span_text(c->s, (Span){n->kid[2]->span.lo, n->kid[1 + given]->span.hi});
    const char *dim = c->k->dims[t->dim[last].dim - 1].name->s;
    diag_help(d, "the whole of a dimension is `:`, and what a function walks as a tensor is a view: `|i in %s| %s[%.*s, i]`", dim, t->name->s, (int)at.n, at.p);
}

// `let y = x[n];  y[n] = y;`: the tensor has lost its name.
static bool help_hidden(const Check *c, Diag *d, const Node *name) {
    const Bind *near = name->kind == N_name ? scope_find(c->scope, name->sym) : NULL;
    for (const Scope *sc = near ? c->scope : NULL; sc; sc = sc->up) {
        for (const Bind *b = sc->first; b; b = b->next) {
            if (b->name != name->sym || b == near || b->ent.kind != EN_tensor) continue;
            diag_label(d, near->span, "from here on this is `%s`", name->sym->s);
            diag_help(d, "it hides the tensor `%s`: give it another name", name->sym->s);
            return true;
        }
    }
    return false;
}

static bool resolve(Check *c, const Node *n, TensorRef **out, Ent *idx) {
    Ent base = eval(c, n->kid[0]);
    if (base.kind != EN_tensor) {
        if (base.kind == EN_error) return false;
        Diag *d = report(c, E_not_tensor, n->kid[0]->span, ent_text(c, base));
        if (help_hidden(c, d, n->kid[0])) return false;
        bool none = false;
        for (uint32_t i = 2; i < n->nkid; i++) none = none || is_new_axis(n->kid[i]);
        if (base.kind == EN_value && !base.x->type.ptr && base.x->type.naxes) {
            diag_help(d, none ? "tiles align by their axes; there is nothing to expand" : "a tile is used whole; its axes align by name");
            if (!none) diag_help(d, "its value in another place of an axis is `take(x, n - 1 over n)`");
        }
        bool scalar = base.kind == EN_value && !base.x->type.ptr && !base.x->type.naxes;
        if (scalar && base.x->kind == TX_var && base.x->var->param >= 0)
            diag_help(d, "it is a number; a tensor's type has its dimensions: `%s: %s[N]`", base.x->var->name->s, elem_name(base.x->type.elem));
        if (base.kind == EN_value && base.x->type.ptr)
            diag_help(d, "write `load(p + i)` and `store(p + i, v)`, or declare a tensor: `x: %s[N]`",
                      elem_name(base.x->type.elem));
        if (base.kind == EN_fn || base.kind == EN_lambda)
            diag_help(d, "only a function with a domain, `|m in M| ...`, can be indexed");
        return false;
    }
    TensorRef *t = base.tensor;
    *out = t;
    int given = (int)n->nkid - 2;
    if (given != t->rank) {
        Diag *d = report(c, E_index_count, n->span, t->name ? t->name->s : "view", t->rank, t->rank == 1 ? "" : "s",
                         given, given == 1 ? "ex is" : "ices are");
        if (base.span.hi) diag_label(d, base.span, "declared here");
        bool none = false;
        for (int i = 0; i < given; i++) none = none || is_new_axis(n->kid[2 + i]);
        if (none) diag_help(d, "tiles align by their axes; there is nothing to expand");
        else if (t->rank == 0 && !t->view) diag_help(d, "a tensor's dimensions stand in its type: `%s: f32[N]`", t->name->s);
        else if (given < t->rank) {
            diag_help(d, "all of them stand in one pair of brackets: `x[i, j]`");
            help_row(c, d, t, n);
        }
        return false;
    }
    bool ok = true;
    for (int i = 0; i < given; i++) {
        const Node *k = n->kid[2 + i];
        if (!k) return false;
        if (k->kind == N_colon) {
            TAxis *ax = canonical_axis(c, t->dim[i], NULL, k->span);
            idx[i] = ax ? (Ent){.kind = EN_axis, .axis = ax, .span = k->span} : ent_error(c);
            for (int j = 0; ax && j < i; j++) {
                if (n->kid[2 + j]->kind != N_colon || idx[j].kind != EN_axis || idx[j].axis != ax) continue;
                Diag *d = report(c, E_colon_twice, k->span, ax->name->s + 1);
                diag_label(d, n->kid[2 + j]->span, "the same axis, so this would be the diagonal");
                diag_help(d, "make a second axis with `let e = 0 .. %s`, and index with `e`", ax->name->s + 1);
                ok = false;
            }
        } else {
            c->at_index = k->kind == N_name;
            idx[i] = eval(c, k);
            c->at_index = false;
        }
        if (idx[i].kind == EN_error) ok = false;
        else note_use(c, t->dim[i], idx[i]);
    }
    if (ok) note_order(c, t, idx, n->span);
    if (ok) note_outside(c, t, idx, n);
    return ok;
}

static bool index_exprs(Check *c, const Node *n, const Ent *idx, int rank, TExpr **out, TType *t) {
    bool ok = true;
    for (int i = 0; i < rank; i++) {
        out[i] = index_of(c, idx[i], n->kid[2 + i]->span, "an index");
        ok = out[i] && ttype_union(c, t, out[i]->type, n->kid[2 + i]->span) && ok;
    }
    return ok;
}

static bool may_read(Check *c, const TTensor *t, Span at) {
    if (t->mode != PM_OUT) return true;
    Diag *d = report(c, E_read_output, at, t->name->s);
    diag_help(d, "give what is stored there a name, `let t = ...;`, and use that; or declare it `inout`, which also reads what it held before");
    return false;
}

// A view or a function value that a test hands to a reference may read tensors of the test that are no arguments: they
// become parameters when they are read.
static TTensor *adopt(Check *c, TTensor *t, Span at) {
    TKernel *k = c->k;
    for (int i = 0; i < k->nparams; i++) if (k->tensor[i] == t) return t;
    for (int i = 0; i < k->nparams; i++) if (k->tensor[i] && c->adopted[i].tensor == t->param) return k->tensor[i];
    if (k->nparams >= MAX_PARAMS - 8) {
        report(c, E_too_many, at, "kernel", MAX_PARAMS - 8, "parameters");
        c->failed = true;
        return t;
    }
    int i = k->nparams++;
    TTensor *mine = NEW(c->a, TTensor);
    *mine = *t;
    mine->param = i;
    k->params[i] = (LaunchParam){.kind = PK_TENSOR, .mode = PM_IN, .name = t->name, .elem = t->elem, .rank = t->rank};
    k->tensor[i] = mine;
    c->adopted[i] = (TValue){.tensor = t->param, .elem = t->elem};
    return mine;
}

static TExpr *load_expr(Check *c, TTensor *t, TExpr **idx, TType type, TExpr *other, Span at) {
    TExpr *x = tx_new(c, TX_load, type, at, 0);
    x->tensor = c->adopted ? adopt(c, t, at) : t;
    x->nidx = (uint8_t)t->rank;
    x->nkid = (uint32_t)t->rank + 1;
    x->kid = NEW_N(c->a, TExpr *, x->nkid);
    for (int i = 0; i < t->rank; i++) x->kid[i] = idx[i];
    x->kid[t->rank] = other;
    return x;
}

// ---- views -----------------------------------------------------------------------------------------

Ent view_make(Check *c, const Node *n) {
    const Node *domain = n->kid[0];
    TensorRef *t = NEW(c->a, TensorRef);
    t->view = NEW(c->a, Lambda);
    *t->view = (Lambda){.node = n, .env = c->scope, .rt_depth = c->rt_depth};
    if (domain->nkid > MAX_RANK) {
        report(c, E_too_many, n->span, "kernel", MAX_RANK, "dimensions in a tensor");
        return ent_error(c);
    }
    for (uint32_t i = 0; i < domain->nkid; i++) {
        const Node *k = domain->kid[i];
        Range r;
        if (k->kind != N_clause || !k->kid[0]) {
            Diag *d = report(c, E_range_runtime, k->span);
            diag_help(d, "each parameter of a view has a range: `|m in M, k in K| ...`");
            return ent_error(c);
        }
        if (!range_eval(c, k->kid[0], &r)) return ent_error(c);
        t->lo[i] = r.lo;
        t->dim[i] = r.hi;
        if (t->dim[i].kind == EN_value) t->dim[i].x = keep_simple(c, t->dim[i].x, k->sym, k->span);
        if (t->lo[i].kind == EN_value) t->lo[i].x = keep_simple(c, t->lo[i].x, k->sym, k->span);
        t->rank++;
    }
    return (Ent){.kind = EN_tensor, .tensor = t, .span = n->span};
}

static Ent view_body(Check *c, TensorRef *t, const Ent *idx, const Node *n, Span at) {
    Arg args[MAX_RANK];
    for (int i = 0; i < t->rank; i++) args[i] = (Arg){.e = idx[i], .span = n ? n->kid[2 + i]->span : at};
    return call_lambda(c, t->view, args, t->rank, at, t->name);
}

// The element type of a view is that of its body; asked only when a view is passed where `T[M, K]` is wanted.
Elem tensor_elem(Check *c, TensorRef *t, Span at) {
    if (t->elem_known) return t->elem;
    TBody scratch = {0}, *was = c->body;
    uint32_t guards = c->guards.n;
    Ent idx[MAX_RANK];
    c->body = &scratch;
    for (int i = 0; i < t->rank; i++)
        idx[i] = ent_value(
            tx_var(c, var_new(c, t->view->node->kid[0]->kid[i]->sym, ttype_scalar(EL_index), false, at), at));
    Ent e = view_body(c, t, idx, NULL, at);
    c->body = was;
    c->guards.n = guards;
    t->elem_known = true;
    TExpr *x = value_of(c, e, at);
    return t->elem = x && !x->type.ptr ? x->type.elem : EL_none;
}

// What a number was made from: through conversions to index, and names that `let` gave. A loop's counter stays.
static const TExpr *origin(Check *c, const TExpr *x) {
    for (;;) {
        uint32_t id = x->kind == TX_var ? (uint32_t)x->var->id : 0;
        bool named = x->kind == TX_var && !x->var->mutable && id < c->init.n && c->init.at[id] &&
                     !(id < c->limit.n && c->limit.at[id]);
        if (named) x = c->init.at[id];
        else if (x->kind == TX_cast && x->type.elem == EL_index && elem_is_int(x->kid[0]->type.elem)) x = x->kid[0];
        else return x;
    }
}

static bool below(Check *c, const TExpr *x, const TExpr *hi) {   // x <= hi, plainly
    if (tx_same(x, hi)) return true;
    x = origin(c, x);
    if (tx_same(x, hi) || (x->kind == TX_const && hi->kind == TX_const && x->ival <= hi->ival)) return true;
    if (x->kind == TX_const && hi->kind == TX_dim) return x->ival <= 0;
    if (x->kind == TX_fun && x->op == TF_min) return below(c, x->kid[0], hi) || below(c, x->kid[1], hi);
    if (x->kind == TX_fun && x->op == TF_max) return below(c, x->kid[0], hi) && below(c, x->kid[1], hi);
    return x->kind == TX_select && below(c, x->kid[1], hi) && below(c, x->kid[2], hi);
}

static bool above(Check *c, const TExpr *x, const TExpr *lo) {   // x >= lo, plainly; counters start at their first value
    if (tx_same(x, lo)) return true;
    x = origin(c, x);
    if (tx_same(x, lo) || (x->kind == TX_const && lo->kind == TX_const && x->ival >= lo->ival)) return true;
    if (x->kind == TX_var && !x->var->mutable && (uint32_t)x->var->id < c->init.n && c->init.at[x->var->id])
        return above(c, c->init.at[x->var->id], lo);
    if (x->kind == TX_fun && x->op == TF_max) return above(c, x->kid[0], lo) || above(c, x->kid[1], lo);
    if (x->kind == TX_fun && x->op == TF_min) return above(c, x->kid[0], lo) && above(c, x->kid[1], lo);
    if (x->kind == TX_select) return above(c, x->kid[1], lo) && above(c, x->kid[2], lo);
    bool from_zero = lo->kind == TX_const && lo->ival <= 0;
    if (x->kind == TX_dim) return from_zero;
    return from_zero && x->kind == TX_binary && (x->op == OP_add || x->op == OP_mul || x->op == OP_div) &&
           x->type.elem == EL_index && above(c, x->kid[0], lo) && above(c, x->kid[1], lo);
}

static TExpr *as_index(Check *c, Ent e, Span at) { return e.kind == EN_int ? tx_const_int(c, e.i, EL_index, at) : e.x; }

static Ent inside(Check *c, Ent i, Ent lo, Ent hi, Span at) {
    TExpr *l = as_index(c, lo, at), *h = as_index(c, hi, at);
    bool low_ok = false, high_ok = false;
    if (i.kind == EN_axis) {
        low_ok = above(c, i.axis->lo, l);
        high_ok = below(c, i.axis->hi, h);
    } else if (i.kind == EN_int) {
        low_ok = l->kind == TX_const && i.i >= l->ival;
        high_ok = h->kind == TX_const && i.i < h->ival;
    } else if (i.kind == EN_value && i.x->kind == TX_var) {
        low_ok = above(c, i.x, l);
        uint32_t id = (uint32_t)i.x->var->id;
        high_ok = id < c->limit.n && c->limit.at[id] && below(c, c->limit.at[id], h);
    }
    Ent r = ent_bool(true, at);
    if (!low_ok) r = binary(c, OP_land, r, binary(c, OP_ge, i, lo, at, at, at), at, at, at);
    if (!high_ok) r = binary(c, OP_land, r, binary(c, OP_lt, i, hi, at, at, at), at, at, at);
    return r;
}

// A view that is one access, with this index in a dimension as long as the view's, reads 0 there by itself.
static bool load_checks(const Ent v, Ent idx, Ent lo, Ent hi) {
    const TExpr *x = v.kind == EN_value ? v.x : NULL;
    if (!x || x->kind != TX_load || x->kid[x->nidx] || lo.kind != EN_int || lo.i != 0) return false;
    for (int d = 0; d < x->nidx; d++) {
        const TExpr *k = x->kid[d], *dim = x->tensor->dim[d];
        bool same = idx.kind == EN_axis ? k->kind == TX_axis && k->axis[0] == idx.axis
                                        : idx.kind == EN_value && tx_same(k, idx.x);
        bool as_long = hi.kind == EN_int ? dim->kind == TX_const && dim->ival == hi.i : tx_same(dim, hi.x);
        if (same && as_long) return true;
    }
    return false;
}

// What a view gives has every axis of its index, as what a tensor gives: those that its body does not look at, too.
static Ent over_index(Check *c, const TensorRef *t, const Ent *idx, Ent v, Span at) {
    TType all = {0};
    for (int i = 0; i < t->rank; i++) {
        TType one = {0};
        if (idx[i].kind == EN_axis) one.axis[one.naxes++] = idx[i].axis;
        if (!ttype_union(c, &all, idx[i].kind == EN_value ? idx[i].x->type : one, at)) return ent_error(c);
    }
    if (all.naxes == 0 || v.kind == EN_error) return v;
    TExpr *x = value_of(c, v, at);
    if (!x || !ttype_union(c, &all, x->type, at)) return ent_error(c);
    all.elem = x->type.elem;
    all.ptr = x->type.ptr;
    return ent_value(tx_splat(c, x, all, at));
}

static Ent view_load(Check *c, TensorRef *t, Ent *idx, Ent other, const Node *n) {
    Span at = n->span;
    Ent in = ent_bool(true, at);
    for (int i = 0; i < t->rank; i++) {
        if (idx[i].kind == EN_axis || idx[i].kind == EN_int) continue;
        TExpr *x = index_of(c, idx[i], n->kid[2 + i]->span, "an index");
        if (!x) return ent_error(c);
        idx[i] = ent_value(keep(c, x, sym(c->s, "i"), n->kid[2 + i]->span));
    }
    Ent v = view_body(c, t, idx, n, at);
    for (int i = 0; i < t->rank; i++) {
        Span ki = n->kid[2 + i]->span;
        if (other.kind == EN_void && load_checks(v, idx[i], t->lo[i], t->dim[i])) continue;
        in = binary(c, OP_land, in, inside(c, idx[i], t->lo[i], t->dim[i], ki), ki, ki, ki);
    }
    if (v.kind == EN_error || in.kind == EN_error) return v;
    if (in.kind == EN_bool && in.i) return over_index(c, t, idx, v, at);
    TExpr *x = value_of(c, v, at);
    if (!x) return ent_error(c);
    if (other.kind == EN_void) other = x->type.elem == EL_bool ? ent_bool(false, at) : ent_int(0, at);
    TExpr *o = else_exact(c, other, x->type, at);
    return o ? over_index(c, t, idx, select_of(c, in, ent_value(x), ent_value(o), at), at) : ent_error(c);
}

// ---- loads and stores --------------------------------------------------------------------------------

Ent sema_index(Check *c, const Node *n) {
    TensorRef *t = NULL;
    Ent idx[MAX_RANK] = {0};
    if (!resolve(c, n, &t, idx)) return ent_error(c);
    Ent other = n->kid[1] ? eval(c, n->kid[1]) : ent_void();
    if (other.kind == EN_error) return other;
    if (t->view) return view_load(c, t, idx, other, n);
    TExpr *x[MAX_RANK], *o = NULL;
    TType type = ttype_scalar(t->elem);
    if (!index_exprs(c, n, idx, t->rank, x, &type) || !may_read(c, t->t, n->kid[0]->span)) return ent_error(c);
    if (other.kind != EN_void) {
        o = else_exact(c, other, ttype_scalar(t->elem), n->kid[1]->span);
        if (!o || !ttype_union(c, &type, o->type, n->kid[1]->span)) return ent_error(c);
    }
    return ent_value(load_expr(c, t->t, x, type, o, n->span));
}

static bool may_write(Check *c, const TensorRef *t, Span at) {
    if (t->view) {
        report(c, E_write_input, at, t->name ? t->name->s : "a view");
        return false;
    }
    if (t->t->mode != PM_IN) return true;
    Diag *d = report(c, E_write_input, at, t->name->s);
    diag_help(d, "declare it `out` or `inout`");
    return false;
}

// Every axis of the value stored must be one of the index's.
static bool axes_within(Check *c, const TExpr *v, TType idx, const char *name, Span at) {
    for (int i = 0; i < v->type.naxes; i++) {
        TAxis *ax = v->type.axis[i];
        if (type_has(idx, ax)) continue;
        Diag *d = report(c, E_store_axis, at, ax->name->s);
        blame_axis(c, d, v, ax);
        TType shown = idx;
        shown.elem = EL_index;
        diag_primary(d, "the value is %s, the index has axes %s", ttype_text(c, v->type),
                     idx.naxes ? strchr(ttype_text(c, shown), '[') : "[]");
        diag_help(d, "reduce over `%s`, or index `%s` with it", ax->name->s, name);
        note_values(c, d);
        return false;
    }
    return true;
}

void store_index(Check *c, const Node *target, AstOp op, Ent value, Span vspan, Span at) {
    TensorRef *t = NULL;
    Ent idx[MAX_RANK] = {0};
    if (!resolve(c, target, &t, idx) || !may_write(c, t, target->kid[0]->span)) return;
    TExpr *x[MAX_RANK];
    TType type = ttype_scalar(t->elem);
    if (!index_exprs(c, target, idx, t->rank, x, &type) || value.kind == EN_error) return;
    if (op != OP_none) {
        if (!may_read(c, t->t, target->kid[0]->span)) return;
        for (int i = 0; i < t->rank; i++) x[i] = keep(c, x[i], sym(c->s, "i"), target->span);
        TExpr *old = load_expr(c, t->t, x, type, NULL, target->span);
        value = binary(c, op, ent_value(old), value, at, target->span, vspan);
    }
    TExpr *v = value_exact(c, value, ttype_scalar(t->elem), vspan, "the value stored");
    if (!v || !axes_within(c, v, type, t->name->s, vspan)) return;
    TStmt *s = ts_emit(c, TS_store, at);
    s->tensor = t->t;
    s->value = v;
    s->nidx = (uint8_t)t->rank;
    s->idx = NEW_N(c->a, TExpr *, t->rank ? t->rank : 1);
    memcpy(s->idx, x, sizeof *x * (size_t)t->rank);
}

int lvalue_index(Check *c, const Node *n, TTensor **out, TExpr **x, TType *type) {
    TensorRef *t = NULL;
    Ent idx[MAX_RANK] = {0};
    if (!resolve(c, n, &t, idx) || !may_write(c, t, n->kid[0]->span)) return -1;
    *type = ttype_scalar(t->elem);
    if (!index_exprs(c, n, idx, t->rank, x, type)) return -1;
    *out = t->t;
    return t->rank;
}
