"""What serving a language model takes of lang/std/ beside plain products and attention: mixtures of experts (gates, rows by expert, products of groups), attention
over pages and appending to them, numbers with scales of blocks, linear recurrences.

Peers, and where one has an advantage:

- experts: torch.compile, torch._grouped_mm (CUTLASS), cuBLAS group by group, which knows the groups' sizes on the host. Our time has the list of tiles in it.
- pages: PyTorch has no kernel that reads pages; its cuDNN and FlashAttention read the same keys laid out one after the other, which saves
  them the table. Of caches in f8 they read bf16, twice the bytes.
- products with scales: torch._scaled_mm by rows, and by groups of 128 and tiles of 128 x 128, in the first of the forms it takes that is right; and
  cuBLAS with both operands in bf16, widened beforehand. MX formats have no other peer on this GPU.
- recurrences: Triton's scans and loops (triton_scans.py), each the best of several configurations; torch.compile of associative_scan.

What is short is timed as a replay of a CUDA graph, ours and the peers'. Rates of products, and of attention but for decoding, are TFLOP/s, as their rows say.

    python3 bench/inference.py [--match TEXT] [--peers main|all] [--rounds 7] [--json FILE]
    TKC_DEVICE=emu python3 bench/inference.py --small                       checks alone, on a machine without a GPU
"""
import os, sys, torch
import torch.nn.functional as F
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import suite
from beside import *

TITLE, UNIT, MAIN = "Inference, bf16", "GB/s", "torch.compile"
i32 = torch.int32


def cdiv(a, b): return -(-a // b)


# ---- experts ---------------------------------------------------------------------------------------

def gate(x, k):
    p, at = torch.topk(torch.softmax(x.float(), -1), k)
    return p / p.sum(-1, keepdim=True), at


def sigmoid_gate(x, bias, k, scale):
    s = torch.sigmoid(x.float())
    p = s.gather(1, torch.topk(s + bias, k)[1])
    return p / p.sum(-1, keepdim=True) * scale


def gates(o):
    for s, e, k in sized(o, [(16384, 8, 2), (16384, 64, 8)], [(20, 8, 2)]):
        x, weight, id = r(s, e), empty(s, k, t=f32), empty(s, k, t=i32)
        def given():                                                    # equal scores may stand in any order: by what was chosen, too
            p = torch.softmax(x.float(), -1).gather(1, id.long())
            return weight, p / p.sum(-1, keepdim=True)
        yield case(f"gate, {k} of {e}, {s} rows", graphed(library("moe.tk", "topk_softmax", dict(S=s, E=e, TOP=k), logits=x, weight=weight, id=id, k=k)), given,
                   lambda: [gate(x, k)[0]] * 2, {"torch.compile": graphed(first(compiled(gate, x, k)))}, moved(x, weight, id), bound=1e-4, group="experts")
    s, e, k = sized(o, (16384, 256, 8), (20, 16, 4))
    x, bias, weight, id = r(s, e), r(e, t=f32), empty(s, k, t=f32), empty(s, k, t=i32)
    yield case(f"gate by sigmoid with bias, {k} of {e}, {s} rows", graphed(library("moe.tk", "topk_sigmoid", dict(S=s, E=e, TOP=k), logits=x, bias=bias, weight=weight, id=id, k=k, scale=2.5)), weight,
               lambda: sigmoid_gate(x, bias, k, 2.5), {"torch.compile": graphed(compiled(sigmoid_gate, x, bias, k, 2.5))}, moved(x, weight, id), group="experts")


def first(make):
    """The first of a peer's results."""
    def alone():
        f = make()
        return lambda: f()[0]
    return alone


def by_expert(id, experts):
    """Where each expert's rows begin, the token of each row and the row of each pair."""
    by, order = torch.sort(id.flatten(), stable=True)
    offsets = torch.searchsorted(by, torch.arange(experts + 1, device=id.device, dtype=id.dtype))
    place = torch.empty_like(order)
    place[order] = torch.arange(order.numel(), device=id.device)
    return offsets, order // id.shape[1], place.view(id.shape)


def back(x, weight, place): return (x[place].float() * weight[..., None]).sum(1).to(bf)


def rows(o):
    s, e, k = sized(o, (16384, 64, 8), (700, 8, 2))
    id, parts = torch.rand(s, e, device=DEVICE).topk(k)[1].int(), cdiv(s * k, 1024)
    count, offsets, start, token, place = [empty(*n, t=i32) for n in ((parts, e), (e + 1,), (parts, e), (s * k,), (s, k))]
    sizes = dict(S=s, TOP=k, E=e, P=parts, E1=e + 1, R=s * k)
    def some(*names): return {n: sizes[n] for n in names}
    ours = steps(library("moe.tk", "expert_counts", some("S", "TOP", "P", "E"), id=id, count=count, experts=e),
                 library("moe.tk", "expert_offsets", some("P", "E", "E1"), count=count, offsets=offsets, start=start),
                 library("moe.tk", "moe_permutation", some("S", "TOP", "P", "E", "E1", "R"), id=id, offsets=offsets, start=start, token=token, place=place))
    yield case(f"rows by expert, {s} x {k} of {e}", graphed(ours), [offsets, token, place], lambda: by_expert(id, e),
               {"torch.compile": graphed(compiled(by_expert, id, e)), "PyTorch": graphed(plain(by_expert, id, e))}, moved(id, token, place), bound=0.0, group="experts")
    s, k, d = sized(o, (16384, 2, 4096), (20, 2, 64))
    token, weight = torch.randperm(s * k, device=DEVICE) // k, torch.rand(s, k, device=DEVICE)
    place = by_expert(token.view(-1, 1), s)[1].view(s, k)
    x, y, z = r(s, d), empty(s * k, d), empty(s, d)
    yield case(f"rows to experts, {s} x {k} of {d}", library("moe.tk", "moe_permute", dict(S=s, R=s * k, D=d), x=x, token=token.int(), y=y), y, lambda: x[token],
               {"torch.compile": compiled(lambda x, t: x[t], x, token)}, moved(x, y), bound=0.0, group="experts")
    h = r(s * k, d)
    yield case(f"rows from experts, {s} x {k} of {d}", library("moe.tk", "moe_unpermute", dict(R=s * k, S=s, TOP=k, D=d), x=h, weight=weight, place=place.int(), y=z), z, lambda: back(h, weight, place),
               {"torch.compile": compiled(back, h, weight, place)}, moved(h, z), group="experts")


def tiles(rows, groups, offsets):
    """Launches what numbers tiles of 128 rows, and the tensors it writes."""
    many = cdiv(rows, 128) + groups
    group, row = empty(many, t=i32), empty(many, t=i32)
    return library("grouped.tk", "group_tiles", dict(G1=groups + 1), offsets=offsets, group=group, row=row, M=rows, rows=128), dict(group=group, row=row), many


def gated(x, w, token, ends):
    h = torch._grouped_mm(x[token], w.transpose(1, 2), offs=ends)
    n = h.shape[1] // 2
    return (F.silu(h[:, :n].float()) * h[:, n:].float()).to(bf)


def groups(o):
    for m, g, k, n in sized(o, [(8192, 8, 4096, 14336), (8192, 8, 14336, 4096), (32768, 64, 2048, 1408), (512, 64, 2048, 1408)], [(300, 3, 64, 72)]):
        x, w, y, offsets = r(m, k), r(g, k, n) / k ** 0.5, empty(m, n), ragged(m, g)
        number, listed, many = tiles(m, g, offsets)
        sizes = dict(M=m, K=k, N=n, G=g, G1=g + 1, TILES=many)
        ends, own = offsets.tolist(), empty(m, n)
        for form, kernel, wt in ("NT", "grouped_gemm_nt", w.transpose(1, 2).contiguous()), ("NN", "grouped_gemm", w):
            if form == "NN" and k > n: continue                         # a form more for half of them
            right = wt.transpose(1, 2) if form == "NT" else wt
            def by_group():
                for i, (a, b) in enumerate(zip(ends, ends[1:])): torch.mm(x[a:b], right[i], out=own[a:b])
                return own
            y.fill_(float("nan"))
            yield case(f"{g} groups {form}, {m} x {n} x {k}", steps(number, library("grouped.tk", kernel, sizes, x=x, w=wt, offsets=offsets, **listed, y=y)), y,
                       lambda: torch.cat([x[a:b].float() @ right[i].float() for i, (a, b) in enumerate(zip(ends, ends[1:]))]),
                       {"torch._grouped_mm": plain(lambda: torch._grouped_mm(x, right, offs=offsets[1:])), "cuBLAS by group": plain(by_group)}, moved(x, w, y), group="groups", flops=2 * m * n * k)
    for s, top, e, k, n in sized(o, [(4096, 2, 8, 4096, 14336), (4096, 8, 64, 2048, 1408)], [(150, 2, 3, 64, 40)]):
        m = s * top
        x, w, y, offsets = r(s, k), r(e, 2 * n, k) / k ** 0.5, empty(m, n), ragged(m, e)
        token = torch.randperm(m, device=DEVICE) // top
        number, listed, many = tiles(m, e, offsets)
        ends = offsets.tolist()
        def want():
            h = torch.cat([x[token[a:b]].float() @ w[i].float().t() for i, (a, b) in enumerate(zip(ends, ends[1:]))])
            return F.silu(h[:, :n]) * h[:, n:]
        yield case(f"gated experts, {s} x {top} of {e}, {k} -> {n}",
                   steps(number, library("moe.tk", "moe_gated", dict(S=s, K=k, E=e, N2=2 * n, N=n, R=m, E1=e + 1, TILES=many), x=x, w=w, token=token.int(), offsets=offsets, **listed, y=y)), y, want,
                   {"torch.compile": compiled(gated, x, w, token, offsets[1:]), "PyTorch": plain(gated, x, w, token, offsets[1:])}, moved(x, w, y), group="groups", flops=4 * m * n * k)


# ---- pages -----------------------------------------------------------------------------------------

def attended(q, k, v):
    """By its definition, in f32; the last query is at the last key, q [B, H, S, D], k and v [B, G, L, D]."""
    b, h, s, d = q.shape
    g, l = k.shape[1:3]
    late = torch.arange(l, device=q.device)[None] > torch.arange(s, device=q.device)[:, None] + (l - s)
    out = []
    for i in range(b):
        x = q[i].float().view(g, h // g, s, d) @ k[i].float().transpose(1, 2)[:, None] * d ** -0.5
        out.append((torch.softmax(x.masked_fill(late, float("-inf")), -1) @ v[i].float()[:, None]).view(h, s, d))
    return torch.stack(out)


def paged(b, g, l, d, page, t=bf):
    """Caches in pages in any order, their table, and the same keys and values one after the other, bf16."""
    many = cdiv(l, page)
    kc, vc = r(b * many, page, g, d).to(t), r(b * many, page, g, d).to(t)
    table = torch.randperm(b * many, device=DEVICE).view(b, many).int()
    def straight(x): return x.to(bf)[table.long()].view(b, many * page, g, d)[:, :l].transpose(1, 2).contiguous()
    return kc, vc, table, straight(kc), straight(vc)


def sdpa(backend, q, k, v, causal=False):
    from torch.nn.attention import sdpa_kernel
    def f():
        with sdpa_kernel(backend): return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])
    return lambda: f


def flash(q, k, v): return torch.ops.aten._scaled_dot_product_flash_attention(q, k, v, 0.0, True)[0]        # causal from the last key


def pages(o):
    from torch.nn.attention import SDPBackend
    backends = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "FlashAttention 2": SDPBackend.FLASH_ATTENTION} if DEVICE == "cuda" else {"PyTorch": SDPBackend.MATH}
    for b, h, g, l, d, page, t in sized(o, [(8, 32, 8, 8192, 128, 16, bf), (8, 32, 8, 8192, 128, 64, bf), (64, 32, 8, 8192, 128, 16, bf), (64, 32, 8, 8192, 128, 64, bf), (64, 32, 8, 8192, 128, 64, f8)],
                                        [(2, 8, 2, 100, 32, 16, bf), (2, 8, 2, 128, 32, 64, f8)]):
        kc, vc, table, k, v = paged(b, g, l, d, page, t)
        q, y, lengths = r(b, h, d), empty(b, h, d), torch.full((b,), l, device=DEVICE, dtype=i32)
        sizes = dict(B=b, H=h, G=g, D=d, E=d, PAGE=page, MAXP=table.shape[1], PAGES=kc.shape[0], KV="bf16" if t == bf else "f8e4m3")
        yield case(f"decode, pages of {page}{'' if t == bf else ', f8'}, B{b} H{h}/{g} L{l} D{d}",
                   library("attention_paged.tk", "attention_paged_decode", sizes, q=q, k=kc, v=vc, block_table=table, lengths=lengths, o=y, scale=d ** -0.5, k_scale=1.0, v_scale=1.0),
                   y.view(b, h, 1, d), lambda: attended(q.view(b, h, 1, d), k, v), {n: sdpa(be, q.view(b, h, 1, d), k, v) for n, be in backends.items()}, moved(kc, vc), group="pages")
    for b, h, g, s, l, d, page in sized(o, [(4, 32, 8, 4096, 4096, 128, 64), (4, 32, 8, 2048, 8192, 128, 64), (4, 32, 8, 2048, 8192, 128, 16)], [(2, 4, 2, 40, 100, 32, 16)]):
        kc, vc, table, k, v = paged(b, g, l, d, page)
        q, y = r(b * s, h, d), empty(b * s, h, d)
        offsets, lengths = torch.arange(b + 1, device=DEVICE, dtype=i32) * s, torch.full((b,), l, device=DEVICE, dtype=i32)
        qt = q.view(b, s, h, d).transpose(1, 2).contiguous()
        sizes = dict(N=b * s, B=b, B1=b + 1, H=h, G=g, D=d, E=d, PAGE=page, MAXP=table.shape[1], PAGES=kc.shape[0])
        yield case(f"prefill, pages of {page}, B{b} H{h}/{g} S{s} L{l} D{d}",
                   library("attention_paged.tk", "attention_paged", sizes, q=q, k=kc, v=vc, block_table=table, offsets=offsets, lengths=lengths, o=y, scale=d ** -0.5, k_scale=1.0, v_scale=1.0, longest=s),
                   y.view(b, s, h, d).transpose(1, 2), lambda: attended(qt, k, v),
                   {"FlashAttention 2": plain(flash, qt, k, v)} | ({"cuDNN": sdpa(SDPBackend.CUDNN_ATTENTION, qt, k, v, True)} if s == l else {}), moved(q, k, v, y), group="pages",
                   flops=4 * b * h * d * s * (l - s / 2))
    yield from appended(o)


def append(k, v, kc, vc, table, offsets, lengths, page):
    i = torch.arange(k.shape[0], device=k.device, dtype=i32)
    b = torch.searchsorted(offsets, i, right=True) - 1
    at = i - offsets[b + 1] + lengths[b]
    slot = table[b, at // page].long() * page + at % page
    kc.view(-1, *kc.shape[2:]).index_put_((slot,), k)
    vc.view(-1, *vc.shape[2:]).index_put_((slot,), v)


def appended(o):
    for b, s, l, g, d, page in sized(o, [(8, 2048, 8192, 8, 128, 16), (256, 1, 8192, 8, 128, 16)], [(2, 30, 100, 2, 32, 16)]):
        kc, vc, table, _, _ = paged(b, g, l, d, page)
        start, n = (kc.clone(), vc.clone()), b * s
        k, v, slot = r(n, g, d), r(n, g, d), empty(n, t=torch.int64)
        offsets, lengths = torch.arange(b + 1, device=DEVICE, dtype=i32) * s, torch.full((b,), l, device=DEVICE, dtype=i32)
        word = dict(block_table=table, offsets=offsets, lengths=lengths)
        def theirs():
            mine = [t.clone() for t in start]
            f = compiled(append, k, v, *mine, table, offsets, lengths, page)()
            def run():
                f()
                return mine
            return run
        def wanted():
            caches = [t.clone() for t in start]
            append(k, v, *caches, table, offsets, lengths, page)
            return caches
        yield case(f"slots and append, {b} x {s} tokens, {g} heads of {d}",
                   graphed(steps(library("attention_paged.tk", "paged_slots", dict(B=b, B1=b + 1, MAXP=table.shape[1], N=n), **word, slot=slot, rows=n, page=page),
                                 library("attention_paged.tk", "append_paged", dict(N=n, G=g, D=d, E=d, PAGE=page, PAGES=kc.shape[0]), k=k, v=v, slot=slot, k_cache=kc, v_cache=vc, k_scale=1.0, v_scale=1.0))),
                   [kc, vc], wanted, {"torch.compile": graphed(theirs)}, 2 * moved(k, v), group="pages")


# ---- numbers with scales of blocks -------------------------------------------------------------------

def scale_of(top, most): return torch.where(top == 0, 1.0, top * (1 / most))


def quantised_groups(x):
    t = x.float().view(x.shape[0], -1, 128)
    s = scale_of(t.abs().amax(-1), 448.0)
    return (t / s[..., None]).clamp(-448, 448).to(f8).view(x.shape), s


def quantised_tiles(w):
    t = w.float().view(w.shape[0] // 128, 128, -1, 128)
    s = scale_of(t.abs().amax((1, 3)), 448.0)
    return (t / s[:, None, :, None]).clamp(-448, 448).to(f8).view(w.shape), s


def exponents(top, most): return torch.clamp((top.view(i32) >> 23) - most + 127, 0, 254)


def inverse(e): return ((254 - e) << 23).view(f32)


def quantised_mxfp8(x):
    t = x.float().view(x.shape[0], -1, 32)
    e = exponents(t.abs().amax(-1), 135)                                # of 448
    return (t * inverse(e)[..., None]).clamp(-448, 448).to(f8).view(x.shape), e.to(torch.uint8)


def pair(c): return (c[..., 0::2] | (c[..., 1::2] << 4)).to(torch.uint8)


def quantised_mxfp4(x):
    t = x.float().view(x.shape[0], -1, 32)
    e = exponents(t.abs().amax(-1), 129)                                # of 6
    t = t * inverse(e)[..., None]
    a = t.abs()
    c = (a > 0.25).int() + (a >= 0.75) + (a > 1.25) + (a >= 1.75) + (a > 2.5) + (a >= 3.5) + (a > 5) + torch.where(t < 0, 8, 0)
    return pair(c.view(x.shape)), e.to(torch.uint8)


def quantised_w4(w):
    t = w.float().view(w.shape[0], -1, 128)
    top = t.abs().amax(-1)
    s = torch.where(top == 0, 1.0, top * (1 / 7)).to(bf)
    return pair((torch.round(t / s.float()[..., None]) + 8).clamp(0, 15).int().view(w.shape)), s


#              kernel             file                reference         bytes of q  its type     group  scales' type
QUANTISERS = [("quantize_groups", "block_scaled.tk", quantised_groups, 1, f8, 128, f32), ("quantize_tiles", "block_scaled.tk", quantised_tiles, 1, f8, 128, f32),
              ("quantize_mxfp8", "microscaling.tk", quantised_mxfp8, 1, f8, 32, torch.uint8), ("quantize_mxfp4", "microscaling.tk", quantised_mxfp4, 2, torch.uint8, 32, torch.uint8),
              ("quantize_w4", "block_scaled.tk", quantised_w4, 2, torch.uint8, 128, bf)]


def quantisers(o):
    m, n = sized(o, (14336, 4096), (256, 256))
    for kernel, file, f, per, t, group, st in QUANTISERS:
        square = kernel == "quantize_tiles"
        x, q, s = r(m, n), empty(m, n // per, t=t), empty(m // 128 if square else m, n // group, t=st)
        given, sizes = (dict(w=x), dict(N=m, K=n)) if kernel in ("quantize_tiles", "quantize_w4") else (dict(x=x), dict(M=m, N=n))
        yield case(f"{kernel}, {m} x {n}", library(file, kernel, sizes, **given, q=q, scale=s), [q, s], lambda: f(x), {"torch.compile": compiled(f, x)}, moved(x, q, s), group="quantising",
                   peers_bound=5e-2)                                    # which keeps what is rounded between two steps as it was


def right_form(forms, want, bound):
    """The first of several ways to call a peer that runs and is right."""
    def make():
        said = []
        for f in forms:
            try:
                off = suite.error(f(), want())
                if off <= bound: return f
                said.append(f"wrong by {off:.1e}")
            except Exception as e: said.append(str(e).split("\n")[0][:60])
        raise RuntimeError("; ".join(said))
    return make


def block_forms(a, b, sa, sb):
    """torch._scaled_mm with scales of 1 x 128 and 128 x 128, whose layouts versions name otherwise."""
    tall = sa.t().contiguous().t()
    def later():
        from torch.nn.functional import scaled_mm, ScalingType
        return scaled_mm(a, b.t(), tall, ScalingType.BlockWise1x128, sb.t(), ScalingType.BlockWise128x128, output_dtype=bf)
    return [lambda: torch._scaled_mm(a, b.t(), tall, sb.t(), out_dtype=bf), later, lambda: torch._scaled_mm(a, b.t(), tall, sb.t().contiguous(), out_dtype=bf),
            lambda: torch._scaled_mm(a, b.t(), sa, sb.t(), out_dtype=bf)]


def scaled_products(o):
    for m, n, k in sized(o, [(4096, 14336, 4096), (8192, 8192, 8192), (64, 14336, 4096)], [(70, 256, 256)]):
        x, w, bias, y = r(m, k), r(n, k) / k ** 0.5, r(n), empty(m, n)
        (a, sa), (b, sb) = [rows_by_scale(t) for t in (x, w)]
        def by_rows(fast): return lambda: torch._scaled_mm(a, b.t(), sa[:, None], sb[None], bias=bias, out_dtype=bf, use_fast_accum=fast)
        def want(): return (a.float() * sa[:, None]) @ (b.float() * sb[:, None]).t() + bias.float()
        yield case(f"f8, scales of rows, bias, {m} x {n} x {k}", library("quant.tk", "linear_f8", dict(M=m, N=n, K=k), a=a, b=b, sa=sa, sb=sb, bias=bias, y=y), y, want,
                   {"_scaled_mm": plain(by_rows(False)), "_scaled_mm, fast accumulation": plain(by_rows(True)), "cuBLAS bf16": plain(F.linear, (a.float() * sa[:, None]).to(bf), (b.float() * sb[:, None]).to(bf), bias)},
                   moved(a, b, y), bound=2e-2, group="scaled products", flops=2 * m * n * k)
        (a, ga), (b, tb) = quantised_groups(x), quantised_tiles(w)
        def wide(): return (a.float().view(m, -1, 128) * ga[..., None]).view(m, k), (b.float().view(n // 128, 128, -1, 128) * tb[:, None, :, None]).view(n, k)
        def wanted():
            p, q = wide()
            return p @ q.t()
        p, q = [t.to(bf) for t in wide()]
        z = empty(m, n)
        yield case(f"f8, scales of groups and tiles, {m} x {n} x {k}", library("block_scaled.tk", "gemm_f8_blocks", dict(M=m, N=n, K=k, KB=k // 128, NB=n // 128), a=a, sa=ga, b=b, sb=tb, y=z), z, wanted,
                   {"_scaled_mm": right_form(block_forms(a, b, ga, tb), wanted, 2e-2), "cuBLAS bf16": plain(F.linear, p, q)}, moved(a, b, z), bound=2e-2, group="scaled products", flops=2 * m * n * k)
    yield from microscaled(o)


def rows_by_scale(x):
    s = scale_of(x.float().abs().amax(-1), 448.0)
    return (x.float() / s[:, None]).clamp(-448, 448).to(f8), s


def e2m1(q):
    """The numbers of packed E2M1 codes."""
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], device=q.device)
    c = torch.stack([q & 15, q >> 4], -1).flatten(-2).long()
    return table[c & 7] * torch.where(c >= 8, -1.0, 1.0)


def by_blocks(t, e): return (t.float().view(t.shape[0], -1, 32) * ((e.int() << 23).view(f32))[..., None]).view(t.shape)


def microscaled(o):
    m, n, k = sized(o, (4096, 4096, 4096), (70, 136, 256))
    x, w, y = r(m, k), r(n, k) / k ** 0.5, empty(m, n)
    (a, sa), (b, sb) = quantised_mxfp8(x), quantised_mxfp8(w)
    wide = [empty(*t.shape) for t in (x, w)]                            # what the graph product_mxfp8 launches
    ours = steps(*[library("microscaling.tk", "dequantize_mxfp8", dict(M=t.shape[0], N=k, G=k // 32), q=q, scale=s, x=t) for q, s, t in ((a, sa, wide[0]), (b, sb, wide[1]))],
                 library("matmul.tk", "gemm_nt", dict(M=m, N=n, K=k), a=wide[0], b=wide[1], c=y))
    yield case(f"MXFP8, {m} x {n} x {k}", ours, y, lambda: by_blocks(a, sa) @ by_blocks(b, sb).t(),
               {"cuBLAS bf16": plain(F.linear, by_blocks(a, sa).to(bf), by_blocks(b, sb).to(bf))}, moved(a, b, y), group="scaled products", flops=2 * m * n * k)
    for m, n, k in sized(o, [(16, 14336, 4096), (4096, 14336, 4096)], [(9, 136, 256)]):
        x, bias, y = r(m, k), r(n), empty(m, n)
        q, s = quantised_mxfp4(r(n, k) / k ** 0.5)
        w = by_blocks(e2m1(q), s).to(bf)
        yield case(f"MXFP4 weights, {m} x {n} x {k}", library("microscaling.tk", "linear_mxfp4", dict(M=m, N=n, K=k, K2=k // 2, G=k // 32), x=x, q=q, scale=s, bias=bias, y=y), y,
                   lambda: F.linear(x.float(), w.float(), bias.float()), {"cuBLAS bf16": plain(F.linear, x, w, bias)}, moved(x, q, s, y), group="scaled products", flops=2 * m * n * k)


# ---- recurrences -----------------------------------------------------------------------------------

def associative(a, b, dim):
    from torch._higher_order_ops.associative_scan import associative_scan
    return associative_scan(lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]), (a, b), dim, combine_mode="pointwise" if a.is_cuda else "generic")[1]


def by_step(a, b):
    """h[t] = a[t] h[t - 1] + b[t] along the first axis, one step after the other in f64."""
    h, out = torch.zeros_like(b[0], dtype=torch.float64), torch.empty_like(b, dtype=f32)
    for t in range(a.shape[0]):
        h = a[t] * h + b[t]
        out[t] = h
    return out


def recurrences(o):
    import triton_scans
    for m, n, t in sized(o, [(16384, 4096, f32), (4096, 16384, f32), (16384, 4096, bf)], [(5, 1500, f32)]):
        a, b, h, z = (1 - torch.rand(m, n, device=DEVICE) * 0.2).to(t), r(m, n, t=t), empty(m, n, t=t), empty(m, n, t=t)
        name = "f32" if t == f32 else "bf16"
        yield case(f"recurrence of rows {name}, {m} x {n}", library("scan.tk", "linear_recurrence", dict(M=m, N=n, T=name), a=a, b=b, h=h), h, lambda: by_step(a.t(), b.t()).t(),
                   {"Triton": triton_scans.best("rows", (a, b, z), (m, n), (n,), z), "torch.compile*": compiled(associative, a, b, 1)}, moved(a, b, h), group="recurrences")
    for s, c in sized(o, [(8192, 4096), (2048, 16384)], [(70, 40)]):
        a, b, h, z = 1 - torch.rand(s, c, device=DEVICE) * 0.2, r(s, c, t=f32), empty(s, c, t=f32), empty(s, c, t=f32)
        yield case(f"recurrence of columns f32, {s} x {c}", library("scan.tk", "linear_recurrence_columns", dict(S=s, C=c), a=a, b=b, h=h), h, lambda: by_step(a, b),
                   {"Triton": triton_scans.best("columns", (a, b, z), (s, c), (s, c), z), "torch.compile*": compiled(associative, a, b, 0)}, moved(a, b, h), group="recurrences")
    for n, t, c in sized(o, [(1, 4096, 4096), (8, 2048, 4096)], [(2, 50, 32)]):
        s = 16
        u, dt, a, b, k, d = r(n, t, c, t=f32), torch.rand(n, t, c, device=DEVICE) * 0.2, -torch.rand(c, s, device=DEVICE) * 15.5 - 0.5, r(n, t, s, t=f32), r(n, t, s, t=f32), r(c, t=f32)
        y, z = empty(n, t, c, t=f32), empty(n, t, c, t=f32)
        def wanted():
            h, out = torch.zeros(n, c, s, device=DEVICE), torch.empty(n, t, c, device=DEVICE)
            for i in range(t):
                h = torch.exp(dt[:, i, :, None] * a) * h + (dt[:, i] * u[:, i])[..., None] * b[:, i, None]
                out[:, i] = (h * k[:, i, None]).sum(-1) + d * u[:, i]
            return out
        yield case(f"selective scan, {n} x {t} x {c}, {s} states", example("selective_scan.tk", "selective_scan", dict(N=n, T=t, C=c, S=s), u=u, dt=dt, a=a, b=b, c=k, d=d, y=y), y, wanted,
                   {"Triton": triton_scans.best("selective", (u, dt, a, b, k, d, z), (n, t, c, s), (t, c, s), z)}, moved(u, dt, y), group="recurrences")


def cases(o):
    for part in gates, rows, groups, pages, quantisers, scaled_products, recurrences: yield from part(o)


if __name__ == "__main__": suite.main(["inference"])
