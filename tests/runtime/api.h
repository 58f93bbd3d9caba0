// What the tests of libtkc share: calls that must go well, and calls that must not, with their words.
#ifndef TESTS_RUNTIME_API_H
#define TESTS_RUNTIME_API_H

#include "tests/runtime/common.h"

#include "runtime/tkc.h"

#define FINE(call) do { if ((call) != TKC_OK) { print_error("%s\n", tkc_error()); fail(); } } while (0)
static inline void refused_at(tkc_status got, tkc_status want, const char *words, const char *file, int line) {
    if (got == want && strstr(tkc_error(), words)) return;
    print_error("status %d, got: %s\nwant: %d, %s\n", got, tkc_error(), want, words);
    _fail(file, line);
}
#define REFUSED(call, status, words) refused_at((call), status, words, __FILE__, __LINE__)

#endif
