"""Runs the launches of the row `triton` in Triton's interpreter, on PyTorch's tensors on the processor, and compares them with
the definitions in f64. Prints the number of cases; `test_triton.py` starts it.
"""

import math
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "triton_kernels"))
# First of all: Triton reads TRITON_INTERPRET when it is imported.
from interpret import narrowed, widened  # isort: skip

from ellwand import Case, Unsupported
from ellwand._frameworks import _triton
from ellwand._frameworks._operations import Operations

RNG = np.random.default_rng(3)
DEFINITIONS = Operations(np, np.vectorize(math.erf, otypes=[float])).functions()
#: Batch, sequence, dimension: rows shorter than a tile, rows of 16 values, rows longer than the largest tile for odd sizes.
SHAPES = [(2, 3, 37), (1, 9, 64), (1, 2, 4099)]


def normal(*shape):
    return RNG.standard_normal(shape, np.float32)


def prepared(workload, params, inputs):
    return _triton.prepare("triton", workload, Case(workload, "case", params), inputs)


def check(workload, params, inputs, tolerance=2e-5):
    """Fails unless two runs compute the definition, the second one on poisoned outputs."""
    job = prepared(workload, params, inputs)
    wide = {key: widened(x) if x.dtype == np.uint16 else x for key, x in inputs.items()}
    wide = {key: x.astype(float) if x.dtype == np.float32 else x for key, x in wide.items()}
    want = DEFINITIONS[workload](Case(workload, "case", params), wide)
    for _ in range(2):
        for array in job.outputs.values():
            array.fill_(float("nan"))
        job.run()
        outputs = job.output()
        for name, array in outputs.items():
            expected = want[name] if isinstance(want, dict) else want
            assert tuple(array.shape) == np.shape(expected), (workload, params, name, array.shape, np.shape(expected))
            np.testing.assert_allclose(array.float().numpy(), expected, tolerance, tolerance, err_msg=f"{workload} {params} {name}")
    return job


def layers():
    for batch, sequence, d in SHAPES:
        shape = (batch, sequence, d)
        x, gamma, beta = normal(*shape), normal(d), normal(d)
        yield "layer-norm", {"eps": 1e-5}, {"x": x, "gamma": gamma, "beta": beta}
        yield "residual-layer-norm", {"eps": 1e-5}, {"x": x, "residual": normal(*shape), "gamma": gamma, "beta": beta}
        for form in ("exact", "tanh"):
            yield "gelu", {"form": form}, {"x": x}
            yield "bias-gelu", {"form": form}, {"x": x, "bias": beta}
        yield "swish", {}, {"x": x}
        yield "swiglu", {}, {"x": x, "up": normal(*shape)}
        yield "softmax", {}, {"x": x}
        for reduction in ("mean", "sum", "none"):
            yield "mse-loss", {"reduction": reduction}, {"x": x, "target": normal(*shape)}
            labels = RNG.integers(0, d, shape[:2])
            yield "cross-entropy-loss", {"reduction": reduction, "ignore-index": -100}, {"x": x, "labels": labels}


def products():
    for m, n, k in [(5, 7, 33), (70, 80, 48)]:
        for transposed in (True, False):
            params = {"m": m, "n": n, "k": k, "transposed": transposed}
            yield "matmul", params, {"a": normal(m, k), "b": normal(n, k) if transposed else normal(k, n)}


def attention(batch, n, heads, kv, head, mask):
    """All parts of attention and the layer around it."""
    d, groups = heads * head, kv or heads
    width = (heads + 2 * groups) * head
    params = {"batch": batch, "sequence": n, "dimension": d, "heads": heads, "kv-heads": kv, "mask": mask}
    lengths = {"lengths": RNG.integers(1, n, batch)} if mask == "padding" else {}
    x = normal(batch, n, d)
    qkv = {"w_qkv": normal(width, d) / d**0.5, "b_qkv": normal(width)}
    out = {"w_out": normal(d, d) / d**0.5, "b_out": normal(d)}
    q, k, v = normal(batch, heads, n, head), normal(batch, groups, n, head), normal(batch, groups, n, head)
    yield "attention-qkv", params, {"x": x, **qkv}
    yield "attention-scores", params, {"q": q, "k": k, **lengths}
    yield "attention-softmax", params, {"scores": normal(batch, heads, n, n), **lengths}
    # Masked weights are 0, as a softmax gives them.
    seen = np.tri(n, dtype=bool) if mask == "causal" else np.ones((n, n), bool)
    if lengths:
        seen = np.arange(n) < lengths["lengths"][:, None, None, None]
    yield "attention-weighted-sum", params, {"weights": normal(batch, heads, n, n) * seen, "v": v, **lengths}
    yield "attention-output", params, {"context": x, **out}
    yield "attention-core", params, {"q": q, "k": k, "v": v, **lengths}
    yield "attention", params, {"x": x, **qkv, **out, **lengths}
    around = {name: normal(d) for name in ("gamma_1", "beta_1", "gamma_2", "beta_2", "b_down")}
    around |= {"w_up": normal(4 * d, d) / d**0.5, "b_up": normal(4 * d), "w_down": normal(d, 4 * d) / (4 * d) ** 0.5}
    yield "transformer-layer", params, {"x": x, **qkv, **out, **around, **lengths}


def halves():
    for transposed in (True, False):
        a, b = narrowed(normal(70, 48)), narrowed(normal(80, 48) if transposed else normal(48, 80))
        yield "matmul", {"m": 70, "n": 80, "k": 48, "transposed": transposed, "precision": "bf16"}, {"a": a, "b": b}
    for head, kv, mask in [(32, 0, "none"), (80, 1, "causal"), (64, 2, "padding")]:
        params = {"heads": 2, "kv-heads": kv, "mask": mask, "precision": "bf16"}
        inputs = {name: narrowed(normal(2, 2 if name == "q" else kv or 2, 33, head)) for name in ("q", "k", "v")}
        yield "attention-core", params, inputs | ({"lengths": np.array([7, 30])} if mask == "padding" else {})


def refusals():
    """Cases that the kernels reject, with a part of the reason."""
    x, labels = normal(1, 2, 8), np.array([[1, -100]])
    yield "gelu", {"precision": "bf16"}, {"x": narrowed(x)}, "f32 arrays"
    yield "gelu", {"allocation": "fresh"}, {"x": x}, "allocation=reused"
    yield "cross-entropy-loss", {"reduction": "sum", "targets": "probabilities"}, {"x": x, "target": x}, "targets=labels"
    yield "cross-entropy-loss", {"reduction": "sum", "ignore-index": -100}, {"x": x, "labels": labels}, "ignore-index"
    params = {"m": 2, "n": 8, "k": 16, "transposed": True, "precision": "bf16"}
    yield "matmul", params, {"a": narrowed(normal(2, 16)), "b": narrowed(normal(8, 16))}, "to be multiples of 16; --n is 8"
    params = {"heads": 1, "kv-heads": 0, "mask": "none"}
    arrays = {name: normal(1, 1, 4, 24) for name in ("q", "k", "v")}
    yield "attention-core", params, {key: narrowed(array) for key, array in arrays.items()}, "multiples of 16; this one has 24"
    yield "attention-core", params, arrays | {"q": normal(1, 1, 5, 24)}, "as many keys as queries"


def hard():
    """Rows that see no key give 0; NaN stays in its row."""
    params = {"heads": 1, "kv-heads": 0, "mask": "padding"}
    q, k, v = (normal(2, 1, 5, 16) for _ in range(3))
    q[1, 0, 2, 3] = np.nan
    job = prepared("attention-core", params, {"q": q, "k": k, "v": v, "lengths": np.array([0, 3])})
    context = job.output()["context"]
    assert (context[0] == 0).all() and context[1, 0, 2].isnan().all() and context[1, 0, [0, 1, 3, 4]].isfinite().all()


def main():
    count = 0
    for case in (*layers(), *products()):
        assert check(*case).launches == 1
        count += 1
    # Heads of 24 with an odd number of positions, of 16 in groups with sizes that are all multiples of 16.
    for sizes in [(2, 9, 2, 0, 24, "causal"), (2, 16, 2, 1, 16, "padding"), (1, 67, 1, 0, 3, "none")]:
        for workload, params, inputs in attention(*sizes):
            launches = check(workload, params, inputs, 1e-4).launches
            assert launches == {"attention": 3, "transformer-layer": 9}.get(workload, 1), workload
            count += 1
    # No fused kernel takes heads of 160.
    (long,) = [case for case in attention(1, 18, 1, 0, 160, "causal") if case[0] == "attention-core"]
    assert check(*long).launches == 3
    count += 1
    for case in halves():
        check(*case, tolerance=2e-2)
        count += 1
    hard()
    for workload, params, inputs, reason in refusals():
        try:
            prepared(workload, params, inputs)
        except Unsupported as error:
            assert reason in str(error), error
        else:
            raise AssertionError(f"{workload} {params} is not refused")
    print(f"{count} cases are right")


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        main()
