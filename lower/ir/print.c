// Prints tile IR, in the form that ir/parse.c reads back.
//
//     kernel @scale(x: f32[N], y: out f32[N], a: f32)
//         dims (N)
//         guard N <= 1024 "N <= BLOCK"
//         grid cdiv(N, 256)
//     {
//       %0 = program                          : index
//       %n.4 = axis %1, %3 {256}              : axis<256>
//       %x.7 = load %2, %5 else %6            : f32[%n.4]
//       %8 = reduce.sum %x.7 over %n.4        : f32
//       %9 = for %1, %3, %4, %8 : f32 (%10: index, %acc.11: f32) {
//         yield %acc.11
//       }
//     }
//
// One op a line: results, `name.suffix`, what the op names (a number, a parameter, a text), operands
// by commas or by the word of their role (else, where, compare, acc, over), `{imm, attributes}`, the
// results' types. Regions follow in braces, arguments before each. A value with a name in the source
// is %name.id. Numbers of floats are the shortest that read back exactly.

#include "lang/c_text.h"
#include "lower/ir/text.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

const char *const region_words[OP_T_COUNT] = {[OP_T_while] = "do", [OP_T_if] = "else", [OP_T_roles] = "and"};

const FlagWord flag_words[] = {{AXIS_FULL, "full"}, {NO_BOUNDS, "in_range"}, {EXCLUSIVE, "exclusive"}, {REVERSE, "reverse"}, {TALLIED, "tallied"}, {FROM_16, "from_16"}, {NAN_FIRST, "nan_first"},
                               {CHECKED, "checked"}, {REPEATS, "repeats"}};

// ---- launch expressions --------------------------------------------------------------------------

const LOpText lop_text[] = {
    [L_ADD] = {"+", 4, 2}, [L_SUB] = {"-", 4, 2}, [L_MUL] = {"*", 5, 2}, [L_DIV] = {"/", 5, 2}, [L_MOD] = {"%", 5, 2},
    [L_EQ] = {"==", 3, 2}, [L_NE] = {"!=", 3, 2}, [L_LT] = {"<", 3, 2},  [L_LE] = {"<=", 3, 2},
    [L_AND] = {"&&", 2, 2}, [L_OR] = {"||", 1, 2},
    [L_CDIV] = {"cdiv", 0, 2}, [L_MIN] = {"min", 0, 2}, [L_MAX] = {"max", 0, 2},
    [L_NOT] = {"not", 0, 1}, [L_SELECT] = {"select", 0, 3}, [L_POSITIVE] = {"positive", 0, 1},
};
const int lop_count = (int)(sizeof lop_text / sizeof *lop_text);

static const LaunchParam *params_of(const Fn *f, int *n) {
    *n = f->launch ? f->launch->nparams : f->kernel ? f->kernel->nparams : 0;
    return f->launch ? f->launch->params : f->kernel ? f->kernel->params : NULL;
}

static void put_param_name(const Fn *f, int64_t i, Buf *out) {
    int n;
    const LaunchParam *p = params_of(f, &n);
    if (i >= 0 && i < n) buf_puts(out, p[i].name->s);
    else                 buf_printf(out, "#%" PRId64, i);
}

static void put_dim_name(const Fn *f, int64_t i, Buf *out) {
    int n = f->launch ? f->launch->ndims : f->kernel ? f->kernel->ndims : 0;
    const LaunchDim *d = f->launch ? f->launch->dims : f->kernel ? f->kernel->dims : NULL;
    if (i >= 0 && i < n) buf_puts(out, d[i].name->s);
    else                 buf_printf(out, "#%" PRId64, i);
}

static uint32_t expr_start(const LExpr *e, uint32_t last) {        // first step of the subexpression that ends at `last`
    uint32_t need = 1, at = last + 1;
    while (need) {
        at--;
        LOp op = e->at[at].op;
        need += op >= L_ADD ? lop_text[op].arity : 0;
        need--;
    }
    return at;
}

static void put_expr(const Fn *f, const LExpr *e, uint32_t last, int prec, Buf *out) {
    LStep s = e->at[last];
    switch (s.op) {
    case L_CONST:  buf_printf(out, "%" PRId64, s.arg); return;
    case L_DIM:    put_dim_name(f, s.arg, out); return;
    case L_SCALAR: put_param_name(f, s.arg, out); return;
    case L_STRIDE:
        buf_puts(out, "stride(");
        put_param_name(f, launch_stride_param(s), out);
        buf_printf(out, ", %d)", launch_stride_dim(s));
        return;
    default: break;
    }
    LOpText t = lop_text[s.op];
    uint32_t kid[3];                                             // where each operand ends
    uint32_t end = last;
    for (int i = t.arity - 1; i >= 0; i--) {
        kid[i] = end - 1;
        end = expr_start(e, kid[i]);
    }
    bool paren = t.prec && t.prec < prec;
    buf_printf(out, "%s%s", t.prec ? "" : t.text, !t.prec || paren ? "(" : "");
    for (int i = 0; i < t.arity; i++) {
        if (i && t.prec) buf_printf(out, " %s ", t.text);
        else if (i)      buf_puts(out, ", ");
        put_expr(f, e, kid[i], t.prec ? t.prec + (i > 0) : 0, out);
    }
    if (!t.prec || paren) buf_putc(out, ')');
}

static void put_launch_expr(const Fn *f, LExpr e, Buf *out) {
    if (e.n) put_expr(f, &e, e.n - 1, 0, out);
    else     buf_putc(out, '_');
}

// ---- pieces --------------------------------------------------------------------------------------

static void put_val(const Val *v, Buf *out) {
    if (!v) { buf_puts(out, "%none"); return; }
    buf_putc(out, '%');
    size_t start = out->n;
    for (uint32_t i = 0; v->name && i < v->name->n; i++) {       // `:D` is an axis's name too
        char c = v->name->s[i];
        if (c_isalnum((unsigned char)c) || c == '_') buf_putc(out, c);
    }
    buf_printf(out, "%s%u", out->n > start ? "." : "", v->id);
}

static void put_quoted(Str s, Buf *out) {
    buf_putc(out, '"');
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c == '"' || c == '\\')      buf_printf(out, "\\%c", c);
        else if (c == '\n')             buf_puts(out, "\\n");
        else if (c < 32 || c == 127)    buf_printf(out, "\\x%02x", c);
        else                            buf_putc(out, (char)c);
    }
    buf_putc(out, '"');
}

static void type_text(const Type *t, Buf *out) {
    switch ((TypeKind)t->kind) {
    case TY_NONE:   buf_puts(out, "none"); break;
    case TY_MBAR:   buf_printf(out, "mbar<%" PRId64 ">", t->shape[0]); break;
    case TY_AXIS:   buf_printf(out, "axis<%" PRId64 ">", t->shape[0]); break;
    case TY_TENSOR: buf_printf(out, "tensor<%s, %d>", elem_name((Elem)t->elem), t->rank); break;
    case TY_TILE:
        buf_printf(out, "%s%s", t->ptr ? "*" : "", elem_name((Elem)t->elem));
        for (int i = 0; i < t->rank; i++) {
            buf_puts(out, i ? ", " : "[");
            put_val(t->axis[i], out);
        }
        if (t->rank) buf_putc(out, ']');
        break;
    case TY_BUFFER:
        buf_printf(out, "buffer<%s", elem_name((Elem)t->elem));
        for (int i = 0; i < t->rank; i++) buf_printf(out, "%s%" PRId64, i ? "x" : ", ", t->shape[i]);
        buf_puts(out, ", order");
        for (int i = 0; i < t->rank; i++) buf_printf(out, " %d", t->order[i]);
        if (t->swizzle) buf_printf(out, ", swizzle %d", t->swizzle);
        if (type_apart(t)) buf_printf(out, ", apart %" PRId64, type_apart(t));
        buf_putc(out, '>');
        break;
    }
}

static void put_float(double v, Buf *out) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    if (v != v) {
        if (bits == UINT64_C(0x7ff8000000000000)) buf_puts(out, "nan");
        else                                      buf_printf(out, "nan:0x%" PRIx64, bits);
        return;
    }
    if (isinf(v)) { buf_puts(out, v < 0 ? "-inf" : "inf"); return; }
    char text[40];
    for (int digits = 6; digits <= 17; digits++) {
        c_snprintf(text, sizeof text, "%.*g", digits, v);
        if (c_strtod(text, NULL) == v) break;
    }
    buf_puts(out, text);
}

static void number_text(Elem e, int64_t imm, Buf *out) {
    double v;
    memcpy(&v, &imm, sizeof v);
    if (elem_is_float(e))    put_float(v, out);
    else if (e == EL_bool)   buf_puts(out, imm ? "true" : "false");
    else if (e == EL_u64)    buf_printf(out, "%" PRIu64, (uint64_t)imm);
    else                     buf_printf(out, "%" PRId64, imm);
}

// ---- ops -----------------------------------------------------------------------------------------

// What stands before an operand: else, where, compare, acc, over; NULL: a comma.
static const char *operand_word(const Op *op, int i) {
    if (op->code == OP_T_axis) return NULL;
    if ((op->flags & HAS_ACC) && i == (op->code == OP_T_wgmma ? 4 : 2)) return "acc";
    if (op->code == OP_T_wgmma && i == 4 + !!(op->flags & HAS_ACC)) return "over";
    if (i == op_first_axis(op)) return "over";
    if ((op->flags & HAS_ELSE) && i == op->nin - 1) return "else";
    if ((op->flags & HAS_WHERE) && i == (op->code == OP_T_ptrload ? 1 : op->nin - 1)) return "where";
    if (op->code == OP_T_atomic && op->sub == TA_cas && i == 2 + op->nidx) return "compare";
    return NULL;
}

static void put_named(const Fn *f, const Op *op, Buf *out) {
    switch (op->code) {
    case OP_T_const:
        buf_putc(out, ' ');
        number_text(op->nout ? (Elem)op->out[0]->type.elem : EL_none, op->imm, out);
        break;
    case OP_T_dim:
        buf_putc(out, ' ');
        put_dim_name(f, op->imm, out);
        break;
    case OP_T_scalar:
    case OP_T_tensor:
        buf_putc(out, ' ');
        put_param_name(f, op->imm, out);
        break;
    default:
        if (op->str.n) {
            buf_putc(out, ' ');
            put_quoted(op->str, out);
        }
    }
}

static void put_attributes(const Op *op, Buf *out) {
    const char *sep = " {";
    bool named = op->code == OP_T_const || op->code == OP_T_dim || op->code == OP_T_scalar || op->code == OP_T_tensor;
    if (op->code == OP_T_axis || (op->imm && !named)) {
        buf_printf(out, "%s%" PRId64, sep, op->imm);
        sep = ", ";
    }
    if (op->attr) {
        buf_printf(out, "%sattr %" PRId64, sep, op->attr);
        sep = ", ";
    }
    for (size_t i = 0; i < sizeof flag_words / sizeof *flag_words; i++) {
        if (!(op->flags & flag_words[i].flag)) continue;
        buf_printf(out, "%s%s", sep, flag_words[i].word);
        sep = ", ";
    }
    if (sep[0] == ',') buf_putc(out, '}');
}

void op_line(const Fn *f, const Op *op, Buf *out) {
    enum { TYPE_COLUMN = 44 };
    size_t line = out->n;
    while (line > 0 && out->p[line - 1] != '\n') line--;
    const OpInfo *info = &op_info[op->code];
    for (int i = 0; i < op->nout; i++) {
        if (i) buf_puts(out, ", ");
        put_val(op->out[i], out);
    }
    if (op->nout) buf_puts(out, " = ");
    buf_puts(out, info->name);
    if (info->sub != SUB_NONE) {
        const char *sub = sub_name((SubTable)info->sub, op->sub);
        buf_printf(out, ".%s", sub ? sub : "?");
    }
    put_named(f, op, out);
    for (int i = 0; i < op->nin; i++) {
        const char *word = operand_word(op, i);
        if (word)   buf_printf(out, " %s ", word);
        else if (i) buf_puts(out, ", ");
        else        buf_putc(out, ' ');
        put_val(op->in[i], out);
    }
    put_attributes(op, out);
    if (!op->nout) return;
    if (!op->nreg)
        while (out->n - line < TYPE_COLUMN - 1) buf_putc(out, ' ');
    for (int i = 0; i < op->nout; i++) {
        buf_puts(out, i ? ", " : " : ");
        type_text(&op->out[i]->type, out);
    }
}

static void put_region(const Fn *f, const Region *r, int depth, Buf *out);

static void put_op(const Fn *f, const Op *op, int depth, Buf *out) {
    for (int i = 0; i < depth; i++) buf_puts(out, "  ");
    op_line(f, op, out);
    for (int k = 0; k < op->nreg; k++) {
        if (k) buf_printf(out, " %s", region_words[op->code] ? region_words[op->code] : "and");
        put_region(f, op->reg[k], depth, out);
    }
    buf_putc(out, '\n');
}

static void put_region(const Fn *f, const Region *r, int depth, Buf *out) {
    for (uint32_t i = 0; i < r->args.n; i++) {
        buf_puts(out, i ? ", " : " (");
        put_val(r->args.at[i], out);
        buf_puts(out, ": ");
        type_text(&r->args.at[i]->type, out);
    }
    buf_puts(out, r->args.n ? ") {\n" : " {\n");
    for (const Op *op = r->first; op; op = op->next) put_op(f, op, depth + 1, out);
    for (int i = 0; i < depth; i++) buf_puts(out, "  ");
    buf_putc(out, '}');
}

// ---- the kernel's head ---------------------------------------------------------------------------

static void put_param(const Fn *f, const LaunchParam *p, Buf *out) {
    static const char *const modes[] = {[PM_IN] = "", [PM_OUT] = "out ", [PM_INOUT] = "inout "};
    buf_printf(out, "%s: %s%s%s%s%s", p->name->s, p->strided ? "strided " : "", p->fixed ? "fixed " : "", modes[p->mode],
               p->kind == PK_POINTER ? "*" : "", elem_name(p->elem));
    if (p->kind != PK_TENSOR) return;
    buf_putc(out, '[');
    for (int i = 0; i < p->rank; i++) {
        if (i) buf_puts(out, ", ");
        if (f->launch) put_launch_expr(f, p->dim[i], out);
        else           buf_putc(out, '_');
    }
    buf_putc(out, ']');
}

static void put_guards(const Fn *f, const char *word, const LaunchGuard *g, int n, Buf *out) {
    for (int i = 0; i < n; i++) {
        buf_printf(out, "\n    %s ", word);
        put_launch_expr(f, g[i].cond, out);
        if (!g[i].text) continue;
        buf_putc(out, ' ');
        put_quoted((Str){g[i].text, strlen(g[i].text)}, out);
    }
}

static void put_head(const Fn *f, Buf *out) {
    int n;
    const LaunchParam *p = params_of(f, &n);
    Sym name = f->launch && f->launch->kernel ? f->launch->kernel : f->kernel ? f->kernel->name : NULL;
    buf_printf(out, "kernel @%s(", name ? name->s : "main");
    for (int i = 0; i < n; i++) {
        if (i) buf_puts(out, ", ");
        put_param(f, &p[i], out);
    }
    buf_putc(out, ')');
    const LaunchInfo *l = f->launch;
    for (int i = 0; l && i < l->ndims; i++) {
        buf_printf(out, "%s%s", i ? ", " : "\n    dims (", l->dims[i].name->s);
        if (l->dims[i].fixed >= 0) buf_printf(out, " = %" PRId64, l->dims[i].fixed);
        if (l->dims[i].divisor) buf_printf(out, " by %d", l->dims[i].divisor);
        if (l->dims[i].upto) buf_printf(out, " upto %d", l->dims[i].upto);
    }
    if (l && l->ndims) buf_putc(out, ')');
    if (l) put_guards(f, "guard", l->guards, l->nguards, out);
    if (l) put_guards(f, "fact", l->facts, l->nfacts, out);
    if (l && l->programs.n) {
        buf_puts(out, "\n    grid ");
        put_launch_expr(f, l->programs, out);
    }
    if (f->level != 1) buf_printf(out, "\n    level %d", f->level);
    if (f->warps) buf_printf(out, "\n    warps %d", f->warps);
    if (f->groups) buf_printf(out, "\n    groups %d", f->groups);
    if (f->walks) buf_printf(out, "\n    walks %d", f->walks);
    if (f->cluster) buf_printf(out, "\n    cluster %d", f->cluster);
    if (f->buffer_bytes) buf_printf(out, "\n    shared %u", f->buffer_bytes);
    if (f->fast) buf_puts(out, "\n    fast");
    buf_putc(out, '\n');
}

void ir_print(Fn *f, Buf *out) {
    ir_number(f);
    put_head(f, out);
    buf_puts(out, "{\n");
    for (const Op *op = f->body.first; op; op = op->next) put_op(f, op, 1, out);
    buf_puts(out, "}\n");
}
