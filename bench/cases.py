"""The programs that bench/compare.py measures: each as Braze text, as PyTorch and as a NumPy reference in
float64."""
import pathlib
from typing import Callable, NamedTuple

import numpy as np

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"
WIDTHS = (256, 1000, 1024, 4096, 5000, 16384, 30522, 65535, 65536, 262144, 393216, 1048576)
BYTES = 1 << 30  # of data that a sweep over widths reads
ITEM_BYTES = {"f32": 4, "f16": 2, "bf16": 2}
EPS = 1e-5


class Case(NamedTuple):
    name: str
    text: str
    sizes: dict
    torch: Callable  # (torch, *inputs)
    reference: Callable  # (*inputs), float64 arrays
    # The axis of each input, then of the output, along which results do not depend on each other: a large
    # result is checked on some slices. None is not sliced; without any the whole result is compared with
    # PyTorch's alone.
    along: tuple = ()
    launches: int = 1  # of one measurement; more than one are replayed in a CUDA graph
    mean: float = 0  # of the random inputs, whose deviation is 1
    group: str = ""  # of a sweep over widths
    dtype: str = "f32"
    width: int = 0
    fast_math: bool = False


# ---- float64 references ----


def logsumexp(x, axis, keepdims=False):
    largest = x.max(axis, keepdims=True)
    y = np.log(np.exp(x - largest).sum(axis, keepdims=True)) + largest
    return y if keepdims else y.squeeze(axis)


def log_softmax(x, axis=1):
    return x - logsumexp(x, axis, True)


def softmax(x, axis=1):
    return np.exp(log_softmax(x, axis))


def normalized(x, axes):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + EPS)


def rms_normalized(x, axis):
    return x / np.sqrt((x * x).mean(axis, keepdims=True) + EPS)


def gn_tail(x, gamma, beta):
    n, c, h, w = x.shape
    y = normalized(x.reshape(n, 16, -1), (2,)).reshape(x.shape) * gamma[:, None, None] + beta[:, None, None]
    y = np.tanh(y)
    return logsumexp(x + y * np.clip(y + 3, 0, 6) / 6, 1, True)


# ---- the cases ----


def graph(name, sizes, body):
    head = ", ".join(f"{n} = {v}" for n, v in sizes.items())
    return f"graph {name}({head}) {{\n" + "\n".join(f"  {line}" for line in body) + "\n}\n"


def example(name):
    return (EXAMPLES / f"{name}.braze").read_text()


# By name: parameters besides x, the expression in Braze, PyTorch and NumPy; on rows of (R, D).
ROW_OPERATIONS = {
    "softmax": ([], "softmax %x {axes = [1]}", lambda t, x: t.softmax(x, 1), softmax),
    "log_softmax": ([], "log_softmax %x {axes = [1]}", lambda t, x: t.log_softmax(x, 1), log_softmax),
    "logsumexp": ([], "logsumexp %x {axes = [1]}", lambda t, x: t.logsumexp(x, 1), lambda x: logsumexp(x, 1)),
    "layer_norm": (["gamma", "beta"], f"layer_norm %x, %gamma, %beta {{axes = [1], eps = {EPS}}}",
                   lambda t, x, g, b: t.nn.functional.layer_norm(x, (x.shape[1],), g, b, EPS),
                   lambda x, g, b: normalized(x, (1,)) * g + b),
    "rms_norm": (["gamma"], f"rms_norm %x, %gamma {{axes = [1], eps = {EPS}}}",
                 lambda t, x, g: t.nn.functional.rms_norm(x, (x.shape[1],), g, EPS),
                 lambda x, g: rms_normalized(x, 1) * g),
}


def rows(operation, dtype, height, width, sweep=True):
    parameters, expression, torch, reference = ROW_OPERATIONS[operation]
    sizes = {"R": height, "D": width}
    body = [f"%x = input {dtype}[R, D]"] + [f"%{p} = input {dtype}[D]" for p in parameters]
    body += [f"%y = {expression}", "output %y"]
    return Case(f"{operation} {dtype} {height}x{width}",
                graph(operation, sizes, body),
                sizes,
                torch,
                reference,
                along=(0, *[None] * len(parameters), 0),
                group=operation if sweep else "",
                dtype=dtype,
                width=width)


def row_sweeps(quick):
    for operation in ROW_OPERATIONS:
        for dtype, size in ITEM_BYTES.items():
            for width in (1000,) if quick else WIDTHS:
                yield rows(operation, dtype, 3 if quick else max(1, BYTES // (width * size)), width)


REDUCTIONS = {
    "sum": (lambda t, x, axis: x.sum(axis), lambda x, axis: x.sum(axis)),
    "max": (lambda t, x, axis: x.amax(axis), lambda x, axis: x.max(axis)),
    "logsumexp": (lambda t, x, axis: t.logsumexp(x, axis), logsumexp),
}


def reduction(operation, shape, axis):
    torch, reference = REDUCTIONS[operation]
    sizes = dict(zip("ABC", shape))
    body = [f"%x = input f32[{', '.join(sizes)}]", f"%y = {operation} %x {{axes = [{axis}]}}", "output %y"]
    kept = [i for i in range(len(shape)) if i != axis]
    # Along the last axis that stays.
    return Case(f"{operation} {'x'.join(map(str, shape))} axis {axis}",
                graph(operation, sizes, body),
                sizes,
                lambda t, x: torch(t, x, axis),
                lambda x: reference(x, axis),
                along=(kept[-1], len(kept) - 1))


def outer_reductions(quick):
    shapes = [(40, 30, 8), (3, 40, 33), (300, 37)] if quick else [(4096, 4096, 64), (128, 4096, 4095),
                                                                  (1000000, 37)]
    for operation in REDUCTIONS:
        for shape in shapes:
            for axis in (0, 1):
                yield reduction(operation, shape, axis)


def full_reduction(operation, quick):
    torch, reference = REDUCTIONS[operation]
    sizes = {"N": 3000 if quick else 1 << 30}
    body = ["%x = input f32[N]", f"%y = {operation} %x", "output %y"]
    # The mean keeps a sum away from 0, where a relative error says nothing.
    return Case(f"{operation} of {sizes['N']}",
                graph(operation, sizes, body),
                sizes,
                lambda t, x: torch(t, x, 0),
                lambda x: reference(x, 0),
                mean=0.5)


# One of them in Braze and, for PyTorch and NumPy alike, in Python.
STEPS = [("add {}, %b", lambda v, b, s: v + b), ("mul {}, %s", lambda v, b, s: v * s),
         ("abs {}", lambda v, b, s: abs(v)), ("sub {}, %b", lambda v, b, s: v - b),
         ("mul {}, 0.5", lambda v, b, s: v * 0.5)]


def pointwise(count, quick):
    sizes = {"R": 6, "D": 100} if quick else {"R": 65536, "D": 4096}
    body = ["%x = input f32[R, D]", "%b = input f32[D]", "%s = input f32[R, 1]"]
    steps = [STEPS[i % len(STEPS)] for i in range(count)]
    for i, (text, _) in enumerate(steps):
        body.append(f"%v{i} = " + text.format(f"%v{i - 1}" if i else "%x"))

    def apply(x, b, s):
        for _, step in steps:
            x = step(x, b, s)
        return x

    return Case(f"{count} pointwise",
                graph("pointwise", sizes, body + [f"output %v{count - 1}"]),
                sizes,
                lambda t, *inputs: apply(*inputs),
                apply,
                along=(0, None, 0, 0))


def transposed(quick):
    n = 40 if quick else 16384
    sizes = {"R": n, "D": n}
    for name, expressions, torch, reference, along in [
        ("transpose", ["%y = permute %x {perm = [1, 0]}"], lambda t, x: x.t().contiguous(), lambda x: x.T,
         (0, 1)),
        ("softmax of transposed", ["%t = permute %x {perm = [1, 0]}", "%y = softmax %t {axes = [1]}"],
         lambda t, x: t.softmax(x.t(), 1).contiguous(), lambda x: softmax(x.T), (1, 0)),
        ("transposed softmax", ["%s = softmax %x {axes = [1]}", "%y = permute %s {perm = [1, 0]}"],
         lambda t, x: t.softmax(x, 1).t().contiguous(), lambda x: softmax(x).T, (0, 1))
    ]:
        body = ["%x = input f32[R, D]", *expressions, "output %y"]
        yield Case(f"{name} {n}x{n}", graph("transposed", sizes, body), sizes, torch, reference, along)


def images(quick):
    """Norms of batches of images, and reductions over channels."""
    n, c, h, w = (2, 64, 6, 6) if quick else (128, 64, 126, 126)
    sizes = {"N": n, "C": c, "H": h, "W": w}

    def torch_gn_tail(t, x, gamma, beta):
        f = t.nn.functional
        y = f.hardswish(t.tanh(f.group_norm(x, 16, gamma, beta, EPS)))
        return t.logsumexp(x + y, 1, True)

    yield Case(f"gn_tail {n}x{c}x{h}x{w}",
               example("gn_tail"),
               sizes,
               torch_gn_tail,
               gn_tail,
               along=(0, None, None, 0))

    n, c, h, w = sizes = (2, 4, 8, 8) if quick else (112, 64, 512, 512)
    sizes = dict(zip("NCHW", sizes))
    shape = f"{n}x{c}x{h}x{w}"
    x = "%x = input f32[N, C, H, W]"
    yield Case(f"instance_norm {shape}",
               graph("instance_norm", sizes, [x, f"%y = instance_norm %x {{eps = {EPS}}}", "output %y"]),
               sizes,
               lambda t, x: t.nn.functional.instance_norm(x, eps=EPS),
               lambda x: normalized(x, (2, 3)),
               along=(0, 0))
    yield Case(f"rms_norm over channels {shape}",
               graph("rms_norm", sizes, [x, f"%y = rms_norm %x {{axes = [1], eps = {EPS}}}", "output %y"]),
               sizes,
               lambda t, x: x / t.sqrt((x * x).mean(1, keepdim=True) + EPS),
               lambda x: rms_normalized(x, 1),
               along=(0, 0))

    n, c, h, w = sizes = (2, 4, 8, 8) if quick else (16, 64, 256, 256)
    sizes = dict(zip("NCHW", sizes))
    parameters = ["%gamma = input f32[C, H, W]", "%beta = input f32[C, H, W]"]
    yield Case(f"layer_norm over 3 axes {n}x{c}x{h}x{w}",
               graph("layer_norm", sizes, [
                   x, *parameters, f"%y = layer_norm %x, %gamma, %beta {{axes = [1, 2, 3], eps = {EPS}}}",
                   "output %y"
               ]),
               sizes,
               lambda t, x, g, b: t.nn.functional.layer_norm(x, tuple(x.shape[1:]), g, b, EPS),
               lambda x, g, b: normalized(x, (1, 2, 3)) * g + b,
               along=(0, None, None, 0))


def other_rows(quick):
    """Rows of widths that the sweeps do not have: short ones, and parts of blocks that are not full."""
    for operation, dtype, width in [("softmax", "f32", 37), ("softmax", "bf16", 64), ("softmax", "bf16", 770),
                                    ("softmax", "bf16", 49152), ("layer_norm", "bf16", 100),
                                    ("layer_norm", "bf16", 100000), ("layer_norm", "f32", 200000),
                                    ("logsumexp", "bf16", 100)]:
        height = 3 if quick else BYTES // 2 // (width * ITEM_BYTES[dtype])
        yield rows(operation, dtype, height, width, sweep=False)


def batch_statistics(quick):
    """Batch normalization in training: every channel by mean and variance of all samples."""
    n, c, h, w = sizes = (2, 4, 8, 8) if quick else (128, 256, 56, 56)
    sizes = dict(zip("NCHW", sizes))
    for dtype in ("f32", "bf16"):
        body = [f"%x = input {dtype}[N, C, H, W]", "%a = cast %x {dtype = f32}", "%m = mean %a {axes = [0, 2, 3]}",
                "%v = var %a {axes = [0, 2, 3], correction = 0}", f"%y = batch_norm %x, %m, %v {{eps = {EPS}}}",
                "output %y"]
        yield Case(f"batch statistics {dtype} {n}x{c}x{h}x{w}",
                   graph("batch_statistics", sizes, body),
                   sizes,
                   lambda t, x: t.nn.functional.batch_norm(x, None, None, training=True, eps=EPS),
                   lambda x: normalized(x, (0, 2, 3)),
                   along=(1, 1),
                   dtype=dtype)


def softmaxes(quick):
    """Over an axis that is not the last, and masked."""
    for dtype, n, c, p in [("f32", 2, 30, 40)] if quick else [("f32", 16, 1024, 4096), ("f32", 1024, 64, 4096),
                                                              ("bf16", 32, 1024, 4096)]:
        sizes = {"N": n, "C": c, "P": p}
        body = [f"%x = input {dtype}[N, C, P]", "%y = softmax %x {axes = [1]}", "output %y"]
        yield Case(f"softmax {'' if dtype == 'f32' else dtype + ' '}{n}x{c}x{p} axis 1",
                   graph("softmax_columns", sizes, body),
                   sizes,
                   lambda t, x: t.softmax(x, 1),
                   softmax,
                   along=(0, 0),
                   dtype=dtype)
    b, h, q, k = sizes = (2, 2, 3, 100) if quick else (8, 16, 1024, 1024)
    yield Case(f"attention_softmax {b}x{h}x{q}x{k}",
               example("attention_softmax"),
               dict(zip("BHQK", sizes)),
               lambda t, x, mask: t.softmax(t.where(mask, -t.inf, x * 0.125), -1),
               lambda x, mask: softmax(np.where(mask != 0, -np.inf, x * 0.125), -1),
               along=(0, 0, 0))


def l1_norm(quick):
    sizes = {"R": 5, "D": 1001} if quick else {"R": 32768, "D": 65535}
    body = [
        "%x = input f32[R, D]", "%a = abs %x", "%m = mean %a {axes = [1], keepdims = true}",
        "%y = div %x, %m", "output %y"
    ]
    return Case(f"l1_norm {sizes['R']}x{sizes['D']}",
                graph("l1_norm", sizes, body),
                sizes,
                lambda t, x: x / x.abs().mean(1, keepdim=True),
                lambda x: x / abs(x).mean(1, keepdims=True),
                along=(0, 0))


def small(quick):
    sizes = {"B": 4, "R": 10, "D": 32}
    body = ["%x = input f32[B, R, D]", "%y = logsumexp %x {axes = [0]}", "output %y"]
    return Case("logsumexp 4x10x32 axis 0, in a CUDA graph",
                graph("logsumexp", sizes, body),
                sizes,
                lambda t, x: t.logsumexp(x, 0),
                lambda x: logsumexp(x, 0),
                along=(2, 1),
                launches=100)


def with_fast_math(quick):
    """Programs whose arithmetic takes as long as their memory, or longer."""
    cases = [case for case in images(quick) if case.name.startswith("gn_tail")]
    for operation in ("softmax", "logsumexp"):
        for dtype in ("bf16", "f16"):
            for width in (1000,) if quick else (4096, 65536, 262144):
                height = 3 if quick else BYTES // (width * ITEM_BYTES[dtype])
                cases.append(rows(operation, dtype, height, width, sweep=False))
    for case in cases:
        yield case._replace(name=f"{case.name} fast_math", fast_math=True)


def all_cases(quick=False):
    yield small(quick)
    for operation in ("softmax", "log_softmax"):
        height, width = (2, 5000) if quick else (4096, 393216)
        yield rows(operation, "f32", height, width, sweep=False)
    yield from images(quick)
    yield from batch_statistics(quick)
    yield from softmaxes(quick)
    yield from other_rows(quick)
    yield l1_norm(quick)
    yield from outer_reductions(quick)
    yield full_reduction("sum", quick)
    yield full_reduction("max", quick)
    for count in (1, 5, 20):
        yield pointwise(count, quick)
    yield from transposed(quick)
    yield from row_sweeps(quick)
    yield from with_fast_math(quick)
