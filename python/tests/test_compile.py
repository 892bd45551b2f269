"""The work of framework compilers is counted, timed and kept as text; they accept functions of the profiler."""

import os

import numpy as np
import pytest
from conftest import needs_compiler, needs_jax, needs_torch

import ellwand
from ellwand import _compile
from ellwand._compile import Watch
from ellwand.profiler import GPUProfiler


@needs_jax
def test_a_change_of_shape_compiles_again_in_jax():
    import jax

    jitted, watch = jax.jit(lambda x: 3 * x), Watch()
    assert watch.readings() == []
    jitted(np.ones(3, np.float32)), jitted(np.zeros(3, np.float32))
    assert watch.programs == 1
    jitted(np.ones(4, np.float32))
    assert watch.programs == 2
    found = {reading["id"]: reading["value"] for reading in watch.readings()}
    assert found["compiled-graphs"] == 2 and found["compile-time"] > 0
    assert Watch().programs == 0


@needs_torch
def test_a_change_of_shape_compiles_again_in_pytorch():
    import torch

    # The compiler of dynamo's graphs does not matter for their count.
    compiled, watch = torch.compile(lambda x: 3 * x, backend="eager", dynamic=False), Watch()
    compiled(torch.ones(3)), compiled(torch.zeros(3))
    assert watch.programs == 1
    compiled(torch.ones(4))
    assert watch.programs == 2 and watch.readings()[1]["value"] > 0


JITTED = """
import jax

@ellwand.implementation("total", "{name}", threads=1)
def {name}(case, inputs):
    jitted = jax.jit(lambda x: x.cumsum())
    x = inputs["x"].astype(np.float32)
    def run():
        {body}
    return run
"""


@needs_jax
def test_readings_show_how_often_an_implementation_is_compiled(loaded):
    body = JITTED.format(name="one", body="return jitted(x)")
    body += JITTED.format(name="two", body="jitted(x[:7]); return jitted(x)")
    rows, done = loaded(body.replace("cumsum()", "cumsum() + 1e-7"), "-i", "numpy,one,two")
    found = {name: {reading["id"]: reading["value"] for reading in row["readings"]} for name, row in rows.items()}
    assert (found["one"]["compiled-graphs"], found["two"]["compiled-graphs"]) == (1, 2), done.err
    assert 0 < found["one"]["compile-time"] and "compile-time" not in found["numpy"]


@needs_jax
def test_a_function_that_is_compiled_in_every_call_gets_a_warning(script):
    body = """
import ellwand, jax
import numpy as np

@jax.jit
def once(x):
    return 2 * x

def fresh(x):
    return jax.jit(lambda y: 2 * y)(x)

if __name__ == "__main__":
    for function in (once, fresh):
        found = ellwand.bench(function, np.ones(3, np.float32))
        graphs, later = (found.readings.get(name, 0) for name in ("compiled-graphs", "compiled-later"))
        print(graphs > 3, later >= 2, found.readings["compile-time"] > 0, "its time includes compilation" in repr(found))
        if function is once:
            print(graphs)
"""
    assert script(body).out.split() == ["False", "False", "True", "False", "1.0", "True", "True", "True", "True"]


def test_compilations_of_the_reference_do_not_count(monkeypatch):
    monkeypatch.setattr(_compile, "_jax", {"programs": 0, "seconds": 0.0})
    monkeypatch.setattr(_compile, "_excluded", (0, 0.0))
    watch = Watch()
    with _compile.uncounted():
        _compile._heard(_compile._STAGES[-1], 2.0)
    _compile._heard(_compile._STAGES[-1], 0.5)
    watch.checked()
    _compile._heard(_compile._STAGES[-1], 0.5)
    assert [reading["value"] for reading in watch.readings()] == pytest.approx([2, 1.0])
    _compile._heard(_compile._STAGES[-1], 0.5)
    assert [reading["value"] for reading in watch.readings()] == pytest.approx([3, 1.5, 2])


@needs_jax
def test_built_in_rows_of_jax_have_their_compile_time_threads_and_text(run, tmp_path):
    words = ["run", "gelu", "-i", "jax", "--size", "tiny", "--form", "exact", "--effort", "quick", "--no-ceilings", "--no-plot", "-o", "out"]
    done = run(*words, env={"ELLWAND_LOWERED": "text"})
    row = ellwand.read(tmp_path / "out")[0]
    assert row.readings["compiled-graphs"] == 1 and 0 < row.readings["compile-time"] < row.prepare_s, done.err
    assert row.what_ran.endswith(f", XLA's pool of {len(os.sched_getaffinity(0))} threads")
    texts = list((tmp_path / "text/gelu").glob("*/jax/*.mlir"))
    assert len(texts) == 1 and "stablehlo" in texts[0].read_text()


@needs_torch
@needs_compiler
def test_built_in_rows_of_pytorch_have_their_compile_time_and_code(run, tmp_path):
    words = ["run", "gelu", "-i", "torch-compile", "--form", "exact", "--size", "tiny", "--effort", "quick", "--no-ceilings", "--no-plot"]
    done = run(*words, "-o", "out", env={"ELLWAND_LOWERED": "text"})
    row = ellwand.read(tmp_path / "out")[0]
    assert row.readings["compiled-graphs"] == 1 and 0 < row.readings["compile-time"] < row.prepare_s, done.err
    assert any("async_compile" in path.read_text() for path in (tmp_path / "text").rglob("output_code.py"))


@needs_jax
@pytest.mark.parametrize("threads", [1, 3])
def test_declared_threads_bound_the_pool_of_xla(script, threads):
    body = f"""
import numpy as np
from ellwand import _threads
_threads.limit({threads})
import jax
jax.numpy.ones(3).block_until_ready()
print(_threads.of_xla())
"""
    assert script(body).out == f"{threads}\n"


@needs_torch
def test_a_profiled_forward_is_compiled_and_scripted():
    import torch
    from torch._dynamo.testing import CompileCounter

    profiler = GPUProfiler()

    class Model(torch.nn.Module):
        @profiler.profile_function("forward")
        def forward(self, x):
            return x * 2 + 1

    model, x, counter = Model(), torch.ones(3), CompileCounter()
    compiled = torch.compile(model, backend=counter)
    assert compiled(x).tolist() == compiled(x).tolist() == [3.0, 3.0, 3.0]
    assert counter.frame_count == 1 and [entry.operation for entry in profiler.entries] == ["forward", "forward"]
    assert torch.jit.script(model)(x).tolist() == [3.0, 3.0, 3.0]
