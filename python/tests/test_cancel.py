# SPDX-License-Identifier: Apache-2.0
import random
import signal
import threading
import time

import pytest

import backplane as bp
import onnx_models as models
from test_runtime import python

COUNT = 3000  # operators: a run takes long, unless it is stopped
SIZES = {"cpu:0": 256}  # a queued device has many operators in its queue by the time it is told
LIMIT = 60  # seconds for what takes less than one; it says that nothing hangs


def long_session(device):
    return bp.load(models.powers(COUNT), device=device)


def call_soon(call, seconds=0.03):
    thread = threading.Thread(target=lambda: (time.sleep(seconds), call()))
    thread.start()
    return thread


def off_main(call):
    """What a call answers or raises on another thread."""
    ends = []

    def work():
        try:
            ends.append(call())
        except Exception as error:
            ends.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(LIMIT)
    assert ends, "the call hangs"
    return ends[0]


@pytest.mark.parametrize("on", ["main", "other"])
def test_cancel_ends_a_run(device, on):
    session = long_session(device)
    cancel = bp.Cancel()
    x = bp.asarray(models.shift(SIZES.get(device, 64)), device=device)
    for _ in range(2):
        thread = call_soon(cancel.request)
        call = lambda: session.run({"x": x}, cancel=cancel)
        if on == "main":
            with pytest.raises(bp.CancelledError) as caught:
                call()
            error = caught.value
        else:
            error = off_main(call)
        assert isinstance(error, bp.CancelledError) and error.status == "CANCELLED"
        assert error.op is None
        thread.join()
        with pytest.raises(bp.CancelledError):  # later runs too
            session.run({"x": x}, cancel=cancel)
        cancel.reset()
    small = models.shift(3)
    assert (session(small).numpy() == models.shift_power(3, COUNT + 1)).all()
    found = session.run({"x": small}, cancel=cancel)["y"]
    assert (found.numpy() == models.shift_power(3, COUNT + 1)).all()


def test_reset_leaves_those_that_began(device):
    """A run that began before the reset ends, also one that waits for its turn."""
    session = long_session(device)
    x = bp.asarray(models.shift(SIZES.get(device, 64)), device=device)
    cancel = bp.Cancel()
    runs = [session.submit({"x": x}, cancel=cancel) for _ in range(8)]
    cancel.request()
    cancel.reset()
    after = session.submit({"x": models.shift(2)}, cancel=cancel)
    for run in runs:  # a slow machine may have answered the first before the request
        assert isinstance(run.exception(LIMIT), (bp.CancelledError, type(None)))
    assert isinstance(runs[-1].exception(), bp.CancelledError)
    assert (after.result(LIMIT)["y"].numpy() == models.shift_power(2, COUNT + 1)).all()


@pytest.mark.parametrize("on", ["main", "other"])
def test_timeout(device, on):
    session = long_session(device)
    x = bp.asarray(models.shift(SIZES.get(device, 64)), device=device)
    call = lambda: session.run({"x": x}, timeout=0.02)
    if on == "main":
        with pytest.raises(TimeoutError) as caught:
            call()
        error = caught.value
    else:
        error = off_main(call)
    assert isinstance(error, bp.TimedOutError) and error.status == "TIMEOUT"
    small = models.shift(3)
    found = session.run({"x": small}, timeout=LIMIT)["y"]
    assert (found.numpy() == models.shift_power(3, COUNT + 1)).all()


def test_random_cancels(device):
    session = bp.load(models.powers(300), device=device)
    wanted = models.shift_power(8, 301)
    x = bp.asarray(models.shift(8), device=device)
    tokens = [bp.Cancel() for _ in range(3)]
    counts = {"answered": 0, "cancelled": 0}
    failures = []
    stop = threading.Event()

    def has_both_or_late(begun):
        return all(counts.values()) or time.monotonic() > begun + LIMIT

    def work(seed):
        rng = random.Random(seed)
        begun = time.monotonic()
        runs = 0
        try:
            while runs < 15 or not has_both_or_late(begun):
                runs += 1
                token = rng.choice(tokens)
                try:
                    if rng.random() < 0.5:
                        found = session.run({"x": x}, cancel=token)
                    else:
                        found = session.submit({"x": x}, cancel=token).result(LIMIT)
                    assert (found["y"].numpy() == wanted).all()
                    counts["answered"] += 1
                except bp.CancelledError:
                    counts["cancelled"] += 1
        except BaseException as error:
            failures.append(error)

    def interfere():
        rng = random.Random(9)
        # A slow device would answer none in the gaps between the requests.
        while not counts["answered"] and not stop.is_set():
            time.sleep(0.001)
        while not stop.is_set():
            token = rng.choice(tokens)
            token.request()
            time.sleep(rng.random() * 0.002)
            token.reset()
            time.sleep(rng.random() * 0.01)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    meddler = threading.Thread(target=interfere)
    for thread in [*threads, meddler]:
        thread.start()
    for thread in threads:
        thread.join(100)
    stop.set()
    meddler.join()
    assert not failures and not any(thread.is_alive() for thread in threads)
    assert sum(counts.values()) >= 8 * 15 and all(counts.values()), counts


def test_token_refuses():
    with pytest.raises(TypeError):
        bp.Cancel(1)
    cancel = bp.Cancel()
    assert repr(cancel) == "<backplane.Cancel: not requested>"
    cancel.request()
    assert repr(cancel) == "<backplane.Cancel: requested>"
    cancel.reset()
    assert repr(cancel) == "<backplane.Cancel: not requested>"
    cancel.reset()  # without a request it does nothing
    session = bp.load(models.relu())
    assert session.run({"x": [1.0]}, cancel=cancel)["y"].tolist() == [1]
    with pytest.raises(TypeError, match="'cancel': expected a Cancel"):
        session.run({"x": [1.0]}, cancel=bp.Cancel.__new__(bp.Cancel))


# --- Ctrl-C ----------------------------------------------------------------------------------

INTERRUPT = f"""
import os, signal, threading
import backplane as bp
device = bp.device(DEVICE)
session = bp.load(PATH, device=device)
x = bp.asarray({models.SHIFT.format(size='SIZE')}, device=device)
small = bp.asarray([[1.0]], device=device)

def send(number, seconds=0.05):
    threading.Timer(seconds, os.kill, (os.getpid(), number)).start()

def expect_interrupt(call):
    send(signal.SIGINT)
    before = device.counters["launch_count"]
    try:
        call()
    except KeyboardInterrupt:  # where nothing is queued, before all was launched
        is_early = device.counters["launch_count"] - before < COUNT
        print("interrupted:", is_early or device.name != "cpu:0")
    else:
        print("no KeyboardInterrupt")
"""


def run_interrupted(folder, device, code):
    """The model takes seconds, unless it is stopped. What is in a queue still runs."""
    count, size = (4000, 512) if device == "cpu:0" else (600, 128)
    path = folder / "powers.onnx"
    path.write_bytes(models.powers(count))
    names = f"DEVICE, PATH, COUNT, SIZE = {device!r}, {str(path)!r}, {count}, {size}\n"
    return python(names + INTERRUPT + code)


def test_interrupt_ends_a_run(device, tmp_path):
    code, out, err = run_interrupted(
        tmp_path,
        device,
        "expect_interrupt(lambda: session(x))\n"
        "expect_interrupt(lambda: session.run({'x': x}, timeout=500))\n"
        "token = bp.Cancel()\n"
        "expect_interrupt(lambda: session.run({'x': x}, cancel=token))\n"
        "print(session.run({'x': small}, cancel=token)['y'].tolist())\n",
    )
    assert (code, out, err) == (0, "interrupted: True\n" * 3 + "[[1.0]]\n", "")


def test_handlers_run_meanwhile(tmp_path):
    """One that raises nothing does not end the run."""
    code, out, err = run_interrupted(
        tmp_path,
        "cpu:0",
        "seen = []\n"
        "signal.signal(signal.SIGUSR1, lambda *_: seen.append(1))\n"
        "send(signal.SIGUSR1)\n"
        "try: session.run({'x': x}, timeout=0.3)\n"
        "except TimeoutError: print(seen)\n",
    )
    assert (code, out, err) == (0, "[1]\n", "")


def test_interrupt_ends_waits(tmp_path):
    """The device is still busy afterwards."""
    code, out, err = run_interrupted(
        tmp_path,
        "npu:0",
        "stream = device.new_stream()\n"
        "def fill(count):\n"
        "    y = x\n"
        "    for _ in range(count): y = y @ x\n"
        "    return y\n"
        "with stream: fill(800)\n"
        "expect_interrupt(stream.sync)\n"
        "print(stream.query())\n"
        "fill(800)\n"
        "expect_interrupt(device.sync)\n"
        "print(bp.current_stream(device).query())\n"
        "y = fill(800)\n"
        "expect_interrupt(y.tolist)\n"
        "print(bp.current_stream(device).query())\n",
    )
    assert (code, out, err) == (0, "interrupted: True\nFalse\n" * 3, "")


def test_interrupt_ends_reading_what_a_stream_makes(device, tmp_path):
    """On the host's device too, where numpy() and DLPack wait and copy nothing."""
    code, out, err = run_interrupted(
        tmp_path,
        device,
        "other = bp.device('npu:0' if device.name == 'cpu:0' else 'cpu:0')\n"
        "large, stream = bp.ones((700, 700), device=device), device.new_stream()\n"
        "with stream:\n"
        "    for _ in range(300): y = large @ large\n"
        "expect_interrupt(y.tolist)\n"
        "expect_interrupt(y.numpy)\n"
        "expect_interrupt(y[0, 0].item)\n"
        "expect_interrupt(lambda: y.to_device(other))\n"
        "expect_interrupt(lambda: y.__dlpack__(dl_device=(1, 0)))\n"
        "print(stream.query(), flush=True)\n"
        "os._exit(0)\n",
    )
    assert (code, out, err) == (0, "interrupted: True\n" * 5 + "False\n", "")


def test_interrupt_ends_the_program(tmp_path):
    code, out, err = run_interrupted(
        tmp_path, "cpu:0", "send(signal.SIGINT); session(x); print('not reached')\n"
    )
    assert (code, out) == (-signal.SIGINT, "") and err.rstrip().endswith("KeyboardInterrupt"), err
    assert "terminate" not in err and "Fatal" not in err


def test_interrupt_between_short_runs(tmp_path):
    """These are not watched, since the first ones took no time."""
    code, out, err = run_interrupted(
        tmp_path,
        "cpu:0",
        "def loop():\n"
        "    while True: session(small)\n"
        "send(signal.SIGINT)\n"
        "try: loop()\n"
        "except KeyboardInterrupt: print('interrupted')\n",
    )
    assert (code, out, err) == (0, "interrupted\n", "")
