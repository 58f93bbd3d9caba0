// Files of compiled kernels: artifact.c writes and reads them, `tkc FILE --emit=artifact` makes one, tkc_load_file
// takes one.
#ifndef TK_RUNTIME_ARTIFACT_H
#define TK_RUNTIME_ARTIFACT_H

#include "runtime/internal.h"

typedef struct Artifact {                  // a kernel, compiled for some values
    const LaunchInfo *info[2];             // the variant that assumes the facts, and the general one
    Str ptx[2], cubin[2];                  // of each; no machine code: n 0
    bool less;                             // the one before, with less assumed of lengths; its general variant is that one's
} Artifact;
typedef VEC(Artifact) ArtifactList;

// artifact_make.c: the kernel in all variants, at the end of the list. `given`: dimensions, by bit, whose numbers are known, and
// of which no variant assumes less. False: err, or diagnostics.
bool artifact_make(Session *s, const TKernel *k, const CompileOptions *opt, uint32_t given, ArtifactList *list, Buf *err);
void artifact_info(const LaunchInfo *info, Buf *out);     // all of it as bytes
bool artifact_is(const char *bytes, size_t n);
void artifact_write(Session *s, const Artifact *list, int n, const Target *target, Buf *out);
void artifact_wrap(const Target *target, const char *body, size_t n, Buf *out);      // head and checksum before what it holds
// How many; the list lives in the session. -1: err says why.
int  artifact_read(Session *s, const char *name, const char *bytes, size_t n, Artifact **out, Buf *err);

// compile.c: an artifact as if it had been compiled; the same again for the same one.
Compiled *runtime_made(Runtime *rt, const Artifact *a);
// The same with less assumed, where it was compiled ahead; else NULL.
Compiled *compiled_less(const Compiled *c);
const LaunchInfo *compiled_launch(const Compiled *c);    // parameters, dimensions and conditions, as the kernel is written

#endif
