# SPDX-License-Identifier: Apache-2.0
"""Type checkers understand the package: mypy takes a program that is right, and finds each line of
one that is wrong."""

import ast
import inspect
import os
import pathlib
import re
import subprocess
import sys

import pytest

import backplane as bp

PACKAGE = pathlib.Path(bp.__file__).parent
CHECKED = ("_core.pyi", "ops.py", "__init__.py", "_errors.py", "_format.py", "_methods.py",
           "_numpy.py", "_pickle.py", "_session.py")

RIGHT = '''
import numpy as np

import backplane as bp
import backplane.array_api as xp
import backplane.torch
from backplane import ops


def normalised(x: bp.Tensor, eps: float = 1e-6) -> bp.Tensor:
    mean = ops.reduce_mean(x, axes=[-1])
    spread = ops.sqrt(ops.reduce_mean((x - mean) ** 2, axes=-1) + eps)
    return (x - mean) / spread


def index(x: bp.Tensor) -> bp.Tensor:
    flags: bp.Tensor = x > 0
    x[flags] = 1
    x[..., 0] += 2
    x[[0, 1], :] = [[1, 2], [3, 4]]
    x[np.array([0, 1])] = np.zeros(2)
    return x[None, [True, False], ::-1]


def inspect(session: bp.Session) -> list[str]:
    info: bp.TensorInfo = session.inputs[0]
    placement: bp.Placement = session.placement
    node: bp.Node = placement.nodes[0]
    named = [size for size in info.shape or () if isinstance(size, str)]
    return [info.name, *named, node.kernels[0], str(placement.devices["npu:0"] + 1)]


def sums(x: bp.Tensor) -> list[bp.Tensor]:
    total = xp.sum(x, dtype="float64") + x.sum(dtype=np.dtype("f8"))
    return [total, x.prod(dtype=np.float64).to_device("cpu:0", stream=None), xp.eye(2, dtype=float)]


def of_torch() -> int:
    backplane.torch.forget_weights()
    backplane.torch.reset_report()
    report: backplane.torch.Report = backplane.torch.report()
    return report.runs + report.fallbacks[0].nodes + sum(report.graph_breaks.values())


def main() -> None:
    device: bp.Device = bp.device("cpu:0")
    x = bp.asarray([[1.0, 2.0], [3.0, 4.0]], dtype=bp.float32, device=device)
    y = index(normalised(x) @ x.T)
    is_bool: bool = y.dtype == bp.bool and y.dtype is not bp.int8
    values, indices = ops.top_k(x, 1)
    print(x.reshape([2, 2]).transpose([1, 0]), x.transpose(1, 0).reshape((4,)))
    print(x.reshape(-1, 1).sum(0, keepdims=True).item(), x.std(correction=1).clip(max=2))
    a, b = ops.split(x, 2)
    total: float = x.numpy().sum() + len(x) + float(x[0, 0]) + x.size
    print(values.tolist(), indices.shape[0], ops.top_k(x, k=1).indices.item(), total, a, b, is_bool)
    print(bp.full((2, 3), 1.5, dtype="float16").to_device("npu:0"), bp.dtype(np.float32).itemsize)
    print(ops.reshape(x, [4]), ops.cast(x, bp.int32), ops.range(0, 3, 1, device=device))
    with bp.Runtime(options={"npu.memory": "64MiB"}) as runtime:
        print(runtime.devices(), runtime.default_device.counters["launch_count"] + 1)
    try:
        bp.asarray(np.arange(3)).astype(bool)
        bp.asarray([x, [np.arange(3), [1, x[0], np.float32(2)]]])
        x[0] = [x[1, 0], 2.5]
        print(f"{x[0, 0]:.2f}", format(x))
        inspect(bp.load("model.onnx", device=device, dims={"N": (1, None), "M": 4}))
    except bp.MissingFileError as error:
        print(error.status, error.filename)
'''

WRONG = '''
import backplane as bp
from backplane import ops

x = bp.ones(3)
bp.nonsense
bp.zeros("a")
bp.zeros(3, dtype=3)
ops.softmax(x, axes=1)
ops.cast(x)
ops.add(x, "a")
ops.top_k(x, 1).values
y: int = x + 1
x.shape = (3,)
x["a"]
x["a"] = 1
x @ 3
flag: bp.bool = True
class Mine(bp.Tensor): pass
x.sum(dtype=3)
x.to_device("cpu:0", stream=3)
bp.load("model.onnx")(x, timeout=5)
bp.load("model.onnx", "cpu:0")
size: int = bp.load("model.onnx").inputs[0].name
bp.load("model.onnx").placement.nonsense
'''


@pytest.fixture(autouse=True)
def stub():
    if not (PACKAGE / "_core.pyi").is_file():
        pytest.skip("builds with a sanitizer write no stub")


def mypy(folder, *files):
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent", "--no-color-output",
         f"--cache-dir={folder / 'cache'}", *map(str, files)],
        capture_output=True, text=True, timeout=300, cwd=folder,
        env={**os.environ, "MYPYPATH": str(PACKAGE.parent)},
    )
    assert not done.stderr, done.stderr
    return done.stdout


def test_mypy(tmp_path):
    right, wrong = tmp_path / "right.py", tmp_path / "wrong.py"
    right.write_text(RIGHT)
    wrong.write_text(WRONG)
    array_api = sorted(PACKAGE.glob("array_api/*.py"))
    assert len(array_api) > 20
    found = mypy(tmp_path, right, wrong, *(PACKAGE / name for name in CHECKED), *array_api)
    errors = re.findall(r"^(.*?):(\d+): error: ", found, re.MULTILINE)
    assert {file for file, _ in errors} == {"wrong.py"}, found
    first = WRONG.splitlines().index("x = bp.ones(3)") + 2
    expected = set(range(first, len(WRONG.splitlines()) + 1))
    assert {int(line) for _, line in errors} == expected, found


def names_in(body):
    """What statements of a stub define, with what classes define below them."""
    names = {}
    for statement in body:
        if isinstance(statement, ast.AnnAssign):
            names[statement.target.id] = {}
        elif isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
            inside = statement.body if isinstance(statement, ast.ClassDef) else []
            names[statement.name] = names_in(inside)
    return names


def test_the_stub_has_every_name():
    assert (PACKAGE / "py.typed").is_file()
    text = (PACKAGE / "_core.pyi").read_text()
    found = names_in(ast.parse(text).body)
    assert {name for name in dir(bp._core) if not name.startswith("__")} <= set(found)
    vague = re.findall(r"^.*def .*(?:-> object: *\.*|\):)$", text, re.MULTILINE)
    assert not vague, "no pattern of python/stubs says their types"
    for kind in (bp.Tensor, bp.Device, bp.Session, bp.Stream):
        public = {name for name in vars(kind) if not name.startswith("_")}
        assert public and public <= set(found[kind.__name__])


def test_all_names_are_exported():
    """`__all__` is written out; nothing public is missing in it, and nothing hides Python's own."""
    public = {
        name for name, value in vars(bp).items()
        if not name.startswith("_") and not inspect.ismodule(value)
    }
    assert public - set(bp.__all__) == {"bool", "TYPE_CHECKING"}
    assert all(hasattr(bp, name) for name in bp.__all__) and bp.__all__ == sorted(set(bp.__all__))
    space = {}
    exec("from backplane import *", space)
    assert "bool" not in space and space["Tensor"] is bp.Tensor and space["ops"] is bp.ops
