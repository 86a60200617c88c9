# SPDX-License-Identifier: Apache-2.0
"""Small calls from Python in a process of its own, timed in turns (sides.py):

    python_side.py SIDE [FOLDER]      SIDE: a function below; FOLDER/model.onnx and its inputs
    python_side.py import             the milliseconds that the import takes and the MiB it adds
    python_side.py threads MODEL THREADS BEGIN_NS END_NS      as shared_session does it, in C++

A lap is many calls in a row, without what the loop round them costs.
"""

import json
import os
import pathlib
import sys
import threading
import time
import timeit

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
import peer_child  # noqa: E402

CALLS = 1000  # of a lap of calls below a few microseconds
RUNS = 50
ROUND_TRIP_BYTES = 64 << 20


def add_of_backplane(_):
    import backplane
    return CALLS, "a + b", {"a": backplane.asarray([1.0]), "b": backplane.asarray([2.0])}


def add_of_numpy(_):
    import numpy
    return CALLS, "a + b", {"a": numpy.array([1], "float32"), "b": numpy.array([2], "float32")}


def add_of_torch(_):
    import torch
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    return CALLS, "a + b", {"a": torch.tensor([1.0]), "b": torch.tensor([2.0])}


def add_through_torch(_):
    """A tensor of torch, added here, and back."""
    import backplane
    import torch
    torch.set_grad_enabled(False)
    return CALLS, "back(there(a) + b, to)", {
        "a": torch.tensor([1.0]), "b": backplane.asarray([2.0]), "to": torch.Tensor,
        "there": backplane.from_dlpack, "back": backplane.to_dlpack}


def add_through_torch_alone(_):
    """The same by what PyTorch itself has for the ways there and back, to and from itself."""
    import torch
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    return CALLS, "back(back(a) + b)", {
        "a": torch.tensor([1.0]), "b": torch.tensor([2.0]), "back": torch.from_dlpack}


def run_of_backplane(folder):
    import backplane
    runtime = backplane.Runtime(options={"cpu.threads": "1"})
    session = backplane.load(folder / "model.onnx", device=runtime.device("cpu:0"))
    values = peer_child.read_inputs(folder, dict.fromkeys(["x"], "float32"))
    x = backplane.asarray(values["x"], device=runtime.device("cpu:0"))
    return RUNS, "session(x)", {"session": session, "x": x, "runtime": runtime}


def run_of_onnxruntime(folder):
    session, inputs, _ = peer_child.open_onnxruntime(folder, 1)
    return RUNS, "run(None, inputs)", {"run": session.run, "inputs": inputs}


def round_trip_of_backplane(_):
    import backplane
    import numpy
    values = numpy.ones(ROUND_TRIP_BYTES // 4, "float32")
    return RUNS, "there(a).numpy()", {"a": values, "there": backplane.asarray}


def copy_of_numpy(_):
    import numpy
    return 2, "a.copy()", {"a": numpy.ones(ROUND_TRIP_BYTES // 4, "float32")}


SIDES = {side.__name__: side for side in (
    add_of_backplane, add_of_numpy, add_of_torch, add_through_torch, add_through_torch_alone,
    run_of_backplane, run_of_onnxruntime, round_trip_of_backplane, copy_of_numpy)}


def serve(name, folder):
    answers = os.fdopen(os.dup(1), "w")  # what a peer prints stays out of it
    os.dup2(2, 1)

    def say(answer):
        print(json.dumps(answer), file=answers, flush=True)

    try:
        calls, words, names = SIDES[name](folder)
        timed = timeit.Timer(words, globals=names).timeit
        empty = timeit.Timer("pass").timeit
        timed(calls)
    except Exception as error:  # whatever keeps a side from running is what the table says
        say({"absent": " ".join(f"{type(error).__name__}: {error}".split())[:200]})
        return
    peer_child.serve_turns(say, {}, lambda: 1e9 * (timed(calls) - empty(calls)) / calls)


def tell_of_import():
    before = peer_child.resident_bytes()
    begin = time.perf_counter_ns()
    import backplane  # noqa: F401
    taken = time.perf_counter_ns() - begin
    print(json.dumps({"ms": taken / 1e6,
                      "MiB": (peer_child.resident_bytes() - before) / (1 << 20),
                      "numpy": "numpy" in sys.modules}))


def run_threads(model, count, begin_ns, end_ns):
    """Prints how many runs began and ended within the window."""
    import backplane
    runtime = backplane.Runtime(options={"cpu.threads": "1"})
    device = runtime.device("cpu:0")
    session = backplane.load(model, device=device)
    x = backplane.ones(session.inputs[0].shape, device=device)
    counts, failures = [], []

    def run_in_window():
        try:
            for _ in range(20):
                session(x)
            if time.monotonic_ns() >= begin_ns:
                raise RuntimeError("the window began before all was ready")
            time.sleep((begin_ns - time.monotonic_ns()) / 1e9)
            done = 0
            while True:
                session(x)
                if time.monotonic_ns() >= end_ns:
                    break
                done += 1
            counts.append(done)
        except Exception as error:  # told by the main thread
            failures.append(error)

    threads = [threading.Thread(target=run_in_window) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    print(sum(counts))


def main():
    kind, *words = sys.argv[1:]
    if kind == "import":
        tell_of_import()
    elif kind == "threads":
        run_threads(words[0], *map(int, words[1:]))
    else:
        serve(kind, pathlib.Path(words[0]) if words else None)


if __name__ == "__main__":
    main()
