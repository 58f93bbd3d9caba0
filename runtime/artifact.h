// Files of compiled kernels: artifact.c writes and reads them, `tkc FILE --emit=artifact` makes one, tkc_load_file
// takes one.
#ifndef TK_RUNTIME_ARTIFACT_H
#define TK_RUNTIME_ARTIFACT_H

#include "runtime/internal.h"

typedef struct Artifact {                  // a kernel, compiled for some values
    const LaunchInfo *info[2];             // the variant that assumes the facts, and the general one
    Str ptx[2], cubin[2];                  // of each; no machine code: n 0
} Artifact;

bool artifact_is(const char *bytes, size_t n);
void artifact_write(Session *s, const Artifact *list, int n, const Target *target, Buf *out);
// How many; the list lives in the session. -1: err says why.
int  artifact_read(Session *s, const char *name, const char *bytes, size_t n, Artifact **out, Buf *err);

// compile.c: an artifact as if it had been compiled; the same again for the same one.
Compiled *runtime_made(Runtime *rt, const Artifact *a);
const LaunchInfo *compiled_launch(const Compiled *c);    // parameters, dimensions and conditions, as the kernel is written

#endif
