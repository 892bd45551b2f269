"""Every Python block of docs/python.md runs, and the commands below a file that it shows."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs/python.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8") if PAGE.exists() else "", re.M | re.S)


def test_the_page_begins_with_the_installation():
    if not PAGE.exists():
        pytest.skip("the documentation is not part of this distribution")
    assert PAGE.read_text(encoding="utf-8").splitlines()[2].strip() == "pip install ./python" and len(BLOCKS) >= 6


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0][:40])
def test_a_block_runs(block, script):
    script(block, name="mine.py")


def test_the_file_of_the_page_is_measured(tmp_path, run):
    (tmp_path / "mine.py").write_text(next(block for block in BLOCKS if "# mine.py" in block))
    words = ["--load", "mine.py", "--effort", "quick", "--no-ceilings", "--no-plot"]
    done = run("run", "layer-norm", *words, "-i", "simd,two-pass", "--size", "tiny", "-o", "a")
    assert done.code == 0 and "two-pass" in done.out, done.err
    done = run("run", "smooth", *words, "--size", "tiny", "-o", "b")
    assert done.code == 0 and "slices" in done.out, done.err
