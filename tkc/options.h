// Options: one table, from which the parser, --help, the man page and the reference in docs/ are made.
//
// A row: letter (or 0), name, kind, name of its value (choices: a|b|c), the commands that take it, meaning. The
// name, with _ for -, is the field of Options that holds it.
#ifndef TK_TKC_OPTIONS_H
#define TK_TKC_OPTIONS_H

#include "lang/lang.h"

enum { C_EMIT = 1, C_RUN = 2, C_TEST = 4, C_EXPLAIN = 8, C_DEVICES = 16, C_HELP = 32, C_ONNX = 64, C_CACHE = 128, C_DIFF = 256, C_TUNE = 512, C_REDUCE = 1024, C_ALL = 2047,
       C_COMPILES = C_EMIT | C_RUN | C_TEST | C_TUNE | C_REDUCE };

// clang-format off
//    letter name    kind    value                                                        commands
#define OPTIONS(X) \
    X(0,   emit,      CHOICE, "tokens|ast|typed|tile|layout|llvm|ptx|cubin|report|html|plan|artifact|tk|graph|fusion", C_EMIT, \
      "what to write: a stage of the compilation (default: ptx; tile with --after; tk of a model)") \
    X('o', out,       TEXT,   "FILE",                                                      C_EMIT | C_HELP | C_TUNE | C_REDUCE, \
      "where to write it (default: standard output)") \
    X('k', kernel,    TEXT,   "NAME",                                                      C_EMIT | C_RUN | C_TUNE | C_REDUCE, \
      "this kernel only (default: all of the file)") \
    X('g', graph,     TEXT,   "NAME",                                                      C_EMIT | C_RUN | C_DIFF | C_TUNE | C_REDUCE, \
      "this graph of the file") \
    X(0,   arch,      ARCH,   "ARCH",                                                      C_COMPILES, \
      "the GPU to compile for (default: sm_90a, or the device's own)") \
    X(0,   set,       LIST,   "NAME=VALUE",                                                C_EMIT | C_RUN | C_TUNE | C_TEST, \
      "a compile-time value or a dimension (tests: a compile-time value that a launch leaves open): an integer, true, false or an element type; may be given again") \
    X(0,   with,      LIST,   "NAME=VALUE",                                                C_COMPILES, \
      "part of the schedule: warps, stages, cluster, split_k, blocks, persistent, sliced_k, pingpong, groups, stream_k, resident_b or privatize; may be given again") \
    X(0,   math,      CHOICE, "default|strict|fast",                                       C_COMPILES, \
      "strict: no multiply and add becomes an fma; fast: approximate division, square root and functions") \
    X(0,   opt,       CHOICE, "default|none",                                              C_COMPILES | C_ONNX | C_DIFF, \
      "none: only what tkc --passes calls required, no launch assumptions, and of a model no optional rewrites and a kernel for each value: slow, to compare with") \
    X(0,   general,   FLAG,   "",                                                          C_EMIT, \
      "the variant that assumes nothing of the arguments") \
    X('l', line_info, FLAG,   "",                                                          C_EMIT, \
      "line numbers of the source in the PTX") \
    X(0,   after,     TEXT,   "PASS",                                                      C_EMIT, \
      "stop after this pass of the tile IR, or of a model's graph") \
    X(0,   dump_dir,  TEXT,   "FOLDER",                                                    C_EMIT, \
      "write the tile IR after each pass there, as KERNEL.NN-PASS.tir; of a model its graph, as MODEL.NN-PASS.graph") \
    X(0,   passes,    FLAG,   "",                                                          C_EMIT, \
      "list the passes and end") \
    X(0,   list,      FLAG,   "",                                                          C_EMIT, \
      "list the file's kernels and end") \
    X(0,   verify,    MAYBE,  "ir|values",                                                 C_COMPILES | C_ONNX, \
      "check the tile IR, or a model's graph, after each pass; values: also evaluate it on the arguments of each launch, and on small integers, " \
      "and say which pass changes a result; of a model, which rewrite of its graph") \
    X(0,   time,      FLAG,   "",                                                          C_EMIT | C_RUN | C_TEST, \
      "a row of milliseconds for each stage (tests: for each test; run: of graphs and models, up to the results), on standard error") \
    X(0,   at,        LIST,   "NAME=N,...",                                                C_TUNE, \
      "dimensions to tune for, on top of what is given for all; may be given again") \
    X(0,   most,      COUNT,  "N",                                                         C_TUNE | C_REDUCE | C_TEST, \
      "how many candidates to measure, or to try, at most (default: 32; reduce: 4000; test --all-schedules: all, fewer are drawn by --seed)") \
    X(0,   all,       FLAG,   "",                                                          C_TUNE, \
      "measure all candidates, whatever the model expects of them, and print them") \
    X(0,   expect,    FLAG,   "",                                                          C_TUNE, \
      "measure nothing: what the model expects of all candidates, without a GPU") \
    X(0,   write,     FLAG,   "",                                                          C_TUNE, \
      "put what is the best into the tune item of the source, and print what changes") \
    X('d', device,    CHOICE, "auto|cuda|emu|eval|ref",                                    C_RUN | C_TEST | C_ONNX | C_DIFF | C_TUNE | C_REDUCE, \
      "where to run: a GPU, the emulator, the evaluator; auto is the GPU if there is one, else the emulator, or for " \
      "models ref, the interpreter of their graph") \
    X(0,   gpu,       COUNT,  "N",                                                         C_RUN | C_TEST | C_DEVICES | C_TUNE, \
      "which GPU, from 0") \
    X(0,   driver,    TEXT,   "FILE",                                                      C_RUN | C_TEST | C_DEVICES | C_TUNE, \
      "the driver's library (default: libcuda.so.1)") \
    X('a', arg,       LIST,   "NAME=SPEC",                                                 C_EMIT | C_RUN | C_DIFF | C_REDUCE, \
      "an argument, as without --arg; may be given again") \
    X(0,   grid,      TEXT,   "X[,Y,Z]",                                                   C_RUN, \
      "of PTX: how many blocks") \
    X(0,   block,     TEXT,   "X[,Y,Z]",                                                   C_RUN, \
      "of PTX: threads of a block (default: .reqntid)") \
    X(0,   cluster,   TEXT,   "X[,Y,Z]",                                                   C_RUN, \
      "of PTX: blocks of a cluster (default: .reqnctapercluster, or none)") \
    X(0,   shared,    TEXT,   "BYTES",                                                     C_RUN, \
      "of PTX: dynamic shared memory of a block") \
    X(0,   cooperative, FLAG, "",                                                          C_RUN, \
      "of PTX: a cooperative launch, whose blocks wait for each other (grid.sync)") \
    X(0,   allow,     LIST,   "races|uninitialised",                                       C_RUN, \
      "of PTX on the emulator: races in shared memory, or reads of shared memory that nothing wrote, are no faults; may be given again") \
    X(0,   save,      LIST,   "NAME=FILE.npy",                                             C_RUN, \
      "where the tensor is saved after the run, an `inout` one too; may be given again") \
    X(0,   seed,      NUMBER, "N",                                                         C_RUN | C_TEST | C_DIFF | C_TUNE | C_REDUCE, \
      "of random data (default: 0)") \
    X(0,   random_weights, FLAG, "",                                                       C_EMIT | C_RUN | C_TEST | C_DIFF | C_REDUCE, \
      "make up the weights that no file has, the same in each run") \
    X(0,   dtype,     CHOICE, "bf16|f16|tf32",                                       C_EMIT | C_RUN | C_ONNX | C_DIFF | C_REDUCE, \
      "of a model: weights and what is kept in memory are of this type, products sum in f32; tf32: f32 in memory, products of it with 10 bits") \
    X(0,   dtype_io,  FLAG,   "",                                                          C_EMIT | C_RUN | C_REDUCE, \
      "with --dtype: inputs and outputs of the model are, too") \
    X(0,   fix,       LIST,   "NAME=SIZE",                                                 C_EMIT | C_RUN | C_DIFF, \
      "of a model: a dimension of its inputs, by its name there, has this size for good; the program is for it alone, and faster; may be given again") \
    X(0,   donate,    FLAG,   "",                                                          C_EMIT | C_RUN | C_ONNX | C_DIFF, \
      "of a model: results take over the memory of inputs that they extend or update (key-value caches), where nothing needs the old values") \
    X(0,   profile,   FLAG,   "",                                                          C_RUN, \
      "of a graph: then run it launch by launch, and print the time, bytes and operations of each") \
    X(0,   trace,     TEXT,   "FILE",                                                      C_RUN, \
      "of a graph: time it as --profile does, and write a trace for chrome://tracing, or a page if FILE ends in .html") \
    X(0,   shell,     TEXT,   "TEXT",                                                      C_REDUCE, \
      "what is to fail, by the shell: {} is the candidate's path, and the command ends with 0 as long as the failure is there") \
    X('R', filter,    TEXT,   "TEXT",                                                      C_TEST | C_ONNX, \
      "only tests whose file and name hold this") \
    X(0,   data,      TEXT,   "FOLDER",                                                    C_DIFF, \
      "inputs that are not given: input_0.pb, input_1.pb, .. of this folder") \
    X(0,   rtol,      TEXT,   "X",                                                         C_ONNX | C_DIFF | C_REDUCE, \
      "how far a result may be off, relative to what is expected (default: 1e-3; diff: 6e-3 of f16, 5e-2 of bf16)") \
    X(0,   atol,      TEXT,   "X",                                                         C_ONNX | C_DIFF, \
      "and besides (default: 1e-7)") \
    X(0,   relative_to, CHOICE, "element|output",                                          C_ONNX, \
      "what --rtol is relative to: the element expected, or the largest of its output (default: element)") \
    X(0,   twice,     FLAG,   "",                                                          C_TEST, \
      "run each kernel again with other junk where nothing may be read, on emu in another order of warps too; results must be equal to the bit") \
    X(0,   defaults,  MAYBE,  "all|new",                                                   C_TEST, \
      "choose nothing: launches have the defaults, as where they are compiled for unknown sizes; new: only tests that have others without it") \
    X(0,   all_schedules, FLAG, "",                                                        C_TEST, \
      "run each test with every schedule that its launches can have: each word alone, rows of tune items, and random combinations, drawn by --seed") \
    X('v', verbose,   FLAG,   "",                                                          C_TEST | C_ONNX | C_DIFF | C_REDUCE, \
      "a line for each test that passes (and its schedules, and why others are not to be had), or value that agrees, too") \
    X(0,   diag,      CHOICE, "rich|short|json",                                           C_COMPILES, \
      "how mistakes in the source are shown (default: rich)") \
    X(0,   color,     CHOICE, "auto|always|never",                                         C_COMPILES, \
      "colours (default: auto: on a terminal, unless NO_COLOR is set)") \
    X(0,   man,       FLAG,   "",                                                          C_HELP, \
      "the manual page, for man -l") \
    X(0,   markdown,  FLAG,   "",                                                          C_HELP, \
      "the same as Markdown") \
    X('h', help,      FLAG,   "",                                                          C_ALL, \
      "this text") \
    X('V', version,   FLAG,   "",                                                          C_ALL, \
      "the version")
// clang-format on

typedef enum OptKind { OPT_FLAG, OPT_MAYBE, OPT_TEXT, OPT_LIST, OPT_CHOICE, OPT_ARCH, OPT_NUMBER, OPT_COUNT } OptKind;

typedef struct OptList { const char **at; int n; } OptList;

// The field's type by kind.
typedef bool        OptFLAG;
typedef const char *OptMAYBE;          // one of the choices, the first where --name has no value, or NULL
typedef const char *OptTEXT;
typedef OptList     OptLIST;
typedef const char *OptCHOICE;         // one of the choices, or NULL
typedef const char *OptARCH;           // a name in the target table, or NULL
typedef int64_t     OptNUMBER;         // 0 when not given
typedef int64_t     OptCOUNT;          // from 0 on

typedef struct Options {
    const char *command;               // "" when none was named
    OptList     operands;              // what is no option, the command not included
#define X(letter, name, kind, value, commands, meaning) Opt##kind name;
    OPTIONS(X)
#undef X
} Options;

typedef struct Option {
    char        letter;
    const char *name;                  // "dump-dir"
    OptKind     kind;
    const char *value;
    unsigned    commands;
    const char *meaning;
    size_t      offset;                // in Options
} Option;

extern const Option option_table[];
extern const int    option_count;

// False: the command line is wrong, and that has been reported. Strings point into argv.
bool options_parse(int argc, char **argv, Arena *a, Options *out);
// The one of n names nearest to `text`, or NULL when none is near.
const char *nearest(const char *text, const char *const *names, int n);
bool number_parse(const char *text, int64_t *out);         // decimal, 0x.., _ between digits, a sign

#endif
