// What eval/async.c and eval/roles.c share: the state of a block's shared memory.
#ifndef TK_LOWER_EVAL_ASYNC_H
#define TK_LOWER_EVAL_ASYNC_H

#include "lower/eval/eval.h"

typedef enum Status {
    EMPTY,                        // nothing was put there, or something else lies over it now
    FLYING,                       // an asynchronous copy is on its way
    LANDED,                       // written, but seen only by the threads that wrote it: no barrier yet
    READY,
} Status;

typedef struct Stage {
    Status   status;
    uint32_t group;               // FLYING by cp.async: which group; 0: by TMA
    bool     read;                // by somebody, since a barrier or an arrival told that it is free
    uint32_t flight;              // wgmma group that reads it, or 0
} Stage;

typedef struct Ring {
    const Op *op;
    int64_t  at, bytes, apart;    // in shared memory; of a stage; from one to the next
    int      n, rank, size;       // stages; dimensions; bytes of an element
    int64_t  shape[MAX_AXES];
    Stage   *stage;
    unsigned char *data;
} Ring;

typedef struct Bar {              // one mbarrier
    uint32_t phase;               // completed so far
    int      arrived;
    int64_t  expected, flying;    // bytes
    VEC(Stage *) landing;         // stages that its bytes go to
} Bar;
typedef struct Bars { Bar *at; int n, arrivals; } Bars;

typedef struct Async {
    VEC(Ring *) rings;
    VEC(Bars *) bars;
    uint32_t group, waited;       // cp.async: the open group, the last one known to be complete
    uint32_t issued, done;        // wgmma groups
    uint64_t events;              // arrivals and completions: shows progress
    int      arrives_as;          // arrivals that one op of the current role stands for
    int      turns[3];            // by slice: passed to it and not taken yet
    void    *role;                // the current coroutine, or NULL
} Async;

Ring  *ring_of(Eval *e, const Op *op, int operand);
Stage *stage_to_write(Eval *e, const Op *op, int ring);             // the stage is operand 1; NULL after a fault
Stage *stage_to_read(Eval *e, const Op *op, int ring, int operand, int *number);
int64_t copy_box(Eval *e, const Op *op, Ring *r, int stage);        // tma_load's data; bytes brought

#endif
