"""The kernels as functions: values, borrowed memory, bad input."""

import math

import numpy as np
import pytest
from conftest import needs_jax, needs_torch

import ellwand
from ellwand import kde, lattice, nn

RNG = np.random.default_rng(7)
SHAPES = [(5,), (3, 1), (4, 33), (2, 3, 64), (2000, 257)]


def floats(*shape):
    return RNG.standard_normal(shape).astype(np.float32)


def norm(x, gamma, beta, eps=1e-5):
    x = x.astype(np.float64)
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + eps) * gamma + beta


def gelu(x):
    return np.array([0.5 * v * math.erfc(-v / math.sqrt(2)) for v in x.astype(np.float64).ravel()]).reshape(x.shape)


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_layer_operations_agree_with_their_definitions(shape):
    x, other, gamma, beta = floats(*shape), floats(*shape), floats(shape[-1]), floats(shape[-1])
    close = lambda got, want: np.testing.assert_allclose(got, want, rtol=2e-5, atol=2e-5)
    if shape[-1] > 1:
        close(nn.layer_norm(x, gamma, beta), norm(x, gamma, beta))
        close(nn.layer_norm(x), norm(x, 1, 0))
    close(nn.gelu(x), gelu(x))
    close(nn.gelu(x, approximate="tanh"), 0.5 * x * (1 + np.tanh((2 / np.pi) ** 0.5 * (x + 0.044715 * x**3))))
    close(nn.bias_gelu(x, beta), gelu(x + beta))
    close(nn.swish(x), x / (1 + np.exp(-x.astype(float))))
    close(nn.swiglu(x, other), x / (1 + np.exp(-x.astype(float))) * other)
    close(nn.softmax(x), softmax(x))
    close(nn.mse_loss(x, other), ((x - other).astype(float) ** 2).mean())
    y, total = nn.residual_layer_norm(x, other)
    close(total, x + other)
    if shape[-1] > 1:
        close(y, norm(x + other, 1, 0))


def test_cross_entropy():
    x, labels = floats(6, 10), RNG.integers(0, 10, 6)
    want = -np.log(softmax(x)[np.arange(6), labels]).mean()
    assert abs(nn.cross_entropy_loss(x, labels) - want) < 1e-5
    with pytest.raises(ellwand.EllwandError, match="label 0 is 10"):
        nn.cross_entropy_loss(x, np.full(6, 10))
    target = softmax(floats(6, 10)).astype(np.float32)
    want = -(target * np.log(softmax(x))).sum(-1).mean()
    assert abs(nn.cross_entropy_loss(x, target) - want) < 1e-5
    with pytest.raises(ellwand.EllwandError, match="probabilities in the shape of x"):
        nn.cross_entropy_loss(x, target[:, :3])


@pytest.mark.parametrize("length", [37, 5, 90])
@pytest.mark.parametrize(("heads", "kv", "causal"), [(2, 2, False), (4, 2, True), (3, 1, False)])
def test_attention_agrees_with_its_definition(heads, kv, causal, length):
    q, k, v = floats(2, heads, 37, 16), floats(2, kv, length, 16), floats(2, kv, length, 16)
    keys, values = np.repeat(k, heads // kv, 1), np.repeat(v, heads // kv, 1)
    scores = q.astype(float) @ keys.swapaxes(-1, -2) / 4
    if causal:
        scores = np.where(np.tri(37, length, dtype=bool), scores, -np.inf)
    np.testing.assert_allclose(ellwand.attention(q, k, v, causal=causal), softmax(scores) @ values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["Z2", "D4", "E8"])
def test_a_lattice_code_is_packed_and_close(name):
    x = floats(50, 24)
    codes = lattice.encode(x, lattice=name, q=4, levels=3, beta=0.25)
    back = lattice.decode(codes)
    assert back.shape == x.shape and codes.nbytes < x.nbytes / 4
    assert np.abs(back - x).mean() < 0.2
    again = lattice.Codes.from_bytes(codes.to_bytes())
    np.testing.assert_array_equal(again.decode(), back)
    np.testing.assert_allclose(lattice.dot(codes, x[0]), back @ x[0], rtol=1e-4, atol=1e-3)
    assert np.abs(lattice.decode(codes, depth=1) - x).mean() > np.abs(back - x).mean()
    assert repr(codes).startswith(f"Codes(lattice='{name}', q=4, levels=3, shape=[50, 24]")


def test_a_decoder_finds_where_the_animal_was():
    time = np.arange(101.0)
    grid = 0.25 + 0.5 * np.arange(20)
    decoder = kde.ClusterlessDecoder(
        time, time / 10, grid, [[10.0, 20.0, 30.0, 80.0]], [[90.0, 95.0, 92.0, 40.0]], position_std=1.0, waveform_std=5.0
    )
    likelihood = decoder.predict([0.0, 0.02, 0.04], [[0.01]], [[93.0]])
    assert likelihood.shape == (3, 20) and grid[likelihood[0].argmax()] < 5
    tiled = decoder.predict([0.0, 0.02, 0.04], [[0.01]], [[93.0]], block_size=50, pos_tile_size=8)
    np.testing.assert_array_equal(tiled, likelihood)
    local = decoder.predict_local(time, time / 10, [0.0, 50.0, 100.0], [[10.0, 70.0]], [[93.0, 41.0]])
    assert local.shape == (3,) and np.isfinite(local).all()
    for wrong in ({"block_size": 0}, {"pos_tile_size": -1}, {"memory": 1.5}):
        with pytest.raises(ellwand.EllwandError, match=f"{next(iter(wrong))}: .* is out of range"):
            decoder.predict([0.0, 0.02, 0.04], [[0.01]], [[93.0]], **wrong)
    with pytest.raises(ellwand.EllwandError, match="electrodes"):
        decoder.predict([0.0, 1.0], [], [])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: nn.gelu(np.ones(3)), "float64; expected float32"),
        (lambda: nn.gelu("abc"), "x: its element type"),
        (lambda: nn.layer_norm([[1.0, 2.0]]), r"x: .* expected float32: pass np.asarray\(x, 'float32'\)"),
        (lambda: nn.bias_gelu([[1.0, 2.0]], floats(2)), "x: its element type is float64"),
        (lambda: nn.swiglu([1.0], [1.0]), "x: its element type is float64"),
        (lambda: nn.gelu(np.float32(3)), "it is a scalar"),
        (lambda: nn.gelu(floats(3), approximate="fast"), "expected 'none' or 'tanh'"),
        (lambda: nn.layer_norm(floats(2, 3), floats(4)), r"gamma: its shape is \(4,\)"),
        (lambda: nn.swiglu(floats(2, 3), floats(2, 4)), "up: its shape"),
        (lambda: ellwand.attention(floats(3), floats(3), floats(3)), "expected .batch, heads"),
        (lambda: ellwand.attention(floats(1, 3, 4, 4), floats(1, 2, 4, 4), floats(1, 2, 4, 4)), "heads"),
        (lambda: lattice.encode(floats(4), lattice="D5"), "'D5' is unknown"),
        (lambda: lattice.encode(floats(4), q=1), "q"),
        (lambda: lattice.Codes.from_bytes(b"nonsense"), "."),
        (lambda: kde.ClusterlessDecoder([0.0, 1.0], [0.0], [0.0], [[0.5]], [[1.0]]), "position"),
        (lambda: kde.ClusterlessDecoder([0.0], [0.0], [0.0], [[0.5]], []), "expected as many as in spike_times"),
        (
            lambda: kde.ClusterlessDecoder([0.0, 1.0], [0.0, 1.0], np.zeros((4, 2)), [[0.5]], [[1.0]]),
            r"grid: its shape is \[4, 2\]; expected \[B, 1\]",
        ),
    ],
)
def test_bad_input_is_an_error_that_names_it(call, words):
    with pytest.raises(ellwand.EllwandError, match=words):
        call()


def test_views_and_other_orders_are_accepted():
    x = floats(8, 12)
    np.testing.assert_array_equal(nn.swish(x.T), nn.swish(np.ascontiguousarray(x.T)))
    np.testing.assert_array_equal(nn.swish(x[::2, 1:9]), nn.swish(x[::2, 1:9].copy()))
    assert nn.swish(np.empty((0, 4), np.float32)).shape == (0, 4)


def test_other_threads_run_while_a_kernel_works(script):
    """The kernel must release the lock by itself here: Python would take it away only after 1000 s."""
    body = """
import sys, threading, time
import numpy as np
from ellwand import lattice, nn

x = np.random.default_rng(0).standard_normal((4000, 4000)).astype(np.float32)
q = x[:512, :512].reshape(1, 1, 512, 512)
sys.setswitchinterval(1000)
count, stop = 0, False

def other():
    global count
    while not stop:
        count += 1
        time.sleep(1e-4)

thread = threading.Thread(target=other, daemon=True)
thread.start()
kernels = {"gelu": lambda: nn.gelu(x), "softmax": lambda: nn.softmax(x), "loss": lambda: nn.mse_loss(x, x),
           "attention": lambda: nn.attention(q, q, q), "encode": lambda: lattice.encode(x),
           "held": lambda: sum(range(10**5))}

def ran_beside(kernel):
    before = count
    kernel()
    return count > before

# On a busy machine the other thread may have no processor during one call.
for name, kernel in kernels.items():
    print(name, any(ran_beside(kernel) for _ in range(200)))
stop = True
"""
    assert script(body).out.split() == [
        "gelu", "True", "softmax", "True", "loss", "True", "attention", "True", "encode", "True", "held", "False",
    ]  # fmt: skip


def test_a_child_of_a_fork_computes_the_same_on_one_thread(script):
    body = """
import os, numpy as np
from ellwand import lattice, nn
x = np.random.default_rng(0).standard_normal((3000, 512)).astype(np.float32)
def work():
    return nn.gelu(x).tobytes() + lattice.encode(x).packed.tobytes() + nn.attention(*[x[:96].reshape(1, 2, 96, 256)] * 3).tobytes()
want = work()
child = os.fork()
if child == 0:
    os._exit(0 if work() == want else 1)
assert os.waitpid(child, 0)[1] == 0
"""
    script(body)


@needs_torch
def test_tensors_are_borrowed_and_answered_with_tensors():
    import torch

    x = torch.randn(7, 32)
    y = nn.gelu(x)
    assert isinstance(y, torch.Tensor)
    torch.testing.assert_close(y, torch.nn.functional.gelu(x))
    assert nn.floats("x", x).ctypes.data == x.data_ptr(), "no copy"
    q = torch.randn(1, 2, 9, 8)
    torch.testing.assert_close(ellwand.attention(q, q, q), torch.nn.functional.scaled_dot_product_attention(q, q, q))
    with pytest.raises(ellwand.EllwandError, match="requires a gradient; pass x.detach"):
        nn.gelu(x.requires_grad_())
    with pytest.raises(ellwand.EllwandError, match="to_dense"):
        nn.gelu(torch.eye(3).to_sparse())


@needs_torch
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda torch: torch.ones(3, device="meta"), "x: the tensor is on the meta device and holds no values"),
        (lambda torch: torch._neg_view(torch.ones(3)), r"pass x\.resolve_neg\(\)"),
        (lambda torch: torch.ones(3, dtype=torch.complex64).conj(), r"pass x\.resolve_conj\(\)"),
        (lambda torch: torch.ones(3).to(torch.float8_e4m3fn), r"NumPy has no torch.float8_e4m3fn .*; pass x\.float\(\)"),
        (lambda torch: torch.ones(3).bfloat16(), "bfloat16; expected float32"),
    ],
    ids=["meta", "negated", "conjugated", "float8", "bfloat16"],
)
def test_a_tensor_that_cannot_be_borrowed_says_what_to_pass(make, words):
    import torch

    with pytest.raises(ellwand.EllwandError, match=words):
        nn.gelu(make(torch))


def test_what_is_not_a_number_stays_so_or_is_marked_or_refused():
    x = np.ones((2, 8), np.float32)
    x[0, 3] = np.nan
    for layer in (nn.layer_norm, nn.softmax):
        np.testing.assert_array_equal(np.isnan(layer(x)), np.repeat([[True], [False]], 8, 1))
    np.testing.assert_array_equal(np.isnan(nn.gelu(x)), np.isnan(x))
    assert math.isnan(nn.mse_loss(x, x)) and math.isnan(nn.cross_entropy_loss(x, [0, 1]))
    assert lattice.encode(x, lattice="E8", overload="flag").overload.tolist() == [1, 0], "a code holds no NaN"
    with pytest.raises(ellwand.EllwandError, match="position: value 1 is NaN"):
        kde.ClusterlessDecoder([0.0, 1.0, 2.0], [0.0, np.nan, 1.0], [0.0, 1.0], [[0.5]], [[1.0]])


@needs_jax
def test_arrays_of_jax_are_borrowed():
    import jax.numpy as jnp

    x = jnp.asarray(floats(3, 8))
    np.testing.assert_allclose(nn.swish(x), np.asarray(x / (1 + jnp.exp(-x))), rtol=1e-5, atol=1e-6)
