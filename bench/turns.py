"""Timing in turns: each round times every candidate once, with the L2 cache filled with other data before each; medians over
rounds. The filler is read, not written: dirty lines would be written back at the expense of the kernel that comes next.

A measurement is the median of a handful of launches between two events each; rounds repeat it so that slow drifts of
clock and temperature hit all candidates alike, in an order in which each comes behind each other one as often as may be: what follows a
kernel that draws much power is slower for it. Where ratios differ from round to round, as those of milliseconds at the GPU's limit of power do,
there are up to three times as many rounds. Random data, never zeros. The GPU is kept busy until all of a measurement is queued, so that
what takes several launches, or a slow host, is timed by what the GPU does and not by when it is asked to.
"""
import collections, subprocess, time, torch

Time = collections.namedtuple("Time", "us spread rounds")
CYCLES = 2e9                                        # a second of the GPU's clock, about
SURE = 0.004                                        # a standard error of a ratio that is no doubt
_flush = None


def queue(f, n, ahead):
    """The events around each of `n` launches of `f` from a cold cache, queued behind `ahead` seconds of work; whether that was too little; what queueing took."""
    torch.cuda._sleep(int(ahead * CYCLES))
    busy = torch.cuda.Event()
    busy.record()
    start, ts = time.perf_counter(), []
    for _ in range(n):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.amax(_flush)
        a.record(); f(); b.record()
        ts.append((a, b))
    late, took = busy.query(), time.perf_counter() - start
    torch.cuda.synchronize()
    return ts, late, took


def measure(f, n, ahead):
    """Microseconds of one launch, the median of `n`, and how far ahead it was queued. What waits for the GPU by itself is timed as it comes."""
    global _flush
    if _flush is None: _flush = torch.ones(64 << 20, device="cuda", dtype=torch.int32)
    for _ in range(3):
        ts, late, took = queue(f, n, ahead)
        if not late: break
        ahead = min(2 * max(took, ahead), 0.05)
    return middle([a.elapsed_time(b) for a, b in ts]) * 1e3, ahead


def once(f, n=5): return measure(f, n, 1e-3)[0]


def middle(xs): return sorted(xs)[len(xs) // 2]


def order(n, r):
    """Of n candidates in round r: in n rounds (2n, where n is odd) each is once (twice) right behind each other one (E. J. Williams, 1949)."""
    first = [(i + 1) // 2 if i % 2 else (n - i // 2) % n for i in range(n)]
    row = [(x + r) % n for x in first]
    return row[::-1] if n % 2 and r // n % 2 else row


def doubt(got):
    """The standard error of the medians of ratios to the first, the largest: from the median deviation, which strays do not sway."""
    worst = 0.0
    for g in got[1:]:
        rs = [p / o for o, p in zip(got[0], g)]
        m = middle(rs)
        worst = max(worst, 1.253 * 1.483 * middle([abs(x - m) for x in rs]) / m / len(rs) ** 0.5)
    return worst


def turns(fs, rounds=9):
    """A Time for each of `fs`: the median of the rounds, their spread, and the rounds themselves, `rounds` of them or, where that leaves doubt, up to three times as many."""
    for f in fs:
        for _ in range(3): f()
    torch.cuda.synchronize()
    got, ahead = [[] for _ in fs], [1e-3 for _ in fs]
    for r in range(3 * rounds):
        if r >= rounds and doubt(got) <= SURE: break
        for i in order(len(fs), r):
            us, ahead[i] = measure(fs[i], 5, ahead[i])
            got[i].append(us)
    return [Time(middle(g), (max(g) - min(g)) / middle(g), g) for g in got]


def ratio(ours, peer):
    """How many times faster `ours` is than `peer`: the median of the rounds' ratios, and their spread."""
    rs = [p / o for o, p in zip(ours.rounds, peer.rounds)]
    return middle(rs), max(rs) - min(rs)


def head():
    """The first line of every result: the machine and what ran on it."""
    p = torch.cuda.get_device_properties(0)
    driver = subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    import triton
    return f"{p.name}, driver {driver}, CUDA {torch.version.cuda}, PyTorch {torch.__version__}, Triton {triton.__version__}"
