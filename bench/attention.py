"""Attention forward against cuDNN (through PyTorch), in one run and in turns (see bench/README.md).

    python3 bench/attention.py [--rounds 5] [--json FILE]
"""
import argparse, json, os, sys, torch
sys.path.insert(0, os.path.dirname(__file__))
import tk
from turns import turns, head
import torch.nn.functional as F
from torch.nn.attention import sdpa_kernel, SDPBackend

FILE = os.path.join(os.path.dirname(__file__), "..", "examples", "attention.tk")
CASES = [(4, 32, 4096, 128), (4, 32, 4096, 64), (1, 16, 16384, 128), (8, 12, 1024, 64)]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--json")
    p = p.parse_args()
    head()
    out = []
    print(f"{'attention forward, bf16, TFLOP/s':36} {'tk':>8} {'cuDNN':>8}  ratio  difference")
    for b, h, s, d in CASES:
        for causal in (False, True):
            q, k, v = [torch.randn(b * h, s, d, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
            o = torch.full_like(q, float("nan"))
            def peer():
                with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                    return F.scaled_dot_product_attention(*[x.view(b, h, s, d) for x in (q, k, v)], is_causal=causal)
            name = f"B{b} H{h} S{s} D{d} {'causal' if causal else 'full'}"
            try:
                ours = tk.Kernel(FILE, "attention", sets=dict(D=d, CAUSAL=str(causal).lower()), q=q, k=k, v=v, o=o, scale=d ** -0.5)
                ours(); torch.cuda.synchronize()
                want = peer().reshape(b * h, s, d).float()
                err = ((o.float() - want).norm() / want.norm()).item()
                t = turns([ours, peer], p.rounds)
            except Exception as e:
                print(f"{name:36} {repr(e)[:150]}"); continue
            flops = 4 * b * h * s * s * d * (0.5 if causal else 1)
            tf = [flops / x.us / 1e6 for x in t]
            print(f"{name:36} {tf[0]:8.1f} {tf[1]:8.1f} {t[1].us / t[0].us:6.3f}  {err:.1e}", flush=True)
            out.append(dict(case=name, tk=tf[0], cudnn=tf[1], difference=err))
    if p.json: json.dump(out, open(p.json, "w"), indent=1)


main()
