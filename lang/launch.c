// Launch expressions: evaluated, and written as text; and the launch of a kernel as comment lines.
//
//     M 128 cdiv  N 256 cdiv  mul        "cdiv(M, 128) * cdiv(N, 256)"        M = 300, N = 256: 3
//
// Arithmetic is that of the language's index type: 64 bits, wrapping, division and remainder floor, and a
// division by zero gives 0 (the guard that refuses such a launch is evaluated like everything else, and
// no evaluation may fail). Text has no more parentheses than its reader needs.
//
// What launch_print writes goes into the head of a PTX file, one fact a line, so that a launcher in any
// language can read there what it must pass and check:
//
//     // tk: kernel scale entry scale_f32
//     // tk: param x: f32[N]
//     // tk: param y: out f32[N]
//     // tk: dim N = x.dim(0)
//     // tk: check y.dim(0) == N
//     // tk: guard N % 4 == 0 -- `where` at scale.tk:3
//     // tk: slot 0: 8 bytes, address of x
//     // tk: blocks cdiv(N, 1024), threads 128, shared 0
#include "lang/launch.h"

#include "lang/number.h"
#include "lang/shown.h"

#include <limits.h>
#include <string.h>

// clang-format off
//              name        in  precedence: 0 atom or call, then as in C
static const struct { const char *name; int in, level; } ops[] = {
    [L_CONST]  = { "",      0, 0 },  [L_DIM]    = { "",      0, 0 },
    [L_SCALAR] = { "",      0, 0 },  [L_STRIDE] = { "",      0, 0 },
    [L_ADD]    = { "+",     2, 3 },  [L_SUB]    = { "-",     2, 3 },
    [L_MUL]    = { "*",     2, 2 },  [L_DIV]    = { "/",     2, 2 },
    [L_MOD]    = { "%",     2, 2 },  [L_CDIV]   = { "cdiv",  2, 0 },
    [L_MIN]    = { "min",   2, 0 },  [L_MAX]    = { "max",   2, 0 },
    [L_EQ]     = { "==",    2, 5 },  [L_NE]     = { "!=",    2, 5 },
    [L_LT]     = { "<",     2, 4 },  [L_LE]     = { "<=",    2, 4 },
    [L_AND]    = { "&&",    2, 6 },  [L_OR]     = { "||",    2, 7 },
    [L_NOT]    = { "!",     1, 1 },  [L_SELECT] = { "?",     3, 8 },
    [L_POSITIVE] = { "positive", 1, 0 },
};
// clang-format on

const ScheduleField schedule_fields[] = {
#define X(name, most) {#name, most, offsetof(Schedule, name)},
    SCHEDULE(X)
#undef X
};
const int schedule_field_count = sizeof schedule_fields / sizeof *schedule_fields;

int *schedule_field(Schedule *s, const char *name, size_t n, int *most) {
    for (int i = 0; i < schedule_field_count; i++) {
        const ScheduleField *f = &schedule_fields[i];
        if (strlen(f->name) != n || memcmp(f->name, name, n) != 0) continue;
        *most = f->most;
        return (int *)(void *)((char *)s + f->offset);
    }
    return NULL;
}

int schedule_word(const Schedule *s, int i) {
    return *(const int *)(const void *)((const char *)s + schedule_fields[i].offset);
}

int schedule_text(const Schedule *s, Buf *out) {
    int n = 0;
    for (int i = 0; i < schedule_field_count; i++)
        if (schedule_word(s, i))
            buf_printf(out, "%s--with=%s=%d", n++ ? " " : "", schedule_fields[i].name, schedule_word(s, i));
    return n;
}

const char *schedule_refuses(const char *name, size_t n, int64_t v) {
#define X(name, most) "a number from 1 to " #most,
    static const char *const range[] = {SCHEDULE(X)};
#undef X
    for (int i = 0; i < schedule_field_count; i++) {
        const ScheduleField *f = &schedule_fields[i];
        if (strlen(f->name) != n || memcmp(f->name, name, n) != 0) continue;
        bool warps = f->offset == offsetof(Schedule, warps);
        if (v >= 1 && v <= f->most && !(warps && (v & (v - 1)))) return NULL;
        return warps ? "1, 2, 4, 8, 16 or 32" : range[i];
    }
    return NULL;
}

static int64_t apply(LOp op, int64_t a, int64_t b) {
    uint64_t x = (uint64_t)a, y = (uint64_t)b;
    switch (op) {
    case L_ADD:  return (int64_t)(x + y);
    case L_SUB:  return (int64_t)(x - y);
    case L_MUL:  return (int64_t)(x * y);
    case L_DIV:  return int_div_floor(a, b);
    case L_MOD:  return int_mod_floor(a, b);
    case L_CDIV: return int_div_floor(a, b) + (int_mod_floor(a, b) != 0);
    case L_MIN:  return a < b ? a : b;
    case L_MAX:  return a > b ? a : b;
    case L_EQ:   return a == b;
    case L_NE:   return a != b;
    case L_LT:   return a < b;
    case L_LE:   return a <= b;
    case L_AND:  return a && b;
    case L_OR:   return a || b;
    default:     ice("launch expression: operator %d has not two operands", op);
    }
}

static bool is_positive(int64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x >= 0x1p-50 && x <= 0x1p50;
}

int64_t launch_eval(LExpr e, const int64_t *dims, const int64_t *scalars, const int64_t *strides) {
    int64_t stack[LAUNCH_STACK];
    uint32_t n = 0;
    if (e.n == 1 && e.at->op == L_CONST) return e.at->arg;
    if (e.n == 1 && e.at->op == L_DIM) return dims[e.at->arg];
    memset(stack, 0, sizeof *stack * (e.n < LAUNCH_STACK ? e.n : LAUNCH_STACK));
    for (uint32_t i = 0; i < e.n; i++) {
        LStep s = e.at[i];
        int in = ops[s.op].in;
        if (n < (uint32_t)in || n - (uint32_t)in >= LAUNCH_STACK) ice("launch expression: step %u has the wrong depth", i);
        int64_t *top = stack + n - in;
        switch (s.op) {
        case L_CONST:  top[0] = s.arg; break;
        case L_DIM:    top[0] = dims[s.arg]; break;
        case L_SCALAR: top[0] = scalars[s.arg]; break;
        case L_STRIDE: top[0] = strides[s.arg]; break;
        case L_NOT:    top[0] = !top[0]; break;
        case L_POSITIVE: top[0] = is_positive(top[0]); break;
        case L_SELECT: top[0] = top[0] ? top[1] : top[2]; break;
        default:       top[0] = apply(s.op, top[0], top[1]); break;
        }
        n = n - (uint32_t)in + 1;
    }
    if (n != 1) ice("launch expression: leaves %u values", n);
    return stack[0];
}

int launch_depth(LExpr e) {
    int n = 0, most = 0;
    for (uint32_t i = 0; i < e.n; i++) {
        n += 1 - ops[e.at[i].op].in;
        if (n > most) most = n;
    }
    return most;
}

bool launch_by_dims(LExpr e, const int64_t *dims, int64_t *out) {
    for (uint32_t i = 0; i < e.n; i++) if (e.at[i].op == L_SCALAR || e.at[i].op == L_STRIDE) return false;
    *out = launch_eval(e, dims, NULL, NULL);
    return true;
}

int launch_takes(LOp op) { return ops[op].in; }

bool launch_same(LExpr a, LExpr b) {
    if (a.n != b.n) return false;
    for (uint32_t i = 0; i < a.n; i++) if (a.at[i].op != b.at[i].op || a.at[i].arg != b.at[i].arg) return false;
    return true;
}

// Up to the last place where one value is left, as the right side works above that value.
static uint32_t launch_left_side(LExpr e) {
    int32_t depth = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i + 1 < e.n; i++) {
        depth += 1 - ops[e.at[i].op].in;
        if (depth == 1) n = i + 1;
    }
    return n;
}

static bool of_known(LExpr e, const bool *known, const int64_t *scalars) {
    for (uint32_t i = 0; i < e.n; i++) {
        LStep s = e.at[i];
        if (s.op == L_STRIDE || (!scalars && (s.op == L_SCALAR || s.op == L_POSITIVE)) || (s.op == L_DIM && !known[s.arg])) return false;
    }
    return true;
}

void launch_solve(LExpr e, int64_t value, int64_t *dims, bool *known, const int64_t *scalars) {
    LStep last = e.at[e.n - 1];
    if (last.op == L_DIM && !known[last.arg]) {
        dims[last.arg] = value;
        known[last.arg] = true;
    }
    if (e.n < 3 || (last.op != L_ADD && last.op != L_SUB && last.op != L_MUL)) return;
    uint32_t n = launch_left_side(e);
    LExpr side[2] = {{e.at, n}, {e.at + n, e.n - 1 - n}};
    for (int s = 0; s < 2; s++) {
        if (!of_known(side[1 - s], known, scalars)) continue;
        int64_t other = launch_eval(side[1 - s], dims, scalars, NULL);
        if (last.op == L_MUL && other == 0) continue;
        bool taken = last.op == L_SUB && s == 1;               // value = other - part
        LOp undo = last.op == L_MUL ? L_DIV : last.op == L_ADD || taken ? L_SUB : L_ADD;
        launch_solve(side[s], taken ? apply(undo, other, value) : apply(undo, value, other), dims, known, scalars);
    }
}

void launch_solve_guards(const LaunchInfo *info, int64_t *dims, bool *known, const int64_t *scalars) {
    for (int round = 0; round < info->ndims; round++)
        for (int g = 0; g < info->nguards; g++) {
            LExpr e = info->guards[g].cond;
            if (e.n < 3 || e.at[e.n - 1].op != L_EQ) continue;
            uint32_t n = launch_left_side(e);
            LExpr side[2] = {{e.at, n}, {e.at + n, e.n - 1 - n}};
            for (int s = 0; s < 2; s++)
                if (of_known(side[1 - s], known, scalars)) launch_solve(side[s], launch_eval(side[1 - s], dims, scalars, NULL), dims, known, scalars);
        }
}

// ---- text ----------------------------------------------------------------------------------------

typedef struct Piece { char *text; int level; } Piece;

static char *leaf(Arena *a, const LaunchInfo *info, LStep s) {
    switch (s.op) {
    case L_DIM:    return arena_printf(a, "%s", info->dims[s.arg].name->s);
    case L_SCALAR: return arena_printf(a, "%s", info->params[s.arg].name->s);
    case L_STRIDE: return arena_printf(a, "%s.stride(%d)", info->params[launch_stride_param(s)].name->s, launch_stride_dim(s));
    default:       return arena_printf(a, "%lld", (long long)s.arg);
    }
}

// In parentheses if it binds more loosely than `level` allows.
static char *within(Arena *a, Piece p, int level) { return p.level <= level ? p.text : arena_printf(a, "(%s)", p.text); }

static Piece compose(Arena *a, LOp op, const Piece *in) {
    const char *name = ops[op].name;
    int level = ops[op].level;
    if (op == L_NOT) return (Piece){arena_printf(a, "!%s", within(a, in[0], 1)), 1};
    if (op == L_POSITIVE) return (Piece){arena_printf(a, "%s(%s)", name, in[0].text), 0};
    if (op == L_SELECT)
        return (Piece){arena_printf(a, "%s ? %s : %s", within(a, in[0], 7), within(a, in[1], 7), within(a, in[2], 8)), 8};
    if (level == 0) return (Piece){arena_printf(a, "%s(%s, %s)", name, in[0].text, in[1].text), 0};
    if (op == L_SUB && strcmp(in[0].text, "0") == 0) return (Piece){arena_printf(a, "-%s", within(a, in[1], 0)), 1};
    bool zero = strcmp(in[1].text, "0") == 0, one = strcmp(in[1].text, "1") == 0;
    if ((zero && (op == L_ADD || op == L_SUB)) || (one && (op == L_MUL || op == L_DIV))) return in[0];   // nobody wrote that
    bool same = op == L_ADD || op == L_MUL || op == L_AND || op == L_OR;    // a + (b - c) needs none, a - (b + c) does
    bool compares = level == 4 || level == 5;                               // (a < b) == c
    int left = compares ? 3 : level;
    int right = compares ? 3 : same && op != L_MUL ? level : level - 1;
    return (Piece){arena_printf(a, "%s %s %s", within(a, in[0], left), name, within(a, in[1], right)), level};
}

char *launch_expr_text(Arena *a, const LaunchInfo *info, LExpr e) {
    Piece stack[LAUNCH_STACK] = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < e.n; i++) {
        LStep s = e.at[i];
        int in = ops[s.op].in;
        if (n < (uint32_t)in || n - (uint32_t)in >= LAUNCH_STACK) ice("launch expression: step %u has the wrong depth", i);
        Piece *top = stack + n - in;
        *top = in == 0 ? (Piece){leaf(a, info, s), s.op == L_CONST && s.arg < 0} : compose(a, s.op, top);
        n = n - (uint32_t)in + 1;
    }
    return n == 1 ? stack[0].text : arena_printf(a, "?");
}

// ---- the head of a PTX file ----------------------------------------------------------------------

typedef struct Printer { const LaunchInfo *info; Arena *arena; Buf *out; } Printer;

static const char *text(Printer *p, LExpr e) { return launch_expr_text(p->arena, p->info, e); }
static const char *param_name(const Printer *p, int i) { return p->info->params[i].name->s; }

static void print_param(Printer *p, const LaunchParam *q) {
    static const char *const modes[] = {"", "out ", "inout "};
    buf_printf(p->out, "// tk: param %s: %s", q->name->s, modes[q->mode]);
    if (q->kind == PK_POINTER) buf_putc(p->out, '*');
    buf_puts(p->out, elem_name(q->elem));
    if (q->kind == PK_TENSOR) {
        buf_putc(p->out, '[');
        for (int i = 0; i < q->rank; i++) buf_printf(p->out, "%s%s", i > 0 ? ", " : "", text(p, q->dim[i]));
        buf_putc(p->out, ']');
        if (q->strided) buf_puts(p->out, " strided");
        if (q->fixed) buf_puts(p->out, " fixed");
    }
    buf_putc(p->out, '\n');
}

// The dimension that is found by this one of a tensor: alone, or with a number added, where it stands alone nowhere; -1: none.
static int found_by(const LaunchInfo *info, int param, int j, int64_t *added) {
    *added = 0;
    if (info->params[param].solves[j] >= 0) return info->params[param].solves[j];
    for (int i = 0; i <= param; i++)
        for (int k = 0; k < (i < param ? info->params[i].rank : j + 1); k++) {
            LExpr e = info->params[i].dim[k];
            if (e.n != 3 || e.at[0].op != L_DIM || e.at[1].op != L_CONST || (e.at[2].op != L_ADD && e.at[2].op != L_SUB)) continue;
            int d = e.at[0].arg;
            bool alone = info->dims[d].fixed >= 0;
            for (int q = 0; q < info->nparams; q++) for (int r = 0; r < info->params[q].rank; r++) alone |= info->params[q].solves[r] == d;
            *added = e.at[2].op == L_ADD ? e.at[1].arg : -e.at[1].arg;
            if (i == param && k == j) return alone ? -1 : d;
            LExpr mine = info->params[param].dim[j];
            if (mine.n == 3 && mine.at[0].op == L_DIM && mine.at[0].arg == e.at[0].arg) return -1;      // an earlier one does
        }
    return -1;
}

static void print_dims(Printer *p) {
    const LaunchInfo *info = p->info;
    for (int d = 0; d < info->ndims; d++)
        if (info->dims[d].fixed >= 0)
            buf_printf(p->out, "// tk: dim %s = %lld\n", info->dims[d].name->s, (long long)info->dims[d].fixed);
    for (int i = 0; i < info->nparams; i++)
        for (int j = 0; j < info->params[i].rank; j++) {
            int64_t added;
            int solved = found_by(info, i, j, &added);
            if (solved >= 0) buf_printf(p->out, "// tk: dim %s = %s.dim(%d)", info->dims[solved].name->s, param_name(p, i), j);
            if (solved >= 0 && added) buf_printf(p->out, " %c %lld", added > 0 ? '-' : '+', (long long)(added > 0 ? added : -added));
            if (solved >= 0) buf_putc(p->out, '\n');
            else buf_printf(p->out, "// tk: check %s.dim(%d) == %s\n", param_name(p, i), j, text(p, info->params[i].dim[j]));
        }
}

static void print_guards(Printer *p, const char *word, const LaunchGuard *g, int n) {
    for (int i = 0; i < n; i++) {
        const char *cond = text(p, g[i].cond);
        buf_printf(p->out, "// tk: %s %s", word, cond);
        if (g[i].text != NULL && strcmp(g[i].text, cond) != 0) buf_puts(p->out, " -- "), buf_line(p->out, g[i].text);
        buf_putc(p->out, '\n');
    }
}

static void print_map(Printer *p, const LaunchSlot *s) {
    buf_printf(p->out, "tensor map of %s, dimensions", param_name(p, s->a));
    for (int i = 0; i < s->rank; i++) buf_printf(p->out, " %d", s->map_dim[i]);
    buf_puts(p->out, ", box");
    for (int i = 0; i < (s->im2col ? 2 : s->rank); i++) buf_printf(p->out, " %u", s->box[i]);
    buf_printf(p->out, ", swizzle %d", s->swizzle);
    if (s->rounds) buf_puts(p->out, ", tf32");
    if (s->expr.n) buf_printf(p->out, ", rows %s", text(p, s->expr));
    static const char *const words[] = {"lower", "upper", "step"};
    const LExpr *const corners[] = {s->lower, s->upper, s->step};
    for (int k = 0; s->im2col && k < 3; k++) {
        buf_printf(p->out, ", %s%s", k ? "" : "im2col ", words[k]);
        for (int i = 0; i + 2 < s->rank; i++) buf_printf(p->out, "%s %s", i ? ";" : "", text(p, corners[k][i]));
    }
}

static void print_slot(Printer *p, int i, const LaunchSlot *s) {
    buf_printf(p->out, "// tk: slot %d: %d bytes, ", i, s->size);
    switch (s->kind) {
    case SLOT_POINTER:   buf_printf(p->out, "address of %s", param_name(p, s->a)); break;
    case SLOT_SCALAR:    buf_printf(p->out, "%s", param_name(p, s->a)); break;
    case SLOT_DIM:       buf_printf(p->out, "%s", p->info->dims[s->a].name->s); break;
    case SLOT_STRIDE:    buf_printf(p->out, "%s.stride(%d)", param_name(p, s->a), s->b); break;
    case SLOT_EXPR:      buf_puts(p->out, text(p, s->expr)); break;
    case SLOT_SCRATCH:   buf_printf(p->out, "address of scratch memory, %s bytes, zero at first", text(p, s->expr)); break;
    case SLOT_TENSORMAP: print_map(p, s); break;
    }
    buf_putc(p->out, '\n');
}

void launch_print(const LaunchInfo *info, Buf *out) {
    Printer p = {info, arena_new(), out};
    buf_printf(out, "// tk: kernel %s", info->kernel->s);
    if (info->entry != NULL) buf_printf(out, " entry %s", info->entry);
    buf_putc(out, '\n');
    for (int i = 0; i < info->nparams; i++) print_param(&p, &info->params[i]);
    print_dims(&p);
    print_guards(&p, "guard", info->guards, info->nguards);
    print_guards(&p, "fact", info->facts, info->nfacts);
    for (int i = 0; i < info->nslots; i++) print_slot(&p, i, &info->slots[i]);
    if (info->blocks.n > 0) buf_printf(out, "// tk: blocks %s, threads %d, shared %u", text(&p, info->blocks), info->threads, info->smem);
    else if (info->programs.n > 0) buf_printf(out, "// tk: programs %s", text(&p, info->programs));
    if (info->blocks.n > 0 && info->smem_more.n > 0) buf_printf(out, " + %s", text(&p, info->smem_more));
    if (info->cluster > 1) buf_printf(out, ", cluster %d", info->cluster);
    if (info->together) buf_puts(out, ", together");
    if (info->partial) buf_puts(out, ", partial");
    if (info->early == INT_MAX) buf_puts(out, ", early");
    else if (info->early) buf_printf(out, ", early up to %d", info->early);
    buf_putc(out, '\n');
    arena_free(p.arena);
}
