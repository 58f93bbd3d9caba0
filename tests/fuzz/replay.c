// Runs a fuzz target on the files of folders, without libFuzzer: `fuzz_parse FILE-OR-FOLDER...`. So every
// build checks what fuzzing has found, and coverage can be measured. In the coverage build fuzz_parse also
// says which states of the grammar nothing has been in; with VERBOSE=1 in the environment, every path is shown.
#define _GNU_SOURCE
#include "lang/lang.h"

#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#ifdef GRAMMAR_COVERAGE
int grammar_coverage(FILE *missed, int *states);         // parser/grammar.y
int TkParseCoverage(FILE *out);

static void say_grammar(void) {
    int states, missed = grammar_coverage(stdout, &states);
    printf("%d of %d states of the grammar, %d pairs of a state and a token missed\n", states - missed, states,
           TkParseCoverage(NULL));
}
#else
static void say_grammar(void) {}
#endif

static int ran;

static int run(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)at;
    if (kind != FTW_F) return 0;
    FILE *in = fopen(path, "rb");
    uint8_t *data = malloc((size_t)st->st_size + 1);
    if (!in || !data || fread(data, 1, (size_t)st->st_size, in) != (size_t)st->st_size) {
        fprintf(stderr, "%s: cannot read it\n", path);
        exit(1);
    }
    fclose(in);
    uint8_t *exact = realloc(data, st->st_size ? (size_t)st->st_size : 1);     // so that a sanitizer sees reads past the end
    if (getenv("VERBOSE")) fprintf(stderr, "%s\n", path);
    LLVMFuzzerTestOneInput(exact, (size_t)st->st_size);
    free(exact);
    ran++;
    return 0;
}

int main(int argc, char **argv) {
    for (int i = 1; i < argc; i++) {
        if (nftw(argv[i], run, 16, FTW_PHYS) != 0) return fprintf(stderr, "%s: no such file or folder\n", argv[i]), 1;
    }
    printf("%d inputs\n", ran);
    say_grammar();
    return ran == 0;
}
