"""Workloads and implementations of the user, and the mistakes they can make."""

import json
import subprocess
import sys

import pytest
from conftest import WORKLOAD


def add(body, name="mine"):
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    return f'\n@ellwand.implementation("total", "{name}", threads=1)\ndef mine(case, inputs):\n{lines}'


def test_a_workload_of_ones_own_is_like_any_other(loaded, run):
    rows, done = loaded("", "--n", "100,1000")
    assert done.code == 0, done.err
    assert set(rows) == {"numpy", "reference"}
    row = rows["numpy"]
    assert row["status"]["word"] == "measured" and row["work"]["items"] in (100, 1000)
    assert row["check"]["passed"] and row["samples"] >= 3
    listed = run("list", "total", "--load", "mine.py")
    assert "Sum of n numbers" in listed.out and "numpy.cumsum" in listed.out and "tiny" in listed.out


def test_an_object_with_all_methods_is_driven_and_read(loaded):
    body = add(
        """
class Prepared:
    what_ran = "my loop"
    def __init__(self):
        self.out = np.empty_like(inputs["x"])
    def run(self):
        np.cumsum(inputs["x"], out=self.out)
    def sync(self):
        self.synced = True
    def poison(self):
        self.out.fill(np.nan)
    def output(self):
        assert self.synced
        return {"y": self.out}
    def readings(self):
        return [{"id": "steps", "value": 7, "unit": "", "about": "how many"}]
return Prepared()
"""
    )
    rows, done = loaded(body, "-i", "numpy,mine")
    assert rows["mine"]["status"]["word"] == "measured", done.err
    assert rows["mine"]["what_ran"] == "my loop"
    assert {"steps": 7.0}.items() <= {r["id"]: r["value"] for r in rows["mine"]["readings"]}.items()


#: What an implementation does, how, its status and the words of the reason.
BEHAVIOUR = {
    "nothing": ("return lambda: None", "failed", "it returned None"),
    "raises": ("def run():\n    raise ValueError('no luck')\nreturn run", "failed", "ValueError: no luck"),
    "raises-early": ("return 1 / 0", "failed", "its preparation raised ZeroDivisionError"),
    "unsupported": ("raise ellwand.Unsupported('no such chip')", "unsupported", "no such chip"),
    "wrong": ("return lambda: np.cumsum(inputs['x']) + 1", "wrong", "the reference"),
    "nan": ("return lambda: inputs['x'] * np.nan", "wrong", "NaN"),
    "shape": ("return lambda: inputs['x'][:3]", "wrong", "shape"),
    "text": ("return lambda: 'hello'", "failed", "element type"),
    "exits": ("import os\ndef run():\n    os._exit(3)\nreturn run", "failed", "exited with code 3"),
    "leaves": ("import sys\ndef run():\n    sys.exit('bye')\nreturn run", "failed", "SystemExit: bye"),
    "writes": ("def run():\n    inputs['x'] += 1\n    return np.cumsum(inputs['x'])\nreturn run", "failed", "read-only"),
    "number": ("return 7", "failed", "without run and output"),
    "crashes": ("import os, signal\ndef run():\n    os.kill(os.getpid(), signal.SIGSEGV)\nreturn run", "failed", "SIGSEGV"),
    "stops": ("once = np.cumsum(inputs['x'])\nreturn lambda: once", "wrong", "the reference"),
    "traceback": ("def inner():\n    raise KeyError('lost')\nreturn lambda: inner()", "failed", "in inner"),
    "prints": (
        "import sys\ndef run():\n    print('noise')\n    assert sys.stdin.read() == ''\n    return np.cumsum(inputs['x'])\nreturn run",
        "measured",
        "",
    ),
    # Only the process that was asked may answer.
    "forks": (
        "import os\ndef run():\n    child = os.fork()\n    if child:\n        os.waitpid(child, 0)\n"
        "    return np.cumsum(inputs['x'])\nreturn run",
        "measured",
        "",
    ),
}


@pytest.fixture(scope="module")
def behaved(tmp_path_factory):
    """All of them in one run, next to one that behaves."""
    folder = tmp_path_factory.mktemp("behaviour")
    (folder / "mine.py").write_text(WORKLOAD + "".join(add(body, name) for name, (body, *_) in BEHAVIOUR.items()))
    words = ["run", "total", "--load", "mine.py", "--n", "100", "--effort", "quick", "--no-ceilings", "--no-plot", "-o", "out"]
    words += ["-i", ",".join(["numpy", *BEHAVIOUR]), "--format", "json"]
    command = [sys.executable, "-m", "ellwand", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500)


def rows_of(done):
    return {row["implementation"]: row for row in json.loads(done.stdout)["workloads"][0]["rows"]}


@pytest.mark.parametrize("name", BEHAVIOUR)
def test_whatever_an_implementation_does_is_a_row(behaved, name):
    _, status, words = BEHAVIOUR[name]
    row = rows_of(behaved)[name]
    assert row["status"]["word"] == status, row["status"]
    assert words.lower() in (row["status"]["reason"] or "").lower(), row["status"]


def test_the_others_are_measured_and_the_run_says_that_something_was_wrong(behaved):
    assert rows_of(behaved)["numpy"]["status"]["word"] == "measured", behaved.stderr
    assert behaved.returncode == 5 and "noise" not in behaved.stdout


def test_the_traceback_of_a_failure_names_the_line(behaved):
    reason = rows_of(behaved)["traceback"]["status"]["reason"]
    assert "mine.py:" in reason and "raise KeyError('lost')" in reason


def test_a_slip_in_a_registration_says_what_to_write(run, tmp_path):
    for body, words in [
        ("@ellwand.implementation('totl', 'x')\ndef f(case, inputs): pass", "there is no workload 'totl'"),
        ("@ellwand.implementation('gelu', 'x', device='tpu')\ndef f(case, inputs): pass", "'tpu' is unknown"),
        ("@ellwand.implementation('gelu', 'x', threads=0)\ndef f(case, inputs): pass", "expected at least 1"),
        ("ellwand.Axis('N', 3)", "expected lower-case letters"),
        ("ellwand.Axis('n', 0)", "is not between low=1"),
        ("@ellwand.workload('w')\nclass W: pass", "has no inputs"),
    ]:
        (tmp_path / "slip.py").write_text("import ellwand\n" + body)
        done = run("list", "--load", "slip.py")
        assert done.code == 2 and words in done.err, done.err


def test_an_exception_in_a_workload_names_its_method(run, tmp_path):
    body = """
import ellwand
@ellwand.workload("w")
class W:
    def inputs(self, case, rng): raise RuntimeError("no data")
    def reference(self, case, inputs): return inputs["x"]
"""
    (tmp_path / "w.py").write_text(body)
    done = run("check", "w", "--load", "w.py")
    assert done.code != 0 and "its inputs raised RuntimeError: no data" in done.out + done.err


def test_verdicts_on_ones_own_implementations(loaded, run):
    slow = "def run():\n    for _ in range(20):\n        y = np.cumsum(inputs['x'])\n    return y\nreturn run"
    loaded(add(slow), "-i", "numpy")
    mine = ["compare", "total:numpy", "total:mine", "--load", "mine.py", "--n", "100000", "--time", "60s"]
    done = run(*mine, "--format", "json")
    # On a busy machine the mean may be decided before the typical time is.
    assert done.json[0]["verdict"] in ("slower", "slower-beside"), done.err


def test_declared_threads_bound_the_pools_of_libraries(script):
    body = """
import ctypes, numpy as np
from ellwand import _threads
np.ones((9, 9)) @ np.ones((9, 9))
_threads.limit(1)
paths = {line.split()[-1] for line in open("/proc/self/maps") if "openblas" in line and ".so" in line}
for path in paths:
    library = ctypes.CDLL(path)
    names = [f"{a}openblas_get_num_threads{b}" for a in ("scipy_", "") for b in ("64_", "")]
    print([getattr(library, name)() for name in names if hasattr(library, name)][0])
"""
    assert set(script(body).out.split()) <= {"1"}


@pytest.mark.parametrize("name", ["simd", "numpy"])
def test_a_name_of_ellwands_own_implementations_is_refused(run, tmp_path, name):
    (tmp_path / "mine.py").write_text(
        f"import ellwand\n@ellwand.implementation('softmax', '{name}')\ndef mine(case, inputs):\n    return lambda: inputs['x']\n"
    )
    done = run("run", "softmax", "--load", "mine.py", "-i", name, "-o", "out")
    assert done.code == 2 and f"softmax:{name}: Ellwand already has an implementation of this name" in done.err
