// What taking a loop apart among programs needs, be it in equal parts (split_k.c) or where a block's share of all trips ends
// (stream_k.c).
#ifndef TK_LOWER_SPLIT_H
#define TK_LOWER_SPLIT_H

#include "lower/pass/passes.h"

enum { SPLIT_CARRIED = 16 };

typedef struct Split {
    Fn     *f;
    Op     *loop, *merge;                // merge: NULL, or the op that says how parts become one
    TReduce join[SPLIT_CARRIED];         // without it
    Val    *end, *from, *share;          // of the whole loop: where it ends and starts, what each part has of it
} Split;

const char *split_applies(Split *s);                           // finds the loop; or why it cannot be taken apart
bool split_products(const Split *s);                           // the loop has products, and no `merge`
// At the begin of a branch: what the loop carries goes to slot `slot` of scratch memory, `slots` of which there are for
// each joining program; and what stands in `first` and the slots behind it is added to what this program's loop
// carries, which is program number `to`.
void split_send(Split *s, Region *r, Val *slot, Val *to, int64_t slots);
void split_join(Split *s, Region *r, Val *first, Val *others, Val *to);
void split_carry(Split *s, Builder *b, Val *part);             // all parts but number 0 start from what the op leaves alone
// cluster_scatter.c: each part joins a slice of the tile, in a cluster, where that is asked for and can be; all that follows the loop is for that slice then
bool scatter_applies(const Split *s, const CompileOptions *opt);
void scatter(Split *s, Val *tile, Val *part, int64_t parts);

#endif
