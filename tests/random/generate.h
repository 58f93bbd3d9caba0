// A random program of the language: one kernel `k`, its dimensions and where its outputs stand.
#ifndef TESTS_RANDOM_GENERATE_H
#define TESTS_RANDOM_GENERATE_H

#include "lang/lang.h"
#include "lang/launch.h"

enum { R_DIMS = 4, R_OUTS = 6 };

typedef struct Program {
    char    dim[R_DIMS];               // 'M', 'N', 'J', 'K'
    int64_t size[R_DIMS];
    int     nouts;
    bool    exact[R_OUTS];             // of output y<i>: bits must agree; else within eval's bound
    double  rel;                       // of the largest element: by how much outputs that are not exact may differ besides; 0: by nothing
    bool    small;                     // inputs are small integers, in every type
    bool    any_order[R_OUTS];         // programs add to it in the order in which they come: other bits in other runs
    Schedule schedule;
} Program;

// The same seed gives the same program. Only the outputs in `keep` (bit i: y<i>) are computed.
// elementwise, reductions, scans, loops, small products
void generate(uint64_t seed, uint32_t keep, Program *p, Buf *text);
void generate_products(uint64_t seed, uint32_t keep, Program *p, Buf *text);       // products as tensor cores want them
void generate_sums(uint64_t seed, uint32_t keep, Program *p, Buf *text);           // products of several loops, or across groups of warps
void generate_rows(uint64_t seed, uint32_t keep, Program *p, Buf *text);           // long rows, columns, loops over them
void generate_carried(uint64_t seed, uint32_t keep, Program *p, Buf *text);        // loops that look at what they carry
void generate_loops(uint64_t seed, uint32_t keep, Program *p, Buf *text);          // carried values that read each other, tiles of any extent
void generate_dots(uint64_t seed, uint32_t keep, Program *p, Buf *text);           // products of computed and gathered operands, tiles of any extent

#endif
