# SPDX-License-Identifier: Apache-2.0
import gc
import random
import threading

import numpy as np
import pytest

import backplane as bp
import onnx_models as models


def square(device, size=128):
    return bp.asarray(models.shift(size), device=device)


def keep_busy(stream, x, count=300):
    """Work that takes a while, and what it makes."""
    with stream:
        y = x
        for _ in range(count):
            y = y @ x
    return y


def seen_busy(try_once):
    """Whether the stream was seen at work in one of some tries: the machine may be slow to look."""
    return any(try_once() for _ in range(10))


def test_operators_go_to_the_current_stream(device):
    x = square(device)
    stream = bp.device(device).new_stream()
    assert stream.query() and "idle" in repr(stream) and device in repr(stream)
    assert stream.device == bp.device(device)
    y = keep_busy(stream, x)
    stream.sync()

    def try_once():
        keep_busy(stream, x)
        return not stream.query() and "busy" in repr(stream)

    assert seen_busy(try_once)
    stream.sync()
    assert stream.query()
    assert (y.numpy() == models.shift_power(128, 301)).all()


def test_nothing_is_read_beside_busy_streams(device):
    """Of no elements there are no bytes to copy: the sanitizers watch."""
    x = square(device)
    stream, empty = bp.device(device).new_stream(), bp.zeros((0, 3), device=device)

    def try_once():
        keep_busy(stream, x)
        assert empty.tolist() == [] and empty.T.tolist() == [[], [], []]
        return not stream.query()

    assert seen_busy(try_once)


def test_assignments_go_there_too(device):
    x = square(device)
    stream = bp.device(device).new_stream()

    def try_once():
        y = keep_busy(stream, x, 200)
        with stream:
            y[:, 1] = x[:, 0]
            bp.ops.add(y.astype("float64"), y.astype("float64"))
            return not stream.query()

    assert seen_busy(try_once)
    y = keep_busy(stream, x, 40)
    with stream:
        y[:, 1] = x[:, 0]
        summed = bp.ops.add(y.astype("float64"), y.astype("float64"))
        y[0] = 5
        y += 1
        z = bp.full((128, 128), 3.0, device=device)
        copied = y.copy() + z
    wanted = models.shift_power(128, 41)
    wanted[:, 1] = models.shift(128)[:, 0]
    assert (summed.numpy() == 2 * wanted).all()
    wanted[0] = 5
    wanted += 1
    assert (y.numpy() == wanted).all() and (copied.numpy() == wanted + 3).all()


def test_runs_go_there_too(device):
    session = bp.load(models.powers(100), device=device)
    x = square(device)
    session(x)
    wanted = models.shift_power(128, 101)
    stream = bp.device(device).new_stream()
    with stream:
        inside = session(x)
    named = session.run({"x": x}, stream=stream)["y"]
    later = session.submit({"x": x}, stream=stream)
    assert (inside.numpy() == wanted).all() and (named.numpy() == wanted).all()
    assert (later.result(60)["y"].numpy() == wanted).all()
    stream.sync()
    other = next(d for d in bp.devices() if d.name != device)
    with pytest.raises(ValueError, match="stream"):
        session.run({"x": x}, stream=other.new_stream())
    with other.new_stream():  # it is of another device: the run does not care
        assert (session(x).numpy() == wanted).all()


def test_current_stream(device):
    place = bp.device(device)
    default = bp.current_stream(place)
    assert default.query() and default.device == place
    first, second = place.new_stream(), place.new_stream()
    with first as entered:
        assert entered is first and bp.current_stream(place) is first
        with second:
            assert bp.current_stream(device) is second
            with first:
                assert bp.current_stream(place) is first
            assert bp.current_stream(place) is second
            elsewhere = []
            thread = threading.Thread(target=lambda: elsewhere.append(bp.current_stream(place)))
            thread.start()
            thread.join()
            assert elsewhere[0] is not second  # per thread
        assert bp.current_stream(place) is first
    assert bp.current_stream(place) is not first
    with pytest.raises(KeyError):
        with first:
            raise KeyError
    assert bp.current_stream(place) is not first
    with pytest.raises(RuntimeError, match="not current on this thread"):
        first.__exit__(None, None, None)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # in another order, as generators may
    assert bp.current_stream(place) is second
    second.__exit__(None, None, None)


def test_equality(device):
    stream, other = bp.device(device).new_stream(), bp.device(device).new_stream()
    assert stream == stream and stream != other and stream != bp.current_stream(device)
    assert bp.current_stream(device) == bp.current_stream(device)
    assert bp.current_stream("cpu:0") != bp.current_stream("npu:0") and stream != 1
    assert len({stream, other, bp.current_stream(device), bp.current_stream(device)}) == 3
    with stream:
        assert bp.current_stream(device) is stream


def test_one_per_device():
    streams = {d.name: d.new_stream() for d in bp.devices()}
    names = list(streams)
    with streams[names[0]], streams[names[1]]:
        for name in names[:2]:
            assert bp.current_stream(name) is streams[name]
            assert (square(name) @ square(name)).numpy().sum() == 128


def test_random_work_on_streams(device):
    """Tensors put the work of all streams in order."""
    rng = random.Random(4)
    streams = [bp.device(device).new_stream() for _ in range(3)]
    tensors = [bp.asarray(np.full((16, 16), i, np.float32), device=device) for i in range(4)]
    wanted = [np.full((16, 16), i, np.float32) for i in range(4)]
    for _ in range(300):
        a, b, c = (rng.randrange(4) for _ in range(3))
        with rng.choice(streams):
            if rng.random() < 0.5:
                tensors[a] = tensors[b] - tensors[c] * 0.5
                wanted[a] = wanted[b] - wanted[c] * 0.5
            else:
                row = rng.randrange(16)
                tensors[a][row] = tensors[b][row]
                tensors[a] *= 0.5
                wanted[a][row] = wanted[b][row]
                wanted[a] *= 0.5
                wanted[a] = wanted[a].copy()
    for found, value in zip(tensors, wanted):
        assert (found.numpy() == value).all()


def test_native_handle(device):
    place = bp.device(device)
    stream = place.new_stream()
    if place.features["native_streams"] == "absent":
        for call in (
            lambda: stream.native_handle,
            lambda: bp.Stream.wrap(place, ("acme.queue", 1)),
        ):
            with pytest.raises(NotImplementedError):
                call()
        return
    kind, handle = stream.native_handle
    assert isinstance(kind, str) and "." in kind and handle != 0
    wrapped = bp.Stream.wrap(place, stream.native_handle)
    assert wrapped.native_handle == (kind, handle) and wrapped.device == place
    x = square(device)
    y = keep_busy(wrapped, x, 50)
    wrapped.sync()
    assert wrapped.query() and (y.numpy() == models.shift_power(128, 51)).all()
    with pytest.raises(NotImplementedError, match="wrapped"):
        wrapped.reset()
    with pytest.raises(NotImplementedError, match="acme.queue"):
        bp.Stream.wrap(device, ("acme.queue", handle))
    del wrapped
    assert keep_busy(stream, x, 3).numpy().sum() == 128  # the queue is left as it was


def test_acquire_and_release(device):
    stream = bp.device(device).new_stream()
    x = square(device)
    for write in (False, True):
        stream.acquire(x, write=write)
        stream.release(x, write=write)
    assert (x @ x).numpy().sum() == 128
    other = next(d for d in bp.devices() if d.name != device)
    with pytest.raises(ValueError):
        stream.acquire(bp.ones(3, device=other))
    if device == "cpu:0":
        array = np.ones(3, np.float32)
        array.flags.writeable = False
        with pytest.raises(ValueError, match="read-only"):
            stream.acquire(bp.asarray(array, copy=False), write=True)


def test_it_refuses(device):
    place = bp.device(device)
    with pytest.raises(TypeError):
        bp.Stream()
    for pair in (3, "a", (1, 2), ("a",), ("a", 1.5), ["a", 1]):
        with pytest.raises(TypeError, match="'native_handle': expected a tuple"):
            bp.Stream.wrap(place, pair)
    with pytest.raises(OverflowError):
        bp.Stream.wrap(place, ("a.b", -1))
    with pytest.raises(TypeError, match="'device'"):
        bp.current_stream(3)
    for method in (bp.Stream.__enter__, bp.Stream.sync, bp.Stream.query):
        with pytest.raises(TypeError):
            method(place)
    stream = place.new_stream()
    with pytest.raises(TypeError):
        stream.acquire(3)


def test_closed_runtime(device):
    runtime = bp.Runtime()
    place = runtime.device(device)
    x = bp.asarray(models.shift(8), device=place)
    stream = place.new_stream()
    with stream:
        y = x @ x
        runtime.close()
        with pytest.raises(bp.Error, match="closed"):
            y @ x
    assert "closed" in repr(stream)
    for call in (
        stream.sync,
        stream.query,
        stream.reset,
        stream.__enter__,
        lambda: stream.native_handle,
        lambda: stream.acquire(x),
        lambda: stream.release(x),
        place.new_stream,
        lambda: bp.current_stream(place),
    ):
        with pytest.raises(bp.Error) as caught:
            call()
        assert caught.value.status == "GONE"
    del stream, x, y
    gc.collect()


def test_a_stream_that_is_let_go_finishes_its_work(device):
    x = square(device)
    y = keep_busy(bp.device(device).new_stream(), x, 100)
    gc.collect()
    assert (y.numpy() == models.shift_power(128, 101)).all()
