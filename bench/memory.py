"""Memory-bound kernels against torch.compile, and against a plain copy (or, for reductions, a plain read) of as many bytes,
which is what the memory gives."""
import torch, triton, triton.language as tl, tk, suite
import torch.nn.functional as F

TITLE, UNIT, MAIN = "Memory-bound kernels", "GB/s", "torch.compile"
EPS = 1e-5
bf, f32 = torch.bfloat16, torch.float32


def r(*s, t=bf): return torch.randn(*s, device="cuda", dtype=t)


_room = []


def room(n):
    """Two buffers of `n` bytes, cut from the same 2 GiB each time."""
    if not _room: _room.extend(torch.randint(-9, 9, (1 << 28,), device="cuda", dtype=torch.int32) for _ in range(2))
    return [x[:max(n // 4, 4)] for x in _room]


def copied(nbytes):
    a, b = room(nbytes // 2)
    return lambda: lambda: b.copy_(a)


@triton.jit
def read_kernel(x, y, B: tl.constexpr):
    tl.store(y + tl.program_id(0), tl.sum(tl.load(x + tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)), 0))


def read(nbytes):
    a, b = room(nbytes)
    return lambda: lambda: read_kernel[(a.numel() // 8192,)](a, b, 8192, num_warps=8)


def compiled(f, mode):
    def make():
        torch._dynamo.reset()
        return torch.compile(f, dynamic=False, mode=mode)
    return make


def case(name, nbytes, ours, f, check, reads=False):
    return suite.Case(name, 0, nbytes, ours,
                      {"torch.compile": compiled(f, None), "max-autotune*": compiled(f, "max-autotune-no-cudagraphs"), "read" if reads else "copy": (read if reads else copied)(nbytes)},
                      check)


def example(file, kernel, sets=None, **tensors): return lambda: tk.Kernel(suite.path("examples", file), kernel, sets=sets, **tensors)
def library(file, kernel, sets=None, **tensors): return lambda: tk.Kernel(suite.path("lang/std", file), kernel, sets=sets, **tensors)


def rms(x, w): return (x.float() * torch.rsqrt((x.float() ** 2).mean(-1, keepdim=True) + EPS) * w.float()).to(bf)


def residual(x, y, w):
    s = x + y
    return s, rms(s, w)


def rope(x, c, s):
    a, b, c, s = x[..., :64].float(), x[..., 64:].float(), c[:, None], s[:, None]
    return torch.cat([a * c - b * s, b * c + a * s], -1).to(bf)


def cases(o):
    x, y, w, b = r(8192, 8192), r(8192, 8192), r(8192), r(8192)
    z, z2, n = torch.empty_like(x), torch.empty_like(x), x.nbytes
    s32, c32 = torch.empty(8192, device="cuda"), torch.empty(8192, device="cuda")
    yield case("add bf16 8192x8192", 3 * n, example("vector_add.tk", "vector_add", dict(T="bf16", BLOCK=2048), x=x.view(-1), y=y.view(-1), z=z.view(-1)),
               lambda: x + y, lambda: (z, x + y))
    yield case("bias+gelu bf16 8192x8192", 2 * n, example("bias_gelu.tk", "bias_gelu", x=x, b=b, y=z), lambda: F.gelu(x + b), lambda: (z, F.gelu(x.float() + b.float())))
    yield case("bias+gelu(tanh) bf16 8192x8192", 2 * n, example("bias_gelu.tk", "bias_gelu_tanh", x=x, b=b, y=z),
               lambda: F.gelu(x + b, approximate="tanh"), lambda: (z, F.gelu(x.float() + b.float(), approximate="tanh")))
    yield case("softmax bf16 8192x8192", 2 * n, example("softmax.tk", "softmax", dict(T="bf16", BLOCK=8192), x=x, y=z),
               lambda: torch.softmax(x, -1), lambda: (z, torch.softmax(x.float(), -1)))
    xs = r(32768, 1000, t=f32); ys = torch.empty_like(xs)
    yield case("softmax f32 32768x1000", 2 * xs.nbytes, example("softmax.tk", "softmax", dict(T="f32", BLOCK=1024), x=xs, y=ys),
               lambda: torch.softmax(xs, -1), lambda: (ys, torch.softmax(xs, -1)))
    yield case("cumsum f32 32768x1000", 2 * xs.nbytes, example("cumsum.tk", "cumsum_rows", dict(T="f32", BLOCK=1024), x=xs, y=ys),
               lambda: torch.cumsum(xs, 1), lambda: (ys, torch.cumsum(xs.double(), 1)))
    xt = r(262144, 256); yt = torch.empty_like(xt)
    yield case("softmax bf16 262144x256", 2 * xt.nbytes, example("softmax.tk", "softmax", dict(T="bf16", BLOCK=256), x=xt, y=yt),
               lambda: torch.softmax(xt, -1), lambda: (yt, torch.softmax(xt.float(), -1)))
    del xt, yt
    xl = r(4096, 128256); yl = torch.empty_like(xl)
    yield case("softmax bf16 4096x128256", 2 * xl.nbytes, example("softmax.tk", "softmax", dict(T="bf16", BLOCK=131072), x=xl, y=yl),
               lambda: torch.softmax(xl, -1), lambda: (yl, torch.softmax(xl.float(), -1)))
    label, loss = torch.randint(0, 128256, (4096,), device="cuda"), torch.empty(4096, device="cuda")
    yield case("cross-entropy bf16 4096x128256", xl.nbytes, example("cross_entropy.tk", "cross_entropy", x=xl, label=label, loss=loss),
               lambda: F.cross_entropy(xl.float(), label, reduction="none"), lambda: (loss, F.cross_entropy(xl.float(), label, reduction="none")), reads=True)
    del xl, yl
    yield case("layernorm bf16 8192x8192", 2 * n, example("layer_norm.tk", "layer_norm", dict(BLOCK=8192), x=x, gamma=w, beta=b, y=z, eps=EPS),
               lambda: F.layer_norm(x, (8192,), w, b, EPS), lambda: (z, F.layer_norm(x.float(), (8192,), w.float(), b.float(), EPS)))
    yield case("rmsnorm bf16 8192x8192", 2 * n, example("rms_norm.tk", "rms_norm_rows", dict(BLOCK=8192), x=x, gamma=w, y=z, eps=EPS),
               lambda: rms(x, w), lambda: (z, rms(x, w)))
    yield case("residual+rmsnorm bf16 8192x8192", 4 * n, example("rms_norm.tk", "residual_rms_norm", dict(BLOCK=8192), x=x, r=y, gamma=w, s=z2, y=z, eps=EPS),
               lambda: residual(x, y, w), lambda: (z, rms(x + y, w)))
    yield case("sum over rows bf16 8192x8192", n, example("sums.tk", "row_sums_whole", dict(T="bf16", BLOCK=8192), x=x, y=s32),
               lambda: x.sum(1, dtype=f32), lambda: (s32, x.sum(1, dtype=torch.float64)), reads=True)
    yield case("sum over columns bf16 8192x8192", n, example("sums.tk", "column_sums", dict(T="bf16", M=8192, N=8192), x=x, y=c32),
               lambda: x.sum(0, dtype=f32), lambda: (c32, x.sum(0, dtype=torch.float64)), reads=True)
    total = torch.zeros((), device="cuda")
    yield case("sum of all bf16 8192x8192", n, example("sums.tk", "total_in_order", dict(T="bf16", N=x.numel()), x=x.view(-1), y=total),
               lambda: x.sum(dtype=f32), lambda: (total, x.sum(dtype=torch.float64)), reads=True)
    yield case("transpose bf16 8192x8192", 2 * n, example("transpose.tk", "transpose", dict(T="bf16"), x=x, y=z), lambda: x.t().contiguous(), lambda: (z, x.t()))
    xr, cr, sr = r(4096, 32, 128), r(4096, 64, t=f32), r(4096, 64, t=f32); yr = torch.empty_like(xr)
    yield case("rotary bf16 4096x32x128", 2 * xr.nbytes, example("rotary.tk", "rotary", dict(T="bf16", BD=64), x=xr, cos=cr, sin=sr, y=yr),
               lambda: rope(xr, cr, sr), lambda: (yr, rope(xr, cr, sr)))
    xg, wg, bg = r(32, 512, 4096), r(512), r(512); yg = torch.empty_like(xg)
    yield case("group norm bf16 32x512x64x64, 32 groups", 2 * xg.nbytes, library("norm.tk", "group_norm", dict(BC=16, N=32, C=512, S=4096), x=xg, gamma=wg, beta=bg, y=yg, groups=32, eps=EPS),
               lambda: F.group_norm(xg, 32, wg, bg, EPS), lambda: (yg, F.group_norm(xg.float(), 32, wg.float(), bg.float(), EPS)))
    wt, ids = r(128256, 4096), torch.randint(0, 128256, (16384,), device="cuda"); ye = torch.empty(16384, 4096, device="cuda", dtype=bf)
    yield case("embedding bf16 16384 rows of 128256x4096", 2 * ye.nbytes, example("embedding.tk", "embedding", dict(T="bf16", I="i64"), ids=ids, w=wt, y=ye),
               lambda: F.embedding(ids, wt), lambda: (ye, wt[ids]))


if __name__ == "__main__": suite.main(["memory"])
