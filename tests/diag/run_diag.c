// Diagnostics as they are printed. Each case is NAME.tk with the rich rendering it should draw beside
// it in NAME.txt (empty, if nothing is wrong with it).
//
//     run_diag FILE.tk...            compares
//     run_diag --bless FILE.tk...    writes the .txt files anew
//     run_diag --codes FILE.txt...   every code has a case among these files, and a section in the docs
//     run_diag --docs                the sections' examples: the first one draws its code, the second nothing
//
// Each source also goes through the short and JSON forms, which must have a line for each message; and
// each fix that a message offers is tried: with it, that message must be gone. Codes of lowering, E05xx,
// have their cases among the transcripts of tests/cli; their sections' examples are lowered here, for sm_80.

#define _GNU_SOURCE
#include "tests/golden.h"

#include "lang/ast.h"
#include "lang/diag_internal.h"
#include "lower/lower.h"
#include "sema/typed.h"

static const char *const codes[] = {
#define DIAG(code, severity, name, format) #code,
#include "lang/diags.h"
#undef DIAG
};
enum { CODES = sizeof codes / sizeof *codes };

static SemaFile *check_source(Session *s, const Source *src) {
    Node *file = parse_file(s, src);
    if (diag_errors(s) > 0) return NULL;
    SemaFile *checked = sema_file(s, file);
    TTest **tests = NULL;
    sema_check(checked);
    sema_tests(checked, &tests);
    return checked;
}

static void lower_first_kernel(Session *s, SemaFile *file) {
    const TKernel *k = sema_instance((InstanceOf){.file = file, .item = sema_kernel(file, 0)});
    Fn *f = k ? ir_build(s, k) : NULL;
    CompileOptions options = {.target = target_find("sm_80"), .verify = true};
    Buf ptx = {0};
    if (f && lower_run(f, &options)) lower_emit(s, &f, 1, &options, NULL, &ptx);
    buf_free(&ptx);
}

static char *render(const char *name, const char *text, size_t n, DiagStyle style, bool lower) {
    Session *s = session_new();
    SemaFile *file = check_source(s, source_add(s, name, text, n));
    if (lower && diag_errors(s) == 0) lower_first_kernel(s, file);
    char *out;
    GOLDEN_CAPTURE(out, f, diag_print(s, f, style, false));
    session_free(s);
    return out;
}

static int count(const char *text, const char *what) {
    int n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what)) n++;
    return n;
}

// Does the text, changed as the fix says, still draw the same code on the same line?
static bool fix_helps(const char *name, const char *text, size_t n, const Source *src, const Diag *d, const Extra *fix) {
    size_t lo = fix->fix_at.lo - src->base, hi = fix->fix_at.hi - src->base;
    Buf fixed = {0};
    buf_add(&fixed, text, lo);
    buf_puts(&fixed, fix->fix);
    buf_add(&fixed, text + hi, n - hi);
    Session *s = session_new();
    const Source *again = source_add(s, name, fixed.p, fixed.n);
    check_source(s, again);
    Pos moved = d->at.lo > fix->fix_at.lo ? d->at.lo + (Pos)strlen(fix->fix) - (Pos)(hi - lo) : d->at.lo;
    bool ok = true;
    for (uint32_t i = 0; i < s->diags.n; i++) ok &= s->diags.at[i]->code != d->code || s->diags.at[i]->at.lo != moved;
    buf_free(&fixed);
    session_free(s);
    return ok;
}

static bool check_fixes(const char *name, const char *text, size_t n) {
    Session *s = session_new();
    const Source *src = source_add(s, name, text, n);
    check_source(s, src);
    bool ok = true;
    for (uint32_t i = 0; i < s->diags.n; i++) {
        const Diag *d = s->diags.at[i];
        for (uint32_t k = 0; k < d->extras.n; k++) {
            const Extra *e = &d->extras.at[k];
            if (!e->has_fix || e->fix_at.lo < src->base || e->fix_at.hi > src->base + src->size) continue;
            if (fix_helps(name, text, n, src, d, e)) continue;
            LineCol w = span_where(s, d->at.lo);
            printf("%s:%u:%u: %s: the fix `%s` changes nothing\n", name, w.line, w.col, d->message, e->fix);
            ok = false;
        }
    }
    session_free(s);
    return ok;
}

static bool check_case(const char *path, bool bless) {
    size_t n = 0;
    char *text = golden_read(path, &n);
    if (!text) { perror(path); return false; }
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    char *rich = render(name, text, n, DIAG_rich, false);
    char *brief = render(name, text, n, DIAG_short, false), *json = render(name, text, n, DIAG_json, false);
    char *golden = golden_path(path, ".txt");
    bool ok = golden_check(golden, rich, bless);
    int lines = count(rich, "error[E") + count(rich, "warning[E") + count(rich, "remark[E");
    int unshown = count(brief, " not shown\n");
    if (count(brief, "\n") - unshown != lines || count(json, "\n") - unshown != lines) {
        printf("%s: %d messages, but\n%s%s", path, lines, brief, json);
        ok = false;
    }
    ok &= check_fixes(name, text, n);
    heap_free(golden), heap_free(json), heap_free(brief), heap_free(rich), heap_free(text);
    return ok;
}

static bool check_codes(char **files, int nfiles) {
    bool seen[CODES] = {false}, ok = true;
    for (int i = 0; i < nfiles; i++) {
        size_t n = 0;
        char *text = golden_read(files[i], &n), mark[16];
        for (int k = 0; text && k < CODES; k++) {
            snprintf(mark, sizeof mark, "[%s]", codes[k]);
            seen[k] |= strstr(text, mark) != NULL;
        }
        heap_free(text);
    }
    for (int k = 0; k < CODES; k++) {
        if (!seen[k]) printf("%s: no case in tests/diag draws it, nor in tests/cli\n", codes[k]), ok = false;
        if (!diag_explain(codes[k])) printf("%s: no section in docs/errors.md\n", codes[k]), ok = false;
    }
    return ok;
}

// The nth block between ```tk and ``` of a section, or NULL.
static const char *example(const char *section, int nth, size_t *n) {
    const char *p = section;
    for (int i = 0; p && i <= nth; i++) {
        p = strstr(p, "```tk\n");
        if (!p) return NULL;
        p += 6;
        const char *end = strstr(p, "```");
        *n = end ? (size_t)(end - p) : strlen(p);
        if (i == nth) return p;
        p = end ? end + 3 : NULL;
    }
    return NULL;
}

static bool check_docs(void) {
    bool ok = true;
    for (int k = 0; k < CODES; k++) {
        const char *section = diag_explain(codes[k]);
        if (!section || strcmp(codes[k], "E0502") == 0) continue;         // that one is not about a program
        bool lower = strncmp(codes[k], "E05", 3) == 0;
        size_t n = 0;
        const char *wrong = example(section, 0, &n);
        char *out = wrong ? render("wrong.tk", wrong, n, DIAG_short, lower) : NULL;
        char mark[16];
        snprintf(mark, sizeof mark, " %s: ", codes[k]);
        if (!out || !strstr(out, mark))
            printf("%s: the first example of its section draws\n%s", codes[k], out ? out : "nothing: there is none\n"),
                ok = false;
        heap_free(out);
        const char *right = example(section, 1, &n);
        out = right ? render("right.tk", right, n, DIAG_short, lower) : NULL;
        if (!out || strstr(out, "error: "))
            printf("%s: the second example of its section draws\n%s", codes[k], out ? out : "nothing: there is none\n"),
                ok = false;
        heap_free(out);
    }
    return ok;
}

int main(int argc, char **argv) {
    bool bless = argc > 1 && strcmp(argv[1], "--bless") == 0, ok = true;
    if (argc > 1 && strcmp(argv[1], "--codes") == 0) return check_codes(argv + 2, argc - 2) ? 0 : 1;
    if (argc > 1 && strcmp(argv[1], "--docs") == 0) return check_docs() ? 0 : 1;
    for (int i = 1 + bless; i < argc; i++) ok &= check_case(argv[i], bless);
    return ok ? 0 : 1;
}
