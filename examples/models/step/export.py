# A step of a small language model, from PyTorch to ONNX: one token in, logits out, key-value caches that grow by a row.
#
#     pip install torch onnx onnxscript
#     python export.py                       writes model.onnx and what PyTorch computes: test_data_set_*/*.pb
#     tkc check-onnx . --device=emu          compares
import os

import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper
from torch import nn


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width), nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, keys, values):  # x [batch, 1, width]; keys, values [batch, heads, past, width / heads]
        B, T, W = x.shape
        q, k, v = (t.view(B, T, self.heads, W // self.heads).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        a = F.scaled_dot_product_attention(q, keys, values)
        x = x + self.out(a.transpose(1, 2).reshape(B, T, W))
        return x + self.down(F.gelu(self.up(self.norm2(x)))), keys, values


class Step(nn.Module):
    def __init__(self, vocabulary=64, width=16, heads=2, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.RMSNorm(width)

    def forward(self, token, k0, v0, k1, v1):
        x = self.embed(token)
        x, k0, v0 = self.layers[0](x, k0, v0)
        x, k1, v1 = self.layers[1](x, k1, v1)
        return self.norm(x) @ self.embed.weight.T, k0, v0, k1, v1


INPUTS, OUTPUTS = ["token", "k0", "v0", "k1", "v1"], ["logits", "k0_next", "v0_next", "k1_next", "v1_next"]


def inputs(batch, past):
    return [torch.randint(0, 64, (batch, 1))] + [torch.randn(batch, 2, past, 8) for _ in range(4)]


torch.manual_seed(0)
model = Step().eval()
for norm in [m for m in model.modules() if isinstance(m, nn.RMSNorm)]:  # as if it had been trained
    nn.init.uniform_(norm.weight, 0.5, 1.5)

batch, past = torch.export.Dim("batch", min=1, max=64), torch.export.Dim("past", min=1, max=4096)
cache = {0: batch, 2: past}
torch.onnx.export(model, tuple(inputs(3, 5)), "model.onnx", dynamo=True, external_data=False,
                  input_names=INPUTS, output_names=OUTPUTS,
                  dynamic_shapes=({0: batch}, cache, cache, cache, cache))

proto = onnx.load("model.onnx")  # without the exporter's notes: a third of the size
for part in [proto.graph, *proto.graph.node, *proto.graph.input, *proto.graph.output, *proto.graph.initializer]:
    del part.metadata_props[:]
    part.doc_string = ""
del proto.graph.value_info[:]
proto.graph.name = "step"
onnx.save(proto, "model.onnx")


def save(path, name, tensor):
    with open(path, "wb") as f:
        f.write(numpy_helper.from_array(tensor.detach().numpy(), name).SerializeToString())


for number, (b, p) in enumerate([(3, 5), (1, 130)]):
    folder = f"test_data_set_{number}"
    os.makedirs(folder, exist_ok=True)
    given = inputs(b, p)
    for i, tensor in enumerate(given):
        save(f"{folder}/input_{i}.pb", INPUTS[i], tensor)
    for i, tensor in enumerate(model(*given)):
        save(f"{folder}/output_{i}.pb", OUTPUTS[i], tensor)
