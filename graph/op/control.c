// If, Loop, Scan.
//
// A condition that is known chooses its branch at import; a number of trips that is known is written out, trip by trip, as
// long as the body's condition is known in each. Where no trip needs what another has computed (counters count, lists and
// results get an element each), a trip is made once, of a number that is a dimension, and then for all of them at once
// (g_along). What is not known becomes the graph's `if` and `loop`, whose values keep their shapes. Where that cannot be (a value that grows; a list of tensors; for a program, sides of different shapes), the
// input that decides is bound, and the import starts again.
#include "graph/op/op.h"

#include "lang/number.h"

#include <string.h>

enum { UNROLLED = 1024, ROLLED = 1 << 16, FEW = 4 };      // trips: written out at most; as one value at most, and at least

// ---- If ---------------------------------------------------------------------------------------------

static bool truth(Op *op, Node *x, bool *value) {
    GNum v;
    int64_t known;
    Node *c = x != NULL && x->kind != G_const ? op_fold(op, x) : x;
    if (c != NULL && g_scalar_value(c, &v)) return *value = v.is_int ? v.i != 0 : v.f != 0, true;
    if (x != NULL && g_known_int(op->g, x, &known)) return *value = known != 0, true;
    return false;
}

static Node *set_outputs(Op *op, Node *const *results, int n) {
    for (int i = 0; i < n && i < op->nout; i++) op->out[i] = results[i];
    return n > 0 ? results[0] : NULL;
}

// One element in the shape of `like`, if that has one, too: where shapes have to be the same, exporters mix [] and [1].
static Node *one_like(Graph *g, Node *x, const Node *like) {
    bool ones = x != NULL && like != NULL && x->rank != like->rank && ix_is(g_count(g, x), 1) && ix_is(g_count(g, like), 1);
    return ones ? g_reshape(g, x, like->rank, like->shape) : x;
}

// Is x, which is known, another value in other trips of a loop that are read as one?
static bool by_trip(Graph *g, Node *x) {
    Ix e = g->trip != NULL ? g_known_ix(g, x) : NULL;
    return e != NULL && ix_substitute_dim(g, e, g->trip, ix(g, 0)) != e;
}

static Node *lower_if(Op *op) {
    Graph *g = op->g;
    Node *cond = op_in(op, 0);
    const OpBody *body[2] = {op_body(op, "then_branch"), op_body(op, "else_branch")};
    bool yes;
    if (cond == NULL || body[0] == NULL || body[1] == NULL) return NULL;
    if (cond->elem != EL_bool || !ix_is(g_count(g, cond), 1)) return op_error(op, "its condition should be one bool");
    cond = g_reshape(g, cond, 0, NULL);
    if (op_body_outputs(body[0]) != op->nout || op_body_outputs(body[1]) != op->nout)
        return op_error(op, "its branches have %d and %d outputs, it has %d", op_body_outputs(body[0]),
                        op_body_outputs(body[1]), op->nout);
    Node **results[2];
    GBody made[2];
    bool known = truth(op, cond, &yes);
    for (int i = 0; i < 2; i++) {
        results[i] = NEW_N(g->arena, Node *, op->nout + 1);
        if (known && yes == (i == 1)) continue;
        if (!op_inline(op, body[i], NULL, 0, results[i])) return op_needs(op, cond, "its condition");   // it may not be the side that runs
        made[i] = (GBody){NULL, 0, results[i], op->nout};
    }
    if (known) return set_outputs(op, results[yes ? 0 : 1], op->nout);
    for (int i = 0; i < 2 * op->nout; i++)
        if (op_is_sequence(results[i & 1][i >> 1])) return op_needs(op, cond, "the condition that chooses a list of tensors");
    for (int i = 0; i < op->nout; i++) {
        Node **a = &results[0][i], **b = &results[1][i];
        if ((*a)->rank < (*b)->rank) *a = one_like(g, *a, *b);
        else *b = one_like(g, *b, *a);
    }
    bool alike = true;                                          // a program takes one of two values; of other shapes, a side
    for (int i = 0; i < op->nout; i++) alike = alike && g_same_shape(results[0][i], results[1][i]);
    if (!alike && by_trip(g, cond)) return op_error(op, "its sides have different shapes");
    if (alike && by_trip(g, cond)) {                            // some trips take one side, some the other
        for (int i = 0; i < op->nout; i++) op->out[i] = g_where(g, cond, results[0][i], results[1][i]);
        return op->nout > 0 ? op->out[0] : NULL;
    }
    if (!alike && op_settle(op, cond)) return NULL;
    for (int i = 0; i < op->nout; i++)
        if (results[0][i]->rank != results[1][i]->rank || results[0][i]->elem != results[1][i]->elem)
            return op_needs(op, cond, "which of its sides is taken, whose results differ in type or rank,");
    Node *n = g_if(g, cond, &made[0], &made[1]), *first = NULL;
    if (n == NULL) return NULL;
    for (int i = op->nout - 1; i >= 0; i--) op->out[i] = first = g_proj(g, n, i);
    return first;
}

// ---- loops ------------------------------------------------------------------------------------------
// Of Loop and Scan: what a trip gets and gives. A body takes (Loop: the trip's number and true,) what is carried, then an
// element of each sequence (Scan); it gives (Loop: a condition,)
// what is carried, what is scanned.

typedef struct Trips {
    Op *op;
    const OpBody *body;
    int ncarried, nscanned;
    bool has_cond;                     // Loop
    int nelements;                     // Scan: elements of sequences, after what is carried
    Node *const *sequence;             // time first
    const bool *reverse;
    Ix length;                         // of the sequences
    bool lists;                        // are there lists of tensors among what is carried?
    bool chained;                      // a trip needs what another has computed
    Node *unknown;                     // the condition that ended `unroll`
} Trips;

enum { MAX_VALUES = 256 };

// One trip: carried -> carried, scanned; *cond: the body's condition.
static bool trip(Trips *t, Node *number, Node **carried, Node **scanned, Node **cond) {
    Op *op = t->op;
    Graph *g = op->g;
    Node *args[MAX_VALUES], *results[MAX_VALUES];
    int n = 0, r = 0;
    if (t->has_cond) args[n++] = number, args[n++] = g_i(g, EL_bool, 1);
    for (int i = 0; i < t->ncarried; i++) args[n++] = carried[i];
    for (int i = 0; i < t->nelements; i++) {
        Node *at = number;
        if (t->reverse[i]) at = g_ew2(g, EW_sub, g_size(g, EL_i64, ix_addi(g, t->length, -1)), number);
        Node *s = t->sequence[i];
        Ix coord[G_MAX_RANK] = {NULL};
        for (int d = 1; d < s->rank; d++) coord[d] = ix_axis(g, d - 1, s->shape[d]);
        args[n++] = g_gather(g, s, s->rank - 1, s->shape + 1, coord, &at, 1, true, g_int(0));
    }
    if (!op_inline(op, t->body, args, n, results)) return false;
    for (int i = 0; i < t->has_cond + t->ncarried + t->nscanned; i++)
        if (op_is_sequence(results[i]) && (i < t->has_cond || i >= t->has_cond + t->ncarried || !t->lists))
            return op_error(op, "result %d of its body is a list of tensors", i), false;
    if (t->has_cond) *cond = results[r++];
    if (t->has_cond && (*cond)->elem != EL_bool)
        return op_error(op, "its body's condition is %s, not bool", elem_name((Elem)(*cond)->elem)), false;
    for (int i = 0; i < t->ncarried; i++) carried[i] = results[r++];
    for (int i = 0; i < t->nscanned; i++) scanned[i] = results[r++];
    return g_failed(g) == NULL;
}

// The values scanned in `n` trips as one, trips in front. What none gave has the shape that a trip would give.
static Node *stacked(Graph *g, Node *const *at, int n, int step, const Node *like) {
    Ix shape[G_MAX_RANK] = {ix(g, 0)};
    if (n == 0 && (like == NULL || like->rank >= G_MAX_RANK)) return NULL;
    for (int d = 0; n == 0 && d < like->rank; d++) shape[1 + d] = like->shape[d];
    if (n == 0) return g_full(g, (Elem)like->elem, like->rank + 1, shape, g_int(0));
    Node **parts = NEW_N(g->arena, Node *, n);
    for (int i = 0; i < n; i++) parts[i] = g_unsqueeze(g, at[i * step], 1);
    return g_concat(g, 0, parts, n);
}

// ---- all trips at once ------------------------------------------------------------------------------

// What is carried from trip to trip, if no trip needs what another computed.
typedef struct Rolled {
    Ix first, step;                    // a counter; NULL: not one
    Node *element;                     // of a list, which gets it at its end, then those of all trips; NULL: no list, or it stays the same
} Rolled;

static void counters(Graph *g, int n, Node *const *carried, Rolled *of) {
    for (int i = 0; i < n; i++)
        if (!op_is_sequence(carried[i]) && (of[i].first = g_known_ix(g, carried[i])) != NULL) of[i].step = ix(g, 1);
}

// A trip of number `at`, as far as is known of the steps. False: this loop is none of that kind.
static bool roll(Trips *t, Ix at, Node *const *carried, Rolled *roll, Node **scanned, Node **cond) {
    Graph *g = t->op->g;
    Node *now[MAX_VALUES], *then[MAX_VALUES];
    for (int i = 0; i < t->ncarried; i++) {
        Rolled *r = &roll[i];
        now[i] = then[i] = carried[i];
        if (r->first == NULL) continue;
        Node *count = g_size(g, EL_i64, ix_add(g, r->first, ix_mul(g, at, r->step)));
        now[i] = then[i] = g_reshape(g, g_cast(g, count, (Elem)carried[i]->elem), carried[i]->rank, carried[i]->shape);
    }
    if (!trip(t, g_size(g, EL_i64, at), then, scanned, cond)) return false;
    for (int i = 0; i < t->ncarried; i++) {
        Rolled *r = &roll[i];
        uint32_t n = now[i]->nsrc;
        bool list = op_is_sequence(now[i]), longer = list && op_is_sequence(then[i]) && then[i]->nsrc == n + 1;
        for (uint32_t k = 0; longer && k < n; k++) longer = then[i]->src[k] == now[i]->src[k];
        if (list && !longer && then[i] != now[i]) return t->chained = true, false;
        if (longer) r->element = then[i]->src[n];
        if (list || then[i] == now[i]) continue;
        Ix from = r->first != NULL ? g_known_ix(g, now[i]) : NULL, to = from != NULL ? g_known_ix(g, then[i]) : NULL;
        int64_t step;
        if (to == NULL || then[i]->rank != now[i]->rank || !ix_const(ix_sub(g, to, from), &step)) return t->chained = true, false;
        r->step = ix(g, step);
    }
    return g_failed(g) == NULL;
}

// How many trips there are if the first `n` would be made: fewer if the condition ends them, 0: more. e: the condition after trip `at`.
static int64_t trips_of(Graph *g, Ix e, Ix at, int64_t n) {
    int64_t yes = 1;
    if (ix_const(e, &yes) && yes != 0) return 0;
    for (int64_t i = 0; i < n && e != NULL; i++)
        if (ix_const(ix_substitute_dim(g, e, at, ix(g, i)), &yes) && yes == 0) return i + 1;
    return 0;
}

// Trips 0 .. n-1 as one, with steps as they were found: results and elements of lists have the trips in front. The trip's number; NULL:
// they have no such form.
static Ix roll_to(Trips *t, int64_t n, Node *const *carried, Rolled *of, Node **scanned, Node **cond) {
    Graph *g = t->op->g;
    OpTrial trial = op_try(t->op);
    Ix at = ix_dim_fresh(g, "trip", 0, n - 1), step[MAX_VALUES], outer = g->trip;
    for (int i = 0; i < t->ncarried; i++) step[i] = of[i].step, of[i].element = NULL;
    g->trip = at;
    bool ok = roll(t, at, carried, of, scanned, cond);
    g->trip = outer;
    for (uint32_t i = trial.requires; i < g->requires.n && ok; i++) {      // what each trip requires, would be required of the dimension
        const GRequire *r = &g->requires.at[i];
        ok = ix_substitute_dim(g, r->a, at, ix(g, 0)) == r->a && ix_substitute_dim(g, r->b, at, ix(g, 0)) == r->b;
    }
    bool other = false;
    for (int i = 0; i < t->ncarried && ok; i++) other |= step[i] != of[i].step;
    if (ok && other) return op_undo(t->op, trial), roll_to(t, n, carried, of, scanned, cond);
    for (int i = 0; i < t->nscanned && ok; i++) ok = (scanned[i] = g_along(g, scanned[i], at, ix(g, n))) != NULL;
    for (int i = 0; i < t->ncarried && ok; i++)
        ok = of[i].element == NULL || (of[i].element = g_along(g, of[i].element, at, ix(g, n))) != NULL;
    ok = ok && g_failed(g) == NULL;
    if (!ok) op_undo(t->op, trial);
    return ok ? at : NULL;
}

// How many of the first trips, at most `most`, have such a form, and a trip of them; *last: the loop ends with them. Where the condition
// alone ends it: twice as many and twice as many, until it does, or values are too short for so many; then between the two.
static int64_t roll_all(Trips *t, int64_t most, Node *const *carried, Rolled *of, Node **scanned, Ix *at, bool *last) {
    Graph *g = t->op->g;
    Node *cond = NULL;
    int64_t made = 0, n = most < ROLLED ? most : FEW, ends = ROLLED + 1;
    while (n > made && n < ends) {
        if ((*at = roll_to(t, n, carried, of, scanned, &cond)) == NULL) {
            if (t->chained) return 0;
            ends = n, n = n == most ? n - 1 : (made + n) / 2;
            continue;
        }
        Ix after = t->has_cond ? g_known_ix(g, cond) : ix(g, 1);
        if (after == NULL) return 0;
        int64_t trips = trips_of(g, after, *at, n);
        *last = trips > 0 || n == most;
        if (trips == n || (trips == 0 && *last)) return n;
        if (trips > 0) return (*at = roll_to(t, trips, carried, of, scanned, &cond)) != NULL ? trips : 0;
        made = n, n = ends > ROLLED ? n * 2 : (n + ends) / 2;
    }
    return made > 0 && (*at = roll_to(t, made, carried, of, scanned, &cond)) != NULL ? made : 0;
}

// So many of the first trips as one value. 0 and no message: all are to be written out.
static int64_t rolled(Trips *t, int64_t most, Node **carried, Node **scanned, bool *last) {
    Op *op = t->op;
    Graph *g = op->g;
    OpTrial trial = op_try(op);
    Rolled of[MAX_VALUES] = {{0}};
    Ix at = NULL;
    counters(g, t->ncarried, carried, of);
    int64_t n = roll_all(t, most, carried, of, scanned, &at, last);
    Ix count = ix(g, n);
    if (n < FEW) return op_undo(op, trial), 0;
    for (int i = 0; i < t->ncarried; i++) {
        if (of[i].element != NULL) carried[i] = op_list_of_rows(op, carried[i], of[i].element, n);
        else if (of[i].first != NULL) {
            Node *after = g_size(g, EL_i64, ix_add(g, of[i].first, ix_mul(g, count, of[i].step)));
            carried[i] = g_reshape(g, g_cast(g, after, (Elem)carried[i]->elem), carried[i]->rank, carried[i]->shape);
        }
    }
    return n;
}

// Written out, but for those of the first trips that are one value. False and no message: a condition turned out not to be known.
static bool unroll(Trips *t, int64_t most, Node **carried, Node **scanned) {
    Graph *g = t->op->g;
    int step = t->nscanned > 0 ? t->nscanned : 1;
    VEC(Node *) all = {0};
    Node *given[MAX_VALUES], *like[MAX_VALUES] = {NULL}, *lead[MAX_VALUES];
    bool last = false;
    int64_t first = most >= FEW ? rolled(t, most, carried, lead, &last) : 0, n = first;
    bool go = most > 0 && !(first > 0 && last);
    while (go && n < most) {
        Node *cond = NULL, *now[MAX_VALUES];
        if (n - first == UNROLLED) return false;
        if (!trip(t, g_i(g, EL_i64, n), carried, now, &cond)) return false;
        for (int i = 0; i < step; i++) vec_push(g->arena, &all, t->nscanned > 0 ? now[i] : NULL);
        n++;
        if (t->has_cond && !truth(t->op, cond, &go)) return t->unknown = cond, false;
    }
    if (n == 0 && t->nscanned > 0) { // no trip: its types are found by one that nobody asks for
        for (int i = 0; i < t->ncarried; i++) given[i] = carried[i];
        Node *cond;
        if (!trip(t, g_i(g, EL_i64, 0), given, like, &cond)) return false;
    }
    for (int i = 0; i < t->nscanned; i++) {
        Node *rest = n > first || n == 0 ? stacked(g, n > 0 ? all.at + i : NULL, (int)(n - first), step, like[i]) : NULL;
        scanned[i] = first == 0 ? rest : rest == NULL ? lead[i] : g_concat(g, 0, (Node *[]){lead[i], rest}, 2);
    }
    return g_failed(g) == NULL;
}

// Does a trip need what another has computed, as far as one of any number tells?
static bool chains(Trips *t, Node *const *carried) {
    Graph *g = t->op->g;
    OpTrial trial = op_try(t->op);
    Rolled of[MAX_VALUES] = {{0}};
    Node *scanned[MAX_VALUES], *cond = NULL;
    Ix outer = g->trip;
    if (t->lists) return false;
    counters(g, t->ncarried, carried, of);
    g->trip = ix_dim_fresh(g, "trip", 0, IX_DIM_MAX);
    roll(t, g->trip, carried, of, scanned, &cond);
    g->trip = outer;
    op_undo(t->op, trial);
    bool chained = t->chained;
    t->chained = false;
    return chained;
}

// As the graph's loop. None of what it carries is a list of tensors.
static bool looped(Trips *t, Node *trips, Node *cond, Node **carried, Node **scanned) {
    Graph *g = t->op->g;
    Node *params[MAX_VALUES + 1], *results[MAX_VALUES + 1], *now[MAX_VALUES], *after = NULL;
    params[0] = g_param(g, "trip", EL_i64, 0, NULL);
    for (int i = 0; i < t->ncarried; i++)
        now[i] = params[1 + i] = g_param(g, "carried", (Elem)carried[i]->elem, carried[i]->rank, carried[i]->shape);
    if (!trip(t, params[0], now, results + 1 + t->ncarried, &after)) return false;
    bool go = true;
    if (trips == NULL && truth(t->op, after, &go) && go) return op_error(t->op, "never ends"), false;
    results[0] = after != NULL ? g_reshape(g, after, 0, NULL) : g_i(g, EL_bool, 1);
    for (int i = 0; i < t->ncarried; i++) results[1 + i] = one_like(g, now[i], params[1 + i]);
    GBody body = {params, 1 + t->ncarried, results, 1 + t->ncarried + t->nscanned};
    Node *n = g_loop(g, trips, cond, carried, t->ncarried, &body);
    for (int i = 0; i < t->ncarried; i++) carried[i] = g_proj(g, n, i);
    for (int i = 0; i < t->nscanned; i++) scanned[i] = g_proj(g, n, t->ncarried + i);
    return n != NULL;
}

static Node *scalar(Graph *g, Node *n) { return n != NULL ? g_reshape(g, n, 0, NULL) : NULL; }

static Node *lower_loop(Op *op) {
    Graph *g = op->g;
    const OpBody *body = op_body(op, "body");
    Node *limit = op_opt(op, 0), *cond = op_opt(op, 1), *carried[MAX_VALUES], *kept[MAX_VALUES], *scanned[MAX_VALUES];
    int n = op->nin > 2 ? op->nin - 2 : 0;
    if (body == NULL) return NULL;
    int nscanned = op_body_outputs(body) - 1 - n;
    if (n > MAX_VALUES / 2 || nscanned > MAX_VALUES / 2)
        return op_error(op, "carries more than %d values", MAX_VALUES / 2);
    if (nscanned < 0 || op_body_inputs(body) != n + 2)
        return op_error(op, "carries %d values, but its body has %d inputs and %d outputs", n, op_body_inputs(body),
                        op_body_outputs(body));
    Trips t = {.op = op, .body = body, .ncarried = n, .nscanned = nscanned, .has_cond = true};
    for (int i = 0; i < n; i++) {
        carried[i] = kept[i] = op_is_sequence(op->in[2 + i]) ? op->in[2 + i] : op_in(op, 2 + i);
        if (carried[i] == NULL) return NULL;
        t.lists |= op_is_sequence(carried[i]);
    }
    if (cond != NULL && (cond->elem != EL_bool || !ix_is(g_count(g, cond), 1)))
        return op_error(op, "its condition should be one bool");
    if (limit != NULL && (!elem_is_int((Elem)limit->elem) || !ix_is(g_count(g, limit), 1)))
        return op_error(op, "its number of trips should be one integer");
    int64_t most = INT64_MAX;
    bool go = true, fixed = limit == NULL || g_known_int(g, limit, &most);
    Node *folded = !fixed ? op_fold(op, limit) : NULL;
    GNum v;
    Ix size = !fixed && folded == NULL ? g_known_ix(g, limit) : NULL;
    if (size != NULL) op_trips(op, size, chains(&t, carried), &most);      // starts again with it as a number
    if (folded != NULL && g_scalar_value(folded, &v)) fixed = true, most = v.is_int ? v.i : f64_to_int_sat(v.f, 64, true);
    bool decided = cond == NULL || truth(op, cond, &go), done = false;
    if (fixed && decided) done = unroll(&t, go ? most : 0, carried, scanned);
    if (!done && t.unknown != NULL && t.lists) return op_needs(op, t.unknown, "the condition of a loop that carries a list of tensors");
    if (!done && fixed && decided && t.lists)
        return op_error(op, "carries a list of tensors through more than %d trips", UNROLLED);
    if (!done && g_failed(g) == NULL && !t.lists) {
        for (int i = 0; i < n; i++) carried[i] = kept[i];
        done = looped(&t, scalar(g, limit), scalar(g, cond), carried, scanned);
    }
    if (!done && !fixed) op_known_int(op, 0, &most);           // with the number of trips it may be possible
    if (!done && !decided) op_known_int(op, 1, &most);
    if (!done) return NULL;
    for (int i = 0; i < nscanned; i++) carried[n + i] = scanned[i];
    return set_outputs(op, carried, n + nscanned);
}

// ---- Scan -------------------------------------------------------------------------------------------

static bool flags_of(Op *op, const char *name, int n, bool *to) {
    int have = 0;
    const int64_t *at = op_ints(op, name, &have);
    if (at != NULL && have != n)
        return op_error(op, "attribute `%s` has %d numbers; it should have %d", name, have, n), false;
    for (int i = 0; i < n; i++) to[i] = at != NULL && at[i] != 0;
    return true;
}

static Node *axis_to_front(Graph *g, Node *x, int axis) {
    int perm[G_MAX_RANK];
    if (x == NULL) return NULL;
    for (int d = 0; d < x->rank; d++) perm[d] = d == 0 ? axis : d <= axis ? d - 1 : d;
    return g_transpose(g, x, x->rank, perm);
}

static Node *front_to_axis(Graph *g, Node *x, int axis) {
    int perm[G_MAX_RANK];
    if (x == NULL) return NULL;
    for (int d = 0; d < x->rank; d++) perm[d] = d < axis ? d + 1 : d == axis ? 0 : d;
    return g_transpose(g, x, x->rank, perm);
}

// states and sequences (time first) through all trips.
static bool scan(Trips *t, Node **states, Node **scanned) {
    Node *kept[MAX_VALUES];
    int64_t trips;
    for (int i = 0; i < t->ncarried; i++) kept[i] = states[i];
    if (op_trips(t->op, t->length, t->ncarried > 0, &trips) && trips <= UNROLLED) return unroll(t, trips, states, scanned);
    for (int i = 0; i < t->ncarried; i++) states[i] = kept[i];
    return looped(t, g_size(t->op->g, EL_i64, t->length), NULL, states, scanned);
}

static Node *row(Graph *g, Node *x, int64_t i) { return g_squeeze(g, g_take_range(g, x, 0, ix(g, i), 1, ix(g, 1)), 1); }

// Opset 8: everything has a batch in front, and the first input may say how long each is.
static bool scan_batch(Trips *t, Node **states, Node **scanned) {
    Graph *g = t->op->g;
    Node *const *whole = t->sequence;
    Node *state[MAX_VALUES], *part[MAX_VALUES], *sequence[MAX_VALUES];
    int64_t batch;
    int values = t->ncarried + t->nscanned;
    if (!op_fixed(t->op, whole[0]->shape[0], &batch)) return false;
    if (batch < 1) return op_error(t->op, "has an empty batch"), false;
    if (batch > UNROLLED) return op_error(t->op, "has a batch of %lld, of which each row is unrolled: up to %d are", (long long)batch, UNROLLED), false;
    Node **all = NEW_N(g->arena, Node *, batch * values);
    t->sequence = sequence;
    for (int64_t b = 0; b < batch; b++) {
        for (int i = 0; i < t->ncarried; i++) state[i] = row(g, states[i], b);
        for (int i = 0; i < t->nelements; i++) sequence[i] = row(g, whole[i], b);
        if (g_failed(g) != NULL || !scan(t, state, part)) return false;
        for (int i = 0; i < values; i++) all[b * values + i] = i < t->ncarried ? state[i] : part[i - t->ncarried];
    }
    for (int i = 0; i < values; i++)
        *(i < t->ncarried ? &states[i] : &scanned[i - t->ncarried]) = stacked(g, all + i, (int)batch, values, NULL);
    return g_failed(g) == NULL;
}

static Node *lower_scan(Op *op) {
    Graph *g = op->g;
    bool old = op->version < 9, reverse[MAX_VALUES], reverse_out[MAX_VALUES];
    const OpBody *body = op_body(op, "body");
    int first = old ? 1 : 0, total = op->nin - first, naxes = 0, nouts = 0;
    int64_t nseq = op_int(op, "num_scan_inputs", -1);
    if (body == NULL) return NULL;
    if (nseq < 1 || nseq > total || total > MAX_VALUES / 2)
        return op_error(op, "attribute `num_scan_inputs` is %lld, for %d inputs", (long long)nseq, total);
    int n = total - (int)nseq, nscanned = op_body_outputs(body) - n;
    if (nscanned < 0 || nscanned > MAX_VALUES / 2 || op_body_inputs(body) != total)
        return op_error(op, "its body has %d inputs and %d outputs, for %d states and %d sequences",
                        op_body_inputs(body), op_body_outputs(body), n, (int)nseq);
    if (old && op_opt(op, 0) != NULL) return op_error(op, "lengths of sequences in a batch are not supported");
    if (!flags_of(op, old ? "directions" : "scan_input_directions", (int)nseq, reverse) ||
        !flags_of(op, "scan_output_directions", nscanned, reverse_out))
        return NULL;
    const int64_t *axes = op_ints(op, "scan_input_axes", &naxes), *out_axes = op_ints(op, "scan_output_axes", &nouts);
    if ((axes != NULL && naxes != nseq) || (out_axes != NULL && nouts != nscanned))
        return op_error(op, "its axes do not go with its sequences");
    Node *values[MAX_VALUES], *sequence[MAX_VALUES], *scanned[MAX_VALUES];
    Trips t = {.op = op,
               .body = body,
               .ncarried = n,
               .nscanned = nscanned,
               .nelements = (int)nseq,
               .sequence = sequence,
               .reverse = reverse};
    for (int i = 0; i < total; i++) {
        Node *x = op_in(op, first + i);
        if (x == NULL) return NULL;
        if (i < n) { values[i] = x; continue; }
        int axis = axes != NULL ? g_axis(g, x, axes[i - n]) : 0;
        if (axis < 0 || x->rank < 1 + old) return op_error(op, "sequence %d has %d dimensions", i - n, x->rank);
        x = axis_to_front(g, x, axis);
        sequence[i - n] = x;
        Ix length = x != NULL ? x->shape[old ? 1 : 0] : NULL;
        if (i > n) g_require(g, length, t.length);
        else t.length = length;
    }
    if (g_failed(g) != NULL || !(old ? scan_batch(&t, values, scanned) : scan(&t, values, scanned))) return NULL;
    for (int i = 0; i < nscanned; i++) {
        Node *y = reverse_out[i] ? g_flip(g, scanned[i], 1) : scanned[i];
        int axis = out_axes != NULL && y != NULL ? g_axis(g, y, out_axes[i]) : 0;
        if (axis < 0) return NULL;
        values[n + i] = front_to_axis(g, y, axis);
    }
    return set_outputs(op, values, n + nscanned);
}

const OpRow ops_control[] = {
    OP("If", 1, lower_if), OP("Loop", 1, lower_loop), OP("Scan", 8, lower_scan),
    {0},
};
