// Tensors in host memory: making them (random and constant data), .npy files, comparing, printing.
//
//   tensor.c   elements and memory          npy.c      .npy files, versions 1 to 3
//   rng.c      Philox-4x32-10               compare.c  the test runner's `~` and `==`
//   fill.c     random, iota, ...            print.c    NumPy-like text
#ifndef TK_RUNTIME_TENSOR_H
#define TK_RUNTIME_TENSOR_H

#include "lang/launch.h"
#include "sema/typed.h"                // TMake

typedef struct HostTensor {            // C order, no gaps; `data` is owned (malloc), may be NULL when it has not been made
    Elem    elem;
    int     rank;
    int64_t dim[MAX_RANK];
    void   *data;
} HostTensor;

int64_t tensor_count(const HostTensor *t);                    // elements; 1 for rank 0
size_t  tensor_bytes(const HostTensor *t);
// Allocates zeroed memory for elem[dim...]. False when the size is absurd or memory is out.
bool    tensor_make(HostTensor *t, Elem elem, int rank, const int64_t *dim, Buf *err);
bool    tensor_copy(HostTensor *to, const HostTensor *from, Buf *err);
void    tensor_free(HostTensor *t);
void    tensor_type_text(const HostTensor *t, Buf *out);      // "f32[37, 1000]"
bool    tensor_type_parse(Str text, Elem *elem, int *rank, int64_t *dim, Buf *err);   // "f32[37,1000]", "f32[]", "f32"

// Element i as a number. Storing rounds once, to nearest even; to integers it saturates (design 1.3).
double  elem_get(Elem e, const void *data, int64_t i);
Number  elem_get_number(Elem e, const void *data, int64_t i);
int64_t elem_get_int(Elem e, const void *data, int64_t i);    // integers and bool exactly
void    elem_set(Elem e, void *data, int64_t i, double v);
void    elem_set_int(Elem e, void *data, int64_t i, int64_t v);
void    elem_set_number(Elem e, void *data, int64_t i, Number x);     // integers of 64 bits exactly
// n elements, rounded once (convert.c). Either may be at any address.
void    elems_convert(Elem from, const void *data, Elem to, void *out, int64_t n);
void    elems_convert_all(Elem from, const void *data, Elem to, void *out, int64_t n);       // on as many threads as help

// ---- rng.c: Philox-4x32-10 (Salmon et al., SC 2011), counter-based: element i of a stream is a function
// of (seed, stream, i) alone, so that data do not depend on the order or the machine they are made on.

void     philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
uint32_t rng_bits(uint64_t seed, uint64_t stream, uint64_t i);
double   rng_uniform(uint64_t seed, uint64_t stream, uint64_t i);             // in [0, 1), a multiple of 2^-32
double   rng_normal(uint64_t seed, uint64_t stream, uint64_t i);              // standard normal, |x| < 6.8
// The same for elements first .. first + n, which is quicker.
void     rng_words(uint64_t seed, uint64_t stream, uint64_t first, int n, uint32_t *out);
void     rng_normals(uint64_t seed, uint64_t stream, uint64_t first, int n, double *out);
uint64_t rng_stream(const char *name, int position);                          // of an argument

// ---- fill.c

typedef struct FillSpec {
    // MAKE_random: normal when lo == hi, else uniform in [lo, hi); integers: all values when lo == hi
    TMake  make;
    Number lo, hi;                     // randint [lo, hi), full: lo, iota: start lo, step hi
    const Number *values;              // MAKE_values: one for each element
    uint64_t seed, stream;
} FillSpec;
void tensor_fill(HostTensor *t, const FillSpec *spec);          // on as many threads as help: values do not depend on them
// elements first .. first + n of such a tensor
void elems_fill(Elem e, void *out, int64_t first, int64_t n, const FillSpec *spec);

// ---- npy.c
// bf16 is stored as '<u2' and f8 as '|u1' (their bits); reading also takes '|V2' and '|V1'. Whoever knows that
// such a file holds floats says so with tensor_reinterpret.

bool npy_parse(const void *bytes, size_t n, HostTensor *out, Buf *err);
// What it is, without its data; *data points at them where they lie as they are wanted, else it is NULL.
bool npy_look(const void *bytes, size_t n, HostTensor *shape, const void **data, Buf *err);
bool npy_read(const char *path, HostTensor *out, Buf *err);
bool npy_write(const char *path, const HostTensor *t, Buf *err);
bool npy_named(const char *path, Buf *err);               // FILE.npy: what is written there is no source file
// u16 as bf16, u8 as f8 or bool: same bits, other name. False when the widths or kinds do not fit.
bool tensor_reinterpret(HostTensor *t, Elem elem);

// ---- compare.c
// `got ~ expected` holds at an element when
//     |got - expected| <= abs + rel * max(|expected|, rms(expected)) + bound
// where rms is the root mean square of the finite expected elements (so that what cancellation leaves near
// zero is judged by the scale of its tensor), and bound is what `eval` says of its own rounding in sums and
// dots, where it was carried. NaN equals NaN, an infinity equals itself and nothing else. With neither rel nor
// abs given, rel is that of the coarser element type: f64 1e-12, f32 1e-5, f16 2e-3, bf16 1.6e-2, f8 0.13,
// integers 0. `==` compares values: -0 == 0 and NaN == NaN. The other comparisons must hold at every element.

typedef struct CompareResult {
    bool    ok;
    int64_t differ, count;             // elements out of bounds, elements compared
    int64_t worst;                     // index of the element furthest out of its bound (or with the largest error)
    Number  got, expected;             // there
    double  error, allowed;
    double  ulp;                       // there, in units of the coarser type's last place; NaN for integers
    double  max_error;                 // over all finite elements
    double  nmse;                      // sum (got - expected)^2 / sum expected^2 over finite elements
    const char *shape_error;           // not NULL: the shapes differ, nothing was compared
} CompareResult;
typedef struct CompareSpec { AstOp op; double rel, abs; const double *bound_got, *bound_expected; } CompareSpec;
// Either side may be of rank 0: it is compared with every element of the other.
CompareResult tensor_compare(const HostTensor *got, const HostTensor *expected, const CompareSpec *spec);
void compare_text(const CompareResult *r, const HostTensor *got, const CompareSpec *spec, Buf *out);   // one paragraph
double default_rel(Elem a, Elem b);

// ---- print.c
// The shortest digits that read back as the same value, in columns; above `threshold` elements (0: 1000) only
// the first and last three along each dimension.
void tensor_print(const HostTensor *t, int64_t threshold, Buf *out);

#endif
