"""Attention, bf16: prefill against cuDNN and FlexAttention, decoding (one query, keys in parts) against cuDNN and FlashAttention 2, gradients (by
queries, keys and values together, with all that is around the pass over the tiles) against the three, all through PyTorch."""
import torch, tk, suite
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend

TITLE, UNIT, MAIN = "Attention, bf16", "TFLOP/s", "cuDNN"
EXAMPLE, LIBRARY, GRADIENTS = "examples/attention.tk", "lang/std/attention.tk", "lang/std/attention_backward.tk"
#          B  H   G   S      D
PREFILL = [(4, 32, 32, 4096, 128), (4, 32, 32, 4096, 64), (1, 16, 16, 16384, 128), (8, 12, 12, 1024, 64), (4, 16, 16, 4096, 256), (4, 32, 8, 4096, 128)]
#           B  H   S     D
BACKWARD = [(16, 32, 1024, 64), (4, 32, 4096, 64), (1, 32, 16384, 64), (16, 16, 1024, 128), (4, 16, 4096, 128), (1, 16, 16384, 128)]
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


def gradients(f, g, q, k, v):
    """A peer's backward pass alone: the forward pass has been."""
    import torch._functorch.config
    torch._functorch.config.donated_buffer = False                      # of FlexAttention: run again and again
    q, k, v = [x.detach().requires_grad_() for x in (q, k, v)]
    def make():
        o = f(q, k, v)
        return lambda: torch.autograd.grad(o, (q, k, v), g, retain_graph=True)
    return make


def backward(o, b, h, s, d, causal):
    q, k, v, g = [torch.randn(b, h, s, d, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
    word, scale = dict(CAUSAL=str(causal).lower(), D=d), d ** -0.5
    at, dims = suite.path(GRADIENTS), dict(B=b, H=h, G=h, S=s, L=s)
    empty = lambda *dims: torch.empty(*dims, device="cuda")
    out, lse, delta, lse2, dq = torch.empty_like(q), empty(b, h, s), empty(b, h, s), empty(b, h, s), empty(b, h, s, d)
    got = [torch.full_like(q, float("nan")) for _ in range(3)]
    def ours():
        tk.Kernel(at, "attention_kept", dict(CAUSAL=word["CAUSAL"], D=d, E=d), arch=o.arch, q=q, k=k, v=v, o=out, lse=lse, scale=scale)()
        rows = tk.Kernel(at, "attention_backward_rows", dict(D=d), arch=o.arch, o=out, dout=g, lse=lse, delta=delta, lse2=lse2, dq=dq)
        steps = [rows, tk.Kernel(at, "attention_backward", word | dims, arch=o.arch, q=q, k=k, v=v, dout=g, lse2=lse2, delta=delta, dq=dq, dk=got[1], dv=got[2], scale=scale),
                 tk.Kernel(at, "attention_backward_queries", dict(D=d), arch=o.arch, dq=dq, y=got[0], scale=scale)]
        return lambda: [step() for step in steps]
    def one(backend):
        def f(q, k, v):
            with sdpa_kernel(backend): return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return gradients(f, g, q, k, v)
    def flexible():
        from torch.nn.attention.flex_attention import flex_attention, create_block_mask
        torch._dynamo.reset()
        mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, s, s) if causal else None
        f = torch.compile(flex_attention)
        return gradients(lambda q, k, v: f(q, k, v, block_mask=mask), g, q, k, v)()
    def check():
        return torch.stack(got), torch.stack(one(SDPBackend.FLASH_ATTENTION)()())
    return suite.Case(f"backward B{b} H{h} S{s} D{d} {'causal' if causal else 'full'}", 10 * b * h * s * s * d * (0.5 if causal else 1), 8 * q.nbytes, ours,
                      {"cuDNN": one(SDPBackend.CUDNN_ATTENTION), "FlashAttention 2": one(SDPBackend.FLASH_ATTENTION), "FlexAttention*": flexible}, check, "backward")


def cases(o):
    for case in PREFILL:
        for causal in (False, True): yield prefill(o, *case, causal)
    for case in DECODE: yield decode(o, *case)
    for case in BACKWARD:
        for causal in (False, True): yield backward(o, *case, causal)


if __name__ == "__main__": suite.main(["attention"])
