// Which dots run on tensor cores by mma.sync, and how. See mma_layout.c.
#ifndef TK_LOWER_MMA_H
#define TK_LOWER_MMA_H

#include "lower/ir/ir.h"
#include "ptx/ptx.h"

typedef struct MmaInsn {          // one kind of m16n8 instruction
    uint8_t a, b;                 // Elem of the operands
    uint8_t frag;                 // Elem that the fragments hold (f8 becomes f16 where there is no f8 instruction)
    uint8_t k;                    // contraction elements of one instruction
    const char *types;            // its type suffix
    size_t  cap;                  // offset of the capability in Target
} MmaInsn;

// What the fragments of an operand hold: itself where the instruction takes bits as wide (e4m3 beside e5m2), else `frag`.
static inline Elem mma_fragment(const MmaInsn *i, Elem own) {
    return elem_bits((Elem)i->frag) == elem_bits(own) ? own : (Elem)i->frag;
}

typedef struct MmaChoice {
    int row, col;                 // positions of the M and N axes in the result's type
    int warps_m, warps_n;         // how the program's warps tile the result
    int k;                        // contraction elements of one instruction
    Val *k_axis;                  // the contracted axis of the fragments; other ones are looped over
    int a, b;                     // operands of the dot that have the row axis and the column axis
    const MmaInsn *insn;
} MmaChoice;

bool mma_choose(const Target *t, const Op *dot, int warps, MmaChoice *out);   // false: multiply and add in registers
// The same, read back from the layout that the result was given. False: the dot is done without tensor cores.
bool mma_of_layout(const Target *t, Arena *a, const Op *dot, MmaChoice *out);
// x's layout holds A fragments of the choice as they are: it is an accumulator whose columns are contracted.
bool mma_operand_in_registers(Arena *a, const MmaChoice *c, const Op *dot, int operand);

#endif
