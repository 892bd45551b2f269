"""Implementations by NumPy, PyTorch and JAX give the answers of the reference."""

import math

import numpy as np
import pytest
from conftest import needs_compiler, needs_jax, needs_published, needs_torch

from ellwand import Case, _frameworks

WORKLOADS = [*_frameworks.LAYERS, *_frameworks.GRADIENTS, "matmul", *_frameworks.ATTENTION]


@needs_torch
@needs_jax
def test_all_of_them_agree_with_the_reference(run):
    names = "torch,jax,numpy"
    # The tanh form of JAX's GELU loses more digits in its gradient than the tolerance allows.
    done = run("check", *WORKLOADS, "-i", names, "--size", "tiny", "--form", "exact")
    assert done.code == 0, done.out + done.err


@needs_torch
@needs_compiler
def test_compiled_functions_agree_with_the_reference(run):
    done = run("check", "softmax", "residual-layer-norm", "-i", "torch-compile", "--size", "tiny")
    assert done.code == 0 and "2 right, 0 wrong, 0 failed, 0 unsupported" in done.out, done.out + done.err


@needs_torch
@needs_jax
def test_the_decoder_agrees_with_its_reference(run):
    words = ["--size", "tiny", "--data", "structured", "--dims", "1,2"]
    done = run("check", "kde-fit", "kde-predict", "-i", "torch,jax", *words)
    assert done.code == 0 and "wrong" not in done.out.replace(" 0 wrong", ""), done.out + done.err
    done = run("check", "kde-fit", "kde-predict", "-i", "torch", "--precision", "f64", *words)
    assert done.code == 0, done.out + done.err


@needs_published
def test_the_published_decoder_agrees_with_the_reference(run):
    done = run("check", "kde-fit", "kde-predict", "-i", "published", "--size", "tiny", "--dims", "1,2")
    assert done.code == 0 and "6 right, 0 wrong, 0 failed, 0 unsupported" in done.out, done.out + done.err
    done = run("check", "kde-predict", "-i", "published", "--size", "tiny", "--precision", "f64")
    assert "computes in float32" in done.out, done.out + done.err


@needs_torch
@pytest.mark.parametrize("lattice", ["Z2", "D4", "E8"])
def test_the_quantizer_gives_the_bits_of_its_reference(run, lattice):
    tasks = ["lattice-encode", "lattice-decode", "lattice-quantize"]
    words = ["--batch", "500", "--lattice", lattice, "--q", "3,8", "--overload", "none,flag"]
    done = run("check", *tasks, "-i", "torch,numpy", *words)
    assert done.code == 0 and "24 right" in done.out, done.out + done.err
    done = run("check", "lattice-encode", "-i", "numpy", "--batch", "5", "--overload", "retry")
    assert "neither centre nor retry" in done.out


def test_what_needs_a_gpu_is_unsupported_with_the_reason(run):
    done = run("check", "gelu", "-i", "triton,cupy", "--size", "tiny")
    assert done.out.count("unsupported  ") == 4 and "CUDA" in done.out, done.out + done.err


@needs_torch
@needs_jax
@pytest.mark.parametrize("words", [["--mask", "causal"], ["--mask", "padding", "--kv-heads", "1"]], ids=" ".join)
def test_masks_and_grouped_heads(run, words):
    parts = ["attention-scores", "attention-softmax", "attention-weighted-sum", "attention-core", "attention"]
    done = run("check", *parts, "-i", "torch,jax,numpy", "--size", "tiny", *words)
    assert done.code == 0, done.out + done.err


@needs_torch
def test_the_fused_forms_of_pytorch(run):
    done = run("check", "attention-core", "attention", "-i", "torch-sdpa,torch-flash", "--size", "tiny")
    assert done.code == 0, done.out + done.err


def test_numpy_runs_beside_ours_in_one_table(run, tmp_path):
    done = run(
        "run", "softmax", "-i", "simd,numpy", "--size", "tiny", "--effort", "quick", "--no-ceilings", "--no-plot",
        "-o", "out", "--format", "json",
    )  # fmt: skip
    rows = {row["implementation"]: row for row in done.json["workloads"][0]["rows"]}
    assert {row["status"]["word"] for row in rows.values()} == {"measured"}, done.err
    assert "numpy" in rows["numpy"]["what_ran"] and rows["numpy"]["parallelism"] == "many"


def test_the_exact_gelu_of_an_array_library_with_an_error_function():
    from ellwand._frameworks._operations import Operations

    functions = Operations(np, np.vectorize(math.erf)).functions()
    case = Case("gelu", "gelu", {"form": "exact"})
    x, step = np.linspace(-6, 6, 50), 1e-5
    gelu = lambda x: functions["gelu"](case, {"x": x})
    np.testing.assert_allclose(gelu(x), [0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x], atol=1e-7)
    slope = (gelu(x + step) - gelu(x - step)) / (2 * step)
    np.testing.assert_allclose(functions["gelu-backward"](case, {"x": x, "dy": np.ones(50)}), slope, atol=1e-6)


def test_a_form_that_a_framework_lacks_is_unsupported_with_the_reason(run):
    done = run("check", "gelu", "-i", "numpy", "--form", "exact", "--size", "tiny")
    assert "NumPy has no error function" in done.out


def test_a_broken_framework_is_unsupported_with_the_reason(run, tmp_path):
    (tmp_path / "broken/torch").mkdir(parents=True)
    (tmp_path / "broken/torch/__init__.py").write_text("raise OSError('libtorch.so: cannot open shared object file')")
    done = run("check", "gelu", "-i", "torch", "--size", "tiny", env={"PYTHONPATH": str(tmp_path / "broken")})
    assert "torch is installed but cannot be imported: OSError: libtorch.so" in done.out + done.err
