"""Products beyond bf16 against cuBLAS: f8, tf32 and 8-bit integers, and a linear layer with bias and GELU against cuBLAS
followed by torch.compile's pointwise kernel."""
import torch, tk, suite
import torch.nn.functional as F

TITLE, UNIT, MAIN = "Products of other types, and with an epilogue", "TFLOP/s", "cuBLAS"


def f8(m, k): return torch.randn(m, k, device="cuda").to(torch.float8_e4m3fn)
def f32(m, k): return torch.randn(m, k, device="cuda")
def i8(m, k): return torch.randint(-128, 128, (m, k), device="cuda", dtype=torch.int8)


def scaled(a, b, fast):
    one = torch.tensor(1.0, device="cuda")
    return lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=fast)


def tf32(a, b):
    def f():
        torch.backends.cuda.matmul.allow_tf32 = True
        a @ b.t()
        torch.backends.cuda.matmul.allow_tf32 = False
    return f


TYPES = [("f32 as tf32", "t32", f32, torch.float32, dict(BM=128, BN=256, BK=32), {"cuBLAS": tf32}),
         ("i8", "bytes", i8, torch.int32, dict(BM=128, BN=256, BK=128), {"cuBLAS": lambda a, b: lambda: torch._int_mm(a, b.t())})]


def cases(o):
    n = 8192
    a, b, one, y = f8(n, n), f8(n, n), torch.tensor(1.0, device="cuda"), torch.zeros(n, n, device="cuda", dtype=torch.bfloat16)
    yield suite.Case("8192^3 NT, f8e4m3 to bf16, each 128 of k added in f32", 2 * n ** 3, a.nbytes + b.nbytes + y.nbytes,
                     ours=lambda: tk.Kernel(suite.path("lang/std/quant.tk"), "gemm_f8", sets=dict(M=n, N=n, K=n), a=a, b=b, sa=one, sb=one, y=y),
                     peers={"cuBLAS": lambda: scaled(a, b, False), "cuBLAS, fast accumulation": lambda: scaled(a, b, True)},
                     check=lambda: (y, a.double() @ b.double().t()), group="f8e4m3")
    for what, kernel, make, out, sets, peers in TYPES:
        a, b = make(n, n), make(n, n)
        c = torch.zeros(n, n, device="cuda", dtype=out)
        yield suite.Case(f"8192^3 NT, {what}", 2 * n ** 3, 2 * a.nbytes + c.nbytes,
                         ours=lambda: tk.Kernel(suite.path("tests/lower/wgmma_types.tk"), kernel, sets=sets, a=a, b=b, c=c),
                         peers={label: (lambda p=p: p(a, b)) for label, p in peers.items()},
                         check=lambda: (c, a.double() @ b.double().t()), group=what)
    for m, n, k in [(4096, 4096, 4096), (8192, 8192, 8192), (4096, 16384, 4096), (512, 4096, 4096)]:
        x, w, b = [torch.randn(*s, device="cuda", dtype=torch.bfloat16) for s in ((m, k), (n, k), (n,))]
        w *= k ** -0.5
        y = torch.zeros(m, n, device="cuda", dtype=torch.bfloat16)
        def apart():
            point = torch.compile(lambda t, b: F.gelu(t + b), dynamic=False)
            return lambda: point(x @ w.t(), b)
        yield suite.Case(f"gelu(x @ w' + b), {m} x {n} x {k}", 2 * m * n * k, x.nbytes + w.nbytes + y.nbytes,
                         ours=lambda: tk.Kernel(suite.path("examples/linear.tk"), "linear_gelu", sets=dict(M=m, N=n, K=k), x=x, w=w, b=b, y=y),
                         peers={"cuBLAS": apart, "cuBLAS with bias, then gelu": lambda: lambda: F.gelu(F.linear(x, w, b))},
                         check=lambda: (y, F.gelu(F.linear(x.float(), w.float(), b.float()))), group="with bias and gelu")


if __name__ == "__main__": suite.main(["products"])
