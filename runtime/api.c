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
#include <string.h>

#ifndef TK_VERSION
#error "the build says which version this is"
#endif

// ---- words ---------------------------------------------------------------------------------------

// Short ones stand here, so that they can be said when memory is out; longer ones in a block that the thread's end frees.
enum { SHORT = 512 };
static _Thread_local char  words_short[SHORT];
static pthread_key_t  words_key;
static pthread_once_t words_once = PTHREAD_ONCE_INIT;
static bool           words_keyed;

static void make_key(void) { words_keyed = pthread_key_create(&words_key, heap_free) == 0; }

static char *long_words(void) {
    pthread_once(&words_once, make_key);
    return words_keyed ? pthread_getspecific(words_key) : NULL;
}

const char *tkc_error(void) {
    const char *words = long_words();
    return words ? words : words_short;
}

// `words`: nobody's block, or NULL. False: there is no room for it; it is the caller's.
static bool set_long_words(char *words) {
    char *before = long_words();
    if (!words && !before) return true;
    if (!words_keyed || pthread_setspecific(words_key, words) != 0) return false;
    heap_free(before);
    return true;
}

static tkc_status said_shortly(tkc_status status, const char *words) {
    set_long_words(NULL);
    snprintf(words_short, sizeof words_short, "%s", words);
    return status;
}

tkc_status api_failed(tkc_status status, Buf *err) {
    Buf shown = {0};
    if (!err->n) buf_puts(err, "it cannot be done");
    buf_shown(&shown, err->p, err->n, SHOWN_SHORT);
    bool whole = shown.n < SHORT;
    if (!whole) heap_release(shown.p);
    if (!whole && set_long_words(shown.p)) shown = (Buf){0};
    else said_shortly(status, shown.p);
    buf_free(&shown);
    buf_free(err);
    return status;
}

static void show_text(void *text) {
    Buf shown = {0};
    buf_shown(&shown, text, strlen(text), SHOWN_SHORT);
    said_shortly(TKC_BAD_ARGUMENT, shown.p ? shown.p : "");
    buf_free(&shown);
}

tkc_status api_refused(const char *fmt, ...) {
    char    text[SHORT];
    va_list args;
    va_start(args, fmt);
    c_vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    Heap own = {0};                                      // the call has not begun: it has no guard
    bool fine = heap_run(&own, show_text, text);
    heap_drop(&own);
    return fine ? TKC_BAD_ARGUMENT : said_shortly(TKC_NO_MEMORY, "out of memory");
}

// ---- calls ---------------------------------------------------------------------------------------

void api_lock(ApiCall *c, pthread_mutex_t *lock) {
    pthread_mutex_lock(lock);
    c->lock[c->lock[0] != NULL] = lock;
}

void api_unlock(ApiCall *c) {
    int last = c->lock[1] != NULL;
    if (c->lock[last]) pthread_mutex_unlock(c->lock[last]);
    c->lock[last] = NULL;
}

bool api_own(ApiCall *c, Heap *owner, pthread_mutex_t *lock) {
    if (lock) api_lock(c, lock);
    if (atomic_load(&owner->broken)) return false;
    c->owner = owner;
    heap_use(owner);
    return true;
}

void api_disown(ApiCall *c) {
    c->owner = NULL;
    heap_use(&c->own);
    api_unlock(c);
}

void api_leave(ApiCall *c) {
    while (c->lock[0]) api_unlock(c);
    heap_leave(&c->guard);
    heap_end(&c->own);
}

tkc_status api_out_of_memory(ApiCall *c) {
    if (c && c->owner) atomic_store(&c->owner->broken, true);
    if (c) atomic_store(&c->own.broken, true);
    return said_shortly(TKC_NO_MEMORY, "out of memory");
}

tkc_status api_broken(const char *what) {
    char text[SHORT];
    snprintf(text, sizeof text, "the %s ran out of memory before: it can only be freed", what);
    return said_shortly(TKC_NO_MEMORY, text);
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

static tkc_status open_device(tkc_context *ctx, const char *device, const tkc_options *options) {
    Buf err = {0};
    DeviceOptions opt = {0};
    API_CALL(call);
    api_own(&call, &ctx->heap, NULL);
    if (options) { opt.ordinal = options->ordinal; opt.driver = options->driver; }
    ctx->device = device_open(device ? device : "auto", &opt, &err);
    return ctx->device ? TKC_OK : api_failed(TKC_DEVICE_ERROR, &err);
}

static void free_context(tkc_context *ctx) {
    heap_end(&ctx->heap);
    pthread_mutex_destroy(&ctx->timing);
    heap_free(ctx);
}

tkc_status tkc_open(const char *device, const tkc_options *options, tkc_context **out) {
    API_NEEDS(out);
    *out = NULL;
    if (limits_wrong()) return api_refused("TKC_LIMITS: %s", limits_wrong());
    if (options && options->ordinal < 0) return api_refused("tkc_open: `ordinal` is %d", options->ordinal);
    tkc_context *ctx = heap_try_zeroed(1, sizeof *ctx);
    if (!ctx) return api_out_of_memory(NULL);
    ctx->early = options && options->early;
    pthread_mutex_init(&ctx->timing, NULL);
    tkc_status status = open_device(ctx, device, options);
    if (status) free_context(ctx);
    else *out = ctx;
    return status;
}

static tkc_status close_device(tkc_context *ctx) {
    API_CALL(call);
    if (api_own(&call, &ctx->heap, NULL)) device_close(ctx->device);
    return TKC_OK;
}

void tkc_close(tkc_context *ctx) {
    if (!ctx) return;
    close_device(ctx);
    free_context(ctx);
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
    API_CALL(call);
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
    API_CALL(call);
    return said(ctx->device->ops->write(ctx->device, address_of(to), from, bytes, &err), &err);
}

tkc_status tkc_read(tkc_context *ctx, void *to, const void *from, size_t bytes) {
    Buf err = {0};
    API_NEEDS(ctx);
    API_NEEDS_ALL(to, bytes);
    API_NEEDS_ALL(from, bytes);
    API_CALL(call);
    return said(ctx->device->ops->read(ctx->device, to, address_of(from), bytes, &err), &err);
}

tkc_status tkc_sync(tkc_context *ctx) {
    Buf err = {0};
    API_NEEDS(ctx);
    API_CALL(call);
    return said(ctx->device->ops->sync(ctx->device, &err), &err);
}

// ---- programs ------------------------------------------------------------------------------------

enum { API_MAX_TEXT = 1 << 30 };                         // as of files

typedef struct LoadFrom { const char *path, *text; size_t bytes; } LoadFrom;      // path alone: a file

static tkc_status load(tkc_program *p, LoadFrom from) {
    Buf err = {0};
    API_CALL(call);
    api_own(&call, &p->heap, NULL);
    char    *why = NULL;
    Device  *d = p->ctx->device;
    Session *s = p->session = session_new();
    const Source *src = from.text ? source_add(s, from.path, from.text, from.bytes) : source_read(s, from.path, &why);
    if (!src) buf_puts(&err, why);
    bool compiled = src && artifact_is(src->text, src->size);
    p->nmade = compiled ? artifact_read(s, src->path, src->text, src->size, &p->made, &err) : 0;
    p->file = src && !compiled ? sema_file(s, parse_file(s, src)) : NULL;
    if (compiled && p->nmade >= 0 && !d->ops->runs_ptx) {
        buf_printf(&err, "%s: the device %s runs no compiled kernels; cuda and emu do", src->path, d->ops->name);
        p->nmade = -1;
    }
    if (!src || p->nmade < 0 || (!compiled && api_diagnostics(s, 0, &err))) return api_failed(TKC_BAD_SOURCE, &err);
    p->runtime = runtime_new(s, d, &(RuntimeOptions){.early = p->ctx->early});
    return TKC_OK;
}

static tkc_status load_program(tkc_context *ctx, LoadFrom from, tkc_program **out) {
    tkc_program *p = heap_try_zeroed(1, sizeof *p);
    if (!p) return api_out_of_memory(NULL);
    p->ctx = ctx;
    pthread_mutex_init(&p->lock, NULL);
    tkc_status status = load(p, from);
    if (status) tkc_unload(p);
    else *out = p;
    return status;
}

tkc_status tkc_load_file(tkc_context *ctx, const char *path, tkc_program **out) {
    API_NEEDS(out);
    *out = NULL;
    API_NEEDS(ctx);
    API_NEEDS(path);
    return load_program(ctx, (LoadFrom){.path = path}, out);
}

tkc_status tkc_load_text(tkc_context *ctx, const char *name, const char *text, size_t bytes, tkc_program **out) {
    API_NEEDS(out);
    *out = NULL;
    API_NEEDS(ctx);
    API_NEEDS_ALL(text, bytes);
    if (bytes > API_MAX_TEXT) return api_refused("tkc_load_text: %zu bytes; at most %d can be", bytes, API_MAX_TEXT);
    return load_program(ctx, (LoadFrom){name ? name : "text", text ? text : "", bytes}, out);
}

static tkc_status unload(tkc_program *p) {
    API_CALL(call);
    if (!api_own(&call, &p->heap, NULL)) return TKC_OK;
    api_forget_choices(p);
    runtime_free(p->runtime);
    session_free(p->session);
    return TKC_OK;
}

void tkc_unload(tkc_program *prog) {
    if (!prog) return;
    unload(prog);
    heap_end(&prog->heap);
    pthread_mutex_destroy(&prog->lock);
    heap_free(prog);
}
