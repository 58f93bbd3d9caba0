// Runs of lanes: where a value stays the same, or counts up. See runs.c.
#ifndef TK_LOWER_RUNS_H
#define TK_LOWER_RUNS_H

#include "lower/facts/facts.h"

// From lane to lane of each `v` lanes of the axis that begin at a multiple of v (a power of two).
typedef enum LaneStep { RUN_SAME, RUN_UP, RUN_NONE } LaneStep;

LaneStep lane_step(Facts *s, const Val *x, const Val *axis, int64_t v);
bool    lanes_aligned(Facts *s, const Val *x, const Val *axis, int64_t v);     // x is a multiple of v where such lanes begin

#endif
