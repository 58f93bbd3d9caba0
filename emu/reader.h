// The reader's own state, shared with the decoder only.
#ifndef TK_EMU_READER_H
#define TK_EMU_READER_H

#include "emu/internal.h"

typedef struct Fixup { uint32_t insn, scope, line; Str name; } Fixup;

typedef struct Reader {
    EmuModule  *module;
    const char *p, *end;
    uint32_t    line, nesting, depth, n_registers;
    uint32_t    scope, *parents, n_scopes, cap_scopes;     // parents[scope] encloses it
    Sym       **hash;
    Func       *func;                                      // NULL at module level
    uint32_t    frame;                                     // of the function, so far
    bool        outline;                                   // bodies are passed over
    Fixup      *fixups;
    uint32_t    n_fixups, cap_fixups;
    Sym       **tables;                                    // .branchtargets still to patch
    uint32_t    n_tables, cap_tables;
    SlotLog     slots;
    Dec         d;
} Reader;

typedef struct CallSite {
    Func    *func;                 // NULL: indirect, through the slot in a
    int      builtin;              // 0: none; see x_call.c
    uint32_t args[64], arg_sizes[64], n_args;              // local offsets
    uint32_t rets[8], ret_sizes[8], n_rets;
} CallSite;

enum { HASH_SIZE = 4096, MAX_RETS = 8 };
typedef struct Decl { Type type; uint32_t vec, align; uint64_t count; bool unsized; Str name; } Decl;

// reader.c
Decl reader_declaration(Reader *r);
Sym *reader_declare(Reader *r, Str name, SymKind kind, uint32_t scope);
Sym *reader_find_in(Reader *r, Str name, uint32_t scope, bool range);
uint32_t reader_place_local(Reader *r, Str name, uint64_t size, uint32_t align);
uint64_t reader_align_up(uint64_t x, uint64_t a);
uint64_t reader_decl_size(const Decl *d);
void reader_body(Reader *r);
void reader_close_scope(Reader *r);
void reader_declare_variable(Reader *r, uint8_t space, bool external);
void reader_file(Reader *r);
void reader_loc(Reader *r);
void reader_open_scope(Reader *r);
void reader_resolve_labels(Reader *r);
void reader_skip_section(Reader *r);
void reader_skip_to_semicolon(Reader *r);

// text.c
_Noreturn void text_fail(Reader *, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool     text_is_word(int c);
int      text_peek(Reader *);                         // the next character after space, 0 at the end
bool     text_accept(Reader *, char);
void     text_expect(Reader *, char);
Str      text_word(Reader *);                         // n 0: there is none
Str      text_need_word(Reader *, const char *what);
Str      text_dotted(Reader *);                       // what follows a dot
Str      text_directive(Reader *);                    // ".reg" without its dot
bool     text_next_directive_is(Reader *, const char *);
bool     text_accept_directive(Reader *, const char *);
Str      text_quoted(Reader *);
char    *text_copy(Reader *, Str);
enum { TEXT_NO_COMPARISON = 7 };
Operand  text_expression(Reader *, int least);        // an integer or a float constant
uint64_t text_integer(Reader *);
bool     text_same(Str, Str);
bool     text_special(Str, Operand *);                // %tid.x and its like
int      text_component(Str);                         // 0 of x or r ... 3 of w or a; -1: neither
bool     text_special_vector(Reader *, Str, Operand *);         // %tid: its four

Type     ptx_type_named(Str);
uint32_t reader_new_slot(Dec *, Type);
uint32_t reader_local(Dec *, uint32_t size);          // a variable without a name; FUNC_LOCAL + offset in a function
void     reader_place_shared(Dec *, Sym *);
void     decode_statement(Dec *);
void     decode_end(Dec *);                                // a ret where a body falls off its end

#endif
