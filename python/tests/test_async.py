# SPDX-License-Identifier: Apache-2.0
import asyncio
import concurrent.futures
import ctypes
import gc
import os
import random
import sys
import threading
import weakref

import numpy as np
import pytest

import backplane as bp
import onnx_models as models
from test_runtime import python

COUNT = 2000
LIMIT = 60


def long_run(device, size=64):
    """A session whose run takes many milliseconds, and its input."""
    session = bp.load(models.powers(COUNT), device=device)
    return session, {"x": bp.asarray(models.shift(size), device=device)}


def stopped_size(device):
    """Of a run that cannot end before it is stopped. A queued device has many operators in its
    queue by the time it is told."""
    return 256 if device == "cpu:0" else 64


def descriptors():
    return len(os.listdir("/proc/self/fd"))


# --- Futures ---------------------------------------------------------------------------------


def test_submit(device):
    session = bp.load(models.add(), device=device)
    a, b = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    future = session.submit({"a": a, "b": b})
    assert isinstance(future, concurrent.futures.Future)
    assert future.result(LIMIT)["y"].tolist() == (a + b).tolist()
    assert future.done() and not future.cancelled() and not future.cancel()
    y = bp.empty(5, device=device)
    found = session.submit({"a": a, "b": b}, out={"y": y}, outputs=["y"]).result(LIMIT)
    assert found["y"] is y and y.tolist() == (a + b).tolist()
    futures = [session.submit({"a": i * b, "b": b}) for i in range(50)]
    done, waiting = concurrent.futures.wait(futures, LIMIT)
    assert not waiting
    assert [f.result()["y"].tolist()[0] for f in futures] == [i + 1 for i in range(50)]
    seen = []
    called = threading.Event()
    future = session.submit({"a": a, "b": b})
    future.add_done_callback(lambda f: (seen.append(f), called.set()))
    assert called.wait(LIMIT) and seen == [future]


def test_inputs_are_kept_until_the_run_ended():
    session = bp.load(models.powers(200), device="cpu:0")
    wanted = models.shift_power(64, 201)
    futures = []
    for _ in range(20):
        x = models.shift(64).copy()
        futures.append(session.submit({"x": x}))
        watched = weakref.ref(x)
        del x
    del session
    gc.collect()
    for future in futures:
        assert (future.result(LIMIT)["y"].numpy() == wanted).all()
    del future, futures
    gc.collect()
    bp.ones(1)
    assert watched() is None


def test_errors_arrive(device):
    session = bp.load(models.add(), device=device)
    wrong = {"a": np.ones(2, np.float32), "b": np.ones(3, np.float32)}
    with pytest.raises(ValueError) as direct:
        session.run(wrong)
    error = session.submit(wrong).exception(LIMIT)
    assert isinstance(error, bp.InvalidArgumentError) and str(error) == str(direct.value)

    async def wait():
        await session.run_async(wrong)

    with pytest.raises(bp.InvalidArgumentError) as awaited:
        asyncio.run(wait())
    assert str(awaited.value) == str(direct.value)
    session, inputs = long_run(device, stopped_size(device))
    assert isinstance(session.submit(inputs, timeout=0.02).exception(LIMIT), TimeoutError)


def test_future_cancels_its_run(device):
    size = stopped_size(device)
    session, inputs = long_run(device, size)
    out = bp.empty((size, size), device=device)
    launches = bp.device(device).counters["launch_count"]
    futures = [session.submit(inputs, out={"y": out}), *(session.submit(inputs) for _ in range(9))]
    for future in futures:
        assert future.cancel() and future.cancelled() and future.cancel()
        with pytest.raises(concurrent.futures.CancelledError):
            future.result(LIMIT)
    # They have ended, since `out` may be bound again and what follows them is answered.
    small = {"x": models.shift(3)}
    assert session.submit(small).result(LIMIT)["y"].shape == (3, 3)
    while True:
        try:
            session.submit(inputs, out={"y": out}).cancel()
            break
        except bp.Error as error:
            assert error.status == "BUSY"
    bp.device(device).sync()
    if device == "cpu:0":
        assert bp.device(device).counters["launch_count"] - launches < 8 * COUNT


def test_closed_while_runs_are_pending(device):
    session, inputs = long_run(device)
    futures = [session.submit({"x": models.shift(32)}) for _ in range(4)]
    session.close()
    del session
    wanted = models.shift_power(32, COUNT + 1)
    for future in futures:
        assert (future.result(LIMIT)["y"].numpy() == wanted).all()
    runtime = bp.Runtime()
    session = bp.load(models.powers(COUNT), device=runtime.device(device))
    futures = [session.submit({"x": models.shift(64)}) for _ in range(6)]
    runtime.close()
    for future in futures:
        error = future.exception(LIMIT)
        assert error is None or error.status in ("CANCELLED", "GONE"), error
    assert isinstance(futures[-1].exception(), bp.CancelledError)


def test_a_callback_that_raises_is_told_and_ends_nothing(caplog):
    session = bp.load(models.relu())
    called = threading.Event()

    def fail(future):
        called.set()
        raise ValueError("a callback's own error")

    future = session.submit({"x": [1.0]})
    future.add_done_callback(fail)
    assert called.wait(LIMIT)
    assert session.submit({"x": [2.0]}).result(LIMIT)["y"].tolist() == [2]
    assert "a callback's own error" in caplog.text


@pytest.fixture
def unraisable(monkeypatch):
    """The types of what sys.unraisablehook was told."""
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda args: told.append(args.exc_type))
    return told


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt, GeneratorExit])
def test_a_callback_that_raises_what_ends_threads_ends_nothing(kind, unraisable):
    session, inputs = long_run("cpu:0")
    called = threading.Event()

    def fail(future):
        called.set()
        raise kind()

    future = session.submit(inputs)
    future.add_done_callback(fail)
    beside = session.submit(inputs)
    assert called.wait(LIMIT) and beside.result(LIMIT)["y"].shape == (64, 64)
    assert session.submit({"x": models.shift(3)}).result(LIMIT)["y"].shape == (3, 3)
    assert unraisable == [kind]


def test_a_future_that_somebody_else_settles_ends_nothing(unraisable):
    session, inputs = long_run("cpu:0")
    settled, failed, running, notified = (session.submit(inputs) for _ in range(4))
    settled.set_result(3)
    failed.set_exception(KeyError("mine"))
    assert running.set_running_or_notify_cancel()
    assert notified.cancel() and not notified.set_running_or_notify_cancel()
    assert session.submit({"x": models.shift(3)}).result(LIMIT)["y"].shape == (3, 3)
    assert settled.result(LIMIT) == 3 and isinstance(failed.exception(LIMIT), KeyError)
    expected = models.shift_power(64, COUNT + 1)
    assert (running.result(LIMIT)["y"].numpy() == expected).all()
    assert notified.cancelled() and unraisable == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ended_is_replaced():
    session = bp.load(models.relu())
    assert session.submit({"x": [1.0]}).result(LIMIT)["y"].tolist() == [1]
    [thread] = [t for t in threading.enumerate() if t.name == "backplane-futures"]
    end = ctypes.pythonapi.PyThreadState_SetAsyncExc
    assert end(ctypes.c_ulong(thread.ident), ctypes.py_object(SystemExit)) == 1
    session.submit({"x": [1.0]})  # wakes it
    thread.join(LIMIT)
    assert not thread.is_alive()
    assert session.submit({"x": [2.0]}).result(LIMIT)["y"].tolist() == [2]


class Input:
    """An array that Python code makes while the run starts."""

    def __init__(self, make):
        self.make = make

    def __array__(self, dtype=None, copy=None):
        return self.make()


def test_inputs_may_start_runs_and_wait_for_them():
    """A lock that was held meanwhile would never be given back."""
    session = bp.load(models.relu())

    def inner():
        return session.submit({"x": [1.0, -2.0]}).result(LIMIT)["y"].numpy() + 5

    assert session.submit({"x": Input(inner)}).result(LIMIT)["y"].tolist() == [6, 5]

    async def main():
        return await session.run_async({"x": Input(inner)})

    assert asyncio.run(main())["y"].tolist() == [6, 5]


def test_a_slow_input_holds_up_no_other_run():
    session = bp.load(models.relu())
    begun, go_on, slow = threading.Event(), threading.Event(), []

    def wait():
        begun.set()
        assert go_on.wait(LIMIT)
        return np.full(1, 3, np.float32)

    thread = threading.Thread(target=lambda: slow.append(session.submit({"x": Input(wait)})))
    thread.start()
    assert begun.wait(LIMIT)
    assert session.submit({"x": [1.0]}).result(LIMIT)["y"].tolist() == [1]
    go_on.set()
    thread.join(LIMIT)
    assert slow[0].result(LIMIT)["y"].tolist() == [3]


def test_refused_runs_leave_nothing_behind():
    session = bp.load(models.relu())
    session.submit({"x": [1.0]}).result(LIMIT)
    runs = bp._async._futures._pending._runs
    before = {*runs}
    for _ in range(3):
        with pytest.raises(ValueError, match="stream"):
            session.submit({"x": [1.0]}, stream=bp.device("npu:0").new_stream())
    assert {*runs} <= before


# --- Awaits ----------------------------------------------------------------------------------


def test_run_async(device):
    session = bp.load(models.add(), device=device)
    ones = np.ones(3, np.float32)

    async def main():
        runs = [session.run_async({"a": i * ones, "b": ones}) for i in range(40)]
        found = await asyncio.gather(*runs)
        assert [f["y"].tolist()[0] for f in found] == [i + 1 for i in range(40)]
        y = bp.empty(3, device=device)
        found = await session.run_async({"a": ones, "b": ones}, out={"y": y}, outputs=["y"])
        assert found["y"] is y and y.tolist() == [2, 2, 2]
        wrapped = asyncio.wrap_future(session.submit({"a": ones, "b": ones}))
        assert (await wrapped)["y"].tolist() == [2, 2, 2]

    for _ in range(3):  # a loop of its own each time
        asyncio.run(main())


def test_the_loop_goes_on_meanwhile(device):
    session, inputs = long_run(device)

    async def main():
        steps = 0
        run = asyncio.create_task(session.run_async(inputs))
        while not run.done():
            await asyncio.sleep(0.001)
            steps += 1
        assert ((await run)["y"].numpy() == models.shift_power(64, COUNT + 1)).all()
        return steps

    assert asyncio.run(main()) > 5


def test_task_cancels_its_run(device):
    size = stopped_size(device)
    session, inputs = long_run(device, size)
    out = bp.empty((size, size), device=device)

    async def main():
        for _ in range(3):
            task = asyncio.create_task(session.run_async(inputs, out={"y": out}))
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            # The run has ended: nothing else may bind `out` before that.
            small = bp.load(models.powers(1), device=device)
            found = await small.run_async({"x": inputs["x"]}, out={"y": out})
            assert (found["y"].numpy() == models.shift_power(size, 2)).all()
        with pytest.raises((asyncio.TimeoutError, TimeoutError)):
            await asyncio.wait_for(session.run_async(inputs), 0.02)
        token = bp.Cancel()
        task = asyncio.create_task(session.run_async(inputs, cancel=token))
        await asyncio.sleep(0.01)
        token.request()
        with pytest.raises(bp.CancelledError):
            await task

    asyncio.run(main())


class LoopWithoutReaders(asyncio.SelectorEventLoop):
    """As loops are that watch no descriptors."""

    def add_reader(self, fd, callback, *args):
        raise NotImplementedError


def test_a_loop_that_watches_no_descriptors(device):
    size = stopped_size(device)
    session, inputs = long_run(device, size)
    relu = bp.load(models.relu(), device=device)
    out = bp.empty((size, size), device=device)

    async def main():
        runs = [relu.run_async({"x": [float(i), -1.0]}) for i in range(20)]
        found = await asyncio.gather(*runs)
        assert [f["y"].tolist() for f in found] == [[i, 0] for i in range(20)]
        with pytest.raises(ValueError, match="run_async: .*'z'"):
            await relu.run_async({"z": [1.0]})
        task = asyncio.create_task(session.run_async(inputs, out={"y": out}))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        small = bp.load(models.powers(1), device=device)  # the run has ended: `out` is free
        await small.run_async({"x": inputs["x"]}, out={"y": out})
        assert (out.numpy() == models.shift_power(size, 2)).all()

    loop = LoopWithoutReaders()
    loop.run_until_complete(main())
    loop.close()


def test_loops_come_and_go():
    session = bp.load(models.relu())

    async def main():
        assert (await session.run_async({"x": [1.0]}))["y"].tolist() == [1]

    asyncio.run(main())
    gc.collect()
    before = descriptors()
    for _ in range(30):
        asyncio.run(main())
    gc.collect()
    assert descriptors() <= before + 1


def test_loops_on_threads(device):
    session = bp.load(models.add(), device=device)
    failures = []

    async def work(seed):
        rng = random.Random(seed)
        for _ in range(15):
            i = rng.randrange(100)
            a, b = np.full(4, i, np.float32), np.ones(4, np.float32)
            found = await session.run_async({"a": a, "b": b})
            assert found["y"].tolist() == [i + 1] * 4

    async def main(seed):
        await asyncio.gather(*(work(10 * seed + i) for i in range(4)))

    def run(seed):
        try:
            asyncio.run(main(seed))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not failures and not any(thread.is_alive() for thread in threads)


def test_a_loop_that_ends_first():
    session, inputs = long_run("cpu:0")
    loop = asyncio.new_event_loop()
    task = loop.create_task(session.run_async(inputs))
    loop.run_until_complete(asyncio.sleep(0.01))
    task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    del loop, task
    gc.collect()
    assert session.submit({"x": models.shift(2)}).result(LIMIT)["y"].shape == (2, 2)


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("is_closed", [True, False])
def test_loops_that_end_before_their_runs_are_freed(is_closed):
    session, inputs = long_run("cpu:0", stopped_size("cpu:0"))
    token = bp.Cancel()
    gc.collect()
    before = descriptors()
    loops = []
    for _ in range(10):
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)  # of the task that is destroyed
        task = loop.create_task(session.run_async(inputs, cancel=token))
        loop.run_until_complete(asyncio.sleep(0))
        assert not task.done()
        if is_closed:
            loop.close()
        loops.append(weakref.ref(loop))
        del loop, task
    gc.collect()
    assert [loop() for loop in loops] == [None] * 10
    token.request()
    small = {"x": models.shift(3)}
    for _ in range(1000):  # until the last run let go of its queue
        if descriptors() <= before + 1:
            break
        assert session.submit(small).result(LIMIT)["y"].shape == (3, 3)
    assert descriptors() <= before + 1


# --- Processes -------------------------------------------------------------------------------

START = f"""
import asyncio, os, sys, threading, time
import backplane as bp
session = bp.load(PATH, device=DEVICE)
x = bp.asarray({models.SHIFT.format(size=64)}, device=DEVICE)
"""


def run_program(folder, device, code):
    path = folder / "powers.onnx"
    path.write_bytes(models.powers(COUNT))
    return python(f"DEVICE, PATH = {device!r}, {str(path)!r}\n{START}{code}")

ENDS = {
    "futures": "keep = [session.submit({'x': x}) for _ in range(20)]\n",
    "forgotten": "for _ in range(20): session.submit({'x': x})\n",
    "exit": "keep = [session.submit({'x': x}) for _ in range(20)]; sys.exit(0)\n",
    "callbacks": "for _ in range(20):\n"
    "    session.submit({'x': x}).add_done_callback(lambda f: f.cancelled() or f.exception())\n",
    "loop": "loop = asyncio.new_event_loop()\n"
    "async def run():\n"
    "    tasks = [asyncio.ensure_future(session.run_async({'x': x})) for _ in range(9)]\n"
    "    await asyncio.sleep(0.01)\n"
    "    for task in tasks: task.cancel()\n"
    "    await asyncio.gather(*tasks, return_exceptions=True)\n"
    "loop.run_until_complete(run())\n"
    "session.submit({'x': x})\n",
    "daemons": "def work():\n"
    "    while True: session.run({'x': x}, outputs=[])\n"
    "for _ in range(3): threading.Thread(target=work, daemon=True).start()\n"
    "def wait(): session.submit({'x': x}).result()\n"
    "threading.Thread(target=wait, daemon=True).start()\n"
    "time.sleep(0.05)\n",
}


@pytest.mark.parametrize("end", ENDS)
def test_exit_with_work_pending_is_quiet(end, tmp_path):
    for _ in range(2 if end == "daemons" else 1):
        assert run_program(tmp_path, "cpu:0", ENDS[end]) == (0, "", "")


@pytest.mark.parametrize("end", ["futures", "loop", "daemons"])
def test_exit_of_a_queued_device(end, tmp_path):
    assert run_program(tmp_path, "npu:0", ENDS[end]) == (0, "", "")


def test_fork_gives_a_clear_error(tmp_path):
    code, out, err = run_program(
        tmp_path,
        "cpu:0",
        "small = {'x': [[1.0, 0.0], [0.0, 1.0]]}\n"
        "session.submit(small).result(60); keep = session.submit({'x': x})\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    seen = set()\n"
        "    for call in (lambda: session(x), lambda: session.submit(small),\n"
        "                 lambda: asyncio.run(session.run_async(small)), lambda: bp.Cancel(),\n"
        "                 lambda: bp.load(PATH), lambda: session.placement,\n"
        "                 lambda: bp.device('cpu:0').new_stream()):\n"
        "        try: call(); seen.add('no error')\n"
        "        except bp.Error as error: seen.add(error.status)\n"
        "    print(seen, flush=True)\n"
        "    session.close()\n"
        "    sys.exit(0)\n"
        "_, status = os.waitpid(pid, 0)\n"
        "print(status, session.submit(small).result(60)['y'].shape)\n",
    )
    assert (code, out, err) == (0, "{'FORKED'}\n0 (2, 2)\n", "")
