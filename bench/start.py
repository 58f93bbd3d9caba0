"""Warm starts of whole models: where the time of a process goes, stage by stage.

Each model of models.py as a whole process, `tkc run MODEL --dtype=bf16 --dtype-io --random-weights --time`, with what an earlier run kept;
several compilers in turns. For each stage the least and the median in ms; `process` is what the caller waits, `answer` until the results have
been printed, and `start` the process without the weights that it waited for. `driver` is a process that opens the GPU, closes it and does
nothing else (`tkc devices`), before each, and `own` what the start takes longer. --beside has another process keep the GPU open.

    python3 bench/start.py --models=../shared/models/full --tkc=build/tkc[,other/tkc..] [--rounds=5] [--only=gpt2_b1,..] [--driver=libshim.so] [--beside]
"""
import os, re, subprocess, sys, tempfile, time

from models import CASES


def alone(tkc, env, driver):                             # ms, of a process that opens the GPU and closes it
    start = time.time()
    subprocess.run([tkc, "devices", *driver], env=env, stdout=subprocess.DEVNULL, check=True)
    return (time.time() - start) * 1e3


def run(tkc, folder, args, env, driver):
    opens = alone(tkc, env, driver)
    start = time.time()
    p = subprocess.Popen([tkc, "run", f"{folder}/model.onnx", "--device=cuda", "--dtype=bf16", "--dtype-io", "--random-weights", "--time", *driver, *args],
                         env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    answer = start
    while os.read(p.stdout.fileno(), 1 << 20): answer = time.time()
    said = p.stderr.read().decode()
    if p.wait(): raise RuntimeError(said.strip()[:300])
    took = (time.time() - start) * 1e3
    rows = {m[1]: float(m[2]) for m in re.finditer(r"^(\w+) +([\d.]+) ms", said, re.M)}
    opened = re.search(r"opened in ([\d.]+)", said)
    rows["(opening)"] = float(opened[1]) if opened else 0.0
    rows["answer"] = (answer - start) * 1e3
    rows["process"] = took
    rows["start"] = took - rows.get("weights", 0.0)
    rows["driver"] = opens
    rows["own"] = rows["start"] - opens
    return rows


def keep_open():                                         # a process that has a context; it ends with its standard input
    code = "import ctypes,sys;c=ctypes.CDLL('libcuda.so.1');x=ctypes.c_void_p();print(c.cuInit(0)|c.cuDevicePrimaryCtxRetain(ctypes.byref(x),0),flush=True);sys.stdin.read()"
    p = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    if p.stdout.readline().strip() != "0": raise RuntimeError("the GPU cannot be kept open")
    return p


def main():
    compilers, models, only, rounds, driver = ["build/tkc"], "../shared/models/full", list(CASES), 5, []
    keeper = None
    for a in sys.argv[1:]:
        k, _, v = a.partition("=")
        if k == "--tkc": compilers = v.split(",")
        elif k == "--models": models = v
        elif k == "--only": only = v.split(",")
        elif k == "--rounds": rounds = int(v)
        elif k == "--driver": driver = [a]
        elif a == "--beside": keeper = keep_open()
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
    if keeper: keeper.communicate("")
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
