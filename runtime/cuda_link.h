// The driver as an assembler: PTX -> cubin through its linker, where there is no ptxas.
#ifndef TK_RUNTIME_CUDA_LINK_H
#define TK_RUNTIME_CUDA_LINK_H

#include "ptx/ptx.h"

// A CubinDriver (ptx.h). Needs a GPU, of any architecture that the driver can assemble for.
bool cuda_cubin(const char *ptx, size_t n, const Target *t, Buf *cubin, Buf *words);

#endif
