"""Planted differences on a device: the slower function repeats 100 steps and three more, whose result is thrown away."""
import numpy as np
import ellwand


@ellwand.workload(
    "steps",
    axes=[ellwand.Axis("n", [1_000_000, 64_000_000], high=10**9, unit="numbers"), ellwand.Axis("count", [20, 100], high=1000, unit="steps")],
    sizes={"tiny": {"n": 1000, "count": 3}},
)
class Steps:
    """tanh of tanh of .. x"""

    tolerance = (1e-4, 1e-4)

    def inputs(self, case, rng):
        return {"x": rng.standard_normal(case["n"]).astype(np.float32)}

    def reference(self, case, inputs):
        y = inputs["x"].astype(np.float64)
        for _ in range(case["count"]):
            y = np.tanh(y)
        return y


def steps(more):
    def prepare(case, inputs):
        import torch

        x = torch.from_numpy(inputs["x"]).cuda()
        scratch = torch.empty_like(x)
        out = torch.empty_like(x)
        extra = round(case["count"] * more)

        def run():
            for _ in range(extra):
                torch.tanh(x, out=scratch)
            torch.tanh(x, out=out)
            for _ in range(case["count"] - 1):
                torch.tanh(out, out=out)
            return out

        return run

    return prepare


for name, more in [("plain", 0.0), ("three", 0.03), ("five", 0.05), ("ten", 0.1)]:
    prepare = steps(more)
    prepare.__doc__ = f"{more:.0%} more steps"
    ellwand.implementation("steps", name, device="cuda")(prepare)
