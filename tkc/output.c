// Messages and files.
//
// A file is written whole or not at all: into a temporary beside it, which takes its name when every
// byte is there. Standard output is checked as files are: a full disk is a failure with a line, not
// silence. A closed pipe is a failure too, but whoever closed it (`| head`) wants no line.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lang/file.h"
#include "lang/shown.h"
#include "runtime/tk_run.h"
#include "tkc/tkc.h"

static void message(const char *fmt, va_list args) {
    fflush(stdout);
    Buf text = {0};
    buf_vprintf(&text, fmt, args);
    fputs("tkc: ", stderr);
    put_shown(stderr, text.n > 0 ? text.p : "", text.n);
    fputc('\n', stderr);
    buf_free(&text);
}

int fail(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    message(fmt, args);
    va_end(args);
    return FAILED;
}

int wrong_use(const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    message(fmt, args);
    va_end(args);
    return USAGE;
}

static bool stdout_failed(void) {          // said once
    static bool reported;
    if (!reported && errno != EPIPE) fail("standard output: %s", strerror(errno));
    reported = true;
    return false;
}

// A terminal gets no control characters, whatever is printed; a file or a pipe what there is.
static bool write_stdout(const char *bytes, size_t n) {
    Buf text = {0};
    bool terminal = isatty(1);
    if (terminal) buf_shown(&text, bytes, n, SHOWN_TEXT), bytes = text.n > 0 ? text.p : "", n = text.n;
    bool ok = fwrite(bytes, 1, n, stdout) == n || stdout_failed();
    buf_free(&text);
    return ok;
}

bool output_finish(void) { return (ferror(stdout) == 0 && fflush(stdout) == 0) || stdout_failed(); }

bool output_write(const char *path, const char *bytes, size_t n) {
    if (path == NULL || strcmp(path, "-") == 0) return write_stdout(bytes, n) && output_finish();
    fflush(stdout);                                          // PATH may be /dev/stdout
    bool ok = file_replace(path, &(FilePart){bytes, n}, 1);
    if (!ok) fail("%s: %s", path, strerror(errno));
    return ok;
}

bool output_report(const char *path, const char *text, size_t n) {
    Buf shown = {0};
    buf_shown(&shown, text, n, SHOWN_REPORT);
    bool ok = output_write(path, shown.n > 0 ? shown.p : "", shown.n);
    buf_free(&shown);
    return ok;
}

bool make_folder(const char *path) {
    Buf part = {0};
    bool ok = true;
    for (const char *p = path; ok; p++) {
        if ((*p == '/' && p > path) || *p == '\0') {
            ok = mkdir(part.p, 0777) == 0 || errno == EEXIST;
            if (*p == '\0') break;
        }
        buf_putc(&part, *p);
    }
    struct stat there;
    if (ok && (stat(path, &there) != 0 || !S_ISDIR(there.st_mode))) ok = false, errno = ENOTDIR;
    if (!ok) fail("%s: %s", path, strerror(errno));
    buf_free(&part);
    return ok;
}

bool wants_color(const Options *opt, FILE *to) {
    if (opt->color != NULL && strcmp(opt->color, "auto") != 0) return strcmp(opt->color, "always") == 0;
    const char *none = getenv("NO_COLOR"), *term = getenv("TERM");
    return (none == NULL || *none == '\0') && term != NULL && strcmp(term, "dumb") != 0 && isatty(fileno(to));
}

DiagStyle diag_style(const Options *opt) {
    if (opt->diag == NULL || strcmp(opt->diag, "rich") == 0) return DIAG_rich;
    return strcmp(opt->diag, "short") == 0 ? DIAG_short : DIAG_json;
}

bool report_diags(Session *s, const Options *opt) {
    fflush(stdout);
    diag_print(s, stderr, diag_style(opt), wants_color(opt, stderr));
    return diag_errors(s) == 0;
}

double now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

bool wants_profile(const Options *opt) { return opt->profile || opt->trace != NULL; }

bool write_profile(const Options *opt, const ProfileText *p) {
    if (p->table.n == 0) return true;                        // nothing was timed
    if (opt->profile && !output_report(NULL, p->table.p, p->table.n)) return false;
    if (opt->trace == NULL) return true;
    size_t n = strlen(opt->trace);
    const Buf *text = n > 5 && strcmp(opt->trace + n - 5, ".html") == 0 ? &p->page : &p->trace;
    return output_write(opt->trace, text->p, text->n);
}
