"""Kernels of tkc on torch tensors, for benchmarks: compiles a .tk file with `tkc --emit=ptx`, loads the PTX through the
CUDA driver and launches it as its head says (`// tk: slot ...`, `// tk: blocks ...`), as any launcher could.

    k = tk.Kernel("examples/softmax.tk", "softmax", x=x, y=y)      # specialised on these tensors' shapes
    k()                                                            # launches on torch's current stream
"""
import concurrent.futures, ctypes, os, re, subprocess, tempfile, torch
from cuda.bindings import driver as cu

TKC = os.environ.get("TKC", "build/tkc")
ELEM = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32", torch.float64: "f64", torch.int32: "i32", torch.int64: "i64",
        torch.int8: "i8", torch.uint8: "u8", torch.bool: "bool", torch.float8_e4m3fn: "f8e4m3", torch.float8_e5m2: "f8e5m2"}
MAP = {"bf16": "BFLOAT16", "f16": "FLOAT16", "f32": "FLOAT32", "f64": "FLOAT64", "i32": "INT32", "i64": "INT64", "i8": "UINT8", "u8": "UINT8",
       "f8e4m3": "UINT8", "f8e5m2": "UINT8"}
CTYPE = {"i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64, "u64": ctypes.c_uint64, "f32": ctypes.c_float, "f64": ctypes.c_double,
         "bool": ctypes.c_uint8, "index": ctypes.c_int64}


def ck(r):
    if r[0] != cu.CUresult.CUDA_SUCCESS: raise RuntimeError(f"{r[0]}")
    return r[1] if len(r) > 1 else None


def cdiv(a, b): return -(-a // b)


def expr(text, env):
    text = text.replace("&&", " and ").replace("||", " or ").replace("/", "//")
    return int(eval(text, {"cdiv": cdiv, "min": min, "max": max, "positive": lambda x: 2.0 ** -100 <= x <= 2.0 ** 100}, env))


class Unmet(RuntimeError): pass                    # a fact that the fast variant assumes does not hold


class View:                                        # what an expression may ask of a tensor
    def __init__(self, t): self.t = t
    def dim(self, i): return self.t.shape[i]
    def stride(self, i): return self.t.stride(i)


_ready = {}                                        # (path, kernel, sets, extra, arch) -> PTX, machine code


def _key(path, kernel, sets, extra, arch): return (path, kernel, tuple(sorted(sets.items())), tuple(extra), arch)


def compile_ptx(path, kernel, sets, extra=(), arch="sm_90a"):
    args = [TKC, path, "--emit=ptx", "--kernel=" + kernel, "--arch=" + arch] + [f"--set={k}={v}" for k, v in sets.items()] + list(extra)
    r = subprocess.run(args, capture_output=True, text=True)
    if r.returncode: raise RuntimeError(r.stderr)
    return r.stdout


def _assemble(job):
    path, kernel, sets, extra, arch = job
    ptx = compile_ptx(path, kernel, sets, extra, arch)
    with tempfile.NamedTemporaryFile(suffix=".ptx") as f, tempfile.NamedTemporaryFile(suffix=".cubin") as out:
        f.write(ptx.encode()); f.flush()
        r = subprocess.run(["ptxas", "-arch=" + arch, f.name, "-o", out.name], capture_output=True, text=True)
        return ptx, out.read() if r.returncode == 0 else None


def prepare(jobs):
    """Compiles (path, kernel, sets, extra, arch) ahead, as many at once as there are cores; what fails, fails when it is used."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for job, got in zip(jobs, pool.map(lambda j: _try(_assemble, j), jobs)):
            if got: _ready[_key(*job)] = got


def _try(f, x):
    try: return f(x)
    except Exception: return None


class Kernel:
    def __init__(self, path, kernel, sets=None, extra=(), arch="sm_90a", **tensors):
        try: self.load(path, kernel, sets, extra, arch, tensors)
        except Unmet: self.load(path, kernel, sets, tuple(extra) + ("--general",), arch, tensors)      # the variant without facts

    def load(self, path, kernel, sets, extra, arch, tensors):
        torch.zeros(1, device="cuda")
        self.tensors = tensors
        ptx, code = _ready.get(_key(path, kernel, sets or {}, extra, arch)) or (compile_ptx(path, kernel, sets or {}, extra, arch), None)
        head = [l[7:] for l in ptx.splitlines() if l.startswith("// tk: ")]
        env = {n: View(t) for n, t in tensors.items() if isinstance(t, torch.Tensor)}
        env.update({n: t for n, t in tensors.items() if not isinstance(t, torch.Tensor)})
        kinds = {}
        for l in head:
            if m := re.match(r"param (\w+): (?:out |inout |strided )*\*?(\w+)", l): kinds[m[1]] = m[2]
            if m := re.match(r"dim (\w+) = (.*)", l): env[m[1]] = expr(m[2], env)
        for l in head:
            if m := re.match(r"(check|guard|fact) (.*?)(?: -- .*)?$", l):
                if not expr(m[2], env): raise (Unmet if m[1] == "fact" else RuntimeError)(f"{kernel}: {m[2]} does not hold")
        self.values, self.keep = [], []
        for l in head:
            m = re.match(r"slot \d+: (\d+) bytes, (.*)", l)
            if not m: continue
            size, what = int(m[1]), m[2]
            if mm := re.match(r"address of scratch memory, (.*) bytes, zero at first", what):
                self.keep.append(torch.zeros(max(expr(mm[1], env), 16), dtype=torch.uint8, device="cuda"))
                v = ctypes.c_uint64(self.keep[-1].data_ptr())
            elif mm := re.match(r"address of (\w+)", what): v = ctypes.c_uint64(tensors[mm[1]].data_ptr())
            elif mm := re.match(r"tensor map of (\w+), dimensions ([\d ]+), box ([\d ]+), swizzle (\d+)(, tf32)?(?:, rows (.*?))?(?:, im2col lower (.*), upper (.*), step (.*))?$", what):
                v = self.tensor_map(tensors[mm[1]], kinds[mm[1]], mm, env)
            elif what in kinds: v = CTYPE[kinds[what]](env[what])
            else: v = (ctypes.c_int32 if size == 4 else ctypes.c_int64)(expr(what, env))
            self.values.append(v)
        ptrs = [v.getPtr() if hasattr(v, "getPtr") else ctypes.addressof(v) for v in self.values]
        self.params = (ctypes.c_void_p * len(ptrs))(*ptrs)
        m = next(re.match(r"blocks (.*), threads (\d+), shared (.+?)(?:, cluster (\d+))?(, together)?(?:, partial)?(?:, early.*)?$", l) for l in head if l.startswith("blocks "))
        self.blocks, self.threads, self.shared = expr(m[1], env), int(m[2]), expr(m[3], env)
        self.config = self.launch_config(int(m[4] or 0)) if m[4] or m[5] else None
        entry = next(l for l in head if l.startswith("kernel ")).split(" entry ")[1]
        self.module = ck(cu.cuModuleLoadData(code or ptx.encode() + b"\0"))
        self.function = ck(cu.cuModuleGetFunction(self.module, entry.encode()))
        ck(cu.cuFuncSetAttribute(self.function, cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, self.shared))
        self.regs = ck(cu.cuFuncGetAttribute(cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, self.function))
        self.local = ck(cu.cuFuncGetAttribute(cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, self.function))

    def launch_config(self, cluster):
        c, a = cu.CUlaunchConfig(), cu.CUlaunchAttribute()
        a.id = cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION if cluster else cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        if cluster: a.value.clusterDim.x, a.value.clusterDim.y, a.value.clusterDim.z = cluster, 1, 1
        else: a.value.cooperative = 1                      # its blocks wait for each other
        c.gridDimX, c.gridDimY, c.gridDimZ, c.blockDimX, c.blockDimY, c.blockDimZ = self.blocks, 1, 1, self.threads, 1, 1
        c.sharedMemBytes, c.attrs, c.numAttrs = self.shared, [a], 1
        return c

    def tensor_map(self, t, elem, m, env):
        dims, box = [int(x) for x in m[2].split()], [int(x) for x in m[3].split()]
        if m[6]: box = [expr(m[6], env) if i and b > 1 else b for i, b in enumerate(box)]      # the last tile's
        D, n = cu, len(dims)
        head = (getattr(D.CUtensorMapDataType, "CU_TENSOR_MAP_DATA_TYPE_" + ("TFLOAT32" if m[5] else MAP[elem])), n, t.data_ptr(),
                [cu.cuuint64_t(max(t.shape[d], 1)) for d in dims], [cu.cuuint64_t(t.stride(d) * t.element_size() if t.shape[d] > 1 else 16) for d in dims[1:]])
        tail = (D.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE, getattr(D.CUtensorMapSwizzle, "CU_TENSOR_MAP_SWIZZLE_" + {"0": "NONE"}.get(m[4], m[4] + "B")),
                D.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B, D.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE)
        if not m[7]: return ck(cu.cuTensorMapEncodeTiled(*head, [cu.cuuint32_t(b) for b in box], [cu.cuuint32_t(1)] * n, *tail))
        lower, upper, step = ([expr(x, env) for x in m[i].split(";")] for i in (7, 8, 9))
        return ck(cu.cuTensorMapEncodeIm2col(*head, lower, upper, box[0], box[1], [cu.cuuint32_t(x) for x in [1] + step + [1]], *tail))

    def __call__(self):
        if not self.blocks: return
        if self.config:
            self.config.hStream = torch.cuda.current_stream().cuda_stream
            ck(cu.cuLaunchKernelEx(self.config, self.function, ctypes.addressof(self.params), 0))
        else:
            ck(cu.cuLaunchKernel(self.function, self.blocks, 1, 1, self.threads, 1, 1, self.shared, torch.cuda.current_stream().cuda_stream,
                                 ctypes.addressof(self.params), 0))
