// Test cases that are files: found by folder, rewritten when TK_BLESS is set.
#ifndef TK_TESTS_IR_FILES_H
#define TK_TESTS_IR_FILES_H

#include "ir_test.h"

#include <dirent.h>

static inline bool bless(void) { return getenv("TK_BLESS") != NULL; }

static inline char *read_file(const char *path) {
    FILE *in = fopen(path, "rb");
    if (!in) fail_msg("cannot read %s", path);
    Buf b = {0};
    char block[4096];
    for (size_t n; (n = fread(block, 1, sizeof block, in)) > 0;) buf_add(&b, block, n);
    fclose(in);
    buf_puts(&b, "");
    return b.p;
}

static inline void write_file(const char *path, const char *text) {
    FILE *out = fopen(path, "wb");
    if (!out) fail_msg("cannot write %s", path);
    fputs(text, out);
    fclose(out);
}

static inline int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

// Calls `one` with each .tir file of a folder of tests/ir, in order of name; gives how many there were.
static inline int each_file(const char *folder, void (*one)(Session *s, const char *path, const char *text)) {
    char dir[1024], *names[512];
    int  n = 0;
    snprintf(dir, sizeof dir, "%s/%s", IR_CASES, folder);
    DIR *d = opendir(dir);
    if (!d) fail_msg("no folder %s", dir);
    for (struct dirent *e; (e = readdir(d)) && n < 512;) {
        size_t len = strlen(e->d_name);
        if (len > 4 && strcmp(e->d_name + len - 4, ".tir") == 0) names[n++] = strdup(e->d_name);
    }
    closedir(d);
    qsort(names, (size_t)n, sizeof *names, by_name);
    for (int i = 0; i < n; i++) {
        char path[2048];
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        char *text = read_file(path);
        Session *s = session_new();
        one(s, path, text);
        session_free(s);
        heap_free(text);
        free(names[i]);
    }
    return n;
}

#endif
