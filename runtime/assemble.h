// Machine code for many kernels at once, by ptxas where it is installed.
#ifndef TK_RUNTIME_ASSEMBLE_H
#define TK_RUNTIME_ASSEMBLE_H

#include "runtime/internal.h"

#include <stdatomic.h>

typedef struct Assembler {
    const Target *target;
    char         *ptxas;                 // NULL: there is none, or it is not wanted
    char         *identity;              // of it, for keys
    atomic_bool   failed;                // once: it is not asked again
} Assembler;

void assembler_open(Assembler *a, const Target *t);
void assembler_close(Assembler *a);
// What was made of this text before, from the cache on disk.
bool assembler_get(const Assembler *a, const Buf *ptx, Buf *cubin);
void assembler_put(const Assembler *a, const Buf *ptx, const Buf *cubin);
// From any thread. False: the driver must do it.
bool assembler_make(Assembler *a, const Buf *ptx, Buf *cubin);

#endif
