"""What training takes of lang/std/ beside products and attention: gradients of softmax, losses, norms, activations, rotations, embeddings and
mixtures of experts; optimisers; the head of a language model, from hidden states to the loss and back.

Peers: torch.compile of the same formulas, and PyTorch's own kernels where it has them (aten's backward functions, which are what autograd calls,
and the fused optimisers). All gradients are of what the forward pass left, as autograd would have it; sums of the weights' gradients are in the
time. What runs in place (the loss's gradient over its logits, optimisers) finds what the launch before it left, ours as the peers'.
Rates of products are TFLOP/s, as their rows say.

    python3 bench/training.py [--match TEXT] [--peers main|all] [--rounds 7] [--json FILE]
    TKC_DEVICE=emu python3 bench/training.py --small                        checks alone, on a machine without a GPU
"""
import os, sys, torch
import torch.nn.functional as F
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import suite
from beside import *

TITLE, UNIT, MAIN = "Training, bf16", "GB/s", "torch.compile"
EPS, aten = 1e-5, torch.ops.aten


# ---- rows ------------------------------------------------------------------------------------------

def softmax_slope(y, dy):
    y, dy = y.float(), dy.float()
    return (y * (dy - (dy * y).sum(-1, keepdim=True))).to(bf)


def log_softmax_slope(y, dy):
    y, dy = y.float(), dy.float()
    return (dy - y.exp() * dy.sum(-1, keepdim=True)).to(bf)


def softmaxes(o):
    m, n = sized(o, (32768, 2048), (8, 96))
    y, dy, dx = torch.softmax(r(m, n, t=f32), -1).to(bf), r(m, n), empty(m, n)
    yield case(f"softmax backward, {m} x {n}", library("softmax.tk", "softmax_backward_rows", dict(M=m, N=n), y=y, dy=dy, dx=dx), dx,
               lambda: softmax_slope(y.double(), dy.double()), {"torch.compile": compiled(softmax_slope, y, dy), "PyTorch": plain(aten._softmax_backward_data, dy, y, -1, bf)},
               moved(y, dy, dx), group="softmax and loss")
    m, n = sized(o, (8192, 32000), (3, 5000))
    y, dy, dx = torch.log_softmax(r(m, n, t=f32), -1).to(bf), r(m, n), empty(m, n)
    yield case(f"log-softmax backward, {m} x {n}", library("softmax.tk", "softmax_backward_long", dict(M=m, N=n, LOG="true"), y=y, dy=dy, dx=dx), dx,
               lambda: log_softmax_slope(y, dy), {"torch.compile": compiled(log_softmax_slope, y, dy), "PyTorch": plain(aten._log_softmax_backward_data, dy, y, -1, bf)},
               moved(y, dy, dx), group="softmax and loss")


def loss_slope(x, label, each):
    """By the logits, of the sum of the rows' losses times `each`."""
    hit = torch.arange(x.shape[1], device=x.device)[None] == label[:, None]
    return ((torch.softmax(x.float(), -1) - hit.float()) * each[:, None]).to(x.dtype)


def loss_and_slope(x, label, each):
    return F.cross_entropy(x.float(), label, reduction="none"), loss_slope(x, label, each)


def loss_in_place(x, label, each):
    loss, dx = loss_and_slope(x, label, each)
    x.copy_(dx)
    return loss


def losses(o):
    for m, v in sized(o, [(8192, 32000), (4096, 128256)], [(3, 500)]):
        x, label, each, dx = r(m, v), among(v, m), torch.rand(m, device=DEVICE) + 0.5, empty(m, v)
        yield case(f"cross-entropy backward, {m} x {v}", library("loss.tk", "cross_entropy_backward_rows", dict(M=m, V=v), x=x, label=label, dloss=each, dx=dx, ignore=-100, eps=0.0), dx,
                   lambda: loss_slope(x, label, each), {"torch.compile": compiled(loss_slope, x, label, each)}, moved(x, dx), group="softmax and loss")
    del x, dx
    for m, v in sized(o, [(8192, 32000), (4096, 128256)], [(3, 500)]):
        x, label, scale, loss = r(m, v), among(v, m), scalar(1 / m), empty(m, t=f32)
        kept, each = x.clone(), scale.expand(m)
        def theirs():
            z = kept.clone()
            f = compiled(loss_in_place, z, label, each)()
            return lambda: (f(), z)
        yield case(f"cross-entropy and gradient in place, {m} x {v}", library("loss.tk", "cross_entropy_in_place", dict(M=m, V=v), x=x, label=label, scale=scale, loss=loss, ignore=-100, eps=0.0, z=0.0),
                   [loss, x], lambda: loss_and_slope(kept, label, each), {"torch.compile": theirs}, 2 * moved(x), group="softmax and loss")


def layer_slope(x, w, mu, rstd, dy):
    x, w, dy, mu, rstd = x.float(), w.float(), dy.float(), mu[:, None], rstd[:, None]
    xh, g = (x - mu) * rstd, w * dy
    return (rstd * (g - g.mean(-1, keepdim=True) - xh * (g * xh).mean(-1, keepdim=True))).to(bf), (dy * xh).sum(0), dy.sum(0)


def rms_slope(x, w, rstd, dy):
    x, w, dy, rstd = x.float(), w.float(), dy.float(), rstd[:, None]
    xh, g = x * rstd, w * dy
    return (rstd * (g - xh * (g * xh).mean(-1, keepdim=True))).to(bf), (dy * xh).sum(0)


def add_rms_slope(s, w, rstd, dy, ds):
    s, w, dy, rstd = s.float(), w.float(), dy.float(), rstd[:, None]
    xh, g = s * rstd, w * dy
    return (rstd * (g - xh * (g * xh).mean(-1, keepdim=True)) + ds.float()).to(bf), (dy * xh).sum(0)


def norms(o):
    for m, n in sized(o, [(8192, 4096), (16384, 8192), (65536, 1024)], [(9, 96)]):
        parts = min(max(264, 132 * 8192 // n), m)                       # two for each multiprocessor, more of short rows
        x, w, b, dy, dx = r(m, n), r(n), r(n), r(m, n), empty(m, n)
        dgp, dbp, dg, db = empty(parts, n, t=f32), empty(parts, n, t=f32), empty(n, t=f32), empty(n, t=f32)
        mu, rstd = x.float().mean(-1), torch.rsqrt(x.float().var(-1, correction=0) + EPS)
        sums = dict(M=parts, N=n)
        yield case(f"layer norm backward, {m} x {n}",
                   steps(library("norm_backward.tk", "layer_norm_backward_rows", dict(M=m, N=n, P=parts), x=x, gamma=w, mu=mu, rstd=rstd, dy=dy, dx=dx, dgamma=dgp, dbeta=dbp, parts=parts),
                         library("reduce.tk", "sum_columns", sums, x=dgp, y=dg), library("reduce.tk", "sum_columns", sums, x=dbp, y=db)),
                   [dx, dg, db], lambda: layer_slope(x, w, mu, rstd, dy),
                   {"torch.compile": compiled(layer_slope, x, w, mu, rstd, dy),
                    "PyTorch": plain(aten.native_layer_norm_backward, dy, x, [n], mu[:, None], rstd[:, None], w, b, [True] * 3)}, moved(x, dy, dx), group="norms")
    for m, n in sized(o, [(8192, 4096), (16384, 8192)], [(9, 96)]):
        parts = min(264, m)
        x, w, dy, dx, dgp, dg = r(m, n), r(n), r(m, n), empty(m, n), empty(parts, n, t=f32), empty(n, t=f32)
        rstd, sizes = torch.rsqrt(x.float().square().mean(-1) + EPS), dict(M=m, N=n, P=parts)
        total = library("reduce.tk", "sum_columns", dict(M=parts, N=n), x=dgp, y=dg)
        yield case(f"rms norm backward, {m} x {n}", steps(library("norm_backward.tk", "rms_norm_backward_rows", sizes, x=x, gamma=w, rstd=rstd, dy=dy, dx=dx, dgamma=dgp, parts=parts), total),
                   [dx, dg], lambda: rms_slope(x, w, rstd, dy),
                   {"torch.compile": compiled(rms_slope, x, w, rstd, dy), "PyTorch": lambda: lambda: aten._fused_rms_norm_backward(dy, x, [n], rstd[:, None], w, [True, True])},
                   moved(x, dy, dx), group="norms")
        ds = r(m, n)
        yield case(f"rms norm of a sum backward, {m} x {n}",
                   steps(library("norm_backward.tk", "add_rms_norm_backward", sizes, sum=x, gamma=w, rstd=rstd, dy=dy, dsum=ds, dx=dx, dgamma=dgp, parts=parts), total),
                   [dx, dg], lambda: add_rms_slope(x, w, rstd, dy, ds), {"torch.compile": compiled(add_rms_slope, x, w, rstd, dy, ds)}, moved(x, dy, ds, dx), group="norms")


# ---- elements --------------------------------------------------------------------------------------

def silu_slope(x, dy):
    x, s = x.float(), torch.sigmoid(x.float())
    return (dy.float() * s * (1 + x * (1 - s))).to(bf)


def gelu_slope(x, dy):
    x = x.float()
    return (dy.float() * (0.5 * torch.erfc(x * -0.5 ** 0.5) + x * torch.exp(-0.5 * x * x) * 0.3989422804014327)).to(bf)


def swiglu_slope(g, u, dy):
    g, u, dy = g.float(), u.float(), dy.float()
    s = torch.sigmoid(g)
    return (dy * u * s * (1 + g * (1 - s))).to(bf), (dy * g * s).to(bf)


def turned_back(x, c, s):
    h = x.shape[-1] // 2
    a, b, c, s = x[..., :h].float(), x[..., h:].float(), c[:, None], s[:, None]
    return torch.cat([a * c + b * s, b * c - a * s], -1).to(bf)


def embedded(ids, dy, dw): dw.index_put_((ids,), dy.float(), accumulate=True)


def elements(o):
    m, n = sized(o, (8192, 14336), (4, 100))
    x, u, dy, dx, du = r(m * n), r(m * n), r(m * n), empty(m * n), empty(m * n)
    for name, f, theirs in ("gelu", gelu_slope, aten.gelu_backward), ("silu", silu_slope, aten.silu_backward):
        yield case(f"{name} backward, {m} x {n}", library("activation_backward.tk", "activate_backward", dict(N=m * n, DER=name + "_derivative"), x=x, dy=dy, dx=dx), dx,
                   lambda: f(x.double(), dy.double()), {"torch.compile": compiled(f, x, dy), "PyTorch": plain(theirs, dy, x)}, moved(x, dy, dx), group="elements")
    yield case(f"swiglu backward, {m} x {n}", library("activation_backward.tk", "activate_gated_backward", dict(N=m * n), gate=x, up=u, dy=dy, dgate=dx, dup=du), [dx, du],
               lambda: swiglu_slope(x, u, dy), {"torch.compile": compiled(swiglu_slope, x, u, dy)}, moved(x, u, dy, dx, du), group="elements")
    b, s, h, d = sized(o, (4, 4096, 32, 128), (2, 5, 3, 16))
    x, y, angle = r(b, s, h, d), empty(b, s, h, d), torch.arange(s, device=DEVICE)[:, None] * 1e4 ** (torch.arange(d // 2, device=DEVICE) * -2 / d)
    c, n = angle.cos(), angle.sin()
    yield case(f"rotary backward, {b} x {s} x {h} x {d}", library("rope.tk", "rotary", dict(B=b, S=s, H=h, D=d, D2=d // 2, P=s, INVERSE="true"), x=x, cos=c, sin=n, y=y), y,
               lambda: turned_back(x, c, n), {"torch.compile": compiled(turned_back, x, c, n)}, moved(x, y), group="elements")
    t, v, d = sized(o, (16384, 128256, 4096), (20, 50, 64))
    ids, dy, dw = among(v, t), r(t, d), torch.zeros(v, d, device=DEVICE)
    def added(make):
        def theirs():
            w = torch.zeros(v, d, device=DEVICE)
            f = make(w)()
            def run():
                f()
                return w
            return run
        return theirs
    yield case(f"embedding backward, {t} rows of {v} x {d}", library("embedding.tk", "embedding_backward", dict(S=t, V=v, D=d, I="i64"), ids=ids, dy=dy, dw=dw, ignore=-1), dw,
               lambda: torch.zeros(v, d, device=DEVICE).index_add_(0, ids, dy.float()),
               {"torch.compile": added(lambda w: compiled(embedded, ids, dy, w)), "PyTorch index_add": added(lambda w: plain(lambda: w.index_add_(0, ids, dy.float()))),
                "PyTorch, a new table in bf16": plain(aten.embedding_dense_backward, dy, ids, v, -1, False)}, moved(dy) + 2 * t * d * 4, group="elements")


# ---- optimisers ------------------------------------------------------------------------------------

LR, B1, B2, TINY, DECAY, MOMENTUM = 0.01, 0.9, 0.999, 1e-8, 0.1, 0.9


def adamw(p, g, m, v):
    """One step, the first, of what lies in place."""
    g = g.to(m.dtype)
    m.mul_(B1).add_(g, alpha=1 - B1)
    v.mul_(B2).addcmul_(g, g, value=1 - B2)
    p.mul_(1 - LR * DECAY).sub_(LR / (1 - B1) * m / (torch.sqrt(v / (1 - B2)) + TINY))


def adamw_of_copies(p, g, m, v, q):
    adamw(p, g, m, v)
    q.copy_(p)


def sgd(p, g, b):
    b.mul_(MOMENTUM).add_(g + DECAY * p)
    p.sub_(LR * b)


def fused_adamw(p, g, m, v, step):
    torch._fused_adamw_([p], [g], [m], [v], [], [step], lr=LR, beta1=B1, beta2=B2, weight_decay=DECAY, eps=TINY, amsgrad=False, maximize=False)


def fused_sgd(p, g, b):
    torch._fused_sgd_([p], [g], [b], weight_decay=DECAY, momentum=MOMENTUM, lr=LR, dampening=0.0, nesterov=False, maximize=False, is_first_step=False)


def on_copies(state, f):
    """A peer that changes its tensors has them for itself: `f(tensors)` makes it, and what it changed is its result."""
    def theirs():
        mine = [t.clone() for t in state]
        step = f(mine)()
        def run():
            step()
            return mine
        return run
    return theirs


def stepped(state, f):
    wide = [t.double() for t in state]
    f(wide)
    return wide


def optimisers(o):
    n = sized(o, 1 << 26, 3000)
    start = [r(n, t=f32) * 0.02, r(n, t=f32) * 1e-2, torch.rand(n, device=DEVICE) * 1e-4]       # the parameters as small as a step, so that errors show
    g, lr, one, step = r(n, t=f32) * 1e-2, scalar(LR), scalar(1.0), scalar(1, t=torch.int32)
    p, m, v = [t.clone() for t in start]
    word = dict(lr=lr, step=step, scale=one, beta1=B1, beta2=B2, eps=TINY, decay=DECAY)
    yield case(f"AdamW f32, {n} parameters", library("optimizer.tk", "adamw", dict(N=n), g=g, **word, p=p, m=m, v=v), [p, m, v],
               lambda: stepped(start, lambda s: adamw(s[0], g.double(), s[1], s[2])),
               {"torch.compile": on_copies(start, lambda s: compiled(adamw, s[0], g, s[1], s[2])), "PyTorch, fused": on_copies(start, lambda s: plain(fused_adamw, s[0], g, s[1], s[2], scalar(1.0)))},
               2 * moved(p, m, v) + moved(g), bound=1e-4, group="optimisers")
    g16, q = g.to(bf), empty(n)
    w, m, v = [t.clone() for t in start]
    def apart(s):
        wide = torch.empty_like(s[0])
        def both():
            wide.copy_(g16)
            fused_adamw(s[0], wide, s[1], s[2], one)
            s[3].copy_(s[0])
        return plain(both)
    def copied(s): adamw_of_copies(s[0], g16.double(), s[1], s[2], s[3])
    yield case(f"AdamW bf16 with f32 masters, {n}", library("optimizer.tk", "adamw_master", dict(N=n), g=g16, **word, w=w, m=m, v=v, p=q), [w, m, v, q],
               lambda: stepped([*start, q], copied),
               {"torch.compile": on_copies([*start, q], lambda s: compiled(adamw_of_copies, s[0], g16, s[1], s[2], s[3])), "PyTorch, fused, between copies": on_copies([*start, q], apart)},
               2 * moved(w, m, v) + moved(g16, q), bound=3e-3, group="optimisers")
    p, b = start[0].clone(), start[1].clone()
    yield case(f"SGD with momentum f32, {n}", library("optimizer.tk", "sgd", dict(N=n), g=g, lr=lr, scale=one, momentum=MOMENTUM, decay=DECAY, p=p, b=b), [p, b],
               lambda: stepped(start[:2], lambda s: sgd(s[0], g.double(), s[1])),
               {"torch.compile": on_copies(start[:2], lambda s: compiled(sgd, s[0], g, s[1])), "PyTorch, fused": on_copies(start[:2], lambda s: plain(fused_sgd, s[0], g, s[1]))},
               2 * moved(p, b) + moved(g), bound=1e-4, group="optimisers")
    total = torch.zeros((), device=DEVICE)
    def squares(g): return (g * g).sum()
    yield case(f"sum of squares of gradients f32, {n}", library("optimizer.tk", "grad_norm_add", dict(N=n), g=g, total=total), total, lambda: squares(g.double()),
               {"torch.compile": compiled(squares, g), "PyTorch": plain(lambda: torch._foreach_norm([g])[0].square())}, moved(g), bound=1e-4, group="optimisers")


# ---- the head of a model, and experts -----------------------------------------------------------------

def head_loss(h, w, label): return F.cross_entropy((h @ w.t()).float(), label, reduction="none")


def head_step(h, w, label, each):
    x = h @ w.t()
    loss, dx = loss_and_slope(x, label, each)
    return loss, dx @ w, dx.t() @ h


def heads(o):
    for t, v in sized(o, [(4096, 128256), (8192, 32000)], [(70, 300)]):
        k = sized(o, 4096, 64)
        h, w, label, loss, lse = r(t, k), r(v, k) / k ** 0.5, among(v, t), empty(t, t=f32), empty(t, t=f32)
        sizes = dict(M=t, K=k, V=v)
        yield case(f"linear and cross-entropy, {t} x {k} -> {v}", library("loss.tk", "linear_cross_entropy", sizes, h=h, w=w, label=label, loss=loss, lse=lse, ignore=-100), loss,
                   lambda: F.cross_entropy(h.float() @ w.float().t(), label, reduction="none"),
                   {"torch.compile": compiled(head_loss, h, w, label), "PyTorch": plain(head_loss, h, w, label)}, moved(h, w), group="head", flops=2 * t * k * v)
    x, dh, dw, scale = empty(t, v), empty(t, k), empty(v, k), scalar(1 / t)
    each = scale.expand(t)
    yield case(f"the same with its gradients, {t} x {k} -> {v}",
               steps(library("matmul.tk", "gemm_nt", dict(M=t, N=v, K=k), a=h, b=w, c=x),
                     library("loss.tk", "cross_entropy_in_place", dict(M=t, V=v), x=x, label=label, scale=scale, loss=loss, ignore=-100, eps=0.0, z=0.0),
                     library("matmul.tk", "gemm", dict(M=t, N=k, K=v), a=x, b=w, c=dh), library("matmul.tk", "gemm_tn", dict(M=v, N=k, K=t), a=x, b=h, c=dw)),
               [loss, dh, dw], lambda: head_step(h.float(), w.float(), label, each), {"torch.compile": compiled(head_step, h, w, label, each), "PyTorch": plain(head_step, h, w, label, each)},
               moved(h, w, dh, dw), group="head", flops=6 * t * k * v)


def gate_slope(x, at, d):
    p = torch.softmax(x.float(), -1).gather(1, at)
    q = p / p.sum(-1, keepdim=True)
    return torch.zeros_like(x, dtype=f32).scatter(1, at, q * (d - (d * q).sum(-1, keepdim=True))).to(bf)


def unpermuted_slope(x, weight, place, dy, dx):
    g = dy.float()[:, None]
    dx.index_put_((place,), (weight[..., None] * g).to(bf))
    return (g * x[place].float()).sum(-1)


def experts(o):
    s, e, k = sized(o, (16384, 64, 8), (20, 8, 2))
    x, d, dx = r(s, e), r(s, k, t=f32), empty(s, e)
    at = torch.topk(x.float(), k)[1]
    yield case(f"gate backward, {k} of {e}, {s} rows", graphed(library("moe.tk", "topk_softmax_backward", dict(S=s, E=e, TOP=k), logits=x, id=at.int(), dweight=d, dlogits=dx)), dx,
               lambda: gate_slope(x, at, d), {"torch.compile": graphed(compiled(gate_slope, x, at, d))}, moved(x, d, dx) + 4 * s * k, group="experts")
    s, k, n = sized(o, (16384, 2, 4096), (20, 2, 64))
    x, weight, dy, dx, dw = r(s * k, n), torch.rand(s, k, device=DEVICE), r(s, n), empty(s * k, n), empty(s, k, t=f32)
    place = torch.randperm(s * k, device=DEVICE).view(s, k)
    def theirs():
        mine = empty(s * k, n)
        f = compiled(unpermuted_slope, x, weight, place, dy, mine)()
        return lambda: (f(), mine)
    def wanted():
        slope = empty(s * k, n)
        return unpermuted_slope(x, weight, place, dy, slope), slope
    yield case(f"rows from experts backward, {s} x {k} of {n}", library("moe.tk", "moe_unpermute_backward", dict(R=s * k, S=s, TOP=k, D=n), x=x, weight=weight, place=place.int(), dy=dy, dx=dx, dweight=dw),
               [dw, dx], wanted, {"torch.compile": theirs}, moved(x, dy, dx), group="experts")
    for rows, g, k, n in sized(o, [(8192, 8, 4096, 14336), (32768, 64, 2048, 1408)], [(100, 3, 64, 72)]):
        x, dy, offsets, dw = r(rows, k), r(rows, n), ragged(rows, g), empty(g, k, n)
        ends = offsets.tolist()
        own = empty(g, k, n)
        def by_group():
            for i, (a, b) in enumerate(zip(ends, ends[1:])): torch.mm(x[a:b].t(), dy[a:b], out=own[i])
            return own
        def want(): return torch.stack([x[a:b].float().t() @ dy[a:b].float() for a, b in zip(ends, ends[1:])])
        yield case(f"weights of {g} groups, {rows} rows, {k} x {n}", library("grouped.tk", "grouped_gemm_tn", dict(M=rows, K=k, N=n, G=g, G1=g + 1), x=x, dy=dy, offsets=offsets, dw=dw), dw, want,
                   {"torch._grouped_mm": plain(lambda: torch._grouped_mm(x.t(), dy, offs=offsets[1:])),
                    "cuBLAS by group": plain(by_group)},
                   moved(x, dy, dw), group="experts", flops=2 * rows * k * n)


def cases(o):
    for part in softmaxes, losses, norms, elements, optimisers, heads, experts: yield from part(o)


if __name__ == "__main__": suite.main(["training"])
