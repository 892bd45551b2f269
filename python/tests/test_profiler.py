"""``ellwand.profiler``: the interface of the seed, and the project's file."""

import asyncio
import json
import os
import threading
import time

import pytest

import ellwand
from ellwand.profiler import GPUProfiler, ProfileEntry, ProfileSummary, get_profiler


def test_spans_have_every_field_and_summaries_add_up():
    profiler = GPUProfiler(enabled=True, device_id=0)
    for _ in range(3):
        with profiler.profile("matmul", device="cpu", size=1024):
            time.sleep(0.001)
    with profiler.profile("xor"):
        pass
    entries = profiler.entries
    assert [e.operation for e in entries] == ["matmul"] * 3 + ["xor"] and all(isinstance(e, ProfileEntry) for e in entries)
    assert all(e.end_time >= e.start_time and e.duration_ms >= 1 for e in entries[:3])
    summary = profiler.get_summary()
    matmul = summary["matmul"]
    assert isinstance(matmul, ProfileSummary) and matmul.call_count == 3
    assert matmul.min_time_ms <= matmul.avg_time_ms <= matmul.max_time_ms
    assert matmul.total_time_ms == pytest.approx(sum(e.duration_ms for e in entries[:3]))
    assert [b.operation for b in profiler.get_bottlenecks(top_n=1)] == ["matmul"]


def test_a_profiler_that_is_off_records_nothing():
    profiler = GPUProfiler(enabled=False)
    with profiler.profile("a"):
        pass
    assert profiler.entries == [] and profiler.get_summary() == {}
    profiler.enable()
    with profiler.profile("a"):
        pass
    profiler.disable()
    with profiler.profile("a"):
        pass
    assert len(profiler.entries) == 1


def test_a_decorator_keeps_name_result_and_exception():
    profiler = GPUProfiler()

    @profiler.profile_function(operation="my_op", device="gpu")
    def double(x):
        """Doubles."""
        return x * 2

    @profiler.profile_function()
    def fails():
        raise KeyError("x")

    assert [double(i) for i in range(3)] == [0, 2, 4] and double.__doc__ == "Doubles."
    with pytest.raises(KeyError):
        fails()
    assert profiler.get_summary()["my_op"].call_count == 3
    assert len(profiler.entries) == 4, "a span that an exception ended is kept"


def test_a_device_that_is_missing_is_recorded_as_such():
    profiler = GPUProfiler()
    with profiler.profile("op", device="gpu"):
        pass
    entry = profiler.entries[0]
    assert entry.device == "gpu" and entry.backend in ("unavailable", "pytorch", "cupy")
    with pytest.raises(ellwand.EllwandError, match="'tpu' is unknown"):
        profiler.profile("op", device="tpu")


def test_prints(capsys):
    profiler = GPUProfiler()
    with profiler.profile("op"):
        pass
    profiler.print_summary()
    profiler.print_bottlenecks(top_n=5)
    printed = capsys.readouterr().out
    assert "op" in printed and "[1] op:" in printed and "share" in printed


def test_the_file_is_a_profile_of_the_project(tmp_path):
    profiler = GPUProfiler()
    with profiler.profile("outer"):
        with profiler.profile("inner", bytes=4096):
            time.sleep(0.001)
    still = profiler.profile("open")
    still.__enter__()
    profiler.export_json(tmp_path / "p.json")
    document = json.loads((tmp_path / "p.json").read_text())
    assert (document["format"], document["version"]) == ("ellwand profile", 1)
    entries = document["entries"]
    assert {len(column) for column in entries.values()} == {3}
    assert entries["parent"] == [-1, 0, -1] and entries["duration_ns"][2] is None
    assert entries["start_ns"] == sorted(entries["start_ns"])
    assert document["losses"]["open"] == 1
    detail = document["details"][entries["detail"][1]]
    assert detail["bytes"] == 4096 and detail["cpu_ns"] >= 0
    outer = next(row for row in document["summary"] if row["operation"] == "outer")
    assert outer["self_ns"] < outer["total_ns"]
    assert document["gpu_profiler"]["summary"]["inner"]["call_count"] == 1
    still.__exit__(None, None, None)
    with pytest.raises(ellwand.EllwandError, match="cannot be written"):
        profiler.export_json(tmp_path / "no" / "p.json")


def test_threads_have_lanes_and_tasks_do_not_mix():
    profiler = GPUProfiler()

    def work():
        with profiler.profile("thread"):
            pass

    async def task(name):
        with profiler.profile(name):
            await asyncio.sleep(0.001)
            with profiler.profile(name + " inner"):
                await asyncio.sleep(0.001)

    async def both():
        await asyncio.gather(task("a"), task("b"))

    with profiler.profile("main"):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    asyncio.run(both())
    document = profiler.document()
    assert len(document["lanes"]) == 2
    names = [document["operations"][o]["name"] for o in document["entries"]["operation"]]
    parents = dict(zip(names, document["entries"]["parent"]))
    assert names[parents["a inner"]] == "a" and names[parents["b inner"]] == "b" and parents["thread"] == -1


def test_a_child_begins_with_no_spans():
    profiler = GPUProfiler()
    with profiler.profile("parent"):
        pass
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        with profiler.profile("child"):
            pass
        os.write(write, ",".join(e.operation for e in profiler.entries).encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"child" and len(profiler.entries) == 1


def test_what_does_not_fit_is_counted():
    profiler = GPUProfiler()
    profiler.max_entries = 2
    for _ in range(5):
        with profiler.profile("op"):
            pass
    assert len(profiler.entries) == 2 and profiler.document()["losses"]["spans"] == 3


def test_the_global_profiler_is_one():
    assert get_profiler() is get_profiler(enabled=False)
