// The times of launches as text: the trace is JSON whatever names are in it, the table and the page have every launch.

#include "tests/runtime/common.h"

#include "runtime/graph.h"

#include <ctype.h>
#include <string.h>

// ---- is it JSON? ---------------------------------------------------------------------------------

static const char *value(const char *s);

static const char *space(const char *s) {
    while (*s == ' ' || *s == '\n') s++;
    return s;
}

static const char *text(const char *s) {
    if (*s++ != '"') return NULL;
    for (; *s != '"'; s++) {
        if ((unsigned char)*s < 32) return NULL;
        if (*s != '\\') continue;
        s++;
        if (*s == 'u') for (int i = 0; i < 4; i++) if (!isxdigit((unsigned char)*++s)) return NULL;
        if (!strchr("u\"\\/bfnrt", *s) && !isxdigit((unsigned char)*s)) return NULL;
    }
    return s + 1;
}

static const char *list(const char *s, char end, bool named) {
    s = space(s + 1);
    while (*s != end) {
        if (named) {
            if (!(s = text(s)) || *(s = space(s)) != ':') return NULL;
            s = space(s + 1);
        }
        if (!(s = value(s))) return NULL;
        s = space(s);
        if (*s == ',') s = space(s + 1);
        else if (*s != end) return NULL;
    }
    return s + 1;
}

static const char *value(const char *s) {
    if (*s == '{') return list(s, '}', true);
    if (*s == '[') return list(s, ']', false);
    if (*s == '"') return text(s);
    char *end;
    strtod(s, &end);
    return end == s || !(*s == '-' || isdigit((unsigned char)*s)) ? NULL : end;
}

static void written(void **state) {
    (void)state;
    LaunchTime at[] = {
        {.name = (char *)(uintptr_t)"a \"b\" -> <c>", .where = (char *)(uintptr_t)"C:\\x\n.tk:1:2", .us = 10, .least_us = 4, .bytes = 2e6, .flops = 3e9, .blocks = 5, .threads = 128},
        {.name = (char *)(uintptr_t)"left & right", .where = (char *)(uintptr_t)"", .us = 2.5, .start = 10, .row = 1},
    };
    GraphTimes t = {.graph = "g", .device = "emu", .machine = "H200", .at = at, .n = 2, .rows = 2, .whole_us = 11};
    ProfileText p = {0};
    times_table(&t, &p.table);
    times_trace(&t, &p.trace);
    times_page(&t, &p.page);
    const char *end = value(p.trace.p);
    if (!end || *space(end)) fail_msg("no JSON: %s", p.trace.p);
    assert_non_null(strstr(p.trace.p, "\"name\":\"a \\\"b\\\" -> <c>\""));
    assert_non_null(strstr(p.trace.p, "\"ts\":10.000,\"dur\":2.500,\"pid\":1,\"tid\":2"));
    assert_non_null(strstr(p.trace.p, "\"source\":\"C:\\\\x\\u000a.tk:1:2\""));
    assert_non_null(strstr(p.table.p, "2 launches, on emu"));
    assert_non_null(strstr(p.table.p, "as one graph"));
    assert_non_null(strstr(p.table.p, "  40 %"));
    assert_non_null(strstr(p.page.p, "left &amp; right"));
    assert_non_null(strstr(p.page.p, "a \"b\" -> &lt;c>") ? p.page.p : strstr(p.page.p, "a &quot;b&quot; -> &lt;c>"));
    profile_free(&p);
    t.n = t.rows = 0;
    times_trace(&t, &p.trace);
    end = value(p.trace.p);
    assert_true(end && !*space(end));
    profile_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(written)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
