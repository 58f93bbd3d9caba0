// What must not outlive the program: files on their way to their names, a folder for ptxas, ptxas at work in it.
//
// Each is noted as long as it is there. A program that is told to end (Ctrl-C, SIGTERM, every signal that ends a program and
// is no fault of its own; abort, too) stops the children, removes the files and folders, and then ends of that signal, so that whoever started it sees 130 or 143. The library leaves
// signals to its caller; only `tkc` asks for this. A handler may do little: notes are atomic pointers in a table, taken
// out by whoever comes first, and unlink, rmdir, kill and waitpid are allowed to it.
#include "lang/temporary.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST = 256, CHILD = 1 << 16 };

static _Atomic(char *) paths[MOST];
static atomic_int children[MOST];

int temporary_note(const char *path) {
    char *copy = strdup(path);
    for (int i = 0; i < MOST && copy; i++) {
        char *none = NULL;
        if (atomic_compare_exchange_strong(&paths[i], &none, copy)) return i;
    }
    free(copy);
    return -1;
}

int temporary_child(int pid) {
    for (int i = 0; i < MOST; i++) {
        int none = 0;
        if (atomic_compare_exchange_strong(&children[i], &none, pid)) return CHILD + i;
    }
    return -1;
}

void temporary_forget(int note) {
    if (note >= CHILD) atomic_store(&children[note - CHILD], 0);
    else if (note >= 0) free(atomic_exchange(&paths[note], NULL));
}

static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGALRM, SIGVTALRM, SIGPROF,
                              SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ, SIGPIPE, SIGIO, SIGPWR};
enum { NUMBERS = sizeof numbers / sizeof *numbers };

sigset_t temporary_hold(void) {
    sigset_t ours, was;
    sigemptyset(&ours);
    for (int i = 0; i < NUMBERS; i++) sigaddset(&ours, numbers[i]);
    pthread_sigmask(SIG_BLOCK, &ours, &was);
    return was;
}

void temporary_release(sigset_t was) { pthread_sigmask(SIG_SETMASK, &was, NULL); }

static void remove_all(void) {
    char *folder[MOST];
    int   n = 0;
    for (int i = 0; i < MOST; i++) {
        int pid = atomic_exchange(&children[i], 0);
        if (pid > 0 && kill(pid, SIGKILL) == 0) waitpid(pid, NULL, 0);
    }
    for (int i = 0; i < MOST; i++) {
        char *path = atomic_exchange(&paths[i], NULL);
        if (path && unlink(path) != 0) folder[n++] = path;
    }
    for (int i = 0; i < n; i++) rmdir(folder[i]);
}

static void end(int number) {
    remove_all();
    raise(number);                      // whose handler is the usual one again
}

void temporary_on_signals(void) {
    for (int i = 0; i < NUMBERS; i++) {
        struct sigaction was, now = {.sa_handler = end, .sa_flags = (int)SA_RESETHAND | SA_NODEFER};
        sigemptyset(&now.sa_mask);
        if (sigaction(numbers[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN) sigaction(numbers[i], &now, NULL);
    }
}
