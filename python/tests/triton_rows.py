"""Runs the launches of the row `triton` in Triton's interpreter, on PyTorch's tensors on the processor, and compares them with
the definitions in f64. Prints the number of cases; `test_triton.py` starts it.

The interpreter knows neither stages nor multiples of 16: this checks the formulas, masks and addresses of every kernel with every
choice of its constants. Tensors have guards around them that no kernel may write.
"""

import math
import os

# Triton reads it when it is imported.
os.environ["TRITON_INTERPRET"] = "1"

import numpy as np
import torch
import triton.language as tl
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

from ellwand import Case, Unsupported
from ellwand._frameworks import _triton
from ellwand._frameworks._operations import Operations
from ellwand._frameworks._triton_job import VARIANTS, Job
from ellwand._frameworks.triton_kernels.layers import ODD, STEP, TILES

RNG = np.random.default_rng(3)
DEFINITIONS = Operations(np, np.vectorize(math.erf, otypes=[float])).functions()
#: Batch, sequence, dimension: rows shorter than a tile, rows of 16 values, rows longer than the largest tile for odd sizes.
SHAPES = [(2, 3, 37), (1, 9, 64), (1, 2, 4099), (2, 129, 272)]
#: Rows and columns that fill no tile, for every kernel by row; and rows longer than the largest tile.
ROWS = [(rows + 1, block - less) for block, rows, _ in TILES for less in ([3, 16] if block in ODD else [16])]
ROWS += [(2, STEP[0] + 33), (2, TILES[-1][0] + 32)]
MASKS = ("none", "causal", "padding")
#: Bytes before and after every tensor, and their value.
GUARD, GUARD_BYTE = 256, 0xA5

# The interpreter keeps bf16 as its bits and multiplies those bits; a bf16 product equals the f32 product of the same values.
multiply, cast, convert = InterpreterBuilder.create_dot, InterpreterBuilder.cast_impl, InterpreterBuilder.create_fp_to_fp
load = InterpreterBuilder.create_masked_load


def create_dot(self, a, b, d, *how):
    wide = lambda x: self.cast_impl(x, tl.float32) if x.dtype.scalar == tl.bfloat16 else x
    return multiply(self, wide(a), wide(b), d, *how)


def narrowed(values):
    """f32 as bf16 bits, rounded to nearest, ties to even, as on devices."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + (bits >> 16 & np.uint32(1))) >> 16).astype(np.uint16)


def widened(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def narrows(src, to):
    return src.dtype.scalar == tl.float32 and to.scalar == tl.bfloat16


def rounded(src):
    return TensorHandle(narrowed(src.data), tl.bfloat16)


def create_masked_load(self, ptrs, mask, *how):
    return load(self, ptrs, TensorHandle(mask.data.astype(bool), tl.int1), *how)


InterpreterBuilder.create_dot = create_dot
# A mask that involves a scalar is an array of i32, which Triton 3.9 refuses to load by.
InterpreterBuilder.create_masked_load = create_masked_load
# The interpreter truncates f32 to bf16.
InterpreterBuilder.cast_impl = lambda self, src, to: rounded(src) if narrows(src, to) else cast(self, src, to)
InterpreterBuilder.create_fp_to_fp = (
    lambda self, src, to, mode: rounded(src) if narrows(src, to) else convert(self, src, to, mode)
)


class Guards:
    """Replaces the memory of jobs by tensors between guards, and records the kernels with their constants."""

    def __init__(self):
        self.memory, self.launched = [], set()
        #: Programs of a launch in the first direction of its grid.
        self.most = math.inf
        for name in ("input", "scratch", "zeros"):
            setattr(Job, name, self.guarding(getattr(Job, name)))
        launch = Job.launch

        def recorded(job, name, grid, *rest):
            self.launched.add(kernel(VARIANTS[name]))
            launch(job, name, (min(grid[0], self.most), *grid[1:]), *rest)

        Job.launch = recorded

    def guarding(self, make):
        def guarded(*args):
            made = make(*args)
            size = made.numel() * made.element_size()
            whole = torch.full((size + 2 * GUARD + 256,), GUARD_BYTE, dtype=torch.uint8)
            # Starts at a multiple of 256 bytes, like device memory.
            skip = GUARD + -(whole.data_ptr() + GUARD) % 256
            self.memory.append((whole[:skip], whole[skip + size :]))
            return whole[skip : skip + size].view(made.dtype).reshape(made.shape).copy_(made)

        return guarded

    def check(self, what):
        for outside in (each for pair in self.memory for each in pair):
            assert bool((outside == GUARD_BYTE).all()), f"{what}: a kernel wrote outside a tensor"


def kernel(variant):
    return variant.fn.fn.__name__, str(variant.types), *sorted(variant.constants.items())


GUARDS = Guards()


def normal(*shape):
    return RNG.standard_normal(shape, np.float32)


def prepared(workload, params, inputs):
    GUARDS.memory.clear()
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
        GUARDS.check(f"{workload} {params}")
        outputs = job.output()
        for name, array in outputs.items():
            expected = want[name] if isinstance(want, dict) else want
            assert tuple(array.shape) == np.shape(expected), (workload, params, name, array.shape, np.shape(expected))
            np.testing.assert_allclose(array.float().numpy(), expected, tolerance, tolerance, err_msg=f"{workload} {params} {name}")
    return job


def by_row(x):
    shape, d = x.shape, x.shape[-1]
    gamma, beta = normal(d), normal(d)
    yield "layer-norm", {"eps": 1e-5}, {"x": x, "gamma": gamma, "beta": beta}
    yield "residual-layer-norm", {"eps": 1e-5}, {"x": x, "residual": normal(*shape), "gamma": gamma, "beta": beta}
    yield "softmax", {}, {"x": x}
    for reduction in ("mean", "sum", "none"):
        labels = RNG.integers(0, d, shape[:2])
        yield "cross-entropy-loss", {"reduction": reduction, "ignore-index": -100}, {"x": x, "labels": labels}


def layers():
    for rows, d in ROWS:
        yield from by_row(3 * normal(1, rows, d) + 2)
    for shape in SHAPES:
        x, beta = normal(*shape), normal(shape[-1])
        yield from by_row(x)
        for form in ("exact", "tanh"):
            yield "gelu", {"form": form}, {"x": x}
            yield "bias-gelu", {"form": form}, {"x": x, "bias": beta}
        yield "swish", {}, {"x": x}
        yield "swiglu", {}, {"x": x, "up": normal(*shape)}
        for reduction in ("mean", "sum", "none"):
            yield "mse-loss", {"reduction": reduction}, {"x": x, "target": normal(*shape)}


def products():
    for m, n, k in [(5, 7, 33), (70, 75, 37), (9, 16, 32), (250, 240, 48)]:
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


def masked():
    """Scores, sums and the core under every mask, for every size of heads and more positions than a tile."""
    for mask in MASKS:
        for n, head in [(73, 37), (96, 48), (85, 24), (96, 112)]:
            parts = ("attention-scores", "attention-weighted-sum", "attention-core")
            yield from (case for case in attention(2, n, 2, 1, head, mask) if case[0] in parts)


def long_rows():
    """The first rows of scores that are longer than a block: each row is a program."""
    GUARDS.most = 8
    for mask in MASKS:
        scores = 3 * normal(1, 1, 1029, 1029)
        params = {"batch": 1, "sequence": 1029, "heads": 1, "kv-heads": 0, "mask": mask}
        inputs = {"scores": scores, **({"lengths": np.array([1027])} if mask == "padding" else {})}
        got = prepared("attention-softmax", params, inputs).output()["weights"][0, 0, : GUARDS.most]
        GUARDS.check(f"attention-softmax {params}")
        wide = {**inputs, "scores": scores.astype(float)}
        want = DEFINITIONS["attention-softmax"](Case("attention-softmax", "case", params), wide)[0, 0, : GUARDS.most]
        np.testing.assert_allclose(got.numpy(), want, 2e-5, 2e-5, err_msg=f"{params}")
    GUARDS.most = math.inf


def halves():
    for transposed in (True, False):
        a, b = narrowed(normal(131, 80)), narrowed(normal(272, 80) if transposed else normal(80, 272))
        yield "matmul", {"m": 131, "n": 272, "k": 80, "transposed": transposed, "precision": "bf16"}, {"a": a, "b": b}
    for head, mask in ((head, mask) for head in (32, 64, 112) for mask in MASKS):
        params = {"heads": 2, "kv-heads": 1, "mask": mask, "precision": "bf16"}
        inputs = {name: narrowed(normal(2, 2 if name == "q" else 1, 149, head)) for name in ("q", "k", "v")}
        yield "attention-core", params, inputs | ({"lengths": np.array([7, 133])} if mask == "padding" else {})


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
    params, lengths = {"heads": 1, "kv-heads": 0, "mask": "padding"}, np.array([0, 3])
    for head in (16, 48, 100, 160):
        q, k, v = (normal(2, 1, 5, head) for _ in range(3))
        q[1, 0, 2, 3] = np.nan
        context = prepared("attention-core", params, {"q": q, "k": k, "v": v, "lengths": lengths}).output()["context"]
        assert (context[0] == 0).all() and context[1, 0, 2].isnan().all() and context[1, 0, [0, 1, 3, 4]].isfinite().all()
    for head in (64, 128):
        inputs = {name: narrowed(normal(2, 1, 5, head)) for name in ("q", "k", "v")}
        context = prepared("attention-core", {**params, "precision": "bf16"}, {**inputs, "lengths": lengths}).output()["context"]
        assert (context[0] == 0).all() and (context[1] != 0).any()


def main():
    count = 0
    for case in layers():
        assert check(*case).launches == 1
        count += 1
    # The sizes of tiles depend on the number of multiprocessors.
    for processors in (1, 64):
        Job.multiprocessors = lambda _job, processors=processors: processors
        for case in (*products(), *masked()):
            assert check(*case).launches == 1
            count += 1
        for case in halves():
            check(*case, tolerance=2e-2)
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
    hard()
    long_rows()
    for workload, params, inputs, reason in refusals():
        try:
            prepared(workload, params, inputs)
        except Unsupported as error:
            assert reason in str(error), error
        else:
            raise AssertionError(f"{workload} {params} is not refused")
    missing = {kernel(variant): name for name, variant in VARIANTS.items() if kernel(variant) not in GUARDS.launched}
    assert not missing, f"no case runs {', '.join(missing.values())}"
    print(f"{count} cases are right")


if __name__ == "__main__":
    with np.errstate(all="ignore"):
        main()
