// The tile passes, one function each. `true` from those that change the function says that they did.
#ifndef TK_LOWER_PASSES_H
#define TK_LOWER_PASSES_H

#include "lower/lower.h"

// simplify.c: folding, CSE, dead code, identities, dot with accumulator
bool simplify(Fn *f);
bool contract(Fn *f);                                          // simplify.c: a * b + c -> fma
bool flatten(Fn *f);                                           // flatten.c: nests of loops around products become one loop
bool unroll(Fn *f);                                            // unroll.c: short loops over neighbours are written out
bool unrolls(const Fn *f);                                     // unroll.c: does it have such loops?
bool hoist(Fn *f);                                             // simplify.c: loop-invariant values out of loops
bool extremes(Fn *f);                                          // extremes.c: positive factors behind maxima and minima
// defer.c: reductions of a loop are joined across lanes after it
bool defer(Fn *f);
bool tighten(Fn *f);                                           // tighten.c: tiles no longer than the rows they were made for
bool batch(Fn *f, const CompileOptions *opt);                  // batch.c: short programs become one, their number an axis
bool chunk(Fn *f);                                             // chunk.c: axes too long for registers become loops
// keep.c: what one loop loads, kept for the next in shared memory
bool keep_tiles(Fn *f, const CompileOptions *opt);
bool prefetch(Fn *f, const CompileOptions *opt);               // prefetch.c: loads a trip ahead of loops that reduce in each
// lanes.c: neutral elements into dead lanes where they would count
bool lanes(Fn *f);
bool peel(Fn *f);                                              // peel.c: trips without masks get a copy of the body
bool split_loop(Fn *f, const CompileOptions *opt);             // split.c: a loop's trips shared by several programs
// streamk.c: the trips of the last tiles dealt evenly to all blocks; false: tiles are as they were
bool streamk(Fn *f, const CompileOptions *opt);
int  walking_blocks(const CompileOptions *opt);                // hopper_walk.c: at most so many
bool is_neutral(const Val *v, double x);                       // split.c: the number x in every lane
// the op that gives the program's number, made where nobody asks for it
Op  *program_of(Fn *f);
// split.c: made of the program's number, not by what a loop counts or carries
bool of_program(const Val *v);
bool loads_own(const Op *load);                                // split.c: not what all programs load alike, as weights
bool has_effect(const Op *op);                                 // merge.c: stores, prints, whatever else is seen from outside
// merge.c: why its trips cannot be run apart, whatever it carries; or NULL
const char *trips_bound(const Op *loop);
Val *part_length(Builder *b, const Op *loop, int64_t parts);   // merge.c: what each part has of it, whole trips
// merge.c: says how parts of what it carries become one; or NULL
Op  *merge_of(const Op *loop);
const char *merge_refusal(const Op *merge);
// x where not `there`
void merge_if(Builder *b, const Op *merge, Val *there, Val *const *x, Val *const *y, Val **out);
void merge_becomes(Fn *f, Op *merge, Val *const *values);      // these are its results
bool merge_drop(Fn *f);                                        // loops are whole
void merge_apart(Fn *f);                                       // for eval: loops with a merge in parts, one after another
bool share_rows(Fn *f, const CompileOptions *opt);             // share.c: the blocks of a cluster share a row's loops
// of a cluster, for a row of that length; 1: none. f as built
int  share_blocks(Fn *f, const Target *t, const int64_t *dims);
const char *split_refusal(Fn *f);                              // why it cannot be, or NULL
// split.c: why slices of a block cannot share its trips, or NULL
const char *slices_refusal(Fn *f, Op *loop);
// split.c: the pass `pipeline` may want what merges say: it drops them
bool slices_possible(Fn *f, const CompileOptions *opt);
// split.c: what they carry becomes one after it, for one of them to go on with
void slices_join(Fn *f, Op *loop, Val *slice, int64_t slices);
// schedule.c: warps of a program; programs in a block
int  schedule_warps(const Fn *f, const CompileOptions *opt, int *per_block);
bool schedule(Fn *f, const CompileOptions *opt);               // schedule.c: warps, programs a block
// unguard.c: a loop of products comes out of the `if` that it stands in
void unguard(Fn *f);
bool has_products(const Region *r);
// hopper.c: TMA rings, wgmma, producer and consumers; false: not this kernel
bool hopper(Fn *f, const CompileOptions *opt);
bool dot_to_reduce(Fn *f);                                         // matvec.c: products with a vector become sums
bool pipeline(Fn *f, const CompileOptions *opt);               // pipeline.c: rings of shared memory and asynchronous copies
// registers.c: a multiprocessor; 1: registers before occupancy, no spills
int  blocks_wanted(const Fn *f);
bool assign_layouts(Fn *f, const CompileOptions *opt);         // assign.c: layouts of all tiles, conversions between them

#endif
