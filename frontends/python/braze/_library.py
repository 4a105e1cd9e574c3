"""The shared library: where it is, its functions and structs, and its errors as exceptions."""
import ctypes
import os
import pathlib
from ctypes import POINTER, c_char_p, c_int32, c_int64, c_size_t, c_void_p

ABI_VERSION = 1
FILE = f"libbraze.so.{ABI_VERSION}"
VARIABLE = "BRAZE_LIBRARY"


class Error(ValueError):
    """The program, the data or the options are wrong."""


class DeviceError(RuntimeError):
    """No device, a driver that says no, a launch that failed."""


class InternalError(RuntimeError):
    """A fault of Braze."""


# By braze_status.
_EXCEPTIONS = {1: Error, 2: DeviceError, 3: InternalError}

# By braze_dtype: names in the text form.
DTYPES = ("f32", "f16", "bf16", "f64", "i32", "i64", "bool")


class Size(ctypes.Structure):
    _fields_ = [("name", c_char_p), ("value", c_int64)]


class CompileOptions(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("file", c_char_p), ("sizes", POINTER(Size)),
                ("size_count", c_size_t), ("schedule", c_char_p), ("target", c_char_p),
                ("disabled_passes", POINTER(c_char_p)), ("disabled_pass_count", c_size_t),
                ("fast_math", c_int32), ("alignment", c_int32), ("tune", c_int32)]


class ArgumentInfo(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("name", c_char_p), ("shape", POINTER(c_int64)),
                ("strides", POINTER(c_int64)), ("bytes", c_int64), ("rank", c_int32), ("dtype", c_int32)]


_FUNCTIONS = {
    "braze_abi_version": (c_int32, []),
    "braze_version": (c_char_p, []),
    "braze_last_error": (c_char_p, []),
    "braze_device_open": (c_int32, [c_char_p, POINTER(c_void_p)]),
    "braze_device_free": (None, [c_void_p]),
    "braze_device_kind": (c_char_p, [c_void_p]),
    "braze_device_name": (c_char_p, [c_void_p]),
    "braze_device_ordinal": (c_int32, [c_void_p]),
    "braze_compile": (c_int32, [c_void_p, c_char_p,
                                POINTER(CompileOptions),
                                POINTER(c_void_p)]),
    "braze_executable_free": (None, [c_void_p]),
    "braze_input_count": (c_size_t, [c_void_p]),
    "braze_output_count": (c_size_t, [c_void_p]),
    "braze_get_argument": (c_int32, [c_void_p, c_size_t, POINTER(ArgumentInfo)]),
    "braze_bytes_min": (c_int64, [c_void_p]),
    "braze_bytes_total": (c_int64, [c_void_p]),
    "braze_kernel_count": (c_int64, [c_void_p]),
    "braze_explain": (c_int32, [c_void_p, c_int32, POINTER(c_void_p)]),
    "braze_dump": (c_int32, [c_void_p, c_char_p, POINTER(c_void_p)]),
    "braze_text_free": (None, [c_void_p]),
    "braze_workspace_bytes": (c_int64, [c_void_p]),
    "braze_launch": (c_int32, [c_void_p, POINTER(c_void_p), c_size_t, c_void_p, c_void_p]),
}


def _candidates():
    """What is tried, in this order: the environment's choice alone, or the package's folder, the build folder
    of the repository that the package lies in, and the system's library path."""
    chosen = os.environ.get(VARIABLE)
    if chosen:
        return [chosen]
    here = pathlib.Path(__file__).resolve().parent
    folders = [here, here.parents[2] / "build" / "release" / "lib"]
    return [str(f / FILE) for f in folders if (f / FILE).exists()] + [FILE]


def _load():
    problems = []
    for path in _candidates():
        try:
            library = ctypes.CDLL(path)
            break
        except OSError as e:
            problems.append(str(e))
    else:
        raise ImportError(
            f"cannot load {FILE} ({'; '.join(problems)}); build Braze, or set {VARIABLE} to its path")
    for name, (result, parameters) in _FUNCTIONS.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, parameters
    found = library.braze_abi_version()
    if found != ABI_VERSION:
        raise ImportError(f"{path} has version {found} of the C interface, this module needs {ABI_VERSION}")
    return library


library = _load()
version = library.braze_version().decode()


def check(status):
    """Raises the exception of a status that is not BRAZE_OK."""
    if status != 0:
        raise _EXCEPTIONS[status](library.braze_last_error().decode(errors="replace"))


def take_text(function, *arguments):
    """The text that `function` returns through its last parameter."""
    text = c_void_p()
    check(function(*arguments, ctypes.byref(text)))
    try:
        return ctypes.string_at(text).decode()
    finally:
        library.braze_text_free(text)
