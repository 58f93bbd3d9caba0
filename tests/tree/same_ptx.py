#!/usr/bin/env python3
"""Does scripts/same_ptx.py tell what differs from what does not? Two trees of a few kernels, and compilers
that are scripts.

What such a compiler makes of a kernel is the kernel's text, in a module as tkc writes it; `wrong` in it is
a message.
"""

import contextlib, io, os, sys, tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts"))
sys.dont_write_bytecode = True
import same_ptx

COMPILER = r"""#!/bin/sh
[ "$1" = --help ] && { echo WORDS; exit; }
for a; do case $a in --*) ;; *) path=$a ;; esac; done
exec awk -v path="$path" -v args=" $* " '
BEGIN { for (i = 32; i < 127; i++) code[sprintf("%c", i)] = i }
/^kernel / {
    name = $2
    if (args ~ / --list /) print name "   " path ":" NR
    if (!index(args, " --kernel=" name " ")) next
    body = substr($0, length("kernel " name " ") + 1)
    if (body ~ /wrong/) { print path ":" NR ":1: error: " body " in " name > "/dev/stderr"; exit 1 }
    text = code[substr(name, 1, 1)]
    for (i = 2; i <= length(name); i++) text = text ", " code[substr(name, i, 1)]
    gsub(/; /, ";\n", body)
    print "// " path ", compiled by tkc 0 for sm_90a\n// tk: kernel " name " (" path ":" NR ")"
    print ".global .b8 text[" length(name) "] = {" text "};"
    print ".visible .entry " name "(\n\t.param .u64 " name "_param_0\n)\n{\n" body
    if (match(args, /--with[^ ]*/)) print substr(args, RSTART, RLENGTH)
    print "}"
}' "$path"
"""


def tree(at, files, words):
    os.makedirs(at)
    for name, text in files.items():
        path = os.path.join(at, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text.replace("@", at))
    tkc = os.path.join(at, "tkc")
    with open(tkc, "w") as f:
        f.write(COMPILER.replace("WORDS", words))
    os.chmod(tkc, 0o755)
    return "\t".join([tkc, at, at, ""])


def compare(old, new, names="", expected=None):
    """Exit status and output."""
    with tempfile.TemporaryDirectory() as work:
        sides = tree(work + "/old", old, "walk"), tree(work + "/new", new, "persistent")
        words = ["--base", sides[0], "--new", sides[1], "--cache", work, "--archs=sm_90a", "--jobs=2"]
        for option, text in (("names", names), ("expected", expected)):
            if text is not None:
                with open(os.path.join(work, option), "w") as f:
                    f.write(text)
                words.append("--%s=%s" % (option, os.path.join(work, option)))
        said = io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()):
            status = same_ptx.main(words)
        return status, said.getvalue()


ONE = {"a/x.tk": "kernel turn ld r1; add r2\nkernel two st r1\n"}
SHAPES = "tests/lower/test_cost.c"
COST = r'''static const char source[] =
    "kernel k M ld; walk\n";
static const Seen seen[] = {{"k", {1, 2, 3}, {{8, 8, 8, 1, 2.0}}}};
'''
SUB = {"a/x.tk": ONE["a/x.tk"].replace("add", "sub")}
ROTARY = {"a/x.tk": ONE["a/x.tk"].replace("turn", "rotary")}
ROW = {"CTestTestfile.cmake": 'add_test(row "@/tkc" "test" "@/a/x.tk" "--with=walk=2" "--verify")\n', **ONE}
NEW_ROW = {name: text.replace("walk", "persistent") for name, text in ROW.items()}
CASES = [
    # what, old, new, names, expected, exit status, what is said
    ("alike", ONE, ONE, "", None, 0, "4 the same, 0 differ"),
    ("other lines", ONE, {"a/x.tk": "// more\n\n" + ONE["a/x.tk"]}, "", None, 0, "4 the same, 0 differ"),
    ("another instruction", ONE, SUB, "", None, 1, "2 the same, 2 differ"),
    ("another register", {"x.tk": "kernel f st r1\n"}, {"x.tk": "kernel f st r3\n"}, "", None, 1,
     "- st r1\n        + st r3"),
    ("a line more", {"x.tk": "kernel f ld\n"}, {"x.tk": "kernel f ld; ret\n"}, "", None, 1, "2 differ"),
    ("expected", ONE, SUB, "", "a/x.tk turn *\nb/* # no such", 0, "2 differ as expected"),
    ("expected of another", ONE, SUB, "", "a/x.tk two *", 1, "expected, but not seen: a/x.tk two *"),
    ("a kernel renamed", ONE, ROTARY, "turn rotary", None, 0, "4 the same, 0 differ"),
    (".. in one file", ONE, ROTARY, "a/x.tk turn rotary", None, 0, "4 the same, 0 differ"),
    (".. without a row", ONE, ROTARY, "", None, 1, "2 only in the old one, 2 only in the new one"),
    ("rows of tests", ROW, ROW, "", None, 0, "6 the same, 0 differ"),
    (".. of the old tree alone", ROW, ONE, "", None, 0, "6 the same, 0 differ"),
    (".. by other words", ROW, NEW_ROW, "walk persistent", None, 0, "6 the same, 0 differ"),
    (".. of the new tree alone", ONE, NEW_ROW, "walk persistent", None, 0, "6 the same, 0 differ"),
    (".. of both", ROW, NEW_ROW, "", None, 0, "8 the same, 0 differ"),
    ("a file moved", ONE, {"b/y.tk": ONE["a/x.tk"]}, "a/x.tk b/y.tk", None, 0, "4 the same, 0 differ"),
    ("a folder moved", ONE, {"b/c/x.tk": ONE["a/x.tk"]}, "a/ b/c/", None, 0, "4 the same, 0 differ"),
    ("a file gone", ONE, {}, "", None, 1, "only in old: a/x.tk, 4 cases"),
    ("a file more", {}, ONE, "", None, 0, "4 only in the new one"),
    ("the same message", {"x.tk": "kernel f wrong\n"}, {"x.tk": "\nkernel f wrong\n"}, "", None, 0,
     "2 the same, 0 differ"),
    ("another message", {"x.tk": "kernel f wrong\n"}, {"x.tk": "kernel f very wrong\n"}, "", None, 1,
     "message: x.tk f"),
    ("a failure on one side", {"x.tk": "kernel f ld\n"}, {"x.tk": "kernel f wrong\n"}, "", None, 1,
     "- compiles\n        + status 1: "),
    ("shapes of cost tests", {SHAPES: COST}, {SHAPES: COST}, "", None, 0, "1 the same, 0 differ"),
    (".. by other words", {SHAPES: COST}, {SHAPES: COST.replace("walk", "persistent")}, "walk persistent",
     None, 0, "1 the same, 0 differ"),
    (".. that differ", {SHAPES: COST}, {SHAPES: COST.replace("ld", "st")}, "", None, 1,
     "0 the same, 1 differ"),
]


def main():
    failed = 0
    for what, old, new, names, expected, status, says in CASES:
        got, text = compare(old, new, names, expected)
        if got != status or says not in text:
            print("%s: status %d, not %d, or it does not say `%s`:\n%s" % (what, got, status, says, text))
            failed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
