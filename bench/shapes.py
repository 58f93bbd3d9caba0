"""bf16 products of sizes that other things have chosen, against torch.matmul: tokens being decoded, layers of models at batch 1
and 8, a vocabulary of 50257, few columns, much to add up, numbers that are no multiple of anything. A form's letters are
gemm.py's."""
import torch, tk, suite
from gemm import FORMS, stored

TITLE, UNIT, MAIN = "Matrix products of any size, bf16", "TFLOP/s", "torch.matmul"
GROUPS = {
    "decoding": [(m, n, k, "NT") for m in (1, 4, 16, 32, 64) for n, k in ((4096, 4096), (14336, 4096), (4096, 14336), (768, 768), (3072, 768), (768, 3072))]
                + [(8, 128256, 4096, "NT"), (24, 4096, 4096, "NT"), (48, 4096, 4096, "NT"), (32, 6144, 4096, "NN"), (16, 14336, 4096, "NN"), (64, 4096, 4096, "NN")],
    "layers": [(m, n, k, f) for m in (128, 197, 384, 1024) for n, k, f in ((768, 768, "NT"), (2304, 768, "NT"), (768, 3072, "NT"), (3072, 768, "NN"))]
              + [(4096, 768, 768, "NT"), (4096, 3072, 768, "NT"), (128, 4096, 4096, "NT"), (256, 4096, 4096, "NT"), (256, 4096, 4096, "NN"), (256, 14336, 4096, "NT"),
                 (256, 4096, 14336, "NT"), (2048, 1024, 4096, "NT"), (1024, 4096, 1024, "NT"), (512, 1024, 4096, "NN")],
    "squares": [(n, n, n, f) for n in (256, 512, 768, 1024, 1536, 2560, 3072) for f in ("NN", "NT")],
    "few columns": [(4096, 1, 4096, "NN"), (4096, 1, 4096, "NT"), (14336, 1, 4096, "NT"), (8192, 8, 8192, "NT"), (16384, 16, 1024, "NN"), (65536, 64, 64, "NN"), (100000, 128, 256, "NN")],
    "short and long sums": [(4096, 4096, 16, "NN"), (4096, 4096, 64, "NN"), (2048, 2048, 256, "NT"), (8192, 1024, 128, "NT"), (64, 64, 65536, "NN"), (256, 256, 16384, "NN"),
                            (512, 512, 8192, "NN"), (128, 128, 131072, "TN")],
    "rows of whole 16 bytes": [(1000, 1000, 1000, "NN"), (1000, 1000, 1000, "NT"), (2000, 3000, 1000, "NN"), (1024, 1024, 1008, "NT"), (2048, 3072, 1000, "NT")],
    "rows that 16 bytes do not divide": [(1, 50257, 768, "NT"), (8, 50257, 768, "NT"), (1024, 50257, 768, "NT"), (128, 50257, 768, "NN"), (1001, 1001, 1001, "NN"), (1001, 1001, 1001, "NT"),
                                         (1024, 1001, 1024, "NN"), (1001, 1024, 1024, "TN"), (333, 777, 555, "NN"), (100, 10000, 100, "NT"), (3, 4096, 4096, "TN"), (7, 1000, 1000, "TN"),
                                         (5, 4096, 4095, "NT"), (17, 4097, 1025, "NT")],
}


def cases(o):
    forms = {form: (file, kernel) for form, file, kernel in FORMS}
    for group, shapes in GROUPS.items():
        for m, n, k, form in shapes:
            a, b = torch.randn(m, k, device="cuda", dtype=torch.bfloat16), torch.randn(k, n, device="cuda", dtype=torch.bfloat16)
            c, d = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16), torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
            x, y = stored(a, form[0]), stored(b, form[1])
            left, right = (x.t() if form[0] == "T" else x), (y.t() if form[1] == "T" else y)
            file, kernel = forms[form]
            yield suite.Case(f"{m} x {n} x {k} {form}", 2 * m * n * k, 2 * (m * k + k * n + m * n),
                             ours=lambda: tk.Kernel(suite.path(file), kernel, sets=dict(M=m, N=n, K=k), arch=o.arch, a=x, b=y, c=c),
                             peers={"torch.matmul": lambda: lambda: torch.matmul(left, right, out=d)}, check=lambda: (c, a.float() @ b.float()), group=group)


if __name__ == "__main__": suite.main(["shapes"])
