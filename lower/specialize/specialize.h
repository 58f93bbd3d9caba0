// What the files of `hopper` share: the plan of a kernel with roles, and the pieces its loops are built of.
#ifndef TK_LOWER_SPECIALIZE_H
#define TK_LOWER_SPECIALIZE_H

#include "lower/facts/access.h"
#include "lower/pass/passes.h"

enum { MAX_DOTS = 6, MAX_PRODUCTS = 4 * MAX_DOTS, SPAN = 128, MAX_STAGES = 16, SYNC_BYTES = 2048, MAX_CARRIED = 64, MAX_DIGITS = 8, MAX_SOURCES = 4, MAX_AHEAD = 16, GATHER_THREADS = 128, MAX_WALKED = 2 * MAX_DOTS * 4, MAX_LOOPS = 4, MAX_PLACES = 2 * MAX_DOTS };      // MAX_DOTS: of a loop; SPAN: bytes of the widest swizzle; barriers and small reductions

enum { OTHERS, CONSUMERS, FIXED, PREPARES = FIXED };      // regions of `roles`; there is no second producer beside warps that prepare

typedef enum Where { RING, ONCE, MADE, ACROSS, REGISTERS } Where;
typedef enum Ends { WHOLE, BY_ROWS, BY_COLUMNS } Ends;

// A row's number as pixels (specialize/im2col.c): digits of it index dimensions of the tensor.
typedef struct Pixels {
    int    dim;                     // of the tensor
    bool   digit;                   // else it is the same for all rows
    Val   *radix;                   // the digit's length; NULL: the last one
    Val   *step;                    // NULL: 1
    Affine base, tap;               // what is added: for all trips, and what changes from trip to trip
    LExpr  lower, upper, stride;    // of the tensor map
} Pixels;
typedef struct Window {
    int    n;                       // dimensions but the innermost, from inner to outer; the last one: pictures, but of a lone one
    bool   lone;                    // the tensor is one picture: the map has a dimension more, of length 1
    Pixels at[4];
    Val   *rows;
    bool   whole;                   // the rows' last digit is the picture
    bool    phased;                 // where it begins is not the same for all programs: a part of the tap
} Window;

typedef struct Operand {
    Where   where;
    bool    gathered;               // RING, by cp.async: data names its rows
    int     boxes;                  // RING: its rows lie together only so many at a time, in so many boxes (specialize/paged_boxes.c); 0: wherever one begins
    Val   **corner;                 // of those, in the producer: box by box an index for each dimension but the innermost
    bool    clear;                  // rows past the contracted axis's end are not zero by themselves
    Op     *load;                   // RING, ONCE
    Val    *tile;                   // MADE, ACROSS
    Access  a;
    Window *window;                 // its rows are pixels; NULL: they lie along one dimension
    Val    *start[MAX_RANK];        // of a window: coordinates of the tile's first pixel
    Val    *outer, *inner;          // axes of the tile as it lies in memory: inner is contiguous
    int     outer_dim;
    int64_t columns;                // of a row in shared memory: those of the tile, or up to a whole span
    uint32_t bytes;                 // of one stage
    int     swizzle;
    int     per[2];                 // of a source: lanes of `outer` and `inner` that one element is for; 0 or 1: one
    const struct Operand *same;     // the operand of an earlier product that is this tile: it is loaded and cleared there
    Val    *buffer;
    int     place;                  // RING, of several loops: where in a stage (specialize/loop_sequence.c)
    int     map;                    // number of the tensor map
    bool    turned;                 // bytes, on the right, with the contracted axis outside: wgmma reads what other warps make of them (specialize/tf32x3.c)
    bool    seen;                   // not by products alone (specialize/operand_reuse.c)
    bool    fixed;                  // RING, of a tensor that nobody writes meanwhile: a second producer brings it, and does not wait for earlier launches
    Val    *common;                 // RING, in clusters: do all blocks want the same box? NULL: never
    Ends    ends;                   // the last tile is brought as far as it goes (specialize/partial_boxes.c): by a tensor map of its own, or by chunks of columns
    LExpr   last_rows;              // BY_ROWS: how many it has
    Val    *live;                   // in the producer: rows of this tile's boxes, or live columns
} Operand;

typedef struct Product {
    Op     *dot;
    Val    *row, *col, *k;          // of what wgmma makes
    bool    promoted;               // f8: the tensor cores keep too few bits, so each trip's product is added in f32
    bool    swapped;                // which is the dot's transpose: op[0] is its right operand
    bool    three;                  // of f32, as three of tf32 (specialize/tf32x3.c)
    bool    goes_on;                // it adds to what an earlier loop has come to (specialize/loop_sequence.c)
    bool    for_sources;            // for TMA to bring what that is computed from; else nothing is won
    Operand op[2];
} Product;

typedef struct Ring { Val *stage, *phase; } Ring;      // where a loop stands in the rings: i32 scalars

typedef struct Ws {
    Fn     *f;
    const CompileOptions *opt;
    Facts  *facts;
    Op     *loop;                   // of several (specialize/loop_sequence.c) the one at hand: its number, and its products
    Op     *loops[MAX_LOOPS];
    int     nloops, at, from, to, first[MAX_LOOPS + 1];      // first[i]: of a loop's products
    uint32_t place_bytes[MAX_PLACES];      // then: parts of a stage, which an operand of each loop has
    Op     *nest;                   // the loop whose body that is in (specialize/outer_loop.c); NULL: none
    Ring    within[3];              // then, by role: where the ring stands as the outer loop's trip begins
    Product p[MAX_PRODUCTS];
    Operand source[MAX_SOURCES];    // what the only product's left operand is computed from (specialize/side_inputs.c): parts of the ring's stages
    int     nsources;
    Operand vector[MAX_SOURCES];    // rows of numbers that a trip loads beside its tiles (specialize/side_vectors.c): parts of the ring's stages, too
    int     nvectors;
    struct { const Op *load; int runs; } ahead[MAX_SOURCES];      // and what each thread loads of it for itself, a trip ahead: so many elements a row
    int     naheads, nahead;        // loads; elements of all of them
    int     np, groups, rings, stages, maps;
    bool    no_bands;               // rows do not come in 192s
    int     slices;                 // of the consumers that share the loop's trips (specialize/sliced_k.c); 1: none
    Val    *slice;                  // which one this is
    int     tiles;                  // that a block makes at a time, each by a group of its own (specialize/pingpong.c); 1: its groups share one
    int     bands;                  // of a tile's rows, each a group's of its own (specialize/consumer_groups.c); 1: its groups share all of the consumers' work
    Val    *rest, *turns_over;      // then: how far a tile's trips move a position in the ring, and flip its phase
    bool    halfway;                // the consumers go on behind a loop over trips by twos (specialize/dual_issue.c)
    int     every;                  // trips from one of a role's to its next
    uint32_t stage_bytes[2];        // by ring
    bool    pipelined;              // the products of a trip are in flight in the next one
    bool    follows;                // a product behind the loop: mma.sync of the consumers, its operands over the rings
    bool    chained;                // the first of two products is a trip ahead of the second, and each has a ring (specialize/softmax_overlap.c)
    bool    turns;                  // two consumer groups start a trip's products in turns
    Val    *full[2], *empty[2];     // barriers of the rings
    Val    *once, *once_free;       // and of what is loaded once a tile
    uint32_t once_bytes, made_bytes, across_bytes, added_bytes;
    bool    by_threads;             // the consumers read the left operand's elements themselves (specialize/tf32x3.c)
    Val    *low, *low_full;         // what tf32 leaves of the right one, and its barriers; NULL: products are single ones
    uint32_t low_bytes;             // of a stage
    Operand behind;                 // a tile that what follows the loop reads (specialize/epilogue_load.c), and its barriers
    uint32_t behind_bytes;          // 0: there is none, or the consumers load it
    Val    *behind_full, *behind_free;
    int     cluster;                // blocks that load for each other what all of them want; 1: none
    bool    by_rows, apart, inside; // results leave row by row (specialize/unaligned_rows.c): some rows begin where TMA cannot write, or lie apart; data says where a tile ends
    int64_t tile_bytes;             // of the widest result
    uint32_t walk_bytes, walk_at;   // of the slots through which a walking block stores; 0: a block to a program
    uint32_t fixed_bytes;           // of a stage, that a second producer brings; 0: there is one producer
    Op     *begins[3];              // by role: the first loop over the rings
    Ring    start[3], end[3];       // by role: where the loop over the rings begins, and where it leaves them
    Val    *turn[3];                // by role: the phase of what is loaded once a tile
    int     keep;                   // tiles that a block makes with the right operand in its place (specialize/resident_b.c); 0: it comes anew for each
    Op     *row_tile, *column_tile; // then: which tile of its column a program is, and which column
    Val    *turn_by, *turn_round, *turn_end;      // how far into its sum a block begins, how long it is, and where it begins anew (specialize/k_rotation.c); NULL: all with the first trip
} Ws;

// specialize/ws_plan.c: whether the kernel can have roles, and then what they share; else false, with the reason in the report.
bool ws_applies(Ws *h);
int  ws_stages_in(const Ws *h, int64_t room);
bool ws_repeatable(const Ws *h, const Op *op);                       // the same wherever it is done
bool ws_computable(const Ws *h, const Val *v);                       // by the producer too: a scalar of parameters, lengths, the program
bool ws_place_computable(const Ws *h, const Affine *x);              // all that a coordinate is made of, but axes, is

// specialize/producer.c, specialize/consumer.c: the regions of the roles. A role's `for` over the loop's trips carries n values and the ring's position; `map` knows its bounds.
void ws_producer(Ws *h, Region *r, int role);
void ws_once_fill(Ws *h, Builder *b, Val *turn, ValMap *map);        // what is loaded once a tile, or once for several
bool ws_counts_digits(const Ws *h);                                  // the producer takes the trip's number apart as it goes
void ws_consumers(Ws *h, Region *r);
Op  *ws_ring_loop(Ws *h, Builder *b, int role, int n, Val *const *init, const ValMap *map, Builder *inner, Ring *ring);
Val *ws_i32(Builder *b, int64_t v);
Op  *ws_effect(Builder *b, OpCode code, int n, Val *const *in);
Ring ws_advance(Ws *h, Builder *b, Ring r);                          // the next stage; its phase flips on wrapping
// A product at the ring's position; operands in registers are looked up in m.
Val *ws_multiply(Ws *h, Builder *b, const Product *p, Ring ring, ValMap *m);
Val *ws_wait(Builder *b, int in_flight, Val *acc);
// The same for several values, each replaced: besides accumulators, what a product in flight reads from registers
// (alive until then), and what must have been computed by then (machine code is ordered by such ties alone).
void ws_wait_all(Builder *b, int in_flight, int n, Val **v);
int  ws_ring(const Ws *h, const Product *p);                         // whose stages hold its operands
// specialize/dual_issue.c: whether trips go by twos; the loop over them, which begins with `init`, what the loop carries and what is loaded ahead. What comes to these
// then stands there, and the trip's number is returned with which the last one of an odd number begins.
bool ws_by_twos(const Ws *h);
bool ws_twos_turns(const Ws *h);                                 // and two groups begin them in turns
Val *ws_twos(Ws *h, Builder *b, Val **init);
void ws_await(Ws *h, Builder *b, int ring, Ring at);                 // until a stage is full
void ws_release(Ws *h, Builder *b, int ring, Val *stage);
void ws_release_once(Ws *h, Builder *b);                             // what is loaded once is not read any more: walking blocks load the next
Val *ws_coordinate(Builder *b, const Affine *x, ValMap *m);           // of lane 0, in values that m maps
void ws_map_dims(const Access *a, int8_t *dim);                       // of a tensor map: innermost first
int  ws_add_map(Ws *h, LaunchSlot s);                                // a tensor map's number
bool ws_is_ring_load(const Ws *h, const Op *op);

// specialize/im2col.c: rows that are pixels. NULL: `dims` dimensions before the innermost are indexed so; else why not.
const char *ws_window(Ws *h, const Access *a, int dims, bool taps, Window *out);
int  ws_window_spatial(const Window *w);                              // dimensions that a picture has beside channels
bool ws_window_ends(Ws *h, const Access *a, const Window *w);        // rows past the axis's end are past the tensor's
int  ws_window_map(Ws *h, const Access *a, const Window *w, int swizzle, int64_t pixels, bool rounds);
// Where the row of number `first` is, without the tap: its digits, and a coordinate for each dimension that rows index.
void ws_window_digits(Builder *b, const Window *w, Val *first, Val **digit);
void ws_window_place(Builder *b, const Window *w, Val *const *digit, Val **coord);
void ws_window_start(Builder *b, const Window *w, Val *first, Val **coord);

// specialize/im2col_wgrad.c: windows whose rows are contracted, so that each trip begins at other pixels. Whether a product's can be; the first trip's
// digits, which the producer's loop carries; where the trip's boxes begin; the next trip's digits.
typedef struct PixelWalk {
    const Window *w;
    Val *from;                      // a trip's first row
    bool carried;                   // its digits, from trip to trip; else each trip divides
    Val *step[MAX_RANK], *digit[MAX_RANK];
} PixelWalk;
typedef struct PixelWalks { int n; PixelWalk at[2 * MAX_DOTS]; } PixelWalks;
const char *ws_pixels_refusal(const Ws *h, const Operand *o);
int  ws_pixels_begin(Ws *h, Builder *b, bool fixed, Val *begin, PixelWalks *all, Val **digits);
void ws_pixels_place(Ws *h, Builder *b, bool fixed, PixelWalks *all, Val *const *digits, ValMap *map);
int  ws_pixels_next(Builder *b, const PixelWalks *all, Val **digits);

// specialize/independent_products.c: products that only want what is loaded begin with the trip's first one, and Ws.p is in the order of the ops; a
// tile that several products take is loaded once (Operand.same).
void ws_products_first(Ws *h);
void ws_share(Ws *h);

// Products of a trip that have been started and not waited for, in their order: each until the first op that wants it.
typedef struct Flight {
    const Op *dot[MAX_DOTS];
    Val      *from[MAX_DOTS];       // what it reads from registers, alive until it is done; or NULL
    int       n;
} Flight;
void ws_started(Flight *f, const Op *dot, Val *from);
int  ws_wanted(const Flight *f, const Op *op);                        // how many of the first ones this op takes the results of
void ws_settle(Flight *f, Builder *b, ValMap *map, int n);            // waits for so many

// specialize/single_k_step.c: the products that stand in no loop, nor their loads, up to MAX_LOOPS of them, 0 if there are others that are not so; each made the trip of
// a loop, and taken out of it again.
int  ws_lone_products(Fn *f, Op **to);
Op  *ws_into_loop(Fn *f, Op *dot);
void ws_sum_begun(Fn *f, const Op *loop);                             // what adds nothing to it goes, so that a next loop goes on with it
void ws_out_of_loop(Fn *f, Op *loop);

// specialize/side_inputs.c: what TMA can bring of a computed left operand, found once the products are known; where its box begins; its load made a
// read of the stage. False: it is no source.
void ws_sources(Ws *h);
int64_t ws_shared_room(Ws *h, int64_t room);                     // of the ring, where blocks share a multiprocessor
Val *ws_packed_coordinate(Builder *b, const Operand *o, int d, ValMap *map);
bool ws_take_source(Ws *h, Builder *b, const Op *load, Val *stage, ValMap *map);
// specialize/block_scales.c: are there loads of scales, to be ahead? Of how many runs of lanes of the contracted axis a load has an element each, a trip ahead; 0: it is loaded in its trip.
bool ws_scales(Ws *h);
int64_t ws_row_registers(const Ws *h, const Val *v);             // that a number, or a row or column of them, takes in a thread
int  ws_runs_ahead(Ws *h, const Op *load);
// The loads that are a trip ahead, for the trip that begins at `counter`; what an earlier trip has loaded in place of one: what `took` has of it.
void ws_load_ahead(Ws *h, Builder *b, Val *counter, Val **out);
bool ws_take_ahead(Ws *h, Builder *b, const Op *load, Val *const *took, ValMap *map);

// specialize/side_vectors.c: the vectors of a trip that TMA can bring, found once the products are known; a load of one made a read of the stage, false if it is none.
void ws_vectors(Ws *h);
bool ws_is_vector(const Ws *h, const Op *load);
bool ws_take_vector(Ws *h, Builder *b, const Op *load, Val *stage, ValMap *map);
const Op *ws_behind_vectors(const Ws *h, const Op *op);               // the op that wants these vectors: until it may begin they need no registers

// specialize/tf32x3.c: whether the only product's left operand is read by threads, NULL, or why it cannot be; a thread's registers for a trip of it; the buffer and
// barriers of the low parts, or of a turned operand; the region of the warps that make them.
const char *ws_low(Ws *h);
int64_t ws_left_words(const Ws *h);
int ws_preparing(const Ws *h);                                       // warps that prepare what the producer has brought
bool ws_in_pairs(const Ws *h);                                       // the rows of its result are (layout_mma_pairs)
void ws_low_buffers(Ws *h, Builder *b, uint32_t *at);
void ws_low_barriers(Ws *h, Builder *b, uint32_t *at);
void ws_low_region(Ws *h, Region *r);

// specialize/operand_reuse.c: do others than products of the loop take what this load brings; is there such an operand; are stages read by threads? Then loads of
// their own for those outside of the loop, and, before an op of the loop that takes one, a read of the stage.
bool ws_seen(const Ws *h, const Op *load);
bool ws_any_seen(const Ws *h);
uint32_t ws_seen_bytes(const Ws *h);                                 // of shared memory, for what is made of them
typedef enum HopRelease { BY_GROUPS, BY_WARPS, BY_THREADS } HopRelease;       // mbar_arrive's imm
HopRelease ws_release_by(const Ws *h);
void ws_seen_apart(Ws *h);
void ws_take_seen(Ws *h, Builder *b, const Op *op, Val *stage, ValMap *map);

// specialize/softmax_overlap.c: whether this is a loop of two products, the second on what the first became; its consumers.
bool ws_chained(Ws *h);
void ws_overlap(Ws *h, Region *r);

Op  *ws_fill(Builder *b, const Operand *o, Val *stage, Val *bar, ValMap *map);

// specialize/register_operand.c: whether an operand can be made before the loop, by the consumers, and put into a buffer; their part of it.
bool ws_made(const Ws *h, Operand *o, Val *v, Val *k);
void ws_made_store(Ws *h, Builder *b);

// specialize/smem_operand.c: an operand that a trip makes of a product whose rows this one contracts (ACROSS): whether v is one, and then how it lies in its buffer's two
// slots; the slot of the trip at the ring's position; what the consumers do before the product that takes it.
enum { ACROSS_SLOTS = 2 };
bool ws_across(const Ws *h, Operand *o, Val *v, const Val *k);
Val *ws_across_slot(const Ws *h, Builder *b, Ring at);
void ws_across_store(Ws *h, Builder *b, const Product *p, Ring at, const ValMap *map);
bool ws_any_across(const Ws *h);

// specialize/epilogue_load.c: bytes of a tile that what follows the loop reads and TMA can bring meanwhile, 0 if there is none; whether the ring
// beside it is too short. Then its load made a wait, the producer's part after a tile's trips, and the consumers' after their stores.
uint32_t ws_behind_bytes(Ws *h);
bool     ws_behind_short(const Ws *h);
void     ws_behind_take(Ws *h);
void     ws_behind_fill(Ws *h, Builder *b, ValMap *map);
void     ws_behind_release(Ws *h, Builder *b);

// specialize/sliced_k.c: into how many slices the consumers divide the loop's trips, 1 for none, and the shared memory that
// joining them takes; what follows the loop made one slice's; a slice's own trips, and its first stage.
int      ws_slices(Ws *h);
bool     ws_slices_short(Ws *h);                               // too few stages: there are none then
uint32_t ws_slice_bytes(const Ws *h);
void     ws_slices_join(Ws *h);
void     ws_slice_trips(Ws *h, Builder *b);
Ring     ws_first(Ws *h, Builder *b);

// specialize/pingpong.c: how many tiles a block makes at a time, 1 or 2. Then the consumers' first tile and stride in `range`, and where in
// the ring they begin; the position moved past the stages of the other group's tile.
int  ws_pingpong(Ws *h);
bool ws_pingpong_busy(const Ws *h);                            // what follows a tile's loop takes longer than a trip
void ws_pingpong_no_room(Ws *h);                               // the rings do not fit: there is one tile then
Ring ws_pingpong_begin(Ws *h, Builder *b);
Ring ws_pingpong_skip(Ws *h, Builder *b, Ring r);
void ws_pingpong_turns(Ws *h, Builder *before, Val *again, Builder *after, Val *more);  // around a tile's loop: had the block a tile before, has it another one

// specialize/resident_b.c: the loads of the right operand before the loop, which has one trip, and programs in order of columns, if that is asked for and can be.
// Then, where blocks walk: how many runs of tiles there are, and a role's loop over them.
void ws_keep(Ws *h);
bool ws_keeps(Ws *h);

// specialize/consumer_groups.c: how many groups share a tile, and in how many bands of rows, once it is known how many tiles a block makes at a time. The
// axis of rows made each group's own.
void ws_divide_rows(Ws *h, int tiles);
void ws_bands_apart(Ws *h, Region *consumers);
static inline int ws_storing(const Ws *h) { return h->groups * h->tiles * h->bands; }      // groups that have slots of their own

// specialize/persistent.c: blocks that walk over the grid. Bytes of shared memory that it takes, 0 when it is not for this kernel;
// then the roles, made for one tile, go round.
uint32_t ws_walk_bytes(Ws *h);
void ws_walk(Ws *h, Op *roles);
void ws_longest_first(Ws *h);
bool ws_ends_with(Ws *h, const Val *axis, LExpr dim);                // lanes past the axis's end are past the tensor's, or there are none
int  ws_slots_map(Ws *h, const Access *a, int64_t columns);          // the tensor map of what leaves through slots

// specialize/tma_reduce_add.c: bytes of slots for tiles that a trip adds to memory, 0 if there are none or the threads do it; then the ops made the copy engine's.
uint32_t ws_added_bytes(Ws *h);
void     ws_added(Ws *h, Builder *top, uint32_t at);

// specialize/unaligned_rows.c: stores of tiles whose rows 16 bytes do not divide (Ws.by_rows). Bytes for a whole tile, and for the least slots.
int64_t  row_pitch(int64_t columns, int size);
int64_t  row_chunk(int64_t columns, int size, int64_t warp_bytes);
bool     ws_row_storable(Ws *h, const Op *op);
int64_t  ws_row_bytes(const Ws *h, const Op *op);
uint32_t ws_least_row_bytes(const Ws *h, bool half);
void     ws_store_rows(Ws *h, Builder *top, Op *op);

// specialize/pdl.c: bytes of a stage that a producer of its own brings, which does not wait for earlier launches (Operand.fixed); 0:
// there is one producer. Then where the consumers wait.
uint32_t ws_fixed(Ws *h);
void ws_wait_late(const Ws *h, Region *consumers);

// More slots, for a whole tile, where the ring is deep enough without their bytes, which are returned.
int64_t ws_whole_slots(Ws *h, int64_t room);
Op  *ws_program(const Fn *f);                                         // the op of that name
Val *ws_existing(Builder *b, Val *program, Val *programs);            // no program past the last

// specialize/paged_boxes.c: do its rows lie together some at a time? Then they come by as many boxes of TMA. Is there such an operand? Where
// they begin, in the producer: by what the loop changes, and by what it does not, which comes before it. m has what the scalars are there.
bool ws_boxes(Ws *h, Operand *o);
bool ws_any_boxes(const Ws *h);
void ws_box_corners(Ws *h, Builder *b, const ValMap *m, bool fixed, bool inside);

// specialize/gathered_rows.c: are an operand's rows named by data; NULL: they can be brought by cp.async, or why not. Bytes of a stage of a ring (-1: of both) that are.
// Then, in the producer, what the numbers of rows are made of in a region, made there; and a stage's copies. specialize.c: what both roles have of a prologue.
typedef struct RowsAhead {
    int    n;
    Val   *idx[2 * MAX_DOTS], *lasting[2 * MAX_DOTS];      // of the loop's body; an axis for it that outlives the trips
    ValMap before;                  // what the producer has of the values outside of the loop
} RowsAhead;
bool ws_gathered(const Operand *o);
const char *ws_gather(Ws *h, Operand *o, const Val *k);
uint32_t ws_gathered_bytes(const Ws *h, int ring);
void ws_gather_rows(Ws *h, Builder *b, ValMap *m, const Region *r);
void ws_gather_ahead(Ws *h, Builder *b, const ValMap *m, RowsAhead *a, Val **first);      // numbers that a trip names, for the first one
void ws_gather_now(Ws *h, Builder *b, ValMap *m, const RowsAhead *a, Val *const *now, Val *counter, Val **next);
void ws_gather_fill(Ws *h, Builder *b, const Operand *o, Val *stage, ValMap *m);
bool ws_of_both(const Ws *h, const Op *op);

// specialize/outer_loop.c: the loop of products that the loop's body has, if any (Ws.nest, Ws.loop), and whether its products will do: NULL, or why not. Then the
// outer loop of a producer, whose body `b` goes on in; of the consumers, with all that is in it; and the ring's position handed on at the end of its body.
const char *ws_nest(Ws *h);
const char *ws_nest_refuses(const Ws *h);
void ws_nest_producer(Ws *h, Builder *b, int role, ValMap *map);
void ws_nest_consumers(Ws *h, Region *r);
void ws_nest_end(Ws *h, int role, Region *r);

// specialize/loop_sequence.c: several loops of products, one after the other. Whether they can share a ring: NULL, or why not, as they are found and when their
// products are known. Which one is at hand; do its products take what the one before has on its way; is it the last one?
const char *ws_loops_apart(const Ws *h);
const char *ws_loops_refuse(Ws *h);
void     ws_at(Ws *h, int i);
bool     ws_goes_on(const Ws *h, int i);
bool     ws_last(const Ws *h);
int64_t  ws_sums(const Ws *h, int64_t (*of)(const Product *p));             // over all products, but of those that add to one sum, one
// Then bytes of a stage, of which a trip of the loop at hand brings so many; the buffers of its parts; and what stands between the loops before them all.
uint32_t ws_stage_parts(Ws *h);
uint32_t ws_brought(const Ws *h, int ring, bool fixed);
void     ws_loops_together(Ws *h);

// specialize/partial_boxes.c: which operands' last tiles are brought as far as they go (Operand.ends). Then, in the producer, how far this tile's are, and how many
// bytes less a stage has for it, i32; NULL: all are whole.
void ws_ends(Ws *h);
void ws_last_map(Ws *h, const Operand *o, int map);                  // the map after that of whole tiles
Val *ws_absent(Ws *h, Builder *b, bool fixed);

// specialize/k_rotation.c: whether blocks begin at trips of their own (before the loop), and then the k of a trip.
void ws_turn(Ws *h, Builder *b);
Val *ws_turned(const Ws *h, Builder *b, Val *counter);

// specialize/multicast.c: blocks of a cluster, 1 for none; into how many parts the rows of an operand's box are cut then; for
// each operand, whether all of the cluster want the same box (Operand.common).
int  ws_cluster(Ws *h);
int  ws_row_parts(const Ws *h, const Operand *o);
void ws_common(Ws *h, Region *producer);

#endif
