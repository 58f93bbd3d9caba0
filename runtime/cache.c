// The cache's files (cache.h).
//
//     3f9a..c2.art              [magic, sizes, checksum][key][bytes]
//     measured/81b0..07.art     the same, of what `tkc tune` found
//
// The name is a hash of the key; the key itself stands in the file and is compared, so that two keys with one hash only
// displace each other. Files appear whole: they are written under another name and renamed. Each hit sets the file's time,
// by which the bound removes the oldest. Processes need no lock: a file that another one removes while it is read stays
// readable, and whoever writes the same key writes the same bytes.

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
#define MEASURED "/measured"

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

// The folder of this key's file.
static bool section(const Buf *key, Buf *path) {
    if (!cache_folder(path)) return false;
    if (key->n >= strlen(CACHE_MEASURED) && memcmp(key->p, CACHE_MEASURED, strlen(CACHE_MEASURED)) == 0)
        buf_puts(path, MEASURED);
    return true;
}

static bool path_of(const Buf *key, Buf *path) {
    if (!section(key, path)) return false;
    buf_printf(path, "/%016llx%016llx" ENDING, (unsigned long long)hash(UINT64_C(0xcbf29ce484222325), key->p, key->n),
               (unsigned long long)hash(UINT64_C(0x9e3779b97f4a7c15), key->p, key->n));
    return true;
}

// The file's head and rest; false when it is not what it says it is.
static bool read_file(int fd, Head *h, char **rest) {
    struct stat st;
    *rest = NULL;
    if (fstat(fd, &st) || st.st_size < (off_t)sizeof *h || !file_get(fd, h, sizeof *h)) return false;
    uint64_t size = (uint64_t)st.st_size - sizeof *h;
    if (memcmp(h->magic, magic, sizeof magic) || h->key > size || h->bytes != size - h->key) return false;
    *rest = malloc(size + 1);
    return *rest && file_get(fd, *rest, size) && checksum(*rest, h->key, *rest + h->key, h->bytes) == h->checksum;
}

bool cache_get(const Buf *key, Buf *out) {
    Buf   path = {0};
    Head  h;
    char *rest = NULL;
    int   fd = path_of(key, &path) ? open(path.p, O_RDONLY | O_CLOEXEC) : -1;
    bool  whole = fd >= 0 && read_file(fd, &h, &rest);
    bool  hit = whole && h.key == key->n && memcmp(rest, key->p, key->n) == 0;
    if (fd >= 0 && !whole) unlink(path.p);
    if (hit) {
        futimens(fd, NULL);
        buf_add(out, rest + h.key, h.bytes);
    }
    if (fd >= 0) close(fd);
    free(rest);
    buf_free(&path);
    return hit;
}

// ---- the bound -----------------------------------------------------------------------------------

typedef struct Entry { char *path; uint64_t bytes; struct timespec used; bool unfinished; } Entry;
typedef struct Listing { Entry *at; int n, cap; uint64_t bytes; } Listing;

static void list_files(Listing *l, const char *below) {
    Buf  folder = {0};
    bool there = cache_folder(&folder);
    buf_puts(&folder, below);
    DIR *d = there ? opendir(folder.p) : NULL;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        bool unfinished = strncmp(e->d_name, UNFINISHED, strlen(UNFINISHED)) == 0;
        struct stat st;
        if ((!unfinished && !text_ends(e->d_name, ENDING)) || fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(st.st_mode))
            continue;
        if (l->n == l->cap) {
            Entry *more = checked_alloc(sizeof *more * (size_t)(2 * l->cap + 64));
            if (l->n) memcpy(more, l->at, sizeof *more * (size_t)l->n);
            free(l->at);
            l->at = more;
            l->cap = 2 * l->cap + 64;
        }
        Buf path = {0};
        buf_printf(&path, "%s/%s", folder.p, e->d_name);
        l->at[l->n++] = (Entry){path.p, (uint64_t)st.st_size, st.st_mtim, unfinished};
        l->bytes += (uint64_t)st.st_size;
    }
    if (d) closedir(d);
    buf_free(&folder);
}

static void listing_free(Listing *l) {
    for (int i = 0; i < l->n; i++) free(l->at[i].path);
    free(l->at);
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
        if (l.at[i].unfinished && now - l.at[i].used.tv_sec > STALE_SECONDS) unlink(l.at[i].path);
    if (l.bytes > most) {
        qsort(l.at, (size_t)l.n, sizeof *l.at, by_age);
        for (int i = 0; i < l.n && l.bytes > most / 10 * 9; i++) {
            if (l.at[i].unfinished) continue;
            unlink(l.at[i].path);
            l.bytes -= l.at[i].bytes;
        }
    }
    listing_free(&l);
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

void cache_put(const Buf *key, const Buf *bytes) {
    static atomic_uint number;
    Buf path = {0}, folder = {0}, temp = {0};
    Head h = {.key = key->n, .bytes = bytes->n, .checksum = checksum(key->p, key->n, bytes->p, bytes->n)};
    memcpy(h.magic, magic, sizeof magic);
    int fd = -1;
    if (sizeof h + key->n + bytes->n <= bound() && path_of(key, &path) && section(key, &folder) && make_folder(folder.p)) {
        buf_printf(&temp, "%s/" UNFINISHED "%ld-%u", folder.p, (long)getpid(), atomic_fetch_add(&number, 1));
        fd = open(temp.p, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    }
    if (fd >= 0) {
        bool fine = file_put(fd, &h, sizeof h) && file_put(fd, key->p, key->n) && file_put(fd, bytes->p, bytes->n);
        fine = close(fd) == 0 && fine && rename(temp.p, path.p) == 0;
        if (!fine) unlink(temp.p);
        else if (looks(&path, bytes->n)) keep_bound();
    }
    buf_free(&path);
    buf_free(&folder);
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
    for (int i = 0; i < l.n; i++) n += unlink(l.at[i].path) == 0 && !l.at[i].unfinished;
    listing_free(&l);
    return n;
}

int cache_clear(void) {
    Buf folder = {0};
    int n = clear("") + clear(MEASURED);
    if (cache_folder(&folder)) {
        buf_puts(&folder, MEASURED);
        rmdir(folder.p);
    }
    buf_free(&folder);
    return n;
}

bool cache_any_measured(void) {
    Buf  folder = {0};
    bool there = cache_folder(&folder);
    buf_puts(&folder, MEASURED);
    there = there && access(folder.p, R_OK) == 0;
    buf_free(&folder);
    return there;
}

void cache_each_measured(void (*see)(void *ctx, const Buf *bytes), void *ctx) {
    Listing l = {0};
    list_files(&l, MEASURED);
    if (l.n) qsort(l.at, (size_t)l.n, sizeof *l.at, by_age);
    for (int i = 0; i < l.n; i++) {
        Head  h;
        char *rest = NULL;
        int   fd = l.at[i].unfinished ? -1 : open(l.at[i].path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read_file(fd, &h, &rest)) {
            Buf bytes = {0};
            buf_add(&bytes, rest + h.key, h.bytes);
            see(ctx, &bytes);
            buf_free(&bytes);
        }
        if (fd >= 0) close(fd);
        free(rest);
    }
    listing_free(&l);
}
