"""Tensors of other packages: where their memory is, new ones, and the stream they are on.

No package is imported here; one whose tensor a caller holds has been imported already. `library_of(tensor)`
answers with an object of these methods:

    view(tensor, stream)      a View of its memory, safe to use in the order of `stream`
    empty(argument, device)   a new tensor, on the current stream
    scratch(bytes, device)    (owner, address) of memory for a launch on the current stream
    current_stream(device)    its handle as an int
    on_stream(stream, device) a context manager in which `stream` is current; gives its handle
"""
import contextlib
import ctypes
import operator
import sys
from typing import NamedTuple

from ._library import Error


class View(NamedTuple):
    address: int
    dtype: str
    shape: tuple
    strides: tuple  # in elements; None when dense
    device: str  # "cpu", "cuda:0"
    writable: bool = True
    refused: str = ""  # why it cannot be used at all


_NUMPY_DTYPES = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "uint16",
    "f64": "float64",
    "i32": "int32",
    "i64": "int64",
    "bool": "bool"
}
_DTYPE_OF_NUMPY = {numpy: ours for ours, numpy in _NUMPY_DTYPES.items()}


def _handle_of(stream):
    """A CUstream as an int, from one, or from a stream of PyTorch or CuPy."""
    for attribute in ("cuda_stream", "ptr"):
        if hasattr(stream, attribute):
            return int(getattr(stream, attribute))
    try:
        return operator.index(stream)
    except TypeError:
        raise Error(f"error: stream is {stream!r}, expected one of PyTorch or CuPy, or a handle") from None


class _NumPy:
    """Host memory. NumPy has no bf16: its bits are in uint16."""
    name = "NumPy array"

    def __init__(self, numpy):
        self.numpy = numpy

    def view(self, array, stream):
        interface = array.__array_interface__
        address, read_only = interface["data"]
        strides = interface["strides"]
        if strides is not None:
            strides = tuple(s // array.itemsize for s in strides)
        dtype = array.dtype
        ours = _DTYPE_OF_NUMPY.get(dtype.name) if dtype.isnative else None
        return View(address, ours or dtype.str, array.shape, strides, "cpu", not read_only)

    def empty(self, argument, device):
        return self.numpy.empty(argument.shape, _NUMPY_DTYPES[argument.dtype])

    def scratch(self, bytes, device):
        raise Error(f"error: NumPy has no memory on {device}")

    def current_stream(self, device):
        return 0

    def on_stream(self, stream, device):
        if _handle_of(stream) != 0:
            raise Error(f"error: stream is {stream!r}, and NumPy arrays are on none")
        return contextlib.nullcontext(0)


class _Torch:
    name = "torch tensor"

    def __init__(self, torch):
        self.torch = torch
        self.dtypes = {
            "f32": torch.float32,
            "f16": torch.float16,
            "bf16": torch.bfloat16,
            "f64": torch.float64,
            "i32": torch.int32,
            "i64": torch.int64,
            "bool": torch.bool
        }
        self.names = {theirs: ours for ours, theirs in self.dtypes.items()}

    def view(self, tensor, stream):
        refused = ""
        if tensor.requires_grad and self.torch.is_grad_enabled():
            refused = "requires a gradient, and Braze computes none; pass its detach()"
        device = tensor.device
        place = device.type if device.index is None else f"{device.type}:{device.index}"
        strides = None if tensor.is_contiguous() else tuple(tensor.stride())
        return View(tensor.data_ptr(),
                    self.names.get(tensor.dtype) or str(tensor.dtype),
                    tuple(tensor.shape),
                    strides,
                    place,
                    refused=refused)

    def empty(self, argument, device):
        return self.torch.empty(argument.shape, dtype=self.dtypes[argument.dtype], device=device.place)

    def scratch(self, bytes, device):
        memory = self.torch.empty(bytes, dtype=self.torch.uint8, device=device.place)
        return memory, memory.data_ptr()

    def current_stream(self, device):
        return self.torch.cuda.current_stream(device.ordinal).cuda_stream if device.kind == "cuda" else 0

    @contextlib.contextmanager
    def on_stream(self, stream, device):
        if device.kind != "cuda":
            yield 0
            return
        cuda = self.torch.cuda
        if not isinstance(stream, cuda.Stream):
            handle = _handle_of(stream)
            stream = cuda.ExternalStream(handle, device.ordinal) if handle else cuda.default_stream(
                device.ordinal)
        with cuda.stream(stream):
            yield stream.cuda_stream


class _DLDataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _DLTensor(ctypes.Structure):  # the first field of a DLManagedTensor
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("dtype", _DLDataType), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


_DL_CPU, _DL_CUDA, _DL_CUDA_MANAGED = 1, 2, 13
# By code and bits; uint16 stands for bf16 where a package has no such type.
_DL_DTYPES = {
    (2, 32): "f32",
    (2, 16): "f16",
    (4, 16): "bf16",
    (1, 16): "bf16",
    (2, 64): "f64",
    (0, 32): "i32",
    (0, 64): "i64",
    (6, 8): "bool"
}
_DL_DEFAULT_STREAM = 1

_capsule_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_capsule_pointer.restype = ctypes.c_void_p
_capsule_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]


class _DLPack:
    """Any package with DLPack. It is not known how to allocate in it, nor what its current stream is."""
    name = "DLPack tensor"

    def view(self, tensor, stream):
        on_gpu = tensor.__dlpack_device__()[0] in (_DL_CUDA, _DL_CUDA_MANAGED)
        capsule = tensor.__dlpack__(stream=stream or _DL_DEFAULT_STREAM) if on_gpu else tensor.__dlpack__()
        t = _DLTensor.from_address(_capsule_pointer(capsule, b"dltensor"))
        key = (t.dtype.code, t.dtype.bits)
        dtype = _DL_DTYPES.get(key) if t.dtype.lanes == 1 else None
        if t.device_type == _DL_CPU:
            device = "cpu"
        else:
            device = f"cuda:{t.device_id}" if on_gpu else f"DLPack device {t.device_type}:{t.device_id}"
        return View((t.data or 0) + t.byte_offset, dtype or f"DLPack type {key[0]} of {key[1]} bits",
                    tuple(t.shape[:t.ndim]),
                    tuple(t.strides[:t.ndim]) if t.strides else None, device)

    def empty(self, argument, device):
        raise Error(
            f"error: output {argument.name} cannot be allocated in the package of the inputs; give out=")

    def scratch(self, bytes, device):
        raise Error(
            f"error: {bytes} bytes of workspace cannot be allocated in the package of the inputs; give "
            "workspace=")

    def current_stream(self, device):
        return 0

    def on_stream(self, stream, device):
        return contextlib.nullcontext(_handle_of(stream))


class _CuPy(_DLPack):
    name = "CuPy array"

    def __init__(self, cupy):
        self.cupy = cupy

    def empty(self, argument, device):
        with self.cupy.cuda.Device(device.ordinal):
            return self.cupy.empty(argument.shape, _NUMPY_DTYPES[argument.dtype])

    def scratch(self, bytes, device):
        with self.cupy.cuda.Device(device.ordinal):
            memory = self.cupy.empty(bytes, "uint8")
        return memory, memory.data.ptr

    def current_stream(self, device):
        return self.cupy.cuda.get_current_stream().ptr

    @contextlib.contextmanager
    def on_stream(self, stream, device):
        handle = _handle_of(stream)
        with self.cupy.cuda.ExternalStream(handle, device.ordinal):
            yield handle


# By module: the class of its tensors, and what answers for them.
_PACKAGES = {"numpy": ("ndarray", _NumPy), "torch": ("Tensor", _Torch), "cupy": ("ndarray", _CuPy)}
_known = {}  # by type of tensor


def library_of(tensor, what):
    """What answers for `tensor`; `what` names it in the error for one that is no tensor."""
    found = _known.get(type(tensor))
    if found is None:
        found = _known[type(tensor)] = _find_library(tensor, what)
    return found


def _find_library(tensor, what):
    for module_name, (type_name, library) in _PACKAGES.items():
        module = sys.modules.get(module_name)
        if module is not None and isinstance(tensor, getattr(module, type_name)):
            return _instance(library, module)
    if hasattr(tensor, "__dlpack__"):
        return _instance(_DLPack)
    raise Error(
        f"error: {what} is a {type(tensor).__name__}, not a tensor of NumPy, PyTorch, CuPy or another package "
        "with DLPack")


_instances = {}


def _instance(library, *module):
    return _instances.setdefault(library, library(*module))
