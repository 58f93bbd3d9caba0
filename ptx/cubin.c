// PTX into machine code, with NVIDIA's assembler where there is one.
//
// ptxas is looked for on PATH, then in $CUDA_HOME/bin, then where the toolkit installs itself; it is a
// program, so its input and output are files in a folder of our own under $TMPDIR, removed afterwards
// whatever happens. Without ptxas the driver can do it (a hook, since only runtime/cuda.c knows the
// driver). `ptxas -v` says of each entry:
//
//     ptxas info    : Compiling entry function 'scale' for 'sm_90a'
//     ptxas info    : Function properties for scale
//         0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
//     ptxas info    : Used 12 registers, used 1 barriers, 4096 bytes smem, 376 bytes cmem[0]
#include "lang/file.h"
#include "lang/temporary.h"
#include "ptx/ptx.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char *program_in(Arena *a, const char *folder, size_t n) {
    if (n == 0) return NULL;
    char *path = arena_printf(a, "%.*s/ptxas", (int)n, folder);
    return access(path, X_OK) == 0 ? path : NULL;
}

char *ptxas_path(Arena *a) {
    const char *path = getenv("PATH");
    while (path != NULL && *path != '\0') {
        size_t n = strcspn(path, ":");
        char *found = program_in(a, path, n);
        if (found != NULL) return found;
        path += n + (path[n] == ':');
    }
    const char *home = getenv("CUDA_HOME");
    if (home != NULL && *home != '\0') {
        const char *bin = arena_printf(a, "%s/bin", home);
        char *found = program_in(a, bin, strlen(bin));
        if (found != NULL) return found;
    }
    static const char usual[] = "/usr/local/cuda/bin";
    return program_in(a, usual, strlen(usual));
}

// Files of a folder of our own: nothing is replaced, and nothing outlives the call.
static bool write_file(const char *path, const char *text, size_t n) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool ok = fd >= 0 && file_put(fd, text, n);
    return (fd < 0 || close(fd) == 0) && ok;
}

static bool read_file(const char *path, Buf *out) {
    const void *bytes;
    const char *why;
    size_t n;
    if (!file_map_plain(path, &bytes, &n, &why)) return false;
    buf_add(out, bytes, n);                              // empty, too
    file_unmap_plain(bytes, n);
    return true;
}

// The program's exit status; -1 when it could not be started or died (`err` has the words).
static int run(char *const argv[], const char *output, Buf *err) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, output, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawnattr_t usual;
    posix_spawnattr_init(&usual);
    pid_t pid;
    sigset_t was = temporary_hold();
    posix_spawnattr_setsigmask(&usual, &was);
    posix_spawnattr_setflags(&usual, POSIX_SPAWN_SETSIGMASK);
    int error = posix_spawn(&pid, argv[0], &actions, &usual, argv, environ), note = error == 0 ? temporary_child(pid) : -1;
    temporary_release(was);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&usual);
    if (error != 0) {
        buf_printf(err, "%s cannot be started: %s", argv[0], strerror(error));
        return -1;
    }
    int status, done;
    while ((done = waitpid(pid, &status, 0)) < 0 && errno == EINTR) {}
    temporary_forget(note);
    if (done < 0) {
        buf_printf(err, "waiting for %s: %s", argv[0], strerror(errno));
        return -1;
    }
    if (WIFEXITED(status)) return WEXITSTATUS(status);
    buf_printf(err, "%s died of signal %d", argv[0], WTERMSIG(status));
    return -1;
}

// The first line of `log` that says what went wrong, or its first line.
static Str first_error(const Buf *log) {
    const char *text = log->n > 0 ? log->p : "it said nothing";
    const char *at = strstr(text, "error");
    if (at == NULL) at = strstr(text, "fatal");
    if (at == NULL) at = text;
    while (at > text && at[-1] != '\n') at--;
    return (Str){at, strcspn(at, "\n")};
}

typedef struct Work {
    char *folder, *ptx, *cubin, *said;
    int   note[4];                       // of these
} Work;

static void end_work(void *work, uint64_t none) {
    const Work *w = work;
    const char *const files[] = {w->ptx, w->cubin, w->said};
    (void)none;
    for (int i = 0; i < 3; i++) unlink(files[i]);
    rmdir(w->folder);
    for (int i = 0; i < 4; i++) temporary_forget(w->note[i]);
}

static bool assemble(const Work *w, char *ptxas, const char *text, size_t n, const Target *t, Arena *a, Buf *cubin,
                     Buf *log, Buf *err) {
    if (!write_file(w->ptx, text, n)) {
        buf_printf(err, "%s: %s", w->ptx, strerror(errno));
        return false;
    }
    char *argv[] = {ptxas, "-v", arena_printf(a, "-arch=%s", t->name), w->ptx, "-o", w->cubin, NULL};
    int status = run(argv, w->said, err);
    Buf said = {0};
    bool told = read_file(w->said, &said);
    if (status == 0 && !told) {
        buf_printf(err, "%s: %s", w->said, strerror(errno));
        return false;
    }
    if (log != NULL && told) buf_add(log, said.p, said.n);
    bool ok = status == 0 && read_file(w->cubin, cubin);
    if (!ok && err->n == 0) {
        Str line = first_error(&said);
        if (status != 0) buf_printf(err, "%s failed with status %d: %.*s", ptxas, status, (int)line.n, line.p);
        else buf_printf(err, "%s left no cubin: %s", ptxas, strerror(errno));
    }
    buf_free(&said);
    return ok;
}

bool cubin_make(Arena *a, const char *ptx, size_t n, const Target *t, CubinDriver driver, Buf *cubin, Buf *log, Buf *err) {
    char *ptxas = ptxas_path(a);
    if (ptxas == NULL) {
        Buf words = {0};
        bool ok = driver != NULL && driver(ptx, n, t, cubin, &words);
        if (!ok)
            buf_printf(err, "a cubin needs ptxas, which is neither on PATH nor in $CUDA_HOME/bin, or a driver to ask%s%s",
                       words.n > 0 ? ": " : "", words.n > 0 ? words.p : "");
        buf_free(&words);
        return ok;
    }
    const char *tmp = getenv("TMPDIR");
    if (tmp == NULL || *tmp == '\0') tmp = "/tmp";
    Work *w = NEW(a, Work);
    w->folder = arena_printf(a, "%s/tkc-XXXXXX", tmp);
    char *const part[] = {w->ptx = arena_printf(a, "%s/kernel.ptx", w->folder), w->cubin = arena_printf(a, "%s/kernel.cubin", w->folder),
                          w->said = arena_printf(a, "%s/ptxas.log", w->folder)};
    sigset_t was = temporary_hold();
    bool made = mkdtemp(w->folder) != NULL;
    int why = errno;
    for (int i = 0; made && i < 3; i++) memcpy(part[i], w->folder, strlen(w->folder));
    for (int i = 0; i < 4; i++) w->note[i] = made ? temporary_note(i < 3 ? part[i] : w->folder) : -1;
    temporary_release(was);
    if (!made) {
        buf_printf(err, "no folder for temporary files in %s: %s", tmp, strerror(why));
        return false;
    }
    heap_hold(end_work, w, 0);
    bool ok = assemble(w, ptxas, ptx, n, t, a, cubin, log, err);
    heap_let_go(end_work, w, 0);
    end_work(w, 0);
    return ok;
}

// The number before `unit` in [line, end), 0 if there is none: "..., 4096 bytes smem, ..."
static int number_before(const char *line, const char *end, const char *unit) {
    size_t length = strlen(unit);
    for (const char *at = line; at + length <= end; at++) {
        if (memcmp(at, unit, length) != 0) continue;
        const char *digits = at;
        while (digits > line && digits[-1] >= '0' && digits[-1] <= '9') digits--;
        return atoi(digits);
    }
    return 0;
}

int ptxas_parse(const char *log, PtxasInfo *out, int max) {
    static const char entry[] = "Compiling entry function '";
    int n = 0;
    bool open = false;                 // between an entry's first line and its registers
    for (const char *line = log; *line != '\0';) {
        const char *end = line + strcspn(line, "\n");
        const char *at = strstr(line, entry);
        if (at != NULL && at < end && n < max) {
            at += sizeof entry - 1;
            int length = (int)strcspn(at, "'");
            snprintf(out[n].entry, sizeof out[n].entry, "%.*s", length, at);
            out[n].registers = out[n].stack = out[n].spill_stores = out[n].spill_loads = out[n].smem = 0;
            n++;
            open = true;
        } else if (open) {
            PtxasInfo *e = &out[n - 1];
            int stack = number_before(line, end, " bytes stack frame");
            if (stack > e->stack) e->stack = stack;
            e->spill_stores += number_before(line, end, " bytes spill stores");
            e->spill_loads += number_before(line, end, " bytes spill loads");
            int registers = number_before(line, end, " registers");
            if (registers > 0) {
                e->registers = registers;
                e->smem = number_before(line, end, " bytes smem");
                open = false;
            }
        }
        line = *end == '\n' ? end + 1 : end;
    }
    return n;
}
