// Typed trees as they are printed. Each case is NAME.tk with what sema makes of it beside it in
// NAME.txt: every kernel, with its defaults, then the steps of its tests (their
// kernels only in the first case). Lines at the head of the file
//
//     // set BM = 64          // dim N = 100          // set T = f16
//
// give compile-time values and known dimensions to all kernels. Messages come first; a case that has
// errors belongs into tests/diag.
//
//     run_sema FILE.tk...            compares
//     run_sema --bless FILE.tk...    writes the .txt files anew
//     run_sema --show FILE.tk...     prints
//     run_sema --page FILE.md        the page's examples have no errors
#define _GNU_SOURCE
#include "tests/golden.h"

#include "sema/graph.h"

#include <unistd.h>

typedef struct Values { SemaValue set[16], dim[16]; int nset, ndim; char names[32][32]; int nnames; } Values;

static void read_values(const char *text, Values *v) {
    for (const char *p = text; p && strncmp(p, "//", 2) == 0; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        char kind[8], name[32], value[32];
        if (sscanf(p, "// %7s %31[A-Za-z0-9_] = %31s", kind, name, value) != 3) continue;
        bool set = strcmp(kind, "set") == 0, dim = strcmp(kind, "dim") == 0;
        if ((!set && !dim) || v->nnames == 32 || v->nset == 16 || v->ndim == 16) continue;
        char *kept = strcpy(v->names[v->nnames++], name);
        SemaValue s = {.name = kept, .elem = elem_by_name((Str){value, strlen(value)})};
        s.is_type = s.elem != EL_none;
        s.ival = strcmp(value, "true") == 0 ? 1 : strtoll(value, NULL, 0);
        if (set) v->set[v->nset++] = s;
        else v->dim[v->ndim++] = s;
    }
}

static void print_value(Buf *out, TValue v) {
    if (v.tensor >= 0) buf_printf(out, "t%d", v.tensor);
    else if (elem_is_float(v.elem)) buf_printf(out, "%s %g", elem_name(v.elem), v.fval);
    else buf_printf(out, "%s %lld", elem_name(v.elem), (long long)v.ival);
}

static void print_step(Session *s, const TStep *t, bool kernels, Buf *out) {
    static const char *const makes[] = {"random", "zeros", "ones", "full", "iota", "randint", "values"};
    if (t->kind == STEP_make) {
        buf_printf(out, "  t%d = %s %s[", t->result, makes[t->make], elem_name(t->elem));
        for (int i = 0; i < t->rank; i++) buf_printf(out, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
        buf_printf(out, "]");
        if (t->lo.f != 0 || t->hi.f != 0) buf_printf(out, " %g %g", t->lo.f, t->hi.f);
        buf_puts(out, "\n");
    } else if (t->kind == STEP_launch || t->kind == STEP_graph) {
        buf_printf(out, "  t%d.. = %s %s(", t->result,
                   t->kind == STEP_graph ? "graph"
                   : t->reference        ? "reference"
                                         : "launch",
                   t->kernel->name->s);
        for (int i = 0; i < t->nargs; i++) {
            if (i) buf_puts(out, ", ");
            print_value(out, t->args[i]);
        }
        buf_puts(out, ")");
        if (t->like) buf_printf(out, " as step %d", t->like - 1);
        buf_puts(out, "\n");
        if (t->kind == STEP_graph) {
            tgraph_print(t->graph, out);
            return;
        }
        if (kernels) typed_print(s, t->kernel, out);
        typed_verify(t->kernel, out);
    } else {
        buf_puts(out, "  expect ");
        print_value(out, t->left);
        buf_printf(out, " %s ", op_spellings[t->op]);
        print_value(out, t->right);
        buf_printf(out, " rel %g abs %g\n", t->rel, t->abs);
    }
}

static const char *folder_of(const char *path, const char *slash) {
    static char dir[4096];
    snprintf(dir, sizeof dir, "%.*s", (int)(slash - path), path);
    return dir;
}

static char *dump(const char *path) {
    size_t n = 0;
    char *text = golden_read(path, &n);
    if (!text) { perror(path); exit(1); }
    Values v = {0};
    read_values(text, &v);
    const char *slash = strrchr(path, '/');
    if (slash && chdir(folder_of(path, slash)) != 0) perror(path);      // imports are relative to the file
    Session *s = session_new();
    Node *root = parse_file(s, source_add(s, slash ? slash + 1 : path, text, n));
    Buf out = {0};
    buf_puts(&out, "");
    SemaFile *f = sema_file(s, root);
    for (int i = 0; i < sema_kernel_count(f); i++) {
        TKernel *k = sema_instance((InstanceOf){f, sema_kernel(f, i), v.set, v.nset, v.dim, v.ndim});
        if (!k) continue;
        typed_print(s, k, &out);
        typed_verify(k, &out);
    }
    TTest **tests;
    int nt = sema_tests(f, &tests);
    for (int i = 0; i < nt; i++) {
        buf_printf(&out, "test \"%.*s\" %s\n", (int)tests[i]->name.n, tests[i]->name.p,
                   tests[i]->case_text ? tests[i]->case_text : "");
        for (int j = 0; j < tests[i]->nsteps; j++)
            print_step(s, &tests[i]->steps[j], i == 0 || tests[i - 1]->name.p != tests[i]->name.p, &out);
    }
    char *messages;
    GOLDEN_CAPTURE(messages, to, diag_print(s, to, DIAG_rich, false));
    Buf all = {0};
    buf_puts(&all, messages);
    buf_puts(&all, out.p);
    heap_free(messages), heap_free(text);
    buf_free(&out);
    session_free(s);
    return all.p;
}

// Every ```tk block of a page is a program without errors.
static bool check_page(const char *path) {
    size_t n = 0;
    char *text = golden_read(path, &n);
    if (!text) { perror(path); return false; }
    bool ok = true;
    for (char *p = text; (p = strstr(p, "```tk\n")); ) {
        p += 6;
        char *end = strstr(p, "```"), *messages;
        Session *s = session_new();
        Node *root = parse_file(s, source_add(s, "page.tk", p, end ? (size_t)(end - p) : strlen(p)));
        if (diag_errors(s) == 0) {
            SemaFile *file = sema_file(s, root);
            TTest **tests;
            sema_check(file);
            sema_tests(file, &tests);
        }
        int line = 1;
        for (char *q = text; q < p; q++) line += *q == '\n';
        GOLDEN_CAPTURE(messages, to, diag_print(s, to, DIAG_rich, false));
        if (*messages) printf("%s:%d: this example draws\n%s", path, line, messages), ok = false;
        heap_free(messages);
        session_free(s);
        p = end ? end + 3 : p;
    }
    heap_free(text);
    return ok;
}

int main(int argc, char **argv) {
    bool bless = argc > 1 && strcmp(argv[1], "--bless") == 0, show = argc > 1 && strcmp(argv[1], "--show") == 0, ok = true;
    if (argc > 2 && strcmp(argv[1], "--page") == 0) return check_page(argv[2]) ? 0 : 1;
    int first = bless || show ? 2 : 1;
    for (int i = first; i < argc; i++) {
        char *path = realpath(argv[i], NULL);
        if (!path) { perror(argv[i]); return 1; }
        argv[i] = path;
    }
    for (int i = first; i < argc; i++) {
        char *path = argv[i];
        char *text = dump(path), *golden = golden_path(path, ".txt");
        if (show) fputs(text, stdout);
        else ok = golden_check(golden, text, bless) && ok;
        heap_free(golden), heap_free(text), free(path);
    }
    return ok ? 0 : 1;
}
