"""Kernels of lang/std/ that the other sections do not time: convolutions by channel, by group, transposed, in one and three dimensions,
pooling and resizing, attention with scores, masks and lengths, row programs with an operand more, sorting, quantising, small products.

Peers: PyTorch's own kernels (cuDNN with cudnn.benchmark, cuBLAS, SDPA), and torch.compile where a peer is several operations.
Rates count each tensor once, so that products and attention stand low: what counts is the ratio.

    python3 bench/library.py [--match TEXT] [--peers main|all] [--rounds 7]
"""
import math, os, sys, torch
import torch.nn.functional as F
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import suite, tk

TITLE, UNIT, MAIN = "the library besides, bf16", "GB/s", "PyTorch"
bf = torch.bfloat16
NAN = float("nan")


def r(*s, t=bf): return torch.randn(*s, device="cuda", dtype=torch.float32).to(t)
def empty(*s, t=bf): return torch.full(s, NAN if t.is_floating_point else -1, device="cuda", dtype=t)


def compiled(f):
    def make():
        torch._dynamo.reset()
        return torch.compile(f, dynamic=False)
    return make


def case(name, file, kernel, sets, tensors, out, peer, want=None, fused=False, bound=1e-2, group=""):
    """`peer` is PyTorch's own way, compiled too if it is `fused` from several operations; `want` what is right, if the peer says it worse."""
    torch.backends.cudnn.benchmark = True
    sizes = sum(t.nbytes for t in tensors.values() if isinstance(t, torch.Tensor))
    peers = {"torch.compile": compiled(peer)} if fused else {"PyTorch": lambda: peer}
    return suite.Case(name, 0, sizes, lambda: tk.Kernel(suite.path("lang/std", file), kernel, sets=sets, **tensors), peers,
                      lambda: (out, (want or peer)()), group, bound)


# ---- pictures --------------------------------------------------------------------------------------

def last(*s): return r(*s).to(memory_format=torch.channels_last)
def rows_of(x): return x.permute(0, 2, 3, 1)                        # N, C, H, W channels last -> N, H, W, C


def window(k, s, p, d=1): return dict(sh=s, sw=s, top=p, left=p, bottom=p, right=p, dh=d, dw=d)
def side(h, k, s, p, d=1): return (h + 2 * p - d * (k - 1) - 1) // s + 1


def depthwise(n, h, c, k, s):
    x, w, b = last(n, c, h, h), r(c, 1, k, k), r(c)
    o = side(h, k, s, k // 2)
    y = empty(n, o, o, c)
    wt = w.view(c, k * k).t().contiguous().view(k, k, c)
    sets = dict(N=n, H=h, W=h, C=c, R=k, S=k, P=o, Q=o)
    return case(f"depthwise {k}x{k}/{s}, {n} x {h} x {h} x {c}", "conv.tk", "depthwise2d_bias", sets, dict(x=rows_of(x), w=wt, bias=b, y=y, **window(k, s, k // 2)), y,
                lambda: rows_of(F.conv2d(x, w, b, s, k // 2, 1, c)), group="convolution")


def grouped(n, h, c, k, s, g):
    x, w, b = last(n, c, h, h), (r(c, c // g, k, k) / math.sqrt(c // g * k * k)).to(memory_format=torch.channels_last), r(c)
    o = side(h, k, s, k // 2)
    y = empty(n, o, o, c)
    sets = dict(N=n, H=h, W=h, C=c, K=c, CG=c // g, R=k, S=k, P=o, Q=o)
    return case(f"{g} groups {k}x{k}/{s}, {n} x {h} x {h} x {c}", "conv.tk", "conv2d_grouped", sets, dict(x=rows_of(x), w=rows_of(w), bias=b, y=y, groups=g, **window(k, s, k // 2)), y,
                lambda: rows_of(F.conv2d(x, w, b, s, k // 2, 1, g)), group="convolution")


def transposed(n, h, c, ko, k, s, p):
    x, w, b = last(n, c, h, h), r(c, ko, k, k) / math.sqrt(c * k * k), r(ko)
    o = (h - 1) * s - 2 * p + k
    y = empty(n, o, o, ko)
    wt = w.permute(1, 2, 3, 0).contiguous()
    wl = w.to(memory_format=torch.channels_last)
    sets = dict(N=n, H=h, W=h, C=c, K=ko, R=k, S=k, P=o, Q=o)
    return case(f"transposed {k}x{k}/{s}, {n} x {h} x {h} x {c} -> {ko}", "conv.tk", "conv2d_transposed_bias", sets, dict(x=rows_of(x), w=wt, bias=b, y=y, extra_h=0, extra_w=0, **window(k, s, p)), y,
                lambda: rows_of(F.conv_transpose2d(x, wl, b, s, p)), group="convolution")


def conv1d(n, l, c, ko, k, s):
    x, w, b = r(n, l, c), r(ko, k, c) / math.sqrt(c * k), r(ko)
    o = side(l, k, s, k // 2)
    y = empty(n, o, ko)
    xt, wt = x.transpose(1, 2).contiguous(), w.transpose(1, 2).contiguous()
    x4, w4 = xt.unsqueeze(2).to(memory_format=torch.channels_last), wt.unsqueeze(2).to(memory_format=torch.channels_last)
    sets = dict(N=n, L=l, C=c, K=ko, R=k, P=o)
    return case(f"conv1d {k}/{s}, {n} x {l} x {c} -> {ko}", "conv.tk", "conv1d_bias", sets, dict(x=x, w=w, bias=b, y=y, stride=s, left=k // 2, right=k // 2, dilation=1), y,
                lambda: F.conv2d(x4, w4, b, (1, s), (0, k // 2)).squeeze(2).transpose(1, 2), group="convolution")


def conv3d(n, d, c, ko, k):
    x, w, b = r(n, d, d, d, c), r(ko, k, k, k, c) / math.sqrt(c * k ** 3), r(ko)
    y = empty(n, d, d, d, ko)
    xl, wl = [t.permute(0, 4, 1, 2, 3) for t in (x, w)]
    sets = dict(N=n, D=d, H=d, W=d, C=c, K=ko, U=k, R=k, S=k, O=d, P=d, Q=d)
    return case(f"conv3d {k}, {n} x {d}^3 x {c} -> {ko}", "conv.tk", "conv3d_bias", sets, dict(x=x, w=w, bias=b, y=y, stride=1, pad=k // 2, dilation=1), y,
                lambda: F.conv3d(xl, wl, b, 1, k // 2).permute(0, 2, 3, 4, 1), group="convolution")


def pool(kind, n, h, c, k, s, p):
    x = last(n, c, h, h)
    o = side(h, k, s, p)
    y = empty(n, o, o, c)
    at = dict(rows=k, columns=k, sh=s, sw=s, top=p, left=p, bottom=p, right=p) | (dict(dh=1, dw=1) if kind == "max" else {})
    f = (lambda: rows_of(F.max_pool2d(x, k, s, p))) if kind == "max" else (lambda: rows_of(F.avg_pool2d(x, k, s, p)))
    return case(f"{kind} pool {k}x{k}/{s}, {n} x {h} x {h} x {c}", "pool.tk", f"{kind}_pool2d", dict(N=n, H=h, W=h, C=c, P=o, Q=o), dict(x=rows_of(x), y=y, **at), y, f, group="pooling")


def pictures():
    for s in ((32, 112, 96, 3, 1), (32, 56, 144, 3, 2), (32, 14, 576, 5, 1), (32, 56, 96, 7, 1), (1, 56, 96, 7, 1), (1, 14, 384, 7, 1)): yield depthwise(*s)
    for s in ((32, 56, 128, 3, 1, 32), (32, 14, 512, 3, 1, 32), (32, 28, 256, 3, 1, 4)): yield grouped(*s)
    for s in ((16, 32, 256, 128, 2, 2, 0), (16, 32, 256, 128, 4, 2, 1), (1, 64, 512, 256, 2, 2, 0)): yield transposed(*s)
    for s in ((8, 3000, 128, 512, 3, 1), (8, 3000, 512, 512, 3, 2), (1, 16000, 64, 64, 7, 1)): yield conv1d(*s)
    for s in ((2, 32, 64, 64, 3), (1, 16, 256, 256, 3)): yield conv3d(*s)
    for s in (("max", 32, 112, 64, 3, 2, 1), ("avg", 32, 56, 256, 2, 2, 0), ("max", 1, 112, 64, 3, 2, 1)): yield pool(*s)
    for n, h, c in ((32, 7, 2048), (32, 56, 144)):
        x, y = last(n, c, h, h), empty(n, c)
        yield case(f"global average, {n} x {h} x {h} x {c}", "pool.tk", "global_avg_pool", dict(N=n, S=h * h, C=c), dict(x=rows_of(x).reshape(n, h * h, c), y=y), y,
                   lambda: x.mean((2, 3)), group="pooling")
    x = last(8, 128, 64, 64)
    y = empty(8, 128, 128, 128)
    yield case("bilinear x 2, 8 x 64 x 64 x 128", "pool.tk", "resize_bilinear", dict(N=8, H=64, W=64, C=128, P=128, Q=128), dict(x=rows_of(x), y=y, height=128, width=128), y,
               lambda: rows_of(F.interpolate(x, (128, 128), mode="bilinear")), group="pooling")
    z = empty(8, 128, 128, 128)
    yield case("nearest x 2, 8 x 64 x 64 x 128", "pool.tk", "resize_nearest", dict(N=8, H=64, W=64, C=128, P=128, Q=128), dict(x=rows_of(x), y=z, height=128, width=128), z,
               lambda: rows_of(F.interpolate(x, (128, 128), mode="nearest")), group="pooling")


# ---- attention -------------------------------------------------------------------------------------

def flex(q, k, v, score=None, mask=None):
    from torch.nn.attention.flex_attention import flex_attention, create_block_mask
    torch._dynamo.reset()
    m = create_block_mask(mask, None, None, q.shape[2], k.shape[2]) if mask else None
    f = torch.compile(flex_attention)
    return lambda: f(q, k, v, score_mod=score, block_mask=m)


def attention(o):
    b, h, s, d = 4, 16, 2048, 128
    q, k, v = r(b, h, s, d), r(b, h, s, d), r(b, h, s, d)
    scale = d ** -0.5
    sizes = dict(B=b, H=h, G=h, S=s, L=s, D=d, E=d)
    i, j = [torch.arange(s, device="cuda").view(*x) for x in ((s, 1), (1, s))]
    def row(name, kernel, sets, more, want, peer, fused=False):
        y = empty(b, h, s, d)
        c = case(name, "attention.tk", kernel, sizes | sets, dict(q=q, k=k, v=v, o=y, scale=scale, **more), y, peer, want, group="attention")
        if fused: c.peers = {"FlexAttention": fused}
        return c
    sdpa = lambda **kw: F.scaled_dot_product_attention(q, k, v, **kw)
    near = (i >= j) & (i - j < 256)
    yield row("window of 256, B4 H16 S2048 D128", "attention", dict(CAUSAL="true", WINDOW=256), {}, lambda: sdpa(attn_mask=near), None,
              lambda: flex(q, k, v, mask=lambda b, h, i, j: (i >= j) & (i - j < 256)))
    bias = r(1, h, s, s)
    yield row("bias, B4 H16 S2048 D128", "attention_biased", dict(MB=1, MH=h, MS=s), dict(bias=bias), None, lambda: sdpa(attn_mask=bias))
    mask = (torch.rand(b, 1, 1, s, device="cuda") < 0.9)
    yield row("mask of keys, B4 H16 S2048 D128", "attention_masked", dict(MB=b, MH=1, MS=1), dict(mask=mask), None, lambda: sdpa(attn_mask=mask))
    full = (torch.rand(1, 1, s, s, device="cuda") < 0.5) | (i == j)
    yield row("mask of pairs, B4 H16 S2048 D128", "attention_masked", dict(MB=1, MH=1, MS=s), dict(mask=full), None, lambda: sdpa(attn_mask=full))
    lengths = torch.tensor([2048, 1500, 1024, 300], device="cuda", dtype=torch.int32)
    short = (j < lengths.view(b, 1, 1, 1))
    yield row("lengths, B4 H16 S2048 D128", "attention_lengths", {}, dict(lengths=lengths), None, lambda: sdpa(attn_mask=short))
    from torch.nn.attention.varlen import varlen_attn
    off = torch.tensor([0, 2048, 3548, 4572, 4872], device="cuda", dtype=torch.int32)
    qp, kp, vp = r(4872, h, d), r(4872, h, d), r(4872, h, d)
    y = empty(4872, h, d)
    yield case("packed lengths, 4872 x H16 D128, causal", "attention.tk", "attention_packed", dict(N=4872, H=h, G=h, D=d, E=d, B1=5),
               dict(q=qp, k=kp, v=vp, offsets=off, o=y, scale=scale, longest=2048), y, lambda: varlen_attn(qp, kp, vp, off, off, 2048, 2048, window_size=(-1, 0)), group="attention")


# ---- rows and elements -----------------------------------------------------------------------------

def rows(o):
    x, res, g, bt = r(8192, 4096), r(8192, 4096), r(4096), r(4096)
    s, y = empty(8192, 4096), empty(8192, 4096)
    def add_ln(): t = x + res; return F.layer_norm(t, (4096,), g, bt, 1e-5)
    yield case("residual and layer norm, 8192 x 4096", "norm.tk", "add_layer_norm", dict(M=8192, N=4096), dict(x=x, r=res, gamma=g, beta=bt, sum=s, y=y, eps=1e-5), y,
               lambda: (lambda t: (t, F.layer_norm(t, (4096,), g, bt, 1e-5)))(x + res), add_ln, True)
    y2 = empty(8192, 4096)
    yield case("l2 norm, 8192 x 4096", "norm.tk", "l2_normalize_rows", dict(M=8192, N=4096), dict(x=x, y=y2, eps=1e-12), y2, lambda: F.normalize(x.float(), dim=-1).to(bf), fused=True)
    sc, mk, ys = r(8192, 2048), torch.where(torch.rand(2048, 2048, device="cuda") < 0.8, 0.0, -1e4).to(bf), empty(8192, 2048)
    yield case("softmax with a mask, 8192 x 2048", "softmax.tk", "softmax_masked", dict(M=8192, R=2048, N=2048), dict(x=sc, mask=mk, y=ys, scale=0.125), ys,
               lambda: torch.softmax((sc.view(4, 2048, 2048) * 0.125 + mk).float(), -1).to(bf).view(8192, 2048), fused=True)
    xm, ym = r(32, 64, 4096), empty(32, 64, 4096)
    yield case("softmax over the middle, 32 x 64 x 4096", "softmax.tk", "softmax_middle", dict(B=32, N=64, C=4096), dict(x=xm, y=ym), ym, lambda: torch.softmax(xm, 1))
    xi, yi, gi, bi = r(32, 128, 64, 64), empty(32, 128, 4096), r(128), r(128)
    yield case("instance norm, 32 x 128 x 4096", "norm.tk", "instance_norm", dict(N=32, C=128, S=4096), dict(x=xi.view(32, 128, 4096), gamma=gi, beta=bi, y=yi, eps=1e-5), yi,
               lambda: F.instance_norm(xi, weight=gi, bias=bi).view(32, 128, 4096), fused=True)
    q, qs = empty(8192, 4096, t=torch.int8), empty(8192, t=torch.float32)
    def quant():
        t = x.float(); m = t.abs().amax(-1) / 127
        return torch.round(t / m[:, None]).to(torch.int8), m
    yield case("quantise rows, 8192 x 4096", "quant.tk", "quantize_rows", dict(M=8192, N=4096), dict(x=x, q=q, scale=qs), qs, quant, lambda: quant()[1], True)
    xs, vs, at = r(4096, 1000, t=torch.float32), empty(4096, 1000, t=torch.float32), empty(4096, 1000, t=torch.int64)
    yield case("sort f32, 4096 x 1000", "scan.tk", "sort_rows", dict(M=4096, N=1000), dict(x=xs, y=vs, at=at), vs, lambda: torch.sort(xs, -1), lambda: torch.sort(xs, -1)[0])
    xk, vk, ak = r(8192, 256, t=torch.float32), empty(8192, 8, t=torch.float32), empty(8192, 8, t=torch.int64)
    yield case("top 8 of 256 f32, 8192 rows", "scan.tk", "top_k", dict(M=8192, N=256, K=8), dict(x=xk, y=vk, at=ak, k=8), vk, lambda: torch.topk(xk, 8), lambda: torch.topk(xk, 8)[0])
    xv, vv, av = r(64, 32000, t=torch.float32), empty(64, 50, t=torch.float32), empty(64, 50, t=torch.int64)
    yield case("top 50 of 32000 f32, 64 rows", "scan.tk", "top_k", dict(M=64, N=32000, K=50), dict(x=xv, y=vv, at=av, k=50), vv, lambda: torch.topk(xv, 50), lambda: torch.topk(xv, 50)[0])
    xa, aa = r(1024, 128256, t=torch.float32), empty(1024, t=torch.int64)
    yield case("argmax f32, 1024 x 128256", "scan.tk", "argmax_rows", dict(M=1024, N=128256), dict(x=xa, at=aa), aa, lambda: torch.argmax(xa, -1))
    xc, yc = r(8192, 1024, t=torch.float32), empty(8192, 1024, t=torch.float32)
    yield case("cumsum along columns f32, 8192 x 1024", "scan.tk", "cumsum_columns", dict(S=8192, C=1024), dict(x=xc, y=yc), yc, lambda: torch.cumsum(xc, 0))
    yield case("silu gate, 64 M", "activation.tk", "activate_gated", dict(N=33554432), dict(gate=x.view(-1), up=res.view(-1), y=y.view(-1)), y.view(-1), lambda: F.silu(x.view(-1)) * res.view(-1), fused=True)


def products(o):
    for b, m, n, k in ((64, 128, 128, 64), (512, 128, 128, 64), (4096, 16, 16, 64), (32, 1024, 1024, 64), (256, 1, 1024, 128)):
        a, w, c = r(b, m, k), r(b, k, n), empty(b, m, n)
        yield case(f"batched {b} x {m} x {n} x {k}", "matmul.tk", "gemm_batched", dict(B=b, M=m, N=n, K=k), dict(a=a, b=w, c=c), c, lambda: torch.bmm(a, w), group="products")
    xv, wv, bv = r(4096), r(14336, 4096) / 64, r(14336)
    yv = empty(14336)
    yield case("linear of one row, 4096 -> 14336", "matmul.tk", "linear_vector", dict(K=4096, N=14336), dict(x=xv, w=wv, b=bv, y=yv), yv, lambda: F.linear(xv, wv, bv), group="products")
    xr, wr, br, rr, yr = r(4096, 4096), r(4096, 4096) / 64, r(4096), r(4096, 4096), empty(4096, 4096)
    yield case("linear and residual, 4096^3", "matmul.tk", "linear_residual", dict(M=4096, N=4096, K=4096), dict(x=xr, w=wr, b=br, r=rr, y=yr), yr, lambda: F.linear(xr, wr, br) + rr, fused=True, group="products")


def cases(o):
    yield from pictures()
    yield from attention(o)
    yield from rows(o)
    yield from products(o)


if __name__ == "__main__": suite.main(["library"])
