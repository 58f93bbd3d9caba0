// What the files of the pass `row_cache` share: row_cache.c finds loops that load the same and keeps it, row_cache_loop.c goes on to
// the next row.
#ifndef TK_LOWER_KEEP_H
#define TK_LOWER_KEEP_H

#include "lower/build.h"
#include "lower/pass/passes.h"

enum { KEEP_LOADS = 8, KEEP_LOOPS = 8 };

typedef struct Keep {
    Fn  *f;
    int64_t fewest;                     // lanes of a tile
    Op  *loop[KEEP_LOOPS];              // the first puts, the others get
    int  loops;
    Op  *load[KEEP_LOADS];              // of the first loop
    Op  *again[KEEP_LOOPS][KEEP_LOADS]; // in a later loop, or NULL; in the first: load
    int  loads;
} Keep;

int64_t keep_tile_bytes(const Keep *k);                                // of the largest load
Val    *keep_length(Builder *b, const Op *loop);                       // of the range that the loop walks over
bool    keep_can_be_ahead(const Keep *k, const CompileOptions *opt);   // tiles can come by asynchronous copies
bool    keep_finds(Fn *f, Keep *k);                                    // the first loop whose tiles a later one loads too, whatever the warps
int64_t keep_fewest(int warps, bool meets);                            // lanes of a tile, for warps that are given (else 0), in parts that meet
int     keep_trips_ahead(const Keep *k);
bool    keep_gets(const Keep *k, int at);                              // loop `at` takes something back
void    keep_effect(Builder *b, OpCode code, int64_t imm);
// Tile x of load i of the first loop, under the number `nth`; its axes are called what the map says.
Op     *keep_put_tile(Keep *k, Builder *b, Val *room, Val *nth, Val *x, int i, const ValMap *m);
void    keep_get_tile(Keep *k, int at, int i, Val *room, Val *nth);    // loop `at` takes load i back from there
bool    walk_rows(Keep *k, const CompileOptions *opt);                 // blocks walk from row to row; false: not these

#endif
