"""bench/compare.py and bench/plot.py at their smallest, in the simulator: every program of the benchmark is
right."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

BENCH = pathlib.Path(__file__).resolve().parents[2] / "bench"


def run(script, *arguments):
    return subprocess.run([sys.executable, BENCH / script, *arguments], capture_output=True, text=True)


class CompareTest(unittest.TestCase):

    def test_all_cases(self):
        with tempfile.TemporaryDirectory() as folder:
            file = str(pathlib.Path(folder) / "results.json")
            done = run("compare.py", "--device=sim", "--quick", "--repeats=20", "--json", file)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(file) as results:
                report = json.load(results)
            self.assertGreater(len(report["cases"]), 40)
            self.assertEqual(len(report["fast_math"]), 5)
            cases = report["cases"] + report["fast_math"]
            self.assertEqual(len(done.stdout.splitlines()), 3 + len(cases))
            for case in cases:
                self.assertGreater(case["times"]["braze"]["share"], 0)
                self.assertGreaterEqual(case["times"]["copy"]["repeats"], 20)
            drawn = run("plot.py", file, "bf16")
            self.assertEqual(drawn.returncode, 0, drawn.stderr)
            self.assertEqual(drawn.stdout.count("<polyline"), 5)

    def test_choices(self):
        listed = run("compare.py", "--list", "--only=^softmax f32").stdout.splitlines()
        self.assertIn("softmax f32 4096x393216", listed)
        self.assertEqual(len(listed), 14)
        self.assertEqual(run("compare.py", "--device=sim").returncode, 2)
        self.assertEqual(run("compare.py", "--device=sim", "--quick", "--only=nothing").returncode, 2)


if __name__ == "__main__":
    unittest.main()
