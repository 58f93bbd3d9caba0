// simplify: folds constants, merges equal values, applies exact identities, drops what nobody needs.
//
//     %3 = const 2 : index                          %3 = const 2 : index
//     %4 = binary.mul %3, %3 : index        ->      %4 = const 4 : index
//     %5 = splat %4 : index[%n]                     %7 = binary.add %6, %4 : index[%n]
//     %7 = binary.add %6, %5 : index[%n]
//
// One walk in program order does all but the dropping. Every use comes after its definition, so that a
// replaced value is entered in a map and its uses are renamed when the walk meets them. A rule
// (simplify/rules.c) may give an op's result in terms of earlier values; an op that no rule knows is
// looked up among the equal ones that dominate it: a hash table whose entries are undone when a region
// ends. Rules are exact: bit by bit what the op would give, NaN payloads aside. Loads of tensors that the
// kernel only reads count as pure.
//
// Two axes with the same bounds and extent merge as well, unless some op meets both: x[m] - x[n] with m
// and n over the same range is a matrix, and must stay one.
//
// The walk repeats, with remove_dead after it, until nothing changes.

#include "lower/simplify/simplify.h"

#include <string.h>

enum { BUCKETS = 1024, ROUNDS = 12 };

// ---- equal values --------------------------------------------------------------------------------

static bool commutes(const Op *op) {
    if (op->code == OP_T_fun) return op->sub == TF_min || op->sub == TF_max;
    if (op->code != OP_T_binary || op->in[0]->type.ptr) return false;
    AstOp o = (AstOp)op->sub;
    return o == OP_add || o == OP_mul || o == OP_and || o == OP_or || o == OP_xor || o == OP_eq || o == OP_ne;
}

static uint32_t mix(uint32_t h, uint64_t x) {
    h = (h ^ (uint32_t)x) * 16777619u;
    return (h ^ (uint32_t)(x >> 32)) * 16777619u;
}

static uint32_t hash_op(const Op *op) {
    uint32_t h = mix(2166136261u, (uint64_t)op->code | (uint64_t)op->sub << 16 | (uint64_t)op->flags << 24 |
                                      (uint64_t)op->out[0]->type.elem << 32);
    h = mix(h, (uint64_t)op->imm);
    if (commutes(op)) return mix(h, (uint64_t)op->in[0]->id + op->in[1]->id);
    for (int i = 0; i < op->nin; i++) h = mix(h, op->in[i]->id);
    return h;
}

static bool same_op(const Op *a, const Op *b) {
    if (a->code != b->code || a->sub != b->sub || a->flags != b->flags || a->nidx != b->nidx || a->imm != b->imm ||
        a->attr != b->attr)
        return false;
    if (a->nin != b->nin || !type_equal(&a->out[0]->type, &b->out[0]->type) || a->out[0]->layout != b->out[0]->layout)
        return false;
    if (memcmp(a->in, b->in, sizeof *a->in * a->nin) == 0) return true;
    return commutes(a) && a->in[0] == b->in[1] && a->in[1] == b->in[0];
}

bool reads_only(const Fn *f, const Op *op) {
    if (op->code != OP_T_load || !f->launch) return false;
    const Op *t = op->in[0]->def;
    return t && t->code == OP_T_tensor && f->launch->params[t->imm].mode == PM_IN;
}

static bool mergeable(const Fn *f, const Op *op) {
    return op->nout == 1 && op->nreg == 0 && (op_has(op, 'P') || reads_only(f, op));
}

// Does some op meet both axes? What carries values along (loops, yields) handles each value by itself.
static bool meet(Simp *s, Val *a, Val *b) {
    Region *body = &s->f->body;
    for (const Op *op = op_walk(body, NULL); op; op = op_walk(body, op)) {
        bool has_a = false, has_b = false;
        if (op->nreg || op_has(op, 'T') || op->code == OP_T_axis) continue;
        for (int i = 0; i < op->nin + op->nout; i++) {
            const Val *v = i < op->nin ? op->in[i] : op->out[i - op->nin];
            Type t = map_type(&s->map, v->type);
            has_a |= map_get(&s->map, (Val *)(uintptr_t)v) == a || type_axis(&t, a) >= 0;
            has_b |= v == b || type_axis(&t, b) >= 0;
        }
        if (has_a && has_b) return true;
    }
    return false;
}

static Val *find_equal(Simp *s, const Op *op, uint32_t h) {
    for (uint32_t at = s->bucket[h % BUCKETS]; at; at = s->seen.at[at - 1].next) {
        const Entry *e = &s->seen.at[at - 1];
        if (e->hash != h || e->op == op || !same_op(e->op, op)) continue;
        if (op->code == OP_T_axis && meet(s, e->op->out[0], op->out[0])) continue;
        return e->op->out[0];
    }
    return NULL;
}

static void remember(Simp *s, Op *op, uint32_t h) {
    Entry e = {op, h, s->bucket[h % BUCKETS]};
    vec_push(s->f->arena, &s->seen, e);
    s->bucket[h % BUCKETS] = s->seen.n;
}

static void forget(Simp *s, uint32_t down_to) {
    while (s->seen.n > down_to) {
        const Entry *e = &s->seen.at[--s->seen.n];
        s->bucket[e->hash % BUCKETS] = e->next;
    }
}

// ---- for the rules -------------------------------------------------------------------------------

// The value just made, or the equal one that was there.
static Val *unique(Simp *s, Val *v) {
    uint32_t h = hash_op(v->def);
    Val *known = find_equal(s, v->def, h);
    if (!known) { remember(s, v->def, h); return v; }
    op_remove(v->def);
    return known;
}

Val *simp_emit(Simp *s, Op *at, OpCode code, int sub, Type t, int nin, Val *const *in) {
    Builder b = {s->f, at->parent, at, at->span};
    return unique(s, b_op(&b, code, sub, t, nin, in));
}

Val *simp_const(Simp *s, Op *at, Elem e, int64_t imm) {
    Builder b = {s->f, at->parent, at, at->span};
    return unique(s, b_const(&b, e, imm));
}

Val *simp_as(Simp *s, Op *at, Val *v, const Type *t) {
    if (v->type.rank == t->rank) return v;
    Type wide = *t;
    wide.elem = v->type.elem;
    wide.ptr = v->type.ptr;
    return simp_emit(s, at, OP_T_splat, 0, wide, 1, &v);
}

void simp_replace(Simp *s, Val *from, Val *to) {
    if (from->type.kind == TY_AXIS) s->axes_moved = true;
    if (!to->name) to->name = from->name;
    map_set(&s->map, from, to);
    if (from->id < s->nuses && to->id < s->nuses) s->uses[to->id] += s->uses[from->id];
    s->changes++;
}

uint32_t simp_uses(const Simp *s, const Val *v) {
    return v->id < s->nuses ? s->uses[v->id] : UINT32_MAX;
}

uint32_t *count_uses(Fn *f) {
    uint32_t *n = NEW_N(f->arena, uint32_t, f->nvals);
    for (const Op *op = op_walk(&f->body, NULL); op; op = op_walk(&f->body, op)) {
        for (int i = 0; i < op->nin; i++) n[op->in[i]->id]++;
        for (int i = 0; i < op->nout; i++)
            for (int k = 0; k < op->out[i]->type.rank && op->out[i]->type.kind == TY_TILE; k++)
                n[op->out[i]->type.axis[k]->id]++;
    }
    return n;
}

// ---- the walk ------------------------------------------------------------------------------------

Val *simp_now(const Simp *s, Val *v) {
    for (Val *to; (to = map_get(&s->map, v)) != v;) v = to;
    return v;
}

static void rename_op(Simp *s, Op *op) {
    for (int i = 0; i < op->nin; i++) op->in[i] = simp_now(s, op->in[i]);
    if (!s->axes_moved) return;
    for (int i = 0; i < op->nout; i++) op->out[i]->type = map_type(&s->map, op->out[i]->type);
    for (int k = 0; k < op->nreg; k++)
        for (uint32_t i = 0; i < op->reg[k]->args.n; i++)
            op->reg[k]->args.at[i]->type = map_type(&s->map, op->reg[k]->args.at[i]->type);
}

static void walk(Simp *s, Region *r);

static void visit(Simp *s, Op *op) {
    rename_op(s, op);
    if (op->nreg) {
        if (simplify_control(s, op)) return;
        for (int k = 0; k < op->nreg; k++) {
            uint32_t before = s->seen.n;
            walk(s, op->reg[k]);
            forget(s, before);
        }
        return;
    }
    Rule *rule = simplify_rules[op->code];
    Val  *v = rule ? rule(s, op) : NULL;
    if (!v && mergeable(s->f, op)) {
        uint32_t h = hash_op(op);
        v = find_equal(s, op, h);
        if (!v) remember(s, op, h);
    }
    if (!v) return;
    simp_replace(s, op->out[0], v);
    op_remove(op);
}

static void walk(Simp *s, Region *r) {
    for (Op *op = r->first, *next; op; op = next) {
        Op *before = op->prev;
        visit(s, op);
        // What a rule made in front of an op, or a constant `if` left in its place, is walked next.
        next = op->parent ? op->next : before ? before->next : r->first;
    }
}

static int once(Fn *f) {
    Simp s = {.f = f, .map = {.arena = f->arena}};
    s.nuses = f->nvals;
    s.uses = count_uses(f);
    s.bucket = NEW_N(f->arena, uint32_t, BUCKETS);
    walk(&s, &f->body);
    return s.changes;
}

bool simplify(Fn *f) {
    bool changed = false;
    for (int i = 0; i < ROUNDS; i++) {
        int changes = once(f);
        bool dead = remove_dead(f);
        changed |= changes || dead;
        if (!changes && !dead) break;
    }
    return changed;
}
