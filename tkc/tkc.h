// tkc: the command-line program. Mains only: all the work is behind the doors of the libraries.
//
//   tkc.c       which command; the table of commands
//   options.c   the table of options, read and checked     help.c    the same table as --help, man page, Markdown
//   output.c    messages, files written whole or not at all
//   emit.c      FILE.tk --emit=STAGE                       values.c  --set NAME=VALUE
//   ptx.c       FILE.ptx --emit=report, cubin
//   run.c  test.c  tune.c  explain.c  model.c              the other commands
//
// Exit status: 0, 1 when something failed, 2 for a wrong command line. Every failure is one line on
// standard error that begins with `tkc: `, or diagnostics that point into the source.
#ifndef TK_TKC_TKC_H
#define TK_TKC_TKC_H

#include "lang/lang.h"
#include "ptx/ptx.h"
#include "tkc/options.h"

enum { DONE = 0, FAILED = 1, USAGE = 2 };

typedef struct Command {
    const char *name;                  // "" is what runs when no command is named
    unsigned    bit;                   // of Option.commands
    const char *synopsis;              // lines, without "tkc"
    const char *summary;
    const char *details;               // paragraphs
    const char *more;                  // lines that stand as they are, after them; or NULL
    const char *examples;              // lines
    int       (*run)(const Options *opt);
} Command;

extern const Command command_table[];
extern const int     command_count;
const Command *command_find(const char *name);             // NULL: no such command

// ---- output.c

int  fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));       // "tkc: ..." -> FAILED
int  wrong_use(const char *fmt, ...) __attribute__((format(printf, 1, 2)));  // "tkc: ...", a word on --help -> USAGE
// Writes to the file (by a temporary beside it that takes its name when it is complete), or to standard output
// when path is NULL or "-". False: the failure has been reported.
bool output_write(const char *path, const char *bytes, size_t n);
bool output_report(const char *path, const char *text, size_t n);    // for people: names of files as a terminal may see them
bool output_finish(void);              // flushes standard output; false: reported
bool make_folder(const char *path);    // with its parents; false: reported
bool wants_color(const Options *opt, FILE *to);
DiagStyle diag_style(const Options *opt);
bool report_diags(Session *s, const Options *opt);         // prints what is new; false when there are errors
double now_ms(void);
struct ProfileText;
bool wants_profile(const Options *opt);                    // --profile, --trace
// the table to standard output, --trace; false: reported
bool write_profile(const Options *opt, const struct ProfileText *p);

// ---- model.c: files whose name ends in .onnx

bool is_model(const Options *opt);     // the first operand
int  emit_model(const Options *opt);
int  run_model(const Options *opt);

// ---- ptx.c: files whose name ends in .ptx

bool is_ptx(const Options *opt);       // the first operand
int  emit_ptx(const Options *opt);

// ---- help.c

void help_command(const Command *c, Buf *out);             // --help
void help_all(Buf *out);                                   // tkc --help
void help_man(Buf *out);                                   // tkc(1)
void help_markdown(Buf *out);                              // docs/tkc.md

// ---- the commands

int main_emit(const Options *opt);
int main_run(const Options *opt);
int main_test(const Options *opt);
int main_reduce(const Options *opt);
int main_explain(const Options *opt);
int main_devices(const Options *opt);
int main_cache(const Options *opt);
int main_tune(const Options *opt);
int main_check_onnx(const Options *opt);
int main_diff(const Options *opt);
int main_help(const Options *opt);

#endif
