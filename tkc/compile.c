// A file from the command line to checked kernels.
#include "tkc/compile.h"

#include "graph/graph_passes.h"
#include "runtime/artifact.h"
#include "sema/graph.h"

#include <string.h>

#include "tkc/values.h"

// --after names a pass of these; `import` and `build` are what they start from.
static bool names_pass(const char *name, const char *const *names, int n) {
    for (int i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0) return true;
    const char *near = nearest(name, names, n);
    if (near != NULL) wrong_use("--after: there is no pass `%s`; did you mean `%s`?", name, near);
    else wrong_use("--after: there is no pass `%s`: tkc --passes lists them", name);
    return false;
}

static bool pass_exists(const char *name) {
    const char *names[128] = {"build"};
    int n = 1;
    for (int i = 0; i < pass_count && n < 128; i++) names[n++] = pass_info(i)->name;
    return names_pass(name, names, n);
}

bool graph_pass_exists(const char *name) {
    const char *names[128];
    int n = 0;
    for (int i = 0; i < graph_pass_count && n < 128; i++) names[n++] = graph_pass_info(i)->name;
    return names_pass(name, names, n);
}

bool verifies_values(const Options *opt) { return opt->verify != NULL && strcmp(opt->verify, "values") == 0; }

int compile_options(const Options *opt, CompileOptions *out) {
    bool runs = strcmp(opt->command, "run") == 0 || strcmp(opt->command, "test") == 0;
    if (verifies_values(opt) && !runs) return wrong_use("--verify=values is for run and test: it evaluates kernels on arguments");
    *out = (CompileOptions){
        .target = opt->arch != NULL ? target_find(opt->arch) : NULL,
        .verify = opt->verify != NULL,
        .general = opt->general,
        .unoptimised = opt->opt != NULL && strcmp(opt->opt, "none") == 0,
        .line_info = opt->line_info,
        .after = opt->after,
        .dump_dir = opt->dump_dir,
    };
    if (opt->math != NULL) out->math = strcmp(opt->math, "strict") == 0 ? 1 : strcmp(opt->math, "fast") == 0 ? 2 : 0;
    if (opt->after != NULL && !pass_exists(opt->after)) return USAGE;
    bool tiles = opt->emit == NULL || strcmp(opt->emit, "tile") == 0 || strcmp(opt->emit, "layout") == 0;
    if (opt->after != NULL && !tiles) return wrong_use("--after ends with the tile IR: --emit=tile and layout write it, not `%s`", opt->emit);
    if (opt->dump_dir != NULL && !make_folder(opt->dump_dir)) return FAILED;
    return schedule_read(opt, &out->schedule);
}

const Source *open_source(Session *s, const Options *opt, int *status) {
    const char *path = opt->operands.n > 0 ? opt->operands.at[0] : NULL;
    if (path == NULL) {
        *status = wrong_use("no file was given; see tkc %s%s--help", opt->command, opt->command[0] != '\0' ? " " : "");
        return NULL;
    }
    char *error = NULL;
    const Source *src = source_read(s, path, &error);
    if (src == NULL) *status = fail("%s", error);
    if (src != NULL && artifact_is(src->text, src->size)) {
        *status = fail("%s: its kernels are compiled: libtkc takes them (tkc_load_file)", path);
        return NULL;
    }
    return src;
}

int pick_kernels(const SemaFile *file, const char *path, const char *name, bool one, const Node **out, int max) {
    int count = sema_kernel_count(file), n = 0;
    const char *names[MAX_KERNELS];
    for (int i = 0; i < count && n < max && n < MAX_KERNELS; i++) {
        out[n] = sema_kernel(file, i);
        names[n] = out[n]->sym != NULL ? out[n]->sym->s : "";
        n++;
    }
    if (name != NULL) {
        const Node *found = sema_find_kernel(file, name);
        if (found != NULL) return out[0] = found, 1;
        const char *near = nearest(name, names, n);
        if (near != NULL) fail("%s has no kernel `%s`; did you mean `%s`?", path, name, near);
        else fail("%s has no kernel `%s`", path, name);
        return 0;
    }
    if (n == 0 && sema_graph_count(file) > 0)
        fail("%s has graphs and no kernel of its own: there are --emit=plan, and tkc run", path);
    else if (n == 0) fail("%s has no kernel", path);
    if (one && n > 1) {
        Buf list = {0};
        for (int i = 0; i < n; i++) buf_printf(&list, "%s%s", i > 0 ? ", " : "", names[i]);
        fail("%s has %d kernels: choose with --kernel (%s)", path, n, list.p);
        buf_free(&list);
        return 0;
    }
    return n;
}

const Node *pick_graph(const SemaFile *file, const char *path, const char *name) {
    int count = sema_graph_count(file);
    if (name == NULL && count == 1) return sema_graph(file, 0);
    const Node *found = name != NULL ? sema_find_graph(file, name) : NULL;
    if (found != NULL) return found;
    const char *names[MAX_KERNELS];
    Buf list = {0};
    int n = 0;
    for (; n < count && n < MAX_KERNELS; n++) {
        names[n] = sema_graph(file, n)->sym->s;
        buf_printf(&list, "%s%s", n > 0 ? ", " : "", names[n]);
    }
    const char *near = name != NULL ? nearest(name, names, n) : NULL;
    if (near != NULL) fail("%s has no graph `%s`; did you mean `%s`?", path, name, near);
    else if (name != NULL || count == 0)
        fail("%s has no graph%s%s%s", path, name != NULL ? " `" : "", name != NULL ? name : "",
             name != NULL ? "`" : "");
    else fail("%s has %d graphs: choose with --graph (%s)", path, count, list.p);
    buf_free(&list);
    return NULL;
}

const Node *pick_item(const SemaFile *file, const char *path, const Options *opt) {
    const Node *one[1];
    if (opt->kernel == NULL && (opt->graph != NULL || sema_graph_count(file) > 0)) return pick_graph(file, path, opt->graph);
    if (opt->kernel == NULL && sema_kernel_count(file) > 1)
        return pick_kernels(file, path, NULL, true, (const Node *[MAX_KERNELS]){0}, MAX_KERNELS), NULL;
    return pick_kernels(file, path, opt->kernel, true, one, 1) > 0 ? one[0] : NULL;
}
