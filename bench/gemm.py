"""bf16 products against cuBLAS and Triton. `--arch=sm_80` takes the mma.sync path on the same GPU.

The shapes are those of the design's table, in the four forms; a form's letter says whether an operand is stored as it
is named (N) or transposed (T). Large ones have 17 GFLOP and more.
"""
import torch, tk, cublaslt, suite, triton_matmul

TITLE, UNIT, MAIN = "Matrix products, bf16", "TFLOP/s", "torch.matmul"
SHAPES = [(8192, 8192, 8192), (4096, 4096, 4096), (2048, 2048, 2048), (1024, 1024, 1024), (4096, 14336, 4096), (512, 4096, 14336),
          (4096, 4096, 128), (8192, 128256, 2048), (16, 4096, 4096), (1, 14336, 4096)]
#        letters  file                             kernel
FORMS = [("NN", "examples/matmul.tk", "matmul"), ("NT", "examples/matmul_transposed.tk", "matmul_nt"),
         ("TN", "examples/matmul_transposed.tk", "matmul_tn"), ("TT", "lang/std/matmul.tk", "gemm_tt")]


def stored(x, letter): return x.t().contiguous() if letter == "T" else x


def cases(o):
    for m, n, k in SHAPES:
        a, b = torch.randn(m, k, device="cuda", dtype=torch.bfloat16), torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
        c, d = torch.empty(m, n, device="cuda", dtype=torch.bfloat16), torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        want = a.float() @ b.float()
        for form, file, kernel in FORMS:
            x, y = stored(a, form[0]), stored(b, form[1])
            left, right = (x.t() if form[0] == "T" else x), (y.t() if form[1] == "T" else y)
            c.fill_(float("nan"))
            yield suite.Case(
                f"{m} x {n} x {k} {form}", 2 * m * n * k, 2 * (m * k + k * n + m * n),
                ours=lambda: tk.Kernel(suite.path(file), kernel, sets=dict(M=m, N=n, K=k), arch=o.arch, a=x, b=y, c=c),
                peers={"torch.matmul": lambda: lambda: torch.matmul(left, right, out=d),
                       "cublasLt": lambda: cublaslt.best(x, y, d, form[0] == "T", form[1] == "T"),
                       "Triton*": lambda: triton_matmul.best(left, right, d)},
                check=lambda: (c, want), group="large" if 2 * m * n * k >= 17e9 else "thin and small")


if __name__ == "__main__": suite.main(["gemm"])
