# SPDX-License-Identifier: Apache-2.0
import copy
import errno
import gc
import os
import pathlib
import pickle
import sys
import threading
import time

import numpy as np
import onnx
import onnxruntime
import pytest

import backplane as bp
import onnx_models as models
from test_runtime import python

X = np.random.default_rng(1).standard_normal((3, 8)).astype(np.float32)


def expected(model, **inputs):
    """What ONNX Runtime answers, by name."""
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs)))


def check(found, wanted):
    np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)


def test_answers(device, tmp_path):
    model = models.mlp()
    path = tmp_path / "mlp.onnx"
    path.write_bytes(model)
    wanted = expected(model, x=X)
    for given in (path, str(path), model, bytearray(model), memoryview(model)):
        session = bp.load(given, device=device)
        for x in (X, bp.asarray(X, device=device), X.tolist(), bp.asarray(X)):
            y, hidden = session(x)
            check(y, wanted["y"])
            check(hidden, wanted["hidden"])
            assert y.device == bp.device(device) and y.dtype is bp.float32
            found = session.run({"x": x})
            assert list(found) == ["y", "hidden"]
            check(found["y"], wanted["y"])
    one = bp.load(models.relu(), device=device)
    assert one(np.array([-1, 2], np.float32)).tolist() == [0, 2]
    assert one([-1, 2, 3]).tolist() == [0, 2, 3]


def test_inputs_of_any_layout(device):
    session = bp.load(models.add(), device=device)
    a = np.arange(12, dtype=np.float32)[::-2]
    b = np.arange(6, dtype=np.float32)
    b.flags.writeable = False
    assert session(a, b).tolist() == (a + b).tolist()
    assert session.run({"b": b, "a": a})["y"].tolist() == (a + b).tolist()
    assert session.run({"b": 2.0 * b, "a": list(range(6))})["y"].tolist() == [0, 3, 6, 9, 12, 15]
    assert session(np.ones(0, np.float32), []).shape == (0,)
    rows = [a[0], bp.asarray(a[1]), 7]
    assert session(rows, [1, 2, 3]).tolist() == [a[0] + 1, a[1] + 2, 10]


def test_no_copy_on_the_host():
    session = bp.load(models.relu(), device="cpu:0")
    array = np.arange(-4.0, 4.0, dtype=np.float32)
    session(array)
    before = bp.device("cpu:0").counters
    session(array)
    after = bp.device("cpu:0").counters
    assert after["copy_in_count"] == before["copy_in_count"]
    assert after["launch_count"] == before["launch_count"] + 1


def test_outputs_are_chosen_and_bound(device):
    model = models.mlp()
    session = bp.load(model, device=device)
    wanted = expected(model, x=X)
    assert list(session.run({"x": X}, outputs=["hidden"])) == ["hidden"]
    assert list(session.run({"x": X}, outputs=("hidden", "y"))) == ["hidden", "y"]
    assert session.run({"x": X}, outputs=[]) == {}
    y = bp.empty((3, 5), device=device)
    hidden = bp.empty((3, 16), device=device)
    found = session.run({"x": X}, out={"y": y})
    assert found["y"] is y and found["hidden"] is not hidden
    check(y, wanted["y"])
    found = session.run({"x": 2 * X}, out={"y": y, "hidden": hidden}, outputs=["hidden"])
    assert list(found) == ["hidden"] and found["hidden"] is hidden
    check(y, expected(model, x=2 * X)["y"])
    if device == "cpu:0":  # memory of NumPy's
        array = np.zeros((3, 5), np.float32)
        session.run({"x": X}, out={"y": bp.asarray(array, copy=False)})
        np.testing.assert_allclose(array, wanted["y"], rtol=1e-4, atol=1e-5)


def test_what_it_tells(device):
    session = bp.load(models.mlp(), device=device)
    (x,) = session.inputs
    assert (x.name, x.shape, x.dtype, x.has_default) == ("x", ("N", 8), bp.float32, False)
    assert (x.min_shape, x.max_shape) == ((0, 8), (None, 8))
    assert [output.name for output in session.outputs] == ["y", "hidden"]
    assert session.outputs[0].shape == ("N", 5)
    assert repr(x) == "<x: float32 (N, 8)>"
    assert session.device == bp.device(device)
    assert f"on {device}" in repr(session) and "x: float32 (N, 8)" in repr(session)
    session(X)
    placement = session.placement
    assert placement.devices == {device: placement.native_count + placement.decomposed_count}
    assert len(placement.nodes) == sum(
        getattr(placement, f"{kind}_count")
        for kind in ("native", "decomposed", "fallback", "view", "known")
    )
    assert placement.fallback_count == 0 and placement.memory_used > 0
    first = placement.nodes[0]
    assert first.op == "matmul" and first.device.name == device and first.kernels
    assert first.placement == "native" and first.reason == "" and "matmul" in repr(first)
    assert "native" in repr(placement) and device in repr(placement)
    unknown = bp.load(
        models.model([("Relu", ("x",), ("y",))], [("x", None)], [("y", None)]), device=device
    )
    assert unknown.inputs[0].shape is None and "any rank" in repr(unknown.inputs[0])
    nameless = models.model([("Relu", ("x",), ("y",))], [("x", [None, 2])], [("y", [None, 2])])
    assert bp.load(nameless, device=device).inputs[0].shape == (None, 2)


def test_options_of_load(device):
    model = models.mlp()
    fixed = bp.load(model, device=device, dims={"N": 3}, deterministic=True, max_contexts=2)
    assert fixed.inputs[0].shape == (3, 8) and fixed.placement.nodes  # planned ahead
    check(fixed(X)[0], expected(model, x=X)["y"])
    with pytest.raises(ValueError, match="input 'x'"):
        fixed(X[:2])
    ranged = bp.load(model, device=device, dims={"N": (2, 4)})
    assert ranged.inputs[0].min_shape == (2, 8) and ranged.inputs[0].max_shape == (4, 8)
    ranged(X)
    with pytest.raises(ValueError, match="dimension 0 .N. of size 2 to 4, found 1"):
        ranged(X[:1])
    assert bp.load(model, device=device, dims={"N": (2, None)}).inputs[0].max_shape == (None, 8)
    with pytest.raises(MemoryError, match="memory_limit"):
        bp.load(model, device=device, memory_limit=100)(X)
    listed = bp.load(model, device=[device, bp.device("cpu:0")] if device != "cpu:0" else [device])
    assert listed.device.name == device
    check(listed(X)[0], expected(model, x=X)["y"])


def test_read_weights(tmp_path):
    path = tmp_path / "mlp.onnx"
    path.write_bytes(models.mlp())
    session = bp.load(path, device="cpu:0", read_weights=True)
    os.truncate(path, 0)
    check(session(X)[0], expected(models.mlp(), x=X)["y"])


def test_defaults_may_be_left_out(device):
    weight = np.array([1, 2, 3], np.float32)
    nodes, outputs = [("Add", ("x", "w"), ("y",))], [("y", [3])]
    model = models.model(nodes, [("w", [3]), ("x", [3])], outputs, {"w": weight})
    session = bp.load(model, device=device)
    assert [(i.name, i.has_default) for i in session.inputs] == [("x", False), ("w", True)]
    assert "optional" in repr(session.inputs[1])
    assert session([1, 1, 1]).tolist() == [2, 3, 4]
    assert session([1, 1, 1], [5, 5, 5]).tolist() == [6, 6, 6]


def test_bad_models(tmp_path):
    garbage = np.random.default_rng(2).bytes(2000)
    whole = models.mlp()
    path = tmp_path / "cut.onnx"
    path.write_bytes(whole[: len(whole) // 2])
    for given in (b"", b"\0", garbage, whole[:-7], bytearray(garbage), memoryview(garbage), path):
        with pytest.raises(bp.Error) as caught:
            bp.load(given)
        assert caught.value.status in ("INVALID_ARGUMENT", "UNSUPPORTED"), given
    for seed in range(60):
        rng = np.random.default_rng(seed)
        spoiled = bytearray(whole)
        for _ in range(3):
            spoiled[rng.integers(len(spoiled))] = rng.integers(256)
        try:
            bp.load(spoiled)(X)
        except bp.Error as error:
            assert error.status in ("INVALID_ARGUMENT", "UNSUPPORTED"), (seed, error)
    with pytest.raises(bp.Error) as caught:
        bp.load(tmp_path)
    assert not isinstance(caught.value, FileNotFoundError)
    with pytest.raises(ValueError):
        bp.load("a\0b")


@pytest.mark.parametrize("kind", [str, pathlib.Path])
@pytest.mark.parametrize("name", ["missing.onnx", "no folder/model.onnx"])
def test_missing_files(tmp_path, kind, name):
    path = kind(str(tmp_path / name))
    with pytest.raises(FileNotFoundError, match=name) as caught:
        bp.load(path)
    error = caught.value
    assert isinstance(error, bp.MissingFileError) and isinstance(error, bp.Error)
    assert (error.errno, error.filename) == (errno.ENOENT, os.fspath(path))
    assert error.status == "UNAVAILABLE" and error.op is None
    for same in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(same) is bp.MissingFileError and str(same) == str(error)
        assert (same.errno, same.filename) == (error.errno, error.filename)


def test_the_empty_path_is_missing():
    with pytest.raises(FileNotFoundError):
        open("")
    with pytest.raises(bp.MissingFileError) as caught:
        bp.load("")
    assert caught.value.filename == ""


def test_missing_weights_are_no_missing_model(tmp_path):
    path = tmp_path / "mlp.onnx"
    model = onnx.load_from_string(models.mlp())
    onnx.save(model, path, save_as_external_data=True, location="weights", size_threshold=0)
    check(bp.load(path)(X)[0], expected(models.mlp(), x=X)["y"])
    (tmp_path / "weights").unlink()
    with pytest.raises(bp.Error, match="weights") as caught:
        bp.load(path)
    assert not isinstance(caught.value, FileNotFoundError)


BAD_LOADS = [
    (TypeError, "'model': expected a path, or the bytes of an ONNX file, found int", (3,), {}),
    (TypeError, "'model': expected a path, or the bytes of an ONNX file, found NoneType",
     (None,), {}),
    (TypeError, "'device': expected a Device or its name, found int", None, {"device": 3}),
    (TypeError, "'device': expected Devices or names", None, {"device": ["cpu:0", None]}),
    (ValueError, "'device': the list is empty", None, {"device": []}),
    (ValueError, r"load: argument 'device\[1\]' is listed before", None,
     {"device": ["cpu:0", "cpu:0"]}),
    (
        ValueError,
        "load: argument 'model': expected a path, or the bytes of an ONNX file, found 0 bytes",
        (b"",),
        {},
    ),
    (TypeError, "'dims': expected a dict of names and sizes, found list", None, {"dims": [1]}),
    (TypeError, "dims.'N'.*expected an int, or a tuple.*float", None, {"dims": {"N": 1.5}}),
    (TypeError, "dims.'N'.*found bool", None, {"dims": {"N": True}}),
    (ValueError, "dims.'N'.*found a tuple of 3", None, {"dims": {"N": (1, 2, 3)}}),
    (TypeError, "'dims': expected names of type str", None, {"dims": {1: 2}}),
    (ValueError, r"load: argument 'dims\['N'\]' is -1", None, {"dims": {"N": -1}}),
    (ValueError, r"load: argument 'dims\['N'\]' is -1", None, {"dims": {"N": (-1, 2)}}),
    (ValueError, r"load: argument 'dims\['N'\]' is 2 .* at least its min 3", None,
     {"dims": {"N": (3, 2)}}),
    (ValueError, r"load: argument 'dims\['N'\]' is 2 ", None, {"dims": {"M": 1, "N": (3, 2)}}),
    (ValueError, "^load: .* argument 'dims' holds an empty name", None, {"dims": {"": 2}}),
    (ValueError, "^load: .* argument 'dims' holds an empty name", None, {"dims": {"": (1, 2)}}),
    (ValueError, "'Q'", None, {"dims": {"Q": 2}}),
    (OverflowError, "dims.'N'.*an int that 64 bits hold", None, {"dims": {"N": 2**70}}),
    (ValueError, "load: argument 'dims': expected no NUL", None, {"dims": {"N\0zz": 4}}),
    (ValueError, r"load: argument 'dims': .*UTF-8.*'\\ud800'", None, {"dims": {"\ud800": 4}}),
    (OverflowError, "'memory_limit'.*64 bits", None, {"memory_limit": 2**70}),
    (ValueError, "'memory_limit': expected 1 to .*, found 0", None, {"memory_limit": 0}),
    (TypeError, "'memory_limit': expected an int or None, found str", None, {"memory_limit": "1"}),
    (ValueError, "'max_contexts'", None, {"max_contexts": 2**32}),
    (TypeError, "nonsense", None, {"nonsense": 1}),
    (TypeError, "load: takes one argument by position, the model, found 2; .*device=",
     (b"a", "cpu:0"), {}),
    (TypeError, "load: .*found 3", (b"a", "cpu:0", {}), {}),
]


@pytest.mark.parametrize("kind, words, given, keywords", BAD_LOADS)
def test_load_refuses(kind, words, given, keywords):
    with pytest.raises(kind, match=words):
        bp.load(*(given or (models.mlp(),)), **keywords)


class Seconds:
    def __float__(self):
        return 1 / 0


BAD_RUNS = [
    (ValueError, "expected at most 2 inputs .a, b., found 3", lambda s, x: s(x, x, x)),
    (ValueError, "input 'b' is missing", lambda s, x: s(x)),
    (ValueError, "input 'a'.*", lambda s, x: s()),
    (TypeError, "no keywords", lambda s, x: s(a=x, b=x)),
    (ValueError, "input 'b': expected dtype f32, found f64", lambda s, x: s(x, x.astype("f8"))),
    (ValueError, "input 'b': .* f32, found f64", lambda s, x: s(x, [np.float64(1), x[0], 2])),
    (ValueError, "input 'a': expected rank 1 .N., found f32 .1, 3.", lambda s, x: s(x[None], x)),
    (TypeError, "input 'b': .*expected numbers.*NoneType", lambda s, x: s(x, None)),
    (TypeError, "input 'b'.*dtype", lambda s, x: s(x, x.astype(object))),
    (ValueError, "input 'b'.*byte order", lambda s, x: s(x, x.astype(">f4"))),
    (ValueError, "'inputs': the model has no input 'c', it has a, b", lambda s, x: s.run({"c": x})),
    (TypeError, "'inputs': expected names of type str, found int", lambda s, x: s.run({1: x})),
    (TypeError, "'inputs': expected a dict .*found list", lambda s, x: s.run([x, x])),
    (TypeError, "'out': expected a dict", lambda s, x: s.run({"a": x, "b": x}, out=[x])),
    (TypeError, "out.'y'.*expected a Tensor, found numpy", lambda s, x: s.run({}, out={"y": x})),
    (ValueError, "'out': the model has no output 'z'", lambda s, x: s.run({}, out={"z": x})),
    (TypeError, "'outputs': expected a list", lambda s, x: s.run({}, outputs="y")),
    (ValueError, "no output 'z', it has y", lambda s, x: s.run({}, outputs=["z"])),
    (ValueError, "'y' is listed twice", lambda s, x: s.run({}, outputs=["y", "y"])),
    (TypeError, "'timeout': expected seconds", lambda s, x: s.run({}, timeout="1")),
    (ZeroDivisionError, "zero", lambda s, x: s.run({}, timeout=Seconds())),
    (TypeError, "'timeout': expected seconds.*bool", lambda s, x: s.run({}, timeout=True)),
    (ValueError, "'timeout': .*found 0", lambda s, x: s.run({}, timeout=0)),
    (ValueError, "'timeout': .*found nan", lambda s, x: s.run({}, timeout=float("nan"))),
    (TypeError, "'cancel': expected a Cancel", lambda s, x: s.run({}, cancel=1)),
    (TypeError, "'stream': expected a Stream", lambda s, x: s.run({}, stream=1)),
    (ValueError, "^run: argument 'stream' is of ", lambda s, x: s.run({}, stream=elsewhere(s))),
    (ValueError, "^submit: argument 'stream' is", lambda s, x: s.submit({}, stream=elsewhere(s))),
    (TypeError, "nonsense", lambda s, x: s.run({}, nonsense=1)),
    (TypeError, "nonsense", lambda s, x: s.submit({}, nonsense=1)),
    (ValueError, "submit: .*no input 'c'", lambda s, x: s.submit({"c": x})),
]


def elsewhere(session):
    other = next(device for device in bp.devices() if device != session.device)
    return other.new_stream()


@pytest.mark.parametrize("kind, words, call", BAD_RUNS)
def test_run_refuses(device, kind, words, call):
    session = bp.load(models.add(), device=device)
    x = np.ones(3, np.float32)
    with pytest.raises(kind, match=words):
        call(session, x)
    assert session(x, x).tolist() == [2, 2, 2]  # it stays usable


def test_bound_outputs_are_refused_by_name(device):
    session = bp.load(models.add(), device=device)
    x = np.ones(3, np.float32)
    for wrong in (bp.empty(4, device=device), bp.empty(3, dtype="int32", device=device)):
        with pytest.raises(ValueError, match="y"):
            session.run({"a": x, "b": x}, out={"y": wrong})
    if device == "cpu:0":
        x.flags.writeable = False
        for run in (session.run, session.submit):
            words = rf"^{run.__name__}: argument 'out\['y'\]' is read-only"
            with pytest.raises(ValueError, match=words):
                run({"a": x, "b": x}, out={"y": bp.asarray(x, copy=False)})


def test_runtimes_do_not_mix(device):
    with bp.Runtime() as runtime:
        session = bp.load(models.relu(), device=runtime.device(device))
        with pytest.raises(ValueError, match="input 'x'.*another Runtime"):
            session(bp.ones(3, device=device))
        assert session(bp.ones(3, device=runtime.device(device))).tolist() == [1, 1, 1]
        with pytest.raises(ValueError, match="another runtime"):
            bp.load(models.relu(), device=[runtime.device(device), bp.device("cpu:0")])


def test_close(device):
    with bp.load(models.relu(), device=device) as session:
        y = session([1.0, -1.0])
        assert not session.is_closed
    session.close()
    assert session.is_closed and "closed" in repr(session)
    assert session.inputs[0].name == "x" and y.tolist() == [1, 0]
    for call in (
        lambda: session([1.0]),
        lambda: session.run({"x": [1.0]}),
        lambda: session.submit({"x": [1.0]}),
        lambda: session.placement,
    ):
        with pytest.raises(bp.Error, match="Session is closed") as caught:
            call()
        assert caught.value.status == "GONE"


def test_runtime_closed_before_its_session(device):
    runtime = bp.Runtime()
    session = bp.load(models.relu(), device=runtime.device(device))
    session([1.0])
    runtime.close()
    for call in (
        lambda: session([1.0]),
        lambda: session.run({"x": [1.0]}),
        lambda: session.submit({"x": [1.0]}),
        lambda: session.placement,
        lambda: bp.load(models.relu(), device=runtime.device(device)),
    ):
        with pytest.raises(bp.Error, match="closed") as caught:
            call()
        assert caught.value.status == "GONE"
    assert "on " + device in repr(session)
    session.close()
    del session
    gc.collect()


def test_threads_on_one_session(device):
    model = models.mlp()
    session = bp.load(model, device=device)
    rng = np.random.default_rng(3)
    batches = [rng.standard_normal((n, 8)).astype(np.float32) for n in (1, 2, 3, 5)]
    wanted = [expected(model, x=x)["y"] for x in batches]
    failures = []

    def work(seed):
        rng = np.random.default_rng(seed)
        try:
            for _ in range(60):
                i = rng.integers(len(batches))
                if rng.integers(2):
                    check(session(batches[i])[0], wanted[i])
                else:
                    check(session.run({"x": batches[i]}, outputs=["y"])["y"], wanted[i])
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not failures and not any(thread.is_alive() for thread in threads)


def test_closed_while_others_run(device):
    for _ in range(5):
        session = bp.load(models.mlp(), device=device)
        ends = []

        def work():
            try:
                while True:
                    session(X)
            except bp.Error as error:
                ends.append(error.status)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.01)
        session.close()
        for thread in threads:
            thread.join(60)
        assert ends == ["GONE"] * 4


def test_an_emptied_dict_keeps_its_tensors():
    session = bp.load(models.powers(300), device="cpu:0")
    x = models.shift(64)
    inputs = {"x": x}
    stop = threading.Event()

    def spoil():
        while not stop.is_set():
            inputs.clear()
            inputs["x"] = bp.asarray(x.copy())

    thread = threading.Thread(target=spoil)
    thread.start()
    wanted = models.shift_power(64, 301)
    try:
        for _ in range(30):
            try:
                found = session.run(inputs)["y"]
            except ValueError as error:
                assert "missing" in str(error)
            else:
                assert (found.numpy() == wanted).all()
    finally:
        stop.set()
        thread.join()


def test_models_and_arrays_are_let_go():
    model = models.mlp()

    def use():
        session = bp.load(model, device="cpu:0")
        session(X)
        session.run({"x": X}, out={"y": bp.empty((3, 5))})
        session.submit({"x": X}).result(60)
        session.close()

    use()
    gc.collect()
    bp.ones(1)
    before = sys.getrefcount(model), sys.getrefcount(X)
    used = bp.device("cpu:0").memory_used
    for _ in range(20):
        use()
    gc.collect()
    bp.ones(1)
    assert (sys.getrefcount(model), sys.getrefcount(X)) == before
    assert bp.device("cpu:0").memory_used == used


def test_numpy_is_not_needed(tmp_path):
    path = tmp_path / "relu.onnx"
    path.write_bytes(models.relu())
    code, out, err = python(
        "import sys; sys.modules['numpy'] = None\n"
        "import backplane as bp, asyncio\n"
        f"s = bp.load({str(path)!r})\n"
        "print(s([1.0, -1.0]).tolist(), s.run({'x': [2.0]})['y'].tolist(), s.inputs, s.placement)\n"
        "print(s.submit({'x': [3.0]}).result(60)['y'].tolist())\n"
        "print(asyncio.run(s.run_async({'x': [4.0]}))['y'].tolist())\n"
    )
    lines = out.splitlines()
    assert (code, err) == (0, "") and lines[1:] == ["[3.0]", "[4.0]"], (out, err)
    assert lines[0].startswith("[1.0, 0.0] [2.0] (<x: float32 (N,)>,) <backplane.Placement: 1 node")
    assert "asyncio" not in python("import sys, backplane; print(*sys.modules)")[1].split()
