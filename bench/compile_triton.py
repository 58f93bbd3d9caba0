#!/usr/bin/env python3
"""What a compilation costs beside Triton: softmax, a matrix product and attention, from source to PTX and to machine code.

    bench/compile_triton.py [--runs=N] [TKC]

No GPU is needed: both are given the target (sm_90a; `GPUTarget("cuda", 90, 32)`). tk is the example as it stands, a whole process
from exec to exit. Triton is the kernel that its tutorials have for the same work, below and in triton_matmul.py, with the tile, warps and stages of a
tuned one, and is shown at its best, inside a process that has imported it and compiled something before, without its cache:
`PTX` is the sum of its stages up to there, `machine code` all of `triton.compile`; and as a whole process, which is what a user
of a cold cache waits for. tk's machine code is made by the same machine's ptxas, Triton's by its own. The two take turns.
"""
import os, shutil, subprocess, sys, tempfile, time

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")            # what it is anyway; unset, newer ones say so each time


def kernels():
    import triton, triton.language as tl
    from triton_matmul import product

    @triton.jit
    def softmax(x, y, N, xs, ys, BLOCK: tl.constexpr):
        m, n = tl.program_id(0), tl.arange(0, BLOCK)
        row = tl.load(x + m * xs + n, mask=n < N, other=-float("inf"))
        e = tl.exp(row - tl.max(row, axis=0))
        tl.store(y + m * ys + n, e / tl.sum(e, axis=0), mask=n < N)

    @triton.jit
    def attention(q, k, v, o, scale, S, row, head, BM: tl.constexpr, BN: tl.constexpr, D: tl.constexpr):
        m, n, d = tl.program_id(0) * BM + tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, D)
        at = tl.program_id(1).to(tl.int64) * head
        x = tl.load(q + at + m[:, None] * row + d[None, :], mask=m[:, None] < S, other=0.0)
        top = tl.full((BM,), -float("inf"), tl.float32)
        total = tl.zeros((BM,), tl.float32)
        acc = tl.zeros((BM, D), tl.float32)
        for i in range(0, S, BN):
            live = i + n < S
            y = tl.load(k + at + (i + n)[None, :] * row + d[:, None], mask=live[None, :], other=0.0)
            s = tl.where(live[None, :], tl.dot(x, y) * scale, -float("inf"))
            new = tl.maximum(top, tl.max(s, 1))
            p, keep = tl.exp2(s - new[:, None]), tl.exp2(top - new)
            z = tl.load(v + at + (i + n)[:, None] * row + d[None, :], mask=live[:, None], other=0.0)
            acc = tl.dot(p.to(tl.bfloat16), z, acc * keep[:, None])
            total, top = total * keep + tl.sum(p, 1), new
        tl.store(o + at + m[:, None] * row + d[None, :], (acc / total[:, None]).to(tl.bfloat16), mask=m[:, None] < S)

    bf, f, i = "*bf16", "*fp32", "i32"
    #                 signature                                              compile-time values                             options
    return {"softmax": (softmax, dict(x=f, y=f, N=i, xs=i, ys=i), dict(BLOCK=8192), dict(num_warps=8)),
            "matmul": (product, dict(a=bf, b=bf, c=bf, M=i, N=i, K=i, am=i, bk=i, cm=i), dict(ak=1, bn=1, BM=128, BN=256, BK=64, GROUP=8, EVEN=False),
                       dict(num_warps=8, num_stages=3)),
            "attention": (attention, dict(q=bf, k=bf, v=bf, o=bf, scale="fp32", S=i, row=i, head=i), dict(BM=128, BN=128, D=128), dict(num_warps=8, num_stages=2))}


def triton_compile(name):
    """(ms to PTX, ms to machine code) of one of `kernels()`, past the cache."""
    import triton
    from triton.backends.compiler import GPUTarget
    kernel, kinds, fixed, options = kernels()[name]
    signature = {n: kinds.get(n, "constexpr") for n in kernel.arg_names}
    even = {(list(signature).index(n),): [["tt.divisibility", 16]] for n, kind in kinds.items() if kind != "fp32"}
    seen = []
    triton.knobs.compilation.always_compile = True
    triton.knobs.compilation.listener = lambda **told: seen.append(told["times"])
    start = time.perf_counter()
    triton.compile(triton.compiler.ASTSource(kernel, signature, fixed, even), target=GPUTarget("cuda", 90, 32), options=options)
    all_of_it = (time.perf_counter() - start) * 1e3
    to_code = dict(seen[0].lowering_stages)["cubin"] / 1e3
    return all_of_it - to_code - seen[0].store_results / 1e3, all_of_it


def whole(command):
    start = time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return (time.perf_counter() - start) * 1e3


def middle(xs): return sorted(xs)[len(xs) // 2]


def main(args):
    if args[:1] == ["--one"]: return triton_compile(args[1])                                  # a process of its own
    import triton
    runs = next((int(a[7:]) for a in args if a.startswith("--runs=")), 11)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    tkc = os.path.abspath(next((a for a in args if not a.startswith("-")), os.environ.get("TKC", os.path.join(root, "build/tkc"))))
    os.environ["TRITON_CACHE_DIR"] = cache = tempfile.mkdtemp()
    for name in kernels(): triton_compile(name)
    print(f"{subprocess.run([tkc, '--version'], capture_output=True, text=True).stdout.strip()}; Triton {triton.__version__}; {len(os.sched_getaffinity(0))} cores, "
          f"load {os.getloadavg()[0]:.1f}; medians of {runs}, ms")
    print(f"{'':12}{'tkc, process':>24}{'Triton, warm':>24}{'Triton, process':>17}{'Triton / tk':>24}\n"
          f"{'':12}{'PTX':>12}{'machine code':>14}{'PTX':>10}{'machine code':>14}{'machine code':>17}{'PTX':>8}{'code':>6}{'process':>8}")
    for name in kernels():
        file = os.path.join(root, "examples", name + ".tk")
        ours = [tkc, file, "--kernel=" + name, "--arch=sm_90a"]
        got = [(whole(ours + ["--emit=ptx"]), whole(ours + ["--emit=cubin"]), *triton_compile(name), whole([sys.executable, os.path.abspath(__file__), "--one", name]))
               for _ in range(runs)]
        ptx, code, their_ptx, their_code, process = (middle([g[i] for g in got]) for i in range(5))
        print(f"{name:12}{ptx:12.1f}{code:14.1f}{their_ptx:10.1f}{their_code:14.1f}{process:17.1f}{their_ptx / ptx:8.1f}{their_code / code:6.1f}{process / code:8.1f}", flush=True)
    shutil.rmtree(cache, ignore_errors=True)


if __name__ == "__main__": main(sys.argv[1:])
