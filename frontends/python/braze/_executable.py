"""Compiled programs as callables."""
import collections.abc
import ctypes
import functools
import json as json_module
import operator
import weakref
from ctypes import c_char_p, c_void_p
from typing import NamedTuple

from ._library import (DTYPES, ArgumentInfo, CompileOptions, Error, Size, check, library,
                       take_text)
from ._tensors import library_of

_WIDEST_ALIGNMENT = 16


def _encoded(text, what):
    """As the library takes text, which ends at a NUL."""
    if not isinstance(text, str):
        raise Error(f"error: {what} is {text!r}, expected text")
    if "\0" in text:
        raise Error(f"error: {what} {text!r} has a NUL")
    return text.encode()


def _size(name, value):
    try:
        number = operator.index(value)
    except TypeError:
        raise Error(f"error: size {name} is {value!r}, expected an integer") from None
    if not -2**63 <= number < 2**63:
        raise Error(f"error: size {name} is {number}, which has more than 64 bits")
    return _encoded(name, "the name of a size"), number


def _sizes(sizes):
    if not isinstance(sizes, collections.abc.Mapping):
        raise Error(f"error: sizes is {sizes!r}, expected a dictionary of names and integers")
    return dict(sizes)


def _names(names, what):
    if isinstance(names, str) or not isinstance(names, collections.abc.Iterable):
        raise Error(f"error: {what} is {names!r}, expected names in a sequence")
    return tuple(names)


def _flag(value, what):
    if not isinstance(value, int) or value not in (0, 1):
        raise Error(f"error: {what} is {value!r}, expected True or False")
    return value


class Device:
    """Where programs run. `place` is where their tensors are: "cpu" for the simulator, "cuda:0"."""

    def __init__(self, name):
        handle = c_void_p()
        check(library.braze_device_open(_encoded(name, "the name of the device"), ctypes.byref(handle)))
        self._handle = handle.value
        self.kind = library.braze_device_kind(handle).decode()
        self.name = library.braze_device_name(handle).decode()
        self.ordinal = library.braze_device_ordinal(handle)
        self.place = f"cuda:{self.ordinal}" if self.kind == "cuda" else "cpu"

    def __repr__(self):
        return f"braze.Device('{self.place if self.kind == 'cuda' else self.kind}', {self.name})"

    def __str__(self):
        return self.place if self.kind == "cuda" else "the simulator"


@functools.lru_cache(maxsize=None)
def open_device(name="best"):
    """A device by name: "cuda", "cuda:1", "sim", or "best", which is a GPU if there is one and else the
    simulator. It stays open."""
    return Device(name)


class Argument(NamedTuple):
    """An input or output of a program. `strides` are in elements; tensors are dense and row-major."""
    kind: str  # "input", "output"
    name: str
    dtype: str
    shape: tuple
    strides: tuple
    bytes: int

    def __str__(self):
        return f"{self.kind} {self.name}"

    @property
    def type(self):
        return _type_text(self.dtype, self.shape)


def _type_text(dtype, shape):
    return f"{dtype}[{','.join(map(str, shape))}]"


def compile(text,
            sizes=None,
            device="best",
            *,
            schedule=None,
            target=None,
            fast_math=False,
            disabled_passes=(),
            tune=False,
            file="<text>"):
    """Compiles a program in the form of .braze files (docs/text-form.md).

    `sizes` sets named sizes of the program. `device` is a name or a braze.Device. `schedule` and
    `disabled_passes` are those of the command's --schedule and --disable. With a `target` such as "sm_90" the
    program is only there to be looked at, and no device is needed. `file` names the text in messages.
    `tune` measures schedules of every kernel on the device and takes the fastest; times are remembered on disk
    (docs/schedules.md). `fast_math` computes f32 functions with the approximate instructions of the GPU
    (docs/numerics.md).
    """
    opened = None
    if target is None:
        opened = device if isinstance(device, Device) else open_device(device)
    return Executable(text, _sizes({} if sizes is None else sizes), opened, schedule, target,
                      _flag(fast_math, "fast_math"), _names(disabled_passes, "disabled_passes"),
                      _flag(tune, "tune"), file)


class Executable:
    """A compiled program. Calling it launches it.

        y = exe(x)                  outputs are allocated: one, or a tuple of several
        exe(x, out=y)               or given: a tensor, a sequence, or a dictionary by name
        exe(x=x, gamma=gamma)       inputs by name
        exe(x, stream=s)            on another stream than the current one of the tensors' package

    All tensors of a call are of one package and have exactly the type that the program declares. On a GPU the
    kernels are queued and the call returns. Temporaries come from the package's allocator, in the order of
    the stream; `workspace=` takes them from a tensor of at least `workspace_bytes` instead.
    """

    def __init__(self, text, sizes, device, schedule, target, fast_math, disabled_passes, tune, file):
        self.device = device
        self._source = (text, sizes, schedule, target, fast_math, disabled_passes, tune, file)
        self._handles = {}
        handle = self._compile(_WIDEST_ALIGNMENT)
        inputs, outputs = library.braze_input_count(handle), library.braze_output_count(handle)
        self.inputs = tuple(_read_argument(handle, i, "input") for i in range(inputs))
        self.outputs = tuple(_read_argument(handle, inputs + i, "output") for i in range(outputs))
        self.workspace_bytes = library.braze_workspace_bytes(handle)
        self.bytes_min = library.braze_bytes_min(handle)  # each input read once, each output written once
        self.bytes_total = library.braze_bytes_total(handle)  # that the kernels move
        self.kernel_count = library.braze_kernel_count(handle)
        self._names = [a.name for a in self.inputs]
        self._addresses = c_void_p * (inputs + outputs)

    def explain(self):
        """Which kernels the program became, why, and what they cost."""
        return take_text(library.braze_explain, self._handles[_WIDEST_ALIGNMENT], 0)

    def explain_json(self):
        """The same as a dictionary; docs/command-line.md lists the keys."""
        return json_module.loads(take_text(library.braze_explain, self._handles[_WIDEST_ALIGNMENT], 1))

    def dump(self, stage):
        """A stage of the compiler as text: graph, simplified, regions, schedule, kernel, llvm or ptx."""
        return take_text(library.braze_dump, self._handles[_WIDEST_ALIGNMENT], _encoded(stage, "stage"))

    def __call__(self, *tensors, out=None, stream=None, workspace=None, **named):
        if self.device is None:
            check(library.braze_launch(self._handles[_WIDEST_ALIGNMENT], None, 0, None, None))
        inputs = self._given_inputs(tensors, named)
        outputs = self._given_outputs(out)
        package = self._package(inputs, outputs)
        if stream is None:
            return self._launch(package, inputs, outputs, workspace, package.current_stream(self.device))
        with package.on_stream(stream, self.device) as handle:
            return self._launch(package, inputs, outputs, workspace, handle)

    def _launch(self, package, inputs, outputs, workspace, stream):
        if outputs is None:
            outputs = [package.empty(a, self.device) for a in self.outputs]
        addresses = [_address(package, t, a, self.device, stream) for t, a in zip(inputs, self.inputs)]
        addresses += [_address(package, t, a, self.device, stream) for t, a in zip(outputs, self.outputs)]
        scratch = self._scratch(package, workspace, stream)
        check(
            library.braze_launch(self._handle_for(addresses), self._addresses(*addresses), len(addresses),
                                 scratch[1], stream))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _scratch(self, package, workspace, stream):
        """(owner, address) of the temporaries."""
        if workspace is not None:
            view = package.view(workspace, stream)
            size = workspace.nbytes
            if view.device != self.device.place or size < self.workspace_bytes:
                raise Error(f"error: the workspace has {size} bytes on {view.device}, the program needs "
                            f"{self.workspace_bytes} on {self.device.place}")
            return workspace, view.address
        return package.scratch(self.workspace_bytes, self.device) if self.workspace_bytes else (None, None)

    def _handle_for(self, addresses):
        """Kernels read 16 bytes at once; tensors at other addresses get a variant, compiled when the first
        comes."""
        bits = _WIDEST_ALIGNMENT
        for address in addresses:
            bits |= address
        alignment = bits & -bits
        return self._handles.get(alignment) or self._compile(alignment)

    def _compile(self, alignment):
        text, sizes, schedule, target, fast_math, disabled_passes, tune, file = self._source
        options = CompileOptions(struct_size=ctypes.sizeof(CompileOptions),
                                 file=_encoded(file, "file"),
                                 sizes=(Size * len(sizes))(*(_size(n, v) for n, v in sizes.items())),
                                 size_count=len(sizes),
                                 schedule=_encoded(schedule, "schedule") if schedule else None,
                                 target=_encoded(target, "target") if target else None,
                                 disabled_passes=(c_char_p * len(disabled_passes))(
                                     *(_encoded(p, "a disabled pass") for p in disabled_passes)),
                                 disabled_pass_count=len(disabled_passes),
                                 fast_math=fast_math,
                                 alignment=alignment,
                                 tune=tune)
        handle = c_void_p()
        check(
            library.braze_compile(self.device._handle if self.device else None, _encoded(text, "text"),
                                  ctypes.byref(options), ctypes.byref(handle)))
        # Not when the process ends: then the driver may be gone before.
        weakref.finalize(self, library.braze_executable_free, handle.value).atexit = False
        self._handles[alignment] = handle.value
        return handle.value

    def _given_inputs(self, tensors, named):
        if len(tensors) > len(self.inputs):
            raise Error(f"error: the program has {len(self.inputs)} inputs, got {len(tensors)}")
        if not named and len(tensors) == len(self.inputs):
            return tensors
        by_name = dict(zip(self._names, tensors))
        for name, tensor in named.items():
            if name not in self._names:
                raise Error(f"error: there is no input named {name}; " + (
                    f"the inputs are {', '.join(self._names)}" if self._names else "the program has none"))
            if name in by_name:
                raise Error(f"error: input {name} is given twice")
            by_name[name] = tensor
        for argument in self.inputs:
            if argument.name not in by_name:
                raise Error(f"error: input {argument.name} is missing; it is {argument.type}")
        return [by_name[name] for name in self._names]

    def _given_outputs(self, out):
        if out is None:
            return None
        names = [a.name for a in self.outputs]
        if isinstance(out, dict):
            if sorted(out) != sorted(names):
                raise Error(f"error: out has {', '.join(sorted(out))}; the outputs are {', '.join(names)}")
            return [out[name] for name in names]
        outputs = list(out) if isinstance(out, (tuple, list)) else [out]
        if len(outputs) != len(names):
            raise Error(f"error: the program has {len(names)} outputs, got {len(outputs)}")
        return outputs

    def _package(self, inputs, outputs):
        """What answers for all tensors of a call."""
        given = list(zip(self.inputs, inputs)) + list(zip(self.outputs, outputs or ()))
        if not given:
            raise Error(
                "error: the program has no inputs, which would say what its outputs are to be; give out=")
        first = library_of(given[0][1], given[0][0])
        for argument, tensor in given:
            other = library_of(tensor, argument)
            if other is not first:
                raise Error(
                    f"error: {given[0][0]} is a {first.name} and {argument} is a {other.name}; give tensors of "
                    "one package")
        return first


def _read_argument(handle, index, kind):
    info = ArgumentInfo(struct_size=ctypes.sizeof(ArgumentInfo))
    check(library.braze_get_argument(handle, index, ctypes.byref(info)))
    return Argument(kind, info.name.decode(), DTYPES[info.dtype], tuple(info.shape[:info.rank]),
                    tuple(info.strides[:info.rank]), info.bytes)


def _address(package, tensor, argument, device, stream):
    view = package.view(tensor, stream)
    if view.refused:
        raise Error(f"error: {argument} {view.refused}")
    if view.dtype != argument.dtype or view.shape != argument.shape:
        raise Error(f"error: {argument} is {argument.type}, got {_type_text(view.dtype, view.shape)}")
    if view.strides is not None and argument.bytes > 0:
        for extent, stride, dense in zip(view.shape, view.strides, argument.strides):
            if extent != 1 and stride != dense:
                raise Error(
                    f"error: {argument} has strides {list(argument.strides)}, got {list(view.strides)}; give a "
                    "contiguous copy")
    if view.device != device.place:
        raise Error(f"error: {argument} is on {view.device}, the program runs on {device}, with tensors on "
                    f"{device.place}")
    if argument.kind == "output" and not view.writable:
        raise Error(f"error: {argument} is read-only")
    return view.address
