// The cache's files (cache.h).
//
//     3f9a..c2.art              [magic, sizes, checksum][key][bytes]
//     measured/81b0..07.art     the same, of what `tkc tune` found
//
// The name is a hash of the key; the key itself stands in the file and is compared, so that two keys with one hash only
// displace each other. Files appear whole: they are written under another name and renamed. Each hit sets the file's time,
// by which the bound removes the oldest. Processes need no lock: a file that another one removes while it is read stays
// readable, and whoever writes the same key writes the same bytes.
//
// An entry is code that will run, so the folder has to be the user's own, and nobody else may write it: else there is no cache
// (cache_refused). It is opened once and looked at by its descriptor, and entries are opened in it: regular files of the
// user's, no links, no pipes. So nothing that another user puts there, before or meanwhile, is taken or waited for.
#define _GNU_SOURCE                                      // O_PATH

#include "lang/c_text.h"
#include "runtime/cache.h"

#include "lang/file.h"
#include "runtime/internal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { DEFAULT_MIB = 256, STALE_SECONDS = 3600 };
#define ENDING ".art"
#define UNFINISHED "writing-"
#define MEASURED "measured"

typedef struct Head { char magic[8]; uint64_t key, bytes, checksum; } Head;
static const char magic[8] = "tkcart2";

static uint64_t mixed(uint64_t h, uint64_t word) {
    h = (h ^ word) * UINT64_C(0xff51afd7ed558ccd);
    return h ^ h >> 32;
}

// Keys hold the sources: a model's kernels have some megabytes of them. Four words at a time.
static uint64_t hash(uint64_t h, const char *p, size_t n) {
    enum { LANES = 4 };
    uint64_t lane[LANES], word[LANES];
    for (uint64_t i = 0; i < LANES; i++) lane[i] = mixed(h, i + 1);
    for (; n >= sizeof word; p += sizeof word, n -= sizeof word) {
        memcpy(word, p, sizeof word);
        for (int i = 0; i < LANES; i++) lane[i] = mixed(lane[i], word[i]);
    }
    for (int i = 0; i < LANES; i++) h = mixed(h, lane[i]);
    for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)p[i]) * UINT64_C(0x100000001b3);
    return mixed(h, n);
}

static uint64_t checksum(const char *key, size_t nkey, const char *bytes, size_t n) {
    return hash(hash(UINT64_C(0xcbf29ce484222325), key, nkey), bytes, n);
}

bool env_off(const char *name) {
    static const char *const words[] = {"off", "no", "false", "0"};
    const char *said = getenv(name);
    for (size_t i = 0; said && i < sizeof words / sizeof *words; i++)
        if (c_strcasecmp(said, words[i]) == 0) return true;
    return false;
}

bool cache_folder(Buf *path) {
    const char *own = getenv("TKC_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (env_off("TKC_CACHE")) return false;
    if (own && *own) buf_puts(path, own);
    else if (xdg && *xdg == '/') buf_printf(path, "%s/tkc", xdg);
    else if (home && *home == '/' && access(home, F_OK) == 0) buf_printf(path, "%s/.cache/tkc", home);
    return path->n > 0;
}

static uint64_t bound(void) {
    const char *mib = getenv("TKC_CACHE_MIB");
    char *end = NULL;
    unsigned long n = mib && *mib >= '0' && *mib <= '9' ? strtoul(mib, &end, 10) : DEFAULT_MIB;
    if (end && *end) n = DEFAULT_MIB;
    return (uint64_t)(n > 1 << 20 ? 1 << 20 : n) << 20;
}

static bool private(const struct stat *st) { return st->st_uid == geteuid() && (st->st_mode & (S_IWGRP | S_IWOTH)) == 0; }

// The folder, to look for files in; -1: there is none, or it is not the user's own. errno says which: EPERM.
static int own_folder(int at, const char *path, int follow) {
    struct stat st;
    int fd = openat(at, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | follow);
    if (fd < 0 || (fstat(fd, &st) == 0 && private(&st))) return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

static bool make_folder(const char *path) {
    Buf part = {0};
    for (const char *p = path; *p; p++) {
        if (*p == '/' && part.n) mkdir(part.p, 0777);
        buf_putc(&part, *p);
    }
    buf_free(&part);
    return mkdir(path, 0700) == 0 || errno == EEXIST;
}

// `below`: "" or MEASURED, whose folder is made where that is wanted. For file_close.
static int folder_open(const char *below, bool make) {
    Buf path = {0};
    int fd = -1;
    if (cache_folder(&path) && (!make || make_folder(path.p))) fd = own_folder(AT_FDCWD, path.p, 0);
    buf_free(&path);
    if (fd >= 0 && *below) {
        if (make) mkdirat(fd, below, 0700);
        int in = own_folder(fd, below, O_NOFOLLOW);
        close(fd);
        fd = in;
    }
    if (fd >= 0) file_hold(fd);
    return fd;
}

bool cache_refused(void) {
    Buf path = {0};
    int fd = cache_folder(&path) ? own_folder(AT_FDCWD, path.p, 0) : 0;
    bool refused = fd < 0 && errno == EPERM;
    if (fd > 0) close(fd);
    buf_free(&path);
    return refused;
}

// The folder of this key's file.
static const char *section(const Buf *key) {
    bool measured = key->n >= strlen(CACHE_MEASURED) && memcmp(key->p, CACHE_MEASURED, strlen(CACHE_MEASURED)) == 0;
    return measured ? MEASURED : "";
}

static void name_of(const Buf *key, Buf *name) {
    buf_printf(name, "%016llx%016llx" ENDING, (unsigned long long)hash(UINT64_C(0xcbf29ce484222325), key->p, key->n),
               (unsigned long long)hash(UINT64_C(0x9e3779b97f4a7c15), key->p, key->n));
}

// An entry to be read: never a link, a pipe or another user's.
static int entry_open(int folder, const char *name) {
    struct stat st;
    int fd = folder >= 0 ? openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY) : -1;
    if (fd < 0 || (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && private(&st))) return fd;
    close(fd);
    return -1;
}

// The file's head and rest; false when it is not what it says it is.
static bool read_file(int fd, Head *h, char **rest) {
    struct stat st;
    uint64_t most = bound() > (uint64_t)DEFAULT_MIB << 20 ? bound() : (uint64_t)DEFAULT_MIB << 20;
    *rest = NULL;
    if (fstat(fd, &st) || st.st_size < (off_t)sizeof *h || (uint64_t)st.st_size > most || !file_get(fd, h, sizeof *h)) return false;
    uint64_t size = (uint64_t)st.st_size - sizeof *h;
    if (memcmp(h->magic, magic, sizeof magic) || h->key > size || h->bytes != size - h->key) return false;
    *rest = heap_try(size + 1);
    return *rest && file_get(fd, *rest, size) && checksum(*rest, h->key, *rest + h->key, h->bytes) == h->checksum;
}

bool cache_get(const Buf *key, Buf *out) {
    Buf   name = {0};
    Head  h;
    char *rest = NULL;
    name_of(key, &name);
    int   folder = folder_open(section(key), false), fd = entry_open(folder, name.p);
    bool  whole = fd >= 0 && read_file(fd, &h, &rest);
    bool  hit = whole && h.key == key->n && memcmp(rest, key->p, key->n) == 0;
    if (fd >= 0 && !whole) unlinkat(folder, name.p, 0);
    if (hit) futimens(fd, NULL);
    if (fd >= 0) close(fd);
    file_close(folder);
    if (hit) buf_add(out, rest + h.key, h.bytes);
    heap_free(rest);
    buf_free(&name);
    return hit;
}

// ---- the bound -----------------------------------------------------------------------------------

typedef struct Entry { char *name; uint64_t bytes; struct timespec used; bool unfinished; } Entry;
typedef struct Listing { int folder; Entry *at; int n, cap; uint64_t bytes; } Listing;

static void end_stream(void *d, uint64_t none) { (void)none; closedir(d); }

static void list_files(Listing *l, const char *below) {
    l->folder = folder_open(below, false);
    int  again = l->folder >= 0 ? openat(l->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    DIR *d = again >= 0 ? fdopendir(again) : NULL;
    if (again >= 0 && !d) close(again);
    if (d) heap_hold(end_stream, d, 0);
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        bool unfinished = strncmp(e->d_name, UNFINISHED, strlen(UNFINISHED)) == 0;
        struct stat st;
        if ((!unfinished && !text_ends(e->d_name, ENDING)) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(st.st_mode))
            continue;
        if (l->n == l->cap) {
            Entry *more = heap_alloc(sizeof *more * (size_t)(2 * l->cap + 64));
            if (l->n) memcpy(more, l->at, sizeof *more * (size_t)l->n);
            heap_free(l->at);
            l->at = more;
            l->cap = 2 * l->cap + 64;
        }
        l->at[l->n++] = (Entry){copy_text(e->d_name, strlen(e->d_name)), (uint64_t)st.st_size, st.st_mtim, unfinished};
        l->bytes += (uint64_t)st.st_size;
    }
    if (d) {
        heap_let_go(end_stream, d, 0);
        closedir(d);
    }
}

static void listing_free(Listing *l) {
    for (int i = 0; i < l->n; i++) heap_free(l->at[i].name);
    heap_free(l->at);
    file_close(l->folder);
}

static int by_age(const void *x, const void *y) {
    const struct timespec *a = &((const Entry *)x)->used, *b = &((const Entry *)y)->used;
    if (a->tv_sec != b->tv_sec) return a->tv_sec < b->tv_sec ? -1 : 1;
    return (a->tv_nsec > b->tv_nsec) - (a->tv_nsec < b->tv_nsec);
}

// Looking at every file takes longer than writing one. So some files, by their names' hash and as often as they are large,
// look for all: on average when a 64th of the bound was written.
static bool looks(const Buf *path, uint64_t bytes) { return hash(0, path->p, path->n) % (bound() / 64 + 1) <= bytes; }

// Down to nine tenths of the bound, so that the next files find room; and what a process that died left unfinished.
static void keep_bound(void) {
    Listing l = {0};
    uint64_t most = bound();
    list_files(&l, "");
    time_t now = time(NULL);
    for (int i = 0; i < l.n; i++)
        if (l.at[i].unfinished && now - l.at[i].used.tv_sec > STALE_SECONDS) unlinkat(l.folder, l.at[i].name, 0);
    if (l.bytes > most) {
        qsort(l.at, (size_t)l.n, sizeof *l.at, by_age);
        for (int i = 0; i < l.n && l.bytes > most / 10 * 9; i++) {
            if (l.at[i].unfinished) continue;
            unlinkat(l.folder, l.at[i].name, 0);
            l.bytes -= l.at[i].bytes;
        }
    }
    listing_free(&l);
}

void cache_put(const Buf *key, const Buf *bytes) {
    static atomic_uint number;
    Buf name = {0}, temp = {0};
    Head h = {.key = key->n, .bytes = bytes->n, .checksum = checksum(key->p, key->n, bytes->p, bytes->n)};
    memcpy(h.magic, magic, sizeof magic);
    int folder = sizeof h + key->n + bytes->n <= bound() ? folder_open(section(key), true) : -1, fd = -1;
    if (folder >= 0) {
        name_of(key, &name);
        buf_printf(&temp, UNFINISHED "%ld-%u", (long)getpid(), atomic_fetch_add(&number, 1));
        fd = openat(folder, temp.p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    if (fd >= 0) {
        bool fine = file_put(fd, &h, sizeof h) && file_put(fd, key->p, key->n) && file_put(fd, bytes->p, bytes->n);
        fine = close(fd) == 0 && fine && renameat(folder, temp.p, folder, name.p) == 0;
        if (!fine) unlinkat(folder, temp.p, 0);
        else if (looks(&name, bytes->n)) keep_bound();
    }
    file_close(folder);
    buf_free(&name);
    buf_free(&temp);
}

CacheUse cache_use(void) {
    Listing l = {0}, m = {0};
    list_files(&l, "");
    list_files(&m, MEASURED);
    CacheUse use = {.bytes = l.bytes, .bound = bound()};
    for (int i = 0; i < l.n; i++) use.files += !l.at[i].unfinished;
    for (int i = 0; i < m.n; i++) use.measured += !m.at[i].unfinished;
    listing_free(&l);
    listing_free(&m);
    return use;
}

static int clear(const char *below) {
    Listing l = {0};
    int n = 0;
    list_files(&l, below);
    for (int i = 0; i < l.n; i++) n += unlinkat(l.folder, l.at[i].name, 0) == 0 && !l.at[i].unfinished;
    listing_free(&l);
    return n;
}

int cache_clear(void) {
    int n = clear("") + clear(MEASURED), folder = folder_open("", false);
    if (folder >= 0) {
        unlinkat(folder, MEASURED, AT_REMOVEDIR);
        file_close(folder);
    }
    return n;
}

bool cache_any_measured(void) {
    int folder = folder_open(MEASURED, false);
    file_close(folder);
    return folder >= 0;
}

void cache_each_measured(void (*see)(void *ctx, const Buf *bytes), void *ctx) {
    Listing l = {0};
    list_files(&l, MEASURED);
    if (l.n) qsort(l.at, (size_t)l.n, sizeof *l.at, by_age);
    for (int i = 0; i < l.n; i++) {
        Head  h;
        char *rest = NULL;
        int   fd = l.at[i].unfinished ? -1 : entry_open(l.folder, l.at[i].name);
        bool  whole = fd >= 0 && read_file(fd, &h, &rest);
        if (fd >= 0) close(fd);
        if (whole) {
            Buf bytes = {0};
            buf_add(&bytes, rest + h.key, h.bytes);
            see(ctx, &bytes);
            buf_free(&bytes);
        }
        heap_free(rest);
    }
    listing_free(&l);
}
