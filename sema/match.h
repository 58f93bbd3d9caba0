// Between call.c and match.c.
#ifndef TK_SEMA_MATCH_H
#define TK_SEMA_MATCH_H

#include "sema/internal.h"

typedef struct Match {
    Check      *c;
    const Node *fn;
    Scope      *sc;          // parameters and compile-time names, as they are found
    Span        call;
} Match;

bool        match_param(Match *m, int i, const Node *p, Arg *a);           // false: reported; *a is converted where it has to be
bool        match_class(const char *kind, Ent e, bool *known);             // `int`, `axis`, ..; *known: there is such a kind
bool        match_given(Match *m, const Node *generics);                   // `f<64, T = f32>`
bool        match_defaults(Match *m);                                      // of names that nothing has bound
const char *match_values_text(Match *m);                                   // "<BK = 64, T = f32>", or ""
bool        match_wants_tensor(const Node *fn, int i, Ent have);
void        match_help_view(Diag *d, const Node *fn);

#endif
