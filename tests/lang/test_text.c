// Arenas, builders, symbols, lines and columns.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lang/lang.h"

#include <stdlib.h>
#include <string.h>

static void arena_is_zeroed_after_reset(void **state) {
    (void)state;
    Arena *a = arena_new();
    memset(arena_alloc(a, 100), 7, 100);
    ArenaMark m = arena_mark(a);
    for (int i = 0; i < 50; i++) memset(arena_alloc(a, 5000), 0xff, 5000);
    size_t held = arena_bytes(a);
    arena_reset(a, m);
    assert_true(arena_bytes(a) < held);
    for (int round = 0; round < 2; round++) {
        unsigned char *p = arena_alloc(a, 9000);
        assert_int_equal((uintptr_t)p % 16, 0);
        for (int i = 0; i < 9000; i++) assert_int_equal(p[i], 0);
    }
    arena_free(a);
}

static void arena_resets_to_before_its_first_chunk(void **state) {
    (void)state;
    Arena *a = arena_new();
    ArenaMark m = arena_mark(a);
    arena_alloc(a, 3 << 20);
    arena_reset(a, m);
    assert_int_equal(arena_bytes(a), 0);
    assert_non_null(arena_alloc(a, 0));
    arena_free(a);
}

static void vectors_keep_what_was_pushed(void **state) {
    (void)state;
    Arena *a = arena_new();
    VEC(int *) v = {0};
    static int cells[1000];
    for (int i = 0; i < 1000; i++) vec_push(a, &v, &cells[i]);
    assert_int_equal(v.n, 1000);
    for (int i = 0; i < 1000; i++) assert_ptr_equal(v.at[i], &cells[i]);
    arena_free(a);
}

static void buffers_grow_and_stay_terminated(void **state) {
    (void)state;
    Buf b = {0};
    for (int i = 0; i < 300; i++) buf_printf(&b, "%d,", i);
    buf_putc(&b, '!');
    assert_int_equal(b.p[b.n], 0);
    assert_int_equal(b.n, 10 * 2 + 90 * 3 + 200 * 4 + 1);
    buf_free(&b);
    buf_puts(&b, "");
    assert_string_equal(b.p, "");
    buf_free(&b);
}

static void symbols_are_one_per_text(void **state) {
    (void)state;
    Session *s = session_new();
    Sym first[2000];
    char name[16];
    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof name, "n%d", i);
        first[i] = sym(s, name);
    }
    for (int i = 0; i < 2000; i++) {
        int n = snprintf(name, sizeof name, "n%d", i);
        assert_ptr_equal(sym(s, name), first[i]);
        assert_string_equal(first[i]->s, name);
        assert_int_equal(first[i]->n, n);
    }
    assert_ptr_equal(sym_n(s, "n12345", 3), first[12]);
    session_free(s);
}

static void places_count_lines_and_characters(void **state) {
    (void)state;
    Session *s = session_new();
    const char text[] = "one\r\n\tx \xc3\xa9=2\nlast";
    const Source *a = source_add(s, "a.tk", "", 0);
    const Source *b = source_add(s, "b.tk", text, sizeof text - 1);
    const Source *c = source_add(s, "c.tk", "z", 1);
    assert_int_equal(a->base, 1);
    assert_null(span_where(s, 0).src);
    assert_ptr_equal(span_where(s, a->base).src, a);

    LineCol w = span_where(s, b->base + 10);                 // the `=` after the two bytes of e-acute
    assert_ptr_equal(w.src, b);
    assert_int_equal(w.line, 2);
    assert_int_equal(w.col, 5);
    assert_int_equal(w.text.n, 7);
    assert_int_equal(span_where(s, b->base).text.n, 3);      // without its carriage return
    w = span_where(s, b->base + b->size);                    // the end belongs to the file
    assert_ptr_equal(w.src, b);
    assert_int_equal(w.line, 3);
    assert_int_equal(w.col, 5);
    assert_ptr_equal(span_where(s, c->base).src, c);
    Str t = span_text(s, (Span){b->base, b->base + 3});
    assert_memory_equal(t.p, "one", 3);
    session_free(s);
}

static void missing_files_say_why(void **state) {
    (void)state;
    Session *s = session_new();
    char *error = NULL;
    assert_null(source_read(s, "/no/such/file.tk", &error));
    assert_non_null(strstr(error, "/no/such/file.tk: No such file"));
    assert_null(source_read(s, "/", &error));
    assert_non_null(strstr(error, "directory"));
    session_free(s);
}

static void distance_counts_edits(void **state) {
    (void)state;
    assert_int_equal(edit_distance("", ""), 0);
    assert_int_equal(edit_distance("abc", ""), 3);
    assert_int_equal(edit_distance("softmax", "sofmax"), 1);
    assert_int_equal(edit_distance("cumsum", "cmusum"), 1);
    assert_int_equal(edit_distance("kitten", "sitting"), 3);
}

static void element_types_are_found_by_name(void **state) {
    (void)state;
    assert_int_equal(elem_by_name((Str){"bf16", 4}), EL_bf16);
    assert_int_equal(elem_by_name((Str){"bf167", 4}), EL_bf16);
    assert_int_equal(elem_by_name((Str){"f3", 2}), EL_none);
    assert_true(elem_is_storage(EL_f8e4m3) && elem_is_float(EL_f16) && elem_is_signed(EL_index));
    assert_false(elem_is_float(EL_u64));
    assert_int_equal(elem_bytes(EL_f64), 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(arena_is_zeroed_after_reset),
        cmocka_unit_test(arena_resets_to_before_its_first_chunk),
        cmocka_unit_test(vectors_keep_what_was_pushed),
        cmocka_unit_test(buffers_grow_and_stay_terminated),
        cmocka_unit_test(symbols_are_one_per_text),
        cmocka_unit_test(places_count_lines_and_characters),
        cmocka_unit_test(missing_files_say_why),
        cmocka_unit_test(distance_counts_edits),
        cmocka_unit_test(element_types_are_found_by_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
