"""Products beyond bf16 against cuBLAS: f8, tf32 and 8-bit integers, and a linear layer with bias and GELU against cuBLAS
followed by torch.compile's pointwise kernel; in one run and in turns (see bench/README.md).

    python3 bench/products.py [--rounds 7]
"""
import argparse, os, sys, torch
import torch.nn.functional as F
sys.path.insert(0, os.path.dirname(__file__))
import tk
from turns import turns, head

HERE = os.path.dirname(os.path.abspath(__file__))
TYPES = os.path.join(HERE, "..", "tests", "lower", "wgmma_types.tk")
LINEAR = os.path.join(HERE, "..", "examples", "linear.tk")


def f8(m, k): return torch.randn(m, k, device="cuda").to(torch.float8_e4m3fn)
def f32(m, k): return torch.randn(m, k, device="cuda")
def i8(m, k): return torch.randint(-128, 128, (m, k), device="cuda", dtype=torch.int8)


def scaled(fast):
    one = torch.tensor(1.0, device="cuda")
    return lambda a, b: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=fast)


def tf32(a, b):
    torch.backends.cuda.matmul.allow_tf32 = True
    c = a @ b.t()
    torch.backends.cuda.matmul.allow_tf32 = False
    return c


CASES = [("f8e4m3, each 128 of k added in f32", "f8", f8, torch.float32, dict(BM=128, BN=192, BK=128), [("cuBLAS", scaled(False)), ("cuBLAS, fast accumulation", scaled(True))]),
         ("f32 as tf32", "t32", f32, torch.float32, dict(BM=128, BN=256, BK=32), [("cuBLAS", tf32)]),
         ("i8", "bytes", i8, torch.int32, dict(BM=128, BN=256, BK=128), [("torch._int_mm", lambda a, b: torch._int_mm(a, b.t()))])]


def types(rounds):
    n = 8192
    for what, kernel, make, out, sets, peers in CASES:
        a, b = make(n, n), make(n, n)
        want = a.double() @ b.double().t()
        c = torch.zeros(n, n, device="cuda", dtype=out)
        ours = tk.Kernel(TYPES, kernel, sets=sets, a=a, b=b, c=c)
        ours(); torch.cuda.synchronize()
        err = ((c.double() - want).norm() / want.norm()).item()
        t = turns([ours] + [lambda p=p: p(a, b) for _, p in peers], rounds)
        tf = [2 * n ** 3 / x.us / 1e6 for x in t]
        print(f"{n}^3 NT, {what}: tk {tf[0]:.0f} TFLOP/s, error {err:.1e}; " + ", ".join(f"{name} {x:.0f} ({tf[0] / x:.3f})" for (name, _), x in zip(peers, tf[1:])), flush=True)


def epilogue(rounds):
    point = torch.compile(lambda t, b: F.gelu(t + b))
    for m, n, k in [(4096, 4096, 4096), (8192, 8192, 8192), (4096, 16384, 4096), (512, 4096, 4096)]:
        x, w, b = torch.randn(m, k, device="cuda", dtype=torch.bfloat16), torch.randn(n, k, device="cuda", dtype=torch.bfloat16) * k ** -0.5, torch.randn(n, device="cuda", dtype=torch.bfloat16)
        y = torch.zeros(m, n, device="cuda", dtype=torch.bfloat16)
        ours = tk.Kernel(LINEAR, "linear_gelu", sets=dict(M=m, N=n, K=k), x=x, w=w, b=b, y=y)
        ours(); torch.cuda.synchronize()
        want = F.gelu(F.linear(x.float(), w.float(), b.float()))
        err = ((y.float() - want).norm() / want.norm()).item()
        t = turns([ours, lambda: point(x @ w.t(), b), lambda: F.gelu(F.linear(x, w, b))], rounds)
        print(f"gelu(x @ w' + b), {m} x {n} x {k}: tk {t[0].us:.1f} us, error {err:.1e}; cuBLAS then torch.compile {t[1].us:.1f} ({t[1].us / t[0].us:.3f}), "
              f"cuBLAS with bias then gelu {t[2].us:.1f} ({t[2].us / t[0].us:.3f})", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=7)
    p = p.parse_args()
    head()
    types(p.rounds)
    epilogue(p.rounds)


main()
