// A cache on disk: from a key, which is text, to bytes. One file for each, safe for many processes at once.
//
//     cache.c      files       artifact.c     what is kept of a compiled kernel
//
// Where: TKC_CACHE_DIR, else XDG_CACHE_HOME/tkc, else HOME/.cache/tkc; TKC_CACHE=off: nowhere. TKC_CACHE_MIB bounds it
// (256): beyond that what was not used for longest is removed, but nothing that was measured, which has a folder of its
// own. The folder is the user's alone. The environment is read at each call. Nothing here can fail loudly: what cannot be read or written is as if it
// had not been there.
#ifndef TK_RUNTIME_CACHE_H
#define TK_RUNTIME_CACHE_H

#include "lower/lower.h"

bool env_off(const char *name);                          // the variable says off, no, false or 0, in any case
bool cache_get(const Buf *key, Buf *out);                // false: not there, or not whole (then it is removed)
void cache_put(const Buf *key, const Buf *bytes);
bool cache_folder(Buf *path);                            // false: there is none
bool cache_refused(void);                                // it is another user's, or others may write it: nothing is read or written
typedef struct CacheUse { int files, measured; uint64_t bytes, bound; } CacheUse;
CacheUse cache_use(void);
// What was measured: keys that begin so. `any`: is there one at all?
#define CACHE_MEASURED "measured\n"
bool cache_any_measured(void);
void cache_each_measured(void (*see)(void *ctx, const Buf *bytes), void *ctx);
int  cache_clear(void);                                  // files removed

// ---- artifact.c

// The code of a kernel and what launching it needs, for a key that says all that decides them. The info lives in the
// session.
// `built`: what takes the same parameters; an entry that does not is none.
const LaunchInfo *artifact_get(Session *s, const Buf *key, const LaunchInfo *built, Buf *code);
// The same from an entry's bytes. NULL: they are no whole entry.
const LaunchInfo *artifact_entry(Session *s, const char *bytes, size_t n, Buf *code);
void artifact_put(Session *s, const Buf *key, const LaunchInfo *info, const Buf *code);
// Adds the sources of the session, the options and which compiler this is.
void artifact_key(Session *s, const CompileOptions *opt, const char *device, Buf *key);

#endif
