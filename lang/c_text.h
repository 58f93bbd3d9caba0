// Numbers and letters of text as the C locale has them, whatever locale the host program is in.
//
// A program that calls setlocale(LC_ALL, "de_DE") reads 0.5 as 0 and writes it as 0,5, and in tr_TR the small letter of I is
// none of ASCII. Sources, PTX, models' attributes and reports know no locale, so nothing here asks it: what prints a floating
// number, reads one, or classes a letter is called by these names. tests/tree/locale.c holds the tree to that, and
// tests/locale runs the library's tests in such locales.
#ifndef TK_LANG_C_TEXT_H
#define TK_LANG_C_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

double c_strtod(const char *text, char **end);
int    c_vsnprintf(char *to, size_t room, const char *fmt, va_list args) __attribute__((format(printf, 3, 0)));
int    c_vfprintf(FILE *to, const char *fmt, va_list args) __attribute__((format(printf, 2, 0)));
int    c_snprintf(char *to, size_t room, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int    c_fprintf(FILE *to, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int    c_strcasecmp(const char *a, const char *b);

// Of ASCII alone: a byte of another character, or EOF, is none of them.
static inline bool c_isdigit(int c) { return c >= '0' && c <= '9'; }
static inline bool c_isalpha(int c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static inline bool c_isalnum(int c) { return c_isalpha(c) || c_isdigit(c); }
static inline bool c_isxdigit(int c) { return c_isdigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
static inline bool c_isspace(int c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static inline bool c_isprint(int c) { return c >= ' ' && c <= '~'; }
static inline int  c_toupper(int c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; }

#endif
