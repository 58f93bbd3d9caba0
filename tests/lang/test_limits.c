// TKC_LIMITS as text, and limits in words.
#include "lang/limits.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void usual(void **state) {
    (void)state;
    int64_t v[LIMIT_COUNT];
    Buf err = {0};
    assert_true(limits_parse(NULL, v, &err));
    assert_true(limits_parse("", v, &err));
    for (int i = 0; i < LIMIT_COUNT; i++) {
        assert_int_equal(v[i], limit_table[i].usual);
        assert_true(limit_table[i].usual >= 1 && limit_table[i].usual <= limit_table[i].most);
    }
}

static void numbers(void **state) {
    (void)state;
    int64_t v[LIMIT_COUNT];
    Buf err = {0};
    assert_true(limits_parse("instructions=1m,tile-ops=7,,trips=9223372036854775807,source-bytes=2k", v, &err));
    assert_int_equal(v[LIMIT_instructions], 1 << 20);
    assert_int_equal(v[LIMIT_tile_ops], 7);
    assert_int_equal(v[LIMIT_trips], INT64_MAX);
    assert_int_equal(v[LIMIT_source_bytes], 2048);
    assert_int_equal(v[LIMIT_nesting], limit_table[LIMIT_nesting].usual);
}

static void wrong(void **state) {
    (void)state;
    static const char *const all[] = {"x", "=", "=5", "instructions", "instructions=", "instructions=0", "instructions=-1",
                                      "instructions=5x", "instructions=5kk", "instructions=k", "instructions= 5",
                                      "instructions=99999999999999999999999", "instructions=9223372036854775807g",
                                      "nesting=1g", "tile-ops=5,tile_ops=6", "tile-ops=5;trips=6"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        int64_t v[LIMIT_COUNT];
        Buf err = {0};
        if (limits_parse(all[i], v, &err)) fail_msg("%s is taken", all[i]);
        assert_true(err.n > 0);
        buf_free(&err);
    }
}

static void words(void **state) {
    (void)state;
    Buf out = {0};
    limit_words(LIMIT_source_bytes, 100000000, &out);
    assert_string_equal(out.p, "100000000 bytes, more than the limit source-bytes allows (67108864; TKC_LIMITS=source-bytes=110000000 raises it)");
    buf_free(&out);
    limit_words(LIMIT_source_bytes, INT64_C(1) << 40, &out);          // more than may be asked for
    assert_string_equal(out.p, "1099511627776 bytes, more than the limit source-bytes allows (67108864)");
    buf_free(&out);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(usual), cmocka_unit_test(numbers), cmocka_unit_test(wrong), cmocka_unit_test(words)};
    unsetenv("TKC_LIMITS");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
