// libtkc (tkc.h): contexts, device memory, programs, and the words of errors.
//
// A context is a device of the table; a program is a session, its checked file and a Runtime, behind one lock. Devices may
// be used from many threads (device.h), so programs of one context do not wait for each other.
//
//     tkc_context ---- Device
//         |
//     tkc_program ---- Session, SemaFile, Runtime (instances compiled so far)        api.c
//         |
//     tkc_launch  ---- Bound, Prepared                                               api_launch.c
//
// The words of an error belong to the thread that made it.

#include "lang/c_text.h"
#include "lang/limits.h"
#include "lang/shown.h"
#include "runtime/api_internal.h"

#include <stdlib.h>

#ifndef TK_VERSION
#error "the build says which version this is"
#endif

// ---- words ---------------------------------------------------------------------------------------

static pthread_key_t  words_key;
static pthread_once_t words_once = PTHREAD_ONCE_INIT;

static void free_words(void *words) {
    buf_free(words);
    free(words);
}

static void make_key(void) {
    if (pthread_key_create(&words_key, free_words)) ice("no key of pthreads is left");
}

const char *tkc_error(void) {
    pthread_once(&words_once, make_key);
    const Buf *words = pthread_getspecific(words_key);
    return words && words->p ? words->p : "";
}

tkc_status api_failed(tkc_status status, Buf *err) {
    pthread_once(&words_once, make_key);
    Buf *words = pthread_getspecific(words_key);
    if (!words) {
        words = checked_alloc(sizeof *words);
        pthread_setspecific(words_key, words);
    }
    buf_free(words);
    if (!err->n) buf_puts(err, "it cannot be done");
    buf_shown(words, err->p, err->n, SHOWN_SHORT);
    buf_free(err);
    return status;
}

tkc_status api_refused(const char *fmt, ...) {
    char    text[512];
    Buf     err = {0};
    va_list args;
    va_start(args, fmt);
    c_vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    buf_puts(&err, text);
    return api_failed(TKC_BAD_ARGUMENT, &err);
}

bool api_diagnostics(Session *s, int from, Buf *out) {
    bool   errors = diag_errors(s) > 0;                  // earlier ones are gone
    if (errors) diag_write(s, out, DIAG_rich, false);
    while (errors && out->n && out->p[out->n - 1] == '\n') out->p[--out->n] = 0;
    diag_forget(s, from);
    return errors;
}

const char *tkc_version(void) { return TK_VERSION; }

// ---- contexts ------------------------------------------------------------------------------------

tkc_status tkc_open(const char *device, const tkc_options *options, tkc_context **out) {
    Buf err = {0};
    DeviceOptions opt = {0};
    API_NEEDS(out);
    *out = NULL;
    if (limits_wrong()) {
        buf_printf(&err, "TKC_LIMITS: %s", limits_wrong());
        return api_failed(TKC_BAD_ARGUMENT, &err);
    }
    if (options) { opt.ordinal = options->ordinal; opt.driver = options->driver; }
    if (opt.ordinal < 0) return api_refused("tkc_open: `ordinal` is %d", opt.ordinal);
    Device *d = device_open(device ? device : "auto", &opt, &err);
    if (!d) return api_failed(TKC_DEVICE_ERROR, &err);
    *out = checked_alloc(sizeof **out);
    (*out)->device = d;
    (*out)->early = options && options->early;
    pthread_mutex_init(&(*out)->timing, NULL);
    return TKC_OK;
}

void tkc_close(tkc_context *ctx) {
    if (!ctx) return;
    device_close(ctx->device);
    pthread_mutex_destroy(&ctx->timing);
    free(ctx);
}

const char *tkc_device_name(const tkc_context *ctx) { return ctx ? ctx->device->ops->name : ""; }
const char *tkc_device_text(const tkc_context *ctx) { return ctx ? ctx->device->description : ""; }

static uint64_t address_of(const void *p) { return (uint64_t)(uintptr_t)p; }

static tkc_status said(bool fine, Buf *err) { return fine ? TKC_OK : api_failed(TKC_DEVICE_ERROR, err); }

tkc_status tkc_alloc(tkc_context *ctx, size_t bytes, void **out) {
    Buf err = {0};
    API_NEEDS(out);
    *out = NULL;
    API_NEEDS(ctx);
    *out = (void *)(uintptr_t)ctx->device->ops->alloc(ctx->device, bytes, "tkc_alloc", &err);
    return said(*out != NULL, &err);
}

void tkc_free(tkc_context *ctx, void *data) {
    if (ctx && data) ctx->device->ops->free(ctx->device, address_of(data));
}

tkc_status tkc_write(tkc_context *ctx, void *to, const void *from, size_t bytes) {
    Buf err = {0};
    API_NEEDS(ctx);
    API_NEEDS_ALL(to, bytes);
    API_NEEDS_ALL(from, bytes);
    return said(ctx->device->ops->write(ctx->device, address_of(to), from, bytes, &err), &err);
}

tkc_status tkc_read(tkc_context *ctx, void *to, const void *from, size_t bytes) {
    Buf err = {0};
    API_NEEDS(ctx);
    API_NEEDS_ALL(to, bytes);
    API_NEEDS_ALL(from, bytes);
    return said(ctx->device->ops->read(ctx->device, to, address_of(from), bytes, &err), &err);
}

tkc_status tkc_sync(tkc_context *ctx) {
    Buf err = {0};
    API_NEEDS(ctx);
    return said(ctx->device->ops->sync(ctx->device, &err), &err);
}

// ---- programs ------------------------------------------------------------------------------------

enum { API_MAX_TEXT = 1 << 30 };                         // as of files

static tkc_status load(tkc_context *ctx, Session *s, const Source *src, Buf *err, tkc_program **out) {
    Artifact *made = NULL;
    bool      compiled = src && artifact_is(src->text, src->size);
    int       n = compiled ? artifact_read(s, src->path, src->text, src->size, &made, err) : 0;
    SemaFile *file = src && !compiled ? sema_file(s, parse_file(s, src)) : NULL;
    if (compiled && n >= 0 && !ctx->device->ops->runs_ptx) {
        buf_printf(err, "%s: the device %s runs no compiled kernels; cuda and emu do", src->path, ctx->device->ops->name);
        n = -1;
    }
    if (!src || n < 0 || (!compiled && api_diagnostics(s, 0, err))) {
        session_free(s);
        return api_failed(TKC_BAD_SOURCE, err);
    }
    tkc_program *p = checked_alloc(sizeof *p);
    *p = (tkc_program){
        .ctx = ctx, .session = s, .file = file, .made = made, .nmade = n, .runtime = runtime_new(s, ctx->device, &(RuntimeOptions){.early = ctx->early})};
    pthread_mutex_init(&p->lock, NULL);
    *out = p;
    return TKC_OK;
}

tkc_status tkc_load_file(tkc_context *ctx, const char *path, tkc_program **out) {
    Buf   err = {0};
    char *why = NULL;
    API_NEEDS(out);
    *out = NULL;
    API_NEEDS(ctx);
    API_NEEDS(path);
    Session *s = session_new();
    const Source *src = source_read(s, path, &why);
    if (!src) buf_puts(&err, why);
    return load(ctx, s, src, &err, out);
}

tkc_status tkc_load_text(tkc_context *ctx, const char *name, const char *text, size_t bytes, tkc_program **out) {
    Buf err = {0};
    API_NEEDS(out);
    *out = NULL;
    API_NEEDS(ctx);
    API_NEEDS_ALL(text, bytes);
    if (bytes > API_MAX_TEXT) return api_refused("tkc_load_text: %zu bytes; at most %d can be", bytes, API_MAX_TEXT);
    Session *s = session_new();
    return load(ctx, s, source_add(s, name ? name : "text", text ? text : "", bytes), &err, out);
}

void tkc_unload(tkc_program *prog) {
    if (!prog) return;
    api_forget_choices(prog);
    runtime_free(prog->runtime);
    session_free(prog->session);
    pthread_mutex_destroy(&prog->lock);
    free(prog);
}
