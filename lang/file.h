// Files opened for reading, and files written whole or not at all. See file.c.
#ifndef TK_FILE_H
#define TK_FILE_H

#include <stdbool.h>
#include <stddef.h>

// FILE_PLAIN: a regular file. FILE_OWN: besides, no link, of this user, and nobody else may write it.
typedef enum FileWants { FILE_PLAIN, FILE_OWN } FileWants;
// Its descriptor and size; -1: `why` has the words, without the path. Never waits for a pipe.
int  file_open(const char *path, FileWants wants, size_t *size, const char **why);
// A regular file, mapped to be read; for munmap, but where it is empty and so NULL.
bool file_map_plain(const char *path, const void **bytes, size_t *n, const char **why);

typedef struct FilePart { const void *bytes; size_t n; } FilePart;
// `path` is these parts, one after the other; false: it is what it was, and errno says why. Links are followed, modes kept.
bool file_replace(const char *path, const FilePart *part, int nparts);
// All n bytes, however many calls that takes; false: not all of them.
bool file_put(int fd, const void *from, size_t n);
bool file_get(int fd, void *to, size_t n);

#endif
