#!/usr/bin/env python3
"""How long compilations take, and how much memory: percentiles over corpus and random programs.

    scripts/compile-times.py build-dev                      examples, library, tests, random programs
    scripts/compile-times.py build-dev --random=500 --schedules=3 --seed=7
    scripts/compile-times.py build-dev --against=OTHER/tkc  and whether OTHER writes the same PTX

Each kernel of examples/, lang/std/ and tests/*/ is compiled by itself for each target, with the default schedule and
with schedules drawn from the seed. Random programs come from BUILD/bin/random_programs, by all of its generators. Time
is that of the processor (user and system, of all threads), so that other work on the machine matters little; memory is
the largest resident set. A compilation ends at --most seconds. Exit 1: the 99th percentile is above --p99 or the worst
above --worst, a compilation ended by a signal, or the PTX differs.
"""
import argparse, concurrent.futures, os, random, re, resource, subprocess, sys, tempfile

WORDS = {"warps": [1, 2, 4, 8, 16, 32], "stages": [1, 2, 3, 4, 6], "cluster": [1, 2, 4], "split_k": [1, 2, 4, 8],
         "blocks": [1, 32, 132], "persistent": [1, 2], "sliced_k": [1, 2], "pingpong": [1, 2], "groups": [1, 2, 3],
         "stream_k": [1, 2], "resident_b": [1, 4], "privatize": [1, 2]}
GENERATORS = ["", "--products", "--sums", "--rows", "--carried"]


def limits(most):
    resource.setrlimit(resource.RLIMIT_CPU, (most, most))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def compile_one(tkc, args, most):
    """Processor seconds, MiB, how it ended, PTX."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        p = subprocess.Popen([tkc] + args, stdout=out, stderr=err, stdin=subprocess.DEVNULL, preexec_fn=lambda: limits(most))
        _, status, usage = os.wait4(p.pid, 0)
        p.returncode = 0
        out.seek(0)
        err.seek(0)
        text, words = out.read(), err.read().decode(errors="replace")
    end = "signal %d" % os.WTERMSIG(status) if os.WIFSIGNALED(status) else "exit %d" % os.WEXITSTATUS(status)
    if "internal error" in words:
        end = "internal error"
    why = next((line for line in words.splitlines() if "error" in line), "")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024, end, text, why


def kernels(tkc, path):
    r = subprocess.run([tkc, "--list", path], capture_output=True, text=True)
    return re.findall(r"^\s*kernel (\w+)|^(\w+)", r.stdout, re.M) if r.returncode == 0 else []


def schedule(draw):
    words = draw.sample(sorted(WORDS), draw.randint(1, 3))
    return ["--with=%s=%d" % (w, draw.choice(WORDS[w])) for w in words]


def corpus(root, folders):
    for folder in folders:
        for at, _, names in os.walk(os.path.join(root, folder)):
            for name in sorted(names):
                if name.endswith(".tk"):
                    yield os.path.join(at, name)


def jobs_of(a, tkc, scratch):
    draw = random.Random(a.seed)
    for path in sorted(corpus(a.root, a.folders)):
        names = [x or y for x, y in kernels(tkc, path)]
        for name in names:
            for arch in a.arch:
                yield [path, "--kernel=" + name, "--arch=" + arch]
                for _ in range(a.schedules):
                    yield [path, "--kernel=" + name, "--arch=" + arch] + schedule(draw)
    maker = os.path.join(a.build, "bin", "random_programs")
    for i in range(a.random):
        seed, kind = draw.randrange(1 << 30), GENERATORS[i % len(GENERATORS)]
        r = subprocess.run([maker] + ([kind] if kind else []) + ["--show", str(seed)], capture_output=True, text=True)
        path = os.path.join(scratch, "random%s_%d.tk" % (kind.replace("--", "_"), seed))
        with open(path, "w") as f:
            f.write(r.stdout)
        for arch in a.arch:
            yield [path, "--arch=" + arch] + (schedule(draw) if i % 2 else [])


def percentile(sorted_values, p):
    return sorted_values[min(len(sorted_values) - 1, int(len(sorted_values) * p / 100))]


def report(rows, a):
    times, sizes = sorted(r[1][0] for r in rows), sorted(r[1][1] for r in rows)
    print("%d compilations" % len(rows))
    for p in (50, 90, 95, 99, 99.9, 100):
        print("%5.1f %%  %8.3f s  %7.1f MiB" % (p, percentile(times, p), percentile(sizes, p)))
    print("slowest:")
    for args, r in sorted(rows, key=lambda x: -x[1][0])[: a.show]:
        print("  %7.3f s %7.1f MiB  %-14s %s" % (r[0], r[1], r[2], " ".join(args)))
    ends = {}
    for args, r in rows:
        ends.setdefault(r[2], []).append((args, r))
    for end, of in sorted(ends.items()):
        print("%s: %d" % (end, len(of)))
        if end != "exit 0":
            for args, r in of[: a.show]:
                print("  %s\n      %s" % (" ".join(args), r[4]))
    bad = [e for e in ends if e.startswith("signal") or e.startswith("internal")]
    return bool(bad) or percentile(times, 99) > a.p99 or times[-1] > a.worst


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("--folders", nargs="*", default=["examples", "lang/std", "tests"])
    p.add_argument("--arch", nargs="*", default=["sm_80", "sm_90a"])
    p.add_argument("--schedules", type=int, default=1, help="random schedules of each kernel and target")
    p.add_argument("--random", type=int, default=200, help="random programs")
    p.add_argument("--part", type=float, default=1, help="of all these compilations, drawn from the seed")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--jobs", type=int, default=2)
    p.add_argument("--most", type=int, default=60)
    p.add_argument("--p99", type=float, default=0.2)
    p.add_argument("--worst", type=float, default=10)
    p.add_argument("--show", type=int, default=12)
    p.add_argument("--against", help="another tkc, whose PTX should be the same")
    a = p.parse_args()
    a.root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    tkc = os.path.join(a.build, "tkc")
    with tempfile.TemporaryDirectory() as scratch:
        todo = list(jobs_of(a, tkc, scratch))
        if a.part < 1:
            todo = random.Random(a.seed).sample(todo, int(len(todo) * a.part))

        def run(args):
            r = compile_one(tkc, args, a.most)
            other = compile_one(a.against, args, a.most) if a.against else r
            return args, r, r[3] == other[3] or other[2] != r[2]

        with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
            rows = list(pool.map(run, todo))
    bad = report([(args, r) for args, r, _ in rows], a)
    differ = [args for args, _, same in rows if not same]
    if a.against:
        print("PTX differs: %d" % len(differ))
        for args in differ[: a.show]:
            print("  " + " ".join(args))
    sys.exit(1 if bad or differ else 0)


main()
