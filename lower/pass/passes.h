// The tile passes, one function each, in the order in which pass.c runs them; then what passes ask of each other, by file.
// `true` from those that change the function says that they did. A `refusal` says in words why something cannot be, or is NULL.
#ifndef TK_LOWER_PASSES_H
#define TK_LOWER_PASSES_H

#include "lower/lower.h"

// ---- bounds.c ------------------------------------------------------------------------------------

bool within_bounds(const Fn *f, bool laid_out);         // few ops, little memory, tiles that threads can hold, when laid out little code; else E0505
void too_many_instructions(const Fn *f, int64_t n);     // E0505: so many for a thread

// ---- size.c --------------------------------------------------------------------------------------

int64_t thread_elements(const Fn *f, const Val *v);     // of a tile, that a thread holds; before layouts are known as many as there must be
typedef struct CodeSize { int64_t all, most; const Op *op; } CodeSize;      // instructions for a thread, about; of the op that has most
CodeSize code_size(const Fn *f);

// ---- passes of level 1 ---------------------------------------------------------------------------

bool simplify(Fn *f);                                   // simplify.c: folding, equal values, dead code, identities
bool extremes(Fn *f);                                   // scale_past_max.c: positive factors behind maxima and minima
bool contract(Fn *f);                                   // simplify/loop.c: a * b + c becomes fma
bool hoist(Fn *f);                                      // simplify/loop.c: loop-invariant values out of loops
bool dot_to_reduce(Fn *f);                              // matvec.c: products with a vector become sums
bool flatten(Fn *f);                                    // flatten.c: nests of loops around products become one loop
bool unroll(Fn *f);                                     // unroll.c: short loops over neighbours, or that only compute, are written out
bool tighten(Fn *f);                                    // shrink_tiles.c: tiles no longer than the rows they were made for
bool batch(Fn *f, const CompileOptions *opt);           // batch_programs.c: short programs become one, their number an axis
bool chunk(Fn *f);                                      // strip_mine.c: axes too long for registers become loops
bool split_loop(Fn *f, const CompileOptions *opt);      // split_k.c: a loop's trips shared by several programs
bool streamk(Fn *f, const CompileOptions *opt);         // stream_k.c: the trips of the last tiles dealt to all blocks
bool share_rows(Fn *f, const CompileOptions *opt);      // cluster_rows.c: the blocks of a cluster share a row's loops
bool share_in_memory(Fn *f, const CompileOptions *opt); // .. or all parts of a program, which meet in memory after each
bool keep_tiles(Fn *f, const CompileOptions *opt);      // row_cache.c: what one loop loads, kept in shared memory for the next
bool prefetch(Fn *f, const CompileOptions *opt);        // prefetch.c: loads a trip ahead of loops that reduce in each
bool tally(Fn *f, const CompileOptions *opt);           // privatize.c: atomics on small tensors are counted by blocks
bool schedule(Fn *f, const CompileOptions *opt);        // schedule.c: warps, programs a block
bool align_rows(Fn *f);                                 // align_rows.c: rows that begin anywhere, 16 bytes at a time
bool lanes(Fn *f);                                      // neutral_padding.c: neutral elements into dead lanes that would count

// ---- and of level 2 ------------------------------------------------------------------------------

void unguard(Fn *f);                                    // sink_guard.c: a loop of products comes out of its `if`
bool specialize(Fn *f, const CompileOptions *opt);          // specialize.c: roles, TMA, wgmma; false: not this kernel
bool pipeline(Fn *f, const CompileOptions *opt);        // pipeline.c: rings of shared memory and asynchronous copies
// epilogue_loads.c: what follows the loop and is loaded from tensors that nobody writes is loaded before it; tiles as far as registers go, an element of one of the
// `threads` that share it each. But: a load that is left where it is, or NULL
typedef struct Spare { int tiles, rows; const Val *columns; } Spare;      // registers of a thread: for tiles, and for rows along wgmma's columns (NULL: there are none)
void load_before(Fn *f, Op *loop, int threads, Spare spare, const Op *but);
// recurrence.c: recurrences, whose trips' loads come by asynchronous copies; whether a loop will be one whose loads do
bool sequence(Fn *f, const CompileOptions *opt);
bool sequence_possible(Fn *f, Op *loop, const CompileOptions *opt);
int  recurrence_trips(Fn *f, const Op *loop, const CompileOptions *opt);  // prefetch.c: how many trips of it are written out; 0: it is none
bool peel(Fn *f);                                       // peel.c: trips without masks get a copy of the body
bool infinities(Fn *f);                                 // infinities.c: products of f32 whose operands hold an infinity
bool masks(Fn *f);                                      // merge_masks.c: of a mask and an axis's end one comparison
bool assign_layouts(Fn *f, const CompileOptions *opt);  // assign.c: layouts of all tiles, conversions between them
void lanes_beyond(Fn *f);                               // .. in places that a layout has past the last of an axis
bool defer(Fn *f);                                      // lazy_reduce.c: reductions of a loop are joined across lanes after it

// ---- split_k.c -------------------------------------------------------------------------------------

const char *split_refusal(Fn *f);
const char *slices_refusal(Fn *f, Op *loop);            // why slices of a block cannot share its trips
bool slices_possible(Fn *f, const CompileOptions *opt); // `pipeline` may want what merges say: it drops them
void slices_join(Fn *f, Op *loop, Val *slice, int64_t slices);   // what they carry becomes one, for one of them to go on
const char *scatter_refusal(Fn *f, const Target *t, int parts);  // cluster_scatter.c: why blocks of a cluster cannot each join a slice of a tile
int64_t scatter_bytes(Val *const *v, int n, int64_t parts);      // cluster_scatter.c: that a block receives of what the others have of its slice
Op  *program_of(Fn *f);                                 // gives the program's number; made where nobody asks for it
bool of_program(const Val *v);                          // made of that number, not by what a loop counts or carries
bool loads_own(const Op *load);                         // not what all programs load alike, as weights
bool is_neutral(const Val *v, double x);                // the number x in every lane

// ---- regroup.c -----------------------------------------------------------------------------------

bool trips_regroup(const Fn *f, const Op *loop);        // it comes to the same if its trips take other stretches of the same row

// ---- merge_partial.c: what `merge` says of a loop's parts ------------------------------------------------

Op  *merge_of(const Op *loop);                          // NULL: it has none
const char *merge_refusal(const Op *merge);
void merge_if(Builder *b, const Op *merge, Val *there, Val *const *x, Val *const *y, Val **out);   // x where not `there`
void merge_becomes(Fn *f, Op *merge, Val *const *values);        // these are its results
bool merge_drop(Fn *f);                                 // loops are whole
void merge_apart(Fn *f);                                // for eval: loops with a merge in parts, one after another
Val *part_length(Builder *b, const Op *loop, int64_t parts);     // what each part has of it, whole trips
const char *trips_bound(const Op *loop);                // why its trips cannot be run apart, whatever it carries; or NULL
bool has_effect(const Op *op);                          // stores, prints, whatever else is seen from outside

// ---- others --------------------------------------------------------------------------------------

bool unrolls(const Fn *f);                              // unroll.c: does it have loops over neighbours?
bool share_meets(Fn *f, bool *runs);                           // cluster_rows.c: whether parts of a program would, some to add up first; f as built
int  share_blocks(Fn *f, const Target *t, const int64_t *dims);  // cluster_rows.c: of a cluster, for such a row; f as built
int  schedule_warps(const Fn *f, const CompileOptions *opt, int *per_block);   // schedule.c: of a program; programs a block
int  blocks_wanted(const Fn *f);                        // registers.c: a multiprocessor; 1: no spills before occupancy
int  blocks_that_keep(const Fn *f);                      // .. of those that keep tiles in shared memory, which is laid out
int  walking_blocks(const CompileOptions *opt);         // specialize/persistent.c: at most so many
int  ws_blocks_together(int64_t programs, int sms, int groups); // specialize/side_inputs.c: on a multiprocessor, that compute an operand
bool has_products(const Region *r);                     // sink_guard.c

#endif
