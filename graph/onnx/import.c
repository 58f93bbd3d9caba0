// From a model to the graph IR: its nodes in order, each by its row of the op table.
//
//     scope of a function's body          (sees nothing around it; attributes may refer to the call's)
//     scope of the graph  <--  scope of a body of If, Loop, Scan          (sees what is around it)
//       |  names -> nodes of the graph IR
//
// Functions of the model are lowered in place, as often as they are called. Bodies are lowered by the operators that
// have them (op_inline). A model's mistakes are found on the way: names that nobody makes, or too late, or twice;
// dimensions and data that do not agree; and recorded with the node that they were met at.
#include "graph/fuse/fuse.h"
#include "lang/c_text.h"
#include "graph/rewrite/loops.h"
#include "graph/graph_passes.h"
#include "graph/rewrite/narrow.h"
#include "graph/stages.h"
#include "graph/onnx/internal.h"
#include "lang/limits.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 48, MAX_TRIES = 12 };

// ---- names -----------------------------------------------------------------------------------------

typedef struct Entry {
    const char *name;
    Node *node;
    int type;
} Entry; // type: see Op.in_type

struct Scope {
    Scope *up;   // what is around it, or NULL
    Entry *slot; // open addressing, at most half full
    uint32_t n, cap;
};

static Entry *slot_of(const Scope *s, const char *name) {
    uint32_t h = 2166136261u;
    for (const char *p = name; *p != '\0'; p++) h = (h ^ (unsigned char)*p) * 16777619u;
    uint32_t i = h & (s->cap - 1);
    while (s->slot[i].name != NULL && strcmp(s->slot[i].name, name) != 0) i = (i + 1) & (s->cap - 1);
    return &s->slot[i];
}

static bool define(Import *im, const char *name, Node *n, int type) {
    Scope *s = im->scope;
    if (s->n * 2 >= s->cap) {
        Scope old = *s;
        s->cap = old.cap > 0 ? old.cap * 2 : 32;
        s->slot = NEW_N(im->g->arena, Entry, s->cap);
        for (uint32_t i = 0; i < old.cap; i++)
            if (old.slot[i].name != NULL) *slot_of(s, old.slot[i].name) = old.slot[i];
    }
    Entry *e = slot_of(s, name);
    if (e->name != NULL) return g_error(im->g, "`%s` is made twice", shown(im->g->arena, name)), false;
    *e = (Entry){name, n, type};
    s->n++;
    return true;
}

// NULL: unknown. An entry without a node is an input of a function that the call leaves out.
static const Entry *lookup(const Import *im, const char *name) {
    for (const Scope *s = im->scope; s != NULL; s = s->up) {
        const Entry *e = s->cap > 0 ? slot_of(s, name) : NULL;
        if (e != NULL && e->name != NULL) return e;
    }
    return NULL;
}

static Node *value_of(const Import *im, const char *name) {
    const Entry *e = lookup(im, name);
    return e != NULL ? e->node : NULL;
}

const OnnxGiven *given_find(const OnnxImport *how, const char *name) {
    for (int i = 0; i < how->ngiven; i++)
        if (strcmp(how->given[i].name, name) == 0) return &how->given[i];
    return NULL;
}

// ---- nodes -----------------------------------------------------------------------------------------

static const char *text(const char *s) { return s != NULL ? s : ""; }

static const char *domain_of(const char *domain) { return strcmp(text(domain), "ai.onnx") == 0 ? "" : text(domain); }

static int64_t opset_of(const Import *im, const char *domain) {
    for (size_t i = 0; i < im->nopsets; i++)
        if (strcmp(domain_of(im->opsets[i]->domain), domain) == 0) return im->opsets[i]->version;
    return im->nopsets == 0 && *domain == '\0' ? 1 : 0;      // a file from before there were others
}

static const Onnx__FunctionProto *function_of(const Import *im, const Onnx__NodeProto *n) {
    const Onnx__ModelProto *m = im->m->proto;
    for (size_t i = 0; i < m->n_functions; i++) {
        const Onnx__FunctionProto *f = m->functions[i];
        if (strcmp(text(f->name), text(n->op_type)) == 0 && strcmp(domain_of(f->domain), domain_of(n->domain)) == 0 &&
            strcmp(text(f->overload), text(n->overload)) == 0)
            return f;
    }
    return NULL;
}

static const char *where_of(Import *im, const Onnx__NodeProto *n) {
    Arena *a = im->g->arena;
    const char *type = shown(a, text(n->op_type));
    if (text(n->name)[0] != '\0') return arena_printf(a, "%s %s", type, shown(a, n->name));
    for (size_t i = 0; i < n->n_output; i++)
        if (n->output[i][0] != '\0')
            return arena_printf(a, "%s (the one that makes `%s`)", type, shown(a, n->output[i]));
    return type;
}

static bool made_later(Import *im, const char *name) {
    const Onnx__GraphProto *g = im->m->proto->graph;
    for (size_t i = 0; im->call == NULL && i < g->n_node; i++)
        for (size_t o = 0; o < g->node[i]->n_output; o++)
            if (strcmp(g->node[i]->output[o], name) == 0) return true;
    return false;
}

static bool lower_nodes(Import *im, Onnx__NodeProto *const *nodes, size_t n);

typedef struct Values {
    Node **in, **out;
    int *in_type, *out_type;
} Values; // of a node

static bool inline_function(Import *im, const Onnx__NodeProto *n, const Onnx__FunctionProto *f, const Values *v) {
    Graph *g = im->g;
    int depth = 0;
    for (const Call *c = im->call; c != NULL; c = c->up, depth++)
        if (c->f == f) return g_error(g, "the function %s calls itself", shown(g->arena, f->name)), false;
    if (n->n_input > f->n_input || n->n_output > f->n_output)
        return g_error(g, "the function %s has %zu inputs and %zu outputs, %zu and %zu are used",
                       shown(g->arena, f->name), f->n_input, f->n_output, n->n_input, n->n_output),
               false;
    Import outer = *im;
    im->scope = &(Scope){0};
    im->call = &(Call){.up = outer.call, .node = n, .f = f};
    if (f->n_opset_import > 0) im->opsets = f->opset_import, im->nopsets = f->n_opset_import;
    bool ok = true;
    for (size_t i = 0; i < f->n_input && ok; i++)
        ok = define(im, f->input[i], i < n->n_input ? v->in[i] : NULL, i < n->n_input ? v->in_type[i] : 0);
    ok = ok && lower_nodes(im, f->node, f->n_node);
    for (size_t i = 0; i < n->n_output && ok; i++) {
        const Entry *e = lookup(im, f->output[i]);
        if (e != NULL) v->out[i] = e->node, v->out_type[i] = e->type;
        if (v->out[i] == NULL && n->output[i][0] != '\0')
            ok = g_error(g, "the function %s does not make its output `%s`", shown(g->arena, f->name),
                         shown(g->arena, f->output[i])) != NULL;
    }
    im->scope = outer.scope, im->call = outer.call, im->opsets = outer.opsets, im->nopsets = outer.nopsets;
    return ok;
}

// Elements that have no type of their own here keep ONNX's where they are only moved: the same as the first input's.
static void keep_types(const Values *v, size_t nin, size_t nout) {
    if (nin == 0 || v->in[0] == NULL || onnx_type_plain(v->in_type[0])) return;
    for (size_t i = 0; i < nout; i++)
        if (v->out_type[i] == 0 && v->out[i] != NULL && v->out[i]->elem == v->in[0]->elem)
            v->out_type[i] = v->in_type[0];
}

// Of what ONNX's own operator has; names left empty at the end are nothing.
static bool fits_schema(Graph *g, const Onnx__NodeProto *n) {
    size_t in = n->n_input, out = n->n_output;
    while (in > 0 && n->input[in - 1][0] == '\0') in--;
    while (out > 0 && n->output[out - 1][0] == '\0') out--;
    if (!op_has_room(g, text(n->op_type), (int)in, (int)out)) return false;
    for (size_t i = 0; i < n->n_attribute; i++)
        if (!op_has_attribute(g, text(n->op_type), shown(g->arena, text(n->attribute[i]->name)))) return false;
    return true;
}

static bool lower_by_row(Import *im, const Onnx__NodeProto *n, const Values *v) {
    Graph *g = im->g;
    const char *domain = domain_of(n->domain);
    int64_t version = opset_of(im, domain);
    const OpRow *row = op_find(domain, text(n->op_type), version > 0 && version < 10000 ? (int)version : 10000);
    if (row == NULL && op_find(domain, text(n->op_type), 10000) != NULL)
        return g_error(g, "opset %lld has no such operator", (long long)version), false;
    if (row == NULL && strcmp(domain, "ai.onnx.ml") == 0) im->how->out_of_scope = "classical models";
    if (row == NULL && strcmp(domain, "ai.onnx.contrib") == 0) im->how->out_of_scope = "strings";
    if (row == NULL && im->how->out_of_scope != NULL)
        return g_error(g, "%s (operators of %s) are not supported", im->how->out_of_scope, domain), false;
    if (row == NULL && (strncmp(domain, "com.microsoft", 13) == 0 || strncmp(domain, "com.ms.", 7) == 0))
        return g_error(
                   g,
                   "there is no operator %s.%s; it is one of ONNX Runtime's own, for which the model before its optimiser has operators of ONNX",
                   shown(g->arena, domain), shown(g->arena, text(n->op_type))),
               false;
    const char *near = row == NULL ? op_nearest(text(n->op_type)) : NULL;
    if (row == NULL)
        return g_error(g, "there is no operator %s%s%s%s%s%s", shown(g->arena, domain), *domain != '\0' ? "." : "",
                       shown(g->arena, text(n->op_type)), near != NULL ? "; did you mean `" : "", near != NULL ? near : "",
                       near != NULL ? "`?" : ""),
               false;
    if (row->lower == NULL) im->how->out_of_scope = row->why;
    if (row->lower == NULL) return g_error(g, "%s are not supported", row->why), false;
    if (version <= 0)
        return g_error(g, "the model imports no opset of the domain \"%s\"", shown(g->arena, domain)), false;
    if (*domain == '\0' && !fits_schema(g, n)) return false;
    Op op = {.g = g,
             .type = row->type,
             .domain = domain,
             .version = (int)(version < 10000 ? version : 10000),
             .row = row->arg,
             .nin = (int)n->n_input,
             .nout = (int)n->n_output,
             .in = v->in,
             .out = v->out,
             .in_type = v->in_type,
             .out_type = v->out_type,
             .import = im,
             .node = n};
    Node *first = row->lower(&op);
    if (n->n_output > 0 && first != NULL) v->out[0] = first;
    keep_types(v, n->n_input, n->n_output);
    return g_failed(g) == NULL && !im->again;
}

static bool lower_node(Import *im, const Onnx__NodeProto *n) {
    Graph *g = im->g;
    Arena *a = g->arena;
    const char *around = g_source(g), *here = where_of(im, n);
    g_at(g, im->call != NULL ? arena_printf(a, "%s in %s", here, shown(a, im->call->f->name)) : here);
    if (++im->lowered > limit_of(LIMIT_model_nodes))
        return g_error(g, "the model has more than %lld nodes when its functions and loops are written out (TKC_LIMITS=model-nodes=%lld "
                          "raises this limit)", (long long)limit_of(LIMIT_model_nodes), 2 * (long long)limit_of(LIMIT_model_nodes)),
               false;
    if (im->depth >= MAX_DEPTH)
        return g_error(g, "functions and bodies are nested more than %d deep", MAX_DEPTH), false;
    Values v = {NEW_N(a, Node *, n->n_input + 1), NEW_N(a, Node *, n->n_output + 1), NEW_N(a, int, n->n_input + 1),
                NEW_N(a, int, n->n_output + 1)};
    for (size_t i = 0; i < n->n_input; i++) {
        const char *name = n->input[i];
        const Entry *e = name[0] != '\0' ? lookup(im, name) : NULL;
        if (e != NULL) v.in[i] = e->node, v.in_type[i] = e->type;
        if (e != NULL || name[0] == '\0') continue;
        if (made_later(im, name))
            return g_error(g, "its input `%s` is made by a later node: nodes are in a cycle",
                           shown(a, name)),
                   false;
        return g_error(g, "nothing makes its input `%s`", shown(a, name)), false;
    }
    const Onnx__FunctionProto *f = function_of(im, n);
    im->depth++;
    bool ok = f != NULL ? inline_function(im, n, f, &v) : lower_by_row(im, n, &v);
    im->depth--;
    for (size_t i = 0; i < n->n_output && ok; i++) {
        const char *name = n->output[i];
        if (name[0] == '\0') continue;
        if (v.out[i] == NULL && i == 0) ok = g_error(g, "its output `%s` is not made", shown(a, name)) != NULL;
        else if (v.out[i] == NULL) ok = g_error(g, "has no output %zu", i) != NULL;
        else ok = define(im, name, g_name(g, v.out[i], name), v.out_type[i]);
    }
    g_at(g, around);
    return ok && g_failed(g) == NULL;
}

static bool lower_nodes(Import *im, Onnx__NodeProto *const *nodes, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (!lower_node(im, nodes[i])) return false;
    return true;
}

// ---- weights -----------------------------------------------------------------------------------------

static Node *initializer(Import *im, const Onnx__TensorProto *p) {
    Graph *g = im->g;
    OnnxModel *m = im->m;
    OnnxTensor t;
    Buf why = {0};
    Node *n = NULL;
    g_at(g, arena_printf(g->arena, "initializer `%s`", shown(g->arena, text(p->name))));
    if (!weight_of(m, p, m->arena, &t, &why)) {
        if (p->data_type == 8) im->how->out_of_scope = "strings";
        g_error(g, "%s", why.p);
    } else if (t.missing != NULL && !im->how->random_weights) {
        g_error(g, "its file of external data, %s, is not there (--random-weights runs a model without)",
                shown(g->arena, t.missing));
    } else {
        if (t.missing != NULL && (t.data = random_weight(m, &t, &why)) == NULL) g_error(g, "%s", why.p);
        t.from.stored = stored_name(m, p);
        if (t.from.file == NULL) t.from.file = m->path;
        if (t.data != NULL) n = tensor_unpacked(g, &t, g_name(g, tensor_node(g, &t), text(p->name)));
    }
    buf_free(&why);
    return n;
}

static bool initializers(Import *im, const Onnx__GraphProto *gp, bool outermost) {
    Graph *g = im->g;
    const char *around = g_source(g);
    bool ok = true;
    for (size_t i = 0; i < gp->n_initializer && ok; i++) {
        const Onnx__TensorProto *p = gp->initializer[i];
        if (outermost && given_find(im->how, text(p->name)) != NULL && lookup(im, text(p->name)) != NULL)
            continue; // given instead
        Node *n = initializer(im, p);
        ok = n != NULL && define(im, text(p->name), g_name(g, n, text(p->name)), p->data_type);
    }
    for (size_t i = 0; i < gp->n_sparse_initializer && ok; i++) {
        OnnxTensor t;
        Buf why = {0};
        g_at(g, "sparse initializer");
        ok = sparse_of(im->m, gp->sparse_initializer[i], im->m->arena, &t, &why);
        t.from.stored = stored_name(im->m, gp->sparse_initializer[i]);
        ok = ok && define(im, t.name, tensor_node(g, &t), t.type);
        if (why.n > 0) g_error(g, "%s", why.p);
        buf_free(&why);
    }
    g_at(g, around);
    return ok && g_failed(g) == NULL;
}

// ---- inputs and outputs -------------------------------------------------------------------------------

static bool marked(const char *const *names, uint32_t n, const char *name) {
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return true;
    return false;
}

// What a dimension was found to be, in the end.
static const SameDim *same_as(const Marks *k, const char *name) {
    const SameDim *found = NULL;
    for (uint32_t i = 0; i < k->same.n; i++)
        if (strcmp(k->same.at[i].name, name) == 0) {
            found = &k->same.at[i];
            if (found->as == NULL) return found;
            const SameDim *further = same_as(k, found->as);
            return further != NULL ? further : found;
        }
    return found;
}

static bool unnamed(const Marks *k, const Graph *g, Ix dim) {
    return marked(k->unnamed.at, k->unnamed.n, ix_dim_info(g, dim)->name);
}

// a == b, of which one is a dimension and the other one too, or a number. True: that is new.
static bool alike(Import *im, Ix a, Ix b) {
    Graph *g = im->g;
    Marks *k = im->marks;
    bool both = a->kind == IX_DIM && b->kind == IX_DIM, made_a = a->kind == IX_DIM && unnamed(k, g, a),
         made_b = b->kind == IX_DIM && unnamed(k, g, b);
    if (a->kind != IX_DIM || (both && (made_a != made_b ? made_b : b->value > a->value))) {
        Ix other = a;
        a = b, b = other;
    }
    if (a->kind != IX_DIM || (b->kind != IX_DIM && !ix_is_const(b)) || a == b) return false;
    const IxDim *of = ix_dim_info(g, a), *to = b->kind == IX_DIM ? ix_dim_info(g, b) : NULL;
    bool fixed = of->data_dependent || of->value != NULL || (to != NULL && (to->data_dependent || to->value != NULL));
    const SameDim *end = to != NULL ? same_as(k, to->name) : NULL;
    bool around = to != NULL && (strcmp(to->name, of->name) == 0 ||
                                 (end != NULL && end->as != NULL && strcmp(end->as, of->name) == 0));
    if (fixed || around || same_as(k, of->name) != NULL) return false;
    SameDim s = {arena_printf(k->arena, "%s", of->name), to != NULL ? arena_printf(k->arena, "%s", to->name) : NULL,
                 to != NULL ? 0 : b->value, NULL};
    vec_push(k->arena, &k->same, s);
    return true;
}

typedef struct Solved { Ix dim, as; } Solved;

// Is e a sum of two dimensions or more, and nothing taken away?
static bool only_adds(Ix e) {
    bool adds = e->kind == IX_SUM && e->value >= 0 && e->n > 0 && (e->n > 1 || e->value > 0);
    for (uint32_t i = 0; adds && i < e->n; i++) adds = e->coef[i] > 0 && e->arg[i]->kind == IX_DIM;
    return adds;
}

// rest == 0, a sum of dimensions, as what it says of one of them, if need be the last; NULL: it is no such sum.
static Ix solve_one(Graph *g, Ix rest, Solved *out) {
    int last = -1;
    for (uint32_t i = 0; i < rest->n; i++) {
        if (rest->kind != IX_SUM || rest->arg[i]->kind != IX_DIM) return NULL;
        bool one = rest->coef[i] == 1 || rest->coef[i] == -1;
        if (one && (last < 0 || rest->arg[i]->value > rest->arg[last]->value)) last = (int)i;
    }
    for (uint32_t i = 0; last >= 0 && i < rest->n; i++) {
        Ix others = ix_muli(g, ix_sub(g, rest, ix_muli(g, rest->arg[i], rest->coef[i])), -rest->coef[i]);
        if ((rest->coef[i] == 1 || rest->coef[i] == -1) && only_adds(others)) last = (int)i;
    }
    if (last < 0) return NULL;
    Ix dim = rest->arg[last], others = ix_sub(g, rest, ix_muli(g, dim, rest->coef[last]));
    *out = (Solved){dim, ix_muli(g, others, -rest->coef[last])};
    return dim;
}

// A dimension that is a sum of others in all the model: its inputs have that sum.
static bool note_sum(Import *im, Solved s) {
    Graph *g = im->g;
    Marks *k = im->marks;
    const IxDim *of = ix_dim_info(g, s.dim);
    bool fixed = of->data_dependent || of->value != NULL || same_as(k, of->name) != NULL || im->how->donate || !only_adds(s.as);
    for (uint32_t i = 0; !fixed && i < k->same.n; i++) fixed = k->same.at[i].as != NULL && strcmp(k->same.at[i].as, of->name) == 0;
    for (uint32_t i = 0; !fixed && i < s.as->n; i++) {
        const IxDim *part = ix_dim_info(g, s.as->arg[i]);
        fixed = part->data_dependent || part->value != NULL || same_as(k, part->name) != NULL;
    }
    if (fixed) return false;
    Buf sum = {0};
    ix_print(&sum, g, s.as, NULL);
    vec_push(k->arena, &k->same, ((SameDim){.name = arena_printf(k->arena, "%s", of->name), .sum = arena_printf(k->arena, "%s", sum.p)}));
    buf_free(&sum);
    return true;
}

// Sums say it too: that the rows of each layer's cache and the new tokens are as many as the mask has makes all layers' caches alike.
static bool alike_by_sums(Import *im) {
    enum { MOST = 2048 };
    Graph *g = im->g;
    Solved *s = NEW_N(g->arena, Solved, g->requires.n + 1);
    int n = 0;
    bool more = false;
    for (uint32_t i = 0; i < g->requires.n && n < MOST; i++) {
        Ix rest = ix_sub(g, g->requires.at[i].a, g->requires.at[i].b);
        for (int k = 0; k < n && rest->has_dim; k++) rest = ix_substitute_dim(g, rest, s[k].dim, s[k].as);
        if (!solve_one(g, rest, &s[n])) continue;
        for (int k = 0; k < n; k++) s[k].as = ix_substitute_dim(g, s[k].as, s[n].dim, s[n].as);
        n++;
    }
    for (int i = 0; i < n; i++) {
        more |= alike(im, s[i].dim, s[i].as);
        for (int k = 0; k < i; k++)
            if (s[k].as == s[i].as) { more |= alike(im, s[k].dim, s[i].dim); break; }
    }
    for (int i = 0; i < n && !more; i++) more = note_sum(im, s[i]);
    return more;
}

// Dimensions that the model requires to be one, or a number, are that from the start: exporters leave them without
// names, or give each input names of its own. True: there are new ones. A name of the model's own goes before one made
// up for it, an earlier one before a later.
static bool dims_alike(Import *im) {
    Graph *g = im->g;
    bool more = false;
    for (uint32_t i = 0; i < g->requires.n; i++) {
        Ix rest = ix_sub(g, g->requires.at[i].a, g->requires.at[i].b), a = rest, b = ix(g, 0);        // rest == 0
        if (rest->kind == IX_SUM && rest->n == 1 && (rest->coef[0] == 1 || rest->coef[0] == -1)) {
            a = rest->arg[0], b = ix(g, -rest->coef[0] * rest->value);
        } else if (rest->kind == IX_SUM && rest->n == 2 && rest->value == 0 && rest->coef[0] == -rest->coef[1] &&
                   (rest->coef[0] == 1 || rest->coef[0] == -1)) {
            a = rest->arg[0], b = rest->arg[1];
        }
        more |= alike(im, a, b);
    }
    return more || alike_by_sums(im);
}

// Sizes of 1 give way to others, and dimensions by name are taken not to be 1; blocks divide, lists have a length. Where
// the tensors given are another case, their sizes are taken as numbers. Is this it? So are they where two of one name differ: exporters
// give names to what is not the same, and the model itself says whether sizes fit.
static bool another_case(Import *im) {
    Graph *g = im->g;
    int dims = ix_dim_count(g);
    int64_t *value = NEW_N(g->arena, int64_t, dims + 1);
    bool *bound = NEW_N(g->arena, bool, dims + 1), any = false, holds = true;
    for (uint32_t i = 0; i < g->inputs.n; i++) {
        const Node *n = g->inputs.at[i].node;
        const OnnxGiven *given = given_find(im->how, n->name);
        for (int d = 0; given != NULL && d < n->rank; d++) {
            if (n->shape[d]->kind != IX_DIM) continue;
            int64_t dim = n->shape[d]->value, size = given->tensor->shape[d];
            if (bound[dim] && value[dim] != size && im->marks->apart == NULL)
                im->marks->apart = arena_printf(im->marks->arena, "input `%s`: the dimension `%s` is %lld here, and %lld in another place", shown(g->arena, n->name),
                                                ix_dim_info(g, n->shape[d])->name, (long long)size, (long long)value[dim]);
            value[dim] = size;
            bound[dim] = any = true;
        }
    }
    for (uint32_t i = 0; i < g->requires.n && any && holds; i++) {
        GRequire r = g->requires.at[i];
        if (ix_dims_in(r.a, bound) && ix_dims_in(r.b, bound)) holds = ix_eval(r.a, value, NULL) == ix_eval(r.b, value, NULL);
    }
    return im->how->ngiven > 0 && (!holds || g_failed(g) != NULL || im->marks->apart != NULL);
}

// ---- sums of names -----------------------------------------------------------------------------------

typedef Onnx__TensorShapeProto__Dimension DimProto;
typedef struct DimSum { Import *im; const char *at; } DimSum;       // text, read from left to right
typedef struct DimRead { Ix e; int64_t size; bool known; } DimRead;       // size: by the tensors given, if they say it

static Ix input_dim(Import *im, const char *input, int d, const DimProto *dim, const GTensor *given);
// "?", "-1" and "None" say that nothing is known: two of them need not be equal.
static bool has_name(const DimProto *dim) {
    if (dim->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM) return false;
    bool letters = false;
    for (const char *p = dim->dim_param; *p != '\0'; p++) letters = letters || c_isalpha((unsigned char)*p) || (unsigned char)*p >= 0x80;
    return letters && strcmp(dim->dim_param, "None") != 0;
}
static bool has_size(const DimProto *dim) { return dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && dim->dim_value >= 0; }
static bool in_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.'; }

// A name that an input has alone.
static DimRead dim_by_name(Import *im, const char *name) {
    for (uint32_t i = 0; i < im->m->ninputs; i++) {
        const Onnx__ValueInfoProto *v = im->m->inputs.at[i];
        const Onnx__TypeProto__Tensor *type =
            v->type != NULL && v->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? v->type->tensor_type : NULL;
        for (size_t d = 0; type != NULL && type->shape != NULL && d < type->shape->n_dim; d++) {
            const DimProto *dim = type->shape->dim[d];
            if (has_size(dim) || strcmp(has_name(dim) ? dim->dim_param : arena_printf(im->g->arena, "%s_%zu", text(v->name), d), name) != 0) continue;
            const OnnxGiven *given = given_find(im->how, text(v->name));
            bool known = given != NULL && d < (size_t)given->tensor->rank;
            return (DimRead){input_dim(im, text(v->name), (int)d, dim, known ? given->tensor : NULL), known ? given->tensor->shape[d] : 0, known};
        }
    }
    return (DimRead){0};
}

static void skip_spaces(DimSum *s) { while (*s->at == ' ') s->at++; }

static DimRead read_factor(DimSum *s) {
    skip_spaces(s);
    size_t n = 0;
    while (in_name(s->at[n])) n++;
    const char *word = s->at;
    s->at += n;
    skip_spaces(s);
    if (n == 0 || n > 200) return (DimRead){0};
    if (*word < '0' || *word > '9') return dim_by_name(s->im, arena_printf(s->im->g->arena, "%.*s", (int)n, word));
    int64_t v = 0;
    for (size_t i = 0; i < n; i++) {
        if (word[i] < '0' || word[i] > '9' || v > IX_DIM_MAX) return (DimRead){0};
        v = 10 * v + (word[i] - '0');
    }
    return (DimRead){ix(s->im->g, v), v, true};
}

static DimRead read_product(DimSum *s) {
    DimRead a = read_factor(s);
    while (a.e != NULL && *s->at == '*') {
        s->at++;
        DimRead b = read_factor(s);
        bool known = a.known && b.known && !__builtin_mul_overflow(a.size, b.size, &a.size);
        a = (DimRead){ix_mul(s->im->g, a.e, b.e), a.size, known};
    }
    return a;
}

// past + sequence, 2*s0 - 1, of names that inputs have alone. NULL: no such sum, or another one by the tensors given: then it is a
// name like others.
static Ix read_sum(Import *im, const char *text, const GTensor *given, int d) {
    enum { DEEP = 8, LONG = 256 };
    if (im->sums == DEEP || strlen(text) > LONG) return NULL;
    im->sums++;
    DimSum s = {im, text};
    DimRead a = read_product(&s);
    while (a.e != NULL && (*s.at == '+' || *s.at == '-')) {
        bool less = *s.at++ == '-';
        DimRead b = read_product(&s);
        bool known = a.known && b.known &&
                     !(less ? __builtin_sub_overflow(a.size, b.size, &a.size) : __builtin_add_overflow(a.size, b.size, &a.size));
        a = (DimRead){less ? ix_sub(im->g, a.e, b.e) : ix_add(im->g, a.e, b.e), a.size, known};
    }
    im->sums--;
    bool fits = a.e != NULL && *s.at == '\0' && a.e->hi >= 0 && !(given != NULL && a.known && a.size != given->shape[d]);
    return fits ? a.e : NULL;
}

// The size that is fixed for a name; NULL: none is.
static const OnnxSize *fixed_size(const Import *im, const char *name) {
    for (int i = 0; i < im->how->nfixed; i++) {
        if (strcmp(im->how->fixed[i].name, name) != 0) continue;
        im->marks->fixed[i] = true;
        return &im->how->fixed[i];
    }
    return NULL;
}

// False: one that no input has, and what there is.
static bool fixed_are_known(const Import *im) {
    Buf names = {0};
    int unknown = 0;
    while (unknown < im->how->nfixed && im->marks->fixed[unknown]) unknown++;
    if (unknown == im->how->nfixed) return true;
    for (int d = 0; d < ix_dim_count(im->g); d++) buf_printf(&names, "%s`%s`", names.n > 0 ? ", " : "", ix_dim_info(im->g, ix_dim_at(im->g, d))->name);
    g_error(im->g, "no input has a dimension `%s`; %s%s", im->how->fixed[unknown].name, names.n > 0 ? "those that are open: " : "none of them is open", names.n > 0 ? names.p : "");
    buf_free(&names);
    return false;
}

// What a dimension of an input is: a number, or a name. A given tensor settles what must be settled.
static Ix input_dim(Import *im, const char *input, int d, const DimProto *dim, const GTensor *given) {
    Graph *g = im->g;
    bool named = dim != NULL && has_name(dim), fixed = dim != NULL && has_size(dim);
    if (fixed) {
        if (given != NULL && given->shape[d] != dim->dim_value)
            return g_error(g, "dimension %d is %lld in the model, but %lld in the tensor given", d,
                           (long long)dim->dim_value, (long long)given->shape[d]);
        return ix(g, dim->dim_value);
    }
    const char *name = named ? dim->dim_param : arena_printf(g->arena, "%s_%d", input, d);
    if (!named && !marked(im->marks->unnamed.at, im->marks->unnamed.n, name)) {
        const char *kept = arena_printf(im->marks->arena, "%s", name);
        vec_push(im->marks->arena, &im->marks->unnamed, kept);
    }
    const SameDim *same = same_as(im->marks, name);
    const OnnxSize *size = fixed_size(im, name);
    if (size == NULL && same != NULL && same->as != NULL) size = fixed_size(im, same->as);
    if (size != NULL && given != NULL && given->shape[d] != size->size)
        return g_error(g, "dimension %d, `%s`, is fixed to %lld, but %lld in the tensor given", d, size->name, (long long)size->size, (long long)given->shape[d]);
    if (size != NULL) return ix(g, size->size);
    if (im->marks->given && given != NULL) return ix(g, given->shape[d]);
    bool written = named && strpbrk(name, "+-*") != NULL && !im->how->donate;
    Ix sum = same != NULL && same->sum != NULL ? read_sum(im, same->sum, given, d) : same == NULL && written ? read_sum(im, name, given, d) : NULL;
    if (sum != NULL) return sum;
    if (same != NULL && same->sum != NULL) name = same->name, same = NULL;
    if (same != NULL && same->as == NULL && given != NULL && given->shape[d] != same->value)
        return g_error(g, "dimension %d must be %lld, but is %lld in the tensor given", d, (long long)same->value,
                       (long long)given->shape[d]);
    if (same != NULL && same->as == NULL) return ix(g, same->value);
    if (same != NULL) name = same->as;
    bool bind = im->marks->all || marked(im->marks->dims.at, im->marks->dims.n, name);
    if (given != NULL && (bind || given->shape[d] == 0))
        return ix(g, given->shape[d]); // an empty one is no case of the general
    return ix_dim(g, name);
}

static bool input(Import *im, const Onnx__ValueInfoProto *v) {
    Graph *g = im->g;
    const char *name = text(v->name);
    g_at(g, arena_printf(g->arena, "input `%s`", shown(g->arena, name)));
    const OnnxGiven *given = given_find(im->how, name);
    const GTensor *t = given != NULL ? given->tensor : NULL;
    const Onnx__TypeProto__Tensor *type =
        v->type != NULL && v->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? v->type->tensor_type : NULL;
    if (type == NULL) return g_error(g, "is no tensor"), false;
    Elem elem = onnx_type_elem(type->elem_type);
    if (elem == EL_none)
        return g_error(g, "has elements of type %s, which are not supported", onnx_type_name(type->elem_type)), false;
    if (t != NULL && t->elem != elem)
        return g_error(g, "has elements of type %s, but the tensor given has %s", elem_name(elem), elem_name(t->elem)),
               false;
    if (type->shape == NULL && t == NULL) return g_error(g, "has no shape in the model; give a tensor for it"), false;
    size_t rank = type->shape != NULL ? type->shape->n_dim : (size_t)t->rank;
    if (rank > MAX_RANK) return g_error(g, "has %zu dimensions; %d are supported", rank, MAX_RANK), false;
    if (t != NULL && t->rank != (int)rank)
        return g_error(g, "has %zu dimensions in the model, but %d in the tensor given", rank, t->rank), false;
    Ix shape[MAX_RANK];
    for (size_t d = 0; d < rank; d++) {
        shape[d] = input_dim(im, name, (int)d, type->shape != NULL ? type->shape->dim[d] : NULL, t);
        if (shape[d] == NULL) return false;
    }
    bool bind = t != NULL && t->data != NULL &&
                (im->marks->all ? elem_is_int(elem) || elem == EL_bool
                                : marked(im->marks->inputs.at, im->marks->inputs.n, name));
    Node *n =
        bind ? g_name(g, g_const(g, elem, t->rank, t->shape, t->data), name) : g_input(g, name, elem, (int)rank, shape);
    return n != NULL && define(im, name, n, type->elem_type);
}

static bool outputs(Import *im, const Onnx__GraphProto *gp) {
    Graph *g = im->g;
    for (size_t i = 0; i < gp->n_output; i++) {
        const Onnx__ValueInfoProto *v = gp->output[i];
        g_at(g, arena_printf(g->arena, "output `%s`", shown(g->arena, text(v->name))));
        Node *n = value_of(im, text(v->name));
        if (n == NULL) return g_error(g, "no node makes it"), false;
        if (op_is_sequence(n)) return im->how->out_of_scope = "sequences", g_error(g, "sequences are not supported as results"), false;
        bool typed = v->type != NULL && v->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE &&
                     v->type->tensor_type->elem_type != 0;
        int type = typed ? v->type->tensor_type->elem_type : 0;
        if (typed && onnx_type_elem(type) != (Elem)n->elem)
            return g_error(g, "is declared with elements of type %s, but what is computed has %s", onnx_type_name(type),
                           elem_name((Elem)n->elem)),
                   false;
        g_output(g, text(v->name), n);
    }
    return true;
}

// ---- bodies ------------------------------------------------------------------------------------------

const OpBody *op_body(Op *op, const char *attribute) {
    const Onnx__AttributeProto *a = attr_find(op->import, op->node, attribute);
    if (a == NULL || a->g == NULL) return op_error(op, "attribute `%s` with the body is missing", attribute);
    return (const OpBody *)a->g;
}

static const Onnx__GraphProto *body_graph(const OpBody *b) { return (const Onnx__GraphProto *)b; }
int op_body_inputs(const OpBody *b) { return (int)body_graph(b)->n_input; }
int op_body_outputs(const OpBody *b) { return (int)body_graph(b)->n_output; }

bool op_inline(Op *op, const OpBody *b, Node *const *args, int nargs, Node **results) {
    Import *im = op->import;
    const Onnx__GraphProto *gp = body_graph(b);
    if ((size_t)nargs != gp->n_input)
        return op_error(op, "its body takes %zu inputs, not %d", gp->n_input, nargs), false;
    Scope *outer = im->scope;
    Scope here = {.up = outer};
    const char *around = g_source(op->g);
    im->scope = &here;
    bool ok = true;
    for (int i = 0; i < nargs && ok; i++) ok = args[i] != NULL && define(im, text(gp->input[i]->name), args[i], 0);
    ok = ok && initializers(im, gp, false) && lower_nodes(im, gp->node, gp->n_node);
    g_at(op->g, around);
    for (size_t i = 0; i < gp->n_output && ok; i++) {
        results[i] = value_of(im, text(gp->output[i]->name));
        if (results[i] == NULL)
            ok = op_error(op, "its body does not make its output `%s`",
                          shown(op->g->arena, text(gp->output[i]->name))) != NULL;
    }
    im->scope = outer;
    return ok;
}

// ---- the whole ---------------------------------------------------------------------------------------

static bool import_graph(Import *im) {
    const Onnx__GraphProto *gp = im->m->proto->graph;
    for (uint32_t i = 0; i < im->m->inputs.n; i++) {
        const Onnx__ValueInfoProto *v = im->m->inputs.at[i];
        bool has_default = i >= im->m->ninputs;
        if (has_default && given_find(im->how, text(v->name)) == NULL) continue;
        if (!input(im, v)) return false;
    }
    g_at(im->g, NULL);
    return fixed_are_known(im) && initializers(im, gp, true) && lower_nodes(im, gp->node, gp->n_node) && outputs(im, gp);
}

static bool import_once(Import *im) {
    Scope outermost = {0};
    im->scope = &outermost;
    bool ok = import_graph(im);
    im->scope = NULL;
    return ok;
}

// As it is written, as often as it takes until names and cases are found.
static Graph *import_as_written(OnnxModel *m, OnnxImport *how, Buf *err) {
    Marks marks = {.arena = arena_new()};
    Graph *g = NULL;
    marks.fixed = arena_alloc(marks.arena, sizeof *marks.fixed * (size_t)(how->nfixed + 1));
    const char *unusual = onnx_unusual_io(m);
    how->out_of_scope = unusual;
    how->bound = 0;
    if (unusual != NULL)
        buf_printf(err, "%s: has %s among its inputs or outputs, which are not supported", m->path, unusual);
    const char *first = NULL;                                // what was wrong with the names
    for (int tries = 0; unusual == NULL; tries++) {
        const char *name = shown(marks.arena, text(m->proto->graph->name));
        g = graph_new(name[0] != '\0' ? name : "model");
        Import im = {.g = g,
                     .m = m,
                     .how = how,
                     .marks = &marks,
                     .opsets = m->proto->opset_import,
                     .nopsets = m->proto->n_opset_import};
        bool ok = import_once(&im);
        how->bound = (int)(marks.inputs.n + marks.dims.n);
        bool alike = ok && g_failed(g) == NULL && tries < MAX_TRIES && dims_alike(&im);
        bool other = !im.again && !marks.given && another_case(&im);
        if (ok && g_failed(g) == NULL && !alike && !other) {
            bool stays = (how->kernels || how->dtype != EL_none) && !graph_count_loops(g) && how->ngiven > 0 && !marks.written;
            if (!stays) break;
            marks.written = true;
            graph_free(g);
            continue;
        }
        if ((!im.again && !alike && !other) || tries > MAX_TRIES) {
            const char *why = first != NULL ? first : g_failed(g);
            buf_printf(err, "%s: %s", m->path, why != NULL ? why : "cannot be lowered");
            graph_free(g);
            g = NULL;
            break;
        }
        marks.all = tries + 1 >= MAX_TRIES;
        marks.given |= other;
        if (other && marks.apart != NULL) first = marks.apart;
        else if (other && g_failed(g) != NULL) first = arena_printf(marks.arena, "%s", g_failed(g));
        graph_free(g);
    }
    arena_free(marks.arena);
    return g;
}

static bool finish(Graph *g, const OnnxImport *how) {
    if (how->tf32) g_set_tf32(g);
    if (how->unoptimised) g_set_unoptimised(g);
    if (how->rewrites) g_set_rewrites(g, how->rewrites - 1);
    if (how->passes) graph_set_passes(g, how->passes);
    return how->dtype == EL_none || graph_narrow(g, how->dtype, how->dtype_io);
}

// A program for each stage.
static bool stages(const OnnxModel *m, Graph *g, const OnnxImport *how, Buf *err) {
    bool ok = true;
    for (int i = 1; i <= g->stages->nstages && ok; i++) {
        Graph *p = g->stages->stage[i].graph = graph_stage(g, i);
        ok = !g_failed(p) && finish(p, how);
        if (!ok) buf_printf(err, "%s: %s", m->path, g_failed(p));
    }
    return ok;
}

Graph *onnx_import(OnnxModel *m, OnnxImport *how, Buf *err) {
    Graph *g = import_as_written(m, how, err);
    if (g == NULL) return NULL;
    if (how->kernels && graph_cut(g)) {
        if (stages(m, g, how, err)) return g;
    } else if (finish(g, how) && (!how->donate || graph_donate(g))) {
        return g;
    }
    if (err->n > 0) return graph_free(g), NULL;
    buf_printf(err, "%s: %s", m->path, g_failed(g));
    graph_free(g);
    return NULL;
}
