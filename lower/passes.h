// The tile passes, one function each. `true` from those that change the function says that they did.
#ifndef TK_LOWER_PASSES_H
#define TK_LOWER_PASSES_H

#include "lower/lower.h"

bool simplify(Fn *f);                                          // simplify.c: folding, CSE, dead code, identities, dot with accumulator
bool contract(Fn *f);                                          // simplify.c: a * b + c -> fma
bool flatten(Fn *f);                                           // flatten.c: nests of loops around products become one loop
bool unroll(Fn *f);                                            // unroll.c: short loops over neighbours are written out
bool unrolls(const Fn *f);                                     // unroll.c: does it have such loops?
bool hoist(Fn *f);                                             // simplify.c: loop-invariant values out of loops
bool extremes(Fn *f);                                          // extremes.c: positive factors behind maxima and minima
bool defer(Fn *f);                                             // defer.c: reductions of a loop are joined across lanes after it
bool tighten(Fn *f);                                           // tighten.c: tiles no longer than the rows they were made for
bool batch(Fn *f, const CompileOptions *opt);                  // batch.c: short programs become one, their number an axis
bool chunk(Fn *f);                                             // chunk.c: axes too long for registers become loops
bool keep_tiles(Fn *f, const CompileOptions *opt);                   // keep.c: what one loop loads, kept for the next in shared memory
bool prefetch(Fn *f, const CompileOptions *opt);               // prefetch.c: loads a trip ahead of loops that reduce in each
bool lanes(Fn *f);                                             // lanes.c: neutral elements into dead lanes where they would count
bool peel(Fn *f);                                              // peel.c: trips without masks get a copy of the body
bool split_loop(Fn *f, const CompileOptions *opt);             // split.c: a loop's trips shared by several programs
bool streamk(Fn *f, const CompileOptions *opt);                // streamk.c: the trips of the last tiles dealt evenly to all blocks; false: tiles are as they were
int  walking_blocks(const CompileOptions *opt);                // hopper_walk.c: at most so many
bool is_neutral(const Val *v, double x);                       // split.c: the number x in every lane
Op  *program_of(Fn *f);                                        // the op that gives the program's number, made where nobody asks for it
bool of_program(const Val *v);                                  // split.c: made of the program's number, not by what a loop counts or carries
bool loads_own(const Op *load);                                // split.c: not what all programs load alike, as weights
bool has_effect(const Op *op);                                 // merge.c: stores, prints, whatever else is seen from outside
const char *trips_bound(const Op *loop);                       // merge.c: why its trips cannot be run apart, whatever it carries; or NULL
Val *part_length(Builder *b, const Op *loop, int64_t parts);   // merge.c: what each part has of it, whole trips
Op  *merge_of(const Op *loop);                                 // merge.c: says how parts of what it carries become one; or NULL
const char *merge_refusal(const Op *merge);
void merge_if(Builder *b, const Op *merge, Val *there, Val *const *x, Val *const *y, Val **out);          // x where not `there`
void merge_becomes(Fn *f, Op *merge, Val *const *values);      // these are its results
bool merge_drop(Fn *f);                                        // loops are whole
void merge_apart(Fn *f);                                       // for eval: loops with a merge in parts, one after another
bool share_rows(Fn *f, const CompileOptions *opt);             // share.c: the blocks of a cluster share a row's loops
int  share_blocks(Fn *f, const Target *t, const int64_t *dims);  // of a cluster, for a row of that length; 1: none. f as built
const char *split_refusal(Fn *f);                              // why it cannot be, or NULL
const char *slices_refusal(Fn *f, Op *loop);                   // split.c: why slices of a block cannot share its trips, or NULL
bool slices_possible(Fn *f, const CompileOptions *opt);        // split.c: the pass `pipeline` may want what merges say: it drops them
void slices_join(Fn *f, Op *loop, Val *slice, int64_t slices); // split.c: what they carry becomes one after it, for one of them to go on with
int  schedule_warps(const Fn *f, const CompileOptions *opt, int *per_block);    // schedule.c: warps of a program; programs in a block
bool schedule(Fn *f, const CompileOptions *opt);               // schedule.c: warps, programs a block
void unguard(Fn *f);                                           // unguard.c: a loop of products comes out of the `if` that it stands in
bool has_products(const Region *r);
bool hopper(Fn *f, const CompileOptions *opt);                 // hopper.c: TMA rings, wgmma, producer and consumers; false: not this kernel
bool dot_to_reduce(Fn *f);                                         // matvec.c: products with a vector become sums
bool pipeline(Fn *f, const CompileOptions *opt);               // pipeline.c: rings of shared memory and asynchronous copies
int  blocks_wanted(const Fn *f);                               // registers.c: a multiprocessor; 1: registers before occupancy, no spills
bool assign_layouts(Fn *f, const CompileOptions *opt);         // assign.c: layouts of all tiles, conversions between them

#endif
