// Text of files in messages and reports. See shown.c.
#ifndef TK_SHOWN_H
#define TK_SHOWN_H

#include "lang/lang.h"

#include <stdio.h>

// SHOWN_TEXT: without control characters. SHOWN_REPORT: and with words no longer than anybody reads. SHOWN_SHORT: lines, too.
typedef enum Shown { SHOWN_TEXT, SHOWN_REPORT, SHOWN_SHORT } Shown;
void buf_shown(Buf *out, const char *text, size_t n, Shown how);
// A character that is shown as it is, of n bytes, and makes no other line.
bool char_plain(const char *p, size_t n);
uint32_t char_code(const char *p, size_t n);
// Within one line: a line feed and a tab are escaped, too.
void buf_line(Buf *out, const char *text);
// The same text where nothing is to be done, else a copy.
const char *arena_shown(Arena *a, const char *text);
// As fwrite and fprintf, SHOWN_SHORT.
void put_shown(FILE *to, const char *text, size_t n);
void buf_vprintf(Buf *b, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));
void print_shown(FILE *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
