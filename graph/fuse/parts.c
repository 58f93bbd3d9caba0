// Parts of a concatenation, stored in their places by the kernels that make them.
//
//     y = concat(conv(x, a), conv(x, b))        y = conv(x, a)       channels 0 .. 64, of an y that is made there
//                                               y = conv2(x, b, y)   channels 64 .. 128, of the same y
//
// Nothing is copied then. A part is stored like a result of the model, whatever is between it and the product that it is made by; only its place is moved along
// the axis. The kernel that is launched first has the whole as its result, those after it update it (write/params.c), which a graph does where it lies
// (sema/graphcall.c).
//
// So are parts that products make for nothing else. One part at most may be something else: it is a launch, where the concatenation was one. As the launches wait for each other
// then, it is done for what is large, whose kernels fill the GPU by themselves, and where each part begins at 16 bytes in every row.

#include "graph/fuse/internal.h"

// Is it made by a product, for this alone?
static bool made_by_product(const State *s, const Node *n) {
    while (s->users[n->id] == 1 && !s->result[n->id]) {
        if (n->kind == G_contract) return true;
        if (n->kind == G_ew && s->epilogue[n->id]) return true;
        bool moves = n->kind == G_view && ix_is(n->view.pred, 1) && g_count(s->g, n) == g_count(s->g, n->src[0]);
        if (!moves && n->kind != G_cast) return false;
        n = n->src[0];
    }
    return false;
}

// What stands for a part: it is nobody else's, and begins where 16 bytes do.
static bool fits(const State *s, const Node *n, const Node *part, int64_t start) {
    enum { ALIGNED = 16 };
    int64_t inner = elem_bits((Elem)n->elem) / 8;
    for (int i = n->concat.axis + 1; i < n->rank; i++) inner *= n->shape[i]->value;
    bool own = s->users[part->id] == 1 && !s->result[part->id] && !s->in_place[part->id] && !s->constant[part->id] && part->kind != G_input;
    return own && start * inner % ALIGNED == 0 && part->shape[n->concat.axis]->value * inner % ALIGNED == 0;
}

static bool sizes_known(const Node *n, int64_t *elements) {
    *elements = 1;
    for (int i = 0; i < n->rank; i++)
        if (!ix_is_const(n->shape[i]) || __builtin_mul_overflow(*elements, n->shape[i]->value, elements)) return false;
    for (uint32_t k = 0; k < n->nsrc; k++)
        if (!ix_is_const(n->src[k]->shape[n->concat.axis])) return false;
    return true;
}

bool fuse_parts_in_place(State *s, Node *n, const char *why) {
    enum { FEW = 16 };
    int64_t elements, start = 0;
    int others = 0;
    bool all = sizes_known(n, &elements) && elements >= LARGE_WHOLE && n->nsrc <= FEW && !s->constant[n->id];
    for (uint32_t k = 0; k < n->nsrc && all; k++) {
        const Node *part = n->src[k];
        others += !made_by_product(s, part);
        all = others < 2 && others < (int)n->nsrc && fits(s, n, part, start);
        for (uint32_t j = 0; j < k; j++) all &= n->src[j] != part;
        start += part->shape[n->concat.axis]->value;
    }
    if (!all) return false;
    s->f->stored[n->id] = true;
    s->f->why[n->id] = why;
    start = 0;
    for (uint32_t k = 0; k < n->nsrc; k++) {
        uint32_t id = n->src[k]->id;
        s->f->part[id] = (FPart){n, ix(s->g, start)};
        s->needed[id] = true;
        s->result[id] = "stored in its place in what it is put together to";
        start += n->src[k]->shape[n->concat.axis]->value;
    }
    return true;
}

bool fuse_makes_part(const State *s, const FGroup *f) { return s->f->part[f->root->id].of || (f->as && s->f->part[f->as->id].of); }

void fuse_order_parts(State *s) {
    for (uint32_t i = 0; i < s->g->nodes.n; i++) {
        const Node *of = s->f->part[i].of;
        int group = s->f->maker[i];
        if (!of) continue;
        bool first = s->f->maker[of->id] < 0;
        if (first || group < s->f->begun[of->id]) s->f->begun[of->id] = group;
        if (first || group > s->f->maker[of->id]) s->f->maker[of->id] = group;
    }
}
