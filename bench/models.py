"""Whole models in bf16: `tkc run --dtype=bf16` beside PyTorch on the same architecture, one after the other in one run.

The graphs are full-size exports without their weights (--random-weights); inputs and outputs are bf16 on both sides. PyTorch runs
torch.compile with CUDA graphs (`reduce-overhead`; --mode names others, several to be told apart, and the fastest of them counts),
convolutions channels-last, BERT with its attention mask. Times are the least and the median of 20 replays between events, as tkc run --profile takes them. `roofline` is what the plan's
bytes and products would take at the peak, as part of the time; `cold` is a whole process without caches, from the model's file
to results, its random weights made and copied among it; `warm` the same again with the caches, ours and the driver's, and `weights`
what `--time` says that it waited for them. --keep=FOLDER keeps the tables of --profile and --time; --fixed gives a batch that has a name its size for good
(tkc --fix), as torch.compile does.

    python3 bench/models.py --models=../shared/models/full [--tkc=build/tkc] [--mode=reduce-overhead,max-autotune] [--only=gpt2_b1,..] [--no-peer] [--fixed]
"""
import os, re, subprocess, sys, tempfile, time

GBS, TFLOPS = 4.8e3, 989.0                               # of an H200
CASES = {  # name: folder, arguments, peer, batch
    "gpt2_b1": ("gpt2_b1", ["a_0=randint(0,50000):i64[1,1024]"], "gpt2", 1),
    "gpt2_b8": ("gpt2_b8", ["a_0=randint(0,50000):i64[8,1024]"], "gpt2", 8),
    "bert_b1": ("bert_b1", ["a_0=randint(0,30000):i64[1,512]", "a_1=ones:i64[1,512]"], "bert", 1),
    "bert_b8": ("bert_b8", ["a_0=randint(0,30000):i64[8,512]", "a_1=ones:i64[8,512]"], "bert", 8),
    "llama1b": ("llama1b_b1", ["a_0=randint(0,128000):i64[1,1024]"], "llama", 1),
    "resnet50_b1": ("resnet50", ["x=random:f32[1,3,224,224]"], "resnet50", 1),
    "resnet50_b32": ("resnet50", ["x=random:f32[32,3,224,224]"], "resnet50", 32),
    "vit_b1": ("vit_b16", ["x=random:f32[1,3,224,224]"], "vit", 1),
    "vit_b32": ("vit_b16", ["x=random:f32[32,3,224,224]"], "vit", 32),
}
NAMED = ("resnet50", "vit_b16")                      # their batch has a name
SCALE = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


def number(words, unit):                                 # "3.6 MB", "79.0 G"
    m = re.match(r"\s*([\d.]+)\s+([kMGT]?)" + unit + r"$", words.strip())
    return float(m[1]) * SCALE[m[2]] if m else 0.0


def profile(text):
    """us as one graph, launches, us at the peak of the plan's bytes and products."""
    us, launches, roof = 0.0, 0, 0.0
    for line in text.splitlines():
        if line.startswith("as one graph"): us = float(line.split()[3])
        m = re.match(r"(\d+)  .{31,}?\s+\d+ x \d+\s+([\d.]+)\s+[\d.]+ %(.{12})(.{10})(.{11})", line)
        if not m: continue
        launches += 1
        roof += max(number(m[3], "B") / GBS / 1e3, number(m[5], "") / TFLOPS / 1e6)
    return us, launches, roof


def ours(tkc, folder, args, out):
    """Three processes: without caches, filling them (and timed), with them."""
    seconds, weights = [], 0.0
    with tempfile.TemporaryDirectory() as cache:
        for turn in ("cold", "profile", "warm"):
            env = dict(os.environ, TKC_CACHE_DIR=cache, CUDA_CACHE_PATH=cache + "/driver")
            if turn == "cold": env = dict(env, TKC_CACHE="off", CUDA_CACHE_DISABLE="1")
            start = time.time()
            r = subprocess.run([tkc, "run", f"{folder}/model.onnx", "--device=cuda", "--dtype=bf16", "--dtype-io", "--random-weights", "--profile" if turn == "profile" else "--time", *args],
                               env=env, capture_output=True, text=True)
            seconds.append(time.time() - start)
            if r.returncode: raise RuntimeError(r.stderr.strip()[:300])
            if turn == "profile": table = r.stdout
            for line in r.stderr.splitlines():
                if line.startswith("weights"): weights = float(line.split()[1]) * 1e-3
            if out: open(f"{out}-{turn}.txt", "w").write(table if turn == "profile" else r.stderr)
    return (*profile(table), seconds[0], seconds[2], weights)


def peers():
    import torch, transformers as T, torchvision as V, timm
    dev, bf = "cuda", torch.bfloat16
    ids = lambda b, n, most: torch.randint(0, most, (b, n), device=dev)
    image = lambda b: torch.randn(b, 3, 224, 224, device=dev, dtype=bf)
    llama = lambda: T.LlamaForCausalLM(T.LlamaConfig(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_attention_heads=32,
                                                     num_key_value_heads=8, vocab_size=128256, use_cache=False))
    return {
        "gpt2": (lambda: T.GPT2LMHeadModel(T.GPT2Config(use_cache=False)), lambda b: dict(input_ids=ids(b, 1024, 50257))),
        "bert": (lambda: T.BertModel(T.BertConfig()), lambda b: dict(input_ids=ids(b, 512, 30000), attention_mask=torch.ones(b, 512, device=dev, dtype=torch.int64))),
        "llama": (llama, lambda b: dict(input_ids=ids(b, 1024, 128256))),
        "resnet50": (lambda: V.models.resnet50().to(memory_format=torch.channels_last), lambda b: dict(x=image(b).to(memory_format=torch.channels_last))),
        "vit": (lambda: timm.create_model("vit_base_patch16_224"), lambda b: dict(x=image(b))),
    }


def theirs(make, inputs, batch, mode):
    import torch
    torch._dynamo.reset()
    m = make().to("cuda").to(torch.bfloat16).eval()
    x = inputs(batch)
    with torch.no_grad():
        c = torch.compile(m, mode=mode)
        start = time.time()
        for _ in range(3): c(**x)
        torch.cuda.synchronize()
        compiled = time.time() - start
        for _ in range(3): c(**x)
        times = []
        for _ in range(20):
            a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            a.record(); c(**x); b.record(); torch.cuda.synchronize()
            times.append(a.elapsed_time(b) * 1e3)
    del c, m
    torch.cuda.empty_cache()
    return min(times), sorted(times)[len(times) // 2], compiled


def main():
    tkc, models, modes, only, peer, keep, fixed = "build/tkc", "../shared/models/full", ["reduce-overhead"], list(CASES), True, None, False
    for a in sys.argv[1:]:
        k, _, v = a.partition("=")
        if k == "--tkc": tkc = v
        elif k == "--models": models = v
        elif k == "--mode": modes = v.split(",")
        elif k == "--only": only = v.split(",")
        elif k == "--keep": os.makedirs(keep := v, exist_ok=True)        # a folder for the tables of --profile
        elif k == "--no-peer": peer = False
        elif k == "--fixed": fixed = True
        else: sys.exit(__doc__)
    known, product = {}, []
    if peer:
        import turns
        print("#", turns.head())
        known = peers()
    print(f"# torch.compile mode={' and '.join(modes)}; us; peak {GBS:.0f} GB/s, {TFLOPS:.0f} TFLOP/s")
    print(f"{'model':14s} {'tk':>9s} {'PyTorch':>9s} {'median':>9s} {'ratio':>6s} {'launches':>8s} {'roofline':>8s} {'cold s':>7s} {'warm s':>7s} {'weights':>7s} {'their compile s':>15s}")
    for name in only:
        folder, args, which, batch = CASES[name]
        if fixed and folder in NAMED: args = args + [f"--fix=batch={batch}"]
        try:
            us, launches, roof, cold, warm, weights = ours(tkc, f"{models}/{folder}", args, f"{keep}/{name}" if keep else None)
            runs = [theirs(*known[which], batch, mode) for mode in modes] if peer else [(0, 0, 0)]
            least, median, compiled = min(runs)[0], min(runs)[1], sum(r[2] for r in runs)
        except Exception as e:
            print(f"{name:14s} failed: {str(e)[:200]}", flush=True)
            continue
        if least: product.append(us / least)
        print(f"{name:14s} {us:9.1f} {least:9.1f} {median:9.1f} {us / least if least else 0:6.2f} {launches:8d} {100 * roof / us if us else 0:6.0f} % {cold:7.2f} {warm:7.2f} {weights:7.2f} {compiled:15.1f}" +
              ("".join(f"  {mode} {r[0]:.1f}" for mode, r in zip(modes, runs)) if len(modes) > 1 else ""), flush=True)
    if product:
        mean = 1.0
        for p in product: mean *= p ** (1 / len(product))
        print(f"# tk / PyTorch, geometric mean over {len(product)}: {mean:.2f}")


if __name__ == "__main__": main()
