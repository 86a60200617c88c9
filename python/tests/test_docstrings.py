# SPDX-License-Identifier: Apache-2.0
"""help() has words and types for all that is public, and says of arguments what the stub says."""

import ast
import inspect
import pathlib
import re

import pytest

import backplane as bp
import backplane.array_api as xp

STUB = pathlib.Path(bp.__file__).parent / "_core.pyi"
CLASSES = [value for value in (getattr(bp, name) for name in bp.__all__) if inspect.isclass(value)]
SIGNATURE = re.compile(r"^\w*\(.*\) -> .+$")


def functions():
    for name in bp.__all__:
        value = getattr(bp, name)
        if not isinstance(value, bp.Dtype):
            yield name, value
    for kind in CLASSES:
        fields = getattr(kind, "_fields", ("status", "op"))  # the docstring of the class has them
        for name, value in vars(kind).items():
            if not name.startswith("_") and name not in fields:
                yield f"{kind.__name__}.{name}", value
    for module in (bp.ops, xp, xp.linalg, xp.fft):
        for name in module.__all__:
            value = getattr(module, name)
            if callable(value):
                yield f"{module.__name__}.{name}", value


def words_of(value):
    """The docstring without the signature that the extension puts before it."""
    first, _, rest = (value.__doc__ or "").strip().partition("\n")
    return rest.strip() if SIGNATURE.match(first) else first


PUBLIC = dict(functions())


def test_all_that_is_public_is_looked_at():
    assert len(PUBLIC) > 400
    assert {"Tensor.shape", "Runtime.device", "zeros_like", "Dtype.itemsize", "ops",
            "backplane.array_api.linalg.svd", "Cancel.request"} <= set(PUBLIC)


def test_all_have_docstrings():
    without = {name for name, value in PUBLIC.items() if not words_of(value)}
    assert without == set()


@pytest.mark.parametrize("name", ["plugin_path", "install_dir", "options"])
def test_arguments_of_a_runtime(name):
    assert f"{name}: " in bp.Runtime.__doc__


def stub_arguments(node):
    """(name, kind, default) of each argument of a function in the stub."""
    arguments = node.args
    missing = len(arguments.args) - len(arguments.defaults)
    found = [(one.arg, "", ast.unparse(arguments.defaults[i - missing]) if i >= missing else None)
             for i, one in enumerate(arguments.args)]
    found += [(one.arg, "*", None if default is None else ast.unparse(default))
              for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    return found


def stub_functions():
    tree = ast.parse(STUB.read_text())
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef):
                    yield f"{node.name}.{inner.name}", inner


def extension_functions():
    """Those that nanobind made, as their docstrings begin with what they take."""
    for name, value in PUBLIC.items():
        first = (getattr(value, "__doc__", None) or "").partition("\n")[0]
        if type(value).__name__ in ("nb_func", "nb_method") and SIGNATURE.match(first):
            yield name, first


def test_help_has_the_types_of_arguments():
    if not STUB.is_file():
        pytest.skip("builds with a sanitizer write no stub")
    of_stub = dict(stub_functions())
    looked_at = 0
    for name, signature in extension_functions():
        text = signature.replace("backplane._core.", "")
        given = ast.parse(f"def {text}: ...").body[0]
        assert stub_arguments(given) == stub_arguments(of_stub[name]), name
        vague = [one for one in re.findall(r": object \| None|-> object", text)]
        assert not vague, f"{name}: no nb::sig says its types: {signature}"
        looked_at += 1
    assert looked_at > 30
