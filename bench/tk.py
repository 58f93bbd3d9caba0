"""Kernels on torch tensors, for benchmarks: compiled ahead by tkc, launched through libtkc as any program would (docs/api.md).

    k = tk.Kernel("examples/softmax.tk", "softmax", sets, x=x, y=y)      # `sets`: what a launcher knows, as after --set; `schedule`: as after --with
    k()                                                                  # launches on torch's current stream

Parameters that are no tensors are numbers. TKC names the compiler (build/tkc), TKC_LIBRARY the library (build/lib/libtkc.so);
with TKC_DEVICE=emu kernels run on tensors in host memory, on a machine without a GPU.
"""
import atexit, concurrent.futures, ctypes, itertools, os, shutil, subprocess, tempfile, torch
from ctypes import POINTER, byref, c_char_p, c_double, c_int, c_int64, c_void_p

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
TKC = os.environ.get("TKC", os.path.join(ROOT, "build/tkc"))
DEVICE = os.environ.get("TKC_DEVICE", "cuda")
DTYPE = {torch.bool: 1, torch.int8: 2, torch.int16: 3, torch.int32: 4, torch.int64: 5, torch.uint8: 6, torch.float8_e4m3fn: 10,
         torch.float8_e5m2: 11, torch.float16: 12, torch.bfloat16: 13, torch.float32: 14, torch.float64: 15}
TENSOR, INT, FLOAT = range(3)


class Tensor(ctypes.Structure):                    # tkc_tensor of runtime/tkc.h
    _fields_ = [("data", c_void_p), ("memory", c_int), ("dtype", c_int), ("rank", c_int), ("dims", c_int64 * 8), ("strides", POINTER(c_int64))]


class Arg(ctypes.Structure):                       # tkc_arg
    _fields_ = [("name", c_char_p), ("kind", c_int), ("tensor", Tensor), ("i", c_int64), ("f", c_double)]


class Library:
    """libtkc with a device open; opened when the first kernel is loaded."""
    def __init__(self):
        self.so, self.context = ctypes.CDLL(os.environ.get("TKC_LIBRARY", os.path.join(ROOT, "build/lib/libtkc.so"))), c_void_p()
        self.so.tkc_error.restype = c_char_p
        self.so.tkc_run.argtypes = [c_void_p, c_void_p]
        self.so.tkc_launch_free.argtypes = [c_void_p]
        self.call("tkc_open", DEVICE.encode(), None, byref(self.context))

    def call(self, name, *args):
        if getattr(self.so, name)(*args): raise RuntimeError(self.so.tkc_error().decode())


_folder, _number, _compiled, _loaded, _library = None, itertools.count(), {}, {}, None


def compiled(path, kernel, sets, arch, schedule={}):
    """The path of a file of compiled kernels with this one in it."""
    global _folder
    key = (path, kernel, arch, *sorted(sets.items()), *sorted(schedule.items()))
    if key not in _compiled:
        if not _folder: atexit.register(shutil.rmtree, _folder := tempfile.mkdtemp())
        out = os.path.join(_folder, f"{next(_number)}.tkx")
        words = [TKC, path, "--emit=artifact", "-o", out, "--kernel=" + kernel, "--arch=" + arch]
        r = subprocess.run(words + [f"--set={k}={v}" for k, v in sets.items()] + [f"--with={k}={v}" for k, v in schedule.items()], capture_output=True, text=True)
        if r.returncode: raise RuntimeError(r.stderr)
        _compiled[key] = out
    return _compiled[key]


def prepare(jobs):
    """Compiles (path, kernel, sets, arch, or schedule too) ahead, as many at once as there are cores; what fails, fails when it is used."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for f in [pool.submit(compiled, *job) for job in jobs]: f.exception()


def arg(name, v):
    if isinstance(v, torch.Tensor):
        return Arg(name.encode(), TENSOR, Tensor(v.data_ptr(), v.is_cuda, DTYPE[v.dtype], v.dim(), (c_int64 * 8)(*v.shape), (c_int64 * 8)(*v.stride())))
    return Arg(name.encode(), FLOAT, f=v) if isinstance(v, float) else Arg(name.encode(), INT, i=v)


class Kernel:
    def __init__(self, path, kernel, sets=None, arch="sm_90a", schedule=None, **args):
        global _library
        self.args, self.launch = args, c_void_p()                       # the tensors live as long as the launch
        file = compiled(path, kernel, sets or {}, arch, schedule or {})
        _library = _library or Library()
        if file not in _loaded:
            _loaded[file] = c_void_p()
            _library.call("tkc_load_file", _library.context, file.encode(), byref(_loaded[file]))
        given = [arg(k, v) for k, v in args.items()]
        _library.call("tkc_prepare", _loaded[file], kernel.encode(), None, 0, (Arg * len(given))(*given), len(given), byref(self.launch))

    def __call__(self): _library.call("tkc_run", self.launch, torch.cuda.current_stream().cuda_stream if DEVICE == "cuda" else None)

    def __del__(self):
        if self.launch: _library.so.tkc_launch_free(self.launch)
