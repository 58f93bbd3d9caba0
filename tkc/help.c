// The tables of commands and options as text: --help, a manual page, Markdown.
#include <string.h>

#include "lang/c_text.h"
#include "lang/limits.h"
#include "tkc/tkc.h"

enum { WIDTH = 96, COLUMN = 26 };      // of --help: line length, where meanings begin

// ---- pieces --------------------------------------------------------------------------------------

static void option_name(const Option *o, Buf *out) {
    buf_puts(out, "--");
    for (const char *c = o->name; *c != '\0'; c++) buf_putc(out, *c == '_' ? '-' : *c);
}

static void option_value(const Option *o, Buf *out) {
    if (o->kind == OPT_MAYBE) buf_printf(out, "[=%s]", o->value);
    else if (o->kind != OPT_FLAG) buf_printf(out, "=%s", o->value);
}

// What --help shows beside the meaning: the targets are in a table of their own.
static void option_meaning(const Option *o, Buf *out) {
    buf_puts(out, o->meaning);
    if (o->kind != OPT_ARCH) return;
    for (int i = 0; i < target_count; i++)
        buf_printf(out, "%s%s", i == 0 ? ": " : i + 1 == target_count ? " or " : ", ", target_table[i].name);
}

// Words of `text` from `column` on, lines of at most WIDTH; the cursor is at `at`.
static void wrap(const char *text, int at, int column, Buf *out) {
    while (*text != '\0') {
        int n = (int)strcspn(text, " ");
        if (at > column && at + 1 + n > WIDTH) {
            buf_putc(out, '\n');
            at = 0;
        }
        if (at > column) {
            buf_putc(out, ' ');
            at++;
        }
        for (; at < column; at++) buf_putc(out, ' ');
        buf_add(out, text, (size_t)n);
        at += n;
        text += n;
        while (*text == ' ') text++;
    }
    buf_putc(out, '\n');
}

// Calls `line` for each line of `text`.
static void each_line(const char *text, Buf *out, void (*line)(const char *text, Buf *out)) {
    Buf one = {0};
    while (*text != '\0') {
        size_t n = strcspn(text, "\n");
        one.n = 0;
        buf_add(&one, text, n);
        line(one.p, out);
        text += n + (text[n] == '\n');
    }
    buf_free(&one);
}

static bool verbatim(const char *line) { return line[0] == ' '; }

// ---- --help --------------------------------------------------------------------------------------

static void help_paragraph(const char *line, Buf *out) {
    if (verbatim(line)) buf_printf(out, "%s\n", line);
    else wrap(line, 0, 0, out);
}

static void help_example(const char *line, Buf *out) { buf_printf(out, "  %s\n", line); }

static void help_option(const Option *o, Buf *out) {
    size_t start = out->n;
    if (o->letter != 0) buf_printf(out, "  -%c, ", o->letter);
    else buf_puts(out, "      ");
    option_name(o, out);
    option_value(o, out);
    int at = (int)(out->n - start);
    if (at + 2 > COLUMN) {
        buf_putc(out, '\n');
        at = 0;
    }
    Buf meaning = {0};
    option_meaning(o, &meaning);
    wrap(meaning.p, at, COLUMN, out);
    buf_free(&meaning);
}

static void help_options(const Command *c, Buf *out) {
    buf_puts(out, "\nOptions:\n");
    for (int i = 0; i < option_count; i++)
        if ((option_table[i].commands & c->bit) != 0) help_option(&option_table[i], out);
}

static void help_body(const Command *c, Buf *out) {
    if (c->details[0] != '\0') {
        buf_putc(out, '\n');
        each_line(c->details, out, help_paragraph);
    }
    if (c->more != NULL) each_line(c->more, out, help_paragraph);
    help_options(c, out);
    buf_puts(out, "\nExamples:\n");
    each_line(c->examples, out, help_example);
}

// The forms of a command, one to a line, each with `tkc` before it; `first` stands before the first of them.
static void synopsis(const Command *c, const char *first, const char *others, Buf *out) {
    for (const char *line = c->synopsis; *line != '\0';) {
        size_t n = strcspn(line, "\n");
        buf_printf(out, "%stkc %.*s\n", line == c->synopsis ? first : others, (int)n, line);
        line += n + (line[n] == '\n');
    }
}

void help_command(const Command *c, Buf *out) {
    buf_printf(out, "tkc %s: %s\n\n", c->name, c->summary);
    synopsis(c, "Usage: ", "       ", out);
    help_body(c, out);
}

static const char head[] = "the compiler of tk, a kernel language with named axes";
static const char status[] = "0; 1 when something failed; 2 when the command line was wrong.";
// clang-format off
static const struct { const char *name, *meaning; } environment[] = {
    { "CUDA_HOME", "where the CUDA toolkit is, for ptxas (--emit=cubin, --emit=report; several kernels loaded at once), after PATH" },
    { "TKC_PTXAS", "off: kernels are assembled by the driver alone, one after the other, whether there is a ptxas or not" },
    { "TKC_CACHE", "off: nothing is kept of compiled kernels, see tkc cache" },
    { "TKC_CACHE_DIR", "the folder of what is kept (default: XDG_CACHE_HOME/tkc, else HOME/.cache/tkc)" },
    { "TKC_CACHE_MIB", "how large it may grow (default: 256)" },
    { "TKC_LIMITS", "name=value,..: other limits than those below, with k, m or g for 2^10, 2^20 or 2^30 of them" },
    { "TMPDIR",    "where temporary files go (default: /tmp)" },
    { "NO_COLOR",  "no colours, if set and not empty" },
};
// clang-format on
enum { ENVIRONMENT = sizeof environment / sizeof *environment };

static const char limits_head[] =
    "\n## Limits\n\nWhat is larger than a limit is refused with the number, the limit and, for tiles, the largest that works. Examples, library "
    "and tests stay far below. `TKC_LIMITS=instructions=1m,tile-ops=100000` raises two of them, up to the most.\n\n"
    "| name | default | most | unit | what it bounds |\n|---|---|---|---|---|\n";

void help_all(Buf *out) {
    buf_printf(out, "tkc %s, %s\n\n", TK_VERSION, head);
    for (int i = 0; i < command_count; i++) synopsis(&command_table[i], i == 0 ? "Usage: " : "       ", "       ", out);
    help_body(&command_table[0], out);
    buf_puts(out, "\nCommands (tkc COMMAND --help says more):\n");
    for (int i = 1; i < command_count; i++) buf_printf(out, "  %-10s %s\n", command_table[i].name, command_table[i].summary);
    buf_printf(out, "\nExit status: %s\n", status);
}

// ---- tkc(1) --------------------------------------------------------------------------------------

static void roff(const char *text, Buf *out) {
    if (*text == '.' || *text == '\'') buf_puts(out, "\\&");
    for (; *text != '\0'; text++) {
        if (*text == '\\') buf_puts(out, "\\e");
        else if (*text == '-') buf_puts(out, "\\-");
        else buf_putc(out, *text);
    }
}

static void roff_paragraph(const char *line, Buf *out) {
    buf_puts(out, verbatim(line) ? ".br\n" : ".PP\n");
    if (verbatim(line)) {
        buf_puts(out, ".nf\n");
        roff(line, out);
        buf_puts(out, "\n.fi\n");
        return;
    }
    roff(line, out);
    buf_putc(out, '\n');
}

static void roff_option(const Option *o, Buf *out) {
    Buf text = {0};
    if (o->letter != 0) buf_printf(&text, "-%c, ", o->letter);
    option_name(o, &text);
    buf_puts(out, ".TP\n\\fB");
    roff(text.p, out);
    buf_puts(out, "\\fR");
    text.n = 0;
    buf_puts(&text, "");
    option_value(o, &text);
    if (o->kind != OPT_FLAG) roff(text.p, out);
    buf_putc(out, '\n');
    text.n = 0;
    option_meaning(o, &text);
    roff(text.p, out);
    buf_putc(out, '\n');
    buf_free(&text);
}

static void roff_example(const char *line, Buf *out) {
    roff(line, out);
    buf_putc(out, '\n');
}

static void roff_synopsis(const char *line, Buf *out) {
    buf_puts(out, "\\fBtkc\\fR ");
    roff(line, out);
    buf_puts(out, "\n.br\n");
}

void help_man(Buf *out) {
    buf_printf(out, ".TH TKC 1 \"\" \"tk %s\" \"User commands\"\n.SH NAME\ntkc \\- ", TK_VERSION);
    roff(head, out);
    buf_puts(out, "\n.SH SYNOPSIS\n");
    for (int i = 0; i < command_count; i++) {
        each_line(command_table[i].synopsis, out, roff_synopsis);
    }
    for (int i = 0; i < command_count; i++) {
        const Command *c = &command_table[i];
        buf_puts(out, ".SH ");
        for (const char *p = i == 0 ? "description" : c->name; *p != '\0'; p++)
            buf_putc(out, (char)c_toupper((unsigned char)*p));
        buf_puts(out, "\n");
        if (c->details[0] != '\0') each_line(c->details, out, roff_paragraph);
        else roff_paragraph(c->summary, out);
        if (c->more != NULL) each_line(c->more, out, roff_paragraph);
        for (int o = 0; o < option_count; o++)
            if ((option_table[o].commands & c->bit) != 0 && (i == 0 || option_table[o].commands != C_ALL))
                roff_option(&option_table[o], out);
        buf_puts(out, ".PP\nExamples:\n.PP\n.nf\n.RS\n");
        each_line(c->examples, out, roff_example);
        buf_puts(out, ".RE\n.fi\n");
    }
    buf_puts(out, ".SH EXIT STATUS\n");
    roff(status, out);
    buf_puts(out, "\n.SH ENVIRONMENT\n");
    for (int i = 0; i < ENVIRONMENT; i++)
        buf_printf(out, ".TP\n\\fB%s\\fR\n%s\n", environment[i].name, environment[i].meaning);
    buf_puts(out, ".SH LIMITS\n");
    for (int i = 0; i < LIMIT_COUNT; i++)
        buf_printf(out, ".TP\n\\fB%s\\fR (%lld %s)\n%s\n", limit_table[i].name, (long long)limit_table[i].usual, limit_table[i].unit,
                   limit_table[i].meaning);
}

// ---- docs/tkc.md ---------------------------------------------------------------------------------

static void mark_paragraph(const char *line, Buf *out) { buf_printf(out, "%s%s\n", verbatim(line) ? "    " : "\n", line); }
static void mark_example(const char *line, Buf *out) { buf_printf(out, "    %s\n", line); }

static void mark_option(const Option *o, Buf *out) {
    buf_puts(out, "| ");
    if (o->letter != 0) buf_printf(out, "`-%c`, ", o->letter);
    buf_putc(out, '`');
    option_name(o, out);
    Buf value = {0};
    buf_puts(&value, "");
    option_value(o, &value);
    for (const char *c = value.p; *c != '\0'; c++) {
        if (*c == '|') buf_putc(out, '\\');                  // a table's own separator
        buf_putc(out, *c);
    }
    buf_puts(out, "` | ");
    option_meaning(o, out);
    buf_puts(out, " |\n");
    buf_free(&value);
}

void help_markdown(Buf *out) {
    buf_printf(out, "# tkc\n\n`tkc` is %s. This page is `tkc help --markdown`.\n\nExit status: %s\n", head, status);
    for (int i = 0; i < command_count; i++) {
        const Command *c = &command_table[i];
        buf_printf(out, "\n## tkc%s%s: %s\n\n", c->name[0] != '\0' ? " " : "", c->name, c->summary);
        synopsis(c, "    ", "    ", out);
        each_line(c->details, out, mark_paragraph);
        if (c->more != NULL) buf_putc(out, '\n'), each_line(c->more, out, mark_paragraph);
        buf_puts(out, "\n| option | meaning |\n|---|---|\n");
        for (int o = 0; o < option_count; o++)
            if ((option_table[o].commands & c->bit) != 0) mark_option(&option_table[o], out);
        buf_puts(out, "\nExamples:\n\n");
        each_line(c->examples, out, mark_example);
    }
    buf_puts(out, "\n## Environment\n\n| name | meaning |\n|---|---|\n");
    for (int i = 0; i < ENVIRONMENT; i++) buf_printf(out, "| `%s` | %s |\n", environment[i].name, environment[i].meaning);
    buf_puts(out, limits_head);
    for (int i = 0; i < LIMIT_COUNT; i++)
        buf_printf(out, "| `%s` | %lld | %lld | %s | %s |\n", limit_table[i].name, (long long)limit_table[i].usual,
                   (long long)limit_table[i].most, limit_table[i].unit, limit_table[i].meaning);
}
