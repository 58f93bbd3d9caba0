// Rewrites keep what is computed: random networks on the interpreter, before and after.

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "graph/fuse.h"
#include "tests/graph/networks.h"

enum { NETWORKS = 300 };

static void networks_stay_the_same(void **unused)
{
    (void)unused;
    for (int seed = 0; seed < NETWORKS; seed++) {
        GTensor before[MOST_RESULTS] = {0}, after[MOST_RESULTS] = {0};
        Graph *g = network_new(seed);
        GTensor x = network_input(g);
        network_run(g, &x, before);
        graph_simplify(g);
        if (g_failed(g)) fail_msg("network %d, rewritten: %s", seed, g_failed(g));
        network_run(g, &x, after);
        if (!graph_fuse(g)) fail_msg("network %d, as kernels: %s", seed, g_failed(g));
        for (int i = 0; i < graph_output_count(g); i++) {
            assert_int_equal(before[i].bytes, after[i].bytes);
            network_compare(seed, i, &before[i], after[i].data, 1e-4);
            g_tensor_free(&before[i]);
            g_tensor_free(&after[i]);
        }
        g_tensor_free(&x);
        graph_free(g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(networks_stay_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
