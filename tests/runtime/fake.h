// The driver of our own making (fake_cuda.c), opened: how it is told what to do, and what it was asked for.
#ifndef TESTS_RUNTIME_FAKE_H
#define TESTS_RUNTIME_FAKE_H

#include <dlfcn.h>

#include "tests/runtime/common.h"

typedef struct Fake {
    void       *lib;
    void      (*reset)(void);
    void      (*fail_in)(const char *symbol, int code);       // from now on; "": nowhere
    void      (*set)(const char *what, int value);
    int       (*get)(const char *what);
    const char *(*calls)(void);                               // a line each
} Fake;

// The device opens the same copy.
static inline Fake fake_driver(void) {
    Fake f = {.lib = dlopen(FAKE_WHOLE_PATH, RTLD_NOW)};
    if (!f.lib) { print_error("%s\n", dlerror()); abort(); }
    *(void **)&f.reset = dlsym(f.lib, "fake_reset");
    *(void **)&f.fail_in = dlsym(f.lib, "fake_fail");
    *(void **)&f.set = dlsym(f.lib, "fake_set");
    *(void **)&f.get = dlsym(f.lib, "fake_get");
    *(void **)&f.calls = dlsym(f.lib, "fake_log");
    return f;
}

#endif
