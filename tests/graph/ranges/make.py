#!/usr/bin/env python3
"""Random models with factors around products: python3 make.py [FIRST COUNT FOLDER]

pip install onnx numpy. Values that only a factor brings into range, as the model has it: products of a size that f16 does not hold (or
loses) and a scale behind them, by Mul, Div, two of them, after a bias, on one side of a product or both, by channel; sums of such
products' rows and columns. f16/: to be read as --dtype=f16; f32/: at the ends of f32. Expected values are computed in f64.
"""
import os
import shutil
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))


def evaluate(nodes, values):
    """All values in f64, and the greatest that is an operand of a product."""
    v, most = {k: x.astype("f8") if x.dtype.kind == "f" else x for k, x in values.items()}, 0
    for node in nodes:
        a = {t.name: helper.get_attribute_value(t) for t in node.attribute}
        x = [v[i] for i in node.input]
        if node.op_type == "MatMul":
            most = max([most] + [np.abs(t).max() for t in x])
        if node.op_type == "Split":
            v.update(zip(node.output, np.split(x[0], len(node.output), axis=a["axis"])))
            continue
        v[node.output[0]] = {
            "MatMul": lambda: x[0] @ x[1], "Add": lambda: x[0] + x[1], "Sub": lambda: x[0] - x[1], "Mul": lambda: x[0] * x[1],
            "Div": lambda: x[0] / x[1], "Transpose": lambda: x[0].transpose(a["perm"]), "Reshape": lambda: x[0].reshape(x[1]),
            "Softmax": lambda: (lambda e: e / e.sum(-1, keepdims=True))(np.exp(x[0] - x[0].max(-1, keepdims=True))),
            "ReduceSum": lambda: x[0].sum(tuple(x[1])), "ReduceMean": lambda: x[0].mean(tuple(a["axes"]))}[node.op_type]()
    return v, most


class Model:
    def __init__(self, seed, f16):
        r = self.r = np.random.default_rng(seed)
        self.nodes, self.weights, self.count = [], {}, 0
        self.B, self.T, self.H, self.D = int(r.integers(1, 3)), int(r.integers(3, 12)), int(r.integers(1, 4)), int(r.choice([4, 8]))
        self.E = self.H * self.D
        self.c = float(r.choice([1 / 64, 1 / 32, 1 / 256, 1e-3, 0.02] if f16 else [1e-20, 1e-10, 2.0**-40, 1 / 64, 1 / 8]))
        target = float(r.choice([1, 4]))
        if r.integers(3) == 0:
            self.c = float(r.choice([1e6, 4096, 1e5] if f16 else [1e20, 2.0**50]))
        self.size = max(target / self.c, 140000 if f16 and self.c < 1 else 0)
        self.scaled_size = self.size * self.c
        self.x_size = 1 if not f16 else self.size**0.5 if self.size > 1 else self.size / 0.05
        self.x = (r.standard_normal((self.B, self.T, self.E)) * self.x_size).astype("f")

    def node(self, op, inputs, outs=1, **attributes):
        self.count += 1
        out = [f"t{self.count}_{i}" if outs > 1 else f"t{self.count}" for i in range(outs)]
        self.nodes.append(helper.make_node(op, inputs, out, name=f"{op}_{self.count}", **attributes))
        return out if outs > 1 else out[0]

    def const(self, value):
        self.count += 1
        self.weights[f"c{self.count}"] = np.asarray(value)
        return f"c{self.count}"

    def weight(self, size, columns=None, of_x=True):
        w = self.r.standard_normal((self.E, columns or self.E)) * size / (self.x_size if of_x else 1) / np.sqrt(self.E)
        return self.const(w.astype("f"))

    def projected(self, size):
        v = self.node("MatMul", ["x", self.weight(size)])
        return self.node("Add", [v, self.const((self.r.standard_normal(self.E) * size).astype("f"))]) if self.r.integers(2) else v

    def scaled(self, v, c):
        def number(value): return self.const(np.float32(value))
        return [lambda: self.node("Mul", [v, number(c)]), lambda: self.node("Mul", [number(c), v]), lambda: self.node("Div", [v, number(1 / c)]),
                lambda: self.node("Mul", [self.node("Mul", [v, number(c**0.5)]), number(c**0.5)]),
                lambda: self.node("Mul", [v, self.const(np.full(1, c, "f"))])][self.r.integers(5)]()

    def heads(self, v, turned=False):
        shape = self.const(np.array([self.B, self.T, self.H, self.D]))
        return self.node("Transpose", [self.node("Reshape", [v, shape])], perm=[0, 2, 3, 1] if turned else [0, 2, 1, 3])

    def attention(self, whole, size):
        r, both = self.r, all(s != 1 for s in size)
        if r.integers(3) == 0:
            p = self.node("MatMul", ["x", self.const(np.concatenate([self.weights[self.weight(s)] for s in (*size, 1)], 1))])
            if r.integers(2):
                p = self.node("Add", [p, self.const((r.standard_normal(3 * self.E) * np.repeat([*size, 1], self.E)).astype("f"))])
            q, k, v = self.node("Split", [p], outs=3, axis=2)
        else:
            q, k, v = self.projected(size[0]), self.projected(size[1]), self.projected(1)
        first = r.integers(2)
        for late in (False, True):
            if late: q, k, v = self.heads(q), self.heads(k, True), self.heads(v)
            if late != bool(first):
                q, k = (self.scaled(t, self.c) if s != 1 else t for t, s in ((q, size[0]), (k, size[1])))
        s = self.scaled(self.node("MatMul", [q, k]), 1 / np.sqrt(self.D) / self.scaled_size ** (2 if both else 1))
        return self.node("MatMul", [self.node("Softmax", [s], axis=-1), v]) if whole else s

    def columns(self):
        v, r = self.projected(self.size), self.r
        if r.integers(2): v = self.node("Sub", [v, self.const((r.standard_normal(self.E) * self.size).astype("f"))])
        v = self.node("Mul", [v, self.const((np.full(self.E, self.c) * 2.0 ** r.integers(-2, 3, self.E)).astype("f"))])
        if r.integers(2): v = self.node("Add", [v, self.const(r.standard_normal(self.E).astype("f"))])
        return self.node("MatMul", [v, self.weight(1, of_x=False)]) if r.integers(2) else v

    def sums(self):
        v, axis = self.projected(self.size), int(self.r.integers(1, 3))
        if self.r.integers(2): v = self.scaled(v, self.c)
        return self.node("ReduceMean", [v], axes=[axis], keepdims=0) if self.r.integers(2) else self.node("ReduceSum", [v, self.const(np.array([axis]))], keepdims=0)

    def two(self, size):
        q, k = (self.scaled(v, self.c) if s != 1 else v for v, s in ((self.projected(s), s) for s in size))
        return self.node("MatMul", [q, self.node("Transpose", [k], perm=[0, 2, 1])])

    def whole(self):
        kind, size = self.r.integers(5), [(self.size, 1), (1, self.size), (self.size, self.size)][self.r.integers(3)]
        return [lambda: self.attention(True, size), lambda: self.attention(False, size), lambda: self.two(size), self.columns, self.sums][kind]()


def write(folder, seed, f16):
    m = Model(seed, f16)
    out = m.whole()
    values, most = evaluate(m.nodes, {**m.weights, "x": m.x})
    y = values[out]
    if (f16 and most > 60000) or not np.abs(y).max() < 3e38:
        return False
    folder = f"{folder}/m{seed}"
    os.makedirs(f"{folder}/test_data_set_0")
    graph = helper.make_graph(m.nodes, f"m{seed}", [helper.make_tensor_value_info("x", 1, m.x.shape)], [helper.make_tensor_value_info(out, 1, None)],
                              [numpy_helper.from_array(w, k) for k, w in m.weights.items() if any(k in n.input for n in m.nodes)])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=9), f"{folder}/model.onnx")
    for name, tensor, value in (("input_0", "x", m.x), ("output_0", out, y.astype("f"))):
        with open(f"{folder}/test_data_set_0/{name}.pb", "wb") as f:
            f.write(numpy_helper.from_array(value, tensor).SerializeToString())
    return True


if __name__ == "__main__":
    first, count = (int(sys.argv[1]), int(sys.argv[2])) if len(sys.argv) > 2 else (0, 24)
    for name in ("f16", "f32"):
        to = f"{sys.argv[3] if len(sys.argv) > 3 else HERE}/{name}"
        shutil.rmtree(to, ignore_errors=True)
        made, seed = 0, first
        while made < count:
            made += write(to, seed, name == "f16")
            seed += 1
