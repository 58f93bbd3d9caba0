#!/usr/bin/env python3
"""Compares the code that two compilers generate, each of its own sources. scripts/same-ptx.sh builds both and
calls this.

Cases. Each kernel of each .tk file, for each target, and for the last target without assumptions
(--general); the options of the rows in tests/, as ctest lists them (`--set`, `--with` ..); the shapes in
tests/lower/test_cost*.c, with the tile left open and with the first tile of the row; each ONNX model, as
it is and in bf16, as a program (--emit=tk), as the choices of the program's launches (--emit=plan) and as
the PTX of all its kernels. A case of one side is tried on the other side, too, so that tests may move; a
file or kernel that only one side has is counted.

Names. The table (scripts/same-ptx.names) says what was renamed, from the baseline's names to the new ones:

    OLD NEW             a kernel, a schedule word, any identifier
    OLD/PATH NEW/PATH   a file; with a / at the end, all files of a folder
    PATH OLD NEW        an identifier in one file, which is named by its old path

The new side's cases reach the baseline through the table backwards. The text of the baseline is put
through it word by word before it is compared. On both sides, places in sources (FILE.tk:LINE:COLUMN) and
the numbers of functions in labels become nothing, and arrays of bytes that are text become text. All else
counts, byte for byte. Failures are the same when their messages are.

Output: a line for each class of differences (those whose first differing lines are alike but for numbers),
and counts. With --expected, a line of that file is a pattern (* and ?) for cases as they are printed,
`FILE KERNEL OPTIONS`.
"""

import argparse, collections, concurrent.futures, difflib, fnmatch, hashlib, json, os, re, sqlite3
import subprocess, sys, threading, time, zlib

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
KEPT = re.compile(
    r"--(set|with|math|general|dtype|dtype-io|fix|donate|random-weights|arg|opt|line-info)(=|$)"
)
VALUED = {"--set", "--with", "--math", "--dtype", "--fix", "--arg", "--opt", "--arch", "--kernel", "-k"}
MOST = 120  # seconds for one compilation


class Names:
    """The rename table, forwards; or backwards, but for rows whose old name the baseline does not know."""

    def __init__(self, rows, known, backwards):
        self.words, self.paths, self.folders, self.local = {}, {}, [], collections.defaultdict(dict)
        for row in rows:
            *where, old, new = row
            if backwards:
                old, new = new, old
            if backwards and new not in known and not new.endswith("/"):
                continue
            if where:
                self.local[where[0]][old] = new
            elif old.endswith("/"):
                self.folders.append((old, new))
            elif "/" in old or "." in old:
                self.paths[old] = new
            else:
                self.words[old] = new
        self.folders.sort(key=lambda pair: -len(pair[0]))

    def path(self, path):
        if path in self.paths:
            return self.paths[path]
        for old, new in self.folders:
            if path.startswith(old):
                return new + path[len(old) :]
        return path

    def word(self, word, local=None):
        return (local or {}).get(word) or self.words.get(word, word)

    def text(self, text, path=None):
        local = self.local.get(path, {})
        if not self.words and not local:
            return text

        def one(match):
            word = match.group()
            found = self.word(word, local)
            if found == word and "_param_" in word:
                head, _, tail = word.rpartition("_param_")
                return self.word(head, local) + "_param_" + tail
            return found

        return WORD.sub(one, text)


def read_rows(path):
    rows = []
    if not path or not os.path.exists(path):
        return rows
    with open(path) as f:
        for number, line in enumerate(f, 1):
            row = line.split("#")[0].split()
            if row and len(row) not in (2, 3):
                sys.exit("%s:%d: a line is OLD NEW or PATH OLD NEW" % (path, number))
            if row:
                rows.append(row)
    return rows


# ---- one side ----------------------------------------------------------------------------------------


class Side:
    """A compiler and its sources. What a commit's compiler wrote is kept in a database."""

    def __init__(self, text, cache, models):
        self.tkc, self.tree, self.build, self.commit = text.split("\t")
        self.models, self.lock, self.db = models, threading.Lock(), None
        if self.commit:
            os.makedirs(os.path.join(cache, "kept"), exist_ok=True)
            name = "%s-%s.sqlite" % (self.commit[:12], os.path.basename(self.build))
            self.db, self.pending = (
                sqlite3.connect(os.path.join(cache, "kept", name), 60, check_same_thread=False),
                {},
            )
            self.db.execute(
                "create table if not exists said (key text primary key, status integer, text blob)"
            )

    def run(self, args, source=None):
        """Status (negative: a signal), and standard output, or the messages where it failed."""
        key = None
        if self.db:
            stamp = "".join(
                "%s %d" % (os.stat(a).st_size, os.stat(a).st_mtime)
                for a in args
                if a.startswith("/") and os.path.exists(a)
            )
            key = "\0".join(args + [stamp, hashlib.sha256(source.encode()).hexdigest() if source else ""])
            with self.lock:
                row = (
                    self.pending.get(key)
                    or self.db.execute("select status, text from said where key = ?", (key,)).fetchone()
                )
            if row:
                return row[0], zlib.decompress(row[1]).decode(errors="replace")
        status, text = self.run_now(args, source)
        if key:
            with self.lock:
                self.pending[key] = (status, zlib.compress(text.encode(), 1))
                if len(self.pending) >= 500:
                    self.keep()
        return status, text

    def run_now(self, args, source):
        try:
            p = subprocess.run(
                [self.tkc] + args,
                cwd=self.tree,
                input=(source or "").encode(),
                capture_output=True,
                timeout=MOST,
            )
            status, text = p.returncode, p.stdout if p.returncode == 0 else p.stderr
        except subprocess.TimeoutExpired:
            status, text = 124, b"not done after %d s" % MOST
        return status, text.decode(errors="replace")

    def keep(self):
        """Short transactions: other runs may use the same folder."""
        if self.db:
            self.db.executemany(
                "insert or replace into said values (?, ?, ?)", [(k, *row) for k, row in self.pending.items()]
            )
            self.db.commit()
            self.pending.clear()

    def files(self, ending):
        for at, folders, names in os.walk(self.tree):
            folders[:] = sorted(f for f in folders if not f.startswith((".", "build")))
            for name in sorted(names):
                if name.endswith(ending):
                    yield os.path.relpath(os.path.join(at, name), self.tree)

    def read(self, path):
        with open(os.path.join(self.tree, path), errors="replace") as f:
            return f.read()

    def look(self, pool):
        """Files with their kernels (None: it cannot be read), models, rows and shapes of the tests, words."""
        paths = list(self.files(".tk"))
        listed = pool.map(lambda path: self.run(["--list", path, "--diag=short"]), paths)
        self.kernels = {}
        for path, (status, text) in zip(paths, listed):
            names = re.findall(r"^\s*(?:kernel )?(\w+)\s+\S+:\d+", text, re.M)
            self.kernels[path] = names if status == 0 and names else None
        self.onnx = list(self.files(".onnx"))
        self.costs = [
            c
            for path in self.files(".c")
            if re.match(r"tests/.*/test_cost\w*\.c$", path)
            for c in cost_cases(path, self.read(path))
        ]
        self.rows = list(self.test_rows())
        self.known = set(self.kernels) | set(self.onnx) | set(os.path.dirname(p) + "/" for p in self.kernels)
        for text in (
            [self.run(["--help"])[1]]
            + [self.read(p) for p in self.kernels]
            + [" ".join(r[2]) for r in self.rows]
        ):
            self.known.update(WORD.findall(text))

    def inner(self, path):
        """A path of the tests as one of the tree; None: it is not there."""
        if path.startswith("std/"):
            return next((p for p in self.kernels if p.endswith("/" + path + ".tk")), None)
        if not path.startswith("/"):
            return None
        path = os.path.relpath(path, self.tree)
        return path if path in self.kernels or path in self.onnx else None

    def test_rows(self):
        """(file, kernel or "", options) of each test that compiles with options of its own."""
        said = subprocess.run(
            ["ctest", "--test-dir", self.build, "--show-only=json-v1"], capture_output=True, text=True
        ).stdout
        tests = json.loads(said)["tests"] if said.startswith("{") else []
        if not tests:
            print("same-ptx: %s lists no tests: their options are not compared" % self.build, file=sys.stderr)
        for test in tests:
            command = test.get("command") or []
            if "-P" in command and any(a.startswith("-DFILE=") for a in command):
                given = dict(a[2:].split("=", 1) for a in command if a.startswith("-D") and "=" in a)
                words = given.get("OPTION", "").split(";")
                if given.get("ARCH"):
                    words.append("--arch=" + given["ARCH"])
                files, kernel = [given["FILE"]], given.get("KERNEL", "")
            elif command and os.path.basename(command[0]) == "tkc":
                words = command[1:]
                files, kernel = [w for w in words if w.endswith((".tk", ".onnx")) or w.startswith("std/")], ""
            else:
                continue
            kernel, options = options_of(words, kernel)
            for file in filter(None, map(self.inner, files)):
                if [o for o in options if not o.startswith("--arch=")]:
                    yield file, kernel, options


def options_of(words, kernel):
    """The kernel, and the options that matter to the code; the target first."""
    arch, options, words = "sm_90a", [], list(words)
    while words:
        word = words.pop(0)
        if word in VALUED and words:
            word += "=" + words.pop(0)
        if word.startswith("--arch="):
            arch = word[7:]
        elif word.startswith(("--kernel=", "-k=")):
            kernel = word.split("=", 1)[1]
        elif KEPT.match(word):
            options.append(word)
    return kernel, ("--arch=" + arch, *options)


def cost_cases(path, text):
    """(file, source, kernel, options) of a cost test, from rows {"kernel", {M, N, K}, {{BM, .."""
    source = re.search(r'static const char source\[\] =\s*((?:"(?:[^"\\]|\\.)*"\s*)+);', text)
    if not source:
        return
    source = "".join(json.loads('"%s"' % s) for s in re.findall(r'"((?:[^"\\]|\\.)*)"', source.group(1)))
    heads = {m.group(1): m.group(0) for m in re.finditer(r"^kernel (\w+)[^{]*", source, re.M)}
    row = re.compile(
        r'"(\w+)",\s*(?:\(Shape\))?\{?\s*(\d+),\s*(\d+)(?:,\s*(\d+))?(?:\},\s*\{\{(\d+), (\d+), (\d+))?'
    )
    for kernel, *numbers in dict.fromkeys(row.findall(text)):
        if kernel not in heads:
            continue
        has = set(WORD.findall(heads[kernel]))
        sets = [
            ("--set=%s=%s" % (n, v))
            for n, v in zip(("M", "N", "K"), numbers)
            if n in has and v not in ("", "0")
        ]
        tile = [
            ("--set=%s=%s" % (n, v))
            for n, v in zip(("BM", "BN", "BK"), numbers[3:])
            if n in has and v not in ("", "0")
        ]
        for options in [sets] + ([sets + tile] if tile else []):
            yield path, source, kernel, tuple(options)


# ---- cases -------------------------------------------------------------------------------------------

# What one side is asked: the arguments before the options, the options, a source for standard input.
# None: it has no such case.
Asked = collections.namedtuple("Asked", "args options source")
Case = collections.namedtuple("Case", "file kernel options base new path")


def case_name(file, kernel, options):
    return " ".join([file, kernel or "-"] + [o[2:] for o in options])


class Cases:
    def __init__(self, base, new, rows, archs):
        self.base, self.new, self.archs, self.of = base, new, archs, {}
        self.forth, self.back = Names(rows, new.known, False), Names(rows, base.known, True)
        self.old_path = {self.forth.path(p): p for p in list(base.kernels) + base.onnx}

    def old_of(self, path):
        return self.old_path.get(path, self.back.path(path))

    def add(self, file, kernel, options, old_options):
        old = self.old_of(file)
        local = self.forth.local.get(old, {})
        inverse = {new: word for word, new in local.items()}
        old_kernel = self.back.word(kernel, inverse) if kernel else ""
        self.put(
            Case(
                file,
                kernel,
                options,
                self.asked(self.base, old, old_kernel, old_options),
                self.asked(self.new, file, kernel, options),
                old,
            )
        )

    def put(self, case):
        if case.base or case.new:
            self.of.setdefault(case_name(case.file, case.kernel, case.options), case)

    @staticmethod
    def asked(side, file, kernel, options):
        if file not in side.kernels or (kernel and kernel not in (side.kernels[file] or ())):
            return None
        return Asked([file] + (["--kernel=" + kernel] if kernel else []), list(options), None)

    def files(self):
        """Each kernel at its default sizes; a file that cannot be read, as a whole."""
        forward = {
            self.forth.path(f): [self.forth.word(k, self.forth.local.get(f)) for k in ks or ()]
            for f, ks in self.base.kernels.items()
        }
        forms = [("--arch=" + a,) for a in self.archs] + [("--arch=" + self.archs[-1], "--general")]
        for file in sorted(set(forward) | set(self.new.kernels)):
            for kernel in dict.fromkeys([*forward.get(file, ()), *(self.new.kernels.get(file) or ())]):
                for form in forms:
                    self.add(file, kernel, form, form)
            if not forward.get(file) and not self.new.kernels.get(file):
                self.add(file, "", forms[0], forms[0])

    def tests(self):
        """The rows of both sides' tests, the baseline's in the new words, the new ones in the old words."""

        def both(file, kernel, options, old_options):
            for k in (
                [kernel]
                if kernel
                else self.new.kernels.get(file) or self.base.kernels.get(self.old_of(file)) or ()
            ):
                self.add(file, k, options, old_options)

        for file, kernel, options in self.base.rows:
            if file.endswith(".tk"):
                both(
                    self.forth.path(file),
                    self.forth.word(kernel),
                    tuple(map(self.forth.text, options)),
                    options,
                )
        for file, kernel, options in self.new.rows:
            if file.endswith(".tk"):
                both(file, kernel, options, tuple(map(self.back.text, options)))

    def costs(self):
        """Shapes of the cost tests. A side without a test of that name compiles the other's kernels."""
        sources = {
            s: {(s.forth_path(f), k): text for f, text, k, _ in s.costs} for s in (self.base, self.new)
        }
        for side in (self.base, self.new):
            for file, text, kernel, options in side.costs:
                file = side.forth_path(file)
                base, new = (sources[s].get((file, kernel), text) for s in (self.base, self.new))
                for arch in self.archs:
                    whole = ("--arch=" + arch, *options)
                    self.put(
                        Case(
                            file,
                            kernel,
                            whole,
                            Asked(["-", "--kernel=" + kernel], list(whole), base),
                            Asked(["-", "--kernel=" + kernel], list(whole), new),
                            file,
                        )
                    )

    def models(self, folder):
        """Programs of models: (case, targets of its PTX)."""
        of = {}

        def put(file, options, old, new):
            words = tuple(o for o in options if not o.startswith("--arch="))
            of.setdefault(
                case_name(file, "", words),
                Case(
                    file,
                    "",
                    words,
                    old and Asked([old], [self.back.text(o) for o in words], None),
                    new and Asked([new], list(words), None),
                    file,
                ),
            )

        for path in sorted({self.forth.path(p) for p in self.base.onnx} | set(self.new.onnx)):
            old = self.old_of(path)
            for options in [("--random-weights",), ("--random-weights", "--dtype=bf16")]:
                put(path, options, old in self.base.onnx and old, path in self.new.onnx and path)
        for side in (self.base, self.new):
            for file, _, options in side.rows:
                if file.endswith(".onnx"):
                    path = side.forth_path(file)
                    old = self.old_of(path)
                    put(path, options, old in self.base.onnx and old, path in self.new.onnx and path)
        for at, _, names in sorted(os.walk(folder)) if folder else ():
            for name in sorted(n for n in names if n.endswith(".onnx")):
                path = os.path.join(at, name)
                for dtype in [(), ("--dtype=bf16",)]:
                    for fixed in [()] if dtype else [(), ("--fix=batch=4",)]:
                        put(
                            os.path.relpath(path, os.path.dirname(folder)),
                            ("--random-weights", *dtype, *fixed),
                            path,
                            path,
                        )
        return of


# ---- comparison --------------------------------------------------------------------------------------


def bytes_as_text(match):
    numbers = [int(n) for n in match.group(2).split(",")]
    text = bytes(numbers)
    return (
        "%s = %r" % (match.group(1), text.decode("latin-1"))
        if all(9 <= n < 127 or n == 0 for n in numbers)
        else match.group()
    )


def plain(text, names=None, path=None):
    """What counts of a text: without places in sources, and with the new names."""
    text = re.sub(r"(\.b8 \w+)\[\d+\] = \{([\d, ]+)\}", bytes_as_text, text)
    text = re.sub(r"^// \S+, compiled by tkc \S+ for ", "// for ", text)
    text = re.sub(r"[\w./+-]*\.tk:\d+(:\d+)?|<stdin>:\d+(:\d+)?|\S*-:\d+:\d+", "PLACE", text)
    text = re.sub(r"\$L__BB\d+_", "$L__BB_", text)
    text = re.sub(r"^\s*// \.globl.*\n", "", text, flags=re.M)
    text = re.sub(r"^\.file.*\n", "", text, flags=re.M)
    return names.text(text, path) if names else text


def entries(text):
    """The parts of a module: what stands before the first kernel, and each kernel with what follows it."""
    parts, name, start = {}, "-", 0
    for match in re.finditer(r"^\.visible \.entry (\w+)\(", text, re.M):
        parts[name] = text[start : match.start()]
        name, start = match.group(1), match.start()
    parts[name] = text[start:]
    return parts


def first_difference(a, b):
    a, b = a.splitlines(), b.splitlines()
    for x, y in zip(a, b):
        if x != y:
            return x, y
    return (a[len(b) :] or ["(end)"])[0], (b[len(a) :] or ["(end)"])[0]


class Tally:
    def __init__(self, expected, details):
        self.same, self.only = 0, {"old": [], "new": []}
        self.expected, self.used, self.intended = expected, set(), 0
        self.classes, self.details, self.lock = {}, details, threading.Lock()

    def expects(self, name):
        found = [p for p in self.expected if fnmatch.fnmatchcase(name, p)]
        self.used.update(found)
        return bool(found)

    def differ(self, name, kind, old, new, whole=None):
        with self.lock:
            if self.expects(name):
                self.intended += 1
                return
            key = (kind, re.sub(r"\d+", "#", old), re.sub(r"\d+", "#", new))
            self.classes.setdefault(key, []).append((name, old, new))
            self.details.write("==== %s: %s\n- %s\n+ %s\n" % (name, kind, old, new))
            if whole:
                lines = difflib.unified_diff(
                    whole[0].splitlines(), whole[1].splitlines(), "old", "new", "", "", 3
                )
                self.details.writelines(line + "\n" for _, line in zip(range(400), lines))

    def count(self, old, new, name):
        """A case that only one side has; True: nothing is left to compare."""
        with self.lock:
            if old and new:
                return False
            if old and not self.expects(name):
                self.only["old"].append(name)
            elif new:
                self.only["new"].append(name)
            return True


class Comparison:
    def __init__(self, base, new, cases, tally, archs):
        self.base, self.new, self.cases, self.tally, self.archs = base, new, cases, tally, archs

    def ask(self, case, more):
        old = self.base.run(case.base.args + case.base.options + more, case.base.source)
        new = self.new.run(case.new.args + case.new.options + more, case.new.source)
        return old, new

    def compare(self, name, old, new, path, kind, changes=lambda: False):
        """Two answers, part by part; changes: does one side say something else when it is asked again?"""
        if old[0] != new[0]:
            words = [
                "compiles" if s == 0 else ("status %d: " % s) + (t.strip().splitlines() or [""])[0]
                for s, t in (old, new)
            ]
            self.tally.differ(name, "status", *words)
            return
        if old[1] == new[1]:
            with self.tally.lock:
                self.tally.same += max(1, len(re.findall(r"^\.visible \.entry", new[1], re.M)))
            return
        a, b = plain(old[1], self.cases.forth, path), plain(new[1])
        kind = "message" if old[0] else kind
        a, b = (entries(a), entries(b)) if kind.startswith("PTX") else ({"-": a}, {"-": b})
        if a != b and changes():
            kind += " that differs from run to run"
        for part in dict.fromkeys([*a, *b]):
            named = part == "-" or " %s " % part in name
            part_name = name if named else name.replace(" - ", " %s " % part, 1)
            if part == "-" and len(b) > 1 and a.get(part) == b.get(part):
                continue
            if self.tally.count(part in a, part in b, part_name):
                continue
            if a[part] == b[part]:
                with self.tally.lock:
                    self.tally.same += 1
                continue
            x, y = first_difference(a[part], b[part])
            self.tally.differ(part_name, kind, x.strip(), y.strip(), (a[part], b[part]))

    def kernel(self, name, case):
        if not self.tally.count(case.base, case.new, name):
            self.ptx(name, case, [])

    def ptx(self, name, case, words):
        words = words + ["--emit=ptx", "--diag=short"]
        old, new = self.ask(case, words)

        def changes():
            return varies(self.base, case.base, words, old) or varies(self.new, case.new, words, new)

        self.compare(name, old, new, case.path, "PTX", changes)

    def model(self, name, case):
        if self.tally.count(case.base, case.new, name):
            return
        old, new = self.ask(case, ["--emit=tk"])
        self.compare(name, old, new, case.path, "program")
        if old[0] or new[0]:
            return
        for arch in self.archs:
            program = Case(case.file, "", (), Asked(["-"], [], old[1]), Asked(["-"], [], new[1]), case.path)
            arch_name = name + " arch=" + arch
            self.ptx(arch_name, program, ["--arch=" + arch])
            if arch != self.archs[-1]:
                continue
            plans = self.ask(program, ["--arch=" + arch, "--emit=plan", "--diag=short"])
            if plans[0][0] == 0 == plans[1][0]:
                plans = [(0, choices(plan[1])) for plan in plans]
                self.compare(arch_name + " emit=plan", *plans, case.path, "plan")


def varies(side, asked, words, said):
    """Is something else said when it is asked again? Addresses are others in each run."""
    return any(side.run_now(asked.args + asked.options + words, asked.source) != said for _ in range(4))


def choices(plan):
    """Of each launch in a plan: the kernel, its tile, its schedule, and the numbers of its grid."""
    lines = []
    for line in plan.splitlines():
        launch = re.match(r"\s+(?:\d+|-)\s+(\w+)(<[^>]*>)?\(", line)
        if launch:
            lines.append(
                " ".join(filter(None, launch.groups())) + " ".join(re.findall(r" with \([^)]*\)", line))
            )
        elif re.match(r"\s{6}", line):
            lines.append("    " + " ".join(re.findall(r"\d+", line)))
    return "\n".join(lines) + "\n"


def report(tally, most):
    for (kind, _, _), found in tally.classes.items():
        name, old, new = found[0]
        print("%4d  %s: %s\n        - %s\n        + %s" % (len(found), kind, name, old[:most], new[:most]))
    for side, names in tally.only.items():
        files = collections.Counter(n.split()[0] for n in names)
        for file, n in list(files.items())[:20]:
            print("only in %s: %s, %d cases" % (side, file, n))
        if len(files) > 20:
            print("only in %s: %d more files" % (side, len(files) - 20))
    differ = sum(map(len, tally.classes.values()))
    print(
        "%d the same, %d differ%s, %d only in the old one, %d only in the new one"
        % (
            tally.same,
            differ,
            ", %d differ as expected" % tally.intended if tally.expected else "",
            len(tally.only["old"]),
            len(tally.only["new"]),
        )
    )
    for pattern in tally.expected:
        if pattern not in tally.used:
            print("expected, but not seen: %s" % pattern)
    return 1 if differ or tally.only["old"] else 0


def main(words=None):
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--base", "--new", "--cache"):
        parse.add_argument(name, required=True)
    for name in ("--models", "--names", "--expected", "--only", "--details"):
        parse.add_argument(name, default="")
    parse.add_argument("--archs", default="sm_80,sm_90a")
    parse.add_argument("--jobs", type=int, default=os.cpu_count())
    args = parse.parse_args(words)
    began, archs = time.time(), args.archs.split(",")
    base, new = (Side(text, args.cache, args.models) for text in (args.base, args.new))
    rows = read_rows(args.names or os.path.join(new.tree, "scripts/same-ptx.names"))
    expected = []
    if args.expected:
        with open(args.expected) as f:
            expected = [line.split("#")[0].strip() for line in f if line.split("#")[0].strip()]
    path = args.details or os.path.join(args.cache, "differences.txt")
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool, open(path, "w") as details:
        for side in (base, new):
            side.look(pool)
        cases = Cases(base, new, rows, archs)
        base.forth_path, new.forth_path = cases.forth.path, lambda p: p
        cases.files()
        cases.tests()
        cases.costs()
        tally = Tally(expected, details)
        compare = Comparison(base, new, cases, tally, archs)
        work = [(compare.kernel, n, c) for n, c in cases.of.items()]
        work += [(compare.model, n, c) for n, c in cases.models(args.models).items()]
        work = [w for w in work if not args.only or fnmatch.fnmatchcase(w[1], args.only)]
        shown = sys.stderr.isatty()
        for i, _ in enumerate(pool.map(lambda w: w[0](w[1], w[2]), work)):
            if shown and i % 50 == 0:
                print("\r%d of %d" % (i, len(work)), end="", file=sys.stderr)
        if shown:
            print("\r", end="", file=sys.stderr)
    for side in (base, new):
        side.keep()
    status = report(tally, 160)
    print("%d cases in %.0f s; every difference: %s" % (len(work), time.time() - began, path))
    return status


if __name__ == "__main__":
    sys.exit(main())
