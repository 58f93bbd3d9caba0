// Diagnostics without a parser: order, limits, the three forms, and how marks share a line.

#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lang/lang.h"

#include <stdlib.h>
#include <string.h>

static const char text[] =
    "let b = w[k2, n];\n"
    "let a = x[m, k];\n"
    "\n"
    "\n"
    "acc += dot(a, b);\n";

static Span at(const Source *src, const char *what, int nth) {
    const char *p = src->text;
    for (; nth > 0; nth--) p = strstr(p, what) + 1;
    p = strstr(p, what);
    Pos lo = src->base + (Pos)(p - src->text);
    return (Span){lo, lo + (Pos)strlen(what)};
}

static char *printed(Session *s, DiagStyle style, bool color) {
    char *out = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&out, &n);
    diag_print(s, f, style, color);
    fclose(f);
    return out;
}

static void expect_text(Session *s, DiagStyle style, const char *want) {
    char *got = printed(s, style, false);
    assert_string_equal(got, want);
    free(got);
}

static void marks_share_lines(void **state) {
    (void)state;
    Session *s = session_new();
    const Source *src = source_add(s, "a.tk", text, sizeof text - 1);
    Diag *d = diag(s, E_missing, at(src, "dot(a, b)", 0), "something");
    diag_primary(d, "here");
    diag_label(d, at(src, "a", 2), "64 columns");
    diag_label(d, at(src, "b", 1), "32 rows");
    diag_label(d, at(src, "w[k2, n]", 0), "`b` is f32[k2, n]");
    diag_note(d, "BK = 64\n(default)");
    diag_help(d, "use the whole range");
    diag_fix(d, at(src, "k2", 0), "k");
    diag_help(d, "or give up");
    expect_text(s, DIAG_rich,
        "error[E0110]: expected something\n"
        "  --> a.tk:5:8\n"
        "   |\n"
        " 1 | let b = w[k2, n];\n"
        "   |         -------- `b` is f32[k2, n]\n"
        "...\n"
        " 5 | acc += dot(a, b);\n"
        "   |        ^^^^^^^^^\n"
        "   |        |   |  32 rows\n"
        "   |        |   64 columns\n"
        "   |        here\n"
        "   |\n"
        "   = note: BK = 64\n"
        "           (default)\n"
        "help: use the whole range\n"
        "   |\n"
        " 1 | let b = w[k, n];\n"
        "   |           ~\n"
        "   = help: or give up\n");
    session_free(s);
}

static void marks_in_other_files_follow(void **state) {
    (void)state;
    Session *s = session_new();
    const Source *other = source_add(s, "std/math.tk", "fn f(x: f32) = x;\n", 18);
    const Source *src = source_add(s, "a.tk", text, sizeof text - 1);
    Diag *d = diag(s, E_missing, at(src, "x", 0), "something");
    diag_label(d, at(other, "x", 0), "goes here");
    diag_label(d, at(src, "acc", 0), "and then here");
    expect_text(s, DIAG_rich,
        "error[E0110]: expected something\n"
        "  --> a.tk:2:9\n"
        "   |\n"
        " 2 | let a = x[m, k];\n"
        "   |         ^\n"
        "...\n"
        " 5 | acc += dot(a, b);\n"
        "   | --- and then here\n"
        "   |\n"
        "  ::: std/math.tk:1:6\n"
        "   |\n"
        " 1 | fn f(x: f32) = x;\n"
        "   |      - goes here\n");
    session_free(s);
}

static void order_is_the_texts_and_causes_come_once(void **state) {
    (void)state;
    Session *s = session_new();
    const Source *src = source_add(s, "a.tk", text, sizeof text - 1);
    diag(s, E_missing, at(src, "acc", 0), "3");
    diag(s, E_missing, at(src, "let", 0), "1");
    diag(s, E_missing, at(src, "acc", 0), "3 again");
    diag(s, E_twice, at(src, "let", 1), "2");
    diag(s, E_missing, (Span){0, 0}, "0");
    diag(s, E_missing, (Span){0, 0}, "0");
    assert_int_equal(diag_errors(s), 6);
    expect_text(s, DIAG_short,
        "error: E0110: expected 0\n"
        "a.tk:1:1: error: E0110: expected 1\n"
        "a.tk:2:1: error: E0120: 2 is given twice\n"
        "a.tk:5:1: error: E0110: expected 3\n");
    expect_text(s, DIAG_short, "");                  // what was shown is not shown again
    diag(s, E_missing, (Span){0, 0}, "more");
    expect_text(s, DIAG_short, "error: E0110: expected more\n");
    session_free(s);
}

static void forgotten_ones_are_not_printed(void **state) {
    (void)state;
    Session *s = session_new();
    const Source *src = source_add(s, "a.tk", text, sizeof text - 1);
    diag(s, E_missing, at(src, "acc", 0), "kept");
    int mark = diag_count(s);
    diag(s, E_missing, at(src, "let", 0), "dropped");
    diag_forget(s, mark);
    assert_int_equal(diag_count(s), 1);
    expect_text(s, DIAG_short, "a.tk:5:1: error: E0110: expected kept\n");
    session_free(s);
}

static void twenty_errors_are_enough(void **state) {
    (void)state;
    Session *s = session_new();
    const Source *src = source_add(s, "a.tk", text, sizeof text - 1);
    for (Pos i = 0; i < 25; i++) diag(s, E_missing, (Span){src->base + i, src->base + i + 1}, "x");
    char *got = printed(s, DIAG_short, false);
    int lines = 0;
    for (const char *p = got; *p; p++) lines += *p == '\n';
    assert_int_equal(lines, 21);
    assert_non_null(strstr(got, "error: 5 more errors are not shown\n"));
    free(got);
    session_free(s);
}

static void fixes_insert_replace_and_take_out(void **state) {
    (void)state;
    Session *s = session_new();
    const Source *src = source_add(s, "a.tk", text, sizeof text - 1);
    Diag *d = diag(s, E_missing, (Span){0, 0}, "x");
    Span dot = at(src, "dot", 0), third = at(src, "let a = x[m, k];\n", 0);
    diag_fix(d, (Span){dot.lo, dot.lo}, "2 * ");
    diag_fix(d, at(src, "k2, ", 0), "");
    diag_fix(d, third, "");
    expect_text(s, DIAG_rich,
        "error[E0110]: expected x\n"
        "help: try this\n"
        "   |\n"
        " 5 | acc += 2 * dot(a, b);\n"
        "   |        ++++\n"
        "help: try this\n"
        "   |\n"
        " 1 - let b = w[k2, n];\n"
        " 1 + let b = w[n];\n"
        "help: try this\n"
        "   |\n"
        " 2 - let a = x[m, k];\n"
        " 3 -\n"
        " 2 +\n");
    session_free(s);
}

static void json_has_every_span(void **state) {
    (void)state;
    Session *s = session_new();
    const Source *src = source_add(s, "a \"b\".tk", text, sizeof text - 1);
    Diag *d = diag(s, E_missing, at(src, "dot", 0), "a\ttab, \xff");
    diag_label(d, at(src, "acc", 0), "left");
    diag_help(d, "do");
    diag_fix(d, at(src, "acc", 0), "sum");
    expect_text(s, DIAG_json,
        "{\"severity\":\"error\",\"code\":\"E0110\",\"name\":\"missing\",\"message\":\"expected a\\u0009tab, \\\\xff\",\"spans\":["
        "{\"file\":\"a \\\"b\\\".tk\",\"line\":5,\"col\":8,\"end_line\":5,\"end_col\":11,\"primary\":true,\"label\":\"\"},"
        "{\"file\":\"a \\\"b\\\".tk\",\"line\":5,\"col\":1,\"end_line\":5,\"end_col\":4,\"primary\":false,\"label\":\"left\"}],"
        "\"extras\":[{\"kind\":\"help\",\"text\":\"do\",\"fix\":{\"file\":\"a \\\"b\\\".tk\",\"line\":5,\"col\":1,\"end_line\":5,\"end_col\":4,"
        "\"replacement\":\"sum\"}}]}\n");
    session_free(s);
}

static void colours_only_when_asked(void **state) {
    (void)state;
    for (int color = 0; color < 2; color++) {
        Session *s = session_new();
        const Source *src = source_add(s, "a.tk", text, sizeof text - 1);
        Diag *d = diag(s, E_missing, at(src, "dot", 0), "x");
        diag_label(d, at(src, "acc", 0), "left");
        diag_fix(d, at(src, "acc", 0), "sum");
        char *got = printed(s, DIAG_rich, color);
        assert_int_equal(strchr(got, 0x1b) != NULL, color);
        free(got);
        session_free(s);
    }
}

static void codes_are_explained(void **state) {
    (void)state;
    const char *first = diag_explain("E0101"), *second = diag_explain("E0102");
    assert_non_null(first);
    assert_non_null(second);
    assert_int_equal(strncmp(first, "E0101 ", 6), 0);
    assert_null(strstr(first, "E0102 "));
    assert_null(diag_explain("E0999"));
    assert_null(diag_explain("E01"));
    assert_null(diag_explain(""));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_share_lines),
        cmocka_unit_test(marks_in_other_files_follow),
        cmocka_unit_test(order_is_the_texts_and_causes_come_once),
        cmocka_unit_test(forgotten_ones_are_not_printed),
        cmocka_unit_test(twenty_errors_are_enough),
        cmocka_unit_test(fixes_insert_replace_and_take_out),
        cmocka_unit_test(json_has_every_span),
        cmocka_unit_test(colours_only_when_asked),
        cmocka_unit_test(codes_are_explained),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
