// The text form, by files: those of text/ are what the printer writes and read back to the same text,
// byte for byte; those of invalid/ parse, and the verifier says exactly what their `//! ` lines say.
// Broken text is refused with one diagnostic, at the right place.

#include "ir_test.h"
#include "ir_files.h"

static void round_trip(Session *s, const char *path, const char *text) {
    Source *src = source_add(s, path, text, strlen(text));
    Fn *f = ir_parse(s, src, NULL);
    if (!f) {
        diag_print(s, stderr, DIAG_short, false);
        fail_msg("%s does not parse", path);
    }
    Buf once = {0}, twice = {0}, problems = {0};
    if (ir_verify(f, &problems)) fail_msg("%s does not verify:\n%s", path, problems.p);
    ir_print(f, &once);
    if (bless()) write_file(path, once.p);
    else if (strcmp(once.p, text)) fail_msg("%s prints as\n%s", path, once.p);
    Fn *g = ir_parse(s, source_add(s, path, once.p, once.n), NULL);
    assert_non_null(g);
    ir_print(g, &twice);
    assert_string_equal(once.p, twice.p);
    buf_free(&once);
    buf_free(&twice);
    buf_free(&problems);
}

static void test_round_trips(void **state) {
    (void)state;
    assert_true(each_file("text", round_trip) >= 3);
}

static void invalid(Session *s, const char *path, const char *text) {
    Fn *f = ir_parse(s, source_add(s, path, text, strlen(text)), NULL);
    if (!f) {
        diag_print(s, stderr, DIAG_short, false);
        fail_msg("%s does not parse", path);
    }
    Buf got = {0}, want = {0}, problems = {0};
    ir_verify(f, &problems);
    for (const char *p = problems.p; p && *p; p = strchr(p, '\n') + 1) {           // the rule, without the op's text
        const char *rule = strstr(p, "  -- ");
        buf_printf(&got, "//! %.*s", (int)(strchr(rule, '\n') + 1 - rule - 5), rule + 5);
    }
    const char *body = text;
    while (strncmp(body, "//! ", 4) == 0) body = strchr(body, '\n') + 1;
    buf_add(&want, text, (size_t)(body - text));
    if (bless()) {
        buf_puts(&got, body);
        write_file(path, got.p);
    } else if (strcmp(got.p ? got.p : "", want.p)) {
        fail_msg("%s: the verifier says\n%s", path, got.p ? got.p : "nothing");
    }
    buf_free(&got);
    buf_free(&want);
    buf_free(&problems);
}

static void test_invalid(void **state) {
    (void)state;
    assert_true(each_file("invalid", invalid) >= 3);
}

static void test_broken_text(void **state) {
    (void)state;
    static const struct { const char *text, *words; } rows[] = {
        {"kernel scale() {}", "expected `@`"},
        {"kernel @a() { %0 = binary.plus %1, %2 : f32 }", "a suffix of this op, found `plus`"},
        {"kernel @a() { %0 = unary.neg %1 : f32 }", "a value defined before, found `%1`"},
        {"kernel @a() { %0 = const 1 : f31 }", "an element type, found `f31`"},
        {"kernel @a() { frobnicate }", "an op, found `frobnicate`"},
        {"kernel @a() { %0 = const 1 : f32\n %0 = const 2 : f32 }", "a value of another name"},
        {"kernel @a() { %0 = dim N : index }", "a dimension of the kernel, found `N`"},
        {"kernel @a(x: f32[N]) { }", "a dimension or a parameter, found `N`"},
        {"kernel @a() { %0 = const 1 : f32", "expected `}`, found the end"},
        {"kernel @a() { } kernel", "the end, found `kernel`"},
        {"kernel @a() dims (N", "expected `)`"},
        {"", "expected `kernel`, found the end"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Session *s = session_new();
        Source  *src = source_add(s, "broken.tir", rows[i].text, strlen(rows[i].text));
        char    *out = NULL;
        size_t   n = 0;
        assert_null(ir_parse(s, src, NULL));
        assert_int_equal(diag_errors(s), 1);
        FILE *to = open_memstream(&out, &n);
        diag_print(s, to, DIAG_short, false);
        fclose(to);
        if (!strstr(out, rows[i].words)) fail_msg("%s: %s", rows[i].text, out);
        free(out);
        session_free(s);
    }
}

// Any prefix of a good text is refused without harm.
static void cut_short(Session *s, const char *path, const char *text) {
    (void)s;
    size_t n = strlen(text);
    for (size_t cut = 0; cut + 2 < n; cut += 1 + n / 200) {
        Session *t = session_new();
        assert_null(ir_parse(t, source_add(t, path, text, cut), NULL));
        session_free(t);
    }
}

static void test_cut_short(void **state) {
    (void)state;
    each_file("text", cut_short);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trips),
        cmocka_unit_test(test_invalid),
        cmocka_unit_test(test_broken_text),
        cmocka_unit_test(test_cut_short),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
