"""Products of few tiles whose parts are the blocks of a cluster, each of which joins a slice of the tile (lower/pass/cluster_scatter.c), beside
what is chosen today, torch.matmul and the best of cublasLt's first heuristics, in turns, in bf16.

    python3 bench/parts.py [--rounds 15] [--tiles 3] [--match 768] | tee bench/results/$(date +%F)-parts.txt    # some 2 s of an H200 and 20 of its host, TKC and TKC_LIBRARY as in tk.py

For each number of blocks the tiles are those that the model likes best (`tkc tune --expect --all`); the best of them is shown, with its
tile, and what the model had expected. `of now` is how many times faster it is than what is chosen today: above 1 wins. A result that differs
from the product in f32 is `wrong`. Then all tiles that were timed, for the model.
"""
import argparse, os, re, subprocess, torch
import cublaslt, suite, tk
from gemm import FORMS, stored
from turns import head, ratio, turns

SHAPES = [(1024, 1024, 1024), (512, 1024, 4096), (128, 768, 3072), (512, 768, 3072), (128, 3072, 768), (197, 768, 768), (128, 768, 768), (16, 4096, 4096), (8, 2048, 2048),
          (8, 4096, 4096), (64, 2048, 8192), (256, 1024, 14336), (256, 256, 16384), (128, 128, 131072), (768, 768, 16384)]
BLOCKS = (2, 4, 8)
SCHEDULE = ("warps", "stages", "cluster", "split_k", "blocks", "persistent", "sliced_k", "pingpong", "groups", "stream_k", "resident_b")


def expected(file, kernel, m, n, k):
    """All candidates: the microseconds that the model expects, and what they say of the tile and of the schedule."""
    out = subprocess.run([tk.TKC, "tune", file, "--kernel=" + kernel, "--arch=sm_90a", "--expect", "--all", f"M={m}", f"N={n}", f"K={k}"], capture_output=True, text=True)
    if out.returncode: raise RuntimeError(out.stderr)
    for line in out.stdout.splitlines():
        row = re.match(r"\s+-\s+([\d.]+)\s+-\s+(.*)", line)
        if row: yield float(row[1]), {a: int(b) for a, b in re.findall(r"(\w+) = (\d+)", row[2])}


def in_clusters(rows, blocks, tiles):
    """Of those the best in clusters of so many blocks, each tile once."""
    seen, best = set(), []
    for us, say in sorted(rows, key=lambda r: r[0]):
        tile = tuple(say.get(x) for x in ("BM", "BN"))
        if say.get("cluster") != blocks or say.get("split_k") != blocks or tile in seen: continue
        seen.add(tile)
        best.append((us, {a: b for a, b in say.items() if a not in SCHEDULE}, {a: b for a, b in say.items() if a in SCHEDULE}))
    return best[:tiles]


def job(o, m, n, k, sets, schedule): return o.file, o.kernel, dict(M=m, N=n, K=k) | sets, "sm_90a", schedule


def measured(o, m, n, k, picked):
    a, b = torch.randn(m, k, device="cuda", dtype=torch.bfloat16), torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
    x, y = stored(a, o.form[0]), stored(b, o.form[1])
    left, right = (x.t() if o.form[0] == "T" else x), (y.t() if o.form[1] == "T" else y)
    want, d = a.float() @ b.float(), torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    fs, names = [lambda: torch.matmul(left, right, out=d), cublaslt.best(x, y, d, o.form[0] == "T", o.form[1] == "T")], ["torch.matmul", "cublasLt"]
    for blocks, us, sets, schedule in [(0, 0, {}, {})] + picked:
        c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
        try: f = tk.Kernel(*job(o, m, n, k, sets, schedule), a=x, b=y, c=c)
        except RuntimeError as e: print(f"    {blocks} blocks, {sets}: {e}"); continue
        for _ in range(3): f()
        torch.cuda.synchronize()
        error = ((c.float() - want).abs().max() / want.abs().max()).item()
        if not error < 2e-2: print(f"    {blocks} blocks, {sets}: wrong by {error:.1e}"); continue
        fs.append(f); names.append((blocks, us, sets))
    return dict(zip([n if isinstance(n, str) else (n[0], n[1], tuple(n[2].items())) for n in names], turns(fs, o.rounds)))


def text(sets): return " x ".join(str(v) for k, v in sets if k in ("BM", "BN", "BK"))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--tiles", type=int, default=3)
    p.add_argument("--match", default="")
    p.add_argument("--form", default="NT")
    o = p.parse_args()
    file, o.kernel = next(at[1:] for at in FORMS if at[0] == o.form)
    o.file = suite.path(file)
    shapes = [s for s in SHAPES if o.match in " x ".join(map(str, s))]
    picked = {}
    for s in shapes:
        rows = list(expected(o.file, o.kernel, *s))
        picked[s] = [(blocks, *row) for blocks in BLOCKS for row in in_clusters(rows, blocks, o.tiles)]
    tk.prepare([job(o, *s, sets, schedule) for s in shapes for _, _, sets, schedule in [(0, 0, {}, {})] + picked[s]])
    print("# " + head())
    print(f"{'m x n x k ' + o.form:24}{'now':>8}" + "".join(f"{f'clusters of {b}':>34}" for b in BLOCKS) + f"{'torch.matmul':>14}{'cublasLt':>10}{'best of now':>13}")
    all_of = []
    for s in shapes:
        got = measured(o, *s, picked[s])
        now = next((t for n, t in got.items() if not isinstance(n, str) and not n[0]), None)
        if not now: print(f"{' x '.join(map(str, s)):24}   what is chosen today does not run"); continue
        line, most = f"{' x '.join(map(str, s)):24}{now.us:8.2f}", 0
        for b in BLOCKS:
            mine = sorted((t.us, n, t) for n, t in got.items() if not isinstance(n, str) and n[0] == b)
            if not mine: line += f"{'-':>34}"; continue
            us, name, t = mine[0]
            won, spread = ratio(t, now)
            most = max(most, won)
            cell = f"{us:.2f} ({name[1]:.1f}) {text(name[2])}: {won:.2f}"
            line += f"{cell:>34}"
        print(line + f"{got['torch.matmul'].us:14.2f}{got['cublasLt'].us:10.2f}{most:13.3f}", flush=True)
        all_of += [f"{' x '.join(map(str, s))}, " + (f"{n[0]} blocks, {text(n[2])}, {n[1]:.2f} us expected" if n[0] else "now") + f": {t.us:.2f} us, spread {t.spread:.2f}" for n, t in got.items() if not isinstance(n, str)]
    print("\n## all tiles")
    for l in all_of: print(l)


if __name__ == "__main__": main()
