#!/usr/bin/env python3
"""Queries bench/experiments.tsv: what was measured, what was tried, and what is open.

Examples:
    scripts/experiments.py --list                                  the subjects and verdicts, with their numbers of rows
    scripts/experiments.py --subject matmul --verdict rejected     what was tried on matmuls and not taken
    scripts/experiments.py --case 'attention.*D64' --since 2026-11-22
    scripts/experiments.py --verdict open --heads                  what is open: one plain line an item
    scripts/experiments.py --id attention-045                      one entry whole, nothing cut, with its figures
    scripts/experiments.py --text 'stream-?K' --format markdown --columns id,case,variant,verdict,note
    scripts/experiments.py --check                                 is the file sound? (run by the test docs.experiments)

An entry is one idea, one measurement or one open item. Its first row is the head, matmul-070; rows with a letter,
matmul-070a, hold the single figures of that entry or the further sentences of a long note.

Columns:
    id          subject, a number, and a letter for the rows below a head
    date        when it was measured or decided; empty if that was not written down
    commit      the commit that was measured, if it was written down
    gpu         H200, H100; empty if no GPU was used
    subject     what it is about; a subject may have parts: matmul.8bit belongs to matmul
    case        the workload: shapes, layouts, the model
    variant     what was tried; "as matmul-070" in a row that holds a figure of that entry
    value, unit             the figure of tk; unit ratio: how many times as fast as the peer
    peer, peer_value        what it is compared with, in the same unit; peer "before" is tk without the change
    verdict     kept, rejected, open; measured where there was nothing to decide
    note        result and decision, in words
    source      files of bench/results, separated by a space

bench/README.md says how to add a row.
"""
import argparse
import datetime
import os
import re
import shutil
import sys
import textwrap

COLUMNS = "id date commit gpu subject case variant value unit peer peer_value verdict note source".split()
VERDICTS = {"kept": "the change is in the tree, at least where the note says",
            "rejected": "the change was tried and is not in the tree",
            "open": "not done, or not decided",
            "measured": "a figure or a fact; there was nothing to decide"}
UNITS = ["us", "ms", "s", "TFLOP/s", "GB/s", "TB/s", "ratio", "clocks", "instructions", "bytes", "%"]
SHOWN = "id,date,gpu,case,value,unit,peer,peer_value,verdict,note"
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ID = re.compile(r"(?P<subject>[a-z][a-z0-9._-]*)-(?P<number>\d{3,})(?P<letter>[a-z]{0,2})\Z")


def fail(message):
    sys.exit("experiments.py: " + message)


def read_lines(path):
    try:
        with open(path, encoding="utf-8", newline="") as f:
            return f.read().split("\n")
    except OSError as e:
        fail("cannot read %s: %s" % (path, e.strerror))
    except UnicodeDecodeError as e:
        fail("%s is not UTF-8: byte %d" % (path, e.start))


def read_rows(path):
    lines = read_lines(path)
    if lines[0].split("\t") != COLUMNS:
        fail("%s does not begin with the columns %s; --check says more" % (path, " ".join(COLUMNS)))
    rows = []
    for number, line in enumerate(lines[1:], 2):
        if not line:
            continue
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            fail("%s:%d: %d cells instead of %d; --check says more" % (path, number, len(cells), len(COLUMNS)))
        rows.append(dict(zip(COLUMNS, cells)))
    return rows


def parse_date(text):
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        return None


def number_fault(row, value, needs):
    """A cell that holds a number needs certain other cells."""
    if not row[value]:
        return None
    if not re.match(r"-?\d+(\.\d+)?\Z", row[value]):
        return "%s is not a plain number: '%s' (ranges and lists belong into the note)" % (value, row[value])
    for other in needs:
        if not row[other]:
            return "%s is given, but %s is empty" % (value, other)
    return None


def row_faults(row, heads, seen, last):
    """What is wrong with one row, as sentences."""
    m = ID.match(row["id"])
    if not m:
        yield "id '%s' is not a subject, three digits and at most two letters, as in matmul-070a" % row["id"]
    else:
        head = m["subject"] + "-" + m["number"]
        if m["subject"] != row["subject"]:
            yield "id '%s' does not begin with its subject '%s'" % (row["id"], row["subject"])
        if row["id"] in seen:
            yield "id '%s' stands in line %d already" % (row["id"], seen[row["id"]])
        if m["letter"] and head not in heads:
            yield "'%s' stands before its head '%s', or has none" % (row["id"], head)
        elif m["letter"] and last != head:
            yield "'%s' does not follow the other rows of '%s'" % (row["id"], head)
    if row["date"] and not parse_date(row["date"]):
        yield "date '%s' is not a day, as in 2026-11-28" % row["date"]
    if row["value"] and not row["date"]:
        yield "a figure without a date"
    if row["commit"] and not re.match(r"[0-9a-f]{7,40}\Z", row["commit"]):
        yield "commit '%s' is not 7 to 40 hexadecimal digits" % row["commit"]
    if row["gpu"] and not re.match(r"[A-Z0-9][A-Za-z0-9 -]*\Z", row["gpu"]):
        yield "gpu '%s' is not a name such as H200" % row["gpu"]
    for cell in ("subject", "case", "verdict", "note"):
        if not row[cell]:
            yield "%s is empty" % cell
    if row["verdict"] and row["verdict"] not in VERDICTS:
        yield "verdict '%s' is none of %s" % (row["verdict"], ", ".join(VERDICTS))
    if row["unit"] and row["unit"] not in UNITS:
        yield "unit '%s' is none of %s" % (row["unit"], ", ".join(UNITS))
    for fault in (number_fault(row, "value", ["unit"]), number_fault(row, "peer_value", ["value", "peer"])):
        if fault:
            yield fault
    for cell in COLUMNS:
        if row[cell] != row[cell].strip() or "\r" in row[cell]:
            yield "%s has spaces at an end, or a carriage return" % cell
    for path in row["source"].split():
        if not path.startswith("bench/results"):
            yield "source '%s' is not in bench/results" % path
        elif not os.path.exists(os.path.join(ROOT, path)):
            yield "source '%s' does not exist" % path


def check(path):
    """Prints every fault of the file with its line; the exit status."""
    lines = read_lines(path)
    faults = []
    if lines[0].split("\t") != COLUMNS:
        faults.append((1, "the first line is not the columns: " + " ".join(COLUMNS)))
    if lines[-1] != "":
        faults.append((len(lines), "no line feed at the end"))
    seen, heads, last, rows = {}, set(), "", 0
    for number, line in enumerate(lines[1:-1] if lines[-1] == "" else lines[1:], 2):
        cells = line.split("\t")
        if len(cells) != len(COLUMNS):
            faults.append((number, "%d cells instead of %d (one tab between cells)" % (len(cells), len(COLUMNS))))
            continue
        row = dict(zip(COLUMNS, cells))
        faults += [(number, fault) for fault in row_faults(row, heads, seen, last)]
        m = ID.match(row["id"])
        if m:
            last = m["subject"] + "-" + m["number"]
            seen.setdefault(row["id"], number)
            if not m["letter"]:
                heads.add(last)
        rows += 1
    for number, fault in faults:
        print("%s:%d: %s" % (path, number, fault))
    if not faults:
        print("%d rows, %d entries: sound" % (rows, len(heads)))
    return 1 if faults else 0


def compile_pattern(option, text):
    try:
        return re.compile(text, re.IGNORECASE)
    except re.error as e:
        fail("%s '%s' is not a regular expression: %s" % (option, text, e))


def one_of(option, text, known):
    if text not in known:
        fail("%s '%s' is none of: %s" % (option, text, ", ".join(sorted(known))))
    return text


def select(rows, args):
    subjects = {r["subject"] for r in rows}
    subjects |= {s.split(".")[0] for s in subjects}
    if args.subject:
        one_of("--subject", args.subject, subjects)
        rows = [r for r in rows if r["subject"] == args.subject or r["subject"].startswith(args.subject + ".")]
    if args.verdict:
        one_of("--verdict", args.verdict, VERDICTS)
        rows = [r for r in rows if r["verdict"] == args.verdict]
    if args.gpu:
        gpus = {r["gpu"].lower(): r["gpu"] for r in rows if r["gpu"]}
        if args.gpu.lower() not in gpus and rows:
            known = ", ".join(sorted(gpus.values())) or "none"
            fail("no row of these is of --gpu '%s', only of: %s" % (args.gpu, known))
        rows = [r for r in rows if r["gpu"].lower() == args.gpu.lower()]
    if args.since:
        if not parse_date(args.since):
            fail("--since '%s' is not a day, as in 2026-11-28" % args.since)
        rows = [r for r in rows if r["date"] >= args.since]
    if args.id:
        m = ID.match(args.id)
        if not m:
            fail("--id '%s' is not an id such as matmul-070 or matmul-070a" % args.id)
        rows = [r for r in rows if r["id"] == args.id
                or (not m["letter"] and r["id"].rstrip("abcdefghijklmnopqrstuvwxyz") == args.id)]
    if args.case:
        pattern = compile_pattern("--case", args.case)
        rows = [r for r in rows if pattern.search(r["case"])]
    if args.text:
        pattern = compile_pattern("--text", args.text)
        rows = [r for r in rows if any(pattern.search(cell) for cell in r.values())]
    if args.heads:
        rows = [r for r in rows if not ID.match(r["id"])["letter"]]
    return rows


def print_counts(rows):
    for column in ("subject", "verdict", "gpu"):
        print(column)
        for name in sorted({r[column] for r in rows}):
            of = [r for r in rows if r[column] == name]
            heads = sum(1 for r in of if not ID.match(r["id"])["letter"])
            counts = "%-16s %5d rows, %4d entries" % (name or "(none)", len(of), heads)
            print(("    %s   %s" % (counts, VERDICTS.get(name, ""))).rstrip())


def print_table(rows, columns, width):
    """Columns as wide as their cells; the last one, and any above 44, are cut to what the width leaves."""
    widths = [max([len(c)] + [min(len(r[c]), 44) for r in rows]) for c in columns]
    left = width - sum(w + 2 for w in widths[:-1])
    widths[-1] = max(widths[-1] if left < 20 else left, len(columns[-1]))
    for r in [dict(zip(columns, columns))] + rows:
        cells = [r[c] if len(r[c]) <= w else r[c][:w - 2] + ".." for c, w in zip(columns, widths)]
        print("  ".join(c.ljust(w) for c, w in zip(cells, widths)).rstrip())


def print_records(rows, columns, width):
    """A line for each cell that is not empty, wrapped; rows below a head without what they share with it."""
    head = {"id": None}
    for r in rows:
        m = ID.match(r["id"])
        below = m["letter"] and head["id"] == m["subject"] + "-" + m["number"]
        shared = ("date", "commit", "gpu", "subject", "verdict", "source") if below else ()
        for c in columns:
            if r[c] and not (c in shared and r[c] == head[c]):
                print(textwrap.fill(r[c], max(width, 40), initial_indent=c.ljust(12), subsequent_indent=" " * 12,
                                    break_long_words=False, break_on_hyphens=False))
        print()
        head = head if below else r


def print_rows(rows, columns, form, width):
    if form == "tsv":
        print("\t".join(columns))
        for r in rows:
            print("\t".join(r[c] for c in columns))
    elif form == "markdown":
        print("| " + " | ".join(columns) + " |")
        print("|" + "---|" * len(columns))
        for r in rows:
            print("| " + " | ".join(r[c].replace("|", "\\|") for c in columns) + " |")
    elif form == "records":
        print_records(rows, columns, min(width, 110))
    else:
        print_table(rows, columns, width)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--subject", help="rows of this subject and of its parts (--list names them)")
    p.add_argument("--case", metavar="REGEX", help="rows whose case matches, in either letter case")
    p.add_argument("--text", metavar="REGEX", help="rows of which any column matches")
    p.add_argument("--id", help="one entry with all its rows, or one row")
    p.add_argument("--gpu", help="rows measured on this GPU")
    p.add_argument("--verdict", help=", ".join(VERDICTS))
    p.add_argument("--since", metavar="DATE", help="rows of this day and later; rows without a date are left out")
    p.add_argument("--heads", action="store_true", help="the first row of each entry only")
    p.add_argument("--columns", help="which columns, separated by commas; 'all' is all of them")
    p.add_argument("--format", metavar="FORMAT",
                   help="table (long cells are cut), records (nothing is cut; --id's own), tsv, markdown")
    p.add_argument("--width", type=int, help="of a table; as wide as the terminal if not given, else 200")
    p.add_argument("--list", action="store_true", help="subjects, verdicts and GPUs, with the numbers of rows")
    p.add_argument("--check", action="store_true", help="check the file; exit status 1 if anything is wrong")
    p.add_argument("--file", default=os.path.join(ROOT, "bench", "experiments.tsv"),
                   help="another file of this form")
    args = p.parse_args()
    if args.check:
        return check(args.file)
    form = args.format or ("records" if args.id else "table")
    one_of("--format", form, ["table", "records", "tsv", "markdown"])
    shown = args.columns or ("all" if form == "records" else SHOWN)
    columns = COLUMNS if shown == "all" else shown.split(",")
    for c in columns:
        one_of("--columns", c, COLUMNS)
    rows = select(read_rows(args.file), args)
    if not rows:
        print("experiments.py: no row matches", file=sys.stderr)
        return 1
    if args.list:
        print_counts(rows)
    else:
        width = args.width or (shutil.get_terminal_size().columns if sys.stdout.isatty() else 200)
        print_rows(rows, columns, form, width)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
