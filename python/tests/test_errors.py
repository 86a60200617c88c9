# SPDX-License-Identifier: Apache-2.0
"""Which operator an exception is about."""

import asyncio
import builtins
import copy
import pathlib
import pickle
import re
import threading

import numpy as np
import pytest

import backplane as bp
import onnx_models as models

LIMIT = 60
README = pathlib.Path(__file__).parents[1] / "README.md"


def error_of(call):
    with pytest.raises(bp.Error) as caught:
        call()
    return caught.value


def fixed_sum():
    """y = x + w, where w has 4 rows: what it does with others is known when it runs."""
    return models.model([("Add", ("x", "w"), ("y",))], [("x", ["N", 2])], [("y", ["N", 2])],
                        {"w": np.zeros((4, 2), np.float32)})


def lookup():
    return models.model([("Gather", ("x", "index"), ("y",))], [("x", ["N"])], [("y", ["M"])],
                        {"index": np.array([2, 99], np.int64)})


def test_calls(device):
    x = bp.ones((2, 3), device=device)
    error = error_of(lambda: bp.ops.matmul(x, x))
    assert error.op == "matmul" and isinstance(error, bp.InvalidArgumentError)
    assert error_of(lambda: x @ x).op == "matmul"
    assert error_of(lambda: x + bp.ones(4, device=device)).op == "add"
    assert error_of(lambda: bp.ops.softmax(x, axis=9)).op == "softmax"
    assert error_of(lambda: bp.device("nope:0")).op is None
    assert bp.Error.op is None and bp.Error("words").op is None


def test_faults_of_lookups(device):
    x = bp.ones(4, device=device)
    found = lambda: bp.ops.gather(x, bp.asarray([2, 99], device=device)).tolist()
    assert error_of(found).op == "gather"


def test_runs(device):
    session = bp.load(fixed_sum(), device=device)
    x = {"x": np.ones((3, 2), np.float32)}
    direct = error_of(lambda: session.run(x))
    assert direct.op == "add" and "node" in str(direct)
    assert error_of(lambda: session(x["x"])).op == "add"
    later = session.submit(x).exception(LIMIT)
    assert type(later) is type(direct) and later.op == "add" and str(later) == str(direct)

    async def wait():
        await session.run_async(x)

    assert error_of(lambda: asyncio.run(wait())).op == "add"
    wrong = {"x": np.ones(3, np.float32)}
    assert error_of(lambda: session.run(wrong)).op is None
    assert session.submit(wrong).exception(LIMIT).op is None


def test_runs_that_meet_faults(device):
    """Where the fault is not known when the run ends, it travels with the output to its reader."""
    try:
        session = bp.load(lookup(), device=device)
    except bp.Error as error:
        assert error.op == "gather"
        return
    x = {"x": np.ones(4, np.float32)}
    assert error_of(lambda: session.run(x)["y"].tolist()).op == "gather"


def test_loading_tells_the_operator():
    sizes = [("x", [2, 3])]
    content = models.model([("MatMul", ("x", "x"), ("y",))], sizes, [("y", [2, 3])])
    assert error_of(lambda: bp.load(content)).op == "matmul"
    unknown = models.model([("NoSuchThing", ("x",), ("y",))], sizes, [("y", [2, 3])])
    assert error_of(lambda: bp.load(unknown)).op is None  # the library has no such operator


def test_threads_have_their_own():
    x = bp.ones((2, 3))
    found = {}

    def fail(name, call):
        for _ in range(200):
            found.setdefault(name, set()).add(error_of(call).op)

    calls = {"matmul": lambda: bp.ops.matmul(x, x), "add": lambda: bp.ops.add(x, bp.ones(4)),
             None: lambda: bp.device("nope:0")}
    threads = [threading.Thread(target=fail, args=item) for item in calls.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert found == {name: {name} for name in calls}


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy,
                                 lambda error: pickle.loads(pickle.dumps(error))])
def test_copies_keep_it(how):
    x = bp.ones((2, 3))
    for error in (error_of(lambda: x @ x), error_of(lambda: bp.device("nope:0"))):
        made = how(error)
        assert type(made) is type(error) and made.args == error.args
        assert (made.status, made.op) == (error.status, error.op)


def test_classes_are_those_of_the_readme():
    row = r"^\| `(\w+Error)` \| (?:`(\w+)`)? ?\| `(\w+)`"
    rows = re.findall(row, README.read_text("utf-8"), re.M)
    kinds = {name: getattr(bp, name) for name in bp.__all__ if name.endswith("Error")}
    assert {name for name, _, _ in rows} == kinds.keys() - {"Error"}
    for name, builtin, status in rows:
        assert issubclass(kinds[name], bp.Error) and kinds[name].status == status
        found = [base for base in kinds[name].__bases__ if base is not bp.Error]
        assert found == ([getattr(builtins, builtin)] if builtin else []), name
