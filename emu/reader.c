// Reads PTX text. One pass: tokens, directives, declarations, statements; each statement is handed to the
// decoder (decode.c) as soon as it ends, since PTX declares registers and variables before their use.
// Only labels come later than their uses: branches are patched when the function ends.
//
//     .visible .entry scale(.param .u64 x) { .reg .b32 %r<4>; ... @%p1 bra $L__BB0_2; ... }
//
// Names live in scopes: { } opens one (inline assembly relies on it), and a name is looked up from the
// innermost outwards, also when a branch is patched afterwards. Symbols are never removed.
#include <ctype.h>
#include <math.h>

#include "emu/reader.h"

enum { HASH_SIZE = 4096, MAX_NESTING = 200 };

// ---- Names

static uint32_t hash_of(Str s, uint32_t scope) {
    uint32_t h = 2166136261u ^ scope * 0x9e3779b1u;
    for (uint32_t i = 0; i < s.n; i++) h = (h ^ (unsigned char)s.s[i]) * 16777619u;
    return h % HASH_SIZE;
}

static Sym *find_in(Reader *r, Str name, uint32_t scope) {
    for (Sym *s = r->hash[hash_of(name, scope)]; s; s = s->next)
        if (s->scope == scope && text_same(s->name, name)) return s;
    return NULL;
}

static Sym *lookup_from(Reader *r, Str name, uint32_t scope) {
    for (;; scope = r->parents[scope]) {
        Sym *s = find_in(r, name, scope);
        if (s) return s;
        if (!scope) return NULL;
    }
}

static Sym *declare(Reader *r, Str name, SymKind kind, uint32_t scope) {
    Sym *s = find_in(r, name, scope);
    if (s && (s->kind == SYM_FUNC || s->external) && kind == s->kind) return s;
    if (s) text_fail(r, "`%.*s` is declared twice", (int)name.n, name.s);
    s = emu_arena_alloc(&r->module->arena, sizeof *s);
    uint32_t h = hash_of(name, scope);
    *s = (Sym){.next = r->hash[h],
               .name = name,
               .kind = kind,
               .scope = scope,
               .slot = NO_SLOT,
               .in_func = r->func && !r->func->is_kernel};
    return r->hash[h] = s;
}

static void open_scope(Reader *r) {
    if (++r->depth > MAX_NESTING) text_fail(r, "blocks nested too deep");
    if (r->n_scopes == r->cap_scopes) {
        r->cap_scopes *= 2;
        r->parents = realloc(r->parents, r->cap_scopes * sizeof *r->parents);
        if (!r->parents) abort();
    }
    r->parents[r->n_scopes] = r->scope;
    r->scope = r->n_scopes++;
}

static void close_scope(Reader *r) {
    r->scope = r->parents[r->scope];
    r->depth--;
}

static uint32_t slot_bytes(Type t) {
    uint32_t bits = ptx_type_bits(t);
    return t == T_pred ? 4 : bits <= 32 ? 128 : bits <= 64 ? 256 : 512;
}

uint32_t reader_new_slot(Dec *d, Type t) {
    uint32_t bytes = slot_bytes(t), align = t == T_pred ? 4 : 32;
    uint32_t at = (*d->reg_bytes + align - 1) & ~(align - 1);
    if (at > (1u << 26)) dec_error(d, "too many registers");
    *d->reg_bytes = at + bytes;
    return at | d->base;
}

// "%r12" is the 12th of ".reg .b32 %r<100>", which stands in the table as "%r" with a count.
static Sym *find_register(Reader *r, Str name, uint32_t *slot) {
    Sym *s = lookup_from(r, name, r->scope);
    if (s && s->kind == SYM_REG && !s->count) {
        if (s->slot == NO_SLOT) s->slot = reader_new_slot(&r->d, s->type);
        *slot = s->slot;
        return s;
    }
    if (s && s->kind != SYM_REG) return NULL;
    uint32_t digits = 0;
    while (digits < name.n && isdigit((unsigned char)name.s[name.n - 1 - digits])) digits++;
    for (uint32_t k = digits; k >= 1; k--) {             // %r<10> with a prefix that ends in a digit too
        if (k > 9) continue;
        Str prefix = {name.s, name.n - k};
        if (k > 1 && name.s[prefix.n] == '0') continue;
        s = lookup_from(r, prefix, r->scope);
        if (!s || s->kind != SYM_REG || !s->count) continue;
        uint32_t i = (uint32_t)strtoul(name.s + prefix.n, NULL, 10);
        if (i >= s->count) continue;
        if (s->range[i] == NO_SLOT) s->range[i] = reader_new_slot(&r->d, s->type);
        *slot = s->range[i];
        return s;
    }
    return NULL;
}

// ---- Types and variables

Type ptx_type_named(Str s) {
    for (Type t = T_none + 1; t < T_COUNT; t++)
        if (ptx_str_is(s, ptx_type_name(t))) return t;
    return T_none;
}

static Type need_type(Reader *r) {
    Str s = text_directive(r);
    Type t = s.n ? ptx_type_named(s) : T_none;
    if (ptx_str_is(s, "texref") || ptx_str_is(s, "samplerref") || ptx_str_is(s, "surfref")) return T_u64;
    if (!t) text_fail(r, "`.%.*s` is not a type", (int)s.n, s.s);
    return t;
}

static void declare_registers(Reader *r) {               // after .reg
    if (text_next_directive_is(r, "v2") || text_next_directive_is(r, "v4"))
        text_fail(r, "vector registers are not supported");
    Type t = need_type(r);
    do {
        Str name = text_need_word(r, "a register name");
        Sym *s = declare(r, name, SYM_REG, r->scope);
        s->type = t;
        if (text_accept(r, '<')) {
            uint64_t n = text_integer(r);
            text_expect(r, '>');
            if (n < 1 || n > (1u << 20)) text_fail(r, "a range of %llu registers", (unsigned long long)n);
            s->count = (uint32_t)n;
            s->range = emu_arena_alloc(&r->module->arena, n * sizeof *s->range);
            memset(s->range, 0xff, n * sizeof *s->range);
        }
    } while (text_accept(r, ','));
    text_expect(r, ';');
}

static uint64_t align_up(uint64_t x, uint64_t a) { return (x + a - 1) / a * a; }

typedef struct Decl { Type type; uint32_t vec, align; uint64_t count; bool unsized; Str name; } Decl;

static Decl declaration(Reader *r) {                     // [.align n] [.ptr ...] .type name [dims]
    Decl d = {.vec = 1, .count = 1};
    for (;;) {
        if (text_accept_directive(r, "align")) {
            uint64_t a = text_integer(r);
            if (!a || a > 65536 || a & (a - 1)) text_fail(r, "an alignment of %llu", (unsigned long long)a);
            if (!d.type) d.align = (uint32_t)a;          // after .ptr it is the pointee's
        } else if (text_accept_directive(r, "v2")) d.vec = 2;
        else if (text_accept_directive(r, "v4")) d.vec = 4;
        else if (text_accept_directive(r, "attribute")) {
            text_expect(r, '(');
            for (int depth = 1; depth;) {
                int c = text_peek(r);
                if (!c) text_fail(r, "expected `)` before the end of the text");
                depth += c == '(' ? 1 : c == ')' ? -1 : 0;
                r->p++;
            }
        } else if (text_accept_directive(r, "ptr") || text_accept_directive(r, "global") ||
                   text_accept_directive(r, "shared") || text_accept_directive(r, "const") ||
                   text_accept_directive(r, "local") || text_accept_directive(r, "generic") ||
                   text_accept_directive(r, "noalias")) {
        } else if (text_peek(r) == '.') d.type = need_type(r);
        else break;
    }
    if (!d.type) text_fail(r, "a declaration without a type");
    d.name = text_need_word(r, "a name");
    while (text_accept(r, '[')) {
        if (text_accept(r, ']')) { d.unsized = true; continue; }
        uint64_t n = text_integer(r);
        text_expect(r, ']');
        if (n && d.count > (1ull << 32) / n) text_fail(r, "`%.*s` is too large", (int)d.name.n, d.name.s);
        if (!n) d.unsized = true;
        else d.count *= n;
    }
    uint32_t element = ptx_type_bits(d.type) < 8 ? 1 : ptx_type_bits(d.type) / 8;
    if (!d.align) d.align = element * d.vec > 16 ? 16 : element * d.vec;
    return d;
}

static uint64_t decl_size(const Decl *d) {
    uint32_t element = ptx_type_bits(d->type) < 8 ? 1 : ptx_type_bits(d->type) / 8;
    return d->unsized ? 0 : d->count * element * d->vec;
}

// An initialiser's elements, in order: numbers, names (+ offset), generic(name), nested braces.
static void initialise(Reader *r, const Decl *d, uint8_t *to, uint64_t size, uint64_t *at) {
    if (text_accept(r, '{')) {
        if (++r->nesting > MAX_NESTING) text_fail(r, "an initialiser nested too deep");
        if (!text_accept(r, '}')) {
            do initialise(r, d, to, size, at);
            while (text_accept(r, ','));
            text_expect(r, '}');
        }
        r->nesting--;
        return;
    }
    uint32_t bytes = ptx_type_bits(d->type) < 8 ? 1 : ptx_type_bits(d->type) / 8;
    uint64_t value = 0;
    int c = text_peek(r);
    if (isalpha(c) || c == '_' || c == '$' || c == '%') {
        Str name = text_need_word(r, "a name");
        bool wrapped = ptx_str_is(name, "generic") || ptx_str_is(name, "mask");
        bool is_mask = ptx_str_is(name, "mask");
        if (is_mask || wrapped) {
            if (text_accept(r, '(')) {
                if (is_mask) { (void)text_integer(r); text_expect(r, ')'); text_expect(r, '('); }
                name = text_need_word(r, "a name");
            } else wrapped = false;
        }
        Sym *s = lookup_from(r, name, r->scope);
        if (s && s->kind == SYM_VAR) value = s->offset;
        else if (!s || s->kind != SYM_FUNC) text_fail(r, "`%.*s` is not declared", (int)name.n, name.s);
        if (text_accept(r, '+')) value += text_integer(r);
        if (wrapped) {
            text_expect(r, ')');
            if (text_accept(r, '+')) value += text_integer(r);
        }
    } else {
        Operand o = text_expression(r, 0);
        value = o.bits;
        if (d->type == T_f32 && o.kind == O_F64) value = f32_bits((float)f64_from(o.bits));
        if (o.kind == O_IMM && d->type == T_f32) value = f32_bits((float)(int64_t)o.bits);
        if (o.kind == O_IMM && d->type == T_f64) value = f64_bits((double)(int64_t)o.bits);
        if (d->type == T_f64 && o.kind == O_F32) value = f64_bits((double)f32_from((uint32_t)o.bits));
    }
    if (*at + bytes > size) text_fail(r, "`%.*s` has more initial values than elements", (int)d->name.n, d->name.s);
    memcpy(to + *at, &value, bytes < 8 ? bytes : 8);
    *at += bytes;
}

static void declare_variable(Reader *r, uint8_t space, bool external) {
    do {
        Decl d = declaration(r);
        Sym *s = declare(r, d.name, SYM_VAR, r->scope);
        bool again = s->size || s->placed;
        s->space = space;
        s->size = decl_size(&d);
        s->align = d.align;
        s->type = d.type;
        s->external = external;
        if (space == SPACE_GLOBAL || space == SPACE_CONST) {
            if (again && s->placed) continue;
            char *name = text_copy(r, d.name);
            if (emu_alloc(r->module->context, s->size, name, &s->offset)) longjmp(*r->d.on_error, 1);
            s->placed = true;
            struct GlobalVar *g = emu_arena_alloc(&r->module->arena, sizeof *g);
            *g = (struct GlobalVar){r->module->globals, name, s->offset, s->size};
            r->module->globals = g;
            if (s->size) emu_fill(r->module->context, s->offset, s->size, EMU_FILL_ZERO, 0);
            if (text_accept(r, '=')) {
                uint64_t at = 0;
                initialise(r, &d, emu_host(r->module->context, s->offset, s->size), s->size, &at);
            }
        } else if (text_accept(r, '=')) {
            text_fail(r, "`%.*s` cannot have an initial value", (int)d.name.n, d.name.s);
        }
        if (space == SPACE_LOCAL || space == SPACE_PARAM) {
            if (!r->func) text_fail(r, "`%.*s` stands outside a function", (int)d.name.n, d.name.s);
            Kernel *k = r->d.kernel;
            uint32_t *bytes = k ? &k->local_bytes : &r->module->func_local_bytes;
            uint64_t at = align_up(*bytes, d.align < 4 ? 4 : d.align);
            if (at + s->size > 0xf00000) text_fail(r, "`%.*s` is too large for local memory", (int)d.name.n, d.name.s);
            s->offset = at + (k ? 0 : FUNC_LOCAL);
            *bytes = (uint32_t)(at + s->size);
            s->space = SPACE_LOCAL;
            s->placed = true;
        }
        if (space == SPACE_SHARED && s->size > (1u << 23))
            text_fail(r, "`%.*s` is too large for shared memory", (int)d.name.n, d.name.s);
    } while (text_accept(r, ','));
    text_expect(r, ';');
}

// Shared variables get their offset where a kernel first uses them, so that each kernel counts only its
// own. With device functions about, which several kernels may call, all get one place for the module.
void reader_place_shared(Dec *d, Sym *s) {
    Kernel *k = d->kernel;
    EmuModule *m = d->module;
    if (!k && !m->has_functions) dec_error(d, "`%.*s` is shared memory of no kernel", (int)s->name.n, s->name.s);
    bool shared_by_all = m->has_functions;
    SharedVar **list = shared_by_all ? &m->func_shared_vars : &k->shared_vars;
    Str name = s->name;
    if (s->external && !s->size) {
        if (k && s->align > k->dynamic_align) k->dynamic_align = s->align;
        return;
    }
    for (SharedVar *v = *list; v; v = v->next)
        if (strlen(v->name) == name.n && !memcmp(v->name, name.s, name.n) && v->size == s->size && (s->scope == 0)) {
            s->offset = v->offset;
            return;
        }
    uint32_t *end = shared_by_all ? &m->func_shared_end : &k->shared_end;
    uint64_t at = align_up(SHARED_START + *end, s->align ? s->align : 1);
    if (at + s->size > (1u << 24)) dec_error(d, "`%.*s` does not fit into shared memory", (int)name.n, name.s);
    s->offset = at;
    *end = (uint32_t)(at + s->size - SHARED_START);
    SharedVar *v = emu_arena_alloc(&m->arena, sizeof *v);
    char *text = emu_arena_alloc(&m->arena, name.n + 1);
    memcpy(text, name.s, name.n);
    *v = (SharedVar){*list, text, (uint32_t)at, (uint32_t)s->size, false};
    *list = v;
}

// ---- Operands

static Operand operand(Reader *r);

static Operand named(Reader *r) {
    Str name = text_need_word(r, "an operand");
    Operand o = {.name = name, .offset = 0};
    if (ptx_str_is(name, "_")) { o.kind = O_SINK; return o; }
    if (name.s[0] == '%' && r->p < r->end && *r->p == '.') {
        const char *p = r->p;
        r->p++;
        Str part = text_dotted(r);
        Str whole = {name.s, (uint32_t)(part.s + part.n - name.s)};
        if (text_special(whole, &o)) return o;
        r->p = p;
    }
    uint32_t slot;
    Sym *s = find_register(r, name, &slot);
    if (s) {
        o.kind = O_REG;
        o.sym = s;
        o.slot = slot;
        o.type = s->type;
        return o;
    }
    if (text_special(name, &o)) return o;
    if (ptx_str_is(name, "WARP_SZ")) return (Operand){.kind = O_IMM, .bits = 32};
    o.kind = O_SYM;
    o.sym = lookup_from(r, name, r->scope);
    if (!o.sym && name.s[0] == '%') text_fail(r, "register `%.*s` is not declared", (int)name.n, name.s);
    return o;
}

static Operand list_of(Reader *r, char close) {
    Operand items[300], o = {.kind = O_VEC};
    if (++r->nesting > MAX_NESTING / 8) text_fail(r, "operands nested too deep");
    if (!text_accept(r, close)) {
        do {
            if (o.n == 300) text_fail(r, "more than 300 operands in a list");
            items[o.n++] = operand(r);
        } while (text_accept(r, ','));
        text_expect(r, close);
    }
    r->nesting--;
    o.items = emu_arena_alloc(&r->module->arena, (o.n + 1) * sizeof *items);
    memcpy(o.items, items, o.n * sizeof *items);
    return o;
}

static Operand address(Reader *r) {                      // after [
    Operand o = {.kind = O_ADDR};
    int c = text_peek(r);
    if (isdigit(c) || c == '-' || c == '(') o.offset = (int64_t)text_integer(r);
    else {
        Operand base = named(r);
        if (base.kind != O_REG && base.kind != O_SYM) text_fail(r, "an address needs a register or a variable");
        o.sym = base.sym;
        o.slot = base.slot;
        o.type = base.kind == O_REG ? base.type : T_none;
        o.name = base.name;
        o.bits = base.kind == O_REG;                     // 1: a register, 0: a symbol
        if (base.kind == O_SYM && !base.sym) text_fail(r, "`%.*s` is not declared", (int)base.name.n, base.name.s);
        if (text_accept(r, '+')) o.offset = (int64_t)text_integer(r);
        else if (text_peek(r) == '-') o.offset = (int64_t)text_integer(r);
    }
    if (o.kind == O_ADDR && o.name.n == 0) o.bits = 2;   // an absolute address
    Operand items[4];
    uint32_t n = 0;
    while (text_accept(r, ',')) {
        if (n == 4) text_fail(r, "too many parts in an address");
        items[n++] = operand(r);
    }
    text_expect(r, ']');
    if (n) {
        o.items = emu_arena_alloc(&r->module->arena, n * sizeof *items);
        memcpy(o.items, items, n * sizeof *items);
        o.n = n;
    }
    return o;
}

static Operand operand(Reader *r) {
    int c = text_peek(r);
    Operand o;
    if (text_accept(r, '{')) return list_of(r, '}');
    if (c == '(' && !ptx_str_is(r->d.name, "call")) return text_expression(r, 0);
    if (text_accept(r, '(')) return list_of(r, ')');
    if (text_accept(r, '[')) return address(r);
    if (text_accept(r, '!')) {
        o = named(r);
        o.negated = true;
    } else if (isdigit(c) || c == '-' || c == '~' || c == '+' || c == '.') {
        return text_expression(r, 0);
    } else {
        o = named(r);
        if (o.kind == O_SYM && o.sym && o.sym->kind == SYM_VAR && text_accept(r, '+')) o.offset = (int64_t)text_integer(r);
    }
    if (text_peek(r) == '|') {
        r->p++;
        o.pair = emu_arena_alloc(&r->module->arena, sizeof *o.pair);
        *o.pair = operand(r);
    }
    return o;
}

// ---- Statements

static void loc_directive(Reader *r) {                   // .loc file line column [, function_name ..., inlined_at ...]
    Loc loc = {(uint32_t)text_integer(r), 0, 0};
    loc.line = (uint32_t)text_integer(r);
    loc.column = (uint32_t)text_integer(r);
    while (text_accept(r, ',')) {
        Str what = text_need_word(r, "an attribute");
        if (ptx_str_is(what, "function_name")) {
            (void)text_need_word(r, "a label");
            if (text_accept(r, '+')) (void)text_integer(r);
        } else {
            (void)text_integer(r), (void)text_integer(r), (void)text_integer(r);
        }
    }
    EmuModule *m = r->module;
    if (m->n_locs == m->cap_locs) {
        m->cap_locs = m->cap_locs ? 2 * m->cap_locs : 256;
        m->locs = realloc(m->locs, m->cap_locs * sizeof *m->locs);
        if (!m->locs) abort();
    }
    m->locs[m->n_locs] = loc;
    r->d.loc = m->n_locs++;
}

static void file_directive(Reader *r) {                  // .file 1 "gemm.tk" [, timestamp, size]
    EmuModule *m = r->module;
    uint32_t n = (uint32_t)text_integer(r);
    Str name = text_quoted(r);
    while (text_accept(r, ',')) (void)text_integer(r);
    if (m->n_files == m->cap_files) {
        m->cap_files = m->cap_files ? 2 * m->cap_files : 8;
        m->files = realloc(m->files, m->cap_files * sizeof *m->files);
        if (!m->files) abort();
    }
    m->files[m->n_files++] = (struct SourceFile){n, text_copy(r, name)};
}

static void skip_section(Reader *r) {                    // .section .debug_info { ... }
    if (text_accept(r, '.')) (void)text_dotted(r);
    else (void)text_word(r);
    text_expect(r, '{');
    for (int depth = 1; depth;) {
        int c = text_peek(r);
        if (!c) text_fail(r, "expected `}` before the end of the text");
        if (c == '"') { (void)text_quoted(r); continue; }
        depth += c == '{' ? 1 : c == '}' ? -1 : 0;
        r->p++;
    }
}

static void skip_to_semicolon(Reader *r) {
    while (text_peek(r) && *r->p != ';') r->p++;
    text_expect(r, ';');
}

static void label(Reader *r, Str name) {
    Sym *s = declare(r, name, SYM_LABEL, r->scope);
    s->pc = r->module->n_code;
}

static void branch_targets(Reader *r, Str name) {        // L: .branchtargets a, b, c;
    Sym *s = declare(r, name, SYM_LABEL, r->scope);
    Str names[1024];
    do {
        if (s->n_labels == 1024) text_fail(r, "more than 1024 branch targets");
        names[s->n_labels++] = text_need_word(r, "a label");
    } while (text_accept(r, ','));
    text_expect(r, ';');
    s->labels = emu_arena_alloc(&r->module->arena, s->n_labels * sizeof *s->labels);
    for (uint32_t i = 0; i < s->n_labels; i++) {         // a nameless symbol that carries the name to patch
        s->labels[i] = emu_arena_alloc(&r->module->arena, sizeof(Sym));
        *s->labels[i] = (Sym){.name = names[i], .kind = SYM_LABEL, .scope = r->scope, .pc = NO_SLOT};
    }
    if (r->n_tables == r->cap_tables) {
        r->cap_tables = r->cap_tables ? 2 * r->cap_tables : 16;
        r->tables = realloc(r->tables, r->cap_tables * sizeof *r->tables);
        if (!r->tables) abort();
    }
    r->tables[r->n_tables++] = s;
}

void reader_fix_branch(Dec *d, Insn *in, const Operand *target) {
    Reader *r = d->reader;
    if (target->kind != O_SYM) dec_error(d, "a branch needs a label");
    if (r->n_fixups == r->cap_fixups) {
        r->cap_fixups = r->cap_fixups ? 2 * r->cap_fixups : 256;
        r->fixups = realloc(r->fixups, r->cap_fixups * sizeof *r->fixups);
        if (!r->fixups) abort();
    }
    r->fixups[r->n_fixups++] = (Fixup){(uint32_t)(in - d->module->code), r->scope, r->d.line, target->name};
}

static void resolve_labels(Reader *r) {
    for (uint32_t i = 0; i < r->n_fixups; i++) {
        Fixup *f = &r->fixups[i];
        Sym *s = lookup_from(r, f->name, f->scope);
        r->d.line = f->line;
        if (!s || s->kind != SYM_LABEL) text_fail(r, "label `%.*s` is not defined", (int)f->name.n, f->name.s);
        Insn *in = &r->module->code[f->insn];
        if (s->labels) in->extra = s;
        else in->imm = s->pc;
    }
    for (uint32_t t = 0; t < r->n_tables; t++)
        for (uint32_t i = 0; i < r->tables[t]->n_labels; i++) {
            Sym *l = r->tables[t]->labels[i], *s = lookup_from(r, l->name, l->scope);
            if (!s || s->kind != SYM_LABEL) text_fail(r, "label `%.*s` is not defined", (int)l->name.n, l->name.s);
            l->pc = s->pc;
        }
    r->n_fixups = r->n_tables = 0;
}

static void instruction(Reader *r, Str name) {
    Dec *d = &r->d;
    d->name = name;
    d->n_mods = d->used = d->n_ops = 0;
    while (r->p < r->end && *r->p == '.') {
        r->p++;
        Str mod = text_dotted(r);
        if (!mod.n) text_fail(r, "a `.` with no name after it");
        if (d->n_mods == MAX_MODS) text_fail(r, "too many modifiers");
        d->mods[d->n_mods++] = mod;
    }
    if (text_peek(r) != ';') {
        do {
            if (d->n_ops == MAX_OPERANDS) text_fail(r, "too many operands");
            d->ops[d->n_ops++] = operand(r);
        } while (text_accept(r, ','));
    }
    text_expect(r, ';');
    decode_statement(d);
}

static void local_directive(Reader *r) {
    Str s = text_directive(r);
    if (ptx_str_is(s, "reg")) declare_registers(r);
    else if (ptx_str_is(s, "loc")) loc_directive(r);
    else if (ptx_str_is(s, "local")) declare_variable(r, SPACE_LOCAL, false);
    else if (ptx_str_is(s, "param")) declare_variable(r, SPACE_PARAM, false);
    else if (ptx_str_is(s, "shared")) declare_variable(r, SPACE_SHARED, false);
    else if (ptx_str_is(s, "global")) declare_variable(r, SPACE_GLOBAL, false);
    else if (ptx_str_is(s, "const")) declare_variable(r, SPACE_CONST, false);
    else if (ptx_str_is(s, "extern")) { text_expect(r, '.'); (void)text_dotted(r); declare_variable(r, SPACE_SHARED, true); }
    else if (ptx_str_is(s, "file")) file_directive(r);
    else if (ptx_str_is(s, "section")) skip_section(r);
    else if (ptx_str_is(s, "pragma") || ptx_str_is(s, "branchtargets") || ptx_str_is(s, "calltargets") ||
             ptx_str_is(s, "callprototype"))
        skip_to_semicolon(r);
    else text_fail(r, "unknown directive `.%.*s`", (int)s.n, s.s);
}

static void body(Reader *r) {                            // after {
    int open = 1;
    open_scope(r);
    while (open) {
        r->d.line = 0;
        int c = text_peek(r);
        r->d.line = r->line;
        r->nesting = 0;
        if (!c) text_fail(r, "expected `}` before the end of the text");
        if (c == '{') { r->p++; open++; open_scope(r); continue; }
        if (c == '}') { r->p++; open--; close_scope(r); continue; }
        if (c == ';') { r->p++; continue; }
        if (c == '.') { local_directive(r); continue; }
        r->d.guard = NO_SLOT;
        r->d.guard_not = false;
        if (text_accept(r, '@')) {
            r->d.guard_not = text_accept(r, '!');
            Operand p = named(r);
            if (p.kind != O_REG || p.type != T_pred) text_fail(r, "a guard needs a predicate register");
            r->d.guard = p.slot;
        }
        Str name = text_need_word(r, "an instruction");
        if (r->d.guard == NO_SLOT && text_peek(r) == ':' && !(r->p + 1 < r->end && r->p[1] == ':')) {
            r->p++;
            if (text_accept_directive(r, "branchtargets")) branch_targets(r, name);
            else if (text_accept_directive(r, "callprototype") || text_accept_directive(r, "calltargets"))
                skip_to_semicolon(r);
            else label(r, name);
            continue;
        }
        instruction(r, name);
    }
}

// ---- Functions

static void kernel_params(Reader *r, Kernel *k) {
    EmuParam list[1024];
    uint32_t n = 0, at = 0;
    if (!text_accept(r, '(')) return;
    if (!text_accept(r, ')')) {
        do {
            if (n == 1024) text_fail(r, "more than 1024 parameters");
            if (!text_accept_directive(r, "param")) text_fail(r, "a kernel's parameter needs `.param`");
            Decl d = declaration(r);
            Sym *s = declare(r, d.name, SYM_VAR, r->scope);
            s->space = SPACE_PARAM;
            s->size = decl_size(&d);
            s->align = d.align;
            s->type = d.type;
            s->placed = true;
            uint64_t place = align_up(at, d.align);
            if (place + s->size > MAX_PARAM_BYTES) text_fail(r, "more than %d bytes of parameters", MAX_PARAM_BYTES);
            s->offset = place;
            list[n++] = (EmuParam){(uint32_t)place, (uint32_t)s->size, d.align};
            at = (uint32_t)(place + s->size);
        } while (text_accept(r, ','));
        text_expect(r, ')');
    }
    EmuParam *copy = emu_arena_alloc(&r->module->arena, (n + 1) * sizeof *copy);
    memcpy(copy, list, n * sizeof *copy);
    k->info.params = copy;
    k->info.n_params = n;
    k->info.param_bytes = at;
}

static void three(Reader *r, uint32_t out[3]) {
    for (int i = 0; i < 3; i++) out[i] = 1;
    for (int i = 0; i < 3; i++) {
        out[i] = (uint32_t)text_integer(r);
        if (!text_accept(r, ',')) break;
    }
}

static void launch_bounds(Reader *r, EmuKernel *k) {
    while (text_peek(r) == '.') {
        Str s = text_directive(r);
        uint32_t ignored[3];
        if (ptx_str_is(s, "reqntid")) three(r, k->reqntid);
        else if (ptx_str_is(s, "maxntid")) three(r, k->maxntid);
        else if (ptx_str_is(s, "reqnctapercluster")) three(r, k->reqcluster);
        else if (ptx_str_is(s, "maxnreg")) k->maxnreg = (uint32_t)text_integer(r);
        else if (ptx_str_is(s, "minnctapersm")) k->minnctapersm = (uint32_t)text_integer(r);
        else if (ptx_str_is(s, "maxnctapersm") || ptx_str_is(s, "maxclusterrank")) three(r, ignored);
        else if (ptx_str_is(s, "explicitcluster") || ptx_str_is(s, "noreturn") || ptx_str_is(s, "blocksareclusters") ||
                 ptx_str_is(s, "abi_preserve")) {
        } else if (ptx_str_is(s, "pragma")) skip_to_semicolon(r);
        else text_fail(r, "unknown directive `.%.*s`", (int)s.n, s.s);
    }
}

static void entry(Reader *r) {
    EmuModule *m = r->module;
    Str name = text_need_word(r, "a kernel's name");
    for (Kernel *k = m->kernels; k; k = k->next)
        if (ptx_str_is(name, k->info.name)) text_fail(r, "kernel `%.*s` is defined twice", (int)name.n, name.s);
    Kernel *k = emu_arena_alloc(&m->arena, sizeof *k);
    Func *f = emu_arena_alloc(&m->arena, sizeof *f);
    f->is_kernel = true;
    k->info.name = text_copy(r, name);
    k->reg_bytes = SP_COUNT * 128;
    k->line = r->line;
    r->func = f;
    r->d.kernel = k;
    r->d.reg_bytes = &k->reg_bytes;
    r->d.base = BASE_REGS;
    r->d.loc = 0;
    open_scope(r);
    kernel_params(r, k);
    launch_bounds(r, &k->info);
    if (!text_accept(r, ';')) {
        text_expect(r, '{');
        k->entry = m->n_code;
        body(r);
        r->d.guard = NO_SLOT;
        decode_end(&r->d);
        resolve_labels(r);
        k->info.instructions = m->n_code - k->entry;
        k->info.static_shared = m->has_functions ? m->func_shared_end : k->shared_end;
        k->info.local_bytes = k->local_bytes;
        *m->last_kernel = k;
        m->last_kernel = &k->next;
        m->n_kernels++;
    }
    close_scope(r);
    r->func = NULL;
}

static uint32_t func_params(Reader *r, Sym **out, uint32_t most) {     // after (
    uint32_t n = 0;
    if (text_accept(r, ')')) return 0;
    do {
        if (n == most) text_fail(r, "more than %u parameters", most);
        bool in_register = text_accept_directive(r, "reg");
        if (!in_register && !text_accept_directive(r, "param")) text_fail(r, "a parameter needs `.param`");
        if (in_register) text_fail(r, "parameters in registers are not supported");
        Decl d = declaration(r);
        Sym *s;
        if (ptx_str_is(d.name, "_")) {
            s = emu_arena_alloc(&r->module->arena, sizeof *s);
            *s = (Sym){.name = d.name, .kind = SYM_VAR, .slot = NO_SLOT};
        } else s = declare(r, d.name, SYM_VAR, r->scope);
        uint32_t *bytes = &r->module->func_local_bytes;
        uint64_t at = align_up(*bytes, d.align < 4 ? 4 : d.align);
        s->space = SPACE_LOCAL;
        s->size = decl_size(&d);
        if (at + s->size > 0xf00000) text_fail(r, "too many parameters");
        s->offset = at + FUNC_LOCAL;
        s->placed = true;
        *bytes = (uint32_t)(at + s->size);
        out[n++] = s;
    } while (text_accept(r, ','));
    text_expect(r, ')');
    return n;
}

static bool same_sizes(Sym *const *a, Sym *const *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) if (a[i]->size != b[i]->size) return false;
    return true;
}

static void function(Reader *r) {
    EmuModule *m = r->module;
    Sym *rets[8], *params[64];
    Func dummy = {0};
    r->func = &dummy;
    r->d.kernel = NULL;
    r->d.reg_bytes = &m->func_reg_bytes;
    r->d.base = BASE_FUNCS;
    r->d.loc = 0;
    open_scope(r);
    uint32_t n_rets = text_accept(r, '(') ? func_params(r, rets, 8) : 0;
    Str name = text_need_word(r, "a function's name");
    uint32_t n_params = text_accept(r, '(') ? func_params(r, params, 64) : 0;
    EmuKernel ignored;
    launch_bounds(r, &ignored);
    Sym *s = declare(r, name, SYM_FUNC, 0);
    if (!s->func) {
        s->func = emu_arena_alloc(&m->arena, sizeof *s->func);
        *s->func = (Func){.name = name, .entry = NO_SLOT};
    }
    Func *f = r->func = s->func;
    if (f->declared && (n_rets != f->n_rets || n_params != f->n_params || !same_sizes(rets, f->rets, n_rets) ||
                        !same_sizes(params, f->params, n_params)))
        text_fail(r, "function `%.*s` was declared with other parameters or results", (int)name.n, name.s);
    if (text_accept(r, ';')) {
        if (f->entry == NO_SLOT) goto signature;
        goto done;
    }
    text_expect(r, '{');
    if (f->entry != NO_SLOT) text_fail(r, "function `%.*s` is defined twice", (int)name.n, name.s);
    f->entry = m->n_code;
    body(r);
    r->d.guard = NO_SLOT;
    decode_end(&r->d);
    resolve_labels(r);
signature:
    memcpy(f->rets, rets, n_rets * sizeof *rets);
    memcpy(f->params, params, n_params * sizeof *params);
    f->n_rets = n_rets;
    f->n_params = n_params;
    f->declared = true;
done:
    close_scope(r);
    r->func = NULL;
}

static void target(Reader *r) {
    do {
        Str s = text_need_word(r, "a target");
        if (s.n > 3 && !memcmp(s.s, "sm_", 3)) r->module->target = (uint32_t)strtoul(s.s + 3, NULL, 10);
    } while (text_accept(r, ','));
}

static void top_level(Reader *r) {
    bool external = false;
    for (;;) {
        r->d.line = 0;
        int c = text_peek(r);
        r->d.line = r->line;
        r->nesting = 0;
        if (!c) return;
        if (c == ';') { r->p++; continue; }
        if (c != '.') text_fail(r, "expected a directive, not `%c`", isprint(c) ? c : '?');
        Str s = text_directive(r);
        bool keep = false;
        if (ptx_str_is(s, "version")) {
            Operand o = text_expression(r, 0);
            double v = o.kind == O_F64 ? f64_from(o.bits) : (double)(int64_t)o.bits;
            if (!(v >= 1 && v < 1000)) text_fail(r, "there is no such version of PTX");
            r->module->ptx_version = (uint32_t)(v * 10 + 0.5);
        } else if (ptx_str_is(s, "target")) target(r);
        else if (ptx_str_is(s, "address_size")) {
            if (text_integer(r) != 64) text_fail(r, "only 64-bit addresses are supported");
        } else if (ptx_str_is(s, "visible") || ptx_str_is(s, "weak") || ptx_str_is(s, "common")) keep = external;
        else if (ptx_str_is(s, "extern")) { external = true; keep = true; }
        else if (ptx_str_is(s, "entry")) entry(r);
        else if (ptx_str_is(s, "func")) function(r);
        else if (ptx_str_is(s, "global")) declare_variable(r, SPACE_GLOBAL, external);
        else if (ptx_str_is(s, "const")) declare_variable(r, SPACE_CONST, external);
        else if (ptx_str_is(s, "shared")) declare_variable(r, SPACE_SHARED, external);
        else if (ptx_str_is(s, "file")) file_directive(r);
        else if (ptx_str_is(s, "loc")) loc_directive(r);
        else if (ptx_str_is(s, "section")) skip_section(r);
        else if (ptx_str_is(s, "pragma") || ptx_str_is(s, "alias") || ptx_str_is(s, "tex")) skip_to_semicolon(r);
        else text_fail(r, "unknown directive `.%.*s`", (int)s.n, s.s);
        external = keep;
    }
}

static void check_calls(Reader *r) {
    for (uint32_t i = 0; i < r->module->n_code; i++) {
        const Insn *in = &r->module->code[i];
        const CallSite *call = in->extra;
        if (in->flags != F_FLAG7 || in->cls != EMU_CLASS_CONTROL || !call || !call->func || call->builtin) continue;
        if (call->func->entry == NO_SLOT) {
            r->d.line = in->line;
            text_fail(r, "function `%.*s` has no body", (int)call->func->name.n, call->func->name.s);
        }
    }
}

static bool has_functions(const char *p, size_t n) {
    for (size_t i = 0; i + 5 < n; i++)
        if (p[i] == '.' && !memcmp(p + i, ".func", 5) && !text_is_word((unsigned char)p[i + 5]) &&
            !(i > 8 && !memcmp(p + i - 8, ".extern ", 8)))
            return true;
    return false;
}

EmuModule *emu_load(EmuContext *ctx, const char *ptx, size_t length) {
    EmuModule *m = calloc(1, sizeof *m);
    Reader *r = calloc(1, sizeof *r);
    jmp_buf on_error;
    if (!m || !r || length > (1u << 30)) {
        free(m), free(r);
        emu_error(ctx, EMU_OUT_OF_MEMORY, "out of memory");
        return NULL;
    }
    while (length && !ptx[length - 1]) length--;
    m->context = ctx;
    m->last_kernel = &m->kernels;
    m->has_functions = has_functions(ptx, length);
    m->next = ctx->modules;
    ctx->modules = m;
    char *text = emu_arena_alloc(&m->arena, length + 1);     // names point into it
    memcpy(text, ptx, length);
    r->module = m;
    r->p = text;
    r->end = text + length;
    r->line = 1;
    r->cap_scopes = 64;
    r->n_scopes = 1;
    r->parents = calloc(r->cap_scopes, sizeof *r->parents);
    r->hash = calloc(HASH_SIZE, sizeof *r->hash);
    r->d.module = m;
    r->d.reader = r;
    r->d.on_error = &on_error;
    m->n_locs = 1;                                       // 0: no place
    m->cap_locs = 64;
    m->locs = calloc(m->cap_locs, sizeof *m->locs);
    if (!r->parents || !r->hash || !m->locs) abort();
    ctx->message[0] = 0;

    bool failed = setjmp(on_error);
    if (!failed) {
        top_level(r);
        if (!m->target) emu_error(ctx, EMU_INVALID, "line 1: no `.target`"), longjmp(on_error, 1);
        check_calls(r);
        m->by_index = emu_arena_alloc(&m->arena, (m->n_kernels + 1) * sizeof *m->by_index);
        size_t i = 0;
        for (Kernel *k = m->kernels; k; k = k->next) {
            m->by_index[i++] = k;
            if (m->has_functions) k->info.static_shared = m->func_shared_end;
        }
    }
    free(r->parents);
    free(r->hash);
    free(r->fixups);
    free(r->tables);
    free(r);
    if (!failed) return m;
    char message[sizeof ctx->message];
    memcpy(message, ctx->message, sizeof message);
    emu_unload(ctx, m);
    memcpy(ctx->message, message, sizeof message);
    return NULL;
}
