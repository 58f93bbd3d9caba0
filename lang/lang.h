// lang: the nouns of the whole project, in reading order. Every other folder reads this first.
//
//   heap.c     memory by owner (heap.h)     arena.c   memory by lifetime
//   file.c     files (file.h)               text.c    strings, interned symbols, builders
//   source.c   files, spans, line:column    diag.c    errors: collect, sort, print (diag_rich.c draws them)
//   elem.c     element types                ast.c     walk and dump of the syntax tree (ast.h)
//   number.c   exact small floats (number.h)
#ifndef TK_LANG_LANG_H
#define TK_LANG_LANG_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "lang/dtypes.h"
#include "lang/heap.h"

// ---- arena.c -------------------------------------------------------------------------------------
// Chunked bump allocation; nothing is freed but by mark/reset or as a whole. Memory comes zeroed.

typedef struct Arena Arena;
typedef struct ArenaMark { void *chunk; size_t used; } ArenaMark;

Arena    *arena_new(void);
Arena    *arena_sized(size_t first);        // whose first chunk has so many bytes
void      arena_free(Arena *a);
void     *arena_alloc(Arena *a, size_t size);            // 16-byte aligned, zeroed; gives up without memory (heap.h)
ArenaMark arena_mark(Arena *a);
void      arena_reset(Arena *a, ArenaMark m);
size_t    arena_bytes(const Arena *a);                   // held from the system

#define NEW(arena, T)      ((T *)arena_alloc((arena), sizeof(T)))
#define NEW_N(arena, T, n) ((T *)arena_alloc((arena), sizeof(T) * (size_t)(n)))

// Growable arrays inside an arena: VEC(Op *) ops; vec_push(arena, &ops, op);
#define VEC(T) struct { T *at; uint32_t n, cap; }
#define vec_push(arena, v, x) \
    ((v)->n == (v)->cap ? vec_grow((arena), (void **)&(v)->at, &(v)->cap, sizeof *(v)->at) : (void)0, \
     (v)->at[(v)->n++] = (x))
void      vec_grow(Arena *a, void **at, uint32_t *cap, size_t elem_size);

// ---- text.c --------------------------------------------------------------------------------------

typedef struct Str { const char *p; size_t n; } Str;     // a slice, not terminated
// interned, compare by pointer, s is terminated
typedef const struct SymData { uint32_t n; uint32_t hash; char s[]; } *Sym;

typedef struct Buf { char *p; size_t n, cap; } Buf;      // heap string builder; p is always terminated

void  buf_free(Buf *b);
void  buf_add(Buf *b, const char *s, size_t n);
void  buf_puts(Buf *b, const char *s);
void  buf_putc(Buf *b, char c);
void  buf_string(Buf *b, const char *s);                   // as a string of the language
void  buf_int(Buf *b, int64_t n);                          // in decimal, a tenth of what buf_printf takes
void  buf_printf(Buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
char *arena_printf(Arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int   edit_distance(const char *a, const char *b);       // for "did you mean"
bool text_ends(const char *text, const char *end);    // "model.onnx" in ".onnx"
bool text_among(Str word, const char *words);            // which stand there with a space between them
size_t utf8_length(const char *p, const char *end);      // of a well-formed character, or 0

// ---- source.c ------------------------------------------------------------------------------------
// All files of a session share one offset space, so that a span is two numbers.

typedef uint32_t Pos;
typedef struct Span { Pos lo, hi; } Span;                // [lo, hi); lo == hi == 0: nowhere

typedef struct Source {
    const char *path;
    const char *text;                                    // terminated by a NUL that is not counted
    uint32_t    size;
    Pos         base;                                    // of its first byte
    bool        builtin;                                 // embedded standard library
} Source;

typedef struct LineCol { const Source *src; uint32_t line, col; Str text; } LineCol;   // 1-based; text = that line

typedef struct Session Session;

Session *session_new(void);
void     session_free(Session *s);
Arena   *session_arena(Session *s);
Sym      sym(Session *s, const char *text);
Sym      sym_n(Session *s, const char *text, size_t n);

Source  *source_add(Session *s, const char *path, const char *text, size_t n);   // copies
Source  *source_read(Session *s, const char *path, char **error);                // "-" is standard input; NULL + words
Source  *source_import(Session *s, const char *path, char **error);              // what a file names: a regular file alone
// "std/norm.tk" or "std/norm", of the embedded library; NULL if there is none
Source  *source_std(Session *s, const char *path);
const Source *source_at(const Session *s, int i);         // in the order in which they came; NULL past the last
LineCol  span_where(Session *s, Pos p);
Str      span_text(Session *s, Span sp);
static inline Span span_join(Span a, Span b) {
    return a.hi == 0 ? b : b.hi == 0 ? a : (Span){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
}

// ---- diag.c --------------------------------------------------------------------------------------
// User mistakes. diags.h has a row for each; collected, then sorted by place and printed once.
//     Diag *d = diag(s, E_axis_escape, span, name);       // arguments of the row's format
//     diag_label(d, other, "`%s` is made here", name);    // secondary spans
//     diag_note(d, "BK = %d (default)", bk);  diag_help(d, "write ..."); diag_fix(d, span, "replacement");

typedef enum Severity { SEV_error, SEV_warning, SEV_remark } Severity;
typedef enum DiagCode {
#define DIAG(code, severity, name, format) E_##name,
#include "lang/diags.h"
#undef DIAG
    DIAG_COUNT
} DiagCode;
typedef enum DiagStyle { DIAG_rich, DIAG_short, DIAG_json } DiagStyle;
typedef struct Diag Diag;

Diag *diag(Session *s, DiagCode code, Span at, ...);
void  diag_primary(Diag *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));   // words under the main span
void  diag_label(Diag *d, Span at, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void  diag_note(Diag *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void  diag_help(Diag *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void  diag_fix(Diag *d, Span at, const char *replacement);
int   diag_errors(const Session *s);                       // so far
int   diag_count(const Session *s);                        // of all severities
void  diag_forget(Session *s, int from);                   // drops those after the first `from` (speculative checks)
int   diag_print(Session *s, FILE *to, DiagStyle style, bool color);
int   diag_write(Session *s, Buf *to, DiagStyle style, bool color);     // how many errors it showed, or counted
const char *diag_explain(const char *code);                // docs text for "E0213", or NULL; from docs/errors.md, embedded

// our own bug
_Noreturn void ice_at(const char *file, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
// What is being done, for that message, until the next call: "%s", "" for nothing.
void ice_while(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
#define ice(...) ice_at(__FILE__, __LINE__, __VA_ARGS__)

// ---- elem.c --------------------------------------------------------------------------------------

typedef enum Elem {
    EL_none,
#define X(name, bits, cls, meaning) EL_##name,
    ELEMS(X)
#undef X
    EL_COUNT
} Elem;
typedef enum ElemClass { EC_NONE, EC_BOOL, EC_INT, EC_UINT, EC_STORAGE, EC_FLOAT } ElemClass;
typedef struct ElemInfo { const char *name; uint8_t bits; uint8_t cls; const char *meaning; } ElemInfo;
extern const ElemInfo elem_info[EL_COUNT];

Elem        elem_by_name(Str name);                        // EL_none if there is none
static inline const char *elem_name(Elem e) { return elem_info[e].name; }
static inline int  elem_bits(Elem e)      { return elem_info[e].bits; }
static inline int  elem_bytes(Elem e)     { return elem_info[e].bits / 8; }
static inline bool elem_is_float(Elem e)  { return elem_info[e].cls >= EC_STORAGE; }          // storage floats too
static inline bool elem_is_storage(Elem e){ return elem_info[e].cls == EC_STORAGE; }
static inline bool elem_is_int(Elem e)    { return elem_info[e].cls == EC_INT || elem_info[e].cls == EC_UINT; }
static inline bool elem_is_signed(Elem e) { return elem_info[e].cls == EC_INT; }

#endif
