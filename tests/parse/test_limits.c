// The parser at its limits: nothing, too much, too deep, and other people's bytes.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "lang/ast.h"
#include "parser/parser.h"

#include <string.h>

static Node *parse(Session *s, const char *text, size_t n) {
    return parse_file(s, source_add(s, "t.tk", text, n));
}

static void repeat(Buf *b, const char *piece, int times) {
    for (int i = 0; i < times; i++) buf_puts(b, piece);
}

// Parses head, `times` of piece, tail; the number of errors, and of items in *items.
static int errors_of(const char *head, const char *piece, int times, const char *tail, uint32_t *items) {
    Session *s = session_new();
    Buf b = {0};
    buf_puts(&b, head);
    repeat(&b, piece, times);
    buf_puts(&b, tail);
    *items = parse(s, b.p, b.n)->nkid;
    int errors = diag_errors(s);
    buf_free(&b);
    session_free(s);
    return errors;
}

static void empty_files_are_files(void **state) {
    (void)state;
    static const char *const texts[] = {"", "\n", "// nothing", "/* nothing */", "\xef\xbb\xbf", "\xef\xbb\xbf// mark\r\n"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        Session *s = session_new();
        Node *file = parse(s, texts[i], strlen(texts[i]));
        assert_int_equal(file->kind, N_file);
        assert_int_equal(file->nkid, 0);
        assert_int_equal(diag_errors(s), 0);
        session_free(s);
    }
}

static void zero_bytes_do_not_end_a_file(void **state) {
    (void)state;
    static const char text[] = "fn f(x: f32) = x;\0\0\nfn g(x: f32) = x;\n";
    Session *s = session_new();
    assert_int_equal(parse(s, text, sizeof text - 1)->nkid, 2);
    assert_int_equal(diag_errors(s), 1);
    session_free(s);
}

static void parentheses_nest_without_end(void **state) {
    (void)state;
    uint32_t items;
    Buf close = {0};
    repeat(&close, ")", 100000);
    buf_puts(&close, ";");
    assert_int_equal(errors_of("fn f(x: f32) = ", "(", 100000, "x", &items) > 0, 1);
    Session *s = session_new();
    Buf b = {0};
    buf_puts(&b, "fn f(x: f32) = ");
    repeat(&b, "(", 100000);
    buf_puts(&b, "x");
    buf_puts(&b, close.p);
    assert_int_equal(parse(s, b.p, b.n)->nkid, 1);
    assert_int_equal(diag_errors(s), 0);
    buf_free(&b), buf_free(&close);
    session_free(s);
}

static void depth_is_limited_whatever_makes_it(void **state) {
    (void)state;
    static const struct { const char *head, *piece, *tail; } cases[] = {
        {"fn f(x: f32) = ", "- ", "x;"},
        {"fn f(x: f32) = x", " + x", ";"},
        {"fn f(x: f32) = x", " as T", ";"},
        {"fn f(x: f32) = x", "[i]", ";"},
        {"fn f(x: f32) = x", ".y", ";"},
        {"fn f(x: f32) = ", "c ? x : ", "x;"},
        {"fn f(x: f32) = ", "|a| ", "x;"},
        {"fn f(x: ", "*", "f32) = x;"},
        {"fn f(x: f32) { if x { }", " else if x { }", " }"},
        {"fn f(x: f32) = x", "[i] else x", ";"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t items;
        assert_int_equal(errors_of(cases[i].head, cases[i].piece, 400, cases[i].tail, &items), 0);
        assert_int_equal(items, 1);
        assert_int_equal(errors_of(cases[i].head, cases[i].piece, 100000, cases[i].tail, &items), 1);
        assert_int_equal(items, 0);
    }
}

static void long_files_are_fine(void **state) {
    (void)state;
    uint32_t items;
    assert_int_equal(
        errors_of("", "fn f(x: f32[M], m: axis) -> f32[m] { let a = x[m] * 2 + 1; return a; }\n", 20000, "", &items),
        0);
    assert_int_equal(items, 20000);
    assert_int_equal(errors_of("fn f(x: f32) { ", "g(x, 1, 2);\n", 50000, "}", &items), 0);
    assert_int_equal(errors_of("fn f(x: f32) = g(", "x, ", 50000, ");", &items), 0);
}

static void hopeless_files_are_given_up(void **state) {
    (void)state;
    uint32_t items;
    int errors = errors_of("fn f(x: f32) { ", "let = 3;\n", 5000, "}", &items);
    assert_true(errors > 20 && errors < 1000);
}

// What is left of each item and statement around a mistake.
static void recovery_keeps_what_it_can(void **state) {
    (void)state;
    static const char text[] =
        "kernel a(x: f32[M] y: f32[M]) { }\n"
        "fn b(x: f32) -> f32 { let = 3; let c = |a| { let ; a }; if x { let 1; return x; } else { x = ; } return x }\n"
        "fn d(x: f32) = ;\n"
        "tune e { M in 3; K in [1]; key M; }\n";
    static const int want[] = {
        N_error_stmt, N_fn,    N_block,      N_error_stmt,  N_let,      N_block,      N_error_stmt,
        N_if,         N_block, N_error_stmt, N_return,      N_block,    N_error_stmt, N_return,
        N_error_stmt, N_tune,  N_error_stmt, N_tune_choice, N_tune_key,
    };
    Session *s = session_new();
    Node *file = parse(s, text, sizeof text - 1);
    assert_int_equal(diag_errors(s), 8);
    int seen[64], n = 0;
    const Node *todo[256];
    int left = 0;
    todo[left++] = file;
    while (left > 0) {
        const Node *node = todo[--left];
        bool kept = node->kind == N_fn || node->kind == N_tune || node->kind == N_block ||
                    (node->kind >= N_let && node->kind <= N_error_stmt) || node->kind == N_tune_choice ||
                    node->kind == N_tune_key;
        if (kept && n < 64) seen[n++] = node->kind;
        for (uint32_t i = node->nkid; i-- > 0;)
            if (node->kid[i]) todo[left++] = node->kid[i];
    }
    assert_int_equal(n, sizeof want / sizeof *want);
    for (int i = 0; i < n; i++) assert_int_equal(seen[i], want[i]);
    session_free(s);
}

static void every_cut_of_a_program_parses_or_reports(void **state) {
    (void)state;
    static const char text[] =
        "import \"a.tk\";\n"
        "kernel k<T: float = bf16, B = next_pow2(N) or 4>(x: T[M, :D], y: out T[M]) where M % 8 == 0 grid (m in M by B) {\n"
        "    let f = |i in M, j in N| { let t = x[i, j] else 0; (t, -t) };\n"
        "    pages: for j in 0 .. (B ? 1 : 2) by 2 merge |a, b| max(a, b) { y[m] += dot(f, x[m, :] over :D) as T; }\n"
        "}\n"
        "tune k { B in [1, 2]; where B > 1; key M; }\n"
        "test \"t\" for (M, N) in [(1, 2)] { expect k<B = 2>(x) with (warps = 4) ~ g(x) within rel 1e-3; }\n";
    for (size_t n = 0; n < sizeof text; n++) {
        Session *s = session_new();
        Node *file = parse(s, text, n);
        assert_int_equal(file->kind, N_file);
        if (n == sizeof text - 1) assert_int_equal(diag_errors(s), 0);
        session_free(s);
    }
}

static void spellings_of_others_are_known(void **state) {
    (void)state;
    assert_non_null(foreign_spelling((Str){"float32", 7}, NULL));
    assert_non_null(foreign_spelling((Str){"threadIdx", 9}, NULL));
    assert_null(foreign_spelling((Str){"softmax", 7}, NULL));
    assert_null(foreign_spelling((Str){"", 0}, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_files_are_files),
        cmocka_unit_test(zero_bytes_do_not_end_a_file),
        cmocka_unit_test(parentheses_nest_without_end),
        cmocka_unit_test(depth_is_limited_whatever_makes_it),
        cmocka_unit_test(long_files_are_fine),
        cmocka_unit_test(hopeless_files_are_given_up),
        cmocka_unit_test(recovery_keeps_what_it_can),
        cmocka_unit_test(every_cut_of_a_program_parses_or_reports),
        cmocka_unit_test(spellings_of_others_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
