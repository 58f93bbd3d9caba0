// --time of what is compiled: rows of milliseconds for stages, then the total and the most memory, on standard error.
#ifndef TK_TKC_CLOCK_H
#define TK_TKC_CLOCK_H

#include "tkc/tkc.h"

typedef struct Clock { double start, last; Buf rows; } Clock;

Clock clock_started(void);
void  clock_row(void *clock, const char *stage, double ms);       // as CompileOptions.timing calls it
void  clock_lap(Clock *c, const char *stage);                     // since the last one
void  clock_print(Clock *c);                                      // and frees

#endif
