// tkc cache: what the cache on disk holds (runtime/cache.h), and emptying it.
#include <string.h>

#include "runtime/cache.h"
#include "runtime/tune.h"
#include "tkc/tkc.h"

typedef struct Seen { Buf out; Buf last; } Seen;

// Each is there twice: for its device, and for the target.
static void see(void *ctx, const Buf *bytes) {
    Seen *seen = ctx;
    TuneResult r;
    bool again = seen->last.n == bytes->n && memcmp(seen->last.p, bytes->p, bytes->n) == 0;
    if (again || !tune_parse(bytes, &r)) return;
    buf_free(&seen->last);
    buf_add(&seen->last, bytes->p, bytes->n);
    if (seen->out.n > 0) buf_putc(&seen->out, '\n');
    tune_print(&r, 1, &seen->out);
    tune_result_free(&r);
}

int main_cache(const Options *opt) {
    bool clear = opt->operands.n == 1 && strcmp(opt->operands.at[0], "clear") == 0;
    bool measured = opt->operands.n == 1 && strcmp(opt->operands.at[0], "measured") == 0;
    if (opt->operands.n > 0 && !clear && !measured)
        return wrong_use("cache takes nothing, measured or clear; not `%s`", opt->operands.at[opt->operands.n > 1]);
    Seen seen = {0};
    Buf out = {0}, folder = {0};
    if (!cache_folder(&folder)) {
        buf_puts(&out, "there is no cache: TKC_CACHE=off, or neither TKC_CACHE_DIR, XDG_CACHE_HOME nor HOME says where (or HOME is not there)\n");
    } else if (cache_refused()) {
        buf_printf(&out, "%s is not used: it belongs to another user, or others may write it (chmod go-w, or TKC_CACHE_DIR)\n", folder.p);
    } else if (clear) {
        int n = cache_clear();
        buf_printf(&out, "%d file%s removed from %s\n", n, n == 1 ? "" : "s", folder.p);
    } else if (measured) {
        cache_each_measured(see, &seen);
        buf_printf(&out, "%s", seen.out.n > 0 ? seen.out.p : "nothing was measured: tkc tune\n");
        buf_free(&seen.out);
        buf_free(&seen.last);
    } else {
        CacheUse use = cache_use();
        buf_printf(&out, "%s: %d kernel%s, %.1f of %.0f MiB", folder.p, use.files, use.files == 1 ? "" : "s",
                   (double)use.bytes / (1 << 20), (double)use.bound / (1 << 20));
        if (use.measured > 0)
            buf_printf(&out, "; %d result%s of tkc tune", use.measured / 2, use.measured / 2 == 1 ? "" : "s");
        buf_putc(&out, '\n');
    }
    bool ok = output_report(NULL, out.p, out.n);
    buf_free(&out);
    buf_free(&folder);
    return ok ? DONE : FAILED;
}
