#!/usr/bin/env python3
"""What a compilation costs: whole processes of the static build, from exec to exit.

    bench/compile_time.py [--runs=N] [--count] [TKC]

A row each for the start alone (`tkc --version`) and for softmax, matmul and attention to PTX, the file's kernels
together and the one that names it, on sm_90a and sm_80: the shortest and the median time, the shortest time on the
processors (both threads' together, user and system), and the largest memory. Other work on the machine makes times
worthless, so its load stands above and below. `--count` adds instructions as valgrind counts them, which say the
same on a busy machine; they are those of one thread after the other, and leave the kernel out.
"""
import os
import re
import shutil
import subprocess
import sys
import time

FILES = ("softmax", "matmul", "attention")


def once(command):
    start = time.perf_counter()
    pid = os.posix_spawn(command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
    _, status, used = os.wait4(pid, 0)
    wall = time.perf_counter() - start
    if status != 0:
        sys.exit(f"compile_time: {' '.join(command)}: failed")
    return wall * 1e3, (used.ru_utime + used.ru_stime) * 1e3, used.ru_maxrss / 1024


def instructions(command):
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"]
    said = subprocess.run(tool + command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=True).stderr
    return int(re.search(r"Collected : (\d+)", said).group(1)) / 1e6


def row(name, command, runs, count):
    once(command)                                              # brings the file into memory
    got = [once(command) for _ in range(runs)]
    wall = sorted(g[0] for g in got)
    line = f"{name:32s} {wall[0]:8.1f} {wall[runs // 2]:8.1f} {min(g[1] for g in got):8.1f} {max(g[2] for g in got):8.1f}"
    print(line + (f" {instructions(command):10.1f}" if count else ""), flush=True)


def main(args):
    runs = next((int(a[7:]) for a in args if a.startswith("--runs=")), 41)
    count = "--count" in args and shutil.which("valgrind") is not None
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    tkc = os.path.abspath(next((a for a in args if not a.startswith("-")), os.path.join(root, "build/tkc")))
    if not os.path.exists(tkc):
        sys.exit(f"compile_time: there is no {tkc}: cmake --preset release && cmake --build --preset release")
    print(f"tkc of {os.path.getsize(tkc) / 1e6:.1f} MB, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}, {runs} runs")
    print(f"{'':32s} {'ms least':>8s} {'median':>8s} {'cpu ms':>8s} {'MiB':>8s}" + (f" {'M instr.':>10s}" if count else ""))
    row("--version", [tkc, "--version"], runs, count)
    for arch in ("sm_90a", "sm_80"):
        for name in FILES:
            command = [tkc, os.path.join(root, "examples", name + ".tk"), "--emit=ptx", "--arch=" + arch]
            row(f"{name}.tk {arch}", command, runs, count)
            row(f"{name}.tk --kernel={name} {arch}", command + ["--kernel=" + name], runs, count)
    print(f"load {os.getloadavg()[0]:.1f}")


main(sys.argv[1:])
