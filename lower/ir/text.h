// What the printer and the reader of tile IR share: the words of its text form.
#ifndef TK_LOWER_IR_TEXT_H
#define TK_LOWER_IR_TEXT_H

#include "lower/ir/ir.h"

typedef struct LOpText { const char *text; uint8_t prec, arity; } LOpText;   // prec 0: written as a call
typedef struct FlagWord { uint16_t flag; const char *word; } FlagWord;

extern const LOpText lop_text[];                        // by LOp; from L_ADD on
extern const int lop_count;
extern const FlagWord flag_words[9];
extern const char *const region_words[OP_T_COUNT];      // before the second region: else, do, and


#endif
