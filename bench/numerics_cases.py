"""What bench/numerics.py measures: every scalar operation that takes floating numbers, with inputs and its
exact value, and softmax, norms and variance on rows that are hard to get right.

References are NumPy in long double. Where that has 64 bits (x86) a reference is right to 0.001 ulp of f32.
"""
import math
import pathlib
import re
from typing import Callable, NamedTuple

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXACT, ROUNDED, ACCURATE = 0, 0.5, 2  # bounds on errors, in ulp
EPS = 2.0**-17  # of the norms: about 1e-5, and an f32


class Scalar(NamedTuple):
    name: str  # in ir/ops.def
    bound: float
    reference: Callable  # of long doubles
    interval: tuple = (-10, 10)  # where the operation does something
    origin: float = 0  # the point near which it is delicate
    attributes: str = ""
    result: str = "f32"

    @property
    def title(self):
        return f"{self.name} {self.result}" if self.attributes else self.name


# ---- references ----


def erf(x):
    return np.array([math.erf(v) for v in x.astype("f8").tolist()], np.longdouble)


def maximum(a, b):
    return np.where(np.isnan(a) | np.isnan(b), np.nan, np.where((a > b) | ((a == b) & ~np.signbit(a)), a, b))


def minimum(a, b):
    return -maximum(-a, -b)


def floordiv(a, b):
    return np.floor((a / b).astype("f4")).astype(np.longdouble)


def mod(a, b):
    r = np.fmod(a, b)
    return np.where(r == 0, np.copysign(0, b), np.where((r < 0) != (b < 0), r + b, r))


def saturated(x):
    """To i32, towards zero; NaN is 0."""
    return np.nan_to_num(np.clip(np.trunc(x), -2.0**31, 2.0**31 - 1)).astype("i4")


def to_bf16(x):
    """The f32 with the bits of the nearest bf16."""
    bits = x.astype("f4").view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000
    return np.where(np.isnan(x), np.float32(np.nan), rounded.view("f4"))


SCALARS = [
    Scalar("neg", EXACT, np.negative),
    Scalar("abs", EXACT, np.abs),
    Scalar("exp", ACCURATE, np.exp, (-104, 89)),
    Scalar("exp2", ACCURATE, np.exp2, (-150, 128)),
    Scalar("expm1", ACCURATE, np.expm1, (-20, 89)),
    Scalar("log", ACCURATE, np.log, (0, 4), origin=1),
    Scalar("log1p", ACCURATE, np.log1p, (-1, 4)),
    Scalar("log2", ACCURATE, np.log2, (0, 4), origin=1),
    Scalar("sqrt", ROUNDED, np.sqrt, (0, 4)),
    Scalar("rsqrt", ACCURATE, lambda x: 1 / np.sqrt(x), (0, 4)),
    Scalar("reciprocal", ROUNDED, lambda x: 1 / x),
    Scalar("sin", ACCURATE, np.sin, (-100, 100)),
    Scalar("cos", ACCURATE, np.cos, (-100, 100)),
    Scalar("tan", ACCURATE, np.tan, (-100, 100)),
    Scalar("tanh", ACCURATE, np.tanh),
    Scalar("sigmoid", ACCURATE, lambda x: 1 / (1 + np.exp(-x)), (-104, 20)),
    Scalar("erf", ACCURATE, erf, (-4, 4)),
    Scalar("floor", EXACT, np.floor),
    Scalar("ceil", EXACT, np.ceil),
    Scalar("round", EXACT, np.rint),
    Scalar("trunc", EXACT, np.trunc),
    Scalar("sign", EXACT, lambda x: np.where((x == 0) | np.isnan(x), x, np.copysign(1, x))),
    Scalar("isnan", EXACT, np.isnan, result="bool"),
    Scalar("isinf", EXACT, np.isinf, result="bool"),
    Scalar("isfinite", EXACT, np.isfinite, result="bool"),
    Scalar("add", ROUNDED, np.add),
    Scalar("sub", ROUNDED, np.subtract),
    Scalar("mul", ROUNDED, np.multiply),
    Scalar("div", ROUNDED, np.divide),
    Scalar("floordiv", EXACT, floordiv),
    Scalar("mod", ROUNDED, mod),
    Scalar("pow", ACCURATE, np.power, (0, 10)),
    Scalar("max", EXACT, maximum),
    Scalar("min", EXACT, minimum),
    Scalar("atan2", ACCURATE, np.arctan2),
    Scalar("eq", EXACT, np.equal, result="bool"),
    Scalar("ne", EXACT, np.not_equal, result="bool"),
    Scalar("lt", EXACT, np.less, result="bool"),
    Scalar("le", EXACT, np.less_equal, result="bool"),
    Scalar("gt", EXACT, np.greater, result="bool"),
    Scalar("ge", EXACT, np.greater_equal, result="bool"),
    Scalar("select", EXACT, lambda c, a, b: np.where(c != 0, a, b)),
    Scalar("clamp", EXACT, lambda x, lo, hi: minimum(maximum(x, lo), hi)),
    Scalar("fma", ROUNDED, lambda a, b, c: a * b + c),
    Scalar("cast", EXACT, lambda x: x.astype("f2"), (-70000, 70000), 0, "dtype = f16", "f16"),
    Scalar("cast", EXACT, to_bf16, (-10, 10), 0, "dtype = bf16", "bf16"),
    Scalar("cast", EXACT, lambda x: x, (-10, 10), 0, "dtype = f64", "f64"),
    Scalar("cast", EXACT, saturated, (-3e9, 3e9), 0, "dtype = i32", "i32"),
]


def floating_operations():
    """{name: arity} of the operations in ir/ops.def that take floating numbers."""
    table = (ROOT / "ir" / "ops.def").read_text()
    rows = re.findall(r'^BZ_SCALAR_OP\(\w+, "(\w+)", (\d), (\w+),', table, re.M)
    return {name: int(arity) for name, arity, accepts in rows if accepts != "logical"}


# ---- inputs of scalar operations ----


def neighbours(values, ulps):
    """The f32 nearest to each value, of both signs, and those up to `ulps` beside them."""
    bits = np.abs(np.asarray(values, "f8")).astype("f4").view(np.int32)
    near = (bits[:, None] + np.arange(-ulps, ulps + 1)).reshape(-1)
    near = near[(near >= 0) & (near <= 0x7F800000)].astype(np.int32).view("f4")
    return np.concatenate([near, -near])


def edges():
    """Zeros, subnormals, infinities, NaN, the powers of two, integers, halves, multiples of pi/2 and the
    points where functions overflow, underflow or saturate, with their neighbours."""
    powers = 2.0**np.arange(-149, 128)
    limits = [
        0, 1.4e-45, 1.1754942e-38, 3.4028235e38, np.inf, 3.8325, 3.9192059, 9.0109131, 10.05, 17.3286795,
        87.336545, 88.376, 88.722839, 103.2789, 103.97208, 104, 126, 127, 128, 148, 149, 150, 151, 65504,
        65520, 2.0**24 - 1
    ]
    return np.unique(
        np.concatenate([
            neighbours(np.concatenate([powers, np.arange(200) / 2,
                                       np.arange(200) * np.pi / 2]), 1),
            neighbours(limits, 3), [-0.0, np.nan]
        ]).astype("f4").view(np.uint32)).view("f4")


# Where the errors were largest when functions ran on every f32 between 2^-10 and the ends of the interval (64
# for sin, cos and tan).
HARDEST = {
    "exp": "0x1.7906e8p+3",
    "exp2": "-0x1.f9b35ep+6",
    "expm1": "0x1.877216p-2",
    "log": "0x1.47b394p-1",
    "log1p": "0x1.5586bep-2",
    "log2": "0x1.5561bp+0",
    "rsqrt": "0x1.019566p+0",
    "sin": "0x1.8bd9c8p+5",
    "cos": "0x1.5347d4p+4",
    "tan": "0x1.1b4e6ap+0",
    "tanh": "0x1.09e4c2p-1",
    "sigmoid": "-0x1.f5ae4ep+0",
    "erf": "0x1.e11154p-1",
}


def few_edges():
    """Those that pairs and triples are made of."""
    values = [0, 1.4e-45, 1.1754942e-38, 2.0**-126, 0.25, 0.5, 1, 1.5, 2, 3, 10, 33, 127, 1e9, 2.0**24]
    positive = np.array(values + [3.4028235e38, np.inf], "f4")
    return np.concatenate([positive, -positive, [np.float32(np.nan)]])


def scalar_inputs(scalar, arity, count, rng):
    """`arity` arrays: the edges and the hardest, then `count` of random bits, of log-uniform distances from the origin and of
    uniform numbers in the interval."""
    lo, hi = scalar.interval
    bits = [rng.integers(0, 2**32, count, np.uint32).view("f4") for _ in range(arity)]
    # As far as the interval goes on either side of the origin.
    sides = [(below, side) for below, side in ((lo, -1), (hi, 1)) if side * (below - scalar.origin) > 0]

    def distances():
        reach, sign = np.array(sides)[rng.integers(0, len(sides), count)].T
        top = np.log2(np.abs(reach - scalar.origin))
        return scalar.origin + sign * 2**(top - 30 * rng.random(count))

    logarithmic = [distances() for _ in range(arity)]
    if scalar.name == "pow":  # bases near 1 as well, and results over the whole range
        logarithms = rng.uniform(-1, 1, count) * 2**rng.uniform(-20, 6, count)
        base = np.exp2(logarithms).astype("f4")
        with np.errstate(divide="ignore"):
            logarithmic = [base, rng.uniform(-150, 129, count) / np.log2(base.astype("f8"))]
    uniform = [rng.uniform(lo, hi, count) for _ in range(arity)]
    if arity == 1:
        hardest = float.fromhex(HARDEST.get(scalar.name, "0"))
        special = [np.concatenate([edges(), [np.float32(hardest)]])]
    else:
        special = np.meshgrid(*[few_edges()] * arity)
    with np.errstate(over="ignore"):
        return [
            np.concatenate([part.reshape(-1).astype("f4")
                            for part in parts])
            for parts in zip(special, bits, logarithmic, uniform)
        ]


# ---- rows ----


class Rows(NamedTuple):
    name: str
    text: str  # the expression, of %x
    torch: Callable  # (torch, x)
    reference: Callable  # rows in long double
    # What an error is compared with where the result is small: an error is |got - exact| in ulp of the larger
    # of |exact| and this.
    least: Callable = lambda y: 0
    grouped: bool = False  # x is (R / 2, 8, W / 4), two rows a sample
    infinite: bool = False  # -inf has a meaning


def exponentials(x):
    """x - max, exp of it and the sum; a row of -inf stays one."""
    largest = x.max(1, keepdims=True)
    d = x - np.where(np.isinf(largest), 0, largest)
    e = np.exp(d)
    return largest, d, e, e.sum(1, keepdims=True)


def softmax(x):
    largest, _, e, s = exponentials(x)
    return np.where(np.isinf(largest), np.nan, e / s)


def log_softmax(x):
    largest, d, _, s = exponentials(x)
    return np.where(np.isinf(largest), np.nan, d - np.log(s))


def logsumexp(x):
    largest, _, _, s = exponentials(x)
    return (np.log(s) + np.where(np.isinf(largest), 0, largest))[:, 0]


def squared_deviations(x):
    d = x - x.mean(1, keepdims=True)
    return d, (d * d).sum(1, keepdims=True)


def normalized(x):
    d, squares = squared_deviations(x)
    return d / np.sqrt(squares / x.shape[1] + EPS)


def rms_normalized(x):
    return x / np.sqrt((x * x).mean(1, keepdims=True) + EPS)


def variance(x):
    return squared_deviations(x)[1][:, 0] / (x.shape[1] - 1)


def root_mean_square(y):
    """Of each row; 1 for a row of zeros."""
    root = np.sqrt((y * y).mean(1, keepdims=True))
    return np.where(root == 0, 1, root)


ONE = dict(least=lambda y: 1)
ROOT_MEAN_SQUARE = dict(least=root_mean_square)
ROWS = [
    Rows("softmax", "softmax %x {axes = [1]}", lambda t, x: t.softmax(x, 1), softmax, infinite=True),
    Rows("log_softmax",
         "log_softmax %x {axes = [1]}",
         lambda t, x: t.log_softmax(x, 1),
         log_softmax,
         infinite=True,
         **ONE),
    Rows("logsumexp",
         "logsumexp %x {axes = [1]}",
         lambda t, x: t.logsumexp(x, 1),
         logsumexp,
         infinite=True,
         **ONE),
    Rows("layer_norm", f"layer_norm %x {{axes = [1], eps = {EPS!r}}}",
         lambda t, x: t.nn.functional.layer_norm(x, x.shape[1:], eps=EPS), normalized, **ROOT_MEAN_SQUARE),
    Rows("group_norm",
         f"group_norm %x {{groups = 2, eps = {EPS!r}}}",
         lambda t, x: t.nn.functional.group_norm(x, 2, eps=EPS),
         normalized,
         grouped=True,
         **ROOT_MEAN_SQUARE),
    Rows("rms_norm", f"rms_norm %x {{axes = [1], eps = {EPS!r}}}",
         lambda t, x: t.nn.functional.rms_norm(x, x.shape[1:], eps=EPS), rms_normalized),
    Rows("var", "var %x {axes = [1]}", lambda t, x: t.var(x, 1), variance),
]


class Data(NamedTuple):
    name: str
    make: Callable  # (rng, rows, width), float64
    rows: int = 16
    width: int = 4096
    infinite: bool = False


def normal(mean=0, deviation=1):
    return lambda rng, rows, width: mean + deviation * rng.standard_normal((rows, width))


def uniform(bound):
    return lambda rng, rows, width: rng.uniform(-bound, bound, (rows, width))


def constant(rng, rows, width):
    return np.repeat(rng.uniform(-1e4, 1e4, (rows, 1)), width, 1)


def almost_constant(rng, rows, width):
    """All elements 1 but one of each row, an ulp above."""
    x = np.ones((rows, width))
    x[np.arange(rows), rng.integers(0, width, rows)] += 2.0**-23
    return x


def one_large(rng, rows, width):
    x = rng.standard_normal((rows, width))
    x[np.arange(rows), rng.integers(0, width, rows)] = 1e4
    return x


def masked(rng, rows, width):
    """Half of the elements are -inf, in row 0 all and in row 1 all but one."""
    x = np.where(rng.random((rows, width)) < 0.5, -np.inf, rng.standard_normal((rows, width)))
    x[:2] = -np.inf
    x[1, width // 3] = 2.5
    return x


DATA = [
    Data("normal", normal()),
    Data("normal, mean 1e4, deviation 0.01", normal(1e4, 0.01)),
    Data("normal, mean 1e4", normal(1e4)),
    Data("normal, mean 1e6", normal(1e6)),
    Data("normal, mean 1e7, deviation 4", normal(1e7, 4)),
    Data("normal, deviation 1e-6", normal(0, 1e-6)),
    Data("normal, deviation 1e-18", normal(0, 1e-18)),
    Data("1, one element an ulp above", almost_constant),
    Data("constant rows", constant),
    Data("uniform in ±80", uniform(80)),
    Data("uniform in ±1e4", uniform(1e4)),
    Data("normal, one element 1e4", one_large),
    Data("half of the row -inf; all; all but one", masked, infinite=True),
    Data("normal, rows of 65536", normal(), 4, 65536),
    Data("normal, mean 1e4, rows of 65536", normal(1e4), 4, 65536),
    Data("normal, rows of 1e6", normal(), 2, 1000000),
    Data("normal, mean 1e4, rows of 1e6", normal(1e4), 2, 1000000),
]
