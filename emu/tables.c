// The tables of instructions, one per x_*.c file and per variant.
#include "emu/exec.h"

#define X(name) extern const InsnDef defs_##name##_base[];
TABLES(X)
#undef X
#ifdef EMU_HAVE_V3
#define X(name) extern const InsnDef defs_##name##_v3[];
TABLES(X)
#undef X
#endif

const InsnTable insn_tables_base[] = {
#define X(name) {defs_##name##_base},
    TABLES(X)
#undef X
    {NULL},
};

#ifdef EMU_HAVE_V3
const InsnTable insn_tables_v3[] = {
#define X(name) {defs_##name##_v3},
    TABLES(X)
#undef X
    {NULL},
};
#endif
