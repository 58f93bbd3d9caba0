// Files opened for reading, and files written whole or not at all. See file.c.
#ifndef TK_FILE_H
#define TK_FILE_H

#include <stdbool.h>
#include <stddef.h>

// FILE_PLAIN: a regular file. FILE_OWN: besides, no link, of this user, and nobody else may write it.
typedef enum FileWants { FILE_PLAIN, FILE_OWN } FileWants;
// Its descriptor and size; -1: `why` has the words, without the path. Never waits for a pipe. Held until file_close.
int  file_open(const char *path, FileWants wants, size_t *size, const char **why);
int  file_open_any(const char *path, const char **why);    // the same of a pipe or a device, too; no folder
void file_hold(int fd);                                    // any descriptor is, from here on
void file_close(int fd);                                   // -1 is fine
// A regular file, mapped to be read; NULL where it is empty. Held until file_unmap_plain.
bool file_map_plain(const char *path, const void **bytes, size_t *n, const char **why);
void file_unmap_plain(const void *bytes, size_t n);        // NULL is fine
// Any mapping of these bytes is held, from here on; file_unmap_plain is for those, too.
void file_hold_map(const void *bytes, size_t n);
char *file_real(const char *path);                         // realpath, for heap_free; NULL: errno
// The names in a folder but . and .., sorted by `order` (strcmp, strverscmp); NULL: errno. One block, ended by a NULL.
char **file_names(const char *path, int (*order)(const char *a, const char *b));

typedef struct FilePart { const void *bytes; size_t n; } FilePart;
// `path` is these parts, one after the other; false: it is what it was, and errno says why. Links are followed, modes kept.
bool file_replace(const char *path, const FilePart *part, int nparts);
// All n bytes, however many calls that takes; false: not all of them.
bool file_put(int fd, const void *from, size_t n);
bool file_get(int fd, void *to, size_t n);

#endif
