"""Measures the errors of Braze in ulp: of every scalar operation over inputs of all kinds, and of softmax,
norms and variance on rows that are hard to get right. Every program runs twice and must give the same bits.

    python3 bench/numerics.py [--device sim] [--quick] [--only REGEX] [--json FILE]
    python3 bench/numerics.py --merge FILE.json ... [--markdown docs/numerics.md]

With --device=cuda PyTorch holds the data and is measured beside Braze on the same inputs; with --device=sim
NumPy does. The exit status is 1 when an operation exceeds its bound, an infinity or NaN is not the exact
result's, or two runs differ.

--merge makes one table of the JSON files of several devices. With --markdown it replaces what stands between
the markers in that file.

The error of a result is |got - exact| / ulp, an ulp being the spacing of f32 at the exact result (2^-149 for
subnormals, and 2^104 from the largest number on; an overflow counts as 2^128). Infinities of the exact
result, NaN and the sign of an exact zero must be right; otherwise the error is infinite.
"""
import argparse
import datetime
import json
import pathlib
import re
import sys
import traceback

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "frontends" / "python"))
import braze  # noqa: E402
from numerics_cases import DATA, EXACT, ROWS, SCALARS, floating_operations, scalar_inputs  # noqa: E402

COUNT, QUICK_COUNT, QUICK_FRACTION = 1 << 20, 1 << 12, 16
ROUNDING = 1e-6  # by which the reference may miss half an ulp
# Operations that PyTorch has under the same name and with the same meaning.
NAMED_ALIKE = (
    "exp exp2 expm1 log log1p log2 sqrt rsqrt reciprocal sin cos tan tanh sigmoid erf div pow atan2").split()
BEGIN, END = "<!-- numerics.py: begin -->", "<!-- numerics.py: end -->"


class NumPyBackend:
    torch = None
    versions = {"numpy": np.__version__}

    def tensor(self, array):
        return array

    def poisoned(self, argument, byte):
        names = {"f32": "f4", "f16": "f2", "bf16": "u2", "f64": "f8", "i32": "i4", "bool": "?"}
        return np.frombuffer(bytearray([byte]) * argument.bytes,
                             names[argument.dtype]).reshape(argument.shape)

    def array(self, tensor):
        """In NumPy; bf16 as f32."""
        return (tensor.astype(np.uint32) << 16).view("f4") if tensor.dtype == np.uint16 else tensor


class TorchBackend:

    def __init__(self, device):
        import torch
        self.torch, self.device = torch, device if ":" in device else f"{device}:0"
        torch.cuda.set_device(self.device)
        self.dtypes = {
            "f32": torch.float32,
            "f16": torch.float16,
            "bf16": torch.bfloat16,
            "f64": torch.float64,
            "i32": torch.int32,
            "bool": torch.bool
        }
        self.versions = {"torch": torch.__version__, "cuda": torch.version.cuda, "numpy": np.__version__}

    def tensor(self, array):
        return self.torch.from_numpy(array).to(self.device)

    def poisoned(self, argument, byte):
        raw = self.torch.full((argument.bytes,), byte, dtype=self.torch.uint8, device=self.device)
        return raw.view(self.dtypes[argument.dtype]).view(argument.shape)

    def array(self, tensor):
        return (tensor.float() if tensor.dtype == self.torch.bfloat16 else tensor).cpu().numpy()


# ---- errors ----


def ulp_errors(got, exact, least=0, signed_zeros=True):
    if got.dtype != np.float32:
        same = (got == exact) | ((got != got) & (exact != exact))
        return np.where(same, 0, np.inf)
    largest = np.longdouble(2)**128
    with np.errstate(all="ignore"):
        inside = np.clip(exact, -largest, largest)
        scale = np.clip(np.maximum(np.abs(inside), least), 2.0**-126, 2.0**127)
        ulp = np.ldexp(1.0, np.frexp(scale)[1] - 24)
        finite = np.where(np.isinf(got), np.copysign(largest, got), got)
        errors = (np.abs(finite - inside) / ulp).astype("f8")
        wrong = np.isnan(got) != np.isnan(exact)
        wrong |= np.isinf(exact) & (got != exact)
        if signed_zeros:
            wrong |= (exact == 0) & (got == 0) & (np.signbit(got) != np.signbit(exact))
    return np.where(wrong, np.inf, np.where(np.isnan(exact), 0, errors))


def worst(errors, got, exact, inputs=()):
    """The largest error and where it is."""
    at = np.unravel_index(np.argmax(errors), errors.shape)
    found = {"ulp": float(errors[at]), "got": str(got[at]), "exact": str(exact[at])}
    if inputs:
        found["of"] = [float(x[at]).hex() for x in inputs]
    return found


# ---- measurements ----


def run(backend, exe, tensors, same_bits):
    """Runs a program twice over outputs that held different bits. Appends to `same_bits` whether the results
    have the same."""
    first, second = (backend.poisoned(exe.outputs[0], byte) for byte in (0xFF, 0x3C))
    exe(*tensors, out=first)
    exe(*tensors, out=second)
    if backend.torch:
        backend.torch.cuda.synchronize()
    first, second = backend.array(first), backend.array(second)
    same_bits.append(first.tobytes() == second.tobytes())
    return first


def scalar_text(scalar, arity, n):
    names = ["%a", "%b", "%c"][:arity]
    lines = [f"{name} = input f32[{n}]" for name in names]
    if scalar.name == "select":
        lines.append("%t = ne %a, 0")
        names[0] = "%t"
    attributes = f" {{{scalar.attributes}}}" if scalar.attributes else ""
    lines.append(f"%y = {scalar.name} {', '.join(names)}{attributes}")
    return "graph scalar {\n" + "\n".join(lines) + "\noutput %y\n}\n"


def measure_scalar(backend, scalar, arity, arguments):
    count = QUICK_COUNT if arguments.quick else COUNT
    inputs = scalar_inputs(scalar, arity, count, np.random.default_rng(1))
    exe = braze.compile(scalar_text(scalar, arity, len(inputs[0])), device=arguments.device)
    tensors = [backend.tensor(x) for x in inputs]
    same_bits = []
    got = run(backend, exe, tensors, same_bits)
    with np.errstate(all="ignore"):
        exact = scalar.reference(*[x.astype(np.longdouble) for x in inputs])
    result = {
        "name": scalar.title,
        "bound": scalar.bound,
        "inputs": len(inputs[0]),
        "braze": worst(ulp_errors(got, exact), got, exact, inputs),
        "same_bits": all(same_bits)
    }
    theirs = getattr(backend.torch, scalar.name, None)
    if theirs and scalar.name in NAMED_ALIKE:
        other = backend.array(theirs(*tensors))
        result["torch"] = worst(ulp_errors(other, exact), other, exact, inputs)
    return result


def row_text(rows, shape):
    return f"graph rows {{\n%x = input f32[{', '.join(map(str, shape))}]\n%y = {rows.text}\noutput %y\n}}\n"


def measure_rows(backend, data, operations, arguments):
    count, width = (2, data.width // QUICK_FRACTION) if arguments.quick else (data.rows, data.width)
    x = data.make(np.random.default_rng(1), count, width).astype("f4")
    results, same_bits = {}, []
    for rows in operations:
        shape = (count // 2, 8, width // 4) if rows.grouped else (count, width)
        exe = braze.compile(row_text(rows, shape), device=arguments.device)
        tensor = backend.tensor(x.reshape(shape))
        with np.errstate(all="ignore"):
            exact = rows.reference(x.astype(np.longdouble))
            least = rows.least(exact)

        def error(result):
            got = result.reshape(exact.shape)
            return worst(ulp_errors(got, exact, least, signed_zeros=False), got, exact)

        results[rows.name] = {"braze": error(run(backend, exe, [tensor], same_bits))}
        if backend.torch:
            results[rows.name]["torch"] = error(backend.array(rows.torch(backend.torch, tensor)))
    return {
        "name": data.name,
        "rows": count,
        "width": width,
        "operations": results,
        "same_bits": all(same_bits)
    }


def faults(result):
    """What breaks the contract."""
    if "error" in result:
        return [result["error"]]
    found = [] if result["same_bits"] else ["two runs differ"]
    if "bound" in result and result["braze"]["ulp"] > result["bound"] + (ROUNDING if result["bound"] else 0):
        found.append(f"{result['braze']['ulp']:.3g} ulp, {result['bound']} allowed: {result['braze']}")
    for name, operation in result.get("operations", {}).items():
        if operation["braze"]["ulp"] == np.inf:
            found.append(f"{name}: {operation['braze']}")
    return found


def measure(arguments):
    arities = floating_operations()
    known = {scalar.name for scalar in SCALARS}
    if known != set(arities):
        raise SystemExit(f"bench/numerics_cases.py has {sorted(known)}, ir/ops.def {sorted(arities)}")
    backend = NumPyBackend() if arguments.device == "sim" else TorchBackend(arguments.device)
    device = braze.open_device(arguments.device)
    report = {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "command": " ".join(["python3 bench/numerics.py", *sys.argv[1:]]),
        "kind": device.kind,
        "device": device.name,
        "versions": {
            "braze": braze.version,
            **backend.versions
        },
        "scalars": [],
        "rows": []
    }
    print(f"{device.name}, {', '.join(f'{k} {v}' for k, v in report['versions'].items())}", flush=True)

    work = []
    for scalar in SCALARS:
        if re.search(arguments.only, scalar.title):
            work.append(("scalars", scalar.title,
                         lambda s=scalar: measure_scalar(backend, s, arities[s.name], arguments)))
    for data in DATA:
        chosen = [r for r in ROWS if re.search(arguments.only, r.name) and r.infinite >= data.infinite]
        if chosen:
            work.append(("rows", data.name, lambda d=data, o=chosen: measure_rows(backend, d, o, arguments)))

    failed = False
    for part, name, call in work:
        try:
            result = call()
        except Exception as e:  # of one case, which must not end the others
            traceback.print_exc()
            result = {"name": name, "error": f"{type(e).__name__}: {e}"}
        report[part].append(result)
        print(line(result), flush=True)
        for fault in faults(result):
            failed = True
            print(f"  wrong: {fault}", flush=True)
        if arguments.json:
            pathlib.Path(arguments.json).write_text(json.dumps(report, indent=1) + "\n")
    return 1 if failed else 0


# ---- tables ----


def figure(error):
    if error is None:
        return ""
    ulp = error["ulp"]
    if ulp == np.inf:
        return "wrong"
    if ulp > 1e9:
        return "> 1e9"
    return f"{ulp:.2f}" if ulp < 100 else f"{ulp:.0f}" if ulp < 1e4 else f"{ulp:.1e}".replace("e+0", "e")


def line(result):
    """For the terminal; PyTorch's error in parentheses."""
    if "error" in result:
        return f"{result['name']:44}{result['error']}"
    operations = result.get("operations", {"": result})
    parts = [
        f"{name} {figure(o['braze'])}" + (f" ({figure(o['torch'])})" if "torch" in o else "")
        for name, o in operations.items()
    ]
    return f"{result['name']:44}" + "  ".join(p.strip() for p in parts)


def markdown_row(cells):
    return "| " + " | ".join(cells) + " |"


def named(results, name):
    return next((r for r in results if r["name"] == name), {})


def columns(reports):
    """(title, report, whose errors): Braze on each device, then PyTorch."""
    for report in reports:
        yield {"sim": "simulator", "cuda": report["device"]}[report["kind"]], report, "braze"
    for report in reports:
        if "torch" in report["versions"]:
            yield f"PyTorch {report['versions']['torch'].split('+')[0]}", report, "torch"


def scalar_table(reports):
    found = list(columns(reports))
    lines = [
        markdown_row(["op", "bound", *[title for title, _, _ in found]]),
        markdown_row(["---"] + ["---:"] * (1 + len(found)))
    ]
    exact = []
    for scalar in SCALARS:
        results = [named(report["scalars"], scalar.title) for _, report, _ in found]
        if scalar.bound == EXACT and not any(r.get("braze", {}).get("ulp") for r in results):
            exact.append(f"`{scalar.title}`")
            continue
        cells = [figure(r.get(who)) for r, (_, _, who) in zip(results, found)]
        lines.append(markdown_row([scalar.title, f"{scalar.bound:g}", *cells]))
    return [*lines, "", f"Exact on all inputs: {', '.join(exact)}."]


def row_tables(reports):
    found = list(columns(reports))
    titles = " / ".join(title for title, _, _ in found)
    lines = [
        f"Each cell: {titles}.", "",
        markdown_row(["rows", *[r.name for r in ROWS]]),
        markdown_row(["---"] + ["---:"] * len(ROWS))
    ]
    for data in DATA:
        results = [named(report["rows"], data.name) for _, report, _ in found]
        cells = []
        for rows in ROWS:
            each = [
                figure(r.get("operations", {}).get(rows.name, {}).get(who))
                for r, (_, _, who) in zip(results, found)
            ]
            cells.append(" / ".join(each) if any(each) else "")
        lines.append(markdown_row([data.name, *cells]))
    return lines


def tables(reports):
    lines = []
    for report in reports:
        versions = ", ".join(f"{k} {v}" for k, v in report["versions"].items())
        lines.append(f"- {report['date']}, {report['device']} ({versions}): `{report['command']}`")
    same = all(r.get("same_bits", True) for report in reports for r in report["scalars"] + report["rows"])
    lines += ["", "Two runs of each program gave " + ("the same bits." if same else "different bits."), ""]
    return "\n".join([*lines, *scalar_table(reports), "", *row_tables(reports)])


def merge(arguments):
    reports = [json.loads(pathlib.Path(file).read_text()) for file in arguments.merge]
    text = tables(sorted(reports, key=lambda r: r["kind"] != "sim"))
    if not arguments.markdown:
        print(text)
        return 0
    file = pathlib.Path(arguments.markdown)
    head, begin, rest = file.read_text().partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        print(f"{file} lacks the lines {BEGIN} and {END}", file=sys.stderr)
        return 1
    file.write_text(f"{head}{BEGIN}\n{text}\n{END}{tail}")
    return 0


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="sim", help="sim, cuda or cuda:1")
    parser.add_argument("--quick", action="store_true", help="few inputs and short rows")
    parser.add_argument("--only", metavar="REGEX", default="", help="operations whose name it is found in")
    parser.add_argument("--json", metavar="FILE", help="where all results go, after every case")
    parser.add_argument("--merge", metavar="FILE", nargs="+", help="make a table of these JSON files")
    parser.add_argument("--markdown", metavar="FILE", help="with --merge: the text that the table goes into")
    arguments = parser.parse_args()
    if arguments.markdown and not arguments.merge:
        parser.error("--markdown goes with --merge")
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.merge:
        return merge(arguments)
    return measure(arguments)


if __name__ == "__main__":
    sys.exit(main())
