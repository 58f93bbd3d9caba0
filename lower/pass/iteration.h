// Values of another trip of a loop, for passes that load ahead (iteration.c).
#ifndef TK_LOWER_TRIPS_H
#define TK_LOWER_TRIPS_H

#include "lower/ir/ir.h"

// v, in the loop's body, follows from the trip's counter and from what is known before the loop, without memory.
bool trip_follows(const Op *loop, const Val *v);
// v as it is in the trip whose counter the map knows, made before `at`.
Val *trip_again(Fn *f, const Op *loop, ValMap *m, Val *v, Op *at);

#endif
