// fork (docs/api.md): a child uses what its parent had on eval and emu, and what it makes itself; the parent goes on.

#include "tests/runtime/api.h"

#include <sys/wait.h>
#include <unistd.h>

static const char source[] = "kernel scale<BY = 2>(x: f32[N], y: out f32[N]) grid (n in N by 64) { y[n] = x[n] * BY; }\n";
enum { N = 100 };

typedef struct World {
    tkc_context *ctx;
    tkc_program *prog;
    tkc_launch  *run;
    float        x[N], y[N];
} World;

static bool prepared_for(World *w, const char *by, tkc_launch **run) {
    tkc_value value = {"BY", by};
    tkc_arg args[] = {{.name = "x", .tensor = {.data = w->x, .dtype = TKC_F32, .rank = 1, .dims = {N}}},
                      {.name = "y", .tensor = {.data = w->y, .dtype = TKC_F32, .rank = 1, .dims = {N}}}};
    return !tkc_prepare(w->prog, "scale", &value, 1, args, 2, run);
}

static bool holds(World *w, tkc_launch *run, float by) {
    if (tkc_run(run, NULL)) return false;
    for (int i = 0; i < N; i++) if (w->y[i] != w->x[i] * by) return false;
    return true;
}

// What was there before; another kernel of the program; a context of its own; and all of it freed.
static bool in_child(World *w, const char *device) {
    tkc_launch *more = NULL;
    World own = *w;
    bool fine = holds(w, w->run, 2) && prepared_for(w, "3", &more) && holds(w, more, 3);
    tkc_launch_free(more);
    fine = fine && !tkc_open(device, NULL, &own.ctx) && !tkc_load_text(own.ctx, "own.tk", source, strlen(source), &own.prog) &&
           prepared_for(&own, "5", &own.run) && holds(&own, own.run, 5);
    if (!fine) fprintf(stderr, "%s\n", tkc_error());
    tkc_launch_free(own.run == w->run ? NULL : own.run);
    tkc_unload(own.prog == w->prog ? NULL : own.prog);
    tkc_close(own.ctx == w->ctx ? NULL : own.ctx);
    return fine;
}

static void child_and_parent(void **state) {
    (void)state;
    static const char *const devices[] = {"eval", "emu"};
    for (int d = 0; d < 2; d++) {
        World w = {0};
        int   status = 0;
        for (int i = 0; i < N; i++) w.x[i] = (float)i;
        FINE(tkc_open(devices[d], NULL, &w.ctx));
        FINE(tkc_load_text(w.ctx, "test.tk", source, strlen(source), &w.prog));
        assert_true(prepared_for(&w, "2", &w.run));
        pid_t pid = fork();
        if (pid == 0) {
            bool fine = in_child(&w, devices[d]);
            tkc_launch_free(w.run);
            tkc_unload(w.prog);
            tkc_close(w.ctx);
            _exit(!fine);
        }
        tkc_launch *more = NULL;
        assert_true(holds(&w, w.run, 2) && prepared_for(&w, "4", &more) && holds(&w, more, 4));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        tkc_launch_free(more);
        tkc_launch_free(w.run);
        tkc_unload(w.prog);
        tkc_close(w.ctx);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(child_and_parent)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
