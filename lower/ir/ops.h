// The tile IR's op table. Enum, names, printer, parser, verifier and the reference in docs/ops.md are
// derived from these rows; `eval_<name>` and `emit_<name>` complete a row, so that a forgotten piece is
// a link error.
//
//   sub      which table the suffix comes from: binary.add, fun.exp, reduce.sum, atomic.max, dot.tf32
//   in       operands, lo .. hi (255: any number);  out: results (255: as many as carried);  reg: regions
//   flags    P pure   R reads memory   W writes memory   T ends a region   S has side effects, not memory   A asynchronous
//   level    1 values   2 buffers, tokens and roles (legal only after the pass `pipeline`)
//
// Operand order is part of the meaning column. [x..] repeats; `?` may be missing (see flags HAS_*).
#ifndef TK_LOWER_OPS_H
#define TK_LOWER_OPS_H
// clang-format off
//    name          sub     in lo,hi out reg flags  level  meaning
#define TILE_OPS(X) \
    X(const,        NONE,    0,  0,   1,  0, "P",   1, "a number: imm (integers, bool; floats as f64 bits)") \
    X(dim,          NONE,    0,  0,   1,  0, "P",   1, "run-time dimension imm of the kernel, index") \
    X(scalar,       NONE,    0,  0,   1,  0, "P",   1, "scalar or pointer parameter imm") \
    X(tensor,       NONE,    0,  0,   1,  0, "P",   1, "tensor parameter imm") \
    X(extent,       NONE,    1,  1,   1,  0, "P",   1, "tensor; size of its dimension imm, index") \
    X(program,      NONE,    0,  0,   1,  0, "P",   1, "linear number of this program, index") \
    X(programs,     NONE,    0,  0,   1,  0, "P",   1, "how many programs the grid has, index") \
    X(walkers,      NONE,    0,  0,   1,  0, "P",   1, "how many blocks walk the grid's programs, index") \
    X(axis,         NONE,    2,  3,   1,  0, "P",   1, "lo, hi, behind?: elements lo + i for i < imm; element i is padding iff lo + i >= hi; flag AXIS_FULL: none is padding. behind: its registers and threads have as many places before the first element") \
    X(index,        NONE,    1,  1,   1,  0, "P",   1, "axis; its index tile lo + i") \
    X(live,         NONE,    1,  1,   1,  0, "P",   1, "axis; bool tile, true on live elements") \
    X(unary,        BINARY,  1,  1,   1,  0, "P",   1, "x; neg, not (bool), bnot (integers)") \
    X(binary,       BINARY,  2,  2,   1,  0, "P",   1, "a, b of one element type; arithmetic, comparison (bool), bits") \
    X(select,       NONE,    3,  3,   1,  0, "P",   1, "cond, a, b; elementwise") \
    X(cast,         NONE,    1,  1,   1,  0, "P",   1, "x; value conversion: to nearest even, saturating to integers and f8, NaN to 0") \
    X(bitcast,      NONE,    1,  1,   1,  0, "P",   1, "x; same bits") \
    X(fun,          FUN,     1,  3,   1,  0, "P",   1, "a, b?, c?; elementwise function") \
    X(splat,        NONE,    1,  1,   1,  0, "P",   1, "x; repeated over the result's axes that x lacks") \
    X(rename,       NONE,    3,  3,   1,  0, "P",   1, "x, from, to; axis `from` is called `to`") \
    X(reduce,       REDUCE,  2, 255,  1,  0, "P",   1, "x, axis..; over live elements; argmax and argmin give the axis's value, lowest on ties, -1 over none; attr 1 (level 2): each thread's own part") \
    X(scan,         REDUCE,  2,  2,   1,  0, "P",   1, "x, axis; sum, prod, max, min of the live elements up to each (flag EXCLUSIVE: before it; REVERSE: from it on)") \
    X(scan_by,      NONE,    2, 255, 255, 1, "",    1, "value.., axis; each live element has all up to it joined (flag REVERSE: from the last one down to it), by an associative function: region args: numbers of what comes first, of what comes next; ends in yield: both joined") \
    X(reduce_by,    NONE,    2, 255, 255, 1, "",    1, "value.., axis; all live elements joined, region as in scan_by; 0 of none") \
    X(sort,         NONE,    2,  2,   1,  0, "P",   1, "x, axis; the live elements in order, -0 before 0, NaN last (flag REVERSE: greatest first, NaN last still; NAN_FIRST: NaN first)") \
    X(order,        NONE,    2,  2,   1,  0, "P",   1, "x, axis; the numbers of the live elements in the order of x, equals as they stand, NaN last; flags as in sort") \
    X(take,         NONE,    3,  3,   1,  0, "P",   1, "x, order, axis; element i is what x has at element order[i] of the axis, a live one if any is") \
    X(dot,          PREC,    3, 255,  1,  0, "P",   1, "a, b, acc? (HAS_ACC), axis..; sum over the axes of a * b, plus acc; padding adds nothing") \
    X(load,         NONE,    1, 255,  1,  0, "R",   1, "tensor, index.. (nidx), else? (HAS_ELSE); padding is not touched; out of range gives else or 0") \
    X(store,        NONE,    2, 255,  0,  0, "W",   1, "tensor, index.. (nidx), value; padding and out of range are skipped") \
    X(ptrload,      NONE,    1,  3,   1,  0, "R",   1, "address, where? (HAS_WHERE), else? (HAS_ELSE)") \
    X(ptrstore,     NONE,    2,  3,   0,  0, "W",   1, "address, value, where? (HAS_WHERE)") \
    X(atomic,       ATOMIC,  2, 255,  1,  0, "RW",  1, "tensor, index.. (nidx), value, compare? (cas); or pointer (nidx 0), value, compare?, where? (HAS_WHERE); the old value") \
    X(for,          NONE,    3, 255, 255, 1, "",    1, "lo, hi, step, carried..; region args: counter, carried..; ends in yield") \
    X(while,        NONE,    0, 255, 255, 2, "",    1, "carried..; region 0 (args: carried) ends in condition c, carried..; region 1 (args: carried) ends in yield") \
    X(merge,        NONE,    1, 255, 255, 1, "",    1, "value.. that a loop carried; region args: a part's state, the next one's; ends in yield: both parts'. The values as they are: the loop was whole") \
    X(if,           NONE,    1,  1,  255, 2, "",    1, "cond; regions end in yield (or break, continue)") \
    X(yield,        NONE,    0, 255,  0,  0, "T",   1, "value..: results of an if, carried values of a loop") \
    X(condition,    NONE,    1, 255,  0,  0, "T",   1, "c, carried..: goes on while c") \
    X(break,        NONE,    0, 255,  0,  0, "T",   1, "carried..: leaves the imm-th enclosing loop (0: innermost)") \
    X(continue,     NONE,    0, 255,  0,  0, "T",   1, "carried..: next trip of the imm-th enclosing loop") \
    X(assert,       NONE,    1,  1,   0,  0, "S",   1, "cond; else str is reported") \
    X(print,        NONE,    0,  2,   0,  0, "S",   1, "value?, cond?; str before it. attr 1: with cond, whether this program prints; without one the first does") \
    X(part_put,     NONE,    3, 255,  1,  0, "S",   1, "tile's number, part's number, value..: keeps the values of this part of its tile; true in the program that is the last of the tile's imm parts to do so; attr 1 (level 2): the parts are the slices of a block, and their number is `slice`; attr 2 (level 2): they are the blocks of a cluster; part 0 goes on, then; attr 3: true in all of them, when all have put theirs; attr 4: the same, and each gets a slice of the tile") \
    X(part_get,     REDUCE,  2,  3,   1,  0, "R",   1, "tile's number, part_put's result (which was true), how many?: value attr of all parts of the tile, or of so many from the first on (of none: anything), joined in their order; of attr 4 this part's slice, along an axis of its own in place of one of the value's") \
    X(part_take,    NONE,    3,  3,   1,  0, "R",   1, "tile's number, part_put's result (which was true), part's number: value attr of that part of the tile") \
    X(part_send,    NONE,    3, 255,  0,  0, "S",   1, "slot's number, joining program's number, value..: keeps the values of its part of a tile in a slot of scratch memory, for the program that joins the tile; there are imm slots for each of those") \
    X(part_join,    REDUCE,  4,  4,   1,  0, "S",   1, "first slot's number, how many slots, this program's number, value: joined with value attr of these slots in their order, once they have been sent to this program") \
    X(join_cluster, REDUCE,  1,  2,   1,  0, "S",   1, "x, turn?; those of all imm blocks of the cluster, joined in the blocks' order: the same in each. In a loop, which all blocks go round as often: turn counts its trips, from 0, modulo 4") \
    X(from_cluster, NONE,    1,  2,   1,  0, "S",   1, "x, turn?; that of block attr of the imm blocks of the cluster; turn as in join_cluster") \
    X(draw,         NONE,    1,  1,   1,  0, "S",   1, "rows; asks for the next of these many numbers, from 0, that no other program of the launch has asked for: `drawn` gives it. After all of them it begins anew") \
    X(drawn,        NONE,    1,  2,   1,  0, "S",   1, "draw's result, turn?; the number, the same in all blocks of the cluster; turn as in join_cluster") \
    X(keep,         NONE,    1,  1,   1,  0, "S",   1, "tiles; for how many tiles of imm bytes the program has room in shared memory, index: so many or fewer are asked for") \
    X(keep_put,     NONE,    4, 255,  0,  0, "S",   1, "keep's result, number, tile, axis..: kept under the number, if that is less than keep's result; attr 1: a tile just loaded, asynchronously (to be waited for by copy_wait)") \
    X(keep_get,     NONE,    3, 255,  1,  0, "R",   1, "keep's result, number, axis..; the tile kept under it, each axis called by the name here that stands where its own stood; padding as it was") \
    X(tally,        ATOMIC,  1,  1,   0,  0, "S",   1, "tensor; from here on the block keeps tallied atomics on it, all of this kind, to itself") \
    X(tally_end,    ATOMIC,  1,  1,   0,  0, "S",   1, "tensor; what the block has kept is added to memory by such atomics") \
    /* level 2: buffers are shared memory, `stage` is an i32 scalar that picks a slot of a ring */ \
    X(convert,      NONE,    1,  1,   1,  0, "P",   2, "x in another layout") \
    X(join_lanes,   REDUCE,  1,  1,   1,  0, "P",   2, "x, made of reductions {attr 1} with parts in the lanes and warps of the bits imm: joined, whole in each of them") \
    X(buffer,       NONE,    0,  0,   1,  0, "S",   2, "shared memory ring of imm stages at byte attr, see Type.shape, swizzle") \
    X(buffer_clear, NONE,    3,  3,   0,  0, "W",   2, "buffer, stage, axis of its rows: rows that are padding become 0, seen by wgmma after it") \
    X(buffer_low,   NONE,    4,  4,   0,  0, "RW",  2, "buffer, stage, buffer of the same type, bar: what tf32 leaves of each f32 element, put at its place there by two warps, which arrive at the mbarrier then; seen by wgmma after that") \
    X(buffer_turn,  NONE,    4,  4,   0,  0, "RW",  2, "buffer, stage, buffer of its columns as rows, bar: 8-bit elements turned by three warps, which arrive at the mbarrier then; seen by wgmma after that") \
    X(buffer_load,  NONE,    2, 255,  1,  0, "R",   2, "buffer, stage, axis.. (one a dimension; none: in the type's order); the tile (ldmatrix where the layout allows). imm, attr > 1: of so many lanes of the first, the last axis each has the same element of a dimension that is shorter by as much") \
    X(buffer_row,   NONE,    2, 255,  1,  0, "R",   2, "buffer, stage, axis.. (one a dimension but the first): row imm of a stage; of a buffer of one dimension, a number") \
    X(buffer_store, NONE,    3, 255,  0,  0, "W",   2, "buffer, stage, tile, axis..") \
    X(copy_async,   NONE,    3, 255,  0,  0, "RWA", 2, "buffer, stage, tensor, index.. (nidx): cp.async of a tile; out of range and padding give 0") \
    X(copy_commit,  NONE,    0,  0,   0,  0, "A",   1, "closes this thread's group of async copies") \
    X(copy_arrive,  NONE,    2,  2,   0,  0, "S",   2, "bar, stage: imm arrivals, one of each thread of the role, when its async copies so far are done") \
    X(copy_wait,    NONE,    0,  0,   0,  0, "S",   1, "until at most imm groups are in flight") \
    X(barrier,      NONE,    0,  0,   0,  0, "S",   2, "all threads of the program") \
    X(mbar,         NONE,    0,  0,   1,  0, "S",   2, "ring of imm mbarriers at byte attr; the type says how many arrivals complete a phase") \
    X(mbar_expect,  NONE,    2,  3,   0,  0, "S",   2, "bar, stage, less?: arrive expecting imm bytes, or so many less") \
    X(mbar_arrive,  NONE,    2,  2,   0,  0, "S",   2, "bar, stage: one arrival for each group of four warps, imm 1: for each warp, 2: for each thread (attr > 1: in each of the attr blocks of the cluster)") \
    X(mbar_wait,    NONE,    3,  3,   0,  0, "S",   2, "bar, stage, parity: until the phase of that parity is complete; attr: of several warps that produce, the one thread waits that begins copies (the others may be two phases behind)") \
    X(tma_load,     NONE,    4, 255,  0,  0, "RWA", 2, "buffer, stage, bar, tensor, coordinate.. (nidx, one a dimension, index of element 0), offset.. (of a window, one a spatial dimension: im2col mode; all but the innermost of a tensor that is one picture, whose map has a dimension more) or coordinate.. of further boxes, which have as many of the rows each, live? (HAS_WHERE); a buffer of one stage has it for its barrier alone; imm: number of the tensor map; attr > 1: each of the attr blocks of the cluster, which all want this box, brings its part to all of them; live: so many rows are brought, fewer than all by the next tensor map, or with attr 1 so many columns, by whole swizzle spans; what else the stage holds is what it was") \
    X(tma_store,    NONE,    5, 255,  0,  0, "WA",  2, "buffer, tensor, coordinate.. (nidx, one a dimension, index of element 0), value, row, col axis, length.. (where rows are pixels: of a spatial dimension, innermost first): through the buffer by TMA, what lies past the tensor's end is left out; imm: number of the tensor map; attr 1: the last span of columns is narrower and has the next one; 2: rows of the product are columns here; 4: added to what is there") \
    X(row_store,    NONE,    5, 255,  0,  0, "WA",  2, "tensor, index.. (nidx), value, buffer, row, col axis: a store whose rows pass through shared memory, each where its alignment in the tensor is kept") \
    X(tma_store_wait, NONE,  0,  0,   0,  0, "S",   2, "until this program's tma_stores and row_stores are done with shared memory") \
    X(turn_wait,    NONE,    0,  0,   0,  0, "S",   2, "of consumer groups: until the one before has passed the turn (imm 1: the first group alone; attr: how many slices of the consumers they are, else two)") \
    X(turn_pass,    NONE,    0,  1,   0,  0, "S",   2, "x?: passes the turn to the next consumer group, once this one has x (imm 1: the last group alone; attr as in turn_wait)") \
    X(fence_async,  NONE,    0,  0,   0,  0, "S",   2, "generic shared writes before it are seen by TMA and wgmma after it") \
    X(slice,        NONE,    0,  0,   1,  0, "S",   2, "which of the imm slices of a block's consumers this is, index") \
    X(wait_launches, NONE,   0,  0,   0,  0, "S",   2, "until the launches that this one follows have ended: before it a role reads fixed tensors only") \
    X(wgmma,        NONE,    7,  9,   1,  0, "RA",  2, "a (buffer or register tile), b buffer, stage of a, stage of b, acc? (HAS_ACC), row, col, k axis, low?: starts acc + a * b; not readable before wgmma_wait; attr 1: a, 2: b has k as its outer dimension; imm > 1: a has the rows of so many slices, one after the other; low: what tf32 leaves of b, for three products of tf32 in place of one") \
    X(wgmma_wait,   NONE,    0, 255, 255, 0, "S",   2, "accumulators..: until at most imm groups are in flight; results are readable. attr: nothing computes with them before what stands before this has happened; where the mbarriers are that this is told by") \
    X(roles,        NONE,    0,  0,   0,  2, "",    2, "region 0 is run by the producer, region 1 by the consumers, a third one by a second producer, beside the first, or by two warps that prepare what it has brought; imm consumer groups, attr > 1: in so many slices, each of which runs region 1 for itself")
// clang-format on
#endif
