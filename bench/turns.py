"""Timing in turns: each round times every candidate once, with the L2 cache filled with other data before each; medians over
rounds. The filler is read, not written: dirty lines would be written back at the expense of the kernel that comes next.

A measurement is the median of a handful of launches between two events each; rounds repeat it so that slow drifts of
clock and temperature hit all candidates alike. Random data, never zeros.
"""
import collections, subprocess, torch

Time = collections.namedtuple("Time", "us spread")
_flush = None


def once(f, n=5):
    global _flush
    if _flush is None: _flush = torch.ones(64 << 20, device="cuda", dtype=torch.int32)
    ts = []
    for _ in range(n):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.amax(_flush)
        a.record(); f(); b.record()
        ts.append((a, b))
    torch.cuda.synchronize()
    return sorted(a.elapsed_time(b) for a, b in ts)[n // 2] * 1e3


def turns(fs, rounds=9):
    for f in fs:
        for _ in range(3): f()
    torch.cuda.synchronize()
    got = [[] for _ in fs]
    for r in range(rounds):
        for i in (range(len(fs)) if r % 2 == 0 else reversed(range(len(fs)))): got[i].append(once(fs[i]))
    return [Time(sorted(g)[len(g) // 2], (max(g) - min(g)) / sorted(g)[len(g) // 2]) for g in got]


def head():
    p = torch.cuda.get_device_properties(0)
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    import triton
    print(f"# {p.name}, driver {driver}, CUDA {torch.version.cuda}, PyTorch {torch.__version__}, Triton {triton.__version__}")
