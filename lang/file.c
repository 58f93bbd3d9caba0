// Files written whole or not at all: into a file beside the one that is meant, which takes its name when every byte is
// there. Until then it is noted (temporary.h), so that a signal leaves nothing half-written behind. What is no plain file
// (a device, a pipe) has no other beside it and is written as it is.
#include "lang/file.h"

#include "lang/lang.h"
#include "lang/temporary.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
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

// What a new file may be read by: mkstemp's 0600 is meant for secrets.
static mode_t usual_mode(void) {
    mode_t mask = umask(0);
    umask(mask);
    return 0666 & ~mask;
}

bool file_replace(const char *path, const FilePart *part, int nparts) {
    struct stat there;
    bool special = stat(path, &there) == 0 && !S_ISREG(there.st_mode);
    Buf  beside = {0};
    buf_printf(&beside, special ? "%s" : "%s.XXXXXX", path);
    int  fd = special ? open(path, O_WRONLY) : mkstemp(beside.p);
    int  note = fd >= 0 && !special ? temporary_note(beside.p) : -1;
    bool ok = fd >= 0;
    for (int i = 0; ok && i < nparts; i++) ok = file_put(fd, part[i].bytes, part[i].n);
    ok = ok && (special || fchmod(fd, usual_mode()) == 0);
    int  error = errno;
    if (fd >= 0 && close(fd) != 0 && ok) ok = false, error = errno;
    if (ok && !special && rename(beside.p, path) != 0) ok = false, error = errno;
    if (!ok && fd >= 0 && !special) unlink(beside.p);
    temporary_forget(note);
    buf_free(&beside);
    errno = error;
    return ok;
}
