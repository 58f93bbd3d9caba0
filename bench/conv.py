"""Convolutions with bias and ReLU, channels last, in bf16: std/conv.tk against cuDNN, in one run and in turns (see bench/README.md).

    python3 bench/conv.py [--rounds 7] [--batches 1,32] [--compile 6] [--only TEXT] [--json FILE]

The shapes are ResNet-50's distinct convolutions at 224 x 224; `of the net` sums them as often as they occur in it. Peers:
cuDNN with bias and ReLU in one kernel (torch.cudnn_convolution_relu), cuDNN's convolution alone (F.conv2d), both with
cudnn.benchmark, and torch.compile (max-autotune) of the three operations for the first --compile shapes of each batch.
"""
import argparse, json, math, os, sys, torch
import torch.nn.functional as F
sys.path.insert(0, os.path.dirname(__file__))
import tk
from turns import turns, head

CONV = os.path.join(os.path.dirname(__file__), "..", "lang", "std", "conv.tk")
# input side, C, K, filter, stride, times in the net
SHAPES = [(56, 64, 64, 3, 1, 3), (28, 128, 128, 3, 1, 3), (14, 256, 256, 3, 1, 5), (7, 512, 512, 3, 1, 2), (56, 64, 256, 1, 1, 4), (14, 1024, 256, 1, 1, 5),
          (56, 128, 128, 3, 2, 1), (28, 256, 256, 3, 2, 1), (14, 512, 512, 3, 2, 1), (56, 64, 64, 1, 1, 1), (56, 256, 64, 1, 1, 2), (56, 256, 128, 1, 1, 1),
          (28, 128, 512, 1, 1, 4), (56, 256, 512, 1, 2, 1), (28, 512, 128, 1, 1, 3), (28, 512, 256, 1, 1, 1), (14, 256, 1024, 1, 1, 6), (28, 512, 1024, 1, 2, 1),
          (14, 1024, 512, 1, 1, 1), (7, 512, 2048, 1, 1, 3), (14, 1024, 2048, 1, 2, 1), (7, 2048, 512, 1, 1, 2), (224, 3, 64, 7, 2, 1)]


def sets(n, h, c, k, r, s):
    p = (h + 2 * (r // 2) - r) // s + 1
    return dict(N=n, H=h, W=h, C=c, K=k, R=r, S=r, P=p, Q=p, ACT="relu", FEW="true" if c % 8 else "false")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--batches", default="1,32")
    p.add_argument("--compile", type=int, default=6)
    p.add_argument("--only", default="")
    p.add_argument("--json")
    a = p.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cudnn.allow_tf32 = True
    print("#", head())
    batches = [int(b) for b in a.batches.split(",")]
    tk.prepare([(CONV, "conv2d_bias", sets(n, h, c, k, r, s), "sm_90a") for n in batches for h, c, k, r, s, _ in SHAPES])
    out = []
    for n in batches:
        total = [0.0, 0.0, 0.0]
        print(f"\n{f'batch {n}, bf16, H x C -> K, filter / stride':46} {'tk us':>8} {'TFLOP/s':>8} {'cuDNN us':>9} {'alone':>8} {'compile':>8}  cuDNN/tk  alone/tk  error")
        for i, (h, c, k, r, s, times) in enumerate(SHAPES):
            name = f"{h} x {c} -> {k}, {r} x {r} / {s}"
            if a.only not in name: continue
            pad, v = r // 2, sets(n, h, c, k, r, s)
            x = torch.randn(n, c, h, h, device="cuda", dtype=torch.bfloat16).to(memory_format=torch.channels_last)
            w = (torch.randn(k, c, r, r, device="cuda") / math.sqrt(c * r * r)).bfloat16().to(memory_format=torch.channels_last)
            b = torch.randn(k, device="cuda", dtype=torch.bfloat16)
            y = torch.full((n, v["P"], v["Q"], k), float("nan"), device="cuda", dtype=torch.bfloat16)
            want = F.relu(F.conv2d(x.float(), w.float(), b.float(), s, pad)).permute(0, 2, 3, 1)
            try:
                ours = tk.Kernel(CONV, "conv2d_bias", sets=v, x=x.permute(0, 2, 3, 1), w=w.permute(0, 2, 3, 1), bias=b, y=y,
                                 sh=s, sw=s, top=pad, left=pad, bottom=pad, right=pad, dh=1, dw=1)
                ours(); torch.cuda.synchronize()
                err = ((y.float() - want).norm() / want.norm()).item()
                peers = [lambda: torch.cudnn_convolution_relu(x, w, b, (s, s), (pad, pad), (1, 1), 1), lambda: F.conv2d(x, w, None, s, pad)]
                if i < a.compile:
                    g = torch.compile(lambda x, w, b: F.relu(F.conv2d(x, w, b, s, pad)), mode="max-autotune-no-cudagraphs", dynamic=False)
                    peers.append(lambda: g(x, w, b))
                t = turns([ours] + peers, a.rounds)
            except Exception as e:
                print(f"{name:46} {repr(e)[:150]}", flush=True); continue
            us = [q.us for q in t]
            for j in range(3): total[j] += us[j] * times
            rate = 2 * n * v["P"] * v["Q"] * k * c * r * r / us[0] / 1e6
            print(f"{name:46} {us[0]:8.1f} {rate:8.1f} {us[1]:9.1f} {us[2]:8.1f} {f'{us[3]:8.1f}' if len(us) > 3 else '       -'}  {us[1] / us[0]:8.3f}  {us[2] / us[0]:8.3f}  {err:.1e}", flush=True)
            out.append(dict(n=n, h=h, c=c, k=k, r=r, s=s, us=us, error=err))
            torch._dynamo.reset()
        print(f"{'of the net, with an empty launch in each':46} {total[0]:8.1f} {'':8} {total[1]:9.1f} {total[2]:8.1f} {'':8}  {total[1] / max(total[0], 1e-9):8.3f}  {total[2] / max(total[0], 1e-9):8.3f}")
    if a.json: json.dump(out, open(a.json, "w"), indent=1)


main()
