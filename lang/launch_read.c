// The head of a PTX file, read back: what launch_print wrote is a LaunchInfo again.
//
//     // tk: kernel scale entry scale          a kernel begins
//     // tk: param x: f32[N]                   and so on, one fact a line, until the next begins
//     // tk: blocks cdiv(N, 1024), threads 128, shared 0
//
// An expression has the operators of the table in launch.c, with C's precedence; a name in it is that of a scalar
// parameter, else of a dimension, which is new if it was not there before. What stands behind ` -- ` are words.
// Lines that say nothing of a launch (`value`) are passed over. A line that is otherwise wrong is an error with its number; so is a
// kernel whose lines do not make a launch together (launch_check.c).
#include "lang/c_text.h"
#include "lang/launch.h"

#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_STEPS = 512, MAX_SLOTS = 256, MAX_GUARDS = 256, MAX_DEPTH = 60 };

typedef struct Steps { LStep at[MAX_STEPS]; uint32_t n; } Steps;

typedef struct HeadReader {
    Session    *s;
    Arena      *arena;
    const char *p, *end;               // what is left of the line
    int         line, depth;
    LaunchInfo *info;                  // of the kernel that is being read
    Steps       steps;
    Buf        *err;
    jmp_buf     wrong;
} HeadReader;

_Noreturn static void wrong(HeadReader *r, const char *what) {
    buf_printf(r->err, "line %d: the head that tkc writes has %s here", r->line, what);
    longjmp(r->wrong, 1);
}

// ---- words ---------------------------------------------------------------------------------------

static void space(HeadReader *r) { while (r->p < r->end && *r->p == ' ') r->p++; }

static bool take(HeadReader *r, const char *text) {
    size_t n = strlen(text);
    space(r);
    if ((size_t)(r->end - r->p) < n || memcmp(r->p, text, n) != 0) return false;
    bool word = c_isalnum((unsigned char)text[n - 1]) != 0, goes_on = r->p + n < r->end && (c_isalnum((unsigned char)r->p[n]) || r->p[n] == '_');
    if (word && goes_on) return false;
    r->p += n;
    return true;
}

static void need(HeadReader *r, const char *text) {
    if (take(r, text)) return;
    char what[80];
    snprintf(what, sizeof what, "`%s`", text);
    wrong(r, what);
}

static Str name(HeadReader *r, const char *what) {
    space(r);
    const char *p = r->p;
    while (r->p < r->end && (c_isalnum((unsigned char)*r->p) || *r->p == '_' || *r->p == '$')) r->p++;
    if (p == r->p || c_isdigit((unsigned char)*p)) wrong(r, what);
    return (Str){p, (size_t)(r->p - p)};
}

static int64_t integer(HeadReader *r, int64_t low, int64_t high) {
    space(r);
    char text[32], *stop;
    size_t n = 0;
    if (r->p < r->end && *r->p == '-') text[n++] = *r->p++;
    while (r->p < r->end && c_isdigit((unsigned char)*r->p) && n < sizeof text - 1) text[n++] = *r->p++;
    text[n] = 0;
    errno = 0;
    long long v = strtoll(text, &stop, 10);
    if (stop == text || *stop || errno || v < low || v > high) wrong(r, "a number");
    return v;
}

// ---- expressions ---------------------------------------------------------------------------------

static void step(HeadReader *r, LOp op, int64_t arg) {
    if (r->steps.n == MAX_STEPS) wrong(r, "a shorter expression");
    r->steps.at[r->steps.n++] = (LStep){op, arg};
}

static int param_named(const LaunchInfo *info, Str s) {
    for (int i = 0; i < info->nparams; i++)
        if (info->params[i].name->n == s.n && memcmp(info->params[i].name->s, s.p, s.n) == 0) return i;
    return -1;
}

static int need_param(HeadReader *r) {
    int p = param_named(r->info, name(r, "a parameter"));
    if (p < 0) wrong(r, "a parameter");
    return p;
}

static int dim_named(HeadReader *r, Str s) {
    LaunchInfo *info = r->info;
    Sym dim = sym_n(r->s, s.p, s.n);
    for (int d = 0; d < info->ndims; d++)
        if (info->dims[d].name == dim) return d;
    if (info->ndims == MAX_DIMS) wrong(r, "fewer dimensions");
    info->dims[info->ndims] = (LaunchDim){.name = dim, .fixed = -1};
    return info->ndims++;
}

static int dim_or_index(HeadReader *r) {                        // .dim(1), .stride(0): what is in parentheses
    need(r, "(");
    int d = (int)integer(r, 0, MAX_RANK - 1);
    need(r, ")");
    return d;
}

static void expression(HeadReader *r, int level);

static void call(HeadReader *r, LOp op) {
    need(r, "(");
    for (int i = 0; i < launch_takes(op); i++) {
        if (i) need(r, ",");
        expression(r, 8);
    }
    need(r, ")");
    step(r, op, 0);
}

static void primary(HeadReader *r) {
    static const struct { const char *name; LOp op; } calls[] = {{"cdiv", L_CDIV}, {"min", L_MIN}, {"max", L_MAX}, {"positive", L_POSITIVE}};
    if (++r->depth > MAX_DEPTH) wrong(r, "an expression less deep");
    space(r);
    bool digit = r->p < r->end && (c_isdigit((unsigned char)*r->p) || (*r->p == '-' && r->p + 1 < r->end && c_isdigit((unsigned char)r->p[1])));
    if (digit) step(r, L_CONST, integer(r, INT64_MIN, INT64_MAX));
    else if (take(r, "(")) {
        expression(r, 8);
        need(r, ")");
    } else if (take(r, "!")) {
        primary(r);
        step(r, L_NOT, 0);
    } else if (take(r, "-")) {
        step(r, L_CONST, 0);
        primary(r);
        step(r, L_SUB, 0);
    } else {
        Str s = name(r, "a number or a name");
        size_t k = 0;
        while (k < sizeof calls / sizeof *calls && (strlen(calls[k].name) != s.n || memcmp(calls[k].name, s.p, s.n) != 0)) k++;
        int p = param_named(r->info, s);
        if (k < sizeof calls / sizeof *calls && r->p < r->end && *r->p == '(') call(r, calls[k].op);
        else if (take(r, ".stride")) {
            if (p < 0) wrong(r, "a parameter");
            step(r, L_STRIDE, launch_stride(p, dim_or_index(r)));
        } else if (p >= 0 && r->info->params[p].kind == PK_SCALAR) step(r, L_SCALAR, p);
        else step(r, L_DIM, dim_named(r, s));
    }
    r->depth--;
}

// Operators that bind as `level` or tighter.
static void expression(HeadReader *r, int level) {
    static const struct { const char *text; LOp op; int level; } ops[] = {
        {"*", L_MUL, 2}, {"/", L_DIV, 2}, {"%", L_MOD, 2}, {"+", L_ADD, 3}, {"-", L_SUB, 3}, {"<=", L_LE, 4}, {"<", L_LT, 4},
        {"==", L_EQ, 5}, {"!=", L_NE, 5}, {"&&", L_AND, 6}, {"||", L_OR, 7}};
    enum { OPS = sizeof ops / sizeof *ops };
    if (++r->depth > MAX_DEPTH) wrong(r, "an expression less deep");
    primary(r);
    for (;;) {
        size_t i = 0;
        space(r);
        if (r->end - r->p >= 4 && memcmp(r->p, "-- ", 3) == 0) break;
        while (i < OPS && (ops[i].level > level || !take(r, ops[i].text))) i++;
        if (i == OPS) break;
        expression(r, ops[i].level - 1);
        step(r, ops[i].op, 0);
    }
    if (level >= 8 && take(r, "?")) {
        expression(r, 7);
        need(r, ":");
        expression(r, 8);
        step(r, L_SELECT, 0);
    }
    r->depth--;
}

static LExpr read_expr(HeadReader *r) {
    r->steps.n = 0;
    expression(r, 8);
    LStep *copy = NEW_N(r->arena, LStep, r->steps.n);
    memcpy(copy, r->steps.at, sizeof *copy * r->steps.n);
    return (LExpr){copy, r->steps.n};
}

// ---- lines ---------------------------------------------------------------------------------------

static void kernel_line(HeadReader *r) {
    Str kernel = name(r, "a kernel's name");
    r->info = NEW(r->arena, LaunchInfo);
    r->info->kernel = sym_n(r->s, kernel.p, kernel.n);
    if (take(r, "entry")) {
        Str entry = name(r, "an entry's name");
        r->info->entry = sym_n(r->s, entry.p, entry.n)->s;
    }
    r->info->params = NEW_N(r->arena, LaunchParam, MAX_PARAMS);
    r->info->dims = NEW_N(r->arena, LaunchDim, MAX_DIMS);
    r->info->guards = NEW_N(r->arena, LaunchGuard, MAX_GUARDS);
    r->info->facts = NEW_N(r->arena, LaunchGuard, MAX_GUARDS);
    r->info->slots = NEW_N(r->arena, LaunchSlot, MAX_SLOTS);
    r->info->threads = r->info->cluster = 1;
}

static void param_line(HeadReader *r) {
    if (r->info->nparams == MAX_PARAMS) wrong(r, "fewer parameters");
    LaunchParam *p = &r->info->params[r->info->nparams++];
    Str n = name(r, "a parameter's name");
    *p = (LaunchParam){.kind = PK_SCALAR, .name = sym_n(r->s, n.p, n.n)};
    need(r, ":");
    p->mode = take(r, "out") ? PM_OUT : take(r, "inout") ? PM_INOUT : PM_IN;
    if (take(r, "*")) p->kind = PK_POINTER;
    p->elem = elem_by_name(name(r, "an element type"));
    if (p->elem == EL_none) wrong(r, "an element type");
    if (take(r, "[")) {
        p->kind = PK_TENSOR;
        while (!take(r, "]")) {
            if (p->rank == MAX_RANK) wrong(r, "fewer dimensions");
            if (p->rank) need(r, ",");
            p->solves[p->rank] = -1;
            p->dim[p->rank++] = read_expr(r);
        }
    }
    p->strided = take(r, "strided");
    p->fixed = take(r, "fixed");
}

static void dim_line(HeadReader *r) {                           // dim N = 64; dim N = x.dim(1) - 1
    int d = dim_named(r, name(r, "a dimension"));
    need(r, "=");
    space(r);
    if (r->p < r->end && c_isdigit((unsigned char)*r->p)) { r->info->dims[d].fixed = integer(r, 0, INT64_MAX); return; }
    int p = need_param(r);
    need(r, ".dim");
    int i = dim_or_index(r);
    if (i >= r->info->params[p].rank) wrong(r, "a dimension of that tensor");
    if (take(r, "-") || take(r, "+")) (void)integer(r, 0, INT64_MAX);      // an equation, as the tensor's type has it
    else r->info->params[p].solves[i] = d;
}

static void guard_line(HeadReader *r, LaunchGuard *list, int *n) {
    if (*n == MAX_GUARDS) wrong(r, "fewer conditions");
    const char *from = (space(r), r->p);
    LaunchGuard *g = &list[(*n)++];
    g->cond = read_expr(r);
    const char *to = r->p;
    if (take(r, "--")) space(r), from = r->p, to = r->end, r->p = r->end;
    g->text = arena_printf(r->arena, "%.*s", (int)(to - from), from);
}

static void map_slot(HeadReader *r, LaunchSlot *s) {
    s->kind = SLOT_TENSORMAP;
    s->a = need_param(r);
    need(r, ", dimensions");
    while (!take(r, ", box")) {
        if (s->rank == 5) wrong(r, "a map of fewer dimensions");
        s->map_dim[s->rank++] = (int8_t)integer(r, -1, MAX_RANK - 1);
    }
    int boxes = 0;
    for (; !take(r, ", swizzle"); boxes++) {
        if (boxes == 5) wrong(r, "a box of fewer dimensions");
        s->box[boxes] = (uint32_t)integer(r, 1, UINT32_MAX);
    }
    s->swizzle = (uint8_t)integer(r, 0, 128);
    s->rounds = take(r, ", tf32");
    if (take(r, ", rows")) s->expr = read_expr(r);
    static const char *const words[] = {", im2col lower", ", upper", ", step"};
    LExpr *const corners[] = {s->lower, s->upper, s->step};
    for (int k = 0; k < 3 && take(r, words[k]); k++) {
        s->im2col = true;
        for (int i = 0; i + 2 < s->rank; i++) {
            if (i) need(r, ";");
            corners[k][i] = read_expr(r);
        }
    }
}

static void slot_line(HeadReader *r) {
    if (r->info->nslots == MAX_SLOTS) wrong(r, "fewer machine parameters");
    LaunchSlot *s = &r->info->slots[r->info->nslots];
    if (integer(r, 0, MAX_SLOTS) != r->info->nslots++) wrong(r, "the next machine parameter");
    need(r, ":");
    s->size = (uint8_t)integer(r, 1, 128);
    need(r, "bytes,");
    if (take(r, "address of scratch memory,")) {
        s->kind = SLOT_SCRATCH;
        s->a = SCRATCH_PARTS;
        s->expr = read_expr(r);
        need(r, "bytes");
        r->p = r->end;
    } else if (take(r, "address of")) {
        s->kind = SLOT_POINTER;
        s->a = need_param(r);
    } else if (take(r, "tensor map of")) map_slot(r, s);
    else {
        LExpr e = read_expr(r);
        *s = (LaunchSlot){.kind = SLOT_EXPR, .size = s->size, .expr = e};
        if (e.n == 1 && e.at[0].op == L_SCALAR) s->kind = SLOT_SCALAR, s->a = (int)e.at[0].arg;
    }
}

static void blocks_line(HeadReader *r) {
    LaunchInfo *info = r->info;
    info->blocks = read_expr(r);
    need(r, ", threads");
    info->threads = (int)integer(r, 1, 1024);
    need(r, ", shared");
    info->smem = (uint32_t)integer(r, 0, 1 << 24);
    if (take(r, "+")) info->smem_more = read_expr(r);
    if (take(r, ", cluster")) info->cluster = (int)integer(r, 1, 64);
    info->together = take(r, ", together");
    info->partial = take(r, ", partial");
    if (take(r, ", early up to")) info->early = (int)integer(r, 1, INT_MAX);
    else if (take(r, ", early")) info->early = INT_MAX;
}

static void line_end(HeadReader *r) {
    space(r);
    if (r->p != r->end) wrong(r, "the end of the line");
}

static void line_of(HeadReader *r) {
    if (r->info == NULL) return;
    if (take(r, "param")) param_line(r);
    else if (take(r, "dim")) dim_line(r);
    else if (take(r, "guard")) guard_line(r, r->info->guards, &r->info->nguards);
    else if (take(r, "fact")) guard_line(r, r->info->facts, &r->info->nfacts);
    else if (take(r, "slot")) slot_line(r);
    else if (take(r, "blocks")) blocks_line(r);
    else return;                                                // check: as the types say; value, programs
    line_end(r);
}

// The kernel that is over. Without blocks nothing launches it.
static void finish(HeadReader *r) {
    if (r->info == NULL || !r->info->blocks.n || launch_valid(r->info)) return;
    buf_printf(r->err, "line %d: what the head says of the kernel `%s` before it is not a launch", r->line, r->info->kernel->s);
    longjmp(r->wrong, 1);
}

int launch_read(Session *s, const char *text, size_t n, const LaunchInfo **out, int max, Buf *err) {
    static const char mark[] = "// tk: ";
    HeadReader *r = NEW(session_arena(s), HeadReader);
    int count = 0;
    *r = (HeadReader){.s = s, .arena = session_arena(s), .err = err};
    if (setjmp(r->wrong)) return -1;
    for (const char *p = text, *end = text + n; p < end;) {
        const char *stop = memchr(p, '\n', (size_t)(end - p));
        if (stop == NULL) stop = end;
        r->line++;
        r->end = stop > p && stop[-1] == '\r' ? stop - 1 : stop;
        if (*p == '.') break;                                   // .version: the head is over
        if ((size_t)(r->end - p) >= sizeof mark - 1 && memcmp(p, mark, sizeof mark - 1) == 0) {
            const LaunchInfo *before = r->info;
            r->p = p + sizeof mark - 1;
            if (take(r, "kernel")) finish(r), kernel_line(r), line_end(r);
            else line_of(r);
            if (r->info != before && count == max) break;
            if (r->info != before) out[count++] = r->info;
        }
        p = stop + (stop < end);
    }
    finish(r);
    return count;
}
