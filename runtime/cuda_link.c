// PTX -> cubin by the driver's own assembler, which stands behind cuLink*.
//
// The driver wants a context, and so a GPU, but assembles for other architectures too: the target is an
// option.
#include "runtime/cuda_link.h"

#include <dlfcn.h>
#include <string.h>

#include "runtime/cuda_driver.h"

typedef struct CuLinkT *CuLink;

enum {
    OPT_ERROR_LOG = 5, OPT_ERROR_BYTES = 6, OPT_TARGET = 9,
    INPUT_PTX = 1, ACCELERATED = 0x10000, LOG_BYTES = 16 << 10,
};

// clang-format off
#define LINK_FUNCTIONS(X) \
    X(init,     cuInit,                       (unsigned flags)) \
    X(text,     cuGetErrorString,             (CuResult, const char **)) \
    X(device,   cuDeviceGet,                  (CuDevice *, int ordinal)) \
    X(retain,   cuDevicePrimaryCtxRetain,     (CuContext *, CuDevice)) \
    X(release,  cuDevicePrimaryCtxRelease_v2, (CuDevice)) \
    X(use,      cuCtxSetCurrent,              (CuContext)) \
    X(create,   cuLinkCreate_v2,              (unsigned n, int *options, void **values, CuLink *)) \
    X(add,      cuLinkAddData_v2,             (CuLink, int type, void *, size_t, const char *name, unsigned n, int *options, void **values)) \
    X(complete, cuLinkComplete,               (CuLink, void **, size_t *)) \
    X(destroy,  cuLinkDestroy,                (CuLink))
// clang-format on

typedef struct Linker {
#define X(field, symbol, params) CuResult (*field) params;
    LINK_FUNCTIONS(X)
#undef X
} Linker;

static const char *const symbols[] = {
#define X(field, symbol, params) #symbol,
    LINK_FUNCTIONS(X)
#undef X
};

static bool load(Linker *l, Buf *words) {
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) return buf_puts(words, "there is no NVIDIA driver"), false;
    void **slot = (void **)(void *)l;
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        slot[i] = dlsym(library, symbols[i]);
        if (slot[i] == NULL) return buf_printf(words, "the driver has no %s", symbols[i]), false;
    }
    return true;
}

static bool ok(const Linker *l, CuResult r, const char *doing, Buf *words) {
    if (r == CU_OK) return true;
    const char *text = NULL;
    l->text(r, &text);
    buf_printf(words, "the driver cannot %s: %s", doing, text != NULL ? text : "unknown error");
    return false;
}

static bool assemble(const Linker *l, const char *ptx, size_t n, const Target *t, Buf *cubin, Buf *words) {
    static char errors[LOG_BYTES];
    errors[0] = '\0';
    int target = t->major * 10 + t->minor + (t->name[strlen(t->name) - 1] == 'a' ? ACCELERATED : 0);
    int options[] = {OPT_ERROR_LOG, OPT_ERROR_BYTES, OPT_TARGET};
    void *values[] = {errors, (void *)(uintptr_t)LOG_BYTES, (void *)(uintptr_t)target};
    CuLink link = NULL;
    if (!ok(l, l->create(3, options, values, &link), "make a linker", words)) return false;
    void *code = NULL;
    size_t bytes = 0;
    bool fine = ok(l, l->add(link, INPUT_PTX, (void *)(uintptr_t)ptx, n + 1, "kernel.ptx", 0, NULL, NULL), "assemble",
                   words) &&
                ok(l, l->complete(link, &code, &bytes), "link", words);
    if (fine) buf_add(cubin, code, bytes);
    else if (errors[0] != '\0') buf_printf(words, ": %.*s", (int)strcspn(errors, "\n"), errors);
    l->destroy(link);
    return fine;
}

bool cuda_cubin(const char *ptx, size_t n, const Target *t, Buf *cubin, Buf *words) {
    Linker l;
    CuDevice device;
    CuContext context;
    if (!load(&l, words) || !ok(&l, l.init(0), "start", words) || !ok(&l, l.device(&device, 0), "find a GPU", words) ||
        !ok(&l, l.retain(&context, device), "make a context", words))
        return false;
    bool fine = ok(&l, l.use(context), "use its context", words) && assemble(&l, ptx, n, t, cubin, words);
    l.release(device);
    return fine;
}
