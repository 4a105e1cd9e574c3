"""bench/numerics.py at its smallest, in the simulator: every operation keeps its bound, and two runs give the
same bits."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"
sys.path.insert(0, str(BENCH))
import numerics  # noqa: E402


def run(*arguments):
    return subprocess.run([sys.executable, BENCH / "numerics.py", *arguments], capture_output=True, text=True)


class NumericsTest(unittest.TestCase):

    def test_contract_and_table(self):
        with tempfile.TemporaryDirectory() as folder:
            results, text = pathlib.Path(folder) / "results.json", pathlib.Path(folder) / "text.md"
            done = run("--device=sim", "--quick", "--json", results)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            report = json.loads(results.read_text())
            self.assertEqual(len(report["scalars"]), len(numerics.SCALARS))
            self.assertEqual(len(report["rows"]), len(numerics.DATA))

            text.write_text(f"before\n{numerics.BEGIN}\nold\n{numerics.END}\nafter\n")
            for _ in range(2):
                self.assertEqual(run("--merge", results, "--markdown", text).returncode, 0)
            merged = text.read_text()
            self.assertTrue(merged.startswith("before\n") and merged.endswith("\nafter\n"))
            self.assertIn("| exp | 2 | ", merged)
            self.assertEqual(merged.count("| constant rows |"), 1)
            self.assertNotIn("old", merged)
            text.write_text("no markers\n")
            self.assertEqual(run("--merge", results, "--markdown", text).returncode, 1)

    def test_errors(self):
        one, largest = np.float32(1), np.finfo("f4").max
        for got, exact, ulp in [
            (1, 1, 0),
            (np.nextafter(one, np.float32(2)), 1, 1),
            (np.nextafter(one, np.float32(0)), 1, 0.5),
            (0, 2.0**-149, 1),
            (2.0**-149, 2.0**-150, 0.5),
            (np.inf, 2.0**128, 0),
            (np.inf, 1e100, 0),
            (largest, 1e100, 1),
            (np.inf, largest, 1),
            (largest, np.inf, np.inf),
            (np.nan, np.nan, 0),
            (np.nan, 1, np.inf),
            (1, np.nan, np.inf),
            (-0.0, 0, np.inf),
            (-np.inf, np.inf, np.inf),
        ]:
            with self.subTest(got=got, exact=exact):
                errors = numerics.ulp_errors(np.array([got], "f4"), np.array([exact], np.longdouble))
                self.assertEqual(errors[0], ulp)
        self.assertEqual(numerics.ulp_errors(np.zeros(1, "f4"), np.full(1, 2.0**-25), least=1)[0], 0.25)

    def test_faults(self):

        def result(ulp, bound, same_bits=True):
            return {"braze": {"ulp": ulp}, "bound": bound, "same_bits": same_bits}

        for good in (result(2, 2), result(0.5 + 1e-8, 0.5), result(0, 0)):
            self.assertEqual(numerics.faults(good), [])
        for bad in (result(2.01, 2), result(0.51, 0.5), result(1e-9, 0), result(np.inf,
                                                                                2), result(1, 2, False)):
            self.assertEqual(len(numerics.faults(bad)), 1)


if __name__ == "__main__":
    unittest.main()
