// Layouts: which register of which lane of which warp holds which element of a tile.
//
// A layout is one XOR-linear (F2) atom of bits and an integer repetition outside it. The atom maps the
// bits of (register, lane, warp) to the low bits of each axis's coordinate; a coordinate is the XOR of
// the bases of the bits that are set. What is left of an axis beyond the atom is repeated in registers,
// any number of times, so that extents such as 96, 176 and 192 need no power of two:
//
//     m64n176 accumulator of wgmma, axes (m, n)          atom 64 x 8, repeated 22 times along n
//       reg   (0,1) (8,0)                                 two neighbours of a row, then eight rows below
//       lane  (0,2) (0,4) (1,0) (2,0) (4,0)
//       warp  (16,0) (32,0)
//
// A zero basis means that both values of the bit hold the same element (replication); stores and atomics
// let only the owner, whose such bits are all 0, act. Coordinates past an axis's extent are never live.
// The same elements with some axes left out (a broadcast operand, the result of a reduction) have the
// *projection* of the layout: those axes' bits are deleted and registers that became equal are merged.
#ifndef TK_LOWER_LAYOUT_H
#define TK_LOWER_LAYOUT_H

#include "lower/ir/ir.h"

enum { LANE_BITS = 5, MAX_WARP_BITS = 5, MAX_REG_BITS = 10 };

typedef struct Rep { uint8_t axis; uint16_t count; } Rep;

struct Layout {
    uint8_t  naxes;                       // axes in the order of the type's
    uint8_t  bits[MAX_AXES];              // log2 of the atom's extent on each axis
    uint8_t  off[MAX_AXES];               // where the axis's bits start in a packed coordinate
    uint8_t  nreg, nwarp;                 // input bits; lanes have 5
    uint32_t reg[MAX_REG_BITS], lane[LANE_BITS], warp[MAX_WARP_BITS];   // packed coordinates
    uint8_t  nrep;
    Rep      rep[MAX_AXES];               // registers beyond the atom, the first varies fastest
};

typedef struct Blocked {                  // wishes for a plain layout
    int order[MAX_AXES];                  // axes by position, fastest first
    int vec;                              // elements of the fastest axis in one access
    int warps;
    // 1 + an axis whose neighbours one lane should hold, as far as all lanes have something; 0: none
    int near;
    int fold;                             // elements of the fastest axis that a lane should hold, since it is reduced; 0: as few as there are
    uint32_t keep;                        // axes (bits by position) that warps should not divide: they are reduced
} Blocked;

const Layout *layout_blocked(Arena *a, const Type *t, const Blocked *wish);
const Layout *layout_project(Arena *a, const Layout *l, const Type *from, const Type *to);
// The other way: a layout of `to`, which has more axes, whose projection on `from` is l. The new axes take the lanes
// and warps in which l has replicas, and what is left of them registers.
const Layout *layout_lift(Arena *a, const Layout *l, const Type *from, const Type *to);
const Layout *layout_rename(Arena *a, const Layout *l, const Type *from, const Type *to, const Val *old, const Val *fresh);
// Of the first of so many slices of an axis, which differ in registers alone; NULL where they do not.
const Layout *layout_slice(Arena *a, const Layout *l, const Type *whole, const Type *slice, int parts);
// Tensor core fragments; rows and cols are axes of t. C: accumulator of m16n8 (mma.sync) or m64nN (wgmma: rows 16 a
// warp, four warps a group); warps_m x warps_n tile it. The A fragment of k16 steps has the same form, see gen_mma.
const Layout *layout_mma_acc(Arena *a, const Type *t, int row, int col, int warps_m, int warps_n);
// .. of wgmma whose left operand has its rows in pairs, as bytes come that are turned in registers (llvm/tf32x3_operands.c): row i of 16 is 2 i, row 8 + i is 2 i + 1.
const Layout *layout_mma_pairs(Arena *a, const Type *t, int row, int col, int warps);
bool layout_in_pairs(const Layout *l, int row);
const Layout *layout_replicated(Arena *a, int warps);      // of a scalar

int  layout_regs(const Layout *l);                         // registers a lane holds
void layout_coord(const Layout *l, int reg, int lane, int warp, int64_t *coord);   // by axis position
// which register of the projection holds it
int  layout_project_reg(const Layout *l, const Type *from, const Type *to, int reg);
bool layout_equal(const Layout *a, const Layout *b);
uint32_t layout_replica_lanes(const Layout *l);            // lane bits with a zero basis
uint32_t layout_replica_warps(const Layout *l);
// Which input bit moves bit `bit` of the coordinate on an axis, and its number *at. BY_REPEAT is no bit: for callers
// that go on.
typedef enum Mover { BY_REGISTER, BY_LANE, BY_WARP, BY_REPEAT } Mover;
Mover layout_mover(const Layout *l, int axis, int bit, int *at);
int64_t layout_span(const Layout *l, int axis);            // coordinates that it has along the axis
// consecutive registers that are consecutive along the axis (a power of two)
int  layout_vec(const Layout *l, int axis);
// Elements that one lane holds side by side along the axis, at most `most` (powers of two); the i-th is in the register of the first, which has none of
// these bits, and of reg[i]
enum { MAX_RUN = 16 };
int  layout_run(const Layout *l, int axis, int most, int reg[MAX_RUN]);
void layout_print(const Layout *l, const Type *t, Buf *out);

#endif
