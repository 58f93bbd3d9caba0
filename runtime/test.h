// Test items, as the files of `tkc test` share them.
//
//   test.c             one run of a test, step by step
//   test_schedules.c   the same test with one schedule after the other
//   test_files.c       files and folders, what is printed and counted
#ifndef TK_RUNTIME_TEST_H
#define TK_RUNTIME_TEST_H

#include "runtime/internal.h"

typedef struct TestRun {                  // zeros but for what is asked
    Runtime     *rt;
    const TTest *test;
    const struct TestRun *before;         // of the same case with another schedule: its references are right here, too; or NULL
    HostTensor  *tensor;                  // by number
    double     **bound;                   // by number, NULL where eval said nothing
    int         *written;                 // by number: how often, by launches that are no references
    Buf          report;                  // why it failed; or notes of eval, lines that are worth telling
    Buf          notes;
} TestRun;
bool test_run(TestRun *r);                // the steps; what they have made stays until test_run_free
void test_run_free(TestRun *r);
// With what its launches were launched: a line of "`b`, N = 2000: --with=split_k=128" for each, indented. Those with the defaults,
// too, where it is `all`.
void test_launches(const TTest *t, bool all, Buf *out);

// ---- test_files.c

typedef struct Runner {
    const TestOptions *opt;
    Device     *device;
    FILE       *to;
    TestCounts *counts;
    int         refused, same;            // schedules that were not run: not to be had; the code of another one
} Runner;
void test_name(const char *path, const TTest *t, Buf *out);          // "softmax.tk: rows (37, 1000)"
bool test_wanted(const Runner *r, const char *name);                 // by the filter
// The line of a test and what is told of it; `with`: the schedule that it was asked for, "" for none.
void test_told(Runner *r, const TestRun *run, const char *name, const char *with, bool fine, double ms);
void test_diags(Runner *r, Session *s);

// ---- test_schedules.c

// The case of that number of the file, with its own choice and with all others.
void test_schedules(Runner *r, const char *path, int number);
void schedules_told(const Runner *r);     // how many there were

#endif
