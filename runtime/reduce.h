// `tkc reduce`: the smallest program, or model, and arguments that still fail in the same way.
//
//   reduce.c        the search: what to try, in which order
//   reduce_text.c   edits of a program, by its syntax tree
//   reduce_args.c   edits of arguments: sizes, numbers, kinds of data
//   reduce_check.c  whether a candidate fails, and how: in a process of its own
//   graph/onnx/edit.c   edits of a model
#ifndef TK_RUNTIME_REDUCE_H
#define TK_RUNTIME_REDUCE_H

#include "graph/onnx/onnx.h"
#include "runtime/tk_run.h"

enum { REDUCE_ARGS = 256, REDUCE_TEXT = 200 };

typedef struct ReduceArg { char text[REDUCE_TEXT]; int place; bool gone; } ReduceArg;      // NAME=SPEC; place: random data depend on it

typedef struct ReduceCase {            // what is made smaller
    Buf       file;                    // a program's text, or a model's bytes
    ReduceArg arg[REDUCE_ARGS];
    int       nargs;
    CompileOptions compile;            // its schedule's words are left out where they can
} ReduceCase;

typedef struct ReduceHow {
    const char *path;                  // of the file: its imports and external data are beside it
    bool        model;
    const char *kernel, *graph;        // or NULL: the only one
    const char *device;                // compared with eval; NULL: emu
    const char *command;               // ends with 0 as long as the failure is there; {} is the candidate's path. NULL: devices are compared
    OnnxImport  import;
    double      rtol;                  // of the largest of a result: by how much results may differ. 0: by their type
    uint64_t    seed;
    int         seconds;               // a candidate may take
    int         most;                  // candidates
    FILE       *progress_to;           // or NULL
} ReduceHow;

// How it fails: "eval and emu differ", "internal error at lower/pass/split_k.c:88", ..; nothing: it does not. said: what it printed, a refusal's messages
// among it; or NULL.
void reduce_check(const ReduceHow *how, const ReduceCase *c, Buf *failure, Buf *said);

// False: it does not fail, or cannot be tried: err. What is left is in c, how it fails in failure.
bool reduce(const ReduceHow *how, ReduceCase *c, Buf *failure, Buf *err);

// ---- what the files share ------------------------------------------------------------------------

typedef struct TextEdit {              // [lo, hi) of the text becomes `by`; [from, to) of it, where there is none
    uint32_t    lo, hi, from, to;
    const char *by;
    const char *writers;               // a name: statements that write it go, too
    const char *param, *type;          // a parameter's element type: its argument gets it, too
} TextEdit;
typedef struct TextEdits { VEC(TextEdit) list; } TextEdits;

// In the arena of the session, those that take away most first; what cannot be parsed has none.
TextEdits reduce_edits(Session *s, const char *text, size_t n);
void text_without_writers(const char *name, Buf *text);
void text_edit(const TextEdit *e, const Buf *text, Buf *out);

// The k-th edit of the arguments (and of numbers in the program's text that are as large as a size); false: there are no more.
bool args_edit(const ReduceCase *c, int k, bool model, ReduceCase *out);
void args_mentioned(ReduceCase *c);    // arguments whose names the file does not hold any more are gone
void case_copy(const ReduceCase *from, ReduceCase *to);

#endif
