// The C library's own reading and printing, in the C locale: the calling thread is in it while it prints.
#ifdef __linux__
#define _GNU_SOURCE
#endif
#include "lang/c_text.h"

#include <locale.h>
#include <stdlib.h>

// Made once; where two threads make it, the C library gives both the same.
static locale_t c_locale(void) {
    static _Atomic(locale_t) made;
    locale_t l = made;
    if (!l) made = l = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return l;
}

double c_strtod(const char *text, char **end) { return strtod_l(text, end, c_locale()); }

int c_vsnprintf(char *to, size_t room, const char *fmt, va_list args) {
    locale_t was = uselocale(c_locale());
    int n = vsnprintf(to, room, fmt, args);
    uselocale(was);
    return n;
}

int c_vfprintf(FILE *to, const char *fmt, va_list args) {
    locale_t was = uselocale(c_locale());
    int n = vfprintf(to, fmt, args);
    uselocale(was);
    return n;
}

int c_snprintf(char *to, size_t room, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = c_vsnprintf(to, room, fmt, args);
    va_end(args);
    return n;
}

int c_fprintf(FILE *to, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int n = c_vfprintf(to, fmt, args);
    va_end(args);
    return n;
}

int c_strcasecmp(const char *a, const char *b) {
    while (*a && c_toupper(*a) == c_toupper(*b)) a++, b++;
    return c_toupper((unsigned char)*a) - c_toupper((unsigned char)*b);
}
