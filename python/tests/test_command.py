"""One command line, two hosts."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import needs_torch


def measured(path):
    return [line for line in map(json.loads, open(path)) if line["kind"] == "measurement"]


def test_a_run_of_built_in_rust_writes_the_record_and_the_report_of_the_program(run, tmp_path):
    done = run("run", "lattice-encode", "--batch", "1000", "--effort", "quick", "--no-ceilings", "-o", "out")
    assert done.code == 0, done.err
    rows = measured(tmp_path / "out/record.jsonl")
    assert [row["implementation"] for row in rows][:4] == ["reference", "scalar", "simd", "parallel"]
    assert all(row["outcome"]["status"] == "measured" for row in rows[:4])
    assert {block for row in rows[:1] for block in row["samples"]["block"]} == {0, 1, 2}, "fresh processes"
    assert (tmp_path / "out/report.md").is_file() and "lattice-encode" in done.out


def test_the_list_has_the_frameworks_and_the_reason_why_one_is_missing(run):
    listed = run("list", "layer-norm")
    assert listed.code == 0 and "simd" in listed.out and "torch-compile" in listed.out and "jax" in listed.out
    listed = run("list", "lattice-encode").out
    assert "torch" in listed and "numpy" in listed and "jax" not in listed


def test_help_names_the_option_of_the_python_host(run):
    done = run("run", "--help")
    assert done.code == 0 and "--load <FILE>" in done.out and "--implementation" in done.out


def test_errors_of_usage_keep_their_code_and_words(run):
    assert run("run", "lattice-encoed").code == 2
    assert "did you mean lattice-encode?" in run("run", "lattice-encoed").err
    assert "did you mean torch-compile?" in run("run", "gelu", "-i", "torch-complie").err
    missing = run("list", "--load", "absent.py")
    assert missing.code == 2 and "absent.py: there is no such file" in missing.err
    assert run("list", "--load").code == 2


def test_a_file_that_raises_is_an_error_with_its_line(run, tmp_path):
    (tmp_path / "bad.py").write_text("x = 1\nraise ValueError('not today')\n")
    done = run("list", "--load", "bad.py")
    assert done.code == 2 and "bad.py: it raised ValueError: not today" in done.err and "bad.py:2" in done.err
    assert "importlib" not in done.err


def test_nothing_is_imported_that_is_not_needed():
    code = (
        "import sys, ellwand; from ellwand import implementation; "
        "print(sorted({'numpy','torch','jax','cupy','triton','pandas'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@needs_torch
def test_a_run_without_frameworks_imports_none(run, tmp_path):
    (tmp_path / "look.py").write_text("import atexit, sys\natexit.register(lambda: print('torch' in sys.modules))\n")
    done = run("check", "gelu", "--size", "tiny", "-i", "simd", "--load", "look.py")
    assert done.out.strip().endswith("False"), done.out


def test_an_interrupt_keeps_finished_cells(tmp_path):
    words = ["run", "lattice-encode", "--batch", "100,200,300,400,500,600,700,800", "--no-ceilings", "-o", "out"]
    process = subprocess.Popen([sys.executable, "-m", "ellwand", *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    record = tmp_path / "out/record.jsonl"
    deadline = time.monotonic() + 120
    while not (record.exists() and record.read_text().count("\n") > 1) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    error = process.communicate(timeout=60)[1]
    assert process.returncode == 130, error
    assert "continues from here" in error and measured(record)


@pytest.mark.skipif(sys.platform != "linux", reason="no other system signals a process when its parent ends")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_measurement_ends_with_its_script(tmp_path, how):
    body = """
import time, ellwand
def slow():
    open("runs", "w").close()
    time.sleep(0.05)
if __name__ == "__main__":
    ellwand.bench(slow, effort="thorough")
"""
    (tmp_path / "script.py").write_text(body)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    script = subprocess.Popen([sys.executable, "script.py"], cwd=tmp_path, env={**os.environ, "TMPDIR": str(temporary)})

    def until(what):
        deadline = time.monotonic() + 60
        while not what():
            assert time.monotonic() < deadline
            time.sleep(0.05)

    def left():
        """Processes that were started for the script."""
        found = []
        for process in filter(str.isdigit, os.listdir("/proc")):
            try:
                line = Path(f"/proc/{process}/cmdline").read_bytes()
            except OSError:
                continue
            if str(temporary).encode() in line:
                found.append(process)
        return found

    until((tmp_path / "runs").exists)
    assert left()
    script.send_signal(how)
    script.wait()
    until(lambda: not left())
    assert list(temporary.iterdir()) == []
