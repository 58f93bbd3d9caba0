// Keeps the documents true.
//
//     docs page TRANSCRIPT TKC PAGE.md WORK [FOLDER]    every kernel on the page compiles, every command prints what is shown;
//                                                       the folder is there, under its name
//     docs links PAGE.md...                   relative links lead somewhere, #anchors to a heading
//     docs map ROOT ARCHITECTURE.md           the map, or the README.md to which it leads, names each
//                                             source file, and nothing that is not there
//     docs ops PAGE.md                        the page is the tile IR's op table (--bless writes it)
//     docs library PAGE.md FILE.tk...         each fn and kernel of the library has a heading, and stands there as it is declared
//     docs includes ROOT                      folders include only those that they may, and few files know LLVM, say
//
// On a page that is run, a block of tk says how it is called: ```tk add.tk. It becomes a file, and must compile
// without a message; with a word more, ```tk add.tk wrong or ```tk t.tk tests, it only becomes a file. A block
// ```console is a transcript of commands in the folder of those files, in the form of tests/cli/transcript.c: `$ `
// before a command, `...` for what is left out. The numbers of values (%n.12, %r7) and the padding beside them may
// be others. Blocks of other kinds (sh, text, a drawing) are not looked at.
#define _GNU_SOURCE
#include <ctype.h>
#include <dirent.h>
#include <fnmatch.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lower/ir/ops.h"

enum { LINES = 8192, PATH = 8192, NAME = 128 };

static int failures;

static void fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    failures++;
}

static char *read_whole(const char *path) {
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t size = 0;
    if (!f || getdelim(&text, &size, '\0', f) < 0) { perror(path); exit(2); }
    fclose(f);
    return text;
}

static int cut(char *text, char **lines) {
    int n = 0;
    for (char *p = text; *p; ) {
        if (n == LINES) { printf("too long a page\n"); exit(2); }
        lines[n++] = p;
        p += strcspn(p, "\n");
        if (*p) *p++ = '\0';
    }
    return n;
}

static bool starts(const char *s, const char *with) { return strncmp(s, with, strlen(with)) == 0; }

static FILE *create(const char *path) {
    FILE *f = fopen(path, "wb");
    if (!f) { perror(path); exit(2); }
    return f;
}

// ---- page ----------------------------------------------------------------------------------------

// A line that should come out, with `...` for the numbers of values and, beside them, for runs of spaces.
static void put_wanted(FILE *out, const char *line) {
    bool loose = strchr(line, '%') && !starts(line, "$ ");
    const char *p = line + strspn(line, " ");
    fprintf(out, "    %.*s", (int)(p - line), line);
    while (*p) {
        if (loose && p[0] == ' ' && p[1] == ' ') {
            fputs("...", out);
            p += strspn(p, " ");
        } else if (loose && *p == '%') {
            do fputc(*p++, out); while (isalpha((unsigned char)*p) || *p == '_' || *p == ':');
            size_t dot = *p == '.', digits = strspn(p + dot, "0123456789");
            if (digits) { fputs("...", out); p += dot + digits; }
        } else {
            fputc(*p++, out);
        }
    }
}

// Writes the page's files into WORK/data and its commands, on the lines where they stand, into WORK/page.txt.
static int run_page(const char *transcript, const char *tkc, const char *page, const char *work, const char *folder) {
    static char *lines[LINES];
    char data[PATH / 2], script[PATH / 2], path[PATH], inner[PATH / 2];
    snprintf(data, sizeof data, "%s/data", work);
    snprintf(script, sizeof script, "%s/page.txt", work);
    snprintf(inner, sizeof inner, "%s/work", work);
    mkdir(work, 0777), mkdir(data, 0777);
    DIR *old = opendir(data);                              // files of an earlier run
    for (struct dirent *e; old && (e = readdir(old)); ) {
        snprintf(path, sizeof path, "%s/%s", data, e->d_name);
        if (e->d_name[0] != '.') unlink(path);
    }
    if (old) closedir(old);
    if (folder) {
        snprintf(path, sizeof path, "%s/%s", data, strrchr(folder, '/') + 1);
        if (symlink(folder, path) != 0) perror(path);
    }

    FILE *out = create(script), *file = NULL;
    char name[NAME] = "", how[16] = "";
    bool console = false, other = false;
    int n = cut(read_whole(page), lines);
    for (int i = 0; i < n; i++) {
        bool fence = starts(lines[i], "```");
        if (file && fence) {
            fclose(file), file = NULL;
            if (*how == '\0') fprintf(out, "    $ tkc %s -o %s.ptx", name, name);
        } else if (file) {
            fprintf(file, "%s\n", lines[i]);
        } else if (console || other) {
            if (console && !fence) put_wanted(out, lines[i]);
            if (fence) console = other = false;
        } else if (starts(lines[i], "```tk")) {
            *name = *how = '\0';
            sscanf(lines[i] + 5, " %127s %15s", name, how);
            snprintf(path, sizeof path, "%s/%s", data, name);
            if (*name == '\0') fail("%s:%d: a block of tk without a name", page, i + 1);
            else if (access(path, F_OK) == 0) fail("%s:%d: there is another %s on this page", page, i + 1, name);
            if (*name == '\0') snprintf(path, sizeof path, "%s/nameless.tk", data);
            file = create(path);
        } else if (fence) {
            console = starts(lines[i], "```console");
            other = !console;
        }
        fputs("\n", out);
    }
    fclose(out);
    if (file || console || other) fail("%s: the last block is not closed", page);
    if (failures) return 1;
    execl(transcript, transcript, tkc, script, data, inner, (char *)NULL);
    perror(transcript);
    return 2;
}

// ---- links ---------------------------------------------------------------------------------------

// A heading as the end of a link: letters and digits lower-case, spaces as dashes, the rest left out.
static void anchor_of(const char *heading, char *out) {
    for (heading += strspn(heading, "# "); *heading; heading++) {
        unsigned char c = (unsigned char)*heading;
        if (isalnum(c) || c == '_' || c == '-' || c >= 0x80) *out++ = (char)tolower(c);
        else if (c == ' ') *out++ = '-';
    }
    *out = '\0';
}

static bool has_anchor(const char *page, const char *anchor) {
    static char *lines[LINES];
    char *text = read_whole(page), found[1024];
    int n = cut(text, lines);
    bool yes = false;
    for (int i = 0; i < n && !yes; i++) {
        if (lines[i][0] != '#' || strlen(lines[i]) >= sizeof found) continue;
        anchor_of(lines[i], found);
        yes = strcmp(found, anchor) == 0;
    }
    free(text);
    return yes;
}

static void check_link(const char *page, int line, const char *link) {
    char *target = NULL, *anchor;
    const char *slash = strrchr(page, '/');
    int keep = link[0] == '#' ? (int)strlen(page) : slash ? (int)(slash - page) + 1 : 0;
    if (starts(link, "http://") || starts(link, "https://")) return;
    if (asprintf(&target, "%.*s%s", keep, page, link) < 0) exit(2);
    if ((anchor = strchr(target, '#'))) *anchor++ = '\0';
    if (access(target, F_OK) != 0) fail("%s:%d: [...](%s) leads nowhere", page, line, link);
    else if (anchor && !has_anchor(target, anchor)) fail("%s:%d: [...](%s): no such heading", page, line, link);
    free(target);
}

static void check_links(const char *page) {
    static char *lines[LINES];
    char *text = read_whole(page), link[PATH];
    int n = cut(text, lines), in_block = 0;
    for (int i = 0; i < n; i++) {
        if (starts(lines[i], "```")) in_block ^= 1;
        if (in_block) continue;
        bool code = false;
        for (char *p = lines[i]; *p; p++) {
            if (*p == '`') code = !code;
            if (code || p[0] != ']' || p[1] != '(') continue;
            size_t size = strcspn(p + 2, ")");
            snprintf(link, sizeof link, "%.*s", (int)size, p + 2);
            check_link(page, i + 1, link);
        }
    }
    free(text);
}

// ---- map -----------------------------------------------------------------------------------------
// The map has two forms of a folder. A heading `### name/` has a table below it. An item "-
// [`name/`](../name/README.md)" sends the reader to that file, whose tables count instead. What stands in
// `backquotes` in the first cell of a table's row is a file of the folder, or a pattern of files. A folder
// inside another one may have a table or a README of its own; its files count only there.

typedef struct Entry { char pattern[NAME]; const char *page; int folder, line; bool used; } Entry;

static Entry entries[4096];
static int nentries;
static char folders[64][64];
static bool has_readme[64];
static int nfolders;

static void read_row(const char *page, int line, const char *row, int folder) {
    const char *cell_end = row[0] == '|' ? strchr(row + 1, '|') : NULL;
    for (const char *p = row; cell_end && (p = strchr(p, '`')) && p < cell_end; ) {
        size_t size = strcspn(p + 1, "`");
        if (nentries == 4096 || size >= sizeof entries->pattern) { printf("too long a map\n"); exit(2); }
        Entry *e = &entries[nentries++];
        snprintf(e->pattern, sizeof e->pattern, "%.*s", (int)size, p + 1);
        e->page = page, e->folder = folder, e->line = line;
        p += size + 2;
    }
}

// The name in front of "/`", as the next folder of the map.
static int add_folder(const char *page, int line, const char *name, bool readme) {
    char added[sizeof *folders];
    const char *end = strstr(name, "/`");
    if (nfolders == 64) { printf("too long a map\n"); exit(2); }
    snprintf(added, sizeof added, "%.*s", (int)(end - name), name);
    for (int i = 0; i < nfolders; i++)
        if (strcmp(folders[i], added) == 0) fail("%s:%d: `%s/` is on the map twice", page, line, added);
    strcpy(folders[nfolders], added);
    has_readme[nfolders] = readme;
    return nfolders++;
}

static void read_readme(const char *root, const char *map, int line, const char *link, int folder) {
    char wanted[NAME], *page = NULL, *text, *at;
    bool in_block = false;
    int number = 1;
    snprintf(wanted, sizeof wanted, "/`](../%s/README.md)", folders[folder]);
    if (!starts(link, wanted))
        fail("%s:%d: the link of `%s/` must be (../%s/README.md)", map, line, folders[folder],
             folders[folder]);
    if (asprintf(&page, "%s/%s/README.md", root, folders[folder]) < 0) exit(2);
    if (access(page, F_OK) != 0) { fail("%s:%d: there is no %s", map, line, page); return; }
    for (text = at = read_whole(page); *at; number++) {
        size_t size = strcspn(at, "\n");
        bool more = at[size] != '\0';
        at[size] = '\0';
        if (starts(at, "```")) in_block = !in_block;
        if (!in_block) read_row(page, number, at, folder);
        at += size + more;
    }
    free(text);
}

static void read_map(const char *root, const char *path) {
    static char *lines[LINES];
    int n = cut(read_whole(path), lines), folder = -1;
    bool in_block = false;
    for (int i = 0; i < n; i++) {
        const char *end = strstr(lines[i], "/`");
        if (starts(lines[i], "```")) in_block = !in_block;
        if (in_block) continue;
        if (lines[i][0] == '#') folder = -1;
        if (starts(lines[i], "### `") && end) folder = add_folder(path, i + 1, lines[i] + 5, false);
        else if (starts(lines[i], "- [`") && end && strstr(lines[i], "README.md"))
            read_readme(root, path, i + 1, end, add_folder(path, i + 1, lines[i] + 4, true));
        if (folder >= 0) read_row(path, i + 1, lines[i], folder);
    }
}

static bool is_source(const char *name) {
    static const char *const kinds[] = {
        ".c", ".h", ".re", ".y", ".tk", ".cmake", ".py", ".sh", ".tir", ".ptx", ".cu", ".md",
    };
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(dot, kinds[i]) == 0) return true;
    return false;
}

static bool is_skipped(const char *root, const char *name) {
    char path[PATH];
    struct stat info;
    if (name[0] == '.' || starts(name, "build") || strcmp(name, "__pycache__") == 0) return true;
    snprintf(path, sizeof path, "%s/%s/CMakeCache.txt", root, name);
    return stat(path, &info) == 0;
}

static int walk(const char *root, const char *inner, int folder);

static bool has_section(const char *folder, const char *inner) {
    char whole[2 * PATH];
    snprintf(whole, sizeof whole, "%s/%s", folder, inner);
    for (int i = 0; i < nfolders; i++) if (strcmp(folders[i], whole) == 0) return true;
    return false;
}

static int visit(const char *root, const char *inner, const char *name, int folder) {
    char path[PATH], whole[PATH];
    struct stat info;
    int n = snprintf(path, sizeof path, "%s%s%s", inner, *inner ? "/" : "", name);
    int m = snprintf(whole, sizeof whole, "%s/%s", root, path);
    if (n >= PATH || m >= PATH || stat(whole, &info) != 0) return 0;
    if (S_ISDIR(info.st_mode)) {
        if (has_section(folders[folder], path)) return 1;
        int files = walk(root, path, folder);
        if (files > 0 && has_readme[folder])
            fail("the folder `%s/%s/` needs a README.md, and an item with its link on the map",
                 folders[folder], path);
        return files;
    }
    bool listed = !is_source(name) || (has_readme[folder] && strcmp(path, "README.md") == 0);
    for (int i = 0; i < nentries; i++) {
        if (entries[i].folder != folder || fnmatch(entries[i].pattern, path, 0) != 0) continue;
        listed = entries[i].used = true;
    }
    if (!listed) fail("%s/%s is not on the map: give it a row, in a few words, %s", folders[folder], path,
                      has_readme[folder] ? "in its folder's README.md" : "under its folder");
    return 1;
}

static int walk(const char *root, const char *inner, int folder) {
    char path[PATH];
    struct dirent **names;
    int files = 0;
    snprintf(path, sizeof path, "%s/%s", root, inner);
    int n = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = names[i]->d_name;
        if (name[0] != '.' && strcmp(name, "__pycache__") != 0) files += visit(root, inner, name, folder);
        free(names[i]);
    }
    if (n >= 0) free(names);
    return files;
}

static void check_map(const char *root, const char *page) {
    char path[PATH];
    struct stat info;
    read_map(root, page);
    for (int i = 0; i < nfolders; i++) {
        snprintf(path, sizeof path, "%s/%s", root, folders[i]);
        if (walk(path, "", i) == 0) fail("%s: the folder `%s/` is not there, or holds nothing", page, folders[i]);
    }
    for (const Entry *e = entries; e < entries + nentries; e++)
        if (!e->used && !strchr(e->pattern, '*'))
            fail("%s:%d: `%s`: no such file in %s/", e->page, e->line, e->pattern, folders[e->folder]);
    DIR *dir = opendir(root);
    for (struct dirent *e; dir && (e = readdir(dir)); ) {
        bool known = false;
        snprintf(path, sizeof path, "%s/%s", root, e->d_name);
        if (is_skipped(root, e->d_name) || stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) continue;
        for (int i = 0; i < nfolders; i++) known |= strcmp(folders[i], e->d_name) == 0;
        DIR *inside = known ? NULL : opendir(path);
        int held = 0;
        while (inside && readdir(inside)) held++;
        if (inside) closedir(inside);
        if (!known && held > 2) fail("%s: the folder `%s/` has no section", page, e->d_name);
    }
    if (dir) closedir(dir);
}

// ---- ops -----------------------------------------------------------------------------------------

static void flags_text(char *out, const char *flags) {
    static const char *const words[][2] = {
        {"P", "pure"}, {"R", "reads"}, {"W", "writes"},
        {"T", "ends a region"}, {"S", "has effects"}, {"A", "asynchronous"},
    };
    *out = '\0';
    for (; *flags; flags++)
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (*flags == *words[i][0]) strcat(strcat(out, *out ? ", " : ""), words[i][1]);
}

static void print_op(FILE *out, const char *name, int lo, int hi, int results, int regions, const char *flags,
                     const char *meaning) {
    char operands[32], words[64];
    if (hi == 255) snprintf(operands, sizeof operands, "%d or more", lo);
    else if (lo == hi) snprintf(operands, sizeof operands, "%d", lo);
    else snprintf(operands, sizeof operands, "%d to %d", lo, hi);
    flags_text(words, flags);
    if (regions) strcat(strcat(words, *words ? ", " : ""), regions == 2 ? "two regions" : "a region");
    fprintf(out, "| `%s` | %s | %s | %s | %s |\n", name, operands, results == 255 ? "any" : results ? "1" : "0", words,
            meaning);
}

static void print_ops(FILE *out) {
    fprintf(out, "# The ops of the tile IR\n\n"
                 "This page is the table in `lower/ir/ops.h`, written out by a test's program; how it is used is in\n"
                 "[architecture.md](architecture.md#the-tile-ir-in-two-levels).\n");
    for (int want = 1; want <= 2; want++) {
        fprintf(out, "\n## Level %d: %s\n\n", want, want == 1 ? "values" : "buffers, tokens and roles");
        fprintf(out, "| op | operands | results | kind | operands in order, and meaning |\n|---|---|---|---|---|\n");
#define X(name, sub, lo, hi, results, regions, flags, level, meaning) \
    if (level == want) print_op(out, #name, lo, hi, results, regions, flags, meaning);
        TILE_OPS(X)
#undef X
    }
}

static void check_ops(const char *page, bool bless) {
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    if (!out) exit(2);
    print_ops(out);
    fclose(out);
    if (bless) {
        FILE *f = create(page);
        fputs(text, f);
        fclose(f);
    } else {
        char *written = read_whole(page);
        if (strcmp(written, text) != 0)
            fail("%s is not what lower/ir/ops.h says: write it anew with bin/docs_check ops --bless %s", page, page);
        free(written);
    }
    free(text);
}

// ---- includes ------------------------------------------------------------------------------------

static const struct { const char *folder, *may; } allowed[] = {      // each folder also itself
    {"lang", ""}, {"parser", "lang"}, {"sema", "lang parser"}, {"ptx", "lang"}, {"lower", "lang sema ptx"},
    {"emu", "lang"}, {"graph", "lang"}, {"runtime", "lang sema lower ptx emu graph"},
    {"tkc", "lang parser sema lower ptx graph runtime"},
};

// Headers that only these files may name; of ours, and of others.
static const struct { const char *header, *files; } reserved[] = {
    {"emu/", "emu/* runtime/emu_device.c runtime/ptx_run*"}, {"runtime/cuda_driver.h", "runtime/cuda*"}, {"cuda.h", ""},
    {"llvm-c/", "lower/llvm/* ptx/emit.h ptx/emit.c ptx/tidy.c ptx/cut.c"}, {"lower/llvm/", "lower/llvm/*"},
    {"onnx.pb-c.h", "graph/onnx/internal.h"}, {"graph/onnx/internal.h", "graph/onnx/*"},
    {"ptx/emit.h", "lower/llvm/* ptx/emit.c ptx/tidy.c ptx/cut.c"},
};

static bool among(const char *words, const char *name) {               // words may be patterns
    char one[NAME];
    for (int n; sscanf(words, " %127s%n", one, &n) == 1; words += n)
        if (fnmatch(one, name, 0) == 0) return true;
    return false;
}

static void check_include(const char *folder, const char *file, const char *header, int line) {
    char from[NAME];
    size_t size = strcspn(header, "/");
    for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
        if (starts(header, reserved[i].header) && !among(reserved[i].files, file))
            fail("%s:%d: only %s may include %s", file, line, reserved[i].files, header);
    if (header[size] == '\0' || size >= sizeof from) return;
    snprintf(from, sizeof from, "%.*s", (int)size, header);
    bool ours = false, may = strcmp(from, folder) == 0;
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
        ours |= strcmp(allowed[i].folder, from) == 0;
        may |= strcmp(allowed[i].folder, folder) == 0 && among(allowed[i].may, from);
    }
    if (ours && !may) fail("%s:%d: %s/ may not include %s/", file, line, folder, from);
}

static void check_includes_in(const char *root, const char *folder, const char *inner) {
    static char *lines[LINES];
    char path[PATH], header[NAME];
    struct dirent **names;
    struct stat info;
    snprintf(path, sizeof path, "%s/%s", root, inner);
    int n = scandir(path, &names, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        char file[PATH];
        snprintf(file, sizeof file, "%s/%s", inner, names[i]->d_name);
        bool hidden = names[i]->d_name[0] == '.', source = among("*.c *.h *.re *.y", names[i]->d_name);
        free(names[i]);
        if (hidden || snprintf(path, sizeof path, "%s/%s", root, file) >= PATH || stat(path, &info) != 0) continue;
        if (S_ISDIR(info.st_mode)) check_includes_in(root, folder, file);
        if (!S_ISREG(info.st_mode) || !source) continue;
        char *text = read_whole(path);
        int count = cut(text, lines);
        for (int k = 0; k < count; k++)
            if (sscanf(lines[k], "#include %*[\"<]%127[^\">]", header) == 1) check_include(folder, file, header, k + 1);
        free(text);
    }
    if (n >= 0) free(names);
}

static void check_includes(const char *root) {
    for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++)
        check_includes_in(root, allowed[i].folder, allowed[i].folder);
}

// ---- the library ---------------------------------------------------------------------------------

static void squeeze(char *text) {                                      // runs of blanks as one
    char *to = text;
    for (const char *p = text; *p; p++)
        if (!isspace((unsigned char)*p)) *to++ = *p;
        else if (to > text && to[-1] != ' ') *to++ = ' ';
    *to = '\0';
}

// Where a declaration ends: at the body, at the grid, at the `=` of a function that is one expression.
static size_t declared(const char *s) {
    int round = 0, angle = 0;
    bool kernel = starts(s, "kernel");
    for (const char *p = s; *p; p++) {
        if (*p == '(' || *p == '[') round++;
        if (*p == ')' || *p == ']') round--;
        if (round) continue;
        if (*p == '<') angle++;
        if (*p == '>' && p[-1] != '-') angle--;
        bool body = *p == '{' || (!kernel && *p == '=' && !angle);
        if (body || (kernel && starts(p, " grid")) || (kernel && starts(p, "\n    grid"))) return (size_t)(p - s);
    }
    return strlen(s);
}

static bool has_heading(const char *page, const char *name) {
    char quoted[NAME + 3];
    snprintf(quoted, sizeof quoted, "`%s`", name);
    for (const char *p = page; (p = strstr(p, "\n### ")); p++) {
        const char *end = strchr(p + 1, '\n'), *at = strstr(p, quoted);
        if (at && end && at < end) return true;
    }
    return false;
}

static void check_library(const char *page, char *const *files, int n) {
    char *text = read_whole(page), *flat = strdup(text);
    squeeze(flat);
    for (int i = 0; i < n; i++) {
        char *source = read_whole(files[i]);
        for (char *p = source; p; p = strchr(p, '\n') ? strchr(p, '\n') + 1 : NULL) {
            size_t word = starts(p, "fn ") ? 3 : starts(p, "kernel ") ? 7 : 0;
            if (!word || p[word] == '_') continue;
            char name[NAME], *declaration = strndup(p, declared(p));
            snprintf(name, sizeof name, "%.*s", (int)strcspn(p + word, "<( \n"), p + word);
            squeeze(declaration);
            for (size_t k = strlen(declaration); k && declaration[k - 1] == ' '; ) declaration[--k] = '\0';
            if (!has_heading(text, name)) fail("%s: no heading has `%s` of %s", page, name, files[i]);
            else if (!strstr(flat, declaration))
                fail("%s: `%s` is declared otherwise in %s: %s", page, name, files[i], declaration);
            free(declaration);
        }
        free(source);
    }
    free(flat);
    free(text);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "page") == 0 && (argc == 6 || argc == 7)) return run_page(argv[2], argv[3], argv[4], argv[5], argv[6]);
    if (strcmp(mode, "links") == 0) for (int i = 2; i < argc; i++) check_links(argv[i]);
    else if (strcmp(mode, "map") == 0 && argc == 4) check_map(argv[2], argv[3]);
    else if (strcmp(mode, "includes") == 0 && argc == 3) check_includes(argv[2]);
    else if (strcmp(mode, "library") == 0 && argc > 3) check_library(argv[2], argv + 3, argc - 3);
    else if (strcmp(mode, "ops") == 0 && argc == 3) check_ops(argv[2], false);
    else if (strcmp(mode, "ops") == 0 && argc == 4 && strcmp(argv[2], "--bless") == 0) check_ops(argv[3], true);
    else return fprintf(stderr, "usage: docs page|links|map|library|ops|includes ...: see the head of docs.c\n"), 2;
    printf("%d failed\n", failures);
    return failures > 0;
}
