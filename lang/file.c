// Files: opened for reading with what they are checked, and written whole or not at all.
//
//     file_replace   PATH -> its target, through symbolic links -> TARGET.XXXXXX beside it, with TARGET's mode -> renamed
//     file_open      PATH -> a descriptor of a regular file, or why there is none
//
// A result is written into a file beside the one that is meant, which takes its name when every byte is there. Until then it
// is noted (temporary.h), so that a signal leaves nothing half-written behind. The new file keeps the mode of the old one, and
// where it may its owner; a symbolic link stays a link, and a file that the user may not write stays as it is. What is no
// regular file (a device, a pipe) has no other beside it and is written in place; so is what a descriptor of this process
// stands for (/dev/stdout, /dev/fd/3): another file under that name would not be what the descriptor is open on.
#define _GNU_SOURCE                                      // AT_EACCESS
#include "lang/file.h"

#include "lang/lang.h"
#include "lang/temporary.h"

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
    return fd;
}

bool file_map_plain(const char *path, const void **bytes, size_t *n, const char **why) {
    int fd = file_open(path, FILE_PLAIN, n, why);
    *bytes = NULL;
    if (fd < 0) return false;
    void *p = *n ? mmap(NULL, *n, PROT_READ, MAP_PRIVATE, fd, 0) : NULL;
    if (p == MAP_FAILED) *why = strerror(errno);
    else *bytes = p;
    close(fd);
    return p != MAP_FAILED;
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
    char *whole = realpath(head.p, NULL);
    buf_free(&head);
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
        free(folder);
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

// Into a file beside `path`, which is no link, and renamed. `old`: what is there, or NULL.
static bool replace(const char *path, const struct stat *old, const FilePart *part, int nparts) {
    Buf beside = {0};
    buf_printf(&beside, "%s.XXXXXX", path);
    sigset_t was = temporary_hold();
    int  fd = mkstemp(beside.p), error = errno;
    int  note = fd >= 0 ? temporary_note(beside.p) : -1;
    temporary_release(was);
    errno = error;
    bool ok = put_all(fd, part, nparts) && take_mode(fd, old);
    ok = close_after(fd, ok) && rename(beside.p, path) == 0;
    error = errno;
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
