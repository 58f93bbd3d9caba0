"""Row programs that nobody tuned for (bench/rows.tk), of even and odd lengths, against torch.compile and a copy or read of as
many bytes: softmax, norms, losses, quantisation, gates, argmax, over 1 to 128256 columns."""
import torch, tk, suite
from memory import case, r, bf, f32
import torch.nn.functional as F

TITLE, UNIT, MAIN = "Row programs", "GB/s", "torch.compile"
EPS = 1e-5
NAMES = {bf: "bf16", f32: "f32"}


def e(*s, t=bf): return torch.empty(*s, device="cuda", dtype=t)
def rms(x, w): return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * w


def row(name, kernel, m, n, f, t=bf, more=lambda x: {}, out="y", shape=None, to=None, reads=False, **sets):
    """`f` takes x and the tensors of `more`, but for those that are written, whose names begin with _; the result is `out`."""
    x = r(m, n, t=t)
    extra = more(x)
    args = [v for k, v in extra.items() if isinstance(v, torch.Tensor) and not k.startswith("_")]
    tensors = {"x": x, out: e(*(shape or (m, n)), t=to or t), **{k.lstrip("_"): v for k, v in extra.items()}}
    sets = {k: v for k, v in {"T": NAMES[t], "M": m, "N": n, **sets}.items() if v is not None}
    nbytes = sum(v.nbytes for v in tensors.values() if isinstance(v, torch.Tensor))

    def check():
        want = f(x, *args)
        return tensors[out], want[0] if isinstance(want, tuple) else want
    return case(f"{name} {NAMES[t]} {m}x{n}", nbytes, lambda: tk.Kernel(suite.path("bench", "rows.tk"), kernel, sets=sets, **tensors), lambda: f(x, *args), check, reads=reads)


def weights(x): return {"w": r(x.shape[1], t=f32), "b": r(x.shape[1], t=f32)}
def layer(x, w, b): return F.layer_norm(x.float(), x.shape[1:], w, b, EPS).to(bf)
def gate(x): return {"r": r(*x.shape), "g": r(*x.shape), "w": r(x.shape[1]), "_s": e(*x.shape)}
def masks(x): return {"mask": torch.rand(x.shape, device="cuda") < 0.8, "scale": 0.125}
def labels(x): return {"label": torch.randint(0, x.shape[1], (x.shape[0],), device="cuda"), "eps": 0.1}


def gated(x, y, g, w):
    s = x + y
    return (rms(s.float(), w.float()) * F.silu(g.float())).to(bf), s


def quantised(x):
    s = x.float().abs().amax(-1, keepdim=True).clamp_min(1e-12) / 127
    return torch.round(x.float() / s).to(torch.int8), s


def swiglu(x):
    a, b = x.chunk(2, -1)
    return (F.silu(a.float()) * b.float()).to(bf)


def cases(o):
    for m, n in (16 << 20, 1), (4 << 20, 7), (262144, 64), (262144, 100), (32768, 1000), (16384, 3000), (2048, 32000), (2048, 50257):
        yield row("softmax", "softmax_k", m, n, lambda x: torch.softmax(x, -1))
    for m, n in (32768, 8), (65536, 333), (2048, 50257): yield row("softmax", "softmax_k", m, n, lambda x: torch.softmax(x, -1), t=f32)
    for m, n, t in (4096, 32000, bf), (4096, 50257, bf), (16384, 4096, f32): yield row("log_softmax", "log_softmax_k", m, n, lambda x: torch.log_softmax(x, -1), t=t)
    for m, n in (32768, 2048), (65536, 577):
        yield row("softmax with mask and scale", "masked_softmax", m, n, lambda x, k: torch.softmax(torch.where(k, x.float() * 0.125, -1e30), -1).to(bf), more=masks)
    for m, n in (524288, 64), (262144, 100), (524288, 128), (65536, 768), (32768, 1000), (65536, 1024), (16384, 3000), (16384, 4096), (4096, 12288):
        yield row("layer norm, f32 weights", "ln_f32w", m, n, layer, more=weights)
    for m, n in (65536, 768), (32768, 1024), (16384, 4096):
        yield row("add, layer norm", "add_ln", m, n, lambda x, y, w, b: F.layer_norm(x.float() + y.float(), x.shape[1:], w.float(), b.float(), EPS).to(bf),
                  more=lambda x: {"r": r(*x.shape), "w": r(x.shape[1]), "b": r(x.shape[1])})
    for m, n in (16384, 4096), (16384, 2880): yield row("rms norm, residual, gate", "rms_residual_gate", m, n, gated, more=gate)
    for m, n, t in (65536, 768, bf), (65536, 300, f32): yield row("L2 normalise", "l2", m, n, lambda x: F.normalize(x.float(), dim=-1).to(x.dtype), t=t)
    for m, n in (16384, 4096), (16384, 5120), (8192, 11008):
        yield row("quantise rows to i8", "quant_i8", m, n, quantised, more=lambda x: {"_scale": e(x.shape[0], t=f32)}, out="q", to=torch.int8)
    for m, n in (8192, 11008), (8192, 5461): yield row("swiglu", "swiglu", m, 2 * n, swiglu, shape=(m, n), N=n, N2=2 * n)
    for m, n in (16384, 4096), (16384, 3072), (16384, 3001):
        yield row("bias, gelu, residual", "bias_gelu_residual", m, n, lambda x, b, y: (F.gelu(x.float() + b.float()) + y.float()).to(bf), more=lambda x: {"b": r(x.shape[1]), "r": r(*x.shape)})
    for m, n in (4096, 32000), (4096, 50257), (2048, 128256):
        yield row("cross-entropy, smoothing", "ce_smooth", m, n, lambda x, l: F.cross_entropy(x.float(), l, reduction="none", label_smoothing=0.1), more=labels, out="loss", shape=(m,), to=f32,
                  reads=True, N=None, V=n)
    for m, n, t in (16384, 4096, bf), (65536, 500, f32): yield row("variance", "row_var", m, n, lambda x: torch.var(x.float(), -1, correction=0), t=t, shape=(m,), to=f32, reads=True)
    for m, n, kernel in (4096, 128256, "argmax_k"), (4096, 50257, "argmax_k"), (4096, 32000, "argmax_whole"):
        yield row("argmax", kernel, m, n, lambda x: torch.argmax(x, -1), out="at", shape=(m,), to=torch.int64, reads=True)
    yield row("top 1", "top1", 65536, 1000, lambda x: torch.max(x, -1)[::-1], t=f32, more=lambda x: {"_best": e(x.shape[0], t=f32)}, out="at", shape=(65536,), to=torch.int64, reads=True)
    for m, n in (32768, 1000), (32768, 1024): yield row("cumsum", "cumsum_k", m, n, lambda x: torch.cumsum(x, 1), t=f32)
    yield row("cumsum to f32", "cumsum_k", 16384, 4096, lambda x: torch.cumsum(x.float(), 1), to=f32)
    for m, n, t in (65536, 1000, f32), (8192, 50257, bf): yield row("sum of rows", "sum_rows", m, n, lambda x: x.float().sum(-1), t=t, shape=(m,), to=f32, reads=True)
    for m, n in (16384, 4096), (65536, 333): yield row("maxima of columns", "column_max", m, n, lambda x: x.amax(0), shape=(n,), reads=True)


if __name__ == "__main__": suite.main(["rows"])
