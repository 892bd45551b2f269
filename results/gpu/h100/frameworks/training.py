"""A training loop under Ellwand's profiler, and under PyTorch's on the same steps."""
import json, os, sys, time
import torch
from torch import nn
from ellwand.profiler import GPUProfiler

torch.manual_seed(0)
out = sys.argv[1]
device = torch.device("cuda")
model = nn.Sequential(*[nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.0) for _ in range(4)], nn.Linear(512, 512)).to(device)
optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
data = [torch.randn(32, 256, 512).pin_memory() for _ in range(4)]
plain = [torch.randn(32, 256, 512) for _ in range(4)]


def step(profiler, index):
    with profiler.profile("step"):
        with profiler.profile("load", device="host-to-device", bytes=data[0].nbytes):
            x = data[index % 4].to(device, non_blocking=True)
        with profiler.profile("load pageable", device="host-to-device", bytes=data[0].nbytes):
            z = plain[index % 4].to(device)
        with profiler.profile("zero"):
            optimiser.zero_grad(set_to_none=True)
        with profiler.profile("forward", device="gpu"):
            y = model(x)
        with profiler.profile("loss", device="gpu"):
            loss = ((y - z) ** 2).mean()
        with profiler.profile("backward", device="gpu"):
            loss.backward()
        with profiler.profile("optimiser", device="gpu"):
            optimiser.step()
        with profiler.profile("read", device="device-to-host", bytes=4):
            value = loss.item()
        with profiler.profile("think", device="cpu"):
            total = sum(i * i for i in range(20000))
    return value


off = GPUProfiler(enabled=False)
for index in range(5):
    step(off, index)
torch.cuda.synchronize()

walls = {}
for name, make in [("off", lambda: GPUProfiler(enabled=False)), ("on", lambda: GPUProfiler(measure=["cpu"]))] * 2:
    profiler = make()
    begun = time.perf_counter()
    for index in range(40):
        step(profiler, index)
    torch.cuda.synchronize()
    walls.setdefault(name, []).append((time.perf_counter() - begun) / 40 * 1e3)
print("ms a step", {name: [round(value, 3) for value in values] for name, values in walls.items()})
for name, stats in profiler.get_summary().items():
    print(f"{name:16} calls {stats.call_count} wall {stats.avg_time_ms:.4f} gpu {stats.total_gpu_time_ms / stats.call_count:.4f}")
print(profiler.snapshot())
profiler.print_summary()
profiler.print_bottlenecks()
profiler.export_html(out + "/train.html")
profiler.export_json(out + "/train.json")

from torch.profiler import ProfilerActivity, profile, record_function

class Named:
    def profile(self, name, **_):
        return record_function(name)

with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as theirs:
    for index in range(10):
        step(Named(), index)
    torch.cuda.synchronize()
for row in theirs.key_averages():
    if row.key in ("step", "load", "load pageable", "forward", "loss", "backward", "optimiser", "read", "think", "zero"):
        print(f"torch {row.key:16} calls {row.count} cpu {row.cpu_time_total / row.count / 1e3:.4f} device {row.device_time_total / row.count / 1e3:.4f} {row.device_type}")
total = sum(event.device_time_total for event in theirs.events() if str(event.device_type).endswith("CUDA") and event.name not in ("step", "load", "load pageable", "forward", "loss", "backward", "optimiser", "read", "think", "zero"))
print("torch: all kernels and copies, ms a step", total / 10 / 1e3)
