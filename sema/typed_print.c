// `--emit=typed`: the typed tree as text. Variables are numbered where two share a name in the order of
// their making, so that a dump is the same from run to run; types stand after `:` where a value is
// defined; conversions are written `f32(x)`.
//
//     let e: f32[n] = exp((x[m, n] - t))
#include "lang/c_text.h"
#include "sema/internal.h"

#include <string.h>

typedef struct Printer { Session *s; const TKernel *k; Buf *out; int indent; } Printer;

static void put_expr(Printer *p, const TExpr *x);
static void put_body(Printer *p, const TBody *b);

static void line(Printer *p) { buf_printf(p->out, "\n%*s", p->indent * 4, ""); }

static void put_var(Printer *p, const TVar *v) {
    if (v->param >= 0) buf_printf(p->out, "%s", v->name->s);
    else buf_printf(p->out, "%s.%d", v->name ? v->name->s : "_", v->id);
}

static void put_axis(Printer *p, const TAxis *ax) {
    if (ax->name->s[0] == ':') buf_puts(p->out, ax->name->s);
    else buf_printf(p->out, "%s'%d", ax->name->s, ax->id);
}

static void put_type(Printer *p, TType t) {
    if (t.ptr) buf_putc(p->out, '*');
    buf_puts(p->out, t.elem == EL_none ? "void" : elem_name(t.elem));
    for (int i = 0; i < t.naxes; i++) {
        buf_puts(p->out, i ? ", " : "[");
        put_axis(p, t.axis[i]);
    }
    if (t.naxes) buf_putc(p->out, ']');
}

static void put_float(Printer *p, double v) {
    if (v != v) buf_puts(p->out, "nan");
    else if (v > 1.7976931348623157e308) buf_puts(p->out, "inf");
    else if (v < -1.7976931348623157e308) buf_puts(p->out, "-inf");
    else {
        char s[40];
        for (int digits = 6; digits <= 17; digits++) {
            c_snprintf(s, sizeof s, "%.*g", digits, v);
            if (c_strtod(s, NULL) == v) break;
        }
        buf_puts(p->out, s);
        if (!strpbrk(s, ".en")) buf_puts(p->out, ".0");
    }
}

static void put_list(Printer *p, TExpr *const *x, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        if (i) buf_puts(p->out, ", ");
        if (x[i]) put_expr(p, x[i]);
        else buf_putc(p->out, '_');
    }
}

static void put_over(Printer *p, const TExpr *x) {
    buf_puts(p->out, " over ");
    for (int i = 0; i < x->naxes; i++) {
        if (i) buf_puts(p->out, ", ");
        put_axis(p, x->axis[i]);
    }
}

static const char *fun_name(int f) {
    static const char *const names[] = {
#define X(name, n, cls, meaning) [TF_##name] = #name,
        TFUNS(X)
#undef X
    };
    return names[f];
}

static const char *reduce_name(int r) {
    static const char *const names[] = {
#define X(name) [TR_##name] = #name,
        TREDUCES(X)
#undef X
    };
    return names[r];
}

static const char *atomic_name(int a) {
    static const char *const names[] = {
#define X(name) [TA_##name] = #name,
        TATOMICS(X)
#undef X
    };
    return names[a];
}

static void expr_block(Printer *p, const TExpr *x) {
    buf_puts(p->out, "{");
    p->indent++;
    put_body(p, &x->body);
    line(p);
    put_expr(p, x->kid[0]);
    p->indent--;
    line(p);
    buf_puts(p->out, "}");
}

static void expr_const(Printer *p, const TExpr *x) {
    if (x->type.elem == EL_bool) buf_puts(p->out, x->ival ? "true" : "false");
    else if (elem_is_float(x->type.elem)) put_float(p, x->fval);
    else if (x->type.elem == EL_u64) buf_printf(p->out, "%llu", (unsigned long long)x->ival);
    else buf_printf(p->out, "%lld", (long long)x->ival);
}

static void expr_var(Printer *p, const TExpr *x) { put_var(p, x->var); }
static void expr_dim(Printer *p, const TExpr *x) { buf_puts(p->out, p->k->dims[x->dim].name->s); }
static void expr_axis(Printer *p, const TExpr *x) { put_axis(p, x->axis[0]); }
static void expr_unary(Printer *p, const TExpr *x) { buf_puts(p->out, op_spellings[x->op]), put_expr(p, x->kid[0]); }

static void expr_binary(Printer *p, const TExpr *x) {
    buf_putc(p->out, '(');
    put_expr(p, x->kid[0]);
    buf_printf(p->out, " %s ", op_spellings[x->op]);
    put_expr(p, x->kid[1]);
    buf_putc(p->out, ')');
}

// name(first n operands over its axes, what else there is)
static void put_call(Printer *p, const char *name, const TExpr *x, uint32_t n, bool over, const char *more) {
    buf_printf(p->out, "%s(", name);
    put_list(p, x->kid, n);
    if (over) put_over(p, x);
    buf_printf(p->out, "%s)", more);
}

static void expr_select(Printer *p, const TExpr *x) { put_call(p, "select", x, 3, false, ""); }
static void expr_fun(Printer *p, const TExpr *x) { put_call(p, fun_name(x->op), x, x->nkid, false, ""); }
static void expr_cast(Printer *p, const TExpr *x) { put_call(p, elem_name(x->type.elem), x, 1, false, ""); }
static void expr_reduce(Printer *p, const TExpr *x) { put_call(p, reduce_name(x->op), x, 1, true, ""); }
static void expr_take(Printer *p, const TExpr *x) { put_call(p, "take", x, 2, true, ""); }
static void expr_ptrload(Printer *p, const TExpr *x) { put_call(p, "load", x, x->nkid, false, ""); }

static void expr_bitcast(Printer *p, const TExpr *x) {
    buf_printf(p->out, "bitcast<%s>", elem_name(x->type.elem));
    put_call(p, "", x, 1, false, "");
}

static void expr_splat(Printer *p, const TExpr *x) {
    buf_puts(p->out, "splat<");
    put_type(p, x->type);
    put_call(p, ">", x, 1, false, "");
}

static void expr_scan(Printer *p, const TExpr *x) {
    buf_puts(p->out, "cum");
    put_call(p, reduce_name(x->op), x, 1, true, x->ival & SCAN_EXCLUSIVE ? x->ival & SCAN_REVERSE ? ", exclusive, reverse" : ", exclusive"
                                                : x->ival & SCAN_REVERSE ? ", reverse" : "");
}

static void put_sorted(Printer *p, const char *name, const TExpr *x) {
    static const char *const more[] = {"", ", descending", ", nan_first", ", descending, nan_first"};
    put_call(p, name, x, 1, true, more[x->ival & (SORT_DESCENDING | SORT_NAN_FIRST)]);
}
static void expr_sort(Printer *p, const TExpr *x) { put_sorted(p, "sort", x); }
static void expr_order(Printer *p, const TExpr *x) { put_sorted(p, "order", x); }

static void expr_dot(Printer *p, const TExpr *x) {
    static const char *const precs[] = {[DP_default] = "", [DP_tf32x3] = ", tf32x3", [DP_tf32] = ", tf32", [DP_ieee] = ", ieee"};
    put_call(p, "dot", x, 2, true, precs[x->op]);
}

static void expr_load(Printer *p, const TExpr *x) {
    buf_printf(p->out, "%s[", x->tensor->name->s);
    put_list(p, x->kid, x->nidx);
    buf_putc(p->out, ']');
    if (!x->kid[x->nidx]) return;
    buf_puts(p->out, " else ");
    put_expr(p, x->kid[x->nidx]);
}

static void expr_rename(Printer *p, const TExpr *x) {
    buf_puts(p->out, "rename(");
    put_expr(p, x->kid[0]);
    for (int i = 0; i < 2; i++) buf_puts(p->out, ", "), put_axis(p, x->axis[i]);
    buf_putc(p->out, ')');
}

static void expr_atomic(Printer *p, const TExpr *x) {
    buf_printf(p->out, "atomic_%s(%s[", atomic_name(x->op), x->tensor ? x->tensor->name->s : "");
    put_list(p, x->kid + 2, x->nidx);
    buf_puts(p->out, "]");
    for (int i = 0; i < 2; i++) {
        if (!x->kid[1 - i]) continue;
        buf_puts(p->out, ", ");
        put_expr(p, x->kid[1 - i]);
    }
    if (!x->tensor && x->kid[3]) {
        buf_puts(p->out, " where ");
        put_expr(p, x->kid[3]);
    }
    buf_putc(p->out, ')');
}

static void put_expr(Printer *p, const TExpr *x) {
    static void (*const expr[TX_COUNT])(Printer *p, const TExpr *x) = {
#define X(kind, operands, meaning) [TX_##kind] = expr_##kind,
        TEXPRS(X)
#undef X
    };
    expr[x->kind](p, x);
}

static void put_braces(Printer *p, const TBody *b) {
    buf_puts(p->out, " {");
    p->indent++;
    put_body(p, b);
    p->indent--;
    line(p);
    buf_puts(p->out, "}");
}

static void put_range(Printer *p, const TAxis *ax) {
    put_axis(p, ax);
    buf_puts(p->out, " = ");
    put_expr(p, ax->lo);
    buf_puts(p->out, " .. ");
    put_expr(p, ax->hi);
    buf_printf(p->out, ", %lld elements%s", (long long)ax->extent, ax->full ? ", full" : "");
}

static void put_merge(Printer *p, const TStmt *s);

static void put_for(Printer *p, const TStmt *s) {
    if (s->label) buf_printf(p->out, "%s: ", s->label->s);
    buf_puts(p->out, "for ");
    put_var(p, s->var);
    buf_puts(p->out, " in ");
    put_expr(p, s->lo);
    buf_puts(p->out, " .. ");
    put_expr(p, s->hi);
    buf_printf(p->out, " by %lld", (long long)s->step);
    if (s->axis) {
        buf_puts(p->out, " (axis ");
        put_range(p, s->axis);
        buf_putc(p->out, ')');
    }
    put_braces(p, &s->body);
    if (s->merge_result) put_merge(p, s);
}

// The values that become each variable, and the function that makes them.
static void put_merge(Printer *p, const TStmt *s) {
    buf_puts(p->out, " merge {");
    p->indent++;
    for (int i = 0; i < s->ncarried; i++) {
        line(p);
        put_var(p, s->carried[i]);
        buf_puts(p->out, " from ");
        put_var(p, s->merge_x[i]);
        buf_puts(p->out, ", ");
        put_var(p, s->merge_y[i]);
    }
    put_body(p, &s->merge_body);
    for (int i = 0; i < s->ncarried; i++) {
        line(p);
        put_var(p, s->carried[i]);
        buf_puts(p->out, " = ");
        if (s->merge_result[i]) put_expr(p, s->merge_result[i]);
    }
    p->indent--;
    line(p);
    buf_puts(p->out, "}");
}

static void put_joined(Printer *p, const TStmt *s) {
    buf_puts(p->out, s->step & JOINED_SCAN ? "scan " : "reduce ");
    put_list(p, s->idx, s->nidx);
    buf_printf(p->out, " over ");
    put_axis(p, s->axis);
    if (s->step & SCAN_REVERSE) buf_puts(p->out, ", reverse");
    put_merge(p, s);
}

static void put_text(Printer *p, Str s) {
    buf_putc(p->out, '"');
    for (size_t i = 0; i < s.n; i++) {
        if (s.p[i] == '"' || s.p[i] == '\\') buf_putc(p->out, '\\');
        if (s.p[i] == '\n') buf_puts(p->out, "\\n");
        else buf_putc(p->out, s.p[i]);
    }
    buf_putc(p->out, '"');
}

static void put_stmt(Printer *p, const TStmt *s) {
    Buf *o = p->out;
    switch ((TStmtKind)s->kind) {
    case TS_let:
        buf_puts(o, s->var->mutable ? "var " : "let ");
        put_var(p, s->var);
        buf_puts(o, ": ");
        put_type(p, s->var->type);
        buf_puts(o, " = ");
        put_expr(p, s->value);
        break;
    case TS_assign: put_var(p, s->var); buf_puts(o, " = "); put_expr(p, s->value); break;
    case TS_store:
        buf_printf(o, "%s[", s->tensor->name->s);
        put_list(p, s->idx, s->nidx);
        buf_puts(o, "] = ");
        put_expr(p, s->value);
        break;
    case TS_ptrstore:
        buf_puts(o, "store(");
        put_expr(p, s->idx[0]);
        buf_puts(o, ", ");
        put_expr(p, s->value);
        if (s->cond) {
            buf_puts(o, " where ");
            put_expr(p, s->cond);
        }
        buf_putc(o, ')');
        break;
    case TS_eval: buf_puts(o, "eval "); put_expr(p, s->value); break;
    case TS_for: put_for(p, s); break;
    case TS_joined: put_joined(p, s); break;
    case TS_while:
        buf_puts(o, "while");
        if (s->cond_body.n) put_braces(p, &s->cond_body);
        buf_putc(o, ' ');
        put_expr(p, s->cond);
        put_braces(p, &s->body);
        break;
    case TS_if:
        buf_puts(o, "if ");
        put_expr(p, s->cond);
        put_braces(p, &s->body);
        if (s->orelse.n) {
            buf_puts(o, " else");
            put_braces(p, &s->orelse);
        }
        break;
    case TS_break: case TS_continue:
        buf_puts(o, s->kind == TS_break ? "break" : "continue");
        if (s->target->kind == TS_for) {
            buf_putc(o, ' ');
            put_var(p, s->target->var);
        }
        break;
    case TS_assert: buf_puts(o, "assert "); put_expr(p, s->cond); buf_putc(o, ' '); put_text(p, s->str); break;
    case TS_print:
        buf_puts(o, "print ");
        put_text(p, s->str);
        if (s->value) {
            buf_puts(o, ", ");
            put_expr(p, s->value);
        }
        break;
    case TS_COUNT: break;
    }
}

// The axes are listed where they are first seen by the reader: at the head of the kernel for those of
// the grid, else in the statement that makes them. Those of `let` and `:` are listed at the head too.
static void put_body(Printer *p, const TBody *b) {
    for (uint32_t i = 0; i < b->n; i++) {
        line(p);
        put_stmt(p, b->at[i]);
    }
}

static void put_params(Printer *p) {
    static const char *const modes[] = {[PM_IN] = "", [PM_OUT] = "out ", [PM_INOUT] = "inout "};
    const TKernel *k = p->k;
    for (int i = 0; i < k->nparams; i++) {
        const LaunchParam *lp = &k->params[i];
        buf_printf(p->out, "%s%s: %s%s%s%s", i ? ", " : "", lp->name ? lp->name->s : "_", modes[lp->mode],
                   lp->strided ? "strided " : "", lp->kind == PK_POINTER ? "*" : "", elem_name(lp->elem));
        if (lp->kind != PK_TENSOR || !k->tensor[i]) continue;
        buf_putc(p->out, '[');
        put_list(p, k->tensor[i]->dim, (uint32_t)k->tensor[i]->rank);
        buf_putc(p->out, ']');
    }
}

const char *origin_word(Origin o) {
    static const char *const words[] = {
        [ORIGIN_NONE] = "given", [ORIGIN_DEFAULT] = "default", [ORIGIN_FALLBACK] = "fallback",
        [ORIGIN_SET] = "set", [ORIGIN_CHOSEN] = "chosen", [ORIGIN_INFERRED] = "inferred",
    };
    return words[o];
}

void binding_print(const TBinding *b, Buf *out) {
    buf_printf(out, "%s = ", b->name->s);
    if (b->is_type) buf_puts(out, elem_name(b->elem));
    else buf_printf(out, "%lld", (long long)b->ival);
}

void instance_print(const TKernel *k, Buf *out) {
    buf_puts(out, k->name->s);
    for (int i = 0; i < k->nbindings; i++) {
        buf_puts(out, i ? ", " : "<");
        binding_print(&k->bindings[i], out);
    }
    if (k->nbindings) buf_putc(out, '>');
}

static void put_bindings(Printer *p) {
    for (int i = 0; i < p->k->nbindings; i++) {
        const TBinding *b = &p->k->bindings[i];
        buf_puts(p->out, "    ");
        binding_print(b, p->out);
        buf_printf(p->out, " (%s)\n", origin_word(b->origin));
    }
}

void typed_print(Session *s, const TKernel *k, Buf *out) {
    Printer p = {.s = s, .k = k, .out = out};
    buf_printf(out, "kernel %s(", k->name->s);
    put_params(&p);
    buf_puts(out, ")\n");
    put_bindings(&p);
    for (int i = 0; i < k->nguards; i++) {
        buf_puts(out, "    guard ");
        put_expr(&p, k->guards[i].cond);
        buf_printf(out, "    // %s\n", k->guards[i].text);
    }
    for (int i = 0; i < k->ngrid; i++) {
        const TGrid *g = &k->grid[i];
        buf_puts(out, "    grid ");
        put_var(&p, g->var);
        buf_puts(out, " in ");
        put_expr(&p, g->lo);
        buf_puts(out, " .. ");
        put_expr(&p, g->hi);
        buf_printf(out, " by %lld", (long long)g->step);
        if (g->axis) {
            buf_puts(out, ", axis ");
            put_range(&p, g->axis);
        }
        buf_putc(out, '\n');
    }
    for (uint32_t i = 0; i < k->axes.n; i++) {
        buf_puts(out, "    axis ");
        put_range(&p, k->axes.at[i]);
        buf_putc(out, '\n');
    }
    buf_puts(out, "{");
    p.indent = 1;
    put_body(&p, &k->body);
    buf_puts(out, "\n}\n");
}
