// PTX that anyone made, run on data: `tkc run FILE.ptx`.
//
//     PtxFile f;
//     if (ptx_file_open(session, "scale.ptx", text, n, &f, &err)) ptx_run(&f, dev, &launch, args, nargs, &result, &err);
//     ptx_file_close(&f);
//
// A file that tkc wrote says in its head what a launcher must know: its arguments have the names and shapes of the source, outputs
// are made, and the grid follows. Any other file has its entry's parameters, in order, and the launch says the rest.
#ifndef TK_RUNTIME_PTX_RUN_H
#define TK_RUNTIME_PTX_RUN_H

#include "emu/emu.h"
#include "runtime/tk_run.h"

typedef struct PtxFile {
    Session          *session;
    const char       *path, *text;
    size_t            n;
    EmuContext       *emu;
    EmuModule        *outline;         // what it declares
    const LaunchInfo *head[256];       // of tkc
    int               nhead;
} PtxFile;

typedef struct PtxLaunch {
    const char *entry;                 // NULL: the only one
    uint32_t    grid[3], block[3], cluster[3];       // 0: not said
    int64_t     shared;                // dynamic, bytes; -1: not said
    bool        together;              // its blocks wait for each other
} PtxLaunch;

// False: err says why, and where.
bool ptx_file_open(Session *s, const char *path, const char *text, size_t n, PtxFile *out, Buf *err);
void ptx_file_close(PtxFile *f);
// By its name, or a part that no other has; NULL: the only one.
const EmuKernel  *ptx_entry(const PtxFile *f, const char *name, Buf *err);
const LaunchInfo *ptx_head(const PtxFile *f, const EmuKernel *k);                 // NULL: none
// What the entry takes, "x: u64, n: u32".
void ptx_signature(const EmuKernel *k, Buf *out);
// "path:12: words" of what the emulator said as "line 12: words".
void ptx_place(const char *path, const char *message, Buf *out);
// arg_parse for PTX: NAME=box(64,32):SPEC is a tensor map (ptx_map.c).
bool ptx_arg_parse(const char *text, int position, uint64_t seed, RunArg *out, Buf *err);
const char *arg_box_spec(const char *text);                                      // where box(...) begins, or NULL
// The map of a's tensor, which lies at the address.
bool ptx_map_make(Device *d, const char *name, const RunArg *a, uint64_t address, TensorMap *out, Buf *err);
// Arguments are named as parameters are, or by their number: 0=SPEC; NAME+8=SPEC is a part of one that is passed by value.
bool ptx_run(const PtxFile *f, Device *dev, const PtxLaunch *launch, RunArg *args, int nargs, RunResult *result, Buf *err);

#endif
