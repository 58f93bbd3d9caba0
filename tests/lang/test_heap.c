// Owners of memory: blocks and holds, giving up, threads (lang/heap.h).

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lang/lang.h"

#include <string.h>

// A sanitizer's allocator gives NULL, too, for what is more than there can be.
const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "allocator_may_return_null=1"; }

static int ended[8], nended;

static void end(void *of, uint64_t what) {
    assert_ptr_equal(of, ended);
    ended[nended++] = (int)what;
}

static void too_much(void *ctx) {
    (void)ctx;
    heap_alloc(100);
    heap_hold(end, ended, 1);
    heap_hold(end, ended, 2);
    heap_hold(end, ended, 3);
    heap_let_go(end, ended, 2);
    heap_alloc(SIZE_MAX / 4);
    fail();
}

static void a_heap_ends_what_it_holds(void **state) {
    (void)state;
    Heap h = {0};
    nended = 0;
    assert_false(heap_run(&h, too_much, NULL));
    assert_null(heap_here());
    assert_int_equal(nended, 0);
    atomic_store(&h.broken, true);
    heap_end(&h);
    assert_int_equal(nended, 2);
    assert_true(ended[0] == 3 && ended[1] == 1);
    assert_true(!h.blocks && !h.holds);
}

static void blocks(void *ctx) {
    (void)ctx;
    char *a = heap_alloc(10), *b = heap_resize(NULL, 10), *c = heap_aligned(64, 100);
    for (int i = 0; i < 10; i++) assert_int_equal(a[i], 0);
    memset(b, 7, 10);
    b = heap_resize(b, 100000);
    for (int i = 0; i < 10; i++) assert_int_equal(b[i], 7);
    assert_int_equal((uintptr_t)c % 64, 0);
    assert_null(heap_try(SIZE_MAX - 8));
    assert_null(heap_try_zeroed(SIZE_MAX / 8, 16));
    assert_null(heap_try_aligned(64, SIZE_MAX - 80));
    heap_free(b), heap_free(a), heap_free(c), heap_free(NULL);
}

static void blocks_come_and_go(void **state) {
    (void)state;
    Heap h = {0};
    blocks(NULL);                                        // nobody's
    assert_true(heap_run(&h, blocks, NULL));
    assert_null(h.blocks);
}

static void *kept;
static void keep(void *ctx) { (void)ctx; heap_release(kept = heap_alloc(8)); }

static void released_blocks_outlive_their_heap(void **state) {
    (void)state;
    Heap h = {0};
    assert_true(heap_run(&h, keep, NULL));
    heap_drop(&h);
    heap_free(kept);
}

static void inner(void *ctx) { (void)ctx; heap_give_up(0); }
static void outer(void *h) {
    assert_false(heap_run(h, inner, NULL));
    assert_ptr_not_equal(heap_here(), h);
    *(bool *)heap_alloc(1) = true;
}

static void the_innermost_guard_takes_it(void **state) {
    (void)state;
    Heap a = {0}, b = {0};
    assert_true(heap_run(&a, outer, &b));
    assert_non_null(a.blocks);
    heap_drop(&a);
}

static atomic_int turns;
static void take_turns(void *fails) {
    for (int i; (i = atomic_fetch_add(&turns, 1)) < 1000;) {
        heap_free(heap_alloc(64));
        if (*(bool *)fails && i == 500) heap_give_up(0);
    }
}
static void crew(void *fails) { heap_crew(4, take_turns, fails); }

static void a_crew_gives_up_when_all_are_through(void **state) {
    (void)state;
    for (int fails = 0; fails < 2; fails++) {
        Heap h = {0};
        bool does = fails;
        atomic_store(&turns, 0);
        assert_int_equal(heap_run(&h, crew, &does), !fails);
        assert_true(atomic_load(&turns) >= 1000);
        assert_null(h.blocks);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_heap_ends_what_it_holds),
        cmocka_unit_test(blocks_come_and_go),
        cmocka_unit_test(released_blocks_outlive_their_heap),
        cmocka_unit_test(the_innermost_guard_takes_it),
        cmocka_unit_test(a_crew_gives_up_when_all_are_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
