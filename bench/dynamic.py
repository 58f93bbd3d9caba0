"""A model as onnxruntime's quantize_dynamic leaves it, beside the same one in bf16: layers of BERT-base whose products with weights are DynamicQuantizeLinear and
MatMulInteger with weights in i8, while attention's products stay as they were.

The files are written here, without a package for ONNX, with random weights. Each is run by `tkc run --profile` (the least of 20 replays as one graph, caches warm) once
its result has been compared with the same arithmetic in PyTorch. Peers are torch.compile with CUDA graphs, timed alike: the layers in bf16, and the same
quantisation around torch._int_mm (whose bytes are signed, so that zero points are taken off by sums of columns).

    python3 bench/dynamic.py [--tkc=build/tkc] [--layers=4] [--batch=1,8] [--no-peer]
    python3 bench/dynamic.py --small                                        small sizes on the emulator, checked alone
"""
import ast, ctypes, math, os, struct, subprocess, sys, tempfile
import torch
import torch.nn.functional as F
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import models, turns

bf, f32 = torch.bfloat16, torch.float32
CODES = {torch.float32: 1, torch.uint8: 2, torch.int8: 3, torch.int64: 7}


# ---- files: ONNX's protobuf, as much as is needed --------------------------------------------------------

def varint(n):
    out = b""
    while n > 127: out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, v):
    if isinstance(v, int): return varint(number << 3) + varint(v)
    if isinstance(v, float): return varint(number << 3 | 5) + struct.pack("<f", v)
    v = v.encode() if isinstance(v, str) else v
    return varint(number << 3 | 2) + varint(len(v)) + v


def raw(t):
    t = t.detach().cpu().contiguous()
    return ctypes.string_at(t.data_ptr(), t.nbytes)


def attribute(name, v):
    if isinstance(v, float): return field(1, name) + field(2, v) + field(20, 1)
    if isinstance(v, int): return field(1, name) + field(3, v & (1 << 64) - 1) + field(20, 2)
    return field(1, name) + b"".join(field(8, i) for i in v) + field(20, 7)


def value(name, dims):
    shape = b"".join(field(1, field(1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, shape)))


class File:
    """The layers as a graph; `quantised`: as quantize_dynamic leaves them."""
    def __init__(self, quantised): self.quantised, self.nodes, self.tensors, self.count, self.bytes_of = quantised, [], {}, 0, {}

    def node(self, op, inputs, many=1, **attributes):
        outputs = [f"{op}_{self.count}_{i}" for i in range(many)]
        self.count += 1
        self.nodes.append(b"".join(field(1, i) for i in inputs) + b"".join(field(2, x) for x in outputs) + field(4, op) +
                          b"".join(field(5, attribute(k, v)) for k, v in attributes.items()))
        return outputs[0] if many == 1 else outputs

    def tensor(self, t):
        name = f"w{len(self.tensors)}"
        self.tensors[name] = t
        return name

    def dense(self, x, w, b):
        """x @ w + b, w [K, N]."""
        if not self.quantised: return self.node("Add", [self.tensor(b), self.node("MatMul", [x, self.tensor(w)])])
        if x not in self.bytes_of: self.bytes_of[x] = self.node("DynamicQuantizeLinear", [x], 3)
        (q, scale, zero), (wq, ws) = self.bytes_of[x], weight_bytes(w)
        both = self.node("Mul", [scale, self.tensor(ws)])
        total = self.node("MatMulInteger", [q, self.tensor(wq), zero, self.tensor(torch.zeros((), dtype=torch.int8))])
        return self.node("Add", [self.tensor(b), self.node("Mul", [self.node("Cast", [total], to=1), both])])

    def heads(self, x, net): return self.node("Transpose", [self.node("Reshape", [x, self.tensor(torch.tensor([0, 0, net.heads, net.d // net.heads]))])], perm=[0, 2, 1, 3])

    def norm(self, x, g, b): return self.node("LayerNormalization", [x, self.tensor(g), self.tensor(b)], axis=-1, epsilon=1e-12)

    def layer(self, x, p, net):
        q, k, v = [self.heads(self.dense(x, *p[n]), net) for n in "qkv"]
        s = self.node("Div", [self.node("MatMul", [q, self.node("Transpose", [k], perm=[0, 1, 3, 2])]), self.tensor(torch.tensor(math.sqrt(net.d // net.heads)))])
        a = self.node("Transpose", [self.node("MatMul", [self.node("Softmax", [s], axis=-1), v])], perm=[0, 2, 1, 3])
        x = self.norm(self.node("Add", [self.dense(self.node("Reshape", [a, self.tensor(torch.tensor([0, 0, net.d]))]), *p["o"]), x]), *p["n1"])
        h = self.dense(x, *p["f"])
        e = self.node("Add", [self.node("Erf", [self.node("Div", [h, self.tensor(torch.tensor(math.sqrt(2)))])]), self.tensor(torch.tensor(1.0))])
        g = self.node("Mul", [self.node("Mul", [h, e]), self.tensor(torch.tensor(0.5))])
        return self.norm(self.node("Add", [self.dense(g, *p["g"]), x]), *p["n2"])

    def write(self, path, net, b, s):
        x = "x"
        for p in net.layers: x = self.layer(x, p, net)
        self.nodes.append(field(1, x) + field(2, "y") + field(4, "Identity"))
        with open(path, "wb") as f:
            graph = [field(1, n) for n in self.nodes] + [field(2, "layers"), field(11, value("x", (b, s, net.d))), field(12, value("y", (b, s, net.d)))]
            graph += [field(5, b"".join(field(1, d) for d in t.shape) + field(2, CODES[t.dtype]) + field(8, name) + field(9, raw(t))) for name, t in self.tensors.items()]
            f.write(field(1, 8) + field(7, b"".join(graph)) + field(8, field(2, 17)))


def loaded(path):
    data = open(path, "rb").read()
    size = struct.unpack("<H", data[8:10])[0]
    head = ast.literal_eval(data[10:10 + size].decode())
    t = torch.frombuffer(bytearray(data[10 + size:]), dtype={"<f4": f32, "<u2": bf}[head["descr"]])
    return t.view(head["shape"])


def saved(path, t):
    head = repr(dict(descr="<f4", fortran_order=False, shape=tuple(t.shape))).encode()
    head += b" " * (-(len(head) + 11) % 64) + b"\n"
    open(path, "wb").write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head + raw(t))


# ---- the same in PyTorch ----------------------------------------------------------------------------

def weight_bytes(w):
    s = w.abs().max() / 127
    return torch.round(w / s).clamp(-128, 127).to(torch.int8), s


def quantised(x):
    """DynamicQuantizeLinear: bytes less 128, their scale and the zero point less 128."""
    lo, hi = x.amin().float().clamp(max=0), x.amax().float().clamp(min=0)
    s = (hi - lo) / 255
    z = torch.round(-lo / s).clamp(0, 255)
    return (torch.round(x.float() / s) + z).clamp(0, 255) - 128, s, z - 128


class Net(torch.nn.Module):
    """`form`: "plain", "bytes" (torch._int_mm), or "exact", which sums the same bytes in f64."""
    def __init__(self, layers, d, ffn, heads):
        super().__init__()
        self.d, self.heads, self.form = d, heads, "plain"
        def dense(k, n): return torch.randn(k, n) / math.sqrt(k), torch.randn(n) * 0.1
        self.layers = [dict(q=dense(d, d), k=dense(d, d), v=dense(d, d), o=dense(d, d), f=dense(d, ffn), g=dense(ffn, d), n1=(1 + torch.randn(d) * 0.1, torch.randn(d) * 0.1),
                            n2=(1 + torch.randn(d) * 0.1, torch.randn(d) * 0.1)) for _ in range(layers)]

    def placed(self, device, dtype, form):
        net = Net(0, self.d, 0, self.heads)
        net.form = form
        def weights(n, w, b):
            if form == "plain" or n in ("n1", "n2"): return w.to(device, dtype), b.to(device, dtype)
            q, s = weight_bytes(w)
            q = q.to(device)
            return (q if form == "exact" else q.t().contiguous().t()), b.to(device, dtype), s.to(device), q.int().sum(0)
        net.layers = [{n: weights(n, *p) for n, p in layer.items()} for layer in self.layers]
        return net

    def dense(self, x, w, b, scale=None, sums=None):
        if scale is None: return F.linear(x, w.t(), b)
        flat = x.reshape(-1, x.shape[-1])
        q, s, z = quantised(flat)
        total = (q.double() @ w.double()) if self.form == "exact" else torch._int_mm(q.to(torch.int8), w)
        y = (total - z * sums) * (s * scale)
        return (y + b).to(x.dtype).view(*x.shape[:-1], -1)

    def forward(self, x):
        n, s, d = x.shape
        for p in self.layers:
            q, k, v = [self.dense(x, *p[i]).view(n, s, self.heads, -1).transpose(1, 2) for i in "qkv"]
            a = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, s, d)
            x = F.layer_norm(self.dense(a, *p["o"]) + x, (d,), *p["n1"], 1e-12)
            x = F.layer_norm(self.dense(F.gelu(self.dense(x, *p["f"])), *p["g"]) + x, (d,), *p["n2"], 1e-12)
        return x


# ---- runs ------------------------------------------------------------------------------------------

def error(got, want): return ((got.double().cpu() - want.double().cpu()).norm() / want.double().cpu().norm()).item()


def ours(tkc, path, folder, dtype, small):
    out = f"{folder}/y.npy"
    words = [tkc, "run", path, "--device=" + ("emu" if small else "cuda"), f"y={out}"] + ([] if small else ["--profile"])
    words += [f"x={folder}/x.npy"] + (["--dtype=bf16", "--dtype-io"] if dtype == bf else [])
    r = subprocess.run(words, capture_output=True, text=True)
    if r.returncode: raise RuntimeError(r.stderr.strip()[:300])
    return *models.profile(r.stdout), loaded(out)


def theirs(net, x):
    with torch.no_grad():
        torch._dynamo.reset()
        c = torch.compile(net, mode="reduce-overhead", dynamic=False)
        for _ in range(5): y = c(x)
        torch.cuda.synchronize()
        y, times = y.clone(), []
        for _ in range(20):
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record(); c(x); b.record(); torch.cuda.synchronize()
            times.append(a.elapsed_time(b) * 1e3)
    return min(times), y


def row(label, us, off, bound, more=""):
    said = f"wrong: relative error above {bound:.0e}" if not off <= bound else f"{us:9.1f} us{more}" if us else "right"
    print(f"    {label:44} {off:.0e}  {said}", flush=True)


def one(tkc, net, b, s, small, peer):
    device = "cpu" if small else "cuda"
    x = torch.randn(b, s, net.d)
    print(f"{len(net.layers)} layers of {net.d}, {b} x {s} tokens", flush=True)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        saved(f"{folder}/x.npy", x)
        want = {form: net.placed(device, f32, form)(x.to(device)) for form in ("plain", "exact")}
        print(f"    what bytes cost: {error(want['exact'], want['plain']):.0e} of the result in f32")
        for name, q in ("plain", False), ("exact", True):
            File(q).write(f"{folder}/{name}.onnx", net, b, s)
            for dtype in (bf, f32) if q else (bf,):
                label = f"tk, {'quantised, the rest in ' if q else ''}{'bf16' if dtype == bf else 'f32'}"
                try:
                    us, launches, _, y = ours(tkc, f"{folder}/{name}.onnx", folder, dtype, small)
                    row(label, us, error(y, want[name]), 3e-2 if dtype == bf else 1e-2, f"  {launches} launches")
                except Exception as e: print(f"    {label:44} failed: {str(e)[:200]}", flush=True)
        for label, form, dtype in ("torch.compile, bf16", "plain", bf), ("torch.compile, _int_mm, the rest in bf16", "bytes", bf):
            if not peer: continue
            try:
                mine = net.placed(device, dtype, form)
                us, y = (0, mine(x.to(device, dtype))) if small else theirs(mine, x.to(device, dtype))
                row(label, us, error(y, want["plain" if form == "plain" else "exact"]), 3e-2)
            except Exception as e: print(f"    {label:44} failed: {repr(e)[:200]}", flush=True)


def main():
    tkc, layers, batches, small, peer = os.environ.get("TKC", "build/tkc"), 4, [1, 8], False, True
    for a in sys.argv[1:]:
        k, _, v = a.partition("=")
        if k == "--tkc": tkc = v
        elif k == "--layers": layers = int(v)
        elif k == "--batch": batches = [int(i) for i in v.split(",")]
        elif k == "--small": small = True
        elif k == "--no-peer": peer = False
        else: sys.exit(__doc__)
    torch.manual_seed(0)
    print("# small sizes, checked alone" if small else "# " + turns.head())
    if small: return one(tkc, Net(2, 64, 160, 4), 2, 20, True, peer)
    net = Net(layers, 768, 3072, 12)
    for b in batches: one(tkc, net, b, 512, False, peer)


if __name__ == "__main__": main()
