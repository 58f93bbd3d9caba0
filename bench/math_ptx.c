// A MathBuilder that prints PTX, without LLVM: what the instructions of lower/math.c come to. A value
// is a register, named by its type and number (%f7); a constant is moved into one.

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "bench/math_gpu.h"
#include "lang/number.h"

typedef struct Printer {
    MathBuilder base;
    FILE       *out;
    int         regs, labels;
} Printer;

static const char *const letter[] = {
    [MT_I1] = "p", [MT_I32] = "r", [MT_I64] = "l", [MT_F32] = "f", [MT_F64] = "d",
};
static const char *const bare[] = {                                  // register types
    [MT_I1] = "pred", [MT_I32] = "b32", [MT_I64] = "b64", [MT_F32] = "f32", [MT_F64] = "f64",
};

static bool wide(MathType t) { return t == MT_I64 || t == MT_F64; }

// A value is 8 times its register's number, plus its type.
static MathVal reg(Printer *p, MathType type) {
    return (MathVal)(uintptr_t)(8 * ++p->regs + (int)type);
}

static MathType type_of(MathVal v) { return (MathType)((uintptr_t)v % 8); }

typedef struct Name { char s[24]; } Name;

static Name name(MathVal v) {
    Name n;
    snprintf(n.s, sizeof n.s, "%%%s%d", letter[type_of(v)], (int)((uintptr_t)v / 8));
    return n;
}

static MathVal ptx_iconst(MathBuilder *b, MathType type, uint64_t value) {
    Printer *p = (Printer *)b;
    MathVal r = reg(p, type);
    fprintf(p->out, "    mov.%s %s, 0x%" PRIx64 ";\n", bare[type], name(r).s, value);
    return r;
}

static MathVal ptx_fconst(MathBuilder *b, MathType type, double value) {
    Printer *p = (Printer *)b;
    MathVal r = reg(p, type);
    if (type == MT_F64) fprintf(p->out, "    mov.f64 %s, 0d%016" PRIx64 ";\n", name(r).s, f64_bits(value));
    else fprintf(p->out, "    mov.f32 %s, 0f%08x;\n", name(r).s, f32_bits((float)value));
    return r;
}

// The suffix of a step's instruction: of its row, or from its type.
static const char *suffix(MathOp op, MathType type) {
    static const char *const unsigned_[] = {[MT_I32] = "32", [MT_I64] = "64"};
    bool bits = op == MOP_iand || op == MOP_ior || op == MOP_ixor || op == MOP_shl || op == MOP_lshr
             || op == MOP_ashr || op == MOP_ult;
    if (bits && type == MT_I1) return "pred";
    if (bits) return unsigned_[type];
    switch (op) {
    case MOP_iadd: case MOP_isub: case MOP_imul: case MOP_ieq: return wide(type) ? ".s64" : ".s32";
    case MOP_umulhi: return wide(type) ? ".u64" : ".u32";
    case MOP_select: return type == MT_F32 ? ".f32" : type == MT_F64 ? ".f64" : wide(type) ? ".b64" : ".b32";
    case MOP_clz:    return wide(type) ? ".b64" : ".b32";
    default: break;
    }
    if (strstr(math_ops[op].ptx, "32") || strstr(math_ops[op].ptx, "64")) return "";
    return wide(type) ? ".f64" : ".f32";
}

static MathVal ptx_op(MathBuilder *b, MathOp op, MathType type, MathVal x, MathVal y, MathVal z) {
    Printer *p = (Printer *)b;
    FILE    *f = p->out;
    MathVal  r = reg(p, math_result(op, type));
    Name     d = name(r), a = name(x), bb = y ? name(y) : a, c = z ? name(z) : a;
    const char *ptx = math_ops[op].ptx, *end = suffix(op, type);
    switch (op) {
    case MOP_bits: case MOP_unbits:
        fprintf(f, "    mov.%s %s, %s;\n", wide(type) ? "b64" : "b32", d.s, a.s);
        break;
    case MOP_i2f:
        fprintf(f, "    cvt.rn.%s %s, %s;\n", wide(type) ? "f64.s64" : "f32.s32", d.s, a.s);
        break;
    case MOP_copysign:                                       // PTX takes the sign first
        fprintf(f, "    copysign%s %s, %s, %s;\n", end, d.s, bb.s, a.s);
        break;
    case MOP_select:
        fprintf(f, "    selp%s %s, %s, %s, %s;\n", end, d.s, bb.s, c.s, a.s);
        break;
    case MOP_shl: case MOP_lshr: case MOP_ashr:
        if (wide(type)) {
            MathVal n = reg(p, MT_I32);
            fprintf(f, "    cvt.u32.u64 %s, %s;\n", name(n).s, bb.s);
            bb = name(n);
        }
        fprintf(f, "    %s%s %s, %s, %s;\n", ptx, end, d.s, a.s, bb.s);
        break;
    case MOP_fshl:
        if (wide(type)) {
            fprintf(f, "    { .reg .u32 n, m; .reg .b64 t;\n      cvt.u32.u64 n, %s; sub.u32 m, 63, n;\n"
                       "      shr.u64 t, %s, 1; shr.u64 t, t, m; shl.b64 %s, %s, n; or.b64 %s, %s, t; }\n",
                    c.s, bb.s, d.s, a.s, d.s, d.s);
        } else {
            fprintf(f, "    shf.l.wrap.b32 %s, %s, %s, %s;\n", d.s, bb.s, a.s, c.s);
        }
        break;
    default:
        fprintf(f, "    %s%s %s, %s", ptx, end, d.s, a.s);
        if (y) fprintf(f, ", %s", bb.s);
        if (z) fprintf(f, ", %s", c.s);
        fprintf(f, ";\n");
    }
    return r;
}

static void ptx_rarely(MathBuilder *b, MathVal cond, MathBody *body, MathVal *vals,
                       const MathType *types, int n, const void *env) {
    Printer *p = (Printer *)b;
    MathVal  kept[4];
    int      label = p->labels++;
    assert(n <= 4);
    for (int i = 0; i < n; i++) {
        kept[i] = reg(p, types[i]);
        fprintf(p->out, "    mov.%s %s, %s;\n", bare[types[i]], name(kept[i]).s, name(vals[i]).s);
    }
    fprintf(p->out, "    @!%s bra L%d;\n", name(cond).s, label);
    body(b, vals, env);
    for (int i = 0; i < n; i++) {
        fprintf(p->out, "    mov.%s %s, %s;\n", bare[types[i]], name(kept[i]).s, name(vals[i]).s);
        vals[i] = kept[i];
    }
    fprintf(p->out, "L%d:\n", label);
}

static void ptx_repeat(MathBuilder *b, MathBody *body, MathVal *vals, const MathType *types, int n, const void *env) {
    Printer *p = (Printer *)b;
    MathVal  kept[4];
    int      label = p->labels++;
    assert(n <= 4);
    for (int i = 0; i < n; i++) {
        kept[i] = reg(p, types[i]);
        fprintf(p->out, "    mov.%s %s, %s;\n", bare[types[i]], name(kept[i]).s, name(vals[i]).s);
        vals[i] = kept[i];
    }
    fprintf(p->out, "L%d:\n", label);
    body(b, vals, env);
    for (int i = 0; i < n; i++) {
        fprintf(p->out, "    mov.%s %s, %s;\n", bare[types[i]], name(kept[i]).s, name(vals[i]).s);
        vals[i] = kept[i];
    }
    fprintf(p->out, "    setp.ne.%s q, %s, 0;\n    @q bra L%d;\n", wide(types[0]) ? "s64" : "s32", name(kept[0]).s, label);
}

static void print_kernel(FILE *out, MathFn fn, MathType type, MathMode mode) {
    static const char *const modes[] = {"default", "fast", "precise"};
    char   *text;
    size_t  size;
    Printer p = {
        .base = {.fconst = ptx_fconst, .iconst = ptx_iconst, .op = ptx_op, .rarely = ptx_rarely, .repeat = ptx_repeat},
        .out  = open_memstream(&text, &size),
    };
    bool    two = math_fns[fn].args == 2;
    MathVal x = reg(&p, type), y = two ? reg(&p, type) : NULL;
    const char *t = bare[type];
    int     bytes = wide(type) ? 8 : 4;
    MathVal r = math_build(&p.base, fn, type, mode, x, y);
    fclose(p.out);

    fprintf(out, "\n.visible .entry %s_%s_%s(", math_fns[fn].name, t, modes[mode]);
    fprintf(out, ".param .u64 x, .param .u64 y, .param .u64 out, .param .u32 n)\n{\n");
    fprintf(out, "    .reg .pred %%p<%d>, q; .reg .b32 %%r<%d>, i, m, k; .reg .b64 %%l<%d>, a, o;\n"
                 "    .reg .f32 %%f<%d>; .reg .f64 %%d<%d>;\n",
            p.regs + 1, p.regs + 1, p.regs + 1, p.regs + 1, p.regs + 1);
    fprintf(out, "    mov.u32 i, %%ctaid.x; mov.u32 k, %%ntid.x; mov.u32 m, %%tid.x; mad.lo.u32 i, i, k, m;\n"
                 "    ld.param.u32 m, [n]; setp.ge.u32 q, i, m; @q ret;\n"
                 "    mul.wide.u32 o, i, %d;\n", bytes);
    fprintf(out, "    ld.param.u64 a, [x]; add.u64 a, a, o; ld.global.%s %s, [a];\n", t, name(x).s);
    if (two) fprintf(out, "    ld.param.u64 a, [y]; add.u64 a, a, o; ld.global.%s %s, [a];\n", t, name(y).s);
    fprintf(out, "%s    ld.param.u64 a, [out]; add.u64 a, a, o; st.global.%s [a], %s;\n    ret;\n}\n",
            text, t, name(r).s);
    free(text);
}

void math_ptx_print(FILE *out) {
    fprintf(out, ".version 8.0\n.target sm_80\n.address_size 64\n");
    for (int fn = 0; fn < MATH_FN_COUNT; fn++) {
        for (int mode = 0; mode < MATH_MODES; mode++)
            print_kernel(out, (MathFn)fn, MT_F32, (MathMode)mode);
        print_kernel(out, (MathFn)fn, MT_F64, MATH_DEFAULT);
    }
}
