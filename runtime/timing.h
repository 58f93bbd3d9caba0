// Timing of prepared launches: timing.c.
#ifndef TK_RUNTIME_TIMING_H
#define TK_RUNTIME_TIMING_H

#include "runtime/internal.h"

typedef struct Timer Timer;
// NULL: this device is not for timing, or memory is out. With `cold`, caches are full of other data before each launch.
Timer *timer_open(Device *d, bool cold, Buf *err);
void   timer_close(Timer *t);                            // NULL is fine
// The median of n (1 to 2000) launches, in microseconds.
bool   timer_run(Timer *t, const Prepared *p, int n, double *us, Buf *err);
double median_of(double *x, int n);                      // sorts them

#endif
