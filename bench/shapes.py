"""Products of sizes that other things have chosen, against torch.matmul: tokens being decoded, layers of models at batch 1
and 8, vocabularies, adapters of a few columns, much to add up, numbers that are no multiple of anything. A form's letters are
gemm.py's; a fifth number is how many such products there are. bf16, but for the group that says so."""
import torch, tk, suite
from gemm import FORMS

TITLE, UNIT, MAIN = "Matrix products of any size", "TFLOP/s", "torch.matmul"
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
                                         (5, 4096, 4095, "NT"), (17, 4097, 1025, "NT"), (3074, 3074, 3074, "NN"), (4100, 4100, 4100, "NT"), (512, 2050, 1026, "NT"), (64, 4100, 2052, "NT")],
    "serving": [(m, n, k, "NT") for m, n, k in ((1, 6144, 4096), (2, 28672, 4096), (8, 6144, 4096), (12, 18944, 3584), (16, 3584, 18944), (32, 28672, 8192), (8, 151936, 896),
                                                (4, 151936, 3584), (64, 10240, 8192), (24, 2048, 8192), (40, 5120, 13824), (8, 1280, 8192), (48, 8192, 3584), (64, 8192, 28672))],
    "prompts": [(m, n, k, "NT") for m, n, k in ((300, 6144, 4096), (333, 4096, 14336), (512, 28672, 4096), (777, 4096, 4096), (1000, 6144, 4096), (1500, 14336, 4096), (2000, 4096, 4096),
                                                (3000, 3584, 18944), (640, 5120, 5120), (2048, 6144, 4096), (1536, 2048, 2048), (384, 1280, 8192), (450, 3584, 3584), (100, 152064, 3584))],
    "adapters": [(2048, 16, 4096, "NT"), (2048, 4096, 16, "NT"), (512, 64, 4096, "NT"), (512, 4096, 64, "NT"), (4096, 8, 4096, "NT"), (4096, 32, 14336, "NN"), (64, 16, 4096, "NT"), (300, 14336, 32, "NT")],
    "experts": [(m, n, k, "NT") for m, n, k in ((512, 2048, 2048), (1024, 2048, 1024), (2048, 1024, 2048), (128, 1536, 2048), (64, 2048, 768), (512, 1408, 2048), (256, 7168, 2048), (96, 4096, 1536))],
    "more squares": [(n, n, n, f) for n, f in ((896, "NT"), (1152, "NN"), (1280, "NT"), (1792, "NN"), (1920, "NT"), (2304, "NN"), (2688, "NT"), (3584, "NN"), (4608, "NT"), (5120, "NN"), (5376, "NT"), (6144, "NN"))],
    "pictures and tables": [(4616, 1024, 1024, "NT"), (4616, 4096, 1024, "NT"), (4616, 1024, 4096, "NT"), (3152, 3072, 768, "NT"), (12544, 512, 128, "NT"), (50176, 96, 384, "NT"), (25088, 256, 1152, "NT"),
                            (25088, 512, 512, "NN"), (2048, 512, 16, "NT"), (8192, 256, 512, "NT"), (2048, 1024, 480, "NT"), (65536, 128, 256, "NT"), (16384, 1024, 1024, "NT"), (4096, 1, 256, "NN")],
    "gradients": [(1024, 4096, 8192, "TN"), (4096, 4096, 2048, "TN"), (3072, 768, 4096, "TN"), (768, 768, 8192, "TN"), (4096, 1024, 1024, "TT"), (777, 4096, 4096, "TT"), (4096, 16, 2048, "TN"), (64, 16384, 2048, "TN")],
    "f16": [(2048, 2048, 2048, "NT"), (16, 14336, 4096, "NT"), (300, 6144, 4096, "NT"), (1000, 1000, 1000, "NN"), (4096, 768, 3072, "NT"), (577, 1024, 1024, "NN")],
    "many": [(128, 128, 64, "NN", 64), (16, 16, 16, "NN", 4096), (512, 512, 64, "NT", 96), (512, 64, 512, "NN", 96), (1024, 64, 1024, "NN", 12), (32, 32, 32, "NN", 1024), (64, 64, 64, "NT", 512),
             (1, 64, 512, "NN", 256), (8, 128, 2048, "NN", 32), (2048, 2048, 128, "NT", 16), (197, 197, 64, "NT", 96), (48, 48, 96, "NN", 2048), (768, 768, 768, "NN", 8)],
}
TYPES = {"f16": torch.float16}
MANY = {"NN": ("lang/std/matmul.tk", "gemm_batched"), "NT": ("lang/std/matmul.tk", "gemm_batched_nt")}


def product(m, n, k, form, many=1, dtype=torch.bfloat16):
    """What a kernel takes: its file, its name, its dimensions and type; the operands as stored; and as torch reads them."""
    lead = (many,) if many > 1 else ()
    a, b = torch.randn(*lead, m, k, device="cuda", dtype=dtype), torch.randn(*lead, k, n, device="cuda", dtype=dtype)
    x, y = (t.mT.contiguous() if letter == "T" else t for t, letter in zip((a, b), form))
    left, right = (t.mT if letter == "T" else t for t, letter in zip((x, y), form))
    file, kernel = MANY[form] if many > 1 else next(at[1:] for at in FORMS if at[0] == form)
    sets = dict(M=m, N=n, K=k) | (dict(B=many) if many > 1 else {}) | (dict(T="f16") if dtype != torch.bfloat16 else {})
    return file, kernel, sets, x, y, left, right, torch.full((*lead, m, n), float("nan"), device="cuda", dtype=dtype)


def cases(o):
    for group, shapes in GROUPS.items():
        for m, n, k, form, *many in shapes:
            file, kernel, sets, x, y, left, right, c = product(m, n, k, form, *many, dtype=TYPES.get(group, torch.bfloat16))
            d = torch.empty_like(c)
            yield suite.Case(f"{f'{many[0]} of ' if many else ''}{m} x {n} x {k} {form}", 2 * m * n * k * (many or [1])[0], 2 * (x.numel() + y.numel() + c.numel()),
                             ours=lambda: tk.Kernel(suite.path(file), kernel, sets=sets, arch=o.arch, a=x, b=y, c=c),
                             peers={"torch.matmul": lambda: lambda: torch.matmul(left, right, out=d)}, check=lambda: (c, left.float() @ right.float()), group=group)


if __name__ == "__main__": suite.main(["shapes"])
