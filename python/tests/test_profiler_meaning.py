"""``ellwand.profiler``: the meaning of its numbers, and the content of its file."""

import asyncio
import json
import mmap
import threading
import time

import pytest

import ellwand
from ellwand.profiler import GPUProfiler


def test_a_name_takes_one_line_and_is_never_empty(capsys):
    profiler = GPUProfiler()
    with profiler.profile(""), profiler.profile("two\nlines\x1b[31m"):
        pass
    profiler.print_summary()
    profiler.print_bottlenecks()
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 5 and printed.count("(no name)") == 2 and printed.count("two\\nlines\\x1b[31m") == 2


def test_resident_memory_has_its_largest_value_and_its_change(capsys):
    profiler = GPUProfiler(measure=["rss"])
    with profiler.profile("start"):
        pass
    with profiler.profile("allocate"):
        # Not from the heap, which may hold freed memory that is resident.
        block = mmap.mmap(-1, 40_000_000)
        block.write(b"1" * 40_000_000)
    block.close()
    with profiler.profile("free"):
        pass
    first, most, last = profiler.snapshot().resident_bytes
    # Not from the first value: the kernel may take cold pages away.
    assert most >= last + 30e6 and first > 0
    spans = [span["rss_bytes"] for span in profiler.snapshot().spans()]
    assert [round(entry.memory_resident_mb * 1e6) for entry in profiler.entries] == spans and max(spans) == most
    document = profiler.document()
    assert document["memory"]["track"] == "resident memory" and document["memory"]["peak_bytes"] == most
    profiler.print_summary()
    assert f"resident memory at span ends: up to {most / 1e6:.1f} MB, change " in capsys.readouterr().out
    plain = GPUProfiler()
    with plain.profile("plain"):
        pass
    assert plain.snapshot().resident_bytes is None and plain.snapshot().spans()[0]["rss_bytes"] is None


def test_the_file_has_its_own_operations_and_details_only(tmp_path):
    other, profiler = GPUProfiler(), GPUProfiler()
    with other.profile("of another profiler"):
        pass
    with profiler.profile("one", size=1):
        pass
    # Measures what spans cost.
    profiler.snapshot()
    profiler.export_json(tmp_path / "p.json")
    document = json.loads((tmp_path / "p.json").read_text())
    assert [each["name"] for each in document["operations"]] == ["one"] and document["details"] == [{"args": {"size": 1}}]
    assert document["entries"]["operation"] == [0] and list(document["gpu_profiler"]) == ["summary"]


def test_the_cost_of_a_span_is_that_of_the_way_it_began():
    prices = [(10.0, 1.0), (20.0, 2.0), (30.0, 3.0), (40.0, 4.0)]

    def price(use):
        profiler = GPUProfiler()
        use(profiler)
        cost = json.loads(profiler._snapshot(lambda: prices).json())["cost"]
        return cost["span_ns"], cost["empty_ns"]

    def function(profiler):
        decorated = profiler.profile_function(lambda: None)
        decorated(), decorated()

    def region(profiler):
        again = profiler.profile("again")
        for _ in range(100):
            with again:
                pass

    def named(profiler):
        for _ in range(2):
            with profiler.profile("named"):
                pass

    def arguments(profiler):
        with profiler.profile("arguments", size=1):
            pass

    assert [price(use) for use in (function, named, arguments)] == [prices[0], prices[2], prices[3]]
    assert price(region) == pytest.approx((20.1, 2.01)), "99 of 100 did not look it up"
    assert price(lambda profiler: (function(profiler), arguments(profiler))) == pytest.approx((20.0, 2.0))
    assert price(lambda profiler: None) == prices[2]
    measured = ellwand._span_cost.costs()
    assert len(measured) == 4 and all(cost > 0 and empty >= 0 for cost, empty in measured)


def test_without_cpu_time_a_span_is_no_computing():
    def parts(profiler):
        with profiler.profile("sleep"):
            time.sleep(0.01)
        return {each["part"]: each["ns"] for each in profiler.document()["breakdown"]["parts"]}

    assert "cpu" not in (unknown := parts(GPUProfiler())) and unknown["not-measured"] > 9e6
    assert "not-measured" not in (known := parts(GPUProfiler(measure=["cpu"]))) and known["wait"] > known["cpu"]


def test_a_span_that_another_thread_ends_is_warned_of():
    profiler = GPUProfiler()
    region = profiler.profile("handed over")
    region.__enter__()
    caught = []

    def end():
        with pytest.warns(RuntimeWarning, match='span "handed over" was ended on another thread') as found:
            region.__exit__(None, None, None)
        caught.extend(found)

    thread = threading.Thread(target=end)
    thread.start()
    thread.join()
    assert len(caught) == 1 and profiler.document()["losses"]["open"] == 1
    region.__exit__(None, None, None)
    assert profiler.document()["losses"]["open"] == 0


def test_a_span_of_a_suspended_task_has_no_cpu_time():
    profiler = GPUProfiler(measure=["cpu"])

    def compute():
        end = time.thread_time() + 0.02
        while time.thread_time() < end:
            pass

    async def waits():
        with profiler.profile("waits"):
            await asyncio.sleep(0.01)

    @profiler.profile_function
    async def wrapped():
        await asyncio.sleep(0)

    async def computes():
        await asyncio.sleep(0)
        with profiler.profile("computes"):
            compute()

    async def everything():
        await asyncio.gather(waits(), waits(), wrapped(), computes())

    with profiler.profile("run"):
        asyncio.run(everything())
    # A new loop, which may have the address of the old one.
    asyncio.run(waits())
    rows = {row["operation"].split(".")[-1]: row["cpu_ns"] for row in profiler.snapshot().summary()}
    assert rows["waits"] is None and rows["wrapped"] is None and rows["computes"] >= 20e6 and rows["run"] >= 20e6


def test_the_work_of_spans_is_in_entries_and_sums():
    profiler = GPUProfiler()
    for items in (2, 3):
        with profiler.profile("work", items=items, flops=4.5, bytes=8):
            pass
    first = profiler.entries[0]
    assert (first.items, first.flops, first.bytes) == (2, 4.5, 8)
    work = profiler.get_summary()["work"]
    assert (work.total_items, work.total_flops, work.total_bytes) == (5, 9.0, 16)


def test_long_names_that_differ_at_their_ends_stay_different(capsys):
    profiler = GPUProfiler()
    for end in ("forward", "backward"):
        with profiler.profile(f"network.encoder.layers.attention.{end}"):
            pass
    profiler.print_summary()
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:]]
    assert len({name[-8:] for name in names}) == 2 and all(len(name) <= 28 and name.startswith("network.encod..") for name in names)
