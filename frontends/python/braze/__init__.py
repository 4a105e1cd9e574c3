"""Braze from Python: compile a program from its text, call it with tensors.

    import braze, numpy

    softmax = braze.compile('''
        graph softmax(R = 4096, D = 1024) {
          %x = input f32[R, D]
          %y = softmax %x {axes = [1]}
          output %y
        }''', sizes={"R": 8})
    y = softmax(numpy.random.randn(8, 1024).astype("f4"))
    print(softmax.explain())

Tensors are of NumPy (in the simulator), PyTorch, CuPy, or anything with DLPack. They are used where they lie:
nothing is copied, and nothing waits for the GPU. The module is ctypes over libbraze, see frontends/c/braze.h.
"""
from ._executable import Argument, Device, Executable, compile, open_device
from ._library import DeviceError, Error, InternalError, version

__all__ = [
    "Argument", "Device", "DeviceError", "Error", "Executable", "InternalError", "compile", "open_device",
    "version"
]
