// Random kernels: whatever simplify and hoist do to one, it must compute the same bits, with other junk
// in its dead lanes; it must verify, and read back from its text.
//
// A kernel has two axes over N = 5 of 8 lanes, so that every tile has dead ones; values of f32, f16, i32,
// u8, index and bool over any of the axes; all elementwise ops, reductions, splats, integer dots, loops
// and ifs that carry values. Integers divide by constants only, and no bits become a NaN with a payload. Results go to
// tensors at the end.

#include "ir_test.h"
#include "lower/pass/passes.h"

enum { OUTS = 12, N = 5, LANES = 8, POOL = 400 };

typedef struct Gen {
    Fn      *f;
    Builder  b;
    uint64_t state;
    Val     *axis[2], *index[2];
    Val     *pool[POOL];           // what may be used here
    int      n;
    int      depth;
} Gen;

static uint32_t roll(Gen *g, uint32_t n) {
    g->state = g->state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(g->state >> 33) % n;
}

static Val *keep(Gen *g, Val *v) {
    if (g->n < POOL) g->pool[g->n++] = v;
    else             g->pool[roll(g, POOL)] = v;
    return v;
}

static Val *constant(Gen *g, Elem e) {
    static const double  floats[] = {0, -0.0, 1, -1, 0.5, 8, 3, -2.25, INFINITY, NAN, 65504, 1e-30};
    static const int64_t ints[] = {0, 1, 2, 3, 7, 8, 31, 32, 100, -1};
    if (elem_is_float(e)) {
        double x = floats[roll(g, e == EL_f16 ? 11 : 12)];
        return b_float(&g->b, e, x);
    }
    int64_t x = e == EL_bool ? roll(g, 2) : ints[roll(g, elem_is_signed(e) ? 10 : 9)];
    return b_const(&g->b, e, x);
}

static Val *pick(Gen *g, Elem e) {   // a value of e, made if there is none near
    for (int tries = 0; tries < 12; tries++) {
        Val *v = g->pool[roll(g, (uint32_t)g->n)];
        if (v->type.elem == e) return v;
    }
    return keep(g, constant(g, e));
}

static const Elem elems[] = {EL_f32, EL_f16, EL_i32, EL_u8, EL_index, EL_bool};
static Elem any_elem(Gen *g) { return elems[roll(g, 6)]; }

static Type union3(Elem e, Val *a, Val *b, Val *c) {
    Type t = type_union(type_with(a->type, e), b->type);
    return type_union(t, c->type);
}

static void some_binary(Gen *g) {
    static const AstOp ints[] = {OP_add, OP_sub, OP_mul, OP_shl, OP_shr, OP_and, OP_or, OP_xor, OP_eq, OP_lt, OP_ge};
    static const AstOp floats[] = {OP_add, OP_sub, OP_mul, OP_div, OP_eq, OP_ne, OP_lt, OP_le};
    static const AstOp bools[] = {OP_and, OP_or, OP_xor, OP_eq, OP_ne};
    Elem e = any_elem(g);
    Val *a = pick(g, e), *b = pick(g, e);
    if (elem_is_int(e) && roll(g, 6) == 0) {
        Val *by = b_const(&g->b, e, 1 + roll(g, 9));
        keep(g, b_binary(&g->b, roll(g, 2) ? OP_div : OP_rem, a, by));
        return;
    }
    AstOp op = e == EL_bool  ? bools[roll(g, 5)]
               : e == EL_f16 ? floats[4 + roll(g, 4)]
               : e == EL_f32 ? floats[roll(g, 8)]
                             : ints[roll(g, 11)];
    keep(g, b_binary(&g->b, op, a, b));
}

static void some_fun(Gen *g) {
    static const TFun floats[] = {TF_floor, TF_abs, TF_min, TF_max, TF_fma, TF_sqrt_rn, TF_isnan, TF_exp};
    Elem e = roll(g, 2) ? EL_f32 : EL_i32;
    TFun f = e == EL_f32 ? floats[roll(g, 8)] : (TFun[]){TF_abs, TF_min, TF_max}[roll(g, 3)];
    Val *in[3] = {pick(g, e), pick(g, e), pick(g, e)};
    int  n = f == TF_min || f == TF_max ? 2 : f == TF_fma ? 3 : 1;
    Type t = union3(f == TF_isnan ? EL_bool : e, in[0], in[n > 1 ? 1 : 0], in[n > 2 ? 2 : 0]);
    keep(g, b_op(&g->b, OP_T_fun, f, t, n, in));
}

static void some_reduce(Gen *g) {
    Elem e = (Elem[]){EL_f32, EL_i32, EL_bool, EL_f16}[roll(g, 4)];
    Val *x = pick(g, e);
    if (!x->type.rank) return;
    TReduce how = e == EL_bool  ? (roll(g, 2) ? TR_any : TR_every)
                  : e == EL_i32 ? (TReduce[]){TR_sum, TR_prod, TR_max, TR_argmin}[roll(g, 4)]
                                : (TReduce[]){TR_max, TR_min, TR_argmax}[roll(g, 3)];
    Val *in[2] = {x, x->type.axis[roll(g, x->type.rank)]};
    Type t = type_minus(type_with(x->type, how == TR_argmax || how == TR_argmin ? EL_index : e), 1, in + 1);
    keep(g, b_op(&g->b, OP_T_reduce, how, t, 2, in));
}

static void some_dot(Gen *g) {
    Val *a = pick(g, EL_i32), *b = pick(g, EL_i32);
    Type all = type_union(a->type, b->type);
    if (!all.rank) return;
    Val *in[3] = {a, b, all.axis[roll(g, all.rank)]};
    keep(g, b_op(&g->b, OP_T_dot, DP_default, type_minus(all, 1, in + 2), 3, in));
    Val *d = g->pool[g->n - 1];
    for (int i = 0; i < 6; i++) {                       // now and then something to add it to
        Val *acc = pick(g, EL_i32);
        if (type_equal(&acc->type, &d->type) && acc != d) { keep(g, b_binary(&g->b, OP_add, acc, d)); return; }
    }
}

static void some_other(Gen *g) {
    Elem e = any_elem(g);
    Val *a = pick(g, e), *b = pick(g, e), *c = pick(g, EL_bool);
    Type t;
    switch (roll(g, 6)) {
    case 0: keep(g, b_op(&g->b, OP_T_select, 0, union3(e, a, b, c), 3, (Val *[]){c, a, b})); return;
    case 1: keep(g, b_cast(&g->b, any_elem(g), a)); return;
    case 2:
        if (e == EL_bool) keep(g, b_op(&g->b, OP_T_unary, OP_not, a->type, 1, &a));
        else if (e != EL_f16)
            keep(g, b_op(&g->b, OP_T_unary, elem_is_int(e) && roll(g, 2) ? OP_bnot : OP_neg, a->type, 1, &a));
        return;
    case 3:
        t = type_union(a->type, type_tile(EL_none, 1, &g->axis[roll(g, 2)]));
        keep(g, b_op(&g->b, OP_T_splat, 0, t, 1, &a));
        return;
    case 4:
        if (e == EL_f32) keep(g, b_op(&g->b, OP_T_bitcast, 0, type_with(a->type, EL_i32), 1, &a));
        return;
    default:
        for (int i = 0; i < 2; i++) {
            if (type_axis(&a->type, g->axis[i]) < 0 || type_axis(&a->type, g->axis[1 - i]) >= 0) continue;
            t = type_tile(e, 1, &g->axis[1 - i]);
            keep(g, b_op(&g->b, OP_T_rename, 0, t, 3, (Val *[]){a, g->axis[i], g->axis[1 - i]}));
            return;
        }
    }
}

static void some_ops(Gen *g, int n);

static void ops_in(Gen *g, Region *r, OpCode end, int nout, const Type *out) {
    Builder saved = g->b;
    int n = g->n;
    g->b.r = r;
    some_ops(g, 6 + (int)roll(g, 8));
    Val *give[3];
    for (int i = 0; i < nout; i++) {
        Val *v = pick(g, (Elem)out[i].elem);
        for (int k = 0; k < v->type.rank && v->type.rank; k++)
            if (type_axis(&out[i], v->type.axis[k]) < 0) { v = constant(g, (Elem)out[i].elem); break; }
        give[i] = v->type.rank == out[i].rank ? v : b_op(&g->b, OP_T_splat, 0, out[i], 1, &v);
    }
    op_append(r, op_new(g->f, end, (Span){0}, nout, give, 0));
    g->b = saved;
    g->n = n;
}

static void some_control(Gen *g) {
    Type out[3];
    Val *in[6];
    int  n = 1 + (int)roll(g, 3);
    if (g->depth > 2) return;
    g->depth++;
    Val *lo = b_const(&g->b, EL_index, 0), *hi = b_const(&g->b, EL_index, roll(g, 4)), *step = b_const(&g->b, EL_index, 1);
    for (int i = 0; i < n; i++) {
        in[3 + i] = pick(g, any_elem(g));
        out[i] = in[3 + i]->type;
    }
    if (roll(g, 2)) {
        in[0] = lo; in[1] = hi; in[2] = step;
        Op *op = op_new(g->f, OP_T_for, (Span){0}, 3 + n, in, n);
        int pool = g->n;
        keep(g, region_arg(g->f, op->reg[0], type_scalar(EL_index)));
        for (int i = 0; i < n; i++) keep(g, region_arg(g->f, op->reg[0], out[i]));
        ops_in(g, op->reg[0], OP_T_yield, n, out);
        g->n = pool;
        b_insert(&g->b, op);
        for (int i = 0; i < n; i++) { op->out[i]->type = out[i]; keep(g, op->out[i]); }
    } else {
        Val *c = roll(g, 3) ? b_binary(&g->b, OP_lt, b_const(&g->b, EL_index, roll(g, 3)), hi) : constant(g, EL_bool);
        Op  *op = op_new(g->f, OP_T_if, (Span){0}, 1, &c, n);
        for (int k = 0; k < 2; k++) ops_in(g, op->reg[k], OP_T_yield, n, out);
        b_insert(&g->b, op);
        for (int i = 0; i < n; i++) { op->out[i]->type = out[i]; keep(g, op->out[i]); }
    }
    g->depth--;
}

static void some_ops(Gen *g, int n) {
    for (int i = 0; i < n; i++) {
        if (g->n > POOL - 10) return;
        switch (roll(g, 12)) {
        case 0: case 1: case 2: case 3: some_binary(g); break;
        case 4: case 5: some_fun(g); break;
        case 6: some_reduce(g); break;
        case 7: some_dot(g); break;
        case 8: some_control(g); break;
        default: some_other(g); break;
        }
    }
}

static void head(Gen *g, Buf *text) {           // the kernel's parameters and the values that everything starts from
    buf_puts(text, "kernel @random(x: f32[N], h: f16[N], i: i32[N, N], u: u8[N]");
    for (int k = 0; k < OUTS; k++) buf_printf(text, ", y%d: out %s[N, N]", k, elem_name(elems[k % 6]));
    buf_puts(text, ")\n    dims (N)\n{\n  %N = dim N : index\n  %z = const 0 : index\n"
                   "  %n.0 = axis %z, %N {8} : axis<8>\n  %m.0 = axis %z, %N {8} : axis<8>\n  %i = index %n.0 : index[%n.0]\n  %j = index %m.0 : index[%m.0]\n"
                   "  %0 = tensor x : tensor<f32, 1>\n  %1 = tensor h : tensor<f16, 1>\n  %2 = tensor i : tensor<i32, 2>\n  %3 = tensor u : tensor<u8, 1>\n"
                   "  %4 = load %0, %i : f32[%n.0]\n  %5 = load %0, %j : f32[%m.0]\n  %6 = load %1, %j : f16[%m.0]\n  %7 = load %2, %i, %j : i32[%n.0, %m.0]\n"
                   "  %8 = load %3, %i : u8[%n.0]\n  %9 = load %1, %i : f16[%n.0]\n  %10 = binary.lt %i, %j : bool[%n.0, %m.0]\n  %11 = load %2, %z, %j : i32[%m.0]\n}\n");
    (void)g;
}

static Fn *random_kernel(Session *s, uint64_t seed) {
    Gen g = {.state = seed * 2654435761u + 99};
    Buf text = {0};
    head(&g, &text);
    g.f = kernel_text(s, text.p);
    buf_free(&text);
    g.b = (Builder){g.f, &g.f->body, NULL, {0}};
    for (Op *op = g.f->body.first; op; op = op->next) {
        if (op->code == OP_T_axis) g.axis[g.axis[0] != NULL] = op->out[0];
        if (op->code == OP_T_index) g.index[g.index[0] != NULL] = op->out[0];
        if (op->out[0]->type.kind == TY_TILE) keep(&g, op->out[0]);
    }
    some_ops(&g, 40);
    for (int k = 0; k < OUTS; k++) {
        Type t = {.kind = TY_TENSOR, .elem = (uint8_t)elems[k % 6], .rank = 2};
        Val *y = b_op(&g.b, OP_T_tensor, 0, t, 0, NULL), *v = pick(&g, elems[k % 6]);
        y->def->imm = 4 + k;
        Op *store = op_new(g.f, OP_T_store, (Span){0}, 4, (Val *[]){y, g.index[0], g.index[1], v}, 0);
        store->nidx = 2;
        b_insert(&g.b, store);
    }
    return g.f;
}

typedef struct Result { unsigned char at[OUTS][N * N * 8]; } Result;

static void evaluate(Fn *f, uint32_t junk, Result *r) {
    static const float x[N] = {1, -2.5f, 0, 3e5f, -0.0f};
    static const uint16_t h[N] = {0x3c00, 0xc200, 0, 0x7bff, 0x3555};
    static int32_t i[N * N];
    static const uint8_t u[N] = {0, 1, 200, 255, 7};
    for (int k = 0; k < N * N; k++) i[k] = k * k * 37 - 200;
    EvalArg args[4 + OUTS] = {vec_arg((void *)(uintptr_t)x, N), vec_arg((void *)(uintptr_t)h, N), mat_arg(i, N, N),
                              vec_arg((void *)(uintptr_t)u, N)};
    memset(r, 0, sizeof *r);
    for (int k = 0; k < OUTS; k++) args[4 + k] = mat_arg(r->at[k], N, N);
    EvalOptions opt = {.junk = junk};
    run_kernel(f, args, (const int64_t[]){N}, &opt);
}

static void same(Fn *f, uint64_t seed, const char *when, const Result *a, const Result *b) {
    for (int k = 0; k < OUTS; k++) {
        Elem e = elems[k % 6];
        int  size = elem_bytes(e);
        for (int i = 0; i < N * N; i++) {
            const unsigned char *p = a->at[k] + i * size, *q = b->at[k] + i * size;
            float x, y;
            memcpy(&x, p, 4);
            memcpy(&y, q, 4);
            bool nan16 = e == EL_f16 && (p[1] & 0x7f) > 0x7c && (q[1] & 0x7f) > 0x7c;
            if (memcmp(p, q, (size_t)size) == 0 || nan16 || (e == EL_f32 && x != x && y != y)) continue;
            Buf text = {0};
            ir_print(f, &text);
            fail_msg("seed %llu: output %d, element %d differs %s:\n%s", (unsigned long long)seed, k, i, when, text.p);
        }
    }
}

static void sound(Session *s, Fn *f, uint64_t seed, const char *when) {
    Buf problems = {0}, once = {0}, twice = {0};
    if (ir_verify(f, &problems)) fail_msg("seed %llu: broken %s:\n%s", (unsigned long long)seed, when, problems.p);
    ir_print(f, &once);
    Fn *g = ir_parse(s, source_add(s, "random.tir", once.p, once.n), NULL);
    assert_non_null(g);
    ir_print(g, &twice);
    assert_string_equal(once.p, twice.p);
    buf_free(&problems);
    buf_free(&once);
    buf_free(&twice);
}

static void test_random(void **state) {
    (void)state;
    const char *from = getenv("TK_SEED");
    uint64_t first = from ? strtoull(from, NULL, 10) : 1, count = from ? 1 : 300;
    static Result a, b;
    for (uint64_t seed = first; seed < first + count; seed++) {
        Session *s = session_new();
        Fn *f = random_kernel(s, seed);
        sound(s, f, seed, "when made");
        evaluate(f, 1, &a);
        evaluate(f, 2, &b);
        same(f, seed, "with other junk", &a, &b);
        simplify(f);
        sound(s, f, seed, "after simplify");
        evaluate(f, 3, &b);
        same(f, seed, "after simplify", &a, &b);
        hoist(f);
        simplify(f);
        sound(s, f, seed, "after hoist");
        evaluate(f, 4, &b);
        same(f, seed, "after hoist", &a, &b);
        session_free(s);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
