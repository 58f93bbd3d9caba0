// The table of limits, and the environment variable that changes them.
//
//     TKC_LIMITS=instructions=1m,tile-ops=100000 tkc big.tk
//
// A valid program of a few lines can ask for more code, memory or time than any machine has: functions that call each
// other twice, tiles of millions of elements, files without end. Whoever makes such a thing asks here first how much it
// may be, estimates what it is about to make, and refuses by a message at the place, with the number, the limit, and
// where it can be told the largest that works.
//
// Defaults are far above what examples, library and tests have, and so that what they let through compiles in ten
// seconds (scripts/compile-times.py measures it). TKC_LIMITS is read once, when the first limit is asked for.
#include "lang/limits.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

const Limit limit_table[LIMIT_COUNT] = {
#define X(id, name, usual, most, unit, meaning) {name, usual, most, unit, meaning},
    LIMITS(X)
#undef X
};

static int64_t current[LIMIT_COUNT];
static char    complaint[512];                          // said of TKC_LIMITS
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int find(const char *name, size_t n) {
    for (int i = 0; i < LIMIT_COUNT; i++)
        if (strlen(limit_table[i].name) == n && memcmp(limit_table[i].name, name, n) == 0) return i;
    return -1;
}

static const char *nearest_name(const char *name) {
    const char *best = NULL;
    int least = 4;
    for (int i = 0; i < LIMIT_COUNT; i++) {
        int far = edit_distance(name, limit_table[i].name);
        if (far < least) least = far, best = limit_table[i].name;
    }
    return best;
}

// A number, and k, m or g behind it. -1: none.
static int64_t number(const char *p, const char *end) {
    int64_t v = 0;
    const char *from = p;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *p - '0', &v)) return -1;
    int shift = p == end ? 0 : *p == 'k' ? 10 : *p == 'm' ? 20 : *p == 'g' ? 30 : -1;
    bool whole = p > from && shift >= 0 && p + (shift > 0) == end;
    return whole && v <= INT64_MAX >> shift ? v << shift : -1;
}

static bool one(const char *p, const char *end, int64_t *to, Buf *err) {
    const char *eq = memchr(p, '=', (size_t)(end - p));
    int at = eq ? find(p, (size_t)(eq - p)) : -1;
    if (at < 0) {
        Buf name = {0};
        buf_add(&name, p, (size_t)((eq ? eq : end) - p));
        const char *meant = nearest_name(name.p ? name.p : "");
        buf_printf(err, "there is no limit `%.60s`", name.p ? name.p : "");
        if (meant) buf_printf(err, "; did you mean `%s`?", meant);
        else buf_puts(err, ": `tkc help --markdown` lists them");
        buf_free(&name);
        return false;
    }
    int64_t v = number(eq + 1, end);
    const Limit *l = &limit_table[at];
    if (v >= 1 && v <= l->most) { to[at] = v; return true; }
    buf_printf(err, "the limit %s is a number of %s from 1 to %lld, not `%.*s`", l->name, l->unit, (long long)l->most,
               (int)(end - eq - 1 < 60 ? end - eq - 1 : 60), eq + 1);
    return false;
}

bool limits_parse(const char *text, int64_t to[LIMIT_COUNT], Buf *err) {
    for (int i = 0; i < LIMIT_COUNT; i++) to[i] = limit_table[i].usual;
    for (const char *p = text; p && *p;) {
        const char *comma = strchr(p, ','), *end = comma ? comma : p + strlen(p);
        if (end > p && !one(p, end, to, err)) return false;
        p = comma ? comma + 1 : end;
    }
    return true;
}

static void read_now(void *none) {
    Buf err = {0};
    (void)none;
    if (!limits_parse(getenv("TKC_LIMITS"), current, &err)) {
        limits_parse(NULL, current, NULL);
        snprintf(complaint, sizeof complaint, "%s", err.p);
    }
    buf_free(&err);
}

// It is for all threads and whoever asks first: nothing of it is the asker's, and nothing gives up through pthread_once.
static void read_environment(void) {
    Heap own = {0};
    if (!heap_run(&own, read_now, NULL)) {
        limits_parse(NULL, current, NULL);
        snprintf(complaint, sizeof complaint, "out of memory");
    }
    heap_drop(&own);
}

int64_t limit_of(LimitId id) {
    pthread_once(&once, read_environment);
    return current[id];
}

const char *limits_wrong(void) {
    pthread_once(&once, read_environment);
    return *complaint ? complaint : NULL;
}

static int64_t enough(LimitId id, int64_t wanted) {            // a little more, in two digits
    int64_t unit = 1;
    while (wanted / unit >= 100) unit *= 10;
    int64_t v = (wanted / unit + 1) * unit, most = limit_table[id].most;
    return wanted < 100 ? wanted : v < most ? v : most;
}

void limit_words(LimitId id, int64_t wanted, Buf *out) {
    const Limit *l = &limit_table[id];
    buf_printf(out, "%lld %s, more than the limit %s allows (%lld", (long long)wanted, l->unit, l->name, (long long)limit_of(id));
    if (wanted <= l->most) buf_printf(out, "; TKC_LIMITS=%s=%lld raises it", l->name, (long long)enough(id, wanted));
    buf_putc(out, ')');
}

void limit_help(Diag *d, LimitId id, int64_t wanted) {
    const Limit *l = &limit_table[id];
    if (wanted > l->most) diag_note(d, "the limit %s can be raised to %lld", l->name, (long long)l->most);
    else diag_note(d, "TKC_LIMITS=%s=%lld raises this limit", l->name, (long long)enough(id, wanted));
}
