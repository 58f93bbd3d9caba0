// Facts about index arithmetic: ranges, divisors, affine forms, host expressions. See facts.c.
#ifndef TK_LOWER_FACTS_H
#define TK_LOWER_FACTS_H

#include "lower/build.h"

typedef struct Facts Facts;
typedef struct Range { int64_t lo, hi; } Range;           // inclusive

// An index as  c + sum k * scalar + sum k * scale * lane(axis) + sum k * tile.
typedef struct AffTerm { Val *v; int64_t k; } AffTerm;
typedef struct AffAxis { Val *axis; int64_t k; Val *scale; } AffAxis;      // scale: a scalar, or NULL
enum { AFF_TERMS = 12, AFF_AXES = 6, AFF_TILES = 4 };
typedef struct Affine {
    int64_t c;
    AffTerm term[AFF_TERMS];  int nterm;
    AffAxis axis[AFF_AXES];   int naxis;
    AffTerm tile[AFF_TILES];  int ntile;
} Affine;

Facts *facts_new(Fn *f);
Fn    *facts_fn(const Facts *s);
// narrow.c: values that accesses are made of, by their numbers; NULL: none, nothing is to be narrow. From `facts_narrow` on they may be
// assumed to fit in 32 bits, where the launcher can tell.
const bool *facts_indices(Fn *f);
void   facts_narrow(Facts *s, const bool *index);
bool   facts_are_narrow(const Facts *s);
bool   fact_launch_bounds(Facts *s, const Val *v, LExpr *lo, LExpr *hi);
int    fact_passes(Facts *s, const Val *v, const Val *end);        // on live lanes 0 <= v < (k + 1) * end: k, at most 2; 0: not known
Range  fact_range(Facts *s, const Val *v);
Range  fact_live_range(Facts *s, const Val *v);            // of its live lanes alone
bool   fact_fits32(Facts *s, const Val *v);               // value and all that it is made of fit in i32
int64_t fact_divisor(Facts *s, const Val *v);             // a power of two that divides it, <= 4096
// True when v % d == 0 is known, or could be added to what the specialised variant assumes.
bool   fact_divides(Facts *s, const Val *v, int64_t d);
bool   fact_size_divides(Facts *s, LExpr e, int64_t d);           // of a size, as the launcher computes it
bool   fact_known_multiple(Facts *s, const Val *v, int64_t d);   // the same, without a new assumption
bool   fact_stride_divides(Facts *s, int param, int dim, int64_t d);
bool   fact_constant(const Facts *s, LExpr e, int64_t *v);    // of numbers alone, or of dimensions that the instance fixes
bool   fact_stride_small(Facts *s, int param, int dim, int64_t times);       // times as much fits in 31 bits
bool   fact_place_small(Facts *s, int param, const bool *dims);             // how far these dimensions reach, in elements, does
bool   fact_size_small(Facts *s, LExpr e);                // the same of a size
bool   fact_stride_one(Facts *s, int param, int dim);
bool   fact_assume(Facts *s, LExpr cond);                  // true: it holds, or the specialised variant may assume it
// An index that is not negative: what it is at most, as the launcher computes it. May add to what is assumed.
bool   fact_bound(Facts *s, const Val *v, LExpr *most);
bool   fact_same(const Val *a, const Val *b);             // structurally equal pure values
bool   fact_at_most(Facts *s, const Val *a, const Val *b);   // a <= b is known
// f32, far from 0 and from infinity; may be added to what is assumed
bool   fact_positive(Facts *s, const Val *v);
bool   affine_of(const Val *index, Affine *out);          // false: too many terms
bool   fact_host_at_most(Facts *s, LExpr x, LExpr y);     // x <= y in every launch, by its equations
bool   host_expr(Facts *s, const Val *v, LExpr *out);     // computable by the launcher
bool   host_has_value(LExpr e);                           // value.c: by the program, too, of dimensions and scalars
Val   *host_value(Builder *b, LExpr e);
Val   *axis_lo(const Val *axis);
Val   *axis_hi(const Val *axis);

#endif
