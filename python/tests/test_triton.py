"""The launches of the row `triton` compute their definitions, in Triton's interpreter: no GPU is needed."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import needs_torch

ROWS = Path(__file__).with_name("triton_rows.py")


@needs_torch
@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="Triton is not installed")
def test_the_launches_of_triton_agree_with_the_definitions():
    # Triton decides at its import whether to interpret, so this needs a new process.
    env = {**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, str(ROWS)], capture_output=True, text=True, timeout=300, env=env)
    assert done.returncode == 0 and "cases are right" in done.stdout, done.stdout + done.stderr
