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

TYPES = {np.dtype(k): v for k, v in {"float32": 1, "uint8": 2, "uint64": 13, "int8": 3, "int32": 6, "int64": 7, "bool": 9, "float16": 10, "float64": 11}.items()}
CASES, OPSETS = {}, {"resized": 18, "windows": 18, "meeting": 18, "past": 21, "ends": 20}


class Model:
    def __init__(self, name, opset=17):
        self.name, self.title, self.opset, self.domains = name, name, opset, set()
        self.nodes, self.weights, self.inputs, self.outputs, self.functions, self.feeds = [], [], [], [], [], {}
        self.rng, self.further, self.known = np.random.default_rng(1), [], {}

    def input(self, name, shape, value):
        value = np.asarray(value)
        self.inputs.append(helper.make_tensor_value_info(name, TYPES[value.dtype], shape))
        self.feeds[name] = value
        return name

    def floats(self, name, shape, actual=None, dtype="float32"):
        return self.input(name, shape, self.rng.standard_normal(actual or shape).astype(dtype))

    def again(self, **shapes):
        """One more data set, of inputs of other sizes: random ones of their types, or as given."""
        def value(v, like): return np.asarray(v, like.dtype) if isinstance(v, np.ndarray) else self.rng.standard_normal(v).astype(like.dtype)
        self.further.append({name: value(shapes[name], v) if name in shapes else v for name, v in self.feeds.items()})

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

    def output(self, name, elem=1, known=None):
        """known: what comes out, where ONNX Runtime has no say."""
        self.outputs.append(helper.make_tensor_value_info(name, elem, None))
        if known is not None: self.known[name] = known
        return name

    def save(self):
        graph = helper.make_graph(self.nodes, self.title, self.inputs, self.outputs, self.weights)
        opsets = [helper.make_opsetid("", self.opset)] + [helper.make_opsetid(d, {"ai.onnx.ml": 3}.get(d, 1)) for d in sorted(self.domains)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=9, functions=self.functions)
        folder = os.path.join(os.path.dirname(os.path.abspath(__file__)), self.name)
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        onnx.save(model, f"{folder}/model.onnx")
        options = ort.SessionOptions()
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        known = all(o.name in self.known for o in self.outputs)
        session = None if known else ort.InferenceSession(f"{folder}/model.onnx", options)
        for k, feeds in enumerate([self.feeds] + self.further):
            os.makedirs(f"{folder}/test_data_set_{k}")
            for kind, named in (("input", feeds.items()), ("output", self.known.items() if known else [(o.name, self.known.get(o.name, v)) for o, v in zip(self.outputs, session.run(None, feeds))])):
                for i, (name, value) in enumerate(named):
                    with open(f"{folder}/test_data_set_{k}/{kind}_{i}.pb", "wb") as f:
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


@case
def recurrent(m):
    """Both directions, lengths of their own, a number of steps that has a name."""
    x, lengths = m.floats("x", ["B", "S", 6], [3, 5, 6]), m.input("lengths", ["B"], np.array([5, 2, 3], np.int32))
    t = m.node("Transpose", x, perm=[1, 0, 2])
    y, h, c = m.node("LSTM", t, m.weight(2, 16, 6), m.weight(2, 16, 4), m.weight(2, 32), lengths, outs=3, hidden_size=4, direction="bidirectional")
    y = m.node("Reshape", m.node("Transpose", y, perm=[0, 2, 1, 3]), m.const([0, 0, 8]))
    y, last = m.node("GRU", y, m.weight(1, 9, 8), m.weight(1, 9, 3), m.weight(1, 18), lengths, outs=2, hidden_size=3, linear_before_reset=1)
    for name in (y, last, h, c):
        m.output(name)
    for batch, steps in ((1, 1), (2, 12), (5, 2)):
        m.again(x=(batch, steps, 6), lengths=m.rng.integers(1, steps + 1, batch))


def body(nodes, inputs, outputs):
    """Of a Loop or Scan: inputs and outputs as (name, element type, shape)."""
    def of(values): return [helper.make_tensor_value_info(*v) for v in values]
    return helper.make_graph([helper.make_node(op, i.split(), o.split(), **more) for op, i, o, more in nodes], "body", of(inputs), of(outputs))


@case
def steps(m):
    """Loops over a length by name that each step needs the one before for: Scan forwards and backwards, of two sequences; Loop with states that change places, one that stays, a counter, a value for each trip twice; a cell without lengths, its head; steps of what data found."""
    x, h0 = m.floats("x", ["T", "N", 6], [7, 3, 6]), m.floats("h0", ["N", 8], [3, 8])
    W, U, V = m.weight(6, 8, name="W"), m.weight(8, 8, name="U"), m.weight(8, 5, name="V")
    xw, xv = m.node("MatMul", x, W), m.node("Softsign", m.node("MatMul", x, m.weight(6, 8)))
    f = ["N", 8]
    cell = body([("MatMul", "h U", "hu", {}), ("Add", "a hu", "s", {}), ("Tanh", "s", "t", {}), ("Mul", "t g", "next", {}), ("MatMul", "next V", "y", {})],
                [("h", 1, f), ("a", 1, f), ("g", 1, f)], [("next", 1, f), ("y", 1, ["N", 5])])
    last, y = m.node("Scan", h0, xw, xv, outs=2, num_scan_inputs=2, body=cell)
    m.output(m.node("Softmax", y, out="heads")), m.output(m.node("Identity", last, out="last"))
    last, y = m.node("Scan", h0, xw, xv, outs=2, num_scan_inputs=2, body=cell, scan_input_directions=[1, 0], scan_output_directions=[1])
    m.output(m.node("Mul", y, y, out="backwards")), m.output(m.node("Add", last, h0, out="last_backwards"))
    places = body([("Identity", "on", "go", {}), ("Gather", "xw i", "row", {"axis": 0}), ("MatMul", "b U", "bu", {}), ("Add", "row bu", "s", {}), ("Sigmoid", "s", "next", {}),
                   ("Add", "n one", "more", {}), ("Cast", "n", "nf", {"to": 1}), ("Mul", "next nf", "seen", {}), ("Identity", "b", "was", {}), ("Identity", "k", "kept", {}), ("Mul", "k seen", "scaled", {})],
                  [("i", 7, []), ("on", 9, []), ("a", 1, f), ("b", 1, f), ("n", 7, []), ("k", 1, f)],
                  [("go", 9, []), ("was", 1, f), ("next", 1, f), ("more", 7, []), ("kept", 1, f), ("seen", 1, f), ("scaled", 1, f), ("was", 1, f)])
    m.node("Identity", xw, out="xw")
    m.const(np.array(1), "one")
    trips = m.node("Squeeze", m.node("Shape", x, start=0, end=1))
    for i, v in enumerate(m.node("Loop", trips, "", h0, m.node("Tanh", h0), m.const(np.array(2)), h0, outs=7, body=places)):
        m.output(m.node("Identity", v, out=f"loop{i}"), 7 if i == 2 else 1)
    y, h, c = m.node("LSTM", m.node("Relu", x), m.weight(1, 32, 6), m.weight(1, 32, 8), m.weight(1, 64), "", m.node("Unsqueeze", h0, m.const(np.array([0]))), "", m.weight(1, 24), outs=3, hidden_size=8, direction="reverse")
    m.output(m.node("MatMul", m.node("Squeeze", y, m.const(np.array([1]))), V, out="head")), m.output(m.node("Identity", c, out="cell"))
    for t, n in ((1, 2), (20, 1), (4, 5)):
        m.again(x=(t, n, 6), h0=(n, 8))


@case
def found_steps(m):
    """A cell over the rows that data choose, between what is before and after it."""
    x = m.floats("x", ["L", 6], [9, 6])
    score = m.node("ReduceSum", m.node("Tanh", m.node("MatMul", x, m.weight(6, 6))), m.const(np.array([1])), keepdims=0)
    rows = m.node("Squeeze", m.node("NonZero", m.node("Greater", score, m.const(np.float32(-0.3)))), m.const(np.array([0])))
    steps = m.node("Unsqueeze", m.node("Gather", m.node("Sigmoid", m.node("MatMul", x, m.weight(6, 6))), rows), m.const(np.array([1])))
    y, h = m.node("GRU", steps, m.weight(1, 24, 6), m.weight(1, 24, 8), m.weight(1, 48), outs=2, hidden_size=8, linear_before_reset=1)
    m.output(m.node("MatMul", m.node("Squeeze", y, m.const(np.array([1, 2]))), m.weight(8, 3), out="y")), m.output(m.node("Tanh", h, out="h"))
    m.again(x=(4, 6)), m.again(x=(30, 6))


@case
def counts(m):
    """A loop over a length by name that only the interpreter runs, as long as nobody says the length: how much each trip finds, and where, is added up."""
    x = m.floats("x", ["T", 6], [5, 6])
    m.const(np.array(1), "one")
    count = body([("Identity", "on", "go", {}), ("Gather", "x i", "row", {"axis": 0}), ("Relu", "row", "above", {}), ("NonZero", "above", "at", {}), ("Shape", "at", "shape", {}), ("Gather", "shape one", "size", {"axis": 0}),
                  ("ReduceSum", "at", "places", {"keepdims": 0}), ("Add", "places size", "found", {}), ("Add", "n found", "more", {})],
                 [("i", 7, []), ("on", 9, []), ("n", 7, [])], [("go", 9, []), ("more", 7, []), ("found", 7, [])])
    n, each = m.node("Loop", m.node("Squeeze", m.node("Shape", x, start=0, end=1)), "", m.const(np.array(0)), outs=2, body=count)
    m.output(m.node("Cast", n, to=1, out="all")), m.output(m.node("Cast", each, to=1, out="each"))
    m.again(x=(2, 6))


MS = "com.microsoft"


@case
def squeeze(m):
    """A block of a MobileNet as tf2onnx writes it: channels last between transposes, padded by hand, rescaled by its own mean."""
    def conv(t, *weights, **attributes):
        return m.node("Transpose", m.node("Conv", m.node("Transpose", t, perm=[0, 3, 1, 2]), *weights, **attributes), perm=[0, 2, 3, 1])

    def norm(t, c):
        spread = m.const(np.abs(m.rng.standard_normal(c)).astype("f4") + np.float32(0.5))
        t = m.node("BatchNormalization", m.node("Transpose", t, perm=[0, 3, 1, 2]), m.weight(c), m.weight(c), m.weight(c), spread, epsilon=1e-3)
        return m.node("Transpose", t, perm=[0, 2, 3, 1])

    def clip(t): return m.node("Clip", t, m.const(np.float32(0)), m.const(np.float32(6)))

    x = m.floats("x", ["N", 16, 16, 8], [1, 16, 16, 8])
    t = clip(norm(conv(x, m.weight(48, 8, 1, 1)), 48))
    t = m.node("Pad", t, m.const(np.array([0, 0, 0, 0, 0, 1, 1, 0])))
    t = clip(norm(conv(t, m.weight(48, 1, 3, 3), group=48, strides=[2, 2]), 48))
    g = m.node("ReduceMean", t, axes=[1, 2], keepdims=1)
    g = m.node("Relu", m.node("Add", conv(g, m.weight(12, 48, 1, 1)), m.weight(12)))
    g = m.node("Sigmoid", m.node("Add", conv(g, m.weight(48, 12, 1, 1)), m.weight(48)))
    m.output(norm(conv(m.node("Mul", t, g), m.weight(24, 48, 1, 1)), 24))


@case
def ort_fused(m):
    """Operators of ONNX Runtime's optimiser: products, convolutions, activations, norms."""
    def ms(op, *inputs, **attributes):
        return m.output(m.node(op, *inputs, domain=MS, **attributes))

    a, b = m.floats("a", ["B", 3, 4, 5], [2, 3, 4, 5]), m.floats("b", ["B", 3, 6, 5], [2, 3, 6, 5])
    ms("FusedMatMul", a, b, transB=1, alpha=0.5)
    ms("FusedMatMul", m.floats("c", [3, "B", 5], [3, 2, 5]), m.floats("d", ["B", 3, 5], [2, 3, 5]), transBatchA=1, transB=1)
    x = m.floats("x", ["N", 8], [3, 8])
    for activation, more in (("Relu", {}), ("LeakyRelu", {"activation_alpha": 0.2}), ("Tanh", {}), ("Sigmoid", {})):
        ms("FusedGemm", x, m.weight(4, 8), m.weight(4), transB=1, activation=activation, **more)
    image, z = m.floats("image", ["M", 4, 6, 6], [2, 4, 6, 6]), m.floats("z", ["M", 6, 6, 6], [2, 6, 6, 6])
    t = ms("FusedConv", image, m.weight(6, 4, 3, 3), m.weight(6), activation="Relu", pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    ms("FusedConv", t, m.weight(6, 6, 1, 1), m.weight(6), z, activation="LeakyRelu", activation_params=[0.1], kernel_shape=[1, 1])
    ms("FusedConv", t, m.weight(6, 1, 3, 3), m.weight(6), group=6, activation="Clip", activation_params=[0.0, 0.5], kernel_shape=[3, 3])
    ms("FusedConv", t, m.weight(6, 6, 1, 1), activation="HardSigmoid", activation_params=[0.3, 0.4], kernel_shape=[1, 1])
    bias, scale = m.weight(8), m.weight(8)
    ms("BiasGelu", x, bias)
    ms("FastGelu", x, bias)
    ms("QuickGelu", x, alpha=1.702)
    ms("Gelu", x)
    for op, inputs in (("SkipLayerNormalization", [scale, bias, bias]), ("SkipSimplifiedLayerNormalization", [scale, bias])):
        outs = [f"{op}_y", "", "", f"{op}_sum"]
        m.nodes.append(helper.make_node(op, [x, m.floats(f"skip_{op}", ["N", 8], [3, 8]), *inputs], outs, domain=MS, epsilon=1e-5))
        m.output(outs[0])
        m.output(outs[3])
    m.output(m.node("SimplifiedLayerNormalization", x, scale, epsilon=1e-6, axis=-1, stash_type=1))
    ids, segments = m.input("ids", ["N", "S"], np.array([[1, 2, 3], [4, 5, 0], [6, 6, 6]], np.int32)), m.input("segments", ["N", "S"], np.array([[0, 0, 1], [1, 1, 1], [0, 0, 0]], np.int32))
    mask = m.input("mask", ["N", "S"], np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0]], np.int32))
    outs = ["embedded", "mask_index", "embedding_sum"]
    m.nodes.append(helper.make_node("EmbedLayerNormalization", [ids, segments, m.weight(10, 8), m.weight(5, 8), m.weight(2, 8), scale, bias, mask], outs, domain=MS, epsilon=1e-5))
    for name, elem in zip(outs, (1, 6, 1)):
        m.output(name, elem)


@case
def ort_attention(m):
    """Attention and MultiHeadAttention of ONNX Runtime: masks of each kind, biases, what is past."""
    batch, rows, width, heads, past = 2, 5, 16, 4, 3
    x = m.floats("x", [batch, "S", width], [batch, rows, width])
    w, b = m.weight(width, 3 * width), m.weight(3 * width)
    size = width // heads
    masks = {"none": "", "length": m.input("lengths", [batch], np.array([4, 5], np.int32)),
             "ends": m.input("ends", [2 * batch], np.array([4, 5, 1, 0], np.int32)),
             "keys": m.input("keys", [batch, "S"], np.array([[1, 1, 1, 1, 0], [0, 1, 1, 1, 1]], np.int32)),
             "pairs": m.input("pairs", [batch, "S", "S"], (m.rng.random((batch, rows, rows)) > 0.3).astype(np.int32))}
    for mask in masks.values():
        m.output(m.node("Attention", x, w, b, mask, domain=MS, num_heads=heads))
    m.output(m.node("Attention", x, w, b, domain=MS, num_heads=heads, unidirectional=1))
    before = m.floats("past", [2, batch, heads, "P", size], [2, batch, heads, past, size])
    bias = m.floats("bias", [batch, heads, "S", "T"], [batch, heads, rows, rows + past])
    for name in m.node("Attention", x, w, b, "", before, domain=MS, num_heads=heads, outs=2):
        m.output(name)
    q, k, v = [m.floats(n, [batch, "S", width], [batch, rows, width]) for n in "qkv"]
    m.output(m.node("MultiHeadAttention", q, k, v, b, domain=MS, num_heads=heads))
    m.output(m.node("MultiHeadAttention", q, k, v, "", masks["keys"], domain=MS, num_heads=heads, scale=0.3))
    pk, pv = [m.floats(n, [batch, heads, "P", size], [batch, heads, past, size]) for n in ("past_k", "past_v")]
    for name in m.node("MultiHeadAttention", q, k, v, b, "", bias, pk, pv, domain=MS, num_heads=heads, unidirectional=1, outs=3):
        m.output(name)


def group_query(m, batch, rows, past, variants):
    heads, groups, size = 4, 2, 16
    total = rows + past
    q, k, v = [m.floats(n, [batch, "S", w * size], [batch, rows, w * size]) for n, w in (("q", heads), ("k", groups), ("v", groups))]
    cache = [m.floats(n, [batch, groups, "P", size], [batch, groups, past, size]) for n in ("past_k", "past_v")]
    mask = m.input("attention_mask", [batch, "T"], np.ones((batch, total), np.int64))
    lengths = m.node("Cast", m.node("Sub", m.node("ReduceSum", mask, m.const([1]), keepdims=0), m.const([1])), to=6)
    length = m.node("Cast", m.node("Gather", m.node("Shape", mask), m.const(np.int64(1)), axis=0), to=6)
    angles = np.arange(32)[:, None] / 100 ** (np.arange(size // 2) / (size // 2))
    tables = [m.const(np.cos(angles).astype(np.float32)), m.const(np.sin(angles).astype(np.float32))]
    bias, sink = m.floats("bias", [1, heads, "S", "T"], [1, heads, rows, total]), m.weight(heads)
    for variant in variants:
        more = dict(variant)
        inputs = [q, k, v, *cache, lengths, length, *(tables if more.get("do_rotary") else ["", ""]), "", bias if more.pop("bias", 0) else "", sink if more.pop("sink", 0) else ""]
        if more.pop("packed", 0):
            inputs[:3] = [m.node("Concat", q, k, v, axis=2), "", ""]
        for name in m.node("GroupQueryAttention", *inputs, domain=MS, outs=3, num_heads=heads, kv_num_heads=groups, **more):
            m.output(name)


@case
def ort_group_query(m):
    """A step of two rows with caches: rotary embeddings, windows, biases, sinks, caps."""
    group_query(m, 2, 1, 6, [{}, {"do_rotary": 1}, {"do_rotary": 1, "rotary_interleaved": 1, "packed": 1}, {"local_window_size": 3}, {"bias": 1}, {"sink": 1},
                             {"smooth_softmax": 1}, {"softcap": 5.0, "scale": 0.5}])


@case
def ort_group_query_prompt(m):
    """A prompt: no rows yet."""
    group_query(m, 2, 5, 0, [{"do_rotary": 1}, {"local_window_size": 3}, {"bias": 1}])


@case
def ort_quantised(m):
    """Weights of 2, 4 and 8 bits in blocks; products of bytes; tables of 4 bits; the rotary embedding by itself."""
    x = m.floats("x", ["B", "S", 80], [2, 3, 80])
    for bits, block, zero in ((4, 32, ""), (4, 16, "packed"), (4, 32, "float"), (8, 32, ""), (8, 16, "packed"), (2, 32, "")):
        blocks = -(-80 // block)
        inputs = [x, m.const(m.rng.integers(0, 256, (12, blocks, block * bits // 8)).astype(np.uint8)), m.const((m.rng.random(12 * blocks) * 0.1).astype(np.float32))]
        if zero == "packed":
            inputs.append(m.const(m.rng.integers(0, 256, 12 * -(-blocks * bits // 8)).astype(np.uint8)))
        elif zero:
            inputs.append(m.const((m.rng.random(12 * blocks) * 15).astype(np.float32)))
        m.output(m.node("MatMulNBits", *inputs, domain=MS, K=80, N=12, bits=bits, block_size=block))
    table, scales = m.const(m.rng.integers(0, 256, (6, 32)).astype(np.uint8)), m.const(m.rng.random((6, 4)).astype(np.float32))
    ids = m.input("ids", ["B", 2], [[1, 3], [0, 2]])
    for zero in ([], [m.const(m.rng.integers(0, 256, (6, 2)).astype(np.uint8))]):
        m.output(m.node("GatherBlockQuantized", table, ids, scales, *zero, domain=MS, bits=4, block_size=16, gather_axis=0, quantize_axis=1))
    a, b = m.input("a", ["N", 16], m.rng.integers(0, 256, (3, 16)).astype(np.uint8)), m.const(m.rng.integers(-60, 60, (16, 8)).astype(np.int8))
    scale, zero, of_a, zero_a = m.const((m.rng.random(8) * 0.01).astype(np.float32)), m.const(np.zeros(8, np.int8)), m.const(np.float32(0.02)), m.const(np.uint8(120))
    m.output(m.node("QGemm", a, of_a, zero_a, b, scale, zero, m.const(m.rng.integers(-1000, 1000, 8).astype(np.int32)), domain=MS))
    m.output(m.node("MatMulIntegerToFloat", a, b, of_a, scale, zero_a, zero, m.weight(8), domain=MS))
    m.output(m.node("DynamicQuantizeMatMul", m.floats("f", ["N", 16], [3, 16]), b, scale, zero, m.weight(8), domain=MS))
    angles = np.arange(20)[:, None] / 100 ** (np.arange(8) / 8)
    cos, sin = m.const(np.cos(angles).astype(np.float32)), m.const(np.sin(angles).astype(np.float32))
    y = m.floats("y", ["B", 3, 32], [2, 3, 32])
    m.output(m.node("RotaryEmbedding", y, m.input("at", ["B", 3], [[0, 1, 2], [5, 6, 7]]), cos, sin, domain=MS))
    m.output(m.node("RotaryEmbedding", y, m.input("from", [1], [4]), cos, sin, domain=MS, interleaved=1))


@case
def ort_qlinear(m):
    """Elementwise operators and pools of bytes."""
    a, b = [m.input(n, ["B", 4, 6, 6], m.rng.integers(0, 256, (2, 4, 6, 6)).astype(np.uint8)) for n in "ab"]

    def how(scale, zero):
        return m.const(np.float32(scale)), m.const(np.uint8(zero))

    x, y = [a, *how(0.02031, 120)], [b, *how(0.03117, 100)]
    m.output(m.node("QLinearAdd", *x, *y, *how(0.0407, 128), domain=MS), 2)
    m.output(m.node("QLinearMul", *x, *y, *how(0.1009, 128), domain=MS), 2)
    m.output(m.node("QLinearSigmoid", *x, *how(1 / 256, 0), domain=MS), 2)
    m.output(m.node("QLinearLeakyRelu", *x, *how(0.0201, 10), domain=MS, alpha=0.1), 2)
    m.output(m.node("QLinearGlobalAveragePool", *x, *how(0.0107, 128), domain=MS), 2)
    m.output(m.node("QLinearAveragePool", *x, *how(0.02137, 128), domain=MS, kernel_shape=[2, 2], strides=[2, 2]), 2)
    m.output(m.node("QLinearConcat", *how(0.0307, 110), *x, *y, domain=MS, axis=1), 2)


@case
def ort_experts(m):
    """Experts of ONNX Runtime's own, of all activations that it has on a CPU; weights of 4 and 8 bits by rows and blocks, shares that come from elsewhere, tokens by name."""
    width, inner, experts = 16, 24, 4
    x, p = m.floats("x", ["B", 3, width], [2, 3, width]), m.floats("p", ["N", experts], [6, experts])
    def floats(columns): return [m.const((m.rng.standard_normal(s) / 4).astype(np.float32)) for s in ((experts, columns, width), (experts, columns), (experts, width, inner), (experts, width))]
    gated = dict(activation_type="swiglu", swiglu_fusion=1, activation_alpha=1.702, activation_beta=1., swiglu_limit=1.)
    for how in (dict(k=1), dict(k=2, normalize_routing_weights=1, activation_type="silu"), dict(k=3, activation_type="gelu"), dict(k=4, activation_type="identity"), dict(k=2, **gated)):
        m.output(m.node("MoE", x, p, *floats(2 * inner if "swiglu_limit" in how else inner), domain=MS, **how))
    tokens, width, inner = m.floats("tokens", ["N", 32], [6, 32]), 32, 64
    def packed(rows, columns, bits, block):
        blocks = columns // block if block else 1
        scale = (m.rng.random((experts, rows, blocks)) / (1 << bits)).astype(np.float32)
        zero = m.rng.integers(0, 256, (experts, rows, (blocks * bits + 7) // 8) if block else (experts, rows * bits // 8)).astype(np.uint8)
        return [m.const(m.rng.integers(0, 256, (experts, rows, columns * bits // 8)).astype(np.uint8)), m.const(scale if block else scale[:, :, 0])], m.const(zero)
    shares = m.input("shares", ["N", experts], m.rng.random((6, experts)).astype(np.float32))
    for bits, block, zeros, mixing, how in ((4, 0, False, "", dict(normalize_routing_weights=1)), (4, 16, True, "", dict(normalize_routing_weights=1, **gated)), (4, 32, True, shares, {}),
                                            (8, 0, True, "", dict(normalize_routing_weights=1, activation_type="silu"))):
        first, zero = packed(2 * inner if "swiglu_limit" in how else inner, width, bits, block)
        second, zero_2 = packed(width, inner, bits, block)
        bias = m.const((m.rng.standard_normal((experts, 2 * inner if "swiglu_limit" in how else inner)) / 4).astype(np.float32))
        m.output(m.node("QMoE", tokens, p, *first, bias, *second, "", "", "", "", *([zero, zero_2] if zeros else ["", ""]), "", mixing, domain=MS, k=2, expert_weight_bits=bits,
                        **({"block_size": block} if block else {}), **how))


@case
def ort_bytes(m):
    """What ONNX Runtime's quantiser and optimiser leave of a transformer and of pictures: tables, attentions and norms of bytes, channels last."""
    def bytes_of(*shape, low=0, high=256, dtype=np.uint8): return m.const(m.rng.integers(low, high, shape).astype(dtype))
    def number(v, dtype=np.float32): return m.const(np.array(v, dtype))
    words, width, heads = 20, 16, 2
    ids, segment, mask = (m.input(n, ["B", "S"], v) for n, v in (("ids", m.rng.integers(0, words, (2, 5)).astype(np.int32)), ("segment", m.rng.integers(0, 2, (2, 5)).astype(np.int32)),
                                                                  ("mask", np.int32([[1] * 5, [1, 1, 1, 0, 0]]))))
    tables = [bytes_of(n, width) for n in (words, 8, 2)] + [bytes_of(width), bytes_of(width)]
    scales, zeros = [number(v) for v in (0.02, 0.01, 0.015, 0.008, 0.004)], [number(v, np.uint8) for v in (120, 130, 128, 3, 100)]
    h, count = m.node("QEmbedLayerNormalization", ids, segment, *tables, mask, *scales, *zeros, outs=2, domain=MS, epsilon=1e-6)
    m.output(h), m.output(count, 6)
    q, scale, zero = m.node("DynamicQuantizeLinear", h, outs=3)
    weight, bias = bytes_of(width, 3 * width, low=-127, high=128, dtype=np.int8), m.weight(3 * width)
    m.output(m.node("QAttention", q, weight, bias, scale, number(0.005), mask, zero, number(0, np.int8), domain=MS, num_heads=heads))
    past = m.floats("past", [2, "B", heads, "P", width // heads], [2, 2, heads, 3, width // heads])
    by_column = [m.const((m.rng.random(3 * width) / 100).astype(np.float32)), "", zero, m.const(m.rng.integers(-5, 5, 3 * width).astype(np.int8)), past]
    y, present = m.node("QAttention", q, weight, bias, scale, *by_column, outs=2, domain=MS, num_heads=heads, unidirectional=1)
    m.output(y), m.output(present)
    x = m.input("x", ["N", 9, 7, 4], m.rng.integers(0, 256, (2, 9, 7, 4)).astype(np.uint8))
    c = m.node("QLinearConv", x, number(0.03), number(128, np.uint8), bytes_of(8, 2, 3, 3, low=-127, high=128, dtype=np.int8), m.const((m.rng.random(8) / 50).astype(np.float32)),
               m.const(np.zeros(8, np.int8)), number(0.07), number(110, np.uint8), m.const(m.rng.integers(-500, 500, 8).astype(np.int32)), domain=MS, channels_last=1, group=2, strides=[2, 1], pads=[1, 1, 1, 0])
    m.output(m.node("NhwcMaxPool", c, domain=MS, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]), 2)
    m.output(m.node("QLinearWhere", m.input("which", ["N", 1, 7, 1], m.rng.integers(0, 2, (2, 1, 7, 1)).astype(bool)), x, number(0.0217), number(128, np.uint8), x, number(0.0311), number(20, np.uint8),
                    number(0.0403), number(60, np.uint8), domain=MS), 2)


@case
def parts(m):
    """A softmax over keys of two kinds, put together for it, whose parts meet their values apart (sparse attention)."""
    q, k, v = (m.floats(n, ["batch", 6, 8], [2, 6, 8]) for n in "qkv")
    far_k, far_v = m.weight(5, 8, name="far_k"), m.weight(5, 8, name="far_v")
    scores = [m.node("MatMul", q, m.node("Transpose", k, perm=[0, 2, 1])), m.node("MatMul", q, m.node("Transpose", far_k, perm=[1, 0]))]
    p = m.node("Softmax", m.node("Concat", *scores, axis=2), axis=-1)
    near, far = m.node("Split", p, m.const(np.array([6, 5])), outs=2, axis=2)
    m.output(m.node("Add", m.node("MatMul", near, v), m.node("MatMul", far, far_v)))
    first = m.node("Softmax", m.node("MatMul", q, m.node("Transpose", k, perm=[0, 2, 1])), axis=-1)
    m.output(m.node("MatMul", m.node("Slice", first, m.const(np.array([0])), m.const(np.array([4])), m.const(np.array([2]))),
                    m.node("Slice", v, m.const(np.array([0])), m.const(np.array([4])), m.const(np.array([1])))))


@case
def samples(m):
    """Deformable attention: pictures of two sizes, side by side in rows, are sampled where their borders do not hold points back."""
    x = m.node("Reshape", m.floats("x", ["batch", 20, 8], [2, 20, 8]), m.const(np.array([0, 20, 2, 4])))
    weights = m.node("Softmax", m.floats("weights", ["batch", 2, 3, 6], [2, 2, 3, 6]), axis=-1)
    points = m.floats("points", ["batch", 2, 3, 6, 2], [2, 2, 3, 6, 2])
    picked = []
    for start, end, side, mode in ((0, 16, 4, "zeros"), (16, 20, 2, "border")):
        rows = m.node("Slice", x, m.const(np.array([start])), m.const(np.array([end])), m.const(np.array([1])))
        picture = m.node("Reshape", m.node("Transpose", rows, perm=[0, 2, 3, 1]), m.const(np.array([-1, 4, side, side])))
        at = m.node("Slice", points, m.const(np.array([3 * (start > 0)])), m.const(np.array([3 + 3 * (start > 0)])), m.const(np.array([3])))
        at = m.node("Reshape", at, m.const(np.array([-1, 3, 3, 2])))
        picked.append(m.node("GridSample", picture, at, mode="bilinear", padding_mode=mode))
    both = m.node("Mul", m.node("Concat", *picked, axis=3), m.node("Reshape", weights, m.const(np.array([-1, 1, 3, 6]))))
    m.output(m.node("ReduceSum", both, m.const(np.array([3])), keepdims=0))


@case
def lengths(m):
    """Windows without padding: a length that is T / 4 - 1, a norm over all of it by reshapes; truth values that are all alike; a column for what matches nothing."""
    x = m.floats("x", ["batch", 1, "T"], [2, 1, 33])
    y = m.node("Relu", m.node("Conv", x, m.const(m.rng.standard_normal((6, 1, 8)).astype("float32")), strides=[4]))
    whole = m.node("Reshape", y, m.const(np.array([0, 1, -1])))
    ones = m.const(np.ones(1, "float32"))
    normed = m.node("Reshape", m.node("InstanceNormalization", whole, ones, m.const(np.zeros(1, "float32"))), m.node("Shape", y))
    y = m.node("Add", m.node("Mul", normed, m.weight(6, 1)), m.weight(6, 1))
    m.output(m.node("ConvTranspose", y, m.weight(6, 1, 8), strides=[4]))
    step = m.node("Shape", x, start=2, end=3)
    truth = [m.node("ConstantOfShape", m.node("Concat", step, m.const(np.array([n])), axis=0), value=numpy_helper.from_array(np.array([True]))) for n in (1, 2)]
    pairs = [m.weight(1, 3), m.node("Sin", m.weight(1, 3))]
    m.output(m.node("Add", m.node("Where", m.node("Concat", *truth, axis=1), *pairs), m.node("Reshape", m.node("ReduceSum", x, m.const(np.array([0, 1]))), m.const(np.array([-1, 1])))))
    match = m.node("MatMul", m.floats("left", ["n", 4], [5, 4]), m.node("Transpose", m.floats("right", ["m", 4], [6, 4]), perm=[1, 0]))
    match = m.node("Softmax", m.node("Pad", match, m.const(np.array([0, 0, 0, 1]))), axis=1)
    m.output(match)
    m.output(m.node("ArgMax", m.node("Slice", match, m.const(np.array([0])), m.const(np.array([-1])), m.const(np.array([1]))), axis=1, keepdims=0), 7)


@case
def voice(m):
    """Windows of a signal, and attention among them: T / 4 - 1 queries and keys."""
    y = m.node("Conv", m.floats("x", ["batch", 1, "T"], [2, 1, 41]), m.const(m.rng.standard_normal((8, 1, 8)).astype("float32")), strides=[4])
    y = m.node("Transpose", m.node("Gelu", y, domain=MS), perm=[0, 2, 1])
    parts = m.node("Split", m.node("MatMul", y, m.weight(8, 24)), outs=3, axis=2)
    q, k, v = [m.node("Transpose", m.node("Reshape", p, m.const(np.array([0, -1, 2, 4]))), perm=[0, 2, n, 4 - n]) for p, n in zip(parts, (1, 3, 1))]
    p = m.node("Softmax", m.node("Mul", m.node("MatMul", q, k), m.const(np.float32(0.5))), axis=-1)
    o = m.node("Reshape", m.node("Transpose", m.node("MatMul", p, v), perm=[0, 2, 1, 3]), m.const(np.array([0, -1, 8])))
    m.output(m.node("Add", y, m.node("MatMul", o, m.weight(8, 8))))


@case
def nested(m):
    """Pixels in windows within windows within windows (Hiera): an order of rows whose digits are more than a tensor has dimensions."""
    y = m.node("Conv", m.floats("x", [1, 3, 32, 32]), m.const(m.rng.standard_normal((4, 3, 2, 2)).astype("float32")), strides=[2, 2])
    x = m.node("Add", m.node("Transpose", m.node("Reshape", y, m.const(np.array([1, 4, -1]))), perm=[0, 2, 1]), m.weight(1, 256, 4))
    for windows, side in ((1, 8), (4, 4), (16, 2)):
        x = m.node("Reshape", x, m.const(np.array([windows, side, 2, side, 2, 4])))
        x = m.node("Reshape", m.node("Transpose", x, perm=[0, 2, 4, 1, 3, 5]), m.const(np.array([windows * 4, side, side, 4])))
    x = m.node("Reshape", x, m.const(np.array([1, -1, 4])))
    normed = m.node("LayerNormalization", x, m.weight(4), m.weight(4))
    x = m.node("Add", x, m.node("MatMul", m.node("Gelu", m.node("MatMul", normed, m.weight(4, 8)), domain=MS), m.weight(8, 4)))
    m.output(m.node("ReduceMax", m.node("Reshape", x, m.const(np.array([1, 4, 64, 4]))), axes=[1], keepdims=0))


@case
def transposed(m):
    """Transposed convolutions that are convolutions of something: of turned weights, of phases with gaps, of every second place; in
    three dimensions with groups, whose weights by phases have nine; and windows that overlap and are not padded."""
    def weights(*shape): return m.const((m.rng.standard_normal(shape) / np.sqrt(shape[0] * np.prod(shape[2:]))).astype("float32"))
    x = m.floats("x", [1, 16, 6, 7])
    m.output(m.node("ConvTranspose", x, weights(16, 24, 3, 3), m.weight(24), dilations=[2, 1], pads=[1, 2, 0, 1], out="turned"))
    m.output(m.node("ConvTranspose", x, weights(16, 8, 3, 4), strides=[2, 3], dilations=[3, 2], pads=[1, 0, 2, 3], out="gaps"))
    m.output(m.node("ConvTranspose", x, weights(16, 8, 3, 2), m.weight(8), strides=[4, 2], dilations=[6, 2], pads=[3, 1, 2, 0], out="thin"))
    m.output(m.node("ConvTranspose", x, weights(16, 5, 2, 3), group=2, strides=[3, 2], dilations=[2, 4], output_padding=[1, 1], out="both"))
    m.output(m.node("ConvTranspose", m.floats("v", [1, 8, 2, 3, 3]), weights(8, 4, 3, 2, 3), group=2, strides=[2, 2, 2], pads=[1, 0, 1, 1, 0, 1], out="volume"))
    m.output(m.node("Conv", m.node("Relu", x), weights(24, 16, 3, 5), out="windows"))


@case
def backwards(m):
    """Running sums from the end, and of what is before: as PyTorch's models write them, by flips and by a zero in front."""
    x = m.floats("x", ["rows", 37, 5], [2, 37, 5])
    def flipped(y, axis): return m.node("Slice", y, m.const(np.array([-1])), m.const(np.array([-(1 << 62)])), m.const(np.array([axis])), m.const(np.array([-1])))
    def before(y, first): return m.node("Slice", m.node("Concat", first, y, axis=1), m.const(np.array([0])), m.const(np.array([36])), m.const(np.array([1])))
    m.output(m.node("Identity", flipped(m.node("CumSum", flipped(x, 1), m.const(np.int64(1))), 1), out="suffix"))
    m.output(m.node("Identity", flipped(m.node("CumSum", flipped(x, 1), m.const(np.int64(2))), 1), out="across"))
    y = m.floats("y", [3, 36], [3, 36])
    m.output(m.node("CumSum", before(y, m.const(np.zeros((3, 1), "float32"))), m.const(np.int64(1)), out="prefix"))
    m.output(m.node("CumSum", before(y, m.const(np.ones((3, 1), "float32"))), m.const(np.int64(1)), out="from_one"))


@case
def columns(m):
    """Places of the greatest and least along columns too long for a tile, with ties; and windows along rows, a few taps each."""
    x = m.input("x", ["N", 300, 33], np.round(m.rng.standard_normal((2, 300, 33)) * 4).astype("float32"))
    m.output(m.node("ArgMax", x, axis=1, keepdims=0, out="first"), 7)
    m.output(m.node("ArgMax", x, axis=1, keepdims=0, select_last_index=1, out="last"), 7)
    m.output(m.node("ArgMin", m.node("Cast", x, to=6), axis=1, keepdims=1, out="least"), 7)
    m.output(m.node("MaxPool", x, kernel_shape=[5], strides=[2], dilations=[2], pads=[3, 4], out="rows"))
    m.output(m.node("AveragePool", m.floats("v", [1, 2, 5, 7, 40]), kernel_shape=[3, 2, 4], strides=[2, 1, 3], pads=[1, 0, 2, 1, 1, 0], out="volumes"))


@case
def upsampled(m):
    """A picture with channels first, transposed convolution to an odd size, and a norm of groups of channels as PyTorch writes it."""
    w = m.const((m.rng.standard_normal((16, 16, 3, 3)) / 6).astype("float32"), "w")
    y = m.node("ConvTranspose", m.floats("x", [2, 16, 6, 5]), w, m.weight(16), strides=[2, 2], pads=[1, 1, 1, 1])
    y = m.node("Mul", y, m.node("Sigmoid", y))
    groups = m.node("Reshape", y, m.const(np.array([0, 4, -1])))
    normed = m.node("InstanceNormalization", groups, m.const(np.ones(4, "float32")), m.const(np.zeros(4, "float32")), epsilon=1e-5)
    y = m.node("Reshape", normed, m.node("Shape", y))
    m.output(m.node("Add", m.node("Mul", y, m.weight(16, 1, 1)), m.weight(16, 1, 1)))


@case
def pooled(m):
    """A norm of groups, pooled: what windows that overlap want of it several times is a mean and a variance."""
    x = m.floats("x", [2, 8, 16, 20])
    y = m.node("InstanceNormalization", m.node("Reshape", x, m.const(np.array([0, 4, -1]))), m.const(np.ones(4, "float32")), m.const(np.zeros(4, "float32")), epsilon=1e-5)
    y = m.node("Add", m.node("Mul", m.node("Reshape", y, m.node("Shape", x)), m.weight(8, 1, 1)), m.weight(8, 1, 1))
    m.output(m.node("MaxPool", y, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1]))


@case
def pictures(m):
    """Channels by themselves of pictures that have their rows innermost, as the model's inputs and results do; and a matrix turned round."""
    x = m.floats("x", ["N", 4, 9, 40], [2, 4, 9, 40])
    def weights(*shape): return m.const((m.rng.standard_normal(shape) / 3).astype("float32"))
    m.output(m.node("Conv", x, weights(4, 1, 3, 3), m.weight(4), group=4, pads=[1, 1, 1, 1], out="same"))
    m.output(m.node("Relu", m.node("Conv", x, weights(4, 1, 2, 5), group=4, strides=[2, 1], dilations=[1, 2], out=None), out="wide"))
    m.output(m.node("Conv", x, weights(4, 1, 1, 3), group=4, strides=[1, 3], out="thin"))
    m.output(m.node("Conv", m.floats("p", ["N", 12, 8, 9], [2, 12, 8, 9]), weights(20, 12, 2, 3), strides=[2, 3], out="patches"))
    m.output(m.node("Transpose", m.node("Abs", m.floats("t", ["N", 33, 70], [2, 33, 70])), perm=[0, 2, 1], out="turned"))


@case
def not_numbers(m):
    """TopK of values with NaN, which is greater than all numbers as NumPy has it, the first before the others; of all lengths and float types."""
    types = {"float32": 1, "float16": 10, "float64": 11}
    for i, (dtype, size, k, largest) in enumerate((t, n, k, l) for t in types for n, k in ((5, 5), (40, 7), (300, 20)) for l in (0, 1)):
        x = m.rng.integers(-20, 20, (3, size)).astype(dtype)
        x[0, [1, size - 1]], x[1, :], x[2, 3] = np.nan, np.nan, np.inf
        place = np.argsort(x if not largest else -x, axis=1, kind="stable")
        if largest: place = np.concatenate([np.argsort(~np.isnan(r), kind="stable")[:np.isnan(r).sum()].tolist() + [p for p in o if not np.isnan(r[p])] for r, o in zip(x, place)]).reshape(3, size)
        place = place[:, :k].astype("int64")
        top, at = m.node("TopK", m.input(f"x{i}", [3, size], x), m.const(np.array([k])), largest=largest, outs=2)
        m.output(m.node("Identity", top, out=f"top{i}"), types[dtype], np.take_along_axis(x, place, 1))
        m.output(m.node("Identity", at, out=f"at{i}"), 7, place)


@case
def places(m):
    """ArgMax and ArgMin along every axis of values with NaN, the first of which is the greatest and the least, as NumPy has it; the last of equal ones."""
    x = m.rng.integers(-9, 9, (6, 5, 7)).astype("float32")
    x[2, :, 3], x[4, :, 3], x[:, 1, 2], x[1, 4, :], x[0, 0, 0], x[5, 2, 6], x[3, 3, 3] = [np.nan] * 5 + [np.inf, -np.inf]
    x[:, 0, 5], x[:, 3, 1] = np.inf, -np.inf
    long = m.rng.integers(-900, 900, (3, 700, 2)).astype("float32")
    long[0, [300, 650], 0], long[1, 699, 1], long[2, 0, 0] = np.nan, np.nan, np.nan
    whole = m.rng.integers(-9, 9, (4, 6)).astype("int32")
    for name, value in (("x", x), ("long", long), ("half", x.astype("float16")), ("double", x.astype("float64")), ("whole", whole)):
        m.input(name, list(value.shape), value)
        for axis in range(value.ndim):
            for op, last in (("ArgMax", 0), ("ArgMin", 0), ("ArgMax", 1), ("ArgMin", 1)):
                f, flipped = np.argmax if op == "ArgMax" else np.argmin, np.flip(value, axis)
                at = value.shape[axis] - 1 - f(flipped, axis, keepdims=True) if last else f(value, axis, keepdims=True)
                m.output(m.node(op, name, axis=axis, select_last_index=last, out=f"{name}_{op}_{axis}_{last}"), 7, at.astype("int64"))


@case
def literals(m):
    """Numbers of 16 bits that meet what is stored in 16 bits: chosen, the greater and the less; few have a short decimal form."""
    def bf16(v):
        bits = np.asarray(v, np.float32).view(np.uint32).astype(np.uint64)
        return ((bits + 0x7fff + (bits >> 16 & 1)) >> 16 << 16).astype(np.uint32).view(np.float32)
    def f16(v): return np.asarray(v, np.float16).astype(np.float32)
    x = m.rng.standard_normal((5, 40)).astype("float32")
    m.input("x", ["N", 40], x)
    for name, to, rounded in (("f16", 10, f16), ("bf16", 16, bf16)):
        h, low = m.node("Cast", "x", to=to), rounded(x)
        for i, number in enumerate((0.1, -1 / 3, -60000.0, 6.1e-5, 3.0, -1e9 if to == 16 else 65504.0, 2.7e-30 if to == 16 else 1e-7)):
            c, v = m.node("Cast", m.const(np.float32(number)), to=to), rounded(np.float32(number))
            less = m.node("Less", h, c)
            for op, inputs, known in (("Where", (less, c, h), np.where(low < v, v, low)), ("Max", (h, c), np.maximum(low, v)), ("Min", (c, h), np.minimum(low, v))):
                known = known.astype(np.float16) if to == 10 else (known.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
                m.output(m.node(op, *inputs, out=f"{name}_{op}_{i}"), to, known)


@case
def once(m):
    """Operands made once, of weights, by what has several results: TopK's values, places and both, along either axis, a step's last state, a split, a pool's places."""
    def ints(*v): return m.const(np.array(v))
    x, y = m.floats("x", ["N", 8], [5, 8]), m.floats("y", ["N", 4], [5, 4])
    v, _ = m.node("TopK", m.weight(8, 16), ints(4), outs=2)
    m.output(m.node("MatMul", x, v, out="values"))
    _, at = m.node("TopK", m.weight(8, 16), ints(4), outs=2, axis=0, largest=0)
    m.output(m.node("Gemm", y, m.node("Cast", at, to=1), out="places"))
    v, at = m.node("TopK", m.weight(6, 8), ints(8), outs=2)
    m.output(m.node("MatMul", x, m.node("Transpose", m.node("Add", m.node("Mul", m.node("Cast", at, to=1), m.const(np.float32(0.125))), v), perm=[1, 0]), out="both"))
    m.output(m.node("Gather", v, m.input("at", [3], np.array([5, 0, 2])), out="rows"))
    v, at = m.node("TopK", m.const(m.rng.standard_normal((4, 4, 3, 3)).astype("float32")), ints(2), outs=2, axis=3)
    m.output(m.node("Conv", m.floats("p", ["N", 4, 6, 7], [2, 4, 6, 7]), v, out="taps"))
    m.output(m.node("Cast", at, to=1, out="taps_at"))
    a, b = m.node("Split", m.node("TopK", m.weight(8, 12), ints(10), outs=2)[0], outs=2, axis=1)
    m.output(m.node("Add", m.node("MatMul", x, a), m.node("MatMul", x, b), out="halves"))
    states = m.node("GRU", m.const(m.rng.standard_normal((3, 4, 5)).astype("float32")), m.const(m.rng.standard_normal((1, 12, 5)).astype("float32")),
                    m.const(m.rng.standard_normal((1, 12, 4)).astype("float32")), outs=2, hidden_size=4)
    m.output(m.node("MatMul", y, m.node("Squeeze", states[1], ints(0)), out="state"))
    v, at = m.node("MaxPool", m.const(m.rng.standard_normal((1, 4, 9, 1)).astype("float32")), outs=2, kernel_shape=[2, 1])
    m.output(m.node("MatMul", m.node("Mul", x, m.const(np.float32(0.125))), m.node("Transpose", m.node("Reshape", m.node("Cast", at, to=1), ints(4, 8)), perm=[1, 0]), out="pooled"))


@case
def ends(m):
    """GELUs where twice x is past the end; integers just above the middle between two floats; means of nothing, in all forms."""
    for dtype, elem in (("float32", 1), ("float64", 11)):
        most = np.finfo(dtype).max
        x = np.array([most, -most, most / 2, -most / 4, 1e30, -1e30, 50, -50, 0], dtype)
        for by in ("none", "tanh"):
            m.output(m.node("Gelu", m.input(f"x_{by}_{dtype}", [9], x), approximate=by, out=f"{by}_{dtype}"), elem, np.where(x > 0, x, 0))
    fast = np.array([3e38, -3e38, 1e20], "float32")
    m.output(m.node("FastGelu", m.input("fast", [3], fast), domain="com.microsoft", out="by_tanh"), 1, np.maximum(fast, 0))
    u = np.array([2**60 + 2**36 + 1, 2**63 + 2**39 + 1, 2**64 - 1, 2**53 + 2**29 + 1, 5], "uint64")
    m.output(m.node("Cast", m.input("u", [5], u), to=1, out="of_u64"), 1, np.array([2**60 + 2**37, 2**63 + 2**40, 2**64, 2**53 + 2**30, 5], "float32"))
    i = np.array([2**60 + 2**36 + 1, -(2**60 + 2**36 + 1), 2**62 - 1], "int64")
    m.output(m.node("Cast", m.input("i", [3], i), to=1, out="of_i64"), 1, np.array([2**60 + 2**37, -(2**60 + 2**37), 2**62], "float32"))
    def none(*shape): return np.full(shape, np.nan, "float32")
    m.output(m.node("ReduceMean", m.input("rows", [3, "none"], none(3, 0)), m.const(np.array([1])), keepdims=0, out="of_rows"), 1, none(3))
    m.output(m.node("ReduceMean", m.input("all", [0, 2], none(0, 2)), keepdims=0, out="of_all"), 1, none())
    m.output(m.node("GlobalAveragePool", m.input("picture", [2, 3, 0, 0], none(2, 3, 0, 0)), out="pooled"), 1, none(2, 3, 1, 1))
    m.output(m.node("ReduceMean", m.input("whole", [2, 0], np.zeros((2, 0), "int32")), m.const(np.array([1])), out="of_whole"), 6, np.zeros((2, 1), "int32"))


@case
def sizes(m):
    """Axes of one element that are sorted, contracted, summed along or gathered from; values without elements; values kept that a GELU is made of."""
    def ints(*v): return m.const(np.array(v))
    x = m.floats("x", [3, 1, 4], [3, 1, 4])
    m.output(m.node("CumSum", x, ints(1), out="summed"))
    m.output(m.node("CumSum", x, ints(1), exclusive=1, out="before"))
    top, at = m.node("TopK", x, ints(1), axis=1, outs=2)
    m.output(m.node("Mul", top, m.node("Cast", m.node("Add", at, ints(2)), to=1), out="top"))
    _, places = m.node("TopK", m.input("ties", [6], np.array([-0.0, 2, 0, -1, 0, -0.0], "float32")), ints(4), outs=2)
    m.output(m.node("Identity", places, out="places"), 7)
    m.output(m.node("MatMulInteger", m.input("a", [4, 1], np.array([[200], [3], [77], [255]], "uint8")), m.input("b", [1, 3], np.array([[9, 255, 130]], "uint8")), out="outer"), 6)
    s, which = m.node("Squeeze", m.floats("s", [2, "h", 1, "h", "w"], [2, 3, 1, 3, 5]), ints(2)), m.input("which", [], np.array(True))
    def whole(op, name): return helper.make_graph([helper.make_node(op, [s], [name])], name, [], [helper.make_tensor_value_info(name, 1, None)])
    m.output(m.node("ReduceMin", m.node("If", which, then_branch=whole("Abs", "size"), else_branch=whole("Identity", "same")), axes=[1, 2, 3], keepdims=0, out="smallest"))
    y = m.floats("y", [7, 8])
    inner = m.node("Mul", m.node("Add", y, m.node("Mul", m.node("Pow", y, m.const(np.float32(3))), m.const(np.float32(0.044715)))), m.const(np.float32(0.7978846)))
    one = m.node("Add", m.node("Tanh", inner), m.const(np.float32(1)))
    m.output(m.node("Mul", m.node("Mul", y, m.const(np.float32(0.5))), one, out="gelu"))
    m.output(m.node("Slice", one, ints(2), ints(5), out="kept", center_point_box=1))
    n = [m.input(f"n{i}", [1], np.array([i + 3])) for i in range(3)]
    m.output(m.node("Pad", m.node("Concat", *n, axis=0), ints(2, 1), out="padded"), 7)
    m.output(m.node("Resize", m.floats("p", [2, 3, 4, 5]), m.const(np.zeros(0, "float32")), m.const(np.array([1, 1, 0.5, 2], "float32")), mode="cubic", out="resized"))
    none = m.node("Slice", y, ints(3), ints(3))
    m.output(m.node("Sin", none, out="none"))
    m.output(m.node("MatMul", m.node("Transpose", none, perm=[1, 0]), m.node("Exp", none), out="zeros"))
    m.output(m.node("Add", m.node("ReduceL1", none, axes=[0], keepdims=0), m.node("ReduceProd", none, keepdims=0), out="least"))
    m.output(m.node("Concat", m.node("Pad", none, ints(1, 0, 1, 0), m.const(np.float32(2.5))), y, axis=0, out="around"))
    half = m.const(np.float16(0.125))
    def branch(op, name): return helper.make_graph([helper.make_node(op, [half], [name])], name, [], [helper.make_tensor_value_info(name, 10, [])])
    m.output(m.node("If", which, then_branch=branch("Sin", "then"), else_branch=branch("Neg", "else"), out="chosen"), 10)


@case
def named(m):
    """Dimensions by name that are 1 where others are not, divide by a block, are a list's length: given as they come."""
    x, y = m.floats("x", ["a", 4], [1, 4]), m.floats("y", ["b", 4], [5, 4])
    m.output(m.node("Add", x, y, out="spread"))
    m.output(m.node("MatMul", m.floats("p", ["c", 3, 4], [1, 3, 4]), m.floats("q", ["d", 4, 2], [2, 4, 2]), out="batches"))
    m.output(m.node("DepthToSpace", m.floats("z", [1, "channels", 2, 3], [1, 8, 2, 3]), blocksize=2, out="squares"))
    m.output(m.node("GatherND", y, m.input("at", ["n", "k"], np.array([[4, 1], [0, 3], [2, 2]])), out="picked"))
    m.output(m.node("Expand", m.node("Slice", x, m.const(np.array([0])), m.const(np.array([3]))), m.const(np.array([2, 6, 4])), out="wide"))


@case
def sums(m):
    """Sums and means of a product's columns and rows: products of sums, but where the product is wanted otherwise or windows leave something out."""
    axes = lambda *a: m.const(np.array(a))
    x = m.floats("x", ["M", 24], [9, 24])
    y = m.node("Add", m.node("MatMul", x, m.weight(24, 20)), m.weight(20))
    m.output(m.node("ReduceSum", m.node("Div", y, m.const(np.float32(3))), axes(1), keepdims=1, out="columns"))
    h = m.floats("h", [5, 24])
    m.output(m.node("ReduceMean", m.node("Sub", m.node("Neg", m.node("MatMul", h, m.weight(24, 20))), m.weight(20)), axes=[0], keepdims=0, out="rows"))
    z = m.node("MatMul", h, m.weight(24, 12))
    m.output(m.node("ReduceSum", z, axes(1), keepdims=0, out="kept_columns"))
    m.output(m.node("Relu", z, out="kept"))
    def weights(*shape): return m.const((m.rng.standard_normal(shape) / np.sqrt(shape[0] * np.prod(shape[2:]))).astype("float32"))
    v = m.floats("v", [2, 6, 4, 5, 7])
    m.output(m.node("ReduceMean", m.node("ConvTranspose", v, weights(6, 9, 3, 2, 3), m.weight(9)), axes=[2, 3, 4], keepdims=1, out="volume"))
    p = m.floats("p", [2, 6, 8, 7])
    m.output(m.node("ReduceSum", m.node("ConvTranspose", p, weights(6, 8, 3, 3), m.weight(8), pads=[1, 1, 1, 1]), axes(2, 3), keepdims=0, out="cut"))
    m.output(m.node("ReduceSum", m.node("Conv", p, weights(8, 6, 3, 3), m.weight(8), pads=[2, 2, 2, 2]), axes(2, 3), keepdims=0, out="around"))
    m.output(m.node("ReduceSum", m.node("Conv", p, weights(8, 6, 3, 3), m.weight(8)), axes(1), keepdims=1, out="channels"))
    def pool(x, out, k, **kw): m.output(m.node("AveragePool", x, kernel_shape=[k, k], out=out, **kw))
    pool(m.node("Sub", m.node("Neg", m.node("Conv", m.node("Relu", p), weights(9, 6, 1, 1), m.weight(9))), m.weight(9, 1, 1)), "transition", 2, strides=[2, 2])
    pool(m.node("Conv", p, weights(9, 6, 1, 1)), "inside", 3, strides=[2, 2], pads=[1, 1, 1, 1])
    pool(m.node("Conv", p, weights(9, 6, 1, 1), m.weight(9)), "shifted", 3, pads=[1, 1, 1, 1], count_include_pad=1)
    pool(m.node("Conv", p, weights(1, 6, 1, 1), m.weight(1)), "narrow", 2)
    pool(m.node("Conv", p, weights(9, 6, 3, 3), m.weight(9)), "taps", 2, strides=[2, 2])


@case
def classical(m):
    """What scikit-learn's scalers, encoders and linear models become (ai.onnx.ml)."""
    def ml(op, *inputs, **kw): return m.node(op, *inputs, domain="ai.onnx.ml", **kw)
    x = np.round(m.rng.standard_normal((7, 5)), 1).astype("float32")
    x[1, 3] = x[4, 0] = np.nan
    x[5] = 0
    x = m.input("x", ["rows", 5], x)
    numbers = lambda *s: [float(v) for v in np.round(m.rng.standard_normal(s).ravel(), 2)]
    filled = ml("Imputer", x, imputed_value_floats=numbers(5), replaced_value_float=float("nan"), out="filled")
    scaled = ml("Scaler", filled, offset=numbers(5), scale=numbers(5), out="scaled")
    for norm in ("MAX", "L1", "L2"): m.output(ml("Normalizer", ml("Imputer", x, imputed_value_floats=[0.0], replaced_value_float=float("nan")), norm=norm, out=norm))
    m.output(ml("Binarizer", scaled, threshold=0.25, out="binary"))
    m.output(ml("FeatureVectorizer", scaled, filled, inputdimensions=[3, 6], out="vector"))
    m.output(ml("ArrayFeatureExtractor", scaled, m.const(np.array([4, 0, 4])), out="columns"))
    m.output(ml("LinearRegressor", scaled, coefficients=numbers(3, 5), intercepts=numbers(3), targets=3, post_transform="SOFTMAX", out="regressed"))
    for name, rows, after in (("three", 3, "SOFTMAX_ZERO"), ("two", 2, "LOGISTIC"), ("one", 1, "LOGISTIC")):
        m.nodes.append(helper.make_node("LinearClassifier", [scaled], [f"{name}_label", f"{name}_score"], domain="ai.onnx.ml", coefficients=numbers(rows, 5),
                                        intercepts=numbers(rows), classlabels_ints=[3, 7, 9][:max(rows, 2)], post_transform=after))
        m.output(f"{name}_label", 7), m.output(f"{name}_score")
    for kernel in ("RBF", "POLY", "SIGMOID", "LINEAR"):
        m.output(ml("SVMRegressor", scaled, coefficients=numbers(4), support_vectors=numbers(4, 5), n_supports=4, rho=[0.25], kernel_type=kernel, kernel_params=[0.1, 0.5, 3.0], out=kernel))
    n = m.input("n", ["rows", 2], m.rng.integers(0, 5, (7, 2)))
    m.output(ml("LabelEncoder", n, keys_int64s=[3, 1, 0, 3], values_int64s=[30, 10, 5, 31], default_int64=-7, out="coded"), 7)
    m.output(ml("LabelEncoder", x, keys_floats=[0.0, 0.4], values_floats=[1.5, 3.5], default_float=-1.0, out="levels"))
    m.output(ml("OneHotEncoder", n, cats_int64s=[4, 0, 2], zeros=1, out="hot"))


@case
def early(m):
    """Operators that ONNX had in its first opsets and gave up."""
    m.opset = 1
    x = m.floats("x", ["N", 3, 6, 7], [2, 3, 6, 7])
    y = m.node("ImageScaler", x, scale=0.5, bias=[0.25, -1.0, 2.0], out="scaled")
    y = m.output(m.node("Crop", y, border=[1, 2, 0, 1], out="cropped"))
    y = m.output(m.node("Affine", y, alpha=-1.5, beta=0.75, out="affine"))
    m.output(m.node("Crop", y, border=[2, 1, 0, 0], scale=[2, 3], out="part"))
    m.output(m.node("ScaledTanh", y, alpha=1.7, beta=0.6, out="tanh"))
    m.output(m.node("ParametricSoftplus", y, alpha=2.0, beta=0.5, out="softplus"))
    m.output(m.node("Scale", m.node("MeanVarianceNormalization", x, across_channels=1), scale=3.0, out="normal"))
    m.output(m.node("MeanVarianceNormalization", y, normalize_variance=0, out="centred"))


@case
def switched(m):
    """A decoder's first step and its others, as one file: an if whose sides have different shapes. Flags that follow from sizes."""
    ids, past = m.input("ids", ["batch", "seq"], [[3, 7]]), m.floats("past", ["batch", 5, "before", 4], [1, 5, 3, 4])
    first = m.input("use_past", [1], np.array([True]))
    x = m.node("Gather", m.weight(11, 20), ids, axis=0)
    key = m.node("Transpose", m.node("Reshape", m.node("MatMul", x, m.weight(20, 20)), m.const(np.array([0, 0, 5, 4]))), perm=[0, 2, 1, 3])
    def side(name, present):
        scores = [helper.make_node("Transpose", [f"{name}_keys"], [f"{name}_t"], perm=[0, 1, 3, 2]), helper.make_node("MatMul", [key, f"{name}_t"], [f"{name}_s"]),
                  helper.make_node("Softmax", [f"{name}_s"], [f"{name}_p"], axis=-1), helper.make_node("MatMul", [f"{name}_p", f"{name}_keys"], [f"{name}_y"])]
        return helper.make_graph([present] + scores, name, [], [helper.make_tensor_value_info(f"{name}_y", 1, None), helper.make_tensor_value_info(f"{name}_keys", 1, None)])
    m.node("If", first, outs=2, then_branch=side("later", helper.make_node("Concat", [past, key], ["later_keys"], axis=2)),
           else_branch=side("first", helper.make_node("Identity", [key], ["first_keys"])))
    y, keys = m.nodes[-1].output
    m.output(m.node("Relu", y, out="y")), m.output(m.node("Identity", keys, out="present"))
    z = m.floats("z", [2, 5, 3])
    around = m.node("Pad", z, m.const(np.array([0, 2, 0, 0, 1, 0])), mode="edge")
    flags = m.node("ConstantOfShape", m.node("Slice", m.node("Shape", around), m.const(np.array([1])), m.const(np.array([2]))), value=numpy_helper.from_array(np.array([True])))
    flags = m.node("ScatterElements", flags, m.const(np.array([0, -3])), m.const(np.array([False, False])))
    m.output(m.node("Compress", around, flags, axis=1, out="kept"))
    m.output(m.node("NonZero", m.node("And", flags, flags), out="places"), 7)


@case
def detected(m):
    """A detector: a network of boxes and scores, then as many of them as the data say, read again from the network; a result before that."""
    x = m.floats("x", ["N", 3, 8, 8], [2, 3, 8, 8])
    h = m.node("Relu", m.node("Conv", x, m.weight(8, 3, 3, 3), m.weight(8), pads=[1] * 4, strides=[2, 2]))
    rows = lambda y, last: m.node("Reshape", m.node("Transpose", y, perm=[0, 2, 3, 1]), m.const(np.array([0, -1, last])))
    boxes = m.node("Mul", rows(m.node("Conv", h, m.weight(8, 8, 1, 1)), 4), m.const(np.float32(0.5)), out="boxes")
    scores = m.node("Sigmoid", m.node("Transpose", m.node("Mul", rows(m.node("Conv", h, m.weight(6, 8, 1, 1)), 3), m.const(np.float32(3))), perm=[0, 2, 1]), out="scores")
    m.output(m.node("ReduceMax", scores, axes=[1, 2], keepdims=0, out="best"))
    kept = m.node("NonMaxSuppression", boxes, scores, m.const(np.array([2])), m.const(np.float32([0.4])), m.const(np.float32([0.3])), out="kept")
    column = lambda i: m.node("Slice", kept, m.const(np.array([i[0]])), m.const(np.array([i[-1] + 1])), m.const(np.array([1])))
    places = m.node("Concat", column([0]), column([2]), axis=1)
    m.output(m.node("GatherND", boxes, places, out="chosen"))
    m.output(m.node("Exp", m.node("GatherND", scores, kept), out="chances"))
    m.output(m.node("Identity", kept, out="which"), 7)
    # rows until their sum is large: how many, the data say
    total = helper.make_node("Add", ["sum", "row"], ["next"])
    more = helper.make_node("Less", ["next_1", "limit"], ["go_on"])
    one = helper.make_node("ReduceSum", ["next"], ["next_1"], keepdims=0)
    row = helper.make_node("Gather", ["row_of", "i"], ["row"], axis=0)
    m.node("ReduceMean", h, axes=[2, 3], keepdims=0, out="row_of")
    m.const(np.float32(1.5), "limit")
    value = helper.make_tensor_value_info
    body = helper.make_graph([row, total, one, more, helper.make_node("Identity", ["next"], ["seen"])], "until",
                             [value("i", 7, []), value("on", 9, []), value("sum", 1, [8])], [value("go_on", 9, []), value("next", 1, [8]), value("seen", 1, [8])])
    m.node("Loop", m.const(np.array(2)), "", m.const(np.zeros(8, "float32")), outs=2, body=body)
    last, seen = m.nodes[-1].output
    m.output(m.node("Tanh", last, out="sums")), m.output(m.node("Identity", seen, out="trips"))


@case
def experts(m):
    """Tokens go to the experts that a router picks, by NonZero for each: one gets none. Loops over what was found, sizes alone, a choice by their number."""
    tokens, width, experts = 12, 8, 4
    x = m.floats("x", ["T", width], [tokens, width])
    bias = m.input("bias", [experts], np.float32([0, 0, -100, 0]))          # the third never wins
    logits = m.node("Add", m.node("MatMul", x, m.weight(width, experts)), bias)
    gate, picked = m.node("TopK", m.node("Softmax", logits, axis=-1), m.const(np.array([2])), outs=2, axis=-1)
    y = m.node("Mul", x, m.const(np.float32(0)))
    counts = []
    for e in range(experts):
        mine = m.node("Equal", picked, m.const(np.array(e)))
        places = m.node("NonZero", m.node("Transpose", mine, perm=[1, 0]))
        rank, token = [m.node("Gather", places, m.const(np.array(k)), axis=0) for k in range(2)]
        rows = m.node("Gather", x, token, axis=0)
        h = m.node("Relu", m.node("MatMul", rows, m.weight(width, 16)))
        g = m.node("GatherND", gate, m.node("Concat", *[m.node("Unsqueeze", v, m.const(np.array([1]))) for v in (token, rank)], axis=1))
        part = m.node("Mul", m.node("MatMul", h, m.weight(16, width)), m.node("Unsqueeze", g, m.const(np.array([1]))))
        y = m.node("ScatterND", y, m.node("Unsqueeze", token, m.const(np.array([1]))), part, reduction="add")
        counts.append(m.node("Shape", token))
        m.output(m.node("ReduceMean", m.node("Concat", rows, x, axis=0), axes=[0], out=f"mean_{e}"))
    m.output(m.node("Tanh", y, out="y"))
    m.output(m.node("Concat", *counts, axis=0, out="counts"), 7)
    m.output(m.node("Exp", m.node("ConstantOfShape", counts[2], value=numpy_helper.from_array(np.float32([1]))), out="none"))
    bins = m.node("Unique", m.node("ArgMax", logits, axis=1, keepdims=0), out="bins")
    m.output(bins, 7), m.output(m.node("Gather", m.weight(experts, 3), bins, axis=0, out="bin_rows"))


@case
def nothing(m):
    """A detector's end where nothing is above its threshold: boxes, scores and labels without rows, and what is made of them."""
    x = m.floats("x", ["N", 6, 4], [2, 6, 4])
    boxes = m.node("Sigmoid", m.node("MatMul", x, m.weight(4, 4)))
    scores = m.node("Mul", m.node("Softmax", m.node("MatMul", x, m.weight(4, 3)), axis=-1), m.const(np.float32(0.01)))
    flat = m.node("Reshape", scores, m.const(np.array([-1])))
    kept = m.node("Squeeze", m.node("NonZero", m.node("Greater", flat, m.const(np.float32(0.05)))), m.const(np.array([0])), out="kept")
    m.output(kept, 7)
    chosen = m.node("Gather", flat, kept, axis=0)
    row = m.node("Div", kept, m.const(np.array(3)))
    rows = m.node("Gather", m.node("Reshape", boxes, m.const(np.array([-1, 4]))), row, axis=0)
    m.output(m.node("Mul", rows, m.const(np.float32([8, 6, 8, 6])), out="rows"))
    m.output(m.node("Mod", kept, m.const(np.array(3)), out="labels"), 7)
    m.output(m.node("MatMul", m.node("Relu", m.node("MatMul", rows, m.weight(4, 40))), m.weight(40, 5), out="features"))
    m.output(m.node("ReduceSum", m.node("Exp", chosen), keepdims=0, out="total"))
    selected = m.node("NonMaxSuppression", boxes, m.node("Transpose", scores, perm=[0, 2, 1]), m.const(np.array([3])), m.const(np.float32([0.5])), m.const(np.float32([0.5])))
    picked = m.node("GatherND", boxes, m.node("Gather", selected, m.const(np.array([0, 2])), axis=1))
    m.output(m.node("Concat", picked, m.node("Tanh", m.node("Reshape", x, m.const(np.array([-1, 4])))), axis=0, out="joined"))


@case
def found(m):
    """Nothing has a form as a kernel: a detector's end by itself, marks as places, and what differs among them."""
    boxes = m.input("boxes", ["N", "M", 4], np.abs(m.rng.standard_normal((1, 7, 4))).cumsum(axis=-1).astype(np.float32))
    scores = m.input("scores", ["N", 2, "M"], m.rng.random((1, 2, 7), dtype=np.float32))
    selected = m.node("NonMaxSuppression", boxes, scores, m.const(np.array([3])), m.const(np.float32([0.4])), m.const(np.float32([0.3])), out="selected")
    marks, labels = m.input("marks", ["N", "K"], np.array([[False, True, True, False, True]])), m.input("labels", ["K"], np.array([4, 1, 4, 0, 1]))
    m.output(selected, 7), m.output(m.node("NonZero", marks, out="places"), 7), m.output(m.node("Unique", labels, out="kinds"), 7)
    m.output(m.node("Transpose", m.node("NonZero", m.input("mask", ["M"], np.array([True, False, True, True, False, False, True]))), perm=[1, 0], out="rows"), 7)


@case
def marked(m):
    """Global attention: tokens that a mask marks see all others, and all see them; how many there are, the mask says. Their rows are written over the others'."""
    width, length = 16, 10
    x = m.floats("x", [1, "L", width], [1, length, width])
    marks = m.input("marks", [1, "L"], np.array([[1, 0, 0, 1, 0, 0, 0, 1, 0, 0]]))
    q, k, v = [m.node("MatMul", x, m.weight(width, width)) for _ in range(3)]
    at = m.node("NonZero", m.node("Greater", marks, m.const(np.array(0))))
    pairs = m.node("Transpose", at, perm=[1, 0])
    def attend(a, b, c, mask=None):
        s = m.node("Mul", m.node("MatMul", a, m.node("Transpose", b, perm=[0, 2, 1])), m.const(np.float32(0.25)))
        if mask: s = m.node("Where", mask, s, m.const(np.float32(-1e30)))
        return m.node("MatMul", m.node("Softmax", s, axis=-1), c)
    first = m.const(np.array([0]))
    chosen = [m.node("Unsqueeze", m.node("GatherND", y, pairs), first) for y in (q, k, v)]
    length_of = m.node("Squeeze", m.node("Shape", x, start=1, end=2))
    places = m.node("Range", m.const(np.array(0)), length_of, m.const(np.array(1)))
    apart = m.node("Abs", m.node("Sub", m.node("Unsqueeze", places, first), m.node("Unsqueeze", places, m.const(np.array([1])))))
    near = m.node("Less", apart, m.const(np.array(3)))
    local = attend(q, k, v, near)
    everywhere = m.node("Add", local, attend(q, chosen[1], chosen[2]))
    whole = m.node("Squeeze", attend(chosen[0], k, v), first)
    y = m.node("ScatterND", everywhere, pairs, whole)
    m.output(m.node("Relu", m.node("MatMul", y, m.weight(width, 8)), out="y"))
    m.output(m.node("ReduceMax", whole, axes=[1], keepdims=0, out="tops"))


@case
def lists(m):
    """Sequences whose lengths the model says, as exporters leave splits and lists: taken from, grown, cut, counted, put together."""
    number = lambda v: m.const(np.array(v))
    x = m.floats("x", ["N", 3, 10], [2, 3, 10])
    fours = m.node("SplitToSequence", x, number(4), axis=2)
    m.output(m.node("Mul", m.node("SequenceAt", fours, number(0)), m.node("SequenceAt", m.node("Identity", fours), number(1)), out="product"))
    m.output(m.node("Exp", m.node("SequenceAt", fours, number(-1)), out="rest"))
    sized = m.node("SplitToSequence", x, number([1, 7, 2]), axis=-1)
    m.output(m.node("Neg", m.node("SequenceAt", sized, number(1)), out="seven"))
    rows = m.node("SplitToSequence", x, axis=1, keepdims=0)
    m.output(m.node("ConcatFromSequence", rows, axis=-1, new_axis=1, out="turned"))
    one = m.node("SplitToSequence", x, axis=1)
    more = m.node("SequenceInsert", m.node("SequenceErase", one, number(0)), m.node("Abs", m.node("SequenceAt", one, number(2))), number(-1))
    m.output(m.node("ConcatFromSequence", m.node("SequenceInsert", more, m.node("Cos", x)), axis=1, out="joined"))
    m.output(m.node("SequenceLength", m.node("SequenceErase", m.node("SequenceInsert", more, x)), out="count"), 7)
    grown = m.node("SequenceInsert", m.node("SequenceEmpty", dtype=1), m.node("Sin", x))
    m.output(m.node("ConcatFromSequence", m.node("SequenceInsert", grown, x, number(0)), axis=0, out="grown"))
    pair = m.node("SequenceConstruct", x, m.node("SequenceAt", grown, number(0)))
    m.output(m.node("ConcatFromSequence", pair, axis=0, new_axis=1, out="stacked"))


@case
def bags(m):
    """EmbeddingBag as torch.onnx has it: a loop that ends by its own counter carries a list, to which each trip adds a bag's sum. Sums of what was expanded."""
    V = helper.make_tensor_value_info
    rows = m.node("Gather", m.weight(9, 4), m.node("Reshape", m.input("ids", ["N", 3], m.rng.integers(0, 9, (5, 3))), m.const(np.array([-1]))), axis=0)
    count = m.node("Gather", m.node("Shape", "ids"), m.const(np.array(0)), axis=0)
    ends = m.node("Mul", m.node("Range", m.const(np.array(0)), m.node("Add", count, m.const(np.array(1))), m.const(np.array(1))), m.const(np.array(3)))
    one, flat, first = m.const(np.array(1)), m.const(np.array([-1])), m.const(np.array([0]))
    part = [helper.make_node("Reshape", ["at", flat], ["here"]), helper.make_node("Add", ["here", one], ["next"]), helper.make_node("Add", ["next", one], ["after"]),
            helper.make_node("Slice", [ends, "here", "next"], ["start"]), helper.make_node("Slice", [ends, "next", "after"], ["end"]), helper.make_node("Equal", ["start", "end"], ["empty"])]
    empty = helper.make_graph([helper.make_node("Constant", [], ["none"], value=numpy_helper.from_array(np.zeros((1, 4), "float32")))], "empty", [], [V("none", 1, None)])
    some = helper.make_graph([helper.make_node("Slice", [rows, "start", "end"], ["bag"]), helper.make_node("ReduceSum", ["bag", first], ["some"])], "some", [], [V("some", 1, None)])
    part += [helper.make_node("If", ["empty"], ["row"], then_branch=empty, else_branch=some), helper.make_node("SequenceInsert", ["list", "row"], ["longer"]),
             helper.make_node("Add", ["at", one], ["at_next"]), helper.make_node("Less", ["at_next", count], ["go"])]
    lists = helper.make_tensor_sequence_value_info
    body = helper.make_graph(part, "body", [V("trip", 7, []), V("more", 9, []), lists("list", 1, None), V("at", 7, None)], [V("go", 9, None), lists("longer", 1, None), V("at_next", 7, None)])
    list_, _ = m.node("Loop", "", m.const(np.array(True)), m.node("SequenceEmpty"), m.const(np.array(0)), outs=2, body=body)
    m.output(m.node("Relu", m.node("ConcatFromSequence", list_, axis=0), out="bags"))
    x = m.floats("x", ["N", "T", 4], [5, 6, 4])
    shape = m.node("Shape", x)
    ones = m.node("Expand", m.const(np.float32([1])), shape)
    m.output(m.node("Log", m.node("ReduceSum", ones, m.const(np.array([0, 1])), keepdims=0), out="lengths"))
    wide = m.node("Expand", m.node("Slice", x, first, m.const(np.array([1])), m.const(np.array([1]))), shape)
    m.output(m.node("Sub", x, m.node("ReduceSum", wide, m.const(np.array([1, 2]))), out="sums"))
    m.output(m.node("Add", x, m.node("ReduceMax", wide, axes=[1]), out="tops"))
    half = m.node("Expand", m.node("Cast", m.node("Slice", x, first, m.const(np.array([1])), m.const(np.array([1]))), to=10), shape)
    m.output(m.node("Mul", x, m.node("Cast", m.node("ReduceMean", half, axes=[0, 1]), to=1), out="means"))
    pad = m.node("Concat", m.node("Concat", m.node("Abs", x), m.node("Expand", m.const(np.float32([1])), m.node("Concat", m.node("Slice", shape, first, m.const(np.array([2]))), m.const(np.array([2])), axis=0)), axis=2),
                 m.node("Expand", m.const(np.float32([1])), m.node("Concat", m.node("Slice", shape, first, m.const(np.array([1]))), m.const(np.array([1, 6])), axis=0)), axis=1)
    m.output(m.node("Sqrt", pad, out="bordered"))
    m.output(m.node("ReduceMean", m.node("Slice", x, first, first), axes=[0], out="of_nothing"))


@case
def trips(m):
    """Loops whose trips do not need each other: all as one value. Of the second the last trip is another, of the third each needs the one before."""
    V, N = helper.make_tensor_value_info, helper.make_node
    x, w = m.floats("x", [6, 3, 7]), m.weight(7, 5)
    const = lambda v: m.const(np.array(v))
    one, three, seven, k = const(1), const(3), m.const(np.full((3, 1), 0.5, "float32")), const([2])
    body = [N("Gather", [x, "trip"], ["g"]), N("MatMul", ["g", w], ["p"]), N("Softmax", ["p"], ["s0"], axis=-1), N("Transpose", ["g"], ["gt"]), N("MatMul", ["g", "gt"], ["gg"]), N("Tanh", ["gg"], ["s1"]),
            N("TopK", ["g", k], ["s2", "s3"], axis=-1), N("Concat", ["g", seven], ["c"], axis=1), N("CumSum", ["c", one], ["s4"]), N("ArgMax", ["c"], ["s5"], axis=0, keepdims=0),
            N("Less", ["trip", three], ["small"]), N("Where", ["small", "g", seven], ["s6"]), N("Add", ["count", three], ["count_next"]), N("Cast", ["count_next"], ["f"], to=1), N("Mul", ["f", "g"], ["s7"]),
            N("Identity", ["more"], ["go"])]
    given = [V("trip", 7, []), V("more", 9, []), V("count", 7, None)]
    loop = helper.make_graph(body, "each", given, [V("go", 9, None), V("count_next", 7, None)] + [V(f"s{i}", 7 if i in (3, 5) else 1, None) for i in range(8)])
    counted, *results = m.node("Loop", const(6), "", const(2), outs=9, body=loop)
    for i, r in enumerate(results):
        m.output(m.node("Identity", r, out=f"r{i}"), 7 if i in (3, 5) else 1)
    m.output(m.node("Neg", counted, out="counted"), 7)
    y, two, last, end, first = m.floats("y", [11, 4]), const([2]), const(4), const([11]), const([0])
    side = lambda name, to: helper.make_graph([N("Slice", [y, "from", to], [f"{name}_rows"]), N("ReduceMax", [f"{name}_rows"], [f"{name}_top"], axes=[0], keepdims=0)], name, [], [V(f"{name}_top", 1, None)])
    part = [N("Mul", ["t", two], ["from"]), N("Add", ["from", two], ["to"]), N("Equal", ["t", last], ["at_end"]), N("If", ["at_end"], ["top"], then_branch=side("rest", end), else_branch=side("pair", "to")), N("Identity", ["c"], ["d"])]
    part[0:0] = [N("Unsqueeze", ["t", first], ["t1"])]
    part[1] = N("Mul", ["t1", two], ["from"])
    m.output(m.node("Loop", const(5), "", out="tops", body=helper.make_graph(part, "parts", [V("t", 7, []), V("c", 9, [])], [V("d", 9, None), V("top", 1, None)])))
    run = [N("Gather", [y, "i"], ["row"]), N("Add", ["sum", "row"], ["sum_next"]), N("Tanh", ["sum_next"], ["seen"]), N("Identity", ["a"], ["b"])]
    total, seen = m.node("Loop", const(5), "", m.const(np.zeros(4, "float32")), outs=2, body=helper.make_graph(run, "run", [V("i", 7, []), V("a", 9, []), V("sum", 1, None)], [V("b", 9, None), V("sum_next", 1, None), V("seen", 1, None)]))
    m.output(m.node("Sin", total, out="total")), m.output(m.node("Cos", seen, out="seen_all"))


@case
def step(m):
    """A decoder's step, query heads in groups over caches of both kinds: some that grow, and some of a length, written at a place of an inner axis."""
    H, G, D, W = 6, 2, 8, 48
    x = m.floats("x", ["batch", 1, W], [2, 1, W])
    def heads(y, n): return m.node("Transpose", m.node("Reshape", y, m.const(np.array([0, -1, n, D]))), perm=[0, 2, 1, 3])
    def attend(q, keys, values, mask=None):
        def repeated(y):
            y = m.node("Expand", m.node("Unsqueeze", y, m.const(np.array([2]))), m.const(np.array([1, 1, H // G, 1, 1])))
            return m.node("Reshape", y, m.const(np.array([0, H, -1, D])))
        s = m.node("Mul", m.node("MatMul", q, m.node("Transpose", repeated(keys), perm=[0, 1, 3, 2])), m.const(np.float32(D ** -0.5)))
        if mask: s = m.node("Where", mask, s, m.const(np.float32(-3.4e38)))
        y = m.node("MatMul", m.node("Softmax", s, axis=-1), repeated(values))
        return m.node("Reshape", m.node("Transpose", y, perm=[0, 2, 1, 3]), m.const(np.array([0, 0, W])))
    def layer(x):
        return heads(m.node("MatMul", x, m.weight(W, W)), H), [heads(m.node("MatMul", x, m.weight(W, G * D)), G) for _ in range(2)]
    def after(x, y): return m.node("Relu", m.node("Add", x, m.node("MatMul", y, m.weight(W, W))))
    q, new = layer(x)
    grown = [m.node("Concat", m.floats(n, ["batch", G, "past", D], [2, G, 69, D]), y, axis=2, out=f"{n}_next") for n, y in zip(("keys", "values"), new)]
    x = after(x, attend(q, *grown))
    q, new = layer(x)
    at = m.input("at", [1], np.array([3]))
    def written(name, y):
        past = m.node("Transpose", m.floats(name, ["batch", G, 7, D], [2, G, 7, D]), perm=[2, 0, 1, 3])
        past = m.node("ScatterND", past, m.node("Unsqueeze", at, m.const(np.array([-1]))), m.node("Transpose", y, perm=[2, 0, 1, 3]))
        return m.node("Transpose", past, perm=[1, 2, 0, 3], out=name + "_next")
    kept = [written(f"{n}_of_7", y) for n, y in zip(("keys", "values"), new)]
    mask = m.node("LessOrEqual", m.const(np.arange(7)), at)
    m.output(m.node("Identity", after(x, attend(q, *kept, mask)), out="y"))
    for name in grown + kept: m.output(name)


@case
def caches(m):
    """Three layers with caches whose dimensions have no names, masks as long as past and new tokens: positions picked by GatherND, and added."""
    heads, size, width = 2, 4, 8
    x, mask = m.floats("x", ["batch", "seq", width], [2, 3, width]), m.input("mask", ["batch", "past + seq"], np.array([[0, 1, 1, 1, 1, 1, 1], [1] * 7]))
    bias = m.floats("bias", ["batch", 1, "seq", "total"], [2, 1, 3, 7])
    past = [[m.floats(f"past.{l}.{w}", ["batch", heads, "past" if l + n == 0 else None, size], [2, heads, 4, size]) for n, w in enumerate(("key", "value"))] for l in range(3)]
    one, zero = m.const(np.array(1)), m.const(np.array(0))
    def extent(y, axis): return m.node("Squeeze", m.node("Shape", y, start=axis, end=axis + 1))
    def counted(n, axes): return m.node("Unsqueeze", m.node("Range", zero, n, one), m.const(np.array(axes)))
    batch, new, rows = extent(x, 0), extent(x, 1), m.node("Add", extent(x, 1), extent(past[0][0], 2))
    shape = m.node("Concat", *[m.node("Unsqueeze", d, m.const(np.array([0]))) for d in (batch, one, one, rows)], axis=0)
    at = [m.node("Unsqueeze", m.node("Expand", n, shape), m.const(np.array([4]))) for n in (counted(batch, [1, 2, 3]), counted(rows, [0, 1, 2]))]
    seen = m.node("GatherND", m.node("Cast", mask, to=9), m.node("Concat", *at, axis=-1))
    causal = m.node("LessOrEqual", counted(rows, [0]), m.node("Add", counted(new, [1]), extent(past[0][0], 2)))
    hidden = m.node("Where", m.node("And", m.node("Unsqueeze", m.node("Unsqueeze", causal, m.const(np.array([0]))), m.const(np.array([0]))), seen), m.const(np.float32(0)), m.const(np.float32(-1e9)))
    present = []
    for layer, (key, value) in enumerate(past):
        q, k, v = [m.node("Transpose", m.node("Reshape", m.node("MatMul", x, m.weight(width, width)), m.const([0, 0, heads, size])), perm=[0, 2, 1, 3]) for _ in range(3)]
        k, v = [m.node("Concat", old, y, axis=2, out=f"present.{layer}.{w}") for old, y, w in ((key, k, "key"), (value, v, "value"))]
        present += [k, v]
        s = m.node("Add", m.node("MatMul", q, m.node("Transpose", k, perm=[0, 1, 3, 2])), hidden)
        y = m.node("MatMul", m.node("Softmax", m.node("Add", s, bias)), v)
        x = m.node("Add", x, m.node("MatMul", m.node("Reshape", m.node("Transpose", y, perm=[0, 2, 1, 3]), m.const([0, 0, width])), m.weight(width, width)))
    m.output(m.node("Tanh", x, out="y"))
    for name in present: m.output(name)


@case
def names(m):
    """80 lengths without names, whose kernels are the same but for them; a length that is another one and more, read in part."""
    w = m.weight(4, 6)
    sums = [m.node("ReduceSum", m.node("Relu", m.node("MatMul", m.floats(f"x.{i}", [None, None, 4], [1 + i % 5, 2 + i % 3, 4]), w)), m.const(np.array([0, 1])), keepdims=0) for i in range(40)]
    for y in sums[1:]: sums[0] = m.node("Add", sums[0], y)
    m.output(m.node("Tanh", sums[0], out="y"))
    z = m.floats("z", ["n + 1", 4], [4, 4])
    m.output(m.node("Mul", m.floats("u", ["n", 4], [3, 4]), m.node("Slice", z, m.const(np.array([0])), m.const(np.array([-1])), m.const(np.array([0]))), out="read"))


@case
def quoted(m):
    """Names with quotes, backslashes, ends of lines and what would end a comment or a block; of weights, values, nodes, the graph."""
    x = m.floats("x\ny", ["n", 5], [3, 5])
    v = m.node("MatMul", x, m.weight(5, 4, name='w;"\\\n\t}'), out='a\n"b"')
    m.output(m.node("Add", v, m.const(np.float32([1, 2, 3, 4]), 'b\r'), out="out\n1"))
    m.nodes[0].name, m.nodes[1].name, m.title = "MatMul\n}", "Add */ x", "quoted\nkernel"


@case
def resized(m):
    """Pictures resized to sizes that are names: all ways, up and down; sizes that go through floats and quotients on their way."""
    x, y = m.floats("x", ["n", 2, "h", "w"], [1, 2, 5, 7]), m.floats("y", ["n", 2, "p", "q"], [1, 2, 9, 4])
    none, end = m.const(np.zeros(0, np.float32)), iter("abcdefghijkl")
    def to(**how): m.output(m.node("Resize", x, none, none, sizes, out=next(end), **how))
    sizes = m.node("Concat", m.node("Shape", x, start=0, end=2), m.node("Shape", y, start=2), axis=0)
    to(mode="linear")
    to(mode="linear", coordinate_transformation_mode="align_corners")
    to(mode="linear", coordinate_transformation_mode="pytorch_half_pixel")
    to(mode="cubic")
    to(mode="cubic", coordinate_transformation_mode="asymmetric", cubic_coeff_a=-0.5, exclude_outside=1)
    to(mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
    to(mode="nearest", nearest_mode="round_prefer_ceil")
    to(mode="nearest", coordinate_transformation_mode="align_corners", nearest_mode="ceil")
    m.output(m.node("Resize", x, none, m.const(np.array([1, 1, 1.5, 0.75], np.float32)), out=next(end), mode="linear"))
    floats = [m.node("Cast", m.node("Shape", v, start=2), to=1) for v in (x, y)]
    scales = m.node("Concat", m.const(np.ones(2, np.float32)), m.node("Div", floats[1], floats[0]), axis=0)
    m.output(m.node("Resize", x, none, scales, out=next(end), mode="linear"))
    height, width = m.node("Split", m.node("Shape", x, start=2), axis=0, outs=2, num_outputs=2)
    one, two, zero = m.const(np.array(1, np.float32)), m.const(np.array([2], np.float32)), m.const(np.array([0]))
    even = m.node("Cast", m.node("Mul", m.node("Ceil", m.node("Div", m.node("Cast", height, to=1), two)), two), to=7)
    more = m.node("Concat", m.const(np.zeros(6, np.int64)), m.node("Sub", even, height), zero, axis=0)
    m.output(m.node("Pad", x, more, out=next(end)))
    steps = m.node("Range", m.const(np.array(0.5, np.float32)), m.node("Cast", m.node("Squeeze", width), to=1), one)
    few = m.node("Add", m.node("Div", m.node("Sub", height, m.const(np.array([1]))), m.const(np.array([4]))), m.const(np.array([1])))
    m.output(m.node("Expand", steps, m.node("Concat", few, width, axis=0), out=next(end)))


@case
def gates(m):
    """Columns of one product that meet: gated layers of one matrix, with biases and by channels of a convolution, three ways apart; recurrent cells, from zeros and from states, of named batches."""
    x = m.floats("x", ["B", 5, 16], [3, 5, 16])
    up = m.node("Add", m.node("MatMul", x, m.weight(16, 64)), m.weight(64))
    a, b = m.node("Split", up, axis=2, outs=2)
    m.output(m.node("Mul", m.node("Mul", a, m.node("Sigmoid", a)), b, out="gated"))
    q, k, v = m.node("Split", m.node("Gemm", m.node("Reshape", x, m.const(np.array([-1, 16]))), m.weight(48, 16), transB=1), axis=1, outs=3)
    m.output(m.node("Add", m.node("Mul", q, m.node("Tanh", k)), v, out="three"))
    state, cell = m.floats("state", ["B", 16], [3, 16]), m.floats("cell", ["B", 16], [3, 16])
    wide = m.node("MatMul", state, m.weight(16, 48))                     # of which one part is also for something else: it stays whole
    g, h, i = m.node("Split", wide, axis=1, outs=3)
    m.output(m.node("Mul", m.node("Mul", g, h), i, out="whole")), m.output(m.node("ReduceMax", h, axes=[1], keepdims=0, out="top"))
    c = m.node("Conv", m.floats("picture", ["B", 4, 9], [3, 4, 9]), m.weight(32, 4, 3), m.weight(32), pads=[1, 1])
    left, right = m.node("Split", c, axis=1, outs=2)
    m.output(m.node("Mul", left, m.node("Sigmoid", right), out="channels"))
    for name, w in (("first", m.weight(16, 64)), ("second", m.weight(16, 64))):          # one step, as a program of its own would have it
        from_x, from_h = m.node("MatMul", m.node("Gather", x, m.const(np.array(0)), axis=1), w), m.node("MatMul", state, m.weight(16, 64))
        i, f, o, g = m.node("Split", m.node("Add", from_x, from_h), axis=1, outs=4)
        cell = m.node("Add", m.node("Mul", m.node("Sigmoid", f), cell), m.node("Mul", m.node("Sigmoid", i), m.node("Tanh", g)))
        state = m.node("Mul", m.node("Sigmoid", o), m.node("Tanh", cell))
    m.output(m.node("Identity", state, out="next_state")), m.output(m.node("Identity", cell, out="next_cell"))
    steps = m.floats("steps", [11, "B", 6], [11, 3, 6])
    def cells(op, n, **more):
        W, R, B = m.weight(1, n * 8, 6), m.weight(1, n * 8, 8), m.weight(1, 2 * n * 8)
        return m.node(op, steps, W, R, B, outs=3 if op == "LSTM" else 2, hidden_size=8, **more)
    for op, n, more in (("LSTM", 4, {}), ("GRU", 3, {"linear_before_reset": 1}), ("GRU", 3, {})):
        results = cells(op, n, **more)
        for r in results: m.output(m.node("Identity", r, out=f"{op}{more.get('linear_before_reset', '')}_{results.index(r)}"))


@case
def sequences(m):
    """Steps as one writes them: of x W + h U with the batch outside, of one product for both with a head at each step, backwards, two after one another; and operators whose rows are no whole 16 bytes."""
    steps, x, y = 12, m.floats("x", ["B", 12, 5], [3, 12, 5]), m.floats("y", [12, "B", 6], [12, 3, 6])
    def at(t, v, axis): return m.node("Gather", v, m.const(np.array(t)), axis=axis)
    def zeros(n): return m.node("Expand", m.const(np.zeros((1, n), np.float32)), m.node("Concat", m.node("Shape", x, start=0, end=1), m.const(np.array([n])), axis=0))
    def stacked(v, axis, name): m.output(m.node("Concat", *[m.node("Unsqueeze", s, m.const(np.array([axis]))) for s in v], axis=axis, out=name))
    def lstm(inputs, n, hidden):
        w, u, b, h, c, out = m.weight(4 * hidden, n), m.weight(4 * hidden, hidden), m.weight(4 * hidden), zeros(hidden), zeros(hidden), []
        for v in inputs:
            i, f, g, o = m.node("Split", m.node("Add", m.node("Gemm", v, w, b, transB=1), m.node("Gemm", h, u, transB=1)), axis=1, outs=4)
            c = m.node("Add", m.node("Mul", m.node("Sigmoid", f), c), m.node("Mul", m.node("Sigmoid", i), m.node("Tanh", g)))
            h = m.node("Mul", m.node("Sigmoid", o), m.node("Tanh", c))
            out.append(h)
        return out
    stacked(lstm(lstm([at(t, x, 1) for t in range(steps)], 5, 6), 6, 6), 1, "two")
    w, b, v, h, heads = m.weight(13, 7), m.weight(7), m.weight(7, 4), zeros(7), [None] * steps
    for t in reversed(range(steps)):
        h = m.node("Tanh", m.node("Add", m.node("MatMul", m.node("Concat", at(t, y, 0), h, axis=1), w), b))
        heads[t] = m.node("Softmax", m.node("MatMul", h, v), axis=-1)
    stacked(heads, 0, "heads")
    for op, n, more in (("LSTM", 4, {}), ("GRU", 3, {"linear_before_reset": 1}), ("RNN", 1, {})):
        small = [m.const((m.rng.standard_normal(s) / 4).astype(np.float32)) for s in ((1, n * 10, 6), (1, n * 10, 10), (1, 2 * n * 10))]
        all, last = m.node(op, y, *small, outs=3 if op == "LSTM" else 2, hidden_size=10, **more)[:2]
        m.output(m.node("Identity", all, out=op)), m.output(m.node("Identity", last, out=op + "_last"))


@case
def norms(m):
    """Norms between products, which leave them nothing but a row's numbers where the model is of 16 bits: before products, behind sums, by a mean or without, of a bias and a scale; a value that is wanted elsewhere, and rows that nobody counts."""
    x, width = m.floats("x", [2, 40, 48]), 128
    def layer(v, **more): return m.node("LayerNormalization", v, m.const((1 + m.rng.standard_normal(width) / 4).astype(np.float32)), m.const((m.rng.standard_normal(width) / 4).astype(np.float32)), axis=-1, **more)
    def root(v):
        square = m.node("ReduceMean", m.node("Mul", v, v), axes=[2], keepdims=1)
        return m.node("Mul", m.node("Div", v, m.node("Sqrt", m.node("Add", square, m.const(np.float32(1e-6))))), m.const((1 + m.rng.standard_normal(width) / 4).astype(np.float32)))
    def linear(v, n, k): return m.node("Add", m.node("MatMul", v, m.weight(n, k)), m.weight(k))
    h = linear(x, 48, width)
    h = m.node("Add", h, linear(m.node("Relu", linear(layer(h), width, 64)), 64, width))                # before
    v = root(h)
    h = m.node("Add", h, linear(m.node("Mul", m.node("Sigmoid", linear(v, width, 32)), linear(v, width, 32)), 32, width))
    h = layer(m.node("Add", h, m.const(np.float32(1))))                                                 # of a mean of 1, behind a sum; added again
    h = layer(m.node("Add", h, linear(linear(h, width, 32), 32, width)))
    m.output(m.node("Identity", h, out="hidden")), m.output(m.node("Identity", linear(h, width, 8), out="head"))
    n = m.floats("n", ["N", 48], [70, 48])
    m.output(m.node("Identity", linear(layer(linear(n, 48, width)), width, 8), out="named"))


@case
def nearly(m):
    """What is made as norms are, between products, and is none: of cubes, of a mean scaled otherwise than the row, another row's, or of too many; a sum about another row's mean."""
    h, o, one = (m.node("MatMul", m.floats(name, [2, 40, 16]), m.weight(16, 64)) for name in ("x", "y", "z"))
    def number(v): return m.const(np.float32(v))
    def mean(v): return m.node("ReduceMean", v, axes=[2], keepdims=1)
    def root(v, by=1): return m.node("Sqrt", m.node("Add", v, number(by)))
    def end(v, out): m.output(m.node("MatMul", v, m.weight(64, 8), out=out))
    def square(v): return m.node("Mul", v, v)
    end(m.node("Div", h, root(square(mean(m.node("Pow", h, number(3)))))), "cubes")
    end(m.node("Sub", m.node("Div", o, root(mean(square(o)))), m.node("Div", m.node("Add", mean(o), number(3)), root(mean(square(o)), 8))), "scales")
    end(m.node("Sub", m.node("Mul", one, root(mean(square(one)))), m.node("Mul", mean(one), root(mean(square(one)), 50))), "means")
    end(m.node("Div", m.node("Sub", h, mean(o)), root(mean(square(m.node("Sub", h, mean(o)))))), "others")
    end(m.node("Mul", m.node("Sub", one, m.node("Div", m.node("ReduceSum", one, m.const(np.array([2])), keepdims=1), number(32))), root(mean(square(one)))), "many")


@case
def sinks(m):
    """A column of its own beside the scores of queries and keys, those before and those that come, before their softmax: how many there are is a sum of names and one, and no tensor's."""
    q, past, k = m.floats("q", ["B", 2, "S", 8], [2, 2, 3, 8]), m.floats("past", ["B", 2, "P", 8], [2, 2, 4, 8]), m.floats("k", ["B", 2, "S", 8], [2, 2, 3, 8])
    keys = m.node("Concat", past, k, axis=2)
    scores = m.node("MatMul", q, m.node("Transpose", keys, perm=[0, 1, 3, 2]))
    shape = m.node("Concat", m.node("Shape", scores, start=0, end=3), m.const(np.array([1])), axis=0)
    sink = m.node("Expand", m.const(m.rng.standard_normal((1, 2, 1, 1)).astype(np.float32)), shape)
    p = m.node("Softmax", m.node("Concat", scores, sink, axis=3), axis=3)
    p = m.node("Slice", p, m.const(np.array([0])), m.const(np.array([-1])), m.const(np.array([3])))
    m.output(m.node("MatMul", p, keys, out="y")), m.output(m.node("Identity", keys, out="keys"))


@case
def scaled(m):
    """Pictures of any size through windows: what is as large as what, and what is divided by the greatest of all or made bytes by it."""
    def conv(v, n, k, **how): return m.node("Relu", m.node("Conv", v, m.weight(n, k, 3, 3), **how))
    def two(v, **how): return m.node("MaxPool", v, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, **how)
    x = m.floats("x", ["N", 3, "H", "W"], [2, 3, 21, 18])
    y = conv(x, 8, 3)                                                                               # H - 2
    m.output(m.node("Div", y, m.node("ReduceMax", y, keepdims=0), out="all"))
    pooled = conv(two(two(two(x))), 8, 3, pads=[1, 1, 1, 1])
    strided = x
    for k in (3, 8, 8): strided = conv(strided, 8, k, strides=[2, 2], pads=[1, 1, 1, 1])
    m.output(m.node("Add", pooled, strided, out="alike"))                                           # (H + 7) / 8, both
    far = m.node("MaxPool", y, kernel_shape=[2, 2], strides=[3, 3], ceil_mode=1)                    # some begin outside
    m.output(m.node("Div", far, m.node("ReduceMax", far, keepdims=0), out="far"))
    m.output(m.node("DynamicQuantizeLinear", two(y), outs=3)[1])
    def number(v): return m.const(np.float32(v))
    def padding(v, axis, k, step):                                                                  # as PyTorch's exporter writes what TensorFlow calls SAME
        size = m.node("Cast", m.node("Gather", m.node("Shape", v), m.const(np.array(axis)), axis=0), to=1)
        span = m.node("Mul", m.node("Sub", m.node("Ceil", m.node("Div", size, number(step))), number(1)), number(step))
        all = m.node("Clip", m.node("Sub", m.node("Add", m.node("Add", span, number(k - 1)), number(1)), size), number(0))
        half = m.node("Cast", m.node("Cast", m.node("Div", all, number(2)), to=7), to=1)
        return [m.node("Unsqueeze", m.node("Cast", p, to=7), m.const(np.array([0]))) for p in (half, m.node("Sub", all, half))]
    same = x
    for k, c, n in ((3, 3, 8), (5, 8, 8), (3, 8, 8)):
        (top, bottom), (left, right) = padding(same, 2, k, 2), padding(same, 3, k, 2)
        none = m.const(np.array([0, 0]))
        same = m.node("Conv", m.node("Pad", same, m.node("Concat", none, top, left, none, bottom, right, axis=0)), m.weight(n, c, k, k), strides=[2, 2])
    m.output(m.node("Add", same, strided, out="same"))


@case
def own(m):
    """What bodies and functions have of their own: two of one name, a side of an if that these sizes do not fit; dimensions called "?", or alike though they are not."""
    x, z = m.floats("x", ["?", "?"], [3, 40]), m.floats("z", ["None", "None"], [2, 24])
    rate, flag = m.input("rate", [], np.array(16)), m.input("flag", [1], np.array([False]))
    def side(name, x, rows):                                                                        # relu(x w) table
        w = numpy_helper.from_array((m.rng.standard_normal((rows, 8)) / np.sqrt(rows)).astype("float32"), "w")
        table = numpy_helper.from_array(m.rng.standard_normal((8, 5)).astype("float32"))
        nodes = [helper.make_node("MatMul", [x, "w"], [f"{name}_1"]), helper.make_node("Relu", [f"{name}_1"], [f"{name}_2"]),
                 helper.make_node("Constant", [], ["table"], value=table), helper.make_node("MatMul", [f"{name}_2", "table"], [f"{name}_3"])]
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(f"{name}_3", 1, None)], [w])
    m.output(m.node("If", m.node("Equal", rate, m.const(np.array(16))), then_branch=side("a", x, 40), else_branch=side("b", x, 60), out="one"))
    m.output(m.node("If", flag, then_branch=side("c", z, 24), else_branch=side("d", z, 24), out="either"))
    for name, op in (("Shifted", "Add"), ("Stretched", "Mul")):
        row = numpy_helper.from_array(m.rng.standard_normal(24).astype("float32"))
        body = [helper.make_node("Constant", [], ["row"], value=row), helper.make_node(op, ["v", "row"], ["y"])]
        m.functions.append(helper.make_function("local", name, ["v"], ["y"], body, [helper.make_opsetid("", m.opset)]))
        m.output(m.node(name, z, domain="local"))
    m.output(m.node("Exp", m.floats("u", ["size", "size"], [2, 3])))                              # one name, two sizes
    # one number, [] here and [1] there: sides of an if, what a loop carries
    def one(name, shape, value): return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.full(shape, value, "float32")))
    def chosen(name, shape, value): return helper.make_graph([one(name, shape, value)], name, [], [helper.make_tensor_value_info(name, 1, shape)])
    m.output(m.node("Add", m.node("If", flag, then_branch=chosen("scalar", [], 2), else_branch=chosen("single", [1], 3)), z))
    steps = [helper.make_node("Add", ["sum", "sum"], ["twice"]), one("unit", [1], 1), helper.make_node("Add", ["twice", "unit"], ["next"]),
             helper.make_node("Less", ["next", "limit"], ["wide"]), helper.make_node("Squeeze", ["wide"], ["go_on"])]
    body = helper.make_graph(steps, "body", [helper.make_tensor_value_info("i", 7, []), helper.make_tensor_value_info("go", 9, []), helper.make_tensor_value_info("sum", 1, None)],
                             [helper.make_tensor_value_info("go_on", 9, []), helper.make_tensor_value_info("next", 1, None)])
    m.input("limit", [], np.float32(1000))
    m.output(m.node("Reshape", m.node("Loop", "", m.const(np.array(True)), m.node("ReduceMax", z, keepdims=0), body=body), m.const(np.array([1]))))


@case
def dynamic(m):
    """As ONNX Runtime's quantize_dynamic leaves networks: scales and zero points that the data say, weights about 0, 128 and anything else."""
    def bytes(*shape, dtype="int8"):
        return m.const(m.rng.integers(*((-127, 128) if dtype == "int8" else (0, 256)), shape).astype(dtype))
    def product(op, x, w, zero=None, scale=0.01, **how):
        q, s, z = m.node("DynamicQuantizeLinear", x, outs=3)
        y = m.node("Cast", m.node(op, q, w, z, *([] if zero is None else [m.const(zero)]), **how), to=1)
        return m.node("Mul", y, m.node("Mul", s, m.const(np.float32(scale))))
    x = m.floats("x", ["batch", "seq", 20], [2, 7, 20])
    y = m.node("Relu", product("MatMulInteger", x, bytes(20, 24)))
    y = m.node("Relu", product("MatMulInteger", y, bytes(24, 16, dtype="uint8"), np.uint8(128), 1e-3))
    m.output(product("MatMulInteger", y, bytes(16, 12, dtype="uint8"), np.uint8(77), 1e-3))
    m.output(product("MatMulInteger", y, bytes(16, 12), m.rng.integers(-9, 10, 12).astype("int8"), 1e-3))
    p = m.floats("p", ["batch", 3, "H", "W"], [2, 3, 11, 9])
    p = m.node("Relu", product("ConvInteger", p, bytes(8, 3, 3, 3), pads=[1, 1, 1, 1]))
    m.output(product("ConvInteger", p, bytes(8, 8, 3, 3, dtype="uint8"), np.uint8(128), 1e-3, pads=[0, 1, 2, 1], strides=[2, 2]))
    m.output(product("ConvInteger", p, bytes(6, 8, 1, 1, dtype="uint8"), np.uint8(120), 1e-3))


@case
def windows(m):
    """Attention's windows of a picture whose height and width are names, the second time shifted: pictures are as many as windows over those of one picture."""
    c, four = 6, m.const(np.array([4]))
    x = m.floats("x", ["n", "h", "w", c], [2, 8, 12, c])
    n, h, w = m.node("Split", m.node("Shape", x, end=3), axis=0, outs=3, num_outputs=3)
    hs, ws, channels, left = m.node("Div", h, four), m.node("Div", w, four), m.const(np.array([c])), m.const(np.array([-1]))
    def shape(*sizes): return m.node("Concat", *sizes, axis=0)
    def rolled(v, by):
        for axis in (1, 2):
            at, end, to = m.const(np.array([by])), m.const(np.array([2 ** 40])), m.const(np.array([axis]))
            v = m.node("Concat", m.node("Slice", v, at, end, to), m.node("Slice", v, m.const(np.array([0])), at, to), axis=axis)
        return v
    for shift in (0, 2):
        v = rolled(x, shift) if shift else x
        v = m.node("Transpose", m.node("Reshape", v, shape(n, hs, four, ws, four, channels)), perm=[0, 1, 3, 2, 4, 5])
        v = m.node("Softmax", m.node("MatMul", m.node("Reshape", v, shape(left, m.const(np.array([16])), channels)), m.weight(c, c)), axis=1)
        pictures = m.node("Div", m.node("Shape", v, end=1), m.node("Div", m.node("Div", m.node("Mul", h, w), four), four))
        v = m.node("Transpose", m.node("Reshape", v, shape(pictures, hs, ws, four, four, left)), perm=[0, 1, 3, 2, 4, 5])
        v = m.node("Reshape", v, shape(pictures, h, w, left))
        x = m.node("Add", x, rolled(v, -shift) if shift else v)
    m.output(x)


@case
def spans(m):
    """Reductions, scans and sorts over parts of dimensions that have names: no tensor has their lengths."""
    x = m.floats("x", ["B", "T", 4], [2, 7, 4])
    def part(first, end): return m.node("Slice", x, m.const(np.array([first])), m.const(np.array([end])), m.const(np.array([1])))
    for v in (part(0, -1), part(0, 5), part(-3, 2 ** 40)):
        m.output(m.node("ReduceMean", v, axes=[0, 1, 2]))
        m.output(m.node("ReduceSum", v, m.const(np.array([1]))))
        m.output(m.node("ArgMax", v, axis=1), 7)
        m.output(m.node("ReduceMax", m.node("Softmax", v, axis=1), axes=[1]))
        m.output(m.node("CumSum", v, m.const(np.array(1))))
        m.output(m.node("TopK", v, m.const(np.array([2])), axis=1, outs=2)[0])
        m.output(m.node("ReduceProd", v, axes=[1, 2], keepdims=0))
    m.again(x=[3, 9, 4])


@case
def meeting(m):
    """Scatters that no atomic can combine, on axes of one and two elements, at places that are known."""
    def scatter(shape, at, updates, how, axis):
        x = m.floats(f"x{len(m.inputs)}", shape)
        u = m.floats(f"u{len(m.inputs)}", np.shape(at)) if updates is None else m.const(np.full(np.shape(at), updates, "float32"))
        m.output(m.node("ScatterElements", x, m.const(np.array(at)), u, reduction=how, axis=axis))
    for how in ("max", "min", "mul"):
        scatter([2], [1], 0.5, how, 0)
        scatter([2], [1, 1, 1], None, how, 0)
        scatter([2], [-1, -1], 1.5, how, 0)
        scatter([1], [0], None, how, 0)
        scatter([1], [0, 0, -1], 0.5, how, 0)
        scatter([5, 2], [[1], [1]], 0.5, how, 1)
        scatter([5, 2], [[1, 0], [4, 0]], None, how, 0)
        scatter([5, 2], [[0, 0]], 0.5, how, 0)


@case
def alike(m):
    """Products of what is the same along the sum, or has one element there: one, several with one left operand, an attention's, whose keys may be the same, too."""
    x, y, z = m.floats("x", ["M", 1], [4, 1]), m.floats("y", [1, 5]), m.floats("z", ["M", "K"], [4, 20])
    rows = m.node("Shape", z)
    columns = m.node("Concat", m.node("Shape", z, start=1), m.const(np.array([5])), axis=0)
    def size(*n): return m.const(np.array(n))
    def product(a, b): return m.node("MatMul", a, b)
    left, right = m.node("Expand", x, rows), m.node("Expand", y, columns)
    three = product(m.node("Expand", x, size(1, 3)), m.node("Tile", y, size(3, 1)))
    m.output(m.node("Relu", three)), m.output(m.node("Exp", product(left, right)))
    two = m.node("ConstantOfShape", rows, value=numpy_helper.from_array(np.array([2], "float32")))
    m.output(product(two, m.node("Transpose", two)))
    w = m.node("Expand", m.node("Slice", y, size(0), size(1), size(1)), columns)
    m.output(m.node("Add", product(z, m.node("Mul", w, right)), product(left, right)))
    wide, flat = m.node("Expand", m.floats("a", [3, 7, 1]), size(3, 7, 16)), m.node("Expand", m.floats("b", [3, 1, 5]), size(3, 16, 5))
    m.output(m.node("Mul", m.node("Sigmoid", product(wide, m.floats("c", [3, 16, 5]))), m.node("Tanh", product(wide, flat))))
    q, k, v = (m.floats(name, shape) for name, shape in (("q", [2, 9, 1]), ("k", [2, 20, 1]), ("v", [2, 20, 6])))
    def attention(q, k): return product(m.node("Softmax", product(q, m.node("Transpose", k, perm=[0, 2, 1])), axis=2), v)
    m.output(attention(q, k))
    m.output(attention(m.node("Expand", q, size(2, 9, 8)), m.node("Expand", k, size(2, 20, 8))))
    m.output(attention(m.floats("p", [2, 9, 8]), m.node("Expand", m.floats("s", [2, 1, 8]), size(2, 20, 8))))


@case
def past(m):
    """f8 of what they cannot hold, without saturating: infinity of the kind that has it, NaN of the other."""
    edges = [0, 1.1, 448, 464, 465, 470, 57344, 61439, 65536, 1e30, np.inf]
    x = m.input("x", ["n"], np.array(edges + [-e for e in edges] + [np.nan], "float32"))
    for kind in (17, 19):
        m.output(m.node("Cast", m.node("Cast", x, to=kind, saturate=0), to=1))
        m.weights.append(helper.make_tensor(f"zero{kind}", kind, [], [0]))
        q = m.node("QuantizeLinear", x, m.const(np.float32(2)), f"zero{kind}", saturate=0)
        m.output(m.node("DequantizeLinear", q, m.const(np.float32(2)), f"zero{kind}"))


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        model = Model(name, OPSETS.get(name, 17))
        CASES[name](model)
        model.save()
