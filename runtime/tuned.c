// What was measured stands before the model.
//
//     kernel, sizes ----> key ---> measured before, here or by another process?  ---> that choice, if the file still allows it
//                                         no ---> lower/cost/choose.c
//
// The key is the meaning of the kernel with its defaults (its tile IR as text), the dimensions that a choice depends on
// (`key` of the tune item), what the caller has set, and the device; so a comment or another kernel of the file may
// change. It is kept twice: for the device, and for its target, which is what compiling without a device finds, and the
// emulator.
#include "runtime/tune.h"

#include "runtime/cache.h"

#include <stdlib.h>
#include <string.h>

struct TunedStore { TunedStore *next; Buf key, bytes; };

void tuned_store_free(TunedStore *s) {
    for (TunedStore *next; s; s = next) {
        next = s->next;
        buf_free(&s->key);
        buf_free(&s->bytes);
        heap_free(s);
    }
}

typedef struct Asked { Session *s; InstanceOf of; const CompileOptions *opt; } Asked;

// False: the kernel cannot be built for this.
static bool key_of(const Asked *q, const char *device, Buf *key) {
    int      said = diag_count(q->s);
    TKernel *k = sema_instance(q->of);
    Fn      *f = k ? ir_build(q->s, k) : NULL;
    diag_forget(q->s, said);
    if (!f) return false;
    buf_printf(key, CACHE_MEASURED "%s %s\n%s math %d", device ? device : "-", TK_VERSION, q->opt->target->name,
               q->opt->math);
    for (int i = 0; i < schedule_field_count; i++)
        buf_printf(key, " %d",
                   *(const int *)(const void *)((const char *)&q->opt->schedule + schedule_fields[i].offset));
    for (int i = 0; i < q->of.nset; i++) buf_printf(key, " %s", q->of.set[i].name);
    for (int i = 0; i < k->ndims; i++)
        for (int d = 0; d < q->of.nknown; d++)
            if (!q->of.known[d].is_type && strcmp(q->of.known[d].name, k->dims[i].name->s) == 0 &&
                sema_tune_key(q->of.file, q->of.item, q->of.known[d].name))
                buf_printf(key, " %s=%lld", q->of.known[d].name, (long long)q->of.known[d].ival);
    buf_putc(key, '\n');
    ir_print(f, key);
    return true;
}

static bool find(const TunedStore *store, const Buf *key, Buf *bytes) {
    for (const TunedStore *t = store; t; t = t->next)
        if (t->key.n == key->n && memcmp(t->key.p, key->p, key->n) == 0) {
            buf_add(bytes, t->bytes.p, t->bytes.n);
            return true;
        }
    return cache_get(key, bytes);
}

// ---- a choice again ------------------------------------------------------------------------------

typedef struct Take { struct { char name[64]; int64_t value; } at[64]; int n; } Take;

static bool take_parse(const char *text, Take *t) {
    t->n = 0;
    while (*text) {
        char *end;
        size_t n = strcspn(text, " ");
        if (t->n == 64 || n >= sizeof t->at[0].name || strncmp(text + n, " = ", 3)) return false;
        memcpy(t->at[t->n].name, text, n);
        t->at[t->n].name[n] = 0;
        t->at[t->n++].value = strtoll(text + n + 3, &end, 10);
        if (end == text + n + 3 || (*end && strncmp(end, ", ", 2))) return false;
        text = *end ? end + 2 : end;
    }
    return true;
}

// The row of the tune item that names these values and no others.
static const TuneCandidate *row_of(const Asked *q, const Take *t, int names) {
    TuneCandidate *all;
    int n = sema_candidates(q->of, &all);
    for (int i = 0; i < n; i++) {
        Schedule s;
        int most, same = 0, own = 0;
        for (int v = 0; v < all[i].n; v++) {
            const SemaValue *x = &all[i].value[v];
            bool word = schedule_field(&s, x->name, strlen(x->name), &most) != NULL, found = false;
            for (int k = 0; k < t->n; k++) found |= strcmp(t->at[k].name, x->name) == 0 && t->at[k].value == x->ival;
            own += !word;
            same += found;
        }
        if (same == all[i].n && own == names) return &all[i];
    }
    return NULL;
}

static bool again(const Asked *q, const TuneResult *r, Choice *out) {
    Take t;
    int  names = 0, most;
    SemaValue *values = NEW_N(session_arena(q->s), SemaValue, q->of.nset + 64);
    if (!take_parse(r->row[0].choice, &t)) return false;
    *out = (Choice){.schedule = q->opt->schedule};
    if (q->of.nset) memcpy(values, q->of.set, sizeof *values * (size_t)q->of.nset);
    for (int i = 0; i < t.n; i++) {
        int *word = schedule_field(&out->schedule, t.at[i].name, strlen(t.at[i].name), &most);
        bool takes = word && (t.at[i].value == 0 || !schedule_refuses(t.at[i].name, strlen(t.at[i].name), t.at[i].value));
        if (takes) *word = (int)t.at[i].value;
        else if (word) return false;
        else
            values[q->of.nset + names++] = (SemaValue){
                .name = sym(q->s, t.at[i].name)->s, .ival = t.at[i].value, .chosen = true};
    }
    const TuneCandidate *row = sema_tune_item(q->of.file, q->of.item) ? row_of(q, &t, names) : NULL;
    if (names && !row) return false;
    if (!row && !sema_tune_allows(q->of)) return false;
    int said = diag_count(q->s);
    InstanceOf of = q->of;
    of.set = values;
    of.nset += names;
    out->kernel = sema_instance(of);
    diag_forget(q->s, said);
    out->why = arena_printf(session_arena(q->s), "%s%s%s: %.1f us measured on %s, the best of %d",
                            r->row[0].choice[0] ? r->row[0].choice : "the defaults", r->dims[0] ? " for " : "", r->dims,
                            r->row[0].us, r->device, r->n);
    return out->kernel != NULL;
}

bool tuned_choose(const TunedStore *store, const char *device, Session *s, InstanceOf of, const CompileOptions *opt, Choice *out) {
    const Asked q = {s, of, opt};
    Buf   key = {0}, bytes = {0};
    TuneResult r = {0};
    bool fine = !opt->unoptimised && (store || cache_any_measured()) && opt->target && key_of(&q, device, &key) &&
                find(store, &key, &bytes) && tune_parse(&bytes, &r) && again(&q, &r, out);
    tune_result_free(&r);
    buf_free(&key);
    buf_free(&bytes);
    return fine || kernel_choose(s, of, opt, out);
}

void tuned_keep(TunedStore **store, Session *s, InstanceOf of, const CompileOptions *opt, const TuneResult *r) {
    const Asked q = {s, of, opt};
    const char *const device[2] = {r->device, NULL};
    for (int i = 0; i < 2; i++) {
        Buf key = {0}, bytes = {0};
        if (!key_of(&q, device[i], &key)) { buf_free(&key); return; }
        tune_bytes(r, &bytes);
        cache_put(&key, &bytes);
        TunedStore *t = *store;
        while (t && (t->key.n != key.n || memcmp(t->key.p, key.p, key.n))) t = t->next;
        if (t) buf_free(&t->bytes), buf_free(&key);
        else {
            t = heap_alloc(sizeof *t);
            *t = (TunedStore){*store, key, {0}};
            *store = t;
        }
        t->bytes = bytes;
    }
}
