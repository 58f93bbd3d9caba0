// parser: text to syntax tree. parse_file and tokens_print are declared with the tree, in lang/ast.h.
//
// Needs nothing but a session. Leaves a file node that holds every item it could make sense of, and
// the errors in the session; a statement that could not be read is an error_stmt.
#ifndef TK_PARSER_PARSER_H
#define TK_PARSER_PARSER_H

#include "lang/ast.h"

// Advice for a name that other languages have and this one spells differently ("float32", "def",
// "threadIdx", "tl"), or NULL. For whoever reports an unknown name.
const char *foreign_spelling(Str name, const char **instead);

#endif
