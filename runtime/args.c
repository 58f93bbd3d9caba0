// Arguments as the command line writes them: NAME=SPEC.
//
//     x=random:f32[37,1000]      made at once; the data depend on the name, the position and the seed alone
//     x=bf16:weights.npy         read when it is known what the parameter is
//     n=5   scale=0.125          numbers
//
// Whatever is not KIND:TYPE[...] and not a number is a path.

#include "lang/c_text.h"
#include "runtime/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char arg_help[] =
    "  NAME=random:TYPE[SHAPE]           normal random data (integers: any value), the same in each run\n"
    "  NAME=uniform(LO,HI):TYPE[SHAPE]   uniform in [LO, HI)\n"
    "  NAME=randint(LO,HI):TYPE[SHAPE]   integers in [LO, HI)\n"
    "  NAME=zeros:TYPE[SHAPE]            also ones:\n"
    "  NAME=full(VALUE):TYPE[SHAPE]\n"
    "  NAME=iota:TYPE[SHAPE]             0, 1, 2, ...; iota(START,STEP): too\n"
    "  NAME=FILE.npy                     for an `out` parameter: where to save it (others: --save)\n"
    "  NAME=TYPE:FILE.npy                the file's u2 or u1 are bf16 or f8, or its numbers are to be converted\n"
    "  NAME=box(64,32):SPEC              of PTX: the tensor map of a tensor, which brings boxes of 64 x 32; box(64,32,swizzle128): and tf32, too\n"
    "  NAME=NUMBER                       a scalar, or a tensor of rank 0: 5, -3, 0x10, 0.125, 1e-3, inf, nan, true, false\n"
    "TYPE is an element type of the language; SHAPE is 37,1000, or nothing for a tensor of rank 0.\n";

typedef struct Kind { const char *name; TMake make; int values; Number lo, hi; } Kind;   // values: how many may stand in ()
static const Kind kinds[] = {
    {"random", MAKE_random, 0, {0}, {0}}, {"uniform", MAKE_random, 2, {0}, {1, 1}}, {"randint", MAKE_randint, 2, {0}, {0}}, {"zeros", MAKE_zeros, 0, {0}, {0}},
    {"ones",   MAKE_ones,   0, {0}, {0}}, {"full",    MAKE_full,   1, {0}, {0}},    {"iota",    MAKE_iota,    2, {0}, {1, 1}},
};

static bool number(const char *s, const char *end, Number *out) {
    char text[64], *stop;
    size_t n = (size_t)(end - s);
    if (n == 0 || n >= sizeof text) return false;
    memcpy(text, s, n);
    text[n] = 0;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) { *out = number_int(text[0] == 't'); return true; }
    errno = 0;
    *out = text[0] == '-' ? number_int(strtoll(text, &stop, 10)) : number_u64(strtoull(text, &stop, 10));
    if (*stop || errno) *out = number_double(c_strtod(text, &stop));
    return *stop == 0 && stop != text;
}

static bool read_values(const char *p, const char *end, const Kind *k, FillSpec *fill, Buf *err) {
    Number v[2];
    int    n = 0;
    while (n < 2) {
        const char *comma = memchr(p, ',', (size_t)(end - p)), *stop = comma ? comma : end;
        while (p < stop && *p == ' ') p++;
        if (!number(p, stop, &v[n])) {
            buf_printf(err, "`%.*s` in %s(...) is no number", (int)(stop - p), p, k->name);
            return false;
        }
        n++;
        if (!comma) break;
        p = comma + 1;
        if (n == 2) n++;
    }
    if (n != k->values) {
        buf_printf(err, "%s takes %d value%s in (...)", k->name, k->values, k->values == 1 ? "" : "s");
        return false;
    }
    fill->lo = v[0];
    if (n == 2) fill->hi = v[1];
    bool range = k->make == MAKE_random || k->make == MAKE_randint;
    if (range && n == 2 && !(v[0].f < v[1].f) && v[0].i >= v[1].i) {
        buf_printf(err, "%s(LO,HI) has nothing in [LO, HI): LO is to be less than HI", k->name);
        return false;
    }
    return true;
}

// full(300):u8 and randint(0,300):u8 say what a u8 does not hold.
static bool values_fit(Elem elem, const Kind *k, const FillSpec *fill, Buf *err) {
    bool   range = k->make == MAKE_randint;
    Number at[2] = {fill->lo, {fill->hi.f - 1, fill->hi.i - 1}};             // [LO, HI)
    Buf    why = {0};
    for (int i = 0; i < (range ? 2 : k->make == MAKE_full); i++) {
        if (number_fits(elem, !number_whole(at[i]), &at[i], &why)) continue;
        buf_printf(err, "the %s of %s(...)%s", !range ? "number" : i ? "largest number" : "least number", k->name, why.p);
        return buf_free(&why), false;
    }
    return true;
}

// 1: made, 0: SPEC is not of this form, -1: it is, and wrong.
static int make_data(RunArg *a, int position, uint64_t seed, Buf *err) {
    const char *spec = a->spec, *colon = strchr(spec, ':'), *open = strchr(spec, '(');
    if (!colon) return 0;
    if (open && open > colon) open = NULL;
    size_t name = (size_t)((open ? open : colon) - spec);
    const Kind *k = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strlen(kinds[i].name) == name && memcmp(kinds[i].name, spec, name) == 0) k = &kinds[i];
    if (!k) {
        Elem elem;
        int  rank;
        int64_t dim[MAX_RANK];
        Buf  ignored = {0};
        bool type = tensor_type_parse((Str){colon + 1, strlen(colon + 1)}, &elem, &rank, dim, &ignored);
        buf_free(&ignored);
        if (!type || access(spec, F_OK) == 0) return 0;
        buf_printf(err, "`%.*s` makes no tensor:", (int)name, spec);
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) buf_printf(err, "%s %s", i ? "," : "", kinds[i].name);
        buf_puts(err, " do");
        return -1;
    }
    FillSpec fill = {.make = k->make, .lo = k->lo, .hi = k->hi, .seed = seed, .stream = rng_stream(a->name, position)};
    if (open) {
        if (colon[-1] != ')') { buf_printf(err, "`%s`: `)` is missing before `:`", spec); return -1; }
        if (!read_values(open + 1, colon - 1, k, &fill, err)) return -1;
    } else if (k->values == 1 || k->make == MAKE_randint) {
        buf_printf(err, "write %s(%s):TYPE[SHAPE]", k->name, k->values == 1 ? "VALUE" : "LO,HI");
        return -1;
    }
    Elem elem;
    int  rank;
    int64_t dim[MAX_RANK];
    if (!tensor_type_parse((Str){colon + 1, strlen(colon + 1)}, &elem, &rank, dim, err)) return -1;
    if (!values_fit(elem, k, &fill, err)) return -1;
    if (!tensor_make(&a->tensor, elem, rank, dim, err)) return -1;
    tensor_fill(&a->tensor, &fill);
    return 1;
}

static bool scalar(RunArg *a) {
    const char *s = a->spec;
    char *stop;
    if (strcmp(s, "true") == 0 || strcmp(s, "false") == 0) { a->ival = s[0] == 't'; return true; }
    errno = 0;
    a->ival = strtoll(s, &stop, 0);
    if (*s && *stop == 0 && errno == 0) return true;
    if (s[0] != '-' && *s) {                                       // above INT64_MAX: a u64
        errno = 0;
        a->ival = (int64_t)strtoull(s, &stop, 0);
        a->is_u64 = *stop == 0 && errno == 0;
        if (a->is_u64) return true;
    }
    Number v = {0};
    a->ival = 0;
    a->is_float = number(s, s + strlen(s), &v);
    a->fval = v.f;
    return a->is_float;
}

bool arg_parse(const char *text, int position, uint64_t seed, RunArg *out, Buf *err) {
    const char *eq = strchr(text, '=');
    *out = (RunArg){0};
    if (!eq || eq == text) {
        buf_printf(err, "`%s` is no argument: write NAME=VALUE, like x=random:f32[37,1000]", text);
        return false;
    }
    out->name = copy_text(text, (size_t)(eq - text));
    out->spec = copy_text(eq + 1, strlen(eq + 1));
    Buf why = {0};
    int made = make_data(out, position, seed, &why);
    if (made < 0 || !out->spec[0]) {
        buf_printf(err, "argument `%s`: %s", out->name, made < 0 ? why.p : "no value after `=`");
        buf_free(&why);
        arg_free(out);
        return false;
    }
    buf_free(&why);
    if (made) return true;
    out->scalar = scalar(out);
    if (out->scalar) return true;
    out->is_path = true;
    const char *colon = strchr(out->spec, ':');
    Elem as = colon ? elem_by_name((Str){out->spec, (size_t)(colon - out->spec)}) : EL_none;
    if (as == EL_none) return true;
    out->as = as;
    memmove(out->spec, colon + 1, strlen(colon + 1) + 1);
    if (out->spec[0]) return true;
    buf_printf(err, "argument `%s`: no file after `%s:`", out->name, elem_name(as));
    arg_free(out);
    return false;
}

void arg_free(RunArg *a) {
    heap_free(a->name);
    heap_free(a->spec);
    tensor_free(&a->tensor);
    *a = (RunArg){0};
}
