// No source of tkc or its library reads, writes or classes text by the host program's locale: lang/c_text.h does it all.
//
//     tree_locale ROOT
//
// Three rules, and each is first tried on lines that break it:
//   - names that ask the locale whatever they are given (strtod, isalpha, strcasecmp, vsnprintf ..) are not called;
//   - snprintf, fprintf, sscanf and their like have a format that can be read here, without a conversion of floats;
//   - no header of such names is included.
#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const folders[] = {"lang", "parser", "sema", "lower", "graph", "runtime", "ptx", "emu", "tkc"};
static const char *const headers[] = {"<ctype.h>", "<wctype.h>", "<wchar.h>", "<strings.h>", "<locale.h>", "<xlocale.h>"};
static const char *const never[] = {"strtod", "strtof", "strtold", "atof", "localeconv", "setlocale", "vsnprintf", "vsprintf", "vfprintf",
    "vprintf", "vdprintf", "vasprintf", "vsscanf", "strcoll", "strxfrm", "strftime", "strfmon", "strcasecmp", "strncasecmp", "isalpha",
    "isdigit", "isalnum", "isspace", "isprint", "ispunct", "isupper", "islower", "isxdigit", "iscntrl", "isgraph", "toupper", "tolower"};
static const char *const formatted[] = {"snprintf", "sprintf", "fprintf", "printf", "dprintf", "asprintf", "sscanf", "fscanf", "scanf"};

#define COUNT(a) (sizeof(a) / sizeof *(a))

static bool letter(char c) { return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Is there a conversion of a float in a format's text, quotes and all?
static bool has_float(const char *p, const char *end) {
    for (; p < end; p++) {
        if (*p != '%') continue;
        if (*++p == '%') continue;
        while (p < end && strchr("-+ #0123456789.*lLh'", *p)) p++;
        if (p < end && strchr("aefgAEFG", *p)) return true;
    }
    return false;
}

// What is in the parentheses that open at p; p's texts are skipped as such.
static const char *past_call(const char *p, bool *text) {
    int depth = 0;
    for (; *p; p++) {
        if (*p == '"' || *p == '\'') {
            char quote = *p;
            *text |= quote == '"';
            for (p++; *p && *p != quote; p++) if (*p == '\\' && p[1]) p++;
        } else if (*p == '(') depth++;
        else if (*p == ')' && --depth == 0) return p;
    }
    return p;
}

static bool is_one(const char *word, size_t n, const char *const *of, size_t count) {
    for (size_t i = 0; i < count; i++) if (strlen(of[i]) == n && memcmp(of[i], word, n) == 0) return true;
    return false;
}

static int wrong(const char *path, const char *text, const char *at, const char *why) {
    int line = 1;
    if (!path) return 1;
    for (const char *p = text; p < at; p++) line += *p == '\n';
    printf("%s:%d: %.*s: %s\n", path, line, (int)strcspn(at, "\n"), at, why);
    return 1;
}

static int check(const char *path, const char *text) {
    int n = 0;
    for (size_t i = 0; i < COUNT(headers); i++) {
        char include[40];
        snprintf(include, sizeof include, "#include %s", headers[i]);
        const char *at = strstr(text, include);
        if (at) n += wrong(path, text, at, "lang/c_text.h has what it is for");
    }
    for (const char *p = text; *p;) {
        if (p[0] == '/' && p[1] == '/') { p += strcspn(p, "\n"); continue; }
        if (!letter(*p)) { p++; continue; }
        const char *word = p;
        while (letter(*p)) p++;
        if (*p != '(') continue;
        size_t length = (size_t)(p - word);
        bool literal = false;
        if (is_one(word, length, never, COUNT(never))) n += wrong(path, text, word, "asks the locale");
        if (!is_one(word, length, formatted, COUNT(formatted))) continue;
        const char *end = past_call(p, &literal);
        if (!literal) n += wrong(path, text, word, "its format is not here to be read");
        if (has_float(p, end)) n += wrong(path, text, word, "a float by the locale");
    }
    return n;
}

static int check_file(const char *path) {
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END)) { printf("%s: cannot be read\n", path); return 1; }
    size_t size = (size_t)ftell(f);
    char *text = calloc(1, size + 1);
    rewind(f);
    int n = !text || fread(text, 1, size, f) != size ? 1 : check(path, text);
    fclose(f);
    free(text);
    return n;
}

static int check_folder(const char *path, int *files) {
    DIR *d = opendir(path);
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d)) != NULL;) {
        char inner[1024];
        const char *dot = strrchr(e->d_name, '.');
        snprintf(inner, sizeof inner, "%s/%s", path, e->d_name);
        if (!dot) n += check_folder(inner, files);
        else if (!strcmp(dot, ".c") || !strcmp(dot, ".h") || !strcmp(dot, ".re") || !strcmp(dot, ".y")) {
            if (strncmp(e->d_name, "c_text.", 7) == 0) continue;
            n += check_file(inner);
            ++*files;
        }
    }
    if (d) closedir(d);
    return n;
}

static int rules(void) {
    static const struct { const char *line; int finds; } of[] = {
        {"x = strtod(p, NULL);", 1}, {"x = c_strtod(p, NULL);", 0}, {"#include <ctype.h>\n", 1}, {"snprintf(s, n, \"%d\", i);", 0},
        {"snprintf(s, n, \"%.*g\", i, x);", 1}, {"fprintf(f, a ? \"%s\" : \"%-8.3f)\",\n x(1));", 1}, {"c_fprintf(f, \"%g\", x);", 0},
        {"snprintf(s, n, format, i);", 1}, {"sscanf(s, \"%lf\", &x);", 1}, {"sscanf(s, \"%d%n\", &x, &n);", 0}, {"printf(\"100 %%e\");", 0},
        {"// by strtod(p)", 0}, {"if (isdigit(c)) c = tolower(c);", 2}};
    int n = 0;
    for (size_t i = 0; i < COUNT(of); i++)
        if (check(NULL, of[i].line) != of[i].finds) printf("the rules do not hold for: %s\n", of[i].line), n++;
    return n;
}

int main(int argc, char **argv) {
    int n = rules(), files = 0;
    for (size_t i = 0; argc > 1 && i < COUNT(folders); i++) {
        char path[1024];
        snprintf(path, sizeof path, "%s/%s", argv[1], folders[i]);
        n += check_folder(path, &files);
    }
    if (files < 100) printf("only %d files were found\n", files), n++;
    return n != 0;
}
