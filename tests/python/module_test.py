"""The Python module with NumPy in the simulator, and with stand-ins for other packages."""
import ctypes
import gc
import os
import sys
import threading
import types
import unittest

import braze
import numpy as np

SOFTMAX = """
graph softmax(R = 4096, D = 1024) {
  %x = input f32[R, D]
  %y = softmax %x {axes = [1]}
  output %y
}"""
TWO = """
graph two(N = 6) {
  %a = input f32[N]
  %b = input f32[]
  %s = add %a, %b
  %d = sub %a, %b
  output %s
  output %d
}"""


def sim(text, **options):
    return braze.compile(text, device="sim", **options)


def random(*shape):
    return np.random.default_rng(1).standard_normal(shape).astype("f4")


class ModuleTest(unittest.TestCase):

    def fails(self, message, call, error=braze.Error):
        with self.assertRaises(error) as caught:
            call()
        self.assertEqual(str(caught.exception), message)

    def test_softmax(self):
        exe = sim(SOFTMAX, sizes={"R": 3, "D": 100})
        x = random(3, 100)
        e = np.exp(x.astype("f8") - x.max(1, keepdims=True))
        y = exe(x)
        self.assertEqual((y.dtype, y.shape), (np.float32, (3, 100)))
        np.testing.assert_allclose(y, e / e.sum(1, keepdims=True), rtol=1e-6)

    def test_what_the_library_could_not_take(self):
        size = "error: size R is"
        for value, message in [(2**64 + 7, f"{size} 18446744073709551623, which has more than 64 bits"),
                               (2.5, f"{size} 2.5, expected an integer"),
                               ("7", f"{size} '7', expected an integer")]:
            self.fails(message, lambda value=value: sim(SOFTMAX, sizes={"R": value, "D": 100}))
        self.fails("error: the name of a size 'R\\x00z' has a NUL",
                   lambda: sim(SOFTMAX, sizes={"R\0z": 3}))
        self.fails("error: text 'graph\\x00' has a NUL", lambda: sim("graph\0"))
        self.fails("error: text is None, expected text", lambda: sim(None))
        self.fails("error: schedule is 3, expected text", lambda: sim(SOFTMAX, schedule=3))
        self.fails("error: sizes is [1], expected a dictionary of names and integers", lambda: sim(SOFTMAX, sizes=[1]))
        for flag in ("fast_math", "tune"):
            self.fails(f"error: {flag} is 'no', expected True or False", lambda flag=flag: sim(SOFTMAX, **{flag: "no"}))
            self.fails(f"error: {flag} is 2, expected True or False", lambda flag=flag: sim(SOFTMAX, **{flag: 2}))
        for names in ("simplify", 3):
            self.fails(f"error: disabled_passes is {names!r}, expected names in a sequence",
                       lambda names=names: sim(SOFTMAX, disabled_passes=names))
        exe = sim(SOFTMAX, sizes={"R": 3, "D": 100})
        exe(random(3, 100), stream=0)
        self.fails("error: stream is 's', expected one of PyTorch or CuPy, or a handle",
                   lambda: exe(random(3, 100), stream="s"))
        self.fails("error: stream is 128, and NumPy arrays are on none", lambda: exe(random(3, 100), stream=128))

    def test_what_a_program_says_of_itself(self):
        exe = sim(SOFTMAX, sizes={"R": 3, "D": 100})
        self.assertEqual(exe.inputs, (braze.Argument("input", "x", "f32", (3, 100), (100, 1), 1200),))
        self.assertEqual(exe.outputs[0].type, "f32[3,100]")
        self.assertEqual((exe.kernel_count, exe.bytes_min, exe.workspace_bytes), (1, 2400, 0))
        self.assertIn("softmax: 1 kernel for sim", exe.explain())
        self.assertEqual(exe.explain_json()["bytes_min"], 2400)
        for stage, part in [("graph", "%x = input f32[3, 100]"), ("kernel", "kernel softmax_0"),
                            ("ptx", ".target sm_")]:
            self.assertIn(part, exe.dump(stage))

    def test_options(self):
        exe = sim(SOFTMAX,
                  sizes={"R": 3},
                  schedule="lanes=reduced,reduced=64,keep=nothing",
                  disabled_passes=["online"])
        self.assertIn("reduced=64", exe.dump("schedule"))
        self.assertIn("= max %x", exe.dump("simplified"))
        self.assertIn(".target sm_80", braze.compile(SOFTMAX, target="sm_80").dump("ptx"))

    def test_arguments_by_position_and_name(self):
        exe, a, b = sim(TWO), random(6), np.full((), 2, "f4")
        for outputs in (exe(a, b), exe(a, b=b), exe(b=b, a=a)):
            self.assertIsInstance(outputs, tuple)
            np.testing.assert_array_equal(outputs[0], a + b)
            np.testing.assert_array_equal(outputs[1], a - b)

    def test_out(self):
        exe, a, b = sim(TWO), random(6), np.full((), 2, "f4")
        s, d = np.empty(6, "f4"), np.empty(6, "f4")
        self.assertIs(exe(a, b, out=(s, d))[1], d)
        np.testing.assert_array_equal(d, a - b)
        exe(a, b, out={"d": s, "s": d})
        np.testing.assert_array_equal(s, a - b)
        y, x = np.empty((2, 8), "f4"), random(2, 8)
        self.assertIs(sim(SOFTMAX, sizes={"R": 2, "D": 8})(x, out=y), y)
        np.testing.assert_allclose(y.sum(1), [1, 1], rtol=1e-6)

    def test_types(self):
        for dtype, numpy in [("f32", "f4"), ("f16", "f2"), ("f64", "f8"), ("i32", "i4"), ("i64", "i8"),
                             ("bool", "?")]:
            x = np.arange(-3, 3).astype(numpy)
            y = sim(f"graph g {{ %x = input {dtype}[6] %y = flip %x {{axes = [0]}} output %y }}")(x)
            self.assertEqual(y.dtype, x.dtype)
            np.testing.assert_array_equal(y, x[::-1])
        bits = random(64).view(np.uint32) & 0xFFFF0000
        y = sim("graph g { %x = input bf16[64] %y = add %x, %x output %y }")((bits >> 16).astype(np.uint16))
        np.testing.assert_array_equal(y.astype(np.uint32) << 16, (2 * bits.view("f4")).view(np.uint32))

    def test_empty_and_misaligned(self):
        self.assertEqual(sim(SOFTMAX, sizes={"R": 0})(np.empty((0, 1024), "f4")).shape, (0, 1024))
        exe, x = sim(SOFTMAX, sizes={"R": 3, "D": 100}), random(3, 100)
        moved = np.empty(301, "f4")[1:].reshape(3, 100)
        moved[:] = x
        np.testing.assert_allclose(exe(moved), exe(x), rtol=1e-6)
        mixed = sim("graph m { %h = input f16[37] %f = input f32[37] %c = cast %h {dtype = f32} %y = add %c, %f output %y }")
        h, f = random(38).astype("f2")[1:], random(38)[1:]
        np.testing.assert_array_equal(mixed(h, f), h.astype("f4") + f)
        bytes_ = np.zeros(1201, "u1")[1:].view("f4").reshape(3, 100)
        with self.assertRaisesRegex(braze.DeviceError, "which is not a multiple of the 4 bytes"):
            exe(bytes_)

    def test_errors_of_programs(self):
        self.fails("s.braze:1: error: %x is not defined",
                   lambda: sim("graph s { %y = exp %x output %y }", file="s.braze"))
        self.fails("<text>:2: error: graph softmax has no size Q, its sizes are R, D",
                   lambda: sim(SOFTMAX, sizes={"Q": 1}))
        self.fails("error: there is no device 'gpu'; devices are best, cuda, cuda:N and sim",
                   lambda: braze.open_device("gpu"))
        self.fails("error: there is no pass 'onlin' to disable", lambda: sim(SOFTMAX, disabled_passes=["onlin"]))
        looked_at = braze.compile(SOFTMAX, target="sm_90")
        self.fails(
            "error: graph softmax was compiled for sm_90 to be looked at, without a device to run it on",
            lambda: looked_at(random(4096, 1024)))

    def test_errors_of_arguments(self):
        exe, x = sim(SOFTMAX, sizes={"R": 3, "D": 100}), random(3, 100)
        two = sim(TWO)
        for message, call in [
            ("error: input x is f32[3,100], got f32[3,101]", lambda: exe(random(3, 101))),
            ("error: input x is f32[3,100], got f64[3,100]", lambda: exe(x.astype("f8"))),
            ("error: input x is f32[3,100], got >f4[3,100]", lambda: exe(x.astype(">f4"))),
            ("error: input x has strides [100, 1], got [1, 3]; give a contiguous copy",
             lambda: exe(np.asfortranarray(x))),
            ("error: input x is missing; it is f32[3,100]", lambda: exe()),
            ("error: input b is missing; it is f32[]", lambda: two(random(6))),
            ("error: there is no input named z; the inputs are a, b", lambda: two(random(6), z=x)),
            ("error: input a is given twice", lambda: two(random(6), a=x)),
            ("error: the program has 1 inputs, got 2", lambda: exe(x, x)),
            ("error: input x is a list, not a tensor of NumPy, PyTorch, CuPy or another package with DLPack",
             lambda: exe([1, 2])),
            ("error: output y is f32[3,100], got i32[3,100]", lambda: exe(x, out=x.astype("i4"))),
            ("error: the program has 2 outputs, got 1", lambda: two(random(6), x[0, 0:1].reshape(()), out=x)),
            ("error: out has d, t; the outputs are s, d",
             lambda: two(random(6), x[0, 0:1].reshape(()), out={
                 "t": x,
                 "d": x
             })),
            ("error: input 'x' (1200 bytes) and output 'y' (1200 bytes) overlap by 1200 bytes; an output may share "
             "memory with nothing else", lambda: exe(x, out=x))
        ]:
            with self.subTest(message):
                self.fails(message, call)
        y = np.empty((3, 100), "f4")
        y.flags.writeable = False
        self.fails("error: output y is read-only", lambda: exe(x, out=y))

    def test_dlpack(self):
        """An object that is known by its DLPack methods alone."""

        class Tensor:

            def __init__(self, array):
                self.array = array

            def __dlpack_device__(self):
                return self.array.__dlpack_device__()

            def __dlpack__(self, stream=None):
                return self.array.__dlpack__()

        exe, x, y = sim(SOFTMAX, sizes={"R": 3, "D": 100}), random(3, 100), np.empty((3, 100), "f4")
        given = Tensor(y)
        self.assertIs(exe(Tensor(x), out=given), given)
        np.testing.assert_array_equal(y, exe(x))
        self.fails("error: output y cannot be allocated in the package of the inputs; give out=",
                   lambda: exe(Tensor(x)))
        self.fails("error: input x has strides [100, 1], got [1, 3]; give a contiguous copy",
                   lambda: exe(Tensor(np.asfortranarray(x)), out=given))
        self.fails(
            "error: input x is a DLPack tensor and output y is a NumPy array; give tensors of one package",
            lambda: exe(Tensor(x), out=y))

    def test_threads(self):
        exe, x = sim(SOFTMAX, sizes={"R": 3, "D": 100}), random(3, 100)
        expected, results = exe(x), []
        threads = [threading.Thread(target=lambda: results.append(exe(x))) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for y in results:
            np.testing.assert_array_equal(y, expected)
        self.assertEqual(len(results), 4)


NORM = """
graph norm(N = 4, C = 8, P = 4096) {
  %x = input f32[N, C, P]
  %m = mean %x {axes = [0], keepdims = true}
  %n = sub %x, %m
  %y = logsumexp %n {axes = [1]}
  output %y
}"""


class GpuTest(unittest.TestCase):
    """What a launch on a GPU is given, with a driver without a GPU (tests/fake_cuda) and a stand-in for
    PyTorch."""

    @classmethod
    def setUpClass(cls):
        os.environ["BRAZE_CUDA_LIBRARY"] = os.environ["FAKE_CUDA_LIBRARY"]
        cls.driver = ctypes.CDLL(os.environ["FAKE_CUDA_LIBRARY"])
        sys.modules["torch"] = stand_in_for_torch()

    @classmethod
    def tearDownClass(cls):
        del sys.modules["torch"]

    def stream_of_last_launch(self):
        return ctypes.c_void_p.in_dll(self.driver, "fake_cuda_stream_of_last_launch").value

    def test_torch(self):
        torch, exe = sys.modules["torch"], braze.compile(NORM, device="cuda")
        self.assertEqual(str(exe.device), "cuda:0")
        x = torch.empty((4, 8, 4096), dtype=torch.float32, device="cuda:0")
        torch.allocated.clear()
        y = exe(x)
        self.assertEqual((y.shape, y.dtype), ((4, 4096), torch.float32))
        self.assertEqual([t.nbytes for t in torch.allocated], [4 * 4096 * 4, exe.workspace_bytes])
        self.assertEqual(self.stream_of_last_launch(), 0x70)
        exe(x, out=y, stream=0x80)
        self.assertEqual(self.stream_of_last_launch(), 0x80)
        exe(x, out=y, stream=torch.cuda.Stream(0x90))
        self.assertEqual(self.stream_of_last_launch(), 0x90)
        exe(x, out=y, stream=0)
        self.assertEqual(self.stream_of_last_launch(), 1)  # CU_STREAM_LEGACY

        torch.allocated.clear()
        workspace = torch.empty(exe.workspace_bytes, dtype=torch.uint8, device="cuda:0")
        exe(x, out=y, workspace=workspace)
        self.assertEqual(torch.allocated, [workspace])
        small = torch.empty(256, dtype=torch.uint8, device="cuda:0")
        with self.assertRaisesRegex(
                braze.Error, f"the workspace has 256 bytes on cuda:0, the program needs "
                f"{exe.workspace_bytes} on cuda:0"):
            exe(x, out=y, workspace=small)

    def test_places(self):
        torch = sys.modules["torch"]
        exe, on_sim = braze.compile(NORM, device="cuda:0"), sim(NORM)
        host = torch.empty((4, 8, 4096), dtype=torch.float32, device="cpu")
        other = torch.empty((4, 8, 4096), dtype=torch.float32, device="cuda:1")
        for message, call in [
            ("input x is on cpu, the program runs on cuda:0, with tensors on cuda:0", lambda: exe(host)),
            ("input x is on cuda:1, the program runs on cuda:0, with tensors on cuda:0", lambda: exe(other)),
            ("input x is on cuda:1, the program runs on the simulator, with tensors on cpu",
             lambda: on_sim(other)),
            ("input x is on cpu, the program runs on cuda:0, with tensors on cuda:0",
             lambda: exe(random(4, 8, 4096), out=random(4, 4096)))
        ]:
            with self.subTest(message), self.assertRaisesRegex(braze.Error, message):
                call()
        host.requires_grad = True
        with self.assertRaisesRegex(braze.Error,
                                    "input x requires a gradient, and Braze computes none; pass its detach()"):
            on_sim(host)
        host.requires_grad = False
        self.assertEqual(on_sim(host).device.type, "cpu")
        gc.collect()


def stand_in_for_torch():
    """As much of PyTorch as the module calls; every tensor is host memory, whatever its device says."""
    torch = types.ModuleType("torch")
    sizes = {
        "float32": 4,
        "float16": 2,
        "bfloat16": 2,
        "float64": 8,
        "int32": 4,
        "int64": 8,
        "bool": 1,
        "uint8": 1
    }
    for name in sizes:
        setattr(torch, name, f"torch.{name}")
    torch.allocated = []

    class Tensor:
        requires_grad = False

        def __init__(self, shape, dtype, device):
            self.shape = (shape,) if isinstance(shape, int) else tuple(shape)
            self.dtype = dtype
            kind, _, index = device.partition(":")
            self.device = types.SimpleNamespace(type=kind, index=int(index) if index else None)
            self.nbytes = int(np.prod(self.shape)) * sizes[dtype.split(".")[1]]
            self.memory = np.zeros(self.nbytes + 256, "u1")

        def data_ptr(self):
            return (self.memory.ctypes.data + 255) // 256 * 256

        def is_contiguous(self):
            return True

    class Stream:

        def __init__(self, handle, device=0):
            self.cuda_stream = handle

    class current:
        stream = Stream(0x70)

        def __init__(self, stream):
            self.entered, self.former = stream, current.stream

        def __enter__(self):
            current.stream = self.entered

        def __exit__(self, *_):
            current.stream = self.former

    def empty(shape, dtype, device):
        torch.allocated.append(Tensor(shape, dtype, device))
        return torch.allocated[-1]

    torch.Tensor, torch.empty, torch.is_grad_enabled = Tensor, empty, lambda: True
    torch.cuda = types.SimpleNamespace(Stream=Stream,
                                       ExternalStream=Stream,
                                       stream=current,
                                       current_stream=lambda device: current.stream,
                                       default_stream=lambda device: Stream(0))
    return torch


if __name__ == "__main__":
    unittest.main()
