"""Memory-bound kernels against torch.compile and a plain copy, in one run and in turns (see bench/README.md).

    python3 bench/memory.py [--rounds 9] [--only softmax] [--json FILE]
"""
import argparse, json, os, sys, torch
sys.path.insert(0, os.path.dirname(__file__))
import tk
import torch.nn.functional as F
from turns import turns, head

E = os.path.join(os.path.dirname(__file__), "..", "examples")
bf, f32, dev = torch.bfloat16, torch.float32, "cuda"


def rows():
    def r(*s, t=bf): return torch.randn(*s, device=dev, dtype=t)
    x, y, w, b = r(8192, 8192), r(8192, 8192), r(8192), r(8192)
    o, o2 = torch.empty_like(x), torch.empty_like(x)
    n = x.nbytes
    s32, c32, part = torch.empty(8192, device=dev), torch.empty(8192, device=dev), torch.empty(64, 8192, device=dev)
    eps = 1e-5
    C = lambda f: torch.compile(f, dynamic=False)
    K = lambda file, name, **kw: tk.Kernel(os.path.join(E, file), name, **kw)
    yield "add bf16 8192x8192", 3 * n, K("vector_add.tk", "vector_add", sets=dict(T="bf16", BLOCK=4096), x=x.view(-1), y=y.view(-1), z=o.view(-1)), C(lambda: x + y), lambda: (o, x + y)
    yield "bias+gelu bf16 8192x8192", 2 * n, K("bias_gelu.tk", "bias_gelu", x=x, b=b, y=o), C(lambda: F.gelu(x + b)), lambda: (o, F.gelu(x.float() + b.float()))
    yield "softmax bf16 8192x8192", 2 * n, K("softmax.tk", "softmax", sets=dict(T="bf16", BLOCK=8192), x=x, y=o), C(lambda: torch.softmax(x, -1)), lambda: (o, torch.softmax(x.float(), -1))
    xs, ys = r(32768, 1000, t=f32), torch.empty(32768, 1000, device=dev)
    yield "softmax f32 32768x1000", 2 * xs.nbytes, K("softmax.tk", "softmax", sets=dict(T="f32", BLOCK=1024), x=xs, y=ys), C(lambda: torch.softmax(xs, -1)), lambda: (ys, torch.softmax(xs, -1))
    xl = r(4096, 128256); yl = torch.empty_like(xl)
    yield "softmax bf16 4096x128256", 2 * xl.nbytes, K("softmax_long.tk", "softmax_long", sets=dict(T="bf16"), x=xl, y=yl), C(lambda: torch.softmax(xl, -1)), lambda: (yl, torch.softmax(xl.float(), -1))
    yield "layernorm bf16 8192x8192", 2 * n, K("layer_norm.tk", "layer_norm", sets=dict(BLOCK=8192), x=x, gamma=w, beta=b, y=o, eps=eps), C(lambda: F.layer_norm(x, (8192,), w, b, eps)), lambda: (o, F.layer_norm(x.float(), (8192,), w.float(), b.float(), eps))
    rms = lambda x: (x.float() * torch.rsqrt((x.float() ** 2).mean(-1, keepdim=True) + eps) * w.float())
    yield "rmsnorm bf16 8192x8192", 2 * n, K("rms_norm.tk", "rms_norm_rows", sets=dict(BLOCK=8192), x=x, gamma=w, y=o, eps=eps), C(lambda: rms(x).to(bf)), lambda: (o, rms(x))
    def resid():
        s = x + y
        return s, rms(s).to(bf)
    yield "residual+rmsnorm bf16 8192x8192", 4 * n, K("rms_norm.tk", "residual_rms_norm", sets=dict(BLOCK=8192), x=x, r=y, gamma=w, s=o2, y=o, eps=eps), C(resid), lambda: (o, rms(x + y))
    yield "sum over rows bf16 8192x8192", n, K("sums.tk", "row_sums_whole", sets=dict(T="bf16", BLOCK=8192), x=x, y=s32), C(lambda: x.sum(1, dtype=f32)), lambda: (s32, x.sum(1, dtype=torch.float64))
    k1, k2 = K("sums.tk", "column_partials", sets=dict(T="bf16"), x=x, y=part), K("sums.tk", "column_sums", x=part, y=c32)
    yield "sum over columns bf16 8192x8192", n, (lambda: (k1(), k2())), C(lambda: x.sum(0, dtype=f32)), lambda: (c32, x.sum(0, dtype=torch.float64))
    label = torch.randint(0, 128256, (4096,), device=dev); loss = torch.empty(4096, device=dev)
    yield "cross-entropy bf16 4096x128256", xl.nbytes, K("cross_entropy.tk", "cross_entropy", x=xl, label=label, loss=loss), C(lambda: F.cross_entropy(xl.float(), label, reduction="none")), lambda: (loss, F.cross_entropy(xl.float(), label, reduction="none"))
    xf = r(8192, 8192, t=f32); yf = torch.empty_like(xf)
    yield "cumsum f32 8192x8192", 2 * xf.nbytes, K("cumsum.tk", "cumsum_rows", sets=dict(T="f32", BLOCK=8192), x=xf, y=yf), lambda: torch.cumsum(xf, 1), lambda: (yf, torch.cumsum(xf.double(), 1))
    xr, cr, sr = r(4096, 32, 128), r(4096, 64, t=f32), r(4096, 64, t=f32); yr = torch.empty_like(xr)
    def rope():
        a, b, c, s = xr[..., :64].float(), xr[..., 64:].float(), cr[:, None], sr[:, None]
        return torch.cat([a * c - b * s, b * c + a * s], -1).to(bf)
    yield "rotary bf16 4096x32x128", 2 * xr.nbytes, K("rotary.tk", "rotary", sets=dict(T="bf16", BD=64), x=xr, cos=cr, sin=sr, y=yr), C(rope), lambda: (yr, rope())
    yield "transpose bf16 8192x8192", 2 * n, K("transpose.tk", "transpose", sets=dict(T="bf16"), x=x, y=o), C(lambda: x.t().contiguous()), lambda: (o, x.t())


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--rounds", type=int, default=9)
    a.add_argument("--only", default="")
    a.add_argument("--json")
    a = a.parse_args()
    head()
    src = torch.randn(1 << 28, device=dev, dtype=bf); dst = torch.empty_like(src)
    copy = lambda: dst.copy_(src)
    out = []
    print(f"{'work':34} {'tk GB/s':>9} {'peer':>9} {'copy':>9} {'tk/copy':>8} {'tk/peer':>8}  error")
    gen = rows()
    while True:
        try: name, nbytes, ours, peer, check = next(gen)
        except StopIteration: break
        except Exception as e:
            print("could not make the next row:", repr(e)[:300]); break
        if a.only not in name: continue
        try:
            ours(); torch.cuda.synchronize()
            got, want = check()
            err = ((got.double() - want.double()).norm() / want.double().norm()).item()
            t = turns([ours, peer, copy], a.rounds)
            gb = [nbytes / t[0].us / 1e3, nbytes / t[1].us / 1e3, 2 * src.nbytes / t[2].us / 1e3]
            print(f"{name:34} {gb[0]:9.0f} {gb[1]:9.0f} {gb[2]:9.0f} {gb[0] / gb[2]:8.3f} {t[1].us / t[0].us:8.3f}  {err:.1e}", flush=True)
            out.append(dict(work=name, tk=gb[0], peer=gb[1], copy=gb[2], error=err))
        except Exception as e:
            print(f"{name:34} {repr(e)[:200]}", flush=True)
    if a.json: json.dump(out, open(a.json, "w"), indent=1)


main()
