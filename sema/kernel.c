// Instances. A kernel with its compile-time names resolved, its dimensions set up, its grid made and
// its body inlined is a TKernel.
//
// A compile-time name gets its value from, in this order: what the caller sets, the tensor it stands in
// (`D` in `q: T[H, S, D]`, when that dimension is known), its default, and the fallback after `or`, which
// is taken when the default asks for a dimension that is not known. A dimension that has to be a number
// (`:` stands for it) gets one the same way, 128 at last; either way the number becomes a guard, `D == 128`.
//
// Which dimensions must be numbers is found while the body is checked, so an instance may be run a few
// times: each run adds what the one before asked for (Check.fix).
#include "sema/internal.h"

#include <string.h>

enum { FALLBACK_DIM = 128 };

Check *check_new(SemaFile *f) {
    Arena *a = f->arena ? f->arena : session_arena(f->s);
    Check *c = NEW(a, Check);
    c->s = f->s;
    c->a = a;
    c->file = f;
    c->scope = f->scope;
    c->k = NEW(a, TKernel);
    return c;
}

// ---- compile-time parameters ---------------------------------------------------------------------------

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

static int find_dim(const Check *c, Sym name) {
    for (int i = 0; i < c->k->ndims; i++) {
        if (c->k->dims[i].name == name) return i;
    }
    return -1;
}

static bool is_equation(const Node *w) {                       // `NAME = ...`, one sign
    return w && w->kind == N_binary && w->op == OP_eq && w->name_span.hi - w->name_span.lo == 1 && w->kid[0]->kind == N_name;
}

// Names that only `where` defines, for defaults: each of those before it.
static void where_names(Check *c) {
    const Node *list = c->k->decl->kid[2];
    for (uint32_t i = 0; list && i < list->nkid; i++) {
        const Node *w = list->kid[i];
        if (!is_equation(w) || find_dim(c, w->kid[0]->sym) >= 0) continue;
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
            c->k->reads |= 1u << i;
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
        if (!v && find_dim(c, g->sym) >= 0) {
            v = find_value(c->known, c->nknown, g->sym, false);
            c->k->reads |= 1u << find_dim(c, g->sym);
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

static void bind_generics(Check *c, const Node *kernel, bool *solved) {
    const Node *gs = kernel->kid[0];
    for (uint32_t i = 0; gs && i < gs->nkid; i++) {
        const Node *g = gs->kid[i];
        Origin origin = ORIGIN_DEFAULT;
        if (!g->sym) continue;
        Ent e = generic_value(c, g, &origin);
        int dim = find_dim(c, g->sym);
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

static void check_set(Check *c, const Node *kernel) {
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

static void dim_symbol(Check *c, Sym name, Span at) {
    if (find_dim(c, name) >= 0) return;
    if (c->k->ndims == MAX_DIMS) {
        report(c, E_too_many, at, MAX_DIMS, "dimensions");
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
        dim_symbol(c, n->sym, n->span);
        int i = find_dim(c, n->sym);
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

static void collect_dims(Check *c, const Node *kernel, bool *solved) {
    const Node *ps = kernel->kid[1];
    c->k->dims = NEW_N(c->a, LaunchDim, MAX_DIMS);
    for (uint32_t i = 0; ps && i < ps->nkid; i++) {
        const Node *t = ps->kid[i]->kid[0];
        // a graph's results follow from the rest
        bool solves = kernel->kind != N_graph || !(ps->kid[i]->flags & PARAM_OUT);
        for (uint32_t j = 1; t && t->kind == N_type_tensor && j < t->nkid; j++)
            dim_symbols(c, kernel, t->kid[j], solves && (t->kid[j]->kind == N_name || !(ps->kid[i]->flags & PARAM_OUT)), solved);
    }
}

static const SemaValue *known_dim(const Check *c, Sym name) {
    const SemaValue *v = find_value(c->set, c->nset, name, false);
    return v ? v : find_value(c->known, c->nknown, name, false);
}

// A tensor whose last dimensions have one element each lies in memory as if it had not those, but its strides do not tell:
// x[K, 1] is K numbers in a row. So the instance knows of such a dimension, and another one is made where it is longer.
static void unit_dims(Check *c, const Node *kernel) {
    const Node *ps = kernel->kid[1];
    for (uint32_t p = 0; kernel->kind != N_graph && ps && p < ps->nkid; p++) {
        const Node *t = ps->kid[p]->kid[0];
        if (!t || t->kind != N_type_tensor || (ps->kid[p]->flags & PARAM_STRIDED)) continue;
        for (uint32_t j = t->nkid - 1; j > 1; j--) {
            const Node *n = t->kid[j];
            int i = n && n->kind == N_name && n->sym ? find_dim(c, n->sym) : -1;
            if (i < 0) break;
            const SemaValue *v = known_dim(c, n->sym);
            c->k->kinds |= 1u << i;
            if (!v || v->ival != 1) break;
            c->fix.at[i] = true;
        }
    }
}

// Rows whose length is known to be no multiple of 16 bytes: the instance must not count on that, and keeps the rest of what
// it may assume.
static void odd_dims(Check *c) {
    for (int p = 0; p < c->k->nparams; p++) {
        const TTensor *t = c->k->tensor[p];
        for (int j = 1; t && !t->strided && j < t->rank; j++) {
            const TExpr *x = t->dim[j];
            if (!x || x->kind != TX_dim || c->k->dims[x->dim].fixed >= 0) continue;
            LaunchDim *d = &c->k->dims[x->dim];
            const SemaValue *v = known_dim(c, d->name);
            int64_t low = v ? v->ival & -v->ival : 0;
            c->k->kinds |= 1u << x->dim;
            if (low > 0 && low * elem_bytes(c->k->params[p].elem) < 16) d->divisor = (int)low;
        }
    }
}

// An instance whose tiles follow from a dimension, as by next_pow2(N), is made for that number: for up to an eighth of
// a power of two more, so that not every length has one of its own.
enum { SHORT_ROW = 256 };                                // the greatest length whose tiles are left as they are

static void lengths(Check *c) {
    for (int i = 0; i < c->k->ndims; i++) {
        LaunchDim *d = &c->k->dims[i];
        const SemaValue *v = c->k->reads >> i & 1 && d->fixed < 0 ? known_dim(c, d->name) : NULL;
        int64_t step = 1;
        if (!v || v->ival <= SHORT_ROW || v->ival > 1 << 20) continue;
        while (8 * step < v->ival) step *= 2;
        d->upto = (int)((v->ival + step - 1) / step * step);
    }
}

// A number made of dimensions that are fixed, names in `<>` and literals.
static bool known_number(const Check *c, const Node *n, int64_t *v) {
    int64_t y;
    if (n->kind == N_int) { *v = n->ival; return true; }
    if (n->kind == N_name && n->sym) {
        int d = find_dim(c, n->sym);
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

static void bind_dims(Check *c, const Node *kernel) {
    Origin origin[MAX_DIMS];
    int64_t was[MAX_DIMS];
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
            c->k->reads |= 1u << i;
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

// ---- parameters ------------------------------------------------------------------------------------------

static TExpr *dim_expr(Check *c, const Node *n, Ent *out) {
    Ent e = eval(c, n);
    *out = e;
    if (e.kind == EN_int) {
        if (e.dim > 0) return tx_dim(c, e.dim - 1, n->span);
        if (e.i < 0) {
            report(c, E_set_value, n->span, arena_printf(c->a, "%lld", (long long)e.i), "a dimension: none is negative");
            return NULL;
        }
        return tx_const_int(c, e.i, EL_index, n->span);
    }
    TExpr *x = scalar_index(c, e, n->span, "a dimension");
    if (!x) return NULL;
    if (!tx_is_host(c, x)) {
        report(c, E_not_comptime, n->span, "a dimension of a kernel's tensor");
        return NULL;
    }
    int16_t dim = e.dim;
    *out = ent_value(x);
    out->dim = dim;
    return x;
}

static void tensor_param(Check *c, const Node *p, int i, LaunchParam *lp) {
    const Node *type = p->kid[0];
    TTensor *t = NEW(c->a, TTensor);
    TensorRef *ref = NEW(c->a, TensorRef);
    Ent e = {.kind = EN_tensor, .tensor = ref, .span = name_at(p)};
    *t = (TTensor){.param = i, .name = p->sym, .mode = lp->mode, .strided = lp->strided, .rank = (int)type->nkid - 1};
    *ref = (TensorRef){.t = t, .name = p->sym, .rank = t->rank, .elem_known = true};
    bool ok = eval_elem(c, type->kid[0], &t->elem);
    if (ok && t->elem == EL_index) {
        report(c, E_kernel_param, type->span, "of type `index`: say i32 or i64");
        ok = false;
    }
    if (t->rank > MAX_RANK) {
        report(c, E_too_many, type->span, MAX_RANK, "dimensions in a tensor");
        ok = false;
        t->rank = ref->rank = 0;
    }
    for (int k = 0; k < t->rank; k++) {
        ref->lo[k] = ent_int(0, type->span);
        if (type->kid[1 + k]->kind == N_colon) {
            diag_help(report(c, E_kernel_param, type->kid[1 + k]->span, "a tensor with an unnamed dimension"),
                      "give it a name: `%s[N]`", elem_name(t->elem));
            ok = false;
            continue;
        }
        t->dim[k] = dim_expr(c, type->kid[1 + k], &ref->dim[k]);
        ok = ok && t->dim[k];
    }
    ref->elem = t->elem;
    lp->kind = PK_TENSOR;
    lp->elem = t->elem;
    lp->rank = t->rank;
    c->k->tensor[i] = t;
    scope_bind(c, c->scope, p->sym, ok ? e : ent_error(c), name_at(p));
}

static void scalar_param(Check *c, const Node *p, int i, LaunchParam *lp) {
    const Node *type = p->kid[0];
    TType t = {0};
    Ent e = {.kind = EN_error};
    lp->kind = type->kind == N_type_ptr ? PK_POINTER : PK_SCALAR;
    if (type->kind == N_type_name && type->sym && !scope_find(c->scope, type->sym) &&
        !elem_by_name((Str){type->sym->s, type->sym->n}) &&
        (!strcmp(type->sym->s, "axis") || !strcmp(type->sym->s, "type") || !strcmp(type->sym->s, "fn") ||
         !strcmp(type->sym->s, "int") || !strcmp(type->sym->s, "float"))) {
        Diag *d = report(c, E_kernel_param, type->span, arena_printf(c->a, "of kind `%s`", type->sym->s));
        diag_help(d, "what is known at compile time stands in `<>`");
    } else if (eval_type(c, type, &t)) {
        if (t.elem == EL_index || (p->flags & (PARAM_OUT | PARAM_INOUT | PARAM_STRIDED))) {
            report(c, E_kernel_param, type->span,
                   t.elem == EL_index          ? "of type `index`: say i32 or i64"
                   : p->flags & PARAM_STRIDED ? "a scalar that is strided: that is said of tensors, `strided f32[N]`"
                                              : "a scalar that is written: declare a tensor of rank 0, `f32[]`");
        } else {
            TVar *v = var_new(c, p->sym, t, false, name_at(p));
            v->param = i;
            c->k->scalar[i] = v;
            e = ent_value(tx_var(c, v, name_at(p)));
        }
    }
    lp->elem = t.elem;
    scope_bind(c, c->scope, p->sym, e, name_at(p));
}

static void bind_params(Check *c, const Node *kernel) {
    const Node *ps = kernel->kid[1];
    int n = ps ? (int)ps->nkid : 0;
    int most = kernel->kind == N_graph ? MAX_GRAPH_PARAMS : MAX_PARAMS;
    if (n > most) {
        report(c, E_too_many, ps->span, most, "parameters");
        n = most;
    }
    c->k->nparams = n;
    c->k->params = NEW_N(c->a, LaunchParam, n + 1);
    c->k->tensor = NEW_N(c->a, TTensor *, n + 1);
    c->k->scalar = NEW_N(c->a, TVar *, n + 1);
    for (int pass = 0; pass < 2; pass++) {             // scalars first: dimensions may be made of them
        for (int i = 0; i < n; i++) {
            const Node *p = ps->kid[i];
            LaunchParam *lp = &c->k->params[i];
            if (!p->sym) continue;
            lp->name = p->sym;
            lp->mode = p->flags & PARAM_OUT ? PM_OUT : p->flags & PARAM_INOUT ? PM_INOUT : PM_IN;
            lp->strided = p->flags & PARAM_STRIDED;
            bool tensor = p->kid[0] && p->kid[0]->kind == N_type_tensor;
            if (tensor != (pass == 1)) continue;
            Bind *b = scope_find_here(c->scope, p->sym);
            if (b && find_dim(c, p->sym) < 0) {
                Diag *d = report(c, E_redefined, name_at(p), p->sym->s);
                diag_label(d, b->span, "first here");
                continue;
            }
            if (tensor) tensor_param(c, p, i, lp);
            else if (p->kid[0] && p->kid[0]->kind != N_error_stmt) scalar_param(c, p, i, lp);
            else {
                if (!p->kid[0]) report(c, E_kernel_param, p->span, "without a type");
                scope_bind(c, c->scope, p->sym, ent_error(c), name_at(p));
            }
        }
    }
}

// ---- where, grid -------------------------------------------------------------------------------------------

// `H == N / 2` or `N == 2 * H`, where nothing else says what H is: it was meant to be defined.
static void undefined_in(Check *c, const Node *n, const Node *equation) {
    if (!n) return;
    for (uint32_t i = n->kind == N_call; i < n->nkid; i++) undefined_in(c, n->kid[i], equation);
    Ent e;
    if (n->kind != N_name || !n->sym || scope_find(c->scope, n->sym) || builtin_const(c, n->sym, n->span, &e)) return;
    Diag *d = report(c, E_unknown_name, n->span, n->sym->s);
    Str value = span_text(c->s, equation->kid[1]->span);
    if (n == equation->kid[0]) diag_help(d, "one sign defines it: `%s = %.*s`", n->sym->s, (int)value.n, value.p);
    else diag_help(d, "to define it, let it stand alone before one sign: `%s = ...`", n->sym->s);
    suggest_name(c, d, n->sym, n->span);
    scope_bind(c, c->scope, n->sym, ent_error(c), n->span);
}

// `B1 = B + 1`, where B1 is a tensor's and B nobody's: it was meant to define B.
static void turned_round(Check *c, const Node *w) {
    const Node *sum = w->kid[1];
    bool side = sum->kind == N_binary && (sum->op == OP_add || sum->op == OP_sub || sum->op == OP_mul) && sum->kid[0]->kind == N_name && sum->kid[1]->kind == N_int;
    if (!side || find_dim(c, w->kid[0]->sym) < 0 || scope_find(c->scope, sum->kid[0]->sym)) return;
    Sym name = sum->kid[0]->sym;
    Diag *d = report(c, E_unknown_name, sum->kid[0]->span, name->s);
    diag_help(d, "`%s` is a tensor's dimension; turned round, the equation defines `%s`: `%s = %s %s %lld`", w->kid[0]->sym->s, name->s, name->s, w->kid[0]->sym->s,
              sum->op == OP_add ? "-" : sum->op == OP_sub ? "+" : "/", (long long)sum->kid[1]->ival);
    scope_bind(c, c->scope, name, ent_error(c), sum->kid[0]->span);
}

static void check_where(Check *c, const Node *kernel, bool *solved) {
    const Node *list = kernel->kid[2];
    for (uint32_t i = 0; list && i < list->nkid; i++) {
        const Node *w = list->kid[i];
        Span at = w->span;
        Ent e;
        if (w->kind == N_binary && w->op == OP_eq && !is_equation(w)) undefined_in(c, w, w);
        if (is_equation(w)) {
            Sym name = w->kid[0]->sym;
            turned_round(c, w);
            Ent value = eval(c, w->kid[1]);
            Bind *b = scope_find_here(c->scope, name);
            if (!b) {                                 // a name for an expression
                scope_bind(c, c->scope, name, value, at);
                continue;
            }
            int dim = find_dim(c, name);
            b->used = true;
            if (dim >= 0) solved[dim] = true, c->dim_uses.at[dim]++;
            Ent left = dim >= 0 ? ent_value(tx_dim(c, dim, at)) : b->ent;
            e = binary(c, OP_eq, left, value, at, at, at);
        } else {
            e = eval(c, w);
        }
        Str text = span_text(c->s, at);
        if (e.kind == EN_bool && !e.i) {
            Diag *d = report(c, E_where_false, at, arena_printf(c->a, "%.*s", (int)text.n, text.p), c->k->name->s);
            note_values(c, d);
        }
        TExpr *cond;
        if (e.kind == EN_bool || !cond_of(c, e, at, "a `where` clause", &cond)) continue;
        if (!tx_is_host(c, cond)) {
            report(c, E_grid_range, at, "a condition of `where`");
            continue;
        }
        guard_add(c, cond, arena_printf(c->a, "%.*s (%s)", (int)text.n, text.p, place_text(c, at)), at);
    }
}

static void check_grid(Check *c, const Node *kernel) {
    const Node *list = kernel->kid[3];
    int n = list ? (int)list->nkid : 0;
    c->k->grid = NEW_N(c->a, TGrid, n + 1);
    for (int i = 0; i < n; i++) {
        const Node *k = list->kid[i];
        Range r;
        if (!k->sym) continue;
        if (!k->kid[0] || !range_eval(c, k->kid[0], &r)) {
            scope_bind(c, c->scope, k->sym, ent_error(c), name_at(k));
            continue;
        }
        TExpr *lo = r.lo.kind == EN_int ? tx_const_int(c, r.lo.i, EL_index, r.span) : r.lo.x;
        TExpr *hi = r.hi.kind == EN_int ? tx_const_int(c, r.hi.i, EL_index, r.span) : r.hi.x;
        if (!tx_is_host(c, lo) || !tx_is_host(c, hi)) {
            Diag *d = report(c, E_grid_range, r.span, "the bounds of a grid clause");
            diag_help(
                d, "use dimensions and integer parameters; a grid over bounds read from a tensor is not supported yet");
            scope_bind(c, c->scope, k->sym, ent_error(c), name_at(k));
            continue;
        }
        TGrid *g = &c->k->grid[c->k->ngrid++];
        *g = (TGrid){.lo = lo, .hi = hi, .step = r.by ? r.step : 1};
        g->var = var_new(c, k->sym, ttype_scalar(EL_index), false, name_at(k));
        counter_bounds(c, g->var, lo, hi);
        Ent e = ent_value(tx_var(c, g->var, name_at(k)));
        if (r.by) {
            g->axis = axis_new(c, k->sym, r.step, e.x, hi, r.span);
            if (lo->kind == TX_const && hi->kind == TX_const && (hi->ival - lo->ival) % r.step == 0) g->axis->full = true;
            e = (Ent){.kind = EN_axis, .axis = g->axis, .span = name_at(k)};
        }
        Bind *b = scope_find_here(c->scope, k->sym);
        if (b) {
            Diag *d = report(c, E_redefined, name_at(k), k->sym->s);
            diag_label(d, b->span, "first here");
        }
        scope_bind(c, c->scope, k->sym, e, name_at(k));
    }
}

// ---- the run -----------------------------------------------------------------------------------------------

static void unsolved_dims(Check *c, const Node *kernel, const bool *solved, bool warn) {
    for (int i = 0; i < c->k->ndims; i++) {
        if (solved[i]) {
            Bind *b = scope_find_here(c->scope, c->k->dims[i].name);
            if (!warn || c->dim_uses.at[i] > 1 || (b && b->used) || c->dim_seen.at[i]) continue;
            Diag *d = report(c, E_dim_once, c->dim_span[i].hi ? c->dim_span[i] : name_at(kernel), c->k->dims[i].name->s);
            diag_help(
                d, "a misspelt name makes a new dimension; one that is meant may stand in `where`: `where %s <= 1024`",
                c->k->dims[i].name->s);
            continue;
        }
        const char *name = c->k->dims[i].name->s;
        Diag *d = report(c, E_dim_unsolved, c->dim_span[i].hi ? c->dim_span[i] : name_at(kernel), name);
        if (kernel->kind == N_graph)
            diag_help(
                d,
                "a result's dimensions are those of the parameters, or made of them: `-> (y: f32[2 * N])`, `where M = 2 * N`");
        else
            diag_help(d, "let it stand alone in a tensor's type, or with a number added, or define it by a name that does: not `p: i32[2 * %s]` "
                         "but `p: i32[%s2]` and `where %s = %s2 / 2`; or say what it is: `<%s = 128>`", name, name, name, name, name);
    }
}

// Is p only changed by atomics: `atomic_add(p[i], v)`? Another use of its name, and it is not.
static bool only_atomics(const Node *n, Sym p, int *atomics) {
    if (!n) return true;
    if (n->kind == N_name && n->sym == p) return false;
    bool atomic = n->kind == N_call && n->kid[0] && n->kid[0]->kind == N_name &&
                  strncmp(n->kid[0]->sym->s, "atomic_", 7) == 0;
    for (uint32_t i = 0; i < n->nkid; i++) {
        const Node *k = n->kid[i];
        bool place = atomic && i == 3 && k && k->kind == N_index && k->kid[0]->kind == N_name && k->kid[0]->sym == p;
        *atomics += place;
        for (uint32_t j = 1; place && j < k->nkid; j++) if (!only_atomics(k->kid[j], p, atomics)) return false;
        if (!place && !only_atomics(k, p, atomics)) return false;
    }
    return true;
}

static void unwritten(Check *c, const Node *kernel) {
    const Node *ps = kernel->kid[1];
    for (uint32_t i = 0; ps && i < ps->nkid; i++) {
        const Node *p = ps->kid[i];
        int atomics = 0;
        if (!p->sym || !(p->flags & PARAM_OUT) || !only_atomics(kernel->kid[4], p->sym, &atomics)) continue;
        Diag *d = report(c, E_never_stored, name_at(p), p->sym->s,
                         atomics ? "only atomics change it" : "nothing is stored to it");
        if (atomics) diag_help(d, "it holds anything before a launch; `inout` takes what the caller has put there");
        else diag_help(d, "what it holds after a launch is left over from before");
    }
}

static void dim_spans(Check *c, const Node *n) {
    if (!n) return;
    if (n->kind == N_name) {
        int i = find_dim(c, n->sym);
        if (i >= 0 && c->dim_span[i].hi == 0) c->dim_span[i] = n->span;
    }
    for (uint32_t i = 0; i < n->nkid; i++) dim_spans(c, n->kid[i]);
}

// A kernel's head: names, dimensions, parameters and conditions, in a scope of their own. `numbers`: every dimension is
// to be one (a graph that is about to run).
Check *head_open(SemaFile *f, const Node *item, Known values, bool *solved, const Check *last, bool numbers) {
    Check *c = check_new(f);
    c->set = values.set;
    c->nset = values.nset;
    c->known = values.known;
    c->nknown = values.nknown;
    c->body = &c->k->body;
    c->k->name = item->sym;
    c->k->span = name_at(item);
    c->k->decl = c->item = item;
    c->scope = scope_new(c, item_scope(f, item));
    collect_dims(c, item, solved);
    c->dim_span = NEW_N(c->a, Span, MAX_DIMS + 1);
    dim_spans(c, item->kid[1]);
    for (int i = 0; i < c->k->ndims; i++) {
        vec_push(c->a, &c->fix, numbers || (last && (uint32_t)i < last->fix.n && last->fix.at[i]));
        vec_push(c->a, &c->dim_seen, false);
        if (c->dim_uses.n <= (uint32_t)i) vec_push(c->a, &c->dim_uses, 0);
    }
    check_set(c, item);
    bind_generics(c, item, solved);
    unit_dims(c, item);
    bind_dims(c, item);
    bind_params(c, item);
    if (item->kind != N_graph) {
        odd_dims(c);
        lengths(c);
    }
    for (int i = 0; i < c->k->ndims; i++) {            // standing in a type is no use
        Bind *b = scope_find_here(c->scope, c->k->dims[i].name);
        if (b) b->used = false;
    }
    check_where(c, item, solved);
    return c;
}

// A graph's results may have sizes that only the equations of `where` give.
static void solve_by_equations(Check *c, bool *solved) {
    Ent dim[MAX_DIMS];
    for (int i = 0; i < c->k->ndims; i++)
        dim[i] = solved[i] || c->k->dims[i].fixed >= 0 ? ent_value(tx_dim(c, i, c->k->span)) : ent_unknown();
    dims_solve_guards(c, c->k, dim, NULL);
    for (int i = 0; i < c->k->ndims; i++) solved[i] = dim[i].kind != EN_unknown;
}

void head_close(Check *c, const Node *item, bool *solved, bool warn) {
    c->k->guards = c->guards.at;
    c->k->nguards = (int)c->guards.n;
    if (item->kind == N_graph) solve_by_equations(c, solved);
    unsolved_dims(c, item, solved, warn);
    if (warn && item->kind == N_kernel) unwritten(c, item);
}

static Check *run_kernel(SemaFile *f, const Node *kernel, Known values, const Check *last) {
    bool *solved = NEW_N(session_arena(f->s), bool, MAX_DIMS + 1);
    int errors = diag_errors(f->s);
    Check *c = head_open(f, kernel, values, solved, last, false);
    check_grid(c, kernel);
    check_block(c, kernel->kid[4]);
    head_close(c, kernel, solved, diag_errors(c->s) == errors);
    return c;
}

TKernel *sema_instance(SemaFile *f, const Node *kernel, const SemaValue *set, int nset, const SemaValue *dims, int ndims) {
    if (!kernel || !kernel->sym) return NULL;
    int before = diag_count(f->s), errors = diag_errors(f->s);
    Check *c = NULL;
    for (int run = 0; run <= MAX_DIMS; run++) {
        c = run_kernel(f, kernel, (Known){set, dims, nset, ndims}, c);
        if (!c->again) break;
        diag_forget(f->s, before);
    }
    // the parser, or another instance, has said it
    if (diag_errors(f->s) > errors || (c->failed && errors)) return NULL;
    if (c->failed) ice("kernel %s: something is wrong, and nothing was said", kernel->sym->s);
    return c->k;
}

// Kernels whose compile-time names all have values of their own.
static bool has_defaults(const Node *kernel) {
    const Node *gs = kernel->kid[0];
    for (uint32_t i = 0; gs && i < gs->nkid; i++) {
        if (!gs->kid[i]->kid[1]) return false;
    }
    return true;
}

void sema_check(SemaFile *f) {
    for (uint32_t i = 0; i < f->kernels.n; i++) {
        if (has_defaults(f->kernels.at[i])) sema_instance(f, f->kernels.at[i], NULL, 0, NULL, 0);
    }
    sema_check_graphs(f);
    TTest **tests;
    sema_tests(f, &tests);
    sema_check_tunes(f);
    for (uint32_t i = 0; i < f->kernels.n; i++) check_names(f, f->kernels.at[i]);
    for (uint32_t i = 0; i < f->fns.n; i++) check_names(f, f->fns.at[i]);
}
