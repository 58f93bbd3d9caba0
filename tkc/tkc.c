// tkc: which command, and what is said of each.
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "lang/limits.h"
#include "lang/temporary.h"
#include "runtime/tk_run.h"
#include "tkc/tkc.h"

// clang-format off
const Command command_table[] = {
    { "", C_EMIT, "FILE.tk [--emit=STAGE] [-o FILE] [options]\nFILE.onnx [--emit=tk|graph|fusion] [-o FILE] [options]\nFILE.ptx [--emit=report|cubin] [-o FILE] [options]",
      "compile a file of kernels",
      "Writes one stage of the compilation of FILE.tk (- is standard input): the PTX of all its kernels in one module, or "
      "any stage before or after. A compile-time parameter takes its value from --set, else its default; a default that "
      "depends on a dimension takes its fallback, and the PTX's head says so, beside what a launcher must pass and check.\n"
      "Stages: tokens, ast (the syntax tree), typed (one instance of each kernel, everything inlined), tile (the tile IR), "
      "layout (which thread holds what), llvm, ptx, cubin (machine code, by ptxas), report (registers, shared memory, "
      "bytes, flops, what each line led to), html (the report as a page: source beside decisions, layouts and roofline drawn), artifact (the kernels compiled, with what launching them needs: libtkc takes the file).\n"
      "A model in ONNX's format becomes a program of fused kernels, with a graph that launches them (--emit=tk, what is "
      "written if nothing is said): to be read, edited and run like any other. --emit=fusion says which kernels there are and "
      "why not fewer; --emit=graph writes the graph IR: operators as a few kinds of nodes, movement as index maps, sizes "
      "computed. Where a shape depends on the values of an input, --arg gives them.\n"
      "Of PTX, whoever made it, there are a report (--emit=report, what is written if nothing is said: entries and what they take, instructions by kind, registers) "
      "and machine code (--emit=cubin, for the file's own target or --arch).", NULL,
      "tkc softmax.tk -o softmax.ptx\n"
      "tkc matmul.tk --arch=sm_80 --set BM=64 --set T=f16\n"
      "tkc matmul.tk --emit=tile --after=pipeline --kernel=matmul\n"
      "tkc model.onnx -o model.tk",
      main_emit },
    { "run", C_RUN, "run FILE.tk [NAME=SPEC...] [options]\nrun FILE.onnx [NAME=SPEC...] [options]\nrun FILE.ptx [SPEC...] [options]",
      "run a kernel, a graph, a model or PTX on data",
      "Compiles one kernel, or plans a graph, runs it on the arguments given and prints its outputs, or saves them. Dimensions and element "
      "types are found from the arguments, and checked.\n"
      "Out tensors that are not named are made with the shape that the others give them, and printed.\n"
      "A model's inputs are given by their names, also as NAME=FILE.pb (one TensorProto); an output is saved where its name is "
      "given with a file, else printed.\n"
      "PTX that tkc wrote is run as the kernel is: its head says what it takes. Any other entry takes its parameters in their order, as SPEC, or by "
      "NAME=SPEC or NUMBER=SPEC: a tensor is copied to the device and its address passed (by value, where the parameter is an array of as many bytes), a "
      "number is of the parameter's type. NAME+BYTE=SPEC is a part of a struct that is passed by value: a tensor's address, a number of 4 bytes, or, as full(V):TYPE[], one of any type. "
      "box(64,32):SPEC is a tensor map, by value where the parameter (or part) has 128 bytes, else its address: one number for each axis of the tensor, in its order, then "
      "swizzle32, swizzle64, swizzle128, tf32."
      " --kernel may be a part of an entry's name. Blocks and threads are said by --grid, --block, --cluster, --shared and --cooperative, where the file does not. Memory that has changed is "
      "printed, or saved by --save. The emulator (--device=emu) checks every address and wait, and races in a block's shared memory; it does not find races in global memory. Arguments:", arg_help,
      "tkc run softmax.tk x=random:f32[37,1000]\n"
      "tkc run scale.tk --device=cuda x=x.npy a=0.5 y=y.npy\n"
      "tkc run mlp.tk --graph=mlp --random-weights x=random:f32[8,784]\n"
      "tkc run model.onnx --device=ref x=random:f32[8,784]\n"
      "tkc run scale.ptx --grid=8 --block=128 random:f32[1000] zeros:f32[1000] 0.5 1000",
      main_run },
    { "test", C_TEST, "test PATH... [options]",
      "run the test items of files",
      "Runs the `test` items of each file, and of each *.tk below each folder, on one device, and ends with a line `N passed, "
      "N failed, N skipped`. `std/NAME`, where no file has that path, is a file of the library in the binary, and `std` is all of it; "
      "other commands read `std/NAME` too.\n"
      "A launch is compiled as `tkc run` compiles it for the sizes of the test and for the target: the values of a tune item and the schedule "
      "that the kernel, the call, --set and --with leave open are those that were measured, or that the model chooses. Below a test that fails "
      "stand its launches and their schedules, as options with which it is had again.\n"
      "--all-schedules runs each test with its own choice, then with each value of each word of the schedule alone (of split_k, blocks, stages, "
      "cluster and resident_b some of each size), with up to 12 rows of each tune item, and with 24 random combinations. --with and --set stand, and what "
      "the source says of a launch. What no launch can have is refused and skipped, --verbose says why; so is what compiles to the code of a "
      "schedule before. Passed, failed and skipped then are counts of schedules; --seed draws others, --most=N takes N of each test.", NULL,
      "tkc test examples --device=emu\n"
      "tkc test std/attention --device=eval\n"
      "tkc test softmax.tk --device=eval --twice\n"
      "tkc test softmax.tk --device=emu --arch=sm_80 --all-schedules --most=20 --seed=1",
      main_test },
    { "tune", C_TUNE, "tune FILE.tk [KERNEL] [NAME=SPEC...] [options]",
      "measure what a kernel leaves open, on a GPU",
      "For each case of dimensions, measures the combinations of the kernel's tune item, with the schedules that are open besides (parts "
      "of a loop, walking, warps), and prints them beside what the model expects. The model leaves out what is far from its best, "
      "the assembler what spills or does not fit. One whose results are not those of the model's choice is refused. Each launch finds the caches full of other data; the best are measured in turns.\n"
      "NAME=SPEC is an argument as for `tkc run`, or a dimension or compile-time value (M=1024). A tensor that is not given has the "
      "shape that the dimensions give it, and random data (integers of four bytes or more: indices below the largest dimension); "
      "a number has to be given. Of a file of several kernels each is measured that takes nothing but values; why another is not "
      "stands beside it. Of one with a graph, as the program of a model is, it is each kernel that the graph launches, at the dimensions that it has there; NAME=SPEC and --at are then the graph's.\n"
      "The best of each case is kept on disk, by the kernel's meaning, its dimensions and the device, and taken from then on wherever the "
      "same is launched or compiled (`tkc cache measured` prints them, `tkc cache clear` forgets them); --write puts it into the source, -o writes all that was measured as a table, fields separated by tabs.", NULL,
      "tkc tune matmul.tk M=4096 N=4096 K=4096\n"
      "tkc tune matmul.tk --at M=1024,N=1024,K=1024 --at M=16,N=4096,K=4096 --write\n"
      "tkc tune softmax.tk x=random:bf16[8192,4096] -o softmax.tsv\n"
      "tkc resnet.onnx --dtype=bf16 -o resnet.tk && tkc tune resnet.tk --at batch=1 --at batch=32",
      main_tune },
    { "check-onnx", C_ONNX, "check-onnx FOLDER... [options]",
      "run models on recorded data, and compare",
      "Each FOLDER, and each folder below, that holds a model.onnx is a test: the model is run on each of its data sets "
      "(test_data_set_0/input_0.pb, .., output_0.pb, ..; one TensorProto each) and its outputs compared with those recorded. "
      "This is the form of ONNX's own backend tests, and the rule is theirs: the same element type and shape, and "
      "|got - expected| <= atol + rtol * |expected| at every element, where NaN equals NaN. A line for each test that "
      "fails says where; then come the reasons for which tests were skipped, and a line `N passed, N failed, N skipped`.\n"
      "Models with sequences, optionals, strings, maps, sparse tensors or complex numbers among their inputs and outputs, and "
      "those with operators for optionals, strings, random numbers or training, are skipped.", NULL,
      "tkc check-onnx /usr/share/libonnx-testdata/data/node --device=ref\n"
      "tkc check-onnx models --device=ref -R llama --relative-to=output",
      main_check_onnx },
    { "diff", C_DIFF, "diff MODEL.onnx [PROGRAM.tk] [NAME=SPEC...] [options]",
      "find the first value where a device and the interpreter part",
      "Runs the program that a model becomes, launch by launch, and compares every value that it keeps in memory with what the "
      "interpreter of the model's graph has. Either says of the first that differs its name, the node of the model that it comes "
      "from, the launch and kernel that made it, the element, both numbers and what was allowed, and ends with 1; or says how many "
      "values agree, and ends with 0. Then the results of the whole, launched at once, are compared with those of the model.\n"
      "An element may be off by --rtol of the largest of its value, and --atol besides. PROGRAM.tk is the same program, edited: "
      "its values are found by their names, what has a new name is passed over. Inputs are given as to `tkc run`, or lie in a "
      "folder: --data.", NULL,
      "tkc diff model.onnx x=random:f32[8,784]\n"
      "tkc diff model.onnx edited.tk --data=model/test_data_set_0 --device=cuda",
      main_diff },
    { "reduce", C_REDUCE, "reduce FILE.tk [NAME=SPEC...] [options]\nreduce FILE.onnx [NAME=SPEC...] -o FILE.onnx [options]",
      "make a failing program or model smaller",
      "Takes away statements, kernels, axes, parameters, operators of a model, and makes expressions, tiles, sizes, numbers, data and schedules simpler, as long as what "
      "remains fails as before; then writes it, with how it fails and the command that shows it. Each candidate is tried in a process of its own, for 30 seconds at most.\n"
      "What a failure is: results of eval and of the emulator (or --device) that differ from each other, or from those with --opt=none, by more than rounding (of models, those of the "
      "interpreter besides); an internal error; a crash; a sanitizer's report; a compilation that does not end. Or --shell says it.\n"
      "Arguments are those of `tkc run`.", NULL,
      "tkc reduce wrong.tk x='randint(-3,4):f32[2000]' --with=split_k=8 -o small.tk\n"
      "tkc reduce wrong.onnx x=random:f32[8,784] --dtype=f16 -o small.onnx\n"
      "tkc reduce slow.tk --shell='! timeout 5 tkc {} -o /dev/null'",
      main_reduce },
    { "explain", C_EXPLAIN, "explain CODE...",
      "what an error's code means",
      "Prints what stands in docs/errors.md of each code: the rule, a wrong example and a right one.", NULL,
      "tkc explain E0213",
      main_explain },
    { "devices", C_DEVICES, "devices",
      "the devices of this machine, and the targets",
      "Prints a line for each device, with the reason where one cannot be used, and the table of targets.", NULL,
      "tkc devices",
      main_devices },
    { "cache", C_CACHE, "cache [measured|clear]",
      "what is kept of compiled kernels, on disk",
      "Prints where the cache is, how many kernels it holds and how large it is; `measured` prints what `tkc tune` found, `clear` empties all. `tkc run`, `tkc test` and "
      "libtkc keep the PTX of what they compile there (and the machine code that ptxas makes of several kernels "
      "at once), by the sources, values, options and compiler that made it; nothing "
      "has to be cleared for a result to be right. The folder is TKC_CACHE_DIR, else XDG_CACHE_HOME/tkc, else HOME/.cache/tkc; "
      "it has to be the user's own, and nobody else may write it. "
      "TKC_CACHE_MIB bounds it (256), by removing what was not used for longest (looked at now and then, on average when a 64th of it was written); TKC_CACHE=off turns it off.", NULL,
      "tkc cache\n"
      "tkc cache measured\n"
      "tkc cache clear",
      main_cache },
    { "help", C_HELP, "help [COMMAND]",
      "this text, or that of a command",
      "", NULL,
      "tkc help run\n"
      "tkc help --man | man -l -",
      main_help },
};
// clang-format on
const int command_count = sizeof command_table / sizeof *command_table;

const Command *command_find(const char *name) {
    for (int i = 0; i < command_count; i++)
        if (strcmp(command_table[i].name, name) == 0) return &command_table[i];
    return NULL;
}

static int print(void (*make)(Buf *out)) {
    Buf out = {0};
    make(&out);
    bool ok = output_write(NULL, out.p, out.n);
    buf_free(&out);
    return ok ? DONE : FAILED;
}

static int print_help(const Command *c) {
    if (c->name[0] == '\0') return print(help_all);
    Buf out = {0};
    help_command(c, &out);
    bool ok = output_write(NULL, out.p, out.n);
    buf_free(&out);
    return ok ? DONE : FAILED;
}

int main_help(const Options *opt) {
    if (opt->man || opt->markdown) {
        Buf out = {0};
        (opt->man ? help_man : help_markdown)(&out);
        bool ok = output_write(opt->out, out.p, out.n);
        buf_free(&out);
        return ok ? DONE : FAILED;
    }
    if (opt->operands.n > 1) return wrong_use("help takes one command");
    const char *name = opt->operands.n == 1 ? opt->operands.at[0] : "";
    const Command *c = command_find(name);
    if (c != NULL) return print_help(c);
    const char *names[16];
    for (int i = 0; i < command_count; i++) names[i] = command_table[i].name;
    const char *near = nearest(name, names, command_count);
    if (near != NULL && near[0] != '\0') return wrong_use("there is no command `%s`; did you mean `%s`?", name, near);
    return wrong_use("there is no command `%s`", name);
}

// `tkc rum softmax.tk`
static bool misspelt(const Options *opt) {
    const char *names[32], *word = opt->operands.n > 0 ? opt->operands.at[0] : "";
    if (opt->command[0] != '\0' || access(word, F_OK) == 0 || strpbrk(word, "./") != NULL) return false;
    for (int i = 1; i < command_count; i++) names[i - 1] = command_table[i].name;
    const char *near = nearest(word, names, command_count - 1);
    if (near != NULL) wrong_use("there is no command `%s`, nor a file; did you mean `%s`?", word, near);
    return near != NULL;
}

// A file that is read is not written over.
static bool over_input(const Options *opt) {
    const char *outs[] = {opt->out, opt->trace};
    for (size_t k = 0; k < sizeof outs / sizeof *outs; k++) {
        struct stat out, in;
        if (outs[k] == NULL || stat(outs[k], &out) != 0 || !S_ISREG(out.st_mode)) continue;
        for (int i = 0; i < opt->operands.n; i++) {
            bool same = stat(opt->operands.at[i], &in) == 0 && in.st_dev == out.st_dev && in.st_ino == out.st_ino;
            if (same) return wrong_use("%s: that file is read, and would be written over", outs[k]), true;
        }
    }
    return false;
}

static int dispatch(int argc, char **argv, Arena *a) {
    if (argc < 2) {
        Buf out = {0};
        help_all(&out);
        fwrite(out.p, 1, out.n, stderr);
        buf_free(&out);
        return USAGE;
    }
    Options opt;
    if (!options_parse(argc, argv, a, &opt)) return USAGE;
    const Command *c = command_find(opt.command);
    if (limits_wrong() != NULL) return wrong_use("TKC_LIMITS: %s", limits_wrong());
    if (misspelt(&opt) || over_input(&opt)) return USAGE;
    if (opt.help) return print_help(c);
    if (opt.version) {
        printf("tkc %s\n", TK_VERSION);
        return DONE;
    }
    return c->run(&opt);
}

// Tensors, tiles and blocks of the emulator come and go by the megabyte. Given back to the system, each would be cleared
// and mapped again page by page.
static void keep_memory(void) {
#ifdef __GLIBC__
    mallopt(M_MMAP_MAX, 0);
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
#endif
}

typedef struct CommandLine { int argc; char **argv; int status; } CommandLine;

static void run(void *command_line) {
    CommandLine *c = command_line;
    Arena *a = arena_new();
    c->status = dispatch(c->argc, c->argv, a);
    if (!output_finish() && c->status == DONE) c->status = FAILED;
    arena_free(a);
}

int main(int argc, char **argv) {
    keep_memory();
    signal(SIGPIPE, SIG_IGN);          // a closed pipe is a failed write
    signal(SIGXFSZ, SIG_IGN);          // so is a file beyond the limit of its size
    temporary_on_signals();
    device_alone();
    Heap heap = {0};
    CommandLine c = {argc, argv, FAILED};
    heap.broken = !heap_run(&heap, run, &c);
    heap_end(&heap);                   // with what was on its way to a file
    if (!heap.broken) return c.status;
    fflush(stdout);
    fputs("tkc: out of memory\n", stderr);
    return FAILED;
}
