"""Everything that bench/ measures on a GPU, in one run: tk beside its peers, in turns, checked before it is timed.

    python3 bench/suite.py [SECTION...] [--match TEXT] [--peers main|all] [--rounds 7] [--json FILE] [--arch sm_90a] [--small]

Sections: gemm, products, attention, memory, all of them if none is named; each of those files alone does the same for its
own. A section is a module with a TITLE, a UNIT, the peer that geometric means are taken against (MAIN), and `cases(o)`, which
yields a Case for each row. `--peers=main` leaves out those peers that take long to compile. `--small` checks and times nothing, at sizes
that an emulator runs (TKC_DEVICE=emu, no GPU needed) in the sections that have such: training, inference.
"""
import argparse, dataclasses, importlib, json, math, os, sys, typing, torch
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from turns import turns, ratio, head

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
SECTIONS = ["gemm", "products", "attention", "memory"]
SCALE = {"TFLOP/s": ("flops", 1e6), "GB/s": ("bytes", 1e3)}


@dataclasses.dataclass
class Case:
    """One row. `ours` and each of `peers` make a function that launches once; `check` gives what ours wrote and what it should be, or a list of such pairs."""
    name: str
    flops: float
    bytes: float
    ours: typing.Callable
    peers: dict
    check: typing.Callable
    group: str = ""                                 # geometric means are taken by group
    bound: float = 1e-2                             # the largest relative error (Frobenius) that is timed
    unit: str = ""                                  # of its rates, where it is not the section's


def path(*parts): return os.path.join(ROOT, *parts)


def error(got, want):
    got, want = got.double(), want.double()
    return ((got - want).norm() / want.norm().clamp_min(1e-30)).item()


def worst(pairs):
    return torch.tensor([error(*p) for p in (pairs if isinstance(pairs, list) else [pairs])]).max().item()       # NaN if one is


def wait():
    if torch.cuda.is_available(): torch.cuda.synchronize()


def measure(case, o):
    """{label: Time} in turns, ours first, and the error; raises where ours is wrong. With --small the labels of what ran, untimed."""
    ours = case.ours()
    ours(); wait()
    off = worst(case.check())
    if not off <= case.bound: raise RuntimeError(f"wrong: relative error {off:.1e}")
    fs, notes = {"tk": ours}, []
    for label, make in case.peers.items():
        if o.peers == "main" and label.endswith("*"): continue
        try:
            f = make(); f(); wait()
            fs[label.rstrip("*")] = f
        except Exception as e: notes.append(f"{label.rstrip('*')}: {repr(e)[:120]}")
    return fs if o.small else dict(zip(fs, turns(list(fs.values()), o.rounds))), off, notes


def row(section, case, times, off):
    amount, scale = SCALE[case.unit or section.UNIT]
    ours, cells = times["tk"], []
    for label, t in times.items():
        if label == "tk": continue
        r, spread = ratio(ours, t)
        cells.append(f"{label} {getattr(case, amount) / t.us / scale:.0f}: {r:.3f} +- {spread / 2:.3f}")
    return f"{case.name:40} {getattr(case, amount) / ours.us / scale:8.1f} {ours.us:9.1f} us  {off:.0e}  " + ";  ".join(cells) + (f"  ({case.unit})" if case.unit else "")


def means(section, rows):
    by = {}
    for r in rows:
        for label, (x, _) in r["ratio"].items(): by.setdefault((r["group"], label), []).append(x)
    for (group, label), xs in by.items():
        mean = math.exp(sum(map(math.log, xs)) / len(xs))
        print(f"    geometric mean of {len(xs):2}{' ' + group if group else ''}, against {label}: {mean:.3f}, least {min(xs):.3f}, most {max(xs):.3f}")


def run(names, o):
    out = []
    for name in names:
        section = importlib.import_module(name)
        print(f"\n## {section.TITLE}\n{'':40} {section.UNIT:>8} {'':12}  error  peer, its {section.UNIT}: how much faster tk is", flush=True)
        rows, gen = [], section.cases(o)
        while True:
            try: case = next(gen)
            except StopIteration: break
            if o.match not in case.name: continue
            try: times, off, notes = measure(case, o)
            except Exception as e:
                print(f"{case.name:40} {repr(e)[:200]}", flush=True)
                continue
            said = "".join(f"  [{n}]" for n in notes)
            if o.small:
                print(f"{case.name:60}  {off:.0e}  " + ", ".join(times) + said, flush=True)
                continue
            print(row(section, case, times, off) + said, flush=True)
            rows.append(dict(section=name, work=case.name, group=case.group, unit=case.unit or section.UNIT, flops=case.flops, bytes=case.bytes, error=off,
                             us={k: t.us for k, t in times.items()}, ratio={k: ratio(times["tk"], t) for k, t in times.items() if k != "tk"}))
        means(section, rows)
        out += rows
    return out


def main(names=SECTIONS):
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("section", nargs="*", default=[], help="of " + ", ".join(names))
    p.add_argument("--match", default="", help="only rows whose name has this in it")
    p.add_argument("--peers", choices=["main", "all"], default="all")
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--arch", default="sm_90a", help="the target tk compiles for (sm_80: mma.sync)")
    p.add_argument("--small", action="store_true", help="checks, at small sizes where a section has them, without times")
    p.add_argument("--json", help="where the figures go")
    o = p.parse_args()
    machine = "small sizes, checked alone" if o.small else head()
    print("# " + machine)
    out = run(o.section or names, o)
    if o.json: json.dump(dict(machine=machine, rows=out), open(o.json, "w"), indent=1)


if __name__ == "__main__": main()
