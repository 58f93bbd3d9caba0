// Reading the command line by the table in options.h.
//
//     --name value   --name=value   -x value   -xvalue   --flag   -abc (flags)   -- (only operands follow)   -5 (an operand)
//
// Options may stand before or after operands, and before or after the command. So all are read first, whoever they
// belong to; then the first operand, if it names a command, is taken out, and each option seen is held against the
// commands of its row.
#include "tkc/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tkc/tkc.h"

#define X(letter, name, kind, value, commands, meaning) {letter, #name, OPT_##kind, value, commands, meaning, offsetof(Options, name)},
const Option option_table[] = {OPTIONS(X)};
#undef X
const int option_count = sizeof option_table / sizeof *option_table;

const char *nearest(const char *text, const char *const *names, int n) {
    const char *best = NULL;
    int least = 1 + (int)strlen(text) / 3;                   // two letters wrong in six are too many
    for (int i = 0; i < n; i++) {
        int d = edit_distance(text, names[i]);
        if (d >= (int)strlen(text)) continue;                // nothing in common
        if (d < least || (d == least && best == NULL)) {
            least = d;
            best = names[i];
        }
    }
    return best;
}

bool number_parse(const char *text, int64_t *out) {
    char digits[40];
    size_t n = 0;
    for (const char *p = text; *p != '\0'; p++) {
        if (*p == '_' && p > text && p[1] != '\0') continue;
        if (n + 1 == sizeof digits) return false;
        digits[n++] = *p;
    }
    digits[n] = '\0';
    const char *first = digits + (digits[0] == '-' || digits[0] == '+');
    if (*first < '0' || *first > '9') return false;
    char *end;
    errno = 0;
    bool hex = first[0] == '0' && (first[1] == 'x' || first[1] == 'X');
    *out = strtoll(digits, &end, hex ? 16 : 10);
    return *end == '\0' && errno == 0;
}

typedef struct Parser {
    Arena   *arena;
    Options *out;
    bool     seen[64];                 // by row
    bool     typed_letter[64];         // written as -x
} Parser;

static void *field(Parser *p, const Option *o) { return (char *)p->out + o->offset; }

static void push(Parser *p, OptList *list, const char *text) {
    if ((list->n & (list->n - 1)) == 0) {                    // full at powers of two
        const char **grown = NEW_N(p->arena, const char *, list->n == 0 ? 1 : list->n * 2);
        if (list->n > 0) memcpy(grown, list->at, sizeof *grown * (size_t)list->n);
        list->at = grown;
    }
    list->at[list->n++] = text;
}

// Names are compared with - and _ alike.
static bool same_name(const char *a, size_t n, const char *b) {
    if (strlen(b) != n) return false;
    for (size_t i = 0; i < n; i++)
        if (a[i] != b[i] && !(a[i] == '-' && b[i] == '_')) return false;
    return true;
}

static const Option *by_name(const char *name, size_t n) {
    for (int i = 0; i < option_count; i++)
        if (same_name(name, n, option_table[i].name)) return &option_table[i];
    return NULL;
}

static const Option *by_letter(char letter) {
    for (int i = 0; i < option_count; i++)
        if (letter != 0 && option_table[i].letter == letter) return &option_table[i];
    return NULL;
}

static char *shown(Arena *a, const Option *o, bool letter) {
    if (letter) return arena_printf(a, "-%c", o->letter);
    char *name = arena_printf(a, "--%s", o->name);
    for (char *c = name; *c != '\0'; c++)
        if (*c == '_') *c = '-';
    return name;
}

static const char *nearest_choice(Arena *a, const char *text, const char *choices) {
    const char *names[32];
    int n = 0;
    while (*choices != '\0' && n < 32) {
        size_t length = strcspn(choices, "|");
        names[n++] = arena_printf(a, "%.*s", (int)length, choices);
        choices += length + (choices[length] == '|');
    }
    return nearest(text, names, n);
}

static bool is_choice(const char *text, const char *choices) {
    size_t n = strlen(text);
    for (;;) {
        size_t length = strcspn(choices, "|");
        if (n == length && n > 0 && memcmp(text, choices, n) == 0) return true;
        if (choices[length] == '\0') return false;
        choices += length + 1;
    }
}

static bool take_value(Parser *p, const Option *o, bool letter, const char *text) {
    const char *name = shown(p->arena, o, letter);
    switch (o->kind) {
    case OPT_FLAG: break;
    case OPT_TEXT:
        if (*text == '\0') return wrong_use("%s needs a value", name), false;
        *(const char **)field(p, o) = text;
        break;
    case OPT_LIST: push(p, field(p, o), text); break;
    case OPT_MAYBE:
    case OPT_CHOICE: {
        if (is_choice(text, o->value)) {
            *(const char **)field(p, o) = text;
            break;
        }
        const char *near = nearest_choice(p->arena, text, o->value);
        if (near != NULL) wrong_use("%s: `%s` is none of %s; did you mean `%s`?", name, text, o->value, near);
        else wrong_use("%s: `%s` is none of %s", name, text, o->value);
        return false;
    }
    case OPT_ARCH:
        if (target_find(text) == NULL)
            return wrong_use("%s: there is no target `%s`; did you mean `%s`?", name, text, target_nearest(text)->name),
                   false;
        *(const char **)field(p, o) = text;
        break;
    case OPT_NUMBER:
    case OPT_COUNT: {
        int64_t *value = field(p, o);
        if (!number_parse(text, value)) return wrong_use("%s: `%s` is no number", name, text), false;
        if (o->kind == OPT_COUNT && (*value < 0 || *value > INT32_MAX)) return wrong_use("%s: %s is to be from 0 to %d", name, text, INT32_MAX), false;
        break;
    }
    }
    return true;
}

static void note(Parser *p, const Option *o, bool letter) {
    int row = (int)(o - option_table);
    p->seen[row] = true;
    p->typed_letter[row] = letter;
    if (o->kind == OPT_FLAG) *(bool *)field(p, o) = true;
    if (o->kind == OPT_MAYBE) *(const char **)field(p, o) = arena_printf(p->arena, "%.*s", (int)strcspn(o->value, "|"), o->value);
}

static void unknown(Parser *p, const char *name, size_t n) {
    char *text = arena_printf(p->arena, "%.*s", (int)n, name);
    const char *names[64];
    for (int i = 0; i < option_count; i++) names[i] = shown(p->arena, &option_table[i], false) + 2;
    const char *near = nearest(text, names, option_count);
    if (near != NULL) wrong_use("unknown option --%s; did you mean --%s?", text, near);
    else wrong_use("unknown option --%s", text);
}

// argv[i] begins with "--"; the index of the last word used, or -1.
static int long_option(Parser *p, int argc, char **argv, int i) {
    const char *name = argv[i] + 2;
    size_t n = strcspn(name, "=");
    const Option *o = by_name(name, n);
    if (o == NULL) return unknown(p, name, n), -1;
    note(p, o, false);
    if (o->kind == OPT_FLAG) {
        if (name[n] == '=') return wrong_use("%s takes no value", shown(p->arena, o, false)), -1;
        return i;
    }
    if (name[n] == '=') return take_value(p, o, false, name + n + 1) ? i : -1;
    if (o->kind == OPT_MAYBE) return i;
    if (i + 1 == argc) return wrong_use("%s needs a value: %s", shown(p->arena, o, false), o->value), -1;
    return take_value(p, o, false, argv[i + 1]) ? i + 1 : -1;
}

static int letters(Parser *p, int argc, char **argv, int i) {
    for (const char *c = argv[i] + 1; *c != '\0'; c++) {
        const Option *o = by_letter(*c);
        if (o == NULL) return wrong_use("unknown option -%c", *c), -1;
        note(p, o, true);
        if (o->kind == OPT_FLAG || o->kind == OPT_MAYBE) continue;
        if (c[1] != '\0') return take_value(p, o, true, c + 1 + (c[1] == '=')) ? i : -1;
        if (i + 1 == argc) return wrong_use("-%c needs a value: %s", *c, o->value), -1;
        return take_value(p, o, true, argv[i + 1]) ? i + 1 : -1;
    }
    return i;
}

static bool belongs(Parser *p, const Command *command) {
    for (int i = 0; i < option_count; i++) {
        const Option *o = &option_table[i];
        if (!p->seen[i] || (o->commands & command->bit) != 0) continue;
        const char *name = shown(p->arena, o, p->typed_letter[i]);
        if (command->name[0] != '\0') wrong_use("%s is no option of `tkc %s`", name, command->name);
        else wrong_use("%s belongs to a command: see tkc --help", name);
        return false;
    }
    return true;
}

bool options_parse(int argc, char **argv, Arena *a, Options *out) {
    *out = (Options){.command = ""};
    Parser p = {.arena = a, .out = out};
    bool open = true, first_is_word = false;                 // open: no -- yet
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (open && strcmp(word, "--") == 0) {
            open = false;
        } else if (open && word[0] == '-' && word[1] == '-') {
            if ((i = long_option(&p, argc, argv, i)) < 0) return false;
        } else if (open && word[0] == '-' && word[1] != '\0' && strchr("0123456789.", word[1]) == NULL) {
            if ((i = letters(&p, argc, argv, i)) < 0) return false;
        } else {
            if (out->operands.n == 0) first_is_word = open;
            push(&p, &out->operands, word);
        }
    }
    if (first_is_word && command_find(out->operands.at[0]) != NULL) {
        out->command = out->operands.at[0];
        out->operands.at++;
        out->operands.n--;
    }
    return belongs(&p, command_find(out->command));
}
