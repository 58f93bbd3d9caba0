// `tune` items: which numbers of a kernel are free to be chosen, and among what.
//
//     tune matmul {
//         BM in [16, 64, 128];  BN in [64, 128, 256];  split_k in [1, 2, 4];      choices: `<>` names and words of the schedule
//         where BM * BN <= 128 * 256;                                           constraints on them
//         key M, N, K;                                                          dimensions that a choice depends on
//     }
//
// A candidate gives each choice a value. Names that the caller sets are no longer free; a constraint that asks for
// something unknown (a dimension before the launch) holds. Nothing is chosen here: see lower/cost/choose.c.
#include "sema/internal.h"

#include <string.h>

enum { MAX_CHOICES = 16, MAX_CHOICE_VALUES = 64, MAX_CANDIDATES = 1024 };

typedef struct Choice { Sym name; int64_t value[MAX_CHOICE_VALUES]; int n; } Choice;

static bool is_schedule_word(Sym name) {
    Schedule s;
    int most;
    return schedule_field(&s, name->s, name->n, &most) != NULL;
}

static const Node *generic_of(const Node *kernel, Sym name) {
    const Node *gs = kernel->kid[0];
    for (uint32_t i = 0; gs && i < gs->nkid; i++) if (gs->kid[i]->sym == name) return gs->kid[i];
    return NULL;
}

static bool is_dim(const Node *n, Sym name) {
    if (!n) return false;
    if (n->kind == N_name) return n->sym == name;
    for (uint32_t i = n->kind == N_type_tensor ? 1 : 0; i < n->nkid; i++) if (is_dim(n->kid[i], name)) return true;
    return false;
}

static bool number(Check *c, const Node *n, int64_t *v) {
    Ent e = eval(c, n);
    if (e.kind == EN_int) { *v = e.i; return true; }
    if (e.kind != EN_error) report(c, E_not_comptime, n->span, "a value to choose from");
    return false;
}

static void add(Check *c, Choice *ch, int64_t v, Span at) {
    if (v < 1) report(c, E_tune, at, arena_printf(c->a, "%s cannot be %lld", ch->name->s, (long long)v));
    else if (ch->n == MAX_CHOICE_VALUES)
        report(c, E_tune, at, arena_printf(c->a, "more than %d values to choose from", MAX_CHOICE_VALUES));
    else ch->value[ch->n++] = v;
}

static void values_of(Check *c, const Node *n, Choice *ch) {
    int64_t lo = 0, hi = 0, by = 1;
    if (n->kind == N_range) {
        bool known = (!n->kid[0] || number(c, n->kid[0], &lo)) && number(c, n->kid[1], &hi) &&
                     (!n->kid[2] || number(c, n->kid[2], &by));
        if (known && by < 1) report(c, E_step_positive, n->span, arena_printf(c->a, "%lld", (long long)by));
        for (int64_t v = lo; known && by > 0 && v < hi && ch->n < MAX_CHOICE_VALUES; v += by) add(c, ch, v, n->span);
        return;
    }
    for (uint32_t i = 0; i < n->nkid; i++) if (number(c, n->kid[i], &lo)) add(c, ch, lo, n->kid[i]->span);
}

static int choices_of(Check *c, const Node *kernel, const Node *item, Choice *out) {
    int n = 0;
    for (uint32_t i = 0; i < item->nkid; i++) {
        const Node *k = item->kid[i];
        if (!k || k->kind != N_tune_choice || !k->sym || !k->kid[0]) continue;
        if (!generic_of(kernel, k->sym) && !is_schedule_word(k->sym)) {
            Diag *d = report(c, E_tune, name_at(k),
                             arena_printf(c->a, "`%s` is no compile-time name of `%s`, nor a word of the schedule",
                                          k->sym->s, kernel->sym->s));
            suggest_schedule_word(d, k->sym);
            continue;
        }
        if (n == MAX_CHOICES) {
            report(c, E_tune, name_at(k), arena_printf(c->a, "more than %d choices", MAX_CHOICES));
            break;
        }
        out[n] = (Choice){.name = k->sym};
        values_of(c, k->kid[0], &out[n]);
        for (int v = 0; v < out[n].n && !generic_of(kernel, k->sym); v++) {
            const char *takes = schedule_refuses(k->sym->s, k->sym->n, out[n].value[v]);
            if (takes) report(c, E_const_range, k->kid[0]->span, k->sym->s, takes);
            if (takes) break;
        }
        n += out[n].n > 0;
    }
    return n;
}

// ---- candidates ----------------------------------------------------------------------------------

// In the kernel's own file, or in the one that is compiled.
const Node *sema_tune_item(const SemaFile *f, const Node *kernel) {
    for (uint32_t i = 0; i < f->tunes.n; i++) {
        const Node *n = f->tunes.at[i].node;
        const Bind *b = n->sym == kernel->sym ? scope_find(f->tunes.at[i].env, n->sym) : NULL;
        if (b && b->ent.kind == EN_kernel && b->ent.node == kernel) return n;
    }
    return NULL;
}

static const SemaValue *given(const SemaValue *v, int n, Sym name) {
    for (int i = 0; i < n; i++) if (!v[i].is_type && strcmp(v[i].name, name->s) == 0) return &v[i];
    return NULL;
}

// The names that constraints see: choices, what the caller set, defaults that are numbers, known dimensions.
static void world(Check *c, InstanceOf of) {
    SemaFile *f = of.file;
    const Node *kernel = of.item, *gs = kernel->kid[0];
    c->scope = f->scope;
    c->scope = scope_new(c, c->scope);
    for (int i = 0; i < of.nknown; i++)
        if (!of.known[i].is_type)
            scope_bind(c, c->scope, sym(f->s, of.known[i].name), ent_int(of.known[i].ival, kernel->span), kernel->span);
    for (uint32_t i = 0; gs && i < gs->nkid; i++) {
        const Node *g = gs->kid[i];
        if (!g->sym) continue;
        const SemaValue *v = given(of.set, of.nset, g->sym);
        int before = diag_count(f->s);
        Ent e = v ? ent_int(v->ival, g->span) : g->kid[1] ? eval(c, g->kid[1]) : ent_unknown();
        diag_forget(f->s, before);
        if (!scope_find_here(c->scope, g->sym))
            scope_bind(c, c->scope, g->sym, e.kind == EN_error ? ent_unknown() : e, g->span);
    }
}

// The first condition that does not hold, NULL if all may.
static const Node *refused_by(Check *c, InstanceOf of, const Node *item) {
    SemaFile *f = of.file;
    world(c, of);
    for (int k = 0; k < of.nset; k++) {                            // words of the schedule, too
        Sym name = sym(f->s, of.set[k].name);
        if (!of.set[k].is_type && !scope_find_here(c->scope, name))
            scope_bind(c, c->scope, name, ent_int(of.set[k].ival, item->span), item->span);
    }
    for (uint32_t i = 0; i < item->nkid; i++) {
        if (!item->kid[i] || item->kid[i]->kind != N_where) continue;
        int before = diag_count(f->s);
        Ent e = eval(c, item->kid[i]->kid[0]);
        diag_forget(f->s, before);                                 // what is not known yet forbids nothing
        if (e.kind == EN_bool && !e.i) return item->kid[i];
    }
    return NULL;
}

// All combinations of some choices' values, one after the other: `row` is the instance with the one at hand.
typedef struct Rows { Check *c; InstanceOf of, row; const Choice *choice; int n, at[MAX_CHOICES], count; } Rows;

static bool rows_next(Rows *r) {
    int i = r->n - 1;
    while (r->count && i >= 0 && ++r->at[i] == r->choice[i].n) r->at[i--] = 0;
    if (i < 0 || r->count == MAX_CANDIDATES) return false;
    const int nset = r->of.nset;
    SemaValue *v = NEW_N(r->c->a, SemaValue, nset + r->n);
    if (nset) memcpy(v, r->of.set, sizeof *v * (size_t)nset);
    for (i = 0; i < r->n; i++)
        v[nset + i] = (SemaValue){.name = r->choice[i].name->s, .ival = r->choice[i].value[r->at[i]], .chosen = true};
    r->row = r->of;
    r->row.set = v;
    r->row.nset = nset + r->n;
    r->count++;
    return true;
}

int sema_candidates(InstanceOf of, TuneCandidate **out) {
    const Node *item = sema_tune_item(of.file, of.item);
    Choice choice[MAX_CHOICES];
    *out = NULL;
    if (!item) return 0;
    Check *c = check_new(of.file);
    Rows r = {.c = c, .of = of, .choice = choice};
    int n = choices_of(c, of.item, item, choice);
    for (int i = 0; i < n; i++) if (!given(of.set, of.nset, choice[i].name)) choice[r.n++] = choice[i];
    VEC(TuneCandidate) all = {0};
    while (rows_next(&r))
        if (!refused_by(c, r.row, item)) vec_push(c->a, &all, ((TuneCandidate){r.row.set + of.nset, r.n}));
    *out = all.at;
    return (int)all.n;
}

bool sema_tune_allows(InstanceOf of) {
    const Node *item = sema_tune_item(of.file, of.item);
    return !item || !refused_by(check_new(of.file), of, item);
}

bool sema_tune_key(const SemaFile *f, const Node *kernel, const char *dim) {
    const Node *item = sema_tune_item(f, kernel);
    bool any = false;
    for (uint32_t i = 0; item && i < item->nkid; i++) {
        const Node *k = item->kid[i];
        for (uint32_t j = 0; k && k->kind == N_tune_key && j < k->nkid; j++) {
            any = true;
            if (k->kid[j]->sym && strcmp(k->kid[j]->sym->s, dim) == 0) return true;
        }
    }
    return !any;
}

// ---- the items, checked --------------------------------------------------------------------------

// Conditions that no combination satisfies, whatever the dimensions are, leave the defaults, and nothing would say so. The
// one to blame is that which the combinations come to that get furthest.
static void check_satisfied(Check *c, InstanceOf of, const Node *item, const Choice *choice, int n) {
    Rows r = {.c = c, .of = of, .choice = choice, .n = n};
    const Node *last = NULL;
    int held = 0;                                                 // how many conditions held before it
    while (rows_next(&r)) {
        const Node *where = refused_by(c, r.row, item);
        int before = 0;
        if (!where) return;
        for (uint32_t i = 0; item->kid[i] != where; i++) before += item->kid[i] && item->kid[i]->kind == N_where;
        if (!last || before > held) last = where, held = before;
    }
    if (!last || r.count == MAX_CANDIDATES) return;               // there may be others
    Diag *d = report(c, E_tune_empty, last->span, item->sym->s);
    diag_primary(d, held ? "holds for none for which those before it hold" : "holds for none");
    diag_help(d, "nothing is left to choose from, and the defaults are taken: widen the values, or the condition");
}

static void check_tune(SemaFile *f, const Node *item) {
    Bind *b = item->sym ? scope_find(f->scope, item->sym) : NULL;
    if (!item->sym) return;
    Check *c = check_new(f);
    if (!b || b->ent.kind != EN_kernel) {
        Diag *d = report(c, E_unknown_name, name_at(item), item->sym->s);
        if (b) diag_primary(d, "this is %s, not a kernel", ent_text(c, b->ent));
        else suggest_name(c, d, item->sym, name_at(item));
        return;
    }
    const Node *kernel = sema_find_kernel(f, item->sym->s);
    Choice choice[MAX_CHOICES];
    if (!kernel) return;
    int errors = diag_errors(f->s), n = choices_of(c, kernel, item, choice);
    for (uint32_t i = 0; i < item->nkid; i++) {
        const Node *k = item->kid[i];
        for (uint32_t j = 0; k && k->kind == N_tune_key && j < k->nkid; j++)
            if (k->kid[j]->sym && !is_dim(kernel->kid[1], k->kid[j]->sym))
                report(c, E_tune, k->kid[j]->span,
                       arena_printf(c->a, "`%s` is no dimension of `%s`", k->kid[j]->sym->s, kernel->sym->s));
    }
    bool conditions = false;
    for (uint32_t i = 0; i < item->nkid; i++) conditions |= item->kid[i] && item->kid[i]->kind == N_where;
    if (n && conditions && diag_errors(f->s) == errors) check_satisfied(c, (InstanceOf){.file = f, .item = kernel}, item, choice, n);
}

void sema_check_tunes(SemaFile *f) {
    for (uint32_t i = 0; f->root && i < f->root->nkid; i++)
        if (f->root->kid[i] && f->root->kid[i]->kind == N_tune) check_tune(f, f->root->kid[i]);
}
