# Layers of attention with rotary embeddings, as exporters write them, and what ONNX's reference computes: python make.py, with onnx.
#
#   halves      rotate_half by slices and a concatenation; grouped heads; angles from positions; symbolic batch and length
#   neighbours  rotate_every_two by strided slices and a stack; tables are inputs
#   pairs       heads as [.., D / 2, 2], both of a pair computed and stacked
#   operator    RotaryEmbedding, neighbours, half of each head turned, with positions
#   plain       RotaryEmbedding of halves of whole heads, on [B, S, H * D]
#   partial     a quarter of each head turned, by halves, the rest put behind it; biases
#   step        two positions more on top of caches, which come out longer: keys are stored turned
#   within      one product with queries, keys and values of each head side by side, a quarter turned
#   odd         8 of 20 columns turned: pairs do not fill a head, left to a kernel of its own
#   behind      values and heads that nothing turns before those that are turned, queries and keys by tables of their own
#   raw         queries come out unturned as well: left alone, too
import os

import numpy as np
import onnx
from onnx import helper as h, numpy_helper as nh, TensorProto as T
from onnx.reference import ReferenceEvaluator

rng = np.random.default_rng(0)
E = 32


class Layer:
    def __init__(self, name, heads, keys, D, opset=18):
        self.name, self.heads, self.keys, self.D, self.opset = name, heads, keys, D, opset
        self.nodes, self.init, self.inputs, self.outputs, self.data, self.count = [], [], [], [], {}, 0

    def const(self, a, name=None):
        self.count += 1
        name = name or f"c{self.count}"
        self.init.append(nh.from_array(np.asarray(a), name))
        return name

    def op(self, kind, *x, **attr):
        self.count += 1
        n = attr.pop("n", 1)
        out = [f"v{self.count}_{i}" for i in range(n)]
        self.nodes.append(h.make_node(kind, list(x), out, name=f"{kind.lower()}_{self.count}", **attr))
        return out if n > 1 else out[0]

    def given(self, name, shape, value):
        self.inputs.append(h.make_tensor_value_info(name, T.INT64 if value.dtype == np.int64 else T.FLOAT, shape))
        self.data[name] = value
        return name

    def result(self, x, name, shape):
        self.nodes.append(h.make_node("Identity", [x], [name], name="out_" + name))
        self.outputs.append(h.make_tensor_value_info(name, T.FLOAT, shape))

    def ints(self, *v): return self.const(np.array(v, np.int64))

    def linear(self, x, n, bias=False):
        w = self.const((rng.standard_normal((E, n)) * 0.3).astype(np.float32))
        y = self.op("MatMul", x, w)
        return self.op("Add", y, self.const(rng.standard_normal(n).astype(np.float32))) if bias else y

    def slice(self, x, start, end, axis=-1, step=1): return self.op("Slice", x, self.ints(start), self.ints(end), self.ints(axis), self.ints(step))

    def split(self, x, heads): return self.op("Transpose", self.op("Reshape", x, self.ints(0, 0, heads, self.D)), perm=[0, 2, 1, 3])

    def rotate_half(self, x, c):
        return self.op("Concat", self.op("Neg", self.slice(x, c, 2 * c)), self.slice(x, 0, c), axis=-1)

    def turned(self, x, rot, cos, sin): return self.op("Add", self.op("Mul", x, cos), self.op("Mul", rot, sin))

    def head_turned(self, x, n, cos, sin):                             # its first n columns, by halves; the rest behind them
        head = self.slice(x, 0, n)
        return self.op("Concat", self.turned(head, self.rotate_half(head, n // 2), cos, sin), self.slice(x, n, self.D), axis=-1)

    def attend(self, q, k, v):
        if self.heads != self.keys:
            group = self.heads // self.keys
            k, v = (self.op("Reshape", self.op("Expand", self.op("Unsqueeze", x, self.ints(2)), self.ints(1, 1, group, 1, 1)), self.ints(0, self.heads, -1, self.D)) for x in (k, v))
        s = self.op("Mul", self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2])), self.const(np.float32(self.D ** -0.5)))
        y = self.op("MatMul", self.op("Softmax", s, axis=-1), v)
        y = self.op("Reshape", self.op("Transpose", y, perm=[0, 2, 1, 3]), self.ints(0, 0, self.heads * self.D))
        w = self.const((rng.standard_normal((self.heads * self.D, E)) * 0.3).astype(np.float32))
        return self.op("MatMul", y, w)

    def save(self):
        g = h.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.init)
        m = h.make_model(g, opset_imports=[h.make_opsetid("", self.opset)], ir_version=9)
        onnx.checker.check_model(m)
        folder = self.name + "/test_data_set_0"
        os.makedirs(folder, exist_ok=True)
        onnx.save(m, self.name + "/model.onnx")
        for i, (name, a) in enumerate(self.data.items()): open(f"{folder}/input_{i}.pb", "wb").write(nh.from_array(a, name).SerializeToString())
        for i, a in enumerate(ReferenceEvaluator(m).run(None, self.data)):
            open(f"{folder}/output_{i}.pb", "wb").write(nh.from_array(np.asarray(a, np.float32), self.outputs[i].name).SerializeToString())


def angles(S, n, first=0):
    a = np.arange(first, first + S)[:, None] * 100.0 ** -(np.arange(n) / n)
    return np.cos(a).astype(np.float32), np.sin(a).astype(np.float32)


def doubled(*tables): return (np.concatenate([t, t], 1) for t in tables)


def activations(S, B=2): return rng.standard_normal((B, S, E)).astype(np.float32)


def halves():
    l = Layer("halves", 4, 2, 16)
    x = l.given("x", ["batch", "seq", E], activations(9))
    at = l.given("at", ["batch", "seq"], np.tile(np.arange(9), (2, 1)))
    q, k, v = l.split(l.linear(x, 64), 4), l.split(l.linear(x, 32), 2), l.split(l.linear(x, 32), 2)
    freq = l.const((100.0 ** -(np.arange(8) / 8)).astype(np.float32)[None, None, :])
    a = l.op("Mul", l.op("Unsqueeze", l.op("Cast", at, to=T.FLOAT), l.ints(2)), freq)
    a = l.op("Concat", a, a, axis=-1)
    cos, sin = (l.op("Unsqueeze", l.op(f, a), l.ints(1)) for f in ("Cos", "Sin"))
    q, k = (l.turned(z, l.rotate_half(z, 8), cos, sin) for z in (q, k))
    l.result(l.attend(q, k, v), "y", ["batch", "seq", E])
    l.save()


def neighbours():
    l = Layer("neighbours", 2, 2, 16)
    x = l.given("x", ["batch", "seq", E], activations(7))
    c, s = angles(7, 8)
    cos, sin = l.given("cos", ["seq", 16], np.repeat(c, 2, 1)), l.given("sin", ["seq", 16], np.repeat(s, 2, 1))
    q, k, v = (l.split(l.linear(x, 32), 2) for _ in range(3))

    def rotate(z):
        pair = [l.op("Unsqueeze", t, l.ints(-1)) for t in (l.op("Neg", l.slice(z, 1, 16, step=2)), l.slice(z, 0, 16, step=2))]
        return l.op("Reshape", l.op("Concat", *pair, axis=-1), l.ints(0, 0, -1, 16))
    q, k = (l.turned(z, rotate(z), cos, sin) for z in (q, k))
    l.result(l.attend(q, k, v), "y", ["batch", "seq", E])
    l.save()


def pairs():
    l = Layer("pairs", 4, 4, 8)
    x = l.given("x", [2, 6, E], activations(6))
    c, s = angles(6, 4)
    cos, sin = l.const(c[None, :, None, :]), l.const(s[None, :, None, :])

    def turn(z):
        z = l.op("Reshape", z, l.ints(2, 6, 4, 4, 2))
        a, b = (l.op("Squeeze", t, l.ints(-1)) for t in l.op("Split", z, axis=-1, num_outputs=2, n=2))
        re = l.op("Sub", l.op("Mul", a, cos), l.op("Mul", b, sin))
        im = l.op("Add", l.op("Mul", a, sin), l.op("Mul", b, cos))
        both = l.op("Concat", l.op("Unsqueeze", re, l.ints(-1)), l.op("Unsqueeze", im, l.ints(-1)), axis=-1)
        return l.op("Transpose", l.op("Reshape", both, l.ints(2, 6, 4, 8)), perm=[0, 2, 1, 3])
    q, k = turn(l.linear(x, 32)), turn(l.linear(x, 32))
    l.result(l.attend(q, k, l.split(l.linear(x, 32), 4)), "y", [2, 6, E])
    l.save()


def operator():
    l = Layer("operator", 2, 2, 16, 23)
    x = l.given("x", ["batch", "seq", E], activations(5))
    at = l.given("at", ["batch", "seq"], np.array([[3, 4, 5, 6, 7], [0, 1, 2, 3, 4]]))
    c, s = (l.const(t) for t in angles(16, 4))
    q, k, v = (l.split(l.linear(x, 32), 2) for _ in range(3))
    q, k = (l.op("RotaryEmbedding", z, c, s, at, interleaved=1, rotary_embedding_dim=8) for z in (q, k))
    l.result(l.attend(q, k, v), "y", ["batch", "seq", E])
    l.save()


def plain():
    l = Layer("plain", 4, 2, 16, 23)
    x = l.given("x", ["batch", "seq", E], activations(5))
    at = l.given("at", ["batch", "seq"], np.array([[3, 4, 5, 6, 7], [0, 1, 2, 3, 4]]))
    c, s = (l.const(t) for t in angles(16, 8))
    q, k, v = l.linear(x, 64), l.linear(x, 32), l.split(l.linear(x, 32), 2)
    q, k = (l.split(l.op("RotaryEmbedding", z, c, s, at, num_heads=n), n) for z, n in ((q, 4), (k, 2)))
    l.result(l.attend(q, k, v), "y", ["batch", "seq", E])
    l.save()


def partial():
    l = Layer("partial", 2, 2, 32)
    x = l.given("x", ["batch", "seq", E], activations(6))
    cos, sin = (l.given(n, ["seq", 8], t) for n, t in zip(("cos", "sin"), doubled(*angles(6, 4))))
    q, k, v = (l.split(l.linear(x, 64, bias=True), 2) for _ in range(3))
    q, k = (l.head_turned(z, 8, cos, sin) for z in (q, k))
    l.result(l.attend(q, k, v), "y", ["batch", "seq", E])
    l.save()


def step():
    l = Layer("step", 4, 2, 8)
    x = l.given("x", ["batch", "more", E], activations(2))
    past = [l.given(n, ["batch", 2, "past", 8], rng.standard_normal((2, 2, 5, 8)).astype(np.float32)) for n in ("past_k", "past_v")]
    cos, sin = (l.given(n, ["more", 8], t) for n, t in zip(("cos", "sin"), doubled(*angles(2, 4, 5))))
    q, k, v = l.split(l.linear(x, 32), 4), l.split(l.linear(x, 16), 2), l.split(l.linear(x, 16), 2)
    q, k = (l.turned(z, l.rotate_half(z, 4), cos, sin) for z in (q, k))
    k, v = (l.op("Concat", p, z, axis=2) for p, z in zip(past, (k, v)))
    l.result(l.attend(q, k, v), "y", ["batch", "more", E])
    l.result(k, "present_k", ["batch", 2, "total", 8])
    l.result(v, "present_v", ["batch", 2, "total", 8])
    l.save()


def within():
    l = Layer("within", 3, 3, 16)
    x = l.given("x", ["batch", "seq", E], activations(6))
    cos, sin = (l.given(n, ["seq", 4], t) for n, t in zip(("cos", "sin"), doubled(*angles(6, 2))))
    qkv = l.op("Reshape", l.linear(x, 144, bias=True), l.ints(0, 0, 3, 48))
    q, k, v = (l.op("Transpose", l.slice(qkv, i * 16, i * 16 + 16), perm=[0, 2, 1, 3]) for i in range(3))
    q, k = (l.head_turned(z, 4, cos, sin) for z in (q, k))
    l.result(l.attend(q, k, v), "y", ["batch", "seq", E])
    l.save()


def odd():
    l = Layer("odd", 2, 2, 20)
    x = l.given("x", [2, 6, E], activations(6))
    cos, sin = (l.const(t) for t in doubled(*angles(6, 4)))
    q, k, v = (l.split(l.linear(x, 40), 2) for _ in range(3))
    q, k = (l.head_turned(z, 8, cos, sin) for z in (q, k))
    l.result(l.attend(q, k, v), "y", [2, 6, E])
    l.save()


def raw():
    l = Layer("raw", 2, 2, 16)
    x = l.given("x", [2, 6, E], activations(6))
    cos, sin = (l.const(t) for t in doubled(*angles(6, 8)))
    q, k, v = (l.split(l.linear(x, 32), 2) for _ in range(3))
    l.result(q, "queries", [2, 2, 6, 16])
    q, k = (l.turned(z, l.rotate_half(z, 8), cos, sin) for z in (q, k))
    l.result(l.attend(q, k, v), "y", [2, 6, E])
    l.save()


def behind():
    l = Layer("behind", 2, 2, 16)
    x = l.given("x", [2, 6, E], activations(6))
    plain = [l.split(l.linear(x, 32), 2) for _ in range(3)]                          # keys, values, queries as they are
    q, k = (l.split(l.linear(x, 32), 2) for _ in range(2))
    turned = []
    for z, first in ((q, 0), (k, 3)):
        cos, sin = (l.const(t) for t in doubled(*angles(6, 8, first)))
        turned.append(l.turned(z, l.rotate_half(z, 8), cos, sin))
    l.result(l.attend(plain[2], plain[0], plain[1]), "plain", [2, 6, E])
    l.result(l.attend(*turned, plain[1]), "y", [2, 6, E])
    l.save()


for make in (halves, neighbours, pairs, operator, plain, partial, step, odd, raw, within, behind): make()
