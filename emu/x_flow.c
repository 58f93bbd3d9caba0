// Control flow: branches and exits. Calls are in x_call.c.
//
// A divergent branch leaves the lanes that fall through as a group of their own (warps.c).
#include "emu/exec.h"
#include "emu/reader.h"

typedef uint32_t u32;
typedef uint64_t u64;

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
    bool alone = w->launch->module->uses_workspace && !w->launch->workspace;
    emu_fault_stop(w, in, __builtin_ctz(w->active), EMU_FAULT_TRAP, "`%s` reached%s", in->aux ? "brkpt" : "trap",
                   alone ? "; the module waits for whole grids, which needs a cooperative launch" : "");
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

const InsnDef VARIANT(defs_flow)[] = {
    {"bra",  decode_bra,  EMU_CLASS_CONTROL},  {"brx",   decode_brx,  EMU_CLASS_CONTROL}, {"exit",      decode_exit,      EMU_CLASS_CONTROL},
    {"trap", decode_trap, EMU_CLASS_CONTROL},  {"brkpt", decode_trap, EMU_CLASS_CONTROL}, {"nanosleep", decode_nanosleep, EMU_CLASS_CONTROL},
    {"pmevent", decode_pmevent, EMU_CLASS_OTHER}, {NULL, NULL, 0},
};
