// What is run while something fails (scenarios.c).
#ifndef TESTS_FAULTS_SCENARIOS_H
#define TESTS_FAULTS_SCENARIOS_H

#include "tests/faults/layer.h"

typedef struct Scenario {
    const char *name;
    int (*run)(void);
    int (*before)(void);                     // what makes files that it finds; or NULL
    int  status;                             // where nothing fails
    int  machine;                            // 1: it may come to need a machine of LLVM, which stays for the next kernel
} Scenario;

const Scenario *scenario_named(const char *name);

#endif
