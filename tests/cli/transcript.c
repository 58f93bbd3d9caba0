// Runs transcripts of the command line: what was typed, what came out.
//
//     An unknown option names the nearest one.
//
//         $ tkc --emti=ptx add.tk
//         tkc: unknown option --emti; did you mean --emit?
//         [2]
//
// Lines that begin with four spaces are the transcript, the rest is prose. `$ ` starts a command; what
// follows, up to the next command or the end of the indented lines, is all that it writes (standard
// output and standard error together), and [N] its exit status when that is not 0. In an expected line
// `...` stands for any characters, and a line `...` for any number of lines. A line `?...` must come
// nowhere in the output.
//
// No shell: words are split at spaces ('..' and ".." keep them together), NAME=VALUE before the program
// sets its environment, `< FILE` and `> FILE` redirect. Programs are tkc (the one under test), `cat FILE`,
// `ls` and `mkdir NAME`, which are built in. The working folder is fresh and holds copies of data/*.
//
//     transcript TKC FILE.txt DATA WORK
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { WORDS = 64, TEXT = 1 << 20, LINES = 4096 };

static _Noreturn void die(const char *what, const char *name) {
    fprintf(stderr, "transcript: %s %s: %s\n", what, name, strerror(errno));
    exit(2);
}

static char *read_whole(const char *path) {
    FILE *f = fopen(path, "rb");
    if (f == NULL) return NULL;
    char *text = calloc(1, TEXT);
    if (text == NULL || fread(text, 1, TEXT - 1, f) == TEXT - 1) die("too long:", path);
    fclose(f);
    return text;
}

// ---- the working folder --------------------------------------------------------------------------

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static void remove_tree(const char *path) {
    struct dirent **entries;
    int n = scandir(path, &entries, NULL, by_name);
    for (int i = 0; i < n; i++) {
        const char *name = entries[i]->d_name;
        if (strcmp(name, ".") != 0 && strcmp(name, "..") != 0) {
            char inner[4096];
            snprintf(inner, sizeof inner, "%s/%s", path, name);
            if (unlink(inner) != 0) remove_tree(inner);
        }
        free(entries[i]);
    }
    if (n >= 0) free(entries);
    rmdir(path);
}

static void copy_file(const char *from, const char *to) {
    char bytes[4096];
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    if (in == NULL || out == NULL) die("copy", from);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, in)) > 0;) fwrite(bytes, 1, n, out);
    fclose(in);
    fclose(out);
}

static void copy_tree(const char *from, const char *to) {
    struct dirent **entries;
    if (mkdir(to, 0777) != 0) die("mkdir", to);
    int n = scandir(from, &entries, NULL, by_name);
    for (int i = 0; i < n; i++) {
        char inner[4096], copy[4096];
        struct stat st;
        snprintf(inner, sizeof inner, "%s/%s", from, entries[i]->d_name);
        snprintf(copy, sizeof copy, "%s/%s", to, entries[i]->d_name);
        if (entries[i]->d_name[0] != '.' && stat(inner, &st) == 0)
            (S_ISDIR(st.st_mode) ? copy_tree : copy_file)(inner, copy);
        free(entries[i]);
    }
    if (n >= 0) free(entries);
}

static void prepare(const char *data, const char *work) {
    remove_tree(work);
    copy_tree(data, work);
    if (chdir(work) != 0) die("cd", work);
}

// ---- commands ------------------------------------------------------------------------------------

typedef struct Command { char *word[WORDS]; int n; char *env[WORDS]; int nenv; const char *in, *out; } Command;

static Command split(char *line) {
    static char text[1 << 16];
    Command c = {.n = 0};
    char *to = text;
    for (char *p = line; *p != '\0';) {
        while (*p == ' ') p++;
        if (*p == '\0') break;
        char *word = to;
        for (char quote = 0; *p != '\0' && (quote != 0 || *p != ' '); p++) {
            if (quote == 0 && (*p == '\'' || *p == '"')) quote = *p;
            else if (*p == quote) quote = 0;
            else *to++ = *p;
        }
        *to++ = '\0';
        if (c.n == 0 && strchr(word, '=') != NULL) c.env[c.nenv++] = word;
        else c.word[c.n++] = word;
    }
    for (int i = 0; i + 1 < c.n; i++) {
        const char **file = strcmp(c.word[i], "<") == 0 ? &c.in : strcmp(c.word[i], ">") == 0 ? &c.out : NULL;
        if (file == NULL) continue;
        *file = c.word[i + 1];
        memmove(&c.word[i], &c.word[i + 2], sizeof c.word[0] * (size_t)(c.n - i - 2));
        c.n -= 2;
        i--;
    }
    c.word[c.n] = NULL;
    return c;
}

static char **environment(const Command *c) {
    static char *all[1024];
    int n = 0;
    for (char **e = environ; *e != NULL && n < 900; e++) {
        bool replaced = strncmp(*e, "NO_COLOR=", 9) == 0;
        for (int i = 0; i < c->nenv; i++) replaced |= strncmp(*e, c->env[i], strcspn(c->env[i], "=") + 1) == 0;
        if (!replaced) all[n++] = *e;
    }
    for (int i = 0; i < c->nenv; i++) all[n++] = c->env[i];
    all[n] = NULL;
    return all;
}

static int run_tkc(const char *tkc, Command *c, char *output) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, c->in != NULL ? c->in : "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "../output", O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);
    if (c->out != NULL) posix_spawn_file_actions_addopen(&actions, 1, c->out, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    else posix_spawn_file_actions_adddup2(&actions, 2, 1);
    char *argv[WORDS + 1] = {(char *)(unsigned long)tkc};
    memcpy(argv + 1, c->word + 1, sizeof *argv * (size_t)c->n);
    pid_t pid;
    if ((errno = posix_spawn(&pid, tkc, &actions, NULL, argv, environment(c))) != 0) die("start", tkc);
    posix_spawn_file_actions_destroy(&actions);
    int status;
    waitpid(pid, &status, 0);
    char *text = read_whole("../output");
    strcpy(output, text);
    free(text);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run(const char *tkc, Command *c, char *output) {
    output[0] = '\0';
    const char *program = c->n > 0 ? c->word[0] : "";
    if (strcmp(program, "tkc") == 0) return run_tkc(tkc, c, output);
    if (strcmp(program, "mkdir") == 0) return mkdir(c->word[1], 0777) != 0;
    if (strcmp(program, "cat") == 0) {
        char *text = read_whole(c->word[1]);
        strcpy(output, text != NULL ? text : "no such file\n");
        free(text);
        return text == NULL;
    }
    if (strcmp(program, "ls") == 0) {
        struct dirent **entries;
        int n = scandir(c->n > 1 ? c->word[1] : ".", &entries, NULL, by_name);
        for (int i = 0; i < n; i++)
            if (entries[i]->d_name[0] != '.') strcat(strcat(output, entries[i]->d_name), "\n");
        return n < 0;
    }
    errno = EINVAL;
    die("no such program in a transcript:", program);
}

// ---- comparing -----------------------------------------------------------------------------------

// `...` in `wanted` stands for any characters.
static bool line_matches(const char *wanted, const char *got) {
    const char *dots = strstr(wanted, "...");
    if (dots == NULL) return strcmp(wanted, got) == 0;
    size_t n = (size_t)(dots - wanted);
    if (strncmp(wanted, got, n) != 0) return false;
    for (got += n;; got++) {
        if (line_matches(dots + 3, got)) return true;
        if (*got == '\0') return false;
    }
}

static bool lines_match(char **wanted, int nwanted, char **got, int ngot) {
    if (nwanted == 0) return ngot == 0;
    if (wanted[0][0] == '?') {
        for (int i = 0; i < ngot; i++)
            if (line_matches(wanted[0] + 1, got[i])) return false;
        return lines_match(wanted + 1, nwanted - 1, got, ngot);
    }
    if (strcmp(wanted[0], "...") == 0) {
        for (int skip = 0; skip <= ngot; skip++)
            if (lines_match(wanted + 1, nwanted - 1, got + skip, ngot - skip)) return true;
        return false;
    }
    return ngot > 0 && line_matches(wanted[0], got[0]) && lines_match(wanted + 1, nwanted - 1, got + 1, ngot - 1);
}

static int cut(char *text, char **lines) {
    int n = 0;
    for (char *p = text; *p != '\0' && n < LINES;) {
        lines[n++] = p;
        p += strcspn(p, "\n");
        if (*p == '\n') *p++ = '\0';
    }
    return n;
}

static bool check(char *command, char **wanted, int n, const char *tkc, int line) {
    static char output[TEXT], copy[TEXT];
    static char *got[LINES];
    char status_line[16];
    Command c = split(command + 2);
    int status = run(tkc, &c, output);
    if (status != 0) snprintf(status_line, sizeof status_line, "[%d]\n", status), strcat(output, status_line);
    strcpy(copy, output);
    if (lines_match(wanted, n, got, cut(copy, got))) return true;
    printf("line %d: %s\nwanted:\n", line, command);
    for (int i = 0; i < n; i++) printf("    %s\n", wanted[i]);
    printf("got:\n");
    int m = cut(output, got);
    for (int i = 0; i < m; i++) printf("    %s\n", got[i]);
    return false;
}

int main(int argc, char **argv) {
    if (argc != 5) {
        fprintf(stderr, "usage: transcript TKC FILE DATA WORK\n");
        return 2;
    }
    static char *lines[LINES];
    char *text = read_whole(argv[2]);
    if (text == NULL) die("read", argv[2]);
    int n = cut(text, lines), failed = 0, commands = 0;
    prepare(argv[3], argv[4]);
    for (int i = 0; i < n;) {
        if (strncmp(lines[i], "    $ ", 6) != 0) {
            i++;
            continue;
        }
        int first = i++;
        char **wanted = &lines[i];
        for (; i < n && strncmp(lines[i], "    ", 4) == 0 && strncmp(lines[i], "    $ ", 6) != 0; i++) lines[i] += 4;
        commands++;
        failed += !check(lines[first] + 4, wanted, (int)(&lines[i] - wanted), argv[1], first + 1);
    }
    printf("%d commands, %d failed\n", commands, failed);
    return failed > 0 || commands == 0;
}
