// A layer below our code in which one call fails: memory, or files and threads (layer.c).
#ifndef TESTS_FAULTS_LAYER_H
#define TESTS_FAULTS_LAYER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum FaultKind { FAULT_MEMORY, FAULT_FILES, FAULT_KINDS } FaultKind;

enum { FAULT_CALLS = 1 << 17 };              // that are noted

// Shared with the process that watches.
typedef struct FaultLayer {
    uint32_t calls[FAULT_KINDS];
    FaultKind kind;                          // of the one that fails
    uint32_t  at;                            // its number, from 1; 0: none
    bool      onwards;                       // and all after it
    bool      fired, notes;
    char      what[32];                      // which function it was
    uint32_t  place[FAULT_CALLS];            // with `notes`, of each call of the kind: a hash of who called
    int64_t   blocks, mappings, files;       // that are there
} FaultLayer;

void layer_begin(FaultLayer *f);             // from here on calls are counted
void layer_end(void);
void layer_spare(void);                      // no call fails any more

#endif
