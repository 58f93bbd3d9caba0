// The reader's own state, shared with the decoder only.
#ifndef TK_EMU_READER_H
#define TK_EMU_READER_H

#include "emu/internal.h"

typedef struct Fixup { uint32_t insn, scope, line; Str name; } Fixup;

typedef struct Reader {
    EmuModule  *module;
    const char *p, *end;
    uint32_t    line, nesting, depth;
    uint32_t    scope, *parents, n_scopes, cap_scopes;     // parents[scope] encloses it
    Sym       **hash;
    Func       *func;                                      // NULL at module level
    Fixup      *fixups;
    uint32_t    n_fixups, cap_fixups;
    Sym       **tables;                                    // .branchtargets still to patch
    uint32_t    n_tables, cap_tables;
    Dec         d;
} Reader;

typedef struct CallSite {
    Func    *func;                 // NULL: indirect, through the slot in a
    int      builtin;              // 0: none; see x_control.c
    uint32_t args[64], arg_sizes[64], n_args;              // local offsets
    uint32_t rets[8], ret_sizes[8], n_rets;
} CallSite;

Type     ptx_type_named(Str);
uint32_t reader_new_slot(Dec *, Type);
void     reader_place_shared(Dec *, Sym *);
void     decode_statement(Dec *);
void     decode_end(Dec *);                                // a ret where a body falls off its end

#endif
