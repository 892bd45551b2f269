"""``ellwand.profiler``: the interface of the seed, and the project's file."""

import asyncio
import html
import inspect
import json
import os
import pickle
import sys
import threading
import time

import numpy as np
import pytest

import ellwand
from ellwand.profiler import GPUProfiler, ProfileEntry, ProfileSummary, get_profiler

module_profiler = GPUProfiler()


@module_profiler.profile_function()
def triple(x):
    return 3 * x



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
    # One snapshot: each calibrates the clock rate anew, so two snapshots differ by a part in a million.
    snapshot = profiler.snapshot()
    durations = [span["duration_ns"] for span in snapshot.spans() if span["operation"] == "matmul"]
    total = next(row["total_ns"] for row in snapshot.summary() if row["operation"] == "matmul")
    assert total == pytest.approx(sum(durations)) and len(durations) == 3
    assert [b.operation for b in profiler.get_bottlenecks(top_n=1)] == ["matmul"]
    starts = [span["start_ns"] for span in snapshot.spans()]
    assert all(isinstance(start, int) for start in starts) and len(set(starts)) == 4
    assert entries[0].start_time == pytest.approx(entries[0].start_ns * 1e-9, abs=1e-6)


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


def test_a_decorator_needs_no_parentheses_and_takes_methods_of_all_kinds():
    profiler = GPUProfiler()

    class Model:
        @profiler.profile_function
        def plain(self, x):
            return x

        @profiler.profile_function(operation="static")
        @staticmethod
        def static(x):
            return x

        @profiler.profile_function
        @classmethod
        def made(cls, x):
            return cls, x

        @staticmethod
        @profiler.profile_function
        def inside(x):
            return x

    model = Model()
    assert (model.plain(1), Model.static(2), model.static(3), model.inside(4)) == (1, 2, 3, 4)
    assert Model.made(5) == model.made(5) == (Model, 5)
    names = [name.split(".")[-1] for name in profiler.get_summary()]
    assert sorted(names) == ["inside", "made", "plain", "static"]
    for wrong in (7, property(len)):
        with pytest.raises(ellwand.EllwandError, match="profile_function: .* is not a function"):
            profiler.profile_function(wrong)


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


def test_shares_count_nested_spans_once(capsys):
    profiler = GPUProfiler()
    with profiler.profile("outer"), profiler.profile("middle"), profiler.profile("inner"):
        pass
    profiler.print_summary()
    lines = capsys.readouterr().out.splitlines()
    shares = {line.split()[0]: float(line.split()[-1].rstrip("%")) for line in lines[1:]}
    assert shares["outer"] == 100 and shares["inner"] <= shares["middle"] <= 100


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
    assert detail["bytes"] == 4096
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
    lanes, parent = parents(profiler.document())
    assert parent == {"main": None, "thread": None, "a": None, "a inner": "a", "b": None, "b inner": "b"}
    assert lanes["main"] == lanes["a"] == "MainThread" and lanes["b"] == lanes["b inner"] == "MainThread (2)"
    assert lanes["thread"].startswith("Thread-")


def parents(document):
    """The lane and the parent of each span by name; the span of another lane that caused it is its parent too."""
    entries, details = document["entries"], document["details"]
    names = [document["operations"][o]["name"] for o in entries["operation"]]
    sources = {}
    for at in sorted(range(len(names)), key=lambda at: entries["start_ns"][at]):
        sources.setdefault(entries["link"][at], names[at])
    found = {}
    for at, name in enumerate(names):
        own, detail = entries["link"][at], entries["detail"][at]
        link = details[detail].get("cause", 0) if detail >= 0 else 0
        link = link or (own if sources[own] != name else 0)
        up = entries["parent"][at]
        found[name] = names[up] if up >= 0 else sources[link] if link else None
    lanes = {name: document["lanes"][lane]["name"] for name, lane in zip(names, entries["lane"])}
    return lanes, found


def test_tasks_have_the_span_that_created_them_as_their_parent():
    profiler = GPUProfiler()

    @profiler.profile_function()
    def compute():
        with profiler.profile("step"):
            pass

    @profiler.profile_function(operation="fetch")
    async def fetch(name):
        with profiler.profile(name):
            await asyncio.sleep(0.001)
            compute()
            await asyncio.to_thread(lambda: profiler.profile(name + " thread").__enter__().__exit__(None, None, None))

    async def program():
        with profiler.profile("request"):
            await asyncio.gather(fetch("x"), asyncio.create_task(fetch("y")))
        with profiler.profile("after"):
            pass

    with profiler.profile("outer"):
        asyncio.run(program())
    with profiler.profile("last"):
        pass
    _, parent = parents(profiler.document())
    assert parent["request"] == parent["after"] == "outer" and parent["outer"] is parent["last"] is None
    assert parent["fetch"] == "request" and parent["x"] == parent["y"] == "fetch"
    assert parent["x thread"] == "x" and parent["y thread"] == "y"
    assert parent["step"].endswith("compute") and parent["test_tasks_have_the_span_that_created_them_as_their_parent.<locals>.compute"] in "xy"
    assert all(entry.duration_ms > 0 for entry in profiler.entries if entry.operation != "step")


def test_python_and_rust_spans_are_one_tree():
    rng = np.random.default_rng(0)
    time_, position = np.linspace(0, 10, 200), rng.random((200, 1)) * 100
    spikes = np.sort(rng.random(30)) * 10, rng.standard_normal((30, 2))
    profiler = GPUProfiler()
    with profiler.profile("fit"):
        ellwand.kde.ClusterlessDecoder(time_, position, np.arange(0.0, 100.0, 5.0), [spikes[0]], [spikes[1]])
    _, parent = parents(profiler.document())
    assert parent["encoding positions"] == "fit"


def test_generators_may_end_in_any_order():
    profiler = GPUProfiler()

    def steps(name):
        with profiler.profile(name):
            yield
            yield

    a, b = steps("a"), steps("b")
    next(a), next(b)
    a.close()
    with profiler.profile("after a"):
        pass
    b.close()
    with profiler.profile("after"):
        pass
    _, parent = parents(profiler.document())
    assert parent == {"a": None, "b": "a", "after a": None, "after": None}
    assert profiler.document()["losses"]["open"] == 0


def test_two_profilers_keep_their_spans():
    one, two = GPUProfiler(), GPUProfiler()
    with one.profile("a"):
        with two.profile("b"):
            with one.profile("c"):
                pass
        with one.profile("d"):
            pass
    assert parents(one.document())[1] == {"a": None, "c": "a", "d": "a"} and [e.operation for e in two.entries] == ["b"]


def test_an_exception_is_kept_with_its_span():
    profiler = GPUProfiler()

    @profiler.profile_function()
    def fails():
        raise KeyError("x")

    with pytest.raises(KeyError), profiler.profile("around"):
        fails()
    errors = [span["args"].get("error") for span in profiler.snapshot().spans()]
    assert errors == ["KeyError", "KeyError"]


def test_a_profiled_function_is_a_method_and_travels_by_name():
    class Model:
        @module_profiler.profile_function(operation="forward")
        def forward(self, x, *, scale=1):
            return x * scale

    before = len(module_profiler.entries)
    assert Model().forward(3, scale=2) == 6 and list(map(Model().forward, [1])) == [1]
    assert len(module_profiler.entries) == before + 2 and str(inspect.signature(Model.forward)) == "(self, x, *, scale=1)"
    assert pickle.loads(pickle.dumps(triple)) is triple and triple(2) == 6


def test_cpu_time_is_measured_if_asked_for():
    profiler = GPUProfiler(measure=["cpu"])
    with profiler.profile("sleep"):
        time.sleep(0.02)
    with profiler.profile("work"):
        until = time.thread_time() + 0.01
        while time.thread_time() < until:
            pass
    sleep, work = profiler.entries
    assert work.cpu_time_ms >= 10 and sleep.cpu_time_ms < 20 <= sleep.duration_ms
    with pytest.raises(ellwand.EllwandError, match="max_entries: -1 is out of range"):
        GPUProfiler(max_entries=-1)
    with pytest.raises(ellwand.EllwandError, match='"gpu" is unknown'):
        GPUProfiler(measure=["gpu"])


def test_threads_record_at_once_and_keep_their_spans_when_they_end():
    profiler = GPUProfiler()

    def work(number):
        for _ in range(3000):
            with profiler.profile(f"outer {number}"), profiler.profile("inner"):
                pass
        profiler.profile("left open").__enter__()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    summary = profiler.get_summary()
    assert summary["inner"].call_count == 12000 and all(summary[f"outer {n}"].call_count == 3000 for n in range(4))
    assert profiler.document()["losses"]["open"] == 4


def test_the_page_is_offline_and_shows_in_a_notebook(tmp_path, monkeypatch):
    profiler = GPUProfiler()
    with profiler.profile("<script>op"):
        pass
    profiler.export_html(tmp_path / "p.html")
    page = (tmp_path / "p.html").read_text()
    assert page.lstrip().lower().startswith("<!doctype html") and "<script>op" not in page
    shown = profiler._repr_html_()
    assert shown.startswith("<iframe srcdoc=\"") and "<!doctype" in html.unescape(shown.split('"')[1]).lower()
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert opened == [] and os.path.exists(path := profiler.view()) and opened == [f"file://{path}"]
    with pytest.raises(ellwand.EllwandError, match="cannot write"):
        profiler.export_html(tmp_path / "no" / "p.html")


def test_a_generator_has_a_span_whenever_its_body_runs():
    profiler = GPUProfiler()

    @profiler.profile_function("numbers")
    def numbers(n):
        got = []
        for i in range(n):
            got.append((yield i))
        return got

    @profiler.profile_function("later")
    async def later(n):
        for i in range(n):
            yield i

    async def collect():
        return [i async for i in later(2)]

    running = numbers(2)
    assert next(running) == 0
    with profiler.profile("consumer"):
        pass
    assert running.send("a") == 1
    with pytest.raises(StopIteration) as end:
        running.send("b")
    assert end.value.value == ["a", "b"] and asyncio.run(collect()) == [0, 1]
    counts = {name: each.call_count for name, each in profiler.get_summary().items()}
    assert counts == {"numbers": 3, "later": 3, "consumer": 1}
    assert set(profiler.document()["entries"]["parent"]) == {-1}


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
    profiler = GPUProfiler(max_entries=2)
    for _ in range(5):
        with profiler.profile("op"):
            pass
    assert len(profiler.entries) == 2 and profiler.document()["losses"]["spans"] == 3
    assert profiler.get_summary()["op"].call_count == 5, "further spans are aggregated"


def test_totals_are_exact_whatever_has_no_room():
    for room in (0, 1, 100, 1000):
        profiler = GPUProfiler(max_entries=room, measure=["cpu"])
        for _ in range(1000):
            with profiler.profile("read", bytes=4096):
                pass
        summary, losses = profiler.get_summary()["read"], profiler.document()["losses"]
        assert (summary.call_count, summary.total_bytes, losses["details"]) == (1000, 4_096_000, 0)
        assert summary.total_cpu_time_ms > 0 and len(profiler.entries) >= 0.8 * room


def test_the_global_profiler_is_one():
    assert get_profiler() is get_profiler(enabled=True)
    from ellwand.profiler import span

    with span("of the program"):
        pass
    assert "of the program" in get_profiler().get_summary()


def test_the_global_profiler_is_switched_on_for_some_requests():
    """As a service does that profiles one request in a hundred."""
    profiler = get_profiler(enabled=True)
    profiler.reset()

    @profiler.profile_function(operation="handler")
    def handle():
        with get_profiler().profile("query"):
            pass

    for request in range(200):
        get_profiler(enabled=request % 100 == 7)
        handle()
    assert get_profiler().enabled is False, "a call without an argument leaves it as it is"
    assert {each.operation: each.call_count for each in profiler.get_bottlenecks()} == {"handler": 2, "query": 2}
    get_profiler(enabled=True)


def test_clear_inside_a_span_leaves_the_thread_as_it_was():
    profiler = GPUProfiler()
    with profiler.profile("cleared"):
        profiler.clear()
        with profiler.profile("inside"):
            pass
    with profiler.profile("after"):
        pass
    assert parents(profiler.document())[1] == {"inside": None, "after": None}


def test_an_asynchronous_generator_that_another_task_closes_ends_its_span():
    profiler = GPUProfiler()

    async def numbers():
        with profiler.profile("generator"):
            yield 1
            yield 2

    async def first(source):
        return await source.__anext__()

    async def program():
        source = numbers()
        await asyncio.create_task(first(source))
        await asyncio.create_task(source.aclose())

    asyncio.run(program())
    with profiler.profile("after"):
        pass
    assert parents(profiler.document())[1] == {"generator": None, "after": None}
    assert all(entry.duration_ms > 0 for entry in profiler.entries)
