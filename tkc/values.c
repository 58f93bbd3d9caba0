// Values from the command line.
//
// A name is a compile-time parameter if it stands in the kernel's <>, a dimension if it stands in the
// shape of a tensor parameter. A name that no kernel of the file has is a mistake worth a line: a
// misspelt --set that changes nothing is found days later.
#include "lang/c_text.h"
#include "tkc/values.h"

#include <string.h>

// ---- what a kernel declares ----------------------------------------------------------------------

enum { GENERICS = 0, PARAMS = 1 };     // children of a kernel node

static const Node *list_of(const Node *kernel, int which) { return kernel->kid[which]; }

static bool has_generic(const Node *kernel, const char *name) {
    const Node *list = list_of(kernel, GENERICS);
    for (uint32_t i = 0; list != NULL && i < list->nkid; i++)
        if (list->kid[i] != NULL && list->kid[i]->sym != NULL && strcmp(list->kid[i]->sym->s, name) == 0) return true;
    return false;
}

// Calls `see` for each name in the shapes of the tensors, until it gives true.
static bool each_dim(const Node *n, bool (*see)(void *ctx, const char *name), void *ctx) {
    if (n == NULL) return false;
    if (n->kind == N_name && n->sym != NULL) return see(ctx, n->sym->s);
    for (uint32_t i = n->kind == N_type_tensor ? 1 : 0; i < n->nkid; i++)   // kid 0 is the element type
        if (each_dim(n->kid[i], see, ctx)) return true;
    return false;
}

static bool is_name(void *ctx, const char *name) { return strcmp(ctx, name) == 0; }

// A graph's scalar parameter is a number of its plan, as a dimension is.
static bool has_scalar(const Node *graph, const char *name) {
    const Node *params = list_of(graph, PARAMS);
    for (uint32_t i = 0; graph->kind == N_graph && params != NULL && i < params->nkid; i++) {
        const Node *p = params->kid[i];
        if (p->sym != NULL && strcmp(p->sym->s, name) == 0 && p->kid[0] != NULL && p->kid[0]->kind == N_type_name)
            return true;
    }
    return false;
}

static bool has_dim(const Node *kernel, const char *name) {
    if (has_scalar(kernel, name)) return true;
    return !has_generic(kernel, name) && each_dim(list_of(kernel, PARAMS), is_name, (void *)(uintptr_t)name);
}

void values_for(const Values *all, const Node *kernel, Values *set, Values *dims) {
    set->n = dims->n = 0;
    for (int i = 0; i < all->n; i++) {
        if (has_generic(kernel, all->at[i].name)) set->at[set->n++] = all->at[i];
        else if (has_dim(kernel, all->at[i].name)) dims->at[dims->n++] = all->at[i];
    }
}

typedef struct Names { const char *at[256]; int n; } Names;

static bool collect(void *ctx, const char *name) {
    Names *names = ctx;
    if (names->n < 256) names->at[names->n++] = name;
    return false;
}

static void collect_names(const Node *kernel, Names *names) {
    const Node *generics = list_of(kernel, GENERICS);
    for (uint32_t i = 0; generics != NULL && i < generics->nkid; i++)
        if (generics->kid[i] != NULL && generics->kid[i]->sym != NULL) collect(names, generics->kid[i]->sym->s);
    each_dim(list_of(kernel, PARAMS), collect, names);
}

int values_check(const Values *all, const Node *const *kernels, int n) {
    for (int i = 0; i < all->n; i++) {
        const char *name = all->at[i].name;
        bool known = false;
        bool dimension = false;
        for (int k = 0; k < n; k++) {
            known = known || has_generic(kernels[k], name) || has_dim(kernels[k], name);
            dimension = dimension || (has_dim(kernels[k], name) && !has_scalar(kernels[k], name));
        }
        const SemaValue *v = &all->at[i];
        if (dimension && (v->fn != NULL || v->is_type || v->ival < 0))
            return fail("--set %s: that is a dimension, and takes a number from 0 on", name);
        if (known) continue;
        Names names = {.n = 0};
        for (int k = 0; k < n; k++) collect_names(kernels[k], &names);
        const char *near = nearest(name, names.at, names.n);
        if (near != NULL)
            return fail("--set %s: no kernel has such a compile-time parameter or dimension; did you mean `%s`?", name,
                        near);
        return fail("--set %s: no kernel has such a compile-time parameter or dimension", name);
    }
    return DONE;
}

// ---- NAME=VALUE ----------------------------------------------------------------------------------

static bool is_word(const char *text) {
    for (const char *p = text; *p; p++)
        if (*p != '_' && !c_isalpha((unsigned char)*p) && !(p > text && c_isdigit((unsigned char)*p))) return false;
    return *text != '\0';
}

static bool value_parse(const char *text, SemaValue *out) {
    if (number_parse(text, &out->ival)) return true;
    if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
        out->ival = text[0] == 't';
        return true;
    }
    out->elem = elem_by_name((Str){text, strlen(text)});
    out->is_type = out->elem != EL_none;
    if (!out->is_type && is_word(text)) out->fn = text;      // of a function: whether there is one, the file says
    return out->is_type || out->fn;
}

int value_read(const char *option, const char *text, Arena *a, SemaValue *out) {
    const char *sign = strchr(text, '=');
    if (sign == NULL || sign == text) return wrong_use("%s %s: NAME=VALUE is wanted", option, text);
    *out = (SemaValue){.name = arena_printf(a, "%.*s", (int)(sign - text), text)};
    if (!value_parse(sign + 1, out))
        return wrong_use("%s %s: `%s` is no integer, true, false, element type or name of a function", option, text,
                         sign + 1);
    return DONE;
}

int values_read(const Options *opt, Arena *a, Values *out) {
    out->n = 0;
    for (int i = 0; i < opt->set.n; i++) {
        SemaValue v;
        int status = value_read("--set", opt->set.at[i], a, &v);
        if (status != DONE) return status;
        if (out->n == MAX_VALUES) return wrong_use("--set: more than %d values", MAX_VALUES);
        for (int k = 0; k < out->n; k++)
            if (strcmp(out->at[k].name, v.name) == 0)
                return wrong_use("--set %s: %s is given twice", opt->set.at[i], v.name);
        out->at[out->n++] = v;
    }
    return DONE;
}

int schedule_read(const Options *opt, Schedule *out) {
    *out = (Schedule){0};
    for (int i = 0; i < opt->with.n; i++) {
        const char *text = opt->with.at[i];
        size_t n = strcspn(text, "=");
        int64_t value = 0;
        int most = 0, *field = schedule_field(out, text, n, &most);
        if (field == NULL) {
            char have[32];
            const char *names[32];
            const char *word = strncmp(text, "num_", 4) == 0 ? text + 4 : text;      // num_warps
            Buf list = {0};
            snprintf(have, sizeof have, "%.*s", (int)(text + n - word), word);
            for (int k = 0; k < schedule_field_count; k++) {
                names[k] = schedule_fields[k].name;
                buf_printf(&list, "%s%s", k > 0 ? ", " : "", names[k]);
            }
            const char *near = nearest(have, names, schedule_field_count);
            int status = near != NULL
                             ? wrong_use("--with %s: there is no `%.*s`; did you mean `%s`?", text, (int)n, text, near)
                             : wrong_use("--with %s: NAME is one of %s", text, list.p);
            buf_free(&list);
            return status;
        }
        bool number = text[n] == '=' && number_parse(text + n + 1, &value);
        const char *takes = schedule_refuses(text, n, number ? value : 0);
        if (takes != NULL) return wrong_use("--with %s: %.*s takes %s", text, (int)n, text, takes);
        *field = (int)value;
    }
    return DONE;
}
