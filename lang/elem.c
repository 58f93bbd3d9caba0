// The element types: rows of dtypes.h as a table.

#include "lang/lang.h"

#include <string.h>

const ElemInfo elem_info[EL_COUNT] = {
    [EL_none] = {"none", 0, EC_NONE, "no element type"},
#define X(name, bits, cls, meaning) [EL_##name] = {#name, bits, EC_##cls, meaning},
    ELEMS(X)
#undef X
};

Elem elem_by_name(Str name) {
    for (int e = EL_none + 1; e < EL_COUNT; e++)
        if (strncmp(elem_info[e].name, name.p, name.n) == 0 && !elem_info[e].name[name.n]) return (Elem)e;
    return EL_none;
}
