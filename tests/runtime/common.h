// What the tests of runtime/ share: cmocka, and checks on lines of words.
#ifndef TESTS_RUNTIME_COMMON_H
#define TESTS_RUNTIME_COMMON_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/tk_run.h"

// The line must hold the words; it is emptied.
#define assert_says(err, words) assert_says_at((err), (words), __FILE__, __LINE__)
static inline void assert_says_at(Buf *err, const char *words, const char *file, int line) {
    const char *got = err->p ? err->p : "";
    if (!strstr(got, words)) {
        print_error("got:  %s\nwant: %s\n", got, words);
        _fail(file, line);
    }
    if (strchr(got, '\n')) { print_error("more than a line: %s\n", got); _fail(file, line); }
    buf_free(err);
}

#endif
