#!/usr/bin/env python3
"""Models at the edges of what exporters write, each with what ONNX Runtime computes: python3 make.py [NAME..]

pip install onnx onnxruntime. Small, so that the emulator runs them: what they have is many inputs, operands, launches, names.
"""
import os
import shutil
import sys

import numpy as np
import onnx
import onnxruntime as ort
from onnx import helper, numpy_helper

TYPES = {np.dtype(k): v for k, v in {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11}.items()}
CASES = {}


class Model:
    def __init__(self, name, opset=17):
        self.name, self.opset, self.domains = name, opset, set()
        self.nodes, self.weights, self.inputs, self.outputs, self.feeds = [], [], [], [], {}
        self.rng = np.random.default_rng(1)

    def input(self, name, shape, value):
        value = np.asarray(value)
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[value.dtype], shape))
        self.feeds[name] = value
        return name

    def floats(self, name, shape, actual=None, dtype="float32"):
        return self.input(name, shape, self.rng.standard_normal(actual or shape).astype(dtype))

    def const(self, value, name=None):
        name = name or f"c{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def weight(self, *shape, name=None, dtype="float32"):
        return self.const((self.rng.standard_normal(shape) / np.sqrt(shape[0])).astype(dtype), name)

    def node(self, op, *inputs, outs=1, out=None, domain="", **attributes):
        n = len(self.nodes)
        out = [out] if out else [f"v{n}_{i}" if outs > 1 else f"v{n}" for i in range(outs)]
        self.nodes.append(helper.make_node(op, inputs, out, name=f"{op}_{n}", domain=domain, **attributes))
        self.domains |= {domain} - {""}
        return out[0] if len(out) == 1 else out

    def output(self, name, elem=1):
        self.outputs.append(helper.make_tensor_value_info(name, elem, None))
        return name

    def save(self):
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.weights)
        opsets = [helper.make_opsetid("", self.opset)] + [helper.make_opsetid(d, 1) for d in sorted(self.domains)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9)
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), self.name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(f"{folder}/test_data_set_0")
        onnx.save(model, f"{folder}/model.onnx")
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        results = ort.InferenceSession(f"{folder}/model.onnx", options).run(None, self.feeds)
        for kind, named in (("input", self.feeds.items()), ("output", zip([o.name for o in self.outputs], results))):
            for i, (name, value) in enumerate(named):
                with open(f"{folder}/test_data_set_0/{kind}_{i}.pb", "wb") as f:
                    f.write(numpy_helper.from_array(np.asarray(value), name).SerializeToString())


def case(f):
    CASES[f.__name__] = f
    return f


@case
def decoder(m):
    """13 layers with their caches: 27 inputs and 27 results."""
    heads, size, words = 2, 4, 16
    width = heads * size
    x = m.node("Gather", m.weight(words, width, name="embed"), m.input("input_ids", ["batch", "seq"], [[3], [5]]), axis=0)
    present = []
    for layer in range(13):
        past = [m.floats(f"past_key_values.{layer}.{what}", ["batch", heads, "past", size], [2, heads, 5, size]) for what in ("key", "value")]
        q, k, v = [m.node("Transpose", m.node("Reshape", m.node("MatMul", x, m.weight(width, width)), m.const([0, 0, heads, size])), perm=[0, 2, 1, 3]) for _ in range(3)]
        k = m.node("Concat", past[0], k, axis=2, out=f"present.{layer}.key")
        v = m.node("Concat", past[1], v, axis=2, out=f"present.{layer}.value")
        present += [k, v]
        s = m.node("Softmax", m.node("Mul", m.node("MatMul", q, m.node("Transpose", k, perm=[0, 1, 3, 2])), m.const(np.float32(size**-0.5))))
        y = m.node("Reshape", m.node("Transpose", m.node("MatMul", s, v), perm=[0, 2, 1, 3]), m.const([0, 0, width]))
        x = m.node("Add", x, m.node("MatMul", y, m.weight(width, width)))
    m.output(m.node("MatMul", x, m.weight(width, words), out="logits"))
    for name in present:
        m.output(name)


@case
def operands(m):
    """60 inputs of one node; 60 parts of one; 27 tables, each with its own indices."""
    x = [m.floats(f"x{i}", ["N", 5], [3, 5]) for i in range(60)]
    for op in ("Sum", "Max"):
        m.output(m.node(op, *x))
    m.output(m.node("Concat", *x, axis=1))
    parts = m.node("Split", m.node("Concat", *x[:36], axis=1), m.const(np.full(60, 3)), outs=60, axis=1)
    m.output(m.node("Concat", *[m.node("Sin", p) if i % 3 else p for i, p in enumerate(parts)], axis=1))
    ids = m.input("ids", ["N", 27], m.rng.integers(0, 7, (3, 27)))
    rows = [m.node("Gather", m.weight(7, 4), m.node("Gather", ids, m.const(k), axis=1), axis=0) for k in range(27)]
    m.output(m.node("Concat", *rows, axis=1))


@case
def chain(m):
    """500 operators one after the other, and 200 pairs of them."""
    x = y = m.floats("x", ["N", 8], [3, 8])
    for i in range(500):
        x = m.node(("Sin", "Tanh", "Sigmoid", "Abs")[i % 4], x)
    for i in range(200):
        y = m.node("Add", y, m.node("Mul", y, m.const(np.float32(0.001 * i))))
    m.output(x)
    m.output(y)


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        model = Model(name)
        CASES[name](model)
        model.save()
