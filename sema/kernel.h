// Between kernel.c and kernel_names.c: the names of a head, in the order in which they are dealt with.
#ifndef TK_SEMA_KERNEL_H
#define TK_SEMA_KERNEL_H

#include "sema/internal.h"

void head_collect_dims(Check *c, const Node *kernel, bool *solved);        // which there are; solved: a tensor has it alone
int  head_dim(const Check *c, Sym name);                                   // its number, or -1
const char *item_word(const Node *item);                                   // `kernel` or `graph`, for messages
bool head_equation(const Node *w);                                         // `NAME = ...` of `where`, one sign
void head_unit_dims(Check *c, const Node *kernel);                         // known to be 1, where strides do not tell
void head_odd_dims(Check *c);                                              // rows that 16 bytes are known not to divide
void head_check_set(Check *c, const Node *kernel);                         // what is set must be among the names
void head_generics(Check *c, const Node *kernel, bool *solved);            // `<>` names are bound
void head_bind_dims(Check *c, const Node *kernel);                         // dimensions are, as numbers where they must be
void head_lengths(Check *c);                                               // up to which length an instance is for

#endif
