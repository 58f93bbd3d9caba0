// tkc explain, tkc devices: what is known without compiling anything.
#include <string.h>

#include "lang/c_text.h"
#include "runtime/device.h"
#include "tkc/tkc.h"

// "e213" and "213" mean E0213.
static const char *explanation(const char *code) {
    const char *text = diag_explain(code);
    const char *digits = code + (*code == 'E' || *code == 'e');
    if (text != NULL || *digits == '\0' || strlen(digits) > 4) return text;
    for (const char *c = digits; *c != '\0'; c++)
        if (!c_isdigit((unsigned char)*c)) return NULL;
    char full[] = "E0000";
    memcpy(full + sizeof full - 1 - strlen(digits), digits, strlen(digits));
    return diag_explain(full);
}

int main_explain(const Options *opt) {
    if (opt->operands.n == 0) return wrong_use("explain needs a code, like E0213");
    Buf out = {0};
    int status = DONE;
    for (int i = 0; i < opt->operands.n; i++) {
        const char *text = explanation(opt->operands.at[i]);
        if (text == NULL) {
            status = fail("there is no code `%s`: docs/errors.md lists them", opt->operands.at[i]);
            continue;
        }
        if (out.n > 0) buf_putc(&out, '\n');
        buf_puts(&out, text);
        if (out.p[out.n - 1] != '\n') buf_putc(&out, '\n');
    }
    if (out.n > 0 && !output_write(NULL, out.p, out.n)) status = FAILED;
    buf_free(&out);
    return status;
}

static void list_targets(Buf *out) {
    buf_puts(out, "\ntarget    PTX   such as    shared memory a block   can\n");
    for (int i = 0; i < target_count; i++) {
        const Target *t = &target_table[i];
        buf_printf(out, "%-9s %d.%d   %-10s %3u KiB                  ", t->name, t->ptx / 10, t->ptx % 10, t->gpu,
                   t->smem_block / 1024);
        for (int c = 0; c < cap_count; c++)
            if (target_has(t, &cap_table[c])) buf_printf(out, " %s", cap_table[c].name);
        buf_putc(out, '\n');
    }
}

int main_devices(const Options *opt) {
    if (opt->operands.n > 0) return wrong_use("devices takes no `%s`", opt->operands.at[0]);
    Buf out = {0};
    device_list(&(DeviceOptions){.ordinal = (int)opt->gpu, .driver = opt->driver}, &out);
    list_targets(&out);
    Arena *a = arena_new();
    const char *ptxas = ptxas_path(a);
    buf_printf(&out, "\nptxas     %s\n", ptxas != NULL ? ptxas : "not found: --emit=cubin asks the driver");
    arena_free(a);
    bool ok = output_write(NULL, out.p, out.n);
    buf_free(&out);
    return ok ? DONE : FAILED;
}
