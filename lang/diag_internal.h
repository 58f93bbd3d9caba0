// What diag.c collects and diag_rich.c draws.
#ifndef TK_LANG_DIAG_INTERNAL_H
#define TK_LANG_DIAG_INTERNAL_H

#include "lang/internal.h"

typedef struct Label { Span at; const char *text; } Label;

typedef struct Extra {
    bool        help;            // or a note
    const char *text;
    bool        has_fix;
    Span        fix_at;
    const char *fix;             // replacement text
} Extra;

struct Diag {
    Session    *session;
    DiagCode    code;
    Span        at;
    const char *message;
    const char *primary;         // words under the main span, or NULL
    VEC(Label)  labels;
    VEC(Extra)  extras;
};

typedef struct DiagInfo { const char *code, *name; Severity severity; const char *format; } DiagInfo;
extern const DiagInfo diag_info[DIAG_COUNT];
extern const char *const severity_names[];

void diag_draw(const Diag *d, Buf *out, bool color);

#endif
