# SPDX-License-Identifier: Apache-2.0
import gc
import os
import random
import subprocess
import sys
import threading
import time
import tracemalloc

import numpy as np
import pytest

import backplane as bp


def python(code, **environment):
    """Runs code in a process of its own, and answers what it printed."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "BACKPLANE_LOG": "error", **environment},
    )
    return done.returncode, done.stdout, done.stderr


def test_runtime_of_ones_own():
    with bp.Runtime(options={"npu.memory": "64MiB"}) as runtime:
        assert [d.name for d in runtime.devices()] == [d.name for d in bp.devices()]
        assert runtime.device("npu:0").memory == 64 << 20 and "npu:0" in repr(runtime)
        assert runtime.default_device.name == "cpu:0" and not runtime.is_closed
        assert runtime.device("npu:0") != bp.device("npu:0")
        x = bp.ones(3, device=runtime.device("npu:0"))
        assert (x + x).tolist() == [2, 2, 2]
    assert runtime.is_closed and "closed" in repr(runtime)
    runtime.close()


def test_runtime_refuses():
    with pytest.raises(ValueError, match="nonsense") as caught:
        bp.Runtime(options={"npu.nonsense": "1"})
    assert caught.value.status == "INVALID_ARGUMENT" and isinstance(caught.value, bp.Error)
    with pytest.raises(
        TypeError, match="option 'npu.memory': expected a str, int or bool, found float"
    ):
        bp.Runtime(options={"npu.memory": 1.5})
    for text, words in (("\udcff", "text that UTF-8 has a form of"), ("\0", "no NUL character")):
        with pytest.raises(ValueError, match=f"option 'npu.memory': expected {words}"):
            bp.Runtime(options={"npu.memory": text})
        with pytest.raises(ValueError, match=f"ones: argument 'device': expected {words}"):
            bp.ones(2, device=text)
    with pytest.raises(bp.Error) as caught:
        bp.device("nothing:0")
    assert caught.value.status == "UNAVAILABLE" and "cpu:0" in str(caught.value)


def test_plugin_path(tmp_path):
    with bp.Runtime(plugin_path=[tmp_path, str(tmp_path)], install_dir=tmp_path) as runtime:
        assert runtime.devices() == []
        with pytest.raises(bp.Error, match="no device"):
            runtime.default_device


def test_folders_that_name_nothing(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    expected = "plugin_path: expected the absolute path of a folder, found "
    for path, found in (
        ("/nowhere", "/nowhere: No such file or directory"),
        ([tmp_path, "/nowhere"], "/nowhere: No such file or directory"),
        (file, f"{file}: Not a directory"),
        ("plugins", "'plugins'"),
    ):
        with pytest.raises(ValueError) as caught:
            bp.Runtime(plugin_path=path)
        assert str(caught.value) == expected + found
        assert caught.value.status == "INVALID_ARGUMENT" and isinstance(caught.value, bp.Error)
    with pytest.raises(ValueError) as caught:
        bp.Runtime(install_dir="/nowhere")
    assert str(caught.value) == expected.replace("plugin_path", "install_dir") + (
        "/nowhere: No such file or directory"
    )
    for arguments, words in (
        ({"plugin_path": ""}, "'plugin_path': expected the path of a folder, found ''"),
        ({"plugin_path": ["/tmp", ""]}, "'plugin_path': expected the path of a folder, found ''"),
        ({"plugin_path": "/tmp:/usr"}, "'plugin_path': expected folders without ':' in their"),
        ({"install_dir": ""}, "'install_dir': expected the path of a folder, found ''"),
    ):
        with pytest.raises(ValueError, match=f"Runtime: argument {words}"):
            bp.Runtime(**arguments)
    for argument, value in (
        ("plugin_path", 7),
        ("plugin_path", [7]),
        ("install_dir", 7),
        ("install_dir", [tmp_path]),
    ):
        kind = type(value if argument == "install_dir" or value == 7 else value[0]).__name__
        with pytest.raises(
            TypeError,
            match=f"Runtime: argument '{argument}': expected the path of a folder, found {kind}",
        ):
            bp.Runtime(**{argument: value})
    with bp.Runtime(plugin_path=[], options={"BACKPLANE_PLUGIN_PATH": "/nowhere"}) as runtime:
        assert runtime.default_device.name == "cpu:0"


def test_runtimes_do_not_mix():
    with bp.Runtime() as runtime:
        x = bp.ones(2, device=runtime.device("cpu:0"))
        with pytest.raises(ValueError):
            x + bp.ones(2)


def test_closed(device):
    runtime = bp.Runtime()
    x = bp.asarray([[1.0, 2.0], [3.0, 4.0]], device=runtime.device(device))
    where, array = x.device, x.numpy()
    runtime.close()
    calls = [
        lambda: x + x,
        lambda: x + 1,
        lambda: x // x,
        lambda: x @ x,
        lambda: -x,
        lambda: x == x,
        lambda: x[0],
        lambda: x.T,
        lambda: x.tolist(),
        lambda: x[0, 0].item(),
        lambda: x.numpy(),
        lambda: np.asarray(x),
        lambda: x.copy(),
        lambda: x.to_device("cpu:0"),
        lambda: x.astype("int8"),
        lambda: x.__dlpack__(),
        lambda: x.__setitem__(0, 1),
        lambda: where.sync(),
        lambda: where.memory,
        lambda: where.counters,
        lambda: where.features,
        lambda: bp.ones(2, device=where),
        lambda: bp.asarray([1], device=where),
        lambda: bp.asarray(np.ones(2), device=where),
        lambda: runtime.devices(),
        lambda: runtime.device(device),
        lambda: runtime.default_device,
        lambda: bool(x[0, 0]),
    ]
    for i, call in enumerate(calls):
        with pytest.raises(bp.Error, match="closed") as caught:
            call()
        assert caught.value.status == "GONE", i
    assert (
        x.shape == (2, 2) and x.dtype is bp.float32 and where.name == device
    )  # what it knows itself
    assert "GONE" in repr(x) and "closed" in repr(where)
    assert array.tolist() == [[1, 2], [3, 4]]


def test_default_runtime_is_made_anew_after_close():
    code, out, err = python(
        "import backplane as bp\n"
        "a = bp.default_runtime(); x = bp.ones(2); a.close()\n"
        "b = bp.default_runtime(); assert a is not b\n"
        "print(bp.ones(2).tolist(), x.shape)\n"
    )
    assert (code, out, err) == (0, "[1.0, 1.0] (2,)\n", "")


@pytest.mark.parametrize("end", ["", "import sys; sys.exit(0)", "import gc; gc.disable()"])
def test_exit_is_quiet(end):
    code, out, err = python(
        "import backplane as bp, numpy as np\n"
        "keep = [bp.ones((512, 512), device=d) for d in bp.devices()]\n"
        "for _ in range(20): keep = [x @ x * 1e-3 for x in keep]\n"
        "lent = bp.ones(3).numpy(); taken = bp.asarray(np.ones(4))\n"
        "cycle = [keep]; cycle.append(cycle)\n"
        "other = bp.Runtime(); y = bp.ones(3, device=other.device('cpu:0'))\n" + end
    )
    assert (code, out, err) == (0, "", "")


def test_numpy_is_not_imported():
    code, out, err = python(
        "import sys, backplane as bp\n"
        "assert 'numpy' not in sys.modules\n"
        "sys.modules['numpy'] = None\n"
        "for d in bp.devices():\n"
        "    x = bp.asarray([[1.0, 2.0], [3.0, 4.0]], device=d)\n"
        "    y = (x @ x + 1) / 3 - x ** 2; y += x; y[0] = x[1]; y[1, ::-1] = 5\n"
        "    repr(y), y.tolist(), bool((y == y)[0, 0]), bp.float32 == 'float32'\n"
        "    bp.zeros(3) + 1.5\n"
        "    bp.from_dlpack(bp.from_dlpack(bp.ones(3))), bp.asarray(bytearray(3))\n"
        "try: x.numpy()\n"
        "except ImportError: print('asked')\n"
    )
    assert (code, out, err) == (0, "asked\n", "")


def test_fork_gives_a_clear_error():
    code, out, err = python(
        "import os, sys, backplane as bp\n"
        "x = bp.ones(3)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    seen = []\n"
        "    for call in (lambda: x + x, lambda: bp.zeros(2), lambda: bp.devices(),\n"
        "                 lambda: bp.Runtime(), lambda: x.tolist(), lambda: x.device.sync()):\n"
        "        try: call(); seen.append('no error')\n"
        "        except bp.Error as error: seen.append(error.status)\n"
        "    print(sorted(set(seen)), x.shape, flush=True)\n"
        "    sys.exit(0)\n"
        "_, status = os.waitpid(pid, 0)\n"
        "print(status, (x + x).tolist())\n"
    )
    assert (code, out, err) == (0, "['FORKED'] (3,)\n0 [2.0, 2.0, 2.0]\n", "")


def test_gil_is_released_for_large_work():
    a = bp.ones((1500, 1500))
    steps = [0]
    done = threading.Event()

    def count():
        while not done.is_set():
            steps[0] += 1
            time.sleep(0.0005)

    thread = threading.Thread(target=count)
    thread.start()
    begin = time.perf_counter()
    before = steps[0]
    for _ in range(5):
        a = a @ a * 1e-4
    spent = time.perf_counter() - begin
    moved = steps[0] - before
    done.set()
    thread.join()
    assert moved > spent / 0.02, (moved, spent)  # several times within one product


def test_threads_with_random_calls():
    devices = [d.name for d in bp.devices()]
    shared = [
        bp.asarray(np.arange(64.0, dtype=np.float32).reshape(8, 8), device=d, copy=True)
        for d in devices
    ]
    failures = []

    def work(seed):
        rng = random.Random(seed)
        try:
            for _ in range(150):
                i = rng.randrange(len(devices))
                x, which = shared[i], rng.randrange(8)
                if which == 0:
                    assert ((x - x) + 2).tolist()[3][3] == 2
                elif which == 1:
                    assert (x @ x).shape == (8, 8)
                elif which == 2:
                    assert x[rng.randrange(8)].T.shape == (8,)
                elif which == 3:
                    y = x.copy()
                    y[::2] = rng.random()
                    y += 1
                    assert y[1].tolist() == (x[1] + 1).tolist()
                elif which == 4:
                    assert np.asarray(x).sum() == 2016
                elif which == 5:
                    assert bp.asarray(np.ones(50), device=devices[i]).tolist() == [1] * 50
                elif which == 6:
                    np.from_dlpack(bp.from_dlpack(np.arange(9)))
                    x.device.sync()
                else:
                    repr(x), x.to_device(rng.choice(devices)), bp.devices()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not failures and not any(thread.is_alive() for thread in threads)


def test_close_while_others_call():
    for _ in range(5):
        runtime = bp.Runtime()
        x = bp.ones((64, 64), device=runtime.device("npu:0"))
        ends = []

        def work():
            try:
                while True:
                    (x @ x).tolist()
            except bp.Error as error:
                ends.append(error.status)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.02)
        runtime.close()
        for thread in threads:
            thread.join(60)
        assert len(ends) == 4 and set(ends) <= {"GONE", "CANCELLED"}, ends


def _everything():
    a = np.arange(6.0).reshape(2, 3)
    x = bp.asarray(a)
    y = bp.asarray([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    y += 1
    y[0] = 5
    y[:, 1] = a[:, 0]
    results = [
        x + x,
        x * 2,
        2 / y,
        y // 2,
        x == x,
        ~(y > 3),
        -y,
        y.T,
        y[..., None],
        y.tolist(),
        repr(y),
        x.numpy(),
        np.asarray(y),
        np.from_dlpack(x),
        bp.from_dlpack(a),
        x.to_device("npu:0"),
        bp.zeros(3),
        bp.full_like(y, 2),
        y.astype("int8"),
        y.copy(),
        [*y],
        hash(y),
        y.shape,
        y.device.counters,
        bp.devices(),
        y.__dlpack__(),
        y.__dlpack__(max_version=(1, 0)),
        x.to_device("npu:0").numpy(),
    ]
    for bad in (
        lambda: x + "a",
        lambda: bp.asarray([[1], 2]),
        lambda: x[9],
        lambda: bp.device("no:1"),
        lambda: bp.asarray(np.ones(2, object)),
        lambda: x.to_device("npu:0").__dlpack__(),
        lambda: bp.zeros(-1),
    ):
        try:
            bad()
        except Exception:
            pass
    return len(results)


def test_no_leaks():
    runtime = bp.default_runtime()
    cpu, npu = bp.device("cpu:0"), bp.device("npu:0")
    for _ in range(50):
        _everything()
    gc.collect()
    npu.sync()
    counted = [cpu, bp.float32, bp.Tensor, bp.Device, runtime, None.__class__]
    before = [sys.getrefcount(o) for o in counted]
    objects, used = len(gc.get_objects()), (cpu.memory_used, npu.memory_used)
    tracemalloc.start()
    for _ in range(30):
        _everything()
    gc.collect()
    memory = tracemalloc.get_traced_memory()[0]
    for _ in range(1000):
        _everything()
    gc.collect()
    npu.sync()
    grown = tracemalloc.get_traced_memory()[0] - memory
    tracemalloc.stop()
    after = [sys.getrefcount(o) for o in counted]
    assert all(abs(b - a) < 20 for a, b in zip(before, after)), (before, after)
    assert len(gc.get_objects()) - objects < 200
    assert grown < 50_000, grown
    assert (cpu.memory_used, npu.memory_used) == used
