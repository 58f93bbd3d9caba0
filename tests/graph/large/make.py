#!/usr/bin/env python3
"""Models whose sizes matter: what is chosen where there is much. They have no weights (--random-weights) and nothing recorded: `tkc diff`
compares each with the interpreter. python3 make.py, in the folder where the models are to be."""
import onnx
from onnx import TensorProto, helper


class Model:
    def __init__(self, name):
        self.name, self.nodes, self.weights, self.inputs, self.outputs = name, [], [], [], []

    def input(self, name, *shape):
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def weight(self, *shape):
        name = f"w{len(self.weights)}"
        t = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
        t.external_data.add(key="location", value=f"{name}.bin")
        self.weights.append(t)
        return name

    def ints(self, *values):
        name = f"c{len(self.weights)}"
        self.weights.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        return name

    def floats(self, *values):
        name = f"c{len(self.weights)}"
        self.weights.append(helper.make_tensor(name, TensorProto.FLOAT, [len(values)], values))
        return name

    def node(self, op, *inputs, out=None, **attributes):
        out = out or f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [out], name=f"{op}_{len(self.nodes)}", **attributes))
        return out

    def output(self, name):
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))

    def save(self):
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
        with open(f"{self.name}.onnx", "wb") as f:
            f.write(model.SerializeToString())


m = Model("across")                                      # results with channels first, by rows of a transposed product; pixels of 16 bytes and not
x = m.input("x", 2, 16, 32, 32)
m.output(m.node("Relu", m.node("Conv", x, m.weight(128, 16, 3, 3), m.weight(128), pads=[1, 1, 1, 1]), out="padded"))
m.output(m.node("Conv", m.input("y", 2, 16, 35, 35), m.weight(128, 16, 3, 3), out="odd"))
m.output(m.node("Conv", m.input("p", 2, 40, 32, 34), m.weight(128, 40, 1, 1), m.weight(128), out="pixels"))
m.save()

m = Model("phases")                                      # strided transposed convolutions: weights of six dimensions, results in order by themselves
x = m.input("x", 1, 16, 6, 16, 16)
m.output(m.node("ConvTranspose", x, m.weight(16, 32, 3, 3, 3), m.weight(32), strides=[2, 2, 2], pads=[1] * 6, output_padding=[1, 1, 1], out="volume"))
m.output(m.node("Relu", m.node("ConvTranspose", m.input("y", 2, 16, 92, 92), m.weight(16, 16, 3, 3), strides=[2, 2], pads=[1] * 4, output_padding=[1, 1]), out="even"))
m.save()

m = Model("turned")                                      # pools of channels-first pictures that a convolution reads with channels last
x = m.input("x", 2, 40, 36, 35)
m.output(m.node("ReduceMax", m.node("Conv", m.node("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4), m.weight(16, 40, 1, 1)), m.ints(2, 3), out="most"))
y = m.node("AveragePool", m.input("y", 1, 34, 8, 70, 72), kernel_shape=[2, 2, 2], strides=[2, 2, 2])
m.output(m.node("ReduceSum", m.node("Conv", y, m.weight(16, 34, 3, 3, 3)), m.ints(2, 3, 4), out="mean"))
m.save()

m = Model("rows")                                        # what is reduced over a product's columns, in its kernel; but not where a row leaves a number
x = m.input("x", 1, 64, 130, 130)
m.output(m.node("Softmax", m.node("Transpose", m.node("Conv", x, m.weight(64, 64, 1, 1), m.weight(64)), perm=[0, 2, 3, 1]), axis=-1, out="soft"))
z = m.input("z", 16640, 40)
m.output(m.node("ReduceLogSumExp", m.node("Add", m.node("MatMul", z, m.weight(40, 96)), m.weight(96)), m.ints(1), keepdims=1, out="sum"))
m.output(m.node("LayerNormalization", m.node("MatMul", m.node("Relu", z), m.weight(40, 160)), m.weight(160), m.weight(160), axis=-1, out="norm"))
m.save()

m = Model("joined")                                      # what several kernels make with channels last, and the input, put together with channels first
x = m.input("x", 1, 24, 180, 184)
a, b = m.node("Conv", x, m.weight(16, 24, 1, 1), m.weight(16)), m.node("Relu", m.node("Conv", x, m.weight(40, 24, 1, 1), m.weight(40)))
m.output(m.node("Abs", m.node("Concat", a, x, b, axis=1), out="y"))
m.save()

m = Model("steps")                                       # a sequence: its steps are launches of few kernels, each given its part of what is made for all
x = m.input("x", 12, 4, 24)
m.nodes.append(helper.make_node("LSTM", [x, m.weight(1, 128, 24), m.weight(1, 128, 32)], ["", "h", "c"], name="LSTM_0", hidden_size=32))
m.output(m.node("Add", "h", "c", out="y"))
m.save()

m = Model("places")                                      # what products make for a result, each in its place there; and something that reads it
x = m.input("x", 1, 8, 256, 256)
a, b = m.node("Relu", m.node("Conv", x, m.weight(40, 8, 1, 1), m.weight(40))), m.node("Conv", m.node("Relu", m.node("Conv", x, m.weight(8, 8, 1, 1))), m.weight(24, 8, 1, 1))
m.output(m.node("Concat", a, b, axis=1, out="y"))
m.output(m.node("ReduceMax", m.node("Conv", "y", m.weight(8, 64, 1, 1)), m.ints(2, 3), out="most"))
m.save()

m = Model("sums")                                        # products that add to one sum: a block's shortcut, a cell, three matrices; but not what something else reads, too
x, s = m.input("x", 2, 64, 15, 16), m.node("Relu", m.node("Conv", m.input("s", 2, 16, 30, 32), m.weight(40, 16, 1, 1)))
block = m.node("Add", m.node("Conv", x, m.weight(72, 64, 3, 3), m.weight(72), pads=[1] * 4), m.node("Conv", s, m.weight(72, 40, 1, 1), m.weight(72), strides=[2, 2]))
m.output(m.node("ReduceMax", m.node("Relu", block), m.ints(2, 3), out="block"))
h = m.node("Tanh", m.input("h", 130, 200))
a = m.node("Gemm", m.input("a", 130, 72), m.weight(136, 72), m.weight(136), transB=1)
cell = m.node("Tanh", m.node("Add", a, m.node("Gemm", h, m.weight(200, 136), m.weight(136))), out="cell")
m.output(cell)
three = m.node("Add", m.node("MatMul", h, m.weight(200, 64)), m.node("Add", m.node("MatMul", "a", m.weight(72, 64)), m.node("MatMul", cell, m.weight(136, 64))))
m.output(m.node("Sigmoid", three, out="three"))
p = m.node("MatMul", h, m.weight(200, 96), out="read")
m.output(p)
m.output(m.node("Relu", m.node("Add", p, m.node("MatMul", "a", m.weight(72, 96))), out="both"))
l, r = m.input("l", 16, 1600), m.input("r", 16, 1400)      # few tiles with long sums are made in parts
m.output(m.node("Relu", m.node("Add", m.node("MatMul", l, m.weight(1600, 64)), m.node("MatMul", r, m.weight(1400, 64))), out="long"))
m.save()

m = Model("enlarged")                                    # pictures made larger by their nearest pixels, alone and added; mirrored edges; tokens mixed by an odd number; a picture of one pixel
x = m.input("x", 2, 64, 24, 24)
up = lambda v: m.node("Resize", v, "", m.floats(1, 1, 2, 2), mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")
top = m.node("Conv", m.node("Relu", m.node("Conv", x, m.weight(128, 64, 3, 3), strides=[2, 2], pads=[1] * 4)), m.weight(64, 128, 1, 1))
pyramid = m.node("Add", m.node("Conv", x, m.weight(64, 64, 1, 1)), up(top))
m.output(m.node("Conv", pyramid, m.weight(64, 64, 3, 3), pads=[1] * 4, out="pyramid"))
first = m.node("Relu", m.node("Conv", x, m.weight(64, 64, 1, 1)))
m.output(m.node("Conv", up(first), m.weight(64, 64, 3, 3), pads=[1] * 4, out="enlarged"))
m.output(m.node("Conv", m.node("Pad", first, m.ints(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect"), m.weight(64, 64, 3, 3), out="mirrored"))
t = m.input("t", 2, 196, 64)
h = m.node("Transpose", m.node("LayerNormalization", t, m.weight(64), m.weight(64)), perm=[0, 2, 1])
h = m.node("MatMul", m.node("Relu", m.node("MatMul", h, m.weight(196, 256))), m.weight(256, 196))
m.output(m.node("MatMul", m.node("Add", t, m.node("Transpose", h, perm=[0, 2, 1])), m.weight(64, 64), out="mixed"))
m.output(m.node("ConvTranspose", m.input("z", 3, 100, 1, 1), m.weight(100, 64, 4, 4), out="lone"))
m.output(m.node("Transpose", m.input("y", "M", "N"), perm=[1, 0], out="turned"))
m.save()

m = Model("shuffled")                                    # pixels shuffled out of channels, by either order, in blocks of 2 and 3, with a slope for each channel between, twice; then convolutions
x = m.input("x", 2, 32, 12, 10)
conv = lambda v, k, c, **at: m.node("Conv", v, m.weight(k, c, 3, 3), m.weight(k), pads=[1] * 4, **at)
shuffle = lambda v, size, mode: m.node("DepthToSpace", v, blocksize=size, mode=mode)
m.output(conv(shuffle(m.node("Relu", conv(x, 128, 32)), 2, "CRD"), 32, 32, out="crd"))
m.output(conv(shuffle(m.node("Relu", conv(x, 128, 32)), 2, "DCR"), 32, 32, out="dcr"))
m.output(conv(shuffle(conv(x, 144, 32), 3, "CRD"), 32, 16, strides=[2, 2], out="three"))
m.output(conv(m.node("PRelu", shuffle(conv(x, 128, 32), 2, "CRD"), m.weight(32, 1, 1)), 32, 32, out="slopes"))
m.output(conv(shuffle(conv(shuffle(conv(x, 64, 32), 2, "CRD"), 64, 16), 2, "CRD"), 8, 16, out="twice"))
both = conv(x, 128, 32)
m.output(m.node("ReduceMax", both, m.ints(2, 3), out="most"))
m.output(conv(shuffle(both, 2, "CRD"), 32, 32, out="read_twice"))
some = m.node("Tanh", m.node("Slice", m.node("Relu", conv(x, 128, 32)), m.ints(32), m.ints(96), m.ints(1)))
m.output(conv(m.node("PRelu", shuffle(some, 2, "CRD"), m.weight(16, 1, 1)), 32, 16, out="some"))
m.save()

m = Model("parted")                                      # a norm over pixels whose places are digits, stored in another order: all of a picture's rows and columns are no tile; windows that do not move along a padded side
h = m.node("PRelu", shuffle(conv(m.input("x", 1, 16, 18, 6), 288, 16), 3, "CRD"), m.weight(32, 1, 1))
m.output(conv(m.node("InstanceNormalization", h, m.weight(32), m.weight(32)), 32, 32, out="normed"))
m.output(m.node("Conv", m.node("Conv", m.input("z", 2, 4, 2, 4), m.weight(4, 4, 1, 1)), m.weight(64, 4, 2, 3), pads=[1, 1, 0, 1], strides=[3, 3], out="one_row"))
m.save()
