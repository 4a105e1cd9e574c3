"""Measures Braze beside PyTorch, eager and compiled, and beside a copy of the same memory, in one process.

    python3 bench/compare.py [--only REGEX] [--json FILE] [--quick] [--no-compile] [--device sim] [--list]

Every candidate of a case works on the same random tensors, and they take turns. Times are of the GPU, between
CUDA events; of programs of microseconds, of many launches replayed in a CUDA graph. Before it is timed, a
result of Braze replaces NaN and is checked against a NumPy reference in float64 and against PyTorch. `share`
is the time that the least possible bytes take at the speed of a copy, or of reading where next to nothing is
written, over the time taken.

With --device=sim NumPy holds the data and the simulator runs Braze, at sizes of --quick: it shows that the
programs are right, and the times mean nothing. Programs with fast_math are compared with nothing but themselves:
they come last, in a table of their own and in a list `fast_math` of the JSON file. bench/plot.py draws the sweeps over widths from the JSON file.
"""
import argparse
import datetime
import json
import pathlib
import re
import statistics
import sys
import time
import traceback

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "frontends" / "python"))
import braze  # noqa: E402
from cases import all_cases  # noqa: E402

CHECKED_ELEMENTS = 1 << 24  # above which a NumPy reference looks at slices
TOLERANCE = {"f32": 5e-5, "f16": 2e-3, "bf16": 1.6e-2}
FAST_MATH_TOLERANCE = 2**-11  # more, for its tanh
# A smaller result is held to the spacing of the type's subnormal numbers.
SMALLEST = {"f32": 0, "f16": 2**-24 / TOLERANCE["f16"], "bf16": 0}
READ_ONLY_SHARE = 0.04  # of the bytes written, below which a case counts as reading
# Of the bytes written, from which on the copy comes after reading, and Braze after the copy: where a tensor is hardly larger than L2,
# reading leaves there what Braze would find.
COPY_LAST_SHARE = 0.02


class NumPyBackend:
    """Host memory and the host's clock."""
    name, torch = "NumPy", None
    versions = {"numpy": np.__version__}

    def random(self, argument, mean, seed):
        x = np.random.default_rng(seed).standard_normal(argument.shape, dtype="f4") + np.float32(mean)
        if argument.dtype == "bool":
            return x < mean
        if argument.dtype == "bf16":
            return ((x.view(np.uint32) + 0x8000) >> 16).astype(np.uint16)
        return x.astype({"f32": "f4", "f16": "f2"}[argument.dtype])

    def poisoned(self, argument):
        y = np.empty(argument.shape, {"f32": "f4", "f16": "f2", "bf16": "u2"}[argument.dtype])
        y[...] = 0x7FC0 if argument.dtype == "bf16" else np.nan
        return y

    def to_float64(self, tensor):
        if tensor.dtype == np.uint16:
            return (tensor.astype(np.uint32) << 16).view("f4").astype("f8")
        return tensor.astype("f8")

    def slices(self, tensor, axis, indices):
        return np.take(tensor, indices, axis)

    def copier(self, tensor):
        target = np.empty_like(tensor)
        return lambda: np.copyto(target, tensor)

    def reader(self, tensor):
        return lambda: tensor.sum()

    def measure(self, call, launches):
        start = time.perf_counter()
        for _ in range(launches):
            call()
        stop = time.perf_counter()
        return lambda: (stop - start) * 1e3 / launches

    def replayed(self, call, launches):
        return call

    def hold(self):
        pass

    def synchronize(self):
        pass

    def release(self):
        pass


class TorchBackend:
    """Memory of a GPU and its clock."""
    name = "PyTorch"

    def __init__(self, device):
        import torch
        self.torch, self.device = torch, device if ":" in device else f"{device}:0"
        torch.cuda.set_device(self.device)
        self.dtypes = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
        self.versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "numpy": np.__version__}

    def random(self, argument, mean, seed):
        generator = self.torch.Generator(device=self.device)
        generator.manual_seed(seed)
        if argument.dtype == "bool":
            return self.torch.rand(argument.shape, generator=generator, device=self.device) < 0.5
        x = self.torch.empty(argument.shape, dtype=self.dtypes[argument.dtype], device=self.device)
        return x.normal_(mean, 1, generator=generator)

    def poisoned(self, argument):
        return self.torch.full(argument.shape,
                               float("nan"),
                               dtype=self.dtypes[argument.dtype],
                               device=self.device)

    def to_float64(self, tensor):
        return tensor.cpu().double().numpy()

    def slices(self, tensor, axis, indices):
        return tensor.index_select(axis, self.torch.tensor(indices, device=self.device))

    def copier(self, tensor):
        target = self.torch.empty_like(tensor)
        return lambda: target.copy_(tensor)

    def reader(self, tensor):
        # As f32 whatever the elements are: the speed of memory is asked for.
        flat = tensor.view(-1)
        if flat.element_size() < 4:
            flat = flat[:flat.numel() // 2 * 2].view(self.torch.float32)
        return lambda: flat.sum()

    def measure(self, call, launches):
        start, stop = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        call()
        stop.record()
        return lambda: start.elapsed_time(stop) / launches

    def replayed(self, call, launches):
        """`launches` of `call` in a CUDA graph."""
        side = self.torch.cuda.Stream()
        side.wait_stream(self.torch.cuda.current_stream())
        with self.torch.cuda.stream(side):
            for _ in range(3):
                call()
        self.torch.cuda.current_stream().wait_stream(side)
        graph = self.torch.cuda.CUDAGraph()
        with self.torch.cuda.graph(graph):
            for _ in range(launches):
                call()
        return graph.replay

    def hold(self):
        """Keeps the GPU busy for some milliseconds, while the host queues what is measured: gaps between
        launches are not the kernels'."""
        self.torch.cuda._sleep(20_000_000)

    def synchronize(self):
        self.torch.cuda.synchronize()

    def release(self):
        self.torch.cuda.empty_cache()


# ---- checks ----


def difference(got, expected, smallest):
    """The largest difference, relative to an element, the root mean square of all or `smallest`, which is largest."""
    if not np.array_equal(np.isfinite(got), np.isfinite(expected)):
        return float("inf")
    scale = np.maximum(np.abs(expected), max(smallest, np.sqrt(np.mean(expected * expected))))
    with np.errstate(invalid="ignore", divide="ignore"):
        errors = np.where(got == expected, 0, np.abs(got - expected) / scale)
    return float(errors.max(initial=0))


def sliced(backend, case, inputs, output):
    """Float64 copies of inputs and output, on some slices where there is much data; None where it cannot be
    sliced."""
    tensors = [*inputs, output]
    if inputs[0].shape and int(np.prod(inputs[0].shape)) > CHECKED_ELEMENTS:
        if not case.along:
            return None
        extent = inputs[0].shape[case.along[0]]
        indices = sorted({0, extent // 3, extent - 1})
        tensors = [
            t if axis is None else backend.slices(t, axis, indices) for t, axis in zip(tensors, case.along)
        ]
    return [backend.to_float64(t) for t in tensors]


def check(backend, case, exe, inputs, output):
    """Largest differences of a result from the references; raises ValueError for a wrong one."""
    exe(*inputs, out=output)
    backend.synchronize()
    found = {}
    small = sliced(backend, case, inputs, output)
    if small is not None:
        found["float64"] = difference(small[-1], case.reference(*small[:-1]), SMALLEST[case.dtype])
    if backend.torch is not None:
        expected = case.torch(backend.torch, *inputs)
        found["PyTorch"] = whole_difference(backend, output, expected, SMALLEST[case.dtype])
        del expected
    allowed = TOLERANCE[case.dtype] + (FAST_MATH_TOLERANCE if case.fast_math else 0)
    for reference, d in found.items():
        if not d <= allowed:
            raise ValueError(f"differs by {d:.3g} from {reference}, {allowed:.3g} is allowed")
    return found


def whole_difference(backend, got, expected, smallest):
    """difference() on the GPU, some rows at a time."""
    torch = backend.torch
    if got.shape != expected.shape:
        raise ValueError(f"has shape {tuple(got.shape)}, PyTorch's {tuple(expected.shape)}")
    got, expected = got.reshape(-1), expected.reshape(-1)
    chunk = 1 << 26
    square = sum(
        float(expected[i:i + chunk].double().square().sum()) for i in range(0, expected.numel(), chunk))
    root = max(smallest, (square / max(1, expected.numel()))**0.5)
    largest = 0.0
    for i in range(0, expected.numel(), chunk):
        g, e = got[i:i + chunk].double(), expected[i:i + chunk].double()
        if not bool(torch.equal(torch.isfinite(g), torch.isfinite(e))):
            return float("inf")
        error = torch.where(g == e, torch.zeros_like(g), (g - e).abs() / e.abs().clamp(min=root))
        largest = max(largest, float(error.max()))
    return largest


# ---- times ----


def spread_of(milliseconds):
    ordered = sorted(milliseconds)
    tenth = len(ordered) // 10
    return {
        "median_ms": statistics.median(ordered),
        "low_ms": ordered[tenth],
        "high_ms": ordered[-1 - tenth],
        "repeats": len(ordered)
    }


def measure_all(backend, candidates, launches, repeats):
    """Times of all candidates, taking turns. One that fails has {"error": ...}."""
    results, ready = {}, {}
    for name, call in candidates.items():
        try:
            for _ in range(3):
                call()
            backend.synchronize()
            ready[name] = backend.replayed(call, launches) if launches > 1 else call
            ready[name]()
            backend.synchronize()
        except Exception as e:  # of whatever a compiler of PyTorch throws
            results[name] = {"error": f"{type(e).__name__}: {e}"[:500]}
            ready.pop(name, None)
    times = {name: [] for name in ready}
    backend.hold()
    for _ in range(repeats):
        for name, call in ready.items():
            times[name].append(backend.measure(call, launches))
    backend.synchronize()
    results.update({name: spread_of([read() for read in readers]) for name, readers in times.items()})
    return results


def run(backend, case, arguments):
    device = arguments.device
    exe = braze.compile(case.text, sizes=case.sizes, device=device, fast_math=case.fast_math)
    inputs = [backend.random(a, case.mean, seed + 1) for seed, a in enumerate(exe.inputs)]
    output = backend.poisoned(exe.outputs[0])
    result = {
        "name": case.name,
        "group": case.group,
        "dtype": case.dtype,
        "width": case.width,
        "bytes_min": exe.bytes_min,
        "bytes_total": exe.bytes_total,
        "kernels": exe.kernel_count,
        "schedule": exe.dump("schedule").split("\n"),
        "launches": case.launches
    }
    result["differences"] = check(backend, case, exe, inputs, output)

    candidates = {"braze": lambda: exe(*inputs, out=output)}
    if backend.torch is not None:
        torch, program = backend.torch, case.torch
        candidates["eager"] = lambda: program(torch, *inputs)
        if not arguments.no_compile:
            torch._dynamo.reset()
            compiled = torch.compile(lambda *tensors: program(torch, *tensors), dynamic=False)
            candidates["compile"] = lambda: compiled(*inputs)
    reads = exe.outputs[0].bytes < READ_ONLY_SHARE * exe.bytes_min
    references = ["copy", "read"] if reads else ["copy"]
    if exe.outputs[0].bytes >= COPY_LAST_SHARE * exe.bytes_min:
        references.reverse()
    for reference in references:
        candidates[reference] = (backend.copier if reference == "copy" else backend.reader)(inputs[0])

    times = result["times"] = measure_all(backend, candidates, case.launches, arguments.repeats)
    for name, moved in [("copy", 2), ("read", 1)]:
        if "median_ms" in times.get(name, {}):
            times[name]["bytes_per_second"] = moved * exe.inputs[0].bytes / times[name]["median_ms"] * 1e3
    result["limit"] = "read" if reads else "copy"
    limit = times[result["limit"]].get("bytes_per_second")
    for name in ("braze", "eager", "compile"):
        if "median_ms" in times.get(name, {}):
            speed = times[name]["bytes_per_second"] = exe.bytes_min / times[name]["median_ms"] * 1e3
            times[name]["share"] = speed / limit if limit else None
    return result


# ---- the table ----

HEAD = f"{'braze ms':>10}{'spread':>10}{'eager ms':>10}{'compile':>10}{'copy ms':>10}{'GB/s':>7}" \
       f"{'share':>8}{'/eager':>8}{'/compile':>9}"


def row(result):
    if "error" in result:
        return f"{result['name']:44}{result['error']}"
    times = result["times"]

    def ms(name):
        median = times.get(name, {}).get("median_ms")
        return f"{median:.4f}" if median is not None else "failed" if name in times else "-"

    braze_times = times["braze"]
    if "error" in braze_times:
        return f"{result['name']:44}{braze_times['error']}"
    median = braze_times["median_ms"]

    def ratio(name):
        other = times.get(name, {}).get("median_ms")
        return f"{other / median:.2f}" if other else "-"

    spread = (braze_times["high_ms"] - braze_times["low_ms"]) / median
    share = f"{100 * braze_times['share']:.1f} %" if braze_times["share"] else "-"
    return (
        f"{result['name']:44}{ms('braze'):>10}{f'{100 * spread:.1f} %':>10}{ms('eager'):>10}{ms('compile'):>10}"
        f"{ms('copy'):>10}{braze_times['bytes_per_second'] / 1e9:>7.0f}{share:>8}{ratio('eager'):>8}"
        f"{ratio('compile'):>9}")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", metavar="REGEX", default="", help="cases whose name it is found in")
    parser.add_argument("--json", metavar="FILE", help="where all results go, after every case")
    parser.add_argument("--quick", action="store_true", help="tiny sizes and few widths")
    parser.add_argument("--no-compile", action="store_true", help="leave torch.compile out")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1 or sim")
    parser.add_argument("--repeats", type=int, default=30, help="measurements of each candidate, 20 or more")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    arguments = parser.parse_args()
    if arguments.repeats < 20:
        parser.error(f"--repeats {arguments.repeats}: 20 or more")
    if arguments.device == "sim" and not arguments.quick:
        parser.error("--device sim is for --quick: full sizes take hours in the simulator")
    return arguments


def main():
    arguments = parse_arguments()
    cases = [c for c in all_cases(arguments.quick) if re.search(arguments.only, c.name)]
    if arguments.list:
        print("\n".join(c.name for c in cases))
        return 0
    if not cases:
        print(f"no case has {arguments.only} in its name", file=sys.stderr)
        return 2
    backend = NumPyBackend() if arguments.device == "sim" else TorchBackend(arguments.device)
    device = braze.open_device(arguments.device)
    report = {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "device": device.name,
        "braze": braze.version,
        **backend.versions, "repeats": arguments.repeats,
        "cases": [],
        "fast_math": []
    }
    print(
        f"{device.name}, Braze {braze.version}, {', '.join(f'{k} {v}' for k, v in backend.versions.items())}")
    failed = False
    title = ""
    for case in cases:
        if (table := "with fast_math" if case.fast_math else "case") != title:
            title = table
            print(f"{title:44}{HEAD}", flush=True)
        try:
            result = run(backend, case, arguments)
        except Exception as e:
            traceback.print_exc()
            result = {"name": case.name, "error": f"{type(e).__name__}: {e}"}
        failed = failed or "error" in result or "error" in result["times"]["braze"]
        report["fast_math" if case.fast_math else "cases"].append(result)
        print(row(result), flush=True)
        if arguments.json:
            pathlib.Path(arguments.json).write_text(json.dumps(report, indent=1) + "\n")
        backend.release()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
