"""A decoding step of a Llama of 1.2 B in bf16: `tkc run --donate` beside torch.compile, one token for each of some sequences.

    python3 bench/llama_step.py --export=FOLDER       # FOLDER/model.onnx, without its weights: needs onnx and onnxscript, no GPU
    python3 bench/llama_step.py FOLDER [--tkc=build/tkc] [--cases=1x1024,8x4096] [--no-peer]

The model is as transformers writes it: caches come in and go out longer by one (`--donate` writes the new row where they are), keys are
repeated for their group's query heads, softmax in f32. The peer has what is best for it: q, k and v as one product, caches of a fixed length
written in place, `reduce-overhead` (CUDA graphs), attention written out or by scaled_dot_product_attention, whichever is faster. A case is
sequences x keys; times are the least of 20 replays between events on both sides. `least` is what weights and caches take at 4.8 TB/s.
"""
import math, os, re, subprocess, sys, tempfile
import torch
import torch.nn.functional as F
from torch import nn

DIM, LAYERS, HEADS, GROUPS, HIDDEN, VOCAB, D = 2048, 16, 32, 8, 8192, 128256, 64
bf16 = torch.bfloat16


class RMSNorm(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(DIM))

    def forward(self, x):
        h = x.to(torch.float32)
        return self.weight * (h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


def turned(x, cos, sin):
    a, b = x[..., : D // 2], x[..., D // 2:]
    return x * cos + torch.cat((-b, a), dim=-1) * sin


def repeated(x):
    b, g, s, d = x.shape
    return x[:, :, None].expand(b, g, HEADS // GROUPS, s, d).reshape(b, HEADS, s, d)


def heads(x): return x.view(x.shape[0], 1, -1, D).transpose(1, 2)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        linear = lambda n, m: nn.Linear(n, m, bias=False)
        self.before, self.between = RMSNorm(), RMSNorm()
        self.q, self.k, self.v, self.o = linear(DIM, HEADS * D), linear(DIM, GROUPS * D), linear(DIM, GROUPS * D), linear(HEADS * D, DIM)
        self.gate, self.up, self.down = linear(DIM, HIDDEN), linear(DIM, HIDDEN), linear(HIDDEN, DIM)

    def attend(self, x, cos, sin, k0, v0, at):
        q, k, v = turned(heads(self.q(x)), cos, sin), turned(heads(self.k(x)), cos, sin), heads(self.v(x))
        k, v = torch.cat((k0, k), 2), torch.cat((v0, v), 2)
        w = F.softmax(torch.matmul(q, repeated(k).transpose(2, 3)) / math.sqrt(D), dim=-1, dtype=torch.float32).to(q.dtype)
        return torch.matmul(w, repeated(v)), k, v

    def forward(self, x, cos, sin, k, v, at):
        y, k, v = self.attend(self.before(x), cos, sin, k, v, at)
        x = x + self.o(y.transpose(1, 2).reshape(x.shape[0], 1, HEADS * D))
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y)), k, v


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.layers, self.norm = nn.Embedding(VOCAB, DIM), nn.ModuleList(Layer() for _ in range(LAYERS)), RMSNorm()
        self.head = nn.Linear(DIM, VOCAB, bias=False)

    def forward(self, token, position, *caches):
        inverse = 1.0 / 500000.0 ** (torch.arange(0, D, 2, device=token.device).float() / D)
        angle = position[:, :, None].float() * inverse
        angle = torch.cat((angle, angle), -1)
        x = self.embed(token)
        cos, sin, out = angle.cos().to(x.dtype)[:, None], angle.sin().to(x.dtype)[:, None], []
        for i, layer in enumerate(self.layers):
            x, k, v = layer(x, cos, sin, caches[2 * i], caches[2 * i + 1], position[0])
            out += [k, v]
        return (self.head(self.norm(x)), *out)


def export(folder):
    import onnx, onnx_ir as ir
    with torch.device("meta"): m = Step().eval().to(bf16)
    m = m.to_empty(device="cpu")                              # memory that nothing touches
    kinds = [f"{i}.{w}" for i in range(LAYERS) for w in ("key", "value")]
    batch, past = torch.export.Dim("batch", min=1, max=256), torch.export.Dim("past", min=1, max=65536)
    args = (torch.zeros(1, 1, dtype=torch.int64), torch.full((1, 1), 7), *[torch.zeros(1, GROUPS, 7, D, dtype=bf16) for _ in kinds])
    p = torch.onnx.export(m, args, dynamo=True, input_names=["token", "position"] + ["past." + n for n in kinds], output_names=["logits"] + ["present." + n for n in kinds],
                          dynamic_shapes={"token": {0: batch}, "position": {0: batch}, "caches": tuple({0: batch, 2: past} for _ in kinds)}, opset_version=18, verbose=False)
    offset = 0
    for n, v in p.model.graph.initializers.items():
        t = v.const_value
        if t is None or t.nbytes < 4096: continue
        v.const_value = ir.ExternalTensor("weights.bin", offset, t.nbytes, t.dtype, shape=t.shape, name=n, base_dir=".")
        offset += t.nbytes
    os.makedirs(folder, exist_ok=True)
    onnx.save(ir.serde.serialize_model(p.model), f"{folder}/model.onnx")


def ours(tkc, folder, batch, keys):
    """us of the plan as one graph, and its launches."""
    args = [f"token=zeros:i64[{batch},1]", f"position=zeros:i64[{batch},1]"]
    args += [f"past.{i}.{w}=random:bf16[{batch},{GROUPS},{keys - 1},{D}]" for i in range(LAYERS) for w in ("key", "value")]
    r = subprocess.run([tkc, "run", f"{folder}/model.onnx", "--device=cuda", "--random-weights", "--donate", "--profile", *args], capture_output=True, text=True)
    if r.returncode: raise RuntimeError(r.stderr[-300:])
    launches = len(re.findall(r"^\d+  .* x \d+ ", r.stdout, re.M))
    return float(re.search(r"as one graph\s+([\d.]+)", r.stdout)[1]), launches


class Fixed(Layer):
    by_sdpa = False

    def attend(self, x, cos, sin, k0, v0, at):
        q, k, v = (heads(y) for y in self.qkv(x).split([HEADS * D, GROUPS * D, GROUPS * D], -1))
        q, k = turned(q, cos, sin), turned(k, cos, sin)
        k0.index_copy_(2, at, k), v0.index_copy_(2, at, v)
        seen = torch.arange(k0.shape[2], device=x.device) <= at
        if self.by_sdpa: return F.scaled_dot_product_attention(q, k0, v0, attn_mask=seen.expand(x.shape[0], 1, 1, -1), enable_gqa=True), k0, v0
        w = torch.matmul(q.view(x.shape[0], GROUPS, HEADS // GROUPS, D), k0.transpose(2, 3)) / math.sqrt(D)
        w = F.softmax(torch.where(seen, w, -65504.0), dim=-1, dtype=torch.float32).to(x.dtype)
        return torch.matmul(w, v0).view(x.shape[0], HEADS, 1, D), k0, v0


def peer():
    with torch.device("meta"): m = Step().to(bf16)
    m = m.to_empty(device="cuda").eval()
    for layer in m.layers:
        layer.__class__ = Fixed
        layer.qkv = nn.Linear(DIM, (HEADS + 2 * GROUPS) * D, bias=False, device="cuda", dtype=bf16)
        del layer.q, layer.k, layer.v
    for p in m.parameters(): nn.init.normal_(p, std=0.02)
    return m


def theirs(m, batch, keys, by_sdpa):
    torch._dynamo.reset()
    Fixed.by_sdpa = by_sdpa
    caches = [torch.randn(batch, GROUPS, keys, D, device="cuda", dtype=bf16) for _ in range(2 * LAYERS)]
    for c in caches: torch._dynamo.mark_static_address(c)
    token, position = torch.zeros(batch, 1, dtype=torch.int64, device="cuda"), torch.full((batch, 1), keys - 1, device="cuda")
    step, times = torch.compile(lambda t, p: m(t, p, *caches)[0], mode="reduce-overhead", fullgraph=True), []
    with torch.no_grad():
        for _ in range(4): step(token, position)
        for _ in range(20):
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record(); step(token, position); b.record(); torch.cuda.synchronize()
            times.append(a.elapsed_time(b) * 1e3)
    return min(times)


def main():
    o = dict(a.lstrip("-").partition("=")[::2] for a in sys.argv[1:])
    if "export" in o: return export(o["export"])
    folder = next((a for a in sys.argv[1:] if not a.startswith("-")), None)
    if not folder: sys.exit(__doc__)
    import turns
    print("#", turns.head())
    print(f"{'sequences x keys':18}{'tk us':>9}{'launches':>10}{'least':>9}{'written out':>13}{'sdpa':>9}{'tk / best':>11}")
    m = None if "no-peer" in o else peer()
    weights = 2 * (LAYERS * (DIM * (2 * HEADS + 2 * GROUPS) * D + 3 * DIM * HIDDEN) + DIM * VOCAB)
    for case in o.get("cases", "1x1024,1x4096,8x1024,8x4096,32x1024").split(","):
        batch, keys = (int(n) for n in case.split("x"))
        us, launches = ours(o.get("tkc", "build/tkc"), folder, batch, keys)
        least = (weights + 4 * LAYERS * batch * GROUPS * keys * D) / 4.8e6
        peers = [theirs(m, batch, keys, by) for by in (False, True)] if m else []
        print(f"{case:18}{us:9.1f}{launches:10}{least:9.1f}" + "".join(f"{t:{w}.1f}" for t, w in zip(peers, (13, 9))) + (f"{us / min(peers):11.2f}" if peers else ""), flush=True)


if __name__ == "__main__": main()
