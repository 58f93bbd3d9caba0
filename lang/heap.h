// Memory and resources by owner, and what happens when memory runs out (heap.c).
#ifndef TK_LANG_HEAP_H
#define TK_LANG_HEAP_H

#include <setjmp.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct HeapBlock HeapBlock;
typedef struct HeapHold  HeapHold;

typedef struct Heap {                        // zeros are an empty one
    HeapBlock  *blocks;                      // newest first
    HeapHold   *holds;
    atomic_bool locked, broken;              // broken: memory ran out while its owner was being changed
} Heap;

// ---- blocks, of the thread's heap; they go back from any thread ------------------------------------
void *heap_alloc(size_t size);               // zeroed; without memory it gives up
void *heap_room(size_t size);                // not zeroed
void *heap_aligned(size_t align, size_t size);              // not zeroed; align: a power of two
void *heap_resize(void *p, size_t size);     // what is new of it is not zeroed
void *heap_try(size_t size);                 // not zeroed, or NULL: for room whose size a user decides
void *heap_try_zeroed(size_t n, size_t size);
void *heap_try_aligned(size_t align, size_t size);          // not zeroed
void  heap_free(void *p);                    // NULL is fine
void  heap_release(void *p);                 // p belongs to no heap any more: to whoever has it

// ---- resources of the thread's heap ----------------------------------------------------------------
// When the heap is dropped `end(of, what)` is called, the newest first. Holding gives up without memory, after that call.
typedef void HeapEnd(void *of, uint64_t what);
void heap_hold(HeapEnd *end, void *of, uint64_t what);
void heap_hold_thread(HeapEnd *end, void *of, uint64_t what);       // whose end waits for a thread: before all others
void heap_let_go(HeapEnd *end, void *of, uint64_t what);    // without the call; of the thread's heap, else of none

// ---- owners ------------------------------------------------------------------------------------------
Heap *heap_here(void);                       // the thread's; NULL: blocks have no owner
Heap *heap_use(Heap *h);                     // the thread's from here on; the one before
void  heap_drop(Heap *h);                    // ends what it holds, then frees its blocks
void  heap_end(Heap *h);                     // the same, but of one that is not broken nothing is left: else a sanitizer says so

// ---- giving up ---------------------------------------------------------------------------------------
_Noreturn void heap_give_up(size_t asked);   // to the thread's innermost guard; without one the process ends

// Runs work(ctx) with h as the thread's heap. False: memory ran out; what there is in h stays there.
bool heap_run(Heap *h, void (*work)(void *ctx), void *ctx);

// The same for a function's own body:
//
//     HeapGuard g HEAP_GUARDED = {.heap = h};              undone wherever the function returns
//     if (heap_enter(&g) || setjmp(g.back)) return ...;    memory ran out: h is the thread's heap still
typedef struct HeapGuard {
    Heap             *heap, *before;
    struct HeapGuard *outer;
    bool              entered;
    jmp_buf           back;
} HeapGuard;
#define HEAP_GUARDED __attribute__((cleanup(heap_leave)))
bool heap_enter(HeapGuard *g);               // false, always
void heap_leave(HeapGuard *g);
HeapGuard *heap_guard(HeapGuard *g);         // for coroutines: g is the innermost, where it is one; returns what was

// work(ctx) on up to `more` threads besides this one, each under a guard of its own. Returns when all have; gives up when
// one of them did.
enum { HEAP_MAX_THREADS = 16 };
void heap_crew(int more, void (*work)(void *ctx), void *ctx);
// The same in two halves, for who has something else to do meanwhile. Between them nothing may give up: a guard of one's own.
typedef struct HeapCrew HeapCrew;
HeapCrew *heap_crew_start(int more, void (*work)(void *ctx), void *ctx);
int       heap_crew_size(const HeapCrew *c);
bool      heap_crew_wait(HeapCrew *c);       // false: one of them ran out of memory; c is gone

#endif
