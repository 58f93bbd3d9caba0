#include "emu/exec.h"
const InsnDef VARIANT(defs_wgmma)[] = {{NULL, NULL, 0}};
