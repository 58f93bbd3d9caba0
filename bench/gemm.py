"""Matrix products against cuBLAS (torch.matmul), in one run and in turns (see bench/README.md).

    python3 bench/gemm.py [--rounds 7] [--arch sm_80] [--json FILE]

The shapes are those of the design's table; --arch=sm_80 takes the mma.sync path on the same GPU.
"""
import argparse, json, os, sys, torch
sys.path.insert(0, os.path.dirname(__file__))
import tk
from turns import turns, head

EXAMPLES = os.path.join(os.path.dirname(__file__), "..", "examples")
FILES = {"matmul": "matmul.tk", "matmul_nt": "matmul_transposed.tk", "matmul_tn": "matmul_transposed.tk"}
SHAPES = [(8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024), (4096, 14336, 4096), (512, 4096, 14336),
          (4096, 4096, 128), (8192, 128256, 2048), (16, 4096, 4096), (1, 14336, 4096)]
FORMS = {"matmul": ("NN", lambda a, b: (a, b), lambda a, b: a @ b), "matmul_nt": ("NT", lambda a, b: (a, b.t().contiguous()), lambda a, b: a @ b.t()),
         "matmul_tn": ("TN", lambda a, b: (a.t().contiguous(), b), lambda a, b: a.t() @ b)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--arch", default="sm_90a")
    p.add_argument("--forms", default="matmul,matmul_nt,matmul_tn")
    p.add_argument("--json")
    p = p.parse_args()
    head()
    out = []
    print(f"{'m x n x k, bf16, ' + p.arch:28} form {'tk':>8} {'cuBLAS':>8}  ratio  error")
    for m, n, k in SHAPES:
        a, b = torch.randn(m, k, device="cuda", dtype=torch.bfloat16), torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
        want = None
        for name in p.forms.split(","):
            form, arrange, peer = FORMS[name]
            x, y = arrange(a, b)
            c = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
            try:
                ours = tk.Kernel(os.path.join(EXAMPLES, FILES[name]), name, sets=dict(M=m, N=n, K=k), arch=p.arch, a=x, b=y, c=c)
                ours(); torch.cuda.synchronize()
                if want is None: want = (a.float() @ b.float())
                err = ((c.float() - want).norm() / want.norm()).item()
                t = turns([ours, lambda: peer(x, y)], p.rounds)
            except Exception as e:
                print(f"{m} x {n} x {k:<14} {form}  {repr(e)[:150]}"); continue
            tf = [2 * m * n * k / x.us / 1e6 for x in t]
            print(f"{f'{m} x {n} x {k}':28} {form:4} {tf[0]:8.1f} {tf[1]:8.1f} {t[1].us / t[0].us:6.3f}  {err:.1e}", flush=True)
            out.append(dict(m=m, n=n, k=k, form=form, tk=tf[0], cublas=tf[1], error=err))
    if p.json: json.dump(out, open(p.json, "w"), indent=1)


main()
