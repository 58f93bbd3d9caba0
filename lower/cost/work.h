// What the models of kernels with products share: what there is to do (work.c, operand_cost.c), and how long it takes as one loop (product_cost.c), as a
// loop in another one (outer_loop_cost.c), and down columns with the right operand kept (resident_b_cost.c). cost.c takes the least.
#ifndef TK_LOWER_COST_WORK_H
#define TK_LOWER_COST_WORK_H

#include "lower/cost/cost.h"
#include "lower/facts/access.h"

#include <math.h>

// What more than one of these files counts with. Fitted, as theirs, to what an H200 took (tests/lower/test_cost*.c).
static const double START = 3.2;                                    // us: an empty launch
static const double POWER = 0.84;                                   // of the peak
static const double SLOTS_BYTES = 34e3;                             // beside the ring
static const double CROSSED = 2.7;                                  // rows of TMA that are no whole sectors of 32
static const double LOADED = 10e3;                                  // elements of a tile that the consumers load behind the loop, a us
static const double OWN_ALIGNMENT = 4.4e-3;                         // us of a row of a tile that is stored at its own alignment
static const double EXPOSED = 0.55;                                 // of an activation's time, that the other group's products do not hide
static const double TOGETHER = 4;                                   // of large tiles: a norm between the sum of work and memory's time, 1, and the longer one
static const double GATHERED = 120e3, IDLE = 0.7;                   // bytes of rows that data names, a us; us of a program that finds nothing to do
enum { PACKED = 512, MOST_TOGETHER = 3, MAX_RING = 16 };            // programs of fewer elements are one warp each; blocks of a multiprocessor; stages

typedef struct Work {
    const Op *loop;                 // of several that share a ring (specialize/loop_sequence.c) the last one; a trip is what theirs are in the mean
    bool    several;
    double  flops, clocks;          // of a trip: all of it; on the tensor cores, 0 if not by wgmma
    double  bytes, drawn;           // that a trip reads; as L2 would count them
    double  low;                    // bytes that lie in a stage besides: what tf32 leaves
    double  common;                 // of those, what programs one below the other both read, where its rows are no whole sectors
    double  elements, pieces;       // of them, one by one; in pieces of 4 or 8 bytes
    double  tile, tile_rows;        // elements that a program makes
    double  rate;                   // flops a us of one multiprocessor
    int     threads;                // that multiply
    int64_t group_regs;             // a thread's, of a tile that one group makes
    double  group, group_row;       // rows of the left operand that are walked together; bytes of a trip of each
    double  behind;                 // bytes of a tile that what follows the loop reads, where TMA brings it
    double  end, turned_end;        // us: what a thread computes of a tile after the loop; a turned one on its way to rows, before another one
    double  tile_bytes;             // of what a loop carries
    int64_t trips, programs;
    double  unique;                 // bytes of all tensors
    const Op *nest;                 // a loop around it; NULL: none
    int64_t outer;                  // trips of that
    double  between, again;         // then: operations of an element behind each of them; bytes that each reads again
    int64_t regs;                   // of a thread, for all sums
    double  gathered, picked;       // bytes of a trip whose rows data names; of all rows that are, of a table (NULL: none)
    const Val *table;
    double  idle;                   // programs that find nothing to do
    bool    merged;                 // what the loop carries is joined by its `merge`
    bool    wide;                   // the target has wgmma
    bool    f32;                    // as tf32, once or three times
    bool    splits, promoted, sync;  // sync: some product is not by wgmma, and so none is
    bool    scattered, rows;        // rows of a result that 16 bytes do not divide are stored element by element; or by warps that walk (specialize/unaligned_rows.c)
    bool    three;                  // groups of 64 rows each
    int64_t columns;                // of wgmma's
    bool    turned;                 // the transposed product is made
    bool    pingpong;               // each of two groups may make tiles of its own: one product, a ring that is deep enough, registers for what follows
    bool    keeps;                  // .. and go down columns with the right operand in its place
    bool    pairs;                  // programs one below the other could each bring half of the right operand for both
    double  made;                   // elements of an operand that a trip computes
    bool    computes;               // by mma.sync each trip loads one and computes it, which nothing hides
    double  turned_bytes, rowed;    // bytes that lie with k outside: by mma.sync; by wgmma, those that other warps turn
    double  left, right;            // bytes of a trip, by side, where they come by plain loads; and tiles along the columns and the rows (0: unknown)
    int64_t across, down;
    double  outside;                // of the rows that a trip brings, those past the tensor's end
    bool    in_graph;               // begins before the launch ahead of it has ended
    bool    alone, narrow;          // a block to a program, as tiles that TMA does not store need; rows that TMA does not fetch
} Work;

// work.c. False: no kernel that is known, or its tile is not for this target.
bool work_of(Fn *f, const Target *t, const int64_t *dims, bool in_graph, Work *w);
bool number_of(Facts *s, const Val *v, const int64_t *dims, int64_t *out);

// operand_cost.c
typedef enum Way { BY_TMA, BY_VECTORS, BY_PIECES, ONE_BY_ONE } Way;             // BY_PIECES: cp.async of less than 16 bytes
Way    operand_way(Facts *s, const Val *v, const Val *k, const int64_t *dims, double *times);
double operand_bytes(Facts *s, const Val *v, const Region *trip);
bool   operand_brought(const Val *v, const Region *trip);
bool   operand_made(const Val *v, const Region *trip);
bool   operand_loaded(const Val *v);
bool   operand_by_columns(Facts *s, const Val *v, const Val *k);
bool   operand_by_data(Facts *s, const Val *v);
bool   operand_by_places(Facts *s, const Val *v);
bool   operand_plain(Facts *s, const Val *v);
void   operand_picks(Work *w, Facts *s, const int64_t *dims, const Val *v, double bytes);

// What differs by what multiplies: wgmma in roles, fitted to products; mma.sync, fitted to decoding attention.
typedef struct Rates {
    double fill, end, last;         // us: the first loads; storing a tile; and each byte of the last one, behind which nobody loads
    double l2, draw;                // bytes a us and multiprocessor: from L2, from memory
    double barriers;                // us a trip
    double again, few;              // of what is read again, that misses L2; memory drawn by few blocks
    double memory, beside;          // of the memory's peak; of the work, what is not done while memory is waited for
    double join, parts;             // us: fences and the count of arrivals; bytes a us of parts
} Rates;
static const Rates by_wgmma = {1.1, 0.6, 2e-5, 145e3, 105e3, 0.0125, 0.06, 0.1, 0.9, 0.1, 2, 72e3}, by_mma_sync = {1.2, 1.3, 0, 150e3, 47e3, 0.01, 0.1, 0.06, 0.87, 0, 3.5, 150e3};

// A launch of one loop: how many parts share it, whether blocks walk from tile to tile, whether groups of a block make tiles of their own, whether
// the trips of the last tiles are dealt evenly to all blocks, whether parts are the blocks of a cluster, which each join a slice.
typedef struct How { int parts; bool walks, pingpong, dealt, scattered; } How;
double product_us(const Work *w, const Target *t, How how);
// .. that parts which are a cluster's blocks save of it
double nearer_us(const Work *w, const Target *t, const Schedule *given, int parts, double us);

// Blocks of which so many share a multiprocessor; *stages of a ring are what they have room for. 0: they do not fit.
double nest_us(const Work *w, const Target *t, int together, int parts, int given, int *stages);
double kept_us(const Work *w, const Target *t, int run);           // by runs of so many tiles

#endif
