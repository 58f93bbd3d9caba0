"""Two builds of the library beside each other on one GPU, in turns: the products, convolutions and attention of f32.

    python3 bench/versions.py OLD/libtkc.so NEW/libtkc.so [--match TEXT] [--rounds 9] [--json FILE]

Nothing but Python and the two libraries is needed. A row says the microseconds of each build (medians of rounds, each of which times both),
old / new with half of its spread, and how many elements of the results differ. Data are random, with a sign and one exponent in 64.
"""
import argparse, array, ctypes, json, math, os, random, statistics, sys
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int64, c_size_t, c_void_p

STD = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lang", "std")
EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples")
F32, DEVICE, TENSOR, INT, FLOAT = 14, 1, 0, 1, 2


class Tensor(ctypes.Structure):                    # tkc_tensor of runtime/tkc.h
    _fields_ = [("data", c_void_p), ("memory", c_int), ("dtype", c_int), ("rank", c_int), ("dims", c_int64 * 8), ("strides", POINTER(c_int64))]


class Arg(ctypes.Structure):                       # tkc_arg
    _fields_ = [("name", c_char_p), ("kind", c_int), ("tensor", Tensor), ("i", c_int64), ("f", c_double)]


class Value(ctypes.Structure):                     # tkc_value
    _fields_ = [("name", c_char_p), ("value", c_char_p)]


def noise(n, seed):
    """n numbers of f32 as bytes: a block of a million, over and over."""
    r = random.Random(seed)
    block = array.array("f", [r.gauss(0, 1) for _ in range(min(n, 1 << 18))]).tobytes()
    return (block * (4 * n // len(block) + 1))[:4 * n]


class Build:
    def __init__(self, path):
        self.so, self.ctx = ctypes.CDLL(path, mode=os.RTLD_LOCAL | os.RTLD_NOW), c_void_p()
        self.so.tkc_error.restype = c_char_p
        self.so.tkc_alloc.argtypes = [c_void_p, c_size_t, POINTER(c_void_p)]
        self.so.tkc_write.argtypes = self.so.tkc_read.argtypes = [c_void_p, c_void_p, c_void_p, c_size_t]
        self.so.tkc_free.argtypes = [c_void_p, c_void_p]
        self.so.tkc_time.argtypes = [c_void_p, c_int, POINTER(c_double)]
        self.call("tkc_open", os.environ.get("TKC_DEVICE", "cuda").encode(), None, byref(self.ctx))

    def call(self, name, *args):
        if getattr(self.so, name)(*args): raise RuntimeError(self.so.tkc_error().decode())

    def prepare(self, case):
        self.made, self.prog, self.launch, args = {}, c_void_p(), c_void_p(), []
        for i, (name, shape) in enumerate(case["tensors"].items()):
            n, at = math.prod(shape), c_void_p()
            self.call("tkc_alloc", self.ctx, 4 * n, byref(at))
            self.call("tkc_write", self.ctx, at, noise(n, i), 4 * n)
            self.made[name] = (at, n)
            args.append(Arg(name.encode(), TENSOR, Tensor(at, DEVICE, F32, len(shape), (c_int64 * 8)(*shape), None)))
        for name, v in case.get("numbers", {}).items():
            args.append(Arg(name.encode(), FLOAT, f=v) if isinstance(v, float) else Arg(name.encode(), INT, i=v))
        values = [Value(k.encode(), v.encode()) for k, v in case.get("values", {}).items()]
        self.call("tkc_load_file", self.ctx, case["file"].encode(), byref(self.prog))
        self.call("tkc_prepare", self.prog, case["kernel"].encode(), (Value * len(values))(*values), len(values), (Arg * len(args))(*args), len(args), byref(self.launch))

    def time(self, runs):
        us = c_double()
        self.call("tkc_time", self.launch, runs, byref(us))
        return us.value

    def result(self, name):
        at, n = self.made[name]
        to = ctypes.create_string_buffer(4 * n)
        self.call("tkc_read", self.ctx, to, at, 4 * n)
        return array.array("I", to.raw)

    def release(self):
        self.so.tkc_launch_free(self.launch)
        self.so.tkc_unload(self.prog)
        for at, _ in self.made.values(): self.so.tkc_free(self.ctx, at)


def product(m, n, k, file="matmul.tk", kernel="gemm", a=None, b=None, folder=STD):
    return dict(name=f"{kernel} {m} x {n} x {k}", flops=2 * m * n * k, file=os.path.join(folder, file), kernel=kernel, out="c",
                tensors=dict(a=a or (m, k), b=b or (k, n), c=(m, n)))


def convolution(n, h, c, k, r, s):
    p = (h + 2 * (r // 2) - r) // s + 1
    return dict(name=f"convolution {n} x {h} x {h} x {c} -> {k}, {r} x {r} / {s}", flops=2 * n * p * p * k * c * r * r, file=os.path.join(STD, "conv.tk"),
                kernel="conv2d_bias", out="y", tensors=dict(x=(n, h, h, c), w=(k, r, r, c), bias=(k,), y=(n, p, p, k)),
                numbers=dict(sh=s, sw=s, top=r // 2, left=r // 2, bottom=r // 2, right=r // 2, dh=1, dw=1))


def attention(b, h, s, d, causal):
    return dict(name=f"attention {b} x {h} heads, {s} x {d}{', causal' if causal else ''}", flops=4 * b * h * s * s * d // (2 if causal else 1),
                file=os.path.join(STD, "attention.tk"), kernel="attention", out="o", tensors={t: (b, h, s, d) for t in "qkvo"},
                numbers=dict(scale=d ** -0.5), values=dict(CAUSAL="true") if causal else {})


def cases(small):
    if small: return [product(64, 128, 64), convolution(1, 7, 32, 32, 3, 1), attention(1, 1, 64, 64, False)]
    made = [product(n, n, n) for n in (1024, 2048, 4096, 8192)] + [product(4096, 4096, 4096, kernel="gemm_nt", b=(4096, 4096)),
            product(4096, 4096, 4096, kernel="gemm_tn"), product(4096, 4096, 4096, kernel="gemm_tf32"), product(8192, 8192, 8192, kernel="gemm_tf32"),
            product(4096, 4096, 128), product(16384, 256, 256), product(512, 512, 8192), product(4000, 4100, 1000),
            product(4096, 4096, 4096, "matmul_f32.tk", "matmul_f32", folder=EXAMPLES)]
    made += [convolution(32, *x) for x in ((56, 64, 64, 3, 1), (28, 128, 128, 3, 1), (14, 256, 256, 3, 1), (56, 256, 64, 1, 1), (7, 512, 2048, 1, 1))]
    return made + [attention(4, 16, 2048, d, causal) for d in (64, 128) for causal in (False, True)]


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("--match", default="")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--runs", type=int, default=20, help="of a measurement")
    p.add_argument("--small", action="store_true", help="sizes that an emulator runs (TKC_DEVICE=emu)")
    p.add_argument("--json")
    o = p.parse_args()
    builds, rows = [Build(o.old), Build(o.new)], []
    print(f"{'':52} {'old us':>9} {'new us':>9} {'TFLOP/s':>8}  old / new           elements that differ")
    for case in cases(o.small):
        if o.match not in case["name"]: continue
        try:
            for b in builds: b.prepare(case); b.time(3)
            us = [[], []]
            for r in range(1 if o.small else o.rounds):
                for i in ((0, 1) if r % 2 else (1, 0)): us[i].append(builds[i].time(1 if o.small else o.runs))
            got = [b.result(case["out"]) for b in builds]
        except RuntimeError as e:
            print(f"{case['name']:52} {str(e)[:120]}", flush=True)
            continue
        differ = 0 if got[0] == got[1] else sum(x != y for x, y in zip(*got))
        ratios = [x / y for x, y in zip(*us)]
        old, new = map(statistics.median, us)
        print(f"{case['name']:52} {old:9.1f} {new:9.1f} {case['flops'] / new / 1e6:8.1f}  {statistics.median(ratios):.3f} +- {(max(ratios) - min(ratios)) / 2:.3f}"
              f"     {differ}", flush=True)
        rows.append(dict(name=case["name"], us=us, differ=differ))
        for b in builds: b.release()
    if rows: print(f"geometric mean of old / new: {math.exp(statistics.fmean(math.log(statistics.median(r['us'][0]) / statistics.median(r['us'][1])) for r in rows)):.4f}")
    if o.json: json.dump(rows, open(o.json, "w"), indent=1)


if __name__ == "__main__": main()
