// Limits of what the compiler takes on, in one table: what is larger is refused in words that name the limit. See limits.c.
#ifndef TK_LIMITS_H
#define TK_LIMITS_H

#include "lang/lang.h"

// clang-format off
//  X(name, its name in TKC_LIMITS, default, most that may be asked for, unit, what it bounds)
#define LIMITS(X) \
    X(source_bytes,    "source-bytes",    64 << 20,  1 << 30,   "bytes",        "the size of a source file, and of a PTX file") \
    X(nesting,         "nesting",         500,       1000,      "constructs",   "how deep blocks and expressions of the source stand inside each other") \
    X(imports,         "imports",         32,        200,       "files",        "how deep files import each other") \
    X(calls,           "calls",           64,        200,       "calls",        "how deep inlined functions call each other") \
    X(inlined_nesting, "inlined-nesting", 1000,      2000,      "constructs",   "how deep blocks and expressions stand inside each other when calls are inlined") \
    X(typed_nodes,     "typed-nodes",     200000,    10000000,  "nodes",        "the expressions and statements of a kernel or test when calls are inlined") \
    X(unrolled,        "unrolled",        1000000,   100000000, "trips",        "the trips of a graph's loops, which are written out") \
    X(launches,        "launches",        100000,    1000000,   "launches",     "the launches of a graph") \
    X(tile_ops,        "tile-ops",        50000,     1000000,   "operations",   "the operations of a kernel's tile IR, before and after each pass") \
    X(thread_elements, "thread-elements", 16384,     1 << 20,   "elements",     "the elements of one tile that one thread holds") \
    X(instructions,    "instructions",    350000,    10000000,  "instructions", "the LLVM instructions of a kernel, for one thread") \
    X(compile_bytes,   "compile-bytes",   INT64_C(2) << 30, INT64_C(1) << 40, "bytes", "the memory of trees and tile IR, looked at after each pass") \
    X(model_nodes,     "model-nodes",     1 << 20,   1 << 26,  "nodes",        "the nodes of a model, its functions inlined and its loops written out") \
    X(tensor_bytes,    "tensor-bytes",    INT64_C(1) << 40, INT64_C(1) << 50, "bytes", "the size of one tensor; never more than the machine's memory") \
    X(trips,           "trips",           INT64_C(1) << 32, INT64_MAX, "trips", "the trips of one loop on the devices eval and ref")
// clang-format on

typedef enum LimitId {
#define X(id, ...) LIMIT_##id,
    LIMITS(X)
#undef X
    LIMIT_COUNT
} LimitId;

typedef struct Limit { const char *name; int64_t usual, most; const char *unit, *meaning; } Limit;
extern const Limit limit_table[LIMIT_COUNT];

int64_t limit_of(LimitId id);                        // the default, or what TKC_LIMITS says; the environment is read once
bool    limits_parse(const char *text, int64_t to[LIMIT_COUNT], Buf *err);      // "name=value,..", k, m and g for 2^10, 2^20, 2^30
const char *limits_wrong(void);                      // what is wrong with TKC_LIMITS, which is not taken then; NULL: nothing
// "3221225472 bytes, more than the limit source-bytes allows (67108864; TKC_LIMITS=source-bytes=3300000000 raises it)"
void    limit_words(LimitId id, int64_t wanted, Buf *out);
void    limit_help(Diag *d, LimitId id, int64_t wanted);            // as a note of a message: how to raise it

#endif
