// The values of a graph: inputs, weights, constants, what launches compute, and views, which are other values'
// memory seen with another shape.
//
//     reshape(h, B * S, 768)      as many elements, other dimensions
//     qkv[0]                      the first along the leading dimension, which goes
//     slice(h, 0, 16)             some of the leading dimension
//
// All values are dense and row-major, so each of these is an offset and a shape, and costs nothing.
#include "sema/graphitem.h"

#include <string.h>

Ent graph_value(Grapher *g, TGKind kind, Elem e, int rank, const Ent *dim, Span at) {
    Check *c = g->c;
    TTensor *tt = NEW(c->a, TTensor);
    TensorRef *ref = NEW(c->a, TensorRef);
    TGValue v = {.kind = kind, .span = at, .elem = e, .rank = rank, .base = -1, .param = -1};
    *tt = (TTensor){.param = (int)g->values.n, .elem = e, .rank = rank};
    *ref = (TensorRef){.t = tt, .elem = e, .elem_known = true, .rank = rank};
    for (int i = 0; i < rank; i++) {
        ref->dim[i] = dim[i];
        ref->lo[i] = ent_int(0, at);
        v.dim[i] = dim[i].kind == EN_int ? dim[i].i : -1;
        v.row[i] = dim[i].kind == EN_int ? dim[i].row : 0;
    }
    vec_push(c->a, &g->values, v);
    return (Ent){.kind = EN_tensor, .tensor = ref, .span = at};
}

TGValue *graph_value_of(Grapher *g, Ent e) { return &g->values.at[e.tensor->t->param]; }

int graph_root(const Grapher *g, int value) {
    while (g->values.at[value].kind == TG_view) value = g->values.at[value].base;
    return value;
}

bool graph_in_state(const Grapher *g, int value) { return g->values.at[graph_root(g, value)].kind == TG_state; }

// ---- types -----------------------------------------------------------------------------------------

bool graph_type(Grapher *g, const Node *type, TensorRef *out) {
    Check *c = g->c;
    *out = (TensorRef){.elem_known = true, .rank = (int)type->nkid - 1};
    if (out->rank > MAX_RANK) {
        report(c, E_too_many, type->span, "graph", MAX_RANK, "dimensions in a tensor");
        return false;
    }
    if (!eval_elem(c, type->kid[0], &out->elem)) return false;
    for (int i = 0; i < out->rank; i++) {
        const Node *n = type->kid[1 + i];
        Ent e = n->kind == N_colon ? ent_void() : dims_settle(c, eval(c, n));
        if (e.kind == EN_error) return false;
        if (e.kind == EN_unknown) {
            out->dim[i] = e;
            continue;
        }
        if (e.kind == EN_void || (e.kind != EN_int && !scalar_index(c, e, n->span, "a dimension"))) {
            if (e.kind == EN_void) report(c, E_kernel_param, n->span, "a tensor with an unnamed dimension");
            return false;
        }
        out->dim[i] = e;
    }
    return true;
}

bool graph_fits(Grapher *g, Ent v, const TensorRef *want, const char *what, Sym name, Span at, Span declared) {
    Check *c = g->c;
    if (v.kind == EN_error) return false;
    if (v.kind == EN_tensor && v.tensor->rank < 0) return graph_weight_shape(g, v, want, at);
    bool fits = v.kind == EN_tensor && v.tensor->elem == want->elem && v.tensor->rank == want->rank;
    for (int i = 0; fits && i < want->rank; i++) fits = dims_compare(c, v.tensor->dim[i], want->dim[i]) != DIMS_differ;
    if (!fits) {
        Diag *d = report(c, E_graph_type, at, arena_printf(c->a, "%s`%s`", what, name->s),
                         v.kind == EN_tensor ? tensor_text(c, v.tensor) : ent_text(c, v), tensor_text(c, want));
        if (declared.hi) diag_label(d, declared, "declared here");
        return false;
    }
    for (int i = 0; i < want->rank; i++) {
        if (v.tensor->dim[i].kind == EN_unknown) v.tensor->dim[i] = want->dim[i];
    }
    return true;
}

// ---- constants and weights ---------------------------------------------------------------------------

Ent graph_constant(Grapher *g, const Maker *m, const Node *call) {
    Made made;
    g->c->pinning++;
    bool fine = maker_read(g->c, m, call, &made);
    g->c->pinning--;
    if (!fine) return ent_error(g->c);
    Ent e = graph_value(g, TG_constant, made.elem, made.rank, made.dim, call->span);
    TGValue *v = graph_value_of(g, e);
    v->make = made.make;
    v->lo = made.lo;
    v->hi = made.hi;
    v->values = made.values;
    v->stream = g->values.n;
    v->fixed = true;
    return e;
}

// empty<f32>(T, N): room for what launches will store, each a part of it. Nobody makes it.
Ent graph_empty(Grapher *g, const Node *call) {
    Made made;
    if (!maker_read(g->c, &maker_empty, call, &made)) return ent_error(g->c);
    return graph_value(g, TG_computed, made.elem, made.rank, made.dim, call->span);
}

// weight("h.", i, ".attn.w"): texts and numbers, one after the other.
static bool weight_name(Grapher *g, const Node *call, Str *name) {
    Check *c = g->c;
    Buf text = {0};
    bool fine = call->nkid > 3;
    if (!fine) report(c, E_argument_count, call->span, "weight", "the name of a weight", 0);
    if (call->nkid == 4 && call->kid[3]->kind == N_string) return *name = call->kid[3]->str, true;
    for (uint32_t i = 3; i < call->nkid && fine; i++) {
        const Node *n = call->kid[i];
        Ent e = n->kind == N_string  ? (Ent){.kind = EN_str, .str = n->str}
                : n->kind == N_named ? ent_void()
                                     : recipe_pin(c, eval(c, n));
        bool open = !g->numbers && (e.kind == EN_unknown || (e.kind == EN_value && elem_is_int(e.x->type.elem)));
        fine = e.kind == EN_str || e.kind == EN_int || open;
        if (open) buf_putc(&text, '?');
        if (e.kind == EN_str) buf_add(&text, e.str.p, e.str.n);
        else if (e.kind == EN_int) buf_printf(&text, "%lld", (long long)e.i);
        else if (!open && e.kind != EN_error)
            report(c, E_weight, n->span,
                   arena_printf(c->a, "the name of a weight is made of texts and numbers, not of %s", ent_text(c, e)));
    }
    if (fine) {
        *name = (Str){sym(c->s, text.p ? text.p : "")->s, text.n};
    }
    buf_free(&text);
    return fine;
}

// The files of the `weights` around, the innermost graph's first.
static const char *const *weight_files(Grapher *g, int *n) {
    *n = 0;
    for (const Level *l = g->level; l; l = l->up) *n += l->nfiles;
    const char **all = NEW_N(g->c->a, const char *, *n + 1);
    int k = 0;
    for (const Level *l = g->level; l; l = l->up) {
        for (int i = 0; i < l->nfiles; i++) all[k++] = l->file[i];
    }
    return all;
}

static bool same_weight(const TGValue *v, Str name, const char *const *files, int nfiles) {
    if (v->kind != TG_weight || v->weight.n != name.n || memcmp(v->weight.p, name.p, name.n) != 0 ||
        v->nfiles != nfiles)
        return false;
    for (int i = 0; i < nfiles; i++) {
        if (strcmp(v->files[i], files[i]) != 0) return false;
    }
    return true;
}

static bool same_shape(const TGValue *v, const TensorRef *t) {
    bool same = v->elem == t->elem && v->rank == t->rank;
    for (int i = 0; same && i < t->rank; i++) same = t->dim[i].kind == EN_int && v->dim[i] == t->dim[i].i;
    return same;
}

bool graph_weight_shape(Grapher *g, Ent e, const TensorRef *type, Span at) {
    TGValue *v = graph_value_of(g, e);
    TensorRef *ref = e.tensor;
    ref->elem = ref->t->elem = v->elem = type->elem;
    ref->rank = ref->t->rank = v->rank = type->rank;
    for (int i = 0; i < type->rank; i++) {
        ref->dim[i] = recipe_pin(g->c, type->dim[i]);
        ref->lo[i] = ent_int(0, at);
        v->dim[i] = type->dim[i].kind == EN_int ? type->dim[i].i : -1;
        if (!g->numbers || v->dim[i] >= 0) continue;
        Diag *d = report(
            g->c, E_weight, at,
            arena_printf(g->c->a, "the shape of weight `%.*s` is not known", (int)v->weight.n, v->weight.p));
        diag_label(d, v->span, "the weight");
        diag_help(d,
                  "name its file with `weights \"file\";`, or declare it: `let w: f32[784, 512] = weight(\"%.*s\");`",
                  (int)v->weight.n, v->weight.p);
        return false;
    }
    return true;
}

Ent graph_weight(Grapher *g, const Node *call, const TensorRef *want) {
    Check *c = g->c;
    Str name;
    TensorRef type = {.rank = -1};
    int nfiles;
    if (!weight_name(g, call, &name)) return ent_error(c);
    const char *const *files = weight_files(g, &nfiles);
    if (want) type = *want;
    else if (g->numbers && g->f->weight_lookup) {
        int64_t dim[MAX_RANK];
        if (g->f->weight_lookup(g->f->weight_ctx, files, nfiles, name, &type.elem, &type.rank, dim)) {
            for (int i = 0; i < type.rank; i++) type.dim[i] = ent_int(dim[i], call->span);
        } else type.rank = -1;
    }
    Ent e = graph_value(g, TG_weight, type.elem, 0, NULL, call->span);
    TGValue *v = graph_value_of(g, e);
    v->weight = name;
    v->files = files;
    v->nfiles = nfiles;
    v->fixed = true;
    e.tensor->rank = -1;
    e.tensor->name = call->kid[0]->sym;
    if (type.rank < 0) return e;
    for (uint32_t i = 0; i + 1 < g->values.n && g->numbers; i++) {             // one weight, one value
        if (!same_weight(&g->values.at[i], name, files, nfiles) || !same_shape(&g->values.at[i], &type)) continue;
        g->values.n--;
        e.tensor->t->param = (int)i;
        break;
    }
    return graph_weight_shape(g, e, &type, call->span) ? e : ent_error(c);
}

// ---- views -------------------------------------------------------------------------------------------

Ent graph_view(Grapher *g, Ent of, Ent offset, int rank, const Ent *dim, Span at) {
    int base = of.tensor->t->param;
    Ent e = graph_value(g, TG_view, of.tensor->elem, rank, dim, at);
    TGValue *v = graph_value_of(g, e);
    v->base = base;
    v->offset = offset.kind == EN_int ? offset.i : 0;
    v->offset_row = offset.kind == EN_int ? offset.row : 0;
    v->fixed = g->values.at[base].fixed;
    e.tensor->name = of.tensor->name;
    return e;
}

static Ent times(Grapher *g, Ent a, Ent b, Span at) {
    Check *c = g->c;
    if (a.kind == EN_int && a.i == 1 && !a.row) return b;
    if (b.kind == EN_int && b.i == 1 && !b.row) return a;
    if (a.kind == EN_int && b.kind == EN_int)
        return recipe_result(c, OP_mul, a, b, ent_int((int64_t)((uint64_t)a.i * (uint64_t)b.i), at));
    if ((a.kind != EN_int && a.kind != EN_value) || (b.kind != EN_int && b.kind != EN_value)) return ent_unknown();
    TExpr *x = a.kind == EN_int ? tx_const_int(c, a.i, EL_index, at) : tx_cast(c, a.x, EL_index, at);
    TExpr *y = b.kind == EN_int ? tx_const_int(c, b.i, EL_index, at) : tx_cast(c, b.x, EL_index, at);
    return ent_value(index_op(c, OP_mul, x, y, at));
}

Ent graph_count(Grapher *g, const TensorRef *t, Span at) {
    Ent n = ent_int(1, at);
    for (int i = 0; i < t->rank; i++) n = times(g, n, t->dim[i], at);
    return n;
}

static const char *value_text(Grapher *g, Ent e) {
    const TGValue *v = graph_value_of(g, e);
    return v->kind == TG_weight && !v->name ? arena_printf(g->c->a, "weight(\"%.*s\")", (int)v->weight.n, v->weight.p)
                                            : e.tensor->name->s;
}

static bool known_tensor(Grapher *g, Ent v, const char *what, Span at) {
    if (v.kind == EN_error) return false;
    if (v.kind == EN_tensor && v.tensor->rank >= 0) return true;
    if (v.kind == EN_tensor)
        report(g->c, E_weight, at,
               arena_printf(g->c->a, "the shape of %s must be known for `%s`: declare it", value_text(g, v), what));
    else report(g->c, E_argument_type, at, 1, what, "a tensor", ent_text(g->c, v));
    return false;
}

Ent graph_reshape(Grapher *g, Ent v, const Node *call) {
    Check *c = g->c;
    Ent dim[MAX_RANK];
    int rank = 0;
    if (!known_tensor(g, v, "reshape", call->kid[3]->span)) return ent_error(c);
    for (uint32_t i = 4; i < call->nkid; i++) {
        Ent e = dims_settle(c, eval(c, call->kid[i]));
        if (e.kind == EN_error) return e;
        if (rank == MAX_RANK) {
            report(c, E_too_many, call->kid[i]->span, "graph", MAX_RANK, "dimensions in a tensor");
            return ent_error(c);
        }
        if (e.kind != EN_unknown && e.kind != EN_int && !scalar_index(c, e, call->kid[i]->span, "a dimension"))
            return ent_error(c);
        dim[rank++] = e;
    }
    TensorRef to = {.elem = v.tensor->elem, .rank = rank};
    memcpy(to.dim, dim, sizeof *dim * (size_t)rank);
    Ent have = graph_count(g, v.tensor, call->span), want = graph_count(g, &to, call->span);
    if (dims_compare(c, have, want) == DIMS_differ) {
        Diag *d = report(c, E_reshape, call->span,
                         arena_printf(c->a, "%s cannot be seen as %s: %s elements, not %s", tensor_text(c, v.tensor),
                                      tensor_text(c, &to), dims_text(c, have), dims_text(c, want)));
        bool minus = false;
        for (int i = 0; i < rank; i++) minus = minus || (dim[i].kind == EN_int && dim[i].i < 0);
        if (minus) diag_help(d, "each dimension is said: there is no -1 that follows from the others");
        else if (have.kind == EN_value || want.kind == EN_value)
            diag_help(d, "if they are always equal, say so: `where %s = %s`", dims_text(c, have), dims_text(c, want));
        return ent_error(c);
    }
    return graph_view(g, v, ent_int(0, call->span), rank, dim, call->span);
}

static Ent plus(Grapher *g, Ent a, Ent b) {
    return recipe_result(g->c, OP_add, a, b, ent_int((int64_t)((uint64_t)a.i + (uint64_t)b.i), a.span));
}

// Of two numbers, if they are some: less or greater?
static bool truth(Grapher *g, AstOp op, Ent a, Ent b) {
    if (a.kind != EN_int || b.kind != EN_int) return false;
    return recipe_pin(g->c, recipe_result(g->c, op, a, b, ent_bool(op == OP_lt ? a.i < b.i : a.i > b.i, a.span))).i;
}

// `rows` of the leading dimension from `lo` on; the dimension itself goes if `drop`.
static Ent part(Grapher *g, Ent v, Ent lo, Ent rows, bool drop, Span at) {
    Check *c = g->c;
    const TensorRef *t = v.tensor;
    Ent dim[MAX_RANK], step = ent_int(1, at), n = t->dim[0];
    for (int i = 1; i < t->rank; i++) step = times(g, step, t->dim[i], at);
    bool low = truth(g, OP_lt, lo, ent_int(0, at)), numbers = lo.kind == EN_int && rows.kind == EN_int && n.kind == EN_int;
    bool high = numbers && (truth(g, OP_lt, rows, ent_int(0, at)) || truth(g, OP_gt, plus(g, lo, rows), n));
    if (low || high) {
        report(c, E_reshape, at,
               arena_printf(c->a, "%s .. %s is not in 0 .. %s, the leading dimension of %s", dims_text(c, lo),
                            rows.kind == EN_int ? arena_printf(c->a, "%lld", (long long)(lo.i + rows.i)) : "?",
                            dims_text(c, n), tensor_text(c, t)));
        return ent_error(c);
    }
    int rank = 0;
    if (!drop) dim[rank++] = rows;
    for (int i = 1; i < t->rank; i++) dim[rank++] = t->dim[i];
    Ent offset = times(g, lo, step, at);
    return graph_view(g, v, offset, rank, dim, at);
}

Ent graph_slice(Grapher *g, Ent v, const Node *call) {
    Check *c = g->c;
    if (!known_tensor(g, v, "slice", call->kid[3]->span)) return ent_error(c);
    if (call->nkid != 6 || v.tensor->rank == 0) {
        report(c, E_argument_count, call->span, "slice", "a tensor and two bounds of its leading dimension",
               (int)call->nkid - 3);
        return ent_error(c);
    }
    Ent lo = dims_settle(c, eval(c, call->kid[4])), hi = dims_settle(c, eval(c, call->kid[5]));
    TExpr *a = scalar_index(c, lo, call->kid[4]->span, "a bound"), *b = scalar_index(c, hi, call->kid[5]->span, "a bound");
    if (!a || !b) return ent_error(c);
    bool numbers = lo.kind == EN_int && hi.kind == EN_int;
    Ent rows = numbers
                   ? recipe_result(c, OP_sub, hi, lo, ent_int((int64_t)((uint64_t)hi.i - (uint64_t)lo.i), call->span))
                   : dims_settle(c, ent_value(index_op(c, OP_sub, b, a, call->span)));
    return part(g, v, lo, rows, false, call->span);
}

Ent graph_index(Grapher *g, Ent v, const Node *n) {
    Check *c = g->c;
    if (!known_tensor(g, v, "[...]", n->kid[0]->span)) return ent_error(c);
    int indices = (int)n->nkid - 2;
    if (n->kid[1] || indices > v.tensor->rank) {
        if (n->kid[1]) report(c, E_graph_statement, n->kid[1]->span, "`else`");
        else
            report(c, E_index_count, n->span, "it", v.tensor->rank, v.tensor->rank == 1 ? "" : "s", indices,
                   indices == 1 ? "ex" : "ices");
        return ent_error(c);
    }
    bool colon = false;
    for (int i = 0; i < indices; i++) {
        const Node *x = n->kid[2 + i];
        if (x->kind == N_colon) {
            colon = true;
            continue;
        }
        if (colon) {
            Diag *d = report(c, E_reshape, x->span, "an index after `:` is no view");
            diag_help(d, "numbers stand first: what is left is one stretch of memory; a kernel can read anything else");
            return ent_error(c);
        }
        Ent e = dims_settle(c, eval(c, x));
        if (e.kind == EN_error || !scalar_index(c, e, x->span, "an index")) return ent_error(c);
        v = part(g, v, e, ent_int(1, x->span), true, x->span);
        if (v.kind == EN_error) return v;
    }
    return v;
}
