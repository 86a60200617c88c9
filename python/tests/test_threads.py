# SPDX-License-Identifier: Apache-2.0
"""Many threads with random calls on the same tensors. PYTHON_TEST_SECONDS says for how long."""

import os
import pickle
import random
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import backplane as bp
import onnx_models as models

SECONDS = float(os.environ.get("PYTHON_TEST_SECONDS", "3"))
THREADS = 32
VALUES = np.arange(64.0, dtype=np.float32).reshape(8, 8)

# Each takes the tensor that all share, whose values are VALUES and never change, one of its device
# that all write to, and random numbers; each looks at what it can know.
CALLS = {}


def call(function):
    CALLS[function.__name__] = function
    return function


@call
def operators(x, scratch, rng):
    n = rng.randrange(1, 5)
    assert ((x - x) + n).tolist() == [[n] * 8] * 8
    assert ((x * n) / n == x).numpy().all() and (-x).numpy().min() == -63
    assert (x @ x.T).shape == (8, 8) and bool((x == x)[n, n]) and not bool((x != x)[0, n])
    with pytest.raises(TypeError):
        x + "a"


@call
def views(x, scratch, rng):
    i, step = rng.randrange(8), rng.choice([-3, -1, 1, 2])
    assert x[i].tolist() == VALUES[i].tolist()
    assert x.T[::step, i].tolist() == VALUES.T[::step, i].tolist()
    assert x[..., None, i].mT.shape == (1, 8) and len([*x]) == len(x) == 8
    with pytest.raises(IndexError):
        x[8 + i]


@call
def values(x, scratch, rng):
    i, j = rng.randrange(8), rng.randrange(8)
    assert x[i, j].item() == float(x[i, j]) == VALUES[i, j] and x.tolist() == VALUES.tolist()
    assert complex(x[i, j]) == VALUES[i, j] and int(x[i, j]) == VALUES[i, j]
    assert repr(x).startswith("tensor([[ 0.") and str(x.dtype) == "float32"
    assert (x.size, x.ndim, x.nbytes, x.strides) == (64, 2, 256, (8, 1)) and hash(x) == hash(x)


@call
def writes(x, scratch, rng):
    scratch[rng.randrange(8)] = rng.random()
    scratch += 1
    scratch[:, rng.randrange(8)] = VALUES[0]
    mine = x.copy()
    mine[::2] = x[1::2]
    mine *= 2
    assert mine.tolist() == (np.repeat(VALUES[1::2], 2, axis=0) * 2).tolist()


@call
def arrays(x, scratch, rng):
    assert np.asarray(x).sum() == 2016 and x.numpy(copy=True)[0, 1] == 1
    assert bp.asarray(VALUES, device=x.device).tolist() == VALUES.tolist()
    assert bp.asarray([[1, 2], [3, 4]], device=x.device).tolist() == [[1, 2], [3, 4]]
    lent = bp.asarray(np.arange(100.0))
    assert (lent + lent)[99].item() == 198 and lent[5:].numpy()[0] == 5


@call
def dlpack(x, scratch, rng):
    assert np.from_dlpack(bp.from_dlpack(np.arange(9))).sum() == 36
    assert np.from_dlpack(x, device="cpu").sum() == 2016
    capsule = x.__dlpack__(dl_device=(1, 0), max_version=rng.choice([None, (0, 8), (1, 0)]))
    del capsule


@call
def devices(x, scratch, rng):
    other = rng.choice(bp.devices())
    assert x.to_device(other).tolist() == VALUES.tolist()
    assert x.device.memory_used >= 0 and x.device.counters["launch_count"] >= 0
    x.device.sync()
    assert bp.full((3,), 7, device=other).astype("int8").tolist() == [7, 7, 7]
    with pytest.raises(bp.Error):
        bp.device("none:0")


def test_random_calls_of_many_threads():
    shared = [bp.asarray(VALUES, device=d, copy=True) for d in bp.devices()]
    scratch = [x.copy() for x in shared]
    made = [0] * THREADS
    failures = []
    end = time.monotonic() + SECONDS

    def work(seed):
        rng = random.Random(seed)
        try:
            while time.monotonic() < end or made[seed] < 10:
                i = rng.randrange(len(shared))
                CALLS[rng.choice([*CALLS])](shared[i], scratch[i], rng)
                made[seed] += 1
        except BaseException as error:
            failures.append((seed, made[seed], error))
            raise

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS + 300)
    assert not failures and not any(thread.is_alive() for thread in threads)
    for x, y in zip(shared, scratch):
        assert x.tolist() == VALUES.tolist() and np.isfinite(y.numpy()).all()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
def test_fork_beside_busy_threads():
    """The child answers FORKED at once, whatever its parent's other threads were doing."""
    code = """
import os, sys, threading, time
import backplane as bp
shared = [bp.ones((64, 64), device=d) for d in bp.devices()]
end = time.monotonic() + 3600
def work(x):
    while time.monotonic() < end: (x @ x * 0.01).tolist(); x.device.sync()
for x in shared * 2: threading.Thread(target=work, args=(x,)).start()
for round in range(8):
    pid = os.fork()
    if pid == 0:
        seen = set()
        for x in shared:
            for call in (lambda: x + x, lambda: x.tolist(), lambda: x.device.sync(), lambda: x[0],
                         lambda: bp.ones(2), bp.Runtime, lambda: x.numpy(), bp.devices):
                try: seen.add(str(call()))
                except bp.Error as error: seen.add(error.status)
        print(*seen, x.shape, flush=True)
        os._exit(0)
    for _ in range(600):
        done, status = os.waitpid(pid, os.WNOHANG)
        if done: break
        time.sleep(0.1)
    else:
        os.kill(pid, 9); status = "the child hangs"
    print(status, flush=True)
end = 0
"""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "BACKPLANE_LOG": "error"},
    )
    expected = "FORKED (64, 64)\n0\n" * 8
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")


def test_close_beside_random_calls():
    for _ in range(3):
        runtime = bp.Runtime()
        tensors = [bp.asarray(VALUES, device=d, copy=True) for d in runtime.devices()]
        ends = []

        def work(seed):
            rng = random.Random(seed)
            try:
                while True:
                    x = rng.choice(tensors)
                    CALLS[rng.choice(["operators", "views", "arrays"])](x, x, rng)
            except bp.Error as error:
                ends.append(error.status)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(0.05)
        runtime.close()
        for thread in threads:
            thread.join(100)
        assert len(ends) == 8 and set(ends) <= {"GONE", "CANCELLED"}, ends


# What copies between the host and a device that has a queue: each takes a small tensor of it, and
# waits until the queue is empty.
SMALL = np.ones(4, np.float32)
COPIES = {
    "array": lambda x: bp.asarray(SMALL, device=x.device),
    "list": lambda x: bp.asarray([1.0, 2.0], device=x.device),
    "dlpack": lambda x: bp.from_dlpack(SMALL, device=x.device),
    "assignment": lambda x: x.__setitem__(slice(0, 2), [1.0, 1.0]),
    "index": lambda x: x[[1, 2]],
}


def ran_beside(call):
    """Whether another thread ran during the call. Python itself takes the GIL from no thread."""
    steps, is_over = [0], threading.Event()

    def count():
        while not is_over.is_set():
            steps[0] += 1
            time.sleep(0.0002)

    counter = threading.Thread(target=count)
    counter.start()
    before = steps[0]
    call()
    after = steps[0]
    is_over.set()
    counter.join(60)
    return after > before


@pytest.fixture
def no_switches():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    yield
    sys.setswitchinterval(interval)


OUTER = {  # a small column and a small row make a large matrix
    "operator": lambda column, row: column + row,
    "comparison": lambda column, row: column < row,
    "ops": lambda column, row: bp.ops.add(row, column),
    "third input": lambda column, row: bp.ops.where(column < 2, column[:1], row),
}


@pytest.mark.parametrize("call", OUTER.values(), ids=OUTER)
def test_large_results_of_small_inputs_come_without_the_gil(call, no_switches):
    column, row = bp.ones((4000, 1)), bp.ones((1, 4000))
    assert any(ran_beside(lambda: call(column, row)) for _ in range(5))


def test_large_casts_come_without_the_gil(no_switches):
    x = bp.ones(8_000_000)
    for call in (lambda: x.astype("float64"), lambda: x + bp.ones((), dtype="float64")):
        assert any(ran_beside(call) for _ in range(5))


# Small calls that wait for what a stream writes, where the host itself waits.
AFTER_STREAMS = {
    "item": lambda y: y[0, 0].item(),
    "numpy": lambda y: y[0, :3].numpy(),
    "dlpack": lambda y: np.from_dlpack(y[0, :3]),
    "operator": lambda y: y[0, :3] + 1,
    "ops": lambda y: bp.ops.softmax(y[0, :3]),
    "cast": lambda y: y[0, :3].astype("float64"),
    "copy": lambda y: y[0, :3].copy(),
    "in place": lambda y: y[0, :3].__iadd__(1),
    "assignment": lambda y: y[0].__setitem__(0, 5.0),
    "mask": lambda y: y[0, :3][y[0, :3] > 0],
    "index": lambda y: y[[0], [1]],
    "put": lambda y: y[0].__setitem__([0, 1], 5.0),
    "release": lambda y: OPERANDS.clear(),
}
OPERANDS = []  # what the stream uses that is not its own


@pytest.mark.parametrize("call", AFTER_STREAMS.values(), ids=AFTER_STREAMS)
def test_small_calls_wait_for_streams_without_the_gil(call, no_switches):
    large, stream = bp.ones((400, 400)), bp.device("cpu:0").new_stream()

    def try_once():
        OPERANDS.append(bp.ones((400, 400)))
        with stream:
            y = large
            for _ in range(20):
                y = y @ large * 0.0025
            y = y @ OPERANDS[-1]
        return ran_beside(lambda: call(y))

    assert any([try_once() for _ in range(5)])
    OPERANDS.clear()


@pytest.mark.parametrize("name", [*COPIES, "loads", "submit", "read"])
@pytest.mark.parametrize("device", [d.name for d in bp.devices() if d.name != "cpu:0"])
def test_small_copies_wait_without_the_gil(device, name, no_switches):
    place = bp.device(device)
    x, large = bp.asarray(SMALL, device=device), bp.ones((400, 400), device=device)
    session = bp.load(models.mlp(), device=device)
    rows = np.ones((2, 8), np.float32)
    session.submit({"x": rows}).result(60)
    pickled = pickle.dumps(x)
    calls = {
        **{key: lambda key=key: COPIES[key](x) for key in COPIES},
        "loads": lambda: pickle.loads(pickled),
        "submit": lambda: session.submit({"x": rows}),
        "read": lambda: products[-1][0, :4].tolist(),
    }
    found, products = [], []

    def try_once():
        product = large
        for _ in range(6):
            product = product @ large
        products.append(product)
        found.append(ran_beside(calls[name]))

    def work():  # on the main thread reading is another way, which looks for signals
        for _ in range(5):
            try_once()
            place.sync()
            if found[-1]:
                return

    worker = threading.Thread(target=work)
    worker.start()
    worker.join(60)
    assert any(found), (name, found)
    assert x.tolist() == [1, 1, 1, 1]
