"""Helpers of the tests: the command line in a fresh process, and files to load."""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

needs_torch = pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
needs_compiler = pytest.mark.skipif(
    not any(map(shutil.which, ("g++", "clang++"))), reason="torch.compile needs a C++ compiler, and none is installed"
)
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")


def _published() -> str | None:
    """Why the published decoder cannot run here."""
    if importlib.util.find_spec("non_local_detector") is None:
        return "non_local_detector is not installed"
    import inspect

    import jax.numpy

    return None if "a_max" in inspect.signature(jax.numpy.clip).parameters else "non_local_detector needs an older JAX"


needs_published = pytest.mark.skipif(_published() is not None, reason=str(_published()))

#: A workload with two implementations of the same sum, and a place for one more.
WORKLOAD = '''
import numpy as np
import ellwand

@ellwand.workload("total", axes=[ellwand.Axis("n", [100, 1000], high=10**6, unit="numbers")], sizes={"tiny": {"n": 10}})
class Total:
    """Sum of n numbers"""
    tolerance = (1e-9, 1e-6)

    def inputs(self, case, rng):
        return {"x": rng.standard_normal(case["n"])}

    def reference(self, case, inputs):
        return inputs["x"].astype(np.float64).cumsum()

    def work(self, case):
        return {"item": "numbers", "items": case["n"], "flops": case["n"], "bytes_read": 8 * case["n"]}

@ellwand.implementation("total", "numpy", threads=1)
def with_numpy(case, inputs):
    """numpy.cumsum"""
    x = inputs["x"]
    return lambda: np.cumsum(x)
'''


@dataclass
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def run(tmp_path):
    """Runs ``python -m ellwand`` in an empty folder."""

    def call(*words: str, env: dict[str, str] | None = None, command: list[str] | None = None) -> Ran:
        full = command or [sys.executable, "-m", "ellwand"]
        done = subprocess.run(
            [*full, *words], cwd=tmp_path, capture_output=True, text=True, timeout=300, env={**os.environ, **(env or {})}
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return call


@pytest.fixture
def loaded(tmp_path, run):
    """Measures ``total`` with one more implementation; returns its row of the report, and the run."""

    def call(body: str, *words: str):
        (tmp_path / "mine.py").write_text(WORKLOAD + body)
        done = run(
            "run", "total", "--load", "mine.py", "--n", "100", "--effort", "quick", "--no-ceilings", "--no-plot",
            "-o", "out", "--format", "json", *words,
        )  # fmt: skip
        rows = {row["implementation"]: row for row in done.json["workloads"][0]["rows"]} if done.out else {}
        return rows, done

    return call


@pytest.fixture
def script(tmp_path):
    """Runs a script in a fresh process."""

    def call(body: str, name: str = "script.py", check: bool = True) -> Ran:
        path = Path(tmp_path) / name
        path.write_text(body)
        # A shell's background job ignores Ctrl-C, and so would the process.
        heed = functools.partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
        words = [sys.executable, str(path)]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=300, preexec_fn=heed)
        if check:
            assert done.returncode == 0, done.stderr
        return Ran(done.returncode, done.stdout, done.stderr)

    return call
