// Einsum: any number of operands, by letters; `...` stands for the axes that are not named.
//
// The ellipsis gets letters of its own, counted from the right, that the equation does not use. Operands are joined one by
// one from the left; what a product keeps is what later operands or the result ask for. The products are g_einsum's.
#include "graph/op/op.h"
#include "lang/c_text.h"

#include <string.h>

enum { MAX_OPERANDS = 32 };

typedef struct Equation {
    char term[MAX_OPERANDS][G_MAX_RANK + 1], out[G_MAX_RANK + 1];
    int  nterms;
    char dots[G_MAX_RANK + 1];         // the letters of the longest ellipsis
} Equation;

static bool bad(Op *op, const char *why) {
    return op_error(op, "attribute `equation` is `%s`: %s", op_text(op, "equation", ""), why), false;
}

// One term with `rank` axes (-1: the result's, as many as it needs): letters, and the ellipsis' last axes.
static bool term(Op *op, const Equation *q, const char *at, size_t n, int rank, char *to) {
    int letters = 0, count = 0;
    const char *dots = NULL;
    for (size_t i = 0; i < n; i++) {
        if (c_isalpha((unsigned char)at[i])) {
            letters++;
        } else if (at[i] == '.') {
            if (dots != NULL || i + 2 >= n || at[i + 1] != '.' || at[i + 2] != '.')
                return bad(op, "dots come three together, once in a term");
            dots = at + i;
            i += 2;
        } else if (at[i] != ' ') {
            return bad(op, "it has a character that is no letter");
        }
    }
    int more = rank < 0 ? (int)strlen(q->dots) : rank - letters;
    if (dots == NULL) more = 0;
    if (letters + more > G_MAX_RANK || more < 0 || (rank >= 0 && letters + more != rank))
        return bad(op, "it does not fit the operands' dimensions");
    for (size_t i = 0; i < n; i++) {
        if (c_isalpha((unsigned char)at[i])) to[count++] = at[i];
        if (at + i != dots) continue;
        const char *from = q->dots + strlen(q->dots) - (size_t)more;
        for (int k = 0; k < more; k++) to[count++] = from[k];
    }
    to[count] = '\0';
    return true;
}

// Letters for the longest ellipsis: those that the equation does not use.
static bool choose_dots(Op *op, const char *equation, Equation *q) {
    int most = 0, at = 0;
    for (int i = 0; i < op->nin; i++)
        if (op->in[i] != NULL && op->in[i]->rank > most) most = op->in[i]->rank;
    for (int c = 'A'; c <= 'z' && at < most; c++)
        if (c_isalpha(c) && strchr(equation, c) == NULL) q->dots[at++] = (char)c;
    return at == most || bad(op, "it uses too many letters");
}

// How many axes the ellipses stand for at most; q->dots is cut to that.
static void measure_dots(Op *op, const char *equation, Equation *q) {
    const char *at = equation;
    int longest = 0;
    for (int i = 0; i < op->nin && at != NULL; i++) {
        const char *end = at + strcspn(at, ",-");
        int letters = 0;
        bool dots = false;
        for (const char *p = at; p < end; p++) letters += c_isalpha((unsigned char)*p) != 0, dots |= *p == '.';
        if (dots && op->in[i] != NULL && op->in[i]->rank - letters > longest) longest = op->in[i]->rank - letters;
        at = *end == ',' ? end + 1 : NULL;
    }
    q->dots[longest] = '\0';
}

// Without `->` the result has the ellipsis, then the letters that occur once, in order.
static void implied(const Equation *q, const char *equation, char *out) {
    size_t n = strlen(q->dots);
    memcpy(out, q->dots, n);
    for (int c = 'A'; c <= 'z'; c++) {
        const char *first = c_isalpha(c) ? strchr(equation, c) : NULL;
        if (first != NULL && strchr(first + 1, c) == NULL && n < G_MAX_RANK) out[n++] = (char)c;
    }
    out[n] = '\0';
}

static bool parse(Op *op, Equation *q) {
    const char *text = op_text(op, "equation", ""), *arrow = strstr(text, "->"), *at = text;
    *q = (Equation){.nterms = op->nin};
    if (op->nin > MAX_OPERANDS) return bad(op, "it has too many operands");
    if (!choose_dots(op, text, q)) return false;
    measure_dots(op, text, q);
    for (int i = 0; i < op->nin; i++) {
        size_t n = strcspn(at, ",-");
        if (!term(op, q, at, n, op->in[i]->rank, q->term[i])) return false;
        at += n;
        if (i + 1 < op->nin && *at++ != ',') return bad(op, "it has fewer terms than there are operands");
    }
    if (at != (arrow != NULL ? arrow : text + strlen(text))) return bad(op, "it has more terms than there are operands");
    if (arrow != NULL) return term(op, q, arrow + 2, strlen(arrow + 2), -1, q->out);
    implied(q, text, q->out);
    return true;
}

static Node *lower_einsum(Op *op) {
    Graph *g = op->g;
    Equation q;
    for (int i = 0; i < op->nin || i == 0; i++)
        if (op_in(op, i) == NULL) return NULL;
    if (!parse(op, &q)) return NULL;
    char spec[4 * (G_MAX_RANK + 2)], have[G_MAX_RANK * 2 + 2];
    Node *x = op->in[0];
    strcpy(have, q.term[0]);
    if (q.nterms == 1) {
        snprintf(spec, sizeof spec, "%s->%s", have, q.out);
        return g_einsum(g, spec, x, NULL);
    }
    for (int i = 1; i < q.nterms && x != NULL; i++) {
        char keep[G_MAX_RANK * 2 + 2];
        int n = 0;
        bool last = i == q.nterms - 1;
        for (int side = 0; side < 2 && !last; side++)
            for (const char *c = side == 0 ? have : q.term[i]; *c != '\0'; c++) {
                bool wanted = strchr(q.out, *c) != NULL;
                for (int j = i + 1; j < q.nterms; j++) wanted |= strchr(q.term[j], *c) != NULL;
                if (wanted && memchr(keep, *c, (size_t)n) == NULL) keep[n++] = *c;
            }
        keep[n] = '\0';
        if (n > G_MAX_RANK)
            return op_error(op, "a product of its operands would have %d dimensions; the most is %d", n, G_MAX_RANK);
        snprintf(spec, sizeof spec, "%s,%s->%s", have, q.term[i], last ? q.out : keep);
        x = g_einsum(g, spec, x, op->in[i]);
        strcpy(have, last ? q.out : keep);
    }
    return x;
}

const OpRow ops_einsum[] = {
    OP("Einsum", 12, lower_einsum),
    {0},
};
