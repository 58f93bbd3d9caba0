"""Warm starts of whole models: where the time of a process goes, stage by stage.

Each model of models.py as a whole process, `tkc run MODEL --dtype=bf16 --dtype-io --random-weights --time`, with what an earlier run kept;
several compilers in turns. For each stage the least and the median in ms; `process` is what the caller waits, and `start` that
without the weights that it waited for.

    python3 bench/start.py --models=../shared/models/full --tkc=build/tkc[,other/tkc..] [--rounds=5] [--only=gpt2_b1,..] [--driver=libshim.so]
"""
import os, re, subprocess, sys, tempfile, time

from models import CASES


def run(tkc, folder, args, env, driver):
    start = time.time()
    r = subprocess.run([tkc, "run", f"{folder}/model.onnx", "--device=cuda", "--dtype=bf16", "--dtype-io", "--random-weights", "--time", *driver, *args],
                       env=env, capture_output=True, text=True)
    took = (time.time() - start) * 1e3
    if r.returncode: raise RuntimeError(r.stderr.strip()[:300])
    rows = {m[1]: float(m[2]) for m in re.finditer(r"^(\w+) +([\d.]+) ms", r.stderr, re.M)}
    opened = re.search(r"opened in ([\d.]+)", r.stderr)
    rows["(opening)"] = float(opened[1]) if opened else 0.0
    rows["process"] = took
    rows["start"] = took - rows.get("weights", 0.0)
    return rows


def main():
    compilers, models, only, rounds, driver = ["build/tkc"], "../shared/models/full", list(CASES), 5, []
    for a in sys.argv[1:]:
        k, _, v = a.partition("=")
        if k == "--tkc": compilers = v.split(",")
        elif k == "--models": models = v
        elif k == "--only": only = v.split(",")
        elif k == "--rounds": rounds = int(v)
        elif k == "--driver": driver = [a]
        else: sys.exit(__doc__)
    table = {}                                           # (compiler, model): list of rows
    with tempfile.TemporaryDirectory() as cache:
        for name in only:
            folder, args = f"{models}/{CASES[name][0]}", CASES[name][1]
            for turn in range(rounds + 1):
                for i, tkc in enumerate(compilers):
                    env = dict(os.environ, TKC_CACHE_DIR=f"{cache}/{i}", CUDA_CACHE_PATH=f"{cache}/driver{i}")
                    rows = run(tkc, folder, args, env, driver)
                    if turn: table.setdefault((i, name), []).append(rows)
    for i, tkc in enumerate(compilers):
        print(f"# {tkc}: least / median of {rounds}, ms")
        print(f"{'':10s}" + "".join(f"{n:>14s}" for n in only))
        stages = []
        for n in only:
            for rows in table[i, n]: stages += [s for s in rows if s not in stages]
        for s in stages:
            cells = [sorted(rows.get(s, 0.0) for rows in table[i, n]) for n in only]
            print(f"{s:10s}" + "".join(f"{c[0]:7.1f}{c[len(c) // 2]:7.1f}" for c in cells), flush=True)


if __name__ == "__main__": main()
