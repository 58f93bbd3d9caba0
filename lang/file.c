// Files: opened for reading with what they are checked, and written whole or not at all.
//
//     file_replace   PATH -> its target, through symbolic links -> TARGET.XXXXXX beside it, with TARGET's mode -> renamed
//     file_open      PATH -> a descriptor of a regular file, or why there is none
//     file_names     PATH -> what is in a folder, in order
//
// Descriptors and mappings are held by the thread's heap (heap.h), so that they end also when memory runs out.
//
// A result is written into a file beside the one that is meant, which takes its name when every byte is there. Until then it
// is noted (temporary.h), so that a signal leaves nothing half-written behind. The bytes are on the disk (fsync) before it does: a
// machine that stops then has the old file or the new one, and no empty one of the name. The new file keeps the mode of the old one, and
// where it may its owner; a symbolic link stays a link, and a file that the user may not write stays as it is. What is no
// regular file (a device, a pipe) has no other beside it and is written in place; so is what a descriptor of this process
// stands for (/dev/stdout, /dev/fd/3): another file under that name would not be what the descriptor is open on.
#define _GNU_SOURCE                                      // AT_EACCESS
#include "lang/file.h"

#include "lang/lang.h"
#include "lang/temporary.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_put(int fd, const void *from, size_t n) {
    for (const char *p = from; n;) {
        ssize_t put = write(fd, p, n);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return false;
        p += put;
        n -= (size_t)put;
    }
    return true;
}

bool file_get(int fd, void *to, size_t n) {
    for (char *p = to; n;) {
        ssize_t got = read(fd, p, n);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return false;
        p += got;
        n -= (size_t)got;
    }
    return true;
}

// ---- reading -------------------------------------------------------------------------------------

static const char *kind_of(mode_t mode) {
    return S_ISDIR(mode)    ? "Is a directory"
           : S_ISFIFO(mode) ? "is a pipe, not a regular file"
           : S_ISSOCK(mode) ? "is a socket, not a regular file"
                            : "is a device, not a regular file";
}

static void end_fd(void *of, uint64_t fd) { (void)of; close((int)fd); }
static void end_map(void *p, uint64_t n)  { munmap(p, n); }

void file_hold(int fd) { heap_hold(end_fd, NULL, (uint64_t)fd); }

void file_close(int fd) {
    int error = errno;
    if (fd < 0) return;
    heap_let_go(end_fd, NULL, (uint64_t)fd);
    close(fd);
    errno = error;
}

void file_hold_map(const void *bytes, size_t n) { heap_hold(end_map, (void *)(uintptr_t)bytes, n); }

void file_unmap_plain(const void *bytes, size_t n) {
    if (bytes == NULL) return;
    heap_let_go(end_map, (void *)(uintptr_t)bytes, n);
    munmap((void *)(uintptr_t)bytes, n);
}

int file_open(const char *path, FileWants wants, size_t *size, const char **why) {
    // O_NONBLOCK: a pipe without a writer is looked at, not waited for
    int flags = O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | (wants == FILE_OWN ? O_NOFOLLOW : 0);
    struct stat st;
    int fd = open(path, flags);
    *why = NULL;
    if (fd < 0 || fstat(fd, &st) != 0) {
        int error = errno;
        if (fd >= 0) close(fd);
        errno = error;
        *why = strerror(error);
        return -1;
    }
    if (!S_ISREG(st.st_mode)) *why = kind_of(st.st_mode);
    else if (wants == FILE_OWN && (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))) *why = "belongs to another user, or others may write it";
    if (*why) {
        close(fd);
        errno = S_ISDIR(st.st_mode) ? EISDIR : EPERM;
        return -1;
    }
    *size = (size_t)st.st_size;
    file_hold(fd);
    return fd;
}

int file_open_any(const char *path, const char **why) {
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC), error = errno;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISDIR(st.st_mode)) {
        close(fd);
        fd = -1;
        error = EISDIR;
    }
    errno = error;
    *why = fd < 0 ? strerror(error) : NULL;
    if (fd >= 0) file_hold(fd);
    return fd;
}

bool file_map_plain(const char *path, const void **bytes, size_t *n, const char **why) {
    int fd = file_open(path, FILE_PLAIN, n, why);
    *bytes = NULL;
    if (fd < 0) return false;
    void *p = *n ? mmap(NULL, *n, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    if (p == MAP_FAILED) *why = strerror(errno);
    else *bytes = p;
    file_close(fd);
    if (*bytes) file_hold_map(p, *n);
    return p != MAP_FAILED;
}

char *file_real(const char *path) {
    char whole[PATH_MAX];
    if (realpath(path, whole) == NULL) return NULL;
    return memcpy(heap_room(strlen(whole) + 1), whole, strlen(whole) + 1);
}

static void end_folder(void *d, uint64_t none) { (void)none; closedir(d); }

static _Thread_local int (*order_of_sort)(const char *, const char *);     // of the sort that runs: qsort takes no context
static int compare_names(const void *a, const void *b) { return order_of_sort(*(char *const *)a, *(char *const *)b); }

char **file_names(const char *path, int (*order)(const char *a, const char *b)) {
    DIR *d = opendir(path);
    Buf  text = {0};
    size_t n = 0;
    if (d == NULL) return NULL;
    heap_hold(end_folder, d, 0);
    errno = 0;
    for (const struct dirent *e; (e = readdir(d)) != NULL; errno = 0) {
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
        buf_add(&text, e->d_name, strlen(e->d_name) + 1);
        n++;
    }
    int error = errno;
    heap_let_go(end_folder, d, 0);
    closedir(d);
    char **names = error ? NULL : heap_room((n + 1) * sizeof *names + text.n), *at = names ? (char *)(names + n + 1) : NULL;
    if (names && n) memcpy(at, text.p, text.n);
    for (size_t i = 0; names && i < n; i++, at += strlen(at) + 1) names[i] = at;
    if (names) names[n] = NULL;
    order_of_sort = order;
    if (names && n) qsort(names, n, sizeof *names, compare_names);
    buf_free(&text);
    errno = error;
    return names;
}

// ---- writing -------------------------------------------------------------------------------------

// What a new file may be read by: mkstemp's 0600 is meant for secrets.
static mode_t usual_mode(void) {
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

// The folder of `path`, without links, and the name in it.
static char *folder_of(const char *path, const char **name) {
    const char *slash = strrchr(path, '/');
    Buf head = {0};
    *name = slash ? slash + 1 : path;
    buf_add(&head, slash ? path : ".", slash == NULL || slash == path ? 1 : (size_t)(slash - path));
    char *whole = file_real(head.p);
    int error = errno;
    buf_free(&head);
    errno = error;
    return whole;
}

// "/proc/123/fd" with "1" in it: the number of a descriptor of this process; else -1.
static int own_descriptor(const char *folder, const char *name) {
    char own[64], *end;
    snprintf(own, sizeof own, "/proc/%ld/", (long)getpid());
    size_t n = strlen(folder);
    if (strncmp(folder, own, strlen(own)) != 0 || n < 3 || strcmp(folder + n - 3, "/fd") != 0) return -1;
    long fd = strtol(name, &end, 10);
    return end != name && *end == '\0' && fd >= 0 && fd <= INT_MAX ? (int)fd : -1;
}

enum { MOST_LINKS = 40 };                                 // as the kernel's own limit

// Where `path` leads through symbolic links, also to a file that is not there yet. False: errno. fd: of this process, or -1.
static bool target_of(const char *path, Buf *to, int *fd) {
    *fd = -1;
    buf_puts(to, path);
    for (int links = 0; links <= MOST_LINKS; links++) {
        struct stat st;
        char next[PATH_MAX];
        if (lstat(to->p, &st) != 0 || !S_ISLNK(st.st_mode)) return true;
        const char *name;
        char *folder = folder_of(to->p, &name);
        if (folder == NULL) return false;
        *fd = own_descriptor(folder, name);
        ssize_t n = *fd >= 0 ? 0 : readlink(to->p, next, sizeof next - 1);
        Buf joined = {0};
        if (n > 0 && next[0] != '/') buf_printf(&joined, "%s/", folder);
        if (n > 0) buf_add(&joined, next, (size_t)n);
        int error = errno;
        heap_free(folder);
        errno = error;
        if (n <= 0) return buf_free(&joined), *fd >= 0;
        buf_free(to);
        *to = joined;
    }
    errno = ELOOP;
    return false;
}

static bool put_all(int fd, const FilePart *part, int nparts) {
    bool ok = fd >= 0;
    for (int i = 0; ok && i < nparts; i++) ok = file_put(fd, part[i].bytes, part[i].n);
    return ok;
}

static bool close_after(int fd, bool ok) {
    int error = errno;
    if (fd >= 0 && close(fd) != 0 && ok) return false;
    errno = error;
    return ok;
}

// The mode of the file that is replaced, and its owner and group as far as that is allowed.
static bool take_mode(int fd, const struct stat *old) {
    if (old == NULL) return fchmod(fd, usual_mode()) == 0;
    if (old->st_uid != geteuid() || old->st_gid != getegid()) {
        int refused = fchown(fd, old->st_uid, old->st_gid);           // mostly: then it is ours, as any new file is
        (void)refused;
    }
    return fchmod(fd, old->st_mode & 0777) == 0;
}

// On the disk; what has no such thing (a file system of memory, of a server) is as good as there.
static bool sync_to_disk(int fd) { return fsync(fd) == 0 || errno == EINVAL || errno == ENOSYS || errno == ENOTSUP; }

// The name, too. What is there is whole in any case, so that this one may fail.
static void sync_folder(const char *path) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    size_t n = slash == NULL ? 1 : slash == path ? 1 : (size_t)(slash - path);
    if (n >= sizeof folder) return;
    memcpy(folder, slash == NULL ? "." : path, n);
    folder[n] = '\0';
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC), error = errno;
    if (fd >= 0) {
        (void)!fsync(fd);
        close(fd);
    }
    errno = error;
}

// Into a file beside `path`, which is no link, and renamed. `old`: what is there, or NULL.
static bool replace(const char *path, const struct stat *old, const FilePart *part, int nparts) {
    Buf beside = {0};
    buf_printf(&beside, "%s.XXXXXX", path);
    sigset_t was = temporary_hold();
    int  fd = mkstemp(beside.p), error = errno;
    int  note = fd >= 0 ? temporary_note(beside.p) : -1;
    temporary_release(was);
    errno = error;
    bool ok = put_all(fd, part, nparts) && take_mode(fd, old) && sync_to_disk(fd);
    ok = close_after(fd, ok) && rename(beside.p, path) == 0;
    error = errno;
    if (ok) sync_folder(path);
    if (!ok && fd >= 0) unlink(beside.p);
    temporary_forget(note);
    buf_free(&beside);
    errno = error;
    return ok;
}

bool file_replace(const char *path, const FilePart *part, int nparts) {
    struct stat there;
    Buf  target = {0};
    int  own;
    bool ok = target_of(path, &target, &own), old = ok && own < 0 && stat(target.p, &there) == 0;
    if (ok && own >= 0) {
        int fd = fcntl(own, F_DUPFD_CLOEXEC, 0);
        ok = close_after(fd, put_all(fd, part, nparts));
    } else if (ok && old && !S_ISREG(there.st_mode)) {
        int fd = open(target.p, O_WRONLY | O_CLOEXEC | O_NOCTTY);
        ok = close_after(fd, put_all(fd, part, nparts));
    } else if (ok) {
        ok = (!old || faccessat(AT_FDCWD, target.p, W_OK, AT_EACCESS) == 0) && replace(target.p, old ? &there : NULL, part, nparts);
    }
    int error = errno;
    buf_free(&target);
    errno = error;
    return ok;
}
