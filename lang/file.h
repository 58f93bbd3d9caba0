// Files written whole or not at all. See file.c.
#ifndef TK_FILE_H
#define TK_FILE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct FilePart { const void *bytes; size_t n; } FilePart;
// `path` is these parts, one after the other; false: it is what it was, and errno says why.
bool file_replace(const char *path, const FilePart *part, int nparts);
// All n bytes, however many calls that takes; false: not all of them.
bool file_put(int fd, const void *from, size_t n);
bool file_get(int fd, void *to, size_t n);

#endif
