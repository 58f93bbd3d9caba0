// A file's items and what it sees: its own, over those of the files it imports, over the prelude
// (lang/std/prelude.tk), over the builtins. An imported file sees only what it imports itself. Names that
// begin with `_` stay in their file.
//
// `import "std/norm.tk"` is found in the library embedded in the compiler; any other path is relative
// to the importing file.
#include "sema/internal.h"

#include "lang/std_embed.h"

#include <stdlib.h>
#include <string.h>

typedef enum FileRole { FILE_MAIN, FILE_IMPORTED, FILE_LIBRARY } FileRole;
typedef struct Loaded { const char *path; Scope *own; } Loaded;
typedef struct Loader { SemaFile *f; Check *c; VEC(Loaded) files; Scope *prelude; } Loader;

// Names in `<>`, or parameters: each once. (A parameter of a kernel may have the name of a dimension: its instances look.)
static void each_once(Session *s, const Node *list) {
    for (uint32_t i = 1; list && i < list->nkid; i++) {
        const Node *a = list->kid[i], *b = NULL;
        for (uint32_t j = 0; a->sym && j < i && !b; j++) b = list->kid[j]->sym == a->sym ? list->kid[j] : NULL;
        if (b) diag_label(diag(s, E_redefined, name_at(a), a->sym->s), name_at(b), "first here");
    }
}

static Scope *load_items(Loader *l, Node *file, const char *path, FileRole role, int depth);

static void add_fn(Loader *l, Scope *sc, const Node *n, Scope *env) {
    Bind *b = scope_find_here(sc, n->sym);
    FnItem *item = NEW(l->c->a, FnItem);
    *item = (FnItem){.node = n, .env = env};
    if (b && b->ent.kind == EN_error) return;             // an overload that was given up stands before it
    if (b && b->ent.kind == EN_fn) {
        FnItem *last = b->ent.fn;
        while (last->next) last = last->next;
        last->next = item;
        return;
    }
    if (b) {
        Diag *d = diag(l->f->s, E_redefined, name_at(n), n->sym->s);
        diag_label(d, b->span, "first here");
        return;
    }
    scope_bind(l->c, sc, n->sym, (Ent){.kind = EN_fn, .fn = item, .span = name_at(n)}, name_at(n));
}

static void add_kernel(Loader *l, Scope *sc, const Node *n, EntKind kind) {
    Bind *b = scope_find_here(sc, n->sym);
    if (b && b->ent.kind == EN_error) return;
    if (b) {
        Diag *d = diag(l->f->s, E_redefined, name_at(n), n->sym->s);
        diag_label(d, b->span, "first here");
        return;
    }
    FnItem item = {.node = n, .env = sc};
    vec_push(l->c->a, &l->f->launched, item);
    scope_bind(l->c, sc, n->sym, (Ent){.kind = kind, .node = n, .span = name_at(n)}, name_at(n));
}

Scope *item_scope(const SemaFile *f, const Node *item) {
    for (uint32_t i = 0; i < f->launched.n; i++) {
        if (f->launched.at[i].node == item) return f->launched.at[i].env;
    }
    return f->scope;
}

// The path without `./` and `folder/../`, so that one file has one name.
static void tidy(char *path) {
    char *out = path, *p = path;
    while (*p) {
        size_t n = strcspn(p, "/");
        bool dot = n == 1 && p[0] == '.', up = n == 2 && p[0] == '.' && p[1] == '.';
        char *last = out > path && out[-1] == '/' ? out - 1 : out;      // the folder that `..` leaves
        while (last > path && last[-1] != '/') last--;
        bool can_drop = up && out > path && last < out && strncmp(last, "../", 3) != 0 && *last != '/';
        if (can_drop) out = last;
        else if (!dot) {
            memmove(out, p, n);
            out += n;
            if (p[n]) *out++ = '/';
        }
        p += n + (p[n] == '/');
    }
    *out = 0;
}

static const char *relative(Arena *a, const char *from, Str to) {
    const char *slash = strrchr(from, '/');
    if (to.n && to.p[0] == '/') slash = NULL;
    int dir = slash ? (int)(slash - from) + 1 : 0;
    char *path = arena_printf(a, "%.*s%.*s", dir, from, (int)to.n, to.p);
    tidy(path);
    return path;
}

// The file of the library whose name is nearest, or all of them.
static void help_library(Arena *a, Diag *d, const char *name) {
    const char *near = std_nearest(name), *all = "";
    for (int i = 0; std_name(i); i++) all = arena_printf(a, "%s%s%.*s", all, i ? ", " : "", (int)strcspn(std_name(i), "."), std_name(i));
    if (near) diag_help(d, "did you mean \"std/%s\"?", near);
    else diag_help(d, "the library's files are %s: `import \"std/matmul.tk\";`", all);
}

static Scope *import_file(Loader *l, const Node *n, const char *from, int depth) {
    Session *s = l->f->s;
    Arena *a = session_arena(s);
    bool lib = n->str.n > 4 && memcmp(n->str.p, "std/", 4) == 0;
    const char *path = lib ? arena_printf(a, "%.*s", (int)n->str.n, n->str.p) : relative(a, from, n->str);
    for (uint32_t i = 0; i < l->files.n; i++) {
        if (strcmp(l->files.at[i].path, path) == 0) return l->files.at[i].own;
    }
    Source *src = NULL;
    char *why = NULL;
    if (lib) {
        src = source_std(s, path);
        if (!src) why = "the standard library has no such file";
    } else {
        src = source_import(s, path, &why);
    }
    if (!src || depth > limit_of(LIMIT_imports)) {
        Diag *d = diag(s, E_import_failed, n->span, arena_printf(a, "%.*s", (int)n->str.n, n->str.p),
                       why ? why : "imports are nested too deeply");
        if (src) limit_help(d, LIMIT_imports, depth + 1);
        if (lib && !src) help_library(a, d, path + 4);
        return NULL;
    }
    return load_items(l, parse_file(s, src), path, lib ? FILE_LIBRARY : FILE_IMPORTED, depth + 1);
}

// Copies the names of one scope into another; functions of one name become overloads.
static void merge_scope(Loader *l, Scope *to, const Scope *from) {
    for (const Bind *b = from->first; b; b = b->next) {
        if (b->name->s[0] == '_') continue;
        if (b->ent.kind == EN_fn) {
            for (FnItem *i = b->ent.fn; i; i = i->next) add_fn(l, to, i->node, i->env);
        } else if (!scope_find_here(to, b->name)) {
            scope_bind(l->c, to, b->name, b->ent, b->span);
        }
    }
}

static Scope *load_items(Loader *l, Node *file, const char *path, FileRole role, int depth) {
    Check *c = l->c;
    Scope *imports = scope_new(c, l->prelude), *own = scope_new(c, imports);
    Loaded entry = {.path = path, .own = own};
    bool main = role == FILE_MAIN;
    vec_push(c->a, &l->files, entry);
    for (uint32_t i = 0; file && i < file->nkid; i++) {      // its own items first: files may import each other
        const Node *n = file->kid[i];
        if (!n) continue;
        if (n->kind == N_fn || n->kind == N_kernel || n->kind == N_graph) each_once(l->f->s, n->kid[0]);
        if (n->kind == N_fn) each_once(l->f->s, n->kid[1]);
        FnItem here = {.node = n, .env = own};
        if (role == FILE_IMPORTED && n->sym && (n->kind == N_fn || n->kind == N_kernel)) vec_push(c->a, &l->f->imported, here);
        if (n->kind == N_fn && n->sym) {
            add_fn(l, own, n, own);
            if (main) vec_push(c->a, &l->f->fns, n);
        } else if (n->kind == N_kernel && n->sym) {
            add_kernel(l, own, n, EN_kernel);
            if (main) vec_push(c->a, &l->f->kernels, n);
        } else if (n->kind == N_graph && n->sym) {
            add_kernel(l, own, n, EN_graph);
            if (main) vec_push(c->a, &l->f->graphs, n);
        } else if (n->kind == N_error_stmt && n->sym && !scope_find_here(own, n->sym)) {
            scope_bind(c, own, n->sym, (Ent){.kind = EN_error}, n->span);
        } else if (n->kind == N_tune) {
            vec_push(c->a, &l->f->tunes, here);
        } else if (n->kind == N_test && main) {
            vec_push(c->a, &l->f->tests, n);
        }
    }
    for (uint32_t i = 0; file && i < file->nkid; i++) {
        if (!file->kid[i] || file->kid[i]->kind != N_import) continue;
        Scope *from = import_file(l, file->kid[i], path, depth);
        if (from && from != own) merge_scope(l, imports, from);
    }
    return own;
}

static Scope *library_file(Loader *l, const char *path) {
    Source *src = source_std(l->f->s, path);
    return src ? load_items(l, parse_file(l->f->s, src), src->path, FILE_LIBRARY, 0) : NULL;
}

static bool has_graphs(const SemaFile *f) {
    if (f->graphs.n) return true;                            // one whose name is another's, too: it is checked
    for (uint32_t i = 0; i < f->launched.n; i++) {
        if (f->launched.at[i].node->kind == N_graph) return true;
    }
    return false;
}

SemaFile *sema_file(Session *s, Node *file) {
    SemaFile *f = NEW(session_arena(s), SemaFile);
    f->s = s;
    f->root = file;
    Loader l = {.f = f};
    l.c = check_new(f);
    l.prelude = library_file(&l, "std/prelude.tk");
    const char *path = "";
    if (file && file->span.hi) path = span_where(s, file->span.lo).src->path;
    f->scope = load_items(&l, file, path, FILE_MAIN, 0);
    if (has_graphs(f)) f->graph_library = library_file(&l, "std/graph.tk");
    return f;
}

int sema_graph_count(const SemaFile *f) { return (int)f->graphs.n; }
const Node *sema_graph(const SemaFile *f, int i) { return f->graphs.at[i]; }

const Node *sema_find_graph(const SemaFile *f, const char *name) {
    for (uint32_t i = 0; i < f->graphs.n; i++) {
        if (strcmp(f->graphs.at[i]->sym->s, name) == 0) return f->graphs.at[i];
    }
    return NULL;
}

void sema_weights(SemaFile *f, WeightLookup look, void *ctx) {
    f->weight_lookup = look;
    f->weight_ctx = ctx;
}

void sema_chooser(SemaFile *f, KernelChooser choose, void *ctx) {
    f->chooser = choose;
    f->chooser_ctx = ctx;
}

void sema_alone_chooser(SemaFile *f, KernelChooser choose, void *ctx) {
    f->alone = choose;
    f->alone_ctx = ctx;
}

int sema_kernel_count(const SemaFile *f) { return (int)f->kernels.n; }
const Node *sema_kernel(const SemaFile *f, int i) { return f->kernels.at[i]; }

const Node *sema_find_kernel(const SemaFile *f, const char *name) {
    for (uint32_t i = 0; i < f->kernels.n; i++) {
        if (strcmp(f->kernels.at[i]->sym->s, name) == 0) return f->kernels.at[i];
    }
    return NULL;
}
