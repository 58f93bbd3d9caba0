// Reads PTX text. One pass: tokens, directives, declarations, statements; each statement is handed to the
// decoder (decode.c) as soon as it ends, since PTX declares registers and variables before their use.
// Only labels come later than their uses: branches are patched when the function ends.
//
//     .visible .entry scale(.param .u64 x) { .reg .b32 %r<4>; ... @%p1 bra $L__BB0_2; ... }
//
// Names live in scopes: { } opens one (inline assembly relies on it), and a name is looked up from the
// innermost outwards, also when a branch is patched afterwards. Symbols are never removed.
#include <math.h>

#include "emu/reader.h"
#include "lang/c_text.h"

enum { MAX_NESTING = 200, MAX_RANGE = 1 << 20, MAX_REGISTERS = 1 << 26, MAX_VARIABLE = 1 << 30 };

// ---- Names

static uint32_t hash_of(Str s, uint32_t scope) {
    uint32_t h = 2166136261u ^ scope * 0x9e3779b1u;
    for (uint32_t i = 0; i < s.n; i++) h = (h ^ (unsigned char)s.s[i]) * 16777619u;
    return h % HASH_SIZE;
}

Sym *reader_find_in(Reader *r, Str name, uint32_t scope, bool range) {
    for (Sym *s = r->hash[hash_of(name, scope)]; s; s = s->next)
        if (s->scope == scope && s->is_range == range && text_same(s->name, name)) return s;
    return NULL;
}

static Sym *find_from(Reader *r, Str name, uint32_t scope, bool range) {
    for (;; scope = r->parents[scope]) {
        Sym *s = reader_find_in(r, name, scope, range);
        if (s) return s;
        if (!scope) return NULL;
    }
}

static Sym *lookup_from(Reader *r, Str name, uint32_t scope) { return find_from(r, name, scope, false); }

static Sym *declare_as(Reader *r, Str name, SymKind kind, uint32_t scope, bool range) {
    Sym *s = reader_find_in(r, name, scope, range);
    if (s && (s->kind == SYM_FUNC || s->external) && kind == s->kind) return s;
    if (s) text_fail(r, "`%.*s` is declared twice", (int)name.n, name.s);
    s = emu_arena_alloc(&r->module->arena, sizeof *s);
    uint32_t h = hash_of(name, scope);
    *s = (Sym){.next = r->hash[h],
               .name = name,
               .kind = kind,
               .scope = scope,
               .slot = NO_SLOT,
               .is_range = range,
               .in_func = r->func && !r->func->is_kernel};
    return r->hash[h] = s;
}

Sym *reader_declare(Reader *r, Str name, SymKind kind, uint32_t scope) { return declare_as(r, name, kind, scope, false); }

void reader_open_scope(Reader *r) {
    if (++r->depth > MAX_NESTING) text_fail(r, "blocks nested too deep");
    if (r->n_scopes == r->cap_scopes) {
        r->cap_scopes *= 2;
        r->parents = emu_got(realloc(r->parents, r->cap_scopes * sizeof *r->parents));
    }
    r->parents[r->n_scopes] = r->scope;
    r->scope = r->n_scopes++;
}

void reader_close_scope(Reader *r) {
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
    slots_made(d, at | d->base, bytes);
    Func *f = ((Reader *)d->reader)->func;
    if (!d->kernel && f) {
        if (f->n_slots == f->cap_slots) {
            struct FuncSlot *old = f->slots;
            f->cap_slots = f->cap_slots ? 2 * f->cap_slots : 64;
            f->slots = emu_arena_alloc(&d->module->arena, f->cap_slots * sizeof *f->slots);
            if (old) memcpy(f->slots, old, f->n_slots * sizeof *old);
        }
        uint8_t shift = bytes == 128 ? 2 : bytes == 256 ? 3 : 4;
        f->slots[f->n_slots++] = (struct FuncSlot){at | d->base, shift, t == T_pred};
        f->saved_bytes += t == T_pred ? 1 : 1u << shift;
    }
    return at | d->base;
}

// "%r12" is the 12th of ".reg .b32 %r<100>", which stands in the table as "%r" with a count.
static Sym *find_register(Reader *r, Str name, uint32_t *slot) {
    Sym *s = lookup_from(r, name, r->scope);
    if (s && s->kind == SYM_REG) {
        if (s->slot == NO_SLOT) s->slot = reader_new_slot(&r->d, s->type);
        *slot = s->slot;
        return s;
    }
    if (s) return NULL;
    uint32_t digits = 0;
    while (digits < name.n && c_isdigit((unsigned char)name.s[name.n - 1 - digits])) digits++;
    for (uint32_t k = digits; k >= 1; k--) {             // %r<10> with a prefix that ends in a digit too
        if (k > 9) continue;
        Str prefix = {name.s, name.n - k};
        if (k > 1 && name.s[prefix.n] == '0') continue;
        s = find_from(r, prefix, r->scope, true);
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

Type ptx_type_named(Str s) {                             // most words are none: but of `pred`, a digit is among the first three characters
    bool digit = false;
    for (uint32_t i = 0; i < s.n && i < 3; i++) digit |= s.s[i] >= '0' && s.s[i] <= '9';
    if (!digit) return ptx_str_is(s, "pred") ? T_pred : T_none;
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
    uint32_t vec = text_accept_directive(r, "v2") ? 2 : text_accept_directive(r, "v4") ? 4 : 1;
    Type t = need_type(r);
    do {
        Str name = text_need_word(r, "a register name");
        bool range = vec == 1 && text_accept(r, '<');
        Sym *s = declare_as(r, name, SYM_REG, r->scope, range);
        s->type = t;
        s->vec = vec;
        if (vec > 1) {
            s->range = emu_arena_alloc(&r->module->arena, vec * sizeof *s->range);
            memset(s->range, 0xff, vec * sizeof *s->range);
        }
        if (range) {
            Operand count = text_expression(r, TEXT_NO_COMPARISON);
            uint64_t n = count.kind == O_IMM ? count.bits : MAX_RANGE + 1;
            text_expect(r, '>');
            if (n > MAX_RANGE || (r->n_registers += (uint32_t)n) > MAX_REGISTERS) text_fail(r, "a range of %llu registers", (unsigned long long)n);
            s->count = (uint32_t)n;
            s->range = emu_arena_alloc(&r->module->arena, (n + 1) * sizeof *s->range);
            memset(s->range, 0xff, n * sizeof *s->range);
        }
    } while (text_accept(r, ','));
    text_expect(r, ';');
}

uint64_t reader_align_up(uint64_t x, uint64_t a) { return (x + a - 1) / a * a; }

Decl reader_declaration(Reader *r) {                     // [.align n] [.ptr ...] .type name [dims]
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

uint64_t reader_decl_size(const Decl *d) {
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
    if (c_isalpha(c) || c == '_' || c == '$' || c == '%') {
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
        else if (s && s->kind == SYM_FUNC) value = func_address(s->func);
        else text_fail(r, "`%.*s` is not declared", (int)name.n, name.s);
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

uint32_t reader_place_local(Reader *r, Str name, uint64_t size, uint32_t align) {       // in the kernel's local memory or the function's frame
    uint32_t *bytes = r->d.kernel ? &r->d.kernel->local_bytes : &r->frame;
    uint64_t at = reader_align_up(*bytes, align < 4 ? 4 : align);
    if (at + size > (r->d.kernel ? 0xf00000 : MAX_STACK)) text_fail(r, "`%.*s` is too large for local memory", (int)name.n, name.s);
    *bytes = (uint32_t)(at + size);
    return (uint32_t)at;
}

uint32_t reader_local(Dec *d, uint32_t size) {
    return reader_place_local(d->reader, (Str){"an argument", 11}, size, size) + (d->kernel ? 0 : FUNC_LOCAL);
}

void reader_declare_variable(Reader *r, uint8_t space, bool external) {
    do {
        Decl d = reader_declaration(r);
        Sym *s = reader_declare(r, d.name, SYM_VAR, r->scope);
        bool again = s->size || s->placed;
        s->space = space;
        s->size = reader_decl_size(&d);
        s->align = d.align;
        s->type = d.type;
        s->external = external;
        if (space == SPACE_GLOBAL || space == SPACE_CONST) {
            if (again && s->placed) continue;
            char *name = text_copy(r, d.name);
            if (s->size <= MAX_VARIABLE && emu_alloc(r->module->context, s->size, name, &s->offset)) emu_give_up();
            if (s->size > MAX_VARIABLE)
                text_fail(r, "`%.*s` is too large: %llu bytes", (int)d.name.n, d.name.s, (unsigned long long)s->size);
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
            s->offset = reader_place_local(r, d.name, s->size, d.align);
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
    uint64_t at = reader_align_up(SHARED_START + *end, s->align ? s->align : 1);
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

static Operand component(Reader *r, Sym *s, uint32_t i) {
    if (s->range[i] == NO_SLOT) s->range[i] = reader_new_slot(&r->d, s->type);
    return (Operand){.kind = O_REG, .sym = s, .slot = s->range[i], .type = s->type, .name = s->name};
}

// A vector register: `v.x`, one of it, or `v`, all as if { } stood around them.
static Operand vector(Reader *r, Sym *s) {
    if (r->p < r->end && *r->p == '.') {
        r->p++;
        Str part = text_dotted(r);
        int i = text_component(part);
        if (i < 0 || (uint32_t)i >= s->vec) text_fail(r, "`%.*s` has no part `.%.*s`", (int)s->name.n, s->name.s, (int)part.n, part.s);
        return component(r, s, (uint32_t)i);
    }
    Operand o = {.kind = O_VEC, .n = s->vec, .items = emu_arena_alloc(&r->module->arena, s->vec * sizeof o)};
    for (uint32_t i = 0; i < s->vec; i++) o.items[i] = component(r, s, i);
    return o;
}

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
    Sym *s = lookup_from(r, name, r->scope);
    if (s && s->kind == SYM_REG && s->vec > 1) return vector(r, s);
    s = find_register(r, name, &slot);
    if (s) {
        o.kind = O_REG;
        o.sym = s;
        o.slot = slot;
        o.type = s->type;
        return o;
    }
    if (text_special(name, &o) || text_special_vector(r, name, &o)) {
        r->module->uses_reserved |= o.kind == O_IMM;     // %reserved_smem_offset_1 and its like
        r->module->uses_workspace |= o.kind == O_REG && (o.slot == SPECIAL_SLOT(SP_envreg1) || o.slot == SPECIAL_SLOT(SP_envreg2));
        return o;
    }
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
    if (c_isdigit(c) || c == '-' || c == '(') o.offset = (int64_t)text_integer(r);
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

static void select_part(Reader *r, Operand *o) {         // %r1.b0
    if (r->p >= r->end || *r->p != '.') return;
    r->p++;
    o->select = text_dotted(r);
    if (!o->select.n) text_fail(r, "a `.` with no name after it");
}

static Operand operand(Reader *r) {
    int c = text_peek(r);
    Operand o;
    if (text_accept(r, '{')) return list_of(r, '}');
    if (c == '(' && !ptx_str_is(r->d.name, "call")) return text_expression(r, 0);
    if (text_accept(r, '(')) return list_of(r, ')');
    if (text_accept(r, '[')) return address(r);
    bool video = r->d.name.n > 3 && r->d.name.s[0] == 'v';
    bool not_of_register = c == '!' && r->p + 1 < r->end && !c_isdigit((unsigned char)r->p[1]) && r->p[1] != '(' && r->p[1] != '!';
    if (not_of_register && text_accept(r, '!')) {
        o = named(r);
        o.negated = true;
    } else if (video && c == '-' && r->p + 1 < r->end && (r->p[1] == '%' || c_isalpha((unsigned char)r->p[1]) || r->p[1] == '_')) {
        r->p++;
        o = named(r);
        o.minus = true;
        if (o.kind == O_REG) select_part(r, &o);
    } else if (c_isdigit(c) || c == '-' || c == '~' || c == '+' || c == '.' || c == '!') {
        return text_expression(r, 0);
    } else {
        o = named(r);
        if (video && o.kind == O_REG) select_part(r, &o);
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

void reader_loc(Reader *r) {                   // .loc file line column [, function_name ..., inlined_at ...]
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
    if (m->n_locs == m->cap_locs) m->locs = emu_grown(m->locs, &m->cap_locs, 256, sizeof *m->locs);
    m->locs[m->n_locs] = loc;
    r->d.loc = m->n_locs++;
}

void reader_file(Reader *r) {                  // .file 1 "gemm.tk" [, timestamp, size]
    EmuModule *m = r->module;
    uint32_t n = (uint32_t)text_integer(r);
    Str name = text_quoted(r);
    while (text_accept(r, ',')) (void)text_integer(r);
    if (m->n_files == m->cap_files) m->files = emu_grown(m->files, &m->cap_files, 8, sizeof *m->files);
    m->files[m->n_files++] = (struct SourceFile){n, text_copy(r, name)};
}

void reader_skip_section(Reader *r) {                    // .section .debug_info { ... }
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

void reader_skip_to_semicolon(Reader *r) {
    for (int c; (c = text_peek(r)) && c != ';' && c != '{' && c != '}';)
        if (c == '"') (void)text_quoted(r);
        else r->p++;
    text_expect(r, ';');
}

static void label(Reader *r, Str name) {
    Sym *s = reader_declare(r, name, SYM_LABEL, r->scope);
    s->pc = r->module->n_code;
}

static void branch_targets(Reader *r, Str name) {        // L: .branchtargets a, b, c;
    Sym *s = reader_declare(r, name, SYM_LABEL, r->scope);
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
    if (r->n_tables == r->cap_tables) r->tables = emu_grown(r->tables, &r->cap_tables, 16, sizeof *r->tables);
    r->tables[r->n_tables++] = s;
}

void reader_fix_branch(Dec *d, Insn *in, const Operand *target) {
    Reader *r = d->reader;
    if (target->kind != O_SYM) dec_error(d, "a branch needs a label");
    if (r->n_fixups == r->cap_fixups) r->fixups = emu_grown(r->fixups, &r->cap_fixups, 256, sizeof *r->fixups);
    r->fixups[r->n_fixups++] = (Fixup){(uint32_t)(in - d->module->code), r->scope, r->d.line, target->name};
}

void reader_resolve_labels(Reader *r) {
    for (uint32_t t = 0; t < r->n_tables; t++)
        for (uint32_t i = 0; i < r->tables[t]->n_labels; i++) {
            Sym *l = r->tables[t]->labels[i], *s = lookup_from(r, l->name, l->scope);
            if (!s || s->kind != SYM_LABEL) text_fail(r, "label `%.*s` is not defined", (int)l->name.n, l->name.s);
            l->pc = s->pc;
        }
    for (uint32_t i = 0; i < r->n_fixups; i++) {
        Fixup *f = &r->fixups[i];
        Sym *s = lookup_from(r, f->name, f->scope);
        r->d.line = f->line;
        if (!s || s->kind != SYM_LABEL) text_fail(r, "label `%.*s` is not defined", (int)f->name.n, f->name.s);
        Insn *in = &r->module->code[f->insn];
        if (s->labels) in->extra = s;
        else in->imm = s->pc, slots_jump(&r->d, f->insn, s->pc);
        for (uint32_t k = 0; k < s->n_labels; k++) slots_jump(&r->d, f->insn, s->labels[k]->pc);
    }
    r->n_fixups = r->n_tables = 0;
}

static void instruction(Reader *r, Str name) {
    Dec *d = &r->d;
    d->name = name;
    d->n_mods = d->used = d->n_ops = 0;
    for (;;) {                                           // apart from what stands before, .5 is an operand
        bool apart = r->p >= r->end || *r->p != '.';
        if (text_peek(r) != '.' || (apart && r->p + 1 < r->end && c_isdigit((unsigned char)r->p[1]))) break;
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
    else if (ptx_str_is(s, "loc")) reader_loc(r);
    else if (ptx_str_is(s, "local")) reader_declare_variable(r, SPACE_LOCAL, false);
    else if (ptx_str_is(s, "param")) reader_declare_variable(r, SPACE_PARAM, false);
    else if (ptx_str_is(s, "shared")) reader_declare_variable(r, SPACE_SHARED, false);
    else if (ptx_str_is(s, "global")) reader_declare_variable(r, SPACE_GLOBAL, false);
    else if (ptx_str_is(s, "const")) reader_declare_variable(r, SPACE_CONST, false);
    else if (ptx_str_is(s, "extern")) { text_expect(r, '.'); (void)text_dotted(r); reader_declare_variable(r, SPACE_SHARED, true); }
    else if (ptx_str_is(s, "file")) reader_file(r);
    else if (ptx_str_is(s, "section")) reader_skip_section(r);
    else if (ptx_str_is(s, "pragma") || ptx_str_is(s, "branchtargets") || ptx_str_is(s, "calltargets") ||
             ptx_str_is(s, "callprototype"))
        reader_skip_to_semicolon(r);
    else text_fail(r, "unknown directive `.%.*s`", (int)s.n, s.s);
}

void reader_body(Reader *r) {                            // after {
    int open = 1;
    reader_open_scope(r);
    while (open) {
        r->d.line = 0;
        int c = text_peek(r);
        r->d.line = r->line;
        r->nesting = 0;
        if (!c) text_fail(r, "expected `}` before the end of the text");
        if (c == '{') { r->p++; open++; reader_open_scope(r); continue; }
        if (c == '}') { r->p++; open--; reader_close_scope(r); continue; }
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
                reader_skip_to_semicolon(r);
            else label(r, name);
            continue;
        }
        instruction(r, name);
    }
}
