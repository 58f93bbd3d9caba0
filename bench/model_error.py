"""The error of models in bf16: tkc --dtype=bf16 and PyTorch, both against what was recorded in f32.

PyTorch evaluates the ONNX graph node by node with every float tensor in bf16, as model.to(torch.bfloat16) would: its own layer_norm,
softmax, gelu, conv2d on bf16, constants in bf16 too. The error of an output is max|y - r| / max|r|.

    python3 bench/model_error.py [--tkc=build/tkc] [--device=cuda] FOLDER...          folders as for tkc check-onnx
"""
import glob, os, subprocess, sys, tempfile
import numpy as np, onnx, torch
from onnx import numpy_helper

F = torch.nn.functional
BF = torch.bfloat16


def attrs(n): return {a.name: onnx.helper.get_attribute_value(a) for a in n.attribute}


def torched(a, dev):
    t = torch.from_numpy(np.array(a)).to(dev)
    return t.to(BF) if t.is_floating_point() else t


def ints(t): return [int(v) for v in t.flatten().tolist()]


def reshape(x, shape):
    s = ints(shape)
    return x.reshape([x.shape[i] if v == 0 else v for i, v in enumerate(s)])


def sliced(x, starts, ends, axes=None, steps=None):
    axes = ints(axes) if axes is not None else list(range(len(ints(starts))))
    steps = ints(steps) if steps is not None else [1] * len(axes)
    at = [slice(None)] * x.dim()
    for a, s, e, k in zip(axes, ints(starts), ints(ends), steps): at[a] = slice(s, min(e, x.shape[a]) if e >= 0 else e, k)
    return x[tuple(at)]


def conv(a, x, w, b=None):
    p = a.get("pads", [0, 0, 0, 0]); assert list(p[:2]) == list(p[2:])
    return F.conv2d(x, w, b, a.get("strides", 1), p[:2], a.get("dilations", 1), a.get("group", 1))


def gemm(a, x, w, c=None):
    y = (x.t() if a.get("transA") else x) @ (w.t() if a.get("transB") else w) * a.get("alpha", 1.0)
    return y if c is None else y + c * a.get("beta", 1.0)


def mean(a, x, axes=None):
    axes = ints(axes) if axes is not None else list(a["axes"])
    return x.mean(axes, keepdim=bool(a.get("keepdims", 1)))


def gather_nd(x, i):
    return x[tuple(i[..., k] for k in range(i.shape[-1]))]


def resize(a, x, *sizes):
    size = ints(sizes[-1]) if len(sizes) == 3 else None
    hw = size[2:] if size else [int(d * float(s)) for d, s in zip(x.shape[2:], sizes[1].tolist()[2:])]
    mode = a.get("mode", b"nearest").decode()
    if mode == "nearest": return F.interpolate(x, hw, mode="nearest")
    return F.interpolate(x, hw, mode="bilinear", align_corners=a.get("coordinate_transformation_mode", b"").decode() == "align_corners")


DTYPES = {1: BF, 6: torch.int32, 7: torch.int64, 9: torch.bool, 10: BF, 11: torch.float64, 16: BF}
OPS = {
    "Add": lambda a, x, y: x + y, "Sub": lambda a, x, y: x - y, "Mul": lambda a, x, y: x * y, "Div": lambda a, x, y: x / y,
    "Pow": lambda a, x, y: x ** y, "Neg": lambda a, x: -x, "Sqrt": lambda a, x: x.sqrt(), "Reciprocal": lambda a, x: 1 / x,
    "Tanh": lambda a, x: x.tanh(), "Sigmoid": lambda a, x: x.sigmoid(), "Relu": lambda a, x: x.relu(), "Erf": lambda a, x: x.erf(),
    "Cos": lambda a, x: x.cos(), "Sin": lambda a, x: x.sin(), "Exp": lambda a, x: x.exp(), "Identity": lambda a, x: x,
    "HardSwish": lambda a, x: F.hardswish(x), "HardSigmoid": lambda a, x: F.hardsigmoid(x),
    "Gelu": lambda a, x: F.gelu(x, approximate=a.get("approximate", b"none").decode()),
    "IsNaN": lambda a, x: x.isnan(), "And": lambda a, x, y: x & y, "Or": lambda a, x, y: x | y, "Not": lambda a, x: ~x,
    "Equal": lambda a, x, y: x == y, "LessOrEqual": lambda a, x, y: x <= y, "Less": lambda a, x, y: x < y,
    "Greater": lambda a, x, y: x > y, "GreaterOrEqual": lambda a, x, y: x >= y,
    "Where": lambda a, c, x, y: torch.where(c, x, y), "Cast": lambda a, x: x.to(DTYPES[a["to"]]),
    "MatMul": lambda a, x, y: x @ y, "Gemm": gemm, "Conv": conv, "Softmax": lambda a, x: x.softmax(a.get("axis", -1)),
    "LayerNormalization": lambda a, x, w, b=None: F.layer_norm(x, x.shape[a.get("axis", -1):], w, b, a.get("epsilon", 1e-5)),
    "InstanceNormalization": lambda a, x, w, b: F.instance_norm(x, weight=w, bias=b, eps=a.get("epsilon", 1e-5)),
    "ReduceMean": mean, "Transpose": lambda a, x: x.permute(a["perm"]), "Reshape": lambda a, x, s: reshape(x, s),
    "Concat": lambda a, *x: torch.cat(x, a["axis"]), "Slice": lambda a, *x: sliced(*x),
    "Gather": lambda a, x, i: torch.index_select(x, a.get("axis", 0), i.flatten()).reshape(
        x.shape[:a.get("axis", 0)] + i.shape + x.shape[a.get("axis", 0) + 1:] if a.get("axis", 0) >= 0 else None),
    "GatherElements": lambda a, x, i: x.gather(a.get("axis", 0), i), "GatherND": lambda a, x, i: gather_nd(x, i),
    "Expand": lambda a, x, s: x.expand(torch.broadcast_shapes(x.shape, ints(s))), "Shape": lambda a, x: torch.tensor(x.shape)[a.get("start", 0):a.get("end", None)],
    "Unsqueeze": lambda a, x, s: reduce_axes(x, ints(s)), "Squeeze": lambda a, x, *s: x.squeeze(ints(s[0])) if s else x.squeeze(),
    "Resize": resize, "Split": lambda a, x, *s: x.split(ints(s[0]) if s else x.shape[a.get("axis", 0)] // a["num_outputs"], a.get("axis", 0)),
    "Range": lambda a, s, e, d: torch.arange(s.item(), e.item(), d.item()), "ConstantOfShape": lambda a, s: torched(np.full(ints(s), numpy_helper.to_array(a["value"])[0] if "value" in a else np.float32(0)), "cpu"),
}


def reduce_axes(x, axes):
    rank = x.dim() + len(axes)
    for k in sorted(v % rank for v in axes): x = x.unsqueeze(k)
    return x


def evaluate(model, inputs, dev):
    v = {i.name: torched(numpy_helper.to_array(i), dev) for i in model.graph.initializer}
    v.update({k: torched(a, dev) for k, a in inputs.items()})
    for n in model.graph.node:
        if n.op_type == "Constant":
            v[n.output[0]] = torched(numpy_helper.to_array(attrs(n)["value"]), dev)
            continue
        x = [v[i] if i else None for i in n.input]
        host = {t.device.type for t in x if t is not None}
        if len(host) > 1: x = [t.to(dev) if t is not None and n.op_type not in ("Reshape", "Slice", "Expand", "Unsqueeze") else t for t in x]
        y = OPS[n.op_type](attrs(n), *x)
        for name, t in zip(n.output, y if isinstance(y, (tuple, list)) else (y,)): v[name] = t
    return [v[o.name].float().cpu().numpy() for o in model.graph.output]


def pb(path):
    t = onnx.TensorProto(); t.ParseFromString(open(path, "rb").read())
    return numpy_helper.to_array(t)


def numbered(folder, kind): return sorted(glob.glob(f"{folder}/{kind}_*.pb"), key=lambda p: int(p.split("_")[-1][:-3]))


def main():
    tkc, device, folders = "build/tkc", "cuda", []
    for a in sys.argv[1:]:
        if a.startswith("--tkc="): tkc = a[6:]
        elif a.startswith("--device="): device = a[9:]
        else: folders.append(a)
    dev = "cuda" if torch.cuda.is_available() else "cpu"
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    print(f"# max|y - r| / max|r| against the data recorded in f32; PyTorch {torch.__version__} on {dev}, tkc on {device}")
    print(f"{'model':14s} {'set':>4s} {'output':24s} {'tkc bf16':>10s} {'PyTorch bf16':>13s} {'ratio':>6s}")
    worst = 0
    for folder in folders:
        model = onnx.load(f"{folder}/model.onnx")
        given = [i for i in model.graph.input if i.name not in {w.name for w in model.graph.initializer}]
        for s in sorted(glob.glob(f"{folder}/test_data_set_*")):
            paths = numbered(s, "input")
            peer = evaluate(model, {i.name: pb(p) for i, p in zip(given, paths)}, dev)
            with tempfile.TemporaryDirectory() as out:
                names = [o.name for o in model.graph.output]
                args = [f"{i.name}={p}" for i, p in zip(given, paths)] + [f"{n}={out}/{k}.npy" for k, n in enumerate(names)]
                subprocess.run([tkc, "run", f"{folder}/model.onnx", f"--device={device}", "--dtype=bf16", *args], check=True, stdout=subprocess.DEVNULL)
                ours = [np.load(f"{out}/{k}.npy") for k in range(len(names))]
            for name, y, p, r in zip(names, ours, peer, [pb(q) for q in numbered(s, "output")]):
                top = np.abs(r).max() or 1
                e, f = np.abs(y - r).max() / top, np.abs(p - r).max() / top
                worst = max(worst, e / f if f else 0)
                print(f"{os.path.basename(folder):14s} {s[-1]:>4s} {name[:24]:24s} {e:10.2e} {f:13.2e} {e / f if f else 0:6.2f}", flush=True)
    print(f"# the largest ratio is {worst:.2f}")


main()
