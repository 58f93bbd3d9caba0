// Files of compiled kernels that nobody made: every field out of its range, every byte another one, cut off anywhere, code that
// does not load. Each is refused with words, each time that it is asked for, or is used as what it says.

#include "tests/runtime/common.h"

#include "runtime/artifact.h"
#include "runtime/cache.h"
#include "runtime/tkc.h"

static const char source[] = "kernel axpy(a: f32, x: f32[N, M], y: inout f32[N, M], k: i32) where k < N\n"
                             "    grid (n in N, m in M by 64) { y[n, m] = a * x[n, m] + y[n, m]; }\n";

typedef struct World { Session *session; Artifact made; const Target *target; tkc_context *ctx; } World;

static int setup(void **state) {
    World *w = heap_try_zeroed(1, sizeof *w);
    ArtifactList list = {0};
    Buf err = {0};
    w->target = target_find("sm_90a");
    w->session = session_new();
    SemaFile *file = sema_file(w->session, parse_file(w->session, source_add(w->session, "axpy.tk", source, strlen(source))));
    const CompileOptions opt = {.target = w->target};
    TKernel *k = sema_instance((InstanceOf){.file = file, .item = sema_kernel(file, 0)});
    assert_true(artifact_make(w->session, k, &opt, UINT32_MAX, &list, &err));
    w->made = list.at[0];
    w->made.cubin[0] = w->made.cubin[1] = (Str){"", 0};
    assert_int_equal(tkc_open("emu", NULL, &w->ctx), TKC_OK);
    *state = w;
    return 0;
}

static int teardown(void **state) {
    World *w = *state;
    tkc_close(w->ctx);
    session_free(w->session);
    heap_free(w);
    return 0;
}

static float x[6 * 70], y[6 * 70];

static tkc_status prepare_one(tkc_program *prog, tkc_launch **run) {
    tkc_arg args[] = {
        {.name = "a", .kind = TKC_FLOAT, .f = 2},
        {.name = "x", .tensor = {.data = x, .dtype = TKC_F32, .rank = 2, .dims = {6, 70}}},
        {.name = "y", .tensor = {.data = y, .dtype = TKC_F32, .rank = 2, .dims = {6, 70}}},
        {.name = "k", .kind = TKC_INT, .i = 3},
    };
    return tkc_prepare(prog, "axpy", NULL, 0, args, 4, run);
}

// Loads and prepares it, twice. The last status.
static tkc_status try_bytes(World *w, const Buf *bytes) {
    tkc_program *prog = NULL;
    tkc_launch *run = NULL;
    tkc_status status = tkc_load_text(w->ctx, "made.tkx", bytes->p, bytes->n, &prog);
    if (status) assert_true(status == TKC_BAD_SOURCE && tkc_error()[0]);
    char words[400] = "";
    for (int i = 0; i < 2 && prog; i++) {
        status = prepare_one(prog, &run);
        if (!status) { tkc_launch_free(run); continue; }
        assert_true(tkc_error()[0]);
        if (i) assert_int_equal(strncmp(words, tkc_error(), sizeof words - 1), 0);
        snprintf(words, sizeof words, "%s", tkc_error());
    }
    tkc_unload(prog);
    return status;
}

static tkc_status try_made(World *w, const Artifact *a) {
    Buf bytes = {0};
    artifact_write(w->session, a, 1, w->target, &bytes);
    tkc_status status = try_bytes(w, &bytes);
    buf_free(&bytes);
    return status;
}

// ---- fields --------------------------------------------------------------------------------------

static LaunchInfo *copy_of(World *w, const LaunchInfo *from) {
    Arena *a = session_arena(w->session);
    LaunchInfo *f = NEW(a, LaunchInfo);
    *f = *from;
#define COPY(list, n) do { f->list = NEW_N(a, __typeof__(*f->list), (n) + 1); if (n) memcpy(f->list, from->list, sizeof *f->list * (size_t)(n)); } while (0)
    COPY(params, from->nparams);
    COPY(dims, from->ndims);
    COPY(guards, from->nguards);
    COPY(facts, from->nfacts);
    COPY(slots, from->nslots);
#undef COPY
    return f;
}

static LaunchSlot *slot_of(LaunchInfo *f, SlotKind kind) {
    for (int i = 0; i < f->nslots; i++) if (f->slots[i].kind == kind) return &f->slots[i];
    f->slots[0].kind = kind;
    return &f->slots[0];
}

// Steps that outlive the function which names them.
static LExpr kept(const LStep *from, size_t n) {
    static LStep room[256];
    static size_t used;
    if (used + n > sizeof room / sizeof *room) used = 0;
    LStep *to = memcpy(room + used, from, n * sizeof *from);
    used += n;
    return (LExpr){to, (uint32_t)n};
}
#define STEPS(...) kept((const LStep[]){__VA_ARGS__}, sizeof((const LStep[]){__VA_ARGS__}) / sizeof(LStep))

// X(name, statement): each makes the launch `f` one that cannot be.
#define FAULTS(X) \
    X(elem_beyond,    f->params[1].elem = (Elem)200) \
    X(elem_none,      f->params[1].elem = EL_none) \
    X(elem_negative,  f->params[0].elem = (Elem)-1) \
    X(kind,           f->params[1].kind = (ParamKind)3) \
    X(mode,           f->params[1].mode = (ParamMode)-7) \
    X(rank,           f->params[1].rank = MAX_RANK + 1) \
    X(rank_negative,  f->params[1].rank = -1) \
    X(rank_of_scalar, (f->params[0].rank = 1, f->params[0].dim[0] = STEPS({L_CONST, 1}))) \
    X(solves,         f->params[1].solves[0] = f->ndims) \
    X(solves_below,   f->params[1].solves[0] = -2) \
    X(dim_empty,      f->params[1].dim[0] = (LExpr){0}) \
    X(threads_none,   f->threads = 0) \
    X(threads,        f->threads = 1025) \
    X(cluster,        f->cluster = -1) \
    X(early,          f->early = -1) \
    X(smem,           f->smem = UINT32_MAX) \
    X(no_blocks,      f->blocks = (LExpr){0}) \
    X(no_entry,       f->entry = "") \
    X(guard_empty,    f->guards[0].cond = (LExpr){0}) \
    X(op,             f->blocks = STEPS({(LOp)99, 0})) \
    X(op_negative,    f->blocks = STEPS({(LOp)-1, 0})) \
    X(dim_index,      f->blocks = STEPS({L_DIM, f->ndims})) \
    X(dim_below,      f->blocks = STEPS({L_DIM, -1})) \
    X(scalar_index,   f->blocks = STEPS({L_SCALAR, MAX_PARAMS})) \
    X(stride_index,   f->blocks = STEPS({L_STRIDE, (int64_t)1 << 40})) \
    X(stack_empty,    f->blocks = STEPS({L_ADD, 0})) \
    X(stack_short,    f->blocks = STEPS({L_CONST, 1}, {L_ADD, 0})) \
    X(stack_left,     f->blocks = STEPS({L_CONST, 1}, {L_CONST, 1})) \
    X(slot_kind,      f->slots[0].kind = (SlotKind)77) \
    X(slot_param,     slot_of(f, SLOT_POINTER)->a = f->nparams) \
    X(slot_below,     slot_of(f, SLOT_POINTER)->a = -1) \
    X(slot_size,      slot_of(f, SLOT_POINTER)->size = 255) \
    X(slot_scalar,    slot_of(f, SLOT_SCALAR)->size = 8) \
    X(slot_dim,       slot_of(f, SLOT_DIM)->a = MAX_DIMS + 1) \
    X(slot_stride,    slot_of(f, SLOT_STRIDE)->b = 16) \
    X(slot_swapped,   slot_of(f, SLOT_SCALAR)->kind = SLOT_POINTER) \
    X(slot_map,       *slot_of(f, SLOT_POINTER) = (LaunchSlot){.kind = SLOT_TENSORMAP, .size = 128, .a = 1, .rank = 6}) \
    X(slot_map_dim,   *slot_of(f, SLOT_POINTER) = (LaunchSlot){.kind = SLOT_TENSORMAP, .size = 128, .a = 1, .rank = 2, .map_dim = {0, 100}}) \
    X(slot_map_wide,  *slot_of(f, SLOT_POINTER) = (LaunchSlot){.kind = SLOT_TENSORMAP, .size = 128, .a = 1, .rank = 2, .swizzle = 33}) \
    X(slot_map_im2col, *slot_of(f, SLOT_POINTER) = (LaunchSlot){.kind = SLOT_TENSORMAP, .size = 128, .a = 1, .rank = 4, .im2col = true}) \
    X(slot_scratch,   *slot_of(f, SLOT_POINTER) = (LaunchSlot){.kind = SLOT_SCRATCH, .size = 8, .a = SCRATCH_KINDS, .expr = STEPS({L_CONST, 8})})

#define X(name, ...) static void fault_##name(LaunchInfo *f) { __VA_ARGS__; }
FAULTS(X)
#undef X
static const struct { const char *name; void (*harm)(LaunchInfo *); } faults[] = {
#define X(name, ...) {#name, fault_##name},
    FAULTS(X)
#undef X
};

static void fields(void **state) {
    World *w = *state;
    assert_int_equal(try_made(w, &w->made), TKC_OK);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        for (int v = 0; v < 3; v++) {                      // of the first variant, of the general one, of one within
            Artifact a = w->made;
            LaunchInfo *f = copy_of(w, a.info[v > 0]);
            faults[i].harm(f);
            if (v < 2) a.info[v] = f;
            else {
                LaunchInfo *outer = copy_of(w, a.info[0]);
                outer->general = f;
                a.info[0] = outer;
            }
            if (try_made(w, &a) != TKC_BAD_SOURCE) fail_msg("%s, variant %d", faults[i].name, v);
        }
}

static void variants_differ(void **state) {
    World *w = *state;
    for (int how = 0; how < 5; how++) {
        Artifact a = w->made;
        LaunchInfo *f = copy_of(w, a.info[1]);
        if (how == 0) f->ndims--;
        if (how == 1) f->params[1].elem = EL_i32;
        if (how == 2) f->params[2].mode = PM_IN;
        if (how == 3) f->params[1].name = f->params[2].name;
        if (how == 4) f->kernel = f->params[0].name;
        a.info[1] = f;
        assert_int_equal(try_made(w, &a), TKC_BAD_SOURCE);
    }
}

static void nested(void **state) {
    World *w = *state;
    for (int depth = 1; depth <= 1000; depth += depth < 4 ? 1 : 332) {
        Artifact a = w->made;
        for (int i = 0; i < depth; i++) {
            LaunchInfo *f = copy_of(w, a.info[0]);
            f->general = (LaunchInfo *)(uintptr_t)a.info[0];
            a.info[0] = f;
        }
        assert_int_equal(try_made(w, &a), depth == 1 ? TKC_OK : TKC_BAD_SOURCE);
    }
}

// ---- code ----------------------------------------------------------------------------------------

static void code(void **state) {
    World *w = *state;
    static const struct { const char *ptx, *words; } cases[] = {
        {"", "the emulator refuses the PTX"},
        {"what is this", "the emulator refuses the PTX"},
        {".version 8.0\n.target sm_90a\n.address_size 64\n", "no entry `axpy`"},
        {".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry axpy() { ret; }\n", "takes other machine parameters"},
        {".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry axpy(.param .align 8 .b8 big[4000]) { ret; }\n", "takes other machine parameters"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Artifact a = w->made;
        Buf bytes = {0};
        tkc_program *prog;
        tkc_launch *run;
        a.ptx[0] = a.ptx[1] = (Str){cases[i].ptx, strlen(cases[i].ptx)};
        artifact_write(w->session, &a, 1, w->target, &bytes);
        assert_int_equal(tkc_load_text(w->ctx, "made.tkx", bytes.p, bytes.n, &prog), TKC_OK);
        for (int again = 0; again < 3; again++) {
            assert_int_equal(prepare_one(prog, &run), TKC_DEVICE_ERROR);
            if (!strstr(tkc_error(), cases[i].words)) fail_msg("%s", tkc_error());
        }
        tkc_unload(prog);
        buf_free(&bytes);
    }
    static const char elf[64] = "\177ELF\2\1\1";
    char cubin[64];
    for (int at = 0; at < 3; at++) {                       // machine code whose head leads out of it
        Artifact a = w->made;
        memcpy(cubin, elf, sizeof cubin);
        if (at == 0) cubin[40] = 1, cubin[58] = 64, cubin[60] = 2;         // sections
        if (at == 1) cubin[32] = 1, cubin[54] = 56, cubin[56] = 2;         // segments
        a.cubin[0] = (Str){cubin, at == 2 ? 20 : sizeof cubin};
        assert_int_equal(try_made(w, &a), TKC_BAD_SOURCE);
    }
    Artifact a = w->made;
    a.ptx[0] = (Str){".version 8.0\0", 13};
    assert_int_equal(try_made(w, &a), TKC_BAD_SOURCE);
}

// ---- bytes ---------------------------------------------------------------------------------------

// What the artifact holds behind its checksum.
static Str body_of(const Buf *whole) {
    const char *p = whole->p;
    for (int i = 0; i < 3; i++) p = strchr(p, '\n') + 1;
    return (Str){p + 8, whole->n - (size_t)(p + 8 - whole->p)};
}

static void bytes_changed(void **state) {
    World *w = *state;
    static const unsigned char values[] = {0, 1, 2, 0x7f, 0xff};
    Artifact a = w->made;
    Buf whole = {0};
    a.ptx[0] = a.ptx[1] = (Str){"none", 4};                // then most of it is numbers
    artifact_write(w->session, &a, 1, w->target, &whole);
    Str body = body_of(&whole);
    for (size_t i = 0; i < body.n; i++)
        for (size_t v = 0; v < sizeof values; v++) {
            Buf made = {0};
            char *p = copy_text(body.p, body.n);
            p[i] = (char)values[v];
            artifact_wrap(w->target, p, body.n, &made);
            assert_true(try_bytes(w, &made) != TKC_OK);
            buf_free(&made);
            heap_free(p);
        }
    for (size_t n = 0; n < body.n; n++) {
        Buf made = {0};
        artifact_wrap(w->target, body.p, n, &made);
        assert_int_equal(try_bytes(w, &made), TKC_BAD_SOURCE);
        buf_free(&made);
    }
    Buf longer = {0};
    buf_add(&longer, body.p, body.n);
    buf_putc(&longer, 0);
    Buf made = {0};
    artifact_wrap(w->target, longer.p, longer.n, &made);
    assert_int_equal(try_bytes(w, &made), TKC_BAD_SOURCE);
    buf_free(&made), buf_free(&longer), buf_free(&whole);
}

// An entry of the cache is the same without a file's head.
static void entries_changed(void **state) {
    World *w = *state;
    Artifact a = w->made;
    Buf whole = {0};
    a.ptx[0] = a.ptx[1] = (Str){"none", 4};
    artifact_write(w->session, &a, 1, w->target, &whole);
    Str body = body_of(&whole);
    const char *entry = body.p + 5;                        // behind a count and a byte
    size_t n = body.n - 5, refused = 0;
    Session *s = session_new();
    for (size_t i = 0; i < n; i++) {
        Buf code = {0};
        char *p = copy_text(entry, n);
        p[i] = (char)(p[i] ^ 0x81);
        const LaunchInfo *f = artifact_entry(s, p, n, &code);
        if (f) assert_true(launch_valid(f));
        refused += !f;
        buf_free(&code);
        heap_free(p);
    }
    assert_true(refused > n / 8);
    session_free(s);
    buf_free(&whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields), cmocka_unit_test(variants_differ), cmocka_unit_test(nested), cmocka_unit_test(code),
        cmocka_unit_test(bytes_changed), cmocka_unit_test(entries_changed),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
