// What the names of a kernel's head stand for: compile-time parameters and dimensions.
//
// A compile-time name gets its value from, in this order: what the caller sets, the tensor it stands in
// (`D` in `q: T[H, S, D]`, when that dimension is known), its default, and the fallback after `or`, which
// is taken when the default asks for a dimension that is not known. A dimension that has to be a number
// (`:` stands for it) gets one the same way, 128 at last; either way the number becomes a guard, `D == 128`.
#include "sema/kernel.h"

#include <string.h>

enum { FALLBACK_DIM = 128 };

// ---- compile-time parameters -----------------------------------------------------------------------------

static bool kind_accepts(const char *kind, Ent e) {
    if (strcmp(kind, "float") == 0) return e.kind == EN_type && elem_is_float(e.elem);
    if (strcmp(kind, "type") == 0) return e.kind == EN_type;
    if (strcmp(kind, "int") == 0) return e.kind == EN_int;
    if (strcmp(kind, "bool") == 0) return e.kind == EN_bool;
    if (strcmp(kind, "axis") == 0) return e.kind == EN_axis;
    if (strcmp(kind, "fn") == 0) return e.kind == EN_fn || e.kind == EN_lambda || e.kind == EN_builtin;
    return e.kind != EN_value && e.kind != EN_void;
}

static const char *kind_words(const char *kind) {
    static const char *const rows[][2] = {{"float", "a float type"}, {"type", "an element type"}, {"int", "an integer"},
                                          {"bool", "true or false"}, {"axis", "an axis"},         {"fn", "a function"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (strcmp(rows[i][0], kind) == 0) return rows[i][1];
    }
    return "known at compile time";
}

bool generic_bind(Check *c, Scope *sc, const Node *g, Ent e, Origin origin, Span at) {
    const char *kind = g->kid[0] && g->kid[0]->sym ? g->kid[0]->sym->s : "";
    if (e.kind == EN_error) return false;
    if (strcmp(kind, "bool") == 0 || (g->kid[1] && g->kid[1]->kind == N_bool)) e = recipe_pin(c, e);
    if (strcmp(kind, "bool") == 0 && e.kind == EN_int && (e.i == 0 || e.i == 1)) e = ent_bool(e.i, e.span);
    if (!*kind && g->kid[1] && g->kid[1]->kind == N_bool && e.kind == EN_int && (e.i == 0 || e.i == 1))
        e = ent_bool(e.i, e.span);
    if (e.kind == EN_value && e.dim > 0 && (strcmp(kind, "int") == 0 || !*kind)) {
        int64_t v;
        int16_t dim = e.dim;
        if (!dim_fixed(c, e, &v, at)) return false;
        e = ent_int(v, at);
        e.dim = dim;
    }
    if (!kind_accepts(kind, e)) {
        Diag *d = report(c, E_generic_kind, at, g->sym->s, kind_words(kind), ent_text(c, e));
        diag_label(d, name_at(g), "declared here");
        return false;
    }
    e.origin = (uint8_t)origin;
    scope_bind(c, sc, g->sym, e, name_at(g));
    return true;
}

static const SemaValue *find_value(const SemaValue *v, int n, Sym name, bool is_type) {
    for (int i = 0; i < n; i++) {
        if (strcmp(v[i].name, name->s) == 0 && v[i].is_type == is_type) return &v[i];
    }
    return NULL;
}

static void add_binding(Check *c, Sym name, Ent e, Origin origin, Span at) {
    TBinding *all = NEW_N(c->a, TBinding, c->k->nbindings + 1);
    if (c->k->nbindings) memcpy(all, c->k->bindings, sizeof *all * (size_t)c->k->nbindings);
    TBinding *b = &all[c->k->nbindings++];
    *b = (TBinding){.name = name,
                    .ival = e.kind == EN_type ? 0 : e.i,
                    .elem = e.kind == EN_type ? e.elem : EL_none,
                    .is_type = e.kind == EN_type,
                    .origin = origin,
                    .span = at};
    c->k->bindings = all;
}

int head_dim(const Check *c, Sym name) {
    for (int i = 0; i < c->k->ndims; i++) {
        if (c->k->dims[i].name == name) return i;
    }
    return -1;
}

bool head_equation(const Node *w) {
    return w && w->kind == N_binary && w->op == OP_eq && w->name_span.hi - w->name_span.lo == 1 && w->kid[0]->kind == N_name;
}

// Names that only `where` defines, for defaults: each of those before it.
static void where_names(Check *c) {
    const Node *list = c->k->decl->kid[2];
    for (uint32_t i = 0; list && i < list->nkid; i++) {
        const Node *w = list->kid[i];
        if (!head_equation(w) || head_dim(c, w->kid[0]->sym) >= 0) continue;
        int before = diag_count(c->s);
        Ent e = eval(c, w->kid[1]);
        diag_forget(c->s, before);                             // it is evaluated for good later
        scope_bind(c, c->scope, w->kid[0]->sym, e.kind == EN_int ? e : ent_unknown(), w->span);
    }
}

// Dimensions as the default of a `<>` name sees them: numbers if known, else nothing is known.
static Ent default_of(Check *c, const Node *g) {
    Scope *was = scope_push(c);
    for (int i = 0; i < c->k->ndims; i++) {
        Sym name = c->k->dims[i].name;
        if (scope_find_here(c->scope->up, name)) continue;
        const SemaValue *v = find_value(c->known, c->nknown, name, false);
        if (!v) v = find_value(c->set, c->nset, name, false);
        scope_bind(c, c->scope, name, v ? ent_int(v->ival, g->span) : ent_unknown(), g->span);
    }
    bool failed = c->failed;
    where_names(c);
    c->failed = failed;
    Ent e = eval(c, g->kid[1]);
    for (int i = 0; i < c->k->ndims; i++) {
        const Bind *b = scope_find_here(c->scope, c->k->dims[i].name);
        if (b && b->used) {
            c->dim_seen.at[i] = true;
            c->k->reads[i] = true;
        }
    }
    c->scope = was;
    return e;
}

// A function that was named from outside, as in `--set ACT=gelu`: what the kernel's file sees by that name.
static Ent fn_of_name(Check *c, const Node *g, const char *text) {
    Ent e = ent_void();
    Sym name = sym(c->s, text);
    if (!g->kid[0] || !g->kid[0]->sym || strcmp(g->kid[0]->sym->s, "fn") != 0) {
        Diag *d = report(c, E_generic_kind, name_at(g), g->sym->s,
                         kind_words(g->kid[0] && g->kid[0]->sym ? g->kid[0]->sym->s : "int"),
                         arena_printf(c->a, "`%s`", text));
        diag_label(d, name_at(g), "declared here");
        return ent_error(c);
    }
    const Bind *b = scope_find(c->file->scope, name);
    if (b) e = b->ent;
    const Builtin *builtin = b ? NULL : builtin_find(name);
    if (builtin) e = (Ent){.kind = EN_builtin, .builtin = builtin};
    if (e.kind == EN_fn || e.kind == EN_builtin) return e;
    Diag *d = report(c, E_unknown_name, name_at(g), text);
    diag_label(d, name_at(g), "`%s` is set to it: a function that this file sees is wanted", g->sym->s);
    return ent_error(c);
}

static Ent generic_value(Check *c, const Node *g, Origin *origin) {
    Ent e = ent_void();
    const SemaValue *v = find_value(c->set, c->nset, g->sym, true);
    if (!v) v = find_value(c->set, c->nset, g->sym, false);
    *origin = v && v->chosen ? ORIGIN_CHOSEN : ORIGIN_SET;
    if (!v) {
        *origin = ORIGIN_INFERRED;
        v = find_value(c->known, c->nknown, g->sym, true);
        if (!v && head_dim(c, g->sym) >= 0) {
            v = find_value(c->known, c->nknown, g->sym, false);
            c->k->reads[head_dim(c, g->sym)] = true;
        }
    }
    Span at = {0};
    if (v && v->value) return *v->value;
    if (v && v->fn) return fn_of_name(c, g, v->fn);
    if (v) return v->is_type ? (Ent){.kind = EN_type, .elem = v->elem, .span = at} : ent_int(v->ival, at);
    *origin = ORIGIN_DEFAULT;
    if (g->kid[1]) e = default_of(c, g);
    if (e.kind == EN_unknown && g->kid[2]) {
        *origin = ORIGIN_FALLBACK;
        e = eval(c, g->kid[2]);
    }
    if (e.kind == EN_error || e.kind == EN_int || e.kind == EN_bool || e.kind == EN_type || e.kind == EN_fn ||
        e.kind == EN_lambda || e.kind == EN_builtin)
        return e;
    if (e.kind != EN_void && e.kind != EN_unknown) return e;
    Diag *d = report(c, E_generic_missing, name_at(g), g->sym->s, c->k->name->s);
    if (e.kind == EN_unknown)
        diag_help(d,
                  "its default needs a dimension that is known only at the launch: name a fallback, `= ... or 1024`");
    if (e.kind == EN_void && !g->kid[1])
        diag_help(d, "set it, `--set %s=...`, or give it a default: `<%s = ...>`", g->sym->s, g->sym->s);
    else diag_help(d, "set it: `--set %s=...`", g->sym->s);
    return ent_error(c);
}

void head_generics(Check *c, const Node *kernel, bool *solved) {
    const Node *gs = kernel->kid[0];
    for (uint32_t i = 0; gs && i < gs->nkid; i++) {
        const Node *g = gs->kid[i];
        Origin origin = ORIGIN_DEFAULT;
        if (!g->sym) continue;
        Ent e = generic_value(c, g, &origin);
        int dim = head_dim(c, g->sym);
        e.dim = (int16_t)(dim + 1);
        if (!generic_bind(c, c->scope, g, e, origin, g->span)) {
            scope_bind(c, c->scope, g->sym, ent_error(c), name_at(g));
            continue;
        }
        e = scope_find_here(c->scope, g->sym)->ent;
        bool here = origin == ORIGIN_DEFAULT || origin == ORIGIN_FALLBACK;
        if (e.kind == EN_int || e.kind == EN_bool || e.kind == EN_type)
            add_binding(c, g->sym, e, origin, here ? name_at(g) : (Span){0});
        if (dim >= 0 && e.kind == EN_int) {
            if (e.i < 0) {
                report(c, E_set_value, name_at(g), g->sym->s, "negative");
                scope_bind(c, c->scope, g->sym, ent_error(c), name_at(g));
                c->k->dims[dim].fixed = FALLBACK_DIM;
                continue;
            }
            c->k->dims[dim].fixed = e.i;
            solved[dim] = true;
        }
    }
}

void head_check_set(Check *c, const Node *kernel) {
    const Node *gs = kernel->kid[0];
    for (int i = 0; i < c->nset; i++) {
        bool found = false;
        for (uint32_t j = 0; gs && j < gs->nkid; j++)
            found = found || (gs->kid[j]->sym && strcmp(gs->kid[j]->sym->s, c->set[i].name) == 0);
        for (int j = 0; j < c->k->ndims; j++) found = found || strcmp(c->k->dims[j].name->s, c->set[i].name) == 0;
        if (found) continue;
        Diag *d = report(c, E_generic_unknown, name_at(kernel), kernel->sym->s, arena_printf(c->a, "`%s`", c->set[i].name));
        Buf b = {0};
        for (uint32_t j = 0; gs && j < gs->nkid; j++) buf_printf(&b, "%s`%s`", b.n ? ", " : "", gs->kid[j]->sym->s);
        if (b.n) diag_help(d, "it has %s", b.p);
        buf_free(&b);
    }
}

// ---- dimensions ------------------------------------------------------------------------------------------

const char *item_word(const Node *item) { return item->kind == N_graph ? "graph" : "kernel"; }

static int most_dims(const Node *item) { return item->kind == N_graph ? MAX_GRAPH_DIMS : MAX_DIMS; }

static void dim_symbol(Check *c, const Node *item, Sym name, Span at) {
    int most = most_dims(item);
    if (head_dim(c, name) >= 0) return;
    if (c->k->ndims == most) {
        report(c, E_too_many, at, item_word(item), most, "dimensions");
        return;
    }
    c->k->dims[c->k->ndims++] = (LaunchDim){.name = name, .fixed = -1};
}

static bool is_scalar_param(const Node *kernel, Sym name) {
    const Node *ps = kernel->kid[1];
    for (uint32_t i = 0; ps && i < ps->nkid; i++) {
        const Node *p = ps->kid[i];
        if (p->sym == name && p->kid[0] && p->kid[0]->kind == N_type_name) return true;
    }
    return false;
}

static void dim_symbols(Check *c, const Node *kernel, const Node *n, bool alone, bool *solved) {
    if (!n) return;
    if (n->kind == N_name && n->sym) {
        if (is_scalar_param(kernel, n->sym) || scope_find(item_scope(c->file, kernel), n->sym)) return;
        dim_symbol(c, kernel, n->sym, n->span);
        int i = head_dim(c, n->sym);
        if (i >= 0 && alone) solved[i] = true;
        if (i >= 0) {
            while (c->dim_uses.n <= (uint32_t)i) vec_push(c->a, &c->dim_uses, 0);
            c->dim_uses.at[i]++;
        }
        return;
    }
    if (n->kind == N_call) {                          // cdiv(K, 32): the callee is no dimension
        for (uint32_t i = 3; i < n->nkid; i++) dim_symbols(c, kernel, n->kid[i], false, solved);
        return;
    }
    // M + 1, M - 1: M is known as well
    bool sum = alone && kernel->kind == N_kernel && n->kind == N_binary && (n->op == OP_add || n->op == OP_sub) && n->kid[1]->kind == N_int;
    for (uint32_t i = 0; i < n->nkid; i++) dim_symbols(c, kernel, n->kid[i], sum, solved);
}

void head_collect_dims(Check *c, const Node *kernel, bool *solved) {
    const Node *ps = kernel->kid[1];
    int most = most_dims(kernel);
    c->k->dims = NEW_N(c->a, LaunchDim, most);
    c->k->reads = NEW_N(c->a, bool, most);
    c->k->kinds = NEW_N(c->a, uint8_t, most);
    for (uint32_t i = 0; ps && i < ps->nkid; i++) {
        const Node *t = ps->kid[i]->kid[0];
        // a graph's results follow from the rest
        bool solves = kernel->kind != N_graph || !(ps->kid[i]->flags & PARAM_OUT);
        for (uint32_t j = 1; t && t->kind == N_type_tensor && j < t->nkid; j++)
            dim_symbols(c, kernel, t->kid[j], solves, solved);
    }
}

static const SemaValue *known_dim(const Check *c, Sym name) {
    const SemaValue *v = find_value(c->set, c->nset, name, false);
    return v ? v : find_value(c->known, c->nknown, name, false);
}

// A tensor whose last dimensions have one element each lies in memory as if it had not those, but its strides do not tell:
// x[K, 1] is K numbers in a row. So the instance knows of such a dimension, and another one is made where it is longer.
void head_unit_dims(Check *c, const Node *kernel) {
    const Node *ps = kernel->kid[1];
    for (uint32_t p = 0; kernel->kind != N_graph && ps && p < ps->nkid; p++) {
        const Node *t = ps->kid[p]->kid[0];
        if (!t || t->kind != N_type_tensor || (ps->kid[p]->flags & PARAM_STRIDED)) continue;
        for (uint32_t j = t->nkid - 1; j > 1; j--) {
            const Node *n = t->kid[j];
            int i = n && n->kind == N_name && n->sym ? head_dim(c, n->sym) : -1;
            if (i < 0) break;
            const SemaValue *v = known_dim(c, n->sym);
            c->k->kinds[i] |= KIND_ONE;
            if (!v || v->ival != 1) break;
            c->fix.at[i] = true;
        }
    }
}

// The first dimension whose elements may lie in a row: of a vector, or a column x[M, 1], it is the only one.
static int first_of_rows(const Check *c, const TTensor *t) {
    for (int j = t->rank - 1; j > 0; j--) {
        const TExpr *x = t->dim[j];
        if (!x || x->kind != TX_dim || c->k->dims[x->dim].fixed != 1) return 1;
    }
    return 0;
}

// Rows whose length is known to be no multiple of 16 bytes: the instance must not count on that, and keeps the rest of what
// it may assume. A scale or an index for each of seven rows does not keep a product from TMA.
void head_odd_dims(Check *c) {
    for (int p = 0; p < c->k->nparams; p++) {
        const TTensor *t = c->k->tensor[p];
        for (int j = t ? first_of_rows(c, t) : 0; t && !t->strided && j < t->rank; j++) {
            const TExpr *x = t->dim[j];
            if (!x || x->kind != TX_dim || c->k->dims[x->dim].fixed >= 0) continue;
            LaunchDim *d = &c->k->dims[x->dim];
            const SemaValue *v = known_dim(c, d->name);
            int64_t low = v ? v->ival & -v->ival : 0;
            int bytes = elem_bytes(c->k->params[p].elem), most = bytes > 0 && bytes < 16 ? 16 / bytes : 1;      // 0: nobody has said the element type
            c->k->kinds[x->dim] |= (uint8_t)most;
            if (low > 0 && low < most) d->divisor = (int)low;
        }
    }
}

// An instance whose tiles follow from a dimension, as by next_pow2(N), is made for that number: for up to an eighth of
// a power of two more, so that not every length has one of its own.
enum { SHORT_ROW = 256 };                                // the greatest length whose tiles are left as they are

void head_lengths(Check *c) {
    for (int i = 0; i < c->k->ndims; i++) {
        LaunchDim *d = &c->k->dims[i];
        const SemaValue *v = d->fixed < 0 ? known_dim(c, d->name) : NULL;
        int64_t step = 1;
        if (v && v->ival > 0 && v->ival <= 1 << 30) d->given = (int)v->ival;
        if (!c->k->reads[i] || !v || v->ival <= SHORT_ROW || v->ival > 1 << 20) continue;
        while (8 * step < v->ival) step *= 2;
        d->upto = (int)((v->ival + step - 1) / step * step);
    }
}

// A number made of dimensions that are fixed, names in `<>` and literals.
static bool known_number(const Check *c, const Node *n, int64_t *v) {
    int64_t y;
    if (n->kind == N_int) { *v = n->ival; return true; }
    if (n->kind == N_name && n->sym) {
        int d = head_dim(c, n->sym);
        const Bind *b = d < 0 ? scope_find(c->scope, n->sym) : NULL;
        *v = d >= 0 ? c->k->dims[d].fixed : b && b->ent.kind == EN_int ? b->ent.i : -1;
        return *v >= 0;
    }
    if (n->kind != N_binary || (n->op != OP_add && n->op != OP_sub && n->op != OP_mul && n->op != OP_div)) return false;
    if (!known_number(c, n->kid[0], v) || !known_number(c, n->kid[1], &y)) return false;
    if (n->op == OP_add) return !__builtin_add_overflow(*v, y, v);
    if (n->op == OP_sub) return !__builtin_sub_overflow(*v, y, v);
    if (n->op == OP_mul) return !__builtin_mul_overflow(*v, y, v);
    *v = y > 0 ? int_div_floor(*v, y) : -1;
    return y > 0;
}

// What `where E == 2 * D` says of E, or of D, where the other side is known: numbers that hold for each other beat a
// fallback.
static bool by_equation(const Check *c, const Node *kernel, const LaunchDim *d, int64_t *v) {
    const Node *list = kernel->kid[2];
    for (uint32_t i = 0; list && i < list->nkid; i++) {
        const Node *w = list->kid[i];
        for (int side = 0; side < 2 && w && w->kind == N_binary && w->op == OP_eq; side++) {
            const Node *x = w->kid[side], *y = w->kid[1 - side];
            int64_t all, k;
            if (x->kind == N_name && x->sym == d->name && known_number(c, y, v) && *v >= 0) return true;
            if (x->kind != N_binary || x->op != OP_mul || !known_number(c, y, &all)) continue;
            for (int f = 0; f < 2; f++)
                if (x->kid[f]->kind == N_name && x->kid[f]->sym == d->name && known_number(c, x->kid[1 - f], &k) &&
                    k > 0 && all % k == 0) {
                    *v = all / k;
                    return true;
                }
        }
    }
    return false;
}

// Dimensions that are to be numbers: given or known; then by an equation from those; then, one after the other, by the
// fallback.
static void fix_dims(Check *c, const Node *kernel, Origin *origin) {
    int left = 0;
    for (int i = 0; i < c->k->ndims; i++) {
        LaunchDim *d = &c->k->dims[i];
        if (d->fixed >= 0 || !c->fix.at[i]) continue;
        const SemaValue *v = find_value(c->set, c->nset, d->name, false);
        origin[i] = v ? ORIGIN_SET : ORIGIN_INFERRED;
        if (!v) v = find_value(c->known, c->nknown, d->name, false);
        if (v) d->fixed = v->ival;
        if (v && d->fixed < 0) {
            report(c, E_set_value, c->dim_span[i].hi ? c->dim_span[i] : name_at(kernel), d->name->s, "negative");
            d->fixed = FALLBACK_DIM;
        }
        left += !v;
    }
    while (left > 0) {
        int first = -1, found = -1;
        int64_t n = 0;
        for (int i = 0; i < c->k->ndims && found < 0; i++) {
            if (c->k->dims[i].fixed >= 0 || !c->fix.at[i]) continue;
            if (first < 0) first = i;
            if (by_equation(c, kernel, &c->k->dims[i], &n)) found = i;
        }
        int i = found < 0 ? first : found;
        c->k->dims[i].fixed = found < 0 ? FALLBACK_DIM : n;
        origin[i] = ORIGIN_FALLBACK;
        left--;
    }
}

void head_bind_dims(Check *c, const Node *kernel) {
    Origin *origin = NEW_N(c->a, Origin, c->k->ndims + 1);
    int64_t *was = NEW_N(c->a, int64_t, c->k->ndims + 1);
    for (int i = 0; i < c->k->ndims; i++) was[i] = c->k->dims[i].fixed;
    fix_dims(c, kernel, origin);
    for (int i = 0; i < c->k->ndims; i++) {
        LaunchDim *d = &c->k->dims[i];
        Span at = c->dim_span[i].hi ? c->dim_span[i] : name_at(kernel);
        Ent e;
        if (was[i] < 0 && c->fix.at[i])
            add_binding(c, d->name, ent_int(d->fixed, at), origin[i], origin[i] == ORIGIN_FALLBACK ? at : (Span){0});
        Bind *b = scope_find_here(c->scope, d->name);
        if (d->fixed >= 0) {
            c->k->reads[i] = true;
            TExpr *cond = tx_new(c, TX_binary, ttype_scalar(EL_bool), at, 2, tx_dim(c, i, at),
                                 tx_const_int(c, d->fixed, EL_index, at));
            cond->op = OP_eq;
            guard_add(c, cond,
                      arena_printf(c->a, "%s == %lld (%s)", d->name->s, (long long)d->fixed, place_text(c, at)), at);
            e = ent_int(d->fixed, at);
        } else {
            e = ent_value(tx_dim(c, i, at));
        }
        e.dim = (int16_t)(i + 1);
        if (!b) scope_bind(c, c->scope, d->name, e, at);
    }
}
