// The words of PTX text: characters, tokens, numbers and constant expressions. Everything that goes wrong
// here or above ends in text_fail, which leaves the message with its line and jumps back to emu_load.
#include <errno.h>

#include "emu/reader.h"
#include "lang/c_text.h"

enum { MAX_NESTING = 200 };

_Noreturn void text_fail(Reader *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    dec_error_at(&r->d, r->d.line ? r->d.line : r->line, format, args);
}

// ---- Characters and tokens

bool text_is_word(int c) { return c_isalnum(c) || c == '_' || c == '$'; }

static void skip_space(Reader *r) {
    while (r->p < r->end) {
        if (*r->p == '\n') r->line++, r->p++;
        else if (c_isspace((unsigned char)*r->p)) r->p++;
        else if (r->p[0] == '/' && r->p + 1 < r->end && r->p[1] == '/') {
            while (r->p < r->end && *r->p != '\n') r->p++;
        } else if (r->p[0] == '/' && r->p + 1 < r->end && r->p[1] == '*') {
            for (r->p += 2; r->p < r->end && !(r->p[0] == '*' && r->p + 1 < r->end && r->p[1] == '/'); r->p++)
                r->line += *r->p == '\n';
            r->p = r->end - r->p >= 2 ? r->p + 2 : r->end;
        } else if (*r->p == '#') {                       // a line marker
            while (r->p < r->end && *r->p != '\n') r->p++;
        } else return;
    }
}

int text_peek(Reader *r) {
    skip_space(r);
    return r->p < r->end ? (unsigned char)*r->p : 0;
}

bool text_accept(Reader *r, char c) {
    if (text_peek(r) != c) return false;
    r->p++;
    return true;
}

void text_expect(Reader *r, char c) {
    if (text_accept(r, c)) return;
    if (r->p >= r->end) text_fail(r, "expected `%c` before the end of the text", c);
    const char *s = r->p;
    int n = 0;
    while (s + n < r->end && n < 20 && !c_isspace((unsigned char)s[n]) && c_isprint((unsigned char)s[n])) n++;
    text_fail(r, "expected `%c`, not `%.*s`", c, n, s);
}

Str text_word(Reader *r) {                             // an identifier; n 0 if there is none
    int c = text_peek(r);
    Str s = {r->p, 0};
    if (!c || (!text_is_word(c) && c != '%') || c_isdigit(c)) return s;
    const char *p = r->p + 1;
    while (p < r->end && text_is_word((unsigned char)*p)) p++;
    s.n = (uint32_t)(p - r->p);
    r->p = p;
    return s;
}

Str text_need_word(Reader *r, const char *what) {
    Str s = text_word(r);
    if (!s.n) {
        int c = text_peek(r);
        if (!c) text_fail(r, "expected %s before the end of the text", what);
        text_fail(r, "expected %s, not `%c`", what, c_isprint(c) ? c : '?');
    }
    return s;
}

Str text_dotted(Reader *r) {                           // what follows a dot: letters, digits, ::
    Str s = {r->p, 0};
    while (r->p < r->end) {
        if (text_is_word((unsigned char)*r->p)) r->p++;
        else if (r->p + 1 < r->end && r->p[0] == ':' && r->p[1] == ':') r->p += 2;
        else break;
    }
    s.n = (uint32_t)(r->p - s.s);
    return s;
}

Str text_directive(Reader *r) {                        // ".reg" without its dot
    if (text_peek(r) != '.') return (Str){r->p, 0};
    r->p++;
    Str s = text_dotted(r);
    if (!s.n) text_fail(r, "a `.` with no name after it");
    return s;
}

bool text_next_directive_is(Reader *r, const char *name) {
    if (text_peek(r) != '.') return false;
    size_t n = strlen(name);
    return (size_t)(r->end - r->p) > n && !memcmp(r->p + 1, name, n) &&
           ((size_t)(r->end - r->p) == n + 1 || !text_is_word((unsigned char)r->p[n + 1]));
}

bool text_accept_directive(Reader *r, const char *name) {
    if (!text_next_directive_is(r, name)) return false;
    r->p += strlen(name) + 1;
    return true;
}

Str text_quoted(Reader *r) {
    text_expect(r, '"');
    Str s = {r->p, 0};
    while (r->p < r->end && *r->p != '"' && *r->p != '\n') r->p++;
    s.n = (uint32_t)(r->p - s.s);
    if (r->p >= r->end || *r->p != '"') text_fail(r, "a string without its closing quote");
    r->p++;
    return s;
}

bool text_same(Str a, Str b)   { return a.n == b.n && !memcmp(a.s, b.s, a.n); }

char *text_copy(Reader *r, Str s) {
    char *p = emu_arena_alloc(&r->module->arena, s.n + 1);
    memcpy(p, s.s, s.n);
    return p;
}

// ---- Numbers and constant expressions

static Operand number(Reader *r) {
    Operand o = {.kind = O_IMM};
    const char *p = r->p, *end = r->end;
    if (end - p > 2 && p[0] == '0' && (p[1] == 'f' || p[1] == 'F' || p[1] == 'd' || p[1] == 'D') &&
        c_isxdigit((unsigned char)p[2])) {
        int digits = p[1] == 'f' || p[1] == 'F' ? 8 : 16;
        o.kind = digits == 8 ? O_F32 : O_F64;
        p += 2;
        for (int i = 0; i < digits; i++, p++) {
            if (p >= end || !c_isxdigit((unsigned char)*p)) text_fail(r, "a hexadecimal float needs %d digits", digits);
            o.bits = o.bits << 4 | (uint64_t)(c_isdigit((unsigned char)*p) ? *p - '0' : (*p | 32) - 'a' + 10);
        }
        r->p = p;
        return o;
    }
    char text[64];
    int n = 0;
    bool is_float = false, hex = end - p > 1 && p[0] == '0' && (p[1] | 32) == 'x';
    while (p < end && n < 60) {
        if (c_isalnum((unsigned char)*p)) {
            if (!hex && (*p == 'e' || *p == 'E')) is_float = true;
        } else if (*p == '.' && !hex && !is_float) is_float = true;                 // 0.5, .5 and 5.
        else if ((*p == '+' || *p == '-') && is_float && n && (text[n - 1] | 32) == 'e') {}
        else break;
        text[n++] = *p++;
    }
    text[n] = 0;
    char *stop = text;
    if (is_float) {
        o.kind = O_F64;
        o.bits = f64_bits(c_strtod(text, &stop));
    } else if (n > 1 && text[0] == '0' && (text[1] | 32) == 'b') {
        o.bits = strtoull(text + 2, &stop, 2);
    } else {
        errno = 0;
        o.bits = strtoull(text, &stop, 0);
        if (errno) text_fail(r, "`%s` does not fit into 64 bits", text);
    }
    o.is_unsigned = !is_float && o.bits >> 63;
    if ((*stop == 'U' || *stop == 'u') && !stop[1]) stop++, o.is_unsigned = true;
    if (*stop || !n) text_fail(r, "`%s` is not a number", text);
    r->p = p;
    return o;
}

static Operand expr_primary(Reader *r) {
    int c = text_peek(r);
    if (++r->nesting > MAX_NESTING) text_fail(r, "an expression nested too deep");
    Operand o;
    if (c == '(') {
        r->p++;
        if (text_next_directive_is(r, "s64") || text_next_directive_is(r, "u64")) {      // a cast
            bool u = ptx_str_is(text_directive(r), "u64");
            text_expect(r, ')');
            o = expr_primary(r);
            o.is_unsigned = u;
        } else {
            o = text_expression(r, 0);
            text_expect(r, ')');
        }
    } else if (c == '-' || c == '~' || c == '!' || c == '+') {
        r->p++;
        o = expr_primary(r);
        if (o.kind == O_IMM) o.bits = c == '-' ? -o.bits : c == '~' ? ~o.bits : c == '!' ? !o.bits : o.bits;
        else if (c == '-' && o.kind == O_F32) o.bits ^= 0x80000000u;
        else if (c == '-' && o.kind == O_F64) o.bits ^= 1ull << 63;
        if (c == '!') o.is_unsigned = false;
    } else if (c_isdigit(c)) {
        o = number(r);
    } else if (c == '.' && r->p + 1 < r->end && c_isdigit((unsigned char)r->p[1])) {
        o = number(r);
    } else {
        Str name = text_need_word(r, "a number");
        if (ptx_str_is(name, "WARP_SZ")) o = (Operand){.kind = O_IMM, .bits = 32};
        else text_fail(r, "expected a number, not `%.*s`", (int)name.n, name.s);
    }
    r->nesting--;
    return o;
}

typedef enum ExprOp { E_or_else, E_and_then, E_or, E_xor, E_and, E_eq, E_ne, E_le, E_ge, E_shl, E_shr, E_lt, E_gt, E_add, E_sub, E_mul, E_div, E_rem } ExprOp;

// 64 bits, signed unless one side is unsigned, as in C.
static uint64_t expr_apply(ExprOp op, uint64_t a, uint64_t b, bool u) {
    int64_t x = (int64_t)a, y = (int64_t)b;
    bool defined = b && !(x == INT64_MIN && y == -1);
    switch (op) {
    case E_or_else:  return a || b;
    case E_and_then: return a && b;
    case E_or:       return a | b;
    case E_xor:      return a ^ b;
    case E_and:      return a & b;
    case E_eq:       return a == b;
    case E_ne:       return a != b;
    case E_le:       return u ? a <= b : x <= y;
    case E_ge:       return u ? a >= b : x >= y;
    case E_lt:       return u ? a < b : x < y;
    case E_gt:       return u ? a > b : x > y;
    case E_shl:      return b < 64 ? a << b : 0;
    case E_shr:      return u ? b < 64 ? a >> b : 0 : (uint64_t)(x >> (b < 63 ? b : 63));
    case E_add:      return a + b;
    case E_sub:      return a - b;
    case E_mul:      return a * b;
    case E_div:      return !b ? 0 : u ? a / b : defined ? (uint64_t)(x / y) : a;
    default:         return !b ? 0 : u ? a % b : defined ? (uint64_t)(x % y) : 0;
    }
}

// Operators that bind tighter than rank `least`, C's; 0: all of them, with ? :
Operand text_expression(Reader *r, int least) {
    static const struct { const char *text; int rank; ExprOp op; } ops[] = {
        {"||", 1, E_or_else}, {"&&", 2, E_and_then}, {"==", 6, E_eq}, {"!=", 6, E_ne}, {"<<", 8, E_shl}, {">>", 8, E_shr}, {"<=", 7, E_le},
        {">=", 7, E_ge}, {"<", 7, E_lt}, {">", 7, E_gt}, {"+", 9, E_add}, {"-", 9, E_sub}, {"*", 10, E_mul}, {"/", 10, E_div}, {"%", 10, E_rem},
        {"&", 5, E_and}, {"^", 4, E_xor}, {"|", 3, E_or}};
    enum { OPS = sizeof ops / sizeof *ops };
    Operand left = expr_primary(r);
    for (;;) {
        text_peek(r);
        size_t i = 0;
        while (i < OPS &&
               !((size_t)(r->end - r->p) >= strlen(ops[i].text) && !memcmp(r->p, ops[i].text, strlen(ops[i].text))))
            i++;
        if (i == OPS || ops[i].rank <= least || left.kind != O_IMM) break;
        if (ops[i].op == E_rem && r->p + 1 < r->end && c_isalpha((unsigned char)r->p[1])) break;
        r->p += strlen(ops[i].text);
        Operand right = text_expression(r, ops[i].rank);
        bool shift = ops[i].op == E_shl || ops[i].op == E_shr, u = left.is_unsigned || (!shift && right.is_unsigned);
        left.bits = expr_apply(ops[i].op, left.bits, right.bits, u);
        left.is_unsigned = u && (ops[i].rank >= 8 || (ops[i].rank >= 3 && ops[i].rank <= 5));
    }
    if (least || left.kind != O_IMM || !text_accept(r, '?')) return left;
    if (++r->nesting > MAX_NESTING) text_fail(r, "an expression nested too deep");
    Operand yes = text_expression(r, 0);
    text_expect(r, ':');
    Operand no = text_expression(r, 0);
    r->nesting--;
    return left.bits ? yes : no;
}

uint64_t text_integer(Reader *r) {
    Operand o = text_expression(r, 0);
    if (o.kind != O_IMM) text_fail(r, "expected an integer");
    return o.bits;
}

// ---- Special registers

static const struct { const char *name; Special sp; } special_names[] = {
    {"%tid.x", SP_tid_x}, {"%tid.y", SP_tid_y}, {"%tid.z", SP_tid_z}, {"%ntid.x", SP_ntid_x}, {"%ntid.y", SP_ntid_y},
    {"%ntid.z", SP_ntid_z}, {"%ctaid.x", SP_ctaid_x}, {"%ctaid.y", SP_ctaid_y}, {"%ctaid.z", SP_ctaid_z},
    {"%nctaid.x", SP_nctaid_x}, {"%nctaid.y", SP_nctaid_y}, {"%nctaid.z", SP_nctaid_z}, {"%laneid", SP_laneid},
    {"%warpid", SP_warpid}, {"%nwarpid", SP_nwarpid}, {"%smid", SP_smid}, {"%nsmid", SP_nsmid}, {"%gridid", SP_gridid},
    {"%lanemask_eq", SP_lanemask_eq}, {"%lanemask_le", SP_lanemask_le}, {"%lanemask_lt", SP_lanemask_lt},
    {"%lanemask_ge", SP_lanemask_ge}, {"%lanemask_gt", SP_lanemask_gt},
    {"%clusterid.x", SP_clusterid_x}, {"%clusterid.y", SP_clusterid_y}, {"%clusterid.z", SP_clusterid_z},
    {"%nclusterid.x", SP_nclusterid_x}, {"%nclusterid.y", SP_nclusterid_y}, {"%nclusterid.z", SP_nclusterid_z},
    {"%cluster_ctaid.x", SP_cluster_ctaid_x}, {"%cluster_ctaid.y", SP_cluster_ctaid_y}, {"%cluster_ctaid.z", SP_cluster_ctaid_z},
    {"%cluster_nctaid.x", SP_cluster_nctaid_x}, {"%cluster_nctaid.y", SP_cluster_nctaid_y},
    {"%cluster_nctaid.z", SP_cluster_nctaid_z}, {"%cluster_ctarank", SP_cluster_ctarank},
    {"%cluster_nctarank", SP_cluster_nctarank}, {"%dynamic_smem_size", SP_dynamic_smem_size},
    {"%total_smem_size", SP_total_smem_size}, {"%aggr_smem_size", SP_aggr_smem_size},
    {"%envreg1", SP_envreg1}, {"%envreg2", SP_envreg2}, {"%tid.w", SP_zero}, {"%ntid.w", SP_zero}, {"%ctaid.w", SP_zero}, {"%nctaid.w", SP_zero},
};

bool text_special(Str name, Operand *o) {
    for (size_t i = 0; i < sizeof special_names / sizeof *special_names; i++)
        if (ptx_str_is(name, special_names[i].name)) {
            *o = (Operand){.kind = O_REG, .slot = SPECIAL_SLOT(special_names[i].sp), .type = T_u32, .name = name};
            return true;
        }
    static const char *const varying[] = {"%clock",       "%clock_hi",       "%clock64",
                                          "%globaltimer", "%globaltimer_lo", "%globaltimer_hi"};
    for (size_t i = 0; i < sizeof varying / sizeof *varying; i++)
        if (ptx_str_is(name, varying[i])) {
            *o = (Operand){.kind = O_SPECIAL, .name = name, .type = i == 2 || i == 3 ? T_u64 : T_u32};
            return true;
        }
    static const struct { const char *name; uint32_t value; } fixed[] = {      // what the driver keeps of shared memory: its first kilobyte
        {"%reserved_smem_offset_begin", 0}, {"%reserved_smem_offset_end", SHARED_START}, {"%reserved_smem_offset_cap", SHARED_START},
        {"%reserved_smem_offset_0", 0},     {"%reserved_smem_offset_1", 16},
    };
    for (size_t i = 0; i < sizeof fixed / sizeof *fixed; i++)
        if (ptx_str_is(name, fixed[i].name)) {
            *o = (Operand){.kind = O_IMM, .bits = fixed[i].value, .name = name};
            return true;
        }
    bool counter = name.n > 3 && !memcmp(name.s, "%pm", 3) && c_isdigit((unsigned char)name.s[3]);
    if (counter || ptx_str_is(name, "%current_graph_exec") || (name.n > 7 && !memcmp(name.s, "%envreg", 7))) {
        *o = (Operand){.kind = O_REG, .slot = SPECIAL_SLOT(SP_zero), .type = T_u32, .name = name};
        return true;
    }
    if (ptx_str_is(name, "%is_explicit_cluster")) {
        *o = (Operand){.kind = O_SPECIAL, .name = name, .type = T_pred};
        return true;
    }
    return false;
}

static const char components[2][4] = {{'x', 'y', 'z', 'w'}, {'r', 'g', 'b', 'a'}};

int text_component(Str s) {
    for (int i = 0; i < 8 && s.n == 1; i++)
        if (components[i / 4][i % 4] == s.s[0]) return i % 4;
    return -1;
}

bool text_special_vector(Reader *r, Str name, Operand *o) {
    Operand items[4];
    char text[40];
    if (name.n > 30) return false;
    for (int i = 0; i < 4; i++) {
        int n = snprintf(text, sizeof text, "%.*s.%c", (int)name.n, name.s, components[0][i]);
        if (i == 3) items[3] = (Operand){.kind = O_REG, .slot = SPECIAL_SLOT(SP_zero), .type = T_u32, .name = name};
        else if (!text_special((Str){text, (uint32_t)n}, &items[i])) return false;
        else items[i].name = name;
    }
    *o = (Operand){.kind = O_VEC, .n = 4, .items = emu_arena_alloc(&r->module->arena, sizeof items)};
    memcpy(o->items, items, sizeof items);
    return true;
}
