"""Attention forward, bf16: prefill against cuDNN and FlexAttention, decoding (one query, keys in parts) against cuDNN and
FlashAttention 2, all through PyTorch."""
import torch, tk, suite
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend

TITLE, UNIT, MAIN = "Attention forward, bf16", "TFLOP/s", "cuDNN"
EXAMPLE, LIBRARY = "examples/attention.tk", "lang/std/attention.tk"
#          B  H   G   S      D
PREFILL = [(4, 32, 32, 4096, 128), (4, 32, 32, 4096, 64), (1, 16, 16, 16384, 128), (8, 12, 12, 1024, 64), (4, 16, 16, 4096, 256), (4, 32, 8, 4096, 128)]
DECODE = [(1, 32, 8, 8192, 128), (8, 32, 8, 8192, 128), (64, 32, 8, 8192, 128), (8, 32, 8, 65536, 128)]


def sdpa(backend, q, k, v, causal):
    def f():
        with sdpa_kernel(backend): return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=q.shape[1] != k.shape[1])
    return lambda: f


def flex(q, k, v, causal):
    def make():
        from torch.nn.attention.flex_attention import flex_attention, create_block_mask
        torch._dynamo.reset()
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, q.shape[2], k.shape[2]) if causal else None
        f = torch.compile(flex_attention)
        return lambda: f(q, k, v, block_mask=mask, enable_gqa=q.shape[1] != k.shape[1])
    return make


def prefill(o, b, h, g, s, d, causal):
    q, k, v = [torch.randn(b, n, s, d, device="cuda", dtype=torch.bfloat16) for n in (h, g, g)]
    out = torch.full_like(q, float("nan"))
    flat = lambda x: x.view(-1, s, d)
    word = dict(CAUSAL=str(causal).lower(), D=d)
    sizes = word | dict(H=b * h, S=s, L=s)                              # known, so that the model chooses the tile
    def ours():
        if d > 128: return tk.Kernel(suite.path(LIBRARY), "attention", sets=word | dict(E=d), arch=o.arch, q=q, k=k, v=v, o=out, scale=d ** -0.5)
        if g != h: return tk.Kernel(suite.path(EXAMPLE), "attention_grouped", sets=word, arch=o.arch, q=q, k=k, v=v, o=out, scale=d ** -0.5)
        return tk.Kernel(suite.path(EXAMPLE), "attention", sets=sizes, arch=o.arch, q=flat(q), k=flat(k), v=flat(v), o=flat(out), scale=d ** -0.5)
    return suite.Case(f"B{b} H{h}{f'/{g}' if g != h else ''} S{s} D{d} {'causal' if causal else 'full'}", 4 * b * h * s * s * d * (0.5 if causal else 1),
                      2 * q.nbytes + 2 * k.nbytes, ours, {"cuDNN": sdpa(SDPBackend.CUDNN_ATTENTION, q, k, v, causal), "FlexAttention*": flex(q, k, v, causal)},
                      lambda: (out, sdpa(SDPBackend.FLASH_ATTENTION, q, k, v, causal)()()), "prefill")


def decode(o, b, h, g, l, d):
    q, k, v = [torch.randn(b, n, s, d, device="cuda", dtype=torch.bfloat16) for n, s in ((h, 1), (g, l), (g, l))]
    out = torch.full((b, h, d), float("nan"), device="cuda", dtype=torch.bfloat16)
    sizes = dict(B=b, H=h, G=g, L=l, D=d, E=d)                          # known, so that the model chooses the parts
    def ours(): return tk.Kernel(suite.path(LIBRARY), "attention_decode", sets=sizes, arch=o.arch, q=q.view(b, h, d), k=k, v=v, o=out, scale=d ** -0.5)
    return suite.Case(f"decode B{b} H{h}/{g} L{l} D{d}", 4 * b * h * l * d, 2 * k.nbytes, ours,
                      {"cuDNN": sdpa(SDPBackend.CUDNN_ATTENTION, q, k, v, False), "FlashAttention 2": sdpa(SDPBackend.FLASH_ATTENTION, q, k, v, False)},
                      lambda: (out, sdpa(SDPBackend.FLASH_ATTENTION, q, k, v, False)()().view(b, h, d)), "decode")


def cases(o):
    for case in PREFILL:
        for causal in (False, True): yield prefill(o, *case, causal)
    for case in DECODE: yield decode(o, *case)


if __name__ == "__main__": suite.main(["attention"])
