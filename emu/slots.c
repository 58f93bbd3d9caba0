// Registers of a kernel share slots. PTX names a register for each value; few of them are alive at once, and what a warp
// touches is to stay in the cache.
//
// As statements are decoded, what they do to each slot is noted. When a kernel is read, liveness is solved over its blocks
// (only for registers that more than one block names), each register is given the statements from its first to its last
// live one, and walking over those hands out slots. Slots are 32 lanes wide: lanes elsewhere in the code have theirs to
// themselves, whatever the register that they have there.
//
//     1  mov %r1, %tid.x         %r1 1-2        slot a
//     2  add %r2, %r1, 1         %r2 2-3        slot b
//     3  @%p mov %r3, 7          %r3 0-4        a slot of its own: where %p is not set, 4 reads what nothing wrote
//     4  st [%r2], %r3
//
// A write under a guard is none that ends what was there before. A register that some way reaches without a write holds
// junk from the beginning, and nothing else is ever put there. So it is with what a wgmma in flight reads and writes.
#include "emu/reader.h"

enum { NONE = -1, SEVERAL = -2, FIXED_BYTES = SP_COUNT * 128, MOST_WORDS = 1 << 22 };

typedef struct Register {
    uint32_t slot, bytes;
    uint32_t first, last;         // statements
    int32_t  block;               // the one that names it
    uint32_t global;              // its bit, if several do; 0: none does but one
    bool     own;                 // shares its slot with nothing
    uint32_t to;                  // its slot at the end
    uint32_t next;                // of those that begin, or end, with the same statement
} Register;

typedef struct CodeBlock { uint32_t first, end, jumps, n_jumps; } CodeBlock;     // statements; and log.jumps from the last of them

typedef struct Solver {
    SlotLog   *log;
    Register  *regs;
    uint32_t   n_regs, *number;   // of a slot, by its offset / 4
    CodeBlock *blocks;
    uint32_t   n_blocks, n_globals, words;
    uint32_t  *block_of;          // a statement's
    uint64_t  *in, *out, *made, *used;       // bits of globals, `words` for each block
} Solver;

static bool is_register(uint32_t slot) { return slot != NO_SLOT && (slot & 3) == BASE_REGS && slot >= FIXED_BYTES; }

// ---- Notes while decoding

void slots_begin(SlotLog *log, uint32_t code) {
    log->n_touches = log->n_statements = log->n_made = log->n_jumps = log->n_places = 0;
    log->entry = code;
}

// What the solver has, so that nothing is lost where there is no room for the rest.
static void *hold(SlotLog *log, size_t n, size_t size) { return log->held[log->n_held++] = emu_got(calloc(n, size)); }
static void let_go(SlotLog *log) { while (log->n_held) free(log->held[--log->n_held]); }

void slots_free(SlotLog *log) { let_go(log), free(log->touches), free(log->statements), free(log->made), free(log->jumps), free(log->places); }

void slots_statement(Dec *d, bool ends) {
    SlotLog *log = d->slots;
    if (!log) return;
    if (log->n_statements == log->cap_statements) log->statements = emu_grown(log->statements, &log->cap_statements, 1024, sizeof *log->statements);
    log->statements[log->n_statements++] = (SlotStatement){.pc = d->module->n_code, .touches = log->n_touches, .ends = ends && d->guard == NO_SLOT};
    slots_touch(d, d->guard, SLOT_READ);
}

void slots_touch(Dec *d, uint32_t slot, SlotUse use) {
    SlotLog *log = d->slots;
    if (!log || !is_register(slot)) return;
    if (log->n_touches == log->cap_touches) log->touches = emu_grown(log->touches, &log->cap_touches, 4096, sizeof *log->touches);
    if (use == SLOT_WRITTEN && d->guard != NO_SLOT) use = SLOT_PERHAPS;
    log->touches[log->n_touches++] = (SlotTouch){slot, use};
}

void slots_made(Dec *d, uint32_t slot, uint32_t bytes) {
    SlotLog *log = d->slots;
    if (!log) return;
    if (log->n_made == log->cap_made) log->made = emu_grown(log->made, &log->cap_made, 1024, sizeof *log->made);
    log->made[log->n_made++] = (SlotMade){slot, bytes};
}

void slots_own(Dec *d) {
    if (d->slots) d->slots->statements[d->slots->n_statements - 1].own = true;
}

void slots_place(Dec *d, uint32_t *place) {
    SlotLog *log = d->slots;
    if (!log) return;
    if (log->n_places == log->cap_places) log->places = emu_grown(log->places, &log->cap_places, 64, sizeof *log->places);
    log->places[log->n_places++] = place;
}

void slots_jump(Dec *d, uint32_t from, uint32_t to) {
    SlotLog *log = d->slots;
    if (!log) return;
    if (log->n_jumps == log->cap_jumps) log->jumps = emu_grown(log->jumps, &log->cap_jumps, 256, sizeof *log->jumps);
    log->jumps[log->n_jumps++] = (SlotJump){from, to};
}

// ---- Blocks

static uint32_t statement_of(const SlotLog *log, uint32_t pc) {          // some have no code: the last of those that begin together
    uint32_t low = 0, high = log->n_statements;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (log->statements[middle].pc <= pc) low = middle;
        else high = middle;
    }
    return low;
}

static uint32_t statement_at(const SlotLog *log, uint32_t pc) {          // the first of those
    uint32_t i = statement_of(log, pc);
    while (i && log->statements[i - 1].pc == pc) i--;
    return i;
}

static int by_from(const void *a, const void *b) {
    const SlotJump *x = a, *y = b;
    return x->from < y->from ? -1 : x->from > y->from;
}

static void find_blocks(Solver *s) {
    SlotLog *log = s->log;
    uint32_t n = log->n_statements, jump = 0;
    bool    *begins = hold(log, n + 1, sizeof *begins);
    for (uint32_t i = 0; i < log->n_jumps; i++) {
        SlotJump *j = &log->jumps[i];
        j->from = statement_of(log, j->from), j->to = statement_at(log, j->to);
        begins[j->from + 1] = begins[j->to] = true;
    }
    if (log->n_jumps) qsort(log->jumps, log->n_jumps, sizeof *log->jumps, by_from);
    s->blocks = hold(log, n + 1, sizeof *s->blocks);
    s->block_of = hold(log, n + 1, sizeof *s->block_of);
    for (uint32_t i = 0; i < n; i++) {
        if (!i || begins[i] || log->statements[i - 1].ends) s->blocks[s->n_blocks++].first = i;
        CodeBlock *b = &s->blocks[s->n_blocks - 1];
        b->end = i + 1;
        s->block_of[i] = s->n_blocks - 1;
        if (!b->n_jumps) b->jumps = jump;
        for (; jump < log->n_jumps && log->jumps[jump].from == i; jump++) b->n_jumps++;
    }
}

// ---- Liveness

static Register *register_of(const Solver *s, uint32_t slot) { return &s->regs[s->number[slot / 4] - 1]; }

static void number_registers(Solver *s) {
    const SlotLog *log = s->log;
    uint32_t end = log->n_made ? log->made[log->n_made - 1].slot + 4 : 0;
    s->n_regs = log->n_made;
    s->regs = hold(s->log, s->n_regs + 1, sizeof *s->regs);
    s->number = hold(s->log, end / 4 + 1, sizeof *s->number);
    for (uint32_t i = 0; i < s->n_regs; i++) {
        s->regs[i] = (Register){.slot = log->made[i].slot, .bytes = log->made[i].bytes, .first = ~0u, .block = NONE};
        s->number[log->made[i].slot / 4] = i + 1;
    }
}

static void extend(Register *r, uint32_t from, uint32_t to) {
    if (from < r->first) r->first = from;
    if (r->last < to) r->last = to;
}

typedef void TouchFn(Solver *, Register *, SlotUse, uint32_t statement);

static void each_touch(Solver *s, TouchFn *fn) {
    const SlotLog *log = s->log;
    for (uint32_t i = 0; i < log->n_statements; i++) {
        uint32_t at = log->statements[i].touches, end = i + 1 < log->n_statements ? log->statements[i + 1].touches : log->n_touches;
        for (int written = 0; written < 2; written++)    // a statement reads before it writes
            for (uint32_t t = at; t < end; t++)
                if ((log->touches[t].use != SLOT_READ) == written) fn(s, register_of(s, log->touches[t].slot), log->touches[t].use, i);
    }
}

static void see_blocks(Solver *s, Register *r, SlotUse use, uint32_t statement) {
    int32_t block = (int32_t)s->block_of[statement];
    bool    exposed = r->block == NONE && use != SLOT_WRITTEN && use != SLOT_BETWEEN;
    r->block = exposed || (r->block != NONE && r->block != block) ? SEVERAL : block;
    r->own |= s->log->statements[statement].own;
    extend(r, statement, statement);
}

static void see_bits(Solver *s, Register *r, SlotUse use, uint32_t statement) {
    if (!r->global) return;
    uint64_t bit = 1ull << (r->global - 1) % 64;
    size_t   at = (size_t)s->block_of[statement] * s->words + (r->global - 1) / 64;
    if (use == SLOT_WRITTEN || use == SLOT_BETWEEN) s->made[at] |= bit;
    else if (!(s->made[at] & bit)) s->used[at] |= bit;
}

static bool flow_into(Solver *s, uint32_t from, uint32_t to) {            // out of `from` goes what `to` wants; true: something new
    uint64_t *out = s->out + (size_t)from * s->words, *in = s->in + (size_t)to * s->words, more = 0;
    for (uint32_t k = 0; k < s->words; k++) more |= in[k] & ~out[k], out[k] |= in[k];
    return more;
}

static void solve(Solver *s) {
    for (bool again = true; again;) {
        again = false;
        for (uint32_t b = s->n_blocks; b--;) {
            const CodeBlock *block = &s->blocks[b];
            if (b + 1 < s->n_blocks && !s->log->statements[block->end - 1].ends) again |= flow_into(s, b, b + 1);
            for (uint32_t j = 0; j < block->n_jumps; j++) again |= flow_into(s, b, s->block_of[s->log->jumps[block->jumps + j].to]);
            for (size_t k = (size_t)b * s->words, end = k + s->words; k < end; k++) s->in[k] = s->used[k] | (s->out[k] & ~s->made[k]);
        }
    }
}

static void live_ranges(Solver *s) {
    for (uint32_t i = 0; i < s->n_regs; i++) {
        Register *r = &s->regs[i];
        if (!r->global) continue;
        size_t   word = (r->global - 1) / 64;
        uint64_t bit = 1ull << (r->global - 1) % 64;
        r->own |= (s->in[word] & bit) != 0;              // at the beginning
        for (uint32_t b = 0; b < s->n_blocks; b++) {
            const CodeBlock *block = &s->blocks[b];
            if (s->in[b * s->words + word] & bit) extend(r, block->first, block->first);
            if (s->out[b * s->words + word] & bit) extend(r, block->end - 1, block->end - 1);
        }
    }
}

static bool find_live(Solver *s) {                        // false: too much to solve
    each_touch(s, see_blocks);
    for (uint32_t i = 0; i < s->n_regs; i++)
        if (s->regs[i].block == SEVERAL) s->regs[i].global = ++s->n_globals;
    s->words = (s->n_globals + 63) / 64;
    size_t n = (size_t)s->words * s->n_blocks;
    if (n > MOST_WORDS) return false;
    s->in = hold(s->log, 4 * n + 1, sizeof *s->in);
    s->out = s->in + n, s->made = s->out + n, s->used = s->made + n;
    each_touch(s, see_bits);
    solve(s);
    live_ranges(s);
    return true;
}

// ---- Slots handed out

enum { SIZES = 4 };
static uint32_t size_index(uint32_t bytes) { return bytes == 4 ? 0 : bytes == 128 ? 1 : bytes == 256 ? 2 : 3; }

static uint32_t hand_out(Solver *s) {                     // the bytes of all
    uint32_t n = s->log->n_statements, at = FIXED_BYTES, free_list[SIZES] = {0};
    uint32_t *begin = hold(s->log, 2 * (size_t)n + 2, sizeof *begin), *end = begin + n + 1;
    for (uint32_t i = s->n_regs; i--;) {
        Register *r = &s->regs[i];
        if (r->block == NONE) r->first = r->last = 0, r->own = true;
        r->next = begin[r->first], begin[r->first] = i + 1;
    }
    for (uint32_t k = 0; k < n; k++) {
        for (uint32_t i = begin[k], next; i; i = next) {
            Register *r = &s->regs[i - 1];
            uint32_t *reuse = &free_list[size_index(r->bytes)], align = r->bytes == 4 ? 4 : 32;
            next = r->next;
            if (!r->own && *reuse) r->to = s->regs[*reuse - 1].to, *reuse = s->regs[*reuse - 1].next;
            else at = (at + align - 1) & ~(align - 1), r->to = at, at += r->bytes;
            if (!r->own) r->next = end[r->last], end[r->last] = i;
        }
        for (uint32_t i = end[k], next; i; i = next) {
            Register *r = &s->regs[i - 1];
            uint32_t *reuse = &free_list[size_index(r->bytes)];
            next = r->next, r->next = *reuse, *reuse = i;
        }
    }
    return at;
}

static void rename_slot(const Solver *s, uint32_t *slot) {
    if (is_register(*slot)) *slot = register_of(s, *slot)->to;
}

static void rename_all(const Solver *s, Insn *code, uint32_t n) {
    for (Insn *in = code; in < code + n; in++) {
        uint32_t *fields[] = {&in->d, &in->a, &in->b, &in->c, &in->e, &in->guard};
        for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) rename_slot(s, fields[i]);
        for (uint32_t i = 0; i < in->n; i++) rename_slot(s, &in->list[i]);
    }
    for (uint32_t i = 0; i < s->log->n_places; i++) rename_slot(s, s->log->places[i]);
}

void slots_share(Dec *d) {
    Solver s = {.log = d->slots};
    EmuModule *m = d->module;
    number_registers(&s);
    find_blocks(&s);
    if (s.n_regs && find_live(&s)) {
        *d->reg_bytes = hand_out(&s);
        rename_all(&s, m->code + s.log->entry, m->n_code - s.log->entry);
    }
    let_go(d->slots);
}
