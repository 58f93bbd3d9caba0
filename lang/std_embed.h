// The standard library, lang/std/*.tk, as it is embedded in the binary (std_embed.cmake).
#ifndef TK_LANG_STD_EMBED_H
#define TK_LANG_STD_EMBED_H

#include <stddef.h>

const char *std_source(const char *name, size_t *size);      // "prelude.tk"; NULL if there is none
const char *std_name(int i);                                 // in alphabetical order; NULL past the last
const char *std_nearest(const char *name);                   // that this may have been meant for; NULL

#endif
