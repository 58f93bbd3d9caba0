// The target table by itself: names, devices, occupancy. What ptxas says of it is in test_ptxas.c.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "ptx/ptx.h"

static void names_and_devices(void **state) {
    (void)state;
    assert_string_equal(target_default->name, "sm_90a");
    assert_null(target_find("sm_90"));
    assert_string_equal(target_nearest("sm_90")->name, "sm_90a");
    assert_string_equal(target_nearest("sm80")->name, "sm_80");
    assert_string_equal(target_of_device(8, 0)->name, "sm_80");
    assert_string_equal(target_of_device(8, 7)->name, "sm_86");
    assert_string_equal(target_of_device(9, 0)->name, "sm_90a");
    assert_string_equal(target_of_device(12, 0)->name, "sm_120a");
    assert_string_equal(target_of_device(12, 1)->name, "sm_89");   // sm_120a's code is for 12.0 alone
    assert_null(target_of_device(7, 5));
}

static void occupancy(void **state) {
    (void)state;
    const Target *t = target_find("sm_90a");
    assert_int_equal(target_occupancy(t, 128, 32, 0), 16);         // threads
    assert_int_equal(target_occupancy(t, 128, 128, 0), 4);         // registers
    assert_int_equal(target_occupancy(t, 128, 32, 100 * 1024), 2); // shared memory
    assert_int_equal(target_occupancy(t, 384, 168, 192 * 1024), 1);
    assert_int_equal(target_occupancy(t, 32, 16, 0), 32);          // the hardware's own limit
    assert_int_equal(target_occupancy(t, 128, 32, 232448), 1);
    assert_int_equal(target_occupancy(t, 128, 32, 232449), 0);
    assert_int_equal(target_occupancy(t, 1025, 32, 0), 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(names_and_devices), cmocka_unit_test(occupancy)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
