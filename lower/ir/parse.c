// Reads what ir/print.c writes, so that a pass can be given its input as text:
//
//     print(parse(print(f))) == print(f)
//
// A hand-written reader, one token ahead. Values are found by their whole text (`acc.11`); the part
// before the last point is the name from the source. What the text leaves out is computed again: counts
// of index operands from the op's other operands, which occurrence of a dimension defines it from the
// first that stands alone. Reading checks form only; whether ops mean something is ir_verify's business.
//
// The first mistake is reported and ends the reading: this is text between passes, not a language.

#include "lang/c_text.h"
#include "lower/ir/text.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef enum TokKind { T_END, T_VALUE, T_WORD, T_NUMBER, T_STRING, T_PUNCT } TokKind;

typedef struct Tok {
    TokKind     kind;
    const char *at;
    size_t      n;
    bool        fresh;                 // first of its line
} Tok;

typedef struct Named { Sym name; Val *val; } Named;

typedef struct Parse {
    Session      *s;
    Arena        *arena;
    const Source *src;
    const char   *p, *end;
    Tok           tok;
    bool          bad;
    int           depth;
    Fn           *f;
    LaunchInfo   *l;
    Named        *named;               // open addressing by the symbol's hash
    uint32_t      nnamed, cap;
} Parse;

// ---- tokens --------------------------------------------------------------------------------------

static Span tok_span(const Parse *p) {
    Pos at = p->src->base + (Pos)(p->tok.at - p->src->text);
    return (Span){at, at + (Pos)p->tok.n};
}

static void wrong(Parse *p, const char *expected) {
    if (p->bad) return;
    char found[48];
    if (p->tok.kind == T_END) snprintf(found, sizeof found, "the end");
    else                      snprintf(found, sizeof found, "`%.*s`", (int)(p->tok.n < 40 ? p->tok.n : 40), p->tok.at);
    diag(p->s, E_syntax, tok_span(p), expected, found);
    p->bad = true;
    p->p = p->end;
    p->tok.kind = T_END;
}

static bool word_char(char c) { return c_isalnum((unsigned char)c) || c == '_'; }

static void next(Parse *p) {
    bool fresh = false;
    while (p->p < p->end) {
        if (c_isspace((unsigned char)*p->p)) fresh |= *p->p++ == '\n';
        else if (p->p + 1 < p->end && p->p[0] == '/' && p->p[1] == '/') while (p->p < p->end && *p->p != '\n') p->p++;
        else break;
    }
    Tok t = {T_END, p->p, 0, fresh};
    if (p->p < p->end && !p->bad) {
        const char *q = p->p;
        char c = *q++;
        if (c == '%' && q < p->end && (word_char(*q))) {
            t.kind = T_VALUE;
            while (q < p->end && (word_char(*q) || *q == '.')) q++;
        } else if (c_isdigit((unsigned char)c)) {
            t.kind = T_NUMBER;
            while (q < p->end && word_char(*q)) q++;
        } else if (word_char(c)) {
            t.kind = T_WORD;
            while (q < p->end && word_char(*q)) q++;
        } else if (c == '"') {
            t.kind = T_STRING;
            while (q < p->end && *q != '"') q += *q == '\\' && q + 1 < p->end ? 2 : 1;
            if (q < p->end) q++;
        } else {
            t.kind = T_PUNCT;
            static const char *const pairs[] = {"==", "!=", "<=", "&&", "||"};
            for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
                if (q < p->end && c == pairs[i][0] && *q == pairs[i][1]) { q++; break; }
        }
        t.n = (size_t)(q - p->p);
        p->p = q;
    }
    p->tok = t;
}

static bool is(const Parse *p, const char *text) {
    return p->tok.kind != T_END && p->tok.kind != T_STRING && strlen(text) == p->tok.n &&
           memcmp(text, p->tok.at, p->tok.n) == 0;
}

static bool accept(Parse *p, const char *text) {
    if (!is(p, text)) return false;
    next(p);
    return true;
}

static void expect(Parse *p, const char *text) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "`%s`", text);
    if (!accept(p, text)) wrong(p, quoted);
}

static Str word(Parse *p, const char *what) {
    if (p->tok.kind != T_WORD) { wrong(p, what); return (Str){"", 0}; }
    Str s = {p->tok.at, p->tok.n};
    next(p);
    return s;
}

static int64_t integer(Parse *p) {
    bool negative = accept(p, "-");
    if (p->tok.kind != T_NUMBER) { wrong(p, "a number"); return 0; }
    uint64_t v = strtoull(p->tok.at, NULL, 10);          // stops at the token's end: what follows is no digit
    next(p);
    return (int64_t)(negative ? 0 - v : v);
}

static Str string(Parse *p) {
    if (p->tok.kind != T_STRING) { wrong(p, "a text in quotes"); return (Str){0}; }
    char *out = arena_alloc(p->arena, p->tok.n + 1);
    size_t n = 0;
    const char *q = p->tok.at + 1, *end = p->tok.at + p->tok.n - 1;
    while (q < end) {
        if (*q != '\\' || q + 1 >= end) { out[n++] = *q++; continue; }
        q++;
        if (*q == 'x' && q + 2 < end + 1) {
            char hex[3] = {q[1], q[2], 0};
            out[n++] = (char)strtoul(hex, NULL, 16);
            q += 3;
            continue;
        }
        out[n++] = *q == 'n' ? '\n' : *q;
        q++;
    }
    next(p);
    return (Str){out, n};
}

static Str raw_word(Parse *p) {                            // a const's number: everything up to white space
    const char *q = p->tok.at;
    while (q < p->end && !c_isspace((unsigned char)*q)) q++;
    Str s = {p->tok.at, (size_t)(q - p->tok.at)};
    if (!s.n) wrong(p, "a number");
    if (!p->bad) p->p = q;
    next(p);
    return s;
}

// ---- values --------------------------------------------------------------------------------------

static Named *slot_for(Parse *p, Sym name) {
    uint32_t i = name->hash & (p->cap - 1);
    while (p->named[i].name && p->named[i].name != name) i = (i + 1) & (p->cap - 1);
    return &p->named[i];
}

static void define(Parse *p, Sym name, Val *v) {
    if (p->nnamed * 2 >= p->cap) {
        Named *old = p->named;
        uint32_t n = p->cap;
        p->cap = n ? n * 2 : 256;
        p->named = NEW_N(p->arena, Named, p->cap);
        for (uint32_t i = 0; i < n; i++)
            if (old[i].name) *slot_for(p, old[i].name) = old[i];
    }
    Named *at = slot_for(p, name);
    if (at->name) { wrong(p, "a value of another name"); return; }
    *at = (Named){name, v};
    p->nnamed++;
    const char *point = strrchr(name->s, '.');
    if (point && point > name->s) v->name = sym_n(p->s, name->s, (size_t)(point - name->s));
}

static Sym value_name(Parse *p) {
    if (p->tok.kind != T_VALUE) { wrong(p, "a value"); return NULL; }
    Sym s = sym_n(p->s, p->tok.at + 1, p->tok.n - 1);
    next(p);
    return s;
}

static Val *value(Parse *p) {
    Tok at = p->tok;
    Sym name = value_name(p);
    Val *v = name && p->cap ? slot_for(p, name)->val : NULL;
    if (name && !v) {
        p->tok = at;
        wrong(p, "a value defined before");
    }
    return v;
}

// ---- types ---------------------------------------------------------------------------------------

static Elem element(Parse *p) {
    Tok at = p->tok;
    Elem e = elem_by_name(word(p, "an element type"));
    if (e == EL_none && !p->bad) {
        p->tok = at;
        wrong(p, "an element type");
    }
    return e;
}

static Type tile_type(Parse *p) {
    Val *axes[MAX_AXES];
    int  n = 0;
    bool ptr = accept(p, "*");
    Elem e = element(p);
    if (accept(p, "[")) {
        do {
            Val *v = value(p);
            if (n == MAX_AXES) wrong(p, "fewer axes");
            if (!p->bad) axes[n++] = v;
        } while (accept(p, ","));
        expect(p, "]");
    }
    Type t = type_tile(e, n, axes);
    t.ptr = ptr;
    return t;
}

static Type buffer_type(Parse *p) {
    Type t = {.kind = TY_BUFFER, .elem = (uint8_t)element(p)};
    expect(p, ",");
    if (p->tok.kind != T_NUMBER) wrong(p, "extents such as 128x64");
    for (const char *q = p->tok.at, *end = q + p->tok.n; q < end && !p->bad;) {
        char *after;
        if (t.rank == MAX_AXES) { wrong(p, "fewer dimensions"); break; }
        t.shape[t.rank++] = strtoll(q, &after, 10);
        q = after > q && *after == 'x' ? after + 1 : end;
    }
    next(p);
    expect(p, ",");
    expect(p, "order");
    for (int i = 0; i < t.rank && !p->bad; i++) t.order[i] = (uint8_t)integer(p);
    while (accept(p, ",")) {
        if (t.rank < MAX_AXES && accept(p, "apart")) { t.shape[t.rank] = integer(p); continue; }
        expect(p, "swizzle");
        t.swizzle = (uint8_t)integer(p);
    }
    return t;
}

static Type type(Parse *p) {
    Type t = {0};
    if (accept(p, "mbar")) {
        expect(p, "<");
        t = (Type){.kind = TY_MBAR, .shape = {integer(p)}};
    } else if (accept(p, "axis")) {
        expect(p, "<");
        t = (Type){.kind = TY_AXIS, .shape = {integer(p)}};
    } else if (accept(p, "tensor")) {
        expect(p, "<");
        t = (Type){.kind = TY_TENSOR, .elem = (uint8_t)element(p)};
        expect(p, ",");
        t.rank = (uint8_t)integer(p);
        if (t.rank > MAX_RANK) { wrong(p, "fewer dimensions"); t.rank = 0; }
    } else if (accept(p, "buffer")) {
        expect(p, "<");
        t = buffer_type(p);
    } else {
        return tile_type(p);
    }
    expect(p, ">");
    return t;
}

// ---- launch expressions --------------------------------------------------------------------------

typedef struct Code { LStep *at; uint32_t n, cap; } Code;

static int param_index(const Parse *p, Str s) {
    for (int i = 0; i < p->l->nparams; i++)
        if (p->l->params[i].name->n == s.n && memcmp(p->l->params[i].name->s, s.p, s.n) == 0) return i;
    return -1;
}

static int dim_index(const Parse *p, Str s) {
    for (int i = 0; i < p->l->ndims; i++)
        if (p->l->dims[i].name->n == s.n && memcmp(p->l->dims[i].name->s, s.p, s.n) == 0) return i;
    return -1;
}

static void emit(Parse *p, Code *c, LOp op, int64_t arg) { vec_push(p->arena, c, ((LStep){op, arg})); }

static void launch_infix(Parse *p, Code *c, int prec);

static void launch_primary(Parse *p, Code *c) {
    if (++p->depth > 200) wrong(p, "less nesting");
    if (accept(p, "(")) {
        launch_infix(p, c, 1);
        expect(p, ")");
    } else if (p->tok.kind == T_NUMBER || is(p, "-")) {
        emit(p, c, L_CONST, integer(p));
    } else {
        Tok at = p->tok;
        Str name = word(p, "an expression");
        bool call = accept(p, "(");
        if (call && name.n == 6 && memcmp(name.p, "stride", 6) == 0) {
            int param = param_index(p, word(p, "a parameter"));
            expect(p, ",");
            emit(p, c, L_STRIDE, launch_stride(param, integer(p)));
        } else if (call) {
            int op = L_ADD;
            while (op < lop_count && (lop_text[op].prec || strlen(lop_text[op].text) != name.n ||
                                      memcmp(lop_text[op].text, name.p, name.n)))
                op++;
            if (op == lop_count) { p->tok = at; wrong(p, "a function"); return; }
            for (int i = 0; i < lop_text[op].arity; i++) {
                if (i) expect(p, ",");
                launch_infix(p, c, 1);
            }
            emit(p, c, (LOp)op, 0);
        } else if (dim_index(p, name) >= 0) {
            emit(p, c, L_DIM, dim_index(p, name));
        } else if (param_index(p, name) >= 0) {
            emit(p, c, L_SCALAR, param_index(p, name));
        } else if (!p->bad) {
            p->tok = at;
            wrong(p, "a dimension or a parameter");
        }
        if (call) expect(p, ")");
    }
    p->depth--;
}

static void launch_infix(Parse *p, Code *c, int prec) {
    launch_primary(p, c);
    for (;;) {
        int op = L_ADD;
        while (op < lop_count && (lop_text[op].prec < prec || lop_text[op].prec == 0 || !is(p, lop_text[op].text))) op++;
        if (op == lop_count || p->bad) return;
        next(p);
        launch_infix(p, c, lop_text[op].prec + 1);
        emit(p, c, (LOp)op, 0);
    }
}

static LExpr launch_expression(Parse *p) {
    Code c = {0};
    if (accept(p, "_")) return (LExpr){0};
    launch_infix(p, &c, 1);
    return (LExpr){c.at, c.n};
}

// ---- the head ------------------------------------------------------------------------------------

static void dims(Parse *p) {
    VEC(LaunchDim) v = {0};
    do {
        Str s = word(p, "a dimension");
        LaunchDim d = {.name = sym_n(p->s, s.p, s.n), .fixed = -1};
        if (accept(p, "=")) d.fixed = integer(p);
        if (accept(p, "by")) d.divisor = (int)integer(p);
        if (accept(p, "upto")) d.upto = (int)integer(p);
        vec_push(p->arena, &v, d);
    } while (accept(p, ",") && !p->bad);
    p->l->dims = v.at;
    p->l->ndims = v.n < MAX_DIMS ? (int)v.n : MAX_DIMS;
    expect(p, ")");
}

static void find_dims(Parse *p) {                   // they are listed after the parameters that mention them
    Parse ahead = *p;
    while (ahead.tok.kind != T_END && !is(&ahead, "{")) {
        if (accept(&ahead, "dims") && accept(&ahead, "(")) {
            dims(&ahead);
            if (!ahead.bad) return;
            p->bad = true;
            p->p = p->end;
            p->tok.kind = T_END;
            return;
        }
        if (!is(&ahead, "dims")) next(&ahead);
    }
}

static void find_params(Parse *p) {                 // a tensor's dimension may mention a scalar after it
    Parse ahead = *p;
    LaunchInfo *l = p->l;
    l->params = NEW_N(p->arena, LaunchParam, MAX_PARAMS);
    while (ahead.tok.kind == T_WORD && l->nparams < MAX_PARAMS) {
        l->params[l->nparams++].name = sym_n(p->s, ahead.tok.at, ahead.tok.n);
        for (int depth = 0; ahead.tok.kind != T_END && (depth || !is(&ahead, ")")); next(&ahead)) {
            depth += is(&ahead, "[") || is(&ahead, "(");
            depth -= is(&ahead, "]") || is(&ahead, ")");
            if (!depth && is(&ahead, ",")) { next(&ahead); break; }
        }
    }
}

static void param(Parse *p, LaunchParam *q) {
    Str name = word(p, "a parameter");
    *q = (LaunchParam){.name = sym_n(p->s, name.p, name.n), .kind = PK_SCALAR};
    expect(p, ":");
    q->strided = accept(p, "strided");
    q->fixed = accept(p, "fixed");
    q->mode = accept(p, "out") ? PM_OUT : accept(p, "inout") ? PM_INOUT : PM_IN;
    if (accept(p, "*")) q->kind = PK_POINTER;
    q->elem = element(p);
    for (int i = 0; i < MAX_RANK; i++) q->solves[i] = -1;
    if (!accept(p, "[")) return;
    q->kind = PK_TENSOR;
    while (!is(p, "]") && !p->bad) {
        if (q->rank) expect(p, ",");
        if (q->rank == MAX_RANK) { wrong(p, "fewer dimensions"); return; }
        q->dim[q->rank++] = launch_expression(p);
    }
    expect(p, "]");
}

static void solve_dims(LaunchInfo *l) {
    bool solved[MAX_DIMS] = {false};
    for (int i = 0; i < l->nparams; i++)
        for (int d = 0; d < l->params[i].rank; d++) {
            LExpr e = l->params[i].dim[d];
            if (e.n != 1 || e.at[0].op != L_DIM || solved[e.at[0].arg]) continue;
            solved[e.at[0].arg] = true;
            l->params[i].solves[d] = (int)e.at[0].arg;
        }
}

typedef VEC(LaunchGuard) Guards;

static void guard(Parse *p, Guards *to) {
    LaunchGuard g = {.cond = launch_expression(p)};
    if (p->tok.kind == T_STRING) g.text = string(p).p;
    vec_push(p->arena, to, g);
}

static void head(Parse *p) {
    LaunchInfo *l = p->l;
    expect(p, "kernel");
    expect(p, "@");
    Str name = word(p, "the kernel's name");
    l->kernel = sym_n(p->s, name.p, name.n);
    l->entry = l->kernel->s;
    l->cluster = 1;
    expect(p, "(");
    find_dims(p);
    find_params(p);
    for (int n = 0; !is(p, ")") && !p->bad; n++) {
        if (n) expect(p, ",");
        if (n == MAX_PARAMS) { wrong(p, "fewer parameters"); return; }
        param(p, &l->params[n]);
    }
    expect(p, ")");
    Guards guards = {0}, facts = {0};
    while (!is(p, "{") && !p->bad) {
        if (accept(p, "dims")) { expect(p, "("); dims(p); }
        else if (accept(p, "guard")) guard(p, &guards);
        else if (accept(p, "fact"))  guard(p, &facts);
        else if (accept(p, "grid"))  l->programs = launch_expression(p);
        else if (accept(p, "level")) p->f->level = (int)integer(p);
        else if (accept(p, "warps")) p->f->warps = (int)integer(p);
        else if (accept(p, "groups")) p->f->groups = (int)integer(p);
        else if (accept(p, "walks")) p->f->walks = (int)integer(p);
        else if (accept(p, "cluster")) p->f->cluster = l->cluster = (int)integer(p);
        else if (accept(p, "shared")) p->f->buffer_bytes = (uint32_t)integer(p);
        else if (accept(p, "fast"))  p->f->fast = true;
        else wrong(p, "dims, guard, fact, grid, level, warps, groups, walks, cluster, shared, fast or `{`");
    }
    l->guards = guards.at;
    l->nguards = (int)guards.n;
    l->facts = facts.at;
    l->nfacts = (int)facts.n;
    solve_dims(l);
}

// ---- ops -----------------------------------------------------------------------------------------

typedef struct OpText {                        // an op while it is read
    OpCode  code;
    int     sub, flags;
    int64_t imm, attr;
    Str     number, str;
    VEC(Sym) results;
    VEC(Val *) in;
    int     ntypes;
} OpText;

static bool attribute_ahead(const Parse *p) {     // `{` opens attributes, not a region
    Parse ahead = *p;
    next(&ahead);
    if (ahead.tok.kind == T_NUMBER || is(&ahead, "-") || is(&ahead, "attr")) return true;
    for (size_t i = 0; i < sizeof flag_words / sizeof *flag_words; i++)
        if (is(&ahead, flag_words[i].word)) return true;
    return false;
}

static void attributes(Parse *p, OpText *t) {
    if (!is(p, "{") || !attribute_ahead(p)) return;
    next(p);
    do {
        bool flag = false;
        for (size_t i = 0; i < sizeof flag_words / sizeof *flag_words; i++)
            if (accept(p, flag_words[i].word)) {
                t->flags |= flag_words[i].flag;
                flag = true;
            }
        if (flag) continue;
        if (accept(p, "attr")) t->attr = integer(p);
        else                   t->imm = integer(p);
    } while (accept(p, ",") && !p->bad);
    expect(p, "}");
}

static void named(Parse *p, OpText *t) {
    bool number = accept(p, "#");
    Tok  at = p->tok;
    int64_t i = number ? integer(p) : -1;
    if (!number) {
        Str s = word(p, "a name");
        i = t->code == OP_T_dim ? dim_index(p, s) : param_index(p, s);
        if (i < 0 && !p->bad) {
            p->tok = at;
            wrong(p, t->code == OP_T_dim ? "a dimension of the kernel" : "a parameter of the kernel");
        }
    }
    t->imm = i;
}

static void operands(Parse *p, OpText *t) {
    static const struct {
        const char *word;
        int flag;
    } roles[] = {{"acc", HAS_ACC}, {"else", HAS_ELSE}, {"where", HAS_WHERE}, {"over", 0}, {"compare", 0}};
    bool first = true;
    for (;;) {
        bool role = false;
        if (p->tok.fresh) return;                            // operands stay on the op's line
        for (size_t i = 0; i < sizeof roles / sizeof *roles && !role; i++)
            if (accept(p, roles[i].word)) {
                t->flags |= roles[i].flag;
                role = true;
            }
        if (!role && !(first && p->tok.kind == T_VALUE) && !accept(p, ",")) return;
        first = false;
        Val *v = value(p);
        if (t->in.n == 60000) wrong(p, "fewer operands");
        if (p->bad) return;
        vec_push(p->arena, &t->in, v);
    }
}

static int64_t number_of(Elem e, Str s) {
    double x;
    int64_t imm;
    char text[64];
    snprintf(text, sizeof text, "%.*s", (int)(s.n < 63 ? s.n : 63), s.p);
    if (e == EL_bool) return strcmp(text, "true") == 0;
    if (e == EL_u64)  return (int64_t)strtoull(text, NULL, 10);
    if (!elem_is_float(e)) return strtoll(text, NULL, 10);
    if (strncmp(text, "nan:", 4) == 0) return (int64_t)strtoull(text + 4, NULL, 16);
    if (strcmp(text, "nan") == 0) return INT64_C(0x7ff8000000000000);
    x = c_strtod(text, NULL);
    memcpy(&imm, &x, sizeof imm);
    return imm;
}

static int index_count(const Op *op) {
    switch (op->code) {
    case OP_T_load:       return op->nin - 1 - !!(op->flags & HAS_ELSE);
    case OP_T_store:      return op->nin - 2;
    case OP_T_atomic:
        return op->in[0]->type.kind == TY_TENSOR ? op->nin - 2 - (op->sub == TA_cas) - !!(op->flags & HAS_WHERE) : 0;
    case OP_T_copy_async: return op->nin - 3;
    case OP_T_row_store:  return op->nin - 5;
    case OP_T_tma_store:  return op->nin > 1 ? op->in[1]->type.rank : 0;
    case OP_T_tma_load:   return op->nin > 3 ? op->in[3]->type.rank : 0;
    default:              return 0;
    }
}

static void region(Parse *p, Region *r);

static void op_name(Parse *p, OpText *t) {
    Tok at = p->tok;
    Str name = word(p, "an op");
    int code = 0;
    while (code < OP_T_COUNT && (strlen(op_info[code].name) != name.n || memcmp(op_info[code].name, name.p, name.n))) code++;
    if (code == OP_T_COUNT) {
        if (!p->bad) p->tok = at;
        wrong(p, "an op");
        return;
    }
    t->code = (OpCode)code;
    p->f->tallies |= code == OP_T_tally;
    if (op_info[code].sub == SUB_NONE) return;
    expect(p, ".");
    at = p->tok;
    t->sub = sub_find((SubTable)op_info[code].sub, word(p, "a suffix"));
    if (t->sub >= 0) return;
    if (!p->bad) p->tok = at;
    wrong(p, "a suffix of this op");
    t->sub = 0;
}

static void one_op(Parse *p, Region *r) {
    OpText t = {0};
    if (p->tok.kind == T_VALUE) {
        do {
            Sym s = value_name(p);
            if (s) vec_push(p->arena, &t.results, s);
        } while (accept(p, ",") && !p->bad);
        expect(p, "=");
    }
    op_name(p, &t);
    if (p->bad) return;
    if (t.code == OP_T_const) t.number = raw_word(p);
    else if (t.code == OP_T_dim || t.code == OP_T_scalar || t.code == OP_T_tensor) named(p, &t);
    else if (p->tok.kind == T_STRING && !p->tok.fresh) t.str = string(p);
    operands(p, &t);
    attributes(p, &t);
    if (p->bad) return;
    Op *op = op_new(p->f, t.code, (Span){0}, (int)t.in.n, t.in.at, (int)t.results.n);
    op->sub = (uint8_t)t.sub;
    op->flags = (uint16_t)t.flags;
    op->imm = t.imm;
    op->attr = t.attr;
    op->str = t.str;
    if (op->nin) {
        int n = index_count(op);
        op->nidx = (uint8_t)(n > 0 ? n : 0);
    }
    for (uint32_t i = 0; i < t.results.n && !p->bad; i++) {
        expect(p, i ? "," : ":");
        op->out[i]->type = type(p);
        define(p, t.results.at[i], op->out[i]);
    }
    if (t.code == OP_T_const && op->nout) op->imm = number_of((Elem)op->out[0]->type.elem, t.number);
    op_append(r, op);
    for (int k = 0; k < op->nreg && !p->bad; k++) {
        if (k) expect(p, region_words[op->code] ? region_words[op->code] : "and");
        region(p, op->reg[k]);
    }
    if (t.code == OP_T_roles && accept(p, "and")) region(p, op_add_region(p->f, op));
}

static void ops(Parse *p, Region *r) {
    expect(p, "{");
    while (!is(p, "}") && p->tok.kind != T_END) one_op(p, r);
    expect(p, "}");
}

static void region(Parse *p, Region *r) {
    if (++p->depth > 200) wrong(p, "less nesting");
    if (accept(p, "(")) {
        do {
            Sym s = value_name(p);
            expect(p, ":");
            Type t = type(p);
            if (p->bad) return;
            define(p, s, region_arg(p->f, r, t));
        } while (accept(p, ","));
        expect(p, ")");
    }
    ops(p, r);
    p->depth--;
}

Fn *ir_parse(Session *s, const Source *src, const TKernel *k) {
    Arena *a = session_arena(s);
    Parse p = {.s = s, .arena = a, .src = src, .p = src->text, .end = src->text + src->size};
    p.f = fn_new(s, k);
    p.l = p.f->launch = NEW(a, LaunchInfo);
    next(&p);
    head(&p);
    ops(&p, &p.f->body);
    if (!p.bad && p.tok.kind != T_END) wrong(&p, "the end");
    if (!k) {                                          // enough of a kernel for those who want its names
        TKernel *made = NEW(a, TKernel);
        made->name = p.l->kernel;
        made->params = p.l->params;
        made->nparams = p.l->nparams;
        made->dims = p.l->dims;
        made->ndims = p.l->ndims;
        p.f->kernel = made;
    }
    return p.bad ? NULL : p.f;
}
