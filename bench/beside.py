"""What training.py and inference.py share: tensors, launches, and cases in which everything is compared with one reference before it is timed,
the peers' results like our own. A peer that fails, or is wrong, is named in its row and not timed.

With TKC_DEVICE=emu tensors lie in host memory, tk's kernels run on the emulator, PyTorch's functions are not compiled, and Triton's are run by its interpreter.
"""
import os, torch
import suite, tk

DEVICE = "cpu" if tk.DEVICE == "emu" else "cuda"
if DEVICE == "cpu": os.environ.setdefault("TRITON_INTERPRET", "1")
bf, f32, f8 = torch.bfloat16, torch.float32, torch.float8_e4m3fn


def r(*s, t=bf): return torch.randn(*s, device=DEVICE).to(t)
def among(n, *s, t=torch.int64): return torch.randint(0, n, s, device=DEVICE, dtype=t)
def scalar(v, t=f32): return torch.tensor(v, device=DEVICE, dtype=t)
def moved(*ts): return sum(t.nbytes for t in ts)


def empty(*s, t=bf):
    """What shows where nothing was written."""
    return torch.full(s, float("nan") if t.is_floating_point else 255 if t == torch.uint8 else -1, device=DEVICE).to(t)


def sized(o, full, small): return small if o.small else full


def library(file, kernel, sets=None, **tensors): return lambda: tk.Kernel(suite.path("lang/std", file), kernel, sets=sets, **tensors)


def example(file, kernel, sets=None, **tensors): return lambda: tk.Kernel(suite.path("examples", file), kernel, sets=sets, **tensors)


def steps(*makes):
    """Launches one after the other."""
    def make():
        ks = [m() for m in makes]
        def run():
            for k in ks: k()
        return run
    return make


def compiled(f, *args):
    def make():
        if DEVICE == "cpu": return lambda: f(*args)
        torch._dynamo.reset()
        c = torch.compile(f, dynamic=False)
        return lambda: c(*args)
    return make


def plain(f, *args): return lambda: lambda: f(*args)


def graphed(make):
    """Replays of one CUDA graph, for what is so short that the host would be timed."""
    def captured():
        f = make()
        if DEVICE == "cpu": return f
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3): f()
        torch.cuda.current_stream().wait_stream(side)
        g = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(g): out = f()
        except Exception as e:
            print(f"no graph: {repr(e)[:120]}", flush=True)
            return f
        def run():
            g.replay()
            return out
        run.launches = f                               # live as long as the graph does
        return run
    return captured


def ragged(rows, groups):
    """Where the rows of each of `groups` begin, none of them of the same number, as i32."""
    share = torch.rand(groups, dtype=torch.float64) + 0.25
    ends = (share.cumsum(0) / share.sum() * rows).round().int()
    return torch.cat([torch.zeros(1, dtype=torch.int32), ends]).to(DEVICE)


def several(x): return list(x) if isinstance(x, (list, tuple)) else [x]


def case(name, ours, outs, want, peers, nbytes, bound=1e-2, group="", flops=0, peers_bound=None):
    """`outs` are what ours writes and `want()` what that should be, in the same order; a peer gives the same, or the first of it. `outs` may be a function."""
    loose = peers_bound or bound
    kept = []
    def wanted():
        if not kept: kept.extend(several(want()))
        return kept

    def checked(make):
        def right():
            f = make()
            off = suite.worst(list(zip(several(f()), wanted())))
            if not off <= loose: raise RuntimeError(f"wrong: relative error {off:.1e}")
            return f
        return right
    return suite.Case(name, flops, nbytes, ours, {label: checked(make) for label, make in peers.items()}, lambda: list(zip(several(outs() if callable(outs) else outs), wanted())), group, bound,
                      "TFLOP/s" if flops else "")
