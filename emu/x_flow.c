// Control flow: branches, calls, returns, exits, and what a device function may call outside the module.
//
// A divergent branch leaves the lanes that fall through as a group of their own (warps.c). A call pushes
// each lane's return pc on that lane's stack; arguments are copied between .param variables, which are
// local memory, so lanes may be in different calls at once. Registers and locals of a device function
// exist once: recursion is a fault.
#include "emu/exec.h"
#include "emu/reader.h"

typedef uint32_t u32;
typedef uint64_t u64;

enum { CALL_NONE, CALL_VPRINTF, CALL_ASSERT, CALL_OTHER };

static void go(Warp *w, u32 taken, u32 target) {
    u32 rest = w->mask & ~taken;
    if (rest) {
        warp_push(w, w->pc, rest);
        w->mask = taken;
        w->event |= EV_GROUP;
    } else if (w->n_groups) w->event |= EV_GROUP;
    w->pc = target;
}

static void x_bra(Warp *w, const Insn *in) { go(w, w->active, (u32)in->imm); }

static void decode_bra(Dec *d) {
    dec_mod(d, "uni");
    dec_count(d, 1, 1);
    Insn *in = dec_emit(d, x_bra);
    reader_fix_branch(d, in, dec_op(d, 0));
}

static void x_brx(Warp *w, const Insn *in) {
    const Sym *table = in->extra;
    u32 left = w->active, rest = w->mask & ~left, next = w->pc;
    if (rest) warp_push(w, next, rest);
    while (left) {                                       // one group per distinct target
        u32 l = (u32)__builtin_ctz(left), index = lane32(w, in->a)[l], same = 0;
        for (u32 m = left; m; m &= m - 1) {
            u32 k = (u32)__builtin_ctz(m);
            if (lane32(w, in->a)[k] == index) same |= 1u << k;
        }
        if (!table || index >= table->n_labels) {
            emu_fault_stop(w, in, (int)l, EMU_FAULT_BAD_OPERAND, "`brx.idx` with index %u of %u targets", index,
                           table ? table->n_labels : 0);
            return;
        }
        left &= ~same;
        if (left) warp_push(w, table->labels[index]->pc, same);
        else w->mask = same, w->pc = table->labels[index]->pc;
    }
    w->event |= EV_GROUP;
}

static void decode_brx(Dec *d) {
    if (!dec_mod(d, "idx")) dec_error(d, "`brx` needs .idx");
    dec_mod(d, "uni");
    dec_count(d, 2, 2);
    u32 a = dec_src(d, 0, T_u32);
    Insn *in = dec_emit(d, x_brx);
    in->a = a;
    reader_fix_branch(d, in, dec_op(d, 1));
}

// ---- Exits

static void x_exit(Warp *w, const Insn *in) {
    (void)in;
    warp_exit_lanes(w, w->active);
}
static void decode_exit(Dec *d) {
    dec_count(d, 0, 0);
    dec_emit(d, x_exit);
}

static void x_trap(Warp *w, const Insn *in) {
    emu_fault_stop(w, in, __builtin_ctz(w->active), EMU_FAULT_TRAP, "`%s` reached", in->aux ? "brkpt" : "trap");
}
static void decode_trap(Dec *d) {
    dec_count(d, 0, 0);
    bool brk = ptx_str_is(d->name, "brkpt");
    dec_emit(d, x_trap)->aux = brk;
}

static void x_nothing(Warp *w, const Insn *in) { (void)w, (void)in; }
static void x_yield(Warp *w, const Insn *in) {
    (void)in;
    w->event |= EV_YIELD;
}
static void decode_nanosleep(Dec *d) {
    dec_need_type(d);
    dec_count(d, 1, 1);
    dec_emit(d, x_yield);
}
static void decode_pmevent(Dec *d) {
    dec_mod(d, "mask");
    dec_count(d, 1, 1);
    dec_emit(d, x_nothing);
}

// ---- Calls

static void copy_local(Warp *w, int l, u32 to, u32 from, u32 n) {
    EmuModule *m = w->launch->module;
    Kernel *k = w->launch->kernel;
    uint8_t *ends[2];
    u32 at[2] = {to, from};
    for (int i = 0; i < 2; i++) {
        bool f = at[i] >= FUNC_LOCAL;
        u32 size = f ? m->func_local_bytes : k->local_bytes;
        ends[i] = w->local[f] + (size_t)l * size + (f ? at[i] - FUNC_LOCAL : at[i]);
    }
    memmove(ends[0], ends[1], n);
}

static void x_ret(Warp *w, const Insn *in) {             // in a kernel, or at depth 0: exit
    u32 left = w->active, done = 0;
    for (u32 m = left; m; m &= m - 1) {
        u32 l = (u32)__builtin_ctz(m);
        if (!w->depth[l]) done |= 1u << l;
    }
    (void)in;
    if (done) {
        if (done == left) { warp_exit_lanes(w, done); return; }
    }
    u32 rest = w->mask & ~left;
    left &= ~done;
    if (rest) warp_push(w, w->pc, rest);
    w->mask = left | done;
    if (done) {
        w->mask = done;
        u32 keep = w->active;
        w->active = done;
        warp_exit_lanes(w, done);
        w->active = keep;
    }
    while (left) {
        u32 l = (u32)__builtin_ctz(left), pc = w->stack[w->depth[l] - 1][l], same = 0;
        for (u32 m = left; m; m &= m - 1) {
            u32 k = (u32)__builtin_ctz(m);
            if (w->stack[w->depth[k] - 1][k] == pc) same |= 1u << k;
        }
        for (u32 m = same; m; m &= m - 1) w->depth[__builtin_ctz(m)]--;
        const Insn *call = &w->launch->module->code[pc - 1];
        const CallSite *site = call->extra;
        const Func *f = site->func;
        for (u32 m = same; m; m &= m - 1)
            for (u32 i = 0; i < site->n_rets && i < f->n_rets; i++)
                copy_local(w, __builtin_ctz(m), site->rets[i], (u32)f->rets[i]->offset, site->ret_sizes[i]);
        left &= ~same;
        warp_push(w, pc, same);
    }
    w->mask = 0;
    w->event |= EV_GROUP;
}
static void decode_ret(Dec *d) {
    dec_mod(d, "uni");
    dec_count(d, 0, 0);
    bool kernel = d->kernel != NULL;
    dec_emit(d, kernel ? x_exit : x_ret);
}

static bool read_string(Warp *w, const Insn *in, int l, u64 address, char *out, size_t n) {
    for (size_t i = 0; i + 1 < n; i++) {
        uint8_t *p = emu_memory_at(w, in, l, SPACE_GENERIC, address + i, 1, false);
        if (!p) return false;
        if (!(out[i] = (char)*p)) return true;
    }
    out[n - 1] = 0;
    return true;
}

static void print_text(Launch *launch, const char *text, size_t n) {
    pthread_mutex_lock(&launch->lock);
    if (launch->options.print) launch->options.print(launch->options.print_data, text, n);
    else fwrite(text, 1, n, stdout);
    pthread_mutex_unlock(&launch->lock);
}

// vprintf(format, arguments): arguments packed as C varargs, each at its own alignment.
static void print_lane(Warp *w, const Insn *in, int l, u64 format_at, u64 args) {
    char format[1024], out[4096], spec[32], text[1024];
    size_t at = 0;
    u64 offset = 0;
    if (!read_string(w, in, l, format_at, format, sizeof format)) return;
    for (const char *p = format; *p && at + 1 < sizeof out; p++) {
        if (*p != '%') { out[at++] = *p; continue; }
        if (p[1] == '%') { out[at++] = '%'; p++; continue; }
        size_t n = 0, longs = 0;
        spec[n++] = *p++;
        while (*p && strchr("-+ #0123456789.", *p) && n < 20) spec[n++] = *p++;
        for (; *p && strchr("lhjzt", *p); p++) longs += *p == 'l' || *p == 'j' || *p == 'z' || *p == 't';
        if (!*p) break;
        bool is_float = strchr("aAeEfFgG", *p) != NULL, wide = longs || is_float || *p == 's' || *p == 'p';
        u32 size = wide ? 8 : 4;
        offset = (offset + size - 1) / size * size;
        uint8_t *arg = emu_memory_at(w, in, l, SPACE_GENERIC, args + offset, size, false);
        if (!arg) return;
        u64 v = 0;
        memcpy(&v, arg, size);
        offset += size;
        int made = 0;
        if (*p == 's') {
            if (!read_string(w, in, l, v, text, sizeof text)) return;
            spec[n++] = 's', spec[n] = 0;
            made = snprintf(out + at, sizeof out - at, spec, text);
        } else if (is_float) {
            spec[n++] = *p, spec[n] = 0;
            made = snprintf(out + at, sizeof out - at, spec, f64_from(v));
        } else if (*p == 'c') {
            spec[n++] = 'c', spec[n] = 0;
            made = snprintf(out + at, sizeof out - at, spec, (int)v);
        } else if (*p == 'p') {
            made = snprintf(out + at, sizeof out - at, "0x%llx", (unsigned long long)v);
        } else if (strchr("diouxX", *p)) {
            spec[n++] = 'l', spec[n++] = 'l', spec[n++] = *p, spec[n] = 0;
            if (!wide && (*p == 'd' || *p == 'i')) v = (u64)(int64_t)(int32_t)v;
            made = snprintf(out + at, sizeof out - at, spec, (long long)v);
        }
        if (made < 0) return;
        at = at + (size_t)made < sizeof out ? at + (size_t)made : sizeof out - 1;
    }
    print_text(w->launch, out, at);
}

static u64 local_u64(Warp *w, int l, u32 offset, u32 size) {
    EmuModule *m = w->launch->module;
    bool f = offset >= FUNC_LOCAL;
    u32 area = f ? m->func_local_bytes : w->launch->kernel->local_bytes;
    u64 v = 0;
    memcpy(&v, w->local[f] + (size_t)l * area + (f ? offset - FUNC_LOCAL : offset), size < 8 ? size : 8);
    return v;
}

static void builtin(Warp *w, const Insn *in, const CallSite *site) {
    EACH_ACTIVE({
        if (site->builtin == CALL_VPRINTF && site->n_args == 2) {
            print_lane(w, in, l, local_u64(w, l, site->args[0], 8), local_u64(w, l, site->args[1], 8));
        } else if (site->builtin == CALL_ASSERT && site->n_args >= 3) {
            char text[256]; char file[128];
            if (!read_string(w, in, l, local_u64(w, l, site->args[0], 8), text, sizeof text)) return;
            if (!read_string(w, in, l, local_u64(w, l, site->args[1], 8), file, sizeof file)) return;
            emu_fault_stop(w, in, l, EMU_FAULT_TRAP, "assertion `%s` failed at %s:%u", text, file,
                           (u32)local_u64(w, l, site->args[2], 4));
            return;
        } else {
            emu_fault_stop(w, in, l, EMU_FAULT_TRAP, "a call of `%.*s`, which has no body", (int)site->func->name.n,
                           site->func->name.s);
            return;
        }
    });
}

static void x_call(Warp *w, const Insn *in) {
    const CallSite *site = in->extra;
    if (site->builtin) { builtin(w, in, site); return; }
    const Func *f = site->func;
    u32 taken = w->active, rest = w->mask & ~taken, pc = w->pc;
    for (u32 m = taken; m; m &= m - 1) {
        int l = __builtin_ctz(m);
        if (w->depth[l] >= CALL_DEPTH) {
            emu_fault_stop(w, in, l, EMU_FAULT_BAD_OPERAND, "calls nested deeper than %d", CALL_DEPTH);
            return;
        }
        for (u32 i = 0; i < w->depth[l]; i++) {
            const CallSite *outer = w->launch->module->code[w->stack[i][l] - 1].extra;
            if (outer->func != f) continue;
            emu_fault_stop(w, in, l, EMU_FAULT_BAD_OPERAND, "recursive call of `%.*s`", (int)f->name.n, f->name.s);
            return;
        }
        w->stack[w->depth[l]++][l] = pc;
        for (u32 i = 0; i < site->n_args && i < f->n_params; i++)
            copy_local(w, l, (u32)f->params[i]->offset, site->args[i], site->arg_sizes[i]);
    }
    if (rest) warp_push(w, pc, rest);
    w->mask = taken;
    w->pc = f->entry;
    if (rest || w->n_groups) w->event |= EV_GROUP;
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
    if (callee->kind == O_REG) dec_error(d, "calls through a register are not supported");
    if (callee->kind != O_SYM || !callee->sym || callee->sym->kind != SYM_FUNC)
        dec_error(d, "`%.*s` is not a function", (int)callee->name.n, callee->name.s ? callee->name.s : "");
    site->func = callee->sym->func;
    site->builtin = ptx_str_is(site->func->name, "vprintf")        ? CALL_VPRINTF
                    : ptx_str_is(site->func->name, "__assertfail") ? CALL_ASSERT
                                                                   : CALL_NONE;
    for (int side = 0; side < 2; side++) {
        const Operand *list = side ? rets : args;
        for (u32 k = 0; list && k < list->n; k++) {
            const Operand *o = &list->items[k];
            u32 most = side ? 8 : 64, *n = side ? &site->n_rets : &site->n_args;
            if (*n == most) dec_error(d, "more than %u arguments", most);
            u32 offset, size;
            if (o->kind == O_SYM && o->sym && o->sym->kind == SYM_VAR && o->sym->space == SPACE_LOCAL) {
                offset = (u32)o->sym->offset, size = (u32)o->sym->size;
            } else dec_error(d, "arguments need to be .param variables");
            if (side) site->rets[*n] = offset, site->ret_sizes[*n] = size;
            else site->args[*n] = offset, site->arg_sizes[*n] = size;
            ++*n;
        }
    }
    if (!site->builtin) {
        if (site->n_args != site->func->n_params || site->n_rets != site->func->n_rets)
            dec_error(d, "`%.*s` takes %u arguments and gives %u results", (int)site->func->name.n, site->func->name.s,
                      site->func->n_params, site->func->n_rets);
        for (u32 k = 0; k < site->n_args; k++)
            if (site->arg_sizes[k] > site->func->params[k]->size)
                dec_error(d, "argument %u is larger than its parameter", k + 1);
        for (u32 k = 0; k < site->n_rets; k++)
            if (site->ret_sizes[k] > site->func->rets[k]->size)
                dec_error(d, "result %u is larger than the function's", k + 1);
    }
    Insn *in = dec_emit(d, x_call);
    in->extra = site;
    in->flags = F_FLAG7;
    if (d->kernel) d->kernel->uses_functions = true;
}

const InsnDef VARIANT(defs_flow)[] = {
    {"bra",  decode_bra,  EMU_CLASS_CONTROL}, {"brx",       decode_brx,       EMU_CLASS_CONTROL}, {"call",    decode_call,    EMU_CLASS_CONTROL},
    {"ret",  decode_ret,  EMU_CLASS_CONTROL}, {"exit",      decode_exit,      EMU_CLASS_CONTROL}, {"trap",    decode_trap,    EMU_CLASS_CONTROL},
    {"brkpt", decode_trap, EMU_CLASS_CONTROL}, {"nanosleep", decode_nanosleep, EMU_CLASS_CONTROL}, {"pmevent", decode_pmevent, EMU_CLASS_OTHER},
    {NULL, NULL, 0},
};
