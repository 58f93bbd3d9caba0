// What the files of lang/ share among themselves: the session behind `Session *`.
//
// A session owns one arena, and everything a compilation reads or says lives there until
// session_free: texts and line tables, interned symbols, diagnostics.
#ifndef TK_LANG_INTERNAL_H
#define TK_LANG_INTERNAL_H

#include "lang/lang.h"

typedef struct SourceFile {
    Source    pub;               // first, so that a Source * is a SourceFile *
    uint32_t *line_starts;       // offsets in the text; NULL until someone asks for a line
    uint32_t  lines;
} SourceFile;

typedef struct SymTable {
    Sym     *slots;              // open addressing, NULL = free
    uint32_t count;
    uint32_t size;               // a power of two, 0 before the first symbol
} SymTable;

struct Session {
    Arena *arena;
    SymTable symbols;
    VEC(SourceFile *) sources;   // by base
    VEC(Diag *) diags;           // in the order they were found
    uint32_t printed;            // how many of them diag_print has already shown
    Pos next_base;               // of the next source
};

char *arena_vprintf(Arena *a, const char *fmt, va_list args);

#endif
