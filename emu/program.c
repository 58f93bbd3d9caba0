// A module's level: kernels, device functions and what they are declared to take, directives, and emu_load. What stands in a
// function's body is read by reader.c.

#include "emu/reader.h"
#include "lang/c_text.h"

enum { NEWEST_TARGET = 121 };

// ---- Functions

static void kernel_params(Reader *r, Kernel *k) {
    EmuParam list[1024];
    uint32_t n = 0, at = 0;
    if (!text_accept(r, '(')) return;
    if (!text_accept(r, ')')) {
        do {
            if (n == 1024) text_fail(r, "more than 1024 parameters");
            if (!text_accept_directive(r, "param")) text_fail(r, "a kernel's parameter needs `.param`");
            Decl d = reader_declaration(r);
            Sym *s = reader_declare(r, d.name, SYM_VAR, r->scope);
            s->space = SPACE_PARAM;
            s->size = reader_decl_size(&d);
            s->align = d.align;
            s->type = d.type;
            s->placed = true;
            uint64_t place = reader_align_up(at, d.align);
            if (place + s->size > MAX_PARAM_BYTES) text_fail(r, "more than %d bytes of parameters", MAX_PARAM_BYTES);
            s->offset = place;
            list[n++] = (EmuParam){.offset = (uint32_t)place, .size = (uint32_t)s->size, .align = d.align, .name = text_copy(r, d.name),
                                   .type = ptx_type_name(d.type), .count = (uint32_t)d.count * d.vec};
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

static void launch_bounds(Reader *r, Kernel *kernel) {
    EmuKernel *k = &kernel->info;
    while (text_peek(r) == '.') {
        Str s = text_directive(r);
        uint32_t ignored[3];
        if (ptx_str_is(s, "reqntid")) three(r, k->reqntid);
        else if (ptx_str_is(s, "maxntid")) three(r, k->maxntid);
        else if (ptx_str_is(s, "reqnctapercluster")) three(r, k->reqcluster);
        else if (ptx_str_is(s, "maxnreg")) k->maxnreg = (uint32_t)text_integer(r);
        else if (ptx_str_is(s, "minnctapersm")) kernel->min_blocks = (uint32_t)text_integer(r);
        else if (ptx_str_is(s, "maxnctapersm") || ptx_str_is(s, "maxclusterrank")) three(r, ignored);
        else if (ptx_str_is(s, "explicitcluster") || ptx_str_is(s, "noreturn") || ptx_str_is(s, "blocksareclusters") ||
                 ptx_str_is(s, "abi_preserve")) {
        } else if (ptx_str_is(s, "pragma")) reader_skip_to_semicolon(r);
        else text_fail(r, "unknown directive `.%.*s`", (int)s.n, s.s);
    }
}

// A body that is not wanted: whether it names dynamic shared memory is all that is seen of it.
static void pass_body(Reader *r, EmuKernel *k) {          // after {
    for (int depth = 1; depth;) {
        int c = text_peek(r);
        if (!c) text_fail(r, "expected `}` before the end of the text");
        if (c == '"') { (void)text_quoted(r); continue; }
        Str word = text_word(r);
        if (word.n) {
            Sym *s = reader_find_in(r, word, 0, false);
            k->dynamic_shared |= s && s->kind == SYM_VAR && s->space == SPACE_SHARED && s->external && !s->size;
            continue;
        }
        k->dynamic_shared |= text_accept_directive(r, "extern");
        depth += *r->p == '{' ? 1 : *r->p == '}' ? -1 : 0;
        if (depth) r->p++;
    }
    r->p++;
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
    reader_open_scope(r);
    kernel_params(r, k);
    launch_bounds(r, k);
    if (!text_accept(r, ';')) {
        text_expect(r, '{');
        k->entry = m->n_code;
        if (r->outline) pass_body(r, &k->info);
        else {
            slots_begin(&r->slots, m->n_code);
            r->d.slots = &r->slots;
            reader_body(r);
            r->d.guard = NO_SLOT;
            decode_end(&r->d);
            reader_resolve_labels(r);
            slots_share(&r->d);
            r->d.slots = NULL;
            k->info.dynamic_shared = k->dynamic_align != 0;
        }
        k->info.instructions = m->n_code - k->entry;
        k->info.static_shared = m->has_functions ? m->func_shared_end : k->shared_end;
        k->info.local_bytes = k->local_bytes;
        *m->last_kernel = k;
        m->last_kernel = &k->next;
        m->n_kernels++;
    }
    reader_close_scope(r);
    r->func = NULL;
}

static uint32_t func_params(Reader *r, Sym **out, uint32_t most) {     // after (
    uint32_t n = 0;
    if (text_accept(r, ')')) return 0;
    do {
        if (n == most) text_fail(r, "more than %u parameters", most);
        bool in_register = text_accept_directive(r, "reg");
        if (!in_register && !text_accept_directive(r, "param")) text_fail(r, "a parameter needs `.param`");
        Decl d = reader_declaration(r);
        Sym *s;
        if (ptx_str_is(d.name, "_") || in_register) {
            s = emu_arena_alloc(&r->module->arena, sizeof *s);
            *s = (Sym){.name = d.name, .kind = SYM_VAR, .slot = NO_SLOT, .in_func = true};
        } else s = reader_declare(r, d.name, SYM_VAR, r->scope);
        s->space = SPACE_LOCAL;
        s->type = d.type;
        s->size = in_register && d.type == T_pred ? 4 : reader_decl_size(&d);
        s->align = in_register ? (uint32_t)s->size : d.align;
        s->offset = reader_place_local(r, d.name, s->size, s->align);
        s->placed = true;
        out[n++] = s;
        if (!in_register || ptx_str_is(d.name, "_")) continue;
        Sym *reg = reader_declare(r, d.name, SYM_REG, r->scope);          // its slot comes with the body
        reg->type = d.type;
        r->d.in_registers[r->d.n_in_registers++] =
            (struct InRegister){.sym = reg, .offset = (uint32_t)s->offset + FUNC_LOCAL, .type = d.type, .is_result = most == MAX_RETS};
    } while (text_accept(r, ','));
    text_expect(r, ')');
    return n;
}

static bool same_sizes(Sym *const *a, Sym *const *b, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) if (a[i]->size != b[i]->size) return false;
    return true;
}

static void registers_of_parameters(Reader *r) {         // a function that has such begins by reading them from its frame
    r->d.guard = NO_SLOT;
    r->d.cls = EMU_CLASS_MOVE;
    for (uint32_t i = 0; i < r->d.n_in_registers; i++) {
        struct InRegister *p = &r->d.in_registers[i];
        p->slot = p->sym->slot = reader_new_slot(&r->d, p->type);
        if (!p->is_result) decode_frame(&r->d, p->slot, p->type, p->offset, true);
    }
}

static void function(Reader *r) {
    EmuModule *m = r->module;
    Sym *rets[MAX_RETS], *params[64];
    Func dummy = {0};
    r->func = &dummy;
    r->frame = 0;
    r->d.n_in_registers = 0;
    r->d.kernel = NULL;
    r->d.reg_bytes = &m->func_reg_bytes;
    r->d.base = BASE_FUNCS;
    r->d.loc = 0;
    reader_open_scope(r);
    uint32_t n_rets = text_accept(r, '(') ? func_params(r, rets, MAX_RETS) : 0;
    Str name = text_need_word(r, "a function's name");
    uint32_t n_params = text_accept(r, '(') ? func_params(r, params, 64) : 0;
    Kernel ignored = {0};
    launch_bounds(r, &ignored);
    Sym *s = reader_declare(r, name, SYM_FUNC, 0);
    if (!s->func) {
        s->func = emu_arena_alloc(&m->arena, sizeof *s->func);
        *s->func = (Func){.name = name, .entry = NO_SLOT, .index = m->n_funcs};
        if (m->n_funcs == m->cap_funcs) m->funcs = emu_grown(m->funcs, &m->cap_funcs, 64, sizeof *m->funcs);
        m->funcs[m->n_funcs++] = s->func;
    }
    Func *f = r->func = s->func;
    if (f->declared && (n_rets != f->n_rets || n_params != f->n_params || !same_sizes(rets, f->rets, n_rets) ||
                        !same_sizes(params, f->params, n_params)))
        text_fail(r, "function `%.*s` was declared with other parameters or results", (int)name.n, name.s);
    if (f->entry == NO_SLOT) {
        memcpy(f->rets, rets, n_rets * sizeof *rets);
        memcpy(f->params, params, n_params * sizeof *params);
        f->n_rets = n_rets;
        f->n_params = n_params;
        f->declared = true;
    }
    if (!text_accept(r, ';')) {
        text_expect(r, '{');
        if (f->entry != NO_SLOT) text_fail(r, "function `%.*s` is defined twice", (int)name.n, name.s);
        f->entry = m->n_code;
        if (r->outline) pass_body(r, &ignored.info);
        else {
            registers_of_parameters(r);
            reader_body(r);
            r->d.guard = NO_SLOT;
            decode_end(&r->d);
            reader_resolve_labels(r);
            f->frame_bytes = r->frame;
        }
    }
    reader_close_scope(r);
    r->func = NULL;
}

static void alias(Reader *r) {                           // .alias f, g;  f has no body of its own
    Func *f[2];
    for (int i = 0; i < 2; i++) {
        Str name = text_need_word(r, "a function's name");
        Sym *s = reader_find_in(r, name, 0, false);
        if (!s || s->kind != SYM_FUNC) text_fail(r, "`%.*s` is not a function", (int)name.n, name.s);
        f[i] = s->func;
        text_expect(r, i ? ';' : ',');
    }
    if (f[0] == f[1] || f[0]->entry != NO_SLOT || f[1]->entry == NO_SLOT) text_fail(r, "an alias needs a function without a body, and one with");
    if (f[0]->n_params != f[1]->n_params || f[0]->n_rets != f[1]->n_rets || !same_sizes(f[0]->params, f[1]->params, f[0]->n_params) ||
        !same_sizes(f[0]->rets, f[1]->rets, f[0]->n_rets))
        text_fail(r, "an alias of a function with other parameters or results");
    f[0]->alias = f[1];
}

static void target(Reader *r) {
    do {
        Str s = text_need_word(r, "a target");
        if (s.n <= 3 || memcmp(s.s, "sm_", 3)) continue;
        r->module->target = (uint32_t)strtoul(s.s + 3, NULL, 10);
        r->module->target_name = text_copy(r, s);
        if (!r->outline && r->module->target > NEWEST_TARGET)
            text_fail(r, "%s is newer than the targets that are known here, which end with sm_%d", r->module->target_name, NEWEST_TARGET);
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
        if (c != '.') text_fail(r, "expected a directive, not `%c`", c_isprint(c) ? c : '?');
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
        else if (ptx_str_is(s, "global")) reader_declare_variable(r, SPACE_GLOBAL, external);
        else if (ptx_str_is(s, "const")) reader_declare_variable(r, SPACE_CONST, external);
        else if (ptx_str_is(s, "shared")) reader_declare_variable(r, SPACE_SHARED, external);
        else if (ptx_str_is(s, "file")) reader_file(r);
        else if (ptx_str_is(s, "loc")) reader_loc(r);
        else if (ptx_str_is(s, "section")) reader_skip_section(r);
        else if (ptx_str_is(s, "alias")) alias(r);
        else if (ptx_str_is(s, "pragma") || ptx_str_is(s, "tex")) reader_skip_to_semicolon(r);
        else text_fail(r, "unknown directive `.%.*s`", (int)s.n, s.s);
        external = keep;
    }
}

// Why a function has no body, as far as its name says it.
static const char *who_has_it(Str name) {
    static const struct { const char *begins, *words; } rows[] = {
        {"__nv_", "; it is of libdevice, which compilers link before they make PTX"},
        {"__cudaCDP", "; kernels do not launch others here"}, {"cudaLaunchDevice", "; kernels do not launch others here"},
        {"cudaGetParameterBuffer", "; kernels do not launch others here"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (name.n > strlen(rows[i].begins) && !memcmp(name.s, rows[i].begins, strlen(rows[i].begins))) return rows[i].words;
    return "; nothing is linked to a file here: it has to be in it";
}

static void check_calls(Reader *r) {
    for (uint32_t i = 0; i < r->module->n_code; i++) {
        const Insn *in = &r->module->code[i];
        const CallSite *call = in->extra;
        if (in->flags != F_CALL || in->cls != EMU_CLASS_CONTROL || !call || !call->func || call->builtin) continue;
        if (call->func->entry == NO_SLOT && !call->func->alias) {
            r->d.line = in->line;
            text_fail(r, "function `%.*s` has no body%s", (int)call->func->name.n, call->func->name.s, who_has_it(call->func->name));
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

static void begin(Reader *r, const char *ptx, size_t length) {
    EmuModule *m = r->module;
    char *text = emu_arena_alloc(&m->arena, length + 1);     // names point into it
    memcpy(text, ptx, length);
    r->p = text;
    r->end = text + length;
    r->line = 1;
    r->cap_scopes = 64;
    r->n_scopes = 1;
    r->parents = emu_got(calloc(r->cap_scopes, sizeof *r->parents));
    r->hash = emu_got(calloc(HASH_SIZE, sizeof *r->hash));
    m->n_locs = 1;                                       // 0: no place
    m->cap_locs = 64;
    m->locs = emu_got(calloc(m->cap_locs, sizeof *m->locs));
    const char *zero = memchr(text, 0, length);
    if (zero) text_fail(r, "this is not text: byte %zu is 0", (size_t)(zero - text));
}

static void finish(EmuModule *m) {
    m->by_index = emu_arena_alloc(&m->arena, (m->n_kernels + 1) * sizeof *m->by_index);
    size_t i = 0;
    for (Kernel *k = m->kernels; k; k = k->next) {
        m->by_index[i++] = k;
        if (m->has_functions) k->info.static_shared = m->func_shared_end;
    }
}

static EmuModule *read_module(EmuContext *ctx, const char *ptx, size_t length, bool outline) {
    EmuModule *m = calloc(1, sizeof *m);
    Reader *r = calloc(1, sizeof *r);
    jmp_buf on_error, *before = emu_no_room;
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
    r->module = m;
    r->outline = outline;
    r->d.module = m;
    r->d.reader = r;
    r->d.on_error = emu_no_room = &on_error;
    ctx->message[0] = 0;

    int failed = setjmp(on_error);
    if (!failed) {
        begin(r, ptx, length);
        top_level(r);
        if (!m->target) emu_error(ctx, EMU_INVALID, "line 1: no `.target`"), longjmp(on_error, 1);
        check_calls(r);
        finish(m);
    }
    if (failed == NO_ROOM) emu_error(ctx, EMU_OUT_OF_MEMORY, "the emulator is out of memory, reading %zu bytes of PTX", length);
    emu_no_room = before;
    free(r->parents);
    free(r->hash);
    free(r->fixups);
    free(r->tables);
    slots_free(&r->slots);
    free(r);
    if (!failed) return m;
    char message[sizeof ctx->message];
    memcpy(message, ctx->message, sizeof message);
    emu_unload(ctx, m);
    memcpy(ctx->message, message, sizeof message);
    return NULL;
}

EmuModule *emu_load(EmuContext *ctx, const char *ptx, size_t length)    { return read_module(ctx, ptx, length, false); }
EmuModule *emu_outline(EmuContext *ctx, const char *ptx, size_t length) { return read_module(ctx, ptx, length, true); }
