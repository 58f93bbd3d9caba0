#!/usr/bin/env python3
"""Measures the form of the C sources: large structs, long functions, circles of calls between files, lines by
folder.

    scripts/structure.py                     what is over the limits, and sums by folder
    scripts/structure.py lower graph         of these folders alone
    scripts/structure.py --since=COMMIT      what has grown since: lines, structs, functions, circles
    scripts/structure.py --why A.c B.c       the calls from the first file to the second
    scripts/structure.py --check             against scripts/structure.limits; --record writes that file anew

A struct has more than 30 members when its own and those of structs inside it are more; a named struct
counts as inside when it is a member once and nothing else ever names it. A function is longer than 60
lines from its first line to its brace. One that is a table is not counted: two of three lines of its body
are rows (a `case`, an initialiser, a macro's row).

A file calls another one of its top-level folder when it calls a function that is defined there, itself or
by a macro. Calls through pointers count, too: who is given a function as an argument calls it, and so does
who calls a field that a function was assigned to. Rows of tables at file scope and EXCEPTIONS do not.
Files that reach each other are a circle.

The sources are read as tokens, without a preprocessor: both sides of an #if count.
"""

import argparse, bisect, collections, io, os, re, subprocess, sys, tarfile

LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
BEFORE_NAME = LETTERS | {"*"}
FOLDERS = ["lang", "parser", "sema", "lower", "ptx", "runtime", "graph", "emu", "tkc"]
MEMBERS, LENGTH = 30, 60

# Calls through pointers that make no circle: (who calls, what it calls or *, why).
EXCEPTIONS = [
    (
        "lang/heap.c",
        "*",
        "heap_run, heap_crew and heap_hold run their caller's work under a guard and know nothing of it",
    ),
    ("lang/arena.c", "*", "an arena ends what its users gave it"),
    ("runtime/parallel.c", "*", "threads run their caller's work and know nothing of it"),
    (
        "emu/decode.c",
        "*",
        "dec_emit puts an executor into the decoded instruction, a row of a table: warps.c calls it there",
    ),
]

TOKEN = re.compile(
    r"""
    (?P<skip> //[^\n]* | /\*.*?\*/ )
  | (?P<pre>  ^[ \t]*\#(?:[^\n\\]|\\.|\\\n)* )
  | (?P<text> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)+' )
  | (?P<name> [A-Za-z_]\w* )
  | (?P<num>  \.?\d(?:[eEpP][+-]|[\w.])* )
  | (?P<mark> -> | == | [^\s] )
""",
    re.X | re.S | re.M,
)

RULES = re.compile(r"/\*!.*?\*/", re.S)
NOT_CALLS = frozenset(
    "if for while switch return sizeof do else case defined _Alignof _Generic typeof __attribute__".split()
)
NOT_TYPES = frozenset("return else case goto sizeof do".split())

Function = collections.namedtuple("Function", "file name line lines static table head body")
Struct = collections.namedtuple("Struct", "file name line members")


class Source:
    """A file as tokens, with the line of each; directives aside."""

    def __init__(self, path, text):
        self.path, self.text = path, text
        self.rules = []  # first and last lines of re2c's rules
        if path.endswith((".y", ".re")):
            self.rules = [
                (text.count("\n", 0, m.start()) + 1, text.count("\n", 0, m.end()) + 1)
                for m in RULES.finditer(text)
            ]
            text = plain_c(text)
        self.starts = [0] + [m.end() for m in re.finditer("\n", text)]
        self.tokens, self.at, self.macros = [], [], {}
        for m in TOKEN.finditer(text):
            kind = m.lastgroup
            if kind == "pre":
                self.directive(m.group())
            elif kind != "skip":
                self.tokens.append(m.group())
                self.at.append(m.start())
        self.lines = text.split("\n")

    def directive(self, text):
        m = re.match(r"\s*#\s*define\s+(\w+)(\()?", text)
        if m:
            self.macros[m.group(1)] = set(re.findall(r"\b([A-Za-z_]\w*)\s*\(", text[m.end() :])) - {
                m.group(1)
            }

    def line(self, index):
        return bisect.bisect_right(self.starts, self.at[index])

    def close(self, i):
        """The index of the bracket that closes the one at i."""
        depth = 0
        for k in range(i, len(self.tokens)):
            t = self.tokens[k]
            if t in "([{":
                depth += 1
            elif t in ")]}":
                depth -= 1
                if not depth:
                    return k
        return len(self.tokens) - 1


def plain_c(text):
    """A lexer or grammar as C of the same lines: rules are blanked, actions and the parser are functions."""
    text = RULES.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)
    text = re.sub(r"^%(?:code|include)\s*\{(.*?)^\}(?=\s*(?:%|/////|\Z))", r"\1", text, flags=re.M | re.S)
    text = re.sub(r"^%name\s+(\w+)", r"\1(){}", text, flags=re.M)
    return re.sub(r"^%\w+[^{\n]*|^\w+(?:\(\w+\))?\s*::=[^{\n]*", "_() ", text, flags=re.M)


def is_table(source, first, last):
    """Are two of three lines between these rows of a table?"""
    lines = [line.strip() for line in source.lines[first : last - 1]]
    lines = [line for line in lines if line and not line.startswith("//")]
    rows = sum(
        bool(re.match(r"(case\b.*[;:{]|default:|\{.*\},?|[A-Z][A-Z0-9_]*\(.*\)[,;]?|\"|\[\w+\] = )", line))
        for line in lines
    )
    return len(lines) > 0 and 3 * rows >= 2 * len(lines)


def functions_of(source):
    """Definitions at file scope: NAME ( .. ) {"""
    t, i, found, start = source.tokens, 0, [], 0
    while i < len(t):
        if t[i] in (";", "}"):
            start = i + 1
        elif t[i] == "{" or t[i] == "[" or (t[i] == "(" and (not i or t[i - 1][0] not in LETTERS)):
            i = source.close(i)
            if t[i] == "}":
                start = (
                    i + 1
                    if i + 1 >= len(t) or t[i + 1] not in (";", ",", "=") and t[i + 1][0] not in BEFORE_NAME
                    else start
                )
        elif t[i] == "(" and t[i - 1] not in NOT_CALLS:
            end = source.close(i)
            if end + 1 < len(t) and t[end + 1] == "{" and "=" not in t[start:i]:
                last = source.close(end + 1)
                lo, hi = source.line(start if start < i else i - 1), source.line(last)
                table = is_table(source, source.line(end + 1), hi)
                rules = sum(b - a for a, b in source.rules if lo <= a and b <= hi)  # a table inside
                found.append(
                    Function(
                        source.path,
                        t[i - 1],
                        lo,
                        hi - lo + 1 - rules,
                        "static" in t[start:i],
                        table,
                        (i, end),
                        (end + 1, last),
                    )
                )
                i, start = last, last + 1
            else:
                i = end
        i += 1
    return found


def members_of(source, i, end, types):
    """Members between braces, those of structs without a name included; by name the structs it holds."""
    t, count, held, k, statement = source.tokens, 0, [], i + 1, []
    while k < end:
        if t[k] == "{":
            close = source.close(k)
            inner, within = (
                members_of(source, k, close, types)
                if any(w in statement for w in ("struct", "union"))
                else (0, [])
            )
            if inner:
                count += inner - (1 if t[close + 1] != ";" else 0)  # the member that has them is none itself
                held += within
            if t[close + 1] == ";":
                statement, close = [], close + 1
            k = close
        elif t[k] == ";":
            if statement and statement[0] != "_Static_assert":
                count += 1 + statement.count(",")
                held += [w for w in statement if w in types and "*" not in statement] * (
                    1 + statement.count(",")
                )
            statement = []
        elif t[k] in "([":
            close = source.close(k)
            if t[k] == "(" and t[k + 1] == "*":  # a pointer to a function: not one of its parameters
                statement += ["*"]
            k = close
        else:
            statement.append(t[k])
        k += 1
    return count, held


def structs_of(source, types):
    t = source.tokens
    depth = 0
    for i, word in enumerate(t):
        if word == "{":
            depth += 1
        elif word == "}":
            depth -= 1
        if word != "struct" or depth:
            continue
        tag = t[i + 1] if i + 1 < len(t) and t[i + 1][0] in LETTERS else ""
        brace = i + (2 if tag else 1)
        if brace >= len(t) or t[brace] != "{":
            continue
        end = source.close(brace)
        after = t[end + 1] if end + 1 < len(t) else ";"
        name = after if after[0] in LETTERS else tag
        yield i, end, name, tag, members_of(source, brace, end, types)


class Tree:
    def __init__(self, texts):
        self.sources = {path: Source(path, text) for path, text in sorted(texts.items())}
        self.functions = [f for s in self.sources.values() for f in functions_of(s)]
        self.structs = self.read_structs()
        self.calls = None

    # ---- structs ----

    def read_structs(self):
        named = set()
        for s in self.sources.values():
            for i, word in enumerate(s.tokens):
                if word in ("struct", "union") and i + 1 < len(s.tokens):
                    named.add(s.tokens[i + 1])
            named.update(re.findall(r"^\}\s*(\w+);", s.text, re.M))
        uses = collections.Counter(w for s in self.sources.values() for w in s.tokens if w in named)
        found = {}
        for s in self.sources.values():
            for i, end, name, tag, (count, held) in structs_of(s, named):
                own = s.tokens[i : end + 2].count(name)
                found[(s.path, name)] = (s.line(i), count, held, own)
        by_name = {name: key for key in found for name in [key[1]]}

        def whole(key, seen):
            _, count, held, _ = found[key]
            for name in held:
                inner = by_name.get(name)
                if (
                    inner
                    and inner not in seen
                    and held.count(name) == 1
                    and uses[name] - found[inner][3] == 1
                ):
                    count += whole(inner, seen | {inner}) - 1
            return count

        return [
            Struct(path, name, found[path, name][0], whole((path, name), {(path, name)}))
            for path, name in found
        ]

    # ---- calls ----

    def read_calls(self):
        """(caller's file, called file) -> {(called function, where)}"""
        if self.calls is not None:
            return self.calls
        self.calls = collections.defaultdict(set)
        self.local = collections.defaultdict(dict)
        self.shared = {}
        for f in self.functions:
            if f.static and not f.file.endswith(".h"):
                self.local[f.file][f.name] = f
            else:
                self.shared[f.name] = f
        self.macros, self.function_types = {}, set()
        for s in self.sources.values():
            self.macros.update(s.macros)
            self.function_types.update(
                re.findall(r"^typedef [^;{(]*?\(?\*?\b(\w+)\)?\([^;]*\);", s.text, re.M)
            )
        self.given, self.fields, self.field_calls = (
            [],
            collections.defaultdict(set),
            collections.defaultdict(set),
        )
        for f in self.functions:
            self.read_body(f)
        for field, callers in self.field_calls.items():
            for caller in callers:
                for f in self.fields.get(field, ()):
                    self.pointer(caller, f, "." + field)
        for called, f in self.given:
            self.pointer(called.file, f, called.name)
        return self.calls

    def find(self, file, name):
        return self.local[file].get(name) or self.shared.get(name)

    def pointer(self, file, f, how):
        if any(file == e[0] and e[1] in ("*", f.name) for e in EXCEPTIONS):
            return
        self.edge(file, f, "through " + how)

    def edge(self, file, f, how):
        if f.file != file and f.file.split("/")[0] == file.split("/")[0]:
            self.calls[file, f.file].add((f.name, how))

    def read_body(self, f):
        s = self.sources[f.file]
        t = s.tokens
        span = range(f.head[0], f.body[1])
        own = {
            t[k]
            for k in span
            if t[k - 1][0] in BEFORE_NAME and t[k][0] in LETTERS and t[k - 1] not in NOT_TYPES
        }
        own |= {t[k] for k in span if t[k + 1] == "=" and t[k - 1] not in (".", "->")}
        for k in range(f.body[0], f.body[1]):
            word = t[k]
            if word[0] not in LETTERS:
                continue
            before, after = t[k - 1], t[k + 1]
            if before in (".", "->"):
                if after == "(":
                    self.field_calls[word].add(f.file)
                elif after == "=" and t[k + 2] != "=":
                    value = t[k + 3] if t[k + 2] == "&" else t[k + 2]
                    called = (
                        value not in own
                        and t[k + 3] in (",", ";", "}", ":", "?")
                        and self.find(f.file, value)
                    )
                    if called:
                        self.fields[word].add(called)
                continue
            if word in self.macros and word not in own:
                for name in self.expand(word, set()):
                    called = self.find(f.file, name)
                    if called:
                        self.edge(f.file, called, "by " + word)
            if after == "(" and word not in NOT_CALLS:
                called = word not in own and self.find(f.file, word)
                if called:
                    self.edge(f.file, called, f.name)
                    self.read_arguments(f, called, k + 1, own)

    def expand(self, name, seen):
        for word in self.macros[name]:
            if word not in seen:
                seen.add(word)
                if word in self.macros:
                    self.expand(word, seen)
        return seen

    def takes_function(self, f):
        """For each parameter: is it a pointer to a function?"""
        t, depth, takes = self.sources[f.file].tokens, 0, [False]
        for k in range(f.head[0] + 1, f.head[1]):
            if t[k] == "(":
                takes[-1] |= depth == 0
                depth += 1
            elif t[k] == ")":
                depth -= 1
            elif t[k] == "," and not depth:
                takes.append(False)
            elif t[k] in self.function_types:
                takes[-1] |= depth == 0
        return takes

    def read_arguments(self, f, called, i, own):
        t = self.sources[f.file].tokens
        takes = self.takes_function(called)
        if not any(takes):
            return
        depth, number = 0, -1
        for k in range(i, f.body[1]):
            if t[k] in "([{":
                depth += 1
            elif t[k] in ")]}":
                depth -= 1
                if not depth:
                    return
            if depth == 1 and (t[k] == "," or k == i):
                number += 1
                word = t[k + 1]
                if word not in own and t[k + 2] in (",", ")") and takes[min(number, len(takes) - 1)]:
                    given = self.find(f.file, word)
                    if given:
                        self.given.append((called, given))

    def circles(self, folder):
        """Sets of files that reach each other by calls, the largest first."""
        graph = collections.defaultdict(set)
        for (a, b), _ in self.read_calls().items():
            if a.split("/")[0] == folder:
                graph[a].add(b)
        return sorted((sorted(c) for c in components(graph) if len(c) > 1), key=lambda c: (-len(c), c))


def components(graph):
    """Strongly connected components (Tarjan), without recursion."""
    index, low, on, stack, found = {}, {}, set(), [], []
    for root in sorted(graph):
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root), on.add(root)
        while work:
            at, rest = work[-1]
            to = next(rest, None)
            if to is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == index[at]:
                    part = set()
                    while True:
                        top = stack.pop()
                        on.discard(top), part.add(top)
                        if top == at:
                            break
                    found.append(part)
            elif to not in index:
                index[to] = low[to] = len(index)
                stack.append(to), on.add(to)
                work.append((to, iter(sorted(graph.get(to, ())))))
            elif to in on:
                low[at] = min(low[at], index[to])
    return found


# ---- trees -------------------------------------------------------------------------------------------


def is_source(path):
    return path.endswith((".c", ".h", ".y", ".re")) and path.split("/")[0] in FOLDERS


def tree_here(root):
    texts = {}
    for folder in FOLDERS:
        for at, _, names in os.walk(os.path.join(root, folder)):
            for name in names:
                path = os.path.relpath(os.path.join(at, name), root)
                if is_source(path):
                    with open(os.path.join(at, name), encoding="utf-8", errors="replace") as f:
                        texts[path] = f.read()
    return Tree(texts)


def tree_of(root, commit):
    p = subprocess.run(["git", "-C", root, "archive", commit, *FOLDERS], capture_output=True)
    if p.returncode:
        sys.exit("structure: %s: %s" % (commit, p.stderr.decode().strip()))
    with tarfile.open(fileobj=io.BytesIO(p.stdout)) as tar:
        return Tree(
            {
                m.name: tar.extractfile(m).read().decode("utf-8", "replace")
                for m in tar
                if m.isfile() and is_source(m.name)
            }
        )


class Figures:
    def __init__(self, tree, folders):
        self.lines, self.structs, self.functions, self.circles = {}, {}, {}, {}
        for folder in folders:
            inside = folder + "/"
            self.lines[folder] = sum(
                s.text.count("\n") for p, s in tree.sources.items() if p.startswith(inside)
            )
            self.structs[folder] = sorted(
                (s for s in tree.structs if s.members > MEMBERS and s.file.startswith(inside)),
                key=lambda s: -s.members,
            )
            self.functions[folder] = sorted(
                (f for f in tree.functions if f.lines > LENGTH and not f.table and f.file.startswith(inside)),
                key=lambda f: -f.lines,
            )
            self.circles[folder] = tree.circles(folder)

    def limits(self, folder):
        """What may not grow: how many, and the worst."""
        structs, functions, circles = self.structs[folder], self.functions[folder], self.circles[folder]
        return {
            "structs": (len(structs), structs[0].members if structs else 0),
            "functions": (len(functions), functions[0].lines if functions else 0),
            "circles": (sum(map(len, circles)), len(circles[0]) if circles else 0),
        }


def show(figures):
    for folder in figures.lines:
        for s in figures.structs[folder]:
            print("%s:%d: struct %s has %d members" % (s.file, s.line, s.name, s.members))
    for folder in figures.lines:
        for f in figures.functions[folder]:
            print("%s:%d: %s has %d lines" % (f.file, f.line, f.name, f.lines))
    for folder in figures.lines:
        for c in figures.circles[folder]:
            print(
                "%s: a circle of %d files: %s"
                % (folder, len(c), " ".join(os.path.relpath(p, folder) for p in c))
            )
    print("%-8s %7s %8s %10s %17s" % ("folder", "lines", "structs", "functions", "files in circles"))
    for folder, lines in figures.lines.items():
        now = figures.limits(folder)
        print(
            "%-8s %7d %8d %10d %17d"
            % (folder, lines, now["structs"][0], now["functions"][0], now["circles"][0])
        )
    print("%-8s %7d" % ("all", sum(figures.lines.values())))


def show_growth(then, now):
    for folder in now.lines:
        old = {(s.file, s.name): s.members for s in then.structs[folder]}
        for s in now.structs[folder]:
            if s.members > old.get((s.file, s.name), MEMBERS):
                print(
                    "%s:%d: struct %s has %d members, %s before"
                    % (s.file, s.line, s.name, s.members, old.get((s.file, s.name), "at most %d" % MEMBERS))
                )
        old = {(f.file, f.name): f.lines for f in then.functions[folder]}
        for f in now.functions[folder]:
            if f.lines > old.get((f.file, f.name), LENGTH):
                print(
                    "%s:%d: %s has %d lines, %s before"
                    % (f.file, f.line, f.name, f.lines, old.get((f.file, f.name), "at most %d" % LENGTH))
                )
        old = {p for c in then.circles[folder] for p in c}
        for p in sorted({p for c in now.circles[folder] for p in c} - old):
            print("%s: is part of a circle now" % p)
    print("%-8s %8s %8s %8s" % ("folder", "then", "now", "growth"))
    for folder in now.lines:
        print(
            "%-8s %8d %8d %+8d"
            % (folder, then.lines[folder], now.lines[folder], now.lines[folder] - then.lines[folder])
        )
    sums = sum(then.lines.values()), sum(now.lines.values())
    print("%-8s %8d %8d %+8d" % ("all", *sums, sums[1] - sums[0]))


# ---- limits ------------------------------------------------------------------------------------------

HEAD = """\
# What scripts/structure.py --check allows: for each folder how many there are, and the worst one. The numbers
# only become smaller (--record), as the sources get better.
#
#     structs    with more than %d members; members of the largest
#     functions  of more than %d lines; lines of the longest
#     circles    files in circles of calls; files of the largest circle
"""


def read_limits(path):
    with open(path) as f:
        rows = [line.split() for line in f if line.strip() and not line.startswith("#")]
    return {(r[1], r[0]): (int(r[2]), int(r[3])) for r in rows}


def write_limits(path, figures):
    with open(path, "w") as f:
        f.write(HEAD % (MEMBERS, LENGTH))
        for folder in figures.lines:
            for kind, (n, worst) in figures.limits(folder).items():
                f.write("%-9s %-8s %4d %4d\n" % (kind, folder, n, worst))


def check(figures, limits):
    worse, better = 0, 0
    for folder in figures.lines:
        for kind, now in figures.limits(folder).items():
            limit = limits.get((folder, kind), (0, 0))
            if now[0] > limit[0] or now[1] > limit[1]:
                print(
                    "%s: %s over the limit: %d, the worst of %d; allowed are %d and %d"
                    % (folder, kind, *now, *limit)
                )
                worse += 1
            elif now != limit:
                better += 1
    if worse:
        print("scripts/structure.py --since=COMMIT says what has grown.")
    elif better:
        print("%d limits can be lower: scripts/structure.py --record" % better)
    return 1 if worse else 0


# ---- rules, tried on small sources -------------------------------------------------------------------


def try_rules():
    many = "".join("int m%d;" % i for i in range(25))
    long = "    x();\n" * 70
    rows = "".join("    case %d: return %d;\n" % (i, i) for i in range(80))
    structs = [
        ("typedef struct S { int a, b; char *c[4]; int (*f)(int x, int y); } S;", 4),
        ("struct S { struct { int a; int b; } in; union { int c; float d; }; int e : 3; };", 5),
        ("typedef struct P { int a, b, c; } P; typedef struct S { P p; int x; } S;", 4),
        ("typedef struct P { int a, b, c; } P; typedef struct S { P p; int x; } S; void f(P *p) { }", 2),
        ("typedef struct P { int a, b, c; } P; typedef struct S { P p, q; } S;", 2),
        ("typedef struct P { int a, b, c; } P; typedef struct S { P *p; int x; } S;", 2),
        ("enum { A, B };\nstruct S { VEC(Node *) more; enum { C, D } kind; };", 2),
        ("typedef struct S { /* int no; */ %s } S;" % many, 25),
    ]
    failed = 0
    for text, members in structs:
        found = [s.members for s in Tree({"lang/a.c": text}).structs if s.name == "S"]
        if found != [members]:
            print("structure: %s has %s members, not %d" % (text, found, members))
            failed += 1
    functions = [
        ("int f(int a)\n{\n%s}\n" % long, 1),
        ("static int f(void) {\n    switch (x) {\n%s    }\n}\n" % rows, 0),
        ("static const int f[] = {\n%s};\n" % ("    1,\n" * 70), 0),
        ("#define F(x) { \\\n%s }\n" % ("  x \\\n" * 70), 0),
    ]
    for text, n in functions:
        if len([f for f in Tree({"lang/a.c": text}).functions if f.lines > LENGTH and not f.table]) != n:
            print("structure: %d long functions wanted: %s .." % (n, text[:60]))
            failed += 1
    a, b, h = "lang/a.c", "lang/b.c", "lang/a.h"
    circles = [
        ({a: "void f(void) { g(); }", b: "void g(void) { f(); }"}, 1),
        ({a: "void f(void) { g(); }", b: "static void f(void) { }  void g(void) { f(); }"}, 0),
        ({a: "void f(void) { g(); }", b: "void g(void) { int f = 1; h(f); }"}, 0),
        ({a: "void f(void) { g(); }", b: 'void g(void) { "f()"; /* f() */ x.f(); }'}, 0),
        (
            {
                a: "void each(void (*v)(int)) { v(1); }",
                b: "static void one(int x) { }  void all(void) { each(one); }",
            },
            1,
        ),
        (
            {
                h: "typedef void V(int x);",
                a: "void each(int n, V *v) { v(1); }",
                b: "static void one(int x) { }  void all(void) { each(1, one); }",
            },
            1,
        ),
        (
            {
                a: "void each(int n, V *v) { v(1); }",
                b: "void one(int x) { }  void all(void) { each(one, 0); }",
            },
            0,
        ),
        (
            {
                a: "void go(D *d) { d->run(d); }",
                b: "static void one(D *d) { }  void all(D *d) { d->run = one; go(d); }",
            },
            1,
        ),
        (
            {
                a: "void go(D *d) { d->run(d); }",
                b: "static void one(D *d) { }  const D t[] = {{.run = one}};  void all(D *d) { go(d); }",
            },
            0,
        ),
        ({a: "void f(void) { g(); }", b: "void g(void) { F(1); }", h: "#define F(x) f()"}, 1),
        (
            {
                a: "void f(void) { Go(); }",
                "lang/g.y": "%name Go\n%type x {int}\nx(A) ::= y(B).\n  { A = f(B); }\n",
            },
            1,
        ),
        ({a: "void f(void) { g(); }", "sema/b.c": "void g(void) { f(); }"}, 0),
    ]
    for texts, n in circles:
        if len(Tree(texts).circles("lang")) != n:
            print("structure: %d circles wanted in %s" % (n, texts))
            failed += 1
    return failed


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("folders", nargs="*", help="folders (default: all)")
    parse.add_argument("--since", metavar="COMMIT")
    parse.add_argument("--why", nargs=2, metavar="FILE")
    parse.add_argument("--check", action="store_true")
    parse.add_argument("--record", action="store_true")
    args = parse.parse_args()
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    path = os.path.join(root, "scripts/structure.limits")
    wrong = [f for f in args.folders if f not in FOLDERS]
    if wrong:
        sys.exit("structure: no folder of C: %s; there are %s" % (" ".join(wrong), " ".join(FOLDERS)))
    tree = tree_here(root)
    if args.why:
        for name, how in sorted(tree.read_calls().get(tuple(args.why), ())):
            print("%s, %s" % (name, how if how.startswith(("by ", "through ")) else "in " + how))
        return 0
    figures = Figures(tree, args.folders or FOLDERS)
    if args.since:
        show_growth(Figures(tree_of(root, args.since), args.folders or FOLDERS), figures)
    elif args.record:
        write_limits(path, figures)
    elif args.check:
        return 1 if try_rules() else check(figures, read_limits(path))
    else:
        show(figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
