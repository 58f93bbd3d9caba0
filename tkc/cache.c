// tkc cache: what the cache on disk holds (runtime/cache.h), and emptying it.
#include <string.h>

#include "runtime/cache.h"
#include "tkc/tkc.h"

int main_cache(const Options *opt) {
    bool clear = opt->operands.n == 1 && strcmp(opt->operands.at[0], "clear") == 0;
    if (opt->operands.n > 0 && !clear) return wrong_use("cache takes nothing, or clear; not `%s`", opt->operands.at[opt->operands.n > 1]);
    Buf out = {0}, folder = {0};
    if (!cache_folder(&folder)) {
        buf_puts(&out, "there is no cache: TKC_CACHE=off, or neither TKC_CACHE_DIR, XDG_CACHE_HOME nor HOME says where\n");
    } else if (clear) {
        int n = cache_clear();
        buf_printf(&out, "%d file%s removed from %s\n", n, n == 1 ? "" : "s", folder.p);
    } else {
        CacheUse use = cache_use();
        buf_printf(&out, "%s: %d kernel%s, %.1f of %.0f MiB\n", folder.p, use.files, use.files == 1 ? "" : "s", (double)use.bytes / (1 << 20),
                   (double)use.bound / (1 << 20));
    }
    bool ok = output_write(NULL, out.p, out.n);
    buf_free(&out);
    buf_free(&folder);
    return ok ? DONE : FAILED;
}
