// Memory by owner: who holds what, and how a function leaves when memory is out.
//
//     Heap (of a context, a program, a graph, the process)
//       blocks   [head|....] <-> [head|........] <-> [head|..]       freed one by one, or all together
//       holds    fd 7 | mapping | device memory | module of LLVM      ended one by one, or all together, before the blocks
//
// An allocation that fails jumps to the thread's innermost guard (heap_give_up). The functions between are left as they
// stand, so everything that they would have freed has to be found by its owner. These hold everywhere:
//
//   1  A block belongs to the heap that its thread used when it was made. Nothing that lives longer than a heap points into
//      it. Blocks of chunks (arena.c), of texts (Buf) and of structs are alike.
//   2  What is no block (a file, a mapping, memory of a device, an object of LLVM) and is there while something may give up
//      is held: heap_hold when it is made, heap_let_go when it ends.
//   3  No lock is held while something may give up, but that of the function that has the guard, which releases it.
//   4  No frame of another library that is not C stands between a guard and what gives up. A function that LLVM or a thread
//      of someone else's calls has a guard of its own (heap_run), and says what happened when the library has returned.
//   5  A thread is waited for before what it works on is gone: heap_crew, or a hold whose end joins it.
//
// After giving up the objects of the heap may be half changed. Whoever has the guard drops the heap, or marks it broken: then
// nothing but that drop is left to be done with the owner. A heap is used by many threads at once, hence its lock, which
// is held for a few instructions.

#include "lang/heap.h"

#include "lang/asan.h"
#include "lang/lang.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef TK_ASAN
#include <sanitizer/asan_interface.h>
#endif

enum { ALIGN = 16 };

struct HeapBlock {
    HeapBlock *older, *newer;
    Heap      *heap;                         // NULL: nobody's
    void      *raw;                          // what the system gave
};

struct HeapHold {
    HeapHold *older;
    HeapEnd  *end;
    void     *of;
    uint64_t  what;
    bool      thread;
};

_Static_assert(sizeof(HeapBlock) % ALIGN == 0, "blocks must stay aligned");

static _Thread_local Heap      *here;
static _Thread_local HeapGuard *innermost;

// ---- giving up -----------------------------------------------------------------------------------

void heap_give_up(size_t asked) {
    if (innermost) {
        here = innermost->heap;
        longjmp(innermost->back, 1);
    }
    fprintf(stderr, "tkc: out of memory (%zu bytes asked)\n", asked);
    abort();
}

bool heap_enter(HeapGuard *g) {
    g->before = here;
    g->outer = innermost;
    g->entered = true;
    here = g->heap;
    innermost = g;
    return false;
}

void heap_leave(HeapGuard *g) {
    if (!g->entered) return;
    g->entered = false;
    here = g->before;
    innermost = g->outer;
}

HeapGuard *heap_guard(HeapGuard *g) {
    HeapGuard *before = innermost;
    if (g) innermost = g;
    return before;
}

bool heap_run(Heap *h, void (*work)(void *), void *ctx) {
    HeapGuard g HEAP_GUARDED = {.heap = h};
    if (heap_enter(&g) || setjmp(g.back)) return false;
    work(ctx);
    return true;
}

Heap *heap_here(void) { return here; }

Heap *heap_use(Heap *h) {
    Heap *before = here;
    here = h;
    return before;
}

// ---- blocks --------------------------------------------------------------------------------------

static void lock(Heap *h) {
    while (atomic_exchange_explicit(&h->locked, true, memory_order_acquire)) sched_yield();
}

static void unlock(Heap *h) { atomic_store_explicit(&h->locked, false, memory_order_release); }

static void link_block(HeapBlock *b, Heap *h) {
    b->heap = h;
    b->newer = b->older = NULL;
    if (!h) return;
    lock(h);
    b->older = h->blocks;
    if (h->blocks) h->blocks->newer = b;
    h->blocks = b;
    unlock(h);
}

static void unlink_block(HeapBlock *b) {
    Heap *h = b->heap;
    if (!h) return;
    lock(h);
    if (b->older) b->older->newer = b->newer;
    if (b->newer) b->newer->older = b->older;
    else h->blocks = b->older;
    unlock(h);
    b->heap = NULL;
}

static HeapBlock *block_of(void *p) { return (HeapBlock *)p - 1; }

static void *made(void *raw, size_t before) {
    if (!raw) return NULL;
    HeapBlock *b = (HeapBlock *)((char *)raw + before) - 1;
    b->raw = raw;
    link_block(b, here);
    return b + 1;
}

static void *or_give_up(void *p, size_t size) {
    if (!p) heap_give_up(size);
    return p;
}

// What the system would be asked for; 0: more than there can be.
static size_t with_head(size_t size, size_t head) { return size > PTRDIFF_MAX - 2 * head ? 0 : head + (size ? size : 1); }

void *heap_try(size_t size) {
    size_t all = with_head(size, sizeof(HeapBlock));
    return made(all ? malloc(all) : NULL, sizeof(HeapBlock));
}

void *heap_try_zeroed(size_t n, size_t size) {
    size_t all = size && n > PTRDIFF_MAX / size ? 0 : with_head(n * size, sizeof(HeapBlock));
    return made(all ? calloc(1, all) : NULL, sizeof(HeapBlock));
}

void *heap_try_aligned(size_t align, size_t size) {
    size_t head = align < sizeof(HeapBlock) ? sizeof(HeapBlock) : align, all = with_head(size, head);
    return made(all ? aligned_alloc(head, (all + head - 1) / head * head) : NULL, head);
}

void *heap_alloc(size_t size) { return or_give_up(heap_try_zeroed(1, size), size); }
void *heap_room(size_t size)  { return or_give_up(heap_try(size), size); }
void *heap_aligned(size_t align, size_t size) { return or_give_up(heap_try_aligned(align, size), size); }

void *heap_resize(void *p, size_t size) {
    if (!p) return heap_alloc(size);
    HeapBlock *b = block_of(p);
    Heap *h = b->heap;
    unlink_block(b);
    size_t all = with_head(size, sizeof *b);
    HeapBlock *grown = all ? realloc(b, all) : NULL;
    if (grown) grown->raw = grown;
    link_block(grown ? grown : b, h);
    if (!grown) heap_give_up(size);
    return grown + 1;
}

void heap_free(void *p) {
    if (!p) return;
    unlink_block(block_of(p));
    free(block_of(p)->raw);
}

void heap_release(void *p) { if (p) unlink_block(block_of(p)); }

// ---- holds ---------------------------------------------------------------------------------------

static void hold_as(HeapEnd *end, void *of, uint64_t what, bool thread) {
    Heap *h = here;
    if (!h) return;                          // who has no owner has no guard either
    HeapHold *hold = malloc(sizeof *hold);
    if (!hold) {
        end(of, what);
        heap_give_up(sizeof *hold);
    }
    *hold = (HeapHold){.end = end, .of = of, .what = what, .thread = thread};
    lock(h);
    hold->older = h->holds;
    h->holds = hold;
    unlock(h);
}

void heap_hold(HeapEnd *end, void *of, uint64_t what)        { hold_as(end, of, what, false); }
void heap_hold_thread(HeapEnd *end, void *of, uint64_t what) { hold_as(end, of, what, true); }

void heap_let_go(HeapEnd *end, void *of, uint64_t what) {
    Heap *h = here;
    HeapHold *found = NULL;
    if (!h) return;
    lock(h);
    for (HeapHold **at = &h->holds; *at && !found; at = found ? at : &(*at)->older)
        if ((*at)->end == end && (*at)->of == of && (*at)->what == what) found = *at, *at = found->older;
    unlock(h);
    if (!found) ice("let go of what its heap does not hold");
    free(found);
}

// ---- owners --------------------------------------------------------------------------------------

static HeapHold *take_hold(Heap *h, bool threads) {
    HeapHold *hold, **at = &h->holds;
    lock(h);
    while (*at && threads && !(*at)->thread) at = &(*at)->older;
    if ((hold = *at) != NULL) *at = hold->older;
    unlock(h);
    return hold;
}

static void end_holds(Heap *h, bool threads) {
    for (HeapHold *hold; (hold = take_hold(h, threads)) != NULL; free(hold)) hold->end(hold->of, hold->what);
}

void heap_drop(Heap *h) {
    Heap *before = heap_use(h);
    end_holds(h, true);
    end_holds(h, false);
    for (HeapBlock *b; (b = h->blocks) != NULL;) {
        h->blocks = b->older;
        if (b->older) b->older->newer = NULL;
        free(b->raw);
    }
    heap_use(before == h ? NULL : before);
}

// LeakSanitizer finds what nothing points to: in its builds the chain is cut, so that it does.
void heap_end(Heap *h) {
#ifdef TK_ASAN
    for (HeapHold *hold; !h->broken && (hold = take_hold(h, false)) != NULL;) free(hold);
    for (HeapBlock *b = h->broken ? NULL : h->blocks, *older; b; b = older) {
        older = b->older;
        b->older = b->newer = NULL;
        b->heap = NULL;
    }
    if (!h->broken) h->blocks = NULL;
#endif
    heap_drop(h);
}

// ---- threads -------------------------------------------------------------------------------------

struct HeapCrew {
    void      (*work)(void *);
    void       *ctx;
    Heap       *heap;
    atomic_bool failed;
    int         n;
    pthread_t   thread[HEAP_MAX_THREADS];
};

static void *one_of_crew(void *crew) {
    HeapCrew *c = crew;
    if (!heap_run(c->heap, c->work, c->ctx)) atomic_store(&c->failed, true);
    return NULL;
}

HeapCrew *heap_crew_start(int more, void (*work)(void *), void *ctx) {
    HeapCrew *c = heap_alloc(sizeof *c);
    *c = (HeapCrew){.work = work, .ctx = ctx, .heap = here};
    while (c->n < more && c->n < HEAP_MAX_THREADS && pthread_create(&c->thread[c->n], NULL, one_of_crew, c) == 0) c->n++;
    return c;
}

int heap_crew_size(const HeapCrew *c) { return c->n; }

bool heap_crew_wait(HeapCrew *c) {
    for (int i = 0; i < c->n; i++) pthread_join(c->thread[i], NULL);
    bool fine = !atomic_load(&c->failed);
    heap_free(c);
    return fine;
}

void heap_crew(int more, void (*work)(void *), void *ctx) {
    if (more <= 0) { work(ctx); return; }
    HeapCrew *c = heap_crew_start(more, work, ctx);
    bool own = heap_run(here, work, ctx), others = heap_crew_wait(c);
    if (!own || !others) heap_give_up(0);
}
