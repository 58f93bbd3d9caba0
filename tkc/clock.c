// Rows of milliseconds (clock.h).
#include "tkc/clock.h"

#include "lang/c_text.h"

#include <sys/resource.h>

Clock clock_started(void) {
    double now = now_ms();
    return (Clock){.start = now, .last = now};
}

void clock_row(void *clock, const char *stage, double ms) {
    buf_printf(&((Clock *)clock)->rows, "%-23s %9.3f ms\n", stage, ms);
}

void clock_lap(Clock *c, const char *stage) {
    double now = now_ms();
    clock_row(c, stage, now - c->last);
    c->last = now;
}

void clock_print(Clock *c) {
    struct rusage use;
    getrusage(RUSAGE_SELF, &use);
    clock_row(c, "total", now_ms() - c->start);
    c_fprintf(stderr, "%s%-23s %9.1f MiB\n", c->rows.p, "peak memory", (double)use.ru_maxrss / 1024);
    buf_free(&c->rows);
}
