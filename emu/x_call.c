// Calls and returns, the memory that functions ask the stack for, and what may be called outside the module.
//
// Arguments and results are .param variables, which are local memory: a call copies the arguments into the frame that it
// makes (frames.c) and a return the results out of it. What a function keeps in registers instead (`.func (.reg .b32 r) f
// (.reg .b32 a)`) has a place in the frame, too: read where the function begins, written before it returns. A function's address
// is a number that calls through a register turn back into the function.
#include "emu/exec.h"
#include "emu/reader.h"
#include "lang/c_text.h"

typedef uint32_t u32;
typedef uint64_t u64;

static void copy_local(Warp *w, int l, u32 to, u32 from, u32 n) { memmove(frame_at(w, l, to), frame_at(w, l, from), n); }

// ---- Returns

static void x_ret(Warp *w, const Insn *in) {
    u32 left = w->active, rest = w->mask & ~left;
    (void)in;
    if (rest) warp_push(w, w->pc, rest);
    while (left) {                                       // one group per distinct place to return to
        u32 first = (u32)__builtin_ctz(left), pc = w->calls[first][w->depth[first] - 1].pc, same = 0;
        for (u32 m = left; m; m &= m - 1) {
            u32 l = (u32)__builtin_ctz(m), from = lane32(w, SPECIAL_SLOT(SP_frame))[l];
            if (w->calls[l][w->depth[l] - 1].pc != pc) continue;
            same |= 1u << l;
            const CallSite *site = w->launch->module->code[pc - 1].extra;
            Call call = frame_pop(w, (int)l);
            for (u32 i = 0; i < site->n_rets && i < call.func->n_rets; i++)
                copy_local(w, (int)l, frame_variable(w, (int)l, site->rets[i]), from + (u32)call.func->rets[i]->offset, site->ret_sizes[i]);
        }
        left &= ~same;
        warp_push(w, pc, same);
    }
    w->mask = 0;
    w->event |= EV_GROUP;
}

static void x_leave(Warp *w, const Insn *in) {           // a kernel's ret
    (void)in;
    warp_exit_lanes(w, w->active);
}

static void decode_ret(Dec *d) {
    dec_mod(d, "uni");
    dec_count(d, 0, 0);
    if (d->kernel) { dec_emit(d, x_leave); return; }
    for (u32 i = 0; i < d->n_in_registers; i++)
        if (d->in_registers[i].is_result)
            decode_frame(d, d->in_registers[i].slot, d->in_registers[i].type, d->in_registers[i].offset, false);
    dec_emit(d, x_ret);
}

// ---- What may be called outside the module

static bool read_string(Warp *w, const Insn *in, int l, u64 address, char *out, size_t n) {
    for (size_t i = 0; i + 1 < n; i++) {
        uint8_t *p = emu_memory_at(w, in, l, SPACE_GENERIC, address + i, 1, false);
        if (!p) return false;
        if (!(out[i] = (char)*p)) return true;
    }
    out[n - 1] = 0;
    return true;
}

static void print_text(Launch *launch, u32 thread, const char *text, size_t n) {
    pthread_mutex_lock(&launch->lock);
    if (launch->options.print) launch->options.print(launch->options.print_data, thread, text, n);
    else fwrite(text, 1, n, stdout);
    pthread_mutex_unlock(&launch->lock);
}

// The next of the arguments, packed as C's are, each at its own alignment.
static bool next_argument(Warp *w, const Insn *in, int l, u64 args, u64 *offset, u32 size, u64 *value) {
    *offset = (*offset + size - 1) / size * size;
    const uint8_t *p = emu_memory_at(w, in, l, SPACE_GENERIC, args + *offset, size, false);
    *value = 0;
    if (p) memcpy(value, p, size);
    *offset += size;
    return p != NULL;
}

// vprintf(format, arguments) of one lane; how many arguments it took, -1: no format, -2: something failed, which is reported.
static int print_lane(Warp *w, const Insn *in, int l, u64 format_at, u64 args) {
    char format[1024], out[4096], spec[48], text[1024];
    size_t at = 0;
    u64 offset = 0, v;
    int taken = 0;
    if (!format_at) return -1;
    if (!read_string(w, in, l, format_at, format, sizeof format)) return -2;
    for (const char *p = format; *p && at + 1 < sizeof out; p++) {
        if (*p != '%') { out[at++] = *p; continue; }
        if (p[1] == '%') { out[at++] = '%'; p++; continue; }
        size_t n = 0, longs = 0, halves = 0;
        spec[n++] = *p++;
        for (; *p && strchr("-+ #0123456789.*", *p) && n < 20; p++) {
            if (*p != '*') { spec[n++] = *p; continue; }
            if (!next_argument(w, in, l, args, &offset, 4, &v)) return -2;
            taken++;
            if ((int32_t)v >= 0 || spec[n - 1] != '.') n += (size_t)snprintf(spec + n, 16, "%d", (int32_t)v);
            else n--;                                    // a negative precision is none
        }
        for (; *p && strchr("lhjzt", *p); p++) longs += *p == 'l' || *p == 'j' || *p == 'z' || *p == 't', halves += *p == 'h';
        if (!*p) break;
        bool is_float = strchr("aAeEfFgG", *p) != NULL, wide = longs || is_float || *p == 's' || *p == 'p';
        u32 size = wide ? 8 : 4;
        if (!next_argument(w, in, l, args, &offset, size, &v)) return -2;
        taken++;
        int made = 0;
        if (*p == 's') {
            if (v && !read_string(w, in, l, v, text, sizeof text)) return -2;
            if (!v) strcpy(text, "(null)");
            spec[n++] = 's', spec[n] = 0;
            made = c_snprintf(out + at, sizeof out - at, spec, text);
        } else if (is_float) {
            spec[n++] = *p, spec[n] = 0;
            made = c_snprintf(out + at, sizeof out - at, spec, f64_from(v));
        } else if (*p == 'c') {
            spec[n++] = 'c', spec[n] = 0;
            made = c_snprintf(out + at, sizeof out - at, spec, (int)v);
        } else if (*p == 'p') {
            made = snprintf(out + at, sizeof out - at, "0x%llx", (unsigned long long)v);
        } else if (strchr("diouxX", *p)) {
            spec[n++] = 'l', spec[n++] = 'l', spec[n++] = *p, spec[n] = 0;
            u32 unused = longs ? 0 : 64 - (halves == 1 ? 16 : halves ? 8 : 32);
            v = *p == 'd' || *p == 'i' ? (u64)((int64_t)(v << unused) >> unused) : v << unused >> unused;
            made = c_snprintf(out + at, sizeof out - at, spec, (long long)v);
        }
        if (made < 0) return -2;
        at = at + (size_t)made < sizeof out ? at + (size_t)made : sizeof out - 1;
    }
    print_text(w->launch, w->id * 32 + (u32)l, out, at);
    return taken;
}

static u64 argument(Warp *w, int l, const CallSite *site, u32 i, u32 size) {
    u64 v = 0;
    memcpy(&v, frame_at(w, l, frame_variable(w, l, site->args[i])), size);
    return v;
}

static void call_vprintf(Warp *w, const Insn *in, int l, const CallSite *site) {
    int taken = print_lane(w, in, l, argument(w, l, site, 0, 8), argument(w, l, site, 1, 8));
    if (site->n_rets) memcpy(frame_at(w, l, frame_variable(w, l, site->rets[0])), &taken, 4);
}

static void call_assert(Warp *w, const Insn *in, int l, const CallSite *site) {
    char text[256], file[128];
    if (!read_string(w, in, l, argument(w, l, site, 0, 8), text, sizeof text)) return;
    if (!read_string(w, in, l, argument(w, l, site, 1, 8), file, sizeof file)) return;
    emu_fault_stop(w, in, l, EMU_FAULT_TRAP, "assertion `%s` failed at %s:%u", text, file, (u32)argument(w, l, site, 2, 4));
}

static void call_malloc(Warp *w, const Insn *in, int l, const CallSite *site) {
    u64 address = kernel_malloc(w->launch, argument(w, l, site, 0, 8));
    (void)in;
    if (site->n_rets) memcpy(frame_at(w, l, frame_variable(w, l, site->rets[0])), &address, 8);
}

static void call_free(Warp *w, const Insn *in, int l, const CallSite *site) {
    u64 address = argument(w, l, site, 0, 8);
    if (!kernel_free(w->launch, address))
        emu_fault(w, in, l, EMU_FAULT_BAD_OPERAND, "`free` of 0x%llx, which `malloc` did not give", (unsigned long long)address);
}

static const struct Builtin {
    const char *name;
    void (*call)(Warp *, const Insn *, int lane, const CallSite *);
    bool heap;
    u32 n_args, sizes[3], result;
} builtins[] = {
    {"vprintf", call_vprintf, false, 2, {8, 8}, 4}, {"__assertfail", call_assert, false, 3, {8, 8, 4}, 0},
    {"malloc", call_malloc, true, 1, {8}, 8},       {"free", call_free, true, 1, {8}, 0},
};

// Which of them, 1 for the first; 0: none.
static int builtin_named(Dec *d, const CallSite *site) {
    for (u32 k = 0; k < sizeof builtins / sizeof *builtins; k++) {
        const struct Builtin *b = &builtins[k];
        if (!ptx_str_is(site->func->name, b->name)) continue;
        bool fits = site->n_args >= b->n_args && site->n_rets <= (b->result != 0);
        for (u32 i = 0; i < b->n_args && fits; i++) fits = site->arg_sizes[i] == b->sizes[i];
        if (!fits || (site->n_rets && site->ret_sizes[0] != b->result)) dec_error(d, "`%s` takes other arguments, or gives another result", b->name);
        if (b->heap && !heap_create(d->module)) emu_give_up();
        return (int)k + 1;
    }
    return 0;
}

// ---- Calls

static bool fits(const CallSite *site, const Func *f) {
    if (site->n_args != f->n_params || site->n_rets != f->n_rets) return false;
    for (u32 i = 0; i < site->n_args; i++)
        if (site->arg_sizes[i] > f->params[i]->size) return false;
    for (u32 i = 0; i < site->n_rets; i++)
        if (site->ret_sizes[i] > f->rets[i]->size) return false;
    return true;
}

static bool enter(Warp *w, const Insn *in, const CallSite *site, const Func *f, u32 lanes, u32 pc) {
    for (u32 m = lanes; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        u32 from[64];
        for (u32 i = 0; i < site->n_args; i++) from[i] = frame_variable(w, l, site->args[i]);
        if (!frame_push(w, in, l, f, pc)) return false;
        u32 frame = lane32(w, SPECIAL_SLOT(SP_frame))[l];
        for (u32 i = 0; i < site->n_args; i++) copy_local(w, l, frame + (u32)f->params[i]->offset, from[i], site->arg_sizes[i]);
    }
    return true;
}

static void x_call(Warp *w, const Insn *in) {
    const CallSite *site = in->extra;
    if (site->builtin) {
        w->effects++;
        EACH_ACTIVE(builtins[site->builtin - 1].call(w, in, l, site));
        return;
    }
    const Func *f = site->func->alias ? site->func->alias : site->func;
    u32 taken = w->active, rest = w->mask & ~taken, pc = w->pc;
    if (!enter(w, in, site, f, taken, pc)) return;
    if (rest) warp_push(w, pc, rest);
    w->mask = taken;
    w->pc = f->entry;
    if (rest || w->n_groups) w->event |= EV_GROUP;
}

static void x_call_through(Warp *w, const Insn *in) {    // one group per distinct function
    const CallSite *site = in->extra;
    const EmuModule *m = w->launch->module;
    u32 left = w->active, rest = w->mask & ~left, pc = w->pc;
    if (rest) warp_push(w, pc, rest);
    w->mask = 0;
    w->event |= EV_GROUP;
    while (left) {
        int first = __builtin_ctz(left);
        u64 address = lane64(w, in->a)[first], index = ((address & ~CODE_WINDOW) >> 4) - 1;
        const Func *f = address >> 32 == CODE_WINDOW >> 32 && !(address & 15) && index < m->n_funcs ? m->funcs[index] : NULL;
        if (f && f->alias) f = f->alias;
        if (!f || f->entry == NO_SLOT || !fits(site, f)) {
            if (!f || f->entry == NO_SLOT)
                emu_fault_stop(w, in, first, EMU_FAULT_BAD_OPERAND, "a call of 0x%llx, where no function is", (unsigned long long)address);
            else emu_fault_stop(w, in, first, EMU_FAULT_BAD_OPERAND, "a call of `%.*s`, which has other parameters or results",
                                (int)f->name.n, f->name.s);
            return;
        }
        u32 same = 0;
        for (u32 k = left; k; k &= k - 1)
            if (lane64(w, in->a)[__builtin_ctz(k)] == address) same |= 1u << __builtin_ctz(k);
        if (!enter(w, in, site, f, same, pc)) return;
        left &= ~same;
        warp_push(w, f->entry, same);
    }
}

static void decode_values(Dec *d, CallSite *site, const Operand *list, bool results) {
    u32 most = results ? 8 : 64, *n = results ? &site->n_rets : &site->n_args;
    u32 *at = results ? site->rets : site->args, *sizes = results ? site->ret_sizes : site->arg_sizes;
    if (list && list->n > most) dec_error(d, "more than %u %s", most, results ? "results" : "arguments");
    for (u32 k = 0; list && k < list->n; k++, ++*n) {
        const Operand *o = &list->items[k];
        if (o->kind == O_SYM && o->sym && o->sym->kind == SYM_VAR && o->sym->space == SPACE_LOCAL) {
            at[k] = (u32)o->sym->offset + (o->sym->in_func ? FUNC_LOCAL : 0), sizes[k] = (u32)o->sym->size;
            continue;
        }
        const Func *f = site->func;
        const Sym *param = f && k < (results ? f->n_rets : f->n_params) ? (results ? f->rets : f->params)[k] : NULL;
        if (o->kind == O_SINK && results && param) {
            sizes[k] = (u32)param->size, at[k] = reader_local(d, sizes[k]);
            continue;
        }
        bool is_value = o->kind == O_REG || (!results && (o->kind == O_IMM || o->kind == O_F32 || o->kind == O_F64));
        if (!is_value || (o->kind != O_REG && !param)) dec_error(d, "arguments need to be .param variables%s", results ? "" : ", registers or constants");
        Type t = o->kind == O_REG ? o->type : param->type ? param->type : T_b32;
        if (o->kind != O_REG && ptx_type_bits(t) > 64) t = T_b64;
        sizes[k] = t == T_pred ? 4 : ptx_type_bits(t) / 8;
        at[k] = reader_local(d, sizes[k]);
        if (results) {
            u32 slot = dec_dst_op(d, o, t);
            decode_frame(d, slot, t, at[k], true);
        } else decode_frame(d, dec_src_op(d, o, t), t, at[k], false);
    }
}

// call (ret), name, (args), prototype;  the parts in ( ) may be missing
static void decode_call(Dec *d) {
    dec_mod(d, "uni");
    CallSite *site = dec_alloc(d, sizeof *site);
    u32 i = 0;
    const Operand *rets = NULL, *args = NULL;
    if (i < d->n_ops && d->ops[i].kind == O_VEC) rets = &d->ops[i++];
    const Operand *callee = dec_op(d, i++);
    if (i < d->n_ops && d->ops[i].kind == O_VEC) args = &d->ops[i++];
    bool through = callee->kind == O_REG;
    if (!through && (callee->kind != O_SYM || !callee->sym || callee->sym->kind != SYM_FUNC))
        dec_error(d, "`%.*s` is not a function", (int)callee->name.n, callee->name.s ? callee->name.s : "");
    site->func = through ? NULL : callee->sym->func;
    decode_values(d, site, args, false);
    u32 a = through ? dec_src_op(d, callee, T_u64) : NO_SLOT;
    u32 pc = d->module->n_code;
    dec_emit(d, through ? x_call_through : x_call);
    decode_values(d, site, rets, true);
    Insn *in = &d->module->code[pc];
    in->a = a;
    in->extra = site;
    in->flags = F_CALL;
    if (!through && site->func->entry == NO_SLOT) site->builtin = builtin_named(d, site);
    if (through || site->builtin) return;
    if (site->n_args != site->func->n_params || site->n_rets != site->func->n_rets)
        dec_error(d, "`%.*s` takes %u arguments and gives %u results", (int)site->func->name.n, site->func->name.s,
                  site->func->n_params, site->func->n_rets);
    if (!fits(site, site->func)) dec_error(d, "an argument or a result of `%.*s` is larger than its parameter", (int)site->func->name.n, site->func->name.s);
}

// ---- Memory of the stack

static void x_alloca(Warp *w, const Insn *in) {          // aux: alignment
    EACH_ACTIVE({
        u64 size = lane64(w, in->a)[l], at = (w->top[l] + (u64)in->aux - 1) / (u64)in->aux * (u64)in->aux, end = size > MAX_STACK ? size : at + size;
        if (!frame_reserve(w, in, l, end > MAX_STACK ? MAX_STACK + 1 : (u32)end, 0)) return;
        lane64(w, in->d)[l] = FUNC_LOCAL + at;
    });
}
static void decode_alloca(Dec *d) {
    Type t = dec_need_type(d);
    dec_count(d, 2, 3);
    int64_t align = d->n_ops > 2 ? dec_imm(d, 2) : 8;
    if (ptx_type_bits(t) != 64) dec_error(d, "only 64-bit addresses are supported");
    if (align < 1 || align > 1024 || align & (align - 1)) dec_error(d, "an alignment of %lld", (long long)align);
    u32 a = dec_src(d, 1, T_u64), slot = dec_dst(d, 0, T_u64);
    Insn *in = dec_emit(d, x_alloca);
    in->d = slot, in->a = a, in->aux = align;
}

static void x_stack_save(Warp *w, const Insn *in) { EACH_ACTIVE(lane64(w, in->d)[l] = FUNC_LOCAL + w->top[l]); }
static void x_stack_restore(Warp *w, const Insn *in) {
    EACH_ACTIVE({
        u64 top = lane64(w, in->a)[l] - FUNC_LOCAL;
        if (top > w->top[l]) emu_fault(w, in, l, EMU_FAULT_BAD_OPERAND, "`stackrestore` to where the stack has not been");
        else w->top[l] = (u32)top;
    });
}
static void decode_stack(Dec *d) {
    bool save = ptx_str_is(d->name, "stacksave");
    Type t = dec_need_type(d);
    dec_count(d, 1, 1);
    if (ptx_type_bits(t) != 64) dec_error(d, "only 64-bit addresses are supported");
    u32 slot = save ? dec_dst(d, 0, T_u64) : dec_src(d, 0, T_u64);
    Insn *in = dec_emit(d, save ? x_stack_save : x_stack_restore);
    *(save ? &in->d : &in->a) = slot;
}

const InsnDef VARIANT(defs_call)[] = {
    {"call", decode_call, EMU_CLASS_CONTROL},      {"ret", decode_ret, EMU_CLASS_CONTROL}, {"alloca", decode_alloca, EMU_CLASS_LOCAL},
    {"stacksave", decode_stack, EMU_CLASS_LOCAL},  {"stackrestore", decode_stack, EMU_CLASS_LOCAL}, {NULL, NULL, 0},
};
