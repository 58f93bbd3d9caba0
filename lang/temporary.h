// What must not outlive the program. See temporary.c.
#ifndef TK_TEMPORARY_H
#define TK_TEMPORARY_H

#include <signal.h>

// A file or an empty folder is there until it is forgotten, which nobody but the caller does; or a child is at work.
// -1: there is no room for more notes; forgetting that is nothing.
int  temporary_note(const char *path);
int  temporary_child(int pid);
void temporary_forget(int note);
// Between the two no signal comes to this thread: what is made is noted before one does.
sigset_t temporary_hold(void);
void     temporary_release(sigset_t was);
// From now on signals that end a program (SIGINT, SIGTERM, SIGQUIT, ..) first remove what is noted. For a program's `main`.
void temporary_on_signals(void);

#endif
