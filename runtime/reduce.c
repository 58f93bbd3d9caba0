// The search: one edit at a time, the largest first; one that fails as before is kept, and the edits are listed anew. It ends when a round finds
// nothing, or after so many candidates.
//
//     round:  the file (statements, expressions, numbers; nodes of a model)  >  the arguments (sizes, data)  >  the schedule
#include "runtime/reduce.h"

#include "runtime/model.h"

#include <string.h>

typedef struct Reducing {
    const ReduceHow *how;
    ReduceCase *best, *next;
    const Buf  *failure;               // what it is to fail with
    int         tried, kept;
    VEC(uint64_t) seen;                // hashes of what was tried
    Arena      *arena;
} Reducing;

static uint64_t hash_of(const ReduceCase *c) {
    uint64_t h = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < c->file.n; i++) h = (h ^ (unsigned char)c->file.p[i]) * UINT64_C(0x100000001b3);
    for (int i = 0; i < c->nargs; i++)
        for (const char *p = c->arg[i].gone ? "-" : c->arg[i].text; *p; p++) h = (h ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < sizeof c->compile.schedule; i++) h = (h ^ ((const unsigned char *)&c->compile.schedule)[i]) * UINT64_C(0x100000001b3);
    return h ^ (uint64_t)c->compile.math;
}

static bool is_new(Reducing *r, const ReduceCase *c) {
    uint64_t h = hash_of(c);
    for (uint32_t i = 0; i < r->seen.n; i++) if (r->seen.at[i] == h) return false;
    vec_push(r->arena, &r->seen, h);
    return true;
}

// r->next, if it fails as r->best does, becomes that. It is freed otherwise.
static bool keep(Reducing *r) {
    Buf failure = {0};
    bool fails = false;
    args_mentioned(r->next);
    if (r->tried < r->how->most && is_new(r, r->next)) {
        r->tried++;
        reduce_check(r->how, r->next, &failure, NULL);
        fails = failure.n == r->failure->n && memcmp(failure.p, r->failure->p, failure.n) == 0;
    }
    if (fails) {
        ReduceCase *was = r->best;
        r->best = r->next, r->next = was;
        r->kept++;
        if (r->how->progress_to) fprintf(r->how->progress_to, "tkc: %d tried, %d kept, %zu bytes\n", r->tried, r->kept, r->best->file.n);
    }
    buf_free(&r->next->file);
    buf_free(&failure);
    return fails;
}

// The argument of a parameter takes its new type.
static void retype(ReduceCase *c, const char *param, const char *type) {
    for (int i = 0; i < c->nargs; i++) {
        char *text = c->arg[i].text, *open = strrchr(text, '['), *colon = open;
        size_t n = strlen(param);
        if (strncmp(text, param, n) != 0 || text[n] != '=' || !open) continue;
        while (colon > text && *colon != ':') colon--;
        if (*colon != ':') continue;
        char rest[REDUCE_TEXT];
        snprintf(rest, sizeof rest, "%s", open);
        snprintf(colon + 1, REDUCE_TEXT - (size_t)(colon + 1 - text), "%s%s", type, rest);
    }
}

static bool reduce_program(Reducing *r) {
    bool any = false;
    for (uint32_t i = 0;; i++) {
        Session  *s = session_new();
        TextEdits edits = reduce_edits(s, r->best->file.p, r->best->file.n);
        bool more = i < edits.list.n && r->tried < r->how->most;
        if (more) {
            const TextEdit *e = &edits.list.at[i];
            case_copy(r->best, r->next);
            buf_free(&r->next->file);
            r->next->file = (Buf){0};
            text_edit(e, &r->best->file, &r->next->file);
            if (e->writers) text_without_writers(e->writers, &r->next->file);
            if (e->param) retype(r->next, e->param, e->type);
            if (keep(r)) any = true, i = i > 8 ? i - 8 : (uint32_t)-1;       // smaller ones have moved up
        }
        session_free(s);
        if (!more) return any;
    }
}

static bool reduce_model(Reducing *r) {
    bool any = false;
    for (int i = 0; r->tried < r->how->most; i++) {
        case_copy(r->best, r->next);
        buf_free(&r->next->file);
        r->next->file = (Buf){0};
        OnnxEdit e = onnx_edit(r->best->file.p, r->best->file.n, i, &r->next->file);
        if (e == ONNX_EDIT_NONE) { buf_free(&r->next->file); break; }
        if (e == ONNX_EDIT_MADE && keep(r)) any = true, i = -1;
        else buf_free(&r->next->file);
    }
    return any;
}

static bool reduce_args(Reducing *r) {
    bool any = false, more = true;
    for (int i = 0; more && r->tried < r->how->most; i++) {
        more = args_edit(r->best, i, r->how->model, r->next);
        if (more && keep(r)) any = true, i--;
    }
    return any;
}

static bool reduce_options(Reducing *r) {
    bool any = false;
    for (int i = 0; i <= schedule_field_count + 1; i++) {
        case_copy(r->best, r->next);
        CompileOptions *o = &r->next->compile;
        if (i < schedule_field_count) *(int *)(void *)((char *)&o->schedule + schedule_fields[i].offset) = 0;
        else if (i == schedule_field_count) o->math = 0;
        else o->target = NULL;
        any |= keep(r);
    }
    return any;
}

bool reduce(const ReduceHow *how, ReduceCase *c, Buf *failure, Buf *err) {
    Buf said = {0};
    reduce_check(how, c, failure, &said);
    if (failure->n == 0) {
        buf_printf(err, "%s: it does not fail, and there is nothing to keep while it gets smaller%s", how->path, said.n ? ":\n" : "");
        buf_add(err, said.p, said.n);
        while (err->n && err->p[err->n - 1] == '\n') err->p[--err->n] = 0;
        buf_free(&said);
        return false;
    }
    buf_free(&said);
    static ReduceCase other;
    Reducing r = {.how = how, .best = c, .next = &other, .failure = failure, .arena = arena_new()};
    for (bool any = true; any && r.tried < how->most;) {
        any = how->model ? reduce_model(&r) : reduce_program(&r);
        any |= reduce_args(&r);
        any |= !how->model && reduce_options(&r);
    }
    if (r.best != c) { buf_free(&c->file); *c = *r.best; }
    arena_free(r.arena);
    return true;
}
