// Binding: from the arguments of one launch and what the compiler says of the kernel (lang/launch.h) to
// dimensions, checks, the variant to run, and the machine parameter block.
//
//   bind.c     dimensions, equations, guards, overlap, variant
//   slots.c    LaunchSlot list -> parameter block; scratch; the launch itself
#ifndef TK_RUNTIME_BIND_H
#define TK_RUNTIME_BIND_H

#include "lang/launch.h"
#include "lang/number.h"
#include "runtime/device.h"

typedef struct BindArg {               // what one launch gives for one parameter
    const char *origin;                // words for messages: "x.npy"; NULL: none
    bool     absent;                   // an out tensor that the caller wants made: shape is computed
    bool     scalar;                   // ival and fval, else a tensor
    Elem     elem;                     // of the tensor; of the scalar, EL_none: a literal that takes the parameter's type
    int      rank;
    int64_t  dim[MAX_RANK];
    int64_t  stride[MAX_RANK];         // in elements
    uint64_t address;                  // 0 is legal while nothing is launched
    int64_t  ival;
    double   fval;
    bool     is_float;                 // the scalar was written as a float: fval, else ival
    bool     is_u64;                   // it is above INT64_MAX: ival has the bits of a u64
    bool     bits;                     // of a u64 ival may be the bits: the C API's, which has no other form
} BindArg;

typedef struct Bound {
    const LaunchInfo *info;            // the variant to launch (after bind_variant)
    BindArg *args;
    int      nargs;
    uint64_t scratch[SCRATCH_KINDS];   // by SCRATCH_*: memory that launches share, one after the other; 0: each has its own
    // from here on as many as there are dimensions and parameters are ever looked at
    int64_t dims[MAX_GRAPH_DIMS];
    // where a dimension was found; param -1: fixed, -2: not found, -3: by a `where` equation
    int16_t dim_param[MAX_GRAPH_DIMS], dim_index[MAX_GRAPH_DIMS];
    int64_t scalars[MAX_GRAPH_PARAMS];
    int64_t strides[MAX_STRIDES];      // of a kernel's; a graph's tensors are dense
} Bound;

// Solves dimensions and computes the shapes of absent outputs (their dim and stride are filled in), then checks
// kinds, element types, ranks, equations, strides and guards. One line of words on failure.
bool bind_args(const LaunchInfo *info, BindArg *args, int nargs, Bound *out, Buf *err);
// .. with what the caller says of dimensions that no argument gives, by dimension, -1: nothing; said may be NULL.
bool bind_sized(const LaunchInfo *info, BindArg *args, int nargs, const int64_t *said, Bound *out, Buf *err);
// The same from dimensions alone, those below 0 being unknown: they follow from `where`, or err names them. Scalars are
// taken from *out, which the caller has zeroed.
bool bind_dims(const LaunchInfo *info, const int64_t *given, Bound *out, Buf *err);
// With addresses known: no written memory overlaps another argument; then picks the variant: `info` when every
// fact holds, every tensor is 16-byte aligned and each number fits its machine parameter, else info->general (NULL
// general: *variant is NULL and `why` says which fact failed).
bool bind_overlap(const Bound *b, Buf *err);
const LaunchInfo *bind_variant(const Bound *b, Buf *why);
int64_t bind_eval(const Bound *b, LExpr e);
bool    bind_scalar(const LaunchInfo *info, BindArg *args, int p, Bound *b, Buf *err);   // one again, with another value
void    bind_contiguous(BindArg *a);                     // strides of a C-order tensor
// fits.c: does a number that was written, as a float or not, fit the type? It is rounded to it; or else words that go behind what it is of.
bool    number_fits(Elem e, bool is_float, Number *x, Buf *err);
uint64_t bind_extent(const BindArg *a);                  // bytes from its address on that a tensor can touch

// A launch made ready: parameters by value and scratch memory. May be launched again and again.
typedef struct Prepared {
    DeviceLaunch launch;
    void        *storage;              // parameter values, tensor maps; params and fixed too
    void       **params;
    DeviceRange *fixed;
    int          nscratch;
    uint64_t     scratch[8];
    bool         empty;                // no blocks: launching does nothing
} Prepared;
// How much scratch memory of each kind a launch needs.
void bind_scratch(const Bound *b, uint64_t bytes[SCRATCH_KINDS]);
bool prepare(Device *d, const LaunchInfo *variant, const Bound *b, const DeviceKernel *k, Prepared *out, Buf *err);
bool prepared_launch(Device *d, const Prepared *p, Buf *err);      // on one stream: launches share the scratch memory
void prepared_free(Device *d, Prepared *p);
// Writes again what depends on parameter `param` alone: its address, tensor maps over it, its value.
bool prepared_patch(Device *d, const Bound *b, Prepared *p, int param, Buf *err);

#endif
