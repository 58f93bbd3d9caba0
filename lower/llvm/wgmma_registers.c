// Accumulators of wgmma, in registers that the PTX declares and the instructions name.
//
//     .reg .b32 %acc<128>;
//     mov.b32 %acc0, 0f00000000; ...                                       written where a loop begins
//   loop:
//     wgmma.mma_async ... {%acc0, %acc1, ...}, da, db, 1, ...              neither operands nor results of LLVM's
//     wgmma.wait_group.sync.aligned 0;
//   end:
//     mov.b32 %r7, %acc0; ...                                              read where somebody computes with them
//
// Two reasons. Products in flight must stay where they are, and as values of LLVM their places would be whatever its copies
// make of phis and ties. And they are many: 128 phis, ties and copies a loop were half of a compilation's time.
//
// Here it is decided which values live so (HELD), which of them share registers (a web), and which are copied out. A
// product's result is held, what waits for it, and what loops and branches carry of either; and what they carry that a
// product reads from registers, attention's probabilities. A web is what such steps join: acc to acc + a * b, a loop's
// start to its argument to what the trip hands on. No two values of a web may be needed at once; should that happen,
// accumulators are values of LLVM's after all, which is also how it is where groups take turns within a trip.
#include "lower/llvm/gen.h"

#include <string.h>

// FLIGHT: may not have been waited for; WANTED: a product goes on from it
enum { HELD = 1, FLIGHT = 2, WANTED = 4, READ = 8 };

struct Accs {
    Gen      *g;
    uint8_t  *is;            // by Val.id
    uint32_t *web;           // by Val.id, a tree whose root stands for the web
    int      *at;            // of a web, by its root: its first register, or -1
    int       used;          // registers
    bool      fails;         // registers cannot be shared
};

static uint32_t web_of(Accs *a, const Val *v) {
    uint32_t w = v->id;
    while (a->web[w] != w) w = a->web[w] = a->web[a->web[w]];
    return w;
}

static bool is(const Accs *a, const Val *v, int what) { return (a->is[v->id] & what) == what; }
static bool mark(Accs *a, const Val *v, int what) {
    uint8_t was = a->is[v->id];
    a->is[v->id] |= (uint8_t)what;
    return a->is[v->id] != was;
}

static const Val *carried_in(const Op *op, int k) { return op->code == OP_T_for ? op->in[3 + k] : NULL; }
static const Val *carried(const Op *op, int k) { return op->code == OP_T_for ? op->reg[0]->args.at[1 + k] : NULL; }
static const Val *handed_on(const Op *op, int branch, int k) {
    const Op *last = branch < op->nreg ? op->reg[branch]->last : NULL;
    return last && last->code == OP_T_yield ? last->in[k] : NULL;
}
static bool carries(const Op *op) { return op->code == OP_T_for || op->code == OP_T_if; }

// ---- what is held --------------------------------------------------------------------------------

// Of the k-th value that a loop or a branch carries: its argument and its result are held together or not at all.
static bool carry(Accs *a, const Op *op, int k) {
    const Val *out = op->out[k], *arg = carried(op, k),
              *from[] = {carried_in(op, k), handed_on(op, 0, k), handed_on(op, 1, k)};
    int what = a->is[out->id] | (arg ? a->is[arg->id] : 0);
    for (int i = 0; i < 3; i++) what |= from[i] ? a->is[from[i]->id] & (op->code == OP_T_if ? HELD | FLIGHT : FLIGHT) : 0;
    if (!(what & (HELD | FLIGHT | WANTED))) return false;
    bool more = mark(a, out, what | HELD);
    if (arg) more |= mark(a, arg, what | HELD);
    for (int i = 0; i < 3; i++) if (from[i] && what & WANTED) more |= mark(a, from[i], WANTED);
    return more;
}

static bool hold(Accs *a, const Op *op) {
    bool more = false;
    if (op->code == OP_T_wgmma) {
        more = mark(a, op->out[0], HELD | FLIGHT);
        if (op_acc(op)) more |= mark(a, op_acc(op), WANTED);
        if (op->in[0]->type.kind == TY_TILE) more |= mark(a, op->in[0], WANTED);
    }
    if (op->code == OP_T_wgmma_wait)
        for (int i = 0; i < op->nin; i++) if (is(a, op->in[i], HELD)) more |= mark(a, op->out[i], HELD);
    if (carries(op))
        for (int k = 0; k < op->nout; k++) more |= carry(a, op, k);
    return more;
}

// ---- webs ----------------------------------------------------------------------------------------

static int per_word(const Val *v) { return elem_bits((Elem)v->type.elem) < 32 ? 32 / elem_bits((Elem)v->type.elem) : 1; }
int acc_regs(const Val *v) { return layout_regs(v->layout) / per_word(v); }

bool acc_held(const Accs *a, const Val *v) { return a && is(a, v, HELD); }

static void join(Accs *a, const Val *v, const Val *w) {
    if (!v || !w || !is(a, v, HELD) || !is(a, w, HELD)) return;
    if (acc_regs(v) != acc_regs(w)) a->fails = true;
    a->web[web_of(a, v)] = web_of(a, w);
}

static bool joined(Accs *a, const Val *v, const Val *w) {
    return is(a, v, HELD) && is(a, w, HELD) && web_of(a, v) == web_of(a, w);
}

static void join_all(Accs *a, const Op *op) {
    if (op->code == OP_T_wgmma) join(a, op_acc(op), op->out[0]);
    if (op->code == OP_T_wgmma_wait) for (int i = 0; i < op->nin; i++) join(a, op->in[i], op->out[i]);
    for (int k = 0; carries(op) && k < op->nout; k++) {
        join(a, carried(op, k), op->out[k]);
        join(a, carried_in(op, k), op->out[k]);
        for (int i = 0; i < 2; i++) join(a, handed_on(op, i, k), op->out[k]);
    }
    if (op->code == OP_T_break || op->code == OP_T_continue)
        for (int i = 0; i < op->nin; i++) a->fails |= is(a, op->in[i], FLIGHT);
}

// ---- two values of a web at once? ----------------------------------------------------------------
// Backwards through the regions, with the value of each web that is needed from here on.

static bool needs(Accs *a, const Val **live, const Val *v) {
    const Val **l = &live[web_of(a, v)];
    bool other = *l && *l != v;
    *l = v;
    return !other;
}

static bool made(Accs *a, const Val **live, const Val *v) {
    const Val **l = &live[web_of(a, v)];
    bool other = *l && *l != v;
    *l = NULL;
    return !other;
}

// What comes into `to`: the same registers, or copied into them, when nothing else may be there.
static bool comes(Accs *a, const Val **live, const Val *from, const Val *to) {
    return from && joined(a, from, to) ? needs(a, live, from) : !live[web_of(a, to)];
}

static bool merge(Accs *a, const Val **live, const Val **other) {
    for (uint32_t w = 0; w <= a->g->f->nvals; w++) {
        if (live[w] && other[w] && live[w] != other[w]) return false;
        if (!live[w]) live[w] = other[w];
    }
    return true;
}

static bool region_apart(Accs *a, const Region *r, const Val **live);

static bool op_apart(Accs *a, const Op *op, const Val **live) {
    size_t n = a->g->f->nvals + 1;
    bool loop = op->code != OP_T_if && op->code != OP_T_roles;
    for (int k = 0; k < op->nout; k++) if (is(a, op->out[k], HELD) && !made(a, live, op->out[k])) return false;
    if (op->code == OP_T_wgmma && op_acc(op) && joined(a, op_acc(op), op->out[0]) && !needs(a, live, op_acc(op)))
        return false;
    if (op->code == OP_T_wgmma && is(a, op->in[0], HELD) && !needs(a, live, op->in[0])) return false;
    if (op->code == OP_T_wgmma_wait)
        for (int i = 0; i < op->nin; i++) if (is(a, op->in[i], HELD) && !needs(a, live, op->in[i])) return false;
    if (!op->nreg) return true;
    const Val **after = NEW_N(a->g->arena, const Val *, n);
    memcpy(after, live, n * sizeof *after);
    for (int trip = 0; trip <= loop; trip++)                   // what a trip needs, the trip before it must keep
        for (int i = op->nreg - 1; i >= 0; i--) {
            const Val **in = NEW_N(a->g->arena, const Val *, n);
            memcpy(in, loop ? live : after, n * sizeof *in);
            for (int k = 0; carries(op) && k < op->nout; k++)
                if (is(a, op->out[k], HELD) && !comes(a, in, handed_on(op, i, k), op->out[k])) return false;
            if (!region_apart(a, op->reg[i], in)) return false;
            for (int k = 0; op->code == OP_T_for && k < op->nout; k++)
                if (is(a, op->out[k], HELD) && !made(a, in, carried(op, k))) return false;
            if (!merge(a, live, in)) return false;
        }
    for (int k = 0; op->code == OP_T_for && k < op->nout; k++)
        if (is(a, op->out[k], HELD) && !comes(a, live, carried_in(op, k), op->out[k])) return false;
    return true;
}

static bool region_apart(Accs *a, const Region *r, const Val **live) {
    for (const Op *op = r->last; op; op = op->prev) if (!op_apart(a, op, live)) return false;
    return true;
}

// ---- the plan ------------------------------------------------------------------------------------

// Somebody computes with a held value: all uses but by products, waits, and what carries it on in its registers.
static void find_reads(Accs *a, const Op *op) {
    for (int i = 0; i < op->nin; i++) {
        const Val *v = op->in[i], *to = NULL;
        if (!is(a, v, HELD) || (op->code == OP_T_wgmma && i == 0)) continue;
        if (op->code == OP_T_wgmma_wait || (op->code == OP_T_wgmma && v == op_acc(op)))
            to = op->out[op->code == OP_T_wgmma ? 0 : i];
        if (op->code == OP_T_for && i >= 3) to = op->out[i - 3];
        if (op->code == OP_T_yield && op->parent->owner && carries(op->parent->owner)) to = op->parent->owner->out[i];
        if (!to || !joined(a, v, to)) mark(a, v, READ);
    }
}

static void plan(Accs *a) {
    const Region *body = &a->g->f->body;
    memset(a->is, 0, a->g->f->nvals + 1);
    for (uint32_t i = 0; i <= a->g->f->nvals; i++) { a->web[i] = i; a->at[i] = -1; }
    for (bool more = true; more;) {
        more = false;
        for (const Op *op = op_walk(body, NULL); op; op = op_walk(body, op)) more |= hold(a, op);
    }
    for (const Op *op = op_walk(body, NULL); op; op = op_walk(body, op)) join_all(a, op);
    for (const Op *op = op_walk(body, NULL); op; op = op_walk(body, op)) find_reads(a, op);
}

// NULL: no products, or registers that two values would need at once; or groups that take turns, where ptxas puts the
// arrivals amid the exponentials, which costs attention of D64 a tenth of its rate.
Accs *acc_open(Gen *g) {
    const Region *body = &g->f->body;
    bool products = false, turns = false;
    for (const Op *op = op_walk(body, NULL); op; op = op_walk(body, op)) {
        products |= op->code == OP_T_wgmma;
        turns |= op->code == OP_T_turn_pass && g->f->tiles <= 1 && !g->f->by_twos;
    }
    if (!products || turns) return NULL;
    size_t n = g->f->nvals + 1;
    Accs *a = NEW(g->arena, Accs);
    *a = (Accs){
        .g = g, .is = NEW_N(g->arena, uint8_t, n), .web = NEW_N(g->arena, uint32_t, n), .at = NEW_N(g->arena, int, n)};
    plan(a);
    return !a->fails && region_apart(a, body, NEW_N(g->arena, const Val *, n)) ? a : NULL;
}

// ---- registers -----------------------------------------------------------------------------------

int acc_first(Accs *a, const Val *v) {
    int *at = &a->at[web_of(a, v)];
    if (*at < 0) {
        *at = a->used;
        a->used += acc_regs(v);
    }
    return *at;
}

bool acc_read(const Accs *a, const Val *v) { return is(a, v, READ); }

// Text and constraints of moves out of v's registers, results `from` and up, if `cond` (a predicate, or NULL); the
// values are set by acc_set.
void acc_take_text(Accs *a, const Val *v, int from, const char *cond, Buf *text, Buf *cons) {
    int n = acc_regs(v), at = acc_first(a, v);
    for (int i = 0; i < n; i++) {
        buf_puts(text, cond ? "selp.b32 $" : "mov.b32 $");
        buf_int(text, from + i);
        buf_puts(text, ", %acc");
        buf_int(text, at + i);
        if (cond) buf_printf(text, ", 0, %s", cond);
        buf_puts(text, ";\n");
        buf_puts(cons, from + i ? "," : "");
        buf_puts(cons, v->type.elem == EL_f32 ? "=f" : "=r");
    }
}

// The results `from` and up of that assembly are v; the first after them.
int acc_set(Gen *g, const Val *v, LLVMValueRef results, int from) {
    int n = acc_regs(v), per = per_word(v);
    for (int i = 0; i < n; i++) {
        LLVMValueRef x = LLVMBuildExtractValue(g->B, results, (unsigned)(from + i), "");
        if (per > 1) gen_set_word(g, v, i * per, per, x);
        else gen_set(g, v, i, x);
    }
    return from + n;
}

// v has just come to be: into values, if somebody computes with it.
void acc_take(Gen *g, const Val *v) {
    if (!acc_read(g->accs, v)) return;
    Buf text = {0}, cons = {0};
    LLVMTypeRef t[256];
    int n = acc_regs(v);
    for (int i = 0; i < n; i++) t[i] = v->type.elem == EL_f32 ? g->f32 : g->i32;
    acc_take_text(g->accs, v, 0, NULL, &text, &cons);
    LLVMValueRef x = gen_asm(g, LLVMStructTypeInContext(g->C, t, (unsigned)n, 0), text.p, cons.p, 0, NULL, true, true);
    acc_set(g, v, x, 0);
    buf_free(&text);
    buf_free(&cons);
}

static void put_constant(Buf *text, const Val *v, LLVMValueRef x) {
    if (v->type.elem != EL_f32) { buf_printf(text, "%lld", LLVMConstIntGetSExtValue(x)); return; }
    LLVMBool loses;
    float f = (float)LLVMConstRealGetDouble(x, &loses);
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    buf_printf(text, "0f%08X", bits);
}

// The values of `from` go into the registers of `to`, unless they are there.
void acc_put(Gen *g, const Val *from, const Val *to) {
    Accs *a = g->accs;
    if (joined(a, from, to)) return;
    Buf text = {0}, cons = {0};
    LLVMValueRef args[256];
    int n = acc_regs(to), per = per_word(to), at = acc_first(a, to), nargs = 0;
    for (int i = 0; i < n; i++) {
        LLVMValueRef x = per > 1 ? gen_word(g, from, i * per, per) : gen_get(g, from, i);
        bool number = LLVMIsAConstantFP(x) || LLVMIsAConstantInt(x);
        buf_puts(&text, "mov.b32 %acc");
        buf_int(&text, at + i);
        buf_puts(&text, number ? ", " : ", $");
        if (number) { put_constant(&text, to, x); }
        else {
            buf_int(&text, nargs);
            buf_puts(&cons, nargs ? "," : "");
            buf_puts(&cons, to->type.elem == EL_f32 ? "f" : "r");
            args[nargs++] = x;
        }
        buf_puts(&text, ";\n");
    }
    gen_asm(g, LLVMVoidTypeInContext(g->C), text.p, nargs ? cons.p : "", nargs, args, true, true);
    buf_free(&text);
    buf_free(&cons);
}

// The registers' declaration, at the function's start.
void acc_close(Gen *g) {
    if (!g->accs || !g->accs->used) return;
    char text[40];
    snprintf(text, sizeof text, ".reg .b32 %%acc<%d>;", g->accs->used);
    LLVMPositionBuilderBefore(g->B, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(g->fn)));
    gen_asm(g, LLVMVoidTypeInContext(g->C), text, "", 0, NULL, true, true);
}
