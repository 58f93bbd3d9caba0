// What device functions keep: parameters, results and local variables in frames, a stack of them for each lane, so that
// lanes may be in different calls at once and a function may call itself.
//
//     local[1], a lane  | frame of f | frame of g | alloca of g | frame of g again | ... | top
//
// The slot SP_frame holds where the current frame of each lane begins; a variable of a function is an offset from there.
// Registers of a function exist once a warp: where a lane calls a function that it is in already, they are put aside
// until it returns. All that counts towards MAX_STACK.
#include "emu/exec.h"

uint8_t *frame_at(const Warp *w, int l, uint32_t local) {
    if (local < FUNC_LOCAL) return w->local[0] + (size_t)l * w->launch->kernel->local_bytes + local;
    return w->local[1] + (size_t)l * w->stack_bytes + (local - FUNC_LOCAL);
}

uint32_t frame_variable(const Warp *w, int l, uint32_t offset) {
    return offset >= FUNC_LOCAL ? offset - FUNC_LOCAL + lane32(w, SPECIAL_SLOT(SP_frame))[l] : offset;
}

static void grow(Warp *w, uint32_t end) {
    uint32_t size = w->stack_bytes ? w->stack_bytes : 256;
    while (size < end) size *= 2;
    if (size == w->stack_bytes) return;
    uint8_t *to = emu_got(malloc(32 * (size_t)size));
    const EmuOptions *o = &w->launch->options;
    emu_junk_fill(to, 32 * (size_t)size, o->junk ? o->junk : EMU_FILL_RANDOM, o->junk_seed + w->id + 3);
    for (size_t l = 0; l < 32 && w->stack_bytes; l++) memcpy(to + l * size, w->local[1] + l * w->stack_bytes, w->stack_bytes);
    free(w->local[1]);
    w->local[1] = to;
    w->stack_bytes = size;
}

bool frame_reserve(Warp *w, const Insn *in, int l, uint32_t end, uint32_t cost) {
    if (end > MAX_STACK || w->used[l] + cost > MAX_STACK) {
        emu_fault_stop(w, in, l, EMU_FAULT_OUT_OF_BOUNDS, "%u calls deep, the stack of %d bytes is full: a recursion that does not end?",
                       w->depth[l], MAX_STACK);
        return false;
    }
    grow(w, end);
    w->used[l] += cost;
    w->top[l] = end;
    return true;
}

// The registers of a function as one lane has them, to `saved` and back.
static void registers(Warp *w, const Func *f, int l, uint8_t *saved, bool back) {
    for (uint32_t i = 0; i < f->n_slots; i++) {
        char *slot = slot_at(w, f->slots[i].slot);
        uint32_t shift = f->slots[i].shift;
        if (f->slots[i].is_pred) {
            uint32_t *p = (uint32_t *)(void *)slot;
            if (back) *p = blend_pred(*p, *saved ? ~0u : 0, 1u << l);
            else *saved = *p >> l & 1;
            saved++;
            continue;
        }
        uint8_t *lane = (uint8_t *)slot + ((size_t)l << shift);
        memcpy(back ? lane : saved, back ? saved : lane, (size_t)1 << shift);
        saved += (size_t)1 << shift;
    }
}

bool frame_push(Warp *w, const Insn *in, int l, const Func *f, uint32_t pc) {
    uint32_t *frame = lane32(w, SPECIAL_SLOT(SP_frame)), at = (w->top[l] + 15) & ~15u, depth = w->depth[l];
    bool again = false;
    for (uint32_t i = depth; i-- && !again;) again = w->calls[l][i].func == f;
    Call call = {.pc = pc, .frame = frame[l], .top = w->top[l], .func = f};
    call.cost = at - w->top[l] + f->frame_bytes + 16 + (again ? f->saved_bytes : 0);
    if (!frame_reserve(w, in, l, at + f->frame_bytes, call.cost)) return false;
    if (depth == w->cap_calls[l]) {
        w->cap_calls[l] = depth ? 2 * depth : 8;
        w->calls[l] = emu_got(realloc(w->calls[l], w->cap_calls[l] * sizeof *w->calls[l]));
    }
    if (again && f->saved_bytes) {
        call.saved = emu_got(malloc(f->saved_bytes));
        registers(w, f, l, call.saved, false);
    }
    w->calls[l][w->depth[l]++] = call;
    frame[l] = FUNC_LOCAL + at;
    return true;
}

Call frame_pop(Warp *w, int l) {
    Call call = w->calls[l][--w->depth[l]];
    if (call.saved) registers(w, call.func, l, call.saved, true);
    free(call.saved);
    call.saved = NULL;
    lane32(w, SPECIAL_SLOT(SP_frame))[l] = call.frame;
    w->top[l] = call.top;
    w->used[l] -= call.cost;
    return call;
}

void frames_free(Warp *w) {
    for (int l = 0; l < 32; l++) {
        for (uint32_t i = 0; i < w->depth[l]; i++) free(w->calls[l][i].saved);
        free(w->calls[l]);
    }
}

// ---- Registers that stand for a place in a frame: imm

static void x_frame_get(Warp *w, const Insn *in) {
    uint32_t bytes = in->type == T_pred ? 4 : ptx_type_bits((Type)in->type) / 8, m = 0;
    EACH_ACTIVE({
        const uint8_t *p = frame_at(w, l, frame_variable(w, l, (uint32_t)in->imm));
        uint64_t v[2] = {0, 0};
        memcpy(v, p, bytes);
        if (in->type == T_pred) m |= (uint32_t)(v[0] & 1) << l;
        else if (bytes <= 4) lane32(w, in->d)[l] = (uint32_t)v[0];
        else memcpy((char *)slot_at(w, in->d) + (size_t)l * bytes, v, bytes);
    });
    if (in->type == T_pred) *pred(w, in->d) = blend_pred(*pred(w, in->d), m, w->active);
}

static void x_frame_put(Warp *w, const Insn *in) {
    uint32_t bytes = in->type == T_pred ? 4 : ptx_type_bits((Type)in->type) / 8;
    EACH_ACTIVE({
        uint8_t *p = frame_at(w, l, frame_variable(w, l, (uint32_t)in->imm));
        uint32_t v = in->type == T_pred ? *pred(w, in->a) >> l & 1 : bytes <= 4 ? lane32(w, in->a)[l] : 0;
        if (bytes <= 4) memcpy(p, &v, bytes);
        else memcpy(p, (char *)slot_at(w, in->a) + (size_t)l * bytes, bytes);
    });
}

void decode_frame(Dec *d, uint32_t slot, Type t, uint32_t offset, bool get) {
    Insn *in = dec_emit(d, get ? x_frame_get : x_frame_put);
    *(get ? &in->d : &in->a) = slot;
    in->type = (uint8_t)t;
    in->imm = offset;
}
