// Between builtin.c and the files of handlers beside it.
#ifndef TK_SEMA_BUILTIN_H
#define TK_SEMA_BUILTIN_H

#include "sema/internal.h"

typedef struct Call {               // of a builtin
    const Builtin *b;
    const Node *node;               // NULL when called as a function value
    const Arg  *args; int n;
    Span        at;
} Call;

const char *call_name(const Call *k);                                      // of its row
int         call_code(const Call *k);
const Node *over_list(const Call *k);                                      // NULL, or the axes after `over`
int         over_axes(Check *c, const Call *k, TType t, TAxis **axes);     // how many; each is in t, once; -1: reported
const Arg  *named_arg(const Call *k, const char *name);                    // NULL: not given

bool        flag_arg(Check *c, const Call *k, const char *name, int64_t bit, int64_t *flags);      // `name = true`; false: reported

int         positional_args(const Call *k);                                // how many arguments have no name

// ---- builtin_dot.c
Ent do_dot(Check *c, const Call *k);

// ---- builtin_tile.c
Ent do_zeros(Check *c, const Call *k);
Ent do_full(Check *c, const Call *k);
Ent do_where(Check *c, const Call *k);
Ent do_bitcast(Check *c, const Call *k);
Ent do_rename(Check *c, const Call *k);

// ---- builtin_along.c
Ent do_scan(Check *c, const Call *k);
Ent do_sort(Check *c, const Call *k);
Ent do_take(Check *c, const Call *k);

// ---- builtin_joined.c
Ent do_joined(Check *c, const Call *k);

// ---- builtin_memory.c
Ent do_load(Check *c, const Call *k);
Ent do_store(Check *c, const Call *k);
Ent do_atomic(Check *c, const Call *k);

#endif
